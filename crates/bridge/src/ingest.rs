//! AG-UI events into frames: the content of one exchange.
//!
//! Takes events that were expanded and verified (see [`runwire_agui::Consumer`]) and writes each through the
//! [`Recorder`]. What an event says beyond its frame goes under the data key `agui`, so that
//! [`Projection`](crate::Projection) gives the same event back.

use std::collections::HashMap;

use runwire_agui::{Content, Event, RunAgentInput};
use runwire_frame::{SegmentError, SegmentId, SegmentStatus, Timestamp};
use serde_json::{Map, Value};

use crate::foreign_code::foreign_code;
use crate::recorder::{Agui, Recorder};
use crate::segment::{Ending, Open, Opening, kind};
use crate::tool_output::ToolOutput;

/// A tool call's segment, without or with its result.
#[derive(Debug)]
enum ToolHandle {
    Waiting(Open<kind::Tool>),
    Answered(Open<kind::AnsweredTool>),
}

#[derive(Debug)]
struct OpenTool {
    handle: ToolHandle,
    arguments_complete: bool,
}

/// The open segments of an exchange, by the ids that AG-UI gives them.
#[derive(Debug, Default)]
pub struct Ingest {
    messages: HashMap<String, Attributed<kind::Message>>,
    spans: HashMap<String, Attributed<kind::Reasoning>>,
    reasoning: HashMap<String, Attributed<kind::Reasoning>>,
    tools: HashMap<String, OpenTool>,
    steps: HashMap<(Option<String>, String), Open<kind::Step>>,
    agents: HashMap<String, Open<kind::Agent>>,
    /// Names of the tool calls of the input and of this exchange, whose results may come in segments of their own.
    known_tools: HashMap<String, String>,
}

#[derive(Debug)]
struct Attributed<K> {
    segment: Open<K>,
    /// Whether the opening event named a subagent: then an end without one must be told apart from an end that was
    /// never sent.
    attributed: bool,
    owner: Option<String>,
}

impl Ingest {
    /// For the first exchange of a run that `input` started.
    pub fn new(input: &RunAgentInput) -> Ingest {
        let calls = input.messages.iter().flat_map(|m| m.tool_calls());
        let known_tools = calls.map(|c| (c.id.clone(), c.function.name.clone())).collect();
        Ingest { known_tools, ..Ingest::default() }
    }

    /// For a later exchange: takes up the tool calls that still wait for their result.
    pub fn resumed(input: &RunAgentInput, recorder: &Recorder) -> Ingest {
        let mut ingest = Ingest::new(input);
        for (call_id, segment) in recorder.open_tools() {
            let tool = OpenTool { handle: ToolHandle::Waiting(segment), arguments_complete: true };
            ingest.tools.insert(call_id, tool);
        }
        ingest
    }

    /// Writes one event that is neither the start nor the end of a run.
    ///
    /// Events that the verifier would have refused (content of an unknown id) change nothing.
    pub fn record(&mut self, recorder: &mut Recorder, now: Timestamp, event: &Event) {
        match event {
            Event::TextMessageStart(e) => {
                let opening = self.opening(event, e.name.clone().or_else(|| role_name(event)));
                let segment = recorder.open_message(now, opening);
                self.messages.insert(e.message_id.clone(), Attributed::new(segment, event));
            }
            Event::TextMessageContent(e) => {
                if let Some(message) = self.messages.get(&e.message_id) {
                    recorder.text(now, &message.segment, &e.delta, extras(event));
                }
            }
            Event::TextMessageEnd(e) => {
                if let Some(message) = self.messages.remove(&e.message_id) {
                    message.end(recorder, now, event);
                }
            }
            Event::ReasoningStart(e) => {
                let segment = recorder.open_reasoning(now, self.opening(event, None));
                self.spans.insert(e.message_id.clone(), Attributed::new(segment, event));
            }
            Event::ReasoningEnd(e) => {
                if let Some(span) = self.spans.remove(&e.message_id) {
                    span.end(recorder, now, event);
                }
            }
            Event::ReasoningMessageStart(e) => {
                let mut opening = self.opening(event, None);
                if let Some(span) = self.span_around(event.subagent_run_id()) {
                    opening.parent = Some(span);
                }
                let segment = recorder.open_reasoning(now, opening);
                self.reasoning.insert(e.message_id.clone(), Attributed::new(segment, event));
            }
            Event::ReasoningMessageContent(e) => {
                if let Some(message) = self.reasoning.get(&e.message_id) {
                    recorder.thinking(now, &message.segment, &e.delta, extras(event));
                }
            }
            Event::ReasoningMessageEnd(e) => {
                if let Some(message) = self.reasoning.remove(&e.message_id) {
                    message.end(recorder, now, event);
                }
            }
            Event::ToolCallStart(e) => {
                let mut opening = self.opening(event, None);
                if let Some(parent) = e.parent_message_id.as_ref().and_then(|id| self.messages.get(id)) {
                    opening.parent = Some(parent.segment.id().clone());
                }
                // A closed call may be opened again; the segment that waited for its result makes way.
                if let Some(earlier) = self.tools.remove(&e.tool_call_id) {
                    earlier.end(recorder, now);
                }
                self.known_tools.insert(e.tool_call_id.clone(), e.tool_call_name.clone());
                let segment = recorder.open_tool(now, &e.tool_call_id, &e.tool_call_name, opening);
                let tool = OpenTool { handle: ToolHandle::Waiting(segment), arguments_complete: false };
                self.tools.insert(e.tool_call_id.clone(), tool);
            }
            Event::ToolCallArgs(e) => match self.tools.get(&e.tool_call_id).map(|t| &t.handle) {
                Some(ToolHandle::Waiting(segment)) => recorder.arguments(now, segment, &e.delta, extras(event)),
                Some(ToolHandle::Answered(segment)) => recorder.arguments(now, segment, &e.delta, extras(event)),
                None => {}
            },
            Event::ToolCallEnd(e) => self.tool_call_end(recorder, now, event, &e.tool_call_id),
            Event::ToolCallResult(e) => self.tool_call_result(recorder, now, event, &e.tool_call_id, &e.content),
            Event::StepStarted(e) => {
                let segment = recorder.open_step(now, self.opening(event, Some(e.step_name.clone())));
                self.steps.insert((owner(event), e.step_name.clone()), segment);
            }
            Event::StepFinished(e) => {
                if let Some(segment) = self.steps.remove(&(owner(event), e.step_name.clone())) {
                    recorder.end(now, segment, Ending { agui: extras(event), ..Ending::completed() });
                }
            }
            Event::SubagentStarted(e) => {
                let mut opening = Opening::named(&e.name);
                opening.agui = Some(members(event));
                opening.parent = e.parent_subagent_run_id.as_ref().and_then(|id| self.agent(id));
                let segment = recorder.open_agent(now, opening);
                self.agents.insert(e.subagent_run_id.clone(), segment);
            }
            Event::SubagentFinished(e) => {
                if let Some(segment) = self.agents.remove(&e.subagent_run_id) {
                    recorder.end(now, segment, Ending { agui: Some(members(event)), ..Ending::completed() });
                }
            }
            Event::SubagentError(e) => {
                if let Some(segment) = self.agents.remove(&e.subagent_run_id) {
                    let code = foreign_code(e.code.as_deref());
                    let error = SegmentError { code, message: e.message.clone(), extra: Map::new() };
                    let agui = Some(members(event));
                    let ending = Ending { error: Some(error), agui, ..Ending::with_status(SegmentStatus::Failed) };
                    recorder.end(now, segment, ending);
                }
            }
            Event::StateSnapshot(_)
            | Event::StateDelta(_)
            | Event::MessagesSnapshot(_)
            | Event::ActivitySnapshot(_)
            | Event::ActivityDelta(_)
            | Event::Custom(_)
            | Event::Raw(_)
            | Event::ReasoningEncryptedValue(_) => recorder.agui_notice(now, members(event)),
            // The course of a run is not content: see `Upstream`. Chunks were expanded before.
            Event::RunStarted(_)
            | Event::RunFinished(_)
            | Event::RunError(_)
            | Event::TextMessageChunk(_)
            | Event::ToolCallChunk(_)
            | Event::ReasoningMessageChunk(_) => {}
        }
    }

    fn tool_call_end(&mut self, recorder: &mut Recorder, now: Timestamp, event: &Event, call_id: &str) {
        let Some(tool) = self.tools.get_mut(call_id) else { return };
        let agui = extras(event);
        match &tool.handle {
            ToolHandle::Waiting(segment) => recorder.arguments_complete(now, segment, agui),
            ToolHandle::Answered(segment) => recorder.arguments_complete(now, segment, agui),
        }
        tool.arguments_complete = true;
        self.end_if_done(recorder, now, call_id);
    }

    fn tool_call_result(
        &mut self,
        recorder: &mut Recorder,
        now: Timestamp,
        event: &Event,
        call_id: &str,
        content: &Content,
    ) {
        let mut agui = members(event);
        for key in ["type", "toolCallId", "content"] {
            agui.shift_remove(key);
        }
        let output = match content {
            Content::Text(text) => ToolOutput::Text(text.clone()),
            Content::Parts(parts) => ToolOutput::Parts(
                parts.iter().map(|p| serde_json::to_value(p).expect("a content part is plain JSON")).collect(),
            ),
        };
        match self.tools.remove(call_id) {
            Some(OpenTool { handle: ToolHandle::Waiting(segment), arguments_complete }) => {
                let segment = recorder.result(now, segment, true, &output, Some(agui));
                let tool = OpenTool { handle: ToolHandle::Answered(segment), arguments_complete };
                self.tools.insert(call_id.to_owned(), tool);
                self.end_if_done(recorder, now, call_id);
            }
            other => {
                // The call was made in an earlier run, or it has a result already: this one gets a segment of its own.
                if let Some(answered) = other {
                    self.tools.insert(call_id.to_owned(), answered);
                }
                let slug = self.known_tools.get(call_id).cloned().unwrap_or_else(|| "unknown".to_owned());
                let mut opening = Opening { agui: Some(result_only()), ..Opening::default() };
                opening.parent = event.subagent_run_id().and_then(|id| self.agent(id));
                let segment = recorder.open_tool(now, call_id, slug, opening);
                let segment = recorder.result(now, segment, true, &output, Some(agui));
                recorder.end(now, segment, Ending::completed());
            }
        }
    }

    fn end_if_done(&mut self, recorder: &mut Recorder, now: Timestamp, call_id: &str) {
        let done = |t: &OpenTool| t.arguments_complete && matches!(t.handle, ToolHandle::Answered(_));
        if self.tools.get(call_id).is_some_and(done)
            && let Some(tool) = self.tools.remove(call_id)
        {
            tool.end(recorder, now);
        }
    }

    fn opening(&self, event: &Event, name: Option<String>) -> Opening {
        let parent = event.subagent_run_id().and_then(|id| self.agent(id));
        Opening { name, parent, agui: Some(members(event)), ..Opening::default() }
    }

    fn agent(&self, subagent_run_id: &str) -> Option<SegmentId> {
        self.agents.get(subagent_run_id).map(|s| s.id().clone())
    }

    /// The one open reasoning span of this owner; with several there is no telling which a message is inside of.
    fn span_around(&self, owner: Option<&str>) -> Option<SegmentId> {
        let mut spans = self.spans.values().filter(|s| s.owner.as_deref() == owner);
        match (spans.next(), spans.next()) {
            (Some(span), None) => Some(span.segment.id().clone()),
            _ => None,
        }
    }
}

impl OpenTool {
    fn end(self, recorder: &mut Recorder, now: Timestamp) {
        match self.handle {
            ToolHandle::Waiting(segment) => recorder.end(now, segment, Ending::completed()),
            ToolHandle::Answered(segment) => recorder.end(now, segment, Ending::completed()),
        }
    }
}

impl<K> Attributed<K> {
    fn new(segment: Open<K>, event: &Event) -> Attributed<K> {
        let owner = owner(event);
        Attributed { segment, attributed: owner.is_some(), owner }
    }

    fn end(self, recorder: &mut Recorder, now: Timestamp, event: &Event) {
        let agui = extras(event).or_else(|| self.attributed.then(Map::new));
        recorder.end(now, self.segment, Ending { agui, ..Ending::completed() });
    }
}

fn owner(event: &Event) -> Option<String> {
    event.subagent_run_id().map(str::to_owned)
}

fn role_name(event: &Event) -> Option<String> {
    match event {
        Event::TextMessageStart(e) => Some(e.role.map_or("assistant", |r| r.as_str()).to_owned()),
        _ => None,
    }
}

/// The event as a JSON object.
pub(crate) fn members(event: &Event) -> Map<String, Value> {
    match event.to_value() {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// What every event may carry besides what its frame says: attribution, timestamp, raw event, metadata.
pub(crate) fn extras(event: &Event) -> Agui {
    let mut map = Map::new();
    if let Some(id) = event.subagent_run_id() {
        map.insert("subagentRunId".into(), id.into());
    }
    if let Some(timestamp) = event.timestamp() {
        map.insert("timestamp".into(), timestamp.into());
    }
    if let Some(raw) = event.raw_event() {
        map.insert("rawEvent".into(), raw.clone());
    }
    if let Some(metadata) = event.metadata() {
        map.insert("metadata".into(), Value::Object(metadata.clone()));
    }
    (!map.is_empty()).then_some(map)
}

/// Marks a tool segment that holds only a result: its call was made elsewhere.
pub(crate) fn result_only() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), Value::from("TOOL_CALL_RESULT"))])
}
