//! The released AG-UI implementations take everything that this project tells: both clients, through a real server in front
//! of an agent that plays every family of events, and the Python SDK, event by event. `docs/interop.md` says what an older
//! client is told instead.

mod again;
mod scenes;
mod threads;
pub mod upstream;

use std::collections::BTreeSet;

use runwire_agui::{Consumer, ConsumerOptions, Event, EventType, Reducer, RunAgentInput, SseDecoder, StreamEnd};
use serde_json::{Value, json};

use crate::real_part::{self, CLIENTS, agui_client, events, kinds, last, taken_quietly};
use crate::serving::{Serving, http};
use crate::verdicts::walk;
use upstream::Upstream;

/// What a client of 1.0 makes of a stream, by this project's own pipeline.
fn made(input: &Value, stream: &[Value]) -> (Vec<Value>, Value, Value) {
    let (input, _) = RunAgentInput::decode_value(input.clone()).unwrap();
    let mut reducer = Reducer::from_input(&input);
    let mut consumer = Consumer::new(ConsumerOptions { input: Some(input) });
    let mut delivered = Vec::new();
    for (index, event) in stream.iter().enumerate() {
        for event in consumer.push_value(event.clone()).unwrap() {
            delivered.push(event.to_value());
            // Some patches do not apply, and are meant not to.
            reducer.apply(event, index);
        }
    }
    assert!(matches!(consumer.finish(), StreamEnd::Completed { .. }));
    assert_eq!(consumer.take_warnings(), []);
    let (messages, state) = reducer.into_parts();
    (delivered, serde_json::to_value(messages).unwrap(), state)
}

/// The agent that plays every scene, and a server in front of it.
async fn staged(folder: &std::path::Path) -> (Upstream, Serving) {
    let upstream = Upstream::start(scenes::play).await;
    let config = format!("[agents.scripted]\ndriver = \"agui\"\nurl = \"{}\"\n", upstream.url);
    let server = Serving::start(folder, &config).await;
    (upstream, server)
}

/// The input that the client of the scripts sends, as far as it matters to what it makes of the answer.
fn input(thread: &str, run: &str, prompt: &str) -> Value {
    json!({"threadId": thread, "runId": run, "messages": [{"id": format!("{run}-user"), "role": "user", "content": prompt}]})
}

fn member<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    events.iter().find(|event| event["type"] == kind).unwrap()
}

#[tokio::test]
async fn each_released_client_takes_every_family_and_every_ending() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server) = staged(folder.path()).await;
    let url = server.at("/agui/scripted");
    for scene in scenes::NAMES {
        let run = async |version: &'static str| {
            let thread = format!("{scene} {version}");
            let run = agui_client(version, &url, &["--thread", &thread, "--run", "turn", "--prompt", scene]).await;
            (thread, run)
        };
        let runs = tokio::join!(run(CLIENTS[0]), run(CLIENTS[1]));
        for (version, (thread, run)) in CLIENTS.into_iter().zip([runs.0, runs.1]) {
            taken_quietly(&run);
            let input = input(&thread, "turn", scene);
            let (mut delivered, mut messages, mut state) = made(&input, &scenes::play(&input));
            if scene == "replayed" {
                // The earlier run is history: what it restated comes within the one run that was asked for.
                assert_eq!(kinds(&run)[..3], ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"], "{version}");
                let earlier = |event: &Value| event["runId"] == "earlier";
                let opening = delivered.iter().position(|event| event["type"] == "RUN_STARTED" && !earlier(event));
                let opening = delivered.remove(opening.unwrap());
                delivered.retain(|event| !earlier(event));
                delivered.insert(0, opening);
                // It must not take away what the user has just said, and the stream itself does not say that again.
                let mut whole = delivered[1].clone();
                let asked = input["messages"].as_array().unwrap();
                whole["messages"].as_array_mut().unwrap().extend(asked.iter().cloned());
                delivered.insert(2, whole);
                messages.as_array_mut().unwrap().splice(2..2, asked.iter().cloned());
            }
            if version != "1.0.0" {
                for event in &mut delivered {
                    downgrade(event);
                }
                match scene {
                    // It has no place for parts in a tool's answer, and no way to hear that a run was cancelled.
                    "parts" => messages[2]["content"] = json!("Here."),
                    // A snapshot of `null` it does not apply.
                    "null state" => state = json!({}),
                    _ => {}
                }
            }
            let told: Vec<Value> = events(&run).iter().map(essence).collect();
            let expected: Vec<Value> = delivered.iter().map(essence).collect();
            assert_eq!(told, expected, "{scene}, {version}");
            assert_eq!(run["messages"], messages, "{scene}, {version}");
            assert_eq!(run["state"], state, "{scene}, {version}");

            let interrupts = if scene == "interrupt" { last(&run)["outcome"]["interrupts"].clone() } else { json!([]) };
            assert_eq!(run["pendingInterrupts"], interrupts, "{scene}, {version}");
        }
    }
    let log = server.log();
    for told in ["pendingToolCallIds were left out", "flattened to its text", "told as RUN_ERROR with code CANCELLED"] {
        assert!(log.contains(told), "each downgrade is logged; `{told}` is not:\n{log}");
    }
}

/// What an event says, without what this server adds to the start of a run, and what a client adds when it parses.
fn essence(event: &Value) -> Value {
    let mut event = event.clone();
    let members = event.as_object_mut().unwrap();
    match members["type"].as_str() {
        Some("RUN_STARTED") => {
            members.remove("input");
            members.remove("protocolVersion");
        }
        Some("ACTIVITY_SNAPSHOT") if members.get("replace") == Some(&json!(true)) => {
            members.remove("replace");
        }
        // A message that is opened has a role; whether it is written is the spelling's business.
        Some("TEXT_MESSAGE_START") if members.get("role").is_none() => {
            members.insert("role".to_owned(), json!("assistant"));
        }
        _ => {}
    }
    // Which of an item's events repeat its owner is a spelling too; those that open and stand alone say it.
    let kind = members["type"].as_str().unwrap();
    if kind.ends_with("_CONTENT") || kind.ends_with("_ARGS") || kind.ends_with("_END") {
        members.remove("subagentRunId");
    }
    event
}

/// What a client that declares no version is told instead.
fn downgrade(event: &mut Value) {
    match event["type"].as_str().unwrap() {
        "RUN_FINISHED" if event["outcome"]["type"] == "cancelled" => {
            *event = json!({"type": "RUN_ERROR", "message": "the run was cancelled", "code": "CANCELLED"});
        }
        "RUN_FINISHED" if event["outcome"]["type"] == "success" => event["outcome"] = json!({"type": "success"}),
        "TOOL_CALL_RESULT" if event["content"].is_array() => event["content"] = json!("Here."),
        _ => {}
    }
}

#[tokio::test]
async fn each_released_client_takes_a_run_of_several_exchanges() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server) = staged(folder.path()).await;
    let url = server.at("/agui/scripted");
    for version in CLIENTS {
        let asked = ["--thread", version, "--run", "first", "--prompt", "interrupt"];
        taken_quietly(&agui_client(version, &url, &asked).await);
        let id = server.only_run_of(version).await.run_id().to_owned();
        let resume = json!([{"interruptId": "i1", "status": "resolved", "payload": {"pay": true}}]).to_string();
        let answered = ["--thread", version, "--run", "second", "--prompt", "interrupt", "--resume", &resume];
        let second = agui_client(version, &url, &answered).await;
        taken_quietly(&second);
        assert_eq!(member(events(&second), "TOOL_CALL_RESULT")["content"], "paid", "{version}");
        assert_eq!(last(&second)["runId"], "second", "{version}");

        // Both exchanges on one stream: what a viewer of the whole run is told, a client accepts.
        let whole = http(&server.at(&format!("/v2/runs/{id}/agui"))).await;
        let told: Vec<Value> =
            data(whole.as_bytes()).iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let starts = told.iter().filter(|event| event["type"] == "RUN_STARTED").map(|event| &event["runId"]);
        assert_eq!(starts.collect::<Vec<_>>(), ["first", "second"], "{version}");
        let (_, messages, state) = made(&input(version, "second", "interrupt"), &told);
        let replay = Upstream::start(move |_| told.clone()).await;
        let whole = agui_client(version, &replay.url, &answered).await;
        taken_quietly(&whole);
        assert_eq!(whole["messages"], messages, "{version}");
        assert_eq!(whole["state"], state, "{version}");
        assert_eq!(whole["pendingInterrupts"], json!([]), "{version}: the second exchange answered it");
    }
}

/// The data of Server-Sent Events, as this project reads them.
fn data(bytes: &[u8]) -> Vec<String> {
    let mut decoder = SseDecoder::new(1 << 20);
    let events = decoder.push(bytes).into_iter().map(|event| event.unwrap().data).collect();
    assert!(!decoder.finish(), "the last event is whole");
    events
}

/// Every event type with all of its members, and with none that may be absent.
fn samples() -> Vec<Event> {
    let samples: Vec<Value> = serde_json::from_str(include_str!("../../../agui/tests/samples/events.json")).unwrap();
    let events = samples.iter().flat_map(|pair| [&pair["full"], &pair["bare"]]);
    events.map(|event| Event::from_value(event.clone()).unwrap()).collect()
}

/// What the Python SDK reads of these events, and what its encoder writes of them.
async fn python_sdk(events: &[Event]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.ndjson");
    let lines: String = events.iter().map(|event| format!("{}\n", serde_json::to_string(event).unwrap())).collect();
    std::fs::write(&file, lines).unwrap();
    real_part::python("python_sdk.py", &["--events", file.to_str().unwrap()]).await
}

#[tokio::test]
async fn the_python_sdk_reads_every_event_and_what_it_writes_is_read_here() {
    if !real_part::agent() {
        return;
    }
    let samples = samples();
    let types: BTreeSet<EventType> = samples.iter().map(Event::event_type).collect();
    assert_eq!(types.len(), EventType::ALL.len(), "no event type is left out");
    let document = python_sdk(&samples).await;
    let read = document["read"].as_array().unwrap();
    assert_eq!(read.len(), samples.len());
    for (sample, read) in samples.iter().zip(read) {
        assert_eq!(read["error"], Value::Null, "{}", sample.to_value());
        assert_eq!(read["class"], read["expected"], "{}", sample.to_value());
    }
    let written = data(document["encoded"].as_str().unwrap().as_bytes());
    assert_eq!(written.len(), samples.len());
    for (sample, written) in samples.iter().zip(&written) {
        let decoded = runwire_agui::decode_event(written.as_bytes(), 0).unwrap();
        assert_eq!(decoded.warnings, [], "{written}");
        assert_eq!(decoded.event.as_ref(), Some(sample), "{written}");
    }
}

#[tokio::test]
async fn a_stream_that_the_python_sdk_writes_makes_the_same_here_as_the_one_that_it_read() {
    if !real_part::agent() {
        return;
    }
    let mut plays: Vec<(String, Value, Vec<Value>)> = Vec::new();
    for scene in scenes::NAMES {
        let input = input("thread", "turn", scene);
        let stream = scenes::play(&input);
        plays.push((scene.to_owned(), input, stream));
    }
    for seed in 0..200 {
        let stream = walk::mixed(&walk::stream(seed), &mut walk::Dice::new(seed));
        // The run that an input asks for is the last.
        let mut input = walk::input();
        let is_start = |event: &&Value| event["type"] == "RUN_STARTED";
        if let Some(last) = stream.iter().rfind(is_start) {
            input["runId"] = last["runId"].clone();
        }
        plays.push((format!("the walk of seed {seed}"), input, stream));
    }
    let events = plays.iter().flat_map(|(.., stream)| stream).map(|event| Event::from_value(event.clone()).unwrap());
    let document = python_sdk(&events.collect::<Vec<_>>()).await;
    let written = data(document["encoded"].as_str().unwrap().as_bytes());
    let mut written = written.iter().map(|event| serde_json::from_str(event).unwrap());
    for (scene, input, stream) in &plays {
        let written: Vec<Value> = written.by_ref().take(stream.len()).collect();
        assert_eq!(made(input, &written), made(input, stream), "{scene}");
    }
    assert_eq!(written.next(), None);
}
