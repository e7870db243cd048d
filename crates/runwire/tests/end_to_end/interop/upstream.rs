//! An agent of which the test writes every event.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What it answers to an input.
pub type Script = dyn Fn(&Value) -> Vec<Value> + Send + Sync;

/// Listens on a port of its own until it is dropped.
pub struct Upstream {
    pub url: String,
    // Its connections end with it.
    _accepting: JoinSet<()>,
}

impl Upstream {
    pub async fn start(script: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static) -> Upstream {
        let script: Arc<Script> = Arc::new(script);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut answering = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                answering.spawn(answer(stream, script.clone()));
            }
        });
        Upstream { url, _accepting: accepting }
    }
}

async fn answer(mut stream: TcpStream, script: Arc<Script>) {
    let input = request(&mut stream).await;
    let body: String = script(&input).iter().map(|event| format!("data: {event}\n\n")).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    // A reader that goes away is no failure of the agent.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// The JSON body of the one request of a connection.
async fn request(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
            let body = &bytes[end + 4..];
            if body.len() >= length.trim().parse::<usize>().unwrap() {
                return serde_json::from_slice(body).unwrap();
            }
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request is whole");
    }
}
