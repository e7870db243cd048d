//! The bridge between the two protocols: AG-UI events into frames, and frames out to AG-UI events.
//!
//! - [`Recorder`] writes a run's log. Agents of this server write through its handles.
//! - [`Upstream`] and [`Ingest`] write an upstream agent's AG-UI events through the same recorder.
//! - [`Projection`] derives AG-UI events from the log: the way out, and the inverse of the ingest.
//! - [`History`] is what a client holds of a session: the fold of its runs' AG-UI events.
//! - [`LogState`] is what a log says so far: how a writer continues one that it did not begin.
//!
//! No I/O, no clock, no randomness.

mod asked;
mod coalescer;
mod ending;
mod foreign_code;
mod history;
mod ingest;
mod log_state;
mod projection;
mod question;
mod recorder;
mod replay;
mod segment;
mod tool_output;
mod upstream;
mod usage;

pub use asked::{ASKED_INPUT, asked_input};
pub use coalescer::{COALESCE_BYTES, COALESCE_MILLIS};
pub use ending::{Completion, Failure, Suspension};
pub use foreign_code::may_pass;
pub use history::{History, Surroundings, WaitingRun};
pub use ingest::Ingest;
pub use log_state::{LogState, LogStateError, WaitingCall};
pub use projection::{OwnNames, Projection, ProjectionError, StoredPayload, TOLD_NAMES};
pub use question::Question;
pub use recorder::{Agui, Pricing, Recorded, Recorder};
pub use replay::Replayed;
/// Whom a [`Projection`] is for.
pub use runwire_agui::Peer;
pub use segment::{Ending, Open, Opening, kind};
pub use tool_output::{PARTS_PAYLOAD, Payload, TEXT_PAYLOAD, ToolOutput};
pub use upstream::{AFTER_FINISH, ExchangeEnd, Truncation, Upstream, UpstreamStep, started_members};
pub use usage::{usage_from_agui, usage_to_agui};
