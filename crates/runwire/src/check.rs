//! `runwire check`

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use runwire_agui::{Report, ReportedOutcome, RunAgentInput, check};

use crate::cli::{CheckArgs, FormatArg};
use crate::exit::Exit;

/// Says what an AG-UI client would make of a captured stream.
pub async fn run(args: CheckArgs) -> anyhow::Result<Exit> {
    let stream = read(&args.source)?;
    let input = match &args.input {
        Some(path) => {
            let (input, warnings) =
                RunAgentInput::decode(&read(path)?).with_context(|| format!("--input {}", path.display()))?;
            for warning in warnings {
                eprintln!("runwire: --input {}: {warning}", path.display());
            }
            Some(input)
        }
        None => None,
    };
    let report = check(&stream, input).with_context(|| args.source.display().to_string())?;
    let mut out = io::stdout().lock();
    if args.json || args.format == FormatArg::Json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        print(&report, &mut out)?;
    }
    Ok(if matches!(report.outcome, ReportedOutcome::Completed) { Exit::Done } else { Exit::Failed })
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

fn print(report: &Report, out: &mut impl io::Write) -> io::Result<()> {
    for warning in &report.warnings {
        writeln!(out, "warning   {warning}")?;
    }
    for run in &report.runs {
        let id = run.run_id.as_deref().unwrap_or("(not started)");
        let message = run.message.as_deref().map(|m| format!(": {m}")).unwrap_or_default();
        writeln!(out, "run       {id} ended: {}{message}", run.ending)?;
    }
    writeln!(out, "delivered {} events, {} messages", report.events.len(), report.messages.len())?;
    match (&report.outcome, &report.error) {
        (ReportedOutcome::Completed, _) => writeln!(out, "conforms to AG-UI 1.0"),
        (ReportedOutcome::Truncated, _) => {
            writeln!(out, "truncated: the stream ends without RUN_FINISHED or RUN_ERROR; the run has no outcome")
        }
        (ReportedOutcome::Rejected, Some(error)) => {
            writeln!(out, "rejected  at event {} by rule {}: {}", error.event, error.rule.as_str(), error.message)
        }
        (ReportedOutcome::Rejected, None) => writeln!(out, "rejected"),
    }
}
