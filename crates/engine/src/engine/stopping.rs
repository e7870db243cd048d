//! Stopping a run, in whichever state it is.

use runwire_bridge::Recorder;
use runwire_frame::RunStatus;
use runwire_store::RunRecord;

use super::{CancelError, Engine, Unneeded};
use crate::clock::now;
use crate::in_hand::Asked;
use crate::recovery::{RecoverError, TakeOver, read_log};
use crate::run_core::to_append;
use crate::turns::Key;

impl Engine {
    /// Asks a run to stop, and with it what it has started. It ends as cancelled, unless it has ended. Asking again changes
    /// nothing.
    ///
    /// Returns the run as it stands now; it may take the driver's grace period until it ends.
    ///
    /// # Errors
    /// When there is no such run or the store fails.
    pub async fn cancel(&self, run_id: &str) -> Result<RunRecord, CancelError> {
        let store = &self.inner.store;
        let unknown = || CancelError::UnknownRun(run_id.to_owned());
        // Read first: a run that is in the store was in hand before.
        store.run(run_id).await?.ok_or_else(unknown)?;
        self.stop(run_id).await?;
        store.run(run_id).await?.ok_or_else(unknown)
    }

    /// Asks whoever has the run in hand to stop it, or ends it where it waits. One that is being created is in no store yet, but
    /// in hand from its first moment on.
    pub(crate) async fn stop(&self, run_id: &str) -> Result<(), CancelError> {
        loop {
            match self.inner.runs.ask_to_stop(run_id) {
                Asked::Stopping(core) => {
                    if let Some(core) = core {
                        // A store that fails here fails the run, which is seen to elsewhere.
                        let _ = core.progress().flush().await;
                    }
                    return Ok(());
                }
                Asked::Idle(core) => {
                    if let Some(core) = core {
                        let _ = core.progress().flush().await;
                    }
                    // Without a hold, somebody has taken the run up at this moment, and can be asked.
                    if let Ok(_hold) = self.inner.runs.hold(run_id) {
                        return self.cancel_waiting(run_id).await;
                    }
                }
            }
        }
    }

    /// A run that waits, for an answer, its turn or its next attempt, has no task: its log is ended here. One that has ended is
    /// left alone.
    pub(super) async fn cancel_waiting(&self, run_id: &str) -> Result<(), CancelError> {
        let store = &self.inner.store;
        let Some(record) = store.run(run_id).await? else { return Ok(()) };
        match RunStatus::from_wire(&record.status) {
            Some(RunStatus::Suspended) => {
                let mut appender = store.take_ownership(run_id).await.map_err(RecoverError::from)?;
                let state = read_log(store, run_id).await?.state;
                let recorded = Recorder::recover(state).priced(self.pricing()).cancel(now(), &[], None);
                appender.enqueue(to_append(recorded)).map_err(RecoverError::from)?;
                appender.progress().flush().await.map_err(RecoverError::from)?;
                self.stop_children(run_id, Unneeded::All, Vec::new()).await;
            }
            // Also one whose task was lost: whoever has the hold is alone with it.
            Some(RunStatus::Queued | RunStatus::Retrying | RunStatus::Running | RunStatus::Cancelling) => {
                self.inner.turns.leave(run_id, &Key::new(&record.agent_id, &record.session_id));
                let stopped =
                    TakeOver { why: "", retry: None, requeue: false, asked_to_stop: &|| true, pricing: self.pricing() };
                stopped.of(store, &record).await?;
                if record.head > 0 {
                    self.stop_children(run_id, Unneeded::All, Vec::new()).await;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
