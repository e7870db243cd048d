//! `GET /v2/runs/{id}/ws`: the same frames, one a text message.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use runwire_engine::now;
use runwire_frame::{CloseCode, ErrorCode, ErrorData, Frame, PROTOCOL};
use runwire_store::{Tail, TailError, TailItem, Tombstone};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use crate::app::App;
use crate::auth::{Principal, bearer};
use crate::openness::{Checked, origin_allowed};
use crate::problem::Problem;

/// The largest message that a client may send; its first one is far smaller.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// A client says little after its first message. The whole buffer is cleared each time the socket is looked at, which is
/// once a frame and reader, so its size is most of what a frame costs.
const READ_BUFFER_BYTES: usize = 1024;
/// RFC 6455: the endpoint is going away. The client resumes elsewhere, or here later.
const GOING_AWAY: u16 = 1001;
/// RFC 6455: the server failed.
const SERVER_FAILED: u16 = 1011;

/// For a client that authenticates by header on the upgrade.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpgradeQuery {
    #[serde(default)]
    after: u64,
    protocol: Option<u64>,
}

/// What a client says first.
#[derive(Debug, Deserialize)]
struct FirstMessage {
    r#type: String,
    #[serde(default)]
    token: Option<String>,
    protocol: u64,
    #[serde(default)]
    after: u64,
}

/// `GET /v2/runs/{id}/ws`
pub(crate) async fn upgrade(
    State(app): State<App>,
    Checked(Path(run_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<UpgradeQuery>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade
        .map_err(|refused| Problem::new(StatusCode::UPGRADE_REQUIRED, "WebSocket wanted", refused.body_text()))?;
    if !origin_allowed(&app, &headers) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "Origin not allowed",
            "pages of this origin may not open a WebSocket here; allow it under `cors_origins`",
        ));
    }
    // Whether the header's token is good is told by the close code, as for a token in the first message.
    let by_header = headers.contains_key(header::AUTHORIZATION).then(|| app.authenticate(bearer(&headers)));
    let tracker = app.inner.connections.clone();
    let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES).read_buffer_size(READ_BUFFER_BYTES);
    Ok(upgrade.on_upgrade(move |socket| {
        tracker.track_future(async move {
            let (sink, stream) = socket.split();
            let mut connection = Connection { app, run_id, sink, stream };
            let close = connection.serve(by_header, query).await;
            connection.close(close).await;
        })
    }))
}

/// How a connection ends.
enum Close {
    /// With this code, after an `error` frame where there is one.
    With(u16, Option<Box<ErrorData>>),
    /// The peer is gone; there is nobody to tell.
    Gone,
}

impl Close {
    fn error(close: CloseCode, code: ErrorCode, message: impl Into<String>) -> Close {
        Close::error_with(close.as_u16(), code, message, Map::new())
    }

    /// The error may name what only the operator should read, such as the store's path.
    fn server_failed() -> Close {
        let message = "the server could not go on; its own log says why";
        Close::error_with(SERVER_FAILED, ErrorCode::InternalError, message, Map::new())
    }

    fn error_with(close: u16, code: ErrorCode, message: impl Into<String>, extra: Map<String, Value>) -> Close {
        let retryable = close == SERVER_FAILED;
        Close::With(close, Some(Box::new(ErrorData { code, message: message.into(), retryable, extra })))
    }
}

struct Connection {
    app: App,
    run_id: String,
    sink: SplitSink<WebSocket, Message>,
    stream: SplitStream<WebSocket>,
}

/// The first message came too late. Nothing is wrong with the token, which nobody has seen: what was slow is the line or one
/// of its ends, so the same message may be in time at the next attempt. That tells a client this 4401 from the others.
fn late(deadline: Duration) -> Close {
    let message = format!("the first message did not come within {deadline:?}");
    let error = ErrorData { code: ErrorCode::AuthFailed, message, retryable: true, extra: Map::new() };
    Close::With(CloseCode::AuthFailed.as_u16(), Some(Box::new(error)))
}

/// Retention removed the run: no cursor can be served (G7).
fn removed(tombstone: &Tombstone) -> Close {
    let extra = Map::from_iter([
        ("oldest".to_owned(), (tombstone.head + 1).into()),
        ("removed_at".to_owned(), tombstone.removed_at.into()),
    ]);
    let message = tombstone.to_string();
    Close::error_with(CloseCode::AuthFailed.as_u16(), ErrorCode::MalformedFrame, message, extra)
}

impl Connection {
    async fn serve(&mut self, by_header: Option<Option<Principal>>, query: UpgradeQuery) -> Close {
        let (principal, protocol, after) = match by_header {
            Some(principal) => (principal, query.protocol.unwrap_or(PROTOCOL), query.after),
            None => match self.first_message().await {
                Ok(first) => (self.app.authenticate(first.token.as_deref()), first.protocol, first.after),
                Err(close) => return close,
            },
        };
        let Some(principal) = principal else {
            let message = "the token is none that this server knows";
            return Close::error(CloseCode::AuthFailed, ErrorCode::AuthFailed, message);
        };
        if protocol != PROTOCOL {
            return Close::error(
                CloseCode::ProtocolUnsupported,
                ErrorCode::ProtocolUnsupported,
                format!("protocol {protocol} was asked for, and this server speaks {PROTOCOL}"),
            );
        }
        match self.open(&principal, after).await {
            Ok(tail) => self.send_frames(tail).await,
            Err(close) => close,
        }
    }

    async fn first_message(&mut self) -> Result<FirstMessage, Close> {
        let deadline = self.app.options().first_message;
        let read = timeout(deadline, async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Text(text))) => return Some(text),
                    Some(Ok(Message::Binary(_))) => return Some(Utf8Bytes::from_static("")),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                }
            }
        });
        let text = match read.await {
            Err(_) => return Err(late(deadline)),
            Ok(None) => return Err(Close::Gone),
            Ok(Some(text)) => text,
        };
        let malformed = |problem: String| {
            Close::error(
                CloseCode::AuthFailed,
                ErrorCode::MalformedFrame,
                format!(
                    "the first message has to be {{\"type\":\"auth\",\"token\":\"…\",\"protocol\":2,\"after\":N}}: \
                     {problem}"
                ),
            )
        };
        let first: FirstMessage = serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
        if first.r#type != "auth" {
            return Err(malformed(format!("its type is `{}`", first.r#type)));
        }
        Ok(first)
    }

    async fn open(&self, principal: &Principal, after: u64) -> Result<Tail, Close> {
        let not_found = || {
            Close::error(
                CloseCode::RunNotFound,
                ErrorCode::RunNotFound,
                format!("there is no run `{}` that this connection may see", self.run_id),
            )
        };
        let failed = |error: &dyn std::error::Error| {
            tracing::error!(%error, "a WebSocket could not be served");
            Close::server_failed()
        };
        let store = self.app.store();
        let record = store.run(&self.run_id).await.map_err(|e| failed(&e))?;
        if !record.is_some_and(|r| principal.may_see(&r)) {
            let tombstone = store.tombstone(&self.run_id).await.map_err(|e| failed(&e))?;
            return Err(match tombstone.filter(|t| principal.may_see_removed(t)) {
                Some(tombstone) => removed(&tombstone),
                None => not_found(),
            });
        }
        // A cursor that cannot be served makes the first message invalid; what could be served is said in `data`.
        let cursor = |message: String, key: &str, seq: u64| {
            let extra = Map::from_iter([(key.to_owned(), seq.into())]);
            Close::error_with(CloseCode::AuthFailed.as_u16(), ErrorCode::MalformedFrame, message, extra)
        };
        store.tail(&self.run_id, after).await.map_err(|error| match error {
            TailError::UnknownRun => not_found(),
            TailError::PastHead { head } => cursor(format!("the run's last frame is {head}"), "head", head),
            TailError::Gone { oldest } => cursor(format!("frames before {oldest} were not kept"), "oldest", oldest),
            error => failed(&error),
        })
    }

    async fn send_frames(&mut self, mut tail: Tail) -> Close {
        let options = self.app.options().clone();
        let closing = self.app.inner.closing.clone();
        let mut ping = self.app.inner.keep_alives.begin();
        let mut heard = Instant::now();
        let ends_at = options.stream_max_age.map(|age| Instant::now() + age);
        loop {
            let old = async {
                match ends_at {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // What the peer said counts before its silence does, and frames never keep the others waiting.
                biased;
                () = closing.cancelled() => return Close::With(GOING_AWAY, None),
                () = old => return Close::With(GOING_AWAY, None),
                said = self.stream.next() => match said {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Close::Gone,
                    Some(Ok(_)) => heard = Instant::now(),
                },
                () = ping.due() => {
                    if heard.elapsed() > options.gone_after {
                        return Close::Gone;
                    }
                    if self.send(Message::Ping(bytes::Bytes::new()), options.gone_after).await.is_err() {
                        return Close::Gone;
                    }
                }
                item = tail.next() => match item {
                    Ok(TailItem::Frames(entries)) => {
                        let bodies = entries.iter().map(|e| e.body());
                        let began = Instant::now();
                        if self.send_all(bodies).await.is_err() {
                            return Close::Gone;
                        }
                        // Answers to pings were not read meanwhile; that the peer took frames says the same.
                        if began.elapsed() > options.keep_alive {
                            heard = Instant::now();
                        }
                    }
                    Ok(TailItem::Ended) => return Close::With(CloseCode::Normal.as_u16(), None),
                    Err(error) => {
                        tracing::error!(%error, "a WebSocket was cut");
                        return Close::server_failed();
                    }
                },
            }
        }
    }

    /// Waits for the socket, which gives a peer up that takes nothing for too long: a slow one may take its time.
    async fn send_all(&mut self, bodies: impl Iterator<Item = bytes::Bytes>) -> Result<(), ()> {
        for body in bodies {
            // The store holds what the frame encoder wrote, which is text.
            let text = Utf8Bytes::try_from(body).map_err(|_| ())?;
            self.sink.feed(Message::Text(text)).await.map_err(|_| ())?;
        }
        self.sink.flush().await.map_err(|_| ())
    }

    async fn send(&mut self, message: Message, patience: Duration) -> Result<(), ()> {
        timeout(patience, self.sink.send(message)).await.map_err(|_| ())?.map_err(|_| ())
    }

    async fn close(&mut self, close: Close) {
        let Close::With(code, error) = close else { return };
        let patience = self.app.options().first_message;
        let reason = error.as_ref().map_or("", |e| e.code.as_str());
        if let Some(error) = error {
            let body = Frame::connection_error(&self.run_id, now(), *error);
            if let Ok(text) = Utf8Bytes::try_from(body)
                && self.send(Message::Text(text), patience).await.is_err()
            {
                return;
            }
        }
        let frame = CloseFrame { code, reason: Utf8Bytes::from(reason) };
        if self.send(Message::Close(Some(frame)), patience).await.is_err() {
            return;
        }
        // The peer's own close completes the handshake; without waiting for it the peer may see a reset instead.
        let _ = timeout(patience, async { while let Some(Ok(_)) = self.stream.next().await {} }).await;
    }
}
