//! Runs whose owner is gone come to their end: after a crash at any frame, and on a store that was full for a while.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fixture::{
    Bed, Log, agent, answers, bed, bed_with, completed, driven_by, ended, input, patiently, request, so_far, suspended,
};
use runwire_bridge::{Ending, Opening};
use runwire_engine::drivers::{DemoDriver, DemoOptions};
use runwire_engine::{Agent, Engine, EngineOptions, Recovered};
use runwire_frame::{Data, Frame, RunStatus, SegmentStatus};
use runwire_store::{Append, Created, NewFrame, NewRun, RunUpdate, Store, StoreOptions, TailItem};
use serde_json::json;

fn demo() -> Agent {
    driven_by("demo", DemoDriver::new(DemoOptions { pace: Duration::ZERO, repeat: 1 }))
}

/// Asks in the middle of a step and of a tool call, and goes on with both.
fn asking() -> Agent {
    agent("asking", |exchange, starting| async move {
        let writer = starting.begin(None);
        if exchange.resumed {
            let message = writer.message(Opening::default()).await?;
            message.text("Thanks").await?;
            message.text(" a lot.").await?;
            message.end(Ending::completed()).await?;
            return Ok(completed());
        }
        let _step = writer.step(Opening::named("ask")).await?;
        let tool = writer.tool("call_1", "delete", Opening::default()).await?;
        tool.arguments("{}").await?;
        tool.arguments_complete().await?;
        Ok(suspended(&["i1"]))
    })
}

/// Writes for as long as it is let, and stops when it is asked to.
fn endless() -> Agent {
    agent("endless", |exchange, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        while !exchange.stop.is_cancelled() {
            message.text("la ").await?;
            writer.custom("tick", json!(1)).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(fixture::cancelled())
    })
}

fn new_run(run_id: &str) -> NewRun {
    fixture::stored(run_id, "demo", &input(&format!("thread-of-{run_id}"), "exchange-1"))
}

/// Puts these frames into the store as the log of a run that a server was writing when it died.
async fn left_behind(store: &Store, run_id: &str, frames: &[Frame]) {
    let created = store.create_run(new_run(run_id)).await.unwrap();
    assert!(matches!(created, Created::New(_)));
    let mut append = Append::default();
    for frame in frames {
        let frame = Frame { run_id: run_id.into(), ..frame.clone() };
        let update = append.update.get_or_insert_with(RunUpdate::default);
        match &frame.data {
            Data::RunStart(start) => update.attempt = Some(start.attempt),
            Data::RunStatus(change) => update.status = Some(change.status.as_str().to_owned()),
            _ => {}
        }
        append.frames.push(NewFrame { seq: frame.seq, body: frame.encode() });
    }
    let mut appender = store.take_ownership(run_id).await.unwrap();
    appender.enqueue(append).unwrap();
    appender.progress().flush().await.unwrap();
}

fn restarted(store: &Store) -> Engine {
    Engine::new(store.clone(), [demo(), asking()], EngineOptions::default())
}

/// The last status that the frames reach.
fn status_of(frames: &[Frame]) -> RunStatus {
    let status = |frame: &Frame| match &frame.data {
        Data::RunStatus(change) => Some(change.status),
        _ => None,
    };
    frames.iter().rev().find_map(status).unwrap_or(RunStatus::Queued)
}

/// Recovers after a crash at every frame of this log, and checks what becomes of it. What had not begun is executed, by the
/// demo agent.
async fn crash_everywhere(log: &Log) {
    let bed = bed([]);
    let prefix = |length: usize| (format!("run_{length}"), &log.frames[..length]);
    for length in 0..log.frames.len() {
        let (run_id, frames) = prefix(length);
        left_behind(&bed.store, &run_id, frames).await;
    }
    let recovered: BTreeMap<_, _> = restarted(&bed.store).recover().await.unwrap().into_iter().collect();
    assert_eq!(recovered.len(), log.frames.len(), "every run that has no run.end was looked at");
    for length in 0..log.frames.len() {
        let (run_id, before) = prefix(length);
        let status = status_of(before);
        // Also right after a `resume` that never became `running`: the answer can be given again.
        if status == RunStatus::Suspended {
            assert_eq!(recovered[&run_id], Recovered::Suspended);
            let after = so_far(&bed.store, &run_id).await;
            assert_eq!(after.frames.len(), length, "nothing had to be done");
            continue;
        }
        let after = ended(&bed.store, &run_id).await;
        for (before, after) in before.iter().zip(&after.frames) {
            assert_eq!((before.seq, &before.data), (after.seq, &after.data), "G5: what was visible is still there");
        }
        let expected = match status {
            _ if length == 0 => (Recovered::Queued, "completed"),
            RunStatus::Cancelling | RunStatus::Cancelled => (Recovered::Cancelled, "cancelled"),
            RunStatus::Completed => (Recovered::Ended, "completed"),
            _ => (Recovered::Failed, "failed"),
        };
        assert_eq!((recovered[&run_id], after.ending()), expected, "after frame {length}\n{}", after.dump());
        if expected.0 == Recovered::Failed {
            assert_eq!(after.failure_class(), Some("INTERNAL_ERROR"));
            if status != RunStatus::Failed {
                let (code, message, retryable) = after.error();
                assert_eq!((code, retryable), ("INTERNAL_ERROR", true));
                assert!(message.contains("server stopped"), "{message}");
                let closed = after.frames[length..].iter().filter_map(|frame| match &frame.data {
                    Data::SegmentEnd(end) => Some(end.status),
                    _ => None,
                });
                assert!(closed.into_iter().all(|status| status == SegmentStatus::Abandoned));
                assert_eq!(after.last_event()["type"], "RUN_ERROR");
            }
        }
    }
    // Nothing is left to do.
    let heads = heads(&bed, log.frames.len()).await;
    let again = restarted(&bed.store).recover().await.unwrap();
    assert!(again.iter().all(|(_, what)| *what == Recovered::Suspended), "{again:?}");
    assert_eq!(self::heads(&bed, log.frames.len()).await, heads, "a second recovery changes nothing");
}

async fn heads(bed: &Bed, runs: usize) -> Vec<u64> {
    let mut heads = Vec::new();
    for length in 0..runs {
        heads.push(bed.record(&format!("run_{length}")).await.head);
    }
    heads
}

#[tokio::test]
async fn a_crash_at_any_frame_of_the_demo_run_leaves_a_run_that_is_ended_at_the_next_start() {
    let bed = bed([demo()]);
    let log = bed.run("demo").await;
    assert_eq!(log.ending(), "completed");
    assert!(log.frames.len() > 20);
    crash_everywhere(&log).await;
}

#[tokio::test]
async fn a_crash_while_a_run_is_being_stopped_leaves_a_run_that_is_cancelled_at_the_next_start() {
    let bed = bed([endless()]);
    let run_id = bed.start("endless").await;
    bed.shows(&run_id, |frame| matches!(frame.data, Data::Notice(_))).await;
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert!(log.statuses().contains(&RunStatus::Cancelling));
    crash_everywhere(&log).await;
}

#[tokio::test]
async fn a_crash_at_any_frame_of_a_run_that_suspends_and_goes_on_leaves_it_waiting_or_ended() {
    let bed = bed([asking()]);
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.create(request("asking", answers("t", "r2", &["i1"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed");
    crash_everywhere(&log).await;
}

#[tokio::test]
async fn a_crash_at_any_frame_of_a_run_that_fails_leaves_a_run_that_has_failed() {
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text("So far").await?;
        panic!("no agent today")
    })]);
    let log = bed.run("a").await;
    // Once the error is in the log, the one that recovery adds comes on top of it.
    let error = log.frames.iter().position(|frame| matches!(frame.data, Data::Error(_))).unwrap();
    let until_error = Log { frames: log.frames[..=error].to_vec(), ..log.clone() };
    crash_everywhere(&until_error).await;
    let crashed = fixture::bed([]);
    for length in error + 1..log.frames.len() {
        let run_id = format!("run_{length}");
        left_behind(&crashed.store, &run_id, &log.frames[..length]).await;
    }
    restarted(&crashed.store).recover().await.unwrap();
    for length in error + 1..log.frames.len() {
        let after = ended(&crashed.store, &format!("run_{length}")).await;
        assert_eq!((after.ending(), after.failure_class()), ("failed", Some("INTERNAL_ERROR")));
    }
}

#[tokio::test]
async fn a_run_that_was_waiting_when_the_server_died_is_answered_after_the_restart() {
    let bed = bed([asking()]);
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let engine = restarted(&bed.store);
    assert_eq!(engine.recover().await.unwrap(), [(run_id.clone(), Recovered::Suspended)]);
    engine.create_run(request("asking", answers("t", "r2", &["i1"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed");
    assert_eq!(log.text(), "Thanks a lot.");
}

#[tokio::test]
async fn an_answer_that_was_taken_when_the_server_died_goes_on_when_it_is_repeated() {
    let dies = agent("asking", |exchange, _| async move {
        if exchange.resumed {
            // The upstream agent had not said yet that the run goes on.
            std::future::pending::<()>().await;
        }
        Ok(suspended(&["i1"]))
    });
    let bed = bed([dies]);
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let answer = request("asking", answers("t", "r2", &["i1"]));
    bed.create(answer.clone()).await.unwrap();
    let engine = restarted(&bed.store);
    assert_eq!(engine.recover().await.unwrap(), [(run_id.clone(), Recovered::Suspended)]);
    let repeated = engine.create_run(answer.clone()).await.unwrap();
    assert_eq!(repeated.record.run_id, run_id);
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert!(engine.create_run(answer).await.unwrap().existing);
}

#[tokio::test]
async fn a_run_whose_log_is_damaged_stays_as_it_is_and_keeps_no_other_from_its_end() {
    let bed = bed([]);
    bed.store.create_run(new_run("run_damaged")).await.unwrap();
    let mut appender = bed.store.take_ownership("run_damaged").await.unwrap();
    let frames = vec![NewFrame { seq: 1, body: "{\"seq\":1}".into() }];
    appender.enqueue(Append { frames, ..Append::default() }).unwrap();
    appender.progress().flush().await.unwrap();
    left_behind(&bed.store, "run_other", &[]).await;
    let recovered = restarted(&bed.store).recover().await.unwrap();
    assert_eq!(
        recovered,
        [("run_damaged".to_owned(), Recovered::Unreadable), ("run_other".to_owned(), Recovered::Queued)]
    );
    let record = bed.record("run_damaged").await;
    assert_eq!((record.head, record.ended_at), (1, None));
    assert_eq!(bed.ended("run_other").await.ending(), "completed");
}

#[test]
fn g5_what_a_reader_saw_before_the_server_died_is_there_after_the_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runwire.db");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let (run_id, seen) = runtime.block_on(async {
        let engine = Engine::new(store.clone(), [endless()], EngineOptions::default());
        let run_id = engine.create_run(fixture::prompt("endless")).await.unwrap().record.run_id;
        let mut tail = store.tail(&run_id, 0).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 50 {
            let TailItem::Frames(entries) = tail.next().await.unwrap() else { panic!("it is endless") };
            seen.extend(entries.iter().map(|entry| entry.body()));
        }
        (run_id, seen)
    });
    // Every task of the server is gone at whatever it was doing.
    runtime.shutdown_background();
    store.close();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&path, StoreOptions::default()).unwrap();
        let engine = restarted(&store);
        assert_eq!(engine.recover().await.unwrap(), [(run_id.clone(), Recovered::Failed)]);
        let log = ended(&store, &run_id).await;
        assert_eq!(log.failure_class(), Some("INTERNAL_ERROR"));
        for (before, after) in seen.iter().zip(&log.frames) {
            assert_eq!(*before, after.encode(), "G3: the same bytes");
        }
        assert_eq!(engine.recover().await.unwrap(), []);
    });
}

/// Fills the store to its limit with the log of another run, and says how many frames that took.
async fn fill(store: &Store, run_id: &str) -> u64 {
    store.create_run(new_run(run_id)).await.unwrap();
    let mut seq = 1;
    // Ever smaller pieces, so that in the end there is no room for anything.
    for size in [64 * 1024, 4096, 512, 16] {
        let mut appender = match store.take_ownership(run_id).await {
            Ok(appender) => appender,
            Err(_) => return seq - 1,
        };
        seq = appender.next_seq();
        loop {
            let body = format!("{{\"filler\":\"{}\"}}", "x".repeat(size)).into();
            let full = appender.enqueue(Append { frames: vec![NewFrame { seq, body }], ..Append::default() }).is_err();
            if full || appender.progress().flush().await.is_err() {
                break;
            }
            seq += 1;
        }
    }
    seq - 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fills_up_fails_the_run_and_not_the_engine() {
    let options = StoreOptions { max_bytes: Some(1024 * 1024), ..StoreOptions::default() };
    let writing = Arc::new(tokio::sync::Notify::new());
    let go_on = writing.clone();
    let bed = bed_with(
        [
            agent("writer", move |_, starting| {
                let go_on = go_on.clone();
                async move {
                    let writer = starting.begin(None);
                    let message = writer.message(Opening::default()).await?;
                    message.text("Before.").await?;
                    go_on.notified().await;
                    loop {
                        message.text(&"after ".repeat(1000)).await?;
                        tokio::task::yield_now().await;
                    }
                }
            }),
            agent("quick", |_, _| async { Ok(completed()) }),
        ],
        options,
        Duration::from_millis(200),
    );
    let run_id = bed.start("writer").await;
    bed.shows(&run_id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    fill(&bed.store, "run_filler").await;
    writing.notify_one();
    bed.idle().await;
    let stopped = so_far(&bed.store, &run_id).await;
    assert!(stopped.text().starts_with("Before."));
    assert_eq!(bed.record(&run_id).await.ended_at, None, "there is no room for an end");
    // A few small runs may still find a gap, until not even their creation does.
    let mut squeezed = Vec::new();
    let refused = loop {
        match bed.create(fixture::prompt("quick")).await {
            Ok(started) => squeezed.push(started.record.run_id),
            Err(refused) => break refused,
        }
    };
    assert!(refused.to_string().contains("is full"), "{refused}");

    // Room comes back: the run is ended without anybody asking, and the engine goes on.
    bed.store.trim("run_filler", u64::MAX).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "failed");
    let (code, message, retryable) = log.error();
    assert_eq!((code, retryable), ("INTERNAL_ERROR", true));
    assert!(message.contains("is full"), "{message}");
    assert_eq!(log.frames[..stopped.frames.len()], stopped.frames, "what was visible stays");
    for run_id in squeezed {
        assert!(["completed", "failed"].contains(&bed.ended(&run_id).await.ending()));
    }
    assert_eq!(bed.run("quick").await.ending(), "completed");
    assert_eq!(bed.store.health(), Ok(()));
    // Nothing goes on in the background.
    patiently(bed.engine.shutdown(Duration::from_secs(30))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_stopped_while_the_store_is_full_ends_as_cancelled() {
    let options = StoreOptions { max_bytes: Some(1024 * 1024), ..StoreOptions::default() };
    let bed = bed_with([endless()], options, Duration::from_millis(200));
    let run_id = bed.start("endless").await;
    bed.shows(&run_id, |frame| matches!(frame.data, Data::Notice(_))).await;
    fill(&bed.store, "run_filler").await;
    bed.idle().await;
    assert_eq!(bed.record(&run_id).await.status, "running", "there was no room to say more");
    // Past the first attempt to end it, which may be under way right now.
    tokio::time::sleep(Duration::from_millis(250)).await;
    bed.engine.cancel(&run_id).await.unwrap();
    bed.store.trim("run_filler", u64::MAX).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
}

#[tokio::test]
async fn a_run_that_another_owner_has_taken_over_is_left_to_it() {
    let bed = bed([endless()]);
    let run_id = bed.start("endless").await;
    bed.shows(&run_id, |frame| matches!(frame.data, Data::Notice(_))).await;
    let recovered = restarted(&bed.store).recover().await.unwrap();
    assert_eq!(recovered, [(run_id.clone(), Recovered::Failed)]);
    let log = bed.ended(&run_id).await;
    bed.idle().await;
    assert_eq!(bed.ended(&run_id).await.frames, log.frames, "the former owner writes nothing more");
    // It does not try for ever to end what has ended.
    let before = std::time::Instant::now();
    patiently(bed.engine.shutdown(Duration::from_secs(30))).await;
    assert!(before.elapsed() < Duration::from_secs(20));
}
