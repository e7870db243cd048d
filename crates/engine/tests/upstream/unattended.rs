//! An upstream agent that asks while no client is there to send an input: the input is made from the log, the answer comes
//! by the run API or by a deadline, and a schema that this server cannot use is the agent's business.

use runwire_agui::{ResumeEntry, ResumeStatus};
use runwire_engine::drivers::{AguiDriver, AguiOptions};
use runwire_engine::{Driver as _, Engine, EngineOptions, OnDeadline, ResumeRun, WaitRule};
use runwire_frame::{Data, RunStatus};
use serde_json::{Value, json};

use crate::fixture::{Bed, driven_by, so_far};
use crate::server::{Answer, Server};
use crate::{THREAD, ask, front, message};

/// Says something, then asks this.
async fn asking(interrupt: Value) -> (Server, Bed, String) {
    let server = Server::start(move |number, seen| {
        let run = &seen.body["runId"];
        let mut events = vec![json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": run })];
        let mut finished = json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": run });
        if number == 0 {
            events.extend(message("said", "Before I go on."));
            events.push(json!({ "type": "STATE_SNAPSHOT", "snapshot": { "step": 1 } }));
            finished["outcome"] = json!({ "type": "interrupt", "interrupts": [interrupt] });
        }
        events.push(finished);
        Answer::events(&events)
    })
    .await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    (server, bed, run_id)
}

fn answer(run_id: &str, payload: Value) -> ResumeRun {
    let mut entry = ResumeEntry::new("i1", ResumeStatus::Resolved);
    entry.payload = Some(payload);
    ResumeRun { run_id: run_id.to_owned(), answers: vec![entry], exchange_id: Some("next".to_owned()), principal: None }
}

#[tokio::test]
async fn the_agent_is_sent_what_a_client_that_followed_the_run_would_send() {
    let (server, bed, run_id) = asking(json!({ "id": "i1", "reason": "input" })).await;
    bed.engine.resume(answer(&run_id, json!("go"))).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    let [first, next] = &server.seen()[..] else { panic!("two requests") };
    assert_eq!((&next.body["threadId"], &next.body["runId"]), (&json!(THREAD), &json!("next")));
    let messages = next.body["messages"].as_array().unwrap();
    let (before, made) = messages.split_at(first.body["messages"].as_array().unwrap().len());
    assert_eq!(json!(before), first.body["messages"]);
    let [made] = made else { panic!("{messages:?}") };
    assert_eq!((&made["role"], &made["content"]), (&json!("assistant"), &json!("Before I go on.")));
    assert_eq!(next.body["state"], json!({ "step": 1 }));
    assert_eq!(next.body["resume"], json!([{ "interruptId": "i1", "status": "resolved", "payload": "go" }]));
    // By the id of its exchange the same answer is known too.
    assert!(bed.engine.resume(answer(&run_id, json!("go"))).await.unwrap().existing);
}

#[tokio::test]
async fn what_an_agent_echoes_is_told_and_what_it_was_asked_is_gone_on_from() {
    let server = Server::start(move |number, seen| {
        let run = &seen.body["runId"];
        let echo = json!({ "threadId": THREAD, "runId": run, "messages": [] });
        let mut finished = json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": run });
        if number == 0 {
            let interrupts = json!([{ "id": "i1", "reason": "input" }]);
            finished["outcome"] = json!({ "type": "interrupt", "interrupts": interrupts });
        }
        Answer::events(&[json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": run, "input": echo }), finished])
    })
    .await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    bed.engine.resume(answer(&run_id, json!("go"))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed");

    let [first, next] = &server.seen()[..] else { panic!("two requests") };
    assert_eq!(next.body["messages"], first.body["messages"], "nobody's question is lost");
    let told: Vec<Value> = log.events.iter().map(|event| event.to_value()).collect();
    let echoes: Vec<&Value> = told.iter().filter(|event| event["type"] == "RUN_STARTED").collect();
    assert_eq!(echoes.iter().map(|event| &event["input"]["messages"]).collect::<Vec<_>>(), [&json!([]); 2]);
    assert!(echoes.iter().all(|event| event.get("askedInput").is_none()));
    // The same answers again, as whoever does not know their exchange sends them.
    let again = ResumeRun { exchange_id: None, ..answer(&run_id, json!("go")) };
    assert!(bed.engine.resume(again).await.unwrap().existing);
}

#[tokio::test]
async fn a_schema_of_the_agents_that_cannot_be_used_here_lets_the_answer_through_with_a_warning() {
    let schema = json!({ "$ref": "https://example.com/answer.json" });
    let (server, bed, run_id) = asking(json!({ "id": "i1", "reason": "input", "responseSchema": schema })).await;
    let log = so_far(&bed.store, &run_id).await;
    let notices = log.notices();
    let told = notices.iter().find(|(code, _)| *code == "answer_schema_unusable").unwrap().1;
    assert!(told.contains("`i1`") && told.contains("https://example.com/answer.json"), "{told}");
    bed.engine.resume(answer(&run_id, json!([1]))).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert_eq!(server.seen()[1].body["resume"][0]["payload"], json!([1]));
}

#[tokio::test]
async fn an_expired_interrupt_of_the_agents_is_given_up_whatever_answer_is_configured() {
    let expired = json!({ "id": "i1", "reason": "confirmation", "expiresAt": "2001-01-01T00:00:00Z" });
    let (server, bed, run_id) = asking(expired.clone()).await;
    let suspend = so_far(&bed.store, &run_id).await.frames.into_iter().find_map(|frame| match frame.data {
        Data::Suspend(suspend) => Some(suspend),
        _ => None,
    });
    let suspend = suspend.unwrap();
    assert_eq!(suspend.deadline_at.map(|time| time.to_string()).as_deref(), Some("2001-01-01T00:00:00.000Z"));
    assert_eq!(suspend.resume_contract["interrupts"], json!([expired]), "handed on as the agent wrote it");

    let driver = AguiDriver::new(AguiOptions::new(server.url())).unwrap();
    assert!(driver.judges_answers());
    let mut agent = driven_by("upstream", driver);
    agent.policy.waiting = WaitRule { on_deadline: OnDeadline::Answer(json!(true)), ..WaitRule::default() };
    let engine = Engine::new(bed.store.clone(), [agent], EngineOptions::default());
    assert_eq!(engine.resolve_due().await.unwrap(), 1);
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert_eq!(server.seen()[1].body["resume"], json!([{ "interruptId": "i1", "status": "cancelled" }]));
}
