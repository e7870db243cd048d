//! Attempts: which failures are tried again, what the log and AG-UI say of it, and what a stop or a restart between two of
//! them comes to.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::{
    agent, answers, bed, completed, ended, input, overloaded, patiently, request, retried, retried_after, suspended,
};
use runwire_agui::Reducer;
use runwire_bridge::{Ending, Failure, Opening};
use runwire_engine::{Agent, Engine, EngineOptions, Recovered, RetryPolicy, RunWriter, WriteError};
use runwire_frame::{Data, ErrorCode, FrameType, RunStatus, SegmentStatus};
use runwire_store::{Store, StoreOptions};
use serde_json::json;

const LONG: Duration = Duration::from_secs(600);

/// Fails in the middle of a message in each attempt but this one, in which it completes.
fn succeeds_in(attempt: u32) -> Agent {
    agent("a", move |exchange, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text(&format!("Attempt {}", exchange.attempt)).await?;
        if exchange.attempt < attempt {
            return Err(overloaded());
        }
        message.end(Ending::completed()).await?;
        Ok(completed())
    })
}

/// What an agent inside of the run calls is its own, and in each attempt that is another one.
#[tokio::test]
async fn a_further_attempt_may_make_its_agents_calls_again_by_their_ids() {
    let again = agent("a", |exchange, starting| async move {
        let writer = starting.begin(None);
        let scout = writer.agent(Opening::named("scout")).await?;
        let call = writer.tool("call", "look", Opening::default().inside(scout.id())).await?;
        call.arguments("{}").await?;
        if exchange.attempt == 1 {
            return Err(overloaded());
        }
        call.arguments_complete().await?;
        call.end(Ending::completed()).await?;
        scout.end(Ending::completed()).await?;
        Ok(completed())
    });
    let bed = bed([retried(2, again)]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
    let events: Vec<_> = log.events.iter().map(runwire_agui::Event::to_value).collect();
    let started = events.iter().filter(|event| event["type"] == "TOOL_CALL_START");
    assert_eq!(started.map(|event| event["toolCallId"].clone()).collect::<Vec<_>>(), ["call", "call.2"]);
    let arguments = events.iter().rfind(|event| event["type"] == "TOOL_CALL_ARGS").unwrap();
    assert_eq!((&arguments["toolCallId"], &arguments["delta"]), (&json!("call.2"), &json!("{}")));
}

/// However long a conversation is, its client calls a thing as it was told.
#[tokio::test]
async fn the_names_that_a_client_was_told_go_on_from_run_to_run() {
    let given = Arc::new(Mutex::new(Vec::new()));
    let seen = given.clone();
    let again = agent("a", move |exchange, starting| {
        let seen = seen.clone();
        async move {
            let writer = starting.begin(None);
            *seen.lock().unwrap() = exchange.input.messages.clone();
            if exchange.input.messages.len() == 1 {
                let scout = writer.agent(Opening::named("scout")).await?;
                let call = writer.tool("call", "look", Opening::default().inside(scout.id())).await?;
                call.arguments("{}").await?;
                if exchange.attempt == 1 {
                    return Err(overloaded());
                }
                call.arguments_complete().await?;
                call.end(Ending::completed()).await?;
                scout.end(Ending::completed()).await?;
            }
            Ok(completed())
        }
    });
    let bed = bed([retried(2, again)]);
    let first = bed.create(request("a", input("t", "r0"))).await.unwrap().record.run_id;
    let log = bed.ended(&first).await;
    let mut client = Reducer::from_input(&input("t", "r0"));
    for (index, event) in log.events.iter().enumerate() {
        assert_eq!(client.apply(event.clone(), index), None);
    }
    let mut asked = input("t", "r0");
    asked.messages = client.messages().cloned().collect();
    let result = json!({ "id": "shown", "role": "tool", "toolCallId": "call.2", "content": "ok" });
    asked.messages.push(serde_json::from_value(result).unwrap());
    // More than are looked at.
    for number in 1..=102 {
        asked.run_id = format!("r{number}");
        let next = bed.create(request("a", asked.clone())).await.unwrap().record.run_id;
        bed.ended(&next).await;
        let given = given.lock().unwrap().clone();
        assert_eq!(given[1].tool_calls()[0].id, "call", "in run {number}");
        assert_eq!(serde_json::to_value(&given[2]).unwrap()["toolCallId"], "call", "in run {number}");
    }
}

/// What a client was told by its earlier runs is looked up in their logs, and one of those may not be there any more.
#[tokio::test]
async fn a_damaged_log_of_an_earlier_run_takes_nothing_from_the_next_run() {
    for damage in ["DELETE FROM frames", "UPDATE frames SET body = x'7b7d'"] {
        let damage = format!("{damage} WHERE seq = 3 AND run = (SELECT id FROM runs WHERE run_id = ?1)");
        let bed = bed([retried(2, succeeds_in(2))]);
        let earlier = bed.create(request("a", input("t", "r1"))).await.unwrap().record.run_id;
        assert_eq!(bed.ended(&earlier).await.ending(), "completed");
        // So that its frames are in the file alone.
        patiently(async {
            while bed.store.live_runs() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let file = rusqlite::Connection::open(bed.dir.path().join("runwire.db")).unwrap();
        assert_eq!(file.execute(&damage, [&earlier]).unwrap(), 1, "{damage}");
        let readable = async |run_id: &str| {
            let read = bed.store.read(run_id, 0, 1000).await;
            read.is_ok_and(|entries| entries.iter().all(|entry| runwire_frame::Frame::decode(&entry.body()).is_ok()))
        };
        assert!(!readable(&earlier).await, "{damage}");

        let mut asked = input("t", "r2");
        asked.messages.push(serde_json::from_value(json!({ "id": "x.2", "role": "user", "content": "And?" })).unwrap());
        let next = bed.create(request("a", asked)).await.unwrap().record.run_id;
        let log = bed.ended(&next).await;
        assert_eq!(log.ending(), "completed", "{damage}: {}", log.dump());
    }
}

#[tokio::test]
async fn a_retryable_failure_is_tried_again_and_the_run_has_one_end() {
    let bed = bed([retried(3, succeeds_in(3))]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed");
    use RunStatus::{Completed, Retrying, Running};
    assert_eq!(log.statuses(), [Running, Retrying, Running, Retrying, Running, Completed]);
    let starts = log.frames.iter().filter_map(|frame| match &frame.data {
        Data::RunStart(start) => Some((start.attempt, start.extra["agui"]["input"].clone())),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    assert_eq!(starts.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(starts.iter().all(|(_, input)| *input == starts[0].1), "each attempt is asked the same");
    assert_eq!(log.types().iter().filter(|of| **of == FrameType::RunEnd).count(), 1, "run.end is the last attempt's");
    use SegmentStatus::Abandoned;
    assert_eq!(log.segment_ends(), [Abandoned, Abandoned, SegmentStatus::Completed]);
    let errors = log.frames.iter().filter_map(|frame| match &frame.data {
        Data::Error(error) => Some((error.code, error.retryable)),
        _ => None,
    });
    assert_eq!(errors.collect::<Vec<_>>(), [(ErrorCode::ModelError, true); 2]);
    // As AG-UI it is one run, which takes back what the abandoned attempts said.
    let types = log.event_types();
    assert_eq!(types.iter().filter(|name| **name == "RUN_STARTED").count(), 1);
    assert_eq!(types.iter().filter(|name| **name == "MESSAGES_SNAPSHOT").count(), 2);
    assert!(!types.contains(&"RUN_ERROR"));
    let record = bed.record(&log.run_id).await;
    assert_eq!((record.attempt, record.failure), (3, None));
}

#[tokio::test]
async fn the_last_attempts_failure_is_the_runs() {
    let bed = bed([retried(2, succeeds_in(9))]);
    let log = bed.run("a").await;
    assert_eq!((log.ending(), log.failure_class()), ("failed", Some("MODEL_ERROR")));
    assert_eq!(log.segment_ends(), [SegmentStatus::Abandoned, SegmentStatus::Failed]);
    assert_eq!(bed.record(&log.run_id).await.attempt, 2);
}

#[tokio::test]
async fn what_is_not_retryable_a_code_that_is_not_named_and_a_panic_are_not_tried_again() {
    let mut named = retried(
        5,
        agent("named", |_, _| async {
            Err(Failure { retryable: true, ..Failure::new(ErrorCode::ToolError, "the tool is not there") })
        }),
    );
    named.policy.retry.codes = Some(vec![ErrorCode::ModelError]);
    let bed = bed([
        retried(5, agent("final", |_, _| async { Err(Failure::new(ErrorCode::AuthFailed, "the key is wrong")) })),
        named,
        retried(5, agent("panics", |_, _| async { panic!("a bug does the same again") })),
    ]);
    for id in ["final", "named", "panics"] {
        let log = bed.run(id).await;
        assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Failed], "{id}");
        assert_eq!(log.error().2, id == "named", "it is said truthfully whether it may pass");
    }
}

#[tokio::test]
async fn a_run_that_waits_for_its_next_attempt_is_stopped_at_once_and_nothing_else_starts() {
    let executed = Arc::new(AtomicUsize::new(0));
    let count = executed.clone();
    let failing = agent("a", move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Err(overloaded()) }
    });
    let bed = bed([retried_after(LONG, 9, failing)]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Retrying).await;
    let (first, second) = tokio::join!(bed.engine.cancel(&run_id), bed.engine.cancel(&run_id));
    first.unwrap();
    second.unwrap();
    let log = bed.ended(&run_id).await;
    use RunStatus::{Cancelled, Cancelling, Retrying, Running};
    assert_eq!(log.statuses(), [Running, Retrying, Cancelling, Cancelled]);
    assert_eq!(log.last_event()["outcome"]["type"], "cancelled");
    assert_eq!(executed.load(Ordering::SeqCst), 1);
    bed.idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_at_any_moment_of_failing_attempts_has_one_outcome() {
    let bed = bed([retried_after(Duration::ZERO, 40, succeeds_in(20))]);
    let mut endings = Vec::new();
    for number in 0..60 {
        let run_id = bed.start("a").await;
        fixture::moment(number * 7).await;
        bed.engine.cancel(&run_id).await.unwrap();
        let log = bed.ended(&run_id).await;
        let statuses = log.statuses();
        if let Some(at) = statuses.iter().position(|status| *status == RunStatus::Cancelling) {
            assert_eq!(statuses[at + 1..], [RunStatus::Cancelled], "{}", log.dump());
        }
        endings.push(log.ending());
    }
    assert!(endings.contains(&"cancelled"), "{endings:?}");
    assert!(endings.iter().all(|ending| ["cancelled", "completed"].contains(ending)), "{endings:?}");
    bed.idle().await;
}

#[tokio::test]
async fn a_driver_is_not_tried_again_after_a_stop() {
    let bed = bed([retried(
        9,
        agent("a", |exchange, starting| async move {
            starting.begin(None);
            exchange.stop.cancelled().await;
            Err(overloaded())
        }),
    )]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Cancelling, RunStatus::Cancelled]);
}

#[tokio::test]
async fn a_handle_of_an_abandoned_attempt_writes_nothing_into_the_next() {
    let left: Arc<Mutex<Option<RunWriter>>> = Arc::default();
    let kept = left.clone();
    let bed = bed([retried(
        2,
        agent("a", move |exchange, starting| {
            let kept = kept.clone();
            async move {
                let writer = starting.begin(None);
                if exchange.attempt == 1 {
                    *kept.lock().unwrap() = Some(writer);
                    return Err(overloaded());
                }
                let old = kept.lock().unwrap().take().unwrap();
                assert!(matches!(old.custom("late", json!(1)).await, Err(WriteError::Ended)));
                Ok(completed())
            }
        }),
    )]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
}

#[tokio::test]
async fn an_exchange_that_answers_is_tried_again_with_its_answer() {
    let bed = bed([retried(
        2,
        agent("a", |exchange, starting| async move {
            let writer = starting.begin(None);
            if !exchange.resumed {
                return Ok(suspended(&["i1"]));
            }
            assert_eq!(exchange.input.resume()[0].interrupt_id, "i1");
            assert_eq!(exchange.interrupts[0].id, "i1");
            let message = writer.message(Opening::default()).await?;
            message.text(&format!("{} ", exchange.attempt)).await?;
            if exchange.attempt == 1 {
                return Err(overloaded());
            }
            message.end(Ending::completed()).await?;
            Ok(completed())
        }),
    )]);
    let run_id = bed.create(request("a", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.create(request("a", answers("t", "r2", &["i1"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    use RunStatus::{Completed, Retrying, Running, Suspended};
    assert_eq!(log.statuses(), [Running, Suspended, Running, Retrying, Running, Completed]);
    assert_eq!(log.text(), "1 2 ");
}

/// An engine that is gone without a word, as by a crash, at this moment of a run; then another on the same store.
fn crash_and_restart(before: Agent, at: RunStatus, after: Agent) -> (Recovered, fixture::Log) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runwire.db");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let run_id = runtime.block_on(async {
        let engine = Engine::new(store.clone(), [before], EngineOptions::default());
        let run_id = engine.create_run(fixture::prompt("a")).await.unwrap().record.run_id;
        patiently(async {
            while store.run(&run_id).await.unwrap().unwrap().status != at.as_str() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        run_id
    });
    runtime.shutdown_background();
    store.close();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&path, StoreOptions::default()).unwrap();
        let engine = Engine::new(store.clone(), [after], EngineOptions::default());
        let recovered = engine.recover().await.unwrap();
        assert_eq!(recovered.len(), 1, "{recovered:?}");
        let log = ended(&store, &run_id).await;
        patiently(engine.shutdown(LONG)).await;
        (recovered[0].1, log)
    })
}

/// Is refused in its first attempt by something that asks to be left alone for so long.
fn limited(wait: Duration) -> Agent {
    agent("a", move |exchange, starting| async move {
        starting.begin(None);
        if exchange.attempt == 1 {
            return Err(Failure { retry_after: Some(wait), ..overloaded() });
        }
        Ok(completed())
    })
}

const HOUR: Duration = Duration::from_secs(3600);

/// With a first pause of hardly anything, and a longest one of three hours.
fn patient(mut agent: Agent) -> Agent {
    agent.policy.retry =
        RetryPolicy { max_attempts: 2, backoff: Duration::from_millis(1), max_backoff: 3 * HOUR, codes: None };
    agent
}

#[tokio::test]
async fn what_asks_to_be_left_alone_is_left_alone_also_by_the_next_server() {
    let bed = bed([patient(limited(2 * HOUR))]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Retrying).await;
    let log = fixture::so_far(&bed.store, &run_id).await;
    let failed_at = log.frames.last().unwrap().ts.unix_millis();
    let due = bed.store.wakes_at(&run_id).await.unwrap();
    let hour = i64::try_from(HOUR.as_millis()).unwrap();
    assert!(due.is_some_and(|due| (failed_at + 2 * hour..failed_at + 3 * hour).contains(&due)), "{due:?}");
    assert!(
        bed.store.due(i64::MAX, 10).await.unwrap().is_empty(),
        "it is no deadline of a run that waits for an answer"
    );
    patiently(bed.engine.shutdown(LONG)).await;

    let other = retried(1, agent("other", |_, _| async { Ok(completed()) }));
    let next = Engine::new(bed.store.clone(), [patient(limited(2 * HOUR)), other], EngineOptions::default());
    assert_eq!(next.recover().await.unwrap(), [(run_id.clone(), Recovered::Retrying)]);
    let meanwhile = next.create_run(fixture::prompt("other")).await.unwrap().record.run_id;
    bed.ended(&meanwhile).await;
    assert_eq!(bed.record(&run_id).await.status, "retrying");
    assert_eq!(bed.store.wakes_at(&run_id).await.unwrap(), due, "it is as it was");
    next.cancel(&run_id).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
    assert_eq!(bed.store.wakes_at(&run_id).await.unwrap(), None);
}

#[tokio::test]
async fn what_asks_for_more_than_the_longest_pause_fails_at_once_and_says_why() {
    let bed = bed([patient(limited(4 * HOUR))]);
    let log = bed.run("a").await;
    assert_eq!((log.ending(), log.error().2), ("failed", true), "later it may well succeed");
    let Some(Data::RunEnd(end)) = log.frames.last().map(|frame| frame.data.clone()) else { panic!("it has ended") };
    let detail = end.failure_detail.unwrap();
    assert!(detail.contains("the model is overloaded; it is not tried again"), "{detail}");
    assert!(detail.contains("14400s") && detail.contains("10800s"), "{detail}");
    let dump = log.dump();
    assert!(!dump.contains("retry_after") && !dump.contains("retryAfter"), "no frame has a key for it: {dump}");
}

/// The time that a run sat out under one server counts for the next: a pause is over when it would have been.
#[tokio::test]
async fn a_pause_that_was_over_while_no_server_was_there_is_not_begun_anew() {
    let bed = bed([retried_after(LONG, 2, succeeds_in(2))]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Retrying).await;
    patiently(bed.engine.shutdown(LONG)).await;
    let head = bed.record(&run_id).await.head;
    // As if the store had lain there for as long as the pause is.
    assert!(bed.store.put_off(&run_id, head, Some(1)).await.unwrap());
    let next = Engine::new(bed.store.clone(), [retried_after(LONG, 2, succeeds_in(2))], EngineOptions::default());
    assert_eq!(next.recover().await.unwrap(), [(run_id.clone(), Recovered::Retrying)]);
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "Attempt 1Attempt 2"));
    assert_eq!(bed.store.wakes_at(&run_id).await.unwrap(), None);
}

#[tokio::test]
async fn an_attempt_that_follows_a_lost_server_is_put_off_from_when_that_was_noticed() {
    let bed = bed([hangs()]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    let next = Engine::new(bed.store.clone(), [retried_after(LONG, 2, hangs())], EngineOptions::default());
    assert_eq!(next.recover().await.unwrap(), [(run_id.clone(), Recovered::Retrying)]);
    let log = fixture::so_far(&bed.store, &run_id).await;
    let failed_at = log.frames.last().unwrap().ts.unix_millis();
    let pause = bed.store.wakes_at(&run_id).await.unwrap().unwrap() - failed_at;
    let long = i64::try_from(LONG.as_millis()).unwrap();
    assert!((long / 2..=long).contains(&pause), "{pause}");
    patiently(next.shutdown(LONG)).await;
}

fn hangs() -> Agent {
    agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text("Half").await?;
        std::future::pending().await
    })
}

#[test]
fn a_run_that_waited_for_its_next_attempt_when_the_server_died_goes_on() {
    let (recovered, log) =
        crash_and_restart(retried_after(LONG, 2, succeeds_in(2)), RunStatus::Retrying, retried(2, succeeds_in(2)));
    assert_eq!((recovered, log.ending()), (Recovered::Retrying, "completed"), "{}", log.dump());
    assert_eq!(log.text(), "Attempt 1Attempt 2");
}

#[test]
fn a_run_that_was_executed_when_the_server_died_has_its_next_attempt_if_one_is_left() {
    let (recovered, log) = crash_and_restart(hangs(), RunStatus::Running, retried(2, succeeds_in(2)));
    assert_eq!((recovered, log.ending()), (Recovered::Retrying, "completed"), "{}", log.dump());
    assert_eq!(log.error().0, "INTERNAL_ERROR");
    assert_eq!(log.segment_ends().last(), Some(&SegmentStatus::Completed));
    let (recovered, log) = crash_and_restart(hangs(), RunStatus::Running, succeeds_in(1));
    assert_eq!((recovered, log.ending()), (Recovered::Failed, "failed"), "{}", log.dump());
}

#[test]
fn a_run_whose_agent_is_gone_after_the_restart_fails_and_says_why() {
    let other = agent("other", |_, _| async { Ok(completed()) });
    for (before, at) in [(hangs(), RunStatus::Running), (retried_after(LONG, 2, succeeds_in(2)), RunStatus::Retrying)] {
        let (recovered, log) = crash_and_restart(before, at, other.clone());
        assert_eq!((recovered, log.ending()), (Recovered::Failed, "failed"));
        assert!(log.dump().contains("its agent `a` is not configured here any more"), "{}", log.dump());
    }
}

#[tokio::test]
async fn a_shutdown_between_two_attempts_waits_for_nothing_and_leaves_the_run_to_the_next_server() {
    let bed = bed([retried_after(LONG, 2, succeeds_in(2))]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Retrying).await;
    patiently(bed.engine.shutdown(LONG)).await;
    assert_eq!(bed.record(&run_id).await.status, "retrying");
    let next = Engine::new(bed.store.clone(), [retried(2, succeeds_in(2))], EngineOptions::default());
    assert_eq!(next.recover().await.unwrap(), [(run_id.clone(), Recovered::Retrying)]);
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
}

#[tokio::test]
async fn what_a_shutdown_cuts_off_has_its_next_attempt_on_the_next_server() {
    let bed = bed([retried(2, hangs())]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    patiently(bed.engine.shutdown(Duration::ZERO)).await;
    assert_eq!(bed.record(&run_id).await.status, "retrying");
    let next = Engine::new(bed.store.clone(), [retried(2, succeeds_in(2))], EngineOptions::default());
    next.recover().await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
}

#[tokio::test]
async fn a_run_that_nobody_has_in_hand_is_taken_over_while_the_server_runs() {
    let bed = bed([hangs()]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    // To this engine the run is one whose task is lost: it has nothing of it in hand.
    let options = EngineOptions { orphan_check: Duration::from_millis(5), ..EngineOptions::default() };
    let engine = Engine::new(bed.store.clone(), [hangs()], options);
    let own = engine.create_run(fixture::prompt("a")).await.unwrap().record.run_id;
    bed.reaches(&own, RunStatus::Running).await;
    engine.watch_for_orphans();
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.error().0), ("failed", "INTERNAL_ERROR"));
    assert_eq!(bed.record(&own).await.status, "running", "what it has in hand it leaves alone");
    patiently(engine.shutdown(Duration::ZERO)).await;
}
