//! The durable log: runs, their frames, sessions, exchanges and payloads, in one SQLite file.
//!
//! This crate knows nothing of HTTP, of drivers, or of what a frame says. A frame's body is opaque
//! bytes with a `seq`; the one thing the store knows of the wire is how a body is wrapped as an SSE
//! event, so that the wrapping too is done once and shared by every reader ([`Entry`]).
//!
//! What it guarantees, by the numbers of the protocol document:
//!
//! - **G1, G2**: a run's frames are `1, 2, 3, …`. An [`Append`] that does not begin at exactly the next
//!   `seq`, or that comes from an [`Appender`] which is no longer the run's owner, is refused.
//! - **G4**: [`Store::tail`] starts at any cursor from 0 to the head, of a live run or an ended one.
//! - **G5**: a frame is published to tails only after the transaction that holds it has committed.
//! - **G6**: once a run's `ended_at` is set nothing can be appended to it, and every tail ends.
//! - **G7**: a cursor that cannot be served is an error that says which `seq` can, never a skipped frame.
//! - **G8**: a tail is a cursor, not a queue. A slow one falls back to reading pages from the file.
//!
//! # How it works
//!
//! One thread owns the only connection that writes. It takes whatever is waiting, over all runs, and
//! commits it as one transaction. Then, and only then, it publishes the frames to the runs' in-memory
//! rings, wakes the tails, and reports the progress to the appenders. A few read-only connections serve
//! all reads, each on tokio's blocking pool, so every `async` method must be called inside a tokio runtime.

mod appender;
mod entry;
mod error;
mod frames;
mod inspection;
mod keys;
mod live;
mod lock;
mod page_cache;
mod probe;
mod progress;
mod prompts;
mod readers;
mod record;
mod retention;
mod runs;
mod schema;
mod sessions;
mod spending;
mod standing;
mod store;
mod tail;
mod upkeep;
mod writer;

pub use appender::{Append, Appender, NewFrame, NewPayload, RunUpdate};
pub use entry::Entry;
pub use error::{
    AddExchangeError, AppendError, CreateError, KeyError, OpenError, OwnershipError, ReadError, RemoveError,
    StorageFailure, TailError, TrimError,
};
pub use inspection::{Fault, InspectedPayload, InspectedRun, Inspection};
pub use progress::Progress;
pub use prompts::MIN_SEARCHED;
pub use record::{
    Added, Created, ExchangeRecord, KeyedRun, NewRun, Payload, RequestKey, RunCursor, RunFilter, RunRecord,
    SessionRecord, Tombstone,
};
pub use retention::{EndedRun, Found, Keep, Removable, Retention};
pub use sessions::{SessionFilter, SessionSummary, SessionWatch};
pub use store::{Store, StoreOptions, Sync};
pub use tail::{Tail, TailEvents, TailItem};
