//! Agents that are programs, behind the `exec` driver: whatever a command writes and however it ends, the run's log is legal
//! and says why it ended, and nothing of the command is left behind.

#![allow(clippy::unwrap_used, missing_docs)]

mod bounds;
#[path = "../fixture/mod.rs"]
mod fixture;
mod output;
mod processes;
mod redaction;

use fixture::{Bed, Log, driven_by, input, request};
use runwire_engine::drivers::{ExecDriver, ExecOptions};

const THREAD: &str = "thread-1";
const RUN: &str = "run-1";

/// A script of the shell.
fn shell(script: &str) -> ExecOptions {
    ExecOptions::new(["/bin/sh", "-c", script])
}

fn front(options: ExecOptions) -> Bed {
    fixture::bed_with(
        [driven_by("command", ExecDriver::new(options).unwrap())],
        runwire_store::StoreOptions::default(),
        // Longer than a command has to end by itself.
        fixture::PATIENCE,
    )
}

async fn ask(bed: &Bed) -> String {
    bed.create(request("command", input(THREAD, RUN))).await.unwrap().record.run_id
}

/// The log of the run that this command makes.
async fn log_of(options: ExecOptions) -> Log {
    let bed = front(options);
    bed.ended(&ask(&bed).await).await
}

/// The lines of an AG-UI run around this content, as a script of the shell writes them.
fn said(content: &[&str]) -> String {
    let started = format!(r#"{{"type":"RUN_STARTED","threadId":"{THREAD}","runId":"{RUN}"}}"#);
    let finished = format!(r#"{{"type":"RUN_FINISHED","threadId":"{THREAD}","runId":"{RUN}"}}"#);
    let lines = [&[&*started], content, &[&*finished]].concat();
    echo(&lines)
}

fn echo(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("echo '{line}'\n")).collect()
}

fn started() -> String {
    echo(&[&format!(r#"{{"type":"RUN_STARTED","threadId":"{THREAD}","runId":"{RUN}"}}"#)])
}

const MESSAGE: [&str; 3] = [
    r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
    r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Kept."}"#,
    r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
];

/// The run failed in its sandbox, and its client was told so.
fn assert_sandbox_error(log: &Log, told: &str) {
    let (code, message, _) = log.error();
    assert_eq!((log.ending(), code), ("failed", "SANDBOX_ERROR"), "{}", log.dump());
    assert!(message.contains(told), "`{told}` is not in: {message}");
    assert_eq!(log.last_event()["code"], "SANDBOX_ERROR");
}
