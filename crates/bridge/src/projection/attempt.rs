//! A new attempt of a run, as AG-UI sees it: the exchange goes on, and what the abandoned attempt showed is taken back.

use runwire_agui::{Custom, Event, MessagesSnapshot, RunAgentInput, StateSnapshot};
use runwire_frame::{Frame, RunStart};
use serde_json::json;

use crate::asked::asked_input;
use crate::log_state::agui;

use super::{Projection, ProjectionError};

impl Projection {
    /// Restates the conversation and the state as they were before the abandoned attempt, and marks the new one.
    ///
    /// They are those of the exchange's input, which the log holds where `run.start` (or `resume`) echoes it. Without
    /// the echo there is nothing to restate from, and the mark alone tells that another attempt began. They are what the
    /// client has sent, so they have the names that it knows.
    pub(super) fn next_attempt(&mut self, frame: &Frame, start: &RunStart) -> Result<Vec<Event>, ProjectionError> {
        // What the abandoned attempt has made and answered says nothing of the calls of this one.
        self.calls.clear();
        let mut told = Vec::new();
        let mark = Custom::new("runwire.attempt", json!({ "attempt": start.attempt }));
        let Some(input) = agui(&start.extra).and_then(asked_input).or(self.input.as_ref()) else {
            self.names.next_attempt(start.attempt, None);
            told.push(mark.into());
            return Ok(told);
        };
        let input: RunAgentInput = serde_json::from_value(input.clone())
            .map_err(|e| ProjectionError::Event { seq: frame.seq, problem: e.to_string() })?;
        self.names.next_attempt(start.attempt, Some(&input.messages));
        told.push(StateSnapshot::new(input.starting_state()).into());
        told.push(MessagesSnapshot::new(input.messages).into());
        told.push(mark.into());
        Ok(told)
    }
}
