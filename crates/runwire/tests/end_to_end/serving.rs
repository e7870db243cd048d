//! `runwire serve`, while it serves.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::StreamExt as _;
use runwire_client::{CreateRun, Followed, RunFilter, RunRecord, Server};
use runwire_frame::Frame;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::program::{PATIENCE, command};

/// A demo agent at a pace that tests can wait for, one that takes some seconds, and one that only a stop ends.
pub const AGENTS: &str = r#"
[agents.demo]
driver = "demo"
pace = "2ms"

[agents.medium]
driver = "demo"
pace = "2ms"
repeat = 15

[agents.long]
driver = "demo"
pace = "2ms"
repeat = 100000
"#;

/// A server process. It ends with the test that started it.
pub struct Serving {
    child: Child,
    /// The first line of its standard output.
    pub announced: Value,
    log: PathBuf,
    // Held open: a server that writes another line must not be ended by it.
    _stdout: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Serving {
    /// Serves on a free port, from the store `runwire.db` in `folder`.
    pub async fn start(folder: &Path, config: &str) -> Serving {
        Serving::start_at(folder, config, "127.0.0.1:0").await
    }

    /// Serves at an address.
    pub async fn start_at(folder: &Path, config: &str, listen: &str) -> Serving {
        Serving::start_as(command(folder), folder, config, listen).await
    }

    /// Serves by a command that is or becomes the binary.
    pub async fn start_as(mut command: Command, folder: &Path, config: &str, listen: &str) -> Serving {
        std::fs::write(folder.join("runwire.toml"), config).unwrap();
        let log = folder.join("serve.log");
        let log_file: File = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let mut child = command
            .args(["serve", "--config", "runwire.toml", "--json", "--listen", listen])
            .stderr(log_file)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, stdout.next_line()).await.expect("the server says where it listens");
        let Some(line) = line.unwrap() else {
            panic!("the server ended before it served:\n{}", std::fs::read_to_string(&log).unwrap())
        };
        let announced = serde_json::from_str(&line).unwrap();
        Serving { child, announced, log, _stdout: stdout }
    }

    /// Its address, as `http://…`.
    pub fn url(&self) -> &str {
        self.announced["listening"].as_str().unwrap()
    }

    /// An address on it.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url())
    }

    /// A WebSocket address on it.
    pub fn ws_at(&self, path: &str) -> String {
        self.at(path).replacen("http", "ws", 1)
    }

    /// A client of it.
    pub fn client(&self) -> Server {
        client(self.url())
    }

    /// What it wrote to its log until now.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Starts a run over the run API.
    pub async fn create(&self, agent: &str) -> String {
        self.client().create_run(&CreateRun::prompt(agent, "How long is this?")).await.unwrap().run_id().to_owned()
    }

    /// The run of a conversation that has only one, once it is in the store.
    pub async fn only_run_of(&self, session: &str) -> RunRecord {
        let filter = RunFilter { session_id: Some(session.to_owned()), ..RunFilter::default() };
        self.patiently("the run to be created", async || {
            let runs = self.client().runs(&filter).await.unwrap().runs;
            assert!(runs.len() <= 1, "{runs:?}");
            runs.into_iter().next()
        })
        .await
    }

    /// Reads the run's log, live, until a frame is the one that is waited for.
    pub async fn wait_for(&self, run_id: &str, mut is_it: impl FnMut(&Frame) -> bool) {
        let mut frames = self.client().follow(run_id).start();
        let search = async {
            while let Some(followed) = frames.next().await {
                if let Followed::Frame { frame, .. } = followed.unwrap()
                    && is_it(&frame)
                {
                    return;
                }
            }
            panic!("the run ended before the frame that was waited for");
        };
        tokio::time::timeout(PATIENCE, search).await.expect("the frame comes");
    }

    /// The bodies of the run's whole log, exactly as the server sends them, in pages of frames.
    pub async fn log_of(&self, run_id: &str) -> Vec<String> {
        let mut bodies = Vec::new();
        loop {
            let page = http(&self.at(&format!("/v2/runs/{run_id}/frames?after={}&limit=1000", bodies.len()))).await;
            let frames = raw_frames(&page);
            if frames.is_empty() {
                return bodies;
            }
            bodies.extend(frames);
        }
    }

    /// Asks until there is an answer.
    pub async fn patiently<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("waited for {what} in vain"))
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it has not ended yet")
    }

    /// Asks it to stop, as an operator does, without waiting.
    pub async fn terminate(&self) {
        signal("TERM", self.pid()).await;
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the server ends").unwrap()
    }

    /// Asks it to stop and waits until it has: what it started has ended with it then.
    pub async fn stop(mut self) {
        self.terminate().await;
        self.ended().await;
    }

    /// SIGKILL: it hears nothing of it.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// A client of a server.
pub fn client(url: &str) -> Server {
    // Tests of one process share it; the first of them installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Server::new(url, None).unwrap()
}

/// Sends a signal to one process.
pub async fn signal(name: &str, pid: u32) {
    let sent = tokio::process::Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().await.unwrap();
    assert!(sent.success(), "signal {name} to process {pid}");
}

/// The body of an address that answers with 200.
pub async fn http(url: &str) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let response = reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap();
    assert_eq!(response.status(), 200, "{url}");
    response.text().await.unwrap()
}

/// The frames of a page, byte for byte: where each of them ends is for the JSON reader to say, and nothing is written anew.
fn raw_frames(page: &str) -> Vec<String> {
    let mut rest = page.strip_prefix(r#"{"frames":["#).unwrap_or_else(|| panic!("no page of frames: {page}"));
    let mut bodies = Vec::new();
    while !rest.starts_with(']') {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde::de::IgnoredAny>();
        values.next().unwrap().unwrap();
        let (body, after) = rest.split_at(values.byte_offset());
        bodies.push(body.to_owned());
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    bodies
}
