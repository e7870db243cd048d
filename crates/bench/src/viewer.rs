//! The viewer's pages in Chromium: how soon a long run can be used, whether pictures keep coming while a run streams, and
//! what a page holds of very many frames.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::child::ChildProcess;
use crate::report::Report;
use crate::serve::{Part, ServeArgs, ServerProcess};

/// How the viewer is measured.
#[derive(Args, Clone, Debug)]
pub struct ViewerArgs {
    /// How many frames the run has that is opened.
    #[arg(long, default_value_t = 100_000)]
    frames: usize,
    /// How many deltas a second a run streams whose pictures are counted.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=1000))]
    deltas: u64,
    /// For how many seconds pictures are counted.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many frames the run has whose memory is looked at. An hour of 500 a second, unless given, at full speed.
    #[arg(long, default_value_t = 1_800_000)]
    hour: usize,
}

/// The pages, and what is behind a run's address for them.
const PAGES: [(&str, &str); 2] = [("run page", ""), ("frames page", "/frames")];

/// Into so many slices the run is cut whose memory is looked at.
const SLICES: usize = 6;

/// Measures one round into the report.
///
/// # Errors
/// When a process fails.
pub fn round(args: &ViewerArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let Some(mut browser) = Browser::start(report)? else { return Ok(()) };
    opened(args, folder, &mut browser, report)?;
    animated(args, folder, &mut browser, report)?;
    remembered(args, folder, &mut browser, report)?;
    browser.0.finish()
}

fn opened(args: &ViewerArgs, folder: &Path, browser: &mut Browser, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let server = finished(folder.path(), args.frames)?;
    let mut alone = Vec::new();
    for (name, page) in PAGES {
        // In turns, so that both meet the same disturbances.
        let command = json!({ "do": "fetch", "server": server.origin, "path": server.stream });
        let read: Fetched = browser.ask(&command)?;
        ensure!(read.bytes > 0, "the browser read nothing of the run");
        alone.push(read.ms);
        let command = json!({ "do": "open", "server": server.origin, "run": server.run, "page": page });
        let opened: Opened = browser.ask(&command)?;
        report.add(name, ("first rows, ms", 0), opened.rows);
        report.add(name, ("interactive, ms", 0), opened.interactive);
        report.add(name, ("whole, ms", 0), opened.whole);
        report.add(name, ("longest task, ms", 0), opened.longest);
        report.add(name, ("elements", 0), opened.nodes);
        report.ratio(&format!("{name}: until the log is there, to reading its bytes alone"), opened.whole / read.ms);
    }
    alone.iter().for_each(|ms| report.add("fetch alone", ("whole, ms", 0), *ms));
    report.note(format!("opened: a run of {} frames that has ended; times are from the navigation", args.frames));
    report.note("interactive: rows are there, and no task longer than 50 ms follows until the log is whole");
    report.note("fetch alone: the same bytes, read in an empty page of the same browser that does nothing with them");
    server.process.finish()
}

fn animated(args: &ViewerArgs, folder: &Path, browser: &mut Browser, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let pace_ms = 1000 / args.deltas;
    // Enough for both pages and what is around them; the run is stopped before it has said them all.
    let pieces = (args.deltas * args.seconds * 6).try_into().context("so many deltas are more than fit")?;
    let serve = ServeArgs { folder: folder.path().to_owned(), frames: pieces, pace_ms, ..ServeArgs::of(Part::Live) };
    let mut server = Served::start(&serve)?;
    let still = json!({ "do": "animate", "server": server.origin, "seconds": args.seconds });
    let still: Animated = browser.ask(&still)?;
    report.add("empty page", ("pictures a second", 1), still.fps);
    report.add("empty page", ("slow picture, ms", 1), still.slow);
    server.process.tell("go")?;
    for (name, page) in PAGES {
        let command = json!({
            "do": "animate", "server": server.origin, "run": server.run, "page": page, "seconds": args.seconds,
        });
        let moving: Animated = browser.ask(&command)?;
        report.add(name, ("pictures a second", 1), moving.fps);
        report.add(name, ("slow picture, ms", 1), moving.slow);
        report.add(name, ("frames a second", 0), moving.rate);
        report.ratio(&format!("{name}: pictures a second while it streams, to an empty page"), moving.fps / still.fps);
        if moving.state != "live" {
            report.note(format!("{name}: at the end of its time it was {}", moving.state));
        }
    }
    report
        .note(format!("pictures: over {} s of a run that streams; slow picture: 99 of 100 came sooner", args.seconds));
    // It has said what it was asked to, or is stopped with its server.
    drop(server);
    Ok(())
}

fn remembered(args: &ViewerArgs, folder: &Path, browser: &mut Browser, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let frames = args.hour.max(SLICES);
    let server = finished(folder.path(), frames)?;
    let slices: Vec<usize> = (1..=SLICES).map(|slice| frames / SLICES * slice).collect();
    for (name, page) in PAGES {
        let command =
            json!({ "do": "memory", "server": server.origin, "run": server.run, "page": page, "slices": slices });
        browser.tell(&command)?;
        let mut heaps = Vec::new();
        for slice in &slices {
            let held: Held = browser.0.hear()?;
            let row = format!("{name}, {slice} frames");
            report.add(&row, ("heap, MiB", 0), held.heap / 1024.0 / 1024.0);
            report.add(&row, ("elements", 0), held.nodes);
            heaps.push(held.heap);
        }
        let grown = heaps[SLICES - 1] - heaps[0];
        let more = (slices[SLICES - 1] - slices[0]) as f64;
        report.add(name, ("bytes a frame", 0), grown / more);
        report.ratio(&format!("{name}: heap at the end, to that at a sixth"), heaps[SLICES - 1] / heaps[0]);
    }
    report.note(format!(
        "heap: of {frames} frames, as many as 500 a second make in {:.0} min, read at full speed; behind a collection",
        frames as f64 / 500.0 / 60.0
    ));
    report.note("bytes a frame: what the heap grew by from the first slice to the last");
    server.process.finish()
}

/// A server that a page can be of.
struct Served {
    process: ChildProcess,
    origin: String,
    stream: String,
    run: String,
}

impl Served {
    fn start(args: &ServeArgs) -> anyhow::Result<Served> {
        let ServerProcess { process, at } = ServerProcess::start(args)?;
        let run = at.sse.split('/').nth(3).context("a stream's address names its run")?.to_owned();
        Ok(Served { process, origin: format!("http://{}", at.address), stream: at.sse, run })
    }
}

fn finished(folder: &Path, frames: usize) -> anyhow::Result<Served> {
    Served::start(&ServeArgs { folder: folder.to_owned(), frames, ..ServeArgs::of(Part::Finished) })
}

/// The program that drives Chromium.
struct Browser(ChildProcess);

impl Browser {
    /// `None` when there is no browser, which is said on stderr and in the report.
    fn start(report: &mut Report) -> anyhow::Result<Option<Browser>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        if !folder.join("../../tests/real/node_modules/.runwire-browser").is_file() {
            let lacking = "BROWSER MISSING: the viewer is not measured (run tests/real/setup.sh)";
            eprintln!("runwire-bench: {lacking}");
            report.note(lacking);
            return Ok(None);
        }
        let mut command = Command::new("node");
        command.arg(folder.join("peers/viewer.mjs"));
        Ok(Some(Browser(ChildProcess::run(command)?)))
    }

    fn tell(&mut self, command: &Value) -> anyhow::Result<()> {
        self.0.tell(&command.to_string())
    }

    fn ask<T: serde::de::DeserializeOwned>(&mut self, command: &Value) -> anyhow::Result<T> {
        self.tell(command)?;
        self.0.hear().with_context(|| format!("the browser was asked {command}"))
    }
}

#[derive(Deserialize)]
struct Fetched {
    ms: f64,
    bytes: u64,
}

#[derive(Deserialize)]
struct Opened {
    rows: f64,
    whole: f64,
    interactive: f64,
    longest: f64,
    nodes: f64,
}

#[derive(Deserialize)]
struct Animated {
    fps: f64,
    slow: f64,
    rate: f64,
    state: String,
}

#[derive(Deserialize)]
struct Held {
    heap: f64,
    nodes: f64,
}
