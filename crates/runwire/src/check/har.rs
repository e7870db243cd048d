//! HAR files: what a browser's network tab saves.

use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use runwire_agui::{CheckError, CheckOptions, Checker, Judgement};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::text::Plain;
use super::{Judged, endpoint};

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Readable<Entry>>,
}

/// A request and its response. Browsers and their extensions leave out, or null, what they do not have, and one entry of
/// that kind must not make the others unreadable.
#[derive(Default, Deserialize)]
struct Entry {
    #[serde(default, deserialize_with = "if_readable")]
    request: Option<Request>,
    #[serde(default, deserialize_with = "if_readable")]
    response: Option<Response>,
    #[serde(default, deserialize_with = "if_readable")]
    timings: Option<Timings>,
}

/// How long the parts of a request took, in milliseconds; -1 where that is not known.
#[derive(Deserialize)]
struct Timings {
    /// From the end of the request to the first byte of the response.
    wait: f64,
    /// From there to its last byte.
    receive: f64,
}

impl Timings {
    /// When the first and the last byte of the response came, counted from the end of the request.
    fn arrival(&self) -> Option<(Duration, Duration)> {
        let span = |milliseconds: f64| Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
        let first = span(self.wait)?;
        Some((first, first.checked_add(span(self.receive)?)?))
    }
}

#[derive(Default, Deserialize)]
struct Request {
    #[serde(default, deserialize_with = "if_readable")]
    method: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    url: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default, deserialize_with = "if_readable")]
    status: Option<i64>,
    #[serde(default, deserialize_with = "if_readable")]
    content: Option<Content>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(default, deserialize_with = "if_readable")]
    mime_type: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    text: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    encoding: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Readable<T> {
    Yes(T),
    No(IgnoredAny),
}

fn if_readable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(member: D) -> Result<Option<T>, D::Error> {
    Ok(match Readable::deserialize(member)? {
        Readable::Yes(value) => Some(value),
        Readable::No(_) => None,
    })
}

/// Why a response is not judged.
#[derive(Debug, thiserror::Error)]
enum Unjudged {
    #[error("it is no entry of a capture")]
    NoEntry,
    #[error("the capture holds no response")]
    NoResponse,
    #[error("the capture does not say of what media type its response is")]
    NoMediaType,
    #[error("it was refused with status {0}")]
    Refused(i64),
    #[error("the capture does not hold the body; save it with content")]
    NoBody,
    #[error("the body is said to be base64, and is not")]
    NotBase64,
    #[error(transparent)]
    Unreadable(#[from] CheckError),
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
    let mut skipped = false;
    let mut without_body = false;
    for (number, entry) in entries.into_iter().enumerate() {
        let mut entry = match entry {
            Readable::Yes(entry) => Some(entry),
            Readable::No(_) => None,
        };
        let request = entry.as_mut().and_then(|entry| entry.request.take());
        let Request { method, url } = request.unwrap_or_default();
        if only.is_some_and(|part| !url.as_deref().is_some_and(|url| url.contains(part))) {
            continue;
        }
        let source = called(method.as_deref(), url.as_deref(), number + 1);
        match entry.ok_or(Unjudged::NoEntry).and_then(|entry| judge_entry(entry, options)) {
            Ok(Some(judgement)) => judged.push(Judged { judgement, source }),
            Ok(None) => {}
            Err(reason) => {
                skipped = true;
                without_body |= matches!(reason, Unjudged::NoBody);
                let line = format!("{name}: {source} is skipped: {reason}");
                eprintln!("runwire: {}", Plain(&line));
            }
        }
    }
    if judged.is_empty() {
        let reason = match (without_body, skipped, only) {
            (true, ..) => "the bodies of its event streams were not saved".to_owned(),
            (false, true, _) => "what may be an event stream in it was skipped".to_owned(),
            (false, false, Some(part)) => {
                format!("none of its {requests} responses is an event stream from a URL with {part}")
            }
            (false, false, None) => format!("none of its {requests} responses is an event stream"),
        };
        bail!("there is nothing to check: {reason}");
    }
    Ok(judged)
}

/// What a stream of a capture is called. One URL is usually asked many times, so the name says which request it was.
fn called(method: Option<&str>, url: Option<&str>, number: usize) -> String {
    let method = method.unwrap_or("a request");
    // A URL that cannot be taken apart may hold a secret anywhere.
    let url = url.and_then(|url| Url::parse(url).ok()).map_or("without a URL".to_owned(), |url| endpoint::named(&url));
    format!("{method} {url} (request {number})")
}

/// Judges the response of an entry; `None` when it is no event stream.
fn judge_entry(entry: Entry, options: &CheckOptions) -> Result<Option<Judgement>, Unjudged> {
    let Response { status, content } = entry.response.ok_or(Unjudged::NoResponse)?;
    let Content { mime_type, text, encoding } = content.ok_or(Unjudged::NoMediaType)?;
    let Some(form) = endpoint::form_of(&mime_type.ok_or(Unjudged::NoMediaType)?) else { return Ok(None) };
    if let Some(status) = status.filter(|status| !(200..300).contains(status)) {
        return Err(Unjudged::Refused(status));
    }
    let text = text.ok_or(Unjudged::NoBody)?;
    let body = match encoding.as_deref() {
        Some("base64") => STANDARD.decode(text).map_err(|_| Unjudged::NotBase64)?,
        _ => text.into_bytes(),
    };
    let mut checker = Checker::new(CheckOptions { form: Some(form), ..options.clone() });
    match entry.timings.and_then(|timings| timings.arrival()) {
        Some((first, last)) => checker.push_between(&body, first, last)?,
        None => checker.push(&body)?,
    }
    Ok(Some(checker.finish()?))
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
