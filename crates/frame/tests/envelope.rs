//! The envelope of frame protocol v2: exactly seven keys, in order, and what a reader refuses.

#![allow(clippy::unwrap_used)]

mod catalogue;

use catalogue::{CATALOGUE, envelope, row};
use runwire_frame::{
    Data, DecodeError, ErrorCode, ErrorData, Frame, FrameType, Incoming, Notice, NoticeLevel, SegmentId, TextDelta,
    Timestamp,
};
use serde_json::{Map, Value, json};

/// Each key of a good `text.delta` body with the text of its value, in the protocol's order.
const KEYS: [(&str, &str); 7] = [
    ("protocol", "2"),
    ("seq", "7"),
    ("run_id", r#""run_1""#),
    ("ts", r#""2026-11-29T21:18:00.123Z""#),
    ("type", r#""text.delta""#),
    ("segment_id", r#""seg_3""#),
    ("data", r#"{"text":"Hello"}"#),
];

fn written(members: &[(&str, &str)]) -> String {
    let members: Vec<String> = members.iter().map(|(key, value)| format!(r#""{key}":{value}"#)).collect();
    format!("{{{}}}", members.join(","))
}

fn with(key: &str, value: &str) -> String {
    let members = KEYS.map(|(k, v)| if k == key { (k, value) } else { (k, v) });
    written(&members)
}

fn decode(body: &str) -> Result<Frame, DecodeError> {
    Frame::decode(body.as_bytes())
}

#[track_caller]
fn refused(body: &str) -> DecodeError {
    match decode(body) {
        Ok(frame) => panic!("{body:.400}\nis no frame, and was read as {frame:?}"),
        Err(error) => error,
    }
}

#[track_caller]
fn refused_as_no_envelope(body: &str) {
    let error = refused(body);
    assert!(matches!(error, DecodeError::Envelope(_)), "{body:.400}\nis no envelope, and was refused with: {error}");
}

fn text_frame(text: &str) -> Frame {
    Frame {
        seq: 7,
        run_id: "run_1".into(),
        ts: Timestamp::parse("2026-11-29T21:18:00.123Z").unwrap(),
        segment_id: Some(SegmentId::from("seg_3")),
        data: Data::TextDelta(TextDelta::new(text.into())),
    }
}

#[test]
fn an_envelope_is_seven_keys_in_order_without_spaces() {
    let body = concat!(
        r#"{"protocol":2,"seq":7,"run_id":"run_1","ts":"2026-11-29T21:18:00.123Z","type":"text.delta","#,
        r#""segment_id":"seg_3","data":{"text":"Hello"}}"#
    );
    assert_eq!(text_frame("Hello").encode(), body);
    assert_eq!(written(&KEYS), body);
    assert_eq!(decode(body).unwrap(), text_frame("Hello"));

    let run_level = Frame {
        seq: 1,
        run_id: "r".into(),
        ts: Timestamp::from_unix_millis(0),
        segment_id: None,
        data: Data::Error(ErrorData {
            code: ErrorCode::Timeout,
            message: "late".into(),
            retryable: true,
            extra: Map::new(),
        }),
    };
    assert_eq!(
        run_level.encode(),
        concat!(
            r#"{"protocol":2,"seq":1,"run_id":"r","ts":"1970-01-01T00:00:00.000Z","type":"error","segment_id":null,"#,
            r#""data":{"code":"TIMEOUT","message":"late","retryable":true}}"#
        ),
        "a segment that is not named is null, not left out"
    );
}

#[test]
fn encode_into_appends_the_same_bytes_as_encode() {
    let frame = text_frame("Hello");
    let mut out = b"data: ".to_vec();
    frame.encode_into(&mut out);
    assert_eq!(out, [b"data: ", &frame.encode()[..]].concat());
}

#[test]
fn a_missing_envelope_key_is_refused() {
    for (missing, _) in KEYS {
        let rest: Vec<_> = KEYS.into_iter().filter(|(key, _)| *key != missing).collect();
        refused_as_no_envelope(&written(&rest));
    }
    let run_level = r#"{"protocol":2,"seq":1,"run_id":"r","ts":"1970-01-01T00:00:00.000Z","type":"error","data":{"code":"TIMEOUT","message":"m","retryable":true}}"#;
    refused_as_no_envelope(run_level);
}

#[test]
fn an_extra_envelope_key_is_refused() {
    for extra in ["id", "text", "Seq", "agui", "", "segmentId"] {
        for at in 0..=KEYS.len() {
            let mut members = KEYS.to_vec();
            members.insert(at, (extra, "null"));
            refused_as_no_envelope(&written(&members));
        }
    }
}

#[test]
fn a_repeated_envelope_key_is_refused() {
    for (key, value) in KEYS {
        let mut members = KEYS.to_vec();
        members.push((key, value));
        refused_as_no_envelope(&written(&members));
    }
    let mut members = KEYS.to_vec();
    members.push((r"\u0073eq", "7"));
    refused_as_no_envelope(&written(&members));
}

#[test]
fn every_envelope_value_has_its_type() {
    for (key, values) in [
        ("protocol", &[r#""2""#, "null", "2.0", "-2", "[2]", "true"][..]),
        ("seq", &[r#""7""#, "null", "7.0", "7.5", "-1", "true", "18446744073709551616"]),
        ("run_id", &["null", "7", r#"["run_1"]"#, "{}", "false"]),
        (
            "ts",
            &[
                "null",
                "0",
                r#""""#,
                r#""2026-11-29""#,
                r#""2026-11-29T21:18:00.123""#,
                r#""2026-11-29T21:18:00.123+01:00""#,
                r#""2026-02-30T21:18:00.123Z""#,
                r#""2026-11-29T24:18:00.123Z""#,
            ],
        ),
        ("type", &["null", "7", "{}", r#"{"text.delta":null}"#]),
        ("segment_id", &["7", "{}", r#"["seg_3"]"#, "false"]),
        ("data", &["null", "[]", r#""Hello""#, "7", r#"[["text","Hello"]]"#]),
    ] {
        for value in values {
            refused_as_no_envelope(&with(key, value));
        }
    }
}

#[test]
fn what_is_no_json_object_is_no_envelope() {
    let body = written(&KEYS);
    for bad in [
        "".to_owned(),
        "null".into(),
        "7".into(),
        format!("[{body}]"),
        format!("{body}{body}"),
        format!("{body},"),
        format!("\u{feff}{body}"),
        body[..body.len() - 1].into(),
        body.replace('"', "'"),
    ] {
        refused_as_no_envelope(&bad);
    }
}

#[test]
fn an_array_of_the_seven_values_is_no_envelope() {
    let values: Vec<&str> = KEYS.iter().map(|(_, value)| *value).collect();
    refused_as_no_envelope(&format!("[{}]", values.join(",")));
}

#[test]
fn an_unknown_type_is_refused() {
    for unknown in ["usage", "text", "text.Delta", "TEXT.DELTA", "text.delta ", "run", "", "ping", "agui"] {
        let body = envelope(unknown, r#""seg_3""#, r#"{"text":"Hello"}"#);
        assert_eq!(refused(&body), DecodeError::UnknownType(unknown.into()));
    }
}

#[test]
fn a_protocol_other_than_2_is_refused_with_its_number() {
    for version in [0, 1, 3, 20, u64::MAX] {
        assert_eq!(refused(&with("protocol", &version.to_string())), DecodeError::Protocol(version));
    }
    let later = r#"{"protocol":3,"seq":1,"run":"r","type":"usage","anything":[]}"#;
    assert_eq!(refused(later), DecodeError::Protocol(3), "whatever the envelope of another version looks like");
}

#[test]
fn seq_is_a_positive_integer() {
    for seq in [1, 2, u64::from(u32::MAX) + 1, 1 << 53, u64::MAX] {
        let body = with("seq", &seq.to_string());
        assert_eq!(decode(&body).unwrap().seq, seq);
        assert_eq!(decode(&body).unwrap().encode(), body);
    }
    assert_eq!(refused(&with("seq", "0")), DecodeError::SeqZero);
    for row in &CATALOGUE {
        assert_eq!(refused(&row.full().replace(r#""seq":7"#, r#""seq":0"#)), DecodeError::SeqZero);
    }
}

#[test]
fn seq_0_is_an_error_of_the_connection_and_of_no_other_type() {
    let error = ErrorData {
        code: ErrorCode::RunNotFound,
        message: "no such run".into(),
        retryable: false,
        extra: Map::from_iter([("agui".into(), json!({"a": 1}))]),
    };
    let body = Frame::connection_error("run_1", Timestamp::from_unix_millis(0), error.clone());
    assert_eq!(
        body,
        concat!(
            r#"{"protocol":2,"seq":0,"run_id":"run_1","ts":"1970-01-01T00:00:00.000Z","type":"error","#,
            r#""segment_id":null,"data":{"code":"RUN_NOT_FOUND","message":"no such run","retryable":false,"agui":{"a":1}}}"#
        )
    );
    assert_eq!(Incoming::decode(&body).unwrap(), Incoming::ConnectionError(error));
    assert_eq!(Frame::decode(&body), Err(DecodeError::SeqZero), "it is never a frame of a log");

    for row in &CATALOGUE {
        let numbered = row.full();
        let frame = decode(&numbered).unwrap();
        assert_eq!(Incoming::decode(numbered.as_bytes()), Ok(Incoming::Frame(frame)));
        if row.frame_type != "error" {
            let zero = numbered.replace(r#""seq":7"#, r#""seq":0"#);
            assert_eq!(Incoming::decode(zero.as_bytes()), Err(DecodeError::SeqZero));
        }
    }
}

#[test]
fn a_null_segment_id_is_refused_on_exactly_the_six_types_that_need_one() {
    let mut needing = Vec::new();
    for row in &CATALOGUE {
        let data = row.full();
        let data = &data[data.find(r#""data":"#).unwrap() + 7..data.len() - 1];
        let named = envelope(row.frame_type, r#""seg_3""#, data);
        assert_eq!(decode(&named).unwrap().segment_id, Some(SegmentId::from("seg_3")), "any frame may name a segment");
        assert_eq!(decode(&named).unwrap().encode(), named);
        match decode(&envelope(row.frame_type, "null", data)) {
            Ok(frame) => assert_eq!(frame.segment_id, None),
            Err(error) => {
                let frame_type = FrameType::from_wire(row.frame_type).unwrap();
                assert_eq!(error, DecodeError::SegmentRequired(frame_type));
                assert!(error.to_string().contains(row.frame_type), "{error}");
                needing.push(row.frame_type);
            }
        }
    }
    assert_eq!(needing, ["segment.start", "segment.end", "text.delta", "thinking.delta", "tool.call", "tool.result"]);
}

#[test]
fn ts_is_written_with_exactly_three_digits_of_fraction() {
    for (read, written) in [
        ("2026-11-29T21:18:00Z", "2026-11-29T21:18:00.000Z"),
        ("2026-11-29T21:18:00.1Z", "2026-11-29T21:18:00.100Z"),
        ("2026-11-29T21:18:00.123456789Z", "2026-11-29T21:18:00.123Z"),
        ("2026-11-29T21:18:00.999Z", "2026-11-29T21:18:00.999Z"),
    ] {
        let frame = decode(&with("ts", &format!(r#""{read}""#))).unwrap();
        assert_eq!(frame.encode(), with("ts", &format!(r#""{written}""#)));
    }
}

#[test]
fn an_unknown_data_key_is_kept_with_its_value_and_place() {
    let members = r#""new":{"z":1,"a":[null,true,-1,2.5,"x"]},"agui":{"rawEvent":null},"":0,"later":null"#;
    for row in &CATALOGUE {
        let body = row.plus(members);
        let frame = decode(&body).unwrap();
        let kept: Vec<&str> = frame.data.extra().keys().map(String::as_str).collect();
        assert_eq!(kept, ["new", "agui", "", "later"], "{}", row.frame_type);
        assert_eq!(frame.encode(), body);
    }
}

/// Text that a careless writer or reader breaks, and how its JSON string is written.
const HARD_TEXT: [(&str, &str, &str); 16] = [
    ("quotes and backslashes", r#"a"b\c/d"#, r#"a\"b\\c/d"#),
    ("line ends, which would cut an SSE event", "a\nb\rc\r\n\n", r"a\nb\rc\r\n\n"),
    ("NUL", "a\0b", r"a\u0000b"),
    ("control characters", "\u{1}\u{8}\t\u{b}\u{c}\u{1b}\u{1f}", r"\u0001\b\t\u000b\f\u001b\u001f"),
    ("DEL and C1, which are no JSON control characters", "\u{7f}\u{80}\u{9f}", "\u{7f}\u{80}\u{9f}"),
    ("NEL", "a\u{85}b", "a\u{85}b"),
    ("the separators that end a line in JavaScript only", "a\u{2028}b\u{2029}c", "a\u{2028}b\u{2029}c"),
    ("a family joined by ZWJ", "👩\u{200d}👩\u{200d}👧\u{200d}👦", "👩\u{200d}👩\u{200d}👧\u{200d}👦"),
    ("a skin tone and a flag", "👍🏽🇳🇴", "👍🏽🇳🇴"),
    ("direction overrides", "\u{202e}abc\u{202c}\u{2066}x\u{2069}", "\u{202e}abc\u{202c}\u{2066}x\u{2069}"),
    ("right to left", "שלום مرحبا", "שלום مرحبا"),
    ("combining marks without a base", "\u{301}\u{308}a\u{301}", "\u{301}\u{308}a\u{301}"),
    ("a byte order mark and zero width", "\u{feff}a\u{200b}", "\u{feff}a\u{200b}"),
    ("noncharacters and private use", "\u{fffe}\u{ffff}\u{e000}\u{fdd0}", "\u{fffe}\u{ffff}\u{e000}\u{fdd0}"),
    ("the last code point", "\u{10ffff}", "\u{10ffff}"),
    ("HTML", "</script><!--&amp;", "</script><!--&amp;"),
];

#[test]
fn hard_text_is_written_byte_for_byte_and_read_back() {
    for (what, text, json) in HARD_TEXT {
        let body = with("data", &format!(r#"{{"text":"{json}"}}"#));
        assert_eq!(text_frame(text).encode(), body, "{what}");
        assert_eq!(decode(&body).unwrap(), text_frame(text), "{what}");
    }
}

#[test]
fn hard_text_holds_in_run_id_segment_id_and_unknown_keys() {
    for (what, text, json) in HARD_TEXT {
        let mut frame = text_frame("x");
        frame.run_id = text.into();
        frame.segment_id = Some(SegmentId::from(text));
        let Data::TextDelta(delta) = &mut frame.data else { panic!("a text frame") };
        delta.extra.insert(text.into(), Value::from(text));
        let body = written(&[
            ("protocol", "2"),
            ("seq", "7"),
            ("run_id", &format!(r#""{json}""#)),
            ("ts", r#""2026-11-29T21:18:00.123Z""#),
            ("type", r#""text.delta""#),
            ("segment_id", &format!(r#""{json}""#)),
            ("data", &format!(r#"{{"text":"x","{json}":"{json}"}}"#)),
        ]);
        assert_eq!(frame.encode(), body, "{what}");
        assert_eq!(decode(&body).unwrap(), frame, "{what}");
    }
}

#[test]
fn a_body_is_one_line() {
    for (_, text, _) in HARD_TEXT {
        let body = text_frame(text).encode();
        assert!(!body.contains(&b'\n') && !body.contains(&b'\r'), "SSE carries a body as one data line");
    }
}

#[test]
fn escaped_text_means_the_same_as_the_characters() {
    for (escaped, text) in [
        (r"\ud83d\ude00", "😀"),
        (r"\u0041\u2028", "A\u{2028}"),
        (r"\/", "/"),
        (r"\uDBFF\uDFFF", "\u{10ffff}"),
        (r"\u0000", "\0"),
    ] {
        let frame = decode(&with("data", &format!(r#"{{"text":"{escaped}"}}"#))).unwrap();
        assert_eq!(frame, text_frame(text));
    }
}

#[test]
fn lone_surrogates_are_refused_wherever_they_stand() {
    for lone in
        [r"\ud800", r"\udfff", r"a\ud83d", r"\ud83dx", r"\ude00\ud83d", r"\ud83d\ud83d", r"\ud83d\u0041", r"\uD83D\n"]
    {
        let quoted = format!(r#""{lone}""#);
        refused_as_no_envelope(&with("data", &format!(r#"{{"text":{quoted}}}"#)));
        refused_as_no_envelope(&with("data", &format!(r#"{{"text":"x","new":{quoted}}}"#)));
        refused_as_no_envelope(&with("data", &format!(r#"{{"text":"x",{quoted}:1}}"#)));
        refused_as_no_envelope(&with("run_id", &quoted));
        refused_as_no_envelope(&with("segment_id", &quoted));
    }
}

#[test]
fn bytes_that_are_no_utf8_and_raw_control_characters_are_refused() {
    let body = written(&KEYS);
    let at = body.find("Hello").unwrap();
    for bad in [&b"\xff"[..], b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\n", b"\0", b"\x1f"] {
        let bytes = [&body.as_bytes()[..at], bad, &body.as_bytes()[at..]].concat();
        assert!(matches!(Frame::decode(&bytes), Err(DecodeError::Envelope(_))), "{bad:?}");
    }
}

#[test]
fn ten_mebibytes_of_text_go_through() {
    let piece = "Grüße \u{2028}\"👩\u{200d}👧\"\n";
    let text = piece.repeat(10 * 1024 * 1024 / piece.len() + 1);
    let frame = text_frame(&text);
    let body = frame.encode();
    assert!(body.len() > 10 * 1024 * 1024);
    assert!(Frame::decode(&body).unwrap() == frame, "ten mebibytes came back different");
}

#[test]
fn a_value_as_deep_as_the_protocol_allows_can_be_read_back_from_a_frame() {
    for depth in [1, 64, runwire_frame::MAX_VALUE_DEPTH] {
        let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let value: Value = serde_json::from_str(&text).unwrap();
        let frame = Frame {
            segment_id: None,
            data: Data::Notice(Notice {
                level: NoticeLevel::Info,
                code: "agui.CUSTOM".into(),
                message: String::new(),
                attributes: Some(Map::from_iter([("value".into(), value)])),
                extra: Map::new(),
            }),
            ..text_frame("")
        };
        let read = Frame::decode(&frame.encode());
        assert!(
            read.as_ref() == Ok(&frame),
            "a value {depth} deep was written to a log that nobody can read: {read:?}"
        );
    }
}

#[test]
fn hostile_depth_is_refused_and_does_not_exhaust_the_stack() {
    let depth = 1_000_000;
    for value in ["[".repeat(depth), r#"{"a":"#.repeat(depth), "[".repeat(depth) + &"]".repeat(depth)] {
        refused_as_no_envelope(&with("data", &format!(r#"{{"text":"x","new":{value}}}"#)));
    }
}

#[test]
fn errors_say_what_to_look_at() {
    for (body, says) in [
        (with("protocol", "3"), &["version 3", "version 2"][..]),
        (with("type", r#""usage""#), &["`usage`"]),
        (with("seq", "0"), &["`seq`", "1"]),
        (with("segment_id", "null"), &["`segment_id`", "text.delta"]),
        (with("data", "{}"), &["text.delta", "`text`", "missing"]),
        (row("notice").with("attributes", Some("null")), &["notice", "`attributes`", "null"]),
        (row("run.status").with("previous", None), &["run.status", "`previous`", "missing"]),
    ] {
        let sentence = refused(&body).to_string();
        for word in says {
            assert!(sentence.contains(word), "`{sentence}` does not say {word}");
        }
    }
}
