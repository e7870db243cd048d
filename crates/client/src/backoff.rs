//! How long to wait before connecting again: exponential backoff with full jitter.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// No single wait is longer than this, whatever the server asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// How a follower waits between connections.
///
/// The wait before the n-th try in a row is drawn evenly from zero to `first` × 2ⁿ⁻¹, at most `cap`. The whole range is
/// used, zero included, because many clients lose the same server at the same instant and must not return together.
/// What the server asks for (`Retry-After`, SSE `retry:`) is a lower bound on top of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Upper bound of the first wait.
    pub first: Duration,
    /// Upper bound of every wait that the server did not ask for.
    pub cap: Duration,
    /// Give up when this much time passed since the connection was lost, or would have passed by the end of the next
    /// wait. `None`: never.
    pub max_elapsed: Option<Duration>,
}

impl Default for Backoff {
    /// 250 ms doubling up to 15 s, without giving up.
    fn default() -> Backoff {
        Backoff { first: Duration::from_millis(250), cap: Duration::from_secs(15), max_elapsed: None }
    }
}

/// Where a follower stands in its [`Backoff`]. Time and randomness come in as arguments.
#[derive(Debug)]
pub(crate) struct Retries {
    policy: Backoff,
    /// Cuts since the last sign that the server works.
    cuts: u32,
    /// When the first of those was.
    down_since: Option<Instant>,
    /// What SSE `retry:` asked for, as a lower bound of the first wait.
    floor: Duration,
}

impl Retries {
    pub(crate) fn new(policy: Backoff) -> Retries {
        Retries { policy, cuts: 0, down_since: None, floor: Duration::ZERO }
    }

    /// The server said how long to wait at least before coming back.
    pub(crate) fn set_floor(&mut self, floor: Duration) {
        self.floor = floor;
    }

    /// The server works: the next wait is a first one again.
    pub(crate) fn recovered(&mut self) {
        self.cuts = 0;
        self.down_since = None;
    }

    /// A connection that stayed up for `held` was lost. One that outlived the longest wait counts as working even if it
    /// brought nothing: a run may be suspended for days, over any number of connections that the server recycles.
    pub(crate) fn held(&mut self, held: Duration) {
        if held >= self.policy.cap {
            self.recovered();
        }
    }

    /// A connection was lost or did not come about: how long to wait, or `Err` with the time spent when it is time to
    /// give up. `asked` is what the server asked for this once; `jitter` is from 0 to 1.
    pub(crate) fn cut(&mut self, now: Instant, asked: Option<Duration>, jitter: f64) -> Result<Duration, Duration> {
        let doubled = self.policy.first.saturating_mul(1_u32.checked_shl(self.cuts).unwrap_or(u32::MAX));
        let drawn = doubled.min(self.policy.cap).mul_f64(jitter.clamp(0.0, 1.0));
        let floor = if self.cuts == 0 { self.floor } else { Duration::ZERO };
        let wait = drawn.max(floor).max(asked.unwrap_or_default()).min(LONGEST_WAIT);
        self.cuts = self.cuts.saturating_add(1);
        let elapsed = now - *self.down_since.get_or_insert(now);
        match self.policy.max_elapsed {
            Some(most) if elapsed + wait > most => Err(elapsed),
            _ => Ok(wait),
        }
    }
}

/// A number from 0 up to 1. The standard library seeds its hashers differently each time, which is all the randomness
/// that spreading clients apart needs.
pub(crate) fn jitter() -> f64 {
    const BITS: u32 = 53;
    (RandomState::new().build_hasher().finish() >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn retries(max_elapsed: Option<Duration>) -> Retries {
        Retries::new(Backoff { first: 100 * MS, cap: 1000 * MS, max_elapsed })
    }

    #[test]
    fn waits_double_from_the_first_up_to_the_cap() {
        let (mut retries, now) = (retries(None), Instant::now());
        let waits: Vec<_> = (0..6).map(|_| retries.cut(now, None, 1.0).unwrap()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000].map(|ms| ms * MS));
    }

    #[test]
    fn many_cuts_stay_at_the_cap() {
        let (mut retries, now) = (retries(None), Instant::now());
        let last = (0..100).map(|_| retries.cut(now, None, 1.0).unwrap()).last();
        assert_eq!(last, Some(1000 * MS));
    }

    #[test]
    fn full_jitter_uses_the_whole_range() {
        let now = Instant::now();
        for (jitter, wait) in [(0.0, 0), (0.25, 25), (1.0, 100)] {
            assert_eq!(retries(None).cut(now, None, jitter).unwrap(), wait * MS);
        }
    }

    #[test]
    fn a_received_frame_makes_the_next_wait_a_first_one() {
        let (mut retries, now) = (retries(None), Instant::now());
        for _ in 0..4 {
            retries.cut(now, None, 1.0).unwrap();
        }
        retries.recovered();
        assert_eq!(retries.cut(now, None, 1.0).unwrap(), 100 * MS);
    }

    #[test]
    fn a_connection_that_outlived_the_cap_counts_as_working() {
        for (held, wait) in [(999 * MS, 200 * MS), (1000 * MS, 100 * MS)] {
            let (mut retries, now) = (retries(None), Instant::now());
            retries.cut(now, None, 1.0).unwrap();
            retries.held(held);
            assert_eq!(retries.cut(now, None, 1.0).unwrap(), wait);
        }
    }

    #[test]
    fn sse_retry_is_the_floor_of_the_first_wait_only() {
        let (mut retries, now) = (retries(None), Instant::now());
        retries.set_floor(700 * MS);
        assert_eq!(retries.cut(now, None, 1.0).unwrap(), 700 * MS);
        assert_eq!(retries.cut(now, None, 1.0).unwrap(), 200 * MS);
        retries.recovered();
        assert_eq!(retries.cut(now, None, 0.0).unwrap(), 700 * MS);
    }

    #[test]
    fn retry_after_is_a_floor_beyond_the_cap_and_at_most_a_day() {
        let (mut retries, now) = (retries(None), Instant::now());
        assert_eq!(retries.cut(now, Some(5000 * MS), 1.0).unwrap(), 5000 * MS);
        assert_eq!(retries.cut(now, Some(Duration::MAX), 1.0).unwrap(), LONGEST_WAIT);
    }

    #[test]
    fn gives_up_before_a_wait_that_would_end_past_max_elapsed() {
        let (mut retries, start) = (retries(Some(350 * MS)), Instant::now());
        assert_eq!(retries.cut(start, None, 1.0), Ok(100 * MS));
        assert_eq!(retries.cut(start + 100 * MS, None, 1.0), Ok(200 * MS));
        assert_eq!(retries.cut(start + 300 * MS, None, 1.0), Err(300 * MS));
    }

    #[test]
    fn jitter_is_from_zero_to_one_and_varies() {
        let drawn: Vec<f64> = (0..64).map(|_| jitter()).collect();
        assert!(drawn.iter().all(|j| (0.0..1.0).contains(j)));
        assert!(drawn.iter().any(|j| j != &drawn[0]));
    }
}
