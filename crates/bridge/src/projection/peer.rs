//! Whom the events are for, and what they lose on the way.

use std::collections::HashSet;

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

    /// A list of pending calls must name every unanswered call of the run, also those that an attempt left behind which was
    /// given up; and these are nobody's to answer.
    pub(super) fn without_abandoned_calls(&mut self, finished: &mut RunFinished) {
        let Some(RunFinishedOutcome::Success { pending_tool_call_ids }) = &mut finished.outcome else { return };
        let Some(listed) = pending_tool_call_ids.as_ref().filter(|_| self.abandoned_call) else { return };
        let listed: HashSet<&str> = listed.iter().map(String::as_str).collect();
        if listed != self.guard.pending_tool_calls().collect() {
            *pending_tool_call_ids = None;
            self.warnings.push(
                "pendingToolCallIds were left out: an abandoned attempt of the run left a tool call unanswered, which \
                 the list would have to name"
                    .to_owned(),
            );
        }
    }
}
