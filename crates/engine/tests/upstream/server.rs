//! An upstream agent whose every byte is written by the test.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, Response, Uri};
use axum::serve::ListenerExt as _;
use serde_json::Value;
use tokio::sync::mpsc;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Value,
}

/// What is done to the answer's body next.
#[derive(Clone, Debug)]
pub enum Step {
    Bytes(Vec<u8>),
    Wait(Duration),
    /// Nothing more, for ever.
    Hang,
    /// The connection is reset.
    Reset,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: Option<&'static str>,
    /// Where to go instead.
    pub location: Option<String>,
    /// When to come back.
    pub retry_after: Option<&'static str>,
    /// Waited for before the answer's head is sent.
    pub after: Duration,
    pub steps: Vec<Step>,
}

impl Answer {
    /// An event stream of these bytes, and its regular end.
    pub fn stream(bytes: impl Into<Vec<u8>>) -> Answer {
        Answer::steps(vec![Step::Bytes(bytes.into())])
    }

    pub fn steps(steps: Vec<Step>) -> Answer {
        let content_type = Some("text/event-stream");
        Answer { status: 200, content_type, location: None, retry_after: None, after: Duration::ZERO, steps }
    }

    /// The events as most servers write them.
    pub fn events(events: &[Value]) -> Answer {
        Answer::stream(lines(events, "\n"))
    }

    /// The events, and then this.
    pub fn events_then(events: &[Value], then: Step) -> Answer {
        Answer::steps(vec![Step::Bytes(lines(events, "\n")), then])
    }

    pub fn refusal(status: u16, body: &str) -> Answer {
        Answer { status, content_type: Some("application/json"), ..Answer::stream(body) }
    }
}

/// The events as Server-Sent Events with this line end.
pub fn lines(events: &[Value], line_end: &str) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}{line_end}{line_end}")).collect::<String>().into_bytes()
}

type Script = dyn Fn(usize, &Seen) -> Answer + Send + Sync;

/// The agent, on a port of its own, until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Told for each answer whose connection was closed before it was over.
    closed_early: mpsc::UnboundedReceiver<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Answers the request number 0, 1, … by the script.
    pub async fn start(script: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static) -> Server {
        let script: Arc<Script> = Arc::new(script);
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (tell, closed_early) = mpsc::unbounded_channel();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = seen.clone();
        let app = axum::Router::new().fallback(move |request: Request<Body>| {
            let (script, requests, tell) = (script.clone(), requests.clone(), tell.clone());
            async move { Ok::<_, Infallible>(answer(&*script, &requests, tell, request).await) }
        });
        // Each piece goes out by itself and at once.
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Server { address, seen, closed_early, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/agent", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until a connection was closed before its answer was over.
    pub async fn closed_early(&mut self) {
        self.closed_early.recv().await.unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    script: &Script,
    requests: &Mutex<Vec<Seen>>,
    tell: mpsc::UnboundedSender<()>,
    request: Request<Body>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let seen = Seen {
        method: head.method,
        uri: head.uri,
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let number = {
        let mut requests = requests.lock().unwrap();
        requests.push(seen.clone());
        requests.len() - 1
    };
    let answer = script(number, &seen);
    tokio::time::sleep(answer.after).await;
    let mut response = Response::builder().status(answer.status);
    if let Some(content_type) = answer.content_type {
        response = response.header("content-type", content_type);
    }
    if let Some(when) = answer.retry_after {
        response = response.header("retry-after", when);
    }
    if let Some(location) = answer.location {
        response = response.header("location", location);
    }
    let progress = Progress { steps: answer.steps.into_iter(), over: false, tell };
    response.body(Body::from_stream(futures_util::stream::unfold(progress, Progress::next))).unwrap()
}

/// How far an answer has been written.
struct Progress {
    steps: std::vec::IntoIter<Step>,
    over: bool,
    tell: mpsc::UnboundedSender<()>,
}

impl Progress {
    async fn next(mut self) -> Option<(Result<Bytes, io::Error>, Progress)> {
        loop {
            match self.steps.next() {
                Some(Step::Bytes(bytes)) => {
                    // Otherwise several pieces go out as one.
                    tokio::task::yield_now().await;
                    return Some((Ok(bytes.into()), self));
                }
                Some(Step::Wait(pause)) => tokio::time::sleep(pause).await,
                Some(Step::Hang) => std::future::pending().await,
                Some(Step::Reset) => {
                    // So that what was written before is on its way first.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    self.over = true;
                    return Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), self));
                }
                None => {
                    self.over = true;
                    return None;
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.tell.send(());
        }
    }
}
