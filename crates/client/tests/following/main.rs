//! Following runs of a real server on loopback that misbehaves by script.
#![allow(clippy::unwrap_used)]

mod agui;
mod run_api;
mod scripted;
mod session;
mod sse;
mod websocket;
