//! From an id to the place of what is called so.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// An index of things that know their ids themselves, so that no id is held twice.
///
/// Ids come from a peer. The hash function is seeded anew for every index and is not one that withstands somebody who can
/// watch it; a peer sees neither a hash nor an order that follows from one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    slots: HashTable<Slot>,
    hashes: DefaultHashBuilder,
}

/// The hash is kept beside the place: things with other ids are told apart, and the index grows, without looking at them.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    place: usize,
}

impl Places {
    /// An index that has room for so many.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { slots: HashTable::with_capacity(capacity), hashes: DefaultHashBuilder::default() }
    }

    /// How many ids are in the index.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The place of that id; `is_at` tells whether it is the id of what is at a place.
    pub(crate) fn find(&self, id: &str, is_at: impl Fn(usize) -> bool) -> Option<usize> {
        let hash = self.hashes.hash_one(id);
        self.slots.find(hash, |slot| slot.hash == hash && is_at(slot.place)).map(|slot| slot.place)
    }

    /// Says where the id is from now on, and gives the place where it was.
    pub(crate) fn set(&mut self, id: &str, place: usize, is_at: impl Fn(usize) -> bool) -> Option<usize> {
        let hash = self.hashes.hash_one(id);
        match self.slots.find_mut(hash, |slot| slot.hash == hash && is_at(slot.place)) {
            Some(slot) => Some(std::mem::replace(&mut slot.place, place)),
            None => {
                self.add_hashed(hash, place);
                None
            }
        }
    }

    /// Adds an id that is not in the index.
    pub(crate) fn add(&mut self, id: &str, place: usize) {
        self.add_hashed(self.hashes.hash_one(id), place);
    }

    fn add_hashed(&mut self, hash: u64, place: usize) {
        self.slots.insert_unique(hash, Slot { hash, place }, |slot| slot.hash);
    }
}
