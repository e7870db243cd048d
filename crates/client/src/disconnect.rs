//! Why a connection was lost, when the follower repairs that by itself.

use std::time::Duration;

/// Why a connection was lost or did not come about. None of these loses a frame: the follower resumes from its cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disconnect {
    /// No connection to the server came about.
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    /// The server ended the stream in good order before the run ended, as it does when it recycles connections.
    #[error("the server closed the stream before the run ended")]
    Closed,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Reset(String),
    /// Nothing came for so long, neither a frame nor a sign of life, that the connection must be dead.
    #[error("nothing came from the server for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The server answered that it cannot serve the stream now.
    #[error("the server answered {status}: {detail}")]
    Status {
        /// The HTTP status: 408, 425, 429 or 5xx.
        status: u16,
        /// What it said about it.
        detail: String,
    },
    /// The server closed the WebSocket with a code that does not forbid to come back.
    #[error("the server closed the WebSocket with code {code}: {reason}")]
    WebSocketClosed {
        /// The close code.
        code: u16,
        /// What it said about it; may be empty.
        reason: String,
    },
    /// The server reported an error of the connection itself that may pass.
    #[error("the server reported {code}: {message}")]
    ConnectionError {
        /// One of the fifteen codes.
        code: runwire_frame::ErrorCode,
        /// What happened, for a person.
        message: String,
    },
    /// Frames were missing. They were not skipped: the follower asks for them again.
    #[error("frame {expected} should have come, and frame {got} came")]
    Gap {
        /// The `seq` that should have come.
        expected: u64,
        /// The `seq` that came.
        got: u64,
    },
}

/// What ends a connection, and what follows from it.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Connect again. `retry_after` is the wait that the server asked for.
    Cut { reason: Disconnect, retry_after: Option<Duration> },
    /// The server says that nothing is after the cursor, and nothing will be.
    Ended,
    /// Connecting again cannot help.
    Fatal(crate::FollowError),
}

impl From<Disconnect> for Stop {
    fn from(reason: Disconnect) -> Stop {
        Stop::Cut { reason, retry_after: None }
    }
}

impl From<crate::FollowError> for Stop {
    fn from(error: crate::FollowError) -> Stop {
        Stop::Fatal(error)
    }
}

/// The innermost cause of an error: what a person can act on, where the outer ones only say which layer noticed.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
