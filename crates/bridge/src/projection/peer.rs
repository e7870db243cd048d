//! Whom the events are for, and what they lose on the way.

use runwire_agui::{Event, RunFinished, RunFinishedOutcome};

use super::Projection;

impl Projection {
    /// The events of one frame, as this peer can take them.
    pub(super) fn for_peer(&mut self, events: Vec<Event>) -> Vec<Event> {
        let Some(downgrade) = &mut self.downgrade else { return events };
        let events = downgrade.apply(events);
        self.warnings.append(&mut downgrade.take_warnings());
        events
    }

    /// A list of pending calls must name every unanswered call of the run, and the abandoned ones are nobody's to answer.
    pub(super) fn without_abandoned_calls(&mut self, finished: &mut RunFinished) {
        if self.abandoned_call
            && let Some(RunFinishedOutcome::Success { pending_tool_call_ids }) = &mut finished.outcome
            && pending_tool_call_ids.take().is_some()
        {
            self.warnings.push(
                "pendingToolCallIds were left out: an abandoned attempt of the run left a tool call unanswered, which \
                 the list would have to name"
                    .to_owned(),
            );
        }
    }
}
