//! When an interrupt can no longer be answered (patterns/interrupt-resume, "Resuming").
//!
//! The protocol does not say how `expiresAt` is written, only that by convention it is an ISO 8601 time; whether an
//! interrupt has expired is the reading of whoever judges. Here it is a date, or a date and a time; a time without an
//! offset is in UTC. Anything else is no time, and an interrupt without one does not expire.

use crate::outcome::Interrupt;

impl Interrupt {
    /// Whether the interrupt can no longer be answered, only given up: its `expiresAt` is a time, and is now or earlier.
    ///
    /// `now_unix_millis` is in milliseconds since 1970 in UTC. A time is read as ISO 8601, in UTC when it names no offset; an
    /// interrupt whose `expiresAt` is none does not expire, because the protocol leaves the reading to whoever judges.
    #[must_use]
    pub fn has_expired(&self, now_unix_millis: i64) -> bool {
        self.expires_unix_millis().is_some_and(|expires| expires <= now_unix_millis)
    }

    /// When the interrupt expires, in milliseconds since 1970 in UTC, read as [`Interrupt::has_expired`] reads it; `None`
    /// when it does not.
    #[must_use]
    pub fn expires_unix_millis(&self) -> Option<i64> {
        self.expires_at.as_deref().and_then(unix_millis)
    }
}

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// The milliseconds since 1970 in UTC that an ISO 8601 time stands for; `None` when the text is none.
fn unix_millis(text: &str) -> Option<i64> {
    let mut reader = Reader(text.trim().as_bytes());
    let year = reader.number(4)?;
    reader.take(b"-")?;
    let month = reader.number(2)?;
    reader.take(b"-")?;
    let day = reader.number(2)?;
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let midnight = days_since_1970(year, month, day) * DAY;
    if reader.0.is_empty() {
        return Some(midnight);
    }
    reader.take(b"Tt ")?;
    let hour = reader.number(2)?;
    reader.take(b":")?;
    let minute = reader.number(2)?;
    let mut millis = 0;
    if reader.take(b":").is_some() {
        // The second that is sometimes put in at the end of a day counts as the first of the next.
        let second = reader.number(2).filter(|second| *second <= 60)?;
        millis = second * 1000 + if reader.take(b".,").is_some() { reader.fraction()? } else { 0 };
    }
    if hour > 23 || minute > 59 {
        return None;
    }
    let local = midnight + (hour * 60 + minute) * MINUTE + millis;
    Some(local - reader.offset()? * MINUTE)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// One of these bytes.
    fn take(&mut self, bytes: &[u8]) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        bytes.contains(&first).then(|| {
            self.0 = rest;
            first
        })
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        let mut value = 0;
        for _ in 0..digits {
            value = value * 10 + i64::from(self.take(b"0123456789")? - b'0');
        }
        Some(value)
    }

    /// The thousandths that digits behind the point stand for; what is finer is cut off.
    fn fraction(&mut self) -> Option<i64> {
        let mut value = 0;
        let mut place = 100;
        let mut digits = 0;
        while let Some(digit) = self.take(b"0123456789") {
            value += i64::from(digit - b'0') * place;
            place /= 10;
            digits += 1;
        }
        (digits > 0).then_some(value)
    }

    /// How many minutes the written time is ahead of UTC. Nothing may follow.
    fn offset(&mut self) -> Option<i64> {
        let sign = match self.take(b"Zz+-") {
            None => return self.0.is_empty().then_some(0),
            Some(b'Z' | b'z') => return self.0.is_empty().then_some(0),
            Some(b'-') => -1,
            Some(_) => 1,
        };
        let hours = self.number(2).filter(|hours| *hours <= 23)?;
        let minutes = match self.0.is_empty() {
            true => 0,
            false => {
                let _ = self.take(b":");
                self.number(2).filter(|minutes| *minutes <= 59)?
            }
        };
        self.0.is_empty().then_some(sign * (hours * 60 + minutes))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1 January 1970 to this day, in the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let in_year: i64 = (1..month).map(|earlier| days_in(year, earlier)).sum();
    // 719,162 days lie between 1 January of the year 1 and that of 1970.
    before * 365 + leap_days + in_year + day - 1 - 719_162
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn iso_8601_times_are_read_to_the_millisecond() {
        for (text, millis) in [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-11-29T21:18:00.123Z", 1_795_987_080_123),
            ("2026-11-29t21:18:00.1234567z", 1_795_987_080_123),
            ("2026-11-29 21:18:00,5", 1_795_987_080_500),
            ("2026-11-29T23:18:00+02:00", 1_795_987_080_000),
            ("2026-11-29T15:48-0530", 1_795_987_080_000),
            ("2026-11-29T22:18+01", 1_795_987_080_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("0001-01-01", -62_135_596_800_000),
        ] {
            assert_eq!(unix_millis(text), Some(millis), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "soon",
            "1795986000",
            "2026-13-01",
            "2026-02-29",
            "2026-11-29T24:00:00Z",
            "2026-11-29T21:60:00Z",
            "2026-11-29T21:18:61Z",
            "2026-11-29T21:18:00.Z",
            "2026-11-29T21:18:00Zulu",
            "2026-11-29T21:18:00+25:00",
            "2026-11-29T21",
            "2026-11-29T21:18:00Z tomorrow",
            "２０２６-11-29",
        ] {
            assert_eq!(unix_millis(text), None, "{text:?}");
        }
    }
}
