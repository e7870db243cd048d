//! From events to bytes.

use super::envelope;
use crate::event::Event;

/// Why an event has no binary form. Nothing is written for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoEncodeError {
    /// A patch holds something that is no operation of RFC 6902. No event that was read from a peer does.
    #[error("the patch holds {0}, which is no operation of RFC 6902; protobuf can carry no other")]
    Operation(String),
    /// A token count is larger than the protocol allows.
    #[error("a token count of {0} does not fit into the 63 bits that protobuf has for it")]
    Count(u64),
    /// The event is larger than a frame's header can say.
    #[error("the event has {0} bytes in protobuf; a frame has at most 4294967295")]
    TooLarge(usize),
}

/// Writes events as frames. It keeps nothing between them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProtoEncoder;

impl ProtoEncoder {
    /// Appends one event to `out`: its length as an unsigned 32-bit big-endian number, then the message
    /// (transports/http-protobuf, "Framing").
    ///
    /// # Errors
    ///
    /// When the event has no binary form; `out` is then as it was. The [module](super) says what is lost without an
    /// error.
    pub fn encode_event(out: &mut Vec<u8>, event: &Event) -> Result<(), ProtoEncodeError> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let written = envelope::write(out, event).and_then(|()| {
            let bytes = out.len() - start - 4;
            u32::try_from(bytes).map_err(|_| ProtoEncodeError::TooLarge(bytes))
        });
        match written {
            Ok(length) => {
                out[start..start + 4].copy_from_slice(&length.to_be_bytes());
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }
}
