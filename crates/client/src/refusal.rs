//! What a follower makes of an HTTP answer that is no stream. One table for SSE, for the WebSocket's upgrade and for
//! AG-UI.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use crate::disconnect::Stop;
use crate::{Disconnect, FollowError, Problem};

/// Most bytes of a refusal's body that are read.
const BODY_MAX_BYTES: usize = 64 * 1024;

/// What follows from `status`, which is not the one that opens a stream.
pub(crate) fn stop(run_id: &str, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Stop {
    let problem = Problem::read(status, body);
    // Of several runs, the one that it is about.
    let run_id = problem.text("run_id").unwrap_or(run_id).to_owned();
    match status.as_u16() {
        204 => Stop::Ended,
        401 | 403 => FollowError::Unauthorized { detail: problem.to_string() }.into(),
        404 => FollowError::RunNotFound { run_id }.into(),
        410 => FollowError::Gone { run_id, oldest: problem.number("oldest") }.into(),
        416 => FollowError::PastHead { run_id, head: problem.number("head") }.into(),
        // Too slow, too early, too often, or out of order: each of these may pass.
        408 | 425 | 429 | 500.. => Stop::Cut {
            reason: Disconnect::Status { status: problem.status, detail: problem.detail.unwrap_or(problem.title) },
            retry_after: retry_after(headers, OffsetDateTime::now_utc()),
        },
        status => FollowError::Refused { run_id, status: Some(status), detail: problem.to_string() }.into(),
    }
}

/// As [`stop`], for an answer whose body is still to be read.
pub(crate) async fn stop_of(run_id: &str, mut response: reqwest::Response) -> Stop {
    let mut body = Vec::new();
    // A body that breaks off still has its status, which is what decides.
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= BODY_MAX_BYTES {
            body.truncate(BODY_MAX_BYTES);
            break;
        }
    }
    stop(run_id, response.status(), response.headers(), &body)
}

/// `Retry-After` as a wait: seconds, or a date. Unreadable counts as absent.
fn retry_after(headers: &HeaderMap, now: OffsetDateTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = OffsetDateTime::parse(value, &Rfc2822).ok()?;
    Some((date - now).try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn with_retry_after(value: &'static str) -> HeaderMap {
        [(RETRY_AFTER, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = OffsetDateTime::from_unix_timestamp(1_796_000_000).unwrap();
        for (value, wait) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sat, 01 Jan 2028 00:00:00 GMT", Some(1_830_297_600 - 1_796_000_000)),
            ("soon", None),
            ("-1", None),
        ] {
            assert_eq!(retry_after(&with_retry_after(value), now), wait.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn each_status_ends_gives_up_or_comes_back() {
        let body = br#"{"title":"t","detail":"d","oldest":7,"head":9}"#;
        let table = [
            (204, "Ended"),
            (400, "Refused"),
            (401, "Unauthorized"),
            (403, "Unauthorized"),
            (404, "RunNotFound"),
            (408, "Cut"),
            (409, "Refused"),
            (410, "Gone { run_id: \"r\", oldest: Some(7) }"),
            (416, "PastHead { run_id: \"r\", head: Some(9) }"),
            (425, "Cut"),
            (429, "Cut"),
            (500, "Cut"),
            (502, "Cut"),
            (503, "Cut"),
            (504, "Cut"),
        ];
        for (status, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let got = format!("{:?}", stop("r", status, &HeaderMap::new(), body));
            assert!(got.contains(expected), "{status}: {got}");
        }
    }

    #[test]
    fn a_429_hands_on_its_retry_after() {
        let got = stop("r", StatusCode::TOO_MANY_REQUESTS, &with_retry_after("3"), b"");
        assert!(matches!(got, Stop::Cut { retry_after: Some(wait), .. } if wait == Duration::from_secs(3)));
    }
}
