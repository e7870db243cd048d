//! The binary, run to its end.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A command that takes longer than this hangs. Nothing asserts how long it takes below that.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What came of a command.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    /// The lines of standard output, as JSON.
    pub fn json_lines(&self) -> Vec<Value> {
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in the line {line}"));
        self.stdout.lines().map(read).collect()
    }

    /// Checks the exit code, and shows everything when it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Done {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks that the command could not do what was asked, and says why in words that hold all of these.
    #[track_caller]
    pub fn could_not(self, words: &[&str]) {
        let done = self.exits(2);
        assert_eq!(done.stdout, "", "what could not be done has no result");
        for word in words {
            assert!(done.stderr.contains(word), "`{word}` is not in: {}", done.stderr);
        }
    }
}

/// The binary, to be run in `folder`, without what the environment of the tests would tell it, and in one that names a
/// proxy which is not there: what stays on this machine must not go through any.
pub fn command(folder: &Path) -> Command {
    command_under(&[], folder)
}

/// The same as the last of the arguments of another program, which becomes it.
pub fn command_under(other: &[&str], folder: &Path) -> Command {
    let mut words = other.iter().copied().chain([env!("CARGO_BIN_EXE_runwire")]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RUNWIRE_") {
            command.env_remove(name);
        }
    }
    command.env("HTTP_PROXY", "http://127.0.0.1:1").env("http_proxy", "http://127.0.0.1:1").env_remove("NO_PROXY");
    command
        .env_remove("no_proxy")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs the binary to its end.
pub async fn run(folder: &Path, args: &[&str]) -> Done {
    finish(command(folder).args(args), args).await
}

/// Runs the binary to its end with these bytes on its standard input.
pub async fn run_with_input(folder: &Path, args: &[&str], input: &[u8]) -> Done {
    let mut child = command(folder).args(args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that needs no more of its input may close it early, which is its business.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    wait(child, args).await
}

/// Runs a command that [`command`] made.
pub async fn finish(command: &mut Command, args: &[&str]) -> Done {
    wait(command.spawn().unwrap(), args).await
}

/// Waits for a command that runs.
pub async fn wait(child: tokio::process::Child, args: &[&str]) -> Done {
    let waited = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = waited.unwrap_or_else(|_| panic!("`runwire {}` did not end", args.join(" "))).unwrap();
    Done {
        code: output.status.code().unwrap_or_else(|| panic!("`runwire {}` was ended by a signal", args.join(" "))),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
