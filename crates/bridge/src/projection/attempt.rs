//! A new attempt of a run, as AG-UI sees it: the exchange goes on, and what the abandoned attempt showed is taken back.

use std::collections::{HashMap, HashSet};

use runwire_agui::{Custom, Event, MessagesSnapshot, RunAgentInput, StateSnapshot};
use runwire_frame::Frame;
use serde_json::{Map, Value, json};

use crate::asked::asked_input;

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
        self.names.abandon();
        if let Some(input) = agui.and_then(asked_input).or(self.input.as_ref()) {
            let input: RunAgentInput = serde_json::from_value(input.clone())
                .map_err(|e| ProjectionError::Event { seq: frame.seq, problem: e.to_string() })?;
            out.push(StateSnapshot::new(input.starting_state()).into());
            out.push(MessagesSnapshot::new(input.messages).into());
        }
        out.push(Custom::new("runwire.attempt", json!({ "attempt": self.attempt })).into());
        Ok(())
    }

    /// Gives a repeated id another name wherever it stands, where the repetition would be taken for the first.
    ///
    /// A subagent's id may name one invocation of a run only, and an upstream agent that is asked again may use the ids
    /// of the abandoned attempt. So it may with the ids of reasoning and activities, which the client keeps when the
    /// messages are restated without them (events/state, `MESSAGES_SNAPSHOT`): what is new would be added to what was
    /// abandoned. And `parentSubagentRunId` may only name an invocation that this exchange announced: a parent may end
    /// before its child, which then opens again in the next exchange.
    pub(super) fn rename_reused(&mut self, frame: &Frame, events: Vec<Event>) -> Result<Vec<Event>, ProjectionError> {
        let attempt = self.attempt;
        let mut renamed = Vec::with_capacity(events.len());
        for mut event in events {
            if let Event::SubagentStarted(started) = &mut event {
                if started.parent_subagent_run_id.as_ref().is_some_and(|parent| !self.names.agents.contains(parent)) {
                    started.parent_subagent_run_id = None;
                }
                let id = &started.subagent_run_id;
                if !self.names.agents.insert(id.clone()) {
                    self.names.renamed_agents.insert(id.clone(), format!("{id}.{attempt}"));
                }
            } else if let Some(id) = opened_item(&event) {
                if self.names.abandoned_items.contains(id) {
                    self.names.renamed_items.insert(id.to_owned(), format!("{id}.{attempt}"));
                }
                self.names.items.insert(id.to_owned());
            }
            renamed.push(self.names.rename(frame, event)?);
        }
        Ok(renamed)
    }
}

/// The ids of one exchange that may name one thing only.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Subagents that were announced, in all attempts, and what this attempt's are called in place of repeated ids.
    agents: HashSet<String>,
    renamed_agents: HashMap<String, String>,
    /// Reasoning and activities of this attempt, of the abandoned ones, and what this attempt's are called instead.
    items: HashSet<String>,
    abandoned_items: HashSet<String>,
    renamed_items: HashMap<String, String>,
}

impl Names {
    /// Another attempt begins: what the one before it opened is not to be opened again.
    fn abandon(&mut self) {
        self.abandoned_items.extend(self.items.drain());
    }

    fn rename(&self, frame: &Frame, event: Event) -> Result<Event, ProjectionError> {
        if self.renamed_agents.is_empty() && self.renamed_items.is_empty() {
            return Ok(event);
        }
        let is_item = opened_item(&event).is_some() || continued_item(&event);
        let mut members = crate::ingest::members(&event);
        self.rename_agents(&mut members);
        if is_item {
            rename(&mut members, "messageId", &self.renamed_items);
        }
        if matches!(event, Event::ReasoningEncryptedValue(_)) {
            rename(&mut members, "entityId", &self.renamed_items);
        }
        let interrupts = members.get_mut("outcome").and_then(|outcome| outcome.get_mut("interrupts"));
        for interrupt in objects(interrupts) {
            self.rename_agents(interrupt);
        }
        if matches!(event, Event::MessagesSnapshot(_)) {
            for message in objects(members.get_mut("messages")) {
                self.rename_agents(message);
                if message.get("role").is_some_and(|role| role == "reasoning" || role == "activity") {
                    rename(message, "id", &self.renamed_items);
                }
            }
        }
        event_from(frame, Value::Object(members))
    }

    fn rename_agents(&self, members: &mut Map<String, Value>) {
        for key in ["subagentRunId", "parentSubagentRunId"] {
            rename(members, key, &self.renamed_agents);
        }
    }
}

/// The reasoning or the activity that an event opens, or changes as a whole.
fn opened_item(event: &Event) -> Option<&str> {
    match event {
        Event::ReasoningStart(e) => Some(&e.message_id),
        Event::ReasoningMessageStart(e) => Some(&e.message_id),
        Event::ActivitySnapshot(e) => Some(&e.message_id),
        _ => None,
    }
}

/// Whether an event continues reasoning or an activity.
fn continued_item(event: &Event) -> bool {
    matches!(
        event,
        Event::ReasoningMessageContent(_)
            | Event::ReasoningMessageEnd(_)
            | Event::ReasoningEnd(_)
            | Event::ActivityDelta(_)
    )
}

fn objects(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn rename(members: &mut Map<String, Value>, key: &str, names: &HashMap<String, String>) {
    if let Some(Value::String(id)) = members.get_mut(key)
        && let Some(name) = names.get(id.as_str())
    {
        name.clone_into(id);
    }
}
