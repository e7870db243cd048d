//! What was found, as JUnit's XML: a test suite for each stream.

use std::fmt::Write as _;
use std::io;

use runwire_agui::{Finding, ReportedOutcome, Severity};

use super::Judged;
use super::text::ended;
use crate::plain::Plain;

/// Prints one suite for each stream. It has two cases: the stream keeps the rules, and it is whole. A run that reports its
/// own failure fails neither: the stream of it conforms.
pub fn print(judged: &[Judged], out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    let failures = judged.iter().filter(|stream| !stream.conforms()).count();
    writeln!(out, r#"<testsuites name="runwire check" tests="{}" failures="{failures}">"#, 2 * judged.len())?;
    for stream in judged {
        print_suite(stream, out)?;
    }
    writeln!(out, "</testsuites>")
}

fn print_suite(stream: &Judged, out: &mut impl io::Write) -> io::Result<()> {
    let outcome = stream.judgement.report.outcome;
    let source = escaped(&stream.source);
    let failures = u8::from(outcome != ReportedOutcome::Completed);
    let skipped = u8::from(outcome == ReportedOutcome::Rejected);
    writeln!(out, r#"  <testsuite name="{source}" tests="2" failures="{failures}" errors="0" skipped="{skipped}">"#)?;
    let findings = &stream.judgement.findings;
    let of = |severity| findings.iter().find(|finding| finding.severity == severity);
    writeln!(out, r#"    <testcase classname="{source}" name="keeps the rules of AG-UI 1.0">"#)?;
    if let Some(finding) = of(Severity::Violation) {
        print_failure(finding, out)?;
    }
    writeln!(out, "    </testcase>")?;
    writeln!(out, r#"    <testcase classname="{source}" name="ends each of its runs">"#)?;
    if let Some(finding) = of(Severity::Truncation) {
        print_failure(finding, out)?;
    }
    if skipped == 1 {
        writeln!(out, r#"      <skipped message="the stream was rejected before its end"/>"#)?;
    }
    writeln!(out, "    </testcase>")?;
    let mut told = String::new();
    for finding in findings.iter().filter(|finding| finding.severity > Severity::Truncation) {
        let Finding { severity, rule, event, offset, message, page, .. } = finding;
        // Writing to a string cannot fail.
        let _ = writeln!(told, "{severity} {rule} at event {event}, byte {offset}: {} ({page})", Plain(message));
    }
    for run in &stream.judgement.report.runs {
        let _ = writeln!(told, "run {}", ended(run));
    }
    writeln!(out, "    <system-out>{}</system-out>", escaped(&told))?;
    writeln!(out, "  </testsuite>")
}

fn print_failure(finding: &Finding, out: &mut impl io::Write) -> io::Result<()> {
    let Finding { rule, message, event, offset, expected, found, page, .. } = finding;
    let (expected, found) = (Plain(expected), Plain(found));
    let mut detail = format!("event {event}, byte {offset}\nexpected: {expected}\ncame: {found}\n");
    if let Some(excerpt) = &finding.excerpt {
        let _ = writeln!(detail, "event: {}", Plain(excerpt));
    }
    if let Some(earlier) = &finding.contradicts {
        let _ = writeln!(detail, "earlier: event {}, byte {}, {}", earlier.event, earlier.offset, Plain(&earlier.what));
    }
    let _ = writeln!(detail, "see: {page}");
    let (message, detail) = (escaped(message), escaped(&detail));
    writeln!(out, r#"      <failure type="{rule}" message="{message}">{detail}</failure>"#)
}

/// Text for XML 1.0. What XML cannot hold, not even escaped, becomes the replacement character.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(character),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_replaced_and_the_rest_escaped() {
        assert_eq!(
            escaped("<a b=\"c\">&\u{1}\u{1b}\u{ffff}\n"),
            "&lt;a b=&quot;c&quot;&gt;&amp;\u{fffd}\u{fffd}\u{fffd}\n"
        );
    }
}
