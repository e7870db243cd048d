//! What a run's log says to the run that started it.

use std::collections::HashMap;

use runwire_frame::{Data, EndStatus, ErrorCode, Frame, RunEnd, RunStatus, SegmentId, SegmentKind, Suspend};

use crate::child::{ChildEnd, MAX_CHILD_TEXT};
use crate::engine::Waiting;

/// What of a child's log matters to its parent: a fold over its frames.
#[derive(Debug, Default)]
pub(crate) struct ChildLog {
    /// The open segments, with the output of each.
    open: HashMap<SegmentId, OpenText>,
    opened: u64,
    /// The text of the message that opened last among those that have ended.
    last: Option<(u64, Text)>,
    /// What the last `error` said.
    error: Option<(ErrorCode, String, bool)>,
    suspend: Option<Suspend>,
}

#[derive(Debug, Default)]
struct OpenText {
    number: u64,
    /// Whether it is an agent's inside of the child, or that agent.
    inner: bool,
    text: Text,
}

#[derive(Debug, Default)]
struct Text {
    text: String,
    cut: bool,
}

impl Text {
    fn push(&mut self, more: &str) {
        let room = MAX_CHILD_TEXT - self.text.len();
        let fits = if self.cut { 0 } else { more.floor_char_boundary(room) };
        self.text.push_str(&more[..fits]);
        self.cut |= fits < more.len();
    }
}

impl ChildLog {
    /// Takes the next frame, and says whether the child came to something by it.
    pub(crate) fn apply(&mut self, frame: &Frame) -> Option<ChildEnd> {
        match &frame.data {
            // What an abandoned attempt said is not the answer.
            Data::RunStart(_) => *self = ChildLog::default(),
            Data::SegmentStart(start) => {
                let parent = start.parent_segment_id.as_deref().map(SegmentId::from);
                let around = parent.and_then(|parent| self.open.get(&parent)).is_some_and(|open| open.inner);
                let inner = around || start.kind == SegmentKind::Agent;
                self.opened += 1;
                let open = OpenText { number: self.opened, inner, text: Text::default() };
                self.open.extend(frame.segment_id.clone().map(|id| (id, open)));
            }
            Data::TextDelta(delta) => {
                let open = frame.segment_id.as_ref().and_then(|id| self.open.get_mut(id));
                if let Some(open) = open.filter(|open| !open.inner) {
                    open.text.push(&delta.text);
                }
            }
            Data::SegmentEnd(_) => {
                let ended = frame.segment_id.as_ref().and_then(|id| self.open.remove(id));
                if let Some(OpenText { number, text, .. }) = ended.filter(|ended| !ended.text.text.is_empty())
                    && self.last.as_ref().is_none_or(|(last, _)| *last < number)
                {
                    self.last = Some((number, text));
                }
            }
            Data::Error(error) => self.error = Some((error.code, error.message.clone(), error.retryable)),
            Data::Suspend(suspend) => self.suspend = Some(suspend.clone()),
            Data::RunStatus(change) if change.status == RunStatus::Suspended => {
                return self.suspend.take().map(|suspend| ChildEnd::Suspended(Waiting::of(suspend)));
            }
            Data::RunEnd(end) => return Some(self.end(end)),
            _ => {}
        }
        None
    }

    fn end(&mut self, end: &RunEnd) -> ChildEnd {
        let error = self.error.take();
        match end.status {
            EndStatus::Completed => {
                let (_, Text { text, cut }) = self.last.take().unwrap_or_default();
                let result = end.extra.get("agui").and_then(|agui| agui.get("result")).cloned();
                ChildEnd::Completed { text, whole: !cut, result }
            }
            EndStatus::Cancelled => ChildEnd::Cancelled { reason: error.map(|(_, message, _)| message) },
            EndStatus::Failed => {
                let untold = || (ErrorCode::InternalError, "the run failed".to_owned(), false);
                let (code, message, retryable) = error.unwrap_or_else(untold);
                ChildEnd::Failed { code, message, retryable }
            }
        }
    }
}
