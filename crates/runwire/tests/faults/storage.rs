//! A disk that is full, a disk that fails, a file that somebody else locks: the server says so, takes nothing that it could
//! not keep, goes on reading, and goes on by itself when it can.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use reqwest::StatusCode;
use runwire_client::{ApiError, CreateRun};
use runwire_frame::RunStatus;
use rusqlite::Connection;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::followers::{Follower, READERS, Truth};
use crate::program::{PATIENCE, command_under, finish};
use crate::serving::{AGENTS, Serving, client};
use crate::verified;

/// Whether the server takes runs, as it says itself; and if not, why.
pub async fn ready(server: &Serving) -> Result<(), String> {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = http.get(server.at("/readyz")).send().await.unwrap();
    match answer.status() {
        StatusCode::OK => Ok(()),
        StatusCode::SERVICE_UNAVAILABLE => {
            Err(serde_json::from_slice::<Value>(&answer.bytes().await.unwrap()).unwrap()["detail"].to_string())
        }
        other => panic!("/readyz answers {other}"),
    }
}

/// A run that is read in three ways while its store fails, and afterwards.
struct UnderWay {
    run_id: String,
    followers: Vec<Follower>,
}

impl UnderWay {
    async fn start(server: &Serving) -> UnderWay {
        let run_id = server.create("long").await;
        let follow = |reader| Follower::of(client(server.url()), &run_id, reader, Duration::from_secs(40));
        let followers: Vec<Follower> = READERS.map(follow).into();
        server
            .patiently("the readers to have something", async || {
                followers.iter().all(|follower| follower.count() >= 8).then_some(())
            })
            .await;
        UnderWay { run_id, followers }
    }

    /// While the store takes nothing.
    async fn is_told(&self, server: &Serving, why: &str) {
        server
            .patiently("the server to notice", async || match ready(server).await {
                Ok(()) => None,
                Err(detail) => {
                    assert!(detail.contains(why), "{detail}");
                    Some(())
                }
            })
            .await;
        // What is there can be read, and whoever follows is left where it is: nobody is told an end that is not stored.
        let log = server.log_of(&self.run_id).await;
        for follower in &self.followers {
            assert!(follower.count() <= log.len() * 2);
        }
    }

    /// What is new is refused in words. Small things may still find room on a full disk: that is no fault.
    async fn lets_nothing_begin(&self, server: &Serving) {
        if let Err(error) = server.client().create_run(&CreateRun::prompt("demo", "How long is this?")).await {
            assert!(matches!(error, ApiError::Problem { .. }) && error.status() == Some(503), "{error:?}");
            assert!(error.to_string().contains("the store does not take the run now"), "{error}");
        }
    }

    /// Once the store takes something again: the run ends by itself, and everybody has all of it.
    async fn goes_on(self, server: &Serving, when: &str) {
        let ended = server
            .patiently("the run to end", async || {
                let record = server.client().run(&self.run_id).await.unwrap();
                matches!(record.status(), RunStatus::Failed | RunStatus::Completed).then_some(record)
            })
            .await;
        assert_eq!(ended.status(), RunStatus::Failed, "its agent was stopped when the store took no more");
        assert_eq!(ended.members()["failure"]["code"], "INTERNAL_ERROR", "{:?}", ended.members());
        let truth = Truth::of(server, &self.run_id).await;
        for follower in self.followers {
            let reader = follower.reader;
            truth.holds(reader, &follower.until_it_ends().await.all, when);
        }
        // And the server works as before.
        let next = server.create("demo").await;
        server.wait_for(&next, |frame| frame.data.frame_type().as_str() == "run.end").await;
        assert_eq!(server.client().run(&next).await.unwrap().status(), RunStatus::Completed);
        assert_eq!(ready(server).await, Ok(()));
    }
}

/// A small disk of its own, which is there for processes that are told to see it.
struct Disk {
    folder: PathBuf,
    holder: Child,
}

impl Disk {
    /// Mounts it at `disk` in the folder. `None`, loudly, where the system lets nobody mount.
    async fn new(folder: &Path, size: &str) -> Option<Disk> {
        std::fs::create_dir(folder.join("disk")).unwrap();
        let script = format!("mount -t tmpfs -o size={size} tmpfs disk && echo mounted && exec sleep 600");
        let mut holder = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", &script])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        let said = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        if said.as_deref() != Some("mounted") {
            let missing =
                "NO SMALL DISK: this system lets no process mount a tmpfs of its own. This test proved NOTHING.";
            let _ = writeln!(std::io::stderr(), "{missing}");
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            return None;
        }
        Some(Disk { folder: folder.to_owned(), holder })
    }

    /// The binary, as a process that sees the disk.
    fn command(&self) -> Command {
        let holder = self.holder.id().unwrap().to_string();
        let inside = format!("cd '{}' && exec \"$@\"", self.folder.display());
        let words =
            ["nsenter", "--preserve-credentials", "--user", "--mount", "--target", &holder, "sh", "-c", &inside, "sh"];
        command_under(&words, &self.folder)
    }

    fn filler(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}/disk/filler", self.holder.id().unwrap(), self.folder.display()))
    }

    /// Takes the last byte that is free.
    fn fill(&self) {
        let mut filler = std::fs::File::options().create(true).append(true).open(self.filler()).unwrap();
        for size in [64 * 1024, 512, 1] {
            loop {
                match filler.write_all(&vec![b'x'; size]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_said_and_once_it_has_room_the_run_ends_and_the_server_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::new(folder.path(), "12m").await else { return };
    let config = format!("store = \"disk/runwire.db\"\n{AGENTS}");
    let server = Serving::start_as(disk.command(), folder.path(), &config, "127.0.0.1:0").await;
    for round in 0..2 {
        let under_way = UnderWay::start(&server).await;
        disk.fill();
        under_way.is_told(&server, "the store is full").await;
        under_way.lets_nothing_begin(&server).await;
        assert!(server.log().contains("is full: the disk or its configured size limit has no room left"));
        std::fs::remove_file(disk.filler()).unwrap();
        under_way.goes_on(&server, &format!("full for the time {round}")).await;
    }
    server.kill().await;
    let args = ["verify-log", "--store", "disk/runwire.db"];
    finish(disk.command().args(args), &args).await.exits(0);
}

/// How large a file of the process may become, in bytes, from now on.
async fn limit_files(server: &Serving, bytes: &str) {
    let limit = Command::new("prlimit")
        .args([format!("--pid={}", server.pid()), format!("--fsize={bytes}:unlimited")])
        .status()
        .await
        .unwrap();
    assert!(limit.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_takes_no_write_is_said_and_once_it_does_the_run_ends_and_the_server_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    for round in 0..2 {
        let under_way = UnderWay::start(&server).await;
        // Every write beyond the first bytes of a file fails, in the store as in the file that the server logs to; and the
        // system sends SIGXFSZ, which ends a process that does not expect it.
        limit_files(&server, "64").await;
        under_way.is_told(&server, "the store failed").await;
        under_way.lets_nothing_begin(&server).await;
        limit_files(&server, "unlimited").await;
        under_way.goes_on(&server, &format!("failing for the time {round}")).await;
    }
    server.kill().await;
    verified(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_another_process_locks_for_long_is_said_and_goes_on_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let under_way = UnderWay::start(&server).await;
    let other = Connection::open(folder.path().join("runwire.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    // Before SQLite gives up, which takes ten seconds.
    under_way.is_told(&server, "the store takes nothing at the moment").await;
    under_way.lets_nothing_begin(&server).await;
    server.patiently("the store to give up", async || server.log().contains("is locked").then_some(())).await;
    under_way.is_told(&server, "the store").await;
    other.execute_batch("COMMIT").unwrap();
    drop(other);
    under_way.goes_on(&server, "locked").await;
    server.kill().await;
    verified(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_another_process_locks_for_a_moment_makes_a_run_wait_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = server.create("medium").await;
    let follow = |reader| Follower::of(client(server.url()), &run_id, reader, Duration::from_secs(40));
    let followers = READERS.map(follow);
    let other = Connection::open(folder.path().join("runwire.db")).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    for _ in 0..3 {
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.execute_batch("COMMIT").unwrap();
    }
    drop(other);
    for follower in followers {
        let (reader, seen) = (follower.reader, follower.until_it_ends().await);
        let truth = Truth::of(&server, &run_id).await;
        truth.holds(reader, &seen.all, "locked for moments");
        assert_eq!(seen.losses, 0, "no connection hears of it");
    }
    assert_eq!(server.client().run(&run_id).await.unwrap().status(), RunStatus::Completed);
    server.kill().await;
    verified(folder.path()).await;
}
