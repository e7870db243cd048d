//! Why following a run was given up.

use std::time::Duration;

use runwire_frame::DecodeError;

use crate::Disconnect;

/// Following a run was given up: connecting again cannot help, or was not allowed to go on. What was delivered before
/// stays delivered, and the stream's cursor says how far that is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The token was missing or is not accepted (HTTP 401 or 403, WebSocket 4401).
    #[error("the server does not accept the token: {detail}; pass a token that may read the run")]
    Unauthorized {
        /// What the server said about it.
        detail: String,
    },
    /// The server did not get the first message of a WebSocket in time, again and again (WebSocket 4401). Whether the
    /// token is good was never looked at.
    #[error(
        "the server did not get the first message of the WebSocket in time, {tries} times in a row: {detail}; is the line to it slow, does something on the way hold messages back, or is one of the two overloaded?"
    )]
    AuthLate {
        /// How many connections in a row ended so.
        tries: u32,
        /// What the server said about it.
        detail: String,
    },
    /// There is no such run, or the token may not see it; the two cannot be told apart (HTTP 404, WebSocket 4404).
    #[error("there is no run `{run_id}` on this server, or the token may not see it")]
    RunNotFound {
        /// The run that was asked for.
        run_id: String,
    },
    /// There is no such session, or the token may not see it; the two cannot be told apart (HTTP 404).
    #[error("there is no session `{session_id}` on this server, or the token may not see it")]
    SessionNotFound {
        /// The session that was asked for.
        session_id: String,
    },
    /// Retention dropped frames that the cursor still needs (HTTP 410, guarantee G7).
    #[error(
        "frames after the cursor of run `{run_id}` are no longer kept{}; start again from what is left",
        .oldest.map_or(String::new(), |seq| format!(", the oldest left is {seq}"))
    )]
    Gone {
        /// The run that was asked for.
        run_id: String,
        /// The oldest `seq` that is left, if the server said.
        oldest: Option<u64>,
    },
    /// The cursor is past the end of what the log holds (HTTP 416, guarantee G7): it belongs to another run or server.
    #[error(
        "the cursor is past the head of run `{run_id}`{}; it belongs to another run or another server",
        .head.map_or(String::new(), |seq| format!(", which is {seq}"))
    )]
    PastHead {
        /// The run that was asked for.
        run_id: String,
        /// The `seq` of the run's newest frame, if the server said.
        head: Option<u64>,
    },
    /// The server does not speak frame protocol v2 (WebSocket 4409).
    #[error("the server does not speak frame protocol v2: {detail}")]
    ProtocolUnsupported {
        /// What the server said about it.
        detail: String,
    },
    /// The server refused the stream for another reason.
    #[error("the server refused to stream run `{run_id}`: {detail}")]
    Refused {
        /// The run that was asked for.
        run_id: String,
        /// The HTTP status, when it was HTTP that refused.
        status: Option<u16>,
        /// What the server said about it.
        detail: String,
    },
    /// The answer was no event stream: something else than a Runwire server answered.
    #[error("{url} answered with `{content_type}` and no event stream; is that the address of a Runwire server?")]
    NotAnEventStream {
        /// What was asked.
        url: String,
        /// What the answer said it was.
        content_type: String,
    },
    /// What came is no frame of protocol version 2.
    #[error("what came after frame {after} is no frame of protocol version 2: {source}")]
    BadFrame {
        /// The cursor before it.
        after: u64,
        /// Which rule it breaks.
        source: DecodeError,
    },
    /// What came on a session's stream is no frame of protocol version 2.
    #[error("what came after the cursor {after} is no frame of protocol version 2: {source}")]
    BadSessionFrame {
        /// The cursor before it, over all runs of the session.
        after: String,
        /// Which rule it breaks.
        source: DecodeError,
    },
    /// What came breaks the rules of the transport: SSE that is not UTF-8, a binary WebSocket message.
    #[error("what the server sent breaks the transport's rules: {problem}")]
    BadTransport {
        /// Which rule it breaks.
        problem: String,
    },
    /// An AG-UI event whose `id` is no position in the run.
    #[error("what came after event {} is no event of a resumable stream: {problem}", .after.as_deref().unwrap_or("0"))]
    BadEvent {
        /// The `id` of the last delivered event.
        after: Option<String>,
        /// What is wrong with it.
        problem: String,
    },
    /// A frame or event is larger than this follower takes.
    #[error("the server sent an event of more than {limit} bytes; raise `max_event_bytes` to take it")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A frame of another run came.
    #[error("frame {seq} is of run `{got}`, and run `{expected}` is followed")]
    WrongRun {
        /// The run that is followed.
        expected: String,
        /// The run that the frame names.
        got: String,
        /// The frame's position.
        seq: u64,
    },
    /// The same frame was missing again after resuming: the log has a hole. Nothing after the hole was delivered.
    #[error("frame {expected} is missing, also after asking for it again: frame {got} came in its place")]
    Gap {
        /// The `seq` that should have come.
        expected: u64,
        /// The `seq` that came.
        got: u64,
    },
    /// The server says that the run has ended, and not one frame of it was received.
    #[error("the server says that nothing of run `{run_id}` is left to read, and nothing of it was ever received")]
    EndedUnread {
        /// The run that was asked for.
        run_id: String,
    },
    /// The connection could not be restored within [`Backoff::max_elapsed`](crate::Backoff::max_elapsed).
    #[error("gave up after {} s without a working connection: {last}", .elapsed.as_secs_f64())]
    GaveUp {
        /// Time since the connection was lost.
        elapsed: Duration,
        /// Why the last try failed.
        last: Disconnect,
    },
}
