//! The slot of its lane that a run holds while it is executed.
//!
//! A run that waits for a run which it started gives its slot back for that time: otherwise a lane whose slots are all held
//! by runs that wait for others would never execute those. Nobody waits for a slot while holding one, so lanes cannot
//! deadlock, whatever their limits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::turns::{Slot, Turns};

/// The slot of one attempt, shared by its execution and by the driver's handles. The execution gives it back for good when
/// the attempt is over, whoever still has a handle.
pub(crate) struct LaneSlot {
    turns: Arc<Turns>,
    lane: String,
    state: Mutex<State>,
    /// Wakes those that wait for the slot, when another of them has got it or it is not needed any more.
    changed: Notify,
}

#[derive(Default)]
struct State {
    slot: Option<Slot>,
    /// How many waits go on during which the run needs none.
    away: usize,
    /// The attempt is over.
    retired: bool,
}

impl State {
    fn needs_one(&self) -> bool {
        self.slot.is_none() && self.away == 0 && !self.retired
    }
}

/// A wait during which the run needs no slot.
pub(crate) struct Away(Arc<LaneSlot>);

impl LaneSlot {
    pub(crate) fn new(turns: Arc<Turns>, lane: String, slot: Option<Slot>) -> Arc<LaneSlot> {
        let state = State { slot, ..State::default() };
        Arc::new(LaneSlot { turns, lane, state: Mutex::new(state), changed: Notify::new() })
    }

    /// The slot of the next attempt, which has none yet.
    pub(crate) fn next(&self) -> Arc<LaneSlot> {
        LaneSlot::new(self.turns.clone(), self.lane.clone(), None)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.lock().slot.is_some()
    }

    /// Gives the slot back until it is taken again.
    pub(crate) fn give_back(&self) {
        // Dropped without the lock: the next run's turn comes by that.
        let slot = self.lock().slot.take();
        drop(slot);
    }

    /// Gives the slot back for good.
    pub(crate) fn retire(&self) {
        let slot = {
            let mut state = self.lock();
            state.retired = true;
            state.slot.take()
        };
        drop(slot);
        self.changed.notify_waiters();
    }

    /// From here on until the [`Away`] is dropped the run needs no slot, and gives back the one that it has.
    pub(crate) fn away(self: &Arc<Self>) -> Away {
        let slot = {
            let mut state = self.lock();
            state.away += 1;
            state.slot.take()
        };
        drop(slot);
        self.changed.notify_waiters();
        Away(self.clone())
    }

    /// Waits until the run has its slot, ahead of runs that have not begun; not while it needs none.
    ///
    /// Dropped while it waits, it has changed nothing.
    pub(crate) async fn take(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listening first, so that no change falls between the look and the wait.
            changed.as_mut().enable();
            let waiting = {
                let mut state = self.lock();
                if !state.needs_one() {
                    return;
                }
                match self.turns.slot(&self.lane) {
                    Ok(slot) => {
                        state.slot = Some(slot);
                        None
                    }
                    Err(waiting) => Some(waiting),
                }
            };
            let Some(waiting) = waiting else {
                self.changed.notify_waiters();
                return;
            };
            tokio::select! {
                slot = waiting => match slot {
                    Ok(slot) => self.put(slot),
                    // It is dropped unsent only when the server goes, and then nobody's turn comes any more.
                    Err(_) => std::future::pending().await,
                },
                () = changed => {}
            }
        }
    }

    /// Keeps a slot that was waited for, if one is still needed.
    fn put(&self, slot: Slot) {
        let spare = {
            let mut state = self.lock();
            if state.needs_one() {
                state.slot = Some(slot);
                None
            } else {
                Some(slot)
            }
        };
        drop(spare);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment or two, of which none panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Away {
    /// The wait is over: the run has its slot again when this returns, unless it waits for something else as well.
    pub(crate) async fn back(self) {
        let slot = self.0.clone();
        drop(self);
        slot.take().await;
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.0.lock().away -= 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::turns::{DEFAULT_LANE, LaneOptions};

    fn one_slot() -> (Arc<Turns>, Arc<LaneSlot>) {
        let lanes = BTreeMap::from([(DEFAULT_LANE.to_owned(), LaneOptions { limit: Some(1), max_queued: None })]);
        let turns = Turns::new(&lanes, |_, _| {});
        let slot = turns.slot(DEFAULT_LANE).ok();
        let held = LaneSlot::new(turns.clone(), DEFAULT_LANE.to_owned(), slot);
        (turns, held)
    }

    #[tokio::test]
    async fn the_slot_is_free_while_the_run_waits_and_is_its_own_again_after_that() {
        let (turns, held) = one_slot();
        assert!(turns.slot(DEFAULT_LANE).is_err());
        let away = held.away();
        let other = turns.slot(DEFAULT_LANE).ok().unwrap();
        let mut back = Box::pin(away.back());
        assert!(back.as_mut().now_or_never().is_none(), "somebody else has it");
        drop(other);
        back.await;
        assert!(held.is_held() && turns.slot(DEFAULT_LANE).is_err());
    }

    #[tokio::test]
    async fn of_two_waits_the_last_one_takes_the_slot_again() {
        let (turns, held) = one_slot();
        let (first, second) = (held.away(), held.away());
        first.back().now_or_never().expect("the run still waits, so it needs no slot");
        assert!(!held.is_held());
        drop(turns.slot(DEFAULT_LANE).ok().unwrap());
        second.back().await;
        assert!(held.is_held());
    }

    #[tokio::test]
    async fn who_waits_for_a_slot_that_another_task_of_the_run_gets_has_it_too() {
        let (turns, held) = one_slot();
        held.give_back();
        let other = turns.slot(DEFAULT_LANE).ok().unwrap();
        let (mut one, mut two) = (Box::pin(held.take()), Box::pin(held.take()));
        assert!(one.as_mut().now_or_never().is_none() && two.as_mut().now_or_never().is_none());
        drop(other);
        tokio::join!(one, two);
        assert!(held.is_held());
    }

    #[tokio::test]
    async fn a_wait_that_begins_ends_the_wait_for_a_slot() {
        let (turns, held) = one_slot();
        held.give_back();
        let _other = turns.slot(DEFAULT_LANE).ok().unwrap();
        let mut taking = Box::pin(held.take());
        assert!(taking.as_mut().now_or_never().is_none());
        let _away = held.away();
        taking.now_or_never().expect("it needs none now");
    }

    #[tokio::test]
    async fn an_attempt_that_is_over_holds_no_slot_whoever_has_a_handle_of_it() {
        let (turns, held) = one_slot();
        let away = held.away();
        held.retire();
        away.back().await;
        assert!(!held.is_held() && turns.slot(DEFAULT_LANE).is_ok());
    }
}
