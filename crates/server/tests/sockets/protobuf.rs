//! AG-UI in its binary binding: who gets it, what it carries, and what it does not have.

use std::time::Duration;

use reqwest::Response;
use runwire_agui::proto::{MEDIA_TYPE, ProtoDecoder, ProtoEvent};
use runwire_agui::{Consumer, ConsumerOptions, Event, RunAgentInput, StreamEnd};
use runwire_bridge::{ExchangeEnd, Failure};
use runwire_frame::ErrorCode;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, agui_events, problem, soon, stepped};

fn input(thread: &str, run: &str) -> Value {
    let message = json!({ "id": format!("{run}.user"), "role": "user", "content": "héllo wide world" });
    json!({ "threadId": thread, "runId": run, "protocolVersion": "1.0", "messages": [message], "tools": [] })
}

async fn post(server: &Server, agent: &str, input: &Value, accept: &str) -> Response {
    soon(server.post(&format!("/agui/{agent}"), input).header("accept", accept).send()).await.unwrap()
}

async fn get(server: &Server, path: &str, accept: &str) -> Response {
    soon(server.get(path).header("accept", accept).send()).await.unwrap()
}

fn content_type(response: &Response) -> &str {
    response.headers()["content-type"].to_str().unwrap()
}

fn run_id(response: &Response) -> String {
    response.headers()["runwire-run-id"].to_str().unwrap().to_owned()
}

/// The whole of a stream of frames.
async fn body(response: Response) -> Vec<u8> {
    assert_eq!(response.status(), 200);
    assert_eq!(content_type(&response), MEDIA_TYPE);
    soon(response.bytes()).await.unwrap().into()
}

/// Reads frames that have to be whole, and known.
fn events(body: &[u8]) -> Vec<Value> {
    let mut decoder = ProtoDecoder::new(1 << 20);
    let events = decoder.push(body).into_iter().map(|event| match event.unwrap() {
        ProtoEvent::Event(value) => value,
        unknown @ ProtoEvent::Unknown { .. } => panic!("{unknown:?}"),
    });
    let events = events.collect();
    assert!(!decoder.finish(), "the body ends between frames");
    events
}

/// What a consumer makes of a stream of frames, which has to conform without a warning.
fn consumed(body: &[u8], input: Option<&Value>) -> (Vec<Event>, StreamEnd) {
    let input = input.map(|input| RunAgentInput::decode_value(input.clone()).unwrap().0);
    let mut consumer = Consumer::new(ConsumerOptions { input });
    let mut delivered = Vec::new();
    for event in ProtoDecoder::new(1 << 20).push(body) {
        delivered.extend(consumer.push_proto(event.unwrap()).unwrap());
    }
    let end = consumer.finish();
    assert_eq!(consumer.take_warnings(), []);
    (delivered, end)
}

/// The events of a Server-Sent Events body as the binary binding says them: it cannot leave out a list of the input, and
/// has one form for a number.
fn said_in_protobuf(body: &str) -> Vec<Value> {
    let events = agui_events(body).into_iter().map(|event| {
        let mut event = event.json();
        if let Some(input) = event.get_mut("input").and_then(Value::as_object_mut) {
            for list in ["tools", "context", "resume"] {
                input.entry(list).or_insert_with(|| json!([]));
            }
        }
        whole_numbers_whole(&mut event);
        event
    });
    events.collect()
}

fn whole_numbers_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0) {
                *value = json!(float as i64);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(whole_numbers_whole),
        Value::Object(members) => members.values_mut().for_each(whole_numbers_whole),
        _ => {}
    }
}

#[tokio::test]
async fn a_run_is_the_same_events_in_both_bindings() {
    let server = Setup::new().start().await;
    let input = input("t", "r");
    let both = format!("text/event-stream, {MEDIA_TYPE}");
    let response = post(&server, "demo", &input, &both).await;
    assert_eq!(content_type(&response), MEDIA_TYPE, "exactly, without parameters");
    assert_eq!(response.headers()["cache-control"], "no-cache, no-transform");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert!(response.headers().get_all("vary").iter().any(|name| name == "accept"));
    let run_id = run_id(&response);
    let posted = body(response).await;
    let (delivered, end) = consumed(&posted, Some(&input));
    assert!(matches!(end, StreamEnd::Completed { .. }), "{end:?}");
    assert!(matches!(delivered.last(), Some(Event::RunFinished(_))));

    let repeated = post(&server, "demo", &input, "text/event-stream").await;
    assert_eq!(content_type(&repeated), "text/event-stream");
    assert!(repeated.headers().get_all("vary").iter().any(|name| name == "accept"));
    let sse = soon(repeated.text()).await.unwrap();
    assert_eq!(events(&posted), said_in_protobuf(&sse));
    assert!(events(&posted).len() > 20, "the demo has something to say");

    let path = format!("/v2/runs/{run_id}/agui");
    assert_eq!(soon(get(&server, &path, "text/event-stream").await.text()).await.unwrap(), sse);
    for accept in [MEDIA_TYPE, "application/*", &both] {
        assert_eq!(body(get(&server, &path, accept).await).await, posted, "{accept}");
    }
    assert_eq!(body(post(&server, "demo", &input, MEDIA_TYPE).await).await, posted, "re-attached, from the start");
    assert_eq!(server.json("/v2/runs").await["runs"].as_array().unwrap().len(), 1, "it ran once");
    let capabilities = server.json("/agui/demo/capabilities").await;
    assert_eq!(capabilities["transport"]["httpBinary"], true, "and the agent says that it can");
}

#[tokio::test]
async fn who_does_not_ask_for_protobuf_gets_server_sent_events() {
    let server = Setup::new().start().await;
    let refusal = format!("text/event-stream, {MEDIA_TYPE};q=0");
    let accepts = ["*/*", "text/event-stream", &refusal, "application/json"];
    for (n, accept) in accepts.into_iter().enumerate() {
        let response = post(&server, "demo", &input("t", &format!("r{n}")), accept).await;
        assert_eq!(content_type(&response), "text/event-stream", "{accept}");
        let path = format!("/v2/runs/{}/agui", run_id(&response));
        assert_eq!(content_type(&get(&server, &path, accept).await), "text/event-stream", "{accept}");
    }
}

#[tokio::test]
async fn a_client_from_before_1_0_gets_protobuf_only_by_its_name() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let mut old = input("t", "r");
    old.as_object_mut().unwrap().remove("protocolVersion");
    let wildcard = post(&server, "held", &old, "application/*").await;
    assert_eq!(content_type(&wildcard), "text/event-stream");
    // The same exchange once more: it re-attaches, in the other binding.
    let response = post(&server, "held", &old, MEDIA_TYPE).await;
    steps.end(Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }));
    let body = body(response).await;
    assert_eq!(events(&body).last().unwrap()["code"], "CANCELLED", "what such a client cannot take is told otherwise");
}

#[tokio::test]
async fn events_have_no_ids_so_a_request_with_a_cursor_is_answered_where_it_can_be() {
    let server = Setup::new().start().await;
    let asked = input("t", "r");
    let sse = post(&server, "demo", &asked, "text/event-stream").await;
    let path = format!("/v2/runs/{}/agui", run_id(&sse));
    let whole = agui_events(&soon(sse.text()).await.unwrap());
    let both = format!("{MEDIA_TYPE}, text/event-stream");

    let resume = async |accept: &str| {
        let request = server.post("/agui/demo", &asked).header("accept", accept).header("last-event-id", &whole[4].id);
        soon(request.send()).await.unwrap()
    };
    let resumed = resume(&both).await;
    assert_eq!(content_type(&resumed), "text/event-stream");
    assert_eq!(agui_events(&soon(resumed.text()).await.unwrap()), whole[5..]);

    let resumed = resume(MEDIA_TYPE).await;
    assert_eq!(content_type(&resumed), "text/event-stream", "the place to resume at exists in that binding alone");
    assert_eq!(agui_events(&soon(resumed.text()).await.unwrap()), whole[5..]);

    for accept in [&*both, MEDIA_TYPE] {
        let followed = get(&server, &format!("{path}?after={}", whole[4].id), accept).await;
        assert_eq!(content_type(&followed), "text/event-stream", "{accept}");
        assert_eq!(agui_events(&soon(followed.text()).await.unwrap()), whole[5..]);
    }
}

#[tokio::test]
async fn events_come_as_they_happen_with_nothing_between_them_and_however_long_it_takes() {
    let (steps, driver) = stepped();
    let server = Setup::new()
        .agent("held", driver)
        .options(|o| {
            o.keep_alive = Duration::from_millis(10);
            o.stream_max_age = Some(Duration::from_millis(50));
        })
        .start()
        .await;
    let asked = input("t", "r");
    let mut posted = post(&server, "held", &asked, MEDIA_TYPE).await;
    let mut followed = get(&server, &format!("/v2/runs/{}/agui", run_id(&posted)), MEDIA_TYPE).await;
    let mut bodies = [Vec::new(), Vec::new()];
    for said in ["one", "two"] {
        steps.say(said);
        for (response, body) in [&mut posted, &mut followed].into_iter().zip(&mut bodies) {
            while !String::from_utf8_lossy(body).contains(said) {
                body.extend_from_slice(&soon(response.chunk()).await.unwrap().expect("the stream goes on"));
            }
            let quiet = tokio::time::timeout(Duration::from_millis(200), response.chunk()).await;
            assert!(quiet.is_err(), "the binding has nothing to say in silence: {quiet:?}");
        }
    }
    steps.complete();
    for (response, mut body) in [posted, followed].into_iter().zip(bodies) {
        body.extend(soon(response.bytes()).await.unwrap());
        let (_, end) = consumed(&body, Some(&asked));
        assert!(matches!(end, StreamEnd::Completed { .. }), "{end:?}");
    }
}

#[tokio::test]
async fn a_failure_in_the_stream_is_an_event_like_any_other() {
    let (steps, driver) = stepped();
    let server = Setup::new().agent("held", driver).start().await;
    let asked = input("t", "r");
    let response = post(&server, "held", &asked, MEDIA_TYPE).await;
    steps.end(Err(Failure::new(ErrorCode::ModelError, "the model is out")));
    let (delivered, _) = consumed(&body(response).await, Some(&asked));
    let Some(Event::RunError(error)) = delivered.last() else { panic!("{delivered:?}") };
    assert_eq!((&*error.message, error.code.as_deref()), ("the model is out", Some("MODEL_ERROR")));
}

#[tokio::test]
async fn input_that_is_refused_is_refused_outside_the_stream() {
    let server = Setup::new().start().await;
    let refused = post(&server, "demo", &json!({ "threadId": "t" }), MEDIA_TYPE).await;
    assert_eq!(problem(refused).await["status"], 422);
    let unknown = post(&server, "nobody", &input("t", "r"), MEDIA_TYPE).await;
    assert_eq!(problem(unknown).await["status"], 404);
}

#[tokio::test]
async fn a_server_that_goes_ends_the_body_between_events_and_the_run_is_truncated() {
    let (steps, driver) = stepped();
    let mut server = Setup::new().agent("held", driver).start().await;
    let asked = input("t", "r");
    let mut response = post(&server, "held", &asked, MEDIA_TYPE).await;
    steps.say("before");
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("before") {
        read.extend_from_slice(&soon(response.chunk()).await.unwrap().expect("the stream goes on"));
    }
    let rest = tokio::spawn(async move { response.bytes().await.unwrap() });
    server.stop().await;
    read.extend(soon(rest).await.unwrap());
    events(&read);
    let (_, end) = consumed(&read, Some(&asked));
    assert!(matches!(end, StreamEnd::Truncated { .. }), "{end:?}");
}
