//! The course of the requested run in an upstream stream: replayed runs, failures outside of it, and truncation.

#![allow(clippy::unwrap_used)]

mod log;

use log::{Relay, THREAD, event, events, input};
use runwire_agui::{Event, Reducer};
use runwire_bridge::{ExchangeEnd, Failure, Upstream, UpstreamStep};
use runwire_frame::{ErrorCode, FrameType};
use serde_json::{Value, json};

fn started(run_id: &str) -> Value {
    json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": run_id})
}

fn finished(run_id: &str) -> Value {
    json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": run_id})
}

fn error(message: &str) -> Value {
    json!({"type": "RUN_ERROR", "message": message})
}

fn text() -> Vec<Value> {
    vec![
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m1"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m1"}),
    ]
}

/// Follows a stream in which run `wanted` was requested.
fn follow(stream: Vec<Value>) -> (Upstream, Vec<UpstreamStep>) {
    let mut upstream = Upstream::new(input("wanted"));
    let steps = stream.into_iter().map(|e| upstream.push(event(e))).collect();
    (upstream, steps)
}

fn ending(stream: Vec<Value>) -> ExchangeEnd {
    follow(stream).0.finish()
}

fn failure(stream: Vec<Value>) -> Failure {
    match ending(stream) {
        ExchangeEnd::Failed(failure) => failure,
        other => panic!("a failure, not {other:?}"),
    }
}

#[test]
fn replayed_runs_make_no_run_and_their_snapshots_come_first_in_the_requested_one() {
    let messages = json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "u", "role": "user", "content": "hi"}]});
    let state = json!({"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}});
    let custom = json!({"type": "CUSTOM", "name": "n", "value": 1});
    let mut stream = vec![started("old-1"), messages.clone(), custom.clone(), custom];
    stream.extend([finished("old-1"), started("old-2"), state.clone(), error("it broke"), started("wanted")]);
    stream.extend(text());
    stream.push(finished("wanted"));
    let mut relay = Relay::new("run_1");
    relay.exchange(&input("wanted"), &events(stream), &[]);
    relay.log.assert_legal_and_ended();
    let codes: Vec<Value> = relay.log.data(FrameType::Notice).iter().map(|n| n["code"].clone()).collect();
    assert_eq!(codes, ["agui.MESSAGES_SNAPSHOT", "agui.STATE_SNAPSHOT", "replayed_events_dropped"]);
    let dropped = &relay.log.data(FrameType::Notice)[2];
    assert_eq!(dropped["level"], "warning");
    assert!(dropped["message"].as_str().unwrap().starts_with("2 events of earlier runs"), "{dropped}");
    let got = relay.log.project_json();
    assert_eq!(got[0]["runId"], "wanted");
    assert_eq!(got[1..3], [messages, state]);
    assert_eq!(got[3]["type"], "CUSTOM");
    assert_eq!(got[4..7], text());
    assert_eq!(got.len(), 8);
    assert_eq!(relay.log.data(FrameType::RunStart).len(), 1);
}

/// events/state, `MESSAGES_SNAPSHOT`: what it lacks is dropped. It came in front of the requested run, whose input then
/// added what it lacks; relayed it stands behind that.
#[test]
fn a_client_holds_the_same_messages_of_a_replay_whether_relayed_or_not() {
    let user = |id: &str| json!({"id": id, "role": "user", "content": id});
    let mut asked = input("wanted");
    asked.messages = ["u1", "u2", "u3"].map(|id| serde_json::from_value(user(id)).unwrap()).into();
    let mut begun = started("wanted");
    begun["input"] = serde_json::to_value(&asked).unwrap();
    let restated = |messages: &[Value]| json!({"type": "MESSAGES_SNAPSHOT", "messages": messages});
    let answer = json!({"id": "a1", "role": "assistant", "content": "Hi"});
    let mut stream = vec![
        started("old-1"),
        restated(&[json!({"id": "gone", "role": "user", "content": "x"})]),
        finished("old-1"),
        started("old-2"),
        restated(&[user("u1"), answer]),
        finished("old-2"),
        begun,
    ];
    stream.extend(text());
    stream.push(finished("wanted"));
    let direct = events(stream);
    let mut relay = Relay::new("run_1");
    relay.exchange(&asked, &direct, &[]);
    let held = |stream: &[Event]| {
        let mut reducer = Reducer::from_input(&asked);
        for (index, event) in stream.iter().enumerate() {
            assert_eq!(reducer.apply(event.clone(), index), None);
        }
        reducer.messages().map(|message| message.id().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(held(&direct), ["u1", "a1", "u2", "u3", "m1"]);
    assert_eq!(held(&relay.log.project()), held(&direct));
}

#[test]
fn a_replay_of_snapshots_alone_drops_nothing_and_says_nothing() {
    let state = json!({"type": "STATE_SNAPSHOT", "snapshot": 1});
    let (_, steps) = follow(vec![started("old"), state.clone(), finished("old"), started("wanted")]);
    let Some(UpstreamStep::Begin(begun, replayed)) = steps.last() else { panic!("{steps:?}") };
    assert_eq!(begun.run_id, "wanted");
    assert_eq!(replayed.snapshots, [event(state)]);
    assert_eq!(replayed.dropped, 0);
}

#[test]
fn run_error_first_is_the_failure_of_a_run_that_could_not_begin() {
    let (upstream, steps) =
        follow(vec![json!({"type": "RUN_ERROR", "message": "no such agent", "code": "RATE_LIMITED"})]);
    assert!(matches!(steps[..], [UpstreamStep::Hold]));
    assert!(upstream.has_ended());
    let ExchangeEnd::Failed(failure) = upstream.finish() else { panic!("a failure") };
    assert_eq!((failure.code, &*failure.message), (ErrorCode::RateLimited, "no such agent"));
    assert!(failure.retryable, "nothing was done that would be done twice");
}

#[test]
fn run_error_first_does_not_fail_the_run_that_begins_after_it() {
    let end = ending(vec![error("could not resume the stream"), started("wanted"), finished("wanted")]);
    assert!(matches!(end, ExchangeEnd::Completed(_)), "{end:?}");
}

#[test]
fn a_late_failure_of_an_earlier_run_does_not_fail_the_requested_one() {
    let end =
        ending(vec![started("old"), finished("old"), error("flushing failed"), started("wanted"), finished("wanted")]);
    assert!(matches!(end, ExchangeEnd::Completed(_)), "{end:?}");
}

#[test]
fn run_error_after_run_finished_fails_the_run() {
    for outcome in [
        json!({"type": "success"}),
        json!({"type": "cancelled"}),
        json!({"type": "interrupt", "interrupts": [{"id": "i", "reason": "r"}]}),
    ] {
        let mut end = finished("wanted");
        end["outcome"] = outcome;
        let (upstream, steps) = follow(vec![started("wanted"), end, error("flushing failed")]);
        assert!(upstream.has_ended());
        assert!(matches!(steps[1..], [UpstreamStep::Hold, UpstreamStep::Hold]));
        let ExchangeEnd::Failed(failure) = upstream.finish() else { panic!("a failure") };
        assert_eq!(failure.message, "flushing failed");
    }
}

#[test]
fn the_usage_of_a_run_that_failed_late_is_counted_once() {
    let account = |input: u64| json!([{"model": "m1", "inputTokens": input}]);
    for (late, counted) in [(Some(7), 7), (None, 5)] {
        let mut end = finished("wanted");
        end["usage"] = account(5);
        let mut failed = error("flushing failed");
        if let Some(late) = late {
            failed["usage"] = account(late);
        }
        let failure = failure(vec![started("wanted"), end, failed]);
        assert_eq!(failure.usage.len(), 1);
        assert_eq!(failure.usage[0].input_tokens, Some(counted));
    }
}

#[test]
fn a_run_that_follows_the_requested_one_does_not_change_how_that_ended() {
    let end = ending(vec![started("wanted"), finished("wanted"), started("next"), error("it broke")]);
    assert!(matches!(end, ExchangeEnd::Completed(_)), "{end:?}");
}

#[test]
fn content_is_recorded_only_between_the_start_and_the_end_of_the_requested_run() {
    let mut stream = vec![started("wanted")];
    stream.extend(text());
    stream.push(finished("wanted"));
    let (upstream, steps) = follow(stream);
    assert!(matches!(steps[0], UpstreamStep::Begin(..)));
    assert!(steps[1..4].iter().all(|s| matches!(s, UpstreamStep::Record(_))));
    assert!(matches!(steps[4], UpstreamStep::Hold));
    assert!(upstream.has_ended());
}

#[test]
fn a_truncation_is_a_failure_in_every_phase_and_never_a_success() {
    let mut in_message = vec![started("wanted")];
    in_message.push(text().remove(0));
    for (stream, words) in [
        (vec![], "it ended without any event"),
        (vec![started("wanted")], "without a terminal event"),
        (in_message, "without a terminal event"),
        (vec![started("old")], "the last run in it was `old`"),
        (vec![started("old"), finished("old")], "without RUN_STARTED of the requested run `wanted`"),
        (vec![started("old"), error("it broke")], "without RUN_STARTED of the requested run `wanted`"),
    ] {
        let (upstream, _) = follow(stream.clone());
        assert!(!upstream.has_ended(), "{stream:?}");
        let failure = failure(stream);
        assert_eq!(failure.code, ErrorCode::ChannelError);
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn a_stream_that_fails_outside_of_any_run_without_the_requested_one_says_so_in_its_own_words() {
    let failure = failure(vec![started("old"), finished("old"), error("the model is gone")]);
    assert_eq!(failure.message, "the model is gone");
}

#[test]
fn a_truncated_relay_keeps_what_was_delivered_and_ends_failed() {
    let mut stream = vec![started("wanted")];
    stream.extend(text().into_iter().take(2));
    let mut relay = Relay::new("run_1");
    relay.exchange(&input("wanted"), &events(stream), &[]);
    relay.log.assert_legal_and_ended();
    assert_eq!(relay.log.texts(), ["Hi"]);
    let got = relay.log.project();
    let Some(Event::RunError(error)) = got.last() else { panic!("{got:?}") };
    assert_eq!(error.code.as_deref(), Some("CHANNEL_ERROR"));
    assert_eq!(got.len(), 4, "nothing that was cut off is shown as closed");
}
