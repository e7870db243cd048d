//! The `runwire` binary from outside: real processes, real sockets, real files, and the released clients and agents that
//! it has to get on with.
//!
//! Every test has a folder, a store and ports of its own, and ends only the processes that it started.
#![allow(clippy::unwrap_used)]

mod browser;
mod byte_identity;
mod check;
mod check_answers;
mod check_captures;
mod check_formats;
mod check_sources;
mod cli;
mod conversations;
mod copilotkit;
mod crash;
mod example_plain;
mod examples;
mod interop;
mod js_client;
mod limits;
mod model_agents;
mod outgoing;
mod program;
mod real_agent;
mod real_clients;
mod real_part;
mod real_protobuf;
mod serving;
mod tls;
mod verdicts;
mod verify_log;
mod viewer;
mod viewer_chat;
mod viewer_frames;
