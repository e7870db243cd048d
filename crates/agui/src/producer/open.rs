//! What a run has open, in the order in which it was opened, and the events that close it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::event::Event;
use crate::events::{ReasoningEnd, ReasoningMessageEnd, StepFinished, SubagentError, TextMessageEnd, ToolCallEnd};

/// What can be open in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenKind {
    /// A text message.
    TextMessage,
    /// A tool call whose arguments are not complete.
    ToolCall,
    /// A reasoning message.
    ReasoningMessage,
    /// A span of reasoning.
    ReasoningSpan,
    /// A step.
    Step,
    /// A subagent invocation.
    Subagent,
}

impl fmt::Display for OpenKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TextMessage => "text message",
            Self::ToolCall => "tool call",
            Self::ReasoningMessage => "reasoning message",
            Self::ReasoningSpan => "reasoning span",
            Self::Step => "step",
            Self::Subagent => "subagent",
        })
    }
}

/// Something that a run opened and has not closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenItem {
    /// What it is.
    pub kind: OpenKind,
    /// Its id; a step's name.
    pub id: String,
    /// The subagent that its opener was attributed to; of a subagent, the one that spawned it.
    pub owner: Option<String>,
    /// Whether the handle that could close it is gone.
    pub abandoned: bool,
}

impl fmt::Display for OpenItem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} '{}'", self.kind, self.id)?;
        if self.abandoned { formatter.write_str(", whose handle was dropped") } else { Ok(()) }
    }
}

impl OpenItem {
    /// The event that closes it; of a subagent, one that says that it was stopped.
    pub(super) fn closing(&self) -> Event {
        let owner = || self.owner.clone();
        let id = self.id.as_str();
        match self.kind {
            OpenKind::TextMessage => TextMessageEnd { subagent_run_id: owner(), ..TextMessageEnd::new(id) }.into(),
            OpenKind::ToolCall => ToolCallEnd { subagent_run_id: owner(), ..ToolCallEnd::new(id) }.into(),
            OpenKind::ReasoningMessage => {
                ReasoningMessageEnd { subagent_run_id: owner(), ..ReasoningMessageEnd::new(id) }.into()
            }
            OpenKind::ReasoningSpan => ReasoningEnd { subagent_run_id: owner(), ..ReasoningEnd::new(id) }.into(),
            OpenKind::Step => StepFinished { subagent_run_id: owner(), ..StepFinished::new(id) }.into(),
            OpenKind::Subagent => {
                // AG-UI has no ending for an invocation that was stopped; its code tells that it did not fail by itself.
                let mut error = SubagentError::new(id, "the subagent's work was stopped together with the run");
                error.code = Some(crate::downgrade::CANCELLED_CODE.to_owned());
                error.into()
            }
        }
    }
}

type Key = (OpenKind, String, Option<String>);

/// The open items of the current run. Each has a number that is never given again.
#[derive(Debug, Default)]
pub(super) struct OpenItems {
    opened: u64,
    items: BTreeMap<u64, OpenItem>,
    numbers: HashMap<Key, u64>,
}

impl OpenItems {
    /// Takes account of an event that has passed.
    pub(super) fn take(&mut self, event: &Event) {
        let tag = event.subagent_run_id();
        match event {
            Event::TextMessageStart(e) => self.open(OpenKind::TextMessage, &e.message_id, tag),
            Event::TextMessageEnd(e) => self.close(OpenKind::TextMessage, &e.message_id, None),
            Event::ToolCallStart(e) => self.open(OpenKind::ToolCall, &e.tool_call_id, tag),
            Event::ToolCallEnd(e) => self.close(OpenKind::ToolCall, &e.tool_call_id, None),
            Event::ReasoningMessageStart(e) => self.open(OpenKind::ReasoningMessage, &e.message_id, tag),
            Event::ReasoningMessageEnd(e) => self.close(OpenKind::ReasoningMessage, &e.message_id, None),
            Event::ReasoningStart(e) => self.open(OpenKind::ReasoningSpan, &e.message_id, tag),
            Event::ReasoningEnd(e) => self.close(OpenKind::ReasoningSpan, &e.message_id, None),
            Event::StepStarted(e) => self.open(OpenKind::Step, &e.step_name, tag),
            Event::StepFinished(e) => self.close(OpenKind::Step, &e.step_name, tag),
            Event::SubagentStarted(e) => {
                self.open(OpenKind::Subagent, &e.subagent_run_id, e.parent_subagent_run_id.as_deref());
            }
            Event::SubagentFinished(e) => self.close(OpenKind::Subagent, &e.subagent_run_id, None),
            Event::SubagentError(e) => self.close(OpenKind::Subagent, &e.subagent_run_id, None),
            Event::RunStarted(_) | Event::RunFinished(_) | Event::RunError(_) => {
                self.items.clear();
                self.numbers.clear();
            }
            _ => {}
        }
    }

    /// What is open, in the order of opening.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &OpenItem> {
        self.items.values()
    }

    /// Whether this is open; of a step, the parent agent's.
    pub(super) fn contains(&self, kind: OpenKind, id: &str) -> bool {
        self.numbers.contains_key(&key(kind, id, None))
    }

    /// Remembers that nobody has the item's handle any more.
    pub(super) fn abandon(&mut self, number: u64) {
        if let Some(item) = self.items.get_mut(&number) {
            item.abandoned = true;
        }
    }

    /// The number of what was opened last; 0 before anything was.
    pub(super) fn newest(&self) -> u64 {
        self.opened
    }

    fn open(&mut self, kind: OpenKind, id: &str, owner: Option<&str>) {
        self.opened += 1;
        let item = OpenItem { kind, id: id.to_owned(), owner: owner.map(str::to_owned), abandoned: false };
        self.numbers.insert(key(kind, id, owner), self.opened);
        self.items.insert(self.opened, item);
    }

    fn close(&mut self, kind: OpenKind, id: &str, owner: Option<&str>) {
        if let Some(number) = self.numbers.remove(&key(kind, id, owner)) {
            self.items.remove(&number);
        }
    }
}

/// Only a step is told apart by its owner: items have ids.
fn key(kind: OpenKind, id: &str, owner: Option<&str>) -> Key {
    let owner = if kind == OpenKind::Step { owner.map(str::to_owned) } else { None };
    (kind, id.to_owned(), owner)
}
