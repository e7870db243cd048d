//! Agents that are a model API and tools: `driver = "openai"`, `"anthropic"` and `"gemini"`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use runwire_engine::{DEFAULT_LANE, Driver, MAX_CHILD_TEXT};
use runwire_model::{
    AgentOptions, AgentTool, AgentToolOptions, Anthropic, Approval, EndpointOptions, Gemini, HttpTool, HttpToolOptions,
    ModelDriver, OpenAi, OwnTool, ToolSource, ToolSpec,
};
#[cfg(feature = "mcp")]
use runwire_model::{McpOptions, McpServer, McpTransport};
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::AgentTable;
use super::from_environment;
use super::keys::hint;
use super::payloads::Secrets;
use crate::policy::LaneTable;
use crate::{duration, size};

/// The keys of such an agent.
pub const KEYS: &[&str] = &[
    "model",
    "fallback_models",
    "base_url",
    "api_key_env",
    "headers",
    "system",
    "max_output_tokens",
    "temperature",
    "request",
    "connect_timeout",
    "call_timeout",
    "idle_timeout",
    "max_model_calls",
    "context_tokens",
    "send_state",
    "tools",
    "mcp",
    "agents",
];

/// The keys of `[agents.NAME.tools.TOOL]`.
pub const TOOL_KEYS: &[&str] = &[
    "url",
    "description",
    "parameters",
    "parameters_file",
    "headers",
    "timeout",
    "max_result_bytes",
    "approval",
    "required",
];

/// The keys of `[agents.NAME.mcp.SERVER]`.
pub const MCP_KEYS: &[&str] =
    &["command", "env", "url", "headers", "tools", "approval", "approvals", "timeout", "max_result_bytes", "required"];

/// The keys of `[agents.NAME.agents.TOOL]`.
pub const AGENT_TOOL_KEYS: &[&str] =
    &["agent", "description", "lane", "timeout", "max_result_bytes", "approval", "required"];

/// `[agents.NAME.agents.TOOL]`.
#[derive(Clone, Debug, Deserialize)]
pub struct AgentToolTable {
    agent: Option<String>,
    description: Option<String>,
    lane: Option<String>,
    #[serde(default, deserialize_with = "duration::optional")]
    timeout: Option<Duration>,
    #[serde(default, deserialize_with = "size::optional")]
    max_result_bytes: Option<u64>,
    approval: Option<toml::Value>,
    #[serde(default)]
    required: bool,
}

/// `[agents.NAME.mcp.SERVER]`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "such a table is refused"))]
pub struct McpTable {
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    tools: Option<Vec<String>>,
    approval: Option<toml::Value>,
    #[serde(default)]
    approvals: BTreeMap<String, toml::Value>,
    #[serde(default, deserialize_with = "duration::optional")]
    timeout: Option<Duration>,
    #[serde(default, deserialize_with = "size::optional")]
    max_result_bytes: Option<u64>,
    #[serde(default)]
    required: bool,
}

/// `[agents.NAME.tools.TOOL]`.
#[derive(Clone, Debug, Deserialize)]
pub struct ToolTable {
    url: Option<String>,
    description: Option<String>,
    parameters: Option<toml::Table>,
    parameters_file: Option<PathBuf>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "duration::optional")]
    timeout: Option<Duration>,
    #[serde(default, deserialize_with = "size::optional")]
    max_result_bytes: Option<u64>,
    approval: Option<toml::Value>,
    #[serde(default)]
    required: bool,
}

impl ToolTable {
    /// Adds the values of the variables that it names.
    pub fn add_secrets(&self, secrets: &mut Secrets) {
        self.headers.values().for_each(|value| secrets.of_text(value));
    }
}

impl McpTable {
    /// Adds the values of the variables that it names.
    pub fn add_secrets(&self, secrets: &mut Secrets) {
        self.headers.values().for_each(|value| secrets.of_text(value));
        self.env.iter().for_each(|name| secrets.of_variable(name));
    }
}

/// The driver of such an agent, and what was read of other files for it.
pub fn build(table: &AgentTable) -> anyhow::Result<(Arc<dyn Driver>, String)> {
    let Some(model) = &table.model else { bail!("`model` is missing: which model is asked, by its provider's name") };
    let mut endpoint = EndpointOptions {
        base_url: table.base_url.clone(),
        headers: headers(&table.headers)?,
        ..EndpointOptions::default()
    };
    endpoint.connect_timeout = table.connect_timeout.unwrap_or(endpoint.connect_timeout);
    if let Some(name) = &table.api_key_env {
        let key =
            std::env::var(name).with_context(|| format!("api_key_env: the environment variable {name} is wanted"))?;
        endpoint.api_key = Some(key);
        endpoint.api_key_env = Some(name.clone());
    }
    let mut options = AgentOptions::new(model);
    options.fallback_models.clone_from(&table.fallback_models);
    options.system.clone_from(&table.system);
    options.max_output_tokens = table.max_output_tokens;
    options.temperature = table.temperature;
    if let Value::Object(request) = serde_json::to_value(&table.request)? {
        options.request = request;
    }
    options.call_timeout = table.call_timeout.unwrap_or(options.call_timeout);
    options.idle_timeout = table.idle_timeout.unwrap_or(options.idle_timeout);
    options.max_model_calls = table.max_model_calls.unwrap_or(options.max_model_calls);
    options.context_tokens = table.context_tokens;
    options.send_state = table.send_state;
    for (key, value) in [
        ("connect_timeout", endpoint.connect_timeout),
        ("call_timeout", options.call_timeout),
        ("idle_timeout", options.idle_timeout),
    ] {
        if value.is_zero() {
            bail!("{key}: with no time at all every run would fail");
        }
    }
    if options.max_model_calls == 0 || options.max_output_tokens == Some(0) {
        bail!("max_model_calls and max_output_tokens: with none at all the agent could not answer");
    }
    let mut files = String::new();
    for (name, tool) in &table.tools {
        let tool = http_tool(name, tool, &mut files).with_context(|| format!("tools.{name}"))?;
        options.tools.push(Arc::new(tool) as Arc<dyn OwnTool>);
    }
    for (name, tool) in &table.agents {
        let taken = table.tools.contains_key(name);
        let tool = agent_tool(name, taken, tool).with_context(|| format!("agents.{name}"))?;
        options.tools.push(Arc::new(tool) as Arc<dyn OwnTool>);
    }
    for (name, server) in &table.mcp {
        options.sources.push(mcp_server(name, server).with_context(|| format!("mcp.{name}"))?);
    }
    let driver = match table.driver.as_str() {
        "anthropic" => ModelDriver::new("anthropic", Anthropic::new(endpoint)?, options),
        "gemini" => ModelDriver::new("gemini", Gemini::new(endpoint)?, options),
        _ => ModelDriver::new("openai", OpenAi::new(endpoint)?, options),
    };
    Ok((Arc::new(driver), files))
}

fn check_name(name: &str) -> anyhow::Result<()> {
    if name.is_empty() || name.len() > 64 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) {
        bail!(
            "the name of a tool is made of at most 64 letters, digits, `-` and `_`, because model APIs take no other"
        );
    }
    Ok(())
}

fn agent_tool(name: &str, taken: bool, table: &AgentToolTable) -> anyhow::Result<AgentTool> {
    check_name(name)?;
    if taken {
        bail!("there is a tool of that name in `tools` already, and a model calls both by their names");
    }
    let Some(agent) = &table.agent else { bail!("`agent` is missing: which agent a call starts a run of") };
    let Some(description) = &table.description else { bail!("`description` is missing: a model chooses tools by it") };
    let mut options = AgentToolOptions::new(name, description, agent);
    options.lane.clone_from(&table.lane);
    options.timeout = table.timeout;
    if options.timeout.is_some_and(|timeout| timeout.is_zero()) {
        bail!("timeout: with no time at all every call would fail");
    }
    if let Some(bytes) = table.max_result_bytes {
        options.max_result_bytes = usize::try_from(bytes).context("max_result_bytes")?;
        if options.max_result_bytes > MAX_CHILD_TEXT {
            bail!("max_result_bytes: of an agent's answer at most {MAX_CHILD_TEXT} bytes are kept");
        }
    }
    options.approval = table.approval.as_ref().map(approval).transpose()?.unwrap_or_default();
    options.required = table.required;
    Ok(AgentTool::new(options))
}

/// Every agent and lane that these tables name has to be there.
pub fn check_agents(
    id: &str,
    table: &AgentTable,
    known: &BTreeMap<String, AgentTable>,
    lanes: &BTreeMap<String, LaneTable>,
) -> anyhow::Result<()> {
    for (name, tool) in &table.agents {
        let place = format!("agents.{id}.agents.{name}");
        if let Some(agent) = &tool.agent
            && !known.contains_key(agent)
        {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            bail!("{place}.agent: there is no agent `{agent}`{}; there is {}", hint(agent, &names), names.join(", "));
        }
        if let Some(lane) = &tool.lane
            && lane != DEFAULT_LANE
            && !lanes.contains_key(lane)
        {
            let names: Vec<&str> = lanes.keys().map(String::as_str).chain([DEFAULT_LANE]).collect();
            bail!("{place}.lane: there is no `[lanes.{lane}]`; there is {}", names.join(", "));
        }
    }
    Ok(())
}

fn http_tool(name: &str, table: &ToolTable, files: &mut String) -> anyhow::Result<HttpTool> {
    check_name(name)?;
    let Some(url) = &table.url else { bail!("`url` is missing: where calls are sent to") };
    let Some(description) = &table.description else { bail!("`description` is missing: a model chooses tools by it") };
    let parameters = match (&table.parameters, &table.parameters_file) {
        (Some(_), Some(_)) => bail!("one of `parameters` and `parameters_file` is wanted, not both"),
        (Some(schema), None) => serde_json::to_value(schema)?,
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("parameters_file: {} cannot be read", path.display()))?;
            files.push_str(&text);
            serde_json::from_str(&text).with_context(|| format!("parameters_file: {} is no JSON", path.display()))?
        }
        (None, None) => json!({ "type": "object", "properties": {} }),
    };
    if !parameters.is_object() {
        bail!("the parameters of a tool are a JSON Schema, which is an object");
    }
    let spec = ToolSpec { name: name.to_owned(), description: description.clone(), parameters };
    let mut options = HttpToolOptions::new(spec, url);
    options.headers = headers(&table.headers)?;
    options.timeout = table.timeout.unwrap_or(options.timeout);
    if options.timeout.is_zero() {
        bail!("timeout: with no time at all every call would fail");
    }
    if let Some(bytes) = table.max_result_bytes {
        options.max_result_bytes = usize::try_from(bytes).context("max_result_bytes")?;
    }
    options.approval = table.approval.as_ref().map(approval).transpose()?.unwrap_or_default();
    options.required = table.required;
    Ok(HttpTool::new(options)?)
}

#[cfg(feature = "mcp")]
fn mcp_server(name: &str, table: &McpTable) -> anyhow::Result<Arc<dyn ToolSource>> {
    let transport = match (&table.url, table.command.is_empty()) {
        (Some(url), true) if table.env.is_empty() => {
            McpTransport::Http { url: url.clone(), headers: headers(&table.headers)? }
        }
        (None, false) if table.headers.is_empty() => {
            let variable = |name: &String| {
                let value =
                    std::env::var(name).with_context(|| format!("env: the environment variable {name} is wanted"))?;
                anyhow::Ok((name.clone(), value))
            };
            let env = table.env.iter().map(variable).collect::<anyhow::Result<_>>()?;
            McpTransport::Command { command: table.command.clone(), env }
        }
        _ => bail!("one of `command` and `url` is wanted; `env` goes with the first, `headers` with the second"),
    };
    let mut options = McpOptions::new(name, transport);
    options.tools.clone_from(&table.tools);
    options.approval = table.approval.as_ref().map(approval).transpose()?.unwrap_or_default();
    for (tool, value) in &table.approvals {
        let approval = approval(value).with_context(|| format!("approvals.{tool}"))?;
        options.approvals.insert(tool.clone(), approval);
    }
    options.timeout = table.timeout.unwrap_or(options.timeout);
    if options.timeout.is_zero() {
        bail!("timeout: with no time at all every call would fail");
    }
    if let Some(bytes) = table.max_result_bytes {
        options.max_result_bytes = usize::try_from(bytes).context("max_result_bytes")?;
    }
    options.required = table.required;
    Ok(Arc::new(McpServer::new(options)?))
}

#[cfg(not(feature = "mcp"))]
fn mcp_server(_: &str, _: &McpTable) -> anyhow::Result<Arc<dyn ToolSource>> {
    bail!("this binary was built without the feature `mcp`; build it with the default features")
}

fn approval(value: &toml::Value) -> anyhow::Result<Approval> {
    let wanted = "it is \"always\", \"never\" or { arguments = \"PATTERN\" }";
    match value {
        toml::Value::String(word) => match word.as_str() {
            "always" => Ok(Approval::Always),
            "never" => Ok(Approval::Never),
            other => bail!("approval: `{other}`; {wanted}"),
        },
        toml::Value::Table(table) => match (table.get("arguments"), table.len()) {
            (Some(toml::Value::String(pattern)), 1) => {
                let pattern = regex::Regex::new(pattern).context("approval.arguments is no regular expression")?;
                Ok(Approval::Arguments(pattern))
            }
            _ => bail!("approval: {wanted}"),
        },
        _ => bail!("approval: {wanted}"),
    }
}

fn headers(table: &BTreeMap<String, String>) -> anyhow::Result<Vec<(String, String)>> {
    let header = |(name, value): (&String, &String)| {
        Ok((name.clone(), from_environment(value).with_context(|| format!("headers.{name}"))?))
    };
    table.iter().map(header).collect()
}
