//! What is kept of a model call, where the agent keeps such: the request from when it is sent on, so that it is there of a call
//! that is never answered too, and then the answer, put together from its pieces.

use runwire_bridge::kind;
use runwire_engine::{ModelCall, Segment, WriteError};
use runwire_frame::Usage;
use serde_json::{Map, Value, json};

use crate::answer::LiveCall;
use crate::call::{CallError, Model, ModelRequest};

/// A call whose request is kept.
pub(crate) struct KeptCall {
    model: String,
    request: Value,
}

/// What came of a call.
pub(crate) struct Answered<'a> {
    pub served: Option<&'a str>,
    pub thinking: &'a str,
    pub text: &'a str,
    pub calls: &'a [LiveCall],
    pub finish_reason: Option<&'a str>,
    pub usage: Option<&'a Usage>,
    pub error: Option<&'a CallError>,
}

impl KeptCall {
    /// Keeps the request; `None` for an agent that keeps none.
    pub async fn begin(
        segment: &Segment<kind::Model>,
        model: &dyn Model,
        name: &str,
        request: &ModelRequest,
    ) -> Result<Option<KeptCall>, WriteError> {
        if !segment.keeps() {
            return Ok(None);
        }
        let kept = KeptCall { model: format!("{}/{name}", model.provider()), request: model.body(name, request) };
        let call = ModelCall { model: kept.model.clone(), request: kept.request.clone(), response: None };
        segment.keep(call).await?;
        Ok(Some(kept))
    }

    /// Keeps the answer too, or as much of it as came.
    pub async fn end(self, segment: &Segment<kind::Model>, answered: Answered<'_>) -> Result<(), WriteError> {
        let KeptCall { model, request } = self;
        segment.keep(ModelCall { model, request, response: Some(answered.to_json()) }).await
    }
}

impl Answered<'_> {
    /// What there is of it, in words that are the same for every provider.
    fn to_json(&self) -> Value {
        let Answered { served, thinking, text, calls, finish_reason, usage, error } = self;
        let call = |call: &LiveCall| json!({ "id": call.id, "name": call.name, "arguments": call.arguments });
        let mut members = Map::new();
        let mut say = |name: &str, value: Option<Value>| {
            members.extend(value.map(|value| (name.to_owned(), value)));
        };
        say("model", served.map(Value::from));
        say("reasoning", (!thinking.is_empty()).then(|| json!(thinking)));
        say("text", (!text.is_empty()).then(|| json!(text)));
        say("tool_calls", (!calls.is_empty()).then(|| calls.iter().map(call).collect()));
        say("finish_reason", finish_reason.map(Value::from));
        say("usage", usage.and_then(|usage| serde_json::to_value(usage).ok()));
        say("error", error.map(|error| json!({ "code": error.code.as_str(), "message": error.message })));
        Value::Object(members)
    }
}
