//! What was found, as SARIF 2.1.0.

use std::collections::BTreeMap;
use std::path::Path;

use runwire_agui::{CheckRule, Finding, Severity};
use serde_json::{Map, Value, json};

use super::Judged;

/// One run of the tool over all streams.
pub fn document(judged: &[Judged]) -> Value {
    let mut rules: Vec<CheckRule> =
        judged.iter().flat_map(|stream| stream.judgement.findings.iter().map(|finding| finding.rule)).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Value> = judged
        .iter()
        .flat_map(|stream| stream.judgement.findings.iter().map(|finding| result(finding, &stream.source, &rules)))
        .collect();
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "runwire check",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| descriptor(*rule)).collect::<Vec<_>>(),
            }},
            "artifacts": artifacts(judged),
            "results": results,
        }],
    })
}

/// Each source once. One that gave several streams of different lengths has no length of its own.
fn artifacts(judged: &[Judged]) -> Vec<Value> {
    let mut lengths: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for stream in judged {
        let length = Some(stream.judgement.stream.bytes);
        lengths
            .entry(uri(&stream.source))
            .and_modify(|known| *known = known.filter(|_| *known == length))
            .or_insert(length);
    }
    let artifact = |(uri, length): (String, Option<u64>)| {
        let mut artifact = json!({ "location": { "uri": uri } });
        if let Some(length) = length {
            artifact["length"] = length.into();
        }
        artifact
    };
    lengths.into_iter().map(artifact).collect()
}

fn descriptor(rule: CheckRule) -> Value {
    let entry = rule.entry();
    json!({
        "id": rule.as_str(),
        "shortDescription": { "text": entry.statement },
        "helpUri": entry.url(),
        "defaultConfiguration": { "level": level(rule.severity()) },
        "properties": { "severity": rule.severity().as_str() },
    })
}

fn result(finding: &Finding, source: &str, rules: &[CheckRule]) -> Value {
    let uri = uri(source);
    let mut region = json!({ "byteOffset": finding.offset, "byteLength": finding.length });
    if let Some(excerpt) = &finding.excerpt {
        region["snippet"] = json!({ "text": excerpt });
    }
    let location =
        |region: Value| json!({ "physicalLocation": { "artifactLocation": { "uri": &uri }, "region": region } });
    let mut properties = Map::new();
    // Several streams of a capture may have one URL.
    properties.insert("source".to_owned(), source.into());
    properties.insert("event".to_owned(), finding.event.into());
    properties.insert("expected".to_owned(), finding.expected.as_str().into());
    properties.insert("found".to_owned(), finding.found.as_str().into());
    if let Some(path) = &finding.path {
        properties.insert("path".to_owned(), path.as_str().into());
    }
    let mut result = json!({
        "ruleId": finding.rule.as_str(),
        "ruleIndex": rules.iter().position(|rule| *rule == finding.rule),
        "level": level(finding.severity),
        "message": { "text": finding.message },
        "locations": [location(region)],
        "properties": properties,
    });
    if let Some(earlier) = &finding.contradicts {
        let mut related = location(json!({ "byteOffset": earlier.offset }));
        related["id"] = 1.into();
        related["message"] = json!({ "text": format!("Event {} {}.", earlier.event, earlier.what) });
        result["relatedLocations"] = json!([related]);
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Violation | Severity::Truncation => "error",
        Severity::Warning => "warning",
        Severity::Advice => "note",
    }
}

/// A source as a URI reference: a URL as it is, a file by its path.
fn uri(source: &str) -> String {
    // A stream of a capture is named by its method and URL.
    let url = source.split(' ').find(|word| word.starts_with("http://") || word.starts_with("https://"));
    if let Some(url) = url {
        return url.to_owned();
    }
    let mut uri = String::new();
    if Path::new(source).is_absolute() {
        uri.push_str("file://");
    }
    for byte in source.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_uri_reference() {
        assert_eq!(uri("captures/my run.sse"), "captures/my%20run.sse");
        assert_eq!(uri("/tmp/ü.sse"), "file:///tmp/%C3%BC.sse");
        assert_eq!(uri("https://example.com/a"), "https://example.com/a");
        assert_eq!(uri("POST https://example.com/a (request 3)"), "https://example.com/a");
        assert_eq!(uri("-"), "-");
    }
}
