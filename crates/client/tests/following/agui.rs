//! AG-UI events over server-sent events.

use runwire_agui::{RunEnding, StreamEnd, Truncation, WarningRule};
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
    all(follow.backoff(BACKOFF).recorded().start()).await
}

async fn told(answers: impl IntoIterator<Item = Answer>, last_event_id: Option<&str>) -> (Told, Scripted) {
    let scripted = Scripted::start(answers).await;
    (follow(&scripted, last_event_id).await, scripted)
}

/// The events that were given out, as they came. Each stands for itself here.
fn events(told: &Told) -> Vec<(&str, &str)> {
    told.iter()
        .filter_map(|followed| match followed {
            Ok(AguiFollowed::Events { id, events, received, .. }) => {
                let received = received.as_deref().unwrap();
                let [event] = &events[..] else { panic!("{received} came to {events:?}") };
                assert_eq!(event.to_json_string(), received);
                Some((id.as_str(), received))
            }
            Ok(_) => None,
            Err(error) => panic!("{error}"),
        })
        .collect()
}

/// What the stream has come to, which its last item says, and only that.
fn end(told: &Told) -> &StreamEnd {
    let (last, before) = told.split_last().unwrap();
    assert!(!before.iter().any(|followed| matches!(followed, Ok(AguiFollowed::Ended(_)) | Err(_))), "{told:?}");
    let Ok(AguiFollowed::Ended(end)) = last else { panic!("{told:?}") };
    end
}

fn endings(end: &StreamEnd) -> Vec<&str> {
    end.runs().iter().map(|run| run.ending.as_str()).collect()
}

fn cuts(told: &Told) -> usize {
    told.iter().filter(|followed| matches!(followed, Ok(AguiFollowed::Disconnected { .. }))).count()
}

#[tokio::test]
async fn a_stream_ends_when_the_server_ends_it_behind_a_closed_run() {
    for (last, ending) in [(FINISHED, "success"), (FAILED, "error")] {
        let run = [STARTED, last];
        let (told, scripted) = told([Answer::Events(sse(&run))], None).await;
        assert_eq!(events(&told), run);
        assert!(matches!(end(&told), StreamEnd::Completed { .. }), "{told:?}");
        assert_eq!(endings(end(&told)), [ending]);
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
    assert_eq!(endings(end(&told)), ["error"], "the run failed");
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

/// basic/processing: no path to application code goes around the pipeline, and whether an event conforms depends on those
/// before it.
#[tokio::test]
async fn behind_a_kept_id_the_run_is_judged_from_its_first_event_and_given_out_from_the_next() {
    let (told, scripted) =
        told([Answer::Events(sse(&RUN_EVENTS[2..])), Answer::Events(sse(&RUN_EVENTS))], Some("2.0")).await;
    assert_eq!(events(&told), RUN_EVENTS[2..]);
    assert_eq!(endings(end(&told)), ["success"]);
    let asked: Vec<_> = scripted.asked().iter().map(|asked| asked.last_event_id.clone()).collect();
    assert_eq!(asked, [Some("2.0".to_owned()), None], "first whether that is a place in the run");
}

#[tokio::test]
async fn a_cut_before_the_kept_id_goes_on_where_reading_stopped() {
    let answers = [&RUN_EVENTS[3..], &RUN_EVENTS[..1], &RUN_EVENTS[1..]].map(|events| Answer::Events(sse(events)));
    let (told, scripted) = told(answers, Some("2.1")).await;
    assert_eq!(events(&told), RUN_EVENTS[3..]);
    assert_eq!(scripted.asked()[2].last_event_id.as_deref(), Some("1.0"));
}

#[tokio::test]
async fn a_204_ends_a_stream_that_is_past_the_end_and_only_that() {
    let gone = || Answer::Status(204, &[], String::new());
    let (past, _) = told([gone(), Answer::Events(sse(&RUN_EVENTS))], Some("4.0")).await;
    assert_eq!(events(&past), []);
    assert_eq!(endings(end(&past)), ["success"], "how it ended is known all the same");
    let (unread, _) = told([gone()], None).await;
    assert!(matches!(&unread[..], [Err(FollowError::EndedUnread { .. })]), "{unread:?}");
}

/// basic/processing: what does not conform is not given out, and what came before it stays given out.
#[tokio::test]
async fn a_stream_that_breaks_a_rule_is_rejected_and_that_is_no_failure_and_no_truncation() {
    let broken = [
        ("3.0", r#"{"type":"STEP_FINISHED","stepName":"never opened"}"#),
        ("3.0", r#"{"kind":"RAW"}"#),
        ("3.0", "nonsense"),
        ("3.0", r#"{"type":"RUN_STARTED","threadId":"t","runId":"r2"}"#),
    ];
    for broken in broken {
        let stream = [STARTED, STEP, broken, FINISHED];
        let scripted = Scripted::start([Answer::Events(sse(&stream))]).await;
        let told = all(scripted.client().follow_agui(RUN).backoff(BACKOFF).start()).await;
        let given: Vec<_> = told
            .iter()
            .filter_map(|followed| match followed {
                Ok(AguiFollowed::Events { id, received, .. }) => {
                    assert_eq!(*received, None, "nobody asked for it");
                    Some(id.as_str())
                }
                _ => None,
            })
            .collect();
        assert_eq!(given, ["1.0", "2.0"], "{broken:?}");
        assert_eq!(cuts(&told), 0);
        let StreamEnd::Rejected { runs, violation } = end(&told) else { panic!("{told:?}") };
        assert_eq!((runs[0].ending.clone(), violation.event), (RunEnding::Truncated, 2), "{broken:?}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_short_for_good_is_truncated_and_neither_failed_nor_done() {
    let gone = Answer::Status(204, &[], String::new());
    let (told, _) = told([Answer::Events(sse(&[STARTED, STEP])), gone], None).await;
    assert_eq!(events(&told), [STARTED, STEP]);
    let StreamEnd::Truncated { truncation: Truncation::RunOpen { run_id, .. }, .. } = end(&told) else {
        panic!("{told:?}")
    };
    assert_eq!(run_id, "r");
}

/// One consumer over all connections: what a run opened before a cut is open behind it.
#[tokio::test]
async fn the_rules_hold_across_connections() {
    let (told, _) = told([Answer::Events(sse(&[STARTED, STEP])), Answer::Events(sse(&[FINISHED]))], None).await;
    let StreamEnd::Rejected { violation, .. } = end(&told) else { panic!("{told:?}") };
    assert_eq!(violation.event, 2, "{violation}");
}

#[tokio::test]
async fn what_is_unknown_is_left_out_with_a_warning_and_chunks_are_expanded() {
    let stream = [
        STARTED,
        ("2.0", r#"{"type":"SOMETHING_NEW"}"#),
        ("3.0", r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Hi","unknown":1}"#),
        FINISHED,
    ];
    let (told, _) = told([Answer::Events(sse(&stream))], None).await;
    let given: Vec<_> = told
        .iter()
        .filter_map(|followed| match followed {
            Ok(AguiFollowed::Events { id, events, warnings, .. }) => {
                let types: Vec<_> = events.iter().map(|event| event.event_type().as_str()).collect();
                let rules: Vec<_> = warnings.iter().map(|warning| warning.rule).collect();
                Some((id.as_str(), types, rules))
            }
            _ => None,
        })
        .collect();
    let expected = [
        ("1.0", vec!["RUN_STARTED"], vec![]),
        ("2.0", vec![], vec![WarningRule::UnknownEvent]),
        ("3.0", vec!["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"], vec![WarningRule::UnknownProperty]),
        ("4.0", vec!["TEXT_MESSAGE_END", "RUN_FINISHED"], vec![]),
    ];
    assert_eq!(given, expected);
}

#[tokio::test]
async fn an_event_that_cannot_be_resumed_behind_is_an_error() {
    for (event, says) in [
        ("data: {\"type\":\"RAW\"}\n\n", "no `id`"),
        ("id: seven\ndata: {\"type\":\"RAW\"}\n\n", "`seven`"),
        (
            "id: 1.0\ndata: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\ndata: {\"type\":\"RAW\"}\n\n",
            "no id of its own",
        ),
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
