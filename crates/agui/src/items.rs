//! Open, content, close, and who owns what (patterns/streaming; events/subagents, "Ownership").

use std::collections::{HashMap, HashSet};

use crate::event::EventType;
use crate::violation::{Rule, Violation};

/// Who an item belongs to: a subagent invocation, or the parent agent.
pub(crate) type Owner = Option<String>;

/// The items of one kind: which are open, and who owns each that the run has seen. Owners outlive the closing, because a
/// closed item may be reopened, or given an encrypted value.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) open: HashSet<String>,
    pub(crate) owners: HashMap<String, Owner>,
}

impl Items {
    /// Forgets everything, for the next run.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.owners.clear();
    }
}

/// How the rules of a kind are called.
pub(crate) struct Kind {
    noun: &'static str,
    already_open: Rule,
    not_open: Rule,
}

pub(crate) const TEXT: Kind =
    Kind { noun: "text message", already_open: Rule::TextMessageAlreadyOpen, not_open: Rule::TextMessageNotOpen };
pub(crate) const TOOL_CALL: Kind =
    Kind { noun: "tool call", already_open: Rule::ToolCallAlreadyOpen, not_open: Rule::ToolCallNotOpen };
pub(crate) const REASONING: Kind = Kind {
    noun: "reasoning message",
    already_open: Rule::ReasoningMessageAlreadyOpen,
    not_open: Rule::ReasoningMessageNotOpen,
};
pub(crate) const SPAN: Kind =
    Kind { noun: "reasoning span", already_open: Rule::ReasoningSpanAlreadyOpen, not_open: Rule::ReasoningSpanNotOpen };

/// Opens an item. `inherited` is the owner of the message that carries it, when that is on record.
pub(crate) fn open(
    items: &mut Items,
    kind: &Kind,
    event_type: EventType,
    id: &str,
    tag: Option<&str>,
    inherited: Option<Owner>,
    index: usize,
) -> Result<(), Violation> {
    if items.open.contains(id) {
        let message =
            format!("{event_type} opens {} '{id}', which is open already; it must be closed first.", kind.noun);
        return Err(Violation::new(kind.already_open, index, message));
    }
    match items.owners.get(id) {
        Some(owner) => {
            agrees(Some(owner), tag, event_type, kind.noun, id, index)?;
            if let (None, Some(inherited)) = (tag, &inherited)
                && inherited != owner
            {
                return Err(mismatch(inherited.as_deref(), owner, event_type, kind.noun, id, index));
            }
        }
        None => {
            let owner = tag.map(str::to_owned).or(inherited.flatten());
            items.owners.insert(id.to_owned(), owner);
        }
    }
    items.open.insert(id.to_owned());
    Ok(())
}

/// Continues an open item.
pub(crate) fn continues(
    items: &Items,
    kind: &Kind,
    event_type: EventType,
    id: &str,
    tag: Option<&str>,
    index: usize,
) -> Result<(), Violation> {
    if !items.open.contains(id) {
        let message = format!("{event_type} names {} '{id}', which is not open; it must be opened first.", kind.noun);
        return Err(Violation::new(kind.not_open, index, message));
    }
    agrees(items.owners.get(id), tag, event_type, kind.noun, id, index)
}

/// Closes an open item.
pub(crate) fn close(
    items: &mut Items,
    kind: &Kind,
    event_type: EventType,
    id: &str,
    tag: Option<&str>,
    index: usize,
) -> Result<(), Violation> {
    continues(items, kind, event_type, id, tag, index)?;
    items.open.remove(id);
    Ok(())
}

/// An event that continues something names its owner or none. `owner` is `None` when nothing is on record.
pub(crate) fn agrees(
    owner: Option<&Owner>,
    tag: Option<&str>,
    event_type: EventType,
    noun: &str,
    id: &str,
    index: usize,
) -> Result<(), Violation> {
    match (owner, tag) {
        (Some(owner), Some(tag)) if owner.as_deref() != Some(tag) => {
            Err(mismatch(Some(tag), owner, event_type, noun, id, index))
        }
        _ => Ok(()),
    }
}

fn mismatch(tag: Option<&str>, owner: &Owner, event_type: EventType, noun: &str, id: &str, index: usize) -> Violation {
    let message = format!(
        "{event_type} is attributed to {}, which does not match {noun} '{id}': that belongs to {}.",
        named(tag),
        named(owner.as_deref())
    );
    Violation::new(Rule::AttributionMismatch, index, message)
}

/// An owner in words.
pub(crate) fn named(owner: Option<&str>) -> String {
    owner.map_or_else(|| "the parent agent".to_owned(), |subagent| format!("subagent '{subagent}'"))
}
