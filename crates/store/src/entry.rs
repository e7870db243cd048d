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

/// Consecutive frames in one buffer, as their SSE events one after the other: what one read of the file gives, and what a
/// packed page is. However many frames it has, it costs one allocation, and a reader by SSE is given it as it is.
///
/// An entry of a page keeps the whole page in memory, so pages are for readers, which drop them when they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    first: u64,
    last: u64,
    sse: Bytes,
}

impl Page {
    /// What is said to be the events of these frames. `None` when that cannot be.
    pub(crate) fn packed(first: u64, last: u64, sse: Bytes) -> Option<Page> {
        let begins = event(&sse, first).is_some();
        (first <= last && begins && sse.ends_with(END)).then_some(Page { first, last, sse })
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.last - self.first + 1).unwrap_or(usize::MAX)
    }

    /// All events.
    pub(crate) fn sse(&self) -> &Bytes {
        &self.sse
    }

    /// All events, for who wants nothing else.
    pub(crate) fn into_sse(self) -> Bytes {
        self.sse
    }

    /// The frames after `after`, as many as the limits allow and at least one. `None` when the events are not those of
    /// the frames that this page is said to have: the file is damaged.
    pub(crate) fn part(self, after: u64, frames: usize, bytes: usize) -> Option<Page> {
        if after + 1 == self.first && self.len() <= frames && self.sse.len() <= bytes {
            return Some(self);
        }
        let (mut start, mut end) = (0, 0);
        let mut last = None;
        for seq in self.first..=self.last {
            let (_, size) = event(&self.sse[end..], seq)?;
            if seq <= after {
                start = end + size;
            } else {
                let more = last.is_none() || (seq - after <= frames as u64 && end + size - start <= bytes);
                if !more {
                    break;
                }
                last = Some(seq);
            }
            end += size;
        }
        Some(Page { first: self.first.max(after + 1), last: last?, sse: self.sse.slice(start..end) })
    }

    /// Each frame by itself. `None` as for [`Page::part`].
    pub(crate) fn entries(&self) -> Option<Vec<Entry>> {
        let mut entries = Vec::with_capacity(self.len().min(self.sse.len()));
        let mut start = 0;
        for seq in self.first..=self.last {
            let (body_start, size) = event(&self.sse[start..], seq)?;
            entries.push(Entry { seq, body_start, sse: self.sse.slice(start..start + size) });
            start += size;
        }
        (start == self.sse.len()).then_some(entries)
    }
}

/// Where in the event of frame `seq`, which begins `sse`, its body begins, and how long the event is. `None` when no such
/// event is there.
fn event(sse: &[u8], seq: u64) -> Option<(u8, usize)> {
    let rest = sse.strip_prefix(ID)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = rest.split_at(digits);
    // The shape first: what is no number has no value.
    let value =
        number.iter().try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    if value != seq || size(seq, 0) != ID.len() + digits + DATA.len() + END.len() {
        return None;
    }
    let body = rest.strip_prefix(DATA)?;
    let length = memchr::memchr(b'\n', body)?;
    body[length..].starts_with(END).then_some(())?;
    Some(((ID.len() + digits + DATA.len()) as u8, size(seq, length)))
}

/// Builds a [`Page`] from bodies.
pub(crate) struct PageBuffer {
    first: u64,
    len: u64,
    sse: Vec<u8>,
}

impl PageBuffer {
    /// A page that begins with frame `first`.
    pub(crate) fn new(first: u64) -> PageBuffer {
        PageBuffer { first, len: 0, sse: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    /// The bytes of all events so far.
    pub(crate) fn size(&self) -> usize {
        self.sse.len()
    }

    /// The `seq` of the next frame.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.len
    }

    /// Adds the next frame.
    pub(crate) fn push(&mut self, body: &[u8]) {
        let seq = self.next();
        wrap(&mut self.sse, seq, body);
        self.len += 1;
    }

    /// `None` when there is nothing in it.
    pub(crate) fn finish(self) -> Option<Page> {
        let last = self.next().checked_sub(1)?;
        (self.len > 0).then(|| Page { first: self.first, last, sse: Bytes::from(self.sse) })
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

            let first = seq.clamp(1, u64::MAX - 3);
            let mut page = PageBuffer::new(first);
            let body: Vec<u8> = body.into_iter().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
            let bodies: [&[u8]; 3] = [b"before", &body, b"after"];
            for body in bodies {
                page.push(body);
            }
            let page = page.finish().unwrap();
            prop_assert_eq!((page.first(), page.last(), page.len()), (first, first + 2, 3));
            let whole: Vec<Entry> = (first..).zip(bodies).map(|(seq, body)| Entry::new(seq, body)).collect();
            prop_assert_eq!(&page.entries().unwrap(), &whole);
            let events: Vec<u8> = whole.iter().flat_map(|entry| entry.as_sse().to_vec()).collect();
            prop_assert_eq!(&page.sse()[..], &events[..]);

            // Packed and read again, from any cursor and however little is taken at a time.
            let packed = Page::packed(first, first + 2, Bytes::from(events)).unwrap();
            prop_assert_eq!(&packed, &page);
            for after in first - 1..first + 2 {
                let rest = &whole[(after + 1 - first) as usize..];
                let all = packed.clone().part(after, 3, usize::MAX).unwrap();
                prop_assert_eq!(&all.entries().unwrap()[..], rest);
                let one = packed.clone().part(after, 3, 1).unwrap();
                prop_assert_eq!(&one.entries().unwrap()[..], &rest[..1]);
                let few = packed.clone().part(after, 2, usize::MAX).unwrap();
                prop_assert_eq!(&few.entries().unwrap()[..], &rest[..rest.len().min(2)]);
            }
        }
    }

    #[test]
    fn a_page_that_is_not_what_it_is_said_to_be_gives_nothing() {
        let sse = Bytes::from_static(b"id: 7\ndata: a\n\nid: 8\ndata: b\n\n");
        assert_eq!(Page::packed(7, 8, sse.clone()).unwrap().entries().unwrap().len(), 2);
        for (first, last) in [(6, 7), (8, 8), (8, 7)] {
            assert_eq!(Page::packed(first, last, sse.clone()), None, "{first} to {last}");
        }
        assert_eq!(Page::packed(7, 8, sse.slice(..sse.len() - 1)), None);
        for last in [7, 9] {
            assert_eq!(Page::packed(7, last, sse.clone()).unwrap().entries(), None, "to {last}");
        }
        for damaged in [
            "id: 7\ndata: a\n\nid: 9\ndata: b\n\n",
            "id: 7\ndata: a\n\nid: 08\ndata: b\n\n",
            "id: 7\ndata: a\nid: 8\ndata: b\n\n",
        ] {
            let page = Page::packed(7, 8, Bytes::from_static(damaged.as_bytes()));
            assert!(page.is_none_or(|page| page.entries().is_none() && page.part(7, 1, 1).is_none()), "{damaged}");
        }
    }
}
