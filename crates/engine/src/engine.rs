//! Creates runs, owns their tasks, stops them.

mod resuming;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use runwire_agui::{Content, Interrupt, Message, PROTOCOL_VERSION, RunAgentInput, UserMessage};
use runwire_bridge::{LogState, Recorder};
use runwire_frame::RunStatus;
use runwire_store::{
    AppendError, Appender, CreateError, Created, NewRun, ReadError, Retention, RunRecord, Store, Tombstone,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::answers::LeftOut;
use crate::clock::now;
use crate::driver::{Agent, Exchange};
use crate::execution::Execution;
use crate::in_hand::{Asked, Hold, RunsInHand};
use crate::recovery::{RecoverError, Recovered, read_log, recover, recover_patiently};
use crate::request::{CreateRun, CreateRunError, RunRequest, Started, known_agents};
use crate::writer::{Identity, RunCore, WriteError, to_append};

/// How the engine runs.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How long a driver may take to end by itself after it was asked to stop. Default 5 s.
    pub cancel_grace: Duration,
    /// Which runs are kept. Default: all.
    pub retention: Retention,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { cancel_grace: Duration::from_secs(5), retention: Retention::default() }
    }
}

/// Why a run was not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// There is no such run.
    #[error("there is no run `{0}`")]
    UnknownRun(String),
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The run waits and could not be brought to its end.
    #[error(transparent)]
    Recover(#[from] RecoverError),
}

struct Inner {
    store: Store,
    agents: BTreeMap<String, Agent>,
    options: EngineOptions,
    runs: Arc<RunsInHand>,
    /// Every task of the engine; [`Engine::shutdown`] waits for all of them.
    tasks: TaskTracker,
    /// Cancelled when no more runs may start.
    closing: CancellationToken,
    /// Cancelled when running ones cannot be waited for any longer.
    abandon: CancellationToken,
}

/// Executes runs. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

impl Engine {
    /// An engine that executes runs of these agents, on this store.
    pub fn new(store: Store, agents: impl IntoIterator<Item = Agent>, options: EngineOptions) -> Engine {
        let agents = agents.into_iter().map(|a| (a.id.clone(), a)).collect();
        Engine {
            inner: Arc::new(Inner {
                store,
                agents,
                options,
                runs: Arc::default(),
                tasks: TaskTracker::new(),
                closing: CancellationToken::new(),
                abandon: CancellationToken::new(),
            }),
        }
    }

    /// The agents, by id.
    pub fn agents(&self) -> &BTreeMap<String, Agent> {
        &self.inner.agents
    }

    /// The store that runs are kept in.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Which runs are kept.
    pub fn retention(&self) -> &Retention {
        &self.inner.options.retention
    }

    /// A task of the engine that may be dropped at any await.
    pub(crate) fn spawn_until_closing(&self, task: impl Future<Output = ()> + Send + 'static) {
        let closing = self.inner.closing.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// How many runs are being executed.
    pub fn active_runs(&self) -> usize {
        self.inner.runs.executed()
    }

    /// Brings the runs that a server left behind to their end. To be called once, before runs are created.
    ///
    /// A run whose log is damaged stays as it is, and keeps nothing else from starting.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn recover(&self) -> Result<Vec<(String, Recovered)>, RecoverError> {
        let mut recovered = Vec::new();
        for record in self.inner.store.unfinished_runs().await? {
            let ended = recover(&self.inner.store, &record, "the server stopped while the run was executed").await;
            let what = match ended {
                Ok(what) => what,
                Err(
                    error @ (RecoverError::Frame { .. }
                    | RecoverError::Log(_)
                    | RecoverError::Read(ReadError::Missing { .. })),
                ) => {
                    tracing::error!(run_id = %record.run_id, %error, "a run that was left behind cannot be ended");
                    Recovered::Unreadable
                }
                Err(error) => return Err(error),
            };
            if !matches!(what, Recovered::Suspended | Recovered::Unreadable) {
                tracing::warn!(run_id = %record.run_id, ?what, "a run was left behind and is ended now");
            }
            recovered.push((record.run_id, what));
        }
        Ok(recovered)
    }

    /// Creates a run and starts it, or finds the one that the same request started before, or, when a run of
    /// the session waits for an answer, goes on with that, or has it ask again.
    ///
    /// # Errors
    /// [`CreateRunError`]; nothing was started then. Dropping the future may leave a run that was started: the repeated
    /// request finds it.
    pub async fn create_run(&self, create: CreateRun) -> Result<Started, CreateRunError> {
        // Taken before looking, so that a shutdown that begins right after waits for what is started here.
        let _underway = self.inner.tasks.token();
        if self.inner.closing.is_cancelled() {
            return Err(CreateRunError::ShuttingDown);
        }
        let agents = &self.inner.agents;
        let agent = agents.get(&create.agent_id).ok_or_else(|| CreateRunError::UnknownAgent {
            agent_id: create.agent_id.clone(),
            known: known_agents(agents),
        })?;
        let run_id = format!("run_{}", Uuid::now_v7().simple());
        let input = complete_input(create.request.clone(), &run_id);
        let digest = digest(&create.agent_id, &input);
        // From here on the work must not be torn in two by a client that leaves.
        let engine = self.clone();
        let agent = agent.clone();
        let task = self
            .inner
            .tasks
            .spawn(async move { engine.create_or_continue(agent, create, run_id, input, digest).await });
        match task.await {
            Ok(started) => started,
            Err(_) => Err(CreateRunError::ShuttingDown),
        }
    }

    /// `left_out` are the entries that the input's `resume` had and that answered nothing.
    async fn create_new(
        &self,
        agent: Agent,
        create: CreateRun,
        run_id: String,
        input: RunAgentInput,
        digest: String,
        left_out: LeftOut,
    ) -> Result<Started, CreateRunError> {
        let store = &self.inner.store;
        let session_id = input.thread_id.clone();
        let exchange_id = input.run_id.clone();
        let new = NewRun {
            run_id: run_id.clone(),
            agent_id: agent.id.clone(),
            session_id: session_id.clone(),
            exchange_id: exchange_id.clone(),
            input_digest: digest,
            lane: create.lane.unwrap_or_else(|| "default".to_owned()),
            status: RunStatus::Queued.as_str().to_owned(),
            created_at: now().unix_millis(),
            principal: create.principal.clone(),
            trigger_kind: create.trigger_kind.to_owned(),
            agent_revision_id: agent.revision.clone(),
            parent_run_id: input.parent_run_id.clone(),
            metadata: create.metadata,
            input: serde_json::to_value(&input).unwrap_or_default(),
        };
        // Before anybody can know the run: whoever wants to stop it finds it here from its first moment on.
        let hold = self.inner.runs.hold(&run_id).expect("nobody has a run whose id was made for it");
        let record = match store.create_run(new).await {
            Err(CreateError::SessionOfAnother { session_id }) => {
                return Err(CreateRunError::SessionNotYours { session_id });
            }
            Err(CreateError::Removed(tombstone)) => return Err(removed(tombstone, create.principal.as_deref())),
            Err(error) => return Err(error.into()),
            Ok(Created::New(record)) => record,
            Ok(Created::Existing { record, same_input }) => {
                return existing(record, same_input, exchange_id, create.principal.as_deref());
            }
        };
        let appender = match store.take_ownership(&run_id).await {
            Ok(appender) => appender,
            Err(error) => {
                // The run exists, and whoever repeats the request finds it: it must come to an end.
                let why = format!("the run could not be started: {}", error.reason());
                self.inner.tasks.spawn(self.clone().end_patiently(run_id, why, Some(hold)));
                return Err(error.into());
            }
        };
        self.start(agent, &record, input, Continued::new(&run_id, left_out), appender, hold);
        Ok(Started { record, exchange_id, existing: false })
    }

    /// A session belongs to whoever started its first run.
    async fn check_session(&self, session_id: &str, principal: Option<&str>) -> Result<(), CreateRunError> {
        match (self.inner.store.session(session_id).await?, principal) {
            (Some(session), Some(principal)) if session.principal.as_deref() != Some(principal) => {
                Err(CreateRunError::SessionNotYours { session_id: session_id.to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn start(
        &self,
        agent: Agent,
        record: &RunRecord,
        input: RunAgentInput,
        continued: Continued,
        appender: Appender,
        hold: Hold,
    ) {
        let Continued { state, interrupts, left_out } = continued;
        let resumed = state.status() == RunStatus::Suspended;
        let identity = Identity {
            agent_id: agent.id.clone(),
            agent_revision_id: agent.revision.clone(),
            session_id: record.session_id.clone(),
            lane: record.lane.clone(),
            trigger_kind: record.trigger_kind.clone(),
            principal: record.principal.clone(),
        };
        let input = Arc::new(input);
        let core = RunCore::new(identity, input.clone(), left_out, state, appender);
        let own = core.clone();
        let stop = CancellationToken::new();
        let run_id = record.run_id.clone();
        hold.execute(core.clone(), stop.clone());
        let execution = Execution {
            core,
            driver: agent.driver,
            exchange: Exchange { run_id: run_id.clone(), input, resumed, interrupts, stop },
            grace: self.inner.options.cancel_grace,
            abandon: self.inner.abandon.clone(),
        };
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            let ended = execution.run().await;
            let Err(WriteError::Store(error)) = ended else {
                engine.inner.runs.forget(&run_id, &own);
                return;
            };
            match error {
                // Whoever took the run over brings it to its end.
                AppendError::Fenced | AppendError::Ended => {
                    engine.inner.runs.forget(&run_id, &own);
                    tracing::error!(%run_id, %error, "the run is not this server's any more");
                }
                error => {
                    let hold = engine.inner.runs.hold_unfinished(&run_id, &own);
                    tracing::error!(%run_id, %error, "the run's log could not be written to its end");
                    let why = format!("the run's log could not be written: {}", error.reason());
                    engine.end_patiently(run_id, why, hold).await;
                }
            }
        });
    }

    /// Brings a run to its end that could not be written, as soon as the store takes it, or the engine is shut down.
    ///
    /// It stays in hand meanwhile, so that a stop that is asked for then is not lost.
    async fn end_patiently(self, run_id: String, why: String, hold: Option<Hold>) {
        let hold = match hold {
            Some(hold) => Some(hold),
            None => self.inner.runs.hold_in_turn(&run_id).await,
        };
        let asked_to_stop = || hold.as_ref().is_some_and(Hold::asked_to_stop);
        tokio::select! {
            () = recover_patiently(&self.inner.store, &run_id, &why, asked_to_stop) => {}
            () = self.inner.abandon.cancelled() => {}
        }
    }

    /// Asks a run to stop. It ends as cancelled, unless it has ended. Asking again changes nothing.
    ///
    /// Returns the run as it stands now; it may take the driver's grace period until it ends.
    ///
    /// # Errors
    /// When there is no such run or the store fails.
    pub async fn cancel(&self, run_id: &str) -> Result<RunRecord, CancelError> {
        let store = &self.inner.store;
        let unknown = || CancelError::UnknownRun(run_id.to_owned());
        // Read first: a run that is in the store was in hand before.
        store.run(run_id).await?.ok_or_else(unknown)?;
        loop {
            match self.inner.runs.ask_to_stop(run_id) {
                Asked::Stopping(core) => {
                    if let Some(core) = core {
                        // A store that fails here fails the run, which is seen to elsewhere.
                        let _ = core.progress().flush().await;
                    }
                    break;
                }
                Asked::Idle(core) => {
                    if let Some(core) = core {
                        let _ = core.progress().flush().await;
                    }
                    // Without a hold, somebody has taken the run up at this moment, and can be asked.
                    if let Ok(_hold) = self.inner.runs.hold(run_id) {
                        self.cancel_waiting(run_id).await?;
                        break;
                    }
                }
            }
        }
        store.run(run_id).await?.ok_or_else(unknown)
    }

    /// A suspended run has no task: its log is ended here. Any other is left alone.
    async fn cancel_waiting(&self, run_id: &str) -> Result<(), CancelError> {
        let store = &self.inner.store;
        let suspended = |record: &RunRecord| record.status == RunStatus::Suspended.as_str();
        if !store.run(run_id).await?.as_ref().is_some_and(suspended) {
            return Ok(());
        }
        let mut appender = store.take_ownership(run_id).await.map_err(RecoverError::from)?;
        let state = read_log(store, run_id).await?.state;
        let recorded = Recorder::recover(state).cancel(now(), &[], None);
        appender.enqueue(to_append(recorded)).map_err(RecoverError::from)?;
        appender.progress().flush().await.map_err(RecoverError::from)?;
        Ok(())
    }

    /// Starts no more runs, waits up to `grace` for those that are executed, then ends the rest as failed.
    pub async fn shutdown(&self, grace: Duration) {
        self.inner.closing.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(grace, self.inner.tasks.wait()).await.is_err() {
            self.inner.abandon.cancel();
            self.inner.tasks.wait().await;
        }
    }
}

/// The exchange names a run that retention removed. Whose it was decides what may be told of it.
fn removed(tombstone: Box<Tombstone>, principal: Option<&str>) -> CreateRunError {
    if principal.is_some() && tombstone.principal.as_deref() != principal {
        return CreateRunError::SessionNotYours { session_id: tombstone.session_id };
    }
    CreateRunError::Removed(tombstone)
}

/// Where an exchange of a run begins.
struct Continued {
    /// What the run's log says so far.
    state: LogState,
    /// What the run waited for.
    interrupts: Vec<Interrupt>,
    /// The entries that the input's `resume` had and that answered nothing.
    left_out: LeftOut,
}

impl Continued {
    /// The empty log of a run that begins.
    fn new(run_id: &str, left_out: LeftOut) -> Continued {
        Continued { state: LogState::new(run_id), interrupts: Vec::new(), left_out }
    }
}

/// The answer to a request that was made before.
fn existing(
    record: RunRecord,
    same_input: bool,
    exchange_id: String,
    principal: Option<&str>,
) -> Result<Started, CreateRunError> {
    let session_id = record.session_id.clone();
    if principal.is_some() && record.principal.as_deref() != principal {
        return Err(CreateRunError::SessionNotYours { session_id });
    }
    if !same_input {
        return Err(CreateRunError::OtherInput { session_id, exchange_id });
    }
    Ok(Started { record, exchange_id, existing: true })
}

/// Ids that the caller left out are made here: a new thread, and an AG-UI run that is the run itself.
fn complete_input(request: RunRequest, run_id: &str) -> RunAgentInput {
    let mut input = match request {
        RunRequest::Input(input) => *input,
        RunRequest::Prompt { prompt, session_id } => {
            let mut input = RunAgentInput::new(session_id.unwrap_or_default(), "", Vec::new());
            input.protocol_version = Some(PROTOCOL_VERSION.to_owned());
            let message = UserMessage::new(format!("{run_id}.prompt"), Content::Text(prompt));
            input.messages.push(Message::User(message));
            input
        }
    };
    if input.thread_id.is_empty() {
        input.thread_id = format!("session_{}", Uuid::now_v7().simple());
    }
    if input.run_id.is_empty() {
        input.run_id = run_id.to_owned();
    }
    input
}

/// Tells a repeated request from a different one.
fn digest(agent_id: &str, input: &RunAgentInput) -> String {
    let mut canonical = serde_json::to_value((agent_id, input)).unwrap_or_default();
    // Members have no order in JSON, and a client that builds its state anew may write them in another.
    canonical.sort_all_objects();
    let canonical = canonical.to_string().into_bytes();
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &canonical).simple().to_string()
}
