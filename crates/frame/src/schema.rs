//! The frame protocol as a JSON Schema, made from the declarations that also encode and decode: there is no second list.

use serde_json::{Map, Value, json};

use crate::{Data, ErrorCode, FrameType, PREVIEW_MAX_BYTES, PROTOCOL, Timestamp};

/// A type whose values a schema describes.
pub(crate) trait Described {
    fn schema() -> Value;
}

impl Described for String {
    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Described for bool {
    fn schema() -> Value {
        json!({ "type": "boolean" })
    }
}

impl Described for u32 {
    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
    }
}

impl Described for u64 {
    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
    }
}

impl Described for Map<String, Value> {
    fn schema() -> Value {
        json!({ "type": "object" })
    }
}

impl<T: Described> Described for Vec<T> {
    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }
}

impl Described for Timestamp {
    fn schema() -> Value {
        // Readers take other precisions; what is written has milliseconds.
        json!({
            "type": "string",
            "description": "RFC 3339 in UTC",
            "pattern": r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]00:00)$",
        })
    }
}

impl Described for ErrorCode {
    fn schema() -> Value {
        json!({ "enum": ErrorCode::ALL.map(ErrorCode::as_str) })
    }
}

/// A key of a declaration.
pub(crate) struct Key {
    pub name: &'static str,
    /// `nullable`, `optional` and so on, as the declaration has it.
    pub presence: &'static str,
    pub schema: Value,
    pub doc: &'static str,
}

/// An object with these keys, and any others: a key that a reader does not know is read over.
pub(crate) fn object(doc: &str, keys: impl IntoIterator<Item = Key>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for Key { name, presence, schema, doc } in keys {
        let schema = described(doc, schema);
        let schema = match presence {
            "nullable" => json!({ "anyOf": [schema, { "type": "null" }] }),
            _ => schema,
        };
        if presence != "optional" {
            required.push(Value::from(name));
        }
        properties.insert(name.to_owned(), schema);
    }
    described(doc, json!({ "type": "object", "properties": properties, "required": required }))
}

fn described(doc: &str, schema: Value) -> Value {
    let mut members = Map::new();
    members.insert("description".to_owned(), doc.trim().into());
    if let Value::Object(schema) = schema {
        members.extend(schema);
    }
    Value::Object(members)
}

/// The JSON Schema (draft 2020-12) of one frame of protocol version 2, as a client receives it: a frame of a log, or, with
/// `seq` 0, the `error` of a connection.
///
/// The envelope is closed; `data` has the keys of its type and may have others. Three rules of [`Incoming::decode`] are
/// beyond a schema: a key must not come twice, a preview is counted in bytes, and a date must be one of the calendar.
///
/// [`Incoming::decode`]: crate::Incoming::decode
pub fn frame_schema() -> Value {
    let mut rules = vec![json!({
        "description": "Only an error of the connection itself has no place in a log",
        "if": { "properties": { "seq": { "const": 0 } } },
        "then": { "properties": { "type": { "const": FrameType::Error.as_str() } } },
    })];
    let mut defs = Map::new();
    for frame_type in FrameType::ALL {
        let mut schema = Data::schema_of(frame_type);
        if frame_type == FrameType::ToolResult {
            // Necessary, and as much as a schema can say: a character has at least one byte.
            schema["properties"]["output_preview"]["anyOf"][0]["maxLength"] = PREVIEW_MAX_BYTES.into();
        }
        defs.insert(frame_type.as_str().to_owned(), schema);
        let mut then = json!({ "data": { "$ref": format!("#/$defs/{frame_type}") } });
        if frame_type.requires_segment() {
            then["segment_id"] = json!({ "type": "string" });
        }
        rules.push(json!({
            "if": { "properties": { "type": { "const": frame_type.as_str() } } },
            "then": { "properties": then },
        }));
    }
    let properties = json!({
        "protocol": { "const": PROTOCOL },
        "seq": described("Position in the run's log, from 1; 0 only on an error of the connection", u64::schema()),
        "run_id": described("The run whose log this is", String::schema()),
        "ts": Timestamp::schema(),
        "type": { "enum": FrameType::ALL.map(FrameType::as_str) },
        "segment_id": {
            "description": "The segment that the frame belongs to",
            "anyOf": [{ "type": "string" }, { "type": "null" }],
        },
        "data": { "description": "As the type has it", "type": "object" },
    });
    let required: Vec<&String> = properties.as_object().map(|p| p.keys().collect()).unwrap_or_default();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Frame of protocol version {PROTOCOL}"),
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
        "allOf": rules,
        "$defs": defs,
    })
}
