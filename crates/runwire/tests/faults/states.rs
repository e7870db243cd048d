//! SIGKILL at each state of the state machine, and in the middle of the requests that change it (G2, G5): whatever a run was
//! doing, the next server brings it to its end or waits with it for an answer that is named, and nobody who reads it, or who
//! asked for something, is told two things.

mod agents;
mod arranging;
mod moment;
mod settling;

use std::collections::{BTreeMap, HashMap};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use runwire_client::RunFilter;
use serde_json::Value;
use tempfile::TempDir;

use crate::followers::Follower;
use crate::program::command;
use crate::serving::Serving;
use crate::{Dice, scale, verified};
use arranging::{Answering, Creating};
use moment::{LeftBehind, MOMENTS, Moment};

/// One server after another on one store and at one address, and what is known of its runs.
struct World {
    folder: TempDir,
    config: String,
    address: String,
    dice: Dice,
    http: reqwest::Client,
    /// Numbers whatever needs a name of its own.
    named: usize,
    /// Runs that had not ended when they were looked at last, by id, with what was read of them while no server was there.
    open: BTreeMap<String, Vec<String>>,
    /// Runs that were being stopped when their server died.
    being_stopped: Vec<String>,
    /// Runs of one session, in the order in which they were created.
    in_line: Vec<[String; 2]>,
    readers: HashMap<String, Vec<Follower>>,
    creating: Vec<Creating>,
    answering: Vec<Answering>,
    seen: Seen,
}

/// What came of it, in numbers.
#[derive(Debug, Default)]
struct Seen {
    kills: usize,
    kills_while_starting: usize,
    /// How often a server was killed in each moment, by what its store, or the request, says of it.
    moments: BTreeMap<Moment, usize>,
    ended: BTreeMap<String, usize>,
    /// Requests without an answer that had been done nevertheless.
    done_unanswered: usize,
    /// And that had not.
    not_done: usize,
}

impl World {
    fn new() -> World {
        // Tests of one process share it; the first of them installs it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        World {
            config: agents::configured(folder.path()),
            folder,
            address: address_to_come_back_to(),
            dice: Dice(11),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            named: 0,
            open: BTreeMap::new(),
            being_stopped: Vec::new(),
            in_line: Vec::new(),
            readers: HashMap::new(),
            creating: Vec::new(),
            answering: Vec::new(),
            seen: Seen::default(),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn name(&mut self, of: &str) -> String {
        self.named += 1;
        format!("{of}-{}", self.named)
    }

    async fn serve(&self) -> Serving {
        Serving::start_at(self.path(), &self.config, &self.address).await
    }

    /// Posts a document: the status and the answer, unless the server is gone.
    async fn post(http: &reqwest::Client, url: &str, body: &Value) -> reqwest::Result<(u16, Value)> {
        let response = http.post(url).json(body).send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    /// SIGKILL, and what it hit.
    async fn kill(&mut self, server: Serving) {
        server.kill().await;
        self.seen.kills += 1;
        self.unanswered().await;
        let left = LeftBehind::all(self.path()).await;
        for run in &left {
            let moment = run.moment(&left);
            if let Some(moment) = moment {
                *self.seen.moments.entry(moment).or_default() += 1;
            }
            if moment == Some(Moment::Cancelling) {
                self.being_stopped.push(run.record.run_id.clone());
            }
        }
        self.open.extend(left.into_iter().map(|run| (run.record.run_id, run.bodies)));
        verified(self.path()).await;
    }

    /// Kills a server while it starts, which is when it takes over what was left behind.
    async fn kill_while_starting(&mut self) {
        let mut starting = command(self.path());
        let mut child =
            starting.args(["serve", "--config", "runwire.toml", "--listen", &self.address]).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(self.dice.below(150))).await;
        child.kill().await.unwrap();
        self.seen.kills_while_starting += 1;
        verified(self.path()).await;
    }
}

/// The runs of one session.
fn of_session(session: &str) -> RunFilter {
    RunFilter { session_id: Some(session.to_owned()), ..RunFilter::default() }
}

/// An address that no other test and no outgoing connection gets while the server is down: below the ports that the
/// system gives out by itself.
fn address_to_come_back_to() -> String {
    let first = 4_000 + (std::process::id() as usize * 7) % 4_000;
    let free = (first..first + 400).map(|port| format!("127.0.0.1:{port}")).find(|a| TcpListener::bind(a).is_ok());
    free.expect("one of 400 ports is free")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_run_is_doing_when_its_server_is_killed_it_ends_or_waits_for_a_named_answer() {
    let mut world = World::new();
    let wanted = scale(12, 100);
    loop {
        let missing = MOMENTS.into_iter().filter(|moment| !world.seen.moments.contains_key(moment)).collect::<Vec<_>>();
        let kills = world.seen.kills;
        if kills >= wanted && missing.is_empty() {
            break;
        }
        assert!(kills < wanted * 3, "after {kills} kills none came in {missing:?}: {:?}", world.seen);
        let server = world.serve().await;
        world.settle(&server, true).await;

        // Each in turn, and later what was missed; another beside it, begun before.
        let beside = MOMENTS[world.dice.below(MOMENTS.len() as u64) as usize];
        let moment = match missing[..] {
            [] => MOMENTS[kills % MOMENTS.len()],
            _ => missing[kills % missing.len()],
        };
        world.arrange(&server, beside).await;
        world.arrange(&server, moment).await;
        let delay = world.strike(&server).await;
        tokio::time::sleep(delay).await;
        world.kill(server).await;
        if world.dice.below(3) == 0 {
            world.kill_while_starting().await;
        }
    }
    let server = world.serve().await;
    world.settle(&server, false).await;
    assert!(world.open.is_empty() && world.readers.is_empty());
    server.kill().await;
    verified(world.path()).await;
    println!("{:?}", world.seen);
}
