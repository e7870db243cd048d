//! Sessions as readers see them: a list of them, their runs in order, and word of each new one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params, params_from_iter};
use tokio::sync::watch;

use crate::error::ReadError;
use crate::record::{RunCursor, RunRecord};
use crate::runs::{COLUMNS, FROM, KEPT, MAX_LISTED, record};
use crate::store::Store;

impl Store {
    /// The runs of a session in the order in which they were created, at most 1000, from the first or from the one after
    /// the run `after`. None when there is no such session, or no run `after` in the store.
    ///
    /// The order is that of their creation in this store, which a clock that steps back does not change.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn session_runs(&self, session_id: &str, after: Option<&str>) -> Result<Vec<RunRecord>, ReadError> {
        let (session_id, after) = (session_id.to_owned(), after.map(str::to_owned));
        self.read_with(move |conn| list(conn, &session_id, after.as_deref())).await
    }

    /// Sessions, those with the newest runs first. Where the filter names an agent, only its runs count, and a session without
    /// any is left out.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionSummary>, ReadError> {
        self.read_with(move |conn| newest(conn, &filter)).await
    }

    /// Watches for runs that are created in a session, which need not exist yet.
    ///
    /// To miss none: watch first, then read with [`Store::session_runs`], then wait.
    pub fn watch_session(&self, session_id: &str) -> SessionWatch {
        self.session_watches().join(session_id)
    }
}

fn list(conn: &Connection, session_id: &str, after: Option<&str>) -> rusqlite::Result<Vec<RunRecord>> {
    let condition = match after {
        None => "?2 IS NULL",
        Some(_) => "runs.id > (SELECT id FROM runs WHERE run_id = ?2)",
    };
    conn.prepare_cached(&format!(
        "SELECT {COLUMNS} {FROM} WHERE runs.session_id = ?1 AND {condition} AND {KEPT} ORDER BY runs.id LIMIT ?3"
    ))?
    .query_map(params![session_id, after, MAX_LISTED as i64], record)?
    .collect()
}

/// Which sessions to list. Every part that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Sessions with runs of this agent.
    pub agent_id: Option<String>,
    /// Sessions with runs that this principal asked for; `None` for those of everybody.
    pub principal: Option<String>,
    /// At most so many; taken as 1 to 1001.
    pub limit: usize,
    /// Only sessions that come after this place in the list: the `newest` of the last one before it.
    pub before: Option<RunCursor>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session (AG-UI `threadId`).
    pub session_id: String,
    /// The agent of its newest run that counts.
    pub agent_id: String,
    /// Who asked for that; `None` on a server without tokens.
    pub principal: Option<String>,
    /// When its first run was created, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Its newest run that counts.
    pub newest: RunCursor,
}

/// Goes down the runs from the newest, by the index of what is asked for, and takes each that is the newest of its session.
/// So a page costs what the runs beside those that it names cost, however many sessions there are.
fn newest(conn: &Connection, filter: &SessionFilter) -> rusqlite::Result<Vec<SessionSummary>> {
    let mut values: Vec<Sql> = Vec::new();
    let mut counts = |of: &str| {
        let mut wanted = vec![format!("{of}.removed_at IS NULL")];
        for (column, value) in [("agent_id", &filter.agent_id), ("principal", &filter.principal)] {
            if let Some(value) = value {
                values.push(Sql::Text(value.clone()));
                // The inner one goes by its session, and `+` keeps SQLite from the index of another column.
                let other = if of == "later" { "+" } else { "" };
                wanted.push(format!("{other}{of}.{column} = ?"));
            }
        }
        wanted.join(" AND ")
    };
    let (runs, later) = (counts("runs"), counts("later"));
    let mut before = "";
    if let Some(cursor) = &filter.before {
        before = "AND (runs.created_at, runs.run_id) < (?, ?)";
        values.extend([Sql::Integer(cursor.created_at), Sql::Text(cursor.run_id.clone())]);
    }
    values.push(Sql::Integer(filter.limit.clamp(1, MAX_LISTED + 1) as i64));
    conn.prepare_cached(&format!(
        "SELECT runs.session_id, runs.agent_id, runs.principal, sessions.created_at, runs.created_at, runs.run_id
         FROM runs JOIN sessions ON sessions.session_id = runs.session_id
         WHERE {runs}
           AND NOT EXISTS (SELECT 1 FROM runs later WHERE later.session_id = runs.session_id
                           AND (later.created_at, later.run_id) > (runs.created_at, runs.run_id) AND {later})
           {before}
         ORDER BY runs.created_at DESC, runs.run_id DESC LIMIT ?"
    ))?
    .query_map(params_from_iter(values), |row| {
        Ok(SessionSummary {
            session_id: row.get(0)?,
            agent_id: row.get(1)?,
            principal: row.get(2)?,
            created_at: row.get(3)?,
            newest: RunCursor { created_at: row.get(4)?, run_id: row.get(5)? },
        })
    })?
    .collect()
}

/// The sessions that somebody watches, and no others.
#[derive(Debug, Default)]
pub(crate) struct SessionWatches {
    /// Counts the runs that were created while somebody watched. Removed by the last watch to go.
    sessions: Mutex<HashMap<Arc<str>, watch::Sender<u64>>>,
}

impl SessionWatches {
    fn join(self: &Arc<Self>, session_id: &str) -> SessionWatch {
        let session_id: Arc<str> = session_id.into();
        let created = self.lock().entry(Arc::clone(&session_id)).or_insert_with(|| watch::Sender::new(0)).subscribe();
        SessionWatch { session_id, created: Some(created), watches: Arc::clone(self) }
    }

    /// Wakes the session's watches when it is dropped: a request that holds it is dropped once it is settled, which is
    /// after its commit. After a failure they are woken for nothing, which costs them a look.
    pub(crate) fn word(self: &Arc<Self>, session_id: &str) -> Word {
        Word { session_id: session_id.into(), watches: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, watch::Sender<u64>>> {
        // Nothing here can panic between two changes that belong together.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`SessionWatches::word`].
pub(crate) struct Word {
    session_id: Arc<str>,
    watches: Arc<SessionWatches>,
}

impl Drop for Word {
    fn drop(&mut self) {
        if let Some(created) = self.watches.lock().get(&self.session_id) {
            created.send_modify(|runs| *runs += 1);
        }
    }
}

/// Hears of the runs that are created in a session. From [`Store::watch_session`]. It does not keep the store open.
pub struct SessionWatch {
    session_id: Arc<str>,
    /// `None` only while it is dropped.
    created: Option<watch::Receiver<u64>>,
    watches: Arc<SessionWatches>,
}

impl SessionWatch {
    /// Waits until a run may have been created since the watch began, or since this last returned. One return can stand
    /// for several runs, and for none.
    ///
    /// Cancel-safe: what was not told is told by the next call.
    pub async fn changed(&mut self) {
        let told = match &mut self.created {
            Some(created) => created.changed().await.is_ok(),
            None => false,
        };
        if !told {
            // The sender is there for as long as this is.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for SessionWatch {
    fn drop(&mut self) {
        let mut sessions = self.watches.lock();
        self.created = None;
        if sessions.get(&self.session_id).is_some_and(|created| created.receiver_count() == 0) {
            sessions.remove(&self.session_id);
        }
    }
}

impl fmt::Debug for SessionWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionWatch").field("session_id", &self.session_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_is_remembered_only_while_somebody_watches_it() {
        let watches = Arc::new(SessionWatches::default());
        let (mut one, two) = (watches.join("s"), watches.join("s"));
        drop(two);
        assert_eq!(watches.lock().len(), 1);
        drop(watches.word("other"));
        drop(watches.word("s"));
        one.changed().await;
        assert!(tokio::time::timeout(std::time::Duration::from_millis(1), one.changed()).await.is_err());
        drop(one);
        assert_eq!(watches.lock().len(), 0);
    }
}
