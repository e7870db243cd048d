//! Lanes and depth: what waits for a child never stands in its way, and nothing starts itself for ever.

use std::collections::BTreeMap;

use runwire_engine::{EngineOptions, LaneOptions};
use tokio::sync::Semaphore;

use super::*;
use crate::fixture::{bed_on, prompt};

fn one_at_a_time() -> EngineOptions {
    let lanes = BTreeMap::from([("default".to_owned(), LaneOptions { limit: Some(1), max_queued: None })]);
    EngineOptions { lanes, ..EngineOptions::default() }
}

/// Says its prompt, and counts how many do at once.
fn counted(count: &Count) -> Agent {
    let count = count.clone();
    agent("counted", move |exchange, starting| {
        let count = count.clone();
        async move {
            let writer = starting.begin(None);
            let _executed = count.enter();
            say(&writer, &exchange.prompt()).await?;
            fixture::moment(20).await;
            Ok(completed())
        }
    })
}

#[tokio::test]
async fn in_a_lane_of_one_a_run_that_waits_gives_its_slot_to_what_it_waits_for() {
    let count = Count::default();
    let bed = bed_on([asks("first", "second"), asks("second", "counted"), counted(&count)], one_at_a_time());
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(bed.create(prompt("first")).await.unwrap().record.run_id);
    }
    for run_id in &runs {
        let log = bed.ended(run_id).await;
        assert_eq!((log.ending(), log.text().as_str()), ("completed", "Who are you?"));
    }
    assert_eq!(count.most(), 1);
    assert_eq!(bed.store.runs(RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap().len(), 9);
}

#[tokio::test]
async fn several_children_at_once_share_the_slot_that_their_parent_gives_up() {
    let count = Count::default();
    let counting = count.clone();
    let lead = agent("lead", move |_, starting| {
        let count = counting.clone();
        async move {
            let writer = starting.begin(None);
            let mut children = Vec::new();
            for n in 0..5 {
                children.push(writer.child(ChildRun::prompt("counted", n.to_string())).await?);
            }
            let ended = children.iter_mut().map(|child| child.ended());
            for end in futures_util::future::join_all(ended).await {
                // Its own slot is back before it says anything.
                let _executed = count.enter();
                say(&writer, &told(&end?)).await?;
            }
            Ok(completed())
        }
    });
    let bed = bed_on([lead, counted(&count)], one_at_a_time());
    let log = bed.run("lead").await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "01234"));
    assert_eq!(count.most(), 1);
}

#[tokio::test]
async fn a_child_goes_before_runs_that_have_not_begun() {
    let order: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let kept = order.clone();
    let notes = agent("notes", move |exchange, starting| {
        kept.lock().unwrap().push(exchange.prompt());
        async move {
            starting.begin(None);
            Ok(completed())
        }
    });
    let permits = Arc::new(Semaphore::new(0));
    let gate = permits.clone();
    let lead = agent("lead", move |_, starting| {
        let gate = gate.clone();
        async move {
            let writer = starting.begin(None);
            gate.acquire().await.unwrap().forget();
            writer.child(ChildRun::prompt("notes", "the child")).await?.ended().await?;
            Ok(completed())
        }
    });
    let bed = bed_on([lead, notes], one_at_a_time());
    let run_id = bed.start("lead").await;
    bed.reaches(&run_id, runwire_frame::RunStatus::Running).await;
    let waiting = bed.start("notes").await;
    permits.add_permits(1);
    bed.ended(&run_id).await;
    bed.ended(&waiting).await;
    assert_eq!(order.lock().unwrap().first().map(String::as_str), Some("the child"));
}

#[tokio::test]
async fn a_wait_that_is_given_up_leaves_no_run_without_its_slot() {
    let count = Count::default();
    let counting = count.clone();
    let lead = agent("lead", move |_, starting| {
        let count = counting.clone();
        async move {
            let writer = starting.begin(None);
            let mut child = writer.child(ChildRun::prompt("counted", "")).await?;
            // Polled once: the slot is given back, and the wait is over before the child has ended.
            let _ = futures_util::poll!(std::pin::pin!(child.ended()));
            let message = writer.message(Opening::default()).await?;
            let _executed = count.enter();
            message.text("mine").await?;
            fixture::moment(20).await;
            Ok(completed())
        }
    });
    let bed = bed_on([lead, counted(&count)], one_at_a_time());
    let log = bed.run("lead").await;
    assert_eq!(log.ending(), "completed");
    for child in children(&bed, &log.run_id).await {
        bed.ended(&child.run_id).await;
    }
    assert_eq!(count.most(), 1);
}

#[tokio::test]
async fn an_agent_that_starts_itself_comes_to_an_end() {
    let mirror = agent("mirror", |_, starting| async move {
        let writer = starting.begin(None);
        let said = match writer.child(ChildRun::prompt("mirror", "")).await {
            Ok(mut child) => told(&child.ended().await?),
            Err(refused) => refused.to_string(),
        };
        say(&writer, &said).await?;
        Ok(completed())
    });
    for max_child_depth in [0, 1, 3] {
        let bed = bed_on([mirror.clone()], EngineOptions { max_child_depth, ..one_at_a_time() });
        let log = bed.run("mirror").await;
        assert!(log.text().contains(&format!("{max_child_depth} runs below the first")), "{}", log.text());
        let runs = bed.store.runs(RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap();
        assert_eq!(runs.len(), max_child_depth as usize + 1);
    }
}
