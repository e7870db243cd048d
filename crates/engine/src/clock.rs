//! The one place where the wall clock is read, by the engine and by what serves its runs.

use std::time::{SystemTime, UNIX_EPOCH};

use runwire_frame::Timestamp;

/// Now, as a log records it.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
