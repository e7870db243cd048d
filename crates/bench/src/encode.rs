//! `encode`: from an AG-UI event to the bytes that are sent, against other producers' libraries.

use std::path::Path;
use std::time::{Duration, Instant};

use ag_ui::encode::sse::SseFormatter;
use anyhow::Context as _;
use clap::Args;
use runwire_agui::{Event, SseEncoder};

use crate::machine::thread_seconds;
use crate::peer::{Language, PeerProgram};
use crate::report::{Column, Report, quantile};
use crate::streams::{self, Stream};

const OURS: Column = ("Runwire, ns/event", 0);
const RUST: Column = ("ag-ui", 0);
const TYPESCRIPT: Column = ("@ag-ui/encoder", 0);
const PYTHON: Column = ("ag-ui-protocol", 0);

/// Arguments of the `encode` benchmark.
#[derive(Args)]
pub struct EncodeArgs {
    /// Give a peer that is another program this many seconds for one stream; what takes longer is left out, and said.
    #[arg(long, default_value_t = 60)]
    patience: u64,
}

/// One round over all streams.
///
/// # Errors
/// When a stream is not encoded, or a peer's program fails.
pub fn round(args: &EncodeArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let streams = [
        streams::deltas(100_000),
        streams::short_messages(25_000),
        streams::long_arguments(100_000),
        streams::big_state(2_000),
        streams::many_messages(5_000),
    ];
    for stream in streams {
        let ours = in_turns(&stream, report)?;
        let lines = tempfile::Builder::new().suffix(".jsonl").tempfile_in(folder)?;
        std::fs::write(lines.path(), stream.lines())?;
        let peers = [
            (Language::TypeScript, "encode.mjs", TYPESCRIPT, "@ag-ui/encoder"),
            (Language::Python, "encode.py", PYTHON, "ag-ui-protocol"),
        ];
        for (language, script, column, name) in peers {
            let Some(peer) = PeerProgram::find(language, script, report) else { continue };
            let Some(told) = peer.run(lines.path(), Duration::from_secs(args.patience))? else {
                report.note(format!("{}: {name} was not done after {} s", stream.name, args.patience));
                continue;
            };
            let seconds = told["seconds"].as_f64().context("a peer program tells its seconds")?;
            report.add(&stream.name, column, seconds * 1e9 / stream.events.len() as f64);
            report.ratio(&format!("{}: times {name}", stream.name), seconds / ours);
        }
    }
    report.note(
        "ns/event: processor time from an event in memory to one SSE event in a buffer; median of several passes",
    );
    Ok(())
}

/// Runwire and the Rust peer in turns. Gives Runwire's seconds.
fn in_turns(stream: &Stream, report: &mut Report) -> anyhow::Result<f64> {
    let read = |event: &serde_json::Value| Ok(Event::from_value(event.clone())?);
    let ours: Vec<Event> = stream.events.iter().map(read).collect::<anyhow::Result<_>>()?;
    let read = |event: &serde_json::Value| Ok(serde_json::from_value(event.clone())?);
    let theirs: Vec<ag_ui::Event> = stream.events.iter().map(read).collect::<anyhow::Result<_>>()?;
    let (mut our_seconds, mut their_seconds) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    while our_seconds.len() < 5 || begun.elapsed() < Duration::from_millis(500) {
        let started = thread_seconds();
        let mut out = Vec::new();
        for event in &ours {
            SseEncoder::encode_agui(&mut out, None, event);
        }
        our_seconds.push(thread_seconds() - started);
        let started = thread_seconds();
        let mut sent = Vec::new();
        for event in &theirs {
            sent.extend_from_slice(SseFormatter::new().encode_to_string(event)?.as_bytes());
        }
        their_seconds.push(thread_seconds() - started);
        // Members may be in another order, but none may be missing.
        anyhow::ensure!(out.len() == sent.len(), "{}: ag-ui encodes something else", stream.name);
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        quantile(&values, 0.5)
    };
    let (ours, theirs) = (median(our_seconds), median(their_seconds));
    let events = stream.events.len() as f64;
    report.add(&stream.name, OURS, ours * 1e9 / events);
    report.add(&stream.name, RUST, theirs * 1e9 / events);
    report.ratio(&format!("{}: times ag-ui", stream.name), theirs / ours);
    Ok(ours)
}
