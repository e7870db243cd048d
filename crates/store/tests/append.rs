//! Appending: order, the fence, what is committed together, and what happens when it cannot be.
#![allow(clippy::unwrap_used)]

mod fixture;

use bytes::Bytes;
use fixture::{body, end, frames, open, open_with, own, read_to_end, seqs, write};
use runwire_store::{
    Append, AppendError, NewFrame, NewPayload, OwnershipError, RunUpdate, StorageFailure, StoreOptions, TailItem,
};
use serde_json::json;

#[tokio::test]
async fn frames_come_back_in_order_and_byte_for_byte() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    assert_eq!((appender.run_id(), appender.next_seq()), ("r", 1));
    write(&mut appender, frames(1..=3)).await;
    write(&mut appender, frames(4..=4)).await;
    assert_eq!(appender.next_seq(), 5);
    assert_eq!(appender.progress().durable(), 4);

    let entries = f.store.read("r", 0, 100).await.unwrap();
    assert_eq!(seqs(&entries), [1, 2, 3, 4]);
    for entry in &entries {
        assert_eq!(entry.body(), body(entry.seq()));
        let sse = format!("id: {}\ndata: {}\n\n", entry.seq(), String::from_utf8_lossy(&body(entry.seq())));
        assert_eq!(entry.sse(), sse);
    }
    assert_eq!(f.store.run("r").await.unwrap().unwrap().head, 4);
}

#[tokio::test]
async fn appends_of_many_runs_are_all_durable_and_do_not_mix() {
    let f = open();
    let mut tasks = Vec::new();
    for n in 0..60 {
        let store = f.store.clone();
        tasks.push(tokio::spawn(async move {
            let run_id = format!("r{n}");
            let mut appender = own(&store, &run_id).await;
            for seq in 1..=20 {
                appender.enqueue(frames(seq..=seq)).unwrap();
            }
            appender.progress().wait_durable(20).await.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for n in 0..60 {
        let entries = f.store.read(&format!("r{n}"), 0, 100).await.unwrap();
        assert_eq!(seqs(&entries), (1..=20).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_gap_a_duplicate_and_a_wrong_start_are_refused_and_leave_the_appender_usable() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=2)).await;
    for (wrong, got) in [(frames(4..=4), 4), (frames(2..=2), 2), (frames(0..=0), 0)] {
        let expected = AppendError::WrongSeq { expected: 3, got };
        assert_eq!(appender.enqueue(wrong), Err(expected));
    }
    let mut inner_gap = frames(3..=4);
    inner_gap.frames[1].seq = 5;
    let expected = AppendError::WrongSeq { expected: 4, got: 5 };
    assert_eq!(appender.enqueue(inner_gap), Err(expected));
    write(&mut appender, frames(3..=3)).await;
    assert_eq!(seqs(&f.store.read("r", 0, 9).await.unwrap()), [1, 2, 3]);
}

#[tokio::test]
async fn a_body_with_a_line_break_is_refused() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    for text in ["a\nb", "a\rb"] {
        let append = Append { frames: vec![NewFrame { seq: 1, body: Bytes::from(text) }], ..Append::default() };
        assert_eq!(appender.enqueue(append), Err(AppendError::LineBreak { seq: 1 }));
    }
    write(&mut appender, frames(1..=1)).await;
}

#[tokio::test]
async fn only_the_latest_owner_appends_and_the_earlier_one_is_fenced_for_good() {
    let f = open();
    let mut old = own(&f.store, "r").await;
    write(&mut old, frames(1..=2)).await;
    let mut new = f.store.take_ownership("r").await.unwrap();
    assert_eq!(new.next_seq(), 3);

    old.enqueue(frames(3..=3)).unwrap();
    let progress = old.progress();
    assert_eq!(progress.wait_durable(3).await, Err(AppendError::Fenced));
    assert_eq!(progress.flush().await, Err(AppendError::Fenced));
    assert_eq!(progress.wait_below(1, 1).await, Err(AppendError::Fenced));
    assert_eq!(progress.failed(), Some(AppendError::Fenced));
    assert_eq!(old.enqueue(frames(4..=4)), Err(AppendError::Fenced));

    write(&mut new, frames(3..=4)).await;
    assert_eq!(seqs(&f.store.read("r", 0, 9).await.unwrap()), [1, 2, 3, 4]);
}

#[tokio::test]
async fn an_append_without_frames_is_fenced_too() {
    let f = open();
    let mut old = own(&f.store, "r").await;
    let _new = f.store.take_ownership("r").await.unwrap();
    old.enqueue(Append {
        update: Some(RunUpdate { status: Some("failed".to_owned()), ..RunUpdate::default() }),
        ..Append::default()
    })
    .unwrap();
    assert_eq!(old.progress().flush().await, Err(AppendError::Fenced));
    assert_eq!(f.store.run("r").await.unwrap().unwrap().status, "queued");
}

#[tokio::test]
async fn a_fenced_append_fails_only_its_own_run() {
    let f = open();
    let mut stale = own(&f.store, "stale").await;
    let _owner = f.store.take_ownership("stale").await.unwrap();
    let mut healthy = own(&f.store, "healthy").await;
    // While somebody else holds the write lock, these wait and become one batch.
    let blocker = rusqlite::Connection::open(&f.path).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    healthy.enqueue(frames(1..=1)).unwrap();
    stale.enqueue(frames(1..=1)).unwrap();
    healthy.enqueue(frames(2..=2)).unwrap();
    blocker.execute_batch("ROLLBACK").unwrap();

    assert_eq!(stale.progress().flush().await, Err(AppendError::Fenced));
    healthy.progress().wait_durable(2).await.unwrap();
    assert_eq!(seqs(&f.store.read("healthy", 0, 9).await.unwrap()), [1, 2]);
    assert!(f.store.read("stale", 0, 9).await.unwrap().is_empty());
    assert_eq!(f.store.health(), Ok(()));
}

#[tokio::test]
async fn the_seq_is_checked_against_the_file_too() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    rusqlite::Connection::open(&f.path).unwrap().execute("UPDATE runs SET head = 7", []).unwrap();
    appender.enqueue(frames(1..=1)).unwrap();
    let expected = AppendError::WrongSeq { expected: 8, got: 1 };
    assert_eq!(appender.progress().flush().await, Err(expected.clone()));
    assert_eq!(appender.enqueue(frames(2..=2)), Err(expected));
}

#[tokio::test]
async fn g6_nothing_is_appended_to_an_ended_run() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, end(1..=2)).await;
    assert_eq!(appender.enqueue(frames(3..=3)), Err(AppendError::Ended));
    assert_eq!(f.store.take_ownership("r").await.unwrap_err(), OwnershipError::Ended);
    assert_eq!(f.store.take_ownership("other").await.unwrap_err(), OwnershipError::UnknownRun);
    let record = f.store.run("r").await.unwrap().unwrap();
    assert_eq!((record.status.as_str(), record.ended_at, record.head), ("completed", Some(2_000), 2));
}

#[tokio::test]
async fn frames_record_and_payloads_of_one_append_are_committed_together() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    let append = Append {
        update: Some(RunUpdate {
            status: Some("running".to_owned()),
            attempt: Some(1),
            started_at: Some(1_500),
            usage: Some(json!([{"provider": "p", "input_tokens": 0}])),
            failure: Some(json!({"class": "MODEL_ERROR"})),
            ..RunUpdate::default()
        }),
        payloads: vec![NewPayload {
            segment_id: "seg_1".to_owned(),
            content_type: "application/json".to_owned(),
            bytes: Bytes::from_static(b"\x00\xff\n"),
        }],
        ..frames(1..=1)
    };
    // A fence in the middle proves that nothing of it is kept alone.
    let mut owner = f.store.take_ownership("r").await.unwrap();
    appender.enqueue(append.clone()).unwrap();
    appender.progress().flush().await.unwrap_err();
    assert_eq!(f.store.run("r").await.unwrap().unwrap().attempt, 0);
    assert_eq!(f.store.payload("r", "seg_1").await.unwrap(), None);

    write(&mut owner, append).await;
    let record = f.store.run("r").await.unwrap().unwrap();
    assert_eq!((record.status.as_str(), record.attempt, record.started_at), ("running", 1, Some(1_500)));
    assert_eq!(record.usage, Some(json!([{"provider": "p", "input_tokens": 0}])));
    let payload = f.store.payload("r", "seg_1").await.unwrap().unwrap();
    assert_eq!(payload.content_type, "application/json");
    assert_eq!(payload.bytes, Bytes::from_static(b"\x00\xff\n"));
    assert_eq!(f.store.payload("r", "seg_2").await.unwrap(), None);
    assert_eq!(f.store.payload("x", "seg_1").await.unwrap(), None);

    // What an update does not name stays; a null takes it back.
    let update = RunUpdate { failure: Some(json!(null)), ..RunUpdate::default() };
    write(&mut owner, Append { update: Some(update), ..Append::default() }).await;
    let record = f.store.run("r").await.unwrap().unwrap();
    assert_eq!((record.attempt, record.failure), (1, None));
}

#[tokio::test]
async fn backpressure_waits_for_the_runs_own_frames_and_only_for_them() {
    let f = open();
    let mut busy = own(&f.store, "busy").await;
    let idle = own(&f.store, "idle").await;
    let blocker = rusqlite::Connection::open(&f.path).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    busy.enqueue(frames(1..=10)).unwrap();

    let progress = busy.progress();
    progress.wait_below(11, usize::MAX).await.unwrap();
    idle.progress().wait_below(0, 0).await.unwrap();
    assert_eq!(progress.durable(), 0);
    for limits in [(10, usize::MAX), (usize::MAX, 10)] {
        let wait = progress.wait_below(limits.0, limits.1);
        let soon = std::time::Duration::from_millis(30);
        tokio::time::timeout(soon, wait).await.unwrap_err();
    }
    blocker.execute_batch("ROLLBACK").unwrap();
    progress.wait_below(1, 1).await.unwrap();
    assert_eq!(progress.durable(), 10);
}

#[tokio::test]
async fn a_full_store_fails_the_append_clearly_while_reading_goes_on_and_it_recovers() {
    let f = open_with(StoreOptions { max_bytes: Some(512 * 1024), ..StoreOptions::default() });
    let mut small = own(&f.store, "small").await;
    write(&mut small, frames(1..=3)).await;
    let mut big = own(&f.store, "big").await;
    let progress = big.progress();
    let mut tail = f.store.tail("small", 0).await.unwrap();

    let large =
        |seq| Append { frames: vec![NewFrame { seq, body: Bytes::from(vec![b'x'; 60_000]) }], ..Append::default() };
    let mut seq = 0;
    let failure = loop {
        seq += 1;
        assert!(seq < 20, "the limit was never reached");
        big.enqueue(large(seq)).unwrap();
        if let Err(failure) = progress.flush().await {
            break failure;
        }
    };
    let full = StorageFailure::Full { path: f.path.clone() };
    assert_eq!(failure, AppendError::Storage(full.clone()));
    assert!(failure.to_string().contains("is full"), "{failure}");
    assert_eq!(f.store.health(), Err(full));
    assert_eq!(big.enqueue(large(seq + 1)), Err(failure));

    // Readers notice nothing, and what was lost was never visible.
    assert!(matches!(tail.next().await.unwrap(), TailItem::Frames(found) if found.len() == 3));
    let head = f.store.run("big").await.unwrap().unwrap().head;
    assert_eq!(head, seq - 1);
    assert_eq!(progress.durable(), head);

    // Room again: others append, and the run goes on under a new owner without a hole.
    f.store.trim("big", 3).await.unwrap();
    assert_eq!(f.store.health(), Ok(()));
    write(&mut small, end(4..=4)).await;
    assert_eq!(read_to_end(&mut tail).await, [4]);
    let mut owner = f.store.take_ownership("big").await.unwrap();
    assert_eq!(owner.next_seq(), head + 1);
    write(&mut owner, large(head + 1)).await;
    let mut tail = f.store.tail("big", 3).await.unwrap();
    let mut found = Vec::new();
    while found.last() != Some(&(head + 1)) {
        match tail.next().await.unwrap() {
            TailItem::Frames(entries) => found.extend(seqs(&entries)),
            TailItem::Ended => panic!("it did not end"),
        }
    }
    assert_eq!(found, (4..=head + 1).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_append_with_nothing_in_it_does_nothing() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, Append::default()).await;
    assert_eq!(appender.next_seq(), 1);
}

#[tokio::test]
async fn commits_count_transactions_and_not_appends() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    let before = f.store.commits();
    write(&mut appender, frames(1..=3)).await;
    assert_eq!(f.store.commits(), before + 1);

    let before = f.store.commits();
    for seq in 4..=200 {
        appender.enqueue(frames(seq..=seq)).unwrap();
    }
    appender.progress().wait_durable(200).await.unwrap();
    let commits = f.store.commits() - before;
    assert!((1..=197).contains(&commits), "197 appends took {commits} transactions");
}
