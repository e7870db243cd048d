//! The run input on the wire. Only its echo in `RUN_STARTED` is ever binary: what a client posts is JSON in both bindings.

use super::encoder::ProtoEncodeError;
use super::json_value::{Json, Object};
use super::kept::Kept;
use super::message::Message;
use super::wire::{Carried, message, object_in_json};
use crate::input as model;
use crate::outcome::{ResumeEntry, ResumeStatus};

message! {
    RunAgentInput of model::RunAgentInput {
        #[prost(string, tag = "1")] thread_id: String = "threadId",
        #[prost(string, tag = "2")] run_id: String = "runId",
        #[prost(string, optional, tag = "3")] parent_run_id: Option<String> = "parentRunId",
        #[prost(message, optional, tag = "4")] state: Option<Json> = "state",
        #[prost(message, repeated, tag = "5")] messages: Vec<Kept<Message>> = "messages",
        #[prost(message, repeated, tag = "6")] tools: Vec<Kept<Tool>> = "tools",
        #[prost(message, repeated, tag = "7")] context: Vec<Kept<Context>> = "context",
        #[prost(message, optional, tag = "8")] forwarded_props: Option<Json> = "forwardedProps",
        #[prost(message, repeated, tag = "9")] resume: Vec<Kept<Resume>> = "resume",
        #[prost(string, optional, tag = "10")] protocol_version: Option<String> = "protocolVersion",
    }

    Tool of model::Tool {
        #[prost(string, tag = "1")] name: String = "name",
        #[prost(string, tag = "2")] description: String = "description",
        #[prost(message, optional, tag = "3")] parameters: Option<Json> = "parameters",
        #[prost(message, optional, tag = "4")] metadata: Option<Object> = "metadata",
    }

    Context of model::Context {
        #[prost(string, tag = "1")] description: String = "description",
        #[prost(string, tag = "2")] value: String = "value",
    }

    Resume of ResumeEntry {
        #[prost(string, tag = "1")] interrupt_id: String = "interruptId",
        #[prost(string, tag = "2")] status: String = "status",
        #[prost(message, optional, tag = "3")] payload: Option<Json> = "payload",
        #[prost(message, optional, tag = "4")] metadata: Option<Object> = "metadata",
    }
}

object_in_json! { RunAgentInput; Tool; Context; Resume; }

impl Carried<RunAgentInput> for Box<model::RunAgentInput> {
    fn carry(&self) -> Result<RunAgentInput, ProtoEncodeError> {
        (**self).carry()
    }
}

impl Carried<String> for ResumeStatus {
    fn carry(&self) -> Result<String, ProtoEncodeError> {
        let status = match self {
            Self::Resolved => "resolved",
            Self::Cancelled => "cancelled",
        };
        Ok(status.to_owned())
    }
}
