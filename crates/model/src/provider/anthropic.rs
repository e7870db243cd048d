//! Anthropic's messages.

use std::collections::VecDeque;

use runwire_agui::{CallUsage, Part as UsagePart, PartSource};
use serde_json::{Map, Value, json};

use super::{arguments_value, overlay, parse};
use crate::call::{Media, MediaKind, Model, ModelEvent, ModelRequest, ModelStream, Part, Turn};
use runwire_engine::HttpSetupError;

use crate::endpoint::{AnswerReader, Endpoint, EndpointOptions, ReadError};
use crate::refusal::Refusal;

const PROVIDER: &str = "anthropic";
/// A request has to name a limit; this one every model allows.
const DEFAULT_MAX_TOKENS: u64 = 4096;
/// A conversation has to begin with the person.
const BEGINNING: &str = "(The beginning of the conversation is not shown.)";

/// A server of Anthropic's messages.
#[derive(Clone)]
pub struct Anthropic {
    endpoint: Endpoint,
}

impl Anthropic {
    /// The server at this address, `https://api.anthropic.com/v1` by default. Does not connect yet.
    ///
    /// # Errors
    /// When the address or a header is malformed, or the process has installed no rustls provider.
    pub fn new(options: EndpointOptions) -> Result<Anthropic, HttpSetupError> {
        let key = |key: &str| ("x-api-key", key.to_owned());
        let own = [("anthropic-version", "2023-06-01")];
        let endpoint = Endpoint::new(PROVIDER, options, "https://api.anthropic.com/v1", &own, key)?;
        Ok(Anthropic { endpoint })
    }
}

impl Model for Anthropic {
    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn takes(&self, media: &Media) -> bool {
        part(media).is_some()
    }

    fn body(&self, model: &str, request: &ModelRequest) -> Value {
        body(model, request)
    }

    fn call(&self, model: &str, request: &ModelRequest) -> ModelStream {
        self.endpoint.answer("/messages", self.body(model, request), Reader::default())
    }
}

fn body(model: &str, request: &ModelRequest) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    if !matches!(request.turns.first(), Some(Turn::User(_)) | None) {
        messages.push(json!({ "role": "user", "content": BEGINNING }));
    }
    for turn in &request.turns {
        let (role, content) = match turn {
            Turn::User(parts) => ("user", content(parts)),
            Turn::Assistant { text, calls } => {
                // Reasoning that led to calls goes back in front of them.
                let mut blocks: Vec<Value> = calls.iter().flat_map(|call| thinking_blocks(&call.opaque)).collect();
                blocks.extend((!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text })));
                blocks.extend(calls.iter().map(|call| {
                    let input = arguments_value(&call.arguments);
                    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
                }));
                ("assistant", blocks)
            }
            Turn::Results(results) => {
                let block = |result: &crate::call::CallResult| {
                    let mut block = json!({ "type": "tool_result", "tool_use_id": result.id, "content": result.text });
                    if !result.ok {
                        block["is_error"] = json!(true);
                    }
                    block
                };
                ("user", results.iter().map(block).collect())
            }
        };
        // It takes no empty message.
        if !content.is_empty() {
            messages.push(json!({ "role": role, "content": content }));
        }
    }
    let mut body = Map::from_iter([
        ("model".to_owned(), json!(model)),
        ("max_tokens".to_owned(), json!(request.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS))),
        ("messages".to_owned(), Value::Array(messages)),
        ("stream".to_owned(), json!(true)),
    ]);
    if !request.system.is_empty() {
        body.insert("system".to_owned(), json!(request.system));
    }
    if !request.tools.is_empty() {
        let tool = |tool: &crate::call::ToolSpec| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters });
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    body.extend(request.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    overlay(&mut body, &request.extra);
    if lacks_thinking(&request.turns) {
        // With thinking on, calls without the reasoning that led to them are refused.
        body.shift_remove("thinking");
    }
    Value::Object(body)
}

/// Whether the model would go on from calls whose reasoning nobody has any more.
fn lacks_thinking(turns: &[Turn]) -> bool {
    let last = turns.iter().rev().take_while(|turn| !matches!(turn, Turn::User(_))).find_map(|turn| match turn {
        Turn::Assistant { calls, .. } if !calls.is_empty() => Some(calls),
        _ => None,
    });
    last.is_some_and(|calls| calls.iter().all(|call| thinking_blocks(&call.opaque).is_empty()))
}

fn thinking_blocks(opaque: &Option<Value>) -> Vec<Value> {
    opaque.as_ref().and_then(Value::as_array).cloned().unwrap_or_default()
}

fn content(parts: &[Part]) -> Vec<Value> {
    let written = parts.iter().filter_map(|piece| match piece {
        Part::Text(text) if text.trim().is_empty() => None,
        Part::Text(text) => Some(json!({ "type": "text", "text": text })),
        Part::Media(media) => part(media),
    });
    written.collect()
}

fn part(media: &Media) -> Option<Value> {
    let block = match media.kind {
        MediaKind::Image => "image",
        MediaKind::Document => "document",
        MediaKind::Audio | MediaKind::Video => return None,
    };
    let source = match &media.source {
        PartSource::Data(data) if media.kind == MediaKind::Image || data.mime_type == "application/pdf" => {
            json!({ "type": "base64", "media_type": data.mime_type, "data": data.value })
        }
        PartSource::Url(url) => json!({ "type": "url", "url": url.value }),
        // Handles need a feature that has to be asked for by a header of its own.
        PartSource::Data(_) | PartSource::File(_) => return None,
    };
    Some(json!({ "type": block, "source": source }))
}

enum Block {
    /// Reasoning, kept because it goes back with the calls that it leads to.
    Thinking(Value),
    Call(usize),
    Other,
}

#[derive(Default)]
struct Reader {
    /// The blocks by their numbers.
    blocks: Vec<(u64, Block)>,
    calls: usize,
    usage: Map<String, Value>,
    /// Only the end of an answer says how much was written; its beginning has a placeholder.
    output: Option<u64>,
    stopped: bool,
}

impl AnswerReader for Reader {
    fn read(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        let event = parse(PROVIDER, data)?;
        let number = event["index"].as_u64().unwrap_or(0);
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let message = &event["message"];
                out.extend(message["model"].as_str().map(|model| ModelEvent::Served(model.to_owned())));
                self.count(&message["usage"], out);
            }
            "content_block_start" => self.block(number, &event["content_block"], out),
            "content_block_delta" => self.delta(number, &event["delta"], out),
            "message_delta" => {
                self.output = event["usage"]["output_tokens"].as_u64().or(self.output);
                self.count(&event["usage"], out);
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.finish(reason, out);
                }
            }
            "error" => return Err(ReadError::Refused(Refusal::of_stream(&event["error"]))),
            _ => {}
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.stopped
    }
}

impl Reader {
    fn block(&mut self, number: u64, block: &Value, out: &mut VecDeque<ModelEvent>) {
        let kind = match block["type"].as_str().unwrap_or_default() {
            "tool_use" => {
                let index = self.calls;
                self.calls += 1;
                out.push_back(ModelEvent::Call {
                    index,
                    id: block["id"].as_str().map(str::to_owned),
                    name: block["name"].as_str().unwrap_or_default().to_owned(),
                });
                // Arguments come in pieces; a server that has them at once puts them here.
                if block["input"].as_object().is_some_and(|input| !input.is_empty()) {
                    out.push_back(ModelEvent::Arguments { index, delta: block["input"].to_string() });
                }
                Block::Call(index)
            }
            "thinking" => {
                let thinking = block["thinking"].as_str().unwrap_or_default();
                out.extend((!thinking.is_empty()).then(|| ModelEvent::Thinking(thinking.to_owned())));
                let signature = block["signature"].as_str().unwrap_or_default();
                Block::Thinking(json!({ "type": "thinking", "thinking": thinking, "signature": signature }))
            }
            "redacted_thinking" => Block::Thinking(block.clone()),
            "text" => {
                let text = block["text"].as_str().filter(|text| !text.is_empty());
                out.extend(text.map(|text| ModelEvent::Text(text.to_owned())));
                Block::Other
            }
            _ => Block::Other,
        };
        self.blocks.push((number, kind));
    }

    fn delta(&mut self, number: u64, delta: &Value, out: &mut VecDeque<ModelEvent>) {
        let block = self.blocks.iter_mut().rev().find(|(known, _)| *known == number).map(|(_, block)| block);
        let text = |key: &str| delta[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        match (delta["type"].as_str().unwrap_or_default(), block) {
            ("text_delta", _) => out.extend(text("text").map(ModelEvent::Text)),
            ("thinking_delta", Some(Block::Thinking(kept))) => {
                let Some(thinking) = text("thinking") else { return };
                append(kept, "thinking", &thinking);
                out.push_back(ModelEvent::Thinking(thinking));
            }
            ("signature_delta", Some(Block::Thinking(kept))) => {
                append(kept, "signature", &text("signature").unwrap_or_default());
            }
            ("input_json_delta", Some(Block::Call(index))) => {
                out.extend(text("partial_json").map(|delta| ModelEvent::Arguments { index: *index, delta }));
            }
            _ => {}
        }
    }

    /// Anthropic counts cache reads and writes beside the input, and reasoning inside the output without saying how much.
    fn count(&mut self, usage: &Value, out: &mut VecDeque<ModelEvent>) {
        let Some(usage) = usage.as_object() else { return };
        // Counts of the end stand over those of the beginning.
        self.usage.extend(usage.iter().filter(|(_, value)| value.is_u64()).map(|(k, v)| (k.clone(), v.clone())));
        let count = |key: &str| self.usage.get(key).and_then(Value::as_u64);
        out.push_back(ModelEvent::Usage(CallUsage {
            input: count("input_tokens"),
            cached_input: count("cache_read_input_tokens").map(UsagePart::Beside),
            cache_write_input: count("cache_creation_input_tokens").map(UsagePart::Beside),
            output: self.output,
            ..CallUsage::default()
        }));
    }

    fn finish(&mut self, reason: &str, out: &mut VecDeque<ModelEvent>) {
        self.stopped = true;
        let thinking: Vec<Value> = std::mem::take(&mut self.blocks)
            .into_iter()
            .filter_map(|(_, block)| match block {
                Block::Thinking(kept) => Some(kept),
                _ => None,
            })
            .collect();
        if self.calls > 0 && !thinking.is_empty() {
            out.push_back(ModelEvent::Opaque { index: 0, value: Value::Array(thinking) });
        }
        let reason = match reason {
            "end_turn" | "stop_sequence" => "stop",
            "max_tokens" => "length",
            "tool_use" => "tool_calls",
            "refusal" => "content_filter",
            other => other,
        };
        out.push_back(ModelEvent::Finished(reason.to_owned()));
    }
}

fn append(block: &mut Value, key: &str, more: &str) {
    let before = block[key].as_str().unwrap_or_default();
    block[key] = Value::from(format!("{before}{more}"));
}

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;
