//! What things are called towards AG-UI, where an id of the log means something else to a client by then.
//!
//! An id is its agent's, and is told as it is. An agent that is asked again may use the ids of the attempt that was given
//! up, and to a client these have been used: a subagent's names one invocation of a run only (events/subagents,
//! "Attribution"), a message and a call belong to whom they were opened by ("Ownership"), and reasoning and activities stay
//! when the messages are restated without them (events/state, `MESSAGES_SNAPSHOT`), so that what is new would be added to
//! what was given up. Such an id gets another name, `id.2` in the second attempt, wherever it stands, for as long as the run
//! goes on: what waits in one exchange goes on in the next under the name that it was given. [`OwnNames`] is the way back.

use std::collections::{HashMap, HashSet};

use runwire_agui::{
    Event, Message, ReasoningEncryptedValueSubtype, RunFinishedOutcome, RunStarted, SubagentStarted, ToolCallStart,
};
use serde_json::Value;

use super::items::{Family, Items, Kind, Owner, parts_mut};
use super::own_names::OwnNames;

/// The names of one family that differ from the ids of the log.
#[derive(Clone, Debug, Default)]
struct Renamed {
    /// By the id of the log.
    told: HashMap<String, String>,
    /// Every name that was given, and to which id.
    given: HashMap<String, String>,
    /// What a client still holds of attempts that were given up, whatever was restated.
    left_behind: HashSet<String>,
}

/// What the ids of a log are called towards AG-UI, and what an exchange has told of each.
#[derive(Debug, Default)]
pub(super) struct Names {
    attempt: u32,
    texts: Renamed,
    calls: Renamed,
    thoughts: Renamed,
    agents: Renamed,
    exchange: Course,
}

/// What a client has on record of one exchange, which is one run to it: all of it by the names that it was told.
#[derive(Debug, Default)]
struct Course {
    /// Subagents that were announced, in all attempts.
    announced: HashSet<String>,
    /// Subagents that events of this attempt are attributed to.
    attributed: HashSet<String>,
    /// The same of the attempts that were given up.
    abandoned_agents: HashSet<String>,
    /// What this attempt has opened or named.
    current: Items,
    /// What the client holds because the exchange was begun with it.
    held: Items,
    /// What attempts that were given up have told, and no restatement holds.
    abandoned: Items,
    /// The calls that were answered in this attempt, and in those that were given up.
    answered: HashSet<String>,
    abandoned_answers: HashSet<String>,
}

impl Names {
    /// An exchange begins: nothing is on record of it. The names stay.
    pub(super) fn exchange(&mut self, attempt: u32) {
        self.attempt = attempt;
        self.exchange = Course::default();
    }

    /// Takes the names up that an earlier run of the conversation has given.
    pub(super) fn take_up(&mut self, told_names: &Value) {
        for (family, told, own) in OwnNames::read(told_names) {
            let renamed = self.renamed_mut(family);
            renamed.told.insert(own.to_owned(), told.to_owned());
            renamed.given.insert(told.to_owned(), own.to_owned());
        }
    }

    /// Another attempt begins, in front of which these messages are restated, if any are.
    pub(super) fn next_attempt(&mut self, attempt: u32, restated: Option<&[Message]>) {
        self.attempt = attempt;
        let course = &mut self.exchange;
        let taken_back: Items = restated.into_iter().flatten().collect();
        for (family, renamed) in
            [(Family::Texts, &mut self.texts), (Family::Calls, &mut self.calls), (Family::Thoughts, &mut self.thoughts)]
        {
            // A restatement takes messages and calls away that it lacks. Reasoning and activities it does not.
            let stays = restated.is_none() || family == Family::Thoughts;
            let names = course.current.names(family).filter(|name| stays && !taken_back.has(family, name));
            renamed.left_behind.extend(names.cloned());
        }
        course.abandoned_agents.extend(course.announced.iter().cloned());
        course.abandoned_agents.extend(course.attributed.drain());
        course.abandoned.take_over(std::mem::take(&mut course.current));
        course.abandoned_answers.extend(course.answered.drain());
        if restated.is_some() {
            course.abandoned.without(&taken_back);
            course.held = taken_back;
        }
    }

    /// The way back from the names that were told.
    pub(super) fn own(&self) -> OwnNames {
        let families = [Family::Texts, Family::Calls, Family::Thoughts, Family::Agents];
        OwnNames::new(families.into_iter().flat_map(|family| {
            let given = &self.renamed(family).given;
            given.iter().map(move |(told, own)| (family, told.clone(), own.clone()))
        }))
    }

    /// The event as a client is told it: by the names that it knows, attributed to nobody where what is on record says
    /// something else. `echoes_own` says that the beginning of an exchange echoes the agent's own ids.
    pub(super) fn tell(&mut self, mut event: Event, echoes_own: bool) -> Event {
        match &mut event {
            Event::RunStarted(e) => self.started(e, echoes_own),
            Event::TextMessageStart(e) => self.open(Kind::Text, &mut e.message_id, &mut e.subagent_run_id),
            Event::TextMessageContent(e) => self.go_on(Kind::Text, &mut e.message_id, &mut e.subagent_run_id),
            Event::TextMessageEnd(e) => self.go_on(Kind::Text, &mut e.message_id, &mut e.subagent_run_id),
            Event::ReasoningStart(e) => self.open(Kind::Span, &mut e.message_id, &mut e.subagent_run_id),
            Event::ReasoningEnd(e) => self.go_on(Kind::Span, &mut e.message_id, &mut e.subagent_run_id),
            Event::ReasoningMessageStart(e) => self.open(Kind::Reasoning, &mut e.message_id, &mut e.subagent_run_id),
            Event::ReasoningMessageContent(e) => self.go_on(Kind::Reasoning, &mut e.message_id, &mut e.subagent_run_id),
            Event::ReasoningMessageEnd(e) => self.go_on(Kind::Reasoning, &mut e.message_id, &mut e.subagent_run_id),
            Event::ReasoningEncryptedValue(e) => {
                let kind = match e.subtype {
                    ReasoningEncryptedValueSubtype::ToolCall => Kind::Call,
                    ReasoningEncryptedValueSubtype::Message => self.message_kind(&e.entity_id),
                };
                self.go_on(kind, &mut e.entity_id, &mut e.subagent_run_id);
            }
            Event::ActivitySnapshot(e) => {
                self.attribute(&mut e.subagent_run_id);
                let owner = e.subagent_run_id.clone();
                // One that replaces makes the activity anew, its owner included.
                e.message_id = match e.replace {
                    Some(false) => self.place(Kind::Activity, &e.message_id, owner).0,
                    _ => self.make(Kind::Activity, &e.message_id, owner),
                };
            }
            Event::ActivityDelta(e) => self.open(Kind::Activity, &mut e.message_id, &mut e.subagent_run_id),
            Event::ToolCallStart(e) => self.call(e),
            Event::ToolCallArgs(e) => self.go_on(Kind::Call, &mut e.tool_call_id, &mut e.subagent_run_id),
            Event::ToolCallEnd(e) => self.go_on(Kind::Call, &mut e.tool_call_id, &mut e.subagent_run_id),
            Event::ToolCallResult(e) => {
                self.attribute(&mut e.subagent_run_id);
                self.rename(Family::Calls, &mut e.tool_call_id);
                self.exchange.answered.insert(e.tool_call_id.clone());
                e.message_id = self.make(Kind::Text, &e.message_id, e.subagent_run_id.clone());
            }
            Event::SubagentStarted(e) => self.announce(e),
            Event::SubagentFinished(e) => self.rename(Family::Agents, &mut e.subagent_run_id),
            Event::SubagentError(e) => self.rename(Family::Agents, &mut e.subagent_run_id),
            Event::MessagesSnapshot(e) => {
                for message in &mut e.messages {
                    self.restated(message);
                }
            }
            Event::RunFinished(e) => match &mut e.outcome {
                Some(RunFinishedOutcome::Success { pending_tool_call_ids: Some(ids) }) => {
                    ids.iter_mut().for_each(|id| self.rename(Family::Calls, id));
                }
                Some(RunFinishedOutcome::Interrupt { interrupts }) => {
                    for interrupt in interrupts {
                        interrupt.tool_call_id.iter_mut().for_each(|id| self.rename(Family::Calls, id));
                        interrupt.subagent_run_id.iter_mut().for_each(|id| self.rename(Family::Agents, id));
                    }
                }
                _ => {}
            },
            Event::StepStarted(e) => self.attribute(&mut e.subagent_run_id),
            Event::StepFinished(e) => self.attribute(&mut e.subagent_run_id),
            Event::StateSnapshot(e) => self.attribute(&mut e.subagent_run_id),
            Event::StateDelta(e) => self.attribute(&mut e.subagent_run_id),
            Event::Custom(e) => self.attribute(&mut e.subagent_run_id),
            Event::Raw(e) => self.attribute(&mut e.subagent_run_id),
            // A log holds no chunks.
            Event::RunError(_)
            | Event::TextMessageChunk(_)
            | Event::ToolCallChunk(_)
            | Event::ReasoningMessageChunk(_) => {}
        }
        event
    }

    fn renamed(&self, family: Family) -> &Renamed {
        match family {
            Family::Texts => &self.texts,
            Family::Calls => &self.calls,
            Family::Thoughts => &self.thoughts,
            Family::Agents => &self.agents,
        }
    }

    fn renamed_mut(&mut self, family: Family) -> &mut Renamed {
        match family {
            Family::Texts => &mut self.texts,
            Family::Calls => &mut self.calls,
            Family::Thoughts => &mut self.thoughts,
            Family::Agents => &mut self.agents,
        }
    }

    /// Puts the name that the id has, if it has another one.
    fn rename(&self, family: Family, id: &mut String) {
        if let Some(name) = self.renamed(family).told.get(id.as_str()) {
            name.clone_into(id);
        }
    }

    fn name(&self, family: Family, id: &str) -> String {
        self.renamed(family).told.get(id).map_or(id, String::as_str).to_owned()
    }

    /// Gives an id of the log another name, which nothing has.
    fn give_name(&mut self, family: Family, id: &str) -> String {
        let mut name = format!("{id}.{}", self.attempt);
        let mut number = 2;
        while self.is_taken(family, &name) {
            name = format!("{id}.{}.{number}", self.attempt);
            number += 1;
        }
        let renamed = self.renamed_mut(family);
        renamed.told.insert(id.to_owned(), name.clone());
        renamed.given.insert(name.clone(), id.to_owned());
        name
    }

    fn is_taken(&self, family: Family, name: &str) -> bool {
        let Course { announced, attributed, abandoned_agents, current, held, abandoned, .. } = &self.exchange;
        let renamed = self.renamed(family);
        renamed.given.contains_key(name)
            || renamed.left_behind.contains(name)
            || match family {
                Family::Agents => [announced, attributed, abandoned_agents].iter().any(|told| told.contains(name)),
                _ => [current, held, abandoned].iter().any(|items| items.has(family, name)),
            }
    }

    /// Whether the id of the log is a name that another id was given.
    fn is_anothers_name(&self, family: Family, id: &str) -> bool {
        let renamed = self.renamed(family);
        renamed.given.contains_key(id) && !renamed.told.contains_key(id)
    }

    /// Names whom an event is attributed to.
    fn attribute(&mut self, tag: &mut Option<String>) {
        let Some(tag) = tag else { return };
        self.rename(Family::Agents, tag);
        if !self.exchange.attributed.contains(tag.as_str()) {
            self.exchange.attributed.insert(tag.clone());
        }
    }

    /// `parentSubagentRunId` may only name an invocation that this exchange announced ("Nesting"): a parent may end before
    /// its child, which then opens again in the next exchange.
    fn announce(&mut self, started: &mut SubagentStarted) {
        if let Some(parent) = &mut started.parent_subagent_run_id {
            self.rename(Family::Agents, parent);
        }
        let announced = &self.exchange.announced;
        if started.parent_subagent_run_id.as_ref().is_some_and(|parent| !announced.contains(parent)) {
            started.parent_subagent_run_id = None;
        }
        started.parent_tool_call_id.iter_mut().for_each(|call| self.rename(Family::Calls, call));
        let id = &mut started.subagent_run_id;
        let mut name = self.name(Family::Agents, id);
        let used = self.exchange.announced.contains(&name) || self.exchange.abandoned_agents.contains(&name);
        if used || self.is_anothers_name(Family::Agents, id) {
            name = self.give_name(Family::Agents, id);
        }
        self.exchange.announced.insert(name.clone());
        *id = name;
    }

    /// What the client holds from the beginning on. Its own messages have its own names.
    fn started(&mut self, started: &mut RunStarted, echoes_own: bool) {
        for message in started.input.iter_mut().flat_map(|input| &mut input.messages) {
            if echoes_own {
                self.rename_message(message);
            }
            self.exchange.held.add(message);
        }
    }

    /// A message of a snapshot, which says whose it is.
    fn restated(&mut self, message: &mut Message) {
        self.rename_message(message);
        let owner = || message.subagent_run_id().map(str::to_owned);
        self.exchange.current.put(Kind::of(message), message.id(), owner());
        for call in message.tool_calls() {
            self.exchange.current.put(Kind::Call, &call.id, owner());
        }
    }

    fn rename_message(&self, message: &mut Message) {
        let family = Kind::of(message).family();
        let (id, tag) = parts_mut(message);
        self.rename(family, id);
        tag.iter_mut().for_each(|tag| self.rename(Family::Agents, tag));
        match message {
            Message::Assistant(assistant) => {
                for call in assistant.tool_calls.iter_mut().flatten() {
                    self.rename(Family::Calls, &mut call.id);
                }
            }
            Message::Tool(tool) => self.rename(Family::Calls, &mut tool.tool_call_id),
            _ => {}
        }
    }

    /// Whether an id that names a message is one of reasoning or of text.
    fn message_kind(&self, id: &str) -> Kind {
        let thought = self.name(Family::Thoughts, id);
        let Course { current, held, abandoned, .. } = &self.exchange;
        let is_thought = [current, held, abandoned].iter().any(|items| items.get(Kind::Reasoning, &thought).is_some());
        if is_thought { Kind::Reasoning } else { Kind::Text }
    }

    /// An event that opens something, or names it for the first time in its attempt.
    fn open(&mut self, kind: Kind, id: &mut String, tag: &mut Option<String>) {
        self.attribute(tag);
        let (name, owner) = self.place(kind, id, tag.clone());
        *id = name;
        leave_out_unless(tag, &owner);
    }

    /// An event that continues or closes something.
    fn go_on(&mut self, kind: Kind, id: &mut String, tag: &mut Option<String>) {
        self.attribute(tag);
        self.rename(kind.family(), id);
        if tag.is_none() {
            return;
        }
        let Course { current, held, abandoned, .. } = &self.exchange;
        if let Some(owner) = [current, held, abandoned].iter().find_map(|items| items.get(kind, id)) {
            leave_out_unless(tag, owner);
        }
    }

    /// What something is called that an event opens as this owner's, and whose it is on record.
    fn place(&mut self, kind: Kind, id: &str, owner: Owner) -> (String, Owner) {
        let family = kind.family();
        let mut name = self.name(family, id);
        let is_anothers = self.is_anothers_name(family, id);
        if let Some(owner) = self.exchange.current.get(kind, &name).filter(|_| !is_anothers) {
            return (name, owner.clone());
        }
        let was_others = self.exchange.abandoned.get(kind, &name).is_some_and(|before| *before != owner);
        if was_others || is_anothers || self.is_used(kind, &name) {
            name = self.give_name(family, id);
        }
        let owner = self.exchange.held.get(kind, &name).cloned().unwrap_or(owner);
        self.exchange.current.put(kind, &name, owner.clone());
        (name, owner)
    }

    /// What something is called that an event makes as this owner's, whoever had it before.
    fn make(&mut self, kind: Kind, id: &str, owner: Owner) -> String {
        let family = kind.family();
        let mut name = self.name(family, id);
        let is_known = self.exchange.current.get(kind, &name).is_some();
        if self.is_anothers_name(family, id) || (!is_known && self.is_used(kind, &name)) {
            name = self.give_name(family, id);
        }
        self.exchange.current.put(kind, &name, owner);
        name
    }

    /// Whether a client would take something new of this name for a part of what an attempt that was given up has told.
    fn is_used(&self, kind: Kind, name: &str) -> bool {
        // That a call was answered stays on record, also where it was taken back.
        self.renamed(kind.family()).left_behind.contains(name)
            || (kind == Kind::Call && self.exchange.abandoned_answers.contains(name))
    }

    /// A call is its message's owner's ("Ownership"). One whose message is on record as another's is told as that one's, and
    /// one that is on record itself as another's is told without its message.
    fn call(&mut self, start: &mut ToolCallStart) {
        self.attribute(&mut start.subagent_run_id);
        let tag = &mut start.subagent_run_id;
        let carried_by = match &mut start.parent_message_id {
            Some(parent) => {
                let carrier = self.carrier(parent, tag.as_ref());
                self.rename(Family::Texts, parent);
                carrier
            }
            None => None,
        };
        if let Some(owner) = &carried_by {
            leave_out_unless(tag, owner);
        }
        let owner = tag.clone().or_else(|| carried_by.clone().flatten());
        let (name, owner) = self.place(Kind::Call, &start.tool_call_id, owner);
        // A call without a message that can hold it makes one, which has the call's id.
        let id = std::mem::replace(&mut start.tool_call_id, name);
        if start.tool_call_id != id
            && !self.texts.told.contains_key(&id)
            && self.exchange.current.get(Kind::Text, &id).is_none()
        {
            self.texts.given.insert(start.tool_call_id.clone(), id.clone());
            self.texts.told.insert(id, start.tool_call_id.clone());
        }
        leave_out_unless(tag, &owner);
        if tag.is_none() && carried_by.is_some_and(|carried_by| carried_by != owner) {
            start.parent_message_id = None;
        }
    }

    /// Whose the message is that a call names as its own; `None` when that is not on record.
    fn carrier(&mut self, id: &str, tag: Option<&String>) -> Option<Owner> {
        let name = self.name(Family::Texts, id);
        let Course { current, held, abandoned, .. } = &self.exchange;
        let on_record = [current, held, abandoned].iter().any(|items| items.get(Kind::Text, &name).is_some());
        // A message that nothing opened is made by its first call, and is its owner's.
        if !on_record && tag.is_none() {
            return None;
        }
        Some(self.place(Kind::Text, id, tag.cloned()).1)
    }
}

/// An untagged event contradicts nobody ("Ownership").
fn leave_out_unless(tag: &mut Option<String>, owner: &Owner) {
    if tag.is_some() && tag != owner {
        *tag = None;
    }
}
