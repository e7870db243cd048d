//! `runwire check --rules` and `--explain`.

use std::io;

use anyhow::anyhow;
use runwire_agui::{CheckRule, Example, ExampleAnswer, RuleEntry};
use serde_json::{Value, json};

use super::wants_json;
use crate::cli::FormatArg;

/// Lists every rule with its severity and page.
pub fn list(json: bool, format: FormatArg, out: &mut impl io::Write) -> anyhow::Result<()> {
    if wants_json(json, format)? {
        let rules: Vec<Value> = CheckRule::all().map(described).collect();
        writeln!(out, "{}", Value::from(rules))?;
        return Ok(());
    }
    let width = CheckRule::all().map(|rule| rule.as_str().len()).max().unwrap_or_default();
    for rule in CheckRule::all() {
        writeln!(out, "{:<10}  {rule:<width$}  {}", rule.severity(), rule.entry().url())?;
    }
    Ok(())
}

/// Explains the rule of that name.
pub fn explain(name: &str, json: bool, format: FormatArg, out: &mut impl io::Write) -> anyhow::Result<()> {
    let as_json = wants_json(json, format)?;
    let rule: CheckRule = name.parse().map_err(|error| {
        let distance = |rule: &CheckRule| strsim::damerau_levenshtein(rule.as_str(), name);
        // What is far from all of them is no slip of the finger.
        let nearest = CheckRule::all().min_by_key(distance).filter(|rule| 2 * distance(rule) <= name.len());
        let hint = nearest.map(|rule| format!("; did you mean '{rule}'?")).unwrap_or_default();
        anyhow!("{error}{hint} (--rules lists all)")
    })?;
    if as_json {
        writeln!(out, "{}", described(rule))?;
        return Ok(());
    }
    let entry @ RuleEntry { statement, example, .. } = rule.entry();
    writeln!(out, "{rule} ({})\n\n{statement}\n{}", rule.severity(), entry.url())?;
    let (bad, good) = match example {
        Example::Stream { bad, good } => (bad.to_owned(), good.to_owned()),
        Example::Answer { input, bad, good } => {
            writeln!(out, "\nIn answer to the run input:\n{}", indented(input))?;
            (bad.to_owned(), good.to_owned())
        }
        Example::Input { bad, good } => {
            writeln!(out, "\nThis is about run inputs (--input), not about streams.")?;
            (bad.to_owned(), good.to_owned())
        }
        Example::Verified { bad, good } => {
            writeln!(out, "\nA check finds something else first; programs that use the verifier by itself find this.")?;
            (bad.to_owned(), good.to_owned())
        }
        Example::Frames { bad, good } => (bad.escape_ascii().to_string(), good.escape_ascii().to_string()),
        Example::Answered { bad, good } => (exchange(bad), exchange(good)),
        Example::Timed { bad, good } => (timed(bad), timed(good)),
    };
    writeln!(out, "\nThis breaks it:\n{}\n\nThis does not:\n{}", indented(&bad), indented(&good))?;
    Ok(())
}

fn described(rule: CheckRule) -> Value {
    let entry = rule.entry();
    let mut described = json!({
        "rule": rule,
        "severity": rule.severity(),
        "statement": entry.statement,
        "page": entry.url(),
    });
    let (bad, good) = match entry.example {
        Example::Stream { bad, good } | Example::Input { bad, good } | Example::Verified { bad, good } => {
            (bad.into(), good.into())
        }
        Example::Answer { input, bad, good } => {
            described["input"] = input.into();
            (bad.into(), good.into())
        }
        Example::Frames { bad, good } => (hexadecimal(bad), hexadecimal(good)),
        Example::Answered { bad, good } => (answer(bad), answer(good)),
        Example::Timed { bad, good } => (arrivals(bad), arrivals(good)),
    };
    described["bad"] = bad;
    described["good"] = good;
    described
}

fn arrivals(pieces: &[(u64, &str)]) -> Value {
    pieces.iter().map(|(at, bytes)| json!({ "at_ms": at, "bytes": bytes })).collect()
}

fn answer(answer: ExampleAnswer) -> Value {
    let ExampleAnswer { accept, status, content_type, body, left_open } = answer;
    let body = std::str::from_utf8(body).map_or_else(|_| hexadecimal(body), Value::from);
    json!({
        "accept": accept, "status": status, "content_type": content_type, "body": body, "left_open_ms": left_open,
    })
}

fn exchange(answer: ExampleAnswer) -> String {
    let ExampleAnswer { accept, status, content_type, body, left_open } = answer;
    let body = std::str::from_utf8(body).map_or_else(|_| body.escape_ascii().to_string(), str::to_owned);
    let end = match left_open {
        Some(wait) => format!("(not closed for {wait} ms)"),
        None => "(closed)".to_owned(),
    };
    format!("Accept: {accept}\n\nHTTP {status}\nContent-Type: {content_type}\n\n{}\n{end}", body.trim_end())
}

fn hexadecimal(bytes: &[u8]) -> Value {
    json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() })
}

fn timed(pieces: &[(u64, &str)]) -> String {
    let piece = |(at, bytes): &(u64, &str)| format!("after {at} ms\n{}", indented(bytes));
    pieces.iter().map(piece).collect::<Vec<_>>().join("\n")
}

/// The lines of a text, set in; a carriage return is shown, since it is what some rules are about.
fn indented(text: &str) -> String {
    let line = |line: &str| format!("  {}", line.replace('\r', "\\r"));
    text.trim_end_matches('\n').split('\n').map(line).collect::<Vec<_>>().join("\n")
}
