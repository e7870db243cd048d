//! The run API: create, list, look at, stop, and what is behind a preview. Every refusal is a problem (RFC 9457).

use std::time::Duration;

use runwire_bridge::{Completion, Ending, ExchangeEnd, Opening, ToolOutput};
use runwire_engine::{Exchange, LaneOptions, RunWriter};
use runwire_frame::{Data, Frame, LogValidator};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Got, Reader, Script, Server, Setup, Transport, problem, soon, stepped};

async fn created(server: &Server, body: Value) -> Value {
    let response = soon(server.post("/v2/runs", &body).send()).await.unwrap();
    assert_eq!(response.status(), 201, "{body}");
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let record: Value = response.json().await.unwrap();
    assert_eq!(location, format!("/v2/runs/{}", record["run_id"].as_str().unwrap()));
    record
}

#[tokio::test]
async fn a_created_run_is_answered_with_its_record_and_its_address() {
    let server = Setup::new().start().await;
    let record = created(&server, json!({ "agent_id": "demo", "prompt": "Hello" })).await;
    let run_id = record["run_id"].as_str().unwrap();
    assert_eq!(record["agent_id"], "demo");
    assert_eq!(record["lane"], "default");
    assert_eq!(record["trigger_kind"], "api");
    for key in ["session_id", "status", "attempt", "head", "created_at", "started_at", "ended_at", "metadata", "usage"]
    {
        assert!(record.get(key).is_some(), "{key}: {record}");
    }

    server.ended(run_id).await;
    let after = server.json(&format!("/v2/runs/{run_id}")).await;
    assert_eq!(after["status"], "completed");
    assert_eq!(after["attempt"], 1);
    let log = server.log(run_id).await;
    assert_eq!(after["head"], log.len());
    let mut validator = LogValidator::new();
    for body in &log {
        validator.push(&Frame::decode(body).unwrap()).unwrap();
    }
    validator.finish().unwrap();
}

#[tokio::test]
async fn lane_metadata_and_session_are_the_callers() {
    let server = Setup::new().lane("slow", LaneOptions::default()).start().await;
    let metadata = json!({ "ticket": 7, "nested": { "ä": [null] } });
    let record = created(
        &server,
        json!({ "agent_id": "demo", "prompt": "Hi", "session_id": "s-1", "lane": "slow", "metadata": metadata }),
    )
    .await;
    assert_eq!(record["session_id"], "s-1");
    assert_eq!(record["lane"], "slow");
    assert_eq!(record["metadata"], metadata);
    server.ended(record["run_id"].as_str().unwrap()).await;
    let log = server.log(record["run_id"].as_str().unwrap()).await;
    let Data::RunStart(start) = Frame::decode(&log[0]).unwrap().data else { panic!("run.start comes first") };
    assert_eq!((start.session_id.as_deref(), start.lane.as_deref()), (Some("s-1"), Some("slow")));
}

#[tokio::test]
async fn an_input_may_leave_its_ids_out_or_make_the_request_repeatable() {
    let server = Setup::new().start().await;
    let message = json!({ "id": "m1", "role": "user", "content": "Hello" });
    let record = created(&server, json!({ "agent_id": "demo", "input": { "messages": [message] } })).await;
    assert!(record["session_id"].as_str().is_some_and(|id| !id.is_empty()));

    let input = json!({ "threadId": "t", "runId": "r", "messages": [message] });
    let body = json!({ "agent_id": "demo", "input": input });
    let first = created(&server, body.clone()).await;
    let again = soon(server.post("/v2/runs", &body).send()).await.unwrap();
    assert_eq!(again.status(), 200, "the same request finds the run that it made");
    assert!(again.headers().contains_key("location"));
    assert_eq!(again.json::<Value>().await.unwrap()["run_id"], first["run_id"]);

    let mut other = body.clone();
    other["input"]["messages"][0]["content"] = "Something else".into();
    let refused = problem(soon(server.post("/v2/runs", &other).send()).await.unwrap()).await;
    assert_eq!(refused["status"], 409);

    let agreeing =
        json!({ "agent_id": "demo", "session_id": "t2", "input": { "threadId": "t2", "messages": [message] } });
    assert_eq!(created(&server, agreeing).await["session_id"], "t2");
}

#[tokio::test]
async fn what_is_no_new_run_is_refused_with_what_to_do() {
    let server = Setup::new().agent("other", stepped().1).start().await;
    let cases = [
        (json!({ "agent_id": "demo" }), 422, "one of `prompt` and `input`"),
        (json!({ "agent_id": "demo", "prompt": "x", "input": {} }), 422, "`prompt` and `input` are given"),
        (json!({ "agent_id": "demo", "prompt": "x", "promt": 1 }), 400, "`promt`"),
        (json!({ "prompt": "x" }), 400, "`agent_id`"),
        (json!({ "agent_id": "demo", "prompt": 7 }), 400, "string"),
        (json!({ "agent_id": "demo", "prompt": "x", "metadata": [] }), 400, "map"),
        (json!({ "agent_id": "demo", "prompt": "x", "lane": "" }), 422, "`lane`"),
        (json!({ "agent_id": "demo", "prompt": "x", "lane": "l".repeat(65) }), 422, "`lane`"),
        (json!({ "agent_id": "demo", "input": { "messages": "none" } }), 422, "/messages"),
        (json!({ "agent_id": "demo", "input": { "messages": [{ "role": "user" }] } }), 422, "/messages/0"),
        (
            json!({ "agent_id": "demo", "session_id": "a", "input": { "threadId": "b", "messages": [] } }),
            422,
            "which is the same thing",
        ),
        (json!({ "agent_id": "dmeo", "prompt": "x" }), 404, "there is `demo`, `other`"),
        (json!([]), 400, "no new run"),
    ];
    for (body, status, says) in cases {
        let problem = problem(soon(server.post("/v2/runs", &body).send()).await.unwrap()).await;
        assert_eq!(problem["status"], status, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{body}: {problem}");
    }
    let deep = format!(r#"{{"agent_id":"demo","prompt":"x","metadata":{}}}"#, nested(1000));
    for (body, status) in [("{", 400), ("", 400), ("\u{feff}{}", 400), (&*deep, 422)] {
        let request = server.http.post(server.url("/v2/runs")).header("content-type", "application/json");
        let problem = problem(soon(request.body(body.to_owned()).send()).await.unwrap()).await;
        assert_eq!(problem["status"], status, "{problem}");
    }
    assert_eq!(server.json("/v2/runs").await["runs"], json!([]), "nothing was started");
}

fn nested(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

#[tokio::test]
async fn a_body_has_to_say_that_it_is_json_and_must_not_be_too_large() {
    let server = Setup::new().options(|o| o.max_body_bytes = 1000).start().await;
    let body = json!({ "agent_id": "demo", "prompt": "x" }).to_string();
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        let request = server.http.post(server.url("/v2/runs")).header("content-type", content_type);
        let problem = problem(soon(request.body(body.clone()).send()).await.unwrap()).await;
        assert_eq!(problem["status"], 415, "{content_type}");
    }
    for content_type in ["application/json", "Application/JSON; charset=utf-8"] {
        let request = server.http.post(server.url("/v2/runs")).header("content-type", content_type);
        assert_eq!(soon(request.body(body.clone()).send()).await.unwrap().status(), 201, "{content_type}");
    }
    let large = json!({ "agent_id": "demo", "prompt": "x".repeat(1000) });
    let problem = problem(soon(server.post("/v2/runs", &large).send()).await.unwrap()).await;
    assert_eq!(problem["status"], 413);
    assert!(problem["detail"].as_str().unwrap().contains("1000 bytes"), "{problem}");
}

#[tokio::test]
async fn the_list_is_newest_first_filtered_and_paged() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let mut made = Vec::new();
    for n in 0..7 {
        let session = format!("s{}", n % 2);
        let record =
            created(&server, json!({ "agent_id": "demo", "prompt": format!("Word {n}"), "session_id": session })).await;
        made.push(record["run_id"].as_str().unwrap().to_owned());
        server.ended(&made[n]).await;
    }
    let held = server.create("held").await;
    server.reached(&held, 2).await;
    made.push(held);
    made.reverse();
    let ids = |page: &Value| -> Vec<String> {
        page["runs"].as_array().unwrap().iter().map(|r| r["run_id"].as_str().unwrap().to_owned()).collect()
    };

    let all = server.json("/v2/runs").await;
    assert_eq!(ids(&all), made);
    assert_eq!(all["next"], Value::Null);
    let of_session = server.json("/v2/runs?session_id=s1&agent_id=demo").await;
    assert_eq!(of_session["runs"].as_array().unwrap().len(), 3);
    assert_eq!(ids(&server.json("/v2/runs?status=running").await), made[..1]);
    assert_eq!(ids(&server.json("/v2/runs?status=running,completed").await), made);
    assert_eq!(ids(&server.json("/v2/runs?agent_id=nobody").await), Vec::<String>::new());

    // A person knows a run by what it was asked.
    assert_eq!(all["runs"][1]["prompt"], "Word 6");
    assert_eq!(ids(&server.json("/v2/runs?prompt=WORD%205").await), made[2..3]);
    assert_eq!(ids(&server.json("/v2/runs?prompt=word&session_id=s1").await).len(), 3);
    assert_eq!(ids(&server.json(&format!("/v2/runs?run_id={}", made[4])).await), made[4..5]);

    let input = json!({ "messages": [], "parentRunId": made[0] });
    let named = created(&server, json!({ "agent_id": "demo", "input": input })).await;
    let of_parent = server.json(&format!("/v2/runs?parent_run_id={}", made[0])).await;
    assert_eq!(ids(&of_parent), [named["run_id"].as_str().unwrap()]);
    server.ended(&ids(&of_parent)[0]).await;
    made.insert(0, ids(&of_parent).remove(0));

    let mut paged = Vec::new();
    let mut query = "/v2/runs?limit=3".to_owned();
    loop {
        let page = server.json(&query).await;
        paged.extend(ids(&page));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("/v2/runs?limit=3&before={next}");
    }
    assert_eq!(paged, made, "pages put together are the list");

    for bad in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "before=x",
        "before=x.y",
        "status=asleep",
        "status=",
        "colour=red",
        "prompt=ab",
    ] {
        let problem = problem(soon(server.get(&format!("/v2/runs?{bad}")).send()).await.unwrap()).await;
        assert_eq!(problem["status"], 400, "{bad}");
    }
    steps.complete();
}

#[tokio::test]
async fn a_cancelled_run_is_on_its_way_until_it_has_ended() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let run_id = server.create("held").await;
    server.reached(&run_id, 2).await;
    let cancel = format!("/v2/runs/{run_id}/cancel");

    let asked = soon(server.http.post(server.url(&cancel)).send()).await.unwrap();
    assert!([200, 202].contains(&asked.status().as_u16()));
    let status = asked.status();
    let record: Value = asked.json().await.unwrap();
    assert_eq!(record["ended_at"].is_null(), status == 202, "{record}");

    assert_eq!(server.ended(&run_id).await.status, "cancelled");
    let again = soon(server.http.post(server.url(&cancel)).send()).await.unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(again.json::<Value>().await.unwrap()["status"], "cancelled");
    let log = server.log(&run_id).await;
    let statuses: Vec<String> = log
        .iter()
        .filter_map(|body| match Frame::decode(body).unwrap().data {
            Data::RunStatus(change) => Some(change.status.as_str().to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, ["running", "cancelling", "cancelled"]);

    let completed = server.demo().await;
    let late = soon(server.http.post(server.url(&format!("/v2/runs/{completed}/cancel"))).send()).await.unwrap();
    assert_eq!(late.status(), 200);
    assert_eq!(late.json::<Value>().await.unwrap()["status"], "completed", "what has ended stays as it ended");
}

#[tokio::test]
async fn a_cancel_of_a_driver_that_does_not_listen_is_accepted_and_holds_after_the_grace_period() {
    let deaf = Script(|_: Exchange, writer: RunWriter| async move {
        let _message = writer.message(Opening::default()).await?;
        std::future::pending().await
    });
    let server = Setup::new().agent("deaf", deaf).start().await;
    let run_id = server.create("deaf").await;
    server.reached(&run_id, 3).await;
    let asked = soon(server.http.post(server.url(&format!("/v2/runs/{run_id}/cancel"))).send()).await.unwrap();
    assert_eq!(asked.status(), 202);
    assert_eq!(asked.json::<Value>().await.unwrap()["status"], "cancelling");
    assert_eq!(server.ended(&run_id).await.status, "cancelled");
}

#[tokio::test]
async fn a_result_of_ten_mebibytes_is_shown_in_part_and_fetched_whole() {
    let whole = "Ærøskøbing ".repeat(10 * 1024 * 1024 / 14 + 1);
    assert!(whole.len() >= 10 * 1024 * 1024);
    let result = whole.clone();
    let fetcher = Script(move |_: Exchange, writer: RunWriter| {
        let result = result.clone();
        async move {
            let tool = writer.tool("call_1", "fetch", Opening::default()).await?;
            tool.arguments("{}").await?;
            tool.arguments_complete().await?;
            tool.result(true, &ToolOutput::Text(result)).await?.end(Ending::completed()).await?;
            Ok(ExchangeEnd::Completed(Completion::default()))
        }
    });
    let server = Setup::new().agent("fetcher", fetcher).start().await;
    let run_id = server.create("fetcher").await;
    assert_eq!(server.ended(&run_id).await.status, "completed");

    let frames = server.log(&run_id).await;
    let (segment, shown) = frames
        .iter()
        .find_map(|body| match Frame::decode(body).unwrap() {
            Frame { segment_id: Some(id), data: Data::ToolResult(result), .. } => Some((id, result)),
            _ => None,
        })
        .unwrap();
    let preview = shown.output_preview.unwrap();
    assert!(shown.truncated && preview.len() <= 2048 && whole.starts_with(&preview));
    assert_eq!(shown.bytes, whole.len() as u64);

    let path = format!("/v2/runs/{run_id}/segments/{}/payload", segment.as_str());
    let response = soon(server.get(&path).send()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    assert_eq!(response.headers()["content-security-policy"], "sandbox");
    assert_eq!(response.headers()["cache-control"], "private, no-cache");
    let tag = response.headers()["etag"].clone();
    let known = soon(server.get(&path).header("if-none-match", &tag).send()).await.unwrap();
    assert_eq!((known.status(), &known.headers()["etag"]), (reqwest::StatusCode::NOT_MODIFIED, &tag));
    let other = soon(server.get(&path).header("if-none-match", "\"other\"").send()).await.unwrap();
    assert_eq!(other.status(), 200);
    assert!(soon(response.text()).await.unwrap() == whole, "the payload is the whole result");

    let events = soon(soon(server.get(&format!("/v2/runs/{run_id}/agui")).send()).await.unwrap().text()).await.unwrap();
    assert!(events.contains(&whole), "AG-UI has no previews");

    for path in [format!("/v2/runs/{run_id}/segments/seg_999/payload"), "/v2/runs/nobody/segments/s/payload".to_owned()]
    {
        assert_eq!(problem(soon(server.get(&path).send()).await.unwrap()).await["status"], 404);
    }
}

#[tokio::test]
async fn pages_of_frames_hold_the_very_bytes_of_the_log() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let log = server.log(&run_id).await;
    let head = log.len();
    let joined = |from: usize, to: usize| {
        let bodies: Vec<&str> = log[from..to].iter().map(|body| std::str::from_utf8(body).unwrap()).collect();
        bodies.join(",")
    };
    for (query, from, to) in
        [("", 0, head), ("?limit=5", 0, 5), ("?after=5&limit=1", 5, 6), (&*format!("?after={head}"), head, head)]
    {
        let response = soon(server.get(&format!("/v2/runs/{run_id}/frames{query}")).send()).await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/json");
        let text = response.text().await.unwrap();
        let expected = format!(r#"{{"frames":[{}],"next_after":{to},"head":{head},"ended":true}}"#, joined(from, to));
        assert_eq!(text, expected, "{query}");
    }

    for bad in ["limit=0", "limit=1001", "limit=x", "after=-1", "after=x", "behind=1"] {
        let path = format!("/v2/runs/{run_id}/frames?{bad}");
        assert_eq!(problem(soon(server.get(&path).send()).await.unwrap()).await["status"], 400, "{bad}");
    }
    let path = format!("/v2/runs/{run_id}/frames?after={}", head + 1);
    let past = problem(soon(server.get(&path).send()).await.unwrap()).await;
    assert_eq!((&past["status"], &past["head"]), (&json!(416), &json!(head)));
}

#[tokio::test]
async fn every_refusal_is_a_problem() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    for path in [
        "/nothing/here",
        "/v2/runs/nobody",
        "/v2/runs/nobody/stream",
        "/v2/runs/nobody/frames",
        "/v2/runs/nobody/agui",
        "/v2/runs/nobody/segments/s/payload",
    ] {
        assert_eq!(problem(soon(server.get(path).send()).await.unwrap()).await["status"], 404, "{path}");
    }
    for path in ["/v2/runs/%ff", "/v2/runs/%ff/stream", "/v2/runs/%ff/frames", "/v2/runs/%ff/agui"] {
        assert_eq!(problem(soon(server.get(path).send()).await.unwrap()).await["status"], 400, "{path}");
    }
    let cancel = soon(server.http.post(server.url("/v2/runs/nobody/cancel")).send()).await.unwrap();
    assert_eq!(problem(cancel).await["status"], 404);

    for (path, allowed) in [
        ("/v2/runs".to_owned(), "GET,HEAD,POST"),
        (format!("/v2/runs/{run_id}"), "GET,HEAD"),
        (format!("/v2/runs/{run_id}/stream"), "GET,HEAD"),
        (format!("/v2/runs/{run_id}/cancel"), "POST"),
        ("/agui/demo".to_owned(), "POST"),
    ] {
        let response = soon(server.http.delete(server.url(&path)).send()).await.unwrap();
        let mut allow: Vec<String> =
            response.headers()["allow"].to_str().unwrap().split(',').map(|m| m.trim().to_owned()).collect();
        allow.sort();
        assert_eq!(allow.join(","), allowed, "{path}");
        assert_eq!(problem(response).await["status"], 405, "{path}");
    }
    let no_upgrade = soon(server.get(&format!("/v2/runs/{run_id}/ws")).send()).await.unwrap();
    assert_eq!(problem(no_upgrade).await["status"], 426);
}

#[tokio::test]
async fn the_server_says_that_it_lives_and_what_it_is() {
    let server = Setup::new().start().await;
    assert_eq!(server.json("/healthz").await, json!({ "status": "ok" }));
    assert_eq!(server.json("/readyz").await, json!({ "status": "ready" }));
    let index = server.json("/").await;
    assert_eq!(index["name"], "runwire");
    assert_eq!(index["agents"][0]["agent_id"], "demo");
    assert_eq!(index["agents"][0]["concurrency"], "queue");
}

/// Where the store is, which is nobody's business but the operator's.
fn assert_no_path(server: &Server, said: &str) {
    for part in [server.file().to_str().unwrap(), "runs.db"] {
        assert!(!said.contains(part), "`{part}` is told: {said}");
    }
}

#[tokio::test]
async fn a_full_store_is_told_without_where_it_is() {
    let server = Setup::new().store(|o| o.max_bytes = Some(256 * 1024)).start().await;
    let body = json!({ "agent_id": "demo", "prompt": "x".repeat(20_000) });
    let mut refusals = 0;
    // The small writes of runs that are under way may still find room in between.
    let unready = soon(async {
        loop {
            let response = server.post("/v2/runs", &body).send().await.unwrap();
            if response.status() == 201 {
                continue;
            }
            refusals += 1;
            assert_eq!(response.headers()["retry-after"], "1");
            let refused = problem(response).await;
            assert_eq!(refused["status"], 503);
            assert_no_path(&server, &refused.to_string());
            let ready = server.get("/readyz").send().await.unwrap();
            if ready.status() != 200 {
                break ready;
            }
        }
    });
    let unready = problem(unready.await).await;
    assert!(refusals > 0);
    assert_eq!((&unready["status"], &unready["detail"]), (&json!(503), &json!("the store is full")));
    assert_eq!(server.json("/healthz").await["status"], "ok");
}

#[tokio::test]
async fn a_store_that_fails_is_told_without_where_it_is() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    // So that the run is not in memory any more, and readers have to go to the file.
    soon(async {
        while server.store.live_runs() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let file = rusqlite::Connection::open(server.file()).unwrap();
    file.execute_batch("DROP TABLE frames").unwrap();
    let frames = problem(soon(server.get(&format!("/v2/runs/{run_id}/frames")).send()).await.unwrap()).await;
    assert_eq!(frames["status"], 500);
    assert_no_path(&server, &frames.to_string());
    let (said, code) = failed_websocket(&server, &run_id).await;
    assert_eq!(code, Got::Closed(1011));
    assert!(said.contains("INTERNAL_ERROR"), "{said}");
    assert_no_path(&server, &said);

    file.execute_batch("DROP TABLE payloads; ALTER TABLE runs RENAME TO gone").unwrap();
    for path in [&*format!("/v2/runs/{run_id}"), "/v2/runs", &format!("/v2/runs/{run_id}/stream")] {
        let failed = problem(soon(server.get(path).send()).await.unwrap()).await;
        assert_eq!(failed["status"], 500, "{path}");
        assert_no_path(&server, &failed.to_string());
    }
    let (said, code) = failed_websocket(&server, &run_id).await;
    assert_eq!(code, Got::Closed(1011));
    assert_no_path(&server, &said);
    let body = json!({ "agent_id": "demo", "prompt": "x" });
    let refused = problem(soon(server.post("/v2/runs", &body).send()).await.unwrap()).await;
    assert!([500, 503].map(Value::from).contains(&refused["status"]), "{refused}");
    assert_no_path(&server, &refused.to_string());
    let ready = problem(soon(server.get("/readyz").send()).await.unwrap()).await;
    assert_eq!((&ready["status"], &ready["detail"]), (&json!(503), &json!("the store failed")));
}

/// What a WebSocket is told that cannot be served, and how it ends.
async fn failed_websocket(server: &Server, run_id: &str) -> (String, Got) {
    let mut reader = Reader::open(server, Transport::WebSocket, run_id, 0).await;
    let Got::Frame(0, body) = reader.next().await else { panic!("an error frame of the connection has seq 0") };
    (String::from_utf8(body.to_vec()).unwrap(), reader.next().await)
}

#[tokio::test]
async fn a_request_that_does_not_come_whole_is_given_up() {
    let server = Setup::new().options(|o| o.request_patience = Duration::from_millis(200)).start().await;
    let mut half_a_head = TcpStream::connect(server.address).await.unwrap();
    half_a_head.write_all(b"POST /v2/runs HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut half_a_body = TcpStream::connect(server.address).await.unwrap();
    let head =
        "POST /v2/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{";
    half_a_body.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Closed, with or without a word.
    let _ = soon(half_a_head.read_to_end(&mut answer)).await;
    answer.clear();
    let _ = soon(half_a_body.read_to_end(&mut answer)).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("application/problem+json"), "{answer}");
}
