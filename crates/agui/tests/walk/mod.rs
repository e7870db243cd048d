//! Conforming AG-UI streams over every family of events, each made by a walk that a seed decides and that keeps account
//! of what is open and whose it is.
//!
//! What can be spelled in two ways — an item as chunks, or as start, content and end — is kept as an [`Item`], so that one
//! walk has both spellings.

#![allow(clippy::unwrap_used)]

mod course;
mod dice;

use serde_json::{Map, Value, json};

pub use dice::Dice;

/// The thread of every stream.
pub const THREAD: &str = "thread";

/// The run that the input asks for.
pub const RUN: &str = "run-1";

/// The input that every stream answers.
pub fn input() -> Value {
    json!({
        "threadId": THREAD, "runId": RUN, "protocolVersion": "1.0", "tools": [], "context": [], "forwardedProps": {},
        "state": {"n": 0, "list": []},
        "messages": [{"id": "asked", "role": "user", "content": "Hello"}],
    })
}

/// The stream of that seed, the items of which are yet to be spelled.
pub fn stream(seed: u64) -> Vec<Step> {
    course::Course::new(seed).walk()
}

/// One step of a stream.
#[derive(Clone, Debug)]
pub enum Step {
    /// An event that is spelled in one way only.
    Event(Value),
    /// An item with nothing of its owner in between, but for what stands aside from chunks.
    Item(Item),
}

/// The three kinds of item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    ToolCall,
    Reasoning,
}

impl Kind {
    fn id_member(self) -> &'static str {
        if self == Self::ToolCall { "toolCallId" } else { "messageId" }
    }

    fn types(self) -> [&'static str; 4] {
        match self {
            Self::Text => ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "TEXT_MESSAGE_CHUNK"],
            Self::ToolCall => ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_CHUNK"],
            Self::Reasoning => [
                "REASONING_MESSAGE_START",
                "REASONING_MESSAGE_CONTENT",
                "REASONING_MESSAGE_END",
                "REASONING_MESSAGE_CHUNK",
            ],
        }
    }
}

/// An item and what it is assembled from.
#[derive(Clone, Debug)]
pub struct Item {
    pub kind: Kind,
    pub id: String,
    pub owner: Option<String>,
    /// What opens it, beside its id and owner.
    pub opener: Map<String, Value>,
    pub pieces: Vec<Piece>,
}

/// One fragment, with what came before it.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Events that stand aside from the assembly of chunks.
    pub aside: Vec<Value>,
    pub delta: String,
    pub metadata: Option<Value>,
    pub raw_event: Option<Value>,
    /// Whether a later chunk names the item, its owner, and repeats what opened it.
    pub named: bool,
    pub tagged: bool,
    pub repeated: bool,
}

/// The stream with start, content and end wherever there is a choice.
pub fn explicit(steps: &[Step]) -> Vec<Value> {
    let mut events = Vec::new();
    for step in steps {
        match step {
            Step::Event(event) => events.push(event.clone()),
            Step::Item(item) => item.explicit(&mut events),
        }
    }
    events
}

/// The stream with chunks wherever there is a choice.
pub fn chunked(steps: &[Step]) -> Vec<Value> {
    let mut events = Vec::new();
    for step in steps {
        match step {
            Step::Event(event) => events.push(event.clone()),
            Step::Item(item) => item.chunked(&mut events),
        }
    }
    events
}

/// The stream in a mixture of both spellings, item by item.
pub fn mixed(steps: &[Step], dice: &mut Dice) -> Vec<Value> {
    let mut events = Vec::new();
    for step in steps {
        match step {
            Step::Event(event) => events.push(event.clone()),
            Step::Item(item) if dice.once_in(2) => item.chunked(&mut events),
            Step::Item(item) => item.explicit(&mut events),
        }
    }
    events
}

impl Item {
    fn event(&self, event_type: &str, named: bool, tagged: bool) -> Value {
        let mut event = json!({ "type": event_type });
        if named {
            event[self.kind.id_member()] = json!(self.id);
        }
        if let (true, Some(owner)) = (tagged, &self.owner) {
            event["subagentRunId"] = json!(owner);
        }
        event
    }

    fn explicit(&self, events: &mut Vec<Value>) {
        let [start, content, end, _] = self.kind.types();
        let mut opening = self.event(start, true, true);
        for (member, value) in &self.opener {
            opening[member] = value.clone();
        }
        if self.kind == Kind::Reasoning {
            opening["role"] = json!("reasoning");
        }
        events.push(opening);
        for piece in &self.pieces {
            events.extend(piece.aside.iter().cloned());
            let mut event = self.event(content, true, piece.tagged);
            event["delta"] = json!(piece.delta);
            piece.dress(&mut event);
            events.push(event);
        }
        events.push(self.event(end, true, false));
    }

    fn chunked(&self, events: &mut Vec<Value>) {
        let [.., chunk] = self.kind.types();
        for (place, piece) in self.pieces.iter().enumerate() {
            // Before the first chunk there is nothing to stand aside from; it is the same either way.
            events.extend(piece.aside.iter().cloned());
            let first = place == 0;
            // Without a name or a tag it is the parent agent's.
            let mut event = self.event(chunk, first || piece.named, first || piece.tagged || !piece.named);
            if first || piece.repeated {
                for (member, value) in &self.opener {
                    event[member] = value.clone();
                }
            }
            // An empty fragment that brings metadata to an open item need not be there.
            if first || !piece.delta.is_empty() || piece.metadata.is_none() {
                event["delta"] = json!(piece.delta);
            }
            piece.dress(&mut event);
            events.push(event);
        }
    }
}

impl Piece {
    fn dress(&self, event: &mut Value) {
        if let Some(metadata) = &self.metadata {
            event["metadata"] = metadata.clone();
        }
        if let Some(raw_event) = &self.raw_event {
            event["rawEvent"] = raw_event.clone();
        }
    }
}
