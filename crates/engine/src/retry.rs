//! Whether a failed attempt is followed by another, and after how long.

use std::time::Duration;

use runwire_bridge::Failure;
use runwire_frame::{ErrorCode, Timestamp};
use uuid::Uuid;

/// When an agent's failed runs are tried again. The default is one attempt: nothing is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many attempts a run has in all, over all of its exchanges. 0 is taken as 1.
    pub max_attempts: u32,
    /// The pause after the first failed attempt; twice as long after each further one. Default 1 s.
    pub backoff: Duration,
    /// The longest pause. Default 1 min.
    pub max_backoff: Duration,
    /// The codes that are tried again, if their failure is retryable; `None` for every code.
    pub codes: Option<Vec<ErrorCode>>,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            max_attempts: 1,
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            codes: None,
        }
    }
}

impl RetryPolicy {
    /// Whether the attempt of this number, which failed so, is followed by another.
    ///
    /// By code and `retryable`, never by the message. What asks to be left alone for longer than `max_backoff` is not tried
    /// again: an attempt before that would be refused, and one after it is more than the policy waits.
    pub fn tries_again(&self, attempt: u32, failure: &Failure) -> bool {
        self.has_attempt_for(attempt, failure) && failure.retry_after.is_none_or(|wait| wait <= self.max_backoff)
    }

    fn has_attempt_for(&self, attempt: u32, failure: &Failure) -> bool {
        failure.retryable
            && attempt < self.max_attempts
            && self.codes.as_ref().is_none_or(|codes| codes.contains(&failure.code))
    }

    /// The failure that a run ends with, which says so where an attempt would have followed but for how long it was to wait.
    pub(crate) fn explained(&self, attempt: u32, failure: Failure) -> Failure {
        let Some(wait) = failure.retry_after.filter(|_| self.has_attempt_for(attempt, &failure)) else {
            return failure;
        };
        if wait <= self.max_backoff {
            return failure;
        }
        let detail = format!(
            "{}; it is not tried again, because that was asked for only after {wait:?}, and the longest pause \
             (`max_backoff`) is {:?}",
            failure.detail.as_ref().unwrap_or(&failure.message),
            self.max_backoff
        );
        Failure { detail: Some(detail), ..failure }
    }

    /// How long to wait after the failed attempt of this number: a random time between half of the pause and the whole,
    /// so that runs which failed together do not come back together. Never less than what failed asked for, which is at
    /// most `max_backoff`: where that is longer than half of the pause, up to half of the pause comes on top.
    pub(crate) fn pause(&self, attempt: u32, retry_after: Option<Duration>) -> Duration {
        let doubled = 2u32.checked_pow(attempt.saturating_sub(1)).and_then(|times| self.backoff.checked_mul(times));
        let whole = doubled.map_or(self.max_backoff, |pause| pause.min(self.max_backoff));
        let (half, asked) = (whole / 2, retry_after.unwrap_or_default());
        let shortest = half.max(asked);
        let longest = whole.max(asked.saturating_add(half).min(self.max_backoff)).max(shortest);
        // The last 32 bits of such an id are random; those before them count.
        let random = Uuid::now_v7().as_u64_pair().1 & u64::from(u32::MAX);
        let share = random as f64 / (1u64 << 32) as f64;
        shortest + (longest - shortest).mul_f64(share)
    }

    /// When the attempt after this one, which failed at that time, is due.
    pub(crate) fn next_at(&self, attempt: u32, failed_at: Timestamp, retry_after: Option<Duration>) -> Timestamp {
        later(failed_at, self.pause(attempt, retry_after))
    }

    /// When an attempt is due that an earlier server has put off until `noted`, if it noted that, after one that failed at
    /// `failed_at`: never later than this policy has it.
    pub(crate) fn resumed_at(&self, attempt: u32, failed_at: Timestamp, noted: Option<Timestamp>) -> Timestamp {
        noted.unwrap_or_else(|| self.next_at(attempt, failed_at, None)).min(later(failed_at, self.max_backoff))
    }

    /// How long it is at `now` until an attempt that is due then. The clock may have been set since; the pause gets no
    /// longer by that than the longest.
    pub(crate) fn left(&self, next_at: Timestamp, now: Timestamp) -> Duration {
        Duration::from_millis(now.millis_until(next_at)).min(self.max_backoff)
    }
}

/// The instant so long after another.
fn later(instant: Timestamp, by: Duration) -> Timestamp {
    let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_unix_millis(instant.unix_millis().saturating_add(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: ErrorCode, retryable: bool) -> Failure {
        Failure { retryable, ..Failure::new(code, "no") }
    }

    #[test]
    fn only_a_retryable_failure_of_a_named_code_is_tried_again_and_only_while_attempts_are_left() {
        let policy = RetryPolicy { max_attempts: 3, ..RetryPolicy::default() };
        assert!(policy.tries_again(1, &failure(ErrorCode::ModelError, true)));
        assert!(policy.tries_again(2, &failure(ErrorCode::ModelError, true)));
        assert!(!policy.tries_again(3, &failure(ErrorCode::ModelError, true)));
        assert!(!policy.tries_again(1, &failure(ErrorCode::ModelError, false)));
        let named = RetryPolicy { codes: Some(vec![ErrorCode::RateLimited]), ..policy };
        assert!(named.tries_again(1, &failure(ErrorCode::RateLimited, true)));
        assert!(!named.tries_again(1, &failure(ErrorCode::ModelError, true)));
        assert!(!RetryPolicy::default().tries_again(1, &failure(ErrorCode::ModelError, true)));
    }

    #[test]
    fn the_pause_doubles_up_to_its_longest_and_is_never_less_than_half_of_that() {
        let policy = RetryPolicy::default();
        for (attempt, whole) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (40, 60), (u32::MAX, 60)] {
            let whole = Duration::from_secs(whole);
            let pauses: Vec<Duration> = (0..200).map(|_| policy.pause(attempt, None)).collect();
            assert!(pauses.iter().all(|pause| (whole / 2..=whole).contains(pause)), "{attempt}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "attempt {attempt} has no jitter");
            let (low, high) = (whole.mul_f64(0.6), whole.mul_f64(0.9));
            assert!(pauses.iter().any(|pause| *pause < low) && pauses.iter().any(|pause| *pause > high));
        }
    }

    fn asks_to_wait(seconds: u64) -> Failure {
        Failure { retry_after: Some(Duration::from_secs(seconds)), ..failure(ErrorCode::RateLimited, true) }
    }

    #[test]
    fn the_pause_is_never_shorter_than_what_was_asked_for_and_never_longer_than_the_longest() {
        let policy = RetryPolicy { max_attempts: 9, ..RetryPolicy::default() };
        // Seconds: the whole pause, what is asked for, and between what the pause then is.
        for (attempt, asked, shortest, longest) in [
            (1, 0, 0.5, 1.0),
            (3, 1, 2.0, 4.0),
            (3, 3, 3.0, 5.0),
            (1, 7, 7.0, 7.5),
            (5, 58, 58.0, 60.0),
            (7, 60, 60.0, 60.0),
        ] {
            let failure = asks_to_wait(asked);
            assert!(policy.tries_again(attempt, &failure));
            let pauses: Vec<f64> = (0..200).map(|_| policy.pause(attempt, failure.retry_after).as_secs_f64()).collect();
            assert!(pauses.iter().all(|pause| (shortest..=longest).contains(pause)), "{attempt}, {asked}: {pauses:?}");
            assert!(shortest == longest || pauses.iter().any(|pause| *pause != pauses[0]), "{attempt} has no jitter");
        }
    }

    #[test]
    fn what_asks_for_more_than_the_longest_pause_is_not_tried_again_and_the_failure_says_so() {
        let policy = RetryPolicy { max_attempts: 2, ..RetryPolicy::default() };
        assert!(policy.tries_again(1, &asks_to_wait(60)));
        assert!(!policy.tries_again(1, &asks_to_wait(61)));
        let said = |attempt, failure: Failure| policy.explained(attempt, failure).detail;
        let detail = said(1, asks_to_wait(3600)).unwrap_or_default();
        assert!(detail.starts_with("no; ") && detail.contains("3600s") && detail.contains("60s"), "{detail}");
        let detailed = Failure { detail: Some("HTTP 429".to_owned()), ..asks_to_wait(3600) };
        assert!(said(1, detailed).is_some_and(|detail| detail.starts_with("HTTP 429; ")));
        // Where it is not the wait that nothing follows for.
        assert_eq!(said(2, asks_to_wait(3600)), None);
        assert_eq!(said(1, asks_to_wait(60)), None);
        assert_eq!(said(1, Failure { retryable: false, ..asks_to_wait(3600) }), None);
    }

    #[test]
    fn a_pause_is_counted_from_the_failure_whoever_sits_it_out() {
        let policy = RetryPolicy::default();
        let at = |seconds: i64| Timestamp::from_unix_millis(seconds * 1000);
        // As it was noted, but no longer than this policy waits.
        assert_eq!(policy.resumed_at(1, at(1000), Some(at(1007))), at(1007));
        assert_eq!(policy.resumed_at(1, at(1000), Some(at(9000))), at(1060));
        // An earlier version noted nothing.
        let anew = policy.resumed_at(3, at(1000), None);
        assert!((at(1002)..=at(1004)).contains(&anew), "{anew}");
        let seconds = |next_at, now| policy.left(at(next_at), at(now)).as_secs();
        assert_eq!((seconds(1007, 1000), seconds(1007, 1005), seconds(1007, 1007), seconds(1007, 9999)), (7, 2, 0, 0));
        assert_eq!(seconds(1007, 0), 60, "a clock that was set back makes no run wait for an age");
    }
}
