//! A stream of bytes, cut into lines: what newline-delimited JSON comes in.

/// A line has more bytes than may be held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line has more than {0} bytes")]
pub struct LineTooLong(pub usize);

/// Puts lines together that come in pieces. A line ends with LF, or CR LF, or with the stream; it never comes in parts.
pub struct Lines {
    /// The line that is not complete.
    held: Vec<u8>,
    max_bytes: usize,
}

impl Lines {
    /// A line may have so many bytes.
    pub fn new(max_bytes: usize) -> Lines {
        Lines { held: Vec::new(), max_bytes }
    }

    /// The lines that these bytes complete, without their ends.
    ///
    /// # Errors
    /// When a line is longer than it may be. Nothing is to be pushed after that.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, LineTooLong> {
        let mut lines = Vec::new();
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.held.len() + piece.len() > self.max_bytes {
                return Err(LineTooLong(self.max_bytes));
            }
            self.held.extend_from_slice(piece);
            // What stands behind the last line end is the beginning of a line.
            if pieces.peek().is_some() {
                lines.push(self.take());
            }
        }
        Ok(lines)
    }

    /// The stream is over: its last line, if it did not end with a line end.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        (!self.held.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> Vec<u8> {
        if self.held.last() == Some(&b'\r') {
            self.held.pop();
        }
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_come_whole_however_the_bytes_are_cut() {
        let stream = "first\r\n\nsecond, longer\nlast".as_bytes();
        for cut in 1..=stream.len() {
            let mut lines = Lines::new(100);
            let mut found: Vec<Vec<u8>> = stream.chunks(cut).flat_map(|piece| lines.push(piece).unwrap()).collect();
            found.extend(lines.finish());
            assert_eq!(found, [&b"first"[..], b"", b"second, longer", b"last"], "cut every {cut} bytes");
            assert_eq!(lines.finish(), None);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_before_it_is_held() {
        let mut lines = Lines::new(4);
        assert_eq!(lines.push(b"four\n").unwrap(), [b"four"]);
        assert_eq!(lines.push(b"fi").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(lines.push(b"ve!"), Err(LineTooLong(4)));
    }
}
