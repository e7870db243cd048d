//! The one thread that writes, and its queue.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use crate::error::StorageFailure;
use crate::standing::Standing;

/// A store that takes nothing for so long is not ready. A commit takes milliseconds, the checkpoint behind some of them
/// tenths of a second on a slow disk.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// How long whoever asks for something new waits for the writer to begin with it. Longer than a moment's lock, shorter
/// than the patience of a client, and than the ten seconds for which appends wait so that no run is lost to a backup.
const PATIENCE: Duration = Duration::from_secs(3);

/// Something to be written, and somebody to be told.
pub(crate) trait Work: Send {
    /// Writes inside the batch's transaction, and keeps the answer for `settle`. A refusal (a fence, an id that is
    /// taken) is an answer and writes nothing; an error is the file's, and rolls the whole batch back. Can be
    /// called again after such a rollback.
    fn apply(&mut self, conn: &Connection) -> rusqlite::Result<()>;

    /// Called once, after the commit, or after it failed.
    fn settle(self: Box<Self>, committed: Result<(), StorageFailure>);

    /// Whether nobody waits for it, so that it can have a transaction of its own after those that somebody waits for,
    /// and its failure is none of theirs.
    fn background(&self) -> bool {
        false
    }
}

/// What waits for the writer.
///
/// It has no bound of its own. Requests are awaited one by one by whoever makes them, and appends are bounded
/// run by run with [`Progress::wait_below`](crate::Progress::wait_below).
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<Box<dyn Work>>,
    closed: bool,
    /// Since when the oldest of it waits, but for what nobody waits for.
    waiting_since: Option<Instant>,
    /// The same for what the writer has taken and not settled.
    taken_since: Option<Instant>,
}

impl Queue {
    /// Enqueues without waiting. After [`Queue::close`] the work is dropped instead, unsettled.
    pub(crate) fn push(&self, work: Box<dyn Work>) -> Result<(), StorageFailure> {
        {
            let mut state = self.lock();
            if !state.closed {
                if !work.background() {
                    state.waiting_since.get_or_insert_with(Instant::now);
                }
                state.waiting.push(work);
                self.filled.notify_one();
                return Ok(());
            }
        }
        // Outside of the lock: dropping work may wake somebody.
        drop(work);
        Err(StorageFailure::Closed)
    }

    /// Lets the writer finish what waits, and refuses the rest.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// Everything that waits; blocks while that is nothing. `None` when closed and drained.
    fn take(&self) -> Option<Vec<Box<dyn Work>>> {
        let mut state = self
            .filled
            .wait_while(self.lock(), |state| state.waiting.is_empty() && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.taken_since = state.waiting_since.take();
        let batch = std::mem::take(&mut state.waiting);
        (!batch.is_empty()).then_some(batch)
    }

    /// What somebody waits for of what was taken is settled.
    fn settled(&self) {
        self.lock().taken_since = None;
    }

    /// How long the oldest of what somebody waits for has waited.
    fn waited(&self) -> Duration {
        let state = self.lock();
        state.taken_since.or(state.waiting_since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A push either happened or did not.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the last transaction could be written, what [`Store::health`](crate::Store::health) answers, and how many
/// were.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failure: Mutex<Option<StorageFailure>>,
    commits: AtomicU64,
}

impl Health {
    /// The failure of the last transaction, or that the next one is not coming to its end.
    pub(crate) fn get(&self, path: &Path, queue: &Queue) -> Result<(), StorageFailure> {
        if let Some(failure) = &*self.lock() {
            return Err(failure.clone());
        }
        match queue.waited() {
            waited if waited >= STUCK_AFTER => Err(StorageFailure::Stuck { path: path.to_owned(), waited }),
            _ => Ok(()),
        }
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    fn set(&self, committed: &Result<(), StorageFailure>) {
        if committed.is_ok() {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        *self.lock() = committed.as_ref().err().cloned();
    }

    fn lock(&self) -> MutexGuard<'_, Option<StorageFailure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer's side: its connection, and whom it serves. Owned by the thread.
pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) queue: Arc<Queue>,
    pub(crate) health: Arc<Health>,
    pub(crate) standing: Arc<Standing>,
}

/// Why a batch was rolled back.
enum Rollback {
    /// One piece of work did it; the others may well succeed without it.
    Work(rusqlite::Error),
    /// The transaction itself did.
    Transaction(rusqlite::Error),
    /// It would have been written to a file that nobody will find, or that is damaged.
    Changed(StorageFailure),
}

impl Writer {
    /// Starts the thread. It ends when the queue is closed and drained, after a checkpoint.
    pub(crate) fn spawn(self) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name("runwire-store".to_owned()).spawn(move || self.run())
    }

    fn run(mut self) {
        let _guard = CloseOnExit { queue: Arc::clone(&self.queue), health: Arc::clone(&self.health) };
        let queue = Arc::clone(&self.queue);
        while let Some(batch) = queue.take() {
            let (background, batch): (Vec<_>, Vec<_>) = batch.into_iter().partition(|work| work.background());
            if !batch.is_empty() {
                self.write(batch);
            }
            queue.settled();
            for work in background {
                self.write(vec![work]);
            }
        }
        if let Err(failure) = self.standing.check() {
            // What is left of it stays as it is, for whoever repairs it: SQLite would write into it, and remove the log.
            tracing::error!(%failure, "the store was closed without a checkpoint");
            if let Err(error) = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
                tracing::warn!(%error, "SQLite may make a checkpoint all the same");
            }
            return;
        }
        // So that the file is whole by itself, and the next start has nothing to recover.
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
            tracing::warn!(%error, path = %self.path.display(), "the store was closed without a checkpoint; nothing is lost, the next start reads the write-ahead log");
        }
    }

    fn write(&mut self, mut batch: Vec<Box<dyn Work>>) {
        match self.commit(&mut batch) {
            Ok(()) => self.settle(batch, Ok(())),
            Err(Rollback::Work(error)) if batch.len() > 1 && self.standing.check().is_ok() => {
                // One run's poisoned append must not fail the others (G8), so each is on its own now. Settled
                // one by one: what follows a lost append of the same run must see that it was lost.
                tracing::warn!(%error, "a batch was rolled back and is written piece by piece");
                for work in batch {
                    let mut alone = vec![work];
                    let committed = self.commit(&mut alone).map_err(|error| self.report(&error));
                    self.settle(alone, committed);
                }
            }
            Err(error) => {
                // A commit that failed is not tried again: after an I/O error the system may have forgotten
                // what it could not write, and a second try would succeed without it.
                let failure = self.report(&error);
                self.settle(batch, Err(failure));
            }
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Work>]) -> Result<(), Rollback> {
        let tx =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(Rollback::Transaction)?;
        for work in batch.iter_mut() {
            work.apply(&tx).map_err(Rollback::Work)?;
        }
        self.standing.check().map_err(Rollback::Changed)?;
        tx.commit().map_err(Rollback::Transaction)
    }

    fn report(&self, rollback: &Rollback) -> StorageFailure {
        let failure = match rollback {
            Rollback::Changed(failure) => failure.clone(),
            // What SQLite says of a file that was changed under it is a consequence.
            Rollback::Work(error) | Rollback::Transaction(error) => match self.standing.check() {
                Err(failure @ StorageFailure::Changed { .. }) => failure,
                _ => StorageFailure::from_sqlite(&self.path, error),
            },
        };
        tracing::error!(%failure, "a transaction of the store was rolled back");
        failure
    }

    fn settle(&self, batch: Vec<Box<dyn Work>>, committed: Result<(), StorageFailure>) {
        // That the file cannot be tidied up does not mean that it takes no appends.
        if committed.is_ok() || !batch.iter().all(|work| work.background()) {
            self.health.set(&committed);
        }
        for work in batch {
            work.settle(committed.clone());
        }
    }
}

/// Leaves nobody waiting for a writer that is gone, also when it panicked.
struct CloseOnExit {
    queue: Arc<Queue>,
    health: Arc<Health>,
}

impl Drop for CloseOnExit {
    fn drop(&mut self) {
        let left = {
            let mut state = self.queue.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        drop(left);
        self.health.set(&Err(StorageFailure::Closed));
    }
}

/// A piece of work that somebody awaits the answer of.
pub(crate) struct Request<T, E, F> {
    run: F,
    background: bool,
    claim: Arc<Claim>,
    /// Whether the writer has the claim.
    begun: bool,
    answer: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

/// Whose a request is: the writer's once it has begun, or nobody's once whoever asked has given it up. Only the first
/// of the two has it, so what is given up is never written.
#[derive(Debug, Default)]
pub(crate) struct Claim(AtomicBool);

impl Claim {
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The answer to a request, or that the writer has not begun with it in time: then nothing of it is written.
pub(crate) async fn in_time<T, E: From<StorageFailure>>(
    path: &Path,
    claim: &Claim,
    mut answer: oneshot::Receiver<Result<T, E>>,
) -> Result<T, E> {
    let answered = match tokio::time::timeout(PATIENCE, &mut answer).await {
        Err(_) if claim.take() => {
            let failure = StorageFailure::Stuck { path: path.to_owned(), waited: PATIENCE };
            tracing::error!(%failure, "a request was given up");
            return Err(failure.into());
        }
        // What was begun comes to its end.
        Err(_) => answer.await,
        Ok(answered) => answered,
    };
    // The other end is dropped unanswered only when the writer is gone.
    answered.unwrap_or_else(|_| Err(StorageFailure::Closed.into()))
}

impl<T, E, F> Request<T, E, F>
where
    F: FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send,
{
    pub(crate) fn new(run: F) -> (Request<T, E, F>, oneshot::Receiver<Result<T, E>>) {
        let (reply, answered) = oneshot::channel();
        let request = Request { run, background: false, claim: Arc::default(), begun: false, answer: None, reply };
        (request, answered)
    }

    /// To give it up by.
    pub(crate) fn claim(&self) -> Arc<Claim> {
        Arc::clone(&self.claim)
    }

    /// One for which nobody is kept waiting.
    pub(crate) fn background(run: F) -> (Request<T, E, F>, oneshot::Receiver<Result<T, E>>) {
        let (request, answered) = Request::new(run);
        (Request { background: true, ..request }, answered)
    }
}

impl<T, E, F> Work for Request<T, E, F>
where
    T: Send,
    E: From<StorageFailure> + Send,
    F: FnMut(&Connection) -> rusqlite::Result<Result<T, E>> + Send,
{
    fn apply(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        // Again after a batch was rolled back, and then it is the writer's already.
        self.begun = self.begun || self.claim.take();
        if self.begun {
            self.answer = Some((self.run)(conn)?);
        }
        Ok(())
    }

    fn settle(self: Box<Self>, committed: Result<(), StorageFailure>) {
        let answer = match (committed, self.answer) {
            (Err(failure), _) => Err(failure.into()),
            (Ok(()), Some(answer)) => answer,
            // A batch commits only after all of it was applied; what was given up has nobody who listens.
            (Ok(()), None) => Err(StorageFailure::Closed.into()),
        };
        // Nobody listens when the caller's future was dropped.
        let _ = self.reply.send(answer);
    }

    fn background(&self) -> bool {
        self.background
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    type Log = Arc<Mutex<Vec<String>>>;

    /// Writes its name as a row, or fails when it is "bad".
    struct Named {
        name: &'static str,
        log: Log,
    }

    impl Work for Named {
        fn apply(&mut self, conn: &Connection) -> rusqlite::Result<()> {
            self.log.lock().unwrap().push(format!("apply {}", self.name));
            conn.execute("INSERT INTO names VALUES (?1)", [self.name])?;
            if self.name == "bad" {
                return Err(rusqlite::Error::InvalidQuery);
            }
            Ok(())
        }

        fn settle(self: Box<Self>, committed: Result<(), StorageFailure>) {
            let how = if committed.is_ok() { "kept" } else { "lost" };
            self.log.lock().unwrap().push(format!("{how} {}", self.name));
        }
    }

    fn write(names: &[&'static str], connection: Connection) -> Vec<String> {
        let log = Log::default();
        let queue = Arc::new(Queue::default());
        for name in names {
            let log = Arc::clone(&log);
            queue.push(Box::new(Named { name, log })).unwrap();
        }
        queue.close();
        let path = PathBuf::from(connection.path().unwrap());
        let standing = Arc::new(Standing::of(&path).unwrap());
        let writer = Writer { path, connection, queue, health: Arc::default(), standing };
        writer.spawn().unwrap().join().unwrap();
        let log = log.lock().unwrap();
        log.clone()
    }

    fn table(path: &std::path::Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE names (name TEXT)").unwrap();
        connection
    }

    fn names(path: &std::path::Path) -> Vec<String> {
        let connection = Connection::open(path).unwrap();
        let mut statement = connection.prepare("SELECT name FROM names").unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    }

    #[test]
    fn what_waits_is_committed_as_one_transaction_and_settled_only_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names.db");
        let log = write(&["a", "b", "c"], table(&path));
        assert_eq!(log, ["apply a", "apply b", "apply c", "kept a", "kept b", "kept c"]);
        assert_eq!(names(&path), ["a", "b", "c"]);
    }

    #[test]
    fn g8_a_poisoned_append_fails_alone_and_the_rest_of_its_batch_is_kept_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names.db");
        let log = write(&["a", "bad", "c"], table(&path));
        assert_eq!(log, ["apply a", "apply bad", "apply a", "kept a", "apply bad", "lost bad", "apply c", "kept c"]);
        assert_eq!(names(&path), ["a", "c"]);
    }

    #[test]
    fn a_transaction_that_cannot_be_written_loses_the_whole_batch_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names.db");
        let connection = table(&path);
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection.busy_timeout(std::time::Duration::ZERO).unwrap();
        assert_eq!(write(&["a", "b"], connection), ["lost a", "lost b"]);
        other.execute_batch("ROLLBACK").unwrap();
        assert!(names(&path).is_empty());
    }
}
