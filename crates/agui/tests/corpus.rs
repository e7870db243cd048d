//! The public AG-UI 1.0 consumer corpus, replayed through the consumer and the reducer.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use runwire_agui::{AgentVersion, CheckOptions, Checker, Outgoing, PreparedInput, Report, ReportedOutcome, Rule};
use serde_json::{Map, Value, json};

/// Cases that the specification judges otherwise, each with the reason. A case that starts to pass has to leave.
const OVERRULED: [(&str, &str); 2] = [
    ("truncated-run-reported-as-completed", "pins a gap of the reference client: a truncated run is not completed"),
    ("unknown-enum-value-role-fatal", "pins a gap of the reference client: the specification strips an unknown role"),
];

/// The rule behind each text that the corpus expects of the reference client.
const RULES: [(&str, Rule); 24] = [
    ("does not match the open stream's role", Rule::ChunkConflict),
    ("does not match the open stream's toolCallName", Rule::ChunkConflict),
    ("No active text message found with ID", Rule::TextMessageNotOpen),
    ("No active reasoning message found with ID", Rule::ReasoningMessageNotOpen),
    ("First TEXT_MESSAGE_CHUNK must have a messageId", Rule::FirstChunk),
    ("First TOOL_CALL_CHUNK must have a toolCallName", Rule::FirstChunk),
    ("two interrupts carrying the id", Rule::DuplicateInterruptId),
    ("The run has already finished with 'RUN_FINISHED'", Rule::EventAfterFinish),
    ("First event must be 'RUN_STARTED'", Rule::FirstEvent),
    ("Cannot send 'RUN_STARTED' while a run is still active", Rule::NestedRunStarted),
    ("Cannot send 'RUN_FINISHED' while text messages are still active", Rule::TextMessageOpenAtFinish),
    ("expected \\\"reasoning\\\"", Rule::MalformedValue),
    ("expected \"reasoning\"", Rule::MalformedValue),
    ("expected object, received array", Rule::MalformedValue),
    ("s-run-finished-active-subagent-1", Rule::SubagentOpenAtFinish),
    ("must agree on their runId", Rule::RunIdMismatch),
    ("carry the input's threadId", Rule::ThreadIdMismatch),
    ("carries the input's threadId", Rule::ForeignThread),
    ("that was not started", Rule::StepNotOpen),
    ("does not match", Rule::AttributionMismatch),
    ("s-subagent-finished-unstarted-1", Rule::SubagentNotActive),
    ("delta", Rule::MalformedValue),
    ("name", Rule::MalformedValue),
    ("role", Rule::MalformedValue),
];

fn corpus() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/agui-1.0");
    folder.is_dir().then_some(folder)
}

#[test]
fn a_consumer_makes_of_every_corpus_stream_what_the_corpus_says() {
    let Some(folder) = corpus() else {
        eprintln!("SKIPPED: the AG-UI 1.0 corpus is not beside the repository (../shared/conformance).");
        return;
    };
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    cases.sort();
    assert_eq!(cases.len(), 77, "the corpus has 77 cases");
    let mut failures = Vec::new();
    for path in &cases {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let listed = OVERRULED.iter().find(|(listed, _)| *listed == name);
        match (replay(&case), listed) {
            (Err(reason), None) => failures.push(format!("{name}: {reason}")),
            (Ok(()), Some((_, why))) => failures.push(format!("{name} passes, but is listed as overruled: {why}")),
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// Replays one case: the client prepares its input for the agent that the case pins, and takes the stream as one JSON
/// object a line and as Server-Sent Events.
fn replay(case: &Value) -> Result<(), String> {
    let events = case["stream"].as_array().unwrap();
    let agent = case["client"]["maxProtocolVersion"].as_str().map_or(AgentVersion::Current, |v| v.parse().unwrap());
    let sent = Outgoing { agent, ..Outgoing::default() }.prepare(run_input(case, events)).map_err(|e| e.to_string())?;
    // The corpus leaves the ids to the stream, so a case without an input of its own is no answer to any.
    let input = case.get("input").map(|_| sent.input.clone());
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let sse: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let consume = |stream: &str| {
        let mut checker = Checker::new(CheckOptions { input: input.clone(), agent, ..CheckOptions::default() });
        checker.push(stream.as_bytes()).unwrap();
        checker.finish().unwrap().report
    };
    let report = consume(&lines);
    assert_eq!(consume(&sse), report);
    judge(&report, &sent, &case["expect"])
}

/// The input that the case's client is asked to send.
fn run_input(case: &Value, events: &[Value]) -> Value {
    json!({
        "threadId": events[0]["threadId"].as_str().unwrap_or("t"),
        "runId": events[0]["runId"].as_str().unwrap_or("r"),
        "messages": case.pointer("/input/messages").cloned().unwrap_or_else(|| json!([])),
    })
}

fn judge(report: &Report, sent: &PreparedInput, expect: &Value) -> Result<(), String> {
    let known: &[&str] = &[
        "outcome",
        "errorContains",
        "runError",
        "eventTypes",
        "eventTypesAbsent",
        "eventPaths",
        "eventAbsentPaths",
        "warnings",
        "noWarnings",
        "messageCount",
        "messages",
        "state",
        "request",
        "requestAbsentPaths",
    ];
    let strange: Vec<_> = expect.as_object().unwrap().keys().filter(|key| !known.contains(&key.as_str())).collect();
    ensure(strange.is_empty(), || format!("expectations that this test does not know: {strange:?}"))?;
    judge_request(sent, expect)?;

    let error = report.error.as_ref().map(|error| format!("{}: {}", error.rule, error.message));
    match expect["outcome"].as_str() {
        Some("completed") => ensure(report.outcome == ReportedOutcome::Completed, || {
            format!("expected completion, was {}: {error:?}", report.outcome)
        })?,
        Some("failed") if expect["errorContains"] == "ended without a terminal event" => {
            ensure(report.outcome == ReportedOutcome::Truncated, || format!("was {}", report.outcome))?;
        }
        Some("failed") => {
            let Some(error) = &report.error else { return Err(format!("expected rejection, was {}", report.outcome)) };
            let words = expect["errorContains"].as_str().unwrap_or_default();
            let (_, rule) = RULES.iter().find(|(text, _)| words.contains(text)).expect("each text is mapped to a rule");
            ensure(error.rule == *rule, || format!("expected {rule} for {words:?}, was {}", error.rule))?;
        }
        other => return Err(format!("unknown outcome {other:?}")),
    }

    let events: Vec<Value> = report.events.iter().map(|event| event.to_value()).collect();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    if let Some(expected) = expect.get("eventTypes") {
        ensure(*expected == json!(types), || format!("expected the events {expected}, were {types:?}"))?;
    }
    for absent in list(expect, "eventTypesAbsent") {
        ensure(!types.contains(&absent.as_str().unwrap()), || format!("{absent} was delivered"))?;
    }
    let delivered = Value::Array(events);
    for (path, expected) in expect["eventPaths"].as_object().unwrap_or(&Map::new()) {
        ensure(at(&delivered, path) == Some(expected), || format!("{path} is {:?}", at(&delivered, path)))?;
    }
    for path in list(expect, "eventAbsentPaths") {
        ensure(at(&delivered, path.as_str().unwrap()).is_none(), || format!("{path} is there"))?;
    }

    let of_stream = report.warnings.iter().map(|warning| (&warning.message, &warning.path));
    let of_input = sent.warnings.iter().map(|warning| (&warning.message, &warning.path));
    let warnings: Vec<(&String, &Option<String>)> = of_stream.chain(of_input).collect();
    for expected in list(expect, "warnings") {
        // The words are the reference client's; it writes some of them large.
        let text = expected.as_str().unwrap().to_lowercase();
        let given = warnings.iter().any(|(message, path)| {
            message.to_lowercase().contains(&text)
                || path.as_deref().is_some_and(|path| path.to_lowercase().contains(&text))
        });
        ensure(given, || format!("no warning says {text:?}: {warnings:?}"))?;
    }
    if expect["noWarnings"] == true {
        ensure(warnings.is_empty(), || format!("warnings were given: {warnings:?}"))?;
    }

    let messages = serde_json::to_value(&report.messages).unwrap();
    if let Some(count) = expect["messageCount"].as_u64() {
        ensure(report.messages.len() as u64 == count, || format!("{} messages are held", report.messages.len()))?;
    }
    if let Some(expected) = expect.get("messages") {
        ensure(contains(&messages, expected), || format!("expected the messages {expected}, were {messages}"))?;
    }
    if let Some(expected) = expect.get("state") {
        ensure(report.state == *expected, || format!("expected the state {expected}, was {}", report.state))?;
    }
    let failure = report.runs.iter().rev().find_map(|run| run.message.as_deref());
    match &expect["runError"] {
        Value::Null => ensure(failure.is_none(), || format!("a run failed: {failure:?}")),
        Value::Bool(reported) => ensure(*reported == failure.is_some(), || format!("failure: {failure:?}")),
        part => ensure(failure.is_some_and(|text| text.contains(part.as_str().unwrap())), || {
            format!("expected the failure {part}, was {failure:?}")
        }),
    }
}

/// What the client sent, and what it must not have sent.
fn judge_request(sent: &PreparedInput, expect: &Value) -> Result<(), String> {
    let sent = serde_json::to_value(&sent.input).unwrap();
    if let Some(expected) = expect.get("request") {
        ensure(contains(&sent, expected), || format!("expected the request {expected}, was {sent}"))?;
    }
    for path in list(expect, "requestAbsentPaths") {
        ensure(at(&sent, path.as_str().unwrap()).is_none(), || format!("{path} was sent"))?;
    }
    Ok(())
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

fn list<'a>(expect: &'a Value, key: &str) -> &'a [Value] {
    expect[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The value at a dotted path.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// Whether every member that is expected is there; lists have equal length.
fn contains(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(key, expected)| actual.get(key).is_some_and(|actual| contains(actual, expected)))
        }
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len()
                && actual.iter().zip(expected).all(|(actual, expected)| contains(actual, expected))
        }
        _ => actual == expected,
    }
}
