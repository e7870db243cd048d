//! Reading frames and payloads from the file.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _};

use crate::entry::{Entry, Page, PageBuffer, size};
use crate::error::ReadError;
use crate::page_cache::PageCache;
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
    /// The last `seq` that is in a packed page; 0 if none is.
    pub(crate) packed: u64,
    pub(crate) ended: bool,
    /// Retention removed it: none of its frames may be given out, though some may still be there.
    pub(crate) removed: bool,
}

/// What it takes to read frames from the file, apart from a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) run_id: &'a Arc<str>,
    pub(crate) limits: PageLimits,
    pub(crate) cache: &'a PageCache,
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
    conn.prepare_cached(
        "SELECT id, head, oldest, packed, ended_at IS NOT NULL, removed_at IS NOT NULL FROM runs WHERE run_id = ?1",
    )?
    .query_row([run_id], |row| {
        Ok(Position {
            run: row.get(0)?,
            head: from_sql(row.get(1)?),
            oldest: from_sql(row.get(2)?),
            packed: from_sql(row.get(3)?),
            ended: row.get(4)?,
            removed: row.get(5)?,
        })
    })
    .optional()
}

/// The frames after a cursor, consecutive, and as many as the limits allow. `None` at or past the head.
pub(crate) fn page(
    conn: &Connection,
    reading: Reading<'_>,
    after: u64,
) -> rusqlite::Result<Result<Option<Page>, ReadError>> {
    // One transaction, so that the position and the frames are of the same moment.
    let tx = conn.unchecked_transaction()?;
    let Some(position) = position(&tx, reading.run_id)? else {
        return Ok(Err(ReadError::UnknownRun));
    };
    if position.removed {
        return Ok(Err(ReadError::Gone { oldest: position.oldest }));
    }
    if after >= position.head {
        return Ok(Ok(None));
    }
    if after.saturating_add(1) < position.oldest {
        return Ok(Err(ReadError::Gone { oldest: position.oldest }));
    }
    let page = if after < position.packed {
        packed(&tx, position.run, reading, after)?
    } else {
        match rows(&tx, position.run, after, position.head, reading.limits)? {
            Ok(page) => page,
            Err(missing) => return Ok(Err(missing)),
        }
    };
    Ok(page.map(Some).ok_or(ReadError::Missing { seq: after + 1 }))
}

/// The same, each frame by itself.
pub(crate) fn entries(
    conn: &Connection,
    reading: Reading<'_>,
    after: u64,
) -> rusqlite::Result<Result<Vec<Entry>, ReadError>> {
    let page = match page(conn, reading, after)? {
        Ok(Some(page)) => page,
        Ok(None) => return Ok(Ok(Vec::new())),
        Err(error) => return Ok(Err(error)),
    };
    Ok(page.entries().ok_or(ReadError::Missing { seq: page.first() }))
}

/// The frames after a cursor, out of the packed page that has the next one. `None` when it has not, or is damaged.
fn packed(conn: &Connection, run: i64, reading: Reading<'_>, after: u64) -> rusqlite::Result<Option<Page>> {
    let Reading { run_id, limits, cache } = reading;
    let found = conn
        .prepare_cached("SELECT id, first, last FROM pages WHERE run = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1")?
        .query_row((run, to_sql(after + 1)), |row| {
            Ok((row.get::<_, i64>(0)?, from_sql(row.get(1)?), from_sql(row.get(2)?)))
        })
        .optional()?;
    let Some((id, first, last)) = found.filter(|(_, _, last)| *last > after) else {
        return Ok(None);
    };
    let page = match cache.get(run_id, first).filter(|page| page.last() == last) {
        Some(page) => page,
        None => {
            let blob = conn.blob_open("main", "pages", "sse", id, true)?;
            let mut sse = vec![0; blob.len()];
            blob.read_at_exact(&mut sse, 0)?;
            let Some(page) = Page::packed(first, last, Bytes::from(sse)) else { return Ok(None) };
            cache.put(run_id, &page);
            page
        }
    };
    Ok(page.part(after, limits.frames, limits.bytes))
}

/// The frames after a cursor up to `through`, out of the rows of frames that are not packed.
pub(crate) fn rows(
    conn: &Connection,
    run: i64,
    after: u64,
    through: u64,
    limits: PageLimits,
) -> rusqlite::Result<Result<Option<Page>, ReadError>> {
    let mut buffer = PageBuffer::new(after + 1);
    let mut statement =
        conn.prepare_cached("SELECT seq, body FROM frames WHERE run = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq")?;
    let mut rows = statement.query((run, to_sql(after), to_sql(through)))?;
    while buffer.len() < limits.frames.max(1)
        && let Some(row) = rows.next()?
    {
        if from_sql(row.get(0)?) != buffer.next() {
            return Ok(Err(ReadError::Missing { seq: buffer.next() }));
        }
        let body = row.get_ref(1)?.as_blob()?;
        // No JSON text ends so. SQLite reads zeros where a file was cut short and has become longer again since; only in the
        // last page of a value does it not notice that by itself.
        if body.last() == Some(&0) {
            return Ok(Err(ReadError::Missing { seq: buffer.next() }));
        }
        // Before the copy: the body that goes over the limit may be a large one.
        if buffer.len() > 0 && buffer.size() + size(buffer.next(), body.len()) > limits.bytes {
            break;
        }
        buffer.push(body);
    }
    Ok(Ok(buffer.finish()))
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
        // A page of which some frames are left stays whole.
        conn.prepare_cached("DELETE FROM pages WHERE run = ?1 AND last < ?2")?
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
