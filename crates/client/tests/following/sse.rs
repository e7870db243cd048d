//! Frame protocol v2 over server-sent events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use runwire_client::{Backoff, Disconnect, FollowError, Followed, FrameStream};
use runwire_frame::{Data, TextDelta};

use crate::scripted::{Answer, BACKOFF, RUN, Scripted, all, bodies, body_of, cuts, log, server, sse};

fn follow(scripted: &Scripted, after: u64) -> FrameStream {
    scripted.client().follow(RUN).after(after).backoff(BACKOFF).start()
}

async fn told(answers: impl IntoIterator<Item = Answer>, after: u64) -> (Vec<Result<Followed, FollowError>>, Scripted) {
    let scripted = Scripted::start(answers).await;
    let told = all(follow(&scripted, after)).await;
    (told, scripted)
}

fn status(status: u16, body: &str) -> Answer {
    Answer::Status(status, &[], body.to_owned())
}

#[tokio::test]
async fn g1_g3_frames_arrive_in_order_with_the_bytes_that_were_sent() {
    let frames = log(&["Hello", ", wörld", "\u{2028} \"quoted\" \\ {}"]);
    let (told, scripted) = told([Answer::Events(sse(&frames, 1))], 0).await;
    assert_eq!(bodies(&told), frames);
    assert!(matches!(told[0], Ok(Followed::Connected { after: 0 })));
    assert_eq!(cuts(&told), Vec::<String>::new());
    let asked = scripted.asked();
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("GET", "/v2/runs/run_1/stream"));
    assert_eq!((&asked[0].last_event_id, &asked[0].authorization), (&None, &None));
}

#[tokio::test]
async fn the_token_goes_into_the_authorization_header() {
    let scripted = Scripted::start([Answer::Events(sse(&log(&[]), 1))]).await;
    all(server(&scripted.address, Some("s3cret")).follow(RUN).start()).await;
    assert_eq!(scripted.asked()[0].authorization.as_deref(), Some("Bearer s3cret"));
}

#[tokio::test]
async fn g4_a_kept_cursor_goes_on_at_the_very_next_frame() {
    let frames = log(&["a", "b", "c"]);
    let scripted = Scripted::start([]).await;
    for cursor in 0..frames.len() {
        scripted.then([Answer::Rest(frames.clone())]);
        let told = all(follow(&scripted, cursor as u64)).await;
        assert_eq!(bodies(&told), frames[cursor..], "from cursor {cursor}");
        let expected = (cursor > 0).then(|| cursor.to_string());
        assert_eq!(scripted.asked()[0].last_event_id, expected);
    }
}

#[tokio::test]
async fn the_cursor_is_the_last_frame_that_was_given_out() {
    let frames = log(&["a", "b"]);
    let scripted = Scripted::start([Answer::Events(sse(&frames, 1))]).await;
    let mut stream = follow(&scripted, 0);
    let mut cursors = vec![stream.cursor()];
    while stream.next().await.is_some() {
        cursors.push(stream.cursor());
    }
    assert_eq!(cursors, [0, 0, 1, 2, 3, 4]);
}

/// G2: no gap and no duplicate across connections, wherever the first of them is cut.
#[tokio::test]
async fn g2_a_cut_at_every_byte_loses_nothing_and_repeats_nothing() {
    let frames = log(&["Hello", " wörld"]);
    let whole = sse(&frames, 1);
    let scripted = Scripted::start([]).await;
    for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
        let prefix = &whole[..cut];
        let complete = prefix.matches("\n\n").count();
        for breaks in [false, true] {
            let first = if breaks { Answer::Broken(prefix.to_owned()) } else { Answer::Events(prefix.to_owned()) };
            scripted.then([first, Answer::Rest(frames.clone())]);
            let told = all(follow(&scripted, 0)).await;
            assert_eq!(bodies(&told), frames, "cut at byte {cut}");
            assert_eq!(cuts(&told).len(), 1, "cut at byte {cut}: {told:?}");
            assert!(scripted.is_over());
            let resumed = (complete > 0).then(|| complete.to_string());
            assert_eq!(scripted.asked()[1].last_event_id, resumed, "cut at byte {cut}");
        }
    }
}

#[tokio::test]
async fn g2_a_duplicate_is_skipped() {
    let frames = log(&["a", "b"]);
    let twice = sse(&frames[..2], 1) + &sse(&frames[1..2], 2) + &sse(&frames, 1);
    let (told, _) = told([Answer::Events(twice)], 0).await;
    assert_eq!(bodies(&told), frames);
}

#[tokio::test]
async fn g7_a_gap_is_never_delivered_and_resumed_from_the_cursor() {
    let frames = log(&["a", "b", "c"]);
    let gap = sse(&frames[..2], 1) + &sse(&frames[3..], 4);
    let (told, scripted) = told([Answer::Events(gap), Answer::Rest(frames.clone())], 0).await;
    assert_eq!(bodies(&told), frames);
    assert_eq!(cuts(&told), ["after 2: frame 3 should have come, and frame 4 came"]);
    assert_eq!(scripted.asked()[1].last_event_id.as_deref(), Some("2"));
}

#[tokio::test]
async fn g7_a_gap_that_stays_after_resuming_is_an_error() {
    let frames = log(&["a", "b", "c"]);
    let gap = Answer::Events(sse(&frames[..2], 1) + &sse(&frames[3..], 4));
    let still = Answer::Events(sse(&frames[3..], 4));
    let (told, _) = told([gap, still], 0).await;
    assert!(matches!(told.last(), Some(Err(FollowError::Gap { expected: 3, got: 4 }))), "{told:?}");
    assert_eq!(bodies(&told[..told.len() - 1]), frames[..2]);
}

#[tokio::test]
async fn g6_the_stream_ends_behind_run_end_even_if_the_server_goes_on() {
    let frames = log(&["a"]);
    let more = body_of(RUN, 4, Data::TextDelta(TextDelta::new("more".into())));
    let whole = sse(&frames, 1) + &sse(&[more], 4);
    let (told, _) = told([Answer::Silent(whole)], 0).await;
    assert_eq!(bodies(&told), frames);
}

#[tokio::test]
async fn g6_204_ends_a_stream_whose_cursor_is_past_the_end() {
    let (told, _) = told([status(204, "")], 3).await;
    assert!(told.is_empty(), "{told:?}");
}

#[tokio::test]
async fn g7_204_without_a_single_frame_is_an_error_and_no_empty_run() {
    let (told, _) = told([status(204, "")], 0).await;
    assert!(matches!(&told[..], [Err(FollowError::EndedUnread { .. })]), "{told:?}");
}

#[tokio::test]
async fn what_cannot_be_repaired_is_an_error_at_once() {
    type Is = fn(&FollowError) -> bool;
    let table: &[(u16, &str, Is)] = &[
        (400, "", |e| matches!(e, FollowError::Refused { status: Some(400), .. })),
        (401, "", |e| matches!(e, FollowError::Unauthorized { .. })),
        (403, "", |e| matches!(e, FollowError::Unauthorized { .. })),
        (404, "", |e| matches!(e, FollowError::RunNotFound { run_id } if run_id == RUN)),
        (410, r#"{"title":"Gone","oldest":7}"#, |e| matches!(e, FollowError::Gone { oldest: Some(7), .. })),
        (410, "", |e| matches!(e, FollowError::Gone { oldest: None, .. })),
        (416, r#"{"title":"Past","head":9}"#, |e| matches!(e, FollowError::PastHead { head: Some(9), .. })),
        (416, "", |e| matches!(e, FollowError::PastHead { head: None, .. })),
        (418, "", |e| matches!(e, FollowError::Refused { .. })),
    ];
    for (code, body, is) in table {
        let (told, scripted) = told([status(*code, body)], 2).await;
        assert!(matches!(&told[..], [Err(error)] if is(error)), "{code}: {told:?}");
        assert_eq!(scripted.asked().len(), 1, "{code} is asked once");
    }
}

#[tokio::test]
async fn a_failing_server_is_asked_again() {
    for code in [408, 425, 429, 500, 502, 503, 504] {
        let frames = log(&["a"]);
        let (told, _) = told([status(code, "busy"), status(code, ""), Answer::Rest(frames.clone())], 0).await;
        assert_eq!(bodies(&told), frames, "{code}");
        let cuts = cuts(&told);
        assert_eq!(cuts.len(), 2, "{code}");
        assert_eq!(cuts[0], format!("after 0: the server answered {code}: busy"));
    }
}

#[tokio::test]
async fn retry_after_and_sse_retry_are_floors_of_the_wait() {
    let frames = log(&["a"]);
    let answers = [
        Answer::Status(429, &[("retry-after", "1")], String::new()),
        Answer::Events(format!(": hello\nretry: 50\n\n{}", sse(&frames[..1], 1))),
        Answer::Rest(frames.clone()),
    ];
    let (told, _) = told(answers, 0).await;
    assert_eq!(bodies(&told), frames);
    let waits: Vec<_> = told
        .iter()
        .filter_map(|followed| match followed {
            Ok(Followed::Disconnected { retry_in, .. }) => Some(*retry_in),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [Duration::from_secs(1), Duration::from_millis(50)]);
}

#[tokio::test]
async fn silence_is_a_cut() {
    let frames = log(&["a", "b"]);
    let scripted = Scripted::start([Answer::Silent(sse(&frames[..2], 1)), Answer::Rest(frames.clone())]).await;
    let stream = scripted.client().follow(RUN).backoff(BACKOFF).idle(Duration::from_secs(1)).start();
    let told = all(stream).await;
    assert_eq!(bodies(&told), frames);
    assert_eq!(cuts(&told), ["after 2: nothing came from the server for 1 s"]);
}

#[tokio::test]
async fn a_frame_that_does_not_decode_is_an_error() {
    let good = |seq| format!(r#"{{"protocol":2,"seq":{seq},"run_id":"run_1","ts":"1970-01-01T00:00:00.000Z""#);
    for (data, says) in [
        ("not json".to_owned(), "not a frame envelope"),
        (
            format!(r#"{},"type":"text.flood","segment_id":null,"data":{{}}}}"#, good(2)),
            "`text.flood` is no frame type",
        ),
        (
            format!(r#"{},"type":"text.delta","segment_id":null,"data":{{"text":""}}}}"#, good(2)),
            "`segment_id` is null",
        ),
        (format!(r#"{},"type":"text.delta","segment_id":"s","data":{{}}}}"#, good(2)), "`text`"),
        (format!(r#"{},"type":"text.delta","segment_id":"s","data":{{"text":""}}}}"#, good(0)), "`seq` is 0"),
        (good(2).replace("\"protocol\":2", "\"protocol\":3") + "}", "protocol version 3"),
    ] {
        let answer = Answer::Events(sse(&log(&[])[..1], 1) + &format!("id: 2\ndata: {data}\n\n"));
        let (told, scripted) = told([answer], 0).await;
        let Some(Err(error @ FollowError::BadFrame { after: 1, .. })) = told.last() else { panic!("{data}: {told:?}") };
        assert!(error.to_string().contains(says), "{data}: {error}");
        assert_eq!(scripted.asked().len(), 1, "asking again would bring the same frame");
    }
}

#[tokio::test]
async fn a_frame_of_another_run_is_an_error() {
    let other = body_of("run_2", 1, Data::TextDelta(TextDelta::new("x".into())));
    let (told, _) = told([Answer::Events(sse(&[other], 1))], 0).await;
    assert!(
        matches!(told.last(), Some(Err(FollowError::WrongRun { expected, got, seq: 1 })) if expected == RUN && got == "run_2"),
        "{told:?}"
    );
}

#[tokio::test]
async fn an_event_over_the_limit_is_an_error() {
    let frames = log(&[&"x".repeat(5000)]);
    let scripted = Scripted::start([Answer::Events(sse(&frames, 1))]).await;
    let told = all(scripted.client().follow(RUN).max_event_bytes(4096).start()).await;
    assert!(matches!(told.last(), Some(Err(FollowError::TooLarge { limit: 4096 }))), "{told:?}");
    assert_eq!(bodies(&told[..told.len() - 1]), frames[..1], "what came before it was delivered");
}

#[tokio::test]
async fn an_answer_that_is_no_event_stream_is_an_error() {
    let page = Answer::Status(200, &[("content-type", "text/html")], "<h1>Sign in</h1>".into());
    let (told, _) = told([page], 0).await;
    assert!(
        matches!(&told[..], [Err(FollowError::NotAnEventStream { content_type, .. })] if content_type == "text/html")
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_until_max_elapsed() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ms = Duration::from_millis(1);
    let backoff = Backoff { first: ms, cap: 2 * ms, max_elapsed: Some(20 * ms) };
    let told = all(server(&address, None).follow(RUN).backoff(backoff).start()).await;
    let (last, before) = told.split_last().unwrap();
    assert!(matches!(last, Err(FollowError::GaveUp { last: Disconnect::Unreachable(_), .. })), "{last:?}");
    assert!(before.iter().all(|f| matches!(f, Ok(Followed::Disconnected { reason: Disconnect::Unreachable(_), .. }))));
}

#[tokio::test]
async fn crlf_comments_and_a_byte_order_mark_change_nothing() {
    let frames = log(&["a"]);
    let crlf = format!("\u{feff}: hi\r\n\r\n{}", sse(&frames, 1).replace('\n', "\r\n"));
    let (told, _) = told([Answer::Events(crlf)], 0).await;
    assert_eq!(bodies(&told), frames);
}

#[tokio::test]
async fn nothing_is_asked_before_the_stream_is_polled() {
    let scripted = Scripted::start([Answer::Events(sse(&log(&[]), 1))]).await;
    let stream = follow(&scripted, 0);
    tokio::task::yield_now().await;
    assert!(scripted.asked().is_empty());
    let frames: Vec<Bytes> = bodies(&all(stream).await);
    assert_eq!(frames.len(), 2);
}

#[tokio::test]
async fn g9_dropping_the_stream_closes_the_connection() {
    let scripted = Scripted::start([Answer::Silent(sse(&log(&[])[..1], 1))]).await;
    let mut stream = follow(&scripted, 0);
    while stream.cursor() == 0 {
        stream.next().await.unwrap().unwrap();
    }
    drop(stream);
    scripted.left().await;
}

/// G8, from the reader's side: what is not asked for is not read, so the server's memory and this one's stay small.
#[tokio::test]
async fn nothing_is_read_ahead_of_what_is_asked_for() {
    const BOUND: usize = 64 * 1024 * 1024;
    let sent = Arc::new(AtomicUsize::new(0));
    let frames = log(&[&"x".repeat(64 * 1024)]);
    let scripted = Scripted::start([Answer::Endless(sse(&frames[..2], 1), sent.clone())]).await;
    let mut stream = follow(&scripted, 0);
    while stream.cursor() == 0 {
        stream.next().await.unwrap().unwrap();
    }
    // The server sends until the buffers of the two sockets are full, and then must stand still.
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = sent.load(Ordering::Relaxed);
        assert!(now < BOUND, "{now} bytes were read for one frame that was asked for");
        if now == before {
            break;
        }
        before = now;
    }
}
