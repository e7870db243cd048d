//! How long an HTTP service asks to be left alone.

use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use runwire_frame::Timestamp;

use crate::clock::now;

/// The `Retry-After` of an answer: in seconds, or as a date (RFC 9110, 10.2.3), which is zero once it has passed. `None` when
/// there is none, or one that cannot be read.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    read(headers.get(RETRY_AFTER)?.to_str().ok()?.trim(), now())
}

fn read(value: &str, now: Timestamp) -> Option<Duration> {
    // Seconds are whole by the rule; some services send parts of one.
    if let Ok(seconds) = value.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let date = Timestamp::from_unix_millis(i64::try_from(date.as_millis()).ok()?);
    Some(Duration::from_millis(now.millis_until(date)))
}

/// The same in a sentence, behind what was answered; nothing where there is none.
pub fn told_retry_after(wait: Option<Duration>) -> String {
    wait.map(|wait| format!(" and asks to wait {} s", wait.as_secs_f64())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_seconds_or_a_date_in_each_of_the_three_forms() {
        let now = Timestamp::from_unix_millis(784_111_770_500);
        for (value, wait) in [
            ("7", Some(7_000)),
            ("0", Some(0)),
            ("1.5", Some(1_500)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(6_500)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(6_500)),
            ("Sun Nov  6 08:49:37 1994", Some(6_500)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("1e300", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(read(value, now), wait.map(Duration::from_millis), "{value}");
        }
    }

    #[test]
    fn it_is_told_only_where_it_is_there() {
        assert_eq!(told_retry_after(Some(Duration::from_secs(7))), " and asks to wait 7 s");
        assert_eq!(told_retry_after(None), "");
    }
}
