//! A tool that is another agent: a call starts a run of it, and the text of its last message is the result.

use std::time::Duration;

use futures_util::future::BoxFuture;
use runwire_bridge::ToolOutput;
use runwire_engine::{Child, ChildEnd, ChildRun};
use runwire_frame::ErrorCode;
use serde_json::{Value, json};

use crate::approval::Approval;
use crate::call::ToolSpec;
use crate::tool::{OwnTool, ToolReturn, ToolUse, Within};

/// Which agent it is, and how it is called.
#[derive(Clone, Debug)]
pub struct AgentToolOptions {
    /// What the model calls it by.
    pub name: String,
    /// What a model is told of it.
    pub description: String,
    /// The agent.
    pub agent_id: String,
    /// The lane of its runs; the agent's own when not given.
    pub lane: Option<String>,
    /// How long a call may take, with the time in which the agent waits for its turn or for an answer. Then its run is stopped.
    /// Default: for ever.
    pub timeout: Option<Duration>,
    /// The most bytes that a result may have, at most [`MAX_CHILD_TEXT`](runwire_engine::MAX_CHILD_TEXT). Default 256 KiB.
    pub max_result_bytes: usize,
    /// Which of its calls have to be allowed. Default none.
    pub approval: Approval,
    /// Whether its failure is the run's. Default no.
    pub required: bool,
}

impl AgentToolOptions {
    /// The agent of that id by this name, with the defaults.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        agent_id: impl Into<String>,
    ) -> AgentToolOptions {
        AgentToolOptions {
            name: name.into(),
            description: description.into(),
            agent_id: agent_id.into(),
            lane: None,
            timeout: None,
            max_result_bytes: 256 * 1024,
            approval: Approval::Never,
            required: false,
        }
    }
}

/// Another agent as a tool. Its run has no key: a call that is made again, by the next attempt, is another run.
pub struct AgentTool {
    spec: ToolSpec,
    options: AgentToolOptions,
}

impl AgentTool {
    /// A tool that is called so.
    pub fn new(options: AgentToolOptions) -> AgentTool {
        let parameters = json!({
            "type": "object",
            "properties": {
                "prompt": {
                    "type": "string",
                    "description": "What the agent is asked. It knows nothing of this conversation.",
                },
            },
            "required": ["prompt"],
        });
        let spec = ToolSpec { name: options.name.clone(), description: options.description.clone(), parameters };
        AgentTool { spec, options }
    }
}

impl OwnTool for AgentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn approval(&self) -> &Approval {
        &self.options.approval
    }

    fn required(&self) -> bool {
        self.options.required
    }

    fn execute(&self, call: ToolUse) -> BoxFuture<'static, ToolReturn> {
        let options = self.options.clone();
        Box::pin(async move {
            let Some(Within { run, segment }) = call.within else {
                return ToolReturn::failed("an agent is started by a run, and this call is in none");
            };
            let prompt = call.arguments.value().get("prompt").and_then(Value::as_str).unwrap_or_default();
            if prompt.trim().is_empty() {
                return ToolReturn::failed("the argument `prompt` is missing: what the agent is asked, as text");
            }
            let child = ChildRun { lane: options.lane, ..ChildRun::prompt(options.agent_id, prompt) };
            let mut child = match run.child(child.inside(&segment)).await {
                Ok(child) => child,
                Err(error) => return ToolReturn::failed(format!("the agent could not be started: {error}")),
            };
            let Some(timeout) = options.timeout else {
                return came_to(end(&mut child).await, options.max_result_bytes);
            };
            if let Ok(ended) = tokio::time::timeout(timeout, end(&mut child)).await {
                return came_to(ended, options.max_result_bytes);
            }
            let problem = match child.cancel().await {
                // Its segment ends inside of the call's.
                Ok(()) => end(&mut child).await.err(),
                Err(error) => Some(error.to_string()),
            };
            let what = format!("the agent did not answer within {} ms, and was stopped", timeout.as_millis());
            let what = problem.map_or(what.clone(), |problem| format!("{what}: {problem}"));
            ToolReturn { timed_out: true, ..ToolReturn::failed(what) }
        })
    }
}

/// Waits for the child's end. One that asks something is answered by its own run, as the notice in this run's log says.
async fn end(child: &mut Child) -> Result<ChildEnd, String> {
    loop {
        let end = child.ended().await.map_err(|error| error.to_string())?;
        if end.is_final() {
            return Ok(end);
        }
    }
}

fn came_to(end: Result<ChildEnd, String>, max: usize) -> ToolReturn {
    match end {
        Ok(ChildEnd::Completed { text, whole, result }) => match result {
            Some(result) if text.is_empty() => within(result.to_string(), true, max),
            _ => within(text, whole, max),
        },
        Ok(ChildEnd::Failed { code, message, .. }) => ToolReturn {
            timed_out: code == ErrorCode::Timeout,
            ..ToolReturn::failed(format!("the agent failed with {code}: {message}"))
        },
        Ok(ChildEnd::Cancelled { reason: Some(reason) }) => {
            ToolReturn::failed(format!("the agent was stopped: {reason}"))
        }
        Ok(ChildEnd::Cancelled { reason: None }) => ToolReturn::failed("the agent was stopped"),
        Ok(ChildEnd::Suspended(_)) => unreachable!("what waits for an answer is waited for"),
        Err(problem) => ToolReturn::failed(problem),
    }
}

/// A part of a result could be taken for the whole.
fn within(text: String, whole: bool, max: usize) -> ToolReturn {
    if whole && text.len() <= max {
        return ToolReturn::worked(ToolOutput::Text(text));
    }
    ToolReturn::failed(format!("the agent's answer has more than {max} bytes; ask for less of it"))
}
