//! `runwire check`: a browser's capture, protobuf frames, and agents behind a URL.

use std::time::Duration;

use runwire_agui::Event;
use runwire_agui::proto::{MEDIA_TYPE, ProtoEncoder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::program::{run, run_with_input};
use crate::serving::{AGENTS, Serving};

fn events() -> [Value; 2] {
    [
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0" }),
        json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" }),
    ]
}

fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn frames(events: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        ProtoEncoder::encode_event(&mut out, &Event::from_value(event.clone()).unwrap()).unwrap();
    }
    out
}

#[tokio::test]
async fn protobuf_frames_are_known_by_their_bytes_and_judged_like_any_other_form() {
    let folder = tempfile::tempdir().unwrap();
    let [started, finished] = events();
    let bytes = frames(&[started.clone(), finished.clone()]);
    let report = async |bytes: &[u8], code: i32| {
        run_with_input(folder.path(), &["check", "-", "--json"], bytes).await.exits(code).json_lines().remove(0)
    };
    let whole = report(&bytes, 0).await;
    assert_eq!(whole, report(sse(&events()).as_bytes(), 0).await);
    assert_eq!(whole["events"], json!(events()));
    assert_eq!(report(&bytes[..bytes.len() - 1], 1).await["outcome"], "truncated");
    let step = json!({ "type": "STEP_FINISHED", "stepName": "s" });
    assert_eq!(report(&frames(&[started.clone(), step, finished]), 1).await["error"]["rule"], "step-not-open");
    let broken = report(&[&frames(&[started])[..], b"\0\0\0\x02\xff\xff"].concat(), 1).await;
    assert_eq!((&broken["error"]["rule"], &broken["error"]["event"]), (&json!("malformed-frame"), &json!(1)));
}

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
async fn a_url_of_another_scheme_is_refused_with_those_that_work() {
    let folder = tempfile::tempdir().unwrap();
    for source in ["ftp://a.example/run.sse", "file:///tmp/run.sse", "WS+x://a.example"] {
        let done = run(folder.path(), &["check", source]).await;
        done.could_not(&[
            &format!("{}://", source.split_once(':').unwrap().0),
            "http:// or https:// URL",
            "path alone",
        ]);
    }
    // A name with such characters is a name.
    run(folder.path(), &["check", "a b://c"]).await.could_not(&["cannot be read"]);
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

/// An agent that answers one request with these bytes, each piece after so long a pause, and then gives the request.
async fn answering(pieces: Vec<(u64, String)>) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/agent?key=secret", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        let whole = |request: &[u8]| {
            let text = String::from_utf8_lossy(request);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            length.is_none_or(|length: usize| body.len() >= length)
        };
        while !whole(&request) {
            assert!(socket.read_buf(&mut request).await.unwrap() > 0, "the request is cut short");
        }
        for (pause, piece) in pieces {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            // A client that has seen enough may be gone.
            let _ = socket.write_all(piece.as_bytes()).await;
        }
        String::from_utf8(request).unwrap()
    });
    (url, served)
}

/// The head of a response whose end is the end of the connection.
fn head(status: &str, content_type: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn a_url_is_sent_the_input_and_the_headers_and_its_answer_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let input = r#"{ "threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0" }"#;
    std::fs::write(folder.path().join("input.json"), input).unwrap();
    let (url, served) = answering(vec![(0, head("200 OK", "text/event-stream") + &sse(&events()))]).await;
    let args = ["check", &url, "--input", "input.json", "--header", "Authorization: Bearer sesame", "--format", "json"];
    let report = run(folder.path(), &args).await.exits(0).json_lines().remove(0);
    assert_eq!((&report["outcome"], &report["findings"]), (&json!("completed"), &json!([])));
    assert_eq!(report["source"], url.strip_suffix("?key=secret").unwrap());
    let request = served.await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /agent?key=secret HTTP/1.1"), "{head}");
    for line in ["accept: text/event-stream", "content-type: application/json", "authorization: bearer sesame"] {
        assert!(head.lines().any(|other| other.to_lowercase() == line), "{line} is not in\n{head}");
    }
    let read = |json: &str| serde_json::from_str::<Value>(json).unwrap();
    assert_eq!(read(body), read(input), "the input is sent as it is");
}

#[tokio::test]
async fn the_scheme_of_a_url_may_be_written_in_capitals_and_an_identity_encoding_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let input = r#"{ "threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0" }"#;
    std::fs::write(folder.path().join("input.json"), input).unwrap();
    let plain = head("200 OK", "text/event-stream\r\nContent-Encoding: identity") + &sse(&events());
    let (url, _served) = answering(vec![(0, plain)]).await;
    let url = url.replace("http://", "HTTP://");
    run(folder.path(), &["check", &url, "--input", "input.json"]).await.exits(0);
}

#[tokio::test]
async fn without_an_input_a_greeting_is_sent_and_the_answer_has_to_be_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let (url, served) = answering(vec![(0, head("200 OK", "text/event-stream") + &sse(&events()))]).await;
    let report = run(folder.path(), &["check", &url, "--json"]).await.exits(1).json_lines().remove(0);
    assert_eq!(report["error"]["rule"], "foreign-thread");
    let request = served.await.unwrap();
    let input: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&input["messages"][0]["content"], &input["protocolVersion"]), (&json!("Hello"), &json!("1.0")));
}

#[tokio::test]
async fn a_response_that_is_held_back_is_advised_on_and_one_that_streams_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let [started, finished] = events();
    let text = |kind: &str, more: Value| {
        let mut event = json!({ "type": format!("TEXT_MESSAGE_{kind}"), "messageId": "m" });
        event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        event
    };
    let all =
        [started, text("START", json!({})), text("CONTENT", json!({ "delta": "x" })), text("END", json!({})), finished];
    let (first, rest) = all.split_at(2);
    let input = json!({ "threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0" });
    std::fs::write(folder.path().join("input.json"), input.to_string()).unwrap();
    let head = head("200 OK", "text/event-stream");
    for (pieces, expected) in [
        (vec![(0, head.clone()), (1200, sse(&all))], json!(["one-burst"])),
        (vec![(0, head.clone()), (1200, sse(first)), (400, sse(rest))], json!([])),
    ] {
        let (url, _served) = answering(pieces).await;
        let args = ["check", &url, "--input", "input.json", "--format", "json"];
        let report = run(folder.path(), &args).await.exits(0).json_lines().remove(0);
        let rules: Vec<&Value> = report["findings"].as_array().unwrap().iter().map(|f| &f["rule"]).collect();
        assert_eq!(json!(rules), expected);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_truncated_stream_and_a_violation_is_not_waited_behind() {
    let folder = tempfile::tempdir().unwrap();
    let input = json!({ "threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0" });
    std::fs::write(folder.path().join("input.json"), input.to_string()).unwrap();
    let check = async |url: &str| run(folder.path(), &["check", url, "--input", "input.json", "--json"]).await.exits(1);
    // More is announced than comes.
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10000\r\n\r\n".to_owned();
    let (url, _served) = answering(vec![(0, head.clone() + &sse(&events()[..1]))]).await;
    let done = check(&url).await;
    assert!(done.stderr.contains("broke") && !done.stderr.contains("secret"), "{}", done.stderr);
    assert_eq!(done.json_lines()[0]["outcome"], "truncated");

    let (url, served) = answering(vec![(0, head + &sse(&events()[1..])), (600_000, String::new())]).await;
    assert_eq!(check(&url).await.json_lines()[0]["error"]["rule"], "first-event");
    served.abort();
}

#[tokio::test]
async fn an_agent_that_cannot_be_asked_is_exit_2_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |url: &str, more: &[&str]| run(folder.path(), &[&["check", url], more].concat()).await;
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    check(&format!("http://{unused}/"), &[]).await.could_not(&["cannot be reached"]);
    check("http://", &[]).await.could_not(&["http:// is no URL"]);
    let secret = run(folder.path(), &["check", "https://me:secret@host:port/?key=secret"]).await.exits(2);
    assert!(secret.stderr.contains("is no URL") && !secret.stderr.contains("secret"), "{}", secret.stderr);
    let refuse = |status: &str, body: &str| vec![(0, head(status, "application/json") + body)];
    let (url, _served) = answering(refuse("401 Unauthorized", r#"{"title":"no token"}"#)).await;
    check(&url, &[]).await.could_not(&["refused to run: 401 Unauthorized", "no token"]);
    let (url, _served) = answering(refuse("200 OK", "{}")).await;
    check(&url, &[]).await.could_not(&["application/json", "no event stream"]);
    let moved =
        "HTTP/1.1 307 Moved\r\nLocation: https://me:secret@elsewhere.example/?key=secret\r\nContent-Length: 0\r\n\r\n";
    let (url, _served) = answering(vec![(0, moved.to_owned())]).await;
    let done = run(folder.path(), &["check", &url]).await.exits(2);
    assert!(
        done.stderr.contains("307") && done.stderr.contains("it is at https://elsewhere.example/"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("secret"), "{}", done.stderr);
    let packed = head("200 OK", "text/event-stream\r\nContent-Encoding: gzip") + &sse(&events());
    let (url, _served) = answering(vec![(0, packed)]).await;
    check(&url, &[]).await.could_not(&["Content-Encoding gzip"]);
    let (url, _served) = answering(vec![(0, head("200 OK", "text/\u{9b}2Jplain"))]).await;
    let done = run(folder.path(), &["check", &url]).await.exits(2);
    assert!(!done.stderr.trim_end().chars().any(char::is_control), "{:?}", done.stderr);
    let (url, served) = answering(vec![(600_000, String::new())]).await;
    check(&url, &["--timeout", "200ms"]).await.could_not(&["did not answer within 0.2 s", "--timeout"]);
    served.abort();
    let going = vec![(0, head("200 OK", "text/event-stream") + ":\n\n"), (600_000, String::new())];
    let (url, served) = answering(going).await;
    check(&url, &["--timeout", "200ms"]).await.could_not(&["still going on after 0.2 s and 0 events"]);
    served.abort();
    check(&url, &["--header", "secret"]).await.could_not(&["NAME: VALUE"]);
}

#[tokio::test]
async fn the_demo_agent_behind_a_url_conforms_without_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path(), AGENTS).await;
    let url = serving.at("/agui/demo");
    for more in [&[][..], &["--header", &format!("Accept: {MEDIA_TYPE}, text/event-stream")]] {
        let args = [&["check", &url, "--format", "json"], more].concat();
        let report = run(folder.path(), &args).await.exits(0).json_lines().remove(0);
        assert_eq!((&report["outcome"], &report["findings"]), (&json!("completed"), &json!([])));
        assert_eq!(report["runs"][0]["ending"], "success");
    }
}
