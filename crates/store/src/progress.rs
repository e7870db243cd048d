//! How far what an appender enqueued has become durable.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::AppendError;

/// Watches one [`Appender`](crate::Appender). Cheap to clone, and outlives it.
///
/// Every `wait_…` and [`flush`](Progress::flush) is cancel-safe: dropping the future changes nothing.
#[derive(Clone, Debug)]
pub struct Progress {
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    durable: u64,
    /// Appends ever enqueued, and those of them that were committed or lost.
    enqueued: u64,
    settled: u64,
    frames: usize,
    bytes: usize,
    failed: Option<AppendError>,
}

impl Progress {
    pub(crate) fn new(head: u64) -> Progress {
        Progress { state: Arc::new(watch::Sender::new(State { durable: head, ..State::default() })) }
    }

    /// The last `seq` of this run that is durable, as far as this appender knows.
    pub fn durable(&self) -> u64 {
        self.state.borrow().durable
    }

    /// Why the appender cannot go on, if it cannot.
    pub fn failed(&self) -> Option<AppendError> {
        self.state.borrow().failed.clone()
    }

    /// Waits until frame `seq` is durable.
    ///
    /// Waits for ever if that frame is never enqueued and nothing fails.
    ///
    /// # Errors
    ///
    /// The appender's failure, if that comes first.
    pub async fn wait_durable(&self, seq: u64) -> Result<(), AppendError> {
        self.wait(|state| if state.durable >= seq { Some(Ok(())) } else { state.failed.clone().map(Err) }).await
    }

    /// Waits until what this appender has under way is below both limits, or nothing is under way. Frames are
    /// counted, and the bytes of frames and payloads.
    ///
    /// This is the only bound of the store's queue: enqueueing never waits, so a run that can outpace the disk
    /// calls this between appends.
    ///
    /// # Errors
    ///
    /// The appender's failure, if it has one.
    pub async fn wait_below(&self, max_frames: usize, max_bytes: usize) -> Result<(), AppendError> {
        self.wait(|state| {
            if let Some(error) = &state.failed {
                return Some(Err(error.clone()));
            }
            let idle = state.enqueued == state.settled;
            (idle || (state.frames < max_frames && state.bytes < max_bytes)).then_some(Ok(()))
        })
        .await
    }

    /// Waits until everything that was enqueued before this call is durable, appends without frames included.
    ///
    /// # Errors
    ///
    /// The appender's failure, if it has one.
    pub async fn flush(&self) -> Result<(), AppendError> {
        let target = self.state.borrow().enqueued;
        self.wait(|state| {
            if let Some(error) = &state.failed {
                return Some(Err(error.clone()));
            }
            (state.settled >= target).then_some(Ok(()))
        })
        .await
    }

    async fn wait(&self, done: impl Fn(&State) -> Option<Result<(), AppendError>>) -> Result<(), AppendError> {
        let mut changes = self.state.subscribe();
        loop {
            if let Some(answer) = done(&changes.borrow_and_update()) {
                return answer;
            }
            changes.changed().await.expect("self holds the sender for as long as this future lives");
        }
    }

    /// Counts an append that is about to be enqueued.
    pub(crate) fn begin(&self, last_seq: Option<u64>, frames: usize, bytes: usize) -> Ticket {
        // Nobody waits for there to be more under way.
        self.state.send_if_modified(|state| {
            state.enqueued += 1;
            state.frames += frames;
            state.bytes += bytes;
            false
        });
        Ticket { progress: self.clone(), last_seq, frames, bytes, settled: false }
    }
}

/// One append under way. Dropping it unsettled (the writer is gone) fails the appender as closed, so nobody
/// waits for ever.
#[derive(Debug)]
pub(crate) struct Ticket {
    progress: Progress,
    last_seq: Option<u64>,
    frames: usize,
    bytes: usize,
    settled: bool,
}

impl Ticket {
    pub(crate) fn failed(&self) -> Option<AppendError> {
        self.progress.failed()
    }

    pub(crate) fn settle(mut self, answer: Result<(), AppendError>) {
        self.finish(answer);
    }

    fn finish(&mut self, answer: Result<(), AppendError>) {
        self.settled = true;
        self.progress.state.send_modify(|state| {
            state.settled += 1;
            state.frames -= self.frames;
            state.bytes -= self.bytes;
            match answer {
                Ok(()) => {
                    if let Some(seq) = self.last_seq {
                        state.durable = seq;
                    }
                }
                Err(error) => {
                    state.failed.get_or_insert(error);
                }
            }
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.settled {
            self.finish(Err(crate::error::StorageFailure::Closed.into()));
        }
    }
}
