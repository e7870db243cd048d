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
        let mut stream = vec![json!({"type": "RUN_STARTED", "threadId": walk::THREAD, "runId": walk::RUN})];
        stream.extend_from_slice(events);
        stream.push(json!({"type": "RUN_FINISHED", "threadId": walk::THREAD, "runId": walk::RUN}));
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
    let custom = json!({"type": "CUSTOM", "name": "n", "value": 1});
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
        vec![custom, chunk(None, "nothing to continue")],
    ] {
        let stream = run(&events);
        let straight = outcome(&stream, || true);
        assert!(straight.refused[..2].iter().all(Option::is_none), "the run is open: {straight:?}");
        assert_eq!(straight, outcome(&stream, || false), "{stream:#?}");
    }
}

/// Patches of every kind: that apply, that fail behind operations that are taken back, that are malformed or say more than
/// operations do, and that come where no run is open or while chunks are assembled.
#[test]
fn a_patch_that_is_applied_directly_changes_the_state_as_its_event_does() {
    let run = &json!({"type": "RUN_STARTED", "threadId": walk::THREAD, "runId": walk::RUN}).to_string();
    let state = r#"{"type":"STATE_SNAPSHOT","snapshot":{"a":{"b":[1,2,{"c":null}],"~/":1},"é":"x","n":1.0}}"#;
    let chunk = r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d"}"#;
    let undone = r#"{"op":"test","path":"/n","value":2}"#;
    let replaced =
        [run.clone(), state.to_owned(), r#"{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/a"}]}"#.into()];
    assert_eq!(outcome(&replaced, || true).state, json!({"é": "x", "n": 1.0}));
    for operations in [
        r#"{"op":"add","path":"/new","value":null}"#,
        r#"{"op":"add","path":"/a/b/-","value":{"y":1,"x":2}}"#,
        r#"{"op":"add","path":"/a/b/0","value":[]}"#,
        r#"{"op":"add","path":"/a/b/7","value":[]}"#,
        r#"{"op":"add","path":"/n/x","value":1}"#,
        r#"{"op":"add","path":"/nowhere/x","value":1}"#,
        r#"{"op":"add","path":"","value":[1]}"#,
        r#"{"op":"replace","path":"/a/~0~1","value":{}}"#,
        r#"{"op":"replace","path":"/\u00e9","value":"y"}"#,
        r#"{"op":"replace","path":"/missing","value":"y"}"#,
        r#"{"op":"replace","path":"","value":null}"#,
        r#"{"op":"remove","path":"/a/b/2/c"}"#,
        r#"{"op":"remove","path":"/a/b/1"}"#,
        r#"{"op":"remove","path":"/a/b/01"}"#,
        r#"{"op":"remove","path":""}"#,
        r#"{"op":"move","path":"/a/moved","from":"/n"}"#,
        r#"{"op":"move","path":"/a/b/0","from":"/a/b/2"}"#,
        r#"{"op":"move","path":"/a/b","from":"/a"}"#,
        r#"{"op":"move","path":"/nowhere/x","from":"/n"}"#,
        r#"{"op":"move","path":"/n","from":"/n"}"#,
        r#"{"op":"copy","path":"/a/b/-","from":"/a"}"#,
        r#"{"op":"copy","path":"/a","from":"/missing"}"#,
        r#"{"op":"test","path":"/n","value":1}"#,
        r#"{"op":"add","path":"/a/x","value":1,"comment":"kept as data","from":null}"#,
        r#"{"op":"add","path":"/a/x","value":1,"value":2}"#,
        r#"{"value":1,"path":"/a/x","op":"add","from":"/n"}"#,
        r#"{"op":"add","path":"/a/x"}"#,
        r#"{"op":"move","path":"/a/x"}"#,
        r#"{"op":"move","path":"/a/x","from":"n"}"#,
        r#"{"op":"add","path":"a","value":1}"#,
        r#"{"op":"add","path":"/~2","value":1}"#,
        r#"{"op":"unheard of","path":"/a","value":1}"#,
        "7",
    ] {
        let several = [operations.to_owned(), format!("{operations},{operations}"), format!("{operations},{undone}")];
        for operations in several {
            for event in [
                format!(r#"{{"type":"STATE_DELTA","delta":[{operations}]}}"#),
                format!(r#"{{"type":"STATE_DELTA","timestamp":1,"delta":[{operations}]}}"#),
                format!(r#"{{"type":"STATE_DELTA","timestamp":null,"delta":[{operations}]}}"#),
                format!(r#"{{"type":"STATE_DELTA","timestamp":9007199254740993,"delta":[{operations}]}}"#),
                format!(r#"{{"type":"STATE_DELTA","delta":[{operations}],"metadata":{{"k":1}}}}"#),
                format!(r#"{{"delta":[{operations}],"type":"STATE_DELTA"}}"#),
            ] {
                for stream in [&[run, state, &event, &event][..], &[&event], &[run, chunk, &event, chunk]] {
                    let stream: Vec<String> = stream.iter().map(|event| (*event).to_owned()).collect();
                    assert_eq!(outcome(&stream, || true), outcome(&stream, || false), "{stream:#?}");
                }
            }
        }
    }
}

/// Snapshots that restate what is held as it is, with more behind it, with less, twice, or in another order.
#[test]
fn a_snapshot_reconciles_alike_whatever_it_restates() {
    let message = |id: &str, content: &str| json!({"id": id, "role": "assistant", "content": content});
    let calling = json!({"id": "c", "role": "assistant", "toolCalls": [
        {"id": "call", "type": "function", "function": {"name": "n", "arguments": "{"}},
    ]});
    let args = json!({"type": "TOOL_CALL_ARGS", "toolCallId": "call", "delta": "}"});
    let opened = json!({"type": "TOOL_CALL_START", "toolCallId": "call", "toolCallName": "n"});
    let answer = json!({"type": "TOOL_CALL_RESULT", "messageId": "answer", "toolCallId": "call", "content": "done"});
    let answered = json!({"id": "answer", "role": "tool", "toolCallId": "call", "content": "done"});
    let lists = [
        vec![],
        vec![message("a", "1")],
        vec![message("a", "2"), message("b", "3")],
        vec![message("a", "2"), message("b", "3"), calling.clone(), message("d", "4")],
        vec![message("a", "2"), message("b", "3"), calling.clone(), answered.clone(), message("d", "4")],
        // In the order in which they came, which is not the one in which they are held.
        vec![message("a", "2"), message("b", "3"), calling.clone(), message("d", "4"), answered.clone()],
        vec![message("a", "5"), message("b", "6"), message("b", "7")],
        vec![message("a", "5"), message("a", "6"), message("b", "7")],
        vec![message("b", "8"), message("a", "9")],
    ];
    let held = |snapshots: &[&Vec<Value>], alike: bool| {
        let (mut consumer, mut reducer) = (Consumer::default(), Reducer::new());
        let mut take = |event: &Value| consumer.reduce(&event.to_string(), &mut reducer).unwrap();
        take(&json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}));
        take(&opened);
        for messages in snapshots {
            // A message that stands in front and goes with the next snapshot makes nothing be restated as it is held.
            if !alike {
                let first = json!({"id": "first", "role": "assistant"});
                let with_first: Vec<&Value> = [&first].into_iter().chain(*messages).collect();
                take(&json!({"type": "MESSAGES_SNAPSHOT", "messages": with_first}));
            }
            take(&json!({"type": "MESSAGES_SNAPSHOT", "messages": messages}));
            take(&args);
            take(&answer);
        }
        let (messages, _) = reducer.into_parts();
        messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect::<Vec<_>>()
    };
    for first in &lists {
        for second in &lists {
            let (one, other) = (held(&[first, second], true), held(&[first, second], false));
            assert_eq!(one, other, "{first:?} and then {second:?}");
        }
    }
}
