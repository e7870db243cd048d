//! Frames on a stream: at any split, cut short, too large, and never more than the bytes deserve.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use runwire_agui::proto::{ProtoDecoder, ProtoEncoder, ProtoError, ProtoEvent};
use runwire_agui::{Consumer, Event, StateSnapshot, StreamEnd, TextMessageContent};
use serde_json::{Value, json};

fn frames_of(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        ProtoEncoder::encode_event(&mut out, event).unwrap();
    }
    out
}

fn every_event() -> Vec<Event> {
    let pairs: Vec<Value> = serde_json::from_str(include_str!("samples/events.json")).unwrap();
    let samples = pairs.into_iter().flat_map(|pair| [pair["bare"].clone(), pair["full"].clone()]);
    samples.map(|sample| Event::from_value(sample).unwrap()).collect()
}

fn text(delta: &str) -> Event {
    TextMessageContent::new("m", delta).into()
}

#[test]
fn a_frame_is_its_length_in_four_bytes_big_endian_and_then_the_message() {
    let bytes = frames_of(&[text("Hello")]);
    let (header, message) = bytes.split_at(4);
    assert_eq!(header, u32::try_from(message.len()).unwrap().to_be_bytes());
    // Arm 2 with 14 bytes; base event of type 1; message id; delta.
    let expected = [0x12, 14, 0x0a, 2, 0x08, 1, 0x12, 1, b'm', 0x1a, 5, b'H', b'e', b'l', b'l', b'o'];
    assert_eq!(message, expected);
    assert_eq!(frames_of(&[text("a"), text("b")]), [frames_of(&[text("a")]), frames_of(&[text("b")])].concat());
}

#[test]
fn frames_are_read_the_same_wherever_the_bytes_are_split() {
    let events = every_event();
    assert_eq!(events.len(), 62);
    for event in events {
        // The split is in the event's frame, and in the one after it.
        let bytes = frames_of(&[event, text("next")]);
        let whole = ProtoDecoder::new(1 << 20).push(&bytes);
        assert!(whole.len() == 2 && whole.iter().all(Result::is_ok), "{whole:?}");
        for split in 0..=bytes.len() {
            let mut decoder = ProtoDecoder::new(1 << 20);
            let mut read = decoder.push(&bytes[..split]);
            read.extend(decoder.push(&bytes[split..]));
            assert_eq!(read, whole, "split at {split}");
            assert!(!decoder.finish());
        }
        let mut decoder = ProtoDecoder::new(1 << 20);
        let by_byte: Vec<_> = bytes.iter().flat_map(|byte| decoder.push(&[*byte])).collect();
        assert_eq!(by_byte, whole);
    }
}

#[test]
fn a_body_that_stops_inside_a_frame_is_a_truncated_run() {
    let start = Event::from_value(json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" })).unwrap();
    let end = Event::from_value(json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" })).unwrap();
    let first = frames_of(std::slice::from_ref(&start)).len();
    let bytes = frames_of(&[start, end]);
    for stop in 0..bytes.len() {
        let mut decoder = ProtoDecoder::new(1 << 20);
        let mut consumer = Consumer::default();
        for event in decoder.push(&bytes[..stop]) {
            consumer.push_proto(event.unwrap()).unwrap();
        }
        assert_eq!(decoder.finish(), stop != 0 && stop != first, "stopped at {stop}");
        assert!(matches!(consumer.finish(), StreamEnd::Truncated { .. }), "stopped at {stop}");
    }
}

#[test]
fn a_frame_over_the_limit_is_refused_by_its_header_alone() {
    let bytes = frames_of(&[text("fits"), text("does not fit, because it is longer")]);
    let length = bytes.len() - frames_of(&[text("fits")]).len() - 4;
    for limit in [length, length - 1] {
        let read = ProtoDecoder::new(limit).push(&bytes);
        if limit == length {
            assert!(read.iter().all(Result::is_ok) && read.len() == 2, "the limit itself is within");
        } else {
            let expected = ProtoError::TooLarge { frame: 1, bytes: u32::try_from(length).unwrap(), limit };
            assert_eq!(read[1..], [Err(expected)]);
        }
    }
    let mut decoder = ProtoDecoder::new(10 << 20);
    let refused = decoder.push(&u32::MAX.to_be_bytes());
    assert!(matches!(refused.as_slice(), [Err(ProtoError::TooLarge { bytes: u32::MAX, .. })]), "{refused:?}");
    assert_eq!(decoder.push(&frames_of(&[text("late")])), [], "nothing comes after it");
    assert!(!decoder.finish(), "a refused stream is not a truncated one");
}

#[test]
fn a_large_frame_is_read_byte_by_byte_in_one_pass() {
    // Two megabytes: a cost that grew with what is buffered would never end.
    let bytes = frames_of(&[text(&"x".repeat(2 << 20))]);
    let mut decoder = ProtoDecoder::new(4 << 20);
    let read: Vec<_> = bytes.iter().flat_map(|byte| decoder.push(std::slice::from_ref(byte))).collect();
    assert!(matches!(read.as_slice(), [Ok(ProtoEvent::Event(_))]));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_filter("whole numbers come back whole", |n| n.fract() != 0.0).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((".{0,4}", inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_value_comes_back(value in json_value()) {
        let event: Event = StateSnapshot { snapshot: value, ..StateSnapshot::default() }.into();
        let read = ProtoDecoder::new(1 << 20).push(&frames_of(std::slice::from_ref(&event)));
        prop_assert_eq!(read, vec![Ok(ProtoEvent::Event(event.to_value()))]);
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut consumer = Consumer::default();
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        for stream in [bytes.clone(), [&length[..], &bytes].concat()] {
            for event in ProtoDecoder::new(1 << 20).push(&stream).into_iter().flatten() {
                // A rejection is an answer like any other.
                let _ = consumer.push_proto(event);
            }
        }
    }

    #[test]
    fn damaged_events_never_panic(
        which in 0..62_usize,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = frames_of(&every_event()[which..=which]);
        for (place, byte) in damage {
            let place = 4 + place.index(bytes.len() - 4);
            bytes[place] = byte;
        }
        let mut consumer = Consumer::default();
        for event in ProtoDecoder::new(1 << 20).push(&bytes).into_iter().flatten() {
            let _ = consumer.push_proto(event);
        }
    }

    #[test]
    fn any_pieces_give_the_same_events(cuts in proptest::collection::vec(1..300_usize, 0..40)) {
        let bytes = frames_of(&every_event());
        let mut decoder = ProtoDecoder::new(1 << 20);
        let (mut read, mut rest) = (Vec::new(), &bytes[..]);
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            read.extend(decoder.push(piece));
            rest = after;
        }
        read.extend(decoder.push(rest));
        prop_assert_eq!(read, ProtoDecoder::new(1 << 20).push(&bytes));
    }
}
