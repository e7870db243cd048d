//! What a client holds: the messages of the conversation and the state.

use hashbrown::HashMap;
use serde_json::{Map, Value};

use crate::conversation::{Conversation, Genus, Place, is_same};
use crate::event::Event;
use crate::events::{
    ActivityDelta, ActivitySnapshot, ReasoningEncryptedValue, ReasoningEncryptedValueSubtype, ReasoningMessageStart,
    TextMessageStart, ToolCallResult, ToolCallStart,
};
use crate::input::RunAgentInput;
use crate::message::{
    ActivityMessage, AssistantMessage, Content, DeveloperMessage, FunctionCall, Message, ReasoningMessage,
    SystemMessage, TextMessageRole, ToolCall, ToolMessage, UserMessage,
};
use crate::outcome::{Interrupt, RunFinishedOutcome};
use crate::part::ItemKind;
use crate::patch;
use crate::warning::{Warning, WarningRule};

/// Builds the conversation and the state from verified events, chunks expanded.
///
/// Applying an event costs what the event itself is large, and for a snapshot what the conversation is.
#[derive(Clone, Debug)]
pub struct Reducer {
    conversation: Conversation,
    state: Value,
    /// Of the state.
    measure: patch::Measure,
    /// Of the contents of activities that copied something within themselves, by message id.
    activity_measures: HashMap<String, patch::Measure>,
    interrupts: Vec<Interrupt>,
    /// Whether anything has said what the state is.
    knows_state: bool,
}

impl Default for Reducer {
    fn default() -> Self {
        Self {
            conversation: Conversation::default(),
            state: Value::Object(Map::new()),
            measure: patch::Measure::default(),
            activity_measures: HashMap::new(),
            interrupts: Vec::new(),
            knows_state: false,
        }
    }
}

impl Reducer {
    /// A reducer that holds nothing: no message, and the empty object as state.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A reducer that starts from an input's messages and state.
    #[must_use]
    pub fn from_input(input: &RunAgentInput) -> Self {
        Self {
            conversation: input.messages.iter().cloned().collect(),
            state: input.starting_state(),
            knows_state: true,
            ..Self::default()
        }
    }

    /// Applies one event. `index` is its place in the stream, repeated in the warning that says what did not apply.
    ///
    /// The event is given up, because most of what is held was in one: a snapshot becomes the state without a copy. An
    /// application that also shows the event does so before.
    pub fn apply(&mut self, event: Event, index: usize) -> Option<Warning> {
        // What a stream consists of nearly alone is looked at where it is; an event is some hundred bytes to move.
        let plain = match &event {
            Event::TextMessageContent(content) if content.metadata.is_none() => {
                Some(self.text_delta(ItemKind::Text, &content.message_id, &content.delta, None))
            }
            Event::ToolCallArgs(args) if args.metadata.is_none() => {
                Some(self.tool_call_delta(&args.tool_call_id, &args.delta, None))
            }
            _ => None,
        };
        let result = plain.unwrap_or_else(|| self.apply_any(event));
        let (rule, message) = result.err()?;
        Some(Warning::new(rule, index, message, None))
    }

    /// Applies what continues an item, or with no `delta` closes it: as [`Reducer::apply`] does with the event that says no
    /// more than this.
    pub(crate) fn extend(&mut self, kind: ItemKind, id: &str, delta: Option<&str>, index: usize) -> Option<Warning> {
        let result = match (kind, delta) {
            (ItemKind::ToolCall, delta) => self.tool_call_delta(id, delta.unwrap_or_default(), None),
            (ItemKind::Text | ItemKind::Reasoning, Some(delta)) => self.text_delta(kind, id, delta, None),
            (ItemKind::Text | ItemKind::Reasoning, None) => self.text_metadata(kind, id, None),
        };
        let (rule, message) = result.err()?;
        Some(Warning::new(rule, index, message, None))
    }

    /// Changes the state, as [`Reducer::apply`] does with the event that says no more than this.
    pub(crate) fn patch_state(&mut self, operations: Vec<patch::Operation<'_>>, index: usize) -> Option<Warning> {
        self.knows_state = true;
        let applied = patch::apply_directly(&mut self.state, &mut self.measure, operations);
        let (rule, message) = applied.map_err(state_kept).err()?;
        Some(Warning::new(rule, index, message, None))
    }

    fn apply_any(&mut self, event: Event) -> Result<(), (WarningRule, String)> {
        match event {
            Event::TextMessageContent(content) => {
                self.text_delta(ItemKind::Text, &content.message_id, &content.delta, content.metadata)
            }
            Event::ToolCallArgs(args) => self.tool_call_delta(&args.tool_call_id, &args.delta, args.metadata),
            Event::ReasoningMessageContent(content) => {
                self.text_delta(ItemKind::Reasoning, &content.message_id, &content.delta, content.metadata)
            }
            Event::TextMessageStart(start) => self.text_start(start),
            Event::TextMessageEnd(end) => self.text_metadata(ItemKind::Text, &end.message_id, end.metadata),
            Event::ReasoningMessageStart(start) => self.reasoning_start(start),
            Event::ReasoningMessageEnd(end) => self.text_metadata(ItemKind::Reasoning, &end.message_id, end.metadata),
            Event::ToolCallStart(start) => self.tool_call_start(start),
            Event::ToolCallEnd(end) => self.tool_call_delta(&end.tool_call_id, "", end.metadata),
            Event::ToolCallResult(result) => {
                self.tool_call_result(result);
                Ok(())
            }
            Event::StateSnapshot(snapshot) => {
                self.set_state(snapshot.snapshot);
                Ok(())
            }
            Event::StateDelta(delta) => {
                self.knows_state = true;
                patch::apply(&mut self.state, &mut self.measure, delta.delta).map_err(state_kept)
            }
            Event::MessagesSnapshot(snapshot) => {
                self.reconcile(snapshot.messages);
                Ok(())
            }
            Event::ActivitySnapshot(snapshot) => self.activity_snapshot(snapshot),
            Event::ActivityDelta(delta) => self.activity_delta(delta),
            Event::ReasoningEncryptedValue(value) => self.encrypted_value(value),
            Event::RunStarted(started) => {
                self.interrupts.clear();
                let Some(input) = started.input else { return Ok(()) };
                // Who did not ask learns here what the state was (basic/run-input); who has seen it change knows better.
                if !self.knows_state {
                    self.set_state(input.starting_state());
                }
                for message in input.messages {
                    if self.conversation.find_of(Genus::of(&message), message.id()).is_none() {
                        self.conversation.append(message);
                    }
                }
                Ok(())
            }
            // Also behind RUN_FINISHED: the run has failed then, and waits for nothing (events/lifecycle).
            Event::RunError(_) => {
                self.interrupts.clear();
                Ok(())
            }
            Event::RunFinished(finished) => {
                if let Some(RunFinishedOutcome::Interrupt { interrupts }) = finished.outcome {
                    self.interrupts = interrupts;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set_state(&mut self, state: Value) {
        self.state = state;
        self.measure = patch::Measure::default();
        self.knows_state = true;
    }

    /// The messages, in order.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.conversation.iter()
    }

    /// The message of that id.
    #[must_use]
    pub fn message(&self, id: &str) -> Option<&Message> {
        self.conversation.find(id).map(|place| self.conversation.message(place))
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> &Value {
        &self.state
    }

    /// The interrupts that the last run asked for, until the next run starts or the run is said to have failed
    /// (patterns/interrupt-resume).
    #[must_use]
    pub fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    /// Gives up the messages and the state.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Message>, Value) {
        (self.conversation.into_messages(), self.state)
    }

    fn text_start(&mut self, start: TextMessageStart) -> Result<(), (WarningRule, String)> {
        if self.conversation.find_of(Genus::Other, &start.message_id).is_some() {
            // A reopened message continues; its established values stand (events/text-messages).
            return self.text_metadata(ItemKind::Text, &start.message_id, start.metadata);
        }
        let result = self.id_is_free(&start.message_id);
        let TextMessageStart { message_id: id, role, name, metadata, subagent_run_id, .. } = start;
        self.conversation.append(match role.unwrap_or_default() {
            TextMessageRole::Developer => Message::Developer(DeveloperMessage {
                id,
                name,
                metadata,
                subagent_run_id,
                ..DeveloperMessage::default()
            }),
            TextMessageRole::System => {
                Message::System(SystemMessage { id, name, metadata, subagent_run_id, ..SystemMessage::default() })
            }
            TextMessageRole::Assistant => Message::Assistant(AssistantMessage {
                id,
                content: Some(String::new()),
                name,
                metadata,
                subagent_run_id,
                ..AssistantMessage::default()
            }),
            TextMessageRole::User => {
                Message::User(UserMessage { id, name, metadata, subagent_run_id, ..UserMessage::default() })
            }
        });
        result
    }

    fn reasoning_start(&mut self, start: ReasoningMessageStart) -> Result<(), (WarningRule, String)> {
        let id = &start.message_id;
        let is_activity = || matches!(self.message(id), Some(Message::Activity(_)));
        if self.conversation.find_of(Genus::Reasoning, id).is_some() || is_activity() {
            return self.text_metadata(ItemKind::Reasoning, id, start.metadata);
        }
        let result = self.id_is_free(id);
        self.conversation.append(Message::Reasoning(ReasoningMessage {
            id: start.message_id,
            metadata: start.metadata,
            subagent_run_id: start.subagent_run_id,
            ..ReasoningMessage::default()
        }));
        result
    }

    /// basic/index, "Identifiers": a `messageId` is unique within its thread.
    fn id_is_free(&self, id: &str) -> Result<(), (WarningRule, String)> {
        let Some(held) = self.message(id) else { return Ok(()) };
        let role = held.role();
        let message =
            format!("The id '{id}' is that of a {role} message; another message of the same id was made for this.");
        Err((WarningRule::TextTarget, message))
    }

    /// The message that holds streamed text of a kind, and the place of its text. Reasoning is what an agent chose not to say
    /// in its answer, so the two never run into each other, whatever they are called.
    fn text_target(&mut self, kind: ItemKind, id: &str) -> Result<Place, (WarningRule, String)> {
        let missing = |what: String| (WarningRule::TextTarget, what);
        let genus = if kind == ItemKind::Reasoning { Genus::Reasoning } else { Genus::Other };
        let Some(place) = self.conversation.find_again(genus, id) else {
            return Err(missing(match self.message(id).map(Message::role) {
                Some("activity") => {
                    format!("Message '{id}' is an activity and cannot hold streamed text; it was skipped.")
                }
                Some(role) => format!("Message '{id}' is a {role} message and cannot hold other text; it was skipped."),
                None => format!("No message '{id}' is held."),
            }));
        };
        match self.conversation.message_mut(place) {
            Message::Activity(_) => {
                Err(missing(format!("Message '{id}' is an activity and cannot hold streamed text; it was skipped.")))
            }
            Message::User(UserMessage { content: Content::Parts(_), .. }) => {
                Err(missing(format!("Message '{id}' consists of parts and cannot hold streamed text; it was skipped.")))
            }
            _ => Ok(place),
        }
    }

    fn text_delta(
        &mut self,
        kind: ItemKind,
        id: &str,
        delta: &str,
        metadata: Option<Map<String, Value>>,
    ) -> Result<(), (WarningRule, String)> {
        let place = self.text_target(kind, id)?;
        let message = self.conversation.message_mut(place);
        match message {
            Message::Developer(message) => message.content.push_str(delta),
            Message::System(message) => message.content.push_str(delta),
            Message::Assistant(message) => message.content.get_or_insert_default().push_str(delta),
            Message::Reasoning(message) => message.content.push_str(delta),
            Message::User(UserMessage { content: Content::Text(text), .. }) => text.push_str(delta),
            Message::User(_) | Message::Tool(_) | Message::Activity(_) => {}
        }
        merge(message.metadata_mut(), metadata);
        Ok(())
    }

    fn text_metadata(
        &mut self,
        kind: ItemKind,
        id: &str,
        metadata: Option<Map<String, Value>>,
    ) -> Result<(), (WarningRule, String)> {
        let place = self.text_target(kind, id)?;
        merge(self.conversation.message_mut(place).metadata_mut(), metadata);
        Ok(())
    }

    fn tool_call_start(&mut self, start: ToolCallStart) -> Result<(), (WarningRule, String)> {
        if let Some(call) = self.conversation.tool_call_mut(&start.tool_call_id) {
            // A reopened call continues, and its arguments append (events/tool-calls).
            merge(&mut call.metadata, start.metadata);
            return Ok(());
        }
        let ToolCallStart { tool_call_id, tool_call_name, parent_message_id, metadata, subagent_run_id, .. } = start;
        let mut result = Ok(());
        let mut id = parent_message_id.as_deref().unwrap_or(&tool_call_id);
        let mut parent = None;
        if let Some(place) = self.conversation.find(id) {
            match self.conversation.message(place) {
                Message::Assistant(_) => parent = Some(place),
                other => {
                    let message = format!(
                        "Tool call '{tool_call_id}' names the {} message '{id}' as its parent; it was put on a message \
                         of its own.",
                        other.role()
                    );
                    result = Err((WarningRule::ToolCallParent, message));
                    id = &tool_call_id;
                }
            }
        }
        let place = parent.unwrap_or_else(|| {
            let message = AssistantMessage { subagent_run_id, ..AssistantMessage::new(id) };
            self.conversation.append(Message::Assistant(message))
        });
        let call = ToolCall { metadata, ..ToolCall::new(tool_call_id, FunctionCall::new(tool_call_name, "")) };
        self.conversation.add_tool_call(place, call);
        result
    }

    fn tool_call_delta(
        &mut self,
        id: &str,
        delta: &str,
        metadata: Option<Map<String, Value>>,
    ) -> Result<(), (WarningRule, String)> {
        // A snapshot may have taken the message of an open call away; the call is open all the same.
        let Some(call) = self.conversation.tool_call_mut(id) else {
            return Err((
                WarningRule::TextTarget,
                format!("No tool call '{id}' is held; what extends it was skipped."),
            ));
        };
        call.function.arguments.push_str(delta);
        merge(&mut call.metadata, metadata);
        Ok(())
    }

    fn tool_call_result(&mut self, result: ToolCallResult) {
        let ToolCallResult { message_id: id, tool_call_id, content, metadata, subagent_run_id, .. } = result;
        if let Some(place) = self.conversation.find_of(Genus::Result, &id)
            && let Message::Tool(held) = self.conversation.message_mut(place)
        {
            // The same result again, as in a replay, is the same message and not a second one. What was said of it beside
            // its content stays (basic/metadata; events/reasoning).
            (held.content, held.tool_call_id, held.subagent_run_id) = (content, tool_call_id, subagent_run_id);
            merge(&mut held.metadata, metadata);
            return;
        }
        let message = ToolMessage { metadata, subagent_run_id, ..ToolMessage::new(id, content, tool_call_id) };
        self.conversation.append_answer(message);
    }

    /// Reconciles with the complete set of the producer's messages (events/state, `MESSAGES_SNAPSHOT`): known messages
    /// keep their place, new ones come after, and the others go, except for activities and reasoning that the producer
    /// does not track.
    fn reconcile(&mut self, snapshot: Vec<Message>) {
        let is_activity = |message: &Message| matches!(message, Message::Activity(_));
        if !self.activity_measures.is_empty() && snapshot.iter().any(is_activity) {
            self.activity_measures.clear();
        }
        // The usual snapshot restates all that is held in the order in which it is held, and is the outcome as it is.
        let Err(snapshot) = self.conversation.restate(snapshot) else { return };
        let tracks_activities = snapshot.iter().any(is_activity);
        let tracks_reasoning = snapshot.iter().any(|message| matches!(message, Message::Reasoning(_)));
        let held = std::mem::take(&mut self.conversation).into_messages();
        // Of two messages with one id the later one counts, at the place of the earlier one.
        let mut restated = Conversation::with_capacity(snapshot.len());
        for message in snapshot {
            match restated.find_of(Genus::of(&message), message.id()) {
                Some(place) => restated.replace(place, message),
                None => {
                    restated.append(message);
                }
            }
        }
        // So is one that restates some of it twice.
        let same = |(place, message): (Place, &Message)| is_same(restated.message(place), message);
        if held.len() <= restated.len() && held.iter().enumerate().all(same) {
            self.conversation = restated;
            return;
        }
        let mut messages = Vec::with_capacity(held.len().max(restated.len()));
        let find = |message: &Message| restated.find_of(Genus::of(message), message.id());
        let places: Vec<Option<Place>> = held.iter().map(find).collect();
        let mut restated = restated.into_slots();
        for (message, place) in held.into_iter().zip(places) {
            if let Some(restatement) = place.and_then(|place| restated[place].take()) {
                messages.push(restatement);
            } else if match message {
                Message::Activity(_) => !tracks_activities,
                Message::Reasoning(_) => !tracks_reasoning,
                _ => false,
            } {
                messages.push(message);
            }
        }
        messages.extend(restated.into_iter().flatten());
        self.conversation = messages.into_iter().collect();
    }

    fn activity_snapshot(&mut self, snapshot: ActivitySnapshot) -> Result<(), (WarningRule, String)> {
        let ActivitySnapshot { message_id: id, activity_type, content, replace, metadata, subagent_run_id, .. } =
            snapshot;
        if replace != Some(false) {
            self.activity_measures.remove(&id);
        }
        let Some(place) = self.conversation.find(&id) else {
            let activity = ActivityMessage { id, activity_type, content, metadata, subagent_run_id };
            self.conversation.append(Message::Activity(activity));
            return Ok(());
        };
        match self.conversation.message_mut(place) {
            Message::Activity(held) => {
                if replace != Some(false) {
                    held.activity_type = activity_type;
                    held.content = content;
                    held.subagent_run_id = subagent_run_id;
                }
                merge(&mut held.metadata, metadata);
                Ok(())
            }
            other => {
                let message = format!(
                    "ACTIVITY_SNAPSHOT names the {} message '{id}', which is no activity; it was skipped.",
                    other.role()
                );
                Err((WarningRule::ActivityTarget, message))
            }
        }
    }

    fn activity_delta(&mut self, delta: ActivityDelta) -> Result<(), (WarningRule, String)> {
        let id = &delta.message_id;
        let place = self.conversation.find_again(Genus::Other, id);
        let Some(Message::Activity(activity)) = place.map(|place| self.conversation.message_mut(place)) else {
            let message = format!("ACTIVITY_DELTA names '{id}', which is no activity that is held; it was skipped.");
            return Err((WarningRule::ActivityTarget, message));
        };
        merge(&mut activity.metadata, delta.metadata);
        let mut measure = self.activity_measures.remove(id).unwrap_or_default();
        let applied = patch::apply_to_object(&mut activity.content, &mut measure, delta.patch);
        if measure.is_taken() {
            self.activity_measures.insert(id.clone(), measure);
        }
        let Err(reason) = applied else {
            activity.activity_type = delta.activity_type;
            return Ok(());
        };
        let message = format!("Failed to apply the patch of activity '{id}', and kept its content: {reason}");
        Err((WarningRule::PatchNotApplied, message))
    }

    /// The message that an encrypted value belongs to: reasoning, where several have its id.
    fn encrypted_message(&self, id: &str) -> Option<Place> {
        self.conversation.find_of(Genus::Reasoning, id).or_else(|| self.conversation.find(id))
    }

    fn encrypted_value(&mut self, value: ReasoningEncryptedValue) -> Result<(), (WarningRule, String)> {
        let slot = match value.subtype {
            ReasoningEncryptedValueSubtype::ToolCall => {
                self.conversation.tool_call_mut(&value.entity_id).map(|call| &mut call.encrypted_value)
            }
            ReasoningEncryptedValueSubtype::Message => match self.encrypted_message(&value.entity_id) {
                Some(place) => self.conversation.message_mut(place).encrypted_value_mut(),
                None => None,
            },
        };
        match slot {
            Some(slot) => {
                *slot = Some(value.encrypted_value);
                Ok(())
            }
            None => {
                let message = format!(
                    "REASONING_ENCRYPTED_VALUE names '{}', and nothing that can hold the value is called so; it was \
                     dropped.",
                    value.entity_id
                );
                Err((WarningRule::EncryptedValueTarget, message))
            }
        }
    }
}

fn state_kept(reason: String) -> (WarningRule, String) {
    (WarningRule::PatchNotApplied, format!("Failed to apply state patch, and kept the state: {reason}"))
}

/// Merges metadata key by key, the last write winning, never into a value (basic/metadata, "Merging").
fn merge(into: &mut Option<Map<String, Value>>, from: Option<Map<String, Value>>) {
    match (into, from) {
        (_, None) => {}
        (Some(into), Some(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}
