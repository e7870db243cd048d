//! Released clients and a real agent, as child processes. `tests/real/README.md` says what each of them is and prints.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::program::PATIENCE;

/// The released versions of `@ag-ui/client` that must work unchanged.
pub const CLIENTS: [&str; 2] = ["1.0.0", "0.0.59"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/real")
}

/// Whether the Node programs can be run. Where not, the test that asked must return, and has been loud about it.
pub fn node() -> bool {
    let runs = || std::process::Command::new("node").arg("--version").stdout(Stdio::null()).status();
    is_there(
        "AG-UI clients and stream readers (Node.js)",
        folder().join("node_modules/.runwire-ready").is_file() && runs().is_ok_and(|status| status.success()),
    )
}

/// Whether TypeScript's compiler can be run; and if so, where it is.
pub fn typescript() -> Option<PathBuf> {
    let compiler = folder().join("node_modules/typescript/bin/tsc");
    (is_there("TypeScript compiler (Node.js)", compiler.is_file()) && node()).then_some(compiler)
}

/// Whether the pydantic-ai agent can be run, and the clients with it.
pub fn agent() -> bool {
    is_there("pydantic-ai agent (Python)", folder().join(".venv/.runwire-ready").is_file()) && node()
}

/// Whether Chromium can be run, and the Node program that drives it.
pub fn browser() -> bool {
    let program = std::fs::read_to_string(folder().join("node_modules/.runwire-browser"));
    is_there("browser (Chromium)", program.is_ok_and(|program| Path::new(&program).is_file())) && node()
}

/// Whether the packages of `examples/plain` are installed.
pub fn plain_example() -> bool {
    let installed = folder().join("../../examples/plain/node_modules/.runwire-ready");
    is_there("packages of examples/plain (Node.js)", installed.is_file()) && node()
}

/// Whether the CopilotKit app of the examples is built, and a browser is there for it.
pub fn copilotkit() -> bool {
    let built = folder().join("../../examples/copilotkit/dist/.runwire-ready");
    is_there("CopilotKit app (Node.js)", built.is_file()) && browser()
}

/// # Panics
/// Where `CI` is set: there every part has to be.
fn is_there(part: &str, there: bool) -> bool {
    if !there {
        let missing = format!("REAL PART MISSING: {part}; run tests/real/setup.sh. This test proved NOTHING.");
        loudly(&missing);
        assert!(std::env::var_os("CI").is_none(), "{missing}");
    }
    there
}

/// Says what was not tested, also where the output of a test that passes is kept from view.
pub fn loudly(text: &str) {
    // `eprintln` is what the test harness captures; standard error itself is not.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs a Node program of `tests/real` to its end and reads its document.
pub async fn script(name: &str, args: &[&str]) -> Value {
    document(Command::new("node").arg(name).args(args), name, args).await
}

/// Runs a Python program of `tests/real` to its end and reads its document.
pub async fn python(name: &str, args: &[&str]) -> Value {
    document(Command::new(folder().join(".venv/bin/python")).arg(name).args(args), name, args).await
}

/// Runs a Node program that a test brings along, from within `tests/real`, so that it finds the packages there.
pub async fn source(program: &str, args: &[&str]) -> Value {
    let mut command = Command::new("node");
    command.args(["--input-type=module", "--eval", program, "--"]).args(args);
    document(&mut command, "a program of a test", args).await
}

async fn document(command: &mut Command, name: &str, args: &[&str]) -> Value {
    let command = command.current_dir(folder()).stdin(Stdio::null()).kill_on_drop(true);
    let done = tokio::time::timeout(PATIENCE, command.output()).await;
    let done = done.unwrap_or_else(|_| panic!("{name} {args:?} did not end")).unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{name} {args:?}: {}\n{stdout}\n{stderr}", done.status);
    serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{name} {args:?}: {e}\n{stdout}\n{stderr}"))
}

/// One run by a released `@ag-ui/client`.
pub async fn agui_client(version: &str, url: &str, more: &[&str]) -> Value {
    script("agui-client.mjs", &[&["--url", url, "--client", version], more].concat()).await
}

/// What an AG-UI client was given, in order.
pub fn events(document: &Value) -> &[Value] {
    document["events"].as_array().unwrap()
}

/// The types of the events, a row of the same type counted once: how deltas are cut is nobody's promise.
pub fn kinds(document: &Value) -> Vec<&str> {
    let mut kinds: Vec<&str> = events(document).iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds
}

/// The last event.
pub fn last(document: &Value) -> &Value {
    events(document).last().unwrap()
}

/// Checks that the client took the run without an objection of any kind.
#[track_caller]
pub fn taken_quietly(document: &Value) {
    assert_eq!(document["outcome"], "resolved", "{document:#}");
    for nothing in ["warnings", "unhandled"] {
        assert_eq!(document[nothing], serde_json::json!([]), "{document:#}");
    }
}

/// The pydantic-ai agent behind its own AG-UI endpoint. It ends with the test that started it.
pub struct UpstreamAgent {
    child: Child,
    /// Its endpoint.
    pub url: String,
    log: PathBuf,
    // Held open for as long as it runs.
    _stdout: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl UpstreamAgent {
    /// Starts it, with the log in `folder_of_test`. The delay is the time that its first tool takes.
    pub async fn start(folder_of_test: &Path, tool_delay_seconds: f32) -> UpstreamAgent {
        let log = folder_of_test.join("agent.log");
        let mut child = Command::new(folder().join(".venv/bin/python"))
            .arg(folder().join("upstream/agent.py"))
            .args(["--lifetime", "120", "--tool-delay", &tool_delay_seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, stdout.next_line()).await.expect("the agent starts").unwrap();
        let line = line.unwrap_or_else(|| panic!("{}", std::fs::read_to_string(&log).unwrap()));
        let url = format!("http://{}/", line.strip_prefix("listening ").unwrap());
        UpstreamAgent { child, url, log, _stdout: stdout }
    }

    /// How many requests it has answered.
    pub fn requests(&self) -> usize {
        std::fs::read_to_string(&self.log).unwrap().matches("\"POST / HTTP/1.1\"").count()
    }

    /// SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}
