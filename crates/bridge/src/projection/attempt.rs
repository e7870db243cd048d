//! A new attempt of a run, as AG-UI sees it: the exchange goes on, and what the abandoned attempt showed is taken back.

use runwire_agui::{Custom, Event, MessagesSnapshot, RunAgentInput, StateSnapshot};
use runwire_frame::Frame;
use serde_json::{Map, Value, json};

use super::{Projection, ProjectionError, event_from};

impl Projection {
    /// Restates the conversation and the state as they were before the abandoned attempt, and marks the new one.
    ///
    /// They are those of the exchange's input, which the log holds where `run.start` (or `resume`) echoes it. Without
    /// the echo there is nothing to restate from, and the mark alone tells that another attempt began.
    pub(super) fn next_attempt(
        &mut self,
        frame: &Frame,
        agui: Option<&Map<String, Value>>,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        if let Some(input) = agui.and_then(|a| a.get("input")).or(self.input.as_ref()) {
            let input: RunAgentInput = serde_json::from_value(input.clone())
                .map_err(|e| ProjectionError::Event { seq: frame.seq, problem: e.to_string() })?;
            out.push(StateSnapshot::new(input.starting_state()).into());
            out.push(MessagesSnapshot::new(input.messages).into());
        }
        out.push(Custom::new("runwire.attempt", json!({ "attempt": self.attempt })).into());
        Ok(())
    }

    /// A subagent's id may name one invocation of a run only, and an upstream agent that is asked again may use the ids
    /// of the abandoned attempt. The new attempt's get another name wherever they stand.
    pub(super) fn rename_reused_agents(
        &mut self,
        frame: &Frame,
        events: Vec<Event>,
    ) -> Result<Vec<Event>, ProjectionError> {
        let mut renamed = Vec::with_capacity(events.len());
        for event in events {
            if let Event::SubagentStarted(started) = &event {
                let id = started.subagent_run_id.clone();
                if !self.used_agents.insert(id.clone()) {
                    let name = format!("{id}.{}", self.attempt);
                    self.renamed_agents.insert(id, name);
                }
            }
            renamed.push(self.rename(frame, event)?);
        }
        Ok(renamed)
    }

    fn rename(&self, frame: &Frame, event: Event) -> Result<Event, ProjectionError> {
        if self.renamed_agents.is_empty() {
            return Ok(event);
        }
        let mut members = crate::ingest::members(&event);
        for key in ["subagentRunId", "parentSubagentRunId"] {
            let name = members.get(key).and_then(Value::as_str).and_then(|id| self.renamed_agents.get(id));
            if let Some(name) = name.cloned() {
                members.insert(key.to_owned(), name.into());
            }
        }
        event_from(frame, Value::Object(members))
    }
}
