//! `runwire serve`

use std::io::Write as _;

use runwire_server::Server;
use serde_json::json;

use crate::cli::{ServeArgs, SyncMode};
use crate::config::Settings;
use crate::exit::Exit;
use crate::{cli, signals, start};

/// The arguments of a first run, as they have to be for this server.
fn first_run(server: &Server, tokens: bool) -> String {
    let agent = server.engine().agents().keys().next().map_or("demo", String::as_str);
    let mut arguments = format!("{agent} \"Hello\"");
    if server.address().to_string() != cli::DEFAULT_ADDRESS {
        arguments.push_str(&format!(" --server http://{}", server.address()));
    }
    if tokens {
        arguments.push_str(" --token TOKEN");
    }
    arguments
}

/// Serves until it is told to stop.
pub async fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(args.config.as_deref(), &args.listen)?;
    let agents: Vec<String> = settings.agents.iter().map(|a| format!("{} ({})", a.id, a.driver.kind())).collect();
    let store = settings.store.display().to_string();
    let sync = match settings.sync {
        SyncMode::Normal => "normal",
        SyncMode::Full => "full",
    };
    let tokens = settings.tokens.is_some();
    let grace = settings.shutdown_grace;
    let mut server = start::start(settings).await?;
    let address = server.address();
    let left_behind = server.recovered().len();
    if args.json {
        let ids: Vec<&String> = server.engine().agents().keys().collect();
        println!(
            "{}",
            json!({ "listening": format!("http://{address}"), "store": store, "sync": sync, "agents": ids,
                    "tokens": tokens, "recovered": left_behind })
        );
    } else {
        println!("runwire {} serves http://{address}", env!("CARGO_PKG_VERSION"));
        println!("  store    {store} (SQLite, sync {sync})");
        println!("  agents   {}", agents.join(", "));
        if tokens {
            println!("  access   with a token from the configuration");
        } else {
            println!("  access   no tokens are configured: this machine only, and everybody on it");
        }
        if left_behind > 0 {
            println!("  runs     {left_behind} left behind by a server before this one");
        }
        println!("  try      runwire run {}", first_run(&server, tokens));
    }
    std::io::stdout().flush()?;
    tokio::select! {
        () = signals::stop_requested() => {}
        error = start::failed(&mut server) => return Err(error),
    }
    let active = server.engine().active_runs();
    if active > 0 {
        // A log that cannot be written must not keep the runs from their end.
        let _ = writeln!(
            std::io::stderr(),
            "runwire: stopping; {active} runs have up to {grace:?} to end (again to stop at once)"
        );
    }
    server.stop().await?;
    Ok(Exit::Done)
}
