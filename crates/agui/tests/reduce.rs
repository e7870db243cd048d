//! The short way from an event's JSON to what a client holds: it comes to what delivering and applying come to.
#![allow(clippy::unwrap_used)]

mod walk;

use proptest::prelude::*;
use runwire_agui::{Consumer, ConsumerOptions, Reducer, RunAgentInput, StreamEnd, Warning};
use serde_json::{Value, json};

use walk::Dice;

/// All that a client can tell: what it holds, what it was warned of after each event, and what the stream came to.
#[derive(Debug, PartialEq)]
struct Outcome {
    messages: Vec<Value>,
    interrupts: Vec<Value>,
    state: Value,
    warnings: Vec<Warning>,
    refused: Vec<Option<String>>,
    end: StreamEnd,
}

/// Consumes the stream; `directly` says of each event whether it takes the short way.
fn outcome(stream: &[String], mut directly: impl FnMut() -> bool) -> Outcome {
    let (input, _) = RunAgentInput::decode_value(walk::input()).unwrap();
    let mut reducer = Reducer::from_input(&input);
    let mut consumer = Consumer::new(ConsumerOptions { input: Some(input) });
    let (mut warnings, mut refused) = (Vec::new(), Vec::new());
    for json in stream {
        let violation = if directly() {
            let taken = consumer.reduce(json, &mut reducer);
            warnings.extend(consumer.take_warnings());
            taken.err().map(|rejected| {
                assert_eq!(rejected.delivered, [], "what is applied is not delivered as well");
                rejected.violation
            })
        } else {
            let index = consumer.event_count();
            let (delivered, violation) = match consumer.push_json(json.as_bytes()) {
                Ok(delivered) => (delivered.collect(), None),
                Err(rejected) => (rejected.delivered, Some(rejected.violation)),
            };
            warnings.extend(consumer.take_warnings());
            warnings.extend(delivered.into_iter().filter_map(|event| reducer.apply(event, index)));
            violation
        };
        refused.push(violation.map(|violation| violation.to_string()));
    }
    let interrupts = reducer.interrupts().iter().map(|interrupt| serde_json::to_value(interrupt).unwrap()).collect();
    let (messages, state) = reducer.into_parts();
    let messages = messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect();
    Outcome { messages, interrupts, state, warnings, refused, end: consumer.finish() }
}

/// Does one thing to a stream that may or may not make it a wrong one.
fn damage(stream: &mut Vec<Value>, dice: &mut Dice) {
    if stream.is_empty() {
        return;
    }
    let place = dice.below(stream.len());
    let other = stream[dice.below(stream.len())].clone();
    match dice.below(9) {
        0 => drop(stream.remove(place)),
        1 => stream.insert(place, other),
        2 => stream.swap(place, 0),
        3 => {
            for id in ["messageId", "toolCallId"] {
                if let (Some(theirs), Some(_)) = (other.get(id), stream[place].get(id)) {
                    stream[place][id] = theirs.clone();
                }
            }
        }
        4 => stream[place]["subagentRunId"] = other.get("subagentRunId").cloned().unwrap_or(json!("unheard of")),
        5 => drop(stream[place].as_object_mut().unwrap().shift_remove("subagentRunId")),
        6 => {
            let members = stream[place].as_object_mut().unwrap();
            let member = members.keys().nth(dice.below(members.len())).unwrap().clone();
            let strange = [json!(null), json!("x"), json!(1), json!({}), json!([])];
            members[&member] = dice.pick(&strange).clone();
        }
        7 => stream[place]["unheardOf"] = json!({"of": [1]}),
        _ => stream[place]["timestamp"] = json!(1_767_225_600_000_u64),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn reducing_comes_to_what_delivering_and_applying_come_to(seed in any::<u64>(), damages in 0..3_usize) {
        let mut dice = Dice::new(seed);
        let steps = walk::stream(seed);
        let mut stream = match dice.below(3) {
            0 => walk::explicit(&steps),
            1 => walk::chunked(&steps),
            _ => walk::mixed(&steps, &mut dice),
        };
        for _ in 0..damages {
            damage(&mut stream, &mut dice);
        }
        let stream: Vec<String> = stream.iter().map(Value::to_string).collect();
        let delivering = outcome(&stream, || false);
        prop_assert_eq!(&outcome(&stream, || true), &delivering);
        prop_assert_eq!(&outcome(&stream, || dice.once_in(2)), &delivering, "both ways in turns");
    }
}

/// Chunks without an id, an end whose message is of parts, deltas of a message that a snapshot took away, escapes of every
/// kind: what a walk seldom comes by.
#[test]
fn what_goes_straight_is_only_what_needs_no_judgement() {
    let run = |events: &[Value]| {
        let mut stream = vec![json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})];
        stream.extend_from_slice(events);
        stream.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
        stream.iter().map(Value::to_string).collect::<Vec<_>>()
    };
    let start = json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "user"});
    let delta = |delta: &str| json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta});
    let chunk = |id: Option<&str>, delta: &str| {
        let mut chunk = json!({"type": "TEXT_MESSAGE_CHUNK", "delta": delta});
        id.into_iter().for_each(|id| chunk["messageId"] = json!(id));
        chunk
    };
    let end = json!({"type": "TEXT_MESSAGE_END", "messageId": "m"});
    let parts = json!([{"type": "text", "text": "parts"}]);
    let of_parts = json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m", "role": "user", "content": parts}]});
    let of_none = json!({"type": "MESSAGES_SNAPSHOT", "messages": []});
    let reasoning = json!({"type": "REASONING_MESSAGE_CHUNK", "messageId": "m", "delta": "of another kind"});
    let subagent = json!({"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"});
    let of_subagent = json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "n", "subagentRunId": "s", "delta": "theirs"});
    let call = json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "n", "parentMessageId": "m"});
    let args = json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"a\": \"\\u00e9\"}"});
    for events in [
        vec![start.clone(), delta("a \"b\"\n\\ / \u{8}\u{c}\t\r é 🦀 \u{1}"), delta(""), end.clone()],
        vec![start.clone(), of_parts.clone(), delta("a"), end.clone()],
        vec![start.clone(), of_none.clone(), delta("a"), end.clone()],
        vec![start.clone(), delta("a"), end.clone(), delta("behind the end")],
        vec![start.clone(), end.clone(), end.clone()],
        vec![chunk(Some("m"), "a"), chunk(None, "b"), chunk(Some("m"), "c"), chunk(Some("n"), "d"), chunk(None, "e")],
        vec![chunk(Some("m"), "a"), reasoning.clone(), chunk(None, "b")],
        vec![chunk(Some("m"), "a"), reasoning, chunk(Some("m"), "b")],
        vec![chunk(Some("m"), "a"), delta("in the long spelling"), chunk(None, "b")],
        vec![chunk(Some("m"), "a"), end.clone(), chunk(Some("m"), "b")],
        vec![subagent.clone(), of_subagent.clone(), chunk(Some("n"), "whose?"), chunk(None, "whose?")],
        vec![subagent, chunk(Some("m"), "a"), of_subagent, chunk(None, "b"), chunk(Some("m"), "c")],
        vec![start.clone(), call.clone(), args.clone(), of_none, args.clone(), end.clone()],
        vec![start, end, call, args],
        vec![chunk(None, "nothing to continue")],
    ] {
        let stream = run(&events);
        assert_eq!(outcome(&stream, || true), outcome(&stream, || false), "{stream:#?}");
    }
}
