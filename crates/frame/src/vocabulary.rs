//! The closed sets of values that data keys take: statuses, kinds and levels.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

use crate::ErrorCode;
use crate::payload::payload;
use crate::schema::Described;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$word_doc])* $variant),+
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let word = String::deserialize(deserializer)?;
                $name::from_wire(&word).ok_or_else(|| de::Error::unknown_variant(&word, &[$($word),+]))
            }
        }

        impl Described for $name {
            fn schema() -> Value {
                json!({ "enum": [$($word),+] })
            }
        }

        impl $name {
            /// Every value, in the protocol's order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The value as it is spelled on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }

            /// The value with this spelling, if there is one.
            pub fn from_wire(word: &str) -> Option<$name> {
                match word {
                    $($word => Some($name::$variant),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Where a run stands: `run.status.status` and `.previous`.
    RunStatus {
        /// Created; waiting for its turn.
        Queued = "queued",
        /// An attempt is being executed.
        Running = "running",
        /// Waiting for an answer from outside; holds no task.
        Suspended = "suspended",
        /// An attempt failed and another follows.
        Retrying = "retrying",
        /// Asked to stop; the driver has its grace period.
        Cancelling = "cancelling",
        /// Ended: the work was done.
        Completed = "completed",
        /// Ended: the work could not be done.
        Failed = "failed",
        /// Ended: stopped on purpose.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Whether a run in this status has ended.
    pub fn is_ended(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled)
    }

    /// Whether the state machine has a transition from this status to `next`.
    pub fn may_become(self, next: RunStatus) -> bool {
        use RunStatus::*;
        match self {
            Queued => matches!(next, Running | Cancelling),
            Running => matches!(next, Completed | Failed | Cancelled | Suspended | Retrying | Cancelling),
            Suspended | Retrying => matches!(next, Running | Cancelling),
            Cancelling => matches!(next, Cancelled),
            Completed | Failed | Cancelled => false,
        }
    }
}

words! {
    /// How a run ended: `run.end.status`.
    EndStatus {
        /// The work was done.
        Completed = "completed",
        /// The work could not be done.
        Failed = "failed",
        /// Stopped on purpose: neither success nor failure.
        Cancelled = "cancelled",
    }
}

impl From<EndStatus> for RunStatus {
    fn from(end: EndStatus) -> RunStatus {
        match end {
            EndStatus::Completed => RunStatus::Completed,
            EndStatus::Failed => RunStatus::Failed,
            EndStatus::Cancelled => RunStatus::Cancelled,
        }
    }
}

words! {
    /// What a segment brackets: `segment.start.kind`.
    SegmentKind {
        /// One call of a model.
        Model = "model",
        /// One tool call: its arguments, its execution, its result.
        Tool = "tool",
        /// One message of the conversation.
        Message = "message",
        /// Reasoning, apart from the output.
        Reasoning = "reasoning",
        /// A named phase of the run.
        Step = "step",
        /// A child agent working inside the run.
        Agent = "agent",
    }
}

words! {
    /// How a segment ended: `segment.end.status`.
    SegmentStatus {
        /// What it brackets is whole.
        Completed = "completed",
        /// What it brackets failed, or the run failed under it.
        Failed = "failed",
        /// It was cut off by a stop on purpose.
        Cancelled = "cancelled",
        /// Its attempt ended under it.
        Abandoned = "abandoned",
    }
}

words! {
    /// How much a notice matters: `notice.level`.
    NoticeLevel {
        /// Of interest to whoever builds the agent.
        Debug = "debug",
        /// Part of the ordinary course of a run.
        Info = "info",
        /// Something was degraded or lost, and the run goes on.
        Warning = "warning",
    }
}

words! {
    /// What a suspended run waits for: `suspend.kind` and `resume.kind`.
    SuspendKind {
        /// A yes or no.
        Approval = "approval",
        /// A value.
        Input = "input",
    }
}

payload! {
    /// Why a segment failed: `segment.end.error`.
    #[derive(Eq)]
    SegmentError {
        /// One of the fifteen.
        required code: ErrorCode,
        /// What happened, for a person.
        required message: String,
    }
}
