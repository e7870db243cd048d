//! How a driver writes a run's log.
//!
//! All of a run's writing goes through one [`RunCore`]: under its lock the recorder makes frames and the appender takes
//! them, so that the order of calls is the order of the log. The lock is never held across an await; waiting happens
//! before it, when too much of the run's log is still on its way to the store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use runwire_agui::{Event, RunAgentInput, RunStarted};
use runwire_bridge::{
    COALESCE_MILLIS, ExchangeEnd, Failure, Ingest, LogState, Open, Opening, Recorded, Recorder, Replayed,
    UnansweredCall, kind, started_members,
};
use runwire_frame::{Data, ErrorCode, NoticeLevel, RunStart, RunStatus, Timestamp};
use runwire_store::{Append, AppendError, Appender, NewFrame, NewPayload, Progress, RunUpdate};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::answers::LeftOut;
use crate::clock::now;
use crate::said::{self, within_depth};
use crate::segment::{RecordedCall, Segment};

/// So many of a run's frames may wait for the store before its driver has to wait.
const MAX_FRAMES_IN_FLIGHT: usize = 512;
/// So many bytes of them.
const MAX_BYTES_IN_FLIGHT: usize = 1024 * 1024;

/// Something was not written to the run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The run has ended.
    #[error("the run has ended; nothing more can be written to it")]
    Ended,
    /// A conforming client would reject it, so nothing was written. The run can go on without it.
    #[error("the run's log cannot take this: {0}")]
    Refused(String),
    /// The store does not take the run's frames any more.
    #[error(transparent)]
    Store(#[from] AppendError),
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        let retryable = !matches!(error, WriteError::Refused(_));
        let message = match error {
            WriteError::Store(error) => error.reason(),
            error => error.to_string(),
        };
        Failure { retryable, ..Failure::new(ErrorCode::InternalError, message) }
    }
}

enum Phase {
    /// Nothing of this exchange is in the log yet.
    Waiting(LogState),
    Recording(Recorder),
    /// The exchange is over.
    Over,
}

struct Inner {
    phase: Phase,
    appender: Appender,
    /// Asked to stop, perhaps before it began.
    stopping: bool,
}

/// What `run.start` says of a run, known before it begins.
pub(crate) struct Identity {
    pub agent_id: String,
    pub agent_revision_id: Option<String>,
    pub session_id: String,
    pub lane: String,
    pub trigger_kind: String,
    /// Whose session it is, and so who alone can answer when it waits; `None` on a server without tokens.
    pub principal: Option<String>,
}

/// A run's log while one of its exchanges is executed. Shared by the execution and by the driver's handles.
pub(crate) struct RunCore {
    identity: Identity,
    input: Arc<RunAgentInput>,
    /// What the input's `resume` said beyond `input`: told as soon as the exchange begins.
    left_out: LeftOut,
    inner: Mutex<Inner>,
    progress: Progress,
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
    ) -> Arc<RunCore> {
        let progress = appender.progress();
        let inner = Mutex::new(Inner { phase: Phase::Waiting(state), appender, stopping: false });
        Arc::new(RunCore { identity, input, left_out, inner, progress, pending: Notify::new() })
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
        let mut agui = started.map(started_members).unwrap_or_default();
        for (key, value) in exchange_members(&self.input) {
            agui.entry(key).or_insert(value);
        }
        let mut recorder = if state.status() == RunStatus::Suspended {
            let resolved_by = self.identity.principal.clone();
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
            Phase::Waiting(_) => true,
            Phase::Recording(recorder) => {
                recorder.cancelling(now());
                // The error stays with the run's progress, where the execution sees it.
                let _ = inner.hand_on();
                true
            }
            Phase::Over => false,
        }
    }

    /// Whether the run was asked to stop, whatever of that has reached its log.
    pub(crate) fn asked_to_stop(&self) -> bool {
        self.lock().stopping
    }

    /// Whether the exchange is over.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.lock().phase, Phase::Over)
    }

    /// Ends the exchange, once: what comes first counts. A run that was asked to stop ends as cancelled, whatever the
    /// driver still says.
    pub(crate) fn end(&self, end: ExchangeEnd) -> Result<(), WriteError> {
        self.begin(None);
        let mut inner = self.lock();
        let Phase::Recording(recorder) = std::mem::replace(&mut inner.phase, Phase::Over) else {
            return Err(WriteError::Ended);
        };
        let now = now();
        let end = said::exchange_end(end, recorder.state());
        // A run that was asked to stop is cancelled by each of these: the recorder sees to that.
        let recorded = match end {
            ExchangeEnd::Cancelled { usage, agui } => recorder.cancel(now, &usage, agui),
            ExchangeEnd::Completed(completion) => recorder.complete(now, completion),
            ExchangeEnd::Failed(failure) => recorder.fail(now, failure),
            ExchangeEnd::Suspended(suspension) => recorder.suspend(now, suspension).0,
        };
        Ok(inner.append(recorded)?)
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
        self.appender.enqueue(to_append(recorded))
    }
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
                update.get_or_insert_default().status = Some(change.status.as_str().to_owned());
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

/// Writes a run's log. Cheap to clone; several tasks may write at once, and each call is one moment of the log.
///
/// Each method waits while too much of the run is on its way to the store, and then writes without waiting. It is
/// cancel-safe: dropped while it waits, it has written nothing.
#[derive(Clone)]
pub struct RunWriter {
    core: Arc<RunCore>,
}

impl RunWriter {
    pub(crate) fn new(core: Arc<RunCore>) -> RunWriter {
        RunWriter { core }
    }

    pub(crate) async fn write<R>(&self, record: impl FnOnce(&mut Recorder, Timestamp) -> R) -> Result<R, WriteError> {
        self.core.progress.wait_below(MAX_FRAMES_IN_FLIGHT, MAX_BYTES_IN_FLIGHT).await?;
        self.core.write(record)
    }

    fn segment<K>(&self, open: Open<K>) -> Segment<K> {
        Segment::new(self.clone(), open)
    }

    /// Opens a segment, if it can be opened so.
    async fn open<K>(
        &self,
        opening: Opening,
        open: impl FnOnce(&mut Recorder, Timestamp, Opening) -> Open<K>,
    ) -> Result<Segment<K>, WriteError> {
        let opened = self.write(|r, now| {
            said::opening(&opening, r.state())?;
            Ok::<_, WriteError>(open(r, now, opening))
        });
        Ok(self.segment(opened.await??))
    }

    /// Opens a model call.
    ///
    /// # Errors
    /// As all writing: when the run has ended or the store fails. And [`WriteError::Refused`] for a parent that this run
    /// never opened, and for what `opening.agui` must not say.
    pub async fn model(&self, opening: Opening) -> Result<Segment<kind::Model>, WriteError> {
        self.open(opening, Recorder::open_model).await
    }

    /// Opens a message.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn message(&self, opening: Opening) -> Result<Segment<kind::Message>, WriteError> {
        self.open(opening, Recorder::open_message).await
    }

    /// Opens a stretch of reasoning.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn reasoning(&self, opening: Opening) -> Result<Segment<kind::Reasoning>, WriteError> {
        self.open(opening, Recorder::open_reasoning).await
    }

    /// Opens a step.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn step(&self, opening: Opening) -> Result<Segment<kind::Step>, WriteError> {
        self.open(opening, Recorder::open_step).await
    }

    /// Opens a child agent's work.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn agent(&self, opening: Opening) -> Result<Segment<kind::Agent>, WriteError> {
        self.open(opening, Recorder::open_agent).await
    }

    /// Opens a tool call. Its id is the conversation's: an answer from outside names the call by it.
    ///
    /// # Errors
    /// As [`RunWriter::model`]; and [`WriteError::Refused`] while another call of that id waits for its result, and for an
    /// id that is another agent's call already, in this run or in the conversation.
    pub async fn tool(
        &self,
        tool_call_id: &str,
        tool_slug: &str,
        opening: Opening,
    ) -> Result<Segment<kind::Tool>, WriteError> {
        let open = self.write(|r, now| {
            if r.open_tools().iter().any(|(open, _)| open == tool_call_id) {
                return Err(WriteError::Refused(format!("tool call `{tool_call_id}` is open already")));
            }
            said::opening(&opening, r.state())?;
            said::tool_call(tool_call_id, &opening, r.state(), &self.core.input)?;
            Ok(r.open_tool(now, tool_call_id, tool_slug, opening))
        });
        Ok(self.segment(open.await??))
    }

    /// The tool calls of this run's earlier exchanges that wait for their result, in the order in which they were made: how a
    /// driver whose run is resumed gets their handles back. To be asked for once, before the driver makes calls of its own.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn recorded_calls(&self) -> Result<Vec<RecordedCall>, WriteError> {
        let calls = self.core.write(|r, _| r.unanswered_calls())?;
        let taken_up = |call: UnansweredCall| RecordedCall {
            tool_call_id: call.tool_call_id,
            tool_slug: call.tool_slug,
            arguments: call.arguments,
            segment: Segment::taken_up(self.clone(), call.open, call.arguments_complete),
        };
        Ok(calls.into_iter().map(taken_up).collect())
    }

    /// Says why a run is stopped that did not fail, such as at a limit that the operator set; the driver returns
    /// [`ExchangeEnd::Cancelled`] after it. A failure says its own reason when it is returned.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn stopping_because(&self, code: ErrorCode, message: &str) -> Result<(), WriteError> {
        self.write(|r, now| r.error(now, code, message, false)).await
    }

    /// Replaces the agent's state. Any JSON value.
    ///
    /// # Errors
    /// As [`RunWriter::model`]; and [`WriteError::Refused`] for a value of more than
    /// [`MAX_VALUE_DEPTH`](runwire_frame::MAX_VALUE_DEPTH) levels.
    pub async fn state_snapshot(&self, snapshot: Value) -> Result<(), WriteError> {
        within_depth(&snapshot)?;
        self.write(|r, now| r.state_snapshot(now, snapshot)).await
    }

    /// Changes the agent's state by an RFC 6902 patch, a list of operations.
    ///
    /// # Errors
    /// As [`RunWriter::state_snapshot`]; and [`WriteError::Refused`] for what is no such patch.
    pub async fn state_delta(&self, patch: Value) -> Result<(), WriteError> {
        within_depth(&patch)?;
        Event::from_value(json!({ "type": "STATE_DELTA", "delta": patch }))
            .map_err(|e| WriteError::Refused(format!("it is no patch of the state: {e}")))?;
        self.write(|r, now| r.state_delta(now, patch)).await
    }

    /// An event of the application's own.
    ///
    /// # Errors
    /// As [`RunWriter::state_snapshot`].
    pub async fn custom(&self, name: &str, value: Value) -> Result<(), WriteError> {
        within_depth(&value)?;
        self.write(|r, now| r.custom(now, name, value)).await
    }

    /// Something worth telling that is neither output nor an error.
    ///
    /// # Errors
    /// As [`RunWriter::state_snapshot`]; and [`WriteError::Refused`] for a code that begins with `agui.`, unless the
    /// attributes are the event that it names, and one that opens, closes and continues nothing.
    pub async fn notice(
        &self,
        level: NoticeLevel,
        code: &str,
        message: &str,
        attributes: Option<Map<String, Value>>,
    ) -> Result<(), WriteError> {
        said::notice(code, attributes.as_ref())?;
        self.write(|r, now| r.notice(now, level, code, message, attributes)).await
    }

    /// The ingest of an upstream agent's events into this run.
    ///
    /// # Errors
    /// When the run has ended.
    pub(crate) fn ingest(&self, input: &RunAgentInput) -> Result<Ingest, WriteError> {
        self.core.write(|r, _| Ingest::resumed(input, r))
    }

    /// Writes one event of an upstream agent.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub(crate) async fn record(&self, ingest: &mut Ingest, event: &Event) -> Result<(), WriteError> {
        self.write(|r, now| ingest.record(r, now, event)).await
    }

    /// Writes what an upstream agent replayed of earlier runs.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub(crate) async fn record_replayed(&self, ingest: &mut Ingest, replayed: &Replayed) -> Result<(), WriteError> {
        self.write(|r, now| ingest.record_replayed(r, now, replayed, &self.core.input)).await
    }
}
