//! How a recording is read: where it is cut, what comes behind a violation, what of it cannot be read, where it stops.
#![allow(clippy::unwrap_used)]

use runwire_agui::proto::ProtoEncoder;
use runwire_agui::{
    CheckError, CheckOptions, Checker, Event, Finding, Form, Judgement, ReaderLimit, ReportedOutcome, Rule, WarningRule,
};
use serde_json::{Value, json};

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#;
const TEXT: &str = r#"{"type":"TEXT_MESSAGE_START","messageId":"m1"}"#;

fn sse(events: &[&str]) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}

fn lines(events: &[&str]) -> Vec<u8> {
    events.iter().map(|event| format!("{event}\n")).collect::<String>().into_bytes()
}

fn array(events: &[&str]) -> Vec<u8> {
    format!("[{}]", events.join(",")).into_bytes()
}

fn frames(events: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        ProtoEncoder::encode_event(&mut out, &Event::from_value(event.clone()).unwrap()).unwrap();
    }
    out
}

fn judged(pieces: &[&[u8]]) -> Result<Judgement, CheckError> {
    let mut checker = Checker::new(CheckOptions::default());
    for piece in pieces {
        checker.push(piece)?;
    }
    checker.finish()
}

/// The judgement of a recording, which is the same however its bytes are cut.
fn judge(recording: &[u8]) -> Judgement {
    let whole = judged(&[recording]).unwrap();
    for size in [1, 2, 3, 7, 64] {
        let pieces: Vec<&[u8]> = recording.chunks(size).collect();
        assert_eq!(judged(&pieces).unwrap(), whole, "in pieces of {size}");
    }
    for at in 0..recording.len() {
        assert_eq!(judged(&[&recording[..at], &recording[at..]]).unwrap(), whole, "cut at {at}");
    }
    whole
}

/// Why a recording cannot be judged, which is the same however its bytes are cut.
fn refused(recording: &[u8]) -> CheckError {
    let whole = judged(&[recording]).unwrap_err();
    for size in [1, 2, 3, 7, 64] {
        let pieces: Vec<&[u8]> = recording.chunks(size).collect();
        assert_eq!(judged(&pieces).unwrap_err().to_string(), whole.to_string(), "in pieces of {size}");
    }
    whole
}

fn finding<'j>(judgement: &'j Judgement, rule: &str) -> &'j Finding {
    let found = judgement.findings.iter().find(|finding| finding.rule.as_str() == rule);
    found.unwrap_or_else(|| panic!("no {rule} in {:#?}", judgement.findings))
}

#[test]
fn nothing_behind_a_violation_takes_it_back_however_the_bytes_are_cut() {
    let late = [STARTED, FINISHED, TEXT];
    let behind = |mut recording: Vec<u8>, more: &[u8]| {
        recording.extend_from_slice(more);
        recording
    };
    let open = frames(&late.map(|event| serde_json::from_str(event).unwrap()));
    let mut broken_array = array(&late);
    broken_array.pop();
    for recording in [
        behind(sse(&late), b"data: \xff\n\n"),
        behind(lines(&late), b"\xff\n"),
        behind(array(&late), b" and more"),
        behind(broken_array.clone(), b",nonsense]"),
        behind(broken_array, b",{}"),
        behind(open.clone(), b"\0\0\0\x02\xff\xff"),
        // A frame that no client would take.
        behind(open, b"\x7f\xff\xff\xff"),
    ] {
        let judgement = judge(&recording);
        let error = judgement.report.error.as_ref().unwrap();
        assert_eq!((error.rule, error.event), (Rule::EventAfterFinish, 2), "{}", recording.escape_ascii());
        assert_eq!(judgement.findings.len(), 1, "{:#?}", judgement.findings);
        assert_eq!(judgement.stream.bytes, recording.len() as u64, "all of it is counted");
    }
}

#[test]
fn line_ends_behind_a_violation_call_for_no_advice() {
    let recording = [sse(&[STARTED, FINISHED, TEXT]), b"data: x\r\n\r\n".to_vec()].concat();
    assert_eq!(judge(&recording).findings.len(), 1);
    let before = [b": hello\r\n\r\n".to_vec(), sse(&[STARTED, FINISHED, TEXT])].concat();
    finding(&judge(&before), "line-ends");
}

/// basic/processing: every transport answers the same way.
#[test]
fn what_is_not_utf_8_is_no_json_in_every_form_and_at_its_event() {
    let bad = b"{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m1\",\"delta\":\"\xff\"}";
    let before = lines(&[STARTED, TEXT]);
    let in_lines = [&before[..], bad, b"\n"].concat();
    let in_sse = [&sse(&[STARTED, TEXT])[..], b"id: 3\ndata: ", bad, b"\n\n"].concat();
    let in_array = [b"[", STARTED.as_bytes(), b",", TEXT.as_bytes(), b",", bad, b"]"].concat();
    for (recording, offset) in
        [(&in_lines, before.len()), (&in_sse, sse(&[STARTED, TEXT]).len()), (&in_array, STARTED.len() + TEXT.len() + 3)]
    {
        let judgement = judge(recording);
        let error = judgement.report.error.as_ref().unwrap();
        assert_eq!((error.rule, error.event), (Rule::MalformedJson, 2));
        assert_eq!(error.message, "The event is not UTF-8.");
        let found = finding(&judgement, "malformed-json");
        assert_eq!(found.offset, offset as u64);
        assert!(found.found.contains("invalid bytes at position "), "{found:#?}");
        assert!(found.excerpt.as_ref().is_some_and(|excerpt| excerpt.contains("TEXT_MESSAGE_CONTENT")), "{found:#?}");
    }
    let comment = [&sse(&[STARTED])[..], b": \xff\n"].concat();
    let comment = judge(&comment);
    let found = finding(&comment, "malformed-json");
    assert_eq!((found.offset, found.length), (sse(&[STARTED]).len() as u64, 4), "from the line that is wrong");
}

#[test]
fn half_a_surrogate_pair_is_no_text_and_is_not_called_no_json() {
    let cut = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"\ud83d"}"#;
    for recording in [lines(&[STARTED, TEXT, cut]), sse(&[STARTED, TEXT, cut]), array(&[STARTED, TEXT, cut])] {
        let judgement = judge(&recording);
        let found = finding(&judgement, "malformed-json");
        assert!(found.message.contains("half of a surrogate pair at line 1 column "), "{}", found.message);
        assert!(found.message.contains("an emoji") && !found.message.contains("not a JSON"), "{}", found.message);
        assert!(found.expected.contains("both halves of a surrogate pair"), "{}", found.expected);
        assert!(found.found.starts_with("half of a surrogate pair"), "{}", found.found);
        assert_eq!(found.event, 2);
    }
}

#[test]
fn what_goes_past_a_limit_of_the_reader_is_named_and_judged_by_nobody() {
    let state = |value: &str| format!(r#"{{"type":"STATE_SNAPSHOT","snapshot":{value}}}"#);
    let deep = state(&format!("{}{}", "[".repeat(200), "]".repeat(200)));
    for (event, limit, words) in [
        (deep, ReaderLimit::Nesting, "event 1 of the stream nests more than 127 levels"),
        (state("1e400"), ReaderLimit::NumberRange, "event 1 of the stream holds a number beyond the range"),
    ] {
        let stream = [STARTED, &event, FINISHED];
        for recording in [lines(&stream), sse(&stream), array(&stream)] {
            let error = refused(&recording);
            assert!(matches!(error, CheckError::BeyondReader { event: 1, limit: told } if told == limit), "{error}");
            assert!(error.to_string().starts_with(words) && !error.to_string().contains("not"), "{error}");
        }
        // What was found before it is.
        let late = [STARTED, FINISHED, TEXT, &event];
        assert_eq!(judge(&lines(&late)).report.outcome, ReportedOutcome::Rejected);
    }
}

#[test]
fn frames_that_nest_too_deep_go_past_the_same_limit() {
    let started: Value = serde_json::from_str(STARTED).unwrap();
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let state = |levels: usize| json!({ "type": "STATE_SNAPSHOT", "snapshot": deep(levels) });
    let finished = serde_json::from_str(FINISHED).unwrap();
    assert_eq!(judge(&frames(&[started.clone(), state(126), finished])).report.outcome, ReportedOutcome::Completed);
    let error = refused(&frames(&[started, state(127)]));
    let CheckError::BeyondReader { event: 1, limit: ReaderLimit::Nesting } = error else { panic!("{error}") };
}

#[test]
fn a_line_that_is_cut_off_is_a_truncation_and_one_that_is_wrong_is_not() {
    let part = r#"{"type":"TEXT_MESSAGE_CON"#;
    let cut = |before: &[&str], part: &str| [lines(before), part.as_bytes().to_vec()].concat();
    for part in [part, "{", r#"{"type":"X","n":12"#, r#"{"type":"X","a":[tru"#, "{\"type\":\"\\ud8", "  {\"a\":\"x "] {
        let judgement = judge(&cut(&[STARTED, TEXT], part));
        assert_eq!(judgement.report.outcome, ReportedOutcome::Truncated, "{part}");
        let warning = finding(&judgement, "unterminated-event");
        assert_eq!(warning.message, "The stream stopped inside a line, which was discarded.");
        let part = part.trim();
        assert_eq!(warning.offset + warning.length, judgement.stream.bytes);
        assert_eq!(warning.excerpt.as_deref(), Some(part));
        assert_eq!(finding(&judgement, "truncated-stream").event, 2);
    }
    let whole_run = judge(&cut(&[STARTED, FINISHED], part));
    assert_eq!(whole_run.report.outcome, ReportedOutcome::Completed);
    assert_eq!(whole_run.report.warnings[0].rule, WarningRule::UnterminatedEvent);
    // Nothing is missing of a last line without a line end, nor of one that could not be the beginning of an event.
    assert_eq!(judge(&cut(&[STARTED], FINISHED)).findings, []);
    for wrong in ["{\"type\" 1", "<html>", "{\"type\":\"X\"} {"] {
        let judgement = judge(&cut(&[STARTED], wrong));
        assert_eq!(judgement.report.error.as_ref().map(|error| error.rule), Some(Rule::MalformedJson), "{wrong}");
    }
    let ended = judge(&[cut(&[STARTED], part), b"\n".to_vec()].concat());
    assert_eq!(ended.report.outcome, ReportedOutcome::Rejected, "the line says itself that it has ended");
}

#[test]
fn what_the_stream_stopped_inside_of_is_told_by_the_page_of_its_form_from_where_it_begins() {
    let page = |path: &str| format!("https://docs.ag-ui.com/spec/1.0/{path}");
    let in_sse = [&sse(&[STARTED])[..], b"id: 2\ndata: {\"type\":\"RUN"].concat();
    let judgement = judge(&in_sse);
    let warning = finding(&judgement, "unterminated-event");
    assert_eq!(warning.page, page("basic/transports/http-sse#response"));
    assert_eq!((warning.event, warning.offset), (1, sse(&[STARTED]).len() as u64));
    assert_eq!(warning.offset + warning.length, in_sse.len() as u64);
    assert_eq!(warning.excerpt.as_deref(), Some("id: 2 data: {\"type\":\"RUN"));
    assert_eq!(warning.expected, "An SSE event ends with a blank line.");

    let whole = frames(&[serde_json::from_str(STARTED).unwrap(), serde_json::from_str(FINISHED).unwrap()]);
    let first = frames(&[serde_json::from_str(STARTED).unwrap()]).len();
    for (kept, found) in [
        (whole.len() - 1, "13 of the 14 bytes that the header of a frame announces"),
        (first + 4, "0 of the 14 bytes that the header of a frame announces"),
        (first + 3, "3 of the 4 bytes of a frame's header"),
    ] {
        let judgement = judge(&whole[..kept]);
        let warning = finding(&judgement, "unterminated-event");
        assert_eq!(warning.page, page("basic/transports/http-protobuf#framing"));
        assert_eq!((warning.offset, warning.length), (first as u64, (kept - first) as u64));
        assert_eq!((warning.found.as_str(), &warning.excerpt), (found, &None));
        assert!(!warning.expected.contains("SSE"), "{}", warning.expected);
    }
}

#[test]
fn a_comment_that_is_cut_off_is_no_event() {
    let judgement = judge(&[&sse(&[STARTED, FINISHED])[..], b": still he"].concat());
    assert_eq!((judgement.report.outcome, &judgement.findings[..]), (ReportedOutcome::Completed, &[][..]));
}

#[test]
fn what_is_looked_past_to_know_the_form_is_no_part_of_the_first_event() {
    let events = [STARTED, FINISHED].map(|event| serde_json::from_str(event).unwrap());
    for (recording, form) in [
        (sse(&[STARTED, FINISHED]), Form::Sse),
        (lines(&[STARTED, FINISHED]), Form::Lines),
        (array(&[STARTED, FINISHED]), Form::Array),
        (frames(&events), Form::Protobuf),
    ] {
        for before in [" ", "\n\t ", "\u{feff}", "\u{feff} \n"] {
            let judgement = judge(&[before.as_bytes(), &recording].concat());
            assert_eq!((judgement.report.outcome, judgement.stream.form), (ReportedOutcome::Completed, form));
        }
    }
    let first = judge(&[b"  ", &sse(&[TEXT])[..]].concat());
    assert_eq!(finding(&first, "first-event").offset, 2);
}
