//! Following a run: no frame lost or shown twice, whenever and wherever a tail starts.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::time::Duration;

use bytes::Bytes;
use fixture::{end, frames, open, open_with, own, read_to_end, seqs, write};
use runwire_store::{Append, NewFrame, ReadError, RunUpdate, StorageFailure, StoreOptions, TailError, TailItem};

/// A small generator, so that a failure can be repeated.
fn pseudo_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

async fn hammer(options: StoreOptions) {
    const LAST: u64 = 2_000;
    let f = open_with(options);
    let mut appender = own(&f.store, "r").await;
    let progress = appender.progress();

    let mut readers = Vec::new();
    for n in 1..=50_u64 {
        let store = f.store.clone();
        let progress = progress.clone();
        readers.push(tokio::spawn(async move {
            let mut random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // A random moment, told by the log itself; the first few are there before the first frame.
            let moment = if n <= 5 { 0 } else { pseudo_random(&mut random) % LAST };
            progress.wait_durable(moment).await.unwrap();
            let after = pseudo_random(&mut random) % (moment + 1);
            let mut tail = store.tail("r", after).await.unwrap();
            assert_eq!(tail.cursor(), after);
            let mut seen = Vec::new();
            loop {
                if pseudo_random(&mut random).is_multiple_of(4) {
                    tokio::task::yield_now().await;
                }
                // Dropping the future at any moment must lose nothing.
                let patience = Duration::from_micros(pseudo_random(&mut random) % 300);
                match tokio::time::timeout(patience, tail.next()).await {
                    Err(_) => {}
                    Ok(item) => match item.unwrap() {
                        TailItem::Frames(entries) => seen.extend(seqs(&entries)),
                        TailItem::Ended => break,
                    },
                }
            }
            assert_eq!(seen, (after + 1..=LAST).collect::<Vec<_>>(), "from {after}");
        }));
    }
    let mut random = 88_172_645_463_325_252;
    let mut next = 1;
    while next < LAST {
        let last = (next + pseudo_random(&mut random) % 4).min(LAST - 1);
        appender.enqueue(frames(next..=last)).unwrap();
        next = last + 1;
        if pseudo_random(&mut random).is_multiple_of(3) {
            progress.wait_below(8, usize::MAX).await.unwrap();
        }
    }
    write(&mut appender, end(LAST..=LAST)).await;
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(f.store.live_runs(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g2_fifty_tails_that_start_anywhere_each_see_every_frame_exactly_once() {
    hammer(StoreOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g2_holds_too_when_the_ring_is_tiny_and_every_tail_keeps_falling_back_to_the_file() {
    hammer(StoreOptions { tail_frames: 3, read_page_frames: 7, ..StoreOptions::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g2_holds_too_without_any_ring() {
    hammer(StoreOptions { tail_frames: 0, tail_bytes: 0, ..StoreOptions::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g5_a_frame_that_a_tail_returns_is_already_in_the_file() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    let mut tail = f.store.tail("r", 0).await.unwrap();
    let path = f.path.clone();
    let reader = tokio::spawn(async move {
        let raw = rusqlite::Connection::open(path).unwrap();
        while let TailItem::Frames(entries) = tail.next().await.unwrap() {
            for entry in entries {
                let stored: Vec<u8> = raw
                    .query_row(
                        "SELECT body FROM frames WHERE run = 1 AND seq = ?1",
                        [i64::try_from(entry.seq()).unwrap()],
                        |row| row.get(0),
                    )
                    .unwrap();
                assert_eq!(entry.body(), stored);
            }
        }
        tail.cursor()
    });
    // Too few to be packed when the run has ended.
    for seq in 1..=200 {
        appender.enqueue(frames(seq..=seq)).unwrap();
        if seq % 7 == 0 {
            appender.progress().wait_durable(seq).await.unwrap();
        }
    }
    appender.enqueue(end(201..=201)).unwrap();
    assert_eq!(reader.await.unwrap(), 201);
}

#[tokio::test]
async fn g5_nothing_is_visible_before_the_commit() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    let mut tail = f.store.tail("r", 0).await.unwrap();
    let blocker = rusqlite::Connection::open(&f.path).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    appender.enqueue(frames(1..=1)).unwrap();
    let soon = Duration::from_millis(50);
    tokio::time::timeout(soon, tail.next()).await.unwrap_err();
    assert_eq!(appender.progress().durable(), 0);
    assert_eq!(tail.head(), 0);
    blocker.execute_batch("ROLLBACK").unwrap();
    assert!(matches!(tail.next().await.unwrap(), TailItem::Frames(found) if seqs(&found) == [1]));
}

#[tokio::test]
async fn g4_a_tail_starts_at_any_cursor_of_a_live_and_of_an_ended_run() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=10)).await;
    for after in 0..10 {
        let mut tail = f.store.tail("r", after).await.unwrap();
        let TailItem::Frames(entries) = tail.next().await.unwrap() else {
            panic!("it is live");
        };
        assert_eq!(seqs(&entries), (after + 1..=10).collect::<Vec<_>>());
    }
    write(&mut appender, end(11..=11)).await;
    for after in 0..=11 {
        let mut tail = f.store.tail("r", after).await.unwrap();
        let expected: Vec<u64> = (after + 1..=11).collect();
        assert_eq!(read_to_end(&mut tail).await, expected);
        // And again: the end stays the end.
        assert_eq!(tail.next().await.unwrap(), TailItem::Ended);
    }
}

#[tokio::test]
async fn g7_a_cursor_past_the_head_is_refused_with_the_head() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    let past = f.store.tail("r", 1).await.unwrap_err();
    assert_eq!(past, TailError::PastHead { head: 0 });
    write(&mut appender, frames(1..=4)).await;
    for after in [5, 6, u64::MAX] {
        let past = f.store.tail("r", after).await.unwrap_err();
        assert_eq!(past, TailError::PastHead { head: 4 });
        assert!(f.store.read("r", after, 10).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn g7_a_cursor_older_than_retention_is_gone_with_the_oldest_that_is_left() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, end(1..=10)).await;
    let mut overtaken = f.store.tail("r", 2).await.unwrap();
    drop(appender);

    assert_eq!(f.store.trim("r", 4).await.unwrap(), 5);
    // Trimming less than is gone already brings nothing back.
    assert_eq!(f.store.trim("r", 1).await.unwrap(), 5);
    for after in [0, 3] {
        let gone = f.store.tail("r", after).await.unwrap_err();
        assert_eq!(gone, TailError::Gone { oldest: 5 });
        let gone = f.store.read("r", after, 10).await.unwrap_err();
        assert_eq!(gone, ReadError::Gone { oldest: 5 });
    }
    let mut tail = f.store.tail("r", 4).await.unwrap();
    assert_eq!(read_to_end(&mut tail).await, [5, 6, 7, 8, 9, 10]);

    // The ring that this tail holds was filled before: what it still has, it may return; it never skips.
    if let Err(error) = overtaken.next().await {
        assert_eq!(error, ReadError::Gone { oldest: 5 });
    } else {
        assert_eq!(overtaken.cursor(), 10);
    }

    assert_eq!(f.store.trim("r", u64::MAX).await.unwrap(), 11);
    let gone = f.store.tail("r", 9).await.unwrap_err();
    assert_eq!(gone, TailError::Gone { oldest: 11 });
    let mut tail = f.store.tail("r", 10).await.unwrap();
    assert_eq!(tail.next().await.unwrap(), TailItem::Ended);
}

#[tokio::test]
async fn g7_retention_that_overtakes_a_tail_is_an_error_and_never_a_skipped_frame() {
    let f = open_with(StoreOptions { tail_frames: 0, ..StoreOptions::default() });
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=10)).await;
    let mut tail = f.store.tail("r", 2).await.unwrap();
    f.store.trim("r", 4).await.unwrap();
    assert_eq!(tail.next().await.unwrap_err(), ReadError::Gone { oldest: 5 });
    assert_eq!(tail.cursor(), 2);
}

#[tokio::test]
async fn a_frame_that_vanished_from_the_file_is_an_error_and_never_a_skipped_frame() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=10)).await;
    drop(appender);
    let raw = rusqlite::Connection::open(&f.path).unwrap();
    for (missing, after) in [(4, 2), (3, 2), (10, 9)] {
        raw.execute("DELETE FROM frames WHERE seq = ?1", [missing]).unwrap();
        let error = f.store.read("r", after, 10).await.unwrap_err();
        let seq = u64::try_from(missing).unwrap();
        assert_eq!(error, ReadError::Missing { seq });
        let mut tail = f.store.tail("r", after).await.unwrap();
        assert_eq!(tail.next().await.unwrap_err(), error);
    }
}

#[tokio::test]
async fn an_unknown_run_is_refused_and_leaves_nothing_in_memory() {
    let f = open();
    assert_eq!(f.store.tail("r", 0).await.unwrap_err(), TailError::UnknownRun);
    assert_eq!(f.store.read("r", 0, 1).await.unwrap_err(), ReadError::UnknownRun);
    assert_eq!(f.store.live_runs(), 0);
}

#[tokio::test]
async fn a_tail_of_a_run_without_an_owner_sees_the_next_owner_append() {
    let f = open();
    let mut first = own(&f.store, "r").await;
    write(&mut first, frames(1..=2)).await;
    drop(first);
    let mut tail = f.store.tail("r", 2).await.unwrap();
    let waiting = tokio::spawn(async move { (tail.next().await.unwrap(), tail) });
    tokio::task::yield_now().await;
    let mut second = f.store.take_ownership("r").await.unwrap();
    write(&mut second, end(3..=3)).await;
    let (item, mut tail) = waiting.await.unwrap();
    assert!(matches!(item, TailItem::Frames(found) if seqs(&found) == [3]));
    assert_eq!(tail.next().await.unwrap(), TailItem::Ended);
}

#[tokio::test]
async fn an_end_without_frames_ends_a_waiting_tail() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    let mut tail = f.store.tail("r", 0).await.unwrap();
    let waiting = tokio::spawn(async move { tail.next().await.unwrap() });
    tokio::task::yield_now().await;
    let update = RunUpdate { ended_at: Some(5), ..RunUpdate::default() };
    write(&mut appender, Append { update: Some(update), ..Append::default() }).await;
    assert_eq!(waiting.await.unwrap(), TailItem::Ended);
}

#[tokio::test]
async fn g8_a_slow_tail_falls_back_to_the_file_in_bounded_pages_and_sees_everything() {
    let f = open_with(StoreOptions {
        tail_frames: 16,
        read_page_frames: 50,
        read_page_bytes: 1_000,
        ..StoreOptions::default()
    });
    let mut appender = own(&f.store, "r").await;
    let mut tail = f.store.tail("r", 0).await.unwrap();
    write(&mut appender, frames(1..=500)).await;
    let large = NewFrame { seq: 501, body: Bytes::from(vec![b'x'; 5_000]) };
    write(&mut appender, Append { frames: vec![large], ..Append::default() }).await;
    write(&mut appender, end(502..=502)).await;

    let mut seen = Vec::new();
    while let TailItem::Frames(entries) = tail.next().await.unwrap() {
        let bytes: usize = entries.iter().map(|entry| entry.body().len()).sum();
        assert!(entries.len() <= 50);
        assert!(bytes <= 1_000 || entries.len() == 1, "{bytes} bytes in {} frames", entries.len());
        seen.extend(seqs(&entries));
    }
    assert_eq!(seen, (1..=502).collect::<Vec<_>>());
}

#[tokio::test]
async fn tails_of_one_run_share_the_bytes_of_a_frame() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    let mut one = f.store.tail("r", 0).await.unwrap();
    let mut two = f.store.tail("r", 0).await.unwrap();
    write(&mut appender, frames(1..=1)).await;
    let (TailItem::Frames(a), TailItem::Frames(b)) = (one.next().await.unwrap(), two.next().await.unwrap()) else {
        panic!("there is a frame");
    };
    assert_eq!(a[0].sse().as_ptr(), b[0].sse().as_ptr());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_tails_of_one_run_all_reach_its_end() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    let mut readers = Vec::new();
    for _ in 0..1_000 {
        let mut tail = f.store.tail("r", 0).await.unwrap();
        readers.push(tokio::spawn(async move { read_to_end(&mut tail).await.len() }));
    }
    for seq in 1..100 {
        write(&mut appender, frames(seq..=seq)).await;
    }
    write(&mut appender, end(100..=100)).await;
    for reader in readers {
        assert_eq!(reader.await.unwrap(), 100);
    }
    assert_eq!(f.store.live_runs(), 0);
}

#[tokio::test]
async fn a_run_leaves_memory_when_it_has_ended_and_its_last_tail_is_gone() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    assert_eq!(f.store.live_runs(), 1);
    let tail = f.store.tail("r", 0).await.unwrap();
    write(&mut appender, end(1..=5)).await;
    assert_eq!(f.store.live_runs(), 1);
    drop(tail);
    // The appender is still there, but can append nothing any more.
    assert_eq!(f.store.live_runs(), 0);
    drop(appender);
    let mut late = f.store.tail("r", 0).await.unwrap();
    assert_eq!(read_to_end(&mut late).await, [1, 2, 3, 4, 5]);
    drop(late);
    assert_eq!(f.store.live_runs(), 0);
}

#[tokio::test]
async fn closing_the_store_ends_a_waiting_tail_with_closed() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=1)).await;
    let mut tail = f.store.tail("r", 0).await.unwrap();
    let mut waiting = f.store.tail("r", 1).await.unwrap();
    let waiting = tokio::spawn(async move { waiting.next().await });
    tokio::task::yield_now().await;
    f.store.close();
    let closed = ReadError::Storage(StorageFailure::Closed);
    assert_eq!(waiting.await.unwrap(), Err(closed.clone()));
    // What is in memory can still be read.
    assert!(matches!(tail.next().await.unwrap(), TailItem::Frames(_)));
    assert_eq!(tail.next().await.unwrap_err(), closed);
}
