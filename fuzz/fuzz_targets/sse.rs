//! Any bytes as Server-Sent Events.
//!
//! No panic; where the bytes are cut changes nothing; an event that was read is written and read again as itself; what a
//! checker says does not depend on the cuts either.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runwire_agui::{Form, SseDecoder, SseEncoder};
use runwire_fuzz::pieces::Pieces;
use runwire_fuzz::verdict::judged;

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    let pieces = Pieces::take(&mut rest);
    let stream = rest;
    // A limit that inputs come by, and one that they do not.
    for limit in [64, 1 << 20] {
        let mut whole = SseDecoder::new(limit);
        let events = whole.push(stream);
        let (mut decoder, mut cut, mut rest, mut read) = (SseDecoder::new(limit), pieces.clone(), stream, Vec::new());
        while !rest.is_empty() {
            read.extend(decoder.push(cut.cut(&mut rest)));
        }
        assert_eq!(read, events);
        assert_eq!(decoder.last_event_id(), whole.last_event_id());
        assert_eq!(decoder.reconnection_time(), whole.reconnection_time());
        assert_eq!(decoder.finish(), whole.finish());
        for event in events.into_iter().flatten() {
            assert!(event.data.len() <= limit);
            let mut written = Vec::new();
            SseEncoder::encode_event(&mut written, event.id.as_deref(), &event.data);
            let read: Vec<_> = SseDecoder::new(usize::MAX).push(&written);
            let [Ok(again)] = read.as_slice() else { panic!("{read:?} was read of {event:?}") };
            assert_eq!((&again.data, &again.id), (&event.data, &event.id));
        }
    }
    let whole = judged(stream, Some(Form::Sse), true, None);
    let cut = judged(stream, Some(Form::Sse), true, Some(pieces));
    assert_eq!(whole.map_err(|error| error.to_string()), cut.map_err(|error| error.to_string()));
});
