//! The types say what the schema says.
#![allow(clippy::unwrap_used)]

use std::str::FromStr;

use runwire_agui::{Event, EventType, RunFinishedOutcome, SubagentFinishedOutcome, TextMessageStart, decode_event};
use serde_json::{Value, json};

/// Each of the 31 events, once with its required members only and once with every member there is.
fn samples() -> Vec<Value> {
    let pairs: Vec<Value> = serde_json::from_str(include_str!("samples/events.json")).unwrap();
    assert_eq!(pairs.len(), 31);
    pairs.into_iter().flat_map(|pair| [pair["bare"].clone(), pair["full"].clone()]).collect()
}

fn same_members(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| same_members(value, other)))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_members(left, right))
        }
        _ => left == right,
    }
}

#[test]
fn every_event_round_trips_with_all_its_members_and_with_none() {
    for sample in samples() {
        let event = Event::from_value(sample.clone()).unwrap_or_else(|error| panic!("{sample}: {error}"));
        assert!(same_members(&event.to_value(), &sample), "{sample}\nbecame\n{}", event.to_value());
        let again: Event = serde_json::from_str(&event.to_json_string()).unwrap();
        assert_eq!(again, event);
        assert_eq!(event.event_type().as_str(), sample["type"].as_str().unwrap());
    }
}

#[test]
fn every_event_decodes_without_a_warning_wherever_its_type_stands() {
    for sample in samples() {
        let expected = Event::from_value(sample.clone()).unwrap();
        let Value::Object(members) = sample else { panic!() };
        let reversed: serde_json::Map<_, _> = members.clone().into_iter().rev().collect();
        for members in [members, reversed] {
            let decoded = decode_event(&serde_json::to_vec(&members).unwrap(), 0).unwrap();
            assert_eq!(decoded.event.as_ref(), Some(&expected));
            assert_eq!(decoded.warnings, []);
        }
    }
}

#[test]
fn the_type_is_written_first() {
    for sample in samples() {
        let event = Event::from_value(sample).unwrap();
        let start = format!(r#"{{"type":"{}""#, event.event_type());
        assert!(event.to_json_string().starts_with(&start));
    }
}

#[test]
fn open_objects_keep_their_members_in_order() {
    let json = r#"{"type":"CUSTOM","name":"n","value":{"z":1,"a":{"y":null,"b":2}},"metadata":{"q":null,"c":1}}"#;
    let event: Event = serde_json::from_str(json).unwrap();
    assert_eq!(event.to_json_string(), json);
}

#[test]
fn an_absent_member_is_absent_and_a_null_one_malformed() {
    let bare = Event::from(TextMessageStart::new("m"));
    assert_eq!(bare.to_json_string(), r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#);
    for pair in serde_json::from_str::<Vec<Value>>(include_str!("samples/events.json")).unwrap() {
        let (bare, full) = (&pair["bare"], &pair["full"]);
        for member in full.as_object().unwrap().keys().filter(|member| bare.get(member).is_none()) {
            let mut sample = full.clone();
            sample[member] = Value::Null;
            assert!(Event::from_value(sample.clone()).is_err(), "{sample}");
            let violation = decode_event(sample.to_string().as_bytes(), 0).unwrap_err();
            assert!(violation.message.contains(&format!("/{member}")), "{violation}");
        }
    }
}

#[test]
fn a_required_member_is_required() {
    for pair in serde_json::from_str::<Vec<Value>>(include_str!("samples/events.json")).unwrap() {
        for member in pair["bare"].as_object().unwrap().keys() {
            let mut sample = pair["full"].clone();
            sample.as_object_mut().unwrap().remove(member);
            assert!(Event::from_value(sample.clone()).is_err(), "{sample}");
            let violation = decode_event(sample.to_string().as_bytes(), 0).unwrap_err();
            assert!(violation.message.contains(&format!("/{member}")), "{violation}");
        }
    }
}

#[test]
fn event_types_are_named_and_found_by_name() {
    for event_type in EventType::ALL {
        assert_eq!(EventType::from_str(event_type.as_str()), Ok(event_type));
    }
    assert!(EventType::from_str("FUTURE_EVENT").is_err());
}

#[test]
fn the_outcomes_are_written_as_the_schema_has_them() {
    for (outcome, json) in [
        (RunFinishedOutcome::success(), json!({"type": "success"})),
        (
            RunFinishedOutcome::Success { pending_tool_call_ids: Some(vec!["c".into()]) },
            json!({"type": "success", "pendingToolCallIds": ["c"]}),
        ),
        (RunFinishedOutcome::Interrupt { interrupts: vec![] }, json!({"type": "interrupt", "interrupts": []})),
        (RunFinishedOutcome::Cancelled, json!({"type": "cancelled"})),
    ] {
        assert_eq!(serde_json::to_value(&outcome).unwrap(), json);
        assert_eq!(serde_json::from_value::<RunFinishedOutcome>(json).unwrap(), outcome);
    }
    for (outcome, json) in [
        (SubagentFinishedOutcome::Success, json!({"type": "success"})),
        (
            SubagentFinishedOutcome::Suspended { interrupt_ids: Some(vec!["i".into()]) },
            json!({"type": "suspended", "interruptIds": ["i"]}),
        ),
    ] {
        assert_eq!(serde_json::to_value(&outcome).unwrap(), json);
        assert_eq!(serde_json::from_value::<SubagentFinishedOutcome>(json).unwrap(), outcome);
    }
}

#[test]
fn attribution_is_read_from_any_event_that_can_carry_it() {
    for (json, owner) in [
        (json!({"type": "STEP_STARTED", "stepName": "s", "subagentRunId": "a"}), Some("a")),
        (json!({"type": "STEP_STARTED", "stepName": "s"}), None),
        (json!({"type": "SUBAGENT_STARTED", "subagentRunId": "b", "name": "n"}), Some("b")),
        (json!({"type": "RUN_ERROR", "message": "m"}), None),
    ] {
        assert_eq!(Event::from_value(json).unwrap().subagent_run_id(), owner);
    }
}
