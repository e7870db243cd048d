//! Packing: what a run that has ended looks like in the file is no matter of its readers (G2, G3, G4).
#![allow(clippy::unwrap_used)]

mod fixture;

use fixture::{body, end, frames, new_run, open, open_with, own, read_to_end, seqs, write};
use runwire_store::{Append, NewFrame, ReadError, RunUpdate, Store, StoreOptions, Tail, TailEvents, TailItem};
use rusqlite::Connection;

fn count(conn: &Connection, sql: &str) -> i64 {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The SSE events that a tail gives to its end.
async fn events(tail: &mut Tail) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match tail.next_events().await.unwrap() {
            TailEvents::Events(events) => all.extend_from_slice(&events),
            TailEvents::Ended => return all,
        }
    }
}

fn sse(seqs: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    let event = |seq| [format!("id: {seq}\ndata: ").as_bytes(), &body(seq), b"\n\n"].concat();
    seqs.flat_map(event).collect()
}

/// A run that is in packed pages and nowhere else.
async fn packed(store: &Store, run_id: &str, head: u64) {
    let mut appender = own(store, run_id).await;
    write(&mut appender, frames(1..=head - 1)).await;
    write(&mut appender, end(head..=head)).await;
    store.tidied().await;
}

#[tokio::test]
async fn a_run_that_has_ended_is_packed_and_its_rows_are_gone() {
    let f = open();
    packed(&f.store, "r", 3000).await;
    let raw = Connection::open(&f.path).unwrap();
    assert_eq!(count(&raw, "SELECT count(*) FROM frames"), 0);
    assert_eq!(count(&raw, "SELECT count(*) FROM pages"), 3);
    assert_eq!(count(&raw, "SELECT sum(last - first + 1) FROM pages"), 3000);
    assert_eq!(count(&raw, "SELECT count(*) FROM upkeep"), 0);
}

#[tokio::test]
async fn a_run_that_has_not_ended_and_a_short_one_are_not_packed() {
    let f = open();
    let mut live = own(&f.store, "live").await;
    write(&mut live, frames(1..=2000)).await;
    packed(&f.store, "short", 255).await;
    let raw = Connection::open(&f.path).unwrap();
    assert_eq!(count(&raw, "SELECT count(*) FROM frames"), 2255);
    assert_eq!(count(&raw, "SELECT count(*) FROM pages"), 0);
    packed(&f.store, "long enough", 256).await;
    assert_eq!(count(&raw, "SELECT count(*) FROM pages"), 1);
}

#[tokio::test]
async fn g3_g4_from_any_cursor_a_packed_run_gives_the_same_bytes_as_its_rows_did() {
    const HEAD: u64 = 1500;
    let pages = [(1024, 256 * 1024), (1, 1 << 20), (7, 1 << 20), (1000, 100), (5000, 1 << 20)];
    for (read_page_frames, read_page_bytes) in pages {
        let f =
            open_with(StoreOptions { read_page_frames, read_page_bytes, tail_frames: 4, ..StoreOptions::default() });
        packed(&f.store, "r", HEAD).await;
        for after in [0, 1, 1022, 1023, 1024, 1025, HEAD - 1, HEAD] {
            // Frame by frame every read is a look into a whole page, so not all of them.
            if read_page_frames == 1 && after < 1022 {
                continue;
            }
            let mut tail = f.store.tail("r", after).await.unwrap();
            assert_eq!(read_to_end(&mut tail).await, (after + 1..=HEAD).collect::<Vec<_>>(), "after {after}");
            let mut tail = f.store.tail("r", after).await.unwrap();
            assert_eq!(events(&mut tail).await, sse(after + 1..=HEAD), "after {after}");
            let page = f.store.read("r", after, 10).await.unwrap();
            let last = HEAD.min(after + 10).min(after + page.len() as u64);
            assert_eq!(seqs(&page), (after + 1..=last).collect::<Vec<_>>());
            assert_eq!(page.is_empty(), after == HEAD);
        }
    }
}

#[tokio::test]
async fn g2_a_reader_whose_run_is_packed_under_it_misses_nothing_however_it_reads() {
    let f = open_with(StoreOptions { tail_frames: 4, read_page_frames: 50, ..StoreOptions::default() });
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=4999)).await;
    let mut tails = Vec::new();
    for after in [0, 100, 2000] {
        let mut tail = f.store.tail("r", after).await.unwrap();
        assert!(matches!(tail.next_events().await.unwrap(), TailEvents::Events(_)));
        tails.push(tail);
    }
    write(&mut appender, end(5000..=5000)).await;
    // Both ways of reading in turns, while pages take the place of rows.
    for tail in &mut tails {
        loop {
            let cursor = tail.cursor();
            match tail.next().await.unwrap() {
                TailItem::Frames(entries) => assert_eq!(entries[0].seq(), cursor + 1),
                TailItem::Ended => break,
            }
            let cursor = tail.cursor();
            match tail.next_events().await.unwrap() {
                TailEvents::Events(events) => assert_eq!(events, sse(cursor + 1..=tail.cursor())),
                TailEvents::Ended => break,
            }
        }
        assert_eq!(tail.cursor(), 5000);
    }
    f.store.tidied().await;
    let raw = Connection::open(&f.path).unwrap();
    assert_eq!(count(&raw, "SELECT count(*) FROM frames"), 0);
}

#[tokio::test]
async fn frames_larger_than_a_page_and_empty_ones_are_packed_as_they_are() {
    let f = open();
    let sizes = [0, 1, 300_000, 0, 262_100, 262_144, 10, 1_000_000];
    let body = |seq: u64| vec![b'a' + (seq % 26) as u8; sizes[seq as usize % sizes.len()]];
    let mut appender = own(&f.store, "r").await;
    for first in (1..=256_u64).step_by(16) {
        let frames = (first..first + 16).map(|seq| NewFrame { seq, body: body(seq).into() }).collect();
        write(&mut appender, Append { frames, ..Append::default() }).await;
    }
    let update = Some(RunUpdate { ended_at: Some(2_000), ..RunUpdate::default() });
    write(&mut appender, Append { update, ..Append::default() }).await;
    f.store.tidied().await;
    let raw = Connection::open(&f.path).unwrap();
    assert_eq!(count(&raw, "SELECT count(*) FROM frames"), 0);
    let mut tail = f.store.tail("r", 0).await.unwrap();
    let mut next = 1;
    while let TailItem::Frames(entries) = tail.next().await.unwrap() {
        for entry in entries {
            assert_eq!((entry.seq(), entry.body().as_ref()), (next, &body(next)[..]));
            next += 1;
        }
    }
    assert_eq!(next, 257);
}

#[tokio::test]
async fn what_was_left_to_pack_when_the_store_closed_is_packed_by_the_next_one() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=49_999)).await;
    write(&mut appender, end(50_000..=50_000)).await;
    f.store.close();
    let raw = Connection::open(&f.path).unwrap();
    assert!(count(&raw, "SELECT count(*) FROM frames") > 0, "it was closed before everything was packed");
    drop(raw);
    let store = Store::open(&f.path, StoreOptions::default()).unwrap();
    store.tidied().await;
    let raw = Connection::open(&f.path).unwrap();
    assert_eq!(count(&raw, "SELECT count(*) FROM frames"), 0);
    let mut tail = store.tail("r", 0).await.unwrap();
    assert_eq!(read_to_end(&mut tail).await.len(), 50_000);
}

#[tokio::test]
async fn g7_the_oldest_frames_of_a_packed_run_can_be_cut_off_inside_of_a_page() {
    let f = open();
    packed(&f.store, "r", 3000).await;
    assert_eq!(f.store.trim("r", 1500).await.unwrap(), 1501);
    assert_eq!(f.store.read("r", 1499, 10).await.unwrap_err(), ReadError::Gone { oldest: 1501 });
    let mut tail = f.store.tail("r", 1500).await.unwrap();
    assert_eq!(read_to_end(&mut tail).await, (1501..=3000).collect::<Vec<_>>());
    let raw = Connection::open(&f.path).unwrap();
    assert_eq!(count(&raw, "SELECT min(first) FROM pages"), 1025, "pages before that are gone");
}

#[tokio::test]
async fn g7_a_damaged_page_is_told_and_never_a_gap() {
    for damage in [
        "DELETE FROM pages WHERE first = 1025",
        "UPDATE pages SET sse = zeroblob(length(sse)) WHERE first = 1025",
        "UPDATE pages SET sse = substr(sse, 1, length(sse) - 5) WHERE first = 1025",
        "UPDATE pages SET first = 1026 WHERE first = 1025",
        "UPDATE pages SET last = last - 1 WHERE first = 1025",
        "UPDATE pages SET sse = CAST(replace(CAST(sse AS TEXT), 'id: 1030', 'id: 1031') AS BLOB) WHERE first = 1025",
    ] {
        let f = open();
        packed(&f.store, "r", 3000).await;
        Connection::open(&f.path).unwrap().execute(damage, []).unwrap();
        let mut tail = f.store.tail("r", 0).await.unwrap();
        let mut cursor = 0;
        let error = loop {
            match tail.next().await {
                Ok(TailItem::Frames(entries)) => {
                    for entry in entries {
                        assert_eq!((entry.seq(), entry.body()), (cursor + 1, body(cursor + 1)), "{damage}");
                        cursor += 1;
                    }
                }
                Ok(TailItem::Ended) => panic!("{damage}: it ended after {cursor}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ReadError::Missing { seq } if seq == cursor + 1), "{damage}: {error:?} after {cursor}");
    }
}

#[tokio::test]
async fn appends_go_on_while_runs_are_packed() {
    let f = open();
    let mut other = own(&f.store, "other").await;
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=19_999)).await;
    write(&mut appender, end(20_000..=20_000)).await;
    let mut seq = 0;
    let progress = other.progress();
    let tidied = f.store.tidied();
    tokio::pin!(tidied);
    loop {
        seq += 1;
        other.enqueue(frames(seq..=seq)).unwrap();
        tokio::select! {
            () = &mut tidied => break,
            durable = progress.wait_durable(seq) => durable.unwrap(),
        }
    }
    assert!(seq > 20, "an append waits for a page at most, not for all of them: {seq}");
    let created = f.store.create_run(new_run("next")).await;
    assert!(created.is_ok());
}
