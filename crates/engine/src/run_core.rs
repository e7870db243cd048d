//! A run's log while it is executed: the one place through which all of a run's writing goes.
//!
//! Under the lock of a [`RunCore`] the recorder makes frames and the appender takes them, so that the order of calls is the
//! order of the log. The lock is never held across an await.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use runwire_agui::{RunAgentInput, RunStarted};
use runwire_bridge::{
    ASKED_INPUT, COALESCE_MILLIS, Ending, ExchangeEnd, Failure, LogState, Recorded, Recorder, TOLD_NAMES,
    started_members,
};
use runwire_frame::{Data, EndStatus, ErrorCode, NoticeLevel, RunStart, RunStatus, SegmentStatus, Timestamp};
use runwire_store::{Append, AppendError, Appender, NewFrame, NewPayload, Progress, RunUpdate, Store};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::answers::LeftOut;
use crate::asking::Asking;
use crate::clock::now;
use crate::engine::{Engine, WeakEngine};
use crate::family::Family;
use crate::guardrails::{Action, Found, Guards};
use crate::lane_slot::LaneSlot;
use crate::limits::{Begun, Budget, Reached};
use crate::payloads::PayloadPolicy;
use crate::retry::RetryPolicy;
use crate::said;
use crate::writer::WriteError;

enum Phase {
    /// Nothing of this exchange is in the log yet.
    Waiting(LogState),
    Recording(Recorder),
    /// The attempt failed and another follows: it begins from here, in a [`RunCore`] of its own.
    GivenUp(LogState),
    /// The exchange is over, or its next attempt has another [`RunCore`].
    Over,
}

/// What became of an attempt that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The exchange is over with it.
    Exchange {
        /// How the run ended; `None` when it waits for an answer.
        status: Option<EndStatus>,
        /// Whether the run has ever started another.
        has_children: bool,
    },
    /// Another attempt at the exchange follows.
    Attempt {
        /// As above.
        has_children: bool,
        /// When it is due.
        next_at: Timestamp,
    },
}

struct Inner {
    phase: Phase,
    /// `None` once the next attempt has it.
    appender: Option<Appender>,
    /// Asked to stop, perhaps before it began.
    stopping: bool,
    /// A guardrail stopped it: how it ends, whatever its driver still says. Nothing more is written until then.
    blocked: Option<Failure>,
    /// What the input calls otherwise than the agent does.
    told_names: Option<Value>,
}

/// What `run.start` says of a run, known before it begins.
#[derive(Clone)]
pub(crate) struct Identity {
    pub run_id: String,
    pub agent_id: String,
    pub agent_revision_id: Option<String>,
    pub session_id: String,
    pub lane: String,
    pub trigger_kind: String,
    /// Who answered, when the run goes on; `None` on a server without tokens.
    pub resolved_by: Option<String>,
}

/// What an exchange is held to, in all of its attempts.
#[derive(Clone)]
pub(crate) struct Bounds {
    /// What the run may use.
    pub budget: Arc<Budget>,
    /// What looks at what goes through it.
    pub guards: Arc<Guards>,
    /// How it waits for answers.
    pub asking: Asking,
    /// The slot of its lane. Each attempt has one of its own.
    pub slot: Arc<LaneSlot>,
    /// What starts other runs for it. Not a strong one: a handle that is left behind keeps no engine.
    pub engine: WeakEngine,
    /// What is kept of it beside the log, and what is taken out.
    pub payloads: Arc<PayloadPolicy>,
}

/// A run's log while one of its exchanges is executed. Shared by the execution and by the driver's handles.
pub(crate) struct RunCore {
    identity: Identity,
    input: Arc<RunAgentInput>,
    /// What the input's `resume` said beyond `input`: told as soon as the exchange begins.
    left_out: LeftOut,
    inner: Mutex<Inner>,
    progress: Progress,
    pub(crate) bounds: Bounds,
    /// What this attempt has started.
    family: Family,
    /// Cancelled when the run is asked to stop. What is over with that are all attempts of the exchange.
    exchange_stop: CancellationToken,
    /// Its child, which the driver has: also cancelled when something stops this attempt only, such as a guardrail that
    /// could not judge.
    stop: CancellationToken,
    /// Wakes [`RunCore::flush_when_due`] when deltas begin to wait.
    pending: Notify,
}

impl RunCore {
    pub(crate) fn new(
        identity: Identity,
        input: Arc<RunAgentInput>,
        left_out: LeftOut,
        state: LogState,
        appender: Appender,
        bounds: Bounds,
        exchange_stop: CancellationToken,
    ) -> Arc<RunCore> {
        let progress = appender.progress();
        let inner = Inner {
            phase: Phase::Waiting(state),
            appender: Some(appender),
            stopping: false,
            blocked: None,
            told_names: None,
        };
        Arc::new(RunCore {
            identity,
            input,
            left_out,
            inner: Mutex::new(inner),
            progress,
            bounds,
            family: Family::new(),
            stop: exchange_stop.child_token(),
            exchange_stop,
            pending: Notify::new(),
        })
    }

    /// The next attempt at the exchange, after this one [ended](Ended::Attempt) so; whoever still has a handle of this one
    /// writes nothing any more. A stop that was asked for meanwhile goes over to it.
    ///
    /// `None` when no attempt follows this one.
    pub(crate) fn next_attempt(&self) -> Option<Arc<RunCore>> {
        let mut inner = self.lock();
        let Phase::GivenUp(_) = inner.phase else { return None };
        let Phase::GivenUp(state) = std::mem::replace(&mut inner.phase, Phase::Over) else { return None };
        let (appender, stopping) = (inner.appender.take(), inner.stopping);
        let told_names = inner.told_names.take();
        let next = Inner { phase: Phase::Waiting(state), appender, stopping, blocked: None, told_names };
        Some(Arc::new(RunCore {
            identity: self.identity.clone(),
            input: self.input.clone(),
            // Told with the first.
            left_out: LeftOut::default(),
            inner: Mutex::new(next),
            progress: self.progress.clone(),
            bounds: Bounds { slot: self.bounds.slot.next(), ..self.bounds.clone() },
            family: Family::new(),
            stop: self.exchange_stop.child_token(),
            exchange_stop: self.exchange_stop.clone(),
            pending: Notify::new(),
        }))
    }

    /// What the input calls otherwise than the agent does, for the exchange's beginning to say.
    pub(crate) fn call_as_told(&self, names: Option<Value>) {
        self.lock().told_names = names;
    }

    /// The attempt that failed last, while the next one has not begun.
    pub(crate) fn between_attempts(&self) -> Option<u32> {
        match &self.lock().phase {
            Phase::Waiting(state) if state.between_attempts() => Some(state.attempt()),
            _ => None,
        }
    }

    /// Which attempt at the run is executed with this, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        match &self.lock().phase {
            // What waits for an answer goes on within its attempt.
            Phase::Waiting(state) if state.status() != RunStatus::Suspended => state.attempt() + 1,
            Phase::Waiting(state) | Phase::GivenUp(state) => state.attempt(),
            Phase::Recording(recorder) => recorder.state().attempt(),
            Phase::Over => 0,
        }
    }

    /// The run.
    pub(crate) fn run_id(&self) -> &str {
        &self.identity.run_id
    }

    /// What this attempt has started.
    pub(crate) fn family(&self) -> &Family {
        &self.family
    }

    pub(crate) fn slot(&self) -> &Arc<LaneSlot> {
        &self.bounds.slot
    }

    /// The engine, unless it is gone.
    pub(crate) fn engine(&self) -> Option<Engine> {
        self.bounds.engine.upgrade()
    }

    /// Cancelled when this attempt has to stop.
    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Resolves when this attempt has to stop.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Whether the log has the segment of a run that this one started; `false` once the exchange is over.
    pub(crate) fn has_children(&self) -> bool {
        match &self.lock().phase {
            Phase::Waiting(state) | Phase::GivenUp(state) => state.has_children(),
            Phase::Recording(recorder) => recorder.state().has_children(),
            Phase::Over => false,
        }
    }

    /// Waits for the slot of the run's lane, which it has unless a wait for another run was given up. What is being stopped
    /// needs none in order to end.
    pub(crate) async fn has_slot(&self) {
        if !self.bounds.slot.is_held() {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                () = self.bounds.slot.take() => {}
            }
        }
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic while recording leaves frames that were never handed on; the next write hands them on in order.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the run, or goes on with it, unless that has happened.
    pub(crate) fn begin(&self, started: Option<&RunStarted>) {
        let mut inner = self.lock();
        let Phase::Waiting(state) = &inner.phase else { return };
        let started = started.filter(|started| said::started_can_be_told(started));
        let mut agui = self.bounds.payloads.redaction.members(started.map(started_members).unwrap_or_default());
        agui.extend(inner.told_names.clone().map(|names| (TOLD_NAMES.to_owned(), names)));
        for (key, value) in exchange_members(&self.input) {
            match agui.get(&key) {
                // What goes on from this exchange goes on from what was asked, whatever the agent says of it.
                Some(echo) if key == "input" && *echo != value => drop(agui.insert(ASKED_INPUT.to_owned(), value)),
                Some(_) => {}
                None => drop(agui.insert(key, value)),
            }
        }
        let mut recorder = if state.status() == RunStatus::Suspended {
            let resolved_by = self.identity.resolved_by.clone();
            Recorder::resume(state.clone(), now(), resolved_by, Some(agui))
        } else {
            let start = RunStart {
                agent_id: self.identity.agent_id.clone(),
                agent_revision_id: self.identity.agent_revision_id.clone(),
                session_id: Some(self.identity.session_id.clone()),
                lane: Some(self.identity.lane.clone()),
                trigger_kind: Some(self.identity.trigger_kind.clone()),
                attempt: state.attempt() + 1,
                extra: Map::from_iter([("agui".to_owned(), Value::Object(agui))]),
            };
            Recorder::start(state.clone(), now(), start)
        };
        recorder = recorder.priced(self.bounds.budget.pricing());
        self.left_out.tell(&mut recorder, now());
        if inner.stopping {
            recorder.cancelling(now());
        }
        inner.phase = Phase::Recording(recorder);
        let failed = inner.hand_on().err();
        if let Some(error) = failed {
            tracing::error!(%error, "the run's first frames could not be handed to the store");
        }
    }

    /// Records something and hands what comes of it to the store.
    pub(crate) fn write<R>(&self, record: impl FnOnce(&mut Recorder, Timestamp) -> R) -> Result<R, WriteError> {
        let mut inner = self.lock();
        if let Some(blocked) = &inner.blocked {
            return Err(WriteError::Stopped(blocked.message.clone()));
        }
        let Phase::Recording(recorder) = &mut inner.phase else { return Err(WriteError::Ended) };
        let waited = recorder.has_pending();
        let result = record(recorder, now());
        let waits = recorder.has_pending();
        inner.hand_on()?;
        if waits && !waited {
            self.pending.notify_one();
        }
        Ok(result)
    }

    /// The run was asked to stop: from here on it can only end as cancelled. Says whether it can still be stopped.
    pub(crate) fn cancelling(&self) -> bool {
        let mut inner = self.lock();
        inner.stopping = true;
        match &mut inner.phase {
            Phase::Waiting(_) | Phase::GivenUp(_) => true,
            Phase::Recording(recorder) => {
                recorder.cancelling(now());
                // The error stays with the run's progress, where the execution sees it.
                let _ = inner.hand_on();
                true
            }
            Phase::Over => false,
        }
    }

    /// Whether the exchange may be given to its driver, or what it may use was used up before: by the run's earlier
    /// exchanges, or by other runs. Then it begins in order to be stopped, and this is how it ends.
    pub(crate) async fn admit_exchange(&self, store: &Store) -> Result<Option<ExchangeEnd>, WriteError> {
        let Identity { agent_id, session_id, .. } = &self.identity;
        let read = async {
            self.bounds.budget.read_spent(store, agent_id, session_id).await?;
            self.bounds.budget.read_children(store, self.run_id()).await
        };
        if let Err(error) = read.await {
            let message = format!("what was spent before cannot be read: {error}");
            let failure = Failure { retryable: true, ..Failure::new(ErrorCode::InternalError, message) };
            return Ok(Some(ExchangeEnd::Failed(failure)));
        }
        let used_up = match &self.lock().phase {
            Phase::Waiting(state) => self.bounds.budget.used_up(state),
            _ => None,
        };
        if let Some(reached) = used_up {
            self.stop_at(reached)?;
            return Ok(Some(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }));
        }
        let found = tokio::select! {
            found = self.bounds.guards.input(&self.input) => found,
            // A service that does not answer keeps nobody from stopping the run.
            () = self.stop.cancelled() => return Ok(None),
        };
        if !found.is_empty() {
            self.begin(None);
        }
        match self.guarded(found) {
            // The failure that it ends with is kept; what is said here does not count.
            Err(WriteError::Stopped(_)) => Ok(Some(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None })),
            Err(error) => Err(error),
            Ok(()) => Ok(None),
        }
    }

    /// The run was executed for as long as it may be.
    pub(crate) fn stop_for_duration(&self) {
        // The error stays with the run's progress, where the execution sees it.
        let _ = self.stop_at(self.bounds.budget.duration_reached());
    }

    /// How long the run may still be executed; `None` when there is no limit.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let executed = match &self.lock().phase {
            Phase::Waiting(state) => state.executed_ms(now()),
            Phase::Recording(recorder) => recorder.state().executed_ms(now()),
            Phase::GivenUp(_) | Phase::Over => return None,
        };
        self.bounds.budget.duration().map(|limit| limit.saturating_sub(Duration::from_millis(executed)))
    }

    /// Stops the run on purpose: `error`, then it is being cancelled like any other that is stopped.
    fn stop_at(&self, reached: Reached) -> Result<(), WriteError> {
        self.begin(None);
        let stopped = self.write(|recorder, now| {
            // Once: what is being stopped already, for whatever reason, needs no other.
            if recorder.state().status() != RunStatus::Cancelling {
                recorder.flush(now);
                reached.tell(recorder, now);
                recorder.cancelling(now);
            }
        });
        self.lock().stopping = true;
        self.stop.cancel();
        stopped
    }

    /// Tells what guardrails found, and lets the run go no further if one of them stops it.
    pub(crate) fn guarded(&self, found: Vec<Found>) -> Result<(), WriteError> {
        for Found { guardrail, on, message, action, retryable, retry_after } in found {
            match action {
                Action::Warn => {
                    let what = format!("the guardrail `{guardrail}` objects: {message}");
                    let what = self.bounds.payloads.redaction.text(&what).into_owned();
                    let attributes = json!({ "guardrail": guardrail, "on": on });
                    let attributes = attributes.as_object().cloned();
                    self.write(|r, now| r.notice(now, NoticeLevel::Warning, "guardrail_warned", what, attributes))?;
                }
                Action::Stop => {
                    let message = format!("the guardrail `{guardrail}` stopped the run: {message}");
                    let failure =
                        Failure { retryable, retry_after, ..Failure::new(ErrorCode::GuardrailBlocked, &message) };
                    self.lock().blocked.get_or_insert(failure);
                    self.stop.cancel();
                    return Err(WriteError::Stopped(message));
                }
            }
        }
        Ok(())
    }

    /// Stops the run instead of letting it begin something that costs, when it has used what it may use.
    pub(crate) fn admit(&self, what: Begun) -> Result<(), WriteError> {
        let reached = match &self.lock().phase {
            Phase::Recording(recorder) => self.bounds.budget.reached(recorder.state(), what),
            _ => None,
        };
        let Some(reached) = reached else { return Ok(()) };
        let why = reached.message.clone();
        self.stop_at(reached)?;
        Err(WriteError::Stopped(why))
    }

    /// Whether the run was asked to stop, whatever of that has reached its log.
    pub(crate) fn asked_to_stop(&self) -> bool {
        self.lock().stopping
    }

    /// What the exchange was asked.
    pub(crate) fn input(&self) -> &RunAgentInput {
        &self.input
    }

    /// Who answered, when the exchange goes on with a run that waited.
    pub(crate) fn resolved_by(&self) -> Option<&str> {
        self.identity.resolved_by.as_deref()
    }

    /// Whether the exchange is over.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.lock().phase, Phase::Over)
    }

    /// Ends the attempt, once: what comes first counts. Where the policy has another attempt for its failure that one
    /// follows, otherwise the exchange is over. A run that was asked to stop ends as cancelled, whatever the driver still
    /// says.
    pub(crate) fn end(&self, end: ExchangeEnd, retry: &RetryPolicy) -> Result<Ended, WriteError> {
        {
            let mut inner = self.lock();
            // Between two attempts a stop needs no attempt in order to end.
            if let Phase::Waiting(state) = &inner.phase
                && state.between_attempts()
                && inner.stopping
            {
                let recorder = Recorder::recover(state.clone()).priced(self.bounds.budget.pricing());
                let has_children = state.has_children();
                let recorded = recorder.cancel(now(), &[], None);
                inner.phase = Phase::Over;
                inner.append(recorded)?;
                return Ok(Ended::Exchange { status: Some(EndStatus::Cancelled), has_children });
            }
        }
        self.begin(None);
        let mut inner = self.lock();
        if matches!(inner.phase, Phase::GivenUp(_)) {
            return Err(WriteError::Ended);
        }
        let end = inner.blocked.take().map_or(end, ExchangeEnd::Failed);
        let end = self.bounds.payloads.redaction.exchange_end(end);
        let Phase::Recording(mut recorder) = std::mem::replace(&mut inner.phase, Phase::Over) else {
            return Err(WriteError::Ended);
        };
        let now = now();
        let has_children = recorder.state().has_children();
        let end = match said::exchange_end(end, recorder.state()) {
            ExchangeEnd::Suspended(suspension) => self.bounds.asking.settle(suspension, &mut recorder, now),
            end => end,
        };
        // A run that was asked to stop is cancelled by each of these: the recorder sees to that.
        let recorded = match end {
            ExchangeEnd::Cancelled { usage, agui } => recorder.cancel(now, &usage, agui),
            ExchangeEnd::Completed(completion) => {
                if recorder.state().status() != RunStatus::Cancelling {
                    // They go on, and what they come to is not in this log.
                    for (_, open) in recorder.open_children() {
                        recorder.end(now, open, Ending::with_status(SegmentStatus::Abandoned));
                    }
                }
                recorder.complete(now, completion)
            }
            ExchangeEnd::Failed(failure)
                if !inner.stopping && retry.tries_again(recorder.state().attempt(), &failure) =>
            {
                let next_at = retry.next_at(recorder.state().attempt(), now, failure.retry_after);
                let failure = Failure { segments: SegmentStatus::Abandoned, ..failure };
                let (recorded, state) = recorder.retry(now, failure);
                inner.phase = Phase::GivenUp(state);
                inner.enqueue(put_off(recorded, next_at))?;
                return Ok(Ended::Attempt { has_children, next_at });
            }
            ExchangeEnd::Failed(failure) => {
                let failure = retry.explained(recorder.state().attempt(), failure);
                recorder.fail(now, failure)
            }
            ExchangeEnd::Suspended(suspension) => recorder.suspend(now, suspension).0,
        };
        let status = match recorded.frames.last().map(|frame| &frame.data) {
            Some(Data::RunEnd(end)) => Some(end.status),
            _ => None,
        };
        inner.append(recorded)?;
        Ok(Ended::Exchange { status, has_children })
    }

    /// Writes deltas that have waited long enough, for as long as it is polled. Never completes.
    pub(crate) async fn flush_when_due(&self) {
        let wait = Duration::from_millis(COALESCE_MILLIS.unsigned_abs());
        loop {
            self.pending.notified().await;
            tokio::time::sleep(wait).await;
            // The error stays with the run's progress, where the execution sees it.
            let _ = self.write(|recorder, now| recorder.flush(now));
        }
    }
}

impl Inner {
    fn hand_on(&mut self) -> Result<(), AppendError> {
        let Phase::Recording(recorder) = &mut self.phase else { return Ok(()) };
        let recorded = recorder.take();
        if recorded.is_empty() { Ok(()) } else { self.append(recorded) }
    }

    fn append(&mut self, recorded: Recorded) -> Result<(), AppendError> {
        self.enqueue(to_append(recorded))
    }

    fn enqueue(&mut self, append: Append) -> Result<(), AppendError> {
        self.appender.as_mut().ok_or(AppendError::Ended)?.enqueue(append)
    }
}

/// What was recorded of an attempt that another follows, and when that is due, for whoever executes it.
pub(crate) fn put_off(recorded: Recorded, next_at: Timestamp) -> Append {
    let mut append = to_append(recorded);
    append.update.get_or_insert_default().wakes_at = Some(Some(next_at.unix_millis()));
    append
}

/// What the first frame of an exchange says of its input beyond the frame: whoever did not make the request can still see
/// what the agent was asked.
pub(crate) fn exchange_members(input: &RunAgentInput) -> Map<String, Value> {
    let mut members = Map::from_iter([("runId".to_owned(), Value::from(input.run_id.clone()))]);
    members.extend(input.parent_run_id.clone().map(|id| ("parentRunId".to_owned(), Value::from(id))));
    members.extend(serde_json::to_value(input).ok().map(|input| ("input".to_owned(), input)));
    members
}

/// What was recorded, as the store takes it: bodies encoded once, and the run's record kept in step with the log.
pub(crate) fn to_append(recorded: Recorded) -> Append {
    let mut update = None;
    let mut frames = Vec::with_capacity(recorded.frames.len());
    for frame in recorded.frames {
        match &frame.data {
            Data::RunStart(start) => {
                let update: &mut RunUpdate = update.get_or_insert_default();
                update.attempt = Some(start.attempt);
                if start.attempt == 1 {
                    update.started_at = Some(frame.ts.unix_millis());
                }
            }
            Data::RunStatus(change) => {
                let update: &mut RunUpdate = update.get_or_insert_default();
                update.status = Some(change.status.as_str().to_owned());
                if matches!(change.previous, Some(RunStatus::Suspended | RunStatus::Retrying)) {
                    update.wakes_at = Some(None);
                }
            }
            Data::Suspend(suspend) => {
                let deadline = suspend.deadline_at.map(|deadline| deadline.unix_millis());
                update.get_or_insert_default().wakes_at = Some(deadline);
            }
            Data::RunEnd(end) => {
                let update: &mut RunUpdate = update.get_or_insert_default();
                update.ended_at = Some(frame.ts.unix_millis());
                update.usage = end.usage.as_ref().and_then(|u| serde_json::to_value(u).ok());
                update.cost = end.cost.as_ref().and_then(|c| serde_json::to_value(c).ok());
                update.failure = end
                    .failure_class
                    .as_ref()
                    .map(|class| serde_json::json!({ "code": class, "detail": end.failure_detail }));
            }
            _ => {}
        }
        frames.push(NewFrame { seq: frame.seq, body: frame.encode() });
    }
    let payloads = recorded.payloads.into_iter();
    let payloads = payloads.map(|p| NewPayload {
        segment_id: p.segment_id.as_str().to_owned(),
        content_type: p.content_type.to_owned(),
        bytes: p.bytes,
    });
    Append { frames, update, payloads: payloads.collect() }
}
