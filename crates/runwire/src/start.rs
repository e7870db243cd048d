//! Starting a server from its settings: what `serve` and `demo` share.

use runwire_engine::EngineOptions;
use runwire_server::{Server, ServerOptions, Setup};
use runwire_store::{StoreOptions, Sync};

use crate::cli::SyncMode;
use crate::config::Settings;
use crate::signals;

/// Opens the store, goes on with what was left behind or ends it, listens and serves.
pub async fn start(settings: Settings) -> anyhow::Result<Server> {
    signals::survive_file_size_limit();
    let sync = match settings.sync {
        SyncMode::Normal => Sync::Normal,
        SyncMode::Full => Sync::Full,
    };
    let options = ServerOptions {
        cors_origins: settings.cors_origins,
        copilotkit_path: settings.copilotkit_path,
        stream_max_age: settings.stream_max_age,
        ..ServerOptions::default()
    };
    let engine = EngineOptions {
        cancel_grace: settings.cancel_grace,
        orphan_check: settings.orphan_check,
        lanes: settings.lanes,
        retention: settings.retention,
        prices: settings.prices,
        max_child_depth: settings.max_child_depth,
    };
    let setup = Setup::new(settings.agents)
        .listen(settings.listen)
        .store(settings.store)
        .tokens(settings.tokens)
        .shutdown_grace(settings.shutdown_grace)
        .store_options(StoreOptions { sync, ..StoreOptions::default() })
        .engine_options(engine)
        .server_options(options);
    Ok(setup.start().await?)
}

/// What a server that ended by itself is told as.
pub async fn failed(server: &mut Server) -> anyhow::Error {
    match server.ended().await {
        None => anyhow::anyhow!("the server stopped serving"),
        Some(error) => anyhow::Error::new(error).context("the server stopped serving"),
    }
}
