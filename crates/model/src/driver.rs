//! The driver: an agent that is a model, its instructions and its tools.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use runwire_agui::{AgentCapabilities, ExecutionCapabilities, HumanInTheLoopCapabilities, Tool, ToolsCapabilities};
use runwire_bridge::{ExchangeEnd, Failure};
use runwire_engine::{Driver, Exchange, Starting};
use serde_json::{Map, Value};

use crate::approval::Approval;
use crate::call::Model;
use crate::tool::{OwnTool, ToolSource};
use crate::work::work;

/// What an agent is made of, beside its model API.
#[derive(Clone)]
pub struct AgentOptions {
    /// The model that is asked, by its provider's name.
    pub model: String,
    /// Those that are asked, in this order, when it cannot be.
    pub fallback_models: Vec<String>,
    /// The agent's instructions.
    pub system: Option<String>,
    /// The most tokens of one answer. Default: the provider's.
    pub max_output_tokens: Option<u64>,
    /// How freely it chooses its words. Default: the provider's.
    pub temperature: Option<f64>,
    /// Members of the provider's own request, put over those that are written by themselves; `null` takes one away.
    pub request: Map<String, Value>,
    /// How long one model call may take. Default 10 min.
    pub call_timeout: Duration,
    /// How long a model may be silent. Default 2 min.
    pub idle_timeout: Duration,
    /// The most model calls of one exchange. Default 20.
    pub max_model_calls: u32,
    /// How many tokens of conversation the model is given; older turns are left out beyond that. Tokens are estimated, by the
    /// bytes of the text. Default: all of it.
    pub context_tokens: Option<usize>,
    /// Whether the model is told the application's state. Default no.
    pub send_state: bool,
    /// The agent's tools.
    pub tools: Vec<Arc<dyn OwnTool>>,
    /// Where further tools come from.
    pub sources: Vec<Arc<dyn ToolSource>>,
}

impl AgentOptions {
    /// An agent of this model, with the defaults.
    pub fn new(model: impl Into<String>) -> AgentOptions {
        AgentOptions {
            model: model.into(),
            fallback_models: Vec::new(),
            system: None,
            max_output_tokens: None,
            temperature: None,
            request: Map::new(),
            call_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(120),
            max_model_calls: 20,
            context_tokens: None,
            send_state: false,
            tools: Vec::new(),
            sources: Vec::new(),
        }
    }
}

pub(crate) struct Shared {
    pub model: Arc<dyn Model>,
    pub options: AgentOptions,
}

/// Runs an agent that is a model and its tools.
#[derive(Clone)]
pub struct ModelDriver {
    kind: &'static str,
    shared: Arc<Shared>,
}

impl ModelDriver {
    /// The agent of this model API; `kind` is the word that names it in the configuration. Does not connect yet.
    pub fn new(kind: &'static str, model: impl Model, options: AgentOptions) -> ModelDriver {
        ModelDriver { kind, shared: Arc::new(Shared { model: Arc::new(model), options }) }
    }
}

impl Driver for ModelDriver {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn capabilities(&self) -> AgentCapabilities {
        let options = &self.shared.options;
        let items = options.tools.iter().map(|tool| {
            let spec = tool.spec();
            Tool { parameters: Some(spec.parameters.clone()), ..Tool::new(&*spec.name, &*spec.description) }
        });
        let asks = options.tools.iter().any(|tool| !matches!(tool.approval(), Approval::Never));
        // A source's tools are not known before they are asked for, so nothing is said of what they need.
        let known = options.sources.is_empty();
        AgentCapabilities {
            tools: Some(ToolsCapabilities {
                supported: Some(true),
                items: known.then(|| items.collect()),
                parallel_calls: Some(true),
                client_provided: Some(true),
            }),
            execution: Some(ExecutionCapabilities {
                max_iterations: Some(u64::from(options.max_model_calls)),
                ..ExecutionCapabilities::default()
            }),
            human_in_the_loop: (known || asks).then(|| HumanInTheLoopCapabilities {
                supported: Some(asks),
                approvals: Some(asks),
                interrupts: Some(asks),
                approve_with_edits: Some(asks),
                ..HumanInTheLoopCapabilities::default()
            }),
            ..AgentCapabilities::default()
        }
    }

    fn execute(&self, exchange: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let stop = exchange.stop.clone();
            tokio::select! {
                // Dropping the work drops the model's connection and the calls of tools: nothing is paid for any more.
                () = stop.cancelled() => Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }),
                end = work(&shared, exchange, starting) => end,
            }
        })
    }
}
