//! Append throughput: the store against what SQLite itself does with the same rows.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use runwire_store::{Append, NewFrame, Store, Sync};
use rusqlite::{Connection, TransactionBehavior};

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
            let store = open(&folder.path().join("store.db"), sync)?;
            let ours = runtime.block_on(through_the_store(args, &store, how))?;
            store.close();
            let batch = ours.frames as f64 / ours.commits.max(1) as f64;
            let bound = through_sqlite(args, &folder.path().join("bound.db"), sync, &ours)?;
            let row = format!("sync {sync_name}, {how_name}");
            report.add(&row, FRAMES_PER_SECOND, ours.per_second());
            report.add(&row, COMMITS_PER_SECOND, ours.commits as f64 / ours.seconds);
            report.add(&row, BATCH, batch);
            report.add(&row, ("SQLite alone", 0), bound);
            report.ratio(&format!("store to SQLite alone, {row}"), ours.per_second() / bound);
        }
    }
    report.note("SQLite alone: the same rows into the same table in batches of the same mean size, and nothing else");
    Ok(())
}

/// What was appended.
struct Appended {
    frames: usize,
    commits: u64,
    seconds: f64,
}

impl Appended {
    fn per_second(&self) -> f64 {
        self.frames as f64 / self.seconds
    }
}

fn body(args: &AppendArgs) -> Bytes {
    vec![b'x'; args.body].into()
}

async fn through_the_store(args: &AppendArgs, store: &Store, how: Appending) -> anyhow::Result<Appended> {
    let mut appenders = Vec::new();
    for i in 0..args.runs {
        let run_id = format!("run_{i}");
        store.create_run(new_run(&run_id)).await?;
        appenders.push(store.take_ownership(&run_id).await?);
    }
    let commits = store.commits();
    let started = Instant::now();
    let until = started + Duration::from_secs_f64(args.seconds);
    let body = body(args);
    let tasks: Vec<_> = appenders
        .into_iter()
        .map(|mut appender| {
            let body = body.clone();
            tokio::spawn(async move {
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
                anyhow::Ok(frames)
            })
        })
        .collect();
    let mut frames: usize = 0;
    for task in tasks {
        frames += task.await??;
    }
    Ok(Appended { frames, commits: store.commits() - commits, seconds: started.elapsed().as_secs_f64() })
}

/// The same rows by hand: frames per second.
fn through_sqlite(args: &AppendArgs, path: &Path, sync: Sync, ours: &Appended) -> anyhow::Result<f64> {
    let mut connection = Connection::open(path)?;
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
    let body = body(args);
    let started = Instant::now();
    let mut written = 0;
    for commit in 1..=ours.commits {
        // Spread so that every batch has the mean size, also where that is no whole number.
        let upto = (ours.frames as u128 * u128::from(commit) / u128::from(ours.commits)) as usize;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = tx.prepare_cached("INSERT INTO frames (run, seq, body) VALUES (?1, ?2, ?3)")?;
            for row in written..upto {
                let (run, seq) = (row % args.runs, row / args.runs + 1);
                insert.execute((run as i64, seq as i64, &body[..]))?;
            }
        }
        tx.commit()?;
        written = upto;
    }
    Ok(written as f64 / started.elapsed().as_secs_f64())
}
