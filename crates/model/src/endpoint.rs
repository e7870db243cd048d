//! A provider's endpoint: sends a request and reads its answer as it comes.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use reqwest::header::CONTENT_TYPE;
use runwire_agui::SseDecoder;
use runwire_engine::{HttpSetupError, http_address, http_client, retry_after};
use runwire_frame::ErrorCode;
use serde_json::Value;

use crate::call::{CallError, ModelEvent, ModelStream};
use crate::refusal::Refusal;

/// The largest event of an answer, in bytes.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// How much of a refusal is read.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Where a model API is, and how to talk to it.
#[derive(Clone)]
pub struct EndpointOptions {
    /// Its address up to the version, such as `https://api.openai.com/v1`; `None` is the provider's own.
    pub base_url: Option<String>,
    /// The key. Goes into a header and nowhere else.
    pub api_key: Option<String>,
    /// The environment variable that the key was read from, for errors.
    pub api_key_env: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// How long connecting may take. Default 10 s.
    pub connect_timeout: Duration,
}

impl Default for EndpointOptions {
    fn default() -> EndpointOptions {
        EndpointOptions {
            base_url: None,
            api_key: None,
            api_key_env: None,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl std::fmt::Debug for EndpointOptions {
    /// Without what may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointOptions").field("api_key_env", &self.api_key_env).finish_non_exhaustive()
    }
}

/// Reads one provider's stream. Sans-I/O.
pub(crate) trait AnswerReader: Send + 'static {
    /// Takes the data of the next event.
    ///
    /// # Errors
    /// What the provider reports in it, or that it cannot be read.
    fn read(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<(), ReadError>;

    /// Whether the answer is whole.
    fn is_whole(&self) -> bool;
}

/// An answer cannot be read on.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The provider says so.
    Refused(Refusal),
    /// Why it cannot.
    Failed(CallError),
}

impl From<CallError> for ReadError {
    fn from(error: CallError) -> ReadError {
        ReadError::Failed(error)
    }
}

/// A provider's endpoint. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Endpoint {
    provider: &'static str,
    client: reqwest::Client,
    base: reqwest::Url,
    api_key: Option<String>,
    /// What to do about a key that is not accepted.
    about_key: String,
}

impl Endpoint {
    /// `key_header` makes the header that carries the key.
    pub fn new(
        provider: &'static str,
        options: EndpointOptions,
        default_url: &str,
        own_headers: &[(&str, &str)],
        key_header: impl Fn(&str) -> (&'static str, String),
    ) -> Result<Endpoint, HttpSetupError> {
        let url = options.base_url.as_deref().unwrap_or(default_url);
        let base = http_address(url)?;
        let mut headers = Vec::new();
        headers.extend(own_headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        headers.extend(options.api_key.as_deref().map(key_header).map(|(name, value)| (name.to_owned(), value)));
        // What is configured takes the place of what would be sent by itself.
        headers.retain(|(name, _)| !options.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
        headers.extend(options.headers);
        let client = http_client(&base, &headers)?.connect_timeout(options.connect_timeout).build()?;
        let about_key = match &options.api_key_env {
            Some(name) => format!("check the environment variable {name}"),
            None => "no `api_key_env` is configured".to_owned(),
        };
        Ok(Endpoint { provider, client, base, api_key: options.api_key, about_key })
    }

    /// Whether it is the provider's own.
    pub fn is_at(&self, host: &str) -> bool {
        self.base.host_str() == Some(host)
    }

    /// Sends the request when it is first polled.
    pub fn answer(&self, path: &str, body: Value, reader: impl AnswerReader) -> ModelStream {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        if query.is_some() {
            url.set_query(query);
        }
        let answer = Answer {
            endpoint: self.clone(),
            phase: Phase::ToSend(url, body),
            decoder: SseDecoder::new(MAX_EVENT_BYTES),
            reader: Box::new(reader),
            read: VecDeque::new(),
        };
        stream::unfold(answer, |mut answer| async move { answer.next().await.map(|event| (event, answer)) }).boxed()
    }

    fn refused(&self, refusal: Refusal) -> CallError {
        refusal.into_error(self.provider, &self.about_key, self.api_key.as_deref())
    }
}

enum Phase {
    ToSend(reqwest::Url, Value),
    Reading(reqwest::Response),
    Over,
}

/// An answer that is being read.
struct Answer {
    endpoint: Endpoint,
    phase: Phase,
    decoder: SseDecoder,
    reader: Box<dyn AnswerReader>,
    read: VecDeque<ModelEvent>,
}

impl Answer {
    async fn next(&mut self) -> Option<Result<ModelEvent, CallError>> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Some(Ok(event));
            }
            let step = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return None,
                Phase::ToSend(url, body) => self.send(url, body).await,
                Phase::Reading(response) => self.read_on(response).await,
            };
            match step {
                Ok(phase) => self.phase = phase,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn send(&mut self, url: reqwest::Url, body: Value) -> Result<Phase, CallError> {
        let sent = self.endpoint.client.post(url).json(&body).send().await;
        let mut response = sent.map_err(|error| self.broken(error))?;
        let status = response.status();
        if !status.is_success() {
            let wait = retry_after(response.headers());
            let body = beginning(&mut response, REFUSAL_BYTES).await;
            return Err(self.endpoint.refused(Refusal::of_body(status.as_u16(), &body, wait)));
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or("none").to_owned();
        if !content_type.to_ascii_lowercase().starts_with("text/event-stream") {
            return Err(CallError::lasting(
                ErrorCode::ModelError,
                format!(
                    "{} answered with content type `{content_type}`, where a stream was asked for; check `base_url`",
                    self.endpoint.provider
                ),
            ));
        }
        Ok(Phase::Reading(response))
    }

    async fn read_on(&mut self, mut response: reqwest::Response) -> Result<Phase, CallError> {
        let provider = self.endpoint.provider;
        let chunk = match response.chunk().await {
            Ok(Some(chunk)) => chunk,
            // How a connection ends says nothing about an answer that is whole.
            Ok(None) | Err(_) if self.reader.is_whole() => return Ok(Phase::Over),
            Ok(None) => {
                return Err(CallError::passing(
                    ErrorCode::ModelError,
                    format!("{provider} ended its answer before it was whole"),
                ));
            }
            Err(error) => return Err(self.broken(error)),
        };
        let mut events = self.decoder.read(&chunk);
        let mut failed = None;
        while let Some(event) = events.next() {
            // The rest is read all the same, as the decoder wants it, and dropped.
            if failed.is_some() {
                continue;
            }
            failed = match event {
                Ok(event) => self.reader.read(event.data, &mut self.read).err(),
                Err(error) => Some(ReadError::Failed(CallError::lasting(
                    ErrorCode::ModelError,
                    format!("the answer of {provider} cannot be read: {error}"),
                ))),
            };
        }
        match failed {
            None => Ok(Phase::Reading(response)),
            Some(ReadError::Refused(refusal)) => Err(self.endpoint.refused(refusal)),
            Some(ReadError::Failed(error)) => Err(error),
        }
    }

    fn broken(&self, error: reqwest::Error) -> CallError {
        let provider = self.endpoint.provider;
        let what = if error.is_connect() { "cannot be reached" } else { "broke the connection" };
        CallError::passing(ErrorCode::ModelError, format!("{provider} {what}: {}", reason(error)))
    }
}

/// What of an error of the HTTP client says most, without the address, which may hold a key.
pub(crate) fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        reason = error.to_string();
        source = error.source();
    }
    reason
}

/// The beginning of a body, as far as it is text.
pub(crate) async fn beginning(response: &mut reqwest::Response, max: usize) -> String {
    let mut body = Vec::new();
    while body.len() < max {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    body.truncate(max);
    String::from_utf8_lossy(&body).into_owned()
}
