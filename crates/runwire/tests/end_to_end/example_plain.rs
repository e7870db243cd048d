//! The page of `examples/plain`, bundled and served as its `npm start` says, in Chromium, against a real server of another origin.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::program::PATIENCE;
use crate::real_part::{self, script};
use crate::serving::Serving;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plain")
}

/// `npm start`, at a port of its own. It ends with the test that started it.
struct PageServer {
    origin: String,
    _child: Child,
    // It serves for as long as this is open.
    _stdin: ChildStdin,
}

impl PageServer {
    async fn start() -> PageServer {
        let package = std::fs::read_to_string(folder().join("package.json")).unwrap();
        let package: Value = serde_json::from_str(&package).unwrap();
        let start = package["scripts"]["start"].as_str().unwrap();
        let mut words = start.split(' ');
        assert_eq!(words.next(), Some("esbuild"), "{start}");
        assert!(start.contains(":5173"), "the port that runwire.toml allows: {start}");
        let mut child = Command::new(folder().join("node_modules/.bin/esbuild"))
            .args(words.map(|word| word.replace(":5173", ":0")))
            .current_dir(folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let listening = async {
            while let Some(line) = said.next_line().await.unwrap() {
                if let Some(at) = line.find("http://127.0.0.1:") {
                    return line[at..].trim_end_matches('/').to_owned();
                }
            }
            panic!("esbuild ended before it served");
        };
        let origin = tokio::time::timeout(PATIENCE, listening).await.expect("esbuild says where it serves");
        // What it writes later is its own matter, and must not stop it.
        tokio::spawn(async move { while said.next_line().await.is_ok_and(|line| line.is_some()) {} });
        PageServer { origin, _child: child, _stdin: stdin }
    }
}

/// Both commands of the README: the page, and a server whose configuration lets the page read.
async fn both(folder_of_test: &Path) -> (PageServer, Serving) {
    let page = PageServer::start().await;
    let config = std::fs::read_to_string(folder().join("runwire.toml")).unwrap();
    assert!(config.contains("\"http://127.0.0.1:5173\""), "{config}");
    let long = "\n[agents.long]\ndriver = \"demo\"\npace = \"2ms\"\nrepeat = 100000\n";
    // Slow enough to be loaded again in the middle, on a busy machine too.
    let slow = config.replace("driver = \"demo\"", "driver = \"demo\"\npace = \"60ms\"");
    let config = slow.replace("http://127.0.0.1:5173", &page.origin) + long;
    let server = Serving::start(folder_of_test, &config).await;
    (page, server)
}

async fn use_page(page: &PageServer, server: &Serving, agent: &str, scenario: &str) -> Value {
    let at = format!("{}/", page.origin);
    let args = ["--page", &at, "--url", server.url(), "--agent", agent, "--do", scenario, "--timeout", "55"];
    let seen = script("example-plain.mjs", &args).await;
    assert_eq!(seen["origins"], json!([]), "the page asks nobody but its own server and Runwire: {seen:#}");
    seen
}

/// The thread as the server has it.
async fn thread(server: &Serving, seen: &Value) -> Value {
    let at = server.at(&format!("/v2/sessions/{}", seen["thread"].as_str().unwrap()));
    serde_json::from_str(&crate::serving::http(&at).await).unwrap()
}

/// What the page shows has to be the thread: each message once, in its order, whole.
#[track_caller]
fn shows_the_thread(seen: &Value, thread: &Value) {
    let messages = thread["messages"].as_array().unwrap();
    let expected: Vec<(&str, &str)> = messages
        .iter()
        .filter(|message| message["role"] != "tool")
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap_or_default()))
        .collect();
    let shown: Vec<(&str, &str)> = seen["shown"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] != "note")
        .map(|item| (item["kind"].as_str().unwrap(), item["text"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, expected, "{seen:#}");
}

fn calls(seen: &Value) -> Vec<&str> {
    let shown = seen["shown"].as_array().unwrap();
    shown.iter().flat_map(|item| item["calls"].as_array().unwrap()).map(|call| call.as_str().unwrap()).collect()
}

fn notes(seen: &Value) -> Vec<&str> {
    let shown = seen["shown"].as_array().unwrap();
    shown.iter().filter(|item| item["kind"] == "note").map(|item| item["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_plain_page_loses_nothing_to_cuts_and_a_reload_in_mid_run_and_shows_nothing_twice() {
    if !real_part::browser() || !real_part::plain_example() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (page, server) = both(dir.path()).await;
    let seen = use_page(&page, &server, "demo", "survive").await;
    assert_eq!(seen["cuts"].as_array().unwrap().len(), 2, "in the answer, and after the reload: {seen:#}");
    let thread = thread(&server, &seen).await;
    shows_the_thread(&seen, &thread);
    assert_eq!(thread["runs"].as_array().unwrap().len(), 2, "neither a cut nor the reload ran anything again");
    assert_eq!(calls(&seen).len(), 2, "{seen:#}");
    assert!(calls(&seen)[0].contains("How long is this?") && calls(&seen)[0].contains(" → {"), "{seen:#}");
    let before = seen["loads"][0].as_array().unwrap().last().unwrap();
    assert!(!before["text"].as_str().unwrap().contains("nothing twice."), "loaded again in the middle: {seen:#}");
    assert_eq!(notes(&seen), [""; 0], "{seen:#}");
}

#[tokio::test]
async fn the_plain_page_still_asks_after_a_reload_and_goes_on_with_the_answer() {
    if !real_part::browser() || !real_part::plain_example() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (page, server) = both(dir.path()).await;
    let seen = use_page(&page, &server, "demo", "approve").await;
    let thread = thread(&server, &seen).await;
    shows_the_thread(&seen, &thread);
    assert_eq!(thread["runs"].as_array().unwrap().len(), 1, "{thread:#}");
    assert_eq!(thread["runs"][0]["status"], "completed", "{thread:#}");
    assert!(calls(&seen)[0].contains(" → {\"characters\":19"), "the tool ran: {seen:#}");
    assert_eq!(seen["complaints"], json!([]));
}

#[tokio::test]
async fn stop_on_the_plain_page_stops_the_run_on_the_server() {
    if !real_part::browser() || !real_part::plain_example() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (page, server) = both(dir.path()).await;
    let seen = use_page(&page, &server, "long", "stop").await;
    let thread = thread(&server, &seen).await;
    shows_the_thread(&seen, &thread);
    assert_eq!(thread["runs"][0]["status"], "cancelled", "{thread:#}");
    assert_eq!(notes(&seen), ["The run was stopped."], "and it is shown as neither a success nor a failure");
    assert_eq!(seen["complaints"], json!([]));
}
