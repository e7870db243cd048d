//! Any bytes as the JSON of one event, and as that of a run input.
//!
//! No panic; the short way of decoding and the long one give the same; what was decoded is written and decoded again as
//! itself, without a warning, in JSON and in the binary form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runwire_agui::{Event, RunAgentInput, decode_event, decode_value};
use runwire_fuzz::verdict::through_protobuf;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let decoded = decode_event(input, 3);
    if let Ok(value) = serde_json::from_slice::<Value>(input) {
        let by_value = decode_value(value.clone(), 3);
        assert_eq!(decoded, by_value, "both ways of decoding");
        run_input(value);
    } else {
        assert!(decoded.is_err() && RunAgentInput::decode(input).is_err(), "what is no JSON is no event");
    }
    let Ok(decoded) = decoded else { return };
    let Some(event) = decoded.event else { return };
    is_itself_in_json(&event);
    let Some(value) = through_protobuf(&event) else { return };
    // What the binary form does not carry is gone after the first time; then nothing changes any more.
    let read = decode_value(value, 0).expect("what was an event is one in protobuf");
    assert_eq!(read.warnings, [], "nothing that is known becomes unknown in protobuf");
    let narrowed = read.event.expect("what was an event is one in protobuf");
    assert_eq!(narrowed.event_type(), event.event_type());
    is_itself_in_json(&narrowed);
    let again = through_protobuf(&narrowed).expect("what came by protobuf goes by it");
    assert_eq!(again, narrowed.to_value());
});

fn is_itself_in_json(event: &Event) {
    let again = decode_event(event.to_json_string().as_bytes(), 0).expect("what was written is an event");
    assert_eq!(again.warnings, []);
    assert_eq!(again.event.as_ref(), Some(event));
    assert_eq!(Event::from_value(event.to_value()).ok().as_ref(), Some(event));
}

fn run_input(value: Value) {
    let Ok((input, _)) = RunAgentInput::decode_value(value) else { return };
    let written = serde_json::to_vec(&input).expect("an input is JSON");
    let (again, warnings) = RunAgentInput::decode(&written).expect("what was written is an input");
    assert_eq!(warnings, []);
    assert_eq!(again, input);
}
