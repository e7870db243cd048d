//! The file: how it is recognised, created and refused.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::OpenError;
use crate::standing::WAL_KEPT_BYTES;
use crate::store::{StoreOptions, Sync};

/// Marks a SQLite file as a Runwire store ("RWir"), so that another program's database is never written to.
const APPLICATION_ID: i32 = 0x5257_6972;

/// The schema that this version writes, and the latest that it reads. A store of an earlier one is brought up to it.
const SCHEMA_VERSION: i64 = 4;

/// The tables of each schema version, in the order in which they came.
const TABLES: [(i64, &str); 11] = [
    (1, "meta"),
    (1, "sessions"),
    (1, "runs"),
    (1, "inputs"),
    (1, "exchanges"),
    (1, "frames"),
    (1, "payloads"),
    (2, "pages"),
    (2, "upkeep"),
    (4, "idempotency_keys"),
    (4, "prompts"),
];

/// How long a statement waits for another program's lock on the file, a backup for instance.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Statements are few and fixed, except for the lists of runs, which vary by their filter.
const CACHED_STATEMENTS: usize = 64;

// The first schema, as it was. A new store is made of it and of the steps after it, so that a store which came all the
// way is like one that was made today.
//
// `runs` is rewritten with every append, so what is large and never changes is in `inputs`. There, `metadata`
// comes first: lists read it, and need not walk over the pages that a large input takes.
//
// Every list is newest first by (created_at, run_id) after one equality, hence the indexes. `unfinished` holds
// only live runs, so recovery at start reads those and nothing else.
const VERSION_1: &str = "
CREATE TABLE meta (
    schema_version INTEGER NOT NULL
) STRICT;
CREATE TABLE sessions (
    session_id  TEXT PRIMARY KEY,
    principal   TEXT,
    created_at  INTEGER NOT NULL,
    last_run_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE runs (
    id                INTEGER PRIMARY KEY,
    run_id            TEXT NOT NULL UNIQUE,
    owner_epoch       INTEGER NOT NULL DEFAULT 0,
    head              INTEGER NOT NULL DEFAULT 0,
    oldest            INTEGER NOT NULL DEFAULT 1,
    status            TEXT NOT NULL,
    attempt           INTEGER NOT NULL DEFAULT 0,
    created_at        INTEGER NOT NULL,
    started_at        INTEGER,
    ended_at          INTEGER,
    agent_id          TEXT NOT NULL,
    session_id        TEXT NOT NULL,
    lane              TEXT NOT NULL,
    principal         TEXT,
    trigger_kind      TEXT NOT NULL,
    agent_revision_id TEXT,
    parent_run_id     TEXT,
    usage             TEXT,
    cost              TEXT,
    failure           TEXT
) STRICT;
CREATE INDEX runs_newest ON runs (created_at, run_id);
CREATE INDEX runs_by_agent ON runs (agent_id, created_at, run_id);
CREATE INDEX runs_by_session ON runs (session_id, created_at, run_id);
CREATE INDEX runs_by_principal ON runs (principal, created_at, run_id);
CREATE INDEX runs_by_status ON runs (status, created_at, run_id);
CREATE INDEX runs_unfinished ON runs (created_at, run_id) WHERE ended_at IS NULL;
CREATE TABLE inputs (
    run      INTEGER PRIMARY KEY,
    metadata TEXT NOT NULL,
    input    TEXT NOT NULL
) STRICT;
CREATE TABLE exchanges (
    session_id   TEXT NOT NULL,
    exchange_id  TEXT NOT NULL,
    run          INTEGER NOT NULL,
    input_digest TEXT NOT NULL,
    PRIMARY KEY (session_id, exchange_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE frames (
    run  INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE payloads (
    id           INTEGER PRIMARY KEY,
    run          INTEGER NOT NULL,
    segment_id   TEXT NOT NULL,
    content_type TEXT NOT NULL,
    bytes        BLOB NOT NULL,
    UNIQUE (run, segment_id)
) STRICT;
";

// The second: packed pages, and runs that retention removed.
//
// `pages` holds what was in `frames` of runs that have ended, as the SSE events of consecutive frames in one value.
// `runs.packed` is the last `seq` that is there; what is after it is in `frames`. `upkeep` names the runs that have to
// be packed, or emptied because they were removed; work that a crash interrupts is found here again.
//
// A removed run stays in `runs`, with `removed_at` and without what it said, and so do its exchanges. Nothing else may
// get its `id` while rows of it are left. `bytes` is what retention counts: bodies, payloads, the input.
const VERSION_2: &str = "
ALTER TABLE runs ADD COLUMN removed_at INTEGER;
ALTER TABLE runs ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
CREATE TABLE pages (
    id    INTEGER PRIMARY KEY,
    run   INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    sse   BLOB NOT NULL,
    UNIQUE (run, first)
) STRICT;
CREATE TABLE upkeep (
    run INTEGER PRIMARY KEY
) STRICT;
CREATE INDEX runs_kept ON runs (agent_id, ended_at, id) WHERE ended_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX runs_removed ON runs (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX exchanges_by_run ON exchanges (run);
UPDATE runs SET bytes =
    (SELECT coalesce(sum(length(body)), 0) FROM frames WHERE frames.run = runs.id)
    + (SELECT coalesce(sum(length(bytes)), 0) FROM payloads WHERE payloads.run = runs.id)
    + (SELECT coalesce(sum(length(CAST(input AS BLOB)) + length(CAST(metadata AS BLOB))), 0)
       FROM inputs WHERE inputs.run = runs.id);
INSERT INTO upkeep SELECT id FROM runs WHERE ended_at IS NOT NULL AND head - oldest >= 255;
";

// The third: when a suspended run has to be looked at, in milliseconds since the Unix epoch.
//
// In a store of an earlier version the logs know, and whoever looks at a run that is due corrects what is here: so each
// suspended one is due once.
const VERSION_3: &str = "
ALTER TABLE runs ADD COLUMN wakes_at INTEGER;
CREATE INDEX runs_waking ON runs (wakes_at, id) WHERE wakes_at IS NOT NULL;
UPDATE runs SET wakes_at = 0 WHERE status = 'suspended' AND ended_at IS NULL;
";

// The fourth: the runs that a run started; which request made or continued a run, by the key that its sender chose for it;
// and what each run was asked, for lists, and to be searched by any part of it (`prompts.rs`).
//
// Runs are listed by their parent newest first, like every list; few have one. A key is its principal's, or nobody's ('').
// It goes with its run, so `request_digest` is empty once that is removed.
//
// `secure-delete`: of a run that retention removed, nothing is left in the index either. Of runs from before, those have a
// prompt whose last message of a user is a text.
const VERSION_4: &str = "
CREATE INDEX runs_by_parent ON runs (parent_run_id, created_at, run_id) WHERE parent_run_id IS NOT NULL;
CREATE TABLE idempotency_keys (
    principal      TEXT NOT NULL,
    key            TEXT NOT NULL,
    run            INTEGER NOT NULL,
    exchange_id    TEXT NOT NULL,
    request_digest TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_run ON idempotency_keys (run);
CREATE VIRTUAL TABLE prompts USING fts5 (prompt, tokenize = 'trigram');
INSERT INTO prompts (prompts, rank) VALUES ('secure-delete', 1);
INSERT INTO prompts (rowid, prompt)
    SELECT run, prompt FROM (
        SELECT inputs.run, (
            SELECT substr(message.value ->> 'content', 1, 200)
            FROM json_each(inputs.input, '$.messages') AS message
            WHERE message.type = 'object' AND message.value ->> 'role' = 'user'
                AND json_type(message.value, '$.content') = 'text'
            ORDER BY message.key DESC LIMIT 1
        ) AS prompt
        FROM inputs JOIN runs ON runs.id = inputs.run
        WHERE runs.removed_at IS NULL AND json_valid(inputs.input)
    ) WHERE prompt IS NOT NULL;
";

/// The steps from one version to the next, each with the version that it leads to.
const STEPS: [(i64, &str); 3] = [(2, VERSION_2), (3, VERSION_3), (4, VERSION_4)];

/// Opens the connection that writes, creating the store if the file is absent or empty.
///
/// The caller holds the store's lock. A file that is refused is not changed.
pub(crate) fn open_writer(path: &Path, options: &StoreOptions) -> Result<Connection, OpenError> {
    check_header(path)?;
    let sqlite = |error: rusqlite::Error| OpenError::from_sqlite(path, &error);
    // No SQLITE_OPEN_URI: a path is a path, also if it begins with "file:".
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    prepare(&conn).map_err(sqlite)?;

    // The first statement reads the header, so this is where a damaged or cut file shows.
    let application_id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(sqlite)?;
    let tables = table_names(&conn).map_err(sqlite)?;
    if application_id == 0 && tables.is_empty() {
        create(&mut conn).map_err(sqlite)?;
    } else if application_id == APPLICATION_ID {
        let found = check(path, &conn, &tables)?;
        upgrade(&mut conn, found).map_err(sqlite)?;
    } else {
        return Err(OpenError::NotAStore { path: path.to_owned() });
    }

    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(sqlite)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(OpenError::Io {
            path: path.to_owned(),
            reason: format!(
                "its file system does not support write-ahead logging (SQLite stayed in {mode} mode); use a local disk"
            ),
        });
    }
    let synchronous = match options.sync {
        Sync::Normal => "NORMAL",
        Sync::Full => "FULL",
    };
    conn.pragma_update(None, "synchronous", synchronous).map_err(sqlite)?;
    // After a burst the log would otherwise keep its largest size for ever.
    conn.pragma_update_and_check(None, "journal_size_limit", WAL_KEPT_BYTES as i64, |_| Ok(())).map_err(sqlite)?;
    if let Some(max_bytes) = options.max_bytes {
        limit(&conn, max_bytes).map_err(sqlite)?;
    }
    // The first read opens the write-ahead log, so that from here on both files are there.
    conn.query_row("SELECT schema_version FROM meta", [], |_| Ok(())).map_err(sqlite)?;
    Ok(conn)
}

/// Opens a connection that can only read. The writer must have been opened before.
pub(crate) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    prepare(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    // SQLite opens the write-ahead log with the first read, by its name. That must not be at a time when another file may
    // have it.
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(conn)
}

/// Opens a store for somebody who only looks at it. The caller holds the store's lock.
pub(crate) fn open_inspected(path: &Path) -> Result<Connection, OpenError> {
    check_header(path)?;
    let sqlite = |error: rusqlite::Error| OpenError::from_sqlite(path, &error);
    let conn = open_reader(path).map_err(sqlite)?;
    let application_id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(sqlite)?;
    let tables = table_names(&conn).map_err(sqlite)?;
    if application_id != APPLICATION_ID {
        return Err(OpenError::NotAStore { path: path.to_owned() });
    }
    let found = check(path, &conn, &tables)?;
    if found < SCHEMA_VERSION {
        return Err(OpenError::OlderSchema { path: path.to_owned(), found, supported: SCHEMA_VERSION });
    }
    Ok(conn)
}

/// SQLite takes a file of one byte for an empty one and would write over it.
fn check_header(path: &Path) -> Result<(), OpenError> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let mut start = Vec::new();
    match File::open(path) {
        Ok(file) => {
            file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(|error| OpenError::from_io(path, &error))?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::from_io(path, &error)),
    };
    if start.is_empty() || start == MAGIC {
        return Ok(());
    }
    Err(OpenError::Corrupt { path: path.to_owned(), reason: "it does not begin as a SQLite file does".to_owned() })
}

fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(())
}

fn table_names(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?.query_map([], |row| row.get(0))?.collect()
}

/// In one transaction, so that a crash leaves either a store or an empty file, which counts as absent.
fn create(conn: &mut Connection) -> rusqlite::Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(VERSION_1)?;
    for (_, step) in STEPS {
        tx.execute_batch(step)?;
    }
    tx.execute("INSERT INTO meta (schema_version) VALUES (?1)", [SCHEMA_VERSION])?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.commit()
}

/// In one transaction, so that a crash leaves the store as it was.
fn upgrade(conn: &mut Connection, found: i64) -> rusqlite::Result<()> {
    if found >= SCHEMA_VERSION {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (_, step) in STEPS.iter().filter(|(version, _)| *version > found) {
        tx.execute_batch(step)?;
    }
    tx.execute("UPDATE meta SET schema_version = ?1", [SCHEMA_VERSION])?;
    tx.commit()
}

/// Answers the schema version. Only what is cheap whatever the file's size. SQLite itself compares the page count in the header with
/// the file's size, and so finds a file that was cut short.
fn check(path: &Path, conn: &Connection, tables: &[String]) -> Result<i64, OpenError> {
    let corrupt = |reason: String| OpenError::Corrupt { path: path.to_owned(), reason };
    let has = |table: &str| tables.iter().any(|name| name == table);
    if !has("meta") {
        return Err(corrupt("it has no schema version".to_owned()));
    }
    let found: i64 =
        conn.query_row("SELECT schema_version FROM meta", [], |row| row.get(0)).map_err(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => corrupt("it has no schema version".to_owned()),
            error => OpenError::from_sqlite(path, &error),
        })?;
    if found > SCHEMA_VERSION {
        return Err(OpenError::NewerSchema { path: path.to_owned(), found, supported: SCHEMA_VERSION });
    }
    if found < 1 {
        return Err(corrupt(format!("its schema version is {found}, which no Runwire ever wrote")));
    }
    match TABLES.iter().find(|(since, table)| *since <= found && !has(table)) {
        Some((_, missing)) => Err(corrupt(format!("it has no table {missing}"))),
        None => Ok(found),
    }
}

fn limit(conn: &Connection, max_bytes: u64) -> rusqlite::Result<()> {
    let page_size: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let max_bytes = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    // 4294967294 is SQLite's own limit; below the file's present size SQLite takes that size instead.
    let pages = (max_bytes / page_size.max(1)).clamp(1, 4_294_967_294);
    conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
}
