//! What a run is created from.

use std::collections::BTreeMap;

use runwire_agui::RunAgentInput;
use runwire_store::{AddExchangeError, AppendError, CreateError, OwnershipError, ReadError, RunRecord, Tombstone};
use serde_json::Value;

/// What an agent is asked.
#[derive(Clone, Debug)]
pub enum RunRequest {
    /// A prompt: becomes the last message, a user's, of an input whose ids the engine makes. In front of it stands what the
    /// session has said by the time the run begins, as the agent's [`PromptHistory`](crate::PromptHistory) has it. A child is
    /// given the prompt alone.
    Prompt {
        /// What the user says.
        prompt: String,
        /// The conversation; a new one when not given.
        session_id: Option<String>,
    },
    /// A whole input, which is given to the agent as it is.
    Input(Box<RunAgentInput>),
}

impl RunRequest {
    /// The conversation that it names, if it names one.
    pub(crate) fn session_id(&self) -> Option<&str> {
        let session_id = match self {
            RunRequest::Prompt { session_id, .. } => session_id.as_deref(),
            RunRequest::Input(input) => Some(&*input.thread_id),
        };
        session_id.filter(|id| !id.is_empty())
    }
}

/// A run to be created.
#[derive(Clone, Debug)]
pub struct CreateRun {
    /// Which agent.
    pub agent_id: String,
    /// What it is asked.
    pub request: RunRequest,
    /// The lane; the agent's own when not given.
    pub lane: Option<String>,
    /// The caller's own data: a JSON object, or null.
    pub metadata: Value,
    /// Who asks; `None` on a server without tokens.
    pub principal: Option<String>,
    /// How it was asked: `api`, `agui`.
    pub trigger_kind: &'static str,
}

/// A run that was created, continued or found.
#[derive(Clone, Debug)]
pub struct Started {
    /// The run.
    pub record: RunRecord,
    /// The AG-UI id of the exchange.
    pub exchange_id: String,
    /// Whether the same request had been made before, so that nothing was started.
    pub existing: bool,
}

/// Why no run was created. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum CreateRunError {
    /// There is no such agent.
    #[error("there is no agent `{agent_id}` here; there is {}", list(.known))]
    UnknownAgent {
        /// What was asked for.
        agent_id: String,
        /// What there is.
        known: Vec<String>,
    },
    /// There is no such lane.
    #[error("there is no lane `{lane}` here; there is {}", list(.known))]
    UnknownLane {
        /// What was asked for.
        lane: String,
        /// What there is.
        known: Vec<String>,
    },
    /// So many runs of the lane wait that no more may.
    #[error("{max_queued} runs wait for lane `{lane}` already, and no more may; ask again later")]
    LaneFull {
        /// The lane.
        lane: String,
        /// How many may wait.
        max_queued: usize,
    },
    /// The session has a run of the agent that has not ended, and the agent refuses a second.
    #[error("run `{run_id}` of this session has not ended, and agent `{agent_id}` takes no other before it has")]
    SessionBusy {
        /// The agent.
        agent_id: String,
        /// The run that is executed, or waits for its turn.
        run_id: String,
    },
    /// The ids name a run that was asked something else.
    #[error(
        "run `{exchange_id}` of thread `{session_id}` exists, and was asked something else; the same ids re-attach only \
         with the same input"
    )]
    OtherInput {
        /// The session.
        session_id: String,
        /// The exchange.
        exchange_id: String,
    },
    /// The request's key was used before, for something else.
    #[error(
        "the idempotency key `{key}` was used before, for a request that asked something else; choose another key for \
         another request"
    )]
    KeyTaken {
        /// The key.
        key: String,
        /// The run that the request before was answered with.
        run_id: String,
    },
    /// The session belongs to somebody else.
    #[error("thread `{session_id}` is not yours")]
    SessionNotYours {
        /// The session.
        session_id: String,
    },
    /// `resume` does not answer every interrupt of the suspended run.
    #[error("the suspended run `{run_id}` of this thread waits for {}, which `resume` does not answer", list(.missing))]
    ResumeIncomplete {
        /// The run that waits.
        run_id: String,
        /// The interrupts that are not answered.
        missing: Vec<String>,
    },
    /// `resume` answers an interrupt that has expired.
    #[error(
        "interrupt `{interrupt}` of the suspended run `{run_id}` expired at {expires_at} and can no longer be answered; \
         give it up with status `cancelled`"
    )]
    AnswerTooLate {
        /// The run that waits.
        run_id: String,
        /// The interrupt.
        interrupt: String,
        /// When it expired, as the agent wrote it.
        expires_at: String,
    },
    /// `resume` answers an interrupt with something that its `responseSchema` does not allow.
    #[error(
        "the answer to interrupt `{interrupt}` of the suspended run `{run_id}` breaks its schema at {}: {expected}",
        if path.is_empty() { "its root" } else { path }
    )]
    AnswerBreaksSchema {
        /// The run that waits.
        run_id: String,
        /// The interrupt.
        interrupt: String,
        /// Where in the answer, as a JSON Pointer; empty for the answer itself.
        path: String,
        /// What the schema wants there.
        expected: String,
    },
    /// `resume` has two entries for one interrupt, and only one can be its answer.
    #[error("`resume` has more than one entry for the interrupt `{interrupt_id}`")]
    ResumeRepeated {
        /// The interrupt.
        interrupt_id: String,
    },
    /// `resume` answers interrupts that wait no longer: they were answered before, or their run was stopped.
    #[error(
        "`resume` answers {}, for which run `{run_id}` of this thread does not wait any more: it was answered before, or \
         stopped", list(.resolved)
    )]
    AlreadyResolved {
        /// The run that raised them.
        run_id: String,
        /// The interrupts among the entries that it raised.
        resolved: Vec<String>,
    },
    /// A prompt came to a session whose suspended run waits for something else.
    #[error(
        "the suspended run `{run_id}` of this session waits for {}; answer that first, with an `input` that has `resume`, \
         or cancel the run", list(.interrupts)
    )]
    WaitsForAnswer {
        /// The run that waits.
        run_id: String,
        /// The interrupts that are open.
        interrupts: Vec<String>,
    },
    /// The ids name a run that retention removed. It is not run again.
    #[error("{0}")]
    Removed(Box<Tombstone>),
    /// The server is shutting down.
    #[error("the server is shutting down and starts no more runs")]
    ShuttingDown,
    /// The store cannot take the run.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The store cannot take the exchange.
    #[error(transparent)]
    Exchange(#[from] AddExchangeError),
    /// The store cannot give the run an owner.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store cannot be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The suspended run's log cannot be continued.
    #[error("the log of the suspended run cannot be continued: {0}")]
    Log(String),
}

/// The names in a sentence.
pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "),
    }
}

/// The names of the agents that there are.
pub(crate) fn known_agents<V>(agents: &BTreeMap<String, V>) -> Vec<String> {
    agents.keys().cloned().collect()
}
