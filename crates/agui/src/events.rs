//! The structs of the 31 events, each with the members of its schema definition.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::any_value;
use crate::input::RunAgentInput;
use crate::message::{self, Content, Message, ReasoningRole, TextMessageRole, ToolRole};
use crate::object::object;
use crate::outcome::{RunFinishedOutcome, SubagentFinishedOutcome};
use crate::patch;
use crate::usage::TokenUsage;

/// An event that says whose work it is part of.
pub(crate) trait Attributed {
    fn subagent_run_id(&self) -> Option<&str>;
}

/// Declares an event struct: the members given, then those that every event carries.
macro_rules! event {
    (
        $(#[$meta:meta])*
        $name:ident {
            $(required { $($required:tt)* })?
            $(fixed { $($fixed:tt)* })?
            $(optional { $($optional:tt)* })?
            $(also { $($also:tt)* })?
        }
    ) => {
        object! {
            $(#[$meta])*
            $name {
                $(required { $($required)* })?
                $(fixed { $($fixed)* })?
                optional {
                    $($($optional)*)?
                    $($($also)*)?
                    /// When the event was made, by convention in milliseconds since the Unix epoch. From -(2^53 - 1)
                    /// to 2^53 - 1; nothing in the protocol computes with it.
                    timestamp: i64,
                    /// The provider's own event that this one was translated from. Any JSON value but `null`.
                    raw_event: Value,
                    /// Extra information, open by key (basic/metadata).
                    metadata: Map<String, Value>,
                }
            }
        }
    };
}

/// Declares events that can belong to a subagent.
macro_rules! attributable {
    ($(
        $(#[$meta:meta])*
        $name:ident {
            $(required { $($required:tt)* })?
            $(fixed { $($fixed:tt)* })?
            $(optional { $($optional:tt)* })?
        }
    )*) => {$(
        event! {
            $(#[$meta])*
            $name {
                $(required { $($required)* })?
                $(fixed { $($fixed)* })?
                $(optional { $($optional)* })?
                also {
                    /// The subagent invocation that this belongs to; absent means the parent agent (events/subagents).
                    subagent_run_id: String,
                }
            }
        }

        impl Attributed for $name {
            fn subagent_run_id(&self) -> Option<&str> {
                self.subagent_run_id.as_deref()
            }
        }
    )*};
}

/// Declares events of the run as a whole, which belong to no subagent.
macro_rules! run_scoped {
    ($(
        $(#[$meta:meta])*
        $name:ident {
            $(required { $($required:tt)* })?
            $(optional { $($optional:tt)* })?
        }
    )*) => {$(
        event! {
            $(#[$meta])*
            $name {
                $(required { $($required)* })?
                $(optional { $($optional)* })?
            }
        }

        impl Attributed for $name {
            fn subagent_run_id(&self) -> Option<&str> {
                None
            }
        }
    )*};
}

/// Declares the events of a subagent's life, where `subagentRunId` is what the event is about.
macro_rules! subagent_lifecycle {
    ($(
        $(#[$meta:meta])*
        $name:ident {
            required { $($required:tt)* }
            optional { $($optional:tt)* }
        }
    )*) => {$(
        event! {
            $(#[$meta])*
            $name {
                required {
                    /// The invocation that the event is about.
                    subagent_run_id: String,
                    $($required)*
                }
                optional { $($optional)* }
            }
        }

        impl Attributed for $name {
            fn subagent_run_id(&self) -> Option<&str> {
                Some(&self.subagent_run_id)
            }
        }
    )*};
}

attributable! {
    /// Opens a streamed text message.
    TextMessageStart {
        required {
            /// The message that the stream builds.
            message_id: String,
        }
        optional {
            /// Who the message is from; absent means assistant.
            role: TextMessageRole,
            /// A display name within the role.
            name: String,
        }
    }

    /// Appends to an open text message.
    TextMessageContent {
        required {
            /// The message.
            message_id: String,
            /// What to append; may be empty.
            delta: String,
        }
    }

    /// Closes a text message.
    TextMessageEnd {
        required {
            /// The message.
            message_id: String,
        }
    }

    /// Stands for a start, content and end of a text message (patterns/streaming, "The chunked form").
    TextMessageChunk {
        optional {
            /// The message; absent continues the one that is open.
            message_id: String,
            /// Who the message is from, on the chunk that opens it.
            role: TextMessageRole,
            /// What to append; may be empty.
            delta: String,
            /// A display name within the role.
            name: String,
        }
    }

    /// Opens a tool call.
    ToolCallStart {
        required {
            /// The call.
            tool_call_id: String,
            /// The tool being called.
            tool_call_name: String,
        }
        optional {
            /// The assistant message that holds the call.
            parent_message_id: String,
        }
    }

    /// Appends to an open tool call's arguments.
    ToolCallArgs {
        required {
            /// The call.
            tool_call_id: String,
            /// What to append; may be empty.
            delta: String,
        }
    }

    /// Closes a tool call: its argument text is complete, not necessarily valid.
    ToolCallEnd {
        required {
            /// The call.
            tool_call_id: String,
        }
    }

    /// Stands for a start, arguments and end of a tool call.
    ToolCallChunk {
        optional {
            /// The call; absent continues the one that is open.
            tool_call_id: String,
            /// The tool being called, on the chunk that opens the call.
            tool_call_name: String,
            /// The assistant message that holds the call.
            parent_message_id: String,
            /// What to append; may be empty.
            delta: String,
        }
    }

    /// What a tool returned. It makes a tool message of its own.
    ToolCallResult {
        required {
            /// The tool message that this becomes.
            message_id: String,
            /// The call being answered.
            tool_call_id: String,
            /// What was returned.
            content: Content,
        }
        optional {
            /// Always `tool`.
            role: ToolRole,
        }
    }

    /// Replaces the state.
    StateSnapshot {
        required {
            /// The new state: any JSON value, `null` included.
            #[serde(deserialize_with = "any_value::read")]
            snapshot: Value,
        }
    }

    /// Changes the state by a JSON Patch (RFC 6902).
    StateDelta {
        required {
            /// The operations, in order. Members that an operation does not define are kept.
            #[serde(deserialize_with = "patch::operations")]
            delta: Vec<Value>,
        }
    }

    /// Makes or replaces an activity message.
    ActivitySnapshot {
        required {
            /// The activity message.
            message_id: String,
            /// What kind of activity it is. An open string.
            activity_type: String,
            /// The payload, open by key.
            content: Map<String, Value>,
        }
        optional {
            /// Whether an existing activity is overwritten; absent means that it is.
            replace: bool,
        }
    }

    /// Changes an activity message's content by a JSON Patch.
    ActivityDelta {
        required {
            /// The activity message.
            message_id: String,
            /// What kind of activity it is from now on.
            activity_type: String,
            /// The operations, in order.
            #[serde(deserialize_with = "patch::operations")]
            patch: Vec<Value>,
        }
    }

    /// A provider's event, passed through untranslated.
    Raw {
        required {
            /// The provider's event: any JSON value.
            event: Value,
        }
        optional {
            /// The provider or framework that it came from.
            source: String,
        }
    }

    /// An application's own event.
    Custom {
        required {
            /// What it is.
            name: String,
            /// The payload: any JSON value.
            value: Value,
        }
    }

    /// Opens a named step.
    StepStarted {
        required {
            /// The step.
            step_name: String,
        }
    }

    /// Closes a named step.
    StepFinished {
        required {
            /// The step.
            step_name: String,
        }
    }

    /// Opens a span of reasoning.
    ReasoningStart {
        required {
            /// The span.
            message_id: String,
        }
    }

    /// Opens a streamed reasoning message.
    ReasoningMessageStart {
        required {
            /// The message that the stream builds.
            message_id: String,
        }
        fixed {
            /// Always `reasoning`, and always written.
            role: ReasoningRole,
        }
    }

    /// Appends to an open reasoning message.
    ReasoningMessageContent {
        required {
            /// The message.
            message_id: String,
            /// What to append; may be empty.
            delta: String,
        }
    }

    /// Closes a reasoning message.
    ReasoningMessageEnd {
        required {
            /// The message.
            message_id: String,
        }
    }

    /// Stands for a start, content and end of a reasoning message.
    ReasoningMessageChunk {
        optional {
            /// The message; absent continues the one that is open.
            message_id: String,
            /// What to append; may be empty.
            delta: String,
        }
    }

    /// Closes a span of reasoning.
    ReasoningEnd {
        required {
            /// The span.
            message_id: String,
        }
    }

    /// A provider's opaque reasoning artefact, to be stored and returned unread.
    ReasoningEncryptedValue {
        required {
            /// What kind of thing `entity_id` names.
            subtype: ReasoningEncryptedValueSubtype,
            /// The message or the tool call that it belongs to.
            entity_id: String,
            /// The artefact.
            encrypted_value: String,
        }
    }
}

run_scoped! {
    /// Opens a run.
    RunStarted {
        required {
            /// The conversation that the run belongs to.
            thread_id: String,
            /// The run.
            run_id: String,
        }
        optional {
            /// The version that the producer itself speaks, such as `1.0` (basic/versioning).
            protocol_version: String,
            /// The run that spawned this one.
            parent_run_id: String,
            /// The input that the run was started from.
            input: Box<RunAgentInput>,
        }
    }

    /// Closes a run that did not fail.
    RunFinished {
        required {
            /// The conversation.
            thread_id: String,
            /// The run.
            run_id: String,
        }
        optional {
            /// The run's return value: any JSON value but `null`.
            result: Value,
            /// Why the run ended; absent means success.
            outcome: RunFinishedOutcome,
            /// Token usage, one entry per provider and model.
            usage: Vec<TokenUsage>,
        }
    }

    /// Ends a run that failed.
    RunError {
        required {
            /// What went wrong, for a person to read.
            message: String,
        }
        optional {
            /// A machine-readable code. An open string.
            code: String,
            /// Token usage until the failure.
            usage: Vec<TokenUsage>,
        }
    }

    /// The complete set of messages that the producer owns, in order.
    MessagesSnapshot {
        required {
            /// The messages.
            #[serde(deserialize_with = "message::reading::list")]
            messages: Vec<Message>,
        }
    }
}

subagent_lifecycle! {
    /// Announces a subagent invocation.
    SubagentStarted {
        required {
            /// The subagent's name, which other invocations may share.
            name: String,
        }
        optional {
            /// What the subagent is for.
            description: String,
            /// The invocation that spawned it; absent means the parent agent.
            parent_subagent_run_id: String,
            /// The tool call that spawned it.
            parent_tool_call_id: String,
            /// The message that held the spawning tool call.
            parent_message_id: String,
        }
    }

    /// Ends a subagent invocation's part of the run: done, or suspended.
    SubagentFinished {
        required {}
        optional {
            /// The subagent's return value: any JSON value but `null`.
            result: Value,
            /// Why it ended; absent means success.
            outcome: SubagentFinishedOutcome,
        }
    }

    /// Reports that a subagent invocation failed. The run may go on.
    SubagentError {
        required {
            /// What went wrong, for a person to read.
            message: String,
        }
        optional {
            /// A machine-readable code. An open string.
            code: String,
        }
    }
}

/// What a `REASONING_ENCRYPTED_VALUE` belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReasoningEncryptedValueSubtype {
    /// A tool call.
    ToolCall,
    /// A message.
    #[default]
    Message,
}
