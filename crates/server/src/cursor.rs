//! Where a reader says that it left off.

use std::str::FromStr;

use axum::http::HeaderMap;
use serde::Deserialize;

use crate::problem::Problem;

/// The header by which an event source resumes.
const LAST_EVENT_ID: &str = "last-event-id";

/// `?after=…`: for readers that cannot set a header.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CursorQuery {
    after: Option<String>,
}

impl CursorQuery {
    /// The `Last-Event-ID` header where there is one, else `after`.
    pub(crate) fn given(&self, headers: &HeaderMap) -> Result<Option<String>, Problem> {
        match headers.get(LAST_EVENT_ID) {
            None => Ok(self.after.clone()),
            Some(value) => match value.to_str() {
                Ok(value) => Ok(Some(value.to_owned())),
                Err(_) => Err(Problem::bad_request("the Last-Event-ID header is not text")),
            },
        }
    }

    /// A cursor over frames: the last `seq` that was read; 0 for none.
    pub(crate) fn frame_cursor(&self, headers: &HeaderMap) -> Result<u64, Problem> {
        let Some(given) = self.given(headers)?.filter(|g| !g.is_empty()) else { return Ok(0) };
        number(&given).ok_or_else(|| {
            Problem::bad_request(format!("`{given}` is no cursor: it is the `seq` of the last frame read, or 0"))
        })
    }

    /// A cursor over AG-UI events.
    pub(crate) fn event_cursor(&self, headers: &HeaderMap) -> Result<Option<EventId>, Problem> {
        let Some(given) = self.given(headers)?.filter(|g| !g.is_empty()) else { return Ok(None) };
        EventId::parse(&given).map(Some).ok_or_else(|| {
            Problem::bad_request(format!("`{given}` is no cursor: it is the `id` of the last event read, such as 17.0"))
        })
    }
}

/// Digits and nothing else: Rust's own reading would take a sign too.
pub(crate) fn number<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The `id` of an AG-UI event: the frame that it was derived from, and its number among that frame's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    pub seq: u64,
    pub n: u32,
}

impl EventId {
    pub(crate) fn parse(text: &str) -> Option<EventId> {
        let (seq, n) = text.split_once('.')?;
        Some(EventId { seq: number(seq)?, n: number(n)? })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.seq, self.n)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn query(after: &str) -> CursorQuery {
        CursorQuery { after: Some(after.to_owned()) }
    }

    #[test]
    fn the_header_wins_over_the_query() {
        let mut headers = HeaderMap::new();
        assert_eq!(query("7").frame_cursor(&headers).unwrap(), 7);
        headers.insert(LAST_EVENT_ID, "9".parse().unwrap());
        assert_eq!(query("7").frame_cursor(&headers).unwrap(), 9);
        assert_eq!(CursorQuery::default().frame_cursor(&HeaderMap::new()).unwrap(), 0);
    }

    #[test]
    fn a_cursor_that_is_none_is_refused_and_repeated() {
        let headers = HeaderMap::new();
        for bad in ["x", "-1", "+1", "1.0", "18446744073709551616"] {
            assert!(format!("{:?}", query(bad).frame_cursor(&headers).unwrap_err()).contains(bad));
        }
        for bad in ["7", "7.", ".1", "a.b", "+1.+0", "1.4294967296"] {
            assert!(query(bad).event_cursor(&headers).is_err(), "{bad}");
        }
        let id = query("7.2").event_cursor(&headers).unwrap().unwrap();
        assert_eq!((id, id.to_string()), (EventId { seq: 7, n: 2 }, "7.2".to_owned()));
    }
}
