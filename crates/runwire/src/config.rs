//! The configuration: one TOML file, then `RUNWIRE_…` variables, then flags; the later wins.

mod guardrails;
mod model_agent;
mod spending;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use runwire_agui::AgentCapabilities;
use runwire_engine::drivers::{
    AguiDriver, AguiOptions, Binding, DemoDriver, DemoOptions, ExecDriver, ExecOptions, ExternalDriver,
    ExternalOptions, Output,
};
use runwire_engine::{Agent, AgentPolicy, DEADLINE, Driver, LaneOptions, OnDeadline, Prices, WaitRule};
use runwire_server::{Rights, Tokens};
use runwire_store::{Keep, Retention};
use serde::Deserialize;

use self::guardrails::{GUARDRAIL, GuardrailTable, guardrails};
use self::spending::{LIMITS, LimitsTable, PRICE, PRICES, PricesTable};
use crate::cli::{ListenArgs, SyncMode};
use crate::policy::{ConcurrencyWord, LANE, LaneTable, RETRY, RetryTable};
use crate::{duration, policy, size};

/// What the file may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct File {
    listen: Option<SocketAddr>,
    store: Option<PathBuf>,
    sync: Option<SyncWord>,
    cors_origins: Vec<String>,
    #[serde(deserialize_with = "duration::optional")]
    cancel_grace: Option<Duration>,
    #[serde(deserialize_with = "duration::optional")]
    shutdown_grace: Option<Duration>,
    #[serde(deserialize_with = "duration::optional")]
    orphan_check: Option<Duration>,
    #[serde(deserialize_with = "duration::optional")]
    stream_max_age: Option<Duration>,
    retention: RetentionTable,
    prices: Option<PricesTable>,
    lanes: BTreeMap<String, LaneTable>,
    agents: BTreeMap<String, AgentTable>,
    tokens: Vec<TokenTable>,
}

/// `[retention]`, and `[agents.NAME.retention]`, which has no `tombstones`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RetentionTable {
    #[serde(deserialize_with = "duration::optional")]
    max_age: Option<Duration>,
    max_runs: Option<u64>,
    #[serde(deserialize_with = "size::optional")]
    max_bytes: Option<u64>,
    #[serde(deserialize_with = "duration::optional")]
    tombstones: Option<Duration>,
}

impl RetentionTable {
    fn keep(&self) -> Keep {
        Keep { max_age: self.max_age, max_runs: self.max_runs, max_bytes: self.max_bytes }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SyncWord {
    Normal,
    Full,
}

#[derive(Clone, Debug, Deserialize)]
struct AgentTable {
    driver: String,
    description: Option<String>,
    retention: Option<RetentionTable>,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    guardrails: Vec<GuardrailTable>,
    retry: Option<RetryTable>,
    #[serde(default, deserialize_with = "duration::optional")]
    answer_within: Option<Duration>,
    on_deadline: Option<DeadlineWord>,
    deadline_answer: Option<toml::Value>,
    lane: Option<String>,
    concurrency: Option<ConcurrencyWord>,
    // demo
    #[serde(default, deserialize_with = "duration::optional")]
    pace: Option<Duration>,
    repeat: Option<u32>,
    // agui
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "duration::optional")]
    connect_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration::optional")]
    idle_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration::optional")]
    first_event_timeout: Option<Duration>,
    cancel_url: Option<String>,
    protocol_version: Option<String>,
    binding: Option<BindingWord>,
    // exec
    #[serde(default)]
    command: Vec<String>,
    dir: Option<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    output: Option<OutputWord>,
    #[serde(default, deserialize_with = "duration::optional")]
    timeout: Option<Duration>,
    #[serde(default, deserialize_with = "duration::optional")]
    kill_grace: Option<Duration>,
    #[serde(default, deserialize_with = "size::optional")]
    max_output_bytes: Option<u64>,
    #[serde(default, deserialize_with = "size::optional")]
    max_memory: Option<u64>,
    // external
    #[serde(default, deserialize_with = "duration::optional")]
    lease: Option<Duration>,
    // several
    idempotent: Option<bool>,
    #[serde(default)]
    capabilities: toml::Table,
    // openai, anthropic, gemini
    model: Option<String>,
    #[serde(default)]
    fallback_models: Vec<String>,
    base_url: Option<String>,
    api_key_env: Option<String>,
    system: Option<String>,
    max_output_tokens: Option<u64>,
    temperature: Option<f64>,
    #[serde(default)]
    request: toml::Table,
    #[serde(default, deserialize_with = "duration::optional")]
    call_timeout: Option<Duration>,
    max_model_calls: Option<u32>,
    context_tokens: Option<usize>,
    #[serde(default)]
    send_state: bool,
    #[serde(default)]
    tools: BTreeMap<String, model_agent::ToolTable>,
    #[serde(default)]
    mcp: BTreeMap<String, model_agent::McpTable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DeadlineWord {
    Deny,
    Fail,
    Answer,
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

#[derive(Debug, Deserialize)]
struct TokenTable {
    name: String,
    token: Option<String>,
    token_env: Option<String>,
    #[serde(default)]
    runs: RunsWord,
    #[serde(default)]
    push: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RunsWord {
    #[default]
    Own,
    All,
}

/// The keys of each table, in one place: what is not here is refused.
const TOP: &[&str] = &[
    "listen",
    "store",
    "sync",
    "cors_origins",
    "cancel_grace",
    "shutdown_grace",
    "orphan_check",
    "stream_max_age",
    "retention",
    "prices",
    "lanes",
    "agents",
    "tokens",
];
const KEEP: &[&str] = &["max_age", "max_runs", "max_bytes"];
const TOKEN: &[&str] = &["name", "token", "token_env", "runs", "push"];
const EVERY_AGENT: &[&str] = &[
    "driver",
    "description",
    "retention",
    "retry",
    "lane",
    "concurrency",
    "limits",
    "guardrails",
    "answer_within",
    "on_deadline",
    "deadline_answer",
];
const DRIVERS: &[(&str, &[&str])] = &[
    ("demo", &["pace", "repeat"]),
    (
        "agui",
        &[
            "url",
            "headers",
            "connect_timeout",
            "first_event_timeout",
            "idle_timeout",
            "cancel_url",
            "idempotent",
            "protocol_version",
            "binding",
            "capabilities",
        ],
    ),
    (
        "exec",
        &[
            "command",
            "dir",
            "env",
            "output",
            "timeout",
            "kill_grace",
            "max_output_bytes",
            "max_memory",
            "idempotent",
            "capabilities",
        ],
    ),
    ("external", &["lease", "capabilities"]),
    ("openai", model_agent::KEYS),
    ("anthropic", model_agent::KEYS),
    ("gemini", model_agent::KEYS),
];

/// How a server is set up.
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What it keeps its runs in.
    pub store: PathBuf,
    /// What a commit waits for.
    pub sync: SyncMode,
    /// Origins whose pages may use it.
    pub cors_origins: Vec<String>,
    /// How long a driver has after a stop.
    pub cancel_grace: Duration,
    /// How long runs have when the server stops.
    pub shutdown_grace: Duration,
    /// How often runs are looked for that nobody has in hand.
    pub orphan_check: Duration,
    /// After how long a connection is recycled.
    pub stream_max_age: Option<Duration>,
    /// Which runs it keeps.
    pub retention: Retention,
    /// What tokens cost.
    pub prices: Option<Arc<Prices>>,
    /// Its lanes, but for a `default` without a limit.
    pub lanes: BTreeMap<String, LaneOptions>,
    /// Its agents.
    pub agents: Vec<Agent>,
    /// Its tokens; `None` when there are none.
    pub tokens: Option<Tokens>,
}

const DEFAULT_PORT: u16 = 7171;

impl Settings {
    /// Reads the file, if there is one, and puts the flags (and the variables behind them) on top.
    pub fn load(path: Option<&Path>, flags: &ListenArgs) -> anyhow::Result<Settings> {
        let file = match path {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("the configuration {} cannot be read", path.display()))?;
                parse(&text).with_context(|| format!("the configuration {}", path.display()))?
            }
            None => File::default(),
        };
        Settings::from_file(file, flags).map_err(|error| match path {
            Some(path) => error.context(format!("the configuration {}", path.display())),
            None => error,
        })
    }

    fn from_file(file: File, flags: &ListenArgs) -> anyhow::Result<Settings> {
        let prices = file.prices.as_ref().map(PricesTable::prices).transpose()?;
        let mut agents = Vec::new();
        for (id, table) in &file.agents {
            agents.push(agent(id, table, prices.is_some()).with_context(|| format!("agents.{id}"))?);
        }
        if agents.is_empty() {
            agents.push(demo_agent());
        }
        let sync = file.sync.map(|sync| match sync {
            SyncWord::Normal => SyncMode::Normal,
            SyncWord::Full => SyncMode::Full,
        });
        let settings = Settings {
            listen: flags.listen.or(file.listen).unwrap_or_else(|| ([127, 0, 0, 1], DEFAULT_PORT).into()),
            store: flags.store.clone().or(file.store).unwrap_or_else(|| PathBuf::from("runwire.db")),
            sync: flags.sync.or(sync).unwrap_or(SyncMode::Normal),
            cors_origins: origins(file.cors_origins)?,
            cancel_grace: file.cancel_grace.unwrap_or(Duration::from_secs(5)),
            shutdown_grace: file.shutdown_grace.unwrap_or(Duration::from_secs(10)),
            orphan_check: file.orphan_check.unwrap_or(Duration::from_secs(30)),
            stream_max_age: file.stream_max_age,
            retention: retention(&file.retention, &file.agents),
            prices: prices.map(Arc::new),
            lanes: policy::lanes(&file.lanes, &agents)?,
            agents,
            tokens: tokens(&file.tokens)?,
        };
        if settings.orphan_check.is_zero() {
            bail!("orphan_check: with no time between two looks the server would do nothing else");
        }
        if settings.stream_max_age.is_some_and(|age| age < Duration::from_secs(1)) {
            bail!("stream_max_age: below 1s a reader would be sent away before it has read anything");
        }
        if settings.tokens.is_none() && !settings.listen.ip().is_loopback() {
            bail!(
                "`listen` is {}, which other machines can reach, and no tokens are configured; add a `[[tokens]]` \
                 table, or listen on a loopback address such as 127.0.0.1:{}",
                settings.listen,
                settings.listen.port()
            );
        }
        Ok(settings)
    }
}

/// The agent that is there when nothing is configured.
pub fn demo_agent() -> Agent {
    Agent {
        id: "demo".to_owned(),
        revision: Some(revision("demo")),
        description: Some("The built-in agent: measures your prompt, and needs no model".to_owned()),
        driver: Arc::new(DemoDriver::default()),
        policy: AgentPolicy::default(),
    }
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

/// An agent with a table of its own goes by that alone; a table without keys keeps everything.
fn retention(table: &RetentionTable, agents: &BTreeMap<String, AgentTable>) -> Retention {
    let own = agents.iter().filter_map(|(id, agent)| Some((id.clone(), agent.retention.as_ref()?.keep())));
    let defaults = Retention::default();
    Retention {
        default: table.keep(),
        agents: own.collect(),
        tombstones: table.tombstones.unwrap_or(defaults.tombstones),
    }
}

fn parse(text: &str) -> anyhow::Result<File> {
    let table: toml::Table = text.parse()?;
    check_keys(&table)?;
    Ok(toml::from_str(text)?)
}

/// Refuses every key that nothing reads, and names the nearest that something does.
fn check_keys(table: &toml::Table) -> anyhow::Result<()> {
    known("", table, TOP, &[])?;
    if let Some(retention) = table.get("retention").and_then(toml::Value::as_table) {
        known("retention.", retention, KEEP, &["tombstones"])?;
    }
    if let Some(prices) = table.get("prices").and_then(toml::Value::as_table) {
        known("prices.", prices, PRICES, &[])?;
        let models = prices.get("models").and_then(toml::Value::as_array).into_iter().flatten();
        for (i, model) in models.enumerate() {
            if let Some(model) = model.as_table() {
                known(&format!("prices.models[{i}]."), model, PRICE, &[])?;
            }
        }
    }
    for (name, lane) in table.get("lanes").and_then(toml::Value::as_table).into_iter().flatten() {
        if let Some(lane) = lane.as_table() {
            known(&format!("lanes.{name}."), lane, LANE, &[])?;
        }
    }
    for (id, agent) in table.get("agents").and_then(toml::Value::as_table).into_iter().flatten() {
        let Some(agent) = agent.as_table() else { continue };
        let place = format!("agents.{id}.");
        let Some(driver) = agent.get("driver").and_then(toml::Value::as_str) else { continue };
        let Some((_, keys)) = DRIVERS.iter().find(|(name, _)| *name == driver) else {
            let names: Vec<&str> = DRIVERS.iter().map(|(name, _)| *name).collect();
            bail!("{place}driver is `{driver}`{}; there is {}", hint(driver, &names), names.join(", "));
        };
        known(&place, agent, EVERY_AGENT, keys)?;
        if let Some(retention) = agent.get("retention").and_then(toml::Value::as_table) {
            known(&format!("{place}retention."), retention, KEEP, &[])?;
        }
        if let Some(limits) = agent.get("limits").and_then(toml::Value::as_table) {
            known(&format!("{place}limits."), limits, LIMITS, &[])?;
        }
        for (i, rail) in agent.get("guardrails").and_then(toml::Value::as_array).into_iter().flatten().enumerate() {
            if let Some(rail) = rail.as_table() {
                known(&format!("{place}guardrails[{i}]."), rail, GUARDRAIL, &[])?;
            }
        }
        if let Some(retry) = agent.get("retry").and_then(toml::Value::as_table) {
            known(&format!("{place}retry."), retry, RETRY, &[])?;
        }
        for (key, keys) in [("tools", model_agent::TOOL_KEYS), ("mcp", model_agent::MCP_KEYS)] {
            for (name, table) in agent.get(key).and_then(toml::Value::as_table).into_iter().flatten() {
                if let Some(table) = table.as_table() {
                    known(&format!("{place}{key}.{name}."), table, keys, &[])?;
                }
            }
        }
    }
    for (i, token) in table.get("tokens").and_then(toml::Value::as_array).into_iter().flatten().enumerate() {
        if let Some(token) = token.as_table() {
            known(&format!("tokens[{i}]."), token, TOKEN, &[])?;
        }
    }
    Ok(())
}

fn known(place: &str, table: &toml::Table, keys: &[&str], more: &[&str]) -> anyhow::Result<()> {
    let all: Vec<&str> = keys.iter().chain(more).copied().collect();
    for key in table.keys() {
        if !all.contains(&key.as_str()) {
            bail!("unknown key `{place}{key}`{}; there is {}", hint(key, &all), all.join(", "));
        }
    }
    Ok(())
}

/// The nearest known word, if one is near.
fn hint(word: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|k| (strsim::damerau_levenshtein(word, k), k)).min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, nearest)) if distance <= word.len().max(nearest.len()) / 2 => {
            format!(" (did you mean `{nearest}`?)")
        }
        _ => String::new(),
    }
}

fn agent(id: &str, table: &AgentTable, priced: bool) -> anyhow::Result<Agent> {
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
    // Nor is what is kept of its runs, when they are executed, or what they may use, a part of what it does.
    let of_revision = AgentTable {
        retention: None,
        retry: None,
        lane: None,
        concurrency: None,
        limits: LimitsTable::default(),
        ..table.clone()
    };
    let revision = Some(revision(&format!("{of_revision:?}{files}")));
    let policy = AgentPolicy {
        limits: table.limits.limits(priced).context("limits")?,
        guardrails: guardrails(&table.guardrails)?,
        waiting: wait_rule(table)?,
        ..policy::of(table.retry.as_ref(), table.lane.as_deref(), table.concurrency)?
    };
    Ok(Agent { id: id.to_owned(), revision, description: table.description.clone(), driver, policy })
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

fn revision(configuration: &str) -> String {
    let digest = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, configuration.as_bytes());
    format!("rev_{}", &digest.simple().to_string()[..12])
}

/// Puts the values of variables where the text says `${NAME}`, so that no secret has to stand in a file.
fn from_environment(text: &str) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { bail!("`${{` without `}}`") };
        out.push_str(before);
        out.push_str(&std::env::var(name).with_context(|| format!("the environment variable {name} is wanted"))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn tokens(tables: &[TokenTable]) -> anyhow::Result<Option<Tokens>> {
    if tables.is_empty() {
        return Ok(None);
    }
    let mut tokens = Tokens::default();
    for (i, table) in tables.iter().enumerate() {
        let secret = match (&table.token, &table.token_env) {
            (Some(token), None) => token.clone(),
            (None, Some(name)) => std::env::var(name)
                .with_context(|| format!("tokens[{i}]: the environment variable {name} is wanted"))?,
            _ => bail!("tokens[{i}]: one of `token` and `token_env` is wanted"),
        };
        if table.name == DEADLINE {
            bail!("tokens[{i}]: the name `{DEADLINE}` is that of a deadline which resolved a run; take another");
        }
        let rights = Rights { all_runs: table.runs == RunsWord::All, push: table.push };
        tokens.add_with(&table.name, &secret, rights).with_context(|| format!("tokens[{i}]"))?;
    }
    Ok(Some(tokens))
}

fn origins(origins: Vec<String>) -> anyhow::Result<Vec<String>> {
    for origin in &origins {
        let host = origin.split_once("://").map(|(_, host)| host);
        if origin != "*" && host.is_none_or(|h| h.is_empty() || h.contains('/')) {
            bail!("cors_origins: `{origin}` is no origin such as http://localhost:3000");
        }
    }
    Ok(origins)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn settings(text: &str) -> anyhow::Result<Settings> {
        let flags = ListenArgs { listen: None, store: None, sync: None };
        Settings::from_file(parse(text)?, &flags)
    }

    fn error(text: &str) -> String {
        match settings(text) {
            Ok(_) => panic!("this was taken:\n{text}"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn how_runs_wait_is_configured_for_each_agent() {
        let waiting = |keys: &str| {
            let settings = settings(&format!("[agents.a]\ndriver = \"demo\"\n{keys}"))?;
            Ok::<_, anyhow::Error>(settings.agents[0].policy.waiting.clone())
        };
        assert_eq!(waiting("").unwrap(), WaitRule::default());
        let rule = waiting("answer_within = \"2h\"\non_deadline = \"answer\"\ndeadline_answer = { approved = false }");
        let answer = OnDeadline::Answer(serde_json::json!({ "approved": false }));
        assert_eq!(rule.unwrap(), WaitRule { answer_within: Some(Duration::from_secs(7200)), on_deadline: answer });
        assert_eq!(waiting("on_deadline = \"fail\"").unwrap().on_deadline, OnDeadline::Fail);
        for (keys, says) in [
            ("on_deadline = \"answer\"", "does not say with what"),
            ("deadline_answer = 1", "only where `on_deadline` is `answer`"),
            ("answer_within = \"0s\"", "nobody could answer"),
            ("on_deadlin = \"deny\"", "did you mean `on_deadline`?"),
        ] {
            let error = format!("{:#}", waiting(keys).unwrap_err());
            assert!(error.contains(says), "{keys}: {error}");
        }
        let named = settings("[[tokens]]\nname = \"deadline\"\ntoken = \"x\"").err().unwrap();
        assert!(format!("{named:#}").contains("take another"));
    }

    #[test]
    fn an_empty_file_serves_the_demo_agent_on_loopback() {
        let settings = settings("").unwrap();
        assert_eq!(settings.listen.to_string(), "127.0.0.1:7171");
        assert_eq!(settings.store, Path::new("runwire.db"));
        assert_eq!(settings.agents.len(), 1);
        assert_eq!(settings.agents[0].id, "demo");
        assert!(settings.tokens.is_none());
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = parse("listen = \"127.0.0.1:1\"\nstore = \"file.db\"\nsync = \"full\"").unwrap();
        let flags = ListenArgs { listen: None, store: Some("flag.db".into()), sync: None };
        let settings = Settings::from_file(file, &flags).unwrap();
        assert_eq!(settings.listen.port(), 1);
        assert_eq!(settings.store, Path::new("flag.db"));
        assert_eq!(settings.sync, SyncMode::Full);
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_nearest_known_one() {
        for (text, key, nearest) in [
            ("lisen = \"127.0.0.1:1\"", "`lisen`", "`listen`"),
            ("[agents.a]\ndriver = \"agui\"\nulr = \"http://x/\"", "`agents.a.ulr`", "`url`"),
            ("[agents.a]\ndriver = \"demo\"\npacee = \"1s\"", "`agents.a.pacee`", "`pace`"),
            ("[agents.a]\ndriver = \"agiu\"", "`agiu`", "`agui`"),
            ("[lanes.slow]\nlimits = 2", "`lanes.slow.limits`", "`limit`"),
            ("[agents.a]\ndriver = \"demo\"\nretry = { attempts = 2 }", "`agents.a.retry.attempts`", "`max_attempts`"),
            ("[agents.a]\ndriver = \"exec\"\ncomand = [\"x\"]", "`agents.a.comand`", "`command`"),
            ("[[tokens]]\nname = \"a\"\ntokn = \"t\"", "`tokens[0].tokn`", "`token`"),
            ("[agents.a]\ndriver = \"openai\"\nmodle = \"m\"", "`agents.a.modle`", "`model`"),
            ("[agents.a]\ndriver = \"openai\"\n[agents.a.tools.t]\nulr = \"x\"", "`agents.a.tools.t.ulr`", "`url`"),
        ] {
            let error = error(text);
            assert!(error.contains(key) && error.contains(nearest), "{error}");
        }
        assert!(error("[retention]\nmax_ages = \"1d\"").contains("`max_age`"));
        assert!(
            error("[agents.a]\ndriver = \"demo\"\nretention = { tombstones = \"1d\" }")
                .contains("a.retention.tombstones`")
        );
        assert!(error("[[prices.models]]\nmodle = \"m\"").contains("`prices.models[0].modle` (did you mean `model`?)"));
        assert!(error("[agents.a]\ndriver = \"demo\"\nlimits = { token = 1 }").contains("(did you mean `tokens`?)"));
        assert!(error("[agents.a]\ndriver = \"demo\"\nurl = \"http://x/\"").contains("`agents.a.url`"));
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_place() {
        for (text, says) in [
            ("listen = \"0.0.0.0:80\"", "tokens"),
            ("listen = \"here\"", "listen"),
            ("cancel_grace = \"soon\"", "`soon`"),
            ("[retention]\nmax_bytes = \"much\"", "`much`"),
            ("[retention]\nmax_runs = -1", "max_runs"),
            ("stream_max_age = \"0s\"", "stream_max_age"),
            ("orphan_check = \"0s\"", "orphan_check"),
            ("[lanes.slow]\nlimit = 0", "lanes.slow.limit"),
            ("[lanes.slow]\n[agents.a]\ndriver = \"demo\"\nlane = \"fast\"", "there is slow, default"),
            ("[agents.a]\ndriver = \"demo\"\nconcurrency = \"both\"", "supersede"),
            ("[agents.a]\ndriver = \"demo\"\nretry = { max_attempts = 0 }", "retry.max_attempts"),
            ("[agents.a]\ndriver = \"demo\"\nretry = { backoff = \"2s\", max_backoff = \"1s\" }", "retry.max_backoff"),
            ("[agents.a]\ndriver = \"demo\"\nretry = { codes = [\"MODEL\"] }", "MODEL_ERROR"),
            ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nidle_timeout = \"0s\"", "idle_timeout"),
            ("[agents.\"a/b\"]\ndriver = \"demo\"", "agents.a/b"),
            ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nfirst_event_timeout = \"0s\"", "first_event_timeout"),
            ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\ncancel_url = \"here\"", "`here`"),
            ("[agents.a]\ndriver = \"agui\"", "`url` is missing"),
            ("[agents.a]\ndriver = \"external\"\nlease = \"10ms\"", "lease"),
            ("[agents.a]\ndriver = \"exec\"", "`command` is missing"),
            ("[agents.a]\ndriver = \"exec\"\ncommand = [\"\"]", "`command` is empty"),
            ("[agents.a]\ndriver = \"exec\"\ncommand = [\"x\"]\noutput = \"sse\"", "auto"),
            ("[agents.a]\ndriver = \"exec\"\ncommand = [\"x\"]\ntimeout = \"0s\"", "timeout"),
            ("[agents.a]\ndriver = \"exec\"\ncommand = [\"x\"]\nmax_memory = \"lots\"", "`lots`"),
            (
                "[agents.a]\ndriver = \"exec\"\ncommand = [\"x\"]\nenv = { A = \"${RUNWIRE_TEST_UNSET}\" }",
                "RUNWIRE_TEST_UNSET",
            ),
            ("[agents.a]\ndriver = \"agui\"\nurl = \"ftp://x/\"", "ftp"),
            (
                "[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nprotocol_version = \"0.1.9\"",
                "\"0.1.9\" is no AG-UI version",
            ),
            ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nprotocol_version = \"2.0\"", "write \"1.0\""),
            ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nbinding = \"protbuf\"", "protobuf"),
            (
                "[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nheaders = { A = \"${RUNWIRE_TEST_UNSET}\" }",
                "RUNWIRE_TEST_UNSET",
            ),
            (
                "[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\ncapabilities.reasoning.supported = \"yes\"",
                "/reasoning/supported",
            ),
            ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\ncapabilities.magic = {}", "`/magic`"),
            ("[agents.a]\ndriver = \"openai\"", "`model` is missing"),
            (
                "[agents.a]\ndriver = \"gemini\"\nmodel = \"m\"\napi_key_env = \"RUNWIRE_TEST_UNSET\"",
                "api_key_env: the environment variable RUNWIRE_TEST_UNSET is wanted",
            ),
            ("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\nmax_model_calls = 0", "max_model_calls"),
            ("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\ncall_timeout = \"0s\"", "call_timeout"),
            ("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\ntools.t = { url = \"http://x/\" }", "description"),
            ("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\nmcp.s = {}", "mcp.s: one of `command` and `url`"),
            (
                "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\n\
                 mcp.s = { command = [\"x\"], env = [\"RUNWIRE_TEST_UNSET\"] }",
                "RUNWIRE_TEST_UNSET",
            ),
            (
                "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\n\
                 tools.t = { url = \"http://x/\", description = \"d\", approval = \"sometimes\" }",
                "tools.t: approval: `sometimes`",
            ),
            (
                "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\n\
                 tools.t = { url = \"http://x/\", description = \"d\", approval = { arguments = \"(\" } }",
                "tools.t: approval.arguments",
            ),
            ("[[tokens]]\nname = \"a\"", "tokens[0]"),
            ("[[tokens]]\nname = \"a\"\ntoken = \"\"", "empty"),
            ("[[tokens]]\nname = \"a\"\ntoken = \"t\"\nruns = \"some\"", "some"),
            ("cors_origins = [\"localhost\"]", "`localhost`"),
            (
                "[agents.a]\ndriver = \"demo\"\n[[agents.a.guardrails]]\nname = \"g\"\non = [\"input\"]\naction = \"stop\"",
                "guardrails[0]",
            ),
            (
                "[agents.a]\ndriver = \"demo\"\n[[agents.a.guardrails]]\nname = \"g\"\non = [\"input\"]\npattern = \"(\"\n\
                 action = \"warn\"",
                "guardrails[0]: pattern",
            ),
            ("[prices]\ncurrency = \"dollars\"", "`dollars`"),
            ("[[prices.models]]\nmodel = \"m\"\ninput = 0.5\noutput = 1", "prices.models[0]: input"),
            ("[[prices.models]]\nmodel = \"m\"\ninput = \"-1\"\noutput = 1", "`-1`"),
            ("[[prices.models]]\nmodel = \"*m\"\ninput = 1\noutput = 1", "`*m`"),
            ("[agents.a]\ndriver = \"demo\"\nlimits = { cost = \"1\" }", "agents.a: limits: cost"),
            ("[agents.a]\ndriver = \"demo\"\nlimits = { tokens = 0 }", "tokens"),
        ] {
            let error = error(text);
            assert!(error.contains(says), "{says}: {error}");
        }
    }

    #[test]
    fn retention_is_of_all_agents_or_of_one_and_keeps_everything_by_default() {
        assert_eq!(settings("").unwrap().retention, Retention::default());
        let text = "[retention]\nmax_age = \"30d\"\nmax_runs = 7\nmax_bytes = \"2GB\"\ntombstones = \"1h\"\n\
                    [agents.a]\ndriver = \"demo\"\n[agents.b]\ndriver = \"demo\"\nretention = { max_runs = 1 }\n\
                    [agents.c]\ndriver = \"demo\"\nretention = {}";
        let retention = settings(text).unwrap().retention;
        let thirty_days = Duration::from_secs(30 * 24 * 3600);
        let all = Keep { max_age: Some(thirty_days), max_runs: Some(7), max_bytes: Some(2_000_000_000) };
        assert_eq!((retention.default, retention.tombstones), (all, Duration::from_secs(3600)));
        let one = Keep { max_runs: Some(1), ..Keep::default() };
        assert_eq!(retention.agents, BTreeMap::from([("b".to_owned(), one), ("c".to_owned(), Keep::default())]));
    }

    #[test]
    fn prices_and_limits_are_amounts_that_stay_exact() {
        let text = "[prices]\ncurrency = \"EUR\"\n[[prices.models]]\nmodel = \"m*\"\ninput = \"0.1\"\noutput = 3\n\
                    [agents.a]\ndriver = \"demo\"\nlimits = { cost = \"0.30\", duration = \"5m\", tokens = 7 }";
        let settings = settings(text).unwrap();
        let limits = &settings.agents[0].policy.limits;
        assert_eq!(limits.cost.map(|cost| cost.to_string()), Some("0.30".to_owned()));
        assert_eq!(
            (limits.duration, limits.tokens, limits.model_calls),
            (Some(Duration::from_secs(300)), Some(7), None)
        );
        assert_eq!(settings.prices.unwrap().currency(), "EUR");
    }

    #[test]
    fn what_is_kept_of_an_agents_runs_is_no_part_of_its_revision() {
        let revision = |text: &str| settings(text).unwrap().agents[0].revision.clone();
        let agent = "[agents.a]\ndriver = \"demo\"\n";
        assert_eq!(revision(agent), revision(&format!("{agent}retention = {{ max_runs = 1 }}")));
    }

    #[test]
    fn an_agents_failures_are_tried_again_as_its_table_says_and_by_default_not() {
        let retry = |text: &str| settings(text).unwrap().agents[0].policy.retry.clone();
        assert_eq!(retry("[agents.a]\ndriver = \"demo\"").max_attempts, 1);
        let text = "[agents.a]\ndriver = \"demo\"\n[agents.a.retry]\nmax_attempts = 4\nbackoff = \"2m\"\ncodes = [\"TIMEOUT\"]";
        let policy = retry(text);
        assert_eq!((policy.max_attempts, policy.max_backoff), (4, Duration::from_secs(120)));
        assert_eq!(policy.codes, Some(vec![runwire_frame::ErrorCode::Timeout]));
    }

    #[test]
    fn lanes_have_limits_and_an_agent_has_a_lane_and_a_way_with_its_sessions() {
        let text = "[lanes.slow]\nlimit = 2\nmax_queued = 7\n[lanes.default]\nlimit = 9\n[agents.a]\ndriver = \"demo\"\n\
                    lane = \"slow\"\nconcurrency = \"supersede\"";
        let settings = settings(text).unwrap();
        assert_eq!(settings.lanes["slow"], LaneOptions { limit: Some(2), max_queued: Some(7) });
        assert_eq!(settings.lanes["default"].limit, Some(9));
        let policy = &settings.agents[0].policy;
        assert_eq!(policy.lane.as_deref(), Some("slow"));
        assert_eq!(policy.concurrency, runwire_engine::Concurrency::Supersede);
    }

    #[test]
    fn a_revision_changes_with_the_configuration() {
        let revision = |text: &str| settings(text).unwrap().agents[0].revision.clone().unwrap();
        let one = revision("[agents.a]\ndriver = \"demo\"");
        assert_eq!(one, revision("[agents.a]\ndriver = \"demo\""));
        assert_ne!(one, revision("[agents.a]\ndriver = \"demo\"\nrepeat = 2"));
    }
}
