//! What is left of a command when its run is over: nothing.

use std::path::Path;
use std::time::Duration;

use runwire_engine::drivers::ExecOptions;

use crate::fixture::{PATIENCE, patiently};
use crate::{MESSAGE, ask, assert_sandbox_error, front, log_of, said, shell};

/// Whether a process of this number runs; one that ended and was not reaped does not.
fn runs(pid: &str) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) else { return false };
    // The state stands behind the name, which may hold anything.
    !matches!(status.rsplit(") ").next().and_then(|rest| rest.chars().next()), Some('Z' | 'X'))
}

async fn gone(pid: &str) {
    patiently(async {
        while runs(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// What the command wrote into a file, once it is a whole line.
async fn line_in(file: &Path) -> String {
    patiently(async {
        loop {
            match std::fs::read_to_string(file) {
                Ok(line) if line.ends_with('\n') => return line,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_stop_ends_the_whole_group_politely_first() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap 'echo stopped > heard; kill $!; exit 0' TERM\nsleep 1000 &\necho $! > child\nwait";
    let bed = front(ExecOptions { dir: Some(folder.path().to_owned()), ..shell(script) });
    let run_id = ask(&bed).await;
    let child = line_in(&folder.path().join("child")).await;
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "cancelled", "{}", log.dump());
    assert_eq!(line_in(&folder.path().join("heard")).await, "stopped\n");
    gone(&child).await;
}

#[tokio::test]
async fn one_that_does_not_listen_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM\n(trap '' TERM; sleep 1000) &\necho $$ $! > pids\nwhile :; do sleep 1000; done";
    let options = ExecOptions { kill_grace: Duration::from_millis(50), ..shell(script) };
    let bed = front(ExecOptions { dir: Some(folder.path().to_owned()), ..options });
    let run_id = ask(&bed).await;
    let pids = line_in(&folder.path().join("pids")).await;
    bed.engine.cancel(&run_id).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
    for pid in pids.split_whitespace() {
        gone(pid).await;
    }
}

#[tokio::test]
async fn a_run_that_is_given_up_leaves_no_process_behind() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM\nsleep 1000 &\necho $$ $! > pids\nwhile :; do sleep 1000; done";
    let bed = front(ExecOptions { dir: Some(folder.path().to_owned()), ..shell(script) });
    let run_id = ask(&bed).await;
    let pids = line_in(&folder.path().join("pids")).await;
    // The server goes, and waits for nobody.
    tokio::time::timeout(PATIENCE, bed.engine.shutdown(Duration::ZERO)).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.error().0), ("failed", "INTERNAL_ERROR"));
    for pid in pids.split_whitespace() {
        gone(pid).await;
    }
}

#[tokio::test]
async fn what_a_command_started_and_left_behind_does_not_hold_the_run_up() {
    let folder = tempfile::tempdir().unwrap();
    // Each of them has the pipe open: one in the group, one that left it.
    let script = format!("{}sleep 1000 &\necho $! > child\nsetsid sleep 3 &\nexit 0", said(&MESSAGE));
    let log = log_of(ExecOptions { dir: Some(folder.path().to_owned()), ..shell(&script) }).await;
    assert_eq!((log.ending(), &*log.text()), ("completed", "Kept."), "{}", log.dump());
    gone(&line_in(&folder.path().join("child")).await).await;
}

#[tokio::test]
async fn one_that_goes_on_after_its_ending_is_ended_and_the_ending_counts() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{}echo $$ > pid\nsleep 1000", said(&MESSAGE));
    let log = log_of(ExecOptions { dir: Some(folder.path().to_owned()), ..shell(&script) }).await;
    assert_eq!((log.ending(), &*log.text()), ("completed", "Kept."), "{}", log.dump());
    gone(&line_in(&folder.path().join("pid")).await).await;
}

#[tokio::test]
async fn no_zombie_stays() {
    let folder = tempfile::tempdir().unwrap();
    let options = ExecOptions { dir: Some(folder.path().to_owned()), ..shell("echo $$ > pid; exit 0") };
    assert_eq!(log_of(options).await.ending(), "completed");
    let pid = line_in(&folder.path().join("pid")).await;
    let reaped = async {
        while Path::new(&format!("/proc/{}", pid.trim())).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    patiently(reaped).await;
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_told_by_its_name() {
    let missing = ExecOptions::new(["no-such-program-anywhere", "--flag"]);
    assert_sandbox_error(&log_of(missing).await, "`no-such-program-anywhere` could not be started: there is no such");
    let file = tempfile::NamedTempFile::new().unwrap();
    let unfit = ExecOptions::new([file.path().to_str().unwrap()]);
    assert_sandbox_error(&log_of(unfit).await, "it may not be executed");
    let nowhere = ExecOptions { dir: Some("/no/such/folder".into()), ..shell("exit 0") };
    let log = log_of(nowhere).await;
    assert_sandbox_error(&log, "the folder that it is to run in is not there");
    assert!(log.detail().unwrap().contains("/no/such/folder"), "the operator is told which");
}
