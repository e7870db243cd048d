//! The connections that read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::StorageFailure;
use crate::schema;

/// A fixed set of read-only connections, lent out one a read.
///
/// A read waits for its turn before it takes a thread, so a thousand tails that fall back to the file at
/// once use as many blocking threads as there are connections, and no more.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    turns: Arc<Semaphore>,
    /// As many as `turns` has permits, less those that are lent; `None` once closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Readers {
    pub(crate) fn open(path: &Path, count: usize) -> rusqlite::Result<Readers> {
        let connections = (0..count).map(|_| schema::open_reader(path)).collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(Readers {
            path: path.to_owned(),
            turns: Arc::new(Semaphore::new(count)),
            idle: Mutex::new(Some(connections)),
        })
    }

    /// Runs `read` on the blocking pool. If this future is dropped, a read that has begun runs to its end and
    /// its answer is dropped.
    pub(crate) async fn read<T, F>(self: &Arc<Self>, read: F) -> Result<T, StorageFailure>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| StorageFailure::Closed)?;
        let readers = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || {
            // Dropped after the loan below, so whoever gets the turn finds the connection back.
            let _turn = turn;
            let loan = Loan::take(&readers).ok_or(StorageFailure::Closed)?;
            read(loan.connection()).map_err(|error| {
                let failure = StorageFailure::from_sqlite(&readers.path, &error);
                tracing::error!(%error, "a read from the store failed");
                failure
            })
        });
        match reading.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Err(_) => Err(StorageFailure::Closed),
        }
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
