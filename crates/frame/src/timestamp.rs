//! The instant in an envelope's `ts`: RFC 3339 in UTC with milliseconds.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An instant in milliseconds since the Unix epoch, written as `2026-11-29T21:18:00.123Z`.
///
/// Years 1 to 9999; what lies outside is clamped to the nearest end, so that every value can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// `0001-01-01T00:00:00.000Z` and `9999-12-31T23:59:59.999Z`.
const MIN_MILLIS: i64 = -62_135_596_800_000;
const MAX_MILLIS: i64 = 253_402_300_799_999;

/// The text is no RFC 3339 timestamp in UTC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no RFC 3339 timestamp in UTC such as 2026-11-29T21:18:00.123Z")]
pub struct TimestampError {
    text: String,
}

impl Timestamp {
    /// The instant that many milliseconds after (or before) the Unix epoch.
    pub fn from_unix_millis(millis: i64) -> Timestamp {
        Timestamp(millis.clamp(MIN_MILLIS, MAX_MILLIS))
    }

    /// Milliseconds since the Unix epoch.
    pub fn unix_millis(self) -> i64 {
        self.0
    }

    /// How many milliseconds `later` is after this instant; none when it is before it.
    pub fn millis_until(self, later: Timestamp) -> u64 {
        u64::try_from(later.0 - self.0).unwrap_or(0)
    }

    /// Reads RFC 3339. Any number of fractional digits is taken and cut to milliseconds; the offset must be UTC.
    ///
    /// # Errors
    /// When the text is not RFC 3339 or its offset is not zero.
    pub fn parse(text: &str) -> Result<Timestamp, TimestampError> {
        let error = || TimestampError { text: text.to_owned() };
        let instant = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| error())?;
        if !instant.offset().is_utc() {
            return Err(error());
        }
        let millis = instant.unix_timestamp_nanos().div_euclid(1_000_000);
        Ok(Timestamp::from_unix_millis(i64::try_from(millis).map_err(|_| error())?))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .expect("the constructor clamps to years that time can represent");
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            instant.year(),
            u8::from(instant.month()),
            instant.day(),
            instant.hour(),
            instant.minute(),
            instant.second(),
            instant.millisecond()
        )
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ts_is_rfc3339_in_utc_with_milliseconds() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_796_073_480_123, "2026-11-30T21:18:00.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "0001-01-01T00:00:00.000Z"),
        ] {
            let ts = Timestamp::from_unix_millis(millis);
            assert_eq!(ts.to_string(), text);
            assert_eq!(Timestamp::parse(text).unwrap(), ts);
        }
    }

    #[test]
    fn ts_reading_takes_other_precisions_and_refuses_other_offsets() {
        assert_eq!(Timestamp::parse("1970-01-01T00:00:00Z").unwrap().unix_millis(), 0);
        assert_eq!(Timestamp::parse("1970-01-01T00:00:00.0019999Z").unwrap().unix_millis(), 1);
        for bad in ["1970-01-01T01:00:00.000+01:00", "1970-01-01", "", "yesterday", "1970-13-01T00:00:00.000Z"] {
            let error = Timestamp::parse(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
    }
}
