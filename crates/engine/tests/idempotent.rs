//! A repeated request finds the run that the first one made, and starts nothing.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixture::{agent, answers, bed, completed, input, patiently, prompt, request, suspended};
use runwire_bridge::{Ending, Opening};
use runwire_engine::{Agent, CreateRun, CreateRunError};
use runwire_frame::RunStatus;
use tokio::sync::Semaphore;

fn counted(id: &str, executed: Arc<AtomicUsize>) -> Agent {
    agent(id, move |_, starting| {
        executed.fetch_add(1, Ordering::SeqCst);
        async move {
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            message.text("Once.").await?;
            message.end(Ending::completed()).await?;
            Ok(completed())
        }
    })
}

fn of(principal: &str, create: CreateRun) -> CreateRun {
    CreateRun { principal: Some(principal.to_owned()), ..create }
}

#[tokio::test]
async fn the_same_ids_with_the_same_input_reattach() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([counted("a", executed.clone())]);
    let first = bed.create(request("a", input("t", "r"))).await.unwrap();
    assert!(!first.existing);
    assert_eq!((first.exchange_id.as_str(), first.record.session_id.as_str()), ("r", "t"));
    let during = bed.create(request("a", input("t", "r"))).await.unwrap();
    let log = bed.ended(&first.record.run_id).await;
    let after = bed.create(request("a", input("t", "r"))).await.unwrap();
    for again in [during, after] {
        assert!(again.existing);
        assert_eq!(again.record.run_id, first.record.run_id);
        assert_eq!(again.exchange_id, "r");
    }
    assert_eq!(executed.load(Ordering::SeqCst), 1);
    assert_eq!(bed.ended(&first.record.run_id).await.frames, log.frames);
}

#[tokio::test]
async fn the_same_ids_with_another_input_or_for_another_agent_are_refused() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([counted("a", executed.clone()), counted("b", executed.clone())]);
    let first = bed.create(request("a", input("t", "r"))).await.unwrap();
    let mut other = input("t", "r");
    other.state = Some(serde_json::json!({ "n": 1 }));
    for create in [request("a", other), request("b", input("t", "r"))] {
        let refused = bed.create(create).await.unwrap_err();
        let CreateRunError::OtherInput { session_id, exchange_id } = &refused else { panic!("{refused}") };
        assert_eq!((session_id.as_str(), exchange_id.as_str()), ("t", "r"));
        assert!(refused.to_string().contains("`r`") && refused.to_string().contains("`t`"), "{refused}");
    }
    bed.ended(&first.record.run_id).await;
    bed.idle().await;
    assert_eq!(executed.load(Ordering::SeqCst), 1, "nothing was started");
}

/// The same members in another order, at every level.
fn reversed(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(members) => members.into_iter().rev().map(|(key, value)| (key, reversed(value))).collect(),
        Value::Array(values) => values.into_iter().map(reversed).collect(),
        value => value,
    }
}

#[tokio::test]
async fn the_order_of_members_makes_no_other_input_and_the_order_of_a_list_does() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([counted("a", executed.clone())]);
    let state = serde_json::json!({ "a": 1, "b": { "c": [{ "d": 1, "e": null }, 2], "f": "x" } });
    let with = |state: &serde_json::Value| {
        let mut input = input("t", "r");
        input.state = Some(state.clone());
        request("a", input)
    };
    let first = bed.create(with(&state)).await.unwrap();
    let turned = reversed(state.clone());
    assert_ne!(turned.to_string(), state.to_string(), "it is written in another order");
    let again = bed.create(with(&turned)).await.unwrap();
    assert!(again.existing);
    assert_eq!(again.record.run_id, first.record.run_id);

    let mut other = state;
    other["b"]["c"].as_array_mut().unwrap().reverse();
    let refused = bed.create(with(&other)).await.unwrap_err();
    assert!(matches!(refused, CreateRunError::OtherInput { .. }), "{refused}");
    bed.ended(&first.record.run_id).await;
    assert_eq!(executed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_same_run_id_on_another_thread_is_another_run() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([counted("a", executed.clone())]);
    let first = bed.create(request("a", input("t1", "r"))).await.unwrap();
    let second = bed.create(request("a", input("t2", "r"))).await.unwrap();
    assert_ne!(first.record.run_id, second.record.run_id);
    assert!(!second.existing);
    bed.ended(&first.record.run_id).await;
    bed.ended(&second.record.run_id).await;
}

#[tokio::test]
async fn ids_that_are_left_out_are_made_and_two_prompts_are_two_runs() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([counted("a", executed.clone())]);
    let first = bed.create(prompt("a")).await.unwrap();
    let second = bed.create(prompt("a")).await.unwrap();
    assert_ne!(first.record.run_id, second.record.run_id);
    assert_ne!(first.record.session_id, second.record.session_id);
    assert_eq!(first.exchange_id, first.record.run_id, "a run without an AG-UI id is its own exchange");
    for started in [first, second] {
        bed.ended(&started.record.run_id).await;
    }
}

#[tokio::test]
async fn an_unknown_agent_is_refused_by_name() {
    let bed = bed([counted("a", Arc::default()), counted("b", Arc::default())]);
    let refused = bed.create(prompt("c")).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no agent `c` here; there is `a`, `b`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_duplicates_start_the_driver_once() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = Arc::new(bed([counted("a", executed.clone())]));
    for round in 0..20 {
        let requests = (0..10).map(|_| {
            let bed = bed.clone();
            let create = request("a", input("t", &format!("r{round}")));
            tokio::spawn(async move { bed.create(create).await.unwrap() })
        });
        let mut started = Vec::new();
        for request in requests.collect::<Vec<_>>() {
            started.push(patiently(request).await.unwrap());
        }
        assert_eq!(started.iter().filter(|s| !s.existing).count(), 1);
        assert!(started.iter().all(|s| s.record.run_id == started[0].record.run_id));
        bed.ended(&started[0].record.run_id).await;
        assert_eq!(executed.load(Ordering::SeqCst), round + 1);
    }
}

#[tokio::test]
async fn a_thread_belongs_to_whoever_started_its_first_run() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([counted("a", executed.clone())]);
    let first = bed.create(of("ann", request("a", input("t", "r1")))).await.unwrap();
    bed.ended(&first.record.run_id).await;
    // Neither a new run of the thread nor the run that is there.
    for create in [request("a", input("t", "r2")), request("a", input("t", "r1"))] {
        let refused = bed.create(of("bob", create)).await.unwrap_err();
        assert!(matches!(&refused, CreateRunError::SessionNotYours { session_id } if session_id == "t"), "{refused}");
    }
    let again = bed.create(of("ann", request("a", input("t", "r1")))).await.unwrap();
    assert!(again.existing);
    let next = bed.create(of("ann", request("a", input("t", "r2")))).await.unwrap();
    bed.ended(&next.record.run_id).await;
    assert_eq!(executed.load(Ordering::SeqCst), 2);
}

/// Asks for the answers to two interrupts and goes on once there is a permit.
fn asking(executed: Arc<AtomicUsize>, permits: Arc<Semaphore>) -> Agent {
    agent("asking", move |exchange, starting| {
        executed.fetch_add(1, Ordering::SeqCst);
        let permits = permits.clone();
        async move {
            if !exchange.resumed {
                starting.begin(None);
                return Ok(suspended(&["i1", "i2"]));
            }
            // As an upstream agent that takes its time before it says that the run has started.
            let _permit = permits.acquire().await;
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            message.text("Thanks.").await?;
            message.end(Ending::completed()).await?;
            Ok(completed())
        }
    })
}

#[tokio::test]
async fn an_answer_continues_its_run_and_its_repetition_reattaches() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([asking(executed.clone(), Arc::new(Semaphore::new(9)))]);
    let first = bed.create(request("asking", input("t", "r1"))).await.unwrap();
    bed.reaches(&first.record.run_id, RunStatus::Suspended).await;
    let again = bed.create(request("asking", input("t", "r1"))).await.unwrap();
    assert!(again.existing, "the question is repeated, not asked anew");

    let answer = answers("t", "r2", &["i2", "i1"]);
    let answered = bed.create(request("asking", answer.clone())).await.unwrap();
    assert!(!answered.existing);
    assert_eq!(answered.record.run_id, first.record.run_id, "one run spans both exchanges");
    assert_eq!(answered.exchange_id, "r2");
    let log = bed.ended(&first.record.run_id).await;
    assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Suspended, RunStatus::Running, RunStatus::Completed]);
    let repeated = bed.create(request("asking", answer)).await.unwrap();
    assert!(repeated.existing);
    assert_eq!(repeated.record.run_id, first.record.run_id);
    let other = bed.create(request("asking", answers("t", "r2", &["i1"]))).await.unwrap_err();
    assert!(matches!(other, CreateRunError::OtherInput { .. }), "{other}");
    assert_eq!(executed.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_answer_given_several_times_at_once_continues_the_run_once() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = Arc::new(bed([asking(executed.clone(), Arc::new(Semaphore::new(9)))]));
    for round in 0..20 {
        let thread = format!("thread-{round}");
        let run_id = bed.create(request("asking", input(&thread, "r1"))).await.unwrap().record.run_id;
        bed.reaches(&run_id, RunStatus::Suspended).await;
        let answering = (0..5).map(|_| {
            let create = request("asking", answers(&thread, "r2", &["i1", "i2"]));
            let bed = bed.clone();
            tokio::spawn(async move { bed.create(create).await.unwrap() })
        });
        let mut continued = 0;
        for answered in answering.collect::<Vec<_>>() {
            let answered = patiently(answered).await.unwrap();
            assert_eq!(answered.record.run_id, run_id);
            continued += usize::from(!answered.existing);
        }
        assert_eq!(continued, 1);
        assert_eq!(bed.ended(&run_id).await.ending(), "completed");
        assert_eq!(executed.load(Ordering::SeqCst), 2 * (round + 1));
    }
}

#[tokio::test]
async fn an_answer_that_leaves_an_interrupt_open_starts_nothing() {
    let executed = Arc::new(AtomicUsize::new(0));
    let bed = bed([asking(executed.clone(), Arc::new(Semaphore::new(9)))]);
    let first = bed.create(request("asking", input("t", "r1"))).await.unwrap();
    bed.reaches(&first.record.run_id, RunStatus::Suspended).await;
    let incomplete = bed.create(request("asking", answers("t", "r2", &["i1"]))).await.unwrap_err();
    let CreateRunError::ResumeIncomplete { run_id, missing } = &incomplete else { panic!("{incomplete}") };
    assert_eq!((run_id, missing), (&first.record.run_id, &vec!["i2".to_owned()]));
    assert_eq!(executed.load(Ordering::SeqCst), 1);
    assert_eq!(bed.record(&first.record.run_id).await.status, "suspended");
    // The refused ids are free for the whole answer.
    bed.create(request("asking", answers("t", "r2", &["i1", "i2"]))).await.unwrap();
    assert_eq!(bed.ended(&first.record.run_id).await.ending(), "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_several_different_answers_one_continues_the_run_and_the_others_come_too_late() {
    let executed = Arc::new(AtomicUsize::new(0));
    let permits = Arc::new(Semaphore::new(0));
    let bed = Arc::new(bed([asking(executed.clone(), permits.clone())]));
    for round in 0..20 {
        let thread = format!("thread-{round}");
        let run_id = bed.create(request("asking", input(&thread, "r1"))).await.unwrap().record.run_id;
        bed.reaches(&run_id, RunStatus::Suspended).await;
        let answering = (0..5).map(|number| {
            let create = request("asking", answers(&thread, &format!("answer-{number}"), &["i1", "i2"]));
            let bed = bed.clone();
            tokio::spawn(async move { bed.create(create).await })
        });
        let mut taken = 0;
        // All have their answer while the driver has not yet said that the run goes on.
        for answered in answering.collect::<Vec<_>>() {
            match patiently(answered).await.unwrap() {
                Ok(started) => {
                    assert!(!started.existing);
                    taken += 1;
                }
                Err(CreateRunError::AlreadyResolved { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(taken, 1);
        permits.add_permits(1);
        let log = bed.ended(&run_id).await;
        assert_eq!(log.ending(), "completed", "{}", log.dump());
        permits.forget_permits(1);
        assert_eq!(executed.load(Ordering::SeqCst), 2 * (round + 1));
    }
}
