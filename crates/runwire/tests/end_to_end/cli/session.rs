//! `runwire tail --session`: all runs of a conversation, also those to come; and `runwire schema`.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::program::{PATIENCE, command, run};
use crate::serving::{AGENTS, Serving};

#[tokio::test]
async fn a_session_is_followed_over_its_runs_as_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let ask = async |words: &str| {
        let args = ["run", "demo", words, "--session", "talk", "--json", "--server", server.url()];
        run(folder.path(), &args).await.exits(0).stdout
    };
    let first = ask("The first").await;
    let mut tail = command(folder.path())
        .args(["tail", "--session", "talk", "--json", "--server", server.url()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = async |count: usize| {
        let mut text = String::new();
        for _ in 0..count {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("there is more to tell");
            text += &format!("{}\n", line.unwrap().expect("a session has no end"));
        }
        text
    };
    assert_eq!(next(first.lines().count()).await, first);
    let second = ask("The second").await;
    assert_eq!(next(second.lines().count()).await, second);
    tail.kill().await.unwrap();

    run(folder.path(), &["tail", "--session", "nobodys", "--server", server.url()])
        .await
        .could_not(&["there is no session `nobodys`"]);
    let past = ["tail", "--session", "talk", "--after", "run_x:1", "--server", server.url()];
    run(folder.path(), &past).await.could_not(&["run `run_x`"]);
    run(folder.path(), &["tail"]).await.could_not(&["<RUN>"]);
}

#[tokio::test]
async fn every_frame_of_a_server_validates_against_the_schema_that_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let printed = run(folder.path(), &["schema", "frame"]).await.exits(0);
    let schema: Value = serde_json::from_str(&printed.stdout).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let args = ["run", "demo", "Validate this", "--json", "--server", server.url()];
    let frames = run(folder.path(), &args).await.exits(0).json_lines();
    assert!(frames.len() > 10);
    for mut frame in frames {
        let errors: Vec<String> = validator.iter_errors(&frame).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}\n{frame}");
        frame["data"]["a_later_key"] = Value::Null;
        assert!(validator.is_valid(&frame), "a key in data is additive");
        frame["a_later_key"] = Value::Null;
        assert!(!validator.is_valid(&frame), "the envelope is closed");
    }
}
