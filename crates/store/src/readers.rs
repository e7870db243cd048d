//! The connections that read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::error::StorageFailure;
use crate::schema;
use crate::standing::Standing;

/// A fixed set of read-only connections, lent out one a read.
///
/// A read waits for its turn before it takes a thread, so a thousand tails that fall back to the file at
/// once use as many blocking threads as there are connections, and no more.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    standing: Arc<Standing>,
    turns: Arc<Semaphore>,
    /// As many as `turns` has permits, less those that are lent; `None` once closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Readers {
    pub(crate) fn open(path: &Path, count: usize, standing: Arc<Standing>) -> rusqlite::Result<Readers> {
        let connections = (0..count).map(|_| schema::open_reader(path)).collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(Readers {
            path: path.to_owned(),
            standing,
            turns: Arc::new(Semaphore::new(count)),
            idle: Mutex::new(Some(connections)),
        })
    }

    /// Runs `read` on the blocking pool. If this future is dropped, a read that has begun runs to its end and
    /// its answer is dropped.
    ///
    /// A turn is never held by this future itself. It belongs to whoever follows a run, and may not be polled for as long
    /// as a socket takes nothing: a turn that came meanwhile would be nobody's, and some readers that do not read would
    /// keep all others from reading (G8).
    pub(crate) async fn read<T, F>(self: &Arc<Self>, read: F) -> Result<T, StorageFailure>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        match Arc::clone(&self.turns).try_acquire_owned() {
            Ok(turn) => answer(self.begin(turn, read).await),
            Err(TryAcquireError::Closed) => Err(StorageFailure::Closed),
            Err(TryAcquireError::NoPermits) => {
                let readers = Arc::clone(self);
                // Aborted when it is dropped: nobody waits for a turn any more then.
                let mut waiting = JoinSet::new();
                waiting.spawn(async move {
                    let turn = Arc::clone(&readers.turns).acquire_owned().await.map_err(|_| StorageFailure::Closed)?;
                    answer(readers.begin(turn, read).await)
                });
                waiting.join_next().await.map_or(Err(StorageFailure::Closed), answer)
            }
        }
    }

    fn begin<T, F>(self: &Arc<Self>, turn: OwnedSemaphorePermit, read: F) -> JoinHandle<Result<T, StorageFailure>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let readers = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            // Dropped after the loan below, so whoever gets the turn finds the connection back.
            let _turn = turn;
            let loan = Loan::take(&readers).ok_or(StorageFailure::Closed)?;
            let answer = read(loan.connection());
            // Afterwards: what was read before the file was cut short is right, and what is beyond its end are zeros.
            let whole =
                readers.standing.whole().inspect_err(|failure| tracing::error!(%failure, "a read is of no worth"));
            let answer = answer.map_err(|error| {
                let failure = StorageFailure::from_sqlite(&readers.path, &error);
                tracing::error!(%error, "a read from the store failed");
                failure
            });
            whole.and(answer)
        })
    }

    /// Closes the idle connections now and each lent one when it comes back. Waiting reads answer `Closed`.
    pub(crate) fn close(&self) {
        self.turns.close();
        let idle = self.lock().take();
        drop(idle);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<Connection>>> {
        // A list of idle connections is right after any panic.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer<T>(joined: Result<Result<T, StorageFailure>, JoinError>) -> Result<T, StorageFailure> {
    match joined {
        Ok(answer) => answer,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down.
        Err(_) => Err(StorageFailure::Closed),
    }
}

/// A connection on loan, given back also when the read panics.
struct Loan<'a> {
    readers: &'a Readers,
    /// `None` only while it is given back.
    connection: Option<Connection>,
}

impl<'a> Loan<'a> {
    /// `None` when the store is closed. Whoever has a turn finds a connection otherwise.
    fn take(readers: &'a Readers) -> Option<Loan<'a>> {
        let connection = readers.lock().as_mut()?.pop();
        debug_assert!(connection.is_some(), "there are as many connections as turns");
        connection.map(|connection| Loan { readers, connection: Some(connection) })
    }

    fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("it is taken out only when the loan is dropped")
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let connection = self.connection.take();
        if let Some(idle) = self.readers.lock().as_mut() {
            idle.extend(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::pin::pin;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn written(path: &Path) -> Connection {
        let writer = Connection::open(path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE some (thing TEXT)").unwrap();
        writer
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn g8_a_read_that_nobody_polls_keeps_no_other_from_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.db");
        let _writer = written(&path);
        let standing = Arc::new(Standing::of(&path).unwrap());
        let readers = Arc::new(Readers::open(&path, 1, standing).unwrap());

        let (let_go, held) = mpsc::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let first = tokio::spawn({
            let readers = Arc::clone(&readers);
            async move {
                let read = move |_: &Connection| {
                    begun.send(()).unwrap();
                    held.recv().unwrap();
                    Ok(())
                };
                readers.read(read).await
            }
        });
        has_begun.await.unwrap();

        // It waits for its turn, is polled once and then left alone, like the read of a tail whose socket is full.
        let mut left_alone = pin!(readers.read(|_| Ok("left alone")));
        let polled = tokio::time::timeout(Duration::ZERO, left_alone.as_mut()).await;
        assert!(polled.is_err(), "there is only one connection");

        let_go.send(()).unwrap();
        first.await.unwrap().unwrap();
        let other = tokio::time::timeout(Duration::from_secs(30), readers.read(|_| Ok("other"))).await;
        assert_eq!(other.expect("the other gets its turn"), Ok("other"));
        assert_eq!(left_alone.await, Ok("left alone"), "and its own answer waits for it");
    }

    #[tokio::test]
    async fn a_read_that_is_given_up_while_it_waits_takes_no_turn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.db");
        let _writer = written(&path);
        let standing = Arc::new(Standing::of(&path).unwrap());
        let readers = Arc::new(Readers::open(&path, 1, standing).unwrap());

        let turn = Arc::clone(&readers.turns).acquire_owned().await.unwrap();
        for _ in 0..10 {
            let given_up = tokio::time::timeout(Duration::ZERO, readers.read(|_| Ok(()))).await;
            assert!(given_up.is_err());
        }
        drop(turn);
        let next = tokio::time::timeout(Duration::from_secs(30), readers.read(|_| Ok(()))).await;
        assert_eq!(next.expect("it gets its turn"), Ok(()));
        readers.close();
        assert_eq!(readers.read(|_| Ok(())).await, Err(StorageFailure::Closed));
    }
}
