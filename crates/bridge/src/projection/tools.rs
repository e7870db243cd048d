//! Tool segments: a call, its arguments and its result.

use runwire_agui::{
    Content, ContentPart, Event, RunFinished, RunFinishedOutcome, ToolCallArgs, ToolCallEnd, ToolCallResult,
    ToolCallStart,
};
use runwire_frame::{Frame, SegmentKind, SegmentStart, ToolCall, ToolResult};
use serde_json::Value;

use super::view::{Call, ToolView, View};
use super::{Projection, ProjectionError, StoredPayload, merge, segment_id};
use crate::log_state::{TOOL_CALL_ID, agui};
use crate::tool_output::PARTS_PAYLOAD;

impl Projection {
    /// The call that a tool segment's opening names.
    pub(super) fn tool_view(&self, frame: &Frame, start: &SegmentStart) -> Result<Option<ToolView>, ProjectionError> {
        if start.kind != SegmentKind::Tool {
            return Ok(None);
        }
        let call_id = agui(&start.extra).and_then(|a| a.get(TOOL_CALL_ID)).and_then(Value::as_str);
        let call_id = call_id.ok_or_else(|| ProjectionError::Event {
            seq: frame.seq,
            problem: "the opening of a tool segment names no call".to_owned(),
        })?;
        Ok(Some(ToolView {
            call_id: call_id.to_owned(),
            slug: start.tool_slug.clone().unwrap_or_default(),
            open: true,
            argument_bytes: 0,
            answered: false,
        }))
    }

    pub(super) fn tool_start(&self, frame: &Frame, view: &View, tool: &ToolView) -> Event {
        let mut event = ToolCallStart::new(&*tool.call_id, view.name.as_deref().unwrap_or(&tool.slug));
        let parent = view.parent.as_deref().and_then(|p| self.segments.get_key_value(p));
        event.parent_message_id = match parent {
            Some((id, parent)) if parent.kind == SegmentKind::Message || parent.text_open => {
                Some(self.message_id(frame, id, parent))
            }
            _ => None,
        };
        event.subagent_run_id.clone_from(&view.owner);
        event.into()
    }

    /// A call was opened towards AG-UI, for the first time in the exchange or again.
    pub(super) fn call_made(&mut self, call_id: &str, relayed: bool) {
        if !self.calls.iter().any(|call| call.call_id == call_id) {
            self.calls.push(Call { call_id: call_id.to_owned(), relayed, answered: false });
        }
    }

    fn call_answered(&mut self, call_id: &str) {
        match self.calls.iter_mut().find(|call| call.call_id == call_id) {
            Some(call) => call.answered = true,
            None => self.calls.push(Call { call_id: call_id.to_owned(), relayed: false, answered: true }),
        }
    }

    /// A completed exchange names the calls that it leaves to the application (events/tool-calls, "Frontend tools"). An
    /// agent of this server need not: the log says which they are. An upstream agent speaks for itself.
    pub(super) fn name_pending_calls(&self, finished: &mut RunFinished) {
        let unsaid =
            matches!(finished.outcome, None | Some(RunFinishedOutcome::Success { pending_tool_call_ids: None }));
        let pending: Vec<&Call> = self.calls.iter().filter(|call| !call.answered).collect();
        if !unsaid || self.abandoned_call || pending.is_empty() || pending.iter().any(|call| call.relayed) {
            return;
        }
        let ids = pending.iter().map(|call| call.call_id.clone()).collect();
        finished.outcome = Some(RunFinishedOutcome::Success { pending_tool_call_ids: Some(ids) });
    }

    pub(super) fn tool_call(
        &mut self,
        frame: &Frame,
        call: &ToolCall,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let agui = agui(&call.extra);
        let view = self.view_mut(frame, id)?;
        let owner = view.content_owner();
        let Some(tool) = &mut view.tool else { return Ok(()) };
        if let Some(delta) = &call.arguments_delta {
            tool.argument_bytes += delta.len();
            let mut event = ToolCallArgs::new(&*call.tool_call_id, &**delta);
            event.subagent_run_id.clone_from(&owner);
            out.push(merge(frame, event.into(), agui.filter(|_| call.arguments.is_none()))?);
        }
        if let Some(whole) = &call.arguments
            && std::mem::replace(&mut tool.open, false)
        {
            // What no delta has brought yet, such as arguments that a driver hands over at once.
            if let Some(rest) = whole.get(tool.argument_bytes..).filter(|rest| !rest.is_empty()) {
                let mut event = ToolCallArgs::new(&*call.tool_call_id, rest);
                event.subagent_run_id.clone_from(&owner);
                out.push(event.into());
            }
            let mut event = ToolCallEnd::new(&*call.tool_call_id);
            event.subagent_run_id = owner;
            out.push(merge(frame, event.into(), agui)?);
        }
        Ok(())
    }

    pub(super) fn tool_result(
        &mut self,
        frame: &Frame,
        result: &ToolResult,
        payload: Option<&StoredPayload>,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let id = segment_id(frame)?;
        let view = self.view(frame, id)?;
        let owner = view.content_owner();
        if view.opener.is_none() {
            // An agent of this server that never said that the arguments are complete has said so by having a result.
            self.close_tool(frame, id, out)?;
        }
        if let Some(tool) = &mut self.view_mut(frame, id)?.tool {
            tool.answered = true;
        }
        self.call_answered(&result.tool_call_id);
        let content = result_content(frame, id, result, payload)?;
        let message_id = format!("{}.result", self.scoped(frame, id));
        let mut event = ToolCallResult::new(message_id, &*result.tool_call_id, content);
        event.subagent_run_id = owner;
        out.push(merge(frame, event.into(), agui(&result.extra))?);
        Ok(())
    }

    /// Ends a call that is still open in AG-UI. Says whether it was.
    pub(super) fn close_tool(
        &mut self,
        frame: &Frame,
        id: &str,
        out: &mut Vec<Event>,
    ) -> Result<bool, ProjectionError> {
        let view = self.view_mut(frame, id)?;
        let owner = view.owner.clone();
        let Some(tool) = view.tool.as_mut().filter(|t| t.open) else { return Ok(false) };
        tool.open = false;
        let mut event = ToolCallEnd::new(&*tool.call_id);
        event.subagent_run_id = owner;
        out.push(event.into());
        Ok(true)
    }
}

fn result_content(
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
    Ok(Content::Parts(parts))
}
