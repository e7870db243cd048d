//! A key that whoever asks has chosen names one request: repeated, it finds the run that it made.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::collections::HashSet;

use fixture::{Fixture, end, frames, new_run, open, own, write};
use runwire_store::{
    AddExchangeError, Added, CreateError, Created, ExchangeRecord, Inspection, KeyError, NewRun, ReadError, RequestKey,
    Store, StoreOptions,
};
use rusqlite::Connection;

fn key(key: &str, digest: &str) -> RequestKey {
    RequestKey { principal: None, key: key.to_owned(), request_digest: digest.to_owned(), created_at: 7 }
}

fn of(principal: &str, key: RequestKey) -> RequestKey {
    RequestKey { principal: Some(principal.to_owned()), ..key }
}

fn exchange(session: &str, exchange: &str, digest: &str) -> ExchangeRecord {
    ExchangeRecord { session_id: session.to_owned(), exchange_id: exchange.to_owned(), input_digest: digest.to_owned() }
}

async fn named(store: &Store, principal: Option<&str>, key: &str) -> Option<(String, String, String)> {
    let found = store.run_by_key(principal, key).await.unwrap()?;
    Some((found.record.run_id, found.exchange_id, found.request_digest))
}

/// Closes the store and gives what its own check of references finds.
fn reference_faults(f: &Fixture) -> Vec<String> {
    f.store.close();
    let faults = Inspection::open(&f.path).unwrap().reference_faults().unwrap();
    faults.into_iter().map(|fault| fault.what).collect()
}

#[tokio::test]
async fn a_key_names_the_run_that_was_made_with_it_as_that_stands_now() {
    let f = open();
    assert_eq!(named(&f.store, None, "k").await, None);
    let made = f.store.create_keyed_run(new_run("r"), Some(key("k", "asked"))).await.unwrap();
    assert!(matches!(made, Created::New(_)));
    let mut appender = f.store.take_ownership("r").await.unwrap();
    write(&mut appender, frames(1..=2)).await;
    // With ids that were made anew, as a server makes them for each request.
    let again = f.store.create_keyed_run(new_run("another"), Some(key("k", "asked"))).await.unwrap();
    let Created::Existing { record, same_input } = again else { panic!("the key names a run already") };
    assert_eq!((record.run_id.as_str(), record.head, same_input), ("r", 2, true));
    assert_eq!(f.store.run("another").await.unwrap(), None);
    let expected = ("r".to_owned(), "exchange-of-r".to_owned(), "asked".to_owned());
    assert_eq!(named(&f.store, None, "k").await, Some(expected));
    assert_eq!(reference_faults(&f), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_that_was_used_for_something_else_makes_nothing_and_names_its_run() {
    let f = open();
    f.store.create_keyed_run(new_run("r"), Some(key("k", "asked"))).await.unwrap();
    let other = f.store.create_keyed_run(new_run("another"), Some(key("k", "other"))).await;
    assert_eq!(other.unwrap_err(), CreateError::KeyTaken { run_id: "r".to_owned() });
    let added = f.store.add_keyed_exchange("r", exchange("s", "e", "d"), Some(key("k", "other"))).await;
    assert_eq!(added.unwrap_err(), AddExchangeError::KeyTaken { run_id: "r".to_owned() });
    let remembered = f.store.remember_key("r", "exchange-of-r", key("k", "other")).await;
    assert_eq!(remembered.unwrap_err(), KeyError::Taken { run_id: "r".to_owned() });
    assert_eq!(f.store.run("another").await.unwrap(), None);
    assert_eq!(f.store.run_by_exchange("s", "e").await.unwrap(), None);
}

#[tokio::test]
async fn a_key_is_its_principals_alone() {
    let f = open();
    let keys = [key("k", "asked"), of("ann", key("k", "asked")), of("bob", key("k", "other"))];
    for (n, key) in keys.into_iter().enumerate() {
        let made = f.store.create_keyed_run(new_run(&format!("r{n}")), Some(key)).await.unwrap();
        assert!(matches!(made, Created::New(_)), "{n}");
    }
    for (principal, run_id) in [(None, "r0"), (Some("ann"), "r1"), (Some("bob"), "r2")] {
        assert_eq!(named(&f.store, principal, "k").await.unwrap().0, run_id);
    }
    assert_eq!(named(&f.store, Some("eve"), "k").await, None);
}

#[tokio::test]
async fn a_run_that_is_not_made_leaves_its_key_free() {
    let f = open();
    f.store.create_run(NewRun { principal: Some("ann".to_owned()), ..new_run("r") }).await.unwrap();
    let taken = NewRun { exchange_id: "another".to_owned(), session_id: "s".to_owned(), ..new_run("r") };
    let refused = f.store.create_keyed_run(taken, Some(key("k", "asked"))).await.unwrap_err();
    assert!(matches!(refused, CreateError::RunIdTaken { .. }), "{refused}");
    let foreign =
        NewRun { session_id: "session-of-r".to_owned(), principal: Some("bob".to_owned()), ..new_run("foreign") };
    let refused = f.store.create_keyed_run(foreign, Some(of("bob", key("k", "asked")))).await.unwrap_err();
    assert!(matches!(refused, CreateError::SessionOfAnother { .. }), "{refused}");
    assert_eq!((named(&f.store, None, "k").await, named(&f.store, Some("bob"), "k").await), (None, None));
}

#[tokio::test]
async fn of_many_requests_of_one_key_at_once_one_makes_the_run() {
    let f = open();
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let store = f.store.clone();
            let new = new_run(&format!("r{n}"));
            tokio::spawn(async move { store.create_keyed_run(new, Some(key("k", "asked"))).await.unwrap() })
        })
        .collect();
    let (mut made, mut names) = (0, HashSet::new());
    for task in tasks {
        let (Created::New(record) | Created::Existing { record, .. }) = match task.await.unwrap() {
            new @ Created::New(_) => {
                made += 1;
                new
            }
            existing @ Created::Existing { .. } => existing,
        };
        names.insert(record.run_id);
    }
    assert_eq!((made, names.len()), (1, 1));
}

#[tokio::test]
async fn a_key_may_name_a_later_exchange_of_a_run_or_one_that_was_there() {
    let f = open();
    f.store.create_run(new_run("r")).await.unwrap();
    let second = || exchange("session-of-r", "second", "d2");
    let added = f.store.add_keyed_exchange("r", second(), Some(key("k2", "answer"))).await.unwrap();
    assert_eq!(added, Added::New);
    assert_eq!(named(&f.store, None, "k2").await.unwrap().1, "second");
    // The same request again, and the same with ids that were made anew: neither adds anything.
    for again in [second(), exchange("session-of-r", "made-anew", "d3")] {
        let added = f.store.add_keyed_exchange("r", again, Some(key("k2", "answer"))).await.unwrap();
        let Added::Existing { record, same_input } = added else { panic!("the key names it already") };
        assert_eq!((record.run_id.as_str(), same_input), ("r", true));
    }
    assert_eq!(f.store.run_by_exchange("session-of-r", "made-anew").await.unwrap(), None);
    // An exchange that was sent without a key before can be repeated with one, as long as it is the same.
    f.store.add_keyed_exchange("r", second(), Some(key("k3", "answer"))).await.unwrap();
    f.store.add_keyed_exchange("r", exchange("session-of-r", "second", "other"), Some(key("k4", "x"))).await.unwrap();
    for _ in 0..2 {
        f.store.remember_key("r", "exchange-of-r", key("k1", "asked")).await.unwrap();
    }
    assert_eq!(named(&f.store, None, "k3").await.unwrap().1, "second");
    assert_eq!(named(&f.store, None, "k4").await, None, "of another input nothing is remembered");
    assert_eq!(named(&f.store, None, "k1").await.unwrap().1, "exchange-of-r");
    let nowhere = f.store.remember_key("x", "e", key("k5", "asked")).await;
    assert_eq!(nowhere.unwrap_err(), KeyError::UnknownRun);
    assert_eq!(reference_faults(&f), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_survives_the_store_and_goes_with_its_run() {
    let f = open();
    f.store.create_keyed_run(new_run("r"), Some(key("k", "what was asked"))).await.unwrap();
    let mut appender = f.store.take_ownership("r").await.unwrap();
    write(&mut appender, end(1..=1)).await;
    f.store.close();
    let store = Store::open(&f.path, StoreOptions::default()).unwrap();
    assert_eq!(named(&store, None, "k").await.unwrap().0, "r");

    store.remove_runs(&["r".to_owned()], 100).await.unwrap();
    let tombstone = Box::new(store.tombstone("r").await.unwrap().unwrap());
    // Whatever is asked with it: what it was first used for is not kept.
    for digest in ["what was asked", "other", ""] {
        let again = store.create_keyed_run(new_run("another"), Some(key("k", digest))).await;
        assert_eq!(again.unwrap_err(), CreateError::Removed(tombstone.clone()));
    }
    let added = store.add_keyed_exchange("r", exchange("s", "e", "d"), Some(key("k", "x"))).await;
    assert_eq!(added.unwrap_err(), AddExchangeError::Removed(tombstone.clone()));
    assert_eq!(store.remember_key("r", "e", key("k", "x")).await.unwrap_err(), KeyError::Removed(tombstone.clone()));
    assert_eq!(store.run_by_key(None, "k").await.unwrap_err(), ReadError::Removed(tombstone));
    let left: String = Connection::open(&f.path)
        .unwrap()
        .query_row("SELECT request_digest FROM idempotency_keys", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, "");

    store.tidied().await;
    assert_eq!(store.forget_tombstones(101).await.unwrap(), 1);
    assert_eq!(named(&store, None, "k").await, None);
    let again = store.create_keyed_run(new_run("another"), Some(key("k", "other"))).await.unwrap();
    assert!(matches!(again, Created::New(_)));
    store.close();
    assert_eq!(reference_faults(&f), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_that_names_what_is_not_there_is_a_fault_of_the_store() {
    let f = open();
    own(&f.store, "r").await;
    f.store.close();
    let raw = Connection::open(&f.path).unwrap();
    let insert = "INSERT INTO idempotency_keys VALUES (?1, ?2, ?3, ?4, 'd', 1)";
    raw.execute(insert, ("ann", "k1", 1, "exchange-of-r")).unwrap();
    raw.execute(insert, ("ann", "k2", 1, "no exchange of it")).unwrap();
    raw.execute(insert, ("", "k3", 99, "exchange-of-r")).unwrap();
    drop(raw);
    let mut faults = reference_faults(&f);
    faults.sort();
    assert_eq!(
        faults,
        [
            "the key k2 of ann names an exchange that is not there",
            "the key k3 of nobody names an exchange that is not there",
        ]
    );
}
