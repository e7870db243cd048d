//! What arrives on a reader's socket, taken apart as cheaply as can be: a reader must not be what is measured.

use anyhow::{Context as _, bail};

/// How a reader follows a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// Server-sent events.
    Sse,
    /// WebSocket.
    Ws,
}

impl Transport {
    /// As the command line spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Sse => "sse",
            Transport::Ws => "ws",
        }
    }

    /// The request that opens the stream. A token in the header spares the WebSocket its first message.
    pub fn request(self, address: &str, path: &str) -> String {
        let rest = match self {
            Transport::Sse => "Accept: text/event-stream\r\nConnection: close\r\n",
            Transport::Ws => {
                "Authorization: Bearer any\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: cnVud2lyZS1iZW5jaC0xNg==\r\n"
            }
        };
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{rest}\r\n")
    }

    /// Checks a response head and says how long it is; `None` while it is not whole.
    ///
    /// # Errors
    /// When the server refuses, or answers in a way that the reader does not read.
    pub fn head(self, bytes: &[u8]) -> anyhow::Result<Option<usize>> {
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&bytes[..end]).context("the response head is not text")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        match (self, status) {
            (Transport::Sse, "200") if chunked => Ok(Some(end + 4)),
            (Transport::Ws, "101") => Ok(Some(end + 4)),
            _ => bail!("the server answered: {head}"),
        }
    }

    /// The reader of what follows the head.
    pub fn body(self) -> Body {
        Body { transport: self, state: State::Header, header: Header::default(), left: 0, pieces: 0, bytes: 0 }
    }
}

enum State {
    /// In a chunk's size line, or a WebSocket frame's header.
    Header,
    /// In the payload; `left` bytes of it are to come.
    Payload,
    /// In the line end after a chunk.
    AfterChunk,
    Ended,
}

#[derive(Default)]
struct Header {
    bytes: [u8; 24],
    len: usize,
}

/// A stream of chunks (SSE) or WebSocket frames, counted.
pub struct Body {
    transport: Transport,
    state: State,
    header: Header,
    left: usize,
    pieces: u64,
    bytes: u64,
}

impl Body {
    /// Chunks or text messages that have begun.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Payload bytes so far, without the framing of chunks or messages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the server has said that nothing follows.
    pub fn ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Takes what was read; `payload` gets the payload in it, in pieces of any size.
    ///
    /// # Errors
    /// When the framing is broken.
    pub fn feed(&mut self, mut bytes: &[u8], mut payload: impl FnMut(&[u8])) -> anyhow::Result<()> {
        while !bytes.is_empty() {
            match self.state {
                State::Header => {
                    self.header_byte(bytes[0])?;
                    bytes = &bytes[1..];
                }
                State::Payload => {
                    let (now, rest) = bytes.split_at(self.left.min(bytes.len()));
                    payload(now);
                    self.bytes += now.len() as u64;
                    self.left -= now.len();
                    bytes = rest;
                    if self.left == 0 {
                        self.state = match self.transport {
                            Transport::Sse => State::AfterChunk,
                            Transport::Ws => State::Header,
                        };
                    }
                }
                State::AfterChunk => {
                    if bytes[0] == b'\n' {
                        self.state = State::Header;
                    }
                    bytes = &bytes[1..];
                }
                State::Ended => return Ok(()),
            }
        }
        Ok(())
    }

    fn header_byte(&mut self, byte: u8) -> anyhow::Result<()> {
        let Header { bytes, len } = &mut self.header;
        *bytes.get_mut(*len).context("a chunk's size line is longer than any that a server writes")? = byte;
        *len += 1;
        let header = &bytes[..*len];
        let length = match self.transport {
            Transport::Sse => chunk_length(header)?,
            Transport::Ws => message_length(header),
        };
        let Some(length) = length else { return Ok(()) };
        let ends = match self.transport {
            Transport::Sse => length == 0,
            Transport::Ws => header[0] & 0x0f == 8,
        };
        let is_control = self.transport == Transport::Ws && header[0] & 0x08 != 0;
        self.header.len = 0;
        self.left = length;
        self.state = match (ends, length) {
            (true, _) => State::Ended,
            (false, 0) => State::Header,
            (false, _) => State::Payload,
        };
        if !ends && !is_control {
            self.pieces += 1;
        }
        Ok(())
    }
}

fn chunk_length(line: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(digits) = line.strip_suffix(b"\r\n") else { return Ok(None) };
    let digits = std::str::from_utf8(digits).context("a chunk's size is not text")?;
    Ok(Some(usize::from_str_radix(digits, 16).context("a chunk's size is not a number")?))
}

/// RFC 6455 section 5.2; what a server sends is never masked.
fn message_length(header: &[u8]) -> Option<usize> {
    let big_endian = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b));
    match (header.get(1)?, header.len()) {
        (126, 4) => Some(big_endian(&header[2..])),
        (127, 10) => Some(big_endian(&header[2..])),
        (126 | 127, _) => None,
        (length, _) => Some(usize::from(*length)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(transport: Transport, stream: &[u8], step: usize) -> (Vec<u8>, u64, bool) {
        let mut body = transport.body();
        let mut payload = Vec::new();
        for piece in stream.chunks(step) {
            body.feed(piece, |p| payload.extend_from_slice(p)).unwrap();
        }
        assert_eq!(body.bytes(), payload.len() as u64);
        (payload, body.pieces(), body.ended())
    }

    #[test]
    fn chunks_are_joined_wherever_the_socket_cuts_them() {
        let stream = b"5\r\nhello\r\nA\r\n, reader!\n\r\n0\r\n\r\n";
        for step in 1..stream.len() {
            assert_eq!(read(Transport::Sse, stream, step), (b"hello, reader!\n".to_vec(), 2, true));
        }
    }

    #[test]
    fn messages_of_every_length_form_are_read_and_pings_do_not_count() {
        let mut stream = vec![0x81, 2, b'h', b'i', 0x89, 0, 0x81, 126, 0x01, 0x00];
        stream.extend([b'x'; 256]);
        stream.extend([0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        stream.extend(vec![b'y'; 65536]);
        stream.extend([0x88, 2, 0x03, 0xe8]);
        for step in [1, 2, 3, 7, 1000, stream.len()] {
            let (payload, pieces, ended) = read(Transport::Ws, &stream, step);
            assert_eq!((payload.len(), pieces, ended), (2 + 256 + 65536, 3, true));
        }
    }

    #[test]
    fn a_refusal_is_an_error_and_half_a_head_is_not() {
        assert_eq!(Transport::Sse.head(b"HTTP/1.1 200 OK\r\n").unwrap(), None);
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nrest";
        assert_eq!(Transport::Sse.head(whole).unwrap(), Some(whole.len() - 4));
        assert!(Transport::Sse.head(b"HTTP/1.1 404 Not Found\r\n\r\n").is_err());
        assert!(Transport::Ws.head(whole).is_err());
    }
}
