//! Answers that come without an input: by the run API.

use runwire_agui::{Interrupt, ResumeEntry};
use runwire_frame::{RunStatus, Suspend, SuspendKind, Timestamp};
use runwire_store::{Added, Appender, ExchangeRecord, ReadError, RunRecord};
use uuid::Uuid;

use super::{Continued, Engine, Ready};
use crate::answers::{LeftOut, Resolved, asked, judge, repeated};
use crate::asking::deadline;
use crate::clock::now;
use crate::continuing::next_input;
use crate::in_hand::Hold;
use crate::recovery::{RecoverError, StoredLog, last_suspend};
use crate::request::{CreateRunError, Started};

/// Answers to what a suspended run asked.
#[derive(Clone, Debug)]
pub struct ResumeRun {
    /// The run.
    pub run_id: String,
    /// An entry for each interrupt.
    pub answers: Vec<ResumeEntry>,
    /// The AG-UI id of the exchange that they begin; one is made when it is not given.
    pub exchange_id: Option<String>,
    /// Who answers; `None` on a server without tokens.
    pub principal: Option<String>,
}

/// Why a run was not resumed. Nothing was started, and nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There is no such run.
    #[error("there is no run `{0}`")]
    UnknownRun(String),
    /// It waits for nothing.
    #[error("run `{run_id}` waits for no answer: it is {status}")]
    NotSuspended {
        /// The run.
        run_id: String,
        /// What it is instead, as `run.status` spells it.
        status: String,
    },
    /// Somebody else was quicker.
    #[error(
        "run `{run_id}` was answered before, in another way{}",
        resolved_by.as_ref().map(|who| format!(", by `{who}`")).unwrap_or_default()
    )]
    Answered {
        /// The run.
        run_id: String,
        /// Who it was, as far as the log says.
        resolved_by: Option<String>,
    },
    /// The answers are refused, for the reasons for which those of an input are.
    #[error(transparent)]
    Refused(#[from] CreateRunError),
}

impl From<ReadError> for ResumeError {
    fn from(error: ReadError) -> ResumeError {
        ResumeError::Refused(error.into())
    }
}

/// What a suspended run waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// A yes or no, or a value.
    pub kind: SuspendKind,
    /// What to ask, for a person.
    pub prompt: Option<String>,
    /// When waiting ends.
    pub deadline: Option<Timestamp>,
    /// The interrupts, each of which has to be answered or given up.
    pub interrupts: Vec<Interrupt>,
}

impl Waiting {
    pub(crate) fn of(suspend: Suspend) -> Waiting {
        Waiting {
            kind: suspend.kind,
            deadline: deadline(&suspend),
            interrupts: asked(&suspend),
            prompt: suspend.prompt,
        }
    }
}

/// What became of answers.
enum Taken {
    /// The run goes on with them.
    Continues(Box<(Continued, runwire_agui::RunAgentInput, Appender)>),
    /// They had been accepted before.
    Known(Box<RunRecord>, String),
}

impl Engine {
    /// What a run waits for; `None` for one that is not suspended.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub async fn waits_for(&self, record: &RunRecord) -> Result<Option<Waiting>, RecoverError> {
        if record.status != RunStatus::Suspended.as_str() {
            return Ok(None);
        }
        let suspend = last_suspend(&self.inner.store, record).await?;
        Ok(suspend.map(Waiting::of))
    }

    /// Goes on with a suspended run. The same answers again, after they were accepted, find the run as it is. Entries for
    /// interrupts that the run does not wait for are left out, with a warning in its log.
    ///
    /// # Errors
    /// [`ResumeError`]. Of two who answer at once, one goes on and the other is told. Dropping the future may leave a run
    /// that goes on; the repeated request finds it.
    pub async fn resume(&self, resume: ResumeRun) -> Result<Started, ResumeError> {
        let _underway = self.inner.tasks.token();
        if self.inner.closing.is_cancelled() {
            return Err(CreateRunError::ShuttingDown.into());
        }
        // From here on the work must not be torn in two by a client that leaves.
        let engine = self.clone();
        match self.inner.tasks.spawn(async move { engine.answer(resume).await }).await {
            Ok(started) => started,
            Err(_) => Err(CreateRunError::ShuttingDown.into()),
        }
    }

    async fn answer(&self, resume: ResumeRun) -> Result<Started, ResumeError> {
        let run_id = &resume.run_id;
        let record = self.inner.store.run(run_id).await?;
        let record = record.ok_or_else(|| ResumeError::UnknownRun(run_id.clone()))?;
        if let Some(interrupt_id) = repeated(&resume.answers) {
            return Err(CreateRunError::ResumeRepeated { interrupt_id: interrupt_id.to_owned() }.into());
        }
        let agent = self.inner.agents.get(&record.agent_id).cloned();
        let Some(hold) = self.inner.runs.hold_in_turn(run_id).await else {
            return self.answered_by_now(record, &resume);
        };
        let taken = self.take_answers(&record, &resume).await;
        match (taken, agent) {
            (Ok(Taken::Continues(taken)), Some(agent)) => {
                let (continued, input, appender) = *taken;
                let exchange_id = input.run_id.clone();
                let turn = self.turn_of_older(&agent, &record);
                self.start(agent, &record, input, continued, Ready { appender, hold, turn });
                Ok(Started { record, exchange_id, existing: false })
            }
            (taken, _) => {
                self.let_go(run_id, hold).await?;
                match taken? {
                    Taken::Known(record, exchange_id) => Ok(Started { record: *record, exchange_id, existing: true }),
                    Taken::Continues(_) => unreachable!("answers to a run without an agent were refused"),
                }
            }
        }
    }

    /// Lets a run go that was not gone on with. It may have been asked to stop while it looked as if it would be.
    pub(super) async fn let_go(&self, run_id: &str, hold: Hold) -> Result<(), CreateRunError> {
        if hold.release() {
            self.cancel(run_id).await.map_err(|e| CreateRunError::Log(e.to_string()))?;
        }
        Ok(())
    }

    /// The run is being executed: perhaps with these very answers.
    fn answered_by_now(&self, record: RunRecord, resume: &ResumeRun) -> Result<Started, ResumeError> {
        let executed = self.inner.runs.lingering(&record.run_id);
        let accepted = executed.as_ref().map(|core| Resolved {
            resolved_by: core.resolved_by().map(str::to_owned),
            exchange_id: core.input().run_id.clone(),
            entries: core.input().resume().to_vec(),
        });
        let accepted = accepted.filter(|accepted| accepted.concerns(&resume.answers));
        match accepted {
            Some(accepted) if accepted.is_by(&resume.answers) => {
                Ok(Started { record, exchange_id: accepted.exchange_id, existing: true })
            }
            Some(Resolved { resolved_by, .. }) => Err(ResumeError::Answered { run_id: record.run_id, resolved_by }),
            // The record may be from a moment before it went on.
            None if record.status == RunStatus::Suspended.as_str() => {
                Err(ResumeError::NotSuspended { run_id: record.run_id, status: RunStatus::Running.to_string() })
            }
            None => Err(ResumeError::NotSuspended { run_id: record.run_id, status: record.status }),
        }
    }

    /// Judges answers, and makes this engine the owner of the run that they continue.
    async fn take_answers(&self, record: &RunRecord, resume: &ResumeRun) -> Result<Taken, ResumeError> {
        let store = &self.inner.store;
        let run_id = &record.run_id;
        let log = self.read_settled(run_id).await?;
        let open: Vec<Interrupt> = match &log.suspend {
            Some(suspend) if log.state.status() == RunStatus::Suspended => asked(suspend),
            _ => Vec::new(),
        };
        let names_open = resume.answers.iter().any(|entry| open.iter().any(|open| open.id == entry.interrupt_id));
        if !names_open && let Some(earlier) = log.resolved.iter().rev().find(|r| r.concerns(&resume.answers)) {
            if earlier.is_by(&resume.answers) {
                let record = store.run(run_id).await?.unwrap_or_else(|| record.clone());
                return Ok(Taken::Known(Box::new(record), earlier.exchange_id.clone()));
            }
            return Err(ResumeError::Answered { run_id: run_id.clone(), resolved_by: earlier.resolved_by.clone() });
        }
        if open.is_empty() {
            return Err(ResumeError::NotSuspended { run_id: run_id.clone(), status: log.state.status().to_string() });
        }
        if !self.inner.agents.contains_key(&record.agent_id) {
            let known = crate::request::known_agents(&self.inner.agents);
            return Err(CreateRunError::UnknownAgent { agent_id: record.agent_id.clone(), known }.into());
        }
        let made = || format!("exchange_{}", Uuid::now_v7().simple());
        let exchange_id = resume.exchange_id.clone().unwrap_or_else(made);
        let accepted = match store.run_by_exchange(&record.session_id, &exchange_id).await? {
            None => false,
            Some((known, digest)) => {
                // A server that died between taking the answers and acting on them left the run waiting.
                let again = known.run_id == *run_id
                    && digest == super::answers_digest(run_id, &resume.answers)
                    && !log.exchanges.contains(&exchange_id);
                if !again {
                    let session_id = record.session_id.clone();
                    return Err(CreateRunError::OtherInput { session_id, exchange_id }.into());
                }
                true
            }
        };
        // What was accepted in time stays so.
        let at = if accepted { i64::MIN } else { now().unix_millis() };
        judge(run_id, &open, &resume.answers, at)?;
        let (continued, input, appender) = self
            .continue_with(record, log, open, resume.answers.clone(), exchange_id, resume.principal.clone())
            .await?;
        Ok(Taken::Continues(Box::new((continued, input, appender))))
    }

    /// Makes an exchange of the suspended run that has these answers, which were judged, and this engine the run's owner.
    pub(super) async fn continue_with(
        &self,
        record: &RunRecord,
        log: StoredLog,
        interrupts: Vec<Interrupt>,
        answers: Vec<ResumeEntry>,
        exchange_id: String,
        resolved_by: Option<String>,
    ) -> Result<(Continued, runwire_agui::RunAgentInput, Appender), CreateRunError> {
        let store = &self.inner.store;
        let run_id = &record.run_id;
        let mut input = next_input(store, record, &exchange_id).await?;
        let input_digest = super::answers_digest(run_id, &answers);
        input.resume = Some(answers);
        let open: Vec<String> = interrupts.iter().map(|interrupt| interrupt.id.clone()).collect();
        let left_out = LeftOut::take(&mut input, &open);
        let session_id = record.session_id.clone();
        let exchange =
            ExchangeRecord { session_id: session_id.clone(), exchange_id: exchange_id.clone(), input_digest };
        if let Added::Existing { record, same_input } = store.add_exchange(run_id, exchange).await?
            && (!same_input || record.run_id != *run_id)
        {
            return Err(CreateRunError::OtherInput { session_id, exchange_id });
        }
        let appender = store.take_ownership(run_id).await?;
        Ok((Continued::answered(log, interrupts, left_out, resolved_by), input, appender))
    }

    /// A run's log with what the exchange before this moment wrote.
    pub(super) async fn read_settled(&self, run_id: &str) -> Result<StoredLog, CreateRunError> {
        if let Some(before) = self.inner.runs.lingering(run_id) {
            before.progress().flush().await?;
        }
        self.read(run_id).await
    }
}
