//! `GET /v2/runs/{id}/stream`: frames as server-sent events (design section 5, "SSE").

use std::time::Duration;

use futures_util::StreamExt as _;
use runwire_client::{Backoff, Followed};
use serde_json::json;

use crate::harness::{Got, Line, Piece, Raw, Reader, Server, Setup, Transport, problem, soon, stepped};

async fn raw(server: &Server, target: &str, headers: &str) -> Raw {
    soon(Raw::get(Line::open(server.address).await, target, headers, None)).await
}

#[tokio::test]
async fn a_stream_has_the_headers_that_keep_it_one() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let response = raw(&server, &format!("/v2/runs/{run_id}/stream"), "").await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert_eq!(response.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(response.header("x-accel-buffering"), Some("no"));
    assert_eq!(response.header("content-encoding"), None);
    assert_eq!(response.header("content-length"), None);
}

#[tokio::test]
async fn a_stream_is_retry_once_and_then_one_event_a_frame_to_the_byte() {
    let server = Setup::new().options(|o| o.retry = Duration::from_millis(1234)).start().await;
    let run_id = server.demo().await;
    let mut expected = "retry: 1234\n\n".to_owned();
    for (seq, body) in (1..).zip(server.log(&run_id).await) {
        expected += &format!("id: {seq}\ndata: {}\n\n", std::str::from_utf8(&body).unwrap());
    }
    let (body, ended) = soon(raw(&server, &format!("/v2/runs/{run_id}/stream"), "").await.rest()).await;
    assert_eq!(body, expected);
    assert!(ended, "the body has its end");
    assert!(!body.contains('\r'));
}

#[tokio::test]
async fn silence_is_broken_by_comments_and_frames_still_come() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).options(|o| o.keep_alive = Duration::from_millis(50)).start().await;
    let run_id = server.create("held").await;
    let mut response = raw(&server, &format!("/v2/runs/{run_id}/stream"), "").await;
    let mut body = String::new();
    let comments = |body: &str| body.split("\n\n").filter(|event| event.starts_with(':')).count();
    while comments(&body) < 3 {
        let Piece::Data(data) = soon(response.piece()).await else { panic!("the stream goes on") };
        body += std::str::from_utf8(&data).unwrap();
    }
    steps.say("at last");
    steps.complete();
    let (rest, ended) = soon(response.rest()).await;
    assert!(ended);
    body += &rest;
    assert!(body.starts_with("retry: 1000\n\nid: 1\n"));
    let comments: Vec<&str> = body.split("\n\n").filter(|event| event.starts_with(':')).collect();
    assert!(comments.iter().all(|comment| !comment.contains('\n')), "a comment is one line: {comments:?}");
    assert_eq!(body.matches("retry:").count(), 1);
    assert_eq!(body.matches("\nid: ").count(), server.log(&run_id).await.len());
}

#[tokio::test]
async fn the_cursor_is_the_header_or_else_the_query() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let head = server.log(&run_id).await.len();
    let path = format!("/v2/runs/{run_id}/stream");
    for (query, header, first) in [
        ("", "", 1),
        ("?after=0", "", 1),
        ("?after=3", "", 4),
        ("", "Last-Event-ID: 5\r\n", 6),
        ("?after=3", "Last-Event-ID: 5\r\n", 6),
        ("?after=3", "Last-Event-ID: 0\r\n", 1),
        // An EventSource that has no id yet sends none, and some send an empty one.
        ("", "Last-Event-ID: \r\n", 1),
        (&*format!("?after={head}"), &*format!("Last-Event-ID: {}\r\n", head - 1), head),
    ] {
        let (body, _) = soon(raw(&server, &format!("{path}{query}"), header).await.rest()).await;
        assert!(body.starts_with(&format!("retry: 1000\n\nid: {first}\n")), "{query} {header}");
        assert_eq!(body.matches("\nid: ").count(), head + 1 - first);
    }
}

#[tokio::test]
async fn a_cursor_that_is_none_is_400() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    for bad in ["x", "-1", "1.0", "0x1", "1 2", "+1", "18446744073709551616"] {
        let request = server.get(&format!("/v2/runs/{run_id}/stream")).header("last-event-id", bad);
        let by_header = problem(soon(request.send()).await.unwrap()).await;
        let escaped = bad.replace(' ', "%20").replace('+', "%2B");
        let request = server.get(&format!("/v2/runs/{run_id}/stream?after={escaped}"));
        let by_query = problem(soon(request.send()).await.unwrap()).await;
        for problem in [by_header, by_query] {
            assert_eq!(problem["status"], 400, "{bad}");
            assert!(problem["detail"].as_str().unwrap().contains(bad), "{problem}");
        }
    }
    let unknown = soon(server.get(&format!("/v2/runs/{run_id}/stream?from=1")).send()).await.unwrap();
    assert_eq!(problem(unknown).await["status"], 400);
}

#[tokio::test]
async fn a_reader_that_has_everything_is_told_204_and_one_past_the_head_416() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let run_id = server.demo().await;
    let head = server.log(&run_id).await.len();
    let path = format!("/v2/runs/{run_id}/stream");
    let response = soon(server.get(&path).header("last-event-id", head.to_string()).send()).await.unwrap();
    assert_eq!(response.status(), 204);
    assert_eq!(response.text().await.unwrap(), "");
    for past in [head as u64 + 1, u64::MAX] {
        let response = soon(server.get(&path).header("last-event-id", past.to_string()).send()).await.unwrap();
        let problem = problem(response).await;
        assert_eq!((&problem["status"], &problem["head"]), (&json!(416), &json!(head)));
    }

    // At the head of a run that goes on there is something to wait for.
    let live = server.create("held").await;
    server.reached(&live, 2).await;
    let mut reader = Reader::open(&server, Transport::Sse, &live, 2).await;
    steps.say("more");
    reader.frame(3).await;
    let path = format!("/v2/runs/{live}/stream?after=4");
    assert_eq!(problem(soon(server.get(&path).send()).await.unwrap()).await["head"], 3);
}

#[tokio::test]
async fn an_unknown_run_is_404() {
    let server = Setup::new().start().await;
    let response = soon(server.get("/v2/runs/run_nobody/stream").send()).await.unwrap();
    let problem = problem(response).await;
    assert_eq!(problem["status"], 404);
    assert!(problem["detail"].as_str().unwrap().contains("run_nobody"));
}

#[tokio::test]
async fn a_stream_of_age_ends_between_frames_and_resuming_shows_nothing_missing() {
    let (steps, driver) = stepped();
    let server = Setup::new()
        .agent("held", driver)
        .options(|o| {
            o.stream_max_age = Some(Duration::from_millis(60));
            o.retry = Duration::ZERO;
        })
        .start()
        .await;
    let run_id = server.create("held").await;
    let telling = tokio::spawn(async move {
        for n in 0..100 {
            steps.say(format!("{n}"));
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        steps.complete();
    });

    let (mut bodies, mut recycled) = (Vec::new(), 0);
    'connections: loop {
        let mut reader = Reader::open(&server, Transport::Sse, &run_id, bodies.len() as u64).await;
        loop {
            match reader.next().await {
                Got::Frame(seq, body) => {
                    assert_eq!(seq, bodies.len() as u64 + 1);
                    let over = body.windows(9).any(|w| w == b"\"run.end\"");
                    bodies.push(body);
                    if over {
                        break 'connections;
                    }
                }
                Got::Ended => break,
                other => panic!("a stream of age ends in good order, not by {other:?}"),
            }
        }
        recycled += 1;
    }
    telling.await.unwrap();
    assert!(recycled > 0, "no stream got old");
    assert_eq!(bodies, server.log(&run_id).await);
}

#[tokio::test]
async fn the_client_follows_across_recycled_connections() {
    let (steps, driver) = stepped();
    let server = Setup::new()
        .agent("held", driver)
        .options(|o| {
            o.stream_max_age = Some(Duration::from_millis(40));
            o.retry = Duration::from_millis(1);
        })
        .start()
        .await;
    let run_id = server.create("held").await;
    let client = runwire_client::Server::new(&server.url("/"), None).unwrap();
    let backoff = Backoff { first: Duration::from_millis(1), ..Backoff::default() };
    let mut frames = client.follow(&run_id).backoff(backoff).start();
    let (mut bodies, mut cuts) = (Vec::new(), 0);
    while let Some(followed) = soon(frames.next()).await {
        match followed.unwrap() {
            Followed::Frame { body, .. } => bodies.push(body),
            Followed::Disconnected { .. } => {
                cuts += 1;
                steps.say("after a cut");
                if cuts == 5 {
                    steps.complete();
                }
            }
            Followed::Connected { .. } => {}
        }
    }
    assert!(cuts >= 5);
    assert_eq!(bodies, server.log(&run_id).await);
}

#[tokio::test]
async fn http_1_and_http_2_carry_the_same_stream() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let url = server.url(&format!("/v2/runs/{run_id}/stream"));
    let first = soon(server.http.get(&url).send()).await.unwrap();
    assert_eq!(first.version(), reqwest::Version::HTTP_11);
    let second = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let second = soon(second.get(&url).send()).await.unwrap();
    assert_eq!(second.version(), reqwest::Version::HTTP_2);
    assert_eq!(second.headers()["content-type"], "text/event-stream");
    assert_eq!(soon(first.text()).await.unwrap(), soon(second.text()).await.unwrap());
}

#[tokio::test]
async fn many_streams_share_one_http_2_connection_while_the_run_goes_on() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let run_id = server.create("held").await;
    server.reached(&run_id, 2).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let mut readers = Vec::new();
    for _ in 0..20 {
        let request = client.get(server.url(&format!("/v2/runs/{run_id}/stream")));
        readers.push(soon(request.send()).await.unwrap());
    }
    for n in 0..50 {
        steps.say(format!("{n}"));
    }
    steps.complete();
    let frames = server.ended(&run_id).await.head as usize;
    for reader in readers {
        assert_eq!(soon(reader.text()).await.unwrap().matches("\nid: ").count(), frames);
    }
}
