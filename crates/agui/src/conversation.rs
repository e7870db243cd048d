//! The messages of a conversation, in order, found by id.
//!
//! A chain of places: putting a tool's answer behind the call that it answers moves nothing, and neither does anything
//! else that a stream can ask for, so the cost of a stream is linear in its length.

use hashbrown::HashMap;

use crate::message::{Message, ToolCall, ToolMessage};
use crate::places::Places;

/// Where a message stands.
pub(crate) type Place = usize;

#[derive(Clone, Debug)]
struct Entry {
    message: Message,
    next: Option<Place>,
    /// For a message with tool calls: the last tool message of the row behind it, as far as is known.
    last_answer: Option<Place>,
}

/// The messages, by order, id and tool call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    entries: Vec<Entry>,
    first: Option<Place>,
    last: Option<Place>,
    by_id: Places,
    /// The message that holds a tool call, and the call's place on it.
    by_call: HashMap<String, (Place, usize)>,
    /// What was looked up last. A stream extends one message or call many times in a row, and comparing an id is cheaper
    /// than hashing it.
    last_found: Place,
    last_call: (Place, usize),
}

impl FromIterator<Message> for Conversation {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let mut conversation = Self::default();
        for message in messages {
            conversation.append(message);
        }
        conversation
    }
}

impl Conversation {
    /// The messages in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Message> {
        std::iter::successors(self.first, |&place| self.entries[place].next).map(|place| &self.entries[place].message)
    }

    /// Gives up the messages by place, and where each id is. Only of a conversation whose order is that of the places.
    pub(crate) fn into_places(self) -> (Vec<Option<Message>>, Places) {
        (self.entries.into_iter().map(|entry| Some(entry.message)).collect(), self.by_id)
    }

    /// Gives the messages up, in order.
    pub(crate) fn into_messages(self) -> Vec<Message> {
        let mut slots: Vec<(Option<Message>, Option<Place>)> =
            self.entries.into_iter().map(|entry| (Some(entry.message), entry.next)).collect();
        let mut messages = Vec::with_capacity(slots.len());
        let mut next = self.first;
        while let Some(place) = next {
            let (message, following) = &mut slots[place];
            messages.extend(message.take());
            next = *following;
        }
        messages
    }

    /// A conversation that has room for so many messages.
    pub(crate) fn with_capacity(messages: usize) -> Self {
        Self { entries: Vec::with_capacity(messages), by_id: Places::with_capacity(messages), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The place of a message.
    pub(crate) fn find(&self, id: &str) -> Option<Place> {
        match self.entries.get(self.last_found) {
            Some(entry) if entry.message.id() == id => Some(self.last_found),
            _ => self.by_id.find(id, |place| self.entries[place].message.id() == id),
        }
    }

    /// As [`Conversation::find`], for an event that is likely to be followed by others of the same message.
    pub(crate) fn find_again(&mut self, id: &str) -> Option<Place> {
        self.last_found = self.find(id)?;
        Some(self.last_found)
    }

    pub(crate) fn message(&self, place: Place) -> &Message {
        &self.entries[place].message
    }

    pub(crate) fn message_mut(&mut self, place: Place) -> &mut Message {
        &mut self.entries[place].message
    }

    /// The tool call of that id.
    pub(crate) fn tool_call_mut(&mut self, call_id: &str) -> Option<&mut ToolCall> {
        if self.call_at(self.last_call).is_none_or(|call| call.id != call_id) {
            self.last_call = *self.by_call.get(call_id)?;
        }
        let (place, index) = self.last_call;
        match &mut self.entries[place].message {
            Message::Assistant(message) => message.tool_calls.as_mut()?.get_mut(index),
            _ => None,
        }
    }

    fn call_at(&self, (place, index): (Place, usize)) -> Option<&ToolCall> {
        self.entries.get(place)?.message.tool_calls().get(index)
    }

    /// Puts a message at the end.
    pub(crate) fn append(&mut self, message: Message) -> Place {
        let place = self.add(message);
        match self.last {
            Some(last) => self.entries[last].next = Some(place),
            None => self.first = Some(place),
        }
        self.last = Some(place);
        place
    }

    /// Puts a tool's answer behind the message that made the call, after the answers that are there already; at the end
    /// when no message made it.
    pub(crate) fn append_answer(&mut self, answer: ToolMessage) -> Place {
        let owner = self.by_call.get(&answer.tool_call_id).map(|&(owner, _)| owner);
        let message = Message::Tool(answer);
        let Some(owner) = owner else { return self.append(message) };
        let mut behind = self.entries[owner].last_answer.unwrap_or(owner);
        while let Some(next) = self.entries[behind].next {
            if !matches!(self.entries[next].message, Message::Tool(_)) {
                break;
            }
            behind = next;
        }
        let place = self.add(message);
        self.entries[place].next = self.entries[behind].next.replace(place);
        if self.last == Some(behind) {
            self.last = Some(place);
        }
        self.entries[owner].last_answer = Some(place);
        place
    }

    /// Puts a message in the place of another one that has the same id.
    pub(crate) fn replace(&mut self, place: Place, message: Message) {
        for call in self.entries[place].message.tool_calls() {
            if self.by_call.get(&call.id).is_some_and(|&(holder, _)| holder == place) {
                self.by_call.remove(&call.id);
            }
        }
        self.note_calls(place, &message);
        self.entries[place].message = message;
    }

    /// Adds a call to an assistant message; nothing happens on any other.
    pub(crate) fn add_tool_call(&mut self, place: Place, call: ToolCall) {
        if let Message::Assistant(message) = &mut self.entries[place].message {
            let calls = message.tool_calls.get_or_insert_default();
            self.last_call = (place, calls.len());
            self.by_call.insert(call.id.clone(), self.last_call);
            calls.push(call);
        }
    }

    fn add(&mut self, message: Message) -> Place {
        let place = self.entries.len();
        self.by_id.set(message.id(), place, |place| self.entries[place].message.id() == message.id());
        self.note_calls(place, &message);
        self.entries.push(Entry { message, next: None, last_answer: None });
        // The latest of several messages with one id is the one that counts.
        self.last_found = place;
        place
    }

    fn note_calls(&mut self, place: Place, message: &Message) {
        for (index, call) in message.tool_calls().iter().enumerate() {
            self.by_call.insert(call.id.clone(), (place, index));
            self.last_call = (place, index);
        }
    }
}
