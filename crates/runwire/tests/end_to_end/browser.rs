//! Chromium's own `EventSource`, `WebSocket` and `fetch`, in a page, against the server: what reads a run in production is
//! mostly a browser, and it resumes, stops and refuses by rules of its own.

use runwire_client::{CreateRun, RunFilter, Server};
use runwire_frame::{Data, EndStatus, Frame, LogValidator};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::real_part::{self, script};
use crate::serving::{AGENTS, Serving, http};

/// `EventSource.CONNECTING`: it will try again by itself.
const CONNECTING: u64 = 0;
/// `EventSource.CLOSED`: it has given up, or was told that nothing follows.
const CLOSED: u64 = 2;

fn stream_of(run_id: &str) -> String {
    format!("/v2/runs/{run_id}/stream")
}

fn socket_of(run_id: &str) -> String {
    format!("/v2/runs/{run_id}/ws")
}

/// Opens the server's own page, or another one, and reads in it.
async fn page(server: &Serving, readers: &[&str]) -> Value {
    script("browser.mjs", &[&["--url", server.url()], readers].concat()).await
}

fn of_event_source(seen: &Value) -> Vec<&str> {
    let frames = seen["eventSource"]["frames"].as_array().unwrap();
    frames.iter().map(|frame| frame["body"].as_str().unwrap()).collect()
}

fn of_web_socket(socket: &Value) -> Vec<&str> {
    socket["frames"].as_array().unwrap().iter().map(|body| body.as_str().unwrap()).collect()
}

/// Checks that the page's event source was given the run's whole log: in order, nothing left out, nothing twice, and the
/// ids as its cursor. Says where the two part, and not only that they do.
#[track_caller]
fn has_the_whole_log(seen: &Value, log: &[String]) {
    let bodies = of_event_source(seen);
    let same = bodies.iter().zip(log).take_while(|(body, logged)| **body == logged.as_str()).count();
    assert!(
        (same, same) == (bodies.len(), log.len()),
        "the page has {} frames and the log {}; they differ at seq {}:\n{:?}\n{:?}\nrequests: {:#}",
        bodies.len(),
        log.len(),
        same + 1,
        bodies.get(same),
        log.get(same),
        seen["requests"],
    );
    for (i, frame) in seen["eventSource"]["frames"].as_array().unwrap().iter().enumerate() {
        assert_eq!(frame["id"], (i + 1).to_string(), "`lastEventId` is the frame's seq");
    }
    let mut validator = LogValidator::new();
    for body in log {
        validator.push(&Frame::decode(body.as_bytes()).unwrap()).unwrap();
    }
    validator.finish().unwrap();
}

/// Checks that the event source asked once more from the end of the run, was answered with 204, and asks no more (G6).
#[track_caller]
fn was_told_that_nothing_follows(seen: &Value, log: &[String]) {
    let last = seen["requests"].as_array().unwrap().last().unwrap();
    assert_eq!(last["lastEventId"], log.len().to_string(), "{seen:#}");
    assert_eq!(last["status"], 204, "{seen:#}");
    assert_eq!(seen["eventSource"]["readyState"], CLOSED, "{seen:#}");
    assert_eq!(seen["eventSource"]["errors"].as_array().unwrap().last(), Some(&json!(CLOSED)), "{seen:#}");
}

#[tokio::test]
async fn an_event_source_reads_a_run_and_stops_by_itself_after_its_end() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("demo").await;
    let seen = page(&server, &["--event-source", &stream_of(&run_id)]).await;
    let log = server.log_of(&run_id).await;
    has_the_whole_log(&seen, &log);

    // The server ends the body after `run.end`; an EventSource takes any end for a lost connection and comes back.
    was_told_that_nothing_follows(&seen, &log);
    assert_eq!(seen["eventSource"]["opens"], 1, "{seen:#}");
    assert_eq!(seen["eventSource"]["errors"], json!([CONNECTING, CLOSED]), "{seen:#}");
    let requests = seen["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert_eq!((&requests[0]["lastEventId"], &requests[0]["status"]), (&Value::Null, &json!(200)));
}

#[tokio::test]
async fn an_event_source_that_is_cut_within_a_frame_resumes_by_itself_without_gap_or_duplicate() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    // The run is live at both cuts: it goes on until the page stops it.
    let run_id = server.create("long").await;
    let cut = ["--cut-in-frame", "20", "--cut-in-frame", "45", "--cancel-after", "60"];
    let seen = page(&server, &[&["--event-source", &stream_of(&run_id)], &cut[..]].concat()).await;
    let log = server.log_of(&run_id).await;
    has_the_whole_log(&seen, &log);
    was_told_that_nothing_follows(&seen, &log);
    assert_eq!(seen["cuts"], json!([{ "inFrame": 20, "how": "end" }, { "inFrame": 45, "how": "reset" }]));

    // A frame of which only the beginning came is not the cursor.
    let requests = seen["requests"].as_array().unwrap();
    let asked: Vec<_> = requests.iter().map(|request| (&request["lastEventId"], &request["status"])).collect();
    let (head, ok) = (json!(log.len().to_string()), json!(200));
    assert_eq!(asked, [(&Value::Null, &ok), (&json!("19"), &ok), (&json!("44"), &ok), (&head, &json!(204))]);
    assert_eq!(seen["eventSource"]["errors"], json!([CONNECTING, CONNECTING, CONNECTING, CLOSED]), "{seen:#}");
}

#[tokio::test]
async fn a_web_socket_of_a_page_gets_the_same_bodies_as_its_event_source_and_a_normal_close() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("long").await;
    let (stream, socket) = (stream_of(&run_id), socket_of(&run_id));
    let resuming = r#"{"type":"auth","protocol":2,"after":25}"#;
    let whole = r#"{"type":"auth","token":"","protocol":2,"after":0}"#;
    let sockets =
        ["--web-socket", &socket, "--first-message", whole, "--web-socket", &socket, "--first-message", resuming];
    let seen = page(&server, &[&["--event-source", &stream, "--cancel-after", "40"], &sockets[..]].concat()).await;
    let log = server.log_of(&run_id).await;
    has_the_whole_log(&seen, &log);
    let by_source = of_event_source(&seen);
    for (socket, after) in [(&seen["webSockets"][0], 0), (&seen["webSockets"][1], 25)] {
        assert_eq!(of_web_socket(socket), by_source[after..], "G3, after {after}");
        assert_eq!(socket["close"], json!({ "code": 1000, "reason": "", "wasClean": true }), "after {after}");
        assert_eq!(socket["binaryMessages"], 0, "after {after}");
    }
}

#[tokio::test]
async fn a_page_that_is_loaded_again_in_the_middle_of_a_run_goes_on_where_it_was() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("long").await;
    let reload = ["--reload-after", "20", "--reload-after", "60", "--cancel-after", "100"];
    let seen = page(&server, &[&["--event-source", &stream_of(&run_id)], &reload[..]].concat()).await;
    let log = server.log_of(&run_id).await;
    has_the_whole_log(&seen, &log);
    was_told_that_nothing_follows(&seen, &log);

    // Each load began where the one before had come to, and the run was not over at any of them.
    let cursors = seen["cursors"].as_array().unwrap();
    assert_eq!((cursors.len(), &cursors[0]), (3, &Value::Null), "{cursors:?}");
    let cursor = |i: usize| cursors[i].as_str().unwrap().parse::<usize>().unwrap();
    assert!(20 <= cursor(1) && 60 <= cursor(2) && cursor(1) <= cursor(2) && cursor(2) < log.len(), "{cursors:?}");

    // G9: that the page left twice stopped nothing; that it cancelled did.
    let end = Frame::decode(log.last().unwrap().as_bytes()).unwrap();
    assert!(matches!(&end.data, Data::RunEnd(end) if end.status == EndStatus::Cancelled), "{end:?}");
    let ends = log.iter().filter(|body| body.contains(r#""type":"run.end""#)).count();
    assert_eq!(ends, 1);
}

#[tokio::test]
async fn a_page_is_told_by_the_close_code_why_its_web_socket_was_closed() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tokens = "[[tokens]]\nname = \"web\"\ntoken = \"s3cret\"\n\n[[tokens]]\nname = \"other\"\ntoken = \"0ther\"\n";
    let server = Serving::start(folder.path(), &format!("{AGENTS}\n{tokens}")).await;
    // Tests of one process share it; the first of them installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let owner = Server::new(server.url(), Some("s3cret".to_owned())).unwrap();
    let run_id = owner.create_run(&CreateRun::prompt("demo", "Who may see this?")).await.unwrap().run_id().to_owned();

    let first = |token: &str, protocol: u64, after: u64| {
        json!({ "type": "auth", "token": token, "protocol": protocol, "after": after }).to_string()
    };
    let cases = [
        (run_id.as_str(), first("s3cret", 2, 0), 1000, None),
        (&run_id, first("wrong", 2, 0), 4401, Some("AUTH_FAILED")),
        (&run_id, first("", 2, 0), 4401, Some("AUTH_FAILED")),
        (&run_id, "good morning".to_owned(), 4401, Some("MALFORMED_FRAME")),
        (&run_id, first("s3cret", 2, 1_000_000), 4401, Some("MALFORMED_FRAME")),
        ("run_that_is_none", first("s3cret", 2, 0), 4404, Some("RUN_NOT_FOUND")),
        (&run_id, first("0ther", 2, 0), 4404, Some("RUN_NOT_FOUND")),
        (&run_id, first("s3cret", 3, 0), 4409, Some("PROTOCOL_UNSUPPORTED")),
    ];
    let mut args = Vec::new();
    for (run, message, ..) in &cases {
        args.extend(["--web-socket".to_owned(), socket_of(run), "--first-message".to_owned(), message.clone()]);
    }
    let seen = page(&server, &args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let sockets = seen["webSockets"].as_array().unwrap();
    assert_eq!(sockets.len(), cases.len());
    for ((_, message, code, error), socket) in cases.iter().zip(sockets) {
        let close = json!({ "code": code, "reason": error.unwrap_or_default(), "wasClean": true });
        assert_eq!(socket["close"], close, "{message}: {socket:#}");
        let Some(error) = error else { continue };
        let frames = of_web_socket(socket);
        assert_eq!(frames.len(), 1, "nothing of the run is shown to {message}: {frames:?}");
        let frame: Value = serde_json::from_str(frames[0]).unwrap();
        assert_eq!((&frame["seq"], &frame["data"]["code"]), (&json!(0), &json!(error)), "{message}");
    }
    assert!(of_web_socket(&sockets[0]).last().unwrap().contains(r#""type":"run.end""#), "{:#}", sockets[0]);
}

/// A site of another origin than the server's: one empty page, at a port of its own, by the name `localhost`.
struct Site {
    origin: String,
    serving: JoinHandle<()>,
}

impl Site {
    async fn open() -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://localhost:{}", listener.local_addr().unwrap().port());
        let serving = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                        // A browser opens connections that it then has no use for.
                        if socket.read_buf(&mut request).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let page = "<!doctype html><title>another site</title>";
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: ";
                    let _ = socket.write_all(format!("{head}{}\r\n\r\n{page}", page.len()).as_bytes()).await;
                });
            }
        });
        Site { origin, serving }
    }

    /// Its page reads the run by both transports, and asks an agent for another run.
    async fn reads(&self, server: &Serving, run_id: &str, content_type: &str) -> Value {
        let input = json!({
            "threadId": "another site's", "runId": content_type, "state": {}, "tools": [], "context": [],
            "forwardedProps": {}, "messages": [{ "id": "m", "role": "user", "content": "Run for me" }],
        })
        .to_string();
        let (at, stream, socket) = (format!("{}/", self.origin), stream_of(run_id), socket_of(run_id));
        let post = ["--post", "/agui/demo", "--body", &input, "--content-type", content_type];
        let read = ["--page", &at, "--event-source", &stream, "--web-socket", &socket];
        let seen = page(server, &[&read[..], &post[..]].concat()).await;
        assert_eq!(seen["origin"], self.origin, "{seen:#}");
        seen
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn runs_of(server: &Serving) -> usize {
    server.client().runs(&RunFilter::default()).await.unwrap().runs.len()
}

#[tokio::test]
async fn a_page_of_another_origin_can_read_and_change_nothing_on_a_server_without_tokens() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("demo").await;
    let site = Site::open().await;
    // The browser asks before it sends the first of these bodies, and sends the second without asking.
    for content_type in ["application/json", "text/plain"] {
        let seen = site.reads(&server, &run_id, content_type).await;
        assert_eq!(of_event_source(&seen), [""; 0], "{seen:#}");
        assert_eq!(seen["eventSource"]["opens"], 0, "{seen:#}");
        assert_eq!(seen["eventSource"]["readyState"], CLOSED, "an EventSource does not try again: {seen:#}");
        let socket = &seen["webSockets"][0];
        assert_eq!((&socket["opened"], &socket["frames"]), (&json!(false), &json!([])), "{seen:#}");
        assert_eq!(socket["close"]["code"], 1006, "{seen:#}");
        let post = &seen["post"];
        assert_eq!((&post["status"], &post["reads"]), (&Value::Null, &json!([])), "{seen:#}");
        assert!(post["error"].as_str().unwrap().starts_with("TypeError"), "{seen:#}");
        assert_eq!(runs_of(&server).await, 1, "{content_type}: a page of another origin started a run");
    }
}

#[tokio::test]
async fn a_page_of_an_origin_that_the_configuration_names_may_read_and_run() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let site = Site::open().await;
    let server = Serving::start(folder.path(), &format!("cors_origins = [\"{}\"]\n{AGENTS}", site.origin)).await;
    let run_id = server.create("demo").await;
    let seen = site.reads(&server, &run_id, "application/json").await;
    let log = server.log_of(&run_id).await;
    has_the_whole_log(&seen, &log);
    was_told_that_nothing_follows(&seen, &log);
    let socket = &seen["webSockets"][0];
    assert_eq!(of_web_socket(socket), log, "G3");
    assert_eq!(socket["close"], json!({ "code": 1000, "reason": "", "wasClean": true }));
    let post = &seen["post"];
    assert_eq!(
        (&post["status"], &post["ended"], &post["error"]),
        (&json!(200), &json!(true), &Value::Null),
        "{seen:#}"
    );
    assert_eq!(runs_of(&server).await, 2);

    // It is the origin that is let in, not everybody.
    let stranger = Site::open().await;
    let seen = stranger.reads(&server, &run_id, "text/plain").await;
    assert_eq!((of_event_source(&seen).len(), &seen["webSockets"][0]["opened"]), (0, &json!(false)), "{seen:#}");
    assert_eq!(runs_of(&server).await, 2, "a page of another origin started a run");
}

#[tokio::test]
async fn a_page_that_posts_a_run_input_gets_the_agui_events_as_they_come() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let input = json!({
        "protocolVersion": "1.0", "threadId": "of the page", "runId": "turn", "state": {}, "tools": [], "context": [],
        "forwardedProps": {}, "messages": [{ "id": "m", "role": "user", "content": "One two three" }],
    });
    let seen = page(&server, &["--post", "/agui/medium", "--body", &input.to_string()]).await;
    let post = &seen["post"];
    assert_eq!((&post["status"], &post["contentType"]), (&json!(200), &json!("text/event-stream")), "{seen:#}");
    assert_eq!((&post["ended"], &post["error"]), (&json!(true), &Value::Null), "{seen:#}");

    let reads: Vec<_> = post["reads"].as_array().unwrap().iter().map(|read| read.as_str().unwrap()).collect();
    let first_with = |part: &str| reads.iter().position(|read| read.contains(part));
    let (started, finished) = (first_with("\"RUN_STARTED\""), first_with("\"RUN_FINISHED\""));
    assert!(started.is_some() && started < finished, "{started:?}, {finished:?} of {} reads: {seen:#}", reads.len());

    // The same events, with the same ids, as for everybody who reads the run.
    let run = server.only_run_of("of the page").await;
    assert_eq!(reads.concat(), http(&server.at(&format!("/v2/runs/{}/agui", run.run_id()))).await);
}
