//! Any bytes as a recorded stream, in whatever form it is found to be.
//!
//! No panic; where the bytes are cut changes nothing; without building messages and state the verdict is the same; of one
//! object a line, the consumer and the reducer make what the checker says; what was delivered is a stream that is
//! accepted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runwire_agui::{CheckError, Consumer, Form, Judgement};
use runwire_fuzz::pieces::Pieces;
use runwire_fuzz::verdict::{agrees, is_taken_again, judged, made};

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    let pieces = Pieces::take(&mut rest);
    let recording = rest;
    let whole = judged(recording, None, true, None).map_err(said);
    assert_eq!(judged(recording, None, true, Some(pieces.clone())).map_err(said), whole);
    let kept_nothing = judged(recording, None, false, Some(pieces)).map_err(said);
    match (&whole, &kept_nothing) {
        (Ok(whole), Ok(kept_nothing)) => is_the_same_but_for_what_is_kept(whole, kept_nothing),
        (whole, kept_nothing) => assert_eq!(whole.as_ref().err(), kept_nothing.as_ref().err()),
    }
    let Ok(judgement) = whole else { return };
    serde_json::to_string(&judgement).expect("a judgement is JSON");
    if judgement.stream.form == Form::Lines {
        let text = recording.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(recording);
        let text = text.strip_suffix(cut_off(text)).unwrap_or(text);
        let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let made = made(lines, Consumer::push_json);
        agrees(&judgement, &made);
        is_taken_again(&made);
    }
});

/// The last line, when it has no line end and ends inside its JSON: nobody is to judge it.
fn cut_off(text: &[u8]) -> &[u8] {
    let line = text.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    let trimmed = line.trim_ascii();
    let read = serde_json::from_slice::<serde::de::IgnoredAny>(trimmed);
    if !trimmed.is_empty() && read.is_err_and(|error| error.is_eof()) { line } else { &[] }
}

fn said(error: CheckError) -> String {
    error.to_string()
}

fn is_the_same_but_for_what_is_kept(whole: &Judgement, kept_nothing: &Judgement) {
    assert_eq!(whole.report.outcome, kept_nothing.report.outcome);
    assert_eq!(whole.report.error, kept_nothing.report.error);
    assert_eq!(whole.report.runs, kept_nothing.report.runs);
    assert_eq!(
        (whole.stream.events, whole.stream.delivered),
        (kept_nothing.stream.events, kept_nothing.stream.delivered)
    );
    assert!(kept_nothing.report.events.is_empty() && kept_nothing.report.messages.is_empty());
    assert!(kept_nothing.findings.len() <= whole.findings.len());
}
