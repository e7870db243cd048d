//! What the engine costs beside the store: short runs from their creation to their end, and runs that are there and do
//! nothing, executed and suspended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::{Args, ValueEnum};
use futures_util::future::BoxFuture;
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, Opening, Suspension};
use runwire_engine::{Driver, Engine, EngineOptions, Exchange, Starting};
use runwire_frame::{RunStatus, SuspendKind};
use runwire_store::{RunFilter, Store, Sync, TailItem};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use tokio::sync::watch;

use crate::agents::{Steady, WORDS, agent};
use crate::child::ChildProcess;
use crate::finished_run::write_finished_run;
use crate::machine;
use crate::report::Report;
use crate::runwire::{STORE, Server, open};

/// How runs are measured.
#[derive(Args, Clone, Debug)]
pub struct RunsArgs {
    /// How many short runs.
    #[arg(long, default_value_t = 5000)]
    runs: usize,
    /// How many of them at once.
    #[arg(long, default_value_t = 100)]
    at_once: usize,
    /// How many runs are executed and do nothing while memory is read.
    #[arg(long, default_value_t = 2000)]
    waiting: usize,
    /// How many runs are suspended.
    #[arg(long, default_value_t = 10_000)]
    suspended: usize,
}

/// One part of it, in a process of its own.
#[derive(Args, Clone, Debug)]
pub struct PartArgs {
    #[arg(long)]
    part: Part,
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    runs: usize,
    #[arg(long)]
    at_once: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Short runs, by the engine.
    Engine,
    /// The same frames, by the store alone.
    Store,
    /// Runs that are executed and do nothing.
    Waiting,
    /// Runs that suspend.
    Suspended,
    /// A start with what the part before left.
    Start,
}

/// What a part took.
#[derive(Debug, Deserialize, Serialize)]
struct Taken {
    seconds: f64,
    cpu: f64,
    memory_kib: f64,
}

/// How many frames a short run has: `run.start`, `run.status`, a message of one delta, `run.status`, `run.end`.
const FRAMES: usize = 7;
/// From the last run's last frame until memory is read.
const SETTLED: Duration = Duration::from_secs(1);

/// Measures one round into the report.
///
/// # Errors
/// When a process fails or a run does not end as it should.
pub fn round(args: &RunsArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let at_once = args.at_once.max(1);
    let mut rates = Vec::new();
    for (part, row) in [(Part::Engine, "short runs, engine"), (Part::Store, "the same frames, store alone")] {
        let folder = tempfile::tempdir_in(folder)?;
        let taken = measure(part, folder.path(), args.runs, at_once)?;
        let rate = args.runs as f64 / taken.seconds;
        report.add(row, ("runs/s", 0), rate);
        report.add(row, ("CPU µs a run", 0), taken.cpu * 1e6 / args.runs as f64);
        rates.push((rate, taken.cpu));
    }
    if let [ours, bound] = rates[..] {
        report.ratio("short runs a second, engine to store alone", ours.0 / bound.0);
        report.ratio("CPU of a short run, engine to store alone", ours.1 / bound.1);
    }
    let waiting = tempfile::tempdir_in(folder)?;
    let taken = measure(Part::Waiting, waiting.path(), args.waiting, at_once)?;
    report.add("a run that is executed", ("KiB a run", 2), taken.memory_kib / args.waiting as f64);
    let asleep = tempfile::tempdir_in(folder)?;
    let taken = measure(Part::Suspended, asleep.path(), args.suspended, at_once)?;
    report.add("a suspended run", ("KiB a run", 2), taken.memory_kib / args.suspended as f64);
    let row = format!("start with {} suspended", args.suspended);
    let taken = measure(Part::Start, asleep.path(), args.suspended, at_once)?;
    report.add(&row, ("ms", 0), taken.seconds * 1e3);
    report.add(&row, ("KiB a run", 2), taken.memory_kib / args.suspended as f64);
    report
        .note("a short run is created, executed and followed to its end; the store alone creates and appends the same");
    report.note("KiB: memory of the process after all runs are there, less that before, for each run");
    Ok(())
}

fn measure(part: Part, folder: &Path, runs: usize, at_once: usize) -> anyhow::Result<Taken> {
    let name = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let args = ["runs-part", "--part", &name, "--folder", &folder.to_string_lossy(), "--runs", &runs.to_string()];
    let mut args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    args.extend(["--at-once".to_owned(), at_once.to_string()]);
    let mut process = ChildProcess::start(&args)?;
    let taken = process.hear()?;
    process.finish()?;
    Ok(taken)
}

/// The part's process.
///
/// # Errors
/// When it fails.
pub fn main(args: &PartArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let taken = runtime.block_on(async {
        match args.part {
            Part::Engine => short_runs(args).await,
            Part::Store => by_the_store(args).await,
            Part::Waiting => waiting(args).await,
            Part::Suspended => suspended(args).await,
            Part::Start => start(args).await,
        }
    })?;
    println!("{}", serde_json::to_string(&taken)?);
    Ok(())
}

/// What this process used since the meter was made.
struct Meter {
    started: Instant,
    cpu: f64,
    memory_kib: f64,
}

impl Meter {
    fn start() -> anyhow::Result<Meter> {
        let pid = std::process::id();
        let (cpu, memory_kib) = (machine::threads_seconds(pid)?, machine::memory_kib(pid)?);
        Ok(Meter { started: Instant::now(), cpu, memory_kib })
    }

    fn read(&self) -> anyhow::Result<Taken> {
        let pid = std::process::id();
        Ok(Taken {
            seconds: self.started.elapsed().as_secs_f64(),
            cpu: machine::threads_seconds(pid)? - self.cpu,
            memory_kib: machine::memory_kib(pid)? - self.memory_kib,
        })
    }
}

/// Says one thing and is done.
struct Brief;

impl Driver for Brief {
    fn kind(&self) -> &'static str {
        "bench"
    }

    fn execute(&self, _: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        Box::pin(async move {
            let writer = starting.begin(None);
            let message = writer.message(Opening::default()).await?;
            message.text(WORDS).await?;
            message.end(Ending::completed()).await?;
            Ok(ExchangeEnd::Completed(Completion::default()))
        })
    }
}

/// Asks and waits.
struct Asking;

impl Driver for Asking {
    fn kind(&self) -> &'static str {
        "bench"
    }

    fn execute(&self, _: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        Box::pin(async move {
            starting.begin(None);
            let interrupts = json!([{ "id": "i1", "reason": "confirmation" }]);
            Ok(ExchangeEnd::Suspended(Suspension {
                kind: SuspendKind::Input,
                contract: Map::from_iter([("interrupts".to_owned(), interrupts)]),
                prompt: Some("Shall I?".to_owned()),
                deadline: None,
                usage: Vec::new(),
                agui: None,
            }))
        })
    }
}

/// Does something with every number below `all`, so many at once.
async fn at_once<F>(
    args: &PartArgs,
    work: impl Fn(usize) -> F + Send + std::marker::Sync + 'static,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send,
{
    let (work, next, all) = (Arc::new(work), Arc::new(AtomicUsize::new(0)), args.runs);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..args.at_once {
        let (work, next) = (work.clone(), next.clone());
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= all {
                    return anyhow::Ok(());
                }
                work(number).await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn short_runs(args: &PartArgs) -> anyhow::Result<Taken> {
    let server = Arc::new(Server::start(&args.folder, [agent(Brief)]).await?);
    let meter = Meter::start()?;
    let serving = server.clone();
    at_once(args, move |_| {
        let server = serving.clone();
        async move {
            let run = server.create_run("bench").await?;
            let mut tail = server.store().tail(&run, 0).await?;
            let mut frames = 0;
            while let TailItem::Frames(entries) = tail.next().await? {
                frames += entries.len();
            }
            ensure!(frames == FRAMES, "the run has {frames} frames");
            Ok(())
        }
    })
    .await?;
    meter.read()
}

async fn by_the_store(args: &PartArgs) -> anyhow::Result<Taken> {
    let store = open(&args.folder.join(STORE), Sync::Normal)?;
    let meter = Meter::start()?;
    at_once(args, move |number| {
        let store = store.clone();
        async move { write_finished_run(&store, &format!("run_{number}"), FRAMES).await }
    })
    .await?;
    meter.read()
}

async fn waiting(args: &PartArgs) -> anyhow::Result<Taken> {
    // Never said: they wait until the process ends.
    let (_go, gone) = watch::channel(false);
    let server = Arc::new(Server::start(&args.folder, [agent(Steady { go: gone, pieces: 0, pace: SETTLED })]).await?);
    create_until(args, server, RunStatus::Running).await
}

async fn suspended(args: &PartArgs) -> anyhow::Result<Taken> {
    let server = Arc::new(Server::start(&args.folder, [agent(Asking)]).await?);
    create_until(args, server, RunStatus::Suspended).await
}

/// Creates the runs and waits until all have this status.
async fn create_until(args: &PartArgs, server: Arc<Server>, status: RunStatus) -> anyhow::Result<Taken> {
    // What a process makes once is not shared among the runs.
    let few = PartArgs { runs: 50, ..args.clone() };
    create(&few, &server).await?;
    reached(server.store(), 50, status).await?;
    let meter = Meter::start()?;
    create(args, &server).await?;
    reached(server.store(), args.runs + 50, status).await?;
    tokio::time::sleep(SETTLED).await;
    meter.read()
}

async fn create(args: &PartArgs, server: &Arc<Server>) -> anyhow::Result<()> {
    let server = server.clone();
    at_once(args, move |_| {
        let server = server.clone();
        async move { server.create_run("bench").await.map(drop) }
    })
    .await
}

async fn reached(store: &Store, wanted: usize, status: RunStatus) -> anyhow::Result<()> {
    let (mut counted, mut before) = (0, None);
    while counted < wanted {
        let filter = RunFilter {
            status: vec![status.as_str().to_owned()],
            limit: 1000,
            before: before.clone(),
            ..RunFilter::default()
        };
        let page = store.runs(filter).await?;
        match page.last() {
            Some(last) => {
                counted += page.len();
                before = Some(last.cursor());
            }
            // Some are still on their way: count again.
            None => {
                (counted, before) = (0, None);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    Ok(())
}

async fn start(args: &PartArgs) -> anyhow::Result<Taken> {
    let meter = Meter::start()?;
    let store = open(&args.folder.join(STORE), Sync::Normal)?;
    let engine = Engine::new(store, [agent(Asking)], EngineOptions::default());
    let recovered = engine.recover().await?;
    let taken = meter.read()?;
    ensure!(recovered.len() >= args.runs, "{} runs were found", recovered.len());
    Ok(taken)
}
