//! What an application puts into the pipeline stands before enforcement and behind retired shapes (basic/processing,
//! "Where middleware sits").
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use runwire_agui::proto::ProtoEvent;
use runwire_agui::{Consumer, Event, Rule, StreamEnd, WarningRule};
use serde_json::{Value, json};

fn started() -> Value {
    json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
}

fn finished() -> Value {
    json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
}

fn message(text: &str) -> [Value; 3] {
    [
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": text}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}),
    ]
}

/// Pushes the events and gives what was delivered; panics when the stream is rejected.
fn deliver(consumer: &mut Consumer, stream: &[Value]) -> Vec<Value> {
    let mut delivered = Vec::new();
    for event in stream {
        delivered.extend(consumer.push_json(event.to_string().as_bytes()).unwrap().map(|event| event.to_value()));
    }
    delivered
}

#[test]
fn stages_run_in_the_order_in_which_they_were_put_in() {
    let suffix = |suffix: &'static str| {
        move |mut event: Value, next: &mut Vec<Value>| {
            if let Value::String(delta) = &mut event["delta"] {
                delta.push_str(suffix);
            } else {
                event.as_object_mut().unwrap().shift_remove("delta");
            }
            next.push(event);
        }
    };
    let mut consumer = Consumer::default().with_middleware(suffix("a")).with_middleware(suffix("b"));
    deliver(&mut consumer, &[started()]);
    assert_eq!(deliver(&mut consumer, &message("-"))[1]["delta"], "-ab");
    assert_eq!(consumer.take_warnings(), []);
}

#[test]
fn a_stage_sees_what_enforcement_would_take_away_and_can_save_it() {
    let mut consumer = Consumer::default().with_middleware(|mut event: Value, next: &mut Vec<Value>| {
        if event["type"] == "FUTURE_TEXT" {
            event["type"] = json!("TEXT_MESSAGE_CONTENT");
            event["delta"] = event.as_object_mut().unwrap().shift_remove("words").unwrap();
        }
        next.push(event);
    });
    let [start, _, end] = message("");
    let future = json!({"type": "FUTURE_TEXT", "messageId": "m", "words": "kept"});
    let delivered = deliver(&mut consumer, &[started(), start, future, end, finished()]);
    assert_eq!(delivered[2], json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "kept"}));
    assert_eq!(consumer.take_warnings(), []);
}

/// The compatibility boundary MUST see the stream first.
#[test]
fn retired_shapes_are_translated_before_the_first_stage() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let mut consumer = Consumer::default().with_middleware(move |event: Value, next: &mut Vec<Value>| {
        log.lock().unwrap().push(event["type"].clone());
        next.push(event);
    });
    deliver(&mut consumer, &[started(), json!({"type": "THINKING_START"}), json!({"type": "THINKING_END"})]);
    assert_eq!(*seen.lock().unwrap(), ["RUN_STARTED", "REASONING_START", "REASONING_END"]);
    // What a stage makes is not translated any more, but judged by the current protocol.
    let mut late = Consumer::default().with_middleware(|event: Value, next: &mut Vec<Value>| {
        next.extend([event, json!({"type": "THINKING_START"})]);
    });
    assert_eq!(deliver(&mut late, &[started()]), [started()]);
    assert_eq!(late.take_warnings()[0].rule, WarningRule::UnknownEvent);
}

/// Chunks are expanded behind the stages, so that a stage sees one event where the producer sent one.
#[test]
fn a_stage_sees_chunks_and_not_what_they_stand_for() {
    let seen = Arc::new(Mutex::new(0));
    let count = seen.clone();
    let mut consumer = Consumer::default().with_middleware(move |event: Value, next: &mut Vec<Value>| {
        *count.lock().unwrap() += 1;
        next.push(event);
    });
    let chunk = json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "d"});
    assert_eq!(deliver(&mut consumer, &[started(), chunk, finished()]).len(), 5);
    assert_eq!(*seen.lock().unwrap(), 3);
}

#[test]
fn a_dropped_event_is_gone_without_a_warning() {
    let mut consumer = Consumer::default().with_middleware(|event: Value, next: &mut Vec<Value>| {
        if event["type"] != "CUSTOM" {
            next.push(event);
        }
    });
    let stream = [started(), json!({"type": "CUSTOM", "name": "n", "value": 1}), finished()];
    assert_eq!(deliver(&mut consumer, &stream), [started(), finished()]);
    assert_eq!(consumer.take_warnings(), []);
    assert_eq!(consumer.event_count(), 3);
}

#[test]
fn inserted_events_are_delivered_in_their_order_and_pass_the_stages_behind() {
    let mut consumer = Consumer::default()
        .with_middleware(|event: Value, next: &mut Vec<Value>| {
            let is_start = event["type"] == "RUN_STARTED";
            next.push(event);
            if is_start {
                next.extend(message("made"));
            }
        })
        .with_middleware(|mut event: Value, next: &mut Vec<Value>| {
            event["timestamp"] = json!(7);
            next.push(event);
        });
    let delivered = deliver(&mut consumer, &[started(), finished()]);
    let types: Vec<&str> = delivered.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    );
    assert!(delivered.iter().all(|event| event["timestamp"] == 7));
    assert!(matches!(consumer.finish(), StreamEnd::Completed { .. }));
}

/// Enforcement MUST run before verification and before application code sees anything, whoever made the event.
#[test]
fn what_a_stage_makes_is_judged_like_a_producers_own() {
    let garbage = [
        (Rule::MalformedValue, json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": 7, "delta": "d"})),
        (Rule::MalformedValue, json!(["no event"])),
        (Rule::TextMessageNotOpen, json!({"type": "TEXT_MESSAGE_END", "messageId": "never opened"})),
    ];
    for (rule, made) in garbage {
        let inserted = made.clone();
        let mut consumer = Consumer::default().with_middleware(move |event: Value, next: &mut Vec<Value>| {
            next.extend([event, inserted.clone()]);
        });
        let rejected = consumer.push_value(started()).unwrap_err();
        assert_eq!((rejected.violation.rule, rejected.violation.event), (rule, 0), "{made}");
        assert!(
            matches!(rejected.delivered[..], [Event::RunStarted(_)]),
            "{made}: what came before it stays delivered"
        );
        assert!(consumer.push_value(finished()).is_err(), "{made}: a rejected stream stays rejected");
    }
    let mut consumer = Consumer::default().with_middleware(|mut event: Value, next: &mut Vec<Value>| {
        event["private"] = json!(true);
        next.push(event);
    });
    assert_eq!(deliver(&mut consumer, &[started()]), [started()]);
    assert_eq!(consumer.take_warnings()[0].rule, WarningRule::UnknownProperty);
}

/// The ordering holds on every path that produces events for application code.
#[test]
fn every_way_into_the_pipeline_leads_through_the_stages() {
    let make = || {
        Consumer::default().with_middleware(|mut event: Value, next: &mut Vec<Value>| {
            event["timestamp"] = json!(7);
            next.push(event);
        })
    };
    let json = started().to_string();
    let events = [
        make().push_json(json.as_bytes()).unwrap().next(),
        make().push_value(started()).unwrap().next(),
        make().push_proto(ProtoEvent::Event(started())).unwrap().next(),
    ];
    for event in events {
        assert_eq!(event.unwrap().timestamp(), Some(7));
    }
}
