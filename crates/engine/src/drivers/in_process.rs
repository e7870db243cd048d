//! An agent that is a part of this program.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use runwire_agui::AgentCapabilities;
use runwire_bridge::{ExchangeEnd, Failure};

use crate::driver::{Agent, AgentPolicy, Driver, Exchange, Starting};
use crate::writer::RunWriter;

/// An agent that is written in Rust and runs in this process. One value serves all runs of the agent at once.
///
/// An async function of the two is one too, and so is a closure, `|exchange, run| async move { … }`. What it returns may be
/// `()`, a [`Completion`](runwire_bridge::Completion), a [`Suspension`](runwire_bridge::Suspension) or an [`ExchangeEnd`].
///
/// What it writes cannot be an illegal run: content goes through the handles of open segments, and what it leaves open is
/// closed. When the run is stopped, the future is dropped at its next await. One that has to tidy up first is written as a
/// [`Driver`], which is told of the stop. A panic fails this run only.
pub trait InProcess: Send + Sync + 'static {
    /// Answers the exchange through `run`, and says how it ended. The run has begun.
    ///
    /// # Errors
    /// What the run fails with. A [`WriteError`](crate::WriteError) of `run` becomes one by `?`.
    fn answer(
        self: Arc<Self>,
        exchange: Exchange,
        run: RunWriter,
    ) -> impl Future<Output = Result<ExchangeEnd, Failure>> + Send + 'static;

    /// What the agent declares about itself. By default nothing, which says nothing.
    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities::default()
    }
}

impl<F, W, E> InProcess for F
where
    F: Fn(Exchange, RunWriter) -> W + Send + Sync + 'static,
    W: Future<Output = Result<E, Failure>> + Send + 'static,
    E: Into<ExchangeEnd> + 'static,
{
    async fn answer(self: Arc<Self>, exchange: Exchange, run: RunWriter) -> Result<ExchangeEnd, Failure> {
        let answering = self(exchange, run);
        Ok(answering.await?.into())
    }
}

/// Executes an [`InProcess`] agent.
pub struct InProcessDriver<A> {
    agent: Arc<A>,
}

impl<A: InProcess> InProcessDriver<A> {
    /// A driver for this agent.
    pub fn new(agent: A) -> InProcessDriver<A> {
        InProcessDriver { agent: Arc::new(agent) }
    }
}

impl<A: InProcess> Driver for InProcessDriver<A> {
    fn kind(&self) -> &'static str {
        "in-process"
    }

    fn capabilities(&self) -> AgentCapabilities {
        self.agent.capabilities()
    }

    fn execute(&self, exchange: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let agent = self.agent.clone();
        Box::pin(async move {
            let stop = exchange.stop.clone();
            let run = starting.begin(None);
            tokio::select! {
                () = stop.cancelled() => Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }),
                end = agent.answer(exchange, run) => end,
            }
        })
    }
}

impl Agent {
    /// An agent of this program's own. Without a digest of its configuration, which it has not.
    pub fn in_process(id: impl Into<String>, agent: impl InProcess) -> Agent {
        Agent {
            id: id.into(),
            revision: None,
            description: None,
            driver: Arc::new(InProcessDriver::new(agent)),
            policy: AgentPolicy::default(),
        }
    }
}
