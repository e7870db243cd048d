//! Events of a recording that is one JSON array.

use serde::de::IgnoredAny;

use super::{Payload, Recorded, fits};
use crate::check::CheckError;

/// The elements of a JSON array, cut apart by their brackets and strings. A document is JSON as a whole or it is none, so
/// an element that is not JSON is no event that breaks a rule.
#[derive(Debug, Default)]
pub(super) struct ArrayReader {
    place: ArrayPlace,
    element: Vec<u8>,
    start: u64,
    end: u64,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArrayPlace {
    #[default]
    Before,
    /// Behind the opening bracket: an element or the end.
    First,
    /// Behind a comma: an element.
    Next,
    Within,
    After,
}

impl ArrayReader {
    pub(super) fn push(&mut self, bytes: &[u8], at: u64, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        for (&byte, at) in bytes.iter().zip(at..) {
            self.end = at + 1;
            match self.place {
                ArrayPlace::Within => self.within(byte, at, out)?,
                _ if byte.is_ascii_whitespace() => {}
                ArrayPlace::Before if byte == b'[' => self.place = ArrayPlace::First,
                ArrayPlace::First if byte == b']' => self.place = ArrayPlace::After,
                ArrayPlace::Before | ArrayPlace::After => return Err(unexpected(byte, at)),
                ArrayPlace::First | ArrayPlace::Next => {
                    self.place = ArrayPlace::Within;
                    self.start = at;
                    self.within(byte, at, out)?;
                }
            }
        }
        Ok(())
    }

    fn within(&mut self, byte: u8, at: u64, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        if self.in_string {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => self.depth -= 1,
                b',' if self.depth == 0 => {
                    self.place = ArrayPlace::Next;
                    return self.end_element(byte, at, out);
                }
                b']' => {
                    self.place = ArrayPlace::After;
                    return self.end_element(byte, at, out);
                }
                _ => {}
            }
        }
        fits(self.element.len() + 1)?;
        self.element.push(byte);
        Ok(())
    }

    fn end_element(&mut self, byte: u8, at: u64, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        let element = std::mem::take(&mut self.element);
        let text = element.trim_ascii_end();
        if text.is_empty() {
            return Err(unexpected(byte, at));
        }
        serde_json::from_slice::<IgnoredAny>(text)
            .map_err(|error| CheckError::NotAnArray(format!("the element at byte {}: {error}", self.start)))?;
        let (offset, length) = (self.start, text.len() as u64);
        out.push(Recorded { offset, length, payload: Payload::Json(text.to_vec()) });
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<(), CheckError> {
        if self.place == ArrayPlace::After {
            return Ok(());
        }
        Err(CheckError::NotAnArray(format!("it ends at byte {} inside the array", self.end)))
    }
}

fn unexpected(byte: u8, at: u64) -> CheckError {
    CheckError::NotAnArray(format!("unexpected {:?} at byte {at}", char::from(byte)))
}
