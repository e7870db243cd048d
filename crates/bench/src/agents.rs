//! The agents whose runs are measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, Opening};
use runwire_engine::{Agent, AgentPolicy, Driver, Exchange, RunWriter, Starting, WriteError};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Some words, as a model would say them: with the envelope around them, a body of about 200 bytes.
pub const WORDS: &str = "and so the answer is near, ";

/// An agent with this driver and the id `bench`.
pub fn agent(driver: impl Driver) -> Agent {
    Agent {
        id: "bench".to_owned(),
        revision: None,
        description: None,
        driver: Arc::new(driver),
        policy: AgentPolicy::default(),
    }
}

/// Waits until a benchmark lets its agents go.
pub type Go = watch::Receiver<bool>;

async fn gone(mut go: Go) {
    // Without whoever could say go there is nothing to wait for either.
    let _ = go.wait_for(|go| *go).await;
}

fn completed() -> ExchangeEnd {
    ExchangeEnd::Completed(Completion::default())
}

/// Deltas of one message that come sooner than this after one another are joined.
const COALESCING: Duration = Duration::from_millis(25);

/// Begins, waits to be let go, and then says so many pieces at an even pace, each of which becomes a frame: in one message
/// when the pace is slower than coalescing, else in two by turns.
pub struct Steady {
    /// Lets it go.
    pub go: Go,
    /// How many pieces.
    pub pieces: usize,
    /// The time from one to the next.
    pub pace: Duration,
}

impl Driver for Steady {
    fn kind(&self) -> &'static str {
        "bench"
    }

    fn execute(&self, _: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let (go, pieces, pace) = (self.go.clone(), self.pieces, self.pace);
        Box::pin(async move {
            let writer = starting.begin(None);
            gone(go).await;
            let mut messages = vec![writer.message(Opening::default()).await?];
            if pace <= COALESCING {
                messages.push(writer.message(Opening::default()).await?);
            }
            let mut tick = tokio::time::interval(pace);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for piece in 0..pieces {
                tick.tick().await;
                messages[piece % messages.len()].text(WORDS).await?;
            }
            for message in messages {
                message.end(Ending::completed()).await?;
            }
            Ok(completed())
        })
    }
}

/// Begins, waits to be let go, and then says so many pieces as fast as the engine takes them, in two messages by turns:
/// what ends a delta's wait is the delta of the other message, so each becomes a frame.
pub struct Torrent {
    /// Lets it go.
    pub go: Go,
    /// How many pieces.
    pub pieces: usize,
    /// Lets it end, once it has said all.
    pub end: Go,
}

impl Driver for Torrent {
    fn kind(&self) -> &'static str {
        "bench"
    }

    fn execute(&self, _: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let (go, pieces, end) = (self.go.clone(), self.pieces, self.end.clone());
        Box::pin(async move {
            let writer = starting.begin(None);
            gone(go).await;
            let messages = [writer.message(Opening::default()).await?, writer.message(Opening::default()).await?];
            for piece in 0..pieces {
                messages[piece % 2].text(WORDS).await?;
            }
            gone(end).await;
            for message in messages {
                message.end(Ending::completed()).await?;
            }
            Ok(completed())
        })
    }
}

/// Says something every 20 ms, as a model of 50 tokens a second does, until it is told to be quiet.
pub struct Chatter {
    /// Ends all of them.
    pub quiet: CancellationToken,
    /// How many have begun: each begins at another moment, so that they do not speak in chorus.
    begun: AtomicU32,
}

impl Chatter {
    const PACE: Duration = Duration::from_millis(20);

    /// Agents that speak until then.
    pub fn new(quiet: CancellationToken) -> Chatter {
        Chatter { quiet, begun: AtomicU32::new(0) }
    }
}

impl Driver for Chatter {
    fn kind(&self) -> &'static str {
        "bench"
    }

    fn execute(&self, _: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let quiet = self.quiet.clone();
        // By a share of the pace that never repeats soon.
        let offset = Duration::from_micros(u64::from(self.begun.fetch_add(1, Ordering::Relaxed)) * 7_919 % 20_000);
        Box::pin(async move {
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + offset, Chatter::PACE);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = tick.tick() => message.text("token ").await?,
                    () = quiet.cancelled() => return Ok(completed()),
                }
            }
        })
    }
}

/// Says what time it is, so that a reader can tell how long ago that was.
pub struct Probe {
    /// Lets it go.
    pub go: Go,
    /// What times are counted from.
    pub epoch: Instant,
    /// How many deltas that begin a segment, which are never held back.
    pub direct: usize,
    /// How many later ones, which wait for others to join them.
    pub coalesced: usize,
}

/// Marks the time of a delta that begins a segment.
pub const DIRECT: char = 'd';
/// Marks the time of a later one.
pub const COALESCED: char = 'c';

/// The time since `epoch` as a piece of text: `@d123456@`, in nanoseconds.
pub fn mark(kind: char, epoch: Instant) -> String {
    format!("@{kind}{}@", epoch.elapsed().as_nanos())
}

impl Driver for Probe {
    fn kind(&self) -> &'static str {
        "bench"
    }

    fn execute(&self, _: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let Probe { go, epoch, direct, coalesced } = self;
        let (go, epoch, direct, coalesced) = (go.clone(), *epoch, *direct, *coalesced);
        Box::pin(async move {
            let writer = starting.begin(None);
            gone(go).await;
            probe(&writer, epoch, direct, coalesced).await?;
            Ok(completed())
        })
    }
}

async fn probe(writer: &RunWriter, epoch: Instant, direct: usize, coalesced: usize) -> Result<(), WriteError> {
    for _ in 0..direct {
        let message = writer.message(Opening::default()).await?;
        // What opened the segment is on its way, and must not be measured.
        tokio::time::sleep(PROBE_GAP).await;
        message.text(&mark(DIRECT, epoch)).await?;
        tokio::time::sleep(PROBE_GAP).await;
        message.end(Ending::completed()).await?;
    }
    let message = writer.message(Opening::default()).await?;
    message.text("now ").await?;
    for _ in 0..coalesced {
        tokio::time::sleep(COALESCED_GAP).await;
        message.text(&mark(COALESCED, epoch)).await?;
    }
    message.end(Ending::completed()).await
}

/// Between two things that a probe does; long enough for the first to be delivered.
pub const PROBE_GAP: Duration = Duration::from_millis(3);
/// Between two deltas that are to become a frame each.
const COALESCED_GAP: Duration = Duration::from_millis(35);
