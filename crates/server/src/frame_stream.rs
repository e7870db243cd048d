//! Frames: as a stream by SSE, and in pages.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use runwire_store::{Entry, Tail, TailEvents};
use serde::Deserialize;

use crate::app::App;
use crate::auth::Principal;
use crate::cursor::CursorQuery;
use crate::event_stream::{Source, StreamError, respond};
use crate::openness::Checked;
use crate::problem::Problem;

/// `GET /v2/runs/{id}/stream`
pub(crate) async fn stream(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = query.frame_cursor(&headers)?;
    let record = app.visible_run(&principal, &run_id).await?;
    let tail = app.store().tail(&run_id, after).await.map_err(|e| Problem::from_tail(e, &run_id))?;
    // A reader that has everything is told so: 204 makes an EventSource stop reconnecting (G6).
    if record.ended_at.is_some() && after == record.head {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(respond(&app, FrameSource { tail }))
}

struct FrameSource {
    tail: Tail,
}

impl Source for FrameSource {
    async fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        match self.tail.next_events().await? {
            TailEvents::Events(events) => Ok(Some(events)),
            TailEvents::Ended => Ok(None),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    #[serde(default)]
    after: u64,
    limit: Option<usize>,
}

/// The most frames of one page.
const PAGE_MAX: usize = 1000;

/// `GET /v2/runs/{id}/frames`: a page of frames, each body exactly as it is on every transport.
pub(crate) async fn page(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<PageQuery>>,
) -> Result<Response, Problem> {
    let record = app.visible_run(&principal, &run_id).await?;
    if query.after > record.head {
        return Err(Problem::past_head(record.head));
    }
    let limit = query.limit.unwrap_or(PAGE_MAX);
    if limit == 0 || limit > PAGE_MAX {
        return Err(Problem::bad_request(format!("`limit` is {limit}, and a page has 1 to {PAGE_MAX} frames")));
    }
    let entries = app.store().read(&run_id, query.after, limit).await?;
    let next = entries.last().map_or(query.after, Entry::seq);
    let size: usize = entries.iter().map(|e| e.body().len() + 1).sum();
    let mut body = Vec::with_capacity(size + 128);
    body.extend_from_slice(br#"{"frames":["#);
    for (i, entry) in entries.iter().enumerate() {
        if i > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&entry.body());
    }
    let rest = serde_json::json!({
        "next_after": next,
        "head": record.head.max(next),
        "ended": record.ended_at.is_some(),
    });
    body.extend_from_slice(b"],");
    body.extend_from_slice(&rest.to_string().as_bytes()[1..]);
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
