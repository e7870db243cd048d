//! Shutting down: runs get their grace, the rest comes to a proper end, and nothing is left running.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fixture::{agent, answers, bed, completed, input, patiently, prompt, request, suspended};
use runwire_bridge::{Ending, Opening};
use runwire_engine::{Agent, CreateRunError};
use runwire_frame::{RunStatus, SegmentStatus};
use tokio::sync::Notify;

const LONG: Duration = Duration::from_secs(50);

/// Counts how many of its drivers exist.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Alive {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn slow(for_so_long: Duration, alive: Arc<AtomicUsize>) -> Agent {
    agent("slow", move |_, starting| {
        let alive = Alive::new(&alive);
        async move {
            let _alive = alive;
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            message.text("Wait").await?;
            message.text(" for it").await?;
            tokio::time::sleep(for_so_long).await;
            message.end(Ending::completed()).await?;
            Ok(completed())
        }
    })
}

#[tokio::test]
async fn runs_that_end_within_the_grace_end_as_they_would() {
    let alive = Arc::default();
    let bed = bed([slow(Duration::from_millis(200), Arc::clone(&alive))]);
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(bed.start("slow").await);
    }
    let before = Instant::now();
    patiently(bed.engine.shutdown(LONG)).await;
    assert!(before.elapsed() < LONG, "it waits no longer than it has to");
    assert_eq!(bed.engine.active_runs(), 0);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "every driver's task has ended");
    for run_id in runs {
        assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    }
}

#[tokio::test]
async fn what_does_not_end_within_the_grace_is_ended_as_failed_and_abandoned() {
    let alive = Arc::default();
    let never_begins = agent("never begins", |_, _| std::future::pending());
    let bed = bed([slow(LONG * 100, Arc::clone(&alive)), never_begins]);
    let begun = bed.start("slow").await;
    let waiting = bed.start("never begins").await;
    bed.reaches(&begun, RunStatus::Running).await;
    patiently(bed.engine.shutdown(Duration::from_millis(100))).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0, "every driver's task has ended");
    for run_id in [&begun, &waiting] {
        // All of it was durable when the shutdown returned.
        assert_eq!(bed.record(run_id).await.status, "failed");
        let log = bed.ended(run_id).await;
        let (code, message, retryable) = log.error();
        assert_eq!((log.ending(), code, retryable), ("failed", "INTERNAL_ERROR", true));
        assert!(message.contains("shut down"), "{message}");
        assert!(log.segment_ends().iter().all(|status| *status == SegmentStatus::Abandoned));
    }
    assert_eq!(bed.ended(&begun).await.text(), "Wait for it");
    assert_eq!(bed.ended(&begun).await.segment_ends().len(), 1);
}

#[tokio::test]
async fn a_run_that_was_being_stopped_ends_as_cancelled_even_then() {
    let bed = fixture::bed_with([slow(LONG * 100, Arc::default())], runwire_store::StoreOptions::default(), LONG);
    let run_id = bed.start("slow").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    bed.engine.cancel(&run_id).await.unwrap();
    patiently(bed.engine.shutdown(Duration::from_millis(50))).await;
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
}

#[tokio::test]
async fn no_run_is_created_or_continued_while_the_engine_shuts_down() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let bed = Arc::new(bed([
        agent("gated", move |_, _| {
            let gate = opened.clone();
            async move {
                gate.notified().await;
                Ok(completed())
            }
        }),
        agent("asking", |_, _| async { Ok(suspended(&["i1"])) }),
    ]));
    let waiting = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&waiting, RunStatus::Suspended).await;
    let run_id = bed.start("gated").await;
    let closing = {
        let bed = bed.clone();
        tokio::spawn(async move { bed.engine.shutdown(LONG).await })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    for create in [prompt("gated"), request("asking", answers("t", "r2", &["i1"]))] {
        let refused = bed.create(create).await.unwrap_err();
        assert!(matches!(refused, CreateRunError::ShuttingDown), "{refused}");
    }
    assert!(!closing.is_finished(), "the run has its grace");
    gate.notify_one();
    patiently(closing).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    let refused = bed.create(prompt("gated")).await.unwrap_err();
    assert!(matches!(refused, CreateRunError::ShuttingDown), "{refused}");
    assert_eq!(bed.record(&waiting).await.status, "suspended", "what waits goes on waiting");
    assert_eq!(bed.store.unfinished_runs().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_whose_creation_races_with_the_shutdown_is_refused_or_comes_to_its_end() {
    for round in 0..30_u64 {
        let alive = Arc::<AtomicUsize>::default();
        let bed = Arc::new(bed([slow(LONG * 100, alive.clone())]));
        let creating = (0..8).map(|number| {
            let bed = bed.clone();
            tokio::spawn(async move {
                fixture::moment(number * 2).await;
                bed.engine.create_run(prompt("slow")).await
            })
        });
        let creating: Vec<_> = creating.collect();
        fixture::moment(round * 2).await;
        patiently(bed.engine.shutdown(Duration::from_millis(1))).await;
        assert_eq!(alive.load(Ordering::SeqCst), 0, "no driver runs after the shutdown");
        assert_eq!(bed.engine.active_runs(), 0);
        for created in creating {
            match patiently(created).await.unwrap() {
                Ok(started) => assert_eq!(bed.ended(&started.record.run_id).await.ending(), "failed"),
                Err(refused) => assert!(matches!(refused, CreateRunError::ShuttingDown), "{refused}"),
            }
        }
        assert_eq!(bed.store.unfinished_runs().await.unwrap().len(), 0);
    }
}

#[tokio::test]
async fn shutting_down_twice_is_the_same_as_once() {
    let bed = bed([slow(Duration::from_millis(50), Arc::default())]);
    let run_id = bed.start("slow").await;
    patiently(async { tokio::join!(bed.engine.shutdown(LONG), bed.engine.shutdown(LONG)) }).await;
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    patiently(bed.engine.shutdown(LONG)).await;
}
