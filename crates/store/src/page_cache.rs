//! The packed pages that were read last, shared by all readers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::entry::Page;

/// A bounded number of bytes of packed pages. A page never changes, so nothing here is ever out of date. Whether there is
/// still a run for them is asked of the file when a reader comes; one that has come may read on here to the end.
///
/// It pays when several readers replay the same run, or one does so again: a reload, a second viewer, a thousand of them
/// after an outage. A run that is larger than the cache goes through it without being of use to anybody.
#[derive(Debug)]
pub(crate) struct PageCache {
    most: usize,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    /// By the run and the page's first frame, with the moment of its last use.
    pages: HashMap<(Arc<str>, u64), (Page, u64)>,
    bytes: usize,
    uses: u64,
}

impl PageCache {
    /// A cache of at most so many bytes; 0 for none.
    pub(crate) fn new(most: usize) -> PageCache {
        PageCache { most, pages: Mutex::default() }
    }

    /// The page that begins with this frame.
    pub(crate) fn get(&self, run_id: &Arc<str>, first: u64) -> Option<Page> {
        if self.most == 0 {
            return None;
        }
        let mut pages = self.lock();
        pages.uses += 1;
        let now = pages.uses;
        let (page, used) = pages.pages.get_mut(&(Arc::clone(run_id), first))?;
        *used = now;
        Some(page.clone())
    }

    /// Keeps a page, and lets go of those that were not used for the longest time.
    pub(crate) fn put(&self, run_id: &Arc<str>, page: &Page) {
        // One that takes most of the room would drive all others out.
        if page.sse().len() > self.most / 4 {
            return;
        }
        let mut pages = self.lock();
        pages.uses += 1;
        let now = pages.uses;
        pages.bytes += page.sse().len();
        if let Some((before, _)) = pages.pages.insert((Arc::clone(run_id), page.first()), (page.clone(), now)) {
            pages.bytes -= before.sse().len();
        }
        while pages.bytes > self.most {
            // Some hundred pages at most, and only when one is read from the file.
            let oldest = pages.pages.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            let Some((gone, _)) = oldest.and_then(|key| pages.pages.remove(&key)) else { break };
            pages.bytes -= gone.sse().len();
        }
    }

    /// Lets go of everything, because runs were removed.
    pub(crate) fn clear(&self) {
        *self.lock() = Pages::default();
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        // A panic in between could leave the sum wrong, and then the cache is a little larger or smaller.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::entry::PageBuffer;

    fn page(first: u64) -> Page {
        let mut buffer = PageBuffer::new(first);
        buffer.push(&[b'x'; 100]);
        buffer.finish().unwrap()
    }

    #[test]
    fn the_cache_is_bounded_by_bytes_and_keeps_what_was_used_last() {
        let run: Arc<str> = "run".into();
        let size = page(100).sse().len();
        let cache = PageCache::new(5 * size);
        for first in 100..105 {
            cache.put(&run, &page(first));
        }
        assert_eq!(cache.get(&run, 100), Some(page(100)));
        cache.put(&run, &page(105));
        assert_eq!(cache.get(&run, 101), None, "it was not used for the longest time");
        assert_eq!(cache.get(&run, 100), Some(page(100)));
        assert_eq!(cache.lock().bytes, 5 * size);
        // The same page twice counts once.
        cache.put(&run, &page(105));
        assert_eq!(cache.lock().bytes, 5 * size);
        assert_eq!(cache.get(&"other".into(), 105), None);
        cache.clear();
        assert_eq!(cache.lock().bytes, 0);
        assert_eq!(cache.get(&run, 100), None);
    }

    #[test]
    fn a_page_that_would_drive_all_others_out_is_not_kept_and_without_room_none_is() {
        let run: Arc<str> = "run".into();
        for most in [0, 3 * page(1).sse().len()] {
            let cache = PageCache::new(most);
            cache.put(&run, &page(1));
            assert_eq!(cache.get(&run, 1), None);
        }
    }
}
