//! `runwire run` and `runwire tail`

use std::io::{self, Write as _};

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use runwire_client::{AguiFollowed, CreateRun, Followed, FrameStream, Server, Transport};
use runwire_frame::{Data, Frame, RunStatus};

use crate::cli::{ProtocolArg, RunArgs, ServerArgs, TailArgs, TransportArg};
use crate::exit::{self, Exit};
use crate::printer::{Printer, Style};
use crate::tail_session;

/// The server that the flags name.
pub fn server(args: &ServerArgs) -> anyhow::Result<Server> {
    Ok(Server::new(&args.server, args.token.clone())?)
}

fn transport(arg: TransportArg) -> Transport {
    match arg {
        TransportArg::Sse => Transport::Sse,
        TransportArg::Ws => Transport::WebSocket,
    }
}

/// Starts a run and follows it to its end, or until it waits for an answer.
pub async fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let server = server(&args.server)?;
    let mut create = CreateRun::prompt(args.agent, args.prompt);
    if let Some(session) = args.session {
        create = create.session_id(session);
    }
    let run = server.create_run(&create).await?;
    let frames = server.follow(run.run_id()).transport(transport(args.transport)).start();
    follow_frames(frames, args.server.json, true, None).await
}

/// Follows a run.
pub async fn tail(args: TailArgs) -> anyhow::Result<Exit> {
    let run = match (args.run, args.session) {
        (_, Some(session)) => {
            return tail_session::run(&server(&args.server)?, session, args.after, args.server.json).await;
        }
        (Some(run), None) => run,
        (None, None) => bail!("say which run, or with --session which conversation"),
    };
    if args.protocol == ProtocolArg::Agui && args.transport == TransportArg::Ws {
        bail!("--transport ws: AG-UI is followed by sse; the frame protocol has both");
    }
    let server = server(&args.server)?;
    // Following waits out a server that is away for a while. One that was never there must not be waited for, so the first
    // question is one that fails.
    let record = server.run(&run).await?;
    // With everything read already, what is left to tell is how the run ended.
    let ended = record.status().is_ended().then(|| exit::of_status(record.status())).flatten();
    match args.protocol {
        ProtocolArg::Frame => {
            let after = match &args.after {
                None => 0,
                Some(after) => {
                    after.parse().with_context(|| format!("--after {after}: a frame's `seq` is a number"))?
                }
            };
            let frames = server.follow(run).after(after).transport(transport(args.transport)).start();
            follow_frames(frames, args.server.json, false, ended).await
        }
        ProtocolArg::Agui => follow_events(&server, run, args.after, args.server.json, ended).await,
    }
}

/// `exit` is for a stream that has nothing left to say.
async fn follow_frames(
    mut frames: FrameStream,
    json: bool,
    until_suspended: bool,
    mut exit: Option<Exit>,
) -> anyhow::Result<Exit> {
    let stdout = io::stdout();
    let mut printer = Printer::new(stdout.lock(), Style::detect());
    while let Some(followed) = frames.next().await {
        match followed? {
            Followed::Frame { body, frame, .. } => {
                exit = exit_of(&frame).or(exit);
                if json {
                    let mut out = stdout.lock();
                    out.write_all(&body)?;
                    out.write_all(b"\n")?;
                    out.flush()?;
                } else {
                    printer.frame(&frame)?;
                }
                if until_suspended && exit == Some(Exit::Suspended) {
                    break;
                }
            }
            Followed::Connected { .. } => {}
            Followed::Disconnected { after, reason, retry_in } => {
                eprintln!("runwire: the connection was lost after frame {after} ({reason}); again in {retry_in:?}");
            }
        }
    }
    exit.context("the run's end was not seen")
}

fn exit_of(frame: &Frame) -> Option<Exit> {
    match &frame.data {
        Data::RunEnd(end) => Some(end.status.into()),
        Data::RunStatus(change) if change.status == RunStatus::Suspended => Some(Exit::Suspended),
        _ => None,
    }
}

/// `exit` is for a stream that has nothing left to say.
async fn follow_events(
    server: &Server,
    run: String,
    after: Option<String>,
    json: bool,
    mut exit: Option<Exit>,
) -> anyhow::Result<Exit> {
    let mut events = server.follow_agui(run).last_event_id(after).start();
    while let Some(followed) = events.next().await {
        match followed? {
            AguiFollowed::Event { id, json: event } => {
                let value: serde_json::Value =
                    serde_json::from_str(&event).with_context(|| format!("event {id} is not JSON"))?;
                exit = event_exit(&value).or(exit);
                let mut out = io::stdout().lock();
                if json {
                    writeln!(out, "{event}")?;
                } else {
                    writeln!(out, "{id:>8}  {event}")?;
                }
                out.flush()?;
            }
            AguiFollowed::Connected { .. } => {}
            AguiFollowed::Disconnected { reason, retry_in, .. } => {
                eprintln!("runwire: the connection was lost ({reason}); again in {retry_in:?}");
            }
        }
    }
    exit.context("the run's end was not seen")
}

fn event_exit(event: &serde_json::Value) -> Option<Exit> {
    match (event["type"].as_str()?, event["outcome"]["type"].as_str()) {
        ("RUN_FINISHED", None | Some("success")) => Some(Exit::Done),
        ("RUN_FINISHED", Some("cancelled")) => Some(Exit::Cancelled),
        ("RUN_FINISHED", Some(_)) => Some(Exit::Suspended),
        ("RUN_ERROR", _) => Some(Exit::Failed),
        _ => None,
    }
}
