//! Following a run's log over frame protocol v2.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _, unfold};
use runwire_frame::{Data, ErrorCode, Frame, Incoming};

use crate::cursor::{Arrival, Cursor};
use crate::disconnect::Stop;
use crate::reconnect::{Arrived, Reading, Reconnect, Step};
use crate::sse::SseConnection;
use crate::websocket::WebSocketConnection;
use crate::{Backoff, Disconnect, FollowError, Server};

/// Longest silence before a connection counts as dead. The server gives a sign of life every 15 s.
pub(crate) const IDLE: Duration = Duration::from_secs(45);

/// Most bytes of one frame or event, unless told otherwise.
pub(crate) const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// So many connections in a row may end because the first message came too late. It came late because a line or a machine is
/// slow, which passes, or because something on the way lets no message through, which does not.
const LATE_MAX: u32 = 10;

/// What carries the frames. Both carry the same bytes (guarantee G3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Server-sent events.
    #[default]
    Sse,
    /// A WebSocket.
    WebSocket,
}

/// How to follow a run; [`Follow::start`] begins.
#[derive(Clone, Debug)]
#[must_use = "nothing is followed until `start`"]
pub struct Follow {
    server: Server,
    run_id: String,
    after: u64,
    transport: Transport,
    backoff: Backoff,
    idle: Duration,
    max_event_bytes: usize,
}

impl Follow {
    pub(crate) fn new(server: Server, run_id: String) -> Follow {
        Follow {
            server,
            run_id,
            after: 0,
            transport: Transport::default(),
            backoff: Backoff::default(),
            idle: IDLE,
            max_event_bytes: MAX_EVENT_BYTES,
        }
    }

    /// Begin after the frame with this `seq`: a cursor that was kept from earlier. 0, the default, is the run's beginning.
    pub fn after(mut self, seq: u64) -> Follow {
        self.after = seq;
        self
    }

    /// What carries the frames; SSE unless told otherwise.
    pub fn transport(mut self, transport: Transport) -> Follow {
        self.transport = transport;
        self
    }

    /// How to wait between connections.
    pub fn backoff(mut self, backoff: Backoff) -> Follow {
        self.backoff = backoff;
        self
    }

    /// Longest silence before a connection counts as dead; 45 s unless told otherwise. Less than the 15 s between two
    /// signs of life of the server cuts healthy connections.
    pub fn idle(mut self, idle: Duration) -> Follow {
        self.idle = idle;
        self
    }

    /// Most bytes of one frame; 64 MiB unless told otherwise. A larger one is [`FollowError::TooLarge`].
    pub fn max_event_bytes(mut self, bytes: usize) -> Follow {
        self.max_event_bytes = bytes;
        self
    }

    /// The run's frames. Nothing is sent before the stream is polled; it must be polled within a Tokio runtime.
    pub fn start(self) -> FrameStream {
        let reading = FrameReading {
            server: self.server,
            run_id: self.run_id,
            transport: self.transport,
            cursor: Cursor::new(self.after),
            ended: false,
            late: 0,
            max_event_bytes: self.max_event_bytes,
        };
        let reconnect = Reconnect::new(reading, self.backoff, self.idle);
        let steps = unfold(reconnect, |mut reconnect| async move {
            let step = reconnect.next().await?;
            let after = reconnect.reading().cursor.at();
            let followed = step.map(|step| match step {
                Step::Connected => Followed::Connected { after },
                Step::Disconnected { reason, retry_in } => Followed::Disconnected { after, reason, retry_in },
                Step::Item((body, frame)) => Followed::Frame { seq: frame.seq, body, frame },
            });
            Some((followed, reconnect))
        });
        FrameStream { cursor: self.after, steps: steps.boxed() }
    }
}

/// What a [`FrameStream`] tells.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly every value is a frame; boxing it would cost an allocation each")]
pub enum Followed {
    /// The next frame: in order, without a gap, once.
    Frame {
        /// Its position in the run's log.
        seq: u64,
        /// Its body, exactly as received (guarantee G3).
        body: Bytes,
        /// What the body says.
        frame: Frame,
    },
    /// A connection is open, and goes on behind the frame `after`.
    Connected {
        /// The cursor.
        after: u64,
    },
    /// The connection was lost, or did not come about; another try follows.
    Disconnected {
        /// The cursor.
        after: u64,
        /// Why.
        reason: Disconnect,
        /// Time until the next try.
        retry_in: Duration,
    },
}

/// A run's frames, in order, without gap or duplicate, across connections (guarantees G1 and G2).
///
/// The stream ends after `run.end` was delivered, after an error, or when the server says that nothing is left behind
/// the cursor. It reads only when polled; dropping it closes the connection and never cancels the run (G9).
pub struct FrameStream {
    cursor: u64,
    steps: BoxStream<'static, Result<Followed, FollowError>>,
}

impl FrameStream {
    /// The `seq` of the last frame that this stream gave out (or what [`Follow::after`] said). Keep it, and a later
    /// [`Follow::after`] goes on at the very next frame.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }
}

impl Stream for FrameStream {
    type Item = Result<Followed, FollowError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let followed = ready!(self.steps.poll_next_unpin(cx));
        if let Some(Ok(Followed::Frame { seq, .. })) = followed {
            self.cursor = seq;
        }
        Poll::Ready(followed)
    }
}

impl fmt::Debug for FrameStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameStream").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// The log of one run as a resumable stream.
struct FrameReading {
    server: Server,
    run_id: String,
    transport: Transport,
    cursor: Cursor,
    /// Whether `run.end` was delivered.
    ended: bool,
    /// How many connections ended because the first message came too late, since the server last took one.
    late: u32,
    max_event_bytes: usize,
}

#[allow(clippy::large_enum_variant, reason = "there is one of them for each stream")]
enum Connection {
    Sse(SseConnection),
    WebSocket(WebSocketConnection),
}

impl Reading for FrameReading {
    type Connection = Connection;
    type Item = (Bytes, Frame);

    async fn connect(&mut self) -> Result<Connection, Stop> {
        let after = self.cursor.at();
        let path = |end| ["v2", "runs", self.run_id.as_str(), end];
        let connection = match self.transport {
            Transport::Sse => {
                let url = self.server.url(&path("stream"));
                let last_event_id = (after > 0).then(|| after.to_string());
                SseConnection::open(&self.server, url, &self.run_id, last_event_id, self.max_event_bytes)
                    .await
                    .map(Connection::Sse)
            }
            Transport::WebSocket => {
                let url = self.server.websocket_url(&path("ws"));
                WebSocketConnection::open(&self.server, url, &self.run_id, after, self.max_event_bytes)
                    .await
                    .map(Connection::WebSocket)
            }
        };
        connection.map_err(|stop| self.checked(stop))
    }

    async fn read(&mut self, connection: &mut Connection) -> Result<Arrived<(Bytes, Frame)>, Stop> {
        if self.ended {
            // Nothing follows `run.end`; whatever the connection still holds is of no interest.
            return Err(Stop::Ended);
        }
        let arrived = match connection {
            Connection::Sse(connection) => match connection.next().await? {
                Arrived::Item(event) => Arrived::Item(Bytes::from(event.data)),
                Arrived::Retry(floor) => Arrived::Retry(floor),
                Arrived::Alive => Arrived::Alive,
            },
            Connection::WebSocket(connection) => connection.next().await.map_err(|stop| self.checked(stop))?,
        };
        match arrived {
            Arrived::Item(body) => self.arrive(body),
            Arrived::Retry(floor) => Ok(Arrived::Retry(floor)),
            Arrived::Alive => {
                // Over a WebSocket that is a ping, and those come only behind a first message that was taken.
                self.late = 0;
                Ok(Arrived::Alive)
            }
        }
    }
}

impl FrameReading {
    /// A log begins with `run.start`, so a run that ended has at least that; a server that says otherwise must not make
    /// the run look like an empty one.
    fn checked(&self, stop: Stop) -> Stop {
        match stop {
            Stop::Ended if self.cursor.at() == 0 => FollowError::EndedUnread { run_id: self.run_id.clone() }.into(),
            stop => stop,
        }
    }

    /// Coming back helps against a first message that was late, but not for ever.
    fn unless_always_late(&mut self, stop: Stop) -> Stop {
        let Stop::Cut { reason: Disconnect::ConnectionError { code: ErrorCode::AuthFailed, message }, .. } = &stop
        else {
            return stop;
        };
        self.late += 1;
        if self.late < LATE_MAX {
            return stop;
        }
        FollowError::AuthLate { tries: self.late, detail: message.clone() }.into()
    }

    /// Judges one received body.
    fn arrive(&mut self, body: Bytes) -> Result<Arrived<(Bytes, Frame)>, Stop> {
        let frame = match Incoming::decode(&body) {
            Ok(Incoming::Frame(frame)) => frame,
            Ok(Incoming::ConnectionError(error)) => {
                let stop = crate::websocket::connection_error(&self.run_id, error);
                return Err(self.unless_always_late(stop));
            }
            Err(source) => return Err(FollowError::BadFrame { after: self.cursor.at(), source }.into()),
        };
        if *frame.run_id != *self.run_id {
            let (expected, got) = (self.run_id.clone(), frame.run_id.to_string());
            return Err(FollowError::WrongRun { expected, got, seq: frame.seq }.into());
        }
        self.late = 0;
        match self.cursor.arrive(frame.seq) {
            Arrival::Next => {
                self.ended = matches!(frame.data, Data::RunEnd(_));
                Ok(Arrived::Item((body, frame)))
            }
            Arrival::Duplicate => Ok(Arrived::Alive),
            Arrival::Gap { expected, again: true } => Err(FollowError::Gap { expected, got: frame.seq }.into()),
            Arrival::Gap { expected, again: false } => Err(Disconnect::Gap { expected, got: frame.seq }.into()),
        }
    }
}
