//! The messages of a conversation, in order, found by id.
//!
//! A chain of places: putting a tool's answer behind the call that it answers moves nothing, and neither does anything
//! else that a stream can ask for, so the cost of a stream is linear in its length.

use hashbrown::HashMap;

use crate::message::{Message, ToolCall, ToolMessage};
use crate::places::Places;

/// Where a message stands.
pub(crate) type Place = usize;

/// What a message is to those that amend it: text of one genus never belongs to a message of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Genus {
    Reasoning,
    Result,
    /// An answer, a question, an instruction, an activity.
    Other,
}

impl Genus {
    pub(crate) fn of(message: &Message) -> Self {
        match message {
            Message::Reasoning(_) => Self::Reasoning,
            Message::Tool(_) => Self::Result,
            _ => Self::Other,
        }
    }
}

/// What stands behind the message of a place.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    next: Option<Place>,
    /// For a message with tool calls: the last tool message of the row behind it, as far as is known.
    last_answer: Option<Place>,
}

/// The messages, by order, id and tool call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    messages: Vec<Message>,
    /// Of each message.
    links: Vec<Link>,
    first: Option<Place>,
    last: Option<Place>,
    by_id: Places,
    /// Of an id that messages of several genera have, which no thread may: the last message of each.
    twins: HashMap<String, [Option<Place>; 3]>,
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
        std::iter::successors(self.first, |&place| self.links[place].next).map(|place| &self.messages[place])
    }

    /// Gives up the messages by place.
    pub(crate) fn into_slots(self) -> Vec<Option<Message>> {
        self.messages.into_iter().map(Some).collect()
    }

    /// Gives the messages up, in order.
    pub(crate) fn into_messages(self) -> Vec<Message> {
        if self.is_in_order() {
            return self.messages;
        }
        let mut slots: Vec<Option<Message>> = self.messages.into_iter().map(Some).collect();
        let mut messages = Vec::with_capacity(slots.len());
        let mut next = self.first;
        while let Some(place) = next {
            messages.extend(slots[place].take());
            next = self.links[place].next;
        }
        messages
    }

    /// A conversation that has room for so many messages.
    pub(crate) fn with_capacity(messages: usize) -> Self {
        Self {
            messages: Vec::with_capacity(messages),
            links: Vec::with_capacity(messages),
            by_id: Places::with_capacity(messages),
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether the order of the messages is that of their places.
    fn is_in_order(&self) -> bool {
        self.links.iter().zip(1..).all(|(link, next)| link.next.is_none_or(|place| place == next))
    }

    /// Puts these messages in the place of all, if they restate what is held in the order in which it is held, and what
    /// else they are is new: then nothing is looked up and nothing moved. Otherwise gives them back, with a conversation left
    /// that is only good for [`Conversation::into_messages`].
    pub(crate) fn restate(&mut self, messages: Vec<Message>) -> Result<(), Vec<Message>> {
        let held = self.messages.len();
        let restates = self.by_id.len() == held
            && held <= messages.len()
            && self.messages.iter().zip(&messages).all(|(held, message)| is_same(held, message))
            && self.is_in_order();
        if !restates {
            return Err(messages);
        }
        for (place, message) in messages.iter().enumerate().skip(held) {
            let id = message.id();
            if self.by_id.find(id, |place| messages[place].id() == id).is_some() {
                return Err(messages);
            }
            self.by_id.add(id, place);
        }
        self.messages = messages;
        let last = self.messages.len().checked_sub(1);
        self.links.clear();
        self.links.extend(
            (0..self.messages.len())
                .map(|place| Link { next: Some(place + 1).filter(|_| Some(place) != last), last_answer: None }),
        );
        (self.first, self.last) = (last.map(|_| 0), last);
        (self.last_found, self.last_call) = (last.unwrap_or_default(), (0, 0));
        self.by_call.clear();
        for (place, message) in self.messages.iter().enumerate() {
            note_calls(&mut self.by_call, &mut self.last_call, place, message);
        }
        Ok(())
    }

    /// The place of a message.
    pub(crate) fn find(&self, id: &str) -> Option<Place> {
        match self.messages.get(self.last_found) {
            Some(message) if message.id() == id => Some(self.last_found),
            _ => self.by_id.find(id, |place| self.messages[place].id() == id),
        }
    }

    /// The place of a message of that genus.
    pub(crate) fn find_of(&self, genus: Genus, id: &str) -> Option<Place> {
        let place = self.find(id)?;
        if Genus::of(&self.messages[place]) == genus { Some(place) } else { self.twins.get(id)?[genus as usize] }
    }

    /// As [`Conversation::find_of`], for an event that is likely to be followed by others of the same message.
    pub(crate) fn find_again(&mut self, genus: Genus, id: &str) -> Option<Place> {
        self.last_found = self.find_of(genus, id)?;
        Some(self.last_found)
    }

    pub(crate) fn message(&self, place: Place) -> &Message {
        &self.messages[place]
    }

    pub(crate) fn message_mut(&mut self, place: Place) -> &mut Message {
        &mut self.messages[place]
    }

    /// The tool call of that id.
    pub(crate) fn tool_call_mut(&mut self, call_id: &str) -> Option<&mut ToolCall> {
        if self.call_at(self.last_call).is_none_or(|call| call.id != call_id) {
            self.last_call = *self.by_call.get(call_id)?;
        }
        let (place, index) = self.last_call;
        match &mut self.messages[place] {
            Message::Assistant(message) => message.tool_calls.as_mut()?.get_mut(index),
            _ => None,
        }
    }

    fn call_at(&self, (place, index): (Place, usize)) -> Option<&ToolCall> {
        self.messages.get(place)?.tool_calls().get(index)
    }

    /// Puts a message at the end.
    pub(crate) fn append(&mut self, message: Message) -> Place {
        let place = self.add(message);
        match self.last {
            Some(last) => self.links[last].next = Some(place),
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
        let mut behind = self.links[owner].last_answer.unwrap_or(owner);
        while let Some(next) = self.links[behind].next {
            if !matches!(self.messages[next], Message::Tool(_)) {
                break;
            }
            behind = next;
        }
        let place = self.add(message);
        self.links[place].next = self.links[behind].next.replace(place);
        if self.last == Some(behind) {
            self.last = Some(place);
        }
        self.links[owner].last_answer = Some(place);
        place
    }

    /// Puts a message in the place of another one that has the same id.
    pub(crate) fn replace(&mut self, place: Place, message: Message) {
        for call in self.messages[place].tool_calls() {
            if self.by_call.get(&call.id).is_some_and(|&(holder, _)| holder == place) {
                self.by_call.remove(&call.id);
            }
        }
        note_calls(&mut self.by_call, &mut self.last_call, place, &message);
        self.messages[place] = message;
    }

    /// Adds a call to an assistant message; nothing happens on any other.
    pub(crate) fn add_tool_call(&mut self, place: Place, call: ToolCall) {
        if let Message::Assistant(message) = &mut self.messages[place] {
            let calls = message.tool_calls.get_or_insert_default();
            self.last_call = (place, calls.len());
            self.by_call.insert(call.id.clone(), self.last_call);
            calls.push(call);
        }
    }

    /// Says where the messages of an id are, which has gone from one to another.
    #[cold]
    fn note_twin(&mut self, earlier: Place, place: Place, message: &Message) {
        let (before, now) = (Genus::of(&self.messages[earlier]), Genus::of(message));
        if before != now || self.twins.contains_key(message.id()) {
            let twins = self.twins.entry(message.id().to_owned()).or_default();
            twins[before as usize].get_or_insert(earlier);
            twins[now as usize] = Some(place);
        }
    }

    fn add(&mut self, message: Message) -> Place {
        let place = self.messages.len();
        let earlier = self.by_id.set(message.id(), place, |place| self.messages[place].id() == message.id());
        if let Some(earlier) = earlier {
            self.note_twin(earlier, place, &message);
        }
        note_calls(&mut self.by_call, &mut self.last_call, place, &message);
        self.messages.push(message);
        self.links.push(Link::default());
        // The latest of several messages with one id is the one that counts.
        self.last_found = place;
        place
    }
}

/// Whether the one restates the other.
pub(crate) fn is_same(one: &Message, other: &Message) -> bool {
    one.id() == other.id() && Genus::of(one) == Genus::of(other)
}

/// Says where the calls of a message are.
fn note_calls(
    by_call: &mut HashMap<String, (Place, usize)>,
    last_call: &mut (Place, usize),
    place: Place,
    message: &Message,
) {
    for (index, call) in message.tool_calls().iter().enumerate() {
        by_call.insert(call.id.clone(), (place, index));
        *last_call = (place, index);
    }
}
