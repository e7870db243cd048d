//! An agent that exists already — pydantic-ai, behind an AG-UI endpoint of its own — with Runwire in front of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runwire_frame::Data;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::program::run;
use crate::real_part::{self, CLIENTS, UpstreamAgent, agui_client, events, kinds, last, script, taken_quietly};
use crate::serving::Serving;

fn in_front_of(url: &str) -> String {
    format!("[agents.weather]\ndriver = \"agui\"\nurl = \"{url}\"\n")
}

async fn both(folder: &Path, tool_delay: f32) -> (UpstreamAgent, Serving) {
    let agent = UpstreamAgent::start(folder, tool_delay).await;
    let server = Serving::start(folder, &in_front_of(&agent.url)).await;
    (agent, server)
}

/// Waits until the agent is in its first tool.
async fn in_the_tool(server: &Serving, run_id: &str) {
    server.wait_for(run_id, |frame| matches!(frame.data, Data::ToolCall(_))).await;
}

/// The events as they are promised: without the time of their making, with rows of deltas joined, with the ids that the
/// agent makes anew for every run counted, and without the echo of the input, which Runwire adds.
fn essence(document: &Value) -> Vec<Value> {
    let mut ids: Vec<String> = Vec::new();
    let mut essence: Vec<Value> = Vec::new();
    for event in events(document) {
        let mut event = event.clone();
        let members = event.as_object_mut().unwrap();
        members.remove("timestamp");
        if members["type"] == "RUN_STARTED" {
            members.remove("input");
        }
        for key in ["messageId", "parentMessageId"] {
            let Some(id) = members.get(key).and_then(Value::as_str).map(str::to_owned) else { continue };
            let n = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            });
            members.insert(key.to_owned(), format!("message {n}").into());
        }
        let joins = |before: &Value, event: &Value| {
            let without = |event: &Value| {
                let mut event = event.clone();
                event.as_object_mut().unwrap().remove("delta");
                event
            };
            event["delta"].is_string() && without(before) == without(event)
        };
        match essence.last_mut() {
            Some(before) if joins(before, &event) => {
                let joined = format!("{}{}", before["delta"].as_str().unwrap(), event["delta"].as_str().unwrap());
                before["delta"] = joined.into();
            }
            _ => essence.push(event),
        }
    }
    essence
}

#[tokio::test]
async fn a_client_sees_through_runwire_what_it_sees_from_the_agent_itself() {
    if !real_part::agent() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (agent, server) = both(folder.path(), 0.0).await;
    for version in CLIENTS {
        let asked = ["--thread", version, "--run", "turn", "--prompt", "How is the weather?"];
        let direct = agui_client(version, &agent.url, &asked).await;
        let before = agent.requests();
        let through = agui_client(version, &server.at("/agui/weather"), &asked).await;
        assert_eq!(agent.requests(), before + 1, "the agent sees one ordinary request");
        taken_quietly(&direct);
        taken_quietly(&through);
        for kind in ["TOOL_CALL_RESULT", "STATE_SNAPSHOT", "STATE_DELTA", "TEXT_MESSAGE_CONTENT", "RUN_FINISHED"] {
            assert!(kinds(&direct).contains(&kind), "{kind} belongs to what is compared: {direct:#}");
        }
        assert_eq!(essence(&through), essence(&direct), "{version}");
        assert_eq!(through["state"], direct["state"], "{version}");
        let held = |document: &Value| {
            let mut messages = document["messages"].clone();
            messages.as_array_mut().unwrap().iter_mut().for_each(|m| m["id"] = Value::Null);
            messages
        };
        assert_eq!(held(&through), held(&direct), "{version}");
        assert_eq!(through["result"], direct["result"], "{version}");
    }
}

#[tokio::test]
async fn a_run_of_the_agent_is_durable_and_has_as_many_viewers_as_want_to_look() {
    if !real_part::agent() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (agent, server) = both(folder.path(), 1.5).await;
    let url = server.at("/agui/weather");
    let asked = ["--thread", "talk", "--run", "turn"];
    let viewers = async {
        let id = server.only_run_of("talk").await.run_id().to_owned();
        in_the_tool(&server, &id).await;
        let (events_url, frames_url) =
            (server.at(&format!("/v2/runs/{id}/agui")), server.at(&format!("/v2/runs/{id}/stream")));
        let ws_url = server.ws_at(&format!("/v2/runs/{id}/ws"));
        let (events_args, frames_args, ws_args) = (["--url", &events_url], ["--url", &frames_url], ["--url", &ws_url]);
        let seen = tokio::join!(
            agui_client("1.0.0", &url, &asked),
            script("agui-raw.mjs", &events_args),
            script("sse-reader.mjs", &frames_args),
            script("ws-reader.mjs", &ws_args),
        );
        (id, seen)
    };
    let (first, (id, (second, events_read, by_sse, by_ws))) = tokio::join!(agui_client("1.0.0", &url, &asked), viewers);

    taken_quietly(&first);
    taken_quietly(&second);
    assert_eq!(last(&first)["type"], "RUN_FINISHED");
    assert_eq!(first["events"], second["events"]);
    let parsed = |read: &Value| -> Vec<Value> {
        events(read).iter().map(|event| serde_json::from_str(event["data"].as_str().unwrap()).unwrap()).collect()
    };
    assert_eq!(parsed(&events_read), events(&first));
    let bodies: Vec<&Value> = by_sse["frames"].as_array().unwrap().iter().map(|frame| &frame["body"]).collect();
    assert_eq!(json!(bodies), by_ws["frames"]);
    assert_eq!(agent.requests(), 1, "viewers are Runwire's, not the agent's");

    // The agent goes, its run stays, also over a restart.
    agent.kill().await;
    server.kill().await;
    let server = Serving::start(folder.path(), &in_front_of("http://127.0.0.1:1/")).await;
    assert_eq!(json!(server.log_of(&id).await), json!(bodies));
    let again = agui_client("1.0.0", &server.at("/agui/weather"), &asked).await;
    assert_eq!(again["events"], first["events"]);
}

#[tokio::test]
async fn an_agent_that_dies_in_the_middle_fails_the_run_and_what_it_said_stays() {
    if !real_part::agent() {
        return;
    }
    for version in CLIENTS {
        let folder = tempfile::tempdir().unwrap();
        let (agent, server) = both(folder.path(), 60.0).await;
        let url = server.at("/agui/weather");
        let death = async {
            let id = server.only_run_of("talk").await.run_id().to_owned();
            in_the_tool(&server, &id).await;
            agent.kill().await;
            id
        };
        let (run, id) = tokio::join!(agui_client(version, &url, &["--thread", "talk", "--run", "turn"]), death);
        taken_quietly(&run);
        let end = last(&run);
        assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!("CHANNEL_ERROR")), "{version}: {end}");
        assert!(!kinds(&run).contains(&"RUN_FINISHED"), "{version}: never a success");
        assert!(kinds(&run).contains(&"TOOL_CALL_ARGS"), "{version}: what was delivered stays delivered");
        let record = server.client().run(&id).await.unwrap();
        assert_eq!(record.status().as_str(), "failed");
        assert_eq!(record.members()["failure"]["code"], "CHANNEL_ERROR", "{:?}", record.members());
    }
}

/// Passes bytes between Runwire and the agent, and counts the connections that Runwire has open.
struct Line {
    url: String,
    open: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
}

impl Line {
    async fn to(agent: &UpstreamAgent) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let agent = agent.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let line = Line { url, open: Arc::default(), opened: Arc::default() };
        let (open, opened) = (line.open.clone(), line.opened.clone());
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let Ok(mut far) = TcpStream::connect(&agent).await else { continue };
                opened.fetch_add(1, Ordering::SeqCst);
                open.fetch_add(1, Ordering::SeqCst);
                let open = open.clone();
                tokio::spawn(async move {
                    // Ends when both sides have closed; the agent closes its own because Runwire's was closed.
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        line
    }
}

#[tokio::test]
async fn a_cancel_reaches_the_agent() {
    if !real_part::agent() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let agent = UpstreamAgent::start(folder.path(), 60.0).await;
    let line = Line::to(&agent).await;
    let server = Serving::start(folder.path(), &in_front_of(&line.url)).await;
    let url = server.at("/agui/weather");
    let stop = async {
        let id = server.only_run_of("talk").await.run_id().to_owned();
        in_the_tool(&server, &id).await;
        assert_eq!(line.open.load(Ordering::SeqCst), 1);
        server.client().cancel(&id).await.unwrap();
        id
    };
    let (run, id) = tokio::join!(agui_client("1.0.0", &url, &["--thread", "talk", "--run", "turn"]), stop);
    taken_quietly(&run);
    assert_eq!(last(&run)["outcome"], json!({ "type": "cancelled" }));
    assert_eq!(server.client().run(&id).await.unwrap().status().as_str(), "cancelled");
    server
        .patiently("the connection to the agent to be closed", async || {
            (line.open.load(Ordering::SeqCst) == 0).then_some(())
        })
        .await;
    assert_eq!(line.opened.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_upstream_that_is_no_agent_fails_the_run_with_what_is_there_instead() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Another Runwire, asked at an address that is none of its agents.
    let other = tempfile::tempdir().unwrap();
    let upstream = Serving::start(other.path(), crate::serving::AGENTS).await;
    let server = Serving::start(folder.path(), &in_front_of(&upstream.at("/agui/nobody"))).await;
    let run = agui_client("1.0.0", &server.at("/agui/weather"), &["--thread", "talk", "--run", "turn"]).await;
    taken_quietly(&run);
    let end = last(&run);
    assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!("CHANNEL_ERROR")), "{end}");
    assert!(end["message"].as_str().unwrap().contains("404"), "{end}");
}

#[tokio::test]
async fn runwire_in_front_of_runwire_is_an_agent_like_any_other() {
    if !real_part::node() {
        return;
    }
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let inner = Serving::start(folders[0].path(), crate::serving::AGENTS).await;
    let apart = Serving::start(folders[1].path(), crate::serving::AGENTS).await;
    let outer = Serving::start(folders[2].path(), &in_front_of(&inner.at("/agui/demo"))).await;
    for version in CLIENTS {
        let asked = ["--thread", version, "--run", "turn", "--prompt", "One two three"];
        let through = agui_client(version, &outer.at("/agui/weather"), &asked).await;
        let direct = agui_client(version, &apart.at("/agui/demo"), &asked).await;
        taken_quietly(&through);
        assert_eq!(essence(&through), essence(&direct), "{version}");
        if version == "1.0.0" {
            // The same ids with the same input: this is the very run that the outer one asked for. An older client's
            // input differs from it by the version, which the outer one declares for itself.
            let attached = agui_client(version, &inner.at("/agui/demo"), &asked).await;
            assert_eq!(essence(&through), essence(&attached));
            assert_eq!(through["messages"], attached["messages"]);
        }
        inner.only_run_of(version).await;
    }
}

/// patterns/interrupt-resume: the framework asks for approval of its tool, and three kinds of caller answer it.
#[tokio::test]
async fn a_tool_that_needs_approval_runs_when_it_is_approved_and_only_then_whoever_answers() {
    if !real_part::agent() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let agent = UpstreamAgent::start(folder.path(), 0.0).await;
    let server = Serving::start(folder.path(), &in_front_of(&format!("{}asking", agent.url))).await;
    for (approved, ran) in [(true, true), (false, false)] {
        let thread = format!("client-{approved}");
        let answer = json!({ "approved": approved }).to_string();
        let asked = ["--thread", &thread, "--prompt", "Delete my notes", "--answer", &answer];
        let seen = agui_client("1.0.0", &server.at("/agui/weather"), &asked).await;
        taken_quietly(&seen);
        let finished: Vec<&Value> = events(&seen).iter().filter(|event| event["type"] == "RUN_FINISHED").collect();
        assert_eq!(finished[0]["outcome"]["type"], "interrupt", "{seen:#}");
        assert_ne!(finished[1]["outcome"]["type"], "interrupt", "{seen:#}");
        let results: Vec<&Value> = events(&seen).iter().filter(|event| event["type"] == "TOOL_CALL_RESULT").collect();
        assert_eq!(results.iter().any(|event| event.to_string().contains("Deleted the notes")), ran, "{seen:#}");
        assert_eq!(server.only_run_of(&thread).await.status(), runwire_frame::RunStatus::Completed);
    }
    for (flag, ran) in [("--approve", true), ("--deny", false)] {
        let ask = ["run", "weather", "Delete my notes", "--json", "--server", server.url()];
        let frames = run(folder.path(), &ask).await.exits(4).json_lines();
        let run_id = frames[0]["run_id"].as_str().unwrap();
        let wrong = ["resume", run_id, "--answer", r#"{"approved":1}"#, "--server", server.url()];
        run(folder.path(), &wrong).await.could_not(&["breaks its schema at /approved"]);
        let resume = ["resume", run_id, flag, "--follow", "--json", "--server", server.url()];
        let rest = run(folder.path(), &resume).await.exits(0);
        assert_eq!(rest.stdout.contains("Deleted the notes"), ran, "{}", rest.stdout);
        assert!(rest.stdout.contains("That "), "it says its last words: {}", rest.stdout);
    }
}
