//! How runs and subagents say that they ended, and what an interrupted run asks for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::object::{object, present};

/// Why a run ended (events/lifecycle, `RUN_FINISHED`). An absent outcome means success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum RunFinishedOutcome {
    /// The run completed.
    Success {
        /// The tool calls that the run started and did not answer, in the order they were made. Absent or empty names
        /// none, and says nothing about whether there are any.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pending_tool_call_ids: Option<Vec<String>>,
    },
    /// The run waits for answers from outside (patterns/interrupt-resume).
    Interrupt {
        /// What it waits for: at least one, each id once.
        interrupts: Vec<Interrupt>,
    },
    /// The run was stopped on purpose before it completed. Neither a success nor a failure.
    Cancelled,
}

impl RunFinishedOutcome {
    /// The success outcome that names no pending tool calls.
    #[must_use]
    pub fn success() -> Self {
        Self::Success { pending_tool_call_ids: None }
    }
}

/// Why a subagent's part of a run ended (events/subagents). An absent outcome means success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum SubagentFinishedOutcome {
    /// The subagent completed its work.
    Success,
    /// The subagent is paused until outside input arrives; a later run may continue it under the same id.
    Suspended {
        /// The interrupts of the run that this subagent raised itself. May be absent: a subagent that waits for a
        /// descendant owns none.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        interrupt_ids: Option<Vec<String>>,
    },
}

object! {
    /// Something a run needs from outside before it can continue.
    Interrupt {
        required {
            /// Identifies the interrupt within its run; a resume entry answers it by this id.
            id: String,
            /// Why the run stopped. An open string.
            reason: String,
        }
        optional {
            /// The prompt for the person who answers.
            message: String,
            /// The tool call that an approval is about.
            tool_call_id: String,
            /// A JSON Schema of the answer, carried as it is.
            response_schema: Map<String, Value>,
            /// When it can no longer be answered, by convention an ISO 8601 time. The protocol does not constrain it.
            expires_at: String,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
            /// The subagent invocation that raised it; absent means the parent agent.
            subagent_run_id: String,
        }
    }
}

/// Whether an interrupt was answered or given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResumeStatus {
    /// Answered; the answer is the entry's payload.
    #[default]
    Resolved,
    /// Given up.
    Cancelled,
}

object! {
    /// An answer to one interrupt, sent on the run that continues from it.
    ResumeEntry {
        required {
            /// The interrupt being answered.
            interrupt_id: String,
            /// Answered, or given up.
            status: ResumeStatus,
        }
        optional {
            /// The answer. Any JSON value but `null`.
            payload: Value,
            /// Information about the answer that is not part of it, open by key.
            metadata: Map<String, Value>,
        }
    }
}
