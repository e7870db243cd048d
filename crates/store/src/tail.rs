//! Following a run.

use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use rusqlite::Connection;
use tokio::sync::watch;

use crate::entry::{Entry, Page};
use crate::error::{ReadError, StorageFailure, TailError};
use crate::frames::{self, PageLimits};
use crate::live::{Found, Live, Registry, State};
use crate::page_cache::PageCache;
use crate::readers::Readers;

/// A cursor over a run's log that waits at the head. From [`Store::tail`](crate::Store::tail).
///
/// It buffers nothing: a frame that is no longer in the run's shared ring is read from the file when it is asked
/// for (G8). It does not keep the store open.
pub struct Tail {
    cursor: u64,
    limits: PageLimits,
    cache: Arc<PageCache>,
    live: Arc<Live>,
    changes: watch::Receiver<State>,
    readers: Arc<Readers>,
    /// The page after the cursor, being read while the one before it is sent. Only for a reader that takes whole pages.
    ahead: Option<Reading>,
}

/// A read of the file that has begun.
type Reading = Pin<Box<dyn Future<Output = Result<Option<Page>, ReadError>> + Send + std::marker::Sync>>;

/// What comes next in a run, as bytes of an SSE stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailEvents {
    /// The SSE events of the frames right after the cursor: at least one, consecutive, and at most a page.
    Events(Bytes),
    /// As [`TailItem::Ended`].
    Ended,
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
        cache: &Arc<PageCache>,
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
        if position.removed || after + 1 < position.oldest {
            return Err(TailError::Gone { oldest: position.oldest });
        }
        Ok(Tail {
            cursor: after,
            limits,
            cache: Arc::clone(cache),
            live,
            changes,
            readers: Arc::clone(readers),
            ahead: None,
        })
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
                    let cache = Arc::clone(&self.cache);
                    let read = move |conn: &Connection| {
                        frames::entries(conn, frames::Reading { run_id: &run_id, limits, cache: &cache }, cursor)
                    };
                    let entries = self.readers.read(read).await??;
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

    /// The same as [`Tail::next`] for a reader that wants nothing but the SSE events: a page of the file is given out as
    /// it was read, without looking at each frame, and the next is read meanwhile.
    ///
    /// Cancel-safe, and may be mixed with `next`.
    ///
    /// # Errors
    ///
    /// As [`Tail::next`].
    pub async fn next_events(&mut self) -> Result<TailEvents, ReadError> {
        loop {
            let found = self.changes.borrow_and_update().after(self.cursor, self.limits);
            match found {
                Found::Frames(entries) => {
                    self.ahead = None;
                    let events = joined(&entries);
                    self.advance(entries);
                    return Ok(TailEvents::Events(events));
                }
                Found::InFile => {
                    // A page that another reader has left behind costs no way to another thread and back.
                    if let Some(page) = self.cached_page() {
                        self.ahead = None;
                        self.cursor = page.last();
                        self.read_ahead().await;
                        return Ok(TailEvents::Events(page.into_sse()));
                    }
                    let reading = match &mut self.ahead {
                        Some(reading) => reading,
                        None => self.ahead.insert(self.read_after(self.cursor)),
                    };
                    let page = reading.as_mut().await;
                    self.ahead = None;
                    // What was read ahead may have been there when it was asked for and not any more, or be a page that
                    // `next` has given out since.
                    let page = page?.ok_or(ReadError::Missing { seq: self.cursor + 1 })?;
                    if page.first() != self.cursor + 1 {
                        continue;
                    }
                    self.cursor = page.last();
                    self.read_ahead().await;
                    return Ok(TailEvents::Events(page.into_sse()));
                }
                Found::Ended => return Ok(TailEvents::Ended),
                Found::Closed => return Err(StorageFailure::Closed.into()),
                Found::Nothing => {
                    if self.changes.changed().await.is_err() {
                        return Err(StorageFailure::Closed.into());
                    }
                }
            }
        }
    }

    /// Begins to read the page after the cursor, if it has to come from the file.
    async fn read_ahead(&mut self) {
        let found = self.changes.borrow().after(self.cursor, PageLimits { frames: 1, bytes: 0 });
        if !matches!(found, Found::InFile) || self.cached_page().is_some() {
            return;
        }
        let mut reading = self.read_after(self.cursor);
        // Polled once, it is under way if a connection is free, and goes on by itself. Whatever it comes to is looked at
        // when it is its turn.
        let mut outcome = None;
        poll_fn(|context| {
            if let Poll::Ready(page) = reading.as_mut().poll(context) {
                outcome = Some(page);
            }
            Poll::Ready(())
        })
        .await;
        self.ahead = Some(match outcome {
            Some(page) => Box::pin(ready(page)),
            None => reading,
        });
    }

    /// The page after the cursor, if it is in memory and may be given out whole.
    fn cached_page(&self) -> Option<Page> {
        let page = self.cache.get(self.live.run_id(), self.cursor + 1)?;
        (page.len() <= self.limits.frames && page.sse().len() <= self.limits.bytes).then_some(page)
    }

    fn read_after(&self, cursor: u64) -> Reading {
        let (run_id, limits, readers) = (Arc::clone(self.live.run_id()), self.limits, Arc::clone(&self.readers));
        let cache = Arc::clone(&self.cache);
        let read = move |conn: &Connection| {
            frames::page(conn, frames::Reading { run_id: &run_id, limits, cache: &cache }, cursor)
        };
        Box::pin(async move { readers.read(read).await? })
    }

    fn advance(&mut self, entries: Vec<Entry>) -> TailItem {
        if let Some(last) = entries.last() {
            self.cursor = last.seq();
        }
        TailItem::Frames(entries)
    }
}

/// One frame goes out as the bytes that all readers share. Several are copied together: one larger write costs less than
/// many small ones.
fn joined(entries: &[Entry]) -> Bytes {
    match entries {
        [entry] => entry.sse(),
        entries => {
            let mut events = BytesMut::with_capacity(entries.iter().map(|entry| entry.as_sse().len()).sum());
            for entry in entries {
                events.extend_from_slice(entry.as_sse());
            }
            events.freeze()
        }
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("run_id", self.live.run_id()).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}
