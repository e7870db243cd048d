//! What a thread waits for after each run (patterns/interrupt-resume; events/tool-calls, "Frontend tools";
//! events/lifecycle, "Cancelled runs").
#![allow(clippy::unwrap_used)]

use runwire_agui::{Consumer, Event, Pending, Reducer, RunAgentInput, Tool};
use serde_json::{Value, json};

/// Replays a stream the way an application has it: verified events, chunks expanded.
fn feed(pending: &mut Pending, stream: &[Value]) -> Reducer {
    let mut consumer = Consumer::default();
    let mut reducer = Reducer::new();
    for (index, event) in stream.iter().enumerate() {
        for event in consumer.push_value(event.clone()).unwrap() {
            pending.apply(&event);
            reducer.apply(event, index);
        }
    }
    reducer
}

fn after(stream: &[Value]) -> Pending {
    let mut pending = Pending::new();
    feed(&mut pending, stream);
    pending
}

fn started(run: &str) -> Value {
    json!({ "type": "RUN_STARTED", "threadId": "t", "runId": run })
}

fn finished(run: &str, outcome: Value) -> Value {
    let mut event = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": run });
    if !outcome.is_null() {
        event["outcome"] = outcome;
    }
    event
}

fn interrupt(interrupts: Value) -> Value {
    json!({ "type": "interrupt", "interrupts": interrupts })
}

fn call(id: &str, name: &str) -> Vec<Value> {
    vec![
        json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": "{\"n\":" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": "1}" }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": id }),
    ]
}

fn result(id: &str) -> Value {
    json!({ "type": "TOOL_CALL_RESULT", "messageId": format!("result-{id}"), "toolCallId": id, "content": "ok" })
}

/// A run that calls `c1` and `c2`, gets a result for `c2`, and goes on like this.
fn run(more: &[Value]) -> Vec<Value> {
    let mut stream = vec![started("r1")];
    stream.extend(call("c1", "pick"));
    stream.extend(call("c2", "look"));
    stream.push(result("c2"));
    stream.extend_from_slice(more);
    stream
}

fn ids(pending: &Pending) -> Vec<&str> {
    pending.tool_calls().iter().map(|call| call.id.as_str()).collect()
}

fn interrupt_ids(pending: &Pending) -> Vec<&str> {
    pending.interrupts().iter().map(|interrupt| interrupt.id.as_str()).collect()
}

#[test]
fn an_absent_or_empty_list_is_derived_from_the_stream_and_not_read_as_nothing_pending() {
    for outcome in [Value::Null, json!({ "type": "success" }), json!({ "type": "success", "pendingToolCallIds": [] })] {
        let pending = after(&run(&[finished("r1", outcome)]));
        let [call] = pending.tool_calls() else { panic!("{pending:?}") };
        assert_eq!((call.id.as_str(), call.name.as_str(), call.arguments.as_str()), ("c1", "pick", "{\"n\":1}"));
        assert!(!call.named);
    }
}

#[test]
fn calls_made_as_chunks_count_too() {
    let chunk = json!({ "type": "TOOL_CALL_CHUNK", "toolCallId": "c1", "toolCallName": "pick", "delta": "{}" });
    let pending = after(&[started("r1"), chunk, finished("r1", Value::Null)]);
    assert_eq!(pending.tool_calls()[0].arguments, "{}");
}

#[test]
fn the_calls_that_the_run_names_wait_in_its_order() {
    let mut stream = vec![started("r1")];
    stream.extend(call("c1", "pick"));
    stream.extend(call("c2", "pick"));
    stream.push(finished("r1", json!({ "type": "success", "pendingToolCallIds": ["c1", "c2"] })));
    let pending = after(&stream);
    assert_eq!(ids(&pending), ["c1", "c2"]);
    assert!(pending.tool_calls().iter().all(|call| call.named && call.arguments == "{\"n\":1}"));
}

#[test]
fn nothing_waits_while_a_run_is_open() {
    assert!(after(&run(&[])).is_empty());
}

#[test]
fn an_interrupted_run_waits_for_its_interrupts_and_for_derived_calls() {
    let outcome = interrupt(json!([{ "id": "i1", "reason": "x" }, { "id": "i2", "reason": "y", "toolCallId": "c1" }]));
    let pending = after(&run(&[finished("r1", outcome)]));
    assert_eq!(interrupt_ids(&pending), ["i1", "i2"]);
    assert_eq!(ids(&pending), ["c1"]);
    assert_eq!(pending.tool_calls()[0].interrupt_id.as_deref(), Some("i2"), "not for the application to execute");
    assert_eq!(pending.thread_id(), Some("t"));
}

#[test]
fn a_messages_snapshot_that_drops_or_restates_the_call_changes_nothing() {
    let held = json!({ "id": "c1", "role": "assistant", "toolCalls": [
        { "id": "c1", "type": "function", "function": { "name": "pick", "arguments": "{\"n\":1}" } },
    ] });
    for messages in [json!([]), json!([held]), json!([{ "id": "u", "role": "user", "content": "hi" }])] {
        let snapshot = json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages });
        let pending = after(&run(&[snapshot, finished("r1", Value::Null)]));
        assert_eq!(ids(&pending), ["c1"]);
        assert_eq!(pending.tool_calls()[0].arguments, "{\"n\":1}");
    }
}

#[test]
fn a_result_that_comes_only_in_a_messages_snapshot_is_a_result() {
    let answer = json!({ "id": "m", "role": "tool", "toolCallId": "c1", "content": "red" });
    let snapshot = json!({ "type": "MESSAGES_SNAPSHOT", "messages": [answer] });
    assert!(after(&run(&[snapshot, finished("r1", Value::Null)])).is_empty());
}

#[test]
fn the_next_run_clears_what_waited() {
    let outcome = interrupt(json!([{ "id": "i1", "reason": "x" }]));
    let mut stream = run(&[finished("r1", outcome)]);
    stream.push(started("r2"));
    assert!(after(&stream).is_empty());
    stream.push(finished("r2", Value::Null));
    assert!(after(&stream).is_empty(), "the calls of r1 are not those of r2");
}

#[test]
fn after_a_cancelled_or_failed_run_nothing_waits() {
    let failed = json!({ "type": "RUN_ERROR", "message": "no" });
    let outcome = interrupt(json!([{ "id": "i1", "reason": "x" }]));
    for more in [
        vec![finished("r1", json!({ "type": "cancelled" }))],
        vec![failed.clone()],
        // One that surfaces after the run had ended otherwise: the run failed.
        vec![finished("r1", Value::Null), failed.clone()],
        vec![finished("r1", outcome), failed],
    ] {
        assert!(after(&run(&more)).is_empty(), "{more:?}");
    }
}

#[test]
fn whether_a_tool_was_offered_is_known_from_the_input_or_its_echo() {
    let input =
        json!({ "threadId": "t", "runId": "r1", "messages": [], "tools": [{ "name": "pick", "description": "d" }] });
    let mut stream = vec![started("r1")];
    stream.extend(call("c1", "pick"));
    stream.extend(call("c2", "look"));
    stream.push(finished("r1", Value::Null));
    let advertised = |pending: &Pending| pending.tool_calls().iter().map(|call| call.advertised).collect::<Vec<_>>();
    assert_eq!(advertised(&after(&stream)), [None, None]);
    let mut pending = Pending::for_input(&RunAgentInput::decode_value(input.clone()).unwrap().0);
    feed(&mut pending, &stream);
    assert_eq!(advertised(&pending), [Some(true), Some(false)]);
    stream[0]["input"] = input;
    assert_eq!(advertised(&after(&stream)), [Some(true), Some(false)]);
}

#[test]
fn a_call_that_is_reopened_waits_once_with_all_its_arguments() {
    let mut stream = vec![started("r1")];
    stream.extend(call("c1", "pick"));
    stream.extend(call("c1", "pick"));
    stream.push(finished("r1", Value::Null));
    let pending = after(&stream);
    assert_eq!(ids(&pending), ["c1"]);
    assert_eq!(pending.tool_calls()[0].arguments, "{\"n\":1}{\"n\":1}");
}

#[test]
fn after_a_reload_it_is_restored_from_what_the_reducer_held() {
    let outcome = interrupt(json!([{ "id": "i1", "reason": "x", "toolCallId": "c1" }]));
    let mut live = Pending::new();
    let reducer = feed(&mut live, &run(&[finished("r1", outcome)]));
    let tools = [Tool::new("pick", "d")];
    let restored = Pending::from_messages(reducer.messages(), &tools)
        .with_interrupts(reducer.interrupts().to_vec())
        .on_thread("t");
    assert_eq!(ids(&restored), ids(&live));
    assert_eq!(interrupt_ids(&restored), interrupt_ids(&live));
    assert_eq!(restored.tool_calls()[0].interrupt_id.as_deref(), Some("i1"));
    assert_eq!(restored.tool_calls()[0].advertised, Some(true));
    assert_eq!(restored.thread_id(), live.thread_id());
}

#[test]
fn only_calls_since_the_user_last_spoke_are_restored() {
    let assistant = |call: &str| {
        json!({ "id": format!("a-{call}"), "role": "assistant", "toolCalls": [
            { "id": call, "type": "function", "function": { "name": "pick", "arguments": "{}" } },
        ] })
    };
    let input = json!({ "threadId": "t", "runId": "r", "messages": [
        { "id": "u1", "role": "user", "content": "a" },
        assistant("c0"),
        { "id": "u2", "role": "user", "content": "b" },
        assistant("c1"),
        { "id": "m1", "role": "tool", "toolCallId": "c1", "content": "x" },
        assistant("c2"),
        { "id": "a", "role": "assistant", "content": "Please pick." },
    ] });
    let (input, _) = RunAgentInput::decode_value(input).unwrap();
    let pending = Pending::from_messages(&input.messages, &[]);
    assert_eq!(ids(&pending), ["c2"]);
    assert_eq!(pending.tool_calls()[0].advertised, Some(false));
}

#[test]
fn a_run_that_goes_on_from_restored_messages_clears_them() {
    let mut pending = Pending::from_messages(&[], &[]);
    let event = |value: Value| runwire_agui::decode_value(value, 0).unwrap().event.unwrap();
    for value in run(&[finished("r1", Value::Null)]) {
        pending.apply(&event(value));
    }
    assert_eq!(ids(&pending), ["c1"]);
    let next: Event = event(started("r2"));
    pending.apply(&next);
    assert!(pending.is_empty());
}
