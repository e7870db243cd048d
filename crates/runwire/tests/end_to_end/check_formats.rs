//! `runwire check`: what is printed, and what is told about the rules.

use std::path::Path;

use runwire_agui::CheckRule;
use serde_json::{Value, json};

use crate::program::run;

/// One warning, one piece of advice, and a violation that contradicts an earlier event.
const STREAM: &str = concat!(
    r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}"#,
    "\n",
    r#"{"type":"TEXT_MESSAGE_START","messageId":"m<1>"}"#,
    "\n",
    r#"{"type":"CUSTOM","name":"plain","value":1,"extra":{"x":[2]}}"#,
    "\n",
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#,
    "\n",
);

const WHOLE: &str = concat!(
    r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}"#,
    "\n",
    r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#,
    "\n",
);

async fn printed(folder: &Path, stream: &str, format: &str, code: i32) -> String {
    std::fs::write(folder.join("my run.jsonl"), stream).unwrap();
    run(folder, &["check", "my run.jsonl", "--format", format]).await.exits(code).stdout
}

#[tokio::test]
async fn text_shows_the_event_what_was_expected_and_the_earlier_event() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(folder.path(), STREAM, "text", 1).await;
    for line in [
        "warning   unknown-property at event 2, byte 123",
        r#"  event     {"type":"CUSTOM","name":"plain","value":1,"extra":{"x":[2]}}"#,
        "  at        /extra",
        r#"  came      {"x":[2]}"#,
        "advice    unprefixed-name at event 2, byte 123",
        "violation text-message-open-at-finish at event 3, byte 184",
        "  expected  Every text message is closed with TEXT_MESSAGE_END before the run finishes.",
        "  earlier   event 1, byte 74, opened text message 'm<1>'",
        "  see       https://docs.ag-ui.com/spec/1.0/basic/patterns/streaming#open-content-close",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\nis not in\n{text}");
    }
    assert!(
        text.lines().last().unwrap().starts_with("rejected  at event 3 by rule text-message-open-at-finish: "),
        "{text}"
    );
}

#[tokio::test]
async fn text_passes_no_control_character_of_the_stream_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    // An escape sequence, a line of its own, DEL, and the one-character CSI.
    let sly = r"\u001b[31mred\nconforms\u007f\u009b2J";
    let event = |text: &str| text.replace("SLY", sly) + "\n";
    let error = event(r#"{"type":"RUN_STARTED","threadId":"t","runId":"SLY"}"#)
        + &event(r#"{"type":"SLY","SLY":1}"#)
        + &event(r#"{"type":"CUSTOM","name":"SLY","value":1,"SLY":1}"#)
        + &event(r#"{"type":"RUN_ERROR","message":"SLY"}"#);
    let violation = event(r#"{"type":"RUN_STARTED","threadId":"t","runId":"SLY"}"#)
        + &event(r#"{"type":"STEP_STARTED","stepName":"SLY"}"#)
        + &event(r#"{"type":"STEP_STARTED","stepName":"SLY"}"#);
    for (stream, code) in [(error, 0), (violation, 1)] {
        let text = printed(folder.path(), &stream, "text", code).await;
        assert!(text.contains("[31mred conforms  2J"), "{text:?}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("conforms") && line != "conforms to AG-UI 1.0"), "{text:?}");
    }
}

#[tokio::test]
async fn neither_text_nor_junit_takes_a_line_or_a_direction_from_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let id = r"r\nrun r2 ended: success\u202eolleh\u2028";
    let stream = [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"ID","protocolVersion":"1.0"}"#,
        r#"{"type":"RUN_ERROR","message":"down\nconforms to AG-UI 1.0"}"#,
    ];
    let stream = stream.map(|event| event.replace("ID", id) + "\n").concat();
    let told = "run r run r2 ended: success olleh  ended: error: down conforms to AG-UI 1.0";
    let xml = printed(folder.path(), &stream, "junit", 0).await;
    assert!(xml.contains(&format!("<system-out>{told}\n</system-out>")), "{xml}");
    let text = printed(folder.path(), &stream, "text", 0).await;
    assert!(text.starts_with(&told.replacen("run ", "run       ", 1)), "{text}");
}

#[tokio::test]
async fn what_a_run_says_at_length_is_cut_in_text_and_whole_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let (id, said) = ("r".repeat(100_000), "down ".repeat(20_000));
    let started = format!(r#"{{"type":"RUN_STARTED","threadId":"t","runId":"{id}","protocolVersion":"1.0"}}"#);
    let stream = format!("{started}\n{{\"type\":\"RUN_ERROR\",\"message\":\"{said}\"}}\n");
    let text = printed(folder.path(), &stream, "text", 0).await;
    let expected = format!("run       {}… ended: error: {}…\n", "r".repeat(80), "down ".repeat(80));
    assert!(text.starts_with(&expected), "{text}");
    let report: Value = serde_json::from_str(&printed(folder.path(), &stream, "json", 0).await).unwrap();
    assert_eq!((&report["runs"][0]["run_id"], &report["runs"][0]["message"]), (&json!(id), &json!(said)));
}

#[tokio::test]
async fn text_tells_no_more_warnings_than_a_person_reads_and_always_the_violation() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines: Vec<&str> = STREAM.lines().collect();
    lines.splice(2..3, [r#"{"type":"NEWS"}"#; 500]);
    let text = printed(folder.path(), &lines.join("\n"), "text", 1).await;
    assert_eq!(text.matches("warning   unknown-event").count(), 50);
    assert!(
        text.contains("… and 450 more warnings") && text.contains("violation text-message-open-at-finish"),
        "{text}"
    );
}

#[tokio::test]
async fn json_is_the_documented_report_and_more_members_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(folder.path(), STREAM, "json", 1).await;
    let full: Value = serde_json::from_str(&text).unwrap();
    let members: Vec<&str> = full.as_object().unwrap().keys().map(String::as_str).collect();
    let documented = ["outcome", "error", "warnings", "runs", "events", "messages", "state"];
    assert_eq!(members, [&documented[..], &["findings", "stream", "source"]].concat());
    let plain = run(folder.path(), &["check", "my run.jsonl", "--json"]).await.exits(1).stdout;
    assert!(text.starts_with(plain.trim_end().strip_suffix('}').unwrap()), "{plain}\n{text}");

    let findings = full["findings"].as_array().unwrap();
    let told: Vec<[&Value; 4]> =
        findings.iter().map(|f| [&f["rule"], &f["severity"], &f["event"], &f["offset"]]).collect();
    let expected = json!([
        ["unknown-property", "warning", 2, 123],
        ["unprefixed-name", "advice", 2, 123],
        ["text-message-open-at-finish", "violation", 3, 184],
    ]);
    assert_eq!(json!(told), expected);
    assert_eq!(findings[2]["contradicts"], json!({ "event": 1, "offset": 74, "what": "opened text message 'm<1>'" }));
    assert_eq!((&full["source"], &full["stream"]["form"]), (&json!("my run.jsonl"), &json!("ndjson")));
}

#[tokio::test]
async fn advice_never_changes_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let stream = WHOLE.replace(r#","protocolVersion":"1.0""#, "");
    let text = printed(folder.path(), &stream, "text", 0).await;
    assert!(text.contains("advice    version-missing") && text.ends_with("conforms to AG-UI 1.0\n"), "{text}");
    assert_eq!(printed(folder.path(), WHOLE, "text", 0).await.lines().count(), 3, "nothing was found");
}

#[tokio::test]
async fn junit_is_a_suite_a_stream_with_a_case_for_the_rules_and_one_for_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let xml = printed(folder.path(), STREAM, "junit", 1).await;
    assert!(xml.starts_with(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"runwire check\" tests=\"2\" failures=\"1\">"
    ));
    for part in [
        r#"<testsuite name="my run.jsonl" tests="2" failures="1" errors="0" skipped="1">"#,
        r#"<failure type="text-message-open-at-finish" message="RUN_FINISHED came while text messages are still open: 'm&lt;1&gt;'"#,
        "earlier: event 1, byte 74, opened text message 'm&lt;1&gt;'",
        "<skipped message=",
        "warning unknown-property at event 2",
        "advice unprefixed-name at event 2",
    ] {
        assert!(xml.contains(part), "{part}\nis not in\n{xml}");
    }
    let truncated = printed(folder.path(), WHOLE.lines().next().unwrap(), "junit", 1).await;
    assert!(
        truncated.contains(r#"<failure type="truncated-stream""#) && !truncated.contains("<skipped"),
        "{truncated}"
    );
    let failed = WHOLE.replace(r#""type":"RUN_FINISHED""#, r#""type":"RUN_ERROR","message":"down""#);
    let failed =
        failed.replace(r#","threadId":"t","runId":"r"}"#, "}").replacen("}", r#","threadId":"t","runId":"r"}"#, 1);
    let conforming = printed(folder.path(), &failed, "junit", 0).await;
    assert!(conforming.contains(r#"failures="0""#) && conforming.contains("run r ended: error: down"), "{conforming}");
}

/// The members that the schema of SARIF 2.1.0 requires, and the ranges that it sets.
#[tokio::test]
async fn sarif_names_the_rules_the_places_and_the_earlier_event() {
    let folder = tempfile::tempdir().unwrap();
    let log: Value = serde_json::from_str(&printed(folder.path(), STREAM, "sarif", 1).await).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-schema-2.1.0.json"));
    let [run] = &log["runs"].as_array().unwrap()[..] else { panic!("{log:#}") };
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(run["artifacts"], json!([{ "location": { "uri": "my%20run.jsonl" }, "length": STREAM.len() }]));
    let results = run["results"].as_array().unwrap();
    let levels: Vec<&Value> = results.iter().map(|result| &result["level"]).collect();
    assert_eq!(levels, ["warning", "note", "error"]);
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"], "{result:#}");
        assert!(rules[index]["helpUri"].as_str().unwrap().starts_with("https://"), "{result:#}");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty(), "{result:#}");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "my%20run.jsonl");
        let region = &place["region"];
        let offset = usize::try_from(region["byteOffset"].as_u64().unwrap()).unwrap();
        let length = usize::try_from(region["byteLength"].as_u64().unwrap()).unwrap();
        assert_eq!(region["snippet"]["text"], STREAM[offset..offset + length]);
    }
    let [related] = &results[2]["relatedLocations"].as_array().unwrap()[..] else { panic!("{log:#}") };
    assert_eq!(related["physicalLocation"]["region"]["byteOffset"], 74);
    assert_eq!(related["message"]["text"], "Event 1 opened text message 'm<1>'.");

    let clean: Value = serde_json::from_str(&printed(folder.path(), WHOLE, "sarif", 0).await).unwrap();
    assert_eq!((&clean["runs"][0]["results"], &clean["runs"][0]["tool"]["driver"]["rules"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn every_rule_is_listed_with_its_severity_and_page_and_can_be_explained() {
    let folder = tempfile::tempdir().unwrap();
    let list = run(folder.path(), &["check", "--rules"]).await.exits(0).stdout;
    let all = run(folder.path(), &["check", "--rules", "--json"]).await.exits(0).json_lines().remove(0);
    let described = all.as_array().unwrap();
    assert_eq!((list.lines().count(), described.len()), (CheckRule::all().count(), CheckRule::all().count()));
    for ((rule, line), described) in CheckRule::all().zip(list.lines()).zip(described) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, [rule.severity().as_str(), rule.as_str(), &rule.entry().url()]);
        assert_eq!((&described["rule"], &described["page"]), (&json!(rule), &json!(rule.entry().url())));
        assert!(!described["bad"].is_null() && !described["good"].is_null(), "{described}");
    }
    // One of each kind of example.
    for (rule, words) in [
        ("step-not-open", r#"This breaks it:"#),
        ("line-ends", r#"\r"#),
        ("requested-run-missing", "In answer to the run input:"),
        ("null-member", "This is about run inputs"),
        ("unexpanded-chunk", "use the verifier by itself"),
        ("malformed-frame", r"\x00\x00\x00"),
        ("long-silence", "after 55000 ms"),
        ("response-left-open", "(not closed for 60000 ms)"),
        ("unasked-protobuf", "Accept: text/event-stream"),
        ("truncated-stream", "truncated-stream (truncation)"),
    ] {
        let text = run(folder.path(), &["check", "--explain", rule]).await.exits(0).stdout;
        assert!(
            text.contains(words) && text.contains("This does not:") && text.contains("https://"),
            "{rule}:\n{text}"
        );
    }
}

#[tokio::test]
async fn an_explained_stream_can_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let rule =
        run(folder.path(), &["check", "--explain", "step-not-open", "--json"]).await.exits(0).json_lines().remove(0);
    std::fs::write(folder.path().join("bad"), rule["bad"].as_str().unwrap()).unwrap();
    std::fs::write(folder.path().join("good"), rule["good"].as_str().unwrap()).unwrap();
    let bad = run(folder.path(), &["check", "bad", "--json"]).await.exits(1).json_lines().remove(0);
    assert_eq!(bad["error"]["rule"], "step-not-open");
    run(folder.path(), &["check", "good"]).await.exits(0);
}

#[tokio::test]
async fn a_rule_that_there_is_not_is_told_the_nearest_one() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |args: &[&str]| run(folder.path(), &[&["check"], args].concat()).await;
    check(&["--explain", "step-not-opened"]).await.could_not(&["step-not-opened", "did you mean 'step-not-open'?"]);
    let far = check(&["--explain", "nonsense"]).await;
    assert!(!far.stderr.contains("did you mean"), "{}", far.stderr);
    far.could_not(&["there is no rule 'nonsense'", "--rules lists all"]);
    check(&["--rules", "--format", "sarif"]).await.could_not(&["text or json"]);
    check(&["--rules", "run.jsonl"]).await.could_not(&["cannot be used with"]);
}

#[tokio::test]
async fn without_reducing_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.jsonl"), STREAM).unwrap();
    let report =
        run(folder.path(), &["check", "run.jsonl", "--json", "--no-reduce"]).await.exits(1).json_lines().remove(0);
    assert_eq!((&report["events"], &report["messages"], &report["state"]), (&json!([]), &json!([]), &Value::Null));
    assert_eq!(report["error"]["rule"], "text-message-open-at-finish");
    let text = run(folder.path(), &["check", "run.jsonl", "--no-reduce"]).await.exits(1).stdout;
    let told = "delivered 3 events; messages and state were not built (--no-reduce), so patches and targets that do not fit \
                them were not looked for";
    assert!(text.contains(told), "{text}");
}

#[tokio::test]
async fn a_truncation_is_told_as_one_and_not_as_a_violation() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(folder.path(), STREAM.lines().next().unwrap(), "text", 1).await;
    assert!(text.starts_with("truncation truncated-stream at event 1, byte 73\n"), "{text}");
    assert!(!text.contains("violation") && !text.contains("rejected"), "{text}");
}
