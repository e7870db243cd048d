//! Faults that really happen, to the real binary in a process of its own: lines that break, stall and trickle, processes
//! that are killed, disks that are full or fail, files that somebody locks, readers that never read, and logs that are large
//! or hard to carry.
//!
//! After each of them a reader has the whole log (`GET /v2/runs/{id}/frames`), once, byte for byte (G1 to G3), what it saw
//! before is where it was (G5), and `runwire verify-log` finds the store consistent.
//!
//! How often and how much is small enough for every change. `RUNWIRE_FAULTS=full` is the whole: a hundred kills at any moment and
//! a hundred in chosen states, ten thousand readers, a run of a million frames, a minute's pause. That takes some twenty-five
//! minutes.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::program::{PATIENCE, command};

mod agent;
mod changed_store;
mod clock;
mod content;
mod cuts;
mod followers;
mod kills;
mod many;
mod pace;
#[path = "../end_to_end/program.rs"]
#[allow(dead_code, reason = "the end-to-end tests use more of it")]
mod program;
mod proxy;
#[path = "../end_to_end/serving.rs"]
#[allow(dead_code, reason = "the end-to-end tests use more of it")]
mod serving;
mod states;
mod storage;

/// `runwire verify-log` finds nothing wrong with the store `runwire.db` in a folder.
async fn verified(folder: &Path) {
    let checked = command(folder).arg("verify-log").output();
    let checked = tokio::time::timeout(PATIENCE * scale(1, 30), checked).await.expect("the check ends").unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

/// One number for every change, and one for the whole.
fn scale<T>(small: T, full: T) -> T {
    if is_full() { full } else { small }
}

fn is_full() -> bool {
    std::env::var("RUNWIRE_FAULTS").is_ok_and(|faults| faults == "full")
}

/// Numbers that look random and are the same in every run of the tests, so that what fails fails again.
struct Dice(u64);

impl Dice {
    /// From 0 to below `end`: splitmix64.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}
