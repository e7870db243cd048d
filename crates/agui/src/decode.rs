//! From the JSON of one event to the event a client may see (basic/processing).
//!
//! The way most bytes take is short: an event that is exactly what the schema describes is read straight into its struct.
//! Whatever that strict reading does not accept goes through a JSON value and enforcement, which say what is wrong with
//! it. So do the events that begin and end a run: they come once, and the schema says more of them than their types do.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, MapAccess, Visitor};
use serde_json::Value;

use crate::enforce::{Enforcement, Survival, enforce, found};
use crate::event::{Event, EventType};
use crate::flat::{self, Scratch};
use crate::schema::{SAFE_INTEGER, event_shape};
use crate::unreadable::Unreadable;
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
    let mut events = Vec::with_capacity(1);
    if decode_strictly(json, &mut Scratch::default(), &mut events) {
        return Ok(Decoded { event: events.pop(), warnings: Vec::new() });
    }
    decode_value(parse(json, index)?, index)
}

/// Parses the JSON of one event.
pub(crate) fn parse(json: &[u8], index: usize) -> Result<Value, Violation> {
    serde_json::from_slice(json)
        .map_err(|error| Violation::new(Rule::MalformedJson, index, Unreadable::new(json, error).to_string()))
}

/// Reads one event that is parsed already, by the rules of [`decode_event`].
///
/// # Errors
///
/// As [`decode_event`].
pub fn decode_value(mut value: Value, index: usize) -> Result<Decoded, Violation> {
    let malformed = |path: &str, expected: &str, found: &str, subject: &str| {
        // The pointer to the whole of a document is the empty one.
        let at = if path.is_empty() { String::new() } else { format!(" at {path}") };
        let message = format!("{subject} is malformed{at}: expected {expected}, found {found}.");
        Violation::new(Rule::MalformedValue, index, message)
    };
    let Value::Object(members) = &value else {
        return Err(malformed("", "an object", &found(&value), "The event"));
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
            Err(error) => Err(malformed("", "what the schema describes", &error.to_string(), event_type.as_str())),
        },
    }
}

/// Reads an event whose `type` comes first and that is exactly what the schema describes, puts it behind the events in
/// `out` and says so; anything else is left to the long way, which judges it. What is read here is none of the retired
/// shapes, and enforcement would leave it as it is.
///
/// An event is some hundred bytes, so it is made where it is wanted instead of being handed up. `scratch` is for
/// [`flat::read`].
pub(crate) fn decode_strictly(json: &[u8], scratch: &mut Scratch, out: &mut Vec<Event>) -> bool {
    // Looked at once as a whole, it need not be looked at string by string.
    let Ok(json) = simdutf8::basic::from_utf8(json) else { return false };
    if let Some(part) = flat::read(json, scratch) {
        out.push(part.to_event());
        return true;
    }
    decode_generally(json, out)
}

/// As [`decode_strictly`], for an event that [`flat::read`] leaves to this.
pub(crate) fn decode_generally(json: &str, out: &mut Vec<Event>) -> bool {
    let before = out.len();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let read = Strictly { out }.deserialize(&mut deserializer).is_ok() && deserializer.end().is_ok();
    let timestamp = out.get(before).and_then(Event::timestamp);
    let is_safe = timestamp.is_none_or(|time| (-SAFE_INTEGER..=SAFE_INTEGER).contains(&time));
    if !(read && is_safe) {
        out.truncate(before);
    }
    read && is_safe
}

/// Reads one event into a list.
struct Strictly<'v> {
    out: &'v mut Vec<Event>,
}

impl<'de> DeserializeSeed<'de> for Strictly<'_> {
    type Value = ();

    fn deserialize<D>(self, deserializer: D) -> Result<(), D::Error>
    where
        D: de::Deserializer<'de>,
    {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Strictly<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an AG-UI event with its type first")
    }

    fn visit_map<A>(self, mut members: A) -> Result<(), A::Error>
    where
        A: MapAccess<'de>,
    {
        let Some(TypeKey) = members.next_key()? else {
            return Err(de::Error::custom("the type does not come first"));
        };
        match members.next_value()? {
            EventType::RunStarted | EventType::RunFinished | EventType::RunError => {
                Err(de::Error::custom("the schema says more of it than its type does"))
            }
            event_type => {
                self.out.push(Event::deserialize_as(event_type, MapAccessDeserializer::new(members))?);
                Ok(())
            }
        }
    }
}

/// The key `type`, and no other.
struct TypeKey;

impl<'de> Deserialize<'de> for TypeKey {
    fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
    where
        D: de::Deserializer<'de>,
    {
        struct KeyVisitor;

        impl Visitor<'_> for KeyVisitor {
            type Value = TypeKey;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the key `type`")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<TypeKey, E> {
                if key == "type" { Ok(TypeKey) } else { Err(E::custom("the type does not come first")) }
            }
        }

        deserializer.deserialize_identifier(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn samples() -> Vec<Value> {
        let pairs: Vec<Value> = serde_json::from_str(include_str!("../tests/samples/events.json")).unwrap();
        pairs.iter().flat_map(|pair| [pair["bare"].clone(), pair["full"].clone()]).collect()
    }

    /// Every value that comes of `value` by putting something else in one place of it, or taking that place away.
    fn mutations(value: &Value) -> Vec<Value> {
        let strange = [json!(null), json!(7), json!(5.0), json!(1e300), json!(true), json!("x"), json!([]), json!({})];
        let mut out = strange.to_vec();
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let mut without = members.clone();
                    without.shift_remove(name);
                    out.push(Value::Object(without));
                    // What is open by key is the same to both ways, whatever it holds.
                    let deep = !matches!(name.as_str(), "rawEvent" | "metadata");
                    for mutated in mutations(if deep { member } else { &Value::Null }) {
                        let mut with = members.clone();
                        with[name] = mutated;
                        out.push(Value::Object(with));
                    }
                }
                let mut more = members.clone();
                more.insert("unheardOf".to_owned(), json!({"of": 1}));
                out.push(Value::Object(more));
            }
            Value::Array(elements) => {
                for (place, element) in elements.iter().enumerate() {
                    for mutated in mutations(element) {
                        let mut with = elements.clone();
                        with[place] = mutated;
                        out.push(Value::Array(with));
                    }
                }
            }
            _ => {}
        }
        out
    }

    /// The short way is only that: events, warnings and violations are those of the long way.
    #[test]
    fn reading_strictly_decides_nothing_that_enforcement_would_not() {
        let mut strictly = 0;
        let long = ["RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"];
        for sample in samples().into_iter().filter(|sample| !long.iter().any(|long| sample["type"] == *long)) {
            for event in std::iter::once(sample.clone()).chain(mutations(&sample)) {
                let json = event.to_string();
                strictly += usize::from(decode_strictly(json.as_bytes(), &mut Scratch::default(), &mut Vec::new()));
                assert_eq!(decode_event(json.as_bytes(), 3), decode_value(event, 3), "{json}");
            }
        }
        assert!(strictly > 500, "only {strictly} went the short way");
    }
}
