//! How the protocol's objects and protobuf's messages are made of each other.
//!
//! A message is declared once, by [`message!`] or [`event!`]: field numbers, protobuf types, and the name that each field
//! has in JSON. From there it goes two ways: from the protocol's type onto the wire ([`Carried`]), and from the wire to
//! JSON ([`IntoJson`], [`Member`]), which enforcement judges.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use serde_json::{Map, Value};

use super::encoder::ProtoEncodeError;
use super::json_value::{Json, Object};
use crate::unreadable::ReaderLimit;

/// Why bytes give no event.
#[derive(Debug)]
pub(super) enum Unread {
    /// They are none; what is wrong with them.
    Malformed(String),
    /// What they hold goes past what is read.
    Beyond(ReaderLimit),
}

impl From<prost::DecodeError> for Unread {
    fn from(error: prost::DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// How many more levels arrays and objects may nest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room(usize);

impl Room {
    /// As many as in JSON, where parsing stops there; the event itself is the first. Without it, what one binding takes
    /// the other would refuse, and a peer would choose how deep we recurse.
    pub(super) fn whole() -> Self {
        Self(127)
    }

    /// What is left inside an array or an object.
    pub(super) fn within(self) -> Result<Self, Unread> {
        self.0.checked_sub(1).map(Self).ok_or(Unread::Beyond(ReaderLimit::Nesting))
    }
}

/// The content of one field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// Of a kind that no field of ours has.
    Other,
}

/// The fields of an encoded message, in order.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<(u32, Field<'a>), Unread> {
        let (tag, wire_type) = decode_key(&mut self.rest)?;
        let field = match wire_type {
            WireType::Varint => Field::Varint(decode_varint(&mut self.rest)?),
            WireType::SixtyFourBit => match self.rest.split_first_chunk() {
                Some((bits, rest)) => {
                    self.rest = rest;
                    Field::Fixed64(u64::from_le_bytes(*bits))
                }
                None => return Err(ends_early()),
            },
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest)?;
                let split = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
                let (payload, rest) = split.ok_or_else(ends_early)?;
                self.rest = rest;
                Field::Bytes(payload)
            }
            _ => {
                skip_field(wire_type, tag, &mut self.rest, DecodeContext::default())?;
                Field::Other
            }
        };
        Ok((tag, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Unread>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

fn ends_early() -> Unread {
    Unread::Malformed("it ends inside a field".to_owned())
}

/// A value of the protocol that a field of type `W` carries.
pub(super) trait Carried<W> {
    fn carry(&self) -> Result<W, ProtoEncodeError>;
}

impl Carried<String> for String {
    fn carry(&self) -> Result<String, ProtoEncodeError> {
        Ok(self.clone())
    }
}

impl Carried<bool> for bool {
    fn carry(&self) -> Result<bool, ProtoEncodeError> {
        Ok(*self)
    }
}

impl Carried<i64> for u64 {
    fn carry(&self) -> Result<i64, ProtoEncodeError> {
        i64::try_from(*self).map_err(|_| ProtoEncodeError::Count(*self))
    }
}

impl<V: Carried<W>, W> Carried<Option<W>> for Option<V> {
    fn carry(&self) -> Result<Option<W>, ProtoEncodeError> {
        self.as_ref().map(Carried::carry).transpose()
    }
}

impl<V: Carried<W>, W> Carried<Vec<W>> for Vec<V> {
    fn carry(&self) -> Result<Vec<W>, ProtoEncodeError> {
        self.iter().map(Carried::carry).collect()
    }
}

impl<V: Carried<W>, W> Carried<Vec<W>> for Option<Vec<V>> {
    fn carry(&self) -> Result<Vec<W>, ProtoEncodeError> {
        self.iter().flatten().map(Carried::carry).collect()
    }
}

/// What JSON a field, or one element of a repeated field, becomes.
pub(super) trait IntoJson: Sized {
    /// Whether a repeated field without elements stands for an absent list rather than for an empty one.
    const EMPTY_IS_ABSENT: bool = false;

    /// `room` is what is left around the value.
    fn into_json(self, room: Room) -> Result<Value, Unread>;

    /// Refuses lists that would take far more than what they came in.
    fn fits(_: &[Self]) -> Result<(), Unread> {
        Ok(())
    }
}

impl IntoJson for String {
    const EMPTY_IS_ABSENT: bool = true;

    fn into_json(self, _: Room) -> Result<Value, Unread> {
        Ok(self.into())
    }
}

impl IntoJson for bool {
    fn into_json(self, _: Room) -> Result<Value, Unread> {
        Ok(self.into())
    }
}

impl IntoJson for i64 {
    fn into_json(self, _: Room) -> Result<Value, Unread> {
        Ok(self.into())
    }
}

/// A field as a member of an object.
pub(super) trait Member {
    /// Adds the member if it is there. `room` is what is left inside the object.
    fn put(self, name: &str, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread>;
}

impl Member for String {
    fn put(self, name: &str, members: &mut Map<String, Value>, _: Room) -> Result<(), Unread> {
        members.insert(name.to_owned(), self.into());
        Ok(())
    }
}

impl<W: IntoJson> Member for Option<W> {
    fn put(self, name: &str, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread> {
        if let Some(value) = self {
            members.insert(name.to_owned(), value.into_json(room)?);
        }
        Ok(())
    }
}

impl<W: IntoJson> Member for Vec<W> {
    fn put(self, name: &str, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread> {
        if self.is_empty() && W::EMPTY_IS_ABSENT {
            return Ok(());
        }
        members.insert(name.to_owned(), list(self, room)?);
        Ok(())
    }
}

/// A list as JSON.
pub(super) fn list<W: IntoJson>(elements: Vec<W>, room: Room) -> Result<Value, Unread> {
    let room = room.within()?;
    W::fits(&elements)?;
    let elements: Result<Vec<Value>, _> = elements.into_iter().map(|element| element.into_json(room)).collect();
    elements.map(Value::Array)
}

/// What every event carries.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BaseEvent {
    /// The number of the event's type, which the arm of the envelope says already.
    #[prost(int32, tag = "1")]
    pub(super) event_type: i32,
    #[prost(int64, optional, tag = "2")]
    pub(super) timestamp: Option<i64>,
    #[prost(message, optional, tag = "3")]
    pub(super) raw_event: Option<Json>,
    #[prost(message, optional, tag = "4")]
    pub(super) metadata: Option<Object>,
}

impl BaseEvent {
    pub(super) fn members(self, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread> {
        self.timestamp.put("timestamp", members, room)?;
        self.raw_event.put("rawEvent", members, room)?;
        self.metadata.put("metadata", members, room)
    }
}

/// The message of one event type.
pub(super) trait EventMessage: prost::Message {
    fn take_base(&mut self) -> Option<BaseEvent>;

    /// Adds the members that are the event's own.
    fn members(self, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread>;
}

/// The base of an event's message.
macro_rules! base_of {
    ($event:expr, $number:expr) => {
        Some($crate::proto::wire::BaseEvent {
            event_type: $number,
            timestamp: $event.timestamp,
            raw_event: $crate::proto::wire::Carried::carry(&$event.raw_event)?,
            metadata: $crate::proto::wire::Carried::carry(&$event.metadata)?,
        })
    };
}

/// Declares the messages of events whose fields are their members, one for one.
macro_rules! event {
    ($( $name:ident { $( #[prost($($attribute:tt)*)] $field:ident : $type:ty = $json:literal, )* } )*) => {$(
        #[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct $name {
            #[prost(message, optional, tag = "1")]
            base_event: Option<$crate::proto::wire::BaseEvent>,
            $( #[prost($($attribute)*)] $field: $type, )*
        }

        impl $name {
            pub(super) fn of(
                event: &$crate::events::$name,
                number: i32,
            ) -> Result<Self, $crate::proto::encoder::ProtoEncodeError> {
                Ok(Self {
                    base_event: $crate::proto::wire::base_of!(event, number),
                    $( $field: $crate::proto::wire::Carried::carry(&event.$field)?, )*
                })
            }
        }

        impl $crate::proto::wire::EventMessage for $name {
            fn take_base(&mut self) -> Option<$crate::proto::wire::BaseEvent> {
                self.base_event.take()
            }

            fn members(
                self,
                members: &mut serde_json::Map<String, serde_json::Value>,
                room: $crate::proto::wire::Room,
            ) -> Result<(), $crate::proto::wire::Unread> {
                $( $crate::proto::wire::Member::put(self.$field, $json, members, room)?; )*
                Ok(())
            }
        }
    )*};
}

/// Declares the messages of objects whose fields are their members, one for one, and the protocol's type of each.
macro_rules! message {
    ($( $name:ident of $object:ty { $( #[prost($($attribute:tt)*)] $field:ident : $type:ty = $json:literal, )* } )*) => {$(
        #[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct $name {
            $( #[prost($($attribute)*)] pub(super) $field: $type, )*
        }

        impl $crate::proto::wire::Carried<$name> for $object {
            fn carry(&self) -> Result<$name, $crate::proto::encoder::ProtoEncodeError> {
                Ok($name { $( $field: $crate::proto::wire::Carried::carry(&self.$field)?, )* })
            }
        }

        impl $name {
            /// Adds the members of the object. `room` is what is left inside it.
            pub(super) fn members(
                self,
                members: &mut serde_json::Map<String, serde_json::Value>,
                room: $crate::proto::wire::Room,
            ) -> Result<(), $crate::proto::wire::Unread> {
                $( $crate::proto::wire::Member::put(self.$field, $json, members, room)?; )*
                Ok(())
            }
        }
    )*};
}

/// Says that messages declared by [`message!`] are objects in JSON.
macro_rules! object_in_json {
    ($( $name:ident $( , $constant:ident )? ; )*) => {$(
        impl $crate::proto::wire::IntoJson for $name {
            $( const $constant: bool = true; )?

            fn into_json(
                self,
                room: $crate::proto::wire::Room,
            ) -> Result<serde_json::Value, $crate::proto::wire::Unread> {
                let mut members = serde_json::Map::new();
                self.members(&mut members, room.within()?)?;
                Ok(serde_json::Value::Object(members))
            }
        }
    )*};
}

pub(super) use {base_of, event, message, object_in_json};
