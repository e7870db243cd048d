//! A request with an idempotency key is executed once, whatever its agent does with a second run of a session, and however
//! often, when and after how many restarts it is sent.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixture::{Bed, agent, answers, bed, bed_on, completed, input, patiently, prompt, request, suspended};
use runwire_agui::RunAgentInput;
use runwire_engine::{
    Agent, Concurrency, CreateRun, CreateRunError, Engine, EngineOptions, IdempotencyKey, LaneOptions, Recovered,
    RunRequest, Started,
};
use runwire_frame::RunStatus;
use serde_json::json;
use tokio::sync::Semaphore;

fn key(key: &str) -> IdempotencyKey {
    IdempotencyKey::new(key).unwrap()
}

async fn once(bed: &Bed, create: CreateRun, name: &str) -> Result<Started, CreateRunError> {
    patiently(bed.engine.create_run_once(create, key(name))).await
}

fn ask(agent: &str, what: &str, session: &str) -> CreateRun {
    let session_id = Some(session.to_owned()).filter(|id| !id.is_empty());
    CreateRun { request: RunRequest::Prompt { prompt: what.to_owned(), session_id }, ..prompt(agent) }
}

/// Runs that end when they are let, one for each permit, and how often one was begun.
#[derive(Clone)]
struct Gate {
    permits: Arc<Semaphore>,
    executed: Arc<AtomicUsize>,
}

impl Gate {
    fn closed() -> Gate {
        Gate { permits: Arc::new(Semaphore::new(0)), executed: Arc::default() }
    }

    fn open() -> Gate {
        Gate { permits: Arc::new(Semaphore::new(1000)), executed: Arc::default() }
    }

    fn agent(&self, id: &str, concurrency: Concurrency) -> Agent {
        let gate = self.clone();
        let mut agent = agent(id, move |exchange, starting| {
            let gate = gate.clone();
            async move {
                starting.begin(None);
                gate.executed.fetch_add(1, Ordering::SeqCst);
                tokio::select! {
                    biased;
                    () = exchange.stop.cancelled() => {}
                    permit = gate.permits.acquire() => permit.unwrap().forget(),
                }
                Ok(completed())
            }
        });
        agent.policy.concurrency = concurrency;
        agent
    }

    fn executed(&self) -> usize {
        self.executed.load(Ordering::SeqCst)
    }
}

/// Waits for the answer to `i1`, and says thanks for it.
fn asking(concurrency: Concurrency) -> Agent {
    let mut agent = agent("asking", |exchange, starting| async move {
        starting.begin(None);
        Ok(if exchange.resumed { completed() } else { suspended(&["i1"]) })
    });
    agent.policy.concurrency = concurrency;
    agent
}

/// As somebody writes it who leaves the ids to the server.
fn without_ids(input: RunAgentInput) -> RunAgentInput {
    RunAgentInput { run_id: String::new(), ..input }
}

#[tokio::test]
async fn the_same_request_with_the_same_key_is_answered_with_its_run_as_that_stands() {
    let gate = Gate::closed();
    let bed = bed([gate.agent("a", Concurrency::Queue)]);
    let first = once(&bed, ask("a", "Hello", ""), "k").await.unwrap();
    assert!(!first.existing);
    let run_id = &first.record.run_id;
    bed.reaches(run_id, RunStatus::Running).await;
    let during = once(&bed, ask("a", "Hello", ""), "k").await.unwrap();
    assert_eq!((during.existing, during.record.status.as_str()), (true, "running"));
    gate.permits.add_permits(1);
    bed.ended(run_id).await;
    let after = once(&bed, ask("a", "Hello", ""), "k").await.unwrap();
    assert_eq!((after.existing, after.record.status.as_str()), (true, "completed"));
    for again in [during, after] {
        assert_eq!((&again.record.run_id, &again.exchange_id), (run_id, &first.exchange_id));
    }
    let other = once(&bed, ask("a", "Hello", ""), "another").await.unwrap();
    assert!(!other.existing, "without the key it would be another run, and with another key it is");
    gate.permits.add_permits(1);
    bed.ended(&other.record.run_id).await;
    assert_eq!(gate.executed(), 2);
}

#[tokio::test]
async fn a_key_for_another_request_is_refused_and_nothing_is_started() {
    let gate = Gate::open();
    let bed = bed([gate.agent("a", Concurrency::Queue), gate.agent("b", Concurrency::Queue)]);
    let asked = || CreateRun { metadata: json!({ "a": 1, "b": [{ "c": 2, "d": 3 }] }), ..ask("a", "Hello", "s") };
    let first = once(&bed, asked(), "k").await.unwrap();
    bed.ended(&first.record.run_id).await;
    let lane = Some("default".to_owned());
    for other in [
        CreateRun { agent_id: "b".to_owned(), ..asked() },
        CreateRun { request: ask("a", "Hello!", "s").request, ..asked() },
        CreateRun { request: ask("a", "Hello", "another").request, ..asked() },
        CreateRun { request: ask("a", "Hello", "").request, ..asked() },
        CreateRun { request: request("a", input("s", "r")).request, ..asked() },
        CreateRun { metadata: json!({ "a": 1 }), ..asked() },
        CreateRun { lane, ..asked() },
    ] {
        let refused = once(&bed, other.clone(), "k").await.unwrap_err();
        let CreateRunError::KeyTaken { key, run_id } = &refused else { panic!("{other:?}: {refused}") };
        assert_eq!((key.as_str(), run_id), ("k", &first.record.run_id));
        assert!(refused.to_string().contains("`k`"), "{refused}");
    }
    let turned = CreateRun { metadata: json!({ "b": [{ "d": 3, "c": 2 }], "a": 1 }), ..asked() };
    assert!(once(&bed, turned, "k").await.unwrap().existing, "the order of members says nothing");
    bed.idle().await;
    assert_eq!(gate.executed(), 1);
}

#[tokio::test]
async fn a_key_is_its_principals_alone() {
    let gate = Gate::open();
    let bed = bed([gate.agent("a", Concurrency::Queue)]);
    let mut runs = Vec::new();
    for principal in [None, Some("ann"), Some("bob")] {
        let create = CreateRun { principal: principal.map(str::to_owned), ..ask("a", "Hello", "") };
        let started = once(&bed, create.clone(), "k").await.unwrap();
        assert!(!started.existing);
        assert_eq!(once(&bed, create, "k").await.unwrap().record.run_id, started.record.run_id);
        bed.ended(&started.record.run_id).await;
        runs.push(started.record.run_id);
    }
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 3);
}

/// The key is looked at before the session: so nothing is refused as busy, and nothing is superseded, by its own repetition.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_requests_at_once_one_is_executed_whatever_the_agents_concurrency() {
    for concurrency in [Concurrency::Queue, Concurrency::Refuse, Concurrency::Supersede, Concurrency::Parallel] {
        let gate = Gate::closed();
        let bed = Arc::new(bed([gate.agent("a", concurrency)]));
        for round in 0..10 {
            let requests = (0..8).map(|_| {
                let bed = bed.clone();
                tokio::spawn(async move { once(&bed, ask("a", "Hello", "s"), &format!("k{round}")).await })
            });
            let mut started = Vec::new();
            for request in requests.collect::<Vec<_>>() {
                started.push(patiently(request).await.unwrap().unwrap_or_else(|e| panic!("{concurrency:?}: {e}")));
            }
            let run_id = &started[0].record.run_id;
            assert!(started.iter().all(|other| other.record.run_id == *run_id));
            assert_eq!(started.iter().filter(|one| !one.existing).count(), 1);
            bed.reaches(run_id, RunStatus::Running).await;
            let again = once(&bed, ask("a", "Hello", "s"), &format!("k{round}")).await.unwrap();
            assert_eq!((again.existing, again.record.status.as_str()), (true, "running"), "{concurrency:?}");
            gate.permits.add_permits(1);
            assert_eq!(bed.ended(run_id).await.ending(), "completed", "{concurrency:?}");
            bed.idle().await;
            assert_eq!(gate.executed(), round + 1);
        }
    }
}

#[tokio::test]
async fn a_refused_request_leaves_its_key_free_and_no_limit_refuses_one_that_was_made() {
    let gate = Gate::closed();
    let lanes = BTreeMap::from([("default".to_owned(), LaneOptions { limit: Some(1), max_queued: Some(0) })]);
    let bed = bed_on([gate.agent("a", Concurrency::Refuse)], EngineOptions { lanes, ..EngineOptions::default() });
    let first = once(&bed, ask("a", "Hello", "s"), "k1").await.unwrap().record.run_id;
    bed.reaches(&first, RunStatus::Running).await;
    let full = once(&bed, ask("a", "Hello", "t"), "k2").await.unwrap_err();
    assert!(matches!(full, CreateRunError::LaneFull { .. }), "{full}");
    let busy = once(&bed, ask("a", "Hello", "s"), "k3").await.unwrap_err();
    assert!(matches!(busy, CreateRunError::SessionBusy { .. }), "{busy}");
    let unknown = once(&bed, ask("nobody", "Hello", "s"), "k4").await.unwrap_err();
    assert!(matches!(unknown, CreateRunError::UnknownAgent { .. }), "{unknown}");
    let lane = CreateRun { lane: Some("none".to_owned()), ..ask("a", "Hello", "s") };
    let unknown = once(&bed, lane, "k5").await.unwrap_err();
    assert!(matches!(unknown, CreateRunError::UnknownLane { .. }), "{unknown}");
    let again = once(&bed, ask("a", "Hello", "s"), "k1").await.unwrap();
    assert_eq!((again.existing, &again.record.run_id), (true, &first));

    gate.permits.add_permits(1);
    bed.ended(&first).await;
    bed.idle().await;
    gate.permits.add_permits(4);
    for key in ["k2", "k3", "k4", "k5"] {
        // Not even for the same request.
        let started = once(&bed, ask("a", "Something else", key), key).await.unwrap();
        assert!(!started.existing, "{key}");
        bed.ended(&started.record.run_id).await;
        bed.idle().await;
    }
    assert_eq!(gate.executed(), 5);
}

#[tokio::test]
async fn a_key_holds_after_a_restart_also_when_its_agent_is_not_configured_any_more() {
    let gate = Gate::open();
    let bed = bed([gate.agent("a", Concurrency::Queue)]);
    let first = once(&bed, ask("a", "Hello", ""), "k").await.unwrap().record.run_id;
    bed.ended(&first).await;
    for agents in [vec![gate.agent("a", Concurrency::Queue)], vec![]] {
        let next = Engine::new(bed.store.clone(), agents, EngineOptions::default());
        next.recover().await.unwrap();
        let again = next.create_run_once(ask("a", "Hello", ""), key("k")).await.unwrap();
        assert_eq!((again.existing, &again.record.run_id), (true, &first));
        let other = next.create_run_once(ask("a", "Hello!", ""), key("k")).await.unwrap_err();
        assert!(matches!(other, CreateRunError::KeyTaken { .. }), "{other}");
    }
    assert_eq!(gate.executed(), 1);
}

#[tokio::test]
async fn an_answer_without_ids_of_its_own_is_given_once() {
    let bed = bed([asking(Concurrency::Queue)]);
    let question = request("asking", without_ids(input("t", "")));
    let run_id = once(&bed, question.clone(), "question").await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let answer = || request("asking", without_ids(answers("t", "", &["i1"])));
    let first = once(&bed, answer(), "answer").await.unwrap();
    assert_eq!((first.existing, &first.record.run_id), (false, &run_id));
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    let again = once(&bed, answer(), "answer").await.unwrap();
    assert_eq!((again.existing, &again.record.run_id, &again.exchange_id), (true, &run_id, &first.exchange_id));
    assert!(once(&bed, question, "question").await.unwrap().existing);
    let without = bed.create(answer()).await.unwrap_err();
    assert!(matches!(without, CreateRunError::AlreadyResolved { .. }), "without the key it comes too late: {without}");
    let other = once(&bed, answer(), "question").await.unwrap_err();
    assert!(matches!(other, CreateRunError::KeyTaken { .. }), "{other}");
}

#[tokio::test]
async fn an_answer_that_was_taken_when_the_server_died_goes_on_when_its_key_is_repeated() {
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
    let answer = || request("asking", without_ids(answers("t", "", &["i1"])));
    once(&bed, answer(), "k").await.unwrap();
    let next = Engine::new(bed.store.clone(), [asking(Concurrency::Queue)], EngineOptions::default());
    assert_eq!(next.recover().await.unwrap(), [(run_id.clone(), Recovered::Suspended)]);
    let again = next.create_run_once(answer(), key("k")).await.unwrap();
    assert_eq!(again.record.run_id, run_id);
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert!(next.create_run_once(answer(), key("k")).await.unwrap().existing);
}

/// What answers nothing supersedes a run that waits. The request that made the run does not, when it comes again.
#[tokio::test]
async fn a_repeated_request_does_not_supersede_the_run_that_it_made_while_that_waits() {
    let bed = bed([asking(Concurrency::Supersede)]);
    let keyed = request("asking", without_ids(input("t1", "")));
    let by_ids = request("asking", input("t2", "r"));
    let waits = |started: &Started| started.record.run_id.clone();
    let first = waits(&once(&bed, keyed.clone(), "k").await.unwrap());
    let second = waits(&bed.create(by_ids.clone()).await.unwrap());
    for run_id in [&first, &second] {
        bed.reaches(run_id, RunStatus::Suspended).await;
    }
    let again = once(&bed, keyed, "k").await.unwrap();
    assert_eq!((again.existing, waits(&again)), (true, first.clone()));
    let again = bed.create(by_ids).await.unwrap();
    assert_eq!((again.existing, waits(&again)), (true, second.clone()));
    for run_id in [&first, &second] {
        assert_eq!(bed.record(run_id).await.status, "suspended");
    }
    // Another one does.
    let third = bed.create(request("asking", input("t2", "r3"))).await.unwrap();
    assert_eq!(bed.ended(&second).await.ending(), "cancelled");
    bed.reaches(&third.record.run_id, RunStatus::Suspended).await;
}

#[tokio::test]
async fn an_input_that_answers_nothing_is_asked_again_once() {
    let bed = bed([asking(Concurrency::Queue)]);
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let first = once(&bed, request("asking", without_ids(input("t", ""))), "k").await.unwrap();
    assert_eq!(first.record.run_id, run_id);
    let head = bed.record(&run_id).await.head;
    let again = once(&bed, request("asking", without_ids(input("t", ""))), "k").await.unwrap();
    assert_eq!((again.existing, &again.exchange_id), (true, &first.exchange_id));
    assert_eq!(bed.record(&run_id).await.head, head, "and nothing is written");
}

#[tokio::test]
async fn a_key_that_comes_to_an_exchange_which_was_there_names_it_from_then_on() {
    let gate = Gate::open();
    let bed = bed([gate.agent("a", Concurrency::Queue)]);
    let run_id = bed.create(request("a", input("t", "r1"))).await.unwrap().record.run_id;
    bed.ended(&run_id).await;
    let first = once(&bed, request("a", input("t", "r1")), "k").await.unwrap();
    assert_eq!((first.existing, &first.record.run_id), (true, &run_id));
    let other = once(&bed, request("a", input("t", "r2")), "k").await.unwrap_err();
    assert!(matches!(&other, CreateRunError::KeyTaken { run_id: by, .. } if *by == run_id), "{other}");
    assert_eq!(gate.executed(), 1);
}

#[tokio::test]
async fn what_a_key_made_is_not_run_again_when_retention_removed_it() {
    let gate = Gate::open();
    let bed = bed([gate.agent("a", Concurrency::Queue)]);
    let run_id = once(&bed, ask("a", "Hello", ""), "k").await.unwrap().record.run_id;
    bed.ended(&run_id).await;
    bed.idle().await;
    assert_eq!(bed.store.remove_runs(std::slice::from_ref(&run_id), 5).await.unwrap(), 1);
    for what in ["Hello", "Something else"] {
        let gone = once(&bed, ask("a", what, ""), "k").await.unwrap_err();
        assert!(matches!(&gone, CreateRunError::Removed(tombstone) if tombstone.run_id == run_id), "{gone}");
    }
    assert_eq!(gate.executed(), 1);
}
