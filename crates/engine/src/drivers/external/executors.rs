//! Where executors elsewhere find the runs of one agent: what they ask reaches the task that keeps the run's place.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::clock::now;

/// How long a claim of a run that was only just created waits for its place.
const OPENING: Duration = Duration::from_secs(1);

/// How far an executor is with its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The claim.
    pub epoch: u64,
    /// The number of the last event that was taken; 0 before the first.
    pub through: u64,
    /// Whether the run is being stopped: what is left to do is to report its end.
    pub cancelling: bool,
    /// Whether the events have reported the run's end.
    pub ended: bool,
}

/// A run that was claimed.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Where it stands.
    pub standing: Standing,
    /// How long the executor may be silent.
    pub lease: Duration,
    /// AG-UI's run input, fit to be given to an agent.
    pub input: Value,
}

/// Why an executor was refused. But for [`ExecutorError::Refused`] nothing has changed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecutorError {
    /// Nobody is to execute the run now.
    #[error("the run has no place for an executor: it has not come that far, waits for an answer, or is over")]
    NothingToExecute,
    /// Another executor has it.
    #[error("the run is claimed; its executor is given up when its lease runs out")]
    Claimed,
    /// The claim does not count any more, or never did.
    #[error("{epoch} is not the epoch of the run's claim; what is pushed under it is not taken")]
    Fenced {
        /// What was given.
        epoch: u64,
    },
    /// Events are missing.
    #[error("event {n} was pushed where {expected} is next; send the events from {expected} on")]
    Gap {
        /// What was pushed.
        n: u64,
        /// What was to be.
        expected: u64,
    },
    /// The event breaks a rule, and the run has failed by it.
    #[error("event {n} failed the run: {message}")]
    Refused {
        /// Its number.
        n: u64,
        /// What the run failed with.
        message: String,
    },
}

type Reply = oneshot::Sender<Result<Standing, ExecutorError>>;

/// What is asked of the task that keeps a run's place.
pub(super) enum Ask {
    /// With an epoch: the claim that there is, again.
    Claim {
        epoch: Option<u64>,
        next: u64,
        reply: Reply,
    },
    Heartbeat {
        epoch: u64,
        reply: Reply,
    },
    Event {
        epoch: u64,
        n: u64,
        event: String,
        reply: Reply,
    },
    /// Everything that was taken is to be in the store; the push that brought it is over.
    Settle {
        epoch: u64,
        reply: Reply,
    },
}

/// The places of one agent's runs. Its lock is held for a look-up, never across an await.
pub struct Executors {
    places: Mutex<HashMap<String, Opened>>,
    /// Wakes claims that came before their place.
    opened: Notify,
    /// Grows with each claim, over restarts too: it begins at the time.
    epochs: AtomicU64,
    lease: Duration,
}

#[derive(Clone)]
struct Opened {
    /// Holds one ask: whoever has another waits.
    asks: mpsc::Sender<Ask>,
    input: Arc<Value>,
    stop: CancellationToken,
    over: CancellationToken,
}

/// A run's place. Given up when dropped.
pub(super) struct Place {
    executors: Arc<Executors>,
    run_id: String,
    opened: Opened,
}

impl Executors {
    pub(super) fn new(lease: Duration) -> Executors {
        Executors {
            places: Mutex::default(),
            opened: Notify::new(),
            epochs: AtomicU64::new(now().unix_millis().max(0).unsigned_abs()),
            lease,
        }
    }

    /// How long an executor may be silent.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    pub(super) fn open(
        self: &Arc<Self>,
        run_id: &str,
        input: Value,
        stop: CancellationToken,
    ) -> (Place, mpsc::Receiver<Ask>) {
        let (asks, receiver) = mpsc::channel(1);
        let opened = Opened { asks, input: Arc::new(input), stop, over: CancellationToken::new() };
        self.lock().insert(run_id.to_owned(), opened.clone());
        self.opened.notify_waiters();
        (Place { executors: self.clone(), run_id: run_id.to_owned(), opened }, receiver)
    }

    /// Claims the run for an executor that tells of itself from now on. With the epoch of the claim that there is, says how far
    /// it came: so goes on whoever lost its connection.
    ///
    /// Of a run that was only just created, its place is waited for a moment.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn claim(&self, run_id: &str, epoch: Option<u64>) -> Result<Claim, ExecutorError> {
        let opened = tokio::time::timeout(OPENING, self.place(run_id)).await;
        let opened = opened.map_err(|_| ExecutorError::NothingToExecute)?;
        let next = self.epochs.fetch_add(1, Ordering::Relaxed) + 1;
        let standing = ask(&opened, |reply| Ask::Claim { epoch, next, reply }).await?;
        Ok(Claim { standing, lease: self.lease, input: (*opened.input).clone() })
    }

    /// The executor is there: its lease begins anew.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn heartbeat(&self, run_id: &str, epoch: u64) -> Result<Standing, ExecutorError> {
        ask(&self.find(run_id)?, |reply| Ask::Heartbeat { epoch, reply }).await
    }

    /// Takes an event, one of AG-UI's as JSON. One that was taken before is passed over. Waits while too much of the run is on
    /// its way to the store.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn event(&self, run_id: &str, epoch: u64, n: u64, event: String) -> Result<Standing, ExecutorError> {
        ask(&self.find(run_id)?, |reply| Ask::Event { epoch, n, event, reply }).await
    }

    /// Waits until everything that was taken is in the store. If the events reported the run's end, that follows: no more of
    /// them are taken.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn settle(&self, run_id: &str, epoch: u64) -> Result<Standing, ExecutorError> {
        ask(&self.find(run_id)?, |reply| Ask::Settle { epoch, reply }).await
    }

    /// Two that are cancelled, of the place that the run has: when the run is to stop, and when the place is given up.
    ///
    /// # Errors
    /// When it has none.
    pub fn watch(&self, run_id: &str) -> Result<(CancellationToken, CancellationToken), ExecutorError> {
        self.find(run_id).map(|opened| (opened.stop, opened.over))
    }

    async fn place(&self, run_id: &str) -> Opened {
        loop {
            let opened = self.opened.notified();
            tokio::pin!(opened);
            // Listening first, so that nothing falls between the look and the wait.
            opened.as_mut().enable();
            if let Ok(found) = self.find(run_id) {
                return found;
            }
            opened.await;
        }
    }

    fn find(&self, run_id: &str) -> Result<Opened, ExecutorError> {
        self.lock().get(run_id).cloned().ok_or(ExecutorError::NothingToExecute)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Opened>> {
        // Each change is one insertion or removal, so a panic leaves nothing half done.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(opened: &Opened, ask: impl FnOnce(Reply) -> Ask) -> Result<Standing, ExecutorError> {
    let (reply, answer) = oneshot::channel();
    // A place that is given up answers nothing any more.
    opened.asks.send(ask(reply)).await.map_err(|_| ExecutorError::NothingToExecute)?;
    answer.await.map_err(|_| ExecutorError::NothingToExecute)?
}

impl Place {
    /// Cancelled when the run is to stop.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.opened.stop
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.executors.lock();
        // The run may have been taken up for its next exchange since.
        if places.get(&self.run_id).is_some_and(|opened| opened.asks.same_channel(&self.opened.asks)) {
            places.remove(&self.run_id);
        }
        drop(places);
        self.opened.over.cancel();
    }
}
