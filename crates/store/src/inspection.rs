//! Looking at a store that no server has open: whether it says one thing everywhere.
//!
//! What a frame says is not known here. This checks that everything which belongs together is there, and gives out the
//! logs for somebody who reads them.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use crate::entry::Page;
use crate::error::{OpenError, StorageFailure};
use crate::frames::from_sql;
use crate::lock::StoreLock;
use crate::schema;

/// A store opened for reading only. It holds the store's lock, so that nobody writes meanwhile, and changes nothing.
#[derive(Debug)]
pub struct Inspection {
    path: PathBuf,
    connection: Connection,
    _lock: StoreLock,
}

/// Something that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The run that it is about, where it is about one.
    pub run_id: Option<String>,
    /// The frame, where it is about one.
    pub seq: Option<u64>,
    /// A sentence.
    pub what: String,
}

/// A run's record, as far as its log has to agree with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedRun {
    row: i64,
    packed: u64,
    /// The run.
    pub run_id: String,
    /// The last status.
    pub status: String,
    /// The attempt that runs or ran last.
    pub attempt: u32,
    /// The last `seq`.
    pub head: u64,
    /// The oldest `seq` that was kept.
    pub oldest: u64,
    /// When its first attempt started, in milliseconds since the Unix epoch.
    pub started_at: Option<i64>,
    /// When it ended, in milliseconds since the Unix epoch.
    pub ended_at: Option<i64>,
}

/// A payload, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedPayload {
    /// The segment that it belongs to.
    pub segment_id: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Each gives the run, where there is one, and a sentence for every row that must not be.
const REFERENCES: &[&str] = &[
    "SELECT NULL, 'frames, from seq ' || min(seq) || ', belong to no run' FROM frames
     WHERE run NOT IN (SELECT id FROM runs) GROUP BY run",
    "SELECT NULL, 'a packed page, from seq ' || first || ', belongs to no run' FROM pages
     WHERE run NOT IN (SELECT id FROM runs)",
    "SELECT NULL, 'the payload of a segment ' || segment_id || ' belongs to no run' FROM payloads
     WHERE run NOT IN (SELECT id FROM runs)",
    "SELECT NULL, 'an input belongs to no run' FROM inputs WHERE run NOT IN (SELECT id FROM runs)",
    "SELECT NULL, 'a prompt belongs to no run' FROM prompts WHERE rowid NOT IN (SELECT id FROM runs)",
    "SELECT NULL, 'the exchange ' || exchange_id || ' of session ' || session_id || ' names a run that is not there'
     FROM exchanges WHERE run NOT IN (SELECT id FROM runs)",
    "SELECT NULL, 'the key ' || key || ' of ' || iif(principal = '', 'nobody', principal) || ' names an exchange that is not there'
     FROM idempotency_keys WHERE NOT EXISTS (SELECT 1 FROM exchanges WHERE exchanges.run = idempotency_keys.run
     AND exchanges.exchange_id = idempotency_keys.exchange_id)",
    "SELECT run_id, 'no exchange names it' FROM runs WHERE id NOT IN (SELECT run FROM exchanges)",
    "SELECT run_id, 'its session ' || session_id || ' is not there' FROM runs
     WHERE session_id NOT IN (SELECT session_id FROM sessions)",
    "SELECT NULL, 'the session ' || session_id || ' has no run' FROM sessions
     WHERE session_id NOT IN (SELECT session_id FROM runs)",
    "SELECT run_id, 'its input is not there' FROM runs
     WHERE removed_at IS NULL AND id NOT IN (SELECT run FROM inputs)",
    "SELECT run_id, 'it was removed and has not ended' FROM runs WHERE removed_at IS NOT NULL AND ended_at IS NULL",
    "SELECT run_id, 'it was removed, and something of it is left that nobody will delete' FROM runs
     WHERE removed_at IS NOT NULL AND id NOT IN (SELECT run FROM upkeep)
     AND (id IN (SELECT run FROM inputs) OR id IN (SELECT rowid FROM prompts) OR id IN (SELECT run FROM payloads)
          OR EXISTS (SELECT 1 FROM frames WHERE frames.run = runs.id)
          OR EXISTS (SELECT 1 FROM pages WHERE pages.run = runs.id))",
    "SELECT run_id, 'its size is noted as ' || noted || ' bytes and is ' || found FROM (
         SELECT run_id, bytes AS noted,
             (SELECT coalesce(sum(length(payloads.bytes)), 0) FROM payloads WHERE payloads.run = runs.id)
             + (SELECT coalesce(sum(length(CAST(input AS BLOB)) + length(CAST(metadata AS BLOB))), 0)
                FROM inputs WHERE inputs.run = runs.id)
             + (SELECT coalesce(sum(length(body)), 0) FROM frames WHERE frames.run = runs.id) AS found
         FROM runs WHERE removed_at IS NULL AND packed = 0 AND oldest = 1
     ) WHERE noted <> found",
];

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

impl Inspection {
    /// Opens the store at `path`. Blocks.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]: among others when a server has it open, or when it has an earlier schema.
    pub fn open(path: &Path) -> Result<Inspection, OpenError> {
        let lock = StoreLock::acquire(path)?;
        let connection = schema::open_inspected(path)?;
        Ok(Inspection { path: path.to_owned(), connection, _lock: lock })
    }

    /// What SQLite's own check of the file finds. When it finds anything, nothing else that is read can be relied on.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn file_faults(&self) -> Result<Vec<Fault>, StorageFailure> {
        let fault = |what: String| Fault { run_id: None, seq: None, what: format!("SQLite: {what}") };
        let check = |conn: &Connection| -> rusqlite::Result<Vec<String>> {
            conn.prepare("PRAGMA integrity_check")?.query_map([], |row| row.get(0))?.collect()
        };
        self.read(|conn| match check(conn) {
            Ok(found) => Ok(found.into_iter().filter(|line| line != "ok").map(fault).collect()),
            // So damaged that the check itself gives up.
            Err(error) if is_damage(&error) => Ok(vec![fault(error.to_string())]),
            Err(error) => Err(error),
        })
    }

    /// What belongs to something that is not there, or lacks what has to be there.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn reference_faults(&self) -> Result<Vec<Fault>, StorageFailure> {
        self.read(|conn| {
            let mut faults = Vec::new();
            for sql in REFERENCES {
                let mut statement = conn.prepare(sql)?;
                let fault = |row: &rusqlite::Row<'_>| Ok(Fault { run_id: row.get(0)?, seq: None, what: row.get(1)? });
                for fault in statement.query_map([], fault)? {
                    faults.push(fault?);
                }
            }
            Ok(faults)
        })
    }

    /// The run that comes after this one in the order of their creation, or the first. Removed ones are passed over.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn next_run(&self, after: Option<&InspectedRun>) -> Result<Option<InspectedRun>, StorageFailure> {
        self.read(|conn| {
            conn.prepare_cached(
                "SELECT id, packed, run_id, status, attempt, head, oldest, started_at, ended_at FROM runs
                 WHERE id > ?1 AND removed_at IS NULL ORDER BY id LIMIT 1",
            )?
            .query_row([after.map_or(i64::MIN, |run| run.row)], |row| {
                Ok(InspectedRun {
                    row: row.get(0)?,
                    packed: from_sql(row.get(1)?),
                    run_id: row.get(2)?,
                    status: row.get(3)?,
                    attempt: row.get(4)?,
                    head: from_sql(row.get(5)?),
                    oldest: from_sql(row.get(6)?),
                    started_at: row.get(7)?,
                    ended_at: row.get(8)?,
                })
            })
            .optional()
        })
    }

    /// Gives each frame of the run to `visit`, in order, and answers the first thing about their sequence that is not as
    /// it has to be: from `oldest` to `head` without a hole, each in one place.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn read_log(
        &self,
        run: &InspectedRun,
        mut visit: impl FnMut(u64, &[u8]),
    ) -> Result<Option<Fault>, StorageFailure> {
        let fault = |seq: u64, what: String| Fault { run_id: Some(run.run_id.clone()), seq: Some(seq), what };
        self.read(|conn| {
            let mut next = run.oldest;
            let mut statement =
                conn.prepare_cached("SELECT first, last, sse FROM pages WHERE run = ?1 ORDER BY first")?;
            let mut pages = statement.query([run.row])?;
            while let Some(row) = pages.next()? {
                let (first, last) = (from_sql(row.get(0)?), from_sql(row.get(1)?));
                let sse = Bytes::copy_from_slice(row.get_ref(2)?.as_blob()?);
                let Some(entries) = Page::packed(first, last, sse).and_then(|page| page.entries()) else {
                    return Ok(Some(fault(first, format!("the packed page of frames {first} to {last} is damaged"))));
                };
                if last > run.packed {
                    let what =
                        format!("the page goes to frame {last}, and the record says that {} are packed", run.packed);
                    return Ok(Some(fault(first, what)));
                }
                // Of a page whose first frames were cut off, those are still in it.
                for entry in entries.iter().filter(|entry| entry.seq() >= run.oldest) {
                    if entry.seq() != next {
                        return Ok(Some(fault(next, format!("frame {} stands where {next} belongs", entry.seq()))));
                    }
                    visit(next, &entry.body());
                    next += 1;
                }
            }
            if next <= run.packed {
                let what = format!("frame {next} is missing from the packed pages, which go to {}", run.packed);
                return Ok(Some(fault(next, what)));
            }
            let mut statement = conn.prepare_cached("SELECT seq, body FROM frames WHERE run = ?1 ORDER BY seq")?;
            let mut rows = statement.query([run.row])?;
            while let Some(row) = rows.next()? {
                let seq = from_sql(row.get(0)?);
                if seq != next {
                    return Ok(Some(fault(next, format!("frame {seq} stands where {next} belongs"))));
                }
                visit(seq, row.get_ref(1)?.as_blob()?);
                next += 1;
            }
            if next != run.head + 1 {
                let what =
                    format!("the log ends with frame {}, and the record says that it has {}", next - 1, run.head);
                return Ok(Some(fault(next, what)));
            }
            Ok(None)
        })
    }

    /// The run's payloads.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn payloads(&self, run: &InspectedRun) -> Result<Vec<InspectedPayload>, StorageFailure> {
        self.read(|conn| {
            conn.prepare_cached("SELECT segment_id, length(bytes) FROM payloads WHERE run = ?1 ORDER BY id")?
                .query_map([run.row], |row| {
                    Ok(InspectedPayload { segment_id: row.get(0)?, bytes: from_sql(row.get(1)?) })
                })?
                .collect()
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StorageFailure> {
        read(&self.connection).map_err(|error| StorageFailure::from_sqlite(&self.path, &error))
    }
}
