//! Connections whose peers take nothing are given up.
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

/// Accepts [`PatientSocket`]s.
pub(crate) struct PatientListener {
    listener: TcpListener,
    patience: Duration,
}

impl PatientListener {
    /// Peers have `patience` to take something.
    pub(crate) fn new(listener: TcpListener, patience: Duration) -> PatientListener {
        PatientListener { listener, patience }
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
        (PatientSocket { socket, patience: self.patience, waiting: None }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A socket that fails when it could write nothing for too long.
pub(crate) struct PatientSocket {
    socket: TcpStream,
    patience: Duration,
    /// Runs while there is something to write and the socket takes none of it.
    waiting: Option<Pin<Box<Sleep>>>,
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
        Pin::new(&mut self.socket).poll_read(cx, buf)
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
