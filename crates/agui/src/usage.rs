//! Token counts of a run (events/lifecycle, "Token usage").

use crate::object::object;

object! {
    /// What one provider and model cost a run, in the protocol's own accounting.
    ///
    /// `input_tokens` and `output_tokens` are totals; `cached_input_tokens`, `cache_write_input_tokens` and
    /// `reasoning_tokens` are parts of them and never additions. Counts are tokens, from 0 to 2^53 - 1. An absent count
    /// was not reported; it is never a zero.
    TokenUsage {
        optional {
            /// The provider, by its lowercase vendor name.
            provider: String,
            /// The model that served the calls.
            model: String,
            /// Every prompt token that was charged for, cached or not.
            input_tokens: u64,
            /// Every generated token, reasoning included.
            output_tokens: u64,
            /// `input_tokens` plus `output_tokens`.
            total_tokens: u64,
            /// The part of `output_tokens` that was reasoning.
            reasoning_tokens: u64,
            /// The part of `input_tokens` that was read from a cache.
            cached_input_tokens: u64,
            /// The part of `input_tokens` that was written to a cache.
            cache_write_input_tokens: u64,
        }
    }
}
