//! When each connection gets its sign of life.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Signs of life, each connection's at moments of its own.
///
/// Readers come together, after an outage for instance, and are silent together, when the run that they all read is. If
/// each had its sign of life so long after it came, or after the last frame, those of ten thousand would go out within one
/// moment, in front of whatever a run beside them says then. So each connection looks only at moments that do not depend on
/// what was sent over it, and those of connections that come one after the other are as far apart as they can be.
#[derive(Debug)]
pub(crate) struct KeepAlives {
    longest: Duration,
    /// How many connections there were.
    given: AtomicU64,
}

/// The signs of life of one connection.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    looks: Interval,
    /// What is longer than this at a look is ended by a sign of life, because it would be too long at the next.
    shortest: Duration,
    sent: Instant,
}

impl KeepAlives {
    /// None is silent for longer than this.
    pub(crate) fn new(longest: Duration) -> KeepAlives {
        KeepAlives { longest, given: AtomicU64::new(0) }
    }

    /// Those of a connection that begins now.
    pub(crate) fn begin(&self) -> KeepAlive {
        let nth = self.given.fetch_add(1, Ordering::Relaxed);
        let (now, half) = (Instant::now(), self.longest / 2);
        let mut looks = interval_at(now + first_after(nth, half), half);
        // A connection that took nothing for a while needs no more than one.
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        KeepAlive { looks, shortest: half, sent: now }
    }
}

impl KeepAlive {
    /// Something else was sent, which is as good.
    pub(crate) fn sent(&mut self) {
        self.sent = Instant::now();
    }

    /// Waits until a sign of life is due, which then counts as sent: after a silence of half the longest one to the whole.
    /// Cancel-safe.
    pub(crate) async fn due(&mut self) {
        loop {
            let at = self.looks.tick().await;
            if at.saturating_duration_since(self.sent) > self.shortest {
                self.sent = at;
                return;
            }
        }
    }
}

/// Steps by the golden ratio, which lays any number of points evenly around a circle, each new one into one of the widest
/// gaps.
fn first_after(nth: u64, within: Duration) -> Duration {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let turned = nth.wrapping_mul(GOLDEN) as f64 / 2_f64.powi(64);
    within.mul_f64(1.0 - turned.min(1.0 - f64::EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(15);
    /// The clock of the timers counts in whole ones.
    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn of_ten_thousand_connections_each_moment_has_its_share() {
        let within = Duration::from_secs(15);
        for before in [0, 1, 12_345, u64::MAX - 5_000] {
            let mut shares = [0_u32; 150];
            for nth in 0..10_000 {
                let first = first_after(before.wrapping_add(nth), within);
                assert!(Duration::ZERO < first && first <= within, "{nth}: {first:?}");
                shares[((first.as_secs_f64() * 10.0) as usize).min(149)] += 1;
            }
            // Sixty-six or so in each tenth of a second, and nowhere a burst.
            assert!(shares.iter().all(|share| (60..=73).contains(share)), "{shares:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn in_silence_a_sign_of_life_comes_once_in_the_longest_one_and_never_later() {
        let keep_alives = KeepAlives::new(LONGEST);
        for _ in 0..100 {
            let mut keep_alive = keep_alives.begin();
            let began = Instant::now();
            keep_alive.due().await;
            let first = began.elapsed();
            assert!(LONGEST / 2 < first && first <= LONGEST + MILLISECOND, "{first:?}");
            for n in 1..4 {
                keep_alive.due().await;
                let later = began.elapsed() - first;
                assert!(later.abs_diff(LONGEST * n) <= MILLISECOND, "{later:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_fall_silent_together_have_their_signs_of_life_apart() {
        let keep_alives = KeepAlives::new(LONGEST);
        let mut all: Vec<KeepAlive> = (0..1000).map(|_| keep_alives.begin()).collect();
        tokio::time::sleep(Duration::from_secs(100)).await;
        for keep_alive in &mut all {
            keep_alive.sent();
        }
        let silent = Instant::now();
        let mut waiting = tokio::task::JoinSet::new();
        for mut keep_alive in all {
            waiting.spawn(async move {
                keep_alive.due().await;
                silent.elapsed()
            });
        }
        let mut shares = [0_u32; 15];
        for due in waiting.join_all().await {
            assert!(LONGEST / 2 < due + MILLISECOND && due <= LONGEST + MILLISECOND, "{due:?}");
            shares[(((due.as_secs_f64() - 7.5).max(0.0) * 2.0) as usize).min(14)] += 1;
        }
        assert!(shares.iter().all(|share| (55..=80).contains(share)), "{shares:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_over_which_something_comes_all_the_time_has_none() {
        let mut keep_alive = KeepAlives::new(LONGEST).begin();
        for _ in 0..100 {
            let due = tokio::time::timeout(Duration::from_secs(5), keep_alive.due()).await;
            assert!(due.is_err(), "it was not silent for long enough");
            keep_alive.sent();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_missed_is_not_made_up_for() {
        let mut keep_alive = KeepAlives::new(LONGEST).begin();
        tokio::time::advance(LONGEST * 10).await;
        keep_alive.due().await;
        let now = Instant::now();
        keep_alive.due().await;
        assert!(Instant::now() > now, "the next one is still to come");
    }
}
