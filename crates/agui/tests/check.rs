//! Recorded streams, judged.
#![allow(clippy::unwrap_used)]

use runwire_agui::{CheckError, RunAgentInput, check};
use serde_json::{Value, json};

fn report(stream: &[u8]) -> Value {
    serde_json::to_value(check(stream, None).unwrap()).unwrap()
}

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;

#[test]
fn the_report_has_exactly_the_documented_members() {
    let stream = format!(
        "{STARTED}\n{}\n{}\n{FINISHED}\n",
        r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"hi","new":1}"#,
        r#"{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}"#
    );
    let text = serde_json::to_string(&check(stream.as_bytes(), None).unwrap()).unwrap();
    let expected = json!({
        "outcome": "completed",
        "error": null,
        "warnings": [{"rule": "unknown-property", "message": "TEXT_MESSAGE_CHUNK carries /new, which AG-UI 1.0 does not describe; it was stripped.", "event": 1, "path": "/new"}],
        "runs": [{"thread_id": "t", "run_id": "r", "ending": "success", "message": null}],
        "events": [
            serde_json::from_str::<Value>(STARTED).unwrap(),
            {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "hi"},
            {"type": "TEXT_MESSAGE_END", "messageId": "m"},
            {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}},
            serde_json::from_str::<Value>(FINISHED).unwrap(),
        ],
        "messages": [{"role": "assistant", "id": "m", "content": "hi"}],
        "state": {"n": 1},
    });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    let order = ["outcome", "error", "warnings", "runs", "events", "messages", "state"];
    let members: Vec<String> = expected.as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, order);
    assert!(text.starts_with(r#"{"outcome":"completed","error":null,"warnings":["#));
}

#[test]
fn every_form_of_the_same_stream_is_judged_alike() {
    let lines = report(format!("{STARTED}\n\n{FINISHED}").as_bytes());
    assert_eq!(lines["outcome"], "completed");
    for stream in [
        format!("\u{feff}{STARTED}\r\n{FINISHED}\r\n"),
        format!(" [{STARTED},\n{FINISHED}]\n"),
        format!("\u{feff}[{STARTED},{FINISHED}]"),
        format!("data: {STARTED}\n\ndata: {FINISHED}\n\n"),
        format!(": hello\r\n\r\nid: 1\r\ndata: {STARTED}\r\n\r\nevent: x\r\ndata: {FINISHED}\r\n\r\n"),
        format!("\n\nretry: 100\n\ndata:{STARTED}\n\ndata:{FINISHED}\n\n"),
    ] {
        assert_eq!(report(stream.as_bytes()), lines, "{stream:?}");
    }
}

#[test]
fn a_truncated_stream_is_neither_completed_nor_rejected_and_keeps_what_it_delivered() {
    let chunk = r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"half an ans"}"#;
    let report = report(format!("data: {STARTED}\n\ndata: {chunk}\n\ndata: {FINISHED}\n").as_bytes());
    assert_eq!(report["outcome"], "truncated");
    assert_eq!(report["error"], Value::Null);
    assert_eq!(report["runs"], json!([{"thread_id": "t", "run_id": "r", "ending": "truncated", "message": null}]));
    assert_eq!(report["messages"][0]["content"], "half an ans");
    assert_eq!(report["warnings"][0]["rule"], "unterminated-event");
    // Nothing is made up for what did not come.
    assert_eq!(report["events"].as_array().unwrap().len(), 3);
}

#[test]
fn an_empty_stream_is_truncated() {
    for stream in ["", " \n", ": only a comment\n\n", "\u{feff}"] {
        let report = report(stream.as_bytes());
        assert_eq!((&report["outcome"], &report["runs"]), (&json!("truncated"), &json!([])), "{stream:?}");
    }
}

#[test]
fn a_rejected_stream_names_the_rule_and_the_event_and_keeps_what_came_before() {
    let report = report(format!("{STARTED}\n{}\n{FINISHED}", r#"{"type":"STEP_STARTED","stepName":"s"}"#).as_bytes());
    assert_eq!(report["outcome"], "rejected");
    assert_eq!((&report["error"]["rule"], &report["error"]["event"]), (&json!("step-open-at-finish"), &json!(2)));
    assert_eq!(report["events"].as_array().unwrap().len(), 2);
    assert_eq!(report["runs"][0]["ending"], "truncated");
}

#[test]
fn a_syntax_error_inside_an_event_is_a_rejection() {
    for stream in [format!("data: {STARTED}\n\ndata: {{\n\n"), format!("{STARTED}\n{{\n")] {
        let report = report(stream.as_bytes());
        assert_eq!((&report["outcome"], &report["error"]["rule"]), (&json!("rejected"), &json!("malformed-json")));
        assert_eq!(report["error"]["event"], 1);
    }
}

#[test]
fn a_reported_failure_is_no_rejection() {
    let report = report(br#"{"type":"RUN_ERROR","message":"unreachable"}"#);
    assert_eq!(report["outcome"], "completed");
    assert_eq!(
        report["runs"],
        json!([{"thread_id": null, "run_id": null, "ending": "error", "message": "unreachable"}])
    );
}

#[test]
fn a_recording_in_no_known_form_cannot_be_judged() {
    assert!(matches!(check(b"<html>", None), Err(CheckError::UnknownForm(_))));
    assert!(matches!(check(b"[{", None), Err(CheckError::NotAnArray(_))));
}

#[test]
fn the_client_starts_from_the_messages_and_the_state_of_the_input() {
    let input = json!({"threadId": "t", "runId": "r", "state": {"n": 1}, "messages": [{"id": "u", "role": "user", "content": "hi"}]});
    let (input, _) = RunAgentInput::decode_value(input).unwrap();
    let delta = r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}"#;
    let report = check(format!("{STARTED}\n{delta}\n{FINISHED}").as_bytes(), Some(input)).unwrap();
    assert_eq!((report.state, report.messages.len()), (json!({"n": 2}), 1));
}
