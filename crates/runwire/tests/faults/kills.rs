//! SIGKILL at any moment, again and again, on one store (G5, and G2 across restarts).

use std::net::TcpListener;
use std::time::Duration;

use runwire_frame::{Frame, LogValidator};

use crate::agent::{Agent, message};
use crate::followers::{Follower, READERS, Truth};
use crate::program::command;
use crate::serving::{AGENTS, Serving, client};
use crate::{Dice, scale, verified};

/// One that writes as fast as the store takes it, one that ends within a moment and is packed then, and one that is slow
/// enough to be killed anywhere in it.
const MORE: &str = "
[agents.flood]
driver = \"demo\"
pace = \"0ms\"
repeat = 1000000

[agents.burst]
driver = \"demo\"
pace = \"0ms\"
repeat = 60
";

/// An address that no other test and no outgoing connection gets while the server is down: below the ports that the
/// system gives out by itself.
fn address_to_come_back_to() -> String {
    let first = 10_000 + (std::process::id() as usize * 7) % 4_000;
    let free = (first..first + 400).map(|port| format!("127.0.0.1:{port}")).find(|a| TcpListener::bind(a).is_ok());
    free.expect("one of 400 ports is free")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_over_and_over_loses_nothing_that_anybody_saw_and_its_store_is_always_consistent() {
    let mut dice = Dice(4);
    let upstream = Agent::start(700, || {
        Box::new((0..200).flat_map(|n| message(&format!("m{n}"), (0..9).map(|n| format!("word {n} ")))))
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{AGENTS}{MORE}{}", upstream.configured("front"));
    let address = address_to_come_back_to();
    let agents = ["demo", "medium", "long", "flood", "burst", "front"];
    let rounds = scale(10, 100);
    let mut followers: Vec<Follower> = Vec::new();
    let (mut seen_live, mut frames, mut killed_while_starting) = (0, 0, 0);
    for round in 0..=rounds {
        // A server that is killed while it starts, which is when it ends what was left behind.
        if round > 0 && dice.below(3) == 0 {
            let mut starting = command(folder.path());
            let mut child = starting.args(["serve", "--config", "runwire.toml", "--listen", &address]).spawn().unwrap();
            tokio::time::sleep(Duration::from_millis(dice.below(120))).await;
            child.kill().await.unwrap();
            killed_while_starting += 1;
            verified(folder.path()).await;
        }

        let server = Serving::start_at(folder.path(), &config, &address).await;
        for follower in std::mem::take(&mut followers) {
            let (reader, run_id) = (follower.reader, follower.run_id.clone());
            let seen = follower.until_it_ends().await;
            let truth = Truth::of(&server, &run_id).await;
            truth.holds(reader, &seen.all, &format!("round {round}, {run_id}"));
            frames += seen.all.len();
            let mut log = LogValidator::new();
            for body in &truth.frames {
                log.push(&Frame::decode(body.as_bytes()).unwrap()).unwrap_or_else(|e| panic!("round {round}: {e}"));
            }
            log.finish().unwrap();
        }
        if round == rounds {
            server.kill().await;
            break;
        }

        for _ in 0..3 {
            let agent = agents[dice.below(agents.len() as u64) as usize];
            let run_id = server.create(agent).await;
            let follow = |reader| Follower::of(client(server.url()), &run_id, reader, Duration::from_secs(30));
            followers.extend(READERS.map(follow));
        }
        tokio::time::sleep(Duration::from_millis(dice.below(500))).await;
        seen_live += followers.iter().map(Follower::count).sum::<usize>();
        server.kill().await;
        verified(folder.path()).await;
    }
    verified(folder.path()).await;
    assert!(seen_live > 0 && frames > seen_live, "kills came in the middle of runs that somebody read");
    println!(
        "{rounds} kills and {killed_while_starting} while starting; {seen_live} frames and events seen before them, {frames} in the end"
    );
}
