//! `runwire demo`: the whole of it in a few seconds, over real HTTP.

use std::io::{self, Write as _};
use std::time::Instant;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use runwire_client::{CreateRun, Followed, RunFilter, Server};
use runwire_frame::{Data, Frame, Usage};
use serde_json::json;

use crate::cli::DemoArgs;
use crate::config::{Settings, demo_agent};
use crate::exit::Exit;
use crate::printer::{Printer, Style, tokens};
use crate::{exit, signals, start};

/// What the follower counted.
#[derive(Default)]
struct Seen {
    frames: u64,
    bytes: usize,
    last_seq: u64,
    cut_after: Option<u64>,
    resumed_at: Option<u64>,
    usage: Vec<Usage>,
}

/// Serves, runs, follows, cuts, resumes, sums up; then serves on.
pub async fn run(args: DemoArgs) -> anyhow::Result<Exit> {
    let mut settings = Settings::load(None, &args.listen)?;
    settings.agents = vec![demo_agent()];
    let store = settings.store.display().to_string();
    let mut server = start::start(settings).await?;
    let address = format!("http://{}", server.address());
    let client = Server::new(&address, None)?;
    let before = client.runs(&RunFilter { limit: Some(1000), ..RunFilter::default() }).await?.runs.len();

    let printer = Printer::new(io::stdout(), Style::detect());
    let mut show = Show { printer, json: args.json, once: args.once, store };
    show.note(&format!("serving {address}, store {} (SQLite){}", show.store, earlier(before)))?;
    let started = Instant::now();
    let created = client.create_run(&CreateRun::prompt("demo", &args.prompt)).await?;
    let run_id = created.run_id().to_owned();
    let (seen, end) = follow(&client, &run_id, &mut show).await?;
    let seconds = started.elapsed().as_secs_f64();
    let record = client.run(&run_id).await?;
    let missed = record.head() - seen.frames;
    summary(&mut show, &seen, seconds, missed, &run_id, &address)?;
    if missed > 0 || seen.last_seq != record.head() {
        anyhow::bail!("the follower saw {} of {} frames: this must not happen", seen.frames, record.head());
    }
    let result = exit::of_status(record.status()).unwrap_or(end);
    if !args.once {
        show.note("serving on until Ctrl-C")?;
        tokio::select! {
            () = signals::stop_requested() => {}
            error = start::failed(&mut server) => return Err(error),
        }
    }
    server.stop().await?;
    Ok(result)
}

fn earlier(runs: usize) -> String {
    match runs {
        0 => String::new(),
        1 => ", with 1 earlier run in it".to_owned(),
        runs => format!(", with {runs} earlier runs in it"),
    }
}

/// Follows the run, and drops the connection once when the answer has begun.
async fn follow(client: &Server, run_id: &str, show: &mut Show) -> anyhow::Result<(Seen, Exit)> {
    let mut seen = Seen::default();
    let mut stream = client.follow(run_id).start();
    while let Some(followed) = stream.next().await {
        let Followed::Frame { seq, body, frame } = followed? else { continue };
        if seen.cut_after.is_some() && seen.resumed_at.is_none() {
            seen.resumed_at = Some(seq);
            show.headline(&format!("✚ resumed at frame {seq}"))?;
        }
        seen.frames += 1;
        seen.bytes += body.len();
        seen.last_seq = seq;
        show.frame(&frame, &body)?;
        if let Data::RunEnd(end) = &frame.data {
            seen.usage = end.usage.clone().unwrap_or_default();
            return Ok((seen, end.status.into()));
        }
        if seen.cut_after.is_none() && is_middle(&frame) {
            // Dropping the stream closes its connection; the server and the run go on.
            let cursor = stream.cursor();
            drop(stream);
            show.headline(&format!(
                "✂ connection dropped on purpose after frame {cursor}; the run goes on without us"
            ))?;
            seen.cut_after = Some(cursor);
            tokio::time::sleep(std::time::Duration::from_millis(600)).await;
            stream = client.follow(run_id).after(cursor).start();
        }
    }
    anyhow::bail!("the stream ended without run.end")
}

/// The middle of the run, as far as the demo agent is concerned: some way into its answer.
fn is_middle(frame: &Frame) -> bool {
    matches!(&frame.data, Data::TextDelta(delta) if delta.text.contains("words"))
}

fn summary(show: &mut Show, seen: &Seen, seconds: f64, missed: u64, run_id: &str, address: &str) -> anyhow::Result<()> {
    let resumed = seen.resumed_at.context("the run ended before the connection could be dropped")?;
    if show.json {
        let summary = json!({
            "summary": {
                "run_id": run_id, "frames": seen.frames, "bytes": seen.bytes, "seconds": seconds,
                "usage": seen.usage, "resumed_at": resumed, "missed": missed, "server": address,
            }
        });
        println!("{summary}");
        return Ok(());
    }
    show.headline(&format!("{} frames, {} bytes, {seconds:.1} s", seen.frames, seen.bytes))?;
    for usage in &seen.usage {
        let provider = usage.provider.as_deref().unwrap_or("unknown");
        let model = usage.model.as_deref().unwrap_or("unknown");
        show.headline(&format!("{provider}/{model}: {}", tokens(usage)))?;
    }
    let missing = if missed == 0 { "nothing missed".to_owned() } else { format!("{missed} MISSED") };
    show.headline(&format!("resumed at frame {resumed}, {missing}"))?;
    let mut out = io::stdout();
    if show.once {
        // This server is about to go; the run stays.
        let listen = address.trim_start_matches("http://");
        writeln!(out, "\nstart `runwire serve --listen {listen} --store {}` and open next:", show.store)?;
    } else {
        writeln!(out, "\nopen next:")?;
    }
    writeln!(out, "  {address}/runs/{run_id}                                the run as a timeline, in a browser")?;
    writeln!(out, "  curl -N {address}/v2/runs/{run_id}/stream              the run again, frame by frame")?;
    let cut = resumed - 1;
    writeln!(out, "  curl -N '{address}/v2/runs/{run_id}/stream?after={cut}'   from where we came back")?;
    writeln!(out, "  curl -N {address}/v2/runs/{run_id}/agui                the same run as AG-UI events")?;
    writeln!(
        out,
        "  {address}/agui/demo                                    for new HttpAgent({{ url }}) of @ag-ui/client"
    )?;
    writeln!(out, "  {address}/v2/runs                                      every run in the store")?;
    out.flush()?;
    Ok(())
}

/// Shows a run to a person, or its frames to a program.
struct Show {
    printer: Printer<io::Stdout>,
    json: bool,
    /// Whether the server goes when the run has ended.
    once: bool,
    store: String,
}

impl Show {
    fn frame(&mut self, frame: &Frame, body: &[u8]) -> io::Result<()> {
        if self.json {
            let mut out = io::stdout().lock();
            out.write_all(body)?;
            return out.write_all(b"\n");
        }
        self.printer.frame(frame)
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        if self.json {
            eprintln!("runwire: {text}");
            return Ok(());
        }
        self.printer.note(text)
    }

    fn headline(&mut self, text: &str) -> io::Result<()> {
        if self.json {
            eprintln!("runwire: {text}");
            return Ok(());
        }
        self.printer.headline(text)
    }
}
