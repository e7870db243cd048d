//! The thirteen frame types: their names, which of them need a segment, the keys of their data, and every closed set of
//! values.

#![allow(clippy::unwrap_used)]

mod catalogue;

use catalogue::{CATALOGUE, row};
use runwire_frame::{
    CloseCode, DecodeError, EndStatus, ErrorCode, Frame, FrameType, LogValidator, NoticeLevel, PREVIEW_MAX_BYTES,
    RunStatus, SegmentKind, SegmentStatus, SuspendKind,
};
use serde_json::Value;

fn decode(body: &str) -> Result<Frame, DecodeError> {
    Frame::decode(body.as_bytes())
}

#[track_caller]
fn kept(body: &str) {
    match decode(body) {
        Ok(frame) => assert_eq!(frame.encode(), body),
        Err(error) => panic!("{body}\nis a frame, and was refused: {error}"),
    }
}

/// Refused, with a sentence that names the data key.
#[track_caller]
fn refused_for(key: &str, body: &str) {
    assert!(is_refused_for(key, body), "{body}\nis to be refused for its `{key}`, and was {:?}", decode(body));
}

fn is_refused_for(key: &str, body: &str) -> bool {
    matches!(decode(body), Err(DecodeError::Data { key: named, .. }) if named == key)
}

#[test]
fn the_types_are_the_thirteen_of_the_seed_and_six_need_a_segment() {
    let seed: Vec<(&str, bool)> = CATALOGUE.iter().map(|row| (row.frame_type, row.segment_required)).collect();
    let ours: Vec<(&str, bool)> = FrameType::ALL.iter().map(|t| (t.as_str(), t.requires_segment())).collect();
    assert_eq!(ours, seed);
    for frame_type in FrameType::ALL {
        assert_eq!(FrameType::from_wire(frame_type.as_str()), Some(frame_type));
        assert_eq!(frame_type.to_string(), frame_type.as_str());
    }
    assert_eq!(FrameType::from_wire("usage"), None);
}

#[test]
fn each_type_carries_exactly_the_keys_of_the_seed_in_its_order() {
    for row in &CATALOGUE {
        for body in [row.full(), row.bare()] {
            kept(&body);
            assert_eq!(decode(&body).unwrap().data.frame_type().as_str(), row.frame_type);
            assert!(decode(&body).unwrap().data.extra().is_empty(), "every key of the seed is a known one: {body}");
        }
    }
}

#[test]
fn a_key_marked_optional_is_left_out_when_absent_and_never_null() {
    for row in &CATALOGUE {
        for key in row.data_keys().into_iter().filter(|key| key.optional) {
            kept(&row.with(key.name, None));
            refused_for(key.name, &row.with(key.name, Some("null")));
        }
    }
}

#[test]
fn every_other_key_is_always_there_and_null_where_its_value_may_be_unknown() {
    for row in &CATALOGUE {
        for key in row.data_keys().into_iter().filter(|key| !key.optional) {
            refused_for(key.name, &row.with(key.name, None));
            if key.nullable {
                kept(&row.with(key.name, Some("null")));
            } else {
                refused_for(key.name, &row.with(key.name, Some("null")));
            }
        }
    }
}

#[test]
fn every_value_has_its_type() {
    let kind = |text: &str| std::mem::discriminant(&serde_json::from_str::<Value>(text).unwrap());
    let mut taken = Vec::new();
    for row in &CATALOGUE {
        for key in row.data_keys() {
            let other_kinds = ["true", "7", r#""7""#, "[]", "{}"].into_iter().filter(|v| kind(v) != kind(key.sample));
            let no_counts = ["-1", "1.5", "1.0", "18446744073709551616"];
            let no_counts = no_counts.into_iter().filter(|_| kind(key.sample) == kind("7"));
            for value in other_kinds.chain(no_counts) {
                if !is_refused_for(key.name, &row.with(key.name, Some(value))) {
                    taken.push(format!("{} {}: {value}", row.frame_type, key.name));
                }
            }
        }
    }
    assert!(taken.is_empty(), "read although the value has another type: {taken:?}");
}

#[test]
fn an_object_inside_data_is_no_array_of_its_values() {
    let mut taken = Vec::new();
    for (frame_type, key, value) in [
        ("run.end", "usage", "[5]"),
        ("run.end", "usage", "[null]"),
        ("run.end", "usage", "[{},5]"),
        ("run.end", "usage", "[[]]"),
        ("run.end", "usage", r#"[["openai"]]"#),
        ("run.end", "cost", r#"["USD","1"]"#),
        ("segment.end", "usage", r#"["openai"]"#),
        ("segment.end", "cost", r#"["USD","1"]"#),
        ("segment.end", "error", r#"["TOOL_ERROR","m"]"#),
    ] {
        if !is_refused_for(key, &row(frame_type).with(key, Some(value))) {
            taken.push(format!("{frame_type} {key}: {value}"));
        }
    }
    assert!(taken.is_empty(), "read as objects: {taken:?}");
}

/// Every closed set of the seed and of section 4 of the design, with where it stands.
const CLOSED_SETS: [(&str, &str, &str); 11] = [
    ("run.status", "status", "queued, running, suspended, retrying, cancelling, completed, failed, cancelled"),
    ("run.status", "previous", "queued, running, suspended, retrying, cancelling, completed, failed, cancelled"),
    ("run.end", "status", "completed, failed, cancelled"),
    ("segment.start", "kind", "model, tool, message, reasoning, step, agent"),
    ("segment.end", "status", "completed, failed, cancelled, abandoned"),
    ("suspend", "kind", "approval, input"),
    ("resume", "kind", "approval, input"),
    ("notice", "level", "debug, info, warning"),
    ("error", "code", ERROR_CODES),
    ("tool.result", "ok", "true, false"),
    ("error", "retryable", "true, false"),
];

/// The fifteen, as the seed lists them.
const ERROR_CODES: &str = "AUTH_FAILED, MALFORMED_FRAME, PROTOCOL_UNSUPPORTED, RUN_NOT_FOUND, BUDGET_EXCEEDED, \
    RATE_LIMITED, MODEL_ERROR, TOOL_ERROR, GUARDRAIL_BLOCKED, CONTEXT_OVERFLOW, TIMEOUT, CANCELLED, SANDBOX_ERROR, \
    CHANNEL_ERROR, INTERNAL_ERROR";

#[test]
fn a_closed_set_takes_its_values_and_no_other() {
    for (frame_type, key, set) in CLOSED_SETS {
        let row = row(frame_type);
        for word in set.split(", ") {
            if set == "true, false" {
                kept(&row.with(key, Some(word)));
                continue;
            }
            kept(&row.with(key, Some(&format!(r#""{word}""#))));
            let turned = if word.chars().any(char::is_lowercase) { word.to_uppercase() } else { word.to_lowercase() };
            for other in [turned, format!(" {word}"), format!("{word}s"), word[1..].to_owned(), String::new()] {
                refused_for(key, &row.with(key, Some(&format!(r#""{other}""#))));
            }
        }
        refused_for(key, &row.with(key, Some(r#""unheard_of""#)));
    }
}

#[test]
fn a_value_of_a_closed_set_is_a_string_and_no_object_that_has_it_as_its_key() {
    for (frame_type, key, set) in CLOSED_SETS {
        for word in set.split(", ") {
            refused_for(key, &row(frame_type).with(key, Some(&format!(r#"{{"{word}":null}}"#))));
        }
    }
}

#[test]
fn the_vocabularies_are_those_of_the_design() {
    fn words<T: ToString>(all: &[T]) -> String {
        all.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
    }
    let set = |frame_type, key| CLOSED_SETS.iter().find(|(t, k, _)| (*t, *k) == (frame_type, key)).unwrap().2;
    assert_eq!(words(RunStatus::ALL), set("run.status", "status"));
    assert_eq!(words(EndStatus::ALL), set("run.end", "status"));
    assert_eq!(words(SegmentKind::ALL), set("segment.start", "kind"));
    assert_eq!(words(SegmentStatus::ALL), set("segment.end", "status"));
    assert_eq!(words(SuspendKind::ALL), set("suspend", "kind"));
    assert_eq!(words(NoticeLevel::ALL), set("notice", "level"));
    assert_eq!(words(&ErrorCode::ALL), ERROR_CODES);
}

#[test]
fn the_error_of_a_segment_has_one_of_the_fifteen_codes() {
    let row = row("segment.end");
    for code in ERROR_CODES.split(", ") {
        kept(&row.with("error", Some(&format!(r#"{{"code":"{code}","message":"m"}}"#))));
    }
    for bad in [r#"{"code":"OOPS","message":"m"}"#, r#"{"code":"TIMEOUT"}"#, r#"{"message":"m"}"#, "{}"] {
        refused_for("error", &row.with("error", Some(bad)));
    }
}

#[test]
fn a_websocket_closes_with_one_of_four_codes() {
    for (code, number) in [
        (CloseCode::Normal, 1000),
        (CloseCode::AuthFailed, 4401),
        (CloseCode::RunNotFound, 4404),
        (CloseCode::ProtocolUnsupported, 4409),
    ] {
        assert_eq!(code.as_u16(), number);
        assert_eq!(CloseCode::from_u16(number), Some(code));
    }
    for number in [0, 1001, 1006, 1011, 4400, 4403, 4408, u16::MAX] {
        assert_eq!(CloseCode::from_u16(number), None);
    }
}

#[test]
fn the_state_machine_has_the_transitions_of_the_design_and_no_other() {
    let legal = |from| match from {
        RunStatus::Queued => "running, cancelling",
        RunStatus::Running => "suspended, retrying, cancelling, completed, failed, cancelled",
        RunStatus::Suspended => "running, cancelling",
        RunStatus::Retrying => "running, cancelling",
        RunStatus::Cancelling => "cancelled",
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => "",
    };
    let mut wrong = Vec::new();
    for &from in RunStatus::ALL {
        for &to in RunStatus::ALL {
            if from.may_become(to) != legal(from).split(", ").any(|word| word == to.as_str()) {
                wrong.push(format!("{from} → {to}"));
            }
        }
    }
    assert!(wrong.is_empty(), "otherwise than section 7 of the design: {wrong:?}");
}

const COUNTS: [&str; 6] = [
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "reasoning_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
];

#[test]
fn a_token_count_is_there_only_if_it_was_reported_and_zero_is_a_report() {
    for (frame_type, wrap) in [("segment.end", ["", ""]), ("run.end", ["[", "]"])] {
        let row = row(frame_type);
        let usage = |entry: &str| row.with("usage", Some(&format!("{}{entry}{}", wrap[0], wrap[1])));
        for subset in 0..1_u32 << COUNTS.len() {
            let counts: Vec<String> = COUNTS
                .iter()
                .enumerate()
                .filter(|(i, _)| subset & (1 << i) != 0)
                .map(|(i, count)| format!(r#""{count}":{i}"#))
                .collect();
            kept(&usage(&format!("{{{}}}", counts.join(","))));
        }
        for count in COUNTS {
            kept(&usage(&format!(r#"{{"{count}":18446744073709551615}}"#)));
            for bad in ["-1", "1.5", r#""1""#, "true"] {
                refused_for("usage", &usage(&format!(r#"{{"{count}":{bad}}}"#)));
            }
        }
    }
}

#[test]
fn a_usage_key_that_was_not_reported_is_left_out_and_never_null() {
    for key in COUNTS.iter().chain(&["provider", "model"]) {
        refused_for("usage", &row("segment.end").with("usage", Some(&format!(r#"{{"{key}":null}}"#))));
        refused_for("usage", &row("run.end").with("usage", Some(&format!(r#"[{{"{key}":null}}]"#))));
    }
}

#[test]
fn cost_has_a_currency_and_a_decimal_string_and_never_a_float() {
    for row in [row("segment.end"), row("run.end")] {
        for amount in ["0", "0.001240", "12345678901234567890.123456789"] {
            kept(&row.with("cost", Some(&format!(r#"{{"currency":"USD","amount":"{amount}"}}"#))));
        }
        for bad in [
            r#"{"currency":"USD","amount":0.00124}"#,
            r#"{"currency":"USD","amount":1}"#,
            r#"{"currency":"USD","amount":null}"#,
            r#"{"currency":"USD"}"#,
            r#"{"amount":"1"}"#,
            r#"{"currency":1,"amount":"1"}"#,
        ] {
            refused_for("cost", &row.with("cost", Some(bad)));
        }
    }
}

#[test]
fn an_amount_that_is_no_decimal_number_is_refused() {
    for row in [row("segment.end"), row("run.end")] {
        for amount in ["", "abc", "NaN", "Infinity", "1e3", "1,5", "0x10", " 1", "1.", "$1"] {
            refused_for("cost", &row.with("cost", Some(&format!(r#"{{"currency":"USD","amount":"{amount}"}}"#))));
        }
    }
}

#[test]
fn an_unknown_key_deeper_inside_data_is_kept_too() {
    kept(&row("segment.end").with("usage", Some(r#"{"input_tokens":3,"audio_tokens":1}"#)));
    kept(&row("run.end").with("usage", Some(r#"[{"input_tokens":3,"audio_tokens":1}]"#)));
    kept(&row("run.end").with("cost", Some(r#"{"currency":"USD","amount":"1","estimated":true}"#)));
    kept(&row("segment.end").with("error", Some(r#"{"code":"TOOL_ERROR","message":"m","retryable":true}"#)));
    kept(&row("suspend").with("resume_contract", Some(r#"{"interrupts":[],"later":{"z":1,"a":2}}"#)));
    kept(&row("notice").with("attributes", Some(r#"{"z":null,"a":[{"later":1.5}]}"#)));
}

#[test]
fn a_deadline_is_an_instant_in_utc_with_milliseconds() {
    let row = row("suspend");
    kept(&row.with("deadline_at", Some(r#""1970-01-01T00:00:00.001Z""#)));
    for bad in [r#""tomorrow""#, r#""""#, "1700000000", r#""2026-13-01T00:00:00.000Z""#] {
        refused_for("deadline_at", &row.with("deadline_at", Some(bad)));
    }
}

#[test]
fn a_preview_is_at_most_two_kibibytes() {
    assert_eq!(PREVIEW_MAX_BYTES, 2048);
    // A log in which a tool.result is legal, so that nothing but the preview's length can be at fault.
    let log = |preview: &str| {
        let result = format!(
            r#"{{"tool_call_id":"call_1","ok":true,"output_preview":"{preview}","truncated":true,"bytes":1000000}}"#
        );
        [
            row("run.start").full(),
            row("run.status").full(),
            row("segment.start").body(r#"{"kind":"tool","name":null}"#),
            row("tool.result").body(&result),
        ]
        .iter()
        .zip(1..)
        .map(|(body, seq)| body.replace(r#""seq":7"#, &format!(r#""seq":{seq}"#)))
        .collect::<Vec<_>>()
    };
    let accepted = |preview: &str| {
        let mut validator = LogValidator::new();
        log(preview).iter().all(|body| decode(body).is_ok_and(|frame| validator.push(&frame).is_ok()))
    };
    assert!(accepted(&"x".repeat(2048)));
    assert!(accepted(&"é".repeat(1024)));
    assert!(!accepted(&"x".repeat(2049)), "a preview of 2049 bytes was refused neither as a frame nor in a log");
    assert!(!accepted(&"é".repeat(1025)), "the limit is bytes, not characters");
}
