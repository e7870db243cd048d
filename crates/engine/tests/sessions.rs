//! Several runs of one agent in one session: queued, refused, superseded, or beside each other.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::{Arc, Mutex};

use fixture::{agent, answers, bed, completed, input, patiently, request, suspended};
use runwire_engine::{Agent, Concurrency, CreateRunError};
use runwire_frame::RunStatus;
use tokio::sync::Semaphore;

/// An agent whose runs end when they are let, or stopped, and what was begun.
fn gated(concurrency: Concurrency) -> (Agent, Arc<Semaphore>, Arc<Mutex<Vec<String>>>) {
    let permits = Arc::new(Semaphore::new(0));
    let begun: Arc<Mutex<Vec<String>>> = Arc::default();
    let (gate, list) = (permits.clone(), begun.clone());
    let mut agent = agent("a", move |exchange, starting| {
        let (gate, list) = (gate.clone(), list.clone());
        async move {
            starting.begin(None);
            list.lock().unwrap().push(exchange.input.run_id.clone());
            // A run that was stopped takes no permit from the one that is waited for.
            tokio::select! {
                biased;
                () = exchange.stop.cancelled() => {}
                permit = gate.acquire() => permit.unwrap().forget(),
            }
            if exchange.input.run_id == "asks" { Ok(suspended(&["i1"])) } else { Ok(completed()) }
        }
    });
    agent.policy.concurrency = concurrency;
    (agent, permits, begun)
}

#[tokio::test]
async fn the_second_run_of_a_session_waits_for_the_end_of_the_first() {
    let (agent, permits, begun) = gated(Concurrency::Queue);
    let bed = bed([agent]);
    let mut runs = Vec::new();
    for exchange in ["1", "2", "3"] {
        runs.push(bed.create(request("a", input("s", exchange))).await.unwrap().record.run_id);
    }
    bed.reaches(&runs[0], RunStatus::Running).await;
    assert_eq!(bed.engine.queued_runs(), 2);
    let repeated = bed.create(request("a", input("s", "2"))).await.unwrap();
    assert!(repeated.existing && repeated.record.run_id == runs[1], "a repeated request finds the run that waits");
    assert_eq!(bed.engine.queued_runs(), 2);
    permits.add_permits(3);
    for run_id in &runs {
        assert_eq!(bed.ended(run_id).await.ending(), "completed");
    }
    assert_eq!(*begun.lock().unwrap(), ["1", "2", "3"]);
    let first = bed.ended(&runs[0]).await.frames.last().unwrap().ts;
    assert!(bed.ended(&runs[1]).await.frames[0].ts >= first);
}

#[tokio::test]
async fn what_a_run_that_waited_was_answered_for_nothing_is_left_out_with_a_warning_too() {
    let (agent, permits, _) = gated(Concurrency::Queue);
    let bed = bed([agent]);
    let first = bed.create(request("a", input("s", "1"))).await.unwrap().record.run_id;
    let second = bed.create(request("a", answers("s", "2", &["i9"]))).await.unwrap().record.run_id;
    permits.add_permits(2);
    assert_eq!(bed.ended(&first).await.ending(), "completed");
    let log = bed.ended(&second).await;
    assert_eq!(log.ending(), "completed");
    let (code, message) = log.notices()[0];
    assert_eq!(code, "resume_entries_ignored");
    assert!(message.contains("`i9`"), "{message}");
}

#[tokio::test]
async fn another_agent_and_another_session_do_not_wait() {
    let (agent_a, permits, _) = gated(Concurrency::Queue);
    let bed = bed([agent_a, agent("b", |_, _| async { Ok(completed()) })]);
    let first = bed.create(request("a", input("s", "1"))).await.unwrap().record.run_id;
    bed.reaches(&first, RunStatus::Running).await;
    let beside = bed.create(request("b", input("s", "2"))).await.unwrap().record.run_id;
    assert_eq!(bed.ended(&beside).await.ending(), "completed");
    let other = bed.create(request("a", input("t", "1"))).await.unwrap().record.run_id;
    bed.reaches(&other, RunStatus::Running).await;
    permits.add_permits(2);
    bed.ended(&first).await;
}

#[tokio::test]
async fn an_agent_can_refuse_a_second_run_and_says_which_is_in_its_way() {
    let (agent, permits, _) = gated(Concurrency::Refuse);
    let bed = bed([agent]);
    let first = bed.create(request("a", input("s", "1"))).await.unwrap().record.run_id;
    let refused = bed.create(request("a", input("s", "2"))).await.unwrap_err();
    assert!(matches!(&refused, CreateRunError::SessionBusy { run_id, .. } if *run_id == first), "{refused}");
    assert!(bed.create(request("a", input("s", "1"))).await.unwrap().existing, "the same request re-attaches");
    // Whoever has read the end may ask again at once.
    for number in 3..30 {
        permits.add_permits(1);
        let before = bed.store.runs(Default::default()).await.unwrap()[0].run_id.clone();
        bed.ended(&before).await;
        bed.create(request("a", input("s", &number.to_string()))).await.unwrap();
    }
    assert_eq!(bed.store.session("s").await.unwrap().unwrap().runs, 28, "what was refused was not created");
    permits.add_permits(1);
}

#[tokio::test]
async fn an_agent_can_have_the_newest_run_supersede_all_before_it() {
    let (agent, permits, _) = gated(Concurrency::Supersede);
    let bed = bed([agent]);
    let mut runs = Vec::new();
    for exchange in ["1", "2", "3"] {
        runs.push(bed.create(request("a", input("s", exchange))).await.unwrap().record.run_id);
    }
    assert!(bed.create(request("a", input("s", "3"))).await.unwrap().existing, "a repeated request supersedes nothing");
    permits.add_permits(1);
    let endings = [bed.ended(&runs[0]).await, bed.ended(&runs[1]).await, bed.ended(&runs[2]).await];
    assert_eq!(endings.each_ref().map(|log| log.ending()), ["cancelled", "cancelled", "completed"]);

    permits.add_permits(1);
    let asks = bed.create(request("a", input("s", "asks"))).await.unwrap().record.run_id;
    bed.reaches(&asks, RunStatus::Suspended).await;
    let after = bed.create(request("a", input("s", "4"))).await.unwrap().record.run_id;
    assert_ne!(after, asks);
    assert_eq!(bed.ended(&asks).await.ending(), "cancelled", "also one that waits for an answer");
    permits.add_permits(1);
    assert_eq!(bed.ended(&after).await.ending(), "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_supersede_each_other_the_newest_is_executed_to_its_end() {
    let (agent, permits, _) = gated(Concurrency::Supersede);
    let bed = Arc::new(bed([agent]));
    let mut creating = Vec::new();
    for number in 0..20 {
        let bed = bed.clone();
        creating.push(tokio::spawn(async move {
            bed.create(request("a", input("s", &number.to_string()))).await.unwrap().record.run_id
        }));
    }
    let mut runs = Vec::new();
    for run in creating {
        runs.push(patiently(run).await.unwrap());
    }
    permits.add_permits(1);
    let mut completed = 0;
    for run_id in &runs {
        match bed.ended(run_id).await.ending() {
            "completed" => completed += 1,
            ending => assert_eq!(ending, "cancelled"),
        }
    }
    assert_eq!(completed, 1);
    bed.idle().await;
}

#[tokio::test]
async fn an_agent_can_allow_several_at_once() {
    let (agent, permits, _) = gated(Concurrency::Parallel);
    let bed = bed([agent]);
    let mut runs = Vec::new();
    for exchange in ["1", "2", "3"] {
        runs.push(bed.create(request("a", input("s", exchange))).await.unwrap().record.run_id);
        bed.reaches(runs.last().unwrap(), RunStatus::Running).await;
    }
    permits.add_permits(3);
    for run_id in &runs {
        assert_eq!(bed.ended(run_id).await.ending(), "completed");
    }
}

#[tokio::test]
async fn an_input_that_waited_for_a_run_which_then_asks_does_nothing_and_says_so() {
    let (agent, permits, begun) = gated(Concurrency::Queue);
    let bed = bed([agent]);
    let asks = bed.create(request("a", input("s", "asks"))).await.unwrap().record.run_id;
    let behind = bed.create(request("a", input("s", "2"))).await.unwrap().record.run_id;
    permits.add_permits(1);
    bed.reaches(&asks, RunStatus::Suspended).await;
    let log = bed.ended(&behind).await;
    assert_eq!(log.ending(), "cancelled");
    let (code, message) = log.notices()[0];
    assert_eq!(code, "interrupts_unanswered");
    assert!(message.contains("`i1`") && message.contains(&asks), "{message}");
    assert_eq!(*begun.lock().unwrap(), ["asks"], "the agent was not asked");
    permits.add_permits(1);
    bed.create(request("a", answers("s", "3", &["i1"]))).await.unwrap();
    assert_eq!(bed.ended(&asks).await.ending(), "completed");
}
