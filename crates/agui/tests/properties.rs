//! Laws of the consumer pipeline and the reducer, over generated streams of every family of events.
#![allow(clippy::unwrap_used)]

mod walk;

use std::collections::BTreeSet;

use proptest::prelude::*;
use runwire_agui::{
    Consumer, ConsumerOptions, Event, EventType, Reducer, RunAgentInput, RunRecord, SseDecoder, SseEncoder, StreamEnd,
    Warning,
};
use serde_json::Value;

use walk::Dice;

fn input() -> RunAgentInput {
    let (input, warnings) = RunAgentInput::decode_value(walk::input()).unwrap();
    assert_eq!(warnings, []);
    input
}

/// The events that a client is given, and how the stream ended.
fn consume(stream: &[Value]) -> (Vec<Event>, Vec<RunRecord>) {
    let mut consumer = Consumer::new(ConsumerOptions { input: Some(input()) });
    let mut delivered = Vec::new();
    for event in stream {
        let events = consumer.push_json(event.to_string().as_bytes());
        delivered.extend(events.unwrap_or_else(|rejected| panic!("{rejected}\n{stream:#?}")));
    }
    assert_eq!(consumer.take_warnings(), []);
    match consumer.finish() {
        StreamEnd::Completed { runs } => (delivered, runs),
        other => panic!("{other:?}"),
    }
}

/// Applies the events, which are of these places, and gives the warnings.
fn apply(reducer: &mut Reducer, events: &[Event], first: usize) -> Vec<Warning> {
    let apply = |(index, event): (usize, &Event)| reducer.apply(event.clone(), first + index);
    events.iter().enumerate().filter_map(apply).collect()
}

/// What is held, in a form that compares.
fn held(reducer: Reducer) -> (Vec<Value>, Vec<Value>, Value) {
    let interrupts = reducer.interrupts().iter().map(|interrupt| serde_json::to_value(interrupt).unwrap()).collect();
    let (messages, state) = reducer.into_parts();
    (messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect(), interrupts, state)
}

fn reduced(stream: &[Value]) -> ((Vec<Value>, Vec<Value>, Value), Vec<RunRecord>) {
    let (events, runs) = consume(stream);
    let mut reducer = Reducer::from_input(&input());
    apply(&mut reducer, &events, 0);
    (held(reducer), runs)
}

#[test]
fn the_walk_comes_by_every_event_type() {
    let mut met = BTreeSet::new();
    for seed in 0..200 {
        let steps = walk::stream(seed);
        for event in walk::explicit(&steps).iter().chain(&walk::chunked(&steps)) {
            met.insert(event["type"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(met, EventType::ALL.iter().map(|event_type| event_type.as_str().to_owned()).collect());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// patterns/streaming, "The chunked form": chunks are a compact spelling of start, content and end.
    #[test]
    fn chunked_and_explicit_spellings_reduce_to_the_same(seed in any::<u64>()) {
        let steps = walk::stream(seed);
        let (explicit, chunked) = (walk::explicit(&steps), walk::chunked(&steps));
        prop_assert_eq!(reduced(&explicit), reduced(&chunked));
        prop_assert_eq!(reduced(&explicit), reduced(&walk::mixed(&steps, &mut Dice::new(seed))));
    }

    /// A client that stops and goes on later holds what one that never stopped does.
    #[test]
    fn the_reducer_is_a_fold(seed in any::<u64>(), cut in any::<prop::sample::Index>()) {
        let (events, _) = consume(&walk::mixed(&walk::stream(seed), &mut Dice::new(seed)));
        let mut all = Reducer::from_input(&input());
        let warnings = apply(&mut all, &events, 0);

        let cut = cut.index(events.len() + 1);
        let (prefix, suffix) = events.split_at(cut);
        let mut parts = Reducer::from_input(&input());
        let mut warned = apply(&mut parts, prefix, 0);
        // What it holds, handed over as data, is all that the rest needs: a reload in the middle loses nothing.
        let (messages, state) = parts.clone().into_parts();
        let reloaded = RunAgentInput { messages, state: Some(state), ..input() };
        warned.extend(apply(&mut parts, suffix, cut));
        prop_assert_eq!(warned, warnings);
        let whole = held(all);
        prop_assert_eq!(&held(parts), &whole);

        // An input cannot say that the state is `null`, and interrupts are not part of one.
        if reloaded.state != Some(Value::Null) {
            let mut reloaded = Reducer::from_input(&reloaded);
            apply(&mut reloaded, suffix, cut);
            let (messages, _, state) = held(reloaded);
            prop_assert_eq!((&messages, &state), (&whole.0, &whole.2));
        }
    }

    /// transports/http-sse: where the bytes are split is nobody's business.
    #[test]
    fn splitting_the_bytes_anywhere_changes_nothing(
        seed in any::<u64>(),
        pieces in prop::collection::vec(1..40_usize, 1..50),
        ids in any::<bool>(),
    ) {
        let stream = walk::mixed(&walk::stream(seed), &mut Dice::new(seed));
        let mut bytes = Vec::new();
        for (index, event) in stream.iter().enumerate() {
            let id = ids.then(|| format!("{index}.0"));
            SseEncoder::encode_event(&mut bytes, id.as_deref(), &event.to_string());
            if index % 3 == 0 {
                SseEncoder::encode_comment(&mut bytes, "keep-alive");
            }
        }
        let mut decoder = SseDecoder::new(1 << 20);
        let (mut read, mut rest, mut sizes) = (Vec::new(), &bytes[..], pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            read.extend(decoder.push(piece).into_iter().map(|event| event.unwrap().data));
            rest = after;
        }
        prop_assert!(!decoder.finish());
        let sent: Vec<String> = stream.iter().map(Value::to_string).collect();
        prop_assert_eq!(&read, &sent);
    }

    /// Every event is its own JSON and comes back from it, and so does what chunks are expanded to.
    #[test]
    fn encoding_and_decoding_is_the_identity(seed in any::<u64>()) {
        let stream = walk::mixed(&walk::stream(seed), &mut Dice::new(seed));
        for event in &stream {
            let read = Event::from_value(event.clone()).unwrap();
            prop_assert_eq!(&read.to_value(), event);
        }
        for event in consume(&stream).0 {
            let written = serde_json::to_vec(&event).unwrap();
            let decoded = runwire_agui::decode_event(&written, 0).unwrap();
            prop_assert_eq!(decoded.warnings, []);
            prop_assert_eq!(decoded.event, Some(event));
        }
    }
}
