//! The example of an agent in Rust, compiled, started and asked, as its first lines say.

use std::process::Stdio;

use futures_util::StreamExt as _;
use runwire_client::{CreateRun, Followed, Server};
use runwire_frame::Data;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

#[tokio::test]
async fn an_agent_in_twenty_lines_is_served_over_http() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let mut program = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--offline",
            "--manifest-path",
            manifest,
            "--example",
            "in-process",
            "--",
            "127.0.0.1:0",
        ])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().expect("it says where it serves");
    let server = Server::new(line.strip_prefix("serving ").unwrap(), None).unwrap();
    let run = server.create_run(&CreateRun::prompt("greeter", "Ada")).await.unwrap();
    let mut frames = server.follow(run.run_id()).start();
    let mut text = String::new();
    while let Some(followed) = frames.next().await {
        if let Followed::Frame { frame, .. } = followed.unwrap()
            && let Data::TextDelta(delta) = frame.data
        {
            text.push_str(&delta.text);
        }
    }
    assert_eq!(text, "Good day, Ada!");
    drop(frames);
    // Stopped in order, as by Ctrl-C.
    let pid = program.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    assert!(program.wait().await.unwrap().success());
}
