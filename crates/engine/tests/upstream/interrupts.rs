//! An upstream agent that asks, and goes on when it is answered: one run over several exchanges.

use runwire_engine::CreateRunError;
use runwire_frame::{Data, RunStatus};
use serde_json::{Value, json};

use crate::fixture::{answers, input, request, so_far};
use crate::server::{Answer, Seen, Server};
use crate::{RUN, THREAD, ask, front, message, underway, with};

/// Asks for two answers, in the middle of a step's work, and is content with them.
fn asking(_: usize, seen: &Seen) -> Answer {
    let run = &seen.body["runId"];
    if seen.body.get("resume").is_none() {
        let interrupts = json!([
            { "id": "i1", "reason": "confirmation", "message": "Delete it?", "toolCallId": "c1" },
            { "id": "i2", "reason": "input", "responseSchema": { "type": "object" } },
        ]);
        let call = [
            json!({ "type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "delete" }),
            json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}" }),
            json!({ "type": "TOOL_CALL_END", "toolCallId": "c1" }),
        ];
        let asked = json!({
            "type": "RUN_FINISHED", "threadId": THREAD, "runId": run,
            "outcome": { "type": "interrupt", "interrupts": interrupts },
            "usage": [{ "provider": "p", "model": "m", "inputTokens": 10 }],
        });
        return Answer::events(&with(with(underway(), call), [asked]));
    }
    let mut events = vec![
        json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": run }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "deleted" }),
    ];
    events.extend(message("m2", " Done."));
    events.push(json!({
        "type": "RUN_FINISHED", "threadId": THREAD, "runId": run,
        "usage": [{ "provider": "p", "model": "m", "inputTokens": 1 }],
    }));
    Answer::events(&events)
}

#[tokio::test]
async fn an_interrupt_suspends_the_run_and_the_answers_continue_it() {
    let server = Server::start(asking).await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    let log = so_far(&bed.store, &run_id).await;
    let last = log.last_event();
    assert_eq!(last["outcome"]["type"], "interrupt");
    assert_eq!(last["outcome"]["interrupts"][1]["responseSchema"]["type"], "object");
    let suspend = log.frames.iter().find_map(|frame| match &frame.data {
        Data::Suspend(suspend) => Some(suspend),
        _ => None,
    });
    assert_eq!(suspend.unwrap().prompt.as_deref(), Some("Delete it?"));

    let answer = answers(THREAD, "run-2", &["i1", "i2"]);
    let started = bed.create(request("upstream", answer.clone())).await.unwrap();
    assert_eq!(started.record.run_id, run_id, "one run spans both exchanges");
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "Kept. Done."));
    assert_eq!(log.statuses(), [RunStatus::Running, RunStatus::Suspended, RunStatus::Running, RunStatus::Completed]);
    let seen = server.seen();
    assert_eq!(seen.len(), 2, "each exchange is one ordinary request");
    assert_eq!(seen[1].body, serde_json::to_value(&answer).unwrap());
    let started: Vec<Value> = log
        .events
        .iter()
        .map(|event| event.to_value())
        .filter(|event| event["type"] == "RUN_STARTED")
        .map(|event| event["runId"].clone())
        .collect();
    assert_eq!(started, [json!(RUN), json!("run-2")]);
    // Each exchange reports its own calls, and the run the sum of them.
    assert_eq!(log.last_event()["usage"][0]["inputTokens"], 1);
    assert_eq!(bed.record(&run_id).await.usage.unwrap()[0]["input_tokens"], 11);
}

#[tokio::test]
async fn an_answer_that_leaves_an_interrupt_open_does_not_reach_the_agent() {
    let server = Server::start(asking).await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let before = so_far(&bed.store, &run_id).await;
    let refused = bed.create(request("upstream", answers(THREAD, "run-2", &["i1"]))).await.unwrap_err();
    let CreateRunError::ResumeIncomplete { missing, .. } = &refused else { panic!("{refused}") };
    assert_eq!(missing, &["i2"]);
    assert!(refused.to_string().contains("`i2`"), "{refused}");
    assert_eq!(server.seen().len(), 1, "nothing was started");
    assert_eq!(so_far(&bed.store, &run_id).await.frames, before.frames);
}

/// basic/patterns/interrupt-resume, "Resuming": a consumer MUST NOT continue past an interrupt it has no entry for, before
/// anything is sent. Towards the agent this server is the consumer.
#[tokio::test]
async fn an_input_without_answers_does_not_reach_the_agent_that_waits() {
    let server = Server::start(asking).await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let other = bed.create(request("upstream", input(THREAD, "run-2"))).await.unwrap();
    assert_eq!(other.record.run_id, run_id);
    let log = so_far(&bed.store, &run_id).await;
    assert_eq!(log.last_event()["runId"], "run-2");
    assert_eq!(log.last_event()["outcome"]["interrupts"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.seen().len(), 1, "nothing was sent");
    // The agent gets the answers to what it asked, and nothing that it did not.
    bed.create(request("upstream", answers(THREAD, "run-3", &["i1", "i2", "i3"]))).await.unwrap();
    bed.ended(&run_id).await;
    let entries = &server.seen()[1].body["resume"];
    let ids: Vec<&Value> = entries.as_array().into_iter().flatten().map(|entry| &entry["interruptId"]).collect();
    assert_eq!(ids, ["i1", "i2"]);
}

#[tokio::test]
async fn an_agent_that_fails_after_it_was_answered_fails_the_whole_run() {
    let server = Server::start(|number, seen| match number {
        0 => asking(number, seen),
        _ => Answer::refusal(500, "out of order"),
    })
    .await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.create(request("upstream", answers(THREAD, "run-2", &["i1", "i2"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.failure_class()), ("failed", Some("CHANNEL_ERROR")));
    assert_eq!(log.text(), "Kept.");
}

#[tokio::test]
async fn a_stop_before_the_answered_agent_goes_on_ends_the_run_as_cancelled() {
    let server = Server::start(|number, seen| match number {
        0 => asking(number, seen),
        _ => Answer { after: std::time::Duration::from_secs(50), ..asking(number, seen) },
    })
    .await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.create(request("upstream", answers(THREAD, "run-2", &["i1", "i2"]))).await.unwrap();
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "cancelled");
    assert_eq!(log.last_event()["outcome"]["type"], "cancelled");
}
