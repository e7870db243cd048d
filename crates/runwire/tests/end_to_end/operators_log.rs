//! The operator's log of a server, as it is read on a terminal: others' words are in it, and write nothing of their own.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};

use crate::program::{PATIENCE, command};

/// A server whose log is the text that a person reads.
struct Logging {
    _child: Child,
    _stdout: tokio::io::Lines<BufReader<ChildStdout>>,
    url: String,
    log: std::path::PathBuf,
}

impl Logging {
    async fn start(folder: &Path, config: &str) -> Logging {
        std::fs::write(folder.join("runwire.toml"), config).unwrap();
        let log = folder.join("serve.log");
        let mut child = command(folder)
            .args(["serve", "--config", "runwire.toml", "--listen", "127.0.0.1:0"])
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, stdout.next_line()).await.expect("the server says where it listens");
        let url = line.unwrap().unwrap().split_once(" serves ").unwrap().1.to_owned();
        Logging { _child: child, _stdout: stdout, url, log }
    }

    /// Posts the input, and reads its events to their end.
    async fn post(&self, agent: &str, input: &Value) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = http.post(format!("{}/agui/{agent}", self.url)).json(input).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap()
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.log).unwrap().lines().map(str::to_owned).collect()
    }
}

/// An agent that says the events in `events.ndjson`, of thread `t` and run `r`.
const AGENTS: &str = r#"
[agents.demo]
driver = "demo"
pace = "0ms"

[agents.saying]
driver = "exec"
command = ["cat", "events.ndjson"]
output = "agui"
"#;

fn says(folder: &Path, event: &Value) {
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0"});
    let finished = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"});
    std::fs::write(folder.join("events.ndjson"), format!("{started}\n{event}\n{finished}\n")).unwrap();
}

fn input(thread: &str, run: &str, messages: Value) -> Value {
    json!({"threadId": thread, "runId": run, "messages": messages, "protocolVersion": "1.0"})
}

#[tokio::test]
async fn neither_a_client_nor_an_agent_writes_a_line_into_the_operator_s_log() {
    let folder = tempfile::tempdir().unwrap();
    let forged = "x\n2026-11-30T13:24:06Z ERROR runwire: forged";
    says(folder.path(), &json!({"type": forged}));
    let server = Logging::start(folder.path(), AGENTS).await;

    let mut member = input("t1", "r1", json!([]));
    member[forged] = json!(1);
    server.post("demo", &member).await;
    // Ids, a declared version and an answer that nobody asked for are a client's words as well.
    let mut ids = input(forged, forged, json!([]));
    ids["protocolVersion"] = json!(forged);
    ids["resume"] = json!([{"interruptId": forged, "status": "cancelled"}]);
    server.post("demo", &ids).await;
    let events = server.post("saying", &input("t", "r", json!([]))).await;
    assert!(events.contains("RUN_FINISHED"), "{events}");

    let lines = server.lines();
    assert!(!lines.iter().any(|line| line.starts_with("2026-11-30T13:24:06Z")), "{lines:#?}");
    let with = |words: &str| lines.iter().filter(|line| line.contains(words) && line.contains("forged")).count();
    for words in ["the run input carries /x", "protocol version", "`resume` answers", "no event type of AG-UI"] {
        assert_eq!(with(words), 1, "{words}: {lines:#?}");
    }
    let of_input = lines.iter().find(|line| line.contains("the run input carries")).unwrap();
    assert!(of_input.contains("exchange_id=\"r1\"") && !of_input.contains("event 0"), "{of_input}");
}

#[tokio::test]
async fn an_event_or_an_input_that_is_wrong_in_every_place_fills_neither_the_log_nor_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = Value::Array(vec![json!({"role": ""}); 20_000]);
    says(folder.path(), &json!({"type": "MESSAGES_SNAPSHOT", "messages": wrong}));
    let server = Logging::start(folder.path(), AGENTS).await;

    server.post("demo", &input("t1", "r1", wrong)).await;
    let lines = server.lines();
    assert_eq!(lines.iter().filter(|line| line.contains("exchange_id=\"r1\"")).count(), 101, "{}", lines.len());
    assert!(lines.iter().any(|line| line.contains("19900 more of the same input")), "{}", lines.len());

    let events = server.post("saying", &input("t", "r", json!([]))).await;
    assert!(events.len() < 200_000, "{} bytes", events.len());
    assert_eq!(events.matches("runwire.notice").count(), 101);
    assert!(events.contains("19900 more of the same event") && events.contains("RUN_FINISHED"));
    assert_eq!(server.lines().iter().filter(|line| line.contains("the stream of ")).count(), 101);
}
