//! Token usage between the two protocols: the accounting is the same, the spelling is not.

use runwire_agui::{TokenUsage, UsageLedger};
use runwire_frame::Usage;
use serde_json::{Map, Value};

/// Under `agui`: what the exchange alone used, where the frame itself has no key for it or says the whole run's.
pub(crate) const EXCHANGE_USAGE: &str = "exchangeUsage";

/// Under `agui` of an `error` frame: what the attempt that it ends used beside its segments.
pub(crate) const ATTEMPT_USAGE: &str = "attemptUsage";

/// An AG-UI entry as the frame protocol spells it.
pub fn usage_from_agui(usage: &TokenUsage) -> Usage {
    Usage {
        provider: usage.provider.clone(),
        model: usage.model.clone(),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        total_tokens: usage.total_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        cache_write_input_tokens: usage.cache_write_input_tokens,
        ..Usage::default()
    }
}

/// A frame's entry as AG-UI spells it.
pub fn usage_to_agui(usage: &Usage) -> TokenUsage {
    TokenUsage {
        provider: usage.provider.clone(),
        model: usage.model.clone(),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        total_tokens: usage.total_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        cache_write_input_tokens: usage.cache_write_input_tokens,
    }
}

/// Every entry of an event's optional list.
pub(crate) fn all_from_agui(usage: Option<&[TokenUsage]>) -> Vec<Usage> {
    usage.unwrap_or_default().iter().map(usage_from_agui).collect()
}

/// The list that an event carries; absent when there is nothing to report.
pub(crate) fn all_to_agui(usage: Option<&[Usage]>) -> Option<Vec<TokenUsage>> {
    usage.filter(|u| !u.is_empty()).map(|u| u.iter().map(usage_to_agui).collect())
}

/// Takes every entry into the sum. What an agent of this server counts is checked where it is written; the rest is an
/// upstream agent's to answer for.
pub(crate) fn add_all(ledger: &mut UsageLedger, entries: &[Usage]) {
    for entry in entries {
        ledger.add_reported(&usage_to_agui(entry));
    }
}

/// The sums as the frame protocol spells them; `None` when nothing was reported.
pub(crate) fn summed(ledger: &UsageLedger) -> Option<Vec<Usage>> {
    ledger.entries().map(|entries| entries.iter().map(usage_from_agui).collect())
}

/// The account among a frame's `agui` members under this key, if the frame has one.
pub(crate) fn account(agui: Option<&Map<String, Value>>, key: &str) -> Result<Option<Vec<Usage>>, serde_json::Error> {
    agui.and_then(|a| a.get(key)).map(|usage| serde_json::from_value(usage.clone())).transpose()
}
