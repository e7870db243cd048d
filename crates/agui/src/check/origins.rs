//! Where the things that a later event may contradict came from.
//!
//! The verifier knows what is open, which is all that a verdict takes. Whoever reads the verdict also wants to know where
//! it was opened, or where it was closed too early. This remembers the places, for the ids of one run at a time.

use std::collections::HashMap;
use std::hash::Hash;

use crate::check::finding::{Earlier, Place};
use crate::event::Event;
use crate::message::Message;
use crate::outcome::RunFinishedOutcome;
use crate::violation::Rule;

/// What is opened, continued and closed by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Text,
    ToolCall,
    Reasoning,
    Span,
    Subagent,
    Activity,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Self::Text => "text message",
            Self::ToolCall => "tool call",
            Self::Reasoning => "reasoning message",
            Self::Span => "reasoning span",
            Self::Subagent => "subagent",
            Self::Activity => "activity",
        }
    }
}

type Owner = Option<String>;

/// The life of one thing.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// Where it was opened last.
    opened: Place,
    /// Where it was closed, unless it is open.
    closed: Option<Place>,
    /// Where its owner was established.
    owned: Place,
}

/// An item in both of its spellings.
pub(crate) struct Mixed {
    /// The chunk that opened it.
    pub(crate) earlier: Earlier,
    /// What is wrong with that, in a sentence.
    pub(crate) note: String,
}

/// Remembers the places of one stream.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    first_run: Option<Place>,
    run: Option<Place>,
    closed: Option<Place>,
    items: HashMap<(Kind, String), Life>,
    /// The item of each kind that an owner opened last: what a chunk without an id continues.
    latest: HashMap<(Kind, Owner), String>,
    steps: HashMap<(Owner, String), Life>,
    answered: HashMap<String, Place>,
    attributed: HashMap<String, Place>,
}

impl Origins {
    /// An event was delivered.
    pub(crate) fn event(&mut self, event: &Event, place: Place) {
        let owner = event.subagent_run_id();
        match event {
            Event::RunStarted(_) => {
                *self = Self { first_run: self.first_run.or(Some(place)), run: Some(place), ..Self::default() };
            }
            Event::RunFinished(_) | Event::RunError(_) => self.closed = Some(place),
            Event::TextMessageStart(start) => self.opened(Kind::Text, &start.message_id, owner, place),
            Event::TextMessageEnd(end) => self.closed(Kind::Text, &end.message_id, place),
            Event::ToolCallStart(start) => self.opened(Kind::ToolCall, &start.tool_call_id, owner, place),
            Event::ToolCallEnd(end) => self.closed(Kind::ToolCall, &end.tool_call_id, place),
            Event::ToolCallResult(result) => {
                remember(&mut self.answered, &result.tool_call_id, place);
                let life = Life { opened: place, closed: Some(place), owned: place };
                self.items.insert((Kind::Text, result.message_id.clone()), life);
            }
            Event::ReasoningStart(start) => self.opened(Kind::Span, &start.message_id, owner, place),
            Event::ReasoningEnd(end) => self.closed(Kind::Span, &end.message_id, place),
            Event::ReasoningMessageStart(start) => self.opened(Kind::Reasoning, &start.message_id, owner, place),
            Event::ReasoningMessageEnd(end) => self.closed(Kind::Reasoning, &end.message_id, place),
            Event::ActivitySnapshot(snapshot) => self.opened(Kind::Activity, &snapshot.message_id, owner, place),
            Event::StepStarted(step) => {
                let life = Life { opened: place, closed: None, owned: place };
                self.steps.insert((owner.map(str::to_owned), step.step_name.clone()), life);
            }
            Event::StepFinished(step) => {
                close(&mut self.steps, &(owner.map(str::to_owned), step.step_name.clone()), place);
            }
            Event::SubagentStarted(started) => self.opened(Kind::Subagent, &started.subagent_run_id, None, place),
            Event::SubagentFinished(finished) => self.closed(Kind::Subagent, &finished.subagent_run_id, place),
            Event::SubagentError(error) => self.closed(Kind::Subagent, &error.subagent_run_id, place),
            Event::MessagesSnapshot(snapshot) => self.restated(&snapshot.messages, place),
            _ => {}
        }
        if let Some(owner) = owner {
            remember(&mut self.attributed, owner, place);
        }
    }

    /// The item that chunks opened and that `event`, the one of that place, both ended and went on with in the other
    /// spelling, when that is how it breaks the rule.
    pub(crate) fn mixed(&self, rule: Rule, event: &Event, place: Place) -> Option<Mixed> {
        if !matches!(rule, Rule::TextMessageNotOpen | Rule::ToolCallNotOpen | Rule::ReasoningMessageNotOpen) {
            return None;
        }
        let (kind, id) = subject(event)?;
        let life = self.items.get(&(kind, id?.to_owned()))?;
        let opened = (life.closed?.event == place.event && life.opened.event < place.event).then_some(life.opened)?;
        let noun = kind.noun();
        Some(Mixed {
            earlier: Earlier {
                event: opened.event,
                offset: opened.offset,
                what: format!("opened {noun} '{}' in chunks, which this event ends", id?),
            },
            note: format!("Chunks opened the {noun}, and the two spellings do not mix within one item."),
        })
    }

    /// The earlier event that `event` contradicts by breaking the rule, when there is one.
    pub(crate) fn contradicted(&self, rule: Rule, event: &Event) -> Option<Earlier> {
        match rule {
            Rule::EventAfterFinish | Rule::EventAfterError => earlier(self.closed?, "closed the run"),
            Rule::NestedRunStarted => earlier(self.run?, "opened the run that is still open"),
            Rule::RunIdMismatch | Rule::ThreadIdMismatch => earlier(self.run?, "opened the run"),
            Rule::ForeignThread => earlier(self.first_run?, "named the thread of the stream"),
            Rule::PendingToolCalls => self.pending(event),
            Rule::StepOpenAtFinish => {
                let open = self.steps.iter().filter(|(_, life)| life.closed.is_none());
                let ((_, name), life) = open.min_by_key(|(_, life)| life.opened)?;
                earlier(life.opened, format!("opened step '{name}'"))
            }
            Rule::TextMessageOpenAtFinish => self.first_open(Kind::Text),
            Rule::ToolCallOpenAtFinish => self.first_open(Kind::ToolCall),
            Rule::ReasoningMessageOpenAtFinish => self.first_open(Kind::Reasoning),
            Rule::ReasoningSpanOpenAtFinish => self.first_open(Kind::Span),
            Rule::SubagentOpenAtFinish => self.first_open(Kind::Subagent),
            Rule::StepAlreadyOpen | Rule::StepNotOpen => self.step(event),
            Rule::AttributionMismatch => self.owner(event),
            Rule::SubagentAnnouncedLate => {
                let subagent = event.subagent_run_id()?;
                earlier(*self.attributed.get(subagent)?, format!("was attributed to subagent '{subagent}'"))
            }
            Rule::FirstChunk | Rule::ChunkConflict | Rule::AmbiguousChunk => self.chunk(event),
            Rule::TextMessageAlreadyOpen
            | Rule::TextMessageNotOpen
            | Rule::ToolCallAlreadyOpen
            | Rule::ToolCallNotOpen
            | Rule::ReasoningMessageAlreadyOpen
            | Rule::ReasoningMessageNotOpen
            | Rule::ReasoningSpanAlreadyOpen
            | Rule::ReasoningSpanNotOpen
            | Rule::SubagentAlreadyActive
            | Rule::SubagentReused
            | Rule::SubagentNotActive => {
                let (kind, id) = subject(event)?;
                let life = self.items.get(&(kind, id?.to_owned()))?;
                Some(told(kind, id?, life))
            }
            Rule::MalformedJson
            | Rule::MalformedFrame
            | Rule::MalformedValue
            | Rule::FirstEvent
            | Rule::DuplicateInterruptId
            | Rule::NoInterrupts
            | Rule::SubagentParentUnknown
            | Rule::UnexpandedChunk => None,
        }
    }

    fn opened(&mut self, kind: Kind, id: &str, owner: Option<&str>, place: Place) {
        match self.items.get_mut(&(kind, id.to_owned())) {
            Some(life) => (life.opened, life.closed) = (place, None),
            None => {
                let life = Life { opened: place, closed: None, owned: place };
                self.items.insert((kind, id.to_owned()), life);
            }
        }
        self.latest.insert((kind, owner.map(str::to_owned)), id.to_owned());
    }

    fn closed(&mut self, kind: Kind, id: &str, place: Place) {
        close(&mut self.items, &(kind, id.to_owned()), place);
    }

    /// A snapshot says anew who owns each message, and opens or closes none.
    fn restated(&mut self, messages: &[Message], place: Place) {
        let mut own = |kind: Kind, id: &str| {
            let life = Life { opened: place, closed: Some(place), owned: place };
            self.items.entry((kind, id.to_owned())).or_insert(life).owned = place;
        };
        for message in messages {
            let kind = match message {
                Message::Reasoning(_) => Kind::Reasoning,
                Message::Activity(_) => Kind::Activity,
                _ => Kind::Text,
            };
            own(kind, message.id());
            for call in message.tool_calls() {
                own(Kind::ToolCall, &call.id);
            }
        }
    }

    fn first_open(&self, kind: Kind) -> Option<Earlier> {
        let open = self.items.iter().filter(|((held, _), life)| *held == kind && life.closed.is_none());
        let ((_, id), life) = open.min_by_key(|(_, life)| life.opened)?;
        Some(told(kind, id, life))
    }

    fn pending(&self, event: &Event) -> Option<Earlier> {
        let Event::RunFinished(finished) = event else { return None };
        let Some(RunFinishedOutcome::Success { pending_tool_call_ids: Some(named) }) = &finished.outcome else {
            return None;
        };
        if let Some((id, place)) = named.iter().find_map(|id| Some((id, self.answered.get(id)?))) {
            return earlier(*place, format!("answered tool call '{id}'"));
        }
        let calls = self.items.iter().filter_map(|((kind, id), life)| (*kind == Kind::ToolCall).then_some((id, life)));
        let missing = calls.filter(|(id, _)| !named.contains(id) && !self.answered.contains_key(*id));
        let (id, life) = missing.min_by_key(|(_, life)| life.opened)?;
        earlier(life.opened, format!("opened tool call '{id}', which is not in the list"))
    }

    fn step(&self, event: &Event) -> Option<Earlier> {
        let name = match event {
            Event::StepStarted(step) => &step.step_name,
            Event::StepFinished(step) => &step.step_name,
            _ => return None,
        };
        let own = self.steps.get(&(event.subagent_run_id().map(str::to_owned), name.clone()));
        if let Some(life) = own {
            let (place, verb) = life.closed.map_or((life.opened, "opened"), |closed| (closed, "closed"));
            return earlier(place, format!("{verb} step '{name}'"));
        }
        let others = self.steps.iter().filter(|((_, other), life)| other == name && life.closed.is_none());
        let ((owner, _), life) = others.min_by_key(|(_, life)| life.opened)?;
        let owner = owner.as_deref().map_or("the parent agent".to_owned(), |owner| format!("subagent '{owner}'"));
        earlier(life.opened, format!("opened step '{name}' of {owner}"))
    }

    fn owner(&self, event: &Event) -> Option<Earlier> {
        // A call that was seen before has an owner of its own; otherwise the message that carries it decides.
        let carrier = match event {
            Event::ToolCallStart(start) => start.parent_message_id.as_deref(),
            Event::ToolCallChunk(chunk) => chunk.parent_message_id.as_deref(),
            _ => None,
        };
        let candidates = match event {
            Event::ActivityDelta(delta) => vec![(Kind::Activity, delta.message_id.as_str())],
            Event::ReasoningEncryptedValue(value) => {
                [Kind::ToolCall, Kind::Text, Kind::Reasoning].map(|kind| (kind, value.entity_id.as_str())).to_vec()
            }
            event => {
                let own = subject(event).and_then(|(kind, id)| Some((kind, id?)));
                own.into_iter().chain(carrier.map(|id| (Kind::Text, id))).collect()
            }
        };
        let known = |(kind, id): (Kind, &str)| {
            let life = self.items.get(&(kind, id.to_owned()))?;
            earlier(life.owned, format!("said who owns {} '{id}'", kind.noun()))
        };
        candidates.into_iter().find_map(known)
    }

    /// For a chunk: the item that it could have continued, or what closed that.
    fn chunk(&self, event: &Event) -> Option<Earlier> {
        let (kind, id) = subject(event)?;
        let owner = event.subagent_run_id().map(str::to_owned);
        let own = self.latest.get(&(kind, owner.clone())).map(String::as_str);
        let any = || {
            let of_kind = self.items.iter().filter(|((held, _), life)| *held == kind && life.closed.is_none());
            of_kind.max_by_key(|(_, life)| life.opened).map(|((_, id), _)| id.as_str())
        };
        let id = id.or(own).or_else(|| owner.is_none().then(any).flatten())?;
        self.items.get(&(kind, id.to_owned())).map(|life| told(kind, id, life))
    }
}

/// What an event is about: the kind, and the id if it carries one.
fn subject(event: &Event) -> Option<(Kind, Option<&str>)> {
    Some(match event {
        Event::TextMessageStart(event) => (Kind::Text, Some(&event.message_id)),
        Event::TextMessageContent(event) => (Kind::Text, Some(&event.message_id)),
        Event::TextMessageEnd(event) => (Kind::Text, Some(&event.message_id)),
        Event::TextMessageChunk(event) => (Kind::Text, event.message_id.as_deref()),
        Event::ToolCallStart(event) => (Kind::ToolCall, Some(&event.tool_call_id)),
        Event::ToolCallArgs(event) => (Kind::ToolCall, Some(&event.tool_call_id)),
        Event::ToolCallEnd(event) => (Kind::ToolCall, Some(&event.tool_call_id)),
        Event::ToolCallChunk(event) => (Kind::ToolCall, event.tool_call_id.as_deref()),
        Event::ReasoningMessageStart(event) => (Kind::Reasoning, Some(&event.message_id)),
        Event::ReasoningMessageContent(event) => (Kind::Reasoning, Some(&event.message_id)),
        Event::ReasoningMessageEnd(event) => (Kind::Reasoning, Some(&event.message_id)),
        Event::ReasoningMessageChunk(event) => (Kind::Reasoning, event.message_id.as_deref()),
        Event::ReasoningStart(event) => (Kind::Span, Some(&event.message_id)),
        Event::ReasoningEnd(event) => (Kind::Span, Some(&event.message_id)),
        Event::SubagentStarted(event) => (Kind::Subagent, Some(&event.subagent_run_id)),
        Event::SubagentFinished(event) => (Kind::Subagent, Some(&event.subagent_run_id)),
        Event::SubagentError(event) => (Kind::Subagent, Some(&event.subagent_run_id)),
        _ => return None,
    })
}

/// Where the thing was closed, or if it is open, where it was opened.
fn told(kind: Kind, id: &str, life: &Life) -> Earlier {
    let (place, verb) = life.closed.map_or((life.opened, "opened"), |closed| (closed, "closed"));
    // Whoever looks for the event has to know that it is not called what the rules call it.
    let came = place.retired_type.map(|name| format!(", as {name}")).unwrap_or_default();
    Earlier { event: place.event, offset: place.offset, what: format!("{verb} {} '{id}'{came}", kind.noun()) }
}

fn earlier(place: Place, what: impl Into<String>) -> Option<Earlier> {
    Some(Earlier { event: place.event, offset: place.offset, what: what.into() })
}

fn remember(places: &mut HashMap<String, Place>, id: &str, place: Place) {
    if !places.contains_key(id) {
        places.insert(id.to_owned(), place);
    }
}

fn close<K: Hash + Eq>(lives: &mut HashMap<K, Life>, key: &K, place: Place) {
    if let Some(life) = lives.get_mut(key) {
        life.closed = Some(place);
    }
}
