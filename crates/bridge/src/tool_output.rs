//! What a tool returned: the preview that a frame shows, and the whole that is stored beside the log.

use bytes::Bytes;
use runwire_frame::{PREVIEW_MAX_BYTES, SegmentId};
use serde_json::Value;

/// What a tool returned.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutput {
    /// Text.
    Text(String),
    /// An ordered list of AG-UI content parts.
    Parts(Vec<Value>),
}

/// What is stored with a segment: the whole value behind a preview, or what was kept of a model call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Which segment's.
    pub segment_id: SegmentId,
    /// `text/plain; charset=utf-8` or `application/json` (a list of AG-UI content parts; of a model call an object).
    pub content_type: &'static str,
    /// The value.
    pub bytes: Bytes,
}

/// Content type of a payload that is text.
pub const TEXT_PAYLOAD: &str = "text/plain; charset=utf-8";
/// Content type of a payload that is a list of AG-UI content parts.
pub const PARTS_PAYLOAD: &str = "application/json";

/// Content type of a payload that is what was kept of a model call.
pub(crate) const JSON_PAYLOAD: &str = "application/json";

/// What a `tool.result` frame says of an output.
pub(crate) struct Preview {
    /// The beginning of it as text.
    pub shown: String,
    /// Whether that is less than the whole.
    pub truncated: bool,
    /// Size of the whole in bytes.
    pub bytes: u64,
    /// Content type and value of the payload, if one is needed.
    pub payload: Option<(&'static str, Bytes)>,
}

impl Preview {
    pub fn of(output: &ToolOutput) -> Preview {
        match output {
            ToolOutput::Text(text) => {
                let shown = cut(text, PREVIEW_MAX_BYTES);
                let truncated = shown.len() < text.len();
                let payload = truncated.then(|| (TEXT_PAYLOAD, Bytes::copy_from_slice(text.as_bytes())));
                Preview { shown: shown.to_owned(), truncated, bytes: text.len() as u64, payload }
            }
            ToolOutput::Parts(parts) => {
                let whole = serde_json::to_vec(parts).expect("JSON values always serialise");
                let texts = parts.iter().filter(|p| p["type"] == "text").filter_map(|p| p["text"].as_str());
                let text: String = texts.collect();
                // Text is never the whole of a list of parts: which parts there are is part of the value.
                Preview {
                    shown: cut(&text, PREVIEW_MAX_BYTES).to_owned(),
                    truncated: true,
                    bytes: whole.len() as u64,
                    payload: Some((PARTS_PAYLOAD, whole.into())),
                }
            }
        }
    }
}

/// The longest beginning of at most `max` bytes that ends at a character.
fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
