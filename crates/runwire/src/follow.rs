//! `runwire run` and `runwire tail`

use std::io::{self, Write as _};

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use runwire_agui::{RunEnding, StreamEnd};
use runwire_client::{AguiFollowed, CreateRun, Followed, FrameStream, Server, Transport};
use runwire_frame::{Data, Frame, RunStatus};

use crate::cli::{ProtocolArg, RunArgs, ServerArgs, TailArgs, TransportArg};
use crate::exit::{self, Exit};
use crate::plain::Plain;
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
    if let Some(key) = args.idempotency_key {
        create = create.idempotency_key(key);
    }
    let run = server.create_run(&create).await?;
    let frames = server.follow(run.run_id()).transport(transport(args.transport)).start();
    // A run that was there has perhaps been answered since.
    follow_frames(frames, args.server.json, Some(run.head()), None).await
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
    match args.protocol {
        ProtocolArg::Frame => {
            let after = match &args.after {
                None => 0,
                Some(after) => {
                    after.parse().with_context(|| format!("--after {after}: a frame's `seq` is a number"))?
                }
            };
            // With everything read already, what is left to tell is how the run ended.
            let ended = record.status().is_ended().then(|| exit::of_status(record.status())).flatten();
            let frames = server.follow(run).after(after).transport(transport(args.transport)).start();
            follow_frames(frames, args.server.json, None, ended).await
        }
        ProtocolArg::Agui => follow_events(&server, run, args.after, args.server.json).await,
    }
}

/// Stops where the run waits for an answer, in a frame that is not before `waits_from`. `exit` is for a stream that has
/// nothing left to say.
pub(crate) async fn follow_frames(
    mut frames: FrameStream,
    json: bool,
    waits_from: Option<u64>,
    mut exit: Option<Exit>,
) -> anyhow::Result<Exit> {
    let stdout = io::stdout();
    let mut printer = Printer::new(stdout.lock(), Style::detect());
    while let Some(followed) = frames.next().await {
        match followed? {
            Followed::Frame { body, frame, .. } => {
                let here = exit_of(&frame);
                exit = here.or(exit);
                if json {
                    let mut out = stdout.lock();
                    out.write_all(&body)?;
                    out.write_all(b"\n")?;
                    out.flush()?;
                } else {
                    printer.frame(&frame)?;
                }
                if here == Some(Exit::Suspended) && waits_from.is_some_and(|head| frame.seq >= head) {
                    break;
                }
            }
            Followed::Connected { .. } => {}
            Followed::Disconnected { after, reason, retry_in } => {
                eprintln!(
                    "runwire: the connection was lost after frame {after} ({}); again in {retry_in:?}",
                    Plain(&reason.to_string())
                );
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

/// Prints what conforms, warnings beside it, and says which of the ways of ending it was: one exit code each.
async fn follow_events(server: &Server, run: String, after: Option<String>, json: bool) -> anyhow::Result<Exit> {
    let mut events = server.follow_agui(run).last_event_id(after).start();
    let mut any = false;
    while let Some(followed) = events.next().await {
        let followed = match followed {
            Ok(followed) => followed,
            // Whatever the reason is, the run that was shown so far has no ending.
            Err(error) if any => {
                eprintln!("runwire: {}", Plain(&error.to_string()));
                eprintln!("runwire: the stream is cut short, which says nothing about how the run ended");
                return Ok(Exit::Truncated);
            }
            Err(error) => return Err(error.into()),
        };
        match followed {
            AguiFollowed::Events { id, events, warnings, .. } => {
                for warning in warnings {
                    eprintln!(
                        "runwire: warning at {}: {} ({})",
                        Plain(&id),
                        Plain(&warning.message),
                        warning.rule.as_str()
                    );
                }
                let mut out = io::stdout().lock();
                for event in events {
                    any = true;
                    let event = event.to_json_string();
                    if json {
                        writeln!(out, "{event}")?;
                    } else {
                        writeln!(out, "{:>8}  {}", Plain(&id).to_string(), Plain(&event))?;
                    }
                }
                out.flush()?;
            }
            AguiFollowed::Connected { .. } => {}
            AguiFollowed::Disconnected { reason, retry_in, .. } => {
                eprintln!("runwire: the connection was lost ({}); again in {retry_in:?}", Plain(&reason.to_string()));
            }
            AguiFollowed::Ended(end) => return ended(&end),
        }
    }
    bail!("the run's end was not seen")
}

/// Three things that must not be taken for one another: how a run ended by its own word, a stream that breaks a rule of
/// AG-UI, and one that stops short.
fn ended(end: &StreamEnd) -> anyhow::Result<Exit> {
    match end {
        StreamEnd::Completed { runs } => {
            let last = runs.last().context("the stream holds no run")?;
            Ok(match &last.ending {
                RunEnding::Success => Exit::Done,
                RunEnding::Interrupt => Exit::Suspended,
                RunEnding::Cancelled => Exit::Cancelled,
                RunEnding::Failed { message, .. } => {
                    eprintln!("runwire: the run failed: {}", Plain(message));
                    Exit::Failed
                }
                RunEnding::Truncated => Exit::Truncated,
            })
        }
        StreamEnd::Rejected { violation, .. } => {
            eprintln!("runwire: the stream breaks a rule of AG-UI and was rejected: {}", Plain(&violation.to_string()));
            Ok(Exit::Rejected)
        }
        StreamEnd::Truncated { truncation, .. } => {
            eprintln!("runwire: {}", Plain(&truncation.to_string()));
            eprintln!("runwire: the stream is cut short, which says nothing about how the run ended");
            Ok(Exit::Truncated)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use runwire_agui::Consumer;

    use super::*;

    const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;

    fn exit_of_stream(rest: &[&str]) -> Exit {
        let mut consumer = Consumer::default();
        for event in [STARTED].iter().chain(rest) {
            let _ = consumer.push_json(event.as_bytes());
        }
        ended(&consumer.finish()).unwrap()
    }

    /// events/lifecycle, "Error Handling": a violation and a reported failure are not presented as one another, and a
    /// truncated run as neither.
    #[test]
    fn each_way_of_ending_has_its_own_exit_code() {
        let finished =
            |outcome: &str| format!(r#"{{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{outcome}}}"#);
        let cases = [
            (vec![finished(r#"{"type":"success"}"#)], Exit::Done),
            (vec![r#"{"type":"RUN_ERROR","message":"it broke"}"#.to_owned()], Exit::Failed),
            (vec![finished(r#"{"type":"cancelled"}"#)], Exit::Cancelled),
            (vec![finished(r#"{"type":"interrupt","interrupts":[{"id":"i","reason":"x"}]}"#)], Exit::Suspended),
            (vec![r#"{"type":"STEP_FINISHED","stepName":"s"}"#.to_owned()], Exit::Rejected),
            (vec![], Exit::Truncated),
        ];
        let mut codes = std::collections::HashSet::new();
        for (rest, exit) in cases {
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            assert_eq!(exit_of_stream(&rest), exit, "{rest:?}");
            assert!(codes.insert(exit as u8));
        }
    }
}
