//! What every handler shares.

use std::sync::Arc;
use std::time::Duration;

use runwire_engine::{Engine, KnownSession, Without};
use runwire_store::{ReadError, RunRecord, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Principal, Tokens};
use crate::copilotkit::{COPILOTKIT_PATH, EarlyStops};
use crate::keep_alive::KeepAlives;
use crate::problem::Problem;

/// A check reads a whole log as fast as it can, so only so many go on at a time: neither their memory nor the processor
/// belongs to whoever asks for the most of them (G8).
const CHECKS: usize = 2;

/// How the server talks to its clients.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// A stream gets a comment after so long without anything to send, at the latest, and a WebSocket a ping so often; each
    /// connection at moments of its own. Not zero. Default 15 s.
    pub keep_alive: Duration,
    /// A WebSocket peer that answers no ping for so long is gone, and so is any peer whose socket takes nothing for so
    /// long. Default 45 s.
    pub gone_after: Duration,
    /// How long a WebSocket client has for its first message. 5 s, as the protocol has it.
    pub first_message: Duration,
    /// A stream is ended after so long, between frames, for the client to resume. Default: never.
    pub stream_max_age: Option<Duration>,
    /// What a stream tells an EventSource to wait before it reconnects. Default 1 s.
    pub retry: Duration,
    /// How long connections have to end when the server goes. Default 5 s.
    pub shutdown_grace: Duration,
    /// How long a request's head, and then its body, may take to come. Default 30 s.
    pub request_patience: Duration,
    /// The largest request body, in bytes. Default 16 MiB.
    pub max_body_bytes: usize,
    /// Origins whose pages may use this server from a browser. Default: none but its own.
    pub cors_origins: Vec<String>,
    /// Where CopilotKit's front ends find their runtime, a path such as `/api/copilotkit`; `None` for nowhere. Default
    /// `/copilotkit`. [`crate::check_copilotkit_path`] says which are possible.
    pub copilotkit_path: Option<String>,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            keep_alive: Duration::from_secs(15),
            gone_after: Duration::from_secs(45),
            first_message: Duration::from_secs(5),
            stream_max_age: None,
            retry: Duration::from_secs(1),
            shutdown_grace: Duration::from_secs(5),
            request_patience: Duration::from_secs(30),
            max_body_bytes: 16 * 1024 * 1024,
            cors_origins: Vec::new(),
            copilotkit_path: Some(COPILOTKIT_PATH.to_owned()),
        }
    }
}

/// The server's parts. Cheap to clone; every handler has one.
#[derive(Clone)]
pub struct App {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub engine: Engine,
    pub tokens: Option<Tokens>,
    pub options: ServerOptions,
    /// When streams and WebSockets get a sign of life.
    pub keep_alives: KeepAlives,
    /// Cancelled when connections have to end: streams finish the frame that they are at.
    pub closing: CancellationToken,
    /// Stops that CopilotKit's client asked for before their runs were there.
    pub early_stops: EarlyStops,
    /// Whose turn it is to have a run checked: [`CHECKS`] at a time, the others wait in order.
    pub checks: Semaphore,
    /// WebSocket connections, which outlive the request that they came from.
    pub connections: TaskTracker,
}

impl App {
    /// A server over this engine. Without tokens everybody may do everything, so it must be reachable from this machine
    /// only.
    pub fn new(engine: Engine, tokens: Option<Tokens>, options: ServerOptions) -> App {
        App {
            inner: Arc::new(Inner {
                engine,
                tokens,
                keep_alives: KeepAlives::new(options.keep_alive),
                options,
                closing: CancellationToken::new(),
                early_stops: EarlyStops::default(),
                checks: Semaphore::new(CHECKS),
                connections: TaskTracker::new(),
            }),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn store(&self) -> &Store {
        self.inner.engine.store()
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.inner.options
    }

    /// The session as this principal may see it; `None` when there is none, or none for it: the two are told alike.
    pub(crate) async fn known_session(
        &self,
        principal: &Principal,
        session_id: &str,
        without: Without<'_>,
    ) -> Result<Option<KnownSession>, ReadError> {
        self.engine().known_session(principal.list_filter().as_deref(), session_id, without).await
    }

    /// The run, or that it was removed, if there is one and the principal may see it. The two cannot be told apart: the same work is done and
    /// the same problem comes out.
    pub(crate) async fn visible_run(&self, principal: &Principal, run_id: &str) -> Result<RunRecord, Problem> {
        let record = self.store().run(run_id).await?;
        match record {
            Some(record) if principal.may_see(&record) => Ok(record),
            _ => match self.store().tombstone(run_id).await? {
                Some(tombstone) if principal.may_see_removed(&tombstone) => Err(Problem::removed(&tombstone)),
                _ => Err(Problem::run_not_found(run_id)),
            },
        }
    }
}
