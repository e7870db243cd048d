//! Sequences of well-formed events, spelled in three bytes each.
//!
//! A fuzzer that changes JSON changes it mostly into no JSON. Here each input is some sequence, and near inputs are near
//! sequences. All ids are among a few, so that events meet.

use serde_json::{Map, Value, json};

const IDS: [&str; 4] = ["a", "b", "c", ""];
const OWNERS: [Option<&str>; 4] = [None, None, Some("s"), Some("t")];
const PATHS: [&str; 8] = ["", "/a", "/b", "/a/b", "/b/a", "/a/0", "/a/-", "/b/-"];

/// The events that an input spells.
#[derive(Clone, Debug)]
pub struct Sequence<'a> {
    rest: &'a [u8],
    begun: bool,
}

impl<'a> Sequence<'a> {
    /// The sequence of that input.
    #[must_use]
    pub fn of(input: &'a [u8]) -> Self {
        Self { rest: input, begun: false }
    }
}

impl Iterator for Sequence<'_> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        if !std::mem::replace(&mut self.begun, true) {
            return Some(started("r", 0));
        }
        let (&[kind, names, flags], rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(event(kind, names, flags))
    }
}

fn event(kind: u8, names: u8, flags: u8) -> Value {
    let id = IDS[usize::from(names) % 4];
    let other = IDS[usize::from(names >> 2) % 4];
    let owner = OWNERS[usize::from(names >> 4) % 4];
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let mut event = match kind % 34 {
        0 => started(other, flags),
        1 | 2 => finished(id, flags),
        3 => json!({"type": "RUN_ERROR", "message": id}),
        4 => json!({"type": "STEP_STARTED", "stepName": id}),
        5 => json!({"type": "STEP_FINISHED", "stepName": id}),
        6 => with(
            json!({"type": "TEXT_MESSAGE_START", "messageId": id}),
            [("role", role(flags)), ("name", flag(2).then(|| json!(other)))],
        ),
        7 => json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": other}),
        8 => json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
        9 => with(
            json!({"type": "TEXT_MESSAGE_CHUNK"}),
            [
                ("messageId", flag(3).then(|| json!(id))),
                ("role", role(flags)),
                ("delta", flag(4).then(|| json!("d"))),
                ("name", flag(5).then(|| json!(other))),
            ],
        ),
        10 => with(
            json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "f"}),
            [("parentMessageId", flag(0).then(|| json!(other)))],
        ),
        11 => json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": "{}"}),
        12 => json!({"type": "TOOL_CALL_END", "toolCallId": id}),
        13 => with(
            json!({"type": "TOOL_CALL_CHUNK"}),
            [
                ("toolCallId", flag(0).then(|| json!(id))),
                ("toolCallName", flag(1).then(|| json!("f"))),
                ("parentMessageId", flag(2).then(|| json!(other))),
                ("delta", flag(3).then(|| json!("{"))),
            ],
        ),
        14 => {
            let content = if flag(0) { json!([{"type": "text", "text": "x"}]) } else { json!("x") };
            json!({"type": "TOOL_CALL_RESULT", "messageId": other, "toolCallId": id, "content": content})
        }
        15 => json!({"type": "STATE_SNAPSHOT", "snapshot": value(flags)}),
        16 => json!({"type": "STATE_DELTA", "delta": patch(names, flags)}),
        17 => json!({"type": "MESSAGES_SNAPSHOT", "messages": messages(id, other, owner, flags)}),
        18 => with(
            json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": other, "content": object(flags)}),
            [("replace", flag(0).then(|| json!(flag(1))))],
        ),
        19 => json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": other, "patch": patch(names, flags)}),
        20 => json!({"type": "RAW", "event": value(flags)}),
        21 => json!({"type": "CUSTOM", "name": id, "value": value(flags)}),
        22 => json!({"type": "REASONING_START", "messageId": id}),
        23 => json!({"type": "REASONING_END", "messageId": id}),
        24 => json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}),
        25 => json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": other}),
        26 => json!({"type": "REASONING_MESSAGE_END", "messageId": id}),
        27 => with(
            json!({"type": "REASONING_MESSAGE_CHUNK"}),
            [("messageId", flag(0).then(|| json!(id))), ("delta", flag(1).then(|| json!("d")))],
        ),
        28 => {
            let subtype = if flag(0) { "message" } else { "tool-call" };
            json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype, "entityId": id, "encryptedValue": "eA=="})
        }
        29 => with(
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": if flag(0) { "s" } else { "t" }, "name": "n"}),
            [
                ("parentSubagentRunId", flag(1).then(|| json!(if flag(2) { "s" } else { "t" }))),
                ("parentToolCallId", flag(3).then(|| json!(id))),
                ("parentMessageId", flag(4).then(|| json!(other))),
            ],
        ),
        30 | 31 => {
            let outcome = json!({"type": "suspended", "interruptIds": [id]});
            with(
                json!({"type": "SUBAGENT_FINISHED", "subagentRunId": if flag(0) { "s" } else { "t" }}),
                [("outcome", flag(1).then_some(outcome))],
            )
        }
        32 => json!({"type": "SUBAGENT_ERROR", "subagentRunId": if flag(0) { "s" } else { "t" }, "message": "m"}),
        _ => json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": "x"}),
    };
    let run_level =
        matches!(event["type"].as_str(), Some("RUN_STARTED" | "RUN_FINISHED" | "RUN_ERROR" | "MESSAGES_SNAPSHOT"));
    if let (Some(owner), false, None) = (owner, run_level, event.get("subagentRunId")) {
        event["subagentRunId"] = json!(owner);
    }
    if flag(6) {
        event["metadata"] = json!({ id: flags, "k": {"n": names} });
    }
    if flag(7) && !value(flags).is_null() {
        event["rawEvent"] = value(flags);
    }
    event
}

fn with<const N: usize>(mut event: Value, members: [(&str, Option<Value>); N]) -> Value {
    for (name, value) in members {
        if let Some(value) = value {
            event[name] = value;
        }
    }
    event
}

fn role(flags: u8) -> Option<Value> {
    [None, Some("user"), Some("assistant"), Some("system")][usize::from(flags) % 4].map(Value::from)
}

fn value(flags: u8) -> Value {
    match flags % 7 {
        0 => Value::Null,
        1 => json!(flags),
        2 => json!("text"),
        3 => json!([]),
        4 => json!([1, null, {"a": 0.5}]),
        _ => Value::Object(object(flags)),
    }
}

fn object(flags: u8) -> Map<String, Value> {
    let members = [("a", json!({"b": flags})), ("b", json!([flags, "x"])), ("", json!(false))];
    members.into_iter().take(usize::from(flags) % 4).map(|(key, value)| (key.to_owned(), value)).collect()
}

fn patch(names: u8, flags: u8) -> Value {
    let path = |bits: u8| PATHS[usize::from(bits % 8)];
    let operation = |op: u8, path: &str, from: &str| match op % 6 {
        0 => json!({"op": "add", "path": path, "value": value(flags)}),
        1 => json!({"op": "remove", "path": path}),
        2 => json!({"op": "replace", "path": path, "value": value(flags)}),
        3 => json!({"op": "move", "from": from, "path": path}),
        4 => json!({"op": "copy", "from": from, "path": path}),
        _ => json!({"op": "test", "path": path, "value": value(flags)}),
    };
    let first = operation(flags, path(names), path(names >> 3));
    let second = operation(flags >> 2, path(names >> 2), path(names));
    let last = operation(names >> 5, path(flags), path(flags >> 3));
    json!([first, second, last])
}

fn messages(id: &str, other: &str, owner: Option<&str>, flags: u8) -> Value {
    let message = |id: &str, kind: u8| {
        let mut message = match kind % 7 {
            0 => json!({"role": "user", "id": id, "content": "u"}),
            1 => json!({"role": "assistant", "id": id, "content": "a"}),
            2 => {
                let call = json!({"id": other, "type": "function", "function": {"name": "f", "arguments": ""}});
                json!({"role": "assistant", "id": id, "toolCalls": [call]})
            }
            3 => json!({"role": "tool", "id": id, "toolCallId": other, "content": [{"type": "text", "text": "p"}]}),
            4 => json!({"role": "activity", "id": id, "activityType": other, "content": object(flags)}),
            5 => json!({"role": "reasoning", "id": id, "content": ""}),
            _ => json!({"role": "user", "id": id, "content": [{"type": "text", "text": "p"}]}),
        };
        if let Some(owner) = owner {
            message["subagentRunId"] = json!(owner);
        }
        message
    };
    let all = [message(id, flags), message(other, flags >> 3), message("d", flags >> 2)];
    Value::from(all[..usize::from(flags >> 6)].to_vec())
}

fn started(run_id: &str, flags: u8) -> Value {
    let mut event = json!({"type": "RUN_STARTED", "threadId": "t", "runId": run_id});
    if flags & 1 != 0 {
        event["protocolVersion"] = json!("1.0");
    }
    if flags & 2 != 0 {
        let messages = messages("a", "b", None, flags | 64);
        event["input"] = json!({
            "threadId": "t", "runId": run_id, "messages": messages, "tools": [], "context": [], "resume": [],
        });
    }
    event
}

fn finished(id: &str, flags: u8) -> Value {
    // Mostly the run that is there, so that streams go on.
    let run_id = if flags & 1 != 0 { id } else { "r" };
    let mut event = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": run_id});
    match flags >> 1 & 7 {
        1 => event["outcome"] = json!({"type": "cancelled"}),
        2 => event["outcome"] = json!({"type": "success", "pendingToolCallIds": [id]}),
        3 => event["outcome"] = json!({"type": "interrupt", "interrupts": [{"id": id, "reason": "r"}]}),
        4 => {
            event["outcome"] =
                json!({"type": "interrupt", "interrupts": [{"id": id, "reason": ""}, {"id": "a", "reason": ""}]})
        }
        5 => event["outcome"] = json!({"type": "success"}),
        _ => {}
    }
    if flags & 16 != 0 {
        event["usage"] = json!([{"provider": id, "inputTokens": flags, "totalTokens": 0}]);
    }
    event
}
