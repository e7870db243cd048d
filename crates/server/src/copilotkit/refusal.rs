//! Refusals as CopilotKit's client reads them: it shows the member `message` of a JSON body to its developer.

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::problem::Problem;

/// The most bytes of a problem. Those of this server are far smaller, and a larger one is handed on as it is.
const PROBLEM_BYTES: usize = 64 * 1024;

/// Gives a problem the members `error` and `message` in place of `title` and `detail`. Everything else passes.
pub(super) async fn as_the_runtime_says_it(response: Response) -> Response {
    let is_problem = response.headers().get(header::CONTENT_TYPE).is_some_and(|v| v == "application/problem+json");
    if !is_problem {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, PROBLEM_BYTES).await else {
        return (parts.status, "the refusal could not be told").into_response();
    };
    let Ok(Value::Object(mut problem)) = serde_json::from_slice(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    let mut told = Map::new();
    problem.remove("type");
    for (theirs, ours) in [("error", "title"), ("message", "detail")] {
        if let Some(value) = problem.remove(ours) {
            told.insert(theirs.to_owned(), value);
        }
    }
    told.extend(problem);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(Value::Object(told).to_string()))
}

pub(super) async fn not_found(uri: Uri) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "Not found",
        format!("`{}` is nothing that CopilotKit's runtime offers, or not here", uri.path()),
    )
}

pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "Method not allowed",
        format!("`{}` does not take {method}", uri.path()),
    )
}

/// What the runtime itself refuses in this way unless it is connected to CopilotKit's own platform.
pub(super) async fn not_offered() -> Problem {
    not_offered_here("this is a feature of CopilotKit's own platform, which this server is not")
}

pub(super) fn not_offered_here(detail: &str) -> Problem {
    Problem::unprocessable(detail)
}

/// The client tells what kind of failure a transcription met by the code that is `error`.
pub(super) async fn no_transcription() -> Response {
    let body = json!({
        "error": "service_not_configured",
        "message": "this server does not transcribe speech",
        "retryable": false,
    });
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}
