//! Tools behind an address that never answer: what the model is told, and how the run ends.

use runwire_model::{HttpTool, HttpToolOptions};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A tool at an address that takes calls and answers none.
async fn hanging(timeout: Duration, required: bool) -> (TcpListener, Arc<dyn OwnTool>) {
    // Only the first of several can be installed, and it does not matter which that is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec = ToolSpec { name: "hang".to_owned(), description: "d".to_owned(), parameters: json!({}) };
    let mut options = HttpToolOptions::new(spec, format!("http://{}/", listener.local_addr().unwrap()));
    options.timeout = timeout;
    options.required = required;
    (listener, Arc::new(HttpTool::new(options).unwrap()))
}

fn agent_with(model: &Scripted, tool: Arc<dyn OwnTool>) -> Bed {
    agent(model, AgentOptions { tools: vec![tool], ..AgentOptions::new("m") })
}

/// The call, as far as it is there.
async fn called(listener: &TcpListener) -> TcpStream {
    let (mut socket, _) = fixture::patiently(listener.accept()).await.unwrap();
    let mut bytes = [0; 4096];
    assert!(socket.read(&mut bytes).await.unwrap() > 0, "a call comes with a request");
    socket
}

#[tokio::test]
async fn the_model_is_told_of_a_tool_that_never_returns_and_goes_on() {
    let (listener, tool) = hanging(Duration::from_millis(50), false).await;
    let model = Scripted::answering([calls(&[("c1", "hang", "{}")]), says("A pity")]);
    let bed = agent_with(&model, tool);
    let (log, _socket) = tokio::join!(run(&bed, input("r", json!({}))), called(&listener));
    assert_eq!(end(&log), (EndStatus::Completed, None));
    let [(_, ok, why)] = &results(&log)[..] else { panic!("{}", log.dump()) };
    assert!(!ok && why.contains("did not answer within 50 ms"), "{why}");
    let Some(Turn::Results(told)) = model.asked()[1].1.turns.last().cloned() else { panic!() };
    assert_eq!((told[0].ok, &told[0].text), (false, why));
    let code = log.frames.iter().find_map(|frame| match &frame.data {
        Data::SegmentEnd(end) => end.error.as_ref().map(|error| error.code),
        _ => None,
    });
    assert_eq!(code, Some(ErrorCode::Timeout), "of the call's segment");
}

#[tokio::test]
async fn a_required_tool_that_never_returns_fails_the_run_as_a_timeout_that_may_pass() {
    let (listener, tool) = hanging(Duration::from_millis(50), true).await;
    let bed = agent_with(&Scripted::answering([calls(&[("c1", "hang", "{}")])]), tool);
    let (log, _socket) = tokio::join!(run(&bed, input("r", json!({}))), called(&listener));
    assert_eq!(end(&log), (EndStatus::Failed, Some("TIMEOUT")));
    let (code, message, retryable) = log.error();
    assert!(code == "TIMEOUT" && retryable && message.contains("`hang`"), "{message}");
}

#[tokio::test]
async fn a_stop_gives_up_a_tool_that_never_returns_and_the_run_ends_cancelled_in_order() {
    let (listener, tool) = hanging(Duration::from_secs(3600), true).await;
    let bed = agent_with(&Scripted::answering([calls(&[("c1", "hang", "{}")])]), tool);
    let run_id = bed.create(request("a", input("r", json!({})))).await.unwrap().record.run_id;
    let mut socket = called(&listener).await;
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(end(&log), (EndStatus::Cancelled, None));
    assert_eq!(outcome(&log), Some(RunFinishedOutcome::Cancelled));
    assert_eq!(results(&log), [], "what did not return has no result");
    let mut rest = Vec::new();
    // The connection is given up with the call, by an end or by a reset.
    let _ = fixture::patiently(socket.read_to_end(&mut rest)).await;
}

/// The same of an MCP server, a subprocess.
#[cfg(feature = "mcp")]
mod mcp {
    use std::path::Path;

    use runwire_model::{McpOptions, McpServer, McpTransport, ToolSource};

    use super::*;

    /// Has one tool, `hang`, and never answers a call of it. A call leaves its mark in the file that is the first argument.
    const SERVER: &str = r#"
while read -r line; do
  id=${line#*\"id\":}
  id=${id%%[,\}]*}
  case $line in
    *\"initialize\"*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *\"tools/list\"*) result='{"tools":[{"name":"hang","description":"d","inputSchema":{"type":"object"}}]}' ;;
    *\"tools/call\"*) echo called >"$1"; continue ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

    /// The server, which runs and has said which tools it has. A machine can take longer for that than a call may.
    async fn serving(timeout: Duration, required: bool, mark: &Path) -> McpServer {
        let script = ["sh", "-c", SERVER, "sh"].map(str::to_owned);
        let command = script.into_iter().chain([mark.display().to_string()]).collect();
        let mut options = McpOptions::new("slow", McpTransport::Command { command, env: Vec::new() });
        options.timeout = timeout;
        options.required = required;
        let server = McpServer::new(options).unwrap();
        fixture::patiently(async { while server.tools().await.is_err() {} }).await;
        server
    }

    fn agent_with(model: &Scripted, server: McpServer) -> Bed {
        agent(model, AgentOptions { sources: vec![Arc::new(server)], ..AgentOptions::new("m") })
    }

    #[tokio::test]
    async fn a_tool_of_an_mcp_server_that_never_returns_is_told_or_fails_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let server = serving(Duration::from_secs(1), false, &mark).await;
        let model = Scripted::answering([calls(&[("c1", "hang", "{}")]), says("A pity")]);
        let log = run(&agent_with(&model, server), input("r", json!({}))).await;
        assert_eq!(end(&log), (EndStatus::Completed, None));
        let [(_, ok, why)] = &results(&log)[..] else { panic!("{}", log.dump()) };
        assert!(!ok && why.contains("did not answer within 1000 ms"), "{why}");

        let server = serving(Duration::from_secs(1), true, &mark).await;
        let model = Scripted::answering([calls(&[("c1", "hang", "{}")])]);
        let log = run(&agent_with(&model, server), input("r", json!({}))).await;
        assert_eq!((end(&log), log.error().2), ((EndStatus::Failed, Some("TIMEOUT")), true));
    }

    #[tokio::test]
    async fn a_stop_gives_up_a_tool_of_an_mcp_server_that_never_returns() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let server = serving(Duration::from_secs(3600), true, &mark).await;
        let bed = agent_with(&Scripted::answering([calls(&[("c1", "hang", "{}")])]), server);
        let run_id = bed.create(request("a", input("r", json!({})))).await.unwrap().record.run_id;
        fixture::patiently(async {
            while !mark.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        bed.engine.cancel(&run_id).await.unwrap();
        let log = bed.ended(&run_id).await;
        assert_eq!((end(&log), outcome(&log)), ((EndStatus::Cancelled, None), Some(RunFinishedOutcome::Cancelled)));
        assert_eq!(results(&log), []);
    }
}
