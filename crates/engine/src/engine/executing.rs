//! Handing a run to the task that executes it, and what becomes of one whose log could not be written.

use std::sync::Arc;

use runwire_agui::RunAgentInput;
use runwire_frame::Timestamp;
use runwire_store::{AppendError, RunRecord};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{Continued, Engine, Ready, Unneeded};
use crate::answers::{LeftOut, asked};
use crate::asking::Asking;
use crate::driver::{Agent, Exchange};
use crate::execution::Execution;
use crate::guardrails::Guards;
use crate::in_hand::Hold;
use crate::lane_slot::LaneSlot;
use crate::limits::Budget;
use crate::prompted::WithoutItsHistory;
use crate::recovery::{RecoverError, Recovered, TakeOver, read_log, recorded_results, take_over_patiently};
use crate::request::CreateRunError;
use crate::run_core::{Bounds, Identity, RunCore};
use crate::turns::{Concurrency, Turn};
use crate::writer::WriteError;

/// An execution whose run is in hand for as long as its task lives: also if it should panic, which leaves the run to
/// [`Engine::watch_for_orphans`].
struct InHand<'a> {
    engine: &'a Engine,
    execution: Execution,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let core = &self.execution.core;
        self.engine.inner.runs.forget(&self.execution.run_id, core);
        core.family().end();
        core.slot().retire();
    }
}

impl Engine {
    pub(super) fn start(
        &self,
        agent: Agent,
        record: &RunRecord,
        input: RunAgentInput,
        continued: Continued,
        ready: Ready,
    ) {
        let Ready { appender, hold, turn: Turn { slot, place } } = ready;
        let Continued { state, resumed, interrupts, calls, results, left_out, resolved_by, next_at } = continued;
        let identity = Identity {
            run_id: record.run_id.clone(),
            agent_id: agent.id.clone(),
            agent_revision_id: agent.revision.clone(),
            session_id: record.session_id.clone(),
            lane: record.lane.clone(),
            trigger_kind: record.trigger_kind.clone(),
            resolved_by,
        };
        let input = Arc::new(input);
        let stop = CancellationToken::new();
        let bounds = Bounds {
            budget: Arc::new(Budget::new(agent.policy.limits.clone(), self.inner.options.prices.clone())),
            guards: Arc::new(Guards::new(agent.policy.guardrails.clone())),
            asking: Asking {
                answer_within: agent.policy.waiting.answer_within,
                judged_elsewhere: agent.driver.judges_answers(),
            },
            slot: LaneSlot::new(self.inner.turns.clone(), record.lane.clone(), slot),
            engine: self.downgrade(),
            payloads: Arc::new(agent.policy.payloads.clone()),
        };
        let core = RunCore::new(identity, input.clone(), left_out, state, appender, bounds, stop.clone());
        let run_id = record.run_id.clone();
        hold.execute(core.clone(), stop.clone());
        let attempt = core.attempt();
        let execution = Execution {
            core,
            store: self.inner.store.clone(),
            runs: self.inner.runs.clone(),
            run_id: run_id.clone(),
            driver: agent.driver,
            retry: agent.policy.retry,
            next_at,
            _place: place,
            exchange: Exchange { run_id: run_id.clone(), input, resumed, attempt, interrupts, calls, results, stop },
            names_restored: false,
            told_names: None,
            grace: self.inner.options.cancel_grace,
            closing: self.inner.closing.clone(),
            abandon: self.inner.abandon.clone(),
        };
        let engine = self.clone();
        self.inner.runtime.get_or_init(Handle::current);
        self.inner.tasks.spawn(async move {
            let mut execution = InHand { engine: &engine, execution };
            let ended = execution.execution.run().await;
            let Err(WriteError::Store(error)) = ended else { return };
            match error {
                // Whoever took the run over brings it to its end.
                AppendError::Fenced | AppendError::Ended => {
                    tracing::error!(%run_id, %error, "the run is not this server's any more");
                }
                error => {
                    let hold = engine.inner.runs.hold_unfinished(&run_id, &execution.execution.core);
                    drop(execution);
                    tracing::error!(%run_id, %error, "the run's log could not be written to its end");
                    let why = format!("the run's log could not be written: {}", error.reason());
                    engine.clone().end_patiently(run_id, why, hold).await;
                }
            }
        });
    }

    /// Executes a run from where its log stands: one that has not begun, or that waits for its next attempt.
    ///
    /// When the store cannot be read or written now the run stays as it is, for the next look at runs that nobody has in
    /// hand.
    pub(super) async fn go_on(&self, run_id: String, hold: Hold, turn: Option<Turn>) {
        if self.inner.closing.is_cancelled() {
            return self.let_go_and_log(&run_id, hold).await;
        }
        let mut hold = Some(hold);
        if let Err(error) = self.try_go_on(&run_id, &mut hold, turn).await {
            tracing::warn!(%run_id, %error, "the run cannot go on yet");
        }
        if let Some(hold) = hold {
            self.let_go_and_log(&run_id, hold).await;
        }
    }

    /// The hold is taken when the run is handed to its task, and left otherwise.
    async fn try_go_on(&self, run_id: &str, hold: &mut Option<Hold>, turn: Option<Turn>) -> Result<(), CreateRunError> {
        let stands = self.stands(run_id).await.map_err(|e| CreateRunError::Log(e.to_string()));
        let Some((mut agent, record, mut input, continued)) = stands? else { return Ok(()) };
        let turn = turn.unwrap_or_else(|| self.turn_of_older(&agent, &record));
        // What begins again, after an attempt or an answer, has its input in its log.
        if record.head == 0 && !self.ready(&mut agent, &record, &mut input).await? {
            return Ok(());
        }
        let appender = self.inner.store.take_ownership(run_id).await?;
        if let Some(hold) = hold.take() {
            self.start(agent, &record, input, continued, Ready { appender, hold, turn });
        }
        Ok(())
    }

    /// Readies a run that begins for what has become of its session meanwhile: it gives way to a question, and a prompt is
    /// given what was said. `false` when the server goes; the run is the next one's.
    async fn ready(
        &self,
        agent: &mut Agent,
        record: &RunRecord,
        input: &mut RunAgentInput,
    ) -> Result<bool, CreateRunError> {
        if let Some(waiting) = self.waits_before(agent, record).await? {
            if agent.policy.concurrency != Concurrency::Supersede {
                agent.driver = Arc::new(self.gives_way(&waiting).await?);
                return Ok(true);
            }
            self.cancel(&waiting.run_id).await.map_err(|e| CreateRunError::Log(e.to_string()))?;
        }
        let given = tokio::select! {
            biased;
            () = self.inner.closing.cancelled() => return Ok(false),
            given = self.add_history(record, agent.policy.prompt_history, input) => given?,
        };
        if let Err(why) = given {
            agent.driver = Arc::new(WithoutItsHistory(why));
        }
        Ok(true)
    }

    /// The same as [`Engine::let_go`] where nobody waits who could be told of a failure.
    pub(super) async fn let_go_and_log(&self, run_id: &str, hold: Hold) {
        if let Err(error) = self.let_go(run_id, hold).await {
            tracing::warn!(%run_id, %error, "the run was asked to stop and could not be stopped");
        }
    }

    /// Where a run stands that has not begun, or waits for its next attempt; `None` for any other, and for one that
    /// cannot be executed and was ended for it.
    async fn stands(&self, run_id: &str) -> Result<Option<(Agent, RunRecord, RunAgentInput, Continued)>, RecoverError> {
        let store = &self.inner.store;
        let Some(record) = store.run(run_id).await? else { return Ok(None) };
        if record.ended_at.is_some() {
            return Ok(None);
        }
        let agent = self.inner.agents.get(&record.agent_id).cloned();
        let (continued, input) = if record.head == 0 {
            (None, store.input(run_id).await?)
        } else {
            let log = read_log(store, run_id).await?;
            if !log.state.between_attempts() {
                return Ok(None);
            }
            let noted = store.wakes_at(run_id).await?.map(Timestamp::from_unix_millis);
            let retry = agent.as_ref().map(|agent| &agent.policy.retry);
            let next_at = retry.map(|retry| retry.resumed_at(log.state.attempt(), log.state.last_ts(), noted));
            let interrupts = log.suspend.as_ref().filter(|_| log.resumed).map(asked).unwrap_or_default();
            let results = recorded_results(store, run_id, &log.results).await?;
            let continued = Continued {
                state: log.state,
                resumed: log.resumed,
                interrupts,
                calls: log.calls,
                results,
                left_out: LeftOut::default(),
                resolved_by: None,
                next_at,
            };
            (Some(continued), log.input)
        };
        let input = serde_json::from_value(input.unwrap_or_default());
        let why = match (agent, input) {
            (Some(agent), Ok(mut input)) => {
                let continued = continued.unwrap_or_else(|| Continued::new(run_id, &mut input));
                return Ok(Some((agent, record, input, continued)));
            }
            (None, _) => format!("its agent `{}` is not configured here any more", record.agent_id),
            (_, Err(error)) => format!("its input cannot be read back: {error}"),
        };
        let failed =
            TakeOver { why: &why, retry: None, requeue: false, asked_to_stop: &|| false, pricing: self.pricing() };
        failed.of(store, &record).await?;
        Ok(None)
    }

    /// Brings a run to its end that could not be written, or to its next attempt, as soon as the store takes it, or the
    /// engine is shut down.
    ///
    /// It stays in hand meanwhile, so that a stop that is asked for then is not lost.
    pub(super) async fn end_patiently(self, run_id: String, why: String, hold: Option<Hold>) {
        let hold = match hold {
            Some(hold) => Some(hold),
            None => self.inner.runs.hold_in_turn(&run_id).await,
        };
        let Some(hold) = hold else { return };
        let agent_id = match self.inner.store.run(&run_id).await {
            Ok(Some(record)) => Some(record.agent_id),
            // The policy is no reason to try for; without it the run fails.
            Ok(None) | Err(_) => None,
        };
        let retry = agent_id.and_then(|id| self.inner.agents.get(&id)).map(|agent| &agent.policy.retry);
        let asked_to_stop = || hold.asked_to_stop();
        let how = TakeOver { why: &why, retry, requeue: false, asked_to_stop: &asked_to_stop, pricing: self.pricing() };
        let taken = tokio::select! {
            taken = take_over_patiently(&self.inner.store, &run_id, &how) => taken,
            () = self.inner.abandon.cancelled() => None,
        };
        match taken {
            Some(Recovered::Failed | Recovered::Cancelled) => {
                self.stop_children(&run_id, Unneeded::All, Vec::new()).await;
            }
            Some(Recovered::Retrying) => self.stop_children(&run_id, Unneeded::Unkeyed, Vec::new()).await,
            _ => {}
        }
        if taken == Some(Recovered::Retrying) {
            self.go_on(run_id, hold, None).await;
        } else {
            // A run that waits for an answer may have been asked to stop while its log could not be written.
            self.let_go_and_log(&run_id, hold).await;
        }
    }
}
