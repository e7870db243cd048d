//! A connection that can be lost.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

/// How a connection is lost.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    /// The peer's process is gone: its system says so (RST).
    Reset,
    /// The peer closed (FIN).
    Finish,
}

/// A TCP connection whose receiving end can be made to stop at a byte.
pub struct Line {
    socket: TcpStream,
    /// How many more bytes arrive before the line is dead; `None` for all.
    left: Option<usize>,
}

impl Line {
    pub async fn open(address: SocketAddr) -> Line {
        Line { socket: TcpStream::connect(address).await.unwrap(), left: None }
    }

    /// With next to no room for what was sent and is not read yet.
    pub async fn open_narrow(address: SocketAddr) -> Line {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Line { socket: socket.connect(address).await.unwrap(), left: None }
    }

    /// Nothing arrives after so many more bytes.
    pub fn cut_after(&mut self, bytes: usize) {
        self.left = Some(bytes);
    }

    pub async fn lose(mut self, how: Loss) {
        match how {
            Loss::Reset => self.socket.set_zero_linger().unwrap(),
            // The server may have closed already.
            Loss::Finish => drop(self.socket.shutdown().await),
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(left) = self.left else { return Pin::new(&mut self.socket).poll_read(cx, buf) };
        let mut piece = [0; 4096];
        let most = left.min(buf.remaining()).min(piece.len());
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut piece = ReadBuf::new(&mut piece[..most]);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut piece))?;
        buf.put_slice(piece.filled());
        self.left = Some(left - piece.filled().len());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
