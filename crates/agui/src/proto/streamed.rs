//! The messages of the events that a run consists of.

use super::encoder::ProtoEncodeError;
use super::json_value::{Json, Object};
use super::kept::Kept;
use super::patch::Operation;
use super::wire::{Carried, event};
use crate::events::ReasoningEncryptedValueSubtype;
use crate::message::{ReasoningRole, TextMessageRole};

impl Carried<String> for TextMessageRole {
    fn carry(&self) -> Result<String, ProtoEncodeError> {
        Ok(self.as_str().to_owned())
    }
}

impl Carried<String> for ReasoningRole {
    fn carry(&self) -> Result<String, ProtoEncodeError> {
        Ok("reasoning".to_owned())
    }
}

impl Carried<String> for ReasoningEncryptedValueSubtype {
    fn carry(&self) -> Result<String, ProtoEncodeError> {
        let subtype = match self {
            Self::ToolCall => "tool-call",
            Self::Message => "message",
        };
        Ok(subtype.to_owned())
    }
}

event! {
    TextMessageStart {
        #[prost(string, tag = "2")] message_id: String = "messageId",
        #[prost(string, optional, tag = "3")] role: Option<String> = "role",
        #[prost(string, optional, tag = "4")] name: Option<String> = "name",
        #[prost(string, optional, tag = "5")] subagent_run_id: Option<String> = "subagentRunId",
    }

    TextMessageContent {
        #[prost(string, tag = "2")] message_id: String = "messageId",
        #[prost(string, tag = "3")] delta: String = "delta",
        #[prost(string, optional, tag = "4")] subagent_run_id: Option<String> = "subagentRunId",
    }

    TextMessageEnd {
        #[prost(string, tag = "2")] message_id: String = "messageId",
        #[prost(string, optional, tag = "3")] subagent_run_id: Option<String> = "subagentRunId",
    }

    TextMessageChunk {
        #[prost(string, optional, tag = "2")] message_id: Option<String> = "messageId",
        #[prost(string, optional, tag = "3")] role: Option<String> = "role",
        #[prost(string, optional, tag = "4")] delta: Option<String> = "delta",
        #[prost(string, optional, tag = "5")] name: Option<String> = "name",
        #[prost(string, optional, tag = "6")] subagent_run_id: Option<String> = "subagentRunId",
    }

    ToolCallStart {
        #[prost(string, tag = "2")] tool_call_id: String = "toolCallId",
        #[prost(string, tag = "3")] tool_call_name: String = "toolCallName",
        #[prost(string, optional, tag = "4")] parent_message_id: Option<String> = "parentMessageId",
        #[prost(string, optional, tag = "5")] subagent_run_id: Option<String> = "subagentRunId",
    }

    ToolCallArgs {
        #[prost(string, tag = "2")] tool_call_id: String = "toolCallId",
        #[prost(string, tag = "3")] delta: String = "delta",
        #[prost(string, optional, tag = "4")] subagent_run_id: Option<String> = "subagentRunId",
    }

    ToolCallEnd {
        #[prost(string, tag = "2")] tool_call_id: String = "toolCallId",
        #[prost(string, optional, tag = "3")] subagent_run_id: Option<String> = "subagentRunId",
    }

    ToolCallChunk {
        #[prost(string, optional, tag = "2")] tool_call_id: Option<String> = "toolCallId",
        #[prost(string, optional, tag = "3")] tool_call_name: Option<String> = "toolCallName",
        #[prost(string, optional, tag = "4")] parent_message_id: Option<String> = "parentMessageId",
        #[prost(string, optional, tag = "5")] delta: Option<String> = "delta",
        #[prost(string, optional, tag = "6")] subagent_run_id: Option<String> = "subagentRunId",
    }

    StateSnapshot {
        #[prost(message, optional, tag = "2")] snapshot: Option<Json> = "snapshot",
        #[prost(string, optional, tag = "3")] subagent_run_id: Option<String> = "subagentRunId",
    }

    StateDelta {
        #[prost(message, repeated, tag = "2")] delta: Vec<Kept<Operation>> = "delta",
        #[prost(string, optional, tag = "3")] subagent_run_id: Option<String> = "subagentRunId",
    }

    ActivitySnapshot {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, tag = "3")] message_id: String = "messageId",
        #[prost(string, tag = "4")] activity_type: String = "activityType",
        #[prost(message, optional, tag = "5")] content: Option<Object> = "content",
        #[prost(bool, optional, tag = "6")] replace: Option<bool> = "replace",
    }

    ActivityDelta {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, tag = "3")] message_id: String = "messageId",
        #[prost(string, tag = "4")] activity_type: String = "activityType",
        #[prost(message, repeated, tag = "5")] patch: Vec<Kept<Operation>> = "patch",
    }

    Raw {
        #[prost(message, optional, tag = "2")] event: Option<Json> = "event",
        #[prost(string, optional, tag = "3")] source: Option<String> = "source",
        #[prost(string, optional, tag = "4")] subagent_run_id: Option<String> = "subagentRunId",
    }

    Custom {
        #[prost(string, tag = "2")] name: String = "name",
        #[prost(message, optional, tag = "3")] value: Option<Json> = "value",
        #[prost(string, optional, tag = "4")] subagent_run_id: Option<String> = "subagentRunId",
    }

    ReasoningStart {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, tag = "3")] message_id: String = "messageId",
    }

    ReasoningMessageStart {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, tag = "3")] message_id: String = "messageId",
        #[prost(string, tag = "4")] role: String = "role",
    }

    ReasoningMessageContent {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, tag = "3")] message_id: String = "messageId",
        #[prost(string, tag = "4")] delta: String = "delta",
    }

    ReasoningMessageEnd {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, tag = "3")] message_id: String = "messageId",
    }

    ReasoningMessageChunk {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, optional, tag = "3")] message_id: Option<String> = "messageId",
        #[prost(string, optional, tag = "4")] delta: Option<String> = "delta",
    }

    ReasoningEnd {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, tag = "3")] message_id: String = "messageId",
    }

    ReasoningEncryptedValue {
        #[prost(string, optional, tag = "2")] subagent_run_id: Option<String> = "subagentRunId",
        #[prost(string, tag = "3")] subtype: String = "subtype",
        #[prost(string, tag = "4")] entity_id: String = "entityId",
        #[prost(string, tag = "5")] encrypted_value: String = "encryptedValue",
    }
}
