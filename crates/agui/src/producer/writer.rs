//! What a run's content is written through.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::ProduceError;
use super::item::{Handle, ReasoningMessage, Span, Step, Subagent, TextMessage, ToolCall};
use super::open::OpenKind;
use super::run::Shared;
use crate::event::{Event, EventType};
use crate::events::{
    ActivityDelta, ActivitySnapshot, Custom, MessagesSnapshot, Raw, ReasoningEncryptedValue, ReasoningMessageStart,
    ReasoningStart, StateDelta, StateSnapshot, StepStarted, SubagentStarted, TextMessageStart, ToolCallResult,
    ToolCallStart,
};
use crate::message::Message;
use crate::usage::TokenUsage;
use crate::violation::{Rule, Violation};

/// What any event may carry beside what it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// When it was made, by convention in milliseconds since the Unix epoch. From -(2^53 - 1) to 2^53 - 1.
    pub timestamp: Option<i64>,
    /// The provider's own event that it was translated from. Any JSON value but `null`.
    pub raw_event: Option<Value>,
    /// Extra information, open by key.
    pub metadata: Option<Map<String, Value>>,
}

/// Writes the content of a run, or of one subagent in it. Cheap to clone, and shared safely by several tasks: each call
/// is one moment of the stream, and none waits for anything but the others' moments.
///
/// What is opened here is closed through the handle that opening returns. An item's content can be written through that
/// handle only. Ids come from the caller; one that is open already is refused.
#[derive(Clone)]
pub struct Writer {
    shared: Arc<Shared>,
    run: u64,
    /// The subagent that is written for.
    scope: Option<Arc<str>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Writer").field("subagent", &self.scope).finish_non_exhaustive()
    }
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, run: u64) -> Self {
        Self { shared, run, scope: None }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn into_shared(self) -> Arc<Shared> {
        self.shared
    }

    /// The subagent that is written for; `None` is the parent agent.
    #[must_use]
    pub fn subagent_run_id(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// Counts the tokens of one model call of this run, its subagents' included, in the protocol's accounting. The run's
    /// ending reports the sums. See [`CallUsage`](crate::CallUsage) for what a provider reports.
    ///
    /// # Errors
    /// When the run has ended, or the entry does not add up.
    pub fn count(&self, usage: &TokenUsage) -> Result<(), ProduceError> {
        Ok(self.shared.lock_run(self.run)?.usage.add(usage)?)
    }

    /// Opens a text message of the assistant.
    ///
    /// # Errors
    /// When the run has ended, or the message is open already.
    pub fn text(&self, message_id: impl Into<String>) -> Result<TextMessage, ProduceError> {
        self.open_text(TextMessageStart::new(message_id))
    }

    /// Opens a text message with a role, a name, metadata.
    ///
    /// # Errors
    /// As [`Writer::text`]; and for what the schema refuses, or an owner that is not this writer's.
    pub fn open_text(&self, mut start: TextMessageStart) -> Result<TextMessage, ProduceError> {
        self.attribute(&mut start.subagent_run_id, EventType::TextMessageStart)?;
        let id = start.message_id.clone();
        Ok(TextMessage::new(self.open(start)?, id))
    }

    /// Opens a tool call.
    ///
    /// # Errors
    /// When the run has ended, or the call is open already.
    pub fn tool_call(&self, id: impl Into<String>, name: impl Into<String>) -> Result<ToolCall, ProduceError> {
        self.open_tool_call(ToolCallStart::new(id, name))
    }

    /// Opens a tool call with a parent message, metadata.
    ///
    /// # Errors
    /// As [`Writer::tool_call`]; and for what the schema refuses, or an owner that is not this writer's or the parent
    /// message's.
    pub fn open_tool_call(&self, mut start: ToolCallStart) -> Result<ToolCall, ProduceError> {
        self.attribute(&mut start.subagent_run_id, EventType::ToolCallStart)?;
        let id = start.tool_call_id.clone();
        Ok(ToolCall::new(self.open(start)?, id))
    }

    /// Answers a tool call that this run did not make, such as one that an interrupted run left open. A call of this run
    /// is answered through what [`ToolCall::end`] returns.
    ///
    /// # Errors
    /// When the run has ended; for what the schema refuses, or an owner that is not this writer's.
    pub fn tool_result(&self, mut result: ToolCallResult) -> Result<(), ProduceError> {
        self.attribute(&mut result.subagent_run_id, EventType::ToolCallResult)?;
        self.send(result)
    }

    /// Opens a span of reasoning.
    ///
    /// # Errors
    /// When the run has ended, or the span is open already.
    pub fn reasoning_span(&self, id: impl Into<String>) -> Result<Span, ProduceError> {
        let mut start = ReasoningStart::new(id);
        self.attribute(&mut start.subagent_run_id, EventType::ReasoningStart)?;
        let id = start.message_id.clone();
        Ok(Span::new(self.open(start)?, id))
    }

    /// Opens a reasoning message.
    ///
    /// # Errors
    /// When the run has ended, or the message is open already.
    pub fn reasoning(&self, message_id: impl Into<String>) -> Result<ReasoningMessage, ProduceError> {
        self.open_reasoning(ReasoningMessageStart::new(message_id))
    }

    /// Opens a reasoning message with metadata.
    ///
    /// # Errors
    /// As [`Writer::reasoning`]; and for what the schema refuses, or an owner that is not this writer's.
    pub fn open_reasoning(&self, mut start: ReasoningMessageStart) -> Result<ReasoningMessage, ProduceError> {
        self.attribute(&mut start.subagent_run_id, EventType::ReasoningMessageStart)?;
        let id = start.message_id.clone();
        Ok(ReasoningMessage::new(self.open(start)?, id))
    }

    /// A provider's opaque reasoning artefact.
    ///
    /// # Errors
    /// When the run has ended; for what the schema refuses, or an owner that is not this writer's or the entity's.
    pub fn encrypted_value(&self, mut value: ReasoningEncryptedValue) -> Result<(), ProduceError> {
        self.attribute(&mut value.subagent_run_id, EventType::ReasoningEncryptedValue)?;
        self.send(value)
    }

    /// Opens a step. Each owner may have one step of a name open.
    ///
    /// # Errors
    /// When the run has ended, or this owner's step of that name is open already.
    pub fn step(&self, name: impl Into<String>) -> Result<Step, ProduceError> {
        let mut start = StepStarted::new(name);
        self.attribute(&mut start.subagent_run_id, EventType::StepStarted)?;
        let name = start.step_name.clone();
        Ok(Step::new(self.open(start)?, name))
    }

    /// Announces a subagent, spawned by this writer's owner. What is written through the handle's own writer is
    /// attributed to it.
    ///
    /// # Errors
    /// When the run has ended, the id is in use or was used in this run, or the parent is unknown.
    pub fn subagent(&self, mut start: SubagentStarted) -> Result<Subagent, ProduceError> {
        self.attribute(&mut start.parent_subagent_run_id, EventType::SubagentStarted)?;
        let scope = Arc::from(start.subagent_run_id.as_str());
        let handle = self.open(start)?;
        Ok(Subagent::new(handle, Self { scope: Some(scope), ..self.clone() }))
    }

    /// Replaces the state. Any JSON value.
    ///
    /// # Errors
    /// When the run has ended, or the value nests too deeply.
    pub fn state_snapshot(&self, state: Value) -> Result<(), ProduceError> {
        let mut event = StateSnapshot::new(state);
        self.attribute(&mut event.subagent_run_id, EventType::StateSnapshot)?;
        self.send(event)
    }

    /// Changes the state by a JSON Patch (RFC 6902). Whether it applies to the state is the caller's to know.
    ///
    /// # Errors
    /// When the run has ended, or the operations are no such patch.
    pub fn state_delta(&self, operations: Vec<Value>) -> Result<(), ProduceError> {
        let mut event = StateDelta::new(operations);
        self.attribute(&mut event.subagent_run_id, EventType::StateDelta)?;
        self.send(event)
    }

    /// Makes or replaces an activity.
    ///
    /// # Errors
    /// When the run has ended; for what the schema refuses, or an owner that is not this writer's.
    pub fn activity_snapshot(&self, mut snapshot: ActivitySnapshot) -> Result<(), ProduceError> {
        self.attribute(&mut snapshot.subagent_run_id, EventType::ActivitySnapshot)?;
        self.send(snapshot)
    }

    /// Changes an activity's content by a JSON Patch.
    ///
    /// # Errors
    /// When the run has ended; for what the schema refuses, or an owner that is not this writer's or the activity's.
    pub fn activity_delta(&self, mut delta: ActivityDelta) -> Result<(), ProduceError> {
        self.attribute(&mut delta.subagent_run_id, EventType::ActivityDelta)?;
        self.send(delta)
    }

    /// Restates the messages. They are the run's as a whole, whoever sends them.
    ///
    /// # Errors
    /// When the run has ended, or for a message that the schema refuses.
    pub fn messages_snapshot(&self, messages: Vec<Message>) -> Result<(), ProduceError> {
        self.send(MessagesSnapshot::new(messages))
    }

    /// An event of the application's own.
    ///
    /// # Errors
    /// When the run has ended, or the value nests too deeply.
    pub fn custom(&self, name: impl Into<String>, value: Value) -> Result<(), ProduceError> {
        let mut event = Custom::new(name, value);
        self.attribute(&mut event.subagent_run_id, EventType::Custom)?;
        self.send(event)
    }

    /// A provider's event, passed through untranslated.
    ///
    /// # Errors
    /// When the run has ended; for what the schema refuses, or an owner that is not this writer's.
    pub fn raw(&self, mut raw: Raw) -> Result<(), ProduceError> {
        self.attribute(&mut raw.subagent_run_id, EventType::Raw)?;
        self.send(raw)
    }

    /// Sends an event.
    pub(super) fn send(&self, event: impl Into<Event>) -> Result<(), ProduceError> {
        self.send_numbered(event.into()).map(|_| ())
    }

    fn open(&self, event: impl Into<Event>) -> Result<Handle, ProduceError> {
        let number = self.send_numbered(event.into())?;
        Ok(Handle::new(self.clone(), number))
    }

    /// Sends an event, and gives the number of what was opened last.
    fn send_numbered(&self, event: Event) -> Result<u64, ProduceError> {
        let mut inner = self.shared.lock_run(self.run)?;
        inner.send(event)?;
        Ok(inner.guard.newest())
    }

    /// The handle of something open is gone.
    pub(super) fn abandon(&self, number: u64) {
        if let Ok(mut inner) = self.shared.lock_run(self.run) {
            inner.guard.abandon(number);
        }
    }

    /// Puts this writer's subagent, which must be at work, on a new event that has no owner. What continues or closes
    /// something has its owner already.
    fn attribute(&self, tag: &mut Option<String>, event_type: EventType) -> Result<(), ProduceError> {
        let Some(scope) = &self.scope else { return Ok(()) };
        if !self.shared.lock_run(self.run)?.guard.is_open(OpenKind::Subagent, scope) {
            return Err(ProduceError::SubagentEnded(scope.to_string()));
        }
        match tag {
            None => {
                *tag = Some(scope.to_string());
                Ok(())
            }
            Some(tag) if **tag == **scope => Ok(()),
            Some(tag) => {
                let message = format!(
                    "{event_type} is attributed to subagent '{tag}', and was written through the writer of '{scope}'."
                );
                Err(Violation::new(Rule::AttributionMismatch, 0, message).into())
            }
        }
    }
}
