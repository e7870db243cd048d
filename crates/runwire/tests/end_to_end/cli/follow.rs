//! `runwire run`, `tail`, `runs` and `cancel`, against a server.

use runwire_frame::Data;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::check_sources::answering;
use crate::program::{Done, PATIENCE, command, finish, run};
use crate::serving::{AGENTS, Serving, signal};

/// A port that nothing listens on: the lowest is reserved.
const NOBODY: &str = "http://127.0.0.1:1/";

struct Desk {
    folder: tempfile::TempDir,
    server: Serving,
}

impl Desk {
    async fn open() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("{AGENTS}\n[agents.gone]\ndriver = \"agui\"\nurl = \"{NOBODY}\"\n");
        let server = Serving::start(folder.path(), &config).await;
        Desk { folder, server }
    }

    /// A command that is told which server to talk to.
    async fn run(&self, args: &[&str]) -> Done {
        run(self.folder.path(), &[args, &["--server", self.server.url()]].concat()).await
    }
}

fn run_id(frames: &Done) -> String {
    frames.json_lines()[0]["run_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_run_is_followed_and_read_again_with_the_same_bytes_on_every_transport() {
    let desk = Desk::open().await;
    let ran = desk.run(&["run", "demo", "Count these words", "--json"]).await.exits(0);
    let id = run_id(&ran);
    let last = ran.json_lines().pop().unwrap();
    assert_eq!((&last["type"], &last["data"]["status"]), (&json!("run.end"), &json!("completed")));

    for transport in ["sse", "ws"] {
        let again = desk.run(&["tail", &id, "--json", "--transport", transport]).await.exits(0);
        assert_eq!(again.stdout, ran.stdout, "{transport}");
        let rest = desk.run(&["tail", &id, "--json", "--transport", transport, "--after", "7"]).await.exits(0);
        let expected: String = ran.stdout.split_inclusive('\n').skip(7).collect();
        assert_eq!(rest.stdout, expected, "{transport} after 7");
    }
    // Who has everything hears how it ended.
    let head = ran.stdout.lines().count().to_string();
    for transport in ["sse", "ws"] {
        let nothing = desk.run(&["tail", &id, "--json", "--transport", transport, "--after", &head]).await.exits(0);
        assert_eq!(nothing.stdout, "", "{transport}");
    }
    let live = desk.run(&["run", "demo", "Over a WebSocket", "--transport", "ws", "--json"]).await.exits(0);
    let read = desk.run(&["tail", &run_id(&live), "--json"]).await.exits(0);
    assert_eq!(live.stdout, read.stdout);
}

#[tokio::test]
async fn a_person_sees_the_text_the_tool_and_the_ending() {
    let desk = Desk::open().await;
    let ran = desk.run(&["run", "demo", "Count these words"]).await.exits(0);
    for words in ["measure_text", r#"{"text":"Count these words"}"#, "17 characters in 3 words", "run completed"] {
        assert!(ran.stdout.contains(words), "`{words}` is not in:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'), "there is no colour where there is no terminal");
}

#[tokio::test]
async fn a_run_is_read_as_ag_ui_events_from_the_start_and_after_any_of_them() {
    let desk = Desk::open().await;
    let id = run_id(&desk.run(&["run", "demo", "Hello", "--json"]).await.exits(0));
    let events = desk.run(&["tail", &id, "--protocol", "agui", "--json"]).await.exits(0);
    let types: Vec<Value> = events.json_lines().iter().map(|e| e["type"].clone()).collect();
    assert_eq!(types.first(), Some(&json!("RUN_STARTED")));
    assert_eq!(types.last(), Some(&json!("RUN_FINISHED")));

    // For a person each event has its id in front, and any of them is a place to go on from.
    let shown = desk.run(&["tail", &id, "--protocol", "agui"]).await.exits(0);
    let ids: Vec<&str> = shown.stdout.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(ids.len(), types.len());
    for at in [0, ids.len() / 2, ids.len() - 2, ids.len() - 1] {
        let rest = desk.run(&["tail", &id, "--protocol", "agui", "--json", "--after", ids[at]]).await.exits(0);
        let expected: String = events.stdout.split_inclusive('\n').skip(at + 1).collect();
        assert_eq!(rest.stdout, expected, "after {}", ids[at]);
    }
}

#[tokio::test]
async fn what_the_server_sends_as_ag_ui_passes_the_check() {
    let desk = Desk::open().await;
    for (agent, code, ending) in [("demo", 0, "success"), ("gone", 1, "error")] {
        let id = run_id(&desk.run(&["run", agent, "Hello", "--json"]).await.exits(code));
        let events = desk.run(&["tail", &id, "--protocol", "agui", "--json"]).await.exits(code);
        std::fs::write(desk.folder.path().join("events.jsonl"), &events.stdout).unwrap();
        let report =
            run(desk.folder.path(), &["check", "--json", "events.jsonl"]).await.exits(0).json_lines().remove(0);
        assert_eq!(report["warnings"], json!([]), "{report}");
        assert_eq!(report["runs"][0]["ending"], ending, "{report}");
        let lines: Vec<Value> = events.json_lines();
        assert_eq!(report["events"], Value::from(lines));
    }
}

#[tokio::test]
async fn the_exit_code_says_that_a_run_failed() {
    let desk = Desk::open().await;
    let ran = desk.run(&["run", "gone", "Hello", "--json"]).await.exits(1);
    let id = run_id(&ran);
    let error = ran.json_lines().into_iter().find(|frame| frame["type"] == "error").unwrap();
    assert_eq!(error["data"]["code"], "CHANNEL_ERROR", "{error}");
    desk.run(&["tail", &id]).await.exits(1);
    desk.run(&["tail", &id, "--transport", "ws"]).await.exits(1);
    desk.run(&["tail", &id, "--protocol", "agui"]).await.exits(1);
}

#[tokio::test]
async fn a_run_that_is_cancelled_is_no_success_and_no_failure_for_whoever_follows_it() {
    let desk = Desk::open().await;
    let args = ["run", "long", "Go on and on", "--json", "--server", desk.server.url()];
    let mut running = command(desk.folder.path()).args(args).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut first: Option<Value> = None;
    let into_the_text = async {
        loop {
            let line: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            let found = line["type"] == "text.delta";
            first.get_or_insert(line);
            if found {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, into_the_text).await.unwrap();
    let id = first.unwrap()["run_id"].as_str().unwrap().to_owned();

    let cancelled = desk.run(&["cancel", &id]).await.exits(0);
    assert!(cancelled.stdout.contains(&id) && cancelled.stdout.contains("is cancelled"), "{}", cancelled.stdout);
    while lines.next_line().await.unwrap().is_some() {}
    let status = tokio::time::timeout(PATIENCE, running.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(3), "`run` follows the run to its end");

    desk.run(&["tail", &id]).await.exits(3);
    desk.run(&["tail", &id, "--transport", "ws"]).await.exits(3);
    let events = desk.run(&["tail", &id, "--protocol", "agui", "--json"]).await.exits(3).json_lines();
    assert_eq!(events.last().unwrap()["outcome"], json!({ "type": "cancelled" }));
    // Asking again changes nothing.
    let again = desk.run(&["cancel", &id, "--json"]).await.exits(0).json_lines();
    assert_eq!(again[0]["status"], "cancelled");
}

#[tokio::test]
async fn who_leaves_does_not_stop_the_run() {
    let desk = Desk::open().await;
    let args = ["run", "medium", "Go on without me", "--json", "--server", desk.server.url()];
    let mut leaving = command(desk.folder.path()).args(args).spawn().unwrap();
    let mut lines = BufReader::new(leaving.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let id = first["run_id"].as_str().unwrap();
    desk.server.wait_for(id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    signal("INT", leaving.id().unwrap()).await;
    let status = tokio::time::timeout(PATIENCE, leaving.wait()).await.unwrap().unwrap();
    assert!(!status.success(), "it cannot say how the run ended");

    let whole = desk.run(&["tail", id, "--json"]).await.exits(0);
    assert_eq!(whole.json_lines().pop().unwrap()["data"]["status"], "completed", "G9");
}

#[tokio::test]
async fn a_run_that_has_ended_cannot_be_cancelled_and_the_answer_says_so() {
    let desk = Desk::open().await;
    let id = run_id(&desk.run(&["run", "demo", "Hello", "--json"]).await.exits(0));
    let late = desk.run(&["cancel", &id]).await.exits(1);
    assert!(late.stdout.contains("had ended before: it is completed"), "{}", late.stdout);
    desk.run(&["tail", &id]).await.exits(0);
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_filtered() {
    let desk = Desk::open().await;
    let first = run_id(&desk.run(&["run", "demo", "One", "--json", "--session", "talk"]).await.exits(0));
    let second = run_id(&desk.run(&["run", "gone", "Two", "--json"]).await.exits(1));
    let third = run_id(&desk.run(&["run", "demo", "Three", "--json", "--session", "talk"]).await.exits(0));

    let ids = async |args: &[&str]| -> Vec<String> {
        let page = desk.run(&[&["runs", "--json"], args].concat()).await.exits(0).json_lines().remove(0);
        let runs = page["runs"].as_array().unwrap();
        runs.iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&[]).await, [&*third, &*second, &*first]);
    assert_eq!(ids(&["--agent", "demo"]).await, [&*third, &*first]);
    assert_eq!(ids(&["--session", "talk"]).await, [&*third, &*first]);
    assert_eq!(ids(&["--status", "failed"]).await, [&*second]);
    assert_eq!(ids(&["--status", "failed", "--status", "completed"]).await.len(), 3);
    assert_eq!(ids(&["--limit", "1"]).await, [&*third]);

    let shown = desk.run(&["runs"]).await.exits(0).stdout;
    for words in [&*first, &*second, &*third, "completed", "failed", "talk", "RUN"] {
        assert!(shown.contains(words), "`{words}` is not in:\n{shown}");
    }
    let none = desk.run(&["runs", "--agent", "nobody"]).await.exits(0).stdout;
    assert_eq!(none, "no runs\n");
}

#[tokio::test]
async fn the_server_may_be_named_in_the_environment_and_a_flag_wins() {
    let desk = Desk::open().await;
    let in_environment = async |server: &str, args: &[&str]| {
        finish(command(desk.folder.path()).env("RUNWIRE_SERVER", server).args(args), args).await
    };
    let named = in_environment(desk.server.url(), &["runs"]).await.exits(0);
    assert_eq!(named.stdout, "no runs\n");
    in_environment(NOBODY, &["runs"]).await.could_not(&["127.0.0.1:1"]);
    in_environment(NOBODY, &["runs", "--server", desk.server.url()]).await.exits(0);
}

#[tokio::test]
async fn what_cannot_be_done_is_exit_2_with_a_sentence() {
    let desk = Desk::open().await;
    let id = run_id(&desk.run(&["run", "demo", "Hello", "--json"]).await.exits(0));

    desk.run(&["tail", "run_none"]).await.could_not(&["run_none"]);
    desk.run(&["tail", "run_none", "--transport", "ws"]).await.could_not(&["run_none"]);
    desk.run(&["tail", "run_none", "--protocol", "agui"]).await.could_not(&["run_none"]);
    desk.run(&["cancel", "run_none"]).await.could_not(&["run_none"]);
    desk.run(&["run", "nobody", "Hello"]).await.could_not(&["nobody"]);
    desk.run(&["tail", &id, "--after", "9999"]).await.could_not(&["past the head"]);
    desk.run(&["tail", &id, "--after", "9999", "--transport", "ws"]).await.could_not(&["past the head"]);
    desk.run(&["tail", &id, "--after", "soon"]).await.could_not(&["soon"]);
    desk.run(&["tail", &id, "--protocol", "agui", "--after", "soon"]).await.could_not(&["soon"]);
    desk.run(&["tail", &id, "--protocol", "agui", "--transport", "ws"]).await.could_not(&["ws"]);

    let folder = desk.folder.path();
    for args in [
        &["run", "demo", "Hello", "--server", NOBODY][..],
        &["tail", &id, "--server", NOBODY],
        &["tail", &id, "--transport", "ws", "--server", NOBODY],
        &["tail", &id, "--protocol", "agui", "--server", NOBODY],
        &["runs", "--server", NOBODY],
        &["cancel", &id, "--server", NOBODY],
    ] {
        run(folder, args).await.could_not(&[NOBODY.trim_end_matches('/')]);
    }
    run(folder, &["runs", "--server", "ftp://127.0.0.1/"]).await.could_not(&["ftp"]);
    run(folder, &["runs", "--status", "asleep"]).await.could_not(&["asleep", "suspended"]);
    run(folder, &["runs", "--limit", "0"]).await.could_not(&["--limit"]);
    run(folder, &["tail", &id, "--protocol", "smoke"]).await.could_not(&["smoke", "frame", "agui"]);
    run(folder, &["tail"]).await.could_not(&["<RUN>"]);
    run(folder, &["fly"]).await.could_not(&["fly"]);
}

#[tokio::test]
async fn what_a_server_says_reaches_the_terminal_without_what_steers_it() {
    let problem = json!({ "type": "about:blank", "title": "Unavailable", "status": 503,
                          "detail": "\u{1b}[2J\u{9b}31m\nrun completed\u{202e}" })
    .to_string();
    let answer = format!(
        "HTTP/1.1 503 Unavailable\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\r\n{problem}",
        problem.len()
    );
    let folder = tempfile::tempdir().unwrap();
    for args in [&["tail", "run_x"][..], &["tail", "run_x", "--protocol", "agui"], &["cancel", "run_x"], &["runs"]] {
        let (url, _served) = answering(vec![(0, answer.clone())]).await;
        let server = url.split("/agent").next().unwrap();
        let done = run(folder.path(), &[args, &["--server", server]].concat()).await.exits(2);
        assert!(done.stderr.contains("[2J") && done.stderr.contains("\n  run completed"), "{:?}", done.stderr);
        let steers = |c: char| c != '\n' && runwire_agui::steers_text(c);
        assert!(!done.stderr.chars().any(steers), "{args:?}: {:?}", done.stderr);
    }
}
