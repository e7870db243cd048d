//! When each connection gets its sign of life.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Signs of life, each connection's at moments of its own.
///
/// Readers come together, after an outage for instance, and are silent together, when the run that they all read is. If
/// each had its sign of life so long after it came, or after the last frame, those of ten thousand would go out within one
/// moment, in front of whatever a run beside them says then. So the moments of a connection do not depend on when anything
/// was sent over it, and those of connections that come one after the other are as far apart as they can be.
#[derive(Debug)]
pub(crate) struct KeepAlives {
    every: Duration,
    /// How many connections there were.
    given: AtomicU64,
}

impl KeepAlives {
    /// One every so often, for each connection.
    pub(crate) fn new(every: Duration) -> KeepAlives {
        KeepAlives { every, given: AtomicU64::new(0) }
    }

    /// The moments of a connection that begins now. The first is after at most the time between two.
    pub(crate) fn begin(&self) -> Interval {
        let nth = self.given.fetch_add(1, Ordering::Relaxed);
        let mut moments = interval_at(Instant::now() + first_after(nth, self.every), self.every);
        // A connection that took nothing for a while gets one, and then those that are still to come.
        moments.set_missed_tick_behavior(MissedTickBehavior::Skip);
        moments
    }
}

/// Steps by the golden ratio, which lays any number of points evenly around a circle, each new one into one of the widest
/// gaps.
fn first_after(nth: u64, every: Duration) -> Duration {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let turned = nth.wrapping_mul(GOLDEN) as f64 / 2_f64.powi(64);
    every.mul_f64(1.0 - turned.min(1.0 - f64::EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(15);

    #[test]
    fn of_ten_thousand_connections_each_moment_has_its_share() {
        for before in [0, 1, 12_345, u64::MAX - 5_000] {
            let mut shares = [0_u32; 150];
            for nth in 0..10_000 {
                let first = first_after(before.wrapping_add(nth), EVERY);
                assert!(Duration::ZERO < first && first <= EVERY, "{nth}: {first:?}");
                shares[((first.as_secs_f64() * 10.0) as usize).min(149)] += 1;
            }
            // Sixty-six or so in each tenth of a second, and nowhere a burst.
            assert!(shares.iter().all(|share| (60..=73).contains(share)), "{shares:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_connection_waits_longer_than_the_time_between_two() {
        let keep_alives = KeepAlives::new(EVERY);
        let mut firsts = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let mut moments = keep_alives.begin();
            let mut last = Instant::now();
            for n in 0..3 {
                let at = moments.tick().await;
                if n == 0 {
                    firsts.insert(at - last);
                }
                // The clock of the timers counts in milliseconds.
                assert!(at - last <= EVERY + Duration::from_millis(1), "{:?}", at - last);
                last = at;
            }
        }
        assert_eq!(firsts.len(), 100, "each has its first at another moment");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_missed_is_not_made_up_for() {
        let keep_alives = KeepAlives::new(EVERY);
        let mut moments = keep_alives.begin();
        tokio::time::advance(EVERY * 10).await;
        moments.tick().await;
        let now = Instant::now();
        moments.tick().await;
        assert!(Instant::now() > now, "the next one is still to come");
    }
}
