//! `runwire check`: what a browser's network tab saves.

use serde_json::{Value, json};

use crate::check_sources::{events, frames, sse};
use crate::program::{run, run_with_input};

/// A browser's capture with these responses: URL, media type, body, encoding.
fn har(responses: &[(&str, &str, Option<&str>, Option<&str>)]) -> String {
    let entry = |(url, mime, text, encoding): &(&str, &str, Option<&str>, Option<&str>)| {
        let mut content = json!({ "size": 1, "mimeType": mime });
        if let Some(text) = text {
            content["text"] = (*text).into();
        }
        if let Some(encoding) = encoding {
            content["encoding"] = (*encoding).into();
        }
        json!({ "startedDateTime": "2026-11-29T21:18:00.123Z", "time": 12.5,
                "request": { "method": "POST", "url": url }, "response": { "status": 200, "content": content } })
    };
    let entries: Vec<Value> = responses.iter().map(entry).collect();
    format!("{:#}", json!({ "log": { "version": "1.2", "creator": { "name": "browser" }, "entries": entries } }))
}

#[tokio::test]
async fn each_event_stream_of_a_browsers_capture_is_checked_under_its_url() {
    let folder = tempfile::tempdir().unwrap();
    let good = sse(&events());
    let bad = sse(&events()[1..]);
    // "data: {…}" in base64 is what a browser saves when it is not sure of the text.
    let encoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&good)
    };
    let capture = har(&[
        ("https://app.example/page", "text/html", Some("<html>"), None),
        ("https://app.example/agent?key=secret", "text/event-stream", Some(&good), None),
        ("https://app.example/agent?key=secret", "text/event-stream; charset=utf-8", Some(&bad), None),
        ("https://app.example/other", "text/event-stream", Some(&encoded), Some("base64")),
        ("https://app.example/unsaved", "text/event-stream", None, None),
    ]);
    std::fs::write(folder.path().join("network.har"), &capture).unwrap();
    let done = run(folder.path(), &["check", "network.har", "--format", "json"]).await.exits(1);
    assert!(done.stderr.contains("https://app.example/unsaved"), "{}", done.stderr);
    assert!(!done.stdout.contains("secret"), "what stands in a query may be secret: {}", done.stdout);
    let told: Vec<Value> =
        done.json_lines().iter().map(|report| json!([report["source"], report["outcome"]])).collect();
    let expected = json!([
        ["POST https://app.example/agent (request 2)", "completed"],
        ["POST https://app.example/agent (request 3)", "rejected"],
        ["POST https://app.example/other (request 4)", "completed"],
    ]);
    assert_eq!(json!(told), expected);

    let text = run_with_input(folder.path(), &["check", "-"], capture.as_bytes()).await.exits(1).stdout;
    assert!(text.contains("POST https://app.example/agent (request 3)\nviolation first-event"), "{text}");
    run(folder.path(), &["check", "network.har", "--only", "/other"]).await.exits(0);
    let xml = run(folder.path(), &["check", "network.har", "--format", "junit"]).await.exits(1).stdout;
    assert_eq!((xml.matches("<testsuite ").count(), xml.matches("<failure ").count()), (3, 1), "{xml}");
}

#[tokio::test]
async fn an_odd_entry_of_a_capture_is_named_and_skipped_and_the_rest_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let good = sse(&events());
    let whole = har(&[("https://app.example/good", "text/event-stream", Some(good.as_str()), None); 8]);
    let mut capture: Value = serde_json::from_str(&whole).unwrap();
    let entries = capture["log"]["entries"].as_array_mut().unwrap();
    for (index, entry) in entries.iter_mut().enumerate().take(7) {
        entry["request"]["url"] = format!("https://app.example/odd{index}?key=secret").into();
    }
    entries[0]["response"] = Value::Null;
    entries[1].as_object_mut().unwrap().remove("response");
    entries[2]["response"]["content"] = Value::Null;
    entries[3]["response"]["content"]["mimeType"] = Value::Null;
    entries[4]["response"]["content"]["encoding"] = "base64".into();
    entries[5]["response"]["status"] = 500.into();
    entries[6]["request"]["url"] = "secret".into();
    entries[6]["response"]["content"]["text"] = 7.into();
    entries.extend([Value::Null, json!("secret"), json!(7)]);
    std::fs::write(folder.path().join("network.har"), capture.to_string()).unwrap();
    let done = run(folder.path(), &["check", "network.har", "--format", "json"]).await.exits(0);
    let sources: Vec<Value> = done.json_lines().iter().map(|report| report["source"].clone()).collect();
    assert_eq!(sources, ["POST https://app.example/good (request 8)"]);
    for words in [
        "odd0 (request 1) is skipped",
        "odd1 (request 2) is skipped",
        "odd2 (request 3) is skipped",
        "odd3 (request 4) is skipped",
        "odd4 (request 5) is skipped: the body is said to be base64",
        "odd5 (request 6) is skipped: it was refused with status 500",
        "POST without a URL (request 7) is skipped: the capture does not hold the body",
        "a request without a URL (request 9) is skipped: it is no entry of a capture",
        "(request 10) is skipped: it is no entry of a capture",
        "(request 11) is skipped: it is no entry of a capture",
    ] {
        assert!(done.stderr.contains(words), "{words} is not in\n{}", done.stderr);
    }
    assert!(!done.stderr.contains("secret"), "{}", done.stderr);
}

/// HAR 1.2, `timings`: the one thing that a capture says of when bytes came.
#[tokio::test]
async fn a_captured_response_that_was_held_back_is_advised_about() {
    let folder = tempfile::tempdir().unwrap();
    let [started, finished] = events();
    let step = |name: &str| json!({ "type": name, "stepName": "s" });
    let stream = sse(&[
        started,
        step("STEP_STARTED"),
        step("STEP_FINISHED"),
        step("STEP_STARTED"),
        step("STEP_FINISHED"),
        finished,
    ]);
    let advice = async |timings: Value| {
        let mut capture: Value =
            serde_json::from_str(&har(&[("https://a.example/", "text/event-stream", Some(&stream), None)])).unwrap();
        capture["log"]["entries"][0]["timings"] = timings;
        std::fs::write(folder.path().join("network.har"), capture.to_string()).unwrap();
        let report =
            run(folder.path(), &["check", "network.har", "--format", "json"]).await.exits(0).json_lines().remove(0);
        report["findings"].as_array().unwrap().iter().map(|finding| finding["rule"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(advice(json!({ "send": 0.1, "wait": 4200.5, "receive": 1.25 })).await, ["one-burst"]);
    assert_eq!(advice(json!({ "wait": 35_000, "receive": 10 })).await, ["one-burst", "long-silence"]);
    // What comes over ten minutes need not be silent at any time.
    for unsuspicious in [
        json!({ "wait": 12, "receive": 600_000 }),
        json!({ "wait": 4200, "receive": 900 }),
        json!({ "wait": -1, "receive": -1 }),
        json!({ "wait": 1e300, "receive": 0 }),
        json!({ "wait": "4200" }),
        json!(null),
    ] {
        assert_eq!(advice(unsuspicious.clone()).await, [] as [&str; 0], "{unsuspicious}");
    }
}

#[tokio::test]
async fn sarif_lists_a_source_of_several_streams_once() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (sse(&events()), sse(&events()[..1]));
    let capture = har(&[
        ("https://a.example/", "text/event-stream", Some(&whole), None),
        ("https://a.example/", "text/event-stream", Some(&part), None),
        ("https://b.example/", "text/event-stream", Some(&whole), None),
    ]);
    std::fs::write(folder.path().join("network.har"), capture).unwrap();
    let log = run(folder.path(), &["check", "network.har", "--format", "sarif"]).await.exits(1).json_lines().remove(0);
    let expected = json!([
        { "location": { "uri": "https://a.example/" } },
        { "location": { "uri": "https://b.example/" }, "length": whole.len() },
    ]);
    assert_eq!(log["runs"][0]["artifacts"], expected);
}

#[tokio::test]
async fn a_capture_without_an_event_stream_cannot_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("page.har", &har(&[("https://app.example/", "text/html", Some("<html>"), None)]));
    put("unsaved.har", &har(&[("https://app.example/", "text/event-stream", None, None)]));
    put("broken.har", r#"{"log":{"entries":7}}"#);
    put("run.jsonl", &sse(&events()));
    let check = async |args: &[&str]| run(folder.path(), &[&["check"], args].concat()).await;
    check(&["page.har"]).await.could_not(&["page.har", "none of its 1 responses is an event stream"]);
    check(&["unsaved.har"]).await.could_not(&["the bodies of its event streams were not saved"]);
    check(&["broken.har"]).await.could_not(&["cannot be read as one"]);
    check(&["run.jsonl", "--only", "x"]).await.could_not(&["--only is for a HAR file"]);
    check(&["run.jsonl", "--header", "A: b"]).await.could_not(&["--header and --timeout are for a URL"]);
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[tokio::test]
async fn what_cannot_be_read_of_one_entry_says_nothing_of_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let good = sse(&events());
    let url = |name: &str| format!("https://app.example/{name}");
    let urls = ["good", "half", "key", "page", "size"].map(url);
    let capture = har(&[
        (&urls[0], "text/event-stream", Some(&good), None),
        (&urls[1], "text/event-stream", Some("HALF"), None),
        (&urls[2], "text/event-stream", Some("KEY"), None),
        (&urls[3], "text/html", Some("HALF"), None),
        (&urls[4], "text/event-stream", Some(&good), None),
    ]);
    // Half of a surrogate pair as a body and as the name of a member, and a number that is out of range.
    let capture = capture.replace("HALF", "\\ud83d").replace("\"KEY\"", "\"\", \"\\ude00\": 1");
    let (before, size) = capture.rsplit_once("\"size\": 1").unwrap();
    std::fs::write(folder.path().join("network.har"), format!("{before}\"size\": 1e999{size}")).unwrap();
    let done = run(folder.path(), &["check", "network.har", "--format", "json"]).await.exits(0);
    let told: Vec<Value> = done.json_lines().iter().map(|report| report["source"].clone()).collect();
    assert_eq!(told, ["POST https://app.example/good (request 1)", "POST https://app.example/size (request 5)"]);
    assert!(done.stderr.contains("half (request 2) is skipped: the body is no text: "), "{}", done.stderr);
    assert!(done.stderr.contains("key (request 3) is skipped: "), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 2, "what is no event stream is not named: {}", done.stderr);
}

#[tokio::test]
async fn base64_may_be_written_in_capitals_over_several_lines_and_without_padding() {
    let folder = tempfile::tempdir().unwrap();
    // Of such a length that padding is due.
    let good = format!("{}: x\n", sse(&events()));
    let encoded = base64(good.as_bytes());
    assert!(encoded.ends_with('='));
    let (begin, rest) = encoded.split_at(76);
    let broken = format!("{begin}\r\n{rest}\r\n");
    let bodies = [broken.as_str(), encoded.trim_end_matches('='), &encoded];
    let capture = har(&bodies.map(|body| ("https://a.example/", "text/event-stream", Some(body), Some("BASE64"))));
    std::fs::write(folder.path().join("network.har"), capture).unwrap();
    let done = run(folder.path(), &["check", "network.har", "--json"]).await.exits(0);
    assert_eq!((done.json_lines().len(), done.stderr.as_str()), (3, ""));
}

#[tokio::test]
async fn a_captured_violation_counts_whatever_comes_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let [started, finished] = events();
    let good = sse(&events());
    let bad = [sse(&[started, finished.clone(), finished]).as_bytes(), b"data: \xff\n\n"].concat();
    let capture = har(&[
        ("https://a.example/", "text/event-stream", Some(&good), None),
        ("https://a.example/", "text/event-stream", Some(&base64(&bad)), Some("base64")),
    ]);
    std::fs::write(folder.path().join("network.har"), capture).unwrap();
    let done = run(folder.path(), &["check", "network.har", "--json"]).await.exits(1);
    assert_eq!(done.json_lines()[1]["error"]["rule"], "event-after-finish");
}

/// transports/http-sse, "Response"; transports/http-protobuf, "Negotiation".
#[tokio::test]
async fn a_captured_response_is_held_against_the_bindings_as_far_as_the_capture_tells_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let encoded = base64(&frames(&events()));
    let proto = "application/vnd.ag-ui.event+proto; charset=utf-8";
    let whole = har(&[("https://a.example/", proto, Some(encoded.as_str()), Some("base64")); 3]);
    let mut capture: Value = serde_json::from_str(&whole).unwrap();
    let entries = capture["log"]["entries"].as_array_mut().unwrap();
    entries[1]["response"]["status"] = 201.into();
    entries[1]["request"]["headers"] = json!([{ "name": "ACCEPT", "value": "text/event-stream" }]);
    entries[2]["request"]["headers"] = json!([{ "name": "accept", "value": "*/*" }, { "name": "x", "value": "y" }]);
    std::fs::write(folder.path().join("network.har"), capture.to_string()).unwrap();
    let done = run(folder.path(), &["check", "network.har", "--json"]).await.exits(0);
    let rules = |report: &Value| -> Vec<Value> {
        report["warnings"].as_array().unwrap().iter().map(|warning| warning["rule"].clone()).collect()
    };
    let told: Vec<Vec<Value>> = done.json_lines().iter().map(rules).collect();
    let expected = json!([
        ["protobuf-content-type"],
        ["response-status", "unasked-protobuf", "protobuf-content-type"],
        ["protobuf-content-type"],
    ]);
    assert_eq!(json!(told), expected);
}

#[tokio::test]
async fn sarif_says_of_each_result_which_of_the_streams_of_a_url_it_is_about() {
    let folder = tempfile::tempdir().unwrap();
    let part = sse(&events()[..1]);
    let capture = har(&[("https://a.example/", "text/event-stream", Some(part.as_str()), None); 2]);
    std::fs::write(folder.path().join("network.har"), capture).unwrap();
    let log = run(folder.path(), &["check", "network.har", "--format", "sarif"]).await.exits(1).json_lines().remove(0);
    let results = log["runs"][0]["results"].as_array().unwrap();
    let sources: Vec<&Value> = results.iter().map(|result| &result["properties"]["source"]).collect();
    assert_eq!(json!(sources), json!(["POST https://a.example/ (request 1)", "POST https://a.example/ (request 2)"]));
}

/// A stream that goes past a limit of this reader is not judged, so nobody may take the capture for one that conforms.
#[tokio::test]
async fn a_stream_of_a_capture_that_cannot_be_judged_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let good = sse(&events());
    let bad = sse(&events()[1..]);
    let beyond = sse(&events()[..1]) + "data: {\"type\":\"STATE_SNAPSHOT\",\"snapshot\":1e400}\n\n";
    let entry = |body| ("https://app.example/agent", "text/event-stream", Some(body), None);
    for (second, exit) in [(good.as_str(), 2), (bad.as_str(), 1)] {
        let capture = har(&[entry(second), entry(beyond.as_str())]);
        std::fs::write(folder.path().join("network.har"), capture).unwrap();
        let done = run(folder.path(), &["check", "network.har", "--format", "json"]).await.exits(exit);
        assert_eq!(done.json_lines().len(), 1, "the other is judged: {}", done.stdout);
        assert!(
            done.stderr.contains("request 2) is skipped: event 1 of the stream holds a number beyond"),
            "{}",
            done.stderr
        );
    }
}
