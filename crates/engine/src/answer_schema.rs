//! The JSON Schema of an answer: whether this server can use it, and whether an answer fits it.
//!
//! A schema comes from an agent and an answer from anybody who may answer, so neither may take the server's time, its
//! stack or its network: sizes and depths are bounded, patterns run in linear time, and references stay inside the schema.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use runwire_agui::{Interrupt, ResumeEntry, ResumeStatus};
use runwire_frame::json_depth;
use serde_json::{Map, Value};

/// The most bytes that a schema has, written as JSON.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// The most bytes that an answer which a schema judges has, written as JSON.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// The most levels that either of them has.
pub const MAX_ANSWER_DEPTH: usize = 64;
/// So many schemas may apply to one place of an answer, counted with those that they refer to.
const MAX_AT_ONE_PLACE: u32 = 4096;
/// So many references may lead one to the next.
const MAX_CHAIN: u32 = 128;

/// Keywords whose value is data and no schema.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];

/// Why a schema cannot be used here, as the end of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(String);

/// Where an answer does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// The interrupt that it answers.
    pub interrupt: String,
    /// JSON Pointer into the answer; empty for the answer itself.
    pub path: String,
    /// What is wrong, in the words of the schema.
    pub expected: String,
}

/// Reads a schema: draft 2020-12 unless it names another.
pub(crate) fn usable(schema: &Map<String, Value>) -> Result<Validator, Unusable> {
    let schema = Value::Object(schema.clone());
    if let Some(size) = too_large(&schema, MAX_SCHEMA_BYTES) {
        return Err(Unusable(format!("a schema has {size}")));
    }
    let mut places = Places { root: &schema, weights: HashMap::new() };
    places.visit(&schema).map_err(Unusable)?;
    // A pattern that needs to look around could take for ever, and is refused with the rest that is no schema.
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    options.build(&schema).map_err(|error| Unusable(format!("it is no valid schema: {error}")))
}

/// The first answer that breaks the schema of the interrupt that it answers. What is given up carries no answer, and an
/// interrupt without a schema takes any. One whose schema cannot be used was let through when it was raised: whoever
/// raised it judges the answer.
pub(crate) fn breach(interrupts: &[Interrupt], answers: &[ResumeEntry]) -> Option<Breach> {
    interrupts.iter().find_map(|interrupt| {
        let schema = interrupt.response_schema.as_ref()?;
        let entry = answers.iter().find(|entry| entry.interrupt_id == interrupt.id)?;
        if entry.status != ResumeStatus::Resolved {
            return None;
        }
        let (path, expected) = misfit(schema, entry.payload.as_ref().unwrap_or(&Value::Null))?;
        Some(Breach { interrupt: interrupt.id.clone(), path, expected })
    })
}

/// Where the answer breaks the schema, and what was expected there.
pub(crate) fn misfit(schema: &Map<String, Value>, answer: &Value) -> Option<(String, String)> {
    let Ok(validator) = usable(schema) else { return None };
    if let Some(size) = too_large(answer, MAX_ANSWER_BYTES) {
        return Some((String::new(), format!("an answer has {size}")));
    }
    let mut errors = validator.iter_errors(answer);
    // What it says of the value would repeat the value, which can be large, or somebody's secret.
    errors.next().map(|error| (error.instance_path().as_str().to_owned(), error.masked().to_string()))
}

fn too_large(value: &Value, bytes: usize) -> Option<String> {
    let json = serde_json::to_vec(value).unwrap_or_default();
    (json.len() > bytes || json_depth(&json) > MAX_ANSWER_DEPTH)
        .then(|| format!("at most {bytes} bytes of JSON and {MAX_ANSWER_DEPTH} levels of it"))
}

/// Proves that judging an answer comes to an end, soon: no schema refers to itself at one place of the answer, and none
/// multiplies what applies there.
struct Places<'a> {
    root: &'a Value,
    /// How many schemas apply where this one does; `None` while it is counted.
    weights: HashMap<*const Value, Option<u32>>,
}

impl<'a> Places<'a> {
    /// Every schema inside this value, which may also be a list or a table of schemas.
    fn visit(&mut self, value: &'a Value) -> Result<(), String> {
        match value {
            Value::Object(members) => {
                self.weight(value, 0)?;
                for (_, member) in members.iter().filter(|(key, _)| !DATA.contains(&key.as_str())) {
                    self.visit(member)?;
                }
                Ok(())
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item)),
            _ => Ok(()),
        }
    }

    fn weight(&mut self, schema: &'a Value, chain: u32) -> Result<u32, String> {
        let Value::Object(members) = schema else { return Ok(1) };
        match self.weights.get(&std::ptr::from_ref(schema)) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => return Err("it refers to itself without looking at a part of the answer".to_owned()),
            None if chain > MAX_CHAIN => return Err(format!("more than {MAX_CHAIN} references lead one to the next")),
            None => self.weights.insert(std::ptr::from_ref(schema), None),
        };
        let mut weight = 1_u32;
        for (keyword, value) in members {
            let here: Vec<&Value> = match (keyword.as_str(), value) {
                ("allOf" | "anyOf" | "oneOf", Value::Array(items)) => items.iter().collect(),
                ("not" | "if" | "then" | "else", value) => vec![value],
                ("dependentSchemas" | "dependencies", Value::Object(schemas)) => schemas.values().collect(),
                ("$ref", Value::String(reference)) => vec![self.target(reference)?],
                ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                    return Err(format!("`{keyword}` is not supported here; `$ref` is"));
                }
                _ => Vec::new(),
            };
            for schema in here {
                weight = weight.saturating_add(self.weight(schema, chain + 1)?);
            }
            if weight > MAX_AT_ONE_PLACE {
                return Err(format!("more than {MAX_AT_ONE_PLACE} schemas apply to one place of the answer"));
            }
        }
        self.weights.insert(std::ptr::from_ref(schema), Some(weight));
        Ok(weight)
    }

    /// A reference stays inside the schema: nothing is fetched for one.
    fn target(&self, reference: &str) -> Result<&'a Value, String> {
        let inside = reference.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        let Some(pointer) = inside else {
            return Err(format!(
                "it refers to `{reference}`, and only references into the schema itself, such as `#/$defs/answer`, are \
                 followed"
            ));
        };
        self.root.pointer(pointer).ok_or_else(|| format!("it refers to `{reference}`, which it does not have"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_schema_that_would_need_the_network_is_wrong_or_never_ends_cannot_be_used() {
        let mut bomb = json!({ "$ref": "#/$defs/d0", "$defs": { "d40": true } });
        for n in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            bomb["$defs"][format!("d{n}")] = json!({ "allOf": [next, next] });
        }
        for (schema, says) in [
            (json!({ "$ref": "https://example.com/answer.json" }), "`https://example.com/answer.json`"),
            (json!({ "properties": { "a": { "$ref": "file:///etc/passwd" } } }), "`file:///etc/passwd`"),
            (json!({ "$ref": "other.json#/a" }), "`other.json#/a`"),
            (json!({ "$ref": "#/$defs/none" }), "does not have"),
            (json!({ "type": "colour" }), "no valid schema"),
            (json!({ "pattern": "(" }), "no valid schema"),
            (json!({ "pattern": "^(?=a)" }), "no valid schema"),
            (json!({ "$ref": "#" }), "refers to itself"),
            (json!({ "anyOf": [{ "type": "string" }, { "not": { "$ref": "#" } }] }), "refers to itself"),
            (json!({ "$dynamicRef": "#node" }), "not supported"),
            (bomb, "4096 schemas"),
            (json!({ "description": "x".repeat(MAX_SCHEMA_BYTES) }), "at most 65536 bytes"),
        ] {
            let error = usable(&map(schema.clone())).unwrap_err().to_string();
            assert!(error.contains(says), "{schema}: {error}");
        }
    }

    #[test]
    fn a_schema_that_describes_a_tree_judges_every_level_and_names_the_place() {
        let tree = map(json!({
            "$ref": "#/$defs/node",
            "$defs": { "node": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": { "type": "string", "enum": ["data", { "$ref": "https://example.com/no-schema-but-data" }] },
                    "children": { "type": "array", "items": { "$ref": "#/$defs/node" } },
                },
            } },
        }));
        assert_eq!(misfit(&tree, &json!({ "name": "data", "children": [{ "name": "data" }] })), None);
        let (path, expected) = misfit(&tree, &json!({ "name": "data", "children": [{ "name": 7 }] })).unwrap();
        assert_eq!(path, "/children/0/name");
        assert!(expected.contains("string") || expected.contains("data"), "{expected}");
        let (path, expected) = misfit(&tree, &json!({ "children": [] })).unwrap();
        assert_eq!(path, "");
        assert!(expected.contains("name"), "{expected}");
    }

    #[test]
    fn what_is_said_of_an_answer_does_not_repeat_it() {
        let schema = map(json!({ "properties": { "pin": { "type": "integer" } } }));
        let (path, expected) = misfit(&schema, &json!({ "pin": "hunter2" })).unwrap();
        assert_eq!(path, "/pin");
        assert!(expected.contains("integer") && !expected.contains("hunter2"), "{expected}");
    }

    #[test]
    fn an_answer_is_bounded_where_a_schema_judges_it() {
        let any = Map::new();
        assert!(misfit(&any, &Value::from("x".repeat(MAX_ANSWER_BYTES))).unwrap().1.contains("262144 bytes"));
        let deep = (0..MAX_ANSWER_DEPTH + 1).fold(json!(1), |inner, _| json!([inner]));
        assert!(misfit(&any, &deep).unwrap().1.contains("64 levels"));
        assert_eq!(misfit(&any, &json!({ "anything": [1, null] })), None);
    }
}
