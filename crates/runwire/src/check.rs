//! `runwire check`: what an AG-UI client would make of a stream, and what its author should know.

mod endpoint;
mod har;
mod junit;
mod rules;
mod sarif;
mod source;
mod text;

use std::io::{self, Write as _};

use anyhow::bail;
use runwire_agui::{Judgement, ReportedOutcome};
use serde::Serialize;

use crate::cli::{CheckArgs, FormatArg};
use crate::exit::Exit;

/// A stream that was judged.
#[derive(Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    judgement: Judgement,
    /// What the stream is called: its file, `-`, or its URL.
    source: String,
}

/// What a source came to.
#[derive(Debug)]
pub struct Streams {
    judged: Vec<Judged>,
    /// Whether there is one more that goes past a limit of this reader: nobody can say whether it conforms.
    one_is_unjudged: bool,
}

impl From<Judged> for Streams {
    fn from(judged: Judged) -> Streams {
        Streams { judged: vec![judged], one_is_unjudged: false }
    }
}

impl Judged {
    fn conforms(&self) -> bool {
        matches!(self.judgement.report.outcome, ReportedOutcome::Completed)
    }
}

/// Judges the streams of a source, or tells the rules.
pub async fn run(args: CheckArgs) -> anyhow::Result<Exit> {
    let out = io::stdout();
    if args.rules {
        rules::list(args.json, args.format, &mut out.lock())?;
        return Ok(Exit::Done);
    }
    if let Some(name) = &args.explain {
        rules::explain(name, args.json, args.format, &mut out.lock())?;
        return Ok(Exit::Done);
    }
    let Streams { judged, one_is_unjudged } = source::judge(&args).await?;
    let mut out = out.lock();
    match args.format {
        _ if args.json => {
            for stream in &judged {
                writeln!(out, "{}", serde_json::to_string(&stream.judgement.report)?)?;
            }
        }
        FormatArg::Json => {
            for stream in &judged {
                writeln!(out, "{}", serde_json::to_string(stream)?)?;
            }
        }
        FormatArg::Text => text::print(&judged, !args.no_reduce, &mut out)?,
        FormatArg::Junit => junit::print(&judged, &mut out)?,
        FormatArg::Sarif => writeln!(out, "{}", sarif::document(&judged))?,
    }
    out.flush()?;
    Ok(match judged.iter().all(Judged::conforms) {
        false => Exit::Failed,
        true if one_is_unjudged => Exit::CouldNot,
        true => Exit::Done,
    })
}

/// Rules are told for people or as JSON; the other formats are about streams.
fn wants_json(json: bool, format: FormatArg) -> anyhow::Result<bool> {
    match format {
        FormatArg::Text => Ok(json),
        FormatArg::Json => Ok(true),
        FormatArg::Junit | FormatArg::Sarif => bail!("rules are told as text or json; junit and sarif are for streams"),
    }
}
