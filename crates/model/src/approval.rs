//! Which tool calls a person has to allow first, how that is asked, and what the answer says.

use runwire_agui::{Interrupt, ResumeEntry, ResumeStatus};
use serde_json::{Map, Value, json};

use crate::tool::Arguments;

/// When a tool's calls have to be allowed.
#[derive(Clone, Debug, Default)]
pub enum Approval {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// When this pattern is found in the arguments, written as JSON without white space and with no escape that could be the
    /// character itself. Arguments that are no JSON object are never executed, so they need no approval.
    Arguments(regex::Regex),
}

impl Approval {
    pub(crate) fn is_needed(&self, arguments: &Arguments) -> bool {
        match self {
            Approval::Never => false,
            Approval::Always => true,
            Approval::Arguments(pattern) => pattern.is_match(arguments.as_json()),
        }
    }
}

/// What a person decided about a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// It may be made as it was recorded.
    Approved,
    /// It may be made with these arguments.
    Edited(Map<String, Value>),
    /// It must not be made; perhaps why.
    Denied(Option<String>),
}

impl Decision {
    /// What an answer says. Only a clear yes is one.
    pub fn of(entry: Option<&ResumeEntry>) -> Decision {
        let Some(entry) = entry else { return Decision::Denied(None) };
        let payload = entry.payload.as_ref();
        let reason = payload.and_then(|payload| payload.get("reason")?.as_str()).map(str::to_owned);
        let approved = payload.and_then(|payload| payload.get("approved")?.as_bool()) == Some(true);
        if entry.status != ResumeStatus::Resolved || !approved {
            return Decision::Denied(reason);
        }
        match payload.and_then(|payload| payload.get("editedArgs")) {
            None | Some(Value::Null) => Decision::Approved,
            Some(Value::Object(edited)) => Decision::Edited(edited.clone()),
            // Whoever meant to change the arguments did not allow the call as it is.
            Some(_) => Decision::Denied(Some("the edited arguments were no JSON object".to_owned())),
        }
    }
}

/// In the metadata of an interrupt: what was recorded of the arguments is not what the call was made with.
const REDACTED: &str = "redacted";

/// The call that is asked about.
pub(crate) struct Asked {
    pub arguments: Arguments,
    /// What is recorded of them, where something was taken out. Then the call as it was made is known to nobody later, and it
    /// can be allowed only with arguments that come with the answer.
    pub kept: Option<Arguments>,
}

/// Whether the call of this interrupt can be allowed only with other arguments.
pub(crate) fn wants_arguments(interrupt: &Interrupt) -> bool {
    interrupt.metadata.as_ref().and_then(|metadata| metadata.get(REDACTED)) == Some(&Value::Bool(true))
}

/// What is asked about a call. Everything in it is what this server recorded.
pub(crate) fn interrupt(tool_call_id: &str, name: &str, asked: Asked, parameters: &Value) -> Interrupt {
    let Asked { arguments, kept } = asked;
    let redacted = kept.is_some();
    let arguments = kept.unwrap_or(arguments);
    let mut schema = json!({
        "type": "object",
        "properties": {
            "approved": { "type": "boolean", "description": "Whether the call may be made" },
            "editedArgs": edited_schema(parameters),
            "reason": { "type": "string", "description": "Why not; the model is told" },
        },
        "required": ["approved"],
    });
    let mut metadata = json!({ "toolName": name, "arguments": arguments.value() });
    let mut message = format!("Allow `{name}` with {}?", shortened(arguments.as_json()));
    if redacted {
        metadata[REDACTED] = json!(true);
        message.push_str(" What was taken out has to be given again, in `editedArgs`.");
        schema["if"] = json!({ "properties": { "approved": { "const": true } } });
        schema["then"] = json!({ "required": ["editedArgs"] });
    }
    Interrupt {
        message: Some(message),
        tool_call_id: Some(tool_call_id.to_owned()),
        response_schema: schema.as_object().cloned(),
        metadata: metadata.as_object().cloned(),
        ..Interrupt::new(format!("approval_{tool_call_id}"), "tool_approval")
    }
}

/// Arguments that take the place of the model's have to be some that the tool takes.
fn edited_schema(parameters: &Value) -> Value {
    let mut schema = match parameters {
        Value::Object(schema) => schema.clone(),
        _ => Map::new(),
    };
    // A schema inside of another has neither.
    schema.shift_remove("$schema");
    schema.shift_remove("$id");
    schema.insert("type".to_owned(), json!("object"));
    // Definitions are looked up from the root, where these are not: without a schema is better than with one that cannot be read.
    if parameters.to_string().contains("\"$ref\"") {
        return json!({ "type": "object" });
    }
    Value::Object(schema)
}

/// So much of the arguments is in the question; all of them are beside it.
fn shortened(arguments: &str) -> String {
    const SHOWN: usize = 200;
    match arguments.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &arguments[..end]),
        None => arguments.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn answer(status: ResumeStatus, payload: Value) -> Decision {
        Decision::of(Some(&ResumeEntry { payload: Some(payload), ..ResumeEntry::new("i", status) }))
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let resolved = ResumeStatus::Resolved;
        assert_eq!(answer(resolved, json!({ "approved": true })), Decision::Approved);
        let edited = Map::from_iter([("n".to_owned(), json!(1))]);
        assert_eq!(answer(resolved, json!({ "approved": true, "editedArgs": { "n": 1 } })), Decision::Edited(edited));
        let why = json!({ "approved": false, "reason": "too dear" });
        assert_eq!(answer(resolved, why), Decision::Denied(Some("too dear".to_owned())));
        for no in [json!({ "approved": "true" }), json!(true), json!({}), json!("yes"), json!({ "approved": 1 })] {
            assert_eq!(answer(resolved, no.clone()), Decision::Denied(None), "{no}");
        }
        assert!(matches!(answer(resolved, json!({ "approved": true, "editedArgs": "x" })), Decision::Denied(Some(_))));
        assert_eq!(answer(ResumeStatus::Cancelled, json!({ "approved": true })), Decision::Denied(None));
        assert_eq!(Decision::of(None), Decision::Denied(None), "who says nothing allows nothing");
    }

    #[test]
    fn a_pattern_cannot_be_written_around() {
        let approval = Approval::Arguments(regex::Regex::new(r#""path":"/etc"#).unwrap());
        for arguments in [r#"{"path":"/etc/x"}"#, "{ \"path\" :\n \"/etc/x\" }", r#"{"p\u0061th":"\/etc/x"}"#] {
            assert!(approval.is_needed(&Arguments::parse(arguments).unwrap()), "{arguments}");
        }
        // Of a member that is there twice the last counts, for the pattern as for the tool.
        let twice = Arguments::parse(r#"{"path":"/tmp","path":"/etc/x"}"#).unwrap();
        assert!(approval.is_needed(&twice));
        assert_eq!(twice.value()["path"], "/etc/x");
        assert!(!approval.is_needed(&Arguments::parse(r#"{"path":"/tmp"}"#).unwrap()));
    }
}
