//! A segment as its AG-UI events need it: who opened it, whose it is, and what of it is open in AG-UI.

use runwire_frame::{Frame, SegmentKind};
use serde_json::{Map, Value};

use super::{Projection, ProjectionError};

#[derive(Debug)]
pub(super) struct View {
    pub kind: SegmentKind,
    /// Its place in the order of opening.
    pub number: u64,
    pub parent: Option<String>,
    pub name: Option<String>,
    /// The event that opened it, where it came from AG-UI.
    pub opener: Option<Map<String, Value>>,
    /// The subagent whose work it is. Decided once, when it opens, because what continues it must agree.
    pub owner: Option<String>,
    /// Of a child agent that is a run of its own: that run.
    pub child_run_id: Option<String>,
    pub step_name: String,
    pub tool: Option<ToolView>,
    /// What of a model call was opened because content came.
    pub text_open: bool,
    pub thinking_open: bool,
    /// Closed towards AG-UI at the end of an exchange, and to be opened again in the next.
    pub set_aside: bool,
}

#[derive(Debug)]
pub(super) struct ToolView {
    pub call_id: String,
    pub slug: String,
    /// Whether the call is open in AG-UI: its arguments are not complete.
    pub open: bool,
    pub argument_bytes: usize,
    pub answered: bool,
}

/// A tool call of the exchange.
#[derive(Debug)]
pub(super) struct Call {
    pub call_id: String,
    /// Whether it was relayed: then it is the upstream agent that says whether it is left to be answered.
    pub relayed: bool,
    pub answered: bool,
}

impl View {
    pub fn opener_text(&self, key: &str) -> Option<&str> {
        self.opener.as_ref().and_then(|o| o.get(key)).and_then(Value::as_str)
    }

    /// Attribution of a content event: as AG-UI said it with the event itself, else the segment's.
    pub fn content_owner(&self) -> Option<String> {
        if self.opener.is_some() { None } else { self.owner.clone() }
    }
}

impl Projection {
    pub(super) fn view(&self, frame: &Frame, id: &str) -> Result<&View, ProjectionError> {
        let unknown = || ProjectionError::Segment { seq: frame.seq, segment: id.to_owned() };
        self.segments.get(id).ok_or_else(unknown)
    }

    pub(super) fn view_mut(&mut self, frame: &Frame, id: &str) -> Result<&mut View, ProjectionError> {
        let unknown = || ProjectionError::Segment { seq: frame.seq, segment: id.to_owned() };
        self.segments.get_mut(id).ok_or_else(unknown)
    }

    /// The names of the open segments in the order in which they opened.
    pub(super) fn in_order(&self) -> Vec<String> {
        let mut open: Vec<(u64, &String)> = self.segments.iter().map(|(id, view)| (view.number, id)).collect();
        open.sort_unstable();
        open.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// The innermost agent segment around a segment whose parent this is, by its AG-UI id.
    pub(super) fn agent_around(&self, frame: &Frame, parent: Option<&str>) -> Option<String> {
        let id = parent?;
        let view = self.segments.get(id)?;
        if view.kind == SegmentKind::Agent { Some(self.agent_id(frame, id, view)) } else { view.owner.clone() }
    }

    /// What an agent segment is called in AG-UI. A child run is called what it is everywhere else, so that a client which
    /// sees it begin can look at it.
    pub(super) fn agent_id(&self, frame: &Frame, id: &str, view: &View) -> String {
        let known = view.opener_text("subagentRunId").or(view.child_run_id.as_deref());
        known.map_or_else(|| self.scoped(frame, id), str::to_owned)
    }

    /// The id of the message or the span that a segment is.
    pub(super) fn message_id(&self, frame: &Frame, id: &str, view: &View) -> String {
        view.opener_text("messageId").map_or_else(|| self.scoped(frame, id), str::to_owned)
    }
}
