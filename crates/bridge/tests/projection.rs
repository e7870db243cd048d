//! Logs that this server's own agents wrote, as AG-UI sees them. Every stream here is one that a conforming consumer
//! takes ([`Log::project`] verifies it).

#![allow(clippy::unwrap_used)]

mod log;

use log::{Log, Relay, THREAD, at, event, events, input, recorder, run_start, types};
use runwire_agui::Event;
use runwire_bridge::{
    Completion, Ending, Failure, LogState, Opening, Peer, Projection, ProjectionError, Recorder, StoredPayload,
    Suspension, ToolOutput,
};
use runwire_frame::{ErrorCode, FrameType, NoticeLevel, SegmentStatus, SuspendKind, Usage};
use serde_json::{Map, Value, json};

fn suspension(interrupts: Value) -> Suspension {
    Suspension {
        kind: SuspendKind::Approval,
        contract: Map::from_iter([("interrupts".to_owned(), interrupts)]),
        prompt: None,
        deadline: None,
        usage: Vec::new(),
        agui: None,
    }
}

fn approval() -> Suspension {
    suspension(json!([{"id": "i1", "reason": "approval"}]))
}

fn run_id(id: &str) -> Option<Map<String, Value>> {
    json!({ "runId": id }).as_object().cloned()
}

fn tokens(input: u64) -> Usage {
    Usage { model: Some("m1".into()), input_tokens: Some(input), ..Usage::default() }
}

fn abandoned(message: &str) -> Failure {
    Failure { segments: SegmentStatus::Abandoned, ..Failure::new(ErrorCode::ModelError, message) }
}

fn done(r: Recorder) -> Log {
    let log = Log::of(r.complete(at(1000), Completion::default()));
    log.assert_legal_and_ended();
    log
}

/// The events without those that begin and end the run.
fn inner(log: &Log) -> Vec<Value> {
    let all = log.project_json();
    assert_eq!(all[0]["type"], "RUN_STARTED");
    all[1..all.len() - 1].to_vec()
}

fn of_type<'a>(events: &'a [Value], event_type: &str) -> Vec<&'a Value> {
    events.iter().filter(|e| e["type"] == event_type).collect()
}

#[test]
fn a_run_without_an_agui_request_takes_its_ids_from_the_log() {
    let log =
        Log::of(Recorder::start(LogState::new("run_9"), at(0), run_start(None)).complete(at(1), Completion::default()));
    assert_eq!(
        log.project_json(),
        [
            json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": "run_9", "protocolVersion": "1.0"}),
            json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": "run_9"}),
        ]
    );
}

#[test]
fn a_model_calls_reasoning_and_message_open_when_their_content_comes() {
    let mut r = recorder();
    let model = r.open_model(at(1), Opening::named("m1"));
    r.thinking(at(2), &model, "hm", None);
    r.text(at(40), &model, "Hello", None);
    r.text(at(80), &model, " there", None);
    r.end(at(90), model, Ending::completed());
    let silent = r.open_model(at(91), Opening::named("m1"));
    r.end(at(92), silent, Ending::completed());
    assert_eq!(
        inner(&done(r)),
        [
            json!({"type": "REASONING_START", "messageId": "run_1.seg_1.thinking"}),
            json!({"type": "REASONING_MESSAGE_START", "messageId": "run_1.seg_1.thinking", "role": "reasoning"}),
            json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "run_1.seg_1.thinking", "delta": "hm"}),
            json!({"type": "REASONING_MESSAGE_END", "messageId": "run_1.seg_1.thinking"}),
            json!({"type": "REASONING_END", "messageId": "run_1.seg_1.thinking"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "run_1.seg_1", "role": "assistant"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "run_1.seg_1", "delta": "Hello"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "run_1.seg_1", "delta": " there"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "run_1.seg_1"}),
        ]
    );
}

#[test]
fn a_model_that_thinks_and_speaks_by_turns_stays_conforming() {
    let mut r = recorder();
    let model = r.open_model(at(1), Opening::default());
    for i in 0..3 {
        r.thinking(at(100 * i), &model, "hm", None);
        r.text(at(100 * i + 50), &model, "so", None);
    }
    let got = inner(&done(r));
    assert_eq!(of_type(&got, "REASONING_MESSAGE_CONTENT").len(), 3);
    assert_eq!(of_type(&got, "TEXT_MESSAGE_START").len(), 1);
}

#[test]
fn message_and_reasoning_segments_are_what_they_are_called() {
    let mut r = recorder();
    let message = r.open_message(at(1), Opening::named("Ann"));
    r.text(at(2), &message, "Hi", None);
    r.end(at(3), message, Ending::completed());
    let reasoning = r.open_reasoning(at(4), Opening::default());
    r.thinking(at(5), &reasoning, "hm", None);
    r.end(at(6), reasoning, Ending::completed());
    assert_eq!(
        inner(&done(r)),
        [
            json!({"type": "TEXT_MESSAGE_START", "messageId": "run_1.seg_1", "role": "assistant", "name": "Ann"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "run_1.seg_1", "delta": "Hi"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "run_1.seg_1"}),
            json!({"type": "REASONING_START", "messageId": "run_1.seg_2"}),
            json!({"type": "REASONING_MESSAGE_START", "messageId": "run_1.seg_2", "role": "reasoning"}),
            json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "run_1.seg_2", "delta": "hm"}),
            json!({"type": "REASONING_MESSAGE_END", "messageId": "run_1.seg_2"}),
            json!({"type": "REASONING_END", "messageId": "run_1.seg_2"}),
        ]
    );
}

#[test]
fn a_tool_call_belongs_to_the_message_of_the_model_that_made_it() {
    let mut r = recorder();
    let model = r.open_model(at(1), Opening::default());
    r.text(at(2), &model, "Let me look.", None);
    let tool = r.open_tool(at(3), "c1", "search", Opening::default().inside(model.id()));
    r.arguments(at(4), &tool, "{\"q\":", None);
    r.arguments(at(5), &tool, "1}", None);
    r.arguments_complete(at(6), &tool, None);
    let tool = r.result(at(7), tool, true, &ToolOutput::Text("found".into()), None);
    r.end(at(8), tool, Ending::completed());
    assert_eq!(
        inner(&done(r))[2..7],
        [
            json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "search",
                "parentMessageId": "run_1.seg_1"}),
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"q\":"}),
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "1}"}),
            json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
            json!({"type": "TOOL_CALL_RESULT", "messageId": "run_1.seg_2.result", "toolCallId": "c1",
                "content": "found"}),
        ]
    );
}

#[test]
fn a_tool_call_without_arguments_opens_at_once_and_closes_with_its_result() {
    let mut r = recorder();
    let tool = r.open_tool(at(1), "c1", "clock", Opening::default());
    assert_eq!(Log::of(r.take()).project_types(), ["RUN_STARTED", "TOOL_CALL_START"]);
    let mut r = recorder();
    let _ = tool;
    let tool = r.open_tool(at(1), "c1", "clock", Opening::default());
    let _answered = r.result(at(2), tool, true, &ToolOutput::Text("noon".into()), None);
    let log = done(r);
    assert_eq!(types(&log.project())[1..4], ["TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT"]);
}

#[test]
fn two_open_steps_of_one_name_are_told_apart() {
    let mut r = recorder();
    let one = r.open_step(at(1), Opening::named("fetch"));
    let two = r.open_step(at(2), Opening::named("fetch"));
    r.end(at(3), one, Ending::completed());
    let three = r.open_step(at(4), Opening::named("fetch"));
    r.end(at(5), two, Ending::completed());
    r.end(at(6), three, Ending::completed());
    let names: Vec<Value> = inner(&done(r)).iter().map(|e| e["stepName"].clone()).collect();
    assert_eq!(names, ["fetch", "fetch #2", "fetch", "fetch", "fetch #2", "fetch"]);
}

#[test]
fn what_happens_inside_of_an_agent_is_attributed_to_it() {
    let mut r = recorder();
    let outer = r.open_agent(at(1), Opening::named("lead"));
    let inner_agent = r.open_agent(at(2), Opening::named("scout").inside(outer.id()));
    let step = r.open_step(at(3), Opening::named("look").inside(inner_agent.id()));
    let model = r.open_model(at(4), Opening::default().inside(step.id()));
    r.text(at(5), &model, "Hi", None);
    let tool = r.open_tool(at(6), "c1", "search", Opening::default().inside(model.id()));
    let tool = r.result(at(7), tool, true, &ToolOutput::Text("x".into()), None);
    r.end(at(8), tool, Ending::completed());
    r.end(at(9), model, Ending::completed());
    r.end(at(10), step, Ending::completed());
    let error = runwire_frame::SegmentError { code: ErrorCode::Timeout, message: "too slow".into(), extra: Map::new() };
    r.end(at(11), inner_agent, Ending { error: Some(error), ..Ending::with_status(SegmentStatus::Failed) });
    r.end(at(12), outer, Ending::completed());
    let got = inner(&done(r));
    let (lead, scout) = ("run_1.seg_1", "run_1.seg_2");
    assert_eq!(got[0], json!({"type": "SUBAGENT_STARTED", "subagentRunId": lead, "name": "lead"}));
    assert_eq!(
        got[1],
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": scout, "name": "scout", "parentSubagentRunId": lead})
    );
    assert!(got[2..got.len() - 1].iter().all(|e| e["subagentRunId"] == scout), "{got:#?}");
    assert_eq!(
        got[got.len() - 2],
        json!({"type": "SUBAGENT_ERROR", "subagentRunId": scout, "message": "too slow", "code": "TIMEOUT"})
    );
    assert_eq!(got[got.len() - 1], json!({"type": "SUBAGENT_FINISHED", "subagentRunId": lead}));
}

#[test]
fn a_child_run_is_an_agent_by_its_own_id_that_the_tool_call_around_it_started() {
    let mut r = recorder();
    let tool = r.open_tool(at(1), "call_1", "research", Opening::default());
    r.arguments_complete(at(2), &tool, None);
    let child = r.open_child(at(3), "run_2", Opening::named("scout").inside(tool.id()));
    r.end(at(4), child, Ending::completed());
    let tool = r.result(at(5), tool, true, &ToolOutput::Text("found".to_owned()), None);
    r.end(at(6), tool, Ending::completed());
    let left = r.open_child(at(7), "run_3", Opening::named("scout"));
    r.end(at(8), left, Ending::with_status(SegmentStatus::Abandoned));
    let log = done(r);
    let child = log.data(FrameType::SegmentStart).into_iter().find(|start| start["kind"] == "agent").unwrap();
    assert_eq!((&child["child_run_id"], &child["parent_segment_id"]), (&json!("run_2"), &json!("seg_1")));
    let got: Vec<Value> = log.project_json().into_iter().filter(|e| e.get("subagentRunId").is_some()).collect();
    assert_eq!(
        got,
        [
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": "run_2", "name": "scout", "parentToolCallId": "call_1"}),
            json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "run_2"}),
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": "run_3", "name": "scout"}),
            json!({
                "type": "SUBAGENT_ERROR", "subagentRunId": "run_3",
                "message": "the run `run_3` is not waited for any more",
            }),
        ]
    );
}

#[test]
fn a_child_run_that_an_attempt_finds_again_has_another_id_in_the_same_exchange() {
    let mut r = recorder();
    let _ = r.open_child(at(1), "run_2", Opening::named("scout"));
    let (first, state) = r.retry(at(2), abandoned("overloaded"));
    let mut r = Recorder::start(state, at(3), run_start(None));
    let child = r.open_child(at(4), "run_2", Opening::named("scout"));
    r.end(at(5), child, Ending::completed());
    let mut log = Log::default();
    log.append(first);
    log.append(r.complete(at(6), Completion::default()));
    let starts = log.project_json().into_iter().filter(|event| event["type"] == "SUBAGENT_STARTED");
    let ids: Vec<Value> = starts.map(|event| event["subagentRunId"].clone()).collect();
    assert_eq!(ids, ["run_2", "run_2.2"]);
}

#[test]
fn what_outlives_its_agent_keeps_its_attribution() {
    let mut r = recorder();
    let agent = r.open_agent(at(1), Opening::named("scout"));
    let step = r.open_step(at(2), Opening::named("look").inside(agent.id()));
    r.end(at(3), agent, Ending::completed());
    r.end(at(4), step, Ending::completed());
    let got = inner(&done(r));
    assert_eq!(got[3]["type"], "STEP_FINISHED");
    assert_eq!(got[3]["subagentRunId"], "run_1.seg_1", "an end agrees with its start");
}

#[test]
fn a_result_larger_than_its_preview_comes_from_the_payload() {
    let long = "é".repeat(3000);
    let mut r = recorder();
    let tool = r.open_tool(at(1), "c1", "read", Opening::default());
    let _answered = r.result(at(2), tool, true, &ToolOutput::Text(long.clone()), None);
    let log = done(r);
    assert_eq!(of_type(&inner(&log), "TOOL_CALL_RESULT")[0]["content"], long);

    let result = log.frames.iter().find(|f| Projection::needs_payload(f).is_some()).unwrap();
    let ready = || {
        let mut projection = Projection::new(Peer::Current);
        for frame in log.frames.iter().take_while(|f| f.seq < result.seq) {
            projection.push(frame, None).unwrap();
        }
        projection
    };
    let missing = ready().push(result, None).unwrap_err();
    assert_eq!(missing, ProjectionError::PayloadMissing { seq: 4, segment: "seg_1".into() });
    let garbled = StoredPayload { content_type: "application/json".into(), bytes: "{".into() };
    assert!(matches!(ready().push(result, Some(&garbled)), Err(ProjectionError::Payload { seq: 4, .. })));
}

#[test]
fn a_log_that_names_an_unknown_segment_is_refused() {
    let mut r = recorder();
    let message = r.open_message(at(1), Opening::default());
    r.text(at(2), &message, "Hi", None);
    let log = done(r);
    let mut projection = Projection::new(Peer::Current);
    let error = projection.push(&log.frames[3], None).unwrap_err();
    assert_eq!(error.to_string(), "frame 4 names segment `seg_1`, which no frame before it opened");
}

#[test]
fn a_failure_in_the_middle_is_run_error_and_shows_nothing_as_complete() {
    let mut r = recorder();
    let _step = r.open_step(at(1), Opening::named("plan"));
    let message = r.open_message(at(2), Opening::default());
    r.text(at(3), &message, "Hel", None);
    let log = Log::of(r.fail(at(4), Failure::new(ErrorCode::ModelError, "the model is gone")));
    log.assert_legal_and_ended();
    let got = log.project_json();
    assert_eq!(
        got.iter().map(|e| e["type"].as_str().unwrap()).collect::<Vec<_>>(),
        ["RUN_STARTED", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "RUN_ERROR"]
    );
    assert_eq!(got[4], json!({"type": "RUN_ERROR", "message": "the model is gone", "code": "MODEL_ERROR"}));
}

#[test]
fn a_tool_that_failed_under_an_error_does_not_fail_the_run_and_still_closes() {
    let mut r = recorder();
    let step = r.open_step(at(1), Opening::named("plan"));
    r.error(at(2), ErrorCode::ToolError, "the disk is full", false);
    r.end(at(3), step, Ending::with_status(SegmentStatus::Failed));
    assert_eq!(types(&done(r).project()), ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]);
}

#[test]
fn a_cancelled_run_closes_everything_innermost_first_and_then_says_cancelled() {
    let mut r = recorder();
    let step = r.open_step(at(1), Opening::named("plan"));
    let agent = r.open_agent(at(2), Opening::named("scout").inside(step.id()));
    let model = r.open_model(at(3), Opening::default().inside(agent.id()));
    r.text(at(4), &model, "Hel", None);
    let tool = r.open_tool(at(5), "c1", "search", Opening::default().inside(model.id()));
    r.arguments(at(6), &tool, "{\"q\":\"ca", None);
    r.cancelling(at(7));
    let log = Log::of(r.cancel(at(8), &[tokens(3)], None));
    log.assert_legal_and_ended();
    let got = log.project_json();
    let tail: Vec<&str> = got[7..].iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(tail, ["TOOL_CALL_END", "TEXT_MESSAGE_END", "SUBAGENT_ERROR", "STEP_FINISHED", "RUN_FINISHED"]);
    assert_eq!(got[9]["code"], "CANCELLED", "a stopped agent did not fail by itself");
    let end = got.last().unwrap();
    assert_eq!(end["outcome"], json!({"type": "cancelled"}));
    assert_eq!(end["usage"], json!([{"model": "m1", "inputTokens": 3}]));
    assert_eq!(end.get("result"), None);
}

#[test]
fn an_upstream_run_that_is_stopped_here_closes_what_the_upstream_had_opened() {
    let stream = [
        json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": "exchange-1"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout"}),
        json!({"type": "STEP_STARTED", "stepName": "plan", "subagentRunId": "a"}),
        json!({"type": "REASONING_START", "messageId": "s", "subagentRunId": "a"}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": "s", "role": "reasoning", "subagentRunId": "a"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m1", "subagentRunId": "a"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "f", "parentMessageId": "m1",
            "subagentRunId": "a"}),
    ];
    let mut recorder = None;
    let mut ingest = runwire_bridge::Ingest::new(&input("exchange-1"));
    let mut upstream = runwire_bridge::Upstream::new(input("exchange-1"));
    for event in events(stream.to_vec()) {
        match upstream.push(event) {
            runwire_bridge::UpstreamStep::Begin(started, _) => {
                let agui = Some(runwire_bridge::started_members(&started));
                recorder = Some(Recorder::start(LogState::new("run_1"), at(0), run_start(agui)));
            }
            runwire_bridge::UpstreamStep::Record(event) => ingest.record(recorder.as_mut().unwrap(), at(1), &event),
            runwire_bridge::UpstreamStep::Hold => {}
        }
    }
    let log = Log::of(recorder.unwrap().cancel(at(2), &[], None));
    log.assert_legal_and_ended();
    assert_eq!(
        log.project_types()[7..],
        [
            "TOOL_CALL_END",
            "TEXT_MESSAGE_END",
            "REASONING_MESSAGE_END",
            "REASONING_END",
            "STEP_FINISHED",
            "SUBAGENT_ERROR",
            "RUN_FINISHED"
        ]
    );
}

// A client that predates 1.0.

#[test]
fn a_client_before_1_0_is_told_of_a_cancelled_run_as_an_error() {
    let log = Log::of(recorder().cancel(at(1), &[tokens(3)], None));
    let (each, warnings) = log.project_each(Peer::PreV1);
    let last = each.last().unwrap()[0].to_value();
    assert_eq!(last["type"], "RUN_ERROR");
    assert_eq!(last["code"], "CANCELLED");
    assert_eq!(last["usage"], json!([{"model": "m1", "inputTokens": 3}]));
    assert_eq!(warnings.len(), 1);
}

#[test]
fn a_client_before_1_0_gets_content_parts_as_their_text() {
    let parts = vec![
        json!({"type": "text", "text": "Invoice "}),
        json!({"type": "image", "source": {"type": "url", "value": "x"}}),
        json!({"type": "text", "text": "attached."}),
    ];
    let mut r = recorder();
    let tool = r.open_tool(at(1), "c1", "read", Opening::default());
    let _answered = r.result(at(2), tool, true, &ToolOutput::Parts(parts.clone()), None);
    let log = done(r);
    let (each, warnings) = log.project_each(Peer::PreV1);
    let all: Vec<Value> = each.iter().flatten().map(Event::to_value).collect();
    assert_eq!(of_type(&all, "TOOL_CALL_RESULT")[0]["content"], "Invoice attached.");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("`c1`") && warnings[0].contains("without 1 other"), "{warnings:?}");
    assert_eq!(of_type(&inner(&log), "TOOL_CALL_RESULT")[0]["content"], json!(parts), "others get the parts");
}

#[test]
fn a_client_before_1_0_is_not_told_of_pending_tool_calls() {
    let mut r = recorder();
    let tool = r.open_tool(at(1), "c1", "confirm", Opening::default());
    r.end(at(2), tool, Ending::completed());
    let agui = json!({"outcome": {"type": "success", "pendingToolCallIds": ["c1"]}}).as_object().cloned();
    let log = Log::of(r.complete(at(3), Completion { agui, ..Completion::default() }));
    assert_eq!(log.project_json().last().unwrap()["outcome"]["pendingToolCallIds"], json!(["c1"]));
    let (each, warnings) = log.project_each(Peer::PreV1);
    assert_eq!(each.last().unwrap()[0].to_value()["outcome"], json!({"type": "success"}));
    assert_eq!(warnings.len(), 1);
}

#[test]
fn a_client_before_1_0_hears_only_the_failure_that_came_after_a_cancelled_ending() {
    let mut relay = Relay::new("run_1");
    let stream = [
        json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": "exchange-1"}),
        json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": "exchange-1", "outcome": {"type": "cancelled"}}),
        json!({"type": "RUN_ERROR", "message": "flushing failed"}),
    ];
    relay.exchange(&input("exchange-1"), &events(stream.to_vec()), &[]);
    assert_eq!(relay.log.project_types(), ["RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"]);
    let (each, _) = relay.log.project_each(Peer::PreV1);
    let all: Vec<Event> = each.into_iter().flatten().collect();
    assert_eq!(types(&all), ["RUN_STARTED", "RUN_ERROR"]);
}

#[test]
fn a_client_before_1_0_is_not_told_of_pending_tool_calls_before_a_failure_either() {
    let mut relay = Relay::new("run_1");
    let pending = json!({"type": "success", "pendingToolCallIds": ["c1"]});
    let stream = [
        json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": "exchange-1"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "confirm"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
        json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": "exchange-1", "outcome": pending}),
        json!({"type": "RUN_ERROR", "message": "flushing failed"}),
    ];
    relay.exchange(&input("exchange-1"), &events(stream.to_vec()), &[]);
    let (each, _) = relay.log.project_each(Peer::PreV1);
    let all: Vec<Value> = each.iter().flatten().map(Event::to_value).collect();
    assert_eq!(of_type(&all, "RUN_FINISHED")[0]["outcome"], json!({"type": "success"}));
    assert_eq!(of_type(&relay.log.project_json(), "RUN_FINISHED")[0]["outcome"], pending);
}

// Suspension.

#[test]
fn a_suspended_run_is_an_interrupt_and_resuming_is_the_next_exchange() {
    let start = run_start(run_id("exchange-1"));
    let mut r = Recorder::start(LogState::new("run_1"), at(0), start);
    let tool = r.open_tool(at(1), "c1", "transfer", Opening::default());
    r.arguments_complete(at(2), &tool, None);
    let (recorded, state) = r.suspend(at(3), approval());
    let mut log = Log::of(recorded);
    let mut r = Recorder::resume(state, at(4), Some("alice".into()), run_id("exchange-2"));
    let (_, tool) = r.open_tools().pop().unwrap();
    let tool = r.result(at(5), tool, true, &ToolOutput::Text("sent".into()), None);
    r.end(at(6), tool, Ending::completed());
    log.append(r.complete(at(7), Completion::default()));
    log.assert_legal_and_ended();
    let got = log.project_json();
    let told: Vec<(&str, Option<&str>)> =
        got.iter().map(|e| (e["type"].as_str().unwrap(), e["runId"].as_str())).collect();
    assert_eq!(
        told,
        [
            ("RUN_STARTED", Some("exchange-1")),
            ("TOOL_CALL_START", None),
            ("TOOL_CALL_END", None),
            ("RUN_FINISHED", Some("exchange-1")),
            ("RUN_STARTED", Some("exchange-2")),
            ("TOOL_CALL_RESULT", None),
            ("RUN_FINISHED", Some("exchange-2")),
        ]
    );
    assert_eq!(got[3]["outcome"]["interrupts"], json!([{"id": "i1", "reason": "approval"}]));
}

#[test]
fn what_is_open_closes_before_an_interrupt_and_opens_again_in_the_next_exchange() {
    let mut r = recorder();
    let step = r.open_step(at(1), Opening::named("plan"));
    let agent = r.open_agent(at(2), Opening::named("scout").inside(step.id()));
    let message = r.open_message(at(3), Opening::default().inside(agent.id()));
    r.text(at(4), &message, "Hel", None);
    let model = r.open_model(at(5), Opening::default());
    r.text(at(6), &model, "So", None);
    let tool = r.open_tool(at(7), "c1", "search", Opening::default());
    r.arguments(at(8), &tool, "{", None);
    let raised = json!([
        {"id": "i1", "reason": "input", "subagentRunId": "run_1.seg_2"},
        {"id": "i2", "reason": "input"},
    ]);
    let (recorded, state) = r.suspend(at(9), suspension(raised));
    let mut log = Log::of(recorded);
    let mut r = Recorder::resume(state, at(10), None, run_id("exchange-2"));
    let (_, tool) = r.open_tools().pop().unwrap();
    r.arguments(at(11), &tool, "}", None);
    log.append(r.complete(at(12), Completion::default()));
    log.assert_legal_and_ended();
    let got = log.project_json();
    let names: Vec<&str> = got.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        names[9..],
        [
            "TOOL_CALL_END",
            "TEXT_MESSAGE_END",
            "TEXT_MESSAGE_END",
            "SUBAGENT_FINISHED",
            "STEP_FINISHED",
            "RUN_FINISHED",
            "RUN_STARTED",
            "STEP_STARTED",
            "SUBAGENT_STARTED",
            "TEXT_MESSAGE_START",
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "TEXT_MESSAGE_END",
            "SUBAGENT_FINISHED",
            "STEP_FINISHED",
            "RUN_FINISHED",
        ]
    );
    assert_eq!(got[12]["outcome"], json!({"type": "suspended", "interruptIds": ["i1"]}));
    assert_eq!(got[12]["subagentRunId"], got[17]["subagentRunId"], "the invocation goes on under its id");
    assert_eq!(got[22].get("outcome"), None);
}

#[test]
fn a_suspended_run_that_is_stopped_adds_nothing_to_the_exchange_that_is_over() {
    for stopped in [true, false] {
        let mut r = recorder();
        let step = r.open_step(at(1), Opening::named("plan"));
        let _message = r.open_message(at(2), Opening::default().inside(step.id()));
        let (recorded, state) = r.suspend(at(3), approval());
        let mut log = Log::of(recorded);
        let mut r = Recorder::recover(state);
        r.notice(at(4), NoticeLevel::Warning, "answer_refused", "the answer breaks its schema", None);
        log.append(match stopped {
            true => r.cancel(at(5), &[], None),
            false => r.fail(at(5), Failure::new(ErrorCode::Timeout, "nobody answered")),
        });
        log.assert_legal_and_ended();
        let names = log.project_types();
        let interrupted = names.iter().position(|t| t == "RUN_FINISHED").unwrap();
        // Only a failure may still be told after RUN_FINISHED.
        let expected: &[&str] = if stopped { &[] } else { &["RUN_ERROR"] };
        assert_eq!(&names[interrupted + 1..], expected);
    }
}

#[test]
fn a_notice_while_the_run_waits_is_told_in_the_next_exchange() {
    let (recorded, state) = recorder().suspend(at(1), approval());
    let mut log = Log::of(recorded);
    let mut r = Recorder::recover(state);
    r.notice(at(2), NoticeLevel::Warning, "answer_refused", "the answer breaks its schema", None);
    log.append(r.take());
    let r = Recorder::resume(log.fold(), at(3), None, None);
    log.append(r.complete(at(4), Completion::default()));
    log.assert_legal_and_ended();
    let got = log.project_json();
    assert_eq!(got[2]["type"], "RUN_STARTED");
    assert_eq!((&got[3]["type"], &got[3]["value"]["code"]), (&json!("CUSTOM"), &json!("answer_refused")));
    assert_ne!(got[2]["runId"], got[0]["runId"], "an exchange that no request began has an id of its own");
}

#[test]
fn each_exchange_reports_the_usage_of_its_own_calls_only() {
    let mut r = recorder();
    let model = r.open_model(at(1), Opening::default());
    r.end(at(2), model, Ending { usage: Some(tokens(5)), ..Ending::completed() });
    let (recorded, state) = r.suspend(at(3), Suspension { usage: vec![tokens(1)], ..approval() });
    let mut log = Log::of(recorded);
    let (recorded, state) = Recorder::resume(state, at(4), None, None).suspend(at(5), approval());
    log.append(recorded);
    let mut r = Recorder::resume(state, at(6), None, None);
    let agent = r.open_agent(at(7), Opening::named("scout"));
    let model = r.open_model(at(8), Opening::default().inside(agent.id()));
    r.end(at(9), model, Ending { usage: Some(tokens(7)), ..Ending::completed() });
    log.append(r.complete(at(10), Completion::default()));
    log.assert_legal_and_ended();
    let got = log.project_json();
    let usage: Vec<&Value> = of_type(&got, "RUN_FINISHED").iter().map(|e| &e["usage"]).collect();
    assert_eq!(
        usage,
        [&json!([{"model": "m1", "inputTokens": 6}]), &Value::Null, &json!([{"model": "m1", "inputTokens": 7}])]
    );
}

// Attempts.

#[test]
fn a_new_attempt_takes_back_what_the_abandoned_one_showed() {
    let echo = json!({"threadId": THREAD, "runId": "exchange-1", "state": {"n": 1},
        "messages": [{"id": "u1", "role": "user", "content": "hi"}]});
    let start = || run_start(json!({"runId": "exchange-1", "input": echo}).as_object().cloned());
    let mut r = Recorder::start(LogState::new("run_1"), at(0), start());
    let message = r.open_message(at(1), Opening::default());
    r.text(at(2), &message, "Hel", None);
    r.state_snapshot(at(3), json!({"n": 2}));
    let tool = r.open_tool(at(4), "c1", "search", Opening::default());
    r.arguments_complete(at(5), &tool, None);
    let (recorded, state) = r.retry(at(6), abandoned("overloaded"));
    let mut log = Log::of(recorded);
    let mut r = Recorder::start(state, at(7), start());
    let message = r.open_message(at(8), Opening::default());
    r.text(at(9), &message, "Hello", None);
    r.end(at(10), message, Ending::completed());
    let agui = json!({"outcome": {"type": "success", "pendingToolCallIds": []}}).as_object().cloned();
    log.append(r.complete(at(11), Completion { agui, ..Completion::default() }));
    log.assert_legal_and_ended();
    let got = log.project_json();
    let names: Vec<&str> = got.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        names[6..],
        [
            "TEXT_MESSAGE_END",
            "STATE_SNAPSHOT",
            "MESSAGES_SNAPSHOT",
            "CUSTOM",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED"
        ]
    );
    assert_eq!(got[7]["snapshot"], json!({"n": 1}));
    assert_eq!(got[8]["messages"], json!([{"role": "user", "id": "u1", "content": "hi"}]));
    assert_eq!((&got[9]["name"], &got[9]["value"]), (&json!("runwire.attempt"), &json!({"attempt": 2})));
    assert_eq!(got[13]["outcome"], json!({"type": "success"}), "an abandoned call is nobody's to answer");
}

#[test]
fn a_new_attempt_without_the_input_in_the_log_is_marked() {
    let (recorded, state) = recorder().retry(at(1), abandoned("overloaded"));
    let mut log = Log::of(recorded);
    log.append(Recorder::start(state, at(2), run_start(None)).complete(at(3), Completion::default()));
    assert_eq!(log.project_types(), ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]);
}

#[test]
fn a_new_attempt_may_name_its_subagents_as_the_abandoned_one_did() {
    let attempt = |r: &mut Recorder, now: i64| {
        let mut ingest = runwire_bridge::Ingest::new(&input("exchange-1"));
        for value in [
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout"}),
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": "b", "name": "scout", "parentSubagentRunId": "a"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "b"}),
        ] {
            ingest.record(r, at(now), &event(value));
        }
    };
    let mut r = recorder();
    attempt(&mut r, 1);
    let (recorded, state) = r.retry(at(2), abandoned("overloaded"));
    let mut log = Log::of(recorded);
    let mut r = Recorder::start(state, at(3), run_start(None));
    attempt(&mut r, 4);
    log.append(r.cancel(at(5), &[], None));
    log.assert_legal_and_ended();
    let got = log.project_json();
    let second: Vec<Value> = got[8..11].iter().map(|e| e["subagentRunId"].clone()).collect();
    assert_eq!(second, ["a.2", "b.2", "b.2"], "{got:#?}");
    assert_eq!(got[9]["parentSubagentRunId"], "a.2");
    assert_eq!((&got[10]["type"], &got[10]["messageId"]), (&json!("TEXT_MESSAGE_START"), &json!("m.2")));
}

/// events/state, "MESSAGES_SNAPSHOT": a client keeps reasoning and activities that the restatement lacks, so a repeated id
/// would add to what was abandoned.
#[test]
fn a_new_attempt_adds_nothing_to_the_reasoning_and_the_activities_of_the_abandoned_one() {
    let attempt = |r: &mut Recorder, now: i64, said: &str| {
        let mut ingest = runwire_bridge::Ingest::new(&input("exchange-1"));
        for value in [
            json!({"type": "REASONING_START", "messageId": "r"}),
            json!({"type": "REASONING_MESSAGE_START", "messageId": "r", "role": "reasoning"}),
            json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": said}),
            json!({"type": "REASONING_MESSAGE_END", "messageId": "r"}),
            json!({"type": "REASONING_END", "messageId": "r"}),
            json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r", "encryptedValue": said}),
            json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "plan", "content": {"n": said},
                   "replace": false}),
            json!({"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "plan",
                   "patch": [{"op": "add", "path": "/done", "value": true}]}),
        ] {
            ingest.record(r, at(now), &event(value));
        }
    };
    let mut r = recorder();
    attempt(&mut r, 1, "first");
    let (recorded, state) = r.retry(at(2), abandoned("overloaded"));
    let mut log = Log::of(recorded);
    let mut r = Recorder::start(state, at(3), run_start(None));
    attempt(&mut r, 4, "second");
    log.append(r.complete(at(5), Completion::default()));
    log.assert_legal_and_ended();
    let mut reducer = runwire_agui::Reducer::new();
    for (index, event) in log.project().iter().enumerate() {
        assert_eq!(reducer.apply(event.clone(), index), None, "{event:?}");
    }
    let held: Vec<Value> = reducer.messages().map(|m| serde_json::to_value(m).unwrap()).collect();
    let brief: Vec<_> = held.iter().map(|m| (m["id"].as_str().unwrap(), &m["content"])).collect();
    assert_eq!(
        brief,
        [
            ("r", &json!("first")),
            ("a", &json!({"n": "first", "done": true})),
            ("r.2", &json!("second")),
            ("a.2", &json!({"n": "second", "done": true})),
        ]
    );
    assert_eq!((&held[0]["encryptedValue"], &held[2]["encryptedValue"]), (&json!("first"), &json!("second")));
}

/// What names a subagent names it by the name that the client knows, also inside of an outcome and of messages.
#[test]
fn a_repeated_subagent_is_renamed_in_interrupts_and_messages_too() {
    let announced = json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout"});
    let mut r = recorder();
    runwire_bridge::Ingest::new(&input("exchange-1")).record(&mut r, at(1), &event(announced.clone()));
    let (recorded, state) = r.retry(at(2), abandoned("overloaded"));
    let mut log = Log::of(recorded);
    let mut r = Recorder::start(state, at(3), run_start(None));
    let mut ingest = runwire_bridge::Ingest::new(&input("exchange-1"));
    for value in [
        announced,
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [
            {"id": "m", "role": "assistant", "content": "Hi", "subagentRunId": "a"},
            {"id": "u", "role": "user", "content": "Hi"},
        ]}),
    ] {
        ingest.record(&mut r, at(4), &event(value));
    }
    let raised = json!([{"id": "i1", "reason": "input", "subagentRunId": "a"}, {"id": "i2", "reason": "input"}]);
    log.append(r.suspend(at(5), suspension(raised)).0);
    let got = log.project_json();
    let snapshot = got.iter().rfind(|e| e["type"] == "MESSAGES_SNAPSHOT").unwrap();
    assert_eq!(snapshot["messages"][0]["subagentRunId"], "a.2");
    let finished = got.last().unwrap();
    assert_eq!(finished["outcome"]["interrupts"][0]["subagentRunId"], "a.2", "{got:#?}");
    assert_eq!(finished["outcome"]["interrupts"][1].get("subagentRunId"), None);
}

/// events/subagents, "Nesting": `parentSubagentRunId` names an invocation that was announced in the same run.
#[test]
fn a_child_that_outlives_its_parent_opens_in_the_next_exchange_without_naming_it() {
    let mut r = recorder();
    let parent = r.open_agent(at(1), Opening::named("lead"));
    let child = r.open_agent(at(2), Opening::named("scout").inside(parent.id()));
    let step = r.open_step(at(3), Opening::named("plan").inside(parent.id()));
    r.end(at(4), parent, Ending::completed());
    let (recorded, state) = r.suspend(at(5), approval());
    let mut log = Log::of(recorded);
    let mut r = Recorder::resume(state, at(6), None, run_id("exchange-2"));
    // Inside of what is left of the parent's work, and inside of the child.
    let _open = r.open_agent(at(7), Opening::named("late").inside(step.id()));
    let _open = r.open_agent(at(8), Opening::named("inner").inside(child.id()));
    log.append(r.complete(at(9), Completion::default()));
    log.assert_legal_and_ended();
    let got = log.project_json();
    let announced = of_type(&got, "SUBAGENT_STARTED");
    let nested: Vec<_> =
        announced.iter().map(|e| (e["name"].as_str().unwrap(), e["parentSubagentRunId"].as_str())).collect();
    assert_eq!(
        nested,
        [
            ("lead", None),
            ("scout", Some("run_1.seg_1")),
            ("scout", None),
            ("late", None),
            ("inner", Some("run_1.seg_2")),
        ]
    );
}

/// events/tool-calls, "Frontend tools": a run that leaves calls unanswered names exactly these, in order.
#[test]
fn the_calls_that_an_agent_of_this_server_leaves_to_the_application_are_named() {
    for result in [None, Some(json!({"result": 1}))] {
        let mut r = recorder();
        for call in ["c1", "c2", "c3"] {
            let tool = r.open_tool(at(1), call, "ask_user", Opening::default());
            r.arguments_complete(at(2), &tool, None);
            if call == "c2" {
                let answered = r.result(at(3), tool, true, &ToolOutput::Text("ok".into()), None);
                r.end(at(4), answered, Ending::completed());
            }
        }
        let agui = result.as_ref().and_then(Value::as_object).cloned();
        let log = Log::of(r.complete(at(5), Completion { agui, ..Completion::default() }));
        let last = log.project_json().pop().unwrap();
        assert_eq!(last["outcome"], json!({"type": "success", "pendingToolCallIds": ["c1", "c3"]}));
        let (old, warnings) = log.project_each(Peer::PreV1);
        let Some(Event::RunFinished(old)) = old.into_iter().flatten().last() else { panic!("it finished") };
        assert_eq!(serde_json::to_value(&old).unwrap()["outcome"].get("pendingToolCallIds"), None);
        assert_eq!(warnings.len(), 1);
    }
}

/// A call that waits over a suspension is of the exchange that made it, and not of the next.
#[test]
fn an_exchange_names_the_pending_calls_of_its_own_only() {
    let mut r = recorder();
    let tool = r.open_tool(at(1), "c1", "ask_user", Opening::default());
    r.arguments_complete(at(2), &tool, None);
    let _open = r.open_tool(at(3), "c2", "ask_user", Opening::default());
    let (recorded, state) = r.suspend(at(4), approval());
    let mut log = Log::of(recorded);
    let mut r = Recorder::resume(state, at(5), None, run_id("exchange-2"));
    let (_, c2) = r.open_tools().pop().unwrap();
    r.arguments_complete(at(6), &c2, None);
    let _open = r.open_tool(at(7), "c3", "ask_user", Opening::default());
    log.append(r.complete(at(8), Completion::default()));
    log.assert_legal_and_ended();
    let last = log.project_json().pop().unwrap();
    assert_eq!(last["outcome"]["pendingToolCallIds"], json!(["c2", "c3"]), "c2 was opened again");
}

// Determinism.

#[test]
fn the_events_of_a_frame_do_not_depend_on_what_follows_it() {
    let mut r = recorder();
    let step = r.open_step(at(1), Opening::named("plan"));
    let model = r.open_model(at(2), Opening::default().inside(step.id()));
    r.thinking(at(3), &model, "hm", None);
    r.text(at(40), &model, "Hi", None);
    let (recorded, state) = r.suspend(at(50), approval());
    let mut log = Log::of(recorded);
    let r = Recorder::resume(state, at(60), None, None);
    let (recorded, state) = r.retry(at(70), abandoned("overloaded"));
    log.append(recorded);
    let mut r = Recorder::start(state, at(80), run_start(None));
    let message = r.open_message(at(90), Opening::default());
    r.text(at(91), &message, "Hello", None);
    log.append(r.fail(at(100), Failure::new(ErrorCode::ModelError, "gone")));
    log.assert_legal_and_ended();
    log.project();
    let (whole, _) = log.project_each(Peer::Current);
    for len in 0..=log.frames.len() {
        let prefix = Log { frames: log.frames[..len].to_vec(), payloads: Vec::new() };
        assert_eq!(prefix.project_each(Peer::Current).0, whole[..len]);
    }
}

/// Seed, row `notice`: compaction applied, model fallback used, cache skipped, guardrail warned.
#[test]
fn notice_carries_what_the_seed_names_and_a_client_of_ag_ui_is_told() {
    for code in ["compaction_applied", "model_fallback", "cache_skipped", "guardrail_warned"] {
        for &level in NoticeLevel::ALL {
            let mut r = recorder();
            r.notice(at(1), level, code, "for a person", None);
            let log = done(r);
            assert_eq!(
                log.data(runwire_frame::FrameType::Notice),
                [json!({"level": level.as_str(), "code": code, "message": "for a person"})]
            );
            let value = json!({"level": level.as_str(), "code": code, "message": "for a person"});
            assert_eq!(inner(&log), [json!({"type": "CUSTOM", "name": "runwire.notice", "value": value})]);
        }
    }
}

#[test]
fn a_notice_of_this_server_is_a_custom_event() {
    let mut r = recorder();
    let attributes = json!({"from": "m1", "to": "m2"}).as_object().cloned();
    r.notice(at(1), NoticeLevel::Warning, "model_fallback", "m1 is overloaded", attributes);
    assert_eq!(
        inner(&done(r)),
        [json!({"type": "CUSTOM", "name": "runwire.notice", "value": {"level": "warning", "code": "model_fallback",
            "message": "m1 is overloaded", "attributes": {"from": "m1", "to": "m2"}}})]
    );
}
