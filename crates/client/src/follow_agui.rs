//! Following a run as AG-UI events.
//!
//! The events are a pure function of the run's frames, so their stream resumes too: each carries `id: <seq>.<n>`, and
//! `Last-Event-ID` continues at the very next one.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::{BoxStream, Stream, StreamExt as _, unfold};
use runwire_agui::SseEvent;
use serde::Deserialize;

use crate::disconnect::Stop;
use crate::follow::{IDLE, MAX_EVENT_BYTES};
use crate::reconnect::{Arrived, Reading, Reconnect, Step};
use crate::sse::SseConnection;
use crate::{Backoff, Disconnect, FollowError, Server};

/// How to follow a run as AG-UI events; [`FollowAgui::start`] begins.
#[derive(Clone, Debug)]
#[must_use = "nothing is followed until `start`"]
pub struct FollowAgui {
    server: Server,
    run_id: String,
    last_event_id: Option<String>,
    backoff: Backoff,
    idle: Duration,
    max_event_bytes: usize,
}

impl FollowAgui {
    pub(crate) fn new(server: Server, run_id: String) -> FollowAgui {
        FollowAgui {
            server,
            run_id,
            last_event_id: None,
            backoff: Backoff::default(),
            idle: IDLE,
            max_event_bytes: MAX_EVENT_BYTES,
        }
    }

    /// Begin after the event with this `id`, kept from earlier. `None`, the default, is the run's beginning.
    pub fn last_event_id(mut self, id: Option<String>) -> FollowAgui {
        self.last_event_id = id;
        self
    }

    /// How to wait between connections.
    pub fn backoff(mut self, backoff: Backoff) -> FollowAgui {
        self.backoff = backoff;
        self
    }

    /// As [`Follow::idle`](crate::Follow::idle).
    pub fn idle(mut self, idle: Duration) -> FollowAgui {
        self.idle = idle;
        self
    }

    /// As [`Follow::max_event_bytes`](crate::Follow::max_event_bytes), for one event.
    pub fn max_event_bytes(mut self, bytes: usize) -> FollowAgui {
        self.max_event_bytes = bytes;
        self
    }

    /// The run's events. Nothing is sent before the stream is polled; it must be polled within a Tokio runtime.
    pub fn start(self) -> AguiStream {
        let reading = AguiReading {
            server: self.server,
            run_id: self.run_id,
            at: self.last_event_id.as_deref().and_then(Position::parse),
            last_event_id: self.last_event_id.clone(),
            came: None,
            closed_run: false,
            max_event_bytes: self.max_event_bytes,
        };
        let reconnect = Reconnect::new(reading, self.backoff, self.idle);
        let steps = unfold(reconnect, |mut reconnect| async move {
            let step = reconnect.next().await?;
            let followed = step.map(|step| {
                let after = || reconnect.reading().last_event_id.clone();
                match step {
                    Step::Connected => AguiFollowed::Connected { after: after() },
                    Step::Disconnected { reason, retry_in } => {
                        AguiFollowed::Disconnected { after: after(), reason, retry_in }
                    }
                    Step::Item((id, json)) => AguiFollowed::Event { id, json },
                }
            });
            Some((followed, reconnect))
        });
        AguiStream { last_event_id: self.last_event_id, steps: steps.boxed() }
    }
}

/// What an [`AguiStream`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AguiFollowed {
    /// The next event: in order, once.
    Event {
        /// Its position in the run, `<seq>.<n>`.
        id: String,
        /// The event, exactly as received.
        json: String,
    },
    /// A connection is open, and goes on behind the event `after`.
    Connected {
        /// The `id` of the last event.
        after: Option<String>,
    },
    /// The connection was lost, or did not come about; another try follows.
    Disconnected {
        /// The `id` of the last event.
        after: Option<String>,
        /// Why.
        reason: Disconnect,
        /// Time until the next try.
        retry_in: Duration,
    },
}

/// A run's AG-UI events, in order, without duplicate, across connections.
///
/// The stream ends when the server ends it behind a closed AG-UI run (`RUN_FINISHED` or `RUN_ERROR`), when the server
/// says that nothing is left, or after an error. A body that ends before is a cut and never an ending: a truncated run is
/// neither finished nor failed nor cancelled.
pub struct AguiStream {
    last_event_id: Option<String>,
    steps: BoxStream<'static, Result<AguiFollowed, FollowError>>,
}

impl AguiStream {
    /// The `id` of the last event that this stream gave out (or what [`FollowAgui::last_event_id`] said). Keep it to go
    /// on at the very next event later.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }
}

impl Stream for AguiStream {
    type Item = Result<AguiFollowed, FollowError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let followed = ready!(self.steps.poll_next_unpin(cx));
        if let Some(Ok(AguiFollowed::Event { id, .. })) = &followed {
            self.last_event_id = Some(id.clone());
        }
        Poll::Ready(followed)
    }
}

impl fmt::Debug for AguiStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AguiStream").field("last_event_id", &self.last_event_id).finish_non_exhaustive()
    }
}

/// An event's `id`: the frame that it comes from, and which of that frame's events it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    seq: u64,
    n: u64,
}

impl Position {
    fn parse(id: &str) -> Option<Position> {
        let (seq, n) = id.split_once('.')?;
        let number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        Some(Position { seq: number(seq)?, n: number(n)? })
    }
}

/// The events of one run as a resumable stream.
struct AguiReading {
    server: Server,
    run_id: String,
    last_event_id: Option<String>,
    /// `last_event_id`, unless the caller gave one that is no position; the server then says what it thinks of it.
    at: Option<Position>,
    /// The position of the last event that came over this connection.
    came: Option<Position>,
    /// Whether the last event closed an AG-UI run.
    closed_run: bool,
    max_event_bytes: usize,
}

impl Reading for AguiReading {
    type Connection = SseConnection;
    type Item = (String, String);

    async fn connect(&mut self) -> Result<SseConnection, Stop> {
        self.came = None;
        let url = self.server.url(&["v2", "runs", &self.run_id, "agui"]);
        let last_event_id = self.last_event_id.clone();
        match SseConnection::open(&self.server, url, &self.run_id, last_event_id, self.max_event_bytes).await {
            Err(Stop::Ended) if self.last_event_id.is_none() => {
                Err(FollowError::EndedUnread { run_id: self.run_id.clone() }.into())
            }
            opened => opened,
        }
    }

    async fn read(&mut self, connection: &mut SseConnection) -> Result<Arrived<(String, String)>, Stop> {
        match connection.next().await {
            Ok(Arrived::Item(event)) => self.arrive(event),
            Ok(Arrived::Retry(floor)) => Ok(Arrived::Retry(floor)),
            Ok(Arrived::Alive) => Ok(Arrived::Alive),
            Err(Stop::Cut { reason: Disconnect::Closed, .. }) if self.closed_run => Err(Stop::Ended),
            Err(stop) => Err(stop),
        }
    }
}

impl AguiReading {
    /// Judges one received event.
    fn arrive(&mut self, event: SseEvent) -> Result<Arrived<(String, String)>, Stop> {
        #[derive(Deserialize)]
        struct Typed {
            r#type: String,
        }
        let bad = |problem| FollowError::BadEvent { after: self.last_event_id.clone(), problem };
        let id = event.id.ok_or_else(|| bad("it has no `id`".to_owned()))?;
        let position =
            Position::parse(&id).ok_or_else(|| bad(format!("its id is `{id}` and not of the form <seq>.<n>")))?;
        let typed: Typed = serde_json::from_str(&event.data).map_err(|e| bad(e.to_string()))?;
        // An event without an `id` line has the id of the one before it, by the SSE standard. Taking it for a replay would
        // lose it silently, and no server replays the event that it just sent.
        if self.came.replace(position) == Some(position) {
            return Err(bad(format!("it has no id of its own, or the id `{id}` stands for two events")).into());
        }
        if self.at >= Some(position) {
            return Ok(Arrived::Alive);
        }
        self.at = Some(position);
        self.last_event_id = Some(id.clone());
        self.closed_run = matches!(typed.r#type.as_str(), "RUN_FINISHED" | "RUN_ERROR");
        Ok(Arrived::Item((id, event.data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_ordered_by_frame_then_by_event() {
        let ids = ["1.0", "1.1", "1.2", "1.10", "2.0", "10.0"];
        let positions: Vec<_> = ids.iter().map(|id| Position::parse(id)).collect();
        assert!(positions.iter().all(Option::is_some) && positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    }

    #[test]
    fn an_id_that_is_no_position_is_none() {
        for id in ["", "1", ".", "1.", ".1", "1.x", "+1.0", "1.0.0", "99999999999999999999.0"] {
            assert_eq!(Position::parse(id), None, "{id}");
        }
    }
}
