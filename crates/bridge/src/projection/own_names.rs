//! The way back from the names that a client was told to the ids that the agent has given.

use std::collections::{HashMap, HashSet};

use runwire_agui::{Message, RunAgentInput};
use serde_json::{Map, Value};

use super::items::{Family, parts_mut};

/// Under `agui` of `run.start`: what the client's input calls otherwise than the agent does, since an earlier run.
pub const TOLD_NAMES: &str = "toldNames";

/// What an agent calls the things that a [`Projection`](super::Projection) has told under other names: where a further attempt
/// uses ids again that mean something else to a client by then.
///
/// A run that follows in the conversation tells them under the same names, if its `run.start` has [`OwnNames::members`] under
/// [`TOLD_NAMES`].
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
            own_names.family_mut(family).insert(told, own);
        }
        own_names
    }

    /// Whether the input names something that may have been told so: whether it is worth to look for names.
    pub fn may_concern(input: &RunAgentInput) -> bool {
        input.messages.iter().any(|message| {
            let call = match message {
                Message::Tool(tool) => Some(tool.tool_call_id.as_str()),
                _ => None,
            };
            let calls = message.tool_calls().iter().map(|call| call.id.as_str());
            let names = [Some(message.id()), message.subagent_run_id(), call];
            names.into_iter().flatten().chain(calls).any(has_number)
        })
    }

    /// Adds those of another run of the conversation.
    pub fn add(&mut self, others: OwnNames) {
        for family in FAMILIES {
            let names = others.family(family).iter().map(|(told, own)| (told.clone(), own.clone()));
            self.family_mut(family).extend(names);
        }
    }

    /// As JSON, and nothing where there are none.
    pub fn members(&self) -> Option<Value> {
        let names = |family: &HashMap<String, String>| {
            let mut names: Vec<_> = family.iter().map(|(told, own)| (told.clone(), Value::from(own.clone()))).collect();
            // Of several names of one thing the last is the one that goes on.
            names.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
            names.into_iter().collect::<Map<_, _>>()
        };
        let members: Map<String, Value> = FAMILIES
            .into_iter()
            .filter(|family| !self.family(*family).is_empty())
            .map(|family| (key(family).to_owned(), Value::Object(names(self.family(family)))))
            .collect();
        (!members.is_empty()).then_some(Value::Object(members))
    }

    /// What [`OwnNames::members`] says, each as family, told name and own id.
    pub(super) fn read(members: &Value) -> impl Iterator<Item = (Family, &str, &str)> {
        FAMILIES.into_iter().flat_map(move |family| {
            let names = members.get(key(family)).and_then(Value::as_object).into_iter().flatten();
            names.filter_map(move |(told, own)| Some((family, told.as_str(), own.as_str()?)))
        })
    }

    fn family(&self, family: Family) -> &HashMap<String, String> {
        match family {
            Family::Texts => &self.texts,
            Family::Calls => &self.calls,
            Family::Thoughts => &self.thoughts,
            Family::Agents => &self.agents,
        }
    }

    fn family_mut(&mut self, family: Family) -> &mut HashMap<String, String> {
        match family {
            Family::Texts => &mut self.texts,
            Family::Calls => &mut self.calls,
            Family::Thoughts => &mut self.thoughts,
            Family::Agents => &mut self.agents,
        }
    }

    /// Whether everything was told as the agent calls it.
    pub fn is_empty(&self) -> bool {
        FAMILIES.into_iter().all(|family| self.family(family).is_empty())
    }

    /// The input of a client, as its agent knows it: messages, calls, their results and their subagents by its own ids. Gives
    /// those of the names that the input had.
    ///
    /// What the client still has of an attempt that was given up is left out where the agent would take it for what it has
    /// said since. Answers name interrupts, which are never called otherwise.
    pub fn restore(&self, input: &mut RunAgentInput) -> OwnNames {
        let mut used = OwnNames::default();
        let mut restored = HashSet::new();
        for message in &mut input.messages {
            if self.restore_message(message, &mut used) {
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
        used
    }

    /// Says whether the message itself had another name.
    fn restore_message(&self, message: &mut Message, used: &mut OwnNames) -> bool {
        let family = match message {
            Message::Reasoning(_) | Message::Activity(_) => Family::Thoughts,
            _ => Family::Texts,
        };
        let (id, subagent) = parts_mut(message);
        let restored = self.restore_name(family, id, used);
        if let Some(subagent) = subagent {
            self.restore_name(Family::Agents, subagent, used);
        }
        match message {
            Message::Assistant(assistant) => {
                for call in assistant.tool_calls.iter_mut().flatten() {
                    self.restore_name(Family::Calls, &mut call.id, used);
                }
            }
            Message::Tool(tool) => {
                self.restore_name(Family::Calls, &mut tool.tool_call_id, used);
            }
            _ => {}
        }
        restored
    }

    fn restore_name(&self, family: Family, name: &mut String, used: &mut OwnNames) -> bool {
        let Some(own) = self.family(family).get(name.as_str()) else { return false };
        let told = std::mem::replace(name, own.clone());
        used.family_mut(family).insert(told, own.clone());
        true
    }
}

const FAMILIES: [Family; 4] = [Family::Texts, Family::Calls, Family::Thoughts, Family::Agents];

fn key(family: Family) -> &'static str {
    match family {
        Family::Texts => "messages",
        Family::Calls => "toolCalls",
        Family::Thoughts => "reasoning",
        Family::Agents => "subagents",
    }
}

/// Whether the id ends as a name does that was given: in the number of a further attempt.
fn has_number(id: &str) -> bool {
    let number = id.rsplit_once('.').map_or("", |(_, number)| number);
    !number.is_empty() && number != "0" && number != "1" && number.bytes().all(|byte| byte.is_ascii_digit())
}
