//! HAR files: what a browser's network tab saves.

use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use reqwest::Url;
use runwire_agui::proto::Accept;
use runwire_agui::{Answer, CheckError, CheckOptions, Checker, Judgement};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Judged, Streams, endpoint};
use crate::plain::Plain;

/// Base64 with or without the padding at its end: not every tool writes it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Deserialize)]
struct Har<'h> {
    #[serde(borrow)]
    log: Log<'h>,
}

/// Entries are read one by one, because what cannot be read of one says nothing of the others: a string that holds half a
/// character, say, or a number that is out of range.
#[derive(Deserialize)]
struct Log<'h> {
    #[serde(borrow)]
    entries: Vec<&'h RawValue>,
}

/// A request and its response. Browsers and their extensions leave out, or null, what they do not have, and one entry of
/// that kind must not make the others unreadable.
#[derive(Default, Deserialize)]
struct Entry<'h> {
    #[serde(default, deserialize_with = "if_readable")]
    request: Option<Request>,
    #[serde(borrow, default, deserialize_with = "if_readable")]
    response: Option<Response<'h>>,
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
    #[serde(default, deserialize_with = "if_readable")]
    headers: Option<Vec<Header>>,
}

impl Request {
    /// What the request took, when the capture says so.
    fn accept(&self) -> Option<Accept> {
        let accepts = |header: &&Header| header.name.eq_ignore_ascii_case("accept");
        let mut values = self.headers.as_ref()?.iter().filter(accepts).map(|header| header.value.as_str()).peekable();
        values.peek()?;
        Some(Accept::of(values))
    }
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Response<'h> {
    #[serde(default, deserialize_with = "if_readable")]
    status: Option<i64>,
    #[serde(borrow, default, deserialize_with = "if_readable")]
    content: Option<Content<'h>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content<'h> {
    #[serde(default, deserialize_with = "if_readable")]
    mime_type: Option<String>,
    #[serde(borrow, default)]
    text: Option<&'h RawValue>,
    #[serde(default, deserialize_with = "if_readable")]
    encoding: Option<String>,
}

/// The member, if it is what it should be. What it is not is passed over unread.
fn if_readable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(member: D) -> Result<Option<T>, D::Error> {
    let member = <&RawValue>::deserialize(member)?;
    Ok(serde_json::from_str(member.get()).ok())
}

/// Why a response is not judged.
#[derive(Debug, thiserror::Error)]
enum Unjudged {
    #[error("it is no entry of a capture")]
    NoEntry,
    #[error("its entry cannot be read: {0}")]
    BrokenEntry(serde_json::Error),
    #[error("the capture holds no response")]
    NoResponse,
    #[error("the capture does not say of what media type its response is")]
    NoMediaType,
    #[error("it was refused with status {0}")]
    Refused(i64),
    #[error("the capture does not hold the body; save it with content")]
    NoBody,
    #[error("the body is no text: {0}")]
    BrokenBody(serde_json::Error),
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
pub fn judge(name: &str, har: &[u8], options: &CheckOptions, only: Option<&str>) -> anyhow::Result<Streams> {
    let har = har.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(har);
    let Har { log: Log { entries } } =
        serde_json::from_slice(har).context("it begins like a HAR file, but cannot be read as one")?;
    let requests = entries.len();
    let mut judged = Vec::new();
    let mut skipped = false;
    let mut without_body = false;
    let mut one_is_unjudged = false;
    for (number, entry) in entries.into_iter().enumerate() {
        let mut entry: Result<Entry<'_>, Unjudged> = serde_json::from_str(entry.get())
            .map_err(|error| if error.is_data() { Unjudged::NoEntry } else { Unjudged::BrokenEntry(error) });
        let request = entry.as_mut().ok().and_then(|entry| entry.request.take()).unwrap_or_default();
        let accept = request.accept();
        let Request { method, url, .. } = request;
        if only.is_some_and(|part| !url.as_deref().is_some_and(|url| url.contains(part))) {
            continue;
        }
        let source = called(method.as_deref(), url.as_deref(), number + 1);
        match entry.and_then(|entry| judge_entry(entry, accept, options)) {
            Ok(Some(judgement)) => judged.push(Judged { judgement, source }),
            Ok(None) => {}
            Err(reason) => {
                skipped = true;
                without_body |= matches!(reason, Unjudged::NoBody);
                one_is_unjudged |= matches!(
                    reason,
                    Unjudged::Unreadable(CheckError::BeyondReader { .. } | CheckError::TooLarge { .. })
                );
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
    Ok(Streams { judged, one_is_unjudged })
}

/// What a stream of a capture is called. One URL is usually asked many times, so the name says which request it was.
fn called(method: Option<&str>, url: Option<&str>, number: usize) -> String {
    let method = method.unwrap_or("a request");
    // A URL that cannot be taken apart may hold a secret anywhere.
    let url = url.and_then(|url| Url::parse(url).ok()).map_or("without a URL".to_owned(), |url| endpoint::named(&url));
    format!("{method} {url} (request {number})")
}

/// Judges the response of an entry, to a request that took what `accept` says; `None` when it is no event stream.
fn judge_entry(
    entry: Entry<'_>,
    accept: Option<Accept>,
    options: &CheckOptions,
) -> Result<Option<Judgement>, Unjudged> {
    let Response { status, content } = entry.response.ok_or(Unjudged::NoResponse)?;
    let Content { mime_type, text, encoding } = content.ok_or(Unjudged::NoMediaType)?;
    let content_type = mime_type.ok_or(Unjudged::NoMediaType)?;
    let Some(form) = endpoint::form_of(&content_type) else { return Ok(None) };
    if let Some(status) = status.filter(|status| !(200..300).contains(status)) {
        return Err(Unjudged::Refused(status));
    }
    let text: String = serde_json::from_str(text.ok_or(Unjudged::NoBody)?.get())
        .map_err(|error| if error.is_data() { Unjudged::NoBody } else { Unjudged::BrokenBody(error) })?;
    let body = if encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64")) {
        // Some tools break the lines of it.
        let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        BASE64.decode(text).map_err(|_| Unjudged::NotBase64)?
    } else {
        text.into_bytes()
    };
    let mut checker = Checker::new(CheckOptions { form: Some(form), ..options.clone() });
    // A capture that does not say how it was answered says nothing against it.
    let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
    checker.answered(&Answer { status, content_type: &content_type, accept });
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
