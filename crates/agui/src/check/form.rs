//! The forms that a stream is recorded in, and how a recording is cut into events as its bytes come.
//!
//! Nothing is held but the event that is being read, so a recording may be of any length.

mod array;
mod frames;
mod lines;
mod sse;

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::check::CheckError;
use crate::check::finding::excerpt;
use crate::check::form::array::ArrayReader;
use crate::check::form::frames::FrameReader;
use crate::check::form::lines::LineReader;
use crate::check::form::sse::SseReader;
use crate::retired::retired_type;
use crate::violation::Rule;

/// The most bytes that one event of a recording may have.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// The most bytes that may come before it is clear which form a recording is in.
const MAX_HEAD_BYTES: usize = 4 * 1024;

/// A line that is no field of an event stream is known for that after so many bytes.
const FIELD_BYTES: usize = 64;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What a stream is recorded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Nothing but white space: a stream that stopped before its first event.
    Empty,
    /// Server-Sent Events (transports/http-sse).
    Sse,
    /// One JSON object a line.
    Lines,
    /// A JSON array of events.
    Array,
    /// Protobuf frames (transports/http-protobuf).
    Protobuf,
}

impl Form {
    /// The form's stable name: `empty`, `sse`, `ndjson`, `json-array` or `protobuf`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Sse => "sse",
            Self::Lines => "ndjson",
            Self::Array => "json-array",
            Self::Protobuf => "protobuf",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One event of a recording, not yet judged.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Where it begins, in bytes from the start of the recording.
    pub(crate) offset: u64,
    /// How many bytes of the recording it takes.
    pub(crate) length: u64,
    pub(crate) payload: Payload,
}

/// What was recorded of an event.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Bytes that should be one JSON object.
    Json(Vec<u8>),
    /// A protobuf frame of a type that only the number of its arm in the envelope names.
    UnknownArm(u32),
    /// Bytes that are no event.
    Undecodable(Undecodable),
}

/// Bytes that break a rule before anything can be read of them.
#[derive(Debug)]
pub(crate) struct Undecodable {
    /// The rule.
    pub(crate) rule: Rule,
    /// What is wrong, in a sentence.
    pub(crate) message: String,
    /// What came.
    pub(crate) found: String,
    /// The bytes from their beginning, where a person can read them.
    pub(crate) held: Option<Vec<u8>>,
}

impl Payload {
    /// What was recorded, on one line, cut at a sensible length; `None` when it is nothing to read.
    pub(crate) fn excerpt(&self) -> Option<String> {
        match self {
            Self::Json(json) => Some(excerpt(json)),
            Self::Undecodable(undecodable) => undecodable.held.as_deref().map(excerpt),
            Self::UnknownArm(_) => None,
        }
    }

    /// The name of the event's type, when that is one of those that reasoning had before 1.0.
    pub(crate) fn retired_type(&self) -> Option<&'static str> {
        let Self::Json(json) = self else { return None };
        let event: Value = serde_json::from_slice(json).ok()?;
        retired_type(event.get("type")?.as_str()?)
    }
}

/// What a recording stopped inside of, and what was discarded of it.
#[derive(Debug)]
pub(crate) struct Unterminated {
    /// Where it begins, in bytes from the start of the recording. It goes on to the end.
    pub(crate) offset: u64,
    /// Its bytes from their beginning, where a person can read them.
    pub(crate) held: Option<Vec<u8>>,
    /// What came of it, in words.
    pub(crate) found: String,
}

/// Cuts a recording into events.
#[derive(Debug)]
pub(crate) struct Recording {
    /// Bytes of the recording before what is pushed next.
    offset: u64,
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    /// What came so far does not say which form it is.
    Head(Vec<u8>),
    Sse(Box<SseReader>),
    Lines(LineReader),
    Array(ArrayReader),
    Frames(Box<FrameReader>),
}

impl Recording {
    /// A recording of that form, or of one to be detected.
    pub(crate) fn new(form: Option<Form>) -> Self {
        Self { offset: 0, reader: form.map_or_else(|| Reader::Head(Vec::new()), Reader::of) }
    }

    /// What the recording turned out to be.
    pub(crate) fn form(&self) -> Form {
        match &self.reader {
            Reader::Head(_) => Form::Empty,
            Reader::Sse(_) => Form::Sse,
            Reader::Lines(_) => Form::Lines,
            Reader::Array(_) => Form::Array,
            Reader::Frames(_) => Form::Protobuf,
        }
    }

    /// Where a line of it first ended with anything but LF, where that matters.
    pub(crate) fn carriage_return(&self) -> Option<u64> {
        match &self.reader {
            Reader::Sse(reader) => reader.carriage_return,
            _ => None,
        }
    }

    /// How many bytes came.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset
    }

    /// Takes the next bytes and adds the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        let at = self.offset;
        self.offset += bytes.len() as u64;
        let Reader::Head(head) = &mut self.reader else { return self.reader.push(bytes, at, out) };
        head.extend_from_slice(bytes);
        match detect(head, false)? {
            Some(form) => self.begin(form, out),
            None => Ok(()),
        }
    }

    /// Counts bytes that nobody has to read any more.
    pub(crate) fn skip(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
    }

    /// Ends the recording, and says what it stopped inside of.
    pub(crate) fn finish(&mut self, out: &mut Vec<Recorded>) -> Result<Option<Unterminated>, CheckError> {
        if let Reader::Head(head) = &self.reader {
            match detect(head, true)? {
                Some(form) => self.begin(form, out)?,
                None => return Ok(None),
            }
        }
        self.reader.finish(out)
    }

    fn begin(&mut self, form: Form, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        let reader = Reader::of(form);
        let Reader::Head(head) = std::mem::replace(&mut self.reader, reader) else { return Ok(()) };
        // What was looked past to know the form is no part of the first event.
        let text = text_of(&head);
        self.reader.push(text, (head.len() - text.len()) as u64, out)
    }
}

impl Reader {
    fn of(form: Form) -> Self {
        match form {
            Form::Empty => Self::Head(Vec::new()),
            Form::Sse => Self::Sse(Box::new(SseReader::new())),
            Form::Lines => Self::Lines(LineReader::default()),
            Form::Array => Self::Array(ArrayReader::default()),
            Form::Protobuf => Self::Frames(Box::new(FrameReader::new())),
        }
    }

    fn push(&mut self, bytes: &[u8], at: u64, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        match self {
            Self::Head(_) => Ok(()),
            Self::Sse(reader) => reader.push(bytes, at, out),
            Self::Lines(reader) => reader.push(bytes, at, out),
            Self::Array(reader) => reader.push(bytes, at, out),
            Self::Frames(reader) => reader.push(bytes, at, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<Recorded>) -> Result<Option<Unterminated>, CheckError> {
        match self {
            Self::Head(_) => Ok(None),
            Self::Sse(reader) => Ok(reader.finish()),
            Self::Lines(reader) => Ok(reader.finish(out)),
            Self::Array(reader) => reader.finish().map(|()| None),
            Self::Frames(reader) => Ok(reader.finish()),
        }
    }
}

/// What stands in a recording that begins so, behind a byte order mark and white space.
fn text_of(head: &[u8]) -> &[u8] {
    head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head).trim_ascii_start()
}

/// The form of a recording that begins so; `None` when more has to come, or at the end, when there is nothing.
fn detect(head: &[u8], ended: bool) -> Result<Option<Form>, CheckError> {
    if !ended && BYTE_ORDER_MARK.starts_with(head) {
        return Ok(None);
    }
    let text = text_of(head);
    if head.len() - text.len() > MAX_HEAD_BYTES {
        return Err(CheckError::UnknownForm(String::new()));
    }
    match text.first() {
        None => return Ok(None),
        Some(b'[') => return Ok(Some(Form::Array)),
        Some(b'{') => return Ok(Some(Form::Lines)),
        // No text begins so, and every frame of less than 16 MiB does.
        Some(0) => return Ok(Some(Form::Protobuf)),
        Some(_) => {}
    }
    // Neither the answer nor the message may depend on how much of the recording came with its beginning.
    let begin = &text[..text.len().min(FIELD_BYTES)];
    let end = begin.iter().position(|&byte| matches!(byte, b':' | b'\n' | b'\r'));
    if end.is_none() && !ended && text.len() < FIELD_BYTES {
        return Ok(None);
    }
    let field = &begin[..end.unwrap_or(begin.len())];
    if matches!(field, b"" | b"data" | b"event" | b"id" | b"retry") {
        return Ok(Some(Form::Sse));
    }
    Err(CheckError::UnknownForm(String::from_utf8_lossy(field).chars().take(40).collect()))
}

fn fits(bytes: usize) -> Result<(), CheckError> {
    if bytes > MAX_EVENT_BYTES { Err(CheckError::TooLarge { limit: MAX_EVENT_BYTES }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The places of the events, with the bytes given in pieces of `size`.
    fn places(recording: &str, size: usize) -> (Form, Vec<&str>) {
        let mut reader = Recording::new(None);
        let mut out = Vec::new();
        for piece in recording.as_bytes().chunks(size) {
            reader.push(piece, &mut out).unwrap();
        }
        reader.finish(&mut out).unwrap();
        let texts = out.iter().map(|event| &recording[event.offset as usize..(event.offset + event.length) as usize]);
        assert_eq!(reader.bytes(), recording.len() as u64);
        (reader.form(), texts.collect())
    }

    #[test]
    fn an_event_is_found_at_its_bytes_however_they_are_cut() {
        let cases: [(&str, Form, &[&str]); 6] = [
            ("\u{feff}{\"a\":1}\r\n\n  {\"b\":2}", Form::Lines, &["{\"a\":1}", "{\"b\":2}"]),
            (" [ {\"a\":\"]\\\"},\"} , [1,[2]],3 ]\n", Form::Array, &["{\"a\":\"]\\\"},\"}", "[1,[2]]", "3"]),
            ("[]", Form::Array, &[]),
            (
                ": hi\n\nretry: 1\n\nid: 1\ndata: a\n\ndata: b\ndata: c\n\n",
                Form::Sse,
                &["id: 1\ndata: a\n\n", "data: b\ndata: c\n\n"],
            ),
            ("data: a\r\n\r\ndata: b\r\n\r\n", Form::Sse, &["data: a\r\n\r", "data: b\r\n\r"]),
            ("\n \n", Form::Empty, &[]),
        ];
        for (recording, form, expected) in cases {
            for size in 1..=recording.len() {
                assert_eq!(places(recording, size), (form, expected.to_vec()), "{recording:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_array_that_is_none_is_refused_with_its_place() {
        for (recording, words) in [
            ("[{", "it ends at byte 2 inside the array"),
            ("[1,]", "unexpected ']' at byte 3"),
            ("[,1]", "unexpected ',' at byte 1"),
            ("[1] x", "unexpected 'x' at byte 4"),
            ("[1 2]", "the element at byte 1"),
        ] {
            let mut reader = Recording::new(None);
            let mut out = Vec::new();
            let error = reader.push(recording.as_bytes(), &mut out).and_then(|()| reader.finish(&mut out).map(|_| ()));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(words), "{recording}: {error}");
        }
    }

    #[test]
    fn prose_is_no_stream_whatever_came_of_it_at_once() {
        let blank = " ".repeat(MAX_HEAD_BYTES + 1) + "{}";
        let long = "\u{1f642}".repeat(50);
        for recording in ["Dear reader,\nthis is prose.", "x", "a\u{e9}", "elta\"e\":1 and so on", &long, &blank] {
            let refused = |size: usize| {
                let mut reader = Recording::new(None);
                let mut out = Vec::new();
                let mut pieces = recording.as_bytes().chunks(size);
                let read = pieces.try_for_each(|piece| reader.push(piece, &mut out));
                match read.and_then(|()| reader.finish(&mut out).map(|_| ())) {
                    Err(CheckError::UnknownForm(begin)) => begin,
                    other => panic!("{other:?} of {recording:?}"),
                }
            };
            let whole = refused(recording.len());
            for size in [1, 7, 64, 65] {
                assert_eq!(refused(size), whole, "in pieces of {size}");
            }
        }
    }
}
