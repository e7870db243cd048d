//! The messages of the events that open and close runs, steps and subagents.

use serde_json::{Map, Value};

use super::encoder::ProtoEncodeError;
use super::input::RunAgentInput;
use super::json_value::Json;
use super::kept::Kept;
use super::wire::{
    BaseEvent, Carried, EventMessage, Member, Room, Unread, base_of, event, list, message, object_in_json,
};
use crate::outcome as model;
use crate::outcome::{RunFinishedOutcome, SubagentFinishedOutcome};
use crate::usage::TokenUsage;

event! {
    RunStarted {
        #[prost(string, tag = "2")] thread_id: String = "threadId",
        #[prost(string, tag = "3")] run_id: String = "runId",
        #[prost(string, optional, tag = "4")] parent_run_id: Option<String> = "parentRunId",
        #[prost(message, optional, tag = "5")] input: Option<RunAgentInput> = "input",
        #[prost(string, optional, tag = "6")] protocol_version: Option<String> = "protocolVersion",
    }

    RunError {
        #[prost(string, optional, tag = "2")] code: Option<String> = "code",
        #[prost(string, tag = "3")] message: String = "message",
        #[prost(message, repeated, tag = "4")] usage: Vec<Kept<Usage>> = "usage",
    }

    StepStarted {
        #[prost(string, tag = "2")] step_name: String = "stepName",
        #[prost(string, optional, tag = "3")] subagent_run_id: Option<String> = "subagentRunId",
    }

    StepFinished {
        #[prost(string, tag = "2")] step_name: String = "stepName",
        #[prost(string, optional, tag = "3")] subagent_run_id: Option<String> = "subagentRunId",
    }

    SubagentStarted {
        #[prost(string, tag = "2")] subagent_run_id: String = "subagentRunId",
        #[prost(string, tag = "3")] name: String = "name",
        #[prost(string, optional, tag = "4")] description: Option<String> = "description",
        #[prost(string, optional, tag = "5")] parent_subagent_run_id: Option<String> = "parentSubagentRunId",
        #[prost(string, optional, tag = "6")] parent_tool_call_id: Option<String> = "parentToolCallId",
        #[prost(string, optional, tag = "7")] parent_message_id: Option<String> = "parentMessageId",
    }

    SubagentError {
        #[prost(string, tag = "2")] subagent_run_id: String = "subagentRunId",
        #[prost(string, tag = "3")] message: String = "message",
        #[prost(string, optional, tag = "4")] code: Option<String> = "code",
    }
}

message! {
    Usage of TokenUsage {
        #[prost(string, optional, tag = "1")] provider: Option<String> = "provider",
        #[prost(string, optional, tag = "2")] model: Option<String> = "model",
        #[prost(int64, optional, tag = "3")] input_tokens: Option<i64> = "inputTokens",
        #[prost(int64, optional, tag = "4")] output_tokens: Option<i64> = "outputTokens",
        #[prost(int64, optional, tag = "5")] total_tokens: Option<i64> = "totalTokens",
        #[prost(int64, optional, tag = "6")] reasoning_tokens: Option<i64> = "reasoningTokens",
        #[prost(int64, optional, tag = "7")] cached_input_tokens: Option<i64> = "cachedInputTokens",
        #[prost(int64, optional, tag = "8")] cache_write_input_tokens: Option<i64> = "cacheWriteInputTokens",
    }

    Interrupt of model::Interrupt {
        #[prost(string, tag = "1")] id: String = "id",
        #[prost(string, tag = "2")] reason: String = "reason",
        #[prost(string, optional, tag = "3")] message: Option<String> = "message",
        #[prost(string, optional, tag = "4")] tool_call_id: Option<String> = "toolCallId",
        #[prost(message, optional, tag = "5")] response_schema: Option<Json> = "responseSchema",
        #[prost(string, optional, tag = "6")] expires_at: Option<String> = "expiresAt",
        #[prost(message, optional, tag = "7")] metadata: Option<Json> = "metadata",
        #[prost(string, optional, tag = "8")] subagent_run_id: Option<String> = "subagentRunId",
    }
}

object_in_json! { Usage, EMPTY_IS_ABSENT; Interrupt, EMPTY_IS_ABSENT; }

/// Closes a run that did not fail. The outcome's type is a string, empty for none, and its members stand beside it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RunFinished {
    #[prost(message, optional, tag = "1")]
    base_event: Option<BaseEvent>,
    #[prost(string, tag = "2")]
    thread_id: String,
    #[prost(string, tag = "3")]
    run_id: String,
    #[prost(message, optional, tag = "4")]
    result: Option<Json>,
    #[prost(string, tag = "5")]
    outcome: String,
    #[prost(message, repeated, tag = "6")]
    interrupts: Vec<Kept<Interrupt>>,
    #[prost(message, repeated, tag = "7")]
    usage: Vec<Kept<Usage>>,
    #[prost(string, repeated, tag = "8")]
    pending_tool_call_ids: Vec<String>,
}

impl RunFinished {
    pub(super) fn of(event: &crate::events::RunFinished, number: i32) -> Result<Self, ProtoEncodeError> {
        let mut wire = Self {
            base_event: base_of!(event, number),
            thread_id: event.thread_id.clone(),
            run_id: event.run_id.clone(),
            result: event.result.carry()?,
            usage: event.usage.carry()?,
            ..Self::default()
        };
        match &event.outcome {
            None => {}
            Some(RunFinishedOutcome::Success { pending_tool_call_ids }) => {
                wire.outcome = "success".to_owned();
                wire.pending_tool_call_ids = pending_tool_call_ids.carry()?;
            }
            Some(RunFinishedOutcome::Interrupt { interrupts }) => {
                wire.outcome = "interrupt".to_owned();
                wire.interrupts = interrupts.carry()?;
            }
            Some(RunFinishedOutcome::Cancelled) => wire.outcome = "cancelled".to_owned(),
        }
        Ok(wire)
    }
}

impl EventMessage for RunFinished {
    fn take_base(&mut self) -> Option<BaseEvent> {
        self.base_event.take()
    }

    fn members(self, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread> {
        self.thread_id.put("threadId", members, room)?;
        self.run_id.put("runId", members, room)?;
        self.result.put("result", members, room)?;
        let (interrupts, pending) = (self.interrupts, self.pending_tool_call_ids);
        outcome(&self.outcome, members, room, |kind, members, room| {
            // An interrupt outcome without interrupts is malformed, and not one without the member.
            if kind == "interrupt" && interrupts.is_empty() {
                members.insert("interrupts".to_owned(), list(interrupts, room)?);
            } else {
                interrupts.put("interrupts", members, room)?;
            }
            pending.put("pendingToolCallIds", members, room)
        })?;
        self.usage.put("usage", members, room)
    }
}

/// Ends a subagent's part of a run; its outcome is written like that of a run.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SubagentFinished {
    #[prost(message, optional, tag = "1")]
    base_event: Option<BaseEvent>,
    #[prost(string, tag = "2")]
    subagent_run_id: String,
    #[prost(message, optional, tag = "3")]
    result: Option<Json>,
    #[prost(string, tag = "4")]
    outcome: String,
    #[prost(string, repeated, tag = "5")]
    interrupt_ids: Vec<String>,
}

impl SubagentFinished {
    pub(super) fn of(event: &crate::events::SubagentFinished, number: i32) -> Result<Self, ProtoEncodeError> {
        let mut wire = Self {
            base_event: base_of!(event, number),
            subagent_run_id: event.subagent_run_id.clone(),
            result: event.result.carry()?,
            ..Self::default()
        };
        match &event.outcome {
            None => {}
            Some(SubagentFinishedOutcome::Success) => wire.outcome = "success".to_owned(),
            Some(SubagentFinishedOutcome::Suspended { interrupt_ids }) => {
                wire.outcome = "suspended".to_owned();
                wire.interrupt_ids = interrupt_ids.carry()?;
            }
        }
        Ok(wire)
    }
}

impl EventMessage for SubagentFinished {
    fn take_base(&mut self) -> Option<BaseEvent> {
        self.base_event.take()
    }

    fn members(self, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread> {
        self.subagent_run_id.put("subagentRunId", members, room)?;
        self.result.put("result", members, room)?;
        let ids = self.interrupt_ids;
        outcome(&self.outcome, members, room, |_, members, room| ids.put("interruptIds", members, room))
    }
}

/// Adds the outcome with its members. An outcome of a newer version is one like any other here: enforcement strips it,
/// and the binding must not refuse it (transports/http-protobuf, "The wire schema").
///
/// Members without an outcome that they belong to are added as members of the event, where nothing describes them: so
/// they are stripped with a warning and not lost without one.
fn outcome(
    kind: &str,
    members: &mut Map<String, Value>,
    room: Room,
    put: impl FnOnce(&str, &mut Map<String, Value>, Room) -> Result<(), Unread>,
) -> Result<(), Unread> {
    if kind.is_empty() {
        return put(kind, members, room);
    }
    let mut outcome = Map::new();
    outcome.insert("type".to_owned(), kind.into());
    put(kind, &mut outcome, room.within()?)?;
    members.insert("outcome".to_owned(), Value::Object(outcome));
    Ok(())
}
