//! Streams that break AG-UI's rules, and failures that an upstream agent reports itself: never one as the other.

use runwire_engine::drivers::AguiOptions;
use runwire_frame::SegmentStatus;
use serde_json::{Value, json};

use crate::server::{Answer, Server, lines};
use crate::{
    RUN, THREAD, ask, assert_channel_error, front_with, log_of, message, run_finished, run_started, underway, with,
};

/// What is sent, the rule that it breaks, the event that breaks it, and what is kept.
struct Case {
    rule: &'static str,
    event: usize,
    kept: &'static str,
    events: Vec<Value>,
}

fn after_underway(rule: &'static str, events: Vec<Value>) -> Case {
    // The last one is at fault.
    let events = with(underway(), events);
    Case { rule, event: events.len() - 1, kept: "Kept.", events }
}

fn cases() -> Vec<Case> {
    let step = |what: &str| json!({ "type": what, "stepName": "think" });
    let open_message = json!({ "type": "TEXT_MESSAGE_START", "messageId": "m2" });
    let open_call = json!({ "type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look" });
    let finished = |run: &str, thread: &str| json!({ "type": "RUN_FINISHED", "threadId": thread, "runId": run });
    let interrupts = json!([{ "id": "i1", "reason": "x" }, { "id": "i1", "reason": "y" }]);
    let twice = json!({
        "type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN,
        "outcome": { "type": "interrupt", "interrupts": interrupts },
    });
    vec![
        Case { rule: "first-event", event: 0, kept: "", events: with(message("m1", "Early."), underway()) },
        after_underway("nested-run-started", vec![run_started()]),
        after_underway(
            "nested-run-started",
            vec![json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": "another" })],
        ),
        after_underway("step-not-open", vec![step("STEP_FINISHED")]),
        after_underway("step-already-open", vec![step("STEP_STARTED"), step("STEP_STARTED")]),
        after_underway("step-open-at-finish", vec![step("STEP_STARTED"), run_finished()]),
        after_underway("text-message-open-at-finish", vec![open_message.clone(), run_finished()]),
        after_underway("tool-call-open-at-finish", vec![open_call, run_finished()]),
        after_underway("text-message-already-open", vec![open_message.clone(), open_message.clone()]),
        after_underway(
            "text-message-not-open",
            vec![json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m9", "delta": "Whose?" })],
        ),
        after_underway("tool-call-not-open", vec![json!({ "type": "TOOL_CALL_END", "toolCallId": "c9" })]),
        after_underway("subagent-not-active", vec![json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "s9" })]),
        after_underway("first-chunk", vec![json!({ "type": "TEXT_MESSAGE_CHUNK", "delta": "Whose?" })]),
        after_underway("event-after-finish", vec![run_finished(), open_message.clone()]),
        after_underway("event-after-finish", vec![run_finished(), run_finished()]),
        after_underway("event-after-error", vec![json!({ "type": "RUN_ERROR", "message": "it broke" }), open_message]),
        after_underway("run-id-mismatch", vec![finished("another", THREAD)]),
        after_underway("thread-id-mismatch", vec![finished(RUN, "another")]),
        after_underway("duplicate-interrupt-id", vec![twice]),
        after_underway(
            "malformed-value",
            vec![
                json!({ "type": "TEXT_MESSAGE_START", "messageId": "m2" }),
                json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": 7 }),
            ],
        ),
        after_underway("malformed-value", vec![json!({ "type": "STEP_STARTED" })]),
        after_underway("malformed-value", vec![json!([1, 2])]),
        Case {
            rule: "foreign-thread",
            event: 0,
            kept: "",
            events: vec![json!({ "type": "RUN_STARTED", "threadId": "another", "runId": RUN })],
        },
    ]
}

#[tokio::test]
async fn a_broken_rule_fails_the_run_by_name_at_its_event_and_keeps_what_came_before() {
    for Case { rule, event, kept, events } in cases() {
        println!("{rule} at event {event}");
        let log = log_of(Answer::events(&events)).await;
        assert_channel_error(&log, kept, &[&format!("rule `{rule}`"), &format!("event {event}:")]);
        let (_, _, retryable) = log.error();
        assert!(!retryable, "the same agent would break it again");
        assert!(!log.segment_ends().contains(&SegmentStatus::Cancelled));
    }
}

#[tokio::test]
async fn what_breaks_a_rule_ends_the_run_at_once_and_the_rest_of_the_stream_is_not_read() {
    let wrong = json!({ "type": "STEP_FINISHED", "stepName": "think" });
    let events = with(with(underway(), [wrong]), with(message("m2", "Too late."), [run_finished()]));
    let log = log_of(Answer::events_then(&events, crate::server::Step::Hang)).await;
    assert_channel_error(&log, "Kept.", &["rule `step-not-open`", "event 4:"]);
}

#[tokio::test]
async fn an_event_that_is_not_json_fails_the_run() {
    for text in ["{\"type\":", "hello", "{'type':'RUN_FINISHED'}", ""] {
        let mut stream = lines(&underway(), "\n");
        stream.extend(format!("data: {text}\n\n").into_bytes());
        stream.extend(lines(&[run_finished()], "\n"));
        let log = log_of(Answer::stream(stream)).await;
        assert_channel_error(&log, "Kept.", &["rule `malformed-json`", "event 4:"]);
    }
}

#[tokio::test]
async fn bytes_that_are_not_utf_8_fail_the_run() {
    let mut stream = lines(&underway(), "\n");
    stream.extend(b"data: \"\xff\xfe\"\n\n");
    let log = log_of(Answer::stream(stream)).await;
    assert_channel_error(&log, "Kept.", &["event 4:", "UTF-8"]);
}

#[tokio::test]
async fn an_event_over_the_cap_fails_the_run_before_it_is_held_in_memory() {
    let server = Server::start(|_, _| {
        let large = json!({ "type": "CUSTOM", "name": "large", "value": "x".repeat(10_000) });
        Answer::events(&with(with(underway(), [large]), [run_finished()]))
    })
    .await;
    let bed = front_with(AguiOptions { max_event_bytes: 4096, ..AguiOptions::new(server.url()) });
    let log = bed.ended(&ask(&bed).await).await;
    assert_channel_error(&log, "Kept.", &["event 4:", "larger than 4096 bytes"]);
}

#[tokio::test]
async fn arguments_that_are_more_than_an_event_may_be_fail_the_run_though_each_piece_is_small() {
    let open = |id: &str| json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "look" });
    let piece =
        |id: &str, bytes: usize| json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": "x".repeat(bytes) });
    let close = |id: &str| json!({ "type": "TOOL_CALL_END", "toolCallId": id });
    // Two calls at once of 4000 bytes each, and a third that has as much again after they closed: each is below the cap.
    let mut allowed = vec![open("c1"), open("c2")];
    for _ in 0..4 {
        allowed.extend([piece("c1", 1000), piece("c2", 1000)]);
    }
    allowed.extend([close("c1"), close("c2"), open("c3"), piece("c3", 2000), piece("c3", 2000), close("c3")]);
    let too_much = [open("c4"), piece("c4", 2048), piece("c4", 2048), piece("c4", 1), close("c4"), run_finished()];
    for (events, fails) in
        [(with(allowed.clone(), [run_finished()]), false), (with(allowed.clone(), too_much.to_vec()), true)]
    {
        let server = Server::start(move |_, _| Answer::events(&with(underway(), events.clone()))).await;
        let bed = front_with(AguiOptions { max_event_bytes: 4096, ..AguiOptions::new(server.url()) });
        let log = bed.ended(&ask(&bed).await).await;
        if fails {
            assert_channel_error(&log, "Kept.", &["tool call `c4`", "more than 4096 bytes"]);
        } else {
            assert_eq!(log.ending(), "completed", "{}", log.dump());
        }
    }
}

#[tokio::test]
async fn json_that_nests_too_deep_for_a_frame_fails_the_run() {
    for levels in [121, 10_000] {
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let mut stream = lines(&underway(), "\n");
        stream.extend(format!("data: {{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{deep}}}\n\n").into_bytes());
        stream.extend(lines(&[run_finished()], "\n"));
        let log = log_of(Answer::stream(stream)).await;
        assert_channel_error(&log, "Kept.", &["event 4 ", "levels of JSON"]);
    }
}

#[tokio::test]
async fn a_stream_without_an_ending_is_a_failure_and_never_a_success() {
    let cut: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), ""),
        (b": only a comment\n\n".to_vec(), ""),
        (lines(&[run_started()], "\n"), ""),
        (lines(&underway(), "\n"), "Kept."),
        (lines(&underway()[..3], "\n"), "Kept."),
        // The ending itself is cut: without its blank line nobody knows whether it is whole.
        ([lines(&underway(), "\n"), format!("data: {}\n", run_finished()).into_bytes()].concat(), "Kept."),
        ([lines(&underway(), "\n"), b"data: {\"type\":\"RUN_FINI".to_vec()].concat(), "Kept."),
    ];
    for (stream, kept) in cut {
        let log = log_of(Answer::stream(stream)).await;
        assert_channel_error(&log, kept, &["truncated"]);
    }
}

#[tokio::test]
async fn a_stream_of_another_run_is_a_failure_that_names_both() {
    let mut events = vec![json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": "another" })];
    events.extend(message("m1", "For whom?"));
    events.push(json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": "another" }));
    let log = log_of(Answer::events(&events)).await;
    assert_channel_error(&log, "", &["`run-1`", "`another`"]);
}

#[tokio::test]
async fn a_failure_that_the_agent_reports_is_its_own_and_no_violation() {
    let error = json!({
        "type": "RUN_ERROR", "message": "the quota is used up", "code": "quota",
        "usage": [{ "provider": "p", "model": "m", "inputTokens": 3 }],
    });
    // In the middle of a message: RUN_ERROR ends what is open together with the run.
    let open = json!({ "type": "TEXT_MESSAGE_START", "messageId": "m2" });
    let log = log_of(Answer::events(&with(underway(), [open, error.clone()]))).await;
    assert_eq!((log.ending(), log.text().as_str()), ("failed", "Kept."));
    assert_eq!(log.last_event(), error, "message, code and usage are the agent's own");
    let (code, said, _) = log.error();
    assert_eq!((code, said), ("INTERNAL_ERROR", "the quota is used up"), "a code of its own is none of the fifteen");
    assert!(!log.dump().contains("rule `"), "{}", log.dump());

    let known = json!({ "type": "RUN_ERROR", "message": "slow down", "code": "RATE_LIMITED" });
    let log = log_of(Answer::events(&with(underway(), [known.clone()]))).await;
    assert_eq!(log.error().0, "RATE_LIMITED");
    assert_eq!(log.last_event(), known);

    let bare = json!({ "type": "RUN_ERROR", "message": "no" });
    let log = log_of(Answer::events(&with(underway(), [bare.clone()]))).await;
    assert_eq!(log.last_event(), bare, "no code is made up for it");
}

#[tokio::test]
async fn a_run_that_could_not_begin_fails_with_what_the_agent_says() {
    let error = json!({ "type": "RUN_ERROR", "message": "no such model", "code": "config" });
    let log = log_of(Answer::events(std::slice::from_ref(&error))).await;
    assert_eq!((log.ending(), log.last_event()), ("failed", error));
    assert_eq!(log.event_types(), ["RUN_STARTED", "RUN_ERROR"]);
}

#[tokio::test]
async fn a_failure_after_the_run_reported_success_makes_it_a_failed_run() {
    let error = json!({ "type": "RUN_ERROR", "message": "the flush failed", "code": "io" });
    let log = log_of(Answer::events(&with(underway(), [run_finished(), error.clone()]))).await;
    assert_eq!((log.ending(), log.text().as_str()), ("failed", "Kept."));
    assert_eq!(log.error().1, "the flush failed");
    assert_eq!(log.last_event(), error);
}
