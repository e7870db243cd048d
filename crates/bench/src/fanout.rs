//! Many readers of one run: bytes delivered for a second of the server's processor time, against the bare server.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use crate::read::{Crowd, Read};
use crate::report::Report;
use crate::serve::{Part, ServeArgs, ServerProcess};
use crate::wire::Transport;

/// How fan-out is measured.
#[derive(Args, Clone, Debug)]
pub struct FanoutArgs {
    /// How many readers.
    #[arg(long, default_value_t = 1000)]
    readers: usize,
    /// How many deltas the run has.
    #[arg(long, default_value_t = 250)]
    frames: usize,
    /// The time from one to the next, in milliseconds; at least 30, so that coalescing joins none.
    #[arg(long, default_value_t = 40)]
    pace_ms: u64,
}

/// What a run has in its log before it is let go: `run.start` and `run.status`.
const GREETING: usize = 2;

/// Measures one round into the report.
///
/// # Errors
/// When a process fails or a reader lost something.
pub fn round(args: &FanoutArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    for transport in [Transport::Sse, Transport::Ws] {
        let folder = tempfile::tempdir_in(folder)?;
        let mut ours = ServerProcess::start(&ServeArgs {
            folder: folder.path().to_owned(),
            frames: args.frames,
            pace_ms: args.pace_ms.max(30),
            ..ServeArgs::of(Part::Live)
        })?;
        let name = transport.as_str().to_uppercase();
        let delivered = deliver(args, &mut ours, transport)?;
        let mut bare = ServerProcess::start(&ServeArgs {
            address: ours.at.address.clone(),
            path: ours.at.sse.clone(),
            greeting: GREETING,
            pace_ms: args.pace_ms.max(30),
            ..ServeArgs::of(Part::BareLive)
        })?;
        ours.process.finish()?;
        let bound = deliver(args, &mut bare, transport)?;
        bare.process.finish()?;
        ensure!(
            delivered.read.bytes == bound.read.bytes,
            "{} bytes came from Runwire and {} from the bare server, which must be the same",
            delivered.read.bytes,
            bound.read.bytes
        );
        for (server, side) in [("Runwire", &delivered), ("bare axum", &bound)] {
            let row = format!("{name}, {server}");
            report.add(&row, ("MB", 1), side.read.bytes as f64 / 1e6);
            report.add(&row, ("writes a reader", 1), side.read.pieces as f64 / args.readers as f64);
            report.add(&row, ("CPU s", 2), side.cpu);
            report.add(&row, ("MB/CPU s", 2), side.rate());
            report.add(&row, ("µs CPU a write", 2), side.cpu * 1e6 / side.read.pieces as f64);
        }
        report.ratio(&format!("bytes a CPU second, Runwire to bare axum, {name}"), delivered.rate() / bound.rate());
    }
    Ok(())
}

struct Delivered {
    read: Read,
    cpu: f64,
}

impl Delivered {
    /// Megabytes a second of the server's processor time.
    fn rate(&self) -> f64 {
        self.read.bytes as f64 / 1e6 / self.cpu.max(0.01)
    }
}

fn deliver(args: &FanoutArgs, server: &mut ServerProcess, transport: Transport) -> anyhow::Result<Delivered> {
    let path = server.at.path(transport).to_owned();
    let crowd = Crowd::start(&server.at.address, transport, &[path], args.readers)?;
    // What attaching cost is over when the last reader sleeps.
    std::thread::sleep(Duration::from_millis(500));
    let before = server.process.cpu_seconds()?;
    server.process.tell("go")?;
    let read = crowd.finish()?;
    let cpu = server.process.cpu_seconds()? - before;
    Ok(Delivered { read, cpu })
}
