//! The released AG-UI clients run the demo agent, each with its own verifier on.

use runwire_frame::Data;
use serde_json::{Value, json};

use crate::real_part::{self, CLIENTS, agui_client, events, kinds, last, script, taken_quietly};
use crate::serving::{AGENTS, Serving};

/// What the demo agent does, in order; a row of deltas counts once.
const COURSE: [&str; 19] = [
    "RUN_STARTED",
    "STATE_SNAPSHOT",
    "STEP_STARTED",
    "REASONING_START",
    "REASONING_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT",
    "REASONING_MESSAGE_END",
    "REASONING_END",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "TOOL_CALL_RESULT",
    "STATE_DELTA",
    "STEP_FINISHED",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "STATE_DELTA",
    "RUN_FINISHED",
];

const MEASURED: &str = r#"{"characters":13,"words":3,"longest_word":5}"#;

fn texts<'a>(document: &'a Value, key: &str) -> Vec<&'a str> {
    document["messages"].as_array().unwrap().iter().map(|message| message[key].as_str().unwrap_or_default()).collect()
}

async fn cancel(server: &Serving, run_id: &str) {
    server.wait_for(run_id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    server.client().cancel(run_id).await.unwrap();
}

#[tokio::test]
async fn a_released_client_takes_a_whole_run_without_an_objection() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    for version in CLIENTS {
        let thread = format!("thread of {version}");
        let asked = ["--thread", &thread, "--run", "turn", "--prompt", "One two three"];
        let run = agui_client(version, &server.at("/agui/demo"), &asked).await;
        taken_quietly(&run);
        assert_eq!(kinds(&run), COURSE, "{version}");
        let started = &events(&run)[0];
        assert_eq!((&started["threadId"], &started["runId"]), (&json!(thread), &json!("turn")), "{version}");
        assert_eq!(started["protocolVersion"], "1.0", "{version}");
        let measured: Value = serde_json::from_str(MEASURED).unwrap();
        assert_eq!(run["result"], measured, "{version}");
        assert_eq!(last(&run)["usage"][0]["provider"], "runwire", "{version}");

        assert_eq!(texts(&run, "role"), ["user", "reasoning", "assistant", "tool", "assistant"], "{version}");
        let messages = &run["messages"];
        let call = &messages[2]["toolCalls"][0];
        assert_eq!(call["function"], json!({ "name": "measure_text", "arguments": r#"{"text":"One two three"}"# }));
        assert_eq!(messages[3]["toolCallId"], call["id"], "{version}");
        assert_eq!(messages[3]["content"], MEASURED, "{version}");
        let said = texts(&run, "content");
        assert!(said[1].starts_with("I was asked something") && said[1].ends_with("the tool says."), "{said:?}");
        assert!(said[4].starts_with("Your prompt has 13 characters in 3 words"), "{said:?}");
        assert!(said[4].ends_with("nothing missing, nothing twice. "), "{said:?}");
        let state = json!({ "phase": "done", "progress": 1, "prompt": "One two three", "measured": measured });
        assert_eq!(run["state"], state, "{version}");

        // What the client was given says the same as the text that it holds: no delta was lost on the way or doubled.
        let deltas = events(&run).iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
        assert_eq!(deltas.map(|event| event["delta"].as_str().unwrap()).collect::<String>(), said[4], "{version}");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_with_a_second_turn() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let url = server.at("/agui/demo");
    for version in CLIENTS {
        let args = ["--url", &url, "--client", version, "--thread", version];
        let talk = real_part::source(include_str!("two_turns.mjs"), &args).await;
        assert_eq!(talk["warnings"], json!([]), "{version}");
        let (first, second) = (&talk["turns"][0], &talk["turns"][1]);
        assert_eq!(kinds(first), COURSE, "{version}");
        assert_eq!(kinds(second), COURSE, "{version}: nothing of the first turn is told again");
        let roles = ["user", "reasoning", "assistant", "tool", "assistant"];
        assert_eq!(texts(second, "role"), [roles, roles].concat(), "{version}");
        assert_eq!(second["messages"].as_array().unwrap()[..5], first["messages"].as_array().unwrap()[..], "{version}");
        assert_eq!(second["state"]["measured"], json!({ "characters": 4, "words": 1, "longest_word": 4 }), "{version}");
        let calls = [&second["messages"][2], &second["messages"][7]].map(|m| &m["toolCalls"][0]["id"]);
        assert_ne!(calls[0], calls[1], "{version}: a tool call's id is the conversation's");
    }
}

#[tokio::test]
async fn a_cancelled_run_ends_for_each_client_in_the_way_that_it_understands() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let url = server.at("/agui/long");
    for version in CLIENTS {
        let asked = ["--thread", version, "--run", "turn"];
        let stop = async {
            let id = server.only_run_of(version).await.run_id().to_owned();
            cancel(&server, &id).await;
            id
        };
        let (run, id) = tokio::join!(agui_client(version, &url, &asked), stop);
        taken_quietly(&run);
        let end = last(&run);
        if version == "1.0.0" {
            assert_eq!(end["type"], "RUN_FINISHED", "{end}");
            assert_eq!(end["outcome"], json!({ "type": "cancelled" }), "{end}");
            assert_eq!(run["result"], Value::Null);
        } else {
            // Of these two a client of that age knows only how to take the one.
            assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!("CANCELLED")), "{end}");
        }
        let opened = |kind: &str| events(&run).iter().filter(|event| event["type"] == kind).count();
        assert_eq!(opened("TEXT_MESSAGE_START"), opened("TEXT_MESSAGE_END"), "{version}: what was open is closed");
        assert!(texts(&run, "content").last().unwrap().starts_with("Your prompt has"), "what was said stays");
        assert_eq!(server.client().run(&id).await.unwrap().status().as_str(), "cancelled");
    }
}

#[tokio::test]
async fn a_client_that_asks_again_with_the_same_ids_joins_the_run_that_goes_on() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let url = server.at("/agui/medium");
    for version in CLIENTS {
        let asked = ["--thread", version, "--run", "turn", "--prompt", "One two three"];
        let later = async {
            let id = server.only_run_of(version).await.run_id().to_owned();
            server.wait_for(&id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
            agui_client(version, &url, &asked).await
        };
        let (first, second) = tokio::join!(agui_client(version, &url, &asked), later);
        taken_quietly(&first);
        taken_quietly(&second);
        assert_eq!(kinds(&first), COURSE, "{version}");
        assert_eq!(first["events"], second["events"], "{version}: both have the same run from its start");
        assert_eq!(first["messages"], second["messages"], "{version}");
        let record = server.only_run_of(version).await;
        assert_eq!(record.status().as_str(), "completed");

        // After its end too; and the ids of a run belong to its input.
        let third = agui_client(version, &url, &asked).await;
        assert_eq!(third["events"], first["events"], "{version}: also when it has ended");
        let other = ["--thread", version, "--run", "turn", "--prompt", "Another question"];
        let refused = agui_client(version, &url, &other).await;
        assert_eq!(refused["outcome"], "rejected", "{refused:#}");
        assert_eq!(refused["events"], json!([]));
        assert!(refused["error"]["message"].as_str().unwrap().contains("409"), "{refused:#}");
        server.only_run_of(version).await;
    }
}

#[tokio::test]
async fn a_reader_of_events_that_is_cut_goes_on_at_the_very_next_one() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let post = server.at("/agui/medium");
    for cut in [1, 3, 8] {
        let input = json!({ "threadId": format!("cut after {cut}"), "runId": "turn", "protocolVersion": "1.0",
                            "messages": [{ "id": "u", "role": "user", "content": "One two three" }],
                            "tools": [], "context": [], "state": {}, "forwardedProps": {} });
        let body = input.to_string();
        let asked = ["--url", &post, "--body", &body];
        let before = script("agui-raw.mjs", &[&asked[..], &["--cut-after-events", &cut.to_string()]].concat()).await;
        assert_eq!((&before["cut"], events(&before).len()), (&json!(true), cut));
        let run_id = before["headers"]["runwire-run-id"].as_str().unwrap();
        let last_id = last(&before)["id"].as_str().unwrap();
        let get = server.at(&format!("/v2/runs/{run_id}/agui"));
        let by_post = [&asked[..], &["--last-event-id", last_id]].concat();
        let by_get = ["--url", &get, "--last-event-id", last_id];
        // Both while the run goes on, and the whole when it has ended.
        let (by_post, by_get) = tokio::join!(script("agui-raw.mjs", &by_post), script("agui-raw.mjs", &by_get));
        let whole = script("agui-raw.mjs", &asked).await;
        for rest in [by_post, by_get] {
            assert_eq!([events(&before), events(&rest)].concat(), events(&whole), "cut after {cut}");
            assert_eq!((&rest["ended"], &rest["partial"]), (&json!(true), &json!(false)));
        }
    }
}
