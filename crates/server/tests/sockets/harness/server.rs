//! A server in this process, on a port of its own and a store of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Client, RequestBuilder, Response};
use runwire_engine::drivers::{DemoDriver, DemoOptions};
use runwire_engine::{Agent, AgentPolicy, Driver, Engine, EngineOptions};
use runwire_server::{App, Rights, ServerOptions, Tokens, serve};
use runwire_store::{RunRecord, Store, StoreOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::soon;

/// How a server of a test is set up: by default without tokens, and with the agent `demo` at full speed.
pub struct Setup {
    options: ServerOptions,
    store: StoreOptions,
    tokens: Option<Tokens>,
    agents: Vec<Agent>,
    send_buffer: Option<u32>,
    cancel_grace: Duration,
}

impl Setup {
    pub fn new() -> Setup {
        let demo = DemoDriver::new(DemoOptions { pace: Duration::ZERO, ..DemoOptions::default() });
        let setup = Setup {
            options: ServerOptions::default(),
            store: StoreOptions::default(),
            tokens: None,
            agents: Vec::new(),
            send_buffer: None,
            cancel_grace: Duration::from_millis(200),
        };
        setup.agent("demo", demo)
    }

    pub fn agent(mut self, id: &str, driver: impl Driver) -> Setup {
        self.agents.push(Agent {
            id: id.to_owned(),
            revision: None,
            description: None,
            driver: Arc::new(driver),
            policy: AgentPolicy::default(),
        });
        self
    }

    /// A token, which is also the name of its holder, who may see only its own runs.
    pub fn token(self, name: &str) -> Setup {
        self.any_token(name, false)
    }

    /// A token whose holder may see all runs.
    pub fn token_for_all(self, name: &str) -> Setup {
        self.any_token(name, true)
    }

    fn any_token(mut self, name: &str, all_runs: bool) -> Setup {
        self.tokens.get_or_insert_default().add(name, name, all_runs).unwrap();
        self
    }

    pub fn options(mut self, change: impl FnOnce(&mut ServerOptions)) -> Setup {
        change(&mut self.options);
        self
    }

    pub fn store(mut self, change: impl FnOnce(&mut StoreOptions)) -> Setup {
        change(&mut self.store);
        self
    }

    /// A token, which is also the name of its holder, who may execute runs from outside.
    pub fn token_for_executor(mut self, name: &str, all_runs: bool) -> Setup {
        let rights = Rights { all_runs, push: true };
        self.tokens.get_or_insert_default().add_with(name, name, rights).unwrap();
        self
    }

    /// How long a run has after a stop.
    pub fn cancel_grace(mut self, grace: Duration) -> Setup {
        self.cancel_grace = grace;
        self
    }

    /// How many bytes the system may hold back for a connection's peer.
    pub fn send_buffer(mut self, bytes: u32) -> Setup {
        self.send_buffer = Some(bytes);
        self
    }

    pub async fn start(self) -> Server {
        static TLS: Once = Once::new();
        TLS.call_once(|| rustls::crypto::ring::default_provider().install_default().unwrap());
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("runs.db");
        let store = tokio::task::spawn_blocking(move || Store::open(&path, self.store)).await.unwrap().unwrap();
        let options = EngineOptions { cancel_grace: self.cancel_grace, ..EngineOptions::default() };
        let engine = Engine::new(store.clone(), self.agents, options);
        let app = App::new(engine.clone(), self.tokens, self.options.clone());
        let mut server = Server {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            store,
            engine,
            http: Client::new(),
            options: self.options,
            send_buffer: self.send_buffer,
            shutdown: CancellationToken::new(),
            serving: tokio::spawn(async {}),
            dir,
        };
        server.listen(app);
        server
    }
}

pub struct Server {
    pub address: SocketAddr,
    pub store: Store,
    pub engine: Engine,
    pub http: Client,
    options: ServerOptions,
    send_buffer: Option<u32>,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
    dir: TempDir,
}

impl Server {
    fn listen(&mut self, app: App) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        if let Some(bytes) = self.send_buffer {
            // Connections have what their listener has.
            socket.set_send_buffer_size(bytes).unwrap();
        }
        socket.bind(self.address).unwrap();
        let listener = socket.listen(1024).unwrap();
        self.address = listener.local_addr().unwrap();
        self.shutdown = CancellationToken::new();
        self.serving = tokio::spawn(serve(listener, app, self.shutdown.clone()));
    }

    /// Shuts the server down, but neither its engine nor its store.
    pub async fn stop(&mut self) {
        self.shutdown.cancel();
        soon(&mut self.serving).await.unwrap();
    }

    /// Another server on the same store and address. The one before has stopped.
    pub fn start_again(&mut self) {
        self.listen(App::new(self.engine.clone(), None, self.options.clone()));
    }

    /// The store's file.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("runs.db")
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(self.url(path))
    }

    pub fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.http.post(self.url(path)).json(body)
    }

    /// The JSON that is at `path`.
    pub async fn json(&self, path: &str) -> Value {
        let response = soon(self.get(path).send()).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    /// Creates a run by its API.
    pub async fn create(&self, agent: &str) -> String {
        let response = soon(self.post("/v2/runs", &json!({ "agent_id": agent, "prompt": "héllo wide world" })).send());
        let record: Value = response.await.unwrap().json().await.unwrap();
        record["run_id"].as_str().unwrap_or_else(|| panic!("no run: {record}")).to_owned()
    }

    /// Waits until the run has ended.
    pub async fn ended(&self, run_id: &str) -> RunRecord {
        self.until(run_id, |record| record.ended_at.is_some()).await
    }

    /// Waits until the run has so many frames.
    pub async fn reached(&self, run_id: &str, seq: u64) {
        self.until(run_id, |record| record.head >= seq).await;
    }

    /// Waits until this is so of the run.
    pub async fn until(&self, run_id: &str, so: impl Fn(&RunRecord) -> bool) -> RunRecord {
        soon(async {
            loop {
                let record = self.store.run(run_id).await.unwrap().unwrap();
                if so(&record) {
                    return record;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await
    }

    /// A run of the demo agent that has ended.
    pub async fn demo(&self) -> String {
        let run_id = self.create("demo").await;
        self.ended(&run_id).await;
        run_id
    }

    /// The bodies of a run's frames, as they are in the store.
    pub async fn log(&self, run_id: &str) -> Vec<Bytes> {
        let mut log: Vec<Bytes> = Vec::new();
        loop {
            let page = self.store.read(run_id, log.len() as u64, 1000).await.unwrap();
            if page.is_empty() {
                return log;
            }
            log.extend(page.iter().map(|entry| entry.body()));
        }
    }
}

/// The problem that a response is. Checks that it is one in form, too.
pub async fn problem(response: Response) -> Value {
    let status = response.status().as_u16();
    let content_type = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    assert_eq!(content_type.as_deref(), Some("application/problem+json"), "{status}: {text}");
    let problem: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(problem["status"], status, "{problem}");
    for key in ["type", "title", "detail"] {
        assert!(problem[key].as_str().is_some_and(|said| !said.is_empty()), "{key}: {problem}");
    }
    problem
}
