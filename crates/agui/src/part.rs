//! What an event says about an item that is streamed, lent from where it was read.

use crate::event::Event;
use crate::events::{
    ReasoningMessageChunk, ReasoningMessageContent, ReasoningMessageEnd, TextMessageChunk, TextMessageContent,
    TextMessageEnd, TextMessageStart, ToolCallArgs, ToolCallChunk, ToolCallEnd,
};
use crate::message::TextMessageRole;

/// The three kinds of item that are streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ItemKind {
    Text,
    ToolCall,
    Reasoning,
}

/// What an event does to its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Start,
    Content,
    End,
    Chunk,
}

/// One event about an item, with what it says where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) kind: ItemKind,
    pub(crate) step: Step,
    /// Always there but for a chunk.
    pub(crate) id: Option<&'a str>,
    /// Always there for content, and there for nothing else but a chunk.
    pub(crate) delta: Option<&'a str>,
    pub(crate) subagent_run_id: Option<&'a str>,
    pub(crate) timestamp: Option<i64>,
    /// Only of a start.
    pub(crate) role: Option<TextMessageRole>,
}

impl Part<'_> {
    /// The event by itself.
    pub(crate) fn to_event(self) -> Event {
        let Part { kind, step, timestamp, role, .. } = self;
        let (raw_event, metadata) = (None, None);
        let id = || self.id.unwrap_or_default().to_owned();
        let delta = || self.delta.unwrap_or_default().to_owned();
        let subagent_run_id = self.subagent_run_id.map(str::to_owned);
        match (step, kind) {
            // No other start is read.
            (Step::Start, _) => {
                let name = None;
                TextMessageStart { message_id: id(), role, name, subagent_run_id, timestamp, raw_event, metadata }
                    .into()
            }
            (Step::Content, ItemKind::Text) => {
                let (message_id, delta) = (id(), delta());
                TextMessageContent { message_id, delta, subagent_run_id, timestamp, raw_event, metadata }.into()
            }
            (Step::Content, ItemKind::ToolCall) => {
                let (tool_call_id, delta) = (id(), delta());
                ToolCallArgs { tool_call_id, delta, subagent_run_id, timestamp, raw_event, metadata }.into()
            }
            (Step::Content, ItemKind::Reasoning) => {
                let (message_id, delta) = (id(), delta());
                ReasoningMessageContent { message_id, delta, subagent_run_id, timestamp, raw_event, metadata }.into()
            }
            (Step::End, ItemKind::Text) => {
                TextMessageEnd { message_id: id(), subagent_run_id, timestamp, raw_event, metadata }.into()
            }
            (Step::End, ItemKind::ToolCall) => {
                ToolCallEnd { tool_call_id: id(), subagent_run_id, timestamp, raw_event, metadata }.into()
            }
            (Step::End, ItemKind::Reasoning) => {
                ReasoningMessageEnd { message_id: id(), subagent_run_id, timestamp, raw_event, metadata }.into()
            }
            (Step::Chunk, ItemKind::Text) => {
                let (message_id, delta) = (self.id.map(str::to_owned), self.delta.map(str::to_owned));
                TextMessageChunk { message_id, delta, subagent_run_id, timestamp, ..Default::default() }.into()
            }
            (Step::Chunk, ItemKind::ToolCall) => {
                let (tool_call_id, delta) = (self.id.map(str::to_owned), self.delta.map(str::to_owned));
                ToolCallChunk { tool_call_id, delta, subagent_run_id, timestamp, ..Default::default() }.into()
            }
            (Step::Chunk, ItemKind::Reasoning) => {
                let (message_id, delta) = (self.id.map(str::to_owned), self.delta.map(str::to_owned));
                ReasoningMessageChunk { message_id, delta, subagent_run_id, timestamp, raw_event, metadata }.into()
            }
        }
    }
}
