//! What the scripted agent does. The prompt says which scene it plays.

use serde_json::{Value, json};

/// Every scene.
pub const NAMES: [&str; 8] =
    ["families", "parts", "replayed", "interrupt", "cancelled", "failed", "failed late", "null state"];

/// The stream that answers the input.
pub fn play(input: &Value) -> Vec<Value> {
    let user = |message: &&Value| message["role"] == "user";
    let asked = input["messages"].as_array().unwrap().iter().rfind(user).unwrap()["content"].as_str().unwrap();
    if input.get("resume").is_some() {
        let answered = json!([
            {"type": "SUBAGENT_STARTED", "subagentRunId": "a1", "name": "buyer"},
            {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "paid", "subagentRunId": "a1"},
            {"type": "SUBAGENT_FINISHED", "subagentRunId": "a1"},
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "delta": "Paid."},
        ]);
        return run(input, answered, Value::Null);
    }
    match asked {
        "families" => run(input, families(), json!({"type": "success", "pendingToolCallIds": ["c4"]})),
        "parts" => run(input, parts(), Value::Null),
        "replayed" => replayed(input),
        "interrupt" => run(
            input,
            suspended(),
            json!({"type": "interrupt", "interrupts": [
            {"id": "i1", "reason": "approval", "message": "Pay?", "toolCallId": "c1", "subagentRunId": "a1",
             "responseSchema": {"type": "object"}}]}),
        ),
        "cancelled" => run(input, half(), json!({"type": "cancelled"})),
        "failed" => {
            let mut events = run(input, half(), Value::Null);
            events.pop();
            events.push(json!({"type": "RUN_ERROR", "message": "The model is gone.", "code": "GONE"}));
            events
        }
        "failed late" => {
            let mut events = run(input, half(), Value::Null);
            events.push(json!({"type": "RUN_ERROR", "message": "It was not flushed.", "code": "LATE"}));
            events
        }
        "null state" => run(input, json!([{"type": "STATE_SNAPSHOT", "snapshot": null}]), Value::Null),
        other => panic!("no scene is called {other}"),
    }
}

/// The run that the input asks for, with these events inside it and an outcome or none.
fn run(input: &Value, events: Value, outcome: Value) -> Vec<Value> {
    let (thread, run) = (&input["threadId"], &input["runId"]);
    let mut all = vec![json!({"type": "RUN_STARTED", "threadId": thread, "runId": run, "protocolVersion": "1.0"})];
    all.extend(events.as_array().unwrap().iter().cloned());
    let mut finished = json!({"type": "RUN_FINISHED", "threadId": thread, "runId": run});
    if !outcome.is_null() {
        finished["outcome"] = outcome;
    }
    all.push(finished);
    all
}

fn half() -> Value {
    json!([{"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "delta": "Half a"}])
}

fn parts() -> Value {
    json!([
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c1", "toolCallName": "shoot", "delta": "{}"},
        {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "role": "tool", "content": [
            {"type": "text", "text": "Here."},
            {"type": "image", "source": {"type": "url", "value": "https://example.org/x.png"}},
        ]},
    ])
}

/// A thread of which an earlier run is told first, as snapshots.
fn replayed(input: &Value) -> Vec<Value> {
    let earlier = json!({"threadId": input["threadId"], "runId": "earlier"});
    let history = json!([
        {"type": "MESSAGES_SNAPSHOT", "messages": [
            {"id": "old", "role": "user", "content": "Before"},
            {"id": "older", "role": "assistant", "content": "Yes"},
        ]},
        {"type": "STATE_SNAPSHOT", "snapshot": {"kept": true}},
    ]);
    let mut events = run(&earlier, history, Value::Null);
    events.extend(run(input, half(), Value::Null));
    events
}

fn suspended() -> Value {
    json!([
        {"type": "SUBAGENT_STARTED", "subagentRunId": "a1", "name": "buyer"},
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "pay", "subagentRunId": "a1"},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "a1", "outcome": {"type": "suspended", "interruptIds": ["i1"]}},
    ])
}

/// Every family of events, explicit and in chunks, two subagents side by side, one of them in the other.
fn families() -> Value {
    json!([
        {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}},
        {"type": "STEP_STARTED", "stepName": "plan"},
        {"type": "REASONING_START", "messageId": "s1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "r1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r1", "delta": "Hm."},
        {"type": "REASONING_MESSAGE_END", "messageId": "r1"},
        {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r1", "encryptedValue": "b3BhcXVl"},
        {"type": "REASONING_END", "messageId": "s1"},
        {"type": "REASONING_MESSAGE_CHUNK", "messageId": "r2", "delta": "Hm, "},
        {"type": "REASONING_MESSAGE_CHUNK", "delta": "again."},
        {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant", "name": "Ada"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "I look.", "metadata": {"model": "m"}},
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look", "parentMessageId": "m1"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"at\":"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "1}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        {"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "fine", "role": "tool"},
        {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c1", "encryptedValue": "dG9v"},
        {"type": "STEP_FINISHED", "stepName": "plan"},
        {"type": "SUBAGENT_STARTED", "subagentRunId": "a1", "name": "researcher", "description": "Looks things up",
         "parentToolCallId": "c1", "parentMessageId": "m1"},
        {"type": "SUBAGENT_STARTED", "subagentRunId": "a2", "name": "critic", "parentSubagentRunId": "a1"},
        {"type": "STEP_STARTED", "stepName": "read", "subagentRunId": "a1"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m2", "delta": "One ", "subagentRunId": "a1"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m3", "delta": "Two ", "subagentRunId": "a2"},
        {"type": "RAW", "event": {"vendor": [1, null]}, "source": "vendor", "subagentRunId": "a2"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "more", "subagentRunId": "a1"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m3", "delta": "too"},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c2", "toolCallName": "draw", "delta": "{}", "subagentRunId": "a2"},
        {"type": "SUBAGENT_ERROR", "subagentRunId": "a2", "message": "No pen.", "code": "PEN"},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/by", "value": "a1"}], "subagentRunId": "a1"},
        {"type": "STEP_FINISHED", "stepName": "read", "subagentRunId": "a1"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "a1", "result": {"pages": 2}, "outcome": {"type": "success"}},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "v1", "activityType": "search", "content": {"found": 0}},
        {"type": "ACTIVITY_DELTA", "messageId": "v1", "activityType": "search",
         "patch": [{"op": "replace", "path": "/found", "value": 3}]},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "v1", "activityType": "other", "content": {}, "replace": false},
        {"type": "TOOL_CALL_RESULT", "messageId": "t2", "toolCallId": "c2", "content": "drawn", "subagentRunId": "a2"},
        {"type": "CUSTOM", "name": "org.example.seen", "value": {"a": null}},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c4", "toolCallName": "choose", "parentMessageId": "m4", "delta": "{}"},
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]},
    ])
}
