//! Agents that are a model API and tools, in the shapes of three providers, as `@ag-ui/client` sees them. The models' answers
//! are written down in `tests/real/model-mock.mjs`; the servers that give them are real.

use std::path::Path;
use std::process::Stdio;

use runwire_frame::{Data, Frame, SegmentKind};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::program::{self, PATIENCE, run};
use crate::real_part::{self, agui_client, events, kinds, last, taken_quietly};
use crate::serving::{Serving, http};

/// The providers, by the word that names their driver and the path that their address ends with.
const PROVIDERS: [(&str, &str); 3] = [("openai", "/v1"), ("anthropic", "/v1"), ("gemini", "/v1beta")];

/// The models and the tool. They end with the test that started them.
pub struct Mock {
    _child: Child,
    _stdin: ChildStdin,
    models: String,
    tool: String,
}

impl Mock {
    pub async fn start() -> Mock {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/real");
        let mut child = Command::new("node")
            .arg("model-mock.mjs")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listening = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("the mock says where it listens");
                if let Some(urls) = line.strip_prefix("listening ") {
                    return urls.to_owned();
                }
            }
        };
        let urls = tokio::time::timeout(PATIENCE, listening).await.expect("the mock starts");
        let (models, tool) = urls.split_once(' ').unwrap();
        let (models, tool) = (models.to_owned(), tool.to_owned());
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Mock { _child: child, _stdin: stdin, models, tool }
    }

    /// An agent of each provider, each with two tools.
    pub fn config(&self) -> String {
        let agent = |(driver, path): (&str, &str)| {
            format!(
                "[agents.{driver}]\ndriver = \"{driver}\"\nmodel = \"some-model\"\nbase_url = \"{}{path}\"\n\
                 api_key_env = \"PATH\"\n\
                 [agents.{driver}.tools.look]\nurl = \"{tool}\"\ndescription = \"Looks\"\nheaders = {{ X-Secret = \"s\" }}\n\
                 parameters = {{ type = \"object\", properties = {{ q = {{ type = \"string\" }} }} }}\n\
                 [agents.{driver}.tools.pay]\nurl = \"{tool}\"\ndescription = \"Pays\"\n\
                 approval = {{ arguments = '\"sum\":' }}\n\n",
                self.models,
                tool = self.tool,
            )
        };
        PROVIDERS.map(agent).concat()
    }
}

async fn log(server: &Serving, session: &str) -> (Vec<Frame>, String) {
    let id = server.only_run_of(session).await.run_id().to_owned();
    let bodies = server.log_of(&id).await;
    (bodies.iter().map(|body| Frame::decode(body.as_bytes()).unwrap()).collect(), bodies.join("\n"))
}

fn said(document: &Value) -> String {
    let deltas = events(document).iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    deltas.map(|event| event["delta"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_provider_answers_with_text_and_reasoning_and_its_key_is_nowhere() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let server = Serving::start(folder.path(), &mock.config()).await;
    for (driver, _) in PROVIDERS {
        let url = server.at(&format!("/agui/{driver}"));
        let run = agui_client("1.0.0", &url, &["--thread", driver, "--prompt", "say hello"]).await;
        taken_quietly(&run);
        assert_eq!(last(&run)["type"], "RUN_FINISHED", "{run:#}");
        assert_eq!(said(&run), "Hello from the model, in several pieces.", "{driver}");
        assert!(kinds(&run).contains(&"REASONING_MESSAGE_CONTENT"), "{driver}: {run:#}");
        let usage = &last(&run)["usage"][0];
        assert_eq!(usage["totalTokens"].as_u64(), Some(150), "{driver}: {usage}");
        let (_, text) = log(&server, driver).await;
        let key = std::env::var("PATH").unwrap();
        assert!(!text.contains(&key) && !server.log().contains(&key), "{driver}: a key is in no log");
    }
}

#[tokio::test]
async fn each_provider_calls_tools_in_parallel_and_goes_on_from_their_results() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let server = Serving::start(folder.path(), &mock.config()).await;
    for (driver, _) in PROVIDERS {
        let url = server.at(&format!("/agui/{driver}"));
        let run = agui_client("1.0.0", &url, &["--thread", driver, "--prompt", "look twice"]).await;
        taken_quietly(&run);
        assert_eq!(said(&run), "I have looked twice.", "{driver}: {run:#}");
        let results: Vec<Value> = events(&run)
            .iter()
            .filter(|event| event["type"] == "TOOL_CALL_RESULT")
            .map(|event| serde_json::from_str(event["content"].as_str().unwrap()).unwrap())
            .collect();
        assert_eq!(results.len(), 2, "{driver}");
        for q in ["one", "two"] {
            assert!(results.contains(&json!({ "called": { "q": q }, "secret": "s" })), "{driver}: {results:?}");
        }
    }
}

#[tokio::test]
async fn each_way_of_failing_has_its_code() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let server = Serving::start(folder.path(), &mock.config()).await;
    for (driver, _) in PROVIDERS {
        for (prompt, code, says) in [
            ("be busy", "RATE_LIMITED", "wait 7 s"),
            ("be broken", "MODEL_ERROR", "Oops"),
            ("be cut", "MODEL_ERROR", ""),
        ] {
            let thread = format!("{driver} {prompt}");
            let url = server.at(&format!("/agui/{driver}"));
            let run = agui_client("1.0.0", &url, &["--thread", &thread, "--prompt", prompt]).await;
            let end = last(&run);
            assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!(code)), "{thread}: {end}");
            assert!(end["message"].as_str().unwrap().contains(says), "{thread}: {end}");
            let (frames, text) = log(&server, &thread).await;
            let retryable = frames.iter().any(|frame| matches!(&frame.data, Data::Error(error) if error.retryable));
            assert!(retryable, "{text}");
        }
    }
}

/// One conversation of the released client: what it is asked, and what it answers when the run waits for it.
const TALK: &str = r#"
import { HttpAgent } from "@ag-ui/client";
const [url, thread, prompt, payload] = process.argv.slice(1).filter((flag) => flag !== "--");
const agent = new HttpAgent({ url, threadId: thread, initialMessages: [{ id: "u1", role: "user", content: prompt }] });
const runs = [];
const run = async (more) => {
  const events = [];
  await agent.runAgent(more, { onEvent: ({ event }) => void events.push(JSON.parse(JSON.stringify(event))) });
  runs.push(events);
  return events.at(-1);
};
const tools = [{ name: "show", description: "Shows", parameters: { type: "object" } }];
let end = await run({ tools });
if (end.outcome?.type === "interrupt") {
  const resume = end.outcome.interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: JSON.parse(payload) }));
  await run({ tools, resume });
}
console.log(JSON.stringify({ runs, messages: agent.messages }));
"#;

#[tokio::test]
async fn a_payment_waits_for_a_person_and_is_made_or_not_as_that_says() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let server = Serving::start(folder.path(), &mock.config()).await;
    for (driver, _) in PROVIDERS {
        for approved in [true, false] {
            let payload = json!({ "approved": approved }).to_string();
            let thread = format!("{driver} {approved}");
            let url = server.at(&format!("/agui/{driver}"));
            let talk = real_part::source(TALK, &[&url, &thread, "pay it", &payload]).await;
            let runs = talk["runs"].as_array().unwrap();
            assert_eq!(runs.len(), 2, "{talk:#}");
            let interrupt = &runs[0].as_array().unwrap().last().unwrap()["outcome"]["interrupts"][0];
            assert_eq!(interrupt["metadata"]["arguments"], json!({ "sum": 5 }), "{interrupt}");
            let second = runs[1].as_array().unwrap();
            assert_eq!(second.last().unwrap()["type"], "RUN_FINISHED", "{talk:#}");
            let result = second.iter().find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
            let content = result["content"].as_str().unwrap();
            assert_eq!(content.contains("\"called\":{\"sum\":5}"), approved, "{content}");
            assert_eq!(result["toolCallId"], interrupt["toolCallId"]);
            let words = talk["messages"].to_string();
            assert!(words.contains("That is settled."), "the model is asked again in either case: {words}");
        }
    }
}

#[tokio::test]
async fn a_call_of_the_pages_own_tool_is_left_to_the_page() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let server = Serving::start(folder.path(), &mock.config()).await;
    for (driver, _) in PROVIDERS {
        let url = server.at(&format!("/agui/{driver}"));
        let talk = real_part::source(TALK, &[&url, driver, "show it", "null"]).await;
        let run = talk["runs"][0].as_array().unwrap();
        let start = run.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
        let outcome = &run.last().unwrap()["outcome"];
        assert_eq!(outcome, &json!({ "type": "success", "pendingToolCallIds": [start["toolCallId"]] }), "{driver}");
        assert!(!run.iter().any(|event| event["type"] == "TOOL_CALL_RESULT"), "{driver}");
    }
}

/// A published MCP server, and an agent that has two of its tools.
fn with_mcp(mock: &Mock, reached: &str) -> String {
    format!(
        "[agents.echo]\ndriver = \"openai\"\nmodel = \"some-model\"\nbase_url = \"{}/v1\"\n\
         [agents.echo.mcp.everything]\n{reached}\ntools = [\"echo\", \"get-tiny-image\"]\nrequired = true\n",
        mock.models
    )
}

fn everything() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/real").canonicalize().unwrap();
    folder.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js").display().to_string()
}

async fn echoes(server: &Serving, thread: &str) {
    let run = agui_client("1.0.0", &server.at("/agui/echo"), &["--thread", thread, "--prompt", "echo it"]).await;
    taken_quietly(&run);
    assert_eq!(last(&run)["type"], "RUN_FINISHED", "{run:#}");
    let results: Vec<&Value> = events(&run)
        .iter()
        .filter(|event| event["type"] == "TOOL_CALL_RESULT")
        .map(|event| &event["content"])
        .collect();
    assert!(
        results.iter().any(|content| content.as_str().is_some_and(|text| text.contains("hi there"))),
        "{results:?}"
    );
    let image =
        |content: &&&Value| content.as_array().is_some_and(|parts| parts.iter().any(|part| part["type"] == "image"));
    assert!(results.iter().find(image).is_some(), "an image is a part: {results:?}");
    assert_eq!(said(&run), "It was echoed.");
}

#[tokio::test]
async fn a_published_mcp_server_is_called_as_a_subprocess_and_started_again_when_it_has_died() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    // Its pid is the only thing that tells one start from the next.
    let pids = folder.path().join("pids");
    let script = format!("echo $$ >> {}; exec node {} stdio", pids.display(), everything());
    let reached = format!("command = [\"sh\", \"-c\", \"{script}\"]");
    let server = Serving::start(folder.path(), &with_mcp(&mock, &reached)).await;
    echoes(&server, "first").await;
    echoes(&server, "second").await;
    let started = || std::fs::read_to_string(&pids).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let [pid] = &started()[..] else { panic!("one server serves both runs: {:?}", started()) };
    crate::serving::signal("KILL", pid.parse().unwrap()).await;
    // When its death is seen is the system's matter: a run that comes before that fails, and says so.
    server
        .patiently("the server is started again", async || {
            let url = server.at("/agui/echo");
            let thread = format!("again {}", started().len());
            agui_client("1.0.0", &url, &["--thread", &thread, "--prompt", "echo it"]).await;
            (started().len() > 1).then_some(())
        })
        .await;
    echoes(&server, "third").await;
    server.stop().await;
}

#[tokio::test]
async fn a_published_mcp_server_is_called_over_streamable_http() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = Command::new("node")
        .args([&everything(), "streamableHttp"])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let listening = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("listening") {
                return;
            }
        }
        panic!("the MCP server ended");
    };
    tokio::time::timeout(PATIENCE, listening).await.expect("the MCP server starts");
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let reached = format!("url = \"http://127.0.0.1:{port}/mcp\"");
    let server = Serving::start(folder.path(), &with_mcp(&mock, &reached)).await;
    echoes(&server, "first").await;
}

#[tokio::test]
async fn a_run_that_cannot_have_a_required_server_fails_and_says_which() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let config = with_mcp(&mock, "command = [\"/nonexistent/server\"]");
    let server = Serving::start(folder.path(), &config).await;
    let run = agui_client("1.0.0", &server.at("/agui/echo"), &["--thread", "t", "--prompt", "say hello"]).await;
    let end = last(&run);
    assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!("TOOL_ERROR")), "{end}");
    assert!(end["message"].as_str().unwrap().contains("everything"), "{end}");
    server.kill().await;
    let server = Serving::start(folder.path(), &config.replace("required = true", "")).await;
    let run = agui_client("1.0.0", &server.at("/agui/echo"), &["--thread", "u", "--prompt", "say hello"]).await;
    assert_eq!(last(&run)["type"], "RUN_FINISHED", "{run:#}");
    let (_, text) = log(&server, "u").await;
    assert!(text.contains("tools_unavailable"), "{text}");
}

#[tokio::test]
async fn an_agent_that_is_a_tool_answers_in_a_run_of_its_own_which_the_list_of_its_parents_children_has() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let config = format!(
        "[lanes.default]\nlimit = 1\n\
         [agents.lead]\ndriver = \"openai\"\nmodel = \"some-model\"\nbase_url = \"{models}/v1\"\n\
         [agents.lead.agents.research]\nagent = \"researcher\"\ndescription = \"Finds things out\"\n\
         [agents.researcher]\ndriver = \"anthropic\"\nmodel = \"other-model\"\nbase_url = \"{models}/v1\"\n",
        models = mock.models,
    );
    let server = Serving::start(folder.path(), &config).await;
    let run = agui_client("1.0.0", &server.at("/agui/lead"), &["--thread", "t", "--prompt", "ask around"]).await;
    taken_quietly(&run);
    assert_eq!(said(&run), "I have asked.", "{run:#}");
    let result = events(&run).iter().find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
    assert_eq!(result["content"], "Hello from the model, in several pieces.");
    let parent = server.only_run_of("t").await;
    let arguments = ["runs", "--parent", parent.run_id(), "--json", "--server", server.url()];
    let listed = program::run(folder.path(), &arguments).await.exits(0).json_lines().remove(0);
    let [child] = &listed["runs"].as_array().unwrap()[..] else { panic!("it started one: {listed:#}") };
    assert_eq!((&child["agent_id"], &child["trigger_kind"]), (&json!("researcher"), &json!("agent")));
    let started = events(&run).iter().find(|event| event["type"] == "SUBAGENT_STARTED").unwrap();
    assert_eq!(started["subagentRunId"], child["run_id"]);
    // Two calls of the one, one of the other, each in its own account.
    let totals = [last(&run)["usage"].clone(), parent.members()["usage"].clone(), child["usage"].clone()];
    let total = |usage: &Value| usage[0].get("totalTokens").or(usage[0].get("total_tokens")).and_then(Value::as_u64);
    assert_eq!(totals.each_ref().map(total), [Some(300), Some(300), Some(150)], "{totals:?}");
    assert!(totals.iter().all(|usage| usage.as_array().unwrap().len() == 1), "{totals:?}");
}

/// An agent that has this published MCP server, with these keys.
fn agent_with_everything(mock: &Mock, name: &str, keys: &str) -> String {
    format!(
        "[agents.{name}]\ndriver = \"openai\"\nmodel = \"some-model\"\nbase_url = \"{}/v1\"\n\
         [agents.{name}.mcp.everything]\ncommand = [\"node\", \"{}\", \"stdio\"]\n{keys}\n",
        mock.models,
        everything()
    )
}

#[tokio::test]
async fn each_tool_of_an_mcp_server_has_its_own_approval_and_a_mistyped_one_is_told() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let keys = "approval = \"always\"\n\
                approvals = { echo = \"never\", get-sum = { arguments = '\"b\":[0-9]' }, get-sun = \"always\" }";
    let server = Serving::start(folder.path(), &agent_with_everything(&mock, "sums", keys)).await;
    let url = server.at("/agui/sums");
    let talk = real_part::source(TALK, &[&url, "t", "sum it", "{\"approved\":true}"]).await;
    let runs = talk["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{talk:#}");
    let results = |run: &Value| {
        let events = run.as_array().unwrap().iter().filter(|event| event["type"] == "TOOL_CALL_RESULT");
        events.map(|event| event["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let [echoed] = &results(&runs[0])[..] else { panic!("{talk:#}") };
    assert!(echoed.contains("hi there"), "one that needs no approval is called at once: {echoed}");
    let interrupts = &runs[0].as_array().unwrap().last().unwrap()["outcome"]["interrupts"];
    assert_eq!(interrupts.as_array().unwrap().len(), 1, "{interrupts}");
    assert_eq!(interrupts[0]["metadata"]["toolName"], "get-sum");
    let [sum] = &results(&runs[1])[..] else { panic!("{talk:#}") };
    assert!(sum.contains('5'), "{sum}");
    let (_, text) = log(&server, "t").await;
    assert!(text.contains("tool_unknown") && text.contains("did you mean `get-sum`?"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn what_each_provider_was_asked_and_answered_is_kept_without_the_key() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock::start().await;
    let payloads = |driver: &str| format!("[agents.{driver}.payloads]\nmodel_calls = true\nredact_keys = [\"q\"]\n");
    let config = mock.config() + &PROVIDERS.map(|(driver, _)| payloads(driver)).concat();
    let server = Serving::start(folder.path(), &config).await;
    let key = std::env::var("PATH").unwrap();
    for (driver, _) in PROVIDERS {
        let url = server.at(&format!("/agui/{driver}"));
        let run = agui_client("1.0.0", &url, &["--thread", driver, "--prompt", "look twice"]).await;
        taken_quietly(&run);
        let (frames, text) = log(&server, driver).await;
        assert!(!text.contains("\\\"one\\\""), "{driver}: {text}");
        let models = frames.iter().filter_map(|frame| match &frame.data {
            Data::SegmentStart(start) if start.kind == SegmentKind::Model => frame.segment_id.clone(),
            _ => None,
        });
        let mut kept = Vec::new();
        for segment in models {
            let path = format!("/v2/runs/{}/segments/{segment}/payload", frames[0].run_id);
            let payload = http(&server.at(&path)).await;
            assert!(!payload.contains(&key), "{driver}: {payload}");
            kept.push(serde_json::from_str::<Value>(&payload).unwrap());
        }
        let [asked, again] = &kept[..] else { panic!("{driver}: {kept:?}") };
        assert_eq!(asked["model"], format!("{}/some-model", if driver == "gemini" { "google" } else { driver }));
        assert!(asked["request"]["body"].to_string().contains("look twice"), "{driver}: {asked}");
        let calls = asked["response"]["body"]["tool_calls"].as_array().unwrap();
        let arguments: Vec<&str> = calls.iter().map(|call| call["arguments"].as_str().unwrap()).collect();
        assert_eq!(arguments, ["{\"q\":\"[redacted]\"}"; 2], "{driver}: {asked}");
        let again = (again["request"]["body"].to_string(), &again["response"]["body"]["text"]);
        assert!(again.0.contains("[redacted]") && !again.0.contains("\"one"), "{driver}: {}", again.0);
        assert_eq!(again.1, "I have looked twice.", "{driver}");
    }
    server.kill().await;
    run(folder.path(), &["verify-log"]).await.exits(0);
}
