//! Upstream agents that cannot be reached, refuse, fall silent or break the connection; and a stop from this side.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::future::join_all;
use runwire_engine::HttpSetupError;
use runwire_engine::drivers::{AguiDriver, AguiOptions};
use runwire_frame::{Data, SegmentStatus};
use serde_json::json;

use crate::fixture::{bed, driven_by, patiently, retried_after};
use crate::server::{Answer, Server, Step, lines};
use crate::{
    RUN, THREAD, ask, assert_channel_error, front, front_with, impatient, log_of, run_finished, run_started, underway,
    with,
};

#[tokio::test]
async fn a_refusal_is_told_with_its_status_and_what_the_agent_said() {
    for (status, code, retryable) in [
        (400, "CHANNEL_ERROR", false),
        (404, "CHANNEL_ERROR", false),
        (500, "CHANNEL_ERROR", false),
        (502, "CHANNEL_ERROR", true),
        (503, "CHANNEL_ERROR", true),
        (504, "CHANNEL_ERROR", true),
        (429, "RATE_LIMITED", true),
    ] {
        let log = log_of(Answer::refusal(status, "{\"detail\":\"not today\"}")).await;
        let (found, message, may_retry) = log.error();
        assert_eq!((log.ending(), found, may_retry), ("failed", code, retryable), "{status}");
        let reason = StatusCode::from_u16(status).unwrap().to_string();
        assert!(message.contains(&reason) && message.contains("{\"detail\":\"not today\"}"), "{message}");
        assert_eq!(log.event_types(), ["RUN_STARTED", "RUN_ERROR"]);
    }
}

#[tokio::test]
async fn an_agent_that_asks_to_be_left_alone_for_longer_than_the_longest_pause_is_asked_once() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (status, code) in [(429, "RATE_LIMITED"), (503, "CHANNEL_ERROR")] {
        let busy = Answer { retry_after: Some("7200"), ..Answer::refusal(status, "busy") };
        let server = Server::start(move |_, _| busy.clone()).await;
        let driver = AguiDriver::new(AguiOptions::new(server.url())).unwrap();
        let bed = bed([retried_after(Duration::from_secs(60), 3, driven_by("upstream", driver))]);
        let log = bed.ended(&ask(&bed).await).await;
        let (found, message, retryable) = log.error();
        assert_eq!((log.ending(), found, retryable), ("failed", code, true), "later it may well succeed");
        assert!(message.contains("and asks to wait 7200 s: busy"), "{message}");
        let Some(Data::RunEnd(end)) = log.frames.last().map(|frame| frame.data.clone()) else { panic!("it has ended") };
        let detail = end.failure_detail.unwrap();
        assert!(detail.contains("only after 7200s") && detail.contains("`max_backoff`) is 60s"), "{detail}");
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn the_body_of_a_refusal_is_repeated_only_at_its_beginning() {
    let log = log_of(Answer::refusal(500, &"é".repeat(100_000))).await;
    let (_, message, _) = log.error();
    assert!(message.len() < 3000, "{} bytes", message.len());
    // One that never ends does not hold the run up either.
    let endless = Answer { status: 500, ..Answer::steps(vec![Step::Bytes(vec![b'x'; 2000]), Step::Hang]) };
    assert_eq!(log_of(endless).await.ending(), "failed");
}

#[tokio::test]
async fn another_content_type_is_refused_by_name() {
    for content_type in [Some("application/json"), Some("text/html; charset=utf-8"), None] {
        let answer = Answer { content_type, ..Answer::events(&with(underway(), [run_finished()])) };
        let log = log_of(answer).await;
        assert_channel_error(&log, "", &[content_type.unwrap_or("none"), "text/event-stream"]);
    }
    for content_type in ["text/event-stream; charset=utf-8", "Text/Event-Stream"] {
        let answer = Answer { content_type: Some(content_type), ..Answer::events(&with(underway(), [run_finished()])) };
        assert_eq!(log_of(answer).await.ending(), "completed", "{content_type}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_because_it_would_carry_the_conversation_elsewhere() {
    let elsewhere = Server::start(|_, _| Answer::events(&with(underway(), [run_finished()]))).await;
    let target = elsewhere.url();
    let server = Server::start(move |_, _| Answer { location: Some(target.clone()), ..Answer::refusal(307, "") }).await;
    let bed = front(server.url());
    let log = bed.ended(&ask(&bed).await).await;
    assert_channel_error(&log, "", &["307"]);
    assert_eq!(elsewhere.seen().len(), 0);
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_told_by_its_address_without_what_is_secret_in_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let bed = front(format!("http://ann:hush@{address}/agent?key=hush"));
    let log = bed.ended(&ask(&bed).await).await;
    assert_channel_error(&log, "", &["cannot be reached", &format!("http://{address}/agent")]);
    assert!(!log.dump().contains("hush"), "{}", log.dump());
    assert!(log.error().2, "it may be there later");
    let detail = bed.record(&log.run_id).await.failure.unwrap();
    assert!(!detail.to_string().contains("hush"), "{detail}");
}

#[tokio::test]
async fn a_connection_that_breaks_fails_the_run_and_keeps_what_came_before() {
    for cut in ["", "data: {\"type\":\"TEXT_MES", "data: {\"type\":\"RUN_FINISHED\"}\n"] {
        let sent = [lines(&underway(), "\n"), cut.as_bytes().to_vec()].concat();
        let log = log_of(Answer::steps(vec![Step::Bytes(sent), Step::Reset])).await;
        assert_channel_error(&log, "Kept.", &["broke the connection"]);
        assert!(!log.error().2, "what the agent did before would be done twice");
    }
}

#[tokio::test]
async fn the_query_of_the_agents_address_is_told_to_nobody_however_its_connection_breaks() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begun = Server::start(|_, _| Answer::events_then(&underway(), Step::Reset)).await;
    let empty = Server::start(|_, _| Answer::steps(vec![Step::Reset])).await;
    let silent = Server::start(|_, _| Answer::events_then(&underway(), Step::Hang)).await;
    let refused = Server::start(|_, _| Answer::refusal(500, "")).await;
    let other = Server::start(|_, _| Answer { content_type: None, ..Answer::refusal(200, "") }).await;
    let address = |server: &Server| server.address;
    for address in [gone, address(&begun), address(&empty), address(&silent), address(&refused), address(&other)] {
        let bed = front_with(impatient(format!("http://ann:hush@{address}/agent?key=hush")));
        let log = bed.ended(&ask(&bed).await).await;
        assert_eq!(log.ending(), "failed");
        assert!(!log.dump().contains("hush"), "{}", log.dump());
        let record = serde_json::to_string(&bed.record(&log.run_id).await).unwrap();
        assert!(!record.contains("hush"), "{record}");
        assert!(log.error().1.contains(&format!("http://{address}/agent")), "who it was is told: {}", log.error().1);
    }
    assert_eq!(begun.seen()[0].uri, "/agent?key=hush", "the agent gets it");
}

#[tokio::test]
async fn silence_fails_the_run_as_a_timeout_before_the_answer_and_in_it() {
    let silent = [
        (Answer { after: Duration::from_secs(50), ..Answer::events(&underway()) }, ""),
        (Answer::steps(vec![Step::Hang]), ""),
        (Answer::events_then(&[run_started()], Step::Hang), ""),
        (Answer::events_then(&underway(), Step::Hang), "Kept."),
    ];
    let checks = silent.map(async |(answer, kept)| {
        let server = Server::start(move |_, _| answer.clone()).await;
        let bed = front_with(impatient(server.url()));
        let log = bed.ended(&ask(&bed).await).await;
        let (code, message, retryable) = log.error();
        assert_eq!((log.ending(), code, retryable), ("failed", "TIMEOUT", false), "{message}");
        assert!(message.contains("silent"), "{message}");
        assert_eq!(log.text(), kept);
    });
    // Each of them waits.
    join_all(checks).await;
}

#[tokio::test]
async fn comments_keep_a_quiet_stream_alive() {
    let mut steps = vec![Step::Bytes(lines(&underway(), "\n"))];
    // Silent for longer than it may be in all, and never by itself for nearly so long, on however busy a machine.
    for _ in 0..12 {
        steps.extend([Step::Wait(Duration::from_millis(200)), Step::Bytes(b": still here\n\n".to_vec())]);
    }
    steps.push(Step::Bytes(lines(&[run_finished()], "\n")));
    let server = Server::start(move |_, _| Answer::steps(steps.clone())).await;
    let bed = front_with(AguiOptions { idle_timeout: Duration::from_secs(2), ..AguiOptions::new(server.url()) });
    assert_eq!(bed.ended(&ask(&bed).await).await.ending(), "completed");
}

#[tokio::test]
async fn a_stop_closes_the_upstream_connection_and_the_run_ends_as_cancelled() {
    let open = json!({ "type": "TEXT_MESSAGE_START", "messageId": "m2" });
    let more = json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": " And" });
    let events = with(underway(), [open, more]);
    let mut server = Server::start(move |_, _| Answer::events_then(&events, Step::Hang)).await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    bed.shows(&run_id, |frame| matches!(&frame.data, Data::TextDelta(delta) if delta.text == " And")).await;
    bed.engine.cancel(&run_id).await.unwrap();
    patiently(server.closed_early()).await;
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.text().as_str()), ("cancelled", "Kept. And"));
    assert!(!log.has_error(), "a stop is no failure");
    assert_eq!(log.last_event()["outcome"]["type"], "cancelled");
    assert_eq!(log.segment_ends(), [SegmentStatus::Completed, SegmentStatus::Cancelled]);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_stop_before_the_agent_has_answered_ends_the_run_as_cancelled_too() {
    let server = Server::start(|_, _| Answer { after: Duration::from_secs(50), ..Answer::events(&underway()) }).await;
    let bed = front(server.url());
    let run_id = ask(&bed).await;
    patiently(async {
        while server.seen().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "cancelled");
    assert_eq!(log.event_types(), ["RUN_STARTED", "RUN_FINISHED"]);
}

#[test]
fn an_address_or_a_header_that_cannot_be_used_is_refused_at_start() {
    for url in ["", "localhost:8000", "ftp://localhost/", "file:///etc/hosts"] {
        let refused = AguiDriver::new(AguiOptions::new(url)).err();
        assert!(matches!(refused, Some(HttpSetupError::Url { .. })), "{url}: {refused:?}");
    }
    for (name, value) in [("no spaces", "x"), ("X-Ok", "line\nbreak")] {
        let mut options = AguiOptions::new("http://127.0.0.1:1/");
        options.headers = vec![(name.to_owned(), value.to_owned())];
        let refused = AguiDriver::new(options).err();
        assert!(matches!(refused, Some(HttpSetupError::Header { .. })), "{name}: {refused:?}");
    }
}

#[tokio::test]
async fn what_an_idempotent_agent_fails_with_underway_may_be_tried_again_if_it_may_pass() {
    let error = |code: &str| json!({ "type": "RUN_ERROR", "message": "no", "code": code });
    for (answer, code, retryable) in [
        (Answer::refusal(500, ""), "CHANNEL_ERROR", true),
        (Answer::refusal(400, ""), "CHANNEL_ERROR", false),
        (Answer::events_then(&underway(), Step::Reset), "CHANNEL_ERROR", true),
        (Answer::events_then(&underway(), Step::Hang), "TIMEOUT", true),
        (Answer::events(&underway()), "CHANNEL_ERROR", true),
        (Answer::events(&with(underway(), [run_started()])), "CHANNEL_ERROR", false),
        (Answer::events(&with(underway(), [error("rate_limit_exceeded")])), "RATE_LIMITED", true),
        (Answer::events(&with(underway(), [error("GUARDRAIL_BLOCKED")])), "GUARDRAIL_BLOCKED", false),
    ] {
        let server = Server::start(move |_, _| answer.clone()).await;
        let silent = if code == "TIMEOUT" { impatient(server.url()) } else { AguiOptions::new(server.url()) };
        let bed = front_with(AguiOptions { idempotent: true, ..silent });
        let log = bed.ended(&ask(&bed).await).await;
        let (found, message, may_retry) = log.error();
        assert_eq!((log.ending(), found, may_retry), ("failed", code, retryable), "{message}");
    }
}

#[tokio::test]
async fn what_an_agent_reports_before_it_began_may_be_tried_again_if_it_may_pass_and_not_after() {
    for (code, early, late) in [("RATE_LIMITED", true, false), ("timeout", true, false), ("MODEL_ERROR", false, false)]
    {
        let error = json!({ "type": "RUN_ERROR", "message": "no", "code": code });
        assert_eq!(log_of(Answer::events(std::slice::from_ref(&error))).await.error().2, early, "{code}");
        assert_eq!(log_of(Answer::events(&[run_started(), error])).await.error().2, late, "{code}");
    }
}

#[tokio::test]
async fn an_agent_that_sends_no_event_in_time_fails_the_run_and_one_that_does_may_be_slow_after() {
    let comment = || Step::Bytes(b": soon\n\n".to_vec());
    let patience = Duration::from_millis(300);
    let mut comments = vec![comment()];
    for _ in 0..40 {
        comments.extend([Step::Wait(Duration::from_millis(100)), comment()]);
    }
    let late = Answer { after: Duration::from_secs(50), ..Answer::events(&underway()) };
    for answer in [late, Answer::steps(vec![Step::Hang]), Answer::steps(comments)] {
        let server = Server::start(move |_, _| answer.clone()).await;
        let bed = front_with(AguiOptions { first_event_timeout: Some(patience), ..AguiOptions::new(server.url()) });
        let log = bed.ended(&ask(&bed).await).await;
        let (code, message, retryable) = log.error();
        assert_eq!((log.ending(), code, retryable), ("failed", "TIMEOUT", false), "{message}");
        assert!(message.contains("sent no event within 300ms"), "{message}");
    }
    // In time on a busy machine too.
    let (patience, longer) = (Duration::from_secs(3), Duration::from_secs(4));
    let slow =
        vec![Step::Bytes(lines(&underway(), "\n")), Step::Wait(longer), Step::Bytes(lines(&[run_finished()], "\n"))];
    let server = Server::start(move |_, _| Answer::steps(slow.clone())).await;
    let bed = front_with(AguiOptions { first_event_timeout: Some(patience), ..AguiOptions::new(server.url()) });
    assert_eq!(bed.ended(&ask(&bed).await).await.ending(), "completed");
}

#[tokio::test]
async fn a_stop_is_told_at_an_address_of_its_own_and_whatever_that_answers_the_run_is_cancelled() {
    // Fails when another test of this process was first, which is as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for status in [200, 500] {
        let server = Server::start(move |_, seen| match seen.uri.path() {
            "/cancel" => Answer::refusal(status, "{}"),
            _ => Answer::events_then(&underway(), Step::Hang),
        })
        .await;
        let options = AguiOptions {
            cancel_url: Some(format!("http://{}/cancel", server.address)),
            headers: vec![("x-key".to_owned(), "hush".to_owned())],
            ..AguiOptions::new(server.url())
        };
        let bed = crate::fixture::bed_with(
            [crate::fixture::driven_by("upstream", AguiDriver::new(options).unwrap())],
            runwire_store::StoreOptions::default(),
            // So that the telling is not cut short by it.
            Duration::from_secs(30),
        );
        let run_id = ask(&bed).await;
        bed.shows(&run_id, |frame| matches!(&frame.data, Data::TextDelta(_))).await;
        bed.engine.cancel(&run_id).await.unwrap();
        let log = bed.ended(&run_id).await;
        assert_eq!((log.ending(), log.has_error()), ("cancelled", false));
        let told = server.seen().pop().unwrap();
        assert_eq!((told.method.as_str(), told.uri.path()), ("POST", "/cancel"));
        assert_eq!(told.body, json!({ "threadId": THREAD, "runId": RUN }));
        assert_eq!(told.headers["x-key"], "hush");
    }
}
