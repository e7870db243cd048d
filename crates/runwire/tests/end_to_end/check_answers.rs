//! `runwire check URL`: how an agent answers, apart from the events in it.

use runwire_agui::proto::MEDIA_TYPE;
use serde_json::{Value, json};

use crate::check_sources::{answering, events, frames, head, sse};
use crate::program::{Done, run};

/// Checks an agent that answers so, as the run `r` on the thread `t`.
async fn check<B: AsRef<[u8]> + Send + 'static>(pieces: Vec<(u64, B)>, more: &[&str]) -> Done {
    let folder = tempfile::tempdir().unwrap();
    let input = json!({ "threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0" });
    std::fs::write(folder.path().join("input.json"), input.to_string()).unwrap();
    let (url, served) = answering(pieces).await;
    let done = run(folder.path(), &[&["check", &url, "--input", "input.json"], more].concat()).await;
    served.abort();
    done
}

fn rules(report: &Value) -> Vec<&Value> {
    report["findings"].as_array().unwrap().iter().map(|finding| &finding["rule"]).collect()
}

/// Longer than anybody waits for the end of an answer.
const NEVER: u64 = 600_000;

/// transports/http-sse, "Response": the producer closes the response body after the last run's terminal event.
#[tokio::test]
async fn a_response_that_stays_open_behind_its_runs_is_judged_and_that_is_told() {
    let pieces = vec![(0, head("200 OK", "text/event-stream") + &sse(&events())), (NEVER, String::new())];
    let done = check(pieces, &["--timeout", "3s", "--format", "json"]).await.exits(0);
    let report = done.json_lines().remove(0);
    assert_eq!((&report["outcome"], json!(rules(&report))), (&json!("completed"), json!(["response-left-open"])));
    assert_eq!(done.stderr, "", "it is not said to go on");
}

#[tokio::test]
async fn of_a_run_that_is_not_waited_for_any_longer_the_warnings_are_told() {
    let [started, _] = events();
    let stream = sse(&[started, json!({ "type": "NEWS" })]);
    let pieces = vec![(0, head("200 OK", "text/event-stream") + &stream), (NEVER, String::new())];
    let done = check(pieces, &["--timeout", "3s"]).await;
    assert!(!done.stderr.contains("secret") && !done.stderr.contains("truncated"), "{}", done.stderr);
    done.could_not(&[
        "warning unknown-event at event 1: NEWS is no event type",
        "still going on after 3 s and 2 events",
    ]);
}

/// transports/http-sse, "Response"; transports/http-protobuf, "Negotiation".
#[tokio::test]
async fn an_answer_that_the_bindings_want_otherwise_is_warned_of_and_judged_all_the_same() {
    let binary = |content_type: &str| {
        let answer = [head("200 OK", content_type).as_bytes(), &frames(&events())].concat();
        vec![(0, answer)]
    };
    let accept_both = format!("Accept: text/event-stream, {MEDIA_TYPE}");
    let with_parameter = format!("{MEDIA_TYPE}; charset=utf-8");
    let created = vec![(0, (head("201 Created", "text/event-stream") + &sse(&events())).into_bytes())];
    for (pieces, more, expected) in [
        (created, &[][..], json!(["response-status"])),
        (binary(MEDIA_TYPE), &[], json!(["unasked-protobuf"])),
        (binary(&with_parameter), &["--header", &accept_both], json!(["protobuf-content-type"])),
        (binary(MEDIA_TYPE), &["--header", &accept_both], json!([])),
    ] {
        let done = check(pieces, &[&["--format", "json"], more].concat()).await.exits(0);
        let report = done.json_lines().remove(0);
        assert_eq!((&report["outcome"], json!(rules(&report))), (&json!("completed"), expected));
    }
}

#[tokio::test]
async fn a_violation_is_told_however_the_answer_is_cut_and_whatever_is_behind_it() {
    let [started, finished] = events();
    let answer = head("200 OK", "text/event-stream") + &sse(&[started, finished.clone(), finished]);
    let behind = b"data: \xff\n\n".to_vec();
    let at_once = [answer.as_bytes(), &behind].concat();
    for pieces in [vec![(0, at_once)], vec![(0, answer.clone().into_bytes()), (100, behind)]] {
        let report = check(pieces, &["--json"]).await.exits(1).json_lines().remove(0);
        assert_eq!(report["error"]["rule"], "event-after-finish", "{report}");
    }
}
