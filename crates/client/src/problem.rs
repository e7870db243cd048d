//! What a server says about a request that it did not serve: problem details (RFC 9457).

use std::fmt;

use http::StatusCode;
use serde_json::{Map, Value};

/// Most characters of an answer that is no problem document, when they stand in for one.
const EXCERPT_CHARACTERS: usize = 200;

/// A request that the server did not serve, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// What kind of problem it is.
    pub title: String,
    /// What it is in this case.
    pub detail: Option<String>,
    /// Every member of the problem document, these included.
    pub members: Map<String, Value>,
}

impl Problem {
    /// Reads an answer. One that is no problem document (a proxy's, say) gives its beginning as `detail`.
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Problem {
        let document: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
        let text = |key| document.as_ref()?.get(key)?.as_str().map(str::to_owned);
        let title =
            text("title").unwrap_or_else(|| status.canonical_reason().unwrap_or("an unknown HTTP status").to_owned());
        let detail = match document {
            Some(_) => text("detail"),
            None => {
                let excerpt: String = String::from_utf8_lossy(body).trim().chars().take(EXCERPT_CHARACTERS).collect();
                Some(excerpt).filter(|e| !e.is_empty())
            }
        };
        Problem { status: status.as_u16(), title, detail, members: document.unwrap_or_default() }
    }

    /// A whole number among the members, such as `oldest` or `head`.
    pub(crate) fn number(&self, member: &str) -> Option<u64> {
        self.members.get(member)?.as_u64()
    }

    /// A text among the members, such as `run_id`.
    pub(crate) fn text(&self, member: &str) -> Option<&str> {
        self.members.get(member)?.as_str()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (HTTP {})", self.title, self.status)?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_a_sentence_whatever_its_body() {
        for (status, body, sentence) in [
            (
                404,
                r#"{"title":"No such run","detail":"There is no run r.","status":404}"#,
                "No such run (HTTP 404): There is no run r.",
            ),
            (404, r#"{"detail":"There is no run r."}"#, "Not Found (HTTP 404): There is no run r."),
            (410, r#"{"oldest":7}"#, "Gone (HTTP 410)"),
            (502, "<h1>Bad gateway</h1>\n", "Bad Gateway (HTTP 502): <h1>Bad gateway</h1>"),
            (503, "", "Service Unavailable (HTTP 503)"),
            (599, "", "an unknown HTTP status (HTTP 599)"),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(Problem::read(status, body.as_bytes()).to_string(), sentence);
        }
    }

    #[test]
    fn members_beyond_the_standard_ones_are_kept() {
        let problem = Problem::read(StatusCode::GONE, br#"{"title":"Gone","oldest":7}"#);
        assert_eq!(problem.number("oldest"), Some(7));
        assert_eq!(problem.number("head"), None);
    }
}
