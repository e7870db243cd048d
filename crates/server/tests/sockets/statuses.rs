//! What each way to read answers in each situation, over HTTP/1.1 and over HTTP/2 alike.

use reqwest::{Client, Version};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, problem, soon};

fn clients(server: &Server) -> [(Client, Version); 2] {
    let second = Client::builder().http2_prior_knowledge().build().unwrap();
    [(server.http.clone(), Version::HTTP_11), (second, Version::HTTP_2)]
}

#[tokio::test]
async fn each_way_to_read_answers_each_situation_alike_over_http_1_and_2() {
    let server = Setup::new().start().await;
    let whole = server.demo().await;
    let head = server.log(&whole).await.len();
    let trimmed = server.demo().await;
    server.store.trim(&trimmed, 5).await.unwrap();
    let past = head + 1;
    let last_event = server.json(&format!("/v2/runs/{whole}/frames?after={}", head - 1)).await["next_after"].clone();
    let table = [
        (format!("/v2/runs/{whole}/stream"), 200, None),
        (format!("/v2/runs/{whole}/stream?after={head}"), 204, None),
        ("/v2/runs/run_nobody/stream".to_owned(), 404, None),
        (format!("/v2/runs/{trimmed}/stream?after=2"), 410, Some(("oldest", json!(6)))),
        (format!("/v2/runs/{whole}/stream?after={past}"), 416, Some(("head", json!(head)))),
        (format!("/v2/runs/{whole}/frames"), 200, None),
        // A page has no end to tell of but what it says in itself.
        (format!("/v2/runs/{whole}/frames?after={head}"), 200, None),
        ("/v2/runs/run_nobody/frames".to_owned(), 404, None),
        (format!("/v2/runs/{trimmed}/frames?after=2"), 410, Some(("oldest", json!(6)))),
        (format!("/v2/runs/{whole}/frames?after={past}"), 416, Some(("head", json!(head)))),
        (format!("/v2/runs/{whole}/agui"), 200, None),
        (format!("/v2/runs/{whole}/agui?after={last_event}.0"), 204, None),
        ("/v2/runs/run_nobody/agui".to_owned(), 404, None),
        (format!("/v2/runs/{trimmed}/agui"), 410, Some(("oldest", json!(6)))),
        (format!("/v2/runs/{whole}/agui?after={past}.0"), 416, Some(("head", json!(head)))),
        // Whether the run exists is never told by a refused upgrade.
        (format!("/v2/runs/{whole}/ws"), 426, None),
        ("/v2/runs/run_nobody/ws".to_owned(), 426, None),
        ("/v2/sessions/nobodys/stream".to_owned(), 404, None),
        ("/v2/sessions/nobodys".to_owned(), 404, None),
    ];
    for (client, version) in clients(&server) {
        for (path, status, member) in &table {
            let response = soon(client.get(server.url(path)).send()).await.unwrap();
            assert_eq!((response.version(), response.status().as_u16()), (version, *status), "{path}");
            if *status == 204 {
                assert_eq!(soon(response.bytes()).await.unwrap(), "", "{path}");
            } else if *status >= 400 {
                let problem = problem(response).await;
                if let Some((key, value)) = member {
                    assert_eq!(problem[key], *value, "{path}: {problem}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_post_answers_each_situation_alike_over_http_1_and_2() {
    let server = Setup::new().start().await;
    let input =
        |thread: &str, run: &str| json!({ "threadId": thread, "runId": run, "protocolVersion": "1.0", "messages": [] });
    let other: Value = json!({ "threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": [], "state": 1 });
    let first = soon(server.post("/agui/demo", &input("t", "r")).send()).await.unwrap();
    soon(first.text()).await.unwrap();
    for (client, version) in clients(&server) {
        for (path, body, cursor, status) in [
            ("/agui/demo", input("t", "r"), "", 200),
            ("/agui/demo", input("t", "r"), "9999.9", 416),
            ("/agui/demo", input("t", "unsent"), "1.0", 416),
            ("/agui/demo", other.clone(), "", 409),
            ("/agui/nobody", input("t", "r"), "", 404),
            ("/agui/demo/connect", input("t", "m"), "", 200),
            ("/agui/demo/connect", input("t", "m"), "thread/3", 200),
            ("/agui/demo/connect", input("t", "m"), "run_nobody/1.0", 416),
            ("/agui/nobody/connect", input("t", "m"), "", 404),
        ] {
            let request = client.post(server.url(path)).json(&body).header("last-event-id", cursor);
            let response = soon(request.send()).await.unwrap();
            assert_eq!((response.version(), response.status().as_u16()), (version, status), "{path} {cursor}");
            if status >= 400 {
                problem(response).await;
            } else if cursor == "thread/3" {
                // Readers that retry a POST take another status than 200 for a failure.
                assert_eq!(soon(response.text()).await.unwrap(), "retry: 1000\n\n");
            }
        }
    }
}
