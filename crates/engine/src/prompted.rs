//! What a run is given that was created with a prompt: what its session said before, and the prompt.
//!
//! It is put together when the run begins, not when it is created, so that a run which waited has the answer of the one
//! before it. From then on it is the run's input like any other: `run.start` keeps it, and further attempts, answers and
//! readers go by that. What the store keeps beside the log is what was asked.

use futures_util::future::BoxFuture;
use runwire_agui::RunAgentInput;
use runwire_bridge::{ExchangeEnd, Failure};
use runwire_frame::{ErrorCode, MAX_VALUE_DEPTH, json_depth};
use runwire_store::{ReadError, RunRecord};
use serde_json::Value;

use crate::child::CHILD;
use crate::driver::{Driver, Exchange, Starting};
use crate::engine::Engine;
use crate::history_reader::Without;

/// Most bytes of JSON that an input is made of for a prompt, unless an agent's policy has another number. AG-UI's own client takes
/// no event beyond 10 MiB, and `RUN_STARTED` echoes the input.
pub const MAX_HISTORY_BYTES: usize = 8 * 1024 * 1024;

/// What a run is given beside its prompt. An input that a client made is never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptHistory {
    /// The messages of its session, and the state.
    Session {
        /// The input's size in bytes of JSON, the prompt included. Beyond it the run fails with `CONTEXT_OVERFLOW`.
        max_bytes: usize,
    },
    /// Nothing: the agent keeps its own memory of the session, or has none.
    Nothing,
}

impl Default for PromptHistory {
    fn default() -> PromptHistory {
        PromptHistory::Session { max_bytes: MAX_HISTORY_BYTES }
    }
}

/// Why a run is not given what its session said. It fails by that: to leave some of it out would be to have the agent answer to
/// half of a conversation, and nobody would know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotGiven {
    #[error(
        "what session `{session_id}` has said comes to {bytes} bytes of JSON with the prompt, and an agent is given at most \
         {max_bytes} (`max_history_bytes`); begin another session, or send an `input` with the messages that the agent needs"
    )]
    TooLarge { session_id: String, bytes: usize, max_bytes: usize },
    #[error(
        "what session `{session_id}` has said nests {depth} levels of JSON, and an input nests at most {MAX_VALUE_DEPTH}; begin \
         another session, or send an `input` with what the agent needs"
    )]
    TooDeep { session_id: String, depth: usize },
}

/// Executes a run that cannot be given what belongs to it: it fails, without its agent.
pub(crate) struct WithoutItsHistory(pub(crate) NotGiven);

impl Driver for WithoutItsHistory {
    fn kind(&self) -> &'static str {
        "without its history"
    }

    fn execute(&self, _: Exchange, _: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let failure = Failure::new(ErrorCode::ContextOverflow, self.0.to_string());
        Box::pin(async move { Err(failure) })
    }
}

/// The id of the message that a prompt becomes in the run, or the exchange, of this id.
pub(crate) fn prompt_id(id: &str) -> String {
    format!("{id}.prompt")
}

/// Whether the run was created with a prompt, and not by another run, whose child is given what that says and no more.
///
/// No client can send an input that looks like it: the run's id is made after that has come.
fn is_prompted(record: &RunRecord, input: &RunAgentInput) -> bool {
    match input.messages.as_slice() {
        [only] => record.trigger_kind != CHILD && only.id() == prompt_id(&record.run_id),
        _ => false,
    }
}

impl Engine {
    /// Puts what the run's session said before in front of its prompt. An input that is no prompt's stays as it is.
    ///
    /// Only runs of the run's own principal count, as far as they are over or wait for an answer: half of an answer would
    /// stand in the input as the whole of it.
    ///
    /// # Errors
    /// When the store cannot be read now.
    pub(crate) async fn add_history(
        &self,
        record: &RunRecord,
        how: PromptHistory,
        input: &mut RunAgentInput,
    ) -> Result<Result<(), NotGiven>, ReadError> {
        let PromptHistory::Session { max_bytes } = how else { return Ok(Ok(())) };
        if !is_prompted(record, input) {
            return Ok(Ok(()));
        }
        let known = self.known_session(record.principal.as_deref(), &record.session_id, Without::Live).await?;
        let Some(known) = known.filter(|known| known.runs.len() > 1) else { return Ok(Ok(())) };
        let mut whole = input.clone();
        whole.messages.splice(0..0, known.history.given());
        whole.state = Some(known.history.state().clone()).filter(says_something);
        let json = serde_json::to_vec(&whole).expect("an input is JSON, whose keys are text");
        let session_id = record.session_id.clone();
        if json.len() > max_bytes {
            return Ok(Err(NotGiven::TooLarge { session_id, bytes: json.len(), max_bytes }));
        }
        let depth = json_depth(&json);
        if depth > MAX_VALUE_DEPTH {
            return Ok(Err(NotGiven::TooDeep { session_id, depth }));
        }
        *input = whole;
        Ok(Ok(()))
    }
}

/// Null is no state that AG-UI lets an input have.
fn says_something(state: &Value) -> bool {
    match state {
        Value::Null => false,
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}
