//! A tool behind an address: a call is a `POST` of its arguments, and the body of the answer is the result.

use std::time::Duration;

use futures_util::future::BoxFuture;
use runwire_bridge::ToolOutput;

use crate::approval::Approval;
use crate::call::ToolSpec;
use crate::endpoint::{SetupError, address, beginning, http_client, reason};
use crate::tool::{OwnTool, ToolReturn, ToolUse};

/// How much of a refusal's body the model is told.
const REFUSAL_BYTES: usize = 2048;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the tool is, and how to call it.
#[derive(Clone)]
pub struct HttpToolOptions {
    /// What a model is told of it.
    pub spec: ToolSpec,
    /// Its address, by `http` or `https`.
    pub url: String,
    /// Headers sent with every call.
    pub headers: Vec<(String, String)>,
    /// How long a call may take. Default 30 s.
    pub timeout: Duration,
    /// The most bytes that a result may have. Default 256 KiB.
    pub max_result_bytes: usize,
    /// Which of its calls have to be allowed. Default none.
    pub approval: Approval,
    /// Whether its failure is the run's. Default no.
    pub required: bool,
}

impl HttpToolOptions {
    /// The tool at this address, with the defaults.
    pub fn new(spec: ToolSpec, url: impl Into<String>) -> HttpToolOptions {
        HttpToolOptions {
            spec,
            url: url.into(),
            headers: Vec::new(),
            timeout: Duration::from_secs(30),
            max_result_bytes: 256 * 1024,
            approval: Approval::Never,
            required: false,
        }
    }
}

/// A tool behind an address.
pub struct HttpTool {
    client: reqwest::Client,
    url: reqwest::Url,
    options: HttpToolOptions,
}

impl HttpTool {
    /// A tool that is called so. Does not connect yet.
    ///
    /// # Errors
    /// When the address or a header is malformed, or the process has installed no rustls provider.
    pub fn new(options: HttpToolOptions) -> Result<HttpTool, SetupError> {
        let url = address(&options.url)?;
        let client = http_client(&url, &options.headers, CONNECT_TIMEOUT)?;
        Ok(HttpTool { client, url, options })
    }
}

impl OwnTool for HttpTool {
    fn spec(&self) -> &ToolSpec {
        &self.options.spec
    }

    fn approval(&self) -> &Approval {
        &self.options.approval
    }

    fn required(&self) -> bool {
        self.options.required
    }

    fn execute(&self, call: ToolUse) -> BoxFuture<'static, ToolReturn> {
        let request = self
            .client
            .post(self.url.clone())
            // The same call made twice can be told from two calls.
            .header("idempotency-key", &call.tool_call_id)
            .header("content-type", "application/json")
            .body(call.arguments.as_json().to_owned());
        let (max, timeout) = (self.options.max_result_bytes, self.options.timeout);
        Box::pin(async move {
            match tokio::time::timeout(timeout, answer(request, max)).await {
                Ok(returned) => returned,
                Err(_) => ToolReturn {
                    timed_out: true,
                    ..ToolReturn::failed(format!("the tool did not answer within {} ms", timeout.as_millis()))
                },
            }
        })
    }
}

async fn answer(request: reqwest::RequestBuilder, max: usize) -> ToolReturn {
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) => return ToolReturn::failed(format!("the tool cannot be reached: {}", reason(error))),
    };
    let status = response.status();
    if !status.is_success() {
        let body = beginning(&mut response, REFUSAL_BYTES).await;
        return ToolReturn::failed(format!("the tool failed with HTTP {status}: {}", body.trim()));
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => return ToolReturn::failed(format!("the tool broke off its answer: {}", reason(error))),
        }
        // A part of a result could be taken for the whole.
        if body.len() > max {
            return ToolReturn::failed(format!("the tool's result has more than {max} bytes; ask for less of it"));
        }
    }
    match String::from_utf8(body) {
        Ok(text) => ToolReturn::worked(ToolOutput::Text(text)),
        Err(_) => ToolReturn::failed("the tool's result is not UTF-8 text"),
    }
}
