//! What was found, for a person.

use std::io;

use runwire_agui::{Finding, ReportedOutcome, ReportedRun, Severity};

use super::Judged;
use crate::plain::{Beginning, Plain};

/// So many findings of a stream are told; a stream that is wrong everywhere says nothing new after them.
pub const MOST_FINDINGS: usize = 50;

/// So many characters of the id of a run are told.
const ID_CHARACTERS: usize = 80;
/// So many characters are told of what a run says of its failure.
const MESSAGE_CHARACTERS: usize = 400;

/// Prints each stream: what was found, the runs, the verdict last. `kept` is whether messages and state were built.
pub fn print(judged: &[Judged], kept: bool, out: &mut impl io::Write) -> io::Result<()> {
    for (index, stream) in judged.iter().enumerate() {
        if judged.len() > 1 {
            let gap = if index > 0 { "\n" } else { "" };
            writeln!(out, "{gap}{}", Plain(&stream.source))?;
        }
        print_stream(stream, kept, out)?;
    }
    Ok(())
}

fn print_stream(stream: &Judged, kept: bool, out: &mut impl io::Write) -> io::Result<()> {
    let judgement = &stream.judgement;
    let report = &judgement.report;
    // A violation comes last in the stream, and must not be what is left out.
    let (grave, light): (Vec<&Finding>, Vec<&Finding>) =
        judgement.findings.iter().partition(|finding| finding.severity <= Severity::Truncation);
    for finding in light.iter().take(MOST_FINDINGS).chain(&grave) {
        print_finding(finding, out)?;
    }
    let untold = light.len().saturating_sub(MOST_FINDINGS) + judgement.stream.untold_warnings;
    if untold > 0 {
        writeln!(out, "… and {untold} more warnings; --format json tells up to 10000\n")?;
    }
    for run in &report.runs {
        writeln!(out, "run       {}", ended(run))?;
    }
    let delivered = judgement.stream.delivered;
    if kept {
        writeln!(out, "delivered {delivered} events, {} messages", report.messages.len())?;
    } else {
        writeln!(
            out,
            "delivered {delivered} events; messages and state were not built (--no-reduce), so patches and targets that do \
             not fit them were not looked for"
        )?;
    }
    match (&report.outcome, &report.error) {
        (ReportedOutcome::Completed, _) => writeln!(out, "conforms to AG-UI 1.0"),
        (ReportedOutcome::Truncated, _) => {
            writeln!(out, "truncated: the stream ends without RUN_FINISHED or RUN_ERROR; the run has no outcome")
        }
        (ReportedOutcome::Rejected, Some(error)) => {
            let message = Plain(&error.message);
            writeln!(out, "rejected  at event {} by rule {}: {message}", error.event, error.rule.as_str())
        }
        (ReportedOutcome::Rejected, None) => writeln!(out, "rejected"),
    }
}

/// How a run ended, on one line.
pub fn ended(run: &ReportedRun) -> String {
    let id = Beginning(run.run_id.as_deref().unwrap_or("(not started)"), ID_CHARACTERS);
    let said = run.message.as_deref().map(|said| format!(": {}", Beginning(said, MESSAGE_CHARACTERS)));
    format!("{id} ended: {}{}", run.ending, said.unwrap_or_default())
}

/// A finding on one line.
pub fn brief(finding: &Finding) -> String {
    let Finding { rule, severity, message, event, .. } = finding;
    format!("{severity} {rule} at event {event}: {}", Plain(message))
}

fn print_finding(finding: &Finding, out: &mut impl io::Write) -> io::Result<()> {
    let Finding { rule, severity, message, event, offset, .. } = finding;
    writeln!(out, "{severity:<9} {rule} at event {event}, byte {offset}")?;
    writeln!(out, "          {}", Plain(message))?;
    if let Some(excerpt) = &finding.excerpt {
        writeln!(out, "  event     {}", Plain(excerpt))?;
    }
    // The empty path is that of the whole event, which is shown already.
    if let Some(path) = finding.path.as_ref().filter(|path| !path.is_empty()) {
        writeln!(out, "  at        {}", Plain(path))?;
    }
    // Advice says both in its message.
    if *severity < Severity::Advice {
        writeln!(out, "  expected  {}", Plain(&finding.expected))?;
        writeln!(out, "  came      {}", Plain(&finding.found))?;
    }
    if let Some(earlier) = &finding.contradicts {
        writeln!(out, "  earlier   event {}, byte {}, {}", earlier.event, earlier.offset, Plain(&earlier.what))?;
    }
    writeln!(out, "  see       {}\n", finding.page)
}
