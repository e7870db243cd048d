//! How long the server waits for its peers: not for ever for one that does nothing, and long for one that is only slow.

use std::time::Duration;

use runwire_bridge::{Completion, ExchangeEnd, Opening};
use runwire_engine::{Exchange, RunWriter};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::harness::{Line, Reader, Script, Setup, Transport, soon, stepped};

#[tokio::test]
async fn a_connection_on_which_no_request_comes_is_closed() {
    let server = Setup::new().options(|o| o.request_patience = Duration::from_millis(300)).start().await;
    // Nothing; what may yet become either protocol; and what is a request as far as it goes.
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for said in ["", "P", &preface[..23], "PUT", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(said.as_bytes()).await.unwrap();
        // Closed, with or without a word.
        let mut answer = Vec::new();
        let _ = soon(socket.read_to_end(&mut answer)).await;
    }
    // Nor is one kept that was used once.
    let mut used = TcpStream::connect(server.address).await.unwrap();
    used.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = soon(used.read_to_end(&mut answer)).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_request_may_come_in_pieces_within_the_patience() {
    let server = Setup::new().options(|o| o.request_patience = Duration::from_secs(20)).start().await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    // It begins as the preface of HTTP/2 does.
    for piece in ["P", "OST /v2/runs/nobody/cancel HTT", "P/1.1\r\nHost: localhost\r\n", "Connection: close\r\n\r\n"] {
        socket.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut answer = String::new();
    soon(socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn a_stream_that_is_open_outlasts_the_patience_for_requests() {
    let (steps, driver) = stepped();
    let server =
        Setup::new().agent("held", driver).options(|o| o.request_patience = Duration::from_millis(300)).start().await;
    let run_id = server.create("held").await;
    server.reached(&run_id, 2).await;
    let mut readers = Vec::new();
    for transport in Transport::BOTH {
        readers.push(Reader::open(&server, transport, &run_id, 2).await);
    }
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let mut response = soon(http2.get(server.url(&format!("/v2/runs/{run_id}/stream?after=2"))).send()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1000)).await;
    steps.say("still there?");
    for reader in &mut readers {
        reader.frame(3).await;
    }
    let mut body = String::new();
    while !body.contains("still there?") {
        body += std::str::from_utf8(&soon(response.chunk()).await.unwrap().unwrap()).unwrap();
    }
}

#[tokio::test]
async fn a_websocket_peer_that_reads_slowly_but_steadily_gets_a_frame_that_takes_longer_than_it_may_be_silent() {
    const LARGE: usize = 640 * 1024;
    let talker = Script(|_: Exchange, writer: RunWriter| async move {
        let message = writer.message(Opening::default()).await?;
        message.text(&"x".repeat(LARGE)).await?;
        Ok(ExchangeEnd::Completed(Completion::default()))
    });
    let gone_after = Duration::from_millis(700);
    let server = Setup::new()
        .agent("talker", talker)
        .send_buffer(16 * 1024)
        .options(|o| {
            o.gone_after = gone_after;
            o.keep_alive = Duration::from_millis(200);
        })
        .start()
        .await;
    let run_id = server.create("talker").await;
    server.ended(&run_id).await;
    let log = server.log(&run_id).await;
    let large = log.iter().position(|body| body.len() > LARGE).unwrap();

    let line = Line::open_narrow(server.address).await;
    let reader = Reader::over(line, Transport::WebSocket, &run_id, large as u64, None).await;
    let Reader::WebSocket(socket) = reader else { unreachable!("it was opened as one") };
    let mut line = socket.into_inner();
    let body = &log[large];
    // A final text frame whose length has eight bytes (RFC 6455, 5.2).
    let mut message = vec![0x81, 127];
    message.extend((body.len() as u64).to_be_bytes());
    message.extend_from_slice(body);
    let (mut received, began) = (Vec::new(), std::time::Instant::now());
    while received.len() < message.len() {
        let mut piece = vec![0; 8192.min(message.len() - received.len())];
        soon(line.read_exact(&mut piece)).await.unwrap();
        received.extend(piece);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(received == message, "G3");
    assert!(began.elapsed() > 3 * gone_after, "it was too quick to show anything");
    let socket = WebSocketStream::from_raw_socket(line, Role::Client, None).await;
    let rest = Reader::WebSocket(socket).rest(large as u64 + 1).await;
    assert_eq!(rest, log[large + 1..], "nothing was reset");
}
