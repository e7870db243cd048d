//! What a command writes to its standard error: lines for the operator's log, and the end of it for whoever asks why it
//! failed. Always read, so that no command waits for its complaints to be heard.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// So much of the end is kept.
const KEPT_BYTES: usize = 4096;
/// So much of a line is logged.
const LINE_BYTES: usize = 1024;
/// So many lines are logged in a [`PERIOD`]; of the others their number is.
const LINES: u32 = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// The standard error of one command.
#[derive(Default)]
pub(super) struct StandardError {
    /// The last bytes of it. Locked for a copy, never across an await.
    kept: Mutex<VecDeque<u8>>,
    closed: CancellationToken,
}

impl StandardError {
    /// Reads to the end, and logs.
    pub(super) async fn read(&self, mut source: impl AsyncRead + Unpin, run_id: &str) {
        let mut log = Log { run_id, line: Vec::new(), since: Instant::now(), logged: 0, left_out: 0 };
        let mut chunk = vec![0; 8192];
        while let Ok(bytes @ 1..) = source.read(&mut chunk).await {
            self.keep(&chunk[..bytes]);
            log.push(&chunk[..bytes]);
        }
        log.finish();
        self.closed.cancel();
    }

    /// Waits until the end was read.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// The last of what was written, as text; `None` when there was nothing but white space.
    pub(super) fn last(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        // The first character may be cut in two.
        let text = text.trim_start_matches('\u{FFFD}').trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&bytes[bytes.len().saturating_sub(KEPT_BYTES)..]);
        let too_many = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..too_many);
    }
}

/// Lines on their way to the operator's log.
struct Log<'a> {
    run_id: &'a str,
    /// The beginning of the line that is not complete, as far as it is logged.
    line: Vec<u8>,
    since: Instant,
    logged: u32,
    left_out: u64,
}

impl Log<'_> {
    fn push(&mut self, bytes: &[u8]) {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let room = LINE_BYTES - self.line.len();
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if pieces.peek().is_some() {
                self.tell();
            }
        }
    }

    fn tell(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        if self.since.elapsed() >= PERIOD {
            self.tell_left_out();
            (self.since, self.logged) = (Instant::now(), 0);
        }
        if self.logged == LINES {
            self.left_out += 1;
            return;
        }
        self.logged += 1;
        // Debug quotes control characters, so that a command cannot write to the operator's terminal.
        let line = String::from_utf8_lossy(&line);
        tracing::info!(run_id = self.run_id, line = ?line.trim_end(), "standard error of the command");
    }

    fn tell_left_out(&mut self) {
        if self.left_out > 0 {
            tracing::warn!(run_id = self.run_id, lines = self.left_out, "so much more standard error was left out");
            self.left_out = 0;
        }
    }

    fn finish(mut self) {
        self.tell();
        self.tell_left_out();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn the_end_is_kept_and_no_more_than_that() {
        let heard = StandardError::default();
        assert_eq!(heard.last(), None);
        let said = format!("{}\nthe reason\n", "é".repeat(10_000));
        heard.read(said.as_bytes(), "run_1").await;
        heard.closed().await;
        let last = heard.last().unwrap();
        assert!(last.ends_with("the reason") && last.starts_with('é') && last.len() <= KEPT_BYTES, "{}", last.len());
    }
}
