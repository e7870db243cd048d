//! A tool behind an address: a call is a `POST` of its arguments, and the body of the answer is the result.

use std::time::Duration;

use futures_util::future::BoxFuture;
use runwire_bridge::ToolOutput;

use crate::approval::Approval;
use crate::call::ToolSpec;
use runwire_engine::{HttpSetupError, http_address, http_client, retry_after, told_retry_after};

use crate::endpoint::{beginning, reason};
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
    pub fn new(options: HttpToolOptions) -> Result<HttpTool, HttpSetupError> {
        let url = http_address(&options.url)?;
        let client = http_client(&url, &options.headers)?.connect_timeout(CONNECT_TIMEOUT).build()?;
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
        // Of these two it is said that the call was not begun.
        let refused = matches!(status.as_u16(), 429 | 503);
        let retry_after = retry_after(response.headers()).filter(|_| refused);
        let when = told_retry_after(retry_after);
        let body = beginning(&mut response, REFUSAL_BYTES).await;
        let why = format!("the tool failed with HTTP {status}{when}: {}", body.trim());
        return ToolReturn { retry_after, ..ToolReturn::failed(why) };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tool::Arguments;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A server that gives one answer to one request; `None` never answers. Gives its address and what it was sent.
    async fn serving(answer: Option<&'static str>) -> (String, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = String::new();
            while !request.ends_with("{\"a\":1}") {
                let mut bytes = [0; 1024];
                let read = socket.read(&mut bytes).await.unwrap();
                request.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
            }
            match answer {
                Some(answer) => socket.write_all(answer.as_bytes()).await.unwrap(),
                None => std::future::pending().await,
            }
            request
        });
        (url, served)
    }

    async fn call(url: String, change: impl FnOnce(&mut HttpToolOptions)) -> ToolReturn {
        // Only the first of several can be installed, and it does not matter which that is.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let spec = ToolSpec { name: "t".to_owned(), description: String::new(), parameters: json!({}) };
        let mut options = HttpToolOptions::new(spec, url);
        change(&mut options);
        let arguments = Arguments::parse("{ \"a\": 1 }").unwrap();
        let call = ToolUse { tool_call_id: "call_7".to_owned(), arguments, within: None };
        HttpTool::new(options).unwrap().execute(call).await
    }

    #[tokio::test]
    async fn a_call_is_a_post_of_its_arguments_and_says_which_call_it_is() {
        let (url, served) = serving(Some("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n42")).await;
        assert_eq!(call(url, |_| ()).await, ToolReturn::worked(ToolOutput::Text("42".to_owned())));
        let request = served.await.unwrap();
        assert!(request.starts_with("POST / HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("idempotency-key: call_7\r\n"), "{request}");
        assert!(request.contains("content-type: application/json\r\n"), "{request}");
    }

    #[tokio::test]
    async fn what_is_no_success_is_a_failure_that_says_why() {
        let refusal = "HTTP/1.1 422 Unprocessable Entity\r\ncontent-length: 9\r\n\r\nno such a";
        let moved = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let broken = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
        let large = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123456789";
        for (answer, says) in [
            (refusal, "HTTP 422 Unprocessable Entity: no such a"),
            (moved, "HTTP 307"),
            (broken, "broke off"),
            (large, "more than 8 bytes"),
        ] {
            let (url, _served) = serving(Some(answer)).await;
            let returned = call(url, |options| options.max_result_bytes = 8).await;
            let ToolOutput::Text(why) = &returned.output else { panic!("{returned:?}") };
            assert!(!returned.ok && !returned.timed_out && why.contains(says), "{says}: {why}");
        }
        let returned = call("http://127.0.0.1:1/".to_owned(), |_| ()).await;
        assert!(!returned.ok, "{returned:?}");
    }

    #[tokio::test]
    async fn a_tool_that_did_not_begin_says_when_to_call_it_again() {
        let limited = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nlate";
        let failed = "HTTP/1.1 500 Internal Server Error\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\noops";
        for (answer, wait, says) in [(limited, Some(7), "and asks to wait 7 s: late"), (failed, None, "Error: oops")] {
            let (url, _served) = serving(Some(answer)).await;
            let returned = call(url, |_| ()).await;
            let ToolOutput::Text(why) = &returned.output else { panic!("{returned:?}") };
            assert!(!returned.ok && why.contains(says), "{why}");
            assert_eq!(returned.retry_after, wait.map(Duration::from_secs));
        }
    }

    #[tokio::test]
    async fn a_tool_that_does_not_answer_has_timed_out() {
        let (url, served) = serving(None).await;
        let returned = call(url, |options| options.timeout = Duration::from_millis(50)).await;
        assert!(!returned.ok && returned.timed_out, "{returned:?}");
        served.abort();
    }
}
