//! The server over real sockets: each test starts one in this process and talks to it as a client on a network does.
#![allow(clippy::unwrap_used)]

mod agui;
mod auth;
mod check;
mod connect;
mod copilotkit;
mod example;
mod executor;
mod guarantees;
mod harness;
mod idempotency;
mod patience;
mod protobuf;
mod queueing;
mod resume;
mod retention;
mod run_api;
mod session_stream;
mod sessions;
mod setup;
mod shutdown;
mod sse;
mod statuses;
mod versions;
mod viewer;
mod websocket;
