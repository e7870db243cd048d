//! Sequences of events over a handful of ids: every order in which things may be opened, continued, closed, restated and
//! patched, and every order in which they may not.
//!
//! No panic; Server-Sent Events, one object a line, protobuf frames and the consumer itself come to the same verdict, the
//! same events, the same messages and the same state; what was delivered is a stream that is accepted, and a reducer that
//! stops and goes on, or that is given no events, holds what one that did not stop holds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runwire_agui::proto::{ProtoDecoder, ProtoEncoder, ProtoEvent};
use runwire_agui::{Consumer, Event, Form, Reducer, SseEncoder};
use runwire_fuzz::sequence::Sequence;
use runwire_fuzz::verdict::{agrees, is_taken_again, judged, made, reduces_alike};
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let events: Vec<Value> = Sequence::of(input).collect();
    let (mut sse, mut lines, mut frames) = (Vec::new(), Vec::new(), Vec::new());
    for event in &events {
        let json = event.to_string();
        SseEncoder::encode_event(&mut sse, None, &json);
        lines.extend_from_slice(json.as_bytes());
        lines.push(b'\n');
        let event = Event::from_value(event.clone()).expect("a sequence is of events");
        ProtoEncoder::encode_event(&mut frames, &event).expect("the events of a sequence have a binary form");
    }
    let by_json = made(&events, |consumer, event| consumer.push_json(event.to_string().as_bytes()));
    let by_value = made(events.iter().cloned(), Consumer::push_value);
    assert_eq!(by_json, by_value);
    for (recording, form) in [(&sse, Form::Sse), (&lines, Form::Lines), (&frames, Form::Protobuf)] {
        let judgement = judged(recording, Some(form), true, None).expect("what was written can be read");
        agrees(&judgement, &by_json);
    }
    let read = ProtoDecoder::new(usize::MAX).push(&frames);
    let by_frames = made(read, |consumer, frame| match frame {
        Ok(frame @ ProtoEvent::Event(_)) => consumer.push_proto(frame),
        other => panic!("{other:?} was read of an event"),
    });
    assert_eq!(by_frames, by_json, "both bindings come to the same");
    is_taken_again(&by_json);
    reduces_alike(events.iter().map(Value::to_string), &by_json);
    is_a_fold(&by_json.delivered, input.last().copied().unwrap_or_default());
});

fn is_a_fold(delivered: &[Event], place: u8) {
    let (before, after) = delivered.split_at(usize::from(place) % (delivered.len() + 1));
    let apply =
        |reducer: &mut Reducer, events: &[Event]| events.iter().for_each(|event| drop(reducer.apply(event.clone(), 0)));
    let (mut whole, mut parts) = (Reducer::new(), Reducer::new());
    apply(&mut whole, delivered);
    apply(&mut parts, before);
    let mut parts = parts.clone();
    apply(&mut parts, after);
    assert_eq!(whole.interrupts(), parts.interrupts());
    assert_eq!(whole.into_parts(), parts.into_parts());
}
