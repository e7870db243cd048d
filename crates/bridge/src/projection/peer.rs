//! What a client that predates 1.0 cannot take, and what it is told in its place.

use runwire_agui::{Content, ContentPart, Event, RunError, RunFinished, RunFinishedOutcome};
use runwire_frame::ToolResult;

use super::Projection;

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

impl Projection {
    /// A peer that predates 1.0 rejects the whole run over a `cancelled` outcome or named pending calls.
    pub(super) fn finished_for_peer(&mut self, mut finished: RunFinished) -> Event {
        if let Some(RunFinishedOutcome::Success { pending_tool_call_ids }) = &mut finished.outcome
            && pending_tool_call_ids.is_some()
        {
            if self.peer == Peer::PreV1 {
                *pending_tool_call_ids = None;
                self.warnings.push(
                    "pendingToolCallIds were left out: the client declares no protocol version and cannot take them"
                        .to_owned(),
                );
            } else if self.abandoned_call {
                // The list must name every unanswered call of the run, and the abandoned ones are nobody's to answer.
                *pending_tool_call_ids = None;
                self.warnings.push(
                    "pendingToolCallIds were left out: an abandoned attempt of the run left a tool call unanswered, \
                     which the list would have to name"
                        .to_owned(),
                );
            }
        }
        if self.peer == Peer::PreV1 && finished.outcome == Some(RunFinishedOutcome::Cancelled) {
            self.warnings.push(
                "a cancelled run was told as RUN_ERROR with code CANCELLED: the client declares no protocol version \
                 and cannot take the outcome"
                    .to_owned(),
            );
            let mut error = RunError::new("the run was cancelled");
            error.code = Some("CANCELLED".to_owned());
            error.usage = finished.usage;
            return Event::RunError(error);
        }
        Event::RunFinished(finished)
    }

    /// Whether an ending that a failure came after can be told before that failure. Where it cannot, the failure alone
    /// says how the run ended.
    pub(super) fn peer_takes_before_error(&self, finished: &Event) -> bool {
        let cancelled = matches!(finished, Event::RunFinished(f) if f.outcome == Some(RunFinishedOutcome::Cancelled));
        self.peer == Peer::Current || !cancelled
    }

    /// A list of parts as its text, for a peer that can only hold text.
    pub(super) fn content_for_peer(&mut self, result: &ToolResult, content: Content) -> Content {
        let Content::Parts(parts) = &content else { return content };
        if self.peer == Peer::Current {
            return content;
        }
        let lost = parts.iter().filter(|p| !matches!(p, ContentPart::Text { .. })).count();
        self.warnings.push(format!(
            "the result of tool call `{}` was flattened to its text, without {lost} other parts: the client declares \
             no protocol version and cannot take content parts",
            result.tool_call_id
        ));
        Content::Text(content.text())
    }
}
