//! What a peer from before 1.0 is sent (basic/versioning, "Downgrading"): exactly what it cannot take is reshaped, each
//! loss is said, and the released client 0.0.59 takes the result.
#![allow(clippy::unwrap_used)]

mod walk;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use runwire_agui::producer::Guard;
use runwire_agui::{Downgrade, Event, Peer};
use serde_json::{Value, json};

use walk::Dice;

fn event(value: Value) -> Event {
    Event::from_value(value).unwrap()
}

fn finished(outcome: Value) -> Value {
    json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome})
}

fn snapshot(messages: Value) -> Value {
    json!({"type": "MESSAGES_SNAPSHOT", "messages": messages})
}

/// What the peer gets for one event, and what was said of it.
fn downgraded(value: Value) -> (Vec<Value>, Vec<String>) {
    let mut downgrade = Downgrade::for_peer(Peer::PreV1).unwrap();
    let events = downgrade.apply(vec![event(value)]);
    (events.iter().map(Event::to_value).collect(), downgrade.take_warnings())
}

#[test]
fn a_current_peer_gets_everything_as_it_is() {
    assert!(Downgrade::for_peer(Peer::Current).is_none());
}

/// events/lifecycle, "Cancelled runs": a stopped run is never shown as a success.
#[test]
fn a_stopped_run_is_told_as_an_error_that_keeps_what_it_said() {
    let mut stopped = finished(json!({"type": "cancelled"}));
    stopped["usage"] = json!([{"inputTokens": 3}]);
    stopped["metadata"] = json!({"a": 1});
    stopped["timestamp"] = json!(7);
    let (told, said) = downgraded(stopped);
    let error = json!({"type": "RUN_ERROR", "message": "the run was cancelled", "code": "CANCELLED",
                       "usage": [{"inputTokens": 3}], "timestamp": 7, "metadata": {"a": 1}});
    assert_eq!(told, [error]);
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("cancelled"), "{said:?}");
}

/// Its client shows every failure to its user but one, and a stop is no error to show.
#[test]
fn copilotkit_is_told_of_a_stop_by_the_code_that_it_does_not_show() {
    let mut downgrade = Downgrade::for_peer(Peer::CopilotKit).unwrap();
    let told = downgrade.apply(vec![event(finished(json!({"type": "cancelled"})))]);
    assert_eq!(told[0].to_value(), json!({"type": "RUN_ERROR", "message": "the run was cancelled", "code": "abort"}));
    let failed = event(json!({"type": "RUN_ERROR", "message": "it broke", "code": "CANCELLED"}));
    let started = event(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r2"}));
    assert_eq!(downgrade.apply(vec![started.clone()]), [started]);
    assert_eq!(downgrade.apply(vec![failed.clone()]), [failed], "what failed did fail, whatever its code");
}

#[test]
fn after_a_stop_that_was_told_as_an_error_no_second_error_follows_and_a_new_run_may() {
    let error = json!({"type": "RUN_ERROR", "message": "flushing failed"});
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r2"});
    let mut downgrade = Downgrade::for_peer(Peer::PreV1).unwrap();
    let stop = || vec![event(finished(json!({"type": "cancelled"})))];
    assert_eq!(downgrade.apply(stop()).len(), 1);
    assert_eq!(downgrade.apply(vec![event(error.clone())]), []);
    let said = downgrade.take_warnings();
    assert_eq!(said.len(), 2);
    assert!(said[1].contains("flushing failed"), "{said:?}");
    assert_eq!(downgrade.apply(vec![event(started)]).len(), 1);
    assert_eq!(downgrade.apply(vec![event(error.clone())]).len(), 1, "that one is of the next run");
    // Where both are at hand, the failure alone says how the run ended.
    let mut both = stop();
    both.push(event(error.clone()));
    let told: Vec<Value> = downgrade.apply(both).iter().map(Event::to_value).collect();
    assert_eq!(told, [error]);
}

#[test]
fn what_a_peer_cannot_hold_is_left_out_and_named() {
    let text = json!({"type": "text", "text": "Invoice "});
    let more = json!({"type": "text", "text": "attached."});
    let image = json!({"type": "image", "source": {"type": "url", "value": "u"}});
    let file = json!({"type": "document", "source": {"type": "file", "value": "f", "provider": "openai"}});
    let cases = [
        (
            finished(json!({"type": "success", "pendingToolCallIds": ["c"]})),
            finished(json!({"type": "success"})),
            "pendingToolCallIds",
        ),
        (
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": [text, image, more]}),
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "Invoice attached."}),
            "`c` was flattened to its text, without 1 other",
        ),
        (
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": [file]}),
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": ""}),
            "without 1 other",
        ),
        (
            snapshot(json!([{"id": "m", "role": "tool", "toolCallId": "c", "content": [text]}])),
            snapshot(json!([{"id": "m", "role": "tool", "toolCallId": "c", "content": "Invoice "}])),
            "`m` was flattened",
        ),
        (
            snapshot(json!([{"id": "m", "role": "user", "content": [text, file, image]}])),
            snapshot(json!([{"id": "m", "role": "user", "content": [text, image]}])),
            "`m` was sent without 1 part",
        ),
    ];
    for (sent, expected, words) in cases {
        let (told, said) = downgraded(sent);
        assert_eq!(told, [expected]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains(words), "{said:?}");
    }
}

/// basic/versioning: an empty value that the older schema requires is reshaping, and loses nothing.
#[test]
fn lists_that_an_input_echo_left_out_are_empty_ones_and_nothing_is_said_of_it() {
    let input = json!({"threadId": "t", "runId": "r", "messages": []});
    let (told, said) = downgraded(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": input}));
    assert_eq!(told[0]["input"]["tools"], json!([]));
    assert_eq!(told[0]["input"]["context"], json!([]));
    assert_eq!(said, [] as [String; 0]);
}

#[test]
fn nothing_else_is_touched() {
    for seed in 0..200 {
        for value in walk::explicit(&walk::stream(seed)) {
            let reshaped = match value["type"].as_str().unwrap() {
                "RUN_FINISHED" => {
                    value["outcome"]["type"] == "cancelled" || value["outcome"]["pendingToolCallIds"] != json!(null)
                }
                "RUN_STARTED" => value.get("input").is_some(),
                "TOOL_CALL_RESULT" => value["content"].is_array(),
                _ => false,
            };
            let (told, said) = downgraded(value.clone());
            if !reshaped {
                assert_eq!(told, [event(value).to_value()]);
                assert_eq!(said, [] as [String; 0]);
            }
        }
    }
}

/// One of each thing that 0.0.59 was seen to reject, and of what it was seen to take.
fn composed() -> Vec<Vec<Value>> {
    let started =
        json!({"type": "RUN_STARTED", "threadId": walk::THREAD, "runId": walk::RUN, "protocolVersion": "1.0"});
    let mut finished = finished(json!({"type": "success"}));
    (finished["threadId"], finished["runId"]) = (json!(walk::THREAD), json!(walk::RUN));
    let ended = |outcome: Value| {
        let mut finished = finished.clone();
        finished["outcome"] = outcome;
        finished
    };
    let media = |kind: &str, source: Value| json!({"type": kind, "source": source, "id": "p", "metadata": {"a": 1}});
    let parts: Vec<Value> = ["image", "audio", "video", "document"]
        .into_iter()
        .flat_map(|kind| {
            [
                media(kind, json!({"type": "url", "value": "https://x"})),
                media(kind, json!({"type": "data", "value": "AA==", "mimeType": "a/b"})),
                media(kind, json!({"type": "file", "value": "f", "provider": "openai"})),
            ]
        })
        .chain([json!({"type": "text", "text": "x", "metadata": {"a": 1}})])
        .collect();
    let messages = json!([
        {"id": "u", "role": "user", "content": parts, "metadata": {}},
        {"id": "a", "role": "assistant", "toolCalls":
            [{"id": "c", "type": "function", "function": {"name": "n", "arguments": ""}, "metadata": {}}]},
        {"id": "t", "role": "tool", "toolCallId": "c", "content": parts, "error": "e"},
    ]);
    let mut echoing = started.clone();
    echoing["input"] =
        json!({"threadId": walk::THREAD, "runId": walk::RUN, "protocolVersion": "1.0", "messages": messages});
    let result = json!({"type": "TOOL_CALL_RESULT", "messageId": "t2", "toolCallId": "c", "content": parts});
    let call = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "n"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
    ];
    vec![
        vec![echoing, finished.clone()],
        vec![started.clone(), snapshot(messages), result, finished.clone()],
        vec![started.clone(), ended(json!({"type": "cancelled"}))],
        vec![
            started.clone(),
            call[0].clone(),
            call[1].clone(),
            ended(json!({"type": "success", "pendingToolCallIds": ["c"]})),
        ],
        vec![started, ended(json!({"type": "success", "pendingToolCallIds": []}))],
    ]
}

/// What the released client 0.0.59 said of each stream; `None` where it is not installed, which is said loudly.
fn verdicts(streams: &[Vec<Event>]) -> Option<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/real");
    if !folder.join("node_modules/.runwire-ready").is_file() {
        let missing = "REAL PART MISSING: @ag-ui/client 0.0.59; run tests/real/setup.sh. This test proved NOTHING.";
        // `eprintln` is what the test harness captures; standard error itself is not.
        let _ = writeln!(std::io::stderr(), "{missing}");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        return None;
    }
    let file = std::env::temp_dir().join(format!("runwire-downgrade-{}.ndjson", std::process::id()));
    let lines = streams.iter().map(|events| format!("{}\n", json!({"input": walk::input(), "events": events})));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let output = Command::new("node")
        .current_dir(&folder)
        .args(["verdicts.mjs", "--client", "0.0.59", "--timeout", "55", "--streams", file.to_str().unwrap()])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    Some(document["verdicts"].as_array().unwrap().clone())
}

#[test]
fn the_released_client_0_0_59_takes_every_conforming_stream_that_was_downgraded_for_it() {
    let mut streams = composed();
    let modern = streams.len();
    for seed in 0..400 {
        let steps = walk::stream(seed);
        streams.push(match seed % 3 {
            0 => walk::explicit(&steps),
            1 => walk::chunked(&steps),
            _ => walk::mixed(&steps, &mut Dice::new(seed)),
        });
    }
    let typed = |stream: &[Value]| -> Vec<Event> {
        let mut guard = Guard::new();
        stream.iter().flat_map(|value| guard.push_value(value.clone()).unwrap()).collect()
    };
    let as_they_are: Vec<Vec<Event>> = streams[..modern].iter().map(|stream| typed(stream)).collect();
    let told: Vec<Vec<Event>> = streams
        .iter()
        .map(|stream| {
            let mut downgrade = Downgrade::for_peer(Peer::PreV1).unwrap();
            typed(stream).into_iter().flat_map(|event| downgrade.apply(vec![event])).collect()
        })
        .collect();
    let Some(verdicts_of_told) = verdicts(&told) else { return };
    assert_eq!(verdicts_of_told.len(), told.len());
    for (events, verdict) in told.iter().zip(&verdicts_of_told) {
        let shown = || events.iter().map(|event| event.to_json_string() + "\n").collect::<String>();
        assert_eq!(verdict["error"], Value::Null, "{}", shown());
        assert_eq!(verdict["unhandled"], json!([]), "{}", shown());
    }
    // It would have failed each of these as they are, or there would be nothing to downgrade.
    for (events, verdict) in as_they_are.iter().zip(verdicts(&as_they_are).unwrap()) {
        assert_ne!(verdict["error"], Value::Null, "{events:?}");
    }
}
