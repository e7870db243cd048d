//! The CopilotKit app of `examples/copilotkit` in Chromium, with this binary as its runtime, configured by the example's own
//! file: CopilotKit's released React packages, and no server of CopilotKit's.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::real_part;
use crate::serving::Serving;

/// The example, served; and what its page showed to a person who played this scenario.
struct Played {
    server: Serving,
    seen: Value,
    _folder: TempDir,
}

/// `None` where the app or the browser is missing, which has been said loudly.
async fn play(scenario: &str, more: &[&str]) -> Option<Played> {
    if !real_part::copilotkit() {
        return None;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/copilotkit");
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(example.join("agent.mjs"), folder.path().join("agent.mjs")).unwrap();
    let config = std::fs::read_to_string(example.join("runwire.toml")).unwrap();
    let server = Serving::start(folder.path(), &config).await;
    let args = [&["--server", server.url(), "--scenario", scenario, "--timeout", "60"], more].concat();
    let seen = real_part::script("copilotkit.mjs", &args).await;
    assert_eq!(seen["elsewhere"], json!([]), "the page wants nothing from another host: {seen:#}");
    for request in seen["requests"].as_array().unwrap() {
        let used: &[&str] = match scenario {
            "single" => &["POST /copilotkit"],
            _ => &["GET /copilotkit/info", "POST /copilotkit/agent/assistant/"],
        };
        let request = request.as_str().unwrap();
        let is = |used: &&str| request == *used || (used.ends_with('/') && request.starts_with(*used));
        assert!(used.iter().any(is), "{request}: {seen:#}");
    }
    Some(Played { server, seen, _folder: folder })
}

impl Played {
    /// Nothing went wrong in the page that it would tell its developer.
    fn quietly(&self) {
        for errors in ["consoleErrors", "pageErrors"] {
            assert_eq!(self.seen[errors], json!([]), "{:#}", self.seen);
        }
    }

    /// The runs, those that are older first: what each came to.
    async fn statuses(&self) -> Vec<String> {
        let mut runs = self.server.client().runs(&runwire_client::RunFilter::default()).await.unwrap().runs;
        runs.reverse();
        runs.iter().map(|run| run.status().as_str().to_owned()).collect()
    }
}

fn said(turns: &[(&str, &str)]) -> Value {
    let turns = turns.iter().flat_map(|(asked, answer)| [("user", asked), ("assistant", answer)]);
    turns.map(|(of, text)| json!({ "of": of, "text": text })).collect()
}

fn counted(to: usize) -> String {
    (1..=to).map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_conversation_streams_and_however_often_the_chat_mounts_it_is_there_once() {
    let Some(played) = play("chat", &[]).await else { return };
    let seen = &played.seen;
    let whole = said(&[("hello there", "You said: hello there"), ("and again", "You said: and again")]);
    assert_eq!(seen["before"], whole);
    assert_eq!(seen["mounted"], json!([whole, whole, whole]));
    assert_eq!((&seen["reloaded"], &seen["alert"]), (&whole, &Value::Null));
    assert_eq!(played.statuses().await, ["completed", "completed"]);
    played.quietly();
}

#[tokio::test]
async fn a_reload_and_a_second_tab_in_mid_run_show_all_of_it_once_and_go_on_live() {
    let Some(played) = play("reload", &[]).await else { return };
    let seen = &played.seen;
    let whole = said(&[("count to 150", &counted(150))]);
    assert_eq!((&seen["messages"], &seen["other"]), (&whole, &whole));
    assert_eq!(seen["openedInMidRun"], true, "the second tab saw it before it was over");
    assert_eq!(seen["alerts"], json!([null, null]));
    assert_eq!(played.statuses().await, ["completed"], "it ran once");
    played.quietly();
}

#[tokio::test]
async fn connections_that_break_in_mid_run_are_not_noticed_with_the_fetch_that_resumes() {
    let cuts = ["--cut-in-event", "8.0", "--cut-in-event", "14.0", "--cut-in-event", "20.0"];
    let Some(played) = play("cut", &cuts).await else { return };
    let seen = &played.seen;
    assert_eq!(seen["cuts"].as_array().unwrap().len(), 3, "{seen:#}");
    assert_eq!((&seen["messages"], &seen["alert"]), (&said(&[("count to 60", &counted(60))]), &Value::Null));
    assert_eq!(played.statuses().await, ["completed"]);
    assert_eq!(seen["pageErrors"], json!([]));
}

/// What CopilotKit's client does by itself: it shows a failure and stays where it was. The run goes on (G9).
#[tokio::test]
async fn without_that_fetch_a_broken_connection_is_shown_and_a_reload_brings_the_rest() {
    let Some(played) = play("cut-plain", &["--cut-in-event", "14.0"]).await else { return };
    let seen = &played.seen;
    assert_eq!(seen["cuts"].as_array().unwrap().len(), 1, "{seen:#}");
    let left = seen["left"][1]["text"].as_str().unwrap();
    assert!(counted(60).starts_with(left) && left.len() < counted(60).len(), "{seen:#}");
    assert!(seen["alert"].as_str().is_some_and(|alert| !alert.is_empty()), "{seen:#}");
    assert_eq!(seen["reloaded"], said(&[("count to 60", &counted(60))]));
    assert_eq!(played.statuses().await, ["completed"]);
}

#[tokio::test]
async fn a_question_is_answered_in_the_chat_and_is_still_there_after_a_reload() {
    let Some(played) = play("answer", &[]).await else { return };
    let seen = &played.seen;
    assert_eq!((&seen["first"], &seen["second"]), (&json!("Pay back 20?"), &json!("Pay back 500?")));
    assert_eq!(seen["questions"], 0, "an answered question goes away");
    let denied = "Not paid back, because you did not approve.";
    let whole = said(&[("refund 20", "Paid back: 20."), ("refund 500", denied)]);
    assert_eq!((&seen["messages"], &seen["reloaded"]), (&whole, &whole));
    assert_eq!(seen["alert"], Value::Null);
    assert_eq!(played.statuses().await, ["completed", "completed"], "each went on as the run that asked");
    played.quietly();
}

#[tokio::test]
async fn a_stop_reaches_the_agent_is_no_failure_in_any_tab_and_the_next_message_is_an_ordinary_one() {
    let Some(played) = play("stop", &[]).await else { return };
    let seen = &played.seen;
    let stopped = seen["stopped"].as_str().unwrap();
    assert!(counted(1000).starts_with(stopped) && stopped.len() < counted(1000).len(), "{seen:#}");
    assert_eq!((&seen["alerts"], &seen["alert"]), (&json!([null, null]), &Value::Null), "{seen:#}");
    assert_eq!(seen["messages"][1]["text"], stopped, "what was said stays, and nothing comes after the stop");
    assert_eq!(
        seen["messages"].as_array().unwrap()[2..],
        said(&[("hello", "You said: hello")]).as_array().unwrap()[..]
    );
    assert_eq!(played.statuses().await, ["cancelled", "completed"]);
    played.quietly();
}

#[tokio::test]
async fn a_tool_of_the_page_is_called_once_and_its_result_goes_back() {
    let Some(played) = play("tool", &[]).await else { return };
    let seen = &played.seen;
    assert_eq!((&seen["before"], &seen["after"]), (&json!("white"), &json!("lavender")));
    let whole = said(&[("paint it lavender", "Painted. The background is lavender.")]);
    assert_eq!((&seen["messages"], &seen["reloaded"]), (&whole, &whole));
    assert_eq!(seen["again"], "white", "a thread that is shown again calls nothing");
    assert_eq!(played.statuses().await, ["completed", "completed"], "the call, and its result");
    played.quietly();
}

#[tokio::test]
async fn a_failed_run_is_shown_once_and_takes_nothing_from_the_thread() {
    let Some(played) = play("failed", &[]).await else { return };
    let seen = &played.seen;
    assert_eq!(seen["alert"], "the agent was asked to fail");
    let whole = said(&[
        ("hello", "You said: hello"),
        ("fail", "This sentence has no"),
        ("hello again", "You said: hello again"),
    ]);
    assert_eq!((&seen["messages"], &seen["reloaded"], &seen["after"]), (&whole, &whole, &Value::Null));
    assert_eq!(played.statuses().await, ["completed", "failed", "completed"]);
    assert_eq!(seen["pageErrors"], json!([]));
}

#[tokio::test]
async fn all_of_it_goes_by_one_route_too() {
    let Some(played) = play("single", &[]).await else { return };
    let seen = &played.seen;
    let messages = seen["messages"].as_array().unwrap();
    assert_eq!(messages[..2], said(&[("refund 20", "Paid back: 20.")]).as_array().unwrap()[..]);
    let stopped = messages[3]["text"].as_str().unwrap();
    assert!(counted(1000).starts_with(stopped) && stopped.len() < counted(1000).len(), "{seen:#}");
    let painted = said(&[("paint it lavender", "Painted. The background is lavender.")]);
    assert_eq!(messages[4..], painted.as_array().unwrap()[..]);
    assert_eq!(seen["alert"], Value::Null);
    assert_eq!(played.statuses().await, ["completed", "cancelled", "completed", "completed"]);
    played.quietly();
}
