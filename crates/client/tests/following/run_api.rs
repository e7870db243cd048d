//! The run API.

use runwire_client::{ApiError, CreateRun, RunFilter};
use runwire_frame::RunStatus;
use serde_json::{Value, json};

use crate::scripted::{Answer, Scripted, server};

const RECORD: &str = r#"{"run_id":"run_1","agent_id":"demo","session_id":"s","status":"running","attempt":1,"head":7,"created_at":"x","own":true}"#;

fn record(status: u16) -> Answer {
    Answer::Status(status, &[("content-type", "application/json")], RECORD.to_owned())
}

#[tokio::test]
async fn create_run_sends_the_body_of_the_run_api() {
    let scripted = Scripted::start([record(201), record(201), record(201)]).await;
    let client = server(&scripted.address, Some("t"));
    let whole = CreateRun::prompt("demo", "Hi").session_id("s").lane("l").metadata(json!({"k": 1}));
    for (run, body) in [
        (CreateRun::prompt("demo", "Hi"), json!({"agent_id": "demo", "prompt": "Hi"})),
        (
            CreateRun::input("demo", json!({"messages": []})),
            json!({"agent_id": "demo", "input": {"messages": [], "protocolVersion": "1.0"}}),
        ),
        (whole, json!({"agent_id": "demo", "prompt": "Hi", "session_id": "s", "lane": "l", "metadata": {"k": 1}})),
    ] {
        client.create_run(&run).await.unwrap();
        let asked = scripted.asked().remove(0);
        assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/v2/runs"));
        assert_eq!(asked.authorization.as_deref(), Some("Bearer t"));
        assert_eq!(serde_json::from_str::<Value>(&asked.body).unwrap(), body);
    }
}

#[tokio::test]
async fn an_idempotency_key_is_a_header_of_its_own_and_what_is_none_is_not_sent() {
    let scripted = Scripted::start([record(201), record(200)]).await;
    let client = scripted.client();
    for (key, header) in [("8e03978e-40d5", r#""8e03978e-40d5""#), (r#"a"b\,"#, r#""a\"b\\,""#)] {
        client.create_run(&CreateRun::prompt("demo", "Hi").idempotency_key(key)).await.unwrap();
        let asked = scripted.asked().remove(0);
        assert_eq!(asked.idempotency_key.as_deref(), Some(header));
        assert_eq!(
            serde_json::from_str::<Value>(&asked.body).unwrap(),
            json!({"agent_id": "demo", "prompt": "Hi"}),
            "the body says what is asked, and the key is no part of that"
        );
    }
    for key in ["", "a b", "é", &"k".repeat(256)] {
        let error = client.create_run(&CreateRun::prompt("demo", "Hi").idempotency_key(key)).await.unwrap_err();
        assert!(matches!(&error, ApiError::IdempotencyKey { .. }), "{error}");
    }
    assert!(scripted.asked().is_empty());
}

/// basic/processing, "Outgoing material"; events/activity.
#[tokio::test]
async fn what_a_client_must_not_send_of_a_run_input_is_stripped_or_refused_before_anything_is_sent() {
    let scripted = Scripted::start([record(201)]).await;
    let client = scripted.client();
    let malformed = CreateRun::input("demo", json!({ "messages": [{ "id": 5, "role": "user", "content": "" }] }));
    let error = client.create_run(&malformed).await.unwrap_err();
    assert!(matches!(&error, ApiError::Input(_)) && error.to_string().contains("/messages/0/id"), "{error}");
    assert!(scripted.asked().is_empty());
    let input = json!({ "threadId": "t", "messages": [
        { "id": "u", "role": "user", "content": "hi", "mood": 1 },
        { "id": "a", "role": "activity", "activityType": "x", "content": {} },
    ] });
    client.create_run(&CreateRun::input("demo", input)).await.unwrap();
    let sent: Value = serde_json::from_str(&scripted.asked().remove(0).body).unwrap();
    let messages = json!([{ "id": "u", "role": "user", "content": "hi" }]);
    assert_eq!(sent["input"], json!({ "threadId": "t", "messages": messages, "protocolVersion": "1.0" }));
}

#[tokio::test]
async fn a_record_has_typed_members_and_keeps_the_others() {
    let scripted = Scripted::start([record(200)]).await;
    let run = scripted.client().run("run_1").await.unwrap();
    assert_eq!((run.run_id(), run.status(), run.head()), ("run_1", RunStatus::Running, 7));
    assert_eq!((run.agent_id(), run.session_id(), run.attempt()), (Some("demo"), Some("s"), Some(1)));
    assert_eq!(run.members()["own"], true);
    assert_eq!(serde_json::to_string(&run).unwrap(), RECORD);
}

#[tokio::test]
async fn each_operation_asks_its_route() {
    let page = || Answer::Status(200, &[], format!(r#"{{"runs":[{RECORD}],"next":"n"}}"#));
    let scripted = Scripted::start([record(200), record(202), page(), page()]).await;
    let client = scripted.client();
    client.run("a/b").await.unwrap();
    client.cancel("run_1").await.unwrap();
    let runs = client.runs(&RunFilter::default()).await.unwrap();
    assert_eq!((runs.runs.len(), runs.next.as_deref()), (1, Some("n")));
    let filter = RunFilter {
        agent_id: Some("d&mo".into()),
        session_id: Some("s".into()),
        parent_run_id: Some("run_0".into()),
        status: vec![RunStatus::Queued, RunStatus::Running],
        limit: Some(5),
        before: Some("n".into()),
    };
    client.runs(&filter).await.unwrap();
    let asked: Vec<_> = scripted.asked().into_iter().map(|a| format!("{} {} {}", a.method, a.target, a.body)).collect();
    assert_eq!(
        asked,
        [
            "GET /v2/runs/a%2Fb ",
            "POST /v2/runs/run_1/cancel ",
            "GET /v2/runs ",
            "GET /v2/runs?agent_id=d%26mo&session_id=s&parent_run_id=run_0&before=n&limit=5&status=queued%2Crunning ",
        ]
    );
}

#[tokio::test]
async fn a_problem_is_told_as_the_server_told_it() {
    let body = r#"{"title":"No such run","status":404,"detail":"There is no run run_9."}"#;
    let scripted = Scripted::start([Answer::Status(404, &[], body.to_owned())]).await;
    let error = scripted.client().run("run_9").await.unwrap_err();
    assert_eq!(error.status(), Some(404));
    assert_eq!(error.to_string(), "No such run (HTTP 404): There is no run run_9.");
}

#[tokio::test]
async fn an_answer_of_something_else_is_unreadable() {
    let page = |body: &str| Answer::Status(200, &[], body.to_owned());
    let odd = RECORD.replace("running", "sleeping");
    let scripted = Scripted::start([page("<h1>Hi</h1>"), page("{}"), page(&odd)]).await;
    for says in ["expected value", "run_id", "sleeping"] {
        let error = scripted.client().run("run_1").await.unwrap_err();
        assert!(matches!(&error, ApiError::Unreadable { problem, .. } if problem.contains(says)), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = server(&address, None).run("run_1").await.unwrap_err();
    assert!(matches!(&error, ApiError::Unreachable { .. }));
    assert!(error.to_string().starts_with(&format!("no answer from {address}/v2/runs/run_1")), "{error}");
}
