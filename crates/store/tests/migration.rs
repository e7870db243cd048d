//! A store that the first version of the schema wrote opens, with everything in it.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::path::Path;

use fixture::{body, end, new_run, read_to_end, write};
use runwire_store::{Created, Inspection, OpenError, Removable, RequestKey, RunFilter, Store, StoreOptions};
use rusqlite::Connection;

/// The schema of version 1, as it was released. Not shared with the crate on purpose: it must never change.
const VERSION_1: &str = "
CREATE TABLE meta (schema_version INTEGER NOT NULL) STRICT;
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, principal TEXT, created_at INTEGER NOT NULL,
    last_run_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE runs (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, owner_epoch INTEGER NOT NULL DEFAULT 0,
    head INTEGER NOT NULL DEFAULT 0, oldest INTEGER NOT NULL DEFAULT 1, status TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER,
    agent_id TEXT NOT NULL, session_id TEXT NOT NULL, lane TEXT NOT NULL, principal TEXT, trigger_kind TEXT NOT NULL,
    agent_revision_id TEXT, parent_run_id TEXT, usage TEXT, cost TEXT, failure TEXT) STRICT;
CREATE INDEX runs_newest ON runs (created_at, run_id);
CREATE INDEX runs_by_agent ON runs (agent_id, created_at, run_id);
CREATE INDEX runs_by_session ON runs (session_id, created_at, run_id);
CREATE INDEX runs_by_principal ON runs (principal, created_at, run_id);
CREATE INDEX runs_by_status ON runs (status, created_at, run_id);
CREATE INDEX runs_unfinished ON runs (created_at, run_id) WHERE ended_at IS NULL;
CREATE TABLE inputs (run INTEGER PRIMARY KEY, metadata TEXT NOT NULL, input TEXT NOT NULL) STRICT;
CREATE TABLE exchanges (session_id TEXT NOT NULL, exchange_id TEXT NOT NULL, run INTEGER NOT NULL,
    input_digest TEXT NOT NULL, PRIMARY KEY (session_id, exchange_id)) STRICT, WITHOUT ROWID;
CREATE TABLE frames (run INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run, seq))
    STRICT, WITHOUT ROWID;
CREATE TABLE payloads (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, segment_id TEXT NOT NULL,
    content_type TEXT NOT NULL, bytes BLOB NOT NULL, UNIQUE (run, segment_id)) STRICT;
INSERT INTO meta VALUES (1);
PRAGMA application_id = 1381460338;
PRAGMA journal_mode = WAL;
";

fn version_1(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(VERSION_1).unwrap();
    for (id, run_id, head, ended_at) in [(1, "long", 3000, Some(7)), (2, "live", 300, None), (3, "short", 2, Some(9))] {
        conn.execute(
            "INSERT INTO runs (id, run_id, head, status, created_at, ended_at, agent_id, session_id, lane, trigger_kind)
             VALUES (?1, ?2, ?3, 'running', 5, ?4, 'demo', 's', 'default', 'api')",
            (id, run_id, head, ended_at),
        )
        .unwrap();
        conn.execute("INSERT INTO inputs VALUES (?1, '{}', '{\"a\":\"é\"}')", [id]).unwrap();
        conn.execute("INSERT INTO exchanges VALUES ('s', ?1, ?2, 'd')", (run_id, id)).unwrap();
        for seq in 1..=head {
            conn.execute("INSERT INTO frames VALUES (?1, ?2, ?3)", (id, seq, &body(seq as u64)[..])).unwrap();
        }
    }
    conn.execute("INSERT INTO sessions VALUES ('s', NULL, 5, 5)", []).unwrap();
    conn.execute("INSERT INTO payloads VALUES (1, 3, 'seg_1', 'text/plain', x'0102030405')", []).unwrap();
}

#[tokio::test]
async fn a_store_of_version_1_opens_and_goes_on_as_one_of_today() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    version_1(&path);
    let error = Inspection::open(&path).unwrap_err();
    assert!(matches!(error, OpenError::OlderSchema { found: 1, supported: 4, .. }), "{error}");

    let store = Store::open(&path, StoreOptions::default()).unwrap();
    for _ in 0..2 {
        // Before, while and after its rows are packed.
        let mut tail = store.tail("long", 0).await.unwrap();
        assert_eq!(read_to_end(&mut tail).await, (1..=3000).collect::<Vec<_>>());
        store.tidied().await;
    }
    let ended = store.removable(Removable::EndedBefore { time: 100, agent_id: None }, 10).await.unwrap();
    let bytes = |head: u64| (1..=head).map(|seq| body(seq).len() as u64).sum::<u64>() + r#"{"a":"é"}{}"#.len() as u64;
    let sizes: Vec<(&str, u64)> = ended.runs.iter().map(|run| (&*run.run_id, run.bytes)).collect();
    assert_eq!(sizes, [("long", bytes(3000)), ("short", bytes(2) + 5)]);
    let mut appender = store.take_ownership("live").await.unwrap();
    write(&mut appender, end(301..=301)).await;
    store.tidied().await;
    store.close();
    drop(store);

    let inspection = Inspection::open(&path).unwrap();
    assert_eq!(inspection.file_faults().unwrap(), []);
    assert_eq!(inspection.reference_faults().unwrap(), []);
    drop(inspection);
    let raw = Connection::open(&path).unwrap();
    let count = |sql: &str| raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT schema_version FROM meta"), 4);
    assert_eq!(count("SELECT count(*) FROM frames"), 2, "the two long ones are packed");
    // It is the same store that is made today, table by table and index by index.
    let made = dir.path().join("made.db");
    Store::open(&made, StoreOptions::default()).unwrap().close();
    let schema = |path: &Path| -> Vec<(String, String)> {
        let conn = Connection::open(path).unwrap();
        let sql =
            "SELECT name, replace(replace(coalesce(sql, ''), char(10), ''), ' ', '') FROM sqlite_schema ORDER BY name";
        let mut statement = conn.prepare(sql).unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(schema(&path), schema(&made));
}

#[tokio::test]
async fn what_runs_of_an_earlier_version_were_asked_can_be_searched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    version_1(&path);
    let inputs = [
        (
            "live",
            r#"{"messages":[{"role":"user","content":"first"},{"role":"user","content":"Where is it?"},{"role":"assistant"}]}"#,
        ),
        ("short", r#"{"messages":[{"role":"user","content":[{"type":"text","text":"Where else?"}]}, 7]}"#),
    ];
    let raw = Connection::open(&path).unwrap();
    for (run_id, input) in inputs {
        let changed = "UPDATE inputs SET input = ?2 WHERE run = (SELECT id FROM runs WHERE run_id = ?1)";
        raw.execute(changed, [run_id, input]).unwrap();
    }
    drop(raw);
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let asked = store.prompts(vec!["live".to_owned(), "short".to_owned(), "long".to_owned()]).await.unwrap();
    assert_eq!(asked, [Some("Where is it?".to_owned()), None, None]);
    let found = store.runs(RunFilter { prompt: Some("where IS".to_owned()), ..RunFilter::default() }).await.unwrap();
    assert_eq!(found.iter().map(|run| &*run.run_id).collect::<Vec<_>>(), ["live"]);
}

#[tokio::test]
async fn a_migration_that_stops_in_its_middle_leaves_the_store_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    version_1(&path);
    // Something of the second version is in the way of the second version, so that the step fails in its middle.
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE upkeep (x)").unwrap();
    assert!(matches!(Store::open(&path, StoreOptions::default()).unwrap_err(), OpenError::Io { .. }));
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("DROP TABLE upkeep").unwrap();
    drop(raw);
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    assert_eq!(store.read("live", 299, 10).await.unwrap().len(), 1);
}

/// The steps of the second version, as it was released, as far as they matter to what comes after it.
const VERSION_2: &str = "
ALTER TABLE runs ADD COLUMN removed_at INTEGER;
ALTER TABLE runs ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
CREATE TABLE pages (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    sse BLOB NOT NULL, UNIQUE (run, first)) STRICT;
CREATE TABLE upkeep (run INTEGER PRIMARY KEY) STRICT;
CREATE INDEX runs_kept ON runs (agent_id, ended_at, id) WHERE ended_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX runs_removed ON runs (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX exchanges_by_run ON exchanges (run);
UPDATE meta SET schema_version = 2;
";

#[tokio::test]
async fn the_suspended_runs_of_a_store_of_version_2_are_due_once_because_only_their_logs_know_when() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    version_1(&path);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(VERSION_2).unwrap();
    conn.execute("UPDATE runs SET status = 'suspended' WHERE run_id = 'live'", []).unwrap();
    drop(conn);

    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let due = |now| {
        let store = store.clone();
        async move { store.due(now, 10).await.unwrap().into_iter().map(|run| run.run_id).collect::<Vec<_>>() }
    };
    assert_eq!(due(1).await, ["live"], "and neither what runs nor what has ended");
    assert!(!store.put_off("live", 299, None).await.unwrap(), "somebody has written to it meanwhile");
    assert!(store.put_off("live", 300, Some(50)).await.unwrap());
    assert_eq!((due(49).await, due(50).await), (vec![], vec!["live".to_owned()]));
    assert!(store.put_off("live", 300, None).await.unwrap());
    assert_eq!(due(i64::MAX).await, Vec::<String>::new());
}

/// The step of the third version, as it was released.
const VERSION_3: &str = "
ALTER TABLE runs ADD COLUMN wakes_at INTEGER;
CREATE INDEX runs_waking ON runs (wakes_at, id) WHERE wakes_at IS NOT NULL;
UPDATE meta SET schema_version = 3;
";

#[tokio::test]
async fn a_store_of_version_3_remembers_keys_from_then_on_also_of_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    version_1(&path);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(VERSION_2).unwrap();
    conn.execute_batch(VERSION_3).unwrap();
    drop(conn);

    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let key = |key: &str| RequestKey {
        principal: None,
        key: key.to_owned(),
        request_digest: "asked".to_owned(),
        created_at: 5,
    };
    assert_eq!(store.run_by_key(None, "k").await.unwrap(), None);
    store.remember_key("live", "live", key("k")).await.unwrap();
    let made = store.create_keyed_run(new_run("made"), Some(key("l"))).await.unwrap();
    assert!(matches!(made, Created::New(_)));
    for (key, run_id) in [("k", "live"), ("l", "made")] {
        assert_eq!(store.run_by_key(None, key).await.unwrap().unwrap().record.run_id, run_id);
    }
}
