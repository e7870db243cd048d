//! A TCP proxy that does to a connection what networks do.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

/// How a connection stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// RST: the reader gets an error.
    Reset,
    /// FIN: the reader gets an end, as if the server had closed.
    Close,
    /// Nothing more comes, and nobody says so.
    Silence,
}

pub const ENDINGS: [Ending; 3] = [Ending::Reset, Ending::Close, Ending::Silence];

/// What becomes of what the server sends over one connection.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// It arrives as it was sent.
    Clear,
    /// Exactly so many bytes of it arrive.
    Cut { after: u64, ending: Ending },
    /// Every byte is sent by itself, in both directions.
    OneByOne,
    /// Each piece arrives so much later than it was sent, and no two of them together.
    Late(Duration),
    /// What comes within this time arrives at once.
    Joined(Duration),
}

type Lines = Box<dyn FnMut() -> Line + Send>;

/// The proxy. Dropping it breaks its connections.
pub struct Proxy {
    url: String,
    accepting: JoinHandle<()>,
    hang_up: mpsc::Sender<oneshot::Sender<()>>,
    cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// In front of a server, with a line for each connection.
    pub async fn new(server: &str, lines: impl FnMut() -> Line + Send + 'static) -> Proxy {
        let server = server.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let cuts = Arc::new(AtomicUsize::new(0));
        let (hang_up, told) = mpsc::channel(1);
        let accepting = tokio::spawn(accept(listener, server, Box::new(lines), told, Arc::clone(&cuts)));
        Proxy { url, accepting, hang_up, cuts }
    }

    /// In front of a server, with these lines one after the other, and clear ones behind them.
    pub async fn with(server: &str, lines: impl IntoIterator<Item = Line>) -> Proxy {
        let mut lines: VecDeque<Line> = lines.into_iter().collect();
        Proxy::new(server, move || lines.pop_front().unwrap_or(Line::Clear)).await
    }

    /// Its address, as `http://…`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Breaks all connections: what a client kept open for its next request is gone when this returns.
    pub async fn hang_up(&self) {
        let (done, is_done) = oneshot::channel();
        self.hang_up.send(done).await.unwrap();
        is_done.await.unwrap();
    }

    /// How many connections it has cut.
    pub fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    mut lines: Lines,
    mut told: mpsc::Receiver<oneshot::Sender<()>>,
    cuts: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            Some(done) = told.recv() => {
                connections.shutdown().await;
                let _ = done.send(());
                continue;
            }
        };
        let line = lines();
        let (server, cuts) = (server.clone(), Arc::clone(&cuts));
        connections.spawn(async move {
            // A server that is not there looks to the client like one that hangs up.
            let Ok(server) = TcpStream::connect(server).await else { return };
            // An error of either side ends both, which is what dropping them does.
            let _ = carry(client, server, line, &cuts).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, line: Line, cuts: &AtomicUsize) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let one_by_one = matches!(line, Line::OneByOne);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let cut = {
        let up = async move {
            let (mut from, mut to) = (from_client, to_server);
            let mut buffer = vec![0; 16 * 1024];
            loop {
                match from.read(&mut buffer).await? {
                    0 => return Ok::<_, io::Error>(None),
                    n if one_by_one => send_one_by_one(&mut to, &buffer[..n]).await?,
                    n => to.write_all(&buffer[..n]).await?,
                }
            }
        };
        let down = down(from_server, to_client, line);
        tokio::select! {
            done = up => done?,
            done = down => done?,
        }
    };
    let Some(ending) = cut else { return Ok(()) };
    cuts.fetch_add(1, Ordering::SeqCst);
    match ending {
        Ending::Reset => {
            drop(server);
            client.set_zero_linger()?;
        }
        Ending::Close => {
            drop(server);
            client.shutdown().await?;
            // Closing with something unread would be a RST.
            tokio::io::copy(&mut client, &mut tokio::io::sink()).await?;
        }
        // Until the client leaves; the server is not told before that.
        Ending::Silence => {
            tokio::io::copy(&mut client, &mut tokio::io::sink()).await?;
        }
    }
    Ok(())
}

/// Carries what the server sends until it ends, or until the line is cut.
async fn down(
    mut from: tokio::net::tcp::ReadHalf<'_>,
    mut to: tokio::net::tcp::WriteHalf<'_>,
    line: Line,
) -> io::Result<Option<Ending>> {
    let mut buffer = vec![0; 64 * 1024];
    let mut left = match line {
        Line::Cut { after, .. } => after,
        _ => u64::MAX,
    };
    loop {
        let mut n = from.read(&mut buffer).await?;
        if n == 0 {
            return Ok(None);
        }
        match line {
            Line::Clear => to.write_all(&buffer[..n]).await?,
            Line::Cut { ending, .. } => {
                // The byte behind the last one has to have been sent, or the cut would be the server's own end.
                let passes = usize::try_from(left).unwrap_or(usize::MAX).min(n);
                to.write_all(&buffer[..passes]).await?;
                if passes < n {
                    return Ok(Some(ending));
                }
                left -= n as u64;
            }
            Line::OneByOne => send_one_by_one(&mut to, &buffer[..n]).await?,
            Line::Late(by) => {
                tokio::time::sleep(by).await;
                to.write_all(&buffer[..n]).await?;
            }
            Line::Joined(within) => {
                let until = tokio::time::Instant::now() + within;
                while n < buffer.len() {
                    match tokio::time::timeout_at(until, from.read(&mut buffer[n..])).await {
                        Err(_) => break,
                        Ok(more) => match more? {
                            0 => {
                                to.write_all(&buffer[..n]).await?;
                                return Ok(None);
                            }
                            more => n += more,
                        },
                    }
                }
                to.write_all(&buffer[..n]).await?;
            }
        }
    }
}

async fn send_one_by_one(to: &mut tokio::net::tcp::WriteHalf<'_>, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        to.write_all(&[*byte]).await?;
        // So that whoever reads gets to it before the next one is there.
        tokio::task::yield_now().await;
    }
    Ok(())
}
