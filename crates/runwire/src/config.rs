//! The configuration: one TOML file, then `RUNWIRE_…` variables, then flags; the later wins.

mod agent;
mod guardrails;
mod keys;
mod model_agent;
mod payloads;
mod spending;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use runwire_engine::drivers::DemoDriver;
use runwire_engine::{Agent, AgentPolicy, DEADLINE, LaneOptions, Prices};
use runwire_server::{COPILOTKIT_PATH, Rights, Tokens, check_copilotkit_path};
use runwire_store::{Keep, Retention};
use serde::Deserialize;

use self::agent::{AgentTable, agent};
use self::keys::check_keys;
use self::spending::PricesTable;
use crate::cli::{ListenArgs, SyncMode};
use crate::policy::LaneTable;
use crate::{duration, policy, size};

/// What the file may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct File {
    listen: Option<SocketAddr>,
    store: Option<PathBuf>,
    sync: Option<SyncWord>,
    cors_origins: Vec<String>,
    copilotkit_path: Option<String>,
    #[serde(deserialize_with = "duration::optional")]
    cancel_grace: Option<Duration>,
    #[serde(deserialize_with = "duration::optional")]
    shutdown_grace: Option<Duration>,
    #[serde(deserialize_with = "duration::optional")]
    orphan_check: Option<Duration>,
    #[serde(deserialize_with = "duration::optional")]
    stream_max_age: Option<Duration>,
    max_child_depth: Option<u32>,
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
    /// Where CopilotKit's front ends find their runtime; `None` for nowhere.
    pub copilotkit_path: Option<String>,
    /// How long a driver has after a stop.
    pub cancel_grace: Duration,
    /// How long runs have when the server stops.
    pub shutdown_grace: Duration,
    /// How often runs are looked for that nobody has in hand.
    pub orphan_check: Duration,
    /// After how long a connection is recycled.
    pub stream_max_age: Option<Duration>,
    /// How many runs may be below the first, each started by the one above it.
    pub max_child_depth: u32,
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
            model_agent::check_agents(id, table, &file.agents, &file.lanes)?;
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
            copilotkit_path: copilotkit_path(file.copilotkit_path)?,
            cancel_grace: file.cancel_grace.unwrap_or(Duration::from_secs(5)),
            shutdown_grace: file.shutdown_grace.unwrap_or(Duration::from_secs(10)),
            orphan_check: file.orphan_check.unwrap_or(Duration::from_secs(30)),
            stream_max_age: file.stream_max_age,
            max_child_depth: file.max_child_depth.unwrap_or(8),
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

/// An empty path is nowhere.
fn copilotkit_path(path: Option<String>) -> anyhow::Result<Option<String>> {
    let path = path.unwrap_or_else(|| COPILOTKIT_PATH.to_owned());
    if path.is_empty() {
        return Ok(None);
    }
    check_copilotkit_path(&path).context("copilotkit_path")?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests;
