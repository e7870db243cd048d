//! Starting and stopping a server: what `serve` and `demo` share.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use runwire_engine::{Engine, EngineOptions, Recovered};
use runwire_server::{App, ServerOptions, serve};
use runwire_store::{Store, StoreOptions, Sync};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::SyncMode;
use crate::config::Settings;
use crate::signals;

/// A server that serves.
pub struct Running {
    /// Where.
    pub address: SocketAddr,
    /// Runs that a server before this one left behind, and what became of them.
    pub recovered: Vec<(String, Recovered)>,
    /// What executes runs.
    pub engine: Engine,
    store: Store,
    grace: Duration,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

/// Opens the store, goes on with what was left behind or ends it, listens and serves.
pub async fn start(settings: Settings) -> anyhow::Result<Running> {
    signals::survive_file_size_limit();
    let path = settings.store.clone();
    let sync = match settings.sync {
        SyncMode::Normal => Sync::Normal,
        SyncMode::Full => Sync::Full,
    };
    let options = StoreOptions { sync, ..StoreOptions::default() };
    let store = tokio::task::spawn_blocking(move || Store::open(&path, options)).await??;
    let options = EngineOptions {
        cancel_grace: settings.cancel_grace,
        orphan_check: settings.orphan_check,
        lanes: settings.lanes,
        retention: settings.retention,
    };
    let engine = Engine::new(store.clone(), settings.agents, options);
    let recovered = engine.recover().await.context("runs that were left behind cannot be brought to their end")?;
    engine.sweep_regularly();
    engine.watch_for_orphans();
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("{} cannot be listened on", settings.listen))?;
    let address = listener.local_addr()?;
    let options = ServerOptions {
        cors_origins: settings.cors_origins,
        stream_max_age: settings.stream_max_age,
        ..ServerOptions::default()
    };
    let app = App::new(engine.clone(), settings.tokens, options);
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, app, shutdown.clone()));
    let grace = settings.shutdown_grace;
    Ok(Running { address, recovered, engine, store, grace, shutdown, serving })
}

impl Running {
    /// Lets runs end for as long as the grace period, then the readers, then the store.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.engine.shutdown(self.grace).await;
        self.shutdown.cancel();
        self.serving.await?;
        let store = self.store;
        tokio::task::spawn_blocking(move || store.close()).await?;
        Ok(())
    }

    /// Whether the server ended by itself, which it does only when it panics.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.serving).await {
            Ok(()) => anyhow::anyhow!("the server stopped serving"),
            Err(error) => anyhow::Error::new(error).context("the server stopped serving"),
        }
    }
}
