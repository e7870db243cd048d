//! What a check finds: where, what was expected, what came, and what an earlier event said otherwise.
#![allow(clippy::unwrap_used)]

use runwire_agui::proto::ProtoEncoder;
use runwire_agui::{
    CheckError, CheckOptions, Checker, Finding, Form, Judgement, Keep, ReportedOutcome, Severity, decode_event,
    steers_text,
};
use serde_json::{Value, json};

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;

fn judge_with(stream: &str, keep: Keep, piece: usize) -> Judgement {
    let mut checker = Checker::new(CheckOptions { keep, ..CheckOptions::default() });
    for bytes in stream.as_bytes().chunks(piece) {
        checker.push(bytes).unwrap();
    }
    checker.finish().unwrap()
}

fn judge(stream: &str) -> Judgement {
    judge_with(stream, Keep::Everything, usize::MAX)
}

/// A run around these lines, as one JSON object a line.
fn run(lines: &[&str]) -> String {
    [&[STARTED], lines, &[FINISHED]].concat().iter().map(|line| format!("{line}\n")).collect()
}

fn only(judgement: &Judgement) -> &Finding {
    let [finding] = &judgement.findings[..] else { panic!("{:#?}", judgement.findings) };
    finding
}

/// What the finding says of an earlier event: which, and what it did.
fn earlier(lines: &[&str]) -> Option<(usize, String)> {
    let stream = run(lines);
    let judgement = judge(&stream);
    let violation = judgement.findings.iter().find(|finding| finding.severity == Severity::Violation).unwrap();
    let earlier = violation.contradicts.as_ref()?;
    let line = stream.lines().nth(earlier.event).unwrap();
    assert!(stream[earlier.offset as usize..].starts_with(line), "{earlier:?}");
    Some((earlier.event, earlier.what.clone()))
}

#[test]
fn a_finding_has_the_place_the_page_the_expectation_and_the_event() {
    let bad = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":7}"#;
    let stream = format!(": hello\n\ndata: {STARTED}\n\nid: 2\ndata: {bad}\n\ndata: {FINISHED}\n\n");
    let judgement = judge(&stream);
    let finding = only(&judgement);
    let offset = stream.find("id: 2").unwrap();
    let expected = json!({
        "rule": "malformed-value",
        "severity": "violation",
        "message": "TEXT_MESSAGE_CONTENT is malformed at /delta: expected a string, found the number 7.",
        "event": 1,
        "offset": offset,
        "length": format!("id: 2\ndata: {bad}\n\n").len(),
        "path": "/delta",
        "page": "https://docs.ag-ui.com/spec/1.0/basic/processing#the-rule",
        "expected": "a string",
        "found": "the number 7",
        "contradicts": null,
        "excerpt": bad,
    });
    assert_eq!(serde_json::to_value(finding).unwrap(), expected);
    assert_eq!((judgement.stream.form, judgement.stream.bytes), (Form::Sse, stream.len() as u64));
    // The one that was rejected is the last that was read.
    assert_eq!((judgement.stream.events, judgement.stream.delivered), (2, 1));
}

#[test]
fn a_sequence_error_names_the_event_that_it_contradicts() {
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#;
    let end = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    let content = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d"}"#;
    let snapshot = r#"{"type":"STATE_SNAPSHOT","snapshot":{}}"#;
    let step = r#"{"type":"STEP_STARTED","stepName":"s"}"#;
    let other_step = r#"{"type":"STEP_STARTED","stepName":"s","subagentRunId":"a"}"#;
    let step_end = r#"{"type":"STEP_FINISHED","stepName":"s"}"#;
    let subagent = r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n"}"#;
    let subagent_end = r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"a"}"#;
    let tagged = r#"{"type":"STATE_SNAPSHOT","snapshot":{},"subagentRunId":"a"}"#;
    let chunk = r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d"}"#;
    let bare_chunk = r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"d"}"#;
    let user_chunk = r#"{"type":"TEXT_MESSAGE_CHUNK","role":"user","delta":"d"}"#;
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#;
    let owned_text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"b"}"#;
    let owned_call =
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m","subagentRunId":"a"}"#;
    let activity = r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"x","activityType":"y","content":{}}"#;
    let delta = r#"{"type":"ACTIVITY_DELTA","messageId":"x","activityType":"y","patch":[],"subagentRunId":"a"}"#;
    let cases: [(&[&str], usize, &str); 19] = [
        (&[text, content], 1, "opened text message 'm'"),
        (&[text, text], 1, "opened text message 'm'"),
        (&[text, end, content], 2, "closed text message 'm'"),
        (&[call], 1, "opened tool call 'c'"),
        (&[snapshot, step, snapshot], 2, "opened step 's'"),
        (&[step, snapshot, step], 1, "opened step 's'"),
        (&[step, step_end, step_end], 2, "closed step 's'"),
        (&[other_step, step_end], 1, "opened step 's' of subagent 'a'"),
        (&[subagent], 1, "opened subagent 'a'"),
        (&[subagent, subagent_end, subagent], 2, "closed subagent 'a'"),
        (&[subagent, subagent_end, subagent_end], 2, "closed subagent 'a'"),
        (&[snapshot, tagged, subagent], 2, "was attributed to subagent 'a'"),
        (&[snapshot, STARTED], 0, "opened the run that is still open"),
        (&[FINISHED], 1, "closed the run"),
        // The snapshot ended the shorthand, which is why the next chunk would have to say what it opens.
        (&[chunk, snapshot, bare_chunk], 2, "closed text message 'm'"),
        (&[chunk, bare_chunk, user_chunk], 1, "opened text message 'm'"),
        (&[owned_text, end, owned_call], 1, "said who owns text message 'm'"),
        (&[activity, snapshot, delta], 1, "said who owns activity 'x'"),
        (&[r#"{"type":"RUN_FINISHED","threadId":"t","runId":"other"}"#], 0, "opened the run"),
    ];
    for (lines, event, what) in cases {
        assert_eq!(earlier(lines), Some((event, what.to_owned())), "{lines:#?}");
    }
}

#[test]
fn nothing_is_contradicted_by_an_event_that_is_wrong_by_itself_or_that_nothing_led_to() {
    for line in [
        r#"{"type":"STEP_FINISHED","stepName":"s"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d"}"#,
        r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"d"}"#,
        r#"{"type":"CUSTOM"}"#,
        "{",
    ] {
        assert_eq!(earlier(&[line]), None, "{line}");
    }
}

#[test]
fn pending_tool_calls_name_the_call_that_is_missing_or_the_answer() {
    let call = |id: &str| {
        [
            format!(r#"{{"type":"TOOL_CALL_START","toolCallId":"{id}","toolCallName":"f"}}"#),
            format!(r#"{{"type":"TOOL_CALL_END","toolCallId":"{id}"}}"#),
        ]
    };
    let [a, a_end] = call("a");
    let [b, b_end] = call("b");
    let answer = r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"a","content":"x"}"#;
    let pending =
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":["a"]}}"#;
    let missing = earlier(&[&a, &a_end, &b, &b_end, pending]);
    assert_eq!(missing, Some((3, "opened tool call 'b', which is not in the list".to_owned())));
    assert_eq!(earlier(&[&a, &a_end, answer, pending]), Some((3, "answered tool call 'a'".to_owned())));
}

#[test]
fn what_came_is_the_event_in_words_or_what_stands_at_the_path() {
    let violation = judge(&run(&[r#"{"type":"STEP_FINISHED","stepName":"s","subagentRunId":"a"}"#]));
    assert_eq!(only(&violation).found, r#"STEP_FINISHED of stepName "s", subagentRunId "a""#);
    let unknown = judge(&run(&[r#"{"type":"TOKEN_COUNT","n":1}"#]));
    assert_eq!((only(&unknown).found.as_str(), only(&unknown).path.as_deref()), ("\"TOKEN_COUNT\"", Some("/type")));
    let stripped = judge(&run(&[r#"{"type":"STATE_SNAPSHOT","snapshot":1,"new":{"x":[1]}}"#]));
    assert_eq!(only(&stripped).found, r#"{"x":[1]}"#);
    let syntax = judge(&run(&["{"]));
    assert_eq!(only(&syntax).expected, "one JSON object");
    assert!(only(&syntax).found.contains("EOF"), "{:?}", only(&syntax));
}

#[test]
fn a_long_event_is_shown_cut_and_on_one_line() {
    let long = "ü".repeat(10_000);
    let judgement = judge(&run(&[&format!(r#"{{"type":"CUSTOM","name":"n","value":"{long}"}}"#)]));
    let excerpt = only(&judgement).excerpt.as_deref().unwrap();
    assert!(excerpt.starts_with(r#"{"type":"CUSTOM","#) && excerpt.ends_with("ü…"), "{excerpt}");
    assert_eq!(excerpt.chars().count(), 241);
    let array = judge("[\n {\n  \"type\": \"NEWS\"\n }\n]");
    assert_eq!(array.findings[0].excerpt.as_deref(), Some("{   \"type\": \"NEWS\"  }"));
}

#[test]
fn a_truncation_is_a_finding_of_its_own_kind_at_the_event_that_did_not_come() {
    let judgement = judge(&format!("{STARTED}\n"));
    let finding = only(&judgement);
    assert_eq!((finding.severity, finding.rule.as_str(), finding.event), (Severity::Truncation, "truncated-stream", 1));
    assert_eq!((finding.offset, finding.length), (STARTED.len() as u64 + 1, 0));
    assert_eq!(finding.excerpt, None);
    assert_eq!(judgement.report.outcome, ReportedOutcome::Truncated);
}

#[test]
fn the_judgement_is_the_same_however_the_bytes_are_cut() {
    let custom = r#"{"type":"CUSTOM","name":"plain","value":1}"#;
    let sse = format!("\u{feff}: x\r\n\r\ndata: {STARTED}\r\n\r\ndata: {custom}\r\n\r\ndata: {{\r\n\r\n");
    let array = format!("[{STARTED},\n{custom} , {FINISHED}]");
    let lines = run(&[custom, r#"{"type":"NEWS"}"#]);
    for stream in [sse, array, lines] {
        let whole = judge(&stream);
        assert!(!whole.findings.is_empty());
        for piece in [1, 2, 3, 7, 64] {
            assert_eq!(judge_with(&stream, Keep::Everything, piece), whole, "in pieces of {piece}: {stream}");
        }
    }
}

#[test]
fn without_reducing_nothing_is_kept_and_the_verdict_is_the_same() {
    let stream = run(&[
        r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d"}"#,
        r#"{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}"#,
        r#"{"type":"STEP_STARTED","stepName":"s"}"#,
    ]);
    let kept = judge(&stream);
    let mut lean = judge_with(&stream, Keep::Nothing, usize::MAX);
    assert_eq!(
        (&lean.report.events[..], &lean.report.messages[..], &lean.report.state),
        (&[][..], &[][..], &Value::Null)
    );
    assert!(kept.report.events.len() == 6 && kept.report.messages.len() == 1);
    lean.report.events.clone_from(&kept.report.events);
    lean.report.messages.clone_from(&kept.report.messages);
    lean.report.state.clone_from(&kept.report.state);
    assert_eq!((lean.stream.reduced, kept.stream.reduced), (0, kept.stream.delivered));
    lean.stream.reduced = kept.stream.reduced;
    assert_eq!(lean, kept);
}

#[test]
fn a_conversation_is_built_to_find_what_does_not_apply_until_the_recording_is_too_long() {
    let patch = r#"{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/nothing"}]}"#;
    let stream = run(&[patch, patch]);
    let whole = judge_with(&stream, Keep::Conversation { most_bytes: stream.len() as u64 }, 7);
    let not_applied = |judgement: &Judgement| -> Vec<usize> {
        let findings = judgement.findings.iter().filter(|f| f.rule.as_str() == "patch-not-applied");
        findings.map(|finding| finding.event).collect()
    };
    assert_eq!((not_applied(&whole), whole.stream.reduced), (vec![1, 2], 4));
    assert_eq!((&whole.report.events[..], &whole.report.state), (&[][..], &Value::Null), "none of it is kept");

    // The second patch ends behind the bound.
    let most_bytes = (STARTED.len() + 1 + patch.len() + 1 + patch.len() - 1) as u64;
    let part = judge_with(&stream, Keep::Conversation { most_bytes }, 7);
    assert_eq!((not_applied(&part), part.stream.reduced), (vec![1], 2));
    assert_eq!((part.stream.delivered, part.report.outcome), (4, ReportedOutcome::Completed));
}

#[test]
fn a_stream_that_is_wrong_in_every_event_does_not_fill_the_memory() {
    let stream = run(&[r#"{"type":"NEWS"}"#; 10_050]);
    let judgement = judge_with(&stream, Keep::Nothing, 4096);
    assert_eq!((judgement.report.warnings.len(), judgement.findings.len()), (10_000, 10_000));
    assert_eq!(judgement.stream.untold_warnings, 50);
}

#[test]
fn advice_is_given_once_a_rule_with_the_number_of_events_and_never_changes_the_verdict() {
    let custom = r#"{"type":"CUSTOM","name":"plain","value":1}"#;
    let judgement = judge(&run(&[custom, custom, custom]));
    let finding = only(&judgement);
    assert_eq!((finding.severity, finding.event), (Severity::Advice, 1));
    assert!(finding.message.ends_with("So it is in 3 events of the stream."), "{}", finding.message);
    assert_eq!(judgement.report.outcome, ReportedOutcome::Completed);
    assert_eq!(judgement.report.warnings, []);
}

#[test]
fn a_name_with_any_usual_prefix_is_no_cause_for_advice() {
    for name in ["com.example.x", "urn:example:x", "example/x"] {
        let judgement = judge(&run(&[&format!(r#"{{"type":"CUSTOM","name":"{name}","value":1}}"#)]));
        assert_eq!(judgement.findings, [], "{name}");
    }
}

#[test]
fn a_stream_is_judged_alike_in_both_bindings_with_the_places_of_each() {
    let events = [
        STARTED,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
        r#"{"type":"CUSTOM","name":"plain","value":1}"#,
        FINISHED,
    ];
    let mut frames = Vec::new();
    let mut starts = Vec::new();
    for event in events {
        starts.push(frames.len() as u64);
        let event = decode_event(event.as_bytes(), 0).unwrap().event.unwrap();
        ProtoEncoder::encode_event(&mut frames, &event).unwrap();
    }
    let json = judge(&events.map(|event| format!("data: {event}\n\n")).concat());
    for piece in [1, 3, usize::MAX] {
        let mut checker = Checker::new(CheckOptions::default());
        frames.chunks(piece).for_each(|bytes| checker.push(bytes).unwrap());
        let judgement = checker.finish().unwrap();
        assert_eq!((&judgement.report, judgement.stream.form), (&json.report, Form::Protobuf));
        let [custom, open] = &judgement.findings[..] else { panic!("{judgement:#?}") };
        assert_eq!(
            (custom.rule, custom.offset, custom.length),
            (json.findings[0].rule, starts[2], starts[3] - starts[2])
        );
        assert_eq!(
            (custom.excerpt.as_ref(), &open.found),
            (json.findings[0].excerpt.as_ref(), &json.findings[1].found)
        );
        assert_eq!(open.contradicts.as_ref().unwrap().offset, starts[1]);
    }
    let mut cut = Checker::new(CheckOptions::default());
    cut.push(&frames[..starts[1] as usize + 2]).unwrap();
    let rules: Vec<String> = cut.finish().unwrap().findings.iter().map(|finding| finding.rule.to_string()).collect();
    assert_eq!(rules, ["unterminated-event", "truncated-stream"]);
}

#[test]
fn a_frame_over_the_limit_cannot_be_checked_and_is_no_violation() {
    let mut checker = Checker::new(CheckOptions { form: Some(Form::Protobuf), ..CheckOptions::default() });
    let error = checker.push(b"\x7f\xff\xff\xff").unwrap_err();
    assert!(matches!(error, CheckError::TooLarge { .. }), "{error}");
    assert!(!error.to_string().contains("raise"), "nobody can raise the limit of a check: {error}");
}

#[test]
fn an_event_over_the_limit_cannot_be_checked_and_nobody_is_told_to_raise_it() {
    let mut checker = Checker::new(CheckOptions { form: Some(Form::Sse), ..CheckOptions::default() });
    let piece = vec![b'x'; 1 << 20];
    let error = (0..=64).find_map(|_| checker.push(&piece).err()).unwrap();
    assert!(matches!(error, CheckError::TooLarge { .. }), "{error}");
}

#[test]
fn a_finding_holds_a_name_of_any_length_cut_and_a_short_one_whole() {
    let long = "n".repeat(100_000);
    let cut = format!("{}…", "n".repeat(80));
    let spaced = "n ".repeat(50_000);
    let property = format!(r#"{{"type":"CUSTOM","name":"{long}","value":1,"{long}":1,"short":1,"{spaced}":1}}"#);
    let unknown = format!(r#"{{"type":"{long}"}}"#);
    let step = format!(r#"{{"type":"STEP_FINISHED","stepName":"{long}"}}"#);
    let judgement = {
        let mut checker = Checker::new(CheckOptions { keep: Keep::Nothing, ..CheckOptions::default() });
        checker.push(run(&[&property, &unknown, &step]).as_bytes()).unwrap();
        checker.finish().unwrap()
    };
    let paths: Vec<_> = judgement.report.warnings.iter().filter_map(|warning| warning.path.as_deref()).collect();
    assert!(paths.contains(&format!("/{cut}").as_str()) && paths.contains(&"/short"), "{paths:?}");
    for text in [serde_json::to_string(&judgement.findings).unwrap(), serde_json::to_string(&judgement.report).unwrap()]
    {
        assert!(text.contains(&cut), "{text}");
        assert!(text.len() < 10_000, "{} bytes", text.len());
    }
    let error = judgement.report.error.unwrap();
    assert!(error.message.contains(&format!("'{cut}' ")), "{}", error.message);
}

#[test]
fn a_name_with_spaces_is_cut_like_any_other_and_so_is_every_message() {
    let cut = "a ".repeat(40);
    let long = "a ".repeat(100_000);
    let step = judge(&run(&[&format!(r#"{{"type":"STEP_FINISHED","stepName":"{long}"}}"#)]));
    let violation = only(&step);
    assert!(violation.message.contains(&format!("'{cut}…'")), "{}", violation.message);
    assert_eq!(step.report.error.as_ref().unwrap().message, violation.message);
    let quoted = judge(&run(&[&format!(r#"{{"type":"STEP_FINISHED","stepName":"{}"}}"#, "a' 'b, ".repeat(10_000))]));
    let unquoted = judge(&run(&[&format!(r#"{{"type":"{long}"}}"#)]));
    let run_id = "r".repeat(100_000);
    let open = judge(&format!(r#"{{"type":"RUN_STARTED","threadId":"t","runId":"{run_id}","protocolVersion":"1.0"}}"#));
    let truncation = only(&open);
    assert!(truncation.found.ends_with(&format!("'{}…'", "r".repeat(80))), "{}", truncation.found);
    for judgement in [&step, &quoted, &unquoted, &open] {
        for finding in &judgement.findings {
            for text in [&finding.message, &finding.found, &finding.expected] {
                assert!(text.chars().count() <= 401, "{} characters: {text}", text.chars().count());
            }
        }
    }
    // What is too long is cut where it says the least.
    let message = &only(&unquoted).message;
    assert!(message.starts_with("a a ") && message.ends_with("AG-UI 1.0; the event was dropped."), "{message}");
}

#[test]
fn what_is_told_in_words_holds_nothing_that_steers_a_terminal() {
    let sly = "\u{202e}olleh\u{2066} \u{2028}x\u{61c}\u{200f}\u{7f}";
    let judgement = judge(&run(&[&format!(r#"{{"type":"STEP_FINISHED","stepName":"{sly}"}}"#)]));
    let Finding { message, found, excerpt, .. } = only(&judgement);
    for text in [message, found, excerpt.as_ref().unwrap()] {
        assert!(text.contains(" olleh") && !text.chars().any(steers_text), "{text:?}");
    }
    assert!(!"\u{1f642} \u{5d0} e\u{301}".chars().any(steers_text), "what is shown itself steers nothing");
}

/// patterns/streaming, "The chunked form": the two spellings do not mix within one item.
#[test]
fn an_item_that_chunks_opened_and_an_explicit_event_goes_on_with_is_told_as_such() {
    let tool_chunk = r#"{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"d"}"#;
    let reasoning_chunk = r#"{"type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"d"}"#;
    let chunk = r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d"}"#;
    let state = r#"{"type":"RAW","event":{},"source":"s"}"#;
    for (opener, explicit, noun, id) in [
        (chunk, r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#, "text message", "m"),
        (chunk, r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d"}"#, "text message", "m"),
        (tool_chunk, r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"d"}"#, "tool call", "c"),
        (reasoning_chunk, r#"{"type":"REASONING_MESSAGE_END","messageId":"m"}"#, "reasoning message", "m"),
    ] {
        let lines = [opener, state, explicit];
        let told = format!("opened {noun} '{id}' in chunks, which this event ends");
        assert_eq!(earlier(&lines), Some((1, told)), "{explicit}");
        let judgement = judge(&run(&lines));
        let violation = judgement.findings.iter().find(|f| f.severity == Severity::Violation).unwrap();
        let note = format!("Chunks opened the {noun}, and the two spellings do not mix within one item.");
        assert!(violation.message.ends_with(&note), "{}", violation.message);
        assert_eq!(judgement.report.error.as_ref().unwrap().message, violation.message);
        assert!(violation.page.ends_with("basic/patterns/streaming#the-chunked-form"), "{}", violation.page);
    }
    // What had ended before is told as what it is.
    let end = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    let snapshot = r#"{"type":"STATE_SNAPSHOT","snapshot":{}}"#;
    assert_eq!(earlier(&[chunk, snapshot, end]), Some((2, "closed text message 'm'".to_owned())));
}

#[test]
fn a_run_that_says_something_beside_raw_events_is_not_said_to_say_nothing_else() {
    let raw = r#"{"type":"RAW","event":{},"source":"s"}"#;
    let custom = r#"{"type":"CUSTOM","name":"com.example.x","value":1}"#;
    let finished = |more: &str| format!(r#"{{"type":"RUN_FINISHED","threadId":"t","runId":"r",{more}}}"#);
    let interrupted = finished(r#""outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"approval"}]}"#);
    let result = finished(r#""result":{"answer":42}"#);
    for stream in [run(&[raw, custom]), run(&[custom, raw])] {
        assert_eq!(judge(&stream).findings, [], "{stream}");
    }
    for end in [interrupted, result] {
        assert_eq!(judge(&format!("{STARTED}\n{raw}\n{end}\n")).findings, [], "{end}");
    }
    assert_eq!(only(&judge(&run(&[raw]))).rule.as_str(), "raw-alone");
}

/// RFC 6901, section 5: the pointer to the whole of a document is the empty one.
#[test]
fn the_path_of_a_whole_event_is_the_empty_pointer() {
    let judgement = judge(&run(&["[1]"]));
    assert_eq!(only(&judgement).path.as_deref(), Some(""));
    assert_eq!(only(&judgement).message, "The event is malformed: expected an object, found an array.");
}

#[test]
fn a_form_that_is_told_is_the_form_that_is_read() {
    // A client that was promised an event stream reads no event here.
    let mut checker = Checker::new(CheckOptions { form: Some(Form::Sse), ..CheckOptions::default() });
    checker.push(run(&[]).as_bytes()).unwrap();
    let judgement = checker.finish().unwrap();
    assert_eq!((judgement.report.outcome, judgement.stream.events), (ReportedOutcome::Truncated, 0));
}

/// basic/versioning, "Retired shapes": whoever looks for the earlier event finds it under the name that it came with.
#[test]
fn an_earlier_event_of_a_retired_type_is_told_by_that_type() {
    let told = |lines: &[&str]| earlier(lines);
    let (start, text) = (r#"{"type":"THINKING_START"}"#, r#"{"type":"THINKING_TEXT_MESSAGE_START"}"#);
    let opened = |index: usize, what: &str| Some((index, what.to_owned()));
    assert_eq!(told(&[start]), opened(1, "opened reasoning span 'r-thinking-1', as THINKING_START"));
    assert_eq!(
        told(&[start, text, r#"{"type":"THINKING_END"}"#]),
        opened(2, "opened reasoning message 'r-thinking-2', as THINKING_TEXT_MESSAGE_START")
    );
    assert_eq!(
        told(&[start, r#"{"type":"THINKING_END"}"#, r#"{"type":"REASONING_END","messageId":"r-thinking-1"}"#]),
        opened(2, "closed reasoning span 'r-thinking-1', as THINKING_END")
    );
    // The event that is rejected may be of a retired type as well.
    assert_eq!(told(&[FINISHED, start]), opened(1, "closed the run"));
    assert_eq!(told(&[r#"{"type":"REASONING_START","messageId":"s"}"#]), opened(1, "opened reasoning span 's'"));
}
