//! Bytes that come one by one, late or joined; readers that stop reading for a while, and readers that never read (G8).

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use runwire_client::{AguiFollowed, Followed, Transport};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;

use crate::agent::{Agent, message};
use crate::followers::{BACKOFF, Follower, READERS, Reader, Truth, read};
use crate::proxy::{Line, Proxy};
use crate::scale;
use crate::serving::{AGENTS, Serving, client};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_come_one_by_one_late_or_joined_are_the_same_frames() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let late = Line::Late(Duration::from_millis(20));
    let joined = Line::Joined(Duration::from_millis(60));
    let lines = [Line::OneByOne, late, joined];
    let checks = lines.into_iter().flat_map(|line| READERS.map(|reader| (line, reader)));
    let checks = checks.map(async |(line, reader)| {
        let run_id = server.create("demo").await;
        let proxy = Proxy::new(server.url(), move || line).await;
        let client = client(proxy.url());
        let live = read(&client, &run_id, reader, Duration::from_secs(30), &AtomicUsize::new(0)).await;
        let replayed = read(&client, &run_id, reader, Duration::from_secs(30), &AtomicUsize::new(0)).await;
        let truth = Truth::of(&server, &run_id).await;
        for (seen, when) in [(live, "live"), (replayed, "replayed")] {
            truth.holds(reader, &seen.all, &format!("{line:?}, {when}"));
            assert_eq!(seen.losses, 0, "{line:?}, {when}, {reader:?}: a slow line is no lost line");
            assert!(seen.suspected == 0 || matches!(line, Line::OneByOne), "{line:?}, {when}");
        }
    });
    join_all(checks).await;
}

/// More than sockets hold by themselves: so many messages of 64 KiB.
async fn wordy(messages: usize) -> Agent {
    Agent::start(16 * 1024, move || {
        Box::new((0..messages).flat_map(|n| message(&format!("m{n}"), [format!("{n:08}").repeat(8 * 1024)])))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_reading_for_a_while_goes_on_where_it_was() {
    let agent = wordy(200).await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agent.configured("wordy")).await;
    let run_id = server.create("wordy").await;
    let pause = Duration::from_secs(scale(2, 60));
    let reading = READERS.map(async |reader| {
        let client = server.client();
        let (mut seen, mut losses) = (Vec::new(), 0);
        if reader == Reader::Agui {
            let mut events = client.follow_agui(&run_id).backoff(BACKOFF).recorded().start();
            while let Some(followed) = events.next().await {
                match followed.unwrap() {
                    AguiFollowed::Events { id, received, .. } => seen.push(format!("{id} {}", received.unwrap())),
                    AguiFollowed::Disconnected { .. } => losses += 1,
                    AguiFollowed::Connected { .. } | AguiFollowed::Ended(_) => {}
                }
                if seen.len() == 5 {
                    tokio::time::sleep(pause).await;
                }
            }
        } else {
            let transport = if reader == Reader::Sse { Transport::Sse } else { Transport::WebSocket };
            let mut frames = client.follow(&run_id).transport(transport).backoff(BACKOFF).start();
            while let Some(followed) = frames.next().await {
                match followed.unwrap() {
                    Followed::Frame { body, .. } => seen.push(String::from_utf8(body.to_vec()).unwrap()),
                    Followed::Disconnected { .. } => losses += 1,
                    Followed::Connected { .. } => {}
                }
                if seen.len() == 5 {
                    tokio::time::sleep(pause).await;
                }
            }
        }
        (reader, seen, losses)
    });
    let read = join_all(reading).await;
    let truth = Truth::of(&server, &run_id).await;
    for (reader, seen, losses) in read {
        truth.holds(reader, &seen, "after a pause");
        println!("{reader:?}: away for {pause:?}, lost the connection {losses} times");
    }
}

/// Resident memory of the server, in KiB.
fn memory(server: &Serving) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_never_read_cost_the_others_nothing_and_the_server_no_memory_for_what_they_leave() {
    let agent = wordy(200).await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agent.configured("wordy")).await;
    let host = server.url().strip_prefix("http://").unwrap();
    // What one run leaves in the server's memory by itself.
    let first = server.create("wordy").await;
    server.wait_for(&first, |frame| frame.data.frame_type().as_str() == "run.end").await;
    let before = memory(&server);

    let run_id = server.create("wordy").await;
    let mut deaf = Vec::new();
    for n in 0..scale(60, 600) {
        // Little room in the system, so that what is not read stays with the server, which is what is looked at.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut socket = socket.connect(host.parse().unwrap()).await.unwrap();
        let stream = ["stream", "agui", "ws"][n % 3];
        let upgrade = if stream == "ws" {
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        } else {
            ""
        };
        let request = format!("GET /v2/runs/{run_id}/{stream} HTTP/1.1\r\nHost: {host}\r\n{upgrade}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        if stream == "ws" {
            let auth = br#"{"type":"auth","token":"","protocol":2,"after":0}"#;
            // A masked text message whose mask changes nothing.
            socket.write_all(&[&[0x81, 0x80 | auth.len() as u8, 0, 0, 0, 0], &auth[..]].concat()).await.unwrap();
        }
        deaf.push(socket);
    }
    let follow = |reader| Follower::of(server.client(), &run_id, reader, Duration::from_secs(40));
    let followers = READERS.map(follow);
    let mut seen = Vec::new();
    for follower in followers {
        // Less than the 45 s after which the server gives up whoever takes nothing: nobody has to wait for that.
        seen.push((follower.reader, follower.until(Duration::from_secs(40)).await));
    }
    let grown = memory(&server) - before;
    let truth = Truth::of(&server, &run_id).await;
    let log: usize = truth.frames.iter().map(String::len).sum();
    for (reader, seen) in seen {
        truth.holds(reader, &seen.all, "beside readers that never read");
        assert_eq!(seen.losses, 0);
    }
    let for_each = log as i64 / 1024 * deaf.len() as i64;
    println!("{} readers that never read, a log of {log} bytes: the server grew by {grown} KiB", deaf.len());
    assert!(grown < for_each / 4, "the server grew by {grown} KiB; the log for each of them would be {for_each} KiB");
    drop(deaf);
    let record: Value = server.client().run(&run_id).await.unwrap().members()["status"].clone();
    assert_eq!(record, "completed", "G9: leaving is not stopping, and neither is staying away");
}
