//! Reading a message in one pass, wherever in it the role stands.
//!
//! What tells messages apart rarely comes first. Instead of keeping all that comes before it as it is, to be read once more,
//! every member is read as what it is in any message that has it, and the role decides in the end which may be there.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{
    ActivityMessage, AssistantMessage, Content, ContentPart, DeveloperMessage, Message, ReasoningMessage,
    SystemMessage, ToolCall, ToolMessage, UserMessage,
};

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Developer,
    System,
    Assistant,
    User,
    Tool,
    Activity,
    Reasoning,
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Member {
    Id,
    Role,
    Content,
    Name,
    EncryptedValue,
    Metadata,
    SubagentRunId,
    ToolCalls,
    ToolCallId,
    Error,
    ActivityType,
}

/// The members of any message.
#[derive(Default)]
struct Members {
    id: Option<String>,
    role: Option<Role>,
    content: Option<Held>,
    name: Option<String>,
    encrypted_value: Option<String>,
    metadata: Option<Map<String, Value>>,
    subagent_run_id: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
    tool_call_id: Option<String>,
    error: Option<String>,
    activity_type: Option<String>,
}

/// The content of any message.
enum Held {
    Text(String),
    Parts(Vec<ContentPart>),
    Open(Map<String, Value>),
}

impl Members {
    fn read<'de, A>(&mut self, mut members: A) -> Result<(), A::Error>
    where
        A: MapAccess<'de>,
    {
        let read = self;
        while let Some(member) = members.next_key()? {
            match member {
                Member::Id => once(&mut read.id, "id", &mut members)?,
                Member::Role => once(&mut read.role, "role", &mut members)?,
                Member::Content => once(&mut read.content, "content", &mut members)?,
                Member::Name => once(&mut read.name, "name", &mut members)?,
                Member::EncryptedValue => once(&mut read.encrypted_value, "encryptedValue", &mut members)?,
                Member::Metadata => once(&mut read.metadata, "metadata", &mut members)?,
                Member::SubagentRunId => once(&mut read.subagent_run_id, "subagentRunId", &mut members)?,
                Member::ToolCalls => once(&mut read.tool_calls, "toolCalls", &mut members)?,
                Member::ToolCallId => once(&mut read.tool_call_id, "toolCallId", &mut members)?,
                Member::Error => once(&mut read.error, "error", &mut members)?,
                Member::ActivityType => once(&mut read.activity_type, "activityType", &mut members)?,
            }
        }
        Ok(())
    }

    /// Takes the message of these members, if it has each that it must have and none that its role has not.
    fn message<E: de::Error>(&mut self) -> Result<Message, E> {
        let role = self.role.take().ok_or_else(|| E::missing_field("role"))?;
        let id = self.id.take().ok_or_else(|| E::missing_field("id"))?;
        let (metadata, subagent_run_id) = (self.metadata.take(), self.subagent_run_id.take());
        let message = match role {
            Role::Developer => {
                let (name, content, encrypted_value) = (self.name.take(), self.text()?, self.encrypted_value.take());
                let message = DeveloperMessage { id, content, name, encrypted_value, metadata, subagent_run_id };
                Message::Developer(message)
            }
            Role::System => {
                let (name, content, encrypted_value) = (self.name.take(), self.text()?, self.encrypted_value.take());
                Message::System(SystemMessage { id, content, name, encrypted_value, metadata, subagent_run_id })
            }
            Role::Assistant => Message::Assistant(AssistantMessage {
                id,
                content: if self.content.is_some() { Some(self.text()?) } else { None },
                tool_calls: self.tool_calls.take(),
                name: self.name.take(),
                encrypted_value: self.encrypted_value.take(),
                metadata,
                subagent_run_id,
            }),
            Role::User => {
                let (name, content, encrypted_value) = (self.name.take(), self.content()?, self.encrypted_value.take());
                Message::User(UserMessage { id, content, name, encrypted_value, metadata, subagent_run_id })
            }
            Role::Tool => Message::Tool(ToolMessage {
                id,
                content: self.content()?,
                tool_call_id: self.tool_call_id.take().ok_or_else(|| E::missing_field("toolCallId"))?,
                error: self.error.take(),
                encrypted_value: self.encrypted_value.take(),
                metadata,
                subagent_run_id,
            }),
            Role::Activity => Message::Activity(ActivityMessage {
                id,
                activity_type: self.activity_type.take().ok_or_else(|| E::missing_field("activityType"))?,
                content: match self.content.take() {
                    Some(Held::Open(content)) => content,
                    _ => return Err(E::custom("the content of an activity must be an object")),
                },
                metadata,
                subagent_run_id,
            }),
            Role::Reasoning => {
                let (content, encrypted_value) = (self.text()?, self.encrypted_value.take());
                Message::Reasoning(ReasoningMessage { id, content, encrypted_value, metadata, subagent_run_id })
            }
        };
        match self.left() {
            None => Ok(message),
            Some(member) => Err(E::custom(format_args!("a {} message has no member `{member}`", message.role()))),
        }
    }

    fn text<E: de::Error>(&mut self) -> Result<String, E> {
        match self.content.take() {
            Some(Held::Text(text)) => Ok(text),
            Some(_) => Err(E::custom("the content must be a string")),
            None => Err(E::missing_field("content")),
        }
    }

    fn content<E: de::Error>(&mut self) -> Result<Content, E> {
        match self.content.take() {
            Some(Held::Text(text)) => Ok(Content::Text(text)),
            Some(Held::Parts(parts)) => Ok(Content::Parts(parts)),
            Some(Held::Open(_)) => Err(E::custom("the content must be a string or a list of parts")),
            None => Err(E::missing_field("content")),
        }
    }

    /// A member that no one took.
    fn left(&self) -> Option<&'static str> {
        let Self { id, role, content, name, encrypted_value, .. } = self;
        let Self { metadata, subagent_run_id, tool_calls, tool_call_id, error, activity_type, .. } = self;
        let left = [
            ("id", id.is_some()),
            ("role", role.is_some()),
            ("content", content.is_some()),
            ("name", name.is_some()),
            ("encryptedValue", encrypted_value.is_some()),
            ("metadata", metadata.is_some()),
            ("subagentRunId", subagent_run_id.is_some()),
            ("toolCalls", tool_calls.is_some()),
            ("toolCallId", tool_call_id.is_some()),
            ("error", error.is_some()),
            ("activityType", activity_type.is_some()),
        ];
        left.into_iter().find(|(_, is_left)| *is_left).map(|(member, _)| member)
    }
}

/// Reads a member into its place, which is empty: a member comes once. A `null` is refused, since no member may be one.
fn once<'de, T, A>(place: &mut Option<T>, name: &'static str, members: &mut A) -> Result<(), A::Error>
where
    T: Deserialize<'de>,
    A: MapAccess<'de>,
{
    if place.is_some() {
        return Err(de::Error::duplicate_field(name));
    }
    *place = Some(members.next_value()?);
    Ok(())
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
    where
        D: Deserializer<'de>,
    {
        struct MessageVisitor;

        impl<'de> Visitor<'de> for MessageVisitor {
            type Value = Message;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a message")
            }

            fn visit_map<A>(self, members: A) -> Result<Message, A::Error>
            where
                A: MapAccess<'de>,
            {
                let mut read = Members::default();
                read.read(members)?;
                read.message()
            }
        }

        deserializer.deserialize_map(MessageVisitor)
    }
}

/// Reads a list of messages. Each is made where it stands in the list: a message is some hundred bytes.
pub(crate) fn list<'de, D>(deserializer: D) -> Result<Vec<Message>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Next<'v>(&'v mut Vec<Message>);

    impl<'de> DeserializeSeed<'de> for Next<'_> {
        type Value = ();

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de> Visitor<'de> for Next<'_> {
        type Value = ();

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a message")
        }

        fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<(), A::Error> {
            let mut read = Members::default();
            read.read(members)?;
            self.0.push(read.message()?);
            Ok(())
        }
    }

    struct ListVisitor;

    impl<'de> Visitor<'de> for ListVisitor {
        type Value = Vec<Message>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of messages")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<Message>, A::Error> {
            let mut messages = Vec::new();
            while elements.next_element_seed(Next(&mut messages))?.is_some() {}
            Ok(messages)
        }
    }

    deserializer.deserialize_seq(ListVisitor)
}

impl<'de> Deserialize<'de> for Held {
    fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
    where
        D: Deserializer<'de>,
    {
        struct HeldVisitor;

        impl<'de> Visitor<'de> for HeldVisitor {
            type Value = Held;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string, a list of parts or an object")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Held, E> {
                Ok(Held::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Held, E> {
                Ok(Held::Text(text))
            }

            fn visit_seq<A>(self, parts: A) -> Result<Held, A::Error>
            where
                A: SeqAccess<'de>,
            {
                Vec::deserialize(SeqAccessDeserializer::new(parts)).map(Held::Parts)
            }

            fn visit_map<A>(self, members: A) -> Result<Held, A::Error>
            where
                A: MapAccess<'de>,
            {
                Map::deserialize(MapAccessDeserializer::new(members)).map(Held::Open)
            }
        }

        deserializer.deserialize_any(HeldVisitor)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
    where
        D: Deserializer<'de>,
    {
        match Held::deserialize(deserializer)? {
            Held::Text(text) => Ok(Self::Text(text)),
            Held::Parts(parts) => Ok(Self::Parts(parts)),
            Held::Open(_) => Err(de::Error::custom("the content must be a string or a list of parts")),
        }
    }
}
