//! From bytes to the JSON of events.

use serde_json::Value;

use super::envelope;
use super::wire::Unread;
use crate::unreadable::ReaderLimit;

/// Bytes of the header, which is the length of what follows it.
const HEADER: usize = 4;

/// What one frame holds.
#[derive(Clone, Debug, PartialEq)]
pub enum ProtoEvent {
    /// An event as it would stand in JSON, not judged yet: it may hold material that AG-UI 1.0 does not describe. For
    /// [`Consumer::push_proto`](crate::Consumer::push_proto) or [`decode_value`](crate::decode_value).
    Event(Value),
    /// An event of a newer version. Nothing names it but the number of its place in the envelope, so it cannot be handed
    /// on and is to be dropped with a warning.
    Unknown {
        /// The field number of the envelope's arm.
        arm: u32,
    },
}

/// Why a stream of frames cannot be read on. The decoder yields nothing after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// A frame is larger than the decoder may hold.
    #[error(
        "frame {frame} of the stream has {bytes} bytes, more than the limit of {limit}; raise it if that is expected"
    )]
    TooLarge {
        /// The frame, counted from 0.
        frame: usize,
        /// What its header says.
        bytes: u32,
        /// The most bytes that one frame may have, without its header.
        limit: usize,
    },
    /// What a frame holds goes past what is read. It may well be an event.
    #[error("frame {frame} of the stream {limit}")]
    BeyondReader {
        /// The frame, counted from 0.
        frame: usize,
        /// What it goes past.
        limit: ReaderLimit,
    },
    /// A frame does not hold one event.
    #[error("frame {frame} of the stream is not an event: {reason}")]
    Malformed {
        /// The frame, counted from 0.
        frame: usize,
        /// What is wrong with its bytes.
        reason: String,
    },
}

/// Reads a stream of frames, in whatever pieces it arrives.
///
/// Every byte is copied at most once before it is decoded, so the cost is linear in the stream whatever the pieces are.
/// Memory is bounded by the limit: it grows with what arrives, not with what a header promises. The events of a frame take
/// some tens of times its bytes at most.
#[derive(Debug)]
pub struct ProtoDecoder {
    limit: usize,
    frame: usize,
    header: [u8; HEADER],
    /// How much of the header has arrived.
    header_bytes: usize,
    /// What has arrived of the frame that is being read, without its header.
    body: Vec<u8>,
    failed: bool,
}

impl ProtoDecoder {
    /// A decoder whose frames have at most `max_frame_bytes` bytes, header excluded.
    #[must_use]
    pub fn new(max_frame_bytes: usize) -> Self {
        Self { limit: max_frame_bytes, frame: 0, header: [0; HEADER], header_bytes: 0, body: Vec::new(), failed: false }
    }

    /// Takes the next bytes and yields what the frames that they complete hold. An error is the last thing yielded, after
    /// the events before it; everything pushed later is ignored.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Result<ProtoEvent, ProtoError>> {
        let mut events = Vec::new();
        while !self.failed {
            match self.step(&mut bytes) {
                None => break,
                Some(event) => {
                    self.failed = event.is_err();
                    events.push(event);
                }
            }
        }
        events
    }

    /// Ends the stream. `true` when it stopped inside a frame, which is discarded: the run that it was part of is
    /// truncated (transports, "Truncation").
    #[must_use]
    pub fn finish(self) -> bool {
        !self.failed && self.header_bytes > 0
    }

    /// Reads up to the end of one frame; `None` when the bytes do not reach it.
    fn step(&mut self, bytes: &mut &[u8]) -> Option<Result<ProtoEvent, ProtoError>> {
        let missing = (HEADER - self.header_bytes).min(bytes.len());
        let (header, rest) = bytes.split_at(missing);
        self.header[self.header_bytes..self.header_bytes + missing].copy_from_slice(header);
        self.header_bytes += missing;
        *bytes = rest;
        if self.header_bytes < HEADER {
            return None;
        }
        let announced = u32::from_be_bytes(self.header);
        let length = usize::try_from(announced).unwrap_or(usize::MAX);
        if length > self.limit {
            return Some(Err(ProtoError::TooLarge { frame: self.frame, bytes: announced, limit: self.limit }));
        }
        let missing = length - self.body.len();
        if bytes.len() < missing {
            self.body.extend_from_slice(bytes);
            *bytes = &[];
            return None;
        }
        let (end, rest) = bytes.split_at(missing);
        *bytes = rest;
        let decoded = if self.body.is_empty() {
            envelope::read(end)
        } else {
            self.body.extend_from_slice(end);
            envelope::read(&std::mem::take(&mut self.body))
        };
        let frame = self.frame;
        self.frame += 1;
        self.header_bytes = 0;
        Some(decoded.map_err(|unread| match unread {
            Unread::Malformed(reason) => ProtoError::Malformed { frame, reason },
            Unread::Beyond(limit) => ProtoError::BeyondReader { frame, limit },
        }))
    }
}
