//! Reading frames and payloads from the file.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _};

use crate::entry::{Entry, PageBuffer};
use crate::error::ReadError;
use crate::record::Payload;

/// Where a run's log stands in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// The run's row.
    pub(crate) run: i64,
    /// The last `seq`; 0 if there is none.
    pub(crate) head: u64,
    /// The oldest `seq` that retention left; `head + 1` if none.
    pub(crate) oldest: u64,
    pub(crate) ended: bool,
}

/// How much one read may return. One entry is always allowed, however large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLimits {
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

/// SQLite's integers are signed. No log reaches 2^63 frames, so a larger cursor is simply past every head.
pub(crate) fn to_sql(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// What the store wrote was never negative; a damaged value reads as 0 and fails the next check.
pub(crate) fn from_sql(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(crate) fn position(conn: &Connection, run_id: &str) -> rusqlite::Result<Option<Position>> {
    conn.prepare_cached("SELECT id, head, oldest, ended_at IS NOT NULL FROM runs WHERE run_id = ?1")?
        .query_row([run_id], |row| {
            Ok(Position {
                run: row.get(0)?,
                head: from_sql(row.get(1)?),
                oldest: from_sql(row.get(2)?),
                ended: row.get(3)?,
            })
        })
        .optional()
}

/// The frames after a cursor, consecutive, and as many as the limits allow. Empty at or past the head.
pub(crate) fn page(
    conn: &Connection,
    run_id: &str,
    after: u64,
    limits: PageLimits,
) -> rusqlite::Result<Result<Vec<Entry>, ReadError>> {
    // One transaction, so that the position and the frames are of the same moment.
    let tx = conn.unchecked_transaction()?;
    let Some(position) = position(&tx, run_id)? else {
        return Ok(Err(ReadError::UnknownRun));
    };
    if after >= position.head {
        return Ok(Ok(Vec::new()));
    }
    if after.saturating_add(1) < position.oldest {
        return Ok(Err(ReadError::Gone { oldest: position.oldest }));
    }
    let mut entries = PageBuffer::new();
    let mut next = after + 1;
    let mut statement =
        tx.prepare_cached("SELECT seq, body FROM frames WHERE run = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq")?;
    let mut rows = statement.query((position.run, to_sql(after), to_sql(position.head)))?;
    while entries.len() < limits.frames.max(1)
        && let Some(row) = rows.next()?
    {
        if from_sql(row.get(0)?) != next {
            return Ok(Err(ReadError::Missing { seq: next }));
        }
        let body = row.get_ref(1)?.as_blob()?;
        // Before the copy: the body that goes over the limit may be a large one.
        if entries.len() > 0 && entries.size() + body.len() > limits.bytes {
            break;
        }
        entries.push(next, body);
        next += 1;
    }
    if entries.len() == 0 {
        return Ok(Err(ReadError::Missing { seq: next }));
    }
    Ok(Ok(entries.finish()))
}

/// Removes the frames up to and including `through`, never past the head. Answers the oldest that is left.
pub(crate) fn trim(conn: &Connection, run_id: &str, through: u64) -> rusqlite::Result<Option<u64>> {
    let Some(position) = position(conn, run_id)? else {
        return Ok(None);
    };
    let oldest = position.oldest.max(through.min(position.head).saturating_add(1));
    if oldest > position.oldest {
        conn.prepare_cached("UPDATE runs SET oldest = ?2 WHERE id = ?1")?.execute((position.run, to_sql(oldest)))?;
        conn.prepare_cached("DELETE FROM frames WHERE run = ?1 AND seq < ?2")?
            .execute((position.run, to_sql(oldest)))?;
    }
    Ok(Some(oldest))
}

pub(crate) fn payload(conn: &Connection, run_id: &str, segment_id: &str) -> rusqlite::Result<Option<Payload>> {
    conn.prepare_cached(
        "SELECT content_type, bytes FROM payloads
         WHERE run = (SELECT id FROM runs WHERE run_id = ?1) AND segment_id = ?2",
    )?
    .query_row((run_id, segment_id), |row| {
        Ok(Payload { content_type: row.get(0)?, bytes: Bytes::from(row.get::<_, Vec<u8>>(1)?) })
    })
    .optional()
}
