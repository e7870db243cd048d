//! Run inputs from clients of any age (basic/run-input).
#![allow(clippy::unwrap_used)]

use runwire_agui::{Content, ContentPart, InputError, Message, RunAgentInput, WarningRule};
use serde_json::{Value, json};

fn decode(input: Value) -> (RunAgentInput, Vec<(WarningRule, String)>) {
    let (input, warnings) = RunAgentInput::decode(input.to_string().as_bytes()).unwrap();
    (input, warnings.into_iter().map(|warning| (warning.rule, warning.path.unwrap())).collect())
}

fn malformed(input: Value) -> (String, String, String) {
    match RunAgentInput::decode(input.to_string().as_bytes()) {
        Err(InputError::Malformed { path, expected, found }) => (path, expected, found),
        other => panic!("{other:?}"),
    }
}

#[test]
fn three_members_suffice_and_absent_lists_are_empty_ones() {
    let (input, warnings) = decode(json!({"threadId": "t", "runId": "r", "messages": []}));
    assert_eq!(warnings, []);
    assert!(input.tools().is_empty() && input.context().is_empty() && input.resume().is_empty());
    assert_eq!(input.starting_state(), json!({}));
}

#[test]
fn an_input_of_the_released_client_is_read_without_a_warning() {
    let (input, warnings) = decode(json!({
        "threadId": "t", "runId": "r", "protocolVersion": "1.0", "tools": [], "context": [], "forwardedProps": {}, "state": {},
        "messages": [{"id": "u", "role": "user", "content": "hi"}],
        "resume": [{"interruptId": "i", "status": "resolved", "payload": {"approved": true}}],
    }));
    assert_eq!(warnings, []);
    assert_eq!(input.protocol_version.as_deref(), Some("1.0"));
    assert_eq!(input.resume()[0].interrupt_id, "i");
}

#[test]
fn an_input_of_a_client_before_1_0_is_read_too() {
    let (input, warnings) = decode(json!({
        "threadId": "t", "runId": "r", "state": null, "forwardedProps": null, "parentRunId": null,
        "tools": [{"name": "f", "description": "d", "parameters": null}], "context": [],
        "messages": [
            {"id": "a", "role": "assistant", "content": null, "toolCalls": null},
            {"id": "u", "role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "binary", "mimeType": "image/png", "url": "https://example.com/x.png", "filename": "x.png"},
                {"type": "binary", "mimeType": "application/pdf", "data": "AAAA"},
            ]},
        ],
    }));
    let Message::User(user) = &input.messages[1] else { panic!() };
    let Content::Parts(parts) = &user.content else { panic!() };
    assert!(matches!(&parts[..], [ContentPart::Text(_), ContentPart::Image(_), ContentPart::Document(_)]));
    assert_eq!(
        serde_json::to_value(&parts[1]).unwrap(),
        json!({"type": "image", "metadata": {"filename": "x.png"},
        "source": {"type": "url", "value": "https://example.com/x.png", "mimeType": "image/png"}})
    );
    assert_eq!(input.starting_state(), json!({}));
    let paths: Vec<&str> = warnings.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/state",
            "/forwardedProps",
            "/tools/0/parameters",
            "/messages/1/content/1",
            "/messages/1/content/2",
            "/parentRunId",
            "/messages/0/content",
            "/messages/0/toolCalls",
        ]
    );
}

#[test]
fn a_null_from_a_client_of_1_0_is_malformed_but_for_the_state_that_a_snapshot_made_null() {
    let input = json!({"threadId": "t", "runId": "r", "protocolVersion": "1.0", "state": null, "messages": []});
    assert_eq!(decode(input.clone()).0.state, None);
    let mut input = input;
    input["parentRunId"] = Value::Null;
    assert_eq!(malformed(input).0, "/parentRunId");
}

#[test]
fn unrecognised_members_are_left_out_with_a_warning() {
    let (input, warnings) = decode(json!({
        "threadId": "t", "runId": "r", "protocolVersion": "1.0", "newer": 1,
        "messages": [{"id": "u", "role": "user", "content": "hi", "mood": "fine"}, {"id": "o", "role": "oracle"}],
    }));
    assert_eq!(input.messages.len(), 1);
    let (property, member) = (WarningRule::UnknownProperty, WarningRule::UnknownMember);
    assert_eq!(
        warnings,
        [(property, "/newer".into()), (property, "/messages/0/mood".into()), (member, "/messages/1".into())]
    );
}

#[test]
fn a_malformed_member_is_refused_with_its_path() {
    let valid = json!({"threadId": "t", "runId": "r", "messages": []});
    let with = |member: &str, value: Value| {
        let mut input = valid.clone();
        input[member] = value;
        malformed(input)
    };
    let strings =
        |(path, expected, found): (&str, &str, &str)| (path.to_owned(), expected.to_owned(), found.to_owned());
    assert_eq!(with("threadId", json!(1)), strings(("/threadId", "a string", "the number 1")));
    assert_eq!(with("messages", json!(null)), strings(("/messages", "a list", "null")));
    assert_eq!(
        with("messages", json!([{"id": 1, "role": "user", "content": ""}])),
        strings(("/messages/0/id", "a string", "the number 1"))
    );
    assert_eq!(with("tools", json!({})), strings(("/tools", "a list", "an object")));
    assert_eq!(
        with("resume", json!([{"status": "resolved"}])),
        strings(("/resume/0/interruptId", "a string", "nothing"))
    );
    assert_eq!(malformed(json!({"threadId": "t", "messages": []})), strings(("/runId", "a string", "nothing")));
    assert_eq!(malformed(json!([])), strings(("/", "an object", "an array")));
    assert!(matches!(RunAgentInput::decode(b"{"), Err(InputError::NotJson(_))));
}

#[test]
fn an_input_is_echoed_as_it_came() {
    for input in [
        json!({"threadId": "t", "runId": "r", "messages": []}),
        json!({"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "resume": []}),
    ] {
        assert_eq!(serde_json::to_value(decode(input.clone()).0).unwrap(), input);
    }
}

#[test]
fn bytes_that_come_in_both_the_retired_and_the_current_shape_are_kept_once() {
    let (input, _) =
        decode(json!({"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": [
            {"type": "binary", "mimeType": "image/png", "data": "AAAA"},
            {"type": "text", "text": "look"},
            {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
        ]}]}));
    let Message::User(user) = &input.messages[0] else { panic!() };
    let Content::Parts(parts) = &user.content else { panic!() };
    assert!(matches!(&parts[..], [ContentPart::Text(_), ContentPart::Image(_)]));
}

#[test]
fn a_binary_part_that_carries_only_an_id_has_no_bytes_and_is_left_out() {
    let (input, warnings) = decode(json!({"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user",
        "content": [{"type": "binary", "mimeType": "image/png", "id": "x"}]}]}));
    let Message::User(user) = &input.messages[0] else { panic!() };
    assert_eq!(user.content, Content::Parts(vec![]));
    assert_eq!(warnings, [(WarningRule::UnknownMember, "/messages/0/content/0".to_owned())]);
}
