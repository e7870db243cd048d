//! What a consumer mentions without rejecting the stream.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! warning_rules {
    ($( $(#[$doc:meta])* $name:ident = $id:literal ),* $(,)?) => {
        /// Why a warning was given.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum WarningRule {
            $( $(#[$doc])* $name, )*
        }

        impl WarningRule {
            /// Every reason to warn.
            pub const ALL: &'static [WarningRule] = &[$( WarningRule::$name ),*];

            /// The rule's stable name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$name => $id, )*
                }
            }
        }
    };
}

warning_rules! {
    /// An event of a type that 1.0 does not describe was dropped (basic/processing).
    UnknownEvent = "unknown-event",
    /// A property that 1.0 does not describe was stripped (basic/processing).
    UnknownProperty = "unknown-property",
    /// A member of a union or of a closed set of strings that 1.0 does not describe was stripped (basic/processing).
    UnknownMember = "unknown-member",
    /// A `null` from a peer of before 1.0 was read as an absent member (basic/versioning).
    NullMember = "null-member",
    /// A retired shape was translated (basic/versioning, "Retired shapes").
    RetiredShape = "retired-shape",
    /// The producer declares a newer version (basic/versioning, "Version negotiation").
    NewerVersion = "newer-version",
    /// The producer declares a version that is not `MAJOR.MINOR` (basic/versioning, "Version negotiation").
    UninterpretableVersion = "uninterpretable-version",
    /// A well-formed patch did not apply, and the old value was kept (patterns/snapshots).
    PatchNotApplied = "patch-not-applied",
    /// An activity event names a message that is none of the activities (events/activity).
    ActivityTarget = "activity-target",
    /// An encrypted value names nothing that can hold it (events/reasoning).
    EncryptedValueTarget = "encrypted-value-target",
    /// Streamed text names a message, or streamed arguments a tool call, that is not held or cannot hold them.
    TextTarget = "text-target",
    /// A tool call names a parent message that cannot hold it.
    ToolCallParent = "tool-call-parent",
    /// The last run on the stream is not the one that the input asked for (basic/run-input, "Identity").
    RequestedRunMissing = "requested-run-missing",
    /// A run has the id of an earlier one (basic, "Identifiers").
    RunIdReused = "run-id-reused",
    /// A run echoes an input of another thread (basic/run-input, "Identity").
    EchoOfAnotherThread = "echo-of-another-thread",
    /// The stream stopped inside an event, which was discarded (transports, "Truncation").
    UnterminatedEvent = "unterminated-event",
    /// A run that starts is answered with status 200 (transports/http-sse, "Response").
    ResponseStatus = "response-status",
    /// An answer is protobuf only where the request admits it (transports/http-protobuf, "Negotiation").
    UnaskedProtobuf = "unasked-protobuf",
    /// The `Content-Type` of protobuf has no parameters (transports/http-protobuf, "Negotiation").
    ProtobufContentType = "protobuf-content-type",
    /// A response is closed when the last of its runs has ended (transports/http-sse, "Response").
    ResponseLeftOpen = "response-left-open",
}

impl fmt::Display for WarningRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for WarningRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something a developer should know about a stream or an input that was accepted all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Why it was given.
    pub rule: WarningRule,
    /// What happened, to what, and what was done.
    pub message: String,
    /// The event of the stream that it is about, counted from 0; 0 for a run input.
    pub event: usize,
    /// JSON Pointer of the place in the event, when it is about one.
    pub path: Option<String>,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "event {}: {}", self.event, self.message)
    }
}
