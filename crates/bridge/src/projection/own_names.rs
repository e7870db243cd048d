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
    /// Where the client has two messages or calls that the agent would call the same, such as reasoning that an attempt left
    /// behind, only the last may have that id, and only if none has it already: nothing is left out. Answers name interrupts,
    /// which are never called otherwise.
    pub fn restore(&self, input: &mut RunAgentInput) -> OwnNames {
        let used = self.used_by(input);
        for message in &mut input.messages {
            used.restore_message(message);
        }
        used
    }

    /// The names that the input has, without those whose ids it has too.
    fn used_by(&self, input: &RunAgentInput) -> OwnNames {
        let ids: HashSet<&str> = input.messages.iter().map(Message::id).collect();
        let mut calls = HashSet::new();
        for message in &input.messages {
            calls.extend(message.tool_calls().iter().map(|call| call.id.as_str()));
            if let Message::Tool(tool) = message {
                calls.insert(tool.tool_call_id.as_str());
            }
        }
        let mut names = [Family::Texts, Family::Calls, Family::Thoughts].map(|family| (family, HashMap::new()));
        let [texts, made, thoughts] = &mut names;
        let mut used = OwnNames::default();
        for message in &input.messages {
            let (family, names) = match message {
                Message::Reasoning(_) | Message::Activity(_) => (Family::Thoughts, &mut thoughts.1),
                _ => (Family::Texts, &mut texts.1),
            };
            note(names, self.family(family), message.id(), &ids);
            for call in message.tool_calls() {
                note(&mut made.1, &self.calls, &call.id, &calls);
            }
            if let Message::Tool(tool) = message {
                note(&mut made.1, &self.calls, &tool.tool_call_id, &calls);
            }
            if let Some((told, own)) = message.subagent_run_id().and_then(|told| self.agents.get_key_value(told)) {
                used.agents.insert(told.clone(), own.clone());
            }
        }
        for (family, names) in names {
            used.family_mut(family).extend(names.into_iter().map(|(own, told)| (told.to_owned(), own.to_owned())));
        }
        used
    }

    fn restore_message(&self, message: &mut Message) {
        let names = match message {
            Message::Reasoning(_) | Message::Activity(_) => &self.thoughts,
            _ => &self.texts,
        };
        let (id, subagent) = parts_mut(message);
        restore(names, id);
        if let Some(subagent) = subagent {
            restore(&self.agents, subagent);
        }
        match message {
            Message::Assistant(assistant) => {
                assistant.tool_calls.iter_mut().flatten().for_each(|call| restore(&self.calls, &mut call.id));
            }
            Message::Tool(tool) => restore(&self.calls, &mut tool.tool_call_id),
            _ => {}
        }
    }
}

/// Notes by which name an own id was told last, unless among these the id stands for itself.
fn note<'a>(
    names: &mut HashMap<&'a str, &'a str>,
    own_names: &'a HashMap<String, String>,
    told: &'a str,
    ids: &HashSet<&str>,
) {
    let stands_for_itself = |id: &String| ids.contains(id.as_str()) && !own_names.contains_key(id);
    if let Some(own) = own_names.get(told).filter(|own| !stands_for_itself(own)) {
        names.insert(own, told);
    }
}

fn restore(names: &HashMap<String, String>, id: &mut String) {
    if let Some(own) = names.get(id.as_str()) {
        own.clone_into(id);
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
