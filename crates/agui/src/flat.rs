//! Reading the events that a stream consists of nearly alone: one flat object of strings.
//!
//! A delta is some hundred bytes of JSON without a number, a list or an object in it, and a general reader spends most of
//! its time on being general. What is not evidently one of these events is left to that reader, which judges it; so this
//! one may give up at anything unusual, and decides nothing. Tests hold the two together.
//!
//! What is read is lent from where it was read. Who wants an event makes one of it; who only wants what it adds to a text
//! makes none.

use std::ops::Range;

use crate::message::TextMessageRole;
use crate::part::{ItemKind, Part, Step};

/// So many digits are a safe integer whatever they are; timestamps have fewer.
const SAFE_DIGITS: usize = 15;

/// What is kept from one event to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// What a delta with escapes means.
    text: String,
    head: Head,
}

/// How the last event began that had its delta at its end: all before what the delta holds, and what that says. A stream
/// extends one item many times in a row, and says the same of it each time.
#[derive(Debug, Default)]
struct Head {
    /// Empty when there is none.
    text: String,
    said: Said,
}

/// What an event says before its delta.
#[derive(Clone, Debug)]
struct Said {
    kind: ItemKind,
    step: Step,
    /// Where these stand in the event.
    id: Option<Range<usize>>,
    subagent_run_id: Option<Range<usize>>,
    timestamp: Option<i64>,
    role: Option<TextMessageRole>,
}

impl Default for Said {
    fn default() -> Self {
        let (kind, step) = (ItemKind::Text, Step::Content);
        Self { kind, step, id: None, subagent_run_id: None, timestamp: None, role: None }
    }
}

impl Said {
    fn part<'a>(&self, json: &'a str, delta: Option<&'a str>) -> Part<'a> {
        let Self { kind, step, timestamp, role, .. } = *self;
        let text = |range: &Option<Range<usize>>| range.clone().map(|range| &json[range]);
        Part { kind, step, id: text(&self.id), delta, subagent_run_id: text(&self.subagent_run_id), timestamp, role }
    }
}

/// A head that is longer is not kept.
const LONGEST_HEAD: usize = 512;

/// Reads one event, if it is one about an item in its usual form; `None` when it is not.
pub(crate) fn read<'a>(json: &'a str, scratch: &'a mut Scratch) -> Option<Part<'a>> {
    let Scratch { text, head } = scratch;
    if !head.text.is_empty() && json.starts_with(head.text.as_str()) {
        let mut reader = Reader { text: json, at: head.text.len() };
        let delta = reader.rest_of_string(text)?;
        if &json[reader.at..] == "}" {
            return Some(head.said.part(json, Some(delta.of(text))));
        }
    }
    read_whole(json, text, head)
}

/// As [`read`], whatever came before.
fn read_whole<'a>(json: &'a str, scratch: &'a mut String, head: &mut Head) -> Option<Part<'a>> {
    let mut reader = Reader { text: json, at: 0 };
    // Written without white space, as most producers do, keys are compared where they stand.
    if !reader.literal("{\"type\":") {
        reader.take(b'{')?;
        if reader.plain()? != "type" {
            return None;
        }
        reader.take(b':')?;
    }
    let (kind, step) = match reader.plain()? {
        "TEXT_MESSAGE_CONTENT" => (ItemKind::Text, Step::Content),
        "TOOL_CALL_ARGS" => (ItemKind::ToolCall, Step::Content),
        "REASONING_MESSAGE_CONTENT" => (ItemKind::Reasoning, Step::Content),
        "TEXT_MESSAGE_CHUNK" => (ItemKind::Text, Step::Chunk),
        "TOOL_CALL_CHUNK" => (ItemKind::ToolCall, Step::Chunk),
        "REASONING_MESSAGE_CHUNK" => (ItemKind::Reasoning, Step::Chunk),
        "TEXT_MESSAGE_START" => (ItemKind::Text, Step::Start),
        "TEXT_MESSAGE_END" => (ItemKind::Text, Step::End),
        "TOOL_CALL_END" => (ItemKind::ToolCall, Step::End),
        "REASONING_MESSAGE_END" => (ItemKind::Reasoning, Step::End),
        _ => return None,
    };
    let id_key = match kind {
        ItemKind::ToolCall => "toolCallId",
        ItemKind::Text | ItemKind::Reasoning => "messageId",
    };
    let mut said = Said { kind, step, ..Said::default() };
    // The delta, and where it begins.
    let (mut delta, mut delta_at, mut delta_is_last) = (None, 0, false);
    while reader.peek()? == b',' {
        delta_is_last = false;
        reader.at += 1;
        let key = reader.plain()?;
        reader.take(b':')?;
        let place = match key {
            "delta" if matches!(step, Step::Content | Step::Chunk) && delta.is_none() => {
                reader.take(b'"')?;
                delta_at = reader.at;
                delta = Some(reader.rest_of_string(scratch)?);
                delta_is_last = true;
                continue;
            }
            "timestamp" if said.timestamp.is_none() => {
                said.timestamp = Some(reader.integer()?);
                continue;
            }
            "role" if step == Step::Start && said.role.is_none() => {
                said.role = Some(TextMessageRole::of_name(reader.plain()?)?);
                continue;
            }
            "subagentRunId" => &mut said.subagent_run_id,
            key if key == id_key => &mut said.id,
            _ => return None,
        };
        let length = reader.plain()?.len();
        // The quote behind it was taken as well.
        let end = reader.at - 1;
        if place.replace(end - length..end).is_some() {
            return None;
        }
    }
    reader.take(b'}')?;
    if reader.peek().is_some()
        || (step != Step::Chunk && said.id.is_none())
        || (step == Step::Content && delta.is_none())
    {
        return None;
    }
    let part = said.part(json, delta.map(|delta| delta.of(scratch)));
    if delta_is_last && delta_at <= LONGEST_HEAD {
        head.text.clear();
        head.text.push_str(&json[..delta_at]);
        head.said = said;
    }
    Some(part)
}

/// A string that was read.
#[derive(Clone, Copy)]
enum Text<'a> {
    /// It means what it is.
    Plain(&'a str),
    /// It had escapes, and what it means was put aside.
    InScratch,
}

impl<'a> Text<'a> {
    fn of(self, scratch: &'a str) -> &'a str {
        match self {
            Self::Plain(text) => text,
            Self::InScratch => scratch,
        }
    }
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

    /// A string without escapes, as keys, types and most ids are.
    fn plain(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let rest = &self.text[self.at..];
        let length = plain_length(rest.as_bytes());
        self.at += length + 1;
        (rest.as_bytes().get(length) == Some(&b'"')).then(|| &rest[..length])
    }

    /// A string from behind its first quote. Escapes of UTF-16 are left to the general reader.
    fn rest_of_string(&mut self, scratch: &mut String) -> Option<Text<'a>> {
        let mut begun = false;
        loop {
            let rest = &self.text[self.at..];
            // Where one character is escaped others are not far.
            let length = if begun { plain_length_in_words(rest.as_bytes()) } else { plain_length(rest.as_bytes()) };
            let (piece, end) = (&rest[..length], *rest.as_bytes().get(length)?);
            self.at += length + 1;
            if end == b'"' {
                if !begun {
                    return Some(Text::Plain(piece));
                }
                scratch.push_str(piece);
                return Some(Text::InScratch);
            }
            if end != b'\\' {
                // A character that a JSON string cannot hold as it is.
                return None;
            }
            if !begun {
                begun = true;
                scratch.clear();
                // Escapes make JSON longer and never shorter, so the rest of it is room enough.
                scratch.reserve(rest.len());
            }
            scratch.push_str(piece);
            scratch.push(match rest.as_bytes().get(length + 1)? {
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

/// How many bytes of a JSON string mean what they are: those before the first quote, backslash or control character.
///
/// Whole blocks are passed without leaving early, which the compiler makes a few instructions of; in the block that has
/// the end, and in what is shorter than one, words of eight bytes tell where it is.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let mut rest = bytes;
    while let Some(block) = rest.first_chunk::<BLOCK>()
        && !block.iter().fold(false, |found, &byte| found | ends(byte))
    {
        rest = &rest[BLOCK..];
    }
    bytes.len() - rest.len() + plain_length_in_words(rest)
}

/// As [`plain_length`], for what is short.
#[inline]
fn plain_length_in_words(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(word) = rest.first_chunk::<8>() {
        let ends = ends_in(u64::from_le_bytes(*word));
        if ends != 0 {
            return bytes.len() - rest.len() + (ends.trailing_zeros() / 8) as usize;
        }
        rest = &rest[8..];
    }
    bytes.len() - rest.len() + rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())
}

/// Whether a string cannot hold the byte as what it is.
fn ends(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Marks, by its highest bit, the first byte of a word that [`plain_length`] looks for, and maybe bytes behind it.
fn ends_in(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    // A byte is below n if taking n from it borrows, which a byte that has its highest bit only seems to do. A borrow
    // reaches into the bytes behind, and never into those before.
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & HIGHEST;
    below(word, 0x20) | below(word ^ (ONES * u64::from(b'"')), 1) | below(word ^ (ONES * u64::from(b'\\')), 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::{plain_length, plain_length_in_words};
    use crate::event::Event;

    const USUAL: [&str; 14] = [
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a \"b\" \\ \/ \n\t\r\b\f ü 🦀"}"#,
        r#" { "type" : "TEXT_MESSAGE_CONTENT" , "delta" : "" , "messageId" : "m" } "#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d","subagentRunId":"s","timestamp":1767225600000}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","timestamp":-5,"messageId":"m","delta":"d"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"a\":1}"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"user","subagentRunId":"s"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","timestamp":1}"#,
        r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"d"}"#,
        r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"d"}"#,
        r#"{"type":"TOOL_CALL_CHUNK"}"#,
        r#"{"type":"REASONING_MESSAGE_CHUNK","delta":"d"}"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"c","timestamp":0}"#,
        r#"{"type":"REASONING_MESSAGE_END","messageId":"m","subagentRunId":"s"}"#,
    ];

    fn read(json: &[u8]) -> Option<Event> {
        // What an earlier event left behind is of no account.
        let mut scratch = super::Scratch { text: "left behind".to_owned(), ..Default::default() };
        read_after(json, &mut scratch)
    }

    fn read_after(json: &[u8], scratch: &mut super::Scratch) -> Option<Event> {
        super::read(std::str::from_utf8(json).ok()?, scratch).map(crate::part::Part::to_event)
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
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"tool"}"#.to_owned(),
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"user","role":"user"}"#.to_owned(),
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","delta":"d"}"#.to_owned(),
            r#"{"type":"TEXT_MESSAGE_START","role":"user"}"#.to_owned(),
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

    #[test]
    fn what_the_last_event_said_before_its_delta_is_taken_from_it_only_if_this_one_says_the_same() {
        let content = |rest: &str| format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"{rest}"#);
        let mut scratch = super::Scratch::default();
        for (json, is_read) in [
            (content(r#","delta":"a"}"#), true),
            (content(r#","delta":"b\n"}"#), true),
            (content(r#","delta":""}"#), true),
            (content(r#","delta":"c","timestamp":1}"#), true),
            (content(r#","delta":"d","messageId":"n"}"#), false),
            (content(r#","delta":"e" } "#), true),
            (content(r#","delta":"f"}}"#), false),
            (content(r#","delta":"g"#), false),
            (content(r#","delta":"\u0041"}"#), false),
            (content(r#","timestamp":2,"delta":"h"}"#), true),
            (content(r#","timestamp":2,"delta":"i"}"#), true),
            (r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"j"}"#.to_owned(), true),
            (r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"k"}"#.to_owned(), true),
            (content(r#","subagentRunId":"s","delta":"l"}"#), true),
            (content(r#","subagentRunId":"s","delta":"m"}"#), true),
        ] {
            let event = read_after(json.as_bytes(), &mut scratch);
            assert_eq!(event.is_some(), is_read, "{json}");
            assert_eq!(event.as_ref(), general(json.as_bytes()).as_ref().filter(|_| is_read), "{json}");
        }
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
            let mut scratch = super::Scratch::default();
            read_after(&json, &mut scratch);
            for (place, byte) in damage {
                let place = place.index(json.len());
                match byte {
                    Some(byte) => json[place] = byte,
                    None => {
                        json.remove(place);
                    }
                }
            }
            let after = read_after(&json, &mut scratch);
            prop_assert_eq!(&after, &read(&json), "what came before makes no difference");
            if after.is_some() {
                prop_assert_eq!(after, general(&json));
            }
        }

        /// Whatever stands before, behind and around it, in blocks, words and what is shorter: the first end is found.
        #[test]
        fn what_means_itself_ends_with_the_first_quote_backslash_or_control_character(
            bytes in prop::collection::vec(prop_oneof![8 => 0x21..=0xff_u8, 1 => any::<u8>()], 0..100),
        ) {
            let ends = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
            let length = bytes.iter().position(ends).unwrap_or(bytes.len());
            prop_assert_eq!((plain_length(&bytes), plain_length_in_words(&bytes)), (length, length));
        }
    }
}
