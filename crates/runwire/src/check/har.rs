//! HAR files: what a browser's network tab saves.

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use runwire_agui::{CheckOptions, Checker};
use serde::Deserialize;

use super::{Judged, endpoint};

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
    response: Response,
}

#[derive(Deserialize)]
struct Request {
    method: String,
    url: String,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    content: Content,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(default)]
    mime_type: String,
    text: Option<String>,
    encoding: Option<String>,
}

/// Whether a document that begins so is a HAR file: an object whose first member is `log`.
pub fn is_capture(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let Some(members) = text.strip_prefix(b"{") else { return false };
    members.trim_ascii_start().starts_with(b"\"log\"")
}

/// Judges each event stream of a HAR file, under its URL.
pub fn judge(name: &str, har: &[u8], options: &CheckOptions, only: Option<&str>) -> anyhow::Result<Vec<Judged>> {
    let har = har.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(har);
    let Har { log: Log { entries } } =
        serde_json::from_slice(har).context("it begins like a HAR file, but cannot be read as one")?;
    let requests = entries.len();
    let mut judged = Vec::new();
    let mut without_body = Vec::new();
    for (number, Entry { request, response: Response { content } }) in entries.into_iter().enumerate() {
        let Some(form) = endpoint::form_of(&content.mime_type) else { continue };
        if only.is_some_and(|part| !request.url.contains(part)) {
            continue;
        }
        // One URL is usually asked many times, so the name says which request it was.
        let url = Url::parse(&request.url).map_or_else(|_| request.url.clone(), |url| endpoint::named(&url));
        let source = format!("{} {url} (request {})", request.method, number + 1);
        let Some(text) = content.text else {
            without_body.push(source);
            continue;
        };
        let body = match content.encoding.as_deref() {
            Some("base64") => STANDARD.decode(text).with_context(|| format!("the body of {source} is not base64"))?,
            _ => text.into_bytes(),
        };
        let mut checker = Checker::new(CheckOptions { form: Some(form), ..options.clone() });
        checker.push(&body).with_context(|| source.clone())?;
        let judgement = checker.finish().with_context(|| source.clone())?;
        judged.push(Judged { judgement, source });
    }
    for source in &without_body {
        eprintln!("runwire: {name} does not hold the body of {source}; save the capture with content");
    }
    if judged.is_empty() {
        let reason = match (without_body.is_empty(), only) {
            (false, _) => "the bodies of its event streams were not saved".to_owned(),
            (true, Some(part)) => format!("none of its {requests} responses is an event stream from a URL with {part}"),
            (true, None) => format!("none of its {requests} responses is an event stream"),
        };
        bail!("there is nothing to check: {reason}");
    }
    Ok(judged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_begins_with_its_log_and_an_event_does_not() {
        for head in ["{\"log\":{", "\u{feff} {\n  \"log\" : {"] {
            assert!(is_capture(head.as_bytes()), "{head}");
        }
        for head in ["", "{", "[{\"log\":1}]", "{\"type\":\"RUN_STARTED\",\"log\":1}", "data: {\"log\":1}"] {
            assert!(!is_capture(head.as_bytes()), "{head}");
        }
    }
}
