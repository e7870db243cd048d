//! `[[agents.NAME.guardrails]]`: what looks at what goes through an agent's runs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use regex::Regex;
use runwire_engine::{Action, GuardService, Guarded, Guardrail, Judge};
use serde::Deserialize;

use super::from_environment;
use super::payloads::Secrets;
use crate::duration;

pub const GUARDRAIL: &[&str] = &["name", "on", "pattern", "url", "headers", "timeout", "action"];

/// `[[agents.NAME.guardrails]]`
#[derive(Clone, Debug, Deserialize)]
pub struct GuardrailTable {
    name: String,
    on: Vec<OnWord>,
    pattern: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "duration::optional")]
    timeout: Option<Duration>,
    action: ActionWord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnWord {
    Input,
    Output,
    ToolCall,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActionWord {
    Warn,
    Stop,
}

pub fn guardrails(tables: &[GuardrailTable]) -> anyhow::Result<Vec<Guardrail>> {
    let mut rails: Vec<Guardrail> = Vec::new();
    for (i, table) in tables.iter().enumerate() {
        let rail = table.guardrail().with_context(|| format!("guardrails[{i}]"))?;
        if rails.iter().any(|other| other.name == rail.name) {
            bail!("guardrails[{i}]: there is a guardrail `{}` already", rail.name);
        }
        rails.push(rail);
    }
    Ok(rails)
}

impl GuardrailTable {
    /// Adds the values of the variables that it names.
    pub fn add_secrets(&self, secrets: &mut Secrets) {
        self.headers.values().for_each(|value| secrets.of_text(value));
    }

    fn guardrail(&self) -> anyhow::Result<Guardrail> {
        if self.name.is_empty() {
            bail!("name: it is empty, and whoever reads that it found something could not tell which it is");
        }
        if self.on.is_empty() {
            bail!("on: it looks at nothing; there is input, output, tool_call");
        }
        let judge = match (&self.pattern, &self.url) {
            (Some(pattern), None) => {
                if !self.headers.is_empty() || self.timeout.is_some() {
                    bail!("`headers` and `timeout` are for a `url`; a pattern is matched here");
                }
                Judge::Pattern(Regex::new(pattern).context("pattern")?)
            }
            (None, Some(url)) => {
                let mut headers = Vec::new();
                for (name, value) in &self.headers {
                    headers.push((name.clone(), from_environment(value).context(format!("headers.{name}"))?));
                }
                let timeout = self.timeout.unwrap_or(Duration::from_secs(5));
                if timeout.is_zero() {
                    bail!("timeout: with no time at all it could not judge anything");
                }
                Judge::Service(GuardService::new(url, &headers, timeout).context("url")?)
            }
            _ => bail!("one of `pattern` and `url` is wanted"),
        };
        let on = self.on.iter().map(|on| match on {
            OnWord::Input => Guarded::Input,
            OnWord::Output => Guarded::Output,
            OnWord::ToolCall => Guarded::ToolCall,
        });
        let action = match self.action {
            ActionWord::Warn => Action::Warn,
            ActionWord::Stop => Action::Stop,
        };
        Ok(Guardrail { name: self.name.clone(), on: on.collect(), judge, action })
    }
}
