//! Any bytes as frames of the binary form, and as the body of one frame.
//!
//! No panic; where the bytes are cut changes nothing; what was read as an event is written and read again as itself, and
//! the same event in JSON is the same event.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runwire_agui::proto::{ProtoDecoder, ProtoEvent};
use runwire_agui::{Consumer, Form, decode_event, decode_value};
use runwire_fuzz::pieces::Pieces;
use runwire_fuzz::verdict::{judged, made, through_protobuf};

/// Small enough for inputs to come by it.
const LIMIT: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    let pieces = Pieces::take(&mut rest);
    let mut framed = Vec::new();
    // A header is hard to guess, so half of the inputs get one.
    let stream = match rest.split_first() {
        Some((mode, body)) if mode % 2 == 0 => {
            framed.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
            framed.extend_from_slice(body);
            &framed[..]
        }
        Some((_, frames)) => frames,
        None => return,
    };
    let mut whole = ProtoDecoder::new(LIMIT);
    let frames = whole.push(stream);
    let (mut decoder, mut cut, mut rest, mut read) = (ProtoDecoder::new(LIMIT), pieces.clone(), stream, Vec::new());
    while !rest.is_empty() {
        read.extend(decoder.push(cut.cut(&mut rest)));
    }
    assert_eq!(read, frames);
    assert_eq!(decoder.finish(), whole.finish());
    for frame in frames.iter().flatten() {
        let ProtoEvent::Event(value) = frame else { continue };
        let json = value.to_string();
        let decoded = decode_value(value.clone(), 0);
        assert_eq!(decode_event(json.as_bytes(), 0), decoded, "both bindings");
        let Some(event) = decoded.ok().and_then(|decoded| decoded.event) else { continue };
        let again = through_protobuf(&event).expect("what came by protobuf goes by it");
        assert_eq!(again, event.to_value());
    }
    let events = || frames.iter().flatten().cloned();
    let by_frames = made(events(), Consumer::push_proto);
    let by_json = made(events(), |consumer, frame| match frame {
        ProtoEvent::Event(value) => consumer.push_json(value.to_string().as_bytes()),
        unknown => consumer.push_proto(unknown),
    });
    assert_eq!(by_frames, by_json, "both bindings come to the same");
    let whole = judged(stream, Some(Form::Protobuf), true, None);
    let cut = judged(stream, Some(Form::Protobuf), true, Some(pieces));
    assert_eq!(whole.map_err(|error| error.to_string()), cut.map_err(|error| error.to_string()));
});
