//! AG-UI on the same log: `POST /agui/{agent}`, and a run's events as a resource of their own.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::Response;
use runwire_agui::{Event, RunFinishedOutcome};
use runwire_bridge::{ExchangeEnd, Failure, Suspension};
use runwire_frame::{ErrorCode, SuspendKind};
use serde_json::{Map, Value, json};

use crate::harness::{AguiEvent, Server, Setup, agui_events, consumed, ids, problem, soon, stepped};

fn input(thread: &str, run: &str, prompt: &str) -> Value {
    let message = json!({ "id": format!("{run}.user"), "role": "user", "content": prompt });
    json!({ "threadId": thread, "runId": run, "protocolVersion": "1.0", "messages": [message] })
}

async fn post(server: &Server, agent: &str, input: &Value, last_event_id: Option<&str>) -> Response {
    let mut request = server.post(&format!("/agui/{agent}"), input).header("accept", "text/event-stream");
    if let Some(id) = last_event_id {
        request = request.header("last-event-id", id);
    }
    soon(request.send()).await.unwrap()
}

/// The whole of a stream.
async fn events(response: Response) -> Vec<AguiEvent> {
    assert_eq!(response.status(), 200);
    agui_events(&soon(response.text()).await.unwrap())
}

/// Reads a stream that goes on up to where `what` was said.
async fn until(response: &mut Response, what: &str) -> String {
    let mut body = String::new();
    while !body.contains(what) || !body.ends_with("\n\n") {
        let chunk = soon(response.chunk()).await.unwrap().expect("the stream goes on");
        body += std::str::from_utf8(&chunk).unwrap();
    }
    body
}

#[tokio::test]
async fn a_run_is_a_conforming_stream_whose_events_have_ids() {
    let server = Setup::new().start().await;
    let input = input("t", "r", "héllo wide world");
    let response = post(&server, "demo", &input, None).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache, no-transform");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    let events = events(response).await;

    let delivered = consumed(&events, Some(&input));
    assert!(matches!(delivered.first(), Some(Event::RunStarted(s)) if s.run_id == "r" && s.thread_id == "t"));
    let Some(Event::RunFinished(finished)) = delivered.last() else { panic!("it ends: {:?}", delivered.last()) };
    assert!(!matches!(finished.outcome, Some(RunFinishedOutcome::Cancelled)));
    assert!(finished.usage.as_ref().is_some_and(|usage| !usage.is_empty()));
    for kind in [
        "TEXT_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CONTENT",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_RESULT",
        "STEP_STARTED",
        "STATE_DELTA",
    ] {
        assert!(events.iter().any(|event| event.kind() == kind), "the demo shows {kind}");
    }

    let places: Vec<(u64, u32)> = ids(&events)
        .iter()
        .map(|id| {
            let (seq, n) = id.split_once('.').unwrap();
            (seq.parse().unwrap(), n.parse().unwrap())
        })
        .collect();
    assert!(places.is_sorted_by(|a, b| a < b), "ids rise: {places:?}");
    let head = server.ended(&run_id).await.head;
    assert!(places.iter().all(|(seq, _)| (1..=head).contains(seq)));
}

#[tokio::test]
async fn a_repeated_post_goes_on_at_the_very_next_event() {
    let server = Setup::new().start().await;
    let input = input("t", "r", "Hello");
    let whole = events(post(&server, "demo", &input, None).await).await;
    for (n, event) in whole.iter().enumerate() {
        let rest = events(post(&server, "demo", &input, Some(&event.id)).await).await;
        assert_eq!(rest, whole[n + 1..], "after {}", event.id);
    }
    assert_eq!(server.json("/v2/runs").await["runs"].as_array().unwrap().len(), 1, "it ran once");
}

#[tokio::test]
async fn the_events_of_a_run_resume_at_every_id() {
    let server = Setup::new().start().await;
    let response = post(&server, "demo", &input("t", "r", "Hello"), None).await;
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    let path = format!("/v2/runs/{run_id}/agui");
    let whole = events(response).await;
    assert_eq!(events(soon(server.get(&path).send()).await.unwrap()).await, whole);
    let (last, before) = whole.split_last().unwrap();
    for (n, event) in before.iter().enumerate() {
        let by_header = soon(server.get(&path).header("last-event-id", &event.id).send()).await.unwrap();
        assert_eq!(events(by_header).await, whole[n + 1..], "after {}", event.id);
        let by_query = soon(server.get(&format!("{path}?after={}", event.id)).send()).await.unwrap();
        assert_eq!(events(by_query).await, whole[n + 1..], "after {}", event.id);
    }
    let nothing_left = soon(server.get(&path).header("last-event-id", &last.id).send()).await.unwrap();
    assert_eq!(nothing_left.status(), 204, "G6");

    for bad in ["7", "x", "1.", "-1.0", "1.0.0"] {
        let refused = soon(server.get(&path).header("last-event-id", bad).send()).await.unwrap();
        assert_eq!(problem(refused).await["status"], 400, "{bad}");
    }
    let past = soon(server.get(&path).header("last-event-id", "9999.0").send()).await.unwrap();
    let past = problem(past).await;
    assert_eq!((&past["status"], past["head"].as_u64().is_some()), (&json!(416), true), "G7");
}

#[tokio::test]
async fn the_same_ids_and_input_re_attach_from_the_start_live_and_ended() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let input = input("t", "r", "Hello");
    let mut first = post(&server, "held", &input, None).await;
    steps.say("one");
    let mut first_body = until(&mut first, "one").await;

    let mut second = post(&server, "held", &input, None).await;
    assert_eq!(first.headers()["runwire-run-id"], second.headers()["runwire-run-id"]);
    let mut second_body = until(&mut second, "one").await;
    let place = agui_events(&first_body).last().unwrap().id.clone();
    let resumed = post(&server, "held", &input, Some(&place)).await;

    steps.say("two");
    steps.complete();
    first_body += &soon(first.text()).await.unwrap();
    second_body += &soon(second.text()).await.unwrap();
    let whole = agui_events(&first_body);
    consumed(&whole, Some(&input));
    assert_eq!(agui_events(&second_body), whole);
    let rest = events(resumed).await;
    assert_eq!(rest, whole[whole.len() - rest.len()..]);
    assert_eq!(whole[whole.len() - rest.len() - 1].id, place);
    assert_eq!(events(post(&server, "held", &input, None).await).await, whole, "and after the end");
}

#[tokio::test]
async fn the_same_ids_with_another_input_are_409() {
    let server = Setup::new().start().await;
    events(post(&server, "demo", &input("t", "r", "Hello"), None).await).await;
    for (agent, other) in [
        ("demo", input("t", "r", "Something else")),
        ("demo", {
            let mut other = input("t", "r", "Hello");
            other["state"] = json!({ "more": true });
            other
        }),
    ] {
        let problem = problem(post(&server, agent, &other, None).await).await;
        assert_eq!(problem["status"], 409);
        assert!(problem["detail"].as_str().unwrap().contains("`r`"), "{problem}");
    }
}

#[tokio::test]
async fn a_cursor_into_what_was_never_sent_starts_nothing() {
    let server = Setup::new().start().await;
    let refused = problem(post(&server, "demo", &input("t", "r", "Hello"), Some("7.0")).await).await;
    assert_eq!((&refused["status"], &refused["head"]), (&json!(416), &json!(0)), "G7");
    assert_eq!(server.json("/v2/runs").await["runs"], json!([]));

    events(post(&server, "demo", &input("t", "r", "Hello"), None).await).await;
    let refused = problem(post(&server, "demo", &input("t", "r", "Hello"), Some("9999.0")).await).await;
    assert_eq!(refused["status"], 416);
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_anything_runs() {
    let server = Setup::new().start().await;
    let good = input("t", "r", "Hello");

    let media = server.http.post(server.url("/agui/demo")).header("content-type", "text/plain").body(good.to_string());
    assert_eq!(problem(soon(media.send()).await.unwrap()).await["status"], 415);
    let no_json = server.http.post(server.url("/agui/demo")).header("content-type", "application/json").body("{");
    assert_eq!(problem(soon(no_json.send()).await.unwrap()).await["status"], 400);
    let unknown = problem(post(&server, "dmeo", &good, None).await).await;
    assert_eq!(unknown["status"], 404);
    assert!(unknown["detail"].as_str().unwrap().contains("`demo`"));

    let broken = |change: fn(&mut Value)| {
        let mut input = good.clone();
        change(&mut input);
        input
    };
    for (input, says) in [
        (broken(|i| drop(i.as_object_mut().unwrap().remove("threadId"))), "threadId"),
        (broken(|i| drop(i.as_object_mut().unwrap().remove("runId"))), "runId"),
        (broken(|i| i["threadId"] = "".into()), "`threadId` is empty"),
        (broken(|i| i["runId"] = "".into()), "`runId` is empty"),
        (broken(|i| i["messages"] = json!("none")), "/messages"),
        (broken(|i| i["messages"][0]["content"] = json!(7)), "/messages/0/content"),
        (broken(|i| i["tools"] = json!([{ "name": "t" }])), "/tools/0"),
        (json!([]), "the body"),
    ] {
        let problem = problem(post(&server, "demo", &input, None).await).await;
        assert_eq!(problem["status"], 422, "{input}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{input}: {problem}");
    }
    assert_eq!(server.json("/v2/runs").await["runs"], json!([]));
}

#[tokio::test]
async fn a_cancelled_run_is_told_to_each_peer_in_what_it_can_take() {
    for current in [true, false] {
        let (_steps, driver) = stepped();
        let server = Setup::new().agent("held", driver).start().await;
        let mut input = input("t", "r", "Hello");
        if !current {
            input.as_object_mut().unwrap().remove("protocolVersion");
        }
        let mut response = post(&server, "held", &input, None).await;
        let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
        let mut body = until(&mut response, "RUN_STARTED").await;
        soon(server.http.post(server.url(&format!("/v2/runs/{run_id}/cancel"))).send()).await.unwrap();
        body += &soon(response.text()).await.unwrap();
        let events = agui_events(&body);
        let delivered = consumed(&events, Some(&input));
        match delivered.last().unwrap() {
            Event::RunFinished(finished) if current => {
                assert_eq!(finished.outcome, Some(RunFinishedOutcome::Cancelled));
            }
            Event::RunError(_) if !current => assert!(!body.contains("\"cancelled\""), "it would fail on that"),
            other => panic!("current: {current}, ended by {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_failure_is_an_event_and_the_stream_ends_in_good_order() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let input = input("t", "r", "Hello");
    let response = post(&server, "held", &input, None).await;
    steps.end(Err(Failure::new(ErrorCode::ModelError, "the model is out")));
    let events = events(response).await;
    let delivered = consumed(&events, Some(&input));
    let Some(Event::RunError(error)) = delivered.last() else { panic!("{delivered:?}") };
    assert_eq!((&*error.message, error.code.as_deref()), ("the model is out", Some("MODEL_ERROR")));
}

#[tokio::test]
async fn a_failure_after_the_finish_is_not_lost_between_the_two() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let response = post(&server, "held", &input("t", "r", "Hello"), None).await;
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    // What an upstream agent says that fails after it said that it had finished.
    let agui = Map::from_iter([("afterFinish".to_owned(), json!({}))]);
    steps.end(Err(Failure { agui: Some(agui), ..Failure::new(ErrorCode::ChannelError, "flushing failed") }));
    let whole = events(response).await;
    let [.., finished, error] = &whole[..] else { panic!("{whole:?}") };
    assert_eq!((&*finished.kind(), &*error.kind()), ("RUN_FINISHED", "RUN_ERROR"));

    let path = format!("/v2/runs/{run_id}/agui");
    let rest = soon(server.get(&path).header("last-event-id", &finished.id).send()).await.unwrap();
    assert_eq!(events(rest).await, std::slice::from_ref(error));
    let nothing = soon(server.get(&path).header("last-event-id", &error.id).send()).await.unwrap();
    assert_eq!(nothing.status(), 204);
}

fn suspension() -> ExchangeEnd {
    let contract = json!({ "interrupts": [{ "id": "i1", "reason": "confirmation", "message": "Really?" }] });
    ExchangeEnd::Suspended(Suspension {
        kind: SuspendKind::Approval,
        contract: contract.as_object().unwrap().clone(),
        prompt: Some("Really?".to_owned()),
        deadline: None,
        usage: Vec::new(),
        agui: None,
    })
}

#[tokio::test]
async fn each_exchange_of_a_suspended_run_is_a_stream_of_its_own() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let asked = input("t", "r1", "Hello");
    let response = post(&server, "held", &asked, None).await;
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    steps.say("before");
    steps.end(Ok(suspension()));
    let first = events(response).await;
    let delivered = consumed(&first, Some(&asked));
    let Some(Event::RunFinished(finished)) = delivered.last() else { panic!("{delivered:?}") };
    assert!(matches!(&finished.outcome, Some(RunFinishedOutcome::Interrupt { interrupts }) if interrupts.len() == 1));
    server.until(&run_id, |record| record.status == "suspended").await;

    let mut incomplete = input("t", "r2", "Hello");
    incomplete["resume"] = json!([{ "interruptId": "other", "status": "resolved", "payload": true }]);
    let refused = problem(post(&server, "held", &incomplete, None).await).await;
    assert_eq!((&refused["status"], &refused["missing"]), (&json!(422), &json!(["i1"])));

    let mut answer = input("t", "r2", "Hello");
    answer["resume"] = json!([{ "interruptId": "i1", "status": "resolved", "payload": true }]);
    let response = post(&server, "held", &answer, None).await;
    assert_eq!(response.headers()["runwire-run-id"], *run_id, "the same run goes on");
    steps.say("after");
    steps.complete();
    let second = events(response).await;
    consumed(&second, Some(&answer));
    assert!(second.iter().all(|event| !event.data.contains("before")), "an exchange begins with itself");

    assert_eq!(events(post(&server, "held", &asked, None).await).await, first);
    assert_eq!(events(post(&server, "held", &answer, None).await).await, second);
    let whole = events(soon(server.get(&format!("/v2/runs/{run_id}/agui")).send()).await.unwrap()).await;
    consumed(&whole, None);
    assert_eq!(whole, [first, second].concat());
}

/// patterns/interrupt-resume, "Resuming": one entry for each interrupt, and an expired one can only be given up.
#[tokio::test]
async fn an_answer_that_is_double_or_too_late_is_422_and_the_run_still_waits() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let response = post(&server, "held", &input("t", "r1", "Hello"), None).await;
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    let mut expired = suspension();
    let ExchangeEnd::Suspended(suspension) = &mut expired else { unreachable!() };
    suspension.contract["interrupts"][0]["expiresAt"] = json!("2001-01-01T00:00:00Z");
    steps.end(Ok(expired));
    events(response).await;
    server.until(&run_id, |record| record.status == "suspended").await;
    let resolved = json!({ "interruptId": "i1", "status": "resolved", "payload": true });
    for (resume, title) in [(json!([resolved, resolved]), "Answered twice"), (json!([resolved]), "Answer too late")] {
        let mut answer = input("t", "r2", "Hello");
        answer["resume"] = resume;
        let refused = problem(post(&server, "held", &answer, None).await).await;
        assert_eq!((&refused["status"], &refused["title"]), (&json!(422), &json!(title)));
        assert!(refused["detail"].as_str().unwrap().contains("`i1`"), "{refused}");
    }
    let mut given_up = input("t", "r2", "Hello");
    given_up["resume"] = json!([{ "interruptId": "i1", "status": "cancelled" }]);
    let response = post(&server, "held", &given_up, None).await;
    assert_eq!(response.headers()["runwire-run-id"], *run_id, "the same run goes on");
    steps.complete();
    events(response).await;
}

#[tokio::test]
async fn a_reader_of_a_run_that_was_stopped_while_it_waited_is_told_that_nothing_is_left() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let response = post(&server, "held", &input("t", "r1", "Hello"), None).await;
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    steps.end(Ok(suspension()));
    let last = events(response).await.pop().unwrap();
    server.until(&run_id, |record| record.status == "suspended").await;
    soon(server.http.post(server.url(&format!("/v2/runs/{run_id}/cancel"))).send()).await.unwrap();
    assert_eq!(server.ended(&run_id).await.status, "cancelled");
    let path = format!("/v2/runs/{run_id}/agui");
    let nothing = soon(server.get(&path).header("last-event-id", &last.id).send()).await.unwrap();
    assert_eq!(nothing.status(), 204, "the frames behind the last event stand for none (G6)");
}

#[tokio::test]
async fn a_second_turn_shares_no_id_with_the_first() {
    let server = Setup::new().start().await;
    let first_input = input("t", "r1", "Hello");
    let first = events(post(&server, "demo", &first_input, None).await).await;
    let mut second_input = input("t", "r2", "And again");
    let messages = held_messages(&first, &first_input);
    let asked = second_input["messages"][0].take();
    second_input["messages"] = Value::Array([messages, vec![asked]].concat());
    let second = events(post(&server, "demo", &second_input, None).await).await;
    consumed(&second, Some(&second_input));

    let (first, second) = (made_ids(&first), made_ids(&second));
    assert!(first.len() > 2 && second.len() > 2);
    let shared: Vec<&String> = first.intersection(&second).collect();
    assert!(shared.is_empty(), "{shared:?}");
}

/// The messages that a client holds after a stream.
fn held_messages(events: &[AguiEvent], input: &Value) -> Vec<Value> {
    let start = runwire_agui::RunAgentInput::decode_value(input.clone()).unwrap().0;
    let mut reducer = runwire_agui::Reducer::from_input(&start);
    for (index, event) in consumed(events, Some(input)).into_iter().enumerate() {
        assert_eq!(reducer.apply(event, index), None);
    }
    reducer.messages().map(|message| serde_json::to_value(message).unwrap()).collect()
}

/// Every id that a stream gave to something.
fn made_ids(events: &[AguiEvent]) -> HashSet<String> {
    let mut ids = HashSet::new();
    for event in events {
        let json = event.json();
        for key in ["messageId", "toolCallId", "parentMessageId", "runId", "subagentRunId", "activityId"] {
            ids.extend(json[key].as_str().map(str::to_owned));
        }
    }
    ids
}

#[tokio::test]
async fn the_answer_to_a_post_does_not_get_old_and_streams_that_can_resume_do() {
    let (steps, driver) = stepped();
    let server = Setup::new()
        .agent("held", driver)
        .options(|o| o.stream_max_age = Some(Duration::from_millis(100)))
        .start()
        .await;
    let input = input("t", "r", "Hello");
    let mut posted = post(&server, "held", &input, None).await;
    let run_id = posted.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    steps.say("before");
    let mut body = until(&mut posted, "before").await;
    // Each ends in good order while its run goes on.
    for path in ["stream", "agui"] {
        let response = soon(server.get(&format!("/v2/runs/{run_id}/{path}")).send()).await.unwrap();
        let recycled = soon(response.text()).await.unwrap();
        assert!(recycled.contains("before") && recycled.ends_with("\n\n"), "{path}: {recycled}");
    }
    assert_eq!(server.store.run(&run_id).await.unwrap().unwrap().status, "running");
    steps.say("after");
    steps.complete();
    body += &soon(posted.text()).await.unwrap();
    let whole = agui_events(&body);
    consumed(&whole, Some(&input));
    assert!(body.contains("after"));
    assert_eq!(whole.last().unwrap().kind(), "RUN_FINISHED", "a client that reads a POST does not resume by itself");
}

#[tokio::test]
async fn silence_on_an_event_stream_is_broken_by_comments() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).options(|o| o.keep_alive = Duration::from_millis(30)).start().await;
    let mut response = post(&server, "held", &input("t", "r", "Hello"), None).await;
    let mut body = String::new();
    while body.matches("\n\n:").count() < 2 {
        body += std::str::from_utf8(&soon(response.chunk()).await.unwrap().unwrap()).unwrap();
    }
    steps.complete();
    body += &soon(response.text()).await.unwrap();
    consumed(&agui_events(&body), None);
}

#[tokio::test]
async fn capabilities_are_the_agents_own_and_how_it_is_served_here() {
    let server = Setup::new().start().await;
    let answer = reqwest::get(server.url("/agui/demo/capabilities")).await.unwrap();
    assert_eq!(answer.status(), 200);
    let (capabilities, warnings) = runwire_agui::AgentCapabilities::decode_value(answer.json().await.unwrap()).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(capabilities.identity.unwrap().name.as_deref(), Some("demo"));
    assert_eq!(capabilities.reasoning.unwrap().streaming, Some(true));
    assert_eq!(capabilities.transport.unwrap().streaming, Some(true));
    assert_eq!(capabilities.output, None, "what is not declared is left out");
    let unknown = reqwest::get(server.url("/agui/nobody/capabilities")).await.unwrap();
    assert_eq!(unknown.status(), 404);
}

/// patterns/snapshots, "Deltas": whoever reads changes of a state has what they change.
#[tokio::test]
async fn who_did_not_send_the_state_that_a_run_starts_from_is_told_it() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let mut asked = input("t", "r", "Hello");
    asked["state"] = json!({ "n": 1 });
    steps.say("one");
    steps.complete();
    let response = post(&server, "held", &asked, None).await;
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    let sent = events(response).await;
    assert!(!sent.iter().any(|event| event.json()["type"] == "STATE_SNAPSHOT"), "whoever sent it has it");
    let path = format!("/v2/runs/{run_id}/agui");
    let mut told = events(soon(server.get(&path).send()).await.unwrap()).await;
    assert_eq!(told[1].json(), json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": 1 } }));
    // Everything else has the id that it has for whoever sent it.
    for at in 0..told.len() - 1 {
        let rest = server.get(&path).header("last-event-id", &told[at].id);
        assert_eq!(events(soon(rest.send()).await.unwrap()).await, told[at + 1..], "after {}", told[at].id);
    }
    told.remove(1);
    assert_eq!(told, sent);

    // The empty object is what a reader starts from anyway.
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    asked["state"] = json!({});
    steps.complete();
    let response = post(&server, "held", &asked, None).await;
    let path = format!("/v2/runs/{}/agui", response.headers()["runwire-run-id"].to_str().unwrap());
    let sent = events(response).await;
    assert_eq!(events(soon(server.get(&path).send()).await.unwrap()).await, sent);
}

/// patterns/interrupt-resume: a thread is not gone past an open interrupt.
#[tokio::test]
async fn a_thread_that_waits_asks_again_and_the_run_api_says_so() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    steps.end(Ok(suspension()));
    let first = events(post(&server, "held", &input("t", "r1", "Hello"), None).await).await;
    let again = events(post(&server, "held", &input("t", "r2", "And now?"), None).await).await;
    let (asked, repeated) = (first.last().unwrap().json(), again.last().unwrap().json());
    assert_eq!(repeated["outcome"]["type"], "interrupt", "{repeated}");
    assert_eq!((&repeated["outcome"], &repeated["runId"]), (&asked["outcome"], &json!("r2")));

    let prompt = json!({ "agent_id": "held", "session_id": "t", "prompt": "And now?" });
    let refused = problem(soon(server.post("/v2/runs", &prompt).send()).await.unwrap()).await;
    assert_eq!(refused["status"], 409);
    assert_eq!(refused["missing"].as_array().map(Vec::len), asked["outcome"]["interrupts"].as_array().map(Vec::len));
    assert!(refused["run_id"].is_string(), "{refused}");
}
