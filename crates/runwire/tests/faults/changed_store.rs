//! The store's files changed under a server that has them open: cut short, deleted, replaced, moved away and put back. What
//! readers have is what was written; the server says what is wrong, goes on answering, and takes nothing that would be lost.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::StatusCode;
use runwire_client::{ApiError, CreateRun};
use serde_json::Value;

use crate::followers::{Follower, READERS, Reader};
use crate::program::run;
use crate::serving::{AGENTS, Serving, client, http};
use crate::storage::ready;
use crate::verified;

/// More frames than a server keeps in memory of a run, so that most of them are read from the file.
const CONFIG: &str = "[agents.large]\ndriver = \"demo\"\npace = \"0ms\"\nrepeat = 60\n";

struct Scene {
    folder: tempfile::TempDir,
    server: Serving,
    /// A run that has ended, and its log.
    ended: String,
    log: Vec<String>,
    /// A run that goes on, and its readers.
    live: String,
    followers: Vec<Follower>,
}

impl Scene {
    async fn start() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let server = Serving::start(folder.path(), &format!("{AGENTS}{CONFIG}")).await;
        let ended = server.create("large").await;
        server.wait_for(&ended, |frame| frame.data.frame_type().as_str() == "run.end").await;
        let log = server.log_of(&ended).await;
        let live = server.create("long").await;
        let follow = |reader| Follower::of(client(server.url()), &live, reader, Duration::from_secs(40));
        let followers: Vec<Follower> = READERS.map(follow).into();
        server
            .patiently("the readers to have something", async || {
                followers.iter().all(|follower| follower.count() >= 8).then_some(())
            })
            .await;
        assert_eq!(ready(&server).await, Ok(()));
        Scene { folder, server, ended, log, live, followers }
    }

    fn file(&self, end: &str) -> PathBuf {
        self.folder.path().join(format!("runwire.db{end}"))
    }

    /// It is said by whom it concerns, and nothing new begins.
    async fn is_said(&self, words: &str) {
        self.server.patiently("the server to notice", async || ready(&self.server).await.err()).await;
        self.server
            .patiently("the reason to be said", async || {
                let detail = ready(&self.server).await.err()?;
                detail.contains("the store's file was changed from outside").then_some(())
            })
            .await;
        assert!(self.server.log().contains(words), "{words}: {}", self.server.log());
        let refused = self.server.client().create_run(&CreateRun::prompt("demo", "Hello")).await.unwrap_err();
        assert!(
            matches!(refused, ApiError::Problem { .. }) && refused.status().is_some_and(|s| s >= 500),
            "{refused:?}"
        );
        http(&self.server.at("/healthz")).await;
    }

    /// The log of the run that has ended is read as it was written, or not.
    async fn is_right_or_refused(&self) -> bool {
        let address = self.server.at(&format!("/v2/runs/{}/stream", self.ended));
        let answer = reqwest::Client::builder().no_proxy().build().unwrap().get(address).send().await.unwrap();
        if answer.status() != StatusCode::OK {
            assert!(answer.status().is_server_error(), "{}", answer.status());
            let problem: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
            assert_eq!(problem["detail"], "the server could not do this; its own log says why");
            return false;
        }
        // A body that breaks off is as good as what came of it.
        let (mut body, mut answer) = (Vec::new(), answer);
        while let Ok(Some(piece)) = answer.chunk().await {
            body.extend_from_slice(&piece);
        }
        let body = String::from_utf8(body).unwrap();
        let whole = body.rfind("\n\n").map_or("", |end| &body[..end]);
        let seen: Vec<&str> =
            whole.split("\n\n").filter_map(|event| event.split_once("\ndata: ").map(|e| e.1)).collect();
        assert!(seen.len() <= self.log.len() && seen.iter().zip(&self.log).all(|(a, b)| a == b), "a prefix of the log");
        seen.len() == self.log.len()
    }
}

fn cut(path: &Path, numerator: u64, denominator: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() * numerator / denominator).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_cut_short_under_the_server_gives_no_wrong_byte_and_is_said_to_be_damaged() {
    for (numerator, denominator) in [(0, 1), (1, 3), (9, 10)] {
        let scene = Scene::start().await;
        cut(&scene.file(""), numerator, denominator);
        scene.is_said("its file was cut short").await;
        assert!(!scene.is_right_or_refused().await, "what is not there any more is not given out");
        // Whoever follows has what there was, and is told of no end. Nobody can read any more what there was.
        for follower in &scene.followers {
            assert!(follower.count() >= 8);
        }
        scene.server.kill().await;
        let done = run(scene.folder.path(), &["verify-log"]).await;
        assert!(matches!(done.code, 1 | 2), "{numerator} of {denominator}: {done:?}");
        assert!(done.code == 1 || done.stderr.contains("runwire.db"), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_moved_away_under_the_server_goes_on_when_it_is_back() {
    let scene = Scene::start().await;
    let away = scene.folder.path().join("away.db");
    fs::rename(scene.file(""), &away).unwrap();
    scene.is_said("its file was deleted or moved").await;
    assert!(scene.is_right_or_refused().await, "it is the same file, whatever it is called");
    fs::rename(&away, scene.file("")).unwrap();
    scene.server.patiently("the server to be ready", async || ready(&scene.server).await.ok()).await;
    // The run that went on has ended, because its agent was stopped; and everybody has all of it.
    let truth = {
        scene
            .server
            .patiently("the run to end", async || {
                let run = scene.server.client().run(&scene.live).await.unwrap();
                (!run.members()["ended_at"].is_null()).then_some(())
            })
            .await;
        crate::followers::Truth::of(&scene.server, &scene.live).await
    };
    for follower in scene.followers {
        let reader = follower.reader;
        truth.holds(reader, &follower.until_it_ends().await.all, "moved away");
    }
    scene.server.create("demo").await;
    scene.server.kill().await;
    verified(scene.folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_deleted_or_replaced_under_the_server_takes_nothing_that_would_be_lost() {
    for replaced in [false, true] {
        let scene = Scene::start().await;
        if replaced {
            let other = tempfile::tempdir().unwrap();
            let server = Serving::start(other.path(), AGENTS).await;
            server.create("demo").await;
            let mut server = server;
            server.terminate().await;
            server.ended().await;
            fs::copy(other.path().join("runwire.db"), scene.file(".new")).unwrap();
            fs::rename(scene.file(".new"), scene.file("")).unwrap();
            scene.is_said("its file was replaced by another file").await;
        } else {
            fs::remove_file(scene.file("")).unwrap();
            scene.is_said("its file was deleted or moved").await;
        }
        // Whoever reads is still given what was written, to the last frame that anybody was shown.
        assert!(scene.is_right_or_refused().await);
        let log = scene.server.log_of(&scene.live).await;
        for follower in scene.followers.iter().filter(|follower| follower.reader != Reader::Agui) {
            assert!(follower.count() <= log.len());
        }
        let folder = scene.folder;
        let mut server = scene.server;
        server.terminate().await;
        server.terminate().await;
        server.ended().await;
        drop(scene.followers);
        let done = run(folder.path(), &["verify-log"]).await;
        if replaced {
            assert_eq!(done.code, 0, "the other store is left as it was: {done:?}");
        } else {
            assert_eq!(done.code, 2, "there is none: {done:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_ahead_log_that_is_deleted_or_cut_short_under_the_server_is_said() {
    for deleted in [false, true] {
        let scene = Scene::start().await;
        match deleted {
            true => fs::remove_file(scene.file("-wal")).unwrap(),
            false => cut(&scene.file("-wal"), 1, 4),
        }
        scene.is_said("its write-ahead log").await;
        scene.is_right_or_refused().await;
        scene.server.kill().await;
        // What was in it alone is gone with it; the rest is a store, or is said to be none.
        let done = run(scene.folder.path(), &["verify-log"]).await;
        assert!(matches!(done.code, 0..=2), "{done:?}");
    }
}
