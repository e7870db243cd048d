//! One connection over server-sent events, for frames and for AG-UI events alike.

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use reqwest::{Method, Url};
use runwire_agui::{SseDecoder, SseError, SseEvent};

use crate::disconnect::{Stop, root_cause};
use crate::reconnect::Arrived;
use crate::{Disconnect, FollowError, Server, refusal};

const EVENT_STREAM: &str = "text/event-stream";

/// An open event stream. Holds at most one unfinished event and what one read from the network completed.
pub(crate) struct SseConnection {
    response: reqwest::Response,
    decoder: SseDecoder,
    /// What the server asked for with `retry:`, as far as it was handed on.
    retry: Option<u64>,
    ready: VecDeque<Result<SseEvent, SseError>>,
}

impl SseConnection {
    /// Opens the stream of `run_id` at `url`, behind the event `last_event_id`.
    pub(crate) async fn open(
        server: &Server,
        url: Url,
        run_id: &str,
        last_event_id: Option<String>,
        max_event_bytes: usize,
    ) -> Result<SseConnection, Stop> {
        let mut request =
            server.request(Method::GET, url.clone()).header(ACCEPT, EVENT_STREAM).header(CACHE_CONTROL, "no-store");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.map_err(|e| {
            if e.is_builder() {
                let problem = format!("the request cannot be sent: {}", root_cause(&e));
                return Stop::from(FollowError::BadTransport { problem });
            }
            Disconnect::Unreachable(root_cause(&e)).into()
        })?;
        if response.status() != StatusCode::OK {
            return Err(refusal::stop_of(run_id, response).await);
        }
        let content_type = response.headers().get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("?"));
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case(EVENT_STREAM) {
            let content_type = content_type.to_owned();
            return Err(FollowError::NotAnEventStream { url: url.into(), content_type }.into());
        }
        let decoder = SseDecoder::new(max_event_bytes);
        Ok(SseConnection { response, decoder, retry: None, ready: VecDeque::new() })
    }

    /// The next event. A body that ends is [`Disconnect::Closed`]: whether that was right is for the caller to say, who
    /// knows what the last event was. An unfinished event at the end is dropped, as the SSE standard has it; it comes
    /// again, whole, after resuming.
    pub(crate) async fn next(&mut self) -> Result<Arrived<SseEvent>, Stop> {
        if let Some(event) = self.ready.pop_front() {
            return event.map(Arrived::Item).map_err(|e| {
                match e {
                    SseError::TooLarge { limit } => FollowError::TooLarge { limit },
                    SseError::NotUtf8 { .. } => FollowError::BadTransport { problem: e.to_string() },
                }
                .into()
            });
        }
        match self.response.chunk().await {
            Ok(Some(chunk)) => {
                self.ready.extend(self.decoder.push(&chunk));
                let retry = self.decoder.reconnection_time();
                if retry != std::mem::replace(&mut self.retry, retry)
                    && let Some(milliseconds) = retry
                {
                    return Ok(Arrived::Retry(Duration::from_millis(milliseconds)));
                }
                Ok(Arrived::Alive)
            }
            Ok(None) => Err(Disconnect::Closed.into()),
            Err(e) => Err(Disconnect::Reset(root_cause(&e)).into()),
        }
    }
}
