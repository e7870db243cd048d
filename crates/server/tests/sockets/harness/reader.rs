//! Reads a run's frames over either transport.

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{Line, Loss, Piece, Raw, Server, soon};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Sse,
    WebSocket,
}

impl Transport {
    pub const BOTH: [Transport; 2] = [Transport::Sse, Transport::WebSocket];

    pub fn other(self) -> Transport {
        match self {
            Transport::Sse => Transport::WebSocket,
            Transport::WebSocket => Transport::Sse,
        }
    }
}

/// What a reader got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    Frame(u64, Bytes),
    /// The server ended the stream in good order: by 1000, or by the end of the body.
    Ended,
    /// The WebSocket was closed with another code.
    Closed(u16),
    /// The connection broke.
    Cut,
}

pub type WebSocket = WebSocketStream<Line>;

/// Received bytes of an event stream, and how many of them are known to hold no end of an event. Without the latter a
/// narrow line, which brings little at a time, would be searched over and over.
#[derive(Default)]
pub struct Events {
    buffer: Vec<u8>,
    searched: usize,
}

impl Events {
    /// The next whole event, without the empty line behind it.
    fn next(&mut self) -> Option<Vec<u8>> {
        while let Some(found) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            let end = self.searched + found;
            match self.buffer.get(end + 1) {
                None => {
                    self.searched = end;
                    return None;
                }
                Some(b'\n') => {
                    let rest = self.buffer.split_off(end + 2);
                    let mut event = std::mem::replace(&mut self.buffer, rest);
                    event.truncate(end);
                    self.searched = 0;
                    return Some(event);
                }
                Some(_) => self.searched = end + 1,
            }
        }
        self.searched = self.buffer.len();
        None
    }
}

/// A connection that reads a run.
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
pub enum Reader {
    Sse { raw: Raw, events: Events },
    WebSocket(WebSocket),
}

impl Reader {
    pub async fn open(server: &Server, transport: Transport, run_id: &str, after: u64) -> Reader {
        let line = Line::open(server.address).await;
        Reader::over(line, transport, run_id, after, None).await
    }

    /// A reader whose line dies after it received so many bytes of what is behind the cursor.
    pub async fn cut(server: &Server, transport: Transport, run_id: &str, after: u64, bytes: usize) -> Reader {
        let line = Line::open(server.address).await;
        Reader::over(line, transport, run_id, after, Some(bytes)).await
    }

    pub async fn over(line: Line, transport: Transport, run_id: &str, after: u64, cut: Option<usize>) -> Reader {
        soon(async {
            match transport {
                Transport::Sse => {
                    let cursor = format!("Last-Event-ID: {after}\r\n");
                    let raw = Raw::get(line, &format!("/v2/runs/{run_id}/stream"), &cursor, cut).await;
                    assert_eq!(raw.status, 200);
                    Reader::Sse { raw, events: Events::default() }
                }
                Transport::WebSocket => {
                    let mut socket = Reader::websocket(line, run_id, "").await;
                    if let Some(bytes) = cut {
                        socket.get_mut().cut_after(bytes);
                    }
                    let first = json!({ "type": "auth", "token": "", "protocol": 2, "after": after });
                    socket.send(Message::text(first.to_string())).await.unwrap();
                    Reader::WebSocket(socket)
                }
            }
        })
        .await
    }

    /// A WebSocket on which nothing was said yet.
    pub async fn websocket(line: Line, run_id: &str, query: &str) -> WebSocket {
        let url = format!("ws://localhost/v2/runs/{run_id}/ws{query}");
        tokio_tungstenite::client_async(url, line).await.unwrap().0
    }

    /// The next frame, or how the stream ended.
    pub async fn next(&mut self) -> Got {
        soon(self.read()).await
    }

    async fn read(&mut self) -> Got {
        match self {
            Reader::Sse { raw, events } => loop {
                let Some(event) = events.next() else {
                    match raw.piece().await {
                        Piece::Data(data) => events.buffer.extend_from_slice(&data),
                        Piece::Ended => {
                            assert_eq!(events.buffer, b"", "the server ended the stream inside of an event");
                            return Got::Ended;
                        }
                        Piece::Cut => return Got::Cut,
                    }
                    continue;
                };
                let event = std::str::from_utf8(&event).unwrap();
                if event.starts_with("retry: ") || event.starts_with(':') {
                    continue;
                }
                let (id, data) = event.split_once('\n').unwrap();
                let seq = id.strip_prefix("id: ").unwrap().parse().unwrap();
                let body = data.strip_prefix("data: ").unwrap();
                assert!(!body.contains(['\n', '\r']), "one line an event: {body}");
                return Got::Frame(seq, Bytes::copy_from_slice(body.as_bytes()));
            },
            Reader::WebSocket(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        let body = Bytes::from(text);
                        return Got::Frame(seq_of(&body), body);
                    }
                    Some(Ok(Message::Close(Some(close)))) => {
                        // The handshake is completed by reading on.
                        while let Some(Ok(_)) = socket.next().await {}
                        return match u16::from(close.code) {
                            1000 => Got::Ended,
                            code => Got::Closed(code),
                        };
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(other)) => panic!("a server sends no such message: {other:?}"),
                    Some(Err(_)) | None => return Got::Cut,
                }
            },
        }
    }

    /// The body of the next frame, which has to be this one.
    pub async fn frame(&mut self, seq: u64) -> Bytes {
        match self.next().await {
            Got::Frame(got, body) if got == seq => body,
            other => panic!("frame {seq} should come next, not {other:?}"),
        }
    }

    /// All frames until the stream ends, which it has to do in good order.
    pub async fn rest(&mut self, after: u64) -> Vec<Bytes> {
        let mut bodies = Vec::new();
        loop {
            match self.next().await {
                Got::Frame(seq, body) => {
                    assert_eq!(seq, after + 1 + bodies.len() as u64, "G1, G2");
                    bodies.push(body);
                }
                Got::Ended => return bodies,
                other => panic!("the stream should end in good order, not by {other:?}"),
            }
        }
    }

    pub async fn lose(self, how: Loss) {
        match self {
            Reader::Sse { raw, .. } => raw.lose(how).await,
            Reader::WebSocket(socket) => socket.into_inner().lose(how).await,
        }
    }
}

/// `seq` as the body has it, without reading all of the body.
fn seq_of(body: &[u8]) -> u64 {
    let rest = body.strip_prefix(br#"{"protocol":2,"seq":"#).expect("the envelope begins with its first two keys");
    let digits = rest.iter().take_while(|b| b.is_ascii_digit());
    digits.fold(0, |seq, digit| seq * 10 + u64::from(digit - b'0'))
}
