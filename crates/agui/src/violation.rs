//! The rules of AG-UI 1.0 whose breach rejects a stream.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::one_line::sentence;

macro_rules! rules {
    ($( $(#[$doc:meta])* $name:ident = $id:literal ),* $(,)?) => {
        /// One rule that a producer must keep. A consumer that sees it broken rejects the stream.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $( $(#[$doc])* $name, )*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$( Rule::$name ),*];

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

rules! {
    /// An event is one JSON object (transports/http-sse).
    MalformedJson = "malformed-json",
    /// A protobuf frame holds the bytes of one event (transports/http-protobuf).
    MalformedFrame = "malformed-frame",
    /// A described member holds what the schema describes (basic/processing).
    MalformedValue = "malformed-value",

    /// A stream begins with `RUN_STARTED` or `RUN_ERROR` (events/lifecycle, "The run").
    FirstEvent = "first-event",
    /// After `RUN_FINISHED` only `RUN_STARTED` or `RUN_ERROR` follows (events/lifecycle, "After a run closes").
    EventAfterFinish = "event-after-finish",
    /// After `RUN_ERROR` only `RUN_STARTED` follows (events/lifecycle, "After a run closes").
    EventAfterError = "event-after-error",
    /// A run is closed before the next one opens (events/lifecycle, "Several runs on one stream").
    NestedRunStarted = "nested-run-started",
    /// `RUN_FINISHED` names the run that `RUN_STARTED` opened (basic/run-input, "Identity").
    RunIdMismatch = "run-id-mismatch",
    /// `RUN_FINISHED` names the thread that `RUN_STARTED` named (basic/run-input, "Identity").
    ThreadIdMismatch = "thread-id-mismatch",
    /// Every run of a stream is on the thread of the input (basic/run-input, "Identity").
    ForeignThread = "foreign-thread",
    /// An interrupt's id is unique within its run (patterns/interrupt-resume, "Interrupting").
    DuplicateInterruptId = "duplicate-interrupt-id",
    /// An interrupt outcome carries at least one interrupt (patterns/interrupt-resume, "Interrupting").
    NoInterrupts = "no-interrupts",
    /// A list of pending tool calls names exactly the calls that the run started and did not answer
    /// (events/tool-calls, "Frontend tools").
    PendingToolCalls = "pending-tool-calls",

    /// Every step is closed before the run finishes (events/lifecycle, "Steps").
    StepOpenAtFinish = "step-open-at-finish",
    /// Every text message is closed before the run finishes (patterns/streaming).
    TextMessageOpenAtFinish = "text-message-open-at-finish",
    /// Every tool call is closed before the run finishes (patterns/streaming).
    ToolCallOpenAtFinish = "tool-call-open-at-finish",
    /// Every reasoning message is closed before the run finishes (events/reasoning).
    ReasoningMessageOpenAtFinish = "reasoning-message-open-at-finish",
    /// Every reasoning span is closed before the run finishes (events/reasoning).
    ReasoningSpanOpenAtFinish = "reasoning-span-open-at-finish",
    /// Every announced subagent is closed before the run finishes (events/subagents, "Termination").
    SubagentOpenAtFinish = "subagent-open-at-finish",

    /// A step whose name is open under its owner is not opened again (events/lifecycle, "Steps").
    StepAlreadyOpen = "step-already-open",
    /// A step is open, under whoever closes it, before it is closed (events/lifecycle, "Steps"; events/subagents,
    /// "Ownership").
    StepNotOpen = "step-not-open",

    /// A text message that is open is not opened again (patterns/streaming).
    TextMessageAlreadyOpen = "text-message-already-open",
    /// A text message is open before it is continued or closed (patterns/streaming).
    TextMessageNotOpen = "text-message-not-open",
    /// A tool call that is open is not opened again (patterns/streaming).
    ToolCallAlreadyOpen = "tool-call-already-open",
    /// A tool call is open before it is continued or closed (patterns/streaming).
    ToolCallNotOpen = "tool-call-not-open",
    /// A reasoning message that is open is not opened again (events/reasoning).
    ReasoningMessageAlreadyOpen = "reasoning-message-already-open",
    /// A reasoning message is open before it is continued or closed (events/reasoning).
    ReasoningMessageNotOpen = "reasoning-message-not-open",
    /// A reasoning span that is open is not opened again (events/reasoning).
    ReasoningSpanAlreadyOpen = "reasoning-span-already-open",
    /// A reasoning span is open before it is closed (events/reasoning).
    ReasoningSpanNotOpen = "reasoning-span-not-open",

    /// A subagent that is active is not announced again (events/subagents, "Lifecycle").
    SubagentAlreadyActive = "subagent-already-active",
    /// The id of a subagent that ended in this run is not announced again (events/subagents, "Lifecycle").
    SubagentReused = "subagent-reused",
    /// A subagent is active before it is closed (events/subagents, "Lifecycle").
    SubagentNotActive = "subagent-not-active",
    /// A subagent's parent was announced in this run (events/subagents, "Nesting and parallelism").
    SubagentParentUnknown = "subagent-parent-unknown",
    /// A subagent is announced before any event is attributed to it (events/subagents, "Lifecycle").
    SubagentAnnouncedLate = "subagent-announced-late",
    /// What continues an item names the item's owner, or none (events/subagents, "Ownership").
    AttributionMismatch = "attribution-mismatch",

    /// The first chunk of an item carries what opens it (patterns/streaming, "The first chunk").
    FirstChunk = "first-chunk",
    /// A later chunk repeats only what its opener established (patterns/streaming, "Continuation chunks").
    ChunkConflict = "chunk-conflict",
    /// A chunk that carries neither an id nor an owner continues exactly one item (patterns/streaming, "Closing a chunk
    /// stream").
    AmbiguousChunk = "ambiguous-chunk",
    /// Chunks are expanded before verification (patterns/streaming, "The chunked form").
    UnexpandedChunk = "unexpanded-chunk",
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A rule that a producer broke. The stream is not to be trusted from here on; what was delivered before stays
/// delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("event {event} breaks the rule {rule}: {message}")]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What is wrong with which event, and what was expected. One line of at most 4096 bytes, whatever the peer wrote.
    pub message: String,
    /// The event, counted from 0.
    pub event: usize,
}

impl Violation {
    pub(crate) fn new(rule: Rule, event: usize, message: impl Into<String>) -> Self {
        Self { rule, message: sentence(message.into()), event }
    }
}
