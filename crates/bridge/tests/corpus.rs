//! The public consumer corpus, relayed: what a client is delivered of a stream, it is delivered through the log too.

#![allow(clippy::unwrap_used)]

mod log;

use std::path::Path;

use log::{Relay, THREAD};
use runwire_agui::{Consumer, ConsumerOptions, Event};
use serde_json::{Value, json};

#[test]
fn every_accepted_stream_of_the_corpus_comes_back_as_it_was_delivered() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/agui-1.0");
    let Ok(entries) = std::fs::read_dir(&corpus) else {
        eprintln!(
            "\n*** SKIPPED: the conformance corpus is not at {}; nothing of it was checked ***\n",
            corpus.display()
        );
        return;
    };
    let mut relayed = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        relayed += usize::from(relay(&name, &case));
    }
    assert!(relayed >= 20, "only {relayed} streams were relayed");
}

/// Relays the stream if a consumer accepts it and it is of one run. Says whether it was.
fn relay(name: &str, case: &Value) -> bool {
    let mut consumer = Consumer::new(ConsumerOptions::default());
    let mut delivered = Vec::new();
    for value in case["stream"].as_array().unwrap() {
        match consumer.push_json(&serde_json::to_vec(value).unwrap()) {
            Ok(events) => delivered.extend(events),
            Err(_) => return false,
        }
    }
    let starts = delivered.iter().filter(|e| matches!(e, Event::RunStarted(_))).count();
    let Some(Event::RunStarted(started)) = delivered.first().filter(|_| starts == 1) else { return false };
    if !matches!(delivered.last(), Some(Event::RunFinished(_) | Event::RunError(_))) {
        return false;
    }
    let input = json!({"threadId": THREAD, "runId": started.run_id, "messages": []});
    let mut relay = Relay::new("run_1");
    // Thirty milliseconds apart, so that nothing is joined.
    relay.exchange(&serde_json::from_value(input).unwrap(), &delivered, &[(30, false)]);
    relay.log.assert_legal();
    let shown = |events: &[Event]| -> Vec<Value> {
        let mut events: Vec<Value> = events.iter().map(Event::to_value).collect();
        for event in &mut events {
            // This server is the producer here, on the session's own thread.
            let members = event.as_object_mut().unwrap();
            members.shift_remove("protocolVersion");
            members.shift_remove("threadId");
        }
        events
    };
    assert_eq!(shown(&relay.log.project()), shown(&delivered), "{name}");
    true
}
