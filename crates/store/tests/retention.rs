//! Retention: whole runs that have ended go, their loss is told (G7), and nothing else is touched.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fixture::{Fixture, end, frames, new_run, open, open_with, own, write};
use runwire_store::{
    AddExchangeError, Append, CreateError, ExchangeRecord, Inspection, Keep, NewPayload, NewRun, ReadError, Removable,
    Retention, RunFilter, RunUpdate, Store, StoreOptions, TailError, TailEvents, TailItem, Tombstone,
};
use rusqlite::Connection;
use serde_json::json;

const NOW: i64 = 1_000_000;

/// A run of this agent that ended at this time.
async fn ended(store: &Store, run_id: &str, agent_id: &str, at: i64) {
    let new = NewRun { agent_id: agent_id.to_owned(), ..new_run(run_id) };
    store.create_run(new).await.unwrap();
    let mut appender = store.take_ownership(run_id).await.unwrap();
    let update = RunUpdate { status: Some("completed".into()), ended_at: Some(at), ..RunUpdate::default() };
    write(&mut appender, Append { update: Some(update), ..frames(1..=3) }).await;
}

async fn found(store: &Store, retention: &Retention) -> Vec<String> {
    let which = Removable::NotKept { retention: retention.clone(), now: NOW };
    let found = store.removable(which, 100).await.unwrap();
    assert_eq!(found.count, found.runs.len() as u64);
    found.runs.into_iter().map(|run| run.run_id).collect()
}

fn keep(keep: Keep) -> Retention {
    Retention { default: keep, ..Retention::default() }
}

async fn remove(store: &Store, run_ids: &[&str]) -> u64 {
    let ids: Vec<String> = run_ids.iter().map(|id| (*id).to_owned()).collect();
    store.remove_runs(&ids, NOW).await.unwrap()
}

/// Closes the store and looks at what is in the file.
fn inspect(f: &Fixture) -> Connection {
    f.store.close();
    let inspection = Inspection::open(&f.path).unwrap();
    assert_eq!(inspection.file_faults().unwrap(), []);
    assert_eq!(inspection.reference_faults().unwrap(), []);
    drop(inspection);
    Connection::open(&f.path).unwrap()
}

fn count(conn: &Connection, table: &str) -> i64 {
    conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn the_default_keeps_everything() {
    let f = open();
    ended(&f.store, "old", "a", 0).await;
    assert_eq!(found(&f.store, &Retention::default()).await, Vec::<String>::new());
}

#[tokio::test]
async fn runs_are_kept_by_age_by_number_and_by_bytes_the_newest_first() {
    let f = open();
    for (run_id, at) in [("1", 100_000), ("2", 400_000), ("3", 600_000), ("4", 900_000)] {
        ended(&f.store, run_id, "a", at).await;
    }
    let all = f.store.removable(Removable::EndedBefore { time: NOW, agent_id: None }, 100).await.unwrap();
    let each = all.runs[0].bytes;
    assert_eq!(all.bytes, 4 * each);
    assert!(each > 3 * 18, "bodies and the input: {each}");
    let by = [
        (Keep { max_age: Some(Duration::from_secs(500)), ..Keep::default() }, vec!["1", "2"]),
        (Keep { max_age: Some(Duration::from_secs(900)), ..Keep::default() }, vec![]),
        (Keep { max_runs: Some(3), ..Keep::default() }, vec!["1"]),
        (Keep { max_runs: Some(0), ..Keep::default() }, vec!["1", "2", "3", "4"]),
        (Keep { max_bytes: Some(2 * each), ..Keep::default() }, vec!["1", "2"]),
        (Keep { max_bytes: Some(2 * each - 1), ..Keep::default() }, vec!["1", "2", "3"]),
        (
            Keep { max_runs: Some(3), max_bytes: Some(2 * each), max_age: Some(Duration::from_secs(150)) },
            vec!["1", "2", "3"],
        ),
    ];
    for (limits, gone) in by {
        assert_eq!(found(&f.store, &keep(limits.clone())).await, gone, "{limits:?}");
    }
}

#[tokio::test]
async fn each_agent_has_its_own_limits_and_its_own_table_in_place_of_the_default() {
    let f = open();
    for agent in ["a", "b", "c"] {
        for n in 1..=3 {
            ended(&f.store, &format!("{agent}{n}"), agent, n).await;
        }
    }
    let own = BTreeMap::from([
        ("b".to_owned(), Keep { max_runs: Some(1), ..Keep::default() }),
        ("c".to_owned(), Keep::default()),
    ]);
    let retention = Retention { agents: own, ..keep(Keep { max_runs: Some(2), ..Keep::default() }) };
    assert_eq!(found(&f.store, &retention).await, ["a1", "b1", "b2"]);
    let of_one = Removable::EndedBefore { time: 3, agent_id: Some("a".to_owned()) };
    let of_one = f.store.removable(of_one, 1).await.unwrap();
    assert_eq!((of_one.count, of_one.runs.len(), &*of_one.runs[0].run_id), (2, 1, "a1"));
}

#[tokio::test]
async fn a_run_that_has_not_ended_is_never_removed_whatever_its_status() {
    let f = open();
    let mut appenders = Vec::new();
    for status in ["queued", "running", "suspended", "retrying", "cancelling"] {
        let mut appender = own(&f.store, status).await;
        let update = Some(RunUpdate { status: Some(status.to_owned()), ..RunUpdate::default() });
        write(&mut appender, Append { update, ..frames(1..=2) }).await;
        appenders.push(appender);
        assert_eq!(remove(&f.store, &[status]).await, 0, "{status}");
    }
    let none = keep(Keep { max_runs: Some(0), max_bytes: Some(0), max_age: Some(Duration::ZERO) });
    assert_eq!(found(&f.store, &none).await, Vec::<String>::new());
    for mut appender in appenders {
        write(&mut appender, end(3..=3)).await;
    }
}

#[tokio::test]
async fn g7_a_removed_run_is_told_to_every_reader_and_is_in_no_list() {
    let f = open();
    ended(&f.store, "r", "a", 10).await;
    ended(&f.store, "other", "a", 20).await;
    assert_eq!(remove(&f.store, &["r", "unknown"]).await, 1);
    assert_eq!(remove(&f.store, &["r"]).await, 0, "once");
    let tombstone =
        Tombstone { run_id: "r".into(), session_id: "session-of-r".into(), principal: None, head: 3, removed_at: NOW };
    assert_eq!(f.store.tombstone("r").await.unwrap(), Some(tombstone.clone()));
    assert_eq!(f.store.tombstone("other").await.unwrap(), None);
    for after in [0, 2, 3] {
        assert_eq!(f.store.read("r", after, 10).await.unwrap_err(), ReadError::Gone { oldest: 4 });
        assert_eq!(f.store.tail("r", after).await.unwrap_err(), TailError::Gone { oldest: 4 });
    }
    assert_eq!(f.store.run("r").await.unwrap(), None);
    assert_eq!(f.store.input("r").await.unwrap(), None);
    let listed = f.store.runs(RunFilter::default()).await.unwrap();
    assert_eq!(listed.iter().map(|run| &*run.run_id).collect::<Vec<_>>(), ["other"]);
    assert_eq!(f.store.session("session-of-r").await.unwrap().unwrap().runs, 0);

    // What asked for it is never run again.
    let boxed = Box::new(tombstone);
    let again = f.store.create_run(NewRun { run_id: "new".into(), ..new_run("r") }).await;
    assert_eq!(again.unwrap_err(), CreateError::Removed(boxed.clone()));
    let found = f.store.run_by_exchange("session-of-r", "exchange-of-r").await;
    assert_eq!(found.unwrap_err(), ReadError::Removed(boxed.clone()));
    let exchange = ExchangeRecord {
        session_id: "session-of-r".into(),
        exchange_id: "exchange-of-r".into(),
        input_digest: "digest".into(),
    };
    let added = f.store.add_exchange("other", exchange).await;
    assert_eq!(added.unwrap_err(), AddExchangeError::Removed(boxed));
}

#[tokio::test]
async fn nothing_of_what_a_removed_run_said_is_left_and_other_runs_are_whole() {
    let f = open();
    let secret = json!({ "secret": "hunter2" });
    let asked = json!({ "messages": [{ "role": "user", "content": "hunter2" }] });
    for (run_id, head) in [("packed", 5000_u64), ("rows", 100), ("kept", 2000)] {
        let new = NewRun { metadata: secret.clone(), input: asked.clone(), ..new_run(run_id) };
        f.store.create_run(new).await.unwrap();
        let mut appender = f.store.take_ownership(run_id).await.unwrap();
        let payload = |n: u64| NewPayload {
            segment_id: format!("seg_{n}"),
            content_type: "text/plain".into(),
            bytes: Bytes::from_static(b"hunter2"),
        };
        let payloads = (0..5).map(payload).collect();
        write(&mut appender, Append { payloads, ..frames(1..=head - 1) }).await;
        let failure = RunUpdate { failure: Some(secret.clone()), usage: Some(secret.clone()), ..RunUpdate::default() };
        let update = RunUpdate { ended_at: Some(1), ..failure };
        write(&mut appender, Append { update: Some(update), ..frames(head..=head) }).await;
    }
    f.store.tidied().await;
    assert_eq!(remove(&f.store, &["packed", "rows"]).await, 2);
    f.store.tidied().await;
    let raw = inspect(&f);
    for (table, rows) in
        [("runs", 3), ("inputs", 1), ("prompts", 1), ("payloads", 5), ("pages", 2), ("frames", 0), ("upkeep", 0)]
    {
        assert_eq!(count(&raw, table), rows, "{table}");
    }
    let said = "SELECT count(*) FROM runs WHERE removed_at IS NOT NULL AND
        (failure IS NOT NULL OR usage IS NOT NULL OR cost IS NOT NULL OR started_at IS NOT NULL OR lane <> ''
         OR bytes <> 0 OR parent_run_id IS NOT NULL OR agent_revision_id IS NOT NULL OR trigger_kind <> '')";
    assert_eq!(raw.query_row(said, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    let digests = "SELECT count(*) FROM exchanges WHERE input_digest <> ''";
    assert_eq!(raw.query_row(digests, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    drop(raw);
    let store = Store::open(&f.path, StoreOptions::default()).unwrap();
    let mut tail = store.tail("kept", 0).await.unwrap();
    assert_eq!(fixture::read_to_end(&mut tail).await.len(), 2000);
}

#[tokio::test]
async fn g7_a_reader_in_the_middle_of_a_run_that_is_removed_is_cut_and_never_shown_a_gap() {
    let f = open_with(StoreOptions { tail_frames: 4, read_page_frames: 100, ..StoreOptions::default() });
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=4999)).await;
    write(&mut appender, end(5000..=5000)).await;
    let mut by_frames = f.store.tail("r", 0).await.unwrap();
    let mut by_events = f.store.tail("r", 0).await.unwrap();
    by_frames.next().await.unwrap();
    by_events.next_events().await.unwrap();
    assert_eq!(remove(&f.store, &["r"]).await, 1);
    let cut = loop {
        let cursor = by_frames.cursor();
        match by_frames.next().await {
            Ok(TailItem::Frames(entries)) => assert_eq!(entries[0].seq(), cursor + 1),
            Ok(TailItem::Ended) => panic!("it has not read everything"),
            Err(error) => break error,
        }
    };
    assert_eq!(cut, ReadError::Gone { oldest: 5001 });
    let cut = loop {
        let cursor = by_events.cursor();
        match by_events.next_events().await {
            Ok(TailEvents::Events(events)) => assert!(events.starts_with(format!("id: {}\n", cursor + 1).as_bytes())),
            Ok(TailEvents::Ended) => panic!("it has not read everything"),
            Err(error) => break error,
        }
    };
    assert_eq!(cut, ReadError::Gone { oldest: 5001 });
    assert_eq!(f.store.tail("r", by_events.cursor()).await.unwrap_err(), TailError::Gone { oldest: 5001 });
}

#[tokio::test]
async fn tombstones_go_after_a_time_and_with_the_last_of_them_its_session() {
    let f = open();
    for n in 0..200 {
        ended(&f.store, &format!("r{n}"), "a", 1).await;
    }
    let second = NewRun { session_id: "session-of-r0".into(), ..new_run("second") };
    f.store.create_run(second).await.unwrap();
    let ids: Vec<String> = (0..199).map(|n| format!("r{n}")).collect();
    assert_eq!(f.store.remove_runs(&ids, NOW).await.unwrap(), 199);
    f.store.tidied().await;
    assert_eq!(f.store.forget_tombstones(NOW).await.unwrap(), 0);
    assert_eq!(f.store.forget_tombstones(NOW + 1).await.unwrap(), 199);
    assert_eq!(f.store.tombstone("r7").await.unwrap(), None);
    assert_eq!(f.store.tail("r7", 0).await.unwrap_err(), TailError::UnknownRun);
    assert_eq!(f.store.session("session-of-r7").await.unwrap(), None);
    assert_eq!(f.store.session("session-of-r0").await.unwrap().unwrap().runs, 1);
    // Its ids are as if they had never been.
    ended(&f.store, "r7", "a", 1).await;
    let raw = inspect(&f);
    for (table, rows) in [("runs", 3), ("exchanges", 3), ("sessions", 3), ("inputs", 3)] {
        assert_eq!(count(&raw, table), rows, "{table}");
    }
}

#[tokio::test]
async fn room_that_removed_runs_had_is_used_again() {
    let f = open();
    let size = || std::fs::metadata(&f.path).unwrap().len();
    let mut sizes = Vec::new();
    for round in 0..4 {
        let run_id = format!("r{round}");
        let mut appender = own(&f.store, &run_id).await;
        write(&mut appender, frames(1..=19_999)).await;
        write(&mut appender, end(20_000..=20_000)).await;
        f.store.tidied().await;
        assert_eq!(remove(&f.store, &[&run_id]).await, 1);
        f.store.tidied().await;
        Connection::open(&f.path).unwrap().query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).unwrap();
        sizes.push(size());
    }
    assert!(sizes[3] < sizes[0] + sizes[0] / 4, "the file does not grow by what was removed: {sizes:?}");
}

/// A run that was removed is no run of its session any more, also before all of it is gone from the file; and the runs
/// behind it are found from it as long as its trace is there.
#[tokio::test]
async fn a_removed_run_is_none_of_its_sessions_runs() {
    let f = open();
    for run_id in ["one", "two"] {
        let run = NewRun { session_id: "s".into(), ..new_run(run_id) };
        f.store.create_run(run).await.unwrap();
        let mut appender = f.store.take_ownership(run_id).await.unwrap();
        let update = RunUpdate { status: Some("completed".into()), ended_at: Some(1), ..RunUpdate::default() };
        write(&mut appender, Append { update: Some(update), ..frames(1..=3) }).await;
    }
    assert_eq!(remove(&f.store, &["one"]).await, 1);
    let runs = async |after| {
        let records = f.store.session_runs("s", after).await.unwrap();
        records.into_iter().map(|record| record.run_id).collect::<Vec<_>>()
    };
    assert_eq!(runs(None).await, ["two"]);
    assert_eq!(runs(Some("one")).await, ["two"]);
}
