//! What the upstream agent is sent: this server is its client (basic/run-input; basic/processing, "Outgoing material";
//! basic/versioning, "Downgrading"; patterns/interrupt-resume, "Resuming").

use runwire_agui::RunAgentInput;
use runwire_engine::CreateRunError;
use runwire_engine::drivers::AguiOptions;
use runwire_frame::RunStatus;
use serde_json::{Value, json};

use crate::fixture::{Bed, Log, answers, request};
use crate::server::{Answer, Seen, Server};
use crate::{RUN, THREAD, ask, front, front_with, message, run_finished, run_started, underway, with};

/// Runs the input in front of an agent that is content with it, and gives the log and what the agent saw.
async fn send(input: Value, version: &str) -> (Log, Value) {
    let server = Server::start(|_, _| Answer::events(&with(underway(), [run_finished()]))).await;
    let bed = front_with(AguiOptions { agent_version: version.parse().unwrap(), ..AguiOptions::new(server.url()) });
    let (input, _) = RunAgentInput::decode_value(input).unwrap();
    let started = bed.create(request("upstream", input)).await.unwrap();
    let log = bed.ended(&started.record.run_id).await;
    assert_eq!(log.ending(), "completed");
    let [Seen { body, .. }] = &server.seen()[..] else { panic!("one request") };
    (log, body.clone())
}

fn warnings(log: &Log) -> Vec<String> {
    let notices = log.notices().into_iter();
    notices.filter(|(code, _)| *code == "upstream_input_warning").map(|(_, message)| message.to_owned()).collect()
}

fn rich() -> Value {
    json!({ "threadId": THREAD, "runId": RUN, "messages": [
        { "id": "u", "role": "user", "content": "hi" },
        { "id": "act", "role": "activity", "activityType": "search", "content": {} },
        { "id": "a", "role": "assistant", "subagentRunId": "s", "toolCalls": [
            { "id": "c1", "type": "function", "function": { "name": "look", "arguments": "{}" } },
        ] },
        { "id": "r", "role": "tool", "toolCallId": "c1", "content": [
            { "type": "text", "text": "seen" },
            { "type": "image", "source": { "type": "url", "value": "https://example.com/x.png" } },
        ] },
    ] })
}

#[tokio::test]
async fn the_version_must_be_declared_and_activity_messages_must_be_stripped_for_a_client_that_did_neither() {
    let (log, seen) = send(rich(), "1.0").await;
    assert_eq!(seen["protocolVersion"], "1.0");
    let ids: Vec<_> = seen["messages"].as_array().unwrap().iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, ["u", "a", "r"]);
    assert_eq!(seen["messages"][1], rich()["messages"][2], "all else is as it was");
    assert_eq!(seen["messages"][2], rich()["messages"][3]);
    assert_eq!(warnings(&log), [""; 0]);
}

#[tokio::test]
async fn an_agent_that_is_configured_to_be_older_gets_what_it_can_read_and_the_loss_is_told_in_the_log() {
    let (log, seen) = send(rich(), "0.0.57").await;
    assert_eq!(seen.get("protocolVersion"), None);
    assert_eq!(seen["messages"][1].get("subagentRunId"), None);
    assert_eq!(seen["messages"][2]["content"], "seen");
    assert_eq!((&seen["state"], &seen["tools"], &seen["context"]), (&json!({}), &json!([]), &json!([])));
    let [told] = &warnings(&log)[..] else { panic!("{}", log.dump()) };
    assert!(told.contains("part 1 (image)") && told.contains("0.0.57"), "{told}");
}

#[tokio::test]
async fn a_subagent_of_an_agent_that_is_configured_to_have_none_is_dropped_with_a_warning() {
    let mut events = vec![run_started(), json!({ "type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n" })];
    events.extend(message("m", "Found."));
    events.extend([json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "s" }), run_finished()]);
    for (version, subagents) in [("0.0.57", 0), ("1.0", 2)] {
        let events = events.clone();
        let server = Server::start(move |_, _| Answer::events(&events)).await;
        let bed = front_with(AguiOptions { agent_version: version.parse().unwrap(), ..AguiOptions::new(server.url()) });
        let log = bed.ended(&ask(&bed).await).await;
        assert_eq!((log.ending(), log.text().as_str()), ("completed", "Found."));
        let shown = log.event_types().iter().filter(|name| name.starts_with("SUBAGENT")).count();
        assert_eq!(shown, subagents, "{version}");
        let told = log.notices().iter().filter(|(code, _)| *code == "upstream_warning").count();
        assert_eq!(told, 2 - subagents, "{version}");
    }
}

/// Asks for one answer by the end of this time, and is content with it.
async fn asking(expires_at: Value) -> (Server, Bed, String) {
    let server = Server::start(move |number, seen| {
        let run = &seen.body["runId"];
        let mut interrupt = json!({ "id": "i1", "reason": "confirmation" });
        if !expires_at.is_null() {
            interrupt["expiresAt"] = expires_at.clone();
        }
        let mut events = vec![json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": run })];
        let mut finished = json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": run });
        if number == 0 {
            finished["outcome"] = json!({ "type": "interrupt", "interrupts": [interrupt] });
        }
        events.push(finished);
        Answer::events(&events)
    })
    .await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    (server, bed, run_id)
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_does_not_reach_the_agent_and_the_run_goes_on_with_a_warning() {
    let (server, bed, run_id) = asking(Value::Null).await;
    bed.create(request("upstream", answers(THREAD, "run-2", &["i9", "i1"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed");
    let resume = server.seen()[1].body["resume"].clone();
    assert_eq!(resume.as_array().map(|entries| entries.len()), Some(1), "{resume}");
    assert_eq!(resume[0]["interruptId"], "i1");
    let notices = log.notices();
    let [(code, told)] = notices[..] else { panic!("{}", log.dump()) };
    assert_eq!(code, "resume_entries_ignored");
    assert!(told.contains("`i9`"), "{told}");
}

#[tokio::test]
async fn an_expired_interrupt_can_be_given_up_but_no_longer_be_answered() {
    let (server, bed, run_id) = asking(json!("2001-01-01T00:00:00Z")).await;
    let refused = bed.create(request("upstream", answers(THREAD, "run-2", &["i1"]))).await.unwrap_err();
    let CreateRunError::AnswerTooLate { interrupt, expires_at, .. } = &refused else { panic!("{refused}") };
    assert_eq!((interrupt.as_str(), expires_at.as_str()), ("i1", "2001-01-01T00:00:00Z"));
    assert_eq!(server.seen().len(), 1, "nothing was sent");
    assert_eq!(bed.record(&run_id).await.status, "suspended", "and the run still waits");
    let mut given_up = answers(THREAD, "run-2", &["i1"]);
    given_up.resume = Some(serde_json::from_value(json!([{ "interruptId": "i1", "status": "cancelled" }])).unwrap());
    bed.create(request("upstream", given_up)).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert_eq!(server.seen()[1].body["resume"][0]["status"], "cancelled");
}

#[tokio::test]
async fn an_interrupt_that_has_not_expired_or_names_no_time_can_be_answered() {
    for expires_at in ["2999-01-01T00:00:00Z", "when it rains"] {
        let (_server, bed, run_id) = asking(json!(expires_at)).await;
        bed.create(request("upstream", answers(THREAD, "run-2", &["i1"]))).await.unwrap();
        assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    }
}

#[tokio::test]
async fn an_interrupt_that_is_answered_twice_is_refused_and_nothing_is_sent() {
    let (server, bed, run_id) = asking(Value::Null).await;
    let refused = bed.create(request("upstream", answers(THREAD, "run-2", &["i1", "i1"]))).await.unwrap_err();
    assert!(matches!(&refused, CreateRunError::ResumeRepeated { interrupt_id } if interrupt_id == "i1"), "{refused}");
    assert_eq!(server.seen().len(), 1);
    assert_eq!(bed.record(&run_id).await.status, "suspended");
}
