//! What a stream replays of earlier runs, folded into what a client would hold of them.
//!
//! A replayed run makes no run here. Told as they came, its events would be a part of the requested run: what was streamed
//! would append to messages that the client has already, and a patch would be applied to what it has been applied to. Told
//! in part, what follows would start from something else than the agent means. So they are followed as a client follows
//! them, from the input on, and what that comes to is told as snapshots (events/lifecycle, "Several runs on one stream").

use std::collections::{HashMap, HashSet};

use runwire_agui::{
    ActivitySnapshot, Content, Event, Message, MessagesSnapshot, Reducer, RunAgentInput, StateSnapshot,
};
use runwire_frame::{NoticeLevel, Timestamp};
use serde_json::{Map, Value};

use crate::ingest::Ingest;
use crate::recorder::Recorder;

/// What a stream restated of earlier runs before the requested one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replayed {
    /// At most one `MESSAGES_SNAPSHOT`, then an `ACTIVITY_SNAPSHOT` for each activity, then at most one `STATE_SNAPSHOT`.
    pub snapshots: Vec<Event>,
    /// How many events there were that are in none of these; they are not kept.
    pub dropped: usize,
}

/// Follows earlier runs as a client does that began with the input.
#[derive(Debug)]
pub(crate) struct Replay {
    reducer: Reducer,
    /// The message that holds each call.
    calls: HashMap<String, String>,
    /// The state of the input.
    began_with: Value,
    /// The last restatement of the messages.
    messages: Option<Restated<MessagesSnapshot>>,
    /// Whether a restatement of the messages had activities, and then all of them. One that has none says nothing of them.
    tells_activities: bool,
    /// The same of reasoning.
    tells_reasoning: bool,
    /// The last restatement of the state; one of its own where there were only changes.
    state: Option<Restated<StateSnapshot>>,
    /// Activities in the order of their first event.
    activities: Vec<Restated<ActivitySnapshot>>,
    /// Where each is among them.
    activity_places: HashMap<String, usize>,
    /// What extends an item that the client has, until it shows whether that is the item all over again.
    again: HashMap<(Item, String), Vec<Event>>,
    /// Events of messages and calls that no restatement has come behind or before.
    streamed: usize,
    /// The same of reasoning, which a restatement need not track.
    reasoned: usize,
    dropped: usize,
}

/// A snapshot as it came, and whether something has changed since what it says.
#[derive(Debug)]
struct Restated<S> {
    snapshot: S,
    changed: bool,
}

impl<S> Restated<S> {
    fn new(snapshot: S) -> Restated<S> {
        Restated { snapshot, changed: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Item {
    Text,
    Reasoning,
    Call,
}

impl Replay {
    /// Nothing was replayed yet, and the client holds what the input says.
    pub(crate) fn new(input: &RunAgentInput) -> Replay {
        Replay {
            reducer: Reducer::from_input(input),
            calls: calls_of(&input.messages).collect(),
            began_with: input.starting_state(),
            messages: None,
            tells_activities: false,
            tells_reasoning: false,
            state: None,
            activities: Vec::new(),
            activity_places: HashMap::new(),
            again: HashMap::new(),
            streamed: 0,
            reasoned: 0,
            dropped: 0,
        }
    }

    /// Takes an event of an earlier run, its beginning and its end included.
    pub(crate) fn push(&mut self, event: Event) {
        match event {
            Event::RunStarted(started) => {
                let echoed = || started.input.iter().flat_map(|input| &input.messages);
                let adds = echoed().any(|message| self.reducer.message(message.id()).is_none());
                self.messages_change(adds);
                self.calls.extend(echoed().flat_map(call_places));
                self.apply(started.into());
            }
            Event::RunFinished(_) | Event::RunError(_) => self.cut_off(),
            Event::MessagesSnapshot(snapshot) => {
                let tells_activities = tracks(&snapshot.messages, is_activity);
                let tells_reasoning = tracks(&snapshot.messages, is_reasoning);
                self.streamed = 0;
                if tells_reasoning {
                    self.reasoned = 0;
                }
                self.calls = calls_of(&snapshot.messages).collect();
                // What it does not track stays as an earlier one had it.
                let changed = self.tells_activities && !tells_activities || self.tells_reasoning && !tells_reasoning;
                self.tells_activities |= tells_activities;
                self.tells_reasoning |= tells_reasoning;
                self.messages = Some(Restated { snapshot: snapshot.clone(), changed });
                self.apply(snapshot.into());
            }
            Event::StateSnapshot(snapshot) => {
                self.state = Some(Restated::new(snapshot.clone()));
                self.apply(snapshot.into());
            }
            Event::StateDelta(delta) => {
                if self.apply(delta.into()) {
                    let unsaid = || Restated::new(StateSnapshot::new(Value::Null));
                    self.state.get_or_insert_with(unsaid).changed = true;
                }
            }
            Event::ActivitySnapshot(snapshot) => self.activity(snapshot),
            Event::ActivityDelta(delta) => {
                // Where it was not told as a whole, the input may hold it.
                let unsaid = || ActivitySnapshot::new(&*delta.message_id, &*delta.activity_type, Map::new());
                self.activity_mut(&delta.message_id, unsaid).0.changed = true;
                if self.apply(delta.into()) {
                    self.messages_change(self.tells_activities);
                }
            }
            event => match item(&event) {
                Some((kind, id)) => {
                    let place = (kind, id.to_owned());
                    self.streams(kind, place, event);
                }
                None if matches!(event, Event::ToolCallResult(_) | Event::ReasoningEncryptedValue(_)) => {
                    self.extend(Item::Text, event);
                }
                // Progress and what the application and the agent have between them are of the moment.
                None => self.dropped += 1,
            },
        }
    }

    /// What the client has to be told in place of the runs.
    pub(crate) fn finish(mut self) -> Replayed {
        self.cut_off();
        let mut snapshots = Vec::new();
        let mut dropped = self.dropped;
        let (tells_activities, tells_reasoning) = (self.tells_activities, self.tells_reasoning);
        match self.messages {
            Some(Restated { snapshot, changed }) => {
                if !tells_reasoning {
                    dropped += self.reasoned;
                }
                let is_told = |message: &&Message| {
                    (tells_activities || !is_activity(message)) && (tells_reasoning || !is_reasoning(message))
                };
                snapshots.push(
                    match changed {
                        true => MessagesSnapshot::new(
                            self.reducer.messages().filter(is_told).cloned().collect::<Vec<Message>>(),
                        ),
                        false => snapshot,
                    }
                    .into(),
                );
            }
            // It says nothing of what else there is, so it cannot be told as a restatement of the whole.
            None => dropped += self.streamed + self.reasoned,
        }
        for Restated { snapshot, changed } in self.activities {
            let Some(Message::Activity(held)) = self.reducer.message(&snapshot.message_id) else { continue };
            if tells_activities {
                continue;
            }
            snapshots.push(match changed {
                true => ActivitySnapshot {
                    metadata: held.metadata.clone(),
                    subagent_run_id: held.subagent_run_id.clone(),
                    ..ActivitySnapshot::new(&*held.id, &*held.activity_type, held.content.clone())
                }
                .into(),
                false => snapshot.into(),
            });
        }
        let says_nothing = |state: &Restated<StateSnapshot>| {
            state.changed && state.snapshot.snapshot.is_null() && *self.reducer.state() == self.began_with
        };
        let state = self.state.filter(|state| !says_nothing(state));
        snapshots.extend(state.map(|Restated { snapshot, changed }| match changed {
            true => StateSnapshot::new(self.reducer.state().clone()).into(),
            false => snapshot.into(),
        }));
        Replayed { snapshots, dropped }
    }

    /// Says whether it applied. What does not, for a client, is not in what it holds.
    fn apply(&mut self, event: Event) -> bool {
        let applied = self.reducer.apply(event, 0).is_none();
        self.dropped += usize::from(!applied);
        applied
    }

    fn messages_change(&mut self, changed: bool) {
        if let Some(messages) = &mut self.messages {
            messages.changed |= changed;
        }
    }

    /// Adds to the messages.
    fn extend(&mut self, kind: Item, event: Event) {
        if let Event::ToolCallStart(start) = &event {
            let carrier = start.parent_message_id.as_ref().unwrap_or(&start.tool_call_id);
            self.calls.entry(start.tool_call_id.clone()).or_insert_with(|| carrier.clone());
        }
        if !self.apply(event) {
            return;
        }
        self.messages_change(true);
        match kind {
            Item::Reasoning => self.reasoned += 1,
            Item::Text | Item::Call => self.streamed += usize::from(self.messages.is_none()),
        }
    }

    /// The activity of that id, and whether it is new.
    fn activity_mut(
        &mut self,
        id: &str,
        new: impl FnOnce() -> ActivitySnapshot,
    ) -> (&mut Restated<ActivitySnapshot>, bool) {
        let place = self.activity_places.get(id).copied();
        let at = place.unwrap_or(self.activities.len());
        if place.is_none() {
            self.activities.push(Restated::new(new()));
            self.activity_places.insert(id.to_owned(), at);
        }
        (&mut self.activities[at], place.is_none())
    }

    fn activity(&mut self, snapshot: ActivitySnapshot) {
        let (known, is_new) = self.activity_mut(&snapshot.message_id, || snapshot.clone());
        if !is_new && snapshot.replace == Some(false) {
            // It leaves what is there as it is, but for the metadata.
            known.changed |= snapshot.metadata.is_some();
        } else if !is_new {
            // Metadata of several adds up.
            known.changed = known.changed || known.snapshot.metadata.is_some();
            known.snapshot = snapshot.clone();
        }
        if self.apply(snapshot.into()) {
            self.messages_change(self.tells_activities);
        }
    }

    /// An event that opens, extends or closes an item. One that the client has when it is opened is kept back until its end:
    /// if it says what is there it is that once more, and if it says anything else it goes on.
    fn streams(&mut self, kind: Item, place: (Item, String), event: Event) {
        let closes = matches!(event, Event::TextMessageEnd(_) | Event::ReasoningMessageEnd(_) | Event::ToolCallEnd(_));
        let opens =
            matches!(event, Event::TextMessageStart(_) | Event::ReasoningMessageStart(_) | Event::ToolCallStart(_));
        if opens && self.held(&place).is_some() {
            self.again.insert(place, vec![event]);
            return;
        }
        if let Some(kept_back) = self.again.get_mut(&place) {
            kept_back.push(event);
            if closes {
                let kept_back = self.again.remove(&place).unwrap_or_default();
                self.decide(&place, kept_back, |held, said| held == said);
            }
            return;
        }
        self.extend(kind, event);
    }

    /// An earlier run has ended, and with it what it had open.
    fn cut_off(&mut self) {
        for (place, kept_back) in std::mem::take(&mut self.again) {
            self.decide(&place, kept_back, |held, said| held.starts_with(said));
        }
    }

    fn decide(&mut self, place: &(Item, String), events: Vec<Event>, is_there: fn(&str, &str) -> bool) {
        let said: String = events.iter().filter_map(delta).collect();
        if self.held(place).is_some_and(|held| is_there(held, &said)) {
            self.dropped += events.len();
            return;
        }
        for event in events {
            self.extend(place.0, event);
        }
    }

    /// The text of an item that the client has.
    fn held(&self, (kind, id): &(Item, String)) -> Option<&str> {
        if *kind == Item::Call {
            let mut calls = self.reducer.message(self.calls.get(id)?)?.tool_calls().iter();
            return calls.find(|call| call.id == *id).map(|call| call.function.arguments.as_str());
        }
        match self.reducer.message(id)? {
            Message::Developer(message) => Some(&message.content),
            Message::System(message) => Some(&message.content),
            Message::Assistant(message) => Some(message.content.as_deref().unwrap_or_default()),
            Message::Reasoning(message) => Some(&message.content),
            Message::User(message) => match &message.content {
                Content::Text(text) => Some(text),
                Content::Parts(_) => None,
            },
            Message::Tool(_) | Message::Activity(_) => None,
        }
    }
}

fn is_activity(message: &Message) -> bool {
    matches!(message, Message::Activity(_))
}

fn is_reasoning(message: &Message) -> bool {
    matches!(message, Message::Reasoning(_))
}

/// Whether a restatement has messages of a kind that it need not track, and then has all of them.
fn tracks(messages: &[Message], kind: fn(&Message) -> bool) -> bool {
    messages.iter().any(kind)
}

fn calls_of(messages: &[Message]) -> impl Iterator<Item = (String, String)> {
    messages.iter().flat_map(call_places)
}

/// Each call of a message, and the message.
fn call_places(message: &Message) -> impl Iterator<Item = (String, String)> {
    message.tool_calls().iter().map(|call| (call.id.clone(), message.id().to_owned()))
}

/// The item that an event opens, extends or closes.
fn item(event: &Event) -> Option<(Item, &str)> {
    Some(match event {
        Event::TextMessageStart(e) => (Item::Text, &e.message_id),
        Event::TextMessageContent(e) => (Item::Text, &e.message_id),
        Event::TextMessageEnd(e) => (Item::Text, &e.message_id),
        Event::ReasoningMessageStart(e) => (Item::Reasoning, &e.message_id),
        Event::ReasoningMessageContent(e) => (Item::Reasoning, &e.message_id),
        Event::ReasoningMessageEnd(e) => (Item::Reasoning, &e.message_id),
        Event::ToolCallStart(e) => (Item::Call, &e.tool_call_id),
        Event::ToolCallArgs(e) => (Item::Call, &e.tool_call_id),
        Event::ToolCallEnd(e) => (Item::Call, &e.tool_call_id),
        _ => return None,
    })
}

fn delta(event: &Event) -> Option<&str> {
    match event {
        Event::TextMessageContent(e) => Some(&e.delta),
        Event::ReasoningMessageContent(e) => Some(&e.delta),
        Event::ToolCallArgs(e) => Some(&e.delta),
        _ => None,
    }
}

impl Ingest {
    /// Writes what a replayed earlier run restated, in front of the requested run's own content.
    ///
    /// A `MESSAGES_SNAPSHOT` declares the complete set of messages (events/state), and came before the requested run's
    /// `RUN_STARTED`, whose echo adds what `input` has beyond it. Here it stands behind that, so these messages are added
    /// to it: a client would drop the message that it has just sent. Where messages or activities come that the client need
    /// not hold, it comes as it was before, because a client keeps what it holds in place and would put these behind the
    /// message that it has just sent.
    pub fn record_replayed(
        &mut self,
        recorder: &mut Recorder,
        now: Timestamp,
        replayed: &Replayed,
        input: &RunAgentInput,
    ) {
        let mut snapshots = replayed.snapshots.iter().peekable();
        if let Some(event @ Event::MessagesSnapshot(restated)) =
            snapshots.next_if(|event| matches!(event, Event::MessagesSnapshot(_)))
        {
            let whole = completed(restated, input);
            let adds = whole.messages.len() > restated.messages.len();
            let sent: HashSet<&str> = input.messages.iter().map(Message::id).collect();
            let is_activity = |event: &&Event| matches!(event, Event::ActivitySnapshot(_));
            let brings = snapshots.peek().is_some_and(is_activity)
                || restated.messages.iter().any(|message| !sent.contains(message.id()));
            if adds && brings {
                self.record(recorder, now, event);
                while let Some(activity) = snapshots.next_if(is_activity) {
                    self.record(recorder, now, activity);
                }
            }
            self.record(recorder, now, &whole.into());
        }
        for snapshot in snapshots {
            self.record(recorder, now, snapshot);
        }
        if replayed.dropped > 0 {
            let count = replayed.dropped;
            recorder.notice(
                now,
                NoticeLevel::Warning,
                "replayed_events_dropped",
                format!("{count} events of earlier runs were replayed as a stream; only snapshots restate history"),
                None,
            );
        }
    }
}

/// The restatement, and behind it what the input has beyond it. What it does not track a client keeps by itself.
fn completed(restated: &MessagesSnapshot, input: &RunAgentInput) -> MessagesSnapshot {
    let held: HashSet<&str> = restated.messages.iter().map(Message::id).collect();
    let tells_activities = tracks(&restated.messages, is_activity);
    let tells_reasoning = tracks(&restated.messages, is_reasoning);
    let lacking = input.messages.iter().filter(|message| {
        !held.contains(message.id())
            && (tells_activities || !is_activity(message))
            && (tells_reasoning || !is_reasoning(message))
    });
    let mut whole = restated.clone();
    whole.messages.extend(lacking.cloned());
    whole
}
