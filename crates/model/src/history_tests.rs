//! Conversations as clients keep them.
#![allow(clippy::unwrap_used)]

use futures_util::StreamExt as _;
use serde_json::json;

use super::*;
use crate::call::{ModelRequest, ModelStream};

struct TextOnly;

impl Model for TextOnly {
    fn provider(&self) -> &'static str {
        "p"
    }
    fn takes(&self, media: &Media) -> bool {
        media.kind == MediaKind::Image
    }
    fn body(&self, _: &str, _: &ModelRequest) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn call(&self, _: &str, _: &ModelRequest) -> ModelStream {
        futures_util::stream::empty().boxed()
    }
}

fn history(messages: Value) -> History {
    let input = json!({ "threadId": "t", "runId": "r", "messages": messages, "protocolVersion": "1.0" });
    let (input, warnings) = RunAgentInput::decode_value(input).unwrap();
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    History::of(&input, &TextOnly)
}

fn call(id: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "look", "arguments": "{}" } })
}

#[test]
fn calls_in_messages_of_their_own_are_one_turn_with_their_results_behind_it() {
    let history = history(json!([
        { "id": "1", "role": "user", "content": "hi" },
        { "id": "2", "role": "assistant", "content": "I look" },
        { "id": "3", "role": "assistant", "toolCalls": [call("a")] },
        { "id": "4", "role": "assistant", "toolCalls": [call("b")] },
        { "id": "5", "role": "tool", "toolCallId": "b", "content": "two" },
        { "id": "6", "role": "tool", "toolCallId": "a", "content": "", "error": "broke" },
        { "id": "7", "role": "assistant", "content": "Done" },
    ]));
    let [Turn::User(_), Turn::Assistant { text, calls }, Turn::Results(results), Turn::Assistant { .. }] =
        &history.turns[..]
    else {
        panic!("{history:?}")
    };
    assert_eq!(text, "I look");
    assert_eq!(calls.iter().map(|call| &*call.id).collect::<Vec<_>>(), ["a", "b"]);
    let told: Vec<_> = results.iter().map(|result| (&*result.id, result.ok, &*result.text)).collect();
    assert_eq!(told, [("a", false, "broke"), ("b", true, "two")]);
}

#[test]
fn a_call_without_a_result_gets_one_that_says_so_and_a_result_without_a_call_is_counted() {
    let history = history(json!([
        { "id": "1", "role": "assistant", "toolCalls": [call("a")] },
        { "id": "2", "role": "tool", "toolCallId": "elsewhere", "content": "?" },
    ]));
    let Turn::Results(results) = &history.turns[1] else { panic!("{history:?}") };
    assert_eq!((results[0].ok, &*results[0].text), (false, NO_RESULT));
    assert_eq!(history.results_skipped, 1);
}

#[test]
fn parts_that_the_model_cannot_take_are_counted_and_the_others_keep_their_order() {
    let source = json!({ "type": "url", "value": "https://x/a" });
    let history = history(json!([{ "id": "1", "role": "user", "content": [
        { "type": "text", "text": "see" },
        { "type": "video", "source": source },
        { "type": "image", "source": source },
    ] }]));
    let Turn::User(parts) = &history.turns[0] else { panic!("{history:?}") };
    assert!(matches!(&parts[..], [Part::Text(_), Part::Media(Media { kind: MediaKind::Image, .. })]));
    assert_eq!(history.parts_skipped, 1);
}

#[test]
fn instructions_activities_thoughts_and_subagents_are_no_turns() {
    let history = history(json!([
        { "id": "1", "role": "system", "content": "be kind" },
        { "id": "2", "role": "developer", "content": "be brief" },
        { "id": "3", "role": "activity", "activityType": "plan", "content": {} },
        { "id": "4", "role": "reasoning", "content": "hm" },
        { "id": "5", "role": "assistant", "content": "mine", "subagentRunId": "s" },
    ]));
    assert_eq!(history.system, ["be kind", "be brief"]);
    assert_eq!(history.turns, []);
}

#[test]
fn what_a_provider_wants_back_is_given_to_that_provider_only() {
    let kept = wrap("p", &json!({ "sig": 1 }));
    assert_eq!(unwrap("p", &kept), Some(json!({ "sig": 1 })));
    assert_eq!(unwrap("other", &kept), None);
    assert_eq!(unwrap("p", "somebody's own"), None);
}
