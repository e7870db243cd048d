//! The state machine as a law: whatever is created, stopped and answered in whichever order, and whenever the server dies,
//! every log is legal, as frames and as AG-UI, and every run ends or waits for an answer.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::collections::BTreeMap;
use std::time::Duration;

use fixture::{
    agent, answers, completed, ended, input, overloaded, patiently, request, retried_after, so_far, suspended,
};
use proptest::prelude::*;
use runwire_bridge::{Ending, Failure, Opening};
use runwire_engine::{Agent, Concurrency, CreateRunError, Engine, EngineOptions, LaneOptions};
use runwire_frame::{ErrorCode, RunStatus};
use runwire_store::{RunFilter, RunRecord, Store, StoreOptions};

/// What a run's driver does, as the name of its exchange says it.
const DRIVERS: [&str; 7] = ["completes", "fails", "recovers", "refuses", "asks", "panics", "hangs"];

#[derive(Clone, Debug)]
enum Step {
    /// A run in one of three sessions, of an agent that has runs wait, supersede each other, or go on beside each other.
    Create { session: usize, agent: usize, driver: usize },
    /// Stops one of the runs that there are.
    Cancel(usize),
    /// Answers what the session waits for.
    Answer { session: usize, agent: usize, driver: usize },
    /// Lets the tasks of the engine go on for a while.
    Moment(u64),
    /// The engine is gone without a word, and another starts on the store.
    Crash,
    /// The engine is shut down, and another starts.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3usize, 0..3usize, 0..DRIVERS.len()).prop_map(|(session, agent, driver)| Step::Create { session, agent, driver }),
        3 => (0..20usize).prop_map(Step::Cancel),
        3 => (0..3usize, 0..3usize, 0..DRIVERS.len()).prop_map(|(session, agent, driver)| Step::Answer { session, agent, driver }),
        4 => (0..200u64).prop_map(Step::Moment),
        1 => Just(Step::Crash),
        1 => Just(Step::Restart),
    ]
}

fn driven(id: &str, concurrency: Concurrency) -> Agent {
    let driven = agent(id, |exchange, starting| async move {
        let what = exchange.input.run_id.split('-').next().unwrap_or_default().to_owned();
        let writer = starting.begin(None);
        let _step = writer.step(Opening::named("work")).await?;
        let message = writer.message(Opening::default()).await?;
        message.text("Half").await?;
        message.text(" of it").await?;
        match what.as_str() {
            "fails" => return Err(overloaded()),
            "recovers" if exchange.attempt < 3 => return Err(overloaded()),
            "refuses" => return Err(Failure::new(ErrorCode::AuthFailed, "the key is wrong")),
            "asks" => return Ok(suspended(&["i1"])),
            "panics" => panic!("no agent today"),
            "hangs" => std::future::pending().await,
            _ => {}
        }
        message.end(Ending::completed()).await?;
        Ok(completed())
    });
    let mut agent = retried_after(Duration::ZERO, 3, driven);
    agent.policy.concurrency = concurrency;
    agent
}

const AGENTS: [(&str, Concurrency); 3] =
    [("queue", Concurrency::Queue), ("supersede", Concurrency::Supersede), ("parallel", Concurrency::Parallel)];

/// One server after another on one store.
struct World {
    dir: tempfile::TempDir,
    runtime: Option<tokio::runtime::Runtime>,
    store: Store,
    engine: Engine,
    exchanges: usize,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, store, engine) = World::server(&dir);
        World { dir, runtime: Some(runtime), store, engine, exchanges: 0 }
    }

    fn server(dir: &tempfile::TempDir) -> (tokio::runtime::Runtime, Store, Engine) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = Store::open(&dir.path().join("runwire.db"), StoreOptions::default()).unwrap();
        let lanes = BTreeMap::from([("default".to_owned(), LaneOptions { limit: Some(4), max_queued: None })]);
        let options = EngineOptions { cancel_grace: Duration::from_millis(1), lanes, ..EngineOptions::default() };
        let agents = AGENTS.map(|(id, concurrency)| driven(id, concurrency));
        let engine = Engine::new(store.clone(), agents, options);
        runtime.block_on(engine.recover()).unwrap();
        (runtime, store, engine)
    }

    fn on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(patiently(work))
    }

    fn crash(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
        self.store.close();
        let (runtime, store, engine) = World::server(&self.dir);
        (self.runtime, self.store, self.engine) = (Some(runtime), store, engine);
    }

    fn runs(&self) -> Vec<RunRecord> {
        self.on(self.store.runs(RunFilter { limit: 1000, ..RunFilter::default() })).unwrap()
    }

    fn take(&mut self, step: &Step) {
        self.exchanges += 1;
        let exchange = |driver: usize| format!("{}-{}", DRIVERS[driver], self.exchanges);
        let create = match *step {
            Step::Create { session, agent, driver } => {
                request(AGENTS[agent].0, input(&format!("s{session}"), &exchange(driver)))
            }
            Step::Answer { session, agent, driver } => {
                request(AGENTS[agent].0, answers(&format!("s{session}"), &exchange(driver), &["i1"]))
            }
            Step::Cancel(which) => {
                let runs = self.runs();
                if !runs.is_empty() {
                    self.on(self.engine.cancel(&runs[which % runs.len()].run_id)).unwrap();
                }
                return;
            }
            Step::Moment(long) => return self.on(fixture::moment(long)),
            Step::Crash => return self.crash(),
            Step::Restart => {
                self.on(self.engine.shutdown(Duration::ZERO));
                return self.crash();
            }
        };
        match self.on(self.engine.create_run(create)) {
            // A second answer to what was answered is refused; nothing else is.
            Ok(_) | Err(CreateRunError::AlreadyResolved { .. }) => {}
            Err(error) => panic!("{step:?}: {error}"),
        }
    }

    /// Stops what would go on for ever, and waits for the rest.
    fn settle(&self) {
        self.on(async {
            loop {
                // What was answered and has not gone on yet still looks as if it waited.
                let mut open = self.engine.active_runs() + self.engine.queued_runs() > 0;
                let runs = self.store.runs(RunFilter { limit: 1000, ..RunFilter::default() }).await.unwrap();
                for run in runs {
                    let goes_on = run.ended_at.is_none() && run.status != RunStatus::Suspended.as_str();
                    open |= goes_on;
                    if goes_on && so_far(&self.store, &run.run_id).await.dump().contains("\"runId\":\"hangs-") {
                        self.engine.cancel(&run.run_id).await.unwrap();
                    }
                }
                if !open {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    }

    fn check(&self) {
        for run in self.runs() {
            let log = if run.ended_at.is_some() {
                self.on(ended(&self.store, &run.run_id))
            } else {
                assert_eq!(run.status, "suspended", "it ends, or waits for an answer");
                self.on(so_far(&self.store, &run.run_id))
            };
            let statuses = log.statuses();
            let mut before = RunStatus::Queued;
            for status in statuses {
                assert!(before.may_become(status), "{before} to {status}\n{}", log.dump());
                before = status;
            }
            assert!(run.attempt <= 3, "{}", log.dump());
        }
        assert_eq!(self.engine.queued_runs(), 0, "nobody is left waiting for a turn");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_every_log_is_legal_and_every_run_ends_or_waits_for_an_answer(
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.settle();
        world.check();
    }
}
