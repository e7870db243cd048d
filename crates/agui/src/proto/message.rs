//! The messages of a conversation on the wire, and the events that carry content.

use serde_json::{Map, Value};

use super::content::Part;
use super::encoder::ProtoEncodeError;
use super::json_value::Object;
use super::kept::Kept;
use super::wire::{
    BaseEvent, Carried, EventMessage, IntoJson, Member, Room, Unread, base_of, event, list, message, object_in_json,
};
use crate::message as model;
use crate::message::{Content, FunctionCall, ToolCallKind, ToolRole};

event! {
    MessagesSnapshot {
        #[prost(message, repeated, tag = "2")] messages: Vec<Kept<Message>> = "messages",
    }
}

message! {
    ToolCall of model::ToolCall {
        #[prost(string, tag = "1")] id: String = "id",
        #[prost(string, tag = "2")] kind: String = "type",
        #[prost(message, optional, tag = "3")] function: Option<Function> = "function",
        #[prost(message, optional, tag = "4")] metadata: Option<Object> = "metadata",
        #[prost(string, optional, tag = "5")] encrypted_value: Option<String> = "encryptedValue",
    }

    Function of FunctionCall {
        #[prost(string, tag = "1")] name: String = "name",
        #[prost(string, tag = "2")] arguments: String = "arguments",
    }
}

object_in_json! { ToolCall, EMPTY_IS_ABSENT; Function; }

impl Carried<Option<Function>> for FunctionCall {
    fn carry(&self) -> Result<Option<Function>, ProtoEncodeError> {
        Carried::<Function>::carry(self).map(Some)
    }
}

impl Carried<String> for ToolCallKind {
    fn carry(&self) -> Result<String, ProtoEncodeError> {
        Ok("function".to_owned())
    }
}

impl Carried<String> for ToolRole {
    fn carry(&self) -> Result<String, ProtoEncodeError> {
        Ok("tool".to_owned())
    }
}

/// Text or parts, in the two fields that carry them. The text is there when it is text, also when it is empty.
struct Split {
    text: Option<String>,
    parts: Vec<Kept<Part>>,
}

impl Split {
    fn of(content: &Content) -> Result<Self, ProtoEncodeError> {
        Ok(match content {
            Content::Text(text) => Self { text: Some(text.clone()), parts: Vec::new() },
            Content::Parts(parts) => Self { text: None, parts: parts.carry()? },
        })
    }

    fn put(self, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread> {
        let content = match (self.text, self.parts) {
            (Some(text), parts) if parts.is_empty() => text.into(),
            (Some(_), _) => return Err(two_forms()),
            (None, parts) => list(parts, room)?,
        };
        members.insert("content".to_owned(), content);
        Ok(())
    }
}

fn two_forms() -> Unread {
    Unread::Malformed("content in it is in two forms, of which one would be lost".to_owned())
}

/// What a tool returned.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ToolCallResult {
    #[prost(message, optional, tag = "1")]
    base_event: Option<BaseEvent>,
    #[prost(string, optional, tag = "2")]
    subagent_run_id: Option<String>,
    #[prost(string, tag = "3")]
    message_id: String,
    #[prost(string, tag = "4")]
    tool_call_id: String,
    #[prost(string, optional, tag = "5")]
    content: Option<String>,
    #[prost(string, optional, tag = "6")]
    role: Option<String>,
    #[prost(message, repeated, tag = "7")]
    content_parts: Vec<Kept<Part>>,
}

impl ToolCallResult {
    pub(super) fn of(event: &crate::events::ToolCallResult, number: i32) -> Result<Self, ProtoEncodeError> {
        let content = Split::of(&event.content)?;
        Ok(Self {
            base_event: base_of!(event, number),
            subagent_run_id: event.subagent_run_id.clone(),
            message_id: event.message_id.clone(),
            tool_call_id: event.tool_call_id.clone(),
            content: content.text,
            role: event.role.carry()?,
            content_parts: content.parts,
        })
    }
}

impl EventMessage for ToolCallResult {
    fn take_base(&mut self) -> Option<BaseEvent> {
        self.base_event.take()
    }

    fn members(self, members: &mut Map<String, Value>, room: Room) -> Result<(), Unread> {
        self.message_id.put("messageId", members, room)?;
        self.tool_call_id.put("toolCallId", members, room)?;
        Split { text: self.content, parts: self.content_parts }.put(members, room)?;
        self.role.put("role", members, room)?;
        self.subagent_run_id.put("subagentRunId", members, room)
    }
}

/// A message of any role: one message has the members of all roles, and three fields for what is `content` in JSON.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Message {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    role: String,
    #[prost(string, optional, tag = "3")]
    content: Option<String>,
    #[prost(string, optional, tag = "4")]
    name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    tool_calls: Vec<Kept<ToolCall>>,
    #[prost(string, optional, tag = "6")]
    tool_call_id: Option<String>,
    #[prost(string, optional, tag = "7")]
    error: Option<String>,
    #[prost(message, repeated, tag = "8")]
    content_parts: Vec<Kept<Part>>,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Object>,
    #[prost(string, optional, tag = "10")]
    subagent_run_id: Option<String>,
    #[prost(string, optional, tag = "11")]
    encrypted_value: Option<String>,
    #[prost(string, optional, tag = "12")]
    activity_type: Option<String>,
    #[prost(message, optional, tag = "13")]
    activity_content: Option<Object>,
}

impl Carried<Message> for model::Message {
    fn carry(&self) -> Result<Message, ProtoEncodeError> {
        let mut wire = Message {
            id: self.id().to_owned(),
            role: self.role().to_owned(),
            metadata: self.metadata().map(Carried::carry).transpose()?,
            subagent_run_id: self.subagent_run_id().map(str::to_owned),
            ..Message::default()
        };
        match self {
            Self::Developer(message) => {
                wire.content = Some(message.content.clone());
                wire.name.clone_from(&message.name);
                wire.encrypted_value.clone_from(&message.encrypted_value);
            }
            Self::System(message) => {
                wire.content = Some(message.content.clone());
                wire.name.clone_from(&message.name);
                wire.encrypted_value.clone_from(&message.encrypted_value);
            }
            Self::Assistant(message) => {
                wire.content.clone_from(&message.content);
                wire.tool_calls = message.tool_calls.carry()?;
                wire.name.clone_from(&message.name);
                wire.encrypted_value.clone_from(&message.encrypted_value);
            }
            Self::User(message) => {
                Split { text: wire.content, parts: wire.content_parts } = Split::of(&message.content)?;
                wire.name.clone_from(&message.name);
                wire.encrypted_value.clone_from(&message.encrypted_value);
            }
            Self::Tool(message) => {
                Split { text: wire.content, parts: wire.content_parts } = Split::of(&message.content)?;
                wire.tool_call_id = Some(message.tool_call_id.clone());
                wire.error.clone_from(&message.error);
                wire.encrypted_value.clone_from(&message.encrypted_value);
            }
            Self::Activity(message) => {
                wire.activity_type = Some(message.activity_type.clone());
                wire.activity_content = message.content.carry()?;
            }
            Self::Reasoning(message) => {
                wire.content = Some(message.content.clone());
                wire.encrypted_value.clone_from(&message.encrypted_value);
            }
        }
        Ok(wire)
    }
}

/// Which of the three fields is the content depends on the role. A role of a newer version has the one that is there,
/// whichever that is.
fn put_content(
    role: &str,
    text: Option<String>,
    parts: Vec<Kept<Part>>,
    activity: Option<Object>,
    members: &mut Map<String, Value>,
    room: Room,
) -> Result<(), Unread> {
    let forms = usize::from(text.is_some()) + usize::from(!parts.is_empty()) + usize::from(activity.is_some());
    if forms > 1 {
        return Err(two_forms());
    }
    let foreign = match role {
        "developer" | "system" | "assistant" | "reasoning" => !parts.is_empty() || activity.is_some(),
        "user" | "tool" => activity.is_some(),
        "activity" => text.is_some() || !parts.is_empty(),
        _ => false,
    };
    if foreign {
        return Err(Unread::Malformed(format!("a message of role {role} in it has content in a form of another role")));
    }
    if activity.is_some() {
        return activity.put("content", members, room);
    }
    match role {
        "user" | "tool" => Split { text, parts }.put(members, room),
        _ if !parts.is_empty() => Split { text, parts }.put(members, room),
        _ => text.put("content", members, room),
    }
}

impl IntoJson for Message {
    fn into_json(self, room: Room) -> Result<Value, Unread> {
        let room = room.within()?;
        let mut members = Map::new();
        members.insert("role".to_owned(), self.role.as_str().into());
        self.id.put("id", &mut members, room)?;
        put_content(&self.role, self.content, self.content_parts, self.activity_content, &mut members, room)?;
        self.name.put("name", &mut members, room)?;
        self.tool_calls.put("toolCalls", &mut members, room)?;
        self.tool_call_id.put("toolCallId", &mut members, room)?;
        self.error.put("error", &mut members, room)?;
        self.activity_type.put("activityType", &mut members, room)?;
        self.encrypted_value.put("encryptedValue", &mut members, room)?;
        self.metadata.put("metadata", &mut members, room)?;
        self.subagent_run_id.put("subagentRunId", &mut members, room)?;
        Ok(Value::Object(members))
    }
}
