//! Streams that mean harm: what they may cost, and what they may not bring down. Each is a finding of the fuzzers or a
//! thought about what they cannot reach.
#![allow(clippy::unwrap_used)]

use runwire_agui::proto::{ProtoDecoder, ProtoError};
use runwire_agui::{ReaderLimit, Reducer, StateDelta, StateSnapshot, Warning, WarningRule};
use serde_json::{Value, json};

fn reduced(state: Value, patch: Value) -> (Value, Option<Warning>) {
    let mut reducer = Reducer::new();
    let snapshot = StateSnapshot { snapshot: state, ..StateSnapshot::default() };
    assert_eq!(reducer.apply(snapshot.into(), 0), None);
    let Value::Array(delta) = patch else { panic!("a patch is a list") };
    let warning = reducer.apply(StateDelta { delta, ..StateDelta::default() }.into(), 1);
    (reducer.into_parts().1, warning)
}

/// patterns/snapshots: a patch applies as a whole or not at all; also one that fails after it moved something over what
/// held it.
#[test]
fn a_patch_that_fails_late_leaves_everything_as_it_was() {
    let state = json!({"a": {"b": {"c": 1}, "d": 2}, "list": [1, 2, 3]});
    let fails = json!({"op": "test", "path": "/a", "value": "no"});
    for first in [
        json!({"op": "move", "from": "/a/b", "path": "/a"}),
        json!({"op": "move", "from": "/a/b", "path": ""}),
        json!({"op": "copy", "from": "/a", "path": ""}),
        json!({"op": "move", "from": "/list/0", "path": "/list/-"}),
        json!({"op": "move", "from": "/a", "path": "/a"}),
        json!({"op": "replace", "path": "", "value": []}),
        json!({"op": "remove", "path": "/list/1"}),
        json!({"op": "add", "path": "/list/-", "value": 1}),
    ] {
        let (kept, warning) = reduced(state.clone(), json!([first, fails]));
        assert_eq!(warning.unwrap().rule, WarningRule::PatchNotApplied, "{first}");
        assert_eq!(kept, state, "{first}");
    }
}

#[test]
fn a_state_that_copies_itself_does_not_grow_without_bound() {
    let double = json!([{"op": "copy", "from": "", "path": "/a"}, {"op": "copy", "from": "", "path": "/b"}]);
    let patch: Vec<Value> = std::iter::repeat_n(double.as_array().unwrap().clone(), 60).flatten().collect();
    let (kept, warning) = reduced(json!({"a": 1}), patch.into());
    assert_eq!(kept, json!({"a": 1}));
    assert_eq!(warning.unwrap().rule, WarningRule::PatchNotApplied);
}

#[test]
fn a_state_does_not_come_to_nest_deeper_than_a_client_can_read() {
    let patch: Vec<Value> = std::iter::repeat_n(json!({"op": "copy", "from": "", "path": "/a"}), 5_000).collect();
    let (_, warning) = reduced(json!({}), patch.into());
    assert_eq!(warning.unwrap().rule, WarningRule::PatchNotApplied);
}

/// RFC 6902, section 4.6. In the binary form `1.0` is `1`, so anything else would make the two bindings differ.
#[test]
fn a_test_of_a_number_is_about_the_number_and_not_its_spelling() {
    let (state, warning) = reduced(
        json!({"n": 1, "list": [{"x": 2.0}]}),
        json!([{"op": "test", "path": "/n", "value": 1.0}, {"op": "test", "path": "/list", "value": [{"x": 2}]},
               {"op": "add", "path": "/passed", "value": true}]),
    );
    assert_eq!((&state["passed"], warning), (&json!(true), None));
    let (_, warning) = reduced(json!({"n": 1}), json!([{"op": "test", "path": "/n", "value": 1.5}]));
    assert_eq!(warning.unwrap().rule, WarningRule::PatchNotApplied);
}

/// What a few bytes may cost is told by how often the document is walked: a copy within a document that is as large as it
/// may be is refused, also after what made it so was measured, kept and taken back.
#[test]
fn what_is_copied_counts_from_patch_to_patch_and_what_goes_counts_no_more() {
    let text = "x".repeat(10 << 20);
    let mut reducer = Reducer::new();
    reducer.apply(StateSnapshot { snapshot: json!({"a": text}), ..StateSnapshot::default() }.into(), 0);
    let mut patch = |operations: Value| {
        let Value::Array(delta) = operations else { panic!("a patch is a list") };
        reducer.apply(StateDelta { delta, ..StateDelta::default() }.into(), 1).map(|warning| warning.rule)
    };
    let copy = |to: &str| json!({"op": "copy", "from": "/a", "path": to});
    let refused = Some(WarningRule::PatchNotApplied);
    // A patch that fails leaves nothing behind of what it copied.
    assert_eq!(patch(json!([copy("/b"), {"op": "test", "path": "/b", "value": 1}])), refused);
    for place in ["/b", "/c", "/d", "/e", "/f"] {
        assert_eq!(patch(json!([copy(place)])), None, "{place}");
    }
    assert_eq!(patch(json!([copy("/g")])), refused);
    assert_eq!(
        patch(json!([{"op": "replace", "path": "/b", "value": 1}, {"op": "move", "from": "/c", "path": "/h"}])),
        None
    );
    assert_eq!(patch(json!([copy("/g")])), None);
    assert_eq!(patch(json!([copy("/b")])), refused);
    assert_eq!(patch(json!([{"op": "remove", "path": "/g"}])), None);
    assert_eq!(patch(json!([copy("/b")])), None);
    // A snapshot begins anew.
    reducer.apply(StateSnapshot { snapshot: json!({"a": 1}), ..StateSnapshot::default() }.into(), 2);
    let delta = vec![copy("/b")];
    assert_eq!(reducer.apply(StateDelta { delta, ..StateDelta::default() }.into(), 3), None);
}

/// A frame of MESSAGES_SNAPSHOT with so many messages of these bytes each.
fn frame_of(messages: usize, message: &[u8]) -> Vec<u8> {
    let one = [&[0x12, u8::try_from(message.len()).unwrap()], message].concat();
    // What every event carries, with the number of its type.
    let base = prost_field(1, &[0x08, 8]);
    let event = prost_field(9, &[base, one.repeat(messages)].concat());
    [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
}

/// A length-delimited field.
fn prost_field(tag: u32, payload: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    prost::encoding::bytes::encode(tag, &payload.to_vec(), &mut field);
    field
}

#[test]
fn a_frame_of_next_to_nothing_over_and_over_is_refused_before_it_takes_a_hundred_times_as_much() {
    let read = |frame: &[u8]| ProtoDecoder::new(1 << 20).push(frame).pop().unwrap();
    for nothing in [&[][..], &[0x0a, 0x00], &[0x12, 0x01, b'x']] {
        let refused = read(&frame_of(10_001, nothing));
        assert_eq!(refused, Err(ProtoError::BeyondReader { frame: 0, limit: ReaderLimit::EmptyElements }));
        assert!(read(&frame_of(10_000, nothing)).is_ok());
    }
    // The shortest parts, operations and messages that mean something are no such thing.
    assert!(read(&frame_of(20_000, &prost_field(1, &prost_field(1, b"a")))).is_ok());
    let message = [prost_field(1, b"1"), prost_field(2, b"user"), prost_field(3, b"")].concat();
    assert!(read(&frame_of(20_000, &message)).is_ok());
}
