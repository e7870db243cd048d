//! The peer: an axum server that writes the same bytes and does nothing else.
//!
//! It keeps no log, knows no cursor and checks nobody. What it does is what any axum program does that pushes to its
//! readers: a `tokio::sync::broadcast` for what happens now, a list in memory for what has happened. It is what there
//! is to reach with the same HTTP stack, not a competitor.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use futures_util::stream;
use tokio::net::TcpListener;
use tokio::sync::broadcast;

use crate::wire::Transport;

/// Its live stream by SSE.
pub const LIVE_SSE: &str = "/live/sse";
/// Its live stream by WebSocket.
pub const LIVE_WS: &str = "/live/ws";
/// Its finished stream by SSE.
pub const FINISHED_SSE: &str = "/finished/sse";

/// Its live stream by this transport.
pub fn live_path(transport: Transport) -> &'static str {
    match transport {
        Transport::Sse => LIVE_SSE,
        Transport::Ws => LIVE_WS,
    }
}

/// What every SSE reader gets first, from the bare server as from Runwire.
const RETRY: &[u8] = b"retry: 1000\n\n";

/// One frame, as both transports carry it. Cloning copies no bytes.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The whole SSE event.
    pub sse: Bytes,
    /// The frame's body.
    pub body: Utf8Bytes,
}

impl Piece {
    /// The events of an SSE stream as pieces; what has no data is left out.
    ///
    /// # Errors
    /// When the stream is not text.
    pub fn of_stream(stream: &Bytes) -> anyhow::Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut start = 0;
        while let Some(length) = find(&stream[start..], b"\n\n") {
            let sse = stream.slice(start..start + length + 2);
            if let Some(data) = find(&sse, b"data: ") {
                let body = sse.slice(data + b"data: ".len()..sse.len() - 2);
                pieces.push(Piece { body: Utf8Bytes::try_from(body)?, sse });
            }
            start += length + 2;
        }
        Ok(pieces)
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|w| w == what)
}

/// What the server has to write. Shared by its handlers and by whoever says what happens.
#[derive(Default)]
pub struct Bare {
    /// What a live reader gets at once.
    greeting: Vec<Piece>,
    /// `None` once the live stream has ended. Handlers subscribe; each reader gets all that is sent from then on.
    live: Mutex<Option<broadcast::Sender<Piece>>>,
    /// The chunks of the finished stream.
    finished: Arc<[Bytes]>,
}

impl Bare {
    /// A live stream of at most `most` pieces after the greeting, so that no reader can fall off its end.
    pub fn live(greeting: Vec<Piece>, most: usize) -> Arc<Bare> {
        let live = Mutex::new(Some(broadcast::Sender::new(most.max(1))));
        Arc::new(Bare { greeting, live, ..Bare::default() })
    }

    /// A finished stream, to be written in these chunks.
    pub fn finished(chunks: Vec<Bytes>) -> Arc<Bare> {
        Arc::new(Bare { finished: chunks.into(), ..Bare::default() })
    }

    /// Sends a piece to every live reader.
    pub fn send(&self, piece: Piece) {
        if let Some(live) = &*self.lock() {
            // Without readers there is nobody to send to, which is no error.
            let _ = live.send(piece);
        }
    }

    /// Ends the live stream.
    pub fn end(&self) {
        self.lock().take();
    }

    fn subscribe(&self) -> Option<broadcast::Receiver<Piece>> {
        self.lock().as_ref().map(broadcast::Sender::subscribe)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<broadcast::Sender<Piece>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves until its task is dropped.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self: Arc<Bare>, listener: TcpListener) -> std::io::Result<()> {
        let router = Router::new()
            .route(LIVE_SSE, get(live_sse))
            .route(LIVE_WS, get(live_ws))
            .route(FINISHED_SSE, get(finished_sse))
            .with_state(self);
        let listener = listener.tap_io(|socket| {
            let _ = socket.set_nodelay(true);
        });
        axum::serve(listener, router).await
    }
}

fn event_stream(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], body).into_response()
}

async fn live_sse(State(bare): State<Arc<Bare>>) -> Response {
    let receiver = bare.subscribe();
    let mut first = RETRY.to_vec();
    for piece in &bare.greeting {
        first.extend_from_slice(&piece.sse);
    }
    let state = (Some(Bytes::from(first)), receiver);
    event_stream(Body::from_stream(stream::unfold(state, |(first, mut receiver)| async move {
        if let Some(first) = first {
            return Some((Ok::<_, Infallible>(first), (None, receiver)));
        }
        let piece = receiver.as_mut()?.recv().await.ok()?;
        Some((Ok(piece.sse), (None, receiver)))
    })))
}

async fn live_ws(State(bare): State<Arc<Bare>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |mut socket: WebSocket| {
        let Some(mut receiver) = bare.subscribe() else { return };
        for piece in &bare.greeting {
            if socket.send(Message::Text(piece.body.clone())).await.is_err() {
                return;
            }
        }
        while let Ok(piece) = receiver.recv().await {
            if socket.send(Message::Text(piece.body)).await.is_err() {
                return;
            }
        }
        let _ = socket.send(Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }))).await;
    })
}

async fn finished_sse(State(bare): State<Arc<Bare>>) -> Response {
    let chunks = Arc::clone(&bare.finished);
    let first = std::iter::once(Bytes::from_static(RETRY));
    let rest = (0..chunks.len()).map(move |i| chunks[i].clone());
    event_stream(Body::from_stream(stream::iter(first.chain(rest).map(Ok::<_, Infallible>))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_stream_is_taken_apart_into_the_bytes_it_was_made_of() {
        let stream = Bytes::from_static(b"retry: 1000\n\nid: 1\ndata: {\"seq\":1}\n\n:\n\nid: 2\ndata: {}\n\n");
        let pieces = Piece::of_stream(&stream).unwrap();
        let bodies: Vec<&str> = pieces.iter().map(|p| p.body.as_str()).collect();
        assert_eq!(bodies, ["{\"seq\":1}", "{}"]);
        assert_eq!(&pieces[1].sse[..], b"id: 2\ndata: {}\n\n");
    }
}
