//! What is in memory of a run that is being written or followed: its newest frames, its head, its end.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

use crate::entry::Entry;
use crate::frames::PageLimits;

/// Every run that something holds on to. A run is here while it has an [`Appender`](crate::Appender) that
/// can still append, an append under way, or a [`Tail`](crate::Tail); the last of them to go removes it.
#[derive(Debug)]
pub(crate) struct Registry {
    /// How much each run's ring may hold.
    ring: PageLimits,
    /// Weak, so that the holders alone decide how long a run stays. No `Arc<Live>` may be dropped while this
    /// is locked: dropping the last one locks it.
    runs: Mutex<HashMap<Arc<str>, Weak<Live>>>,
}

impl Registry {
    pub(crate) fn new(ring: PageLimits) -> Registry {
        Registry { ring, runs: Mutex::new(HashMap::new()) }
    }

    /// The run's place in memory, the same for everybody who holds it at one time.
    pub(crate) fn join(self: &Arc<Self>, run_id: &str) -> Arc<Live> {
        let mut runs = self.lock();
        if let Some(live) = runs.get(run_id).and_then(Weak::upgrade) {
            return live;
        }
        let run_id: Arc<str> = run_id.into();
        let live = Arc::new(Live {
            run_id: Arc::clone(&run_id),
            registry: Arc::clone(self),
            state: watch::Sender::new(State::default()),
        });
        runs.insert(run_id, Arc::downgrade(&live));
        live
    }

    /// How many runs are in memory.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Ends every tail that has read what there is.
    pub(crate) fn close(&self) {
        let lives: Vec<Arc<Live>> = self.lock().values().filter_map(Weak::upgrade).collect();
        for live in lives {
            live.state.send_modify(|state| state.closed = true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Weak<Live>>> {
        // Nothing here can panic between two changes that belong together.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run in memory. Written to by the writer thread after a commit, read by the run's tails.
///
/// A `watch` holds the state: its lock lets any number of tails read at once, and it wakes each of them
/// once for any number of changes, without a queue per tail.
pub(crate) struct Live {
    run_id: Arc<str>,
    registry: Arc<Registry>,
    state: watch::Sender<State>,
}

/// All of it durable: nothing is put here before its transaction has committed (G5).
#[derive(Default)]
pub(crate) struct State {
    /// The newest frames, consecutive, up to the last one published.
    ring: VecDeque<Entry>,
    /// The size of the entries in `ring`.
    bytes: usize,
    /// The last `seq` that is known to be in the file. Past the ring when it was learned by reading.
    head: u64,
    ended: bool,
    closed: bool,
}

/// What a cursor finds.
#[derive(Debug)]
pub(crate) enum Found {
    /// The frames right after it.
    Frames(Vec<Entry>),
    /// There are frames after it, and they must be read from the file.
    InFile,
    /// It is at the head of a run that has ended.
    Ended,
    /// It is at the head, and the store is closed.
    Closed,
    /// It is at the head; wait for a change.
    Nothing,
}

impl State {
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn after(&self, cursor: u64, limits: PageLimits) -> Found {
        if cursor >= self.head {
            return match (self.ended, self.closed) {
                (true, _) => Found::Ended,
                (false, true) => Found::Closed,
                (false, false) => Found::Nothing,
            };
        }
        let Some(first) = self.ring.front().map(Entry::seq) else {
            return Found::InFile;
        };
        let Some(skip) = (cursor + 1)
            .checked_sub(first)
            .and_then(|skip| usize::try_from(skip).ok())
            .filter(|skip| *skip < self.ring.len())
        else {
            return Found::InFile;
        };
        let mut bytes = 0;
        let entries = self
            .ring
            .range(skip..)
            .take(limits.frames.max(1))
            .enumerate()
            .take_while(|(index, entry)| {
                bytes += entry.size();
                *index == 0 || bytes <= limits.bytes
            })
            .map(|(_, entry)| entry.clone())
            .collect();
        Found::Frames(entries)
    }

    fn push(&mut self, entries: Vec<Entry>, limits: PageLimits) {
        for entry in entries {
            if self.ring.back().is_some_and(|last| last.seq() + 1 != entry.seq()) {
                // A ring with a hole would be a silent loss; an empty one is only slower.
                self.ring.clear();
                self.bytes = 0;
            }
            self.head = self.head.max(entry.seq());
            self.bytes += entry.size();
            self.ring.push_back(entry);
            while self.ring.len() > limits.frames || self.bytes > limits.bytes {
                let Some(oldest) = self.ring.pop_front() else {
                    break;
                };
                self.bytes -= oldest.size();
            }
        }
    }
}

impl Live {
    /// Puts durable frames before the tails and wakes them.
    pub(crate) fn publish(&self, entries: Vec<Entry>, ended: bool) {
        if entries.is_empty() && !ended {
            return;
        }
        self.state.send_modify(|state| {
            state.push(entries, self.registry.ring);
            state.ended |= ended;
        });
    }

    /// Takes over what was read from the file. It can be behind or ahead of what was published; both only
    /// ever grow.
    pub(crate) fn observe(&self, head: u64, ended: bool) {
        self.state.send_if_modified(|state| {
            let news = head > state.head || (ended && !state.ended);
            state.head = state.head.max(head);
            state.ended |= ended;
            news
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(crate) fn run_id(&self) -> &Arc<str> {
        &self.run_id
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut runs = self.registry.lock();
        // Somebody may have joined again in the meantime; that one is not ours to remove.
        if runs.get(&self.run_id).is_some_and(|live| live.strong_count() == 0) {
            runs.remove(&self.run_id);
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const PAGE: PageLimits = PageLimits { frames: 256, bytes: 256 * 1024 };

    fn entries(seqs: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
        seqs.map(|seq| Entry::new(seq, b"0123456789")).collect()
    }

    fn registry(frames: usize, bytes: usize) -> Arc<Registry> {
        Arc::new(Registry::new(PageLimits { frames, bytes }))
    }

    fn ring(live: &Live) -> (Option<u64>, usize, usize) {
        let state = live.state.borrow();
        (state.ring.front().map(Entry::seq), state.ring.len(), state.bytes)
    }

    #[test]
    fn the_ring_is_bounded_by_frames() {
        let live = registry(10, 1 << 20).join("run");
        live.publish(entries(1..=100), false);
        let (first, len, _) = ring(&live);
        assert_eq!((first, len), (Some(91), 10));
    }

    #[test]
    fn the_ring_is_bounded_by_bytes_even_if_that_empties_it() {
        let registry = registry(1000, 100);
        let live = registry.join("run");
        live.publish(entries(1..=50), false);
        let (_, len, bytes) = ring(&live);
        assert!(len > 0 && bytes <= 100, "{len} entries of {bytes} bytes");

        live.publish(vec![Entry::new(51, &[b'x'; 500])], false);
        assert_eq!(ring(&live), (None, 0, 0));
        let state = live.state.borrow();
        assert!(matches!(state.after(50, PAGE), Found::InFile));
    }

    #[test]
    fn a_cursor_older_than_the_ring_reads_the_file_and_a_newer_one_the_ring() {
        let live = registry(10, 1 << 20).join("run");
        live.publish(entries(1..=100), false);
        let state = live.state.borrow();
        assert!(matches!(state.after(0, PAGE), Found::InFile));
        assert!(matches!(state.after(89, PAGE), Found::InFile));
        for cursor in 90..100 {
            let Found::Frames(found) = state.after(cursor, PAGE) else {
                panic!("cursor {cursor} is in the ring");
            };
            let seqs: Vec<u64> = found.iter().map(Entry::seq).collect();
            assert_eq!(seqs, (cursor + 1..=100).collect::<Vec<_>>());
        }
        assert!(matches!(state.after(100, PAGE), Found::Nothing));
    }

    #[test]
    fn a_batch_is_bounded_by_frames_and_bytes_and_never_empty() {
        let live = registry(1000, 1 << 20).join("run");
        live.publish(entries(1..=100), false);
        let state = live.state.borrow();
        let count = |frames, bytes| match state.after(0, PageLimits { frames, bytes }) {
            Found::Frames(found) => found.len(),
            other => panic!("{other:?}"),
        };
        let size = Entry::new(1, b"0123456789").size();
        assert_eq!(count(7, 1 << 20), 7);
        assert_eq!(count(100, 3 * size), 3);
        assert_eq!(count(100, 1), 1);
        assert_eq!(count(0, 0), 1);
    }

    #[test]
    fn a_head_learned_from_the_file_ahead_of_the_ring_is_read_from_the_file() {
        let live = registry(10, 1 << 20).join("run");
        live.publish(entries(1..=5), false);
        live.observe(6, false);
        assert!(matches!(live.state.borrow().after(5, PAGE), Found::InFile));
        live.publish(entries(6..=6), true);
        assert!(matches!(live.state.borrow().after(5, PAGE), Found::Frames(_)));
        assert!(matches!(live.state.borrow().after(6, PAGE), Found::Ended));
    }

    #[test]
    fn a_run_is_in_memory_only_while_something_holds_it() {
        let registry = registry(10, 1 << 20);
        let one = registry.join("run");
        let two = registry.join("run");
        assert!(Arc::ptr_eq(&one, &two));
        drop(one);
        assert_eq!(registry.len(), 1);
        drop(two);
        assert_eq!(registry.len(), 0);
    }
}
