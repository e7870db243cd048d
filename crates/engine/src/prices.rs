//! What tokens cost: prices from the configuration, in decimal arithmetic. No amount is ever a float.

use runwire_bridge::Pricing;
use runwire_frame::{Cost, Usage};
use rust_decimal::Decimal;
use serde_json::{Map, Value};

/// Prices are for so many tokens.
pub const PRICED_TOKENS: u64 = 1_000_000;

/// An amount is written with at least so many decimal places, and with more where it needs them to be exact.
const DECIMAL_PLACES: u32 = 6;

/// What the tokens of one model cost, or of several whose names begin alike. Amounts are for [`PRICED_TOKENS`] tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// Whose model; `None` is anybody's.
    pub provider: Option<String>,
    /// The model's name, or with a `*` at its end what the name begins with.
    pub model: String,
    /// Prompt tokens.
    pub input: Decimal,
    /// Generated tokens.
    pub output: Decimal,
    /// Prompt tokens that were read from a cache; as `input` when not given.
    pub cached_input: Option<Decimal>,
    /// Prompt tokens that were written to a cache; as `input` when not given.
    pub cache_write_input: Option<Decimal>,
    /// Generated tokens that were reasoning; as `output` when not given.
    pub reasoning: Option<Decimal>,
}

/// The prices of all models that have one, in one currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    currency: String,
    prices: Vec<Price>,
}

impl Price {
    /// How well it fits; `None` when it does not. A whole name is better than a beginning, a longer beginning than a
    /// shorter one, and a provider better than anybody.
    fn fit(&self, provider: Option<&str>, model: &str) -> Option<(bool, usize, bool)> {
        if self.provider.is_some() && self.provider.as_deref() != provider {
            return None;
        }
        let whole = match self.model.strip_suffix('*') {
            Some(beginning) if model.starts_with(beginning) => false,
            None if self.model == model => true,
            _ => return None,
        };
        Some((whole, self.model.len(), self.provider.is_some()))
    }

    /// What it comes to, exactly. Every part is charged once: as itself, and not in its total too.
    fn of(&self, usage: &Usage) -> Option<Decimal> {
        // What was not reported is not known, and so neither is what it cost.
        let (input, output) = (usage.input_tokens?, usage.output_tokens?);
        let cached = usage.cached_input_tokens.unwrap_or(0);
        let written = usage.cache_write_input_tokens.unwrap_or(0);
        let reasoning = usage.reasoning_tokens.unwrap_or(0);
        let parts = [
            (input.checked_sub(cached)?.checked_sub(written)?, self.input),
            (cached, self.cached_input.unwrap_or(self.input)),
            (written, self.cache_write_input.unwrap_or(self.input)),
            (output.checked_sub(reasoning)?, self.output),
            (reasoning, self.reasoning.unwrap_or(self.output)),
        ];
        let sum = parts.into_iter().try_fold(Decimal::ZERO, |sum, (tokens, price)| {
            sum.checked_add(price.checked_mul(Decimal::from(tokens))?)
        })?;
        sum.checked_div(Decimal::from(PRICED_TOKENS))
    }
}

impl Prices {
    /// Prices in that currency, an ISO 4217 code.
    pub fn new(currency: impl Into<String>, prices: Vec<Price>) -> Prices {
        Prices { currency: currency.into(), prices }
    }

    /// The currency of every amount.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// What this usage of one model cost; `None` when no price fits, or a total was not reported.
    pub fn amount(&self, usage: &Usage) -> Option<Decimal> {
        let model = usage.model.as_deref()?;
        let fitting =
            self.prices.iter().filter_map(|price| Some((price.fit(usage.provider.as_deref(), model)?, price)));
        fitting.max_by_key(|(fit, _)| *fit)?.1.of(usage)
    }

    /// What these come to. What is in another currency is not counted: it was written under other prices.
    pub(crate) fn sum(&self, costs: &[Value]) -> Decimal {
        let amount = |cost: &Value| {
            let same = cost.get("currency").and_then(Value::as_str) == Some(&*self.currency);
            cost.get("amount").and_then(Value::as_str).filter(|_| same)?.parse::<Decimal>().ok()
        };
        costs.iter().filter_map(amount).fold(Decimal::ZERO, Decimal::saturating_add)
    }

    fn write(&self, amount: Decimal) -> Cost {
        let mut amount = amount.normalize();
        if amount.scale() < DECIMAL_PLACES {
            amount.rescale(DECIMAL_PLACES);
        }
        Cost { currency: self.currency.clone(), amount: amount.to_string(), extra: Map::new() }
    }
}

impl Pricing for Prices {
    fn cost(&self, usage: &Usage) -> Option<Cost> {
        self.amount(usage).map(|amount| self.write(amount))
    }

    fn total(&self, usage: &[Usage]) -> Option<Cost> {
        let mut amounts = usage.iter().map(|usage| self.amount(usage));
        let sum = amounts.try_fold(Decimal::ZERO, |sum, amount| sum.checked_add(amount?))?;
        Some(self.write(sum))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn price(provider: Option<&str>, model: &str, input: &str, output: &str) -> Price {
        Price {
            provider: provider.map(str::to_owned),
            model: model.to_owned(),
            input: input.parse().unwrap(),
            output: output.parse().unwrap(),
            cached_input: None,
            cache_write_input: None,
            reasoning: None,
        }
    }

    fn usage(provider: &str, model: &str, input: u64, output: u64) -> Usage {
        Usage {
            provider: Some(provider.to_owned()),
            model: Some(model.to_owned()),
            input_tokens: Some(input),
            output_tokens: Some(output),
            ..Usage::default()
        }
    }

    fn amount(prices: &Prices, usage: &Usage) -> Option<String> {
        prices.cost(usage).map(|cost| cost.amount)
    }

    #[test]
    fn an_amount_is_exact_and_has_at_least_six_places() {
        let prices = Prices::new("USD", vec![price(None, "m", "0.1", "0.2")]);
        // In binary floating point these are no round numbers.
        assert_eq!(amount(&prices, &usage("p", "m", 1, 1)), Some("0.0000003".to_owned()));
        assert_eq!(amount(&prices, &usage("p", "m", 10_000, 1_000)), Some("0.001200".to_owned()));
        assert_eq!(amount(&prices, &usage("p", "m", 0, 0)), Some("0.000000".to_owned()));
        let most = runwire_agui::MAX_TOKENS;
        assert_eq!(amount(&prices, &usage("p", "m", most, most)), Some("2702159776.4222973".to_owned()));
    }

    #[test]
    fn a_part_is_charged_as_itself_and_not_in_its_total_too() {
        let prices = Prices::new(
            "USD",
            vec![Price {
                cached_input: Some("1".parse().unwrap()),
                cache_write_input: Some("20".parse().unwrap()),
                reasoning: Some("300".parse().unwrap()),
                ..price(None, "m", "10", "100")
            }],
        );
        let usage = Usage {
            cached_input_tokens: Some(500_000),
            cache_write_input_tokens: Some(100_000),
            reasoning_tokens: Some(250_000),
            ..usage("p", "m", 1_000_000, 1_000_000)
        };
        // 0.4 × 10 + 0.5 × 1 + 0.1 × 20 + 0.75 × 100 + 0.25 × 300
        assert_eq!(amount(&prices, &usage), Some("156.500000".to_owned()));
    }

    #[test]
    fn the_closest_price_counts() {
        let prices = Prices::new(
            "USD",
            vec![
                price(None, "*", "1", "0"),
                price(None, "large*", "2", "0"),
                price(None, "large-2*", "3", "0"),
                price(None, "large-2", "4", "0"),
                price(Some("p"), "large-2", "5", "0"),
            ],
        );
        for (provider, model, cost) in [
            ("q", "small", "1.000000"),
            ("q", "large-1", "2.000000"),
            ("q", "large-2-mini", "3.000000"),
            ("q", "large-2", "4.000000"),
            ("p", "large-2", "5.000000"),
        ] {
            assert_eq!(amount(&prices, &usage(provider, model, 1_000_000, 7)), Some(cost.to_owned()), "{model}");
        }
    }

    #[test]
    fn what_is_not_known_has_no_cost_and_makes_the_sum_unknown() {
        let prices = Prices::new("USD", vec![price(None, "m", "1", "1")]);
        let silent = Usage { output_tokens: None, ..usage("p", "m", 5, 5) };
        assert_eq!(amount(&prices, &silent), None, "an absent count is no zero");
        assert_eq!(amount(&prices, &usage("p", "other", 5, 5)), None);
        assert_eq!(prices.total(&[usage("p", "m", 5, 5), usage("p", "other", 5, 5)]), None);
        let sum = prices.total(&[usage("p", "m", 5, 5), usage("q", "m", 1, 0)]).unwrap();
        assert_eq!((sum.currency.as_str(), sum.amount.as_str()), ("USD", "0.000011"));
        let other = serde_json::json!({ "currency": "EUR", "amount": "7" });
        let costs = [serde_json::to_value(&sum).unwrap(), other, Value::Null];
        assert_eq!(prices.sum(&costs), "0.000011".parse().unwrap());
    }
}
