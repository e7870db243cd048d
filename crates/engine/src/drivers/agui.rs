//! `agui`: an agent that exists already, behind an AG-UI endpoint of its own.
//!
//! The upstream agent sees one ordinary AG-UI request, which is held to what a client owes before it is sent. What becomes
//! of its answer is the [`Relay`]'s business.

mod body;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use runwire_agui::{AgentCapabilities, AgentVersion, RunAgentInput};
use runwire_bridge::{ExchangeEnd, Failure};
use runwire_frame::ErrorCode;

pub use self::body::Binding;
use self::body::BodyReader;
use super::relay::{MAX_EVENT_BYTES, Prepared, Relay, broken_rule};
use crate::driver::{Driver, Exchange, Starting};

/// Who speaks, as it is told.
const WHO: &str = "the upstream agent";

/// How long the end of the stream is waited for once the run has ended in it: a failure may still surface.
const AFTER_END: Duration = Duration::from_secs(1);
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
            idle_timeout: Duration::from_secs(300),
            max_event_bytes: MAX_EVENT_BYTES,
            agent_version: AgentVersion::default(),
            binding: Binding::default(),
            capabilities: AgentCapabilities::default(),
        }
    }
}

/// The driver cannot be set up with these options.
#[derive(Debug, thiserror::Error)]
pub enum AguiSetupError {
    /// The address is none.
    #[error("`{url}` is no http or https address: {problem}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A header cannot be sent.
    #[error("header `{name}` cannot be sent: {problem}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The process has not chosen who does its TLS, and the HTTP client cannot be made without.
    #[error(
        "this process has installed no TLS provider; call rustls::crypto::ring::default_provider().install_default() \
         when it starts"
    )]
    NoTlsProvider,
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(#[from] reqwest::Error),
}

struct Shared {
    client: reqwest::Client,
    url: reqwest::Url,
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
    pub fn new(options: AguiOptions) -> Result<AguiDriver, AguiSetupError> {
        let url_error = |problem: String| AguiSetupError::Url { url: options.url.clone(), problem };
        let url = reqwest::Url::parse(&options.url).map_err(|e| url_error(e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(url_error(format!("its scheme is `{}`", url.scheme())));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &options.headers {
            let error = |problem: String| AguiSetupError::Header { name: name.clone(), problem };
            let key = HeaderName::try_from(name).map_err(|e| error(e.to_string()))?;
            let value = HeaderValue::try_from(value).map_err(|e| error(e.to_string()))?;
            headers.append(key, value);
        }
        // The HTTP client would panic over it.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(AguiSetupError::NoTlsProvider);
        }
        let mut client = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(options.connect_timeout)
            .read_timeout(options.idle_timeout)
            // A redirect would carry the conversation, and headers that are secret, to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("runwire/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&url) {
            // No proxy can reach this machine's own loopback, whatever the environment says.
            client = client.no_proxy();
        }
        let client = client.build()?;
        Ok(AguiDriver { shared: Arc::new(Shared { client, url, options }) })
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
            let stop = exchange.stop.clone();
            tokio::select! {
                // Dropping the request closes its connection: that is how the upstream agent hears of the stop.
                () = stop.cancelled() => Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }),
                end = follow(&shared, exchange, starting) => end,
            }
        })
    }
}

async fn follow(shared: &Shared, exchange: Exchange, starting: Starting) -> Result<ExchangeEnd, Failure> {
    let version = shared.options.agent_version;
    let prepared = Prepared::new(WHO, version, exchange, starting)?;
    let (mut response, mut reader) = request(shared, &prepared.input).await?;
    let mut relay = Relay::new(WHO, version, prepared, shared.options.max_event_bytes);
    let mut patience = None;
    loop {
        let chunk = if relay.has_ended() {
            // One deadline for all of it: an upstream that keeps its connection alive must not keep the run open.
            let until = *patience.get_or_insert_with(|| tokio::time::Instant::now() + AFTER_END);
            match tokio::time::timeout_at(until, response.chunk()).await {
                Ok(chunk) => chunk,
                Err(_) => break,
            }
        } else {
            response.chunk().await
        };
        let chunk = match chunk {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            // The run had ended; how its connection ends says nothing about it.
            Err(_) if relay.has_ended() => break,
            Err(error) => return Err(broken(&shared.url, error)),
        };
        for event in reader.push(&chunk) {
            let event = event.map_err(|e| {
                let at = relay.next_event();
                broken_rule(format!("the upstream agent's stream cannot be read on at event {at}: {e}"))
            })?;
            relay.push(event).await?;
        }
    }
    Ok(relay.finish())
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
        .map_err(|e| broken(url, e))?;
    let status = sent.status();
    if !status.is_success() {
        let body = refusal(sent).await;
        return Err(Failure {
            retryable: status.is_server_error() || status.as_u16() == 429,
            ..Failure::new(
                if status.as_u16() == 429 { ErrorCode::RateLimited } else { ErrorCode::ChannelError },
                format!("the upstream agent at {} refused the run: HTTP {status}{body}", shown(url)),
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

fn broken(url: &reqwest::Url, error: reqwest::Error) -> Failure {
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
        retryable: true,
        detail: Some(reasons.join(": ")),
        ..Failure::new(code, format!("the upstream agent at {} {what}: {reason}", shown(url)))
    }
}

fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// The address without user, password and query.
fn shown(url: &reqwest::Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.to_string()
}
