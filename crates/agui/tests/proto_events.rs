//! Every event in its binary form and back, and the same verdict on the same stream in both bindings.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use runwire_agui::proto::{ProtoDecoder, ProtoEncodeError, ProtoEncoder, ProtoEvent};
use runwire_agui::{Consumer, Event, RunFinished, StateDelta, StateSnapshot, StreamEnd, TokenUsage, WarningRule};
use serde_json::{Map, Value, json};

fn encoded(event: &Event) -> Vec<u8> {
    let mut out = Vec::new();
    ProtoEncoder::encode_event(&mut out, event).unwrap();
    out
}

fn read(bytes: &[u8]) -> Vec<ProtoEvent> {
    let mut decoder = ProtoDecoder::new(1 << 24);
    let events = decoder.push(bytes).into_iter().map(|event| event.unwrap()).collect();
    assert!(!decoder.finish(), "the stream ends between frames");
    events
}

/// The JSON that one event's frame is read as.
fn through(event: &Event) -> Value {
    match read(&encoded(event)).as_slice() {
        [ProtoEvent::Event(value)] => value.clone(),
        other => panic!("{other:?}"),
    }
}

/// What of an event the binary form carries: the losses that the module documents, and no other.
fn narrowed(mut event: Value) -> Value {
    for patch in ["delta", "patch"] {
        for operation in event.get_mut(patch).and_then(Value::as_array_mut).into_iter().flatten() {
            operation.as_object_mut().unwrap().retain(|member, _| ["op", "path", "from", "value"].contains(&&**member));
        }
    }
    if let Some(input) = event.get_mut("input").and_then(Value::as_object_mut) {
        for list in ["tools", "context", "resume"] {
            input.entry(list).or_insert_with(|| json!([]));
        }
    }
    event
}

fn samples() -> Vec<Value> {
    let pairs: Vec<Value> = serde_json::from_str(include_str!("samples/events.json")).unwrap();
    assert_eq!(pairs.len(), 31);
    pairs.into_iter().flat_map(|pair| [pair["bare"].clone(), pair["full"].clone()]).collect()
}

fn with_state(snapshot: Value) -> Event {
    StateSnapshot { snapshot, ..StateSnapshot::default() }.into()
}

#[test]
fn every_event_comes_back_with_all_its_members_and_with_none() {
    for sample in samples() {
        let event = Event::from_value(sample.clone()).unwrap();
        assert_eq!(through(&event), narrowed(sample));
    }
}

#[test]
fn every_ending_of_a_run_and_of_a_subagent_comes_back() {
    for outcome in [
        json!({ "type": "success" }),
        json!({ "type": "success", "pendingToolCallIds": ["a", "b"] }),
        json!({ "type": "interrupt", "interrupts": [{ "id": "i", "reason": "", "metadata": {}, "responseSchema": {} }] }),
        json!({ "type": "cancelled" }),
    ] {
        let sample = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome });
        assert_eq!(through(&Event::from_value(sample.clone()).unwrap()), sample);
    }
    for outcome in [json!({ "type": "success" }), json!({ "type": "suspended" })] {
        let sample = json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "s", "outcome": outcome });
        assert_eq!(through(&Event::from_value(sample.clone()).unwrap()), sample);
    }
}

#[test]
fn empty_strings_lists_and_objects_are_not_absent_ones() {
    for sample in [
        json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "", "delta": "", "name": "" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": [] }),
        json!({ "type": "STATE_DELTA", "delta": [] }),
        json!({ "type": "STATE_SNAPSHOT", "snapshot": {}, "timestamp": 0, "metadata": {} }),
        json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": "", "activityType": "", "content": {}, "replace": false }),
        json!({ "type": "MESSAGES_SNAPSHOT", "messages": [
            { "role": "user", "id": "", "content": "" },
            { "role": "user", "id": "", "content": [] },
            { "role": "activity", "id": "", "content": {}, "activityType": "" },
            { "role": "assistant", "id": "a", "content": "" },
        ] }),
        json!({ "type": "RUN_ERROR", "message": "", "usage": [{ "inputTokens": 0 }, {}] }),
    ] {
        assert_eq!(through(&Event::from_value(sample.clone()).unwrap()), sample);
    }
}

#[test]
fn a_json_value_keeps_its_kinds_and_the_order_of_its_keys() {
    let text = r#"{"z":null,"a":[[],{},"",0,-1,0.5,1e300,true,false,{"":{"é":"\u0000𝄞"}}],"m":{"k":[null]}}"#;
    let state: Value = serde_json::from_str(text).unwrap();
    let read = through(&with_state(state.clone()));
    assert_eq!(read["snapshot"].to_string(), state.to_string());
}

#[test]
fn numbers_are_doubles_and_whole_ones_are_written_whole() {
    let exact =
        [json!(0), json!(-7), json!(9_007_199_254_740_992_u64), json!(i64::MIN), json!(1_u64 << 63), json!(2.5)];
    for number in exact {
        assert_eq!(through(&with_state(number.clone()))["snapshot"], number);
    }
    assert_eq!(through(&with_state(json!(1.0)))["snapshot"], json!(1));
    assert_eq!(through(&with_state(json!(9_007_199_254_740_993_u64)))["snapshot"], json!(9_007_199_254_740_992_u64));
    let minus_zero = through(&with_state(json!(-0.0)));
    assert!(minus_zero["snapshot"].as_f64().unwrap().is_sign_negative());
}

#[test]
fn values_nest_as_deep_as_json_parses_and_no_deeper() {
    // The event is a level itself.
    let nested = |levels: usize| {
        let mut state = json!("innermost");
        for level in 0..levels {
            state = if level % 2 == 0 { json!([state]) } else { json!({ "k": state }) };
        }
        with_state(state)
    };
    let deepest = nested(126);
    let parsed: Event = serde_json::from_str(&deepest.to_json_string()).unwrap();
    assert_eq!(through(&parsed), deepest.to_value());

    let too_deep = nested(127);
    assert!(serde_json::from_str::<Event>(&too_deep.to_json_string()).is_err());
    let refused = ProtoDecoder::new(1 << 20).push(&encoded(&too_deep));
    assert!(matches!(refused.as_slice(), [Err(error)] if error.to_string().contains("127 levels")), "{refused:?}");
}

#[test]
fn what_has_no_binary_form_is_refused_and_leaves_no_bytes() {
    let mut out = b"before".to_vec();
    for operation in [json!({ "op": "merge", "path": "" }), json!("add"), json!({ "op": "add" })] {
        let delta = StateDelta { delta: vec![operation], ..StateDelta::default() };
        let refused = ProtoEncoder::encode_event(&mut out, &delta.into());
        assert!(matches!(refused, Err(ProtoEncodeError::Operation(_))), "{refused:?}");
    }
    let usage = vec![TokenUsage { input_tokens: Some(u64::MAX), ..TokenUsage::default() }];
    let finished = RunFinished { usage: Some(usage), ..RunFinished::default() };
    let refused = ProtoEncoder::encode_event(&mut out, &finished.into());
    assert_eq!(refused, Err(ProtoEncodeError::Count(u64::MAX)));
    assert_eq!(out, b"before");
}

/// What a consumer makes of a stream: what it delivers, what it comes to, and which rules it mentions at which events.
#[derive(Debug, PartialEq)]
struct Verdict {
    delivered: Vec<Value>,
    end: String,
    warnings: Vec<(WarningRule, usize, Option<String>)>,
}

fn verdict<T>(events: impl IntoIterator<Item = T>, mut push: impl FnMut(&mut Consumer, T) -> Vec<Event>) -> Verdict {
    let mut consumer = Consumer::default();
    let mut delivered = Vec::new();
    for event in events {
        delivered.extend(push(&mut consumer, event).iter().map(Event::to_value));
    }
    let end = match consumer.finish() {
        StreamEnd::Rejected { violation, .. } => format!("{violation}"),
        end => format!("{end:?}"),
    };
    let warnings = consumer.take_warnings().into_iter().map(|w| (w.rule, w.event, w.path)).collect();
    Verdict { delivered, end, warnings }
}

fn in_json(stream: &[Value]) -> Verdict {
    verdict(stream, |consumer, event| match consumer.push_json(event.to_string().as_bytes()) {
        Ok(delivered) => delivered.collect(),
        Err(rejected) => rejected.delivered,
    })
}

fn in_protobuf(bytes: &[u8]) -> Verdict {
    verdict(read(bytes), |consumer, event| match consumer.push_proto(event) {
        Ok(delivered) => delivered.collect(),
        Err(rejected) => rejected.delivered,
    })
}

#[test]
fn a_stream_comes_to_the_same_end_in_both_bindings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/agui-1.0");
    if !folder.is_dir() {
        eprintln!("SKIPPED: the AG-UI 1.0 corpus is not beside the repository (../shared/conformance).");
        return;
    }
    let mut compared = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let stream = case["stream"].as_array().unwrap();
        // Streams that hold what only JSON can say are told apart below, byte by byte.
        let events: Result<Vec<Event>, _> = stream.iter().cloned().map(Event::from_value).collect();
        let Ok(events) = events else { continue };
        let stream: Vec<Value> = stream.iter().cloned().map(narrowed).collect();
        let bytes: Vec<u8> = events.iter().flat_map(encoded).collect();
        assert_eq!(in_protobuf(&bytes), in_json(&stream), "{}", path.display());
        compared += 1;
    }
    assert!(compared >= 50, "most of the corpus can be said in both bindings, not {compared}");
}

// What follows is made by hand, because no event of ours is like it: material of a newer version.

fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// A field that holds bytes, text or a message.
fn field(number: usize, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    [varint(number << 3 | 2), varint(payload.len()), payload.to_vec()].concat()
}

/// A field that holds a whole number.
fn number(number: usize, value: usize) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn base(event_type: usize) -> Vec<u8> {
    field(1, number(1, event_type))
}

fn frame(envelope: impl AsRef<[u8]>) -> Vec<u8> {
    let envelope = envelope.as_ref();
    [&u32::try_from(envelope.len()).unwrap().to_be_bytes(), envelope].concat()
}

fn started() -> Vec<u8> {
    frame(field(12, [base(11), field(2, "t"), field(3, "r")].concat()))
}

fn finished() -> Vec<u8> {
    frame(field(13, [base(12), field(2, "t"), field(3, "r")].concat()))
}

/// A run with one event in it, in both bindings.
fn the_same_both_ways(frame: Vec<u8>, event: Value) -> Verdict {
    let start = json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" });
    let end = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" });
    let bytes = in_protobuf(&[started(), frame, finished()].concat());
    assert_eq!(bytes, in_json(&[start, event, end]));
    assert!(bytes.end.starts_with("Completed"), "{bytes:?}");
    assert!(!bytes.warnings.is_empty(), "{bytes:?}");
    bytes
}

#[test]
fn an_event_of_a_newer_version_is_dropped_with_a_warning() {
    let frame = frame(field(99, [base(77), field(2, "something")].concat()));
    assert_eq!(read(&frame), [ProtoEvent::Unknown { arm: 99 }]);
    let mut consumer = Consumer::default();
    for event in read(&[started(), frame, finished()].concat()) {
        consumer.push_proto(event).unwrap();
    }
    let [warning] = <[_; 1]>::try_from(consumer.take_warnings()).unwrap();
    assert_eq!((warning.rule, warning.event), (WarningRule::UnknownEvent, 1));
    assert!(warning.message.contains("99"), "{}", warning.message);
    assert!(matches!(consumer.finish(), StreamEnd::Completed { .. }));
}

#[test]
fn an_outcome_of_a_newer_version_is_stripped_as_in_json_and_never_refused() {
    let frame = frame(field(13, [base(12), field(2, "t"), field(3, "r"), field(5, "paused")].concat()));
    let event = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": { "type": "paused" } });
    let bytes = in_protobuf(&[started(), frame].concat());
    assert_eq!(bytes, in_json(&[json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" }), event]));
    assert_eq!(bytes.warnings, [(WarningRule::UnknownMember, 1, Some("/outcome".to_owned()))]);
    assert!(bytes.end.starts_with("Completed"), "{bytes:?}");
}

#[test]
fn an_outcome_with_members_of_another_one_loses_them_with_a_warning() {
    for (outcome, path) in [("success", "/outcome/interrupts"), ("", "/interrupts")] {
        let interrupt = field(6, [field(1, "i"), field(2, "why")].concat());
        let finished =
            frame(field(13, [base(12), field(2, "t"), field(3, "r"), field(5, outcome), interrupt].concat()));
        let bytes = in_protobuf(&[started(), finished].concat());
        assert_eq!(bytes.warnings, [(WarningRule::UnknownProperty, 1, Some(path.to_owned()))]);
    }
}

#[test]
fn an_interrupt_outcome_without_interrupts_is_malformed_as_in_json() {
    let finished = frame(field(13, [base(12), field(2, "t"), field(3, "r"), field(5, "interrupt")].concat()));
    let bytes = in_protobuf(&[started(), finished].concat());
    assert!(bytes.end.contains("malformed-value") && bytes.end.contains("/outcome/interrupts"), "{bytes:?}");
}

#[test]
fn a_role_of_a_newer_version_takes_its_message_along_as_in_json() {
    let messages = [
        field(2, [field(1, "a"), field(2, "critic"), field(3, "no")].concat()),
        field(2, [field(1, "b"), field(2, "critic"), field(8, field(1, field(1, "no")))].concat()),
        field(2, [field(1, "c"), field(2, "user"), field(3, "yes")].concat()),
    ];
    let event = json!({ "type": "MESSAGES_SNAPSHOT", "messages": [
        { "role": "critic", "id": "a", "content": "no" },
        { "role": "critic", "id": "b", "content": [{ "type": "text", "text": "no" }] },
        { "role": "user", "id": "c", "content": "yes" },
    ] });
    let bytes = the_same_both_ways(frame(field(9, [base(8), messages.concat()].concat())), event);
    assert_eq!(bytes.delivered[1]["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn a_content_part_of_a_newer_version_is_stripped_as_in_json() {
    let parts = [
        field(7, field(1, field(1, "kept"))),
        field(7, field(9, "new")),
        field(7, field(2, field(1, field(9, "new")))),
    ];
    let result = [base(21), field(3, "m"), field(4, "c"), parts.concat()].concat();
    let event = json!({ "type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": [
        { "type": "text", "text": "kept" },
        { "type": "smell" },
        { "type": "image", "source": { "type": "ether" } },
    ] });
    let bytes = the_same_both_ways(frame(field(22, result)), event);
    assert_eq!(bytes.delivered[1]["content"], json!([{ "type": "text", "text": "kept" }]));
}

#[test]
fn a_patch_operation_of_a_newer_version_is_stripped_as_in_json() {
    let operations = [
        field(2, [number(1, 77), field(2, "/x")].concat()),
        field(2, [field(2, "/y"), field(4, number(1, 0))].concat()),
    ];
    let event = json!({ "type": "STATE_DELTA", "delta": [
        { "op": "77", "path": "/x" },
        { "op": "add", "path": "/y", "value": null },
    ] });
    let bytes = the_same_both_ways(frame(field(8, [base(7), operations.concat()].concat())), event);
    assert_eq!(bytes.delivered[1]["delta"].as_array().unwrap().len(), 1);
}

#[test]
fn a_field_of_a_newer_version_is_skipped() {
    let start = [base(0), field(2, "m"), field(99, "new"), number(98, 1)].concat();
    let envelope = [number(97, 1), field(1, start), field(99, "beside the event")].concat();
    let expected = json!({ "type": "TEXT_MESSAGE_START", "messageId": "m" });
    assert_eq!(read(&frame(envelope)), [ProtoEvent::Event(expected)]);
}

#[test]
fn what_is_there_twice_is_merged() {
    // The event in two pieces, its base in two pieces, and its metadata in two pieces.
    let entry = |key: &str, value: &[u8]| field(1, [field(1, key), field(2, value)].concat());
    let metadata = [field(4, entry("a", &number(1, 0))), field(4, entry("b", &number(4, 1)))].concat();
    let first = [field(1, number(1, 0)), field(2, "m")].concat();
    let second = [field(1, metadata), field(4, "name")].concat();
    let envelope = [field(1, first), field(1, second)].concat();
    let expected = json!({
        "type": "TEXT_MESSAGE_START", "messageId": "m", "name": "name", "metadata": { "a": null, "b": true }
    });
    assert_eq!(read(&frame(envelope)), [ProtoEvent::Event(expected)]);
}

#[test]
fn bytes_that_are_no_event_are_told_apart_from_an_event_that_is_not_known() {
    let no_utf8 = [base(0), field(2, [0xff])].concat();
    let nan = field(3, [vec![0x11], f64::NAN.to_le_bytes().to_vec()].concat());
    let two_contents = [base(21), field(3, "m"), field(4, "c"), field(5, "text"), field(7, field(1, "part"))].concat();
    let message = |fields: Vec<Vec<u8>>| field(9, [base(8), field(2, fields.concat())].concat());
    let two_arms = field(8, [field(1, field(1, "text")), field(2, field(1, field(1, field(1, "data"))))].concat());
    let bad: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", vec![]),
        ("no message", vec![0xff, 0xff]),
        ("a field with number 0", vec![0x00, 0x01]),
        ("an unknown arm that is no message", field(99, [0xff])),
        ("an unknown field that is no arm", number(99, 1)),
        ("a known arm that is a number", number(1, 1)),
        ("two events", [field(1, base(0)), field(3, base(2))].concat()),
        ("no base event", field(1, field(2, "m"))),
        ("a base event of another type", field(1, [base(2), field(2, "m")].concat())),
        ("text that is not UTF-8", field(1, no_utf8)),
        ("a field of the wrong wire type", field(1, [base(0), number(2, 1)].concat())),
        ("a length beyond the end", field(1, [0x0a, 0x7f])),
        ("a value of no kind", field(7, [base(6), field(2, "")].concat())),
        ("a value of the wrong wire type", field(7, [base(6), field(2, field(2, "x"))].concat())),
        ("a member without a value", field(7, [base(6), field(2, field(5, field(1, field(1, "k"))))].concat())),
        ("a number that JSON has no form for", field(11, [base(10), field(2, "n"), nan].concat())),
        ("content in two forms", field(22, two_contents)),
        ("a message with content of another role", message(vec![field(2, "system"), field(13, "")])),
        ("a message with content in two forms", message(vec![field(2, "new"), field(3, "x"), field(13, "")])),
        ("a part of two kinds", message(vec![field(2, "user"), two_arms])),
    ];
    for (what, envelope) in bad {
        let mut decoder = ProtoDecoder::new(1 << 20);
        let read = decoder.push(&[started(), frame(&envelope), finished()].concat());
        let [Ok(ProtoEvent::Event(_)), Err(error)] = read.as_slice() else { panic!("{what}: {read:?}") };
        assert!(error.to_string().starts_with("frame 1 of the stream is not an event: "), "{what}: {error}");
        assert_eq!(decoder.push(&started()), [], "{what}: nothing comes after it");
        assert!(!decoder.finish(), "{what}: a broken stream is not a truncated one");
    }
}

#[test]
fn a_required_string_that_is_missing_is_empty() {
    let read = read(&frame(field(16, base(15))));
    assert_eq!(read, [ProtoEvent::Event(json!({ "type": "STEP_FINISHED", "stepName": "" }))]);
}

#[test]
fn a_required_value_that_is_missing_is_malformed_as_in_json() {
    let bytes = in_protobuf(&[started(), frame(field(7, base(6)))].concat());
    assert!(bytes.end.contains("malformed-value") && bytes.end.contains("/snapshot"), "{bytes:?}");
}

#[test]
fn a_count_beyond_the_safe_integers_is_malformed_as_in_json() {
    let usage = field(7, number(3, 1 << 60));
    let finished = frame(field(13, [base(12), field(2, "t"), field(3, "r"), usage].concat()));
    let bytes = in_protobuf(&[started(), finished].concat());
    assert!(bytes.end.contains("malformed-value") && bytes.end.contains("/usage/0/inputTokens"), "{bytes:?}");
}

#[test]
fn an_empty_object_has_a_member_for_nothing() {
    let event = with_state(Value::Object(Map::new()));
    // 4 bytes of header; the arm, its length; the base event; the snapshot, which holds an empty object.
    assert_eq!(encoded(&event), [0, 0, 0, 10, 0x3a, 8, 0x0a, 2, 0x08, 6, 0x12, 2, 0x2a, 0]);
}
