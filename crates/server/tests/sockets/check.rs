//! `GET /v2/runs/{id}/check`: what `runwire check` says of a run's AG-UI view, by frames.

use bytes::Bytes;
use runwire_agui::{CheckOptions, Checker, Form};
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, LogState, Opening, Recorder};
use runwire_engine::{Exchange, RunWriter};
use runwire_frame::{Frame, RunStart, Timestamp};
use runwire_store::{Append, Created, NewFrame, NewRun, RunUpdate};
use serde_json::{Map, Value, json};

use crate::harness::{AguiEvent, Line, Loss, Script, Server, Setup, agui_events, problem, soon, stepped};

/// An agent whose events conform, and could be better: a name without a prefix, and a patch of what is not there.
async fn careless(_: Exchange, writer: RunWriter) -> Result<ExchangeEnd, Failure> {
    let message = writer.message(Opening::default()).await?;
    message.text("Hello").await?;
    message.end(Ending::completed()).await?;
    writer.custom("progress", json!(0.5)).await?;
    writer.state_delta(json!([{ "op": "remove", "path": "/nothing" }])).await?;
    Ok(ExchangeEnd::Completed(Completion::default()))
}

async fn check(server: &Server, run_id: &str) -> Value {
    server.json(&format!("/v2/runs/{run_id}/check")).await
}

async fn view(server: &Server, run_id: &str) -> String {
    let response = soon(server.get(&format!("/v2/runs/{run_id}/agui")).send()).await.unwrap();
    soon(response.text()).await.unwrap()
}

/// Puts a run with this log into the store, as no driver of this server would write it.
async fn put(server: &Server, run_id: &str, bodies: Vec<Bytes>) {
    let new = NewRun {
        run_id: run_id.into(),
        agent_id: "demo".into(),
        session_id: format!("s_{run_id}"),
        exchange_id: format!("e_{run_id}"),
        input_digest: String::new(),
        lane: "default".into(),
        status: "completed".into(),
        created_at: 0,
        principal: None,
        trigger_kind: "api".into(),
        agent_revision_id: None,
        parent_run_id: None,
        metadata: Value::Null,
        input: Value::Null,
    };
    assert!(matches!(server.store.create_run(new).await.unwrap(), Created::New(_)));
    let frames = (1..).zip(bodies).map(|(seq, body)| NewFrame { seq, body }).collect();
    let update = Some(RunUpdate { ended_at: Some(0), ..RunUpdate::default() });
    let mut appender = server.store.take_ownership(run_id).await.unwrap();
    appender.enqueue(Append { frames, update, payloads: Vec::new() }).unwrap();
    appender.progress().flush().await.unwrap();
}

fn recorder(run_id: &str) -> Recorder {
    let start = RunStart {
        agent_id: "demo".into(),
        agent_revision_id: None,
        session_id: Some("s".into()),
        lane: None,
        trigger_kind: None,
        attempt: 1,
        extra: Map::new(),
    };
    Recorder::start(LogState::new(run_id), Timestamp::from_unix_millis(0), start)
}

fn completed(recorder: Recorder) -> Vec<Bytes> {
    let recorded = recorder.complete(Timestamp::from_unix_millis(0), Completion::default());
    recorded.frames.iter().map(Frame::encode).collect()
}

fn rules(check: &Value) -> Vec<&str> {
    check["findings"].as_array().unwrap().iter().map(|finding| finding["rule"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_run_that_conforms_is_told_as_such() {
    let server = Setup::new().start().await;
    let run_id = server.demo().await;
    let checked = check(&server, &run_id).await;
    let events = agui_events(&view(&server, &run_id).await);
    let record = server.store.run(&run_id).await.unwrap().unwrap();
    assert_eq!(
        checked,
        json!({
            "run_id": run_id, "through": record.head, "ended": true, "outcome": "completed", "error": null,
            "runs": [{ "thread_id": record.session_id, "run_id": run_id, "ending": "success", "message": null }],
            "findings": [], "left_out": [], "broken": null, "more": { "runs": 0, "findings": 0, "left_out": 0 },
            "events": { "read": events.len(), "delivered": events.len(), "reduced": events.len() },
        })
    );
}

#[tokio::test]
async fn the_findings_are_those_of_the_checker_over_the_recorded_view_and_name_the_events_by_id() {
    let server = Setup::new().agent("careless", Script(careless)).start().await;
    let run_id = server.create("careless").await;
    server.ended(&run_id).await;
    let recorded = view(&server, &run_id).await;
    let mut checker = Checker::new(CheckOptions { form: Some(Form::Sse), ..CheckOptions::default() });
    checker.push(recorded.as_bytes()).unwrap();
    let judgement = serde_json::to_value(checker.finish().unwrap()).unwrap();

    let checked = check(&server, &run_id).await;
    assert_eq!(rules(&checked), ["unprefixed-name", "patch-not-applied"]);
    let events: Vec<AguiEvent> = agui_events(&recorded);
    for (told, found) in checked["findings"].as_array().unwrap().iter().zip(judgement["findings"].as_array().unwrap()) {
        for member in ["rule", "severity", "message", "event", "path", "page", "expected", "found", "excerpt"] {
            assert_eq!(told[member], found[member], "{member}");
        }
        let event = told["event"].as_u64().unwrap() as usize;
        assert_eq!(told["id"], events[event].id, "{told}");
    }
    assert_eq!((&checked["outcome"], &checked["runs"]), (&judgement["outcome"], &judgement["runs"]));
}

#[tokio::test]
async fn of_a_run_that_goes_on_it_is_told_what_holds_so_far() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("stepped", driver).start().await;
    let run_id = server.create("stepped").await;
    steps.begin("Once upon");
    server.reached(&run_id, 4).await;
    let checked = check(&server, &run_id).await;
    assert_eq!((&checked["ended"], &checked["outcome"]), (&json!(false), &Value::Null), "{checked}");
    assert_eq!((&checked["findings"], &checked["runs"][0]["ending"]), (&json!([]), &json!("open")), "{checked}");
    assert!(checked["through"].as_u64().unwrap() >= 4, "{checked}");

    steps.complete();
    let record = server.ended(&run_id).await;
    let checked = check(&server, &run_id).await;
    assert_eq!((&checked["outcome"], &checked["through"]), (&json!("completed"), &json!(record.head)), "{checked}");
}

#[tokio::test]
async fn of_a_run_that_has_not_begun_nothing_is_wrong() {
    let (_steps, driver) = stepped();
    let server = Setup::new().agent("stepped", driver).start().await;
    let first = server.create("stepped").await;
    server.reached(&first, 2).await;
    // The same session: it waits for the first.
    let session = server.store.run(&first).await.unwrap().unwrap().session_id;
    let body = json!({ "agent_id": "stepped", "prompt": "next", "session_id": session });
    let second: Value = soon(server.post("/v2/runs", &body).send()).await.unwrap().json().await.unwrap();
    let checked = check(&server, second["run_id"].as_str().unwrap()).await;
    assert_eq!((&checked["through"], &checked["outcome"]), (&json!(0), &Value::Null), "{checked}");
    assert_eq!((&checked["findings"], &checked["runs"]), (&json!([]), &json!([])), "{checked}");
}

#[tokio::test]
async fn what_a_log_says_and_no_client_can_be_told_is_named_with_its_frame() {
    let server = Setup::new().start().await;
    let mut log = recorder("run_odd");
    let claimed = json!({ "type": "RUN_FINISHED", "threadId": "s", "runId": "run_odd" });
    let now = Timestamp::from_unix_millis(0);
    let opening = Opening { agui: claimed.as_object().cloned(), ..Opening::default() };
    let message = log.open_message(now, opening);
    log.end(now, message, Ending::completed());
    put(&server, "run_odd", completed(log)).await;
    let checked = check(&server, "run_odd").await;
    assert_eq!((&checked["outcome"], &checked["findings"]), (&json!("completed"), &json!([])), "{checked}");
    let left_out = checked["left_out"].as_array().unwrap();
    assert!(!left_out.is_empty(), "{checked}");
    assert_eq!(left_out[0]["seq"], 4, "{checked}");
    assert!(left_out[0]["message"].as_str().unwrap().contains("not told as it is there"), "{checked}");
}

#[tokio::test]
async fn a_view_that_breaks_off_is_judged_up_to_there() {
    let server = Setup::new().start().await;
    let mut bodies = completed(recorder("run_bad"));
    let lost = json!({
        "protocol": 2, "seq": 3, "run_id": "run_bad", "ts": "1970-01-01T00:00:00.000Z", "type": "text.delta",
        "segment_id": "seg_9", "data": { "text": "whose?" },
    });
    bodies[2] = lost.to_string().into();
    put(&server, "run_bad", bodies).await;
    let checked = check(&server, "run_bad").await;
    assert!(checked["broken"].as_str().unwrap().contains("frame 3 names segment `seg_9`"), "{checked}");
    assert_eq!((&checked["outcome"], rules(&checked)), (&json!("truncated"), vec!["truncated-stream"]), "{checked}");
    assert_eq!((&checked["events"]["read"], &checked["findings"][0]["id"]), (&json!(1), &Value::Null), "{checked}");
}

#[tokio::test]
async fn of_very_many_findings_the_first_are_told_and_the_others_counted() {
    let server = Setup::new().start().await;
    let mut log = recorder("run_many");
    for _ in 0..700 {
        log.state_delta(Timestamp::from_unix_millis(0), json!([{ "op": "remove", "path": "/nothing" }]));
    }
    put(&server, "run_many", completed(log)).await;
    let checked = check(&server, "run_many").await;
    assert_eq!((rules(&checked).len(), &checked["more"]["findings"]), (500, &json!(200)));
    assert_eq!((&checked["findings"][499]["id"], &checked["outcome"]), (&json!("502.0"), &json!("completed")));
}

#[tokio::test]
async fn whoever_leaves_takes_no_turn_from_the_others() {
    let server = Setup::new().start().await;
    let mut log = recorder("run_long");
    for n in 0..20_000 {
        log.custom(Timestamp::from_unix_millis(0), "example.step", json!(n));
    }
    put(&server, "run_long", completed(log)).await;
    // If each of these were checked to its end, nobody would wait for the one behind them.
    for _ in 0..200 {
        let mut line = Line::open(server.address).await;
        let request = b"GET /v2/runs/run_long/check HTTP/1.1\r\nHost: localhost\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut line, request).await.unwrap();
        line.lose(Loss::Reset).await;
    }
    let checked = check(&server, "run_long").await;
    assert_eq!((&checked["outcome"], &checked["events"]["read"]), (&json!("completed"), &json!(20_002)), "{checked}");
}

#[tokio::test]
async fn a_run_that_is_not_there_is_not_checked() {
    let server = Setup::new().start().await;
    let response = soon(server.get("/v2/runs/run_none/check").send()).await.unwrap();
    assert_eq!(problem(response).await["status"], 404);
}
