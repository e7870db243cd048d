//! Any of the 31 events of AG-UI 1.0, and its type.
//!
//! The types accept exactly what the schema accepts: an unknown member, an explicit `null` or a missing required member is
//! an error. What a consumer does with material from a newer version is the business of [`decode_event`](crate::decode_event).

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::events::*;

macro_rules! catalogue {
    ($( $name:ident = $wire:literal ),* $(,)?) => {
        /// The name of an event, as its `type` member carries it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum EventType {
            $(
                #[doc = concat!("`", $wire, "`.")]
                #[serde(rename = $wire)]
                $name,
            )*
        }

        impl EventType {
            /// Every event type, in the order of the schema.
            pub const ALL: [EventType; 31] = [$( EventType::$name ),*];

            /// The name as it is written on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$name => $wire, )*
                }
            }
        }

        impl FromStr for EventType {
            type Err = UnknownEventType;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                match name {
                    $( $wire => Ok(Self::$name), )*
                    _ => Err(UnknownEventType(name.to_owned())),
                }
            }
        }

        /// Any AG-UI event.
        ///
        /// Its JSON has `type` first; reading accepts `type` in any place.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "type")]
        pub enum Event {
            $(
                #[doc = concat!("`", $wire, "`.")]
                #[serde(rename = $wire)]
                $name($name),
            )*
        }

        impl Event {
            /// Which event this is.
            #[must_use]
            pub fn event_type(&self) -> EventType {
                match self {
                    $( Self::$name(_) => EventType::$name, )*
                }
            }

            /// The event's metadata.
            #[must_use]
            pub fn metadata(&self) -> Option<&Map<String, Value>> {
                match self {
                    $( Self::$name(event) => event.metadata.as_ref(), )*
                }
            }

            /// The place of the event's metadata.
            pub fn metadata_mut(&mut self) -> &mut Option<Map<String, Value>> {
                match self {
                    $( Self::$name(event) => &mut event.metadata, )*
                }
            }

            /// The provider's event that this one was translated from.
            #[must_use]
            pub fn raw_event(&self) -> Option<&Value> {
                match self {
                    $( Self::$name(event) => event.raw_event.as_ref(), )*
                }
            }

            /// When the event was made, in the unit that its producer chose.
            #[must_use]
            pub fn timestamp(&self) -> Option<i64> {
                match self {
                    $( Self::$name(event) => event.timestamp, )*
                }
            }

            /// The subagent invocation that the event belongs to, or that a `SUBAGENT_*` event is about. `None` is the
            /// parent agent, or an event of the run as a whole.
            #[must_use]
            pub fn subagent_run_id(&self) -> Option<&str> {
                match self {
                    $( Self::$name(event) => Attributed::subagent_run_id(event), )*
                }
            }

            /// Reads the members of an event whose type is already known.
            pub(crate) fn deserialize_as<'de, D>(event_type: EventType, members: D) -> Result<Self, D::Error>
            where
                D: Deserializer<'de>,
            {
                match event_type {
                    $( EventType::$name => $name::deserialize(members).map(Self::$name), )*
                }
            }
        }

        $(
            impl From<$name> for Event {
                fn from(event: $name) -> Self {
                    Self::$name(event)
                }
            }
        )*
    };
}

catalogue! {
    TextMessageStart = "TEXT_MESSAGE_START",
    TextMessageContent = "TEXT_MESSAGE_CONTENT",
    TextMessageEnd = "TEXT_MESSAGE_END",
    TextMessageChunk = "TEXT_MESSAGE_CHUNK",
    ToolCallStart = "TOOL_CALL_START",
    ToolCallArgs = "TOOL_CALL_ARGS",
    ToolCallEnd = "TOOL_CALL_END",
    ToolCallChunk = "TOOL_CALL_CHUNK",
    ToolCallResult = "TOOL_CALL_RESULT",
    StateSnapshot = "STATE_SNAPSHOT",
    StateDelta = "STATE_DELTA",
    MessagesSnapshot = "MESSAGES_SNAPSHOT",
    ActivitySnapshot = "ACTIVITY_SNAPSHOT",
    ActivityDelta = "ACTIVITY_DELTA",
    Raw = "RAW",
    Custom = "CUSTOM",
    RunStarted = "RUN_STARTED",
    RunFinished = "RUN_FINISHED",
    RunError = "RUN_ERROR",
    StepStarted = "STEP_STARTED",
    StepFinished = "STEP_FINISHED",
    ReasoningStart = "REASONING_START",
    ReasoningMessageStart = "REASONING_MESSAGE_START",
    ReasoningMessageContent = "REASONING_MESSAGE_CONTENT",
    ReasoningMessageEnd = "REASONING_MESSAGE_END",
    ReasoningMessageChunk = "REASONING_MESSAGE_CHUNK",
    ReasoningEnd = "REASONING_END",
    ReasoningEncryptedValue = "REASONING_ENCRYPTED_VALUE",
    SubagentStarted = "SUBAGENT_STARTED",
    SubagentFinished = "SUBAGENT_FINISHED",
    SubagentError = "SUBAGENT_ERROR",
}

/// A `type` that AG-UI 1.0 does not describe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an event type of AG-UI 1.0")]
pub struct UnknownEventType(pub String);

impl fmt::Display for EventType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Event {
    /// The event as JSON, `type` first, without line breaks.
    #[must_use]
    pub fn to_json_string(&self) -> String {
        serde_json::to_string(self).expect("an event holds JSON values under string keys, and these always serialize")
    }

    /// The event as a JSON value, `type` first.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("an event holds JSON values under string keys, and these always serialize")
    }

    /// Reads an event strictly.
    ///
    /// # Errors
    ///
    /// When the value is not exactly what the schema describes. Use [`decode_event`](crate::decode_event) for an event
    /// from a peer, which may be of a newer version.
    pub fn from_value(value: Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(value)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
    where
        D: Deserializer<'de>,
    {
        struct EventVisitor;

        impl<'de> Visitor<'de> for EventVisitor {
            type Value = Event;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an AG-UI event")
            }

            fn visit_map<A>(self, mut members: A) -> Result<Event, A::Error>
            where
                A: MapAccess<'de>,
            {
                // Producers write `type` first; then the members are read straight into their struct. Otherwise they
                // wait in a map until the type is known.
                let mut waiting = Map::new();
                while let Some(key) = members.next_key::<String>()? {
                    if key != "type" {
                        waiting.insert(key, members.next_value()?);
                        continue;
                    }
                    let event_type: EventType = members.next_value()?;
                    if waiting.is_empty() {
                        return Event::deserialize_as(event_type, MapAccessDeserializer::new(members));
                    }
                    while let Some((key, value)) = members.next_entry::<String, Value>()? {
                        waiting.insert(key, value);
                    }
                    return Event::deserialize_as(event_type, Value::Object(waiting)).map_err(de::Error::custom);
                }
                Err(de::Error::missing_field("type"))
            }
        }

        deserializer.deserialize_map(EventVisitor)
    }
}
