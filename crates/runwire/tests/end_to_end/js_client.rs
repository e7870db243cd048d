//! The JavaScript client (`clients/js`) against a real server, through a proxy that really breaks connections: in Node.js, in
//! Chromium, and under the released AG-UI clients. What it makes of servers that misbehave is tested beside it, by Node's own
//! test runner.

use std::path::Path;
use std::process::Stdio;

use runwire_client::{CreateRun, RunFilter};
use runwire_frame::Data;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::interop::upstream::Upstream;
use crate::program::PATIENCE;
use crate::real_part::{self, CLIENTS, agui_client, events, kinds, last, script, taken_quietly};
use crate::serving::{AGENTS, Serving};

/// A demo agent that says each word by itself, so that its frames are about as many as its words, however busy the machine is.
const STEADY: &str = "[agents.steady]\ndriver = \"demo\"\npace = \"30ms\"\n";

/// What Node's test runner says of the client's own tests.
#[tokio::test]
async fn the_client_keeps_the_rules_of_the_protocol_towards_servers_that_misbehave() {
    if !real_part::node() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/js/tests");
    for tests in ["follow-run.test.mjs", "follow-session.test.mjs", "resumable-fetch.test.mjs"] {
        let mut command = Command::new("node");
        command.args(["--test", "--test-reporter", "tap", tests]).current_dir(&folder);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let done = tokio::time::timeout(PATIENCE, command.output()).await.expect("the tests end").unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        let failed: Vec<_> = said.split("\n# Subtest: ").filter(|test| test.contains("\nnot ok ")).collect();
        assert!(done.status.success(), "{}\n{}", failed.join("\n"), String::from_utf8_lossy(&done.stderr));
        assert!(said.contains("\n# fail 0\n") && !said.contains("\n# pass 0\n"), "{said}");
    }
}

/// The module is what its types say, and the types are what a caller needs: known frames by their `type`, closed sets closed.
#[tokio::test]
async fn the_types_hold_for_the_module_and_for_its_callers() {
    let Some(compiler) = real_part::typescript() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/js/tests");
    let mut command = Command::new("node");
    command.arg(compiler).args(["--project", "."]).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    let done = tokio::time::timeout(PATIENCE, command.output()).await.expect("the compiler ends").unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

/// A run as short as a run with text can be, with hard Unicode in it: every byte of it gets a reader of its own.
async fn short_run(folder: &Path) -> (Upstream, Serving, String, String) {
    let upstream = Upstream::start(|input| {
        let (thread, run) = (&input["threadId"], &input["runId"]);
        vec![
            json!({ "type": "RUN_STARTED", "threadId": thread, "runId": run }),
            json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" }),
            json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "é👩‍👩‍👧 e\u{301}\u{2028}\r\n\n" }),
            json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }),
            json!({ "type": "RUN_FINISHED", "threadId": thread, "runId": run }),
        ]
    })
    .await;
    let config = format!("[agents.short]\ndriver = \"agui\"\nurl = \"{}\"\n", upstream.url);
    let server = Serving::start(folder, &config).await;
    let body = json!({ "threadId": "t", "runId": "r", "messages": [{ "id": "u", "role": "user", "content": "Hi" }],
                       "tools": [], "context": [], "state": {}, "forwardedProps": {}, "protocolVersion": "1.0" })
    .to_string();
    let run = script("agui-raw.mjs", &["--url", &server.at("/agui/short"), "--body", &body]).await;
    let run_id = run["headers"]["runwire-run-id"].as_str().unwrap().to_owned();
    (upstream, server, run_id, body)
}

/// Reads through a proxy that breaks the connection behind each byte, or each `step`th, and answers with what an uncut reader
/// was given.
async fn cut_everywhere(server: &Serving, how: &str, step: u64, what: &[&str]) -> Vec<String> {
    // Half of the readers at a time: a script has to end in the time that a busy machine gives it.
    let odd = readers(server, how, 2 * step, step, what).await;
    let even = readers(server, how, 2 * step, 0, what).await;
    assert_eq!(odd, even, "{what:?} {how}");
    even
}

async fn readers(server: &Serving, how: &str, step: u64, first: u64, what: &[&str]) -> Vec<String> {
    let (step_of, from) = (step.to_string(), first.to_string());
    let common = ["--url", server.url(), "--how", how, "--step", &step_of, "--first", &from, "--timeout", "55"];
    let seen = script("cut-everywhere.mjs", &[&common, what].concat()).await;
    assert_eq!(seen["wrong"], json!([]), "{what:?} {how}");
    let number = |key: &str| seen[key].as_u64().unwrap();
    assert_eq!(number("readers"), (number("bytes") - first).div_ceil(step), "{what:?} {how}");
    assert_eq!(number("cut"), number("readers"), "{what:?} {how}");
    // Who has the last frame has it all, whatever becomes of the bytes behind it.
    assert!(number("readers") - number("resumed") <= 8, "{what:?} {how}: {} of {}", seen["resumed"], seen["readers"]);
    seen["items"].as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn frames_by_sse_are_the_log_wherever_the_connection_is_cut() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server, run_id, _) = short_run(folder.path()).await;
    let log = server.log_of(&run_id).await;
    for (how, step) in [("end", 1), ("reset", 7), ("silence", 23)] {
        assert_eq!(
            cut_everywhere(&server, how, step, &["--run-id", &run_id, "--transport", "sse"]).await,
            log,
            "{how}"
        );
    }
}

#[tokio::test]
async fn frames_by_web_socket_are_the_log_wherever_the_connection_is_cut() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server, run_id, _) = short_run(folder.path()).await;
    let log = server.log_of(&run_id).await;
    for (how, step) in [("reset", 1), ("end", 7), ("silence", 23)] {
        let by_socket = ["--run-id", &run_id, "--transport", "websocket"];
        assert_eq!(cut_everywhere(&server, how, step, &by_socket).await, log, "{how}");
    }
}

#[tokio::test]
async fn the_body_of_an_exchange_is_the_same_bytes_wherever_the_connection_is_cut() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server, _, body) = short_run(folder.path()).await;
    for (how, step) in [("end", 1), ("reset", 7), ("silence", 23)] {
        let blocks = cut_everywhere(&server, how, step, &["--agent", "short", "--body", &body]).await;
        let (first, last) = (&blocks[0], blocks.last().unwrap());
        assert!(first.starts_with("retry: ") && last.contains(r#""type":"RUN_FINISHED""#), "{blocks:?}");
    }
    // However often it is asked for, the agent is asked once.
    assert_eq!(server.client().runs(&RunFilter::default()).await.unwrap().runs.len(), 1);
}

#[tokio::test]
async fn a_thread_that_is_got_back_is_the_same_bytes_wherever_the_connection_is_cut() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_upstream, server, _, body) = short_run(folder.path()).await;
    for (how, step) in [("end", 1), ("reset", 7), ("silence", 23)] {
        let blocks = cut_everywhere(&server, how, step, &["--agent", "short/connect", "--body", &body]).await;
        let (first, last) = (&blocks[0], blocks.last().unwrap());
        assert!(first.starts_with("retry: ") && last.starts_with("id: thread/3\n"), "{blocks:?}");
    }
    assert_eq!(server.client().runs(&RunFilter::default()).await.unwrap().runs.len(), 1, "nothing was started by that");
}

/// Long enough for a reader that has yet to be started to find it going on.
const UNHURRIED: &str = "[agents.unhurried]\ndriver = \"demo\"\npace = \"120ms\"\n";

/// Starts a run in the session `t` and waits until it has begun.
async fn unhurried(server: &Serving) -> String {
    let create = CreateRun::prompt("unhurried", "One two three").session_id("t");
    let run_id = server.client().create_run(&create).await.unwrap().run_id().to_owned();
    server.wait_for(&run_id, |frame| matches!(frame.data, Data::RunStart(_))).await;
    run_id
}

#[tokio::test]
async fn an_unmodified_ag_ui_client_gets_a_thread_back_that_goes_on_with_cuts_as_without() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), UNHURRIED).await;
    let run_id = unhurried(&server).await;
    let url = server.at("/agui/unhurried/connect");
    let asked = ["--thread", "t", "--run", "mount"];
    let places = ["20.0", "70.0", "100.0"].map(|place| format!("{run_id}/{place}"));
    let cut: Vec<&str> = places.iter().flat_map(|place| ["--cut-in-event", place]).collect();
    let resumable = [&asked[..], &cut, &["--resumable"]].concat();
    let (cut, uncut) = tokio::join!(agui_client(CLIENTS[0], &url, &resumable), agui_client(CLIENTS[0], &url, &asked));
    for run in [&cut, &uncut] {
        taken_quietly(run);
        assert_eq!(last(run)["type"], "RUN_FINISHED");
        assert_eq!(events(run)[0]["runId"], json!(run_id), "it was still going on");
    }
    assert_eq!(outcome(&cut), outcome(&uncut));
    assert_eq!(cut["cuts"].as_array().unwrap().len(), 3);
    let states = ["live", "resuming", "live", "resuming", "live", "resuming", "live", "ended"];
    assert_eq!(cut["states"], json!(states));
    server.only_run_of("t").await;
}

/// What the application has of a run, in the end.
fn outcome(run: &Value) -> [&Value; 4] {
    ["events", "messages", "state", "result"].map(|key| &run[key])
}

#[tokio::test]
async fn an_unmodified_ag_ui_client_has_the_same_run_with_cuts_as_without() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), STEADY).await;
    let url = server.at("/agui/steady");
    let survives = async |version: &str| {
        let asked = ["--thread", version, "--run", "turn", "--prompt", "One two three"];
        let cut = ["--cut-in-event", "20.0", "--cut-in-event", "70.0", "--cut-in-event", "100.0"];

        // While it goes on, and read again when it has ended.
        let live = agui_client(version, &url, &[&asked[..], &cut[..], &["--resumable"]].concat()).await;
        let uncut = agui_client(version, &url, &asked).await;
        let again = agui_client(version, &url, &[&asked[..], &cut[..], &["--resumable"]].concat()).await;
        for run in [&live, &uncut, &again] {
            taken_quietly(run);
            assert_eq!(last(run)["type"], "RUN_FINISHED", "{version}");
            assert_eq!(outcome(run), outcome(&uncut), "{version}");
        }
        for run in [&live, &again] {
            let hows: Vec<_> = run["cuts"].as_array().unwrap().iter().map(|cut| &cut["how"]).collect();
            assert_eq!(hows, ["end", "reset", "end"], "{version}");
            let states = ["live", "resuming", "live", "resuming", "live", "resuming", "live", "ended"];
            assert_eq!(run["states"], json!(states), "{version}");
        }
        assert_eq!(server.only_run_of(version).await.status().as_str(), "completed", "{version}: it ran once");

        // It is the fetch that does it: without it the client is left with a part.
        let lost = agui_client(version, &url, &[&asked[..], &cut[..2]].concat()).await;
        assert!(events(&lost).len() < events(&uncut).len(), "{version}");
        assert!(!kinds(&lost).contains(&"RUN_FINISHED"), "{version}");
    };
    tokio::join!(survives(CLIENTS[0]), survives(CLIENTS[1]));
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_is_only_a_cut() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let url = server.at("/agui/long");
    let asked = ["--thread", "t", "--run", "turn", "--resumable"];
    let restart = async {
        let id = server.only_run_of("t").await.run_id().to_owned();
        server.wait_for(&id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
        server.kill().await;
        Serving::start_at(folder.path(), AGENTS, &address).await
    };
    let (run, server) = tokio::join!(agui_client(CLIENTS[0], &url, &asked), restart);
    taken_quietly(&run);
    // The run itself did not survive; the client is told so, in order, behind all that had been said.
    assert_eq!((&last(&run)["type"], &last(&run)["code"]), (&json!("RUN_ERROR"), &json!("INTERNAL_ERROR")));
    let uncut = agui_client(CLIENTS[0], &url, &asked).await;
    assert_eq!(outcome(&run), outcome(&uncut));
    assert_eq!(run["states"].as_array().unwrap().last(), Some(&json!("ended")));
    assert_eq!(server.only_run_of("t").await.status().as_str(), "failed");
}

#[tokio::test]
async fn refusals_have_names_and_an_abort_leaves_the_run_alone() {
    if !real_part::node() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tokens = "[[tokens]]\nname = \"web\"\ntoken = \"s3cret\"\n";
    let server = Serving::start(folder.path(), &format!("{AGENTS}\n{tokens}")).await;
    let seen = real_part::source(include_str!("js_refusals.mjs"), &["--url", server.url(), "--token", "s3cret"]).await;
    for transport in ["sse", "websocket"] {
        let seen = &seen[transport];
        assert_eq!(seen["wrong token"]["code"], "UNAUTHORIZED", "{transport}: {seen:#}");
        assert_eq!(seen["no such run"]["code"], "RUN_NOT_FOUND", "{transport}: {seen:#}");
        assert_eq!(seen["past the head"]["code"], "PAST_HEAD", "{transport}: {seen:#}");
        assert_eq!(seen["past the head"]["head"], seen["head"], "{transport}: {seen:#}");
        // A WebSocket opens before it is told; an HTTP answer tells at once.
        let states = if transport == "sse" { json!(["ended"]) } else { json!(["live", "ended"]) };
        assert_eq!(seen["at the head"], json!({ "frames": 0, "states": states }), "{transport}");
        // G9: the signal ended the reading in the middle of the run, and nothing else.
        assert_eq!(seen["aborted"]["reason"], "enough", "{transport}: {seen:#}");
        assert_eq!(seen["aborted"]["status"], "running", "{transport}: {seen:#}");
    }
}

/// Opens a page that reads with the client.
async fn page(server: &Serving, args: &[&str]) -> Value {
    let seen = script("browser-client.mjs", &[&["--url", server.url()], args].concat()).await;
    for load in seen["loads"].as_array().unwrap() {
        assert_eq!(load["error"], Value::Null, "{:#}", seen["loads"]);
    }
    seen
}

fn items(seen: &Value) -> Vec<&str> {
    seen["items"].as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_page_follows_a_run_through_cuts_and_reloads_over_both_transports() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), STEADY).await;
    for transport in ["sse", "websocket"] {
        let run_id = server.create("steady").await;
        let follow = ["--run-id", &run_id, "--transport", transport];
        let cut = ["--cut-in", "20", "--cut-in", "90", "--reload-after", "50"];
        let seen = page(&server, &[&follow[..], &cut[..]].concat()).await;
        assert_eq!(items(&seen), server.log_of(&run_id).await, "{transport}");
        assert_eq!(seen["cuts"], json!([{ "inFrame": "20", "how": "end" }, { "inFrame": "90", "how": "reset" }]));
        let loads = seen["loads"].as_array().unwrap();
        assert_eq!((loads.len(), &loads[0]["cursor"]), (2, &json!(0)), "{transport}");
        assert!(loads[1]["cursor"].as_u64().unwrap() >= 50, "{transport}: {loads:#?}");
        let resumed = |load: &Value| load["states"].as_array().unwrap().contains(&json!("resuming"));
        assert!(resumed(&loads[0]) && loads[1]["states"].as_array().unwrap().last() == Some(&json!("ended")));
    }
}

#[tokio::test]
async fn a_page_that_comes_back_online_goes_on_at_once() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), STEADY).await;
    let run_id = server.create("steady").await;
    let seen = page(&server, &["--run-id", &run_id, "--cut-in", "50", "--offline"]).await;
    assert_eq!(items(&seen), server.log_of(&run_id).await);
    assert_eq!(seen["loads"][0]["states"], json!(["live", "resuming", "live", "ended"]));
}

#[tokio::test]
async fn a_page_reads_an_exchange_through_cuts_and_a_reload() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), STEADY).await;
    let body =
        json!({ "threadId": "t", "runId": "r", "messages": [{ "id": "u", "role": "user", "content": "One two" }],
                       "tools": [], "context": [], "state": {}, "forwardedProps": {}, "protocolVersion": "1.0" })
        .to_string();
    let exchange = ["--agent", "steady", "--body", &body];
    let cut = ["--cut-in", "20.0", "--reload-after", "40", "--cut-in", "90.0"];
    let seen = page(&server, &[&exchange[..], &cut[..]].concat()).await;
    assert_eq!(seen["cuts"], json!([{ "inFrame": "20.0", "how": "end" }, { "inFrame": "90.0", "how": "reset" }]));
    let uncut = page(&server, &exchange).await;
    assert_eq!(uncut["loads"][0]["states"], json!(["live", "ended"]));
    assert_eq!(items(&seen), items(&uncut));
    assert!(items(&seen).last().unwrap().contains(r#""type":"RUN_FINISHED""#));
    server.only_run_of("t").await;
}

#[tokio::test]
async fn a_page_gets_a_thread_back_through_cuts_while_it_goes_on() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), UNHURRIED).await;
    let run_id = unhurried(&server).await;
    let body = json!({ "threadId": "t", "runId": "mount", "messages": [], "tools": [], "context": [], "state": {},
                       "forwardedProps": {}, "protocolVersion": "1.0" })
    .to_string();
    let uncut = async {
        let connect = reqwest::Client::builder().no_proxy().build().unwrap().post(server.at("/agui/unhurried/connect"));
        let headers = connect.header("content-type", "application/json").header("accept", "text/event-stream");
        headers.body(body.clone()).send().await.unwrap().text().await.unwrap()
    };
    let places = ["20.0", "90.0"].map(|place| format!("{run_id}/{place}"));
    let thread = ["--agent", "unhurried/connect", "--body", &body, "--cut-in", &places[0], "--cut-in", &places[1]];
    let (seen, uncut) = tokio::join!(page(&server, &thread), uncut);
    let hows: Vec<_> = seen["cuts"].as_array().unwrap().iter().map(|cut| &cut["how"]).collect();
    assert_eq!(hows, ["end", "reset"]);
    // Comments come when they come.
    let told = |blocks: Vec<&str>| -> Vec<String> {
        blocks.into_iter().map(|block| block.trim_end().to_owned()).filter(|block| block.starts_with("id: ")).collect()
    };
    assert_eq!(told(items(&seen)), told(uncut.split("\n\n").collect()));
    assert!(uncut.contains(&format!("id: {run_id}/1.0\n")), "it was still going on");
}
