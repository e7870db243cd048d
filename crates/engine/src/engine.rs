//! Creates runs, owns their tasks, stops them.

mod answering;
mod children;
mod deadlines;
mod executing;
mod keyed;
mod queueing;
mod resuming;
mod stopping;
mod taking_over;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use runwire_agui::{Content, Interrupt, Message, PROTOCOL_VERSION, ResumeEntry, RunAgentInput, UserMessage};
use runwire_bridge::{LogState, Pricing, WaitingCall};
use runwire_frame::{RunStatus, Timestamp};
use runwire_store::{
    Appender, CreateError, Created, ExchangeRecord, NewRun, ReadError, RequestKey, Retention, RunRecord, Store,
    Tombstone,
};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::answers::LeftOut;
use crate::clock::now;
use crate::driver::{Agent, RecordedResult};
use crate::history_reader::Histories;
use crate::idempotency::KeysUnderway;
use crate::in_hand::{Hold, RunsInHand};
use crate::prices::Prices;
use crate::prompted::{PromptHistory, prompt_id};
use crate::recovery::{RecoverError, StoredLog};
use crate::request::{CreateRun, CreateRunError, RunRequest, Started, known_agents};
use crate::turns::{Concurrency, DEFAULT_LANE, Entered, Key, LaneOptions, Turn, Turns};

pub use answering::{ResumeError, ResumeRun, Waiting};
pub(crate) use children::Unneeded;
pub use deadlines::DEADLINE;

/// How the engine runs.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How long a driver may take to end by itself after it was asked to stop. Default 5 s.
    pub cancel_grace: Duration,
    /// How often to look for runs that nobody has in hand: see [`Engine::watch_for_orphans`]. Default 30 s.
    pub orphan_check: Duration,
    /// The lanes that are configured. `default` is always there, without a limit unless it is among them.
    pub lanes: BTreeMap<String, LaneOptions>,
    /// Which runs are kept. Default: all.
    pub retention: Retention,
    /// What models cost. Default: nothing is known, and no run says what it cost.
    pub prices: Option<Arc<Prices>>,
    /// How many runs may be above one another, each started by the one above it, without the first: a run that has as many above
    /// it starts no other. 0 lets no run start one. Default 8.
    pub max_child_depth: u32,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            cancel_grace: Duration::from_secs(5),
            orphan_check: Duration::from_secs(30),
            lanes: BTreeMap::new(),
            retention: Retention::default(),
            prices: None,
            max_child_depth: 8,
        }
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
    keys: Arc<KeysUnderway>,
    /// What is kept of the histories of sessions, so that not every reader pays for reading all of them.
    histories: Histories,
    turns: Arc<Turns>,
    /// Every task of the engine; [`Engine::shutdown`] waits for all of them.
    tasks: TaskTracker,
    /// Cancelled when no more runs may start.
    closing: CancellationToken,
    /// Cancelled when running ones cannot be waited for any longer.
    abandon: CancellationToken,
    /// Where runs are executed: a slot may be given back by a thread that has no runtime.
    runtime: OnceLock<Handle>,
}

/// Executes runs. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// An engine that may be gone.
#[derive(Clone)]
pub(crate) struct WeakEngine(Weak<Inner>);

impl WeakEngine {
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(|inner| Engine { inner })
    }
}

impl Engine {
    /// The engine for those that must not keep it.
    fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.inner))
    }

    /// An engine that executes runs of these agents, on this store.
    pub fn new(store: Store, agents: impl IntoIterator<Item = Agent>, options: EngineOptions) -> Engine {
        let agents = agents.into_iter().map(|a| (a.id.clone(), a)).collect();
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| {
            let inner = inner.clone();
            let turns = Turns::new(&options.lanes, move |run_id, turn| {
                let inner = inner.upgrade();
                let runtime = inner.as_ref().and_then(|inner| inner.runtime.get()).cloned();
                match (inner, Handle::try_current().ok().or(runtime)) {
                    (Some(inner), Some(runtime)) => {
                        let _entered = runtime.enter();
                        Engine { inner }.begin_in_turn(run_id, turn);
                    }
                    // There is nobody left to execute anything: what waits is the next server's.
                    _ => turn.close(),
                }
            });
            Inner {
                store,
                agents,
                options,
                runs: Arc::default(),
                keys: Arc::default(),
                histories: Histories::default(),
                turns,
                tasks: TaskTracker::new(),
                closing: CancellationToken::new(),
                abandon: CancellationToken::new(),
                runtime: OnceLock::new(),
            }
        });
        Engine { inner }
    }

    /// The agents, by id.
    pub fn agents(&self) -> &BTreeMap<String, Agent> {
        &self.inner.agents
    }

    /// The store that runs are kept in.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// What is kept of the histories of sessions.
    pub(crate) fn histories(&self) -> &Histories {
        &self.inner.histories
    }

    /// What models cost, for whoever writes a run's log.
    pub(crate) fn pricing(&self) -> Option<Arc<dyn Pricing>> {
        self.inner.options.prices.clone().map(|prices| prices as Arc<dyn Pricing>)
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

    /// How many runs wait for their lane, or for the run of their session before them.
    pub fn queued_runs(&self) -> usize {
        self.inner.turns.waiting()
    }

    /// How many runs are being executed.
    pub fn active_runs(&self) -> usize {
        self.inner.runs.executed()
    }

    /// Creates a run and starts it, or finds the one that the same request started before, or, when a run of
    /// the session waits for an answer, goes on with that, or has it ask again.
    ///
    /// # Errors
    /// [`CreateRunError`]; nothing was started then. Dropping the future may leave a run that was started: the repeated
    /// request finds it.
    pub async fn create_run(&self, create: CreateRun) -> Result<Started, CreateRunError> {
        self.in_one_piece(|engine| async move { engine.create(create, None).await }).await
    }

    /// Does what somebody asks for in a task of the engine: a client that leaves must not tear it in two.
    async fn in_one_piece<W>(&self, work: impl FnOnce(Engine) -> W) -> Result<Started, CreateRunError>
    where
        W: Future<Output = Result<Started, CreateRunError>> + Send + 'static,
    {
        // Taken before looking, so that a shutdown that begins right after waits for what is started here.
        let _underway = self.inner.tasks.token();
        if self.inner.closing.is_cancelled() {
            return Err(CreateRunError::ShuttingDown);
        }
        match self.inner.tasks.spawn(work(self.clone())).await {
            Ok(started) => started,
            Err(_) => Err(CreateRunError::ShuttingDown),
        }
    }

    async fn create(&self, create: CreateRun, key: Option<RequestKey>) -> Result<Started, CreateRunError> {
        let agents = &self.inner.agents;
        let agent = agents.get(&create.agent_id).ok_or_else(|| CreateRunError::UnknownAgent {
            agent_id: create.agent_id.clone(),
            known: known_agents(agents),
        })?;
        let run_id = format!("run_{}", Uuid::now_v7().simple());
        let input = complete_input(create.request.clone(), &run_id);
        let known_by = KnownBy { digest: digest(&create.agent_id, &input), key };
        self.create_or_continue(agent.clone(), create, run_id, input, known_by).await
    }

    async fn create_new(
        &self,
        agent: Agent,
        create: CreateRun,
        run_id: String,
        mut input: RunAgentInput,
        known_by: KnownBy,
    ) -> Result<Started, CreateRunError> {
        let KnownBy { digest, key: request_key } = known_by;
        let store = &self.inner.store;
        let lane = self.lane_of(&agent, create.lane)?;
        let session_id = input.thread_id.clone();
        let exchange_id = input.run_id.clone();
        let new = NewRun {
            run_id: run_id.clone(),
            agent_id: agent.id.clone(),
            session_id: session_id.clone(),
            exchange_id: exchange_id.clone(),
            input_digest: digest,
            lane,
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
        // Before it is created, so that of two runs the one that is older is the one that is before the other.
        let key = Key::new(&agent.id, &session_id);
        let entered = match self.enter(&agent, &run_id, &key, &new.lane) {
            Ok(entered) => entered,
            Err(refused) => {
                // A request that was made before starts nothing, so nothing keeps it from finding its run.
                let exchange = ExchangeRecord { session_id, exchange_id, input_digest: new.input_digest };
                let principal = create.principal.as_deref();
                return match self.known(&exchange, principal).await? {
                    Some((record, same_input)) => existing(record, same_input, exchange.exchange_id, principal),
                    None => Err(refused),
                };
            }
        };
        let created = match store.create_keyed_run(new, request_key).await {
            Err(CreateError::SessionOfAnother { session_id }) => Err(CreateRunError::SessionNotYours { session_id }),
            Err(CreateError::Removed(tombstone)) => Err(removed(tombstone, create.principal.as_deref())),
            Err(error) => Err(error.into()),
            Ok(Created::New(record)) => Ok(record),
            Ok(Created::Existing { record, same_input }) => {
                self.inner.turns.leave(&run_id, &key);
                return existing(record, same_input, exchange_id, create.principal.as_deref());
            }
        };
        let record = created.inspect_err(|_| {
            self.inner.turns.leave(&run_id, &key);
        })?;
        let turn = match entered {
            Entered::Now(turn) => turn,
            Entered::Queued { ahead } => {
                self.let_go_and_log(&run_id, hold).await;
                if agent.policy.concurrency == Concurrency::Supersede {
                    self.supersede(&run_id, &ahead).await;
                }
                return Ok(Started { record, exchange_id, existing: false });
            }
        };
        if agent.policy.prompt_history != PromptHistory::Nothing && continues_session(&create.request) {
            // What the session said may be much to read, and nobody has to wait here for that.
            self.begin_stored(run_id, hold, turn);
            return Ok(Started { record, exchange_id, existing: false });
        }
        let appender = match store.take_ownership(&run_id).await {
            Ok(appender) => appender,
            Err(error) => {
                // The run exists, and whoever repeats the request finds it: it must come to an end.
                let why = format!("the run could not be started: {}", error.reason());
                self.inner.tasks.spawn(self.clone().end_patiently(run_id, why, Some(hold)));
                return Err(error.into());
            }
        };
        let continued = Continued::new(&run_id, &mut input);
        self.start(agent, &record, input, continued, Ready { appender, hold, turn });
        Ok(Started { record, exchange_id, existing: false })
    }

    /// The lane of a run of this agent.
    fn lane_of(&self, agent: &Agent, asked: Option<String>) -> Result<String, CreateRunError> {
        let lane = asked.or_else(|| agent.policy.lane.clone()).unwrap_or_else(|| DEFAULT_LANE.to_owned());
        if lane != DEFAULT_LANE && !self.inner.options.lanes.contains_key(&lane) {
            let known = self.inner.options.lanes.keys().cloned();
            let known: BTreeSet<String> = known.chain([DEFAULT_LANE.to_owned()]).collect();
            return Err(CreateRunError::UnknownLane { lane, known: known.into_iter().collect() });
        }
        Ok(lane)
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

    /// Starts no more runs, waits up to `grace` for those that are executed, then ends the rest as failed.
    pub async fn shutdown(&self, grace: Duration) {
        self.inner.closing.cancel();
        self.inner.turns.close();
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

/// Whether it is a prompt in a session that may have said something.
fn continues_session(request: &RunRequest) -> bool {
    matches!(request, RunRequest::Prompt { .. }) && request.session_id().is_some()
}

/// By what a request is known when it comes again.
struct KnownBy {
    /// A digest of the agent and the whole input, ids included.
    digest: String,
    /// The key that its sender chose.
    key: Option<RequestKey>,
}

/// What it takes to execute an exchange: the log, the run, and its turn.
struct Ready {
    appender: Appender,
    hold: Hold,
    turn: Turn,
}

/// Where an exchange of a run begins.
struct Continued {
    /// What the run's log says so far.
    state: LogState,
    /// Whether this exchange goes on with the run after it was suspended.
    resumed: bool,
    /// What the run waited for.
    interrupts: Vec<Interrupt>,
    /// The tool calls that waited for their results then.
    calls: Vec<WaitingCall>,
    /// The results that earlier attempts at the exchange recorded of them.
    results: Vec<RecordedResult>,
    /// The entries that the input's `resume` had and that answered nothing.
    left_out: LeftOut,
    /// Who answered.
    resolved_by: Option<String>,
    /// Between two attempts, when the next one is due.
    next_at: Option<Timestamp>,
}

impl Continued {
    /// The log of a run that waited for these, and goes on.
    fn answered(
        log: StoredLog,
        interrupts: Vec<Interrupt>,
        left_out: LeftOut,
        resolved_by: Option<String>,
    ) -> Continued {
        let calls = log.state.waiting_calls().collect();
        Continued {
            state: log.state,
            resumed: true,
            interrupts,
            calls,
            results: Vec::new(),
            left_out,
            resolved_by,
            next_at: None,
        }
    }

    /// The empty log of a run that begins. It asked nothing yet, so every entry of the input's `resume` is left out.
    fn new(run_id: &str, input: &mut RunAgentInput) -> Continued {
        Continued {
            state: LogState::new(run_id),
            resumed: false,
            interrupts: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
            left_out: LeftOut::take(input, &[]),
            resolved_by: None,
            next_at: None,
        }
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
            let message = UserMessage::new(prompt_id(run_id), Content::Text(prompt));
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

/// Tells repeated answers from different ones.
///
/// `run_id` is what they answer, in whatever words its caller has for that. 32 hexadecimal digits; the order of the answers and of
/// the members in them makes no difference.
pub fn answers_digest(run_id: &str, answers: &[ResumeEntry]) -> String {
    let mut answers: Vec<&ResumeEntry> = answers.iter().collect();
    answers.sort_by(|a, b| a.interrupt_id.cmp(&b.interrupt_id));
    digest_of(serde_json::to_value(("resume", run_id, answers)).unwrap_or_default())
}

/// Tells a repeated request from a different one.
fn digest(agent_id: &str, input: &RunAgentInput) -> String {
    digest_of(serde_json::to_value((agent_id, input)).unwrap_or_default())
}

fn digest_of(mut canonical: serde_json::Value) -> String {
    // Members have no order in JSON, and a client that builds its state anew may write them in another.
    canonical.sort_all_objects();
    let canonical = canonical.to_string().into_bytes();
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &canonical).simple().to_string()
}
