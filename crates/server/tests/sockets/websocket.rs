//! `GET /v2/runs/{id}/ws`: frames as text messages (design section 5, "WebSocket").

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use runwire_frame::{ErrorCode, ErrorData, Incoming};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::harness::{Got, Line, Reader, Server, Setup, Transport, WebSocket, problem, soon, stepped};

/// A WebSocket whose upgrade had these headers.
async fn upgrade(server: &Server, path: &str, headers: &[(&'static str, &str)]) -> Result<WebSocket, u16> {
    let mut request = format!("ws://localhost{path}").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let line = Line::open(server.address).await;
    match soon(tokio_tungstenite::client_async(request, line)).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(refused)) => Err(refused.status().as_u16()),
        Err(other) => panic!("{other}"),
    }
}

async fn connect(server: &Server, run_id: &str) -> WebSocket {
    Reader::websocket(Line::open(server.address).await, run_id, "").await
}

async fn say(socket: &mut WebSocket, message: impl Into<Message>) {
    soon(socket.send(message.into())).await.unwrap();
}

fn auth(token: &str, protocol: u64, after: u64) -> Message {
    Message::text(json!({ "type": "auth", "token": token, "protocol": protocol, "after": after }).to_string())
}

/// All text messages until the close, and its code.
async fn until_close(socket: &mut WebSocket) -> (Vec<String>, u16) {
    let mut said = Vec::new();
    loop {
        match soon(socket.next()).await {
            Some(Ok(Message::Text(text))) => said.push(text.to_string()),
            Some(Ok(Message::Close(close))) => return (said, close.unwrap().code.into()),
            Some(Ok(Message::Ping(_))) => {}
            other => panic!("a close should come, not {other:?}"),
        }
    }
}

/// The connection has to end by an `error` frame with `seq` 0, and this code.
async fn refused(socket: &mut WebSocket, close: u16, code: ErrorCode) -> (String, ErrorData) {
    let (said, closed) = until_close(socket).await;
    assert_eq!(closed, close, "{said:?}");
    let [body] = &said[..] else { panic!("one error frame, not {said:?}") };
    assert!(body.starts_with(r#"{"protocol":2,"seq":0,"run_id":"#), "{body}");
    let Incoming::ConnectionError(error) = Incoming::decode(body.as_bytes()).unwrap() else {
        panic!("seq 0 is about the connection: {body}")
    };
    assert_eq!(error.code, code);
    (body.clone(), error)
}

#[tokio::test]
async fn the_first_message_opens_the_stream_and_1000_ends_it_after_run_end() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let log: Vec<String> = server.log(&run_id).await.iter().map(|b| String::from_utf8(b.to_vec()).unwrap()).collect();
    for after in [0, 7, log.len()] {
        let mut socket = connect(&server, &run_id).await;
        say(&mut socket, auth("", 2, after as u64)).await;
        let (said, code) = until_close(&mut socket).await;
        assert_eq!(code, 1000);
        assert_eq!(said, log[after..]);
    }
    let mut socket = connect(&server, &run_id).await;
    say(&mut socket, Message::text(r#"{"protocol":2,"type":"auth","token":null,"also":["unknown"]}"#)).await;
    assert_eq!(until_close(&mut socket).await, (log, 1000), "`after` may be left out, and more may be said");
}

#[tokio::test]
async fn a_first_message_that_does_not_come_in_time_is_4401() {
    let server = Setup::new().options(|o| o.first_message = Duration::from_millis(100)).start().await;
    let run_id = server.demo().await;
    let mut socket = connect(&server, &run_id).await;
    let (_, error) = refused(&mut socket, 4401, ErrorCode::AuthFailed).await;
    assert!(error.retryable, "the same message may be in time at the next attempt: {error:?}");

    // Signs of life are no first message.
    let mut socket = connect(&server, &run_id).await;
    say(&mut socket, Message::Ping("alive".into())).await;
    let pong = soon(socket.next()).await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong("alive".into()));
    refused(&mut socket, 4401, ErrorCode::AuthFailed).await;
}

/// Seed, *WebSocket close codes*: 5 s to send the first frame. With the server as it is when nobody configures it.
#[tokio::test]
async fn a_client_has_5_s_to_send_the_first_message_and_not_less() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let (mut silent, mut late) = (connect(&server, &run_id).await, connect(&server, &run_id).await);
    let early = tokio::time::timeout(Duration::from_millis(4500), silent.next()).await;
    assert!(early.is_err(), "closed before the 5 s had passed: {early:?}");
    say(&mut late, auth("", 2, 0)).await;
    assert_eq!(until_close(&mut late).await.1, 1000);
    refused(&mut silent, 4401, ErrorCode::AuthFailed).await;
}

#[tokio::test]
async fn a_message_that_is_no_valid_first_message_is_malformed_and_4401() {
    let server = Setup::new().token("alice").start().await;
    let cases = [
        Message::text("hello"),
        Message::text(""),
        Message::text("[]"),
        Message::text("null"),
        Message::text(r#"{"type":"auth"}"#),
        Message::text(r#"{"type":"auth","token":"alice","after":0}"#),
        Message::text(r#"{"type":"hello","token":"alice","protocol":2,"after":0}"#),
        Message::text(r#"{"token":"alice","protocol":2,"after":0}"#),
        Message::text(r#"{"type":"auth","token":7,"protocol":2,"after":0}"#),
        Message::text(r#"{"type":"auth","token":"alice","protocol":"2","after":0}"#),
        Message::text(r#"{"type":"auth","token":"alice","protocol":2,"after":-1}"#),
        Message::text(r#"{"type":"auth","token":"alice","protocol":2,"after":1.5}"#),
        Message::text(r#"{"type":"auth","token":"alice","protocol":2,"after":"0"}"#),
        Message::binary(auth("alice", 2, 0).into_data()),
    ];
    for message in cases {
        let mut socket = connect(&server, "run_nobody").await;
        say(&mut socket, message.clone()).await;
        let (_, error) = refused(&mut socket, 4401, ErrorCode::MalformedFrame).await;
        assert!(error.message.contains(r#""type":"auth""#), "{message:?}: {}", error.message);
        assert!(!error.retryable);
    }
}

#[tokio::test]
async fn a_token_that_the_server_does_not_know_is_4401() {
    let server = Setup::new().token("alice").start().await;
    for first in [auth("bob", 2, 0), auth("", 2, 0), Message::text(r#"{"type":"auth","protocol":2,"after":0}"#)] {
        let mut socket = connect(&server, "run_nobody").await;
        say(&mut socket, first).await;
        refused(&mut socket, 4401, ErrorCode::AuthFailed).await;
    }
    for header in ["Bearer bob", "Basic alice", "Bearer "] {
        let mut socket = upgrade(&server, "/v2/runs/run_nobody/ws", &[("authorization", header)]).await.unwrap();
        refused(&mut socket, 4401, ErrorCode::AuthFailed).await;
    }
}

#[tokio::test]
async fn an_unknown_run_and_somebody_elses_are_the_same_4404() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).token("alice").token("bob").start().await;
    let body = json!({ "agent_id": "held", "prompt": "x" });
    let record: Value =
        soon(server.post("/v2/runs", &body).bearer_auth("alice").send()).await.unwrap().json().await.unwrap();
    let hers = record["run_id"].as_str().unwrap();
    // As long as hers.
    let nobodys = format!("run_{}", "0".repeat(hers.len() - 4));

    let mut seen = Vec::new();
    for run_id in [hers, &nobodys] {
        for after in [0, 999] {
            let mut socket = connect(&server, run_id).await;
            say(&mut socket, auth("bob", 2, after)).await;
            let (body, error) = refused(&mut socket, 4404, ErrorCode::RunNotFound).await;
            assert!(error.extra.is_empty(), "not even the head is told");
            let mut frame: Value = serde_json::from_str(&body).unwrap();
            let ts = frame["ts"].as_str().unwrap().to_owned();
            assert_eq!(frame["run_id"].take(), run_id);
            seen.push(body.replace(run_id, "ID").replace(&ts, "TS"));
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");

    let mut socket = connect(&server, hers).await;
    say(&mut socket, auth("alice", 2, 0)).await;
    let Some(Ok(Message::Text(first))) = soon(socket.next()).await else { panic!("alice sees her run") };
    assert!(first.contains("run.start"));
}

#[tokio::test]
async fn a_protocol_other_than_2_is_4409() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    for protocol in [0, 1, 3, u64::MAX] {
        let mut socket = connect(&server, &run_id).await;
        say(&mut socket, auth("", protocol, 0)).await;
        let (_, error) = refused(&mut socket, 4409, ErrorCode::ProtocolUnsupported).await;
        assert!(error.message.contains(&protocol.to_string()), "{}", error.message);
    }
    let path = format!("/v2/runs/{run_id}/ws?protocol=3");
    let mut socket = upgrade(&server, &path, &[("authorization", "Bearer x")]).await.unwrap();
    refused(&mut socket, 4409, ErrorCode::ProtocolUnsupported).await;
}

#[tokio::test]
async fn a_cursor_past_the_head_is_4401_with_the_head() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let head = server.log(&run_id).await.len() as u64;
    for after in [head + 1, u64::MAX] {
        let mut socket = connect(&server, &run_id).await;
        say(&mut socket, auth("", 2, after)).await;
        let (_, error) = refused(&mut socket, 4401, ErrorCode::MalformedFrame).await;
        assert_eq!(error.extra["head"], head);
    }
}

#[tokio::test]
async fn a_header_on_the_upgrade_authenticates_and_then_the_cursor_is_in_the_query() {
    let server = Setup::new().token("alice").start().await;
    let body = json!({ "agent_id": "demo", "prompt": "x" });
    let record: Value =
        soon(server.post("/v2/runs", &body).bearer_auth("alice").send()).await.unwrap().json().await.unwrap();
    let run_id = record["run_id"].as_str().unwrap();
    server.ended(run_id).await;
    let log = server.log(run_id).await;
    for (query, after) in [("", 0), ("?after=5", 5), ("?after=5&protocol=2", 5)] {
        let path = format!("/v2/runs/{run_id}/ws{query}");
        let mut socket = upgrade(&server, &path, &[("authorization", "Bearer alice")]).await.unwrap();
        let (said, code) = until_close(&mut socket).await;
        assert_eq!((said.len(), code), (log.len() - after, 1000), "{query}");
        assert_eq!(said[0].as_bytes(), log[after]);
    }
    // Where the first message says all of it, the query says nothing.
    let mut socket = upgrade(&server, &format!("/v2/runs/{run_id}/ws?after=5&protocol=3"), &[]).await.unwrap();
    say(&mut socket, auth("alice", 2, 7)).await;
    assert_eq!(until_close(&mut socket).await.0[0].as_bytes(), log[7]);
    for query in ["?after=x", "?after=-1", "?from=1", "?protocol=two"] {
        let path = format!("/v2/runs/{run_id}/ws{query}");
        let refused = upgrade(&server, &path, &[("authorization", "Bearer alice")]).await;
        assert_eq!(refused.err(), Some(400), "{query}");
    }
}

#[tokio::test]
async fn without_tokens_any_token_opens_also_none_and_an_empty_one() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    for first in [
        json!({ "type": "auth", "token": "whatever", "protocol": 2, "after": 0 }),
        json!({ "type": "auth", "token": "", "protocol": 2, "after": 0 }),
        json!({ "type": "auth", "token": null, "protocol": 2, "after": 0 }),
        json!({ "type": "auth", "protocol": 2, "after": 0 }),
    ] {
        let mut socket = connect(&server, &run_id).await;
        say(&mut socket, Message::text(first.to_string())).await;
        assert_eq!(until_close(&mut socket).await.1, 1000, "{first}");
    }
    for header in ["Bearer whatever", "Bearer ", "Basic eA=="] {
        let path = format!("/v2/runs/{run_id}/ws");
        let mut socket = upgrade(&server, &path, &[("authorization", header)]).await.unwrap();
        assert_eq!(until_close(&mut socket).await.1, 1000, "{header}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_open_no_websocket() {
    let server = Setup::new().options(|o| o.cors_origins = vec!["https://app.example".to_owned()]).start().await;
    let run_id = server.demo().await;
    let path = format!("/v2/runs/{run_id}/ws");
    for own in ["http://localhost", "https://app.example"] {
        let mut socket = upgrade(&server, &path, &[("origin", own)]).await.unwrap();
        say(&mut socket, auth("", 2, 0)).await;
        assert_eq!(until_close(&mut socket).await.1, 1000, "{own}");
    }
    for foreign in ["https://evil.example", "https://app.example.evil.example", "http://localhost:1", "null", ""] {
        assert_eq!(upgrade(&server, &path, &[("origin", foreign)]).await.err(), Some(403), "{foreign}");
    }
    let request = server.get(&path).header("connection", "upgrade").header("upgrade", "websocket");
    let request = request.header("sec-websocket-version", "13").header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
    let refused = soon(request.header("origin", "https://evil.example").send()).await.unwrap();
    assert_eq!(problem(refused).await["status"], 403);
}

#[tokio::test]
async fn where_a_token_is_wanted_a_page_that_has_one_may_be_anybodys() {
    let server = Setup::new().token("alice").start().await;
    let headers = [("origin", "https://anywhere.example")];
    for (token, code) in [("alice", 4404), ("guess", 4401)] {
        let mut socket = upgrade(&server, "/v2/runs/run_nobody/ws", &headers).await.unwrap();
        say(&mut socket, auth(token, 2, 0)).await;
        assert_eq!(until_close(&mut socket).await.1, code, "{token}");
    }
}

#[tokio::test]
async fn a_peer_that_answers_pings_stays_and_one_that_answers_none_is_gone() {
    let (steps, driver) = stepped();
    let server = Setup::new()
        .agent("held", driver)
        .options(|o| {
            o.keep_alive = Duration::from_millis(50);
            o.gone_after = Duration::from_secs(1);
        })
        .start()
        .await;
    let run_id = server.create("held").await;
    server.reached(&run_id, 2).await;

    // One that reads without answering: the bytes arrive, and nobody makes pongs of the pings among them.
    let mut silent = connect(&server, &run_id).await;
    say(&mut silent, auth("", 2, 2)).await;
    let mut silent = silent.into_inner();
    let mut received = Vec::new();
    // The server closes without a word: there is nobody to tell.
    let _ = soon(silent.read_to_end(&mut received)).await;
    assert!(received.len() >= 8 && received.chunks(2).all(|ping| ping == [0x89, 0]), "pings and no more: {received:?}");

    // One that does answer is still there after twice as long.
    let mut alive = connect(&server, &run_id).await;
    say(&mut alive, auth("", 2, 2)).await;
    let mut pings = 0;
    while pings < 40 {
        match soon(alive.next()).await {
            Some(Ok(Message::Ping(_))) => pings += 1,
            other => panic!("only pings come in silence, not {other:?}"),
        }
    }
    steps.say("still there?");
    steps.complete();
    let (said, code) = until_close(&mut alive).await;
    assert_eq!((said.len(), code), (3, 1000));
}

#[tokio::test]
async fn what_a_client_says_later_changes_nothing_and_too_much_ends_its_connection_only() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let run_id = server.create("held").await;
    server.reached(&run_id, 2).await;
    let mut chatty = connect(&server, &run_id).await;
    say(&mut chatty, auth("", 2, 2)).await;
    for message in [Message::text("and another thing"), Message::binary(vec![0; 100]), auth("", 3, 9)] {
        say(&mut chatty, message).await;
    }
    let mut flooding = connect(&server, &run_id).await;
    say(&mut flooding, auth("", 2, 2)).await;
    // The server may have closed before all of it was sent.
    let _ = flooding.send(Message::text("x".repeat(1024 * 1024))).await;
    soon(async { while let Some(Ok(_)) = flooding.next().await {} }).await;

    steps.say("undisturbed");
    steps.complete();
    let (said, code) = until_close(&mut chatty).await;
    assert_eq!((said.len(), code), (3, 1000));
    assert_eq!(server.ended(&run_id).await.status, "completed");
}

#[tokio::test]
async fn a_client_may_close_first() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let run_id = server.create("held").await;
    let mut reader = Reader::open(&server, Transport::WebSocket, &run_id, 0).await;
    reader.frame(1).await;
    reader.frame(2).await;
    let Reader::WebSocket(mut socket) = reader else { unreachable!("it was opened as one") };
    soon(socket.close(None)).await.unwrap();
    soon(async { while let Some(Ok(_)) = socket.next().await {} }).await;
    assert_eq!(server.store.run(&run_id).await.unwrap().unwrap().status, "running", "G9");
}

#[tokio::test]
async fn a_websocket_of_age_is_closed_between_frames_and_resumes() {
    let (steps, driver) = stepped();
    let server = Setup::new()
        .agent("held", driver)
        .options(|o| o.stream_max_age = Some(Duration::from_millis(50)))
        .start()
        .await;
    let run_id = server.create("held").await;
    server.reached(&run_id, 2).await;
    let mut reader = Reader::open(&server, Transport::WebSocket, &run_id, 0).await;
    reader.frame(1).await;
    reader.frame(2).await;
    assert_eq!(reader.next().await, Got::Closed(1001));
    steps.say("more");
    let mut reader = Reader::open(&server, Transport::WebSocket, &run_id, 2).await;
    reader.frame(3).await;
}
