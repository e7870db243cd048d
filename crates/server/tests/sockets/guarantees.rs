//! The numbered guarantees of design section 5, each over real sockets on both transports.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use runwire_bridge::{Completion, Ending, ExchangeEnd, Opening};
use runwire_engine::{Exchange, RunWriter};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::harness::{Got, Line, Loss, Reader, Script, Server, Setup, Steps, Transport, problem, soon, stepped};

/// Text that is more bytes than characters, and that JSON has to escape.
const AWKWARD: &str = "naïve \"quoted\" \\ line\nbreak 👩‍👩‍👧 \u{2028} \u{0} end";

/// Loses a connection the one way or the other.
fn loss(n: usize) -> Loss {
    if n.is_multiple_of(2) { Loss::Reset } else { Loss::Finish }
}

/// A run of so many frames that waits to be told more.
async fn held(frames: usize) -> (Server, Steps, String) {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let run_id = server.create("held").await;
    for n in 2..frames {
        steps.say(format!("{n} {AWKWARD}"));
    }
    server.reached(&run_id, frames as u64).await;
    (server, steps, run_id)
}

#[tokio::test]
async fn g1_g2_g3_a_connection_lost_behind_any_frame_resumes_on_the_other_transport_with_the_next() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let log = server.log(&run_id).await;
    assert!(log.len() > 20);
    for first in Transport::BOTH {
        for boundary in 0..log.len() {
            let mut reader = Reader::open(&server, first, &run_id, 0).await;
            let mut read = Vec::new();
            for seq in 1..=boundary {
                read.push(reader.frame(seq as u64).await);
            }
            reader.lose(loss(boundary)).await;
            let mut reader = Reader::open(&server, first.other(), &run_id, boundary as u64).await;
            read.extend(reader.rest(boundary as u64).await);
            assert_eq!(read, log, "{first:?}, lost behind frame {boundary}");
        }
    }
}

#[tokio::test]
async fn g1_g2_g3_a_live_run_is_whole_for_a_reader_that_loses_its_connection_at_every_frame() {
    for mut transport in Transport::BOTH {
        let (server, steps, run_id) = held(2).await;
        let mut read = Vec::new();
        for seq in 1..=40 {
            let mut reader = Reader::open(&server, transport, &run_id, read.len() as u64).await;
            if seq > 2 {
                // While the reader is there, so that it is a live frame.
                steps.say(format!("{seq} {AWKWARD}"));
            }
            read.push(reader.frame(seq).await);
            reader.lose(loss(read.len())).await;
            transport = transport.other();
        }
        steps.complete();
        let mut reader = Reader::open(&server, transport, &run_id, 40).await;
        read.extend(reader.rest(40).await);
        assert_eq!(read, server.log(&run_id).await);
    }
}

/// Cuts connections after 0, 1, 2, … bytes of what is behind the cursor, until one got the frame whole, and resumes each
/// on the other transport.
async fn cut_inside(server: &Server, run_id: &str, frame: &Bytes, seq: u64) {
    for transport in Transport::BOTH {
        let mut bytes = 0;
        loop {
            let mut reader = Reader::cut(server, transport, run_id, seq - 1, bytes).await;
            let got = reader.next().await;
            reader.lose(loss(bytes)).await;
            match got {
                Got::Cut => {}
                // What is received of a frame is the frame.
                Got::Frame(got, body) => {
                    assert_eq!((got, &body), (seq, frame));
                    break;
                }
                other => panic!("{other:?}"),
            }
            let mut reader = Reader::open(server, transport.other(), run_id, seq - 1).await;
            assert_eq!(reader.frame(seq).await, *frame, "{transport:?}, cut after {bytes} bytes");
            reader.lose(loss(bytes + 1)).await;
            bytes += 1;
        }
        assert!(bytes > frame.len(), "it was cut inside of the frame, too");
    }
}

#[tokio::test]
async fn g1_g2_g3_a_connection_cut_at_any_byte_of_a_frame_resumes_with_that_frame() {
    let (server, steps, run_id) = held(5).await;
    let frame = server.log(&run_id).await[3].clone();
    assert!(std::str::from_utf8(&frame).unwrap().contains("naïve"));
    cut_inside(&server, &run_id, &frame, 4).await;
    steps.complete();
    let head = server.ended(&run_id).await.head;
    let last = server.log(&run_id).await.pop().unwrap();
    cut_inside(&server, &run_id, &last, head).await;
}

#[tokio::test]
async fn g3_a_body_is_the_same_bytes_by_sse_by_websocket_and_in_a_page() {
    let server = Setup::new().start().await;
    let live = server.create("demo").await;
    let mut readers = Vec::new();
    for transport in Transport::BOTH {
        readers.push(Reader::open(&server, transport, &live, 0).await);
    }
    let mut read = Vec::new();
    for reader in &mut readers {
        read.push(reader.rest(0).await);
    }
    for transport in Transport::BOTH {
        read.push(Reader::open(&server, transport, &live, 0).await.rest(0).await);
    }
    let log = server.log(&live).await;
    for bodies in &read {
        assert_eq!(*bodies, log);
    }
    let page = soon(soon(server.get(&format!("/v2/runs/{live}/frames")).send()).await.unwrap().bytes()).await.unwrap();
    let joined = [&br#"{"frames":["#[..], &log.join(&b","[..]), br#"],"next_after":"#].concat();
    assert!(page.starts_with(&joined));
}

#[tokio::test]
async fn g4_every_cursor_of_a_live_and_of_an_ended_run_resumes_there() {
    let (server, steps, run_id) = held(30).await;
    let log = server.log(&run_id).await;
    let mut readers = Vec::new();
    for transport in Transport::BOTH {
        for after in 0..=log.len() {
            let mut reader = Reader::open(&server, transport, &run_id, after as u64).await;
            for (seq, body) in (1..).zip(&log).skip(after) {
                assert_eq!(reader.frame(seq).await, *body, "{transport:?} after {after}");
            }
            readers.push(reader);
        }
    }
    steps.say("now live");
    steps.complete();
    server.ended(&run_id).await;
    let log = server.log(&run_id).await;
    for reader in &mut readers {
        assert_eq!(reader.rest(30).await, log[30..]);
    }
    for transport in Transport::BOTH {
        for after in 0..log.len() {
            let rest = Reader::open(&server, transport, &run_id, after as u64).await.rest(after as u64).await;
            assert_eq!(rest, log[after..], "{transport:?} after {after}");
        }
    }
}

#[tokio::test]
async fn g5_a_frame_that_a_reader_has_is_in_the_file() {
    let (server, steps, run_id) = held(2).await;
    let file = Connection::open_with_flags(server.file(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let stored = |seq: u64| -> Option<Vec<u8>> {
        file.query_row(
            "SELECT body FROM frames JOIN runs ON runs.id = frames.run WHERE run_id = ?1 AND seq = ?2",
            (&run_id, i64::try_from(seq).unwrap()),
            |row| row.get(0),
        )
        .optional()
        .unwrap()
    };
    let mut readers = Vec::new();
    for transport in Transport::BOTH {
        readers.push(Reader::open(&server, transport, &run_id, 0).await);
    }
    for seq in 1..=100 {
        if seq > 2 {
            assert_eq!(stored(seq), None);
            steps.say(format!("{seq}"));
        }
        // By turns, so that either transport is the first to have it.
        readers.reverse();
        for reader in &mut readers {
            let body = reader.frame(seq).await;
            assert_eq!(stored(seq).as_deref(), Some(&*body));
        }
    }
}

#[tokio::test]
async fn g6_nothing_follows_run_end_and_the_server_says_so() {
    let (server, steps, run_id) = held(2).await;
    let mut readers = Vec::new();
    for transport in Transport::BOTH.repeat(5) {
        readers.push(Reader::open(&server, transport, &run_id, 0).await);
    }
    steps.complete();
    server.ended(&run_id).await;
    let log = server.log(&run_id).await;
    let is_end = |body: &Bytes| body.windows(9).any(|w| w == b"\"run.end\"");
    assert_eq!(log.iter().filter(|body| is_end(body)).count(), 1);
    assert!(is_end(log.last().unwrap()));
    for reader in &mut readers {
        // `rest` ends only by WebSocket code 1000 and by the proper end of an HTTP body.
        assert_eq!(reader.rest(0).await, log);
    }
    let head = log.len() as u64;
    let resumed = server.get(&format!("/v2/runs/{run_id}/stream")).header("last-event-id", head.to_string());
    assert_eq!(soon(resumed.send()).await.unwrap().status(), 204);
    assert_eq!(Reader::open(&server, Transport::WebSocket, &run_id, head).await.next().await, Got::Ended);
    let cancel = soon(server.http.post(server.url(&format!("/v2/runs/{run_id}/cancel"))).send()).await.unwrap();
    assert_eq!(cancel.status(), 200);
    assert_eq!(server.log(&run_id).await, log, "a late cancel adds nothing");
}

#[tokio::test]
async fn g7_a_cursor_that_cannot_be_served_is_told_what_can() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let head = server.log(&run_id).await.len() as u64;
    assert_eq!(server.store.trim(&run_id, 10).await.unwrap(), 11);
    for path in ["stream", "frames"] {
        for after in [0, 9] {
            let response = soon(server.get(&format!("/v2/runs/{run_id}/{path}?after={after}")).send()).await.unwrap();
            let problem = problem(response).await;
            assert_eq!((&problem["status"], &problem["oldest"]), (&json!(410), &json!(11)), "{path} {after}");
            assert!(problem["detail"].as_str().unwrap().contains("11"), "{problem}");
        }
        let response = soon(server.get(&format!("/v2/runs/{run_id}/{path}?after={}", head + 1)).send()).await.unwrap();
        let problem = problem(response).await;
        assert_eq!((&problem["status"], &problem["head"]), (&json!(416), &json!(head)), "{path}");
    }
    // Events are derived from the whole log.
    let events = soon(server.get(&format!("/v2/runs/{run_id}/agui")).send()).await.unwrap();
    assert_eq!(problem(events).await["status"], 410);

    for (after, key, seq) in [(9, "oldest", 11), (head + 1, "head", head)] {
        let mut reader = Reader::open(&server, Transport::WebSocket, &run_id, after).await;
        let Got::Frame(0, body) = reader.next().await else { panic!("an error frame has seq 0") };
        let error: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&error["type"], &error["data"][key]), (&json!("error"), &json!(seq)), "{error}");
        assert_eq!(error["data"]["code"], "MALFORMED_FRAME");
        assert_eq!(reader.next().await, Got::Closed(4401));
    }
    for transport in Transport::BOTH {
        let rest = Reader::open(&server, transport, &run_id, 10).await.rest(10).await;
        assert_eq!(rest.len() as u64, head - 10, "what is left is served");
    }
}

/// How a reader of the crowd reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Fast,
    /// Hardly any room, and pauses.
    Slow,
    /// Not before it is told to.
    Stuck,
}

/// What the readers wait for together.
struct Crowd {
    /// All are connected, and so is the agent.
    there: Barrier,
    /// The stuck may read.
    go: CancellationToken,
}

/// What a reader of the crowd had in the end: how many frames, and how many bytes of bodies.
async fn read_all(server: &Server, transport: Transport, run_id: &str, pace: Pace, crowd: &Crowd) -> (u64, usize) {
    let line = match pace {
        Pace::Fast => Line::open(server.address).await,
        Pace::Slow | Pace::Stuck => Line::open_narrow(server.address).await,
    };
    let mut reader = Reader::over(line, transport, run_id, 0, None).await;
    crowd.there.wait().await;
    if pace == Pace::Stuck {
        crowd.go.cancelled().await;
    }
    let (mut frames, mut bytes) = (0, 0);
    loop {
        match reader.next().await {
            Got::Frame(seq, body) => {
                assert_eq!(seq, frames + 1, "{transport:?} {pace:?}");
                frames = seq;
                bytes += body.len();
            }
            Got::Ended => return (frames, bytes),
            other => panic!("{transport:?} {pace:?}: {other:?} after {frames}"),
        }
        if pace == Pace::Slow && frames.is_multiple_of(16) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g8_slow_and_dead_readers_change_nothing_for_the_run_or_for_the_others() {
    let crowd = Arc::new(Crowd { there: Barrier::new(201), go: CancellationToken::new() });
    let audience = crowd.clone();
    let talker = Script(move |_: Exchange, writer: RunWriter| {
        let audience = audience.clone();
        async move {
            audience.there.wait().await;
            let message = writer.message(Opening::default()).await?;
            for n in 0..200 {
                // At 4 KiB a frame is full, so this is one a piece.
                message.text(&format!("{n:04}{}", "x".repeat(4092))).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            message.end(Ending::completed()).await?;
            Ok(ExchangeEnd::Completed(Completion::default()))
        }
    });
    // Little room everywhere but in the file, so that the slow fall back to it and the dead are stuck soon.
    let server = Setup::new()
        .agent("talker", talker)
        .store(|o| {
            o.tail_bytes = 64 * 1024;
            o.read_page_bytes = 16 * 1024;
        })
        .send_buffer(16 * 1024)
        .start()
        .await;
    let run_id = server.create("talker").await;
    let server = Arc::new(server);
    let mut crowds = [JoinSet::new(), JoinSet::new(), JoinSet::new()];
    for n in 0..200 {
        let (place, pace) = match n {
            0..175 => (0, Pace::Fast),
            175..195 => (1, Pace::Slow),
            _ => (2, Pace::Stuck),
        };
        let transport = Transport::BOTH[n % 2];
        let (server, run_id, crowd) = (server.clone(), run_id.clone(), crowd.clone());
        crowds[place].spawn(async move { read_all(&server, transport, &run_id, pace, &crowd).await });
    }
    let [fast, slow, mut stuck] = crowds;

    let record = server.ended(&run_id).await;
    assert_eq!(record.status, "completed");
    let log = server.log(&run_id).await;
    assert!(log.len() >= 200);
    let whole = (log.len() as u64, log.iter().map(Bytes::len).sum());
    // The system and the server's HTTP together hold at most some 500 KiB on the way to a reader.
    assert!(whole.1 > 800 * 1024, "the log is too short for anybody to be stuck: {whole:?}");
    for got in soon(fast.join_all()).await {
        assert_eq!(got, whole);
    }
    assert!(stuck.try_join_next().is_none(), "the stuck are still stuck");
    for got in soon(slow.join_all()).await {
        assert_eq!(got, whole);
    }
    crowd.go.cancel();
    for got in soon(stuck.join_all()).await {
        assert_eq!(got, whole, "who reads at last gets all of it");
    }
}

#[tokio::test]
async fn g9_a_client_that_leaves_does_not_stop_the_run() {
    let (server, steps, run_id) = held(2).await;
    for (n, transport) in Transport::BOTH.repeat(4).into_iter().enumerate() {
        let mut reader = Reader::open(&server, transport, &run_id, 0).await;
        reader.frame(1).await;
        reader.lose(loss(n / 2)).await;
    }
    steps.say("going on");
    server.reached(&run_id, 3).await;
    steps.complete();
    assert_eq!(server.ended(&run_id).await.status, "completed");
}

#[tokio::test]
async fn g9_the_client_whose_request_started_the_run_may_leave_too() {
    for leave_after in ["", "RUN_STARTED", "going on"] {
        let (steps, driver) = stepped();
        let server = Setup::new().agent("held", driver).start().await;
        let message = json!({ "id": "m", "role": "user", "content": "Hi" });
        let input = json!({ "threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": [message] });
        let mut response = soon(server.post("/agui/held", &input).send()).await.unwrap();
        let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
        steps.say("going on");
        let mut body = String::new();
        while !body.contains(leave_after) {
            body += std::str::from_utf8(&soon(response.chunk()).await.unwrap().unwrap()).unwrap();
        }
        drop(response);
        steps.say("alone");
        server.reached(&run_id, 4).await;
        steps.complete();
        assert_eq!(server.ended(&run_id).await.status, "completed", "left after `{leave_after}`");
    }
}
