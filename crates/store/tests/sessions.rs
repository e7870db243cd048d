//! The runs of a session in order, and word of each new one.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::time::Duration;

use fixture::{new_run, open};
use runwire_store::{NewRun, SessionFilter, Store};

fn in_session(run_id: &str, created_at: i64) -> NewRun {
    NewRun { session_id: "s".to_owned(), created_at, ..new_run(run_id) }
}

async fn runs(store: &Store, after: Option<&str>) -> Vec<String> {
    store.session_runs("s", after).await.unwrap().into_iter().map(|record| record.run_id).collect()
}

#[tokio::test]
async fn runs_of_a_session_are_in_the_order_of_creation_also_when_the_clock_stepped_back() {
    let fixture = open();
    for (run_id, created_at) in [("c", 3_000), ("a", 2_000), ("b", 2_000)] {
        fixture.store.create_run(in_session(run_id, created_at)).await.unwrap();
    }
    fixture.store.create_run(new_run("of-another-session")).await.unwrap();
    assert_eq!(runs(&fixture.store, None).await, ["c", "a", "b"]);
    assert_eq!(runs(&fixture.store, Some("c")).await, ["a", "b"]);
    assert_eq!(runs(&fixture.store, Some("b")).await, [""; 0]);
    assert_eq!(runs(&fixture.store, Some("unknown")).await, [""; 0]);
}

#[tokio::test]
async fn a_watch_hears_of_every_new_run_when_it_can_be_read() {
    let fixture = open();
    let mut watch = fixture.store.watch_session("s");
    let store = fixture.store.clone();
    let creating = tokio::spawn(async move {
        for n in 0..50 {
            store.create_run(in_session(&format!("run-{n:02}"), n)).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let mut known = 0;
    while known < 50 {
        tokio::time::timeout(Duration::from_secs(30), watch.changed()).await.expect("there are more runs to hear of");
        known = runs(&fixture.store, None).await.len();
    }
    creating.await.unwrap();
}

#[tokio::test]
async fn a_watch_does_not_wake_for_other_sessions() {
    let fixture = open();
    let mut watch = fixture.store.watch_session("s");
    fixture.store.create_run(new_run("elsewhere")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(20), watch.changed()).await.is_err());
}

async fn listed(store: &Store, filter: SessionFilter) -> Vec<String> {
    let sessions = store.sessions(SessionFilter { limit: filter.limit.max(10), ..filter }).await.unwrap();
    sessions.into_iter().map(|session| format!("{} {}", session.session_id, session.newest.run_id)).collect()
}

#[tokio::test]
async fn sessions_are_listed_once_each_by_the_newest_run_that_counts() {
    let fixture = open();
    for (run_id, session_id, agent_id, principal, created_at) in [
        ("r1", "s1", "one", "alice", 1_000),
        ("r2", "s2", "one", "bob", 2_000),
        ("r3", "s1", "two", "alice", 3_000),
        ("r4", "s3", "two", "alice", 3_000),
    ] {
        let of = |text: &str| text.to_owned();
        let run = NewRun {
            session_id: of(session_id),
            agent_id: of(agent_id),
            principal: Some(of(principal)),
            created_at,
            ..new_run(run_id)
        };
        fixture.store.create_run(run).await.unwrap();
    }
    let store = &fixture.store;
    assert_eq!(listed(store, SessionFilter::default()).await, ["s3 r4", "s1 r3", "s2 r2"]);
    let agent = |id: &str| SessionFilter { agent_id: Some(id.to_owned()), ..SessionFilter::default() };
    assert_eq!(listed(store, agent("one")).await, ["s2 r2", "s1 r1"], "by the runs of that agent");
    assert_eq!(listed(store, agent("nobody")).await, [""; 0]);
    let alice = SessionFilter { principal: Some("alice".to_owned()), ..agent("one") };
    assert_eq!(listed(store, alice).await, ["s1 r1"]);
    let page = store.sessions(SessionFilter { limit: 1, ..SessionFilter::default() }).await.unwrap();
    assert_eq!((page.len(), page[0].created_at, page[0].principal.as_deref()), (1, 3_000, Some("alice")));
    let after = SessionFilter { before: Some(page[0].newest.clone()), ..SessionFilter::default() };
    assert_eq!(listed(store, after).await, ["s1 r3", "s2 r2"]);
}
