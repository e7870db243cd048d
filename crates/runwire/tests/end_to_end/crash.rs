//! SIGKILL in the middle of a run (G5, and G2 across a restart): nothing that anybody has seen is gone, the run ends, and
//! those who follow it get the end.

use std::net::TcpListener;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use runwire_client::{AguiFollowed, Backoff, Followed, Transport};
use runwire_frame::{Data, ErrorCode, Frame, LogValidator, RunStatus};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::program::{PATIENCE, command, wait};
use crate::serving::{AGENTS, Serving};

/// One agent writes at the pace of a model, the other as fast as the store takes it.
const FAST: &str = "\n[agents.flood]\ndriver = \"demo\"\npace = \"0ms\"\nrepeat = 1000000\n";

/// Short, because the server is back at once.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(20), cap: Duration::from_millis(200), max_elapsed: Some(PATIENCE) };

/// A follower of a run, which goes on by itself over lost connections, and ends with the run.
struct Follower {
    /// What it has been given until now.
    seen: watch::Receiver<Vec<String>>,
    reading: JoinHandle<()>,
}

impl Follower {
    fn of_frames(server: &Serving, run_id: &str, transport: Transport) -> Follower {
        let mut frames = server.client().follow(run_id).transport(transport).backoff(BACKOFF).start();
        let (tell, seen) = watch::channel(Vec::new());
        let reading = tokio::spawn(async move {
            while let Some(followed) = frames.next().await {
                if let Followed::Frame { body, .. } = followed.unwrap() {
                    tell.send_modify(|seen| seen.push(String::from_utf8(body.to_vec()).unwrap()));
                }
            }
        });
        Follower { seen, reading }
    }

    fn of_events(server: &Serving, run_id: &str) -> Follower {
        let mut events = server.client().follow_agui(run_id).backoff(BACKOFF).recorded().start();
        let (tell, seen) = watch::channel(Vec::new());
        let reading = tokio::spawn(async move {
            while let Some(followed) = events.next().await {
                if let AguiFollowed::Events { id, received: Some(json), .. } = followed.unwrap() {
                    tell.send_modify(|seen| seen.push(format!("{id} {json}")));
                }
            }
        });
        Follower { seen, reading }
    }

    async fn has(&self, frames: usize) {
        let mut seen = self.seen.clone();
        let waited = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| seen.len() >= frames)).await;
        waited.expect("the frames come").expect("the run is still followed");
    }

    /// Everything, once the run has ended.
    async fn until_it_ends(self) -> Vec<String> {
        tokio::time::timeout(PATIENCE, self.reading).await.expect("the end comes").unwrap();
        self.seen.borrow().clone()
    }

    fn until_now(&self) -> Vec<String> {
        self.seen.borrow().clone()
    }
}

/// An address that no other test and no outgoing connection gets while the server is down: below the ports that the
/// system gives out by itself.
fn address_to_come_back_to(round: usize) -> String {
    let first = 15_000 + (std::process::id() as usize * 16 + round * 31) % 15_000;
    let free = (first..first + 400).map(|port| format!("127.0.0.1:{port}")).find(|a| TcpListener::bind(a).is_ok());
    free.expect("one of 400 ports is free")
}

async fn round(round: usize, agent: &str, frames_before: usize) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("sync = \"normal\"\n{AGENTS}{FAST}");
    let address = address_to_come_back_to(round);
    let server = Serving::start_at(folder.path(), &config, &address).await;
    let run_id = server.create(agent).await;
    let by_sse = Follower::of_frames(&server, &run_id, Transport::Sse);
    let by_ws = Follower::of_frames(&server, &run_id, Transport::WebSocket);
    let by_agui = Follower::of_events(&server, &run_id);
    tokio::join!(by_sse.has(frames_before), by_ws.has(frames_before));
    server.kill().await;
    let seen = [by_sse.until_now(), by_ws.until_now()];
    let seen_events = by_agui.until_now();

    let server = Serving::start_at(folder.path(), &config, &address).await;
    assert_eq!(server.announced["recovered"], 1);
    let log = server.log_of(&run_id).await;
    for seen in &seen {
        assert!(seen.len() >= frames_before);
        assert_eq!(log[..seen.len()], seen[..], "round {round}: what was seen is still there, byte for byte");
    }

    let record = server.client().run(&run_id).await.unwrap();
    assert_eq!(record.status(), RunStatus::Failed);
    assert_eq!(record.head(), log.len() as u64);
    assert_eq!(record.members()["failure"]["code"], "INTERNAL_ERROR", "{:?}", record.members());
    let mut validator = LogValidator::new();
    let mut errors = Vec::new();
    for body in &log {
        let frame = Frame::decode(body.as_bytes()).unwrap();
        validator.push(&frame).unwrap_or_else(|e| panic!("round {round}: {e}"));
        if let Data::Error(error) = frame.data {
            errors.push((error.code, error.retryable));
        }
    }
    validator.finish().unwrap();
    assert_eq!(errors, [(ErrorCode::InternalError, true)], "round {round}");

    assert_eq!(by_sse.until_it_ends().await, log, "round {round}: nothing twice, nothing missing, and the end");
    assert_eq!(by_ws.until_it_ends().await, log, "round {round}: nothing twice, nothing missing, and the end");
    let events = by_agui.until_it_ends().await;
    assert_eq!(events[..seen_events.len()], seen_events[..]);
    assert_eq!(
        events,
        Follower::of_events(&server, &run_id).until_it_ends().await,
        "round {round}: as read afterwards"
    );
    let end: Value = serde_json::from_str(events.last().unwrap().split_once(' ').unwrap().1).unwrap();
    assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!("INTERNAL_ERROR")), "round {round}");

    // Recovering is done once: the next start finds nothing to do and changes nothing.
    server.kill().await;
    let server = Serving::start(folder.path(), &config).await;
    assert_eq!(server.announced["recovered"], 0);
    assert_eq!(server.log_of(&run_id).await, log);
    // And the store takes new runs.
    let next = server.create("demo").await;
    let frames = Follower::of_frames(&server, &next, Transport::Sse).until_it_ends().await;
    assert!(frames.last().unwrap().contains(r#""type":"run.end""#));
}

#[tokio::test]
async fn after_a_sigkill_nothing_that_was_seen_is_gone_and_the_run_ends_for_all_who_follow_it() {
    let moments = [
        ("long", 1),
        ("long", 3),
        ("long", 8),
        ("long", 14),
        ("long", 19),
        ("long", 24),
        ("long", 40),
        ("flood", 1),
        ("flood", 60),
        ("flood", 1500),
    ];
    let rounds = moments.into_iter().enumerate().map(|(n, (agent, frames))| round(n, agent, frames));
    stream::iter(rounds).buffer_unordered(3).collect::<()>().await;
}

#[tokio::test]
async fn a_tail_on_the_command_line_waits_for_the_server_to_come_back_and_exits_by_how_the_run_ended() {
    let folder = tempfile::tempdir().unwrap();
    let address = address_to_come_back_to(20);
    let server = Serving::start_at(folder.path(), AGENTS, &address).await;
    let run_id = server.create("long").await;
    let mut tails = Vec::new();
    for transport in ["sse", "ws"] {
        let args = ["tail", &run_id, "--json", "--server", server.url(), "--transport", transport];
        let mut child = command(folder.path()).args(args).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut read = Vec::new();
        while read.len() < 20 {
            read.push(lines.next_line().await.unwrap().unwrap());
        }
        tails.push((child, lines, read));
    }
    server.kill().await;
    let server = Serving::start_at(folder.path(), AGENTS, &address).await;
    let log = server.log_of(&run_id).await;
    for (child, mut lines, mut read) in tails {
        while let Some(line) = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap() {
            read.push(line);
        }
        assert_eq!(read, log);
        let done = wait(child, &["tail"]).await.exits(1);
        assert!(done.stderr.contains("the connection was lost after frame"), "{}", done.stderr);
    }
}

#[tokio::test]
async fn many_runs_that_a_crash_left_behind_all_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(server.create("long").await);
    }
    let ended = server.create("demo").await;
    let whole = Follower::of_frames(&server, &ended, Transport::Sse).until_it_ends().await;
    server.kill().await;

    let server = Serving::start(folder.path(), AGENTS).await;
    assert_eq!(server.announced["recovered"], runs.len());
    assert_eq!(server.log_of(&ended).await, whole, "a run that had ended is left alone");
    for run_id in &runs {
        let mut log = LogValidator::new();
        for body in server.log_of(run_id).await {
            log.push(&Frame::decode(body.as_bytes()).unwrap()).unwrap();
        }
        log.finish().unwrap();
        assert_eq!(server.client().run(run_id).await.unwrap().status(), RunStatus::Failed);
    }
}

#[tokio::test]
async fn a_run_that_was_being_stopped_when_the_server_died_ends_as_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("long").await;
    server.wait_for(&run_id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    server.client().cancel(&run_id).await.unwrap();
    server.kill().await;
    let server = Serving::start(folder.path(), AGENTS).await;
    let record = server.client().run(&run_id).await.unwrap();
    assert_eq!(record.status(), RunStatus::Cancelled, "it was asked to stop, and that is how it ends");
    let last = server.log_of(&run_id).await.pop().unwrap();
    let last = Frame::decode(last.as_bytes()).unwrap();
    assert!(matches!(last.data, Data::RunEnd(_)));
}
