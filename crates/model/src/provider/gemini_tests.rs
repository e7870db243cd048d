//! What is sent and what is read, in the shapes that Google documents.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::call::{CallResult, MadeCall, ToolSpec};

fn read(chunks: &[Value]) -> Vec<ModelEvent> {
    let mut reader = Reader::default();
    let mut out = VecDeque::new();
    for chunk in chunks {
        reader.read(&chunk.to_string(), &mut out).unwrap();
    }
    assert!(reader.is_whole());
    out.into()
}

#[test]
fn thoughts_are_no_text_and_calls_keep_their_signatures() {
    let events = read(&[
        json!({ "candidates": [{ "content": { "parts": [{ "text": "hm", "thought": true }, { "text": "Hello" }] } }],
            "modelVersion": "gemini-x" }),
        json!({ "candidates": [{ "content": { "parts": [
            { "functionCall": { "name": "look", "args": { "q": 1 } }, "thoughtSignature": "sig" },
            { "functionCall": { "name": "find" } },
        ] }, "finishReason": "STOP" }], "modelVersion": "gemini-x" }),
    ]);
    let begun = |index, name: &str| ModelEvent::Call { index, id: None, name: name.to_owned() };
    let wanted = [
        ModelEvent::Served("gemini-x".to_owned()),
        ModelEvent::Thinking("hm".to_owned()),
        ModelEvent::Text("Hello".to_owned()),
        begun(0, "look"),
        ModelEvent::Arguments { index: 0, delta: "{\"q\":1}".to_owned() },
        ModelEvent::Opaque { index: 0, value: json!("sig") },
        begun(1, "find"),
        ModelEvent::Finished("tool_calls".to_owned()),
    ];
    assert_eq!(events, wanted);
}

#[test]
fn reasoning_is_added_to_the_output_and_the_cache_is_inside_the_prompt() {
    let events = read(&[json!({
        "candidates": [{ "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 120, "cachedContentTokenCount": 100, "candidatesTokenCount": 20,
            "thoughtsTokenCount": 30, "toolUsePromptTokenCount": 5, "totalTokenCount": 175 },
    })]);
    let Some(ModelEvent::Usage(usage)) = events.first() else { panic!("{events:?}") };
    let entry = usage.clone().account().unwrap();
    assert_eq!((entry.input_tokens, entry.output_tokens, entry.total_tokens), (Some(125), Some(50), Some(175)));
    assert_eq!((entry.cached_input_tokens, entry.reasoning_tokens), (Some(100), Some(30)));
    assert_eq!(entry.cache_write_input_tokens, None);
}

#[test]
fn content_that_is_refused_is_told_apart_before_and_in_the_answer() {
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" } });
    let error = Reader::default().read(&blocked.to_string(), &mut VecDeque::new()).unwrap_err();
    assert!(matches!(error, ReadError::Failed(error) if error.code == ErrorCode::GuardrailBlocked));
    let events = read(&[json!({ "candidates": [{ "finishReason": "SAFETY" }] })]);
    assert_eq!(events, [ModelEvent::Finished("content_filter".to_owned())]);
}

#[test]
fn a_request_is_written_in_its_words() {
    let made = MadeCall {
        id: "c".to_owned(),
        name: "t".to_owned(),
        arguments: "{\"a\":1}".to_owned(),
        opaque: Some(json!("sig")),
    };
    let result = CallResult { id: "c".to_owned(), name: "t".to_owned(), ok: true, text: "42".to_owned() };
    let request = ModelRequest {
        system: "Be brief".to_owned(),
        turns: vec![
            Turn::User(vec![Part::Text("hi".to_owned())]),
            Turn::Assistant { text: String::new(), calls: vec![made] },
            Turn::Results(vec![result]),
        ],
        tools: vec![ToolSpec { name: "t".to_owned(), description: "d".to_owned(), parameters: json!({}) }],
        max_output_tokens: Some(9),
        temperature: None,
        extra: json!({ "generationConfig": { "topK": 3 } }).as_object().cloned().unwrap(),
    };
    assert_eq!(
        body(&request),
        json!({
            "contents": [
                { "role": "user", "parts": [{ "text": "hi" }] },
                { "role": "model", "parts": [
                    { "functionCall": { "name": "t", "args": { "a": 1 } }, "thoughtSignature": "sig" }] },
                { "role": "user", "parts": [
                    { "functionResponse": { "name": "t", "response": { "result": "42" } } }] },
            ],
            "systemInstruction": { "parts": [{ "text": "Be brief" }] },
            "tools": [{ "functionDeclarations": [{ "name": "t", "description": "d", "parametersJsonSchema": {} }] }],
            "generationConfig": { "maxOutputTokens": 9, "topK": 3 },
        })
    );
}
