//! Following a run as AG-UI events.
//!
//! The events are a pure function of the run's frames, so their stream resumes too: each carries `id: <seq>.<n>`, and
//! `Last-Event-ID` continues at the very next one.
//!
//! What comes goes through one [`Consumer`] before it is given out (basic/processing), over all connections: to it they are
//! one stream, as they are to the caller.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::{BoxStream, Stream, StreamExt as _, unfold};
use runwire_agui::{Consumer, Event, RunEnding, SseEvent, StreamEnd, Warning};

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
    recorded: bool,
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
            recorded: false,
        }
    }

    /// Begin after the event with this `id`, kept from earlier. `None`, the default, is the run's beginning.
    ///
    /// Whether an event conforms depends on those before it. So these are read once more and judged, and not given out
    /// again.
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

    /// Also give out each event as it came ([`AguiFollowed::Events::received`]): for whoever records the stream. An
    /// application must not act on that, because nothing has judged it.
    pub fn recorded(mut self) -> FollowAgui {
        self.recorded = true;
        self
    }

    /// The run's events. Nothing is sent before the stream is polled; it must be polled within a Tokio runtime.
    pub fn start(self) -> AguiStream {
        let given = self.last_event_id.clone();
        let reading = AguiReading {
            server: self.server,
            run_id: self.run_id,
            consumer: Consumer::default(),
            rejected: false,
            given_at: given.as_deref().and_then(Position::parse),
            unproven: given.clone(),
            given,
            read: None,
            came: None,
            max_event_bytes: self.max_event_bytes,
            recorded: self.recorded,
        };
        let reconnect = Reconnect::new(reading, self.backoff, self.idle);
        let steps = unfold(Some(reconnect), |following| async move {
            let mut reconnect = following?;
            let Some(step) = reconnect.next().await else {
                return Some((Ok(AguiFollowed::Ended(reconnect.reading_mut().consumer.finish())), None));
            };
            let followed = step.map(|step| {
                let after = || reconnect.reading().given.clone();
                match step {
                    Step::Connected => AguiFollowed::Connected { after: after() },
                    Step::Disconnected { reason, retry_in } => {
                        AguiFollowed::Disconnected { after: after(), reason, retry_in }
                    }
                    Step::Item(taken) => AguiFollowed::Events {
                        id: taken.id,
                        events: taken.events,
                        warnings: taken.warnings,
                        received: taken.received,
                    },
                }
            });
            // An error ends the stream: it was not followed to where it could be judged.
            let following = followed.is_ok().then_some(reconnect);
            Some((followed, following))
        });
        AguiStream { last_event_id: self.last_event_id, steps: steps.boxed() }
    }
}

/// What an [`AguiStream`] tells.
#[derive(Clone, Debug, PartialEq)]
pub enum AguiFollowed {
    /// What the next event of the stream came to: in order, once.
    Events {
        /// Its position in the run, `<seq>.<n>`.
        id: String,
        /// The events to act on: the one that came; several, of which a chunk is short for; none, when it was dropped.
        events: Vec<Event>,
        /// What was left out of it, and why.
        warnings: Vec<Warning>,
        /// The event exactly as it came, if [`FollowAgui::recorded`] asked for that.
        received: Option<String>,
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
    /// The end of the stream, always its last item unless an error is. It keeps apart a stream that completed, whose last
    /// run may have reported its failure, from one that was rejected because it breaks a rule, and from one that stops
    /// short. Whatever was given out before stays given out.
    Ended(StreamEnd),
}

/// A run's AG-UI events, in order, without duplicate, across connections.
///
/// The stream ends when the server ends it behind a closed AG-UI run (`RUN_FINISHED` or `RUN_ERROR`), when the server
/// says that nothing is left, when what came breaks a rule of AG-UI, or after an error. A body that ends before is a cut
/// and never an ending: a truncated run is neither finished nor failed nor cancelled. That is so after an error, too.
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
        if let Some(Ok(AguiFollowed::Events { id, .. })) = &followed {
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

/// What one event of the stream came to.
struct Taken {
    id: String,
    events: Vec<Event>,
    warnings: Vec<Warning>,
    received: Option<String>,
}

/// The events of one run as a resumable stream.
struct AguiReading {
    server: Server,
    run_id: String,
    /// Judges the run from its first event on.
    consumer: Consumer,
    /// Whether it has rejected the stream; then nothing more is read.
    rejected: bool,
    /// An id that the caller kept, as long as the server has not said whether it is a place in the run.
    unproven: Option<String>,
    /// The `id` of the last event that the caller has.
    given: Option<String>,
    /// Its position, unless the caller gave an id that is none.
    given_at: Option<Position>,
    /// The last event that was read, be it given out or only judged: where the next connection goes on.
    read: Option<(Position, String)>,
    /// The position of the last event that came over this connection.
    came: Option<Position>,
    max_event_bytes: usize,
    recorded: bool,
}

impl Reading for AguiReading {
    type Connection = SseConnection;
    type Item = Taken;

    async fn connect(&mut self) -> Result<SseConnection, Stop> {
        self.came = None;
        if self.unproven.is_some() {
            // A place that is none must be an error (G7), and reading from the start would only pass over it.
            match self.open(self.unproven.clone()).await {
                Ok(_) | Err(Stop::Ended) => self.unproven = None,
                Err(stop) => return Err(stop),
            }
        }
        match self.open(self.read.as_ref().map(|(_, id)| id.clone())).await {
            Err(Stop::Ended) if self.read.is_none() => {
                Err(FollowError::EndedUnread { run_id: self.run_id.clone() }.into())
            }
            opened => opened,
        }
    }

    async fn read(&mut self, connection: &mut SseConnection) -> Result<Arrived<Taken>, Stop> {
        if self.rejected {
            return Err(Stop::Ended);
        }
        match connection.next().await {
            Ok(Arrived::Item(event)) => self.arrive(event),
            Ok(Arrived::Retry(floor)) => Ok(Arrived::Retry(floor)),
            Ok(Arrived::Alive) => Ok(Arrived::Alive),
            Err(Stop::Cut { reason: Disconnect::Closed, .. }) if self.closed_run() => Err(Stop::Ended),
            Err(stop) => Err(stop),
        }
    }
}

impl AguiReading {
    async fn open(&self, last_event_id: Option<String>) -> Result<SseConnection, Stop> {
        let url = self.server.url(&["v2", "runs", &self.run_id, "agui"]);
        SseConnection::open(&self.server, url, &self.run_id, last_event_id, self.max_event_bytes).await
    }

    /// Whether the last event closed an AG-UI run.
    fn closed_run(&self) -> bool {
        self.consumer.runs().last().is_some_and(|run| run.ending != RunEnding::Truncated)
    }

    /// Judges one received event.
    fn arrive(&mut self, event: SseEvent) -> Result<Arrived<Taken>, Stop> {
        let after = self.read.as_ref().map(|(_, id)| id.clone());
        let bad = |problem| FollowError::BadEvent { after: after.clone(), problem };
        let id = event.id.ok_or_else(|| bad("it has no `id`".to_owned()))?;
        let position =
            Position::parse(&id).ok_or_else(|| bad(format!("its id is `{id}` and not of the form <seq>.<n>")))?;
        // An event without an `id` line has the id of the one before it, by the SSE standard. Taking it for a replay would
        // lose it silently, and no server replays the event that it just sent.
        if self.came.replace(position) == Some(position) {
            return Err(bad(format!("it has no id of its own, or the id `{id}` stands for two events")).into());
        }
        if self.read.as_ref().is_some_and(|(read, _)| *read >= position) {
            return Ok(Arrived::Alive);
        }
        self.read = Some((position, id.clone()));
        let events = match self.consumer.push_json(event.data.as_bytes()) {
            Ok(events) => events.collect(),
            Err(rejected) => {
                self.rejected = true;
                // What came before the violation stays given out, also where it came with it.
                rejected.delivered
            }
        };
        let warnings = self.consumer.take_warnings();
        if self.given_at >= Some(position) {
            return Ok(Arrived::Alive);
        }
        if self.rejected && events.is_empty() && warnings.is_empty() && !self.recorded {
            return Ok(Arrived::Alive);
        }
        self.given_at = Some(position);
        self.given = Some(id.clone());
        Ok(Arrived::Item(Taken { id, events, warnings, received: self.recorded.then_some(event.data) }))
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
