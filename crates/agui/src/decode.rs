//! From the JSON of one event to the event a client may see (basic/processing).
//!
//! The way most bytes take is short: the events of which a stream has thousands are read straight into their struct. All
//! others, and whatever that strict reading does not accept, go through a JSON value and enforcement.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde_json::Value;

use crate::enforce::{Enforcement, Survival, enforce, found};
use crate::event::{Event, EventType};
use crate::schema::{SAFE_INTEGER, event_shape};
use crate::violation::{Rule, Violation};
use crate::warning::{Warning, WarningRule};

/// What became of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The event; `None` when it was dropped as unrecognised.
    pub event: Option<Event>,
    /// What was dropped or stripped.
    pub warnings: Vec<Warning>,
}

/// Reads one event from a peer that may be of a newer version. `index` is the event's place in the stream, from 0; it
/// is repeated in warnings and violations.
///
/// # Errors
///
/// When the bytes are not one JSON object, or a member that the schema describes is missing or malformed.
pub fn decode_event(json: &[u8], index: usize) -> Result<Decoded, Violation> {
    match decode_frequent(json) {
        Some(event) => Ok(Decoded { event: Some(event), warnings: Vec::new() }),
        None => decode_value(parse(json, index)?, index),
    }
}

/// Parses the JSON of one event.
pub(crate) fn parse(json: &[u8], index: usize) -> Result<Value, Violation> {
    serde_json::from_slice(json).map_err(|error| {
        Violation::new(Rule::MalformedJson, index, format!("The event is not a JSON document: {error}."))
    })
}

/// Reads one event that is parsed already, by the rules of [`decode_event`].
///
/// # Errors
///
/// As [`decode_event`].
pub fn decode_value(mut value: Value, index: usize) -> Result<Decoded, Violation> {
    let malformed = |path: &str, expected: &str, found: &str, subject: &str| {
        let message = format!("{subject} is malformed at {path}: expected {expected}, found {found}.");
        Violation::new(Rule::MalformedValue, index, message)
    };
    let Value::Object(members) = &value else {
        return Err(malformed("/", "an object", &found(&value), "The event"));
    };
    let name = match members.get("type") {
        Some(Value::String(name)) => name.as_str(),
        other => {
            let found = other.map_or_else(|| "nothing".to_owned(), found);
            return Err(malformed("/type", "an event type", &found, "The event"));
        }
    };
    let Ok(event_type) = EventType::from_str(name) else {
        let message = format!("{name} is no event type of AG-UI 1.0; the event was dropped.");
        let warning =
            Warning { rule: WarningRule::UnknownEvent, message, event: index, path: Some("/type".to_owned()) };
        return Ok(Decoded { event: None, warnings: vec![warning] });
    };
    let Enforcement { verdict, notes } = enforce(&mut value, event_shape(event_type), false);
    let warnings = notes.into_iter().map(|note| note.into_warning(index, event_type.as_str())).collect();
    match verdict {
        Err(wrong) => Err(malformed(&wrong.path, &wrong.expected, &wrong.found, event_type.as_str())),
        Ok(Survival::Dropped) => Ok(Decoded { event: None, warnings }),
        Ok(Survival::Kept) => match Event::from_value(value) {
            Ok(event) => Ok(Decoded { event: Some(event), warnings }),
            Err(error) => Err(malformed("/", "what the schema describes", &error.to_string(), event_type.as_str())),
        },
    }
}

/// Reads an event of a frequent type when it is exactly what the schema describes and `type` comes first; anything else
/// is left to the long way, which judges it.
pub(crate) fn decode_frequent(json: &[u8]) -> Option<Event> {
    let Frequent(event) = serde_json::from_slice(json).ok()?;
    event.timestamp().is_none_or(|time| (-SAFE_INTEGER..=SAFE_INTEGER).contains(&time)).then_some(event)
}

struct Frequent(Event);

impl<'de> Deserialize<'de> for Frequent {
    fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
    where
        D: de::Deserializer<'de>,
    {
        struct FrequentVisitor;

        impl<'de> Visitor<'de> for FrequentVisitor {
            type Value = Frequent;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a frequent AG-UI event with its type first")
            }

            fn visit_map<A>(self, mut members: A) -> Result<Frequent, A::Error>
            where
                A: MapAccess<'de>,
            {
                if members.next_key::<String>()?.as_deref() != Some("type") {
                    return Err(de::Error::custom("the type does not come first"));
                }
                let event_type: EventType = members.next_value()?;
                match event_type {
                    EventType::TextMessageContent
                    | EventType::TextMessageChunk
                    | EventType::ToolCallArgs
                    | EventType::ToolCallChunk
                    | EventType::ReasoningMessageContent
                    | EventType::ReasoningMessageChunk => {
                        Event::deserialize_as(event_type, MapAccessDeserializer::new(members)).map(Frequent)
                    }
                    _ => Err(de::Error::custom("not a frequent type")),
                }
            }
        }

        deserializer.deserialize_map(FrequentVisitor)
    }
}
