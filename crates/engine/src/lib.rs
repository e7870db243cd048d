//! The engine: executes runs as tasks that it owns, and writes their logs.
//!
//! A run is created in the store, then executed by its agent's [`Driver`] in a task of the engine. The driver writes
//! through a [`RunWriter`]; every frame is in the store before anybody can see it. Whatever the driver does — return,
//! fail, panic, hang after a stop — the engine brings the log to its proper end, and no other run notices.
//!
//! A client's connection is no part of this: a run neither needs a reader nor ends when one leaves (G9).

mod answers;
mod clock;
mod driver;
pub mod drivers;
mod engine;
mod execution;
mod in_hand;
mod recovery;
mod request;
mod said;
mod segment;
mod sweeper;
mod writer;

pub use clock::now;
pub use driver::{Agent, Driver, Exchange, Starting};
pub use engine::{CancelError, Engine, EngineOptions};
pub use recovery::{RecoverError, Recovered};
pub use request::{CreateRun, CreateRunError, RunRequest, Started};
pub use segment::{RecordedCall, Segment};
pub use sweeper::Swept;
pub use writer::{RunWriter, WriteError};
