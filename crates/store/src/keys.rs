//! Keys by which requests are repeated: each names the run that the first request with it made.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::error::{AddExchangeError, KeyError, ReadError};
use crate::record::{Added, ExchangeRecord, KeyedRun, RequestKey, RunRecord, Tombstone};
use crate::retention;
use crate::runs::{self, COLUMNS, FROM, KEPT, record};
use crate::store::Store;

impl Store {
    /// The run that a key names, and what the request was that it was first used with. `None` where it was not used.
    ///
    /// # Errors
    ///
    /// [`ReadError::Removed`], or the store's failure.
    pub async fn run_by_key(&self, principal: Option<&str>, key: &str) -> Result<Option<KeyedRun>, ReadError> {
        let (principal, key) = (principal.map(str::to_owned), key.to_owned());
        self.read_with(move |conn| {
            Ok(match find(conn, principal.as_deref(), &key)? {
                None => Ok(None),
                Some(Named::Run(found)) => Ok(Some(*found)),
                Some(Named::Removed(tombstone)) => Err(ReadError::Removed(Box::new(tombstone))),
            })
        })
        .await?
    }

    /// The same as [`Store::add_exchange`] for a request that may have a key, which names the exchange from the same
    /// transaction on.
    ///
    /// # Errors
    ///
    /// [`AddExchangeError::UnknownRun`], [`AddExchangeError::KeyTaken`], [`AddExchangeError::Removed`], or the store's
    /// failure.
    pub async fn add_keyed_exchange(
        &self,
        run_id: &str,
        exchange: ExchangeRecord,
        key: Option<RequestKey>,
    ) -> Result<Added, AddExchangeError> {
        let run_id = run_id.to_owned();
        self.write(move |conn| runs::add_exchange(conn, &run_id, &exchange, key.as_ref())).await
    }

    /// Lets a key name an exchange that was there before the request with it came. The same key for the same request
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub async fn remember_key(&self, run_id: &str, exchange_id: &str, key: RequestKey) -> Result<(), KeyError> {
        let (run_id, exchange_id) = (run_id.to_owned(), exchange_id.to_owned());
        self.write(move |conn| remember(conn, &run_id, &exchange_id, &key)).await
    }
}

/// Whose a key is. Nobody's on a server without tokens; no principal has an empty name.
fn owner(principal: Option<&str>) -> &str {
    principal.unwrap_or_default()
}

/// What a key names.
pub(crate) enum Named {
    /// A run, with what the request was.
    Run(Box<KeyedRun>),
    /// A run that retention removed.
    Removed(Tombstone),
}

/// What the key names, if it was used before.
pub(crate) fn find(conn: &Connection, principal: Option<&str>, key: &str) -> rusqlite::Result<Option<Named>> {
    let found = conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS}, idempotency_keys.exchange_id, idempotency_keys.request_digest {FROM}
             JOIN idempotency_keys ON idempotency_keys.run = runs.id
             WHERE idempotency_keys.principal = ?1 AND idempotency_keys.key = ?2 AND {KEPT}"
        ))?
        .query_row([owner(principal), key], keyed)
        .optional()?;
    if let Some(found) = found {
        return Ok(Some(Named::Run(Box::new(found))));
    }
    Ok(retention::tombstone_by_key(conn, owner(principal), key)?.map(Named::Removed))
}

fn keyed(row: &Row<'_>) -> rusqlite::Result<KeyedRun> {
    Ok(KeyedRun { record: record(row)?, exchange_id: row.get(18)?, request_digest: row.get(19)? })
}

/// What a request with a key is.
pub(crate) enum Use {
    /// The first with this key.
    First,
    /// The same again, which made or continued this run.
    Again(RunRecord),
    /// Another one than that which made or continued this run.
    Other(RunRecord),
    /// The key's run was removed.
    Removed(Box<Tombstone>),
}

impl Use {
    pub(crate) fn of(conn: &Connection, key: &RequestKey) -> rusqlite::Result<Use> {
        Ok(match find(conn, key.principal.as_deref(), &key.key)? {
            None => Use::First,
            Some(Named::Removed(tombstone)) => Use::Removed(Box::new(tombstone)),
            Some(Named::Run(found)) if found.request_digest == key.request_digest => Use::Again(found.record),
            Some(Named::Run(found)) => Use::Other(found.record),
        })
    }
}

/// Lets a new key name the exchange of a run.
pub(crate) fn insert(conn: &Connection, run: i64, exchange_id: &str, key: &RequestKey) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO idempotency_keys (principal, key, run, exchange_id, request_digest, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        owner(key.principal.as_deref()),
        key.key,
        run,
        exchange_id,
        key.request_digest,
        key.created_at
    ])?;
    Ok(())
}

/// Lets a key name an exchange that was there before.
pub(crate) fn remember(
    conn: &Connection,
    run_id: &str,
    exchange_id: &str,
    key: &RequestKey,
) -> rusqlite::Result<Result<(), KeyError>> {
    match Use::of(conn, key)? {
        Use::First => {}
        Use::Again(_) => return Ok(Ok(())),
        Use::Other(record) => return Ok(Err(KeyError::Taken { run_id: record.run_id })),
        Use::Removed(tombstone) => return Ok(Err(KeyError::Removed(tombstone))),
    }
    let run: Option<i64> = conn
        .prepare_cached("SELECT id FROM runs WHERE run_id = ?1 AND removed_at IS NULL")?
        .query_row([run_id], |row| row.get(0))
        .optional()?;
    let Some(run) = run else { return Ok(Err(KeyError::UnknownRun)) };
    insert(conn, run, exchange_id, key)?;
    Ok(Ok(()))
}
