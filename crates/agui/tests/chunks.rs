//! Chunks, and the events that they stand for (patterns/streaming, "The chunked form").
#![allow(clippy::unwrap_used)]

use runwire_agui::{ChunkExpander, Event};
use serde_json::{Value, json};

fn expand(stream: Value) -> Vec<Value> {
    let mut expander = ChunkExpander::new();
    let mut events = Vec::new();
    for event in stream.as_array().unwrap() {
        expander.push(Event::from_value(event.clone()).unwrap(), &mut events).unwrap();
    }
    events.iter().map(Event::to_value).collect()
}

fn types(events: &[Value]) -> Vec<String> {
    let id = |event: &Value| {
        let id = [&event["messageId"], &event["toolCallId"]].into_iter().find_map(Value::as_str).map(str::to_owned);
        id.map_or_else(String::new, |id| format!(" {id}"))
    };
    events.iter().map(|event| format!("{}{}", event["type"].as_str().unwrap(), id(event))).collect()
}

#[test]
fn the_first_chunk_opens_and_a_run_level_event_closes() {
    for closer in [
        json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
        json!({"type": "RUN_ERROR", "message": "m"}),
        json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": []}),
    ] {
        let events = expand(json!([
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"},
            {"type": "TEXT_MESSAGE_CHUNK", "delta": "b"},
            {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m", "subagentRunId": "s"},
            {"type": "REASONING_MESSAGE_CHUNK", "messageId": "n", "delta": "r", "subagentRunId": "q"},
            closer.clone()
        ]));
        assert_eq!(
            events,
            [
                json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}),
                json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "a"}),
                json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "b"}),
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m", "subagentRunId": "s"}),
                json!({"type": "REASONING_MESSAGE_START", "messageId": "n", "role": "reasoning", "subagentRunId": "q"}),
                json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "n", "delta": "r", "subagentRunId": "q"}),
                json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}),
                json!({"type": "TOOL_CALL_END", "toolCallId": "c", "subagentRunId": "s"}),
                json!({"type": "REASONING_MESSAGE_END", "messageId": "n", "subagentRunId": "q"}),
                closer
            ]
        );
    }
}

#[test]
fn another_item_in_the_same_lane_closes_the_one_before_it() {
    let events = expand(json!([
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "n"},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f"},
        {"type": "REASONING_MESSAGE_CHUNK", "messageId": "o"},
    ]));
    assert_eq!(
        types(&events),
        [
            "TEXT_MESSAGE_START m",
            "TEXT_MESSAGE_END m",
            "TEXT_MESSAGE_START n",
            "TEXT_MESSAGE_END n",
            "TOOL_CALL_START c",
            "TOOL_CALL_END c",
            "REASONING_MESSAGE_START o"
        ]
    );
}

#[test]
fn an_event_in_the_lane_closes_it_and_one_in_another_lane_does_not() {
    let closers = [
        json!({"type": "STEP_STARTED", "stepName": "s"}),
        json!({"type": "STEP_FINISHED", "stepName": "s"}),
        json!({"type": "STATE_SNAPSHOT", "snapshot": 1}),
        json!({"type": "STATE_DELTA", "delta": []}),
        json!({"type": "CUSTOM", "name": "n", "value": 1}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "x"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "x", "toolCallName": "f"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "x", "content": ""}),
        json!({"type": "REASONING_START", "messageId": "x"}),
        json!({"type": "REASONING_END", "messageId": "x"}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": "x", "role": "reasoning"}),
    ];
    for closer in closers {
        for (tag, closes) in [(None, true), (Some("other"), false)] {
            let mut closer = closer.clone();
            if let Some(tag) = tag {
                closer["subagentRunId"] = Value::from(tag);
            }
            let events = expand(json!([{"type": "TEXT_MESSAGE_CHUNK", "messageId": "m"}, closer.clone()]));
            let closed = types(&events).contains(&"TEXT_MESSAGE_END m".to_owned());
            assert_eq!(closed, closes, "{closer}");
            assert_eq!(events.last(), Some(&closer));
        }
    }
}

#[test]
fn four_events_and_an_announcement_stand_aside() {
    for aside in [
        json!({"type": "RAW", "event": 1}),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "t", "content": {}}),
        json!({"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "t", "patch": []}),
        json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "m", "encryptedValue": "v"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"}),
    ] {
        let events = expand(json!([
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m"},
            aside,
            {"type": "TEXT_MESSAGE_CHUNK", "delta": "d"},
        ]));
        assert_eq!(events[2], json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "d"}));
    }
}

#[test]
fn a_subagents_end_closes_its_own_lane_only() {
    for end in [
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "s"}),
        json!({"type": "SUBAGENT_ERROR", "subagentRunId": "s", "message": "m"}),
    ] {
        let events = expand(json!([
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "p"},
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "subagentRunId": "s"},
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "n", "subagentRunId": "q"},
            end,
        ]));
        let ended: Vec<_> = types(&events).into_iter().filter(|event| event.starts_with("TEXT_MESSAGE_END")).collect();
        assert_eq!(ended, ["TEXT_MESSAGE_END m"]);
    }
}

#[test]
fn a_continuation_without_id_and_tag_is_the_parents_else_the_only_one() {
    let events = expand(json!([
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "subagentRunId": "s"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "only"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "p"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "parent"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "named"},
    ]));
    let content: Vec<_> = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT").cloned().collect();
    assert_eq!(
        content,
        [
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "only", "subagentRunId": "s"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "p", "delta": "parent"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "named", "subagentRunId": "s"}),
        ]
    );
}

#[test]
fn repeats_that_agree_are_accepted() {
    let events = expand(json!([
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "user", "name": "n"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "user", "name": "n", "delta": "d"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "k"},
        {"type": "TEXT_MESSAGE_CHUNK", "role": "assistant", "delta": "d"},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"},
        {"type": "TOOL_CALL_CHUNK", "toolCallName": "f", "parentMessageId": "m", "delta": "d"},
    ]));
    assert_eq!(events.iter().filter(|event| event["delta"] == "d").count(), 3);
}

#[test]
fn metadata_and_raw_event_reach_the_item_and_the_timestamp_does_not() {
    let events = expand(json!([
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a", "metadata": {"k": 1}, "rawEvent": 7, "timestamp": 5},
        {"type": "TEXT_MESSAGE_CHUNK", "metadata": {"usage": 2}},
        {"type": "TEXT_MESSAGE_CHUNK"},
    ]));
    assert_eq!(
        events,
        [
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant", "metadata": {"k": 1}}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "a", "metadata": {"k": 1}, "rawEvent": 7}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "", "metadata": {"usage": 2}}),
        ]
    );
}

#[test]
fn finishing_closes_every_lane_in_the_order_they_were_opened() {
    let mut expander = ChunkExpander::new();
    for lane in ["c", "a", "b"] {
        let chunk = json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": lane, "subagentRunId": lane});
        expander.push(Event::from_value(chunk).unwrap(), &mut Vec::new()).unwrap();
    }
    let ends: Vec<Value> = expander.finish().iter().map(Event::to_value).collect();
    assert_eq!(types(&ends), ["TEXT_MESSAGE_END c", "TEXT_MESSAGE_END a", "TEXT_MESSAGE_END b"]);
    assert!(expander.finish().is_empty());
}

/// events/subagents, "Ownership": an untagged continuation continues whatever the opener owns. So it arrives in that lane,
/// and the shorthand of the parent agent goes on.
#[test]
fn an_untagged_continuation_of_a_subagents_item_does_not_end_the_parents_shorthand() {
    for (opener, continuation) in [
        (
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant", "subagentRunId": "s"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"}),
        ),
        (
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant", "subagentRunId": "s"}),
            json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"}),
        ),
        (
            json!({"type": "TOOL_CALL_START", "toolCallId": "m", "toolCallName": "f", "subagentRunId": "s"}),
            json!({"type": "TOOL_CALL_END", "toolCallId": "m"}),
        ),
        (
            json!({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning", "subagentRunId": "s"}),
            json!({"type": "REASONING_MESSAGE_END", "messageId": "m"}),
        ),
        (
            json!({"type": "REASONING_START", "messageId": "m", "subagentRunId": "s"}),
            json!({"type": "REASONING_END", "messageId": "m"}),
        ),
    ] {
        let chunk = json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "p", "delta": "a"});
        let next = json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "b"});
        let tagged_lane =
            json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "k", "toolCallName": "f", "subagentRunId": "s"});
        let events = types(&expand(json!([opener, chunk, tagged_lane, continuation, next])));
        let [.., before, end, continued, last] = &events[..] else { panic!("{events:?}") };
        assert_eq!(
            (before.as_str(), end.as_str()),
            ("TOOL_CALL_START k", "TOOL_CALL_END k"),
            "it ends that of its own lane"
        );
        assert!(continuation["type"].as_str().is_some_and(|name| continued.starts_with(name)), "{events:?}");
        assert_eq!(last, "TEXT_MESSAGE_CONTENT p");
    }
}

/// events/subagents: a chunk stream must not outlive its owner, and a call's owner is that of the message that carries it.
#[test]
fn a_chunked_call_on_a_subagents_message_ends_with_the_subagent() {
    let events = expand(json!([
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a", "subagentRunId": "s"},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s"},
    ]));
    assert_eq!(
        types(&events)[2..],
        ["TEXT_MESSAGE_END m", "TOOL_CALL_START c", "TOOL_CALL_END c", "SUBAGENT_FINISHED"]
    );
    assert_eq!(events[3]["subagentRunId"], "s");
}

/// Expands and verifies; the rule that is broken, if one is.
fn verdict(stream: Value) -> Result<(), (usize, String)> {
    let mut consumer = runwire_agui::Consumer::default();
    for event in stream.as_array().unwrap() {
        consumer
            .push_value(event.clone())
            .map_err(|rejected| (rejected.violation.event, rejected.violation.rule.as_str().to_owned()))?;
    }
    Ok(())
}

/// events/state, `MESSAGES_SNAPSHOT`: it establishes each message's ownership.
#[test]
fn a_snapshot_that_names_no_owner_gives_the_message_back_to_the_parent_agent() {
    let stream = json!([
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "A"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m", "role": "assistant", "content": ""}]},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m", "delta": "{}"},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
    ]);
    assert_eq!(verdict(stream), Ok(()));
}

#[test]
fn what_a_subagent_owns_by_a_start_a_snapshot_or_the_input_is_in_its_lane_alike() {
    let message = json!({"id": "m", "role": "assistant", "content": "", "subagentRunId": "A"});
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"});
    let mut echoing = started.clone();
    echoing["input"] = json!({"threadId": "t", "runId": "r", "messages": [message.clone()]});
    let call_of_a = json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"});
    let reopened = json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"});
    for (owned, continues) in [
        (
            vec![
                started.clone(),
                json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "A"}),
                json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}),
            ],
            &call_of_a,
        ),
        (vec![started.clone(), json!({"type": "MESSAGES_SNAPSHOT", "messages": [message]})], &call_of_a),
        (vec![echoing], &call_of_a),
        (
            vec![
                started.clone(),
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "subagentRunId": "A"}),
                json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
            ],
            &reopened,
        ),
        (
            vec![
                started,
                json!({"type": "TOOL_CALL_RESULT", "toolCallId": "k", "messageId": "m", "content": "", "subagentRunId": "A"}),
            ],
            &call_of_a,
        ),
    ] {
        let mut stream = owned;
        stream.extend([
            json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "parents", "delta": "x"}),
            continues.clone(),
            json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
            // The parent agent's shorthand goes on.
            json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "y"}),
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
        ]);
        assert_eq!(verdict(stream.clone().into()), Ok(()), "{stream:?}");
    }
}

/// patterns/streaming: a chunk stream must not outlive its owner.
#[test]
fn a_chunk_that_reopens_a_subagents_message_is_in_its_lane_and_ends_with_it() {
    let events = expand(json!([
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "SUBAGENT_STARTED", "subagentRunId": "A", "name": "a"},
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "A"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "parents", "delta": "x"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "of A"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "y"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "A"},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
    ]));
    assert_eq!(
        types(&events)[4..],
        [
            "TEXT_MESSAGE_START parents",
            "TEXT_MESSAGE_CONTENT parents",
            "TEXT_MESSAGE_START m",
            "TEXT_MESSAGE_CONTENT m",
            "TEXT_MESSAGE_CONTENT parents",
            "TEXT_MESSAGE_END m",
            "SUBAGENT_FINISHED",
            "TEXT_MESSAGE_END parents",
            "RUN_FINISHED"
        ]
    );
    assert_eq!(events[6]["subagentRunId"], "A");
}

/// events/tool-calls: a continuation that repeats `parentMessageId` with another value.
#[test]
fn a_call_that_goes_on_with_another_parent_message_is_a_conflict_whoever_owns_that() {
    let stream = json!([
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "A"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "delta": "{"},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "parentMessageId": "m", "delta": "}"}
    ]);
    assert_eq!(verdict(stream), Err((4, "chunk-conflict".to_owned())));
}
