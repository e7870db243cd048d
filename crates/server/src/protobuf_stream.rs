//! The answer of AG-UI's binary binding.
//!
//! There is nothing in it but events: the binding has no ids, no comment for silent times and no reconnection time, so
//! this makes up none. The body is pulled: nothing is read from the log before the socket takes it.

use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use runwire_agui::proto;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::app::App;
use crate::event_stream::Source;

struct Sending<S> {
    source: S,
    /// Resolves when the server goes.
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Sends what the source gives, and ends between events when the server goes: a body without a terminal event is a
/// truncated run to its reader. It never gets too old, because its reader could not resume.
pub(crate) fn respond(app: &App, source: impl Source) -> Response {
    let sending = Sending { source, closed: Box::pin(app.inner.closing.clone().cancelled_owned()) };
    let body = stream::unfold(sending, |mut sending| async move {
        let next = tokio::select! {
            biased;
            () = &mut sending.closed => return None,
            next = sending.source.next() => next.transpose()?,
        };
        if let Err(error) = &next {
            tracing::error!(%error, "a stream was cut");
        }
        Some((next, sending))
    });
    let mut response = (StatusCode::OK, Body::from_stream(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(proto::MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
