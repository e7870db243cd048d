//! Conforming AG-UI streams, made by a random walk that keeps account of what is open and whose it is.

#![allow(clippy::unwrap_used, dead_code, reason = "each test program uses its own part")]

use proptest::prelude::*;
use runwire_agui::{Event, RunAgentInput};
use serde_json::{Map, Value, json};

use crate::log::{THREAD, event};

/// One step of a walk: which event, and the numbers that its choices are made by.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub event: u8,
    pub pick: u8,
    pub owner: u8,
    pub dress: u8,
}

/// How an exchange ends.
#[derive(Clone, Copy, Debug)]
pub enum Close {
    Plain,
    Success,
    Cancelled,
    Interrupt,
    Error,
    ErrorAfterFinish,
    ErrorAfterInterrupt,
}

#[derive(Clone, Debug)]
pub struct Walk {
    pub turns: Vec<Turn>,
    pub close: Close,
    pub dress: u8,
    pub usage: u8,
    /// Milliseconds before each event, and whether a timer flushes after it.
    pub gaps: Vec<(u8, bool)>,
}

pub fn walk(closes: Vec<Close>) -> impl Strategy<Value = Walk> {
    let turn = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    let turn = turn.prop_map(|(event, pick, owner, dress)| Turn { event, pick, owner, dress });
    let gap = (prop_oneof![Just(0u8), 0u8..10, 0u8..60], proptest::bool::weighted(0.2));
    (
        proptest::collection::vec(turn, 0..50),
        proptest::sample::select(closes),
        any::<u8>(),
        any::<u8>(),
        proptest::collection::vec(gap, 1..8),
    )
        .prop_map(|(turns, close, dress, usage, gaps)| Walk { turns, close, dress, usage, gaps })
}

type Owner = Option<String>;

/// Something that is open or was, and its owner.
type Items = Vec<(String, Owner)>;

/// What the walk has open, over all exchanges of the conversation.
#[derive(Default)]
struct Account {
    next: usize,
    texts: Items,
    closed_texts: Items,
    reasoning: Items,
    closed_reasoning: Items,
    spans: Items,
    calls: Items,
    closed_calls: Items,
    steps: Items,
    agents: Vec<String>,
    activities: Items,
    parents: Vec<(String, Owner)>,
    started: Vec<String>,
    answered: Vec<String>,
    /// Calls of earlier exchanges and of the input that have no result.
    earlier: Vec<String>,
}

impl Account {
    fn fresh(&mut self, word: &str) -> String {
        self.next += 1;
        format!("{word}-{}", self.next)
    }

    fn owner(&self, number: u8) -> Owner {
        match number % 4 {
            0 | 1 => None,
            // An invocation that nobody announced.
            2 => Some("ghost".into()),
            _ => self.agents.get(usize::from(number / 4) % self.agents.len().max(1)).cloned(),
        }
    }
}

fn pick<T: Clone>(items: &[T], number: u8) -> Option<T> {
    items.get(usize::from(number) % items.len().max(1)).cloned()
}

fn take<T>(items: &mut Vec<T>, number: u8) -> Option<T> {
    if items.is_empty() { None } else { Some(items.remove(usize::from(number) % items.len())) }
}

/// The streams that answer a conversation's inputs, each with its input.
pub fn streams(walks: &[Walk]) -> Vec<(RunAgentInput, Vec<Event>)> {
    let mut account = Account { earlier: vec!["old-call".into()], ..Account::default() };
    let mut streams = Vec::new();
    for (i, walk) in walks.iter().enumerate() {
        let run_id = format!("exchange-{i}");
        let input: RunAgentInput = serde_json::from_value(json!({
            "threadId": THREAD, "runId": run_id, "messages": [{
                "id": "old", "role": "assistant",
                "toolCalls": [{"id": "old-call", "type": "function", "function": {"name": "f", "arguments": ""}}],
            }],
        }))
        .unwrap();
        let mut out = Vec::new();
        let mut started = json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": run_id});
        if walk.dress & 1 == 1 {
            started["parentRunId"] = "parent".into();
            started["protocolVersion"] = "1.3".into();
        }
        if walk.dress & 2 == 2 {
            started["input"] = serde_json::to_value(&input).unwrap();
        }
        out.push(dressed(started, None, walk.dress >> 2));
        for turn in &walk.turns {
            out.extend(step(&mut account, *turn));
        }
        close(&mut account, walk, &run_id, &mut out);
        streams.push((input, out));
    }
    streams
}

/// The event with an owner, and with some of what every event may carry.
fn dressed(mut value: Value, owner: Option<&str>, dress: u8) -> Event {
    if let Some(owner) = owner {
        value["subagentRunId"] = owner.into();
    }
    if dress & 0b11 == 1 {
        value["timestamp"] = json!(1_700_000_000_000_i64 + i64::from(dress));
    }
    if dress & 0b1_1100 == 0b1_0000 {
        value["metadata"] = json!({"b": {"x": null}, "a": [1, 2.5, "é"], "n": dress});
    }
    if dress & 0b1110_0000 == 0b1010_0000 {
        value["rawEvent"] = json!({"provider": ["anything", 0, false, dress]});
    }
    event(value)
}

fn delta(number: u8) -> String {
    match number % 6 {
        0 => String::new(),
        1 => "👨\u{200d}".into(),
        2 => "\"quoted\\\n".into(),
        3 => "long ".repeat(900),
        _ => format!("word{number} "),
    }
}

fn step(a: &mut Account, turn: Turn) -> Option<Event> {
    let Turn { event, pick: p, owner: o, dress } = turn;
    let owner = a.owner(o);
    // What continues an item names its owner, or none.
    let tag = |owner: &Owner| if o & 0x80 == 0 { owner.clone() } else { None };
    let made = |value: Value, owner: &Owner| Some(dressed(value, owner.as_deref(), dress));
    match event % 34 {
        0 | 1 => {
            let (id, owner) = match p % 4 {
                0 => take(&mut a.closed_texts, p / 4)?,
                _ => (a.fresh("msg"), owner),
            };
            a.texts.push((id.clone(), owner.clone()));
            a.parents.push((id.clone(), owner.clone()));
            let mut value = json!({"type": "TEXT_MESSAGE_START", "messageId": id});
            if let Some(role) = ["assistant", "user", "developer", "system"].get(usize::from(p / 16)) {
                value["role"] = (*role).into();
            }
            if p & 8 == 8 {
                value["name"] = "Ann".into();
            }
            made(value, &owner)
        }
        2..=7 => {
            let (id, owner) = pick(&a.texts, p / 8)?;
            made(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta(p)}), &tag(&owner))
        }
        8 => {
            let (id, owner) = take(&mut a.texts, p)?;
            a.closed_texts.push((id.clone(), owner.clone()));
            made(json!({"type": "TEXT_MESSAGE_END", "messageId": id}), &tag(&owner))
        }
        9 => {
            let id = a.fresh("span");
            a.spans.push((id.clone(), owner.clone()));
            made(json!({"type": "REASONING_START", "messageId": id}), &owner)
        }
        10 => {
            let (id, owner) = take(&mut a.spans, p)?;
            made(json!({"type": "REASONING_END", "messageId": id}), &tag(&owner))
        }
        11 | 12 => {
            let (id, owner) = match p % 4 {
                0 => take(&mut a.closed_reasoning, p / 4)?,
                _ => (a.fresh("thought"), owner),
            };
            a.reasoning.push((id.clone(), owner.clone()));
            made(json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}), &owner)
        }
        13..=16 => {
            let (id, owner) = pick(&a.reasoning, p / 8)?;
            made(json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta(p)}), &tag(&owner))
        }
        17 => {
            let (id, owner) = take(&mut a.reasoning, p)?;
            a.closed_reasoning.push((id.clone(), owner.clone()));
            made(json!({"type": "REASONING_MESSAGE_END", "messageId": id}), &tag(&owner))
        }
        18 | 19 => {
            let parent = if p & 1 == 1 { pick(&a.parents, p / 2) } else { None };
            let (id, tagged) = match (p % 5, &parent) {
                (0, _) => {
                    let (id, owner) = take(&mut a.closed_calls, p / 8)?;
                    a.calls.push((id.clone(), owner.clone()));
                    return made(json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "f"}), &owner);
                }
                (_, Some((_, owner))) => (a.fresh("call"), owner.clone()),
                _ => (a.fresh("call"), owner),
            };
            a.calls.push((id.clone(), tagged.clone()));
            a.started.push(id.clone());
            let mut value = json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "f"});
            if let Some((message, _)) = parent {
                value["parentMessageId"] = message.into();
            }
            made(value, &tagged)
        }
        20 | 21 => {
            let (id, owner) = pick(&a.calls, p / 8)?;
            made(json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta(p)}), &tag(&owner))
        }
        22 => {
            let (id, owner) = take(&mut a.calls, p)?;
            a.closed_calls.push((id.clone(), owner.clone()));
            made(json!({"type": "TOOL_CALL_END", "toolCallId": id}), &tag(&owner))
        }
        23 | 24 => {
            let of_earlier = a.earlier.iter().cloned();
            let ids: Vec<String> = a.started.iter().cloned().chain(of_earlier).collect();
            let id = pick(&ids, p)?;
            a.answered.push(id.clone());
            let content = match o % 5 {
                0 => json!("x".repeat(5000)),
                1 => json!([
                    {"type": "text", "text": "see", "id": "p1", "metadata": false},
                    {"type": "image", "source": {"type": "url", "value": "http://localhost/i", "mimeType": "image/png"}},
                    {"type": "document", "source": {"type": "file", "value": "handle"}},
                ]),
                2 => json!([]),
                3 => json!(""),
                _ => json!("done"),
            };
            let message = a.fresh("result");
            let mut value =
                json!({"type": "TOOL_CALL_RESULT", "messageId": message, "toolCallId": id, "content": content});
            if dress & 1 == 1 {
                value["role"] = "tool".into();
            }
            made(value, &owner)
        }
        25 => {
            let name = ["plan", "act"][usize::from(p % 2)].to_owned();
            if a.steps.contains(&(name.clone(), owner.clone())) {
                return None;
            }
            a.steps.push((name.clone(), owner.clone()));
            made(json!({"type": "STEP_STARTED", "stepName": name}), &owner)
        }
        26 => {
            let (name, owner) = take(&mut a.steps, p)?;
            made(json!({"type": "STEP_FINISHED", "stepName": name}), &owner)
        }
        27 => {
            let id = a.fresh("sub");
            let mut value = json!({"type": "SUBAGENT_STARTED", "name": "scout", "description": "looks around"});
            if let Some(parent) = owner.filter(|o| o != "ghost") {
                value["parentSubagentRunId"] = parent.into();
            }
            a.agents.push(id.clone());
            made(value, &Some(id))
        }
        28 => {
            let id = take(&mut a.agents, p)?;
            let value = match p % 4 {
                0 => json!({"type": "SUBAGENT_ERROR", "message": "lost", "code": "ANY"}),
                1 => json!({"type": "SUBAGENT_ERROR", "message": "lost"}),
                2 => json!({"type": "SUBAGENT_FINISHED", "result": 0, "outcome": {"type": "suspended"}}),
                _ => json!({"type": "SUBAGENT_FINISHED"}),
            };
            made(value, &Some(id))
        }
        29 => {
            let snapshot = if p % 2 == 0 { Value::Null } else { json!({"n": p}) };
            made(json!({"type": "STATE_SNAPSHOT", "snapshot": snapshot}), &owner)
        }
        30 => match p % 3 {
            0 => {
                made(json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/n", "value": p, "x": 1}]}), &owner)
            }
            1 => made(json!({"type": "CUSTOM", "name": "mine", "value": [null, p]}), &owner),
            _ => made(json!({"type": "RAW", "event": null, "source": "lib"}), &owner),
        },
        31 => {
            let id = a.fresh("activity");
            a.activities.push((id.clone(), owner.clone()));
            let value = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "PLAN",
                "content": {"z": 1, "a": [p]}, "replace": p % 2 == 0});
            made(value, &owner)
        }
        32 => {
            let (id, owner) = pick(&a.activities, p)?;
            let value = json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": "PLAN",
                "patch": [{"op": "replace", "path": "/z", "value": p}]});
            made(value, &tag(&owner))
        }
        _ => match p % 2 {
            0 => Some(dressed(
                json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "s", "role": "user", "content": "hi"}]}),
                None,
                dress,
            )),
            _ => made(
                json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "s0",
                    "encryptedValue": "opaque"}),
                &owner,
            ),
        },
    }
}

fn usage(number: u8) -> Option<Value> {
    let entries = [
        json!({"provider": "acme", "model": "m1", "inputTokens": 5, "totalTokens": 5}),
        json!({"provider": "acme", "model": "m2", "inputTokens": 0, "outputTokens": 7, "reasoningTokens": 3}),
        json!({"provider": "acme", "model": "m1", "inputTokens": 2, "outputTokens": 1, "cachedInputTokens": 1}),
        json!({"outputTokens": 9}),
    ];
    match number % 3 {
        0 => None,
        _ => Some((0..4).filter(|i| number >> (4 + i) & 1 == 1).map(|i| entries[i].clone()).collect()),
    }
}

fn close(a: &mut Account, walk: &Walk, run_id: &str, out: &mut Vec<Event>) {
    let mut error = json!({"type": "RUN_ERROR", "message": "it broke"});
    match walk.usage % 3 {
        0 => error["code"] = "RATE_LIMITED".into(),
        1 => error["code"] = "their own".into(),
        _ => {}
    }
    if let Some(usage) = usage(walk.dress) {
        error["usage"] = usage;
    }
    let error = dressed(error, None, walk.dress.rotate_left(2));
    let mut finished = Map::from_iter([
        ("type".to_owned(), json!("RUN_FINISHED")),
        ("threadId".to_owned(), json!(THREAD)),
        ("runId".to_owned(), json!(run_id)),
    ]);
    if let Some(usage) = usage(walk.usage) {
        finished.insert("usage".into(), usage);
    }
    if !matches!(walk.close, Close::Error) {
        close_open(a, out);
    }
    let pending: Vec<String> = a.started.iter().filter(|c| !a.answered.contains(c)).cloned().collect();
    let interrupt = json!({"type": "interrupt", "interrupts": [
        {"id": "i1", "reason": "approval", "message": "May I?", "toolCallId": pending.first().map_or("c", String::as_str),
            "responseSchema": {"type": "boolean"}, "expiresAt": "2030-01-01T00:00:00Z", "metadata": {"k": null}},
        {"id": "i2", "reason": "input", "subagentRunId": "ghost", "expiresAt": "soon"},
    ]});
    match walk.close {
        Close::Plain | Close::Error => {}
        Close::Success | Close::ErrorAfterFinish => {
            finished.insert("outcome".into(), json!({"type": "success", "pendingToolCallIds": pending}));
            finished.insert("result".into(), json!({"answer": [42, null]}));
        }
        Close::Cancelled => {
            finished.insert("outcome".into(), json!({"type": "cancelled"}));
        }
        Close::Interrupt | Close::ErrorAfterInterrupt => {
            finished.insert("outcome".into(), interrupt);
        }
    }
    if !matches!(walk.close, Close::Error) {
        out.push(dressed(Value::Object(finished), None, walk.dress.rotate_left(4)));
    }
    if matches!(walk.close, Close::Error | Close::ErrorAfterFinish | Close::ErrorAfterInterrupt) {
        out.push(error);
    }
    // Run-scoped tracking does not cross the boundary.
    a.earlier.extend(pending);
    let Account { next, earlier, .. } = std::mem::take(a);
    *a = Account { next, earlier, ..Account::default() };
}

fn close_open(a: &mut Account, out: &mut Vec<Event>) {
    let ends: [(&mut Items, &str, &str); 4] = [
        (&mut a.texts, "TEXT_MESSAGE_END", "messageId"),
        (&mut a.reasoning, "REASONING_MESSAGE_END", "messageId"),
        (&mut a.calls, "TOOL_CALL_END", "toolCallId"),
        (&mut a.spans, "REASONING_END", "messageId"),
    ];
    for (items, event_type, key) in ends {
        for (id, _) in items.drain(..) {
            out.push(event(json!({"type": event_type, key: id})));
        }
    }
    for (name, owner) in a.steps.drain(..) {
        out.push(dressed(json!({"type": "STEP_FINISHED", "stepName": name}), owner.as_deref(), 0));
    }
    for id in a.agents.drain(..) {
        out.push(event(json!({"type": "SUBAGENT_FINISHED", "subagentRunId": id})));
    }
}
