//! A page that is loaded again asks for its thread, and the released clients take what comes back: whatever became of the
//! thread's runs, live or not, each message once.

use runwire_frame::Data;
use serde_json::{Value, json};

use super::{input, made, scenes, staged};
use crate::real_part::{self, CLIENTS, agui_client, events, kinds, last, taken_quietly};
use crate::serving::{AGENTS, Serving};

/// A client that knows nothing of the thread asks for it.
async fn connected(server: &Serving, agent: &str, version: &str, thread: &str) -> Value {
    let url = server.at(&format!("/agui/{agent}/connect"));
    let run = agui_client(version, &url, &["--thread", thread, "--run", "mount"]).await;
    taken_quietly(&run);
    run
}

#[tokio::test]
async fn each_released_client_gets_back_a_thread_of_every_family_and_every_ending() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server) = staged(folder.path()).await;
    let url = server.at("/agui/scripted");
    for (n, scene) in scenes::NAMES.into_iter().enumerate() {
        // Either client's thread comes back to both.
        let asked = ["--thread", scene, "--run", "turn", "--prompt", scene];
        let first = agui_client(CLIENTS[n % 2], &url, &asked).await;
        taken_quietly(&first);
        let asked = input(scene, "turn", scene);
        let (_, messages, state) = made(&asked, &scenes::play(&asked));
        let back = tokio::join!(
            connected(&server, "scripted", CLIENTS[0], scene),
            connected(&server, "scripted", CLIENTS[1], scene)
        );
        for (version, run) in CLIENTS.into_iter().zip([back.0, back.1]) {
            let (mut messages, mut state) = (messages.clone(), state.clone());
            if scene == "replayed" {
                // The history that the agent restates must not take away what the user has just said.
                let said = asked["messages"].as_array().unwrap().clone();
                messages.as_array_mut().unwrap().splice(2..2, said);
            }
            if version != "1.0.0" {
                match scene {
                    // It has no place for parts in a tool's answer, and a snapshot of `null` it does not apply.
                    "parts" => messages[2]["content"] = json!("Here."),
                    "null state" => state = json!({}),
                    _ => {}
                }
            }
            assert_eq!(run["messages"], messages, "{scene}, {version}");
            assert_eq!(run["state"], state, "{scene}, {version}");
            assert_eq!((kinds(&run)[0], &last(&run)["type"]), ("RUN_STARTED", &json!("RUN_FINISHED")), "{scene}");
            let interrupts = match scene {
                "interrupt" => last(&run)["outcome"]["interrupts"].clone(),
                _ => json!([]),
            };
            assert_eq!(run["pendingInterrupts"], interrupts, "{scene}, {version}");
            assert_eq!(interrupts == json!([]), scene != "interrupt", "{version}: what waits comes back as waiting");
        }
    }
}

#[tokio::test]
async fn each_released_client_gets_a_thread_that_does_not_exist_yet_as_an_empty_run() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    for version in CLIENTS {
        let run = connected(&server, "demo", version, "new").await;
        assert_eq!(kinds(&run), ["RUN_STARTED", "RUN_FINISHED"], "{version}");
        assert_eq!(run["messages"].as_array().unwrap().len(), 1, "{version}: what it holds by itself stays");
    }
}

#[tokio::test]
async fn each_released_client_joins_a_live_run_of_a_thread_and_follows_it_to_its_end() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    for version in CLIENTS {
        // A turn that is over, and then one that goes on.
        let url = server.at("/agui/demo");
        let before = agui_client(version, &url, &["--thread", version, "--run", "before"]).await;
        taken_quietly(&before);
        let url = server.at("/agui/medium");
        let asked = ["--thread", version, "--run", "turn", "--prompt", "One two three"];
        let join = async {
            let id = server
                .patiently("the second run to be created", async || {
                    let filter = runwire_client::RunFilter {
                        session_id: Some(version.to_owned()),
                        agent_id: Some("medium".to_owned()),
                        ..Default::default()
                    };
                    server.client().runs(&filter).await.unwrap().runs.into_iter().next()
                })
                .await;
            server.wait_for(id.run_id(), |frame| matches!(frame.data, Data::TextDelta(_))).await;
            let own = tokio::join!(
                connected(&server, "medium", CLIENTS[0], version),
                connected(&server, "medium", CLIENTS[1], version)
            );
            [own.0, own.1]
        };
        let (own, joined) = tokio::join!(agui_client(version, &url, &asked), join);
        taken_quietly(&own);
        let earlier = before["messages"].as_array().unwrap();
        for (reader, run) in CLIENTS.into_iter().zip(joined) {
            let started = &events(&run)[0];
            assert_eq!(started["runId"], "turn", "{reader}: the live run's own start");
            assert_eq!(kinds(&run)[1..3], ["MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"], "{reader}");
            let messages = run["messages"].as_array().unwrap();
            assert_eq!(messages[..earlier.len()], earlier[..], "{reader}: what came before");
            assert_eq!(messages[earlier.len()..], own["messages"].as_array().unwrap()[..], "{reader}: the run, once");
            assert_eq!(run["state"], own["state"], "{reader}");
        }
    }
}
