//! The guard: what passes it is a stream that a conforming client takes without a word, whatever was pushed at it.
#![allow(clippy::unwrap_used)]

mod walk;

use proptest::prelude::*;
use runwire_agui::producer::Guard;
use runwire_agui::{Consumer, ConsumerOptions, Event, RunEnding, StreamEnd, WarningRule};
use serde_json::{Value, json};

use walk::Dice;

/// What a client makes of a stream that it has to take.
fn consumed(events: &[Event]) -> (Vec<Event>, StreamEnd) {
    let mut consumer = Consumer::new(ConsumerOptions::default());
    let mut delivered = Vec::new();
    for event in events {
        let shown = || events.iter().map(|event| event.to_json_string() + "\n").collect::<String>();
        let taken = consumer.push_json(event.to_json_string().as_bytes());
        delivered.extend(taken.unwrap_or_else(|rejected| panic!("{rejected}\n{}", shown())));
    }
    // Whose ids are whose is no matter of a stream's order, and what is spoilt here doubles events.
    let of_ids = [WarningRule::RunIdReused, WarningRule::EchoOfAnotherThread];
    let mut warnings = consumer.take_warnings();
    warnings.retain(|warning| !of_ids.contains(&warning.rule));
    assert_eq!(warnings, []);
    (delivered, consumer.finish())
}

/// A value that stands where another one belongs.
fn garbage(dice: &mut Dice) -> Value {
    match dice.below(9) {
        0 => json!(null),
        1 => json!(-1),
        2 => json!(9_007_199_254_740_993_u64),
        3 => json!([]),
        4 => json!({"type": "nonsense"}),
        5 => json!(""),
        6 => json!(true),
        7 => json!([{"type": "binary", "mimeType": "image/png", "data": "AA=="}]),
        _ => json!("m1"),
    }
}

/// An event that is of no use anywhere, or only somewhere.
fn stray(dice: &mut Dice) -> Value {
    let strays = [
        json!({"type": "RUN_STARTED", "threadId": walk::THREAD, "runId": "stray"}),
        json!({"type": "RUN_STARTED", "threadId": "elsewhere", "runId": "stray"}),
        json!({"type": "RUN_STARTED", "threadId": walk::THREAD, "runId": "stray", "protocolVersion": "1.1"}),
        json!({"type": "RUN_STARTED", "threadId": walk::THREAD, "runId": "stray", "protocolVersion": "next"}),
        json!({"type": "RUN_FINISHED", "threadId": walk::THREAD, "runId": walk::RUN}),
        json!({"type": "RUN_FINISHED", "threadId": walk::THREAD, "runId": walk::RUN, "outcome": {"type": "paused"}}),
        json!({"type": "RUN_FINISHED", "threadId": walk::THREAD, "runId": walk::RUN,
               "outcome": {"type": "success", "pendingToolCallIds": ["none"]}}),
        json!({"type": "RUN_ERROR", "message": "It broke."}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "whose?"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "delta": "x"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "user", "subagentRunId": "a1", "delta": "x"}),
        json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c1", "toolCallName": "other"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "m1", "toolCallId": "c1", "content": "x"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m1"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m1", "subagentRunId": "a1"}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m1", "role": "assistant", "subagentRunId": "a1"}]}),
        json!({"type": "STEP_STARTED", "stepName": "plan"}),
        json!({"type": "STEP_FINISHED", "stepName": "plan", "subagentRunId": "a1"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a1", "name": "n"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a1"}),
        json!({"type": "THINKING_START"}),
        json!({"type": "SOMETHING_NEW"}),
        json!({"no": "type"}),
        json!("no object"),
    ];
    dice.pick(&strays).clone()
}

/// A conforming stream with things in it that do not belong there, and without some that do.
fn spoilt(seed: u64) -> Vec<Value> {
    let mut dice = Dice::new(seed.wrapping_mul(31));
    let stream = match seed % 3 {
        0 => walk::explicit(&walk::stream(seed)),
        1 => walk::chunked(&walk::stream(seed)),
        _ => walk::mixed(&walk::stream(seed), &mut dice),
    };
    let often = 2 + dice.below(12);
    let mut out = Vec::new();
    for mut event in stream {
        if !dice.once_in(often) {
            out.push(event);
            continue;
        }
        match dice.below(5) {
            0 => {}
            1 => out.extend([event.clone(), event]),
            2 => {
                out.push(stray(&mut dice));
                out.push(event);
            }
            3 => {
                let members: Vec<String> = event.as_object().unwrap().keys().cloned().collect();
                event[dice.pick(&members).as_str()] = garbage(&mut dice);
                out.push(event);
            }
            _ => {
                let place = dice.below(out.len() + 1);
                out.insert(place, event);
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// design.md, section 6: nothing that a conforming consumer would reject can leave, whatever a driver does.
    #[test]
    fn whatever_is_pushed_what_passes_and_its_closing_are_taken_without_a_warning(seed in any::<u64>()) {
        let mut guard = Guard::new();
        let mut sent = Vec::new();
        for value in spoilt(seed) {
            match guard.push_value(value) {
                Ok(events) => sent.extend(events),
                Err(refused) => sent.extend(refused.passed),
            }
        }
        let open = guard.run_is_open();
        match seed % 4 {
            0 => sent.extend(guard.fail("It broke.", Some("BROKE"), None)),
            _ => sent.extend(guard.cancel(None)),
        }
        prop_assert!(!guard.run_is_open());
        let (delivered, end) = consumed(&sent);
        prop_assert_eq!(&delivered, &sent, "what passes is what a client is given");
        match end {
            StreamEnd::Completed { runs } if open && seed % 4 != 0 => {
                prop_assert_eq!(&runs.last().unwrap().ending, &RunEnding::Cancelled);
            }
            StreamEnd::Completed { .. } => {}
            StreamEnd::Truncated { .. } => prop_assert!(sent.is_empty()),
            StreamEnd::Rejected { violation, .. } => prop_assert!(false, "{}", violation),
        }
    }

    /// A conforming stream passes whole, as the client would have been given it.
    #[test]
    fn a_conforming_stream_passes_whole(seed in any::<u64>()) {
        let steps = walk::stream(seed);
        for stream in [walk::explicit(&steps), walk::chunked(&steps)] {
            let mut guard = Guard::new();
            let mut consumer = Consumer::new(ConsumerOptions::default());
            for value in stream {
                let delivered = consumer.push_value(value.clone()).unwrap();
                prop_assert_eq!(guard.push_value(value).unwrap(), delivered.collect::<Vec<_>>());
            }
            prop_assert_eq!(guard.cancel(None), vec![], "no run is open");
        }
    }

    /// The verdict is the one that a consumer would have given, as long as both have seen the same.
    #[test]
    fn the_first_refusal_is_the_consumers_own_violation(seed in any::<u64>()) {
        let (mut guard, mut consumer) = (Guard::new(), Consumer::new(ConsumerOptions::default()));
        for value in spoilt(seed) {
            let verdict = consumer.push_value(value.clone()).map(Iterator::collect::<Vec<_>>);
            let warned = !consumer.take_warnings().is_empty();
            match (guard.push_value(value), verdict) {
                (Ok(passed), Ok(delivered)) => prop_assert_eq!(passed, delivered),
                (Err(refused), Err(rejected)) => {
                    // A consumer mentions what a producer must not send, and may reject the event for its order as well.
                    prop_assert!(warned || refused.violation.rule == rejected.violation.rule, "{} {}", refused, rejected);
                    prop_assert_eq!(refused.violation.event, rejected.violation.event);
                    return Ok(());
                }
                (Err(_), Ok(_)) => {
                    prop_assert!(warned);
                    return Ok(());
                }
                (Ok(_), Err(rejected)) => prop_assert!(false, "{}", rejected),
            }
        }
    }
}

/// patterns/streaming: an item that chunks could not open is not one that later chunks continue.
#[test]
fn a_chunk_that_was_refused_leaves_no_item_behind() {
    let mut guard = Guard::new();
    let mut push = |value: Value| guard.push_value(value);
    push(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})).unwrap();
    push(json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "a"})).unwrap();
    push(json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "x", "subagentRunId": "a"})).unwrap_err();
    push(json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "y", "subagentRunId": "a"})).unwrap_err();
    // Nothing innocent is refused for it, and the message is as it was.
    assert_eq!(push(json!({"type": "CUSTOM", "name": "n", "value": 1, "subagentRunId": "a"})).unwrap().len(), 1);
    assert_eq!(push(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "z"})).unwrap().len(), 1);
    let types: Vec<&str> = guard.cancel(None).iter().map(|event| event.event_type().as_str()).collect();
    assert_eq!(types, ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
}

/// An account that breaks the schema does not keep a run from its ending.
#[test]
fn an_ending_is_sent_also_when_its_usage_cannot_be() {
    let too_many = || {
        let entry = runwire_agui::TokenUsage { input_tokens: Some(u64::MAX), ..runwire_agui::TokenUsage::new() };
        Some(vec![entry])
    };
    let mut guard = Guard::new();
    let mut sent = guard.push_value(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})).unwrap();
    sent.extend(guard.cancel(too_many()));
    sent.push(guard.fail("It broke.", None, too_many()).unwrap());
    guard.fail("It broke again.", None, None).unwrap_err();
    let (_, end) = consumed(&sent);
    assert!(matches!(end, StreamEnd::Completed { .. }), "{end:?}");
}
