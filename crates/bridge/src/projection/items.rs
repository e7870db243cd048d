//! What is opened and continued by its id, and whose it is: what a client keeps account of.

use std::collections::HashMap;

use runwire_agui::Message;

/// Whose something is, as a client knows it: a subagent's, or the parent agent's.
pub(super) type Owner = Option<String>;

/// What is opened and continued by its id. A client keeps account of whose each is by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text message, a tool's result, or a message that consists of calls.
    Text,
    Call,
    Reasoning,
    Span,
    Activity,
}

const KINDS: [Kind; 5] = [Kind::Text, Kind::Call, Kind::Reasoning, Kind::Span, Kind::Activity];

/// What shares its names. A span and the reasoning in it mostly have one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Texts,
    Calls,
    /// Reasoning, its spans, and activities: what a restatement of the messages does not take away.
    Thoughts,
    Agents,
}

impl Kind {
    pub fn family(self) -> Family {
        match self {
            Kind::Text => Family::Texts,
            Kind::Call => Family::Calls,
            Kind::Reasoning | Kind::Span | Kind::Activity => Family::Thoughts,
        }
    }

    pub fn of(message: &Message) -> Kind {
        match message {
            Message::Reasoning(_) => Kind::Reasoning,
            Message::Activity(_) => Kind::Activity,
            _ => Kind::Text,
        }
    }
}

/// Who owns what, by kind and by the name that is told.
#[derive(Debug, Default)]
pub(super) struct Items([HashMap<String, Owner>; 5]);

impl Items {
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Owner> {
        self.0[kind as usize].get(name)
    }

    pub fn put(&mut self, kind: Kind, name: &str, owner: Owner) {
        match self.0[kind as usize].get_mut(name) {
            Some(place) => *place = owner,
            None => drop(self.0[kind as usize].insert(name.to_owned(), owner)),
        }
    }

    /// Adds a message and its calls, as far as they are not there.
    pub fn add(&mut self, message: &Message) {
        let calls = message.tool_calls().iter().map(|call| (Kind::Call, call.id.as_str()));
        for (kind, id) in std::iter::once((Kind::of(message), message.id())).chain(calls) {
            if self.get(kind, id).is_none() {
                self.put(kind, id, message.subagent_run_id().map(str::to_owned));
            }
        }
    }

    /// Takes out what is among the others.
    pub fn without(&mut self, others: &Items) {
        for (items, others) in self.0.iter_mut().zip(&others.0) {
            others.keys().for_each(|name| drop(items.remove(name)));
        }
    }

    pub fn has(&self, family: Family, name: &str) -> bool {
        KINDS.iter().any(|kind| kind.family() == family && self.get(*kind, name).is_some())
    }

    /// The names of one family.
    pub fn names(&self, family: Family) -> impl Iterator<Item = &String> {
        KINDS.iter().filter(move |kind| kind.family() == family).flat_map(|kind| self.0[*kind as usize].keys())
    }

    /// Adds the others, which are newer.
    pub fn take_over(&mut self, others: Items) {
        for (items, others) in self.0.iter_mut().zip(others.0) {
            items.extend(others);
        }
    }
}

impl<'a> FromIterator<&'a Message> for Items {
    /// Each message and its calls. Of several of one id the first counts.
    fn from_iter<I: IntoIterator<Item = &'a Message>>(messages: I) -> Items {
        let mut items = Items::default();
        for message in messages {
            items.add(message);
        }
        items
    }
}

/// A message's id, and the subagent that it belongs to.
pub(super) fn parts_mut(message: &mut Message) -> (&mut String, &mut Option<String>) {
    match message {
        Message::Developer(message) => (&mut message.id, &mut message.subagent_run_id),
        Message::System(message) => (&mut message.id, &mut message.subagent_run_id),
        Message::Assistant(message) => (&mut message.id, &mut message.subagent_run_id),
        Message::User(message) => (&mut message.id, &mut message.subagent_run_id),
        Message::Tool(message) => (&mut message.id, &mut message.subagent_run_id),
        Message::Activity(message) => (&mut message.id, &mut message.subagent_run_id),
        Message::Reasoning(message) => (&mut message.id, &mut message.subagent_run_id),
    }
}
