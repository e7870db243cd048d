//! The message that every frame holds: one arm for each event type, of which exactly one is there.

use prost::encoding::{DecodeContext, decode_key, skip_field};
use serde_json::{Map, Value};

use super::decoder::ProtoEvent;
use super::encoder::ProtoEncodeError;
use super::wire::{EventMessage, Field, Fields, Room, Unread};
use super::{lifecycle, message, streamed};
use crate::event::{Event, EventType};

/// The arm of each event type in the envelope, and its number in the enumeration that the base of every message repeats.
macro_rules! envelope {
    ($( $name:ident = $arm:literal, $number:literal, $module:ident; )*) => {
        /// Appends the envelope with the event in it.
        pub(super) fn write(out: &mut Vec<u8>, event: &Event) -> Result<(), ProtoEncodeError> {
            match event {
                $( Event::$name(event) => {
                    let message = $module::$name::of(event, $number)?;
                    prost::encoding::message::encode($arm, &message, out);
                } )*
            }
            Ok(())
        }

        fn is_known(arm: u32) -> bool {
            [$( $arm ),*].contains(&arm)
        }

        /// Reads the message of a known arm.
        fn read_arm(arm: u32, payload: &[u8]) -> Result<Value, Unread> {
            match arm {
                $( $arm => members::<$module::$name>(payload, EventType::$name, $number), )*
                _ => unreachable!("only known arms are read"),
            }
        }
    };
}

envelope! {
    TextMessageStart = 1, 0, streamed;
    TextMessageContent = 2, 1, streamed;
    TextMessageEnd = 3, 2, streamed;
    ToolCallStart = 4, 3, streamed;
    ToolCallArgs = 5, 4, streamed;
    ToolCallEnd = 6, 5, streamed;
    StateSnapshot = 7, 6, streamed;
    StateDelta = 8, 7, streamed;
    MessagesSnapshot = 9, 8, message;
    Raw = 10, 9, streamed;
    Custom = 11, 10, streamed;
    RunStarted = 12, 11, lifecycle;
    RunFinished = 13, 12, lifecycle;
    RunError = 14, 13, lifecycle;
    StepStarted = 15, 14, lifecycle;
    StepFinished = 16, 15, lifecycle;
    TextMessageChunk = 17, 19, streamed;
    ToolCallChunk = 18, 20, streamed;
    SubagentStarted = 19, 16, lifecycle;
    SubagentFinished = 20, 17, lifecycle;
    SubagentError = 21, 18, lifecycle;
    ToolCallResult = 22, 21, message;
    ActivitySnapshot = 23, 22, streamed;
    ActivityDelta = 24, 23, streamed;
    ReasoningStart = 25, 24, streamed;
    ReasoningMessageStart = 26, 25, streamed;
    ReasoningMessageContent = 27, 26, streamed;
    ReasoningMessageEnd = 28, 27, streamed;
    ReasoningMessageChunk = 29, 28, streamed;
    ReasoningEnd = 30, 29, streamed;
    ReasoningEncryptedValue = 31, 30, streamed;
}

/// Reads one frame.
///
/// The fields of the envelope are looked at one by one, because an event of a newer version and bytes that are no event
/// must not have the same answer: the first is dropped, the second ends the stream.
pub(super) fn read(frame: &[u8]) -> Result<ProtoEvent, Unread> {
    let mut known: Option<(u32, std::borrow::Cow<'_, [u8]>)> = None;
    let mut unknown = None;
    for field in Fields::of(frame) {
        match field? {
            (arm, Field::Bytes(payload)) if is_known(arm) => match &mut known {
                None => known = Some((arm, payload.into())),
                // A message that is there twice is merged, and the merger of two encodings is one after the other.
                Some((before, payloads)) if *before == arm => payloads.to_mut().extend_from_slice(payload),
                Some((before, _)) => {
                    return Err(Unread::Malformed(format!("it holds two events, in the arms {before} and {arm}")));
                }
            },
            (arm, _) if is_known(arm) => {
                return Err(Unread::Malformed(format!("arm {arm} of the envelope is no message")));
            }
            (arm, Field::Bytes(payload)) => unknown = unknown.or(Some((arm, payload))),
            // Beside an event this is a field that a newer version added to the envelope.
            _ => {}
        }
    }
    match (known, unknown) {
        (Some((arm, payload)), _) => read_arm(arm, &payload).map(ProtoEvent::Event),
        (None, Some((arm, payload))) if is_message(payload) => Ok(ProtoEvent::Unknown { arm }),
        (None, Some((arm, _))) => Err(Unread::Malformed(format!("arm {arm} of the envelope is no message"))),
        (None, None) => Err(Unread::Malformed("its envelope is empty".to_owned())),
    }
}

/// Whether bytes are a protobuf message, of whatever kind. All that can be said about an arm that is not known.
fn is_message(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let skipped =
            decode_key(&mut bytes).and_then(|(tag, wire)| skip_field(wire, tag, &mut bytes, DecodeContext::default()));
        if skipped.is_err() {
            return false;
        }
    }
    true
}

fn members<M: EventMessage + Default>(payload: &[u8], event_type: EventType, number: i32) -> Result<Value, Unread> {
    let mut message = M::decode(payload)?;
    let base = message.take_base().ok_or_else(|| Unread::Malformed(format!("{event_type} lacks its base event")))?;
    if base.event_type != number {
        let declared = base.event_type;
        return Err(Unread::Malformed(format!(
            "the arm is that of {event_type}, but the base event declares type {declared}"
        )));
    }
    let room = Room::whole().within()?;
    let mut members = Map::new();
    members.insert("type".to_owned(), event_type.as_str().into());
    message.members(&mut members, room)?;
    base.members(&mut members, room)?;
    Ok(Value::Object(members))
}
