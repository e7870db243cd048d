//! Open, content, close, and who owns what (patterns/streaming; events/subagents, "Ownership").

use std::ops::Range;

use crate::event::EventType;
use crate::places::Places;
use crate::violation::{Rule, Violation};

/// Who an item belongs to: a subagent invocation, or the parent agent.
pub(crate) type Owner = Option<String>;

/// One item that a run has seen.
#[derive(Debug)]
struct Item {
    /// Where its id is among [`Items::ids`].
    id: Range<usize>,
    owner: Owner,
    open: bool,
}

/// The items of one kind: which are open, and who owns each that the run has seen. Owners outlive the closing, because a
/// closed item may be reopened, or given an encrypted value.
#[derive(Debug, Default)]
pub(crate) struct Items {
    items: Vec<Item>,
    /// The ids of all, one behind the other, so that an item costs no allocation of its own.
    ids: String,
    by_id: Places,
    /// The item of the last event. A stream extends one item many times in a row, and comparing an id is cheaper than
    /// hashing it.
    last: usize,
    open: usize,
}

impl Items {
    /// Forgets everything, for the next run.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Who owns the item; `None` when it is not on record.
    pub(crate) fn owner(&self, id: &str) -> Option<&Owner> {
        self.find(id).map(|place| &self.items[place].owner)
    }

    /// Puts on record who owns the item, whatever was on record before.
    pub(crate) fn set_owner(&mut self, id: &str, owner: Owner) {
        match self.find(id) {
            Some(place) => {
                self.items[place].owner = owner;
                self.last = place;
            }
            None => {
                self.add(id, owner);
            }
        }
    }

    /// The ids of the items that are open, in no order.
    pub(crate) fn open_ids(&self) -> impl Iterator<Item = &str> {
        let any = if self.open == 0 { &[] } else { &self.items[..] };
        any.iter().filter(|item| item.open).map(|item| self.id_of(item))
    }

    /// Continues an item, or closes it, if it is evidently open and the tag names its owner or nobody; else nothing
    /// happens, and `false` is told.
    pub(crate) fn goes_on(&mut self, id: &str, tag: Option<&str>, closes: bool) -> bool {
        let Some(place) = self.find(id) else { return false };
        let item = &mut self.items[place];
        if !item.open || (tag.is_some() && tag != item.owner.as_deref()) {
            return false;
        }
        self.last = place;
        if closes {
            item.open = false;
            self.open -= 1;
        }
        true
    }

    fn id_of(&self, item: &Item) -> &str {
        &self.ids[item.id.clone()]
    }

    fn find(&self, id: &str) -> Option<usize> {
        // What is restated is restated in order, so the next one is as likely.
        let is_at = |place: usize| self.items.get(place).is_some_and(|item| self.id_of(item) == id);
        [self.last, self.last + 1].into_iter().find(|&place| is_at(place)).or_else(|| self.by_id.find(id, is_at))
    }

    /// Puts an item on record that is not there yet.
    fn add(&mut self, id: &str, owner: Owner) -> usize {
        let (start, place) = (self.ids.len(), self.items.len());
        self.ids.push_str(id);
        self.by_id.add(id, place);
        self.items.push(Item { id: start..self.ids.len(), owner, open: false });
        place
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
    let known = items.find(id);
    if known.is_some_and(|place| items.items[place].open) {
        let message =
            format!("{event_type} opens {} '{id}', which is open already; it must be closed first.", kind.noun);
        return Err(Violation::new(kind.already_open, index, message));
    }
    let place = match known {
        Some(place) => {
            let owner = &items.items[place].owner;
            agrees(Some(owner), tag, event_type, kind.noun, id, index)?;
            if let (None, Some(inherited)) = (tag, &inherited)
                && inherited != owner
            {
                return Err(mismatch(inherited.as_deref(), owner, event_type, kind.noun, id, index));
            }
            place
        }
        None => items.add(id, tag.map(str::to_owned).or(inherited.flatten())),
    };
    items.items[place].open = true;
    items.open += 1;
    items.last = place;
    Ok(())
}

/// Continues an open item.
pub(crate) fn continues(
    items: &mut Items,
    kind: &Kind,
    event_type: EventType,
    id: &str,
    tag: Option<&str>,
    index: usize,
) -> Result<(), Violation> {
    let place = items.find(id);
    let Some(place) = place.filter(|&place| items.items[place].open) else {
        let message = format!("{event_type} names {} '{id}', which is not open; it must be opened first.", kind.noun);
        return Err(Violation::new(kind.not_open, index, message));
    };
    items.last = place;
    agrees(Some(&items.items[place].owner), tag, event_type, kind.noun, id, index)
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
    // The item that continues is the last one.
    items.items[items.last].open = false;
    items.open -= 1;
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
