//! Events of a recording that are one JSON object a line.

use super::{Payload, Recorded, fits};
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

    pub(super) fn end_line(&mut self, out: &mut Vec<Recorded>) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        if !text.is_empty() {
            let indent = line.len() - line.trim_ascii_start().len();
            let (offset, length) = (self.start + indent as u64, text.len() as u64);
            out.push(Recorded { offset, length, payload: Payload::Json(text.to_vec()) });
        }
    }
}
