//! What executes an agent.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use runwire_agui::{AgentCapabilities, Interrupt, RunAgentInput, RunStarted};
use runwire_bridge::{ExchangeEnd, Failure};
use tokio_util::sync::CancellationToken;

use crate::retry::RetryPolicy;
use crate::turns::Concurrency;
use crate::writer::{RunCore, RunWriter};

/// Executes the exchanges of an agent's runs. One driver serves all runs of its agent at once.
pub trait Driver: Send + Sync + 'static {
    /// The word that names this kind of driver in the configuration.
    fn kind(&self) -> &'static str;

    /// What the agent declares about itself. By default nothing, which says nothing.
    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities::default()
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
    /// The input: ids, messages, tools, state.
    pub input: Arc<RunAgentInput>,
    /// Whether this exchange continues a suspended run.
    pub resumed: bool,
    /// Which attempt at the run this is, from 1. From 2 on the exchange has been executed before, with the same input, and
    /// that attempt failed; what it wrote is in the log, abandoned.
    pub attempt: u32,
    /// What the suspended run waited for. The input answers each of them; it may hold answers that nobody asked for.
    pub interrupts: Vec<Interrupt>,
    /// Cancelled when the run is asked to stop.
    pub stop: CancellationToken,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentPolicy {
    /// Which failures are tried again. Default: none.
    pub retry: RetryPolicy,
    /// The lane of runs whose request names none. Default: `default`.
    pub lane: Option<String>,
    /// What a run does whose session has one of this agent already. Default: it waits.
    pub concurrency: Concurrency,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("id", &self.id).field("driver", &self.driver.kind()).finish_non_exhaustive()
    }
}
