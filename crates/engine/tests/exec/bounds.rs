//! What a command may have and take.

use std::time::Duration;

use runwire_engine::drivers::{ExecDriver, ExecOptions};

use crate::{MESSAGE, assert_sandbox_error, log_of, said, shell};

#[tokio::test]
async fn its_environment_is_what_is_named_and_little_more() {
    let options = ExecOptions { env: vec![("KEY".to_owned(), "s3cret".to_owned())], ..shell("env") };
    let log = log_of(options).await;
    let text = log.text();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(text.contains("KEY=s3cret\n"), "{text}");
    // Some the shell makes itself.
    let allowed = ["KEY", "PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    assert!(names.contains(&"PATH"));
    assert!(std::env::vars().any(|(name, _)| !allowed.contains(&&*name)), "there was something to keep from it");
}

#[tokio::test]
async fn one_that_takes_too_long_is_ended_and_the_run_fails_by_a_timeout() {
    // Long enough for a shell to begin on a busy machine.
    let options = ExecOptions { timeout: Some(Duration::from_secs(2)), ..shell("echo begun; sleep 1000") };
    let log = log_of(options).await;
    let (code, message, _) = log.error();
    assert_eq!((log.ending(), code), ("failed", "TIMEOUT"), "{}", log.dump());
    assert!(message.contains("did not end within 2s"), "{message}");
    assert_eq!(log.text(), "begun\n");
}

#[tokio::test]
async fn more_output_than_it_may_write_fails_the_run() {
    let log = log_of(ExecOptions { max_output_bytes: 1000, ..shell("yes | head -c 1000") }).await;
    assert_eq!((log.ending(), log.text().len()), ("completed", 1000));
    let log = log_of(ExecOptions { max_output_bytes: 1000, ..shell("yes") }).await;
    assert_sandbox_error(&log, "more than the 1000 bytes of output");
}

#[tokio::test]
async fn standard_error_is_never_waited_for() {
    // More than a pipe holds.
    let script = format!("yes complaint | head -c 300000 >&2\n{}", said(&MESSAGE));
    let log = log_of(shell(&script)).await;
    assert_eq!((log.ending(), &*log.text()), ("completed", "Kept."), "{}", log.dump());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_beyond_the_limit_cannot_be_had() {
    let program = "import sys\nsys.stdin.read()\nblock = bytearray(512 * 1024 * 1024)\nprint(len(block))";
    let python = || ExecOptions::new(["python3", "-c", program]);
    assert_eq!(log_of(python()).await.text().trim(), "536870912");
    let log = log_of(ExecOptions { max_memory: Some(256 * 1024 * 1024), ..python() }).await;
    assert_sandbox_error(&log, "exited with code 1");
    assert!(log.detail().unwrap().contains("MemoryError"), "{}", log.dump());
}

#[test]
fn what_no_process_can_be_given_is_refused_at_once() {
    let refused = |options: ExecOptions| ExecDriver::new(options).unwrap_err().to_string();
    assert!(refused(ExecOptions::new(Vec::<String>::new())).contains("`command` is empty"));
    assert!(refused(ExecOptions::new(["a\0b"])).contains("NUL"));
    let env = |name: &str, value: &str| ExecOptions { env: vec![(name.to_owned(), value.to_owned())], ..shell("") };
    assert!(refused(env("A=B", "c")).contains("`A=B`"));
    assert!(refused(env("A", "\0")).contains("`A`"));
}
