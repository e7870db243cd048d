//! What a client holds: the messages of the conversation and the state.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::conversation::{Conversation, Place};
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
use crate::patch;
use crate::warning::{Warning, WarningRule};

/// Builds the conversation and the state from verified events, chunks expanded.
///
/// Applying an event costs what the event itself is large, and for a snapshot what the conversation is.
#[derive(Clone, Debug)]
pub struct Reducer {
    conversation: Conversation,
    state: Value,
    interrupts: Vec<Interrupt>,
}

impl Default for Reducer {
    fn default() -> Self {
        Self { conversation: Conversation::default(), state: Value::Object(Map::new()), interrupts: Vec::new() }
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
            interrupts: Vec::new(),
        }
    }

    /// Applies one event. `index` is its place in the stream, repeated in the warning that says what did not apply.
    pub fn apply(&mut self, event: &Event, index: usize) -> Option<Warning> {
        let result = match event {
            Event::TextMessageStart(start) => self.text_start(start),
            Event::TextMessageContent(content) => {
                self.text_delta(&content.message_id, &content.delta, content.metadata.as_ref())
            }
            Event::TextMessageEnd(end) => self.text_metadata(&end.message_id, end.metadata.as_ref()),
            Event::ReasoningMessageStart(start) => self.reasoning_start(start),
            Event::ReasoningMessageContent(content) => {
                self.text_delta(&content.message_id, &content.delta, content.metadata.as_ref())
            }
            Event::ReasoningMessageEnd(end) => self.text_metadata(&end.message_id, end.metadata.as_ref()),
            Event::ToolCallStart(start) => self.tool_call_start(start),
            Event::ToolCallArgs(args) => self.tool_call_delta(&args.tool_call_id, &args.delta, args.metadata.as_ref()),
            Event::ToolCallEnd(end) => self.tool_call_delta(&end.tool_call_id, "", end.metadata.as_ref()),
            Event::ToolCallResult(result) => {
                self.tool_call_result(result);
                Ok(())
            }
            Event::StateSnapshot(snapshot) => {
                self.state = snapshot.snapshot.clone();
                Ok(())
            }
            Event::StateDelta(delta) => patch::apply(&mut self.state, &delta.delta).map_err(|reason| {
                (WarningRule::PatchNotApplied, format!("Failed to apply state patch, and kept the state: {reason}"))
            }),
            Event::MessagesSnapshot(snapshot) => {
                self.reconcile(&snapshot.messages);
                Ok(())
            }
            Event::ActivitySnapshot(snapshot) => self.activity_snapshot(snapshot),
            Event::ActivityDelta(delta) => self.activity_delta(delta),
            Event::ReasoningEncryptedValue(value) => self.encrypted_value(value),
            Event::RunStarted(started) => {
                self.interrupts.clear();
                for message in started.input.iter().flat_map(|input| &input.messages) {
                    if self.conversation.find(message.id()).is_none() {
                        self.conversation.append(message.clone());
                    }
                }
                Ok(())
            }
            Event::RunFinished(finished) => {
                if let Some(RunFinishedOutcome::Interrupt { interrupts }) = &finished.outcome {
                    self.interrupts.clone_from(interrupts);
                }
                Ok(())
            }
            _ => Ok(()),
        };
        let (rule, message) = result.err()?;
        Some(Warning { rule, message, event: index, path: None })
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

    /// The interrupts that the last run asked for, until the next run starts (patterns/interrupt-resume).
    #[must_use]
    pub fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    /// Gives up the messages and the state.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Message>, Value) {
        (self.conversation.into_messages(), self.state)
    }

    fn text_start(&mut self, start: &TextMessageStart) -> Result<(), (WarningRule, String)> {
        if self.conversation.find(&start.message_id).is_some() {
            // A reopened message continues; its established values stand (events/text-messages).
            return self.text_metadata(&start.message_id, start.metadata.as_ref());
        }
        let id = start.message_id.clone();
        let (name, metadata, subagent_run_id) =
            (start.name.clone(), start.metadata.clone(), start.subagent_run_id.clone());
        self.conversation.append(match start.role.unwrap_or_default() {
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
        Ok(())
    }

    fn reasoning_start(&mut self, start: &ReasoningMessageStart) -> Result<(), (WarningRule, String)> {
        if self.conversation.find(&start.message_id).is_some() {
            return self.text_metadata(&start.message_id, start.metadata.as_ref());
        }
        self.conversation.append(Message::Reasoning(ReasoningMessage {
            id: start.message_id.clone(),
            metadata: start.metadata.clone(),
            subagent_run_id: start.subagent_run_id.clone(),
            ..ReasoningMessage::default()
        }));
        Ok(())
    }

    /// The message that holds streamed text, and the place of its text.
    fn text_target(&mut self, id: &str) -> Result<Place, (WarningRule, String)> {
        let missing = |what: String| (WarningRule::TextTarget, what);
        let place = self.conversation.find(id).ok_or_else(|| missing(format!("No message '{id}' is held.")))?;
        match self.conversation.message_mut(place) {
            Message::Activity(_) => {
                Err(missing(format!("Message '{id}' is an activity and cannot hold streamed text; it was skipped.")))
            }
            Message::User(UserMessage { content: Content::Parts(_), .. })
            | Message::Tool(ToolMessage { content: Content::Parts(_), .. }) => {
                Err(missing(format!("Message '{id}' consists of parts and cannot hold streamed text; it was skipped.")))
            }
            _ => Ok(place),
        }
    }

    fn text_delta(
        &mut self,
        id: &str,
        delta: &str,
        metadata: Option<&Map<String, Value>>,
    ) -> Result<(), (WarningRule, String)> {
        let place = self.text_target(id)?;
        let message = self.conversation.message_mut(place);
        match message {
            Message::Developer(message) => message.content.push_str(delta),
            Message::System(message) => message.content.push_str(delta),
            Message::Assistant(message) => message.content.get_or_insert_default().push_str(delta),
            Message::Reasoning(message) => message.content.push_str(delta),
            Message::User(UserMessage { content: Content::Text(text), .. })
            | Message::Tool(ToolMessage { content: Content::Text(text), .. }) => text.push_str(delta),
            Message::User(_) | Message::Tool(_) | Message::Activity(_) => {}
        }
        merge(message.metadata_mut(), metadata);
        Ok(())
    }

    fn text_metadata(&mut self, id: &str, metadata: Option<&Map<String, Value>>) -> Result<(), (WarningRule, String)> {
        let place = self.text_target(id)?;
        merge(self.conversation.message_mut(place).metadata_mut(), metadata);
        Ok(())
    }

    fn tool_call_start(&mut self, start: &ToolCallStart) -> Result<(), (WarningRule, String)> {
        if let Some(call) = self.conversation.tool_call_mut(&start.tool_call_id) {
            // A reopened call continues, and its arguments append (events/tool-calls).
            merge(&mut call.metadata, start.metadata.as_ref());
            return Ok(());
        }
        let mut result = Ok(());
        let mut id = start.parent_message_id.as_deref().unwrap_or(&start.tool_call_id);
        if let Some(place) = self.conversation.find(id) {
            match self.conversation.message(place) {
                Message::Assistant(_) => {
                    self.conversation.add_tool_call(place, new_call(start));
                    return Ok(());
                }
                other => {
                    let message = format!(
                        "Tool call '{}' names the {} message '{id}' as its parent; it was put on a message of its own.",
                        start.tool_call_id,
                        other.role()
                    );
                    result = Err((WarningRule::ToolCallParent, message));
                    id = &start.tool_call_id;
                }
            }
        }
        let mut message = AssistantMessage::new(id);
        message.subagent_run_id.clone_from(&start.subagent_run_id);
        let place = self.conversation.append(Message::Assistant(message));
        self.conversation.add_tool_call(place, new_call(start));
        result
    }

    fn tool_call_delta(
        &mut self,
        id: &str,
        delta: &str,
        metadata: Option<&Map<String, Value>>,
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

    fn tool_call_result(&mut self, result: &ToolCallResult) {
        let mut message =
            ToolMessage::new(result.message_id.as_str(), result.content.clone(), result.tool_call_id.as_str());
        message.metadata.clone_from(&result.metadata);
        message.subagent_run_id.clone_from(&result.subagent_run_id);
        let message = Message::Tool(message);
        match self.conversation.find(&result.message_id) {
            // The same result again, as in a replay, is the same message and not a second one.
            Some(place) if matches!(self.conversation.message(place), Message::Tool(_)) => {
                self.conversation.replace(place, message);
            }
            _ => {
                self.conversation.append_answer(&result.tool_call_id, message);
            }
        }
    }

    /// Reconciles with the complete set of the producer's messages (events/state, `MESSAGES_SNAPSHOT`): known messages
    /// keep their place, new ones come after, and the others go, except for activities and reasoning that the producer
    /// does not track.
    fn reconcile(&mut self, snapshot: &[Message]) {
        let tracks_activities = snapshot.iter().any(|message| matches!(message, Message::Activity(_)));
        let tracks_reasoning = snapshot.iter().any(|message| matches!(message, Message::Reasoning(_)));
        // Of two messages with one id the later one counts.
        let restated: std::collections::HashMap<&str, &Message> =
            snapshot.iter().map(|message| (message.id(), message)).collect();
        let held = std::mem::take(&mut self.conversation).into_messages();
        let mut messages = Vec::with_capacity(held.len().max(snapshot.len()));
        let mut placed = HashSet::new();
        for message in held {
            if let Some(&restatement) = restated.get(message.id()) {
                placed.insert(restatement.id());
                messages.push(restatement.clone());
            } else if match message {
                Message::Activity(_) => !tracks_activities,
                Message::Reasoning(_) => !tracks_reasoning,
                _ => false,
            } {
                messages.push(message);
            }
        }
        for message in snapshot {
            if placed.insert(message.id()) {
                messages.push(restated[message.id()].clone());
            }
        }
        self.conversation = messages.into_iter().collect();
    }

    fn activity_snapshot(&mut self, snapshot: &ActivitySnapshot) -> Result<(), (WarningRule, String)> {
        let replace = snapshot.replace != Some(false);
        let made = || {
            let mut activity = ActivityMessage::new(
                snapshot.message_id.as_str(),
                snapshot.activity_type.as_str(),
                snapshot.content.clone(),
            );
            activity.metadata.clone_from(&snapshot.metadata);
            activity.subagent_run_id.clone_from(&snapshot.subagent_run_id);
            activity
        };
        let Some(place) = self.conversation.find(&snapshot.message_id) else {
            self.conversation.append(Message::Activity(made()));
            return Ok(());
        };
        match self.conversation.message_mut(place) {
            Message::Activity(held) => {
                if replace {
                    held.activity_type.clone_from(&snapshot.activity_type);
                    held.content.clone_from(&snapshot.content);
                    held.subagent_run_id.clone_from(&snapshot.subagent_run_id);
                }
                merge(&mut held.metadata, snapshot.metadata.as_ref());
                Ok(())
            }
            other => {
                let message = format!(
                    "ACTIVITY_SNAPSHOT names the {} message '{}', which is no activity; it was skipped.",
                    other.role(),
                    snapshot.message_id
                );
                Err((WarningRule::ActivityTarget, message))
            }
        }
    }

    fn activity_delta(&mut self, delta: &ActivityDelta) -> Result<(), (WarningRule, String)> {
        let id = &delta.message_id;
        let place = self.conversation.find(id);
        let Some(Message::Activity(activity)) = place.map(|place| self.conversation.message_mut(place)) else {
            let message = format!("ACTIVITY_DELTA names '{id}', which is no activity that is held; it was skipped.");
            return Err((WarningRule::ActivityTarget, message));
        };
        merge(&mut activity.metadata, delta.metadata.as_ref());
        // Content is an object by schema. Only an operation on the root can make it something else.
        let before = patch::touches_root(&delta.patch).then(|| activity.content.clone());
        let mut content = Value::Object(std::mem::take(&mut activity.content));
        let applied = patch::apply(&mut content, &delta.patch);
        let reason = match (applied, content) {
            (applied, Value::Object(content)) => {
                activity.content = content;
                match applied {
                    Ok(()) => {
                        activity.activity_type.clone_from(&delta.activity_type);
                        return Ok(());
                    }
                    Err(reason) => reason,
                }
            }
            (_, _) => {
                activity.content = before.unwrap_or_default();
                "the result is not an object".to_owned()
            }
        };
        let message = format!("Failed to apply the patch of activity '{id}', and kept its content: {reason}");
        Err((WarningRule::PatchNotApplied, message))
    }

    fn encrypted_value(&mut self, value: &ReasoningEncryptedValue) -> Result<(), (WarningRule, String)> {
        let slot = match value.subtype {
            ReasoningEncryptedValueSubtype::ToolCall => {
                self.conversation.tool_call_mut(&value.entity_id).map(|call| &mut call.encrypted_value)
            }
            ReasoningEncryptedValueSubtype::Message => match self.conversation.find(&value.entity_id) {
                Some(place) => self.conversation.message_mut(place).encrypted_value_mut(),
                None => None,
            },
        };
        match slot {
            Some(slot) => {
                *slot = Some(value.encrypted_value.clone());
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

fn new_call(start: &ToolCallStart) -> ToolCall {
    let mut call = ToolCall::new(start.tool_call_id.as_str(), FunctionCall::new(start.tool_call_name.as_str(), ""));
    call.metadata.clone_from(&start.metadata);
    call
}

/// Merges metadata key by key, the last write winning, never into a value (basic/metadata, "Merging").
fn merge(into: &mut Option<Map<String, Value>>, from: Option<&Map<String, Value>>) {
    if let Some(from) = from {
        into.get_or_insert_default().extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}
