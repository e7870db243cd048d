//! `consume`: from the bytes of an AG-UI stream to the messages and the state that a client holds, against other
//! clients' libraries.

use std::path::Path;
use std::time::{Duration, Instant};

use ag_ui::Event as PeerEvent;
use ag_ui::client::transport::{SseDecoder as PeerDecoder, decode_events};
use ag_ui::client::{Applier, ChunkNormalizer, Verifier as PeerVerifier};
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use futures_util::{FutureExt as _, StreamExt as _};
use runwire_agui::{Content, Message, Reducer, SseDecoder, StreamEnd};
use serde_json::Value;

use crate::machine;
use crate::peer::{Language, PeerProgram};
use crate::report::{Column, Report, quantile};
use crate::streams::{self, Stream};

const OURS: Column = ("Runwire, ns/event", 0);
const STRICT: Column = ("ag-ui unenforced", 0);
const ENFORCED: Column = ("ag-ui enforced", 0);
const TYPESCRIPT: Column = ("@ag-ui/client", 0);
const PYTHON: Column = ("ag-ui-validate", 0);
const PYTHON_FED: Column = ("ag-ui-validate, fed", 0);

/// What one read from a socket brings at most.
const PIECE: usize = 16 * 1024;

/// The Rust peer's enforcement takes some half a millisecond an event; it is measured in one pass, and on these streams only.
const MOST_ENFORCED: usize = 10_010;

/// What both decoders may hold of one event.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Arguments of the `consume` benchmark.
#[derive(Args)]
pub struct ConsumeArgs {
    /// Measure this recording, a file of Server-Sent Events, in place of the generated streams.
    #[arg(long)]
    recording: Option<std::path::PathBuf>,
    /// Measure only the streams that have this in their name.
    #[arg(long)]
    only: Option<String>,
    /// Give a peer that is another program this many seconds for one stream; what takes longer is left out, and said.
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Leave the peers that are other programs out.
    #[arg(long)]
    rust_only: bool,
}

/// What a client holds in the end, in numbers that every client can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    messages: usize,
    /// Of the text of all messages and the arguments of all tool calls, in Unicode characters.
    characters: usize,
}

/// One round over all streams.
///
/// # Errors
/// When a stream is not consumed, or two clients do not come to the same.
pub fn round(args: &ConsumeArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let mut per_event = Vec::new();
    let wanted = |stream: &Stream| args.only.as_ref().is_none_or(|only| stream.name.contains(only));
    for stream in streams(args)?.into_iter().filter(wanted) {
        let (ours, held) = take_turns(&stream, report)?;
        let events = stream.events.len();
        report.add(&stream.name, OURS, ours * 1e9 / events as f64);
        per_event.push((stream.name.clone(), ours / events as f64));
        if !args.rust_only {
            others(args, folder, &stream, held, ours, report)?;
        }
    }
    if args.recording.is_none() {
        let of = |wanted: &str| per_event.iter().find(|(name, _)| name == wanted).map(|(_, seconds)| *seconds);
        if let (Some(short), Some(long)) = (of("10,000 deltas"), of("200,000 deltas")) {
            report.ratio("Runwire, an event of 200,000 deltas to one of 10,000 (1 is linear)", long / short);
        }
    }
    report.note(
        "ns/event: processor time from SSE bytes, in pieces of 16 KiB, to messages and state; median of several passes",
    );
    report.note("ag-ui unenforced: its decoder, strict types, chunk normaliser, verifier and applier, called directly");
    report.note("ag-ui enforced: the same behind its decode_events, which drops and strips as the protocol asks");
    report.note("ag-ui-validate checks and builds no messages; fed: without its reader of Server-Sent Events");
    Ok(())
}

fn streams(args: &ConsumeArgs) -> anyhow::Result<Vec<Stream>> {
    if let Some(path) = &args.recording {
        let bytes = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut decoder = SseDecoder::new(MAX_EVENT_BYTES);
        let read = decoder.push(&bytes).into_iter();
        let events = read.map(|event| anyhow::Ok(serde_json::from_str::<Value>(&event?.data)?));
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        return Ok(vec![Stream::new(name, events.collect::<anyhow::Result<_>>()?)]);
    }
    Ok(vec![
        streams::deltas(10_000),
        streams::deltas(20_000),
        streams::deltas(100_000),
        streams::deltas(200_000),
        streams::chunks(100_000),
        streams::short_messages(2_500),
        streams::short_messages(25_000),
        streams::long_arguments(10_000),
        streams::long_arguments(100_000),
        streams::big_state(2_000),
        streams::many_messages(500),
        streams::many_messages(5_000),
    ])
}

/// Runwire and the Rust peer in turns, so that both meet the same disturbances. Gives Runwire's seconds and what it held.
fn take_turns(stream: &Stream, report: &mut Report) -> anyhow::Result<(f64, Held)> {
    let (mut ours, mut strict) = (Vec::new(), Vec::new());
    let started = Instant::now();
    let mut refused = None;
    let mut held = None;
    // Some of the streams are short: enough passes that the median means something.
    while ours.len() < 5 || started.elapsed() < Duration::from_millis(500) && ours.len() < 200 {
        let (seconds, reducer) = timed(|| consume(stream))?;
        let made = held_by(&reducer);
        ours.push(seconds);
        held = Some(made);
        if refused.is_some() {
            continue;
        }
        match timed(|| peer_strict(stream)) {
            Ok((seconds, peer)) => {
                same("ag-ui", stream, made, peer.held()?)?;
                strict.push(seconds);
            }
            Err(error) => refused = Some(error),
        }
    }
    let (ours, held) = (median(ours), held.context("at least one pass was made")?);
    if let Some(error) = refused {
        report.note(format!("{}: ag-ui refuses the stream: {error:#}", stream.name));
        return Ok((ours, held));
    }
    let strict = median(strict);
    let events = stream.events.len();
    report.add(&stream.name, STRICT, strict * 1e9 / events as f64);
    report.ratio(&format!("{}: times ag-ui unenforced", stream.name), strict / ours);
    if events <= MOST_ENFORCED {
        let (enforced, peer) = timed(|| peer_enforced(stream))?;
        same("ag-ui enforced", stream, held, peer.held()?)?;
        report.add(&stream.name, ENFORCED, enforced * 1e9 / events as f64);
        report.ratio(&format!("{}: times ag-ui enforced", stream.name), enforced / ours);
    }
    Ok((ours, held))
}

fn same(peer: &str, stream: &Stream, ours: Held, theirs: Held) -> anyhow::Result<()> {
    ensure!(ours == theirs, "{}: Runwire holds {ours:?}, {peer} {theirs:?}", stream.name);
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// The processor time of this thread that the work takes, so that others on the machine do not count.
fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let started = machine::thread_seconds();
    let made = work()?;
    Ok((machine::thread_seconds() - started, made))
}

/// As an application would with this crate: decode, enforce, expand, verify, reduce.
fn consume(stream: &Stream) -> anyhow::Result<Reducer> {
    let mut decoder = SseDecoder::new(MAX_EVENT_BYTES);
    let mut consumer = runwire_agui::Consumer::default();
    let mut reducer = Reducer::new();
    for piece in stream.sse.chunks(PIECE) {
        let mut events = decoder.read(piece);
        while let Some(event) = events.next() {
            consumer.reduce(event?.data, &mut reducer)?;
        }
    }
    if let Some(warning) = consumer.take_warnings().first() {
        bail!("event {} of {}: {}", warning.event, stream.name, warning.message);
    }
    match consumer.finish() {
        StreamEnd::Completed { .. } => {}
        other => bail!("{}: the stream ended as {other:?}", stream.name),
    }
    Ok(reducer)
}

fn held_by(reducer: &Reducer) -> Held {
    let (mut messages, mut characters) = (0, 0);
    for message in reducer.messages() {
        messages += 1;
        characters += match message {
            Message::Developer(message) => message.content.chars().count(),
            Message::System(message) => message.content.chars().count(),
            Message::Assistant(message) => message.content.as_deref().unwrap_or_default().chars().count(),
            Message::User(message) => content_characters(&message.content),
            Message::Tool(message) => content_characters(&message.content),
            Message::Activity(_) => 0,
            // The Rust peer keeps reasoning apart from the messages.
            Message::Reasoning(_) => {
                messages -= 1;
                0
            }
        };
        characters += message.tool_calls().iter().map(|call| call.function.arguments.chars().count()).sum::<usize>();
    }
    Held { messages, characters }
}

fn content_characters(content: &Content) -> usize {
    content.text().chars().count()
}

/// The Rust peer's parts, called directly, without enforcement: its fastest way.
fn peer_strict(stream: &Stream) -> anyhow::Result<PeerPipeline> {
    let mut peer = PeerPipeline::default();
    let mut decoder = PeerDecoder::new().with_max_frame_size(MAX_EVENT_BYTES);
    for piece in stream.sse.chunks(PIECE) {
        decoder.push(piece)?;
        while let Some(frame) = decoder.next_frame()? {
            peer.take(frame.into_event()?)?;
        }
    }
    peer.verifier.finish()?;
    Ok(peer)
}

/// The Rust peer's parts behind its own enforcement.
fn peer_enforced(stream: &Stream) -> anyhow::Result<PeerPipeline> {
    let mut peer = PeerPipeline::default();
    let pieces = futures_util::stream::iter(stream.sse.chunks(PIECE).map(Ok::<_, std::io::Error>));
    let mut events = std::pin::pin!(decode_events(pieces));
    // All bytes are there, so nothing ever waits.
    while let Some(event) = events.next().now_or_never().context("ag-ui waits for bytes that are there")? {
        peer.take(event?)?;
    }
    peer.verifier.finish()?;
    Ok(peer)
}

#[derive(Default)]
struct PeerPipeline {
    normalizer: ChunkNormalizer,
    verifier: PeerVerifier,
    applier: Applier,
    expanded: Vec<PeerEvent>,
}

impl PeerPipeline {
    fn take(&mut self, event: PeerEvent) -> anyhow::Result<()> {
        self.normalizer.normalize(event, &mut self.expanded)?;
        for event in self.expanded.drain(..) {
            self.verifier.verify(&event)?;
            self.applier.apply(&event)?;
        }
        Ok(())
    }

    fn held(&self) -> anyhow::Result<Held> {
        let mut held = Held { messages: 0, characters: 0 };
        for message in self.applier.messages() {
            held.messages += 1;
            let json = serde_json::to_value(message)?;
            held.characters += json["content"].as_str().unwrap_or_default().chars().count();
            let calls = json["toolCalls"].as_array().map(Vec::as_slice).unwrap_or_default();
            let arguments = calls.iter().filter_map(|call| call["function"]["arguments"].as_str());
            held.characters += arguments.map(|arguments| arguments.chars().count()).sum::<usize>();
        }
        Ok(held)
    }
}

/// The peers that are other programs.
fn others(
    args: &ConsumeArgs,
    folder: &Path,
    stream: &Stream,
    held: Held,
    ours: f64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let patience = Duration::from_secs(args.patience);
    let events = stream.events.len() as f64;
    let sse = tempfile::Builder::new().suffix(".sse").tempfile_in(folder)?;
    std::fs::write(sse.path(), &stream.sse)?;
    let peers = [
        (Language::TypeScript, "consume.mjs", TYPESCRIPT, "@ag-ui/client"),
        (Language::Python, "consume.py", PYTHON, "ag-ui-validate"),
    ];
    for (language, script, column, name) in peers {
        let Some(peer) = PeerProgram::find(language, script, report) else { continue };
        match peer.run(sse.path(), patience)? {
            None => {
                report.note(format!("{}: {name} was not done after {} s", stream.name, args.patience));
            }
            Some(told) => {
                let seconds = told["seconds"].as_f64().context("a peer program tells its seconds")?;
                if language == Language::TypeScript {
                    let count = |key: &str| told[key].as_u64().unwrap_or_default() as usize;
                    let theirs = Held { messages: count("messages"), characters: count("characters") };
                    same(name, stream, held, theirs)?;
                } else if let Some(finding) = told["error"].as_str() {
                    report.note(format!("{}: {name} objects: {finding}", stream.name));
                }
                report.add(&stream.name, column, seconds * 1e9 / events);
                report.ratio(&format!("{}: times {name}", stream.name), seconds / ours);
                if let Some(fed) = told["fed"].as_f64() {
                    report.add(&stream.name, PYTHON_FED, fed * 1e9 / events);
                    report.ratio(&format!("{}: times {name}, fed", stream.name), fed / ours);
                }
            }
        }
    }
    Ok(())
}
