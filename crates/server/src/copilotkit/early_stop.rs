//! Stops that came before their run: a page sends both over connections of their own, and the second may overtake the first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::Principal;

/// How long a stop waits for its run.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many may wait. The oldest goes when another comes.
const MOST: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
struct Stop {
    principal: Option<String>,
    thread_id: String,
    run_id: String,
}

/// What is to be stopped as soon as it begins. Bounded by [`MOST`], and each kept for [`PATIENCE`].
#[derive(Debug, Default)]
pub(crate) struct EarlyStops {
    stops: Mutex<VecDeque<(Instant, Stop)>>,
}

impl EarlyStops {
    /// Remembers that this principal's run is to be stopped.
    pub(super) fn put(&self, principal: &Principal, thread_id: &str, run_id: &str) {
        let stop = Stop { principal: principal.owner(), thread_id: thread_id.to_owned(), run_id: run_id.to_owned() };
        let mut stops = self.recent();
        if stops.len() == MOST {
            stops.pop_front();
        }
        stops.push_back((Instant::now(), stop));
    }

    /// Whether a stop waits for this run. It does so once.
    pub(super) fn take(&self, principal: &Principal, thread_id: &str, run_id: &str) -> bool {
        let owner = principal.owner();
        let mut stops = self.recent();
        let before = stops.len();
        stops.retain(|(_, stop)| {
            (stop.principal.as_deref(), &*stop.thread_id, &*stop.run_id) != (owner.as_deref(), thread_id, run_id)
        });
        stops.len() < before
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(Instant, Stop)>> {
        // Nothing here can panic between two changes that belong together.
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        while stops.front().is_some_and(|(came, _)| came.elapsed() >= PATIENCE) {
            stops.pop_front();
        }
        stops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_waits_for_its_own_run_and_is_taken_once() {
        let (stops, anybody) = (EarlyStops::default(), Principal::anybody());
        stops.put(&anybody, "t", "r");
        assert!(!stops.take(&anybody, "t", "other") && !stops.take(&anybody, "other", "r"));
        assert!(stops.take(&anybody, "t", "r"));
        assert!(!stops.take(&anybody, "t", "r"));
    }

    #[test]
    fn of_too_many_the_oldest_goes() {
        let (stops, anybody) = (EarlyStops::default(), Principal::anybody());
        for n in 0..=MOST {
            stops.put(&anybody, "t", &n.to_string());
        }
        assert!(!stops.take(&anybody, "t", "0"));
        assert!(stops.take(&anybody, "t", "1") && stops.take(&anybody, "t", &MOST.to_string()));
    }
}
