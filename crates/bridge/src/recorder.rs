//! Writes a run's log: the only way from an agent's work to frames.
//!
//! What the protocol demands of an order is a matter of types here. An attempt begins in [`Recorder::start`], which
//! writes `run.start`. A segment's content can only be written through the [`Open`] handle that opening it returned.
//! Ending a run consumes the recorder, so nothing can follow `run.end`.
//!
//! ```compile_fail,E0382
//! # use runwire_bridge::*;
//! # fn f(mut recorder: Recorder, now: runwire_frame::Timestamp, end: Completion) {
//! recorder.complete(now, end);
//! recorder.custom(now, "late", serde_json::Value::Null); // the recorder is gone
//! # }
//! ```

use std::sync::Arc;

use bytes::Bytes;
use runwire_frame::{
    Cost, Data, ErrorCode, ErrorData, Frame, Notice, NoticeLevel, Resume, RunStart, RunStatus, RunStatusChange,
    SegmentEnd, SegmentId, SegmentKind, SegmentStart, SuspendKind, TextDelta, ThinkingDelta, Timestamp, ToolCall,
    ToolResult, Usage,
};
use serde_json::{Map, Value, json};

use crate::coalescer::{DeltaKind, PendingDelta};
use crate::log_state::{LogState, OpenSegment, TOOL_CALL_ID, ToolState};
use crate::segment::{Ending, Open, Opening, kind};
use crate::tool_output::{JSON_PAYLOAD, Payload, Preview, ToolOutput};

/// What an AG-UI event says beyond its frame; travels under the additive data key `agui`.
pub type Agui = Option<Map<String, Value>>;

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

/// What tokens cost.
pub trait Pricing: std::fmt::Debug + Send + Sync {
    /// What this usage of one model costs; `None` when that is not known.
    fn cost(&self, usage: &Usage) -> Option<Cost>;

    /// What these cost together; `None` when one of them is not known or they are not in one currency.
    fn total(&self, usage: &[Usage]) -> Option<Cost>;
}

/// Writes one run's log. Sans-I/O: time comes in, frames come out through [`Recorder::take`].
#[derive(Debug)]
pub struct Recorder {
    pub(crate) state: LogState,
    pending: Option<PendingDelta>,
    pub(crate) out: Recorded,
    pub(crate) pricing: Option<Arc<dyn Pricing>>,
}

impl Recorder {
    /// Begins an attempt: `run.start`, then `run.status` → `running`. The only way to begin one.
    pub fn start(state: LogState, now: Timestamp, start: RunStart) -> Recorder {
        let mut recorder = Recorder { state, pending: None, out: Recorded::default(), pricing: None };
        let attempt = recorder.state.attempt + 1;
        recorder.emit(now, None, Data::RunStart(RunStart { attempt, ..start }));
        recorder.transition(now, RunStatus::Running);
        recorder
    }

    /// Goes on with a suspended run: `resume`, then `run.status` → `running`.
    pub fn resume(state: LogState, now: Timestamp, resolved_by: Option<String>, agui: Agui) -> Recorder {
        let kind = state.suspend_kind.unwrap_or(SuspendKind::Input);
        let mut recorder = Recorder { state, pending: None, out: Recorded::default(), pricing: None };
        recorder.emit(now, None, Data::Resume(Resume { kind, resolved_by, extra: extra(agui) }));
        recorder.transition(now, RunStatus::Running);
        recorder
    }

    /// Takes up a log whose writer is gone, so that it can be brought to its end: any of [`complete`](Self::complete),
    /// [`fail`](Self::fail), [`cancel`](Self::cancel) and [`retry`](Self::retry) makes a legal log of it, wherever it
    /// stopped after its first frame. What it had reached already stands, whatever is asked for now.
    pub fn recover(state: LogState) -> Recorder {
        Recorder { state, pending: None, out: Recorded::default(), pricing: None }
    }

    /// From here on every `segment.end` with usage, and the `run.end`, says what it costs.
    #[must_use]
    pub fn priced(self, pricing: Option<Arc<dyn Pricing>>) -> Recorder {
        Recorder { pricing, ..self }
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

    /// Opens the work of a child agent that is a run of its own, with a log and an account of its own.
    pub fn open_child(&mut self, now: Timestamp, child_run_id: &str, opening: Opening) -> Open<kind::Agent> {
        self.open_as(now, SegmentKind::Agent, opening, None, Some(child_run_id.to_owned()))
    }

    /// The open segments of child runs, each with its run: how a resumed run goes on to watch them.
    pub fn open_children(&self) -> Vec<(String, Open<kind::Agent>)> {
        let child = |(number, segment): (&u64, &OpenSegment)| {
            Some((segment.child_run_id.clone()?, Open::new(*number, segment.id.clone())))
        };
        self.state.open.iter().filter_map(child).collect()
    }

    /// Opens a tool call. `opening.name` is the tool's name where it differs from `tool_slug`.
    pub fn open_tool(
        &mut self,
        now: Timestamp,
        tool_call_id: impl Into<String>,
        tool_slug: impl Into<String>,
        opening: Opening,
    ) -> Open<kind::Tool> {
        // The frame has no key for the call's id, and who continues this log must know it from here on.
        let mut agui = opening.agui.unwrap_or_default();
        agui.entry(TOOL_CALL_ID).or_insert_with(|| Value::String(tool_call_id.into()));
        let opening = Opening { agui: Some(agui), ..opening };
        self.open(now, SegmentKind::Tool, opening, Some(tool_slug.into()))
    }

    /// The open tool calls without a result, by call id: how a resumed run gets its handles back.
    pub fn open_tools(&self) -> Vec<(String, Open<kind::Tool>)> {
        let unanswered = |(number, segment): (&u64, &OpenSegment)| match &segment.tool {
            Some(tool) if !tool.answered => Some((tool.call_id.clone(), Open::new(*number, segment.id.clone()))),
            _ => None,
        };
        self.state.open.iter().filter_map(unanswered).collect()
    }

    fn open<K>(&mut self, now: Timestamp, kind: SegmentKind, opening: Opening, tool_slug: Option<String>) -> Open<K> {
        self.open_as(now, kind, opening, tool_slug, None)
    }

    fn open_as<K>(
        &mut self,
        now: Timestamp,
        kind: SegmentKind,
        opening: Opening,
        tool_slug: Option<String>,
        child_run_id: Option<String>,
    ) -> Open<K> {
        let number = self.state.last_segment + 1;
        let id = SegmentId::from(format!("seg_{number}"));
        let start = SegmentStart {
            kind,
            name: opening.name.or_else(|| tool_slug.clone()),
            parent_segment_id: opening.parent.map(|p| p.as_str().to_owned()),
            group_key: opening.group_key,
            model_ref: opening.model_ref,
            tool_slug,
            child_run_id,
            extra: extra(opening.agui),
        };
        self.emit(now, Some(id.clone()), Data::SegmentStart(start));
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
        if self.pending.as_ref().is_some_and(|p| p.is_late(now) || !p.takes(segment, kind, agui.as_ref())) {
            self.flush(now);
        }
        let first = self.state.open.get(&segment).is_some_and(|s| !s.has_delta);
        let pending =
            self.pending.get_or_insert_with(|| PendingDelta { segment, kind, text: String::new(), since: now, agui });
        pending.text.push_str(text);
        // Time to first token is never paid for coalescing.
        if first || pending.is_large() {
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
        let preview = Preview::of(output);
        if let Some((content_type, bytes)) = preview.payload {
            self.out.payloads.push(Payload { segment_id: id.clone(), content_type, bytes });
        }
        let result = ToolResult {
            tool_call_id,
            ok,
            output_preview: Some(preview.shown),
            truncated: preview.truncated,
            bytes: preview.bytes,
            extra: extra(agui),
        };
        self.emit(now, Some(id), Data::ToolResult(result));
        answered
    }

    /// What is kept of a model call beside the log, as JSON. What was kept of it before is replaced.
    pub fn model_payload(&mut self, segment: &Open<kind::Model>, json: Bytes) {
        // A call that has ended stays as it was.
        if self.state.open.contains_key(&segment.number) {
            let segment_id = segment.id.clone();
            self.out.payloads.push(Payload { segment_id, content_type: JSON_PAYLOAD, bytes: json });
        }
    }

    /// Closes a segment.
    pub fn end<K>(&mut self, now: Timestamp, segment: Open<K>, ending: Ending) {
        self.end_number(now, segment.number, ending);
    }

    pub(crate) fn end_number(&mut self, now: Timestamp, number: u64, ending: Ending) {
        let Some(segment) = self.state.open.get(&number) else { return };
        let id = segment.id.clone();
        let duration = self.clamp(now).unix_millis() - segment.started_at.unix_millis();
        let cost = self.pricing.as_ref().zip(ending.usage.as_ref()).and_then(|(pricing, usage)| pricing.cost(usage));
        let end = SegmentEnd {
            status: ending.status,
            duration_ms: Some(duration.max(0).unsigned_abs()),
            usage: ending.usage,
            cost,
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

    /// Something failed. What follows from it is said by what comes next: a segment that ended so, or the end of the
    /// run, such as a stop at a limit that the operator set.
    pub fn error(&mut self, now: Timestamp, code: ErrorCode, message: impl Into<String>, retryable: bool) {
        self.emit(now, None, Data::Error(ErrorData { code, message: message.into(), retryable, extra: Map::new() }));
    }

    pub(crate) fn transition(&mut self, now: Timestamp, status: RunStatus) {
        let previous = Some(self.state.status);
        self.emit(now, None, Data::RunStatus(RunStatusChange { status, previous, extra: Map::new() }));
    }

    /// Any frame but a delta: what waits to be joined goes before it.
    pub(crate) fn emit(&mut self, now: Timestamp, segment_id: Option<SegmentId>, data: Data) {
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
    pub(crate) fn clamp(&self, now: Timestamp) -> Timestamp {
        now.max(self.state.last_ts)
    }
}

/// The data keys of a frame that carries these AG-UI members.
pub(crate) fn extra(agui: Agui) -> Map<String, Value> {
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
