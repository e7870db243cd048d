//! G7 for runs that retention removed: every route says so, nothing is run twice, and nobody else learns of it.

use runwire_store::Retention;
use serde_json::{Value, json};

use crate::harness::{Got, Reader, Server, Setup, Transport, problem, soon};

async fn prune(server: &Server, body: Value) -> Value {
    let response = soon(server.post("/v2/runs/prune", &body).send()).await.unwrap();
    assert_eq!(response.status(), 200, "{body}");
    response.json().await.unwrap()
}

#[tokio::test]
async fn g7_a_removed_run_is_410_on_every_route_with_when_it_was_removed() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let head = server.log(&run_id).await.len() as u64;
    let dry = prune(&server, json!({ "older_than_ms": 0, "dry_run": true })).await;
    assert_eq!(
        (&dry["removed"], &dry["found"]["runs"], &dry["runs"][0]["run_id"]),
        (&json!(0), &json!(1), &json!(run_id))
    );
    assert!(server.json(&format!("/v2/runs/{run_id}")).await["ended_at"].is_i64(), "a dry run removes nothing");
    let pruned = prune(&server, json!({ "older_than_ms": 0, "agent_id": "demo" })).await;
    assert_eq!((&pruned["removed"], &pruned["more"]), (&json!(1), &json!(false)));

    let routes = ["", "/stream", "/frames", "/agui", "/segments/seg_1/payload"];
    for route in routes.iter().map(|r| (*r).to_owned()).chain([format!("/stream?after={head}")]) {
        let response = soon(server.get(&format!("/v2/runs/{run_id}{route}")).send()).await.unwrap();
        let problem = problem(response).await;
        assert_eq!((&problem["status"], &problem["oldest"]), (&json!(410), &json!(head + 1)), "{route}");
        assert!(
            problem["removed_at"].is_i64() && problem["detail"].as_str().unwrap().contains("retention"),
            "{problem}"
        );
    }
    let cancel = soon(server.http.post(server.url(&format!("/v2/runs/{run_id}/cancel"))).send()).await.unwrap();
    assert_eq!(problem(cancel).await["status"], 410);
    let mut reader = Reader::open(&server, Transport::WebSocket, &run_id, 3).await;
    let Got::Frame(0, body) = reader.next().await else { panic!("an error frame has seq 0") };
    let error: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&error["data"]["code"], &error["data"]["oldest"]), (&json!("MALFORMED_FRAME"), &json!(head + 1)));
    assert_eq!(reader.next().await, Got::Closed(4401));
    assert_eq!(server.json("/v2/runs").await["runs"], json!([]));
}

#[tokio::test]
async fn g7_a_repeated_post_of_a_removed_exchange_is_410_and_runs_nothing() {
    let server = Setup::new().start().await;
    let input = json!({ "threadId": "t", "runId": "e", "state": {}, "messages": [], "tools": [], "context": [],
        "forwardedProps": {}, "protocolVersion": "1.0" });
    soon(soon(server.post("/agui/demo", &input).send()).await.unwrap().bytes()).await.unwrap();
    assert_eq!(prune(&server, json!({ "older_than_ms": 0 })).await["removed"], 1);
    let mut other = input.clone();
    other["state"] = json!({ "other": true });
    for (body, cursor) in [(&input, None), (&other, None), (&input, Some("3.0"))] {
        let mut request = server.post("/agui/demo", body);
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        assert_eq!(problem(soon(request.send()).await.unwrap()).await["status"], 410);
    }
    let mut answer = input.clone();
    answer["resume"] = json!([{ "interruptId": "i", "status": "resolved" }]);
    assert_eq!(problem(soon(server.post("/agui/demo", &answer).send()).await.unwrap()).await["status"], 410);
    let created = server.post("/v2/runs", &json!({ "agent_id": "demo", "input": input })).send();
    assert_eq!(problem(soon(created).await.unwrap()).await["status"], 410);
    assert_eq!(server.json("/v2/runs").await["runs"], json!([]), "nothing was run");
    // Another exchange of the same session is a new run.
    let mut next = input;
    next["runId"] = json!("e2");
    assert_eq!(soon(server.post("/agui/demo", &next).send()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn that_a_run_was_removed_is_told_to_those_who_could_see_it_and_removing_takes_an_operator() {
    let server = Setup::new().token("ann").token("bob").token_for_all("ops").start().await;
    let body = json!({ "agent_id": "demo", "input": { "threadId": "t", "runId": "e", "messages": [] } });
    let created = soon(server.post("/v2/runs", &body).bearer_auth("ann").send()).await.unwrap();
    let record: Value = created.json().await.unwrap();
    let run_id = record["run_id"].as_str().unwrap();
    server.ended(run_id).await;
    let prune = |token: &str| server.post("/v2/runs/prune", &json!({ "older_than_ms": 0 })).bearer_auth(token).send();
    assert_eq!(problem(soon(prune("ann")).await.unwrap()).await["status"], 403);
    let pruned: Value = soon(prune("ops")).await.unwrap().json().await.unwrap();
    assert_eq!(pruned["removed"], 1);
    for (token, status) in [("ann", 410), ("ops", 410), ("bob", 404)] {
        let get = server.get(&format!("/v2/runs/{run_id}/stream")).bearer_auth(token).send();
        assert_eq!(problem(soon(get).await.unwrap()).await["status"], status, "{token}");
    }
    let unknown = problem(soon(server.get("/v2/runs/run_x").bearer_auth("bob").send()).await.unwrap()).await;
    let hidden = server.get(&format!("/v2/runs/{run_id}")).bearer_auth("bob").send();
    let hidden = problem(soon(hidden).await.unwrap()).await.to_string();
    assert_eq!(hidden.replace(run_id, "run_x"), unknown.to_string(), "one that is not there is told alike");
    for (token, status) in [("ann", 410), ("bob", 403)] {
        let again = server.post("/v2/runs", &body).bearer_auth(token).send();
        assert_eq!(problem(soon(again).await.unwrap()).await["status"], status, "{token}");
    }
}

#[tokio::test]
async fn what_to_remove_has_to_be_said_and_without_limits_nothing_is() {
    let server = Setup::new().start().await;
    server.demo().await;
    assert_eq!(server.engine.retention(), &Retention::default());
    assert_eq!(prune(&server, json!({})).await["found"]["runs"], 0, "nothing is configured, so everything is kept");
    for (body, status) in [
        (json!({ "older_than_ms": -1 }), 400),
        (json!({ "everything": true }), 400),
        (json!({ "agent_id": "demo" }), 422),
    ] {
        let response = soon(server.post("/v2/runs/prune", &body).send()).await.unwrap();
        assert_eq!(problem(response).await["status"], status, "{body}");
    }
    assert_eq!(prune(&server, json!({ "older_than_ms": 3_600_000 })).await["found"]["runs"], 0);
    assert_eq!(prune(&server, json!({ "older_than_ms": 0, "agent_id": "other" })).await["found"]["runs"], 0);
}
