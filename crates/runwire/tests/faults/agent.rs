//! An agent that exists already: an AG-UI endpoint that streams whatever a test wants.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The events of an answer, as JSON texts.
pub type Events = Box<dyn Iterator<Item = String> + Send>;

type Answers = Arc<dyn Fn(&Value) -> Events + Send + Sync>;

/// The agent. It stops with the test that started it.
pub struct Agent {
    url: String,
    accepting: JoinHandle<()>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Agent {
    /// Answers each input with the events that are made for it, between `RUN_STARTED` and `RUN_FINISHED`. They are
    /// written in pieces of so many bytes.
    pub async fn start(piece: usize, events: impl Fn() -> Events + Send + Sync + 'static) -> Agent {
        let answers: Answers = Arc::new(move |input| {
            let end = |kind: &str| json!({"type": kind, "threadId": input["threadId"], "runId": input["runId"]});
            let (started, finished) = (end("RUN_STARTED").to_string(), end("RUN_FINISHED").to_string());
            Box::new([started].into_iter().chain(events()).chain([finished]))
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answers = Arc::clone(&answers);
                // A server that was killed takes no more of it.
                tokio::spawn(async move { answer(stream, answers, piece).await });
            }
        });
        Agent { url, accepting }
    }

    /// What names it in a configuration.
    pub fn configured(&self, name: &str) -> String {
        format!("\n[agents.{name}]\ndriver = \"agui\"\nurl = \"{}\"\n", self.url)
    }
}

/// A message with these deltas.
pub fn message(id: &str, deltas: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut events = vec![json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}).to_string()];
    for delta in deltas {
        events.push(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}).to_string());
    }
    events.push(json!({"type": "TEXT_MESSAGE_END", "messageId": id}).to_string());
    events
}

async fn answer(mut stream: TcpStream, answers: Answers, piece: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = Vec::new();
    let body = loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.trim().parse().unwrap();
        if request.len() >= end + 4 + length {
            break request.split_off(end + 4);
        }
    };
    let input: Value = serde_json::from_slice(&body).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n").await?;
    let mut buffer = Vec::new();
    for event in answers(&input) {
        buffer.extend_from_slice(b"data: ");
        buffer.extend_from_slice(event.as_bytes());
        buffer.extend_from_slice(b"\n\n");
        let whole = buffer.len() / piece * piece;
        for piece in buffer[..whole].chunks(piece) {
            stream.write_all(piece).await?;
        }
        buffer.drain(..whole);
    }
    stream.write_all(&buffer).await?;
    stream.shutdown().await
}
