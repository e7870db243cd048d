//! A Runwire server inside a benchmark: the real store, engine and HTTP surface on loopback.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use runwire_engine::{Agent, CreateRun, Engine, EngineOptions, RunRequest};
use runwire_server::{App, ServerOptions, serve};
use runwire_store::{Store, StoreOptions, Sync};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What its store is called.
pub const STORE: &str = "bench.db";

/// A server that serves one agent's runs, with `sync = normal`.
pub struct Server {
    /// Where.
    pub address: SocketAddr,
    /// What executes its runs.
    pub engine: Engine,
    store: Store,
    shutdown: CancellationToken,
    /// Joined in [`Server::stop`].
    serving: JoinHandle<()>,
}

impl Server {
    /// Opens a store in `folder` and serves it.
    ///
    /// # Errors
    /// When the store cannot be opened or no port is free.
    pub async fn start(folder: &Path, agents: impl IntoIterator<Item = Agent>) -> anyhow::Result<Server> {
        let store = open(&folder.join(STORE), Sync::Normal)?;
        let engine = Engine::new(store.clone(), agents, EngineOptions::default());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shutdown = CancellationToken::new();
        let app = App::new(engine.clone(), None, ServerOptions::default());
        let serving = tokio::spawn(serve(listener, app, shutdown.clone()));
        Ok(Server { address, engine, store, shutdown, serving })
    }

    /// The store that it serves.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Starts a run of an agent and says its id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn create_run(&self, agent_id: &str) -> anyhow::Result<String> {
        let request = RunRequest::Prompt { prompt: "How long does it take?".to_owned(), session_id: None };
        let create = CreateRun {
            agent_id: agent_id.to_owned(),
            request,
            lane: None,
            metadata: Value::Null,
            principal: None,
            trigger_kind: "api",
        };
        Ok(self.engine.create_run(create).await?.record.run_id)
    }

    /// Ends what runs and everything else.
    ///
    /// # Errors
    /// When the listener had failed.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.engine.shutdown(std::time::Duration::from_secs(2)).await;
        self.shutdown.cancel();
        self.serving.await?;
        tokio::task::block_in_place(|| self.store.close());
        Ok(())
    }
}

/// Opens a store.
///
/// # Errors
/// When it cannot be.
pub fn open(path: &Path, sync: Sync) -> anyhow::Result<Store> {
    Store::open(path, StoreOptions { sync, ..StoreOptions::default() })
        .with_context(|| format!("the benchmark's store {} cannot be opened", path.display()))
}

/// Where a run's frames are followed.
pub fn stream_path(run_id: &str, transport: crate::wire::Transport) -> String {
    match transport {
        crate::wire::Transport::Sse => format!("/v2/runs/{run_id}/stream"),
        crate::wire::Transport::Ws => format!("/v2/runs/{run_id}/ws"),
    }
}
