//! What is said of a peer's material is bounded, and stays in its line, whatever the peer wrote.
#![allow(clippy::unwrap_used)]

use runwire_agui::{
    AgentCapabilities, Consumer, Downgrade, Event, MOST_WARNINGS, Outgoing, OutgoingRule, Peer, RunAgentInput,
    RunStarted, Warning, WarningRule, decode_event,
};
use serde_json::{Value, json};

const MANY: usize = 20_000;

fn messages(message: Value) -> Value {
    Value::Array(vec![message; MANY])
}

fn snapshot(messages: Value) -> Value {
    json!({"type": "MESSAGES_SNAPSHOT", "messages": messages})
}

/// The first ones are told one by one, and the last says how many more there are.
fn assert_bounded(warnings: &[Warning], rule: WarningRule, total: usize) {
    assert_eq!(warnings.len(), MOST_WARNINGS + 1);
    let (last, first) = warnings.split_last().unwrap();
    assert!(first.iter().all(|warning| warning.rule == rule && warning.path.is_some()));
    let more = format!("{} more of the same ", total - MOST_WARNINGS);
    assert!(last.message.starts_with(&more), "{last:?}");
    assert_eq!((last.rule, last.event, &last.path), (rule, first[0].event, &None));
}

#[test]
fn of_one_event_the_first_warnings_are_told_and_the_others_counted() {
    let event = snapshot(messages(json!({"role": ""}))).to_string();
    let decoded = decode_event(event.as_bytes(), 7).unwrap();
    assert_bounded(&decoded.warnings, WarningRule::UnknownMember, MANY);
    assert_eq!(decoded.warnings[99].path.as_deref(), Some("/messages/99"), "those that come first");

    let mut consumer = Consumer::default();
    let started = Event::from(RunStarted::new("t", "r")).to_value();
    assert_eq!(consumer.push_value(started).unwrap().count(), 1);
    assert_eq!(consumer.push_json(event.as_bytes()).unwrap().count(), 1);
    assert_eq!(consumer.push_json(event.as_bytes()).unwrap().count(), 1);
    let warnings = consumer.take_warnings();
    let (second, third) = warnings.split_at(MOST_WARNINGS + 1);
    assert_bounded(second, WarningRule::UnknownMember, MANY);
    assert_bounded(third, WarningRule::UnknownMember, MANY);
    assert_eq!((second[0].event, third[0].event), (1, 2), "each event has its own account");
}

#[test]
fn retired_and_unrecognised_material_of_one_event_have_one_account() {
    let retired =
        json!({"id": "m", "role": "user", "content": [{"type": "binary", "mimeType": "image/png", "url": "u"}]});
    let mut list = vec![retired; 60];
    list.extend(vec![json!({"role": ""}); 60]);
    let mut consumer = Consumer::default();
    let started = Event::from(RunStarted::new("t", "r")).to_value();
    assert_eq!(consumer.push_value(started).unwrap().count(), 1);
    assert_eq!(consumer.push_value(snapshot(Value::Array(list))).unwrap().count(), 1);
    let warnings = consumer.take_warnings();
    let of = |rule: WarningRule| warnings.iter().filter(|warning| warning.rule == rule).count();
    assert_eq!((of(WarningRule::RetiredShape), of(WarningRule::UnknownMember)), (60, 41));
    assert!(warnings[100].message.starts_with("20 more "), "{:?}", warnings[100]);
}

/// What is dropped with what is around it is one thing, also behind those that are told one by one.
#[test]
fn what_is_dropped_whole_counts_once() {
    let part = json!({"type": "image", "new": 1, "source": {"type": "hologram"}});
    let message = json!({"id": "m", "role": "user", "content": [part, part], "mood": 1});
    let decoded = decode_event(snapshot(Value::Array(vec![message; 200])).to_string().as_bytes(), 0).unwrap();
    assert!(decoded.warnings[100].message.starts_with("500 more "), "{:?}", decoded.warnings[100]);
    let kept = decoded.event.unwrap().to_value();
    assert_eq!(kept["messages"][199], json!({"id": "m", "role": "user", "content": []}));
}

#[test]
fn of_one_input_the_first_warnings_are_told_and_the_others_counted() {
    let input = |list: Value| json!({"threadId": "t", "runId": "r", "messages": list, "protocolVersion": "1.0"});
    let (decoded, warnings) = RunAgentInput::decode_value(input(messages(json!({"role": ""})))).unwrap();
    assert_bounded(&warnings, WarningRule::UnknownMember, MANY);
    assert!(warnings[100].message.contains("of the same input"), "{:?}", warnings[100]);
    assert_eq!(decoded.messages, []);

    let prepared = Outgoing::default().prepare(input(messages(json!({"role": ""})))).unwrap();
    assert_eq!(prepared.warnings.len(), MOST_WARNINGS + 1);
    assert!(prepared.warnings[100].message.starts_with("19900 more of the same input"), "{:?}", prepared.warnings[100]);

    let declaration: serde_json::Map<String, Value> = (0..MANY).map(|n| (format!("new{n}"), json!(1))).collect();
    let (_, warnings) = AgentCapabilities::decode_value(Value::Object(declaration)).unwrap();
    assert_bounded(&warnings, WarningRule::UnknownProperty, MANY);
}

#[test]
fn of_one_input_the_first_losses_for_an_older_agent_are_told_beside_what_is_unrecognised() {
    let file = json!({"type": "image", "source": {"type": "file", "value": "f"}});
    let mut list = vec![json!({"role": ""}); 300];
    list.push(json!({"id": "m", "role": "user", "content": vec![file; 250]}));
    let older = Outgoing { agent: "0.0.59".parse().unwrap(), ..Outgoing::default() };
    let prepared = older.prepare(json!({"threadId": "t", "runId": "r", "messages": list})).unwrap();
    let of = |wanted: OutgoingRule| prepared.warnings.iter().filter(|w| w.rule == wanted).collect::<Vec<_>>();
    for (rule, more) in [(OutgoingRule::Unrecognised, "200 more "), (OutgoingRule::LossyDowngrade, "150 more ")] {
        let told = of(rule);
        assert_eq!(told.len(), MOST_WARNINGS + 1, "{rule:?}");
        assert!(told[100].message.starts_with(more), "{:?}", told[100]);
    }
}

#[test]
fn of_what_an_older_client_loses_at_once_the_first_is_told_and_the_rest_counted() {
    let answer =
        json!({"id": "m\nERROR forged", "role": "tool", "toolCallId": "c", "content": [{"type": "text", "text": "t"}]});
    let list = snapshot(Value::Array(vec![answer; 150]));
    let event = decode_event(list.to_string().as_bytes(), 0).unwrap().event.unwrap();
    let mut downgrade = Downgrade::for_peer(Peer::PreV1).unwrap();
    assert_eq!(downgrade.apply(vec![event]).len(), 1);
    let lost = downgrade.take_warnings();
    assert_eq!(lost.len(), MOST_WARNINGS + 1);
    assert!(lost[0].contains("`m\\nERROR forged`"), "{}", lost[0]);
    assert!(lost[100].ends_with("50"), "{}", lost[100]);
    assert_eq!(downgrade.take_warnings(), [""; 0]);
}

#[test]
fn a_name_that_a_peer_chose_does_not_begin_a_line_in_what_is_said_of_it() {
    let forged = "x\r\n2026-11-30T13:24:06Z ERROR forged\u{2028}\u{202e}\u{1b}[2J";
    let escaped = "x\\r\\n2026-11-30T13:24:06Z ERROR forged\\u{2028}\\u{202e}\\u{1b}[2J";
    let mut sentences = Vec::new();
    let unknown_event = decode_event(json!({"type": forged}).to_string().as_bytes(), 0).unwrap();
    let unknown_member =
        decode_event(json!({"type": "CUSTOM", "name": "n", "value": 1, forged: 1}).to_string().as_bytes(), 0);
    sentences.extend(unknown_event.warnings.iter().chain(&unknown_member.unwrap().warnings).map(ToString::to_string));
    let input = json!({"threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0", forged: 1});
    sentences.push(RunAgentInput::decode_value(input.clone()).unwrap().1[0].to_string());
    sentences.push(Outgoing::default().prepare(input).unwrap().warnings[0].to_string());
    let mut consumer = Consumer::default();
    let ending = json!({"type": "STEP_FINISHED", "stepName": forged});
    consumer.push_value(Event::from(RunStarted::new("t", "r")).to_value()).unwrap();
    sentences.push(consumer.push_value(ending).unwrap_err().to_string());
    assert_eq!(sentences.len(), 5);
    for sentence in sentences {
        assert!(sentence.contains(escaped), "{sentence:?}");
        assert!(!sentence.contains(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{202e}'), "{sentence:?}");
    }
}

#[test]
fn a_name_of_any_length_makes_neither_a_sentence_nor_a_pointer_long() {
    let name = "x".repeat(1 << 20);
    let event = json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m", "role": "user", "content": "", name: 1}]});
    let warnings = decode_event(event.to_string().as_bytes(), 0).unwrap().warnings;
    let message = &warnings[0].message;
    assert!(message.len() <= 4096 && message.contains("x…x"), "{message}");
    assert!(message.ends_with("x, which AG-UI 1.0 does not describe; it was stripped."), "{message}");
    let path = warnings[0].path.as_deref().unwrap();
    assert!(path.len() <= 1024 && path.starts_with("/messages/0/xxx") && path.ends_with("x…"), "{path}");
}
