//! What this project tells a client from before 1.0, and what `@ag-ui/client` 0.0.59 makes of it, over many generated runs:
//! an upstream's events, recorded, and projected for a peer that declares no version.
//!
//! Nothing of it may be refused, and the client has to hold at the end what this project's own reducer holds.

#[path = "../../../../bridge/tests/log/mod.rs"]
mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use runwire_agui::{Consumer, ConsumerOptions, Event, EventType, Reducer, RunAgentInput, StreamEnd};
use runwire_bridge::Peer;
use serde_json::{Value, json};

use super::{Made, judged_by, listing, ours, theirs, walk};
use crate::real_part;
use walk::Dice;

/// The seeds of the test. Those whose stream has more runs than the one that was asked for are left out: a log is of one.
const SEEDS: Range<u64> = 0..2000;

/// What the server tells that client of the run of that seed.
fn told(seed: u64) -> Option<Vec<Event>> {
    let stream = walk::mixed(&walk::stream(seed), &mut Dice::new(seed));
    let (input, _) = RunAgentInput::decode_value(walk::input()).unwrap();
    let mut consumer = Consumer::new(ConsumerOptions { input: Some(input.clone()) });
    let mut delivered = Vec::new();
    for event in &stream {
        delivered.extend(consumer.push_value(event.clone()).unwrap());
    }
    let StreamEnd::Completed { runs } = consumer.finish() else { panic!("a walk conforms: {stream:#?}") };
    if runs.len() > 1 {
        return None;
    }
    let mut relay = log::Relay::new("run_1");
    relay.exchange(&input, &delivered, &[(30, false), (0, true), (2, false)]);
    relay.log.assert_legal();
    let (events, _) = relay.log.project_each(Peer::PreV1);
    let events: Vec<Event> = events.into_iter().flatten().collect();
    log::assert_conforming(&events);
    Some(events)
}

/// The input of the client: on the session's thread, and of no version.
fn input() -> Value {
    let mut input = walk::input();
    input["threadId"] = json!(log::THREAD);
    input.as_object_mut().unwrap().remove("protocolVersion");
    input
}

/// What the client is known to make of its own (docs/interop.md, "What a client of before 1.0 is told instead").
fn as_the_client_has_it(mut events: Vec<Value>) -> Vec<Value> {
    for event in &mut events {
        if event["type"] == "ACTIVITY_SNAPSHOT" && event.get("replace").is_none() {
            event["replace"] = json!(true);
        }
    }
    events
}

/// The last state that JavaScript does not take for nothing: what is, the client does not hand to the application.
fn state_as_the_client_has_it(events: &[Value]) -> Value {
    let (input, _) = RunAgentInput::decode_value(walk::input()).unwrap();
    let mut reducer = Reducer::from_input(&input);
    let mut held = reducer.state().clone();
    let nothing = [Value::Null, json!(false), json!(0), json!("")];
    for event in events {
        reducer.apply(Event::from_value(event.clone()).unwrap(), 0);
        if !nothing.contains(reducer.state()) {
            held.clone_from(reducer.state());
        }
    }
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_from_before_1_0_takes_all_that_it_is_told_and_makes_the_same_of_it() {
    if !real_part::node() {
        return;
    }
    let streams: Vec<(u64, Vec<Value>)> =
        SEEDS.filter_map(|seed| Some((seed, told(seed)?.iter().map(Event::to_value).collect()))).collect();
    let lines: Vec<Value> = streams.iter().map(|(_, events)| json!({"input": input(), "events": events})).collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    let (mut verdicts, rest) = tokio::join!(judged_by("0.0.59", first), judged_by("0.0.59", second));
    verdicts.extend(rest);
    let (mut met, mut wrong) = (BTreeSet::new(), BTreeMap::new());
    for ((seed, events), verdict) in streams.iter().zip(&verdicts) {
        let theirs = theirs(verdict);
        let ours = ours_on_the_sessions_thread(&as_the_client_has_it(events.clone()));
        assert_eq!(ours.rejected, None, "seed {seed}");
        let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let difference = match &theirs.rejected {
            Some((_, message)) => format!("rejected: {message}"),
            None if theirs.types != types => "delivered events".to_owned(),
            None if theirs.messages != ours.messages => "messages".to_owned(),
            None if theirs.state != state_as_the_client_has_it(events) => "state".to_owned(),
            None => {
                met.extend(theirs.types);
                continue;
            }
        };
        wrong.entry(difference).or_insert((0, listing(*seed, None, events, &ours, &theirs))).0 += 1;
    }
    let wrong: String =
        wrong.iter().map(|(what, (n, example))| format!("{what} ({n} streams), as in {example}\n")).collect();
    assert!(wrong.is_empty(), "what the client does not take as it is told:\n{wrong}");
    assert!(streams.len() > 1000, "only {} runs were told", streams.len());
    let chunks = ["TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK", "REASONING_MESSAGE_CHUNK"];
    let missed = EventType::ALL.iter().map(|name| name.as_str()).filter(|name| !met.contains(*name));
    assert_eq!(missed.filter(|name| !chunks.contains(name)).collect::<Vec<_>>(), [] as [&str; 0], "never told");
}

/// The log is on a thread of its own, which is not that of the walk's input.
fn ours_on_the_sessions_thread(events: &[Value]) -> Made {
    let mut events = events.to_vec();
    for event in &mut events {
        if event.get("threadId").is_some() {
            event["threadId"] = json!(walk::THREAD);
        }
    }
    ours(&events)
}
