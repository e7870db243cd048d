//! The model APIs, one file each: how a request is written, and how the stream that answers it is read.
//!
//! They are written by hand over our own SSE reader. The client library that was looked at (`genai` 0.7) streams text, calls
//! and usage of all three, but reads a count that a provider left out as zero on the way to its own totals, so that what was
//! not reported cannot be told from nothing, which the accounting of AG-UI demands. Its own TLS default is another than ours.

mod anthropic;
mod gemini;
mod openai;

pub use anthropic::Anthropic;
pub use gemini::Gemini;
pub use openai::OpenAi;

use runwire_frame::ErrorCode;
use serde_json::{Map, Value};

use crate::call::CallError;

/// Puts the configured members over a request: objects are joined, everything else is replaced, `null` takes away.
fn overlay(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (body.get_mut(key), value) {
            (_, Value::Null) => {
                body.shift_remove(key);
            }
            (Some(Value::Object(own)), Value::Object(extra)) => overlay(own, extra),
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

fn parse(provider: &str, data: &str) -> Result<Value, CallError> {
    serde_json::from_str(data).map_err(|error| {
        CallError::passing(ErrorCode::ModelError, format!("an event of {provider}'s answer is no JSON: {error}"))
    })
}

/// A call's arguments as a JSON value. A model that wrote none means none; what is no JSON is carried as the text that it is,
/// for providers that take values only.
fn arguments_value(arguments: &str) -> Value {
    if arguments.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(arguments) {
        Ok(Value::Object(arguments)) => Value::Object(arguments),
        _ => Value::Object(Map::from_iter([("arguments".to_owned(), Value::from(arguments))])),
    }
}
