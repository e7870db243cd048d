//! `runwire demo`

use runwire_frame::{Data, Frame, LogValidator};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::program::{PATIENCE, command, run};
use crate::serving::{client, signal};

const ONCE: [&str; 6] = ["demo", "--once", "--listen", "127.0.0.1:0", "--store", "demo.db"];

#[tokio::test]
async fn demo_tells_of_the_cut_and_the_resume_and_its_run_is_there_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(folder.path(), &ONCE).await.exits(0);
    let number = |words: &str| -> u64 {
        let after =
            first.stdout.split(words).nth(1).unwrap_or_else(|| panic!("`{words}` is not in:\n{}", first.stdout));
        after.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let cut = number("connection dropped on purpose after frame");
    assert_eq!(number("✚ resumed at frame"), cut + 1, "{}", first.stdout);
    let from_there = format!("/stream?after={cut}'");
    for words in [
        &*from_there,
        "nothing missed",
        "runwire/demo:",
        "tokens in",
        "measure_text",
        "/agui/demo",
        "/stream",
        "run completed",
    ] {
        assert!(first.stdout.contains(words), "`{words}` is not in:\n{}", first.stdout);
    }

    let second = run(folder.path(), &[&ONCE[..], &["--json", "Count these four words"]].concat()).await.exits(0);
    assert!(second.stderr.contains("with 1 earlier run in it"), "{}", second.stderr);
    let lines: Vec<&str> = second.stdout.lines().collect();
    let (summary, bodies) = lines.split_last().unwrap();
    let summary: Value = serde_json::from_str(summary).unwrap();
    let summary = &summary["summary"];

    let mut log = LogValidator::new();
    let mut usage = None;
    for body in bodies {
        let frame = Frame::decode(body.as_bytes()).unwrap();
        log.push(&frame).unwrap();
        if let Data::RunEnd(end) = &frame.data {
            usage = end.usage.clone();
        }
    }
    log.finish().unwrap();
    assert_eq!(summary["missed"], 0);
    assert_eq!(summary["frames"], log.head());
    assert_eq!(summary["bytes"], bodies.iter().map(|b| b.len()).sum::<usize>());
    assert_eq!(summary["usage"], serde_json::to_value(usage.unwrap()).unwrap());
    let resumed_at = summary["resumed_at"].as_u64().unwrap();
    assert!(resumed_at > 1 && resumed_at < log.head(), "{summary}");
}

#[tokio::test]
async fn demo_goes_on_serving_until_it_is_asked_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = command(folder.path()).args(["demo", "--json", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let summary = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let line: Value = serde_json::from_str(&line).unwrap();
            if line.get("summary").is_some() {
                return line["summary"].clone();
            }
        }
        panic!("there is no summary");
    };
    let summary = tokio::time::timeout(PATIENCE, summary).await.unwrap();

    let server = client(summary["server"].as_str().unwrap());
    let record = server.run(summary["run_id"].as_str().unwrap()).await.unwrap();
    assert_eq!(summary["frames"], record.head());
    assert!(folder.path().join("runwire.db").is_file(), "the default store is in the current folder");

    signal("TERM", child.id().unwrap()).await;
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}
