//! `runwire serve` while it serves, and how it stops.

use runwire_frame::{Data, Frame, LogValidator};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::program::{PATIENCE, command, run};
use crate::serving::{AGENTS, Serving};

#[tokio::test]
async fn the_first_line_tells_a_program_what_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let announced = &server.announced;
    assert!(server.url().starts_with("http://127.0.0.1:"), "{announced}");
    assert_eq!(announced["agents"], json!(["demo", "long", "medium"]));
    assert_eq!(announced["store"], "runwire.db");
    assert_eq!(announced["sync"], "normal");
    assert_eq!(announced["tokens"], false);
    assert_eq!(announced["recovered"], 0);
}

#[tokio::test]
async fn a_run_that_can_end_in_the_grace_period_ends_and_its_reader_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("shutdown_grace = \"30s\"\n{AGENTS}");
    let mut server = Serving::start(folder.path(), &config).await;
    let id = server.create("medium").await;
    let url = server.url().to_owned();
    let args = ["tail", &id, "--json", "--server", &url];
    let mut reader = command(folder.path()).args(args).spawn().unwrap();
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("the reader goes on").unwrap();
        line.map(|line| serde_json::from_str::<Value>(&line).unwrap())
    };
    // Not before it reads: a server that goes takes no new readers.
    let mut last = next().await.unwrap();
    while last["type"] != "text.delta" {
        last = next().await.unwrap();
    }
    server.terminate().await;
    while let Some(frame) = next().await {
        last = frame;
    }
    let status = server.ended().await;
    assert_eq!(status.code(), Some(0), "{}", server.log());
    assert_eq!(tokio::time::timeout(PATIENCE, reader.wait()).await.unwrap().unwrap().code(), Some(0));
    assert_eq!((&last["type"], &last["data"]["status"]), (&json!("run.end"), &json!("completed")));
}

#[tokio::test]
async fn a_run_that_cannot_end_in_the_grace_period_fails_and_its_log_ends_properly() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("shutdown_grace = \"100ms\"\n{AGENTS}");
    let mut server = Serving::start(folder.path(), &config).await;
    let id = server.create("long").await;
    server.wait_for(&id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    server.terminate().await;
    assert_eq!(server.ended().await.code(), Some(0), "{}", server.log());

    let server = Serving::start(folder.path(), AGENTS).await;
    assert_eq!(server.announced["recovered"], 0, "the server that stopped brought its runs to their end");
    let mut log = LogValidator::new();
    let mut said = None;
    for body in server.log_of(&id).await {
        let frame = Frame::decode(body.as_bytes()).unwrap();
        log.push(&frame).unwrap();
        if let Data::Error(error) = frame.data {
            said = Some((error.code.as_str(), error.message));
        }
    }
    log.finish().unwrap();
    let (code, message) = said.expect("there is an error frame");
    assert_eq!(code, "INTERNAL_ERROR");
    assert!(message.contains("shut down"), "{message}");
    run(folder.path(), &["tail", &id, "--server", server.url()]).await.exits(1);
}

#[tokio::test]
async fn a_server_that_is_asked_twice_stops_at_once_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("shutdown_grace = \"1h\"\n{AGENTS}");
    let mut server = Serving::start(folder.path(), &config).await;
    let id = server.create("long").await;
    server.wait_for(&id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    server.terminate().await;
    server
        .patiently("the server to say that it waits", async || server.log().contains("1 runs have").then_some(()))
        .await;
    server.terminate().await;
    assert_eq!(server.ended().await.code(), Some(130));

    let server = Serving::start(folder.path(), AGENTS).await;
    assert_eq!(server.announced["recovered"], 1);
    run(folder.path(), &["tail", &id, "--server", server.url()]).await.exits(1);
}

#[tokio::test]
async fn tokens_from_the_configuration_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{AGENTS}\n[[tokens]]\nname = \"me\"\ntoken = \"open-sesame\"\n");
    let server = Serving::start(folder.path(), &config).await;
    assert_eq!(server.announced["tokens"], true);
    let at = ["--server", server.url()];
    let with = |token: &'static str| [&at[..], &["--token", token]].concat();

    run(folder.path(), &[&["runs"], &at[..]].concat()).await.could_not(&["401"]);
    run(folder.path(), &[&["runs"], &with("other")[..]].concat()).await.could_not(&["401"]);
    let ran = run(folder.path(), &[&["run", "demo", "Hello", "--json"], &with("open-sesame")[..]].concat()).await;
    let id = ran.exits(0).json_lines()[0]["run_id"].as_str().unwrap().to_owned();
    for transport in ["sse", "ws"] {
        let tail = ["tail", &id, "--transport", transport];
        run(folder.path(), &[&tail[..], &with("open-sesame")].concat()).await.exits(0);
        run(folder.path(), &[&tail[..], &with("other")].concat()).await.could_not(&["token"]);
    }
}

#[tokio::test]
async fn every_command_explains_itself() {
    let folder = tempfile::tempdir().unwrap();
    let general = run(folder.path(), &["--help"]).await.exits(0).stdout;
    for command in ["serve", "demo", "run", "tail", "runs", "cancel", "check"] {
        assert!(general.contains(command), "{command} is not in:\n{general}");
        let help = run(folder.path(), &[command, "--help"]).await.exits(0).stdout;
        assert!(help.contains(&format!("Usage: runwire {command}")) && help.contains("--json"), "{help}");
    }
    assert!(general.contains("Exit codes"), "{general}");
    let version = run(folder.path(), &["--version"]).await.exits(0).stdout;
    assert_eq!(version, format!("runwire {}\n", env!("CARGO_PKG_VERSION")));
}
