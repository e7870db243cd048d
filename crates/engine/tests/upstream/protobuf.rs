//! An upstream agent that answers in the binary binding (transports/http-protobuf): the same pipeline, the same verdicts.

use runwire_agui::decode_value;
use runwire_agui::proto::{self, ProtoEncoder};
use runwire_engine::drivers::{AguiOptions, Binding};
use serde_json::{Value, json};

use crate::fixture::Log;
use crate::server::{Answer, Server, Step};
use crate::{RUN, THREAD, ask, assert_channel_error, front_with, message, run_finished, run_started, underway, with};

fn frames(events: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        let event = decode_value(event.clone(), 0).unwrap().event.unwrap();
        ProtoEncoder::encode_event(&mut bytes, &event).unwrap();
    }
    bytes
}

fn in_protobuf(bytes: Vec<u8>) -> Answer {
    Answer { content_type: Some(proto::MEDIA_TYPE), ..Answer::stream(bytes) }
}

/// The log of the run that this answer makes for a client that admits protobuf, and what that client accepted.
async fn log_of(answer: Answer) -> (Log, String) {
    let server = Server::start(move |_, _| answer.clone()).await;
    let bed = front_with(AguiOptions { binding: Binding::Protobuf, ..AguiOptions::new(server.url()) });
    let log = bed.ended(&ask(&bed).await).await;
    let accept = server.seen()[0].headers["accept"].to_str().unwrap().to_owned();
    (log, accept)
}

fn whole() -> Vec<Value> {
    let mut events =
        vec![run_started(), json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": [1, { "deep": null }] } })];
    events.extend(message("m1", "Grüße, 👋"));
    events.extend([
        json!({ "type": "TOOL_CALL_CHUNK", "toolCallId": "c1", "toolCallName": "look", "delta": "{}" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "seen" }),
        json!({ "type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN, "result": { "ok": true } }),
    ]);
    events
}

#[tokio::test]
async fn the_accept_header_names_the_media_type_alongside_server_sent_events_and_no_wildcard() {
    let (log, accept) = log_of(in_protobuf(frames(&whole()))).await;
    assert_eq!(accept, "application/vnd.ag-ui.event+proto, text/event-stream");
    assert_eq!(log.ending(), "completed");
}

#[tokio::test]
async fn a_stream_comes_to_the_same_log_in_both_bindings() {
    let (binary, _) = log_of(in_protobuf(frames(&whole()))).await;
    let (text, _) = log_of(Answer::events(&whole())).await;
    let told = |log: &Log| log.events.iter().map(|event| event.to_value()).collect::<Vec<_>>();
    assert_eq!(told(&binary), told(&text));
    assert_eq!(binary.text(), "Grüße, 👋");
    assert_eq!(text.ending(), "completed", "a client must always be prepared to receive SSE");
}

#[tokio::test]
async fn frames_may_be_split_anywhere() {
    let pieces = frames(&whole()).into_iter().map(|byte| Step::Bytes(vec![byte])).collect();
    let answer = Answer { content_type: Some(proto::MEDIA_TYPE), ..Answer::steps(pieces) };
    assert_eq!(log_of(answer).await.0.ending(), "completed");
}

#[tokio::test]
async fn a_body_that_ends_inside_a_frame_is_a_truncated_run_and_what_came_before_stays() {
    let kept = frames(&underway());
    for cut in [1, 4, 9] {
        let bytes = [kept.clone(), frames(&[run_finished()])[..cut].to_vec()].concat();
        let (log, _) = log_of(in_protobuf(bytes)).await;
        assert_channel_error(&log, "Kept.", &["truncated"]);
    }
}

#[tokio::test]
async fn bytes_that_do_not_decode_are_fatal_to_the_stream_and_name_their_place() {
    let kept = frames(&underway());
    let undecodable = [0, 0, 0, 3, 0xff, 0xff, 0xff];
    let after = frames(&[run_finished()]);
    let (log, _) = log_of(in_protobuf([&kept[..], &undecodable, &after].concat())).await;
    assert_channel_error(&log, "Kept.", &["event 4", "frame 4"]);
    let too_large = [&kept[..], &[0xff, 0xff, 0xff, 0xff]].concat();
    let (log, _) = log_of(in_protobuf(too_large)).await;
    assert_channel_error(&log, "Kept.", &["4294967295"]);
}

#[tokio::test]
async fn a_violation_is_the_same_in_both_bindings() {
    let events = with(underway(), [json!({ "type": "TEXT_MESSAGE_END", "messageId": "never" }), run_finished()]);
    let (binary, _) = log_of(in_protobuf(frames(&events))).await;
    let (text, _) = log_of(Answer::events(&events)).await;
    assert_channel_error(&binary, "Kept.", &["text-message-not-open", "event 4"]);
    assert_eq!(binary.error(), text.error());
}

#[tokio::test]
async fn a_frame_whose_envelope_arm_is_unknown_is_dropped_with_a_warning() {
    // Arm 100 of the envelope, empty: a key of two bytes and a length of none.
    let unknown = [0, 0, 0, 3, 0xa2, 0x06, 0x00];
    let bytes = [frames(&underway()), unknown.to_vec(), frames(&[run_finished()])].concat();
    let (log, _) = log_of(in_protobuf(bytes)).await;
    assert_eq!(log.ending(), "completed");
    let told: Vec<_> = log.notices().into_iter().filter(|(code, _)| *code == "upstream_warning").collect();
    assert!(matches!(&told[..], [(_, message)] if message.contains("Arm 100")), "{told:?}");
}

#[tokio::test]
async fn nesting_that_no_frame_can_hold_fails_the_run() {
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    let snapshot = json!({ "type": "STATE_SNAPSHOT", "snapshot": deep });
    let (log, _) = log_of(in_protobuf(frames(&with(underway(), [snapshot, run_finished()])))).await;
    assert_channel_error(&log, "Kept.", &["120 levels"]);
}

#[tokio::test]
async fn an_answer_in_a_binding_that_was_not_asked_for_is_refused() {
    let server = Server::start(move |_, _| in_protobuf(frames(&whole()))).await;
    let bed = crate::front(server.url());
    let log = bed.ended(&ask(&bed).await).await;
    assert_channel_error(&log, "", &[proto::MEDIA_TYPE, "text/event-stream"]);
    assert_eq!(server.seen()[0].headers["accept"], "text/event-stream", "a client that takes no protobuf says so");
}
