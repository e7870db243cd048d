//! Server-Sent Events of a recording.

use super::{MAX_EVENT_BYTES, Payload, Recorded};
use crate::check::CheckError;
use crate::sse::{SseDecoder, SseError};

/// Server-Sent Events, with the place of each in the recording.
#[derive(Debug)]
pub(super) struct SseReader {
    decoder: SseDecoder,
    /// Where the first field line of the event that is being read begins.
    start: Option<u64>,
    at_line_start: bool,
    after_cr: bool,
    /// Whether a line ended with CR or CRLF.
    pub(super) carriage_returns: bool,
}

impl SseReader {
    pub(super) fn new() -> Self {
        Self {
            decoder: SseDecoder::new(MAX_EVENT_BYTES),
            start: None,
            at_line_start: true,
            after_cr: false,
            carriage_returns: false,
        }
    }

    /// The decoder gets the bytes line by line, so that it is known where an event that it yields begins and ends.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut at: u64, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        while let Some(&first) = bytes.first() {
            let rest_of_line_end = std::mem::take(&mut self.after_cr) && first == b'\n';
            let begins_line = self.at_line_start && !rest_of_line_end;
            let is_blank_line = begins_line && matches!(first, b'\n' | b'\r');
            if begins_line && !is_blank_line && first != b':' {
                self.start.get_or_insert(at);
            }
            let end = bytes.iter().position(|&byte| matches!(byte, b'\n' | b'\r'));
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.at_line_start = end.is_some();
            self.after_cr = line.ends_with(b"\r");
            self.carriage_returns |= self.after_cr;
            bytes = rest;
            at += line.len() as u64;
            let mut events = self.decoder.read(line);
            while let Some(event) = events.next() {
                let offset = self.start.unwrap_or(at);
                let event = event.map_err(|error| match error {
                    SseError::TooLarge { limit } => CheckError::TooLarge { limit },
                    error @ SseError::NotUtf8 { .. } => CheckError::Sse(error),
                })?;
                let payload = Payload::Json(event.data.as_bytes().to_vec());
                out.push(Recorded { offset, length: at - offset, payload });
            }
            // A blank line ends an event, also one without data, which is none.
            if is_blank_line {
                self.start = None;
            }
        }
        Ok(())
    }

    /// Whether the bytes so far end inside an event. Nothing is read on after that.
    pub(super) fn in_event(&mut self) -> bool {
        std::mem::replace(&mut self.decoder, SseDecoder::new(0)).finish()
    }
}
