//! `GET /v2/sessions/{id}`.

use serde_json::{Value, json};

use crate::harness::{Setup, problem, soon, stepped};

#[tokio::test]
async fn a_session_is_its_messages_its_state_and_its_runs_in_order() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let mut run_ids = Vec::new();
    for agent in ["demo", "held"] {
        let new = json!({ "agent_id": agent, "prompt": format!("Hello {agent}"), "session_id": "s" });
        let record: Value = soon(server.post("/v2/runs", &new).send()).await.unwrap().json().await.unwrap();
        run_ids.push(record["run_id"].as_str().unwrap().to_owned());
        if agent == "demo" {
            server.ended(&run_ids[0]).await;
        }
    }
    steps.begin("so far");
    server.reached(&run_ids[1], 4).await;
    let session = server.json("/v2/sessions/s").await;
    assert_eq!(session["session_id"], "s");
    assert_eq!(session["principal"], Value::Null);
    assert!(session["created_at"].as_i64().unwrap() <= session["last_run_at"].as_i64().unwrap());
    let listed: Vec<&str> = session["runs"].as_array().unwrap().iter().map(|r| r["run_id"].as_str().unwrap()).collect();
    assert_eq!(listed, run_ids);
    assert_eq!(session["runs"][0], server.json(&format!("/v2/runs/{}", run_ids[0])).await);
    assert_eq!(session["state"]["phase"], "done");
    let messages = session["messages"].as_array().unwrap();
    assert_eq!(messages[0]["content"], "Hello demo");
    assert_eq!(messages.last().unwrap()["content"], "so far", "what goes on counts as far as it is");
    assert_eq!(session["waiting"], json!([]));
}

#[tokio::test]
async fn a_session_that_is_not_there_and_somebody_elses_are_the_same_404() {
    let server = Setup::new().token("alice").token("bob").token_for_all("ops").start().await;
    let new = json!({ "agent_id": "demo", "prompt": "Hello", "session_id": "s" });
    soon(server.post("/v2/runs", &new).bearer_auth("alice").send()).await.unwrap();
    for path in ["/v2/sessions/s", "/v2/sessions/s/stream"] {
        let hidden = problem(soon(server.get(path).bearer_auth("bob").send()).await.unwrap()).await;
        let other = path.replace("/s", "/x").replace("/xessions", "/sessions").replace("/xtream", "/stream");
        let missing = problem(soon(server.get(&other).bearer_auth("bob").send()).await.unwrap()).await;
        assert_eq!(hidden["status"], 404);
        assert_eq!(hidden.to_string(), missing.to_string().replace("`x`", "`s`"));
        for token in ["alice", "ops"] {
            assert_eq!(soon(server.get(path).bearer_auth(token).send()).await.unwrap().status(), 200, "{token} {path}");
        }
        assert_eq!(problem(soon(server.get(path).send()).await.unwrap()).await["status"], 401);
    }
}
