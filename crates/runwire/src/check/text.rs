//! What was found, for a person.

use std::io;

use runwire_agui::{Finding, ReportedOutcome, Severity};

use super::Judged;

/// So many findings of a stream are told; a stream that is wrong everywhere says nothing new after them.
const MOST_FINDINGS: usize = 50;

/// Prints each stream: what was found, the runs, the verdict last. `kept` is whether messages and state were built.
pub fn print(judged: &[Judged], kept: bool, out: &mut impl io::Write) -> io::Result<()> {
    for (index, stream) in judged.iter().enumerate() {
        if judged.len() > 1 {
            let gap = if index > 0 { "\n" } else { "" };
            writeln!(out, "{gap}{}", stream.source)?;
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
        let id = run.run_id.as_deref().unwrap_or("(not started)");
        let message = run.message.as_deref().map(|m| format!(": {m}")).unwrap_or_default();
        writeln!(out, "run       {id} ended: {}{message}", run.ending)?;
    }
    let delivered = judgement.stream.delivered;
    if kept {
        writeln!(out, "delivered {delivered} events, {} messages", report.messages.len())?;
    } else {
        writeln!(out, "delivered {delivered} events; messages and state were not built")?;
    }
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

fn print_finding(finding: &Finding, out: &mut impl io::Write) -> io::Result<()> {
    let Finding { rule, severity, message, event, offset, .. } = finding;
    writeln!(out, "{severity:<9} {rule} at event {event}, byte {offset}")?;
    writeln!(out, "          {message}")?;
    if let Some(excerpt) = &finding.excerpt {
        writeln!(out, "  event     {excerpt}")?;
    }
    if let Some(path) = &finding.path {
        writeln!(out, "  at        {path}")?;
    }
    // Advice says both in its message.
    if *severity < Severity::Advice {
        writeln!(out, "  expected  {}", finding.expected)?;
        writeln!(out, "  came      {}", finding.found)?;
    }
    if let Some(earlier) = &finding.contradicts {
        writeln!(out, "  earlier   event {}, byte {}, {}", earlier.event, earlier.offset, earlier.what)?;
    }
    writeln!(out, "  see       {}\n", finding.page)
}
