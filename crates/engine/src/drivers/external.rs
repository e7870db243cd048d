//! `external`: an agent that is executed elsewhere. Whoever executes a run claims it here, and pushes what happens.
//!
//! The driver only keeps a place for the run: it waits for an executor, takes the events that this one numbers, and gives the
//! attempt up when nothing was heard of it for as long as its lease is. What becomes of the events is the [`Relay`]'s
//! business.

mod executors;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use runwire_agui::{AgentCapabilities, AgentVersion};
use runwire_bridge::{ExchangeEnd, Failure};
use runwire_frame::{ErrorCode, SegmentStatus};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::executors::{Ask, Place};
pub use self::executors::{Claim, ExecutorError, Executors, Standing};
use super::relay::{Carried, MAX_EVENT_BYTES, Prepared, Relay};
use crate::driver::{Driver, Exchange, Starting};

/// Who speaks, as it is told.
const WHO: &str = "the executor";
/// How long the end of a push is waited for once the run has ended in it: a failure may still surface.
const AFTER_END: Duration = Duration::from_secs(1);

/// How executors are dealt with.
#[derive(Clone, Debug)]
pub struct ExternalOptions {
    /// How long an executor may be silent before its attempt is given up. Each push, event and heartbeat begins it anew.
    /// Default 60 s.
    pub lease: Duration,
    /// What the agent declares about itself.
    pub capabilities: AgentCapabilities,
}

impl Default for ExternalOptions {
    fn default() -> ExternalOptions {
        ExternalOptions { lease: Duration::from_secs(60), capabilities: AgentCapabilities::default() }
    }
}

/// Keeps a place for each run, for an executor elsewhere.
#[derive(Clone)]
pub struct ExternalDriver {
    options: ExternalOptions,
    executors: Arc<Executors>,
}

impl ExternalDriver {
    /// A driver for an agent that is executed elsewhere.
    pub fn new(options: ExternalOptions) -> ExternalDriver {
        let executors = Arc::new(Executors::new(options.lease));
        ExternalDriver { options, executors }
    }
}

impl Driver for ExternalDriver {
    fn kind(&self) -> &'static str {
        "external"
    }

    fn capabilities(&self) -> AgentCapabilities {
        self.options.capabilities.clone()
    }

    fn judges_answers(&self) -> bool {
        true
    }

    fn executors(&self) -> Option<&Executors> {
        Some(&self.executors)
    }

    fn execute(&self, exchange: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let executors = self.executors.clone();
        Box::pin(async move { execute(&executors, exchange, starting).await })
    }
}

async fn execute(executors: &Arc<Executors>, exchange: Exchange, starting: Starting) -> Result<ExchangeEnd, Failure> {
    let stop = exchange.stop.clone();
    let run_id = exchange.run_id.clone();
    let prepared = Prepared::new(WHO, AgentVersion::default(), exchange, starting)?;
    let input = serde_json::to_value(&prepared.input).unwrap_or_default();
    let relay = Relay::new(WHO, AgentVersion::default(), prepared, MAX_EVENT_BYTES);
    let (place, asks) = executors.open(&run_id, input, stop.clone());
    let mut executed =
        Executed { relay, place, epoch: None, through: 0, lease: executors.lease(), until: None, ended_at: None };
    let end = executed.course(asks).await?;
    Ok(match end {
        Some(end) => end,
        None => executed.relay.finish(),
    })
}

/// A run while somebody elsewhere executes it, or nobody does yet.
struct Executed {
    relay: Relay,
    /// Given up when this is dropped: whoever asks from then on is told that there is nothing to execute.
    place: Place,
    /// The claim that counts.
    epoch: Option<u64>,
    /// The number of the last event that was taken.
    through: u64,
    lease: Duration,
    /// When the executor is given up; when the end of what it says is, once it reported its run's.
    until: Option<Instant>,
    ended_at: Option<Instant>,
}

impl Executed {
    /// Takes what is asked until the run is over; `None` when its events say how.
    async fn course(&mut self, mut asks: mpsc::Receiver<Ask>) -> Result<Option<ExchangeEnd>, Failure> {
        let stop = self.place.stop().clone();
        let mut stopping = false;
        loop {
            let until = self.until;
            let deadline = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    // Nobody has claimed it: it waits for as long as that takes.
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    if self.epoch.is_none() {
                        return Ok(Some(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }));
                    }
                }
                () = deadline => return if self.relay.has_ended() { Ok(None) } else { Err(self.silent()) },
                ask = asks.recv() => {
                    // The place has a sender of its own, so there is always one.
                    let Some(ask) = ask else { return Ok(None) };
                    if self.answer(ask).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The executor that counts was heard of.
    fn heard(&mut self) {
        if self.relay.has_ended() {
            // One deadline for all that may still come.
            self.ended_at.get_or_insert_with(Instant::now);
        }
        self.until = Some(match self.ended_at {
            Some(ended_at) => ended_at + AFTER_END,
            None => Instant::now() + self.lease,
        });
    }

    /// Does what is asked, and says whether the run is over by that.
    async fn answer(&mut self, ask: Ask) -> Result<bool, Failure> {
        match ask {
            Ask::Claim { epoch, next, reply } => {
                let answer = match (self.epoch, epoch) {
                    (None, None) => {
                        self.epoch = Some(next);
                        Ok(self.standing())
                    }
                    (Some(_), None) => Err(ExecutorError::Claimed),
                    (_, Some(epoch)) => self.check(epoch).map(|()| self.standing()),
                };
                if answer.is_ok() {
                    self.heard();
                }
                let _ = reply.send(answer);
            }
            Ask::Heartbeat { epoch, reply } => {
                let answer = self.check(epoch).map(|()| self.standing());
                if answer.is_ok() {
                    self.heard();
                }
                let _ = reply.send(answer);
            }
            Ask::Event { epoch, n, event, reply } => {
                if let Err(refused) = self.check(epoch).and_then(|()| self.check_number(n)) {
                    let _ = reply.send(Err(refused));
                    return Ok(false);
                }
                // Whoever sends an event again was not told that it was taken.
                if n > self.through {
                    if let Err(failure) = self.relay.push(Carried::Json(event)).await {
                        let _ = reply.send(Err(ExecutorError::Refused { n, message: failure.message.clone() }));
                        return Err(failure);
                    }
                    self.through = n;
                }
                self.heard();
                let _ = reply.send(Ok(self.standing()));
            }
            Ask::Settle { epoch, reply } => {
                if let Err(refused) = self.check(epoch) {
                    let _ = reply.send(Err(refused));
                    return Ok(false);
                }
                self.relay.flush().await?;
                self.heard();
                let _ = reply.send(Ok(self.standing()));
                return Ok(self.relay.has_ended());
            }
        }
        Ok(false)
    }

    fn standing(&self) -> Standing {
        Standing {
            epoch: self.epoch.unwrap_or_default(),
            through: self.through,
            cancelling: self.place.stop().is_cancelled(),
            ended: self.relay.has_ended(),
        }
    }

    fn check(&self, epoch: u64) -> Result<(), ExecutorError> {
        if self.epoch == Some(epoch) { Ok(()) } else { Err(ExecutorError::Fenced { epoch }) }
    }

    fn check_number(&self, n: u64) -> Result<(), ExecutorError> {
        let expected = self.through + 1;
        if n == 0 || n > expected { Err(ExecutorError::Gap { n, expected }) } else { Ok(()) }
    }

    fn silent(&self) -> Failure {
        let lease = self.lease;
        Failure {
            retryable: true,
            segments: SegmentStatus::Abandoned,
            ..Failure::new(
                ErrorCode::InternalError,
                format!("{WHO} was not heard of for {lease:?}, which its lease is, and the attempt was given up"),
            )
        }
    }
}
