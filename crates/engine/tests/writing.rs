//! What a driver writes: whole, in order, bounded on its way to the store, and nothing that a client would reject.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fixture::{agent, bed, completed, patiently};
use runwire_agui::Event;
use runwire_bridge::{COALESCE_BYTES, Ending, Opening, ToolOutput};
use runwire_engine::WriteError;
use runwire_frame::{Data, FrameType, MAX_VALUE_DEPTH, NoticeLevel};
use serde_json::{Value, json};
use tokio::sync::Notify;

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
