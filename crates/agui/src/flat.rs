//! Reading the events that a stream consists of nearly alone: one flat object of strings.
//!
//! A delta is some hundred bytes of JSON without a number, a list or an object in it, and a general reader spends most of
//! its time on being general. What is not evidently one of these events is left to that reader, which judges it; so this
//! one may give up at anything unusual, and decides nothing. Tests hold the two together.

use crate::event::Event;
use crate::events::{
    ReasoningMessageChunk, ReasoningMessageContent, ReasoningMessageEnd, TextMessageChunk, TextMessageContent,
    TextMessageEnd, ToolCallArgs, ToolCallChunk, ToolCallEnd,
};

/// So many digits are a safe integer whatever they are; timestamps have fewer.
const SAFE_DIGITS: usize = 15;

/// Reads one event into a list, if it is a delta, a chunk or an end in its usual form; `None` when it is not.
pub(crate) fn read(json: &[u8], out: &mut Vec<Event>) -> Option<()> {
    let mut reader = Reader { text: std::str::from_utf8(json).ok()?, at: 0 };
    // Written without white space, as most producers do, keys are compared where they stand.
    if !reader.literal("{\"type\":") {
        reader.take(b'{')?;
        if reader.name()? != "type" {
            return None;
        }
        reader.take(b':')?;
    }
    let event_type = reader.name()?;
    let id_key = match event_type {
        "TOOL_CALL_ARGS" | "TOOL_CALL_CHUNK" | "TOOL_CALL_END" => "toolCallId",
        _ => "messageId",
    };
    let (mut id, mut delta, mut subagent_run_id, mut timestamp) = (None, None, None, None);
    while reader.peek()? == b',' {
        reader.at += 1;
        let key = if reader.literal("\"delta\":") {
            "delta"
        } else {
            let key = reader.name()?;
            reader.take(b':')?;
            key
        };
        if key == "timestamp" && timestamp.is_none() {
            timestamp = Some(reader.integer()?);
            continue;
        }
        let place = match key {
            "delta" => &mut delta,
            "subagentRunId" => &mut subagent_run_id,
            key if key == id_key => &mut id,
            _ => return None,
        };
        if place.replace(reader.string()?).is_some() {
            return None;
        }
    }
    reader.take(b'}')?;
    if reader.peek().is_some() {
        return None;
    }
    let (raw_event, metadata) = (None, None);
    out.push(match event_type {
        "TEXT_MESSAGE_CONTENT" => {
            let (message_id, delta) = (id?, delta?);
            TextMessageContent { message_id, delta, subagent_run_id, timestamp, raw_event, metadata }.into()
        }
        "TOOL_CALL_ARGS" => {
            let (tool_call_id, delta) = (id?, delta?);
            ToolCallArgs { tool_call_id, delta, subagent_run_id, timestamp, raw_event, metadata }.into()
        }
        "REASONING_MESSAGE_CONTENT" => {
            let (message_id, delta) = (id?, delta?);
            ReasoningMessageContent { message_id, delta, subagent_run_id, timestamp, raw_event, metadata }.into()
        }
        "TEXT_MESSAGE_CHUNK" => {
            let chunk = TextMessageChunk { message_id: id, delta, subagent_run_id, timestamp, ..Default::default() };
            chunk.into()
        }
        "TOOL_CALL_CHUNK" => {
            let chunk = ToolCallChunk { tool_call_id: id, delta, subagent_run_id, timestamp, ..Default::default() };
            chunk.into()
        }
        "REASONING_MESSAGE_CHUNK" => {
            ReasoningMessageChunk { message_id: id, delta, subagent_run_id, timestamp, raw_event, metadata }.into()
        }
        "TEXT_MESSAGE_END" if delta.is_none() => {
            TextMessageEnd { message_id: id?, subagent_run_id, timestamp, raw_event, metadata }.into()
        }
        "TOOL_CALL_END" if delta.is_none() => {
            ToolCallEnd { tool_call_id: id?, subagent_run_id, timestamp, raw_event, metadata }.into()
        }
        "REASONING_MESSAGE_END" if delta.is_none() => {
            ReasoningMessageEnd { message_id: id?, subagent_run_id, timestamp, raw_event, metadata }.into()
        }
        _ => return None,
    });
    Some(())
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next byte that is no white space; `None` at the end.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        if self.peek()? != expected {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// Takes these characters, if they come next as they are.
    fn literal(&mut self, expected: &str) -> bool {
        let comes = self.text.as_bytes()[self.at..].starts_with(expected.as_bytes());
        self.at += if comes { expected.len() } else { 0 };
        comes
    }

    /// A short string of visible ASCII without escapes, as keys and types are.
    fn name(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let start = self.at;
        let length =
            self.text.as_bytes()[start..].iter().position(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_')?;
        self.at += length;
        self.literal("\"").then(|| &self.text[start..start + length])
    }

    /// A string. Escapes of UTF-16 are left to the general reader.
    fn string(&mut self) -> Option<String> {
        self.take(b'"')?;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let length = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
            let piece = &rest[..length];
            if has_control(piece) {
                return None;
            }
            self.at += length + 1;
            if rest.as_bytes()[length] == b'"' {
                if out.is_empty() {
                    return Some(piece.to_owned());
                }
                out.push_str(piece);
                return Some(out);
            }
            if out.is_empty() {
                // Escapes make JSON longer and never shorter, so the rest of it is room enough.
                out.reserve(rest.len());
            }
            out.push_str(piece);
            out.push(match self.text.as_bytes().get(self.at)? {
                b'n' => '\n',
                b'"' => '"',
                b'\\' => '\\',
                b'/' => '/',
                b't' => '\t',
                b'r' => '\r',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                _ => return None,
            });
            self.at += 1;
        }
    }

    /// A whole number that every JSON implementation can hold.
    fn integer(&mut self) -> Option<i64> {
        let first = self.peek()?;
        let start = self.at;
        let digits = usize::from(first == b'-') + start;
        let length = self.text.as_bytes()[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let has_leading_zero = length > 1 && self.text.as_bytes()[digits] == b'0';
        if length == 0 || length > SAFE_DIGITS || has_leading_zero {
            return None;
        }
        self.at = digits + length;
        // A fraction or an exponent comes next, if this is no whole number, and no comma.
        matches!(self.peek()?, b',' | b'}').then(|| self.text[start..digits + length].parse().ok())?
    }
}

/// Whether the text has a character that a JSON string cannot hold as it is.
fn has_control(text: &str) -> bool {
    // Without leaving early, this is a few instructions for sixteen bytes at a time.
    text.bytes().fold(false, |found, byte| found | (byte < 0x20))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use crate::event::Event;

    const USUAL: [&str; 12] = [
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a \"b\" \\ \/ \n\t\r\b\f ü 🦀"}"#,
        r#" { "type" : "TEXT_MESSAGE_CONTENT" , "delta" : "" , "messageId" : "m" } "#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d","subagentRunId":"s","timestamp":1767225600000}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","timestamp":-5,"messageId":"m","delta":"d"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"a\":1}"}"#,
        r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"d"}"#,
        r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d"}"#,
        r#"{"type":"TOOL_CALL_CHUNK"}"#,
        r#"{"type":"REASONING_MESSAGE_CHUNK","delta":"d"}"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"c","timestamp":0}"#,
        r#"{"type":"REASONING_MESSAGE_END","messageId":"m","subagentRunId":"s"}"#,
    ];

    fn read(json: &[u8]) -> Option<Event> {
        let mut out = Vec::new();
        super::read(json, &mut out).and_then(|()| out.pop())
    }

    /// What the general reader makes of it.
    fn general(json: &[u8]) -> Option<Event> {
        serde_json::from_slice(json).ok()
    }

    #[test]
    fn the_usual_forms_are_read_and_mean_the_same_as_to_the_general_reader() {
        for json in USUAL {
            let event = read(json.as_bytes());
            assert!(event.is_some(), "{json}");
            assert_eq!(event, general(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn whatever_is_unusual_or_wrong_is_left_to_the_general_reader() {
        let content = |rest: &str| format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"{rest}"#);
        for json in [
            content(r#","delta":"\u0041"}"#),
            content(r#","delta":"\x"}"#),
            content(",\"delta\":\"a\nb\"}"),
            content(",\"delta\":\"a\u{1}b\"}"),
            content(r#","delta":"a"#),
            content(r#","delta":"a\"#),
            content(r#","delta":"a"} x"#),
            content(r#","delta":"a",}"#),
            content(r#","delta":"a","delta":"b"}"#),
            content(r#","delta":"a","messageId":"n"}"#),
            content(r#","delta":"a","timestamp":1.0}"#),
            content(r#","delta":"a","timestamp":1e3}"#),
            content(r#","delta":"a","timestamp":01}"#),
            content(r#","delta":"a","timestamp":-}"#),
            content(r#","delta":"a","timestamp":9007199254740993}"#),
            content(r#","delta":"a","timestamp":1,"timestamp":2}"#),
            content(r#","delta":"a","toolCallId":"c"}"#),
            content(r#","delta":"a","metadata":{}}"#),
            content(r#","delta":null}"#),
            content("}"),
            r#"{"messageId":"m","type":"TEXT_MESSAGE_END"}"#.to_owned(),
            r#"{"type":"TEXT_MESSAGE_END","messageId":"m","delta":"d"}"#.to_owned(),
            r#"{"type":"STEP_STARTED","stepName":"s"}"#.to_owned(),
            "[]".to_owned(),
            String::new(),
        ] {
            assert_eq!(read(json.as_bytes()), None, "{json}");
        }
        assert_eq!(read(b"{\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"\xff\"}"), None, "no UTF-8");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// Whatever is read means what the general reader says it means, also after damage.
        #[test]
        fn nothing_is_read_that_the_general_reader_would_read_otherwise(
            which in 0..USUAL.len(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(any::<u8>())), 0..3),
        ) {
            let mut json = USUAL[which].as_bytes().to_vec();
            for (place, byte) in damage {
                let place = place.index(json.len());
                match byte {
                    Some(byte) => json[place] = byte,
                    None => {
                        json.remove(place);
                    }
                }
            }
            if let Some(event) = read(&json) {
                prop_assert_eq!(Some(event), general(&json));
            }
        }
    }
}
