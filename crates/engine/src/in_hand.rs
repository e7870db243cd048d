//! Who has which run in hand: so that of two who want to begin, continue, stop or end a run, one does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::run_core::RunCore;

/// The runs that an engine has in hand. Its lock is held for a few look-ups, never across an await.
#[derive(Default)]
pub(crate) struct RunsInHand {
    running: Mutex<Running>,
    /// Wakes whoever waits for a [`Hold`] to be released.
    released: Notify,
}

#[derive(Default)]
struct Running {
    /// Those that are executed.
    active: HashMap<String, Active>,
    /// Those that are about to be executed, or to be ended while they wait for an answer; and whether they were asked to
    /// stop meanwhile, so that a stop that comes before the run's task is not lost.
    held: HashMap<String, bool>,
}

struct Active {
    core: Arc<RunCore>,
    stop: CancellationToken,
}

/// The sole right to begin, continue or end a run that nobody executes. Released when dropped.
pub(crate) struct Hold {
    runs: Arc<RunsInHand>,
    run_id: String,
    /// The run may be in other hands since.
    released: bool,
}

/// Why a run cannot be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Somebody else holds it, for a moment.
    Held,
    /// A task executes it.
    Executed,
}

/// What became of asking a run to stop.
pub(crate) enum Asked {
    /// Its driver was told, or will be as soon as it starts.
    Stopping(Option<Arc<RunCore>>),
    /// Nobody executes it. Its last exchange may still be on its way to the store.
    Idle(Option<Arc<RunCore>>),
}

impl RunsInHand {
    /// How many runs are executed.
    pub(crate) fn executed(&self) -> usize {
        self.lock().active.len()
    }

    /// Takes a run in hand that nobody has.
    pub(crate) fn hold(self: &Arc<Self>, run_id: &str) -> Result<Hold, Taken> {
        let mut running = self.lock();
        if running.held.contains_key(run_id) {
            return Err(Taken::Held);
        }
        // A run that has just suspended is free before its task has quite gone: its client may answer at once.
        if running.active.get(run_id).is_some_and(|active| !active.core.is_over()) {
            return Err(Taken::Executed);
        }
        running.held.insert(run_id.to_owned(), false);
        drop(running);
        Ok(Hold { runs: self.clone(), run_id: run_id.to_owned(), released: false })
    }

    /// Whether somebody has the run in hand.
    pub(crate) fn is_in_hand(&self, run_id: &str) -> bool {
        let running = self.lock();
        running.held.contains_key(run_id) || running.active.contains_key(run_id)
    }

    /// The same, once whoever else holds it has let go. `None` when a task executes it.
    ///
    /// Dropped while it waits, it has changed nothing.
    pub(crate) async fn hold_in_turn(self: &Arc<Self>, run_id: &str) -> Option<Hold> {
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            // Listening first, so that no release falls between the look and the wait.
            released.as_mut().enable();
            match self.hold(run_id) {
                Ok(hold) => return Some(hold),
                Err(Taken::Executed) => return None,
                Err(Taken::Held) => released.await,
            }
        }
    }

    /// Asks whoever has the run in hand to stop it.
    pub(crate) fn ask_to_stop(&self, run_id: &str) -> Asked {
        let mut running = self.lock();
        if let Some(asked) = running.held.get_mut(run_id) {
            *asked = true;
            return Asked::Stopping(None);
        }
        let Some(active) = running.active.get(run_id) else { return Asked::Idle(None) };
        // The log says that the run is being stopped before the driver hears of it: from here on there is one possible
        // outcome.
        if active.core.cancelling() {
            active.stop.cancel();
            Asked::Stopping(Some(active.core.clone()))
        } else {
            Asked::Idle(Some(active.core.clone()))
        }
    }

    /// The exchange of this run that is over, and whose last frames may still be on their way to the store.
    pub(crate) fn lingering(&self, run_id: &str) -> Option<Arc<RunCore>> {
        self.lock().active.get(run_id).map(|active| active.core.clone())
    }

    /// The exchange is over. The run may have been taken up for its next one since.
    pub(crate) fn forget(&self, run_id: &str, core: &Arc<RunCore>) {
        let mut running = self.lock();
        if running.active.get(run_id).is_some_and(|active| Arc::ptr_eq(&active.core, core)) {
            running.active.remove(run_id);
        }
    }

    /// Hands the run on from an attempt that failed to the next one, and gives that. Between them there is no moment at
    /// which a stop could be lost or the run be taken by somebody else.
    pub(crate) fn next_attempt(&self, run_id: &str, failed: &Arc<RunCore>) -> Option<Arc<RunCore>> {
        let mut running = self.lock();
        let next = failed.next_attempt()?;
        if let Some(active) = running.active.get_mut(run_id)
            && Arc::ptr_eq(&active.core, failed)
        {
            active.core = next.clone();
        }
        Some(next)
    }

    /// The run's task could not bring its log to an end: from that moment on it is held, and a stop that the task was
    /// asked for counts. `None` when somebody else was quicker.
    pub(crate) fn hold_unfinished(self: &Arc<Self>, run_id: &str, core: &Arc<RunCore>) -> Option<Hold> {
        let asked = core.asked_to_stop();
        let mut running = self.lock();
        if running.active.get(run_id).is_some_and(|active| Arc::ptr_eq(&active.core, core)) {
            running.active.remove(run_id);
        }
        if running.held.contains_key(run_id) {
            return None;
        }
        running.held.insert(run_id.to_owned(), asked);
        drop(running);
        Some(Hold { runs: self.clone(), run_id: run_id.to_owned(), released: false })
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        // Each change is one insertion or removal, so a panic leaves nothing half done.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    /// Hands the run to the task that executes it, together with a stop that it was asked for meanwhile.
    pub(crate) fn execute(mut self, core: Arc<RunCore>, stop: CancellationToken) {
        let runs = self.runs.clone();
        let mut running = runs.lock();
        if self.release_in(&mut running) && core.cancelling() {
            stop.cancel();
        }
        running.active.insert(self.run_id.clone(), Active { core, stop });
    }

    /// Whether the run was asked to stop since it is held.
    pub(crate) fn asked_to_stop(&self) -> bool {
        self.runs.lock().held.get(&self.run_id).copied().unwrap_or(false)
    }

    /// Lets the run go, and says whether it was asked to stop meanwhile.
    pub(crate) fn release(mut self) -> bool {
        let runs = self.runs.clone();
        self.release_in(&mut runs.lock())
    }

    fn release_in(&mut self, running: &mut Running) -> bool {
        self.released = true;
        self.runs.released.notify_waiters();
        running.held.remove(&self.run_id).unwrap_or(false)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.released {
            let runs = self.runs.clone();
            self.release_in(&mut runs.lock());
        }
    }
}
