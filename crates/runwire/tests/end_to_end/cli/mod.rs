//! The command line: what a person types, what a script reads.

mod demo;
mod follow;
mod idempotency;
mod refusals;
mod resume;
mod serve;
mod session;
