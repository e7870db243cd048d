//! `runwire run --idempotency-key`: the same command again follows the run that is there, whatever became of the server in
//! between.

use serde_json::Value;

use crate::program::{Done, run};
use crate::serving::{AGENTS, Serving};

fn run_id(frames: &Done) -> Value {
    frames.json_lines()[0]["run_id"].clone()
}

#[tokio::test]
async fn the_same_command_after_the_server_was_killed_follows_the_run_that_the_first_one_started() {
    let folder = tempfile::tempdir().unwrap();
    // Only one run of a session is taken: a repetition must not be refused for the run that it asks for.
    let config = format!("{AGENTS}\n[agents.strict]\ndriver = \"demo\"\npace = \"2ms\"\nconcurrency = \"refuse\"\n");
    let server = Serving::start(folder.path(), &config).await;
    let ask = async |server: &Serving, prompt: &str, key: &str| {
        let args = ["run", "strict", prompt, "--session", "s", "--idempotency-key", key, "--json"];
        run(folder.path(), &[&args[..], &["--server", server.url()]].concat()).await
    };
    let first = ask(&server, "Count these words", "order-4711").await.exits(0);
    let asking = ask(&server, "Let me approve this", "order-4712").await.exits(4);
    server.kill().await;

    let server = Serving::start(folder.path(), &config).await;
    let again = ask(&server, "Count these words", "order-4711").await.exits(0);
    assert_eq!(again.stdout, first.stdout, "byte for byte");
    let waits = ask(&server, "Let me approve this", "order-4712").await.exits(4);
    assert_eq!(waits.stdout, asking.stdout);
    // Once it is answered it is followed to its end, past the question.
    let id = run_id(&asking);
    let answer = ["resume", id.as_str().unwrap(), "--approve", "--follow", "--server", server.url()];
    run(folder.path(), &answer).await.exits(0);
    let whole = ask(&server, "Let me approve this", "order-4712").await.exits(0);
    assert!(whole.stdout.starts_with(&asking.stdout) && whole.stdout.contains("run.end"), "{}", whole.stdout);

    ask(&server, "Count other words", "order-4711").await.could_not(&["422", "`order-4711`", "another key"]);
    ask(&server, "Count these words", "no key").await.could_not(&["`no key`", "255", "spaces"]);
    let runs = run(folder.path(), &["runs", "--json", "--server", server.url()]).await.exits(0);
    let runs: Value = serde_json::from_str(&runs.stdout).unwrap();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{runs}");
    // What was remembered is part of what is proven to be consistent.
    server.kill().await;
    run(folder.path(), &["verify-log", "--store", "runwire.db"]).await.exits(0);
}
