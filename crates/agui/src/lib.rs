//! AG-UI 1.0 without I/O: bytes come in as arguments, events come out.
//!
//! - [`Event`] and its 31 structs, [`Message`], [`RunAgentInput`]: the types, exactly as the schema has them;
//! - [`SseDecoder`], [`SseEncoder`]: reading and writing Server-Sent Events, at any split of the bytes;
//! - [`proto`]: reading and writing the binary form, one protobuf message a frame;
//! - [`Consumer`]: what a client makes of a stream — decoding, retired shapes, [`Middleware`], enforcement, chunk
//!   expansion and verification, in the order of basic/processing;
//! - [`Reducer`]: the messages and the state that a client holds;
//! - [`check`]: all of it over a recorded stream, as a report.
//!
//! Section names such as "events/lifecycle" are pages of the AG-UI 1.0 specification.

mod capabilities;
mod check;
mod chunks;
mod consumer;
mod conversation;
mod decode;
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
mod patch;
pub mod proto;
mod reducer;
mod retired;
mod schema;
mod sse;
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
pub use ending::{Ending, RunEnding, RunRecord, Truncation};
pub use event::{Event, EventType, UnknownEventType};
pub use events::*;
pub use input::{Context, InputError, RunAgentInput, Tool};
pub use message::*;
pub use middleware::Middleware;
pub use outcome::*;
pub use reducer::Reducer;
pub use sse::{SseDecoder, SseEncoder, SseError, SseEvent, SseEventRef, SseEvents};
pub use usage::TokenUsage;
pub use verify::Verifier;
pub use version::{PROTOCOL_VERSION, ProtocolVersion, UninterpretableVersion};
pub use violation::{Rule, Violation};
pub use warning::{Warning, WarningRule};
