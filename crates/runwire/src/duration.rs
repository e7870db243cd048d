//! Durations as people write them in a configuration: `250ms`, `30s`, `5m`, `1h`, `30d`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// Reads a duration.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let error = || format!("`{text}` is no duration such as 250ms, 30s, 5m, 1h or 30d");
    let number: u64 = number.parse().map_err(|_| error())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(error()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(error)
}

/// For `#[serde(deserialize_with)]` on an optional duration.
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse("30d"), Ok(Duration::from_secs(30 * 24 * 3600)));
        for bad in ["", "5", "s", "5 s", "-1s", "1.5s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(parse(bad).is_err_and(|e| e.contains(&format!("`{bad}`"))), "{bad}");
        }
    }
}
