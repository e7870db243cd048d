//! `GET /v2/sessions/{id}/stream`: all runs of a session in one connection (G1 to G7, for several logs at once).

use std::collections::HashMap;
use std::time::Duration;

use reqwest::Response;
use runwire_bridge::{ExchangeEnd, Suspension};
use runwire_frame::SuspendKind;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Line, Piece, Raw, Server, Setup, problem, soon, stepped};

/// A frame as it came: the cursor behind it, and its body.
type Got = (String, String);

async fn open(server: &Server, after: &str) -> Response {
    let request = server.get("/v2/sessions/s/stream").header("last-event-id", after);
    soon(request.send()).await.unwrap()
}

/// Reads until so many frames came, and takes the stream apart: `retry:`, and then events of an `id` and a `data` line.
async fn frames(response: &mut Response, count: usize) -> Vec<Got> {
    assert_eq!(response.status(), 200);
    let mut body = String::new();
    loop {
        let events: Vec<Got> = body
            .split_inclusive("\n\n")
            .filter(|event| event.ends_with("\n\n") && event.starts_with("id: "))
            .map(|event| {
                let (id, data) = event.trim_end_matches('\n').split_once('\n').unwrap();
                (id.strip_prefix("id: ").unwrap().to_owned(), data.strip_prefix("data: ").unwrap().to_owned())
            })
            .collect();
        if events.len() >= count {
            assert_eq!(events.len(), count, "no more than there is");
            return events;
        }
        let chunk = soon(response.chunk()).await.unwrap().expect("a session's stream does not end");
        body += std::str::from_utf8(&chunk).unwrap();
    }
}

async fn run(server: &Server, agent: &str) -> String {
    let new = json!({ "agent_id": agent, "prompt": "Hello", "session_id": "s" });
    let record: Value = soon(server.post("/v2/runs", &new).send()).await.unwrap().json().await.unwrap();
    record["run_id"].as_str().unwrap_or_else(|| panic!("{record}")).to_owned()
}

async fn ended(server: &Server, agent: &str) -> String {
    let run_id = run(server, agent).await;
    server.ended(&run_id).await;
    run_id
}

/// The bodies of the runs' logs, one run after the other.
async fn logs(server: &Server, run_ids: &[&String]) -> Vec<String> {
    let mut bodies = Vec::new();
    for run_id in run_ids {
        bodies.extend(server.log(run_id).await.iter().map(|body| String::from_utf8(body.to_vec()).unwrap()));
    }
    bodies
}

fn bodies(got: &[Got]) -> Vec<String> {
    got.iter().map(|(_, body)| body.clone()).collect()
}

/// Each run's frames have to be its log, byte for byte and in order.
async fn whole(server: &Server, got: &[Got], run_ids: &[&String]) {
    let mut by_run: HashMap<String, Vec<String>> = HashMap::new();
    for (_, body) in got {
        let frame: Value = serde_json::from_str(body).unwrap();
        by_run.entry(frame["run_id"].as_str().unwrap().to_owned()).or_default().push(body.clone());
    }
    assert_eq!(by_run.len(), run_ids.len());
    for run_id in run_ids {
        assert_eq!(by_run[*run_id], logs(server, &[run_id]).await, "G1, G2, G3");
    }
}

#[tokio::test]
async fn g1_g2_g3_runs_that_have_ended_come_one_after_the_other_and_resume_anywhere() {
    let server = Setup::new().start().await;
    let one = ended(&server, "demo").await;
    let two = ended(&server, "demo").await;
    let three = ended(&server, "demo").await;
    let expected = logs(&server, &[&one, &two, &three]).await;
    let got = frames(&mut open(&server, "").await, expected.len()).await;
    assert_eq!(bodies(&got), expected);
    for (n, (cursor, _)) in got.iter().enumerate().step_by(7).chain([(got.len() - 2, &got[got.len() - 2])]) {
        let rest = frames(&mut open(&server, cursor).await, got.len() - n - 1).await;
        assert_eq!(rest, got[n + 1..], "after {cursor}");
        let path = format!("/v2/sessions/s/stream?after={cursor}");
        let rest = frames(&mut soon(server.get(&path).send()).await.unwrap(), got.len() - n - 1).await;
        assert_eq!(rest, got[n + 1..], "after {cursor}, by the query");
    }
    let cursor = &got.last().unwrap().0;
    assert_eq!(*cursor, format!("{three}:{}", server.log(&three).await.len()), "what is whole is not named");
}

#[tokio::test]
async fn a_run_that_is_created_later_comes_by_itself() {
    let server = Setup::new().start().await;
    let one = ended(&server, "demo").await;
    let mut reader = open(&server, "").await;
    let first = frames(&mut reader, logs(&server, &[&one]).await.len()).await;
    let mut at_the_end = open(&server, &first.last().unwrap().0).await;
    let two = ended(&server, "demo").await;
    let expected = logs(&server, &[&two]).await;
    for reader in [&mut reader, &mut at_the_end] {
        assert_eq!(bodies(&frames(reader, expected.len()).await), expected);
    }
}

#[tokio::test]
async fn g2_runs_side_by_side_interleave_and_a_cursor_says_how_far_each_is() {
    let (one, first) = stepped();
    let (two, second) = stepped();
    let server = Setup::new().agent("one", first).agent("two", second).start().await;
    let mut reader = open_when_there(&server, "one").await;
    let id_one = reader.1.clone();
    let mut got = frames(&mut reader.0, 2).await;
    let id_two = run(&server, "two").await;
    got.extend(frames(&mut reader.0, 2).await);
    for n in 0..20 {
        let steps = if n % 3 == 0 { &one } else { &two };
        steps.say(format!("{n}"));
        got.extend(frames(&mut reader.0, 1).await);
        // From the cursor behind any frame, another connection goes on with the very next, whichever run's it is.
        let steps = if n % 2 == 0 { &one } else { &two };
        let mut other = open(&server, &got.last().unwrap().0).await;
        steps.say("after the cut");
        let next = frames(&mut reader.0, 1).await;
        assert_eq!(frames(&mut other, 1).await, next);
        got.extend(next);
        reader.0 = other;
    }
    two.complete();
    got.extend(frames(&mut reader.0, 2).await);
    one.say("one goes on");
    got.extend(frames(&mut reader.0, 1).await);
    one.complete();
    got.extend(frames(&mut reader.0, 2).await);
    whole(&server, &got, &[&id_one, &id_two]).await;
    let heads = (server.log(&id_one).await.len(), server.log(&id_two).await.len());
    let last = &got.last().unwrap().0;
    assert_eq!(*last, format!("{id_one}:{},{id_two}:{}", heads.0, heads.1));
    let three = ended(&server, "demo").await;
    let expected = logs(&server, &[&three]).await;
    assert_eq!(bodies(&frames(&mut open(&server, last).await, expected.len()).await), expected);
}

async fn open_when_there(server: &Server, agent: &str) -> (Response, String) {
    let run_id = run(server, agent).await;
    (open(server, "").await, run_id)
}

#[tokio::test]
async fn a_run_that_waits_keeps_no_later_one_back_and_is_told_when_it_goes_on() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let asks = run(&server, "held").await;
    let contract = json!({ "interrupts": [{ "id": "i", "reason": "confirmation" }] });
    steps.end(Ok(ExchangeEnd::Suspended(Suspension {
        kind: SuspendKind::Approval,
        contract: contract.as_object().unwrap().clone(),
        prompt: None,
        deadline: None,
        usage: Vec::new(),
        agui: None,
    })));
    let waiting = server.until(&asks, |record| record.status == "suspended").await;
    let later = ended(&server, "demo").await;
    let count = waiting.head as usize + server.log(&later).await.len();
    let mut reader = open(&server, "").await;
    let mut got = frames(&mut reader, count).await;
    let cursor = got.last().unwrap().0.clone();
    assert!(cursor.starts_with(&format!("{asks}:{},", waiting.head)), "{cursor}");

    let answer = json!({ "threadId": "s", "runId": "answer", "messages": [],
                         "resume": [{ "interruptId": "i", "status": "resolved" }] });
    soon(server.post("/agui/held", &answer).send()).await.unwrap();
    steps.complete();
    let head = server.ended(&asks).await.head;
    let more = (head - waiting.head) as usize;
    let mut resumed = open(&server, &cursor).await;
    let rest = frames(&mut resumed, more).await;
    assert_eq!(frames(&mut reader, more).await, rest);
    got.extend(rest);
    whole(&server, &got, &[&asks, &later]).await;
}

#[tokio::test]
async fn g7_a_cursor_that_cannot_be_served_is_told_what_can() {
    let server = Setup::new().token("alice").token("bob").start().await;
    let new = |session: &str| json!({ "agent_id": "demo", "prompt": "Hello", "session_id": session });
    let create = async |session: &str| {
        let request = server.post("/v2/runs", &new(session)).bearer_auth("alice");
        let record: Value = soon(request.send()).await.unwrap().json().await.unwrap();
        let run_id = record["run_id"].as_str().unwrap().to_owned();
        let head = server.ended(&run_id).await.head;
        (run_id, head)
    };
    let (mine, head) = create("s").await;
    let (elsewhere, _) = create("other").await;
    let ask = async |after: &str| {
        let request = server.get("/v2/sessions/s/stream").bearer_auth("alice").header("last-event-id", after);
        soon(request.send()).await.unwrap()
    };
    for bad in ["x", "7", &format!("{mine}:"), &format!("{mine}:1,{mine}:2"), &format!("{mine}:-1")] {
        assert_eq!(problem(ask(bad).await).await["status"], 400, "{bad}");
    }
    let past = problem(ask(&format!("{mine}:{}", head + 1)).await).await;
    assert_eq!((&past["status"], &past["head"], &past["run_id"]), (&json!(416), &json!(head), &json!(mine)));
    for gone in [format!("{elsewhere}:1"), "run_pruned:3".to_owned(), format!("run_pruned:3,{mine}:1")] {
        let gone = problem(ask(&gone).await).await;
        assert_eq!(gone["status"], 410, "{gone}");
        assert!(gone["run_id"].is_string());
    }
    let trimmed = server.store.trim(&mine, 5).await.unwrap();
    let gone = problem(ask(&format!("{mine}:2")).await).await;
    assert_eq!((&gone["status"], &gone["oldest"], &gone["run_id"]), (&json!(410), &json!(trimmed), &json!(mine)));
    assert_eq!(ask(&format!("{mine}:{}", trimmed - 1)).await.status(), 200);
    let unknown = server.get("/v2/sessions/s/stream?from=1").bearer_auth("alice");
    assert_eq!(problem(soon(unknown.send()).await.unwrap()).await["status"], 400);
}

#[tokio::test]
async fn g7_a_run_that_is_deleted_under_its_reader_is_a_cut_and_then_410() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).send_buffer(16 * 1024).start().await;
    let one = run(&server, "held").await;
    // More than fits into what the system holds back for a reader.
    for _ in 0..300 {
        steps.say("x".repeat(64 * 1024));
    }
    steps.complete();
    server.ended(&one).await;
    let line = Line::open(server.address).await;
    let mut raw = soon(Raw::get(line, "/v2/sessions/s/stream", "", None)).await;
    let mut came = 0;
    while came < 100_000 {
        let Piece::Data(data) = soon(raw.piece()).await else { panic!("the stream goes on") };
        came += data.len();
    }
    let file = Connection::open(server.file()).unwrap();
    for table in ["frames WHERE run", "runs WHERE id"] {
        file.execute(&format!("DELETE FROM {table} = (SELECT id FROM runs WHERE run_id = ?1)"), [&one]).unwrap();
    }
    let (_, in_order) = soon(raw.rest()).await;
    assert!(!in_order, "a stream that cannot go on breaks, and does not end as if all was told");
    let gone = problem(open(&server, &format!("{one}:1")).await).await;
    assert_eq!(gone["status"], 410);
}

#[tokio::test]
async fn the_stream_has_its_headers_retry_comments_and_age_over_http_1_and_2() {
    let options = |o: &mut runwire_server::ServerOptions| {
        o.keep_alive = Duration::from_millis(30);
        o.stream_max_age = Some(Duration::from_millis(300));
    };
    let server = Setup::new().options(options).start().await;
    let one = ended(&server, "demo").await;
    let second = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let mut texts = Vec::new();
    for (client, version) in [(&server.http, reqwest::Version::HTTP_11), (&second, reqwest::Version::HTTP_2)] {
        let response = soon(client.get(server.url("/v2/sessions/s/stream")).send()).await.unwrap();
        assert_eq!(response.version(), version);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-cache, no-transform");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        // It ends of age, in good order, and says so much in between.
        let text = soon(response.text()).await.unwrap();
        assert!(text.starts_with("retry: 1000\n\nid: "), "{text}");
        assert!(text.contains("\n\n: \n\n"), "comments in silence");
        texts.push(text.replace(": \n\n", ""));
    }
    assert_eq!(texts[0], texts[1]);
    assert_eq!(texts[0].matches("\nid: ").count(), server.log(&one).await.len());
}

#[tokio::test]
async fn a_holder_follows_its_own_runs_of_a_session() {
    let server = Setup::new().token("alice").token_for_all("ops").start().await;
    let new = json!({ "agent_id": "demo", "prompt": "Hello", "session_id": "s" });
    let record: Value =
        soon(server.post("/v2/runs", &new).bearer_auth("alice").send()).await.unwrap().json().await.unwrap();
    let run_id = record["run_id"].as_str().unwrap().to_owned();
    let count = server.ended(&run_id).await.head as usize;
    for token in ["alice", "ops"] {
        let mut reader = soon(server.get("/v2/sessions/s/stream").bearer_auth(token).send()).await.unwrap();
        assert_eq!(bodies(&frames(&mut reader, count).await), logs(&server, &[&run_id]).await, "{token}");
    }
}

#[tokio::test]
async fn the_client_follows_a_session_across_recycled_connections_and_new_runs() {
    use futures_util::StreamExt as _;
    use runwire_client::{Backoff, SessionFollowed};

    let (steps, driver) = stepped();
    let options = |o: &mut runwire_server::ServerOptions| {
        o.stream_max_age = Some(Duration::from_millis(40));
        o.retry = Duration::from_millis(1);
    };
    let server = Setup::new().agent("held", driver).options(options).start().await;
    let mut run_ids = vec![run(&server, "held").await];
    let client = runwire_client::Server::new(&server.url("/"), None).unwrap();
    let backoff = Backoff { first: Duration::from_millis(1), ..Backoff::default() };
    let mut frames = client.follow_session("s").backoff(backoff).start();
    let (mut got, mut cuts) = (Vec::new(), 0);
    let mut ends = 0;
    while ends < 4 {
        match soon(frames.next()).await.unwrap().unwrap() {
            SessionFollowed::Frame { cursor, body, .. } => {
                ends += usize::from(body.windows(9).any(|w| w == b"\"run.end\""));
                got.push((cursor, String::from_utf8(body.to_vec()).unwrap()));
            }
            SessionFollowed::Disconnected { .. } => {
                cuts += 1;
                steps.say("after a cut");
                match cuts {
                    1..=3 => run_ids.push(run(&server, "demo").await),
                    5 => steps.complete(),
                    _ => {}
                }
            }
            SessionFollowed::Connected { .. } => {}
        }
    }
    assert!(cuts >= 5);
    whole(&server, &got, &run_ids.iter().collect::<Vec<_>>()).await;
}
