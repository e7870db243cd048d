//! `runwire runs prune`

use std::io::{self, Write as _};

use runwire_client::PruneRuns;

use crate::cli::PruneArgs;
use crate::exit::Exit;
use crate::follow::server;
use crate::plain::Plain;
use crate::size::shown;

/// Removes runs that have ended, or says which would be.
pub async fn run(args: PruneArgs) -> anyhow::Result<Exit> {
    let server_args = args.server;
    let server = server(&server_args)?;
    let prune = PruneRuns { older_than: args.older_than, agent_id: args.agent, dry_run: args.dry_run };
    let mut out = io::stdout().lock();
    let mut removed = 0;
    loop {
        let pruned = server.prune_runs(&prune).await?;
        removed += pruned.removed;
        if server_args.json {
            writeln!(out, "{}", serde_json::to_string(&pruned)?)?;
        } else if args.dry_run {
            for run in &pruned.runs {
                let (run_id, agent_id) = (Plain(&run.run_id), Plain(&run.agent_id));
                writeln!(out, "{run_id}  {agent_id}  {} frames, {}", run.head, shown(run.bytes))?;
            }
            if pruned.more {
                writeln!(out, "\u{2026} and more")?;
            }
            let found = pruned.found;
            writeln!(out, "{} would be removed, {}", counted(found.runs), shown(found.bytes))?;
        }
        // Without progress asking again would never end.
        if args.dry_run || !pruned.more || pruned.removed == 0 {
            break;
        }
    }
    if !args.dry_run && !server_args.json {
        writeln!(out, "{} removed", counted(removed))?;
    }
    Ok(Exit::Done)
}

fn counted(runs: u64) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") }
}
