//! Lanes: limits, order, fairness between sessions, and what waits.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::{
    Bed, agent, answers, bed_on, completed, input, overloaded, patiently, request, retried_after, suspended,
};
use runwire_engine::{Agent, CreateRun, CreateRunError, Engine, EngineOptions, LaneOptions, Recovered};
use runwire_frame::RunStatus;
use runwire_store::{Store, StoreOptions};
use tokio::sync::Semaphore;

const LONG: Duration = Duration::from_secs(600);

fn limited(limit: usize, max_queued: Option<usize>) -> EngineOptions {
    let lanes = BTreeMap::from([("default".to_owned(), LaneOptions { limit: Some(limit), max_queued })]);
    EngineOptions { lanes, ..EngineOptions::default() }
}

/// Runs that end when they are let, one for each permit, and what they were asked in the order of their beginning.
#[derive(Clone)]
struct Gate {
    permits: Arc<Semaphore>,
    begun: Arc<Mutex<Vec<String>>>,
    most: Arc<AtomicUsize>,
}

impl Gate {
    fn closed() -> Gate {
        Gate { permits: Arc::new(Semaphore::new(0)), begun: Arc::default(), most: Arc::default() }
    }

    fn agent(&self, id: &str) -> Agent {
        let gate = self.clone();
        let executed = Arc::new(AtomicUsize::new(0));
        agent(id, move |exchange, starting| {
            let (gate, executed) = (gate.clone(), executed.clone());
            async move {
                starting.begin(None);
                gate.begun.lock().unwrap().push(exchange.input.run_id.clone());
                gate.most.fetch_max(executed.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // A run that was stopped takes no permit from the one that is waited for.
                tokio::select! {
                    biased;
                    () = exchange.stop.cancelled() => {}
                    permit = gate.permits.acquire() => permit.unwrap().forget(),
                }
                executed.fetch_sub(1, Ordering::SeqCst);
                Ok(completed())
            }
        })
    }

    fn begun(&self) -> Vec<String> {
        self.begun.lock().unwrap().clone()
    }
}

fn ask(session: &str, exchange: &str) -> CreateRun {
    request("a", input(session, exchange))
}

async fn create_all(bed: &Bed, exchanges: &[&str]) -> Vec<String> {
    let mut runs = Vec::new();
    for exchange in exchanges {
        runs.push(bed.create(ask(&exchange[..1], exchange)).await.unwrap().record.run_id);
    }
    runs
}

#[tokio::test]
async fn a_lane_executes_so_many_at_once_and_the_rest_in_turns_of_their_sessions() {
    let gate = Gate::closed();
    let bed = bed_on([gate.agent("a")], limited(2, None));
    let runs = create_all(&bed, &["x1", "y1", "a1", "a2", "a3", "b1", "c1", "b2"]).await;
    bed.reaches(&runs[1], RunStatus::Running).await;
    assert_eq!(bed.engine.queued_runs(), 6);
    let waiting = bed.record(&runs[7]).await;
    assert_eq!((waiting.status.as_str(), waiting.head), ("queued", 0));
    for _ in 0..runs.len() {
        // One at a time, so that the order of their beginning is that of their turns.
        let begun = gate.begun().len();
        gate.permits.add_permits(1);
        patiently(async {
            while gate.begun().len() < (begun + 1).min(runs.len()) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    for run_id in &runs {
        assert_eq!(bed.ended(run_id).await.ending(), "completed");
    }
    assert_eq!(gate.begun(), ["x1", "y1", "a1", "b1", "c1", "a2", "b2", "a3"]);
    assert_eq!(gate.most.load(Ordering::SeqCst), 2);
    assert_eq!(bed.engine.queued_runs(), 0);
}

#[tokio::test]
async fn a_lane_that_is_full_takes_no_run_and_nothing_is_created() {
    let gate = Gate::closed();
    let bed = bed_on([gate.agent("a")], limited(1, Some(1)));
    let runs = create_all(&bed, &["x1", "y1"]).await;
    let refused = bed.create(ask("z", "z1")).await.unwrap_err();
    assert!(matches!(&refused, CreateRunError::LaneFull { max_queued: 1, .. }), "{refused}");
    assert_eq!(bed.store.session("z").await.unwrap(), None, "nothing was created");
    assert!(bed.create(ask("y", "y1")).await.unwrap().existing, "a request that was made before finds its run");
    gate.permits.add_permits(2);
    for run_id in &runs {
        bed.ended(run_id).await;
    }
    bed.idle().await;
    gate.permits.add_permits(1);
    bed.create(ask("z", "z1")).await.unwrap();
}

#[tokio::test]
async fn a_lane_that_there_is_not_is_refused_with_those_that_there_are() {
    let mut options = limited(1, None);
    options.lanes.insert("slow".to_owned(), LaneOptions::default());
    let gate = Gate::closed();
    let mut slow = gate.agent("slow agent");
    slow.policy.lane = Some("slow".to_owned());
    let bed = bed_on([gate.agent("a"), slow], options);
    let in_lane = |agent: &str, lane: Option<&str>, exchange: &str| CreateRun {
        lane: lane.map(str::to_owned),
        ..request(agent, input(exchange, exchange))
    };
    let refused = bed.create(in_lane("a", Some("fast"), "1")).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no lane `fast` here; there is `default`, `slow`");
    for (agent, asked, lane) in [
        ("a", None, "default"),
        ("a", Some("slow"), "slow"),
        ("slow agent", None, "slow"),
        ("slow agent", Some("default"), "default"),
    ] {
        let record = bed.create(in_lane(agent, asked, &format!("{agent} {asked:?}"))).await.unwrap().record;
        assert_eq!(record.lane, lane, "the request's, or the agent's, or `default`");
    }
}

#[tokio::test]
async fn a_run_that_waits_is_stopped_without_being_executed_and_those_behind_it_move_up() {
    let gate = Gate::closed();
    let bed = bed_on([gate.agent("a")], limited(1, None));
    let runs = create_all(&bed, &["x1", "a1", "a2", "b1"]).await;
    let (first, second) = tokio::join!(bed.engine.cancel(&runs[1]), bed.engine.cancel(&runs[1]));
    assert!([first.unwrap().status, second.unwrap().status].contains(&"cancelled".to_owned()));
    let log = bed.ended(&runs[1]).await;
    assert_eq!(log.last_event()["outcome"]["type"], "cancelled");
    gate.permits.add_permits(3);
    for run_id in &runs {
        bed.ended(run_id).await;
    }
    let mut begun = gate.begun();
    begun.sort();
    assert_eq!(begun, ["a2", "b1", "x1"]);
}

#[tokio::test]
async fn suspended_runs_and_those_between_two_attempts_hold_no_slot_and_go_on_before_new_ones() {
    let gate = Gate::closed();
    let asking = agent("asking", |exchange, _| async move {
        if exchange.resumed { Ok(completed()) } else { Ok(suspended(&["i1"])) }
    });
    let failing = retried_after(LONG, 2, agent("failing", |_, _| async { Err(overloaded()) }));
    let bed = bed_on([gate.agent("a"), asking, failing], limited(1, None));
    let waits = bed.create(request("asking", input("s", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&waits, RunStatus::Suspended).await;
    let retries = bed.create(request("failing", input("t", "t1"))).await.unwrap().record.run_id;
    bed.reaches(&retries, RunStatus::Retrying).await;
    let runs = create_all(&bed, &["x1", "y1"]).await;
    bed.reaches(&runs[0], RunStatus::Running).await;
    // Its answer is taken while the lane is full, and waits in front.
    bed.create(request("asking", answers("s", "r2", &["i1"]))).await.unwrap();
    assert_eq!(bed.record(&waits).await.status, "suspended");
    gate.permits.add_permits(1);
    assert_eq!(bed.ended(&waits).await.ending(), "completed");
    bed.reaches(&runs[1], RunStatus::Running).await;
    bed.engine.cancel(&retries).await.unwrap();
    assert_eq!(bed.ended(&retries).await.ending(), "cancelled");
    gate.permits.add_permits(1);
    bed.ended(&runs[1]).await;
}

#[tokio::test]
async fn an_answer_that_waits_for_its_lane_is_stopped_with_its_run() {
    let gate = Gate::closed();
    let asking = agent("asking", |exchange, _| async move {
        assert!(!exchange.resumed, "it is stopped before");
        Ok(suspended(&["i1"]))
    });
    let bed = bed_on([gate.agent("a"), asking], limited(1, None));
    let waits = bed.create(request("asking", input("s", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&waits, RunStatus::Suspended).await;
    create_all(&bed, &["x1"]).await;
    bed.create(request("asking", answers("s", "r2", &["i1"]))).await.unwrap();
    bed.engine.cancel(&waits).await.unwrap();
    let log = bed.ended(&waits).await;
    assert_eq!(log.ending(), "cancelled");
    gate.permits.add_permits(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_a_waiting_run_that_races_with_its_turn_has_one_outcome() {
    let bed = bed_on([agent("a", |_, _| async { Ok(completed()) })], limited(1, None));
    for number in 0..60 {
        let (first, second) = (format!("x{number}"), format!("y{number}"));
        let first = bed.create(ask(&first, "1")).await.unwrap().record.run_id;
        let second = bed.create(ask(&second, "1")).await.unwrap().record.run_id;
        fixture::moment(number).await;
        let record = bed.engine.cancel(&second).await.unwrap();
        let log = bed.ended(&second).await;
        assert!(["cancelled", "completed"].contains(&log.ending()));
        assert!(record.ended_at.is_none() || record.status == log.ending(), "both sides see the same");
        assert_eq!(bed.ended(&first).await.ending(), "completed");
    }
    bed.idle().await;
    assert_eq!(bed.engine.queued_runs(), 0);
}

#[tokio::test]
async fn what_waited_when_the_server_went_is_executed_by_the_next_in_its_old_order() {
    let gate = Gate::closed();
    let bed = bed_on([gate.agent("a")], limited(1, None));
    let runs = create_all(&bed, &["x1", "a1", "a2", "b1"]).await;
    bed.reaches(&runs[0], RunStatus::Running).await;
    let engine = bed.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown(LONG).await });
    while !matches!(bed.create(request("nobody", input("z", "z1"))).await, Err(CreateRunError::ShuttingDown)) {
        tokio::task::yield_now().await;
    }
    gate.permits.add_permits(1);
    patiently(shutdown).await.unwrap();
    assert_eq!(gate.begun(), ["x1"], "a slot that is free while the server goes is nobody's");

    let next = Gate::closed();
    let engine = Engine::new(bed.store.clone(), [next.agent("a")], limited(1, None));
    let recovered = engine.recover().await.unwrap();
    assert_eq!(recovered, runs[1..].iter().map(|run_id| (run_id.clone(), Recovered::Queued)).collect::<Vec<_>>());
    next.permits.add_permits(3);
    for run_id in &runs[1..] {
        assert_eq!(bed.ended(run_id).await.ending(), "completed");
    }
    assert_eq!(next.begun(), ["a1", "b1", "a2"]);
}

/// How many runs wait where there are very many; a hundred are enough for every lane and session to be full. Ten thousand take a minute or two in a debug build on a busy machine.
fn very_many() -> usize {
    std::env::var("RUNWIRE_QUEUED_RUNS").map_or(1000, |runs| runs.parse().unwrap())
}

/// Three of each session.
async fn create_very_many(engine: &Engine) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..very_many() {
        let create = ask(&format!("session-{}", number / 3), &format!("exchange-{number}"));
        ids.push(engine.create_run(create).await.unwrap().record.run_id);
    }
    ids
}

async fn all_have_ended(store: &Store, ids: &[String]) {
    for run_id in ids {
        patiently(async {
            while store.run(run_id).await.unwrap().unwrap().ended_at.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_queued_runs_are_cheap_and_drain() {
    let gate = Gate::closed();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("runwire.db"), StoreOptions::default()).unwrap();
    let engine = Engine::new(store.clone(), [gate.agent("a")], limited(4, None));
    let ids = create_very_many(&engine).await;
    assert_eq!(engine.queued_runs(), ids.len() - 4);
    assert_eq!(engine.active_runs(), 4, "what waits has no task");
    assert!(store.live_runs() <= 4, "and nothing in the store's memory");
    gate.permits.add_permits(ids.len());
    all_have_ended(&store, &ids).await;
    assert_eq!(gate.most.load(Ordering::SeqCst), 4);
    assert_eq!(engine.queued_runs(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_queued_runs_are_there_after_a_crash_and_drain() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runwire.db");
    let dead = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let before = Store::open(&path, StoreOptions::default()).unwrap();
    let engine = Engine::new(before.clone(), [Gate::closed().agent("a")], limited(4, None));
    let ids = dead.spawn(async move { create_very_many(&engine).await }).await.unwrap();
    // The engine is gone without a word: its tasks are dropped where they are.
    dead.shutdown_background();
    before.close();

    let gate = Gate::closed();
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let engine = Engine::new(store.clone(), [gate.agent("a")], limited(4, None));
    let before = std::time::Instant::now();
    let recovered = engine.recover().await.unwrap();
    println!("{} runs were taken over in {:?}", recovered.len(), before.elapsed());
    let queued = recovered.iter().filter(|(_, what)| *what == Recovered::Queued).count();
    assert!(recovered.len() == ids.len() && queued >= ids.len() - 4, "{queued} of {}", recovered.len());
    assert_eq!(engine.queued_runs(), queued - 4);
    patiently(async {
        while gate.begun().len() < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(engine.active_runs(), 4, "what waits has no task");
    assert!(store.live_runs() <= 4, "and nothing in the store's memory");
    gate.permits.add_permits(ids.len());
    all_have_ended(&store, &ids).await;
    assert_eq!(gate.begun().len(), queued, "each is executed once");
    assert_eq!(gate.most.load(Ordering::SeqCst), 4);
    assert_eq!(engine.queued_runs(), 0);
}
