//! One call of a model, whoever serves it: what it is asked, what it answers piece by piece, and how it fails.
//!
//! The loop around it knows nothing but this, so that it is tested without a provider.

use std::time::Duration;

use futures_util::stream::BoxStream;
use runwire_agui::{CallUsage, PartSource};
use runwire_bridge::Failure;
use runwire_frame::ErrorCode;
use serde_json::{Map, Value};

/// What a model is asked. Providers differ in how this is written down, and each adapter writes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The instructions; empty when there are none.
    pub system: String,
    /// The conversation, in order. Each call of a turn has its result in the [`Turn::Results`] behind it.
    pub turns: Vec<Turn>,
    /// The tools that it may call.
    pub tools: Vec<ToolSpec>,
    /// The most tokens that it may write, where that is limited.
    pub max_output_tokens: Option<u64>,
    /// How freely it chooses its words, where that is not the provider's default.
    pub temperature: Option<f64>,
    /// Members of the provider's own request that are put over those that the adapter writes; `null` takes one away.
    pub extra: Map<String, Value>,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// What the person said.
    User(Vec<Part>),
    /// What the model said, and the calls that it made.
    Assistant {
        /// Its text; empty when it only called.
        text: String,
        /// Its calls.
        calls: Vec<MadeCall>,
    },
    /// What the calls of the turn before came to, one for each.
    Results(Vec<CallResult>),
}

/// A piece of what the person said.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// Anything else.
    Media(Media),
}

/// A piece that is no text.
#[derive(Clone, Debug, PartialEq)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Where its bytes are.
    pub source: PartSource,
}

/// What a piece that is no text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// An image.
    Image,
    /// A recording.
    Audio,
    /// A film.
    Video,
    /// A document.
    Document,
}

/// A tool call that a model made.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeCall {
    /// The conversation's id of it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// What the provider wants back with the call in the next request, as it is.
    pub opaque: Option<Value>,
}

/// What a tool call came to.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Whether it worked.
    pub ok: bool,
    /// What is told of it.
    pub text: String,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// What it is called by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A JSON Schema of its arguments: an object.
    pub parameters: Value,
}

/// A piece of a model's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// Which model answers, where that is more exact than what was asked for.
    Served(String),
    /// Reasoning.
    Thinking(String),
    /// Output text.
    Text(String),
    /// A call begins.
    Call {
        /// Which of the answer's calls it is; later pieces name it by this.
        index: usize,
        /// The provider's id of it, where it gives one.
        id: Option<String>,
        /// The tool.
        name: String,
    },
    /// The next piece of a call's arguments.
    Arguments {
        /// Which call.
        index: usize,
        /// The piece.
        delta: String,
    },
    /// What has to go back with a call: see [`MadeCall::opaque`].
    Opaque {
        /// Which call.
        index: usize,
        /// The value.
        value: Value,
    },
    /// What the call has cost so far; the last one counts.
    Usage(CallUsage),
    /// Why the model stopped: `stop`, `length`, `tool_calls`, `content_filter`, or the provider's own word for what is none
    /// of these. The last one counts. An answer without it is cut short.
    Finished(String),
}

/// The pieces of an answer. Nothing follows an error. Dropping it drops the call's connection.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, CallError>>;

/// A model API.
pub trait Model: Send + Sync + 'static {
    /// Who serves it, by its lowercase vendor name.
    fn provider(&self) -> &'static str;

    /// Whether it can be given this piece.
    fn takes(&self, media: &Media) -> bool;

    /// The body of the request that [`Model::call`] sends for this. Nothing that gives access is in it.
    fn body(&self, model: &str, request: &ModelRequest) -> Value;

    /// Calls the model of that name. The request is sent when the stream is first polled.
    fn call(&self, model: &str, request: &ModelRequest) -> ModelStream;
}

/// A model call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What a run that fails by it fails with.
    pub code: ErrorCode,
    /// What happened, for a person. Never holds a key.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl CallError {
    /// A call that cannot succeed as it is.
    pub fn lasting(code: ErrorCode, message: impl Into<String>) -> CallError {
        CallError { code, message: message.into(), retryable: false, retry_after: None }
    }

    /// A call that may succeed later.
    pub fn passing(code: ErrorCode, message: impl Into<String>) -> CallError {
        CallError { retryable: true, ..CallError::lasting(code, message) }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        let CallError { code, message, retryable, retry_after } = error;
        Failure { retryable, retry_after, ..Failure::new(code, message) }
    }
}
