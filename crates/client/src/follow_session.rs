//! Following all runs of a session over one connection.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _, unfold};
use runwire_agui::SseEvent;
use runwire_frame::Frame;

use crate::cursor::{Arrival, Cursor};
use crate::disconnect::Stop;
use crate::follow::{IDLE, MAX_EVENT_BYTES};
use crate::reconnect::{Arrived, Reading, Reconnect, Step};
use crate::sse::SseConnection;
use crate::{Backoff, Disconnect, FollowError, Server};

/// How to follow a session; [`FollowSession::start`] begins.
#[derive(Clone, Debug)]
#[must_use = "nothing is followed until `start`"]
pub struct FollowSession {
    server: Server,
    session_id: String,
    after: Option<String>,
    backoff: Backoff,
    idle: Duration,
    max_event_bytes: usize,
}

impl FollowSession {
    pub(crate) fn new(server: Server, session_id: String) -> FollowSession {
        FollowSession {
            server,
            session_id,
            after: None,
            backoff: Backoff::default(),
            idle: IDLE,
            max_event_bytes: MAX_EVENT_BYTES,
        }
    }

    /// Begin behind this cursor, kept from earlier ([`SessionStream::cursor`]). `None`, the default, is the session's
    /// first run.
    pub fn after(mut self, cursor: Option<String>) -> FollowSession {
        self.after = cursor;
        self
    }

    /// How to wait between connections.
    pub fn backoff(mut self, backoff: Backoff) -> FollowSession {
        self.backoff = backoff;
        self
    }

    /// As [`Follow::idle`](crate::Follow::idle).
    pub fn idle(mut self, idle: Duration) -> FollowSession {
        self.idle = idle;
        self
    }

    /// As [`Follow::max_event_bytes`](crate::Follow::max_event_bytes).
    pub fn max_event_bytes(mut self, bytes: usize) -> FollowSession {
        self.max_event_bytes = bytes;
        self
    }

    /// The frames of the session's runs. Nothing is sent before the stream is polled; it must be polled within a Tokio
    /// runtime.
    pub fn start(self) -> SessionStream {
        let reading = SessionReading {
            server: self.server,
            session_id: self.session_id,
            runs: self.after.as_deref().map(places).unwrap_or_default(),
            after: self.after.clone(),
            max_event_bytes: self.max_event_bytes,
        };
        let reconnect = Reconnect::new(reading, self.backoff, self.idle);
        let steps = unfold(reconnect, |mut reconnect| async move {
            let step = reconnect.next().await?;
            let followed = step.map(|step| {
                let after = || reconnect.reading().after.clone();
                match step {
                    Step::Connected => SessionFollowed::Connected { after: after() },
                    Step::Disconnected { reason, retry_in } => {
                        SessionFollowed::Disconnected { after: after(), reason, retry_in }
                    }
                    Step::Item((cursor, body, frame)) => SessionFollowed::Frame { cursor, body, frame },
                }
            });
            Some((followed, reconnect))
        });
        SessionStream { cursor: self.after, steps: steps.boxed() }
    }
}

/// What a [`SessionStream`] tells.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly every value is a frame; boxing it would cost an allocation each")]
pub enum SessionFollowed {
    /// The next frame of one of the runs: of each run in order, without a gap, once.
    Frame {
        /// The place behind it, over all runs of the session.
        cursor: String,
        /// Its body, exactly as received (guarantee G3).
        body: Bytes,
        /// What the body says; `run_id` is its run.
        frame: Frame,
    },
    /// A connection is open, and goes on behind the cursor `after`.
    Connected {
        /// The cursor.
        after: Option<String>,
    },
    /// The connection was lost, or did not come about; another try follows.
    Disconnected {
        /// The cursor.
        after: Option<String>,
        /// Why.
        reason: Disconnect,
        /// Time until the next try.
        retry_in: Duration,
    },
}

/// The frames of a session's runs, of each run in order and without gap or duplicate, across connections (guarantees G1
/// and G2). Runs come in the order of their creation; those that go on at the same time interleave, and a new one comes by
/// itself.
///
/// The stream ends after an error only: a session has no end. It reads only when polled; dropping it closes the connection
/// and cancels no run (G9).
pub struct SessionStream {
    cursor: Option<String>,
    steps: BoxStream<'static, Result<SessionFollowed, FollowError>>,
}

impl SessionStream {
    /// The place behind the last frame that this stream gave out (or what [`FollowSession::after`] said). Keep it, and a
    /// later [`FollowSession::after`] goes on at the very next frame.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
}

impl Stream for SessionStream {
    type Item = Result<SessionFollowed, FollowError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let followed = ready!(self.steps.poll_next_unpin(cx));
        if let Some(Ok(SessionFollowed::Frame { cursor, .. })) = &followed {
            self.cursor = Some(cursor.clone());
        }
        Poll::Ready(followed)
    }
}

impl fmt::Debug for SessionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStream").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// How far each run is that a cursor names. A cursor that is none is for the server to refuse.
fn places(cursor: &str) -> HashMap<String, Cursor> {
    let places = cursor.split(',').filter_map(|place| {
        let (run_id, seq) = place.rsplit_once(':')?;
        Some((run_id.to_owned(), Cursor::new(seq.parse().ok()?)))
    });
    places.collect()
}

/// The runs of a session as one resumable stream.
struct SessionReading {
    server: Server,
    session_id: String,
    /// The `id` of the last delivered frame.
    after: Option<String>,
    /// One number for each run that frames came of.
    runs: HashMap<String, Cursor>,
    max_event_bytes: usize,
}

impl Reading for SessionReading {
    type Connection = SseConnection;
    type Item = (String, Bytes, Frame);

    async fn connect(&mut self) -> Result<SseConnection, Stop> {
        let url = self.server.url(&["v2", "sessions", &self.session_id, "stream"]);
        let opened = SseConnection::open(&self.server, url, &self.session_id, self.after.clone(), self.max_event_bytes);
        opened.await.map_err(|stop| match stop {
            Stop::Fatal(FollowError::RunNotFound { .. }) => {
                FollowError::SessionNotFound { session_id: self.session_id.clone() }.into()
            }
            // A session has no end that a server could tell of.
            Stop::Ended => FollowError::Refused {
                run_id: self.session_id.clone(),
                status: Some(204),
                detail: "it says that the session has ended, which no session does".to_owned(),
            }
            .into(),
            stop => stop,
        })
    }

    async fn read(&mut self, connection: &mut SseConnection) -> Result<Arrived<Self::Item>, Stop> {
        match connection.next().await? {
            Arrived::Item(event) => self.arrive(event),
            Arrived::Retry(floor) => Ok(Arrived::Retry(floor)),
            Arrived::Alive => Ok(Arrived::Alive),
        }
    }
}

impl SessionReading {
    /// Judges one received event.
    fn arrive(&mut self, event: SseEvent) -> Result<Arrived<(String, Bytes, Frame)>, Stop> {
        let body = Bytes::from(event.data);
        let frame = Frame::decode(&body).map_err(|source| {
            let after = self.after.as_deref().unwrap_or("0").to_owned();
            FollowError::BadSessionFrame { after, source }
        })?;
        // Without a cursor of its own a frame could not be gone on from.
        let cursor = event.id.filter(|id| names(id, &frame)).ok_or_else(|| FollowError::BadEvent {
            after: self.after.clone(),
            problem: format!("its id does not say that it is frame {} of run `{}`", frame.seq, frame.run_id),
        })?;
        let run = self.runs.entry(frame.run_id.to_string()).or_insert_with(|| Cursor::new(0));
        match run.arrive(frame.seq) {
            Arrival::Next => {
                self.after = Some(cursor.clone());
                Ok(Arrived::Item((cursor, body, frame)))
            }
            Arrival::Duplicate => Ok(Arrived::Alive),
            Arrival::Gap { expected, again: true } => Err(FollowError::Gap { expected, got: frame.seq }.into()),
            Arrival::Gap { expected, again: false } => Err(Disconnect::Gap { expected, got: frame.seq }.into()),
        }
    }
}

fn names(cursor: &str, frame: &Frame) -> bool {
    let place = format!("{}:{}", frame.run_id, frame.seq);
    cursor.split(',').any(|named| named == place)
}
