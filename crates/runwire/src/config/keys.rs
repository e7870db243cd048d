//! The keys of each table, in one place: what is not here is refused, with the nearest that is.

use anyhow::bail;

use super::guardrails::GUARDRAIL;
use super::model_agent;
use super::payloads::PAYLOADS;
use super::spending::{LIMITS, PRICE, PRICES};
use crate::policy::{LANE, RETRY};

const TOP: &[&str] = &[
    "listen",
    "store",
    "sync",
    "cors_origins",
    "copilotkit_path",
    "cancel_grace",
    "shutdown_grace",
    "orphan_check",
    "stream_max_age",
    "max_child_depth",
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
    "prompt_history",
    "max_history_bytes",
    "limits",
    "guardrails",
    "payloads",
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

/// Refuses every key that nothing reads, and names the nearest that something does.
pub(super) fn check_keys(table: &toml::Table) -> anyhow::Result<()> {
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
        if let Some(payloads) = agent.get("payloads").and_then(toml::Value::as_table) {
            known(&format!("{place}payloads."), payloads, PAYLOADS, &[])?;
        }
        for (i, rail) in agent.get("guardrails").and_then(toml::Value::as_array).into_iter().flatten().enumerate() {
            if let Some(rail) = rail.as_table() {
                known(&format!("{place}guardrails[{i}]."), rail, GUARDRAIL, &[])?;
            }
        }
        if let Some(retry) = agent.get("retry").and_then(toml::Value::as_table) {
            known(&format!("{place}retry."), retry, RETRY, &[])?;
        }
        let tools = [
            ("tools", model_agent::TOOL_KEYS),
            ("mcp", model_agent::MCP_KEYS),
            ("agents", model_agent::AGENT_TOOL_KEYS),
        ];
        for (key, keys) in tools {
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
pub(super) fn hint(word: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|k| (strsim::damerau_levenshtein(word, k), k)).min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, nearest)) if distance <= word.len().max(nearest.len()) / 2 => {
            format!(" (did you mean `{nearest}`?)")
        }
        _ => String::new(),
    }
}
