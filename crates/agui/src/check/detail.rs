//! What exactly was expected of an event that was rejected, and what came.

use std::str::FromStr;

use serde_json::Value;

use crate::check::finding::{name, shown};
use crate::enforce::{enforce, found};
use crate::event::EventType;
use crate::retired::RetiredShapes;
use crate::schema::event_shape;
use crate::unreadable::{ReaderLimit, Unreadable, Why};
use crate::violation::Rule;

/// The members that say what an event is about, in the order they are told.
const NAMES: [&str; 10] = [
    "threadId",
    "runId",
    "messageId",
    "toolCallId",
    "toolCallName",
    "parentMessageId",
    "stepName",
    "entityId",
    "subagentRunId",
    "parentSubagentRunId",
];

/// The place in an event that is wrong by itself, whatever came before it.
pub(crate) struct Detail {
    pub(crate) path: Option<String>,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Looks once more at an event that was rejected for what it holds; `None` for one that came at a wrong place. This is
/// done once a stream, so that reading the events which are right costs nothing for it.
pub(crate) fn detail(rule: Rule, json: &[u8]) -> Option<Detail> {
    match rule {
        Rule::MalformedJson => {
            let unreadable = Unreadable::new(json, serde_json::from_slice::<Value>(json).err()?);
            Some(Detail { path: None, expected: unreadable.expected().to_owned(), found: unreadable.found() })
        }
        Rule::MalformedValue => malformed(serde_json::from_slice(json).ok()?),
        _ => None,
    }
}

/// The limit of this reader that an event goes past, when that is why it was not read.
pub(crate) fn limit(json: &[u8]) -> Option<ReaderLimit> {
    match Unreadable::new(json, serde_json::from_slice::<Value>(json).err()?).why {
        Why::Limit(limit) => Some(limit),
        Why::NotUtf8(_) | Why::HalfAPair | Why::Syntax => None,
    }
}

fn malformed(mut value: Value) -> Option<Detail> {
    if !value.is_object() {
        return Some(Detail { path: Some(String::new()), expected: "an object".to_owned(), found: found(&value) });
    }
    let no_type =
        |found: String| Some(Detail { path: Some("/type".to_owned()), expected: "an event type".to_owned(), found });
    RetiredShapes::default().translate(&mut value, 0, &mut Vec::new());
    let event_type = match value.get("type") {
        None => return no_type("nothing".to_owned()),
        Some(Value::String(name)) => EventType::from_str(name).ok()?,
        Some(other) => return no_type(found(other)),
    };
    let wrong = enforce(&mut value, event_shape(event_type), false).verdict.err()?;
    Some(Detail { path: Some(wrong.path), expected: wrong.expected, found: wrong.found })
}

/// An event in words: its type, and what it is about.
pub(crate) fn named(event: Option<&Value>) -> String {
    let Some(value) = event else { return "what is not read".to_owned() };
    let event_type = name(value.get("type").and_then(Value::as_str).unwrap_or("an event without a type"));
    let about: Vec<String> =
        NAMES.iter().filter_map(|member| Some(format!("{member} {}", shown(value.get(*member)?)))).collect();
    if about.is_empty() { event_type } else { format!("{event_type} of {}", about.join(", ")) }
}
