//! What is asked of a run while its log cannot be written is done when it can be again.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::Arc;

use fixture::{agent, answers, bed, cancelled, completed, input, patiently, request, so_far, suspended};
use runwire_bridge::Opening;
use runwire_engine::Agent;
use runwire_frame::{Data, RunStatus};
use rusqlite::Connection;
use tokio::sync::Semaphore;

/// Says one thing and waits to be stopped.
fn patient() -> Agent {
    agent("patient", |exchange, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text("Before.").await?;
        exchange.stop.cancelled().await;
        Ok(cancelled())
    })
}

#[tokio::test]
async fn a_stop_that_the_store_could_not_take_ends_the_run_as_cancelled_when_it_takes_something_again() {
    for again in [false, true] {
        let bed = bed([patient()]);
        let run_id = bed.start("patient").await;
        bed.shows(&run_id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
        // Refuses every frame, however small: a store that is merely full may still find room for this one.
        let file = Connection::open(bed.dir.path().join("runwire.db")).unwrap();
        file.execute_batch("CREATE TRIGGER refuse BEFORE INSERT ON frames BEGIN SELECT RAISE(FAIL, 'no room'); END")
            .unwrap();

        // The driver is alive and has nothing to write: the stop is the first thing that the store does not take.
        let asked = bed.engine.cancel(&run_id).await.unwrap();
        assert_eq!((asked.status.as_str(), asked.ended_at), ("running", None), "the log could not say more");
        bed.idle().await;
        let before = so_far(&bed.store, &run_id).await;
        assert_eq!(before.statuses(), [RunStatus::Running]);
        if again {
            // While nobody executes it.
            patiently(bed.engine.cancel(&run_id)).await.unwrap();
        }

        file.execute_batch("DROP TRIGGER refuse").unwrap();
        let log = bed.ended(&run_id).await;
        assert_eq!((log.ending(), log.text().as_str()), ("cancelled", "Before."), "{}", log.dump());
        assert!(!log.has_error(), "a stop that was asked for is no failure");
        assert_eq!(log.frames[..before.frames.len()], before.frames);
    }
}

#[tokio::test]
async fn so_is_a_stop_of_a_run_that_could_not_go_on_with_its_answer() {
    let answered = Arc::new(Semaphore::new(0));
    let gate = answered.clone();
    let asking = agent("asking", move |exchange, starting| {
        let gate = gate.clone();
        async move {
            if !exchange.resumed {
                starting.begin(None);
                return Ok(suspended(&["i1"]));
            }
            gate.acquire().await.unwrap().forget();
            starting.begin(None);
            Ok(completed())
        }
    });
    let bed = bed([asking]);
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    bed.create(request("asking", answers("t", "r2", &["i1"]))).await.unwrap();
    let file = Connection::open(bed.dir.path().join("runwire.db")).unwrap();
    for (name, what) in [("refuse_frames", "INSERT ON frames"), ("refuse_runs", "UPDATE ON runs")] {
        let refuse = format!("CREATE TRIGGER {name} BEFORE {what} BEGIN SELECT RAISE(FAIL, 'no room'); END");
        file.execute_batch(&refuse).unwrap();
    }
    answered.add_permits(1);
    bed.idle().await;
    assert_eq!(bed.record(&run_id).await.status, "suspended", "that it went on is not in the log");
    patiently(bed.engine.cancel(&run_id)).await.unwrap();
    file.execute_batch("DROP TRIGGER refuse_frames; DROP TRIGGER refuse_runs").unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
}
