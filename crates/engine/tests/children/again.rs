//! The next attempt of a parent, after a failure and after a crash.

use std::sync::Mutex;

use runwire_agui::{ResumeEntry, ResumeStatus};
use runwire_engine::{ChildError, Engine, EngineOptions, ResumeRun};
use runwire_frame::RunStatus;
use runwire_store::{Store, StoreOptions};
use tokio::sync::Semaphore;

use super::*;
use crate::fixture::{bed, ended, overloaded, retried};

#[tokio::test]
async fn the_next_attempt_finds_what_has_a_key_and_does_it_once() {
    let lead = agent("lead", |exchange, starting| async move {
        let writer = starting.begin(None);
        let mut child = writer.child(ChildRun::prompt("echo", "Hello").keyed("greeting")).await?;
        let mut same = writer.child(ChildRun::prompt("echo", "Hello").keyed("greeting")).await?;
        let end = child.ended().await?;
        assert_eq!(same.ended().await?, end);
        assert_eq!(same.run_id(), child.run_id());
        if exchange.attempt == 1 {
            return Err(overloaded());
        }
        say(&writer, &told(&end)).await?;
        Ok(completed())
    });
    let bed = bed([retried(2, lead), echo()]);
    let log = bed.run("lead").await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "heard Hello"));
    assert_eq!(children(&bed, &log.run_id).await.len(), 1);
    assert_eq!(segment_ends(&log), [Some(SegmentStatus::Completed); 2], "each attempt's log shows it");
}

#[tokio::test]
async fn what_has_no_key_is_stopped_with_its_attempt_and_what_has_one_goes_on() {
    let permits = Arc::new(Semaphore::new(0));
    let gate = permits.clone();
    let gated = agent("gated", move |exchange, starting| {
        let gate = gate.clone();
        async move {
            let writer = starting.begin(None);
            tokio::select! {
                biased;
                () = exchange.stop.cancelled() => return Ok(cancelled()),
                permit = gate.acquire() => permit.unwrap().forget(),
            }
            say(&writer, "at last").await?;
            Ok(completed())
        }
    });
    let permits_of_lead = permits.clone();
    let lead = agent("lead", move |exchange, starting| {
        let permits = permits_of_lead.clone();
        async move {
            let writer = starting.begin(None);
            let mut child = writer.child(ChildRun::prompt("gated", "").keyed("work")).await?;
            if exchange.attempt == 1 {
                writer.child(ChildRun::prompt("gated", "")).await?;
                return Err(overloaded());
            }
            permits.add_permits(1);
            say(&writer, &told(&child.ended().await?)).await?;
            Ok(completed())
        }
    });
    let bed = bed([retried(2, lead), gated]);
    let log = bed.run("lead").await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "at last"));
    let mut endings = Vec::new();
    for child in children(&bed, &log.run_id).await {
        endings.push(bed.ended(&child.run_id).await.ending());
    }
    assert_eq!(endings, ["completed", "cancelled"]);
    let abandoned = Some(SegmentStatus::Abandoned);
    assert_eq!(segment_ends(&log), [abandoned, abandoned, Some(SegmentStatus::Completed)]);
}

#[tokio::test]
async fn what_an_earlier_attempt_left_behind_ends_with_the_run() {
    let lead = agent("lead", |exchange, starting| async move {
        let writer = starting.begin(None);
        if exchange.attempt == 1 {
            writer.child(ChildRun::prompt("endless", "").keyed("forgotten")).await?;
            return Err(overloaded());
        }
        Ok(completed())
    });
    let bed = bed([retried(2, lead), endless()]);
    let log = bed.run("lead").await;
    assert_eq!(log.ending(), "completed");
    let [child] = &children(&bed, &log.run_id).await[..] else { panic!("it started one") };
    assert_eq!(bed.ended(&child.run_id).await.ending(), "cancelled");
}

#[tokio::test]
async fn a_child_that_came_to_nothing_is_started_once_more_and_a_changed_one_is_refused() {
    let kept: Arc<Mutex<Vec<String>>> = Arc::default();
    let tried = kept.clone();
    let flaky = agent("flaky", move |_, starting| {
        let mut tried = tried.lock().unwrap();
        tried.push("tried".to_owned());
        let first = tried.len() == 1;
        async move {
            let writer = starting.begin(None);
            if first {
                return Err(overloaded());
            }
            say(&writer, "worked").await?;
            Ok(completed())
        }
    });
    let lead = agent("lead", |_, starting| async move {
        let writer = starting.begin(None);
        let asked = ChildRun::prompt("flaky", "one").keyed("k");
        for _ in 0..3 {
            let end = writer.child(asked.clone()).await?.ended().await?;
            say(&writer, &format!("{} ", told(&end))).await?;
        }
        let changed = writer.child(ChildRun::prompt("flaky", "another").keyed("k")).await.err().unwrap();
        assert!(matches!(&changed, ChildError::OtherRequest { key, .. } if key == "k"), "{changed}");
        Ok(completed())
    });
    let bed = bed([lead, flaky]);
    let log = bed.run("lead").await;
    assert_eq!(log.text(), "MODEL_ERROR the model is overloaded true worked worked ", "{}", log.dump());
    assert_eq!(children(&bed, &log.run_id).await.len(), 2);
}

/// A parent with a child that has a key and one that has none; in its second attempt it waits for the first.
fn lead() -> Agent {
    agent("lead", |exchange, starting| async move {
        let writer = starting.begin(None);
        let mut child = writer.child(ChildRun::prompt("work", "").keyed("work")).await?;
        if exchange.attempt == 1 {
            writer.child(ChildRun::prompt("work", "")).await?;
            exchange.stop.cancelled().await;
        }
        say(&writer, &told(&child.ended().await?)).await?;
        Ok(completed())
    })
}

/// Hangs in its first attempt.
fn work() -> Agent {
    agent("work", |exchange, starting| async move {
        let writer = starting.begin(None);
        if exchange.attempt == 1 {
            exchange.stop.cancelled().await;
            return Ok(cancelled());
        }
        say(&writer, "done after all").await?;
        Ok(completed())
    })
}

/// A server that dies while a parent and its two children are executed, and another on its store with these agents. Gives how
/// the parent and its children end, in the order in which they were started.
fn crash(agents: impl Fn() -> [Agent; 2]) -> (Log, Vec<&'static str>) {
    let dir = tempfile::tempdir().unwrap();
    let open = || Store::open(&dir.path().join("runwire.db"), StoreOptions::default()).unwrap();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = runtime();
    let store = open();
    let run_id = first.block_on(async {
        let bed = Bed {
            engine: Engine::new(store.clone(), agents(), EngineOptions::default()),
            store: store.clone(),
            dir: tempfile::tempdir().unwrap(),
        };
        let run_id = bed.start("lead").await;
        for child in has_started(&bed, &run_id, 2).await {
            bed.reaches(&child, RunStatus::Running).await;
        }
        run_id
    });
    first.shutdown_background();
    store.close();
    let store = open();
    runtime().block_on(async {
        let engine = Engine::new(store.clone(), agents(), EngineOptions::default());
        engine.recover().await.unwrap();
        let log = ended(&store, &run_id).await;
        let filter = RunFilter { parent_run_id: Some(run_id.clone()), ..RunFilter::default() };
        let mut endings = Vec::new();
        for child in store.runs(filter).await.unwrap().into_iter().rev() {
            endings.push(ended(&store, &child.run_id).await.ending());
        }
        (log, endings)
    })
}

#[test]
fn after_a_crash_the_next_attempt_finds_the_child_with_a_key_and_the_other_is_stopped() {
    let (log, endings) = crash(|| [retried(2, lead()), retried(2, work())]);
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "done after all"), "{}", log.dump());
    assert_eq!(endings, ["completed", "cancelled"]);
}

#[test]
fn after_a_crash_a_parent_without_another_attempt_takes_its_children_with_it() {
    let (log, endings) = crash(|| [lead(), retried(2, work())]);
    assert_eq!(log.ending(), "failed");
    assert_eq!(endings, ["cancelled", "cancelled"]);
}

#[tokio::test]
async fn a_child_that_once_asked_and_has_completed_since_is_told_as_completed() {
    let asking = agent("asking", |exchange, starting| async move {
        let writer = starting.begin(None);
        if exchange.resumed {
            say(&writer, "thank you").await?;
            return Ok(completed());
        }
        Ok(crate::fixture::suspended(&["i1"]))
    });
    let lead = agent("lead", |exchange, starting| async move {
        let writer = starting.begin(None);
        let mut child = writer.child(ChildRun::prompt("asking", "").keyed("question")).await?;
        let mut end = child.ended().await?;
        if exchange.attempt == 1 {
            // It asks; then it has come to its end, and the parent fails after that.
            assert!(matches!(end, ChildEnd::Suspended(_)), "{end:?}");
            end = child.ended().await?;
            assert_eq!(told(&end), "thank you");
            return Err(overloaded());
        }
        say(&writer, &told(&end)).await?;
        Ok(completed())
    });
    let bed = bed([retried(2, lead), asking]);
    let run_id = bed.start("lead").await;
    bed.shows(&run_id, |frame| matches!(&frame.data, Data::Notice(notice) if notice.code == "child_waits")).await;
    let [child] = &children(&bed, &run_id).await[..] else { panic!("it started one") };
    let answers = vec![ResumeEntry::new("i1", ResumeStatus::Resolved)];
    let resume = ResumeRun { run_id: child.run_id.clone(), answers, exchange_id: None, principal: None };
    bed.engine.resume(resume).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "thank you"), "{}", log.dump());
    assert_eq!(log.notices().iter().filter(|(code, _)| *code == "child_waits").count(), 1, "it asked once");
}

#[tokio::test]
async fn a_child_whose_log_is_damaged_does_not_keep_its_parent_for_ever() {
    let damaged = Arc::new(Semaphore::new(0));
    let gate = damaged.clone();
    let lead = agent("lead", move |exchange, starting| {
        let gate = gate.clone();
        async move {
            let writer = starting.begin(None);
            let mut child = writer.child(ChildRun::prompt("echo", "Hello").keyed("greeting")).await?;
            if exchange.attempt == 1 {
                child.ended().await?;
                gate.acquire().await.unwrap().forget();
                return Err(overloaded());
            }
            say(&writer, &told(&child.ended().await?)).await?;
            Ok(completed())
        }
    });
    let bed = bed([retried(2, lead), echo()]);
    let run_id = bed.start("lead").await;
    let [child] = &has_started(&bed, &run_id, 1).await[..] else { panic!("it started one") };
    ended(&bed.store, child).await;
    let file = rusqlite::Connection::open(bed.dir.path().join("runwire.db")).unwrap();
    let of = "run = (SELECT id FROM runs WHERE run_id = ?1)";
    for damage in [
        format!("UPDATE frames SET body = x'7b7d' WHERE {of} AND seq = 3"),
        format!("UPDATE pages SET sse = x'00' WHERE {of}"),
    ] {
        file.execute(&damage, [child.as_str()]).unwrap();
    }
    damaged.add_permits(1);
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
    assert!(log.text().contains("INTERNAL_ERROR") && log.text().contains("cannot be read"), "{}", log.text());
}
