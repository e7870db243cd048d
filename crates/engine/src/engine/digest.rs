//! Tells a repeated request from a different one.
//!
//! White space, the order of members, and whether what is empty is written or left out make no other request
//! (basic/run-input, "tools", "context", "state").

use runwire_agui::{ResumeEntry, RunAgentInput};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::request::{CreateRun, RunRequest};

/// Tells repeated answers from different ones.
///
/// `run_id` is what they answer, in whatever words its caller has for that. 32 hexadecimal digits; the order of the answers and of
/// the members in them makes no difference.
pub fn answers_digest(run_id: &str, answers: &[ResumeEntry]) -> String {
    let mut answers: Vec<&ResumeEntry> = answers.iter().collect();
    answers.sort_by(|a, b| a.interrupt_id.cmp(&b.interrupt_id));
    digest_of(serde_json::to_value(("resume", run_id, answers)).unwrap_or_default())
}

/// The digest of an input to an agent.
pub(super) fn input_digest(agent_id: &str, input: &RunAgentInput) -> String {
    digest_of(json!([agent_id, without_what_is_empty(input)]))
}

/// The digest that stores have of an input to an agent from when a list that is empty was another input than one that is
/// left out. No digest of today is one of these by chance: an input without anything empty has the same one then and now, and one
/// with something empty had one that no input has now.
pub(super) fn former_input_digest(agent_id: &str, input: &RunAgentInput) -> String {
    digest_of(json!([agent_id, input]))
}

/// Whether this is the digest that a store from then has of the request.
pub(super) fn is_former(digest: &str, agent_id: &str, request: &RunRequest) -> bool {
    match request {
        // The input that is made of it has nothing empty, and ids that no other has.
        RunRequest::Prompt { .. } => false,
        RunRequest::Input(input) => digest == former_input_digest(agent_id, input),
    }
}

/// The digest of a request that has a key: of what its sender wrote, never of what is made for it, such as ids.
pub(super) fn request_digest(create: &CreateRun) -> String {
    request_digest_of(create, without_what_is_empty)
}

/// The digest that stores have of such a request from when it was told apart what is empty and what is left out.
pub(super) fn former_request_digest(create: &CreateRun) -> String {
    request_digest_of(create, |input| json!(input))
}

fn request_digest_of(create: &CreateRun, said_by: impl FnOnce(&RunAgentInput) -> Value) -> String {
    let asked = match &create.request {
        RunRequest::Prompt { prompt, .. } => json!({ "prompt": prompt }),
        RunRequest::Input(input) => json!({ "input": said_by(input) }),
    };
    digest_of(json!({
        "agent_id": create.agent_id,
        "asked": asked,
        "session_id": create.request.session_id(),
        "lane": create.lane,
        "metadata": create.metadata,
    }))
}

/// The input as one that leaves out what is empty: the lists that mean the same when they are absent, and a state of nothing.
fn without_what_is_empty(input: &RunAgentInput) -> Value {
    let mut value = json!(input);
    if let Value::Object(members) = &mut value {
        for list in ["tools", "context", "resume"] {
            if members.get(list).and_then(Value::as_array).is_some_and(Vec::is_empty) {
                members.shift_remove(list);
            }
        }
        if members.get("state").and_then(Value::as_object).is_some_and(|state| state.is_empty()) {
            members.shift_remove("state");
        }
    }
    value
}

/// 32 hexadecimal digits.
fn digest_of(mut canonical: Value) -> String {
    // Members have no order in JSON, and a client that builds its state anew may write them in another.
    canonical.sort_all_objects();
    let canonical = canonical.to_string().into_bytes();
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &canonical).simple().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::Map;

    use super::*;

    fn input(more: &Value) -> RunAgentInput {
        let mut input = json!({"threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0"});
        let more: Map<String, Value> = serde_json::from_value(more.clone()).unwrap();
        input.as_object_mut().unwrap().extend(more);
        RunAgentInput::decode_value(input).unwrap().0
    }

    #[test]
    fn what_is_empty_is_the_same_input_as_what_is_left_out() {
        let absent = input_digest("a", &input(&json!({})));
        for empty in [json!({"tools": []}), json!({"context": []}), json!({"resume": []}), json!({"state": {}})] {
            assert_eq!(input_digest("a", &input(&empty)), absent, "{empty}");
        }
        let all = json!({"tools": [], "context": [], "resume": [], "state": {}});
        assert_eq!(input_digest("a", &input(&all)), absent);
        // What is empty and means something of its own, and what is not empty.
        let context = json!({"context": [{"description": "d", "value": ""}]});
        for other in [json!({"state": []}), json!({"state": {"a": {}}}), json!({"forwardedProps": {}}), context] {
            assert_ne!(input_digest("a", &input(&other)), absent, "{other}");
        }
        assert_ne!(input_digest("b", &input(&json!({}))), absent, "another agent is asked something else");
    }

    /// Stores hold these: they are as they were made when they were first written.
    #[test]
    fn a_digest_that_a_store_holds_is_made_as_it_was() {
        let whole = input(&json!({"tools": [], "state": {"b": 1, "a": []}}));
        assert_eq!(former_input_digest("a", &whole), "0358b99d52805d94901a7749ebc02fa4");
        assert_eq!(input_digest("a", &input(&json!({"state": {"b": 1, "a": []}}))), "e4efb6074e6b5a82b457850213b3f420");
        let create = CreateRun {
            agent_id: "a".to_owned(),
            request: RunRequest::Input(Box::new(whole)),
            lane: None,
            metadata: Value::Null,
            principal: None,
            trigger_kind: "api",
        };
        assert_eq!(former_request_digest(&create), "668dd9227f505b459c46c13a27168124");
        assert_ne!(former_request_digest(&create), request_digest(&create));
        assert!(is_former("0358b99d52805d94901a7749ebc02fa4", "a", &create.request));
    }
}
