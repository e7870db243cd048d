//! Runs that wait for their turn: entering the queue, superseding, and beginning when the turn has come.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use runwire_bridge::{ExchangeEnd, Failure};
use runwire_frame::{NoticeLevel, RunStatus};
use runwire_store::{ExchangeRecord, RunRecord};
use serde_json::{Map, Value};

use super::Engine;
use crate::answers::asked;
use crate::driver::{Agent, Driver, Exchange, Starting};
use crate::in_hand::Hold;
use crate::recovery::read_log;
use crate::request::{CreateRunError, list};
use crate::turns::{Concurrency, Entered, Key, NotEntered, Turn};

/// Executes a run that nothing can be done for, because the one before it waits for an answer.
pub(super) struct GivesWay {
    /// The run that waits.
    to: String,
    /// The interrupts that it waits for.
    open: Vec<String>,
}

impl Driver for GivesWay {
    fn kind(&self) -> &'static str {
        "gives way"
    }

    fn execute(&self, _: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let what = format!(
            "run `{}` of this session waits for {}, which the input does not answer; nothing was done",
            self.to,
            list(&self.open)
        );
        let ids = Map::from_iter([("interruptIds".to_owned(), Value::from(self.open.clone()))]);
        Box::pin(async move {
            let writer = starting.begin(None);
            writer.notice(NoticeLevel::Warning, "interrupts_unanswered", &what, Some(ids)).await?;
            Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None })
        })
    }
}

/// A turn whose task has not begun. When that is dropped the runtime is gone, and passing the turn on would only drop the
/// next task, and so on through all that wait.
struct NotBegun(Option<Turn>);

impl Drop for NotBegun {
    fn drop(&mut self) {
        if let Some(turn) = self.0.take() {
            turn.close();
        }
    }
}

impl Engine {
    /// The run's turn, or its place in the queue.
    pub(super) fn enter(&self, agent: &Agent, run_id: &str, key: &Key, lane: &str) -> Result<Entered, CreateRunError> {
        let turns = &self.inner.turns;
        let mut entered = turns.enter(run_id, key, lane, agent.policy.concurrency);
        if let Err(NotEntered::Busy { run_id: front }) = &entered
            && self.inner.runs.lingering(front).is_some_and(|core| core.is_over())
        {
            // Its end may have been read already, by who asks for the next run because of it.
            entered = turns.enter(run_id, key, lane, Concurrency::Queue);
        }
        entered.map_err(|refused| match refused {
            NotEntered::Busy { run_id } => {
                CreateRunError::SessionBusy { agent_id: agent.id.clone(), run_id: run_id.to_string() }
            }
            NotEntered::Full { max_queued } => CreateRunError::LaneFull { lane: lane.to_owned(), max_queued },
        })
    }

    /// A child's place in its session, which it never waits for. Its slot it waits for like whatever goes on: its parent is
    /// executed already, so it goes before runs that have not begun, and no queue is too full for it.
    pub(super) async fn place_of_child(&self, agent: &Agent, run_id: &str, key: &Key) -> Result<Turn, CreateRunError> {
        let turns = &self.inner.turns;
        loop {
            let given_back = turns.given_back();
            tokio::pin!(given_back);
            // Listening first, so that nothing falls between the look and the wait.
            given_back.as_mut().enable();
            let front = match turns.place_of_child(run_id, key, agent.policy.concurrency) {
                Ok(turn) => return Ok(turn),
                Err(front) => front,
            };
            // The parent may have read its end already, and ask for the next one because of it.
            if self.inner.store.run(&front).await?.is_none_or(|run| run.ended_at.is_none()) {
                return Err(CreateRunError::SessionBusy { agent_id: agent.id.clone(), run_id: front.to_string() });
            }
            given_back.await;
        }
    }

    /// Stops the runs that were before this one in its session.
    pub(super) async fn supersede(&self, run_id: &str, ahead: &[Arc<str>]) {
        for superseded in ahead {
            if let Err(error) = self.stop(superseded).await {
                tracing::warn!(%run_id, %superseded, %error, "a run could not be superseded; the new one waits for it");
            }
        }
    }

    /// The session's turn of a run that has begun before and goes on.
    pub(super) fn turn_of_older(&self, agent: &Agent, record: &RunRecord) -> Turn {
        let key = Key::new(&record.agent_id, &record.session_id);
        self.inner.turns.go_on(&record.run_id, &key, agent.policy.concurrency)
    }

    /// Lets a stored run wait that has not begun: no limit of the queue keeps it out, because it is there.
    pub(super) fn enter_again(&self, agent: &Agent, record: &RunRecord) {
        let key = Key::new(&record.agent_id, &record.session_id);
        let concurrency = match agent.policy.concurrency {
            Concurrency::Parallel => Concurrency::Parallel,
            _ => Concurrency::Queue,
        };
        // It is refused by nobody, so otherwise it waits.
        if let Ok(Entered::Now(turn)) = self.inner.turns.enter_stored(&record.run_id, &key, &record.lane, concurrency) {
            self.clone().begin_in_turn(record.run_id.as_str().into(), turn);
        }
    }

    /// Begins a run that was just created, and has its turn, like one that has waited.
    pub(super) fn begin_stored(&self, run_id: String, hold: Hold, turn: Turn) {
        let (engine, mut turn) = (self.clone(), NotBegun(Some(turn)));
        self.inner.tasks.spawn(async move {
            let turn = turn.0.take();
            engine.go_on(run_id, hold, turn).await;
        });
    }

    /// The turn of a run has come that has waited.
    pub(super) fn begin_in_turn(self, run_id: Arc<str>, turn: Turn) {
        let tasks = self.inner.tasks.clone();
        let mut turn = NotBegun(Some(turn));
        tasks.spawn(async move {
            // Who stops it at this moment has it in hand.
            let hold = self.inner.runs.hold_in_turn(&run_id).await;
            self.inner.turns.begun(&run_id);
            let turn = turn.0.take();
            if let Some(hold) = hold {
                self.go_on(run_id.to_string(), hold, turn).await;
            }
        });
    }

    /// A run of the same session and agent that waits for an answer. The one before this may have come to that.
    pub(super) async fn waits_before(
        &self,
        agent: &Agent,
        record: &RunRecord,
    ) -> Result<Option<RunRecord>, CreateRunError> {
        if agent.policy.concurrency == Concurrency::Parallel {
            return Ok(None);
        }
        let session = ExchangeRecord {
            session_id: record.session_id.clone(),
            exchange_id: String::new(),
            input_digest: String::new(),
        };
        self.newest_run(agent, &session, &[RunStatus::Suspended]).await
    }

    /// What executes a run whose turn has come and that finds the one before it waiting for an answer, which its input,
    /// made when nothing was asked yet, cannot have. As an input that came now would, it does nothing; it says so and
    /// ends as stopped.
    pub(super) async fn gives_way(&self, waiting: &RunRecord) -> Result<GivesWay, CreateRunError> {
        let log = read_log(&self.inner.store, &waiting.run_id).await.map_err(|e| CreateRunError::Log(e.to_string()))?;
        let open = log.suspend.iter().flat_map(asked).map(|interrupt| interrupt.id).collect();
        Ok(GivesWay { to: waiting.run_id.clone(), open })
    }
}
