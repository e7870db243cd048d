//! Runwire's benchmarks: programs that measure, against a named peer in the same run, what the path from an agent's
//! delta to a reader's socket costs, and what reading and writing AG-UI does. What each of them means is said in
//! `docs/benchmarks.md`.
//!
//! Everything happens on loopback, in stores that are thrown away. Servers and crowds of readers are this program again,
//! in processes of their own.

mod agents;
mod append;
mod bare;
mod child;
mod consume;
mod contender;
mod encode;
mod fanout;
mod finished_run;
mod idle;
mod latency;
mod machine;
mod million;
mod peer;
mod read;
mod replay;
mod report;
mod runs;
mod runwire;
mod serve;
mod socket;
mod streams;
mod today;
mod viewer;
mod wire;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use serde_json::json;

use crate::report::Report;

/// Measures Runwire against named peers.
#[derive(Parser)]
#[command(name = "runwire-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// How often everything is measured; more than once gives medians and ranges.
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Where stores are put meanwhile. Default: the system's folder for temporary files.
    #[arg(long, global = true)]
    folder: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Append throughput, against SQLite itself.
    Append(append::AppendArgs),
    /// From a driver's delta to a reader's socket, against a bare server.
    Latency(latency::LatencyArgs),
    /// Many readers of one run, against a bare server.
    Fanout(fanout::FanoutArgs),
    /// A long finished run, against a bare server.
    Replay(replay::ReplayArgs),
    /// AG-UI streams from bytes to messages, against other clients' libraries.
    Consume(consume::ConsumeArgs),
    /// AG-UI events to bytes, against other producers' libraries.
    Encode(encode::EncodeArgs),
    /// What idle readers cost: memory of each, and the latency beside ten thousand.
    Idle(idle::IdleArgs),
    /// A run of a million frames, live and replayed: memory and cost of a frame from its start to its end.
    Million(million::MillionArgs),
    /// Tail, fan-out, resume and append, against what applications stream through today.
    Today(today::TodayArgs),
    /// Short runs from their creation to their end, and runs that wait: what the engine costs beside the store.
    Runs(runs::RunsArgs),
    /// The viewer in Chromium: a long run opened, pictures while a run streams, memory of very many frames.
    Viewer(viewer::ViewerArgs),
    /// All of these, one after the other.
    All,
    /// A server, for the benchmarks themselves.
    #[command(hide = true)]
    Serve(serve::ServeArgs),
    /// A crowd of readers, for the benchmarks themselves.
    #[command(hide = true)]
    Read(read::ReadArgs),
    /// A part of `runs`, for the benchmarks themselves.
    #[command(hide = true)]
    RunsPart(runs::PartArgs),
}

fn main() -> anyhow::Result<()> {
    allow_many_sockets();
    let Cli { command, json, rounds, folder } = Cli::parse();
    let benchmarks = match command {
        Command::Serve(args) => return serve::main(args),
        Command::Read(args) => return read::main(&args),
        Command::RunsPart(args) => return runs::main(&args),
        Command::All => vec![
            Command::Append(defaults()?),
            Command::Latency(defaults()?),
            Command::Fanout(defaults()?),
            Command::Replay(defaults()?),
            Command::Consume(defaults()?),
            Command::Encode(defaults()?),
            Command::Idle(defaults()?),
            Command::Million(defaults()?),
            Command::Today(defaults()?),
            Command::Runs(defaults()?),
            Command::Viewer(defaults()?),
        ],
        one => vec![one],
    };
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    if !json {
        println!("machine: {}", machine::describe());
    }
    let mut reports = Vec::new();
    for benchmark in benchmarks {
        let report = measure(&benchmark, rounds, &folder)?;
        if json {
            reports.push(report.to_json());
        } else {
            report.print();
        }
    }
    if json {
        println!("{:#}", json!({ "machine": machine::describe(), "benchmarks": reports }));
    }
    Ok(())
}

/// The arguments of a benchmark that was given none.
fn defaults<A: clap::Args>() -> anyhow::Result<A> {
    let command = A::augment_args(clap::Command::new("defaults"));
    A::from_arg_matches(&command.get_matches_from(["defaults"])).context("every argument has a default")
}

fn measure(benchmark: &Command, rounds: u32, folder: &std::path::Path) -> anyhow::Result<Report> {
    let mut report = match benchmark {
        Command::Append(_) => Report::new("append", "frames made durable by the store, against SQLite alone"),
        Command::Latency(_) => Report::new("latency", "from a driver's delta to a reader's socket, sync normal"),
        Command::Fanout(_) => Report::new("fanout", "one run to many readers, against a bare axum server"),
        Command::Replay(_) => Report::new("replay", "a finished run from its start, against a bare axum server"),
        Command::Consume(_) => Report::new("consume", "AG-UI streams from bytes to messages, against other clients"),
        Command::Encode(_) => Report::new("encode", "AG-UI events to Server-Sent Events, against other producers"),
        Command::Idle(_) => Report::new("idle", "what idle readers cost, against a bare axum server"),
        Command::Million(_) => Report::new("million", "a run of a million frames from its start to its end"),
        Command::Today(_) => Report::new("today", "the same work, against what applications stream through today"),
        Command::Runs(_) => Report::new("runs", "what the engine costs, against the store alone"),
        Command::Viewer(_) => Report::new("viewer", "the viewer's pages, against the same browser without them"),
        Command::All | Command::Serve(_) | Command::Read(_) | Command::RunsPart(_) => {
            anyhow::bail!("this is no benchmark by itself")
        }
    };
    for _ in 0..rounds {
        let (before, started) = (machine::Usage::now()?, Instant::now());
        match benchmark {
            Command::Append(args) => append::round(args, folder, &mut report)?,
            Command::Latency(args) => latency::round(args, folder, &mut report)?,
            Command::Fanout(args) => fanout::round(args, folder, &mut report)?,
            Command::Replay(args) => replay::round(args, folder, &mut report)?,
            Command::Consume(args) => consume::round(args, folder, &mut report)?,
            Command::Encode(args) => encode::round(args, folder, &mut report)?,
            Command::Idle(args) => idle::round(args, folder, &mut report)?,
            Command::Million(args) => million::round(args, folder, &mut report)?,
            Command::Today(args) => today::round(args, folder, &mut report)?,
            Command::Runs(args) => runs::round(args, folder, &mut report)?,
            Command::Viewer(args) => viewer::round(args, folder, &mut report)?,
            Command::All | Command::Serve(_) | Command::Read(_) | Command::RunsPart(_) => {}
        }
        let seconds = started.elapsed().as_secs_f64();
        let others = machine::Usage::now()?.others_since(before, seconds);
        report.note(format!(
            "a round took {seconds:.0} s, and other processes used {:.0} % of the machine meanwhile",
            others * 100.0
        ));
    }
    Ok(report)
}

/// A thousand readers need more sockets than a shell usually allows; what cannot be had shows when they connect.
fn allow_many_sockets() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        eprintln!("runwire-bench: the limit of open files stays as it is: {error}");
    }
}
