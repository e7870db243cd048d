//! One exchange of a run, executed to its end, in as many attempts as its agent's policy has for it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use runwire_bridge::{ExchangeEnd, Failure, OwnNames};
use runwire_frame::{EndStatus, ErrorCode, SegmentStatus, Timestamp};
use runwire_store::{AppendError, Store};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::clock::now;
use crate::continuing::{own_names, own_names_before};
use crate::driver::{Driver, Exchange, Starting};
use crate::engine::Unneeded;
use crate::in_hand::RunsInHand;
use crate::recovery::{RecoverError, read_log, recorded_results};
use crate::retry::RetryPolicy;
use crate::run_core::{Ended, RunCore};
use crate::turns::Place;
use crate::writer::WriteError;

/// Everything that executing one exchange needs. The task that runs [`Execution::run`] owns it.
pub(crate) struct Execution {
    /// The log of the attempt that is due; of each attempt it is another one.
    pub core: Arc<RunCore>,
    /// Where it is read what was spent before.
    pub store: Store,
    pub runs: Arc<RunsInHand>,
    pub run_id: String,
    pub driver: Arc<dyn Driver>,
    pub retry: RetryPolicy,
    /// When the attempt is due that follows a failed one.
    pub next_at: Option<Timestamp>,
    /// The session's turn, which the next run of it has when this is dropped.
    pub _place: Option<Place>,
    /// Its input is the client's, until [`Execution::restore_names`] has seen to it.
    pub exchange: Exchange,
    pub names_restored: bool,
    /// What the client's input calls otherwise than the agent does, since an earlier run.
    pub told_names: Option<Value>,
    /// How long a driver may take to end by itself after it was asked to stop.
    pub grace: Duration,
    /// Cancelled when no more attempts may begin.
    pub closing: CancellationToken,
    /// Cancelled when the server cannot wait for the run any longer.
    pub abandon: CancellationToken,
}

/// What waiting for an attempt came to.
enum Due {
    /// The attempt begins.
    Now,
    /// The run was asked to stop.
    Stopped,
    /// The server goes; the next one goes on with the run.
    Left,
}

impl Execution {
    /// Executes the exchange and brings the log to its end, whatever the driver does. When the server is shut down while it
    /// waits, for its next attempt or for its lane, the log stays as it is.
    ///
    /// # Errors
    /// When the store did not take everything: then the log has no end yet.
    pub(crate) async fn run(&mut self) -> Result<(), WriteError> {
        let mut again = false;
        loop {
            let end = match self.due().await {
                Due::Now => self.attempt(again).await?,
                Due::Stopped => ExchangeEnd::Cancelled { usage: Vec::new(), agui: None },
                Due::Left => return Ok(()),
            };
            let ended = self.core.end(end, &self.retry)?;
            self.core.family().end();
            self.core.progress().flush().await?;
            self.let_children_go(&ended).await;
            let Ended::Attempt { next_at, .. } = ended else { return Ok(()) };
            self.next_at = Some(next_at);
            let Some(next) = self.runs.next_attempt(&self.run_id, &self.core) else { return Ok(()) };
            self.core.slot().retire();
            self.core = next;
            again = true;
        }
    }

    /// Executes the attempt that is due, if it may be.
    async fn attempt(&mut self, again: bool) -> Result<ExchangeEnd, WriteError> {
        // Whatever looks at the exchange before its driver does may begin it, and its beginning says the names.
        if let Err(error) = self.restore_names().await {
            return Ok(unreadable(format!(
                "by which names the run's client knows what was said cannot be read: {error}"
            )));
        }
        if let Some(end) = self.core.admit_exchange(&self.store).await? {
            return Ok(end);
        }
        if again
            && self.exchange.resumed
            && let Err(error) = self.read_results().await
        {
            // Without them what was approved might be done twice.
            return Ok(unreadable(format!("what the attempt before has done cannot be read: {error}")));
        }
        Ok(self.drive().await?)
    }

    /// Gives the driver what the client has sent by the agent's own ids. What further attempts have said was told by others
    /// where the attempt before had used them.
    async fn restore_names(&mut self) -> Result<(), RecoverError> {
        if !self.names_restored && OwnNames::may_concern(&self.exchange.input) {
            let names = match self.exchange.resumed {
                true => own_names(&self.store, &self.run_id).await?,
                false => own_names_before(&self.store, &self.run_id).await?,
            };
            if !names.is_empty() {
                let used = names.restore(Arc::make_mut(&mut self.exchange.input));
                // What this run has told before, it goes on telling so.
                if !self.exchange.resumed {
                    self.told_names = used.members();
                }
            }
        }
        self.names_restored = true;
        self.core.call_as_told(self.told_names.clone());
        Ok(())
    }

    /// Reads what the attempts before recorded as the results of the calls that the run waited with.
    async fn read_results(&mut self) -> Result<(), RecoverError> {
        let log = read_log(&self.store, &self.run_id).await?;
        self.exchange.results = recorded_results(&self.store, &self.run_id, &log.results).await?;
        Ok(())
    }

    /// Waits until the attempt is due and has its slot, which the first one of a run has had before.
    async fn due(&mut self) -> Due {
        let pause = self.core.between_attempts().map(|failed| match self.next_at {
            Some(next_at) => self.retry.left(next_at, now()),
            None => self.retry.pause(failed, None),
        });
        let slot = self.core.slot();
        if pause.is_some() {
            slot.give_back();
        }
        let (stop, closing) = (self.exchange.stop.clone(), self.closing.clone());
        if pause.is_none() && slot.is_held() {
            return Due::Now;
        }
        let begins = async {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            slot.take().await;
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => Due::Stopped,
            () = closing.cancelled() => Due::Left,
            () = begins => Due::Now,
        }
    }

    async fn drive(&self) -> Result<ExchangeEnd, AppendError> {
        let stop = self.core.stop_token().clone();
        let starting = Starting { core: self.core.clone() };
        let driver = &self.driver;
        let exchange = Exchange { attempt: self.core.attempt(), stop: stop.clone(), ..self.exchange.clone() };
        let work = AssertUnwindSafe(async move { driver.execute(exchange, starting).await }).catch_unwind();
        let mut work = Box::pin(work);
        let flush = self.core.flush_when_due();
        let grace = async {
            stop.cancelled().await;
            tokio::time::sleep(self.grace).await;
        };
        let time_up = async {
            if let Some(left) = self.core.time_left() {
                tokio::time::sleep(left).await;
                self.core.stop_for_duration();
            }
            std::future::pending::<()>().await
        };
        let stop_children = async {
            stop.cancelled().await;
            let known = self.core.family().close();
            if (!known.is_empty() || self.core.has_children())
                && let Some(engine) = self.core.engine()
            {
                // What stops this attempt alone leaves to the next one what that can find.
                let unneeded = if self.core.asked_to_stop() { Unneeded::All } else { Unneeded::Unkeyed };
                engine.stop_children(&self.run_id, unneeded, known).await;
            }
            std::future::pending::<()>().await
        };
        tokio::pin!(flush, grace, time_up, stop_children);
        let end = tokio::select! {
            done = &mut work => Ok(match done {
                Ok(Ok(end)) => end,
                Ok(Err(failure)) => ExchangeEnd::Failed(failure),
                Err(panic) => ExchangeEnd::Failed(panicked(&*panic)),
            }),
            () = &mut grace => Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }),
            () = self.abandon.cancelled() => Ok(ExchangeEnd::Failed(Failure {
                retryable: true,
                segments: SegmentStatus::Abandoned,
                ..Failure::new(ErrorCode::InternalError, "the server was shut down before the run could end")
            })),
            error = self.store_failure() => Err(error),
            () = &mut flush => unreachable!("flushing goes on for as long as it is polled"),
            () = &mut time_up => unreachable!("the limit stops the run, and the driver or its grace ends it"),
            () = &mut stop_children => unreachable!("what stops the children ends nothing by itself"),
        };
        // A driver that panics while it is dropped must not take the end of its log with it.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(move || drop(work)));
        end
    }

    /// Stops what the run has started and needs no more.
    async fn let_children_go(&self, ended: &Ended) {
        let known = self.core.family().close();
        let (unneeded, has_children) = match ended {
            Ended::Exchange { status: None, .. } => return,
            Ended::Exchange { status: Some(EndStatus::Completed), has_children } => {
                (Unneeded::AllBut(known.iter().cloned().collect()), *has_children)
            }
            Ended::Exchange { has_children, .. } => (Unneeded::All, *has_children),
            Ended::Attempt { has_children, .. } => (Unneeded::Unkeyed, *has_children),
        };
        if (has_children || !known.is_empty())
            && let Some(engine) = self.core.engine()
        {
            engine.stop_children(&self.run_id, unneeded, known).await;
        }
    }

    /// Resolves when the store takes no more of this run.
    async fn store_failure(&self) -> AppendError {
        // Nothing ever becomes durable past the last position, so this waits for a failure.
        match self.core.progress().wait_durable(u64::MAX).await {
            Err(error) => error,
            Ok(()) => std::future::pending().await,
        }
    }
}

/// A log that cannot be read now may be later, and what it says is needed.
fn unreadable(message: String) -> ExchangeEnd {
    ExchangeEnd::Failed(Failure { retryable: true, ..Failure::new(ErrorCode::InternalError, message) })
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let said = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    // Not retryable: a bug does the same again.
    Failure {
        detail: Some(format!("the driver panicked: {said}")),
        ..Failure::new(ErrorCode::InternalError, "the agent's driver failed unexpectedly")
    }
}
