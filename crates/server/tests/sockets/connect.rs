//! `POST /agui/{agent}/connect`: a thread as it is, on a stream that conforms whatever became of its runs.

use reqwest::Response;
use runwire_agui::{Event, RunFinishedOutcome};
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, LogState, Opening, Recorder, Suspension};
use runwire_frame::{ErrorCode, RunStart, SuspendKind, Timestamp};
use runwire_store::{Append, NewFrame, NewRun, RunUpdate};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

use crate::harness::{AguiEvent, Server, Setup, agui_events, consumed, held, ids, problem, soon, stepped};

fn input(thread: &str, run: &str, messages: Value) -> Value {
    json!({ "threadId": thread, "runId": run, "protocolVersion": "1.0", "messages": messages })
}

fn user(id: &str) -> Value {
    json!({ "id": id, "role": "user", "content": format!("{id}, please") })
}

async fn post(server: &Server, path: &str, input: &Value) -> Response {
    soon(server.post(path, input).header("accept", "text/event-stream").send()).await.unwrap()
}

/// What a page that mounts sends.
fn mounting(thread: &str) -> Value {
    input(thread, "mount", json!([]))
}

async fn connect_at(server: &Server, agent: &str, thread: &str, at: Option<&str>) -> Response {
    let mut request = server.post(&format!("/agui/{agent}/connect"), &mounting(thread));
    request = request.header("accept", "text/event-stream");
    if let Some(at) = at {
        request = request.header("last-event-id", at);
    }
    soon(request.send()).await.unwrap()
}

async fn connect(server: &Server, agent: &str, thread: &str) -> Response {
    connect_at(server, agent, thread, None).await
}

async fn events(response: Response) -> Vec<AguiEvent> {
    assert_eq!(response.status(), 200);
    agui_events(&soon(response.text()).await.unwrap())
}

fn kinds(events: &[AguiEvent]) -> Vec<String> {
    events.iter().map(AguiEvent::kind).collect()
}

/// Reads a stream that goes on up to where `what` was said.
async fn until(response: &mut Response, what: &str) -> String {
    let mut body = String::new();
    while !body.contains(what) || !body.ends_with("\n\n") {
        let chunk = soon(response.chunk()).await.unwrap().expect("the stream goes on");
        body += std::str::from_utf8(&chunk).unwrap();
    }
    body
}

/// One turn of a conversation as a client takes it that holds everything, and what it holds then.
async fn turn(server: &Server, agent: &str, thread: &str, run: &str, held_before: &Value) -> Value {
    let mut messages = held_before.as_array().unwrap().clone();
    messages.push(user(&format!("ask.{run}")));
    let asked = input(thread, run, Value::Array(messages));
    let told = events(post(server, &format!("/agui/{agent}"), &asked).await).await;
    held(&consumed(&told, Some(&asked))).0
}

fn contents(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().filter_map(|message| message["content"].as_str()).collect()
}

#[tokio::test]
async fn a_thread_that_is_not_there_is_an_empty_run() {
    let server = Setup::new().start().await;
    let asked = mounting("nothing");
    let told = events(post(&server, "/agui/demo/connect", &asked).await).await;
    assert_eq!(kinds(&told), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!(
        told[0].json(),
        json!({ "type": "RUN_STARTED", "threadId": "nothing", "runId": "mount",
                                       "protocolVersion": "1.0" })
    );
    consumed(&told, Some(&asked));
    assert_eq!(server.json("/v2/runs").await["runs"], json!([]), "to look is not to run");
}

#[tokio::test]
async fn a_thread_at_rest_is_restated_as_the_client_held_it() {
    let server = Setup::new().start().await;
    let first = turn(&server, "demo", "t", "r1", &json!([])).await;
    let second = turn(&server, "demo", "t", "r2", &first).await;
    for _ in 0..2 {
        let told = events(connect(&server, "demo", "t").await).await;
        assert_eq!(kinds(&told), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]);
        let delivered = consumed(&told, Some(&mounting("t")));
        let (messages, state) = held(&delivered);
        assert_eq!(messages, second, "and each message once");
        let session = server.json("/v2/sessions/t").await;
        assert_eq!((&messages, &state), (&session["messages"], &session["state"]));
        assert_eq!(state["phase"], "done");
    }
    // What is kept for the next reader is not what it is told when there is more.
    let third = turn(&server, "demo", "t", "r3", &second).await;
    let told = events(connect(&server, "demo", "t").await).await;
    assert_eq!(held(&consumed(&told, None)).0, third);
}

#[tokio::test]
async fn turns_that_were_told_only_what_is_new_make_one_thread() {
    let server = Setup::new().start().await;
    for n in 0..3 {
        let new = json!({ "agent_id": "demo", "prompt": format!("Question {n}"), "session_id": "t" });
        let record: Value = soon(server.post("/v2/runs", &new).send()).await.unwrap().json().await.unwrap();
        server.ended(record["run_id"].as_str().unwrap()).await;
    }
    let (messages, _) = held(&consumed(&events(connect(&server, "demo", "t").await).await, None));
    let asked: Vec<&str> = contents(&messages).into_iter().filter(|text| text.starts_with("Question")).collect();
    assert_eq!(asked, ["Question 0", "Question 1", "Question 2"]);
}

#[tokio::test]
async fn a_live_run_is_told_from_its_start_behind_what_came_before_it() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let first = turn(&server, "demo", "t", "r1", &json!([])).await;
    let mut asked = first.as_array().unwrap().clone();
    asked.push(user("more"));
    let asked = input("t", "r2", Value::Array(asked));
    let own = post(&server, "/agui/held", &asked).await;
    let run_id = own.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    steps.text("said before");
    server.reached(&run_id, 5).await;

    let mut joined = connect(&server, "held", "t").await;
    assert_eq!(joined.headers()["runwire-run-id"], *run_id);
    let mut body = until(&mut joined, "said before").await;
    steps.text("said after");
    steps.complete();
    body += &soon(joined.text()).await.unwrap();
    let told = agui_events(&body);
    let own = events(own).await;
    let restated = ["MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"];
    assert_eq!(kinds(&told)[1..3], restated);
    let live: Vec<Value> = told.iter().filter(|e| !restated.contains(&&*e.kind())).map(AguiEvent::json).collect();
    let mut expected: Vec<Value> = own.iter().map(AguiEvent::json).collect();
    // What its input says is in the restatement, where it stands behind what came before it.
    expected[0].as_object_mut().unwrap().remove("input");
    assert_eq!(live, expected, "the run's own events, all of them, once");

    let (messages, _) = held(&consumed(&told, None));
    let (own, _) = held(&consumed(&own, Some(&asked)));
    assert_eq!(messages, own);
    assert_eq!(contents(&messages).iter().filter(|text| text.starts_with("said")).count(), 2);
    // The same again, now that it is over.
    let (again, _) = held(&consumed(&events(connect(&server, "held", "t").await).await, Some(&mounting("t"))));
    assert_eq!(again, messages);
}

/// Reads the whole and then, from behind each of its events, the rest, which has to be the rest.
async fn resumes_everywhere(server: &Server, agent: &str, told: &[AguiEvent]) {
    let all: std::collections::HashSet<&str> = ids(told).into_iter().collect();
    assert_eq!(all.len(), told.len(), "no id twice");
    for (n, event) in told.iter().enumerate() {
        let rest = events(connect_at(server, agent, "t", Some(&event.id)).await).await;
        assert_eq!(rest, told[n + 1..], "after {}", event.id);
    }
}

#[tokio::test]
async fn a_connection_to_a_thread_resumes_at_every_event() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    turn(&server, "demo", "t", "r1", &json!([])).await;
    let told = events(connect(&server, "demo", "t").await).await;
    resumes_everywhere(&server, "demo", &told).await;

    let own = post(&server, "/agui/held", &input("t", "r2", json!([user("more")]))).await;
    let run_id = own.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    server.reached(&run_id, 2).await;
    let joined = connect(&server, "held", "t").await;
    steps.text("one");
    steps.text("two");
    steps.complete();
    let told = events(joined).await;
    consumed(&told, None);
    // The run has ended meanwhile, and is told all the same to whoever was told of its beginning.
    resumes_everywhere(&server, "held", &told).await;
}

#[tokio::test]
async fn a_cursor_that_is_none_or_of_another_thread_is_refused() {
    let server = Setup::new().start().await;
    turn(&server, "demo", "t", "r1", &json!([])).await;
    turn(&server, "demo", "other", "r1", &json!([])).await;
    let runs = server.json("/v2/runs?session_id=other").await;
    let run_id = runs["runs"][0]["run_id"].as_str().unwrap();
    for (cursor, status) in [
        ("17.0".to_owned(), 400),
        ("thread/9".to_owned(), 400),
        ("thread/0~".to_owned(), 400),
        (format!("{run_id}/1.0"), 416),
        (format!("thread/0~{run_id}/0"), 416),
        ("run_nobody/1.0".to_owned(), 416),
    ] {
        let refused = problem(connect_at(&server, "demo", "t", Some(&cursor)).await).await;
        assert_eq!(refused["status"], status, "{cursor}: {refused}");
    }
    let past = problem(connect_at(&server, "demo", "other", Some(&format!("{run_id}/99999.0"))).await).await;
    assert_eq!((&past["status"], past["head"].as_u64().is_some()), (&json!(416), true), "G7");
}

fn suspension(id: &str) -> ExchangeEnd {
    let contract = json!({ "interrupts": [{ "id": id, "reason": "confirmation", "message": "Really?" }] });
    ExchangeEnd::Suspended(Suspension {
        kind: SuspendKind::Approval,
        contract: contract.as_object().unwrap().clone(),
        prompt: None,
        deadline: None,
        usage: Vec::new(),
        agui: None,
    })
}

fn asks(event: &AguiEvent) -> Vec<String> {
    let said = event.json();
    let interrupts = said["outcome"]["interrupts"].as_array();
    interrupts.into_iter().flatten().map(|i| i["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_pending_interrupt_comes_back_as_pending_until_it_is_answered() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let response = post(&server, "/agui/held", &input("t", "r1", json!([user("one")]))).await;
    let run_id = response.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    steps.begin("Shall I");
    steps.end(Ok(suspension("i1")));
    events(response).await;
    server.until(&run_id, |record| record.status == "suspended").await;

    for _ in 0..2 {
        let told = events(connect(&server, "held", "t").await).await;
        assert_eq!(kinds(&told), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
        let delivered = consumed(&told, Some(&mounting("t")));
        let Some(Event::RunFinished(finished)) = delivered.last() else { panic!("{delivered:?}") };
        assert!(matches!(&finished.outcome, Some(RunFinishedOutcome::Interrupt { .. })));
        assert_eq!(asks(&told[2]), ["i1"]);
    }
    // An answer to another agent would not go to this run.
    let told = events(connect(&server, "demo", "t").await).await;
    assert_eq!(told.last().unwrap().json()["outcome"], Value::Null);
    let session = server.json("/v2/sessions/t").await;
    assert_eq!(session["waiting"][0]["run_id"], run_id);
    assert_eq!(session["waiting"][0]["interrupts"][0]["id"], "i1");

    let mut answer = input("t", "r2", json!([user("one")]));
    answer["resume"] = json!([{ "interruptId": "i1", "status": "resolved", "payload": true }]);
    let own = post(&server, "/agui/held", &answer).await;
    steps.text("Done");
    let mut joined = connect(&server, "held", "t").await;
    let mut body = until(&mut joined, "Done").await;
    steps.complete();
    body += &soon(joined.text()).await.unwrap();
    let told = agui_events(&body);
    assert_eq!(told[0].json()["runId"], "r2", "the exchange that goes on, from its own start");
    let (messages, _) = held(&consumed(&told, None));
    assert_eq!(contents(&messages), ["one, please", "Shall I", "Done"]);
    events(own).await;
    let told = events(connect(&server, "held", "t").await).await;
    assert_eq!(asks(told.last().unwrap()), [""; 0], "it is answered");
    assert_eq!(server.json("/v2/sessions/t").await["waiting"], json!([]));
}

#[tokio::test]
async fn a_failed_and_a_cancelled_run_take_nothing_from_a_thread() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let mut held_so_far = turn(&server, "demo", "t", "r1", &json!([])).await;
    for (run, end) in [
        ("r2", Err(Failure::new(ErrorCode::ModelError, "the model failed"))),
        ("r3", Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None })),
    ] {
        steps.text(format!("whole in {run}"));
        steps.begin(format!("cut in {run}"));
        steps.end(end);
        held_so_far = turn(&server, "held", "t", run, &held_so_far).await;
        let told = events(connect(&server, "held", "t").await).await;
        let (messages, _) = held(&consumed(&told, Some(&mounting("t"))));
        assert_eq!(messages, held_so_far, "what was delivered stays delivered: {run}");
        assert!(contents(&messages).contains(&&*format!("cut in {run}")));
    }
    let after = turn(&server, "demo", "t", "r4", &held_so_far).await;
    let told = events(connect(&server, "held", "t").await).await;
    assert_eq!(held(&consumed(&told, Some(&mounting("t")))).0, after);
}

#[tokio::test]
async fn a_run_whose_log_is_damaged_takes_nothing_from_the_others() {
    let server = Setup::new().start().await;
    let first = turn(&server, "demo", "t", "r1", &json!([])).await;
    let second = turn(&server, "demo", "t", "r2", &first).await;
    let runs = server.json("/v2/runs?session_id=t").await;
    let run_id = runs["runs"][1]["run_id"].as_str().unwrap().to_owned();
    let file = Connection::open(server.file()).unwrap();
    let gone = file
        .execute("DELETE FROM frames WHERE run = (SELECT id FROM runs WHERE run_id = ?1) AND seq = 5", [&run_id])
        .unwrap();
    assert_eq!(gone, 1);
    let told = events(connect(&server, "demo", "t").await).await;
    let (messages, _) = held(&consumed(&told, Some(&mounting("t"))));
    // The client sent what it held of the first run with the second, so even that is not lost.
    assert_eq!(messages, second);
}

#[tokio::test]
async fn runs_that_go_on_side_by_side_are_told_one_after_the_other_and_what_waits_last() {
    let (one, first) = stepped();
    let (two, second) = stepped();
    let server = Setup::new().agent("one", first).agent("two", second).start().await;
    let own_one = post(&server, "/agui/one", &input("t", "r1", json!([user("a")]))).await;
    one.text("from one");
    let own_two = post(&server, "/agui/two", &input("t", "r2", json!([user("b")]))).await;
    two.text("from two");
    let run_of = |r: &Response| r.headers()["runwire-run-id"].to_str().unwrap().to_owned();
    let (id_one, id_two) = (run_of(&own_one), run_of(&own_two));
    server.reached(&id_one, 5).await;
    server.reached(&id_two, 5).await;
    let joined = connect(&server, "one", "t").await;
    // The second is over before the first, which is told first.
    two.complete();
    server.ended(&id_two).await;
    one.end(Ok(suspension("i1")));
    server.until(&id_one, |record| record.status == "suspended").await;
    let told = events(joined).await;
    let delivered = consumed(&told, Some(&mounting("t")));
    let started: Vec<&str> = delivered
        .iter()
        .filter_map(|event| match event {
            Event::RunStarted(started) => Some(started.run_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(started, ["r1", "r2", "mount"]);
    assert_eq!(asks(told.last().unwrap()), ["i1"], "what follows a question takes it back, so it is asked again");
    let (messages, _) = held(&delivered);
    assert_eq!(contents(&messages).iter().filter(|text| text.starts_with("from")).count(), 2);
    resumes_everywhere(&server, "one", &told).await;
}

#[tokio::test]
async fn a_run_that_has_not_begun_does_not_keep_the_thread_from_its_reader() {
    let server = Setup::new().start().await;
    let first = turn(&server, "demo", "t", "r1", &json!([])).await;
    // Created, and not begun: as one is that waits for its turn.
    let waits = |run_id: &str| NewRun {
        run_id: run_id.into(),
        agent_id: "demo".into(),
        session_id: "t".into(),
        exchange_id: "r2".into(),
        input_digest: String::new(),
        lane: "default".into(),
        status: "queued".into(),
        created_at: i64::MAX,
        principal: None,
        trigger_kind: "api".into(),
        agent_revision_id: None,
        parent_run_id: None,
        metadata: Value::Null,
        input: Value::Null,
    };
    server.store.create_run(waits("run_waits")).await.unwrap();
    let mut joined = connect(&server, "demo", "t").await;
    let mut body = until(&mut joined, "RUN_FINISHED").await;
    assert_eq!(held(&consumed(&agui_events(&body), Some(&mounting("t")))).0, first);

    let log = attempts("run_waits", "r2");
    let mut appender = server.store.take_ownership("run_waits").await.unwrap();
    appender.enqueue(log).unwrap();
    appender.progress().flush().await.unwrap();
    body += &soon(joined.text()).await.unwrap();
    let told = agui_events(&body);
    // Behind the run that was asked for, which tells what is known, come those that go on: nobody asked for them.
    let (messages, _) = held(&consumed(&told, None));
    // An attempt that was abandoned is not part of the thread, and takes nothing of it along: neither live nor later.
    let texts = contents(&messages);
    assert!(!texts.contains(&"abandoned") && texts.contains(&"kept"), "{texts:?}");
    assert_eq!(messages.as_array().unwrap()[..first.as_array().unwrap().len()], first.as_array().unwrap()[..]);
    let later = events(connect(&server, "demo", "t").await).await;
    assert_eq!(held(&consumed(&later, Some(&mounting("t")))).0, messages);
    resumes_everywhere(&server, "demo", &told).await;
}

/// The log of a run of two attempts, whose input says only what is new.
fn attempts(run_id: &str, exchange: &str) -> Append {
    let now = Timestamp::from_unix_millis(0);
    let agui = json!({ "runId": exchange, "input": input("t", exchange, json!([user("again")])) });
    let mut start = RunStart {
        agent_id: "demo".into(),
        agent_revision_id: None,
        session_id: Some("t".into()),
        lane: None,
        trigger_kind: None,
        attempt: 1,
        extra: Map::from_iter([("agui".to_owned(), agui)]),
    };
    let mut recorder = Recorder::start(LogState::new(run_id), now, start.clone());
    let message = recorder.open_message(now, Opening::default());
    recorder.text(now, &message, "abandoned", None);
    let (mut recorded, state) = recorder.retry(now, Failure::new(ErrorCode::ModelError, "once"));
    start.attempt = 2;
    let mut recorder = Recorder::start(state, now, start);
    let message = recorder.open_message(now, Opening::default());
    recorder.text(now, &message, "kept", None);
    recorder.end(now, message, Ending::completed());
    let rest = recorder.complete(now, Completion::default());
    recorded.frames.extend(rest.frames);
    let frames = recorded.frames.iter().map(|frame| NewFrame { seq: frame.seq, body: frame.encode() });
    let update = RunUpdate { status: Some("completed".into()), ended_at: Some(0), ..RunUpdate::default() };
    Append { frames: frames.collect(), update: Some(update), payloads: Vec::new() }
}

#[tokio::test]
async fn somebody_elses_thread_cannot_be_told_from_one_that_is_not_there() {
    let server = Setup::new().token("alice").token("bob").token_for_all("ops").start().await;
    let new = json!({ "agent_id": "demo", "prompt": "Hello", "session_id": "t" });
    let created = soon(server.post("/v2/runs", &new).bearer_auth("alice").send()).await.unwrap();
    let record: Value = created.json().await.unwrap();
    server.ended(record["run_id"].as_str().unwrap()).await;
    let ask = async |token: &str, thread: &str| {
        let request = server.post("/agui/demo/connect", &mounting(thread)).bearer_auth(token);
        soon(soon(request.send()).await.unwrap().text()).await.unwrap()
    };
    let elsewhere = ask("bob", "u").await;
    assert_eq!(ask("bob", "t").await, elsewhere.replace("\"u\"", "\"t\""));
    assert_eq!(kinds(&agui_events(&ask("alice", "t").await)).len(), 4);
    assert_eq!(ask("ops", "t").await, ask("alice", "t").await);
}

#[tokio::test]
async fn what_is_no_connect_is_refused() {
    let server = Setup::new().start().await;
    for (path, body, status) in [
        ("/agui/nobody/connect", mounting("t"), 404),
        ("/agui/demo/connect", json!({ "threadId": "", "runId": "r", "messages": [] }), 422),
        ("/agui/demo/connect", json!({ "threadId": "t", "runId": "", "messages": [] }), 422),
        ("/agui/demo/connect", json!({ "threadId": "t", "messages": [] }), 422),
        ("/agui/demo/connect", json!([]), 422),
    ] {
        assert_eq!(problem(post(&server, path, &body).await).await["status"], status, "{body}");
    }
    let request = server.http.post(server.url("/agui/demo/connect")).body(mounting("t").to_string());
    assert_eq!(problem(soon(request.send()).await.unwrap()).await["status"], 415);
}

#[tokio::test]
async fn a_thread_is_told_over_http_2_and_in_protobuf_too() {
    let server = Setup::new().start().await;
    turn(&server, "demo", "t", "r1", &json!([])).await;
    let told = soon(connect(&server, "demo", "t").await.text()).await.unwrap();
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let request = client.post(server.url("/agui/demo/connect")).json(&mounting("t"));
    let second = soon(request.send()).await.unwrap();
    assert_eq!(second.version(), reqwest::Version::HTTP_2);
    assert_eq!(soon(second.text()).await.unwrap(), told);

    let media = runwire_agui::proto::MEDIA_TYPE;
    let request = server.post("/agui/demo/connect", &mounting("t")).header("accept", media);
    let binary = soon(request.send()).await.unwrap();
    assert_eq!(binary.headers()["content-type"], media);
    let body = soon(binary.bytes()).await.unwrap();
    let mut frames = 0;
    let mut rest = &body[..];
    while let Some((length, more)) = rest.split_first_chunk::<4>() {
        rest = &more[u32::from_be_bytes(*length) as usize..];
        frames += 1;
    }
    assert_eq!(frames, agui_events(&told).len());
}
