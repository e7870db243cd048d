//! Earlier runs that a stream replays: relayed, a client holds at the end what it would hold of the stream itself.

#![allow(clippy::unwrap_used)]

mod log;

use std::collections::HashSet;

use log::{Relay, THREAD, events, input};
use proptest::prelude::*;
use runwire_agui::{Event, Message, Reducer, RunAgentInput};
use runwire_bridge::{Replayed, Upstream, UpstreamStep};
use serde_json::{Value, json};

fn started(run_id: &str) -> Value {
    json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": run_id})
}

fn finished(run_id: &str) -> Value {
    json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": run_id})
}

fn state(value: Value) -> Value {
    json!({"type": "STATE_SNAPSHOT", "snapshot": value})
}

fn state_delta(delta: Value) -> Value {
    json!({"type": "STATE_DELTA", "delta": delta})
}

fn messages(list: Value) -> Value {
    json!({"type": "MESSAGES_SNAPSHOT", "messages": list})
}

fn user(id: &str) -> Value {
    json!({"id": id, "role": "user", "content": id})
}

fn text(id: &str, said: &str) -> [Value; 3] {
    [
        json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": said}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
    ]
}

fn plan(id: &str, content: Value) -> Value {
    json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "PLAN", "content": content})
}

fn plan_delta(id: &str, patch: Value) -> Value {
    json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": "PLAN", "patch": patch})
}

fn asked(messages: &[&str], state: Option<Value>) -> RunAgentInput {
    let mut asked = input("wanted");
    asked.messages = messages.iter().map(|id| serde_json::from_value(user(id)).unwrap()).collect();
    asked.state = state;
    asked
}

/// The stream in which a run with this content comes before the requested one.
fn replaying(old: Vec<Value>, wanted: Vec<Value>, asked: &RunAgentInput) -> Vec<Event> {
    let mut begun = started("wanted");
    begun["input"] = serde_json::to_value(asked).unwrap();
    let mut stream = vec![started("old")];
    stream.extend(old);
    stream.extend([finished("old"), begun]);
    stream.extend(wanted);
    stream.push(finished("wanted"));
    events(stream)
}

/// What a client holds of a stream, and what of it did not apply.
fn held(asked: &RunAgentInput, stream: &[Event]) -> (Vec<Message>, Value, usize) {
    let mut reducer = Reducer::from_input(asked);
    let warnings = stream.iter().enumerate().filter_map(|(index, event)| reducer.apply(event.clone(), index)).count();
    (reducer.messages().cloned().collect(), reducer.state().clone(), warnings)
}

fn relayed(asked: &RunAgentInput, stream: &[Event]) -> Vec<Event> {
    let mut relay = Relay::new("run_1");
    relay.exchange(asked, stream, &[]);
    relay.log.assert_legal_and_ended();
    relay.log.project()
}

fn replayed(asked: &RunAgentInput, stream: &[Event]) -> Replayed {
    let mut upstream = Upstream::new(asked.clone());
    for event in stream {
        if let UpstreamStep::Begin(_, replayed) = upstream.push(event.clone()) {
            return replayed;
        }
    }
    panic!("the requested run began");
}

fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(Message::id).collect()
}

/// events/state, `STATE_DELTA`: the baseline is what the snapshots and deltas before have made of the state.
#[test]
fn a_replayed_state_is_told_with_the_changes_that_came_behind_it() {
    let asked = asked(&["u"], Some(json!({"n": 2})));
    let old = vec![state(json!({"n": 1})), state_delta(json!([{"op": "replace", "path": "/n", "value": 2}]))];
    let goes_on =
        state_delta(json!([{"op": "test", "path": "/n", "value": 2}, {"op": "add", "path": "/m", "value": 1}]));
    let stream = replaying(old, vec![goes_on], &asked);
    let told = relayed(&asked, &stream);
    assert_eq!(held(&asked, &told), held(&asked, &stream));
    assert_eq!(held(&asked, &told).1, json!({"n": 2, "m": 1}));
    let snapshots: Vec<Value> = told.iter().map(Event::to_value).filter(|e| e["type"] == "STATE_SNAPSHOT").collect();
    assert_eq!(snapshots, [state(json!({"n": 2}))]);
}

#[test]
fn changes_without_a_snapshot_start_from_the_state_of_the_input() {
    let asked = asked(&[], Some(json!({"n": 1})));
    let add = state_delta(json!([{"op": "add", "path": "/m", "value": 1}]));
    let fails = state_delta(json!([{"op": "remove", "path": "/nothing"}]));
    let told = relayed(&asked, &replaying(vec![add, fails.clone()], vec![], &asked));
    assert_eq!(held(&asked, &told).1, json!({"n": 1, "m": 1}));
    // What comes to nothing tells nothing: a client may hold more than it sent.
    assert_eq!(replayed(&asked, &replaying(vec![fails], vec![], &asked)), Replayed { snapshots: vec![], dropped: 1 });
}

#[test]
fn an_activity_is_told_with_the_changes_that_came_behind_it() {
    let asked = asked(&["u"], None);
    let old = vec![
        plan("p", json!({"n": 1})),
        plan("q", json!({"n": 1})),
        plan_delta("p", json!([{"op": "replace", "path": "/n", "value": 2}])),
        plan_delta("unknown", json!([{"op": "add", "path": "/n", "value": 2}])),
    ];
    let goes_on = plan_delta("p", json!([{"op": "test", "path": "/n", "value": 2}]));
    let stream = replaying(old, vec![goes_on], &asked);
    let told = relayed(&asked, &stream);
    let (messages, _, warnings) = held(&asked, &told);
    assert_eq!(messages, held(&asked, &stream).0);
    assert_eq!(warnings, 0);
    assert_eq!(ids(&messages), ["u", "p", "q"]);
    assert_eq!(replayed(&asked, &stream).snapshots[1], events(vec![plan("q", json!({"n": 1}))])[0], "as it came");
}

/// events/lifecycle, "Several runs on one stream": what is streamed is new. Behind a restatement that lacks it, it would be
/// lost to a client that is told the restatement alone.
#[test]
fn what_was_streamed_behind_a_restatement_is_in_it() {
    let asked = asked(&["u1", "u2"], None);
    let mut old = vec![messages(json!([user("u1"), {"id": "a1", "role": "assistant", "content": "Hel"}]))];
    old.extend(text("a1", "lo"));
    old.extend(text("a2", "more"));
    old.extend([
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "a2"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "r", "toolCallId": "c", "content": "ok"}),
    ]);
    let stream = replaying(old, text("a3", "Yes.").to_vec(), &asked);
    let told = relayed(&asked, &stream);
    let (messages, ..) = held(&asked, &told);
    assert_eq!(messages, held(&asked, &stream).0);
    assert_eq!(ids(&messages), ["u1", "a1", "a2", "r", "u2", "a3"]);
    assert_eq!(replayed(&asked, &stream).dropped, 0);
}

/// A client has each message once, though a stream says it again behind a restatement.
#[test]
fn what_is_streamed_again_whole_is_not_added_to_itself() {
    let asked = asked(&["u1"], None);
    let call = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "a1"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
    ];
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let answer = json!({"id": "a1", "role": "assistant", "content": "Hi", "toolCalls": calls});
    let restated = messages(json!([user("u1"), answer]));
    let mut old = vec![restated.clone()];
    old.extend(text("a1", "Hi"));
    old.extend(call);
    let told = replayed(&asked, &replaying(old, vec![], &asked));
    assert_eq!(told, Replayed { snapshots: events(vec![restated.clone()]), dropped: 6 });
    // Cut off in the middle it is no more.
    let cut_off: Vec<Value> = [started("old"), restated.clone()]
        .into_iter()
        .chain(text("a1", "H").into_iter().take(2))
        .chain([json!({"type": "RUN_ERROR", "message": "gone"}), started("wanted")])
        .collect();
    let told = replayed(&asked, &events(cut_off));
    assert_eq!(told, Replayed { snapshots: events(vec![restated]), dropped: 2 });
}

/// A client may hold messages that it did not send, and a restatement of what was streamed would take them away.
#[test]
fn what_was_streamed_without_a_restatement_is_dropped_and_that_is_said() {
    let asked = asked(&["u"], None);
    let told = relayed(&asked, &replaying(text("a1", "Hi").to_vec(), vec![], &asked));
    assert_eq!(ids(&held(&asked, &told).0), ["u"]);
    let notice = told.iter().map(Event::to_value).find(|e| e["type"] == "CUSTOM").unwrap();
    assert_eq!(notice["value"]["code"], "replayed_events_dropped");
}

/// events/state, `MESSAGES_SNAPSHOT`: a snapshot that carries reasoning or an activity declares all of them.
#[test]
fn a_restatement_says_nothing_of_what_it_does_not_track() {
    let mut asked = asked(&["u"], None);
    let thought = json!({"id": "r1", "role": "reasoning", "content": "hm"});
    asked.messages.push(serde_json::from_value(thought).unwrap());
    let thinks = [
        json!({"type": "REASONING_MESSAGE_START", "messageId": "r2", "role": "reasoning"}),
        json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "r2", "delta": "so"}),
        json!({"type": "REASONING_MESSAGE_END", "messageId": "r2"}),
    ];
    let mut old = vec![messages(json!([user("u")])), plan("p", json!({}))];
    old.extend(thinks.clone());
    let told = replayed(&asked, &replaying(old, vec![], &asked));
    assert_eq!(
        told,
        Replayed { snapshots: events(vec![messages(json!([user("u")])), plan("p", json!({}))]), dropped: 3 }
    );

    let activity = json!({"id": "p", "role": "activity", "activityType": "PLAN", "content": {"n": 1}});
    let tracked = json!({"id": "r0", "role": "reasoning", "content": "ah"});
    let mut old = vec![messages(json!([user("u"), activity, tracked]))];
    old.push(plan_delta("p", json!([{"op": "add", "path": "/n", "value": 2}])));
    old.extend(thinks);
    let stream = replaying(old, vec![], &asked);
    let Replayed { snapshots, dropped } = replayed(&asked, &stream);
    assert_eq!((snapshots.len(), dropped), (1, 0));
    assert_eq!(held(&asked, &relayed(&asked, &stream)), held(&asked, &stream));
}

/// Who declared all activities, or all reasoning, has to be heard again when something of them changes.
#[test]
fn what_a_restatement_tracks_is_told_with_the_changes_that_came_behind_it() {
    let asked = asked(&["u"], None);
    let activity = json!({"id": "p", "role": "activity", "activityType": "PLAN", "content": {"n": 1}});
    let thought = json!({"id": "r", "role": "reasoning", "content": "hm"});
    let tracking = messages(json!([user("u"), activity, thought]));
    let replaces = plan_delta("p", json!([{"op": "replace", "path": "/n", "value": 2}]));
    for (behind, holds) in [
        (vec![replaces], vec!["u", "p", "r"]),
        (vec![plan("p", json!({"n": 2}))], vec!["u", "p", "r"]),
        (vec![plan("p2", json!({}))], vec!["u", "p", "r", "p2"]),
        // It tracks neither, and leaves both as they are.
        (vec![messages(json!([user("u"), user("u2")]))], vec!["u", "p", "r", "u2"]),
    ] {
        let old = [vec![tracking.clone()], behind.clone()].concat();
        let stream = replaying(old, vec![], &asked);
        assert_eq!(replayed(&asked, &stream).dropped, 0);
        let told = held(&asked, &relayed(&asked, &stream));
        assert_eq!(told, held(&asked, &stream), "{behind:?}");
        let (are_held, holds): (HashSet<&str>, HashSet<&str>) =
            (ids(&told.0).into_iter().collect(), holds.into_iter().collect());
        assert_eq!(are_held, holds, "{behind:?}");
    }
    // What it has already is told as it came.
    let stream = replaying(vec![tracking.clone()], vec![], &asked);
    assert_eq!(replayed(&asked, &stream).snapshots, events(vec![tracking]));
}

#[derive(Clone, Debug)]
enum Op {
    State(u8),
    StateDelta(u8),
    Plan(u8, bool),
    PlanDelta(u8),
    Messages(u8),
    Speak(u8),
    Call(u8),
    NextRun(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        any::<u8>().prop_map(Op::State),
        any::<u8>().prop_map(Op::StateDelta),
        (any::<u8>(), any::<bool>()).prop_map(|(n, replaces)| Op::Plan(n, replaces)),
        any::<u8>().prop_map(Op::PlanDelta),
        any::<u8>().prop_map(Op::Messages),
        any::<u8>().prop_map(Op::Speak),
        any::<u8>().prop_map(Op::Call),
        any::<bool>().prop_map(Op::NextRun),
    ]
}

/// The events of one step. Whatever continues something says what it has not said before.
fn said(op: &Op, step: usize) -> Vec<Value> {
    match op {
        Op::State(n) if n % 4 == 0 => vec![state(Value::Null)],
        Op::State(n) => vec![state(json!({"n": n % 3, "list": []}))],
        Op::StateDelta(n) => vec![state_delta(match n % 4 {
            0 => json!([{"op": "add", "path": "/list/-", "value": step}]),
            1 => json!([{"op": "test", "path": "/n", "value": n % 3}, {"op": "add", "path": "/m", "value": step}]),
            2 => json!([{"op": "remove", "path": "/m"}]),
            _ => json!([{"op": "add", "path": "/n", "value": n % 3}]),
        })],
        Op::Plan(n, replaces) => {
            let mut plan = plan(&format!("plan-{}", n % 3), json!({"n": step}));
            plan["replace"] = (*replaces).into();
            if n & 8 == 8 {
                plan["metadata"] = json!({ "step": step, format!("{step}"): true });
            }
            vec![plan]
        }
        Op::PlanDelta(n) => {
            vec![plan_delta(&format!("plan-{}", n % 3), json!([{"op": "replace", "path": "/n", "value": -1}]))]
        }
        Op::Messages(n) => {
            let all = ["u0", "u1", "u2", "a0", "a1", "plan-0", "plan-1", "t0"];
            let known = all.into_iter().enumerate().filter(|(i, _)| n >> i & 1 == 1);
            let list = known.map(|(_, id)| match &id[..1] {
                "u" => user(id),
                "p" => json!({"id": id, "role": "activity", "activityType": "PLAN", "content": {"n": step}}),
                "t" => json!({"id": id, "role": "reasoning", "content": format!("restated {step}")}),
                _ => json!({"id": id, "role": "assistant", "content": format!("restated {step}")}),
            });
            vec![messages(list.collect())]
        }
        Op::Speak(n) => text(&format!("a{}", n % 4), &format!("said {step} ")).to_vec(),
        Op::Call(n) => {
            let call = format!("c{}", n % 3);
            vec![
                json!({"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "f",
                    "parentMessageId": format!("a{}", n % 2)}),
                json!({"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": format!("{step} ")}),
                json!({"type": "TOOL_CALL_END", "toolCallId": call}),
                json!({"type": "TOOL_CALL_RESULT", "messageId": format!("r{step}"), "toolCallId": call,
                    "content": "ok"}),
            ]
        }
        Op::NextRun(fails) => {
            let end = if *fails { json!({"type": "RUN_ERROR", "message": "gone"}) } else { finished("old") };
            vec![end, started("old")]
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_client_holds_the_same_of_a_replay_whether_relayed_or_not(ops in proptest::collection::vec(op(), 0..14)) {
        let asked = asked(&["u0", "u1", "u2"], Some(json!({"n": 0, "list": [0]})));
        // The first of them begins and the last ends in `replaying`.
        let old: Vec<Value> = ops.iter().enumerate().flat_map(|(step, op)| said(op, step)).collect();
        let restates = old.iter().any(|event| event["type"] == "MESSAGES_SNAPSHOT");
        let stream = replaying(old, text("new", "Yes.").to_vec(), &asked);
        let (direct, direct_state, _) = held(&asked, &stream);
        let (told, told_state, _) = held(&asked, &relayed(&asked, &stream));
        prop_assert_eq!(told_state, direct_state);
        let sorted = |messages: &[Message], which: fn(&Message) -> bool| {
            let mut list: Vec<(String, Value)> = messages
                .iter()
                .filter(|message| which(message))
                .map(|message| (message.id().to_owned(), serde_json::to_value(message).unwrap()))
                .collect();
            list.sort_by(|one, other| one.0.cmp(&other.0));
            list
        };
        prop_assert_eq!(
            sorted(&told, |message| matches!(message, Message::Activity(_))),
            sorted(&direct, |message| matches!(message, Message::Activity(_)))
        );
        if restates {
            prop_assert_eq!(
                sorted(&told, |message| !matches!(message, Message::Activity(_))),
                sorted(&direct, |message| !matches!(message, Message::Activity(_)))
            );
            prop_assert_eq!(told.last().map(Message::id), Some("new"));
        }
    }
}
