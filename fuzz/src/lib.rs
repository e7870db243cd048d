//! What several targets have in common: pieces to cut bytes into, streams to judge, and verdicts to compare.
//!
//! Everything here panics where a law does not hold: that is how a fuzzer hears of it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod pieces;
pub mod sequence;
pub mod verdict;
