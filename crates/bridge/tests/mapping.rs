//! The table "AG-UI on frames", row by row: into frames, and out of them again.

#![allow(clippy::unwrap_used)]

mod log;

use log::{Log, Relay, THREAD, event, events, input, relayed, relayed_whole};
use runwire_agui::Event;
use runwire_frame::{ErrorCode, FrameType};
use serde_json::{Value, json};

fn started() -> Value {
    json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": "exchange-1"})
}

fn finished(outcome: Value) -> Value {
    let mut value = json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": "exchange-1"});
    if !outcome.is_null() {
        value["outcome"] = outcome;
    }
    value
}

/// The frames that these events became, without the course of the run around them, as type and segment.
fn content(log: &Log) -> Vec<(FrameType, Option<&str>)> {
    let course = [FrameType::RunStart, FrameType::RunStatus, FrameType::RunEnd];
    let frames = log.frames.iter().filter(|f| !course.contains(&f.data.frame_type()));
    frames.map(|f| (f.data.frame_type(), f.segment_id.as_ref().map(|s| s.as_str()))).collect()
}

/// The events between the run's start and its end, which must be the ones that went in.
fn assert_back(log: &Log, sent: &[Value]) {
    let got = log.project_json();
    assert_eq!(&got[1..got.len() - 1], sent);
}

#[test]
fn run_started_is_run_start_for_the_first_exchange() {
    let mut start = started();
    start["parentRunId"] = "parent".into();
    start["input"] = json!({"threadId": THREAD, "runId": "exchange-1", "messages": [], "state": {"n": 1}});
    start["metadata"] = json!({"k": 1});
    let log = relayed_whole(vec![start.clone(), finished(Value::Null)]);
    let data = &log.data(FrameType::RunStart)[0];
    assert_eq!(data["session_id"], THREAD);
    assert_eq!(data["agui"]["runId"], "exchange-1");
    assert_eq!(data["agui"]["parentRunId"], "parent");
    assert_eq!(data["agui"]["input"], start["input"]);
    start["protocolVersion"] = "1.0".into();
    assert_eq!(log.project_json()[0], event(start).to_value());
}

#[test]
fn run_started_is_resume_for_later_exchanges() {
    let interrupt = json!({"type": "interrupt", "interrupts": [{"id": "i1", "reason": "approval"}]});
    let mut relay = Relay::new("run_1");
    relay.exchange(&input("exchange-1"), &events(vec![started(), finished(interrupt)]), &[]);
    let second = [
        json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": "exchange-2"}),
        json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": "exchange-2"}),
    ];
    relay.exchange(&input("exchange-2"), &events(second.to_vec()), &[]);
    relay.log.assert_legal_and_ended();
    assert_eq!(relay.log.data(FrameType::RunStart).len(), 1);
    let resume = &relay.log.data(FrameType::Resume)[0];
    assert_eq!(resume["agui"]["runId"], "exchange-2");
    assert_eq!(resume["resolved_by"], "user");
    let got = relay.log.project_json();
    assert_eq!((&got[2]["type"], &got[2]["runId"]), (&json!("RUN_STARTED"), &json!("exchange-2")));
    assert_eq!(got[3], second[1]);
}

#[test]
fn run_finished_with_success_or_none_is_completed_and_run_end() {
    for outcome in [Value::Null, json!({"type": "success"}), json!({"type": "success", "pendingToolCallIds": []})] {
        let mut end = finished(outcome);
        end["result"] = json!({"n": [1, null]});
        end["usage"] = json!([{"provider": "acme", "model": "m1", "inputTokens": 3}]);
        let log = relayed_whole(vec![started(), end.clone()]);
        log.assert_legal_and_ended();
        assert_eq!(log.statuses(), ["running", "completed"]);
        let data = &log.data(FrameType::RunEnd)[0];
        assert_eq!(data["status"], "completed");
        assert_eq!(data["agui"]["result"], end["result"]);
        assert_eq!(data["usage"], json!([{"provider": "acme", "model": "m1", "input_tokens": 3}]));
        assert_eq!(event(log.project_json()[1].clone()), event(end));
    }
}

#[test]
fn run_finished_with_interrupt_is_suspend_and_suspended() {
    let interrupts = json!([
        {"id": "i1", "reason": "approval", "message": "May I?", "toolCallId": "c1",
         "responseSchema": {"type": "boolean"}, "expiresAt": "2030-01-02T00:00:00Z"},
        {"id": "i2", "reason": "input", "expiresAt": "2030-01-01T00:00:00Z"},
    ]);
    let mut end = finished(json!({"type": "interrupt", "interrupts": interrupts}));
    end["usage"] = json!([{"inputTokens": 3}]);
    let log = relayed_whole(vec![started(), end.clone()]);
    assert_eq!(log.types()[2..], [FrameType::Suspend, FrameType::RunStatus]);
    assert_eq!(log.statuses(), ["running", "suspended"]);
    let data = &log.data(FrameType::Suspend)[0];
    assert_eq!(data["kind"], "approval");
    assert_eq!(data["resume_contract"]["interrupts"], interrupts);
    assert_eq!(data["prompt"], "May I?");
    assert_eq!(data["deadline_at"], "2030-01-01T00:00:00.000Z", "the first of the interrupts to expire");
    assert_eq!(event(log.project_json()[1].clone()), event(end));
}

#[test]
fn run_finished_with_cancelled_is_cancelled_and_run_end() {
    let end = finished(json!({"type": "cancelled"}));
    let log = relayed_whole(vec![started(), end.clone()]);
    log.assert_legal_and_ended();
    assert_eq!(log.statuses(), ["running", "cancelled"]);
    assert_eq!(log.data(FrameType::RunEnd)[0]["status"], "cancelled");
    assert_eq!(event(log.project_json()[1].clone()), event(end));
}

#[test]
fn run_error_is_error_failed_and_run_end() {
    for (code, frame_code) in [(json!("RATE_LIMITED"), "RATE_LIMITED"), (json!("their own"), "INTERNAL_ERROR")] {
        let error = json!({"type": "RUN_ERROR", "message": "it broke", "code": code, "metadata": {"k": 1}});
        let log = relayed_whole(vec![started(), error.clone()]);
        log.assert_legal_and_ended();
        assert_eq!(log.types()[2..], [FrameType::Error, FrameType::RunStatus, FrameType::RunEnd]);
        assert_eq!(log.statuses(), ["running", "failed"]);
        let data = &log.data(FrameType::Error)[0];
        assert_eq!((&data["code"], &data["message"]), (&json!(frame_code), &json!("it broke")));
        assert_eq!(log.data(FrameType::RunEnd)[0]["failure_class"], frame_code);
        assert_eq!(event(log.project_json()[1].clone()), event(error));
    }
}

/// Seed, *Error frame codes*: an error frame carries one of these.
#[test]
fn each_of_the_fifteen_codes_that_an_upstream_agent_says_is_kept_and_any_other_is_what_it_means_or_internal_error() {
    let kept = ErrorCode::ALL.map(|code| (code.as_str(), code.as_str()));
    let meant = [("timeout", "TIMEOUT"), ("rate_limit_error", "RATE_LIMITED")];
    let others = ["run_failed", ""].map(|code| (code, "INTERNAL_ERROR"));
    for (said, code) in kept.into_iter().chain(meant).chain(others) {
        let agent = json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout"});
        let lost = json!({"type": "SUBAGENT_ERROR", "subagentRunId": "a", "message": "lost", "code": said});
        let error = json!({"type": "RUN_ERROR", "message": "it broke", "code": said});
        let log = relayed_whole(vec![started(), agent, lost, error]);
        log.assert_legal_and_ended();
        assert_eq!(log.data(FrameType::SegmentEnd)[0]["error"], json!({"code": code, "message": "lost"}), "{said}");
        let told = &log.data(FrameType::Error)[0];
        assert_eq!((&told["code"], &told["retryable"]), (&json!(code), &json!(false)), "{said}");
        assert_eq!(log.data(FrameType::RunEnd)[0]["failure_class"], code, "{said}");
        let events = log.project_json();
        assert!(events.iter().filter(|e| e.get("message").is_some()).all(|e| e["code"] == said), "{events:#?}");
    }
}

#[test]
fn text_message_is_a_message_segment_and_text_delta() {
    let sent = [
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "system", "name": "Ann", "metadata": {"k": 1}}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi", "timestamp": 5}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m1", "rawEvent": {"raw": true}}),
    ];
    let log = relayed(sent.to_vec());
    let seg = Some("seg_1");
    assert_eq!(
        content(&log),
        [(FrameType::SegmentStart, seg), (FrameType::TextDelta, seg), (FrameType::SegmentEnd, seg)]
    );
    let start = &log.data(FrameType::SegmentStart)[0];
    assert_eq!((&start["kind"], &start["name"]), (&json!("message"), &json!("Ann")));
    assert_eq!(log.texts(), ["Hi"]);
    assert_back(&log, &sent);
}

#[test]
fn output_text_travels_in_no_other_frame() {
    let log = relayed(vec![
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m1"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "needle"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m1"}),
    ]);
    let with_text = log.frames.iter().filter(|f| String::from_utf8_lossy(&f.encode()).contains("needle"));
    assert_eq!(with_text.map(|f| f.data.frame_type()).collect::<Vec<_>>(), [FrameType::TextDelta]);
}

#[test]
fn reasoning_is_a_reasoning_segment_and_thinking_delta() {
    let sent = [
        json!({"type": "REASONING_START", "messageId": "span"}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": "span", "role": "reasoning"}),
        json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "span", "delta": "hm"}),
        json!({"type": "REASONING_MESSAGE_END", "messageId": "span"}),
        json!({"type": "REASONING_END", "messageId": "span"}),
    ];
    let log = relayed(sent.to_vec());
    let (span, message) = (Some("seg_1"), Some("seg_2"));
    assert_eq!(
        content(&log),
        [
            (FrameType::SegmentStart, span),
            (FrameType::SegmentStart, message),
            (FrameType::ThinkingDelta, message),
            (FrameType::SegmentEnd, message),
            (FrameType::SegmentEnd, span),
        ]
    );
    let starts = log.data(FrameType::SegmentStart);
    assert!(starts.iter().all(|s| s["kind"] == "reasoning"));
    assert_eq!(starts[1]["parent_segment_id"], "seg_1");
    assert!(log.texts().is_empty(), "reasoning is never output");
    assert_back(&log, &sent);
}

#[test]
fn tool_call_is_a_tool_segment_with_argument_deltas_and_then_the_whole() {
    let sent = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "search", "parentMessageId": "m0"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"q\":"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "1}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1", "metadata": {"k": 1}}),
    ];
    let log = relayed(sent.to_vec());
    let start = &log.data(FrameType::SegmentStart)[0];
    assert_eq!((&start["kind"], &start["tool_slug"]), (&json!("tool"), &json!("search")));
    let calls = log.data(FrameType::ToolCall);
    let part = |i: usize, key: &str| calls[i].get(key).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(calls.len(), 3);
    assert_eq!((part(0, "arguments_delta"), part(0, "arguments")), (Some("{\"q\":".into()), None));
    assert_eq!((part(2, "arguments_delta"), part(2, "arguments")), (None, Some("{\"q\":1}".into())));
    assert_back(&log, &sent);
}

#[test]
fn tool_call_result_is_a_preview_and_the_whole_is_the_payload() {
    let long = "x".repeat(3000);
    let sent = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "search"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "c1", "content": long, "role": "tool"}),
    ];
    let log = relayed(sent.to_vec());
    let result = &log.data(FrameType::ToolResult)[0];
    assert_eq!((&result["truncated"], &result["bytes"]), (&json!(true), &json!(3000)));
    assert_eq!(log.payloads[0].bytes, long.as_bytes());
    let last = log.frames.iter().rposition(|f| f.data.frame_type() == FrameType::SegmentEnd).unwrap();
    assert_eq!(log.types()[last - 1], FrameType::ToolResult, "the segment ends with its result");
    assert_back(&log, &sent);
}

#[test]
fn a_result_before_the_calls_end_stays_in_the_calls_segment() {
    let sent = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "search"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "c1", "content": "early"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
    ];
    let log = relayed(sent.to_vec());
    assert_eq!(log.data(FrameType::SegmentStart).len(), 1);
    assert_back(&log, &sent);
}

#[test]
fn a_result_for_a_call_of_an_earlier_run_has_a_segment_of_its_own() {
    let sent = [json!({"type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "old", "content": "late"})];
    let log = relayed(sent.to_vec());
    let seg = Some("seg_1");
    assert_eq!(
        content(&log),
        [(FrameType::SegmentStart, seg), (FrameType::ToolResult, seg), (FrameType::SegmentEnd, seg)]
    );
    assert_back(&log, &sent);
}

#[test]
fn step_is_a_step_segment_and_steps_of_two_owners_may_share_a_name() {
    let sent = [
        json!({"type": "STEP_STARTED", "stepName": "plan"}),
        json!({"type": "STEP_STARTED", "stepName": "plan", "subagentRunId": "ghost"}),
        json!({"type": "STEP_FINISHED", "stepName": "plan"}),
        json!({"type": "STEP_FINISHED", "stepName": "plan", "subagentRunId": "ghost"}),
    ];
    let log = relayed(sent.to_vec());
    let (first, second) = (Some("seg_1"), Some("seg_2"));
    assert_eq!(
        content(&log),
        [
            (FrameType::SegmentStart, first),
            (FrameType::SegmentStart, second),
            (FrameType::SegmentEnd, first),
            (FrameType::SegmentEnd, second),
        ]
    );
    assert!(log.data(FrameType::SegmentStart).iter().all(|s| s["kind"] == "step" && s["name"] == "plan"));
    assert_back(&log, &sent);
}

#[test]
fn subagent_is_an_agent_segment_and_attribution_is_its_ancestry() {
    let sent = [
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout", "description": "looks"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "b", "name": "scout", "parentSubagentRunId": "a"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m1", "subagentRunId": "b"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "tagged", "subagentRunId": "b"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "untagged"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m1"}),
        json!({"type": "SUBAGENT_ERROR", "subagentRunId": "b", "message": "lost", "code": "TIMEOUT"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a", "result": 0}),
    ];
    let log = relayed(sent.to_vec());
    let starts = log.data(FrameType::SegmentStart);
    assert_eq!((&starts[0]["kind"], &starts[0]["name"]), (&json!("agent"), &json!("scout")));
    assert_eq!(starts[0].get("parent_segment_id"), None);
    assert_eq!(starts[1]["parent_segment_id"], "seg_1");
    assert_eq!(starts[2]["parent_segment_id"], "seg_2");
    let ends = log.data(FrameType::SegmentEnd);
    assert_eq!((&ends[1]["status"], &ends[1]["error"]["code"]), (&json!("failed"), &json!("TIMEOUT")));
    assert_eq!(ends[2]["status"], "completed");
    assert_back(&log, &sent);
}

#[test]
fn standalone_events_are_notices_that_hold_the_event() {
    let sent = [
        json!({"type": "STATE_SNAPSHOT", "snapshot": null}),
        json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/n", "value": 1, "beyond": true}]}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"role": "user", "id": "u", "content": "hi"}]}),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": {"z": 1, "a": 2}}),
        json!({"type": "ACTIVITY_DELTA", "messageId": "a1", "activityType": "PLAN",
            "patch": [{"op": "remove", "path": "/z"}]}),
        json!({"type": "CUSTOM", "name": "mine", "value": null, "subagentRunId": "ghost"}),
        json!({"type": "RAW", "event": [0, 2.5], "source": "lib", "metadata": {"k": null}}),
        json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c0",
            "encryptedValue": "opaque"}),
    ];
    let log = relayed(sent.to_vec());
    for (notice, sent) in log.data(FrameType::Notice).iter().zip(&sent) {
        assert_eq!(notice["level"], "info");
        assert_eq!(notice["code"], format!("agui.{}", sent["type"].as_str().unwrap()));
        assert_eq!(&notice["attributes"], sent);
    }
    assert_eq!(log.data(FrameType::Notice).len(), sent.len());
    assert_back(&log, &sent);
}

#[test]
fn interleaved_items_keep_their_order_and_a_closed_message_may_be_opened_again() {
    let sent = [
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m1"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m2", "role": "user"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "a"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": "b"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "c"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m1"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m1"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "d"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m2"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m1"}),
    ];
    assert_back(&relayed(sent.to_vec()), &sent);
}

#[test]
fn an_event_with_everything_that_events_may_carry_comes_back_whole() {
    let sent = event(json!({"type": "TEXT_MESSAGE_START", "messageId": "m1", "timestamp": -1, "rawEvent": false,
        "metadata": {"b": null, "a": {"x": [1]}}, "subagentRunId": "ghost"}));
    let end = json!({"type": "TEXT_MESSAGE_END", "messageId": "m1"});
    let log = relayed(vec![sent.to_value(), end]);
    let got: Vec<Event> = log.project();
    assert_eq!(got[1].to_json_string(), sent.to_json_string(), "members within open objects keep their order too");
}
