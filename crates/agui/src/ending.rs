//! What runs and streams come to.

use std::fmt;

/// How one run of a stream ended.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnding {
    /// It completed.
    Success,
    /// It waits for answers from outside.
    Interrupt,
    /// It was stopped on purpose: neither a success nor a failure.
    Cancelled,
    /// It reported its own failure with `RUN_ERROR`.
    Failed {
        /// What went wrong, in the producer's words.
        message: String,
        /// The producer's code for it.
        code: Option<String>,
    },
    /// Its ending was never received.
    Truncated,
}

impl RunEnding {
    /// The ending's stable name: `success`, `interrupt`, `cancelled`, `error` or `truncated`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Interrupt => "interrupt",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "error",
            Self::Truncated => "truncated",
        }
    }
}

/// One run of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run's thread; `None` for a failure before any run began.
    pub thread_id: Option<String>,
    /// The run; `None` for a failure before any run began.
    pub run_id: Option<String>,
    /// How it ended; [`RunEnding::Truncated`] as long as it has not.
    pub ending: RunEnding,
}

/// What a stream has come to when no more events follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run was closed.
    Closed,
    /// The stream stopped short. A truncated run has no outcome: neither success nor failure nor cancelled.
    Truncated(Truncation),
}

/// Where a stream stopped short (transports, "Truncation").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// It carried no event at all.
    NoEvents,
    /// A run was open.
    RunOpen {
        /// The run's thread.
        thread_id: String,
        /// The run.
        run_id: String,
    },
}

impl fmt::Display for Truncation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEvents => formatter.write_str("The stream ended before its first event."),
            Self::RunOpen { run_id, .. } => {
                write!(formatter, "The stream ended without a terminal event for run '{run_id}'.")
            }
        }
    }
}
