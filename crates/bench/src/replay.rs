//! A long finished run, read from its start: against the bare server with the same bytes in memory, and against what
//! SQLite needs to read the same rows.

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use clap::Args;
use rusqlite::{Connection, OpenFlags};

use crate::read::{Crowd, Read};
use crate::report::{Report, quantile};
use crate::runwire::STORE;
use crate::serve::{Part, ServeArgs, ServerProcess};
use crate::wire::Transport;

/// How a replay is measured.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// How many frames the run has.
    #[arg(long, default_value_t = 100_000)]
    frames: usize,
    /// How often each server is read from.
    #[arg(long, default_value_t = 10)]
    times: usize,
}

/// How many frames the store gives out at once, so that the bare server writes chunks of the same size.
const PAGE: usize = 1024;

/// Measures one round into the report. Both servers run at the same time and are read from in turns.
///
/// # Errors
/// When a process fails or a reader lost something.
pub fn round(args: &ReplayArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let ours = ServerProcess::start(&ServeArgs {
        folder: folder.path().to_owned(),
        frames: args.frames,
        ..ServeArgs::of(Part::Finished)
    })?;
    let bare = ServerProcess::start(&ServeArgs {
        address: ours.at.address.clone(),
        path: ours.at.sse.clone(),
        chunk: PAGE,
        ..ServeArgs::of(Part::BareFinished)
    })?;
    let mut rows = Vec::new();
    let mut sides = [Side::new("Runwire", ours)?, Side::new("bare axum", bare)?];
    for _ in 0..args.times.max(1) {
        for side in &mut sides {
            side.read()?;
        }
        rows.push(read_rows(&folder.path().join(STORE))?);
    }
    for side in &mut sides {
        let cpu = side.cpu()?;
        let row = side.name;
        report.add(row, ("MB", 1), side.bytes() as f64 / 1e6);
        report.add(row, ("s", 3), side.seconds());
        report.add(row, ("MB/s", 0), side.bytes() as f64 / 1e6 / side.seconds());
        report.add(row, ("CPU s", 3), cpu);
        report.add(row, ("first frame ms", 2), side.first_frame() * 1e3);
    }
    let [ours, bare] = sides;
    ensure!(ours.bytes() == bare.bytes(), "the two servers did not write the same bytes");
    rows.sort_by(f64::total_cmp);
    let rows = quantile(&rows, 0.5);
    report.add("SQLite alone", ("s", 3), rows);
    report.note("SQLite alone: the same rows read in order into one buffer in memory, and sent to nobody");
    report.ratio("bytes a second, Runwire to SQLite alone", rows / ours.seconds());
    report.ratio("bytes a second, Runwire to bare axum", bare.seconds() / ours.seconds());
    report.ratio("time to the first frame, Runwire to bare axum", ours.first_frame() / bare.first_frame());
    bare.server.process.finish()?;
    ours.server.process.finish()
}

/// How long it takes SQLite to give out the run's bodies, in seconds.
fn read_rows(store: &Path) -> anyhow::Result<f64> {
    let connection = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let started = Instant::now();
    let mut bodies = Vec::new();
    let mut statement = connection.prepare("SELECT sse FROM pages WHERE run = 1 ORDER BY first")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        bodies.extend_from_slice(row.get_ref(0)?.as_blob()?);
    }
    ensure!(!bodies.is_empty(), "the store has no frames of the finished run");
    Ok(started.elapsed().as_secs_f64())
}

struct Side {
    name: &'static str,
    server: ServerProcess,
    cpu_before: f64,
    reads: Vec<Read>,
}

impl Side {
    fn new(name: &'static str, server: ServerProcess) -> anyhow::Result<Side> {
        let mut side = Side { name, server, cpu_before: 0.0, reads: Vec::new() };
        // Once for the caches of both.
        side.read()?;
        side.reads.clear();
        side.cpu_before = side.server.process.cpu_seconds()?;
        Ok(side)
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let at = &self.server.at;
        self.reads.push(Crowd::start(&at.address, Transport::Sse, std::slice::from_ref(&at.sse), 1)?.finish()?);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.reads.last().map_or(0, |r| r.bytes)
    }

    /// Of one read; the mean.
    fn cpu(&self) -> anyhow::Result<f64> {
        Ok((self.server.process.cpu_seconds()? - self.cpu_before) / self.reads.len() as f64)
    }

    fn median(&self, of: impl Fn(&Read) -> f64) -> f64 {
        let mut values: Vec<f64> = self.reads.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        quantile(&values, 0.5)
    }

    fn seconds(&self) -> f64 {
        self.median(|r| r.seconds)
    }

    fn first_frame(&self) -> f64 {
        self.median(|r| r.first_frame)
    }
}
