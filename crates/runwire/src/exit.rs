//! Exit codes: how the run ended, for scripts.

use std::process::ExitCode;

use runwire_frame::{EndStatus, RunStatus};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: what was asked for is done; the run completed; the stream conforms.
    Done = 0,
    /// 1: the run failed; the stream does not conform.
    Failed = 1,
    /// 2: it could not be done: wrong usage, no server, no such run.
    CouldNot = 2,
    /// 3: the run was cancelled.
    Cancelled = 3,
    /// 4: the run waits for an answer.
    Suspended = 4,
    /// 5: the run's AG-UI stream breaks a rule and was rejected.
    Rejected = 5,
    /// 6: the run's AG-UI stream stops short: how the run ended is not known.
    Truncated = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl From<EndStatus> for Exit {
    fn from(status: EndStatus) -> Exit {
        match status {
            EndStatus::Completed => Exit::Done,
            EndStatus::Failed => Exit::Failed,
            EndStatus::Cancelled => Exit::Cancelled,
        }
    }
}

/// The exit for a run that stands so, if it has ended or waits.
pub fn of_status(status: RunStatus) -> Option<Exit> {
    match status {
        RunStatus::Completed => Some(Exit::Done),
        RunStatus::Failed => Some(Exit::Failed),
        RunStatus::Cancelled => Some(Exit::Cancelled),
        RunStatus::Suspended => Some(Exit::Suspended),
        RunStatus::Queued | RunStatus::Running | RunStatus::Retrying | RunStatus::Cancelling => None,
    }
}
