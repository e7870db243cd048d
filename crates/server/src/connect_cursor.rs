//! How far a reader of a thread has come: the `id` of an event of `connect`.
//!
//! `run_…/17.0` is an event of a live exchange, as everywhere; `run_…/17.0+1` and `+2` are the messages and the state that
//! are restated behind it. `thread/0` to `thread/3` are the events of the run that restates the thread, `waiting/0` and
//! `waiting/3` of the one that says what waits. After `~` come the exchanges that are still to be told, each with a frame
//! of it.

use std::collections::HashSet;
use std::fmt;

use axum::http::HeaderMap;
use runwire_engine::Place;

use crate::cursor::{CursorQuery, EventId, number};
use crate::problem::Problem;

/// A place in the answer to `connect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectCursor {
    pub at: At,
    /// Exchanges that follow the one that `at` is in.
    pub later: Vec<Place>,
}

/// An event of that answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Of the run that restates the thread.
    Restated(u32),
    /// Of an exchange: derived from a frame, or restated behind that.
    Event { run_id: String, id: EventId, restated: u32 },
    /// Of the run that says what waits for an answer.
    Waiting(u32),
}

/// The longest that is read. An answer that would need a longer one is told again from the thread's beginning.
const MAX_BYTES: usize = 64 * 1024;

/// The most events of a run that only restates.
const RESTATED_MAX: u32 = 3;

impl ConnectCursor {
    /// `None` for what is none.
    pub(crate) fn parse(text: &str) -> Option<ConnectCursor> {
        // Whoever is told it gets it with each event, and each place costs reading a run.
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut parts = text.split('~');
        let at = At::parse(parts.next()?)?;
        let later = parts.map(|part| {
            let (run_id, seq) = part.split_once('/')?;
            (!run_id.is_empty()).then_some(Place { run_id: run_id.to_owned(), seq: number(seq)? })
        });
        let cursor = ConnectCursor { at, later: later.collect::<Option<_>>()? };
        let mut named = HashSet::new();
        let once = cursor.places().into_iter().all(|place| named.insert(place.run_id));
        once.then_some(cursor)
    }

    /// The exchanges that the reader does not have whole, in order.
    pub(crate) fn places(&self) -> Vec<Place> {
        let first = match &self.at {
            At::Event { run_id, id, .. } => Some(Place { run_id: run_id.clone(), seq: id.seq }),
            At::Restated(_) | At::Waiting(_) => None,
        };
        first.into_iter().chain(self.later.iter().cloned()).collect()
    }
}

impl At {
    fn parse(text: &str) -> Option<At> {
        let (of, place) = text.split_once('/')?;
        let within = |place: &str| number(place).filter(|n| *n <= RESTATED_MAX);
        match of {
            "" => None,
            "thread" => Some(At::Restated(within(place)?)),
            "waiting" => Some(At::Waiting(within(place)?)),
            run_id => {
                let (id, restated) = match place.split_once('+') {
                    None => (place, 0),
                    Some((id, restated)) => (id, number(restated).filter(|n| (1..=2).contains(n))?),
                };
                Some(At::Event { run_id: run_id.to_owned(), id: EventId::parse(id)?, restated })
            }
        }
    }
}

impl fmt::Display for ConnectCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Restated(n) => write!(f, "thread/{n}")?,
            At::Waiting(n) => write!(f, "waiting/{n}")?,
            At::Event { run_id, id, restated: 0 } => write!(f, "{run_id}/{id}")?,
            At::Event { run_id, id, restated } => write!(f, "{run_id}/{id}+{restated}")?,
        }
        for Place { run_id, seq } in &self.later {
            write!(f, "~{run_id}/{seq}")?;
        }
        Ok(())
    }
}

impl CursorQuery {
    /// A cursor over what `connect` answers.
    pub(crate) fn connect_cursor(&self, headers: &HeaderMap) -> Result<Option<ConnectCursor>, Problem> {
        let Some(given) = self.given(headers)?.filter(|g| !g.is_empty()) else { return Ok(None) };
        ConnectCursor::parse(&given).map(Some).ok_or_else(|| {
            Problem::bad_request(format!(
                "`{given}` is no cursor: it is the `id` of the last event read of this thread"
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
        for text in ["thread/0", "thread/3~run_a/0~run_b/17", "run_a/17.2", "run_a/17.0+2~run_b/0", "waiting/3"] {
            assert_eq!(ConnectCursor::parse(text).unwrap().to_string(), text);
        }
        let cursor = ConnectCursor::parse("run_a/17.2~run_b/4").unwrap();
        let place = |run_id: &str, seq| Place { run_id: run_id.to_owned(), seq };
        assert_eq!(cursor.places(), [place("run_a", 17), place("run_b", 4)]);
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for bad in [
            "x",
            "17.0",
            "thread/4",
            "thread/",
            "/1.0",
            "run_a/1",
            "run_a/1.0+3",
            "run_a/1.0+0",
            "run_a/1.0~",
            "run_a/1.0~/1",
            "run_a/1.0~b/x",
        ] {
            assert_eq!(ConnectCursor::parse(bad), None, "{bad}");
        }
        assert_eq!(ConnectCursor::parse("run_a/1.0~run_b/1~run_b/1"), None, "an exchange is told once");
        let long: String = (0..8000).map(|n| format!("~run_{n}/1")).collect();
        assert!(long.len() > MAX_BYTES);
        assert_eq!(ConnectCursor::parse(&format!("run_a/1.0{long}")), None, "no answer has one as long");
    }
}
