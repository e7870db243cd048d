//! An agent behind a URL, run once to see what it answers.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url, redirect};
use runwire_agui::proto::{self, Accept};
use runwire_agui::{AgentVersion, Answer, CheckOptions, Checker, Form, Outgoing, RunAgentInput, Severity};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::Judged;
use super::source::GivenInput;
use super::text::{MOST_FINDINGS, brief};
use crate::cli::CheckArgs;
use crate::plain::Plain;

/// A host that does not answer a connection by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A run may take so long, unless it is said otherwise.
const RUN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// So much is shown of what an endpoint said when it refused.
const REFUSAL_CHARACTERS: usize = 300;

/// Runs the agent with the input, or with a greeting, and judges its answer as it comes.
pub async fn judge(
    url: &Url,
    input: Option<GivenInput>,
    options: CheckOptions,
    args: &CheckArgs,
) -> anyhow::Result<Judged> {
    let name = named(url);
    // Before anything is sent: an input that no client may send is not.
    let input = match &input {
        Some(given) => prepare(given, options.agent)?,
        None => greeting(options.agent)?,
    };
    let body = serde_json::to_vec(&input)?;
    let options = CheckOptions { input: Some(input), ..options };
    let headers = headers(&args.header)?;
    let accept = Accept::of(headers.get_all(ACCEPT).iter().map(|value| value.to_str().unwrap_or_default()));
    let client = client(url)?;
    let limit = args.timeout.unwrap_or(RUN_TIMEOUT);
    let sent = Instant::now();
    let deadline = sent + limit;
    let request = client.post(url.clone()).headers(headers).body(body).send();
    let mut response = timeout_at(deadline, request)
        .await
        .map_err(|_| anyhow!("{name} did not answer within {} s; --timeout allows more", limit.as_secs_f32()))?
        .map_err(|error| anyhow!(error.without_url()).context(format!("{name} cannot be reached")))?;
    if !response.status().is_success() {
        bail!("{name} refused to run: {}", refusal(response, deadline).await);
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let Some((form, content_type)) =
        content_type.and_then(|content_type| Some((form_of(&content_type)?, content_type)))
    else {
        let said = response.headers().get(CONTENT_TYPE).map_or("no Content-Type".into(), |value| {
            format!("Content-Type {}", String::from_utf8_lossy(value.as_bytes()))
        });
        bail!("{name} answered with {said}, which is no event stream; a client would not read it");
    };
    if let Some(encoding) = encoding_of(response.headers()) {
        bail!(
            "{name} answered with Content-Encoding {encoding}, which was not asked for and is not read; have the agent or \
             its proxy send event streams as they are"
        );
    }
    let mut checker = Checker::new(CheckOptions { form: Some(form), ..options });
    checker.answered(&Answer { status: response.status().as_u16(), content_type: &content_type, accept: Some(accept) });
    // What comes after a violation changes nothing, and a client would not wait for it.
    while !checker.is_rejected() {
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(bytes))) => checker.push_at(&bytes, sent.elapsed()).with_context(|| name.clone())?,
            Ok(Ok(None)) => {
                checker.ended_at(sent.elapsed());
                break;
            }
            Ok(Err(error)) => {
                // A client sees a stream that stopped short, unless its runs have ended.
                let reason = format!("{:#}", anyhow!(error.without_url()));
                eprintln!("runwire: the connection to {name} broke: {}", Plain(&reason));
                checker.ended_at(sent.elapsed());
                break;
            }
            Err(_) if checker.runs_have_ended() => {
                // All that there is to judge has come; that the response has no end is told of it.
                checker.left_at(sent.elapsed());
                break;
            }
            Err(_) => {
                checker.left_at(sent.elapsed());
                return Err(still_going(&name, checker, limit));
            }
        }
    }
    let judgement = checker.finish().with_context(|| name.clone())?;
    Ok(Judged { judgement, source: name })
}

/// What there is to say of a run that has no end yet. What it was warned of stays true of it.
fn still_going(name: &str, checker: Checker, limit: Duration) -> anyhow::Error {
    let events = checker.event_count();
    let findings = checker.finish().map(|judgement| judgement.findings).unwrap_or_default();
    for finding in findings.iter().filter(|finding| finding.severity > Severity::Truncation).take(MOST_FINDINGS) {
        eprintln!("runwire: {}: {}", Plain(name), brief(finding));
    }
    anyhow!(
        "{name} was still going on after {} s and {events} events, none of which breaks a rule; --timeout allows more",
        limit.as_secs_f32()
    )
}

/// The form of a response of that `Content-Type`; `None` when it is no event stream.
pub fn form_of(content_type: &str) -> Option<Form> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("text/event-stream") {
        return Some(Form::Sse);
    }
    essence.eq_ignore_ascii_case(proto::MEDIA_TYPE).then_some(Form::Protobuf)
}

/// How a response is encoded, when that is any way but as it is.
fn encoding_of(headers: &HeaderMap) -> Option<String> {
    let told = headers.get_all(CONTENT_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let told = told.collect::<Vec<_>>().join(", ");
    let codings = told.split(',').map(str::trim).filter(|coding| !coding.is_empty());
    let changed = codings.into_iter().any(|coding| !coding.eq_ignore_ascii_case("identity"));
    changed.then_some(told)
}

/// A URL as it may be shown: without what people put secrets in.
pub fn named(url: &Url) -> String {
    if url.cannot_be_a_base() {
        // Such as data: and blob:, whose rest is one piece.
        return format!("{}:…", url.scheme());
    }
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // These fail only for URLs that cannot have the part.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// The given input as a client of AG-UI 1.0 sends it. What waits on its thread is not known here, so nothing is held
/// against what it answers.
fn prepare(given: &GivenInput, agent: AgentVersion) -> anyhow::Result<RunAgentInput> {
    let input: Value = serde_json::from_slice(&given.bytes)
        .map_err(|error| anyhow!("the run input is not JSON: {error}; nothing was sent"))
        .with_context(|| given.name.clone())?;
    let prepared = Outgoing { agent, ..Outgoing::default() }.prepare(input).with_context(|| given.name.clone())?;
    for warning in prepared.warnings {
        eprintln!("runwire: {}: {}", Plain(&given.name), Plain(&warning.message));
    }
    Ok(prepared.input)
}

/// The smallest input that makes an agent say something. Lists that may be absent are there, because servers from before
/// 1.0 ask for them.
fn greeting(agent: AgentVersion) -> anyhow::Result<RunAgentInput> {
    let id = |kind: &str| format!("{kind}_{}", Uuid::now_v7().simple());
    let input = json!({
        "threadId": id("check"),
        "runId": id("run"),
        "state": {},
        "messages": [{ "id": id("msg"), "role": "user", "content": "Hello" }],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    });
    Ok(Outgoing { agent, ..Outgoing::default() }.prepare(input)?.input)
}

/// The headers of the request: what the binding wants, and what was given, which wins.
fn headers(given: &[String]) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let mut own = HeaderMap::new();
    for line in given {
        // The value is likely to be a secret, so no message repeats it.
        let (name, value) = line.split_once(':').context("a --header is written as 'NAME: VALUE'")?;
        let key = HeaderName::try_from(name.trim()).map_err(|_| anyhow!("--header: '{name}' is no header name"))?;
        let mut value = HeaderValue::try_from(value.trim())
            .map_err(|_| anyhow!("--header: the value of {key} holds what no header can"))?;
        value.set_sensitive(true);
        own.append(key, value);
    }
    headers.extend(own);
    Ok(headers)
}

fn client(url: &Url) -> anyhow::Result<Client> {
    let mut client = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect would carry the headers, which are secret, to another host.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("runwire/", env!("CARGO_PKG_VERSION")));
    let loopback = match url.host_str() {
        Some("localhost") => true,
        Some(host) => host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
        None => false,
    };
    if loopback {
        // No proxy can reach this machine's own loopback, whatever the environment says.
        client = client.no_proxy();
    }
    client.build().context("the HTTP client cannot be made")
}

/// What an endpoint said instead of running: the status, and the beginning of the body.
async fn refusal(mut response: Response, deadline: Instant) -> String {
    let mut said = response.status().to_string();
    if let Some(location) = response.headers().get(LOCATION) {
        let target = location.to_str().ok().and_then(|location| response.url().join(location).ok());
        said.push_str(&target.map_or(", it is elsewhere".to_owned(), |url| format!(", it is at {}", named(&url))));
    }
    let mut body = Vec::new();
    while body.len() < 4 * REFUSAL_CHARACTERS
        && let Ok(Ok(Some(bytes))) = timeout_at(deadline, response.chunk()).await
    {
        body.extend_from_slice(&bytes);
    }
    let text = String::from_utf8_lossy(&body);
    let line: String = text.trim().chars().take(REFUSAL_CHARACTERS).collect();
    if !line.is_empty() {
        said.push_str(&format!(": {line}"));
    }
    said
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_url_is_shown_without_what_may_be_secret_in_it() {
        let url = Url::parse("https://me:secret@example.com/agent?key=secret#secret").unwrap();
        assert_eq!(named(&url), "https://example.com/agent");
        assert_eq!(named(&Url::parse("data:text/event-stream,secret").unwrap()), "data:…");
    }

    #[test]
    fn a_header_that_was_given_takes_the_place_of_the_usual_one_and_may_repeat() {
        let given = ["Accept: application/json", "X-A: 1", "x-a:2"].map(str::to_owned);
        let headers = headers(&given).unwrap();
        assert_eq!(headers.get_all(ACCEPT).iter().collect::<Vec<_>>(), ["application/json"]);
        assert_eq!(headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        let error = super::headers(&["Authorization secret".to_owned()]).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn an_event_stream_is_known_by_its_content_type() {
        assert_eq!(form_of("text/event-stream"), Some(Form::Sse));
        assert_eq!(form_of("Text/Event-Stream; charset=utf-8"), Some(Form::Sse));
        assert_eq!(form_of("application/vnd.ag-ui.event+proto"), Some(Form::Protobuf));
        assert_eq!(form_of("application/json"), None);
    }
}
