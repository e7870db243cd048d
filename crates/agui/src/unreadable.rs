//! Why the bytes of an event are not read as JSON, in words for whoever wrote them.
//!
//! That bytes are no JSON is said of them only when it is so. A string that holds half a character, and a value that goes
//! past what this reader takes, are JSON by its grammar.

use std::fmt;

use serde_json::error::Category;

/// What this reader does not take of JSON. A stream breaks no rule by going past it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderLimit {
    /// Arrays and objects within each other, the event itself included: 127 levels.
    Nesting,
    /// Numbers: what a 64-bit float can hold, some 1.8e308.
    NumberRange,
    /// Lists of more than 10,000 elements that hold next to nothing, in protobuf, where they cost a peer two bytes each.
    EmptyElements,
}

impl fmt::Display for ReaderLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Nesting => "nests more than 127 levels of arrays and objects, which is the limit of this reader",
            Self::EmptyElements => {
                "has a list of more than 10,000 elements with next to nothing in them, which is the limit of this reader"
            }
            Self::NumberRange => "holds a number beyond the range of 64-bit floats, which is the limit of this reader",
        })
    }
}

/// What is said of an event that is no text.
pub(crate) const NOT_UTF8: &str = "The event is not UTF-8.";

/// Why bytes are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// They are no text; the first byte that is wrong, from 0.
    NotUtf8(usize),
    /// A string holds one half of a surrogate pair without the other.
    HalfAPair,
    /// They go past a limit.
    Limit(ReaderLimit),
    /// They are no JSON.
    Syntax,
}

/// Bytes that were not read as JSON.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) why: Why,
    error: serde_json::Error,
}

impl Unreadable {
    /// Looks at the error that reading `json` to a value came to.
    pub(crate) fn new(json: &[u8], error: serde_json::Error) -> Self {
        let why = why(json, &error);
        // What goes past a limit may be no JSON behind that all the same. This reader keeps to the grammar alone.
        if matches!(why, Why::Limit(_) | Why::HalfAPair)
            && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(json)
        {
            return Self { why: Why::Syntax, error };
        }
        Self { why, error }
    }

    /// What should have come.
    pub(crate) fn expected(&self) -> &'static str {
        match self.why {
            Why::NotUtf8(_) | Why::Syntax => "one JSON object",
            Why::HalfAPair => "strings of whole characters: both halves of a surrogate pair, or neither",
            Why::Limit(_) => "an event within the limits of this reader",
        }
    }

    /// What came.
    pub(crate) fn found(&self) -> String {
        let (line, column) = (self.error.line(), self.error.column());
        match self.why {
            Why::NotUtf8(position) => format!("invalid bytes at position {position}"),
            Why::HalfAPair => format!("half of a surrogate pair at line {line} column {column}"),
            Why::Limit(_) | Why::Syntax => self.error.to_string(),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found();
        match self.why {
            // Where that is depends on what the event is wrapped in; the sentence is the same in every form.
            Why::NotUtf8(_) => formatter.write_str(NOT_UTF8),
            Why::HalfAPair => write!(
                formatter,
                "A string of the event has {found}: a character such as an emoji was cut in two, and no text holds half a \
                 character."
            ),
            Why::Limit(limit) => write!(formatter, "The event {limit} ({found})."),
            Why::Syntax => write!(formatter, "The event is not a JSON document: {found}."),
        }
    }
}

fn why(json: &[u8], error: &serde_json::Error) -> Why {
    if let Err(error) = std::str::from_utf8(json) {
        return Why::NotUtf8(error.valid_up_to());
    }
    // The reader has one kind of error for all of these, and tells them apart by their words alone. Were they to change, it
    // would be said of such an event that it is no JSON, and the tests below would say so.
    let words = error.to_string();
    let begins = |with: &str| error.classify() == Category::Syntax && words.starts_with(with);
    if begins("recursion limit exceeded") {
        Why::Limit(ReaderLimit::Nesting)
    } else if begins("number out of range") {
        Why::Limit(ReaderLimit::NumberRange)
    } else if begins("lone leading surrogate") || begins("unexpected end of hex escape") {
        Why::HalfAPair
    } else {
        Why::Syntax
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::Value;

    use super::*;

    fn why_not(json: &[u8]) -> (Why, String) {
        let unreadable = Unreadable::new(json, serde_json::from_slice::<Value>(json).unwrap_err());
        (unreadable.why, unreadable.to_string())
    }

    #[test]
    fn what_is_json_by_its_grammar_is_never_called_anything_else() {
        let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        assert!(serde_json::from_str::<Value>(&deep(127)).is_ok());
        let limit = |limit: ReaderLimit| Why::Limit(limit);
        for (json, why) in [
            (deep(128).as_str(), limit(ReaderLimit::Nesting)),
            (r#"{"a":1e400}"#, limit(ReaderLimit::NumberRange)),
            (r#"{"a":[-1e999]}"#, limit(ReaderLimit::NumberRange)),
            (r#"{"a":"\ud83d"}"#, Why::HalfAPair),
            (r#"{"a":"\ud83d and more"}"#, Why::HalfAPair),
            (r#"{"a":"\ud83d\ud83d"}"#, Why::HalfAPair),
            (r#"{"a":"\ud83d\u0041"}"#, Why::HalfAPair),
            (r#"{"a":"\ude00"}"#, Why::HalfAPair),
            (r#"{"\ude00":1}"#, Why::HalfAPair),
        ] {
            let (told, words) = why_not(json.as_bytes());
            assert_eq!(told, why, "{json}");
            assert!(!words.contains("not a JSON"), "{words}");
        }
    }

    #[test]
    fn what_is_no_json_is_called_that() {
        for json in ["", "{", "{\"a\":\"\\u12", r#"{"a":"\u12zz"}"#, "{'a':1}", "[1] 2", r#"{"a":"\x"}"#, "{\"a\":1.}"]
        {
            let (told, words) = why_not(json.as_bytes());
            assert_eq!(told, Why::Syntax, "{json}");
            assert!(words.starts_with("The event is not a JSON document: "), "{words}");
        }
        // Also behind what goes past a limit.
        for json in [r#"{"a":1e400 oops}"#, r#"{"a":"\ud83d" oops}"#, &format!("{}oops", "[".repeat(200))] {
            assert_eq!(why_not(json.as_bytes()).0, Why::Syntax, "{json}");
        }
        assert_eq!(why_not(b"{\"a\":\"\xff\"}").1, NOT_UTF8);
    }
}
