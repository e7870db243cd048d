//! The `runwire` binary from outside: real processes, real sockets, real files, and the released clients and agents that
//! it has to get on with.
//!
//! Every test has a folder, a store and ports of its own, and ends only the processes that it started.
#![allow(clippy::unwrap_used)]

mod byte_identity;
mod check;
mod cli;
mod crash;
mod program;
mod real_agent;
mod real_clients;
mod real_part;
mod serving;
