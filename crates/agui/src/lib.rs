//! AG-UI 1.0 without I/O: bytes come in as arguments, events come out.
//!
//! - [`Event`] and its 31 structs, [`Message`], [`RunAgentInput`]: the types, exactly as the schema has them;
//! - [`SseDecoder`], [`SseEncoder`]: reading and writing Server-Sent Events, at any split of the bytes;
//! - [`proto`]: reading and writing the binary form, one protobuf message a frame;
//! - [`Consumer`]: what a client makes of a stream — decoding, retired shapes, [`Middleware`], enforcement, chunk
//!   expansion and verification, in the order of basic/processing;
//! - [`Reducer`]: the messages and the state that a client holds; [`Consumer::reduce`] is the short way to them;
//! - [`Outgoing`]: what a client sends, checked and translated before it is sent; [`Pending`]: what a thread waits for once
//!   a run has ended;
//! - [`check`]: all of it over a recorded stream, as a report;
//! - [`producer`]: sending streams — handles that make an illegal one unwritable where types can, and a guard with the
//!   consumer's rules for events that arrive as data;
//! - [`Declaration`], [`Downgrade`]: what a peer says of its version, and what one from before 1.0 is sent instead;
//! - [`CallUsage`], [`UsageLedger`]: counting tokens so that none is counted twice.
//!
//! Section names such as "events/lifecycle" are pages of the AG-UI 1.0 specification.

mod any_value;
mod capabilities;
mod check;
mod chunks;
mod consumer;
mod conversation;
mod decode;
mod downgrade;
mod ending;
mod enforce;
mod event;
mod events;
mod flat;
mod input;
mod items;
mod message;
mod middleware;
mod object;
mod outcome;
mod outgoing;
mod part;
mod patch;
mod pending;
mod places;
pub mod producer;
pub mod proto;
mod reducer;
mod retired;
mod schema;
mod sse;
mod unreadable;
mod usage;
mod verify;
mod version;
mod violation;
mod warning;

pub use capabilities::{
    AgentCapabilities, CapabilitiesError, ExecutionCapabilities, HumanInTheLoopCapabilities, IdentityCapabilities,
    MultiAgentCapabilities, MultimodalCapabilities, MultimodalInputCapabilities, MultimodalOutputCapabilities,
    OutputCapabilities, ReasoningCapabilities, StateCapabilities, SubagentInfo, ToolsCapabilities,
    TransportCapabilities,
};
pub use check::*;
pub use chunks::ChunkExpander;
pub use consumer::{Consumer, ConsumerOptions, Delivered, Rejected, StreamEnd};
pub use decode::{Decoded, decode_event, decode_value};
pub use downgrade::{CANCELLED_CODE, COPILOTKIT_CANCELLED_CODE, Downgrade, Peer};
pub use ending::{Ending, RunEnding, RunRecord, Truncation};
pub use event::{Event, EventType, UnknownEventType};
pub use events::*;
pub use input::{Context, InputError, RunAgentInput, Tool};
pub use message::*;
pub use middleware::Middleware;
pub use outcome::*;
pub use outgoing::{
    AgentVersion, Outgoing, OutgoingError, OutgoingRule, OutgoingWarning, PreparedInput, UnknownAgentVersion,
};
pub use pending::{Pending, PendingToolCall};
pub use reducer::Reducer;
pub use sse::{SseDecoder, SseEncoder, SseError, SseEvent, SseEventRef, SseEvents};
pub use unreadable::ReaderLimit;
pub use usage::{CallUsage, MAX_TOKENS, Part, TokenUsage, UsageError, UsageLedger};
pub use verify::Verifier;
pub use version::{Declaration, PROTOCOL_VERSION, ProtocolVersion, UninterpretableVersion};
pub use violation::{Rule, Violation};
pub use warning::{Warning, WarningRule};
