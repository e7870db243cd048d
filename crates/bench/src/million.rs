//! A run of a million frames: what the server's memory and the cost of a frame do from its first slice to its last, while
//! it is written and read live, and when it is replayed.

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use clap::Args;

use crate::child::ChildProcess;
use crate::report::{Report, quantile};
use crate::serve::{Ended, Part, ServeArgs, ServerProcess};
use crate::socket;
use crate::wire::Transport;

/// How a long run is measured.
#[derive(Args, Clone, Debug)]
pub struct MillionArgs {
    /// How many deltas the run has, each a frame.
    #[arg(long, default_value_t = 1_000_000)]
    frames: usize,
    /// How often it is replayed.
    #[arg(long, default_value_t = 5)]
    times: usize,
}

/// Into so many slices a reading is cut.
const SLICES: usize = 10;
/// The run's frames that are no deltas: `run.start`, two of `run.status`, `run.end`, and the brackets of two segments.
const AROUND: u64 = 8;

/// Measures one round into the report.
///
/// # Errors
/// When a process fails, or a reader lost something.
pub fn round(args: &MillionArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let frames = args.frames.max(SLICES);
    let ServerProcess { mut process, at } =
        ServerProcess::start(&ServeArgs { folder: folder.path().to_owned(), frames, ..ServeArgs::of(Part::Torrent) })?;
    report.add("before", MEMORY, process.memory_kib()? / 1024.0);
    // The run is let go when its reader has had its first frames, so that it follows live.
    let live = read(&mut process, &at.address, &at.sse, frames, true)?;
    let ended: Ended = process.hear()?;
    ensure!(
        ended.frames == frames as u64 + AROUND,
        "the run has {} frames, and {} were to be written",
        ended.frames,
        frames as u64 + AROUND
    );
    live.add(report, "live", frames);

    let mut replays = Vec::new();
    for _ in 0..args.times.max(1) {
        let replay = read(&mut process, &at.address, &at.sse, frames, false)?;
        ensure!(replay.bytes == live.bytes, "a replay has {} bytes, and live it had {}", replay.bytes, live.bytes);
        replays.push(replay);
    }
    Reading::median(&replays).add(report, "replayed", frames);

    let mut resumed = Vec::new();
    for slice in 0..SLICES {
        let after = (frames / SLICES * slice) as u64;
        let mut seconds: Vec<f64> = Vec::new();
        for _ in 0..args.times.max(1) {
            let path = format!("{}?after={after}", at.sse);
            let arrived = socket::until(&at.address, &path, &format!("id: {}\n", after + 1))?;
            seconds.push(arrived.as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        resumed.push(quantile(&seconds, 0.5) * 1e3);
        report.add(&slice_name("resumed", slice), ("first frame, ms", 2), resumed[slice]);
    }
    report.ratio("time to the first frame, resumed in the last slice to the first", resumed[SLICES - 1] / resumed[0]);
    report.note(format!(
        "a slice is {} frames; memory is of the server's process alone, at the slice's end",
        frames / SLICES
    ));
    report.note(format!("CPU is of the server's process; replayed: median of {}", args.times.max(1)));
    report.add("afterwards", MEMORY, process.memory_kib()? / 1024.0);
    process.finish()
}

const MEMORY: (&str, usize) = ("memory, MiB", 1);

fn slice_name(what: &str, slice: usize) -> String {
    format!("{what}, slice {}", slice + 1)
}

#[derive(Clone, Copy, Default)]
struct Slice {
    seconds: f64,
    cpu: f64,
    memory_kib: f64,
}

/// One reading of the whole run.
struct Reading {
    bytes: u64,
    slices: Vec<Slice>,
}

impl Reading {
    fn median(readings: &[Reading]) -> Reading {
        let of = |slice: usize, value: fn(&Slice) -> f64| {
            let mut values: Vec<f64> = readings.iter().map(|r| value(&r.slices[slice])).collect();
            values.sort_by(f64::total_cmp);
            quantile(&values, 0.5)
        };
        let slices = (0..SLICES).map(|i| Slice {
            seconds: of(i, |s| s.seconds),
            cpu: of(i, |s| s.cpu),
            memory_kib: of(i, |s| s.memory_kib),
        });
        Reading { bytes: readings.first().map_or(0, |r| r.bytes), slices: slices.collect() }
    }

    fn add(&self, report: &mut Report, what: &str, frames: usize) {
        let each = (frames / SLICES) as f64;
        for (i, slice) in self.slices.iter().enumerate() {
            let row = slice_name(what, i);
            report.add(&row, ("frames/s", 0), each / slice.seconds);
            report.add(&row, ("CPU µs a frame", 2), slice.cpu * 1e6 / each);
            report.add(&row, MEMORY, slice.memory_kib / 1024.0);
        }
        // The first slice also pays for what is done once, so the second is what the last is held against.
        let (early, late) = (self.slices[1], self.slices[SLICES - 1]);
        report.ratio(&format!("CPU a frame, {what}, last slice to second"), late.cpu / early.cpu);
        report.ratio(&format!("memory, {what}, last slice to second"), late.memory_kib / early.memory_kib);
    }
}

/// Reads the run from its start to its end, and looks at the server at each slice's end.
fn read(process: &mut ChildProcess, address: &str, path: &str, frames: usize, let_go: bool) -> anyhow::Result<Reading> {
    let mut reading = Reading { bytes: 0, slices: Vec::new() };
    let mut cut = Ok(());
    let mut lines = 0;
    let mut waits_for_go = let_go;
    let mut last = (Instant::now(), process.threads_seconds()?);
    socket::follow(Transport::Sse, address, path, |payload, at| {
        reading.bytes += payload.len() as u64;
        lines += payload.iter().filter(|b| **b == b'\n').count();
        if cut.is_err() {
            return;
        }
        cut = (|| {
            if std::mem::take(&mut waits_for_go) {
                process.tell("go")?;
            }
            // An event is three lines: `id`, `data`, and the empty one.
            while reading.slices.len() < SLICES && lines / 3 >= (reading.slices.len() + 1) * (frames / SLICES) {
                let cpu = process.threads_seconds()?;
                let memory_kib = process.memory_kib()?;
                reading.slices.push(Slice { seconds: (at - last.0).as_secs_f64(), cpu: cpu - last.1, memory_kib });
                last = (at, cpu);
            }
            anyhow::Ok(())
        })();
    })?;
    cut?;
    ensure!(reading.slices.len() == SLICES, "the reader had {lines} lines, which is not the whole run");
    Ok(reading)
}
