//! Append throughput: the store against what SQLite itself does with the same rows.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use runwire_store::{Append, Appender, NewFrame, Store, Sync};
use rusqlite::{Connection, TransactionBehavior};
use tokio::runtime::Runtime;

use crate::finished_run::new_run;
use crate::report::{Column, Report};
use crate::runwire::open;

/// How appending is measured.
#[derive(Args, Clone, Debug)]
pub struct AppendArgs {
    /// How many runs append at once.
    #[arg(long, default_value_t = 100)]
    runs: usize,
    /// For how many seconds, each time.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The size of a frame's body in bytes.
    #[arg(long, default_value_t = 200)]
    body: usize,
}

const FRAMES_PER_SECOND: Column = ("frames/s", 0);
const BATCH: Column = ("frames a commit", 1);
const COMMITS_PER_SECOND: Column = ("commits/s", 0);
const ALONE: Column = ("SQLite alone frames/s", 0);

/// The two take turns this often, so that what disturbs the machine disturbs both.
const SLICES: u32 = 5;

/// How a run appends.
#[derive(Clone, Copy)]
enum Appending {
    /// Each frame waits until the one before it is durable: what 100 steady talkers do at most.
    OneByOne,
    /// Up to 64 frames of each run are under way: as much as there is.
    Ahead,
}

/// How many frames of a run may be under way.
const AHEAD: usize = 64;

/// Measures one round into the report.
///
/// # Errors
/// When the store or SQLite fails.
pub fn round(args: &AppendArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for (sync, sync_name) in [(Sync::Normal, "normal"), (Sync::Full, "full")] {
        for (how, how_name) in [(Appending::OneByOne, "one by one"), (Appending::Ahead, "64 ahead")] {
            let folder = tempfile::tempdir_in(folder)?;
            let mut subject = Subject::open(args, &folder.path().join("store.db"), sync, &runtime)?;
            let mut peer = Peer::open(args, &folder.path().join("alone.db"), sync)?;
            let (mut ours, mut alone) = (Appended::default(), Appended::default());
            for _ in 0..SLICES {
                let slice = subject.append(args, how, &runtime)?;
                alone.add(&peer.append(args, &slice)?);
                ours.add(&slice);
            }
            subject.store.close();
            let row = format!("sync {sync_name}, {how_name}");
            report.add(&row, FRAMES_PER_SECOND, ours.per_second());
            report.add(&row, COMMITS_PER_SECOND, ours.commits as f64 / ours.seconds);
            report.add(&row, BATCH, ours.frames as f64 / ours.commits.max(1) as f64);
            report.add(&row, ALONE, alone.per_second());
            report.ratio(&format!("store to SQLite alone, {row}"), ours.per_second() / alone.per_second());
        }
    }
    report.note("SQLite alone: the same rows into the same table in batches of the same mean size, and nothing else");
    Ok(())
}

/// What was appended.
#[derive(Default)]
struct Appended {
    frames: usize,
    commits: u64,
    seconds: f64,
}

impl Appended {
    fn per_second(&self) -> f64 {
        self.frames as f64 / self.seconds
    }

    fn add(&mut self, more: &Appended) {
        self.frames += more.frames;
        self.commits += more.commits;
        self.seconds += more.seconds;
    }
}

fn body(args: &AppendArgs) -> Bytes {
    vec![b'x'; args.body].into()
}

/// The store, with a run for each that appends.
struct Subject {
    store: Store,
    appenders: Vec<Appender>,
}

impl Subject {
    fn open(args: &AppendArgs, path: &Path, sync: Sync, runtime: &Runtime) -> anyhow::Result<Subject> {
        let store = open(path, sync)?;
        let appenders = runtime.block_on(async {
            let mut appenders = Vec::new();
            for i in 0..args.runs {
                let run_id = format!("run_{i}");
                store.create_run(new_run(&run_id)).await?;
                appenders.push(store.take_ownership(&run_id).await?);
            }
            anyhow::Ok(appenders)
        })?;
        Ok(Subject { store, appenders })
    }

    /// For one slice of the time, all runs at once.
    fn append(&mut self, args: &AppendArgs, how: Appending, runtime: &Runtime) -> anyhow::Result<Appended> {
        let commits = self.store.commits();
        let started = Instant::now();
        let until = started + Duration::from_secs_f64(args.seconds / f64::from(SLICES));
        let tasks: Vec<_> = self
            .appenders
            .drain(..)
            .map(|appender| runtime.spawn(append_until(appender, body(args), how, until)))
            .collect();
        let mut frames = 0;
        for task in tasks {
            let (appender, appended) = runtime.block_on(task)??;
            self.appenders.push(appender);
            frames += appended;
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(Appended { frames, commits: self.store.commits() - commits, seconds })
    }
}

async fn append_until(
    mut appender: Appender,
    body: Bytes,
    how: Appending,
    until: Instant,
) -> anyhow::Result<(Appender, usize)> {
    let progress = appender.progress();
    let mut frames = 0;
    while Instant::now() < until {
        let seq = appender.next_seq();
        let frame = NewFrame { seq, body: body.clone() };
        appender.enqueue(Append { frames: vec![frame], ..Append::default() })?;
        frames += 1;
        match how {
            Appending::OneByOne => progress.wait_durable(seq).await?,
            Appending::Ahead => progress.wait_below(AHEAD, usize::MAX).await?,
        }
    }
    progress.flush().await?;
    Ok((appender, frames))
}

/// SQLite with the frames' table and nothing else.
struct Peer {
    connection: Connection,
    rows: usize,
}

impl Peer {
    fn open(args: &AppendArgs, path: &Path, sync: Sync) -> anyhow::Result<Peer> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE frames (
                 run INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run, seq)
             ) STRICT, WITHOUT ROWID;",
        )?;
        let synchronous = match sync {
            Sync::Normal => "NORMAL",
            Sync::Full => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        anyhow::ensure!(args.runs > 0, "at least one run has to append");
        Ok(Peer { connection, rows: 0 })
    }

    /// As many rows in as many batches as the store has just written.
    fn append(&mut self, args: &AppendArgs, like: &Appended) -> anyhow::Result<Appended> {
        let body = body(args);
        let (first, commits) = (self.rows, like.commits.max(1));
        let started = Instant::now();
        for commit in 1..=commits {
            // Spread so that every batch has the mean size, also where that is no whole number.
            let upto = first + (like.frames as u128 * u128::from(commit) / u128::from(commits)) as usize;
            let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            {
                let mut insert = tx.prepare_cached("INSERT INTO frames (run, seq, body) VALUES (?1, ?2, ?3)")?;
                for row in self.rows..upto {
                    let (run, seq) = (row % args.runs, row / args.runs + 1);
                    insert.execute((run as i64, seq as i64, &body[..]))?;
                }
            }
            tx.commit()?;
            self.rows = upto;
        }
        Ok(Appended { frames: like.frames, commits, seconds: started.elapsed().as_secs_f64() })
    }
}
