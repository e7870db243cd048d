//! What is asked of a run while its log cannot be written is done when it can be again.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use fixture::{agent, bed, cancelled, patiently, so_far};
use runwire_bridge::Opening;
use runwire_engine::Agent;
use runwire_frame::{Data, RunStatus};
use rusqlite::Connection;

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
