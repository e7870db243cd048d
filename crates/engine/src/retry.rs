//! Whether a failed attempt is followed by another, and after how long.

use std::time::Duration;

use runwire_bridge::Failure;
use runwire_frame::ErrorCode;
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
    /// By code and `retryable`, never by the message.
    pub fn tries_again(&self, attempt: u32, failure: &Failure) -> bool {
        failure.retryable
            && attempt < self.max_attempts
            && self.codes.as_ref().is_none_or(|codes| codes.contains(&failure.code))
    }

    /// How long to wait after the failed attempt of this number: a random time between half of the pause and the whole,
    /// so that runs which failed together do not come back together.
    pub(crate) fn pause(&self, attempt: u32) -> Duration {
        let doubled = 2u32.checked_pow(attempt.saturating_sub(1)).and_then(|times| self.backoff.checked_mul(times));
        let whole = doubled.map_or(self.max_backoff, |pause| pause.min(self.max_backoff));
        // The last 32 bits of such an id are random; those before them count.
        let random = Uuid::now_v7().as_u64_pair().1 & u64::from(u32::MAX);
        let share = 0.5 + random as f64 / (1u64 << 33) as f64;
        whole.mul_f64(share)
    }
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
            let pauses: Vec<Duration> = (0..200).map(|_| policy.pause(attempt)).collect();
            assert!(pauses.iter().all(|pause| (whole / 2..=whole).contains(pause)), "{attempt}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "attempt {attempt} has no jitter");
            let (low, high) = (whole.mul_f64(0.6), whole.mul_f64(0.9));
            assert!(pauses.iter().any(|pause| *pause < low) && pauses.iter().any(|pause| *pause > high));
        }
    }
}
