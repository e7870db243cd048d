//! JSON Patch documents (RFC 6902) as the protocol carries them (patterns/snapshots).

mod application;
mod direct;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use crate::enforce::{Survival, enforce_kind, is_json_pointer};
use crate::schema;

pub(crate) use application::Measure;
pub(crate) use direct::{Operation, operations as state_delta};

/// Reads a list of well-formed operations, keeping the members that they do not define.
pub(crate) fn operations<'de, D>(deserializer: D) -> Result<Vec<Value>, D::Error>
where
    D: Deserializer<'de>,
{
    static PATCH: schema::Kind = schema::JSON_PATCH;
    let operations = Vec::deserialize(deserializer)?;
    if operations.iter().all(is_usual) {
        return Ok(operations);
    }
    let mut patch = Value::Array(operations);
    let enforcement = enforce_kind(&mut patch, &PATCH);
    match enforcement.verdict {
        Ok(Survival::Kept) if enforcement.notes.is_empty() => {}
        Ok(_) => return Err(de::Error::custom("an operation that RFC 6902 does not define")),
        Err(malformed) => {
            return Err(de::Error::custom(format_args!(
                "a malformed patch at {}: expected {}, found {}",
                malformed.path, malformed.expected, malformed.found
            )));
        }
    }
    match patch {
        Value::Array(operations) => Ok(operations),
        _ => unreachable!("enforcement does not change what kind of value a list is"),
    }
}

/// Whether it is evidently a well-formed operation. The others are judged by the schema, which takes longer.
fn is_usual(operation: &Value) -> bool {
    let Value::Object(members) = operation else { return false };
    let pointer = |member: &str| members.get(member).and_then(Value::as_str).is_some_and(is_json_pointer);
    pointer("path")
        && match members.get("op").and_then(Value::as_str) {
            Some("add" | "replace" | "test") => members.contains_key("value"),
            Some("move" | "copy") => pointer("from"),
            Some("remove") => true,
            _ => false,
        }
}

/// Applies the operations to `document` in order. When one fails, the document stays as it was: what was changed is
/// changed back, so the cost is that of the operations and not of the document. `measure` is the document's.
///
/// # Errors
///
/// Which operation does not apply, and why.
pub(crate) fn apply(document: &mut Value, measure: &mut Measure, operations: Vec<Value>) -> Result<(), String> {
    application::apply(document, measure, operations)
}

/// As [`apply`], for a document that is an object and stays one: a patch that makes something else of it fails.
///
/// # Errors
///
/// As [`apply`].
pub(crate) fn apply_to_object(
    document: &mut Map<String, Value>,
    measure: &mut Measure,
    operations: Vec<Value>,
) -> Result<(), String> {
    let mut value = Value::Object(std::mem::take(document));
    let applied = application::apply_to_object(&mut value, measure, operations);
    match value {
        Value::Object(members) => *document = members,
        _ => unreachable!("what would be no object is taken back"),
    }
    applied
}

/// As [`apply`], for operations that were read as such.
///
/// # Errors
///
/// As [`apply`].
pub(crate) fn apply_directly(
    document: &mut Value,
    measure: &mut Measure,
    operations: Vec<Operation<'_>>,
) -> Result<(), String> {
    application::apply_directly(document, measure, operations)
}
