//! The messages of a conversation, and the parts they are made of.

pub(crate) mod reading;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::object::object;

/// The roles that a streamed text message may take (schema, `TextMessageRole`). An absent role means assistant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextMessageRole {
    /// Instructions from the application's developer.
    Developer,
    /// Instructions from the system.
    System,
    /// The agent.
    #[default]
    Assistant,
    /// The person using the application.
    User,
}

impl TextMessageRole {
    /// The role as it is written on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Developer => "developer",
            Self::System => "system",
            Self::Assistant => "assistant",
            Self::User => "user",
        }
    }

    /// The role of that name on the wire.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Assistant, Self::User, Self::Developer, Self::System].into_iter().find(|role| role.as_str() == name)
    }
}

/// The one role of a reasoning message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningRole {
    /// `reasoning`.
    #[default]
    Reasoning,
}

/// The one role of a tool result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolRole {
    /// `tool`.
    #[default]
    Tool,
}

/// Any message of a conversation, told apart by its role.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// Instructions from the application's developer.
    Developer(DeveloperMessage),
    /// Instructions from the system.
    System(SystemMessage),
    /// What the agent said, and the tool calls it made.
    Assistant(AssistantMessage),
    /// What the person said.
    User(UserMessage),
    /// What a tool returned.
    Tool(ToolMessage),
    /// Structured progress that is not conversation.
    Activity(ActivityMessage),
    /// What the model thought.
    Reasoning(ReasoningMessage),
}

impl Message {
    /// The message's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Developer(message) => &message.id,
            Self::System(message) => &message.id,
            Self::Assistant(message) => &message.id,
            Self::User(message) => &message.id,
            Self::Tool(message) => &message.id,
            Self::Activity(message) => &message.id,
            Self::Reasoning(message) => &message.id,
        }
    }

    /// The role as it is written on the wire.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::Developer(_) => "developer",
            Self::System(_) => "system",
            Self::Assistant(_) => "assistant",
            Self::User(_) => "user",
            Self::Tool(_) => "tool",
            Self::Activity(_) => "activity",
            Self::Reasoning(_) => "reasoning",
        }
    }

    /// The subagent invocation that the message belongs to; `None` is the parent agent.
    #[must_use]
    pub fn subagent_run_id(&self) -> Option<&str> {
        match self {
            Self::Developer(message) => message.subagent_run_id.as_deref(),
            Self::System(message) => message.subagent_run_id.as_deref(),
            Self::Assistant(message) => message.subagent_run_id.as_deref(),
            Self::User(message) => message.subagent_run_id.as_deref(),
            Self::Tool(message) => message.subagent_run_id.as_deref(),
            Self::Activity(message) => message.subagent_run_id.as_deref(),
            Self::Reasoning(message) => message.subagent_run_id.as_deref(),
        }
    }

    /// The metadata that is stored with the message.
    #[must_use]
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Developer(message) => message.metadata.as_ref(),
            Self::System(message) => message.metadata.as_ref(),
            Self::Assistant(message) => message.metadata.as_ref(),
            Self::User(message) => message.metadata.as_ref(),
            Self::Tool(message) => message.metadata.as_ref(),
            Self::Activity(message) => message.metadata.as_ref(),
            Self::Reasoning(message) => message.metadata.as_ref(),
        }
    }

    /// The place of the message's metadata.
    pub fn metadata_mut(&mut self) -> &mut Option<Map<String, Value>> {
        match self {
            Self::Developer(message) => &mut message.metadata,
            Self::System(message) => &mut message.metadata,
            Self::Assistant(message) => &mut message.metadata,
            Self::User(message) => &mut message.metadata,
            Self::Tool(message) => &mut message.metadata,
            Self::Activity(message) => &mut message.metadata,
            Self::Reasoning(message) => &mut message.metadata,
        }
    }

    /// The place of the message's encrypted value; `None` for an activity, which has none by schema.
    pub fn encrypted_value_mut(&mut self) -> Option<&mut Option<String>> {
        match self {
            Self::Developer(message) => Some(&mut message.encrypted_value),
            Self::System(message) => Some(&mut message.encrypted_value),
            Self::Assistant(message) => Some(&mut message.encrypted_value),
            Self::User(message) => Some(&mut message.encrypted_value),
            Self::Tool(message) => Some(&mut message.encrypted_value),
            Self::Activity(_) => None,
            Self::Reasoning(message) => Some(&mut message.encrypted_value),
        }
    }

    /// The tool calls of an assistant message; empty for every other.
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall] {
        match self {
            Self::Assistant(message) => message.tool_calls.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }
}

object! {
    /// Instructions from the application's developer.
    DeveloperMessage {
        required {
            /// Identifies the message within the conversation.
            id: String,
            /// The instructions.
            content: String,
        }
        optional {
            /// A display name of the author.
            name: String,
            /// A provider's opaque artefact, stored and returned as it is.
            encrypted_value: String,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
            /// The subagent invocation that it belongs to; absent means the parent agent.
            subagent_run_id: String,
        }
    }
}

object! {
    /// Instructions from the system.
    SystemMessage {
        required {
            /// Identifies the message within the conversation.
            id: String,
            /// The instructions.
            content: String,
        }
        optional {
            /// A display name of the author.
            name: String,
            /// A provider's opaque artefact, stored and returned as it is.
            encrypted_value: String,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
            /// The subagent invocation that it belongs to; absent means the parent agent.
            subagent_run_id: String,
        }
    }
}

object! {
    /// A message from the agent. It may consist of tool calls alone.
    AssistantMessage {
        required {
            /// Identifies the message within the conversation.
            id: String,
        }
        optional {
            /// What the agent said, if it said anything.
            content: String,
            /// The tool calls it made.
            tool_calls: Vec<ToolCall>,
            /// A display name of the author.
            name: String,
            /// A provider's opaque artefact, stored and returned as it is.
            encrypted_value: String,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
            /// The subagent invocation that it belongs to; absent means the parent agent.
            subagent_run_id: String,
        }
    }
}

object! {
    /// A message from the person using the application.
    UserMessage {
        required {
            /// Identifies the message within the conversation.
            id: String,
            /// Plain text, or an ordered list of parts.
            content: Content,
        }
        optional {
            /// A display name of the author.
            name: String,
            /// A provider's opaque artefact, stored and returned as it is.
            encrypted_value: String,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
            /// The subagent invocation that it belongs to; absent means the parent agent.
            subagent_run_id: String,
        }
    }
}

object! {
    /// What a tool returned.
    ToolMessage {
        required {
            /// Identifies the message within the conversation.
            id: String,
            /// What was returned: plain text, or an ordered list of parts.
            content: Content,
            /// The call that this answers.
            tool_call_id: String,
        }
        optional {
            /// Why the tool failed, beside whatever content it still gave.
            error: String,
            /// A provider's opaque artefact, stored and returned as it is.
            encrypted_value: String,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
            /// The subagent invocation that it belongs to; absent means the parent agent.
            subagent_run_id: String,
        }
    }
}

object! {
    /// Structured progress that keeps its place among the messages (events/activity). Never sent to an agent.
    ActivityMessage {
        required {
            /// Identifies the message within the conversation.
            id: String,
            /// What kind of activity it is. An open string.
            activity_type: String,
            /// The payload, open by key.
            content: Map<String, Value>,
        }
        optional {
            /// Extra information, open by key.
            metadata: Map<String, Value>,
            /// The subagent invocation that it belongs to; absent means the parent agent.
            subagent_run_id: String,
        }
    }
}

object! {
    /// A span of the model's reasoning.
    ReasoningMessage {
        required {
            /// Identifies the message within the conversation.
            id: String,
            /// The reasoning text.
            content: String,
        }
        optional {
            /// A provider's opaque artefact, stored and returned as it is.
            encrypted_value: String,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
            /// The subagent invocation that it belongs to; absent means the parent agent.
            subagent_run_id: String,
        }
    }
}

/// The only kind of tool call that the protocol models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolCallKind {
    /// `function`.
    #[default]
    Function,
}

object! {
    /// A call that an assistant message made. It belongs to whoever its message belongs to.
    ToolCall {
        required {
            /// Identifies the call; the tool message that answers it carries this id.
            id: String,
            /// What is called, and with what.
            function: FunctionCall,
        }
        fixed {
            /// Always `function`.
            #[serde(rename = "type")]
            kind: ToolCallKind,
        }
        optional {
            /// A provider's opaque artefact, stored and returned as it is.
            encrypted_value: String,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
        }
    }
}

object! {
    /// The name and the arguments of a tool call.
    FunctionCall {
        required {
            /// The tool being called.
            name: String,
            /// The arguments as the model wrote them: conventionally a JSON document, never checked to be one.
            arguments: String,
        }
    }
}

/// What a user sent or a tool returned: plain text, or an ordered list of parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Parts, in order.
    Parts(Vec<ContentPart>),
}

impl Content {
    /// The text of the content: itself, or its text parts joined in order. Lossy when there are other parts
    /// (events/tool-calls, "Result content").
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    ContentPart::Text(part) => Some(part.text.as_str()),
                    _ => None,
                })
                .collect(),
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<ContentPart>> for Content {
    fn from(parts: Vec<ContentPart>) -> Self {
        Self::Parts(parts)
    }
}

/// One part of a message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ContentPart {
    /// Text.
    Text(TextPart),
    /// An image.
    Image(MediaPart),
    /// A recording.
    Audio(MediaPart),
    /// A film.
    Video(MediaPart),
    /// A document.
    Document(MediaPart),
}

object! {
    /// A text part.
    TextPart {
        required {
            /// The text.
            text: String,
        }
        optional {
            /// Identifies the part within its message.
            id: String,
            /// Extra information: any JSON value but `null`.
            metadata: Value,
        }
    }
}

object! {
    /// An image, audio, video or document part.
    MediaPart {
        required {
            /// Where its bytes are.
            source: PartSource,
        }
        optional {
            /// Identifies the part within its message.
            id: String,
            /// Extra information: any JSON value but `null`.
            metadata: Value,
        }
    }
}

/// Where a media part's bytes are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PartSource {
    /// Carried here.
    Data(DataSource),
    /// Behind a URL.
    Url(UrlSource),
    /// At the provider, under a handle that it issued.
    File(FileSource),
}

impl Default for PartSource {
    fn default() -> Self {
        Self::Data(DataSource::default())
    }
}

object! {
    /// Bytes carried inline.
    DataSource {
        required {
            /// The bytes in base64.
            value: String,
            /// What the bytes are.
            mime_type: String,
        }
    }
}

object! {
    /// Bytes behind a URL.
    UrlSource {
        required {
            /// The URL, in any scheme.
            value: String,
        }
        optional {
            /// What the resource is, if it is known.
            mime_type: String,
        }
    }
}

object! {
    /// Bytes at a model provider. Only the provider that issued the handle can read it.
    FileSource {
        required {
            /// The handle, opaque: never fetched, never parsed.
            value: String,
        }
        optional {
            /// The provider that issued it, by its lowercase vendor name.
            provider: String,
            /// What the file is, if it is known.
            mime_type: String,
        }
    }
}
