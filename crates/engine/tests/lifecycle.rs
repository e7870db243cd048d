//! A run from its creation to its end, whatever its driver does.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fixture::{agent, bed, completed, patiently};
use runwire_agui::Event;
use runwire_bridge::{COALESCE_BYTES, Ending, ExchangeEnd, Failure, Opening, ToolOutput};
use runwire_engine::WriteError;
use runwire_frame::{Data, ErrorCode, FrameType, MAX_VALUE_DEPTH, NoticeLevel, RunStatus, SegmentStatus};
use serde_json::{Value, json};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_tasks_write_at_once_and_each_message_stays_whole_and_in_order() {
    const TASKS: usize = 20;
    const PIECES: usize = 60;
    fn piece(task: usize, number: usize) -> String {
        format!("{task}:{number} ")
    }
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let mut messages = Vec::new();
        for task in 0..TASKS {
            messages.push(writer.message(Opening::named(format!("author-{task}"))).await?);
        }
        let writers = messages.into_iter().enumerate().map(|(task, message)| {
            let writer = writer.clone();
            tokio::spawn(async move {
                for number in 0..PIECES {
                    message.text(&piece(task, number)).await?;
                    match number % 10 {
                        3 => writer.custom("tick", json!({ "task": task, "number": number })).await?,
                        7 => tokio::time::sleep(Duration::from_millis(1)).await,
                        _ => tokio::task::yield_now().await,
                    }
                }
                // Every other one is left to the run's end.
                if task % 2 == 0 {
                    message.end(Ending::completed()).await?;
                }
                Ok::<(), WriteError>(())
            })
        });
        for task in writers.collect::<Vec<_>>() {
            task.await.expect("no writer panics")?;
        }
        Ok(completed())
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed");
    let texts: Vec<String> = log.texts().into_values().collect();
    let mut expected: Vec<String> =
        (0..TASKS).map(|task| (0..PIECES).map(|number| piece(task, number)).collect()).collect();
    let mut found = texts.clone();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);

    let mut by_message = BTreeMap::<String, String>::new();
    for event in &log.events {
        if let Event::TextMessageContent(content) = event {
            by_message.entry(content.message_id.clone()).or_default().push_str(&content.delta);
        }
    }
    let mut shown: Vec<String> = by_message.into_values().collect();
    shown.sort();
    assert_eq!(shown, expected, "an AG-UI client holds the same texts");
    assert_eq!(log.notices().len(), TASKS * PIECES / 10);
}

#[tokio::test]
async fn a_delta_that_waits_to_be_joined_reaches_the_store_without_any_other_write() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let bed = bed([agent("a", move |_, starting| {
        let gate = opened.clone();
        async move {
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            message.text("first").await?;
            for piece in [" second", " third", " fourth"] {
                message.text(piece).await?;
            }
            gate.notified().await;
            // The timer starts anew for what waits next.
            message.text(" fifth").await?;
            gate.notified().await;
            message.end(Ending::completed()).await?;
            Ok(completed())
        }
    })]);
    let run_id = bed.start("a").await;
    let text_is = |wanted: &'static str| {
        let (store, run_id) = (bed.store.clone(), run_id.clone());
        patiently(async move {
            while fixture::so_far(&store, &run_id).await.text() != wanted {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    text_is("first second third fourth").await;
    gate.notify_one();
    text_is("first second third fourth fifth").await;
    gate.notify_one();
    let log = bed.ended(&run_id).await;
    let deltas: Vec<&str> = log
        .frames
        .iter()
        .filter_map(|frame| match &frame.data {
            Data::TextDelta(delta) => Some(delta.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deltas[0], "first", "the first delta waits for nothing");
    assert!(deltas.len() <= 5, "{deltas:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_outpaces_the_store_waits_and_everything_it_wrote_arrives() {
    const PIECES: usize = 20_000;
    const MOST_FRAMES: u64 = 512;
    // Every piece of arguments is a frame of its own, so what is under way can be counted from outside.
    let store = Arc::new(std::sync::OnceLock::<runwire_store::Store>::new());
    let most = Arc::new(AtomicUsize::new(0));
    let (of, seen) = (store.clone(), most.clone());
    let bed = bed([agent("a", move |_, starting| {
        let (store, most) = (of.clone(), seen.clone());
        async move {
            let writer = starting.begin(None);
            let tool = writer.tool("call_1", "search", Opening::default()).await?;
            let run_id = {
                let runs = store.get().unwrap().runs(runwire_store::RunFilter::default()).await.unwrap();
                runs[0].run_id.clone()
            };
            let tail = store.get().unwrap().tail(&run_id, 0).await.unwrap();
            for number in 0..PIECES {
                tool.arguments(&format!("{number},")).await?;
                // run.start, run.status and segment.start come before.
                let written = 3 + number as u64 + 1;
                let under_way = written.saturating_sub(tail.head());
                most.fetch_max(usize::try_from(under_way).unwrap(), Ordering::Relaxed);
            }
            tool.arguments_complete().await?;
            Ok(completed())
        }
    })]);
    store.set(bed.store.clone()).unwrap();
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed");
    let whole: String = (0..PIECES).map(|number| format!("{number},")).collect();
    let complete = log.frames.iter().find_map(|frame| match &frame.data {
        Data::ToolCall(call) => call.arguments.clone(),
        _ => None,
    });
    assert_eq!(complete.as_deref(), Some(whole.as_str()));
    let pieces: String = log
        .frames
        .iter()
        .filter_map(|frame| match &frame.data {
            Data::ToolCall(call) => call.arguments_delta.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(pieces, whole);
    let most = most.load(Ordering::Relaxed) as u64;
    println!("at most {most} frames were under way at once");
    assert!(most <= MOST_FRAMES, "{most} frames were under way at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_deltas_written_as_fast_as_possible_all_arrive_in_few_frames() {
    const DELTAS: usize = 20_000;
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        for number in 0..DELTAS {
            message.text(&format!("{number} ")).await?;
        }
        message.end(Ending::completed()).await?;
        Ok(completed())
    })]);
    let log = bed.run("a").await;
    let whole: String = (0..DELTAS).map(|number| format!("{number} ")).collect();
    assert_eq!(log.text(), whole);
    let frames = log.types().iter().filter(|t| **t == FrameType::TextDelta).count();
    assert!(frames < DELTAS, "deltas are coalesced before the append");
    for frame in &log.frames {
        if let Data::TextDelta(delta) = &frame.data {
            assert!(delta.text.len() < COALESCE_BYTES + 10);
        }
    }
}

#[tokio::test]
async fn values_larger_than_what_may_be_under_way_go_to_the_store_one_by_one() {
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        // Each is larger than what may be under way; they go one by one.
        for number in 0..4 {
            let tool = writer.tool(&format!("call_{number}"), "fetch", Opening::default()).await?;
            tool.arguments("{}").await?;
            tool.arguments_complete().await?;
            let output = ToolOutput::Text(number.to_string().repeat(1_500_000));
            tool.result(true, &output).await?.end(Ending::completed()).await?;
        }
        Ok(completed())
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed");
    let results: Vec<String> = log
        .events
        .iter()
        .filter_map(|event| match event {
            Event::ToolCallResult(result) => Some(result.content.text()),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 4);
    for (number, result) in results.iter().enumerate() {
        assert_eq!(*result, number.to_string().repeat(1_500_000), "the whole is fetched behind the preview");
    }
}

/// A value that nests so many levels.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |value, _| json!([value]))
}

#[tokio::test]
async fn what_a_conforming_client_would_reject_is_refused_to_a_careless_driver_and_the_run_goes_on() {
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let refused = |what: &str, result: Result<(), WriteError>| {
            assert!(matches!(result, Err(WriteError::Refused(_))), "{what}: {result:?}");
        };
        let first = writer.tool("call_1", "search", Opening::default()).await?;
        refused("a call twice", writer.tool("call_1", "search", Opening::default()).await.map(drop));
        let other = writer.tool("call_2", "search", Opening::default()).await?;
        other.arguments("{}").await?;
        other.arguments_complete().await?;
        other.arguments_complete().await?;
        refused("arguments after all of them", other.arguments("more").await);
        let unknown = ToolOutput::Parts(vec![json!({ "type": "smell" })]);
        refused("a part that is none", other.result(true, &unknown).await.map(drop));
        first.arguments("{").await?;
        let first = first.result(false, &ToolOutput::Text("no".into())).await?;
        refused("arguments after the result", first.arguments("}").await);
        first.arguments_complete().await?;
        first.end(Ending::completed()).await?;
        // The id is free again.
        let again = writer.tool("call_1", "search", Opening::default()).await?;
        let parts = ToolOutput::Parts(vec![json!({ "type": "text", "text": "yes" })]);
        again.result(true, &parts).await?.end(Ending::completed()).await?;

        writer.state_snapshot(json!({ "n": 1 })).await?;
        refused("a patch that is no list", writer.state_delta(json!({ "n": 2 })).await);
        refused("an operation that is none", writer.state_delta(json!([{ "op": "increase" }])).await);
        writer.state_delta(json!([{ "op": "replace", "path": "/n", "value": 2 }])).await?;
        let deep = nested(MAX_VALUE_DEPTH + 1);
        refused("a deep state", writer.state_snapshot(deep.clone()).await);
        refused("a deep patch", writer.state_delta(json!([{ "op": "add", "path": "/n", "value": deep }])).await);
        refused("a deep event", writer.custom("deep", deep.clone()).await);
        let attributes = json!({ "deep": deep }).as_object().cloned();
        refused("a deep notice", writer.notice(NoticeLevel::Info, "deep", "deep", attributes).await);
        writer.state_snapshot(nested(MAX_VALUE_DEPTH)).await?;
        writer.state_snapshot(Value::Null).await?;
        writer.custom("null", Value::Null).await?;
        Ok(completed())
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
}

#[tokio::test]
async fn two_steps_of_one_name_and_a_message_inside_of_what_is_closed_still_conform() {
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let step = writer.step(Opening::named("think")).await?;
        let again = writer.step(Opening::named("think")).await?;
        step.end(Ending::completed()).await?;
        let agent = writer.agent(Opening::named("scout")).await?;
        let message = writer.message(Opening::default().inside(agent.id())).await?;
        agent.end(Ending::completed()).await?;
        again.end(Ending::completed()).await?;
        message.text("").await?;
        message.text("Still here").await?;
        message.end(Ending::completed()).await?;
        Ok(completed())
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed");
    assert_eq!(log.text(), "Still here");
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
