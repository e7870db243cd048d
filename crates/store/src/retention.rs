//! Which runs are kept, and what becomes of the others. Whole runs go, and only those that have ended.
//!
//! A run is removed in one small transaction: from then on it is a [`Tombstone`], and whoever asks for it is told so. What
//! it said is deleted afterwards, in the background (see `upkeep.rs`). After a time the tombstone goes too.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::frames::from_sql;
use crate::record::Tombstone;

/// How many runs, or tombstones, are removed in one transaction.
pub(crate) const AT_ONCE: usize = 64;

/// How much of an agent's ended runs is kept; `None` is no limit. A run that has not ended, whatever its status, is kept,
/// and counts for nothing here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// For how long after its end a run is kept.
    pub max_age: Option<Duration>,
    /// How many runs are kept, the newest by their end.
    pub max_runs: Option<u64>,
    /// How many bytes of frame bodies, payloads and inputs are kept: the newest runs whose sum is within it.
    pub max_bytes: Option<u64>,
}

impl Keep {
    fn everything(&self) -> bool {
        *self == Keep::default()
    }
}

/// What is kept, agent by agent. The default keeps everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Of each agent that `agents` does not name, also of one that is no longer served. The limits hold for each of them
    /// by itself.
    pub default: Keep,
    /// Of these agents, in place of `default`.
    pub agents: BTreeMap<String, Keep>,
    /// For how long after a run was removed its [`Tombstone`] is kept. Default 30 days.
    pub tombstones: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            default: Keep::default(),
            agents: BTreeMap::new(),
            tombstones: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}

/// Runs that have ended and may be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removable {
    /// Those that this retention does not keep at this time, in milliseconds since the Unix epoch.
    NotKept {
        /// What is kept.
        retention: Retention,
        /// Now.
        now: i64,
    },
    /// Those that ended before this time, in milliseconds since the Unix epoch, of one agent or of all.
    EndedBefore {
        /// When.
        time: i64,
        /// Whose; `None` for all.
        agent_id: Option<String>,
    },
}

/// A run that may be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// The run.
    pub run_id: String,
    /// Its agent.
    pub agent_id: String,
    /// When it ended, in milliseconds since the Unix epoch.
    pub ended_at: i64,
    /// Its last `seq`.
    pub head: u64,
    /// The size of its frame bodies, payloads and input.
    pub bytes: u64,
}

/// The answer to [`Store::removable`](crate::Store::removable).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The first of them, oldest first agent by agent, as many as were asked for.
    pub runs: Vec<EndedRun>,
    /// How many there are.
    pub count: u64,
    /// How many bytes they have together.
    pub bytes: u64,
}

impl Found {
    fn add(&mut self, run: EndedRun, most: usize) {
        self.count += 1;
        self.bytes += run.bytes;
        if self.runs.len() < most {
            self.runs.push(run);
        }
    }
}

pub(crate) fn find(conn: &Connection, which: &Removable, most: usize) -> rusqlite::Result<Found> {
    // One transaction, so that all of it is of the same moment.
    let tx = conn.unchecked_transaction()?;
    let mut found = Found::default();
    match which {
        Removable::EndedBefore { time, agent_id: Some(agent_id) } => before(&tx, agent_id, *time, most, &mut found)?,
        Removable::EndedBefore { time, agent_id: None } => {
            for agent_id in agents(&tx)? {
                before(&tx, &agent_id, *time, most, &mut found)?;
            }
        }
        Removable::NotKept { retention, now } => {
            for agent_id in agents(&tx)? {
                let keep = retention.agents.get(&agent_id).unwrap_or(&retention.default);
                if !keep.everything() {
                    beyond(&tx, &agent_id, keep, *now, most, &mut found)?;
                }
            }
        }
    }
    Ok(found)
}

/// Every agent that has runs, found by leaps over an index rather than by reading all runs.
fn agents(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut next = conn.prepare_cached("SELECT min(agent_id) FROM runs WHERE agent_id > ?1")?;
    let mut agents: Vec<String> = Vec::new();
    // No agent has an empty name.
    while let Some(agent) =
        next.query_row([agents.last().map_or("", String::as_str)], |row| row.get::<_, Option<String>>(0))?
    {
        agents.push(agent);
    }
    Ok(agents)
}

fn before(conn: &Connection, agent_id: &str, time: i64, most: usize, found: &mut Found) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached(
        "SELECT run_id, agent_id, ended_at, head, bytes FROM runs
         WHERE agent_id = ?1 AND ended_at IS NOT NULL AND removed_at IS NULL AND ended_at < ?2
         ORDER BY ended_at, id",
    )?;
    let mut rows = statement.query((agent_id, time))?;
    while let Some(row) = rows.next()? {
        found.add(ended_run(row)?, most);
    }
    Ok(())
}

fn beyond(
    conn: &Connection,
    agent_id: &str,
    keep: &Keep,
    now: i64,
    most: usize,
    found: &mut Found,
) -> rusqlite::Result<()> {
    let oldest = keep.max_age.map(|age| now.saturating_sub(millis(age)));
    let (None, None) = (keep.max_runs, keep.max_bytes) else {
        let number = |limit: Option<u64>| limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        // Counted from the newest on, so that what is kept is a matter of these runs and not of when one looks.
        let mut statement = conn.prepare_cached(
            "SELECT run_id, agent_id, ended_at, head, bytes FROM
                 (SELECT id, run_id, agent_id, ended_at, head, bytes,
                         row_number() OVER newest_first AS place, sum(bytes) OVER newest_first AS total
                  FROM runs WHERE agent_id = ?1 AND ended_at IS NOT NULL AND removed_at IS NULL
                  WINDOW newest_first AS (ORDER BY ended_at DESC, id DESC ROWS UNBOUNDED PRECEDING))
             WHERE ended_at < ?2 OR place > ?3 OR total > ?4 ORDER BY ended_at, id",
        )?;
        let mut rows = statement.query(params![agent_id, oldest, number(keep.max_runs), number(keep.max_bytes)])?;
        while let Some(row) = rows.next()? {
            found.add(ended_run(row)?, most);
        }
        return Ok(());
    };
    match oldest {
        Some(oldest) => before(conn, agent_id, oldest, most, found),
        None => Ok(()),
    }
}

fn ended_run(row: &Row<'_>) -> rusqlite::Result<EndedRun> {
    Ok(EndedRun {
        run_id: row.get(0)?,
        agent_id: row.get(1)?,
        ended_at: row.get(2)?,
        head: from_sql(row.get(3)?),
        bytes: from_sql(row.get(4)?),
    })
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Makes tombstones of these runs, but for those that have not ended or are none any more. Answers how many.
pub(crate) fn remove(conn: &Connection, run_ids: &[String], now: i64) -> rusqlite::Result<u64> {
    let mut removed = 0;
    for run_id in run_ids {
        let run: Option<i64> = conn
            .prepare_cached(
                "UPDATE runs SET removed_at = ?2, oldest = head + 1, lane = '', trigger_kind = '', started_at = NULL,
                                 agent_revision_id = NULL, parent_run_id = NULL, usage = NULL, cost = NULL,
                                 failure = NULL
                 WHERE run_id = ?1 AND ended_at IS NOT NULL AND removed_at IS NULL RETURNING id",
            )?
            .query_row((run_id, now), |row| row.get(0))
            .optional()?;
        let Some(run) = run else { continue };
        conn.prepare_cached("UPDATE exchanges SET input_digest = '' WHERE run = ?1")?.execute([run])?;
        conn.prepare_cached("UPDATE idempotency_keys SET request_digest = '' WHERE run = ?1")?.execute([run])?;
        conn.prepare_cached("INSERT OR IGNORE INTO upkeep (run) VALUES (?1)")?.execute([run])?;
        removed += 1;
    }
    Ok(removed)
}

/// Deletes some tombstones from before a time, and the sessions that have nothing else. Answers how many; none when
/// there are no more. One whose run is not yet emptied stays.
pub(crate) fn forget(conn: &Connection, before: i64) -> rusqlite::Result<usize> {
    let tombstones: Vec<(i64, String)> = conn
        .prepare_cached(
            "SELECT id, session_id FROM runs
             WHERE removed_at IS NOT NULL AND removed_at < ?1 AND id NOT IN (SELECT run FROM upkeep)
             ORDER BY removed_at LIMIT ?2",
        )?
        .query_map((before, AT_ONCE as i64), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (run, session_id) in &tombstones {
        conn.prepare_cached("DELETE FROM exchanges WHERE run = ?1")?.execute([run])?;
        conn.prepare_cached("DELETE FROM idempotency_keys WHERE run = ?1")?.execute([run])?;
        conn.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([run])?;
        conn.prepare_cached(
            "DELETE FROM sessions WHERE session_id = ?1
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session_id = ?1)",
        )?
        .execute([session_id])?;
    }
    Ok(tombstones.len())
}

const TOMBSTONE: &str = "SELECT runs.run_id, runs.session_id, runs.principal, runs.head, runs.removed_at FROM runs";

pub(crate) fn tombstone(conn: &Connection, run_id: &str) -> rusqlite::Result<Option<Tombstone>> {
    conn.prepare_cached(&format!("{TOMBSTONE} WHERE runs.run_id = ?1 AND runs.removed_at IS NOT NULL"))?
        .query_row([run_id], read)
        .optional()
}

pub(crate) fn tombstone_by_exchange(
    conn: &Connection,
    session_id: &str,
    exchange_id: &str,
) -> rusqlite::Result<Option<Tombstone>> {
    conn.prepare_cached(&format!(
        "{TOMBSTONE} JOIN exchanges ON exchanges.run = runs.id
         WHERE exchanges.session_id = ?1 AND exchanges.exchange_id = ?2 AND runs.removed_at IS NOT NULL"
    ))?
    .query_row([session_id, exchange_id], read)
    .optional()
}

pub(crate) fn tombstone_by_key(conn: &Connection, owner: &str, key: &str) -> rusqlite::Result<Option<Tombstone>> {
    conn.prepare_cached(&format!(
        "{TOMBSTONE} JOIN idempotency_keys ON idempotency_keys.run = runs.id
         WHERE idempotency_keys.principal = ?1 AND idempotency_keys.key = ?2 AND runs.removed_at IS NOT NULL"
    ))?
    .query_row([owner, key], read)
    .optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Tombstone> {
    Ok(Tombstone {
        run_id: row.get(0)?,
        session_id: row.get(1)?,
        principal: row.get(2)?,
        head: from_sql(row.get(3)?),
        removed_at: row.get(4)?,
    })
}
