//! Token counts of a run (events/lifecycle, "Token usage").
//!
//! Every count is a total or a named part of one, and an absent count is unknown, never zero. Three types keep that:
//!
//! - [`TokenUsage`] is one entry as it travels;
//! - [`CallUsage`] makes an entry of what a provider reports, and has to be told of every part whether the provider's
//!   total includes it, so that nothing is counted twice or left out;
//! - [`UsageLedger`] sums entries per provider and model over one run, which is the boundary of an account.

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

    /// `totalTokens`, or what the entry says of the two that it is the sum of.
    fn known_total(&self) -> Option<u64> {
        self.total_tokens.or_else(|| add(self.input_tokens, self.output_tokens))
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

/// Sums entries per provider and model, in the order in which each was first seen.
///
/// A count is the sum of those that were reported, and absent when none was. One ledger is the account of one run: the
/// run's own calls and its subagents' go in; those of a run that it spawned, and of the runs that it continues, do not,
/// because each of these reports its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageLedger {
    entries: Vec<TokenUsage>,
}

impl UsageLedger {
    /// Counts one call, or several that were summed already.
    ///
    /// # Errors
    /// When the entry does not add up, or a sum would be more than [`MAX_TOKENS`]. Then nothing was counted.
    pub fn add(&mut self, entry: &TokenUsage) -> Result<(), UsageError> {
        entry.check()?;
        let Some(sum) = self.of_same_model(entry) else {
            self.entries.push(entry.clone());
            return Ok(());
        };
        let summed = summed(sum, entry);
        // Each of the two is at most 2^53 - 1, so that the sum of both fits into what it is checked in.
        summed.check_sizes()?;
        *sum = summed;
        Ok(())
    }

    /// Takes the account that somebody else gives, such as an upstream agent, as it stands: it is theirs to answer for,
    /// and alone it stays what it was. A sum that would be more than [`MAX_TOKENS`] stays at that.
    pub fn add_reported(&mut self, entry: &TokenUsage) {
        match self.of_same_model(entry) {
            Some(sum) => *sum = summed(sum, entry).capped(),
            None => self.entries.push(entry.clone().capped()),
        }
    }

    /// One entry per provider and model; `None` when nothing was counted.
    #[must_use]
    pub fn entries(&self) -> Option<&[TokenUsage]> {
        (!self.entries.is_empty()).then_some(&*self.entries)
    }

    fn of_same_model(&mut self, entry: &TokenUsage) -> Option<&mut TokenUsage> {
        self.entries.iter_mut().find(|sum| sum.provider == entry.provider && sum.model == entry.model)
    }
}

impl TokenUsage {
    fn check_sizes(&self) -> Result<(), UsageError> {
        match self.counts().into_iter().find(|(_, value)| value.is_some_and(|value| value > MAX_TOKENS)) {
            Some((count, _)) => Err(UsageError::TooMany { count }),
            None => Ok(()),
        }
    }

    fn capped(mut self) -> Self {
        for count in [
            &mut self.input_tokens,
            &mut self.output_tokens,
            &mut self.total_tokens,
            &mut self.reasoning_tokens,
            &mut self.cached_input_tokens,
            &mut self.cache_write_input_tokens,
        ] {
            *count = count.map(|count| count.min(MAX_TOKENS));
        }
        self
    }
}

fn summed(a: &TokenUsage, b: &TokenUsage) -> TokenUsage {
    // Where one of the two says a total, the other's share of it is what it says of the total's halves.
    let total = (a.total_tokens.is_some() || b.total_tokens.is_some()).then(|| add(a.known_total(), b.known_total()));
    TokenUsage {
        provider: a.provider.clone(),
        model: a.model.clone(),
        input_tokens: add(a.input_tokens, b.input_tokens),
        output_tokens: add(a.output_tokens, b.output_tokens),
        total_tokens: total.flatten(),
        reasoning_tokens: add(a.reasoning_tokens, b.reasoning_tokens),
        cached_input_tokens: add(a.cached_input_tokens, b.cached_input_tokens),
        cache_write_input_tokens: add(a.cache_write_input_tokens, b.cache_write_input_tokens),
    }
}

/// The sum of what is there; absent when neither is.
fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, None) | (None, one) => one,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn entry(model: &str, input: u64, output: Option<u64>) -> TokenUsage {
        TokenUsage {
            model: Some(model.to_owned()),
            input_tokens: Some(input),
            output_tokens: output,
            ..TokenUsage::new()
        }
    }

    fn summed_up(entries: &[TokenUsage]) -> Vec<TokenUsage> {
        let mut ledger = UsageLedger::default();
        for entry in entries {
            ledger.add(entry).unwrap();
        }
        ledger.entries().unwrap_or_default().to_vec()
    }

    #[test]
    fn counts_are_summed_per_provider_and_model_in_the_order_of_their_first_call() {
        let other = TokenUsage { provider: Some("p".to_owned()), ..entry("a", 1, None) };
        let calls = [entry("b", 3, Some(1)), entry("a", 10, None), other.clone(), entry("b", 4, None)];
        assert_eq!(summed_up(&calls), [entry("b", 7, Some(1)), entry("a", 10, None), other]);
    }

    #[test]
    fn an_absent_count_is_never_a_zero_and_nothing_counted_is_no_account() {
        assert_eq!(UsageLedger::default().entries(), None);
        let sum = summed_up(&[entry("a", 1, None), entry("a", 2, None)]);
        assert_eq!(sum[0].output_tokens, None);
        assert_eq!(sum[0].total_tokens, None);
        let zero = TokenUsage { cached_input_tokens: Some(0), ..entry("a", 1, None) };
        assert_eq!(summed_up(std::slice::from_ref(&zero))[0], zero, "a zero that was reported is one");
    }

    #[test]
    fn a_summed_total_is_what_its_halves_come_to_also_where_a_call_left_it_to_be_computed() {
        let whole = TokenUsage { total_tokens: Some(7), ..entry("a", 3, Some(4)) };
        let sum = summed_up(&[entry("a", 5, None), whole, entry("a", 2, Some(2))]);
        assert_eq!((sum[0].input_tokens, sum[0].output_tokens, sum[0].total_tokens), (Some(10), Some(6), Some(16)));
    }

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
    fn what_does_not_add_up_is_refused_and_nothing_of_it_counted() {
        let mut ledger = UsageLedger::default();
        ledger.add(&entry("a", MAX_TOKENS, None)).unwrap();
        let before = ledger.clone();
        let refusals = [
            (entry("a", 1, None), UsageError::TooMany { count: "inputTokens" }),
            (entry("b", MAX_TOKENS + 1, None), UsageError::TooMany { count: "inputTokens" }),
            (
                TokenUsage { cached_input_tokens: Some(3), cache_write_input_tokens: Some(3), ..entry("a", 5, None) },
                UsageError::PartsExceedTotal {
                    parts: "cachedInputTokens and cacheWriteInputTokens",
                    given: 6,
                    whole: "inputTokens",
                    total: 5,
                },
            ),
            (
                TokenUsage { reasoning_tokens: Some(2), ..entry("a", 0, Some(1)) },
                UsageError::PartsExceedTotal { parts: "reasoningTokens", given: 2, whole: "outputTokens", total: 1 },
            ),
            (
                TokenUsage { total_tokens: Some(9), ..entry("a", 5, Some(5)) },
                UsageError::WrongTotal { total: 9, sum: 10 },
            ),
            (
                TokenUsage { total_tokens: Some(4), ..entry("a", 5, None) },
                UsageError::PartsExceedTotal { parts: "inputTokens", given: 5, whole: "totalTokens", total: 4 },
            ),
        ];
        for (entry, refusal) in refusals {
            assert_eq!(ledger.add(&entry), Err(refusal));
            assert_eq!(ledger, before);
        }
        let call = CallUsage { input: Some(u64::MAX), cached_input: Some(Part::Beside(1)), ..CallUsage::default() };
        assert_eq!(call.account(), Err(UsageError::TooMany { count: "inputTokens" }));
    }

    #[test]
    fn an_account_that_somebody_else_gives_stays_what_it_was() {
        let theirs = TokenUsage { cached_input_tokens: Some(9), total_tokens: Some(1), ..entry("a", 5, Some(5)) };
        let mut ledger = UsageLedger::default();
        ledger.add_reported(&theirs);
        assert_eq!(ledger.entries(), Some(&[theirs][..]));
        ledger.add_reported(&entry("a", u64::MAX, None));
        assert_eq!(ledger.entries().unwrap()[0].input_tokens, Some(MAX_TOKENS), "what can be said of it");
    }
}
