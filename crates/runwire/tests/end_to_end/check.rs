//! `runwire check`: what a client would make of a captured stream, as a script sees it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{Done, run, run_with_input};
use crate::real_part::loudly;

fn started() -> Value {
    json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" })
}

fn finished() -> Value {
    json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" })
}

fn error(message: &str) -> Value {
    json!({ "type": "RUN_ERROR", "message": message })
}

fn step(kind: &str, name: &str) -> Value {
    json!({ "type": format!("STEP_{kind}"), "stepName": name })
}

fn text(kind: &str) -> Value {
    let mut event = json!({ "type": format!("TEXT_MESSAGE_{kind}"), "messageId": "m" });
    match kind {
        "START" => event["role"] = "assistant".into(),
        "CONTENT" => event["delta"] = "Hello".into(),
        _ => {}
    }
    event
}

fn call(kind: &str) -> Value {
    let mut event = json!({ "type": format!("TOOL_CALL_{kind}"), "toolCallId": "c" });
    match kind {
        "START" => event["toolCallName"] = "look".into(),
        "ARGS" => event["delta"] = "{}".into(),
        _ => {}
    }
    event
}

fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

/// Checks a stream that comes by standard input, and gives the report.
async fn report(events: &[Value], code: i32) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let done = run_with_input(folder.path(), &["check", "-", "--format", "json"], lines(events).as_bytes()).await;
    done.exits(code).json_lines().remove(0)
}

#[tokio::test]
async fn the_report_of_a_conforming_stream_is_exactly_this() {
    let folder = tempfile::tempdir().unwrap();
    let events = [started(), text("START"), text("CONTENT"), text("END"), finished()];
    std::fs::write(folder.path().join("run.jsonl"), lines(&events)).unwrap();
    let done = run(folder.path(), &["check", "run.jsonl", "--json"]).await.exits(0);
    assert_eq!(done.stderr, "");
    let expected = concat!(
        r#"{"outcome":"completed","error":null,"warnings":[],"#,
        r#""runs":[{"thread_id":"t","run_id":"r","ending":"success","message":null}],"#,
        r#""events":[{"type":"RUN_STARTED","threadId":"t","runId":"r"},"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"},"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello"},"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"m"},"#,
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}],"#,
        r#""messages":[{"role":"assistant","id":"m","content":"Hello"}],"state":{}}"#,
        "\n"
    );
    assert_eq!(done.stdout, expected);
    let told = run(folder.path(), &["check", "run.jsonl"]).await.exits(0).stdout;
    assert!(told.contains("conforms to AG-UI 1.0") && told.contains("5 events, 1 messages"), "{told}");
}

#[tokio::test]
async fn the_report_of_a_rejected_stream_names_the_rule_and_the_event_and_keeps_what_came_before() {
    let events = [started(), text("START"), text("CONTENT"), step("FINISHED", "never"), text("END"), finished()];
    let report = report(&events, 1).await;
    assert_eq!(report["outcome"], "rejected");
    assert_eq!(report["error"]["rule"], "step-not-open");
    assert_eq!(report["error"]["event"], 3);
    assert!(report["error"]["message"].as_str().unwrap().contains("never"), "{report}");
    assert_eq!(report["error"].as_object().unwrap().len(), 3);
    assert_eq!(report["events"], json!(events[..3]));
    assert_eq!(report["messages"], json!([{ "id": "m", "role": "assistant", "content": "Hello" }]));
}

#[tokio::test]
async fn a_stream_may_be_sse_lines_or_an_array_in_a_file_or_on_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let events = [started(), text("START"), text("CONTENT"), text("END"), finished()];
    let sse = |end: &str| -> String {
        let events = events.iter().enumerate().map(|(i, e)| format!("id: {i}.0{end}data: {e}{end}{end}"));
        format!("retry: 500{end}{end}: a comment{end}{end}") + &events.collect::<String>()
    };
    let captures = [
        lines(&events),
        json!(events).to_string(),
        format!("{:#}", json!(events)),
        sse("\n"),
        sse("\r\n"),
        sse("\r"),
        format!("\u{feff}{}", sse("\n")),
    ];
    let mut reports = Vec::new();
    for capture in &captures {
        std::fs::write(folder.path().join("capture"), capture).unwrap();
        let file = run(folder.path(), &["check", "--json", "capture"]).await.exits(0).stdout;
        let piped = run_with_input(folder.path(), &["check", "--json", "-"], capture.as_bytes()).await.exits(0).stdout;
        assert_eq!(file, piped);
        reports.push(file);
    }
    assert!(reports[0].contains(r#""outcome":"completed""#), "{}", reports[0]);
    for (capture, report) in captures.iter().zip(&reports) {
        assert_eq!(*report, reports[0], "{capture}");
    }
}

/// The seed's rules on runs and steps, and on what is open at the end: what breaks one is rejected by its name.
#[tokio::test]
async fn each_rule_of_the_lifecycle_rejects_the_stream_that_breaks_it() {
    let cases = [
        ("first-event", 0, vec![text("START")]),
        ("first-event", 0, vec![finished()]),
        ("nested-run-started", 1, vec![started(), started()]),
        ("event-after-finish", 2, vec![started(), finished(), text("START")]),
        ("event-after-finish", 2, vec![started(), finished(), finished()]),
        ("event-after-error", 2, vec![started(), error("broke"), text("START")]),
        ("event-after-error", 2, vec![started(), error("broke"), finished()]),
        ("event-after-error", 2, vec![started(), error("broke"), error("again")]),
        ("event-after-error", 3, vec![started(), finished(), error("late"), error("again")]),
        ("event-after-error", 1, vec![error("unreachable"), error("again")]),
        ("step-already-open", 2, vec![started(), step("STARTED", "a"), step("STARTED", "a")]),
        ("step-not-open", 1, vec![started(), step("FINISHED", "a")]),
        ("step-not-open", 3, vec![started(), step("STARTED", "a"), step("FINISHED", "a"), step("FINISHED", "a")]),
        ("step-open-at-finish", 2, vec![started(), step("STARTED", "a"), finished()]),
        ("text-message-open-at-finish", 2, vec![started(), text("START"), finished()]),
        ("text-message-not-open", 1, vec![started(), text("CONTENT")]),
        ("tool-call-open-at-finish", 3, vec![started(), call("START"), call("ARGS"), finished()]),
        ("tool-call-not-open", 1, vec![started(), call("END")]),
        // What a failed run left open does not stay open in the next one.
        ("text-message-not-open", 4, vec![started(), text("START"), error("broke"), started(), text("CONTENT")]),
    ];
    for (rule, event, stream) in cases {
        let report = report(&stream, 1).await;
        assert_eq!(report["outcome"], "rejected", "{rule}: {report}");
        assert_eq!((&report["error"]["rule"], &report["error"]["event"]), (&json!(rule), &json!(event)), "{report}");
        assert_eq!(report["events"].as_array().unwrap().len(), event, "{rule}: what came before stays delivered");
    }
}

#[tokio::test]
async fn what_the_lifecycle_allows_conforms() {
    for stream in [
        vec![
            started(),
            step("STARTED", "a"),
            step("STARTED", "b"),
            step("FINISHED", "a"),
            step("FINISHED", "b"),
            finished(),
        ],
        vec![
            started(),
            step("STARTED", "a"),
            step("FINISHED", "a"),
            step("STARTED", "a"),
            step("FINISHED", "a"),
            finished(),
        ],
        vec![started(), finished(), started(), finished()],
        vec![started(), text("START"), error("broke"), started(), finished()],
        vec![started(), finished(), error("late"), started(), finished()],
        vec![error("unreachable"), started(), finished()],
    ] {
        let report = report(&stream, 0).await;
        assert_eq!(report["outcome"], "completed", "{report}");
        assert_eq!(report["events"], json!(stream));
    }
}

#[tokio::test]
async fn a_truncated_run_has_no_outcome_and_keeps_what_it_delivered() {
    let events = [started(), text("START"), text("CONTENT")];
    let truncated = report(&events, 1).await;
    assert_eq!(truncated["outcome"], "truncated");
    assert_eq!(truncated["error"], Value::Null);
    assert_eq!(truncated["runs"], json!([{ "thread_id": "t", "run_id": "r", "ending": "truncated", "message": null }]));
    assert_eq!(truncated["events"], json!(events));
    assert_eq!(truncated["messages"][0]["content"], "Hello");
    assert_eq!(report(&[], 1).await["outcome"], "truncated", "a stream without an event told of no run");
}

#[tokio::test]
async fn a_run_that_reports_its_own_failure_is_a_conforming_stream_of_a_failed_run() {
    for (stream, ids) in [
        (vec![started(), text("START"), error("the model is down")], json!(["t", "r"])),
        (vec![error("the model is down")], json!([null, null])),
        (vec![started(), finished(), error("the model is down")], json!(["t", "r"])),
    ] {
        let report = report(&stream, 0).await;
        assert_eq!(report["outcome"], "completed", "{report}");
        let run = &report["runs"][0];
        assert_eq!((&run["ending"], &run["message"]), (&json!("error"), &json!("the model is down")), "{report}");
        assert_eq!(json!([run["thread_id"], run["run_id"]]), ids, "{report}");
    }
}

#[tokio::test]
async fn a_cancelled_run_is_neither_a_success_nor_a_failure() {
    let mut cancelled = finished();
    cancelled["outcome"] = json!({ "type": "cancelled" });
    let report = report(&[started(), cancelled], 0).await;
    assert_eq!(report["runs"], json!([{ "thread_id": "t", "run_id": "r", "ending": "cancelled", "message": null }]));
}

#[tokio::test]
async fn an_interrupted_run_waits_and_an_unknown_outcome_is_stripped_with_a_warning() {
    let mut interrupted = finished();
    interrupted["outcome"] = json!({ "type": "interrupt", "interrupts": [{ "id": "i", "reason": "approval" }] });
    assert_eq!(report(&[started(), interrupted], 0).await["runs"][0]["ending"], "interrupt");

    let mut unknown = finished();
    unknown["outcome"] = json!({ "type": "paused" });
    let report = report(&[started(), unknown], 0).await;
    assert_eq!(report["runs"][0]["ending"], "success", "an outcome that is stripped is absent");
    let warning = &report["warnings"][0];
    assert_eq!((&warning["event"], &warning["path"]), (&json!(1), &json!("/outcome")), "{warning}");
    assert!(warning["rule"].is_string() && warning["message"].is_string(), "{warning}");
}

#[tokio::test]
async fn a_run_is_judged_from_the_input_that_it_answers() {
    let folder = tempfile::tempdir().unwrap();
    let input = json!({ "threadId": "t", "runId": "r", "protocolVersion": "1.0",
                        "messages": [{ "id": "u", "role": "user", "content": "Hi" }], "state": { "n": 1 } });
    std::fs::write(folder.path().join("input.json"), input.to_string()).unwrap();
    let check = async |events: &[Value]| -> Done {
        let args = ["check", "--json", "--input", "input.json", "-"];
        run_with_input(folder.path(), &args, lines(events).as_bytes()).await
    };
    let change = json!({ "type": "STATE_DELTA", "delta": [{ "op": "replace", "path": "/n", "value": 2 }] });
    let report = check(&[started(), change, finished()]).await.exits(0).json_lines().remove(0);
    assert_eq!(report["state"], json!({ "n": 2 }));
    assert_eq!(report["messages"], input["messages"]);

    let other = json!({ "type": "RUN_STARTED", "threadId": "another", "runId": "r" });
    let report = check(&[other]).await.exits(1).json_lines().remove(0);
    assert_eq!(report["error"]["rule"], "foreign-thread");
}

#[tokio::test]
async fn what_cannot_be_checked_is_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    put("run.jsonl", lines(&[started(), finished()]).as_bytes());
    put("prose.txt", b"Dear reader, this is no stream.");
    put("broken.json", b"[{\"type\":");
    let deep = json!({ "type": "STATE_SNAPSHOT", "snapshot": (0..200).fold(json!(1), |inner, _| json!([inner])) });
    put("deep.jsonl", lines(&[started(), deep, finished()]).as_bytes());
    put("input.json", b"{\"threadId\":1}");
    let check = async |args: &[&str]| run(folder.path(), &[&["check"], args].concat()).await;
    check(&["absent.jsonl"]).await.could_not(&["absent.jsonl cannot be read"]);
    check(&["."]).await.could_not(&["cannot be read"]);
    check(&["prose.txt"]).await.could_not(&["prose.txt", "Dear reader"]);
    check(&["broken.json"]).await.could_not(&["broken.json", "not JSON"]);
    check(&["deep.jsonl"]).await.could_not(&["deep.jsonl: event 1 of the stream nests more than 127 levels"]);
    check(&["run.jsonl", "--input", "absent.json"]).await.could_not(&["absent.json cannot be read"]);
    check(&["run.jsonl", "--input", "input.json"]).await.could_not(&["input.json"]);
    check(&["run.jsonl", "--format", "song"]).await.could_not(&["song"]);
    check(&[]).await.could_not(&["<SOURCE>"]);
}

/// Cases of the corpus that are judged otherwise here, or not at all, each with the reason.
const OTHERWISE: [(&str, &str); 4] = [
    ("truncated-run-reported-as-completed", "pins a gap of the reference client: a truncated run is not completed"),
    ("unknown-enum-value-role-fatal", "pins a gap of the reference client: an unknown role is stripped"),
    ("era-0-0-39-flattens-content", "about what a client sends to an older peer"),
    ("era-0-0-57-subagent-dropped-with-warning", "needs a client that is pinned to an older peer"),
];

/// A case's name, and what it holds.
fn corpus() -> Option<Vec<(String, Value)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/agui-1.0");
    if !folder.is_dir() {
        loudly("SKIPPED: the AG-UI 1.0 corpus is not beside the repository (../shared/conformance).");
        return None;
    }
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    };
    Some(paths.iter().map(read).collect())
}

#[tokio::test]
async fn the_whole_corpus_comes_out_of_the_binary_as_it_says() {
    let Some(cases) = corpus() else { return };
    assert_eq!(cases.len(), 77, "the corpus has 77 cases");
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for (name, case) in &cases {
        if OTHERWISE.iter().any(|(other, _)| other == name) {
            continue;
        }
        if let Err(why) = judge(folder.path(), case).await {
            failures.push(format!("{name}: {why}"));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

async fn judge(folder: &Path, case: &Value) -> Result<(), String> {
    let events = case["stream"].as_array().unwrap();
    let mut args = vec!["check", "--json", "-"];
    if let Some(messages) = case["input"].get("messages") {
        let input = json!({ "threadId": events[0]["threadId"], "runId": events[0]["runId"], "protocolVersion": "1.0",
                            "messages": messages });
        std::fs::write(folder.join("input.json"), input.to_string()).unwrap();
        args.extend(["--input", "input.json"]);
    }
    let sse: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let done = run_with_input(folder, &args, sse.as_bytes()).await;
    let report: Value = serde_json::from_str(&done.stdout).map_err(|e| format!("{e}: {done:?}"))?;

    let expect = &case["expect"];
    let (outcome, code) = match expect["outcome"].as_str().unwrap() {
        "completed" => ("completed", 0),
        _ if expect["errorContains"] == "ended without a terminal event" => ("truncated", 1),
        _ => ("rejected", 1),
    };
    let is = |what: &str, actual: Value, expected: Value| {
        if actual == expected { Ok(()) } else { Err(format!("{what} is {actual}, expected {expected}")) }
    };
    is("outcome", report["outcome"].clone(), outcome.into())?;
    is("the exit code", done.code.into(), code.into())?;
    is("an error", (!report["error"].is_null()).into(), (outcome == "rejected").into())?;
    let types: Vec<&Value> = report["events"].as_array().unwrap().iter().map(|event| &event["type"]).collect();
    if let Some(expected) = expect.get("eventTypes") {
        is("the list of events", json!(types), expected.clone())?;
    }
    if let Some(count) = expect.get("messageCount") {
        is("the number of messages", report["messages"].as_array().unwrap().len().into(), count.clone())?;
    }
    if let Some(state) = expect.get("state") {
        is("the state", report["state"].clone(), state.clone())?;
    }
    if expect["noWarnings"] == true {
        is("the list of warnings", report["warnings"].clone(), json!([]))?;
    }
    let failures = report["runs"].as_array().unwrap().iter().filter(|run| run["ending"] == "error").count();
    let failed = !matches!(expect["runError"], Value::Null | Value::Bool(false));
    is("a failure that the run reported", (failures > 0).into(), failed.into())
}
