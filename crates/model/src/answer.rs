//! One model call, written into the run's log as it comes.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use runwire_agui::CallUsage;
use runwire_bridge::{Ending, Opening, kind, usage_from_agui};
use runwire_engine::{RunWriter, Segment, WriteError};
use runwire_frame::{ErrorCode, NoticeLevel, SegmentError, SegmentStatus, Usage};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::call::{CallError, Model, ModelEvent, ModelRequest};
use crate::history::wrap;
use crate::kept_call::{Answered, KeptCall};

/// The most bytes of arguments that the calls of one answer may have together. They are repeated whole in frames.
const MAX_ARGUMENT_BYTES: usize = 16 * 1024 * 1024;
/// The most calls of one answer.
const MAX_CALLS: usize = 256;

/// A call that the model made and that waits for its result.
pub(crate) struct LiveCall {
    pub id: String,
    pub name: String,
    /// As the model wrote them, and as they are in the log.
    pub arguments: String,
    pub opaque: Option<Value>,
    /// What the result is written through.
    pub segment: Segment<kind::Tool>,
}

/// What a model answered, all of it in the log.
pub(crate) struct Answer {
    pub text: String,
    pub calls: Vec<LiveCall>,
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The run's log does not take it.
    Write(WriteError),
    /// The call failed.
    Failed {
        error: CallError,
        /// Whether something of the answer is in the log: then the call cannot be made again as if nothing had been.
        wrote: bool,
    },
}

impl From<WriteError> for NoAnswer {
    fn from(error: WriteError) -> NoAnswer {
        NoAnswer::Write(error)
    }
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// In all.
    pub call: Duration,
    /// From one piece to the next, and to the first.
    pub idle: Duration,
}

/// Makes the call and writes its answer. `ids` are those of the conversation's calls; those of this answer are added.
pub(crate) async fn ask(
    model: &dyn Model,
    name: &str,
    request: &ModelRequest,
    patience: Patience,
    writer: &RunWriter,
    ids: &mut HashSet<String>,
) -> Result<Answer, NoAnswer> {
    let provider = model.provider();
    let opening = Opening { model_ref: Some(format!("{provider}/{name}")), ..Opening::named(name) };
    let segment = writer.model(opening).await?;
    let kept = KeptCall::begin(&segment, model, name, request).await?;
    let mut writing = Writing {
        provider,
        writer,
        model: &segment,
        ids,
        reasoning: None,
        message: None,
        thinking: kept.is_some().then(String::new),
        text: String::new(),
        calls: Vec::new(),
        argument_bytes: 0,
        served: None,
        usage: None,
        finish_reason: None,
        wrote: false,
    };
    let mut stream = model.call(name, request);
    let deadline = Instant::now() + patience.call;
    let ended = loop {
        let idle = Instant::now() + patience.idle;
        match timeout_at(idle.min(deadline), stream.next()).await {
            Ok(Some(Ok(event))) => {
                if let Err(error) = writing.take(event).await? {
                    break Err(error);
                }
            }
            // Behind its end an answer has nothing but counts, and how that stops says nothing about it.
            _ if writing.finish_reason.is_some() => break Ok(()),
            Ok(Some(Err(error))) => break Err(error),
            Ok(None) => {
                break Err(CallError::passing(
                    ErrorCode::ModelError,
                    format!("{provider} ended its answer before it was whole"),
                ));
            }
            Err(_) => {
                let (limit, what) = match idle < deadline {
                    true => (patience.idle, "`idle_timeout`: nothing came for"),
                    false => (patience.call, "`call_timeout`: the call took"),
                };
                break Err(CallError::passing(
                    ErrorCode::Timeout,
                    format!("{provider} did not answer in time ({what} {} ms)", limit.as_millis()),
                ));
            }
        }
    };
    drop(stream);
    let ended = ended.and_then(|()| match writing.finish_reason.as_deref() {
        Some("content_filter") => Err(CallError::lasting(
            ErrorCode::GuardrailBlocked,
            format!("{provider} stopped the answer for its content"),
        )),
        _ => Ok(()),
    });
    if ended.is_ok() {
        writing.close().await?;
    }
    let usage = writing.account(name);
    if let Some(kept) = kept {
        let answered = Answered {
            served: writing.served.as_deref(),
            thinking: writing.thinking.as_deref().unwrap_or_default(),
            text: &writing.text,
            calls: &writing.calls,
            finish_reason: writing.finish_reason.as_deref(),
            usage: usage.as_ref(),
            error: ended.as_ref().err(),
        };
        kept.end(&segment, answered).await?;
    }
    let wrote = writing.wrote;
    let finish_reason = writing.finish_reason.take();
    let (text, calls) = (writing.text, writing.calls);
    let ending = Ending { usage, finish_reason, ..Ending::completed() };
    match ended {
        Ok(()) => {
            segment.end(ending).await?;
            Ok(Answer { text, calls })
        }
        Err(error) => {
            let told = SegmentError { code: error.code, message: error.message.clone(), extra: Map::new() };
            segment.end(Ending { status: SegmentStatus::Failed, error: Some(told), ..ending }).await?;
            Err(NoAnswer::Failed { error, wrote })
        }
    }
}

/// An answer on its way into the log.
struct Writing<'a> {
    provider: &'static str,
    writer: &'a RunWriter,
    model: &'a Segment<kind::Model>,
    ids: &'a mut HashSet<String>,
    reasoning: Option<Segment<kind::Reasoning>>,
    message: Option<Segment<kind::Message>>,
    /// The reasoning so far, where it is kept.
    thinking: Option<String>,
    text: String,
    calls: Vec<LiveCall>,
    argument_bytes: usize,
    served: Option<String>,
    usage: Option<CallUsage>,
    finish_reason: Option<String>,
    wrote: bool,
}

impl Writing<'_> {
    /// Writes the next piece. The inner error is the model's.
    async fn take(&mut self, event: ModelEvent) -> Result<Result<(), CallError>, WriteError> {
        match event {
            ModelEvent::Served(model) => self.served = Some(model),
            ModelEvent::Usage(usage) => self.usage = Some(usage),
            ModelEvent::Finished(reason) => self.finish_reason = Some(reason),
            ModelEvent::Thinking(text) => {
                self.wrote = true;
                if self.reasoning.is_none() {
                    self.reasoning = Some(self.writer.reasoning(Opening::default().inside(self.model.id())).await?);
                }
                if let Some(reasoning) = &self.reasoning {
                    reasoning.thinking(&text).await?;
                }
                if let Some(thinking) = &mut self.thinking {
                    thinking.push_str(&text);
                }
            }
            ModelEvent::Text(text) => {
                self.wrote = true;
                self.end_reasoning().await?;
                if self.message.is_none() {
                    self.message = Some(self.writer.message(Opening::default().inside(self.model.id())).await?);
                }
                if let Some(message) = &self.message {
                    message.text(&text).await?;
                }
                self.text.push_str(&text);
            }
            ModelEvent::Call { index, id, name } => {
                if index != self.calls.len() || index >= MAX_CALLS {
                    return Ok(
                        Err(self.unreadable(&format!("its tool call {index} is out of order, or one too many"))),
                    );
                }
                self.wrote = true;
                self.end_reasoning().await?;
                let id = self.free_id(id);
                // A call of the message that is being written is part of that message.
                let parent = self.message.as_ref().map_or(self.model.id(), |message| message.id());
                let segment = self.writer.tool(&id, &name, Opening::default().inside(parent)).await?;
                self.calls.push(LiveCall { id, name, arguments: String::new(), opaque: None, segment });
            }
            ModelEvent::Arguments { index, delta } => {
                self.argument_bytes += delta.len();
                if self.argument_bytes > MAX_ARGUMENT_BYTES {
                    let what = format!("the arguments of its tool calls have more than {MAX_ARGUMENT_BYTES} bytes");
                    return Ok(Err(self.unreadable(&what)));
                }
                match self.calls.get_mut(index) {
                    Some(call) => {
                        call.segment.arguments(&delta).await?;
                        call.arguments.push_str(&delta);
                    }
                    None => return Ok(Err(self.unreadable("it has arguments of a tool call that it did not make"))),
                }
            }
            ModelEvent::Opaque { index, value } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.opaque = Some(value);
                }
            }
        }
        Ok(Ok(()))
    }

    fn unreadable(&self, what: &str) -> CallError {
        CallError::passing(ErrorCode::ModelError, format!("the answer of {} cannot be used: {what}", self.provider))
    }

    /// The provider's id, where it can be the conversation's: many servers count from zero in each answer.
    fn free_id(&mut self, given: Option<String>) -> String {
        let usable = |id: &String| id.len() <= 128 && !id.is_empty() && id.bytes().all(|b| b.is_ascii_graphic());
        let id = given.filter(usable).filter(|id| !self.ids.contains(id));
        let id = id.unwrap_or_else(|| format!("call_{}", Uuid::now_v7().simple()));
        self.ids.insert(id.clone());
        id
    }

    async fn end_reasoning(&mut self) -> Result<(), WriteError> {
        match self.reasoning.take() {
            Some(reasoning) => reasoning.end(Ending::completed()).await,
            None => Ok(()),
        }
    }

    /// The answer is whole.
    async fn close(&mut self) -> Result<(), WriteError> {
        self.end_reasoning().await?;
        for call in &self.calls {
            call.segment.arguments_complete().await?;
            if let Some(opaque) = &call.opaque {
                // A client keeps it with the call and sends it back, so that the next run can give it to the provider.
                let event = json!({
                    "type": "REASONING_ENCRYPTED_VALUE",
                    "subtype": "tool-call",
                    "entityId": call.id,
                    "encryptedValue": wrap(self.provider, opaque),
                });
                let attributes = event.as_object().cloned();
                let what = "what the provider wants back with a tool call";
                self.writer.notice(NoticeLevel::Info, "agui.REASONING_ENCRYPTED_VALUE", what, attributes).await?;
            }
        }
        if let Some(message) = self.message.take() {
            message.end(Ending::completed()).await?;
        }
        Ok(())
    }

    /// What the call cost, in the protocol's accounting.
    fn account(&self, asked: &str) -> Option<Usage> {
        let reported = self.usage.clone()?;
        let model = self.served.clone().unwrap_or_else(|| asked.to_owned());
        let call = CallUsage { provider: Some(self.provider.to_owned()), model: Some(model), ..reported };
        match call.account() {
            Ok(entry) => Some(usage_from_agui(&entry)),
            Err(error) => {
                tracing::warn!(provider = self.provider, %error, "the usage that the provider reports was left out");
                None
            }
        }
    }
}
