//! The AG-UI binding: `POST /agui/{agent}`, and a run's events as a resource of their own.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use runwire_bridge::Peer;
use runwire_engine::{CreateRun, RunRequest};
use serde_json::Value;

use crate::app::App;
use crate::auth::Principal;
use crate::cursor::CursorQuery;
use crate::event_stream::{Source, StreamError, respond, respond_whole};
use crate::openness::{Checked, JsonBody};
use crate::problem::Problem;
use crate::projection_stream::{ProjectionSource, Scope};
use crate::runs::{check_depth, decode_input};

/// Names the run in the answer to `POST /agui/{agent}`.
const RUN_ID: &str = "runwire-run-id";

/// `POST /agui/{agent}`: runs the agent and streams its events; the same ids with the same input re-attach.
pub(crate) async fn run(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(agent_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    if !accepts_event_stream(&headers) {
        return Err(Problem::new(
            StatusCode::NOT_ACCEPTABLE,
            "Not acceptable",
            "a run is answered with text/event-stream, which `Accept` does not take",
        ));
    }
    check_depth(&body)?;
    let after = query.event_cursor(&headers)?;
    let input: Value =
        serde_json::from_slice(&body).map_err(|e| Problem::bad_request(format!("the body is not JSON: {e}")))?;
    let input = decode_input(input, "the body")?;
    for (name, id) in [("threadId", &input.thread_id), ("runId", &input.run_id)] {
        if id.is_empty() {
            return Err(Problem::unprocessable(format!("the body: `{name}` is empty")));
        }
    }
    // A cursor is a place in what this exchange has sent. Where nothing was sent there is none, and starting a run whose
    // first events the client would not be shown is worse than refusing (G7).
    if after.is_some() && app.store().run_by_exchange(&input.thread_id, &input.run_id).await?.is_none() {
        return Err(Problem::past_head(0));
    }
    // A client that declares no version predates 1.0.
    let peer = if input.protocol_version.is_some() { Peer::Current } else { Peer::PreV1 };
    let create = CreateRun {
        agent_id,
        request: RunRequest::Input(Box::new(input)),
        lane: None,
        metadata: Value::Null,
        principal: principal.owner(),
        trigger_kind: "agui",
    };
    let started = app.engine().create_run(create).await?;
    if after.is_some_and(|after| after.seq > started.record.head) {
        return Err(Problem::past_head(started.record.head));
    }
    let run_id = started.record.run_id;
    let tail = app.store().tail(&run_id, 0).await.map_err(|e| Problem::from_tail(e, &run_id))?;
    let scope = Scope::Exchange(started.exchange_id);
    let source = ProjectionSource::new(app.store().clone(), &run_id, tail, peer, scope, after);
    let mut response = respond_whole(&app, source);
    if let Ok(run_id) = HeaderValue::try_from(run_id) {
        response.headers_mut().insert(RUN_ID, run_id);
    }
    Ok(response)
}

/// `GET /v2/runs/{id}/agui`: the run's events, all exchanges, resumable at any of them.
pub(crate) async fn follow(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = query.event_cursor(&headers)?;
    let record = app.visible_run(&principal, &run_id).await?;
    if after.is_some_and(|after| after.seq > record.head) {
        return Err(Problem::past_head(record.head));
    }
    let tail = app.store().tail(&run_id, 0).await.map_err(|e| Problem::from_tail(e, &run_id))?;
    let mut source = ProjectionSource::new(app.store().clone(), &run_id, tail, Peer::Current, Scope::WholeRun, after);
    // A reader that has everything is told so (G6). Only the events say whether it has: the last frame can have several
    // or none.
    let ended = record.ended_at.is_some();
    let first = match after {
        Some(_) if ended => match source.next().await {
            Ok(Some(first)) => Some(first),
            Ok(None) => return Ok(StatusCode::NO_CONTENT.into_response()),
            Err(error) => return Err(Problem::internal(&error)),
        },
        _ => None,
    };
    Ok(respond(&app, Begun { first, source }))
}

/// A source whose first events have been read already.
struct Begun {
    first: Option<Bytes>,
    source: ProjectionSource,
}

impl Source for Begun {
    async fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.source.next().await,
        }
    }
}

fn accepts_event_stream(headers: &HeaderMap) -> bool {
    let mut accepts = headers.get_all(header::ACCEPT).iter().peekable();
    if accepts.peek().is_none() {
        return true;
    }
    accepts.filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let refused = parts.any(|p| p.replace(' ', "").strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)));
        matches!(media.as_str(), "text/event-stream" | "text/*" | "*/*") && !refused
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_event_stream_is_sent_to_whoever_takes_one() {
        let accepts = |value: &str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, value.parse().unwrap())]);
            accepts_event_stream(&headers)
        };
        assert!(accepts_event_stream(&HeaderMap::new()));
        for good in ["*/*", "text/event-stream", "application/json, text/event-stream;q=0.5", "TEXT/*"] {
            assert!(accepts(good), "{good}");
        }
        for bad in ["application/json", "text/event-stream;q=0", "text/html"] {
            assert!(!accepts(bad), "{bad}");
        }
    }
}
