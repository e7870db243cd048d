//! A store whose files are cut short, deleted or replaced under it, by somebody who does not know that it is open; and one
//! that another program locks. Nothing that was not written is ever read, and nothing is written that would be lost.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use fixture::{Fixture, body, end, frames, new_run, open, own, write};
use runwire_store::{
    Append, AppendError, CreateError, Created, Inspection, NewFrame, ReadError, StorageFailure, Store, TailItem,
};
use rusqlite::Connection;

const PATIENCE: Duration = Duration::from_secs(60);

/// Large enough for pages of its own, each filled with the frame's number.
fn large(seq: u64) -> Bytes {
    Bytes::from(format!(r#"{{"seq":{seq},"data":"{}"}}"#, format!("{seq:04} ").repeat(1600)))
}

const LARGE: u64 = 250;

/// A run whose frames are in the file itself, and not in its write-ahead log or in memory.
async fn in_the_file(f: &Fixture, run_id: &str) {
    let mut appender = own(&f.store, run_id).await;
    for seq in 1..=LARGE {
        write(&mut appender, Append { frames: vec![NewFrame { seq, body: large(seq) }], ..Append::default() }).await;
    }
    write(&mut appender, end(LARGE + 1..=LARGE + 1)).await;
    drop(appender);
    f.store.tidied().await;
    checkpoint(&f.path);
}

fn checkpoint(path: &Path) {
    let other = Connection::open(path).unwrap();
    let left: i64 = other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "the checkpoint was made");
    // Closing it would end the file's write-ahead log if it were the last connection, which it is not.
}

fn wal(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

fn cut(path: &Path, numerator: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length * numerator / 8).unwrap();
}

/// Reads a run as far as it goes. Every frame that comes is the one that was written.
async fn as_far_as_it_goes(store: &Store, run_id: &str) -> Result<u64, String> {
    let mut tail = store.tail(run_id, 0).await.map_err(|error| error.to_string())?;
    let mut seen = 0;
    loop {
        match tail.next().await {
            Ok(TailItem::Frames(entries)) => {
                for entry in entries {
                    seen += 1;
                    let right = if seen <= LARGE { large(seen) } else { body(seen) };
                    assert!(entry.seq() == seen && entry.body() == right, "frame {seen} is {entry:?}");
                }
            }
            Ok(TailItem::Ended) => return Ok(seen),
            Err(error @ (ReadError::Storage(_) | ReadError::Missing { .. })) => return Err(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Asks until the answer is no longer one from before.
async fn until_ready(store: &Store) {
    let asking = async {
        while store.ready().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it is ready again");
}

fn is_changed(failure: &StorageFailure, words: &str) -> bool {
    matches!(failure, StorageFailure::Changed { what, .. } if what.contains(words))
}

#[tokio::test]
async fn of_a_file_that_is_cut_short_no_wrong_byte_is_read_and_nothing_more_is_written() {
    for eighths in [0, 1, 3, 6, 7] {
        let f = open();
        in_the_file(&f, "r").await;
        let mut live = own(&f.store, "live").await;
        write(&mut live, frames(1..=3)).await;
        assert_eq!(f.store.ready().await, Ok(()));
        cut(&f.path, eighths);
        let read = as_far_as_it_goes(&f.store, "r").await.unwrap_err();
        assert!(read.contains("its file was cut short"), "{eighths}: {read}");
        live.enqueue(frames(4..=4)).unwrap();
        let lost = live.progress().flush().await.unwrap_err();
        assert!(
            matches!(&lost, AppendError::Storage(f) if is_changed(f, "its file was cut short")),
            "{eighths}: {lost}"
        );
        assert!(f.store.health().is_err_and(|failure| is_changed(&failure, "its file was cut short")));
        f.store.close();
        let found = match Inspection::open(&f.path) {
            Err(error) => error.to_string(),
            Ok(inspection) => format!("{:?}", inspection.file_faults().unwrap()),
        };
        assert_ne!(found, "[]", "{eighths}: whoever looks afterwards is told");
    }
}

#[tokio::test]
async fn zeros_that_stand_where_a_file_was_cut_short_are_never_read_as_frames() {
    const PAGE_BYTES: u64 = 4096;
    let f = open();
    in_the_file(&f, "r").await;
    f.store.close();
    let (mut refused, mut ends_in_zeros) = (0, 0);
    // A value that is larger than a page goes over several, and SQLite misses none of them but the last.
    for pages in 1..60 {
        let g = open();
        g.store.close();
        fs::copy(&f.path, &g.path).unwrap();
        let store = Store::open(&g.path, Default::default()).unwrap();
        let file = OpenOptions::new().write(true).open(&g.path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - pages * PAGE_BYTES).unwrap();
        file.set_len(length).unwrap();
        // Nobody can see any more that it was cut.
        match as_far_as_it_goes(&store, "r").await {
            Ok(seen) => assert_eq!(seen, LARGE + 1, "{pages}: what is missing is no frame's"),
            Err(why) => {
                refused += 1;
                ends_in_zeros += u32::from(why.contains("is missing from the run's log"));
            }
        }
    }
    assert!(refused > 0 && ends_in_zeros > 0, "{refused} refused, {ends_in_zeros} of them by their end");
}

#[tokio::test]
async fn a_file_that_is_moved_away_takes_nothing_more_until_it_is_back() {
    let f = open();
    in_the_file(&f, "r").await;
    let mut live = own(&f.store, "live").await;
    write(&mut live, frames(1..=3)).await;
    let away = f.dir.path().join("away.db");
    for step in ["moved", "replaced"] {
        fs::rename(&f.path, &away).unwrap();
        let words = if step == "moved" {
            "its file was deleted or moved"
        } else {
            // A store like any other, but not this one.
            Store::open(&f.dir.path().join("other.db"), Default::default()).unwrap().close();
            fs::rename(f.dir.path().join("other.db"), &f.path).unwrap();
            "its file was replaced by another file"
        };
        let head = live.next_seq();
        live.enqueue(frames(head..=head)).unwrap();
        let lost = live.progress().flush().await.unwrap_err();
        assert!(matches!(&lost, AppendError::Storage(f) if is_changed(f, words)), "{step}: {lost}");
        assert!(f.store.ready().await.is_err_and(|failure| is_changed(&failure, words)), "{step}");
        // What is in it is still right, wherever it is called.
        assert_eq!(as_far_as_it_goes(&f.store, "r").await, Ok(LARGE + 1), "{step}");
        fs::rename(&away, &f.path).unwrap();
        live = f.store.take_ownership("live").await.unwrap();
        assert_eq!(live.next_seq(), head, "{step}: what was refused is not there");
        write(&mut live, frames(head..=head)).await;
        until_ready(&f.store).await;
    }
    f.store.close();
    assert!(Inspection::open(&f.path).unwrap().file_faults().unwrap().is_empty());
}

#[tokio::test]
async fn a_write_ahead_log_that_is_deleted_or_cut_short_takes_nothing_more() {
    for words in ["was deleted or moved", "was cut short"] {
        let f = open();
        let mut live = own(&f.store, "live").await;
        write(&mut live, frames(1..=3)).await;
        match words {
            "was cut short" => cut(&wal(&f.path), 4),
            _ => fs::remove_file(wal(&f.path)).unwrap(),
        }
        live.enqueue(frames(4..=4)).unwrap();
        let lost = live.progress().flush().await.unwrap_err();
        assert!(matches!(&lost, AppendError::Storage(f) if is_changed(f, "its write-ahead log")), "{words}: {lost}");
        assert!(f.store.ready().await.is_err_and(|failure| is_changed(&failure, words)), "{words}");
        // It is there as it was, or it is no answer.
        if let Ok(entries) = f.store.read("live", 0, 10).await {
            assert!(entries.iter().zip(1..).all(|(entry, seq)| entry.body() == body(seq)), "{words}: {entries:?}");
        }
    }
}

#[tokio::test]
async fn a_store_that_somebody_locks_is_said_to_take_nothing_and_what_is_given_up_is_never_written() {
    let f = open();
    let mut live = own(&f.store, "live").await;
    let other = Connection::open(&f.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(f.store.ready().await, Ok(()), "nobody has waited for long");
    live.enqueue(frames(1..=1)).unwrap();
    let refused = f.store.create_run(new_run("given-up")).await.unwrap_err();
    assert!(matches!(refused, CreateError::Storage(StorageFailure::Stuck { .. })), "{refused}");
    assert!(refused.to_string().contains("Another program may have locked it"), "{refused}");
    assert!(f.store.ready().await.is_err_and(|failure| matches!(failure, StorageFailure::Stuck { .. })));
    other.execute_batch("COMMIT").unwrap();
    // What a run has said waited, and is kept.
    live.progress().flush().await.unwrap();
    assert_eq!(f.store.run("given-up").await, Ok(None));
    assert!(matches!(f.store.create_run(new_run("given-up")).await, Ok(Created::New(_))));
    until_ready(&f.store).await;
}
