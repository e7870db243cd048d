//! Stopping a run: at any point, once and for all, and never as a success or a failure.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fixture::{Log, agent, answers, bed, bed_with, cancelled, completed, input, patiently, request, suspended};
use runwire_bridge::{Ending, Failure, Opening};
use runwire_engine::{Agent, CancelError, CreateRunError};
use runwire_frame::{Data, ErrorCode, RunStatus, SegmentStatus};
use runwire_store::{RunFilter, StoreOptions};
use tokio::sync::Notify;

/// Writes until it is asked to stop, and then stops.
fn cooperative() -> Agent {
    agent("cooperative", |exchange, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text("So").await?;
        message.text(" far").await?;
        exchange.stop.cancelled().await;
        Ok(cancelled())
    })
}

/// The log of a run that was stopped on purpose.
fn assert_stopped(log: &Log) {
    assert_eq!(log.ending(), "cancelled", "{}", log.dump());
    assert!(!log.has_error(), "a stop is no failure\n{}", log.dump());
    assert_eq!(log.last_event()["outcome"]["type"], "cancelled", "{}", log.dump());
    assert!(log.segment_ends().iter().all(|status| *status != SegmentStatus::Failed));
    assert_one_outcome(log);
}

/// Once the log said that the run is being stopped, it ends as stopped.
fn assert_one_outcome(log: &Log) {
    let statuses = log.statuses();
    if let Some(at) = statuses.iter().position(|status| *status == RunStatus::Cancelling) {
        assert_eq!(statuses[at + 1..], [RunStatus::Cancelled], "{}", log.dump());
    }
}

#[tokio::test]
async fn a_running_run_says_that_it_is_stopping_and_then_that_it_stopped() {
    let bed = bed([cooperative()]);
    let run_id = bed.start("cooperative").await;
    bed.shows(&run_id, |frame| matches!(&frame.data, Data::TextDelta(delta) if delta.text.contains("far"))).await;
    let record = bed.engine.cancel(&run_id).await.unwrap();
    assert!(["cancelling", "cancelled"].contains(&record.status.as_str()), "{}", record.status);
    let log = bed.ended(&run_id).await;
    assert_stopped(&log);
    assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Cancelling, RunStatus::Cancelled]);
    assert_eq!(log.text(), "So far", "what was delivered before the stop stays delivered");
    assert_eq!(log.segment_ends(), [SegmentStatus::Cancelled]);
}

#[tokio::test]
async fn a_driver_that_does_not_hear_the_stop_is_dropped_after_its_grace() {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let dropped = Arc::new(Notify::new());
    let told = dropped.clone();
    let grace = Duration::from_millis(150);
    let bed = bed_with(
        [agent("deaf", move |_, starting| {
            let dropped = Dropped(told.clone());
            async move {
                let _dropped = dropped;
                let writer = starting.begin(None);
                let message = writer.message(Opening::default()).await?;
                loop {
                    message.text("la ").await?;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        })],
        StoreOptions::default(),
        grace,
    );
    let run_id = bed.start("deaf").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    let before = std::time::Instant::now();
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert!(before.elapsed() >= grace, "it has its grace period");
    assert_stopped(&log);
    assert!(log.text().starts_with("la "));
    patiently(dropped.notified()).await;
    bed.idle().await;
}

#[tokio::test]
async fn whatever_a_driver_comes_to_after_the_stop_the_run_ends_as_cancelled() {
    let bed = bed([
        agent("completes", |exchange, _| async move {
            exchange.stop.cancelled().await;
            Ok(completed())
        }),
        agent("fails", |exchange, starting| async move {
            starting.begin(None);
            exchange.stop.cancelled().await;
            Err(Failure::new(ErrorCode::ToolError, "interrupted"))
        }),
        agent("suspends", |exchange, starting| async move {
            starting.begin(None);
            exchange.stop.cancelled().await;
            Ok(suspended(&["i1"]))
        }),
        agent("panics", |exchange, starting| async move {
            let writer = starting.begin(None);
            let _message = writer.message(Opening::default()).await?;
            exchange.stop.cancelled().await;
            panic!("interrupted")
        }),
    ]);
    for id in ["completes", "fails", "suspends", "panics"] {
        let run_id = bed.start(id).await;
        if id != "completes" {
            bed.reaches(&run_id, RunStatus::Running).await;
        }
        bed.engine.cancel(&run_id).await.unwrap();
        assert_stopped(&bed.ended(&run_id).await);
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_before_its_driver_begins_it_begins_only_to_end() {
    let bed = bed([
        agent("heeds", |exchange, _starting| async move {
            exchange.stop.cancelled().await;
            Ok(cancelled())
        }),
        agent("begins late", |exchange, starting| async move {
            exchange.stop.cancelled().await;
            let writer = starting.begin(None);
            writer.message(Opening::default()).await?.end(Ending::completed()).await?;
            Ok(completed())
        }),
        agent("never begins", |_, _| std::future::pending()),
    ]);
    for id in ["heeds", "begins late", "never begins"] {
        let run_id = bed.start(id).await;
        let record = bed.engine.cancel(&run_id).await.unwrap();
        assert_ne!(record.status, "completed", "{id}");
        let log = bed.ended(&run_id).await;
        assert_stopped(&log);
        assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Cancelling, RunStatus::Cancelled], "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_that_comes_before_the_runs_task_is_not_lost() {
    let bed = Arc::new(bed([cooperative()]));
    for number in 0..100 {
        let thread = format!("thread-{number}");
        let create = request("cooperative", input(&thread, "r"));
        let (creator, stopper) = (bed.clone(), bed.clone());
        let creating = tokio::spawn(async move { creator.create(create).await.unwrap().record.run_id });
        let stopping = tokio::spawn(async move {
            let filter = RunFilter { session_id: Some(thread), ..RunFilter::default() };
            loop {
                if let Some(run) = stopper.store.runs(filter.clone()).await.unwrap().first() {
                    stopper.engine.cancel(&run.run_id).await.unwrap();
                    return run.status.clone();
                }
            }
        });
        let run_id = patiently(creating).await.unwrap();
        patiently(stopping).await.unwrap();
        assert_stopped(&bed.ended(&run_id).await);
    }
    bed.idle().await;
}

#[tokio::test]
async fn asking_twice_or_after_the_end_changes_nothing() {
    let bed = bed([cooperative(), agent("quick", |_, _| async { Ok(completed()) })]);
    let run_id = bed.start("cooperative").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    let (first, second) = tokio::join!(bed.engine.cancel(&run_id), bed.engine.cancel(&run_id));
    first.unwrap();
    second.unwrap();
    let log = bed.ended(&run_id).await;
    assert_stopped(&log);
    let record = bed.record(&run_id).await;
    assert_eq!(bed.engine.cancel(&run_id).await.unwrap(), record);
    assert_eq!(bed.ended(&run_id).await.frames, log.frames);

    let done = bed.run("quick").await;
    let record = bed.engine.cancel(&done.run_id).await.unwrap();
    assert_eq!(record.status, "completed");
    assert_eq!(bed.ended(&done.run_id).await.frames, done.frames);

    let unknown = bed.engine.cancel("run_that_is_not").await.unwrap_err();
    assert!(matches!(&unknown, CancelError::UnknownRun(run) if run == "run_that_is_not"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_that_races_with_the_end_leaves_one_outcome_and_a_legal_log() {
    let bed = Arc::new(bed([agent("brisk", |_, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        for _ in 0..3 {
            message.text("word ").await?;
            tokio::task::yield_now().await;
        }
        message.end(Ending::completed()).await?;
        Ok(completed())
    })]));
    let mut outcomes = std::collections::BTreeMap::<&str, usize>::new();
    for number in 0..200_u64 {
        let run_id = bed.start("brisk").await;
        let (stopper, of) = (bed.clone(), run_id.clone());
        let stopping = tokio::spawn(async move {
            // From before the run begins to after it has ended.
            fixture::moment(number).await;
            stopper.engine.cancel(&of).await.unwrap()
        });
        let log = bed.ended(&run_id).await;
        patiently(stopping).await.unwrap();
        assert_one_outcome(&log);
        match log.ending() {
            "cancelled" => assert_stopped(&log),
            other => assert_eq!(other, "completed"),
        }
        *outcomes.entry(log.ending()).or_default() += 1;
        assert_eq!(bed.ended(&run_id).await.frames, log.frames, "G6: after run.end nothing follows");
    }
    println!("{outcomes:?}");
    bed.idle().await;
}

/// Asks once, and completes when it is answered.
fn asking(executed: Arc<AtomicUsize>) -> Agent {
    agent("asking", move |exchange, starting| {
        executed.fetch_add(1, Ordering::SeqCst);
        async move {
            let writer = starting.begin(None);
            let step = writer.step(Opening::named("ask")).await?;
            if exchange.resumed {
                step.end(Ending::completed()).await?;
                return Ok(completed());
            }
            Ok(suspended(&["i1"]))
        }
    })
}

#[tokio::test]
async fn a_suspended_run_is_stopped_where_it_waits() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([asking(executed.clone())]);
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let record = bed.engine.cancel(&run_id).await.unwrap();
    assert_eq!(record.status, "cancelled");
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "cancelled");
    assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Suspended, RunStatus::Cancelling, RunStatus::Cancelled]);
    assert_eq!(
        log.event_types(),
        ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"],
        "the exchange had ended, and a second ending may not follow"
    );
    let late = bed.create(request("asking", answers("t", "r2", &["i1"]))).await.unwrap_err();
    assert!(matches!(late, CreateRunError::AlreadyResolved { .. }), "{late}");
    assert_eq!(executed.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_that_races_with_the_suspension_is_not_lost() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = Arc::new(bed([asking(executed.clone())]));
    for number in 0..100_u64 {
        let run_id = bed.start("asking").await;
        fixture::moment(number).await;
        bed.engine.cancel(&run_id).await.unwrap();
        let log = bed.ended(&run_id).await;
        assert_eq!(log.ending(), "cancelled");
        assert_one_outcome(&log);
    }
    bed.idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_an_answer_and_a_stop_at_once_each_may_win_and_the_log_says_which() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = Arc::new(bed([asking(executed.clone())]));
    for number in 0..100_u64 {
        let thread = format!("thread-{number}");
        let run_id = bed.create(request("asking", input(&thread, "r1"))).await.unwrap().record.run_id;
        bed.reaches(&run_id, RunStatus::Suspended).await;
        let (stopper, of) = (bed.clone(), run_id.clone());
        let stopping = tokio::spawn(async move {
            fixture::moment(number).await;
            stopper.engine.cancel(&of).await.unwrap();
        });
        let answered = bed.create(request("asking", answers(&thread, "r2", &["i1"]))).await;
        patiently(stopping).await.unwrap();
        let log = bed.ended(&run_id).await;
        assert_one_outcome(&log);
        match answered {
            Ok(_) => assert!(["completed", "cancelled"].contains(&log.ending()), "{}", log.dump()),
            Err(CreateRunError::AlreadyResolved { .. }) => assert_eq!(log.ending(), "cancelled"),
            Err(other) => panic!("{other}"),
        }
    }
    bed.idle().await;
}
