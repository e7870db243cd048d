//! Segments: what opens them, what their content is, and what closes them in AG-UI.

use runwire_agui::{
    Event, Interrupt, ReasoningEnd, ReasoningMessageContent, ReasoningMessageEnd, ReasoningMessageStart,
    ReasoningStart, StepFinished, StepStarted, SubagentError, SubagentFinished, SubagentFinishedOutcome,
    SubagentStarted, TextMessageContent, TextMessageEnd, TextMessageRole, TextMessageStart,
};
use runwire_frame::{Frame, SegmentEnd, SegmentKind, SegmentStart, SegmentStatus};
use serde_json::{Map, Value};

use super::view::View;
use super::{Projection, ProjectionError, event_from, merge, segment_id};
use crate::log_state::agui;

impl Projection {
    pub(super) fn segment_start(
        &mut self,
        frame: &Frame,
        start: &SegmentStart,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let opener = agui(&start.extra).filter(|a| a.contains_key("type")).cloned();
        let owner = match &opener {
            Some(opener) => opener.get("subagentRunId").and_then(Value::as_str).map(str::to_owned),
            None => self.agent_around(frame, start.parent_segment_id.as_deref()),
        };
        self.opened += 1;
        let mut view = View {
            kind: start.kind,
            number: self.opened,
            parent: start.parent_segment_id.clone(),
            name: start.name.clone(),
            child_run_id: start.child_run_id.clone(),
            step_name: start.name.clone().unwrap_or_else(|| id.to_owned()),
            tool: self.tool_view(frame, start)?,
            opener,
            owner,
            text_open: false,
            thinking_open: false,
            set_aside: false,
        };
        if view.kind == SegmentKind::Step && view.opener.is_none() {
            view.step_name = self.free_step_name(&view.step_name);
        }
        if view.opener_text("type") == Some("TOOL_CALL_RESULT") {
            // A segment that holds only a result was opened by no event.
            if let Some(tool) = &mut view.tool {
                tool.open = false;
            }
        } else {
            out.append(&mut self.opening_events(frame, id, &view)?);
            if let Some(tool) = &view.tool {
                self.call_made(&tool.call_id, view.opener.is_some());
            }
        }
        self.segments.insert(id.to_owned(), view);
        Ok(())
    }

    fn opening_events(&self, frame: &Frame, id: &str, view: &View) -> Result<Vec<Event>, ProjectionError> {
        if let Some(opener) = &view.opener {
            return Ok(vec![event_from(frame, Value::Object(opener.clone()))?]);
        }
        Ok(match view.kind {
            SegmentKind::Message => {
                let mut event = TextMessageStart::new(self.message_id(frame, id, view));
                event.role = Some(TextMessageRole::Assistant);
                event.name.clone_from(&view.name);
                event.subagent_run_id.clone_from(&view.owner);
                vec![event.into()]
            }
            SegmentKind::Reasoning => open_reasoning(&self.message_id(frame, id, view), view.owner.as_deref()),
            SegmentKind::Step => {
                let mut event = StepStarted::new(&*view.step_name);
                event.subagent_run_id.clone_from(&view.owner);
                vec![event.into()]
            }
            SegmentKind::Agent => {
                let name = view.name.as_deref().unwrap_or("agent");
                let mut event = SubagentStarted::new(self.agent_id(frame, id, view), name);
                event.parent_subagent_run_id.clone_from(&view.owner);
                event.parent_tool_call_id = self.call_around(view);
                vec![event.into()]
            }
            SegmentKind::Tool => view.tool.iter().map(|tool| self.tool_start(frame, view, tool)).collect(),
            // A model call is no AG-UI event by itself: its message and its reasoning open when content comes.
            SegmentKind::Model => Vec::new(),
        })
    }

    /// The tool call that a segment is directly inside of.
    fn call_around(&self, view: &View) -> Option<String> {
        let parent = self.segments.get(view.parent.as_deref()?)?;
        parent.tool.as_ref().map(|tool| tool.call_id.clone())
    }

    pub(super) fn text(&mut self, frame: &Frame, text: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let view = self.view(frame, id)?;
        let message_id = self.message_id(frame, id, view);
        let mut event = TextMessageContent::new(&*message_id, text);
        event.subagent_run_id = view.content_owner();
        if view.kind == SegmentKind::Model && !view.text_open {
            let mut start = TextMessageStart::new(message_id);
            start.role = Some(TextMessageRole::Assistant);
            start.subagent_run_id.clone_from(&view.owner);
            self.close_model_thinking(frame, id, out)?;
            out.push(start.into());
            self.view_mut(frame, id)?.text_open = true;
        }
        out.push(merge(frame, event.into(), agui(frame.data.extra()))?);
        Ok(())
    }

    pub(super) fn thinking(&mut self, frame: &Frame, text: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let view = self.view(frame, id)?;
        let message_id = match view.kind {
            SegmentKind::Model => self.thinking_id(frame, id, view),
            _ => self.message_id(frame, id, view),
        };
        let mut event = ReasoningMessageContent::new(&*message_id, text);
        event.subagent_run_id = view.content_owner();
        if view.kind == SegmentKind::Model && !view.thinking_open {
            out.append(&mut open_reasoning(&message_id, view.owner.as_deref()));
            self.view_mut(frame, id)?.thinking_open = true;
        }
        out.push(merge(frame, event.into(), agui(frame.data.extra()))?);
        Ok(())
    }

    pub(super) fn segment_end(
        &mut self,
        frame: &Frame,
        end: &SegmentEnd,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let mut events = Vec::new();
        let view = self.view(frame, id)?;
        let unanswered = view.tool.as_ref().is_some_and(|t| !t.answered);
        let set_aside = view.set_aside;
        self.abandoned_call |= unanswered && end.status == SegmentStatus::Abandoned;
        // What was set aside at the end of an exchange is closed in AG-UI already.
        if !set_aside {
            events = self.closing_events(frame, id, Some(end), agui(&end.extra))?;
        }
        if let Some(view) = self.segments.remove(id)
            && view.kind == SegmentKind::Step
            && view.opener.is_none()
        {
            self.open_step_names.remove(&view.step_name);
        }
        let cut_off = matches!(end.status, SegmentStatus::Failed | SegmentStatus::Abandoned);
        if cut_off && self.error.is_some() && agui(&end.extra).is_none() {
            self.deferred.append(&mut events);
        } else {
            out.append(&mut self.deferred);
            out.append(&mut events);
        }
        Ok(())
    }

    /// What closes a segment in AG-UI, as `said` by AG-UI itself or as this server makes it.
    fn closing_events(
        &mut self,
        frame: &Frame,
        id: &str,
        end: Option<&SegmentEnd>,
        said: Option<&Map<String, Value>>,
    ) -> Result<Vec<Event>, ProjectionError> {
        let mut out = Vec::new();
        self.close_tool(frame, id, &mut out)?;
        self.close_model(frame, id, &mut out)?;
        let view = self.view(frame, id)?;
        // An end that AG-UI sent is given back as it was; one that this server makes agrees with its opener.
        let owner = if view.opener.is_some() && said.is_some() { None } else { view.owner.clone() };
        let message_id = self.message_id(frame, id, view);
        match (view.kind, view.opener_text("type")) {
            (SegmentKind::Message, _) => {
                let mut event = TextMessageEnd::new(message_id);
                event.subagent_run_id = owner;
                out.push(merge(frame, event.into(), said)?);
            }
            (SegmentKind::Reasoning, Some("REASONING_START")) => {
                let mut event = ReasoningEnd::new(message_id);
                event.subagent_run_id = owner;
                out.push(merge(frame, event.into(), said)?);
            }
            (SegmentKind::Reasoning, Some(_)) => {
                let mut event = ReasoningMessageEnd::new(message_id);
                event.subagent_run_id = owner;
                out.push(merge(frame, event.into(), said)?);
            }
            (SegmentKind::Reasoning, None) => out.append(&mut close_reasoning(&message_id, owner.as_deref())),
            (SegmentKind::Step, _) => {
                let mut event = StepFinished::new(&*view.step_name);
                event.subagent_run_id = owner;
                out.push(merge(frame, event.into(), said)?);
            }
            (SegmentKind::Agent, _) => {
                if let Some(end) = end {
                    out.push(self.agent_end(frame, id, view, end)?);
                }
            }
            (SegmentKind::Tool | SegmentKind::Model, _) => {}
        }
        Ok(out)
    }

    fn agent_end(&self, frame: &Frame, id: &str, view: &View, end: &SegmentEnd) -> Result<Event, ProjectionError> {
        let said = agui(&end.extra);
        if let Some(said) = said.filter(|said| said.contains_key("type")) {
            return event_from(frame, Value::Object(said.clone()));
        }
        let subagent_run_id = self.agent_id(frame, id, view);
        if end.status == SegmentStatus::Completed {
            return merge(frame, SubagentFinished::new(subagent_run_id).into(), said);
        }
        // AG-UI has no ending for an invocation that was stopped; its code tells that it did not fail by itself.
        let stopped = (end.status == SegmentStatus::Cancelled).then(|| "CANCELLED".to_owned());
        let message = match &end.error {
            Some(error) => error.message.clone(),
            None if view.child_run_id.is_some() && end.status == SegmentStatus::Abandoned => {
                format!("the run `{subagent_run_id}` is not waited for any more")
            }
            None => format!("the agent's work was {}", end.status),
        };
        let mut event = SubagentError::new(subagent_run_id, message);
        event.code = end.error.as_ref().map(|e| e.code.as_str().to_owned()).or(stopped);
        merge(frame, event.into(), said)
    }

    /// Nothing may be open when an interrupted exchange finishes: closes it, innermost first, to be opened again.
    pub(super) fn close_for_interrupt(
        &mut self,
        frame: &Frame,
        interrupts: &[Interrupt],
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        for id in self.in_order().into_iter().rev() {
            let tool_was_open = self.view(frame, &id)?.tool.as_ref().is_some_and(|t| t.open);
            let mut events = self.closing_events(frame, &id, None, None)?;
            out.append(&mut events);
            let view = self.view(frame, &id)?;
            if view.kind == SegmentKind::Agent {
                let agent_id = self.agent_id(frame, &id, view);
                let raised = interrupts.iter().filter(|i| i.subagent_run_id.as_deref() == Some(&*agent_id));
                let raised: Vec<String> = raised.map(|i| i.id.clone()).collect();
                let mut event = SubagentFinished::new(agent_id);
                let interrupt_ids = (!raised.is_empty()).then_some(raised);
                event.outcome = Some(SubagentFinishedOutcome::Suspended { interrupt_ids });
                out.push(event.into());
            }
            let set_aside = match view.kind {
                SegmentKind::Tool => tool_was_open,
                SegmentKind::Model => false,
                _ => true,
            };
            self.view_mut(frame, &id)?.set_aside = set_aside;
        }
        Ok(())
    }

    /// Opens again what continues in the next exchange.
    pub(super) fn reopen(&mut self, frame: &Frame, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        for id in self.in_order() {
            let view = self.view_mut(frame, &id)?;
            if std::mem::replace(&mut view.set_aside, false) {
                if let Some(tool) = &mut view.tool {
                    tool.open = true;
                }
                let view = self.view(frame, &id)?;
                out.append(&mut self.opening_events(frame, &id, view)?);
                let call = view.tool.as_ref().map(|tool| (tool.call_id.clone(), view.opener.is_some()));
                if let Some((call_id, relayed)) = call {
                    self.call_made(&call_id, relayed);
                }
            }
        }
        Ok(())
    }

    fn close_model(&mut self, frame: &Frame, id: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        self.close_model_thinking(frame, id, out)?;
        let view = self.view(frame, id)?;
        if view.text_open {
            let mut event = TextMessageEnd::new(self.message_id(frame, id, view));
            event.subagent_run_id.clone_from(&view.owner);
            out.push(event.into());
            self.view_mut(frame, id)?.text_open = false;
        }
        Ok(())
    }

    fn close_model_thinking(&mut self, frame: &Frame, id: &str, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let view = self.view(frame, id)?;
        if view.thinking_open {
            out.append(&mut close_reasoning(&self.thinking_id(frame, id, view), view.owner.as_deref()));
            self.view_mut(frame, id)?.thinking_open = false;
        }
        Ok(())
    }

    /// A model call's reasoning is a message of its own beside its output.
    fn thinking_id(&self, frame: &Frame, id: &str, view: &View) -> String {
        format!("{}.thinking", self.message_id(frame, id, view))
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
}

fn open_reasoning(message_id: &str, owner: Option<&str>) -> Vec<Event> {
    let mut span = ReasoningStart::new(message_id);
    span.subagent_run_id = owner.map(str::to_owned);
    let mut message = ReasoningMessageStart::new(message_id);
    message.subagent_run_id = owner.map(str::to_owned);
    vec![span.into(), message.into()]
}

fn close_reasoning(message_id: &str, owner: Option<&str>) -> Vec<Event> {
    let mut message = ReasoningMessageEnd::new(message_id);
    message.subagent_run_id = owner.map(str::to_owned);
    let mut span = ReasoningEnd::new(message_id);
    span.subagent_run_id = owner.map(str::to_owned);
    vec![message.into(), span.into()]
}
