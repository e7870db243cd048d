//! What the configuration says of how an agent's runs are treated, whatever its driver.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use runwire_engine::{Agent, AgentPolicy, Concurrency, DEFAULT_LANE, LaneOptions, RetryPolicy};
use runwire_frame::ErrorCode;
use serde::Deserialize;

use crate::duration;

/// `[agents.NAME.retry]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RetryTable {
    max_attempts: Option<u32>,
    #[serde(deserialize_with = "duration::optional")]
    backoff: Option<Duration>,
    #[serde(deserialize_with = "duration::optional")]
    max_backoff: Option<Duration>,
    codes: Option<Vec<String>>,
}

/// The keys of `[agents.NAME.retry]`.
pub const RETRY: &[&str] = &["max_attempts", "backoff", "max_backoff", "codes"];

/// `[lanes.NAME]`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LaneTable {
    limit: Option<usize>,
    max_queued: Option<usize>,
}

/// The keys of `[lanes.NAME]`.
pub const LANE: &[&str] = &["limit", "max_queued"];

/// `concurrency` of an agent.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConcurrencyWord {
    #[default]
    Queue,
    Refuse,
    Supersede,
    Parallel,
}

/// How the runs of an agent with these keys are treated.
pub fn of(
    retry: Option<&RetryTable>,
    lane: Option<&str>,
    concurrency: Option<ConcurrencyWord>,
) -> anyhow::Result<AgentPolicy> {
    let retry = retry.map(RetryTable::policy).transpose()?.unwrap_or_default();
    let concurrency = match concurrency.unwrap_or_default() {
        ConcurrencyWord::Queue => Concurrency::Queue,
        ConcurrencyWord::Refuse => Concurrency::Refuse,
        ConcurrencyWord::Supersede => Concurrency::Supersede,
        ConcurrencyWord::Parallel => Concurrency::Parallel,
    };
    Ok(AgentPolicy { retry, lane: lane.map(str::to_owned), concurrency, ..AgentPolicy::default() })
}

/// The lanes of these tables; every agent's own has to be one of them, or `default`.
pub fn lanes(tables: &BTreeMap<String, LaneTable>, agents: &[Agent]) -> anyhow::Result<BTreeMap<String, LaneOptions>> {
    for (name, table) in tables {
        if name.is_empty() || name.len() > 64 {
            bail!("lanes: the name of a lane has 1 to 64 bytes");
        }
        if table.limit == Some(0) {
            bail!("lanes.{name}.limit: with a limit of 0 no run would ever be executed");
        }
    }
    for agent in agents {
        if let Some(lane) = &agent.policy.lane
            && lane != DEFAULT_LANE
            && !tables.contains_key(lane)
        {
            let names: Vec<&str> = tables.keys().map(String::as_str).chain([DEFAULT_LANE]).collect();
            bail!("agents.{}.lane: there is no `[lanes.{lane}]`; there is {}", agent.id, names.join(", "));
        }
    }
    let options = |table: &LaneTable| LaneOptions { limit: table.limit, max_queued: table.max_queued };
    Ok(tables.iter().map(|(name, table)| (name.clone(), options(table))).collect())
}

impl RetryTable {
    fn policy(&self) -> anyhow::Result<RetryPolicy> {
        let defaults = RetryPolicy::default();
        let backoff = self.backoff.unwrap_or(defaults.backoff);
        let policy = RetryPolicy {
            max_attempts: self.max_attempts.unwrap_or(defaults.max_attempts),
            backoff,
            max_backoff: self.max_backoff.unwrap_or(defaults.max_backoff.max(backoff)),
            codes: self.codes.as_deref().map(codes).transpose()?,
        };
        if policy.max_attempts == 0 {
            bail!("retry.max_attempts: a run has at least 1 attempt, which is the first");
        }
        if policy.max_backoff < policy.backoff {
            bail!("retry.max_backoff: the longest pause is shorter than `backoff`, the first one");
        }
        Ok(policy)
    }
}

fn codes(names: &[String]) -> anyhow::Result<Vec<ErrorCode>> {
    let mut codes = Vec::new();
    for name in names {
        let Some(code) = ErrorCode::ALL.iter().find(|code| code.as_str() == name) else {
            let all: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
            bail!("retry.codes: `{name}` is no error code; there is {}", all.join(", "));
        };
        codes.push(*code);
    }
    Ok(codes)
}
