//! What is open in a run, as values: content goes through them, and closing consumes them.

use std::marker::PhantomData;

use serde_json::Value;

use super::error::ProduceError;
use super::writer::{Extras, Writer};
use crate::event::Event;
use crate::events::{
    ReasoningEnd, ReasoningMessageContent, ReasoningMessageEnd, StepFinished, SubagentError, SubagentFinished,
    TextMessageContent, TextMessageEnd, ToolCallArgs, ToolCallEnd, ToolCallResult,
};
use crate::message::Content;
use crate::outcome::SubagentFinishedOutcome;

/// Who can close something. Dropped without that, it leaves the thing open, and known to be abandoned.
#[derive(Debug)]
pub(super) struct Handle {
    writer: Writer,
    number: u64,
    closed: bool,
}

impl Handle {
    pub(super) fn new(writer: Writer, number: u64) -> Self {
        Self { writer, number, closed: false }
    }

    fn owner(&self) -> Option<String> {
        self.writer.subagent_run_id().map(str::to_owned)
    }

    /// Sends the closing event. When that is refused, the thing stays open and has no handle any more.
    fn close(mut self, event: impl Into<Event>) -> Result<Writer, ProduceError> {
        self.writer.send(event)?;
        self.closed = true;
        Ok(self.writer.clone())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.closed {
            self.writer.abandon(self.number);
        }
    }
}

/// The kinds of item, as types.
pub mod kind {
    /// A text message.
    #[derive(Debug)]
    pub struct Text;
    /// A tool call, its arguments not complete.
    #[derive(Debug)]
    pub struct ToolCall;
    /// A reasoning message.
    #[derive(Debug)]
    pub struct Reasoning;
}

/// An item that is open: what its content is written through. Not `Clone`: closing consumes it. Several tasks can write
/// through one that they share by reference.
///
/// Dropped without being closed, it stays open: nothing is sent, because only its writer knows whether it was whole. The
/// run then cannot finish, and names it; [`Run::close_abandoned`](super::Run::close_abandoned) closes it, and so does
/// [`Run::cancel`](super::Run::cancel).
#[derive(Debug)]
#[must_use = "an item whose handle is dropped stays open, and keeps the run from finishing"]
pub struct Item<K> {
    handle: Handle,
    id: String,
    kind: PhantomData<fn() -> K>,
}

/// An open text message.
pub type TextMessage = Item<kind::Text>;
/// An open tool call.
pub type ToolCall = Item<kind::ToolCall>;
/// An open reasoning message.
pub type ReasoningMessage = Item<kind::Reasoning>;

impl<K> Item<K> {
    pub(super) fn new(handle: Handle, id: String) -> Self {
        Self { handle, id, kind: PhantomData }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// Writes what the content and the end of a kind are.
macro_rules! content {
    ($kind:ident, $write:ident, $content:ident, $what:literal) => {
        impl Item<kind::$kind> {
            #[doc = concat!("Writes the next piece of ", $what, "; it may be empty.")]
            ///
            /// # Errors
            /// When the run has ended.
            pub fn $write(&self, delta: impl Into<String>) -> Result<(), ProduceError> {
                self.write_with(delta, Extras::default())
            }

            #[doc = concat!("Writes the next piece of ", $what, ", with what any event may carry.")]
            ///
            /// # Errors
            /// When the run has ended, or for what the schema refuses.
            pub fn write_with(&self, delta: impl Into<String>, extras: Extras) -> Result<(), ProduceError> {
                let mut event = $content::new(self.id.as_str(), delta);
                event.timestamp = extras.timestamp;
                event.raw_event = extras.raw_event;
                event.metadata = extras.metadata;
                event.subagent_run_id = self.handle.owner();
                self.handle.writer.send(event)
            }
        }
    };
}

content!(Text, write, TextMessageContent, "the text");
content!(ToolCall, arguments, ToolCallArgs, "the arguments");
content!(Reasoning, write, ReasoningMessageContent, "the reasoning");

macro_rules! end_event {
    ($event:ident, $id:expr, $owner:expr, $extras:expr) => {{
        let Extras { timestamp, raw_event, metadata } = $extras;
        $event { timestamp, raw_event, metadata, subagent_run_id: $owner, ..$event::new($id) }
    }};
}

impl Item<kind::Text> {
    /// Closes the message.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn end(self) -> Result<(), ProduceError> {
        self.end_with(Extras::default())
    }

    /// Closes the message, with what any event may carry.
    ///
    /// # Errors
    /// When the run has ended, or for what the schema refuses; then the message stays open, without a handle.
    pub fn end_with(self, extras: Extras) -> Result<(), ProduceError> {
        let event = end_event!(TextMessageEnd, self.id, self.handle.owner(), extras);
        self.handle.close(event).map(|_| ())
    }
}

impl Item<kind::Reasoning> {
    /// Closes the message.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn end(self) -> Result<(), ProduceError> {
        self.end_with(Extras::default())
    }

    /// Closes the message, with what any event may carry.
    ///
    /// # Errors
    /// When the run has ended, or for what the schema refuses; then the message stays open, without a handle.
    pub fn end_with(self, extras: Extras) -> Result<(), ProduceError> {
        let event = end_event!(ReasoningMessageEnd, self.id, self.handle.owner(), extras);
        self.handle.close(event).map(|_| ())
    }
}

impl Item<kind::ToolCall> {
    /// Closes the call: its argument text is complete, not necessarily valid.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn end(self) -> Result<EndedCall, ProduceError> {
        self.end_with(Extras::default())
    }

    /// Closes the call, with what any event may carry.
    ///
    /// # Errors
    /// When the run has ended, or for what the schema refuses; then the call stays open, without a handle.
    pub fn end_with(self, extras: Extras) -> Result<EndedCall, ProduceError> {
        let Self { handle, id, .. } = self;
        let event = end_event!(ToolCallEnd, id.as_str(), handle.owner(), extras);
        let writer = handle.close(event)?;
        Ok(EndedCall { writer, id })
    }
}

/// A tool call whose arguments are complete. It is answered once, or dropped and so left to the application.
#[derive(Debug)]
pub struct EndedCall {
    writer: Writer,
    id: String,
}

impl EndedCall {
    /// The call's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Answers the call. `message_id` is that of the tool message that the answer becomes.
    ///
    /// # Errors
    /// When the run has ended, or for content that the schema refuses.
    pub fn result(self, message_id: impl Into<String>, content: impl Into<Content>) -> Result<(), ProduceError> {
        self.result_with(message_id, content, Extras::default())
    }

    /// Answers the call, with what any event may carry.
    ///
    /// # Errors
    /// As [`EndedCall::result`]; and for what the schema refuses.
    pub fn result_with(
        self,
        message_id: impl Into<String>,
        content: impl Into<Content>,
        extras: Extras,
    ) -> Result<(), ProduceError> {
        let Extras { timestamp, raw_event, metadata } = extras;
        let result =
            ToolCallResult { timestamp, raw_event, metadata, ..ToolCallResult::new(message_id, self.id, content) };
        self.writer.tool_result(result)
    }
}

/// An open span of reasoning. Dropped without being closed, it stays open, as an [`Item`] does.
#[derive(Debug)]
#[must_use = "a span whose handle is dropped stays open, and keeps the run from finishing"]
pub struct Span {
    handle: Handle,
    id: String,
}

impl Span {
    pub(super) fn new(handle: Handle, id: String) -> Self {
        Self { handle, id }
    }

    /// Closes the span.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn end(self) -> Result<(), ProduceError> {
        let event = end_event!(ReasoningEnd, self.id, self.handle.owner(), Extras::default());
        self.handle.close(event).map(|_| ())
    }
}

/// An open step. Dropped without being closed, it stays open, as an [`Item`] does.
#[derive(Debug)]
#[must_use = "a step whose handle is dropped stays open, and keeps the run from finishing"]
pub struct Step {
    handle: Handle,
    name: String,
}

impl Step {
    pub(super) fn new(handle: Handle, name: String) -> Self {
        Self { handle, name }
    }

    /// Closes the step.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn finish(self) -> Result<(), ProduceError> {
        let event = end_event!(StepFinished, self.name, self.handle.owner(), Extras::default());
        self.handle.close(event).map(|_| ())
    }
}

/// An announced subagent that is at work. Dropped without being ended, it stays active, as an [`Item`] stays open.
///
/// What it opened may be closed after it: the protocol asks for everything to be closed before the run finishes, and for
/// no more. But nothing new can be written through its writer then.
#[derive(Debug)]
#[must_use = "a subagent whose handle is dropped stays active, and keeps the run from finishing"]
pub struct Subagent {
    handle: Handle,
    writer: Writer,
}

impl Subagent {
    pub(super) fn new(handle: Handle, writer: Writer) -> Self {
        Self { handle, writer }
    }

    /// Writes for this subagent.
    #[must_use]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    fn id(&self) -> &str {
        self.writer.subagent_run_id().unwrap_or_default()
    }

    /// Ends its part of the run: it completed its work.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn finish(self) -> Result<(), ProduceError> {
        let event = SubagentFinished::new(self.id());
        self.handle.close(event).map(|_| ())
    }

    /// The same, with a return value.
    ///
    /// # Errors
    /// When the run has ended, or for `null`; then the subagent stays active, without a handle.
    pub fn finish_with(self, result: Value) -> Result<(), ProduceError> {
        let mut event = SubagentFinished::new(self.id());
        event.result = Some(result);
        self.handle.close(event).map(|_| ())
    }

    /// Ends its part of this run, to be continued in a later one under the same id. `interrupt_ids` are those interrupts
    /// of the run's ending that it raised itself; none, when it waits for another subagent.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn suspend(self, interrupt_ids: Vec<String>) -> Result<(), ProduceError> {
        let mut event = SubagentFinished::new(self.id());
        let interrupt_ids = (!interrupt_ids.is_empty()).then_some(interrupt_ids);
        event.outcome = Some(SubagentFinishedOutcome::Suspended { interrupt_ids });
        self.handle.close(event).map(|_| ())
    }

    /// Reports that it failed. The run may go on.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn fail(self, message: impl Into<String>, code: Option<&str>) -> Result<(), ProduceError> {
        let mut event = SubagentError::new(self.id(), message);
        event.code = code.map(str::to_owned);
        self.handle.close(event).map(|_| ())
    }
}
