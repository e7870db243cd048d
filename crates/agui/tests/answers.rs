//! How a check holds a response over HTTP against the bindings, and what its times say.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use runwire_agui::proto::{Accept, MEDIA_TYPE};
use runwire_agui::{Answer, CheckOptions, Checker, ReportedOutcome, Severity};

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;
const FAILED: &str = r#"{"type":"RUN_ERROR","message":"down"}"#;

/// The rules that a whole run finds broken whose response began so.
fn rules(status: u16, content_type: &str, accept: Option<&str>) -> Vec<String> {
    let mut checker = Checker::new(CheckOptions::default());
    checker.answered(&Answer { status, content_type, accept: accept.map(|value| Accept::of([value])) });
    checker.push(format!("{STARTED}\n{FINISHED}\n").as_bytes()).unwrap();
    let judgement = checker.finish().unwrap();
    assert_eq!(judgement.report.outcome, ReportedOutcome::Completed, "a client goes on");
    assert!(judgement.findings.iter().all(|finding| finding.severity == Severity::Warning && finding.event == 0));
    assert_eq!(judgement.report.warnings.len(), judgement.findings.len());
    judgement.findings.iter().map(|finding| finding.rule.to_string()).collect()
}

/// transports/http-sse, "Response"; transports/http-protobuf, "Negotiation".
#[test]
fn an_answer_is_held_against_the_bindings() {
    let both = format!("text/event-stream, {MEDIA_TYPE}");
    let with_parameter = format!("{MEDIA_TYPE}; charset=utf-8");
    let sse = "text/event-stream";
    let none: [&str; 0] = [];
    assert_eq!(rules(200, "text/event-stream; charset=utf-8", Some(sse)), none);
    assert_eq!(rules(200, sse, Some(&both)), none, "a producer need not have the other binding");
    assert_eq!(rules(200, MEDIA_TYPE, Some(&both)), none);
    assert_eq!(rules(200, MEDIA_TYPE, Some("*/*")), none, "a wildcard admits it");
    assert_eq!(rules(200, MEDIA_TYPE, None), none, "nobody knows what was asked for");
    assert_eq!(rules(201, sse, Some(sse)), ["response-status"]);
    assert_eq!(rules(200, MEDIA_TYPE, Some(sse)), ["unasked-protobuf"]);
    assert_eq!(rules(200, MEDIA_TYPE, Some(&format!("{sse}, {MEDIA_TYPE};q=0"))), ["unasked-protobuf"]);
    assert_eq!(rules(200, &with_parameter, Some(&both)), ["protobuf-content-type"]);
    assert_eq!(rules(200, &MEDIA_TYPE.to_uppercase(), Some(&both)), ["protobuf-content-type"]);
    let all = ["response-status", "unasked-protobuf", "protobuf-content-type"];
    assert_eq!(rules(206, &with_parameter, Some(sse)), all);
}

/// What is found of a response whose bytes came after 1 s, and that nobody waits for any longer after `left` s.
fn left(events: &[&str], left: u64) -> Vec<String> {
    let mut checker = Checker::new(CheckOptions::default());
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    checker.push_at(stream.as_bytes(), Duration::from_secs(1)).unwrap();
    checker.left_at(Duration::from_secs(left));
    checker.finish().unwrap().findings.iter().map(|finding| finding.rule.to_string()).collect()
}

/// transports/http-sse, "Response": the producer closes the response body after the last run's terminal event.
#[test]
fn a_response_that_stays_open_behind_its_runs_is_told_and_is_no_silence() {
    for events in [&[STARTED, FINISHED][..], &[STARTED, FAILED], &[FAILED], &[STARTED, FINISHED, FAILED]] {
        assert_eq!(left(events, 61), ["response-left-open"], "{events:#?}");
    }
    let next = STARTED.replace("\"runId\":\"r\"", "\"runId\":\"r2\"");
    for events in [&[STARTED][..], &[STARTED, FINISHED, &next]] {
        assert_eq!(left(events, 61), ["truncated-stream", "long-silence"], "{events:#?}");
        assert_eq!(left(events, 2), ["truncated-stream"], "{events:#?}");
    }
    assert_eq!(left(&[], 61), ["truncated-stream", "long-silence"]);
}

/// A run around these lines, as one JSON object a line.
fn run(lines: &[&str]) -> String {
    [&[STARTED], lines, &[FINISHED]].concat().iter().map(|line| format!("{line}\n")).collect()
}

/// The rules of the advice for a response whose bytes came at these times, in milliseconds.
fn advice(pieces: &[(u64, &str)]) -> Vec<String> {
    let mut checker = Checker::new(CheckOptions::default());
    for (at, piece) in pieces {
        checker.push_at(piece.as_bytes(), Duration::from_millis(*at)).unwrap();
    }
    checker.finish().unwrap().findings.iter().map(|finding| finding.rule.to_string()).collect()
}

#[test]
fn only_a_response_that_waited_and_then_came_at_once_was_held_back() {
    let chunk = r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d"}"#;
    let stream = run(&[chunk, chunk, chunk]);
    let (half, rest) = stream.split_at(stream.len() / 2);
    assert_eq!(advice(&[(1000, half), (1050, rest)]), ["one-burst"]);
    let quiet: [&[(u64, &str)]; 3] = [&[(900, half), (950, rest)], &[(1000, half), (1200, rest)], &[(5000, &run(&[]))]];
    for pieces in quiet {
        assert_eq!(advice(pieces), [""; 0], "{pieces:?}");
    }
}

#[test]
fn only_more_than_thirty_seconds_without_a_byte_are_a_long_silence() {
    let started = format!("data: {STARTED}\n\n");
    let finished = format!("data: {FINISHED}\n\n");
    assert_eq!(advice(&[(10, &started), (30_011, &finished)]), ["long-silence"]);
    assert_eq!(advice(&[(31_000, &started), (31_500, &finished)]), ["long-silence"]);
    assert_eq!(advice(&[(10, &started), (30_010, &finished)]), [""; 0]);
    assert_eq!(advice(&[(10, &started), (20_000, ":\n\n"), (40_000, &finished)]), [""; 0]);
}

#[test]
fn a_silence_before_the_connection_ends_is_one_too() {
    let mut checker = Checker::new(CheckOptions::default());
    checker.push_at(format!("data: {STARTED}\n\n").as_bytes(), Duration::from_secs(1)).unwrap();
    checker.ended_at(Duration::from_secs(61));
    let rules: Vec<String> =
        checker.finish().unwrap().findings.iter().map(|finding| finding.rule.to_string()).collect();
    assert_eq!(rules, ["truncated-stream", "long-silence"]);
}
