//! How a driver writes a run's log.
//!
//! All of it goes through the run's [`RunCore`]. Waiting happens before that, when too much of the run's log is still on its way
//! to the store.

use std::borrow::Cow;
use std::sync::Arc;

use runwire_agui::{Event, RunAgentInput};
use runwire_bridge::{Failure, Ingest, Open, Opening, Recorder, Replayed, kind};
use runwire_frame::{ErrorCode, NoticeLevel, SegmentId, Timestamp};
use runwire_store::AppendError;
use serde_json::{Map, Value, json};

use crate::child::{Child, ChildError, ChildRun};
use crate::held_arguments::{HeldArguments, is_concerned, redacted};
use crate::limits::{Begun, Reached};
use crate::payloads::PayloadPolicy;
use crate::run_core::RunCore;
use crate::said::{self, within_depth};
use crate::segment::Segment;

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
    /// The run is being stopped, because it reached a limit or a guardrail objected: nothing more can be begun.
    #[error("the run is being stopped: {0}")]
    Stopped(String),
    /// The store does not take the run's frames any more.
    #[error(transparent)]
    Store(#[from] AppendError),
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        let retryable = !matches!(error, WriteError::Refused(_) | WriteError::Stopped(_));
        let message = match error {
            WriteError::Store(error) => error.reason(),
            error => error.to_string(),
        };
        Failure { retryable, ..Failure::new(ErrorCode::InternalError, message) }
    }
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
        self.core.has_slot().await;
        self.write_at_once(record).await
    }

    /// Writes what is not the driver's work, and so needs no slot of the run's lane.
    pub(crate) async fn write_at_once<R>(
        &self,
        record: impl FnOnce(&mut Recorder, Timestamp) -> R,
    ) -> Result<R, WriteError> {
        self.core.progress().wait_below(MAX_FRAMES_IN_FLIGHT, MAX_BYTES_IN_FLIGHT).await?;
        self.core.write(record)
    }

    /// Judges a piece of output before it is written.
    pub(crate) fn guard_output(&self, segment: &SegmentId, piece: &str) -> Result<(), WriteError> {
        self.core.guarded(self.core.bounds.guards.output(segment.as_str(), piece))
    }

    /// Judges a segment's output that is whole.
    pub(crate) async fn guard_output_ended(&self, segment: &SegmentId) -> Result<(), WriteError> {
        self.core.guarded(self.core.bounds.guards.output_ended(segment.as_str()).await)
    }

    /// Takes up a piece of a call's arguments.
    pub(crate) fn guard_arguments(&self, segment: &SegmentId, piece: &str) {
        self.core.bounds.guards.arguments(segment.as_str(), piece);
    }

    /// Judges a call whose arguments are complete.
    pub(crate) async fn guard_call(&self, segment: &SegmentId) -> Result<(), WriteError> {
        self.core.guarded(self.core.bounds.guards.call_complete(segment.as_str()).await)
    }

    /// Waits until everything that was written so far is in the store, deltas that wait to be joined included.
    ///
    /// # Errors
    /// When the run has ended, or the store takes no more of it.
    pub(crate) async fn flush(&self) -> Result<(), WriteError> {
        self.core.write(|recorder, now| recorder.flush(now))?;
        Ok(self.core.progress().flush().await?)
    }

    /// What is kept of the run beside its log, and what is taken out.
    pub(crate) fn payloads(&self) -> &PayloadPolicy {
        &self.core.bounds.payloads
    }

    /// The arguments of a call, as they are kept in the run's log: without what the agent's policy takes out of them.
    pub fn arguments_as_kept<'a>(&self, arguments: &'a str) -> Cow<'a, str> {
        self.payloads().redaction.arguments(arguments)
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
    /// never opened, and for what `opening.agui` must not say. [`WriteError::Stopped`] when the run has used what it may:
    /// then it is being stopped, and the call must not be made.
    pub async fn model(&self, opening: Opening) -> Result<Segment<kind::Model>, WriteError> {
        self.core.admit(Begun::ModelCall)?;
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

    /// Opens the work of an agent inside of this run, whose account is this run's. An agent as a run of its own is started by
    /// [`RunWriter::child`].
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn agent(&self, opening: Opening) -> Result<Segment<kind::Agent>, WriteError> {
        self.open(opening, Recorder::open_agent).await
    }

    /// Starts a run of another agent, or of the same one, and opens the `agent` segment that stands for it, with its
    /// `child_run_id`. The child has its own log, session, lane, attempts, limits and account; what it uses is never part of
    /// what this run used. It has the principal of this run, so whoever may see this run may see it.
    ///
    /// The segment ends with the child, whoever waits for that: [`Child::ended`] does. A child that asks something is told by
    /// the notice `child_waits`, and goes on when its own run is answered.
    ///
    /// What becomes of unfinished children, and of theirs, when this run
    ///
    /// - is stopped, also at a limit, or fails for good: they are stopped;
    /// - completes: they go on; their segments end as `abandoned`. Those that an earlier attempt left behind are stopped;
    /// - waits for an answer: they go on, and are watched again when it is resumed;
    /// - has another attempt, after a failure or a crash: those with a [key](ChildRun::key) go on, the others are stopped. When
    ///   the next attempt asks for a child with the same key and the same request it gets that one, running or completed. One
    ///   that has failed or was stopped is started once more.
    ///
    /// Dropping the future may leave a child that was started: it is one like the others.
    ///
    /// # Errors
    /// [`ChildError`]; nothing was started then.
    pub async fn child(&self, child: ChildRun) -> Result<Child, ChildError> {
        self.core.admit(Begun::ChildRun)?;
        let engine = self.core.engine().ok_or(WriteError::Ended)?;
        engine.start_child(self.core.clone(), child).await
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
        self.core.admit(Begun::ToolCall)?;
        let open = self.write(|r, now| {
            if r.open_tools().iter().any(|(open, _)| open == tool_call_id) {
                return Err(WriteError::Refused(format!("tool call `{tool_call_id}` is open already")));
            }
            said::opening(&opening, r.state())?;
            said::tool_call(tool_call_id, &opening, r.state(), self.core.input())?;
            Ok(r.open_tool(now, tool_call_id, tool_slug, opening))
        });
        let segment = self.segment(open.await??);
        self.core.bounds.guards.call(segment.id().as_str(), tool_slug);
        Ok(segment)
    }

    /// The open tool call of that id that has no result yet: how a run that waited for an approval goes on with the call.
    /// `None` when there is none such. To be taken once: two handles of one call would answer it twice.
    ///
    /// # Errors
    /// When the run has ended or the store fails.
    pub async fn waiting_tool(&self, tool_call_id: &str) -> Result<Option<Segment<kind::Tool>>, WriteError> {
        let found = self.write(|r, _| {
            let open = r.open_tools().into_iter().find(|(id, _)| id == tool_call_id);
            let call = r.state().waiting_calls().find(|call| call.tool_call_id == tool_call_id);
            open.map(|(_, open)| (open, call.is_some_and(|call| call.arguments_complete)))
        });
        Ok(found.await?.map(|(open, complete)| Segment::going_on(self.clone(), open, complete)))
    }

    /// Says why a run is stopped that did not fail, such as at a limit that the operator set; the driver returns
    /// [`ExchangeEnd::Cancelled`](runwire_bridge::ExchangeEnd::Cancelled) after it. A failure says its own reason when it is returned.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn stopping_because(&self, code: ErrorCode, message: &str) -> Result<(), WriteError> {
        let reached = Reached { code, message: message.to_owned(), retryable: false };
        self.write(|r, now| reached.tell(r, now)).await
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

    /// Something worth telling that is neither output nor an error, without what the agent's policy takes out. Of the notices
    /// that hold an AG-UI event that is only done to `agui.RAW`: the others are the application's own.
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
        let redaction = &self.payloads().redaction;
        if redaction.is_empty() || is_the_applications(code) {
            return self.write(|r, now| r.notice(now, level, code, message, attributes)).await;
        }
        let mut attributes = attributes.map(Value::Object);
        let told = match code {
            // What is around the event that the provider sent is AG-UI's.
            "agui.RAW" => attributes.as_mut().and_then(|raw| raw.get_mut("event")),
            _ => attributes.as_mut(),
        };
        if let Some(told) = told {
            redaction.value(told);
        }
        let attributes = attributes.and_then(|attributes| match attributes {
            Value::Object(attributes) => Some(attributes),
            _ => None,
        });
        let message = redaction.text(message);
        self.write(|r, now| r.notice(now, level, code, message, attributes)).await
    }

    /// The ingest of an upstream agent's events into this run.
    ///
    /// # Errors
    /// When the run has ended.
    pub(crate) fn ingest(&self, input: &RunAgentInput) -> Result<Foreign, WriteError> {
        let ingest = self.core.write(|r, _| Ingest::resumed(input, r))?;
        Ok(Foreign { ingest, held: HeldArguments::default() })
    }

    /// Writes one event of an upstream agent.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub(crate) async fn record(&self, foreign: &mut Foreign, event: &Event) -> Result<(), WriteError> {
        self.core.guarded(self.core.bounds.guards.event(event).await)?;
        let Foreign { ingest, held } = foreign;
        let redaction = &self.payloads().redaction;
        if !is_concerned(redaction, event) {
            return self.write(|r, now| ingest.record(r, now, event)).await;
        }
        let events = held.pass(redaction, event);
        self.write(|r, now| events.iter().for_each(|event| ingest.record(r, now, event))).await
    }

    /// Writes what an upstream agent replayed of earlier runs, to which it was given this input.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub(crate) async fn record_replayed(
        &self,
        foreign: &mut Foreign,
        replayed: &Replayed,
        input: &RunAgentInput,
    ) -> Result<(), WriteError> {
        let redaction = &self.payloads().redaction;
        let snapshots = replayed.snapshots.iter().map(|snapshot| redacted(redaction, snapshot)).collect();
        let replayed = Replayed { snapshots, ..replayed.clone() };
        self.write(|r, now| foreign.ingest.record_replayed(r, now, &replayed, input)).await
    }
}

/// What is on its way from a foreign agent's events into a run.
pub(crate) struct Foreign {
    ingest: Ingest,
    held: HeldArguments,
}

/// Whether a notice holds an AG-UI event that the application and the agent have between them, such as a change of the state.
fn is_the_applications(code: &str) -> bool {
    code.starts_with("agui.") && code != "agui.RAW"
}
