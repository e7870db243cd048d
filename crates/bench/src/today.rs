//! The same work as what applications stream through today: tail, fan-out, resume and append, one after the other in one
//! run. Who cannot do a thing has no figure for it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::agents::{Probe, Torrent, agent};
use crate::contender::{Contender, Kind};
use crate::latency::{Arrivals, follow, joined};
use crate::read::Crowd;
use crate::report::{Report, quantile};
use crate::runwire::{Server, stream_path};
use crate::serve::{Part, ServeArgs, ServerProcess};
use crate::socket;
use crate::wire::Transport;

/// How much work.
#[derive(Args, Clone, Debug)]
pub struct TodayArgs {
    /// Tail: how many records, some 6 ms apart.
    #[arg(long, default_value_t = 300)]
    tail: usize,
    /// Fan-out: how many readers.
    #[arg(long, default_value_t = 200)]
    readers: usize,
    /// Fan-out: how many records, 40 ms apart.
    #[arg(long, default_value_t = 100)]
    records: usize,
    /// Resume: how many records there are, of which the reader has had half. Each of them was appended by itself.
    #[arg(long, default_value_t = 1000)]
    backlog: usize,
    /// Resume: how often.
    #[arg(long, default_value_t = 10)]
    times: usize,
    /// Append: to how many streams or runs at once.
    #[arg(long, default_value_t = 100)]
    streams: usize,
    /// Append: how many records to each; Durable Streams gets a tenth.
    #[arg(long, default_value_t = 200)]
    appended: usize,
}

const PACE: Duration = Duration::from_millis(40);
const TAIL_PACE: Duration = Duration::from_millis(6);

/// Measures one round into the report. A peer that is not set up, or fails, is said on stderr and in the report.
///
/// # Errors
/// When a process of Runwire fails or one of its readers lost something.
pub fn round(args: &TodayArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ours = runwire(args, folder, &runtime).context("Runwire's own side")?;
    add(report, "Runwire", args, &ours);
    for kind in [Kind::ResumableStream, Kind::DurableStreams, Kind::FastApi] {
        let name = kind.name();
        if let Some(lacking) = kind.lacks() {
            let lacking = format!("PEER MISSING: {lacking}; it is not measured");
            eprintln!("runwire-bench: {lacking}");
            report.note(lacking);
            continue;
        }
        let theirs = match contender(args, folder, &runtime, kind) {
            Ok(theirs) => theirs,
            // What a peer refuses is its own affair, and keeps no other from being measured.
            Err(error) => {
                let failed = format!("PEER FAILED: {name}, which is not measured in this round: {error:#}");
                eprintln!("runwire-bench: {failed}");
                report.note(failed);
                continue;
            }
        };
        add(report, name, args, &theirs);
        report.ratio(&format!("records delivered a CPU second, Runwire to {name}"), theirs.cpu / ours.cpu);
        if let (Some(ours), Some(theirs)) = (&ours.kept, &theirs.kept) {
            report.ratio(&format!("time to resume, Runwire to {name}"), ours.resume / theirs.resume);
            report.ratio(&format!("records appended a second, Runwire to {name}"), ours.append / theirs.append);
        }
    }
    report.note("tail: microseconds from the producer's write to the read that brought it, one reader");
    report.note(
        "CPU: of the server's process, Redis included and the producer too where it is in there, which for Durable \
                 Streams it is not",
    );
    report.note("resume: from the request of a reader that has had half to the arrival of the last record there is");
    report.note(
        "append: Runwire and Durable Streams keep what they acknowledge in files, resumable-stream keeps it in the \
                 producer's memory",
    );
    Ok(())
}

/// What one side took.
struct Taken {
    tail: Arrivals,
    /// Of the server for the fan-out, in seconds.
    cpu: f64,
    /// Of those that keep what was written.
    kept: Option<Kept>,
}

struct Kept {
    /// The median, in seconds.
    resume: f64,
    /// Records a second.
    append: f64,
}

fn add(report: &mut Report, row: &str, args: &TodayArgs, taken: &Taken) {
    taken.tail.add(report, row);
    report.add(row, ("CPU µs a record and reader", 1), taken.cpu * 1e6 / (args.readers * args.records) as f64);
    if let Some(kept) = &taken.kept {
        report.add(row, ("resume, ms", 2), kept.resume * 1e3);
        report.add(row, ("appended/s", 0), kept.append);
    }
}

/// The moment that every process on this machine counts its monotonic clock from, so that marks may cross processes.
fn machine_epoch() -> anyhow::Result<Instant> {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let up = Duration::new(up.tv_sec.try_into()?, up.tv_nsec.try_into()?);
    Instant::now().checked_sub(up).context("the machine's clock began before it did")
}

/// The processor time of a server for what `live` makes it send to the readers of `path`, to the last reader's end.
fn fan_out<S>(
    args: &TodayArgs,
    (address, path): (&str, &str),
    server: &mut S,
    cpu: impl Fn(&S) -> anyhow::Result<f64>,
    live: impl FnOnce(&mut S) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let crowd = Crowd::start(address, Transport::Sse, &[path.to_owned()], args.readers)?;
    // What attaching cost is over when the last reader sleeps.
    std::thread::sleep(Duration::from_millis(500));
    let before = cpu(server)?;
    live(server)?;
    crowd.finish()?;
    // Finer than /proc counts would be a division by nothing.
    Ok((cpu(server)? - before).max(0.01))
}

fn resume(args: &TodayArgs, address: &str, path: &str, last: &str) -> anyhow::Result<f64> {
    let mut seconds = Vec::new();
    for _ in 0..args.times.max(1) {
        seconds.push(socket::until(address, path, last)?.as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(quantile(&seconds, 0.5))
}

fn all_came(args: &TodayArgs, tail: Arrivals) -> anyhow::Result<Arrivals> {
    anyhow::ensure!(tail.direct() == args.tail, "{} records came of {}", tail.direct(), args.tail);
    Ok(tail)
}

fn contender(args: &TodayArgs, folder: &Path, runtime: &Runtime, kind: Kind) -> anyhow::Result<Taken> {
    let epoch = machine_epoch()?;
    // A process for each, because a stream that has ended cannot be begun again.
    let start = || -> anyhow::Result<(tempfile::TempDir, Contender)> {
        let folder = tempfile::tempdir_in(folder)?;
        let peer = Contender::start(kind, folder.path())?;
        Ok((folder, peer))
    };

    let (_folder, mut peer) = start()?;
    let (first, mut came) = watch::channel(false);
    let reading = follow(Transport::Sse, peer.at.address.clone(), peer.at.sse.clone(), epoch, first);
    runtime.block_on(came.wait_for(|came| *came)).context("the reader was refused")?;
    peer.live(args.tail, TAIL_PACE, epoch)?;
    let tail = all_came(args, runtime.block_on(joined(reading))?)?;
    peer.finish()?;

    let (_folder, mut peer) = start()?;
    let (address, path) = (peer.at.address.clone(), peer.at.sse.clone());
    let live = |peer: &mut Contender| peer.live(args.records, PACE, epoch);
    let cpu = fan_out(args, (&address, &path), &mut peer, Contender::cpu_seconds, live)?;
    peer.finish()?;
    if !kind.keeps() {
        return Ok(Taken { tail, cpu, kept: None });
    }

    let (_folder, mut peer) = start()?;
    let filled = peer.fill(args.backlog & !1)?;
    let resume = resume(args, &peer.at.address, &filled.path, &filled.last)?;
    peer.finish()?;

    let (_folder, mut peer) = start()?;
    let append = peer.append(args.streams, args.appended)?;
    peer.finish()?;
    Ok(Taken { tail, cpu, kept: Some(Kept { resume, append }) })
}

fn runwire(args: &TodayArgs, folder: &Path, runtime: &Runtime) -> anyhow::Result<Taken> {
    let tail = {
        let folder = tempfile::tempdir_in(folder)?;
        all_came(args, runtime.block_on(runwire_tail(args, folder.path()))?)?
    };
    let cpu = {
        let folder = tempfile::tempdir_in(folder)?;
        let mut server = ServerProcess::start(&ServeArgs {
            folder: folder.path().to_owned(),
            frames: args.records,
            pace_ms: u64::try_from(PACE.as_millis())?,
            ..ServeArgs::of(Part::Live)
        })?;
        let at = server.at.clone();
        let cpu = |server: &ServerProcess| server.process.cpu_seconds();
        let cpu = fan_out(args, (&at.address, &at.sse), &mut server, cpu, |server| server.process.tell("go"))?;
        server.process.finish()?;
        cpu
    };
    let resume = {
        let folder = tempfile::tempdir_in(folder)?;
        runtime.block_on(runwire_resume(args, folder.path()))?
    };
    let folder = tempfile::tempdir_in(folder)?;
    let append = runtime.block_on(runwire_append(args, folder.path()))?;
    Ok(Taken { tail, cpu, kept: Some(Kept { resume, append }) })
}

async fn runwire_tail(args: &TodayArgs, folder: &Path) -> anyhow::Result<Arrivals> {
    let (go, gone) = watch::channel(false);
    let epoch = Instant::now();
    let probe = Probe { go: gone, epoch, direct: args.tail, coalesced: 0 };
    let server = Server::start(folder, [agent(probe)]).await?;
    let path = stream_path(&server.create_run("bench").await?, Transport::Sse);
    let tail = joined(follow(Transport::Sse, server.address.to_string(), path, epoch, go)).await?;
    server.stop().await?;
    Ok(tail)
}

async fn runwire_resume(args: &TodayArgs, folder: &Path) -> anyhow::Result<f64> {
    let ((_now, go), (end, ended)) = (watch::channel(true), watch::channel(false));
    let server = Server::start(folder, [agent(Torrent { go, pieces: args.backlog, end: ended })]).await?;
    let run = server.create_run("bench").await?;
    // `run.start`, `run.status` and two of `segment.start` come before the records. The last record has no other after it
    // that would end its wait, so it is the coalescer's time that brings it.
    let head = args.backlog as u64 + 4;
    while server.store().run(&run).await?.context("the run is in the store")?.head < head {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (args, address) = (args.clone(), server.address.to_string());
    let path = format!("{}?after={}", stream_path(&run, Transport::Sse), head - args.backlog as u64 / 2);
    let resumed = tokio::task::spawn_blocking(move || resume(&args, &address, &path, &format!("id: {head}\n")));
    let resumed = resumed.await??;
    end.send_replace(true);
    server.stop().await?;
    Ok(resumed)
}

async fn runwire_append(args: &TodayArgs, folder: &Path) -> anyhow::Result<f64> {
    let (go, gone) = watch::channel(false);
    let torrent = Torrent { go: gone.clone(), pieces: args.appended, end: gone };
    let server = Server::start(folder, [agent(torrent)]).await?;
    for _ in 0..args.streams {
        server.create_run("bench").await?;
    }
    let started = Instant::now();
    go.send_replace(true);
    // A run has ended when its last frame is durable.
    while !server.store().unfinished_runs().await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    server.stop().await?;
    Ok((args.streams * args.appended) as f64 / seconds)
}
