//! Conversations by prompts: each run is given what its session said before, whatever executes it.

use runwire_client::{Answer, CreateRun};
use runwire_frame::{Data, Frame, RunStatus};
use serde_json::{Value, json};

use crate::model_agents::Mock;
use crate::program::run;
use crate::real_part::{self, UpstreamAgent};
use crate::serving::{Serving, http};

/// Says the input that it was given. The second one does so once the file `go` is there.
const REPEATING: &str = r#"
[agents.repeats]
driver = "exec"
command = ["cat"]
output = "text"

[agents.waits]
driver = "exec"
command = ["sh", "-c", "cat; n=0; until [ -e go ] || [ $n -gt 2000 ]; do n=$((n+1)); sleep 0.05; done"]
output = "text"
retry = { max_attempts = 2, backoff = "1ms" }
"#;

async fn say(server: &Serving, agent: &str, text: &str) -> String {
    let create = CreateRun::prompt(agent, text).session_id("s");
    server.client().create_run(&create).await.unwrap().run_id().to_owned()
}

async fn ended(server: &Serving, run_id: &str) -> Vec<Frame> {
    server.wait_for(run_id, |frame| matches!(frame.data, Data::RunEnd(_))).await;
    server.log_of(run_id).await.iter().map(|body| Frame::decode(body.as_bytes()).unwrap()).collect()
}

/// What the run's agent said, which is the input that it was given.
fn given(log: &[Frame]) -> Value {
    let begun = log.iter().rposition(|frame| matches!(frame.data, Data::RunStart(_))).unwrap();
    let pieces = log[begun..].iter().filter_map(|frame| match &frame.data {
        Data::TextDelta(delta) => Some(delta.text.as_str()),
        _ => None,
    });
    serde_json::from_str(&pieces.collect::<String>()).unwrap()
}

/// Each message's role and, of a user's, what was said.
fn roles(input: &Value) -> Vec<String> {
    let messages = input["messages"].as_array().unwrap().iter();
    messages
        .map(|message| match message["role"].as_str().unwrap() {
            "user" => format!("> {}", message["content"].as_str().unwrap()),
            role => role.to_owned(),
        })
        .collect()
}

async fn session(server: &Serving) -> Value {
    serde_json::from_str(&http(&server.at("/v2/sessions/s")).await).unwrap()
}

#[tokio::test]
async fn the_command_line_goes_on_with_a_session_that_its_agent_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), REPEATING).await;
    for (n, text) in ["one", "two", "three"].into_iter().enumerate() {
        let before = if n == 0 { json!([]) } else { session(&server).await["messages"].clone() };
        let args = ["run", "repeats", text, "--session", "s", "--json", "--server", server.url()];
        let lines = run(folder.path(), &args).await.exits(0).json_lines();
        let frames: Vec<Frame> = lines.iter().map(|line| Frame::decode(line.to_string().as_bytes()).unwrap()).collect();
        let input = given(&frames);
        let (prompt, earlier) = input["messages"].as_array().unwrap().split_last().unwrap();
        assert_eq!(prompt["content"], text);
        assert_eq!(json!(earlier), before, "what the session tells everybody");
        assert_eq!(earlier.len(), 2 * n);
    }
}

#[tokio::test]
async fn after_a_sigkill_what_waited_has_the_answer_before_it_and_a_further_attempt_what_the_first_had() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), REPEATING).await;
    ended(&server, &say(&server, "repeats", "one").await).await;
    let first = say(&server, "waits", "two").await;
    server.wait_for(&first, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    let second = say(&server, "waits", "three").await;
    server.kill().await;

    let server = Serving::start(folder.path(), REPEATING).await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    let log = ended(&server, &first).await;
    let starts: Vec<&Value> = log
        .iter()
        .filter_map(|frame| match &frame.data {
            Data::RunStart(start) => Some(&start.extra["agui"]["input"]),
            _ => None,
        })
        .collect();
    assert_eq!((starts.len(), starts[0]), (2, starts[1]), "both attempts were asked the same");
    assert_eq!(roles(starts[0]), ["> one", "assistant", "> two"]);
    assert_eq!(given(&log)["messages"], starts[0]["messages"], "and the second was given that");
    let waited = given(&ended(&server, &second).await);
    assert_eq!(roles(&waited), ["> one", "assistant", "> two", "assistant", "> three"]);
    let all = session(&server).await;
    assert_eq!(waited["messages"].as_array().unwrap()[..4], all["messages"].as_array().unwrap()[..4]);
}

/// events/tool-calls, "Frontend tools": a history with a call that nobody answered is one that most models reject.
#[tokio::test]
async fn an_upstream_agent_goes_on_beside_a_call_that_waits_for_approval() {
    if !real_part::agent() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let agent = UpstreamAgent::start(folder.path(), 0.0).await;
    let config = format!(
        "{REPEATING}\n[agents.asks]\ndriver = \"agui\"\nurl = \"{url}asking\"\n[agents.weather]\ndriver = \"agui\"\nurl = \"{url}\"\n",
        url = agent.url
    );
    let server = Serving::start(folder.path(), &config).await;
    let asking = say(&server, "asks", "Delete my notes").await;
    let suspended = |frame: &Frame| matches!(&frame.data, Data::RunStatus(s) if s.status == RunStatus::Suspended);
    server.wait_for(&asking, suspended).await;
    let log = ended(&server, &say(&server, "weather", "How is the weather?").await).await;
    let Some(Data::RunEnd(end)) = log.last().map(|frame| &frame.data) else { panic!("it has ended") };
    assert_eq!((end.status.as_str(), end.failure_detail.as_deref()), ("completed", None));
    let input = given(&ended(&server, &say(&server, "repeats", "And now?").await).await);
    let roles = roles(&input);
    assert_eq!(roles[..4], ["> Delete my notes", "assistant", "tool", "> How is the weather?"], "{roles:?}");
    assert_eq!(input["messages"][2]["error"], "not answered");
    assert_eq!(roles.last().unwrap(), "> And now?");

    // The question is still there, and once it is answered the call has its result.
    let waits_for = server.client().run(&asking).await.unwrap().waits_for().unwrap();
    let approve = Answer::resolved(&*waits_for.interrupts[0].interrupt_id, json!({ "approved": true }));
    server.client().resume(&asking, &[approve]).await.unwrap();
    ended(&server, &asking).await;
    let input = given(&ended(&server, &say(&server, "repeats", "And then?").await).await);
    let results: Vec<&Value> = input["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["toolCallId"] == input["messages"][2]["toolCallId"])
        .collect();
    assert_eq!(results.len(), 1, "{input:#}");
    assert!(results[0]["content"].as_str().unwrap().contains("Deleted the notes"), "{input:#}");
}

#[tokio::test]
async fn a_model_is_sent_the_conversation() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let config = format!("{}\n[agents.openai.payloads]\nmodel_calls = true\n", mock.config());
    let server = Serving::start(folder.path(), &config).await;
    for text in ["say hello", "look twice"] {
        ended(&server, &say(&server, "openai", text).await).await;
    }
    let last = say(&server, "openai", "say hello").await;
    let sent = first_request(&server, &last).await;
    let told: Vec<String> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| match message["role"].as_str().unwrap() {
            "user" => format!("> {}", message["content"].as_str().unwrap_or_default()),
            role => role.to_owned(),
        })
        .collect();
    assert_eq!(
        told,
        [
            "> say hello",
            "assistant",
            "> look twice",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant",
            "> say hello"
        ],
        "{sent:#}"
    );
}

/// The request of the run's first model call, as it was sent.
async fn first_request(server: &Serving, run_id: &str) -> Value {
    let log = ended(server, run_id).await;
    let model = log.iter().find(|frame| matches!(&frame.data, Data::SegmentStart(s) if s.kind.as_str() == "model"));
    let segment = model.unwrap().segment_id.clone().unwrap();
    let kept = http(&server.at(&format!("/v2/runs/{run_id}/segments/{}/payload", segment.as_str()))).await;
    serde_json::from_str::<Value>(&kept).unwrap()["request"]["body"].clone()
}
