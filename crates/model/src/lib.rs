//! Agents that are made of a model API and tools, as drivers of the engine.
//!
//! [`ModelDriver`] asks a [`Model`] — [`OpenAi`] and compatible servers, [`Anthropic`], [`Gemini`] — writes what it answers into
//! the run's log as it comes, executes the tools that it calls, and goes on until it has answered. Calls of the application's
//! tools end the exchange; calls that a person has to allow suspend it.

mod agent_tool;
mod answer;
mod approval;
mod call;
mod compaction;
mod driver;
mod endpoint;
mod execution;
mod history;
mod http_tool;
mod kept_call;
#[cfg(feature = "mcp")]
mod mcp;
mod provider;
mod refusal;
mod resumed;
mod tool;
mod work;

pub use agent_tool::{AgentTool, AgentToolOptions};
pub use approval::Approval;
pub use call::{
    CallError, CallResult, MadeCall, Media, MediaKind, Model, ModelEvent, ModelRequest, ModelStream, Part, ToolSpec,
    Turn,
};
pub use driver::{AgentOptions, ModelDriver};
pub use endpoint::EndpointOptions;
pub use http_tool::{HttpTool, HttpToolOptions};
#[cfg(feature = "mcp")]
pub use mcp::{McpOptions, McpServer, McpTransport};
pub use provider::{Anthropic, Gemini, OpenAi};
pub use tool::{Arguments, Listed, OwnTool, ToolReturn, ToolSource, ToolUse, Within};
