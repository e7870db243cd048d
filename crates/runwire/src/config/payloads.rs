//! `[agents.NAME.payloads]`: what is kept of model calls, and what is taken out of what is kept.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use regex::Regex;
use runwire_engine::{PayloadPolicy, Redaction};
use serde::Deserialize;

use crate::size;

/// The keys of `[agents.NAME.payloads]`.
pub const PAYLOADS: &[&str] = &["model_calls", "max_bytes", "redact", "redact_keys"];

/// Variables that every process has, and whose values stand in much that is no secret.
const NO_SECRETS: [&str; 12] =
    ["PATH", "HOME", "LANG", "USER", "LOGNAME", "PWD", "SHELL", "TMPDIR", "TERM", "TZ", "HOSTNAME", "LC_ALL"];

/// `[agents.NAME.payloads]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PayloadsTable {
    model_calls: bool,
    #[serde(deserialize_with = "size::optional")]
    max_bytes: Option<u64>,
    redact: Vec<String>,
    redact_keys: Vec<String>,
}

impl PayloadsTable {
    /// `calls_models` says whether the agent is one whose model calls are made here.
    pub fn policy(&self, calls_models: bool, secrets: Secrets) -> anyhow::Result<PayloadPolicy> {
        if self.model_calls && !calls_models {
            bail!("model_calls: this agent's model calls are made elsewhere, so nothing of them can be kept here");
        }
        let mut policy = PayloadPolicy { model_calls: self.model_calls, ..PayloadPolicy::default() };
        if let Some(bytes) = self.max_bytes {
            if bytes == 0 {
                bail!("max_bytes: with no byte at all nothing would be kept");
            }
            policy.max_bytes = usize::try_from(bytes).context("max_bytes")?;
        }
        let mut patterns = Vec::new();
        for (i, pattern) in self.redact.iter().enumerate() {
            let pattern = Regex::new(pattern).with_context(|| format!("redact[{i}] is no regular expression"))?;
            if pattern.is_match("") {
                bail!("redact[{i}]: `{pattern}` matches where there is nothing, so it would be found everywhere");
            }
            patterns.push(pattern);
        }
        if let Some(i) = self.redact_keys.iter().position(String::is_empty) {
            bail!("redact_keys[{i}]: it is empty; the name of a member is wanted, such as \"password\"");
        }
        policy.redaction = Redaction::new(patterns, self.redact_keys.iter().cloned(), secrets.values)
            .context("redact_keys: there are too many")?;
        Ok(policy)
    }
}

/// The values of variables that an agent's tables name. They are taken out of whatever is kept of its runs.
#[derive(Default)]
pub struct Secrets {
    values: BTreeSet<String>,
}

impl Secrets {
    /// What `${NAME}` in this text stands for.
    pub fn of_text(&mut self, text: &str) {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else { return };
            self.of_variable(name);
            rest = after;
        }
    }

    /// The value of this variable, unless it is one that every process has.
    pub fn of_variable(&mut self, name: &str) {
        if !NO_SECRETS.contains(&name) {
            self.values.extend(std::env::var(name));
        }
    }
}
