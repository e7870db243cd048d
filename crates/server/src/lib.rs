//! The HTTP surface: AG-UI, frame streams by SSE and WebSocket, and the run API.
//!
//! Handlers translate; they decide nothing about runs. A reader's connection is a cursor over the log and nothing else:
//! it holds no frame back, buffers none, and its end changes nothing (G8, G9).

mod agui;
mod app;
mod auth;
mod binding;
mod check;
mod connect;
mod connect_cursor;
mod copilotkit;
mod cursor;
mod event_places;
mod event_stream;
mod executor;
mod frame_stream;
mod history;
mod idempotency_key;
mod keep_alive;
mod openness;
mod patient_socket;
mod problem;
mod projection_stream;
mod protobuf_stream;
mod prune;
mod resume;
mod routes;
mod runs;
mod server;
mod serving;
mod session_cursor;
mod session_stream;
mod sessions;
mod viewer;
mod websocket;

pub use app::{App, ServerOptions};
pub use auth::{Rights, TokenError, Tokens};
pub use copilotkit::{COPILOTKIT_PATH, CopilotKitPathError, check_copilotkit_path};
pub use routes::router;
pub use server::{Server, Setup, StartError};
pub use serving::serve;
