//! Server-Sent Events as bytes: a decoder for any server's stream, an encoder for ours (transports/http-sse).

use crate::event::Event;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The last event id as of this event: its own, or the one that an earlier event set. `None` until one is set.
    pub id: Option<String>,
    /// The event's name, when it has one.
    pub event: Option<String>,
    /// The data: its `data` lines, joined by line feeds.
    pub data: String,
    /// The reconnection time that the event sets, in milliseconds.
    pub retry: Option<u64>,
}

/// Why a stream cannot be read on. The decoder yields nothing after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is larger than the decoder may hold.
    #[error("an event of the stream is larger than {limit} bytes; raise the limit if that is expected")]
    TooLarge {
        /// The most bytes that one event may have.
        limit: usize,
    },
    /// A line is not UTF-8.
    #[error("the stream is not UTF-8: a line has invalid bytes at position {position}")]
    NotUtf8 {
        /// Where in its line the first invalid byte is, from 0.
        position: usize,
    },
}

/// One event of a stream, where it was read: see [`SseDecoder::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEventRef<'a> {
    /// As [`SseEvent::id`].
    pub id: Option<&'a str>,
    /// As [`SseEvent::event`].
    pub event: Option<&'a str>,
    /// As [`SseEvent::data`].
    pub data: &'a str,
    /// As [`SseEvent::retry`].
    pub retry: Option<u64>,
}

impl SseEventRef<'_> {
    /// The event by itself, to be kept.
    #[must_use]
    pub fn to_owned(self) -> SseEvent {
        SseEvent {
            id: self.id.map(str::to_owned),
            event: self.event.map(str::to_owned),
            data: self.data.to_owned(),
            retry: self.retry,
        }
    }
}

/// Reads a stream of Server-Sent Events, in whatever pieces it arrives.
///
/// Lines may end with LF, CR or CRLF; a byte order mark at the start and comments are skipped; unknown fields are
/// ignored. Every byte is looked at once, so the cost is linear in the stream whatever the pieces are. Memory is bounded
/// by the limit, and an event that lies in one piece with its data on one line is not copied at all.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The line that is being read, as far as earlier pieces held it.
    line: Vec<u8>,
    /// Whether a LF that comes next belongs to a CR that already ended its line.
    after_cr: bool,
    first_line: bool,
    /// The data, from `data_start`.
    data: String,
    /// Behind the field's name, when the line was taken over as it was read.
    data_start: usize,
    has_data: bool,
    /// Whether any field of the current event was read.
    in_event: bool,
    event: Option<String>,
    retry: Option<u64>,
    last_id: Option<String>,
    reconnection_time: Option<u64>,
    /// Whether the current event was yielded, and goes when the next line comes.
    dispatched: bool,
    failed: bool,
}

impl SseDecoder {
    /// A decoder whose events have at most `max_event_bytes` bytes, line that is being read included.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            limit: max_event_bytes,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            data: String::new(),
            data_start: 0,
            has_data: false,
            in_event: false,
            event: None,
            retry: None,
            last_id: None,
            reconnection_time: None,
            dispatched: false,
            failed: false,
        }
    }

    /// Takes the next bytes and reads the events that they complete, one after the other. It must be read to its end:
    /// bytes that were not read when it is dropped are left out of the stream.
    pub fn read<'a>(&'a mut self, bytes: &'a [u8]) -> SseEvents<'a> {
        SseEvents { decoder: self, bytes, line: None }
    }

    /// Takes the next bytes and yields the events that they complete, each by itself: [`SseDecoder::read`] for a caller
    /// who keeps them. An error is the last thing yielded, after the events before it; everything pushed later is
    /// ignored.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Result<SseEvent, SseError>> {
        let mut events = self.read(bytes);
        let mut kept = Vec::new();
        while let Some(event) = events.next() {
            kept.push(event.map(SseEventRef::to_owned));
        }
        kept
    }

    /// Ends the stream. `true` when it stopped inside an event, which is discarded as the standard says: without its
    /// blank line nobody knows whether it is whole. A comment that is cut is part of none.
    #[must_use]
    pub fn finish(self) -> bool {
        !self.failed && (self.in_event || self.line.first().is_some_and(|&first| first != b':'))
    }

    /// The id of the last event that had one: what a reconnecting reader sends as `Last-Event-ID`.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The reconnection time that the stream asked for, in milliseconds.
    #[must_use]
    pub fn reconnection_time(&self) -> Option<u64> {
        self.reconnection_time
    }

    /// Forgets the event that was yielded last.
    fn begin_event(&mut self) {
        if std::mem::take(&mut self.dispatched) {
            self.data.clear();
            self.data_start = 0;
            self.has_data = false;
            self.event = None;
            self.retry = None;
        }
    }

    /// Reads a field other than `data`.
    fn field(&mut self, field: &str, value: &str) {
        match field {
            "event" => self.event = Some(value.to_owned()).filter(|name| !name.is_empty()),
            // An id with a NUL is ignored, as the standard says.
            "id" if !value.contains('\0') => self.last_id = Some(value.to_owned()).filter(|id| !id.is_empty()),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok();
                self.reconnection_time = self.retry.or(self.reconnection_time);
            }
            _ => {}
        }
    }
}

/// The events that some bytes complete; made by [`SseDecoder::read`].
///
/// Each event is borrowed from the bytes or from the decoder, until the next one is asked for.
#[derive(Debug)]
pub struct SseEvents<'a> {
    decoder: &'a mut SseDecoder,
    bytes: &'a [u8],
    /// The first data line of the current event, while the bytes that hold it are at hand and no other has come.
    line: Option<&'a str>,
}

/// What a line came to.
enum Line {
    /// Part of an event, or nothing.
    Read,
    /// The end of an event.
    Dispatch,
}

impl<'a> SseEvents<'a> {
    /// The next event. An error is the last thing yielded, after the events before it.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend what it yields")]
    pub fn next(&mut self) -> Option<Result<SseEventRef<'_>, SseError>> {
        self.line = None;
        self.decoder.begin_event();
        loop {
            if self.decoder.failed || self.bytes.is_empty() {
                self.keep_line();
                return None;
            }
            if std::mem::take(&mut self.decoder.after_cr) && self.bytes[0] == b'\n' {
                self.bytes = &self.bytes[1..];
                continue;
            }
            match self.read_line() {
                Ok(Line::Read) => {}
                Ok(Line::Dispatch) => break,
                Err(error) => {
                    self.decoder.failed = true;
                    return Some(Err(error));
                }
            }
        }
        let decoder = &*self.decoder;
        Some(Ok(SseEventRef {
            id: decoder.last_id.as_deref(),
            event: decoder.event.as_deref(),
            data: self.line.unwrap_or(&decoder.data[decoder.data_start..]),
            retry: decoder.retry,
        }))
    }

    /// Reads up to the next line end, or to the end of the bytes.
    fn read_line(&mut self) -> Result<Line, SseError> {
        // What ends nearly every event is seen where it stands.
        if self.bytes[0] == b'\n' && self.decoder.line.is_empty() {
            self.bytes = &self.bytes[1..];
            self.decoder.first_line = false;
            return Ok(self.end_event());
        }
        let end = memchr::memchr2(b'\n', b'\r', self.bytes);
        let piece = &self.bytes[..end.unwrap_or(self.bytes.len())];
        let held = self.line.map_or(self.decoder.data.len() - self.decoder.data_start, str::len);
        if self.decoder.line.len() + held + piece.len() > self.decoder.limit {
            return Err(SseError::TooLarge { limit: self.decoder.limit });
        }
        let Some(end) = end else {
            self.decoder.line.extend_from_slice(piece);
            self.bytes = &[];
            return Ok(Line::Read);
        };
        self.decoder.after_cr = self.bytes[end] == b'\r';
        self.bytes = &self.bytes[end + 1..];
        if self.decoder.line.is_empty() {
            return self.end_line(piece, Some);
        }
        let mut line = std::mem::take(&mut self.decoder.line);
        line.extend_from_slice(piece);
        if line.starts_with(b"data:") && !self.decoder.has_data && !self.decoder.first_line {
            return self.take_line_over(line);
        }
        let read = self.end_line(&line, |_| None);
        // The buffer is kept for the next line, so that a stream costs one allocation and not one a line.
        line.clear();
        self.decoder.line = line;
        read
    }

    /// Makes a whole line the data of the event, which has none yet, without copying it.
    fn take_line_over(&mut self, line: Vec<u8>) -> Result<Line, SseError> {
        let line = String::from_utf8(line)
            .map_err(|error| SseError::NotUtf8 { position: error.utf8_error().valid_up_to() })?;
        let decoder = &mut *self.decoder;
        decoder.data_start = if line.starts_with("data: ") { "data: ".len() } else { "data:".len() };
        // The buffers change places, so that a stream costs two allocations and not two a line.
        decoder.line = std::mem::replace(&mut decoder.data, line).into_bytes();
        decoder.line.clear();
        decoder.has_data = true;
        decoder.in_event = true;
        Ok(Line::Read)
    }

    /// Takes a whole line. `lasting` gives its data for as long as the bytes live, when it is of them.
    fn end_line<'l>(
        &mut self,
        mut line: &'l [u8],
        lasting: impl FnOnce(&'l str) -> Option<&'a str>,
    ) -> Result<Line, SseError> {
        if std::mem::take(&mut self.decoder.first_line) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let line =
            simdutf8::compat::from_utf8(line).map_err(|error| SseError::NotUtf8 { position: error.valid_up_to() })?;
        let (field, value) = match line.strip_prefix("data:") {
            Some(value) => ("data", value),
            None => line.split_once(':').unwrap_or((line, "")),
        };
        if field.is_empty() {
            return Ok(Line::Read);
        }
        let value = value.strip_prefix(' ').unwrap_or(value);
        self.decoder.in_event = true;
        if field != "data" {
            self.decoder.field(field, value);
        } else if std::mem::replace(&mut self.decoder.has_data, true) {
            self.keep_line();
            self.decoder.data.push('\n');
            self.decoder.data.push_str(value);
        } else {
            self.line = lasting(value);
            if self.line.is_none() {
                self.decoder.data.push_str(value);
            }
        }
        Ok(Line::Read)
    }

    /// Ends an event, which is none without data.
    fn end_event(&mut self) -> Line {
        self.decoder.in_event = false;
        self.decoder.dispatched = true;
        if self.decoder.has_data {
            return Line::Dispatch;
        }
        self.decoder.begin_event();
        Line::Read
    }

    /// Takes over what is to outlast the bytes.
    fn keep_line(&mut self) {
        if let Some(line) = self.line.take() {
            self.decoder.data.push_str(line);
        }
    }
}

/// Writes Server-Sent Events, with LF line ends only: the one form that every AG-UI consumer reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct SseEncoder;

impl SseEncoder {
    /// Appends one event. Line breaks in the data (LF, CR or CRLF) become several `data` lines, which a reader joins by
    /// LF. Of an id, CR, LF and NUL are left out: they cannot be sent in one.
    pub fn encode_event(out: &mut Vec<u8>, id: Option<&str>, data: &str) {
        encode_id(out, id);
        for line in lines(data) {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        out.push(b'\n');
    }

    /// Appends an AG-UI event, written into `out` where it is sent from: its JSON never holds a line break.
    pub fn encode_agui(out: &mut Vec<u8>, id: Option<&str>, event: &Event) {
        encode_id(out, id);
        out.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut *out, event)
            .expect("an event holds JSON values under string keys, and these always serialize; a Vec takes all bytes");
        out.extend_from_slice(b"\n\n");
    }

    /// Appends a comment, which readers skip: a sign of life.
    pub fn encode_comment(out: &mut Vec<u8>, text: &str) {
        for line in lines(text) {
            out.extend_from_slice(b": ");
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        out.push(b'\n');
    }

    /// Appends the time after which a reader that lost the connection should come back, in milliseconds.
    pub fn encode_retry(out: &mut Vec<u8>, milliseconds: u64) {
        out.extend_from_slice(format!("retry: {milliseconds}\n\n").as_bytes());
    }
}

fn encode_id(out: &mut Vec<u8>, id: Option<&str>) {
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend(id.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
        out.push(b'\n');
    }
}

/// The lines of a text by any of the three line ends, the empty last one included.
fn lines(mut text: &str) -> impl Iterator<Item = &str> {
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let Some(end) = memchr::memchr2(b'\n', b'\r', text.as_bytes()) else {
            done = true;
            return Some(text);
        };
        let line = &text[..end];
        let break_length = if text[end..].starts_with("\r\n") { 2 } else { 1 };
        text = &text[end + break_length..];
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn decode(stream: &[u8]) -> Vec<Result<SseEvent, SseError>> {
        SseDecoder::new(1 << 20).push(stream)
    }

    fn data(stream: &[u8]) -> Vec<String> {
        decode(stream).into_iter().map(|event| event.unwrap().data).collect()
    }

    #[test]
    fn a_line_ends_with_lf_cr_or_crlf() {
        for stream in ["data: a\n\ndata: b\n\n", "data: a\r\rdata: b\r\r", "data: a\r\n\r\ndata: b\r\n\r\n"] {
            assert_eq!(data(stream.as_bytes()), ["a", "b"], "{stream:?}");
        }
    }

    #[test]
    fn crlf_split_over_two_pushes_is_one_line_end() {
        let mut decoder = SseDecoder::new(100);
        assert!(decoder.push(b"data: a\r").is_empty());
        assert!(decoder.push(b"\ndata: b\r").is_empty());
        assert_eq!(decoder.push(b"\n\r\n").into_iter().map(Result::unwrap).next().unwrap().data, "a\nb");
    }

    #[test]
    fn a_byte_order_mark_and_comments_are_skipped_and_unknown_fields_ignored() {
        assert_eq!(data("\u{feff}data: a\n: keep-alive\nfuture: 1\ndata:b\n\n:\n\n".as_bytes()), ["a\nb"]);
    }

    #[test]
    fn an_id_lasts_until_another_one_is_set() {
        let ids: Vec<_> = decode(b"id: 7\ndata: a\n\ndata: b\n\nid: 8\nevent: x\nretry: 250\ndata\n\n")
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(ids[0].id.as_deref(), Some("7"));
        assert_eq!(ids[1].id.as_deref(), Some("7"));
        let third = SseEvent { id: Some("8".into()), event: Some("x".into()), data: String::new(), retry: Some(250) };
        assert_eq!(ids[2], third);
    }

    #[test]
    fn a_block_without_data_is_no_event() {
        assert!(decode(b"event: ping\n\nid: 3\n\n: hello\n\n").is_empty());
    }

    #[test]
    fn an_event_over_the_limit_is_refused_after_the_events_before_it() {
        let mut decoder = SseDecoder::new(8);
        let mut yielded = decoder.push(b"data: a\n\ndata: 123456789");
        assert_eq!(yielded.pop(), Some(Err(SseError::TooLarge { limit: 8 })));
        assert_eq!(yielded.pop().unwrap().unwrap().data, "a");
        assert!(decoder.push(b"\n\ndata: b\n\n").is_empty());
    }

    #[test]
    fn the_limit_counts_all_lines_of_an_event() {
        let mut decoder = SseDecoder::new(16);
        let yielded = decoder.push(b"data: 12345678\ndata: 12345678\n\n");
        assert_eq!(yielded, [Err(SseError::TooLarge { limit: 16 })]);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_refused() {
        assert_eq!(decode(b"data: \xff\n\n"), [Err(SseError::NotUtf8 { position: 6 })]);
    }

    #[test]
    fn an_unterminated_event_is_discarded_and_reported() {
        for (stream, unterminated) in [
            ("data: a\n\n", false),
            ("data: a\n", true),
            ("data: a", true),
            ("", false),
            ("data: a\n\n: keep", false),
            ("data: a\n: keep", true),
        ] {
            let mut decoder = SseDecoder::new(100);
            let _ = decoder.push(stream.as_bytes());
            assert_eq!(decoder.finish(), unterminated, "{stream:?}");
        }
    }

    #[test]
    fn events_are_framed_with_lf_only() {
        let mut out = Vec::new();
        SseEncoder::encode_retry(&mut out, 1000);
        SseEncoder::encode_comment(&mut out, "alive");
        SseEncoder::encode_event(&mut out, Some("7.\r\n0"), "one\r\ntwo\rthree\nfour");
        let expected = "retry: 1000\n\n: alive\n\nid: 7.0\ndata: one\ndata: two\ndata: three\ndata: four\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn an_agui_event_is_sent_as_its_json_on_one_line() {
        let mut event = crate::TextMessageContent::new("m", "a\nb\r\n\u{2028}");
        event.raw_event = Some(serde_json::json!({"k\n": "\r"}));
        let event = Event::from(event);
        let (mut written, mut expected) = (Vec::new(), Vec::new());
        SseEncoder::encode_agui(&mut written, Some("1\n.0"), &event);
        SseEncoder::encode_event(&mut expected, Some("1\n.0"), &event.to_json_string());
        assert_eq!(String::from_utf8(written).unwrap(), String::from_utf8(expected).unwrap());
    }

    proptest! {
        /// The pieces that a stream arrives in make no difference.
        #[test]
        fn decoding_does_not_depend_on_the_split(
            pieces in prop::collection::vec("(data: ?|id: |event:|: |retry: 1|\u{e9}|a|\r|\n|\r\n|\n\n|\u{feff}){0,6}", 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let stream = pieces.concat().into_bytes();
            let whole = decode(&stream);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let mut decoder = SseDecoder::new(1 << 20);
            let split: Vec<_> =
                cuts.windows(2).flat_map(|cut| decoder.push(&stream[cut[0]..cut[1]])).collect();
            prop_assert_eq!(split, whole);
        }

        /// What is encoded is decoded again, whatever it holds.
        #[test]
        fn an_encoded_event_decodes_to_itself(texts in prop::collection::vec("[^\r]{0,40}", 1..5)) {
            let mut out = Vec::new();
            for (number, text) in texts.iter().enumerate() {
                SseEncoder::encode_event(&mut out, Some(&number.to_string()), text);
            }
            prop_assert_eq!(data(&out), texts);
        }
    }
}
