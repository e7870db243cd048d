//! AG-UI events over server-sent events.

use runwire_client::{AguiFollowed, FollowError};

use crate::scripted::{Answer, BACKOFF, RUN, Scripted, all};

const STARTED: (&str, &str) = ("1.0", r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#);
const STEP: (&str, &str) = ("2.0", r#"{"type":"STEP_STARTED","stepName":"wörk"}"#);
const STEPPED: (&str, &str) = ("2.1", r#"{"type":"STEP_FINISHED","stepName":"wörk"}"#);
const FINISHED: (&str, &str) = ("4.0", r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#);
const FAILED: (&str, &str) = ("5.0", r#"{"type":"RUN_ERROR","message":"flush failed"}"#);
const RUN_EVENTS: [(&str, &str); 4] = [STARTED, STEP, STEPPED, FINISHED];

type Told = Vec<Result<AguiFollowed, FollowError>>;

fn sse(events: &[(&str, &str)]) -> String {
    events.iter().map(|(id, json)| format!("id: {id}\ndata: {json}\n\n")).collect()
}

async fn follow(scripted: &Scripted, last_event_id: Option<&str>) -> Told {
    let follow = scripted.client().follow_agui(RUN).last_event_id(last_event_id.map(str::to_owned));
    all(follow.backoff(BACKOFF).start()).await
}

async fn told(answers: impl IntoIterator<Item = Answer>, last_event_id: Option<&str>) -> (Told, Scripted) {
    let scripted = Scripted::start(answers).await;
    (follow(&scripted, last_event_id).await, scripted)
}

fn events(told: &Told) -> Vec<(&str, &str)> {
    told.iter()
        .filter_map(|followed| match followed {
            Ok(AguiFollowed::Event { id, json }) => Some((id.as_str(), json.as_str())),
            Ok(_) => None,
            Err(error) => panic!("{error}"),
        })
        .collect()
}

fn cuts(told: &Told) -> usize {
    told.iter().filter(|followed| matches!(followed, Ok(AguiFollowed::Disconnected { .. }))).count()
}

#[tokio::test]
async fn a_stream_ends_when_the_server_ends_it_behind_a_closed_run() {
    for last in [FINISHED, FAILED] {
        let run = [STARTED, last];
        let (told, scripted) = told([Answer::Events(sse(&run))], None).await;
        assert_eq!(events(&told), run);
        assert_eq!(cuts(&told), 0);
        let asked = scripted.asked();
        assert_eq!((asked[0].target.as_str(), &asked[0].last_event_id), ("/v2/runs/run_1/agui", &None));
    }
}

#[tokio::test]
async fn run_error_after_run_finished_is_delivered() {
    let run = [STARTED, FINISHED, FAILED];
    let (told, _) = told([Answer::Events(sse(&run))], None).await;
    assert_eq!(events(&told), run);
}

#[tokio::test]
async fn a_cut_at_every_byte_loses_nothing_and_repeats_nothing() {
    let whole = sse(&RUN_EVENTS);
    let scripted = Scripted::start([]).await;
    for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
        let complete = whole[..cut].matches("\n\n").count();
        let rest = sse(&RUN_EVENTS[complete..]);
        scripted.then([Answer::Events(whole[..cut].to_owned()), Answer::Events(rest)]);
        let told = follow(&scripted, None).await;
        assert_eq!(events(&told), RUN_EVENTS, "cut at byte {cut}");
        assert_eq!(cuts(&told), 1, "cut at byte {cut}");
        let resumed = complete.checked_sub(1).map(|i| RUN_EVENTS[i].0);
        assert_eq!(scripted.asked()[1].last_event_id.as_deref(), resumed, "cut at byte {cut}");
    }
}

#[tokio::test]
async fn a_replayed_event_is_skipped() {
    let (told, _) = told([Answer::Events(sse(&[STARTED, STEP])), Answer::Events(sse(&RUN_EVENTS))], None).await;
    assert_eq!(events(&told), RUN_EVENTS);
}

#[tokio::test]
async fn a_connection_that_breaks_behind_a_closed_run_is_asked_whether_that_was_all() {
    let over = Answer::Status(204, &[], String::new());
    let (told, scripted) = told([Answer::Broken(sse(&[STARTED, FINISHED])), over], None).await;
    assert_eq!(events(&told), [STARTED, FINISHED]);
    assert_eq!(cuts(&told), 1);
    assert_eq!(scripted.asked()[1].last_event_id.as_deref(), Some("4.0"));
}

#[tokio::test]
async fn a_kept_id_goes_on_at_the_next_event() {
    let (told, scripted) = told([Answer::Events(sse(&RUN_EVENTS[2..]))], Some("2.0")).await;
    assert_eq!(events(&told), RUN_EVENTS[2..]);
    assert_eq!(scripted.asked()[0].last_event_id.as_deref(), Some("2.0"));
}

#[tokio::test]
async fn a_204_ends_a_stream_that_is_past_the_end_and_only_that() {
    let gone = || Answer::Status(204, &[], String::new());
    let (past, _) = told([gone()], Some("4.0")).await;
    assert!(past.is_empty(), "{past:?}");
    let (unread, _) = told([gone()], None).await;
    assert!(matches!(&unread[..], [Err(FollowError::EndedUnread { .. })]), "{unread:?}");
}

#[tokio::test]
async fn an_event_that_cannot_be_resumed_behind_is_an_error() {
    for (event, says) in [
        ("data: {\"type\":\"RAW\"}\n\n", "no `id`"),
        ("id: seven\ndata: {\"type\":\"RAW\"}\n\n", "`seven`"),
        ("id: 1.0\ndata: {\"kind\":\"RAW\"}\n\n", "`type`"),
        ("id: 1.0\ndata: nonsense\n\n", "expected"),
        ("id: 1.0\ndata: {\"type\":\"RAW\"}\n\ndata: {\"type\":\"RAW\"}\n\n", "no id of its own"),
    ] {
        let (told, _) = told([Answer::Events(event.to_owned())], None).await;
        let Some(Err(error @ FollowError::BadEvent { .. })) = told.last() else { panic!("{event}: {told:?}") };
        assert!(error.to_string().contains(says), "{event}: {error}");
    }
}

#[tokio::test]
async fn what_cannot_be_repaired_is_an_error_at_once() {
    for (code, name) in
        [(401, "Unauthorized"), (404, "RunNotFound"), (410, "Gone"), (416, "PastHead"), (400, "Refused")]
    {
        let (told, _) = told([Answer::Status(code, &[], String::new())], None).await;
        assert!(matches!(&told[..], [Err(error)] if format!("{error:?}").starts_with(name)), "{code}: {told:?}");
    }
}
