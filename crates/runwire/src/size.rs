//! Sizes as people write them in a configuration: `500MB`, `20GiB`.

use serde::{Deserialize, Deserializer, de};

/// Reads a size in bytes.
fn parse(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let error = || format!("`{text}` is no size such as 500MB, 20GiB or 1TiB");
    let number: u64 = number.parse().map_err(|_| error())?;
    let bytes = match unit {
        "B" => 1,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(error()),
    };
    number.checked_mul(bytes).ok_or_else(error)
}

/// For `#[serde(deserialize_with)]` on an optional size.
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map(Some).map_err(de::Error::custom)
}

/// A number of bytes, for a person.
pub fn shown(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_a_number_and_a_unit() {
        for (text, bytes) in [("0B", 0), ("7kB", 7000), ("2MB", 2_000_000), ("1KiB", 1024), ("20GiB", 20 << 30)] {
            assert_eq!(parse(text), Ok(bytes));
        }
        for bad in ["", "5", "GB", "5 GB", "-1GB", "1.5GB", "5gb", "99999999999TiB"] {
            assert!(parse(bad).is_err_and(|e| e.contains(&format!("`{bad}`"))), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_with_one_digit_after_the_point() {
        for (bytes, text) in [(999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (3_250_000_000, "3.2 GB")] {
            assert_eq!(shown(bytes), text);
        }
    }
}
