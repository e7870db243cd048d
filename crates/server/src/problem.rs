//! Errors as RFC 9457 problem details.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use runwire_engine::{CancelError, CreateRunError};
use runwire_frame::Timestamp;
use runwire_store::{ReadError, RemoveError, TailError, Tombstone};
use serde_json::{Map, Value, json};

/// What went wrong with a request, for the person who made it.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    title: &'static str,
    detail: String,
    /// Members beyond the standard ones, for programs.
    members: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Problem {
        Problem { status, title, detail: detail.into(), members: Map::new() }
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Problem {
        self.members.insert(key.to_owned(), value.into());
        self
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "Bad request", detail)
    }

    pub(crate) fn unprocessable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "Unprocessable content", detail)
    }

    pub(crate) fn unauthorized() -> Problem {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "this server wants `Authorization: Bearer TOKEN` with a token that it knows",
        )
    }

    pub(crate) fn run_not_found(run_id: &str) -> Problem {
        Problem::new(
            StatusCode::NOT_FOUND,
            "Run not found",
            format!("there is no run `{run_id}` that this request may see"),
        )
    }

    pub(crate) fn agent_not_found(agent_id: &str) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "Agent not found", format!("there is no agent `{agent_id}` here"))
    }

    pub(crate) fn session_not_found(session_id: &str) -> Problem {
        Problem::new(
            StatusCode::NOT_FOUND,
            "Session not found",
            format!("there is no session `{session_id}` that this request may see"),
        )
    }

    /// A cursor over a session names a run that is not there (any more), so what came after it cannot be told (G7).
    pub(crate) fn run_gone(run_id: &str) -> Problem {
        Problem::new(
            StatusCode::GONE,
            "Run is gone",
            format!("the cursor names run `{run_id}`, which this session does not have; start over without a cursor"),
        )
        .with("run_id", run_id)
    }

    /// The cursor is older than what was kept (G7).
    pub(crate) fn gone(oldest: u64) -> Problem {
        Problem::new(
            StatusCode::GONE,
            "Frames are gone",
            format!("frames before {oldest} were not kept; resume after {} or start over", oldest.saturating_sub(1)),
        )
        .with("oldest", oldest)
    }

    /// Retention removed the run (G7). Every cursor is older than what is left, which is nothing.
    pub(crate) fn removed(tombstone: &Tombstone) -> Problem {
        let Tombstone { run_id, head, removed_at, .. } = tombstone;
        Problem::new(
            StatusCode::GONE,
            "Run removed",
            format!(
                "the run `{run_id}` had {head} frames and was removed by retention at {}; it will not come back",
                Timestamp::from_unix_millis(*removed_at)
            ),
        )
        .with("run_id", run_id.clone())
        .with("oldest", head + 1)
        .with("removed_at", *removed_at)
    }

    /// The cursor is past the last frame (G7).
    pub(crate) fn past_head(head: u64) -> Problem {
        Problem::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "Cursor past the head",
            format!("the run's last frame is {head}; a cursor cannot be past it"),
        )
        .with("head", head)
    }

    pub(crate) fn internal(error: &dyn std::error::Error) -> Problem {
        // The error may name what only the operator should read, such as the store's path.
        tracing::error!(%error, "a request failed");
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal error",
            "the server could not do this; its own log says why",
        )
    }

    fn unavailable(detail: &str) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Value::Object(body) = &mut body {
            body.extend(self.members);
        }
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&self.status) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Problem {
        match error {
            ReadError::Gone { oldest } => Problem::gone(oldest),
            ReadError::Removed(tombstone) => Problem::removed(&tombstone),
            error => Problem::internal(&error),
        }
    }
}

impl Problem {
    /// A tail of this run could not be opened.
    pub(crate) fn from_tail(error: TailError, run_id: &str) -> Problem {
        match error {
            TailError::UnknownRun => Problem::run_not_found(run_id),
            TailError::PastHead { head } => Problem::past_head(head),
            TailError::Gone { oldest } => Problem::gone(oldest),
            error => Problem::internal(&error),
        }
    }
}

impl From<CreateRunError> for Problem {
    fn from(error: CreateRunError) -> Problem {
        let detail = error.to_string();
        match error {
            CreateRunError::UnknownAgent { .. } => Problem::new(StatusCode::NOT_FOUND, "Agent not found", detail),
            CreateRunError::UnknownLane { known, .. } => Problem::unprocessable(detail).with("lanes", known),
            CreateRunError::LaneFull { lane, .. } => {
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "Lane full", detail).with("lane", lane)
            }
            CreateRunError::SessionBusy { run_id, .. } => {
                Problem::new(StatusCode::CONFLICT, "Session busy", detail).with("run_id", run_id)
            }
            CreateRunError::OtherInput { .. } => Problem::new(StatusCode::CONFLICT, "Other input", detail),
            CreateRunError::KeyTaken { key, run_id } => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "Idempotency key used", detail)
                    .with("idempotency_key", key)
                    .with("run_id", run_id)
            }
            CreateRunError::SessionNotYours { .. } => Problem::new(StatusCode::FORBIDDEN, "Not yours", detail),
            CreateRunError::AlreadyResolved { run_id, .. } => {
                Problem::new(StatusCode::CONFLICT, "Already resolved", detail).with("run_id", run_id)
            }
            CreateRunError::WaitsForAnswer { run_id, interrupts } => {
                Problem::new(StatusCode::CONFLICT, "Waits for an answer", detail)
                    .with("run_id", run_id)
                    .with("missing", interrupts)
            }
            CreateRunError::ResumeRepeated { .. } => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "Answered twice", detail)
            }
            CreateRunError::ResumeIncomplete { missing, .. } => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "Resume incomplete", detail).with("missing", missing)
            }
            CreateRunError::Removed(tombstone) => Problem::removed(&tombstone),
            CreateRunError::AnswerTooLate { .. } => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "Answer too late", detail)
            }
            CreateRunError::AnswerBreaksSchema { run_id, interrupt, path, expected } => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "Answer breaks its schema", detail)
                    .with("run_id", run_id)
                    .with("interrupt_id", interrupt)
                    .with("path", path)
                    .with("expected", expected)
            }
            CreateRunError::ShuttingDown => Problem::unavailable(&detail),
            error @ (CreateRunError::Create(_)
            | CreateRunError::Exchange(_)
            | CreateRunError::Append(_)
            | CreateRunError::Ownership(_)) => {
                tracing::error!(%error, "a run could not be created");
                Problem::unavailable("the store does not take the run now; the server's own log says why")
            }
            error @ (CreateRunError::Read(_) | CreateRunError::Log(_)) => Problem::internal(&error),
        }
    }
}

impl From<RemoveError> for Problem {
    fn from(error: RemoveError) -> Problem {
        Problem::internal(&error)
    }
}

impl From<CancelError> for Problem {
    fn from(error: CancelError) -> Problem {
        match error {
            CancelError::UnknownRun(run_id) => Problem::run_not_found(&run_id),
            error => Problem::internal(&error),
        }
    }
}
