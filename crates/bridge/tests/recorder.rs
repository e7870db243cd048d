//! What the recorder writes: the rules of frame protocol v2 that hold by its construction, and coalescing.

#![allow(clippy::unwrap_used)]

mod log;

use log::{Log, at, recorder, run_start};
use runwire_bridge::{
    COALESCE_BYTES, Completion, Ending, Failure, LogState, Opening, PARTS_PAYLOAD, Recorder, Suspension, TEXT_PAYLOAD,
    ToolOutput,
};
use runwire_frame::{Data, ErrorCode, FrameType, PREVIEW_MAX_BYTES, RunStatus, SegmentStatus, SuspendKind, Usage};
use serde_json::{Map, Value, json};

fn members(value: Value) -> Option<Map<String, Value>> {
    value.as_object().cloned()
}

fn suspension() -> Suspension {
    Suspension {
        kind: SuspendKind::Approval,
        contract: Map::from_iter([("interrupts".into(), json!([{"id": "int-1", "reason": "approval"}]))]),
        prompt: None,
        deadline: None,
        usage: Vec::new(),
        agui: None,
    }
}

fn usage(model: &str, input: u64, output: Option<u64>) -> Usage {
    Usage {
        provider: Some("acme".into()),
        model: Some(model.into()),
        input_tokens: Some(input),
        output_tokens: output,
        ..Usage::default()
    }
}

fn deltas(log: &Log) -> Vec<(FrameType, String)> {
    let delta = |f: &runwire_frame::Frame| match &f.data {
        Data::TextDelta(d) => Some((FrameType::TextDelta, d.text.clone())),
        Data::ThinkingDelta(d) => Some((FrameType::ThinkingDelta, d.text.clone())),
        _ => None,
    };
    log.frames.iter().filter_map(delta).collect()
}

// The order of a log.

#[test]
fn run_start_is_the_first_frame_of_an_attempt() {
    let log = Log::of(recorder().complete(at(1), Completion::default()));
    assert_eq!(log.types(), [FrameType::RunStart, FrameType::RunStatus, FrameType::RunStatus, FrameType::RunEnd]);
    assert_eq!(log.frames[0].seq, 1);
    log.assert_legal_and_ended();
}

#[test]
fn the_attempt_is_counted_by_the_log_whatever_the_caller_says() {
    let (first, state) = recorder().retry(at(1), Failure::new(ErrorCode::ModelError, "the model is overloaded"));
    let mut log = Log::of(first);
    let start = runwire_frame::RunStart { attempt: 7, ..run_start(None) };
    log.append(Recorder::start(state, at(2), start).complete(at(3), Completion::default()));
    let attempts: Vec<Value> = log.data(FrameType::RunStart).iter().map(|d| d["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2]);
    log.assert_legal_and_ended();
}

#[test]
fn segment_start_precedes_any_content_of_the_segment() {
    let mut r = recorder();
    let message = r.open_message(at(1), Opening::default());
    r.text(at(2), &message, "Hello", None);
    let log = Log::of(r.complete(at(3), Completion::default()));
    let start = log.types().iter().position(|t| *t == FrameType::SegmentStart).unwrap();
    let content = log.types().iter().position(|t| *t == FrameType::TextDelta).unwrap();
    assert!(start < content);
    assert_eq!(log.frames[start].segment_id, log.frames[content].segment_id);
    log.assert_legal_and_ended();
}

#[test]
fn every_transition_has_its_run_status_resumption_included() {
    let (first, state) = recorder().suspend(at(1), suspension());
    let mut log = Log::of(first);
    let mut r = Recorder::resume(state, at(2), Some("alice".into()), None);
    r.cancelling(at(3));
    log.append(r.cancel(at(4), &[], None));
    assert_eq!(log.statuses(), ["running", "suspended", "running", "cancelling", "cancelled"]);
    let previous: Vec<Value> = log.data(FrameType::RunStatus).iter().map(|d| d["previous"].clone()).collect();
    assert_eq!(previous, ["queued", "running", "suspended", "running", "cancelling"]);
    assert_eq!(log.data(FrameType::Resume)[0]["kind"], "approval", "resume says what the run had waited for");
    log.assert_legal_and_ended();
}

#[test]
fn the_end_of_a_run_closes_its_segments_innermost_first_with_its_own_status() {
    type End = fn(Recorder) -> runwire_bridge::Recorded;
    let abandoned = |r: Recorder| {
        r.fail(at(9), Failure { segments: SegmentStatus::Abandoned, ..Failure::new(ErrorCode::InternalError, "lost") })
    };
    let ends: [(End, &str, &str); 4] = [
        (|r| r.complete(at(9), Completion::default()), "completed", "completed"),
        (|r| r.fail(at(9), Failure::new(ErrorCode::ModelError, "no")), "failed", "failed"),
        (abandoned, "abandoned", "failed"),
        (|r| r.cancel(at(9), &[], None), "cancelled", "cancelled"),
    ];
    for (end, segment_status, run_status) in ends {
        let mut r = recorder();
        let step = r.open_step(at(1), Opening::named("plan"));
        let agent = r.open_agent(at(2), Opening::named("scout").inside(step.id()));
        let model = r.open_model(at(3), Opening::default().inside(agent.id()));
        r.text(at(4), &model, "a", None);
        r.text(at(5), &model, "b", None);
        let log = Log::of(end(r));
        log.assert_legal_and_ended();
        let closed: Vec<&str> = log
            .frames
            .iter()
            .filter(|f| f.data.frame_type() == FrameType::SegmentEnd)
            .map(|f| f.segment_id.as_ref().unwrap().as_str())
            .collect();
        assert_eq!(closed, ["seg_3", "seg_2", "seg_1"]);
        assert!(log.data(FrameType::SegmentEnd).iter().all(|d| d["status"] == segment_status));
        assert_eq!(log.statuses().last().unwrap(), run_status);
        assert_eq!(log.data(FrameType::RunEnd)[0]["status"], run_status);
        assert_eq!(log.texts(), ["a", "b"], "what waited to be joined is written before its segment closes");
    }
}

#[test]
fn a_failure_with_a_retry_scheduled_has_no_run_end() {
    let mut r = recorder();
    let _model = r.open_model(at(1), Opening::default());
    let failure = Failure { segments: SegmentStatus::Abandoned, ..Failure::new(ErrorCode::ModelError, "overloaded") };
    let (recorded, state) = r.retry(at(2), failure);
    let log = Log::of(recorded);
    log.assert_legal();
    assert_eq!(
        log.types()[3..],
        [FrameType::Error, FrameType::SegmentEnd, FrameType::RunStatus],
        "error, the segment.ends, then run.status"
    );
    assert_eq!(state.status(), RunStatus::Retrying);
    assert!(!state.ended());
}

#[test]
fn a_run_that_is_being_stopped_ends_cancelled_whatever_its_work_comes_to() {
    let stopping = || {
        let mut r = recorder();
        r.cancelling(at(1));
        r
    };
    let (suspended, state) = stopping().suspend(at(2), suspension());
    assert!(state.ended());
    Log::of(suspended).assert_legal_and_ended();
    for recorded in [
        stopping().complete(at(2), Completion::default()),
        stopping().fail(at(2), Failure::new(ErrorCode::ModelError, "overloaded")),
    ] {
        let log = Log::of(recorded);
        log.assert_legal_and_ended();
        assert_eq!(log.statuses(), ["running", "cancelling", "cancelled"]);
    }
    let (retried, state) = stopping().retry(at(2), Failure::new(ErrorCode::ModelError, "overloaded"));
    assert!(state.ended());
    let log = Log::of(retried);
    log.assert_legal_and_ended();
    assert_eq!(log.data(FrameType::RunEnd)[0]["status"], "cancelled");
}

#[test]
fn a_limit_reports_its_error_and_the_run_ends_cancelled() {
    let mut r = recorder();
    r.error(at(1), ErrorCode::BudgetExceeded, "the run has used its 1000 tokens", false);
    let log = Log::of(r.cancel(at(2), &[], None));
    log.assert_legal_and_ended();
    assert_eq!(log.data(FrameType::Error)[0]["code"], "BUDGET_EXCEEDED");
    assert_eq!(log.data(FrameType::RunEnd)[0]["status"], "cancelled");
}

// Coalescing.

#[test]
fn the_first_delta_of_a_segment_is_flushed_at_once() {
    let mut r = recorder();
    let message = r.open_message(at(1), Opening::default());
    r.take();
    r.text(at(1), &message, "H", None);
    assert_eq!(Log::of(r.take()).texts(), ["H"]);
    assert!(!r.has_pending());
}

#[test]
fn later_deltas_join_until_25_ms_passed_since_the_first_of_them() {
    let mut r = recorder();
    let message = r.open_message(at(0), Opening::default());
    r.text(at(100), &message, "first", None);
    r.text(at(101), &message, "a", None);
    r.text(at(110), &message, "b", None);
    r.text(at(125), &message, "c", None);
    assert!(r.has_pending());
    r.text(at(126), &message, "d", None);
    r.text(at(500), &message, "e", None);
    let log = Log::of(r.complete(at(501), Completion::default()));
    assert_eq!(log.texts(), ["first", "abc", "d", "e"]);
    log.assert_legal_and_ended();
}

#[test]
fn flushing_writes_what_waits_and_nothing_twice() {
    let mut r = recorder();
    let message = r.open_message(at(0), Opening::default());
    r.text(at(1), &message, "first", None);
    r.text(at(2), &message, "a", None);
    r.take();
    r.flush(at(27));
    r.flush(at(28));
    assert_eq!(Log::of(r.take()).texts(), ["a"]);
}

#[test]
fn joined_deltas_wait_no_longer_from_4_kib_on() {
    let mut r = recorder();
    let message = r.open_message(at(0), Opening::default());
    r.text(at(1), &message, "first", None);
    let half = "x".repeat(COALESCE_BYTES / 2);
    r.text(at(2), &message, &half, None);
    assert!(r.has_pending());
    r.text(at(2), &message, &half, None);
    assert!(!r.has_pending());
    r.text(at(2), &message, &"y".repeat(COALESCE_BYTES), None);
    assert!(!r.has_pending(), "a delta that is large by itself does not wait either");
    let lengths: Vec<usize> = Log::of(r.take()).texts().iter().map(String::len).collect();
    assert_eq!(lengths, [5, COALESCE_BYTES, COALESCE_BYTES]);
}

#[test]
fn any_other_frame_ends_the_joining() {
    let mut r = recorder();
    let message = r.open_message(at(0), Opening::default());
    r.text(at(1), &message, "first", None);
    r.text(at(1), &message, "a", None);
    r.custom(at(1), "ping", Value::Null);
    r.text(at(1), &message, "b", None);
    let log = Log::of(r.complete(at(1), Completion::default()));
    let order: Vec<FrameType> = log.types().into_iter().skip(3).take(4).collect();
    assert_eq!(order, [FrameType::TextDelta, FrameType::TextDelta, FrameType::Notice, FrameType::TextDelta]);
    assert_eq!(log.texts(), ["first", "a", "b"]);
}

#[test]
fn deltas_never_join_across_segments_or_kinds() {
    let mut r = recorder();
    let one = r.open_model(at(0), Opening::default());
    let two = r.open_model(at(0), Opening::default());
    for model in [&one, &two] {
        r.text(at(1), model, "first", None);
    }
    r.text(at(2), &one, "a", None);
    r.text(at(2), &two, "b", None);
    r.text(at(2), &one, "c", None);
    r.thinking(at(2), &one, "d", None);
    r.text(at(2), &one, "e", None);
    let log = Log::of(r.complete(at(3), Completion::default()));
    let (text, thinking) = (FrameType::TextDelta, FrameType::ThinkingDelta);
    let expected = [(text, "a"), (text, "b"), (text, "c"), (thinking, "d"), (text, "e")];
    let got = deltas(&log);
    assert_eq!(got[2..], expected.map(|(t, s)| (t, s.to_owned())));
    log.assert_legal_and_ended();
}

#[test]
fn a_delta_with_metadata_or_a_raw_event_joins_nothing() {
    for extra in [json!({"metadata": {"k": 1}}), json!({"rawEvent": {"k": 1}})] {
        let mut r = recorder();
        let message = r.open_message(at(0), Opening::default());
        r.text(at(1), &message, "first", None);
        r.text(at(2), &message, "a", None);
        r.text(at(2), &message, "b", members(extra.clone()));
        r.text(at(2), &message, "c", None);
        let log = Log::of(r.complete(at(3), Completion::default()));
        assert_eq!(log.texts(), ["first", "a", "b", "c"]);
        let said: Vec<Value> = log.data(FrameType::TextDelta).iter().map(|d| d["agui"].clone()).collect();
        assert_eq!(said, [Value::Null, Value::Null, extra, Value::Null]);
    }
}

#[test]
fn joined_deltas_keep_the_first_timestamp_and_never_mix_attributions() {
    let mut r = recorder();
    let message = r.open_message(at(0), Opening::default());
    r.text(at(1), &message, "first", None);
    r.text(at(2), &message, "a", members(json!({"timestamp": 5})));
    r.text(at(2), &message, "b", members(json!({"timestamp": 6})));
    r.text(at(2), &message, "c", members(json!({"subagentRunId": "sub"})));
    let log = Log::of(r.complete(at(3), Completion::default()));
    assert_eq!(log.texts(), ["first", "ab", "c"]);
    assert_eq!(log.data(FrameType::TextDelta)[1]["agui"], json!({"timestamp": 5}));
}

#[test]
fn an_empty_delta_is_kept_and_does_not_use_up_the_first() {
    let mut r = recorder();
    let message = r.open_message(at(0), Opening::default());
    r.text(at(1), &message, "", None);
    r.text(at(1), &message, "H", None);
    assert!(!r.has_pending(), "the first token has not waited");
    let log = Log::of(r.complete(at(3), Completion::default()));
    assert_eq!(log.texts(), ["", "H"]);
    log.assert_legal_and_ended();
}

#[test]
fn a_grapheme_may_be_split_and_a_character_never() {
    // A family of three joined by zero-width joiners, split at the joiners, and a combining accent.
    let pieces = ["👨\u{200d}", "👩\u{200d}", "👧", "e", "\u{301}"];
    let mut r = recorder();
    let message = r.open_message(at(0), Opening::default());
    for (i, piece) in pieces.iter().enumerate() {
        r.text(at(30 * i as i64), &message, piece, None);
    }
    let log = Log::of(r.complete(at(1000), Completion::default()));
    log.assert_legal_and_ended();
    assert_eq!(log.texts(), pieces);
    assert_eq!(log.texts().concat(), pieces.concat());
}

// Usage.

#[test]
fn usage_rides_on_segment_end_and_is_summed_per_provider_and_model_on_run_end() {
    let mut r = recorder();
    for (model, input, output) in [("m1", 3, Some(1)), ("m2", 10, None), ("m1", 4, None)] {
        let segment = r.open_model(at(1), Opening::default());
        r.end(at(2), segment, Ending { usage: Some(usage(model, input, output)), ..Ending::completed() });
    }
    let completion = Completion { usage: vec![usage("m2", 1, Some(2))], ..Completion::default() };
    let log = Log::of(r.complete(at(3), completion));
    log.assert_legal_and_ended();
    assert_eq!(log.data(FrameType::SegmentEnd)[0]["usage"]["input_tokens"], 3);
    assert_eq!(
        log.data(FrameType::RunEnd)[0]["usage"],
        json!([
            {"provider": "acme", "model": "m1", "input_tokens": 7, "output_tokens": 1},
            {"provider": "acme", "model": "m2", "input_tokens": 11, "output_tokens": 2}
        ])
    );
}

#[test]
fn run_end_usage_is_null_when_nothing_was_reported() {
    let log = Log::of(recorder().complete(at(1), Completion::default()));
    let end = &log.data(FrameType::RunEnd)[0];
    assert!(end["usage"].is_null() && end["cost"].is_null(), "{end}");
    assert!(end.get("usage").is_some() && end.get("cost").is_some(), "the keys are there");
}

#[test]
fn run_end_usage_covers_every_exchange_and_attempt_of_the_run() {
    let mut r = recorder();
    let model = r.open_model(at(1), Opening::default());
    r.end(at(2), model, Ending { usage: Some(usage("m1", 1, None)), ..Ending::completed() });
    let (first, state) = r.suspend(at(3), Suspension { usage: vec![usage("m1", 10, None)], ..suspension() });
    let mut log = Log::of(first);
    assert_eq!(log.fold(), state, "the log alone is enough to go on from");
    let r = Recorder::resume(log.fold(), at(4), None, None);
    let failure = Failure { usage: vec![usage("m1", 1000, None)], ..Failure::new(ErrorCode::ModelError, "overloaded") };
    let (second, state) = r.retry(at(5), failure);
    log.append(second);
    assert_eq!(log.fold(), state);
    let completion = Completion { usage: vec![usage("m1", 100, None)], ..Completion::default() };
    log.append(Recorder::start(state, at(6), run_start(None)).complete(at(7), completion));
    log.assert_legal_and_ended();
    let end = &log.data(FrameType::RunEnd)[0];
    assert_eq!(end["usage"][0]["input_tokens"], 1111);
    assert_eq!(end["agui"]["exchangeUsage"][0]["input_tokens"], 1100, "and tells the last exchange's apart");
}

// Tool results.

#[test]
fn a_short_result_is_its_own_preview() {
    let mut r = recorder();
    let tool = r.open_tool(at(1), "call-1", "search", Opening::default());
    let tool = r.result(at(2), tool, false, &ToolOutput::Text("none".into()), None);
    r.end(at(3), tool, Ending::completed());
    let log = Log::of(r.complete(at(4), Completion::default()));
    log.assert_legal_and_ended();
    assert!(log.payloads.is_empty());
    assert_eq!(
        log.data(FrameType::ToolResult)[0],
        json!({"tool_call_id": "call-1", "ok": false, "output_preview": "none", "truncated": false, "bytes": 4})
    );
}

#[test]
fn a_preview_is_at_most_2_kib_cut_at_a_character_and_the_whole_is_the_payload() {
    for (text, shown) in [
        ("x".repeat(PREVIEW_MAX_BYTES), PREVIEW_MAX_BYTES),
        ("x".repeat(PREVIEW_MAX_BYTES + 1), PREVIEW_MAX_BYTES),
        ("x".to_owned() + &"é".repeat(PREVIEW_MAX_BYTES / 2), PREVIEW_MAX_BYTES - 1),
        ("xxx".to_owned() + &"👧".repeat(PREVIEW_MAX_BYTES / 4), PREVIEW_MAX_BYTES - 1),
    ] {
        let mut r = recorder();
        let tool = r.open_tool(at(1), "call-1", "search", Opening::default());
        let _answered = r.result(at(2), tool, true, &ToolOutput::Text(text.clone()), None);
        let log = Log::of(r.complete(at(4), Completion::default()));
        log.assert_legal_and_ended();
        let result = &log.data(FrameType::ToolResult)[0];
        let preview = result["output_preview"].as_str().unwrap();
        assert_eq!(preview.len(), shown);
        assert!(text.starts_with(preview));
        assert_eq!(result["bytes"], text.len());
        assert_eq!(result["truncated"], shown < text.len());
        match log.payloads.as_slice() {
            [] => assert_eq!(preview, text),
            [payload] => {
                assert_eq!(payload.content_type, TEXT_PAYLOAD);
                assert_eq!(payload.bytes, text.as_bytes());
                assert_eq!(Some(&payload.segment_id), log.frames[3].segment_id.as_ref());
            }
            more => panic!("one payload, not {}", more.len()),
        }
    }
}

#[test]
fn a_result_of_parts_shows_its_text_and_keeps_every_part_in_the_payload() {
    let parts = vec![
        json!({"type": "text", "text": "Invoice "}),
        json!({"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}),
        json!({"type": "text", "text": "attached."}),
    ];
    let mut r = recorder();
    let tool = r.open_tool(at(1), "call-1", "search", Opening::default());
    let _answered = r.result(at(2), tool, true, &ToolOutput::Parts(parts.clone()), None);
    let log = Log::of(r.complete(at(4), Completion::default()));
    log.assert_legal_and_ended();
    let result = &log.data(FrameType::ToolResult)[0];
    assert_eq!(result["output_preview"], "Invoice attached.");
    assert_eq!(result["truncated"], true);
    let payload = &log.payloads[0];
    assert_eq!(payload.content_type, PARTS_PAYLOAD);
    assert_eq!(result["bytes"], payload.bytes.len());
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&payload.bytes).unwrap(), parts);
}

#[test]
fn complete_arguments_are_the_text_that_was_written() {
    let mut r = recorder();
    let tool = r.open_tool(at(1), "call-1", "search", Opening::default());
    r.arguments(at(2), &tool, "{\"q\":", None);
    r.arguments(at(3), &tool, "\"cat", None);
    r.arguments_complete(at(4), &tool, None);
    let log = Log::of(r.complete(at(5), Completion::default()));
    log.assert_legal_and_ended();
    let calls = log.data(FrameType::ToolCall);
    assert_eq!(calls[1]["arguments_delta"], "\"cat");
    assert_eq!(calls[2]["arguments"], "{\"q\":\"cat", "cut off or not, it is what the model wrote");
}

// Time.

#[test]
fn a_clock_that_steps_back_never_makes_a_log_run_backwards() {
    let mut r = Recorder::start(LogState::new("run_1"), at(10_000), run_start(None));
    let message = r.open_message(at(5_000), Opening::default());
    r.text(at(20_000), &message, "first", None);
    r.text(at(20_001), &message, "a", None);
    r.text(at(3_000), &message, "b", None);
    let log = Log::of(r.complete(at(1_000), Completion::default()));
    log.assert_legal_and_ended();
    assert!(log.frames.windows(2).all(|w| w[0].ts <= w[1].ts), "{}", log.dump());
    assert_eq!(log.texts().concat(), "firstab");
    assert_eq!(log.data(FrameType::SegmentEnd)[0]["duration_ms"], 10_000);
    assert_eq!(log.data(FrameType::RunEnd)[0]["duration_ms"], 10_000);
}

#[test]
fn deltas_do_not_wait_for_a_clock_that_stepped_back() {
    let mut r = recorder();
    let message = r.open_message(at(0), Opening::default());
    r.text(at(50_000), &message, "first", None);
    r.text(at(50_000), &message, "a", None);
    r.text(at(100), &message, "b", None);
    r.text(at(124), &message, "c", None);
    r.text(at(125), &message, "d", None);
    assert_eq!(Log::of(r.complete(at(126), Completion::default())).texts(), ["first", "a", "bc", "d"]);
}

// Restoring.

/// A log with a bit of everything: a suspension, an abandoned attempt, open segments and waiting deltas.
fn eventful() -> Log {
    let mut log = Log::default();
    let mut r = recorder();
    let step = r.open_step(at(1), Opening::named("plan"));
    let model = r.open_model(at(2), Opening::default().inside(step.id()));
    r.thinking(at(3), &model, "hm", None);
    r.text(at(4), &model, "Hello", None);
    r.text(at(5), &model, " there", None);
    let tool = r.open_tool(at(6), "call-1", "transfer", Opening::default().inside(model.id()));
    r.arguments(at(7), &tool, "{}", None);
    r.arguments_complete(at(8), &tool, None);
    r.end(at(9), model, Ending { usage: Some(usage("m1", 5, Some(1))), ..Ending::completed() });
    r.state_snapshot(at(10), json!({"n": 1}));
    let (recorded, state) = r.suspend(at(11), suspension());
    log.append(recorded);
    let mut r = Recorder::resume(state, at(20), Some("alice".into()), None);
    let (_, tool) = r.open_tools().pop().expect("the call waits for its result");
    let tool = r.result(at(21), tool, true, &ToolOutput::Text("done".into()), None);
    r.end(at(22), tool, Ending::completed());
    let agent = r.open_agent(at(23), Opening::named("scout"));
    let _message = r.open_message(at(24), Opening::default().inside(agent.id()));
    let failure = Failure { segments: SegmentStatus::Abandoned, ..Failure::new(ErrorCode::ModelError, "overloaded") };
    let (recorded, state) = r.retry(at(25), failure);
    log.append(recorded);
    let mut r = Recorder::start(state, at(30), run_start(None));
    let message = r.open_message(at(31), Opening::default());
    r.text(at(32), &message, "Hi", None);
    r.cancelling(at(33));
    log.append(r.cancel(at(34), &[usage("m1", 1, None)], None));
    log.assert_legal_and_ended();
    log
}

#[test]
fn the_state_folded_from_the_frames_is_the_recorders_own() {
    let mut log = Log::default();
    let mut r = recorder();
    let mut compare = |r: &mut Recorder| {
        r.flush(at(100));
        log.append(r.take());
        assert_eq!(&log.fold(), r.state());
    };
    compare(&mut r);
    let model = r.open_model(at(1), Opening::default());
    compare(&mut r);
    r.text(at(2), &model, "a", None);
    compare(&mut r);
    let tool = r.open_tool(at(3), "call-1", "search", Opening::default());
    compare(&mut r);
    r.arguments(at(4), &tool, "{", None);
    compare(&mut r);
    r.arguments_complete(at(5), &tool, None);
    compare(&mut r);
    let _answered = r.result(at(6), tool, true, &ToolOutput::Text(String::new()), None);
    compare(&mut r);
    r.error(at(7), ErrorCode::ToolError, "it broke", true);
    compare(&mut r);
    r.end(at(8), model, Ending { usage: Some(usage("m1", 5, None)), ..Ending::completed() });
    compare(&mut r);
    r.cancelling(at(9));
    compare(&mut r);
}

#[test]
fn a_tool_that_was_opened_and_not_yet_called_is_not_lost_over_a_suspension() {
    let mut r = recorder();
    let _tool = r.open_tool(at(1), "call-1", "search", Opening::default());
    let (recorded, _) = r.suspend(at(2), suspension());
    let r = Recorder::resume(Log::of(recorded).fold(), at(3), None, None);
    let open: Vec<String> = r.open_tools().into_iter().map(|(id, _)| id).collect();
    assert_eq!(open, ["call-1"]);
}

#[test]
fn from_every_prefix_of_a_log_each_ending_makes_a_legal_log() {
    let whole = eventful();
    for len in 1..=whole.frames.len() {
        let prefix = || Log { frames: whole.frames[..len].to_vec(), payloads: whole.payloads.clone() };
        let recover = || Recorder::recover(prefix().fold());
        let failure =
            || Failure { segments: SegmentStatus::Abandoned, ..Failure::new(ErrorCode::InternalError, "owner gone") };
        for recorded in [
            recover().fail(at(1000), failure()),
            recover().cancel(at(1000), &[], None),
            recover().complete(at(1000), Completion::default()),
        ] {
            let mut log = prefix();
            log.append(recorded);
            log.assert_legal_and_ended();
            log.project();
        }
        let (recorded, state) = recover().retry(at(1000), failure());
        let mut log = prefix();
        log.append(recorded);
        assert_eq!(log.fold(), state);
        if !state.ended() {
            log.append(Recorder::start(state, at(1001), run_start(None)).complete(at(1002), Completion::default()));
        }
        log.assert_legal_and_ended();
    }
}

#[test]
fn an_ended_log_takes_nothing_more() {
    let whole = eventful();
    assert!(Recorder::recover(whole.fold()).fail(at(99), Failure::new(ErrorCode::Timeout, "late")).is_empty());
}

#[test]
fn a_reached_last_status_stands_whatever_is_asked_for_when_taken_up() {
    let whole = Log::of(recorder().fail(at(1), Failure::new(ErrorCode::ModelError, "no such model")));
    let mut cut = Log { frames: whole.frames[..whole.frames.len() - 1].to_vec(), payloads: Vec::new() };
    let recovered = Recorder::recover(cut.fold()).complete(at(2), Completion::default());
    cut.append(recovered);
    cut.assert_legal_and_ended();
    let end = &cut.data(FrameType::RunEnd)[0];
    assert_eq!(end["status"], "failed");
    assert_eq!(end["failure_class"], "MODEL_ERROR");
    assert_eq!(end["failure_detail"], "no such model");
}

#[test]
fn a_frame_that_cannot_follow_is_refused_by_the_fold() {
    let whole = eventful();
    let mut state = LogState::new("run_1");
    state.apply(&whole.frames[0]).unwrap();
    let hole = state.apply(&whole.frames[2]).unwrap_err();
    assert_eq!(hole.to_string(), "frame 3 of run `run_1` stands where frame 2 belongs");
}
