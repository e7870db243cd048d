//! Translation of retired shapes (basic/versioning, "Retired shapes").
//!
//! It runs before enforcement, which judges by the current protocol and would strip what is translated here. Each
//! translation is mentioned once a stream, and every time when it loses content.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::warning::{Warning, WarningRule};

/// The names that reasoning had before 1.0, and those that it has.
const THINKING: [(&str, &str); 5] = [
    ("THINKING_START", "REASONING_START"),
    ("THINKING_END", "REASONING_END"),
    ("THINKING_TEXT_MESSAGE_START", "REASONING_MESSAGE_START"),
    ("THINKING_TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"),
    ("THINKING_TEXT_MESSAGE_END", "REASONING_MESSAGE_END"),
];

/// The name, when it is one that reasoning had before 1.0.
pub(crate) fn retired_type(name: &str) -> Option<&'static str> {
    THINKING.iter().map(|(retired, _)| *retired).find(|retired| *retired == name)
}

/// Translates the events of one stream.
#[derive(Debug, Default)]
pub(crate) struct RetiredShapes {
    run_id: String,
    minted: usize,
    span: Option<String>,
    message: Option<String>,
    mentioned: HashSet<&'static str>,
}

impl RetiredShapes {
    /// Translates whatever is retired in the event, in place.
    pub(crate) fn translate(&mut self, value: &mut Value, event: usize, warnings: &mut Vec<Warning>) {
        let Value::Object(members) = value else { return };
        let Some(name) = members.get("type").and_then(Value::as_str).map(str::to_owned) else { return };
        self.nulls(&name, members, event, warnings);
        match name.as_str() {
            "RUN_STARTED" => {
                if let Some(run_id) = members.get("runId").and_then(Value::as_str) {
                    run_id.clone_into(&mut self.run_id);
                }
                self.span = None;
                self.message = None;
                if let Some(input) = members.get_mut("input") {
                    translate_input(input, "/input", event, warnings);
                }
            }
            "MESSAGES_SNAPSHOT" => {
                if let Some(messages) = members.get_mut("messages") {
                    translate_messages(messages, "/messages", event, warnings);
                }
            }
            _ => self.thinking(&name, members, event, warnings),
        }
    }

    /// Optional members that older producers write as `null`.
    fn nulls(&mut self, name: &str, members: &mut Map<String, Value>, event: usize, warnings: &mut Vec<Warning>) {
        let candidates: [(&'static str, bool); 4] = [
            ("rawEvent", true),
            ("result", matches!(name, "RUN_FINISHED" | "SUBAGENT_FINISHED")),
            ("outcome", name == "RUN_FINISHED"),
            ("parentMessageId", matches!(name, "TOOL_CALL_START" | "TOOL_CALL_CHUNK")),
        ];
        for (member, retired) in candidates {
            if retired && members.get(member).is_some_and(Value::is_null) {
                members.shift_remove(member);
                if self.mentioned.insert(member) {
                    let message =
                        format!("{name} carries the retired {member}: null; it was read as an absent member.");
                    warnings.push(retired_shape(message, event, format!("/{member}")));
                }
            }
        }
    }

    /// `THINKING_*` became `REASONING_*`, which carries ids. The ids are made from the run's, so that the same stream
    /// always yields the same ones.
    fn thinking(&mut self, name: &str, members: &mut Map<String, Value>, event: usize, warnings: &mut Vec<Warning>) {
        let Some(&(retired, current)) = THINKING.iter().find(|(retired, _)| *retired == name) else { return };
        if self.mentioned.insert(retired) {
            let message = format!("{retired} is retired; it was translated to {current}.");
            warnings.push(retired_shape(message, event, "/type".to_owned()));
        }
        // None of them had these, so what stands there is nothing that could be meant.
        for member in ["messageId", "role"] {
            if members.shift_remove(member).is_some() {
                let message = format!("{retired} carries {member}, which it never had; it was left out.");
                warnings.push(retired_shape(message, event, format!("/{member}")));
            }
        }
        let id = match name {
            "THINKING_START" => {
                if let Some(title) = members.shift_remove("title") {
                    let message =
                        format!("{retired} carries the title {title}, which {current} cannot; it was dropped.");
                    warnings.push(retired_shape(message, event, "/title".to_owned()));
                }
                self.span = Some(self.mint());
                self.span.clone()
            }
            "THINKING_TEXT_MESSAGE_START" => {
                members.insert("role".to_owned(), Value::from("reasoning"));
                self.message = Some(self.mint());
                self.message.clone()
            }
            "THINKING_END" => self.span.take(),
            "THINKING_TEXT_MESSAGE_END" => self.message.take(),
            _ => self.message.clone(),
        };
        // Without an opener there is no id to continue. One that nothing opened lets verification say so.
        let id = id.unwrap_or_else(|| self.mint());
        members.insert("type".to_owned(), Value::from(current));
        members.insert("messageId".to_owned(), Value::from(id));
    }

    fn mint(&mut self) -> String {
        self.minted += 1;
        format!("{}-thinking-{}", self.run_id, self.minted)
    }
}

/// Translates what is retired in a run input that stands at `path`.
pub(crate) fn translate_input(input: &mut Value, path: &str, event: usize, warnings: &mut Vec<Warning>) {
    omit_nulls(input, path, event, warnings);
    translate_parts_of_input(input, path, event, warnings);
}

/// Reads the `null`s of places that have none as absent members.
pub(crate) fn omit_nulls(input: &mut Value, path: &str, event: usize, warnings: &mut Vec<Warning>) {
    let Value::Object(members) = input else { return };
    drop_null(members, "forwardedProps", path, event, warnings);
    for (list, member) in [("tools", "parameters"), ("resume", "payload")] {
        let Some(Value::Array(entries)) = members.get_mut(list) else { continue };
        for (index, entry) in entries.iter_mut().enumerate() {
            if let Value::Object(entry) = entry {
                drop_null(entry, member, &format!("{path}/{list}/{index}"), event, warnings);
            }
        }
    }
}

/// Translates the retired content parts of a run input's messages, which loses nothing of them.
pub(crate) fn translate_parts_of_input(input: &mut Value, path: &str, event: usize, warnings: &mut Vec<Warning>) {
    if let Some(messages) = input.get_mut("messages") {
        translate_messages(messages, &format!("{path}/messages"), event, warnings);
    }
}

/// A client sends its state back, and a `STATE_SNAPSHOT` may have made it null. What a producer echoes is no such input.
pub(crate) fn drop_null_state(input: &mut Value, warnings: &mut Vec<Warning>) {
    if let Value::Object(members) = input {
        drop_null(members, "state", "", 0, warnings);
    }
}

fn drop_null(members: &mut Map<String, Value>, member: &str, path: &str, event: usize, warnings: &mut Vec<Warning>) {
    if members.get(member).is_some_and(Value::is_null) {
        members.shift_remove(member);
        let path = format!("{path}/{member}");
        let message = format!("The retired null at {path} was read as an absent member.");
        warnings.push(retired_shape(message, event, path));
    }
}

fn translate_messages(messages: &mut Value, path: &str, event: usize, warnings: &mut Vec<Warning>) {
    let Value::Array(messages) = messages else { return };
    for (index, message) in messages.iter_mut().enumerate() {
        let Some(Value::Array(parts)) = message.get_mut("content") else { continue };
        translate_parts(parts, &format!("{path}/{index}/content"), event, warnings);
    }
}

fn translate_parts(parts: &mut Vec<Value>, path: &str, event: usize, warnings: &mut Vec<Warning>) {
    let key = |part: &Value| format!("{}{}", part["type"], part["source"]);
    let retired = |part: &Value| part["type"] == "binary";
    // A client of the change-over sends the same bytes in both shapes, for peers of either age.
    let mut held: HashSet<String> = match parts.iter().any(retired) {
        true => parts.iter().filter(|part| !retired(part)).map(key).collect(),
        false => HashSet::new(),
    };
    for (place, mut part) in std::mem::take(parts).into_iter().enumerate() {
        let path = format!("{path}/{place}");
        if let Value::Object(members) = &mut part
            && members.get("type").and_then(Value::as_str).is_some_and(|kind| HAD_NULL_METADATA.contains(&kind))
        {
            drop_null(members, "metadata", &path, event, warnings);
        }
        if let Some((modern, lost)) = modern_part(&part) {
            let kind = modern["type"].as_str().unwrap_or_default();
            let without = match lost.is_empty() {
                true => String::new(),
                false => format!(" without its {}, which that cannot carry", lost.join(", ")),
            };
            let message =
                format!("The retired binary part at {path} was translated to a part of type {kind}{without}.");
            warnings.push(retired_shape(message, event, path));
            if !held.insert(key(&modern)) {
                continue;
            }
            part = modern;
        }
        parts.push(part);
    }
}

/// The parts whose metadata some producers wrote as `null`; text parts never had any then.
const HAD_NULL_METADATA: [&str; 5] = ["binary", "image", "audio", "video", "document"];

/// The media part that a `binary` part stands for, and the members that are lost by it; `None` when it is none, or
/// carries only an id and so no bytes.
fn modern_part(part: &Value) -> Option<(Value, Vec<&str>)> {
    if part.get("type")? != "binary" {
        return None;
    }
    let text = |member: &str| part.get(member).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mime_type = text("mimeType")?;
    let kind = match mime_type.split_once('/') {
        Some((kind @ ("image" | "audio" | "video"), _)) => kind,
        _ => "document",
    };
    let (source, member) = match text("data") {
        Some(_) => ("data", "data"),
        None => ("url", "url"),
    };
    let mut modern = serde_json::json!({
        "type": kind,
        "source": { "type": source, "value": text(member)?, "mimeType": mime_type },
    });
    let mut kept = vec!["type", "mimeType", member];
    if let Some(filename) = text("filename") {
        modern["metadata"] = serde_json::json!({ "filename": filename });
        kept.push("filename");
    }
    if let Some(id) = text("id") {
        modern["id"] = Value::from(id);
        kept.push("id");
    }
    let members = part.as_object().into_iter().flatten();
    let lost = members.filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str());
    Some((modern, lost.filter(|name| !kept.contains(name)).collect()))
}

fn retired_shape(message: String, event: usize, path: String) -> Warning {
    Warning { rule: WarningRule::RetiredShape, message, event, path: Some(path) }
}
