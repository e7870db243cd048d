//! What idle readers cost: the memory of each, and the latency of one live run beside ten thousand of them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use runwire_engine::Agent;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::agents::{Probe, Steady, agent};
use crate::bare::{Bare, live_path};
use crate::latency::{Arrivals, follow, joined, piece, probe_bare};
use crate::read::Crowd;
use crate::report::Report;
use crate::runwire::{Server, stream_path};
use crate::serve::{Part, ServeArgs, ServerProcess};
use crate::wire::Transport;

/// How idle readers are measured.
#[derive(Args, Clone, Debug)]
pub struct IdleArgs {
    /// How many readers share the memory that is measured.
    #[arg(long, default_value_t = 2000)]
    readers: usize,
    /// How many readers are idle while latency is measured; taken up to a multiple of --runs.
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
    /// How many runs they wait for.
    #[arg(long, default_value_t = 100)]
    runs: usize,
    /// How many deltas are measured. The default takes some 20 s, so that every reader's keep-alive falls into it.
    #[arg(long, default_value_t = 3000)]
    direct: usize,
}

/// What a run has in its log before it is let go: `run.start` and `run.status`.
const GREETING: usize = 2;
/// Readers that are there before memory is counted, so that what a server makes once is not shared among the others.
const EARLIER: usize = 200;
/// From the last reader's first bytes until memory is read.
const SETTLED: Duration = Duration::from_secs(2);

/// Measures one round into the report.
///
/// # Errors
/// When a process fails, a reader is refused, or sockets are not to be had.
pub fn round(args: &IdleArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    for transport in [Transport::Sse, Transport::Ws] {
        memory(args, folder, transport, report)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for transport in [Transport::Sse, Transport::Ws] {
        let name = format!("{}, {} idle", transport.as_str().to_uppercase(), args.idle);
        let bound = runtime.block_on(bare_latency(args, transport))?;
        let bound = bound.add(report, &format!("{name}, bare axum"));
        let folder = tempfile::tempdir_in(folder)?;
        let ours = runtime.block_on(latency(args, folder.path(), transport))?;
        let ours = ours.add(report, &format!("{name}, Runwire"));
        report.ratio(&format!("median, Runwire to bare axum, {name}"), ours / bound);
    }
    report.note("KiB: memory of the server's process for each idle reader; the kernel's part of a socket is not in it");
    report.note("median, p99, max: microseconds from a driver's delta to the reader of its run, as in `latency`");
    report.note("Runwire's idle readers get a keep-alive every 15 s meanwhile, the bare server's get nothing");
    Ok(())
}

fn memory(args: &IdleArgs, folder: &Path, transport: Transport, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let mut ours =
        ServerProcess::start(&ServeArgs { folder: folder.path().to_owned(), frames: 1, ..ServeArgs::of(Part::Live) })?;
    let ours_each = memory_of_each(args, &mut ours, transport)?;
    let mut bare = ServerProcess::start(&ServeArgs {
        address: ours.at.address.clone(),
        path: ours.at.sse.clone(),
        greeting: GREETING,
        ..ServeArgs::of(Part::BareLive)
    })?;
    ours.process.finish()?;
    let bare_each = memory_of_each(args, &mut bare, transport)?;
    bare.process.finish()?;
    let name = transport.as_str().to_uppercase();
    let column = ("KiB a reader", 1);
    report.add(&format!("{name}, Runwire"), column, ours_each);
    report.add(&format!("{name}, bare axum"), column, bare_each);
    report.add(&format!("{name}, Runwire above bare axum"), column, ours_each - bare_each);
    Ok(())
}

fn memory_of_each(args: &IdleArgs, server: &mut ServerProcess, transport: Transport) -> anyhow::Result<f64> {
    let path = server.at.path(transport).to_owned();
    let attach = |readers| {
        let crowd = Crowd::start(&server.at.address, transport, std::slice::from_ref(&path), readers)?;
        std::thread::sleep(SETTLED);
        anyhow::Ok((crowd, server.process.memory_kib()?))
    };
    let (earlier, before) = attach(EARLIER)?;
    let (readers, after) = attach(args.readers.max(1))?;
    server.process.tell("go")?;
    earlier.finish()?;
    readers.finish()?;
    Ok((after - before) / args.readers.max(1) as f64)
}

async fn attach(address: String, transport: Transport, paths: Vec<String>, readers: usize) -> anyhow::Result<Crowd> {
    tokio::task::spawn_blocking(move || Crowd::start(&address, transport, &paths, readers)).await?
}

async fn latency(args: &IdleArgs, folder: &Path, transport: Transport) -> anyhow::Result<Arrivals> {
    let (go, gone) = watch::channel(false);
    let (wake, asleep) = watch::channel(false);
    let epoch = Instant::now();
    let probe = Probe { go: gone, epoch, direct: args.direct, coalesced: 0 };
    let idle = Steady { go: asleep, pieces: 0, pace: Duration::from_millis(1) };
    let idle = Agent { id: "idle".to_owned(), ..agent(idle) };
    let server = Server::start(folder, [agent(probe), idle]).await?;
    let address = server.address.to_string();
    let runs = args.runs.max(1);
    let mut paths = Vec::new();
    for _ in 0..runs {
        paths.push(stream_path(&server.create_run("idle").await?, transport));
    }
    let crowd = attach(address.clone(), transport, paths, args.idle.div_ceil(runs)).await?;

    let run = server.create_run("bench").await?;
    let arrivals = joined(follow(transport, address, stream_path(&run, transport), epoch, go)).await?;
    anyhow::ensure!(arrivals.direct() == args.direct, "{} deltas came of {}", arrivals.direct(), args.direct);
    wake.send_replace(true);
    tokio::task::spawn_blocking(move || crowd.finish()).await??;
    server.stop().await?;
    Ok(arrivals)
}

/// The same with a bare server, whose idle readers wait for another stream of the same process.
async fn bare_latency(args: &IdleArgs, transport: Transport) -> anyhow::Result<Arrivals> {
    let mut addresses = Vec::new();
    let mut serving = tokio::task::JoinSet::new();
    let mut servers = Vec::new();
    for _ in 0..2 {
        let bare = Bare::live(vec![piece("hello")?], args.direct + 1);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        addresses.push(listener.local_addr()?.to_string());
        serving.spawn(Arc::clone(&bare).serve(listener));
        servers.push(bare);
    }
    let path = live_path(transport);
    let crowd = attach(addresses[0].clone(), transport, vec![path.to_owned()], args.idle).await?;
    let arrivals = probe_bare(args.direct, transport, &servers[1], addresses[1].clone(), path).await?;
    servers[0].end();
    tokio::task::spawn_blocking(move || crowd.finish()).await??;
    Ok(arrivals)
}
