//! Token usage and cost, under the accounting of the AG-UI seed (*Token usage*): every count is a total or a named
//! part of one, an absent count is unknown and never a zero.

use crate::payload::payload;

payload! {
    /// Token counts of one provider and model. Counts are tokens; an absent one was not reported.
    #[derive(Default, Eq)]
    Usage {
        /// Who served the calls, such as `openai`.
        optional provider: String,
        /// Which model served them.
        optional model: String,
        /// Every prompt token charged for, cached or not.
        optional input_tokens: u64,
        /// Every generated token, reasoning included.
        optional output_tokens: u64,
        /// `input_tokens` plus `output_tokens`.
        optional total_tokens: u64,
        /// The part of `output_tokens` spent on reasoning.
        optional reasoning_tokens: u64,
        /// The part of `input_tokens` read from a provider's cache.
        optional cached_input_tokens: u64,
        /// The part of `input_tokens` written to a provider's cache; disjoint from `cached_input_tokens`.
        optional cache_write_input_tokens: u64,
    }
}

payload! {
    /// An amount of money. A decimal string, never a float, so that it says exactly what was computed.
    #[derive(Eq)]
    Cost {
        /// ISO 4217, such as `USD`.
        required currency: String,
        /// A decimal number, such as `0.001240`.
        decimal amount: String,
    }
}
