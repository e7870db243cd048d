//! `Idempotency-Key` on `POST /v2/runs`: a request that is sent again with its key makes no second run.

use std::time::Duration;

use axum::http::StatusCode;
use runwire_engine::{AgentPolicy, Concurrency, LaneOptions};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, problem, soon, stepped};

async fn ask(server: &Server, key: &str, body: &Value) -> reqwest::Response {
    soon(server.post("/v2/runs", body).header("idempotency-key", key).send()).await.unwrap()
}

/// The answer's status, and the record that it has.
async fn record(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let record: Value = response.json().await.unwrap();
    assert_eq!(location, format!("/v2/runs/{}", record["run_id"].as_str().unwrap()));
    (status, record)
}

fn hello() -> Value {
    json!({ "agent_id": "demo", "prompt": "Hello", "metadata": { "a": 1, "b": [2] } })
}

#[tokio::test]
async fn the_same_request_again_is_answered_with_the_run_as_it_stands_and_another_is_422() {
    let server = Setup::new().start().await;
    let (status, first) = record(ask(&server, "\"key-1\"", &hello()).await).await;
    assert_eq!(status, 201);
    let run_id = first["run_id"].as_str().unwrap();
    server.ended(run_id).await;
    // A bare key is the key in the quotes, and members have no order.
    let turned = json!({ "metadata": { "b": [2], "a": 1 }, "prompt": "Hello", "agent_id": "demo" });
    for (key, body) in [("\"key-1\"", hello()), ("key-1", turned)] {
        let (status, again) = record(ask(&server, key, &body).await).await;
        assert_eq!((status, &again["run_id"], &again["status"]), (200, &first["run_id"], &json!("completed")));
    }
    for other in [
        json!({ "agent_id": "demo", "prompt": "Hello" }),
        json!({ "agent_id": "demo", "prompt": "Hello", "metadata": { "a": 1, "b": [2] }, "session_id": "s" }),
        json!({ "agent_id": "demo", "prompt": "Hello", "metadata": { "a": 1, "b": [2] }, "lane": "default" }),
        json!({ "agent_id": "demo", "input": { "messages": [] }, "metadata": { "a": 1, "b": [2] } }),
    ] {
        let refused = problem(ask(&server, "key-1", &other).await).await;
        assert_eq!((&refused["status"], &refused["title"]), (&json!(422), &json!("Idempotency key used")), "{other}");
        assert_eq!((&refused["idempotency_key"], &refused["run_id"]), (&json!("key-1"), &json!(run_id)));
        assert!(refused["detail"].as_str().unwrap().contains("`key-1`"), "{refused}");
    }
    assert_eq!(server.json("/v2/runs").await["runs"].as_array().unwrap().len(), 1);
    // An `input` without ids, too, whose ids are made anew each time.
    let input =
        json!({ "agent_id": "demo", "input": { "messages": [{ "id": "m", "role": "user", "content": "Hi" }] } });
    let (status, made) = record(ask(&server, "key-2", &input).await).await;
    let (again, found) = record(ask(&server, "key-2", &input).await).await;
    assert_eq!((status, again, &made["run_id"]), (201, 200, &found["run_id"]));
}

#[tokio::test]
async fn what_is_no_key_is_400_and_starts_nothing() {
    let server = Setup::new().start().await;
    for key in ["", "\"\"", "a b", "\"open", "\"a\"b", "a,b", &"k".repeat(256)] {
        let refused = problem(ask(&server, key, &hello()).await).await;
        assert_eq!(refused["status"], 400, "{key}");
        assert!(refused["detail"].as_str().unwrap().contains("`Idempotency-Key`"), "{refused}");
    }
    let twice = server.post("/v2/runs", &hello()).header("idempotency-key", "a").header("idempotency-key", "b");
    assert_eq!(problem(soon(twice.send()).await.unwrap()).await["status"], 400);
    assert_eq!(server.json("/v2/runs").await["runs"], json!([]));
    let longest = "k".repeat(255);
    assert_eq!(ask(&server, &longest, &hello()).await.status(), 201);
}

#[tokio::test]
async fn of_several_at_once_one_makes_the_run_and_none_is_told_that_the_session_is_busy() {
    let (steps, driver) = stepped();
    let refuse = AgentPolicy { concurrency: Concurrency::Refuse, ..AgentPolicy::default() };
    let server = Setup::new().agent("slow", driver).policy(refuse).start().await;
    let body = json!({ "agent_id": "slow", "prompt": "Hi", "session_id": "s" });
    let asked: Vec<_> =
        (0..10).map(|_| tokio::spawn(server.post("/v2/runs", &body).header("idempotency-key", "k").send())).collect();
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(record(soon(asked).await.unwrap().unwrap()).await);
    }
    let run_id = answers[0].1["run_id"].clone();
    assert!(answers.iter().all(|(_, record)| record["run_id"] == run_id));
    assert_eq!(answers.iter().filter(|(status, _)| *status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 9);
    steps.begin("Done");
    steps.complete();
    server.ended(run_id.as_str().unwrap()).await;
}

#[tokio::test]
async fn a_request_that_was_refused_is_not_remembered() {
    let (steps, driver) = stepped();
    let full = LaneOptions { limit: Some(1), max_queued: Some(0) };
    let server = Setup::new().agent("slow", driver).lane("default", full).start().await;
    let body = |prompt: &str| json!({ "agent_id": "slow", "prompt": prompt });
    let (_, first) = record(ask(&server, "k1", &body("Hi")).await).await;
    assert_eq!(ask(&server, "k2", &body("Hi")).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask(&server, "k2", &json!({ "agent_id": "nobody", "prompt": "Hi" })).await.status(), 404);
    assert_eq!(ask(&server, "k2", &json!({ "agent_id": "slow" })).await.status(), 422);
    let (again, found) = record(ask(&server, "k1", &body("Hi")).await).await;
    assert_eq!((again, &found["run_id"]), (200, &first["run_id"]), "the lane is full for new runs only");
    steps.begin("Done");
    steps.complete();
    server.ended(first["run_id"].as_str().unwrap()).await;
    let second = soon(async {
        loop {
            // The engine lets go of a run right after its end is stored.
            let answer = ask(&server, "k2", &body("Another question")).await;
            if answer.status() != StatusCode::TOO_MANY_REQUESTS {
                return record(answer).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(second.0, 201);
    steps.begin("Done");
    steps.complete();
    server.ended(second.1["run_id"].as_str().unwrap()).await;
}

#[tokio::test]
async fn each_token_has_keys_of_its_own_and_a_removed_run_is_410_for_whose_it_was() {
    let server = Setup::new().token("ann").token("bob").token_for_all("ops").start().await;
    let as_ = |token: &str| server.post("/v2/runs", &hello()).header("idempotency-key", "k").bearer_auth(token).send();
    let (status, anns) = record(soon(as_("ann")).await.unwrap()).await;
    assert_eq!(status, 201);
    let run_id = anns["run_id"].as_str().unwrap();
    server.ended(run_id).await;
    let prune = server.post("/v2/runs/prune", &json!({ "older_than_ms": 0 })).bearer_auth("ops");
    assert_eq!(soon(prune.send()).await.unwrap().status(), 200);
    let gone = problem(soon(as_("ann")).await.unwrap()).await;
    assert_eq!((&gone["status"], &gone["run_id"]), (&json!(410), &json!(run_id)));
    assert!(gone["removed_at"].is_i64(), "{gone}");
    for other in ["bob", "ops"] {
        let (status, record) = record(soon(as_(other)).await.unwrap()).await;
        assert_eq!((status, &record["principal"]), (201, &json!(other)), "who sees all runs has keys of its own");
    }
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_send_a_key() {
    let server = Setup::new().options(|o| o.cors_origins = vec!["https://app.example".into()]).start().await;
    let ask = server.http.request("OPTIONS".parse().unwrap(), server.url("/v2/runs"));
    let ask = ask.header("origin", "https://app.example").header("access-control-request-method", "POST");
    let told = soon(ask.header("access-control-request-headers", "idempotency-key").send()).await.unwrap();
    let allowed = told.headers()["access-control-allow-headers"].to_str().unwrap().to_lowercase();
    assert!(allowed.split(',').any(|name| name.trim() == "idempotency-key"), "{allowed}");
}
