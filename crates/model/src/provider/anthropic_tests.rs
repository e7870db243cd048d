//! What is sent and what is read, in the shapes that Anthropic documents.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::call::MadeCall;

fn read(events: &[Value]) -> (Vec<ModelEvent>, bool) {
    let mut reader = Reader::default();
    let mut out = VecDeque::new();
    for event in events {
        reader.read(&event.to_string(), &mut out).unwrap();
    }
    (out.into(), reader.is_whole())
}

fn thinking_then_call() -> Vec<Value> {
    vec![
        json!({ "type": "message_start", "message": { "model": "claude-x", "usage": {
            "input_tokens": 20, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "thinking", "thinking": "", "signature": "" } }),
        json!({ "type": "ping" }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "thinking_delta", "thinking": "hm" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "signature_delta", "signature": "sig" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "tool_use", "id": "toolu_1", "name": "look", "input": {} } }),
        json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "input_json_delta", "partial_json": "" } }),
        json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "input_json_delta", "partial_json": "{\"q\":1}" } }),
        json!({ "type": "content_block_stop", "index": 1 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 50 } }),
        json!({ "type": "message_stop" }),
    ]
}

#[test]
fn a_call_takes_the_reasoning_that_led_to_it_along() {
    let (events, whole) = read(&thinking_then_call());
    assert!(whole);
    let kept = json!([{ "type": "thinking", "thinking": "hm", "signature": "sig" }]);
    for wanted in [
        ModelEvent::Served("claude-x".to_owned()),
        ModelEvent::Thinking("hm".to_owned()),
        ModelEvent::Call { index: 0, id: Some("toolu_1".to_owned()), name: "look".to_owned() },
        ModelEvent::Arguments { index: 0, delta: "{\"q\":1}".to_owned() },
        ModelEvent::Opaque { index: 0, value: kept.clone() },
        ModelEvent::Finished("tool_calls".to_owned()),
    ] {
        assert!(events.contains(&wanted), "{wanted:?} is in {events:?}");
    }
    let made = MadeCall {
        id: "toolu_1".to_owned(),
        name: "look".to_owned(),
        arguments: "{\"q\":1}".to_owned(),
        opaque: Some(kept),
    };
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } }).as_object().cloned().unwrap();
    let mut request = ModelRequest {
        turns: vec![
            Turn::User(vec![Part::Text("hi".to_owned())]),
            Turn::Assistant { text: "I look".to_owned(), calls: vec![made] },
            Turn::Results(vec![crate::call::CallResult {
                id: "toolu_1".to_owned(),
                name: "look".to_owned(),
                ok: false,
                text: "no".to_owned(),
            }]),
        ],
        extra: thinking,
        ..ModelRequest::default()
    };
    let sent = body("m", &request);
    assert_eq!(
        sent["messages"],
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "hi" }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "sig" },
                { "type": "text", "text": "I look" },
                { "type": "tool_use", "id": "toolu_1", "name": "look", "input": { "q": 1 } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": true },
            ] },
        ])
    );
    assert!(sent["thinking"].is_object());
    // Whoever lost the reasoning must not ask for more of it: the provider would refuse the request.
    let Turn::Assistant { calls, .. } = &mut request.turns[1] else { panic!() };
    calls[0].opaque = None;
    assert_eq!(body("m", &request).get("thinking"), None);
}

#[test]
fn cache_reads_and_writes_are_added_to_the_input_and_the_placeholder_of_the_beginning_is_no_count() {
    let (events, _) = read(&thinking_then_call());
    let usages: Vec<&CallUsage> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Usage(usage) => Some(usage),
            _ => None,
        })
        .collect();
    assert_eq!(usages[0].output, None, "nothing is known of the output before the end");
    let entry = usages.last().copied().cloned().unwrap().account().unwrap();
    assert_eq!((entry.input_tokens, entry.output_tokens, entry.total_tokens), (Some(127), Some(50), Some(177)));
    assert_eq!((entry.cached_input_tokens, entry.cache_write_input_tokens), (Some(100), Some(7)));
    assert_eq!(entry.reasoning_tokens, None, "it is inside the output and not told apart");
}

#[test]
fn a_stream_without_its_end_is_cut_and_an_error_in_it_is_one() {
    let events = thinking_then_call();
    let (_, whole) = read(&events[..9]);
    assert!(!whole);
    let error = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let error = Reader::default().read(&error.to_string(), &mut VecDeque::new()).unwrap_err();
    assert!(matches!(error, ReadError::Refused(refusal) if refusal.status == 529));
}

#[test]
fn a_conversation_begins_with_the_person_and_names_a_limit() {
    let request = ModelRequest {
        turns: vec![Turn::Assistant { text: "Hello".to_owned(), calls: Vec::new() }],
        ..ModelRequest::default()
    };
    let sent = body("m", &request);
    assert_eq!(sent["messages"][0]["role"], "user");
    assert_eq!(sent["max_tokens"], DEFAULT_MAX_TOKENS);
}
