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
        let digits = seq.checked_ilog10().unwrap_or(0) as usize + 1;
        let body_start = ID.len() + digits + DATA.len();
        // Exactly sized, so that turning it into `Bytes` does not reallocate.
        let mut sse = Vec::with_capacity(body_start + body.len() + END.len());
        sse.extend_from_slice(ID);
        write!(sse, "{seq}").expect("writing to a Vec cannot fail");
        sse.extend_from_slice(DATA);
        debug_assert_eq!(sse.len(), body_start);
        sse.extend_from_slice(body);
        sse.extend_from_slice(END);
        Entry { seq, body_start: body_start as u8, sse: Bytes::from(sse) }
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

    /// The body, for binding to a statement without touching a reference count.
    pub(crate) fn body_ref(&self) -> &[u8] {
        &self.sse[usize::from(self.body_start)..self.sse.len() - END.len()]
    }

    /// What this entry costs in memory, in bytes, to the rings and pages that are bounded by bytes.
    pub(crate) fn size(&self) -> usize {
        self.sse.len()
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
        }
    }
}
