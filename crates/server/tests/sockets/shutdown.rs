//! Shutting down: readers are let go between frames, and find everything on the next server.

use std::time::Duration;

use futures_util::StreamExt as _;
use runwire_client::{Backoff, Followed, Transport as Carrier};

use crate::harness::{Got, Line, Loss, Reader, Script, Setup, Transport, soon, stepped};
use runwire_bridge::{Completion, ExchangeEnd, Opening};
use runwire_engine::{Exchange, RunWriter};

#[tokio::test]
async fn open_readers_end_cleanly_and_resume_at_the_next_server_on_the_store() {
    let (steps, driver) = stepped();
    let mut server = Setup::new().agent("held", driver).start().await;
    let run_id = server.create("held").await;
    server.reached(&run_id, 2).await;
    let mut readers = Vec::new();
    for transport in [Transport::Sse, Transport::WebSocket].repeat(10) {
        let mut reader = Reader::open(&server, transport, &run_id, 0).await;
        let read = vec![reader.frame(1).await, reader.frame(2).await];
        readers.push((transport, read, reader));
    }

    // A closing handshake takes both sides, so the readers have to be there while the server goes.
    let ends = tokio::spawn(async move {
        for (transport, _, reader) in &mut readers {
            let end = reader.next().await;
            match transport {
                Transport::Sse => assert_eq!(end, Got::Ended),
                Transport::WebSocket => assert_eq!(end, Got::Closed(1001)),
            }
        }
        readers
    });
    server.stop().await;
    let readers = soon(ends).await.unwrap();
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err(), "nobody listens any more");

    steps.say("while nobody served");
    server.start_again();
    steps.say("and after");
    steps.complete();
    server.ended(&run_id).await;
    let log = server.log(&run_id).await;
    for (transport, mut read, _) in readers {
        let mut reader = Reader::open(&server, transport.other(), &run_id, 2).await;
        read.extend(reader.rest(2).await);
        assert_eq!(read, log);
    }
}

#[tokio::test]
async fn the_client_follows_across_a_restart() {
    for carrier in [Carrier::Sse, Carrier::WebSocket] {
        let (steps, driver) = stepped();
        let mut server =
            Setup::new().agent("held", driver).options(|o| o.retry = Duration::from_millis(1)).start().await;
        let run_id = server.create("held").await;
        server.reached(&run_id, 2).await;
        let client = runwire_client::Server::new(&server.url("/"), None).unwrap();
        let backoff = Backoff { first: Duration::from_millis(1), cap: Duration::from_millis(50), max_elapsed: None };
        let mut frames = client.follow(&run_id).transport(carrier).backoff(backoff).start();
        let (told, mut at) = tokio::sync::watch::channel(0);
        let following = tokio::spawn(async move {
            let mut bodies = Vec::new();
            while let Some(followed) = frames.next().await {
                if let Followed::Frame { body, seq, .. } = followed.unwrap() {
                    bodies.push(body);
                    told.send_replace(seq);
                }
            }
            bodies
        });
        soon(at.wait_for(|seq| *seq == 2)).await.unwrap();
        server.stop().await;
        steps.say("while nobody served");
        server.reached(&run_id, 3).await;
        server.start_again();
        soon(at.wait_for(|seq| *seq == 3)).await.unwrap();
        steps.complete();
        assert_eq!(soon(following).await.unwrap(), server.log(&run_id).await);
    }
}

#[tokio::test]
async fn a_peer_that_takes_nothing_does_not_hold_the_server_up() {
    let talker = Script(|_: Exchange, writer: RunWriter| async move {
        let message = writer.message(Opening::default()).await?;
        for _ in 0..400 {
            message.text(&"x".repeat(4096)).await?;
        }
        Ok(ExchangeEnd::Completed(Completion::default()))
    });
    let mut server = Setup::new()
        .agent("talker", talker)
        .send_buffer(16 * 1024)
        .options(|o| o.shutdown_grace = Duration::from_millis(300))
        .start()
        .await;
    let run_id = server.create("talker").await;
    server.ended(&run_id).await;
    let mut stuck = Vec::new();
    for transport in Transport::BOTH {
        stuck.push(Reader::over(Line::open_narrow(server.address).await, transport, &run_id, 0, None).await);
    }
    // Nor does one that is silent before its first message, or in the middle of a request.
    let _unsaid = Reader::websocket(Line::open(server.address).await, &run_id, "").await;
    let mut half = Line::open(server.address).await;
    soon(tokio::io::AsyncWriteExt::write_all(&mut half, b"GET /v2/runs HTTP/1.1\r\nHost: loc")).await.unwrap();
    server.stop().await;
    for reader in stuck {
        reader.lose(Loss::Reset).await;
    }
}

#[tokio::test]
async fn a_peer_whose_socket_takes_nothing_is_given_up() {
    let talker = Script(|_: Exchange, writer: RunWriter| async move {
        let message = writer.message(Opening::default()).await?;
        for _ in 0..400 {
            message.text(&"x".repeat(4096)).await?;
        }
        Ok(ExchangeEnd::Completed(Completion::default()))
    });
    let server = Setup::new()
        .agent("talker", talker)
        .send_buffer(16 * 1024)
        .options(|o| o.gone_after = Duration::from_millis(300))
        .start()
        .await;
    let run_id = server.create("talker").await;
    server.ended(&run_id).await;
    for transport in Transport::BOTH {
        let mut reader = Reader::over(Line::open_narrow(server.address).await, transport, &run_id, 0, None).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let end = soon(async {
            loop {
                match reader.next().await {
                    Got::Frame(..) => {}
                    end => return end,
                }
            }
        });
        assert_eq!(end.await, Got::Cut, "{transport:?}: it resumes from its cursor, if it ever comes back");
    }
}
