//! The last look at what leaves: whatever a log says, its events are a stream that a client takes.

#![allow(clippy::unwrap_used)]

mod log;

use log::{Log, assert_conforming, at, recorder, run_start, types};
use runwire_agui::{Consumer, ConsumerOptions, Event};
use runwire_bridge::{Completion, Ending, LogState, Opening, Peer, Recorder};
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

/// The events, which a client takes without a word, and what was not told.
fn told(log: &Log, peer: Peer) -> (Vec<Event>, Vec<String>) {
    let (each, warnings) = log.project_each(peer);
    let events: Vec<Event> = each.into_iter().flatten().collect();
    assert_conforming(&events);
    let mut consumer = Consumer::new(ConsumerOptions::default());
    for event in &events {
        consumer.push_json(event.to_json_string().as_bytes()).unwrap();
    }
    assert_eq!(consumer.take_warnings(), []);
    (events, warnings)
}

/// The events that notices stand for.
fn not_told(events: &[Event]) -> Vec<Value> {
    let told = events.iter().map(Event::to_value);
    let notices = told.filter(|event| event["name"] == "runwire.notice" && event["value"]["code"] == "event_not_told");
    notices
        .map(|notice| {
            assert!(notice["value"]["attributes"]["rule"].is_string(), "{notice}");
            notice["value"]["attributes"]["event"].clone()
        })
        .collect()
}

#[test]
fn an_opening_that_claims_to_be_another_event_is_not_told_and_the_run_still_ends() {
    for claimed in [
        json!({"type": "RUN_FINISHED", "threadId": "thread-1", "runId": "run_1"}),
        json!({"type": "RUN_STARTED", "threadId": "thread-1", "runId": "another"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "nothing"}),
        json!({"type": "CUSTOM", "name": "n", "value": 1, "timestamp": i64::MAX}),
    ] {
        let mut r = recorder();
        let message = r.open_message(at(1), Opening { agui: Some(object(claimed.clone())), ..Opening::default() });
        r.text(at(2), &message, "Hello", None);
        r.end(at(3), message, Ending::completed());
        let (events, warnings) = told(&Log::of(r.complete(at(4), Completion::default())), Peer::Current);
        assert!(!warnings.is_empty(), "{claimed}");
        // Nothing is kept from the reader in silence: what could not be told stands in its place. Behind what claims to end
        // the run there is none.
        if claimed["type"] != "RUN_FINISHED" {
            let notices = not_told(&events);
            assert_eq!(notices.len(), warnings.len(), "{claimed}: {notices:#?}");
            let lost = notices.iter().find(|event| event["type"] == "TEXT_MESSAGE_CONTENT").unwrap();
            assert_eq!(lost["delta"], "Hello", "{claimed}");
        }
        assert!(types(&events).contains(&"RUN_FINISHED".to_owned()), "{claimed}: {:?}", types(&events));
    }
}

#[test]
fn an_ending_that_cannot_be_told_is_told_without_what_made_it_so() {
    let mut r = recorder();
    let tool = r.open_tool(at(1), "c1", "t", Opening::default());
    r.end(at(2), tool, Ending::completed());
    let agui = object(json!({"outcome": {"type": "success", "pendingToolCallIds": ["other"]}, "result": 42}));
    let log = Log::of(r.complete(at(3), Completion { agui: Some(agui), ..Completion::default() }));
    let (events, warnings) = told(&log, Peer::Current);
    assert_eq!(events.last().unwrap().to_value()["outcome"], json!({"type": "success"}));
    assert_eq!(warnings.len(), 1);
    assert_eq!(not_told(&events)[0]["result"], 42);
}

#[test]
fn a_start_that_cannot_be_told_is_told_plainly() {
    let start = run_start(Some(object(json!({"runId": "r", "timestamp": i64::MAX}))));
    let r = Recorder::start(LogState::new("run_1"), at(0), start);
    let (events, warnings) = told(&Log::of(r.complete(at(1), Completion::default())), Peer::Current);
    assert_eq!(types(&events), ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]);
    assert_eq!(events[0].to_value()["runId"], "r");
    assert_eq!(warnings.len(), 1);
    assert_eq!(not_told(&events)[0]["timestamp"], i64::MAX);
}

/// events/subagents, "Nesting": a parent has to be announced in the same run.
#[test]
fn an_agent_inside_of_what_an_earlier_exchange_left_names_no_parent_that_has_ended() {
    let mut r = recorder();
    let agent = r.open_agent(at(1), Opening::named("outer"));
    let message = r.open_message(at(2), Opening::default().inside(agent.id()));
    r.end(at(3), agent, Ending::completed());
    let contract = object(json!({"interrupts": [{"id": "i1", "reason": "approval"}]}));
    let suspension = runwire_bridge::Suspension {
        kind: runwire_frame::SuspendKind::Approval,
        contract,
        prompt: None,
        deadline: None,
        usage: Vec::new(),
        agui: None,
    };
    let inside = Opening::named("inner").inside(message.id());
    let (recorded, state) = r.suspend(at(4), suspension);
    let mut log = Log::of(recorded);
    let mut r = Recorder::resume(state, at(5), None, None);
    let inner = r.open_agent(at(6), inside);
    r.end(at(7), inner, Ending::completed());
    log.append(r.complete(at(8), Completion::default()));
    let (events, warnings) = told(&log, Peer::Current);
    assert_eq!(warnings, [] as [String; 0]);
    let inner = events.iter().map(Event::to_value).rfind(|event| event["type"] == "SUBAGENT_STARTED").unwrap();
    assert_eq!(inner["name"], "inner");
    assert_eq!(inner.get("parentSubagentRunId"), None);
}
