//! HTTP/1.1 read by hand, so that a response that was cut can be told from one that ended.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Line, Loss};

/// A response whose body is still coming.
pub struct Raw {
    pub status: u16,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    line: Line,
    /// Received and not taken yet.
    buffer: Vec<u8>,
    chunk: Chunk,
}

enum Chunk {
    /// A line with the next chunk's size comes.
    Size,
    /// So many bytes of the chunk are left, and a line end.
    Data(usize),
    Over,
}

/// What came of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    Data(Vec<u8>),
    /// The server ended the body.
    Ended,
    /// The connection broke.
    Cut,
}

impl Raw {
    /// Sends a GET request, waits for the head of the answer, and then lets the line live for `cut_after` more bytes.
    pub async fn get(mut line: Line, target: &str, headers: &str, cut_after: Option<usize>) -> Raw {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        line.write_all(request.as_bytes()).await.unwrap();
        let mut buffer = Vec::new();
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
            assert!(line.read_buf(&mut buffer).await.unwrap() > 0, "the server closed before it answered");
        };
        let rest = buffer.split_off(end + 4);
        let head = String::from_utf8(buffer).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|l| l.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let chunk = if chunked { Chunk::Size } else { Chunk::Over };
        let mut raw = Raw { status, headers, line, buffer: rest, chunk };
        if let Some(bytes) = cut_after {
            raw.buffer.truncate(bytes);
            raw.line.cut_after(bytes - raw.buffer.len());
        }
        raw
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The next bytes of the body, as soon as there are any.
    pub async fn piece(&mut self) -> Piece {
        loop {
            match self.chunk {
                Chunk::Size => {
                    if let Some(end) = self.buffer.windows(2).position(|w| w == b"\r\n") {
                        let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                        let size = std::str::from_utf8(&line[..end]).unwrap();
                        self.chunk = match usize::from_str_radix(size, 16).unwrap() {
                            0 => Chunk::Over,
                            size => Chunk::Data(size),
                        };
                        continue;
                    }
                }
                Chunk::Data(0) => {
                    if self.buffer.len() >= 2 {
                        self.buffer.drain(..2);
                        self.chunk = Chunk::Size;
                        continue;
                    }
                }
                Chunk::Data(left) => {
                    if !self.buffer.is_empty() {
                        let taken = left.min(self.buffer.len());
                        self.chunk = Chunk::Data(left - taken);
                        let rest = self.buffer.split_off(taken);
                        return Piece::Data(std::mem::replace(&mut self.buffer, rest));
                    }
                }
                Chunk::Over => return Piece::Ended,
            }
            match self.line.read_buf(&mut self.buffer).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Piece::Cut,
            }
        }
    }

    /// The whole body, and whether the server ended it.
    pub async fn rest(mut self) -> (String, bool) {
        let mut body = Vec::new();
        loop {
            match self.piece().await {
                Piece::Data(data) => body.extend(data),
                end => return (String::from_utf8(body).unwrap(), end == Piece::Ended),
            }
        }
    }

    pub async fn lose(self, how: Loss) {
        self.line.lose(how).await;
    }
}
