//! Bearer tokens: every route wants one, and what is somebody else's is not there.

use reqwest::Response;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, problem, soon, stepped};

/// Every route that says or does something about runs; `{run}` stands for a run.
const ROUTES: [(&str, &str); 14] = [
    ("POST", "/v2/runs"),
    ("GET", "/v2/runs"),
    ("GET", "/v2/runs/{run}"),
    ("GET", "/v2/runs/{run}/stream"),
    ("GET", "/v2/runs/{run}/frames"),
    ("GET", "/v2/runs/{run}/agui"),
    ("GET", "/v2/runs/{run}/check"),
    ("POST", "/v2/runs/{run}/cancel"),
    ("POST", "/v2/runs/{run}/claim"),
    ("POST", "/v2/runs/{run}/heartbeat?epoch=1"),
    ("POST", "/v2/runs/{run}/frames?epoch=1"),
    ("GET", "/v2/runs/{run}/segments/seg_1/payload"),
    ("POST", "/agui/demo"),
    ("POST", "/agui/nobody"),
];

async fn request(server: &Server, method: &str, path: &str, authorization: Option<&str>) -> Response {
    let mut request = server.http.request(method.parse().unwrap(), server.url(path));
    if method == "POST" {
        request = request.header("content-type", "application/json").body("{}");
    }
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    soon(request.send()).await.unwrap()
}

async fn create(server: &Server, token: &str, agent: &str) -> String {
    let body = json!({ "agent_id": agent, "prompt": "x" });
    let response = soon(server.post("/v2/runs", &body).bearer_auth(token).send()).await.unwrap();
    assert_eq!(response.status(), 201);
    response.json::<Value>().await.unwrap()["run_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_route_wants_a_token_that_the_server_knows() {
    let server = Setup::new().token("alice").start().await;
    let run_id = create(&server, "alice", "demo").await;
    server.ended(&run_id).await;
    let bad = [None, Some("Bearer bob"), Some("Bearer "), Some("Bearer"), Some("Basic alice"), Some("alice"), Some("")];
    for (method, path) in ROUTES {
        let path = path.replace("{run}", &run_id);
        for authorization in bad {
            let response = request(&server, method, &path, authorization).await;
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
            assert_eq!(problem(response).await["status"], 401, "{method} {path} {authorization:?}");
        }
        for authorization in ["Bearer alice", "bearer alice", "BEARER  alice"] {
            let response = request(&server, method, &path, Some(authorization)).await;
            assert_ne!(response.status(), 401, "{method} {path} {authorization}");
        }
    }
    for path in ["/healthz", "/readyz", "/"] {
        assert_eq!(request(&server, "GET", path, None).await.status(), 200, "{path} is for operators and probes");
    }
}

#[tokio::test]
async fn which_agents_there_are_is_for_those_who_may_run_them() {
    let server = Setup::new().token("alice").start().await;
    let stranger: Value = request(&server, "GET", "/", None).await.json().await.unwrap();
    assert_eq!(stranger["agents"], Value::Null);
    let known: Value = request(&server, "GET", "/", Some("Bearer alice")).await.json().await.unwrap();
    assert_eq!(known["agents"][0]["agent_id"], "demo");
}

#[tokio::test]
async fn somebody_elses_run_cannot_be_told_from_one_that_is_not_there() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).token("alice").token("bob").start().await;
    let run_id = create(&server, "alice", "held").await;
    server.reached(&run_id, 2).await;
    for (method, path) in ROUTES.iter().filter(|(_, path)| path.contains("{run}")) {
        let theirs = request(&server, method, &path.replace("{run}", &run_id), Some("Bearer bob")).await;
        let nobodys = request(&server, method, &path.replace("{run}", "run_nobody"), Some("Bearer bob")).await;
        let headers = |response: &Response| {
            let names: Vec<String> = response.headers().keys().map(|name| name.as_str().to_owned()).collect();
            (response.status(), names)
        };
        assert_eq!(headers(&theirs), headers(&nobodys), "{path}");
        let theirs = problem(theirs).await.to_string().replace(&run_id, "ID");
        let nobodys = problem(nobodys).await.to_string().replace("run_nobody", "ID");
        assert_eq!(theirs, nobodys, "{path}");
        assert!(theirs.contains("404"));
    }
    assert_eq!(server.store.run(&run_id).await.unwrap().unwrap().status, "running", "bob stopped nothing");
}

#[tokio::test]
async fn a_holder_sees_its_own_runs_or_all_of_them() {
    let server = Setup::new().token("alice").token("bob").token_for_all("ops").start().await;
    let hers = create(&server, "alice", "demo").await;
    let his = create(&server, "bob", "demo").await;
    server.ended(&hers).await;
    server.ended(&his).await;
    for (token, sees) in [("alice", vec![&hers]), ("bob", vec![&his]), ("ops", vec![&his, &hers])] {
        let page: Value = soon(server.get("/v2/runs").bearer_auth(token).send()).await.unwrap().json().await.unwrap();
        let listed: Vec<&str> =
            page["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
        assert_eq!(listed, sees, "{token}");
        for run_id in [&hers, &his] {
            let response = soon(server.get(&format!("/v2/runs/{run_id}/stream")).bearer_auth(token).send()).await;
            let status = if sees.contains(&run_id) { 200 } else { 404 };
            assert_eq!(response.unwrap().status(), status, "{token}");
        }
    }
    let record: Value =
        soon(server.get(&format!("/v2/runs/{hers}")).bearer_auth("ops").send()).await.unwrap().json().await.unwrap();
    assert_eq!(record["principal"], "alice");
}

#[tokio::test]
async fn a_session_belongs_to_whoever_began_it() {
    let server = Setup::new().token("alice").token("bob").token_for_all("ops").start().await;
    let input = |run: &str| {
        let message = json!({ "id": "m", "role": "user", "content": "Hi" });
        json!({ "threadId": "t", "runId": run, "protocolVersion": "1.0", "messages": [message] })
    };
    let begun = soon(server.post("/agui/demo", &input("r1")).bearer_auth("alice").send()).await.unwrap();
    assert_eq!(begun.status(), 200);
    soon(begun.text()).await.unwrap();
    for token in ["bob", "ops"] {
        for run in ["r1", "r2"] {
            let refused = soon(server.post("/agui/demo", &input(run)).bearer_auth(token).send()).await.unwrap();
            assert_eq!(problem(refused).await["status"], 403, "{token} {run}");
        }
    }
    let goes_on = soon(server.post("/agui/demo", &input("r2")).bearer_auth("alice").send()).await.unwrap();
    assert_eq!(goes_on.status(), 200);
}

#[tokio::test]
async fn without_tokens_only_this_machine_is_answered_and_any_token_will_do() {
    let server = Setup::new().start().await;
    for host in ["localhost", "127.0.0.1:1", "[::1]", "runwire.localhost:7171"] {
        let response = soon(server.get("/v2/runs").header("host", host).send()).await.unwrap();
        assert_eq!(response.status(), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "192.0.2.1"] {
        let response = soon(server.get("/v2/runs").header("host", host).send()).await.unwrap();
        assert_eq!(problem(response).await["status"], 421, "{host}");
    }
    for authorization in [None, Some("Bearer whatever"), Some("Bearer "), Some("Basic eA==")] {
        assert_eq!(request(&server, "GET", "/v2/runs", authorization).await.status(), 200, "{authorization:?}");
    }
}

#[tokio::test]
async fn without_tokens_pages_of_other_origins_change_nothing() {
    let (_steps, driver) = stepped();
    let server = Setup::new()
        .agent("held", driver)
        .options(|o| o.cors_origins = vec!["https://app.example".into()])
        .start()
        .await;
    let run_id = server.create("held").await;
    server.reached(&run_id, 2).await;
    let cancel = format!("/v2/runs/{run_id}/cancel");
    for origin in ["https://evil.example", "null"] {
        for path in [&*cancel, "/v2/runs", "/agui/demo"] {
            let request = server.post(path, &json!({ "agent_id": "demo", "prompt": "x" })).header("origin", origin);
            assert_eq!(problem(soon(request.send()).await.unwrap()).await["status"], 403, "{origin} {path}");
        }
    }
    assert_eq!(server.store.run(&run_id).await.unwrap().unwrap().status, "running");
    assert_eq!(server.json("/v2/runs").await["runs"].as_array().unwrap().len(), 1, "nothing was started");
    let own = server.http.post(server.url(&cancel)).header("origin", "https://app.example");
    assert!(soon(own.send()).await.unwrap().status().is_success());
    server.ended(&run_id).await;
}

#[tokio::test]
async fn where_a_token_is_wanted_it_decides_and_not_the_origin() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).token("alice").start().await;
    let run_id = create(&server, "alice", "held").await;
    server.reached(&run_id, 2).await;
    let cancel = server.url(&format!("/v2/runs/{run_id}/cancel"));
    let from_anywhere = || server.http.post(&cancel).header("origin", "https://anywhere.example");
    assert_eq!(
        problem(soon(from_anywhere().send()).await.unwrap()).await["status"],
        401,
        "no browser sends it by itself"
    );
    assert_eq!(server.store.run(&run_id).await.unwrap().unwrap().status, "running");
    assert!(soon(from_anywhere().bearer_auth("alice").send()).await.unwrap().status().is_success());
    assert_eq!(server.ended(&run_id).await.status, "cancelled");
}

#[tokio::test]
async fn a_browser_is_told_which_pages_may_read() {
    let server = Setup::new().options(|o| o.cors_origins = vec!["https://app.example".into()]).start().await;
    for (origin, allowed) in [("https://app.example", Some("https://app.example")), ("https://evil.example", None)] {
        let ask = server.http.request("OPTIONS".parse().unwrap(), server.url("/agui/demo")).header("origin", origin);
        let ask = ask.header("access-control-request-method", "POST");
        let ask = ask.header("access-control-request-headers", "content-type,authorization,last-event-id");
        let told = soon(ask.send()).await.unwrap();
        let header = told.headers().get("access-control-allow-origin").map(|v| v.to_str().unwrap());
        assert_eq!(header, allowed);
        let read = soon(server.get("/v2/runs").header("origin", origin).send()).await.unwrap();
        let header = read.headers().get("access-control-allow-origin").map(|v| v.to_str().unwrap());
        assert_eq!(header, allowed);
    }
}
