//! Follows runs of a Runwire server, and resumes by itself when a connection is lost.
//!
//! A [`Server`] is where runs live: it creates, reads, lists and cancels them. [`Server::follow`] reads a run's log
//! over frame protocol v2, by SSE or WebSocket; [`Server::follow_agui`] reads the same run as AG-UI events;
//! [`Server::follow_session`] reads all runs of a session over one connection. All are streams that are pulled: nothing is read ahead of what the caller asks for, and dropping the stream closes its
//! connection (which never cancels the run: guarantee G9).
//!
//! A followed run has no gap and no duplicate (G2). Whatever happens to the connection is told with
//! [`Followed::Disconnected`] and repaired from the cursor; what cannot be repaired is a [`FollowError`], never silence
//! (G7).
//!
//! ```no_run
//! use futures_util::StreamExt as _;
//! use runwire_client::{CreateRun, Followed, Server};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new("http://127.0.0.1:7171", None)?;
//! let run = server.create_run(&CreateRun::prompt("demo", "Hello")).await?;
//! let mut frames = server.follow(run.run_id()).start();
//! while let Some(followed) = frames.next().await {
//!     if let Followed::Frame { frame, .. } = followed? {
//!         println!("{} {}", frame.seq, frame.data.frame_type());
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod backoff;
mod cursor;
mod disconnect;
mod error;
mod follow;
mod follow_agui;
mod follow_session;
mod problem;
mod prune;
mod reconnect;
mod refusal;
mod runs;
mod server;
mod sse;
mod websocket;

pub use backoff::Backoff;
pub use disconnect::Disconnect;
pub use error::FollowError;
pub use follow::{Follow, Followed, FrameStream, Transport};
pub use follow_agui::{AguiFollowed, AguiStream, FollowAgui};
pub use follow_session::{FollowSession, SessionFollowed, SessionStream};
pub use problem::Problem;
pub use prune::{FoundRuns, PruneRuns, PrunedRun, PrunedRuns};
pub use runs::{Answer, ApiError, CreateRun, OpenInterrupt, RunFilter, RunPage, RunRecord, WaitsFor};
pub use server::{Server, ServerUrlError};
