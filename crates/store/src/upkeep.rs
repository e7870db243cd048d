//! What is done to the file in the background: runs that have ended are packed, removed ones are emptied.
//!
//! Both are done in steps, each a small transaction of its own between those of the appends, with a pause after it. What
//! is left to do is in the table `upkeep`, written in the transaction that makes it necessary, so a step that a crash
//! takes away is done again. Readers see the same frames before a step, after it and during it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::Notify;

use crate::entry::Page;
use crate::error::StorageFailure;
use crate::frames::{self, PageLimits, from_sql, to_sql};
use crate::writer::{Queue, Request};

/// The largest packed page: what a reader is given at once by default, so that it gets a page as it is. A frame that is
/// larger has a page to itself.
const PAGE: PageLimits = PageLimits { frames: 1024, bytes: 256 * 1024 };

/// A run with fewer frames is read in one go from its rows, and writing it a second time would cost more than that.
pub(crate) const PACKED_FROM_FRAMES: i64 = 256;

/// How many packed pages, or rows of frames, of a removed run are deleted in one transaction. A payload, like a page,
/// can be large, so they go one by one.
const EMPTIED_PAGES: i64 = 8;
const EMPTIED_ROWS: i64 = 1024;

/// How long a failure (a full disk) is left alone before it is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Between two steps the writer is left to the appends for twice the time that the step took, within these bounds.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// How the thread is woken, stopped and waited for.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
    rested: Notify,
}

#[derive(Default)]
struct State {
    /// How often there was something new to do.
    wakes: u64,
    /// Up to which of these everything is done, or cannot be done now.
    rested: u64,
    stopped: bool,
}

impl Signal {
    /// There is something new to do.
    pub(crate) fn wake(&self) {
        self.lock().wakes += 1;
        self.changed.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
        self.rested.notify_waiters();
    }

    /// Waits until nothing is left to do, or what is left cannot be done now, or the thread was stopped.
    pub(crate) async fn at_rest(&self) {
        loop {
            let rested = self.rested.notified();
            {
                let state = self.lock();
                if state.stopped || state.rested == state.wakes {
                    return;
                }
            }
            rested.await;
        }
    }

    fn wakes(&self) -> u64 {
        self.lock().wakes
    }

    fn stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Everything up to `wakes` was seen to. Waits for more, at most so long. `false` when stopped.
    fn rest(&self, wakes: u64, most: Option<Duration>) -> bool {
        let mut state = self.lock();
        state.rested = wakes;
        self.rested.notify_waiters();
        let idle = |state: &mut State| !state.stopped && state.wakes == wakes;
        let state = match most {
            Some(most) => self.changed.wait_timeout_while(state, most, idle).unwrap_or_else(PoisonError::into_inner).0,
            None => self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
        };
        !state.stopped
    }

    fn pause(&self, pause: Duration) {
        let until = self.changed.wait_timeout_while(self.lock(), pause, |state| !state.stopped);
        drop(until.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Numbers and a flag, each set by itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").finish_non_exhaustive()
    }
}

/// The thread's side. Owned by it; the store stops it and joins it.
pub(crate) struct Upkeep {
    /// Reads what is to be packed, so that the writer only writes.
    pub(crate) connection: Connection,
    pub(crate) queue: Arc<Queue>,
    pub(crate) signal: Arc<Signal>,
}

/// Why a round ended before everything was done.
enum Broken {
    Stopped,
    Failed(StorageFailure),
    Unreadable(rusqlite::Error),
}

impl From<rusqlite::Error> for Broken {
    fn from(error: rusqlite::Error) -> Broken {
        Broken::Unreadable(error)
    }
}

impl Upkeep {
    /// Starts the thread, which begins with what was left to do when the store was closed.
    pub(crate) fn spawn(self) -> io::Result<JoinHandle<()>> {
        self.signal.wake();
        thread::Builder::new().name("runwire-upkeep".to_owned()).spawn(move || self.run())
    }

    fn run(self) {
        let _guard = StopOnExit(Arc::clone(&self.signal));
        loop {
            let wakes = self.signal.wakes();
            let again = match self.round() {
                Ok(()) => None,
                Err(Broken::Stopped | Broken::Failed(StorageFailure::Closed)) => return,
                Err(Broken::Failed(failure)) => {
                    tracing::warn!(%failure, "the store cannot be tidied up now; nothing is lost, it is tried again");
                    Some(AFTER_FAILURE)
                }
                Err(Broken::Unreadable(error)) => {
                    tracing::warn!(%error, "what is to be tidied up in the store cannot be read; it is tried again");
                    Some(AFTER_FAILURE)
                }
            };
            if !self.signal.rest(wakes, again) {
                return;
            }
        }
    }

    /// Sees to every run that is named in `upkeep`.
    fn round(&self) -> Result<(), Broken> {
        let mut seen = i64::MIN;
        loop {
            let next: Option<i64> = self
                .connection
                .prepare_cached("SELECT run FROM upkeep WHERE run > ?1 ORDER BY run LIMIT 1")?
                .query_row([seen], |row| row.get(0))
                .optional()?;
            let Some(run) = next else { return Ok(()) };
            while !self.step(run)? {}
            seen = run;
        }
    }

    /// One transaction. `true` when nothing is left to do for the run.
    fn step(&self, run: i64) -> Result<bool, Broken> {
        if self.signal.stopped() {
            return Err(Broken::Stopped);
        }
        let began = Instant::now();
        let done = match Standing::of(&self.connection, run)? {
            Some(Standing { removed: true, .. }) => self.write(move |conn| empty(conn, run))?,
            Some(standing) => self.pack(run, &standing)?,
            None => self.finish(run)?,
        };
        self.signal.pause((began.elapsed() * 2).clamp(PAUSE.0, PAUSE.1));
        Ok(done)
    }

    fn pack(&self, run: i64, standing: &Standing) -> Result<bool, Broken> {
        let next = standing.oldest.max(standing.packed + 1);
        if next > standing.head {
            return self.finish(run);
        }
        match frames::rows(&self.connection, run, next - 1, standing.head, PAGE)? {
            Ok(Some(page)) => {
                let packed = standing.packed;
                self.write(move |conn| put(conn, run, packed, &page))
            }
            // The rows were removed a moment ago, or the log is damaged, which is for readers to find and to tell.
            Ok(None) | Err(_) => {
                tracing::error!(run, next, "frames that were to be packed are missing; the run is left as it is");
                self.finish(run)
            }
        }
    }

    fn finish(&self, run: i64) -> Result<bool, Broken> {
        self.write(move |conn| {
            conn.prepare_cached("DELETE FROM upkeep WHERE run = ?1")?.execute([run])?;
            Ok(true)
        })
    }

    /// Has the writer thread do it, in a transaction of its own.
    fn write<F>(&self, mut write: F) -> Result<bool, Broken>
    where
        F: FnMut(&Connection) -> rusqlite::Result<bool> + Send + 'static,
    {
        let (request, answer) = Request::background(move |conn: &Connection| write(conn).map(Ok::<_, StorageFailure>));
        self.queue.push(Box::new(request)).map_err(Broken::Failed)?;
        answer.blocking_recv().unwrap_or(Err(StorageFailure::Closed)).map_err(Broken::Failed)
    }
}

/// Where a run stands.
struct Standing {
    head: u64,
    oldest: u64,
    packed: u64,
    removed: bool,
}

impl Standing {
    fn of(conn: &Connection, run: i64) -> rusqlite::Result<Option<Standing>> {
        conn.prepare_cached("SELECT head, oldest, packed, removed_at IS NOT NULL FROM runs WHERE id = ?1")?
            .query_row([run], |row| {
                Ok(Standing {
                    head: from_sql(row.get(0)?),
                    oldest: from_sql(row.get(1)?),
                    packed: from_sql(row.get(2)?),
                    removed: row.get(3)?,
                })
            })
            .optional()
    }
}

/// Puts a page in the place of its rows. `true` when it is the run's last.
fn put(conn: &Connection, run: i64, packed: u64, page: &Page) -> rusqlite::Result<bool> {
    // What was read a moment ago has to be so still: the run may have been removed or cut meanwhile.
    let advanced = conn
        .prepare_cached(
            "UPDATE runs SET packed = ?4 WHERE id = ?1 AND packed = ?2 AND oldest <= ?3 AND removed_at IS NULL",
        )?
        .execute((run, to_sql(packed), to_sql(page.first()), to_sql(page.last())))?;
    if advanced == 0 {
        return Ok(false);
    }
    conn.prepare_cached("INSERT INTO pages (run, first, last, sse) VALUES (?1, ?2, ?3, ?4)")?.execute((
        run,
        to_sql(page.first()),
        to_sql(page.last()),
        &page.sse()[..],
    ))?;
    conn.prepare_cached("DELETE FROM frames WHERE run = ?1 AND seq BETWEEN ?2 AND ?3")?.execute((
        run,
        to_sql(page.first()),
        to_sql(page.last()),
    ))?;
    let done = conn
        .prepare_cached("DELETE FROM upkeep WHERE run = ?1 AND (SELECT packed >= head FROM runs WHERE id = ?1)")?
        .execute([run])?;
    Ok(done > 0)
}

/// Deletes some of what a removed run said. `true` when nothing is left.
fn empty(conn: &Connection, run: i64) -> rusqlite::Result<bool> {
    let steps = [
        ("DELETE FROM inputs WHERE run = ?1 AND ?2", 1),
        ("DELETE FROM prompts WHERE rowid = ?1 AND ?2", 1),
        ("DELETE FROM pages WHERE id IN (SELECT id FROM pages WHERE run = ?1 LIMIT ?2)", EMPTIED_PAGES),
        ("DELETE FROM frames WHERE run = ?1 AND seq IN (SELECT seq FROM frames WHERE run = ?1 LIMIT ?2)", EMPTIED_ROWS),
        ("DELETE FROM payloads WHERE id IN (SELECT id FROM payloads WHERE run = ?1 LIMIT ?2)", 1),
    ];
    for (delete, most) in steps {
        if conn.prepare_cached(delete)?.execute((run, most))? > 0 {
            return Ok(false);
        }
    }
    conn.prepare_cached("UPDATE runs SET bytes = 0, packed = 0 WHERE id = ?1")?.execute([run])?;
    conn.prepare_cached("DELETE FROM upkeep WHERE run = ?1")?.execute([run])?;
    Ok(true)
}

/// Leaves nobody waiting for a thread that is gone, also when it panicked.
struct StopOnExit(Arc<Signal>);

impl Drop for StopOnExit {
    fn drop(&mut self) {
        self.0.stop();
    }
}
