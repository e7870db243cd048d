//! The runs that one attempt of a run has started or found again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runwire_frame::SegmentId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::child::ChildEnd;

/// Where a child stands, as far as its log was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// How many times it has asked something and waited.
    pub suspensions: u64,
    /// What a parent that waits is told; `None` while the child is executed or waits for its turn.
    pub end: Option<ChildEnd>,
}

/// A child that is watched.
#[derive(Clone)]
pub(crate) struct Attached {
    /// The parent's segment that stands for it.
    pub segment: SegmentId,
    /// Closed when the attempt is over.
    pub standing: watch::Receiver<Standing>,
}

/// The children of one attempt. Its lock is held for a look-up, never across an await.
pub(crate) struct Family {
    state: Mutex<State>,
    /// Children are started one after the other, so that one key never makes two.
    starting: Arc<Semaphore>,
    /// Ends the watching.
    over: CancellationToken,
}

#[derive(Default)]
struct State {
    /// The run is being stopped, or the attempt is over: there are no more children.
    closed: bool,
    /// By run. `None` while one is being created.
    children: HashMap<String, Option<Attached>>,
}

impl Family {
    pub(crate) fn new() -> Family {
        Family { state: Mutex::default(), starting: Arc::new(Semaphore::new(1)), over: CancellationToken::new() }
    }

    /// Waits until nobody else starts a child of this attempt.
    pub(crate) async fn one_at_a_time(&self) -> OwnedSemaphorePermit {
        self.starting.clone().acquire_owned().await.expect("nobody closes the semaphore")
    }

    /// Takes a child in, before anybody can see it. `false` when there are to be no more: then it must not be begun.
    #[must_use]
    pub(crate) fn add(&self, run_id: &str) -> bool {
        let mut state = self.lock();
        if !state.closed {
            state.children.entry(run_id.to_owned()).or_default();
        }
        !state.closed
    }

    pub(crate) fn attach(&self, run_id: &str, attached: Attached) {
        self.lock().children.insert(run_id.to_owned(), Some(attached));
    }

    pub(crate) fn attached(&self, run_id: &str) -> Option<Attached> {
        self.lock().children.get(run_id).cloned().flatten()
    }

    pub(crate) fn has(&self, run_id: &str) -> bool {
        self.lock().children.contains_key(run_id)
    }

    /// It was not created after all.
    pub(crate) fn forget(&self, run_id: &str) {
        self.lock().children.remove(run_id);
    }

    /// From here on there are no more children. Gives those that there are.
    pub(crate) fn close(&self) -> Vec<String> {
        let mut state = self.lock();
        state.closed = true;
        state.children.keys().cloned().collect()
    }

    /// The attempt is over: its children are watched no more.
    pub(crate) fn end(&self) {
        self.lock().closed = true;
        self.over.cancel();
    }

    /// Cancelled when the attempt is over.
    pub(crate) fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one insertion or removal, so a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
