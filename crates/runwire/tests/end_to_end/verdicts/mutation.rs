//! One change to a stream: the smallest mistakes that a producer makes, and the smallest things that a newer one adds.

use std::fmt;

use runwire_agui::EventType;
use serde_json::{Value, json};

use super::walk::{Dice, THREAD};

/// What was done to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    Drop,
    Duplicate,
    Swap,
    Retype,
    ChangeId,
    NullMember,
    RemoveMember,
    ReplaceMember,
    AddMember,
    AddEvent,
    Cut,
}

impl Mutation {
    pub const ALL: [Self; 11] = [
        Self::Drop,
        Self::Duplicate,
        Self::Swap,
        Self::Retype,
        Self::ChangeId,
        Self::NullMember,
        Self::RemoveMember,
        Self::ReplaceMember,
        Self::AddMember,
        Self::AddEvent,
        Self::Cut,
    ];

    /// Changes the stream in one place, and says where.
    pub fn apply(self, events: &mut Vec<Value>, dice: &mut Dice) -> usize {
        let place = dice.below(events.len());
        match self {
            Self::Drop => {
                events.remove(place);
            }
            Self::Duplicate => events.insert(place, events[place].clone()),
            Self::Swap => {
                let other = (place + 1) % events.len();
                events.swap(place, other);
            }
            Self::Retype => events[place]["type"] = json!(dice.pick(&EventType::ALL).as_str()),
            Self::ChangeId => change_id(events, place, dice),
            Self::AddEvent => events.insert(place, json!({"type": "TELEMETRY", "value": {"a": 1}})),
            Self::Cut => events.truncate(place),
            Self::NullMember | Self::RemoveMember | Self::ReplaceMember | Self::AddMember => {
                change_member(&mut events[place], self, dice);
            }
        }
        place
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self:?}")
    }
}

/// Gives an event the id of another thing, one that nothing has, or an owner.
fn change_id(events: &mut [Value], place: usize, dice: &mut Dice) {
    const IDS: [&str; 8] = [
        "messageId",
        "toolCallId",
        "subagentRunId",
        "parentMessageId",
        "parentSubagentRunId",
        "entityId",
        "runId",
        "threadId",
    ];
    let mut held: Vec<Value> =
        events.iter().flat_map(|event| IDS.iter().filter_map(|member| event.get(member))).cloned().collect();
    held.extend([json!("another"), json!(THREAD), json!("")]);
    let id = dice.pick(&held).clone();
    let mut members: Vec<&str> = IDS.into_iter().filter(|member| events[place].get(member).is_some()).collect();
    if events[place].get("stepName").is_some() {
        members.push("stepName");
    }
    members.push("subagentRunId");
    let member = *dice.pick(&members);
    events[place][member] = id;
}

/// Changes one member, at any depth.
fn change_member(event: &mut Value, mutation: Mutation, dice: &mut Dice) {
    let mut objects = Vec::new();
    find_objects(event, String::new(), &mut objects);
    let object = dice.pick(&objects).clone();
    let members = event.pointer_mut(&object).and_then(Value::as_object_mut).expect("it was found there");
    let names: Vec<String> = members.keys().cloned().collect();
    if mutation == Mutation::AddMember || names.is_empty() {
        members.insert("unheardOf".to_owned(), json!({"a": 1}));
        return;
    }
    let name = dice.pick(&names).clone();
    match mutation {
        Mutation::NullMember => {
            members.insert(name, Value::Null);
        }
        Mutation::RemoveMember => {
            members.remove(&name);
        }
        _ => {
            let other = [json!(7), json!(true), json!("other"), json!([]), json!({}), json!(-1.5)];
            members.insert(name, dice.pick(&other).clone());
        }
    }
}

/// The objects in a value, by their places in it.
fn find_objects(value: &Value, place: String, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(place.clone());
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                find_objects(member, format!("{place}/{name}"), found);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                find_objects(element, format!("{place}/{index}"), found);
            }
        }
        _ => {}
    }
}
