//! Chat completions as OpenAI has them, and the many servers that speak the same.

use std::borrow::Cow;
use std::collections::VecDeque;

use runwire_agui::{CallUsage, Part as UsagePart, PartSource};
use serde_json::{Map, Value, json};

use super::{arguments_value, overlay, parse};
use crate::call::{Media, MediaKind, Model, ModelEvent, ModelRequest, ModelStream, Part, Turn};
use runwire_engine::HttpSetupError;

use crate::endpoint::{AnswerReader, Endpoint, EndpointOptions, ReadError};
use crate::refusal::Refusal;

const PROVIDER: &str = "openai";
const OWN_HOST: &str = "api.openai.com";

/// A server of chat completions.
#[derive(Clone)]
pub struct OpenAi {
    endpoint: Endpoint,
}

impl OpenAi {
    /// The server at this address, `https://api.openai.com/v1` by default. Does not connect yet.
    ///
    /// # Errors
    /// When the address or a header is malformed, or the process has installed no rustls provider.
    pub fn new(options: EndpointOptions) -> Result<OpenAi, HttpSetupError> {
        let bearer = |key: &str| ("authorization", format!("Bearer {key}"));
        let endpoint = Endpoint::new(PROVIDER, options, "https://api.openai.com/v1", &[], bearer)?;
        Ok(OpenAi { endpoint })
    }
}

impl Model for OpenAi {
    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn takes(&self, media: &Media) -> bool {
        part(media).is_some()
    }

    fn body(&self, model: &str, request: &ModelRequest) -> Value {
        // The old name is refused by newer models, the new one is unknown to many other servers.
        let limit = if self.endpoint.is_at(OWN_HOST) { "max_completion_tokens" } else { "max_tokens" };
        body(model, request, limit)
    }

    fn call(&self, model: &str, request: &ModelRequest) -> ModelStream {
        self.endpoint.answer("/chat/completions", self.body(model, request), Reader::default())
    }
}

fn body(model: &str, request: &ModelRequest, limit: &str) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for turn in &request.turns {
        match turn {
            Turn::User(parts) => messages.push(json!({ "role": "user", "content": content(parts) })),
            Turn::Assistant { text, calls } => {
                let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
                let said = if text.is_empty() { Value::Null } else { json!(text) };
                message.insert("content".to_owned(), said);
                if !calls.is_empty() {
                    let call = |call: &crate::call::MadeCall| {
                        let function = json!({ "name": call.name, "arguments": arguments_text(&call.arguments) });
                        json!({ "id": call.id, "type": "function", "function": function })
                    };
                    message.insert("tool_calls".to_owned(), calls.iter().map(call).collect());
                }
                messages.push(Value::Object(message));
            }
            Turn::Results(results) => messages.extend(
                results
                    .iter()
                    .map(|result| json!({ "role": "tool", "tool_call_id": result.id, "content": result.text })),
            ),
        }
    }
    let mut body = Map::from_iter([
        ("model".to_owned(), json!(model)),
        ("messages".to_owned(), Value::Array(messages)),
        ("stream".to_owned(), json!(true)),
        ("stream_options".to_owned(), json!({ "include_usage": true })),
    ]);
    if !request.tools.is_empty() {
        let tool = |tool: &crate::call::ToolSpec| {
            let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
            json!({ "type": "function", "function": function })
        };
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    body.extend(request.max_output_tokens.map(|max| (limit.to_owned(), json!(max))));
    body.extend(request.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    overlay(&mut body, &request.extra);
    Value::Object(body)
}

/// A call's arguments as the model wrote them, where that is a JSON object. OpenAI takes any text back, but other servers
/// parse it, and refuse the whole conversation over a call that was cut off in the middle.
fn arguments_text(arguments: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => Cow::Borrowed(arguments),
        Err(_) => Cow::Owned(arguments_value(arguments).to_string()),
    }
}

/// Text alone goes as a string: servers that know no parts take that too.
fn content(parts: &[Part]) -> Value {
    if parts.iter().all(|part| matches!(part, Part::Text(_))) {
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Media(_) => None,
        });
        return Value::from(texts.collect::<Vec<_>>().join("\n"));
    }
    let written = parts.iter().filter_map(|part_of_it| match part_of_it {
        Part::Text(text) => Some(json!({ "type": "text", "text": text })),
        Part::Media(media) => part(media),
    });
    written.collect()
}

fn part(media: &Media) -> Option<Value> {
    match (media.kind, &media.source) {
        (MediaKind::Image, PartSource::Data(data)) => {
            let url = format!("data:{};base64,{}", data.mime_type, data.value);
            Some(json!({ "type": "image_url", "image_url": { "url": url } }))
        }
        (MediaKind::Image, PartSource::Url(url)) => {
            Some(json!({ "type": "image_url", "image_url": { "url": url.value } }))
        }
        (MediaKind::Audio, PartSource::Data(data)) => {
            let format = match data.mime_type.as_str() {
                "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
                "audio/mpeg" | "audio/mp3" => "mp3",
                _ => return None,
            };
            Some(json!({ "type": "input_audio", "input_audio": { "data": data.value, "format": format } }))
        }
        (MediaKind::Document, PartSource::Data(data)) if data.mime_type == "application/pdf" => {
            let file = format!("data:application/pdf;base64,{}", data.value);
            Some(json!({ "type": "file", "file": { "filename": "document.pdf", "file_data": file } }))
        }
        (MediaKind::Document, PartSource::File(file)) if file.provider.as_deref() == Some(PROVIDER) => {
            Some(json!({ "type": "file", "file": { "file_id": file.value } }))
        }
        _ => None,
    }
}

#[derive(Default)]
struct Reader {
    served: Option<String>,
    /// The calls so far: which number the server gives each, where it gives one.
    calls: Vec<Option<u64>>,
    finished: bool,
}

impl AnswerReader for Reader {
    fn read(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let chunk = parse(PROVIDER, data)?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(ReadError::Refused(Refusal::of_stream(error)));
        }
        if let Some(model) = chunk["model"].as_str().filter(|model| !model.is_empty())
            && self.served.as_deref() != Some(model)
        {
            self.served = Some(model.to_owned());
            out.push_back(ModelEvent::Served(model.to_owned()));
        }
        if let Some(choice) = chunk["choices"].get(0) {
            self.delta(&choice["delta"], out);
            if let Some(reason) = choice["finish_reason"].as_str() {
                self.finished = true;
                // Its name from before there were several calls at once.
                let reason = if reason == "function_call" { "tool_calls" } else { reason };
                out.push_back(ModelEvent::Finished(reason.to_owned()));
            }
        }
        if chunk["usage"].is_object() {
            out.push_back(ModelEvent::Usage(usage(&chunk["usage"])));
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.finished
    }
}

impl Reader {
    fn delta(&mut self, delta: &Value, out: &mut VecDeque<ModelEvent>) {
        let text = |key: &str| delta[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        // Not OpenAI's own: its compatible servers have two names for it.
        out.extend(text("reasoning_content").or_else(|| text("reasoning")).map(ModelEvent::Thinking));
        out.extend(text("content").map(ModelEvent::Text));
        // A refusal in the model's own words is what it said.
        out.extend(text("refusal").map(ModelEvent::Text));
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let number = call["index"].as_u64();
            let name = call["function"]["name"].as_str().filter(|name| !name.is_empty());
            let known = match number {
                Some(number) => self.calls.iter().position(|known| *known == Some(number)),
                // A server that does not number its calls sends each at once, or the pieces of one after the other.
                None if name.is_some() => None,
                None => self.calls.len().checked_sub(1),
            };
            let index = match (known, name) {
                (Some(index), _) => index,
                (None, Some(name)) => {
                    self.calls.push(number);
                    let index = self.calls.len() - 1;
                    let id = call["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
                    out.push_back(ModelEvent::Call { index, id, name: name.to_owned() });
                    index
                }
                (None, None) => continue,
            };
            let arguments = call["function"]["arguments"].as_str().filter(|delta| !delta.is_empty());
            out.extend(arguments.map(|delta| ModelEvent::Arguments { index, delta: delta.to_owned() }));
        }
    }
}

/// OpenAI counts both parts inside their totals, and reports no cache writes.
fn usage(usage: &Value) -> CallUsage {
    let inside = |value: &Value| value.as_u64().map(UsagePart::Inside);
    CallUsage {
        input: usage["prompt_tokens"].as_u64(),
        cached_input: inside(&usage["prompt_tokens_details"]["cached_tokens"]),
        output: usage["completion_tokens"].as_u64(),
        reasoning: inside(&usage["completion_tokens_details"]["reasoning_tokens"]),
        ..CallUsage::default()
    }
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
