//! Inputs to a session whose run waits for an answer: one that answers goes on with that run, one that does not is told
//! again what the run waits for.

use runwire_agui::RunAgentInput;
use runwire_bridge::{Recorder, Suspension};
use runwire_frame::{NoticeLevel, RunStatus};
use runwire_store::{Added, Appender, ExchangeRecord, ReadError, RequestKey, RunFilter, RunRecord};
use serde_json::{Map, Value};

use super::digest::is_former;
use super::{Continued, Engine, KnownBy, Ready, existing, removed};
use crate::answers::{LeftOut, asked, judge, repeated};
use crate::clock::now;
use crate::driver::Agent;
use crate::recovery::{StoredLog, read_log};
use crate::request::{CreateRun, CreateRunError, RunRequest, Started, list};
use crate::run_core::{exchange_members, to_append};
use crate::turns::Concurrency;

/// What an input came to that found a suspended run in its session.
enum TakenUp {
    /// The run goes on from here.
    Continues(Continued, Appender),
    /// The input answered nothing: what the run waits for is said again, in an exchange of its own.
    AskedAgain(RunRecord),
    /// The exchange had been made before.
    Known { record: RunRecord, same_input: bool },
    /// Somebody else was quicker: the run does not wait any more.
    WaitsNoMore,
}

/// An exchange that was made before.
pub(super) struct Known {
    /// The run that it is of.
    pub(super) record: RunRecord,
    /// Whether its input was the same.
    pub(super) same_input: bool,
    /// The digest of its input that the store has.
    digest: String,
}

impl Engine {
    /// Goes on with the suspended run of the input's session, asks again what that waits for, or starts a new run.
    pub(super) async fn create_or_continue(
        &self,
        agent: Agent,
        create: CreateRun,
        run_id: String,
        mut input: RunAgentInput,
        known_by: KnownBy,
    ) -> Result<Started, CreateRunError> {
        if let Some(interrupt_id) = repeated(input.resume()) {
            return Err(CreateRunError::ResumeRepeated { interrupt_id: interrupt_id.to_owned() });
        }
        let exchange = ExchangeRecord {
            session_id: input.thread_id.clone(),
            exchange_id: input.run_id.clone(),
            input_digest: known_by.digest.clone(),
        };
        let exchange_id = exchange.exchange_id.clone();
        let principal = create.principal.as_deref();
        // No run can wait in a session that was made up for this input.
        let waiting = match create.request.session_id() {
            Some(_) => self.newest_run(&agent, &exchange, &[RunStatus::Suspended]).await?,
            None => None,
        };
        if let Some(mut waiting) = waiting {
            self.check_session(&exchange.session_id, principal).await?;
            let repeated = match self.known(&exchange, &agent.id, &create.request, principal).await? {
                // A server that died between taking the input and acting on it left the run waiting: it is acted on now.
                Some(Known { record, same_input: true, .. }) if record.status == RunStatus::Suspended.as_str() => {
                    waiting = record;
                    true
                }
                Some(Known { record, same_input, .. }) => {
                    return existing(record, same_input, exchange_id, principal);
                }
                None => false,
            };
            // What answers nothing supersedes the question, where the agent says so. What came before has done so then.
            if agent.policy.concurrency == Concurrency::Supersede && input.resume().is_empty() && !repeated {
                self.cancel(&waiting.run_id).await.map_err(|e| CreateRunError::Log(e.to_string()))?;
            }
            // Of two answers, or an answer and a stop, one has the run; the other finds that it waits no more.
            if let Some(hold) = self.inner.runs.hold_in_turn(&waiting.run_id).await {
                let key = known_by.key.clone();
                let taken = self.take_up(&waiting, &mut input, &create, exchange.clone(), key).await;
                if let Ok(TakenUp::Continues(continued, appender)) = taken {
                    let turn = self.turn_of_older(&agent, &waiting);
                    self.start(agent, &waiting, input, continued, Ready { appender, hold, turn });
                    return Ok(Started { record: waiting, exchange_id, existing: false });
                }
                self.let_go(&waiting.run_id, hold).await?;
                match taken? {
                    TakenUp::Known { record, same_input } => {
                        return existing(record, same_input, exchange_id, principal);
                    }
                    TakenUp::AskedAgain(record) => return Ok(Started { record, exchange_id, existing: false }),
                    TakenUp::WaitsNoMore => {}
                    TakenUp::Continues(..) => unreachable!("continuing was handled above"),
                }
            }
        }
        if !input.resume().is_empty() {
            self.check_session(&exchange.session_id, principal).await?;
            let known = self.known(&exchange, &agent.id, &create.request, principal).await?;
            if let Some(Known { record, same_input, .. }) = known {
                return existing(record, same_input, exchange_id, principal);
            }
            self.check_unresolved(&agent, &exchange, &input).await?;
        }
        self.create_new(agent, create, run_id, input, known_by).await
    }

    /// The newest run of the agent in the exchange's session, of all or of those in one of these states.
    pub(super) async fn newest_run(
        &self,
        agent: &Agent,
        exchange: &ExchangeRecord,
        statuses: &[RunStatus],
    ) -> Result<Option<RunRecord>, CreateRunError> {
        let filter = RunFilter {
            agent_id: Some(agent.id.clone()),
            session_id: Some(exchange.session_id.clone()),
            status: statuses.iter().map(|status| status.as_str().to_owned()).collect(),
            limit: 1,
            ..RunFilter::default()
        };
        Ok(self.inner.store.runs(filter).await?.into_iter().next())
    }

    /// The run that the exchange names, if it was made before; `request` is what it is made of now.
    pub(super) async fn known(
        &self,
        exchange: &ExchangeRecord,
        agent_id: &str,
        request: &RunRequest,
        principal: Option<&str>,
    ) -> Result<Option<Known>, CreateRunError> {
        match self.inner.store.run_by_exchange(&exchange.session_id, &exchange.exchange_id).await {
            Err(ReadError::Removed(tombstone)) => Err(removed(tombstone, principal)),
            found => Ok(found?.map(|(record, digest)| {
                let same_input = digest == exchange.input_digest || is_former(&digest, agent_id, request);
                Known { record, same_input, digest }
            })),
        }
    }

    /// An answer that comes a second time, from another tab for instance, must not have the work done once more.
    async fn check_unresolved(
        &self,
        agent: &Agent,
        exchange: &ExchangeRecord,
        input: &RunAgentInput,
    ) -> Result<(), CreateRunError> {
        let Some(newest) = self.newest_run(agent, exchange, &[]).await? else { return Ok(()) };
        let run_id = newest.run_id;
        let log = self.read(&run_id).await?;
        let named = input.resume().iter().map(|entry| &entry.interrupt_id);
        let resolved: Vec<String> = named.filter(|id| log.raised.contains(id)).cloned().collect();
        if resolved.is_empty() { Ok(()) } else { Err(CreateRunError::AlreadyResolved { run_id, resolved }) }
    }

    pub(super) async fn read(&self, run_id: &str) -> Result<StoredLog, CreateRunError> {
        read_log(&self.inner.store, run_id).await.map_err(|e| CreateRunError::Log(e.to_string()))
    }

    /// Makes the exchange one of the suspended run, and this engine the run's owner. What of the input answers nothing is
    /// taken out of it.
    async fn take_up(
        &self,
        waiting: &RunRecord,
        input: &mut RunAgentInput,
        create: &CreateRun,
        mut exchange: ExchangeRecord,
        key: Option<RequestKey>,
    ) -> Result<TakenUp, CreateRunError> {
        let principal = create.principal.as_deref();
        let store = &self.inner.store;
        let run_id = &waiting.run_id;
        // What the exchange before this one wrote has to be there to be read.
        let log = self.read_settled(run_id).await?;
        // Read again, now that nobody else can add it. An exchange that never began is none yet.
        let known = self.known(&exchange, &create.agent_id, &create.request, principal).await?;
        let accepted = known.is_some();
        if let Some(Known { record, same_input, digest }) = known {
            if !same_input || record.run_id != *run_id || log.exchanges.contains(&exchange.exchange_id) {
                return Ok(TakenUp::Known { record, same_input });
            }
            // The store knows it by the digest that it has.
            exchange.input_digest = digest;
        }
        let (RunStatus::Suspended, Some(suspend)) = (log.state.status(), log.suspend.as_ref()) else {
            return Ok(TakenUp::WaitsNoMore);
        };
        let interrupts = asked(suspend);
        let open: Vec<String> = interrupts.iter().map(|interrupt| interrupt.id.clone()).collect();
        let answers = !input.resume().is_empty();
        if answers {
            // What was accepted in time stays so, also when a server died over it.
            let at = if accepted { i64::MIN } else { now().unix_millis() };
            judge(run_id, &interrupts, input.resume(), at)?;
        }
        if !answers && matches!(create.request, RunRequest::Prompt { .. }) {
            return Err(CreateRunError::WaitsForAnswer { run_id: run_id.clone(), interrupts: open });
        }
        let left_out = LeftOut::take(input, &open);
        if let Added::Existing { record, same_input } = store.add_keyed_exchange(run_id, exchange, key).await?
            && (!same_input || record.run_id != *run_id)
        {
            return Ok(TakenUp::Known { record: *record, same_input });
        }
        let appender = store.take_ownership(run_id).await?;
        if answers {
            let by = create.principal.clone();
            return Ok(TakenUp::Continues(Continued::answered(log, interrupts, left_out, by), appender));
        }
        ask_again(log, &open, input, appender).await?;
        let record = store.run(run_id).await?;
        Ok(TakenUp::AskedAgain(record.unwrap_or_else(|| waiting.clone())))
    }
}

/// Writes an exchange that does nothing and waits for what the one before it waited for.
async fn ask_again(
    log: StoredLog,
    open: &[String],
    input: &RunAgentInput,
    mut appender: Appender,
) -> Result<(), CreateRunError> {
    let Some(suspend) = log.suspend else { return Ok(()) };
    let what = format!(
        "the run waits for {}, which the input does not answer; nothing was done, and it is asked again",
        list(open)
    );
    tracing::warn!(session_id = input.thread_id, exchange_id = input.run_id, "{what}");
    let ids = Map::from_iter([("interruptIds".to_owned(), Value::from(open.to_vec()))]);
    let mut recorder = Recorder::resume(log.state, now(), None, Some(exchange_members(input)));
    recorder.notice(now(), NoticeLevel::Warning, "interrupts_unanswered", what, Some(ids));
    let suspension = Suspension {
        kind: suspend.kind,
        contract: suspend.resume_contract,
        prompt: suspend.prompt,
        deadline: suspend.deadline_at,
        // The exchange that raised them has reported its own.
        usage: Vec::new(),
        agui: None,
    };
    // In one piece, so that no crash leaves it half done.
    appender.enqueue(to_append(recorder.suspend(now(), suspension).0))?;
    appender.progress().flush().await?;
    Ok(())
}
