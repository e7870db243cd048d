//! What a producer is told when something cannot be sent.

use super::open::OpenItem;
use super::run::{Producer, Run};
use crate::usage::UsageError;
use crate::violation::Violation;

/// An event was not sent. The stream is what it was before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProduceError {
    /// The run that the handle belongs to has ended.
    #[error("the run has ended; nothing more can be sent of it")]
    Ended,
    /// The subagent that the handle belongs to has ended.
    #[error("subagent '{0}' has ended; nothing more can be sent of it")]
    SubagentEnded(String),
    /// A consumer would have rejected the stream for it.
    #[error("the event was not sent: {0}")]
    Refused(#[from] Violation),
    /// Token usage that does not add up was not counted.
    #[error("the usage was not counted: {0}")]
    Usage(#[from] UsageError),
}

/// Why a run cannot finish as asked. Nothing was sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FinishError {
    /// What the run opened has to be closed first; or the run cancelled, which closes it, or failed.
    #[error("the run cannot finish while it has something open: {}", list(.0))]
    StillOpen(Vec<OpenItem>),
    /// A consumer would have rejected the ending.
    #[error("the run cannot finish so: {0}")]
    Refused(#[from] Violation),
}

fn list(items: &[OpenItem]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A run that did not finish, handed back to be closed, cancelled or failed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotFinished {
    /// The run, as it was.
    pub run: Run,
    /// Why.
    pub error: FinishError,
}

/// A run that did not start. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("the run was not started: {violation}")]
pub struct NotStarted {
    /// The stream, as it was.
    pub producer: Producer,
    /// The rule that a consumer would have rejected the stream for.
    pub violation: Violation,
}
