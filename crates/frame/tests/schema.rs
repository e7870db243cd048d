//! The JSON Schema says what the reader does, and the protocol's page says what the schema does.

#![allow(clippy::unwrap_used)]

mod catalogue;
mod run_log;
mod run_walk;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use catalogue::CATALOGUE;
use jsonschema::Validator;
use proptest::prelude::*;
use runwire_frame::{CloseCode, ErrorCode, FrameType, Incoming, RunStatus, frame_schema};
use serde_json::{Map, Value, json};

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| jsonschema::draft202012::new(&frame_schema()).unwrap());

const PAGE: &str = include_str!("../../../docs/protocol.md");

#[track_caller]
fn valid(body: &str) {
    let value: Value = serde_json::from_str(body).unwrap();
    let errors: Vec<String> = SCHEMA.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{body}");
}

/// The schema and the reader have to be of one mind.
#[track_caller]
fn of_one_mind(value: &Value) -> bool {
    let read = Incoming::decode(value.to_string().as_bytes());
    let valid = SCHEMA.is_valid(value);
    assert_eq!(valid, read.is_ok(), "{value}\nreader: {read:?}");
    valid
}

#[test]
fn the_schema_is_one() {
    assert!(jsonschema::meta::is_valid(&frame_schema()));
    assert_eq!(frame_schema()["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn every_row_of_the_seed_validates_with_all_of_its_keys_and_with_none_that_may_be_left_out() {
    for row in &CATALOGUE {
        valid(&row.full());
        valid(&row.bare());
        valid(&row.plus(r#""a_later_servers_key":{"any":[null,1]},"agui":{}"#));
    }
}

#[test]
fn every_row_of_the_seed_is_refused_when_a_key_is_missing_null_or_of_another_type_as_the_reader_refuses_it() {
    let mut refused = BTreeMap::new();
    for row in &CATALOGUE {
        let whole: Value = serde_json::from_str(&row.full()).unwrap();
        let mut check = |value: &Value| {
            if !of_one_mind(value) {
                *refused.entry(row.frame_type).or_insert(0) += 1;
            }
        };
        let others =
            [Value::Null, json!(true), json!(-1), json!(1.5), json!("another"), json!([{}]), json!({}), json!(7)];
        for envelope_key in ["protocol", "seq", "run_id", "ts", "type", "segment_id", "data"] {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().shift_remove(envelope_key);
            check(&without);
            for other in &others {
                let mut changed = whole.clone();
                changed[envelope_key] = other.clone();
                check(&changed);
            }
        }
        let mut more = whole.clone();
        more["more"] = Value::Null;
        check(&more);
        for key in row.data_keys() {
            let mut without = whole.clone();
            without["data"].as_object_mut().unwrap().shift_remove(key.name);
            check(&without);
            for other in &others {
                let mut changed = whole.clone();
                changed["data"][key.name] = other.clone();
                check(&changed);
            }
            let members: Vec<String> = whole["data"][key.name].as_object().map(keys).unwrap_or_default();
            for member in members {
                let mut without = whole.clone();
                without["data"][key.name].as_object_mut().unwrap().shift_remove(&member);
                check(&without);
                for other in &others {
                    let mut changed = whole.clone();
                    changed["data"][key.name][&member] = other.clone();
                    check(&changed);
                }
            }
        }
        for frame_type in FrameType::ALL {
            let mut other = whole.clone();
            other["type"] = frame_type.as_str().into();
            check(&other);
        }
        let mut zero = whole.clone();
        zero["seq"] = json!(0);
        check(&zero);
    }
    assert_eq!(refused.len(), 13);
    assert!(refused.values().all(|n| *n > 20), "{refused:?}");
}

fn keys(object: &Map<String, Value>) -> Vec<String> {
    object.keys().cloned().collect()
}

#[test]
fn closed_sets_of_values_are_closed_in_the_schema() {
    let start: Value = serde_json::from_str(&catalogue::row("segment.start").full()).unwrap();
    for (kind, taken) in [("model", true), ("agent", true), ("tools", false), ("", false)] {
        let mut frame = start.clone();
        frame["data"]["kind"] = kind.into();
        assert_eq!(of_one_mind(&frame), taken, "{kind}");
    }
    let end: Value = serde_json::from_str(&catalogue::row("run.end").full()).unwrap();
    for (amount, taken) in [("0.001240", true), ("-3", true), ("1.", false), (".5", false), ("1e3", false), ("", false)]
    {
        let mut frame = end.clone();
        frame["data"]["cost"]["amount"] = amount.into();
        assert_eq!(of_one_mind(&frame), taken, "{amount}");
    }
    let error: Value = serde_json::from_str(&catalogue::row("error").full()).unwrap();
    for (code, taken) in [("TIMEOUT", true), ("timeout", false), ("RUN_FAILED", false)] {
        let mut frame = error.clone();
        frame["data"]["code"] = code.into();
        assert_eq!(of_one_mind(&frame), taken, "{code}");
    }
}

proptest! {
    #[test]
    fn every_frame_of_every_log_validates(choices in run_walk::choices()) {
        for frame in run_walk::log(&choices) {
            valid(std::str::from_utf8(&frame.encode()).unwrap());
        }
    }
}

#[test]
fn the_frames_that_the_protocols_page_shows_validate_and_are_read() {
    let mut shown = 0;
    for line in PAGE.lines() {
        let line = line.strip_prefix("data: ").unwrap_or(line);
        if !line.starts_with(r#"{"protocol":2,"seq":"#) || line.contains('…') {
            continue;
        }
        valid(line);
        Incoming::decode(line.as_bytes()).unwrap_or_else(|e| panic!("{e}: {line}"));
        shown += 1;
    }
    assert!(shown >= 10, "{shown} frames were found on the page");
}

/// The tables of the section *The thirteen types*: for each type its keys, each with what the page says of its presence.
fn tables() -> BTreeMap<String, BTreeMap<String, String>> {
    let section = PAGE.split("\n## The thirteen types\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let types = section.split("\n### ").skip(1).filter_map(|part| {
        let name = part.strip_prefix('`')?.split_once("`\n")?.0;
        FrameType::from_wire(name)?;
        let rows = part.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let (key, presence) = (cells.next()?.trim().strip_prefix('`')?.strip_suffix('`')?, cells.next()?.trim());
            ["required", "nullable", "optional"].contains(&presence).then(|| (key.to_owned(), presence.to_owned()))
        });
        Some((name.to_owned(), rows.collect()))
    });
    types.collect()
}

#[test]
fn the_protocols_page_has_exactly_the_keys_of_the_schema_and_says_the_same_of_each() {
    let schema = frame_schema();
    let mut declared = BTreeMap::new();
    for frame_type in FrameType::ALL {
        let data = &schema["$defs"][frame_type.as_str()];
        let required = data["required"].as_array().unwrap();
        let rows = data["properties"].as_object().unwrap().iter().map(|(key, of)| {
            let null = of["anyOf"].as_array().is_some_and(|any| any.contains(&json!({ "type": "null" })));
            let presence = match (required.contains(&json!(key)), null) {
                (true, true) => "nullable",
                (true, false) => "required",
                (false, _) => "optional",
            };
            (key.clone(), presence.to_owned())
        });
        declared.insert(frame_type.as_str().to_owned(), rows.collect::<BTreeMap<_, _>>());
    }
    assert_eq!(tables(), declared);
}

/// The words in backticks of a cell.
fn words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The cells of each row of the table in this section that begins with this head.
fn rows(section: &str, head: &str) -> Vec<Vec<&'static str>> {
    let section = PAGE.split(&format!("\n{section}\n")).nth(1).unwrap();
    let table = section.split(&format!("\n{head}\n")).nth(1).unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn the_protocols_page_says_of_each_of_the_fifteen_codes_once_when_it_is_sent() {
    let rows = rows("## Error codes", "| code | sent today |");
    let mut said: Vec<&str> = rows.iter().flat_map(|row| words(row[0])).collect();
    said.sort_unstable();
    let mut all = ErrorCode::ALL.map(ErrorCode::as_str);
    all.sort_unstable();
    assert_eq!(said, all);
    assert!(rows.iter().all(|row| row[1].contains("Run:") || row[1].contains("Connection:")), "{rows:#?}");
}

#[test]
fn the_protocols_page_has_the_close_codes_of_the_seed_each_with_its_error_code() {
    let rows = rows("## Following by WebSocket", "| close | code of the `error` frame | when | come back? |");
    let of_the_seed = rows.iter().filter_map(|row| {
        let code = CloseCode::from_u16(row[0].parse().unwrap())?;
        Some((code, words(row[1]).first().copied()))
    });
    assert_eq!(
        of_the_seed.collect::<Vec<_>>(),
        [
            (CloseCode::Normal, None),
            // Refused, and not said in time.
            (CloseCode::AuthFailed, Some("AUTH_FAILED")),
            (CloseCode::AuthFailed, Some("AUTH_FAILED")),
            (CloseCode::AuthFailed, Some("MALFORMED_FRAME")),
            (CloseCode::RunNotFound, Some("RUN_NOT_FOUND")),
            (CloseCode::ProtocolUnsupported, Some("PROTOCOL_UNSUPPORTED")),
        ]
    );
}

#[test]
fn the_protocols_page_has_the_legal_changes_of_status_and_no_other() {
    let mut said = Vec::new();
    for row in rows("### `run.status`", "| from | to |") {
        for from in words(row[0]) {
            said.extend(words(row[1]).into_iter().map(|to| (from, to)));
        }
    }
    said.sort_unstable();
    let all = RunStatus::ALL.iter().flat_map(|from| RunStatus::ALL.iter().map(move |to| (from, to)));
    let mut legal: Vec<(&str, &str)> =
        all.filter(|(from, to)| from.may_become(**to)).map(|(from, to)| (from.as_str(), to.as_str())).collect();
    legal.sort_unstable();
    assert_eq!(said, legal);
}
