//! What a parent is told of a child.

use std::sync::Mutex;

use runwire_agui::{ResumeEntry, ResumeStatus};
use runwire_bridge::{Completion, Failure, ToolOutput};
use runwire_engine::{ChildError, CreateRunError, ResumeRun, RunRequest};
use runwire_frame::{Data, ErrorCode, FrameType, RunStatus};
use serde_json::{Map, json};

use super::*;
use crate::fixture::{bed, suspended};

/// Waits for a child of `of` and keeps what it was told.
async fn told_of(of: Agent) -> (ChildEnd, Log) {
    let kept: Arc<Mutex<Option<ChildEnd>>> = Arc::default();
    let keep = kept.clone();
    let id = of.id.clone();
    let lead = agent("lead", move |_, starting| {
        let (keep, id) = (keep.clone(), id.clone());
        async move {
            let writer = starting.begin(None);
            let mut child = writer.child(ChildRun::prompt(id, "")).await?;
            let end = child.ended().await?;
            assert_eq!(child.ended().await?, end, "it stays what it is");
            *keep.lock().unwrap() = Some(end);
            Ok(completed())
        }
    });
    let bed = bed([lead, of]);
    let log = bed.run("lead").await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
    let end = kept.lock().unwrap().take().unwrap();
    (end, log)
}

#[tokio::test]
async fn a_child_that_completes_is_told_by_its_last_message_and_its_result() {
    let talks = agent("talks", |exchange, starting| async move {
        let writer = starting.begin(None);
        if exchange.attempt == 1 {
            say(&writer, "what a failed attempt says").await?;
            return Err(fixture::overloaded());
        }
        say(&writer, "first").await?;
        let tool = writer.tool("call_1", "look", Opening::default()).await?;
        tool.result(true, &ToolOutput::Text("no output of the run".to_owned())).await?;
        say(&writer, "last ").await?;
        let inner = writer.agent(Opening::named("inner")).await?;
        let message = writer.message(Opening::default().inside(inner.id())).await?;
        message.text("of an agent inside").await?;
        // Left open, so that the run's end closes them.
        let agui = Map::from_iter([("result".to_owned(), json!({ "n": 1 }))]);
        Ok(runwire_bridge::ExchangeEnd::Completed(Completion { agui: Some(agui), ..Completion::default() }))
    });
    let (end, log) = told_of(fixture::retried(2, talks)).await;
    assert_eq!(end, ChildEnd::Completed { text: "last ".to_owned(), whole: true, result: Some(json!({ "n": 1 })) });
    assert_eq!(segment_ends(&log), [Some(SegmentStatus::Completed)]);
}

#[tokio::test]
async fn of_a_very_long_answer_a_parent_is_given_the_beginning() {
    let long = agent("long", |_, starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        message.text("x").await?;
        for _ in 0..5 {
            message.text(&"ä".repeat(runwire_engine::MAX_CHILD_TEXT / 8)).await?;
        }
        Ok(completed())
    });
    let (ChildEnd::Completed { text, whole, .. }, _) = told_of(long).await else { panic!("it completed") };
    assert_eq!((text.len(), whole), (runwire_engine::MAX_CHILD_TEXT - 1, false), "cut between characters");
}

#[tokio::test]
async fn a_child_that_fails_fails_its_segment_and_not_its_parent() {
    let fails = agent("fails", |_, starting| async move {
        starting.begin(None);
        Err(Failure { retryable: true, ..Failure::new(ErrorCode::ModelError, "the model is gone") })
    });
    let (end, log) = told_of(fails).await;
    let message = "the model is gone".to_owned();
    assert_eq!(end, ChildEnd::Failed { code: ErrorCode::ModelError, message, retryable: true });
    let error = log.frames.iter().find_map(|frame| match &frame.data {
        Data::SegmentEnd(end) => end.error.clone(),
        _ => None,
    });
    assert_eq!(error.map(|error| error.code), Some(ErrorCode::ModelError));
    assert!(log.event_types().contains(&"SUBAGENT_ERROR"));
}

#[tokio::test]
async fn a_child_that_asks_is_told_and_answered_by_its_own_run() {
    let asking = agent("asking", |exchange, starting| async move {
        let writer = starting.begin(None);
        if exchange.resumed {
            say(&writer, "thank you").await?;
            return Ok(completed());
        }
        Ok(suspended(&["i1"]))
    });
    let lead = agent("lead", |_, starting| async move {
        let writer = starting.begin(None);
        let mut child = writer.child(ChildRun::prompt("asking", "")).await?;
        let asks = child.ended().await?;
        assert!(matches!(&asks, ChildEnd::Suspended(waiting) if waiting.interrupts[0].id == "i1"), "{asks:?}");
        say(&writer, &told(&asks)).await?;
        say(&writer, &told(&child.ended().await?)).await?;
        Ok(completed())
    });
    let bed = bed([lead, asking]);
    let run_id = bed.start("lead").await;
    bed.shows(&run_id, |frame| frame.data.frame_type() == FrameType::TextDelta).await;
    let [child] = &children(&bed, &run_id).await[..] else { panic!("it started one") };
    let answers = vec![ResumeEntry::new("i1", ResumeStatus::Resolved)];
    let resume = ResumeRun { run_id: child.run_id.clone(), answers, exchange_id: None, principal: None };
    bed.engine.resume(resume).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "asks Shall I?thank you"));
    assert!(log.notices().iter().any(|(code, what)| *code == "child_waits" && what.contains("Shall I?")));
    assert_eq!(segment_ends(&log), [Some(SegmentStatus::Completed)]);
}

#[tokio::test]
async fn a_child_can_be_followed_and_stopped_by_its_parent() {
    let lead = agent("lead", |_, starting| async move {
        let writer = starting.begin(None);
        let mut child = writer.child(ChildRun::prompt("endless", "")).await?;
        let mut frames = child.frames(0).await.unwrap();
        let mut types = Vec::new();
        while let Some(frame) = frames.next().await.unwrap() {
            types.push(frame.data.frame_type());
            if types.len() == 2 {
                child.cancel().await.unwrap();
            }
        }
        drop(frames);
        assert_eq!(types.last(), Some(&FrameType::RunEnd));
        say(&writer, &told(&child.ended().await?)).await?;
        Ok(completed())
    });
    let bed = bed([lead, endless()]);
    let log = bed.run("lead").await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "stopped without a reason"));
    assert_eq!(segment_ends(&log), [Some(SegmentStatus::Cancelled)]);
}

#[tokio::test]
async fn what_cannot_be_started_is_refused_and_leaves_nothing() {
    let refused: Arc<Mutex<Vec<ChildError>>> = Arc::default();
    let kept = refused.clone();
    let lead = agent("lead", move |_, starting| {
        let kept = kept.clone();
        async move {
            let writer = starting.begin(None);
            let child = ChildRun::prompt("echo", "");
            let attempts = [
                ChildRun::prompt("eco", ""),
                ChildRun { lane: Some("fast".to_owned()), ..child.clone() },
                child.clone().inside(&"seg_9".into()),
                child.keyed(""),
            ];
            for attempt in attempts {
                let refused = writer.child(attempt).await.err().unwrap();
                kept.lock().unwrap().push(refused);
            }
            Ok(completed())
        }
    });
    let bed = bed([lead, echo()]);
    let log = bed.run("lead").await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
    assert!(agents(&log).is_empty() && children(&bed, &log.run_id).await.is_empty());
    let refused = refused.lock().unwrap();
    assert!(matches!(&refused[0], ChildError::Create(CreateRunError::UnknownAgent { .. })), "{}", refused[0]);
    assert!(matches!(&refused[1], ChildError::Create(CreateRunError::UnknownLane { .. })), "{}", refused[1]);
    assert!(refused[2].to_string().contains("never opened"), "{}", refused[2]);
    assert!(refused[3].to_string().contains("1 to 256 bytes"), "{}", refused[3]);
}

#[tokio::test]
async fn a_child_never_waits_for_a_session_because_it_could_wait_for_its_parent() {
    let lead = agent("echo", |exchange, starting| async move {
        let writer = starting.begin(None);
        if exchange.prompt() != "start" {
            say(&writer, "in the same session").await?;
            return Ok(completed());
        }
        let mut child = ChildRun::prompt("echo", "again");
        let same = Some(exchange.input.thread_id.clone());
        child.request = RunRequest::Prompt { prompt: "again".to_owned(), session_id: same };
        let refused = writer.child(child.clone()).await.err().unwrap();
        say(&writer, &refused.to_string()).await?;
        let shared = Some("shared".to_owned());
        for _ in 0..2 {
            child.request = RunRequest::Prompt { prompt: "again".to_owned(), session_id: shared.clone() };
            let mut one = writer.child(child.clone()).await?;
            say(&writer, &told(&one.ended().await?)).await?;
        }
        Ok(completed())
    });
    let bed = bed([lead]);
    let mut create = fixture::prompt("echo");
    create.request = RunRequest::Prompt { prompt: "start".to_owned(), session_id: Some("mine".to_owned()) };
    let run_id = bed.create(create).await.unwrap().record.run_id;
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
    let said = log.text();
    assert!(said.contains("has not ended"), "{said}");
    assert_eq!(said.matches("in the same session").count(), 2, "one after the other they may share one: {said}");
    assert_eq!(bed.record(&run_id).await.status, RunStatus::Completed.as_str());
}
