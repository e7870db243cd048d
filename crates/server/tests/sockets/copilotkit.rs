//! CopilotKit's runtime over HTTP: its routes, in both forms, as its client of 1.7x uses them.

use reqwest::{Method, RequestBuilder, Response};
use runwire_bridge::{Completion, ExchangeEnd, Failure, Question, Suspension};
use runwire_engine::{Exchange, RunWriter};
use runwire_frame::ErrorCode;
use serde_json::{Value, json};

use crate::harness::{AguiEvent, Script, Server, Setup, agui_events, ids, soon, stepped};

/// An input as its client sends it: without a version, and with what is empty.
fn input(thread: &str, run: &str, messages: Value) -> Value {
    json!({
        "threadId": thread, "runId": run, "state": {}, "messages": messages, "tools": [], "context": [],
        "forwardedProps": {},
    })
}

fn asking(thread: &str, run: &str, what: &str) -> Value {
    input(thread, run, json!([{ "id": format!("ask.{run}"), "role": "user", "content": what }]))
}

async fn post(server: &Server, path: &str, body: &Value) -> Response {
    soon(server.post(&format!("/copilotkit{path}"), body).header("accept", "text/event-stream").send()).await.unwrap()
}

async fn events(response: Response) -> Vec<AguiEvent> {
    assert_eq!(response.status(), 200);
    agui_events(&soon(response.text()).await.unwrap())
}

fn kinds(events: &[AguiEvent]) -> Vec<String> {
    events.iter().map(AguiEvent::kind).collect()
}

/// A refusal, in the form that the client shows.
async fn refusal(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body: Value = response.json().await.unwrap();
    assert_eq!(content_type, "application/json", "{status}: {body}");
    for key in ["error", "message"] {
        assert!(body[key].as_str().is_some_and(|said| !said.is_empty()), "{key}: {status}: {body}");
    }
    (status, body)
}

async fn until(response: &mut Response, what: &str) -> String {
    let mut body = String::new();
    while !body.contains(what) || !body.ends_with("\n\n") {
        let chunk = soon(response.chunk()).await.unwrap().expect("the stream goes on");
        body += std::str::from_utf8(&chunk).unwrap();
    }
    body
}

/// An operation in the form of a route of its own, and in that of the envelope.
fn both_forms(server: &Server, operation: (&str, Value, Value), route: (Method, &str)) -> [RequestBuilder; 2] {
    let (method, params, body) = operation;
    let mut each = server.http.request(route.0, server.url(&format!("/copilotkit{}", route.1)));
    if !body.is_null() {
        each = each.json(&body);
    }
    [each, server.post("/copilotkit", &json!({ "method": method, "params": params, "body": body }))]
}

#[tokio::test]
async fn info_names_the_agents_and_what_is_offered_in_both_forms() {
    let server = Setup::new().start().await;
    for request in both_forms(&server, ("info", Value::Null, Value::Null), (Method::GET, "/info")) {
        let info: Value = soon(request.send()).await.unwrap().json().await.unwrap();
        let demo = &info["agents"]["demo"];
        assert_eq!((&demo["name"], &demo["description"]), (&json!("demo"), &json!("")), "{info}");
        assert_eq!(demo["capabilities"]["humanInTheLoop"]["interrupts"], true, "{info}");
        assert_eq!((&info["mode"], &info["telemetryDisabled"]), (&json!("sse"), &json!(true)));
        let threads = json!({ "list": true, "inspect": true, "mutations": false, "realtimeMetadata": false });
        assert_eq!((&info["threadEndpoints"], &info["singleRoute"]["threadEndpoints"]), (&threads, &threads));
    }
    let by_slash = server.post("/copilotkit/", &json!({ "method": "info" }));
    assert_eq!(soon(by_slash.send()).await.unwrap().status(), 200, "a client keeps the slash of its address");
}

#[tokio::test]
async fn the_path_is_the_configured_one_or_none() {
    let at = |path: Option<&str>| {
        let path = path.map(str::to_owned);
        Setup::new().options(move |options| options.copilotkit_path = path)
    };
    let elsewhere = at(Some("/api/copilotkit")).start().await;
    assert_eq!(elsewhere.json("/api/copilotkit/info").await["agents"]["demo"]["name"], "demo");
    let enveloped = soon(elsewhere.post("/api/copilotkit", &json!({ "method": "info" })).send()).await.unwrap();
    assert_eq!(enveloped.status(), 200);
    let nowhere = at(None).start().await;
    for server in [elsewhere, nowhere] {
        assert_eq!(soon(server.get("/copilotkit/info").send()).await.unwrap().status(), 404);
    }
}

#[tokio::test]
async fn a_run_streams_events_that_a_client_before_1_0_takes_in_both_forms() {
    let server = Setup::new().start().await;
    for (n, path) in [(0, "/agent/demo/run"), (1, "")] {
        let asked = asking("t", &format!("r{n}"), "Hello");
        let body = match path {
            "" => json!({ "method": "agent/run", "params": { "agentId": "demo" }, "body": asked }),
            _ => asked,
        };
        let response = post(&server, path, &body).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let told = events(response).await;
        let again = server.post(&format!("/copilotkit{path}"), &body).header("last-event-id", &told[2].id);
        assert_eq!(events(soon(again.send()).await.unwrap()).await, told[3..], "and goes on behind any of them");
        assert_eq!((told[0].kind(), told.last().unwrap().kind()), ("RUN_STARTED".into(), "RUN_FINISHED".into()));
        assert!(ids(&told).iter().all(|id| !id.is_empty()), "each can be resumed at");
    }
}

/// Seen elsewhere: each reconnect replays the thread again, so that messages appear two or three times.
#[tokio::test]
async fn however_often_a_page_mounts_it_is_told_the_thread_once() {
    let server = Setup::new().start().await;
    events(post(&server, "/agent/demo/run", &asking("t", "one", "Hello")).await).await;
    events(post(&server, "/agent/demo/run", &asking("t", "two", "Again")).await).await;
    let mut told = Vec::new();
    for (n, envelope) in [false, true, false].into_iter().enumerate() {
        let mounting = input("t", &format!("mount{n}"), json!([]));
        let (path, body) = match envelope {
            true => ("", json!({ "method": "agent/connect", "params": { "agentId": "demo" }, "body": mounting })),
            false => ("/agent/demo/connect", mounting),
        };
        let events = events(post(&server, path, &body).await).await;
        assert_eq!(kinds(&events), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]);
        told.push(events[1].json()["messages"].clone());
    }
    assert!(told[0].as_array().unwrap().len() >= 6, "{told:?}");
    let seen: Vec<&str> = told[0].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(seen.iter().collect::<std::collections::BTreeSet<_>>().len(), seen.len(), "{seen:?}");
    assert!(told.iter().all(|messages| *messages == told[0]));
}

/// Seen elsewhere: one failed run in a thread makes the whole replayed thread come back empty.
#[tokio::test]
async fn a_failed_run_in_the_middle_of_a_thread_takes_nothing_from_it() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    for (run, says, fails) in [("one", "first", false), ("two", "half", true), ("three", "third", false)] {
        steps.text(says);
        match fails {
            true => steps.end(Err(Failure::new(ErrorCode::ModelError, "the model broke"))),
            false => steps.complete(),
        }
        let told = events(post(&server, "/agent/held/run", &asking("t", run, run)).await).await;
        assert_eq!(told.last().unwrap().kind(), if fails { "RUN_ERROR" } else { "RUN_FINISHED" });
    }
    let told = events(post(&server, "/agent/held/connect", &input("t", "mount", json!([]))).await).await;
    let messages = told[1].json()["messages"].clone();
    let said: Vec<&str> = messages.as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["one", "first", "two", "half", "three", "third"]);
    assert_eq!(told.last().unwrap().kind(), "RUN_FINISHED", "what failed before is no failure now");
}

#[tokio::test]
async fn a_page_that_mounts_in_mid_run_is_told_the_rest_as_it_comes_and_a_lost_connection_goes_on() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let asked = asking("t", "r", "Hello");
    let mut running = post(&server, "/agent/held/run", &asked).await;
    steps.text("one");
    let before = agui_events(&until(&mut running, "one").await);
    let mut mounted = post(&server, "/agent/held/connect", &input("t", "mount", json!([]))).await;
    let restated = until(&mut mounted, "one").await;
    steps.text("two");
    until(&mut mounted, "two").await;
    drop(running);
    // As `resumableFetch` goes on: the same request, with the id of the last event.
    let last = before.last().unwrap().id.clone();
    let again = server.post("/copilotkit/agent/held/run", &asked).header("last-event-id", &last);
    let again = soon(again.send()).await.unwrap();
    steps.complete();
    let rest = events(again).await;
    assert!(rest.iter().all(|event| !before.contains(event)));
    assert_eq!(rest.last().unwrap().kind(), "RUN_FINISHED");
    let whole = restated + &soon(mounted.text()).await.unwrap();
    assert_eq!(whole.matches("\"delta\":\"one\"").count(), 1, "{whole}");
    assert_eq!(agui_events(&whole).last().unwrap().kind(), "RUN_FINISHED");
    assert_eq!(server.json("/v2/runs").await["runs"].as_array().unwrap().len(), 1, "it ran once");
}

#[tokio::test]
async fn the_last_seen_event_of_a_mounting_page_is_taken_where_it_is_one() {
    let server = Setup::new().start().await;
    events(post(&server, "/agent/demo/run", &asking("t", "one", "Hello")).await).await;
    let mut mounting = input("t", "mount", json!([]));
    let whole = events(post(&server, "/agent/demo/connect", &mounting).await).await;
    for (seen, left) in [
        (json!(whole[1].id), &whole[2..]),
        (Value::Null, &whole[..]),
        // CopilotKit's own platform has ids of its own.
        (json!("0197-something"), &whole[..]),
    ] {
        mounting["lastSeenEventId"] = seen.clone();
        assert_eq!(events(post(&server, "/agent/demo/connect", &mounting).await).await, left, "{seen}");
    }
}

#[tokio::test]
async fn a_thread_that_is_not_there_is_an_empty_run() {
    let server = Setup::new().start().await;
    let told = events(post(&server, "/agent/demo/connect", &input("nothing", "mount", json!([]))).await).await;
    assert_eq!(kinds(&told), ["RUN_STARTED", "RUN_FINISHED"]);
}

/// The client has no outcome for a stopped run, and takes one code of a failure for it.
#[tokio::test]
async fn a_stop_reaches_the_agent_and_is_told_as_the_failure_that_the_client_does_not_show() {
    for (n, with_run_id) in [true, false].into_iter().enumerate() {
        let (steps, driver) = stepped();
        let server = Setup::new().agent("held", driver).start().await;
        let thread = "a thread/of mine";
        let mut running = post(&server, "/agent/held/run", &asking(thread, "r", "Hello")).await;
        steps.begin("one");
        let mut body = until(&mut running, "one").await;
        let mut mounted = post(&server, "/agent/held/connect", &input(thread, "mount", json!([]))).await;
        let mut shown = until(&mut mounted, "one").await;
        let scope = if with_run_id { json!({ "runId": "r" }) } else { Value::Null };
        let params = json!({ "agentId": "held", "threadId": thread });
        let route = (Method::POST, "/agent/held/stop/a%20thread%2Fof%20mine");
        let [each, enveloped] = both_forms(&server, ("agent/stop", params, scope), route);
        let request = if n == 0 { each } else { enveloped };
        let answer: Value = soon(request.send()).await.unwrap().json().await.unwrap();
        assert_eq!((&answer["stopped"], &answer["interrupt"]["code"]), (&json!(true), &json!("STOPPED")), "{answer}");
        body += &soon(running.text()).await.unwrap();
        shown += &soon(mounted.text()).await.unwrap();
        for told in [agui_events(&body), agui_events(&shown)] {
            let end = told.last().unwrap();
            assert_eq!((end.kind(), &end.json()["code"]), ("RUN_ERROR".into(), &json!("abort")), "{:?}", end.json());
        }
        // The next message is an ordinary one.
        steps.text("two");
        steps.complete();
        let next = events(post(&server, "/agent/held/run", &asking(thread, "r2", "And now?")).await).await;
        assert_eq!(next.last().unwrap().kind(), "RUN_FINISHED");
        let told = events(post(&server, "/agent/held/connect", &input(thread, "mount2", json!([]))).await).await;
        assert_eq!(told[1].json()["messages"].as_array().unwrap().len(), 4, "what was said before the stop stays");
    }
}

/// Seen elsewhere: an early stop is lost.
#[tokio::test]
async fn a_stop_that_overtakes_its_run_stops_it() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let answer = post(&server, "/agent/held/stop/t", &json!({ "runId": "r" })).await;
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["stopped"], false, "{answer}");
    let told = events(post(&server, "/agent/held/run", &asking("t", "r", "Hello")).await).await;
    let end = told.last().unwrap();
    assert_eq!((end.kind(), &end.json()["code"]), ("RUN_ERROR".into(), &json!("abort")));
    let other = server.http.post(server.url("/copilotkit/agent/held/stop/t")).send();
    let answer: Value = soon(other).await.unwrap().json().await.unwrap();
    assert_eq!(
        answer,
        json!({ "stopped": false, "message": "No active run for thread 't'." }),
        "nothing is left of it"
    );
}

#[tokio::test]
async fn a_stop_is_of_one_agent_and_one_run_and_its_body_is_read_exactly() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let mut running = post(&server, "/agent/held/run", &asking("t", "r", "Hello")).await;
    until(&mut running, "RUN_STARTED").await;
    for bad in [
        json!({ "runId": "r", "force": true }),
        json!({ "runId": "" }),
        json!({ "runId": null }),
        json!({ "runId": 7 }),
        json!([]),
        json!("r"),
    ] {
        assert_eq!(refusal(post(&server, "/agent/held/stop/t", &bad).await).await.0, 400, "{bad}");
    }
    assert_eq!(refusal(post(&server, "/agent/nobody/stop/t", &json!({})).await).await.0, 404);
    for (path, body) in [
        ("/agent/demo/stop/t", json!({ "runId": "r" })),
        ("/agent/demo/stop/t", json!({})),
        ("/agent/held/stop/t", json!({ "runId": "another" })),
        ("/agent/held/stop/another", json!({})),
    ] {
        let answer: Value = post(&server, path, &body).await.json().await.unwrap();
        assert_eq!(answer["stopped"], false, "{path} {body}: {answer}");
    }
    assert_eq!(server.json("/v2/runs").await["runs"][0]["status"], "running");
}

/// An agent that asks once and says what it was answered.
fn asker()
-> Script<impl Fn(Exchange, RunWriter) -> futures_util::future::BoxFuture<'static, Result<ExchangeEnd, Failure>>> {
    Script(|exchange: Exchange, writer: RunWriter| {
        Box::pin(async move {
            let Some(answer) = exchange.answers().into_iter().next() else {
                return Ok(ExchangeEnd::Suspended(Suspension::asking(Question::input("which").message("Which?"), [])));
            };
            let message = writer.message(runwire_bridge::Opening::default()).await?;
            message.text(&format!("answered {:?}", answer.value)).await?;
            message.end(runwire_bridge::Ending::completed()).await?;
            Ok(ExchangeEnd::Completed(Completion::default()))
        }) as _
    })
}

/// CopilotKit's client posts an answer under the id of the run that asked.
#[tokio::test]
async fn an_answer_under_the_id_of_the_run_that_asked_goes_on_with_it_and_repeated_it_re_attaches() {
    let server = Setup::new().agent("asker", asker()).start().await;
    let asked = asking("t", "r", "Hello");
    let told = events(post(&server, "/agent/asker/run", &asked).await).await;
    assert_eq!(told.last().unwrap().json()["outcome"]["type"], "interrupt");
    // It may stand at the button for as long as it likes; leaving the thread, which asks for a stop, keeps the question.
    let left: Value = post(&server, "/agent/asker/stop/t", &json!({})).await.json().await.unwrap();
    assert_eq!(left["stopped"], false, "{left}");
    let mut answer = asked.clone();
    answer["resume"] = json!([{ "interruptId": "which", "status": "resolved", "payload": "this" }]);
    let answered = events(post(&server, "/agent/asker/run", &answer).await).await;
    assert_eq!(answered.last().unwrap().kind(), "RUN_FINISHED");
    assert!(answered.iter().any(|event| event.json()["delta"].as_str().is_some_and(|d| d.contains("this"))));
    assert_eq!(events(post(&server, "/agent/asker/run", &answer).await).await, answered, "once, and told again");
    let seen = &answered[2].id;
    let rest = server.post("/copilotkit/agent/asker/run", &answer).header("last-event-id", seen);
    assert_eq!(events(soon(rest.send()).await.unwrap()).await, answered[3..], "a lost connection goes on");

    // A second tab that answers otherwise is told; the run did not go on twice.
    answer["resume"][0]["payload"] = json!("that");
    let (status, late) = refusal(post(&server, "/agent/asker/run", &answer).await).await;
    assert_eq!((status, &late["error"]), (409, &json!("Already resolved")), "{late}");
    let runs = server.json("/v2/runs").await;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    // Without an answer the same id re-attaches to the run only with what it was asked first.
    let (status, _) = refusal(post(&server, "/agent/asker/run", &asking("t", "r", "Something else")).await).await;
    assert_eq!(status, 409);
}

/// CopilotKit's client takes an answer about a tool call for the result of the call too, and sends it as one.
#[tokio::test]
async fn an_approved_call_is_executed_whatever_the_client_calls_its_result() {
    let server = Setup::new().start().await;
    let mut answer = asking("t", "r", "approve this");
    let told = events(post(&server, "/agent/demo/run", &answer).await).await;
    let asked = told.last().unwrap().json()["outcome"]["interrupts"][0].clone();
    let call = &asked["toolCallId"];
    let made = json!({ "id": call, "type": "function", "function": { "name": "measure_text", "arguments": "{}" } });
    answer["messages"].as_array_mut().unwrap().extend([
        json!({ "id": "made", "role": "assistant", "toolCalls": [made] }),
        json!({ "id": "result", "role": "tool", "toolCallId": call, "content": "{\"approved\":true}" }),
    ]);
    answer["resume"] = json!([{ "interruptId": asked["id"], "status": "resolved", "payload": { "approved": true } }]);
    let told = events(post(&server, "/agent/demo/run", &answer).await).await;
    let result = told.iter().map(AguiEvent::json).find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
    assert_eq!(result["toolCallId"], *call);
    assert!(result["content"].as_str().unwrap().contains("\"characters\":12"), "{result}");
    assert_eq!(told.last().unwrap().kind(), "RUN_FINISHED");
}

/// Seen elsewhere: a pending approval is lost when the page reloads.
#[tokio::test]
async fn a_page_that_mounts_is_told_what_waits_and_its_answer_goes_on() {
    let server = Setup::new().agent("asker", asker()).start().await;
    events(post(&server, "/agent/asker/run", &asking("t", "r", "Hello")).await).await;
    for mount in ["m1", "m2"] {
        let told = events(post(&server, "/agent/asker/connect", &input("t", mount, json!([]))).await).await;
        let outcome = told.last().unwrap().json()["outcome"].clone();
        assert_eq!((&outcome["type"], &outcome["interrupts"][0]["id"]), (&json!("interrupt"), &json!("which")));
    }
    let mut answer = asking("t", "m2", "Hello");
    answer["resume"] = json!([{ "interruptId": "which", "status": "cancelled" }]);
    let told = events(post(&server, "/agent/asker/run", &answer).await).await;
    assert_eq!(told.last().unwrap().kind(), "RUN_FINISHED");
    assert_eq!(server.json("/v2/runs").await["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn threads_are_listed_by_their_newest_runs_and_inspected() {
    let server = Setup::new().agent("asker", asker()).start().await;
    for (agent, thread, run) in [("demo", "a", "1"), ("demo", "b", "2"), ("asker", "c", "3"), ("demo", "a", "4")] {
        events(post(&server, &format!("/agent/{agent}/run"), &asking(thread, run, "Hello")).await).await;
    }
    let threads = |list: &Value| -> Vec<String> {
        list["threads"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = server.json("/copilotkit/threads?includeArchived=true").await;
    assert_eq!((threads(&all), &all["nextCursor"]), (vec!["a".into(), "c".into(), "b".into()], &Value::Null));
    let first = &all["threads"][0];
    assert_eq!((&first["agentId"], &first["archived"], &first["name"]), (&json!("demo"), &json!(false), &Value::Null));
    assert!(first["createdAt"].as_str().unwrap() <= first["lastRunAt"].as_str().unwrap(), "{first}");
    let page = server.json("/copilotkit/threads?agentId=demo&limit=1").await;
    assert_eq!(threads(&page), ["a"]);
    let next = page["nextCursor"].as_str().unwrap();
    let page = server.json(&format!("/copilotkit/threads?agentId=demo&limit=1&cursor={next}")).await;
    assert_eq!((threads(&page), &page["nextCursor"]), (vec!["b".to_owned()], &Value::Null));
    let params = json!({ "path": "/threads?agentId=asker", "httpMethod": "GET" });
    let enveloped = post(&server, "", &json!({ "method": "resource/request", "params": params })).await;
    assert_eq!(threads(&enveloped.json().await.unwrap()), ["c"]);

    let messages = server.json("/copilotkit/threads/b/messages").await["messages"].clone();
    let call = messages.as_array().unwrap().iter().find(|m| m["toolCalls"].is_array()).unwrap();
    assert_eq!((&call["role"], &call["toolCalls"][0]["name"]), (&json!("assistant"), &json!("measure_text")));
    assert!(call["toolCalls"][0]["args"].as_str().unwrap().contains("Hello"));
    assert_eq!(messages[0], json!({ "id": "ask.2", "role": "user", "content": "Hello" }));
    assert_eq!(server.json("/copilotkit/threads/b/state").await["state"]["phase"], "done");
    let told = server.json("/copilotkit/threads/b/events").await["events"].clone();
    let told: Vec<&str> = told.as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(told, ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]);
    assert_eq!(server.json("/copilotkit/threads/none/messages").await, json!({ "messages": [] }));
    assert_eq!(server.json("/copilotkit/threads/none/events").await, json!({ "events": [] }));
    assert_eq!(server.json("/copilotkit/threads/none/state").await, json!({ "state": null }));
    let (status, _) = refusal(soon(server.get("/copilotkit/threads?cursor=x").send()).await.unwrap()).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn what_is_not_offered_is_refused_in_the_words_that_the_client_shows() {
    let server = Setup::new().start().await;
    let request = |method: &str, path: &str| {
        let url = server.url(&format!("/copilotkit{path}"));
        server.http.request(method.parse().unwrap(), url).json(&json!({ "agentId": "demo" }))
    };
    for (method, path, status) in [
        ("PATCH", "/threads/t", 422),
        ("DELETE", "/threads/t", 422),
        ("POST", "/threads/t/archive", 422),
        ("POST", "/threads/subscribe", 422),
        ("POST", "/threads/clear", 422),
        ("POST", "/annotate", 422),
        ("POST", "/transcribe", 503),
        ("POST", "/agent/demo/suggest", 404),
        ("GET", "/memories", 404),
        ("GET", "/agent/demo/run", 405),
        ("GET", "", 405),
        ("POST", "", 400),
        ("POST", "/agent/nobody/run", 422),
    ] {
        let refused = refusal(soon(request(method, path).send()).await.unwrap()).await;
        assert_eq!(refused.0, status, "{method} {path}: {}", refused.1);
    }
    let nobody = refusal(post(&server, "/agent/nobody/run", &asking("t", "r", "Hello")).await).await;
    assert_eq!((nobody.0, &nobody.1["error"]), (404, &json!("Agent not found")));
    let nobody = refusal(post(&server, "/agent/nobody/connect", &asking("t", "r", "Hello")).await).await;
    assert_eq!(nobody.0, 404);
    assert_eq!(server.json("/copilotkit/threads").await["threads"], json!([]), "nothing of it left a thread");
}

#[tokio::test]
async fn where_tokens_are_wanted_each_sees_its_own_threads_and_stops_its_own_runs() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).token("alice").token("bob").start().await;
    let get = |path: &str, who: &str| server.get(&format!("/copilotkit{path}")).bearer_auth(who);
    for path in ["/info", "/threads", "/threads/t/messages"] {
        let (status, refused) = refusal(soon(server.get(&format!("/copilotkit{path}")).send()).await.unwrap()).await;
        assert_eq!((status, &refused["error"]), (401, &json!("Unauthorized")), "{path}");
    }
    let run = server.post("/copilotkit/agent/held/run", &asking("t", "r", "Hello")).bearer_auth("alice");
    let mut running = soon(run.send()).await.unwrap();
    until(&mut running, "RUN_STARTED").await;
    let list: Value = soon(get("/threads", "bob").send()).await.unwrap().json().await.unwrap();
    assert_eq!(list["threads"], json!([]));
    let messages: Value = soon(get("/threads/t/messages", "bob").send()).await.unwrap().json().await.unwrap();
    assert_eq!(messages["messages"], json!([]));
    let list: Value = soon(get("/threads", "alice").send()).await.unwrap().json().await.unwrap();
    assert_eq!((&list["threads"][0]["id"], &list["threads"][0]["createdById"]), (&json!("t"), &json!("alice")));
    for scope in [json!({}), json!({ "runId": "r" })] {
        let stop = server.post("/copilotkit/agent/held/stop/t", &scope).bearer_auth("bob");
        let answer: Value = soon(stop.send()).await.unwrap().json().await.unwrap();
        assert_eq!(answer["stopped"], false, "{answer}");
    }
    let enveloped = server
        .post("/copilotkit", &json!({ "method": "agent/stop", "params": { "agentId": "held", "threadId": "t" } }));
    let answer: Value = soon(enveloped.bearer_auth("alice").send()).await.unwrap().json().await.unwrap();
    assert_eq!(answer["stopped"], true, "{answer}");
}

#[tokio::test]
async fn a_browser_lets_an_allowed_page_send_what_copilotkit_sends() {
    let server = Setup::new().options(|o| o.cors_origins = vec!["https://app.example".into()]).start().await;
    let ask = |origin: &'static str, method: &'static str| {
        let ask = server.http.request(Method::OPTIONS, server.url("/copilotkit/agent/demo/run"));
        let ask = ask.header("origin", origin).header("access-control-request-method", method);
        ask.header(
            "access-control-request-headers",
            "authorization,content-type,x-copilotcloud-public-api-key,x-tenant",
        )
    };
    for method in ["POST", "PATCH", "DELETE"] {
        let told = soon(ask("https://app.example", method).send()).await.unwrap();
        let header = |name: &str| told.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("access-control-allow-origin"), "https://app.example");
        assert_eq!(header("access-control-allow-credentials"), "true", "`credentials: \"include\"`");
        assert!(header("access-control-allow-methods").contains(method), "{method}");
        let headers = header("access-control-allow-headers");
        assert!(headers.contains("x-tenant") && headers.contains("x-copilotcloud-public-api-key"), "{headers}");
    }
    let stranger = soon(ask("https://evil.example", "POST").send()).await.unwrap();
    assert!(!stranger.headers().contains_key("access-control-allow-origin"));
    let posted = server.post("/copilotkit", &json!({ "method": "info" })).header("origin", "https://evil.example");
    assert_eq!(soon(posted.send()).await.unwrap().status(), 403, "and it could not read why");
}
