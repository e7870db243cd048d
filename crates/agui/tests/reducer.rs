//! What a client holds after a stream.
#![allow(clippy::unwrap_used)]

use runwire_agui::{Event, Reducer, RunAgentInput, WarningRule};
use serde_json::{Value, json};

/// Applies the events and gives the messages, the state and the rules of the warnings.
fn reduce_from(mut reducer: Reducer, events: Value) -> (Value, Value, Vec<WarningRule>) {
    let mut warnings = Vec::new();
    for (index, event) in events.as_array().unwrap().iter().enumerate() {
        warnings.extend(reducer.apply(Event::from_value(event.clone()).unwrap(), index).map(|warning| warning.rule));
    }
    let listed = serde_json::to_value(reducer.messages().collect::<Vec<_>>()).unwrap();
    let (messages, state) = reducer.into_parts();
    assert_eq!(serde_json::to_value(messages).unwrap(), listed);
    (listed, state, warnings)
}

fn reduce(events: Value) -> (Value, Value, Vec<WarningRule>) {
    reduce_from(Reducer::new(), events)
}

fn ids(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["id"].as_str().unwrap()).collect()
}

#[test]
fn text_is_appended_and_roles_are_kept() {
    let (messages, ..) = reduce(json!([
        {"type": "TEXT_MESSAGE_START", "messageId": "a", "name": "n", "subagentRunId": "s"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": "one "},
        {"type": "TEXT_MESSAGE_START", "messageId": "u", "role": "user"},
        {"type": "TEXT_MESSAGE_START", "messageId": "d", "role": "developer"},
        {"type": "TEXT_MESSAGE_START", "messageId": "y", "role": "system"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "u", "delta": "hi"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": "two"},
        {"type": "TEXT_MESSAGE_END", "messageId": "a"},
        {"type": "TEXT_MESSAGE_START", "messageId": "a", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": " three"},
    ]));
    assert_eq!(
        messages,
        json!([
            {"id": "a", "role": "assistant", "content": "one two three", "name": "n", "subagentRunId": "s"},
            {"id": "u", "role": "user", "content": "hi"},
            {"id": "d", "role": "developer", "content": ""},
            {"id": "y", "role": "system", "content": ""},
        ])
    );
}

#[test]
fn a_tool_call_goes_on_its_parent_or_on_a_message_of_its_own() {
    let start = |call: &str, parent: Option<&str>| {
        let mut start =
            json!({"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "f", "subagentRunId": "s"});
        if let Some(parent) = parent {
            start["parentMessageId"] = Value::from(parent);
        }
        start
    };
    let (messages, _, warnings) = reduce(json!([
        {"type": "TEXT_MESSAGE_START", "messageId": "a"},
        {"type": "TEXT_MESSAGE_START", "messageId": "u", "role": "user"},
        start("c1", Some("a")),
        start("c2", None),
        start("c3", Some("new")),
        start("c4", Some("u")),
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "}"},
    ]));
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    assert_eq!(
        messages,
        json!([
            {"id": "a", "role": "assistant", "content": "", "toolCalls": [call("c1", "{}")]},
            {"id": "u", "role": "user", "content": ""},
            {"id": "c2", "role": "assistant", "toolCalls": [call("c2", "")], "subagentRunId": "s"},
            {"id": "new", "role": "assistant", "toolCalls": [call("c3", "")], "subagentRunId": "s"},
            {"id": "c4", "role": "assistant", "toolCalls": [call("c4", "")], "subagentRunId": "s"},
        ])
    );
    assert_eq!(warnings, [WarningRule::ToolCallParent]);
}

#[test]
fn an_answer_stands_behind_its_call_and_the_answers_before_it() {
    let start = |call: &str| json!({"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "f", "parentMessageId": "a"});
    let result =
        |id: &str, call: &str| json!({"type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": call, "content": id});
    let (messages, ..) = reduce(json!([
        start("c1"), start("c2"),
        {"type": "TEXT_MESSAGE_START", "messageId": "later"},
        result("r2", "c2"), result("r1", "c1"), result("stray", "unknown"), result("r2", "c2"),
        {"type": "TEXT_MESSAGE_START", "messageId": "last"},
    ]));
    assert_eq!(ids(&messages), ["a", "r2", "r1", "later", "stray", "last"]);
}

#[test]
fn metadata_merges_key_by_key_the_last_write_winning_without_recursing() {
    let (messages, ..) = reduce(json!([
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "a", "metadata": {"x": {"a": 1}, "y": 1}},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "", "metadata": {"x": {"b": 2}}},
        {"type": "TOOL_CALL_END", "toolCallId": "c", "metadata": {"z": null}},
        {"type": "REASONING_MESSAGE_START", "messageId": "r", "role": "reasoning", "metadata": {"k": 1}},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": "t", "metadata": {"k": 2}},
        {"type": "REASONING_MESSAGE_END", "messageId": "r", "metadata": {"l": 3}},
        {"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": "", "metadata": {"m": 1}},
    ]));
    let call = &messages[0]["toolCalls"][0];
    assert_eq!(call["metadata"], json!({"x": {"b": 2}, "y": 1, "z": null}));
    assert_eq!(messages[0].get("metadata"), None);
    assert_eq!(messages[1]["metadata"], json!({"m": 1}));
    assert_eq!(messages[2], json!({"id": "r", "role": "reasoning", "content": "t", "metadata": {"k": 2, "l": 3}}));
}

#[test]
fn state_starts_from_the_input_and_any_json_value_replaces_it() {
    let mut input = RunAgentInput::new("t", "r", Vec::new());
    assert_eq!(Reducer::from_input(&input).state(), &json!({}));
    input.state = Some(json!({"n": 1}));
    let from_input = |events| reduce_from(Reducer::from_input(&input), events).1;
    assert_eq!(
        from_input(json!([{"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]}])),
        json!({"n": 2})
    );
    for snapshot in [json!(null), json!(false), json!(0), json!(""), json!([1]), json!({"x": 1})] {
        assert_eq!(from_input(json!([{"type": "STATE_SNAPSHOT", "snapshot": snapshot.clone()}])), snapshot);
    }
}

#[test]
fn a_patch_that_does_not_apply_changes_nothing_and_is_mentioned() {
    for failing in [
        json!({"op": "replace", "path": "/absent/deeper", "value": 1}),
        json!({"op": "test", "path": "/n", "value": 7}),
        json!({"op": "remove", "path": "/absent"}),
    ] {
        let (_, state, warnings) = reduce(json!([
            {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1, "m": [1, 2]}},
            {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/m/0", "value": 0}, {"op": "remove", "path": "/n"}, {"op": "add", "path": "/n", "value": 3}, failing]},
        ]));
        assert_eq!(state, json!({"n": 1, "m": [1, 2]}));
        assert_eq!(warnings, [WarningRule::PatchNotApplied]);
    }
}

#[test]
fn a_messages_snapshot_reconciles_by_id() {
    let start = |id: &str| json!({"type": "TEXT_MESSAGE_START", "messageId": id});
    let held = json!([
        start("a"), start("gone"),
        {"type": "REASONING_MESSAGE_START", "messageId": "think", "role": "reasoning"},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "act", "activityType": "t", "content": {}},
        start("b"),
    ]);
    let with = |snapshot: Value| {
        let mut events = held.as_array().unwrap().clone();
        events.push(json!({"type": "MESSAGES_SNAPSHOT", "messages": snapshot}));
        reduce(Value::Array(events)).0
    };
    let message = |id: &str| json!({"id": id, "role": "assistant", "content": "restated"});
    // Known ones are replaced in place, whatever the snapshot's order; new ones come after; the others go.
    let messages = with(json!([message("new"), message("b"), message("a")]));
    assert_eq!(ids(&messages), ["a", "think", "act", "b", "new"]);
    assert_eq!(messages[0]["content"], "restated");
    // A snapshot that has activities, or reasoning, declares all of them.
    let messages = with(json!([message("a"), {"id": "act2", "role": "activity", "activityType": "t", "content": {}}]));
    assert_eq!(ids(&messages), ["a", "think", "act2"]);
    let messages = with(json!([message("a"), {"id": "think2", "role": "reasoning", "content": ""}]));
    assert_eq!(ids(&messages), ["a", "act", "think2"]);
    assert_eq!(ids(&with(json!([]))), ["think", "act"]);
}

#[test]
fn a_restatement_of_what_is_held_changes_nothing() {
    let messages = json!([
        {"id": "u", "role": "user", "content": "hi"},
        {"id": "a", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"id": "t", "role": "tool", "content": "r", "toolCallId": "c"},
    ]);
    let snapshot = json!({"type": "MESSAGES_SNAPSHOT", "messages": messages});
    let (held, ..) = reduce(json!([snapshot, snapshot]));
    assert_eq!(held, reduce(json!([snapshot])).0);
    // Calls of a snapshot are found by later events.
    let (held, ..) = reduce(json!([
        snapshot,
        {"type": "TEXT_MESSAGE_START", "messageId": "z"},
        {"type": "TOOL_CALL_RESULT", "messageId": "t2", "toolCallId": "c", "content": ""},
    ]));
    assert_eq!(ids(&held), ["u", "a", "t", "t2", "z"]);
}

#[test]
fn an_activity_is_made_replaced_left_or_amended() {
    let snapshot = |kind: &str, content: Value| json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": kind, "content": content});
    let mut left = snapshot("left", json!({"left": 1}));
    left["replace"] = json!(false);
    left["metadata"] = json!({"merged": true});
    let (messages, _, warnings) = reduce(json!([snapshot("first", json!({"n": 1})), left]));
    assert_eq!(
        messages,
        json!([{"id": "a", "role": "activity", "activityType": "first", "content": {"n": 1}, "metadata": {"merged": true}}])
    );
    assert_eq!(warnings, []);

    let mut owned = snapshot("first", json!({"n": 1}));
    owned["subagentRunId"] = json!("s");
    owned["metadata"] = json!({"kept": 1});
    let (messages, ..) = reduce(json!([
        owned, snapshot("second", json!({"m": 2})),
        {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "third", "patch": [{"op": "add", "path": "/k", "value": 3}]},
    ]));
    assert_eq!(
        messages,
        json!([{"id": "a", "role": "activity", "activityType": "third", "content": {"m": 2, "k": 3}, "metadata": {"kept": 1}}])
    );
}

#[test]
fn an_activity_delta_that_has_no_target_or_does_not_apply_is_skipped_and_mentioned() {
    let delta = |id: &str, patch: Value| json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": "x", "patch": patch});
    let (messages, _, warnings) = reduce(json!([
        {"type": "TEXT_MESSAGE_START", "messageId": "m"},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "t", "content": {"n": 1}},
        delta("absent", json!([])),
        delta("m", json!([])),
        delta("a", json!([{"op": "remove", "path": "/absent"}])),
        delta("a", json!([{"op": "replace", "path": "", "value": 5}])),
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "t", "content": {}},
    ]));
    assert_eq!(messages[1], json!({"id": "a", "role": "activity", "activityType": "t", "content": {"n": 1}}));
    let (target, patch) = (WarningRule::ActivityTarget, WarningRule::PatchNotApplied);
    assert_eq!(warnings, [target, target, patch, patch, target]);
}

#[test]
fn an_encrypted_value_is_stored_where_it_belongs_or_mentioned() {
    let value = |subtype: &str, id: &str| json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype, "entityId": id, "encryptedValue": "v"});
    let (messages, _, warnings) = reduce(json!([
        {"type": "REASONING_MESSAGE_START", "messageId": "r", "role": "reasoning"},
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "t", "content": {}},
        value("message", "r"), value("tool-call", "c"), value("message", "a"), value("message", "x"), value("tool-call", "r"),
    ]));
    assert_eq!(messages[0]["encryptedValue"], "v");
    assert_eq!(messages[1]["toolCalls"][0]["encryptedValue"], "v");
    assert_eq!(warnings, [WarningRule::EncryptedValueTarget; 3]);
}

#[test]
fn text_for_an_activity_is_skipped_and_mentioned() {
    let (messages, _, warnings) = reduce(json!([
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "t", "content": {}},
        {"type": "TEXT_MESSAGE_START", "messageId": "a"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": "x"},
    ]));
    assert_eq!(messages.as_array().unwrap().len(), 1);
    assert_eq!(warnings, [WarningRule::TextTarget; 2]);
}

#[test]
fn messages_of_an_input_echo_are_added_once() {
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": {"threadId": "t", "runId": "r",
        "messages": [{"id": "u", "role": "user", "content": "hi"}]}});
    let (messages, ..) = reduce(json!([started, {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}, started]));
    assert_eq!(ids(&messages), ["u"]);
}

#[test]
fn interrupts_are_held_until_the_next_run_starts() {
    let mut reducer = Reducer::new();
    let finished = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r",
        "outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "approval"}]}});
    reducer.apply(Event::from_value(finished).unwrap(), 0);
    assert_eq!(reducer.interrupts()[0].id, "i");
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r2"});
    reducer.apply(Event::from_value(started).unwrap(), 1);
    assert!(reducer.interrupts().is_empty());
}

#[test]
fn arguments_for_a_call_that_a_snapshot_took_away_are_skipped_and_mentioned() {
    let (messages, _, warnings) = reduce(json!([
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"},
        {"type": "MESSAGES_SNAPSHOT", "messages": []},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
    ]));
    assert_eq!(messages, json!([]));
    assert_eq!(warnings, [WarningRule::TextTarget; 2]);
}

/// basic/metadata: everything that makes up an item is merged. events/reasoning: an encrypted value is stored with the
/// message, and only MESSAGES_SNAPSHOT withdraws it.
#[test]
fn a_result_that_comes_again_keeps_what_was_said_of_it_beside_its_content() {
    let (messages, _, warnings) = reduce(json!([
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "one", "metadata": {"a": 1, "b": 1}},
        {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "m", "encryptedValue": "secret"},
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "two", "metadata": {"b": 2}},
    ]));
    let expected = json!({
        "id": "m", "role": "tool", "toolCallId": "c", "content": "two", "metadata": {"a": 1, "b": 2}, "encryptedValue": "secret"
    });
    assert_eq!((messages, warnings), (json!([expected]), vec![]));
}

/// basic/run-input: the echo is there for a consumer that did not make the request.
#[test]
fn the_echo_of_the_input_says_what_the_state_was_to_whoever_does_not_know_it() {
    let started = |state: Value| json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": {"threadId": "t", "runId": "r", "state": state, "messages": []}});
    let delta = json!({"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/a", "value": 2}]});
    let (_, state, warnings) = reduce(json!([started(json!({"a": 1})), delta, started(json!({"a": 0}))]));
    assert_eq!((state, warnings), (json!({"a": 2}), vec![]));

    let mut input = RunAgentInput::new("t", "r", Vec::new());
    input.state = Some(json!({"a": 3}));
    let (_, state, _) = reduce_from(Reducer::from_input(&input), json!([started(json!({"a": 1}))]));
    assert_eq!(state, json!({"a": 3}));
}

/// events/lifecycle: a run that is said to have failed behind its RUN_FINISHED has failed.
#[test]
fn a_run_that_has_failed_after_all_asks_for_nothing() {
    let mut reducer = Reducer::new();
    for (event, asks) in [
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r",
            "outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "x"}]}}),
            1,
        ),
        (json!({"type": "RUN_ERROR", "message": "lost"}), 0),
    ] {
        reducer.apply(Event::from_value(event).unwrap(), 0);
        assert_eq!(reducer.interrupts().len(), asks);
    }
}

#[test]
fn a_patch_that_makes_an_activity_something_else_than_an_object_is_taken_back() {
    let (messages, _, warnings) = reduce(json!([
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "t", "content": {"n": {"m": 1}}},
        {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "u", "patch": [{"op": "replace", "path": "", "value": 1}]},
        {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "u", "patch": [{"op": "move", "from": "/n/m", "path": ""}]},
        // In between it may be anything.
        {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "v", "patch": [
            {"op": "replace", "path": "", "value": 1}, {"op": "replace", "path": "", "value": {"k": 1}}]},
    ]));
    assert_eq!(messages, json!([{"id": "a", "role": "activity", "activityType": "v", "content": {"k": 1}}]));
    assert_eq!(warnings, [WarningRule::PatchNotApplied, WarningRule::PatchNotApplied]);
}

/// basic/index, "Identifiers": a `messageId` is unique within its thread. Where it is not, reasoning is no part of an answer
/// and an answer no part of a result, whoever comes first.
#[test]
fn text_of_two_kinds_never_runs_into_each_other() {
    let text = [
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "answer"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}),
    ];
    let reasoning = [
        json!({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning"}),
        json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "thought"}),
        json!({"type": "REASONING_MESSAGE_END", "messageId": "m"}),
    ];
    let result = [json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "42"})];
    for (first, second, held) in [
        (&text[..], &reasoning[..], [("assistant", "answer"), ("reasoning", "thought")]),
        (&reasoning[..], &text[..], [("reasoning", "thought"), ("assistant", "answer")]),
        (&result[..], &text[..], [("tool", "42"), ("assistant", "answer")]),
        (&result[..], &reasoning[..], [("tool", "42"), ("reasoning", "thought")]),
    ] {
        let (messages, _, warnings) = reduce([first, second].concat().into());
        let made: Vec<_> = messages
            .as_array()
            .unwrap()
            .iter()
            .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
            .collect();
        assert_eq!((made, warnings), (held.to_vec(), vec![WarningRule::TextTarget]));
    }
    // Open at once, each gets its own.
    let (messages, _, warnings) = reduce(json!([reasoning[0], text[0], reasoning[1], text[1], reasoning[2], text[2]]));
    assert_eq!((&messages[0]["content"], &messages[1]["content"]), (&json!("thought"), &json!("answer")));
    assert_eq!(warnings, [WarningRule::TextTarget]);
    // A result that comes again is the same one.
    let (messages, ..) = reduce([&result[..], &text[..], &result[..]].concat().into());
    assert_eq!(messages.as_array().unwrap().len(), 2);
    // A snapshot of a producer that does not track reasoning restates the answer and leaves the reasoning where it is; one
    // that tracks both restates both.
    let answer = json!({"id": "m", "role": "assistant", "content": "restated"});
    let thought = json!({"id": "m", "role": "reasoning", "content": "restated"});
    let asked = json!({"id": "u", "role": "user", "content": "asked"});
    for (restated, held) in [
        (json!([asked, answer]), [("reasoning", "thought"), ("assistant", "restated"), ("user", "asked")]),
        (json!([asked, thought, answer]), [("reasoning", "restated"), ("assistant", "restated"), ("user", "asked")]),
    ] {
        let snapshot = [json!({"type": "MESSAGES_SNAPSHOT", "messages": restated})];
        let (messages, ..) = reduce([&reasoning[..], &text[..], &snapshot[..], &snapshot[..]].concat().into());
        let made: Vec<_> = messages
            .as_array()
            .unwrap()
            .iter()
            .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
            .collect();
        assert_eq!(made, held);
    }
}
