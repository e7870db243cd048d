//! Protobuf frames of a recording.

use super::{MAX_EVENT_BYTES, Payload, Recorded, Undecodable, Unterminated};
use crate::check::CheckError;
use crate::proto::{ProtoDecoder, ProtoError, ProtoEvent};
use crate::violation::Rule;

/// Bytes of a frame's header, which is the length of what follows it.
const HEADER: usize = 4;

/// Protobuf frames, with the place of each in the recording.
#[derive(Debug)]
pub(super) struct FrameReader {
    decoder: ProtoDecoder,
    header: Vec<u8>,
    /// What is missing of the frame behind its header.
    missing: usize,
    /// Where the frame that is being read begins.
    start: u64,
}

impl FrameReader {
    pub(super) fn new() -> Self {
        Self { decoder: ProtoDecoder::new(MAX_EVENT_BYTES), header: Vec::with_capacity(HEADER), missing: 0, start: 0 }
    }

    /// The decoder gets the bytes frame by frame, so that it is known where an event that it yields begins and ends.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut at: u64, out: &mut Vec<Recorded>) -> Result<(), CheckError> {
        while !bytes.is_empty() {
            if self.header.is_empty() {
                self.start = at;
            }
            let in_header = self.header.len() < HEADER;
            let wanted = if in_header { HEADER - self.header.len() } else { self.missing };
            let (piece, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            at += piece.len() as u64;
            if in_header {
                self.header.extend_from_slice(piece);
                if let Ok(header) = <[u8; HEADER]>::try_from(&self.header[..]) {
                    self.missing = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX);
                }
            } else {
                self.missing -= piece.len();
            }
            if self.header.len() == HEADER && self.missing == 0 {
                self.header.clear();
            }
            for event in self.decoder.push(piece) {
                let payload = match event {
                    // The JSON of the event, so that both bindings are judged by the same bytes.
                    Ok(ProtoEvent::Event(value)) => Payload::Json(value.to_string().into_bytes()),
                    Ok(ProtoEvent::Unknown { arm }) => Payload::UnknownArm(arm),
                    // The limit is this reader's own, so the stream breaks no rule by going past it.
                    Err(ProtoError::TooLarge { limit, .. }) => return Err(CheckError::TooLarge { limit }),
                    Err(ProtoError::BeyondReader { frame, limit }) => {
                        return Err(CheckError::BeyondReader { event: frame, limit });
                    }
                    Err(error @ ProtoError::Malformed { .. }) => Payload::Undecodable(Undecodable {
                        rule: Rule::MalformedFrame,
                        message: format!("The bytes are no event: {error}."),
                        found: error.to_string(),
                        held: None,
                    }),
                };
                out.push(Recorded { offset: self.start, length: at - self.start, payload });
            }
        }
        Ok(())
    }

    /// What of a frame the bytes so far end inside of. Nothing is read on after that.
    pub(super) fn finish(&mut self) -> Option<Unterminated> {
        if !std::mem::replace(&mut self.decoder, ProtoDecoder::new(0)).finish() {
            return None;
        }
        let found = match <[u8; HEADER]>::try_from(&self.header[..]) {
            Ok(header) => {
                let announced = u32::from_be_bytes(header);
                let came = u64::from(announced) - self.missing as u64;
                format!("{came} of the {announced} bytes that the header of a frame announces")
            }
            Err(_) => format!("{} of the {HEADER} bytes of a frame's header", self.header.len()),
        };
        Some(Unterminated { offset: self.start, held: None, found })
    }
}
