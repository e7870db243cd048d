//! Server-Sent Events of a recording.

use super::{MAX_EVENT_BYTES, Payload, Recorded, Undecodable, Unterminated};
use crate::check::CheckError;
use crate::sse::{SseDecoder, SseError};
use crate::unreadable::NOT_UTF8;
use crate::violation::Rule;

/// So much of an event is held to be shown when it turns out to be none.
const HELD_BYTES: usize = 1024;

/// Server-Sent Events, with the place of each in the recording.
#[derive(Debug)]
pub(super) struct SseReader {
    decoder: SseDecoder,
    /// Where the first field line of the event that is being read begins.
    start: Option<u64>,
    /// The event that is being read as it was recorded, from its beginning.
    held: Vec<u8>,
    line_start: u64,
    at_line_start: bool,
    after_cr: bool,
    /// Where a line first ended with CR or CRLF.
    pub(super) carriage_return: Option<u64>,
}

impl SseReader {
    pub(super) fn new() -> Self {
        Self {
            decoder: SseDecoder::new(MAX_EVENT_BYTES),
            start: None,
            held: Vec::new(),
            line_start: 0,
            at_line_start: true,
            after_cr: false,
            carriage_return: None,
        }
    }

    /// The decoder gets the bytes line by line, so that it is known where an event that it yields begins and ends.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut at: u64, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        while let Some(&first) = bytes.first() {
            let rest_of_line_end = std::mem::take(&mut self.after_cr) && first == b'\n';
            let begins_line = self.at_line_start && !rest_of_line_end;
            let is_blank_line = begins_line && matches!(first, b'\n' | b'\r');
            if begins_line {
                self.line_start = at;
                if !is_blank_line && first != b':' {
                    self.start.get_or_insert(at);
                }
            }
            let end = bytes.iter().position(|&byte| matches!(byte, b'\n' | b'\r'));
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.at_line_start = end.is_some();
            self.after_cr = line.ends_with(b"\r");
            bytes = rest;
            at += line.len() as u64;
            if self.after_cr {
                self.carriage_return.get_or_insert(at - 1);
            }
            let room = HELD_BYTES - self.held.len();
            self.held.extend_from_slice(&line[..line.len().min(room)]);
            let mut events = self.decoder.read(line);
            while let Some(event) = events.next() {
                let offset = self.start.unwrap_or(self.line_start);
                let payload = match event {
                    Ok(event) => Payload::Json(event.data.as_bytes().to_vec()),
                    Err(SseError::TooLarge { limit }) => return Err(CheckError::TooLarge { limit }),
                    // In any other form it is an event that is no JSON, and a transport must not change the verdict.
                    Err(SseError::NotUtf8 { position }) => {
                        let found = format!("invalid bytes at position {position} of a line");
                        let message = NOT_UTF8.to_owned();
                        let held = Some(std::mem::take(&mut self.held));
                        Payload::Undecodable(Undecodable { rule: Rule::MalformedJson, message, found, held })
                    }
                };
                out.push(Recorded { offset, length: at - offset, payload });
            }
            // A blank line ends an event, also one without data, which is none. A comment that stands alone is none either.
            if is_blank_line || (self.start.is_none() && self.at_line_start) {
                self.start = None;
                self.held.clear();
            }
        }
        Ok(())
    }

    /// What of an event the bytes so far end inside of. Nothing is read on after that.
    pub(super) fn finish(&mut self) -> Option<Unterminated> {
        let in_event = std::mem::replace(&mut self.decoder, SseDecoder::new(0)).finish();
        let offset = self.start.filter(|_| in_event)?;
        let found = "the beginning of an event without the blank line that ends it".to_owned();
        Some(Unterminated { offset, held: Some(std::mem::take(&mut self.held)), found })
    }
}
