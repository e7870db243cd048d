//! Removes what retention does not keep: at the start, and from time to time.

use std::time::Duration;

use runwire_store::{Found, Removable, RemoveError};

use crate::clock::now;
use crate::engine::Engine;

/// How long from one sweep to the next.
const EVERY: Duration = Duration::from_secs(60);

/// How many runs are looked for at once. What is beyond them is found by the next look.
const AT_ONCE: usize = 1000;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many runs were removed.
    pub runs: u64,
    /// How many tombstones were deleted.
    pub tombstones: u64,
}

impl Engine {
    /// The runs that the configured retention does not keep, the first `most` of them by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn not_kept(&self, most: usize) -> Result<Found, RemoveError> {
        let retention = self.retention().clone();
        let which = Removable::NotKept { retention, now: now().unix_millis() };
        Ok(self.store().removable(which, most).await?)
    }

    /// Removes them, and tombstones that are old enough.
    ///
    /// # Errors
    /// When the store cannot be read or written; the next sweep goes on from there.
    pub async fn sweep(&self) -> Result<Swept, RemoveError> {
        let mut swept = Swept::default();
        loop {
            let found = self.not_kept(AT_ONCE).await?;
            let ids: Vec<String> = found.runs.into_iter().map(|run| run.run_id).collect();
            let removed = self.store().remove_runs(&ids, now().unix_millis()).await?;
            swept.runs += removed;
            // None of them: somebody else was faster.
            if removed == 0 {
                break;
            }
        }
        let age = i64::try_from(self.retention().tombstones.as_millis()).unwrap_or(i64::MAX);
        swept.tombstones = self.store().forget_tombstones(now().unix_millis().saturating_sub(age)).await?;
        Ok(swept)
    }

    /// Sweeps now and then every minute, in a task that ends when the engine is shut down. To be called once.
    pub fn sweep_regularly(&self) {
        let engine = self.clone();
        self.spawn_until_closing(async move {
            let mut minute = tokio::time::interval(EVERY);
            minute.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                minute.tick().await;
                match engine.sweep().await {
                    Ok(Swept { runs: 0, tombstones: 0 }) => {}
                    Ok(Swept { runs, tombstones }) => {
                        tracing::info!(runs, tombstones, "retention removed runs, and tombstones of earlier ones");
                    }
                    Err(error) => tracing::warn!(%error, "retention could not remove runs; the next sweep tries again"),
                }
            }
        });
    }
}
