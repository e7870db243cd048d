//! Runs that nobody has in hand: those that a server left behind, and those that are lost while this one runs.

use std::collections::HashSet;

use runwire_frame::RunStatus;
use runwire_store::ReadError;

use super::{CancelError, Engine, Unneeded};
use crate::recovery::{RecoverError, Recovered, TakeOver};

impl Engine {
    /// Goes on with the runs that a server left behind, or brings them to their end. To be called once, before runs are
    /// created.
    ///
    /// What had not begun is executed in its turn. What was executed has its next attempt where the agent's policy has one
    /// left, and fails otherwise. What waits for an answer goes on waiting. A run whose agent is not configured any more
    /// fails; where the agent is configured otherwise by now the run goes on with that, and its `run.start` says so. A run that
    /// another started is stopped where that one has failed or was stopped, or cannot find it again.
    ///
    /// A run whose log is damaged stays as it is, and keeps nothing else from starting.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn recover(&self) -> Result<Vec<(String, Recovered)>, RecoverError> {
        let mut recovered = Vec::new();
        for record in self.inner.store.unfinished_runs().await? {
            let why = "the server stopped while the run was executed";
            if let Some(what) = self.take_over(&record.run_id, why).await? {
                recovered.push((record.run_id, what));
            }
        }
        Ok(recovered)
    }

    /// Looks for runs that nobody has in hand, every [`orphan_check`](super::EngineOptions::orphan_check), in a task that
    /// ends when the engine is shut down, and takes them over as [`Engine::recover`] does: none stays in its status for
    /// ever because its task was lost. To be called once.
    pub fn watch_for_orphans(&self) {
        let engine = self.clone();
        self.spawn_until_closing(async move {
            let mut check = tokio::time::interval(engine.inner.options.orphan_check);
            check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            // Said once.
            let mut unreadable = HashSet::new();
            loop {
                check.tick().await;
                if let Err(error) = engine.take_over_orphans(&mut unreadable).await {
                    tracing::warn!(%error, "runs that nobody has in hand could not be looked for; the next look does it");
                }
            }
        });
    }

    async fn take_over_orphans(&self, unreadable: &mut HashSet<String>) -> Result<(), RecoverError> {
        for record in self.inner.store.unfinished_runs().await? {
            let waits = record.status == RunStatus::Suspended.as_str();
            let in_hand = self.inner.turns.waits(&record.run_id) || self.inner.runs.is_in_hand(&record.run_id);
            if waits || in_hand || unreadable.contains(&record.run_id) {
                continue;
            }
            let what = self.take_over(&record.run_id, "the task that executed the run was lost").await?;
            if what == Some(Recovered::Unreadable) {
                unreadable.insert(record.run_id);
            }
        }
        Ok(())
    }

    /// Takes over one run; `None` when somebody has it in hand.
    async fn take_over(&self, run_id: &str, why: &str) -> Result<Option<Recovered>, RecoverError> {
        let Ok(hold) = self.inner.runs.hold(run_id) else { return Ok(None) };
        // Read now that nobody else changes it.
        let Some(record) = self.inner.store.run(run_id).await? else { return Ok(None) };
        let agent = self.inner.agents.get(&record.agent_id);
        let orphaned = match agent {
            Some(_) => why.to_owned(),
            None => format!("{why}, and its agent `{}` is not configured here any more", record.agent_id),
        };
        let needed = self.is_needed(&record).await?;
        let asked_to_stop = || hold.asked_to_stop() || !needed;
        let how = TakeOver {
            why: &orphaned,
            retry: agent.map(|agent| &agent.policy.retry),
            requeue: true,
            asked_to_stop: &asked_to_stop,
            pricing: self.pricing(),
        };
        let what = match how.of(&self.inner.store, &record).await {
            Ok(what) => what,
            Err(
                error @ (RecoverError::Frame { .. }
                | RecoverError::Log(_)
                | RecoverError::Read(ReadError::Missing { .. })),
            ) => {
                tracing::error!(%run_id, %error, "a run that was left behind cannot be taken over");
                Recovered::Unreadable
            }
            Err(error) => return Err(error),
        };
        match what {
            // A run whose parent is gone has nobody who would do anything with its answer.
            Recovered::Suspended if !needed => {
                self.cancel_waiting(run_id).await.map_err(|error| match error {
                    CancelError::Recover(error) => error,
                    CancelError::Read(error) => error.into(),
                    CancelError::UnknownRun(_) => ReadError::UnknownRun.into(),
                })?;
                tracing::warn!(%run_id, "a run waited for an answer that nobody needs any more, and is stopped");
                return Ok(Some(Recovered::Cancelled));
            }
            Recovered::Suspended | Recovered::Unreadable => {}
            Recovered::Queued => {
                tracing::info!(%run_id, "a run was left behind that had not begun, and waits for its turn again");
                if let Some(agent) = agent {
                    self.enter_again(agent, &record);
                }
            }
            Recovered::Retrying => {
                tracing::info!(%run_id, "a run was left behind and has its next attempt");
                self.stop_children(run_id, Unneeded::Unkeyed, Vec::new()).await;
                let turn = agent.map(|agent| self.turn_of_older(agent, &record));
                let (engine, run_id) = (self.clone(), run_id.to_owned());
                self.inner.tasks.spawn(async move { engine.go_on(run_id, hold, turn).await });
                return Ok(Some(what));
            }
            Recovered::Failed | Recovered::Cancelled | Recovered::Ended => {
                tracing::warn!(%run_id, ?what, "a run was left behind and is ended now");
                if what != Recovered::Ended {
                    self.stop_children(run_id, Unneeded::All, Vec::new()).await;
                }
            }
        }
        self.let_go_and_log(run_id, hold).await;
        Ok(Some(what))
    }
}
