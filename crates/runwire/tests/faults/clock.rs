//! A wall clock that steps backwards under the server.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use runwire_frame::{Frame, LogValidator};

use crate::followers::{Follower, READERS, Truth};
use crate::program::command;
use crate::serving::{AGENTS, Serving};
use crate::verified;

/// The library that stands between a process and its clock, where Debian's package `faketime` puts it. `None`, loudly, where
/// it is not.
fn library() -> Option<String> {
    let folders = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let library = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| path.is_file());
    if library.is_none() {
        let missing =
            "REAL PART MISSING: clock that can be set (faketime); run tests/real/setup.sh. This test proved NOTHING.";
        let _ = writeln!(std::io::stderr(), "{missing}");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
    }
    library.map(|path| path.display().to_string())
}

fn set(folder: &Path, offset: &str) {
    // At once, because the process reads it at any moment.
    std::fs::write(folder.join("next"), offset).unwrap();
    std::fs::rename(folder.join("next"), folder.join("clock")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_steps_back_makes_no_log_run_backwards_and_holds_nothing_up() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().unwrap();
    set(folder.path(), "+0");
    let mut command = command(folder.path());
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", folder.path().join("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        // Timers go by the clock that never steps.
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let server = Serving::start_as(command, folder.path(), AGENTS, "127.0.0.1:0").await;
    let run_id = server.create("medium").await;
    let follow = |reader| Follower::of(server.client(), &run_id, reader, Duration::from_secs(30));
    let followers = READERS.map(follow);
    let wait_for = async |frames| {
        let enough = async || (followers[0].count() >= frames).then_some(());
        server.patiently("more frames", enough).await;
    };
    wait_for(5).await;
    set(folder.path(), "-3d");
    wait_for(15).await;
    // A run that begins, and ends, days before the other.
    let earlier = server.create("demo").await;
    server.wait_for(&earlier, |frame| frame.data.frame_type().as_str() == "run.end").await;
    set(folder.path(), "+1h");
    for follower in followers {
        let (reader, seen) = (follower.reader, follower.until_it_ends().await);
        Truth::of(&server, &run_id).await.holds(reader, &seen.all, "over a clock that steps");
        assert_eq!(seen.losses, 0);
    }
    let mut times = Vec::new();
    for run_id in [&run_id, &earlier] {
        let mut log = LogValidator::new();
        let mut last = None;
        for body in server.log_of(run_id).await {
            let frame = Frame::decode(body.as_bytes()).unwrap();
            assert!(last <= Some(frame.ts), "frame {} of {run_id} is before the one before it", frame.seq);
            last = Some(frame.ts);
            log.push(&frame).unwrap();
        }
        log.finish().unwrap();
        times.push(last);
    }
    assert!(times[1] < times[0], "the clock did step: {times:?}");
    server.kill().await;
    verified(folder.path()).await;
}
