//! What executes an agent.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use runwire_agui::{AgentCapabilities, Interrupt, Message, ResumeStatus, RunAgentInput, RunStarted};
use runwire_bridge::{ExchangeEnd, Failure, ToolOutput, WaitingCall};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::asking::WaitRule;
use crate::drivers::Executors;
use crate::guardrails::Guardrail;
use crate::limits::Limits;
use crate::payloads::PayloadPolicy;
use crate::prompted::PromptHistory;
use crate::retry::RetryPolicy;
use crate::run_core::RunCore;
use crate::turns::Concurrency;
use crate::writer::RunWriter;

/// Executes the exchanges of an agent's runs. One driver serves all runs of its agent at once.
pub trait Driver: Send + Sync + 'static {
    /// The word that names this kind of driver in the configuration.
    fn kind(&self) -> &'static str;

    /// What the agent declares about itself. By default nothing, which says nothing.
    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities::default()
    }

    /// Whether answers are judged elsewhere, by an agent that asks in its own words. Then a schema that this server cannot
    /// use lets every answer through, with a warning in the log; for any other driver it fails the run that asks so.
    fn judges_answers(&self) -> bool {
        false
    }

    /// Where executors elsewhere find this agent's runs. `None` for an agent that this server executes.
    fn executors(&self) -> Option<&Executors> {
        None
    }

    /// Executes one exchange: writes what happens, and says how it ended.
    ///
    /// The run begins when the driver calls [`Starting::begin`]; a driver that ends before it did so has it begun by
    /// the engine. When `exchange.stop` is cancelled the driver should return [`ExchangeEnd::Cancelled`] soon; after the
    /// grace period the future is dropped at its next await. A panic fails this run only.
    fn execute(&self, exchange: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>>;
}

/// What a driver is asked to do.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The run.
    pub run_id: String,
    /// The input: ids, messages, tools, state. What the agent has said before is in it by the agent's own ids, also where the
    /// client was told others.
    pub input: Arc<RunAgentInput>,
    /// Whether this exchange continues a suspended run.
    pub resumed: bool,
    /// Which attempt at the run this is, from 1. From 2 on the exchange has been executed before, with the same input, and
    /// that attempt failed; what it wrote is in the log, abandoned.
    pub attempt: u32,
    /// What the suspended run waited for. The input answers each of them; it may hold answers that nobody asked for.
    pub interrupts: Vec<Interrupt>,
    /// The tool calls that were open and without a result when the run was suspended, as its log has them.
    pub calls: Vec<WaitingCall>,
    /// What earlier attempts at this exchange recorded as the results of these calls. What has worked need not be done again.
    pub results: Vec<RecordedResult>,
    /// Cancelled when the run is asked to stop.
    pub stop: CancellationToken,
}

impl Exchange {
    /// The text of what the user said last; empty when there is none.
    pub fn prompt(&self) -> String {
        let last = self.input.messages.iter().rev().find_map(|message| match message {
            Message::User(user) => Some(user.content.text()),
            _ => None,
        });
        last.unwrap_or_default()
    }

    /// What the run had asked, in that order, and what was answered. Empty for a run that begins.
    ///
    /// Each answer fits the schema that its question came with.
    pub fn answers(&self) -> Vec<Answer> {
        let answer = |interrupt: &Interrupt| {
            let entry = self.input.resume().iter().find(|entry| entry.interrupt_id == interrupt.id)?;
            let call = interrupt.tool_call_id.as_ref();
            Some(Answer {
                interrupt: interrupt.clone(),
                value: match entry.status {
                    ResumeStatus::Resolved => Some(entry.payload.clone().unwrap_or(Value::Null)),
                    ResumeStatus::Cancelled => None,
                },
                call: call.and_then(|id| self.calls.iter().find(|call| call.tool_call_id == *id)).cloned(),
            })
        };
        self.interrupts.iter().filter_map(answer).collect()
    }
}

/// A result of a tool call that is in the log, although the attempt that wrote it was given up.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedResult {
    /// The call.
    pub tool_call_id: String,
    /// Whether it worked.
    pub ok: bool,
    /// What it returned, as it was kept.
    pub output: ToolOutput,
}

/// What was answered to one interrupt.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the run had asked.
    pub interrupt: Interrupt,
    /// The answer; `None` when the interrupt was given up. A null for an answer that says nothing.
    pub value: Option<Value>,
    /// The tool call that it is about, as the server recorded it: a client's history can say something else.
    /// [`RunWriter::waiting_tool`] goes on with it. `None` when it is about none, or about one that is not open.
    pub call: Option<WaitingCall>,
}

impl Answer {
    /// Whether it says yes: `{"approved": true}`, or just `true`. Anything else is no, and so is giving up.
    pub fn approved(&self) -> bool {
        let approved = |value: &Value| match value {
            Value::Object(members) => members.get("approved").and_then(Value::as_bool),
            value => value.as_bool(),
        };
        self.value.as_ref().and_then(approved).unwrap_or(false)
    }
}

/// A run that has not begun, or a suspended one that has not gone on.
pub struct Starting {
    pub(crate) core: Arc<RunCore>,
}

impl Starting {
    /// Begins the run: writes `run.start` (or `resume`), from where on readers see it.
    ///
    /// `started` is an upstream agent's own `RUN_STARTED`, when there is one: what it says is kept.
    pub fn begin(self, started: Option<&RunStarted>) -> RunWriter {
        self.core.begin(started);
        if self.core.has_children()
            && let Some(engine) = self.core.engine()
        {
            engine.watch_open_children(&self.core);
        }
        RunWriter::new(self.core)
    }
}

/// An agent that runs can be created of.
#[derive(Clone)]
pub struct Agent {
    /// What clients call it. One path segment.
    pub id: String,
    /// A digest of its configuration.
    pub revision: Option<String>,
    /// For a person who chooses between agents.
    pub description: Option<String>,
    /// What executes it.
    pub driver: Arc<dyn Driver>,
    /// How the engine treats its runs.
    pub policy: AgentPolicy,
}

/// How the engine treats an agent's runs.
#[derive(Clone, Debug, Default)]
pub struct AgentPolicy {
    /// Which failures are tried again. Default: none.
    pub retry: RetryPolicy,
    /// What each of its runs may use. Default: no limits.
    pub limits: Limits,
    /// How its runs wait for answers. Default: for ever, unless they say until when; then they go on without an answer.
    pub waiting: WaitRule,
    /// What looks at what goes through its runs, in this order. Default: nothing.
    pub guardrails: Vec<Guardrail>,
    /// What is kept of its runs beside their logs, and what is taken out of both.
    pub payloads: PayloadPolicy,
    /// The lane of runs whose request names none. Default: `default`.
    pub lane: Option<String>,
    /// What a run does whose session has one of this agent already. Default: it waits.
    pub concurrency: Concurrency,
    /// What a run is given that is created with a prompt. Default: what its session said before, up to
    /// [`MAX_HISTORY_BYTES`](crate::MAX_HISTORY_BYTES).
    pub prompt_history: PromptHistory,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("id", &self.id).field("driver", &self.driver.kind()).finish_non_exhaustive()
    }
}
