//! Whether the store can be read: asked by whoever watches the server, so it must be cheap and must not hang.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::error::StorageFailure;
use crate::standing::Standing;

/// An answer counts for so long, so that it costs the same however often it is asked for.
const FRESH: Duration = Duration::from_secs(1);

/// A read of a few rows that takes longer than this is no answer.
const PATIENCE: Duration = Duration::from_secs(1);

type Outcome = Result<(), StorageFailure>;

/// Reads a little from the file over a connection of its own, so that readers who keep all others busy do not look like a
/// store that cannot be read.
pub(crate) struct Probe {
    path: PathBuf,
    standing: Arc<Standing>,
    /// Held while it is read over. `None` once closed.
    connection: Mutex<Option<Connection>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<(Instant, Outcome)>,
    /// The one read that is under way, and since when.
    running: Option<(Instant, watch::Receiver<Option<Outcome>>)>,
}

impl Probe {
    pub(crate) fn new(path: PathBuf, standing: Arc<Standing>, connection: Connection) -> Probe {
        Probe { path, standing, connection: Mutex::new(Some(connection)), state: Mutex::default() }
    }

    /// What the last read came to, or the next one, when that is long ago. If this future is dropped, a read that has
    /// begun runs to its end, and whoever asks next gets its answer. There is never more than one.
    pub(crate) async fn ask(self: &Arc<Self>) -> Outcome {
        let (began, mut answer) = {
            let mut state = self.state();
            if let Some((at, outcome)) = &state.last
                && at.elapsed() < FRESH
            {
                return outcome.clone();
            }
            state.running.get_or_insert_with(|| self.begin()).clone()
        };
        let deadline = (began + PATIENCE).max(Instant::now());
        match timeout_at(deadline, answer.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or(Ok(())),
            // The read panicked, or the runtime goes.
            Ok(Err(_)) => Err(StorageFailure::Closed),
            Err(_) => Err(StorageFailure::Io {
                path: self.path.clone(),
                reason: format!("a read has not come back for {:?}", began.elapsed()),
            }),
        }
    }

    fn begin(self: &Arc<Self>) -> (Instant, watch::Receiver<Option<Outcome>>) {
        let (answer, answered) = watch::channel(None);
        let probe = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let outcome = probe.read();
            if let Err(failure) = &outcome {
                tracing::error!(%failure, "the store cannot be relied on");
            }
            let mut state = probe.state();
            state.running = None;
            state.last = Some((Instant::now(), outcome.clone()));
            drop(state);
            answer.send_replace(Some(outcome));
        });
        (Instant::now(), answered)
    }

    fn read(&self) -> Outcome {
        self.standing.check()?;
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = connection.as_ref().ok_or(StorageFailure::Closed)?;
        newest(connection).map_err(|error| StorageFailure::from_sqlite(&self.path, &error))
    }

    /// Waits for a read that is under way.
    pub(crate) fn close(&self) {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.state().last = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is in it was set whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The newest run and its last frame: the places of the file that the next reader is most likely to want.
fn newest(connection: &Connection) -> rusqlite::Result<()> {
    // What is in the connection's memory says nothing of the disk.
    connection.execute_batch("PRAGMA shrink_memory")?;
    let newest = "SELECT id, head FROM runs ORDER BY id DESC LIMIT 1";
    let newest: Option<(i64, i64)> =
        connection.prepare_cached(newest)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some(newest) = newest {
        connection
            .prepare_cached("SELECT length(body) FROM frames WHERE run = ?1 AND seq = ?2")?
            .query_row(newest, |row| row.get::<_, i64>(0))
            .optional()?;
    }
    Ok(())
}
