//! Writes a run's log: the only way from an agent's work to frames.
//!
//! What the protocol demands of an order is a matter of types here. An attempt begins in [`Recorder::start`], which
//! writes `run.start`. A segment's content can only be written through the [`Open`] handle that opening it returned.
//! Ending a run consumes the recorder, so nothing can follow `run.end`.
//!
//! ```compile_fail
//! # use runwire_bridge::*;
//! # fn f(mut recorder: Recorder, now: runwire_frame::Timestamp, end: Completion) {
//! recorder.complete(now, end);
//! recorder.custom(now, "late", serde_json::Value::Null); // the recorder is gone
//! # }
//! ```

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use runwire_frame::{
    Cost, Data, EndStatus, ErrorCode, ErrorData, Frame, Notice, NoticeLevel, PREVIEW_MAX_BYTES, Resume, RunEnd,
    RunStart, RunStatus, RunStatusChange, SegmentEnd, SegmentError, SegmentId, SegmentKind, SegmentStart,
    SegmentStatus, Suspend, SuspendKind, TextDelta, ThinkingDelta, Timestamp, ToolCall, ToolResult, Usage, UsageLedger,
};
use serde_json::{Map, Value, json};

use crate::coalescer::{DeltaKind, PendingDelta};
use crate::log_state::{LogState, OpenSegment, ToolState};

/// What an AG-UI event says beyond its frame; travels under the additive data key `agui`.
pub type Agui = Option<Map<String, Value>>;

/// The kinds of segment, as types.
pub mod kind {
    /// One call of a model.
    #[derive(Debug)]
    pub struct Model;
    /// One message.
    #[derive(Debug)]
    pub struct Message;
    /// Reasoning.
    #[derive(Debug)]
    pub struct Reasoning;
    /// One tool call that has no result yet.
    #[derive(Debug)]
    pub struct Tool;
    /// One tool call that has its result.
    #[derive(Debug)]
    pub struct AnsweredTool;
    /// A named phase.
    #[derive(Debug)]
    pub struct Step;
    /// A child agent.
    #[derive(Debug)]
    pub struct Agent;

    /// Segments that output text can be written to.
    pub trait TakesText {}
    impl TakesText for Model {}
    impl TakesText for Message {}

    /// Segments that reasoning can be written to.
    pub trait TakesThinking {}
    impl TakesThinking for Model {}
    impl TakesThinking for Reasoning {}

    /// Segments that a call's arguments can be written to.
    pub trait TakesArguments {}
    impl TakesArguments for Tool {}
    impl TakesArguments for AnsweredTool {}
}

/// A segment that is open: what its content is written through. Not `Clone`: closing consumes it.
#[derive(Debug)]
#[must_use = "a segment whose handle is dropped stays open until the run ends"]
pub struct Open<K> {
    number: u64,
    id: SegmentId,
    kind: PhantomData<fn() -> K>,
}

impl<K> Open<K> {
    fn new(number: u64, id: SegmentId) -> Open<K> {
        Open { number, id, kind: PhantomData }
    }

    /// The segment's name within the run.
    pub fn id(&self) -> &SegmentId {
        &self.id
    }
}

/// How a segment begins.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// What it is called.
    pub name: Option<String>,
    /// The segment that it happens inside of.
    pub parent: Option<SegmentId>,
    /// Provider and model, for a model call.
    pub model_ref: Option<String>,
    /// Segments with the same key belong together.
    pub group_key: Option<String>,
    /// What AG-UI says beyond the frame.
    pub agui: Agui,
}

impl Opening {
    /// A segment called so, inside of no other.
    pub fn named(name: impl Into<String>) -> Opening {
        Opening { name: Some(name.into()), ..Opening::default() }
    }

    /// The same, inside of `parent`.
    pub fn inside(self, parent: &SegmentId) -> Opening {
        Opening { parent: Some(parent.clone()), ..self }
    }
}

/// How a segment ends.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Whole, failed, cut off or abandoned.
    pub status: SegmentStatus,
    /// Tokens used by a model call.
    pub usage: Option<Usage>,
    /// Why a model stopped.
    pub finish_reason: Option<String>,
    /// Why it failed.
    pub error: Option<SegmentError>,
    /// What AG-UI says beyond the frame.
    pub agui: Agui,
}

impl Ending {
    /// What the segment brackets is whole.
    pub fn completed() -> Ending {
        Ending::with_status(SegmentStatus::Completed)
    }

    /// It ended so, and there is no more to say.
    pub fn with_status(status: SegmentStatus) -> Ending {
        Ending { status, usage: None, finish_reason: None, error: None, agui: None }
    }
}

/// What a tool returned.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutput {
    /// Text.
    Text(String),
    /// An ordered list of AG-UI content parts.
    Parts(Vec<Value>),
}

/// The whole value behind a preview, to be stored with the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Which segment's.
    pub segment_id: SegmentId,
    /// `text/plain; charset=utf-8` or `application/json` (a list of AG-UI content parts).
    pub content_type: &'static str,
    /// The value.
    pub bytes: Bytes,
}

/// Content type of a payload that is text.
pub const TEXT_PAYLOAD: &str = "text/plain; charset=utf-8";
/// Content type of a payload that is a list of AG-UI content parts.
pub const PARTS_PAYLOAD: &str = "application/json";

/// What recording produced: to be appended together, in this order.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The frames, in log order.
    pub frames: Vec<Frame>,
    /// The payloads of segments that these frames belong to.
    pub payloads: Vec<Payload>,
}

impl Recorded {
    /// Whether there is nothing to append.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.payloads.is_empty()
    }
}

/// How a run completes.
#[derive(Clone, Debug, Default)]
pub struct Completion {
    /// Usage that no segment carried, such as what an upstream agent reports for the whole run.
    pub usage: Vec<Usage>,
    /// What it cost, when prices are configured.
    pub cost: Option<Cost>,
    /// What AG-UI says beyond the frame: the result, pending tool calls.
    pub agui: Agui,
}

/// How a run fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// One of the fifteen.
    pub code: ErrorCode,
    /// What happened, for a person.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// More for whoever operates the agent.
    pub detail: Option<String>,
    /// `Failed` when the work failed, `Abandoned` when the attempt ended under its segments.
    pub segments: SegmentStatus,
    /// Usage that no segment carried.
    pub usage: Vec<Usage>,
    /// What AG-UI says beyond the `error` frame.
    pub agui: Agui,
}

impl Failure {
    /// A failure of the work itself.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
            retryable: false,
            detail: None,
            segments: SegmentStatus::Failed,
            usage: Vec::new(),
            agui: None,
        }
    }
}

/// What a run waits for.
#[derive(Clone, Debug)]
pub struct Suspension {
    /// A yes or no, or a value.
    pub kind: SuspendKind,
    /// The interrupts to answer.
    pub contract: Map<String, Value>,
    /// What to ask, for a person.
    pub prompt: Option<String>,
    /// When waiting ends.
    pub deadline: Option<Timestamp>,
    /// Usage of this exchange that no segment carried.
    pub usage: Vec<Usage>,
    /// What AG-UI says beyond the frame.
    pub agui: Agui,
}

/// Writes one run's log. Sans-I/O: time comes in, frames come out through [`Recorder::take`].
#[derive(Debug)]
pub struct Recorder {
    state: LogState,
    pending: Option<PendingDelta>,
    out: Recorded,
}

impl Recorder {
    /// Begins an attempt: `run.start`, then `run.status` → `running`. The only way to begin one.
    pub fn start(state: LogState, now: Timestamp, start: RunStart) -> Recorder {
        let mut recorder = Recorder { state, pending: None, out: Recorded::default() };
        let attempt = recorder.state.attempt + 1;
        recorder.emit(now, None, Data::RunStart(RunStart { attempt, ..start }));
        recorder.transition(now, RunStatus::Running);
        recorder
    }

    /// Goes on with a suspended run: `resume`, then `run.status` → `running`.
    pub fn resume(state: LogState, now: Timestamp, resolved_by: Option<String>, agui: Agui) -> Recorder {
        let kind = state.suspend_kind.unwrap_or(SuspendKind::Input);
        let mut recorder = Recorder { state, pending: None, out: Recorded::default() };
        recorder.emit(now, None, Data::Resume(Resume { kind, resolved_by, extra: extra(agui) }));
        recorder.transition(now, RunStatus::Running);
        recorder
    }

    /// Takes up a log whose writer is gone in the middle of an attempt, so that it can be brought to its end.
    pub fn recover(state: LogState) -> Recorder {
        Recorder { state, pending: None, out: Recorded::default() }
    }

    /// The state of the log, deltas that still wait not included.
    pub fn state(&self) -> &LogState {
        &self.state
    }

    /// What was recorded since the last call, ready to be appended.
    pub fn take(&mut self) -> Recorded {
        std::mem::take(&mut self.out)
    }

    /// Whether deltas wait to be joined; then [`Recorder::flush`] is due within
    /// [`COALESCE_MILLIS`](crate::COALESCE_MILLIS).
    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Writes the deltas that wait.
    pub fn flush(&mut self, now: Timestamp) {
        let Some(pending) = self.pending.take() else { return };
        let Some(segment) = self.state.open.get(&pending.segment) else { return };
        let id = segment.id.clone();
        let extra = extra(pending.agui);
        let data = match pending.kind {
            DeltaKind::Text => Data::TextDelta(TextDelta { text: pending.text, extra }),
            DeltaKind::Thinking => Data::ThinkingDelta(ThinkingDelta { text: pending.text, extra }),
        };
        self.write(now, Some(id), data);
    }

    /// The run was asked to stop: `run.status` → `cancelling`.
    pub fn cancelling(&mut self, now: Timestamp) {
        if self.state.status.may_become(RunStatus::Cancelling) {
            self.transition(now, RunStatus::Cancelling);
        }
    }

    /// Opens a model call.
    pub fn open_model(&mut self, now: Timestamp, opening: Opening) -> Open<kind::Model> {
        self.open(now, SegmentKind::Model, opening, None)
    }

    /// Opens a message.
    pub fn open_message(&mut self, now: Timestamp, opening: Opening) -> Open<kind::Message> {
        self.open(now, SegmentKind::Message, opening, None)
    }

    /// Opens a stretch of reasoning.
    pub fn open_reasoning(&mut self, now: Timestamp, opening: Opening) -> Open<kind::Reasoning> {
        self.open(now, SegmentKind::Reasoning, opening, None)
    }

    /// Opens a step.
    pub fn open_step(&mut self, now: Timestamp, opening: Opening) -> Open<kind::Step> {
        self.open(now, SegmentKind::Step, opening, None)
    }

    /// Opens a child agent's work.
    pub fn open_agent(&mut self, now: Timestamp, opening: Opening) -> Open<kind::Agent> {
        self.open(now, SegmentKind::Agent, opening, None)
    }

    /// Opens a tool call. `opening.name` is the tool's name where it differs from `tool_slug`.
    pub fn open_tool(
        &mut self,
        now: Timestamp,
        tool_call_id: impl Into<String>,
        tool_slug: impl Into<String>,
        opening: Opening,
    ) -> Open<kind::Tool> {
        let tool = ToolState {
            call_id: tool_call_id.into(),
            slug: tool_slug.into(),
            arguments: String::new(),
            arguments_complete: false,
            answered: false,
        };
        self.open(now, SegmentKind::Tool, opening, Some(tool))
    }

    /// The open tool calls without a result, by call id: how a resumed run gets its handles back.
    pub fn open_tools(&self) -> Vec<(String, Open<kind::Tool>)> {
        let unanswered = |(number, segment): (&u64, &OpenSegment)| match &segment.tool {
            Some(tool) if !tool.answered => Some((tool.call_id.clone(), Open::new(*number, segment.id.clone()))),
            _ => None,
        };
        self.state.open.iter().filter_map(unanswered).collect()
    }

    fn open<K>(&mut self, now: Timestamp, kind: SegmentKind, opening: Opening, tool: Option<ToolState>) -> Open<K> {
        let number = self.state.last_segment + 1;
        let id = SegmentId::from(format!("seg_{number}"));
        let start = SegmentStart {
            kind,
            name: opening.name.or_else(|| tool.as_ref().map(|t| t.slug.clone())),
            parent_segment_id: opening.parent.map(|p| p.as_str().to_owned()),
            group_key: opening.group_key,
            model_ref: opening.model_ref,
            tool_slug: tool.as_ref().map(|t| t.slug.clone()),
            child_run_id: None,
            extra: extra(opening.agui),
        };
        self.emit(now, Some(id.clone()), Data::SegmentStart(start));
        if let Some(segment) = self.state.open.get_mut(&number) {
            segment.tool = tool;
        }
        Open::new(number, id)
    }

    /// Output text: the only way it can be written.
    pub fn text<K: kind::TakesText>(&mut self, now: Timestamp, segment: &Open<K>, text: &str, agui: Agui) {
        self.delta(now, segment.number, DeltaKind::Text, text, agui);
    }

    /// Reasoning: never mixed with output text.
    pub fn thinking<K: kind::TakesThinking>(&mut self, now: Timestamp, segment: &Open<K>, text: &str, agui: Agui) {
        self.delta(now, segment.number, DeltaKind::Thinking, text, agui);
    }

    fn delta(&mut self, now: Timestamp, segment: u64, kind: DeltaKind, text: &str, agui: Agui) {
        if let Some(pending) = &mut self.pending
            && pending.takes(segment, kind, agui.as_ref())
        {
            pending.text.push_str(text);
            if pending.is_due(now) {
                self.flush(now);
            }
            return;
        }
        self.flush(now);
        let first = self.state.open.get(&segment).is_some_and(|s| !s.has_delta);
        self.pending = Some(PendingDelta { segment, kind, text: text.to_owned(), since: now, agui });
        // Time to first token is never paid for coalescing.
        if first || text.len() >= crate::COALESCE_BYTES {
            self.flush(now);
        }
    }

    /// The next piece of a call's arguments.
    pub fn arguments<K: kind::TakesArguments>(&mut self, now: Timestamp, segment: &Open<K>, delta: &str, agui: Agui) {
        self.tool_call(now, segment.number, Some(delta.to_owned()), None, agui);
    }

    /// The call's arguments are complete.
    pub fn arguments_complete<K: kind::TakesArguments>(&mut self, now: Timestamp, segment: &Open<K>, agui: Agui) {
        let whole = self.tool(segment.number).map(|t| t.arguments.clone()).unwrap_or_default();
        self.tool_call(now, segment.number, None, Some(whole), agui);
    }

    fn tool(&self, number: u64) -> Option<&ToolState> {
        self.state.open.get(&number).and_then(|s| s.tool.as_ref())
    }

    fn tool_call(
        &mut self,
        now: Timestamp,
        number: u64,
        arguments_delta: Option<String>,
        arguments: Option<String>,
        agui: Agui,
    ) {
        let Some((id, tool)) = self.tool_segment(number) else { return };
        let call = ToolCall {
            tool_call_id: tool.call_id.clone(),
            tool_slug: tool.slug.clone(),
            arguments_delta,
            arguments,
            extra: extra(agui),
        };
        self.emit(now, Some(id), Data::ToolCall(call));
    }

    fn tool_segment(&self, number: u64) -> Option<(SegmentId, &ToolState)> {
        let segment = self.state.open.get(&number)?;
        Some((segment.id.clone(), segment.tool.as_ref()?))
    }

    /// The tool's result: a preview in the frame, the whole as the segment's payload where the preview is less.
    pub fn result(
        &mut self,
        now: Timestamp,
        segment: Open<kind::Tool>,
        ok: bool,
        output: &ToolOutput,
        agui: Agui,
    ) -> Open<kind::AnsweredTool> {
        let answered = Open::new(segment.number, segment.id);
        let Some((id, tool)) = self.tool_segment(answered.number) else { return answered };
        let tool_call_id = tool.call_id.clone();
        let (preview, truncated, bytes, payload) = preview(output);
        if let Some((content_type, bytes)) = payload {
            self.out.payloads.push(Payload { segment_id: id.clone(), content_type, bytes });
        }
        let result = ToolResult {
            tool_call_id,
            ok,
            output_preview: Some(preview),
            truncated,
            bytes: bytes as u64,
            extra: extra(agui),
        };
        self.emit(now, Some(id), Data::ToolResult(result));
        answered
    }

    /// Closes a segment.
    pub fn end<K>(&mut self, now: Timestamp, segment: Open<K>, ending: Ending) {
        self.end_number(now, segment.number, ending);
    }

    fn end_number(&mut self, now: Timestamp, number: u64, ending: Ending) {
        let Some(segment) = self.state.open.get(&number) else { return };
        let id = segment.id.clone();
        let duration = self.clamp(now).unix_millis() - segment.started_at.unix_millis();
        let end = SegmentEnd {
            status: ending.status,
            duration_ms: Some(duration.max(0).unsigned_abs()),
            usage: ending.usage,
            cost: None,
            finish_reason: ending.finish_reason,
            error: ending.error,
            extra: extra(ending.agui),
        };
        self.emit(now, Some(id), Data::SegmentEnd(end));
    }

    /// Something worth telling that is neither output nor an error.
    pub fn notice(
        &mut self,
        now: Timestamp,
        level: NoticeLevel,
        code: impl Into<String>,
        message: impl Into<String>,
        attributes: Option<Map<String, Value>>,
    ) {
        let notice = Notice { level, code: code.into(), message: message.into(), attributes, extra: Map::new() };
        self.emit(now, None, Data::Notice(notice));
    }

    /// An AG-UI event that is neither part of a segment nor of the run's course, kept whole in a notice.
    ///
    /// `event` is the event's JSON object; its `type` becomes part of the notice's code.
    pub fn agui_notice(&mut self, now: Timestamp, event: Map<String, Value>) {
        let name = event.get("type").and_then(Value::as_str).unwrap_or("RAW").to_owned();
        let message = match name.as_str() {
            "STATE_SNAPSHOT" => "the state as a whole",
            "STATE_DELTA" => "a change of the state",
            "MESSAGES_SNAPSHOT" => "the messages as a whole",
            "ACTIVITY_SNAPSHOT" => "an activity as a whole",
            "ACTIVITY_DELTA" => "a change of an activity",
            "REASONING_ENCRYPTED_VALUE" => "an opaque reasoning artefact",
            "CUSTOM" => "an event of the application's own",
            _ => "an event of the provider's own",
        };
        self.notice(now, NoticeLevel::Info, format!("agui.{name}"), message, Some(event));
    }

    /// Replaces the agent's state. Any JSON value.
    pub fn state_snapshot(&mut self, now: Timestamp, snapshot: Value) {
        self.agui_notice(now, object(json!({ "type": "STATE_SNAPSHOT", "snapshot": snapshot })));
    }

    /// Changes the agent's state by an RFC 6902 patch, a list of operations.
    pub fn state_delta(&mut self, now: Timestamp, patch: Value) {
        self.agui_notice(now, object(json!({ "type": "STATE_DELTA", "delta": patch })));
    }

    /// An event of the application's own.
    pub fn custom(&mut self, now: Timestamp, name: &str, value: Value) {
        self.agui_notice(now, object(json!({ "type": "CUSTOM", "name": name, "value": value })));
    }

    /// The work is done: closes what is open, then `run.status` → `completed` and `run.end`.
    pub fn complete(mut self, now: Timestamp, completion: Completion) -> Recorded {
        self.close_all(now, SegmentStatus::Completed);
        self.transition(now, RunStatus::Completed);
        self.run_end(now, EndStatus::Completed, &completion.usage, completion.cost, None, completion.agui);
        self.out
    }

    /// The work could not be done: `error`, closes what is open, then `run.status` → `failed` and `run.end`.
    pub fn fail(mut self, now: Timestamp, failure: Failure) -> Recorded {
        let class = (failure.code.as_str().to_owned(), failure.detail.unwrap_or_else(|| failure.message.clone()));
        let error = ErrorData {
            code: failure.code,
            message: failure.message,
            retryable: failure.retryable,
            extra: extra(failure.agui),
        };
        self.emit(now, None, Data::Error(error));
        self.close_all(now, failure.segments);
        self.transition(now, RunStatus::Failed);
        self.run_end(now, EndStatus::Failed, &failure.usage, None, Some(class), None);
        self.out
    }

    /// The run was stopped on purpose: closes what is open, then `run.status` → `cancelled` and `run.end`.
    pub fn cancel(mut self, now: Timestamp, usage: &[Usage], agui: Agui) -> Recorded {
        self.close_all(now, SegmentStatus::Cancelled);
        if self.state.status != RunStatus::Cancelling && !self.state.status.may_become(RunStatus::Cancelled) {
            self.transition(now, RunStatus::Cancelling);
        }
        self.transition(now, RunStatus::Cancelled);
        self.run_end(now, EndStatus::Cancelled, usage, None, None, agui);
        self.out
    }

    /// The run waits for an answer from outside: `suspend`, then `run.status` → `suspended`. Segments stay as they are.
    pub fn suspend(mut self, now: Timestamp, suspension: Suspension) -> (Recorded, LogState) {
        let mut extra = extra(suspension.agui);
        if !suspension.usage.is_empty() {
            // The frame has no key for usage; the exchange's own account is AG-UI's to tell.
            let members = extra.entry("agui").or_insert_with(|| Value::Object(Map::new()));
            if let (Value::Object(members), Ok(usage)) = (members, serde_json::to_value(&suspension.usage)) {
                members.insert("exchangeUsage".into(), usage);
            }
        }
        for usage in &suspension.usage {
            self.state.usage.add(usage);
        }
        let suspend = Suspend {
            kind: suspension.kind,
            resume_contract: suspension.contract,
            prompt: suspension.prompt,
            deadline_at: suspension.deadline,
            extra,
        };
        self.emit(now, None, Data::Suspend(suspend));
        self.transition(now, RunStatus::Suspended);
        (self.out, self.state)
    }

    fn close_all(&mut self, now: Timestamp, status: SegmentStatus) {
        // The waiting deltas may be the only thing that their segment still lacks.
        self.flush(now);
        let open: Vec<u64> = self.state.open.keys().rev().copied().collect();
        for number in open {
            self.end_number(now, number, Ending::with_status(status));
        }
    }

    fn run_end(
        &mut self,
        now: Timestamp,
        status: EndStatus,
        usage: &[Usage],
        cost: Option<Cost>,
        failure: Option<(String, String)>,
        agui: Agui,
    ) {
        let mut ledger: UsageLedger = self.state.usage.clone();
        for entry in usage {
            ledger.add(entry);
        }
        let started = self.state.started_at.unwrap_or(now);
        let duration = self.clamp(now).unix_millis() - started.unix_millis();
        let (failure_class, failure_detail) = failure.unzip();
        let end = RunEnd {
            status,
            usage: ledger.entries(),
            cost,
            duration_ms: Some(duration.max(0).unsigned_abs()),
            failure_class,
            failure_detail,
            extra: extra(agui),
        };
        self.emit(now, None, Data::RunEnd(end));
    }

    fn transition(&mut self, now: Timestamp, status: RunStatus) {
        let previous = Some(self.state.status);
        self.emit(now, None, Data::RunStatus(RunStatusChange { status, previous, extra: Map::new() }));
    }

    /// Any frame but a delta: what waits to be joined goes before it.
    fn emit(&mut self, now: Timestamp, segment_id: Option<SegmentId>, data: Data) {
        self.flush(now);
        self.write(now, segment_id, data);
    }

    fn write(&mut self, now: Timestamp, segment_id: Option<SegmentId>, data: Data) {
        let frame = Frame {
            seq: self.state.head + 1,
            run_id: Arc::clone(&self.state.run_id),
            ts: self.clamp(now),
            segment_id,
            data,
        };
        self.state.apply(&frame).expect("the recorder numbers frames and names segments itself");
        self.out.frames.push(frame);
    }

    /// A clock that steps back must not make a log run backwards.
    fn clamp(&self, now: Timestamp) -> Timestamp {
        now.max(self.state.last_ts)
    }
}

fn extra(agui: Agui) -> Map<String, Value> {
    let mut extra = Map::new();
    if let Some(agui) = agui {
        extra.insert("agui".into(), Value::Object(agui));
    }
    extra
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

type Whole = (&'static str, Bytes);

/// The preview of an output, whether it is less than the whole, the whole's size, and the payload if one is needed.
fn preview(output: &ToolOutput) -> (String, bool, usize, Option<Whole>) {
    match output {
        ToolOutput::Text(text) => {
            let shown = cut(text, PREVIEW_MAX_BYTES);
            let truncated = shown.len() < text.len();
            let payload = truncated.then(|| (TEXT_PAYLOAD, Bytes::copy_from_slice(text.as_bytes())));
            (shown.to_owned(), truncated, text.len(), payload)
        }
        ToolOutput::Parts(parts) => {
            let whole = serde_json::to_vec(parts).expect("JSON values always serialise");
            let texts = parts.iter().filter(|p| p["type"] == "text").filter_map(|p| p["text"].as_str());
            let text: String = texts.collect();
            let bytes = whole.len();
            (cut(&text, PREVIEW_MAX_BYTES).to_owned(), true, bytes, Some((PARTS_PAYLOAD, whole.into())))
        }
    }
}

/// The longest beginning of at most `max` bytes that ends at a character.
fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
