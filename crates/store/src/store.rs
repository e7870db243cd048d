//! The store itself: opening, closing, and every operation on it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::appender::Appender;
use crate::entry::Entry;
use crate::error::{
    AddExchangeError, CreateError, OpenError, OwnershipError, ReadError, RemoveError, StorageFailure, TailError,
    TrimError,
};
use crate::frames::{self, PageLimits};
use crate::live::Registry;
use crate::lock::StoreLock;
use crate::page_cache::PageCache;
use crate::probe::Probe;
use crate::readers::Readers;
use crate::record::{
    Added, Created, ExchangeRecord, NewRun, Payload, RequestKey, RunFilter, RunRecord, SessionRecord, Tombstone,
};
use crate::retention::{Found, Removable};
use crate::sessions::SessionWatches;
use crate::standing::Standing;
use crate::tail::Tail;
use crate::upkeep::{Signal, Upkeep};
use crate::writer::{Health, Queue, Request, Writer, in_time};
use crate::{prompts, retention, runs, schema};

/// How many reads of the file run at the same time.
const READERS: usize = 4;

/// What a commit waits for. Either way a commit survives the death of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// The operating system has the data. A power loss can take the last moments' commits with it, but never leaves
    /// a hole or a damaged file.
    #[default]
    Normal,
    /// The disk has the data: a commit survives a power loss too. Slower, by the time of one disk flush a commit.
    Full,
}

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// What a commit waits for.
    pub sync: Sync,
    /// How many of a run's newest frames are kept in memory for all its tails. Default 1024.
    pub tail_frames: usize,
    /// How many bytes of them. Default 1 MiB.
    pub tail_bytes: usize,
    /// The most frames that a tail returns at once, from memory or from the file. Default 1024.
    pub read_page_frames: usize,
    /// The most bytes that a tail or [`Store::read`] returns at once, but for a single larger frame. Default 256 KiB.
    pub read_page_bytes: usize,
    /// A limit for the size of the file in bytes, rounded down to pages of 4 KiB; the write-ahead log beside it
    /// is not counted. At the limit appends fail with [`StorageFailure::Full`]. A file that is larger already stays,
    /// and grows no further. Default none.
    pub max_bytes: Option<u64>,
    /// How many bytes of packed pages of ended runs are kept in memory, for all readers together; 0 for none. Default
    /// 32 MiB.
    pub page_cache_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            sync: Sync::default(),
            tail_frames: 1024,
            tail_bytes: 1024 * 1024,
            read_page_frames: 1024,
            read_page_bytes: 256 * 1024,
            max_bytes: None,
            page_cache_bytes: 32 * 1024 * 1024,
        }
    }
}

/// The durable log, in one SQLite file. Cheap to clone; all clones are the same store.
///
/// The store closes when [`Store::close`] is called or the last clone is dropped, which blocks in the same way. Appenders and tails do not keep it
/// open.
///
/// Dropping the future of an operation that writes does not undo it: it may be done or not. Every such operation can be
/// repeated.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    limits: PageLimits,
    queue: Arc<Queue>,
    health: Arc<Health>,
    upkeep: Arc<Signal>,
    readers: Arc<Readers>,
    probe: Arc<Probe>,
    pages: Arc<PageCache>,
    registry: Arc<Registry>,
    sessions: Arc<SessionWatches>,
    /// `None` once closed.
    running: Mutex<Option<Running>>,
}

/// What a closed store no longer has.
struct Running {
    writer: JoinHandle<()>,
    upkeep: JoinHandle<()>,
    lock: StoreLock,
}

impl Store {
    /// Opens the store at `path`, creating it if there is no such file. Blocks.
    ///
    /// `<path>.lock` is created beside it and held until the store closes; it stays behind and may be deleted when no
    /// process uses the store.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. A file that is refused is left as it was.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Store, OpenError> {
        let lock = StoreLock::acquire(path)?;
        let connection = schema::open_writer(path, &options)?;
        let standing = Arc::new(Standing::of(path).map_err(|error| OpenError::from_io(path, &error))?);
        let sqlite = |error: rusqlite::Error| OpenError::from_sqlite(path, &error);
        let readers = Readers::open(path, READERS, Arc::clone(&standing)).map_err(sqlite)?;
        let tidying = schema::open_reader(path).map_err(sqlite)?;
        let probing = schema::open_reader(path).map_err(sqlite)?;
        let queue = Arc::new(Queue::default());
        let health = Arc::new(Health::default());
        let writer = Writer {
            path: path.to_owned(),
            connection,
            queue: Arc::clone(&queue),
            health: Arc::clone(&health),
            standing: Arc::clone(&standing),
        };
        let writer = writer.spawn().map_err(|error| OpenError::from_io(path, &error))?;
        let signal = Arc::new(Signal::default());
        let upkeep = Upkeep { connection: tidying, queue: Arc::clone(&queue), signal: Arc::clone(&signal) }.spawn();
        let upkeep = match upkeep {
            Ok(upkeep) => upkeep,
            Err(error) => {
                // The writer has to be gone before another process may have the file.
                queue.close();
                let _ = writer.join();
                return Err(OpenError::from_io(path, &error));
            }
        };
        Ok(Store {
            inner: Arc::new(Inner {
                path: path.to_owned(),
                limits: PageLimits { frames: options.read_page_frames, bytes: options.read_page_bytes },
                queue,
                health,
                upkeep: signal,
                readers: Arc::new(readers),
                probe: Arc::new(Probe::new(path.to_owned(), standing, probing)),
                pages: Arc::new(PageCache::new(options.page_cache_bytes)),
                registry: Arc::new(Registry::new(PageLimits {
                    frames: options.tail_frames,
                    bytes: options.tail_bytes,
                })),
                sessions: Arc::default(),
                running: Mutex::new(Some(Running { writer, upkeep, lock })),
            }),
        })
    }

    /// Writes what was enqueued, waits for the writer thread, checkpoints, and gives the lock back. Blocks meanwhile.
    ///
    /// Everything afterwards answers [`StorageFailure::Closed`]; tails do so once they have read what is in memory.
    /// Closing twice is the same as once.
    pub fn close(&self) {
        self.inner.close();
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether the store can write: the failure of the last transaction, if it failed, `Stuck` when what is to be written
    /// waits for more than a second, or `Closed`.
    ///
    /// # Errors
    ///
    /// That failure. It clears itself with the next transaction that succeeds; `Closed` never does.
    pub fn health(&self) -> Result<(), StorageFailure> {
        self.inner.health.get(&self.inner.path, &self.inner.queue)
    }

    /// Whether the store can write, as [`Store::health`] has it, and read: a few rows are read, once a second at most
    /// however often this is called, and that they do not come back within a second is a failure too. Nor is it ready when
    /// its file is not there any more, or is another one, or shorter than it was.
    ///
    /// Dropping the future stops nothing that is read.
    ///
    /// # Errors
    ///
    /// The failure.
    pub async fn ready(&self) -> Result<(), StorageFailure> {
        self.health()?;
        self.inner.probe.ask().await
    }

    /// How many transactions were committed since the store was opened. Each took whatever waited, over all runs, so
    /// this beside the number of appends says how well group commit works.
    pub fn commits(&self) -> u64 {
        self.inner.health.commits()
    }

    /// How many runs are in memory: those that are being written or followed.
    pub fn live_runs(&self) -> usize {
        self.inner.registry.len()
    }

    /// Creates a run, its exchange, and its session if that is new.
    ///
    /// When the exchange (its `session_id` and `exchange_id`) already names a run, nothing is written and that run is
    /// the answer, so a repeated request finds the run that the first one made.
    ///
    /// # Errors
    ///
    /// [`CreateError::RunIdTaken`], or the store's failure.
    pub async fn create_run(&self, new: NewRun) -> Result<Created, CreateError> {
        self.create_keyed_run(new, None).await
    }

    /// The same for a request that may have a key. The key names the run that is made, from the same transaction on; when it
    /// names one already, nothing is written and that run is the answer.
    ///
    /// # Errors
    ///
    /// [`CreateError::RunIdTaken`], [`CreateError::KeyTaken`], [`CreateError::Removed`], or the store's failure.
    pub async fn create_keyed_run(&self, new: NewRun, key: Option<RequestKey>) -> Result<Created, CreateError> {
        let word = self.inner.sessions.word(&new.session_id);
        self.write(move |conn| {
            // Given when the request is dropped, which is when the run is there for whoever looks.
            let _ = &word;
            runs::create(conn, &new, key.as_ref())
        })
        .await
    }

    /// Lets a later exchange name an existing run, with the same answer as [`Store::create_run`] when it already names
    /// one.
    ///
    /// # Errors
    ///
    /// [`AddExchangeError::UnknownRun`], or the store's failure.
    pub async fn add_exchange(&self, run_id: &str, exchange: ExchangeRecord) -> Result<Added, AddExchangeError> {
        self.add_keyed_exchange(run_id, exchange, None).await
    }

    /// Makes the caller the run's owner. Whoever was it before is fenced: what they have not yet had committed is
    /// refused with [`AppendError::Fenced`](crate::AppendError::Fenced).
    ///
    /// # Errors
    ///
    /// [`OwnershipError::UnknownRun`], [`OwnershipError::Ended`], or the store's failure.
    pub async fn take_ownership(&self, run_id: &str) -> Result<Appender, OwnershipError> {
        let id = run_id.to_owned();
        let ownership = self.write(move |conn| runs::take_ownership(conn, &id)).await?;
        let live = self.inner.registry.join(run_id);
        live.observe(ownership.head, false);
        Ok(Appender::new(ownership, live, Arc::clone(&self.inner.queue), Arc::clone(&self.inner.upkeep)))
    }

    /// Removes a run's frames up to and including `through`, though never past its head, and answers the oldest `seq`
    /// that is left (`head + 1` if none is). A cursor older than that is `Gone` from then on (G7).
    ///
    /// # Errors
    ///
    /// [`TrimError::UnknownRun`], or the store's failure.
    pub async fn trim(&self, run_id: &str, through: u64) -> Result<u64, TrimError> {
        let run_id = run_id.to_owned();
        self.write(move |conn| Ok(frames::trim(conn, &run_id, through)?.ok_or(TrimError::UnknownRun))).await
    }

    /// The runs that may be removed, the first `most` of them by name.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn removable(&self, which: Removable, most: usize) -> Result<Found, ReadError> {
        self.read_with(move |conn| retention::find(conn, &which, most)).await
    }

    /// Removes whole runs that have ended: they are no longer in any list, a reader is told [`ReadError::Gone`], and
    /// what is left of each is a [`Tombstone`]. Those that have not ended, or are not there, are passed over. Answers
    /// how many were removed.
    ///
    /// A few in a transaction, so that no append waits for long; what they said is deleted afterwards, in the
    /// background. Dropping the future stops between two transactions.
    ///
    /// # Errors
    ///
    /// The store's failure; some of them may have been removed.
    pub async fn remove_runs(&self, run_ids: &[String], now: i64) -> Result<u64, RemoveError> {
        let mut removed = 0;
        for run_ids in run_ids.chunks(retention::AT_ONCE) {
            let run_ids = run_ids.to_vec();
            removed += self.write_in_background(move |conn| retention::remove(conn, &run_ids, now)).await?;
            self.inner.pages.clear();
            self.inner.upkeep.wake();
        }
        Ok(removed)
    }

    /// Deletes the tombstones of runs that were removed before this time, in milliseconds since the Unix epoch, and the
    /// sessions that have no run and no other tombstone. Nothing is known of such a run any more. Answers how many.
    ///
    /// # Errors
    ///
    /// The store's failure; some of them may have been deleted.
    pub async fn forget_tombstones(&self, before: i64) -> Result<u64, RemoveError> {
        let mut forgotten = 0;
        loop {
            match self.write_in_background(move |conn| retention::forget(conn, before)).await? {
                0 => return Ok(forgotten),
                some => forgotten += some as u64,
            }
        }
    }

    /// What is left of a run that was removed.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn tombstone(&self, run_id: &str) -> Result<Option<Tombstone>, ReadError> {
        let run_id = run_id.to_owned();
        self.read_with(move |conn| retention::tombstone(conn, &run_id)).await
    }

    /// Waits until what is done to the file in the background is done, as far as it can be now: runs that have ended are
    /// packed, removed ones are emptied. Nobody needs to wait for it but who measures, or looks at the file.
    pub async fn tidied(&self) {
        self.inner.upkeep.at_rest().await;
    }

    /// One run. `None` also for one that was removed: see [`Store::tombstone`].
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn run(&self, run_id: &str) -> Result<Option<RunRecord>, ReadError> {
        let run_id = run_id.to_owned();
        self.read_with(move |conn| runs::get(conn, &run_id)).await
    }

    /// The `RunAgentInput` that a run was created with, as it came.
    ///
    /// Apart from the record, because it can be large: it holds the whole conversation.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn input(&self, run_id: &str) -> Result<Option<serde_json::Value>, ReadError> {
        let run_id = run_id.to_owned();
        self.read_with(move |conn| runs::input(conn, &run_id)).await
    }

    /// The run that an exchange names, and the digest that the exchange was first sent with.
    ///
    /// # Errors
    ///
    /// [`ReadError::Removed`], or the store's failure.
    pub async fn run_by_exchange(
        &self,
        session_id: &str,
        exchange_id: &str,
    ) -> Result<Option<(RunRecord, String)>, ReadError> {
        let (session_id, exchange_id) = (session_id.to_owned(), exchange_id.to_owned());
        self.read_with(move |conn| {
            let found = runs::by_exchange(conn, &session_id, &exchange_id)?;
            if found.is_none()
                && let Some(tombstone) = retention::tombstone_by_exchange(conn, &session_id, &exchange_id)?
            {
                return Ok(Err(ReadError::Removed(Box::new(tombstone))));
            }
            Ok(Ok(found))
        })
        .await?
    }

    /// The runs that pass a filter, newest first, without their inputs.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, ReadError> {
        self.read_with(move |conn| runs::list(conn, &filter)).await
    }

    /// What each of these runs was asked, in their order, as far as a list shows it: the last thing that a user said in its
    /// input, on one line and cut. `None` where nobody said anything, or the run is not there.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn prompts(&self, run_ids: Vec<String>) -> Result<Vec<Option<String>>, ReadError> {
        self.read_with(move |conn| prompts::of(conn, &run_ids)).await
    }

    /// Every run that has not ended, oldest first: what to recover at start.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn unfinished_runs(&self) -> Result<Vec<RunRecord>, ReadError> {
        self.read_with(runs::unfinished).await
    }

    /// The suspended runs that were to be looked at by now ([`RunUpdate::wakes_at`](crate::RunUpdate::wakes_at)), at most `most` of
    /// them (at most 1000), those first that are due for longest. `now` is in milliseconds since the Unix epoch.
    ///
    /// An index holds the runs that have such a time, so this costs what it finds, however many runs there are.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn due(&self, now: i64, most: usize) -> Result<Vec<RunRecord>, ReadError> {
        self.read_with(move |conn| runs::due(conn, now, most)).await
    }

    /// When a run has to be looked at, or tried again: [`RunUpdate::wakes_at`](crate::RunUpdate::wakes_at). `None` also for
    /// one that is not there.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn wakes_at(&self, run_id: &str) -> Result<Option<i64>, ReadError> {
        let run_id = run_id.to_owned();
        self.read_with(move |conn| runs::wakes_at(conn, &run_id)).await
    }

    /// Changes when a run is due, or that it is, as long as its last frame is `head`. Says whether it was.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn put_off(&self, run_id: &str, head: u64, wakes_at: Option<i64>) -> Result<bool, ReadError> {
        let run_id = run_id.to_owned();
        let written: Result<bool, StorageFailure> =
            self.write(move |conn| Ok(Ok(runs::put_off(conn, &run_id, head, wakes_at)?))).await;
        Ok(written?)
    }

    /// One session.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn session(&self, session_id: &str) -> Result<Option<SessionRecord>, ReadError> {
        let session_id = session_id.to_owned();
        self.read_with(move |conn| runs::session(conn, &session_id)).await
    }

    /// The frames after a cursor: consecutive, at most `max_frames` (taken as at least 1) and at most a page of bytes,
    /// but at least one if there is one. Fewer than `max_frames` does not mean that there are no more; none does.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownRun`], [`ReadError::Gone`], [`ReadError::Missing`], or the store's failure. A cursor at or past
    /// the head is no error: there is nothing after it.
    pub async fn read(&self, run_id: &str, after: u64, max_frames: usize) -> Result<Vec<Entry>, ReadError> {
        let run_id: Arc<str> = run_id.into();
        let limits = PageLimits { frames: max_frames, bytes: self.inner.limits.bytes };
        let cache = Arc::clone(&self.inner.pages);
        self.read_with(move |conn| {
            frames::entries(conn, frames::Reading { run_id: &run_id, limits, cache: &cache }, after)
        })
        .await?
    }

    /// Follows a run from a cursor: any from 0 to its head, live or ended (G4).
    ///
    /// # Errors
    ///
    /// [`TailError::UnknownRun`], [`TailError::PastHead`], [`TailError::Gone`], or the store's failure.
    pub async fn tail(&self, run_id: &str, after: u64) -> Result<Tail, TailError> {
        let Inner { registry, readers, pages, limits, .. } = &*self.inner;
        Tail::open(registry, readers, pages, *limits, run_id, after).await
    }

    /// A segment's payload. `None` also when there is no such run.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn payload(&self, run_id: &str, segment_id: &str) -> Result<Option<Payload>, ReadError> {
        let (run_id, segment_id) = (run_id.to_owned(), segment_id.to_owned());
        self.read_with(move |conn| frames::payload(conn, &run_id, &segment_id)).await
    }

    pub(crate) fn session_watches(&self) -> &Arc<SessionWatches> {
        &self.inner.sessions
    }

    pub(crate) async fn read_with<T, F>(&self, read: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        Ok(self.inner.readers.read(read).await?)
    }

    pub(crate) async fn write<T, E, F>(&self, write: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageFailure> + Send + 'static,
        F: FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    {
        let (request, answer) = Request::new(write);
        let claim = request.claim();
        self.inner.queue.push(Box::new(request))?;
        in_time(&self.inner.path, &claim, answer).await
    }

    async fn write_in_background<T, F>(&self, mut write: F) -> Result<T, StorageFailure>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (request, answer) = Request::background(move |conn: &Connection| write(conn).map(Ok));
        self.inner.queue.push(Box::new(request))?;
        answer.await.unwrap_or(Err(StorageFailure::Closed))
    }
}

impl Inner {
    fn close(&self) {
        // Held until done, so that a second caller returns only when the store is closed.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Running { writer, upkeep, lock }) = running.take() else {
            return;
        };
        // The writer still answers what it has begun.
        self.upkeep.stop();
        if upkeep.join().is_err() {
            tracing::error!(path = %self.path.display(), "the store's upkeep thread had panicked");
        }
        // First the readers: SQLite removes the write-ahead log with the last connection, and only one that may write can.
        self.readers.close();
        self.probe.close();
        self.queue.close();
        if writer.join().is_err() {
            tracing::error!(path = %self.path.display(), "the store's writer thread had panicked");
        }
        self.registry.close();
        // Only now may another process have the file.
        drop(lock);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
