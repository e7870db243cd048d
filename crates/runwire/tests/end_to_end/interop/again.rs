//! An agent that begins again, with the ids that it had used before it was cut off; and one that tells earlier runs first. The
//! released clients miss nothing of what it says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::upstream::Upstream;
use crate::real_part::{self, CLIENTS, agui_client, last, taken_quietly};
use crate::serving::Serving;

/// The inputs that the agent was given, by thread.
type Seen = Arc<Mutex<HashMap<String, Vec<Value>>>>;

/// An agent behind a server that asks it again when it was cut off.
async fn asked_again(
    folder: &std::path::Path,
    script: impl Fn(usize, &Value) -> Vec<Value> + Send + Sync + 'static,
) -> (Upstream, Serving, Seen) {
    let seen = Seen::default();
    let noted = seen.clone();
    let upstream = Upstream::start(move |input| {
        let mut seen = noted.lock().unwrap();
        let asked = seen.entry(input["threadId"].as_str().unwrap().to_owned()).or_default();
        asked.push(input.clone());
        script(asked.len(), input)
    })
    .await;
    let config = format!(
        "[agents.scripted]\ndriver = \"agui\"\nurl = \"{}\"\nidempotent = true\n\
         [agents.scripted.retry]\nmax_attempts = 2\nbackoff = \"10ms\"\n",
        upstream.url
    );
    let server = Serving::start(folder, &config).await;
    (upstream, server, seen)
}

fn bounds(input: &Value) -> (Value, Value) {
    let of = |event_type: &str| json!({"type": event_type, "threadId": input["threadId"], "runId": input["runId"]});
    (of("RUN_STARTED"), of("RUN_FINISHED"))
}

/// Cut off in the middle of a subagent's message; then whole, and it asks; then it goes on with what it had asked about.
fn scout(number: usize, input: &Value) -> Vec<Value> {
    let (started, mut finished) = bounds(input);
    let announced = json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "scout"});
    let done = json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a"});
    if number > 2 {
        return vec![
            started,
            announced,
            json!({"type": "TOOL_CALL_RESULT", "messageId": "r", "toolCallId": "c", "content": "sent",
                "subagentRunId": "a"}),
            done,
            json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "n", "delta": "Done."}),
            finished,
        ];
    }
    let mut events = vec![
        started,
        announced,
        json!({"type": "REASONING_MESSAGE_CHUNK", "messageId": "t", "delta": "Hm.", "subagentRunId": "a"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "subagentRunId": "a"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": format!("attempt {number}")}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "send", "parentMessageId": "m",
            "subagentRunId": "a"}),
    ];
    if number == 2 {
        finished["outcome"] = json!({"type": "interrupt", "interrupts": [
            {"id": "i", "reason": "approval", "toolCallId": "c", "subagentRunId": "a"}]});
        events.extend([
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}),
            json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}),
            done,
            finished,
        ]);
    }
    events
}

#[tokio::test]
async fn each_released_client_holds_all_that_an_agent_says_which_begins_again_with_its_ids() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server, seen) = asked_again(folder.path(), scout).await;
    for version in CLIENTS {
        let asked = ["--thread", version, "--run", "turn", "--answer", "{\"approved\":true}"];
        let run = agui_client(version, &server.at("/agui/scripted"), &asked).await;
        taken_quietly(&run);
        assert_eq!(last(&run)["type"], "RUN_FINISHED", "{version}");
        let held = |messages: &Value| -> Vec<Value> {
            let said = messages.as_array().unwrap().iter().filter(|message| message["role"] != "user");
            said.filter(|message| message["role"] != "reasoning").cloned().collect()
        };
        let messages = held(&run["messages"]);
        assert_eq!(messages.len(), 3, "{version}: {messages:#?}");
        assert_eq!((&messages[0]["id"], &messages[0]["content"]), (&json!("m.2"), &json!("attempt 2")), "{version}");
        let call = &messages[0]["toolCalls"][0];
        assert_eq!((&call["id"], &call["function"]["arguments"]), (&json!("c.2"), &json!("{}")), "{version}");
        assert_eq!((&messages[1]["toolCallId"], &messages[1]["content"]), (&json!("c.2"), &json!("sent")), "{version}");
        assert_eq!(messages[2]["content"], "Done.", "{version}");

        // What the client sent with its answer had these names, and the agent was given its own.
        let given = seen.lock().unwrap()[version].clone();
        assert_eq!(given.len(), 3, "{version}");
        let given = held(&given[2]["messages"]);
        assert_eq!((&given[0]["id"], &given[0]["toolCalls"][0]["id"]), (&json!("m"), &json!("c")), "{version}");

        let back = agui_client(version, &server.at("/agui/scripted/connect"), &["--thread", version]).await;
        taken_quietly(&back);
        assert_eq!(held(&back["messages"]), messages, "{version}: and so it comes back");
    }
}

/// Restates the state of an earlier run and changes it; the requested run's own change stands on that.
fn changed(_: usize, input: &Value) -> Vec<Value> {
    let (started, finished) = bounds(input);
    let (began, ended) = bounds(&json!({"threadId": input["threadId"], "runId": "earlier"}));
    vec![
        began,
        json!({"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}}),
        json!({"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]}),
        ended,
        started,
        json!({"type": "STATE_DELTA", "delta": [
            {"op": "test", "path": "/n", "value": 2}, {"op": "add", "path": "/m", "value": 1}]}),
        finished,
    ]
}

#[tokio::test]
async fn each_released_client_holds_the_state_that_an_agent_means_which_tells_earlier_runs_first() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server, _) = asked_again(folder.path(), changed).await;
    for version in CLIENTS {
        let asked = ["--thread", version, "--run", "turn", "--state", "{\"n\":2}"];
        let run = agui_client(version, &server.at("/agui/scripted"), &asked).await;
        taken_quietly(&run);
        assert_eq!(run["state"], json!({"n": 2, "m": 1}), "{version}");
    }
}
