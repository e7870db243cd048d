//! One frame as the store keeps and hands it out.

use std::fmt;
use std::io::Write as _;

use bytes::Bytes;

const ID: &[u8] = b"id: ";
const DATA: &[u8] = b"\ndata: ";
const END: &[u8] = b"\n\n";

/// One frame of a run's log: its `seq` and its exact bytes, ready for either transport.
///
/// An entry is one buffer that holds the whole SSE event, `id: <seq>\ndata: <body>\n\n`. The body is a
/// slice of it. This is all that the store knows of the wire, and it knows it for a reason: a thousand SSE
/// and WebSocket readers of a run then share one allocation per frame, and none of them copies or
/// formats anything (G3, same bytes). Cloning an entry copies no bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    seq: u64,
    /// Where the body begins in `sse`; at most 31, as a `u64` has at most 20 digits.
    body_start: u8,
    sse: Bytes,
}

impl Entry {
    /// Wraps `body`, which must not contain CR or LF: the SSE event would break apart.
    pub(crate) fn new(seq: u64, body: &[u8]) -> Entry {
        // Exactly sized, so that turning it into `Bytes` does not reallocate.
        let mut sse = Vec::with_capacity(size(seq, body.len()));
        let body_start = wrap(&mut sse, seq, body);
        debug_assert_eq!(sse.len(), size(seq, body.len()));
        Entry { seq, body_start, sse: Bytes::from(sse) }
    }

    /// The frame's number in its run, from 1.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The exact bytes that were appended: what a WebSocket message carries.
    pub fn body(&self) -> Bytes {
        self.sse.slice(usize::from(self.body_start)..self.sse.len() - END.len())
    }

    /// The whole SSE event, blank line included. Shares its bytes with [`Entry::body`].
    pub fn sse(&self) -> Bytes {
        self.sse.clone()
    }

    /// The same bytes as [`Entry::sse`], borrowed: for who copies them anyway.
    pub fn as_sse(&self) -> &[u8] {
        &self.sse
    }

    /// The body, for binding to a statement without touching a reference count.
    pub(crate) fn body_ref(&self) -> &[u8] {
        &self.sse[usize::from(self.body_start)..self.sse.len() - END.len()]
    }

    /// What this entry costs in memory, in bytes, to the rings and pages that are bounded by bytes.
    pub(crate) fn size(&self) -> usize {
        self.sse.len()
    }
}

/// How many bytes an entry has.
pub(crate) fn size(seq: u64, body: usize) -> usize {
    let digits = seq.checked_ilog10().unwrap_or(0) as usize + 1;
    ID.len() + digits + DATA.len() + body + END.len()
}

/// Appends the SSE event to `sse`, and answers where in the event the body begins.
fn wrap(sse: &mut Vec<u8>, seq: u64, body: &[u8]) -> u8 {
    let start = sse.len();
    sse.extend_from_slice(ID);
    write!(sse, "{seq}").expect("writing to a Vec cannot fail");
    sse.extend_from_slice(DATA);
    let body_start = sse.len() - start;
    sse.extend_from_slice(body);
    sse.extend_from_slice(END);
    body_start as u8
}

/// Consecutive entries read from the file, written into one buffer: a page costs one allocation, however many frames it
/// has. An entry of a page keeps the whole page in memory, so pages are for readers, which drop them when they are
/// sent.
pub(crate) struct PageBuffer {
    sse: Vec<u8>,
    /// Each entry's `seq`, where its body begins, and where the entry ends in `sse`.
    entries: Vec<(u64, u8, usize)>,
}

impl PageBuffer {
    pub(crate) fn new() -> PageBuffer {
        PageBuffer { sse: Vec::new(), entries: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of all entries so far.
    pub(crate) fn size(&self) -> usize {
        self.sse.len()
    }

    pub(crate) fn push(&mut self, seq: u64, body: &[u8]) {
        let body_start = wrap(&mut self.sse, seq, body);
        self.entries.push((seq, body_start, self.sse.len()));
    }

    pub(crate) fn finish(self) -> Vec<Entry> {
        let sse = Bytes::from(self.sse);
        let mut start = 0;
        let entry = |(seq, body_start, end)| {
            let entry = Entry { seq, body_start, sse: sse.slice(start..end) };
            start = end;
            entry
        };
        self.entries.into_iter().map(entry).collect()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("seq", &self.seq)
            .field("body", &String::from_utf8_lossy(self.body_ref()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_the_sse_event_and_its_body_a_slice_of_the_same_buffer() {
        let entry = Entry::new(7, br#"{"seq":7}"#);
        assert_eq!(&entry.sse()[..], b"id: 7\ndata: {\"seq\":7}\n\n");
        assert_eq!(&entry.body()[..], br#"{"seq":7}"#);
        let whole = entry.sse();
        let body = entry.body();
        let offset = body.as_ptr() as usize - whole.as_ptr() as usize;
        assert_eq!(offset, "id: 7\ndata: ".len());
    }

    proptest! {
        #[test]
        fn any_seq_and_body_come_back_as_they_went_in(
            seq in prop_oneof![any::<u64>(), 0_u64..1100, Just(u64::MAX)],
            body in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let entry = Entry::new(seq, &body);
            prop_assert_eq!(entry.seq(), seq);
            prop_assert_eq!(&entry.body()[..], &body[..]);
            let mut sse = format!("id: {seq}\ndata: ").into_bytes();
            sse.extend_from_slice(&body);
            sse.extend_from_slice(b"\n\n");
            prop_assert_eq!(&entry.sse()[..], &sse[..]);
            prop_assert_eq!(entry.size(), size(seq, body.len()));

            let mut page = PageBuffer::new();
            page.push(seq.wrapping_sub(1), b"before");
            page.push(seq, &body);
            page.push(seq.wrapping_add(1), b"after");
            let entries = page.finish();
            prop_assert_eq!(entries.len(), 3);
            prop_assert_eq!(&entries[1], &entry);
            prop_assert_eq!(&entries[2].body()[..], b"after");
        }
    }
}
