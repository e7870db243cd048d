//! Chunk expansion: from the compact spelling to start, content and end (patterns/streaming, "The chunked form").
//!
//! The parent agent and every subagent each have a lane, and a lane holds at most one item that chunks are assembling.

use hashbrown::{HashMap, HashSet};

use crate::event::{Event, EventType};
use crate::events::{
    ReasoningMessageChunk, ReasoningMessageContent, ReasoningMessageEnd, ReasoningMessageStart, TextMessageChunk,
    TextMessageContent, TextMessageEnd, TextMessageStart, ToolCallArgs, ToolCallChunk, ToolCallEnd, ToolCallStart,
};
use crate::message::{Message, TextMessageRole};
use crate::part::{ItemKind as Kind, Part, Step};
use crate::violation::{Rule, Violation};

type Owner = Option<String>;

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Self::Text => "text message",
            Self::ToolCall => "tool call",
            Self::Reasoning => "reasoning message",
        }
    }

    fn chunk(self) -> EventType {
        match self {
            Self::Text => EventType::TextMessageChunk,
            Self::ToolCall => EventType::ToolCallChunk,
            Self::Reasoning => EventType::ReasoningMessageChunk,
        }
    }

    fn id_member(self) -> &'static str {
        match self {
            Self::ToolCall => "toolCallId",
            Self::Text | Self::Reasoning => "messageId",
        }
    }
}

/// What the chunk that opened an item said about it.
#[derive(Debug)]
enum Opener {
    Text { role: TextMessageRole, name: Option<String> },
    ToolCall { name: String, parent: Option<String> },
    Reasoning,
}

/// The item that a lane is assembling.
#[derive(Debug)]
struct Item {
    kind: Kind,
    id: String,
    opener: Opener,
    /// When it was opened, in order: lanes are closed in that order.
    opened: u64,
}

/// The item that each lane assembles. Most streams know the parent agent's lane alone, so that one is not looked up.
#[derive(Debug, Default)]
struct Lanes {
    parent: Option<Item>,
    subagents: HashMap<String, Item>,
}

impl Lanes {
    fn is_empty(&self) -> bool {
        self.parent.is_none() && self.subagents.is_empty()
    }

    fn get(&self, lane: &Owner) -> Option<&Item> {
        match lane {
            None => self.parent.as_ref(),
            Some(subagent) => self.subagents.get(subagent),
        }
    }

    fn insert(&mut self, lane: Owner, item: Item) {
        match lane {
            None => self.parent = Some(item),
            Some(subagent) => {
                self.subagents.insert(subagent, item);
            }
        }
    }

    fn remove(&mut self, lane: &Owner) -> Option<Item> {
        match lane {
            None => self.parent.take(),
            Some(subagent) => self.subagents.remove(subagent),
        }
    }

    /// All lanes, in the order in which their items were opened.
    fn in_order(&self) -> Vec<Owner> {
        let parent = self.parent.iter().map(|item| (item.opened, None));
        let subagents = self.subagents.iter().map(|(subagent, item)| (item.opened, Some(subagent.clone())));
        let mut lanes: Vec<(u64, Owner)> = parent.chain(subagents).collect();
        lanes.sort_unstable();
        lanes.into_iter().map(|(_, lane)| lane).collect()
    }
}

/// Expands the chunks of one stream; every other event passes through, after the ends that it brings about.
///
/// A chunk costs a constant number of look-ups; only an event that closes every lane looks at all of them.
#[derive(Debug, Default)]
pub struct ChunkExpander {
    index: usize,
    opened: u64,
    lanes: Lanes,
    /// Which lane assembles an item, by kind and id.
    holders: [HashMap<String, Owner>; 3],
    /// The lanes that assemble an item of each kind.
    by_kind: HashMap<Kind, HashSet<Owner>>,
    /// What the run's subagents own. An event about it is in its owner's lane, tagged or not.
    owned: Owned,
}

/// The items of a run that a subagent owns, by id. Every other belongs to the parent agent.
///
/// It says of each item what [`Verifier`](crate::verify::Verifier) says, as long as that accepts what comes: a test holds
/// the two together.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// By kind.
    items: [HashMap<String, String>; 3],
    spans: HashMap<String, String>,
}

impl Owned {
    /// Whose lane the event is in: that of its tag, or of the owner of what it continues (events/subagents, "Ownership").
    fn lane(&self, event: &Event) -> Owner {
        let owner = || match event {
            Event::ReasoningStart(event) => self.spans.get(&event.message_id),
            Event::ReasoningEnd(event) => self.spans.get(&event.message_id),
            Event::ToolCallStart(event) => self.call(Some(&event.tool_call_id), event.parent_message_id.as_deref()),
            event => explicit_item(event).and_then(|(kind, id)| self.of(kind, id)),
        };
        event.subagent_run_id().map(str::to_owned).or_else(|| owner().cloned())
    }

    pub(crate) fn of(&self, kind: Kind, id: &str) -> Option<&String> {
        self.items[kind as usize].get(id)
    }

    /// The owner of a tool call: what the call is known by, or else what the message that carries it is.
    fn call(&self, id: Option<&str>, message_id: Option<&str>) -> Option<&String> {
        let known = id.and_then(|id| self.of(Kind::ToolCall, id));
        known.or_else(|| self.of(Kind::Text, message_id?))
    }

    fn set(&mut self, kind: Kind, id: &str, owner: Option<&str>) {
        let items = &mut self.items[kind as usize];
        match owner {
            Some(owner) => {
                items.insert(id.to_owned(), owner.to_owned());
            }
            None => {
                items.remove(id);
            }
        }
    }

    /// Puts on record what an event opens, makes or restates.
    pub(crate) fn remember(&mut self, event: &Event) {
        match event {
            Event::RunStarted(started) => {
                *self = Self::default();
                // Of an id that the input has twice, the first counts.
                self.restate(started.input.iter().flat_map(|input| input.messages.iter().rev()));
            }
            Event::MessagesSnapshot(snapshot) => self.restate(snapshot.messages.iter()),
            // A result is a message of its own each time.
            Event::ToolCallResult(result) => {
                self.set(Kind::Text, &result.message_id, result.subagent_run_id.as_deref());
            }
            Event::ToolCallStart(start) => {
                // A message that nothing opened is made by its first call, and is its owner's.
                if let (Some(message_id), Some(tag)) = (&start.parent_message_id, &start.subagent_run_id) {
                    self.set(Kind::Text, message_id, Some(tag));
                }
                if let Some(owner) = self.lane(event) {
                    self.set(Kind::ToolCall, &start.tool_call_id, Some(&owner));
                }
            }
            Event::ReasoningStart(start) => {
                if let Some(owner) = &start.subagent_run_id {
                    self.spans.insert(start.message_id.clone(), owner.clone());
                }
            }
            // Who says nothing of the owner changes nothing about it.
            Event::TextMessageStart(start) if start.subagent_run_id.is_some() => {
                self.set(Kind::Text, &start.message_id, start.subagent_run_id.as_deref());
            }
            Event::ReasoningMessageStart(start) if start.subagent_run_id.is_some() => {
                self.set(Kind::Reasoning, &start.message_id, start.subagent_run_id.as_deref());
            }
            _ => {}
        }
    }

    /// Takes over who owns each of these messages, and the calls on it (events/state, `MESSAGES_SNAPSHOT`).
    fn restate<'m>(&mut self, messages: impl Iterator<Item = &'m Message>) {
        for message in messages {
            let owner = message.subagent_run_id();
            if owner.is_none() && self.items.iter().all(HashMap::is_empty) {
                continue;
            }
            match message {
                Message::Activity(_) => {}
                Message::Reasoning(_) => self.set(Kind::Reasoning, message.id(), owner),
                _ => self.set(Kind::Text, message.id(), owner),
            }
            for call in message.tool_calls() {
                self.set(Kind::ToolCall, &call.id, owner);
            }
        }
    }
}

impl ChunkExpander {
    /// An expander with no lane open.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event and adds the events that it stands for to `out`, in order.
    ///
    /// # Errors
    ///
    /// When a first chunk lacks what opens its item, a later chunk contradicts the first one, or a chunk could continue
    /// several items. Nothing is added to `out` then, not even the ends that the chunk would have brought about.
    pub fn push(&mut self, event: Event, out: &mut Vec<Event>) -> Result<(), Violation> {
        let before = out.len();
        let result = self.expand(event, out);
        self.index += 1;
        if result.is_err() {
            out.truncate(before);
        }
        result
    }

    /// As [`ChunkExpander::push`], for the event that is the last in `out`; most events stand for themselves, and stay.
    pub(crate) fn push_last(&mut self, out: &mut Vec<Event>) -> Result<(), Violation> {
        match out.last() {
            Some(Event::TextMessageChunk(_) | Event::ToolCallChunk(_) | Event::ReasoningMessageChunk(_)) => {}
            Some(event) if self.lanes.is_empty() => {
                self.owned.remember(event);
                self.index += 1;
                return Ok(());
            }
            _ => {}
        }
        out.pop().map_or(Ok(()), |event| self.push(event, out))
    }

    /// The item that the part extends or closes, if the part stands for just that and brings about nothing else: it is in
    /// the usual spelling while no chunk is being assembled, or a chunk that goes on with the parent agent's item and says
    /// nothing of it. `None` leaves the part to [`ChunkExpander::push`].
    pub(crate) fn straight<'p>(&'p self, part: &Part<'p>) -> Option<&'p str> {
        match part.step {
            Step::Content | Step::End if self.lanes.is_empty() => part.id,
            Step::Chunk if part.subagent_run_id.is_none() && part.delta.is_some() => {
                // An item is in one lane, so what the parent agent assembles under this id nobody else does; and without
                // an id, what it assembles comes before what subagents do.
                let item = self.continued(&None, part.kind, part.id)?;
                Some(&item.id)
            }
            _ => None,
        }
    }

    /// Whether no chunk is being assembled: then an event that opens nothing stands for itself.
    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Says that the next event was taken without the expander: [`ChunkExpander::straight`] or
    /// [`ChunkExpander::is_idle`] allowed it.
    pub(crate) fn pass(&mut self) {
        self.index += 1;
    }

    /// Closes every lane and gives the ends. A stream that stopped inside a run has none of these: a consumer invents
    /// nothing. This is for a producer that goes on by itself, and closes what its upstream left open.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut out = Vec::new();
        self.close_all(&mut out);
        out
    }

    fn expand(&mut self, event: Event, out: &mut Vec<Event>) -> Result<(), Violation> {
        match event {
            Event::TextMessageChunk(chunk) => self.text(chunk, out),
            Event::ToolCallChunk(chunk) => self.tool_call(chunk, out),
            Event::ReasoningMessageChunk(chunk) => self.reasoning(chunk, out),
            event => {
                self.close_for(&event, out);
                self.owned.remember(&event);
                out.push(event);
                Ok(())
            }
        }
    }

    /// Closes the lanes whose shorthand the event ends ("Closing a chunk stream").
    fn close_for(&mut self, event: &Event, out: &mut Vec<Event>) {
        if self.lanes.is_empty() {
            return;
        }
        match event {
            Event::RunStarted(_) | Event::RunFinished(_) | Event::RunError(_) | Event::MessagesSnapshot(_) => {
                self.close_all(out);
            }
            Event::Raw(_)
            | Event::ActivitySnapshot(_)
            | Event::ActivityDelta(_)
            | Event::ReasoningEncryptedValue(_)
            | Event::SubagentStarted(_) => {}
            event => {
                // An explicit event about an item that chunks assemble ends the shorthand, whatever its tag.
                if let Some((kind, id)) = explicit_item(event)
                    && let Some(owner) = self.holders[kind as usize].get(id).cloned()
                {
                    self.close(&owner, out);
                }
                self.close(&self.owned.lane(event), out);
            }
        }
    }

    fn text(&mut self, chunk: TextMessageChunk, out: &mut Vec<Event>) -> Result<(), Violation> {
        let lane = self.lane(Kind::Text, chunk.message_id.as_deref(), chunk.subagent_run_id.as_deref())?;
        let mut opening = false;
        let id = match self.continued(&lane, Kind::Text, chunk.message_id.as_deref()) {
            Some(Item { id, opener: Opener::Text { role, name }, .. }) => {
                self.agrees(Kind::Text, id, "role", chunk.role.map(TextMessageRole::as_str), Some(role.as_str()))?;
                self.agrees(Kind::Text, id, "name", chunk.name.as_deref(), name.as_deref())?;
                chunk.message_id.unwrap_or_else(|| id.clone())
            }
            _ => {
                let id = self.first(Kind::Text, "messageId", chunk.message_id.as_ref())?;
                let role = chunk.role.unwrap_or_default();
                self.open(&lane, Kind::Text, &id, Opener::Text { role, name: chunk.name.clone() }, out);
                let mut start = TextMessageStart::new(id.as_str());
                start.role = Some(role);
                start.name = chunk.name;
                start.metadata.clone_from(&chunk.metadata);
                start.subagent_run_id.clone_from(&lane);
                self.begin(start.into(), out);
                opening = true;
                id
            }
        };
        // Metadata has reached an item that was just opened with its start; otherwise an empty fragment brings it.
        if chunk.delta.is_some() || chunk.raw_event.is_some() || (!opening && chunk.metadata.is_some()) {
            let mut content = TextMessageContent::new(id, chunk.delta.unwrap_or_default());
            content.metadata = chunk.metadata;
            content.raw_event = chunk.raw_event;
            content.subagent_run_id = lane;
            out.push(content.into());
        }
        Ok(())
    }

    fn tool_call(&mut self, chunk: ToolCallChunk, out: &mut Vec<Event>) -> Result<(), Violation> {
        let id = chunk.tool_call_id.as_deref();
        let is_assembled = id.is_some_and(|id| self.holders[Kind::ToolCall as usize].contains_key(id));
        // Of a call that goes on the message is known already; another one is a conflict, and no attribution.
        let carrier = chunk.parent_message_id.as_deref().filter(|_| !is_assembled);
        let owner = chunk.subagent_run_id.as_ref().or_else(|| self.owned.call(id, carrier).filter(|_| !is_assembled));
        let lane = self.lane(Kind::ToolCall, id, owner.map(String::as_str))?;
        let mut opening = false;
        let id = match self.continued(&lane, Kind::ToolCall, chunk.tool_call_id.as_deref()) {
            Some(Item { id, opener: Opener::ToolCall { name, parent }, .. }) => {
                self.agrees(Kind::ToolCall, id, "toolCallName", chunk.tool_call_name.as_deref(), Some(name))?;
                let repeated = chunk.parent_message_id.as_deref();
                self.agrees(Kind::ToolCall, id, "parentMessageId", repeated, parent.as_deref())?;
                chunk.tool_call_id.unwrap_or_else(|| id.clone())
            }
            _ => {
                let id = self.first(Kind::ToolCall, "toolCallId", chunk.tool_call_id.as_ref())?;
                let name = self.first(Kind::ToolCall, "toolCallName", chunk.tool_call_name.as_ref())?;
                let opener = Opener::ToolCall { name: name.clone(), parent: chunk.parent_message_id.clone() };
                self.open(&lane, Kind::ToolCall, &id, opener, out);
                let mut start = ToolCallStart::new(id.as_str(), name);
                start.parent_message_id = chunk.parent_message_id;
                start.metadata.clone_from(&chunk.metadata);
                start.subagent_run_id.clone_from(&lane);
                self.begin(start.into(), out);
                opening = true;
                id
            }
        };
        // Metadata has reached an item that was just opened with its start; otherwise an empty fragment brings it.
        if chunk.delta.is_some() || chunk.raw_event.is_some() || (!opening && chunk.metadata.is_some()) {
            let mut args = ToolCallArgs::new(id, chunk.delta.unwrap_or_default());
            args.metadata = chunk.metadata;
            args.raw_event = chunk.raw_event;
            args.subagent_run_id = lane;
            out.push(args.into());
        }
        Ok(())
    }

    fn reasoning(&mut self, chunk: ReasoningMessageChunk, out: &mut Vec<Event>) -> Result<(), Violation> {
        let lane = self.lane(Kind::Reasoning, chunk.message_id.as_deref(), chunk.subagent_run_id.as_deref())?;
        let mut opening = false;
        let id = match self.continued(&lane, Kind::Reasoning, chunk.message_id.as_deref()) {
            Some(item) => chunk.message_id.unwrap_or_else(|| item.id.clone()),
            None => {
                let id = self.first(Kind::Reasoning, "messageId", chunk.message_id.as_ref())?;
                self.open(&lane, Kind::Reasoning, &id, Opener::Reasoning, out);
                let mut start = ReasoningMessageStart::new(id.as_str());
                start.metadata.clone_from(&chunk.metadata);
                start.subagent_run_id.clone_from(&lane);
                self.begin(start.into(), out);
                opening = true;
                id
            }
        };
        // Metadata has reached an item that was just opened with its start; otherwise an empty fragment brings it.
        if chunk.delta.is_some() || chunk.raw_event.is_some() || (!opening && chunk.metadata.is_some()) {
            let mut content = ReasoningMessageContent::new(id, chunk.delta.unwrap_or_default());
            content.metadata = chunk.metadata;
            content.raw_event = chunk.raw_event;
            content.subagent_run_id = lane;
            out.push(content.into());
        }
        Ok(())
    }

    /// The lane of a chunk: that of the item it names, else its own tag's, else that of the owner of what it opens anew, else
    /// the one that it can only mean.
    fn lane(&self, kind: Kind, id: Option<&str>, tag: Option<&str>) -> Result<Owner, Violation> {
        let tagged = || tag.map(str::to_owned);
        if let Some(id) = id {
            let Some(owner) = self.holders[kind as usize].get(id) else {
                // It opens the item anew, which stays its owner's.
                return Ok(tagged().or_else(|| self.owned.of(kind, id).cloned()));
            };
            if tag.is_some() && tag != owner.as_deref() {
                return Err(self.violation(
                    Rule::AttributionMismatch,
                    format!(
                        "{} is attributed to subagent '{}', which does not match {} '{id}': that belongs to {}.",
                        kind.chunk(),
                        tag.unwrap_or_default(),
                        kind.noun(),
                        owner.as_deref().map_or("the parent agent".to_owned(), |owner| format!("subagent '{owner}'")),
                    ),
                ));
            }
            return Ok(owner.clone());
        }
        let lanes = match self.by_kind.get(&kind) {
            Some(lanes) if tag.is_none() && !lanes.contains(&None) => lanes,
            _ => return Ok(tagged()),
        };
        match lanes.len() {
            0 => Ok(None),
            1 => Ok(lanes.iter().next().cloned().flatten()),
            several => Err(self.violation(
                Rule::AmbiguousChunk,
                format!(
                    "{} carries neither {} nor subagentRunId, and {several} subagents have an open {}; it must say \
                     which one it continues.",
                    kind.chunk(),
                    kind.id_member(),
                    kind.noun()
                ),
            )),
        }
    }

    /// The item of the lane, if the chunk continues it.
    fn continued(&self, lane: &Owner, kind: Kind, id: Option<&str>) -> Option<&Item> {
        self.lanes.get(lane).filter(|item| item.kind == kind && id.is_none_or(|id| id == item.id))
    }

    /// A member that the first chunk of an item must carry.
    fn first(&self, kind: Kind, member: &str, value: Option<&String>) -> Result<String, Violation> {
        value.cloned().ok_or_else(|| {
            let message = format!(
                "The first {} of a {} must carry {member}; no {} is open for it to continue.",
                kind.chunk(),
                kind.noun(),
                kind.noun()
            );
            self.violation(Rule::FirstChunk, message)
        })
    }

    fn agrees(
        &self,
        kind: Kind,
        id: &str,
        member: &str,
        repeated: Option<&str>,
        established: Option<&str>,
    ) -> Result<(), Violation> {
        match repeated {
            Some(repeated) if Some(repeated) != established => Err(self.violation(
                Rule::ChunkConflict,
                format!(
                    "{} repeats {member} '{repeated}' for {} '{id}', which was opened with {}.",
                    kind.chunk(),
                    kind.noun(),
                    established.map_or("none".to_owned(), |established| format!("'{established}'"))
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Tells of the start of an item that was opened.
    fn begin(&mut self, start: Event, out: &mut Vec<Event>) {
        self.owned.remember(&start);
        out.push(start);
    }

    fn open(&mut self, lane: &Owner, kind: Kind, id: &str, opener: Opener, out: &mut Vec<Event>) {
        self.close(lane, out);
        self.opened += 1;
        self.lanes.insert(lane.clone(), Item { kind, id: id.to_owned(), opener, opened: self.opened });
        self.holders[kind as usize].insert(id.to_owned(), lane.clone());
        self.by_kind.entry(kind).or_default().insert(lane.clone());
    }

    fn close(&mut self, lane: &Owner, out: &mut Vec<Event>) {
        let Some(Item { kind, id, .. }) = self.lanes.remove(lane) else { return };
        if let Some(lanes) = self.by_kind.get_mut(&kind) {
            lanes.remove(lane);
        }
        self.holders[kind as usize].remove(&id);
        out.push(match kind {
            Kind::Text => {
                let mut end = TextMessageEnd::new(id);
                end.subagent_run_id.clone_from(lane);
                end.into()
            }
            Kind::ToolCall => {
                let mut end = ToolCallEnd::new(id);
                end.subagent_run_id.clone_from(lane);
                end.into()
            }
            Kind::Reasoning => {
                let mut end = ReasoningMessageEnd::new(id);
                end.subagent_run_id.clone_from(lane);
                end.into()
            }
        });
    }

    fn close_all(&mut self, out: &mut Vec<Event>) {
        for lane in self.lanes.in_order() {
            self.close(&lane, out);
        }
    }

    fn violation(&self, rule: Rule, message: String) -> Violation {
        Violation::new(rule, self.index, message)
    }
}

/// The item that an explicit event opens, continues or closes.
fn explicit_item(event: &Event) -> Option<(Kind, &str)> {
    match event {
        Event::TextMessageStart(event) => Some((Kind::Text, &event.message_id)),
        Event::TextMessageContent(event) => Some((Kind::Text, &event.message_id)),
        Event::TextMessageEnd(event) => Some((Kind::Text, &event.message_id)),
        Event::ToolCallStart(event) => Some((Kind::ToolCall, &event.tool_call_id)),
        Event::ToolCallArgs(event) => Some((Kind::ToolCall, &event.tool_call_id)),
        Event::ToolCallEnd(event) => Some((Kind::ToolCall, &event.tool_call_id)),
        Event::ReasoningMessageStart(event) => Some((Kind::Reasoning, &event.message_id)),
        Event::ReasoningMessageContent(event) => Some((Kind::Reasoning, &event.message_id)),
        Event::ReasoningMessageEnd(event) => Some((Kind::Reasoning, &event.message_id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{ChunkExpander, Event, Kind};
    use crate::verify::Verifier;

    const IDS: [&str; 3] = ["x", "y", "z"];

    /// Any event that opens, makes, goes on with or restates an item.
    fn any_event() -> impl Strategy<Value = Value> {
        let id = || prop::sample::select(&IDS[..]);
        let tag = || prop::option::of(prop::sample::select(&["A", "B"][..]));
        const TYPES: [&str; 11] = [
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_END",
            "TOOL_CALL_START",
            "TOOL_CALL_END",
            "TOOL_CALL_RESULT",
            "REASONING_MESSAGE_START",
            "REASONING_MESSAGE_END",
            "TEXT_MESSAGE_CHUNK",
            "TOOL_CALL_CHUNK",
            "REASONING_MESSAGE_CHUNK",
            "MESSAGES_SNAPSHOT",
        ];
        (prop::sample::select(&TYPES[..]), id(), prop::option::of(id()), tag(), id(), tag(), any::<bool>()).prop_map(
            |(event_type, id, parent, tag, other, others_tag, is_reasoning)| {
                let mut event = json!({ "type": event_type });
                let key = if event_type.starts_with("TOOL_CALL") { "toolCallId" } else { "messageId" };
                match event_type {
                    "MESSAGES_SNAPSHOT" => {
                        let call =
                            json!({"id": parent, "type": "function", "function": {"name": "f", "arguments": ""}});
                        let mut first = json!({"id": id, "role": "assistant", "toolCalls": [call], "content": ""});
                        if parent.is_none() {
                            first.as_object_mut().unwrap().remove("toolCalls");
                        }
                        let role = if is_reasoning { "reasoning" } else { "user" };
                        let mut second = json!({"id": other, "role": role, "content": ""});
                        for (message, tag) in [(&mut first, tag), (&mut second, others_tag)] {
                            if let Some(tag) = tag {
                                message["subagentRunId"] = tag.into();
                            }
                        }
                        event["messages"] = json!([first, second]);
                        return event;
                    }
                    "TOOL_CALL_RESULT" => {
                        event["messageId"] = other.into();
                        event["content"] = "".into();
                    }
                    "TOOL_CALL_START" | "TOOL_CALL_CHUNK" => {
                        event["toolCallName"] = "f".into();
                        if let Some(parent) = parent {
                            event["parentMessageId"] = parent.into();
                        }
                    }
                    _ => {}
                }
                if event_type == "REASONING_MESSAGE_START" {
                    event["role"] = "reasoning".into();
                }
                event[key] = id.into();
                if let Some(tag) = tag {
                    event["subagentRunId"] = tag.into();
                }
                event
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Which lane an event is in depends on who owns the item, and that is said by one rule: the verifier's.
        #[test]
        fn what_a_subagent_owns_is_what_the_verifier_says_it_owns(
            echoed in prop::collection::vec(any_event(), 0..3),
            events in prop::collection::vec(any_event(), 0..24),
        ) {
            let mut started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"});
            let messages: Vec<Value> =
                echoed.iter().filter_map(|event| event["messages"].as_array().cloned()).flatten().collect();
            started["input"] = json!({"threadId": "t", "runId": "r", "messages": messages});
            let (mut expander, mut verifier) = (ChunkExpander::new(), Verifier::new());
            for event in std::iter::once(started).chain(events) {
                let mut expanded = Vec::new();
                let pushed = expander.push(Event::from_value(event).unwrap(), &mut expanded);
                // What is wrong is left out, as far as the verifier has not taken some of it.
                if pushed.is_err() || !expanded.iter().all(|event| verifier.push(event).is_ok()) {
                    break;
                }
                for kind in [Kind::Text, Kind::ToolCall, Kind::Reasoning] {
                    for id in IDS {
                        prop_assert_eq!(
                            expander.owned.of(kind, id).map(String::as_str),
                            verifier.owner_of(kind, id),
                            "{:?} {}", kind, id
                        );
                    }
                }
            }
        }
    }
}
