//! An answer to a suspended run is taken once and for good, also by a server that dies while it takes it.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixture::{Bed, agent, answers, bed, completed, input, request, so_far, suspended};
use runwire_bridge::{Ending, ExchangeEnd, Opening};
use runwire_engine::{Agent, CreateRunError, Engine, EngineOptions, Recovered};
use runwire_frame::{FrameType, RunStatus};
use runwire_store::{Added, ExchangeRecord};

/// Asks one thing, and thanks for the answer.
fn asking(answered: Arc<AtomicUsize>) -> Agent {
    agent("asking", move |exchange, starting| {
        let answered = answered.clone();
        async move {
            let writer = starting.begin(None);
            if !exchange.resumed {
                return Ok(suspended(&["i1"]));
            }
            answered.fetch_add(1, Ordering::SeqCst);
            let message = writer.message(Opening::default()).await?;
            message.text("Thanks.").await?;
            message.end(Ending::completed()).await?;
            Ok(completed())
        }
    })
}

/// Suspends a run of the thread `t`, and gives its id.
async fn waiting(bed: &Bed) -> String {
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    run_id
}

/// What the store is told of this answer when it is taken. Another server has taken it, and the digest is the same on each.
async fn taken() -> ExchangeRecord {
    let elsewhere = bed([asking(Arc::default())]);
    let run_id = waiting(&elsewhere).await;
    elsewhere.create(request("asking", answers("t", "r2", &["i1"]))).await.unwrap();
    elsewhere.ended(&run_id).await;
    let (_, input_digest) = elsewhere.store.run_by_exchange("t", "r2").await.unwrap().unwrap();
    ExchangeRecord { session_id: "t".to_owned(), exchange_id: "r2".to_owned(), input_digest }
}

#[tokio::test]
async fn an_answer_that_was_stored_when_the_server_died_goes_on_when_it_is_given_again() {
    let answered = Arc::new(AtomicUsize::new(0));
    let bed = bed([asking(answered.clone())]);
    let run_id = waiting(&bed).await;
    assert_eq!(bed.store.add_exchange(&run_id, taken().await).await.unwrap(), Added::New);
    // Here the server died: the exchange is known, and the log has no `resume`.
    let engine = Engine::new(bed.store.clone(), [asking(answered.clone())], EngineOptions::default());
    assert_eq!(engine.recover().await.unwrap(), [(run_id.clone(), Recovered::Suspended)]);

    let mut other = answers("t", "r2", &["i1"]);
    other.state = Some(serde_json::json!({ "changed": true }));
    let refused = engine.create_run(request("asking", other)).await.unwrap_err();
    let CreateRunError::OtherInput { exchange_id, .. } = &refused else { panic!("{refused}") };
    assert_eq!(exchange_id, "r2");
    let untouched = so_far(&bed.store, &run_id).await;
    assert!(!untouched.types().contains(&FrameType::Resume), "an answer that is refused changes nothing");

    let answer = request("asking", answers("t", "r2", &["i1"]));
    let continued = engine.create_run(answer.clone()).await.unwrap();
    assert_eq!((continued.record.run_id.as_str(), continued.exchange_id.as_str()), (&*run_id, "r2"));
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "Thanks."));
    assert_eq!(log.types().iter().filter(|kind| **kind == FrameType::Resume).count(), 1);

    let repeated = engine.create_run(answer).await.unwrap();
    assert!(repeated.existing, "from here on it re-attaches");
    assert_eq!(answered.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn another_answer_may_be_given_in_place_of_one_that_was_stored_and_never_acted_on() {
    let answered = Arc::new(AtomicUsize::new(0));
    let bed = bed([asking(answered.clone())]);
    let run_id = waiting(&bed).await;
    bed.store.add_exchange(&run_id, taken().await).await.unwrap();
    bed.create(request("asking", answers("t", "r3", &["i1"]))).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert_eq!(answered.load(Ordering::SeqCst), 1);
}

/// patterns/interrupt-resume, "Resuming": an expired interrupt can no longer be answered; this one was answered in time.
#[tokio::test]
async fn an_answer_that_was_stored_in_time_is_not_too_late_when_it_is_given_again_after_a_crash() {
    let expired = agent("asking", |exchange, _| async move {
        if exchange.resumed {
            assert_eq!(exchange.interrupts[0].id, "i1", "a driver sees what it had asked");
            return Ok(completed());
        }
        let mut end = suspended(&["i1"]);
        let ExchangeEnd::Suspended(suspension) = &mut end else { unreachable!() };
        suspension.contract["interrupts"][0]["expiresAt"] = "2001-01-01T00:00:00Z".into();
        Ok(end)
    });
    let bed = bed([expired]);
    let run_id = waiting(&bed).await;
    let answer = request("asking", answers("t", "r2", &["i1"]));
    let late = bed.create(answer.clone()).await.unwrap_err();
    assert!(matches!(late, CreateRunError::AnswerTooLate { .. }), "{late}");
    assert_eq!(bed.store.add_exchange(&run_id, taken().await).await.unwrap(), Added::New);
    bed.create(answer).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
}
