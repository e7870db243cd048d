//! Runs that have to wait, and those that may not, as a client sees it.

use runwire_engine::{AgentPolicy, Concurrency, LaneOptions};
use serde_json::json;

use crate::harness::{Setup, agui_events, problem, soon, stepped};

#[tokio::test]
async fn a_full_lane_is_429_with_a_time_to_come_back_and_nothing_is_created() {
    let (steps, driver) = stepped();
    let full = LaneOptions { limit: Some(1), max_queued: Some(0) };
    let server = Setup::new().agent("slow", driver).lane("default", full).start().await;
    let first = server.create("slow").await;
    let refused = server.post("/v2/runs", &json!({ "agent_id": "slow", "prompt": "Hi", "session_id": "s" }));
    let refused = soon(refused.send()).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(problem(refused).await["lane"], "default");
    assert_eq!(server.store.session("s").await.unwrap(), None);
    steps.begin("Done");
    steps.complete();
    server.ended(&first).await;
}

#[tokio::test]
async fn an_unknown_lane_is_422_and_names_those_that_there_are() {
    let server = Setup::new().lane("slow", LaneOptions::default()).start().await;
    let body = json!({ "agent_id": "demo", "prompt": "Hi", "lane": "fast" });
    let refused = soon(server.post("/v2/runs", &body).send()).await.unwrap();
    assert_eq!(refused.status(), 422);
    assert_eq!(problem(refused).await["lanes"], json!(["default", "slow"]));
}

#[tokio::test]
async fn a_session_that_is_busy_is_409_and_names_the_run() {
    let (steps, driver) = stepped();
    let refuse = AgentPolicy { concurrency: Concurrency::Refuse, ..AgentPolicy::default() };
    let server = Setup::new().agent("slow", driver).policy(refuse).start().await;
    let body = json!({ "agent_id": "slow", "prompt": "Hi", "session_id": "s" });
    let first = soon(server.post("/v2/runs", &body).send()).await.unwrap();
    let first = first.json::<serde_json::Value>().await.unwrap()["run_id"].clone();
    let refused = soon(server.post("/v2/runs", &body).send()).await.unwrap();
    assert_eq!(refused.status(), 409);
    assert_eq!(problem(refused).await["run_id"], first);
    steps.begin("Done");
    steps.complete();
    server.ended(first.as_str().unwrap()).await;
}

#[tokio::test]
async fn an_ag_ui_request_that_waits_is_answered_when_its_turn_comes() {
    let (steps, driver) = stepped();
    let server = Setup::new()
        .agent("slow", driver)
        .lane("default", LaneOptions { limit: Some(1), max_queued: None })
        .start()
        .await;
    let first = server.create("slow").await;
    let input = json!({ "threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": [], "tools": [],
                        "context": [], "state": {}, "forwardedProps": {} });
    // The answer has its head while the run waits.
    let waiting = soon(server.post("/agui/demo", &input).send()).await.unwrap();
    assert_eq!(waiting.status(), 200);
    assert_eq!(server.engine.queued_runs(), 1);
    steps.begin("Done");
    steps.complete();
    server.ended(&first).await;
    let events = agui_events(&soon(waiting.text()).await.unwrap());
    assert_eq!(events.first().unwrap().kind(), "RUN_STARTED");
    assert_eq!(events.last().unwrap().kind(), "RUN_FINISHED");
}
