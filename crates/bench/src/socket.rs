//! A reader on a plain blocking socket: nothing between it and the time of arrival.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;

use crate::wire::Transport;

/// No stream of any benchmark is silent for so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads a stream to its end. `arrived` gets each piece of payload with the time at which the read that brought it
/// returned.
///
/// # Errors
/// When the server refuses, the stream breaks, or nothing comes for 30 s.
pub fn follow(
    transport: Transport,
    address: &str,
    path: &str,
    mut arrived: impl FnMut(&[u8], Instant),
) -> anyhow::Result<()> {
    let mut socket = TcpStream::connect(address).with_context(|| format!("{address} cannot be reached"))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(transport.request(address, path).as_bytes())?;
    let mut buffer = vec![0; 256 * 1024];
    let mut filled = 0;
    let (mut from, mut now) = loop {
        let read = socket.read(&mut buffer[filled..])?;
        let now = Instant::now();
        filled += read;
        match transport.head(&buffer[..filled])? {
            Some(head) => break (head, now),
            None if read == 0 || filled == buffer.len() => bail!("the server's answer has no whole head"),
            None => {}
        }
    };
    let mut body = transport.body();
    loop {
        body.feed(&buffer[from..filled], |payload| arrived(payload, now))?;
        if body.ended() {
            return Ok(());
        }
        filled = socket.read(&mut buffer)?;
        now = Instant::now();
        from = 0;
        if filled == 0 {
            bail!("the stream was cut after {} bytes", body.bytes());
        }
    }
}

/// The time from a request to the arrival of this text in its SSE stream. The reader leaves then.
///
/// # Errors
/// When the server refuses, or the stream ends or is silent for 30 s without it.
pub fn until(address: &str, path: &str, wanted: &str) -> anyhow::Result<Duration> {
    let mut socket = TcpStream::connect(address).with_context(|| format!("{address} cannot be reached"))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let asked = Instant::now();
    socket.write_all(Transport::Sse.request(address, path).as_bytes())?;
    let mut buffer = vec![0; 256 * 1024];
    let mut filled = 0;
    let mut from = loop {
        let read = socket.read(&mut buffer[filled..])?;
        filled += read;
        match Transport::Sse.head(&buffer[..filled])? {
            Some(head) => break head,
            None if read == 0 || filled == buffer.len() => bail!("the server's answer has no whole head"),
            None => {}
        }
    };
    let mut body = Transport::Sse.body();
    // What came last, and before it the end of what came earlier, where the text may have begun.
    let mut recent = Vec::new();
    loop {
        body.feed(&buffer[from..filled], |payload| recent.extend_from_slice(payload))?;
        if recent.windows(wanted.len()).any(|w| w == wanted.as_bytes()) {
            return Ok(asked.elapsed());
        }
        recent.drain(..recent.len().saturating_sub(wanted.len()));
        from = 0;
        filled = if body.ended() { 0 } else { socket.read(&mut buffer)? };
        if filled == 0 {
            bail!("the stream ended after {} bytes, without `{wanted}`", body.bytes());
        }
    }
}

/// The whole payload of an SSE stream that ends.
///
/// # Errors
/// As [`follow`].
pub fn read_all(address: &str, path: &str) -> anyhow::Result<Bytes> {
    let mut all = Vec::new();
    follow(Transport::Sse, address, path, |payload, _| all.extend_from_slice(payload))?;
    Ok(all.into())
}
