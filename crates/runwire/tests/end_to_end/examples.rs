//! What stands in `examples/`, run as its files say.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{command, finish};
use crate::serving::Serving;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Copies an example, so that a run of it leaves nothing in the repository, and serves it.
async fn serve(name: &str, to: &Path) -> Serving {
    for entry in std::fs::read_dir(folder(name)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let config = std::fs::read_to_string(to.join("runwire.toml")).unwrap();
    Serving::start(to, &config).await
}

/// Runs `runwire run AGENT PROMPT --json` and gives the frames.
async fn run(server: &Serving, folder: &Path, agent: &str, prompt: &str) -> Vec<Value> {
    let args = ["run", agent, prompt, "--json", "--server", server.url()];
    finish(command(folder).args(args), &args).await.exits(0).json_lines()
}

fn of_type<'a>(frames: &'a [Value], kind: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame["type"] == kind).map(|frame| &frame["data"]).collect()
}

fn text(frames: &[Value]) -> String {
    of_type(frames, "text.delta").iter().map(|data| data["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_exec_examples_answer_with_text_with_a_tool_call_and_with_state() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve("exec", dir.path()).await;

    let frames = run(&server, dir.path(), "countdown", "Count down from 4, please").await;
    assert_eq!(text(&frames), "4 … 3 … 2 … 1 … ");
    let result = of_type(&frames, "tool.result");
    assert_eq!((result.len(), &result[0]["output_preview"]), (1, &json!("lift-off")));
    let calls = of_type(&frames, "tool.call");
    assert_eq!(calls.last().unwrap()["arguments"], "{\"counted\": 4}");
    let states: Vec<&Value> =
        of_type(&frames, "notice").into_iter().filter(|n| n["code"] == "agui.STATE_DELTA").collect();
    assert_eq!(states.len(), 4);
    assert_eq!(of_type(&frames, "run.end")[0]["agui"]["result"], json!({ "counted": 4 }));

    let frames = run(&server, dir.path(), "words", "How many words are these?").await;
    assert_eq!(text(&frames), "Your message has 5 words.\n");

    let log = server.log();
    for heard in ["counting down from 4", "counting words"] {
        assert!(log.contains(heard), "standard error is in the server's log:\n{log}");
    }
}

#[tokio::test]
async fn the_worker_executes_what_is_queued() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve("external", dir.path()).await;
    let mut worker = tokio::process::Command::new("python3");
    let mut worker = worker.args(["worker.py", server.url(), "shout", "2"]).current_dir(dir.path());
    worker = worker.stdout(std::process::Stdio::piped()).kill_on_drop(true);
    let worker = worker.spawn().unwrap();
    for prompt in ["hello there", "and again"] {
        let frames = run(&server, dir.path(), "shout", prompt).await;
        let louder: String = prompt.to_uppercase().split(' ').map(|word| format!("{word}! ")).collect();
        assert_eq!(text(&frames), louder);
    }
    let done = tokio::time::timeout(crate::program::PATIENCE, worker.wait_with_output()).await.unwrap().unwrap();
    assert!(done.status.success());
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(said.lines().filter(|line| line.ends_with(" completed")).count(), 2, "{said}");
}
