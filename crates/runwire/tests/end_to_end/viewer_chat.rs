//! The viewer's conversation page in Chromium, against a real server: what it shows is compared with what the server has.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::program::PATIENCE;
use crate::real_part::{self, script};
use crate::serving::{Serving, http};

/// `steady` says each word by itself, slowly enough to be interrupted at a certain frame; `hostile` and `asks` are programs.
const AGENTS: &str = r#"
[agents.demo]
driver = "demo"
pace = "2ms"

[agents.steady]
driver = "demo"
pace = "60ms"

[agents.long]
driver = "demo"
pace = "2ms"
repeat = 100000

[agents.refuses]
driver = "demo"
pace = "2ms"
repeat = 100000
concurrency = "refuse"

[agents.broken]
driver = "agui"
url = "http://127.0.0.1:9/"

[agents.hostile]
driver = "exec"
command = ["python3", "hostile.py"]

[agents.asks]
driver = "exec"
command = ["python3", "asks.py"]

[agents.many]
driver = "exec"
command = ["python3", "many.py"]
"#;

/// Calls a tool more often than a page has room for.
const MANY: &str = r#"
import json, sys
given = json.load(sys.stdin)
def say(**event):
    print(json.dumps(event))
ids = {"threadId": given["threadId"], "runId": given["runId"]}
say(type="RUN_STARTED", **ids)
for i in range(2000):
    say(type="TOOL_CALL_START", toolCallId=f"c{i}", toolCallName="look")
    say(type="TOOL_CALL_ARGS", toolCallId=f"c{i}", delta=json.dumps({"at": i}))
    say(type="TOOL_CALL_END", toolCallId=f"c{i}")
    say(type="TOOL_CALL_RESULT", messageId=f"r{i}", toolCallId=f"c{i}", content=f"found {i}")
say(type="RUN_FINISHED", **ids)
"#;

/// Says what a page must not take for its own: markup, scripts, addresses that run scripts, overrides of direction, lines without
/// an end; in each place where an agent can say something. Then it fails.
const HOSTILE: &str = r#"
import json, sys
given = json.load(sys.stdin)
run = given["runId"]
def say(**event):
    print(json.dumps(event), flush=True)
evil = "<img src=x onerror=alert(1)><script>alert(2)</script> \u202edrow\u202c <iframe src='javascript:alert(3)'></iframe> "
say(type="RUN_STARTED", threadId=given["threadId"], runId=run)
say(type="REASONING_START", messageId=run + "t")
say(type="REASONING_MESSAGE_START", messageId=run + "t", role="reasoning")
say(type="REASONING_MESSAGE_CONTENT", messageId=run + "t", delta=evil)
say(type="REASONING_MESSAGE_END", messageId=run + "t")
say(type="REASONING_END", messageId=run + "t")
say(type="TEXT_MESSAGE_START", messageId=run + "m", role="assistant", name=evil)
say(type="TEXT_MESSAGE_CONTENT", messageId=run + "m", delta=evil + "x" * 20000 + "\n[click](javascript:alert(4))")
say(type="TEXT_MESSAGE_END", messageId=run + "m")
say(type="TOOL_CALL_START", toolCallId=run + "c", toolCallName=evil)
say(type="TOOL_CALL_ARGS", toolCallId=run + "c", delta=json.dumps({"a": evil}))
say(type="TOOL_CALL_END", toolCallId=run + "c")
say(type="TOOL_CALL_RESULT", messageId=run + "r", toolCallId=run + "c", content=evil + "y" * 9000)
say(type="ACTIVITY_SNAPSHOT", messageId=run + "a", activityType=evil, content={evil: [evil]})
say(type="CUSTOM", name=evil, value={"__proto__": evil})
say(type="RUN_ERROR", message=evil, code="X")
"#;

/// Asks for an answer with a schema of several kinds of fields, and says what it was answered.
const ASKS: &str = r#"
import json, sys
given = json.load(sys.stdin)
def say(**event):
    print(json.dumps(event), flush=True)
ids = {"threadId": given["threadId"], "runId": given["runId"]}
say(type="RUN_STARTED", **ids)
if not given.get("resume"):
    schema = {
        "type": "object",
        "required": ["copies", "colour"],
        "properties": {
            "copies": {"type": "integer", "title": "Copies", "maximum": 9, "description": "At most nine"},
            "colour": {"enum": ["red", "black"], "title": "Colour"},
            "duplex": {"type": "boolean", "title": "Both sides"},
            "pages": {"type": "array", "items": {"type": "integer"}, "title": "Pages"},
            "note": {"type": "string", "title": "Note"},
        },
    }
    interrupt = {"id": "print", "reason": "input_required", "message": "How shall I print it?", "responseSchema": schema}
    say(type="RUN_FINISHED", outcome={"type": "interrupt", "interrupts": [interrupt]}, **ids)
else:
    answer = json.dumps(given["resume"][0]["payload"], sort_keys=True)
    say(type="TEXT_MESSAGE_START", messageId="m" + given["runId"], role="assistant")
    say(type="TEXT_MESSAGE_CONTENT", messageId="m" + given["runId"], delta=answer)
    say(type="TEXT_MESSAGE_END", messageId="m" + given["runId"])
    say(type="RUN_FINISHED", **ids)
"#;

async fn serve(folder: &Path) -> Serving {
    std::fs::write(folder.join("hostile.py"), HOSTILE).unwrap();
    std::fs::write(folder.join("asks.py"), ASKS).unwrap();
    std::fs::write(folder.join("many.py"), MANY).unwrap();
    Serving::start(folder, AGENTS).await
}

/// Uses the page, and checks what holds for all of it: no complaint of the browser, a violated policy among them, no dialog, and
/// no request to another host.
async fn use_page(server: &Serving, scenario: &str) -> Value {
    let seen = script("viewer-chat.mjs", &["--url", server.url(), "--do", scenario, "--timeout", "55"]).await;
    for nothing in ["strangers", "dialogs"] {
        assert_eq!(seen[nothing], json!([]), "{scenario}: {seen:#}");
    }
    // That a connection broke, and that an answer was refused, a browser says by itself.
    let complaints = seen["complaints"].as_array().unwrap().iter().map(|complaint| complaint.as_str().unwrap());
    let unexpected: Vec<&str> = complaints
        .filter(|complaint| match scenario {
            "cut" => !complaint.starts_with("Failed to load resource: net::ERR_"),
            "form" => !complaint.contains("status of 422"),
            _ => true,
        })
        .collect();
    assert_eq!(unexpected, [""; 0], "{scenario}: {seen:#}");
    for (name, look) in seen["looks"].as_object().unwrap() {
        assert_eq!((&look["live"], &look["tooWide"]), (&json!(0), &json!(0)), "{name}: {seen:#}");
    }
    seen
}

/// The session as the server has it.
async fn session(server: &Serving, seen: &Value) -> Value {
    let id = seen["session"].as_str().unwrap().replace(' ', "%20");
    serde_json::from_str(&http(&server.at(&format!("/v2/sessions/{id}"))).await).unwrap()
}

fn items<'a>(seen: &'a Value, look: &str) -> &'a [Value] {
    seen["looks"][look]["items"].as_array().unwrap_or_else(|| panic!("no look {look}: {seen:#}"))
}

fn of_kind<'a>(seen: &'a Value, look: &str, kind: &str) -> Vec<&'a str> {
    items(seen, look).iter().filter(|item| item["kind"] == kind).map(|item| item["text"].as_str().unwrap()).collect()
}

/// The messages that are shown have to be those of the session: each once, in its order, whole.
#[track_caller]
fn shows_the_session(seen: &Value, look: &str, session: &Value) {
    let messages = session["messages"].as_array().unwrap().iter();
    let expected: Vec<(&str, &str)> = messages
        .filter_map(|message| {
            let kind = match message["role"].as_str()? {
                "user" => "person",
                "assistant" => "message",
                _ => return None,
            };
            // A call without a text is shown as the call alone.
            message["content"].as_str().filter(|text| !text.is_empty()).map(|text| (kind, text))
        })
        .collect();
    let shown: Vec<(&str, &str)> = items(seen, look)
        .iter()
        .map(|item| (item["kind"].as_str().unwrap(), item["text"].as_str().unwrap()))
        .filter(|(kind, _)| ["person", "message"].contains(kind))
        .collect();
    assert_eq!(shown, expected, "{look}: {seen:#}");
}

#[tokio::test]
async fn what_the_conversation_page_makes_of_frames_is_what_its_own_tests_say() {
    if !real_part::node() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/viewer");
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = files.filter(|name| name.ends_with(".test.mjs")).collect();
    assert!(files.iter().any(|name| name == "conversation.test.mjs"), "{files:?}");
    for tests in &files {
        let mut command = Command::new("node");
        command.args(["--test", "--test-reporter", "tap", tests]).current_dir(&folder);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let done = tokio::time::timeout(PATIENCE, command.output()).await.expect("the tests end").unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("\n# fail 0\n") && !said.contains("\n# pass 0\n"), "{said}");
    }
}

#[tokio::test]
async fn a_conversation_that_is_loaded_again_in_mid_run_goes_on_at_the_next_frame_and_two_tabs_show_the_same() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "talk").await;
    let session = session(&server, &seen).await;
    shows_the_session(&seen, "the first tab", &session);
    shows_the_session(&seen, "the second tab", &session);
    assert_eq!(items(&seen, "the first tab"), items(&seen, "the second tab"));
    assert_eq!(seen["looks"]["the first tab"]["runs"], json!(["completed", "completed"]));

    // The page was loaded again in the middle, asked for what is behind its last frame only, and says where it went on.
    let before = of_kind(&seen, "before the reload", "message")[0];
    let whole = of_kind(&seen, "the first tab", "message")[0];
    assert!(whole.starts_with(before) && whole.len() > before.len(), "{before}");
    assert!(of_kind(&seen, "after the reload", "message")[0].starts_with(before), "{seen:#}");
    let asked: Vec<Option<&str>> = seen["asked"].as_array().unwrap().iter().map(Value::as_str).collect();
    let (_, cursor) = asked[1].expect("the reload names its cursor").rsplit_once(':').unwrap();
    assert_eq!((asked.len(), asked[0], asked[2]), (3, None, None), "{asked:?}");
    let resumed = format!("resumed at frame {}", cursor.parse::<u64>().unwrap() + 1);
    let connection = seen["looks"]["after the reload"]["connection"].as_str().unwrap();
    assert!(connection.contains(&resumed), "{resumed}: {connection}");
    assert_eq!(seen["focus"], "chat-text", "whoever has said something can go on writing");

    // The second run was given the conversation.
    let second = session["runs"][1]["run_id"].as_str().unwrap();
    let start: Value = serde_json::from_str(&server.log_of(second).await[0]).unwrap();
    let given: Vec<&str> = start["data"]["agui"]["input"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_str().filter(|text| !text.is_empty() && message["role"] != "tool"))
        .collect();
    assert!(given.contains(&"How long is this?") && given.contains(&whole) && given.ends_with(&["And this one?"]));
}

#[tokio::test]
async fn a_conversation_whose_connection_is_cut_goes_on_where_it_was() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "cut").await;
    assert_eq!(seen["cuts"].as_array().unwrap().len(), 2, "{seen:#}");
    shows_the_session(&seen, "at the end", &session(&server, &seen).await);
    let asked = seen["asked"].as_array().unwrap();
    assert_eq!((asked.len(), &asked[0]), (3, &Value::Null), "{asked:?}");
    for (asked, last) in asked[1..].iter().zip([":39", ":74"]) {
        assert!(asked.as_str().unwrap().ends_with(last), "{asked} goes on behind {last}");
    }
    let connection = seen["looks"]["at the end"]["connection"].as_str().unwrap();
    assert!(connection.contains("live") && connection.contains("resumed at frame 75"), "{connection}");
}

#[tokio::test]
async fn an_approval_is_asked_for_in_its_place_survives_a_reload_and_is_approved_or_denied() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "approve").await;
    shows_the_session(&seen, "answered", &session(&server, &seen).await);
    assert_eq!(seen["looks"]["asked"]["runs"], json!(["suspended"]));
    assert_eq!(seen["looks"]["asked"]["reason"], "The agent waits for your answer above.");
    let answers = of_kind(&seen, "answered", "question");
    assert!(answers[0].ends_with("Answered: approved") && answers[1].ends_with("Answered: denied"), "{answers:?}");
    let calls = of_kind(&seen, "answered", "tool");
    assert!(calls[0].contains("\"characters\":19") && calls[1].contains("did not succeed"), "{calls:?}");
    assert_eq!(seen["focus"], "Answered: approved", "who answered by the keyboard is where the answer stands");
}

#[tokio::test]
async fn a_question_is_a_form_made_from_its_schema_and_a_refused_answer_is_told_at_its_field() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "form").await;
    assert_eq!(seen["missing"], "A number is needed here.");
    let refused = seen["refused"].as_str().unwrap();
    assert_eq!(refused, "value is greater than the maximum of 9", "the server's words, at the field");
    assert_eq!(seen["focus"], "Copies", "and the field has the focus");
    let said = of_kind(&seen, "answered", "message");
    assert_eq!(said, [r#"{"colour": "red", "copies": 2, "duplex": true, "pages": [1, 3]}"#]);
}

#[tokio::test]
async fn stop_on_the_conversation_page_stops_the_run_that_goes_on_and_the_next_takes_its_turn() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "stop").await;
    assert_eq!(seen["looks"]["two runs"]["runs"], json!(["running", "queued"]));
    assert_eq!(of_kind(&seen, "two runs", "person"), ["How long is this?", "This one waits"]);
    assert_eq!(seen["looks"]["stopped"]["runs"], json!(["cancelled", "cancelled"]));
    shows_the_session(&seen, "stopped", &session_up_to(&server, &seen, 2).await);

    // What was begun is no part of what the next run is given.
    let runs = session(&server, &seen).await;
    let second = server.log_of(runs["runs"][1]["run_id"].as_str().unwrap()).await;
    let start: Value = serde_json::from_str(&second[0]).unwrap();
    let given = start["data"]["agui"]["input"]["messages"].as_array().unwrap();
    assert!(given.iter().all(|message| message["role"] == "user"), "{given:#?}");

    let refused = &seen["looks"]["refused"];
    assert_eq!(refused["reason"], "A run goes on, and the agent takes nothing else before its end.");
    assert_eq!(seen["draft"], "And another", "what was written stays");
    assert_eq!(runs["runs"].as_array().unwrap().len(), 3, "and nothing was sent");
}

/// The session with the messages of its first runs only: those of the scenario that were looked at.
async fn session_up_to(server: &Serving, seen: &Value, runs: usize) -> Value {
    let mut session = session(server, seen).await;
    let later: Vec<String> = session["runs"].as_array().unwrap()[runs..]
        .iter()
        .map(|run| run["run_id"].as_str().unwrap().to_owned())
        .collect();
    let messages = session["messages"].as_array_mut().unwrap();
    messages.retain(|message| {
        let id = message["id"].as_str().unwrap();
        message["content"] != "Only one" && !later.iter().any(|run| id.starts_with(run.as_str()))
    });
    session
}

#[tokio::test]
async fn a_run_that_failed_stands_in_the_middle_of_its_conversation() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "fail").await;
    shows_the_session(&seen, "at the end", &session(&server, &seen).await);
    assert_eq!(seen["looks"]["at the end"]["runs"], json!(["completed", "failed", "completed"]));
    let shown: Vec<&str> = items(&seen, "at the end")
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .filter(|kind| *kind != "thinking")
        .collect();
    let run = ["person", "tool", "message"];
    assert_eq!(shown, [&run[..], &["person", "notice-box"], &run[..]].concat(), "{seen:#}");
    assert!(of_kind(&seen, "at the end", "notice-box")[0].starts_with("CHANNEL_ERROR"));
}

#[tokio::test]
async fn what_a_hostile_agent_says_is_text_and_nothing_else_in_a_narrow_window_too() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "hostile").await;
    for look in ["wide", "narrow"] {
        let said = of_kind(&seen, look, "message")[0];
        assert!(said.contains("<script>alert(2)</script>") && said.contains("[click](javascript:alert(4))"), "{said}");
        // What would reorder the text around it is to be seen.
        let everything: String = items(&seen, look).iter().map(|item| item["text"].as_str().unwrap()).collect();
        assert!(!everything.contains('\u{202e}') && everything.contains("U+202E"), "{everything}");
        let whole = of_kind(&seen, look, "tool")[0];
        assert!(whole.contains(&"y".repeat(9000)), "the whole result was had");
    }
    let kinds: Vec<&str> = items(&seen, "wide").iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["person", "thinking", "message", "tool", "activity", "notice", "notice-box"], "{seen:#}");
}

#[tokio::test]
async fn axe_has_nothing_against_the_conversation_page_in_either_colour_wide_or_narrow() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "axe").await;
    assert_eq!(seen["axe"], json!([]), "{:#}", seen["axe"]);
    assert_eq!(seen["looks"].as_object().unwrap().len(), 4);
}

#[tokio::test]
async fn whoever_reads_further_up_is_not_moved_by_what_comes_and_whoever_is_at_the_end_stays_there() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "scroll").await;
    assert_eq!(seen["following"]["fromEnd"], 0, "{seen:#}");
    assert_eq!(seen["reading"]["before"]["top"], seen["reading"]["after"]["top"], "{seen:#}");
    assert_eq!(seen["back"]["fromEnd"], 0, "{seen:#}");
}

#[tokio::test]
async fn a_conversation_that_one_token_let_be_read_is_not_shown_to_whoever_enters_another() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tokens = "[[tokens]]\nname = \"ada\"\ntoken = \"ada's\"\n\n[[tokens]]\nname = \"bob\"\ntoken = \"bob's\"\n";
    let config = format!("[agents.demo]\ndriver = \"demo\"\npace = \"2ms\"\n\n{tokens}");
    let server = Serving::start(dir.path(), &config).await;
    let seen = use_page(&server, "token").await;
    assert_eq!(of_kind(&seen, "of ada", "person"), ["Keep this to yourself"]);
    assert_eq!(seen["left"], Value::Null, "nothing of it stays in the tab");
    assert_eq!(items(&seen, "of bob"), [Value::Null; 0]);
}

#[tokio::test]
async fn a_run_of_ten_thousand_frames_leaves_few_elements_on_the_page_and_every_item_can_be_had() {
    if !real_part::browser() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path()).await;
    let seen = use_page(&server, "many").await;
    let newest = &seen["newest"];
    assert!(newest["elements"].as_u64().unwrap() < 6000, "{newest:#}");
    assert!(newest["last"].as_str().unwrap().contains("found 1999"), "{newest:#}");
    let all = &seen["all"];
    assert_eq!(all["tools"], 2000, "{all:#}");
    let moved = seen["moved"].as_array().unwrap();
    // When the last of them are there, the button goes, and with it its own height.
    assert!(moved[..moved.len() - 1].iter().all(|moved| moved == 0), "what was there stays where it is: {moved:?}");
    assert!(all["first"].as_str().unwrap().contains("found 0"), "{all:#}");
}
