//! A whole server in a few lines: store, engine and HTTP, started and stopped in order.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use runwire_engine::{Agent, Engine, EngineOptions, RecoverError, Recovered};
use runwire_store::{OpenError, Store, StoreOptions};
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::app::{App, ServerOptions};
use crate::auth::Tokens;
use crate::serving::serve;

/// What a server is made of. Everything has a default; [`Setup::start`] starts it.
pub struct Setup {
    agents: Vec<Agent>,
    listen: SocketAddr,
    store: PathBuf,
    tokens: Option<Tokens>,
    shutdown_grace: Duration,
    store_options: StoreOptions,
    engine_options: EngineOptions,
    server_options: ServerOptions,
}

/// Why a server did not start. Nothing of it goes on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Other machines could reach it, and everybody could do everything.
    #[error(
        "{0} can be reached from other machines, and there are no tokens; set some with `Setup::tokens`, or listen on a \
         loopback address"
    )]
    OpenToOthers(SocketAddr),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// What an earlier server left behind cannot be seen to.
    #[error("what was left behind cannot be gone on with: {0}")]
    Recover(#[from] RecoverError),
    /// The address cannot be had.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// The thread that opened or closed the store panicked.
    #[error("opening or closing the store failed unexpectedly: {0}")]
    Panicked(#[from] JoinError),
}

impl Setup {
    /// A server of these agents, at `127.0.0.1:7171`, with its runs in `runwire.db` in the current folder.
    pub fn new(agents: impl IntoIterator<Item = Agent>) -> Setup {
        Setup {
            agents: agents.into_iter().collect(),
            listen: (Ipv4Addr::LOCALHOST, 7171).into(),
            store: PathBuf::from("runwire.db"),
            tokens: None,
            shutdown_grace: Duration::from_secs(10),
            store_options: StoreOptions::default(),
            engine_options: EngineOptions::default(),
            server_options: ServerOptions::default(),
        }
    }

    /// Where it listens. Port 0 takes a free one. Without tokens it has to be a loopback address.
    #[must_use]
    pub fn listen(self, address: impl Into<SocketAddr>) -> Setup {
        Setup { listen: address.into(), ..self }
    }

    /// The SQLite file that runs are kept in. Made when it is not there; its folder is not.
    #[must_use]
    pub fn store(self, path: impl Into<PathBuf>) -> Setup {
        Setup { store: path.into(), ..self }
    }

    /// Who may use it. Default: everybody on this machine.
    #[must_use]
    pub fn tokens(self, tokens: Option<Tokens>) -> Setup {
        Setup { tokens, ..self }
    }

    /// How long runs may go on when it is stopped; then they end as failed. Default 10 s.
    #[must_use]
    pub fn shutdown_grace(self, grace: Duration) -> Setup {
        Setup { shutdown_grace: grace, ..self }
    }

    /// How the store works.
    #[must_use]
    pub fn store_options(self, options: StoreOptions) -> Setup {
        Setup { store_options: options, ..self }
    }

    /// How runs are executed.
    #[must_use]
    pub fn engine_options(self, options: EngineOptions) -> Setup {
        Setup { engine_options: options, ..self }
    }

    /// How it talks to its clients.
    #[must_use]
    pub fn server_options(self, options: ServerOptions) -> Setup {
        Setup { server_options: options, ..self }
    }

    /// Opens the store, goes on with what was left behind or ends it, listens and serves.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(self) -> Result<Server, StartError> {
        if self.tokens.is_none() && !self.listen.ip().is_loopback() {
            return Err(StartError::OpenToOthers(self.listen));
        }
        let (path, options) = (self.store, self.store_options);
        let store = tokio::task::spawn_blocking(move || Store::open(&path, options)).await??;
        let engine = Engine::new(store.clone(), self.agents, self.engine_options);
        let (recovered, listener, address) = match ready(&engine, self.listen).await {
            Ok(ready) => ready,
            Err(error) => {
                engine.shutdown(Duration::ZERO).await;
                close(store).await?;
                return Err(error);
            }
        };
        let app = App::new(engine.clone(), self.tokens, self.server_options);
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, app, shutdown.clone()));
        Ok(Server { address, recovered, engine, store, grace: self.shutdown_grace, shutdown, serving })
    }
}

/// Sees to what was left behind before anybody can ask for it, then listens.
async fn ready(
    engine: &Engine,
    address: SocketAddr,
) -> Result<(Vec<(String, Recovered)>, TcpListener, SocketAddr), StartError> {
    let recovered = engine.recover().await?;
    engine.sweep_regularly();
    engine.watch_for_orphans();
    engine.watch_deadlines();
    let not_listening = |error| StartError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(not_listening)?;
    let address = listener.local_addr().map_err(not_listening)?;
    Ok((recovered, listener, address))
}

async fn close(store: Store) -> Result<(), JoinError> {
    tokio::task::spawn_blocking(move || store.close()).await
}

/// A server that serves. To be stopped with [`Server::stop`]: dropped, it serves on for as long as the runtime lives.
pub struct Server {
    address: SocketAddr,
    recovered: Vec<(String, Recovered)>,
    engine: Engine,
    store: Store,
    grace: Duration,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The runs that a server before this one left behind, and what became of them.
    pub fn recovered(&self) -> &[(String, Recovered)] {
        &self.recovered
    }

    /// What executes runs.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Lets runs end for as long as the grace period, then the readers, then the store.
    ///
    /// # Errors
    /// When a part of it panicked.
    pub async fn stop(self) -> Result<(), JoinError> {
        self.engine.shutdown(self.grace).await;
        self.shutdown.cancel();
        self.serving.await?;
        close(self.store).await
    }

    /// Waits until it has ended by itself, which it does only when it panics: with that, if so. May be dropped and called
    /// again.
    pub async fn ended(&mut self) -> Option<JoinError> {
        (&mut self.serving).await.err()
    }
}
