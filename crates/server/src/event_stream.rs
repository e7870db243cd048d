//! An SSE response: what both streams have in common.
//!
//! The body is pulled: nothing is read from the log before the socket takes it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use runwire_agui::SseEncoder;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::app::App;
use crate::keep_alive::KeepAlive;

/// Where the events of a stream come from.
pub(crate) trait Source: Send + 'static {
    /// The next whole events as they go onto the wire; `None` when no more will come. Must be cancel-safe.
    ///
    /// An error cuts the connection, so that the client resumes rather than takes it for the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, StreamError>> + Send;
}

/// Why a stream was cut.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error(transparent)]
    Read(#[from] runwire_store::ReadError),
    #[error(transparent)]
    Tail(#[from] runwire_store::TailError),
    #[error(transparent)]
    Decode(#[from] runwire_frame::DecodeError),
    #[error(transparent)]
    Projection(#[from] runwire_bridge::ProjectionError),
    #[error(transparent)]
    Encode(#[from] runwire_agui::proto::ProtoEncodeError),
}

/// One reader's stream. Its timers and its place among those who wait for the server to close are kept from event to
/// event: to make and drop them for each would cost every reader a turn at locks that all of them share.
struct Sending<S> {
    source: S,
    first: Option<Bytes>,
    /// When a comment is due.
    keep_alive: KeepAlive,
    ends_at: Option<Instant>,
    /// Elapses at `ends_at`.
    old: Option<Pin<Box<Sleep>>>,
    closing: CancellationToken,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Sends what the source gives, comments in silence, and ends cleanly between events when the connection is old enough
/// or the server goes.
pub(crate) fn respond(app: &App, source: impl Source) -> Response {
    respond_until(app, source, app.options().stream_max_age)
}

/// The same for a reader that does not resume: it would take a recycled connection for the end.
pub(crate) fn respond_whole(app: &App, source: impl Source) -> Response {
    respond_until(app, source, None)
}

fn respond_until(app: &App, source: impl Source, max_age: Option<Duration>) -> Response {
    let options = app.options();
    let mut first = Vec::new();
    SseEncoder::encode_retry(&mut first, u64::try_from(options.retry.as_millis()).unwrap_or(u64::MAX));
    let ends_at = max_age.map(|age| Instant::now() + age);
    let closing = app.inner.closing.clone();
    let sending = Sending {
        source,
        first: Some(first.into()),
        keep_alive: app.inner.keep_alives.begin(),
        ends_at,
        old: ends_at.map(|end| Box::pin(sleep_until(end))),
        closed: Box::pin(closing.clone().cancelled_owned()),
        closing,
    };
    let body = stream::unfold(sending, |mut sending| async move { sending.next().await.map(|chunk| (chunk, sending)) });
    let mut response = (StatusCode::OK, Body::from_stream(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl<S: Source> Sending<S> {
    async fn next(&mut self) -> Option<Result<Bytes, StreamError>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        if self.closing.is_cancelled() || self.ends_at.is_some_and(|end| Instant::now() >= end) {
            return None;
        }
        let old = async {
            match &mut self.old {
                Some(old) => old.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            next = self.source.next() => match next {
                Ok(chunk) => {
                    self.keep_alive.sent();
                    chunk.map(Ok)
                }
                Err(error) => {
                    tracing::error!(%error, "a stream was cut");
                    Some(Err(error))
                }
            },
            () = &mut self.closed => None,
            () = old => None,
            () = self.keep_alive.due() => {
                let mut comment = Vec::new();
                SseEncoder::encode_comment(&mut comment, "");
                Some(Ok(comment.into()))
            }
        }
    }
}
