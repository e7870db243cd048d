//! What the configuration says of how an agent's runs are treated, whatever its driver.

use std::time::Duration;

use anyhow::bail;
use runwire_engine::{AgentPolicy, RetryPolicy};
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

/// How the runs of an agent with this table are treated.
pub fn of(retry: Option<&RetryTable>) -> anyhow::Result<AgentPolicy> {
    let retry = retry.map(RetryTable::policy).transpose()?.unwrap_or_default();
    Ok(AgentPolicy { retry, ..AgentPolicy::default() })
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
