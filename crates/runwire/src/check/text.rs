//! What was found, for a person.

use std::fmt::{self, Write as _};
use std::io;

use runwire_agui::{Finding, ReportedOutcome, Severity};

use super::Judged;

/// So many findings of a stream are told; a stream that is wrong everywhere says nothing new after them.
const MOST_FINDINGS: usize = 50;

/// Text that came from outside, on one line: a terminal would obey the control characters in it, so each is a space.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a>(pub &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| formatter.write_char(if c.is_control() { ' ' } else { c }))
    }
}

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
        let id = Plain(run.run_id.as_deref().unwrap_or("(not started)"));
        let message = run.message.as_deref().map(|m| format!(": {}", Plain(m))).unwrap_or_default();
        writeln!(out, "run       {id} ended: {}{message}", run.ending)?;
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

fn print_finding(finding: &Finding, out: &mut impl io::Write) -> io::Result<()> {
    let Finding { rule, severity, message, event, offset, .. } = finding;
    writeln!(out, "{severity:<9} {rule} at event {event}, byte {offset}")?;
    writeln!(out, "          {}", Plain(message))?;
    if let Some(excerpt) = &finding.excerpt {
        writeln!(out, "  event     {}", Plain(excerpt))?;
    }
    if let Some(path) = &finding.path {
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
