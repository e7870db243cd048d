//! Frames out to AG-UI: a pure function of the log.
//!
//! Every AG-UI event is derived from frames alone (and, for a tool result larger than its preview, from the segment's
//! payload), so that the events resume as the frames do: the same log gives the same events in the same order, and
//! event `n` of frame `seq` is the same event on every connection.
//!
//! Frames that came from AG-UI events carry what the event said beyond the frame under `agui`; for frames that came
//! from an agent of this server the projection derives ids and roles itself.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use runwire_agui::{
    Content, ContentPart, Custom, Event, Interrupt, PROTOCOL_VERSION, ReasoningEnd, ReasoningMessageContent,
    ReasoningMessageEnd, ReasoningMessageStart, ReasoningStart, RunError, RunFinished, RunFinishedOutcome, RunStarted,
    StepFinished, StepStarted, SubagentError, SubagentFinished, SubagentStarted, TextMessageContent, TextMessageEnd,
    TextMessageStart, TokenUsage, ToolCallArgs, ToolCallEnd, ToolCallResult, ToolCallStart,
};
use runwire_frame::{
    Data, EndStatus, ErrorData, Frame, Notice, RunEnd, RunStatus, SegmentEnd, SegmentId, SegmentKind, SegmentStart,
    SegmentStatus, Suspend, ToolCall, ToolResult, Usage,
};
use serde_json::{Map, Value, json};

use crate::recorder::PARTS_PAYLOAD;
use crate::usage::usage_to_agui;

/// Whom the events are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Peer {
    /// A client that declares AG-UI 1.0 (or nobody in particular).
    #[default]
    Current,
    /// A client whose input declares no version: it predates 1.0. A cancelled run is told as `RUN_ERROR` with code
    /// `CANCELLED`, content parts of tool results as their text, and pending tool calls are left to be derived.
    PreV1,
}

/// A log that the projection cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProjectionError {
    /// A frame names a segment that no frame before it opened.
    #[error("frame {seq} names segment `{segment}`, which no frame before it opened")]
    Segment {
        /// The frame.
        seq: u64,
        /// The segment.
        segment: String,
    },
    /// What a frame says under `agui` (or in the attributes of an `agui.` notice) is no AG-UI event.
    #[error("frame {seq} does not hold the AG-UI event that it says it does: {problem}")]
    Event {
        /// The frame.
        seq: u64,
        /// What is wrong.
        problem: String,
    },
    /// The whole value behind a preview is not there.
    #[error("frame {seq} needs the payload of segment `{segment}`, which is not stored")]
    PayloadMissing {
        /// The frame.
        seq: u64,
        /// The segment.
        segment: String,
    },
    /// The payload is not what its content type says.
    #[error("the payload that frame {seq} needs cannot be read: {problem}")]
    Payload {
        /// The frame.
        seq: u64,
        /// What is wrong.
        problem: String,
    },
}

/// The whole value behind a `tool.result`'s preview.
#[derive(Clone, Debug)]
pub struct StoredPayload {
    /// As [`Payload::content_type`](crate::Payload::content_type).
    pub content_type: String,
    /// The value.
    pub bytes: Bytes,
}

#[derive(Debug)]
struct View {
    kind: SegmentKind,
    parent: Option<String>,
    /// The event that opened it, where it came from AG-UI.
    opener: Option<Map<String, Value>>,
    name: Option<String>,
    /// For a call that this server's own agent makes: its start waits for the frame that names the call.
    tool: ToolView,
    /// What of a model call was opened because content came.
    text_open: bool,
    thinking_open: bool,
    step_name: String,
}

#[derive(Debug, Default)]
struct ToolView {
    call_id: Option<String>,
    slug: String,
    started: bool,
    ended: bool,
    argument_bytes: usize,
}

/// Derives AG-UI events from a run's frames, in order from the first.
#[derive(Debug)]
pub struct Projection {
    peer: Peer,
    thread_id: String,
    run_id: String,
    segments: BTreeMap<String, View>,
    open_step_names: HashSet<String>,
    error: Option<ErrorData>,
    /// Closings of a failure that may still turn out to be the run's own, which ends what is open by itself.
    deferred: Vec<Event>,
    suspend: Option<Suspend>,
    warnings: Vec<String>,
}

impl Projection {
    /// Expects the first frame of a log.
    pub fn new(peer: Peer) -> Projection {
        Projection {
            peer,
            thread_id: String::new(),
            run_id: String::new(),
            segments: BTreeMap::new(),
            open_step_names: HashSet::new(),
            error: None,
            deferred: Vec::new(),
            suspend: None,
            warnings: Vec::new(),
        }
    }

    /// The segment whose payload [`Projection::push`] needs together with this frame, if it needs one.
    pub fn needs_payload(frame: &Frame) -> Option<&SegmentId> {
        match &frame.data {
            Data::ToolResult(result) if result.truncated => frame.segment_id.as_ref(),
            _ => None,
        }
    }

    /// What was lost on the way to a peer that predates 1.0, since the last call; one sentence each.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// The AG-UI id of the exchange that the frames so far belong to.
    pub fn exchange_id(&self) -> &str {
        &self.run_id
    }

    /// Takes the next frame and gives the events that it stands for: none, one or several.
    ///
    /// # Errors
    /// When the log is not one that the recorder wrote, or a payload that is needed is missing.
    pub fn push(&mut self, frame: &Frame, payload: Option<&StoredPayload>) -> Result<Vec<Event>, ProjectionError> {
        let mut out = Vec::new();
        let fatal = matches!(&frame.data, Data::RunStatus(s) if s.status == RunStatus::Failed);
        if fatal {
            // RUN_ERROR ends whatever is open together with the run: nothing cut off is shown as complete.
            self.deferred.clear();
        } else if !matches!(frame.data, Data::SegmentEnd(_)) {
            out.append(&mut self.deferred);
        }
        match &frame.data {
            Data::RunStart(start) => self.run_start(frame, start, &mut out)?,
            Data::RunStatus(change) => {
                if change.status == RunStatus::Suspended {
                    self.interrupted(frame, &mut out)?;
                }
                if change.status != RunStatus::Failed {
                    self.error = None;
                }
            }
            Data::RunEnd(end) => self.run_end(frame, end, &mut out)?,
            Data::SegmentStart(start) => self.segment_start(frame, start, &mut out)?,
            Data::SegmentEnd(end) => self.segment_end(frame, end, &mut out)?,
            Data::TextDelta(delta) => self.text(frame, &delta.text, &mut out)?,
            Data::ThinkingDelta(delta) => self.thinking(frame, &delta.text, &mut out)?,
            Data::ToolCall(call) => self.tool_call(frame, call, &mut out)?,
            Data::ToolResult(result) => self.tool_result(frame, result, payload, &mut out)?,
            Data::Suspend(suspend) => self.suspend = Some(suspend.clone()),
            Data::Resume(resume) => {
                let agui = agui(&resume.extra);
                if let Some(id) = agui.and_then(|a| a.get("runId")).and_then(Value::as_str) {
                    self.run_id = id.to_owned();
                }
                out.push(self.run_started(frame, agui)?);
            }
            Data::Notice(notice) => out.push(notice_event(frame, notice)?),
            Data::Error(error) => self.error = Some(error.clone()),
        }
        Ok(out)
    }

    fn run_start(
        &mut self,
        frame: &Frame,
        start: &runwire_frame::RunStart,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        if start.attempt > 1 {
            let value = json!({ "attempt": start.attempt });
            out.push(Event::Custom(Custom::new("runwire.attempt", value)));
            return Ok(());
        }
        let agui = agui(&start.extra);
        self.thread_id = start.session_id.clone().unwrap_or_else(|| frame.run_id.to_string());
        let given = agui.and_then(|a| a.get("runId")).and_then(Value::as_str);
        self.run_id = given.unwrap_or(&frame.run_id).to_owned();
        out.push(self.run_started(frame, agui)?);
        Ok(())
    }

    /// This server is the producer that its client talks to, so the version is its own, whatever an upstream declared.
    fn run_started(&self, frame: &Frame, agui: Option<&Map<String, Value>>) -> Result<Event, ProjectionError> {
        let mut started = RunStarted::new(&*self.thread_id, &*self.run_id);
        started.protocol_version = Some(PROTOCOL_VERSION.to_owned());
        merge(frame, Event::RunStarted(started), agui)
    }

    fn run_end(&mut self, frame: &Frame, end: &RunEnd, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let agui = agui(&end.extra);
        let usage = usage_list(end.usage.as_deref());
        match end.status {
            EndStatus::Failed => {
                let (message, agui) = match &self.error {
                    Some(error) => (error.message.clone(), error.extra.get("agui").and_then(Value::as_object)),
                    None => (end.failure_detail.clone().unwrap_or_else(|| "the run failed".to_owned()), None),
                };
                let mut error = RunError::new(message);
                error.usage = usage;
                match agui {
                    // What an upstream agent reported keeps its own code, or none.
                    Some(agui) => {
                        let mut rest = agui.clone();
                        if let Some(finished) = rest.shift_remove("afterFinish") {
                            out.push(event_from(frame, finished)?);
                        }
                        out.push(merge(frame, Event::RunError(error), Some(&rest))?);
                    }
                    None => {
                        error.code = self.error.as_ref().map(|e| e.code.as_str().to_owned());
                        out.push(Event::RunError(error));
                    }
                }
            }
            EndStatus::Completed | EndStatus::Cancelled => {
                let mut finished = RunFinished::new(&*self.thread_id, &*self.run_id);
                finished.usage = usage;
                if end.status == EndStatus::Cancelled {
                    finished.outcome = Some(RunFinishedOutcome::Cancelled);
                }
                let Event::RunFinished(finished) = merge(frame, Event::RunFinished(finished), agui)? else {
                    return Ok(());
                };
                out.push(self.finished_for_peer(finished));
            }
        }
        Ok(())
    }

    /// A peer that predates 1.0 rejects the whole run over a `cancelled` outcome or named pending calls.
    fn finished_for_peer(&mut self, mut finished: RunFinished) -> Event {
        if self.peer == Peer::Current {
            return Event::RunFinished(finished);
        }
        match &mut finished.outcome {
            Some(RunFinishedOutcome::Cancelled) => {
                self.warnings.push(
                    "a cancelled run was told as RUN_ERROR with code CANCELLED: the client declares no protocol \
                     version and cannot take the outcome"
                        .to_owned(),
                );
                let mut error = RunError::new("the run was cancelled");
                error.code = Some("CANCELLED".to_owned());
                error.usage = finished.usage;
                Event::RunError(error)
            }
            Some(RunFinishedOutcome::Success { pending_tool_call_ids }) => {
                if pending_tool_call_ids.take().is_some() {
                    self.warnings.push(
                        "pendingToolCallIds were left out: the client declares no protocol version and cannot take \
                         them"
                            .to_owned(),
                    );
                }
                Event::RunFinished(finished)
            }
            _ => Event::RunFinished(finished),
        }
    }

    fn interrupted(&mut self, frame: &Frame, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let Some(suspend) = self.suspend.take() else { return Ok(()) };
        let interrupts = suspend.resume_contract.get("interrupts").cloned().unwrap_or_else(|| json!([]));
        let interrupts: Vec<Interrupt> = serde_json::from_value(interrupts)
            .map_err(|e| ProjectionError::Event { seq: frame.seq, problem: e.to_string() })?;
        let mut finished = RunFinished::new(&*self.thread_id, &*self.run_id);
        finished.outcome = Some(RunFinishedOutcome::Interrupt { interrupts });
        let mut rest = agui(&suspend.extra).cloned().unwrap_or_default();
        if let Some(usage) = rest.shift_remove("exchangeUsage") {
            let usage: Vec<Usage> = serde_json::from_value(usage)
                .map_err(|e| ProjectionError::Event { seq: frame.seq, problem: e.to_string() })?;
            finished.usage = usage_list(Some(&usage));
        }
        out.push(merge(frame, Event::RunFinished(finished), Some(&rest))?);
        Ok(())
    }

    fn segment_start(
        &mut self,
        frame: &Frame,
        start: &SegmentStart,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let opener = agui(&start.extra).cloned();
        let mut view = View {
            kind: start.kind,
            parent: start.parent_segment_id.clone(),
            name: start.name.clone(),
            tool: ToolView { slug: start.tool_slug.clone().unwrap_or_default(), ..ToolView::default() },
            text_open: false,
            thinking_open: false,
            step_name: start.name.clone().unwrap_or_else(|| id.to_owned()),
            opener: None,
        };
        if let Some(opener) = opener {
            if view.kind == SegmentKind::Tool {
                view.tool.call_id = opener.get("toolCallId").and_then(Value::as_str).map(str::to_owned);
                // A segment that holds only a result was opened by no event.
                let result_only = opener.get("type").and_then(Value::as_str) == Some("TOOL_CALL_RESULT");
                view.tool.started = true;
                view.tool.ended = result_only;
                if !result_only {
                    out.push(event_from(frame, Value::Object(opener.clone()))?);
                }
            } else {
                out.push(event_from(frame, Value::Object(opener.clone()))?);
            }
            view.opener = Some(opener);
            self.segments.insert(id.to_owned(), view);
            return Ok(());
        }
        match view.kind {
            SegmentKind::Message => {
                let mut event = TextMessageStart::new(self.message_id(frame, id));
                event.role = Some(runwire_agui::TextMessageRole::Assistant);
                event.name = start.name.clone();
                event.subagent_run_id = self.owner(frame, view.parent.as_deref());
                out.push(event.into());
            }
            SegmentKind::Reasoning => {
                self.open_reasoning(frame, id, view.parent.as_deref(), out);
            }
            SegmentKind::Step => {
                view.step_name = self.free_step_name(&view.step_name);
                let mut event = StepStarted::new(&*view.step_name);
                event.subagent_run_id = self.owner(frame, view.parent.as_deref());
                out.push(event.into());
            }
            SegmentKind::Agent => {
                let name = start.name.clone().unwrap_or_else(|| "agent".to_owned());
                let mut event = SubagentStarted::new(self.scoped(frame, id), name);
                event.parent_subagent_run_id = self.owner(frame, view.parent.as_deref());
                out.push(event.into());
            }
            // A call's start waits for the frame that names the call; a model call is no AG-UI event by itself.
            SegmentKind::Tool | SegmentKind::Model => {}
        }
        self.segments.insert(id.to_owned(), view);
        Ok(())
    }

    fn text(&mut self, frame: &Frame, text: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let view = self.view(frame, id)?;
        let owner = self.content_owner(frame, view);
        let mut event = TextMessageContent::new(self.event_message_id(frame, id, view), text);
        if view.kind == SegmentKind::Model && !view.text_open {
            let parent = view.parent.clone();
            self.close_model_thinking(frame, id, out)?;
            let mut start = TextMessageStart::new(self.message_id(frame, id));
            start.role = Some(runwire_agui::TextMessageRole::Assistant);
            start.subagent_run_id = self.owner(frame, parent.as_deref());
            out.push(start.into());
            self.view_mut(frame, id)?.text_open = true;
        }
        event.subagent_run_id = owner;
        out.push(merge(frame, event.into(), agui(frame.data.extra()))?);
        Ok(())
    }

    fn thinking(&mut self, frame: &Frame, text: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let view = self.view(frame, id)?;
        let owner = self.content_owner(frame, view);
        let message_id = match view.kind {
            SegmentKind::Model => format!("{}.thinking", self.message_id(frame, id)),
            _ => self.event_message_id(frame, id, view),
        };
        if view.kind == SegmentKind::Model && !view.thinking_open {
            let parent = view.parent.clone();
            self.open_reasoning_as(frame, &message_id, parent.as_deref(), out);
            self.view_mut(frame, id)?.thinking_open = true;
        }
        let mut event = ReasoningMessageContent::new(message_id, text);
        event.subagent_run_id = owner;
        out.push(merge(frame, event.into(), agui(frame.data.extra()))?);
        Ok(())
    }

    fn tool_call(&mut self, frame: &Frame, call: &ToolCall, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        self.start_tool(frame, id, &call.tool_call_id, out)?;
        let agui = agui(&call.extra);
        let view = self.view(frame, id)?;
        let owner = self.content_owner(frame, view);
        if let Some(delta) = &call.arguments_delta {
            let mut event = ToolCallArgs::new(&*call.tool_call_id, &**delta);
            event.subagent_run_id = owner.clone();
            self.view_mut(frame, id)?.tool.argument_bytes += delta.len();
            out.push(merge(frame, event.into(), agui.filter(|_| call.arguments.is_none()))?);
        }
        if let Some(whole) = &call.arguments {
            let view = self.view_mut(frame, id)?;
            if view.tool.ended {
                return Ok(());
            }
            view.tool.ended = true;
            // What no delta has brought yet, such as arguments that a driver hands over at once.
            if let Some(rest) = whole.get(view.tool.argument_bytes..).filter(|rest| !rest.is_empty()) {
                let mut event = ToolCallArgs::new(&*call.tool_call_id, rest);
                event.subagent_run_id = owner.clone();
                out.push(event.into());
            }
            let mut event = ToolCallEnd::new(&*call.tool_call_id);
            event.subagent_run_id = owner;
            out.push(merge(frame, event.into(), agui)?);
        }
        Ok(())
    }

    fn start_tool(
        &mut self,
        frame: &Frame,
        id: &str,
        call_id: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let view = self.view(frame, id)?;
        if view.tool.started {
            return Ok(());
        }
        let name = view.name.clone().unwrap_or_else(|| view.tool.slug.clone());
        let mut event = ToolCallStart::new(call_id, name);
        let parent = view.parent.as_deref().and_then(|p| self.segments.get_key_value(p));
        event.parent_message_id = match parent {
            Some((id, parent)) if parent.kind == SegmentKind::Message => Some(self.event_message_id(frame, id, parent)),
            Some((id, parent)) if parent.kind == SegmentKind::Model && parent.text_open => {
                Some(self.message_id(frame, id))
            }
            _ => None,
        };
        event.subagent_run_id = self.owner(frame, view.parent.as_deref());
        out.push(event.into());
        let view = self.view_mut(frame, id)?;
        view.tool.started = true;
        view.tool.call_id = Some(call_id.to_owned());
        Ok(())
    }

    fn tool_result(
        &mut self,
        frame: &Frame,
        result: &ToolResult,
        payload: Option<&StoredPayload>,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let agui = agui(&result.extra);
        self.start_tool(frame, id, &result.tool_call_id, out)?;
        let view = self.view(frame, id)?;
        let native = view.opener.is_none();
        let owner = if native { self.content_owner(frame, view) } else { None };
        if native {
            // An agent of this server that never said that the arguments are complete has said so by having a result.
            self.close_tool(frame, id, out)?;
        }
        let content = self.result_content(frame, id, result, payload)?;
        let message_id = format!("{}.result", self.scoped(frame, id));
        let mut event = ToolCallResult::new(message_id, &*result.tool_call_id, content);
        event.subagent_run_id = owner;
        out.push(merge(frame, event.into(), agui)?);
        Ok(())
    }

    fn result_content(
        &mut self,
        frame: &Frame,
        id: &str,
        result: &ToolResult,
        payload: Option<&StoredPayload>,
    ) -> Result<Content, ProjectionError> {
        if !result.truncated {
            return Ok(Content::Text(result.output_preview.clone().unwrap_or_default()));
        }
        let seq = frame.seq;
        let payload = payload.ok_or_else(|| ProjectionError::PayloadMissing { seq, segment: id.to_owned() })?;
        let unreadable = |problem: String| ProjectionError::Payload { seq, problem };
        if payload.content_type != PARTS_PAYLOAD {
            let text = std::str::from_utf8(&payload.bytes).map_err(|e| unreadable(e.to_string()))?;
            return Ok(Content::Text(text.to_owned()));
        }
        let parts: Vec<ContentPart> = serde_json::from_slice(&payload.bytes).map_err(|e| unreadable(e.to_string()))?;
        let content = Content::Parts(parts);
        if self.peer == Peer::Current {
            return Ok(content);
        }
        let text = content.text();
        if let Content::Parts(parts) = &content {
            let lost = parts.iter().filter(|p| !matches!(p, ContentPart::Text { .. })).count();
            self.warnings.push(format!(
                "the result of tool call `{}` was flattened to its text, without {lost} other parts: the client \
                 declares no protocol version and cannot take content parts",
                result.tool_call_id
            ));
        }
        Ok(Content::Text(text))
    }

    /// Ends a call that is still open in AG-UI.
    fn close_tool(&mut self, frame: &Frame, id: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let view = self.view(frame, id)?;
        let owner = match &view.opener {
            Some(opener) => attribution(opener),
            None => self.content_owner(frame, view),
        };
        let view = self.view_mut(frame, id)?;
        if let Some(call_id) = view.tool.call_id.clone()
            && view.tool.started
            && !view.tool.ended
        {
            view.tool.ended = true;
            let mut event = ToolCallEnd::new(call_id);
            event.subagent_run_id = owner;
            out.push(event.into());
        }
        Ok(())
    }

    fn segment_end(&mut self, frame: &Frame, end: &SegmentEnd, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let mut events = Vec::new();
        self.close_segment(frame, end, &mut events)?;
        let cut_off = matches!(end.status, SegmentStatus::Failed | SegmentStatus::Abandoned);
        if cut_off && self.error.is_some() && agui(&end.extra).is_none() {
            self.deferred.append(&mut events);
        } else {
            out.append(&mut self.deferred);
            out.append(&mut events);
        }
        Ok(())
    }

    fn close_segment(&mut self, frame: &Frame, end: &SegmentEnd, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        if self.view(frame, id)?.kind == SegmentKind::Tool {
            self.close_tool(frame, id, out)?;
            self.segments.remove(id);
            return Ok(());
        }
        self.close_model(frame, id, out)?;
        let view = self.view(frame, id)?;
        let said = agui(&end.extra);
        // An end that AG-UI sent is given back as it was; one that this server makes agrees with its opener.
        let owner = match (&view.opener, said) {
            (Some(_), Some(_)) => None,
            (Some(opener), None) => attribution(opener),
            (None, _) => self.content_owner(frame, view),
        };
        let opener_type = view.opener.as_ref().and_then(|o| o.get("type")).and_then(Value::as_str);
        let opener_id = view.opener.as_ref().and_then(|o| o.get("messageId")).and_then(Value::as_str);
        match (view.kind, opener_type) {
            (SegmentKind::Message, _) => {
                let mut event = TextMessageEnd::new(self.event_message_id(frame, id, view));
                event.subagent_run_id = owner;
                out.push(merge(frame, event.into(), said)?);
            }
            (SegmentKind::Reasoning, Some("REASONING_START")) => {
                let mut event = ReasoningEnd::new(opener_id.unwrap_or_default());
                event.subagent_run_id = owner;
                out.push(merge(frame, event.into(), said)?);
            }
            (SegmentKind::Reasoning, Some(_)) => {
                let mut event = ReasoningMessageEnd::new(opener_id.unwrap_or_default());
                event.subagent_run_id = owner;
                out.push(merge(frame, event.into(), said)?);
            }
            (SegmentKind::Reasoning, None) => {
                let message_id = self.message_id(frame, id);
                close_reasoning(&message_id, owner, out);
            }
            (SegmentKind::Step, opener) => {
                let name = view.step_name.clone();
                let mut event = StepFinished::new(&*name);
                event.subagent_run_id = owner;
                out.push(merge(frame, event.into(), said)?);
                if opener.is_none() {
                    self.open_step_names.remove(&name);
                }
            }
            (SegmentKind::Agent, _) => out.push(self.agent_end(frame, id, view, end)?),
            (SegmentKind::Tool | SegmentKind::Model, _) => {}
        }
        self.segments.remove(id);
        Ok(())
    }

    fn agent_end(&self, frame: &Frame, id: &str, view: &View, end: &SegmentEnd) -> Result<Event, ProjectionError> {
        if let Some(said) = agui(&end.extra) {
            return event_from(frame, Value::Object(said.clone()));
        }
        let named = view.opener.as_ref().and_then(|o| o.get("subagentRunId")).and_then(Value::as_str);
        let subagent_run_id = named.map_or_else(|| self.scoped(frame, id), str::to_owned);
        Ok(match end.status {
            SegmentStatus::Completed => SubagentFinished::new(subagent_run_id).into(),
            status => {
                let message = match &end.error {
                    Some(error) => error.message.clone(),
                    None => format!("the agent's work was {status}"),
                };
                let mut event = SubagentError::new(subagent_run_id, message);
                event.code = end.error.as_ref().map(|e| e.code.as_str().to_owned());
                event.into()
            }
        })
    }

    fn close_model(&mut self, frame: &Frame, id: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        self.close_model_thinking(frame, id, out)?;
        let view = self.view(frame, id)?;
        if view.text_open {
            let mut event = TextMessageEnd::new(self.message_id(frame, id));
            event.subagent_run_id = self.content_owner(frame, view);
            out.push(event.into());
            self.view_mut(frame, id)?.text_open = false;
        }
        Ok(())
    }

    fn close_model_thinking(&mut self, frame: &Frame, id: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let view = self.view(frame, id)?;
        if view.thinking_open {
            let owner = self.content_owner(frame, view);
            close_reasoning(&format!("{}.thinking", self.message_id(frame, id)), owner, out);
            self.view_mut(frame, id)?.thinking_open = false;
        }
        Ok(())
    }

    fn open_reasoning(&self, frame: &Frame, id: &str, parent: Option<&str>, out: &mut Vec<Event>) {
        self.open_reasoning_as(frame, &self.message_id(frame, id), parent, out);
    }

    fn open_reasoning_as(&self, frame: &Frame, message_id: &str, parent: Option<&str>, out: &mut Vec<Event>) {
        let owner = self.owner(frame, parent);
        let mut span = ReasoningStart::new(message_id);
        span.subagent_run_id.clone_from(&owner);
        let mut message = ReasoningMessageStart::new(message_id);
        message.subagent_run_id = owner;
        out.push(span.into());
        out.push(message.into());
    }

    /// AG-UI knows a step by its name alone, so a second open step of one name gets a number.
    fn free_step_name(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        let mut number = 2;
        while !self.open_step_names.insert(free.clone()) {
            free = format!("{name} #{number}");
            number += 1;
        }
        free
    }

    /// An id that no other run of the conversation uses.
    fn scoped(&self, frame: &Frame, id: &str) -> String {
        format!("{}.{id}", frame.run_id)
    }

    fn message_id(&self, frame: &Frame, id: &str) -> String {
        self.scoped(frame, id)
    }

    fn event_message_id(&self, frame: &Frame, id: &str, view: &View) -> String {
        let named = view.opener.as_ref().and_then(|o| o.get("messageId")).and_then(Value::as_str);
        named.map_or_else(|| self.message_id(frame, id), str::to_owned)
    }

    /// The innermost agent segment around a segment whose parent this is.
    fn owner(&self, frame: &Frame, parent: Option<&str>) -> Option<String> {
        let mut next = parent;
        while let Some(id) = next {
            let view = self.segments.get(id)?;
            if view.kind == SegmentKind::Agent {
                let named = view.opener.as_ref().and_then(|o| o.get("subagentRunId")).and_then(Value::as_str);
                return Some(named.map_or_else(|| self.scoped(frame, id), str::to_owned));
            }
            next = view.parent.as_deref();
        }
        None
    }

    /// Attribution of a content event: by ancestry where this server's agent wrote it, else as AG-UI said it.
    fn content_owner(&self, frame: &Frame, view: &View) -> Option<String> {
        match view.opener {
            Some(_) => None,
            None => self.owner(frame, view.parent.as_deref()),
        }
    }

    fn view(&self, frame: &Frame, id: &str) -> Result<&View, ProjectionError> {
        let unknown = || ProjectionError::Segment { seq: frame.seq, segment: id.to_owned() };
        self.segments.get(id).ok_or_else(unknown)
    }

    fn view_mut(&mut self, frame: &Frame, id: &str) -> Result<&mut View, ProjectionError> {
        let unknown = || ProjectionError::Segment { seq: frame.seq, segment: id.to_owned() };
        self.segments.get_mut(id).ok_or_else(unknown)
    }
}

fn close_reasoning(message_id: &str, owner: Option<String>, out: &mut Vec<Event>) {
    let mut message = ReasoningMessageEnd::new(message_id);
    message.subagent_run_id.clone_from(&owner);
    let mut span = ReasoningEnd::new(message_id);
    span.subagent_run_id = owner;
    out.push(message.into());
    out.push(span.into());
}

fn notice_event(frame: &Frame, notice: &Notice) -> Result<Event, ProjectionError> {
    if notice.code.starts_with("agui.") {
        let attributes = notice.attributes.clone().unwrap_or_default();
        return event_from(frame, Value::Object(attributes));
    }
    let mut value = Map::new();
    value.insert("level".into(), notice.level.as_str().into());
    value.insert("code".into(), notice.code.clone().into());
    value.insert("message".into(), notice.message.clone().into());
    if let Some(attributes) = &notice.attributes {
        value.insert("attributes".into(), Value::Object(attributes.clone()));
    }
    Ok(Custom::new("runwire.notice", Value::Object(value)).into())
}

fn agui(extra: &Map<String, Value>) -> Option<&Map<String, Value>> {
    extra.get("agui").and_then(Value::as_object)
}

fn attribution(opener: &Map<String, Value>) -> Option<String> {
    opener.get("subagentRunId").and_then(Value::as_str).map(str::to_owned)
}

fn segment_id(frame: &Frame) -> Result<&str, ProjectionError> {
    let missing = || ProjectionError::Segment { seq: frame.seq, segment: String::new() };
    frame.segment_id.as_ref().map(SegmentId::as_str).ok_or_else(missing)
}

fn usage_list(usage: Option<&[Usage]>) -> Option<Vec<TokenUsage>> {
    usage.map(|usage| usage.iter().map(usage_to_agui).collect())
}

/// The event with the members that its frame carried under `agui`.
fn merge(frame: &Frame, event: Event, agui: Option<&Map<String, Value>>) -> Result<Event, ProjectionError> {
    let Some(agui) = agui.filter(|a| !a.is_empty()) else { return Ok(event) };
    let mut members = crate::ingest::members(&event);
    for (key, value) in agui {
        members.insert(key.clone(), value.clone());
    }
    event_from(frame, Value::Object(members))
}

fn event_from(frame: &Frame, value: Value) -> Result<Event, ProjectionError> {
    Event::from_value(value).map_err(|e| ProjectionError::Event { seq: frame.seq, problem: e.to_string() })
}
