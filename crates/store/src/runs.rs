//! Runs, exchanges and sessions in the file.

use rusqlite::types::{Type, Value as Sql};
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};
use serde_json::Value;

use crate::appender::RunUpdate;
use crate::error::{AddExchangeError, CreateError, OwnershipError};
use crate::frames::from_sql;
use crate::keys::{self, Use};
use crate::record::{Added, Created, ExchangeRecord, NewRun, RequestKey, RunFilter, RunRecord, SessionRecord};
use crate::{prompts, retention};

/// The most runs that one list returns.
pub(crate) const MAX_LISTED: usize = 1000;

// The order that `record` reads. The input comes last and is left out of lists.
pub(crate) const COLUMNS: &str = "runs.run_id, runs.agent_id, runs.session_id, runs.lane, runs.status, runs.attempt, \
     runs.head, runs.created_at, runs.started_at, runs.ended_at, runs.principal, runs.trigger_kind, \
     runs.agent_revision_id, runs.parent_run_id, inputs.metadata, runs.usage, runs.cost, runs.failure";
pub(crate) const FROM: &str = "FROM runs JOIN inputs ON inputs.run = runs.id";
/// A run that retention removed is no run any more, though its row is there.
pub(crate) const KEPT: &str = "runs.removed_at IS NULL";

/// What a take-over gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ownership {
    pub(crate) run: i64,
    pub(crate) epoch: i64,
    pub(crate) head: u64,
}

pub(crate) fn create(
    conn: &Connection,
    new: &NewRun,
    key: Option<&RequestKey>,
) -> rusqlite::Result<Result<Created, CreateError>> {
    match key.map(|key| Use::of(conn, key)).transpose()? {
        None | Some(Use::First) => {}
        Some(Use::Again(record)) => return Ok(Ok(Created::Existing { record, same_input: true })),
        Some(Use::Other(record)) => return Ok(Err(CreateError::KeyTaken { run_id: record.run_id })),
        Some(Use::Removed(tombstone)) => return Ok(Err(CreateError::Removed(tombstone))),
    }
    if let Some((record, digest)) = by_exchange(conn, &new.session_id, &new.exchange_id)? {
        let same_input = digest == new.input_digest;
        return Ok(Ok(Created::Existing { record, same_input }));
    }
    if let Some(tombstone) = retention::tombstone_by_exchange(conn, &new.session_id, &new.exchange_id)? {
        return Ok(Err(CreateError::Removed(Box::new(tombstone))));
    }
    // In the transaction that would give the session its first run: of two who begin it at once, one does.
    let owner: Option<Option<String>> = conn
        .prepare_cached("SELECT principal FROM sessions WHERE session_id = ?1")?
        .query_row([&new.session_id], |row| row.get(0))
        .optional()?;
    if new.principal.is_some() && owner.is_some_and(|owner| owner != new.principal) {
        return Ok(Err(CreateError::SessionOfAnother { session_id: new.session_id.clone() }));
    }
    let (metadata, input) = (new.metadata.to_string(), new.input.to_string());
    let inserted = conn
        .prepare_cached(
            "INSERT INTO runs (run_id, agent_id, session_id, lane, status, created_at, principal,
                               trigger_kind, agent_revision_id, parent_run_id, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (run_id) DO NOTHING",
        )?
        .execute(params![
            new.run_id,
            new.agent_id,
            new.session_id,
            new.lane,
            new.status,
            new.created_at,
            new.principal,
            new.trigger_kind,
            new.agent_revision_id,
            new.parent_run_id,
            i64::try_from(metadata.len() + input.len()).unwrap_or(i64::MAX),
        ])?;
    if inserted == 0 {
        return Ok(Err(CreateError::RunIdTaken { run_id: new.run_id.clone() }));
    }
    let run = conn.last_insert_rowid();
    conn.prepare_cached("INSERT INTO inputs (run, metadata, input) VALUES (?1, ?2, ?3)")?
        .execute(params![run, metadata, input])?;
    prompts::insert(conn, run, &new.input)?;
    conn.prepare_cached(
        "INSERT INTO sessions (session_id, principal, created_at, last_run_at) VALUES (?1, ?2, ?3, ?3)
         ON CONFLICT (session_id) DO UPDATE SET last_run_at = max(last_run_at, excluded.last_run_at)",
    )?
    .execute(params![new.session_id, new.principal, new.created_at])?;
    insert_exchange(conn, run, &new.session_id, &new.exchange_id, &new.input_digest)?;
    if let Some(key) = key {
        keys::insert(conn, run, &new.exchange_id, key)?;
    }
    Ok(Ok(Created::New(RunRecord {
        run_id: new.run_id.clone(),
        agent_id: new.agent_id.clone(),
        session_id: new.session_id.clone(),
        lane: new.lane.clone(),
        status: new.status.clone(),
        attempt: 0,
        head: 0,
        created_at: new.created_at,
        started_at: None,
        ended_at: None,
        principal: new.principal.clone(),
        trigger_kind: new.trigger_kind.clone(),
        agent_revision_id: new.agent_revision_id.clone(),
        parent_run_id: new.parent_run_id.clone(),
        metadata: new.metadata.clone(),
        usage: None,
        cost: None,
        failure: None,
    })))
}

pub(crate) fn add_exchange(
    conn: &Connection,
    run_id: &str,
    exchange: &ExchangeRecord,
    key: Option<&RequestKey>,
) -> rusqlite::Result<Result<Added, AddExchangeError>> {
    let (mut first, mut again) = (None, None);
    if let Some(key) = key {
        match Use::of(conn, key)? {
            Use::First => first = Some(key),
            Use::Again(record) => again = Some(record),
            Use::Other(record) => return Ok(Err(AddExchangeError::KeyTaken { run_id: record.run_id })),
            Use::Removed(tombstone) => return Ok(Err(AddExchangeError::Removed(tombstone))),
        }
    }
    if let Some((record, digest)) = by_exchange(conn, &exchange.session_id, &exchange.exchange_id)? {
        let same_input = digest == exchange.input_digest;
        if same_input
            && let Some(key) = first
            && let Err(error) = keys::remember(conn, &record.run_id, &exchange.exchange_id, key)?
        {
            return Ok(Err(error.into()));
        }
        return Ok(Ok(Added::Existing { record: Box::new(record), same_input }));
    }
    if let Some(record) = again {
        return Ok(Ok(Added::Existing { record: Box::new(record), same_input: true }));
    }
    if let Some(tombstone) = retention::tombstone_by_exchange(conn, &exchange.session_id, &exchange.exchange_id)? {
        return Ok(Err(AddExchangeError::Removed(Box::new(tombstone))));
    }
    let run: Option<i64> = conn
        .prepare_cached("SELECT id FROM runs WHERE run_id = ?1 AND removed_at IS NULL")?
        .query_row([run_id], |row| row.get(0))
        .optional()?;
    let Some(run) = run else {
        return Ok(Err(AddExchangeError::UnknownRun));
    };
    insert_exchange(conn, run, &exchange.session_id, &exchange.exchange_id, &exchange.input_digest)?;
    if let Some(key) = first {
        keys::insert(conn, run, &exchange.exchange_id, key)?;
    }
    Ok(Ok(Added::New))
}

fn insert_exchange(
    conn: &Connection,
    run: i64,
    session_id: &str,
    exchange_id: &str,
    digest: &str,
) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT INTO exchanges (session_id, exchange_id, run, input_digest) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![session_id, exchange_id, run, digest])?;
    Ok(())
}

/// Raises the owner's epoch, which fences every earlier owner.
pub(crate) fn take_ownership(conn: &Connection, run_id: &str) -> rusqlite::Result<Result<Ownership, OwnershipError>> {
    let taken = conn
        .prepare_cached(
            "UPDATE runs SET owner_epoch = owner_epoch + 1 WHERE run_id = ?1 AND ended_at IS NULL
             RETURNING id, owner_epoch, head",
        )?
        .query_row([run_id], |row| Ok(Ownership { run: row.get(0)?, epoch: row.get(1)?, head: from_sql(row.get(2)?) }))
        .optional()?;
    if let Some(ownership) = taken {
        return Ok(Ok(ownership));
    }
    let exists = conn.prepare_cached("SELECT 1 FROM runs WHERE run_id = ?1")?.exists([run_id])?;
    Ok(Err(if exists { OwnershipError::Ended } else { OwnershipError::UnknownRun }))
}

/// Applies what an append says of its run. What is `None` stays as it is.
pub(crate) fn update(conn: &Connection, run: i64, update: &RunUpdate) -> rusqlite::Result<()> {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    conn.prepare_cached(
        "UPDATE runs SET status = coalesce(?2, status), attempt = coalesce(?3, attempt),
                         started_at = coalesce(?4, started_at), ended_at = coalesce(?5, ended_at),
                         usage = coalesce(?6, usage), cost = coalesce(?7, cost),
                         failure = coalesce(?8, failure),
                         wakes_at = iif(?9, ?10, wakes_at)
         WHERE id = ?1",
    )?
    .execute(params![
        run,
        update.status,
        update.attempt,
        update.started_at,
        update.ended_at,
        text(&update.usage),
        text(&update.cost),
        text(&update.failure),
        update.wakes_at.is_some(),
        update.wakes_at.flatten(),
    ])?;
    Ok(())
}

pub(crate) fn get(conn: &Connection, run_id: &str) -> rusqlite::Result<Option<RunRecord>> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} {FROM} WHERE runs.run_id = ?1 AND {KEPT}"))?
        .query_row([run_id], record)
        .optional()
}

pub(crate) fn input(conn: &Connection, run_id: &str) -> rusqlite::Result<Option<Value>> {
    conn.prepare_cached(&format!("SELECT inputs.input {FROM} WHERE runs.run_id = ?1 AND {KEPT}"))?
        .query_row([run_id], |row| json(row, 0))
        .optional()
        .map(Option::flatten)
}

pub(crate) fn by_exchange(
    conn: &Connection,
    session_id: &str,
    exchange_id: &str,
) -> rusqlite::Result<Option<(RunRecord, String)>> {
    conn.prepare_cached(&format!(
        "SELECT {COLUMNS}, exchanges.input_digest {FROM}
         JOIN exchanges ON exchanges.run = runs.id
         WHERE exchanges.session_id = ?1 AND exchanges.exchange_id = ?2 AND {KEPT}"
    ))?
    .query_row([session_id, exchange_id], |row| Ok((record(row)?, row.get(18)?)))
    .optional()
}

pub(crate) fn unfinished(conn: &Connection) -> rusqlite::Result<Vec<RunRecord>> {
    conn.prepare_cached(&format!(
        "SELECT {COLUMNS} {FROM} WHERE runs.ended_at IS NULL
         ORDER BY runs.created_at, runs.run_id"
    ))?
    .query_map([], record)?
    .collect()
}

/// The suspended runs that were to be looked at by now, those first that are due for longest.
pub(crate) fn due(conn: &Connection, now: i64, most: usize) -> rusqlite::Result<Vec<RunRecord>> {
    conn.prepare_cached(&format!(
        "SELECT {COLUMNS} {FROM} WHERE runs.wakes_at <= ?1 AND runs.ended_at IS NULL AND +runs.status = 'suspended'
         ORDER BY runs.wakes_at, runs.id LIMIT ?2"
    ))?
    .query_map(params![now, most.min(MAX_LISTED) as i64], record)?
    .collect()
}

/// When a run has to be looked at, or tried again.
pub(crate) fn wakes_at(conn: &Connection, run_id: &str) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT wakes_at FROM runs WHERE run_id = ?1")?
        .query_row([run_id], |row| row.get(0))
        .optional()
        .map(Option::flatten)
}

/// Changes when a run is due whose last frame is `head`: whoever has written to it meanwhile knows better.
pub(crate) fn put_off(conn: &Connection, run_id: &str, head: u64, wakes_at: Option<i64>) -> rusqlite::Result<bool> {
    let changed = conn
        .prepare_cached("UPDATE runs SET wakes_at = ?3 WHERE run_id = ?1 AND head = ?2 AND ended_at IS NULL")?
        .execute(params![run_id, i64::try_from(head).unwrap_or(i64::MAX), wakes_at])?;
    Ok(changed > 0)
}

pub(crate) fn list(conn: &Connection, filter: &RunFilter) -> rusqlite::Result<Vec<RunRecord>> {
    let mut wanted: Vec<String> = vec![KEPT.to_owned()];
    let mut values: Vec<Sql> = Vec::new();
    let equal = [
        ("parent_run_id", &filter.parent_run_id),
        ("session_id", &filter.session_id),
        ("agent_id", &filter.agent_id),
        ("principal", &filter.principal),
    ];
    // A run has started few others, a session has few runs, and few ids begin alike; an agent or a status may have nearly
    // all runs. Where one of the first is given, its index is the one to use, and `+` keeps SQLite from another.
    let few = equal.iter().take(2).find(|(_, value)| value.is_some()).map(|(column, _)| *column);
    let others = if few.is_some() || filter.run_id.is_some() { "+" } else { "" };
    for (column, value) in equal {
        if let Some(value) = value {
            let other = if Some(column) == few { "" } else { others };
            wanted.push(format!("{other}runs.{column} = ?"));
            values.push(Sql::Text(value.clone()));
        }
    }
    if let Some(begin) = &filter.run_id {
        // As a range, which the index of the ids serves. No id has the last character of Unicode.
        wanted.push("runs.run_id >= ? AND runs.run_id < ?".to_owned());
        values.push(Sql::Text(begin.clone()));
        values.push(Sql::Text(format!("{begin}\u{10ffff}")));
    }
    if let Some(text) = &filter.prompt {
        wanted.push("runs.id IN (SELECT rowid FROM prompts WHERE prompts MATCH ?)".to_owned());
        values.push(Sql::Text(prompts::phrase(text)));
    }
    if !filter.status.is_empty() {
        let marks = vec!["?"; filter.status.len()].join(", ");
        wanted.push(format!("{others}runs.status IN ({marks})"));
        values.extend(filter.status.iter().cloned().map(Sql::Text));
    }
    if let Some(before) = &filter.before {
        wanted.push("(runs.created_at, runs.run_id) < (?, ?)".to_owned());
        values.push(Sql::Integer(before.created_at));
        values.push(Sql::Text(before.run_id.clone()));
    }
    let condition = wanted.join(" AND ");
    let limit = filter.limit.clamp(1, MAX_LISTED);
    values.push(Sql::Integer(limit as i64));
    conn.prepare_cached(&format!(
        "SELECT {COLUMNS} {FROM} WHERE {condition} ORDER BY runs.created_at DESC, runs.run_id DESC LIMIT ?"
    ))?
    .query_map(params_from_iter(values), record)?
    .collect()
}

pub(crate) fn session(conn: &Connection, session_id: &str) -> rusqlite::Result<Option<SessionRecord>> {
    conn.prepare_cached(
        "SELECT principal, created_at, last_run_at,
                (SELECT count(*) FROM runs WHERE runs.session_id = sessions.session_id AND runs.removed_at IS NULL)
         FROM sessions WHERE session_id = ?1",
    )?
    .query_row([session_id], |row| {
        Ok(SessionRecord {
            session_id: session_id.to_owned(),
            principal: row.get(0)?,
            created_at: row.get(1)?,
            last_run_at: row.get(2)?,
            runs: from_sql(row.get(3)?),
        })
    })
    .optional()
}

pub(crate) fn record(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    Ok(RunRecord {
        run_id: row.get(0)?,
        agent_id: row.get(1)?,
        session_id: row.get(2)?,
        lane: row.get(3)?,
        status: row.get(4)?,
        attempt: row.get(5)?,
        head: from_sql(row.get(6)?),
        created_at: row.get(7)?,
        started_at: row.get(8)?,
        ended_at: row.get(9)?,
        principal: row.get(10)?,
        trigger_kind: row.get(11)?,
        agent_revision_id: row.get(12)?,
        parent_run_id: row.get(13)?,
        metadata: json(row, 14)?.unwrap_or(Value::Null),
        usage: json(row, 15)?,
        cost: json(row, 16)?,
        failure: json(row, 17)?,
    })
}

/// A JSON `null` reads as `None`: it is how an update takes a value back.
fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Value>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else {
        return Ok(None);
    };
    match serde_json::from_str(text) {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))),
    }
}
