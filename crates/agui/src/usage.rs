//! Token counts of a run (events/lifecycle, "Token usage").
//!
//! Every count is a total or a named part of one, and an absent count is unknown, never zero. Three types keep that:
//!
//! - [`TokenUsage`] is one entry as it travels;
//! - [`CallUsage`] makes an entry of what a provider reports, and has to be told of every part whether the provider's
//!   total includes it, so that nothing is counted twice or left out;
//! - [`UsageLedger`] sums entries per provider and model over one run, which is the boundary of an account.

mod ledger;

pub use self::ledger::UsageLedger;
use crate::object::object;
use crate::schema::SAFE_INTEGER;

/// The largest count that survives every JSON implementation: 2^53 - 1 tokens.
pub const MAX_TOKENS: u64 = SAFE_INTEGER.unsigned_abs();

object! {
    /// What one provider and model cost a run, in the protocol's own accounting.
    ///
    /// `input_tokens` and `output_tokens` are totals; `cached_input_tokens`, `cache_write_input_tokens` and
    /// `reasoning_tokens` are parts of them and never additions. Counts are tokens, from 0 to 2^53 - 1. An absent count
    /// was not reported; it is never a zero.
    #[derive(Eq)]
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

/// An account that does not add up. Nothing was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// A count, or a sum of counts, is more than [`MAX_TOKENS`].
    #[error("{count} comes to more than {MAX_TOKENS} tokens, which is more than the protocol can say")]
    TooMany {
        /// The member of the entry.
        count: &'static str,
    },
    /// The parts of a total are more than the total.
    #[error(
        "{parts} come to {given} tokens, which is more than the {total} of {whole}; a part is included in its total, so \
         what a provider reports beside a total has to be added to it"
    )]
    PartsExceedTotal {
        /// The parts.
        parts: &'static str,
        /// What they come to.
        given: u64,
        /// The member that they are parts of.
        whole: &'static str,
        /// What that says.
        total: u64,
    },
    /// `totalTokens` is not the sum of the two totals.
    #[error("totalTokens is {total}, but inputTokens and outputTokens come to {sum}; it is their sum and nothing else")]
    WrongTotal {
        /// What it says.
        total: u64,
        /// What it would have to say.
        sum: u64,
    },
}

impl TokenUsage {
    /// Whether the entry adds up: no count above [`MAX_TOKENS`], no parts above their total, and a `totalTokens` that is
    /// the sum of the two others. What is absent is not judged.
    ///
    /// # Errors
    /// Which of these it breaks.
    pub fn check(&self) -> Result<(), UsageError> {
        for (count, value) in self.counts() {
            if value.is_some_and(|value| value > MAX_TOKENS) {
                return Err(UsageError::TooMany { count });
            }
        }
        let cached = self.cached_input_tokens.unwrap_or(0) + self.cache_write_input_tokens.unwrap_or(0);
        let parts = [
            ("cachedInputTokens and cacheWriteInputTokens", cached, "inputTokens", self.input_tokens),
            ("reasoningTokens", self.reasoning_tokens.unwrap_or(0), "outputTokens", self.output_tokens),
            // Half of a sum is a part of it, whatever the other half is.
            ("inputTokens", self.input_tokens.unwrap_or(0), "totalTokens", self.total_tokens),
            ("outputTokens", self.output_tokens.unwrap_or(0), "totalTokens", self.total_tokens),
        ];
        if let (Some(input), Some(output), Some(total)) = (self.input_tokens, self.output_tokens, self.total_tokens)
            && input + output != total
        {
            return Err(UsageError::WrongTotal { total, sum: input + output });
        }
        for (parts, given, whole, total) in parts {
            if let Some(total) = total
                && given > total
            {
                return Err(UsageError::PartsExceedTotal { parts, given, whole, total });
            }
        }
        Ok(())
    }

    fn counts(&self) -> [(&'static str, Option<u64>); 6] {
        [
            ("inputTokens", self.input_tokens),
            ("outputTokens", self.output_tokens),
            ("totalTokens", self.total_tokens),
            ("reasoningTokens", self.reasoning_tokens),
            ("cachedInputTokens", self.cached_input_tokens),
            ("cacheWriteInputTokens", self.cache_write_input_tokens),
        ]
    }
}

/// A part of a total, as a provider reports it. The protocol's totals include their parts, some providers' do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The provider's total includes it: it is not added again.
    Inside(u64),
    /// The provider reports it beside a smaller total: it is added to it.
    Beside(u64),
}

impl Part {
    fn tokens(self) -> u64 {
        match self {
            Self::Inside(tokens) | Self::Beside(tokens) => tokens,
        }
    }

    fn beside(part: Option<Self>) -> u64 {
        match part {
            Some(Self::Beside(tokens)) => tokens,
            _ => 0,
        }
    }
}

/// What a provider reports of one model call, on the way into the protocol's accounting.
///
/// There is no place for a provider's own grand total, because providers count it differently; it is computed.
///
/// ```
/// use runwire_agui::{CallUsage, Part};
///
/// // Cache reads beside the input count, reasoning inside the output count.
/// let entry = CallUsage {
///     input: Some(20),
///     cached_input: Some(Part::Beside(100)),
///     output: Some(50),
///     reasoning: Some(Part::Inside(30)),
///     ..CallUsage::of("anthropic", "some-model")
/// }
/// .account()?;
/// assert_eq!(entry.input_tokens, Some(120));
/// assert_eq!(entry.cached_input_tokens, Some(100));
/// assert_eq!(entry.output_tokens, Some(50));
/// assert_eq!(entry.total_tokens, Some(170));
/// assert_eq!(entry.cache_write_input_tokens, None, "not reported is not zero");
/// # Ok::<(), runwire_agui::UsageError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallUsage {
    /// The provider, by its lowercase vendor name.
    pub provider: Option<String>,
    /// The model that served the call.
    pub model: Option<String>,
    /// The provider's count of prompt tokens.
    pub input: Option<u64>,
    /// Prompt tokens that were read from a cache.
    pub cached_input: Option<Part>,
    /// Prompt tokens that were written to a cache.
    pub cache_write_input: Option<Part>,
    /// The provider's count of generated tokens.
    pub output: Option<u64>,
    /// Generated tokens that were reasoning.
    pub reasoning: Option<Part>,
}

impl CallUsage {
    /// A call of that model, with nothing reported yet.
    #[must_use]
    pub fn of(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: Some(provider.into()), model: Some(model.into()), ..Self::default() }
    }

    /// The entry in the protocol's accounting. A total that the provider did not report stays absent, also when parts
    /// of it were reported.
    ///
    /// # Errors
    /// When a total is smaller than its parts, or a count larger than [`MAX_TOKENS`].
    pub fn account(self) -> Result<TokenUsage, UsageError> {
        let whole = |count: &'static str, total: Option<u64>, beside: [u64; 2]| match total {
            None => Ok(None),
            Some(total) => beside
                .into_iter()
                .try_fold(total, |sum, tokens| sum.checked_add(tokens))
                .map(Some)
                .ok_or(UsageError::TooMany { count }),
        };
        let beside = [Part::beside(self.cached_input), Part::beside(self.cache_write_input)];
        let mut entry = TokenUsage {
            provider: self.provider,
            model: self.model,
            input_tokens: whole("inputTokens", self.input, beside)?,
            output_tokens: whole("outputTokens", self.output, [Part::beside(self.reasoning), 0])?,
            total_tokens: None,
            reasoning_tokens: self.reasoning.map(Part::tokens),
            cached_input_tokens: self.cached_input.map(Part::tokens),
            cache_write_input_tokens: self.cache_write_input.map(Part::tokens),
        };
        entry.check()?;
        if let (Some(input), Some(output)) = (entry.input_tokens, entry.output_tokens) {
            entry.total_tokens = Some(input + output);
        }
        entry.check()?;
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_part_is_inside_its_total_or_added_to_it_and_never_both() {
        let call = |cached, written, reasoning| CallUsage {
            input: Some(100),
            cached_input: Some(cached),
            cache_write_input: Some(written),
            output: Some(10),
            reasoning: Some(reasoning),
            ..CallUsage::of("p", "m")
        };
        let inside = call(Part::Inside(40), Part::Inside(5), Part::Inside(4)).account().unwrap();
        let beside = call(Part::Beside(40), Part::Beside(5), Part::Beside(4)).account().unwrap();
        assert_eq!((inside.input_tokens, inside.output_tokens, inside.total_tokens), (Some(100), Some(10), Some(110)));
        assert_eq!((beside.input_tokens, beside.output_tokens, beside.total_tokens), (Some(145), Some(14), Some(159)));
        for entry in [inside, beside] {
            assert_eq!(entry.cached_input_tokens, Some(40));
            assert_eq!(entry.cache_write_input_tokens, Some(5));
            assert_eq!(entry.reasoning_tokens, Some(4));
        }
    }

    #[test]
    fn a_total_that_was_not_reported_is_not_made_up_from_its_parts() {
        let call = CallUsage { cached_input: Some(Part::Beside(40)), output: Some(3), ..CallUsage::default() };
        let entry = call.account().unwrap();
        assert_eq!((entry.input_tokens, entry.cached_input_tokens, entry.total_tokens), (None, Some(40), None));
    }

    #[test]
    fn a_total_with_its_parts_that_is_more_than_can_be_said_is_refused() {
        let call = CallUsage { input: Some(u64::MAX), cached_input: Some(Part::Beside(1)), ..CallUsage::default() };
        assert_eq!(call.account(), Err(UsageError::TooMany { count: "inputTokens" }));
    }
}
