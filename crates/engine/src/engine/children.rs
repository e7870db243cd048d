//! Runs that runs start: creating and finding them, telling the parent what becomes of them, and stopping those that nobody
//! needs any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use runwire_agui::RunAgentInput;
use runwire_bridge::{Ending, Open, kind};
use runwire_frame::{Data, ErrorCode, Frame, NoticeLevel, RunStatus, SegmentError, SegmentStatus};
use runwire_store::{
    CreateError, Created, ExchangeRecord, NewRun, ReadError, RunFilter, RunRecord, TailError, TailItem,
};
use serde_json::{Map, Value};
use tokio::sync::watch;
use uuid::Uuid;

use super::digest::{former_input_digest, input_digest};
use super::{Continued, Engine, Ready, complete_input};
use crate::child::{CHILD, Child, ChildEnd, ChildError, ChildRun, MAX_CHILD_KEY};
use crate::child_log::ChildLog;
use crate::clock::now;
use crate::driver::Agent;
use crate::family::{Attached, Standing};
use crate::request::{CreateRunError, RunRequest, known_agents};
use crate::run_core::RunCore;
use crate::said;
use crate::turns::Key;
use crate::writer::{RunWriter, WriteError};

/// After how long a child's log is read again that could not be read.
const AGAIN: Duration = Duration::from_secs(1);

/// Why a child's log was not read on.
enum Unread {
    /// The store fails now.
    Yet(String),
    /// What is there cannot be read, or nothing is there any more.
    Ever(String),
}

impl From<TailError> for Unread {
    fn from(error: TailError) -> Unread {
        match error {
            TailError::Storage(_) => Unread::Yet(error.to_string()),
            error => Unread::Ever(error.to_string()),
        }
    }
}

impl From<ReadError> for Unread {
    fn from(error: ReadError) -> Unread {
        match error {
            ReadError::Storage(_) => Unread::Yet(error.to_string()),
            error => Unread::Ever(error.to_string()),
        }
    }
}

/// Which of a run's unfinished children are stopped.
#[derive(Clone, Debug)]
pub(crate) enum Unneeded {
    /// All: the run was stopped, or failed for good.
    All,
    /// Those that the next attempt cannot find: they have no key.
    Unkeyed,
    /// All but these: the run completed with these going on, and has no use for what an earlier attempt left behind.
    AllBut(HashSet<String>),
}

/// A child's place in its session: of the parent's own, or one that it has by its key.
struct Asked {
    session_id: String,
    exchange_id: String,
    input: RunAgentInput,
    digest: String,
}

impl Asked {
    /// Whether the digest that a store has is that of this, as it is made today or was made before.
    fn is_known_by(&self, digest: &str, agent_id: &str) -> bool {
        if digest == self.digest {
            return true;
        }
        // Not of the parent, which a digest says nothing of.
        let input = RunAgentInput { parent_run_id: None, ..self.input.clone() };
        digest == former_input_digest(agent_id, &input)
    }
}

impl Engine {
    /// Starts a run on behalf of another, or finds the one that has its key.
    pub(crate) async fn start_child(&self, core: Arc<RunCore>, child: ChildRun) -> Result<Child, ChildError> {
        let _underway = self.inner.tasks.token();
        if self.inner.closing.is_cancelled() {
            return Err(CreateRunError::ShuttingDown.into());
        }
        // From here on the work must not be torn in two by a driver that is dropped.
        let engine = self.clone();
        match self.inner.tasks.spawn(async move { engine.find_or_create(core, child).await }).await {
            Ok(started) => started,
            Err(_) => Err(CreateRunError::ShuttingDown.into()),
        }
    }

    async fn find_or_create(self, core: Arc<RunCore>, child: ChildRun) -> Result<Child, ChildError> {
        let _turn = core.family().one_at_a_time().await;
        core.write(|recorder, _| said::opening(&child.opening, recorder.state()))??;
        if let Some(key) = child.key.as_ref().filter(|key| key.is_empty() || key.len() > MAX_CHILD_KEY) {
            let what = format!("the key of a child has 1 to {MAX_CHILD_KEY} bytes, and this one {}", key.len());
            return Err(WriteError::Refused(what).into());
        }
        let parent = self.inner.store.run(core.run_id()).await?.ok_or(WriteError::Ended)?;
        self.check_depth(&parent).await?;
        let agents = &self.inner.agents;
        let agent = agents.get(&child.agent_id).cloned().ok_or_else(|| CreateRunError::UnknownAgent {
            agent_id: child.agent_id.clone(),
            known: known_agents(agents),
        })?;
        let mut number = 1;
        loop {
            let run_id = format!("run_{}", Uuid::now_v7().simple());
            let asked = asked(&core, &child, &run_id, number);
            match self.known_child(&child.agent_id, &asked).await? {
                Found::Nothing => {}
                // It is done once more, under the next number.
                Found::Useless => {
                    number += 1;
                    continue;
                }
                Found::Child(record, same) => {
                    if !same {
                        let key = child.key.unwrap_or_default();
                        return Err(ChildError::OtherRequest { key, run_id: record.run_id });
                    }
                    return self.take_in(core, *record, child).await;
                }
            }
            return self.create_child(core, &parent, agent, child, run_id, asked).await;
        }
    }

    /// Refuses a child that would be too many runs below the first.
    async fn check_depth(&self, parent: &RunRecord) -> Result<(), ChildError> {
        let most = self.inner.options.max_child_depth;
        let mut depth = 0;
        let mut above = parent.clone();
        loop {
            if depth >= most {
                return Err(ChildError::TooDeep { depth });
            }
            let (true, Some(id)) = (above.trigger_kind == CHILD, &above.parent_run_id) else { return Ok(()) };
            let Some(next) = self.inner.store.run(id).await? else { return Ok(()) };
            above = next;
            depth += 1;
        }
    }

    /// The run that the child's key names.
    async fn known_child(&self, agent_id: &str, asked: &Asked) -> Result<Found, ChildError> {
        let found = match self.inner.store.run_by_exchange(&asked.session_id, &asked.exchange_id).await {
            // What it said is gone.
            Err(ReadError::Removed(_)) => return Ok(Found::Useless),
            found => found?,
        };
        let Some((record, digest)) = found else { return Ok(Found::Nothing) };
        Ok(match RunStatus::from_wire(&record.status) {
            Some(RunStatus::Failed | RunStatus::Cancelling | RunStatus::Cancelled) => Found::Useless,
            _ => Found::Child(Box::new(record), asked.is_known_by(&digest, agent_id)),
        })
    }

    /// Makes a run that is there a child of this attempt.
    async fn take_in(&self, core: Arc<RunCore>, record: RunRecord, child: ChildRun) -> Result<Child, ChildError> {
        if let Some(attached) = core.family().attached(&record.run_id) {
            return Ok(Child::new(core, &record, attached));
        }
        if !core.family().add(&record.run_id) {
            return Err(being_stopped().into());
        }
        let open = open_segment(&core, &record, child).await.inspect_err(|_| core.family().forget(&record.run_id))?;
        let attached = self.watch_child(&core, record.run_id.clone(), open);
        Ok(Child::new(core, &record, attached))
    }

    async fn create_child(
        &self,
        core: Arc<RunCore>,
        parent: &RunRecord,
        agent: Agent,
        child: ChildRun,
        run_id: String,
        asked: Asked,
    ) -> Result<Child, ChildError> {
        let lane = self.lane_of(&agent, child.lane.clone())?;
        let Asked { session_id, exchange_id, mut input, digest } = asked;
        if child.request.session_id().is_some() {
            self.check_waits_for_nothing(&agent, &session_id).await?;
        }
        // Before anybody can know the run: whoever wants to stop it finds it here from its first moment on.
        let hold = self.inner.runs.hold(&run_id).expect("nobody has a run whose id was made for it");
        if !core.family().add(&run_id) {
            return Err(being_stopped().into());
        }
        let new = NewRun {
            run_id: run_id.clone(),
            agent_id: agent.id.clone(),
            session_id: session_id.clone(),
            exchange_id,
            input_digest: digest,
            lane,
            status: RunStatus::Queued.as_str().to_owned(),
            created_at: now().unix_millis(),
            principal: parent.principal.clone(),
            trigger_kind: CHILD.to_owned(),
            agent_revision_id: agent.revision.clone(),
            parent_run_id: Some(parent.run_id.clone()),
            metadata: child.metadata.clone(),
            input: serde_json::to_value(&input).unwrap_or_default(),
        };
        let place = Key::new(&agent.id, &session_id);
        let created = async {
            let turn = self.place_of_child(&agent, &run_id, &place).await?;
            match self.inner.store.create_run(new).await {
                Err(CreateError::SessionOfAnother { session_id }) => {
                    Err(CreateRunError::SessionNotYours { session_id })
                }
                Err(error) => Err(error.into()),
                Ok(Created::New(record)) => Ok((record, turn)),
                // Children of one attempt are made one after the other, and nobody else makes such an exchange.
                Ok(Created::Existing { record, .. }) => {
                    Err(CreateRunError::OtherInput { session_id, exchange_id: record.run_id })
                }
            }
        };
        let (record, turn) = created.await.inspect_err(|_| core.family().forget(&run_id))?;
        let open = match open_segment(&core, &record, child).await {
            Ok(open) => open,
            Err(error) => {
                // It is in the store, so it has to end.
                core.family().forget(&run_id);
                self.inner.runs.ask_to_stop(&run_id);
                self.let_go_and_log(&run_id, hold).await;
                return Err(error.into());
            }
        };
        let attached = self.watch_child(&core, run_id.clone(), open);
        match self.inner.store.take_ownership(&run_id).await {
            Ok(appender) => {
                let continued = Continued::new(&run_id, &mut input);
                self.start(agent, &record, input, continued, Ready { appender, hold, turn });
            }
            Err(error) => {
                let why = format!("the run could not be started: {}", error.reason());
                self.inner.tasks.spawn(self.clone().end_patiently(run_id, why, Some(hold)));
            }
        }
        Ok(Child::new(core, &record, attached))
    }

    /// A child does not wait for an answer that another run of its session waits for.
    async fn check_waits_for_nothing(&self, agent: &Agent, session_id: &str) -> Result<(), ChildError> {
        let session = ExchangeRecord {
            session_id: session_id.to_owned(),
            exchange_id: String::new(),
            input_digest: String::new(),
        };
        match self.newest_run(agent, &session, &[RunStatus::Suspended]).await? {
            Some(waiting) => {
                Err(CreateRunError::SessionBusy { agent_id: agent.id.clone(), run_id: waiting.run_id }.into())
            }
            None => Ok(()),
        }
    }

    /// Watches the children whose segments an earlier exchange of the run left open.
    pub(crate) fn watch_open_children(&self, core: &Arc<RunCore>) {
        let Ok(open) = core.write(|recorder, _| recorder.open_children()) else { return };
        for (run_id, open) in open {
            if core.family().add(&run_id) {
                self.watch_child(core, run_id, open);
            }
        }
    }

    /// Follows a child until it has ended, or the attempt of the parent has: then its segment ends too, and who waits is told.
    fn watch_child(&self, core: &Arc<RunCore>, run_id: String, open: Open<kind::Agent>) -> Attached {
        let (tell, standing) = watch::channel(Standing::default());
        let attached = Attached { segment: open.id().clone(), standing };
        core.family().attach(&run_id, attached.clone());
        let (engine, core) = (self.clone(), core.clone());
        let over = core.family().over();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = engine.watching(&core, &run_id, open, &tell) => {}
            }
        });
        attached
    }

    async fn watching(
        &self,
        core: &Arc<RunCore>,
        run_id: &str,
        open: Open<kind::Agent>,
        tell: &watch::Sender<Standing>,
    ) {
        let writer = RunWriter::new(core.clone());
        let mut log = ChildLog::default();
        let mut read = 0;
        let end = loop {
            match self.next_of_child(run_id, &mut read, &mut log, tell).await {
                Ok(ChildEnd::Suspended(waiting)) => {
                    let what = match &waiting.prompt {
                        Some(prompt) => {
                            format!("run `{run_id}`, which this run started, waits for an answer: {prompt}")
                        }
                        None => format!("run `{run_id}`, which this run started, waits for an answer"),
                    };
                    let about = Map::from_iter([("childRunId".to_owned(), Value::from(run_id))]);
                    let _ = writer
                        .write_at_once(|r, now| {
                            r.notice(now, NoticeLevel::Info, "child_waits", what, Some(about));
                        })
                        .await;
                    tell.send_modify(|standing| {
                        standing.suspensions += 1;
                        standing.end = Some(ChildEnd::Suspended(waiting));
                    });
                }
                Ok(end) => break end,
                Err(Unread::Yet(problem)) => {
                    tracing::warn!(%run_id, %problem, "a child's log cannot be read yet; it is read again");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(Unread::Ever(problem)) => {
                    tracing::error!(%run_id, %problem, "a child's log cannot be read; its parent is told that it failed");
                    let message = format!("the log of run `{run_id}` cannot be read: {problem}");
                    break ChildEnd::Failed { code: ErrorCode::InternalError, message, retryable: false };
                }
            }
        };
        if core.bounds.budget.counts_children()
            && let Err(error) = core.bounds.budget.read_children(&self.inner.store, core.run_id()).await
        {
            tracing::warn!(%run_id, %error, "what a child used cannot be read, and does not count against its parent's limits");
        }
        let ending = ending(&end);
        // A parent that is over has closed the segment.
        let _ = writer.write_at_once(|r, now| r.end(now, open, ending)).await;
        tell.send_modify(|standing| standing.end = Some(end));
    }

    /// Reads on in a child's log until it has come to something. A question that was answered since is nothing to tell.
    async fn next_of_child(
        &self,
        run_id: &str,
        read: &mut u64,
        log: &mut ChildLog,
        tell: &watch::Sender<Standing>,
    ) -> Result<ChildEnd, Unread> {
        let mut tail = self.inner.store.tail(run_id, *read).await?;
        let mut waiting = None;
        loop {
            match tail.next().await? {
                TailItem::Frames(entries) => {
                    for entry in entries {
                        let frame = Frame::decode(&entry.body()).map_err(|e| Unread::Ever(e.to_string()))?;
                        *read = entry.seq();
                        if matches!(frame.data, Data::Resume(_)) {
                            waiting = None;
                            tell.send_modify(|standing| standing.end = None);
                        }
                        match log.apply(&frame) {
                            Some(ChildEnd::Suspended(question)) => waiting = Some(ChildEnd::Suspended(question)),
                            Some(end) => return Ok(end),
                            None => {}
                        }
                    }
                    if *read >= tail.head()
                        && let Some(waiting) = waiting.take()
                    {
                        return Ok(waiting);
                    }
                }
                TailItem::Ended => {
                    return Err(Unread::Ever("it has ended, and its log does not say how".to_owned()));
                }
            }
        }
    }

    /// Stops what a run has started and nobody needs any more, as far as it is unfinished. `known` are those that may not be in
    /// the store yet. What cannot be stopped now is said in the operator's log.
    pub(crate) fn stop_children(&self, run_id: &str, unneeded: Unneeded, known: Vec<String>) -> BoxFuture<'static, ()> {
        let (engine, run_id) = (self.clone(), run_id.to_owned());
        async move {
            let mut children: HashSet<String> = known.into_iter().collect();
            match engine.unfinished_children(&run_id).await {
                Ok(found) => children.extend(found),
                Err(error) => {
                    tracing::error!(%run_id, %error, "what the run has started cannot be read, and may go on")
                }
            }
            for child in children {
                let stopped = match &unneeded {
                    Unneeded::All => true,
                    Unneeded::Unkeyed => !engine.is_keyed(&child).await,
                    Unneeded::AllBut(these) => !these.contains(&child),
                };
                if stopped && let Err(error) = engine.stop(&child).await {
                    tracing::error!(%run_id, %child, %error, "a run that another had started could not be stopped");
                }
            }
        }
        .boxed()
    }

    async fn unfinished_children(&self, run_id: &str) -> Result<Vec<String>, ReadError> {
        const UNFINISHED: [RunStatus; 4] =
            [RunStatus::Queued, RunStatus::Running, RunStatus::Suspended, RunStatus::Retrying];
        let mut children = Vec::new();
        let mut filter = RunFilter {
            parent_run_id: Some(run_id.to_owned()),
            status: UNFINISHED.iter().map(|status| status.as_str().to_owned()).collect(),
            limit: 1000,
            ..RunFilter::default()
        };
        loop {
            let page = self.inner.store.runs(filter.clone()).await?;
            let Some(last) = page.last() else { return Ok(children) };
            filter.before = Some(last.cursor());
            // Anybody may name a run as the parent of theirs; that does not make theirs one that it started.
            children.extend(page.into_iter().filter(|run| run.trigger_kind == CHILD).map(|run| run.run_id));
        }
    }

    /// Whether a child was started with a key: then its AG-UI run is named by that, and not by the run itself.
    async fn is_keyed(&self, run_id: &str) -> bool {
        match self.inner.store.input(run_id).await {
            Ok(Some(input)) => input.get("runId").and_then(Value::as_str) != Some(run_id),
            // Nothing is stopped for not being readable.
            _ => true,
        }
    }

    /// Whether an unfinished child that nobody has in hand has a parent which can still use it.
    pub(super) async fn is_needed(&self, child: &RunRecord) -> Result<bool, ReadError> {
        let (true, Some(parent_id)) = (child.trigger_kind == CHILD, &child.parent_run_id) else { return Ok(true) };
        // A parent that was removed had ended, and what it left running goes on.
        let Some(parent) = self.inner.store.run(parent_id).await? else { return Ok(true) };
        let attempt = self.inner.runs.lingering(parent_id);
        Ok(match RunStatus::from_wire(&parent.status) {
            Some(RunStatus::Completed | RunStatus::Suspended) => true,
            Some(RunStatus::Failed | RunStatus::Cancelling | RunStatus::Cancelled) => false,
            _ => attempt.is_some_and(|core| core.family().has(&child.run_id)) || self.is_keyed(&child.run_id).await,
        })
    }
}

/// What is known of a child by its key.
enum Found {
    /// It was never made.
    Nothing,
    /// It came to nothing, so it is made again.
    Useless,
    /// It is there; and whether it was asked the same.
    Child(Box<RunRecord>, bool),
}

/// What a child is asked, with its ids.
fn asked(core: &RunCore, child: &ChildRun, run_id: &str, number: u32) -> Asked {
    let exchange_id = match &child.key {
        Some(key) => format!("{}.{number}.{key}", core.run_id()),
        None => run_id.to_owned(),
    };
    let mut request = child.request.clone();
    match &mut request {
        RunRequest::Input(input) => {
            input.run_id.clone_from(&exchange_id);
            input.parent_run_id = None;
        }
        RunRequest::Prompt { .. } => {}
    }
    // By its key the same child has the same session and message in each attempt.
    let mut input = complete_input(request, &exchange_id);
    if child.request.session_id().is_none()
        && let Some(key) = &child.key
    {
        let named = format!("{} {key}", core.run_id());
        input.thread_id = format!("session_{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, named.as_bytes()).simple());
    }
    let digest = input_digest(&child.agent_id, &input);
    // The parent's exchange may be another one when the child is found again, so it is no part of the digest.
    input.parent_run_id = Some(core.input().run_id.clone());
    Asked { session_id: input.thread_id.clone(), exchange_id, input, digest }
}

async fn open_segment(
    core: &Arc<RunCore>,
    child: &RunRecord,
    asked: ChildRun,
) -> Result<Open<kind::Agent>, WriteError> {
    let mut opening = asked.opening;
    opening.name.get_or_insert_with(|| child.agent_id.clone());
    RunWriter::new(core.clone()).write(|r, now| r.open_child(now, &child.run_id, opening)).await
}

fn being_stopped() -> WriteError {
    WriteError::Stopped("what is being stopped starts no other run".to_owned())
}

/// How the parent's segment ends.
fn ending(end: &ChildEnd) -> Ending {
    match end {
        ChildEnd::Completed { .. } | ChildEnd::Suspended(_) => Ending::completed(),
        ChildEnd::Cancelled { .. } => Ending::with_status(SegmentStatus::Cancelled),
        ChildEnd::Failed { code, message, .. } => {
            let error = SegmentError { code: *code, message: message.clone(), extra: Map::new() };
            Ending { error: Some(error), ..Ending::with_status(SegmentStatus::Failed) }
        }
    }
}
