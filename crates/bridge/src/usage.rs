//! Token usage between the two protocols: the accounting is the same, the spelling is not.

use runwire_agui::TokenUsage;
use runwire_frame::Usage;

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
