//! JSON Patch documents (RFC 6902) as the protocol carries them (patterns/snapshots).

mod application;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::enforce::{Survival, enforce_kind};
use crate::schema;

/// Reads a list of well-formed operations, keeping the members that they do not define.
pub(crate) fn operations<'de, D>(deserializer: D) -> Result<Vec<Value>, D::Error>
where
    D: Deserializer<'de>,
{
    static PATCH: schema::Kind = schema::JSON_PATCH;
    let mut patch = Value::Array(Vec::deserialize(deserializer)?);
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

/// Applies the operations to `document` in order. When one fails, the document stays as it was.
///
/// # Errors
///
/// Which operation does not apply, and why.
pub(crate) fn apply(document: &mut Value, operations: &[Value]) -> Result<(), String> {
    application::apply(document, operations.to_vec())
}

/// Whether an operation replaces or removes the whole document, after which an object may be none any more.
pub(crate) fn touches_root(operations: &[Value]) -> bool {
    operations.iter().any(|operation| {
        ["path", "from"].iter().any(|member| operation.get(member).and_then(Value::as_str) == Some(""))
    })
}
