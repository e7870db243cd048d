//! A run from its creation to its end, whatever its driver does.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fixture::{agent, bed, completed};
use runwire_bridge::{Ending, ExchangeEnd, Failure, Opening};
use runwire_engine::WriteError;
use runwire_engine::drivers::{DemoDriver, DemoOptions};
use runwire_frame::{ErrorCode, FrameType, RunStatus, SegmentStatus};
use serde_json::json;
use tokio::sync::{Mutex, Notify, oneshot};

#[tokio::test]
async fn a_driver_that_completes_completes_its_run() {
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text("Fine.").await?;
        message.end(Ending::completed()).await?;
        Ok(completed())
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Completed]);
    assert_eq!(log.text(), "Fine.");
    assert!(!log.has_error());
    assert_eq!(
        log.event_types(),
        ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    );
    bed.idle().await;
    assert_eq!(bed.store.unfinished_runs().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_run_is_queued_and_its_log_empty_until_its_driver_begins_it() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let bed = bed([agent("a", move |_, starting| {
        let gate = opened.clone();
        async move {
            gate.notified().await;
            starting.begin(None);
            Ok(completed())
        }
    })]);
    let started = bed.create(fixture::prompt("a")).await.unwrap();
    assert!(!started.existing);
    let record = bed.record(&started.record.run_id).await;
    assert_eq!((record.status.as_str(), record.head, record.attempt), ("queued", 0, 0));
    gate.notify_one();
    let log = bed.ended(&started.record.run_id).await;
    assert_eq!(log.types()[..2], [FrameType::RunStart, FrameType::RunStatus]);
}

#[tokio::test]
async fn a_driver_that_ends_before_it_begins_has_its_run_begun_for_it() {
    let bed = bed([
        agent("done", |_, _| async { Ok(completed()) }),
        agent("failed", |_, _| async { Err(Failure::new(ErrorCode::AuthFailed, "the key is wrong")) }),
        agent("cancelled", |_, _| async { Ok(fixture::cancelled()) }),
        agent("suspended", |_, _| async { Ok(fixture::suspended(&["i1"])) }),
    ]);
    for (id, statuses) in [
        ("done", [RunStatus::Running, RunStatus::Completed]),
        ("failed", [RunStatus::Running, RunStatus::Failed]),
        ("cancelled", [RunStatus::Running, RunStatus::Cancelled]),
    ] {
        assert_eq!(bed.run(id).await.statuses(), statuses, "{id}");
    }
    let run_id = bed.start("suspended").await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let log = fixture::so_far(&bed.store, &run_id).await;
    assert_eq!(log.event_types(), ["RUN_STARTED", "RUN_FINISHED"]);
}

#[tokio::test]
async fn a_failure_that_a_driver_returns_is_told_as_it_is() {
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text("Half of it").await?;
        Err(Failure {
            retryable: true,
            detail: Some("HTTP 529 from the provider".to_owned()),
            ..Failure::new(ErrorCode::ModelError, "the model is overloaded")
        })
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Failed]);
    assert_eq!(log.error(), ("MODEL_ERROR", "the model is overloaded", true));
    assert_eq!(log.failure_class(), Some("MODEL_ERROR"));
    assert_eq!(log.segment_ends(), [SegmentStatus::Failed]);
    assert_eq!(log.text(), "Half of it", "what was delivered before stays");
    assert_eq!(log.last_event()["code"], "MODEL_ERROR");
    let record = bed.record(&log.run_id).await;
    assert_eq!(record.failure.unwrap()["detail"], "HTTP 529 from the provider");
}

/// Panics when it is dropped unless told that all is well.
struct Brittle;

impl Drop for Brittle {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test]
async fn a_panic_fails_its_own_run_and_no_other() {
    let bed = bed([
        agent("at once", |_, _| async { panic!("no agent today") }),
        agent("after begin", |_, starting| async move {
            starting.begin(None);
            panic!("{} agents today", 0)
        }),
        agent("in a message", |_, starting| async move {
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            message.text("Half").await?;
            message.text(" of it").await?;
            panic!("no agent today")
        }),
        agent("with something odd", |_, _| async { std::panic::panic_any(7) }),
        agent("steady", |exchange, starting| async move {
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            for number in 0..50 {
                message.text(&format!("{number} ")).await?;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            message.end(Ending::completed()).await?;
            assert!(!exchange.stop.is_cancelled());
            Ok(completed())
        }),
    ]);
    let steady = bed.start("steady").await;
    for (id, said) in [
        ("at once", "no agent today"),
        ("after begin", "0 agents today"),
        ("in a message", "no agent today"),
        ("with something odd", "without a message"),
    ] {
        let log = bed.run(id).await;
        assert_eq!(log.ending(), "failed", "{id}");
        assert_eq!(log.failure_class(), Some("INTERNAL_ERROR"), "{id}");
        let (code, message, _) = log.error();
        assert_eq!(code, "INTERNAL_ERROR", "{id}");
        assert!(!message.contains(said), "what a panic says is for the operator, not for the user: {message}");
        let detail = bed.record(&log.run_id).await.failure.unwrap()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(said), "{detail}");
        if id == "in a message" {
            assert_eq!(log.text(), "Half of it", "the delta that waited is not lost");
            assert_eq!(log.segment_ends(), [SegmentStatus::Failed]);
        }
    }
    let log = bed.ended(&steady).await;
    assert_eq!(log.ending(), "completed");
    assert_eq!(log.text(), (0..50).map(|n| format!("{n} ")).collect::<String>());
}

#[tokio::test]
async fn a_driver_that_panics_while_it_is_dropped_still_has_its_log_ended() {
    let bed = bed([agent("a", |_, starting| async move {
        let _brittle = Brittle;
        starting.begin(None);
        std::future::pending().await
    })]);
    let run_id = bed.start("a").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    bed.engine.cancel(&run_id).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
    bed.idle().await;
}

#[tokio::test]
async fn handles_that_are_dropped_without_an_end_are_closed_with_the_run() {
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let step = writer.step(Opening::named("search")).await?;
        let model = writer.model(Opening::default().inside(step.id())).await?;
        model.thinking("hm").await?;
        let message = writer.message(Opening::default().inside(model.id())).await?;
        message.text("So ").await?;
        message.text("far").await?;
        let tool = writer.tool("call_1", "search", Opening::default().inside(model.id())).await?;
        tool.arguments("{\"q\":").await?;
        drop((tool, message, model, step));
        Ok(completed())
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed");
    assert_eq!(log.text(), "So far");
    assert_eq!(log.segment_ends(), [SegmentStatus::Completed; 4]);
}

#[tokio::test]
async fn nothing_is_written_after_the_run_ended_however_long_a_handle_is_kept() {
    let (kept, keeps) = oneshot::channel();
    let kept = Arc::new(Mutex::new(Some(kept)));
    let bed = bed([agent("a", move |_, starting| {
        let kept = kept.clone();
        async move {
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            let _ = kept.lock().await.take().unwrap().send((writer, message));
            Ok(completed())
        }
    })]);
    let log = bed.run("a").await;
    let (writer, message) = keeps.await.unwrap();
    assert!(matches!(message.text("late").await, Err(WriteError::Ended)));
    assert!(matches!(message.end(Ending::completed()).await, Err(WriteError::Ended)));
    assert!(matches!(writer.custom("late", json!(1)).await, Err(WriteError::Ended)));
    assert!(matches!(writer.message(Opening::default()).await, Err(WriteError::Ended)));
    assert_eq!(bed.ended(&log.run_id).await.frames, log.frames, "G6: after run.end nothing follows");
}

#[tokio::test]
async fn a_driver_that_suspends_without_anything_to_answer_fails_its_run() {
    let bed = bed([
        agent("nothing", |_, _| async { Ok(fixture::suspended(&[])) }),
        agent("twice", |_, _| async { Ok(fixture::suspended(&["i1", "i1"])) }),
    ]);
    for (id, problem) in [("nothing", "there is none"), ("twice", "`i1`")] {
        let log = bed.run(id).await;
        let (code, message, _) = log.error();
        assert_eq!((log.ending(), code), ("failed", "INTERNAL_ERROR"));
        assert!(message.contains(problem), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_leaves_while_its_run_is_created_leaves_a_run_that_goes_on() {
    let executed = Arc::new(AtomicUsize::new(0));
    let count = executed.clone();
    let bed = bed([agent("a", move |_, starting| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            starting.begin(None);
            Ok(completed())
        }
    })]);
    let left = Arc::new(AtomicBool::new(false));
    for number in 0..50 {
        let create = fixture::request("a", fixture::input("t", &format!("r{number}")));
        let engine = bed.engine.clone();
        let creating = tokio::spawn(async move { engine.create_run(create).await });
        for _ in 0..number % 7 {
            tokio::task::yield_now().await;
        }
        creating.abort();
        left.fetch_or(creating.await.is_err(), Ordering::SeqCst);
        // The repeated request finds the run that the first one made, or makes it.
        let create = fixture::request("a", fixture::input("t", &format!("r{number}")));
        let started = bed.create(create).await.unwrap();
        assert_eq!(bed.ended(&started.record.run_id).await.ending(), "completed");
    }
    assert!(left.load(Ordering::SeqCst), "some requests were given up in the middle");
    bed.idle().await;
    assert_eq!(executed.load(Ordering::SeqCst), 50, "each exchange was executed once");
}

#[tokio::test]
async fn an_exchange_end_says_its_usage_in_the_run_end() {
    let bed = bed([agent("a", |_, starting| async move {
        starting.begin(None);
        let usage = runwire_frame::Usage {
            provider: Some("p".into()),
            model: Some("m".into()),
            input_tokens: Some(3),
            output_tokens: Some(4),
            total_tokens: Some(7),
            ..Default::default()
        };
        Ok(ExchangeEnd::Completed(runwire_bridge::Completion { usage: vec![usage], ..Default::default() }))
    })]);
    let log = bed.run("a").await;
    assert_eq!(bed.record(&log.run_id).await.usage.unwrap()[0]["total_tokens"], 7);
    assert_eq!(log.last_event()["usage"][0]["totalTokens"], 7);
}

/// basic/run-input: an agent that cannot use a content part does not fail for it, and says that it was skipped.
#[tokio::test]
async fn the_demo_agent_says_which_parts_of_a_message_it_does_not_read() {
    let demo = DemoDriver::new(DemoOptions { pace: Duration::ZERO, repeat: 1 });
    let bed = bed([fixture::driven_by("demo", demo)]);
    let image = json!({ "type": "image", "source": { "type": "url", "value": "https://example.com/a.png" } });
    let text = json!({ "type": "text", "text": "What is this?" });
    for (content, skipped) in [(json!([text, image, image]), true), (json!([text]), false), (json!("Hi"), false)] {
        let mut input = fixture::input(&format!("t {content}"), "r");
        let message = json!({ "id": "m", "role": "user", "content": content });
        input.messages = vec![serde_json::from_value(message).unwrap()];
        let run_id = bed.create(fixture::request("demo", input)).await.unwrap().record.run_id;
        let log = bed.ended(&run_id).await;
        assert_eq!(log.ending(), "completed");
        let said: Vec<_> = log.notices().into_iter().filter(|(code, _)| *code == "parts_skipped").collect();
        assert_eq!(said.len(), usize::from(skipped), "{content}");
        assert!(said.iter().all(|(_, message)| message.starts_with("2 parts")), "{said:?}");
    }
}
