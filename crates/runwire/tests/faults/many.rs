//! Very many readers of one run, and one reader of very many runs.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use runwire_client::{CreateRun, SessionFollowed};
use runwire_frame::{Data, Frame, LogValidator};

use crate::followers::{BACKOFF, Follower, READERS, Truth};
use crate::program::PATIENCE;
use crate::proxy::{Line, Proxy};
use crate::serving::{Serving, client};
use crate::{Dice, is_full, scale, verified};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_readers_of_one_live_run_all_have_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    // Slow enough for all of them to come while it goes on.
    let pace = scale("60ms", "2s");
    let config = format!("[agents.slow]\ndriver = \"demo\"\npace = \"{pace}\"\n");
    let server = Serving::start(folder.path(), &config).await;
    let run_id = server.create("slow").await;
    let client = server.client();
    let followers: Vec<Follower> = (0..scale(500, 10_000))
        .map(|n| Follower::of(client.clone(), &run_id, READERS[n % 3], Duration::from_secs(60)))
        .collect();
    let all = async {
        while !followers.iter().all(|follower| follower.count() > 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE * scale(1, 5), all).await.expect("all of them come");
    let live = client.run(&run_id).await.unwrap().members()["ended_at"].is_null();
    assert!(live, "they are there before the run has ended");
    let (mut seen, count) = (Vec::new(), followers.len());
    for follower in followers {
        seen.push((follower.reader, follower.until(PATIENCE * 10).await));
    }
    let truth = Truth::of(&server, &run_id).await;
    for (reader, seen) in seen {
        truth.holds(reader, &seen.all, &format!("one of {count}"));
        assert_eq!(seen.losses, 0, "{reader:?}: {:?}", seen.why);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reader_of_very_many_runs_over_a_line_that_breaks_has_all_of_each() {
    let folder = tempfile::tempdir().unwrap();
    // Each for itself: with a conversation of so many turns in front of it a run would be about that.
    let config = "[agents.quick]\ndriver = \"demo\"\npace = \"0ms\"\nprompt_history = \"none\"\n";
    let server = Serving::start(folder.path(), config).await;
    let runs = scale(80, 10_000);
    let mut dice = Dice(7);
    let range = scale(300_000, 20_000_000);
    let proxy = Proxy::new(server.url(), move || Line::Cut {
        after: 20_000 + dice.below(range),
        ending: crate::proxy::ENDINGS[dice.below(2) as usize],
    })
    .await;
    let create =
        || async { server.client().create_run(&CreateRun::prompt("quick", "How long?").session_id("s")).await };
    // The first makes the session, which has to be there to be followed.
    create().await.unwrap();
    let mut frames = client(proxy.url()).follow_session("s").backoff(BACKOFF).start();
    let reading = async {
        let mut logs: HashMap<String, Vec<String>> = HashMap::new();
        let (mut ended, mut losses) = (0, 0);
        while ended < runs {
            match frames.next().await.unwrap().unwrap() {
                SessionFollowed::Frame { body, frame, .. } => {
                    ended += usize::from(matches!(frame.data, Data::RunEnd(_)));
                    logs.entry(frame.run_id.to_string()).or_default().push(String::from_utf8(body.to_vec()).unwrap());
                }
                SessionFollowed::Disconnected { .. } => losses += 1,
                _ => {}
            }
        }
        (logs, losses)
    };
    let creating = async {
        let mut made = stream::iter(1..runs).map(|_| create()).buffer_unordered(8);
        while let Some(made) = made.next().await {
            made.unwrap();
        }
    };
    let patience = if is_full() { PATIENCE * 30 } else { PATIENCE };
    let ((logs, losses), ()) = tokio::time::timeout(patience, async { tokio::join!(reading, creating) }).await.unwrap();
    assert_eq!(logs.len(), runs);
    assert!(losses > 0, "the line broke");
    for (n, (run_id, seen)) in logs.iter().enumerate() {
        // Each is whole and numbered without a gap; of very many, the bytes of some.
        let mut log = LogValidator::new();
        for body in seen {
            log.push(&Frame::decode(body.as_bytes()).unwrap()).unwrap_or_else(|e| panic!("{run_id}: {e}"));
        }
        log.finish().unwrap();
        if n % scale(1, 50) == 0 {
            assert!(*seen == server.log_of(run_id).await, "{run_id}");
        }
    }
    println!("{runs} runs in one stream, over {losses} broken lines");
    server.kill().await;
    verified(folder.path()).await;
}
