//! All runs of a session over one connection.

use std::collections::HashMap;

use bytes::Bytes;
use runwire_client::{FollowError, SessionFollowed, SessionStream};
use runwire_frame::{Data, TextDelta};

use crate::scripted::{Answer, BACKOFF, Scripted, all, body_of};

const START: &str = "a:0";

fn frame(run_id: &str, seq: u64) -> Bytes {
    body_of(run_id, seq, Data::TextDelta(TextDelta::new(format!("{run_id} {seq}"))))
}

/// Frames of two runs by turns, each as an event with the cursor behind it.
fn events(frames: &[(&str, u64)]) -> Vec<(String, Bytes)> {
    let mut at: HashMap<&str, u64> = HashMap::new();
    let told = frames.iter().map(|(run_id, seq)| {
        at.insert(run_id, *seq);
        let mut places: Vec<String> = at.iter().map(|(run_id, seq)| format!("{run_id}:{seq}")).collect();
        places.sort();
        (places.join(","), frame(run_id, *seq))
    });
    told.collect()
}

fn sse(events: &[(String, Bytes)]) -> String {
    let events = events.iter().map(|(id, body)| format!("id: {id}\ndata: {}\n\n", std::str::from_utf8(body).unwrap()));
    format!("retry: 1\n\n{}", events.collect::<String>())
}

fn follow(scripted: &Scripted, after: Option<&str>) -> SessionStream {
    scripted.client().follow_session("s").after(after.map(str::to_owned)).backoff(BACKOFF).start()
}

type Told = Vec<Result<SessionFollowed, FollowError>>;

fn got(told: &Told) -> Vec<(String, Bytes)> {
    let frames = told.iter().filter_map(|followed| match followed {
        Ok(SessionFollowed::Frame { cursor, body, .. }) => Some((cursor.clone(), body.clone())),
        _ => None,
    });
    frames.collect()
}

fn gone() -> Answer {
    Answer::Status(410, &[], r#"{"title":"Run is gone","run_id":"a","oldest":3}"#.to_owned())
}

#[tokio::test]
async fn g1_g2_runs_interleave_and_a_cut_behind_any_frame_resumes_from_its_cursor() {
    let whole = events(&[("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 2), ("b", 3), ("a", 4)]);
    for cut in 0..=whole.len() {
        let first = Answer::Broken(sse(&whole[..cut]));
        let scripted = Scripted::start([first, Answer::Events(sse(&whole[cut..])), gone()]).await;
        let told: Told = all(follow(&scripted, None)).await;
        assert_eq!(got(&told), whole, "cut behind {cut}");
        let asked = scripted.asked();
        assert_eq!((asked[0].target.as_str(), &asked[0].last_event_id), ("/v2/sessions/s/stream", &None));
        let cursor = (cut > 0).then(|| whole[cut - 1].0.clone());
        assert_eq!(asked[1].last_event_id, cursor);
        assert!(matches!(told.last(), Some(Err(FollowError::Gone { run_id, oldest: Some(3) })) if run_id == "a"));
    }
}

#[tokio::test]
async fn the_cursor_is_that_of_the_last_frame_that_was_given_out_and_a_kept_one_goes_on() {
    let whole = events(&[("a", 1), ("a", 2), ("b", 1)]);
    let scripted = Scripted::start([Answer::Events(sse(&whole[1..])), gone()]).await;
    let mut stream = follow(&scripted, Some("a:1"));
    assert_eq!(stream.cursor(), Some("a:1"));
    let told: Told = all(&mut stream).await;
    assert_eq!(got(&told), whole[1..]);
    assert_eq!(stream.cursor(), Some("a:2,b:1"));
    assert_eq!(scripted.asked()[0].last_event_id.as_deref(), Some("a:1"));
}

#[tokio::test]
async fn g7_a_gap_of_one_run_is_never_delivered_and_a_duplicate_is_skipped() {
    let whole = events(&[("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
    let gap = [whole[0].clone(), whole[1].clone(), whole[1].clone(), ("a:1,b:3".to_owned(), frame("b", 3))];
    let scripted = Scripted::start([Answer::Events(sse(&gap)), Answer::Events(sse(&whole[2..])), gone()]).await;
    let told: Told = all(follow(&scripted, None)).await;
    assert_eq!(got(&told), whole);
    let cuts: Vec<String> = told
        .iter()
        .filter_map(|followed| match followed {
            Ok(SessionFollowed::Disconnected { after, reason, .. }) => Some(format!("{after:?}: {reason}")),
            _ => None,
        })
        .collect();
    assert_eq!(cuts[0], r#"Some("a:1,b:1"): frame 2 should have come, and frame 3 came"#);
    assert_eq!(scripted.asked()[1].last_event_id.as_deref(), Some("a:1,b:1"));

    let scripted = Scripted::start([Answer::Events(sse(&gap)), Answer::Events(sse(&gap[3..]))]).await;
    let told: Told = all(follow(&scripted, None)).await;
    assert!(matches!(told.last(), Some(Err(FollowError::Gap { expected: 2, got: 3 }))), "{told:?}");
}

#[tokio::test]
async fn what_is_no_stream_of_a_session_is_given_up_with_what_to_do() {
    let one = frame("a", 1);
    let body = std::str::from_utf8(&one).unwrap();
    for (answer, sentence) in [
        (
            Answer::Status(404, &[], String::new()),
            "there is no session `s` on this server, or the token may not see it",
        ),
        (Answer::Status(204, &[], String::new()), "which no session does"),
        (Answer::Events(format!("data: {body}\n\n")), "its id does not say that it is frame 1 of run `a`"),
        (Answer::Events(format!("id: {START}\ndata: {body}\n\n")), "its id does not say that it is frame 1 of run `a`"),
        (Answer::Events("id: a:1\ndata: {}\n\n".to_owned()), "what came after the cursor 0 is no frame"),
    ] {
        let scripted = Scripted::start([answer]).await;
        let told: Told = all(follow(&scripted, None)).await;
        let error = told.last().unwrap().as_ref().unwrap_err().to_string();
        assert!(error.contains(sentence), "{error}");
    }
}
