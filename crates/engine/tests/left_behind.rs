//! What recovery makes of runs that a server left behind in a state that is not just a log cut short.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use fixture::{Bed, agent, bed, completed, input};
use runwire_bridge::{Ending, Opening};
use runwire_engine::{Engine, EngineOptions, Recovered};
use runwire_frame::Data;
use runwire_store::{Append, Created, NewFrame, NewRun, RunUpdate};
use rusqlite::Connection;
use serde_json::{Value, json};

fn new_run(run_id: &str, input: Value) -> NewRun {
    let named = fixture::input(&format!("session-of-{run_id}"), &format!("exchange-of-{run_id}"));
    NewRun { input, ..fixture::stored(run_id, "demo", &named) }
}

fn restarted(bed: &Bed) -> Engine {
    Engine::new(bed.store.clone(), [], EngineOptions::default())
}

/// Leaves a run behind whose log has four good frames: it has started, and said something.
async fn underway(bed: &Bed, run_id: &str) {
    let source = fixture::bed([agent("demo", |_, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text("So far.").await?;
        message.end(Ending::completed()).await?;
        Ok(completed())
    })]);
    let log = source.run("demo").await;
    let created = bed.store.create_run(new_run(run_id, json!({}))).await.unwrap();
    assert!(matches!(created, Created::New(_)));
    let frames = log.frames[..4].iter().map(|frame| {
        let frame = runwire_frame::Frame { run_id: run_id.into(), ..frame.clone() };
        NewFrame { seq: frame.seq, body: frame.encode() }
    });
    let update = RunUpdate { status: Some("running".to_owned()), attempt: Some(1), ..RunUpdate::default() };
    let append = Append { frames: frames.collect(), update: Some(update), ..Append::default() };
    let mut appender = bed.store.take_ownership(run_id).await.unwrap();
    appender.enqueue(append).unwrap();
    appender.progress().flush().await.unwrap();
}

#[tokio::test]
async fn a_damaged_log_keeps_no_other_run_from_its_end() {
    // What happens to frame 3 of the run in the middle. The neighbours are older and younger, so they come before and after.
    for damage in [
        "UPDATE frames SET body = x'00ff00ff' WHERE seq = 3 AND run = ?1",
        "UPDATE frames SET body = substr(body, 1, length(body) / 2) WHERE seq = 3 AND run = ?1",
        "UPDATE frames SET body = (SELECT body FROM frames WHERE seq = 1 AND run = ?1) WHERE seq = 3 AND run = ?1",
        "DELETE FROM frames WHERE seq = 3 AND run = ?1",
    ] {
        let bed = bed([]);
        let runs = ["run_a", "run_b", "run_c"];
        for run_id in runs {
            underway(&bed, run_id).await;
        }
        let file = Connection::open(bed.dir.path().join("runwire.db")).unwrap();
        let row: i64 = file.query_row("SELECT id FROM runs WHERE run_id = 'run_b'", [], |row| row.get(0)).unwrap();
        assert_eq!(file.execute(damage, [row]).unwrap(), 1, "{damage}");

        let recovered = restarted(&bed).recover().await.unwrap();
        let expected = [Recovered::Failed, Recovered::Unreadable, Recovered::Failed];
        assert_eq!(recovered, runs.map(str::to_owned).into_iter().zip(expected).collect::<Vec<_>>(), "{damage}");
        for run_id in ["run_a", "run_c"] {
            let log = bed.ended(run_id).await;
            assert_eq!((log.ending(), log.text().as_str()), ("failed", "So far."), "{damage}");
        }
        let damaged = bed.record("run_b").await;
        assert_eq!((damaged.status.as_str(), damaged.head, damaged.ended_at), ("running", 4, None), "{damage}");
    }
}

#[tokio::test]
async fn a_run_that_had_not_begun_and_whose_agent_is_gone_begins_with_its_input_and_fails() {
    let bed = bed([]);
    let asked = serde_json::to_value(input("session-of-run_q", "exchange-of-run_q")).unwrap();
    bed.store.create_run(new_run("run_q", asked.clone())).await.unwrap();
    assert_eq!(restarted(&bed).recover().await.unwrap(), [("run_q".to_owned(), Recovered::Failed)]);
    let log = bed.ended("run_q").await;
    assert_eq!(log.ending(), "failed");
    assert!(log.error().1.contains("`demo` is not configured here any more"), "{}", log.dump());
    let Data::RunStart(start) = &log.frames[0].data else { panic!("run.start comes first") };
    assert_eq!(start.extra["agui"], json!({ "runId": "exchange-of-run_q", "input": asked }));
    let told = log.events[0].to_value();
    assert_eq!((&told["runId"], &told["input"]), (&json!("exchange-of-run_q"), &asked), "a second viewer sees it too");
}

#[tokio::test]
async fn a_run_whose_task_is_lost_can_be_stopped_before_it_is_taken_over() {
    let bed = bed([]);
    underway(&bed, "lost").await;
    let engine = restarted(&bed);
    let stopped = engine.cancel("lost").await.unwrap();
    assert_eq!(stopped.status, "cancelled");
    let log = bed.ended("lost").await;
    assert_eq!((log.ending(), log.text().as_str()), ("cancelled", "So far."));
    assert_eq!(engine.recover().await.unwrap(), [], "there is nothing left to take over");
}
