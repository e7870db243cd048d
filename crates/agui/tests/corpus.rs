//! The public AG-UI 1.0 consumer corpus, replayed through the consumer and the reducer.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use runwire_agui::{Report, ReportedOutcome, Rule, RunAgentInput, check};
use serde_json::{Map, Value, json};

/// Cases that are judged otherwise, or not at all, each with the reason. A case that starts to pass has to leave.
const NOT_COVERED: [(&str, &str); 5] = [
    ("era-0-0-39-flattens-content", "needs a client that writes to an older peer; this crate sends nothing"),
    ("era-0-0-57-subagent-dropped-with-warning", "needs a client pinned to an older peer"),
    ("truncated-run-reported-as-completed", "pins a gap of the reference client: a truncated run is not completed"),
    ("unknown-enum-value-role-fatal", "pins a gap of the reference client: the specification strips an unknown role"),
    (
        "current-peer-declares-protocol-version",
        "only its request is of interest; sending the run input is the client's business",
    ),
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
        let listed = NOT_COVERED.iter().find(|(listed, _)| *listed == name);
        match (replay(&case), listed) {
            (Err(reason), None) => failures.push(format!("{name}: {reason}")),
            (Ok(()), Some((_, why))) => failures.push(format!("{name} passes, but is listed as not covered: {why}")),
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// Replays one case, as one JSON object a line and as Server-Sent Events.
fn replay(case: &Value) -> Result<(), String> {
    let events = case["stream"].as_array().unwrap();
    let input = run_input(case, events);
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let sse: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let report = check(lines.as_bytes(), input.clone()).map_err(|error| error.to_string())?;
    assert_eq!(check(sse.as_bytes(), input).unwrap(), report);
    judge(&report, &case["expect"], case)
}

/// The input that the case's client starts from; the corpus leaves its ids to the stream.
fn run_input(case: &Value, events: &[Value]) -> Option<RunAgentInput> {
    let messages = case.get("input")?.get("messages")?;
    let input = json!({
        "threadId": events[0]["threadId"],
        "runId": events[0]["runId"],
        "messages": messages,
        "protocolVersion": "1.0",
    });
    Some(RunAgentInput::decode_value(input).unwrap().0)
}

fn judge(report: &Report, expect: &Value, case: &Value) -> Result<(), String> {
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
    judge_request(expect, case)?;

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

    for expected in list(expect, "warnings") {
        let text = expected.as_str().unwrap();
        let given = report.warnings.iter().any(|warning| {
            warning.message.contains(text) || warning.path.as_deref().is_some_and(|path| path.contains(text))
        });
        ensure(given, || format!("no warning says {text:?}: {:?}", report.warnings))?;
    }
    if expect["noWarnings"] == true {
        ensure(report.warnings.is_empty(), || format!("warnings were given: {:?}", report.warnings))?;
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

/// What reading the input makes of the messages that the client sends. All else about a request is the client's.
fn judge_request(expect: &Value, case: &Value) -> Result<(), String> {
    let Some(request) = expect.get("request") else { return Ok(()) };
    let Some(expected) = request.get("messages") else { return Err("sends no request".to_owned()) };
    let events = case["stream"].as_array().unwrap();
    let input = run_input(case, events).map(|input| serde_json::to_value(input).unwrap());
    let messages = input.map(|input| input["messages"].clone()).unwrap_or_default();
    ensure(contains(&messages, expected), || format!("expected the request {expected}, was {messages}"))
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
