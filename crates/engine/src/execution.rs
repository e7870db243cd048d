//! One exchange of a run, executed to its end.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use runwire_bridge::{ExchangeEnd, Failure};
use runwire_frame::{ErrorCode, SegmentStatus};
use runwire_store::{AppendError, Store};
use tokio_util::sync::CancellationToken;

use crate::driver::{Driver, Exchange, Starting};
use crate::writer::{RunCore, WriteError};

/// Everything that executing one exchange needs. The task that runs [`Execution::run`] owns it.
pub(crate) struct Execution {
    pub core: Arc<RunCore>,
    /// Where it is read what was spent before.
    pub store: Store,
    pub driver: Arc<dyn Driver>,
    pub exchange: Exchange,
    /// How long a driver may take to end by itself after it was asked to stop.
    pub grace: Duration,
    /// Cancelled when the server cannot wait for the run any longer.
    pub abandon: CancellationToken,
}

impl Execution {
    /// Executes the exchange and brings the log to its end, whatever the driver does.
    ///
    /// # Errors
    /// When the store did not take everything: then the log has no end yet.
    pub(crate) async fn run(self) -> Result<(), WriteError> {
        let end = match self.core.admit_exchange(&self.store).await? {
            None => self.drive().await?,
            Some(end) => end,
        };
        self.core.end(end)?;
        self.core.progress().flush().await?;
        Ok(())
    }

    async fn drive(&self) -> Result<ExchangeEnd, AppendError> {
        let stop = self.exchange.stop.clone();
        let starting = Starting { core: self.core.clone() };
        let driver = &self.driver;
        let exchange = self.exchange.clone();
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
        tokio::pin!(flush, grace, time_up);
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
        };
        // A driver that panics while it is dropped must not take the end of its log with it.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(move || drop(work)));
        end
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

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let said = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    Failure {
        detail: Some(format!("the driver panicked: {said}")),
        ..Failure::new(ErrorCode::InternalError, "the agent's driver failed unexpectedly")
    }
}
