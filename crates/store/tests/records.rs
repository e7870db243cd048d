//! Runs, exchanges and sessions.
#![allow(clippy::unwrap_used)]

mod fixture;

use fixture::{end, frames, new_run, open, own, write};
use runwire_store::{AddExchangeError, Added, CreateError, Created, ExchangeRecord, NewRun, RunFilter, Store};
use serde_json::json;

fn full(run_id: &str) -> NewRun {
    NewRun {
        principal: Some("ann".to_owned()),
        agent_revision_id: Some("rev_1".to_owned()),
        parent_run_id: Some("parent".to_owned()),
        metadata: json!({"z": 1, "a": [1.5, "é"]}),
        input: json!({"threadId": "t", "z": 0.1, "messages": [{"id": "m"}]}),
        ..new_run(run_id)
    }
}

#[tokio::test]
async fn a_run_is_kept_as_it_was_created() {
    let f = open();
    let Created::New(record) = f.store.create_run(full("r")).await.unwrap() else {
        panic!("it is new");
    };
    let new = full("r");
    assert_eq!(f.store.input("r").await.unwrap(), Some(new.input));
    assert_eq!(f.store.input("x").await.unwrap(), None);
    assert_eq!((record.attempt, record.head), (0, 0));
    assert_eq!(f.store.run("r").await.unwrap(), Some(record.clone()));
    assert_eq!(f.store.run("x").await.unwrap(), None);
    let found = f.store.run_by_exchange("session-of-r", "exchange-of-r").await.unwrap();
    assert_eq!(found, Some((record, "digest".to_owned())));
    let found = f.store.run_by_exchange("session-of-r", "x").await.unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn a_record_serializes_as_the_api_shows_it_and_without_its_input() {
    let f = open();
    let Created::New(record) = f.store.create_run(full("r")).await.unwrap() else {
        panic!("it is new");
    };
    assert_eq!(
        serde_json::to_value(&record).unwrap(),
        json!({
            "run_id": "r", "agent_id": "demo", "session_id": "session-of-r", "lane": "default",
            "status": "queued", "attempt": 0, "head": 0, "created_at": 1000, "started_at": null,
            "ended_at": null, "principal": "ann", "trigger_kind": "api",
            "agent_revision_id": "rev_1", "parent_run_id": "parent",
            "metadata": {"z": 1, "a": [1.5, "é"]}, "usage": null, "cost": null, "failure": null,
        })
    );
}

#[tokio::test]
async fn a_repeated_exchange_finds_the_run_that_the_first_made() {
    let f = open();
    let mut appender = own(&f.store, "r").await;
    write(&mut appender, frames(1..=2)).await;
    for (digest, same) in [("digest", true), ("another", false)] {
        let again = NewRun { run_id: "another-run".to_owned(), input_digest: digest.to_owned(), ..new_run("r") };
        let Created::Existing { record, same_input } = f.store.create_run(again).await.unwrap() else {
            panic!("the exchange names a run already");
        };
        assert_eq!((record.run_id.as_str(), record.head), ("r", 2));
        assert_eq!(same_input, same);
    }
    assert_eq!(f.store.run("another-run").await.unwrap(), None);
}

#[tokio::test]
async fn of_many_requests_of_one_exchange_at_once_one_makes_the_run() {
    let f = open();
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let store = f.store.clone();
            let new = NewRun { run_id: format!("r{n}"), ..new_run("r") };
            tokio::spawn(async move { store.create_run(new).await.unwrap() })
        })
        .collect();
    let mut made = 0;
    let mut names = std::collections::HashSet::new();
    for task in tasks {
        match task.await.unwrap() {
            Created::New(record) => {
                made += 1;
                names.insert(record.run_id);
            }
            Created::Existing { record, same_input } => {
                assert!(same_input);
                names.insert(record.run_id);
            }
        }
    }
    assert_eq!((made, names.len()), (1, 1));
}

#[tokio::test]
async fn a_run_id_is_taken_once() {
    let f = open();
    f.store.create_run(new_run("r")).await.unwrap();
    let other = NewRun { exchange_id: "another".to_owned(), ..new_run("r") };
    let expected = CreateError::RunIdTaken { run_id: "r".to_owned() };
    assert_eq!(f.store.create_run(other).await.unwrap_err(), expected);
    let found = f.store.run_by_exchange("session-of-r", "another").await;
    assert_eq!(found.unwrap(), None);
}

#[tokio::test]
async fn a_later_exchange_names_the_same_run_once() {
    let f = open();
    f.store.create_run(new_run("r")).await.unwrap();
    f.store.create_run(new_run("other")).await.unwrap();
    let exchange = ExchangeRecord {
        session_id: "session-of-r".to_owned(),
        exchange_id: "second".to_owned(),
        input_digest: "d2".to_owned(),
    };
    let added = f.store.add_exchange("r", exchange.clone()).await.unwrap();
    assert_eq!(added, Added::New);
    let found = f.store.run_by_exchange("session-of-r", "second").await;
    let (record, digest) = found.unwrap().unwrap();
    assert_eq!((record.run_id.as_str(), digest.as_str()), ("r", "d2"));

    // Asked again, also for another run, the answer is the run that it names.
    let changed = ExchangeRecord { input_digest: "d3".to_owned(), ..exchange.clone() };
    for (run_id, exchange, same) in [("r", exchange, true), ("other", changed, false)] {
        let Added::Existing { record, same_input } = f.store.add_exchange(run_id, exchange).await.unwrap() else {
            panic!("it names a run already");
        };
        assert_eq!((record.run_id.as_str(), same_input), ("r", same));
    }
    let unknown =
        ExchangeRecord { session_id: "s".to_owned(), exchange_id: "e".to_owned(), input_digest: String::new() };
    assert_eq!(f.store.add_exchange("x", unknown).await.unwrap_err(), AddExchangeError::UnknownRun);
}

async fn ids(store: &Store, filter: RunFilter) -> Vec<String> {
    let records = store.runs(filter).await.unwrap();
    records.into_iter().map(|record| record.run_id).collect()
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_by_every_filter() {
    let f = open();
    for n in 0..6_i64 {
        let new = NewRun {
            agent_id: if n % 2 == 0 { "even" } else { "odd" }.to_owned(),
            session_id: format!("s{}", n / 3),
            principal: (n >= 3).then(|| "ann".to_owned()),
            parent_run_id: (n % 3 == 1).then(|| "r0".to_owned()),
            status: ["queued", "running", "failed"][n as usize % 3].to_owned(),
            // Two of each millisecond: the id decides.
            created_at: n / 2,
            ..new_run(&format!("r{n}"))
        };
        f.store.create_run(new).await.unwrap();
    }
    let all = RunFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let cases = [
        (all(), "r5 r4 r3 r2 r1 r0"),
        (RunFilter { agent_id: text("even"), ..all() }, "r4 r2 r0"),
        (RunFilter { session_id: text("s1"), ..all() }, "r5 r4 r3"),
        (RunFilter { principal: text("ann"), ..all() }, "r5 r4 r3"),
        (RunFilter { parent_run_id: text("r0"), ..all() }, "r4 r1"),
        (RunFilter { parent_run_id: text("r0"), session_id: text("s1"), agent_id: text("even"), ..all() }, "r4"),
        (RunFilter { run_id: text("r"), agent_id: text("even"), ..all() }, "r4 r2 r0"),
        (RunFilter { run_id: text("r3"), ..all() }, "r3"),
        (RunFilter { run_id: text("q"), ..all() }, ""),
        (RunFilter { status: vec!["queued".to_owned(), "failed".to_owned()], ..all() }, "r5 r3 r2 r0"),
        (RunFilter { agent_id: text("odd"), session_id: text("s1"), status: vec!["failed".to_owned()], ..all() }, "r5"),
        (RunFilter { limit: 2, ..all() }, "r5 r4"),
        (RunFilter { limit: 0, ..all() }, "r5"),
    ];
    for (filter, expected) in cases {
        let found = ids(&f.store, filter.clone()).await.join(" ");
        assert_eq!(found, expected, "{filter:?}");
    }

    // Page by page the list is the same.
    let mut pages = Vec::new();
    let mut filter = RunFilter { limit: 1, ..all() };
    loop {
        let page = f.store.runs(filter.clone()).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.before = Some(last.cursor());
        pages.extend(page.into_iter().map(|record| record.run_id));
    }
    assert_eq!(pages.join(" "), "r5 r4 r3 r2 r1 r0");
}

#[tokio::test]
async fn runs_are_found_by_any_part_of_what_they_were_asked() {
    let f = open();
    let asked = |text: &str| json!({ "messages": [{ "role": "user", "content": text }] });
    for (n, text) in
        ["Where is my parcel?", "WHERE IS THE CAT", "100% \"sure\" OR not*", "Où est l'été?"].iter().enumerate()
    {
        let new = NewRun { input: asked(text), created_at: n as i64, ..new_run(&format!("r{n}")) };
        f.store.create_run(new).await.unwrap();
    }
    f.store.create_run(NewRun { input: json!({}), ..new_run("nothing") }).await.unwrap();
    let cases = [
        ("where is", "r1 r0"),
        ("parcel?", "r0"),
        // What the index would read as an operator is text like any other.
        ("\"sure\"", "r2"),
        ("OR not*", "r2"),
        ("100%", "r2"),
        ("'", ""),
        ("l'été", "r3"),
        ("dog", ""),
        ("is", ""),
    ];
    for (text, expected) in cases {
        let filter = RunFilter { prompt: Some(text.to_owned()), ..RunFilter::default() };
        assert_eq!(ids(&f.store, filter).await.join(" "), expected, "{text}");
    }
    let both = RunFilter { prompt: Some("where".to_owned()), run_id: Some("r1".to_owned()), ..RunFilter::default() };
    assert_eq!(ids(&f.store, both).await.join(" "), "r1");
    let told = f.store.prompts(vec!["r3".to_owned(), "nothing".to_owned(), "r0".to_owned(), "nobody".to_owned()]).await;
    let known = |text: &str| Some(text.to_owned());
    assert_eq!(told.unwrap(), [known("Où est l'été?"), None, known("Where is my parcel?"), None]);
}

#[tokio::test]
async fn unfinished_runs_are_those_that_have_not_ended_oldest_first_with_their_inputs() {
    let f = open();
    for (run_id, created_at) in [("late", 30), ("early", 10), ("done", 20)] {
        let new = NewRun { created_at, ..new_run(run_id) };
        f.store.create_run(new).await.unwrap();
    }
    let mut done = f.store.take_ownership("done").await.unwrap();
    write(&mut done, end(1..=1)).await;
    let unfinished = f.store.unfinished_runs().await.unwrap();
    let found: Vec<_> = unfinished.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!(found, ["early", "late"]);
}

#[tokio::test]
async fn a_session_is_made_by_its_first_run_and_counts_them() {
    let f = open();
    assert_eq!(f.store.session("s").await.unwrap(), None);
    for n in 0..2 {
        let new = NewRun {
            session_id: "s".to_owned(),
            principal: Some("ann".to_owned()),
            created_at: 10 + n,
            ..new_run(&format!("r{n}"))
        };
        f.store.create_run(new).await.unwrap();
    }
    let session = f.store.session("s").await.unwrap().unwrap();
    assert_eq!(session.principal.as_deref(), Some("ann"));
    assert_eq!((session.created_at, session.last_run_at, session.runs), (10, 11, 2));
}

#[tokio::test]
async fn of_two_principals_who_begin_a_session_at_once_one_owns_it() {
    let f = open();
    let of = |run: &str, principal: &str| NewRun {
        session_id: "shared".to_owned(),
        principal: Some(principal.to_owned()),
        ..full(run)
    };
    let (a, b) = tokio::join!(f.store.create_run(of("a", "alice")), f.store.create_run(of("b", "bob")));
    let refused = [&a, &b].into_iter().filter(|r| matches!(r, Err(CreateError::SessionOfAnother { .. }))).count();
    assert_eq!((a.is_ok() || b.is_ok(), refused), (true, 1));
    let owner = f.store.session("shared").await.unwrap().unwrap().principal.unwrap();
    f.store.create_run(of("c", &owner)).await.unwrap();
}

#[tokio::test]
async fn a_record_is_read_without_the_input_which_can_be_large() {
    let f = open();
    f.store.create_run(full("r")).await.unwrap();
    let record = f.store.run("r").await.unwrap().unwrap();
    // An input that cannot be read shows who reads it.
    rusqlite::Connection::open(&f.path).unwrap().execute("UPDATE inputs SET input = '{'", []).unwrap();
    assert_eq!(f.store.run("r").await.unwrap(), Some(record.clone()));
    let by_exchange = f.store.run_by_exchange("session-of-r", "exchange-of-r").await.unwrap();
    assert_eq!(by_exchange, Some((record.clone(), "digest".to_owned())));
    assert_eq!(f.store.runs(RunFilter::default()).await.unwrap(), std::slice::from_ref(&record));
    assert_eq!(f.store.unfinished_runs().await.unwrap(), [record]);
    assert!(f.store.input("r").await.is_err());
}
