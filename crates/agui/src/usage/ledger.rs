//! Usage summed over a run, so that a sum never says more than its calls did.

use super::{MAX_TOKENS, TokenUsage, UsageError};

/// Sums entries per provider and model, in the order in which each was first seen.
///
/// A count is the sum of those that were reported, and absent when none was. It is absent, too, where it is known for a part
/// only of what another count is about, so that a sum never contradicts itself: beside a `totalTokens` stands no half that one of
/// the calls in it did not report, and beside a half no part of it that a call without that half reported. One ledger is the account of
/// one run: the run's own calls and its subagents' go in; those of a run that it spawned, and of the runs that it continues, do
/// not, because each of these reports its own.
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
    /// and alone it stays what it was. A sum that would be more than [`MAX_TOKENS`] stays at that, and a total of such halves is
    /// left out. What contradicts itself is summed as far as that can be: the total is that of its halves, and parts that are
    /// more than their half are left out.
    pub fn add_reported(&mut self, entry: &TokenUsage) {
        match self.of_same_model(entry) {
            Some(sum) => *sum = summed(sum, entry).capped().settled(),
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
    /// `totalTokens`, or what the entry says of the two that it is the sum of.
    fn known_total(&self) -> Option<u64> {
        self.total_tokens.or_else(|| add(self.input_tokens, self.output_tokens))
    }

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

    /// The same without what contradicts itself: [`TokenUsage::check`] takes it. No count is above [`MAX_TOKENS`] before.
    fn settled(mut self) -> Self {
        if let (Some(input), Some(output), Some(_)) = (self.input_tokens, self.output_tokens, self.total_tokens) {
            // What is more than can be said is not said.
            self.total_tokens = Some(input + output).filter(|total| *total <= MAX_TOKENS);
        }
        let most = self.total_tokens.unwrap_or(MAX_TOKENS);
        for half in [&mut self.input_tokens, &mut self.output_tokens] {
            *half = half.filter(|half| *half <= most);
        }
        let cached = self.cached_input_tokens.unwrap_or(0) + self.cache_write_input_tokens.unwrap_or(0);
        if self.input_tokens.is_some_and(|input| cached > input) {
            (self.cached_input_tokens, self.cache_write_input_tokens) = (None, None);
        }
        if self.output_tokens.is_some_and(|output| self.reasoning_tokens.is_some_and(|reasoning| reasoning > output)) {
            self.reasoning_tokens = None;
        }
        self
    }
}

fn summed(a: &TokenUsage, b: &TokenUsage) -> TokenUsage {
    // Where one of the two says a total, the other's share of it is what it says of the total's halves.
    let total = (a.total_tokens.is_some() || b.total_tokens.is_some()).then(|| add(a.known_total(), b.known_total()));
    let half = |of: fn(&TokenUsage) -> Option<u64>| {
        // Of a total that one of the two says, its share of this half is not known.
        let unknown = |usage: &TokenUsage| usage.total_tokens.is_some() && of(usage).is_none();
        if unknown(a) || unknown(b) { None } else { add(of(a), of(b)) }
    };
    let (input, output) = (half(|usage| usage.input_tokens), half(|usage| usage.output_tokens));
    let part = |of: fn(&TokenUsage) -> Option<u64>, whole: Option<u64>, half: fn(&TokenUsage) -> Option<u64>| {
        // It is a part of the sum of this half only where its half is in that.
        let within = |usage: &TokenUsage| of(usage).filter(|_| whole.is_none() || half(usage).is_some());
        add(within(a), within(b))
    };
    TokenUsage {
        provider: a.provider.clone(),
        model: a.model.clone(),
        input_tokens: input,
        output_tokens: output,
        total_tokens: total.flatten(),
        reasoning_tokens: part(|usage| usage.reasoning_tokens, output, |usage| usage.output_tokens),
        cached_input_tokens: part(|usage| usage.cached_input_tokens, input, |usage| usage.input_tokens),
        cache_write_input_tokens: part(|usage| usage.cache_write_input_tokens, input, |usage| usage.input_tokens),
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

    fn counts(input: Option<u64>, output: Option<u64>, total: Option<u64>) -> TokenUsage {
        TokenUsage { input_tokens: input, output_tokens: output, total_tokens: total, ..TokenUsage::new() }
    }

    /// The sum of the entries in every order, which makes no difference.
    fn in_any_order(entries: &[TokenUsage]) -> TokenUsage {
        let sum = summed_up(entries);
        let turned: Vec<TokenUsage> = entries.iter().rev().cloned().collect();
        assert_eq!(summed_up(&turned), sum, "{entries:?}");
        assert_eq!(sum.len(), 1);
        sum[0].clone()
    }

    #[test]
    fn beside_a_total_stands_no_half_that_one_of_its_calls_did_not_report() {
        let (whole, only_total) = (counts(Some(5), Some(5), Some(10)), counts(None, None, Some(10)));
        assert_eq!(in_any_order(&[only_total.clone(), whole.clone()]), counts(None, None, Some(20)));
        assert_eq!(in_any_order(&[whole.clone(), only_total.clone(), whole.clone()]), counts(None, None, Some(30)));
        let half = counts(Some(4), None, Some(10));
        assert_eq!(in_any_order(&[whole.clone(), half.clone()]), counts(Some(9), None, Some(20)));
        assert_eq!(in_any_order(&[whole.clone(), half, only_total]), counts(None, None, Some(30)));
        // Nothing is said of a total by who reports one half: it is in the total with that.
        assert_eq!(in_any_order(&[whole, counts(Some(1), None, None)]), counts(Some(6), Some(5), Some(11)));
    }

    #[test]
    fn beside_a_half_stands_no_part_of_another_call_s() {
        let part = TokenUsage { cached_input_tokens: Some(9), reasoning_tokens: Some(7), ..TokenUsage::new() };
        let whole = TokenUsage { cached_input_tokens: Some(2), ..counts(Some(5), Some(5), Some(10)) };
        assert_eq!(in_any_order(&[part.clone(), whole.clone()]), whole);
        let twice = TokenUsage { cached_input_tokens: Some(18), reasoning_tokens: Some(14), ..TokenUsage::new() };
        assert_eq!(in_any_order(&[part.clone(), part]), twice, "where the half is nobody's they are what is known");
        // A half that is left out leaves its parts, as those of the calls that reported them.
        let sum = in_any_order(&[counts(None, None, Some(10)), whole]);
        assert_eq!(sum, TokenUsage { cached_input_tokens: Some(2), ..counts(None, None, Some(20)) });
    }

    /// Every entry that can be made of a few counts, as far as it adds up.
    fn entries() -> Vec<TokenUsage> {
        let some = [None, Some(0), Some(1), Some(3)];
        let mut entries = Vec::new();
        for (input, output, total) in some.iter().flat_map(|input| {
            some.iter().flat_map(move |output| [None, Some(3), Some(4)].map(|total| (*input, *output, total)))
        }) {
            for (cached, written, reasoning) in
                [(None, None, None), (Some(1), None, Some(1)), (Some(1), Some(2), Some(3))]
            {
                entries.push(TokenUsage {
                    cached_input_tokens: cached,
                    cache_write_input_tokens: written,
                    reasoning_tokens: reasoning,
                    ..counts(input, output, total)
                });
            }
        }
        entries
    }

    #[test]
    fn a_sum_adds_up_and_can_be_added_again_whatever_its_calls_reported() {
        let sound: Vec<TokenUsage> = entries().into_iter().filter(|entry| entry.check().is_ok()).collect();
        assert!(sound.len() > 50);
        for a in &sound {
            for b in &sound {
                let pair = summed_up(&[a.clone(), b.clone()]);
                assert_eq!(pair[0].check(), Ok(()), "{a:?} and {b:?}");
                for c in &sound {
                    let sum = summed_up(&[pair[0].clone(), c.clone()]);
                    assert_eq!(sum[0].check(), Ok(()), "{a:?}, {b:?} and {c:?}");
                }
            }
        }
    }

    #[test]
    fn what_others_report_is_summed_to_what_adds_up_although_it_does_not_itself() {
        let mut all = entries();
        all.push(counts(Some(u64::MAX), Some(1), Some(u64::MAX)));
        for a in &all {
            for b in &all {
                let mut ledger = UsageLedger::default();
                ledger.add_reported(a);
                ledger.add_reported(b);
                let sum = &ledger.entries().unwrap()[0];
                assert_eq!(sum.check(), Ok(()), "{a:?} and {b:?}: {sum:?}");
                assert!(UsageLedger::default().add(sum).is_ok());
            }
        }
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
