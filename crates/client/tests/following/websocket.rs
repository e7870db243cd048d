//! Frame protocol v2 over a WebSocket.

use std::time::Duration;

use axum::extract::ws::Message;
use futures_util::StreamExt as _;
use runwire_client::{FollowError, Followed, Transport};
use runwire_frame::{ErrorCode, ErrorData, Frame, Timestamp};
use serde_json::{Map, json};

use crate::scripted::{Answer, BACKOFF, RUN, Say, Scripted, all, bodies, cuts, log, server, text};

async fn told(answers: impl IntoIterator<Item = Answer>, after: u64) -> (Vec<Result<Followed, FollowError>>, Scripted) {
    let scripted = Scripted::start(answers).await;
    let stream = scripted.client().follow(RUN).after(after).transport(Transport::WebSocket).backoff(BACKOFF);
    let told = all(stream.start()).await;
    (told, scripted)
}

/// The frames `from..to` of a log by `seq`, then `say`.
fn socket(frames: &[bytes::Bytes], say: impl IntoIterator<Item = Say>) -> Answer {
    Answer::Socket(frames.iter().map(text).chain(say).collect())
}

fn connection_error(code: ErrorCode, retryable: bool, extra: serde_json::Value) -> Say {
    let extra: Map<_, _> = serde_json::from_value(extra).unwrap();
    let error = ErrorData { code, message: "because".into(), retryable, extra };
    text(&Frame::connection_error(RUN, Timestamp::from_unix_millis(0), error))
}

#[tokio::test]
async fn g1_g3_frames_arrive_in_order_with_the_bytes_that_were_sent() {
    let frames = log(&["Hello", ", wörld"]);
    let (told, scripted) = told([socket(&frames, [Say::Close(1000, "")])], 0).await;
    assert_eq!(bodies(&told), frames);
    assert!(matches!(told[0], Ok(Followed::Connected { after: 0 })));
    assert_eq!(cuts(&told), Vec::<String>::new());
    let asked = scripted.asked();
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("GET", "/v2/runs/run_1/ws"));
}

#[tokio::test]
async fn the_first_message_is_exactly_the_protocols() {
    for (token, after, message) in [
        (None, 0, r#"{"type":"auth","token":"","protocol":2,"after":0}"#),
        (Some("s3\"cret"), 1, r#"{"type":"auth","token":"s3\"cret","protocol":2,"after":1}"#),
    ] {
        let scripted = Scripted::start([socket(&log(&[])[after as usize..], [])]).await;
        let follow = server(&scripted.address, token).follow(RUN).after(after).transport(Transport::WebSocket);
        all(follow.start()).await;
        let asked = scripted.asked();
        assert_eq!(asked[0].body, message);
        assert_eq!(asked[0].authorization, None, "the token travels in the first message alone");
    }
}

#[tokio::test]
async fn each_close_code_ends_gives_up_or_comes_back() {
    type Is = fn(&FollowError) -> bool;
    let fatal: &[(u16, Is)] = &[
        (4401, |e| matches!(e, FollowError::Unauthorized { detail } if detail == "why")),
        (4404, |e| matches!(e, FollowError::RunNotFound { run_id } if run_id == RUN)),
        (4409, |e| matches!(e, FollowError::ProtocolUnsupported { detail } if detail == "why")),
    ];
    for (code, is) in fatal {
        let (told, scripted) = told([socket(&[], [Say::Close(*code, "why")])], 0).await;
        assert!(matches!(&told[..], [Ok(Followed::Connected { .. }), Err(error)] if is(error)), "{code}: {told:?}");
        assert_eq!(scripted.asked().len(), 1, "{code} is asked once");
    }
    for code in [1001, 1011, 1012, 1013, 4000, 4408] {
        let frames = log(&["a", "b"]);
        let cut = socket(&frames[..2], [Say::Close(code, "why")]);
        let (told, scripted) = told([cut, socket(&frames[2..], [Say::Close(1000, "")])], 0).await;
        assert_eq!(bodies(&told), frames, "{code}");
        assert_eq!(cuts(&told), [format!("after 2: the server closed the WebSocket with code {code}: why")]);
        assert!(scripted.asked()[1].body.ends_with(r#""after":2}"#), "{code}");
    }
}

#[tokio::test]
async fn g6_1000_without_a_frame_ends_a_stream_whose_cursor_is_past_the_end() {
    let (told, _) = told([socket(&[], [Say::Close(1000, "")])], 3).await;
    assert!(matches!(&told[..], [Ok(Followed::Connected { after: 3 })]), "{told:?}");
}

#[tokio::test]
async fn g7_1000_without_a_single_frame_ever_is_an_error() {
    let (told, _) = told([socket(&[], [Say::Close(1000, "")])], 0).await;
    assert!(matches!(told.last(), Some(Err(FollowError::EndedUnread { .. }))), "{told:?}");
}

#[tokio::test]
async fn g7_1000_before_run_end_is_not_taken_for_the_end() {
    let frames = log(&["a", "b"]);
    let early = socket(&frames[..2], [Say::Close(1000, "")]);
    let (told, _) = told([early, socket(&frames[2..], [Say::Close(1000, "")])], 0).await;
    assert_eq!(bodies(&told), frames);
}

#[tokio::test]
async fn g2_a_connection_that_breaks_after_any_frame_is_resumed() {
    let frames = log(&["a", "b", "c"]);
    for cut in 0..frames.len() {
        let (told, scripted) = told([socket(&frames[..cut], []), socket(&frames[cut..], [])], 0).await;
        assert_eq!(bodies(&told), frames, "cut after {cut} frames");
        assert_eq!(cuts(&told).len(), 1, "{told:?}");
        assert!(scripted.asked()[1].body.ends_with(&format!(r#""after":{cut}}}"#)));
    }
}

#[tokio::test]
async fn g2_g7_duplicates_are_skipped_and_gaps_resumed() {
    let frames = log(&["a", "b", "c"]);
    let gap = Answer::Socket([0, 1, 1, 0, 3].map(|i: usize| text(&frames[i])).into());
    let (told, _) = told([gap, socket(&frames[1..], [])], 0).await;
    assert_eq!(bodies(&told), frames);
    assert_eq!(cuts(&told), ["after 2: frame 3 should have come, and frame 4 came"]);
}

#[tokio::test]
async fn silence_is_a_cut_and_pings_are_not_frames() {
    let frames = log(&["a"]);
    let quiet = socket(&frames[..1], [Say::Message(Message::Ping("hi".into())), Say::Silence]);
    let scripted = Scripted::start([quiet, socket(&frames[1..], [])]).await;
    let follow = scripted.client().follow(RUN).transport(Transport::WebSocket).backoff(BACKOFF);
    let told = all(follow.idle(Duration::from_secs(1)).start()).await;
    assert_eq!(bodies(&told), frames);
    assert_eq!(cuts(&told), ["after 1: nothing came from the server for 1 s"]);
}

#[tokio::test]
async fn an_error_of_the_connection_itself_is_judged_by_its_code() {
    type Is = fn(&FollowError) -> bool;
    let none = || json!({});
    let table: Vec<(ErrorCode, serde_json::Value, Is)> = vec![
        (ErrorCode::AuthFailed, none(), |e| matches!(e, FollowError::Unauthorized { detail } if detail == "because")),
        (ErrorCode::MalformedFrame, none(), |e| matches!(e, FollowError::Unauthorized { .. })),
        (ErrorCode::RunNotFound, none(), |e| matches!(e, FollowError::RunNotFound { .. })),
        (ErrorCode::ProtocolUnsupported, none(), |e| matches!(e, FollowError::ProtocolUnsupported { .. })),
        (ErrorCode::MalformedFrame, json!({"oldest": 7}), |e| matches!(e, FollowError::Gone { oldest: Some(7), .. })),
        (ErrorCode::MalformedFrame, json!({"head": 9}), |e| matches!(e, FollowError::PastHead { head: Some(9), .. })),
        (ErrorCode::InternalError, json!({"oldest": 7}), |e| matches!(e, FollowError::Gone { oldest: Some(7), .. })),
        (ErrorCode::InternalError, json!({"head": 9}), |e| matches!(e, FollowError::PastHead { head: Some(9), .. })),
        (ErrorCode::InternalError, none(), |e| matches!(e, FollowError::Refused { detail, .. } if detail == "because")),
    ];
    for (code, extra, is) in table {
        let (told, _) = told([Answer::Socket(vec![connection_error(code, false, extra)])], 0).await;
        assert!(matches!(told.last(), Some(Err(error)) if is(error)), "{code}: {told:?}");
    }
    let frames = log(&["a"]);
    let passing = Answer::Socket(vec![connection_error(ErrorCode::RateLimited, true, none())]);
    let (told, _) = told([passing, socket(&frames, [])], 0).await;
    assert_eq!(bodies(&told), frames, "`seq` 0 is never a cursor");
    assert_eq!(cuts(&told), ["after 0: the server reported RATE_LIMITED: because"]);
}

#[tokio::test]
async fn a_refused_upgrade_is_judged_by_its_status() {
    let status = |code, body: &str| Answer::Status(code, &[], body.to_owned());
    type Is = fn(&FollowError) -> bool;
    let fatal: &[(u16, &str, Is)] = &[
        (401, "", |e| matches!(e, FollowError::Unauthorized { .. })),
        (404, "", |e| matches!(e, FollowError::RunNotFound { .. })),
        (410, r#"{"oldest":7}"#, |e| matches!(e, FollowError::Gone { .. })),
        (416, r#"{"head":9}"#, |e| matches!(e, FollowError::PastHead { .. })),
    ];
    for (code, body, is) in fatal {
        let (told, _) = told([status(*code, body)], 0).await;
        assert!(matches!(&told[..], [Err(error)] if is(error)), "{code}: {told:?}");
    }
    let frames = log(&["a"]);
    let (told, _) = told([status(503, ""), socket(&frames, [])], 0).await;
    assert_eq!(bodies(&told), frames);
}

#[tokio::test]
async fn a_binary_message_is_an_error() {
    let binary = Say::Message(Message::Binary(log(&[])[0].clone()));
    let (told, _) = told([Answer::Socket(vec![binary])], 0).await;
    assert!(matches!(told.last(), Some(Err(FollowError::BadTransport { .. }))), "{told:?}");
}

#[tokio::test]
async fn a_message_over_the_limit_is_an_error() {
    let frames = log(&[&"x".repeat(5000)]);
    let scripted = Scripted::start([socket(&frames, [Say::Silence])]).await;
    let follow = scripted.client().follow(RUN).transport(Transport::WebSocket).max_event_bytes(4096);
    let told = all(follow.start()).await;
    assert!(matches!(told.last(), Some(Err(FollowError::TooLarge { limit: 4096 }))), "{told:?}");
}

#[tokio::test]
async fn g9_dropping_the_stream_closes_the_connection() {
    let scripted = Scripted::start([socket(&log(&[])[..1], [Say::Silence])]).await;
    let mut stream = scripted.client().follow(RUN).transport(Transport::WebSocket).start();
    while stream.cursor() == 0 {
        stream.next().await.unwrap().unwrap();
    }
    drop(stream);
    scripted.left().await;
}

#[tokio::test]
async fn a_first_message_that_came_too_late_is_said_again_and_a_token_that_is_refused_is_not() {
    let late = || Answer::Socket(vec![connection_error(ErrorCode::AuthFailed, true, json!({})), Say::Close(4401, "")]);
    let frames = log(&["a", "b"]);
    // Nine times in a row, a frame, and nine times again.
    let first = (0..9).map(|_| late()).chain([socket(&frames[..2], [])]);
    let (told, scripted) = told(first.chain((0..9).map(|_| late())).chain([socket(&frames[2..], [])]), 0).await;
    assert_eq!(bodies(&told), frames);
    assert_eq!(cuts(&told)[0], "after 0: the server reported AUTH_FAILED: because");
    assert_eq!(cuts(&told).len(), 19);
    assert!(scripted.asked()[12].body.ends_with(r#""after":2}"#), "from the cursor");
}

#[tokio::test]
async fn a_first_message_that_is_always_too_late_is_given_up_and_the_token_is_not_blamed() {
    let late = || Answer::Socket(vec![connection_error(ErrorCode::AuthFailed, true, json!({})), Say::Close(4401, "")]);
    let (told, scripted) = told((0..20).map(|_| late()), 0).await;
    let Some(Err(error)) = told.last() else { panic!("{told:?}") };
    assert!(matches!(error, FollowError::AuthLate { tries: 10, detail } if detail == "because"), "{error:?}");
    assert!(!error.to_string().contains("token"), "{error}");
    assert_eq!(scripted.asked().len(), 10);
}
