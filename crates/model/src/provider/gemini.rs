//! Gemini's `generateContent`.

use std::collections::VecDeque;

use runwire_agui::{CallUsage, Part as UsagePart, PartSource};
use runwire_frame::ErrorCode;
use serde_json::{Map, Value, json};

use super::{arguments_value, overlay, parse};
use crate::call::{CallError, Media, Model, ModelEvent, ModelRequest, ModelStream, Part, Turn};
use runwire_engine::HttpSetupError;

use crate::endpoint::{AnswerReader, Endpoint, EndpointOptions, ReadError};
use crate::refusal::Refusal;

const PROVIDER: &str = "google";
/// A conversation has to begin with the person.
const BEGINNING: &str = "(The beginning of the conversation is not shown.)";

/// A server of Gemini's API.
#[derive(Clone)]
pub struct Gemini {
    endpoint: Endpoint,
}

impl Gemini {
    /// The server at this address, `https://generativelanguage.googleapis.com/v1beta` by default. Does not connect yet.
    ///
    /// # Errors
    /// When the address or a header is malformed, or the process has installed no rustls provider.
    pub fn new(options: EndpointOptions) -> Result<Gemini, HttpSetupError> {
        // A key in the query, which works too, would be in other people's logs.
        let key = |key: &str| ("x-goog-api-key", key.to_owned());
        let endpoint = Endpoint::new(PROVIDER, options, "https://generativelanguage.googleapis.com/v1beta", &[], key)?;
        Ok(Gemini { endpoint })
    }
}

impl Model for Gemini {
    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn takes(&self, media: &Media) -> bool {
        part(media).is_some()
    }

    fn body(&self, _: &str, request: &ModelRequest) -> Value {
        body(request)
    }

    fn call(&self, model: &str, request: &ModelRequest) -> ModelStream {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let path = format!("/models/{model}:streamGenerateContent?alt=sse");
        self.endpoint.answer(&path, self.body(model, request), Reader::default())
    }
}

fn body(request: &ModelRequest) -> Value {
    let mut contents: Vec<Value> = Vec::new();
    if !matches!(request.turns.first(), Some(Turn::User(_)) | None) {
        contents.push(json!({ "role": "user", "parts": [{ "text": BEGINNING }] }));
    }
    for turn in &request.turns {
        let (role, parts) = match turn {
            Turn::User(parts) => ("user", content(parts)),
            Turn::Assistant { text, calls } => {
                let mut parts: Vec<Value> = Vec::new();
                parts.extend((!text.is_empty()).then(|| json!({ "text": text })));
                parts.extend(calls.iter().map(|call| {
                    let call_value = json!({ "name": call.name, "args": arguments_value(&call.arguments) });
                    let mut part = json!({ "functionCall": call_value });
                    if let Some(signature) = &call.opaque {
                        part["thoughtSignature"] = signature.clone();
                    }
                    part
                }));
                ("model", parts)
            }
            Turn::Results(results) => {
                let part = |result: &crate::call::CallResult| {
                    let key = if result.ok { "result" } else { "error" };
                    let response = Map::from_iter([(key.to_owned(), Value::from(result.text.clone()))]);
                    json!({ "functionResponse": { "name": result.name, "response": response } })
                };
                ("user", results.iter().map(part).collect())
            }
        };
        if !parts.is_empty() {
            contents.push(json!({ "role": role, "parts": parts }));
        }
    }
    let mut body = Map::from_iter([("contents".to_owned(), Value::Array(contents))]);
    if !request.system.is_empty() {
        body.insert("systemInstruction".to_owned(), json!({ "parts": [{ "text": request.system }] }));
    }
    if !request.tools.is_empty() {
        let tool = |tool: &crate::call::ToolSpec| {
            // `parameters` takes a dialect of its own; this member takes JSON Schema.
            json!({ "name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters })
        };
        let tools: Vec<Value> = request.tools.iter().map(tool).collect();
        body.insert("tools".to_owned(), json!([{ "functionDeclarations": tools }]));
    }
    let mut generation = Map::new();
    generation.extend(request.max_output_tokens.map(|max| ("maxOutputTokens".to_owned(), json!(max))));
    generation.extend(request.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    if !generation.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(generation));
    }
    overlay(&mut body, &request.extra);
    Value::Object(body)
}

fn content(parts: &[Part]) -> Vec<Value> {
    let written = parts.iter().filter_map(|piece| match piece {
        Part::Text(text) => Some(json!({ "text": text })),
        Part::Media(media) => part(media),
    });
    written.collect()
}

/// It takes media of all kinds: carried along, or as a file that it was given before.
fn part(media: &Media) -> Option<Value> {
    match &media.source {
        PartSource::Data(data) => Some(json!({ "inlineData": { "mimeType": data.mime_type, "data": data.value } })),
        PartSource::File(file) if file.provider.as_deref() == Some(PROVIDER) => {
            let mut data = json!({ "fileUri": file.value });
            if let Some(mime_type) = &file.mime_type {
                data["mimeType"] = json!(mime_type);
            }
            Some(json!({ "fileData": data }))
        }
        PartSource::Url(_) | PartSource::File(_) => None,
    }
}

#[derive(Default)]
struct Reader {
    served: Option<String>,
    calls: usize,
    finished: bool,
}

impl AnswerReader for Reader {
    fn read(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        let chunk = parse(PROVIDER, data)?;
        if let Some(error) = chunk.get("error") {
            return Err(ReadError::Refused(Refusal::of_stream(error)));
        }
        if let Some(model) = chunk["modelVersion"].as_str()
            && self.served.as_deref() != Some(model)
        {
            self.served = Some(model.to_owned());
            out.push_back(ModelEvent::Served(model.to_owned()));
        }
        if chunk["usageMetadata"].is_object() {
            out.push_back(ModelEvent::Usage(usage(&chunk["usageMetadata"])));
        }
        if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            return Err(ReadError::Failed(CallError::lasting(
                ErrorCode::GuardrailBlocked,
                format!("{PROVIDER} refused the request for its content: {reason}"),
            )));
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part, out);
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.finish(reason, out)?;
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.finished
    }
}

impl Reader {
    fn part(&mut self, part: &Value, out: &mut VecDeque<ModelEvent>) {
        if let Some(text) = part["text"].as_str().filter(|text| !text.is_empty()) {
            let thought = part["thought"].as_bool().unwrap_or(false);
            let text = text.to_owned();
            out.push_back(if thought { ModelEvent::Thinking(text) } else { ModelEvent::Text(text) });
        }
        if let Some(name) = part["functionCall"]["name"].as_str() {
            let index = self.calls;
            self.calls += 1;
            let id = part["functionCall"]["id"].as_str().map(str::to_owned);
            out.push_back(ModelEvent::Call { index, id, name: name.to_owned() });
            let arguments = part["functionCall"].get("args").filter(|args| !args.is_null());
            out.extend(arguments.map(|args| ModelEvent::Arguments { index, delta: args.to_string() }));
            let signature = part.get("thoughtSignature").cloned();
            out.extend(signature.map(|value| ModelEvent::Opaque { index, value }));
        }
    }

    fn finish(&mut self, reason: &str, out: &mut VecDeque<ModelEvent>) -> Result<(), CallError> {
        let reason = match reason {
            // It has no word of its own for stopping to call.
            "STOP" if self.calls > 0 => "tool_calls",
            "STOP" => "stop",
            "MAX_TOKENS" => "length",
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => "content_filter",
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
                return Err(CallError::passing(
                    ErrorCode::ModelError,
                    format!("the model of {PROVIDER} made a tool call that cannot be read ({reason})"),
                ));
            }
            other => other,
        };
        self.finished = true;
        out.push_back(ModelEvent::Finished(reason.to_owned()));
        Ok(())
    }
}

/// Gemini counts the cache inside the prompt, and reasoning beside the candidates.
fn usage(usage: &Value) -> CallUsage {
    let prompt = usage["promptTokenCount"].as_u64();
    // What its own tools add to the prompt is charged for as input, and reported beside it.
    let of_tools = usage["toolUsePromptTokenCount"].as_u64().unwrap_or(0);
    CallUsage {
        input: prompt.map(|prompt| prompt.saturating_add(of_tools)),
        cached_input: usage["cachedContentTokenCount"].as_u64().map(UsagePart::Inside),
        output: usage["candidatesTokenCount"].as_u64(),
        reasoning: usage["thoughtsTokenCount"].as_u64().map(UsagePart::Beside),
        ..CallUsage::default()
    }
}

#[cfg(test)]
#[path = "gemini_tests.rs"]
mod tests;
