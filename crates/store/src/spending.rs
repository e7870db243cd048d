//! What ended runs cost, for whoever limits what may be spent.

use rusqlite::{Connection, params};
use serde_json::Value;

use crate::error::ReadError;
use crate::store::Store;

impl Store {
    /// The cost of each ended run of a session that has one and is kept, as its record says it.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn costs_of_session(&self, session_id: &str) -> Result<Vec<Value>, ReadError> {
        let session_id = session_id.to_owned();
        self.read_with(move |conn| costs(conn, "session_id = ?1 AND ended_at >= ?2", &session_id, i64::MIN)).await
    }

    /// The cost of each run of an agent that has one, is kept, and has ended at or after that instant, in milliseconds
    /// since the Unix epoch.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn costs_since(&self, agent_id: &str, ended_since: i64) -> Result<Vec<Value>, ReadError> {
        let agent_id = agent_id.to_owned();
        self.read_with(move |conn| costs(conn, "agent_id = ?1 AND ended_at >= ?2", &agent_id, ended_since)).await
    }
}

fn costs(conn: &Connection, which: &str, id: &str, since: i64) -> rusqlite::Result<Vec<Value>> {
    // The conditions of the index `runs_kept` are spelled as it spells them.
    let sql = format!(
        "SELECT cost FROM runs WHERE {which} AND ended_at IS NOT NULL AND removed_at IS NULL AND cost IS NOT NULL"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map(params![id, since], |row| row.get::<_, String>(0))?;
    // A cost that is no JSON was not written by this store; verify-log is where that is told.
    rows.map(|text| Ok(serde_json::from_str(&text?).unwrap_or(Value::Null))).collect()
}
