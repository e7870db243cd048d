//! `[agents.NAME]`: an agent, and what executes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use runwire_agui::AgentCapabilities;
use runwire_engine::drivers::{
    AguiDriver, AguiOptions, Binding, DemoDriver, DemoOptions, ExecDriver, ExecOptions, ExternalDriver,
    ExternalOptions, Output,
};
use runwire_engine::{Agent, AgentPolicy, Driver, MAX_HISTORY_BYTES, OnDeadline, PromptHistory, WaitRule};
use serde::Deserialize;

use super::guardrails::{GuardrailTable, guardrails};
use super::payloads::{PayloadsTable, Secrets};
use super::spending::LimitsTable;
use super::{RetentionTable, from_environment, model_agent, revision};
use crate::policy::{ConcurrencyWord, RetryTable};
use crate::{duration, policy, size};

#[derive(Clone, Debug, Deserialize)]
pub(super) struct AgentTable {
    pub(super) driver: String,
    pub(super) description: Option<String>,
    pub(super) retention: Option<RetentionTable>,
    #[serde(default)]
    pub(super) limits: LimitsTable,
    #[serde(default)]
    pub(super) guardrails: Vec<GuardrailTable>,
    #[serde(default)]
    pub(super) payloads: PayloadsTable,
    pub(super) retry: Option<RetryTable>,
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) answer_within: Option<Duration>,
    on_deadline: Option<DeadlineWord>,
    pub(super) deadline_answer: Option<toml::Value>,
    pub(super) lane: Option<String>,
    pub(super) concurrency: Option<ConcurrencyWord>,
    prompt_history: Option<HistoryWord>,
    #[serde(default, deserialize_with = "size::optional")]
    pub(super) max_history_bytes: Option<u64>,
    // demo
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) pace: Option<Duration>,
    pub(super) repeat: Option<u32>,
    // agui
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) connect_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) idle_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) first_event_timeout: Option<Duration>,
    pub(super) cancel_url: Option<String>,
    pub(super) protocol_version: Option<String>,
    binding: Option<BindingWord>,
    // exec
    #[serde(default)]
    pub(super) command: Vec<String>,
    pub(super) dir: Option<PathBuf>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    output: Option<OutputWord>,
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) kill_grace: Option<Duration>,
    #[serde(default, deserialize_with = "size::optional")]
    pub(super) max_output_bytes: Option<u64>,
    #[serde(default, deserialize_with = "size::optional")]
    pub(super) max_memory: Option<u64>,
    // external
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) lease: Option<Duration>,
    // several
    pub(super) idempotent: Option<bool>,
    #[serde(default)]
    pub(super) capabilities: toml::Table,
    // openai, anthropic, gemini
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) fallback_models: Vec<String>,
    pub(super) base_url: Option<String>,
    pub(super) api_key_env: Option<String>,
    pub(super) system: Option<String>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) temperature: Option<f64>,
    #[serde(default)]
    pub(super) request: toml::Table,
    #[serde(default, deserialize_with = "duration::optional")]
    pub(super) call_timeout: Option<Duration>,
    pub(super) max_model_calls: Option<u32>,
    pub(super) context_tokens: Option<usize>,
    #[serde(default)]
    pub(super) send_state: bool,
    #[serde(default)]
    pub(super) tools: BTreeMap<String, model_agent::ToolTable>,
    #[serde(default)]
    pub(super) mcp: BTreeMap<String, model_agent::McpTable>,
    #[serde(default)]
    pub(super) agents: BTreeMap<String, model_agent::AgentToolTable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DeadlineWord {
    Deny,
    Fail,
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HistoryWord {
    Session,
    None,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OutputWord {
    Auto,
    Agui,
    Text,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BindingWord {
    Sse,
    Protobuf,
}

/// How an agent's runs wait for answers.
fn wait_rule(table: &AgentTable) -> anyhow::Result<WaitRule> {
    if table.answer_within.is_some_and(|within| within.is_zero()) {
        bail!("answer_within: with no time at all nobody could answer");
    }
    let on_deadline = match (table.on_deadline, &table.deadline_answer) {
        (Some(DeadlineWord::Answer), Some(value)) => OnDeadline::Answer(serde_json::to_value(value)?),
        (Some(DeadlineWord::Answer), None) => {
            bail!("`on_deadline` is `answer`, and `deadline_answer` does not say with what")
        }
        (_, Some(_)) => bail!("`deadline_answer` is given, and it is used only where `on_deadline` is `answer`"),
        (Some(DeadlineWord::Fail), None) => OnDeadline::Fail,
        (Some(DeadlineWord::Deny) | None, None) => OnDeadline::Deny,
    };
    Ok(WaitRule { answer_within: table.answer_within, on_deadline })
}

/// No client can send a larger input than this.
const LARGEST_HISTORY: u64 = 16 * 1024 * 1024;

/// What an agent's runs are given beside a prompt.
fn prompt_history(table: &AgentTable) -> anyhow::Result<PromptHistory> {
    let nothing = table.prompt_history == Some(HistoryWord::None);
    let max_bytes = match table.max_history_bytes {
        None => MAX_HISTORY_BYTES,
        Some(_) if nothing => {
            bail!("`max_history_bytes` is given, and it is used only where `prompt_history` is `session`")
        }
        Some(bytes) => match usize::try_from(bytes) {
            Ok(max_bytes) if (1..=LARGEST_HISTORY).contains(&bytes) => max_bytes,
            _ => bail!("max_history_bytes: an input has at least 1B and at most 16MiB"),
        },
    };
    Ok(if nothing { PromptHistory::Nothing } else { PromptHistory::Session { max_bytes } })
}

pub(super) fn agent(id: &str, table: &AgentTable, priced: bool) -> anyhow::Result<Agent> {
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        bail!("the name of an agent is made of letters, digits, `-`, `_` and `.`, because it is part of an address");
    }
    // What the configuration takes from other files is part of it.
    let mut files = String::new();
    let driver: Arc<dyn Driver> = match table.driver.as_str() {
        "demo" => {
            let defaults = DemoOptions::default();
            Arc::new(DemoDriver::new(DemoOptions {
                pace: table.pace.unwrap_or(defaults.pace),
                repeat: table.repeat.unwrap_or(defaults.repeat),
            }))
        }
        "exec" => Arc::new(exec(table)?),
        "external" => Arc::new(external(table)?),
        "openai" | "anthropic" | "gemini" => {
            let (driver, read) = model_agent::build(table)?;
            files = read;
            driver
        }
        _ => {
            let Some(url) = &table.url else { bail!("`url` is missing: the address of the upstream agent") };
            let mut options = AguiOptions::new(url);
            for (name, value) in &table.headers {
                options.headers.push((name.clone(), from_environment(value).context(format!("headers.{name}"))?));
            }
            options.connect_timeout = table.connect_timeout.unwrap_or(options.connect_timeout);
            options.idle_timeout = table.idle_timeout.unwrap_or(options.idle_timeout);
            options.first_event_timeout = table.first_event_timeout;
            options.cancel_url.clone_from(&table.cancel_url);
            options.idempotent = table.idempotent.unwrap_or(options.idempotent);
            for (key, value) in [
                ("connect_timeout", Some(options.connect_timeout)),
                ("first_event_timeout", options.first_event_timeout),
                ("idle_timeout", Some(options.idle_timeout)),
            ] {
                if value.is_some_and(|value| value.is_zero()) {
                    bail!("{key}: with no time at all every run would fail");
                }
            }
            if let Some(version) = &table.protocol_version {
                options.agent_version = version.parse().context("protocol_version")?;
            }
            options.binding = match table.binding {
                None | Some(BindingWord::Sse) => Binding::Sse,
                Some(BindingWord::Protobuf) => Binding::Protobuf,
            };
            options.capabilities = capabilities(&table.capabilities)?;
            Arc::new(AguiDriver::new(options)?)
        }
    };
    // What the environment holds is no part of the configuration, so a new secret is no new revision.
    // Nor is what is kept of its runs and beside them, when they are executed, or what they may use, a part of what it does.
    let of_revision = AgentTable {
        retention: None,
        retry: None,
        lane: None,
        concurrency: None,
        limits: LimitsTable::default(),
        payloads: PayloadsTable::default(),
        ..table.clone()
    };
    let revision = Some(revision(&format!("{of_revision:?}{files}")));
    let policy = AgentPolicy {
        limits: table.limits.limits(priced).context("limits")?,
        guardrails: guardrails(&table.guardrails)?,
        payloads: table.payloads.policy(table.model.is_some(), secrets(table)).context("payloads")?,
        waiting: wait_rule(table)?,
        prompt_history: prompt_history(table)?,
        ..policy::of(table.retry.as_ref(), table.lane.as_deref(), table.concurrency)?
    };
    Ok(Agent { id: id.to_owned(), revision, description: table.description.clone(), driver, policy })
}

/// The values of the variables that the agent's tables name.
fn secrets(table: &AgentTable) -> Secrets {
    let mut secrets = Secrets::default();
    table.headers.values().chain(table.env.values()).for_each(|value| secrets.of_text(value));
    table.guardrails.iter().for_each(|rail| rail.add_secrets(&mut secrets));
    table.api_key_env.iter().for_each(|name| secrets.of_variable(name));
    table.tools.values().for_each(|tool| tool.add_secrets(&mut secrets));
    table.mcp.values().for_each(|server| server.add_secrets(&mut secrets));
    secrets
}

fn external(table: &AgentTable) -> anyhow::Result<ExternalDriver> {
    let defaults = ExternalOptions::default();
    let lease = table.lease.unwrap_or(defaults.lease);
    if lease < Duration::from_secs(1) {
        bail!("lease: below 1s an executor would be given up before it has said anything");
    }
    Ok(ExternalDriver::new(ExternalOptions { lease, capabilities: capabilities(&table.capabilities)? }))
}

fn exec(table: &AgentTable) -> anyhow::Result<ExecDriver> {
    if table.command.is_empty() {
        bail!("`command` is missing: the program and its arguments, such as [\"python3\", \"agent.py\"]");
    }
    let mut options = ExecOptions::new(&table.command);
    options.dir.clone_from(&table.dir);
    for (name, value) in &table.env {
        options.env.push((name.clone(), from_environment(value).context(format!("env.{name}"))?));
    }
    options.output = match table.output {
        None | Some(OutputWord::Auto) => Output::Auto,
        Some(OutputWord::Agui) => Output::Agui,
        Some(OutputWord::Text) => Output::Text,
    };
    options.timeout = table.timeout;
    if table.timeout.is_some_and(|limit| limit.is_zero()) {
        bail!("timeout: with no time at all every run would fail");
    }
    options.kill_grace = table.kill_grace.unwrap_or(options.kill_grace);
    options.max_output_bytes = table.max_output_bytes.unwrap_or(options.max_output_bytes);
    options.max_memory = table.max_memory;
    options.idempotent = table.idempotent.unwrap_or(options.idempotent);
    options.capabilities = capabilities(&table.capabilities)?;
    Ok(ExecDriver::new(options)?)
}

/// What an agent is said to be able to do, in AG-UI's own terms.
fn capabilities(table: &toml::Table) -> anyhow::Result<AgentCapabilities> {
    let (capabilities, unknown) = AgentCapabilities::decode_value(serde_json::to_value(table)?)?;
    if let Some(unknown) = unknown.first().and_then(|warning| warning.path.as_deref()) {
        bail!("capabilities: `{unknown}` is none that AG-UI 1.0 describes; what fits nowhere else goes under `custom`");
    }
    Ok(capabilities)
}
