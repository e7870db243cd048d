//! AG-UI 1.0 without I/O: bytes come in as arguments, events come out.
//!
//! - [`Event`] and its 31 structs, [`Message`], [`RunAgentInput`]: the types, exactly as the schema has them;
//! - [`sse`]: reading and writing Server-Sent Events, at any split of the bytes;
//! - [`Consumer`]: what a client makes of a stream — decoding, retired shapes, enforcement, chunk expansion and
//!   verification, in the order of basic/processing;
//! - [`Reducer`]: the messages and the state that a client holds;
//! - [`check`]: all of it over a recorded stream, as a report.
//!
//! Section names such as "events/lifecycle" are pages of the AG-UI 1.0 specification.

pub mod decode;
mod enforce;
mod event;
mod input;
mod message;
mod object;
mod outcome;
mod patch;
mod retired;
mod schema;
mod usage;
mod version;
mod violation;
mod warning;

pub use decode::{Decoded, decode_event};
pub use event::*;
pub use input::{Context, InputError, RunAgentInput, Tool};
pub use message::*;
pub use outcome::*;
pub use usage::TokenUsage;
pub use version::{PROTOCOL_VERSION, ProtocolVersion};
pub use violation::{Rule, Violation};
pub use warning::{Warning, WarningRule};
