//! The binary form of events: one protobuf message a frame, frames one after the other (transports/http-protobuf). A frame
//! here is what that page calls one, and has nothing to do with the frame protocol.
//!
//! [`ProtoEncoder`] writes frames, [`ProtoDecoder`] reads them in whatever pieces they arrive. What is read is the JSON of
//! the event, not the event: it goes through the same enforcement as an event from Server-Sent Events
//! ([`Consumer::push_proto`]), so that the same stream comes to the same end in both bindings.
//!
//! The binary form is narrower than JSON. It does not carry:
//!
//! - members of a JSON Patch operation other than `op`, `path`, `from` and `value`;
//! - whole numbers beyond 2^53 in open values (state, metadata, `rawEvent` and the like), where every number is a double:
//!   they come back rounded. `1.0` comes back as `1`, which is the same number in JSON;
//! - the difference between a list that is absent and one that is empty: `tools`, `context` and `resume` of a run input
//!   come back empty, `toolCalls`, `usage`, `pendingToolCallIds` and `interruptIds` absent. Each pair means the same;
//! - the difference between a required string that is missing and one that is empty: it comes back empty;
//! - fields that a newer version added to a message it knows: protobuf skips them without a word.
//!
//! The order of the keys of an open object survives.

mod accept;
mod content;
mod decoder;
mod encoder;
mod envelope;
mod input;
mod json_value;
mod kept;
mod lifecycle;
mod message;
mod patch;
mod streamed;
mod wire;

pub use accept::Accept;
pub use decoder::{ProtoDecoder, ProtoError, ProtoEvent};
pub use encoder::{ProtoEncodeError, ProtoEncoder};

use crate::consumer::{Consumer, Delivered, Rejected};

/// The media type of a stream of frames. A `Content-Type` is exactly this, without parameters.
pub const MEDIA_TYPE: &str = "application/vnd.ag-ui.event+proto";

impl Consumer {
    /// Takes the next event from a stream of frames and gives the events to deliver, in order; none, when it was dropped.
    ///
    /// # Errors
    ///
    /// As [`Consumer::push_json`].
    pub fn push_proto(&mut self, event: ProtoEvent) -> Result<Delivered<'_>, Rejected> {
        match event {
            ProtoEvent::Event(value) => self.push_value(value),
            ProtoEvent::Unknown { arm } => self.push_unknown(format!(
                "Arm {arm} of the protobuf envelope is no event type of AG-UI 1.0; the event was dropped."
            )),
        }
    }
}
