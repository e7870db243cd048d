//! What an agent of this server asks: interrupts that can be answered, and the suspension that asks them.

use runwire_agui::Interrupt;
use runwire_frame::{SuspendKind, Timestamp};
use serde_json::{Map, Value, json};

use crate::ending::Suspension;

/// One thing that a run asks from outside. [`Suspension::asking`] makes a run wait for the answers of one or several.
///
/// Its id is the driver's to choose where it is not a tool call's approval; it tells the answers of one run apart, so it
/// is not to be used for two questions of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    interrupt: Interrupt,
    kind: SuspendKind,
}

impl Question {
    /// Whether the tool call may be executed. The answer is `{"approved": true}` or `{"approved": false}`, and may say more
    /// where [`Question::schema`] allows it. The call has to be open and without a result, so that it can go on.
    ///
    /// The id is `approval_` and the call's.
    pub fn approval(tool_call_id: &str) -> Question {
        let mut interrupt = Interrupt::new(format!("approval_{tool_call_id}"), "tool_call");
        interrupt.tool_call_id = Some(tool_call_id.to_owned());
        Question { interrupt, kind: SuspendKind::Approval }.schema(Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), json!({ "approved": { "type": "boolean" } })),
            ("required".to_owned(), json!(["approved"])),
        ]))
    }

    /// A value: any, unless [`Question::schema`] says which.
    pub fn input(id: impl Into<String>) -> Question {
        Question { interrupt: Interrupt::new(id, "input_required"), kind: SuspendKind::Input }
    }

    /// What to ask, for the person who answers.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Question {
        self.interrupt.message = Some(message.into());
        self
    }

    /// The JSON Schema of the answer; another answer is refused before the run goes on. References lead into the schema
    /// itself only. A run that asks with a schema that is none fails.
    #[must_use]
    pub fn schema(mut self, schema: Map<String, Value>) -> Question {
        self.interrupt.response_schema = Some(schema);
        self
    }

    /// More for the program that shows it, open by key.
    #[must_use]
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Question {
        self.interrupt.metadata = Some(metadata);
        self
    }

    /// The id that an answer names.
    pub fn id(&self) -> &str {
        &self.interrupt.id
    }
}

impl Suspension {
    /// Waits until each of these questions is answered or given up. It is an approval if every one of them is.
    ///
    /// The prompt is the message of the first that has one. No deadline, unless the agent's configuration has one.
    pub fn asking(first: Question, more: impl IntoIterator<Item = Question>) -> Suspension {
        let questions: Vec<Question> = std::iter::once(first).chain(more).collect();
        let approval = questions.iter().all(|question| question.kind == SuspendKind::Approval);
        let prompt = questions.iter().find_map(|question| question.interrupt.message.clone());
        let interrupts: Vec<Interrupt> = questions.into_iter().map(|question| question.interrupt).collect();
        let interrupts = serde_json::to_value(interrupts).expect("interrupts are plain JSON");
        Suspension {
            kind: if approval { SuspendKind::Approval } else { SuspendKind::Input },
            contract: Map::from_iter([("interrupts".to_owned(), interrupts)]),
            prompt,
            deadline: None,
            usage: Vec::new(),
            agui: None,
        }
    }

    /// The same, until this time. Then the agent's configured rule answers, or fails the run.
    #[must_use]
    pub fn until(self, deadline: Timestamp) -> Suspension {
        Suspension { deadline: Some(deadline), ..self }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_asked_is_the_contract_and_an_approval_only_if_all_of_it_is() {
        let approval = Question::approval("call_1").message("Delete it?");
        let asked = Suspension::asking(approval.clone(), []).until(Timestamp::from_unix_millis(5));
        assert_eq!(asked.kind, SuspendKind::Approval);
        assert_eq!(
            (asked.prompt.as_deref(), asked.deadline),
            (Some("Delete it?"), Some(Timestamp::from_unix_millis(5)))
        );
        assert_eq!(
            Value::Object(asked.contract),
            json!({ "interrupts": [{
                "id": "approval_call_1", "reason": "tool_call", "message": "Delete it?", "toolCallId": "call_1",
                "responseSchema": {
                    "type": "object", "properties": { "approved": { "type": "boolean" } }, "required": ["approved"],
                },
            }] })
        );
        let mixed = Suspension::asking(approval, [Question::input("colour")]);
        assert_eq!(mixed.kind, SuspendKind::Input);
        assert_eq!(mixed.contract["interrupts"][1]["id"], "colour");
    }
}
