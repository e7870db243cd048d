//! Connect, read, lose the connection, wait, connect again: the one loop behind every follower.
//!
//! What is read and how the place to resume from is kept belongs to a [`Reading`]; when to come back belongs to
//! [`Retries`].

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::backoff::{Retries, jitter};
use crate::disconnect::Stop;
use crate::{Backoff, Disconnect, FollowError};

/// A resumable stream: it knows its own position, and opens each connection at it.
pub(crate) trait Reading: Send {
    type Connection: Send;
    type Item: Send;

    /// Opens a connection at the position.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Connection, Stop>> + Send;

    /// The next thing that comes over the connection. Any of them is a sign of life.
    fn read(
        &mut self,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<Arrived<Self::Item>, Stop>> + Send;
}

/// What came over a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived<I> {
    /// The next item, to be delivered.
    Item(I),
    /// A wish of the server: how long to wait at least before coming back.
    Retry(Duration),
    /// Something that is not delivered: a comment, a ping, a duplicate.
    Alive,
}

/// What a follower tells its caller.
#[derive(Debug, PartialEq)]
pub(crate) enum Step<I> {
    Connected,
    Disconnected { reason: Disconnect, retry_in: Duration },
    Item(I),
}

pub(crate) struct Reconnect<R: Reading> {
    reading: R,
    retries: Retries,
    /// Longest silence, in connecting as in reading.
    idle: Duration,
    state: State<R::Connection>,
}

enum State<C> {
    Down { until: Instant },
    Up { connection: C, since: Instant },
    Over,
}

impl<R: Reading> Reconnect<R> {
    pub(crate) fn new(reading: R, backoff: Backoff, idle: Duration) -> Reconnect<R> {
        let state = State::Down { until: Instant::now() };
        Reconnect { reading, retries: Retries::new(backoff), idle, state }
    }

    pub(crate) fn reading(&self) -> &R {
        &self.reading
    }

    pub(crate) fn reading_mut(&mut self) -> &mut R {
        &mut self.reading
    }

    /// The next step, or `None` when the stream has ended. Not cancel-safe: the future owns what was read last.
    pub(crate) async fn next(&mut self) -> Option<Result<Step<R::Item>, FollowError>> {
        loop {
            let stop = match &mut self.state {
                State::Over => return None,
                State::Down { until } => {
                    sleep_until(*until).await;
                    match timeout(self.idle, self.reading.connect()).await {
                        Ok(Ok(connection)) => {
                            self.state = State::Up { connection, since: Instant::now() };
                            return Some(Ok(Step::Connected));
                        }
                        Ok(Err(stop)) => stop,
                        Err(_) => Disconnect::Silent(self.idle).into(),
                    }
                }
                State::Up { connection, since } => {
                    let stop = match timeout(self.idle, self.reading.read(connection)).await {
                        Ok(Ok(Arrived::Item(item))) => {
                            self.retries.recovered();
                            return Some(Ok(Step::Item(item)));
                        }
                        Ok(Ok(Arrived::Retry(floor))) => {
                            self.retries.set_floor(floor);
                            continue;
                        }
                        Ok(Ok(Arrived::Alive)) => continue,
                        Ok(Err(stop)) => stop,
                        Err(_) => Disconnect::Silent(self.idle).into(),
                    };
                    self.retries.held(since.elapsed());
                    stop
                }
            };
            return self.stopped(stop).transpose();
        }
    }

    /// Leaves the connection, if there is one, and says what follows from its end.
    fn stopped(&mut self, stop: Stop) -> Result<Option<Step<R::Item>>, FollowError> {
        self.state = State::Over;
        let (reason, retry_after) = match stop {
            Stop::Ended => return Ok(None),
            Stop::Fatal(error) => return Err(error),
            Stop::Cut { reason, retry_after } => (reason, retry_after),
        };
        let now = Instant::now();
        match self.retries.cut(now, retry_after, jitter()) {
            Ok(retry_in) => {
                tracing::debug!(%reason, ?retry_in, "connection lost");
                self.state = State::Down { until: now + retry_in };
                Ok(Some(Step::Disconnected { reason, retry_in }))
            }
            Err(elapsed) => Err(FollowError::GaveUp { elapsed, last: reason }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::VecDeque;

    use super::*;

    /// What a scripted connection does next, after so much time.
    type Script = VecDeque<(Duration, Result<Arrived<u64>, Stop>)>;

    struct Scripted(VecDeque<Result<Script, Stop>>);

    impl Reading for Scripted {
        type Connection = Script;
        type Item = u64;

        async fn connect(&mut self) -> Result<Script, Stop> {
            self.0.pop_front().unwrap_or(Err(Stop::Ended))
        }

        async fn read(&mut self, connection: &mut Script) -> Result<Arrived<u64>, Stop> {
            let Some((after, what)) = connection.pop_front() else { return std::future::pending().await };
            tokio::time::sleep(after).await;
            what
        }
    }

    const S: Duration = Duration::from_secs(1);
    const IDLE: Duration = Duration::from_secs(45);

    async fn all(connections: Vec<Result<Script, Stop>>, backoff: Backoff) -> Vec<Result<Step<u64>, FollowError>> {
        let mut reconnect = Reconnect::new(Scripted(connections.into()), backoff, IDLE);
        let mut steps = Vec::new();
        while let Some(step) = reconnect.next().await {
            steps.push(step);
        }
        assert!(reconnect.next().await.is_none(), "an ended stream stays ended");
        steps
    }

    fn cut() -> Stop {
        Disconnect::Closed.into()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_longer_than_the_limit_is_a_cut() {
        let steps = all(vec![Ok([(44 * S, Ok(Arrived::Item(1)))].into())], Backoff::default()).await;
        assert!(matches!(
            &steps[..],
            [Ok(Step::Connected), Ok(Step::Item(1)), Ok(Step::Disconnected { reason: Disconnect::Silent(IDLE), .. })]
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn any_sign_of_life_keeps_a_connection() {
        let mut script: Script = (0..100).map(|_| (15 * S, Ok(Arrived::Alive))).collect();
        script.push_back((15 * S, Ok(Arrived::Item(1))));
        script.push_back((S, Err(Stop::Ended)));
        let steps = all(vec![Ok(script)], Backoff::default()).await;
        assert!(matches!(&steps[..], [Ok(Step::Connected), Ok(Step::Item(1))]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_a_cut() {
        struct Deaf;
        impl Reading for Deaf {
            type Connection = ();
            type Item = u64;
            async fn connect(&mut self) -> Result<(), Stop> {
                std::future::pending().await
            }
            async fn read(&mut self, (): &mut ()) -> Result<Arrived<u64>, Stop> {
                std::future::pending().await
            }
        }
        let step = Reconnect::new(Deaf, Backoff::default(), IDLE).next().await;
        assert!(matches!(step, Some(Ok(Step::Disconnected { reason: Disconnect::Silent(IDLE), .. }))));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_that_is_told_is_the_wait_that_is_kept() {
        let asked = Stop::Cut { reason: Disconnect::Closed, retry_after: Some(7 * S) };
        let mut reconnect = Reconnect::new(Scripted([Err(asked)].into()), Backoff::default(), IDLE);
        let Some(Ok(Step::Disconnected { retry_in, .. })) = reconnect.next().await else { panic!("no cut") };
        assert_eq!(retry_in, 7 * S);
        let start = Instant::now();
        assert!(reconnect.next().await.is_none());
        assert_eq!(start.elapsed(), 7 * S);
    }

    #[tokio::test(start_paused = true)]
    async fn sse_retry_is_the_floor_of_the_first_wait() {
        let script = [(S, Ok(Arrived::Retry(60 * S))), (S, Err(cut()))].into();
        let steps = all(vec![Ok(script)], Backoff::default()).await;
        assert!(matches!(&steps[1], Ok(Step::Disconnected { retry_in, .. }) if *retry_in == 60 * S), "{steps:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_after_max_elapsed_and_says_why() {
        let backoff = Backoff { first: S, cap: 2 * S, max_elapsed: Some(60 * S) };
        let steps = all((0..10_000).map(|_| Err(cut())).collect(), backoff).await;
        let (last, before) = steps.split_last().unwrap();
        assert!(matches!(last, Err(FollowError::GaveUp { elapsed, last: Disconnect::Closed }) if *elapsed <= 60 * S));
        assert!(before.iter().all(|step| matches!(step, Ok(Step::Disconnected { .. }))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_run_over_recycled_connections_is_never_given_up() {
        let backoff = Backoff { first: S, cap: 2 * S, max_elapsed: Some(10 * S) };
        let recycled = || Ok([(30 * S, Err(cut()))].into());
        let steps = all((0..100).map(|_| recycled()).collect(), backoff).await;
        assert!(steps.iter().all(Result::is_ok), "{steps:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_told_once_and_ends_the_stream() {
        let fatal = FollowError::RunNotFound { run_id: "r".into() };
        let steps = all(vec![Err(fatal.into()), Ok(Script::new())], Backoff::default()).await;
        assert!(matches!(&steps[..], [Err(FollowError::RunNotFound { .. })]));
    }
}
