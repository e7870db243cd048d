//! One connection over a WebSocket.

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Url;
use runwire_frame::{CloseCode, ErrorCode, ErrorData, PROTOCOL};
use serde::Serialize;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use crate::disconnect::{Stop, root_cause};
use crate::reconnect::Arrived;
use crate::{Disconnect, FollowError, Server, refusal};

/// Enough for a few frames of ordinary size; larger ones grow it.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// The first message of a client (frame protocol v2, *Streaming a run*).
#[derive(Serialize)]
struct FirstMessage<'a> {
    r#type: &'static str,
    token: &'a str,
    protocol: u64,
    after: u64,
}

/// An open WebSocket, behind its first message.
pub(crate) struct WebSocketConnection {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    run_id: String,
    max_event_bytes: usize,
    /// Whether a frame came over this connection.
    any_frame: bool,
}

impl WebSocketConnection {
    /// Opens the stream of `run_id` at `url`, behind the frame `after`.
    pub(crate) async fn open(
        server: &Server,
        url: Url,
        run_id: &str,
        after: u64,
        max_event_bytes: usize,
    ) -> Result<WebSocketConnection, Stop> {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .max_message_size(Some(max_event_bytes))
            .max_frame_size(Some(max_event_bytes));
        let failed = |error| failed_upgrade(run_id, error);
        let (mut socket, _) = connect_async_with_config(url.as_str(), Some(config), true).await.map_err(failed)?;
        let token = server.token().unwrap_or_default();
        let first = serde_json::to_string(&FirstMessage { r#type: "auth", token, protocol: PROTOCOL, after })
            .expect("strings and numbers are always JSON");
        socket.send(Message::text(first)).await.map_err(|e| Disconnect::Reset(root_cause(&e)))?;
        Ok(WebSocketConnection { socket, run_id: run_id.to_owned(), max_event_bytes, any_frame: false })
    }

    /// The next frame's body. Pings are answered while reading.
    pub(crate) async fn next(&mut self) -> Result<Arrived<Bytes>, Stop> {
        match self.socket.next().await {
            Some(Ok(Message::Text(body))) => {
                self.any_frame = true;
                Ok(Arrived::Item(body.into()))
            }
            Some(Ok(Message::Binary(_))) => {
                let problem = "a binary WebSocket message, and a frame is a text message".to_owned();
                Err(FollowError::BadTransport { problem }.into())
            }
            Some(Ok(Message::Close(close))) => Err(self.closed(close)),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(Arrived::Alive),
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                Err(FollowError::TooLarge { limit: self.max_event_bytes }.into())
            }
            Some(Err(Error::Utf8(problem))) => {
                let problem = format!("a text message that is not UTF-8: {problem}");
                Err(FollowError::BadTransport { problem }.into())
            }
            Some(Err(e)) => Err(Disconnect::Reset(root_cause(&e)).into()),
            None => Err(Disconnect::Reset("the connection ended without a closing message".to_owned()).into()),
        }
    }

    /// What a closing message means (seed, *WebSocket close codes*).
    fn closed(&self, close: Option<CloseFrame>) -> Stop {
        let (code, reason) = match close {
            Some(close) => (u16::from(close.code), close.reason.to_string()),
            None => return Disconnect::Closed.into(),
        };
        let run_id = self.run_id.clone();
        match CloseCode::from_u16(code) {
            // 1000 is for the end of the run, behind `run.end`. Where frames came and `run.end` did not, the cursor may
            // not be at the end, so the server is asked again; where none came, it says that none are left.
            Some(CloseCode::Normal) if !self.any_frame => Stop::Ended,
            Some(CloseCode::Normal) | None => Disconnect::WebSocketClosed { code, reason }.into(),
            Some(CloseCode::AuthFailed) => FollowError::Unauthorized { detail: said(reason) }.into(),
            Some(CloseCode::RunNotFound) => FollowError::RunNotFound { run_id }.into(),
            Some(CloseCode::ProtocolUnsupported) => FollowError::ProtocolUnsupported { detail: said(reason) }.into(),
        }
    }
}

/// What an `error` frame with `seq` 0 means. It comes right before the close, and says more than the close does.
pub(crate) fn connection_error(run_id: &str, error: ErrorData) -> Stop {
    let run_id = run_id.to_owned();
    let number = |key| error.extra.get(key).and_then(serde_json::Value::as_u64);
    match error.code {
        // The codes are a closed set without one for either end of the log; the seqs that HTTP gives with 410 and 416
        // travel as additional data keys of the same names, whatever the code.
        _ if number("oldest").is_some() => FollowError::Gone { run_id, oldest: number("oldest") }.into(),
        _ if number("head").is_some() => FollowError::PastHead { run_id, head: number("head") }.into(),
        // The first message came too late, and nothing is said of the token.
        code @ ErrorCode::AuthFailed if error.retryable => {
            Disconnect::ConnectionError { code, message: error.message }.into()
        }
        ErrorCode::AuthFailed | ErrorCode::MalformedFrame => FollowError::Unauthorized { detail: error.message }.into(),
        ErrorCode::RunNotFound => FollowError::RunNotFound { run_id }.into(),
        ErrorCode::ProtocolUnsupported => FollowError::ProtocolUnsupported { detail: error.message }.into(),
        code if error.retryable => Disconnect::ConnectionError { code, message: error.message }.into(),
        _ => FollowError::Refused { run_id, status: None, detail: error.message }.into(),
    }
}

fn failed_upgrade(run_id: &str, error: Error) -> Stop {
    match error {
        Error::Http(response) => {
            let (parts, body) = response.into_parts();
            refusal::stop(run_id, parts.status, &parts.headers, &body.unwrap_or_default())
        }
        Error::Url(e) => FollowError::BadTransport { problem: e.to_string() }.into(),
        other => Disconnect::Unreachable(root_cause(&other)).into(),
    }
}

fn said(reason: String) -> String {
    if reason.is_empty() { "it gave no reason".to_owned() } else { reason }
}
