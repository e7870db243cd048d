//! Connections whose peers take nothing, or never say what they speak, are given up.
//!
//! TCP itself waits for as long as the peer's machine answers at all: a reader that is stopped, or asleep behind a proxy
//! that is not, would hold its connection, and the page of frames on its way, for ever (G8).

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

/// What an HTTP/2 connection begins with. Which of the two a peer speaks is open for as long as it has said nothing else.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Accepts [`PatientSocket`]s.
pub(crate) struct PatientListener {
    listener: TcpListener,
    patience: Duration,
    opening: Duration,
}

impl PatientListener {
    /// Peers have `patience` to take something, and `opening` to say whether they speak HTTP/1.1 or HTTP/2.
    pub(crate) fn new(listener: TcpListener, patience: Duration, opening: Duration) -> PatientListener {
        PatientListener { listener, patience, opening }
    }
}

impl Listener for PatientListener {
    type Io = PatientSocket;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (PatientSocket, SocketAddr) {
        let (socket, address) = Listener::accept(&mut self.listener).await;
        // A frame must not wait for the next one to fill a packet.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let opening = Opening { heard: 0, deadline: Box::pin(tokio::time::sleep(self.opening)) };
        (PatientSocket { socket, patience: self.patience, waiting: None, opening: Some(opening) }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A socket that fails when it could write nothing for too long, or when its peer does not begin.
pub(crate) struct PatientSocket {
    socket: TcpStream,
    patience: Duration,
    /// Runs while there is something to write and the socket takes none of it.
    waiting: Option<Pin<Box<Sleep>>>,
    /// There until the peer has said what it speaks. From then on that protocol has its own limits.
    opening: Option<Opening>,
}

/// A peer that may yet speak either protocol. Whoever serves it waits for more without a limit.
struct Opening {
    /// How much of the preface has come.
    heard: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Opening {
    /// Whether it is still open what the peer speaks, now that this came too. Nothing is the end of what it says.
    fn hears(&mut self, said: &[u8]) -> bool {
        let expected = &PREFACE[self.heard..];
        self.heard += said.len();
        !said.is_empty() && said.len() < expected.len() && expected.starts_with(said)
    }
}

impl PatientSocket {
    /// `written` unless it has been pending for too long.
    fn patiently(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        let problem = format!("the peer took nothing for {patience:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)))
    }
}

impl AsyncRead for PatientSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        let Some(opening) = &mut self.opening else { return read };
        if read.is_pending() {
            ready!(opening.deadline.as_mut().poll(cx));
            let problem = "the peer did not say what it speaks";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)));
        }
        if !opening.hears(&buf.filled()[before..]) {
            self.opening = None;
        }
        read
    }
}

impl AsyncWrite for PatientSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.patiently(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.patiently(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
