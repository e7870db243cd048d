//! Unrecognised material is not an error; a malformed known value is (basic/processing).
#![allow(clippy::unwrap_used)]

use runwire_agui::{Consumer, Rule, WarningRule, decode_event};
use serde_json::{Value, json};

fn decode(event: Value) -> (Option<Value>, Vec<(WarningRule, String)>) {
    let decoded = decode_event(event.to_string().as_bytes(), 4).unwrap();
    let warnings = decoded.warnings.into_iter().map(|warning| {
        assert_eq!(warning.event, 4);
        (warning.rule, warning.path.unwrap())
    });
    (decoded.event.map(|event| event.to_value()), warnings.collect())
}

#[test]
fn an_event_of_an_unknown_type_is_dropped_with_a_warning_that_names_it() {
    let decoded = decode_event(br#"{"type":"FUTURE_EVENT","x":1}"#, 0).unwrap();
    assert_eq!(decoded.event, None);
    assert!(decoded.warnings[0].message.contains("FUTURE_EVENT"));
}

#[test]
fn unknown_material_is_stripped_where_it_stands() {
    let unknown_property = |path: &str| (WarningRule::UnknownProperty, path.to_owned());
    let unknown_member = |path: &str| (WarningRule::UnknownMember, path.to_owned());
    let snapshot = |messages: Value| json!({"type": "MESSAGES_SNAPSHOT", "messages": messages});
    let user = |content: Value| snapshot(json!([{"role": "user", "id": "u", "content": content}]));
    let text = json!({"type": "text", "text": "t"});
    let cases = [
        // A property of a closed object, at any depth.
        (
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "d", "futureProp": 1}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "d"}),
            vec![unknown_property("/futureProp")],
        ),
        (
            json!({"type": "RUN_ERROR", "message": "m", "usage": [{"model": "x", "a/b": 1}]}),
            json!({"type": "RUN_ERROR", "message": "m", "usage": [{"model": "x"}]}),
            vec![unknown_property("/usage/0/a~1b")],
        ),
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "success", "interrupts": []}}),
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "success"}}),
            vec![unknown_property("/outcome/interrupts")],
        ),
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "cancelled", "why": 1}}),
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "cancelled"}}),
            vec![unknown_property("/outcome/why")],
        ),
        // An unknown member in an optional place.
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "paused", "x": 1}}),
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
            vec![unknown_member("/outcome")],
        ),
        (
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "narrator"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m"}),
            vec![unknown_member("/role")],
        ),
        (
            json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "narrator"}),
            json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m"}),
            vec![unknown_member("/role")],
        ),
        // In a list the element goes and the list stays.
        (
            user(json!([text, {"type": "hologram"}, text])),
            user(json!([text, text])),
            vec![unknown_member("/messages/0/content/1")],
        ),
        (
            snapshot(json!([{"role": "oracle", "id": "o"}, {"role": "assistant", "id": "a"}])),
            snapshot(json!([{"role": "assistant", "id": "a"}])),
            vec![unknown_member("/messages/0")],
        ),
        (
            json!({"type": "STATE_DELTA", "delta": [{"op": "increment"}, {"op": "remove", "path": "/a"}]}),
            json!({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/a"}]}),
            vec![unknown_member("/delta/0")],
        ),
        // In a required place what contains it goes.
        (
            user(json!([text, {"type": "image", "source": {"type": "aether", "value": 1}, "new": 2}])),
            user(json!([text])),
            vec![unknown_member("/messages/0/content/1")],
        ),
    ];
    for (event, expected, warnings) in cases {
        let (decoded, given) = decode(event.clone());
        assert_eq!(decoded, Some(expected), "{event}");
        assert_eq!(given, warnings, "{event}");
    }
}

#[test]
fn an_unknown_member_in_a_required_place_of_an_event_drops_the_event() {
    let event = json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "span", "entityId": "e", "encryptedValue": "v"});
    assert_eq!(decode(event), (None, vec![(WarningRule::UnknownMember, "/subtype".to_owned())]));
}

/// basic/processing, "Every transport answers the same way": a spelling of the same event has the same verdict.
#[test]
fn the_verdict_does_not_depend_on_the_order_of_members() {
    let dropped = (None, vec![(WarningRule::UnknownMember, "/subtype".to_owned())]);
    for members in [
        [("subtype", json!("span")), ("entityId", json!(7)), ("future", json!(1))],
        [("entityId", json!(7)), ("future", json!(1)), ("subtype", json!("span"))],
        [("future", json!(1)), ("subtype", json!("span")), ("entityId", json!(7))],
    ] {
        let mut event = json!({"type": "REASONING_ENCRYPTED_VALUE", "encryptedValue": "v"});
        for (name, value) in members {
            event[name] = value;
        }
        assert_eq!(decode(event), dropped);
    }
    // The same one level down: an element of a list goes as a whole, and the list stays.
    for source in [json!({"type": "aether", "value": 7}), json!({"value": 7, "type": "aether"})] {
        let event = json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c",
            "content": [{"id": 5, "type": "image", "source": source.clone()}, {"type": "text", "text": "t"}]});
        let (event, warnings) = decode(event);
        assert_eq!(event.unwrap()["content"], json!([{"type": "text", "text": "t"}]));
        assert_eq!(warnings, [(WarningRule::UnknownMember, "/content/0".to_owned())], "{source}");
    }
}

#[test]
fn open_objects_keep_what_the_schema_does_not_describe() {
    for event in [
        json!({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/a", "value": 1, "note": {}}]}),
        json!({"type": "STEP_STARTED", "stepName": "s", "metadata": {"any": null, "thing": {"at": [1]}}}),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "t", "content": {"type": "x", "y": null}}),
        json!({"type": "STATE_SNAPSHOT", "snapshot": {"type": "FUTURE"}}),
        json!({"type": "RAW", "event": {"role": "narrator"}, "rawEvent": {"x": 1}}),
    ] {
        assert_eq!(decode(event.clone()), (Some(event), vec![]));
    }
}

#[test]
fn a_malformed_known_value_is_refused_with_its_path_what_was_expected_and_what_was_found() {
    let cases = [
        (
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": 42}),
            ["/delta", "a string", "the number 42"],
        ),
        (json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}), ["/delta", "a string", "nothing"]),
        (json!({"type": "TEXT_MESSAGE_START", "messageId": null}), ["/messageId", "a string", "null"]),
        (
            json!({"type": "STEP_STARTED", "stepName": "s", "subagentRunId": null}),
            ["/subagentRunId", "a string", "null"],
        ),
        (json!({"type": "STEP_STARTED", "stepName": "s", "metadata": null}), ["/metadata", "an object", "null"]),
        (json!({"type": "STEP_STARTED", "stepName": "s", "timestamp": 1.5}), ["/timestamp", "whole number", "1.5"]),
        (
            json!({"type": "STEP_STARTED", "stepName": "s", "timestamp": 9_007_199_254_740_992_u64}),
            ["/timestamp", "whole number", "9007199254740992"],
        ),
        (
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "d", "timestamp": 9_007_199_254_740_992_u64}),
            ["/timestamp", "whole number", "9007199254740992"],
        ),
        (
            json!({"type": "RUN_ERROR", "message": "m", "usage": [{"inputTokens": -1}]}),
            ["/usage/0/inputTokens", "whole number", "-1"],
        ),
        (
            json!({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "assistant"}),
            ["/role", "\"reasoning\"", "assistant"],
        ),
        (json!({"type": "REASONING_MESSAGE_START", "messageId": "m"}), ["/role", "\"reasoning\"", "nothing"]),
        (json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": 1}), ["/role", "one of", "the number 1"]),
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": [{"type": "interrupt"}]}),
            ["/outcome", "an object", "an array"],
        ),
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {}}),
            ["/outcome/type", "a string", "nothing"],
        ),
        (json!({"type": "STATE_SNAPSHOT"}), ["/snapshot", "a JSON value", "nothing"]),
        (json!({"type": "STATE_DELTA", "delta": {}}), ["/delta", "a list", "an object"]),
        (
            json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a"}]}),
            ["/delta/0/value", "a JSON value", "nothing"],
        ),
        (
            json!({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "a"}]}),
            ["/delta/0/path", "a JSON Pointer", "\"a\""],
        ),
        (
            json!({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/~2"}]}),
            ["/delta/0/path", "a JSON Pointer", "\"/~2\""],
        ),
        (
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": 1}),
            ["/content", "a string or a list", "the number 1"],
        ),
        (json!({"type": 7}), ["/type", "an event type", "the number 7"]),
        (json!({}), ["/type", "an event type", "nothing"]),
        (json!([]), ["The event is malformed: ", "an object", "an array"]),
    ];
    for (event, words) in cases {
        let violation = decode_event(event.to_string().as_bytes(), 3).unwrap_err();
        assert_eq!((violation.rule, violation.event), (Rule::MalformedValue, 3), "{event}");
        for word in words {
            assert!(violation.message.contains(word), "{event}: {word:?} is not in {:?}", violation.message);
        }
    }
}

#[test]
fn bytes_that_are_not_json_are_refused() {
    for json in ["", "{", "{\"type\":", "nonsense", "{} {}"] {
        assert_eq!(decode_event(json.as_bytes(), 0).unwrap_err().rule, Rule::MalformedJson, "{json:?}");
    }
}

/// What a client shows of a stream that it does not take must not send its reader after a mistake that is none.
#[test]
fn an_event_past_a_limit_and_one_with_half_a_character_are_refused_as_what_they_are() {
    let state = |value: &str| format!(r#"{{"type":"STATE_SNAPSHOT","snapshot":{value}}}"#);
    for (event, words) in [
        (state(&format!("{}{}", "[".repeat(200), "]".repeat(200))), "The event nests more than 127 levels"),
        (state("1e400"), "The event holds a number beyond the range of 64-bit floats"),
        (state(r#""\ud83d""#), "A string of the event has half of a surrogate pair"),
    ] {
        let violation = decode_event(event.as_bytes(), 3).unwrap_err();
        assert!(violation.message.starts_with(words) && !violation.message.contains("JSON"), "{}", violation.message);
        let mut consumer = Consumer::default();
        let rejected = consumer.push_json(event.as_bytes()).unwrap_err();
        assert!(rejected.to_string().contains(words), "{rejected}");
    }
}

#[test]
fn a_whole_number_may_be_written_with_a_fraction_of_zero() {
    let (event, warnings) = decode(json!({"type": "STEP_STARTED", "stepName": "s", "timestamp": 5.0}));
    assert_eq!((event.unwrap()["timestamp"].clone(), warnings), (json!(5), vec![]));
}

/// Pushes the events and gives back what was delivered and what was mentioned.
fn consume(events: Value) -> (Vec<Value>, Vec<(WarningRule, String)>) {
    let mut consumer = Consumer::default();
    let mut delivered = Vec::new();
    for event in events.as_array().unwrap() {
        delivered.extend(consumer.push_json(event.to_string().as_bytes()).unwrap().map(|event| event.to_value()));
    }
    let warnings = consumer.take_warnings().into_iter().map(|warning| (warning.rule, warning.message)).collect();
    (delivered, warnings)
}

#[test]
fn thinking_is_translated_to_reasoning_and_its_lost_title_mentioned() {
    let (delivered, warnings) = consume(json!([
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "THINKING_START", "title": "Plan"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "a"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "b"},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_END"},
    ]));
    let expected = [
        json!({"type": "REASONING_START", "messageId": "r-thinking-1"}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": "r-thinking-2", "role": "reasoning"}),
        json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "r-thinking-2", "delta": "a"}),
        json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "r-thinking-2", "delta": "b"}),
        json!({"type": "REASONING_MESSAGE_END", "messageId": "r-thinking-2"}),
        json!({"type": "REASONING_END", "messageId": "r-thinking-1"}),
    ];
    assert_eq!(delivered[1..], expected);
    assert!(warnings.iter().all(|(rule, _)| *rule == WarningRule::RetiredShape));
    assert!(warnings.iter().any(|(_, message)| message.contains("\"Plan\"")));
    assert_eq!(warnings.len(), 6, "each retired shape once, and the title: {warnings:?}");
}

#[test]
fn retired_nulls_are_read_as_absent() {
    let (delivered, warnings) = consume(json!([
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "rawEvent": null},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "parentMessageId": null, "rawEvent": null},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "result": null, "outcome": null},
    ]));
    assert_eq!(delivered[0], json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}));
    assert_eq!(delivered[1], json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}));
    assert_eq!(delivered[3], json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
    assert_eq!(warnings.len(), 4, "{warnings:?}");
}

/// basic/versioning: only what older producers really wrote as null is forgiven.
#[test]
fn a_null_that_no_producer_ever_wrote_is_malformed() {
    let started = |input: Value| {
        let mut full = json!({"threadId": "t", "runId": "r", "messages": []});
        full.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
        json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": full})
    };
    let with_part = |part: Value| started(json!({"messages": [{"id": "u", "role": "user", "content": [part]}]}));
    let media = json!({"type": "image", "source": {"type": "url", "value": "u"}, "metadata": null});
    assert_eq!(consume(json!([with_part(media)])).1.len(), 1);
    for (event, path) in [
        (started(json!({"state": null})), "/input/state"),
        (with_part(json!({"type": "text", "text": "t", "metadata": null})), "/input/messages/0/content/0/metadata"),
    ] {
        let rejected = Consumer::default().push_json(event.to_string().as_bytes()).unwrap_err();
        assert!(rejected.violation.message.contains(path), "{rejected}");
    }
}

/// basic/versioning, "Retired shapes": a translation that loses something says what.
#[test]
fn a_binary_part_keeps_its_id_and_what_it_loses_is_named() {
    let (delivered, warnings) = consume(json!([
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "u", "role": "user", "content": [
            {"type": "binary", "mimeType": "image/png", "data": "AA==", "url": "u", "id": "p", "size": 1, "filename": "f"},
        ]}]},
    ]));
    assert_eq!(
        delivered[1]["messages"][0]["content"],
        json!([{"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"},
            "metadata": {"filename": "f"}, "id": "p"}])
    );
    assert!(warnings[0].1.contains("without its url, size"), "{warnings:?}");
}

#[test]
fn a_newer_or_uninterpretable_version_is_mentioned_and_the_same_or_an_older_one_is_not() {
    for (version, rule) in [
        ("1.0", None),
        ("0.9", None),
        ("1.1", Some(WarningRule::NewerVersion)),
        ("2.0", Some(WarningRule::NewerVersion)),
        ("draft", Some(WarningRule::UninterpretableVersion)),
        ("1", Some(WarningRule::UninterpretableVersion)),
        ("1.x", Some(WarningRule::UninterpretableVersion)),
    ] {
        let started = json!([{"type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": version}]);
        let (_, warnings) = consume(started);
        assert_eq!(warnings.first().map(|(rule, _)| *rule), rule, "{version}");
    }
}

#[test]
fn dropped_events_open_nothing_and_close_nothing() {
    let (delivered, _) = consume(json!([
        {"type": "FUTURE_EVENT"},
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"},
        {"type": "FUTURE_EVENT"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "b"},
    ]));
    assert_eq!(delivered.len(), 4);
}
