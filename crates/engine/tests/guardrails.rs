//! Guardrails look at what goes into an agent, what comes out and what tools are called with; they warn or stop the run.

#![allow(clippy::unwrap_used)]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::IntoResponse as _;
use axum::routing::post;
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, Opening, ToolOutput};
use runwire_engine::{Action, Agent, Exchange, GuardService, Guarded, Guardrail, Judge, RunWriter, Starting};
use runwire_frame::{Data, FrameType};
use serde_json::{Value, json};

use fixture::{Log, agent, bed, completed, input, request, retried};

fn pattern(on: Guarded, pattern: &str, action: Action) -> Guardrail {
    Guardrail { name: "secrets".to_owned(), on: vec![on], judge: Judge::Pattern(pattern.parse().unwrap()), action }
}

fn guarded(agent: Agent, rail: Guardrail) -> Agent {
    let mut agent = agent;
    agent.policy.guardrails = vec![rail];
    agent
}

/// Says these pieces, one after the other, as one message.
fn speaker(pieces: &'static [&'static str]) -> Agent {
    agent("speaker", move |_: Exchange, starting: Starting| async move {
        let writer = starting.begin(None);
        let message = writer.message(Opening::default()).await?;
        for piece in pieces {
            message.text(piece).await?;
        }
        message.end(Ending::completed()).await?;
        Ok::<_, Failure>(completed())
    })
}

async fn log_of(agent: Agent) -> Log {
    let id = agent.id.clone();
    let bed = bed([agent]);
    let started = bed.create(request(&id, input("t1", "r1"))).await.unwrap();
    bed.ended(&started.record.run_id).await
}

fn warnings(log: &Log) -> usize {
    let warned = |data: &Data| matches!(data, Data::Notice(notice) if notice.code == "guardrail_warned");
    log.frames.iter().filter(|frame| warned(&frame.data)).count()
}

fn text(log: &Log) -> String {
    log.texts().into_values().collect()
}

#[tokio::test]
async fn input_that_a_guardrail_stops_is_never_given_to_the_agent() {
    let executed = Arc::new(AtomicUsize::new(0));
    let counted = {
        let executed = executed.clone();
        agent("counted", move |_: Exchange, starting: Starting| {
            executed.fetch_add(1, Ordering::SeqCst);
            async move {
                starting.begin(None);
                Ok::<_, Failure>(completed())
            }
        })
    };
    // The fixture's user asks "How are you?".
    let log = log_of(guarded(counted.clone(), pattern(Guarded::Input, "(?i)HOW are", Action::Stop))).await;
    assert_eq!((log.ending(), log.failure_class()), ("failed", Some("GUARDRAIL_BLOCKED")));
    let (code, message, retryable) = log.error();
    assert_eq!((code, retryable), ("GUARDRAIL_BLOCKED", false));
    assert!(message.contains("`secrets`") && !message.contains("How are"), "{message}");
    assert_eq!(executed.load(Ordering::SeqCst), 0);

    let log = log_of(guarded(counted, pattern(Guarded::Input, "How are", Action::Warn))).await;
    assert_eq!((log.ending(), warnings(&log)), ("completed", 1));
    assert_eq!(executed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn output_that_a_guardrail_stops_is_not_seen_also_when_it_comes_in_pieces() {
    let secret = "sk-[0-9]{4}";
    for (pieces, seen) in
        [(&["The key is sk-1234."] as &[&str], ""), (&["The key ", "is sk-", "12", "34", ". Bye"], "The key is sk-12")]
    {
        let log = log_of(guarded(speaker(pieces), pattern(Guarded::Output, secret, Action::Stop))).await;
        assert_eq!((log.ending(), log.error().0), ("failed", "GUARDRAIL_BLOCKED"));
        assert_eq!(text(&log), seen);
    }
    let log =
        log_of(guarded(speaker(&["sk-1", "234", " and sk-5678"]), pattern(Guarded::Output, secret, Action::Warn)));
    let log = log.await;
    assert_eq!((log.ending(), text(&log).as_str()), ("completed", "sk-1234 and sk-5678"));
    assert_eq!(warnings(&log), 1, "once a message is enough");
}

#[tokio::test]
async fn a_call_that_a_guardrail_stops_is_not_executed() {
    async fn call(writer: &RunWriter, executed: &AtomicUsize) -> Result<ExchangeEnd, Failure> {
        let tool = writer.tool("c1", "delete", Opening::default()).await?;
        tool.arguments("{\"path\":\"/et").await?;
        tool.arguments("c/passwd\"}").await?;
        tool.arguments_complete().await?;
        executed.fetch_add(1, Ordering::SeqCst);
        tool.result(true, &ToolOutput::Text("gone".to_owned())).await?.end(Ending::completed()).await?;
        Ok(ExchangeEnd::Completed(Completion::default()))
    }
    for (action, ending, times) in [(Action::Stop, "failed", 0), (Action::Warn, "completed", 1)] {
        let executed = Arc::new(AtomicUsize::new(0));
        let caller = {
            let executed = executed.clone();
            agent("caller", move |_: Exchange, starting: Starting| {
                let executed = executed.clone();
                async move { call(&starting.begin(None), &executed).await }
            })
        };
        let log = log_of(guarded(caller, pattern(Guarded::ToolCall, "/etc/", action))).await;
        assert_eq!((log.ending(), executed.load(Ordering::SeqCst)), (ending, times));
        assert_eq!(log.types().contains(&FrameType::ToolResult), times == 1);
    }
}

/// A service that objects to `bad`, answers nonsense to `broken`, has no time for `busy`, and says what it was asked.
async fn service() -> (String, Arc<std::sync::Mutex<Vec<Value>>>) {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = asked.clone();
    let judge = move |Json(question): Json<Value>| async move {
        let text = question["text"].as_str().unwrap().to_owned();
        seen.lock().unwrap().push(question);
        if text.contains("busy") {
            return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "7")]).into_response();
        }
        if text.contains("broken") {
            return Json(json!("what?")).into_response();
        }
        Json(json!({ "allow": !text.contains("bad"), "message": "not nice" })).into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/judge", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/judge", post(judge))).await });
    (url, asked)
}

#[tokio::test]
async fn a_service_is_asked_about_whole_messages_and_what_it_cannot_judge_does_not_pass() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (url, asked) = service().await;
    let rail = |action| {
        let service = GuardService::new(&url, &[], Duration::from_secs(30)).unwrap();
        Guardrail { name: "nice".to_owned(), on: vec![Guarded::Output], judge: Judge::Service(service), action }
    };
    for (pieces, ending, says, retryable) in [
        (&["All ", "good"] as &[&str], "completed", "", false),
        (&["ba", "d"], "failed", "not nice", false),
        (&["broken"], "failed", "could not judge", true),
    ] {
        let log = log_of(guarded(speaker(pieces), rail(Action::Stop))).await;
        assert_eq!(log.ending(), ending);
        if ending == "failed" {
            let (code, message, again) = log.error();
            assert_eq!((code, again), ("GUARDRAIL_BLOCKED", retryable));
            assert!(message.contains(says), "{message}");
        }
    }
    let count = asked.lock().unwrap().len();
    // The run is not tried again before the service wants it to be, which is later than the policy waits.
    let log = log_of(retried(2, guarded(speaker(&["busy"]), rail(Action::Stop)))).await;
    let (_, message, again) = log.error();
    assert!(again && message.contains("503 Service Unavailable and asks to wait 7 s"), "{message}");
    assert!(log.dump().contains("only after 7s"), "{}", log.dump());
    assert_eq!(asked.lock().unwrap().len(), count + 1);
    asked.lock().unwrap().pop();
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked[0], json!({ "guardrail": "nice", "on": "output", "text": "All good" }));
    assert_eq!(asked.len(), 3, "once a message");
    let log = log_of(guarded(speaker(&["bad"]), rail(Action::Warn))).await;
    assert_eq!((log.ending(), warnings(&log)), ("completed", 1));
    // What it could not judge is done once more, and that attempt is not stopped because the one before it was.
    let log = log_of(retried(2, guarded(speaker(&["broken"]), rail(Action::Stop)))).await;
    let attempts = log.frames.iter().filter(|frame| matches!(frame.data, Data::RunStart(_))).count();
    assert_eq!((log.ending(), attempts), ("failed", 2), "{}", log.dump());
}
