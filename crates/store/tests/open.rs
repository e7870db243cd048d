//! Opening and closing: what is kept, what is refused, and that a refused file is left alone.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::path::Path;

use fixture::{end, frames, new_run, open, own, read_to_end, write};
use runwire_store::{
    AppendError, CreateError, OpenError, ReadError, RunFilter, StorageFailure, Store, StoreOptions, Sync,
};

fn refused(path: &Path) -> OpenError {
    let before = std::fs::read(path).ok();
    let error = Store::open(path, StoreOptions::default()).unwrap_err();
    assert_eq!(std::fs::read(path).ok(), before, "a refused file is left alone");
    let sentence = error.to_string();
    assert!(sentence.contains(&path.display().to_string()), "{sentence}");
    error
}

#[tokio::test]
async fn everything_is_there_after_the_store_was_dropped_and_opened_again() {
    let f = open();
    let mut finished = own(&f.store, "finished").await;
    write(&mut finished, end(1..=50)).await;
    let mut halfway = own(&f.store, "halfway").await;
    write(&mut halfway, frames(1..=7)).await;
    let before = f.store.runs(RunFilter::default()).await.unwrap();
    let (dir, path) = (f.dir, f.path);
    drop(f.store);
    // The last clone is gone, so what is left of it is closed, though it still exists.
    assert_eq!(halfway.enqueue(frames(8..=8)), Err(AppendError::Storage(StorageFailure::Closed)));
    assert!(!path.with_extension("db-wal").exists());

    let store = Store::open(&path, StoreOptions { sync: Sync::Full, ..StoreOptions::default() }).unwrap();
    assert_eq!(store.runs(RunFilter::default()).await.unwrap(), before);
    let mut tail = store.tail("finished", 0).await.unwrap();
    assert_eq!(read_to_end(&mut tail).await, (1..=50).collect::<Vec<_>>());
    let unfinished = store.unfinished_runs().await.unwrap();
    assert_eq!(unfinished.len(), 1);
    assert_eq!(unfinished[0].run_id, "halfway");
    let mut taken = store.take_ownership("halfway").await.unwrap();
    assert_eq!(taken.next_seq(), 8);
    write(&mut taken, end(8..=8)).await;
    drop(store);
    drop(dir);
}

#[tokio::test]
async fn closing_writes_what_was_enqueued_and_refuses_the_rest() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    for seq in 1..=200 {
        appender.enqueue(frames(seq..=seq)).unwrap();
    }
    f.store.close();
    f.store.close();
    assert_eq!(appender.progress().durable(), 200);
    let closed = StorageFailure::Closed;
    assert_eq!(f.store.health(), Err(closed.clone()));
    assert_eq!(appender.enqueue(frames(201..=201)), Err(AppendError::Storage(closed.clone())));
    assert_eq!(f.store.create_run(new_run("x")).await.unwrap_err(), CreateError::Storage(closed.clone()));
    assert_eq!(f.store.run("r").await.unwrap_err(), ReadError::Storage(closed));
    let again = Store::open(&f.path, StoreOptions::default()).unwrap();
    assert_eq!(again.run("r").await.unwrap().unwrap().head, 200);
}

#[test]
fn a_store_that_is_open_elsewhere_is_refused_until_it_is_closed() {
    let f = open();
    let error = refused(&f.path);
    assert!(matches!(error, OpenError::LockedByAnother { .. }), "{error}");
    let clone = f.store.clone();
    drop(f.store);
    refused(&f.path);
    drop(clone);
    Store::open(&f.path, StoreOptions::default()).unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_to_an_open_store_is_that_store_and_refused() {
    use std::os::unix::fs::symlink;
    let f = open();
    let real = f.path.file_name().unwrap();
    let (link, of_link, absolute) = (f.dir.path().join("link"), f.dir.path().join("of-link"), f.dir.path().join("abs"));
    symlink(real, &link).unwrap();
    symlink("link", &of_link).unwrap();
    symlink(&f.path, &absolute).unwrap();
    for name in [&link, &of_link, &absolute] {
        let error = refused(name);
        let OpenError::LockedByAnother { lock, .. } = &error else { panic!("{error}") };
        assert_eq!(lock.canonicalize().unwrap(), f.dir.path().canonicalize().unwrap().join("runwire.db.lock"));
    }
    f.store.close();

    // The other way round too, and also where the store is made through the link.
    let (link, real) = (f.dir.path().join("new-link"), f.dir.path().join("new.db"));
    symlink("new.db", &link).unwrap();
    let _store = Store::open(&link, StoreOptions::default()).unwrap();
    let error = refused(&real);
    assert!(matches!(error, OpenError::LockedByAnother { .. }), "{error}");
}

#[test]
fn a_store_of_a_newer_version_is_refused_with_both_versions() {
    let f = open();
    f.store.close();
    rusqlite::Connection::open(&f.path).unwrap().execute("UPDATE meta SET schema_version = 999", []).unwrap();
    let error = refused(&f.path);
    assert!(matches!(error, OpenError::NewerSchema { found: 999, supported, .. } if supported < 999), "{error}");
}

#[test]
fn another_programs_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (name, sql) in [("tables.db", "CREATE TABLE runs (id)"), ("marked.db", "PRAGMA application_id = 1")] {
        let path = dir.path().join(name);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = refused(&path);
        assert!(matches!(error, OpenError::NotAStore { .. }), "{error}");
    }
}

#[test]
fn a_store_without_its_tables_is_corrupt() {
    for damage in ["DROP TABLE frames", "DROP TABLE meta", "DELETE FROM meta", "UPDATE meta SET schema_version = 0"] {
        let f = open();
        f.store.close();
        rusqlite::Connection::open(&f.path).unwrap().execute_batch(damage).unwrap();
        let error = refused(&f.path);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{damage}: {error}");
    }
}

#[tokio::test]
async fn random_bytes_and_a_file_that_was_cut_short_are_corrupt() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=2_000)).await;
    f.store.close();
    let whole = std::fs::read(&f.path).unwrap();
    assert!(whole.len() > 100_000);
    let noise: Vec<u8> = (0..9_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let files: [(&str, &[u8]); 6] = [
        ("noise", &noise),
        ("text", b"# Not a database\n"),
        ("one-byte", b"x"),
        ("half", &whole[..whole.len() / 2]),
        ("last-page-cut", &whole[..whole.len() - 4096]),
        ("header-cut", &whole[..50]),
    ];
    for (name, bytes) in files {
        let path = f.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = refused(&path);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{name}: {error}");
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.db");
    std::fs::write(&path, b"").unwrap();
    Store::open(&path, StoreOptions::default()).unwrap();
    Store::open(&path, StoreOptions::default()).unwrap();
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), b"").unwrap();
    for path in ["file/runwire.db", "missing/runwire.db", "."] {
        let error = refused(&dir.path().join(path));
        assert!(matches!(error, OpenError::NotWritable { .. }), "{path}: {error}");
    }
}
