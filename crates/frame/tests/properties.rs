//! The laws of the codec: what was written is read back equal, what was read is written back byte for byte, and no bytes
//! make the reader panic.

#![allow(clippy::unwrap_used)]

mod catalogue;

use catalogue::{CATALOGUE, Key, envelope, object};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use runwire_frame::*;
use serde_json::{Map, Number, Value};

/// Any text, with more of the characters that break careless code than chance would bring.
fn text() -> BoxedStrategy<String> {
    let hard = select(vec![
        '\0',
        '\n',
        '\r',
        '"',
        '\\',
        '/',
        '\u{1f}',
        '\u{7f}',
        '\u{85}',
        '\u{200d}',
        '\u{2028}',
        '\u{2029}',
        '\u{202e}',
        '\u{feff}',
        '\u{ffff}',
        '\u{10ffff}',
        '👩',
        '\u{301}',
    ]);
    vec(prop_oneof![3 => any::<char>(), 2 => hard, 3 => proptest::char::range(' ', '~')], 0..12)
        .prop_map(String::from_iter)
        .boxed()
}

fn json() -> BoxedStrategy<Value> {
    let finite = any::<f64>().prop_filter_map("JSON has finite numbers only", Number::from_f64);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        finite.prop_map(Value::Number),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((text(), inner), 0..3).prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    })
    .boxed()
}

fn map() -> BoxedStrategy<Map<String, Value>> {
    vec((text(), json()), 0..3).prop_map(Map::from_iter).boxed()
}

/// Keys that the type does not know.
fn extra(frame_type: &'static str) -> BoxedStrategy<Map<String, Value>> {
    let known: Vec<&str> = catalogue::row(frame_type).data_keys().iter().map(|key| key.name).collect();
    let agui = option::of(json()).prop_map(|value| value.map(|value| ("agui".to_owned(), value)));
    (map(), agui)
        .prop_map(move |(mut extra, agui)| {
            extra.extend(agui);
            extra.retain(|key, _| !known.contains(&key.as_str()));
            extra
        })
        .boxed()
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    prop_oneof![any::<i64>(), -62_135_596_800_000..=253_402_300_799_999_i64].prop_map(Timestamp::from_unix_millis)
}

/// Any of the keys of a usage entry, as the protocol writes them.
fn usage() -> BoxedStrategy<Usage> {
    let counts = select(vec![
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "reasoning_tokens",
        "cached_input_tokens",
        "cache_write_input_tokens",
    ]);
    let names = vec((select(vec!["provider", "model"]), text().prop_map(Value::from)), 0..3);
    let counts = vec((counts, any::<u64>().prop_map(Value::from)), 0..5);
    (names, counts)
        .prop_map(|(names, counts)| {
            let entry = names.into_iter().chain(counts).map(|(key, value)| (key.to_owned(), value));
            serde_json::from_value(Value::Object(entry.collect())).unwrap()
        })
        .boxed()
}

fn cost() -> impl Strategy<Value = Cost> {
    ("[A-Z]{3}", "(0|[1-9][0-9]{0,9})(\\.[0-9]{1,9})?").prop_map(|(currency, amount)| {
        serde_json::from_value(serde_json::json!({"currency": currency, "amount": amount})).unwrap()
    })
}

fn segment_error() -> impl Strategy<Value = SegmentError> {
    (select(ErrorCode::ALL.to_vec()), text()).prop_map(|(code, message)| {
        serde_json::from_value(serde_json::json!({"code": code.as_str(), "message": message})).unwrap()
    })
}

fn run_level_data() -> BoxedStrategy<Data> {
    let maybe = || option::of(text());
    prop_oneof![
        (text(), maybe(), maybe(), maybe(), maybe(), any::<u32>(), extra("run.start")).prop_map(
            |(agent_id, agent_revision_id, session_id, lane, trigger_kind, attempt, extra)| {
                Data::RunStart(RunStart { agent_id, agent_revision_id, session_id, lane, trigger_kind, attempt, extra })
            }
        ),
        (select(RunStatus::ALL), option::of(select(RunStatus::ALL)), extra("run.status"))
            .prop_map(|(status, previous, extra)| Data::RunStatus(RunStatusChange { status, previous, extra })),
        (
            select(EndStatus::ALL),
            option::of(vec(usage(), 0..3)),
            option::of(cost()),
            option::of(any::<u64>()),
            maybe(),
            maybe(),
            extra("run.end")
        )
            .prop_map(|(status, usage, cost, duration_ms, failure_class, failure_detail, extra)| {
                Data::RunEnd(RunEnd { status, usage, cost, duration_ms, failure_class, failure_detail, extra })
            }),
        (select(SuspendKind::ALL), map(), maybe(), option::of(timestamp()), extra("suspend")).prop_map(
            |(kind, resume_contract, prompt, deadline_at, extra)| {
                Data::Suspend(Suspend { kind, resume_contract, prompt, deadline_at, extra })
            }
        ),
        (select(SuspendKind::ALL), maybe(), extra("resume"))
            .prop_map(|(kind, resolved_by, extra)| Data::Resume(Resume { kind, resolved_by, extra })),
        (select(NoticeLevel::ALL), text(), text(), option::of(map()), extra("notice")).prop_map(
            |(level, code, message, attributes, extra)| {
                Data::Notice(Notice { level, code, message, attributes, extra })
            }
        ),
        (select(ErrorCode::ALL.to_vec()), text(), any::<bool>(), extra("error"))
            .prop_map(|(code, message, retryable, extra)| Data::Error(ErrorData { code, message, retryable, extra })),
    ]
    .boxed()
}

fn segment_data() -> BoxedStrategy<Data> {
    let maybe = || option::of(text());
    prop_oneof![
        (select(SegmentKind::ALL), maybe(), maybe(), maybe(), maybe(), maybe(), maybe(), extra("segment.start"))
            .prop_map(|(kind, name, parent_segment_id, group_key, model_ref, tool_slug, child_run_id, extra)| {
                Data::SegmentStart(SegmentStart {
                    kind,
                    name,
                    parent_segment_id,
                    group_key,
                    model_ref,
                    tool_slug,
                    child_run_id,
                    extra,
                })
            }),
        (
            select(SegmentStatus::ALL),
            option::of(any::<u64>()),
            option::of(usage()),
            option::of(cost()),
            maybe(),
            option::of(segment_error()),
            extra("segment.end")
        )
            .prop_map(|(status, duration_ms, usage, cost, finish_reason, error, extra)| {
                Data::SegmentEnd(SegmentEnd { status, duration_ms, usage, cost, finish_reason, error, extra })
            }),
        (text(), extra("text.delta")).prop_map(|(text, extra)| Data::TextDelta(TextDelta { text, extra })),
        (text(), extra("thinking.delta")).prop_map(|(text, extra)| Data::ThinkingDelta(ThinkingDelta { text, extra })),
        (text(), text(), maybe(), maybe(), extra("tool.call")).prop_map(
            |(tool_call_id, tool_slug, arguments_delta, arguments, extra)| {
                Data::ToolCall(ToolCall { tool_call_id, tool_slug, arguments_delta, arguments, extra })
            }
        ),
        (text(), any::<bool>(), maybe(), any::<bool>(), any::<u64>(), extra("tool.result")).prop_map(
            |(tool_call_id, ok, output_preview, truncated, bytes, extra)| {
                Data::ToolResult(ToolResult { tool_call_id, ok, output_preview, truncated, bytes, extra })
            }
        ),
    ]
    .boxed()
}

fn frame() -> BoxedStrategy<Frame> {
    let run_level = (option::of(text()), run_level_data());
    let in_segment = (text().prop_map(Some), segment_data());
    (1..=u64::MAX, text(), timestamp(), prop_oneof![run_level, in_segment])
        .prop_map(|(seq, run_id, ts, (segment, data))| Frame {
            seq,
            run_id: run_id.into(),
            ts,
            segment_id: segment.map(SegmentId::from),
            data,
        })
        .boxed()
}

/// The body of a frame put together as text from the seed's table: any of the keys marked `?`, null here and there where
/// it may be, and keys that nobody knows at the end.
fn body() -> BoxedStrategy<String> {
    (0..CATALOGUE.len())
        .prop_flat_map(|at| {
            let row = &CATALOGUE[at];
            let keys = row.data_keys();
            let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
            let segment = option::of(text()).prop_map(|id| id.map_or("null".into(), |id| Value::from(id).to_string()));
            (vec(any::<bool>(), keys.len()), map(), segment).prop_map(move |(choices, extra, segment)| {
                let chosen: Vec<Key> = keys
                    .iter()
                    .zip(&choices)
                    .filter(|(key, chosen)| !key.optional || **chosen)
                    .map(|(key, _)| *key)
                    .collect();
                let nulled = |key: Key| {
                    let at = keys.iter().position(|k| k.name == key.name).unwrap();
                    Some(if key.nullable && choices[at] { "null" } else { key.sample })
                };
                let data = object(&chosen, nulled);
                let unknown: String = extra
                    .iter()
                    .filter(|(key, _)| !known.contains(&key.as_str()))
                    .map(|(key, value)| format!(",{}:{value}", Value::from(key.as_str())))
                    .collect();
                let data = format!("{}{unknown}}}", data.strip_suffix('}').unwrap());
                let segment = if row.segment_required && segment == "null" { r#""seg_3""# } else { &segment };
                envelope(row.frame_type, segment, &data)
            })
        })
        .boxed()
}

/// One damage to the bytes of a body.
#[derive(Clone, Debug)]
enum Damage {
    Set(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Cut(Index),
    Repeat(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    let byte = || prop_oneof![any::<u8>(), select(br#"{}[],:"\0129.-+eEntfu /"#.to_vec())];
    prop_oneof![
        (at(), byte()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), byte()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        at().prop_map(Damage::Remove),
        at().prop_map(Damage::Cut),
        (at(), at()).prop_map(|(from, to)| Damage::Repeat(from, to)),
    ]
}

fn damaged(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    match damage {
        Damage::Set(at, byte) => bytes[at.index(len)] = *byte,
        Damage::Insert(at, byte) => bytes.insert(at.index(len), *byte),
        Damage::Remove(at) => drop(bytes.remove(at.index(len))),
        Damage::Cut(at) => bytes.truncate(at.index(len)),
        Damage::Repeat(from, to) => {
            let (from, to) = (from.index(len), to.index(len));
            bytes.extend_from_within(from.min(to)..from.max(to));
        }
    }
}

/// Whatever is read is a frame that is written and read again without a change; the rest is refused in a sentence.
fn read_holds(bytes: &[u8]) -> Result<(), TestCaseError> {
    match Frame::decode(bytes) {
        Ok(frame) => {
            prop_assert!(frame.seq > 0);
            prop_assert!(frame.segment_id.is_some() || !frame.data.frame_type().requires_segment());
            prop_assert_eq!(Frame::decode(&frame.encode()), Ok(frame.clone()));
            prop_assert_eq!(Incoming::decode(bytes), Ok(Incoming::Frame(frame)));
        }
        Err(error) => {
            prop_assert!(!error.to_string().is_empty());
            match Incoming::decode(bytes) {
                Err(same) => prop_assert_eq!(same, error),
                Ok(Incoming::ConnectionError(_)) => prop_assert_eq!(error, DecodeError::SeqZero),
                Ok(Incoming::Frame(frame)) => prop_assert!(false, "{:?} is a frame, and none: {}", frame, error),
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_frame_is_read_back_as_it_was_written(frame in frame()) {
        let body = frame.encode();
        prop_assert_eq!(Frame::decode(&body), Ok(frame.clone()));
        prop_assert_eq!(Frame::decode(&body).unwrap().encode(), body);
    }

    #[test]
    fn a_body_is_utf8_on_one_line_with_seven_keys_in_order(frame in frame()) {
        let body = frame.encode();
        let text = std::str::from_utf8(&body).unwrap();
        prop_assert!(!text.contains(['\n', '\r', '\0']), "{:?}", text);
        let envelope: Map<String, Value> = serde_json::from_str(text).unwrap();
        let keys: Vec<&str> = envelope.keys().map(String::as_str).collect();
        prop_assert_eq!(keys, ["protocol", "seq", "run_id", "ts", "type", "segment_id", "data"]);
        let ts = envelope["ts"].as_str().unwrap();
        prop_assert!(ts.len() == "2026-11-29T21:18:00.123Z".len() && ts.ends_with('Z'), "{}", ts);
    }

    #[test]
    fn a_body_is_written_back_byte_for_byte(body in body()) {
        let frame = Frame::decode(body.as_bytes());
        prop_assert!(frame.is_ok(), "{}\n{:?}", body, frame);
        prop_assert_eq!(frame.unwrap().encode(), body);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in vec(any::<u8>(), 0..200)) {
        read_holds(&bytes)?;
    }

    #[test]
    fn no_json_makes_the_reader_panic(value in json()) {
        read_holds(value.to_string().as_bytes())?;
    }

    #[test]
    fn no_damaged_body_makes_the_reader_panic(frame in frame(), damages in vec(damage(), 1..4)) {
        let mut bytes = frame.encode().to_vec();
        for damage in &damages {
            damaged(&mut bytes, damage);
        }
        read_holds(&bytes)?;
    }

    #[test]
    fn every_cut_of_a_body_is_refused(frame in frame(), at in any::<Index>()) {
        let body = frame.encode();
        let cut = &body[..at.index(body.len())];
        prop_assert!(matches!(Frame::decode(cut), Err(DecodeError::Envelope(_))));
    }
}
