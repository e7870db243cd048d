//! The way back from the names that a client was told to the ids that the agent has given.

use std::collections::{HashMap, HashSet};

use runwire_agui::{Message, RunAgentInput};

use super::items::{Family, parts_mut};

/// What an agent calls the things that [`Projection`](super::Projection) has told under other names: where a further attempt
/// uses ids again that mean something else to a client by then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnNames {
    texts: HashMap<String, String>,
    calls: HashMap<String, String>,
    thoughts: HashMap<String, String>,
    agents: HashMap<String, String>,
}

impl OwnNames {
    /// Of what each name that was told is the agent's own.
    pub(super) fn new(names: impl Iterator<Item = (Family, String, String)>) -> OwnNames {
        let mut own_names = OwnNames::default();
        for (family, told, own) in names {
            let family = match family {
                Family::Texts => &mut own_names.texts,
                Family::Calls => &mut own_names.calls,
                Family::Thoughts => &mut own_names.thoughts,
                Family::Agents => &mut own_names.agents,
            };
            family.insert(told, own);
        }
        own_names
    }

    /// Whether everything was told as the agent calls it.
    pub fn is_empty(&self) -> bool {
        [&self.texts, &self.calls, &self.thoughts, &self.agents].iter().all(|names| names.is_empty())
    }

    /// The input of a client, as its agent knows it: messages, calls, their results and their subagents by its own ids.
    ///
    /// What the client still has of an attempt that was given up is left out where the agent would take it for what it has
    /// said since. Answers name interrupts, which are never called otherwise.
    pub fn restore(&self, input: &mut RunAgentInput) {
        let mut restored = HashSet::new();
        for message in &mut input.messages {
            if self.restore_message(message) {
                restored.insert(message.id().to_owned());
            }
        }
        if !restored.is_empty() {
            let mut seen = HashSet::new();
            // What has the name since came behind what had it before.
            input.messages.reverse();
            input.messages.retain(|message| !restored.contains(message.id()) || seen.insert(message.id().to_owned()));
            input.messages.reverse();
        }
    }

    /// Says whether the message itself had another name.
    fn restore_message(&self, message: &mut Message) -> bool {
        let messages = match message {
            Message::Reasoning(_) | Message::Activity(_) => &self.thoughts,
            _ => &self.texts,
        };
        let (id, subagent) = parts_mut(message);
        let restored = restore(messages, id);
        if let Some(subagent) = subagent {
            restore(&self.agents, subagent);
        }
        match message {
            Message::Assistant(assistant) => {
                for call in assistant.tool_calls.iter_mut().flatten() {
                    restore(&self.calls, &mut call.id);
                }
            }
            Message::Tool(tool) => {
                restore(&self.calls, &mut tool.tool_call_id);
            }
            _ => {}
        }
        restored
    }
}

fn restore(names: &HashMap<String, String>, id: &mut String) -> bool {
    let Some(own) = names.get(id.as_str()) else { return false };
    own.clone_into(id);
    true
}
