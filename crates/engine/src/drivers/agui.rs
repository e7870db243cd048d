//! `agui`: an agent that exists already, behind an AG-UI endpoint of its own.
//!
//! The upstream agent sees one ordinary AG-UI request, which is held to what a client owes before it is sent. What becomes
//! of its answer is the [`Relay`]'s business.

mod body;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use runwire_agui::{AgentCapabilities, AgentVersion, RunAgentInput};
use runwire_bridge::{ExchangeEnd, Failure};
use runwire_frame::ErrorCode;
use serde_json::json;
use tokio::time::Instant;

pub use self::body::Binding;
use self::body::BodyReader;
use super::relay::{MAX_EVENT_BYTES, Prepared, Relay, broken_rule, retryable_if};
use crate::driver::{Driver, Exchange, Starting};
use crate::outgoing_http::{HttpSetupError, http_address, http_client};
use crate::retry_after::{retry_after, told_retry_after};

/// Who speaks, as it is told.
const WHO: &str = "the upstream agent";

/// How long the end of the stream is waited for once the run has ended in it: a failure may still surface.
const AFTER_END: Duration = Duration::from_secs(1);
/// How long it may take to tell the agent of a stop. The engine's own grace period holds as well.
const CANCEL_PATIENCE: Duration = Duration::from_secs(3);
/// How much of a refusal's body is repeated in the error.
const REFUSAL_BYTES: usize = 1024;

/// Where the upstream agent is, and how to talk to it.
#[derive(Clone, Debug)]
pub struct AguiOptions {
    /// Its AG-UI endpoint: `http://…` or `https://…`.
    pub url: String,
    /// Headers sent with every request, such as `Authorization`.
    pub headers: Vec<(String, String)>,
    /// How long connecting may take. Default 10 s.
    pub connect_timeout: Duration,
    /// How long it may take from the request to the first event; then the run fails with `TIMEOUT`. Default: as long as it may
    /// be silent. Comments are no events.
    pub first_event_timeout: Option<Duration>,
    /// How long the stream may be silent before the run fails with `TIMEOUT`. Default 300 s.
    pub idle_timeout: Duration,
    /// The largest event, in bytes, that is taken, and the most bytes of arguments that one tool call may have. Default
    /// 16 MiB.
    pub max_event_bytes: usize,
    /// The version of AG-UI that it is known to speak. An older one gets inputs that it can read, and no version declared.
    /// Default current, which is right for every agent that nobody knows to be older.
    pub agent_version: AgentVersion,
    /// How it is asked to answer. Default Server-Sent Events.
    pub binding: Binding,
    /// Where it is told that a run was cancelled, beside the end of its connection: by a `POST` of its `threadId` and `runId`
    /// with the same headers. Default: nowhere.
    pub cancel_url: Option<String>,
    /// Whether a run that fails after the agent began to answer may be tried again without harm. Default: no.
    pub idempotent: bool,
    /// What the agent declares about itself; nothing is asked of the upstream agent, as AG-UI has no way to.
    pub capabilities: AgentCapabilities,
}

impl AguiOptions {
    /// The agent at this address, with the defaults.
    pub fn new(url: impl Into<String>) -> AguiOptions {
        AguiOptions {
            url: url.into(),
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            first_event_timeout: None,
            idle_timeout: Duration::from_secs(300),
            max_event_bytes: MAX_EVENT_BYTES,
            agent_version: AgentVersion::default(),
            binding: Binding::default(),
            cancel_url: None,
            idempotent: false,
            capabilities: AgentCapabilities::default(),
        }
    }
}

struct Shared {
    client: reqwest::Client,
    url: reqwest::Url,
    cancel_url: Option<reqwest::Url>,
    options: AguiOptions,
}

/// Fronts an upstream AG-UI agent.
#[derive(Clone)]
pub struct AguiDriver {
    shared: Arc<Shared>,
}

impl AguiDriver {
    /// A driver for this agent. Does not connect yet.
    ///
    /// # Errors
    /// When the address or a header is malformed, or the process has installed no rustls provider.
    pub fn new(options: AguiOptions) -> Result<AguiDriver, HttpSetupError> {
        let url = http_address(&options.url)?;
        let cancel_url = options.cancel_url.as_deref().map(http_address).transpose()?;
        let client = http_client(&url, &options.headers)?
            .connect_timeout(options.connect_timeout)
            .read_timeout(options.idle_timeout)
            .build()?;
        Ok(AguiDriver { shared: Arc::new(Shared { client, url, cancel_url, options }) })
    }
}

impl Driver for AguiDriver {
    fn kind(&self) -> &'static str {
        "agui"
    }

    fn capabilities(&self) -> AgentCapabilities {
        self.shared.options.capabilities.clone()
    }

    fn judges_answers(&self) -> bool {
        true
    }

    fn execute(&self, exchange: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let (stop, input) = (exchange.stop.clone(), exchange.input.clone());
            tokio::select! {
                // Dropping the request closes its connection: that is how the upstream agent hears of the stop.
                () = stop.cancelled() => {}
                end = follow(&shared, exchange, starting) => return end,
            }
            if let Some(url) = &shared.cancel_url {
                tell_of_stop(&shared.client, url, &input).await;
            }
            Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None })
        })
    }
}

async fn follow(shared: &Shared, exchange: Exchange, starting: Starting) -> Result<ExchangeEnd, Failure> {
    let options = &shared.options;
    let version = options.agent_version;
    let first_event = Deadline::of(options.first_event_timeout);
    let prepared = Prepared::new(WHO, version, exchange, starting)?;
    let Some(asked) = first_event.within(request(shared, &prepared.input)).await else {
        return Err(said_nothing(shared));
    };
    let (mut response, mut reader) = asked?;
    let mut relay = Relay::new(WHO, version, prepared, options.max_event_bytes);
    // One deadline for all that may come after the end: an upstream that keeps its connection alive must not keep the run
    // open.
    let mut after_end = None;
    loop {
        let deadline = if relay.has_ended() {
            *after_end.get_or_insert_with(|| Deadline::of(Some(AFTER_END)))
        } else if relay.next_event() == 0 {
            first_event
        } else {
            Deadline::of(None)
        };
        let chunk = match deadline.within(response.chunk()).await {
            Some(Ok(Some(chunk))) => chunk,
            Some(Ok(None)) => break,
            // The run had ended; how its connection ends says nothing about it.
            None | Some(Err(_)) if relay.has_ended() => break,
            None => return Err(said_nothing(shared)),
            Some(Err(error)) => return Err(broken(shared, error)),
        };
        for event in reader.push(&chunk) {
            let event = event.map_err(|e| {
                let at = relay.next_event();
                broken_rule(format!("the upstream agent's stream cannot be read on at event {at}: {e}"))
            })?;
            relay.push(event).await?;
        }
    }
    let idempotent = options.idempotent;
    match relay.reported() {
        Ok(end) => Ok(retryable_if(idempotent, end)),
        // A truncation is never a success.
        Err(truncation) => Err(Failure { retryable: idempotent, ..broken_rule(format!("{WHO}'s {truncation}")) }),
    }
}

/// A moment until which something is waited for, or none.
#[derive(Clone, Copy)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn of(patience: Option<Duration>) -> Deadline {
        Deadline(patience.map(|patience| Instant::now() + patience))
    }

    /// `None` when the moment came first.
    async fn within<T>(self, future: impl Future<Output = T>) -> Option<T> {
        match self.0 {
            Some(until) => tokio::time::timeout_at(until, future).await.ok(),
            None => Some(future.await),
        }
    }
}

fn said_nothing(shared: &Shared) -> Failure {
    let patience = shared.options.first_event_timeout.unwrap_or_default();
    Failure {
        // It may have begun to work all the same.
        retryable: shared.options.idempotent,
        ..Failure::new(ErrorCode::Timeout, format!("{WHO} at {} sent no event within {patience:?}", shown(&shared.url)))
    }
}

/// Tells the agent of the stop. What it answers changes nothing, but for the operator.
async fn tell_of_stop(client: &reqwest::Client, url: &reqwest::Url, input: &RunAgentInput) {
    let run = json!({ "threadId": input.thread_id, "runId": input.run_id });
    let told = client.post(url.clone()).json(&run).timeout(CANCEL_PATIENCE).send().await;
    let problem = match told {
        Ok(answer) if answer.status().is_success() => return,
        Ok(answer) => format!("HTTP {}", answer.status()),
        Err(error) => error.without_url().to_string(),
    };
    tracing::warn!(exchange_id = input.run_id, problem, "{WHO} could not be told at {} of the stop", shown(url));
}

async fn request(shared: &Shared, input: &RunAgentInput) -> Result<(reqwest::Response, BodyReader), Failure> {
    let url = &shared.url;
    let binding = shared.options.binding;
    let sent = shared
        .client
        .post(url.clone())
        .header(ACCEPT, binding.accept())
        .json(input)
        .send()
        .await
        .map_err(|e| broken(shared, e))?;
    let status = sent.status();
    if !status.is_success() {
        let wait = retry_after(sent.headers());
        let when = told_retry_after(wait);
        let body = refusal(sent).await;
        return Err(Failure {
            // Of these it is said that nothing was begun; any other may come from an agent that was at work.
            retryable: matches!(status.as_u16(), 429 | 502 | 503 | 504)
                || shared.options.idempotent && status.is_server_error(),
            retry_after: wait,
            ..Failure::new(
                if status.as_u16() == 429 { ErrorCode::RateLimited } else { ErrorCode::ChannelError },
                format!("the upstream agent at {} refused the run: HTTP {status}{when}{body}", shown(url)),
            )
        });
    }
    let content_type = sent.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("none").to_owned();
    let Some(reader) = binding.reader(&content_type, shared.options.max_event_bytes) else {
        return Err(broken_rule(format!(
            "the upstream agent at {} answered with content type `{content_type}`, where {} was asked for",
            shown(url),
            binding.accept()
        )));
    };
    Ok((sent, reader))
}

/// The beginning of a refusal's body, as far as it is text.
async fn refusal(mut response: reqwest::Response) -> String {
    let mut body = Vec::new();
    while body.len() < REFUSAL_BYTES {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    body.truncate(REFUSAL_BYTES);
    match String::from_utf8_lossy(&body).trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

fn broken(shared: &Shared, error: reqwest::Error) -> Failure {
    let url = &shared.url;
    // Its query may be a key, and what goes into the log is there for every reader.
    let error = error.without_url();
    let mut reasons = Vec::new();
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = source {
        reasons.push(error.to_string());
        source = error.source();
    }
    // The address is named once, without what may be secret in it.
    let reason = reasons.last().cloned().unwrap_or_default();
    let (code, what) = if error.is_timeout() && !error.is_connect() {
        (ErrorCode::Timeout, "was silent for too long")
    } else if error.is_connect() {
        (ErrorCode::ChannelError, "cannot be reached")
    } else {
        (ErrorCode::ChannelError, "broke the connection before its run ended")
    };
    Failure {
        // An agent that was reached may have begun to work.
        retryable: error.is_connect() || shared.options.idempotent,
        detail: Some(reasons.join(": ")),
        ..Failure::new(code, format!("the upstream agent at {} {what}: {reason}", shown(url)))
    }
}

/// The address without user, password and query.
fn shown(url: &reqwest::Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.to_string()
}
