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
