//! What is sent and what is read, in the shapes that OpenAI documents.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::call::{CallResult, MadeCall, ToolSpec};

fn read(chunks: &[Value]) -> (Vec<ModelEvent>, bool) {
    let mut reader = Reader::default();
    let mut out = VecDeque::new();
    for chunk in chunks {
        reader.read(&chunk.to_string(), &mut out).unwrap();
    }
    reader.read("[DONE]", &mut out).unwrap();
    (out.into(), reader.is_whole())
}

fn delta(delta: Value) -> Value {
    json!({ "model": "gpt-x-2026", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }], "usage": null })
}

#[test]
fn parallel_calls_keep_their_arguments_apart_however_the_pieces_come() {
    let call = |index: u64, rest: Value| delta(json!({ "tool_calls": [{ "index": index, "function": rest }] }));
    let begin = |index: u64, id: &str, name: &str| {
        delta(json!({ "tool_calls": [{ "index": index, "id": id, "type": "function",
            "function": { "name": name, "arguments": "" } }] }))
    };
    let (events, whole) = read(&[
        begin(0, "call_a", "look"),
        call(0, json!({ "arguments": "{\"q\":" })),
        begin(1, "call_b", "find"),
        call(1, json!({ "arguments": "{}" })),
        call(0, json!({ "arguments": "1}" })),
        json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] }),
    ]);
    let args = |index, delta: &str| ModelEvent::Arguments { index, delta: delta.to_owned() };
    let begun =
        |index, id: &str, name: &str| ModelEvent::Call { index, id: Some(id.to_owned()), name: name.to_owned() };
    let wanted = [
        ModelEvent::Served("gpt-x-2026".to_owned()),
        begun(0, "call_a", "look"),
        args(0, "{\"q\":"),
        begun(1, "call_b", "find"),
        args(1, "{}"),
        args(0, "1}"),
        ModelEvent::Finished("tool_calls".to_owned()),
    ];
    assert_eq!(events, wanted);
    assert!(whole);
}

#[test]
fn a_server_that_numbers_no_calls_is_understood() {
    let whole = |id: &str| json!({ "id": id, "function": { "name": "t", "arguments": "{}" } });
    let (events, _) = read(&[delta(json!({ "tool_calls": [whole("a"), whole("b")] }))]);
    let calls = events.iter().filter(|event| matches!(event, ModelEvent::Call { .. })).count();
    assert_eq!(calls, 2);
}

#[test]
fn reasoning_is_apart_from_text_and_an_answer_without_a_finish_is_cut() {
    let (events, whole) = read(&[
        delta(json!({ "reasoning_content": "hm" })),
        delta(json!({ "reasoning": "so" })),
        delta(json!({ "content": "Hello" })),
    ]);
    assert_eq!(
        events[1..],
        [
            ModelEvent::Thinking("hm".to_owned()),
            ModelEvent::Thinking("so".to_owned()),
            ModelEvent::Text("Hello".to_owned())
        ]
    );
    assert!(!whole);
}

#[test]
fn usage_has_its_parts_inside_its_totals_and_what_is_not_reported_is_absent() {
    let reported = json!({ "choices": [], "usage": {
        "prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
        "prompt_tokens_details": { "cached_tokens": 1920, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 256 } } });
    let (events, _) = read(&[reported]);
    let [ModelEvent::Usage(usage)] = &events[..] else { panic!("{events:?}") };
    let entry = usage.clone().account().unwrap();
    assert_eq!((entry.input_tokens, entry.output_tokens, entry.total_tokens), (Some(2006), Some(300), Some(2306)));
    assert_eq!((entry.cached_input_tokens, entry.reasoning_tokens), (Some(1920), Some(256)));
    assert_eq!(entry.cache_write_input_tokens, None);
    let (events, _) = read(&[json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 2 } })]);
    let [ModelEvent::Usage(usage)] = &events[..] else { panic!("{events:?}") };
    let entry = usage.clone().account().unwrap();
    assert_eq!((entry.cached_input_tokens, entry.reasoning_tokens, entry.total_tokens), (None, None, Some(7)));
}

#[test]
fn an_error_in_the_stream_is_one() {
    let mut reader = Reader::default();
    let chunk = json!({ "error": { "message": "slow down", "type": "rate_limit_exceeded" } });
    let error = reader.read(&chunk.to_string(), &mut VecDeque::new()).unwrap_err();
    assert!(matches!(error, ReadError::Refused(refusal) if refusal.status == 429));
}

#[test]
fn a_request_has_the_conversation_the_tools_and_what_is_configured() {
    let made = MadeCall { id: "c".to_owned(), name: "t".to_owned(), arguments: String::new(), opaque: None };
    let result = CallResult { id: "c".to_owned(), name: "t".to_owned(), ok: true, text: "42".to_owned() };
    let image = PartSource::Data(runwire_agui::DataSource::new("AAAA", "image/png"));
    let request = ModelRequest {
        system: "Be brief".to_owned(),
        turns: vec![
            Turn::User(vec![
                Part::Text("see".to_owned()),
                Part::Media(Media { kind: MediaKind::Image, source: image }),
            ]),
            Turn::Assistant { text: String::new(), calls: vec![made] },
            Turn::Results(vec![result]),
        ],
        tools: vec![ToolSpec { name: "t".to_owned(), description: "d".to_owned(), parameters: json!({}) }],
        max_output_tokens: Some(9),
        temperature: Some(0.5),
        extra: json!({ "seed": 7, "stream_options": null }).as_object().cloned().unwrap(),
    };
    let wanted = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "Be brief" },
            { "role": "user", "content": [
                { "type": "text", "text": "see" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
            ] },
            { "role": "assistant", "content": null,
              "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "t", "arguments": "{}" } }] },
            { "role": "tool", "tool_call_id": "c", "content": "42" },
        ],
        "stream": true,
        "tools": [{ "type": "function", "function": { "name": "t", "description": "d", "parameters": {} } }],
        "max_tokens": 9,
        "temperature": 0.5,
        "seed": 7,
    });
    assert_eq!(body("m", &request, "max_tokens"), wanted);
}

#[test]
fn a_call_that_was_cut_off_in_its_arguments_is_given_back_as_json_and_every_other_as_it_was_written() {
    for (written, given_back) in [
        ("{\"city\":", r#"{"arguments":"{\"city\":"}"#),
        ("Paris", r#"{"arguments":"Paris"}"#),
        ("[1]", r#"{"arguments":"[1]"}"#),
        (" ", "{}"),
        ("{ \"n\": 1.0, \"n\": 2 }", "{ \"n\": 1.0, \"n\": 2 }"),
    ] {
        let made = MadeCall { id: "c".to_owned(), name: "t".to_owned(), arguments: written.to_owned(), opaque: None };
        let turns = vec![Turn::Assistant { text: String::new(), calls: vec![made] }];
        let sent = body("m", &ModelRequest { turns, ..ModelRequest::default() }, "max_tokens");
        assert_eq!(sent["messages"][0]["tool_calls"][0]["function"]["arguments"], given_back, "{written}");
    }
}
