//! Runwire: runs AI agents, or fronts agents that already exist, and delivers every run as a durable, resumable event
//! stream.

mod cancel;
mod check;
mod cli;
mod config;
mod demo;
mod duration;
mod exit;
mod follow;
mod plain;
mod policy;
mod printer;
mod prune;
mod resume;
mod runs;
mod schema;
mod serve;
mod signals;
mod size;
mod start;
mod tail_session;
mod verify_log;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command, RunsCommand};
use crate::exit::Exit;
use crate::plain::SetIn;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Both TLS providers may be compiled in by dependencies; without a choice rustls would refuse to choose.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("runwire: another TLS provider was installed first; going on with that");
    }
    cli::log_to_stderr(&cli.command);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("runwire: the asynchronous runtime cannot be started: {error}");
            return Exit::CouldNot.into();
        }
    };
    let done = runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::run(args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Run(args) => follow::run(args).await,
            Command::Tail(args) => follow::tail(args).await,
            Command::Runs(args) => match args.command {
                Some(RunsCommand::Prune(args)) => prune::run(args).await,
                None => runs::run(args).await,
            },
            Command::Cancel(args) => cancel::run(args).await,
            Command::Resume(args) => resume::run(args).await,
            Command::Schema(args) => schema::run(args),
            Command::Check(args) => check::run(args).await,
            Command::VerifyLog(args) => verify_log::run(args),
        }
    });
    match done {
        Ok(exit) => exit.into(),
        // Whoever reads the output has seen enough, as with `runwire tail … | head`.
        Err(error) if is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            // What a server or a file said stands in it.
            eprintln!("runwire: {}", SetIn(&format!("{error:#}")));
            Exit::CouldNot.into()
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    error.downcast_ref::<std::io::Error>().is_some_and(broken)
}
