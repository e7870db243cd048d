//! `runwire check`: protobuf frames, and agents behind a URL.

use std::time::Duration;

use runwire_agui::Event;
use runwire_agui::proto::{MEDIA_TYPE, ProtoEncoder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::program::{run, run_with_input};
use crate::serving::{AGENTS, Serving};

pub fn events() -> [Value; 2] {
    [
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0" }),
        json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" }),
    ]
}

pub fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

pub fn frames(events: &[Value]) -> Vec<u8> {
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
async fn standard_input_is_the_stream_or_the_input_and_not_both() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["check", "-", "--input", "-"];
    let input = r#"{ "threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0" }"#;
    let done = run_with_input(folder.path(), &args, input.as_bytes()).await;
    done.could_not(&["standard input can be only one of both"]);
    std::fs::write(folder.path().join("run.sse"), sse(&events())).unwrap();
    run_with_input(folder.path(), &["check", "run.sse", "--input", "-"], input.as_bytes()).await.exits(0);
}

/// An agent that answers one request with these bytes, each piece after so long a pause, and then gives the request.
pub async fn answering<B: AsRef<[u8]> + Send + 'static>(pieces: Vec<(u64, B)>) -> (String, JoinHandle<String>) {
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
            let _ = socket.write_all(piece.as_ref()).await;
        }
        String::from_utf8(request).unwrap()
    });
    (url, served)
}

/// The head of a response whose end is the end of the connection.
pub fn head(status: &str, content_type: &str) -> String {
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
