//! Runs that are executed elsewhere: claimed, pushed in pieces, and given up when nobody is heard of.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Body, Response};
use runwire_engine::drivers::{ExternalDriver, ExternalOptions};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{Server, Setup, problem, soon};

/// Long enough that no test sees it run out.
const LONG: Duration = Duration::from_secs(600);

fn elsewhere(lease: Duration) -> Setup {
    let driver = ExternalDriver::new(ExternalOptions { lease, ..ExternalOptions::default() });
    Setup::new().agent("elsewhere", driver).cancel_grace(Duration::from_secs(30))
}

async fn post(server: &Server, path: &str) -> Response {
    soon(server.http.post(server.url(path)).send()).await.unwrap()
}

async fn ok(response: Response) -> Value {
    let status = response.status();
    let text = soon(response.text()).await.unwrap();
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// A run that was claimed, and its events.
struct Claimed<'a> {
    server: &'a Server,
    run_id: String,
    epoch: u64,
    input: Value,
}

impl<'a> Claimed<'a> {
    async fn new(server: &'a Server) -> Claimed<'a> {
        let run_id = server.create("elsewhere").await;
        Claimed::again(server, run_id).await
    }

    async fn again(server: &'a Server, run_id: String) -> Claimed<'a> {
        let claim = ok(post(server, &format!("/v2/runs/{run_id}/claim")).await).await;
        assert_eq!((&claim["through"], &claim["cancelling"]), (&json!(0), &json!(false)));
        let (epoch, input) = (claim["epoch"].as_u64().unwrap(), claim["input"].clone());
        Claimed { server, run_id, epoch, input }
    }

    fn path(&self, what: &str) -> String {
        format!("/v2/runs/{}/{what}?epoch={}", self.run_id, self.epoch)
    }

    async fn push(&self, body: impl Into<Body>) -> Response {
        let request = self.server.http.post(self.server.url(&self.path("frames")));
        soon(request.header("content-type", "application/x-ndjson").body(body).send()).await.unwrap()
    }

    fn started(&self) -> Value {
        json!({ "type": "RUN_STARTED", "threadId": self.input["threadId"], "runId": self.input["runId"] })
    }

    fn finished(&self) -> Value {
        json!({ "type": "RUN_FINISHED", "threadId": self.input["threadId"], "runId": self.input["runId"] })
    }

    /// The events of a whole run that says "Kept."
    fn whole(&self) -> Vec<Value> {
        vec![
            self.started(),
            json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" }),
            json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Kept." }),
            json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }),
            self.finished(),
        ]
    }

    async fn text(&self) -> String {
        let frames = self.server.log(&self.run_id).await;
        let frames = frames.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap());
        frames.filter_map(|frame| Some(frame["data"]["text"].as_str()?.to_owned())).collect()
    }
}

/// The events as lines, numbered from `first`.
fn lines(first: usize, events: &[Value]) -> String {
    events.iter().enumerate().map(|(i, event)| format!("{}\n", json!({ "n": first + i, "event": event }))).collect()
}

#[tokio::test]
async fn an_executor_claims_a_run_pushes_its_events_and_is_told_when_they_are_stored() {
    let server = elsewhere(LONG).start().await;
    let run = Claimed::new(&server).await;
    assert_eq!(run.input["messages"][0]["content"], "héllo wide world");
    let queued = server.json("/v2/runs?agent_id=elsewhere&status=queued").await;
    assert_eq!(queued["runs"][0]["run_id"], *run.run_id, "it is queued until it says that it runs");
    let events = run.whole();
    let told = ok(run.push(lines(1, &events[..2])).await).await;
    assert_eq!((&told["through"], &told["ended"]), (&json!(2), &json!(false)));
    assert_eq!(server.store.run(&run.run_id).await.unwrap().unwrap().status, "running");
    let told = ok(run.push(lines(3, &events[2..])).await).await;
    assert_eq!((&told["through"], &told["ended"], &told["status"]), (&json!(5), &json!(true), &json!("completed")));
    // What it was told of is in the store, the end included.
    assert!(server.store.run(&run.run_id).await.unwrap().unwrap().ended_at.is_some());
    assert_eq!(run.text().await, "Kept.");
    let late = problem(run.push(lines(6, &[run.started()])).await).await;
    assert_eq!(late["status"], 409);
}

#[tokio::test]
async fn events_that_come_again_are_taken_once_and_none_may_be_missing() {
    let server = elsewhere(LONG).start().await;
    let run = Claimed::new(&server).await;
    let events = run.whole();
    ok(run.push(lines(1, &events[..3])).await).await;
    let gap = problem(run.push(lines(5, &events[4..])).await).await;
    assert_eq!((&gap["status"], &gap["through"]), (&json!(409), &json!(3)));
    // Whoever does not know what arrived asks, or sends all of it again.
    let claim = ok(post(&server, &run.path("claim")).await).await;
    assert_eq!((&claim["through"], &claim["epoch"]), (&json!(3), &json!(run.epoch)));
    let told = ok(run.push(lines(1, &events)).await).await;
    assert_eq!((&told["through"], &told["status"]), (&json!(5), &json!("completed")));
    assert_eq!(run.text().await, "Kept.");
}

#[tokio::test]
async fn a_body_that_is_cut_keeps_what_came_whole() {
    let server = elsewhere(LONG).start().await;
    let run = Claimed::new(&server).await;
    let events = run.whole();
    let (send, mut receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(8);
    let body = Body::wrap_stream(futures_util::stream::poll_fn(move |context| receive.poll_recv(context)));
    let request = server.http.post(server.url(&run.path("frames"))).header("content-type", "application/x-ndjson");
    let pushing = tokio::spawn(request.body(body).send());
    let half = lines(3, &events[2..3]);
    send.send(Ok((lines(1, &events[..2]) + &half[..20]).into())).await.unwrap();
    server.until(&run.run_id, |record| record.status == "running").await;
    send.send(Err(std::io::Error::other("cut"))).await.unwrap();
    assert!(soon(pushing).await.unwrap().is_err());
    let told = soon(async {
        loop {
            let told = ok(post(&server, &run.path("heartbeat")).await).await;
            if told["through"] == 2 {
                return told;
            }
        }
    });
    assert_eq!(told.await["through"], 2, "a line that did not come whole is none");
    assert_eq!(ok(run.push(lines(3, &events[2..])).await).await["status"], "completed");
}

#[tokio::test]
async fn of_two_executors_one_has_the_run() {
    let server = elsewhere(LONG).start().await;
    let run = Claimed::new(&server).await;
    let second = problem(post(&server, &format!("/v2/runs/{}/claim", run.run_id)).await).await;
    assert_eq!((&second["status"], &second["title"]), (&json!(409), &json!("Claimed")));
    let fenced = Claimed {
        epoch: run.epoch + 1,
        ..Claimed { server: &server, run_id: run.run_id.clone(), epoch: 0, input: json!({}) }
    };
    for path in ["claim", "heartbeat", "frames"] {
        let request = server.http.post(server.url(&fenced.path(path))).header("content-type", "application/x-ndjson");
        let refused = problem(soon(request.body("").send()).await.unwrap()).await;
        assert_eq!((&refused["status"], &refused["title"]), (&json!(409), &json!("Claim is over")), "{path}");
    }
    assert_eq!(ok(run.push(lines(1, &run.whole())).await).await["status"], "completed");
}

#[tokio::test]
async fn an_executor_that_is_not_heard_of_is_given_up_and_fenced() {
    let server = elsewhere(Duration::from_millis(100)).start().await;
    let run = Claimed::new(&server).await;
    ok(run.push(lines(1, &run.whole()[..3])).await).await;
    let record = server.ended(&run.run_id).await;
    assert_eq!(record.status, "failed");
    let failure = record.failure.unwrap();
    assert_eq!(failure["code"], "INTERNAL_ERROR");
    let log = server.log(&run.run_id).await;
    let frames: Vec<Value> = log.iter().map(|body| serde_json::from_slice(body).unwrap()).collect();
    let error = frames.iter().find(|frame| frame["type"] == "error").unwrap();
    assert_eq!(error["data"]["retryable"], true);
    assert!(error["data"]["message"].as_str().unwrap().contains("lease"), "{error}");
    let ended = frames.iter().find(|frame| frame["type"] == "segment.end").unwrap();
    assert_eq!(ended["data"]["status"], "abandoned");
    let late = problem(run.push(lines(4, &run.whole()[3..])).await).await;
    assert_eq!(late["status"], 409);
}

#[tokio::test]
async fn a_body_that_stays_open_and_silent_is_answered_when_the_lease_runs_out() {
    let server = elsewhere(Duration::from_millis(100)).start().await;
    let run = Claimed::new(&server).await;
    let (_open, mut receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let body = Body::wrap_stream(futures_util::stream::poll_fn(move |context| receive.poll_recv(context)));
    assert_eq!(problem(run.push(body).await).await["title"], "Nothing to execute");
}

#[tokio::test]
async fn an_event_that_breaks_agui_fails_the_run_and_a_line_that_is_none_does_not() {
    let server = elsewhere(LONG).start().await;
    let run = Claimed::new(&server).await;
    for line in ["not json\n", "{\"n\":1}\n", "{\"n\":1,\"event\":3}\n", "{\"n\":1,\"event\":{},\"more\":1}\n"] {
        assert_eq!(problem(run.push(line).await).await["status"], 400, "{line}");
    }
    assert_eq!(problem(run.push(lines(0, &[run.started()])).await).await["title"], "Events are missing");
    let stray = json!({ "type": "TEXT_MESSAGE_END", "messageId": "unknown" });
    let refused = problem(run.push(lines(1, &[run.started(), stray])).await).await;
    assert_eq!((&refused["status"], &refused["n"]), (&json!(422), &json!(2)));
    let failure = server.ended(&run.run_id).await.failure.unwrap();
    assert_eq!(failure["code"], "CHANNEL_ERROR");
    assert!(failure["detail"].as_str().unwrap().contains("the executor broke AG-UI rule"), "{failure}");
}

#[tokio::test]
async fn a_stop_is_told_to_a_push_and_a_heartbeat_and_the_executor_may_still_report_the_end() {
    let server = elsewhere(LONG).start().await;
    let run = Claimed::new(&server).await;
    let (send, mut receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(8);
    let body = Body::wrap_stream(futures_util::stream::poll_fn(move |context| receive.poll_recv(context)));
    let request = server.http.post(server.url(&run.path("frames"))).header("content-type", "application/x-ndjson");
    let pushing = tokio::spawn(request.body(body).send());
    send.send(Ok(lines(1, &[run.started()]).into())).await.unwrap();
    server.until(&run.run_id, |record| record.status == "running").await;
    assert_eq!(post(&server, &format!("/v2/runs/{}/cancel", run.run_id)).await.status(), 202);
    // The push is answered although its body goes on.
    let told = ok(soon(pushing).await.unwrap().unwrap()).await;
    assert_eq!((&told["cancelling"], &told["through"]), (&json!(true), &json!(1)));
    assert_eq!(ok(post(&server, &run.path("heartbeat")).await).await["cancelling"], true);
    let mut end = run.finished();
    end["outcome"] = json!({ "type": "cancelled" });
    let told = ok(run.push(lines(2, &[end])).await).await;
    assert_eq!(told["status"], "cancelled");
}

#[tokio::test]
async fn a_run_that_nobody_claimed_is_cancelled_at_once() {
    let server = elsewhere(LONG).start().await;
    let run_id = server.create("elsewhere").await;
    post(&server, &format!("/v2/runs/{run_id}/cancel")).await;
    assert_eq!(server.ended(&run_id).await.status, "cancelled");
    assert_eq!(problem(post(&server, &format!("/v2/runs/{run_id}/claim")).await).await["status"], 409);
}

#[tokio::test]
async fn a_run_that_asked_is_claimed_again_with_the_answer() {
    let server = elsewhere(LONG).start().await;
    let run = Claimed::new(&server).await;
    let mut end = run.finished();
    end["outcome"] = json!({ "type": "interrupt", "interrupts": [{
        "id": "send",
        "reason": "confirmation",
        // Not to be used here: whoever asked judges the answer.
        "responseSchema": { "$ref": "https://example.com/answer.json" },
    }] });
    let told = ok(run.push(lines(1, &[run.started(), end])).await).await;
    assert_eq!(told["status"], "suspended");
    assert_eq!(problem(post(&server, &format!("/v2/runs/{}/claim", run.run_id)).await).await["status"], 409);
    let answer = json!({ "interruptId": "send", "status": "resolved", "payload": true });
    let input = json!({ "threadId": run.input["threadId"], "messages": [], "resume": [answer] });
    let answered = soon(server.post("/v2/runs", &json!({ "agent_id": "elsewhere", "input": input })).send()).await;
    assert_eq!(answered.unwrap().status(), 201);
    let again = Claimed::again(&server, run.run_id.clone()).await;
    assert_eq!(again.input["resume"][0]["interruptId"], "send");
    assert_ne!(again.epoch, run.epoch);
    assert_eq!(problem(run.push(lines(3, &[run.started()])).await).await["title"], "Claim is over");
    assert_eq!(ok(again.push(lines(1, &again.whole())).await).await["status"], "completed");
}

#[tokio::test]
async fn executing_takes_a_token_with_that_right_and_an_agent_that_is_executed_elsewhere() {
    let server = elsewhere(LONG).token("alice").token_for_executor("worker", true).token_for_executor("bob", false);
    let server = server.start().await;
    let body = json!({ "agent_id": "elsewhere", "prompt": "x" });
    let created = soon(server.post("/v2/runs", &body).bearer_auth("alice").send()).await.unwrap();
    let record: Value = created.json().await.unwrap();
    let claim = server.url(&format!("/v2/runs/{}/claim", record["run_id"].as_str().unwrap()));
    for (token, status) in [("alice", 403), ("bob", 404), ("worker", 200)] {
        let response = soon(server.http.post(&claim).bearer_auth(token).send()).await.unwrap();
        assert_eq!(response.status(), status, "{token}");
    }
    let body = json!({ "agent_id": "demo", "prompt": "x" });
    let created = soon(server.post("/v2/runs", &body).bearer_auth("worker").send()).await.unwrap();
    let record: Value = created.json().await.unwrap();
    let claim = server.url(&format!("/v2/runs/{}/claim", record["run_id"].as_str().unwrap()));
    let refused = problem(soon(server.http.post(&claim).bearer_auth("worker").send()).await.unwrap()).await;
    assert_eq!((&refused["status"], &refused["title"]), (&json!(409), &json!("Not executed from outside")));
}

#[tokio::test]
async fn a_body_of_any_size_arrives_whole_and_in_order() {
    let server = elsewhere(LONG).start().await;
    let run = Claimed::new(&server).await;
    // Many times more than may be on its way to the store at once.
    let mut events =
        vec![run.started(), json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" })];
    let piece = "x".repeat(8000);
    events.extend((0..1000).map(|_| json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": piece })));
    events.extend([json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }), run.finished()]);
    let told = ok(run.push(lines(1, &events)).await).await;
    assert_eq!((&told["through"], &told["status"]), (&json!(1004), &json!("completed")));
    assert_eq!(run.text().await.len(), 8_000_000);
}
