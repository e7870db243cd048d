//! Tools of a server of the Model Context Protocol: a subprocess, or one behind an address.
//!
//! The server is started when a run first wants its tools, serves all runs of its agent, and is started again by the next that
//! wants it after it has died. It goes with the driver.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use rmcp::transport::TokioChildProcess;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use runwire_bridge::ToolOutput;
use runwire_engine::{HttpSetupError, http_address, http_client};
use serde_json::{Value, json};

use crate::approval::Approval;
use crate::call::ToolSpec;
use crate::tool::{Listed, OwnTool, ToolReturn, ToolSource, ToolUse};

/// How long connecting to an address may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How a server is reached.
#[derive(Clone)]
pub enum McpTransport {
    /// A subprocess, over its standard input and output. What it writes to standard error goes to this process's.
    Command {
        /// The program, then its arguments.
        command: Vec<String>,
        /// Its environment: `PATH`, and what is here.
        env: Vec<(String, String)>,
    },
    /// An address, by streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

/// A server, and how its tools are used.
#[derive(Clone)]
pub struct McpOptions {
    /// What it is called in the configuration.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// Which of its tools are offered. Default all.
    pub tools: Option<Vec<String>>,
    /// Which calls of its tools have to be allowed. Default none.
    pub approval: Approval,
    /// The same for tools of its own, by their names at the server: instead of [`approval`](McpOptions::approval). Default none.
    pub approvals: BTreeMap<String, Approval>,
    /// How long it may take to start, and how long a call may take. Default 60 s.
    pub timeout: Duration,
    /// The most bytes that a result may have. Default 256 KiB.
    pub max_result_bytes: usize,
    /// Whether a run fails without it, and by a call that fails. Default no.
    pub required: bool,
}

impl McpOptions {
    /// The server of that name, reached so, with the defaults.
    pub fn new(name: impl Into<String>, transport: McpTransport) -> McpOptions {
        McpOptions {
            name: name.into(),
            transport,
            tools: None,
            approval: Approval::Never,
            approvals: BTreeMap::new(),
            timeout: Duration::from_secs(60),
            max_result_bytes: 256 * 1024,
            required: false,
        }
    }
}

/// A server that runs, and its tools.
struct Connection {
    service: RunningService<RoleClient, ()>,
    tools: Vec<ToolSpec>,
    /// What the configuration names and the server has not, as sentences.
    unknown: Vec<String>,
}

impl Connection {
    fn is_alive(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }
}

/// Whoever wants the server waits for the same attempt to reach it.
type Connecting = Shared<BoxFuture<'static, Result<Arc<Connection>, String>>>;

struct Inner {
    options: McpOptions,
    http: Option<reqwest::Client>,
    /// The newest attempt, and so the connection. Never locked while anything is waited for.
    newest: Mutex<Option<Connecting>>,
}

/// A server of tools.
#[derive(Clone)]
pub struct McpServer {
    inner: Arc<Inner>,
}

impl McpServer {
    /// The server with these options. Starts and connects to nothing yet.
    ///
    /// # Errors
    /// When the address or a header is malformed, or the process has installed no rustls provider.
    pub fn new(options: McpOptions) -> Result<McpServer, HttpSetupError> {
        let http = match &options.transport {
            McpTransport::Http { url, headers } => {
                Some(http_client(&http_address(url)?, headers)?.connect_timeout(CONNECT_TIMEOUT).build()?)
            }
            McpTransport::Command { .. } => None,
        };
        Ok(McpServer { inner: Arc::new(Inner { options, http, newest: Mutex::new(None) }) })
    }

    /// The connection, or an attempt to make one: a new one when the last has failed or its server is gone.
    fn connection(&self) -> Connecting {
        let mut newest = self.inner.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = newest.clone().filter(|connecting| match connecting.peek() {
            None => true,
            Some(Ok(connection)) => connection.is_alive(),
            Some(Err(_)) => false,
        });
        let connecting = usable.unwrap_or_else(|| {
            let (options, http) = (self.inner.options.clone(), self.inner.http.clone());
            async move {
                let timeout = options.timeout;
                match tokio::time::timeout(timeout, connect(options, http)).await {
                    Ok(connected) => connected.map(Arc::new),
                    Err(_) => Err(format!("the server was not ready within {} ms", timeout.as_millis())),
                }
            }
            .boxed()
            .shared()
        });
        *newest = Some(connecting.clone());
        connecting
    }
}

/// An error as it may be told: without the server's address, which may hold a key and which HTTP errors name.
fn without_address(transport: &McpTransport, error: &dyn std::fmt::Display) -> String {
    let mut told = error.to_string();
    if let McpTransport::Http { url, .. } = transport {
        let parsed = reqwest::Url::parse(url).map(String::from).unwrap_or_default();
        for address in [&parsed, url] {
            if !address.is_empty() {
                told = told.replace(address.as_str(), "its address");
            }
        }
    }
    told
}

async fn connect(options: McpOptions, http: Option<reqwest::Client>) -> Result<Connection, String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("the server cannot be spoken to: {}", without_address(&options.transport, error))
    };
    let service = match (&options.transport, http) {
        (McpTransport::Command { command, env }, _) => {
            let transport = spawn(command, env)?;
            ().serve(transport).await.map_err(|error| failed(&error))?
        }
        (McpTransport::Http { url, .. }, Some(client)) => {
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            let transport = StreamableHttpClientTransport::with_client(client, config);
            ().serve(transport).await.map_err(|error| failed(&error))?
        }
        (McpTransport::Http { .. }, None) => return Err("it has no HTTP client".to_owned()),
    };
    let listed = service.peer().list_all_tools().await;
    let listed = listed.map_err(|error| {
        format!("the server does not say which tools it has: {}", without_address(&options.transport, &error))
    })?;
    let mut tools: Vec<ToolSpec> = listed
        .into_iter()
        .map(|tool| ToolSpec {
            name: tool.name.into_owned(),
            description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
            parameters: Value::Object((*tool.input_schema).clone()),
        })
        .collect();
    let unknown = unknown(&options, &tools);
    for sentence in &unknown {
        tracing::warn!(server = options.name, "{sentence}");
    }
    if let Some(wanted) = &options.tools {
        tools.retain(|tool| wanted.contains(&tool.name));
    }
    Ok(Connection { service, tools, unknown })
}

/// What the configuration says of tools that the server has not, so that a person who mistyped the name of one that was to be
/// approved comes to know of it.
fn unknown(options: &McpOptions, tools: &[ToolSpec]) -> Vec<String> {
    let has = |name: &str| tools.iter().any(|tool| tool.name == name);
    let offered = |name: &str| options.tools.as_ref().is_none_or(|offered| offered.iter().any(|tool| tool == name));
    let mut unknown = Vec::new();
    for (key, name) in options
        .tools
        .iter()
        .flatten()
        .map(|name| ("tools", name))
        .chain(options.approvals.keys().map(|name| ("approvals", name)))
    {
        if !has(name) {
            let near = tools.iter().map(|tool| (strsim::damerau_levenshtein(name, &tool.name), &tool.name)).min();
            let near = near.filter(|(distance, near)| *distance <= name.len().max(near.len()) / 2);
            let hint = near.map(|(_, near)| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            unknown
                .push(format!("`{key}` names `{name}`, and the MCP server `{}` has no such tool{hint}", options.name));
        } else if !offered(name) {
            unknown.push(format!("`approvals` names `{name}`, which `tools` does not offer to the model"));
        }
    }
    unknown
}

fn spawn(command: &[String], env: &[(String, String)]) -> Result<TokioChildProcess, String> {
    let Some((program, arguments)) = command.split_first() else { return Err("its `command` is empty".to_owned()) };
    let mut process = tokio::process::Command::new(program);
    // This server's environment holds its keys, which are no business of its tools.
    process.args(arguments).env_clear();
    process.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    process.envs(env.iter().map(|(name, value)| (name, value)));
    // A Ctrl-C on the terminal is this server's to act on: runs that go on for their grace need the tools.
    process.process_group(0).kill_on_drop(true);
    let spawned = TokioChildProcess::builder(process).stderr(Stdio::inherit()).spawn();
    let (child, _) = spawned.map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    Ok(child)
}

impl ToolSource for McpServer {
    fn name(&self) -> &str {
        &self.inner.options.name
    }

    fn required(&self) -> bool {
        self.inner.options.required
    }

    fn tools(&self) -> BoxFuture<'static, Result<Listed, String>> {
        let server = self.clone();
        Box::pin(async move {
            let connection = server.connection().await?;
            let tool =
                |spec: &ToolSpec| Arc::new(McpTool { server: server.clone(), spec: spec.clone() }) as Arc<dyn OwnTool>;
            Ok(Listed { tools: connection.tools.iter().map(tool).collect(), unknown: connection.unknown.clone() })
        })
    }
}

/// One tool of a server.
struct McpTool {
    server: McpServer,
    spec: ToolSpec,
}

impl OwnTool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn approval(&self) -> &Approval {
        let options = &self.server.inner.options;
        options.approvals.get(&self.spec.name).unwrap_or(&options.approval)
    }

    fn required(&self) -> bool {
        self.server.inner.options.required
    }

    fn execute(&self, call: ToolUse) -> BoxFuture<'static, ToolReturn> {
        let (server, name) = (self.server.clone(), self.spec.name.clone());
        let (timeout, max) = (self.server.inner.options.timeout, self.server.inner.options.max_result_bytes);
        Box::pin(async move {
            let called = async {
                let connection = server.connection().await?;
                let params = CallToolRequestParams::new(name).with_arguments(call.arguments.value().clone());
                let called = connection.service.peer().call_tool(params).await;
                called.map_err(|error| without_address(&server.inner.options.transport, &error))
            };
            match tokio::time::timeout(timeout, called).await {
                Ok(Ok(result)) => returned(&result, max),
                Ok(Err(error)) => ToolReturn::failed(format!("the tool's server did not answer the call: {error}")),
                Err(_) => ToolReturn {
                    timed_out: true,
                    ..ToolReturn::failed(format!("the tool did not answer within {} ms", timeout.as_millis()))
                },
            }
        })
    }
}

/// A result as AG-UI has it: text, or parts where there is more than text.
fn returned(result: &CallToolResult, max: usize) -> ToolReturn {
    let blocks: Vec<Value> = result.content.iter().filter_map(|block| serde_json::to_value(block).ok()).collect();
    let mut parts: Vec<Value> = blocks.iter().map(part).collect();
    if parts.is_empty()
        && let Some(structured) = &result.structured_content
    {
        parts.push(json!({ "type": "text", "text": structured.to_string() }));
    }
    let ok = result.is_error != Some(true);
    let bytes: usize = parts.iter().map(|part| part.to_string().len()).sum();
    if bytes > max {
        return ToolReturn::failed(format!("the tool's result has more than {max} bytes; ask for less of it"));
    }
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    let output = match texts {
        Some(texts) => ToolOutput::Text(texts.join("\n")),
        None => ToolOutput::Parts(parts),
    };
    ToolReturn { ok, output, timed_out: false, retry_after: None }
}

/// A block of a result as one of AG-UI's parts. What has no part of its own is told as text.
fn part(block: &Value) -> Value {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let media = |kind: &str| json!({ "type": kind, "source": { "type": "data", "value": block["data"], "mimeType": block["mimeType"] } });
    match block["type"].as_str() {
        Some("text") => text(block["text"].as_str().unwrap_or_default()),
        Some(kind @ ("image" | "audio")) if block["data"].is_string() && block["mimeType"].is_string() => media(kind),
        Some("resource") if block["resource"]["text"].is_string() => {
            text(block["resource"]["text"].as_str().unwrap_or_default())
        }
        _ => text(&block.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn the_address_of_a_server_is_in_no_error_that_is_told() {
        let url = "http://127.0.0.1:1/mcp?api_key=s3cret".to_owned();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let transport = McpTransport::Http { url, headers: Vec::new() };
        let server = McpServer::new(McpOptions::new("files", transport)).unwrap();
        let Err(error) = server.tools().await else { panic!("nobody listens there") };
        assert!(error.contains("its address") && !error.contains("s3cret"), "{error}");
    }

    fn result(result: Value) -> ToolReturn {
        returned(&serde_json::from_value(result).unwrap(), 1000)
    }

    #[test]
    fn text_stays_text_and_an_image_is_a_part() {
        let text = json!({ "type": "text", "text": "one" });
        let only_text = result(json!({ "content": [text, { "type": "text", "text": "two" }] }));
        assert_eq!(only_text, ToolReturn::worked(ToolOutput::Text("one\ntwo".to_owned())));
        let mixed = result(json!({ "content": [text, { "type": "image", "data": "AAAA", "mimeType": "image/png" }] }));
        let image = json!({ "type": "image", "source": { "type": "data", "value": "AAAA", "mimeType": "image/png" } });
        assert_eq!(mixed, ToolReturn::worked(ToolOutput::Parts(vec![text, image])));
    }

    #[test]
    fn an_error_and_a_result_that_is_too_large_are_failures() {
        let error = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true });
        assert_eq!(result(error), ToolReturn::failed("no"));
        assert!(!result(json!({ "content": [{ "type": "text", "text": "x".repeat(2000) }] })).ok);
    }

    #[test]
    fn what_is_said_of_a_tool_that_is_not_there_is_told_with_the_nearest_that_is() {
        let transport = McpTransport::Command { command: vec!["server".to_owned()], env: Vec::new() };
        let spec = |name: &str| ToolSpec { name: name.to_owned(), description: String::new(), parameters: json!({}) };
        let has = [spec("delete_file"), spec("read_file"), spec("list")];
        let always = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), Approval::Always)).collect();
        let named = |tools: Option<&[&str]>, approvals: &[&str]| {
            let tools = tools.map(|tools| tools.iter().map(|name| (*name).to_owned()).collect());
            let approvals = always(approvals);
            unknown(&McpOptions { tools, approvals, ..McpOptions::new("files", transport.clone()) }, &has)
        };
        assert_eq!(named(Some(&["read_file"]), &["read_file"]), Vec::<String>::new());
        let [mistyped] = &named(None, &["delete_fil"])[..] else { panic!() };
        assert!(mistyped.contains("`approvals` names `delete_fil`"), "{mistyped}");
        assert!(mistyped.contains("`files`") && mistyped.contains("did you mean `delete_file`?"), "{mistyped}");
        let [far] = &named(Some(&["read_file", "zzz"]), &[])[..] else { panic!() };
        assert!(far.contains("`tools` names `zzz`") && !far.contains("did you mean"), "{far}");
        let [unoffered] = &named(Some(&["list"]), &["read_file"])[..] else { panic!() };
        assert!(unoffered.contains("does not offer"), "{unoffered}");
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_started_says_why_and_is_tried_again() {
        let transport = McpTransport::Command { command: vec!["/nonexistent/server".to_owned()], env: Vec::new() };
        let server = McpServer::new(McpOptions::new("files", transport)).unwrap();
        for _ in 0..2 {
            let Err(why) = server.tools().await else { panic!("there is no such program") };
            assert!(why.contains("/nonexistent/server"), "{why}");
        }
    }
}
