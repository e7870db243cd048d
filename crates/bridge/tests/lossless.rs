//! Every AG-UI event maps to frames without loss, and back: for every conforming stream, after coalescing, the same
//! events in the same order with everything that they say.

#![allow(clippy::unwrap_used)]

mod log;
mod walk;

use log::{Log, Relay, assert_conforming};
use proptest::prelude::*;
use runwire_agui::{Event, EventType, PROTOCOL_VERSION, TokenUsage, UsageLedger};
use runwire_bridge::Peer;
use runwire_frame::FrameType;
use serde_json::Value;
use walk::{Close, Walk, streams, walk};

/// What the bridge does to a stream on purpose, and nothing else.
fn normal(events: &[Event]) -> Vec<Event> {
    let mut out: Vec<Event> = Vec::new();
    for event in events {
        let mut event = event.clone();
        match &mut event {
            Event::RunStarted(e) => e.protocol_version = Some(PROTOCOL_VERSION.to_owned()),
            Event::RunFinished(e) => merge_usage(&mut e.usage),
            Event::RunError(e) => merge_usage(&mut e.usage),
            _ => {}
        }
        if !out.last_mut().is_some_and(|last| join(last, &event)) {
            out.push(event);
        }
    }
    out
}

fn merge_usage(usage: &mut Option<Vec<TokenUsage>>) {
    let mut ledger = UsageLedger::default();
    for entry in usage.iter().flatten() {
        ledger.add_reported(entry);
    }
    if let Some(usage) = usage {
        *usage = ledger.entries().unwrap_or_default().to_vec();
    }
}

/// Joins adjacent content of one item with equal attribution and nothing else to say; the first timestamp stays.
fn join(last: &mut Event, next: &Event) -> bool {
    let plain = |e: &Event| e.metadata().is_none() && e.raw_event().is_none();
    if !plain(last) || !plain(next) || last.subagent_run_id() != next.subagent_run_id() {
        return false;
    }
    match (last, next) {
        (Event::TextMessageContent(last), Event::TextMessageContent(next)) if last.message_id == next.message_id => {
            last.delta.push_str(&next.delta);
            true
        }
        (Event::ReasoningMessageContent(last), Event::ReasoningMessageContent(next))
            if last.message_id == next.message_id =>
        {
            last.delta.push_str(&next.delta);
            true
        }
        _ => false,
    }
}

fn relay(walks: &[Walk]) -> (Vec<Event>, Log) {
    let mut relay = Relay::new("run_1");
    let mut sent = Vec::new();
    for ((input, events), walk) in streams(walks).iter().zip(walks) {
        relay.exchange(input, events, &walk.gaps);
        sent.extend(events.iter().cloned());
    }
    assert_conforming(&sent);
    if let Some(state) = &relay.state {
        assert_eq!(&relay.log.fold(), state, "a suspended log alone is enough to go on from");
    }
    (sent, relay.log)
}

fn assert_same(sent: &[Event], got: &[Event], log: &Log) {
    let json = |events: &[Event]| events.iter().map(Event::to_value).collect::<Vec<Value>>();
    let (sent, got) = (json(&normal(sent)), json(&normal(got)));
    for (i, (sent, got)) in sent.iter().zip(&got).enumerate() {
        assert_eq!(sent, got, "event {i}\n{}", log.dump());
    }
    assert_eq!(sent.len(), got.len(), "{}", log.dump());
}

#[test]
fn the_walks_reach_every_event_and_the_cases_that_are_easily_lost() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    let mut cases = std::collections::BTreeSet::new();
    for _ in 0..300 {
        let walks =
            [walk(vec![Close::Interrupt]), walk(last_closes())].map(|w| w.new_tree(&mut runner).unwrap().current());
        let (sent, log) = relay(&walks);
        seen.extend(sent.iter().map(Event::event_type));
        let starts = log.data(FrameType::SegmentStart);
        if starts.iter().any(|s| s["agui"]["type"] == "TOOL_CALL_RESULT") {
            cases.insert("a result in a segment of its own");
        }
        if log.data(FrameType::ToolResult).iter().any(|r| r["truncated"] == true) {
            cases.insert("a result larger than its preview");
        }
        if sent.len() > log.project().len() {
            cases.insert("deltas that were joined");
        }
        let opened: Vec<&Value> = starts.iter().map(|s| &s["agui"]["messageId"]).filter(|id| id.is_string()).collect();
        if opened.iter().any(|id| opened.iter().filter(|o| o == &id).count() > 1) {
            cases.insert("a message that was opened again");
        }
    }
    let chunks = ["TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK", "REASONING_MESSAGE_CHUNK"];
    let missed = EventType::ALL.iter().filter(|t| !seen.contains(t) && !chunks.contains(&t.as_str()));
    assert_eq!(missed.collect::<Vec<_>>(), Vec::<&EventType>::new());
    assert_eq!(cases.len(), 4, "only {cases:?}");
}

fn last_closes() -> Vec<Close> {
    use Close::*;
    vec![Plain, Success, Cancelled, Interrupt, Error, ErrorAfterFinish, ErrorAfterInterrupt]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_conforming_exchange_comes_back_as_it_was(walk in walk(last_closes())) {
        let (sent, log) = relay(&[walk]);
        log.assert_legal();
        assert_same(&sent, &log.project(), &log);
    }

    #[test]
    fn every_conforming_conversation_of_one_run_comes_back_as_it_was(
        first in walk(vec![Close::Interrupt]),
        second in walk(vec![Close::Interrupt]),
        last in walk(last_closes()),
    ) {
        let (sent, log) = relay(&[first, second, last]);
        log.assert_legal();
        assert_same(&sent, &log.project(), &log);
    }

    #[test]
    fn events_of_a_frame_are_the_same_whatever_follows_it(walk in walk(last_closes())) {
        let (_, log) = relay(&[walk]);
        let (whole, _) = log.project_each(Peer::Current);
        for len in (0..log.frames.len()).step_by(7) {
            let prefix = Log { frames: log.frames[..len].to_vec(), payloads: log.payloads.clone() };
            prop_assert_eq!(&prefix.project_each(Peer::Current).0[..], &whole[..len]);
        }
    }
}
