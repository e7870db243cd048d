//! A real server on loopback that answers each request with the next line of a script, and writes down what it was asked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use runwire_client::{Backoff, FollowError, Followed, Server};
use runwire_frame::{Data, EndStatus, Frame, RunEnd, RunStart, SegmentId, TextDelta, Timestamp};
use serde_json::Map;
use tokio::sync::Notify;

pub const RUN: &str = "run_1";

/// Short, so that no test waits; nothing asserts how long it takes.
pub const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(1),
    cap: Duration::from_millis(4),
    max_elapsed: Some(Duration::from_secs(60)),
};

/// How the server answers one request.
pub enum Answer {
    /// An event stream with this body, closed in good order.
    Events(String),
    /// An event stream with this body, whose connection then breaks.
    Broken(String),
    /// An event stream with this body, and then silence.
    Silent(String),
    /// An event stream that repeats these bytes for ever, and counts those that it could send.
    Endless(String, Arc<AtomicUsize>),
    /// The frames behind the request's `Last-Event-ID`, in one event stream.
    Rest(Vec<Bytes>),
    /// A status, with headers and a body.
    Status(u16, &'static [(&'static str, &'static str)], String),
    /// A WebSocket that takes the first message and then says these.
    Socket(Vec<Say>),
}

/// What the server says over a WebSocket. Behind the last of them the connection is dropped without a close.
pub enum Say {
    Message(Message),
    Close(u16, &'static str),
    /// Nothing more, with the connection open.
    Silence,
}

/// One request, as the server saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    pub target: String,
    pub last_event_id: Option<String>,
    pub authorization: Option<String>,
    pub idempotency_key: Option<String>,
    /// The body, or a WebSocket's first message.
    pub body: String,
}

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Wakes whoever waits for a silent connection to be left by the client.
    left: Arc<Notify>,
}

/// A silent connection; dropped when the client has left it.
struct Open(Arc<Notify>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// The server. Dropping it stops it.
pub struct Scripted {
    pub address: String,
    client: Server,
    script: Script,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scripted {
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Scripted {
        let script = Script { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Script::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(script.clone());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let client = server(&address, None);
        Scripted { address, client, script, task }
    }

    pub fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.script.answers.lock().unwrap().extend(answers);
    }

    pub fn client(&self) -> Server {
        self.client.clone()
    }

    /// Returns when the client has left a silent connection.
    pub async fn left(&self) {
        let left = self.script.left.notified();
        tokio::time::timeout(Duration::from_secs(60), left).await.expect("the client never left the connection");
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.script.asked.lock().unwrap())
    }

    /// Whether every line of the script was used.
    pub fn is_over(&self) -> bool {
        self.script.answers.lock().unwrap().is_empty()
    }
}

pub fn server(address: &str, token: Option<&str>) -> Server {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Server::new(address, token.map(str::to_owned)).unwrap()
}

async fn answer(
    State(script): State<Script>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let mut asked = Asked {
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        last_event_id: header("last-event-id"),
        authorization: header("authorization"),
        idempotency_key: header("idempotency-key"),
        body: String::new(),
    };
    let next = script.answers.lock().unwrap().pop_front();
    match next {
        Some(Answer::Socket(says)) => upgrade.unwrap().on_upgrade(move |mut socket| async move {
            if let Some(Ok(Message::Text(first))) = socket.recv().await {
                asked.body = first.to_string();
            }
            script.asked.lock().unwrap().push(asked);
            say_all(socket, says, Open(script.left)).await;
        }),
        other => {
            let last: usize = asked.last_event_id.as_deref().map_or(0, |id| id.parse().unwrap_or(0));
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            asked.body = String::from_utf8(body.to_vec()).unwrap();
            script.asked.lock().unwrap().push(asked);
            match other {
                Some(Answer::Events(text)) => event_stream(Body::from(text)),
                Some(Answer::Broken(text)) => {
                    // Not at once: what was sent before is on its way when the connection breaks.
                    let broken = stream::once(async {
                        tokio::task::yield_now().await;
                        Err(std::io::Error::other("the script breaks the connection here"))
                    });
                    event_stream(Body::from_stream(stream::iter([Ok(text)]).chain(broken)))
                }
                Some(Answer::Silent(text)) => {
                    let open = Open(script.left);
                    let silence = stream::once(async move {
                        let _open = open;
                        std::future::pending().await
                    });
                    event_stream(Body::from_stream(stream::iter([Ok::<_, std::io::Error>(text)]).chain(silence)))
                }
                Some(Answer::Endless(body, sent)) => {
                    let endless = stream::repeat(body).inspect(move |body| {
                        sent.fetch_add(body.len(), Ordering::Relaxed);
                    });
                    event_stream(Body::from_stream(endless.map(Ok::<_, std::io::Error>)))
                }
                Some(Answer::Rest(frames)) => event_stream(Body::from(sse(&frames[last..], last as u64 + 1))),
                Some(Answer::Status(status, headers, body)) => {
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(*name, *value);
                    }
                    response.body(Body::from(body)).unwrap()
                }
                Some(Answer::Socket(_)) => unreachable!("matched above"),
                None => (axum::http::StatusCode::IM_A_TEAPOT, "the script is over").into_response(),
            }
        }
    }
}

fn event_stream(body: Body) -> Response {
    ([("content-type", "text/event-stream; charset=utf-8")], body).into_response()
}

async fn say_all(mut socket: WebSocket, says: Vec<Say>, _open: Open) {
    for say in says {
        let message = match say {
            Say::Message(message) => message,
            Say::Close(code, reason) => Message::Close(Some(CloseFrame { code, reason: reason.into() })),
            Say::Silence => {
                while let Some(Ok(_)) = socket.recv().await {}
                return;
            }
        };
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

/// A run's whole log: `run.start`, a `text.delta` for each text, `run.end`.
pub fn log(texts: &[&str]) -> Vec<Bytes> {
    let start = Data::RunStart(RunStart {
        agent_id: "demo".into(),
        agent_revision_id: None,
        session_id: None,
        lane: None,
        trigger_kind: None,
        attempt: 1,
        extra: Map::new(),
    });
    let end = Data::RunEnd(RunEnd {
        status: EndStatus::Completed,
        usage: None,
        cost: None,
        duration_ms: None,
        failure_class: None,
        failure_detail: None,
        extra: Map::new(),
    });
    let texts = texts.iter().map(|text| Data::TextDelta(TextDelta::new((*text).into())));
    let data = [start].into_iter().chain(texts).chain([end]);
    (1..).zip(data).map(|(seq, data)| body_of(RUN, seq, data)).collect()
}

pub fn body_of(run_id: &str, seq: u64, data: Data) -> Bytes {
    let segment_id = data.frame_type().requires_segment().then(|| SegmentId::from("seg_1"));
    Frame { seq, run_id: run_id.into(), ts: Timestamp::from_unix_millis(0), segment_id, data }.encode()
}

/// Bodies as server-sent events, numbered from `first`.
pub fn sse(bodies: &[Bytes], first: u64) -> String {
    (first..)
        .zip(bodies)
        .map(|(seq, body)| format!("id: {seq}\ndata: {}\n\n", std::str::from_utf8(body).unwrap()))
        .collect()
}

pub fn text(body: &Bytes) -> Say {
    Say::Message(Message::Text(std::str::from_utf8(body).unwrap().into()))
}

/// Everything that a stream tells, to its end.
pub async fn all<S: Stream + Unpin>(stream: S) -> Vec<S::Item> {
    let told = stream.collect();
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("the stream does not end")
}

/// The bodies among what was told, which must not hold an error.
pub fn bodies(told: &[Result<Followed, FollowError>]) -> Vec<Bytes> {
    told.iter()
        .filter_map(|followed| match followed {
            Ok(Followed::Frame { seq, body, frame }) => {
                assert_eq!(*seq, frame.seq);
                assert_eq!(Frame::decode(body).unwrap(), *frame);
                Some(body.clone())
            }
            Ok(_) => None,
            Err(error) => panic!("{error}"),
        })
        .collect()
}

/// The sentences of all disconnects among what was told.
pub fn cuts(told: &[Result<Followed, FollowError>]) -> Vec<String> {
    told.iter()
        .filter_map(|followed| match followed {
            Ok(Followed::Disconnected { after, reason, .. }) => Some(format!("after {after}: {reason}")),
            _ => None,
        })
        .collect()
}
