//! Following a run.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::entry::Entry;
use crate::error::{ReadError, StorageFailure, TailError};
use crate::frames::{self, PageLimits};
use crate::live::{Found, Live, Registry, State};
use crate::readers::Readers;

/// A cursor over a run's log that waits at the head. From [`Store::tail`](crate::Store::tail).
///
/// It buffers nothing: a frame that is no longer in the run's shared ring is read from the file when it is asked
/// for (G8). It does not keep the store open.
pub struct Tail {
    cursor: u64,
    limits: PageLimits,
    live: Arc<Live>,
    changes: watch::Receiver<State>,
    readers: Arc<Readers>,
}

/// What comes next in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailItem {
    /// The frames right after the cursor: at least one, consecutive, and at most a page.
    Frames(Vec<Entry>),
    /// Every frame was read, and the run has ended: nothing will ever follow (G6).
    Ended,
}

impl Tail {
    /// Subscribes first and reads the position second, so that nothing falls between the two.
    pub(crate) async fn open(
        registry: &Arc<Registry>,
        readers: &Arc<Readers>,
        limits: PageLimits,
        run_id: &str,
        after: u64,
    ) -> Result<Tail, TailError> {
        let live = registry.join(run_id);
        let changes = live.subscribe();
        let position = {
            let run_id = Arc::clone(live.run_id());
            readers.read(move |conn| frames::position(conn, &run_id)).await?.ok_or(TailError::UnknownRun)?
        };
        live.observe(position.head, position.ended);
        // What was published meanwhile may be ahead of what was read.
        let head = changes.borrow().head();
        if after > head {
            return Err(TailError::PastHead { head });
        }
        if after + 1 < position.oldest {
            return Err(TailError::Gone { oldest: position.oldest });
        }
        Ok(Tail { cursor: after, limits, live, changes, readers: Arc::clone(readers) })
    }

    /// The last `seq` that was returned, or the one that the tail was opened at.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The run's last durable `seq`, as far as this tail knows.
    pub fn head(&self) -> u64 {
        self.changes.borrow().head()
    }

    /// Waits for the frames after the cursor, and moves the cursor past them. After [`TailItem::Ended`] it answers
    /// that again.
    ///
    /// Cancel-safe: the cursor moves only when frames are returned.
    ///
    /// # Errors
    ///
    /// `Gone` when retention overtook the cursor, `Missing` when the file is damaged, `Storage` when it cannot be read
    /// or the store was closed. The cursor stays where it was.
    pub async fn next(&mut self) -> Result<TailItem, ReadError> {
        loop {
            // The guard is gone at the end of this statement: no lock is held across an await.
            let found = self.changes.borrow_and_update().after(self.cursor, self.limits);
            match found {
                Found::Frames(entries) => return Ok(self.advance(entries)),
                Found::InFile => {
                    let (run_id, cursor, limits) = (Arc::clone(self.live.run_id()), self.cursor, self.limits);
                    let entries = self.readers.read(move |conn| frames::page(conn, &run_id, cursor, limits)).await??;
                    if entries.is_empty() {
                        // The head was read from this file, so it cannot be shorter.
                        return Err(ReadError::Missing { seq: cursor + 1 });
                    }
                    return Ok(self.advance(entries));
                }
                Found::Ended => return Ok(TailItem::Ended),
                Found::Closed => return Err(StorageFailure::Closed.into()),
                Found::Nothing => {
                    if self.changes.changed().await.is_err() {
                        // The sender is in `live`, which this tail holds.
                        return Err(StorageFailure::Closed.into());
                    }
                }
            }
        }
    }

    fn advance(&mut self, entries: Vec<Entry>) -> TailItem {
        if let Some(last) = entries.last() {
            self.cursor = last.seq();
        }
        TailItem::Frames(entries)
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("run_id", self.live.run_id()).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}
