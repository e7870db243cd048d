//! `[prices]` and `[agents.NAME.limits]`: what tokens cost, and what a run may use.

use std::time::Duration;

use anyhow::{Context as _, bail};
use runwire_engine::{Limits, Price, Prices};
use rust_decimal::Decimal;
use serde::Deserialize;

use crate::duration;

pub const PRICES: &[&str] = &["currency", "models"];
pub const PRICE: &[&str] = &["provider", "model", "input", "output", "cached_input", "cache_write_input", "reasoning"];
pub const LIMITS: &[&str] = &["duration", "model_calls", "tokens", "cost", "session_cost", "day_cost", "with_children"];

/// `[prices]`
#[derive(Debug, Deserialize)]
pub struct PricesTable {
    currency: Option<String>,
    #[serde(default)]
    models: Vec<PriceTable>,
}

/// `[[prices.models]]`
#[derive(Debug, Deserialize)]
struct PriceTable {
    provider: Option<String>,
    model: String,
    input: toml::Value,
    output: toml::Value,
    cached_input: Option<toml::Value>,
    cache_write_input: Option<toml::Value>,
    reasoning: Option<toml::Value>,
}

/// `[agents.NAME.limits]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LimitsTable {
    #[serde(deserialize_with = "duration::optional")]
    duration: Option<Duration>,
    model_calls: Option<u64>,
    tokens: Option<u64>,
    cost: Option<toml::Value>,
    session_cost: Option<toml::Value>,
    day_cost: Option<toml::Value>,
    with_children: bool,
}

impl PricesTable {
    pub fn prices(&self) -> anyhow::Result<Prices> {
        let currency = self.currency.as_deref().unwrap_or("USD");
        if currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_uppercase()) {
            bail!("prices.currency: `{currency}` is no ISO 4217 code such as USD");
        }
        let mut prices: Vec<Price> = Vec::new();
        for (i, table) in self.models.iter().enumerate() {
            let price = table.price().with_context(|| format!("prices.models[{i}]"))?;
            if prices.iter().any(|other| (&other.provider, &other.model) == (&price.provider, &price.model)) {
                bail!("prices.models[{i}]: `{}` of the same provider has a price already", price.model);
            }
            prices.push(price);
        }
        Ok(Prices::new(currency, prices))
    }
}

impl PriceTable {
    fn price(&self) -> anyhow::Result<Price> {
        if self.model.trim_end_matches('*').contains('*') || self.model.ends_with("**") {
            bail!("model: in `{}` a `*` may stand at the end, and once", self.model);
        }
        Ok(Price {
            provider: self.provider.clone(),
            model: self.model.clone(),
            input: amount("input", &self.input)?,
            output: amount("output", &self.output)?,
            cached_input: optional("cached_input", self.cached_input.as_ref())?,
            cache_write_input: optional("cache_write_input", self.cache_write_input.as_ref())?,
            reasoning: optional("reasoning", self.reasoning.as_ref())?,
        })
    }
}

impl LimitsTable {
    /// `priced`: whether there are prices, without which nothing is known to cost anything.
    pub fn limits(&self, priced: bool) -> anyhow::Result<Limits> {
        let limits = Limits {
            duration: self.duration,
            model_calls: self.model_calls,
            tokens: self.tokens,
            cost: optional("cost", self.cost.as_ref())?,
            session_cost: optional("session_cost", self.session_cost.as_ref())?,
            day_cost: optional("day_cost", self.day_cost.as_ref())?,
            with_children: self.with_children,
        };
        if self.with_children && limits.tokens.is_none() && limits.cost.is_none() {
            bail!("with_children: what children use counts against `tokens` and `cost`, and neither is given");
        }
        let money = [("cost", limits.cost), ("session_cost", limits.session_cost), ("day_cost", limits.day_cost)];
        if let Some((key, _)) = money.iter().find(|(_, limit)| limit.is_some())
            && !priced
        {
            bail!(
                "{key}: without `[[prices.models]]` nothing is known to cost anything, so this limit would never hold"
            );
        }
        let none = [
            ("duration", limits.duration.is_some_and(|limit| limit.is_zero())),
            ("model_calls", limits.model_calls == Some(0)),
            ("tokens", limits.tokens == Some(0)),
        ];
        let money = money.map(|(key, limit)| (key, limit.is_some_and(|limit| limit.is_zero())));
        if let Some((key, _)) = none.iter().chain(&money).find(|(_, zero)| *zero) {
            bail!("{key}: with nothing at all every run would be stopped at once");
        }
        Ok(limits)
    }
}

fn optional(key: &str, value: Option<&toml::Value>) -> anyhow::Result<Option<Decimal>> {
    value.map(|value| amount(key, value)).transpose()
}

/// An amount of money: digits in quotes, or a whole number. A float is refused, because it is not what was written.
fn amount(key: &str, value: &toml::Value) -> anyhow::Result<Decimal> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(whole) => whole.to_string(),
        toml::Value::Float(float) => bail!("{key}: write the amount in quotes, \"{float}\": a float is not exact"),
        other => bail!("{key}: `{other}` is no amount such as \"2.50\""),
    };
    match Decimal::from_str_exact(&text) {
        Ok(amount) if !amount.is_sign_negative() => Ok(amount),
        _ => bail!("{key}: `{text}` is no amount such as \"2.50\""),
    }
}
