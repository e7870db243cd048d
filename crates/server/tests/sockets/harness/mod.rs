//! What the tests talk to and what they talk with: a server, drivers that a test holds the reins of, and readers whose
//! connections can be lost at any byte.

mod drivers;
mod events;
mod http;
mod line;
mod reader;
mod server;

pub use drivers::{Script, Steps, stepped};
pub use events::{AguiEvent, agui_events, consumed, held, ids};
pub use http::{Piece, Raw};
pub use line::{Line, Loss};
pub use reader::{Got, Reader, Transport, WebSocket};
pub use server::{Server, Setup, problem};

use std::future::Future;
use std::time::Duration;

/// Fails a test that hangs. Nothing that a test waits for takes anywhere near as long.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it should have happened long ago")
}
