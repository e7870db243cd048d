//! `POST /v2/runs/{id}/resume`, and what `GET /v2/runs/{id}` tells of a run that waits.

use serde_json::{Value, json};

use crate::harness::{Server, Setup, problem, soon};

/// A run of the demo agent that asks before it runs its tool.
async fn waiting(server: &Server, token: Option<&str>) -> String {
    let mut create = server.post("/v2/runs", &json!({ "agent_id": "demo", "prompt": "Let me approve this" }));
    if let Some(token) = token {
        create = create.bearer_auth(token);
    }
    let record: Value = soon(create.send()).await.unwrap().json().await.unwrap();
    let run_id = record["run_id"].as_str().unwrap().to_owned();
    server.until(&run_id, |record| record.status == "suspended").await;
    run_id
}

fn answer(interrupt_id: &Value, payload: Value) -> Value {
    json!({ "answers": [{ "interrupt_id": interrupt_id, "status": "resolved", "payload": payload }] })
}

async fn text(server: &Server, run_id: &str) -> String {
    let log = server.log(run_id).await;
    let frames = log.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap());
    frames.filter_map(|frame| frame["data"]["text"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_run_tells_what_it_waits_for_and_goes_on_when_it_is_answered() {
    let server = Setup::new().start().await;
    for (approved, says) in [(true, "Your prompt has 19 characters"), (false, "You did not let me measure")] {
        let run_id = waiting(&server, None).await;
        let path = format!("/v2/runs/{run_id}");
        let waits_for = server.json(&path).await["waits_for"].clone();
        assert_eq!((&waits_for["kind"], &waits_for["deadline_at"]), (&json!("approval"), &Value::Null));
        let [interrupt] = &waits_for["interrupts"].as_array().unwrap()[..] else { panic!("{waits_for}") };
        assert_eq!(interrupt["response_schema"]["required"], json!(["approved"]));
        assert!(interrupt["tool_call_id"].is_string() && waits_for["prompt"].is_string(), "{waits_for}");

        let resume = format!("{path}/resume");
        let body = answer(&interrupt["interrupt_id"], json!({ "approved": approved }));
        let response = soon(server.post(&resume, &body).send()).await.unwrap();
        assert_eq!(response.status(), 202);
        assert_eq!(response.headers()["location"], path);
        assert_eq!(response.json::<Value>().await.unwrap()["run_id"], run_id);
        assert_eq!(server.ended(&run_id).await.status, "completed");
        assert!(text(&server, &run_id).await.contains(says));
        assert_eq!(server.json(&path).await.get("waits_for"), None, "it waits no more");

        let again = soon(server.post(&resume, &body).send()).await.unwrap();
        assert_eq!(again.status(), 200, "the same answers again change nothing");
        let other = answer(&interrupt["interrupt_id"], json!({ "approved": !approved }));
        let refused = problem(soon(server.post(&resume, &other).send()).await.unwrap()).await;
        assert_eq!((&refused["status"], &refused["title"]), (&json!(409), &json!("Answered before")));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_the_schema_is_422_and_names_interrupt_and_path_whoever_brings_it() {
    let server = Setup::new().start().await;
    let run_id = waiting(&server, None).await;
    let record = server.json(&format!("/v2/runs/{run_id}")).await;
    let id = record["waits_for"]["interrupts"][0]["interrupt_id"].clone();
    let resume = format!("/v2/runs/{run_id}/resume");
    let by_run_api = server.post(&resume, &answer(&id, json!({ "approved": "yes" })));
    let by_agui = server.post(
        "/agui/demo",
        &json!({
            "protocolVersion": "1.0", "threadId": record["session_id"], "runId": "r2", "messages": [],
            "resume": [{ "interruptId": id, "status": "resolved", "payload": { "approved": "yes" } }],
        }),
    );
    for request in [by_run_api, by_agui] {
        let refused = problem(soon(request.send()).await.unwrap()).await;
        assert_eq!(refused["status"], 422, "{refused}");
        assert_eq!((&refused["interrupt_id"], &refused["path"]), (&id, &json!("/approved")));
        assert!(refused["expected"].as_str().unwrap().contains("boolean"), "{refused}");
    }
    let refusals = [
        (json!({ "answers": [] }), 422, "Resume incomplete"),
        (json!({ "answers": [{ "interrupt_id": id, "status": "cancelled", "payload": 1 }] }), 422, "no `payload`"),
        (json!({ "answers": [{ "interrupt_id": id, "status": "maybe" }] }), 400, "maybe"),
        (json!({ "answer": [] }), 400, "answer"),
        (json!({ "answers": [], "exchange_id": "" }), 422, "exchange_id"),
    ];
    for (body, status, says) in refusals {
        let refused = problem(soon(server.post(&resume, &body).send()).await.unwrap()).await;
        assert_eq!(refused["status"], status, "{body}: {refused}");
        assert!(refused.to_string().contains(says), "{body}: {refused}");
    }
    assert_eq!(server.json(&format!("/v2/runs/{run_id}")).await["status"], "suspended");
}

#[tokio::test]
async fn who_answered_is_recorded_and_a_run_that_one_may_not_see_is_not_there() {
    let server = Setup::new().token("ann").token("eve").token_for_all("ops").start().await;
    let run_id = waiting(&server, Some("ann")).await;
    let resume = format!("/v2/runs/{run_id}/resume");
    let get = server.get(&format!("/v2/runs/{run_id}")).bearer_auth("ann");
    let record: Value = soon(get.send()).await.unwrap().json().await.unwrap();
    let body = answer(&record["waits_for"]["interrupts"][0]["interrupt_id"], json!({ "approved": true }));
    let foreign = problem(soon(server.post(&resume, &body).bearer_auth("eve").send()).await.unwrap()).await;
    assert_eq!(foreign["status"], 404);
    let response = soon(server.post(&resume, &body).bearer_auth("ops").send()).await.unwrap();
    assert_eq!(response.status(), 202);
    server.ended(&run_id).await;
    let log = soon(server.get(&format!("/v2/runs/{run_id}/frames")).bearer_auth("ann").send()).await.unwrap();
    let log = log.text().await.unwrap();
    assert!(log.contains(r#""resolved_by":"ops""#), "{log}");
}

/// What two who answer at once are told, and that the run went on once.
async fn at_once(
    server: &Server,
    run_id: &str,
    first: reqwest::RequestBuilder,
    second: reqwest::RequestBuilder,
) -> Vec<Value> {
    let (first, second) = tokio::join!(soon(first.send()), soon(second.send()));
    let mut told = Vec::new();
    for response in [first.unwrap(), second.unwrap()] {
        let status = response.status().as_u16();
        let is_json = response.headers()["content-type"].to_str().unwrap().ends_with("json");
        let body = soon(response.text()).await.unwrap();
        let mut answer: Value = if is_json { serde_json::from_str(&body).unwrap() } else { Value::from(body) };
        if is_json {
            answer["http"] = status.into();
        }
        told.push(answer);
    }
    assert_eq!(server.ended(run_id).await.status, "completed");
    let log = server.log(run_id).await;
    let frames = log.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap());
    assert_eq!(frames.filter(|frame| frame["type"] == "resume").count(), 1, "the run goes on once");
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_different_answers_at_once_one_is_acted_on_and_the_other_is_told() {
    let server = Setup::new().start().await;
    for _ in 0..20 {
        let run_id = waiting(&server, None).await;
        let record = server.json(&format!("/v2/runs/{run_id}")).await;
        let id = record["waits_for"]["interrupts"][0]["interrupt_id"].clone();
        let resume = format!("/v2/runs/{run_id}/resume");
        let yes = server.post(&resume, &answer(&id, json!({ "approved": true })));
        let no = server.post(&resume, &answer(&id, json!({ "approved": false })));
        let told = at_once(&server, &run_id, yes, no).await;
        let won = told.iter().position(|answer| answer["http"] == 202).unwrap_or_else(|| panic!("{told:?}"));
        let lost = &told[1 - won];
        assert_eq!((&lost["http"], &lost["title"]), (&json!(409), &json!("Answered before")), "{told:?}");
        let says = ["Your prompt has 19 characters", "You did not let me measure"][won];
        assert!(text(&server, &run_id).await.contains(says), "what is done is what was accepted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_same_answer_twice_at_once_one_is_acted_on_and_both_are_told_of_the_run() {
    let server = Setup::new().start().await;
    for _ in 0..20 {
        let run_id = waiting(&server, None).await;
        let record = server.json(&format!("/v2/runs/{run_id}")).await;
        let id = record["waits_for"]["interrupts"][0]["interrupt_id"].clone();
        let resume = format!("/v2/runs/{run_id}/resume");
        let mut body = answer(&id, json!({ "approved": true }));
        body["exchange_id"] = json!("the answer");
        let told = at_once(&server, &run_id, server.post(&resume, &body), server.post(&resume, &body)).await;
        let mut statuses: Vec<u64> = told.iter().map(|answer| answer["http"].as_u64().unwrap()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 202], "{told:?}");
        assert!(told.iter().all(|record| record["run_id"] == run_id), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_answer_by_the_run_api_and_one_by_ag_ui_at_once_one_is_acted_on_and_the_other_is_told() {
    let server = Setup::new().start().await;
    for _ in 0..20 {
        let run_id = waiting(&server, None).await;
        let record = server.json(&format!("/v2/runs/{run_id}")).await;
        let id = record["waits_for"]["interrupts"][0]["interrupt_id"].clone();
        let yes = server.post(&format!("/v2/runs/{run_id}/resume"), &answer(&id, json!({ "approved": true })));
        let no = server.post(
            "/agui/demo",
            &json!({
                "protocolVersion": "1.0", "threadId": record["session_id"], "runId": "r2", "messages": [],
                "resume": [{ "interruptId": id, "status": "resolved", "payload": { "approved": false } }],
            }),
        );
        let told = at_once(&server, &run_id, yes, no).await;
        let (by_run_api, by_agui) = (&told[0], &told[1]);
        let says = match by_agui.as_str() {
            Some(stream) => {
                assert_eq!(by_run_api["http"], 409, "{told:?}");
                assert!(stream.contains("\"RUN_FINISHED\""), "{stream}");
                "You did not let me measure"
            }
            None => {
                assert_eq!((&by_run_api["http"], &by_agui["http"]), (&json!(202), &json!(409)), "{told:?}");
                "Your prompt has 19 characters"
            }
        };
        assert!(text(&server, &run_id).await.contains(says), "what is done is what was accepted");
    }
}
