//! How far a reader of a session has come: the `id` of an event of its stream.
//!
//! `run_a:19,run_b:110`: runs that the reader does not have whole, each with the last frame of it that it has, in the order
//! of their creation. The last one is the newest run that was begun for this reader: what was created before it and is not
//! named is delivered whole, what was created after it not at all.

use std::fmt;

use axum::http::HeaderMap;

use crate::cursor::{CursorQuery, number};
use crate::problem::Problem;

/// The last frame that a reader has of a run; 0 for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunPlace {
    pub run_id: String,
    pub seq: u64,
}

impl fmt::Display for RunPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.run_id, self.seq)
    }
}

/// The most runs of one cursor. A reader has as many open as the session has runs that are not over, and a few more.
const PLACES_MAX: usize = 1000;

fn parse(text: &str) -> Option<Vec<RunPlace>> {
    let mut places: Vec<RunPlace> = Vec::new();
    for part in text.split(',') {
        let (run_id, seq) = part.split_once(':')?;
        let repeated = places.iter().any(|place| place.run_id == run_id);
        if run_id.is_empty() || repeated || places.len() == PLACES_MAX {
            return None;
        }
        places.push(RunPlace { run_id: run_id.to_owned(), seq: number(seq)? });
    }
    Some(places)
}

impl CursorQuery {
    /// A cursor over the runs of a session; empty at its beginning.
    pub(crate) fn session_cursor(&self, headers: &HeaderMap) -> Result<Vec<RunPlace>, Problem> {
        let Some(given) = self.given(headers)?.filter(|g| !g.is_empty()) else { return Ok(Vec::new()) };
        parse(&given).ok_or_else(|| {
            Problem::bad_request(format!(
                "`{given}` is no cursor: it is the `id` of the last event read of this session"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        let places = parse("run_a:19,run_b:0").unwrap();
        let text: Vec<String> = places.iter().map(ToString::to_string).collect();
        assert_eq!(text.join(","), "run_a:19,run_b:0");
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for bad in ["x", ":1", "run_a", "run_a:", "run_a:1,", "run_a:-1", "run_a:1,run_a:2", "run_a:1.0"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
