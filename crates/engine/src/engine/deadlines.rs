//! What is done when a run has waited for long enough.
//!
//! A suspended run holds no task. One task of the engine looks at the store: the store knows when a run is due, and the
//! run's log whether it really is. It looks by the wall clock every second, so that a clock that is set is noticed, and so
//! is a deadline that passed while no server was there.

use std::time::Duration;

use runwire_agui::{ResumeEntry, ResumeStatus};
use runwire_bridge::{Failure, Recorder};
use runwire_frame::{ErrorCode, RunStatus};
use runwire_store::{ReadError, RunRecord};
use serde_json::Value;
use uuid::Uuid;

use super::{Engine, Ready, Unneeded};
use crate::answer_schema::misfit;
use crate::answers::asked;
use crate::asking::{OnDeadline, deadline};
use crate::clock::now;
use crate::driver::Agent;
use crate::recovery::{RecoverError, append};
use crate::request::CreateRunError;

/// Who resolved a run whose deadline passed, as `resume.resolved_by` says it.
pub const DEADLINE: &str = "deadline";

/// How often is looked.
const EVERY: Duration = Duration::from_secs(1);
/// How many runs are looked for at once. What is beyond them is found by the next look, at once.
const AT_ONCE: usize = 64;
/// After how long a run is looked at again that could not be resolved.
const AGAIN_MILLIS: i64 = 60_000;

/// A deadline could not be acted on.
#[derive(Debug, thiserror::Error)]
enum DeadlineError {
    #[error(transparent)]
    Continue(#[from] CreateRunError),
    #[error(transparent)]
    End(#[from] RecoverError),
}

impl From<ReadError> for DeadlineError {
    fn from(error: ReadError) -> DeadlineError {
        DeadlineError::End(error.into())
    }
}

/// What is done about what a run asked.
enum Verdict {
    Answers(Box<(Agent, Vec<ResumeEntry>)>),
    Fails(String),
}

impl Engine {
    /// Looks every second for runs whose deadline passed, in a task that ends when the engine is shut down. To be called
    /// once, after [`Engine::recover`].
    pub fn watch_deadlines(&self) {
        let engine = self.clone();
        self.spawn_until_closing(async move {
            loop {
                match engine.resolve_due().await {
                    Ok(AT_ONCE) => tokio::task::yield_now().await,
                    Ok(_) => tokio::time::sleep(EVERY).await,
                    Err(error) => {
                        tracing::warn!(%error, "the runs whose deadline passed could not be looked for");
                        tokio::time::sleep(EVERY).await;
                    }
                }
            }
        });
    }

    /// Acts on the deadlines that have passed, of a few runs. Says how many it dealt with.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn resolve_due(&self) -> Result<usize, ReadError> {
        let mut dealt_with = 0;
        for record in self.inner.store.due(now().unix_millis(), AT_ONCE).await? {
            let _underway = self.inner.tasks.token();
            if self.inner.closing.is_cancelled() {
                break;
            }
            // A task of its own, so that a shutdown does not tear it in two.
            let engine = self.clone();
            let run_id = record.run_id.clone();
            let head = record.head;
            match self.inner.tasks.spawn(async move { engine.resolve(record).await }).await {
                Ok(Ok(true)) => dealt_with += 1,
                // Somebody has it in hand at this moment.
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%run_id, %error, "the run's deadline passed and could not be acted on yet");
                    let later = now().unix_millis().saturating_add(AGAIN_MILLIS);
                    self.inner.store.put_off(&run_id, head, Some(later)).await?;
                }
                Err(panicked) => tracing::error!(%run_id, %panicked, "the run's deadline could not be acted on"),
            }
        }
        Ok(dealt_with)
    }

    /// Does what the agent's rule says, if the log says that the deadline passed. `false` when the run is in other hands.
    async fn resolve(&self, record: RunRecord) -> Result<bool, DeadlineError> {
        let Ok(hold) = self.inner.runs.hold(&record.run_id) else { return Ok(false) };
        let run_id = record.run_id.clone();
        let log = match self.read_settled(&run_id).await {
            Ok(log) => log,
            Err(error) => {
                self.let_go(&run_id, hold).await?;
                return Err(error.into());
            }
        };
        let store = &self.inner.store;
        let head = log.state.head();
        let suspend = log.suspend.as_ref().filter(|_| log.state.status() == RunStatus::Suspended);
        let until = suspend.and_then(deadline);
        let (Some(suspend), Some(until)) = (suspend, until) else {
            store.put_off(&run_id, head, None).await?;
            self.let_go(&run_id, hold).await?;
            return Ok(true);
        };
        if until > now() {
            store.put_off(&run_id, head, Some(until.unix_millis())).await?;
            self.let_go(&run_id, hold).await?;
            return Ok(true);
        }
        let interrupts = asked(suspend);
        match self.verdict(&record, &interrupts, &until.to_string()) {
            Verdict::Answers(verdict) => {
                let (agent, answers) = *verdict;
                tracing::info!(%run_id, deadline = %until, "nobody answered in time; the run goes on without");
                let exchange_id = format!("exchange_{}", Uuid::now_v7().simple());
                let by = Some(DEADLINE.to_owned());
                match self.continue_with(&record, log, interrupts, answers, exchange_id, by).await {
                    Ok((continued, input, appender)) => {
                        let turn = self.turn_of_older(&agent, &record);
                        self.start(agent, &record, input, continued, Ready { appender, hold, turn });
                    }
                    Err(error) => {
                        self.let_go(&run_id, hold).await?;
                        return Err(error.into());
                    }
                }
            }
            Verdict::Fails(why) => {
                tracing::warn!(%run_id, deadline = %until, "nobody answered in time, and the run fails");
                let failed = self.fail_waiting(&run_id, log.state, why).await;
                self.let_go(&run_id, hold).await?;
                failed?;
            }
        }
        Ok(true)
    }

    fn verdict(&self, record: &RunRecord, interrupts: &[runwire_agui::Interrupt], until: &str) -> Verdict {
        let nobody = format!("nobody answered by {until}");
        let Some(agent) = self.inner.agents.get(&record.agent_id) else {
            return Verdict::Fails(format!("{nobody}, and the agent `{}` is not here any more", record.agent_id));
        };
        let rule = &agent.policy.waiting.on_deadline;
        let mut answers = Vec::new();
        for interrupt in interrupts {
            let mut entry = ResumeEntry::new(interrupt.id.clone(), ResumeStatus::Cancelled);
            match rule {
                OnDeadline::Deny => {}
                OnDeadline::Fail => return Verdict::Fails(nobody),
                // An interrupt that has expired can be given up only; but what an agent of this server asks, this server
                // may answer.
                OnDeadline::Answer(_)
                    if agent.driver.judges_answers() && interrupt.has_expired(now().unix_millis()) => {}
                OnDeadline::Answer(value) => {
                    let misfit = interrupt.response_schema.as_ref().and_then(|schema| misfit(schema, value));
                    if let Some((path, expected)) = misfit {
                        return Verdict::Fails(format!(
                            "{nobody}, and the configured `deadline_answer` does not fit what `{}` asks for, at `{path}`: \
                             {expected}",
                            interrupt.id
                        ));
                    }
                    entry.status = ResumeStatus::Resolved;
                    // AG-UI has no null for an answer: one that says nothing.
                    entry.payload = Some(value.clone()).filter(|value| *value != Value::Null);
                }
            }
            answers.push(entry);
        }
        Verdict::Answers(Box::new((agent.clone(), answers)))
    }

    /// Goes on with a run only to end it.
    async fn fail_waiting(
        &self,
        run_id: &str,
        state: runwire_bridge::LogState,
        why: String,
    ) -> Result<(), RecoverError> {
        let mut appender = self.inner.store.take_ownership(run_id).await?;
        let recorder = Recorder::resume(state, now(), Some(DEADLINE.to_owned()), None);
        let failed = recorder.fail(now(), Failure::new(ErrorCode::Timeout, why));
        append(&mut appender, failed).await?;
        self.stop_children(run_id, Unneeded::All, Vec::new()).await;
        Ok(())
    }
}
