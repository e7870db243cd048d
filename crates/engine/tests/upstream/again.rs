//! An upstream agent that is asked again and uses its ids again: clients lose nothing, and the agent is given its own ids.

use runwire_agui::{Message, Reducer, RunAgentInput};
use runwire_engine::drivers::{AguiDriver, AguiOptions};
use runwire_engine::{Action, Guarded, Guardrail, Judge};
use runwire_frame::RunStatus;
use serde_json::{Value, json};

use crate::fixture::{Bed, Log, bed, driven_by, input, request, retried, so_far};
use crate::server::{Answer, Seen, Server};
use crate::{THREAD, ask, message, run_finished, run_started, with};

/// In front of an agent that may be asked again, and is.
fn asked_again(url: String) -> Bed {
    asked_again_behind(url, Vec::new())
}

/// The same behind guardrails.
fn asked_again_behind(url: String, guardrails: Vec<Guardrail>) -> Bed {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let driver = AguiDriver::new(AguiOptions { idempotent: true, ..AguiOptions::new(url) }).unwrap();
    let mut upstream = retried(5, driven_by("upstream", driver));
    upstream.policy.guardrails = guardrails;
    bed([upstream])
}

/// What a client holds that has followed the run from its beginning.
fn held(log: &Log) -> Vec<Message> {
    let mut reducer = Reducer::from_input(&input(THREAD, "run-1"));
    for (index, event) in log.events.iter().enumerate() {
        assert_eq!(reducer.apply(event.clone(), index), None, "{}", log.dump());
    }
    reducer.messages().cloned().collect()
}

fn as_json(messages: &[Message]) -> Vec<Value> {
    messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect()
}

/// A subagent that says something and makes a call: the beginning of it, and the rest.
fn scout(said: &str) -> [Vec<Value>; 2] {
    let begins = vec![
        run_started(),
        json!({ "type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout" }),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "a" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": said }),
        json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "subagentRunId": "a" }),
    ];
    let ends = vec![
        json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}" }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": "c" }),
    ];
    [begins, ends]
}

#[tokio::test]
async fn an_answer_that_begins_again_with_its_ids_is_whole_at_a_client() {
    let server = Server::start(|number, _| {
        let [begins, ends] = scout(&format!("attempt {number}"));
        let result = json!({ "type": "TOOL_CALL_RESULT", "messageId": "res", "toolCallId": "c", "content": "ok",
            "subagentRunId": "a" });
        let finished = json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "a" });
        match number {
            0 => Answer::events(&begins),
            _ => Answer::events(&with(with(begins, ends), [result, finished, run_finished()])),
        }
    })
    .await;
    let bed = asked_again(server.url());
    let log = bed.ended(&ask(&bed).await).await;
    assert_eq!(log.ending(), "completed");
    let held = as_json(&held(&log));
    let held = &held[1..];
    assert_eq!((&held[0]["id"], &held[0]["content"]), (&json!("m.2"), &json!("attempt 1")), "{held:#?}");
    assert_eq!(held[1]["toolCalls"][0]["function"]["arguments"], "{}");
    assert_eq!((&held[1]["toolCalls"][0]["id"], &held[2]["toolCallId"]), (&json!("c.2"), &json!("c.2")));
}

/// A client answers with what it holds, which has the names that it was told; an agent knows its own.
#[tokio::test]
async fn an_agent_is_answered_by_its_own_ids_also_when_it_is_asked_once_more() {
    let script = |number: usize, seen: &Seen| {
        let [begins, ends] = scout(&format!("attempt {number}"));
        let run_id = &seen.body["runId"];
        let outcome = json!({ "type": "interrupt", "interrupts": [
            { "id": "i", "reason": "approval", "toolCallId": "c", "subagentRunId": "a" }] });
        let asks = [
            json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "a", "outcome": { "type": "suspended" } }),
            json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": run_id, "outcome": outcome }),
        ];
        let goes_on = vec![
            json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": run_id, "input": seen.body }),
            json!({ "type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout" }),
            json!({ "type": "TOOL_CALL_RESULT", "messageId": "res", "toolCallId": "c", "content": "done",
                "subagentRunId": "a" }),
        ];
        let ended = [
            json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "a" }),
            json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": run_id }),
        ];
        match number {
            0 => Answer::events(&begins),
            1 => Answer::events(&with(with(begins, ends), asks)),
            2 => Answer::events(&goes_on),
            _ => Answer::events(&with(with(goes_on, message("n", "Done.")), ended)),
        }
    };
    let server = Server::start(script).await;
    let bed = asked_again(server.url());
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    let log = so_far(&bed.store, &run_id).await;
    let interrupt = &log.last_event()["outcome"]["interrupts"][0];
    assert_eq!((&interrupt["toolCallId"], &interrupt["subagentRunId"]), (&json!("c.2"), &json!("a.2")));

    let resume = json!([{ "interruptId": "i", "status": "resolved", "payload": { "approved": true } }]);
    let answer = RunAgentInput {
        run_id: "run-2".into(),
        messages: held(&log),
        resume: serde_json::from_value(resume).unwrap(),
        ..input(THREAD, "run-2")
    };
    bed.create(request("upstream", answer.clone())).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed");
    for seen in &server.seen()[2..] {
        let messages = &seen.body["messages"];
        let ids: Vec<&Value> = messages.as_array().unwrap().iter().map(|message| &message["id"]).collect();
        assert_eq!(ids[1..], [&json!("m"), &json!("c")], "{messages:#}");
        assert_eq!((&messages[1]["subagentRunId"], &messages[2]["toolCalls"][0]["id"]), (&json!("a"), &json!("c")));
    }
    // The log says what the client sent.
    let asked = log.frames.iter().find(|frame| matches!(frame.data, runwire_frame::Data::Resume(_))).unwrap();
    let asked = serde_json::to_value(&asked.data).unwrap();
    assert_eq!(asked["agui"]["askedInput"], serde_json::to_value(&answer).unwrap());
    // And the client goes on with what it holds, also where the agent echoes its own.
    let events: Vec<Value> = log.events.iter().map(runwire_agui::Event::to_value).collect();
    let echo = events.iter().rfind(|event| event["type"] == "RUN_STARTED").unwrap();
    assert_eq!(echo["input"]["messages"], serde_json::to_value(&answer.messages).unwrap());
    let result = events.iter().rfind(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
    assert_eq!((&result["toolCallId"], &result["content"]), (&json!("c.2"), &json!("done")));
    let held = as_json(&held(&log));
    let contents: Vec<&Value> = held[1..].iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, [&json!("attempt 1"), &Value::Null, &json!("done"), &json!("Done.")], "{held:#?}");
}

/// events/tool-calls, "Frontend tools": the answer to a call comes as a message of the next run's input, keyed by the call's
/// id. It is the agent's own that it knows it by, also after it was asked twice in the run before.
#[tokio::test]
async fn a_call_that_was_left_to_the_application_is_answered_by_the_agents_own_id() {
    answered_by_the_agents_own_id(Vec::new()).await;
}

/// A guardrail that warns begins the run in front of its agent.
#[tokio::test]
async fn so_is_one_whose_conversation_a_guardrail_warns_of() {
    let judge = Judge::Pattern("Go on".parse().unwrap());
    let rail = Guardrail { name: "hurry".to_owned(), on: vec![Guarded::Input], judge, action: Action::Warn };
    let log = answered_by_the_agents_own_id(vec![rail]).await;
    assert!(log.notices().iter().any(|(code, _)| *code == "guardrail_warned"), "{}", log.dump());
}

/// Its second run's log.
async fn answered_by_the_agents_own_id(guardrails: Vec<Guardrail>) -> Log {
    let server = Server::start(|number, seen| {
        let [begins, ends] = scout(&format!("attempt {number}"));
        let run_id = &seen.body["runId"];
        let left = [
            json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": "a" }),
            json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": run_id }),
        ];
        // An agent that restates the conversation as it knows it.
        let restates = vec![
            json!({ "type": "RUN_STARTED", "threadId": THREAD, "runId": run_id }),
            json!({ "type": "MESSAGES_SNAPSHOT", "messages": seen.body["messages"] }),
        ];
        let ended = json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": run_id });
        match number {
            0 => Answer::events(&begins),
            1 => Answer::events(&with(with(begins, ends), left)),
            _ => Answer::events(&with(with(restates, message("n", "Done.")), [ended])),
        }
    })
    .await;
    let bed = asked_again_behind(server.url(), guardrails);
    let first = bed.ended(&ask(&bed).await).await;
    let mut messages = held(&first);
    let result = json!({ "id": "r", "role": "tool", "toolCallId": "c.2", "content": "shown" });
    let said = json!({ "id": "u", "role": "user", "content": "Go on, please." });
    messages.extend([result, said].map(|message| serde_json::from_value(message).unwrap()));
    let next = RunAgentInput { messages: messages.clone(), ..input(THREAD, "run-2") };
    let started = bed.create(request("upstream", next)).await.unwrap();
    let log = bed.ended(&started.record.run_id).await;
    assert_eq!(log.ending(), "completed");
    let given = &server.seen()[2].body["messages"];
    assert_eq!((&given[1]["id"], &given[2]["toolCalls"][0]["id"]), (&json!("m"), &json!("c")), "{given:#}");
    assert_eq!(given[3]["toolCallId"], "c", "{given:#}");
    // What the client holds stays where it is and as it is called.
    let mut reducer = Reducer::from_input(&RunAgentInput { messages: messages.clone(), ..input(THREAD, "run-2") });
    for (index, event) in log.events.iter().enumerate() {
        assert_eq!(reducer.apply(event.clone(), index), None);
    }
    let after: Vec<Message> = reducer.messages().cloned().collect();
    assert_eq!(after[..messages.len()], messages[..]);
    assert_eq!(after.len(), messages.len() + 1);
    log
}
