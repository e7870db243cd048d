//! Events of a recording that are one JSON object a line.

use serde::de::IgnoredAny;

use super::{Payload, Recorded, Unterminated, fits};
use crate::check::CheckError;

/// One JSON object a line. Blank lines are nothing.
#[derive(Debug, Default)]
pub(super) struct LineReader {
    line: Vec<u8>,
    start: u64,
}

impl LineReader {
    pub(super) fn push(&mut self, mut bytes: &[u8], mut at: u64, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        while !bytes.is_empty() {
            if self.line.is_empty() {
                self.start = at;
            }
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let (piece, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            fits(self.line.len() + piece.len())?;
            self.line.extend_from_slice(piece);
            bytes = rest;
            at += piece.len() as u64;
            if end.is_some() {
                self.end_line(out);
            }
        }
        Ok(())
    }

    /// Ends the recording. A last line without a line end is an event like any other if it is whole. What ends inside its
    /// JSON was cut off, and is no mistake of whoever wrote it.
    pub(super) fn finish(&mut self, out: &mut Vec<Recorded>) -> Option<Unterminated> {
        let (offset, text) = self.text();
        if !text.is_empty() && serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof()) {
            let found = format!("{} bytes of a line that ends inside its JSON", text.len());
            return Some(Unterminated { offset, held: Some(text.to_vec()), found });
        }
        self.end_line(out);
        None
    }

    fn end_line(&mut self, out: &mut Vec<Recorded>) {
        let (offset, text) = self.text();
        if !text.is_empty() {
            out.push(Recorded { offset, length: text.len() as u64, payload: Payload::Json(text.to_vec()) });
        }
        self.line.clear();
    }

    /// The line without the white space around it, and where that begins.
    fn text(&self) -> (u64, &[u8]) {
        let text = self.line.trim_ascii_start();
        (self.start + (self.line.len() - text.len()) as u64, text.trim_ascii_end())
    }
}
