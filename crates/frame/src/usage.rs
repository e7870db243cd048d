//! Token usage and cost, under the accounting of the AG-UI seed (*Token usage*): every count is a total or a named
//! part of one, an absent count is unknown and never a zero.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

/// Token counts of one provider and model. Counts are tokens; an absent one was not reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Who served the calls, such as `openai`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reported")]
    pub provider: Option<String>,
    /// Which model served them.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reported")]
    pub model: Option<String>,
    /// Every prompt token charged for, cached or not.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reported")]
    pub input_tokens: Option<u64>,
    /// Every generated token, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reported")]
    pub output_tokens: Option<u64>,
    /// `input_tokens` plus `output_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reported")]
    pub total_tokens: Option<u64>,
    /// The part of `output_tokens` spent on reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reported")]
    pub reasoning_tokens: Option<u64>,
    /// The part of `input_tokens` read from a provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reported")]
    pub cached_input_tokens: Option<u64>,
    /// The part of `input_tokens` written to a provider's cache; disjoint from `cached_input_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "reported")]
    pub cache_write_input_tokens: Option<u64>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A count is left out when it was not reported; it is never null.
fn reported<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Usage {
    /// Adds another entry of the same provider and model. A count that neither reported stays absent.
    fn add(&mut self, other: &Usage) {
        let sum = |a: &mut Option<u64>, b: Option<u64>| {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        };
        sum(&mut self.input_tokens, other.input_tokens);
        sum(&mut self.output_tokens, other.output_tokens);
        sum(&mut self.total_tokens, other.total_tokens);
        sum(&mut self.reasoning_tokens, other.reasoning_tokens);
        sum(&mut self.cached_input_tokens, other.cached_input_tokens);
        sum(&mut self.cache_write_input_tokens, other.cache_write_input_tokens);
    }
}

/// Sums usage per provider and model, in the order in which each was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageLedger {
    entries: Vec<Usage>,
}

impl UsageLedger {
    /// Takes one entry into the sum of its provider and model.
    pub fn add(&mut self, usage: &Usage) {
        match self.entries.iter_mut().find(|e| e.provider == usage.provider && e.model == usage.model) {
            Some(entry) => entry.add(usage),
            None => self.entries.push(usage.clone()),
        }
    }

    /// One entry per provider and model; `None` when nothing was reported.
    pub fn entries(&self) -> Option<Vec<Usage>> {
        (!self.entries.is_empty()).then(|| self.entries.clone())
    }
}

/// An amount of money. A decimal string, never a float, so that it says exactly what was computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// ISO 4217, such as `USD`.
    pub currency: String,
    /// A decimal number, such as `0.001240`.
    #[serde(deserialize_with = "decimal")]
    pub amount: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Digits, and where there is a point, digits on both sides of it.
fn decimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let amount = String::deserialize(deserializer)?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let magnitude = amount.strip_prefix('-').unwrap_or(&amount);
    let valid = match magnitude.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(magnitude),
    };
    if valid {
        Ok(amount)
    } else {
        Err(de::Error::custom(format_args!("`{amount}` is no decimal number such as 0.001240")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(model: &str, input: Option<u64>, cached: Option<u64>) -> Usage {
        Usage { model: Some(model.into()), input_tokens: input, cached_input_tokens: cached, ..Usage::default() }
    }

    #[test]
    fn usage_sums_per_provider_and_model_and_absent_is_not_zero() {
        let mut ledger = UsageLedger::default();
        assert_eq!(ledger.entries(), None, "nothing reported is null, not an empty account");
        ledger.add(&usage("a", Some(3), None));
        ledger.add(&usage("b", Some(10), Some(0)));
        ledger.add(&usage("a", Some(4), None));
        assert_eq!(ledger.entries(), Some(vec![usage("a", Some(7), None), usage("b", Some(10), Some(0))]));
    }
}
