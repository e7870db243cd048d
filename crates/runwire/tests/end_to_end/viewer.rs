//! The viewer in Chromium: its list of runs and its page of a run, used as a person uses them. Every test also holds that
//! no page wrote an error to its console, broke its own policy or asked another host for anything.

use std::path::Path;

use runwire_client::{CreateRun, RunFilter};
use serde_json::{Value, json};

use crate::real_part::{self, script};
use crate::serving::{AGENTS, Serving};

/// Agents that are programs beside those of the demo, by what they are started with: see `tests/real/viewer-agent.mjs`.
fn agents() -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/real/viewer-agent.mjs");
    let program = program.to_str().unwrap();
    let mut config = AGENTS.to_owned();
    let kinds: [(&str, &[&str]); 6] = [
        ("rich", &["rich"]),
        ("hostile", &["hostile"]),
        ("form", &["form"]),
        ("flaky", &["flaky"]),
        ("many", &["many", "20000"]),
        ("steady", &["steady", "3"]),
    ];
    for (name, args) in kinds {
        let command = json!([&["node", program], args].concat());
        config += &format!("\n[agents.{name}]\ndriver = \"exec\"\ncommand = {command}\nidempotent = true\n");
        config += &format!("[agents.{name}.retry]\nmax_attempts = 2\n");
    }
    config
}

/// Does what the scenario says, and checks that nothing went wrong in any of its pages.
async fn viewer(server: &Serving, scenario: &str, args: &[&str]) -> Value {
    let told = used(server, scenario, args).await;
    went_well(&told);
    told
}

/// The same where requests are refused on purpose with this status: the browser itself writes that to the console.
async fn viewer_that_is_refused(server: &Serving, status: u16, scenario: &str, args: &[&str]) -> Value {
    let mut told = used(server, scenario, args).await;
    let console = told["wrong"]["console"].as_array_mut().unwrap();
    let lines = console.len();
    console.retain(|line| !line.as_str().unwrap().contains(&format!("responded with a status of {status} ")));
    assert!(console.len() < lines, "nothing was refused: {told:#}");
    went_well(&told);
    told
}

async fn used(server: &Serving, scenario: &str, args: &[&str]) -> Value {
    script("viewer.mjs", &[&["--url", server.url(), "--scenario", scenario, "--timeout", "55"], args].concat()).await
}

#[track_caller]
fn went_well(told: &Value) {
    let nothing = json!({ "console": [], "exceptions": [], "policy": [], "elsewhere": [] });
    assert_eq!(told["wrong"], nothing, "{told:#}");
}

/// A run of this agent, asked this, once it has this status.
async fn run_that_is(server: &Serving, agent: &str, prompt: &str, status: &str) -> String {
    let run = server.client().create_run(&CreateRun::prompt(agent, prompt)).await.unwrap();
    let run_id = run.run_id().to_owned();
    server
        .patiently("the run to come that far", async || {
            let record = server.client().run(&run_id).await.unwrap();
            (record.status().as_str() == status).then_some(())
        })
        .await;
    run_id
}

#[tokio::test]
async fn a_person_starts_a_run_from_the_list_and_sees_it_to_its_end() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let told = viewer(&server, "start", &[]).await;
    let runs = server.client().runs(&RunFilter::default()).await.unwrap().runs;
    assert_eq!(runs.len(), 1);
    let run_id = runs[0].run_id();
    assert_eq!(told["path"], format!("/runs/{run_id}"));
    assert!(told["title"].as_str().unwrap().contains(run_id), "{told:#}");
    assert_eq!(told["focus"], "H1", "a reader of the screen begins at the page's heading");
    assert_eq!((&told["status"], &told["asked"]), (&json!("completed"), &json!("What are logs good for?")));
    assert!(told["output"].as_str().unwrap().contains("words"), "{told:#}");
    let rows = told["rows"].as_array().unwrap();
    for row in
        ["run", "step measure the prompt", "model runwire/demo", "reasoning", "tool measure_text", "message", "state"]
    {
        assert!(rows.contains(&json!(row)), "{row} is not among {rows:?}");
    }
    assert_eq!(told["listed"], json!(["What are logs good for?"]));
    assert_eq!(told["links"], json!([format!("/runs/{run_id}")]));
    assert_eq!(told["statuses"], json!(["completed"]));
}

#[tokio::test]
async fn a_page_that_is_loaded_again_in_mid_run_shows_the_whole_run_and_can_stop_it() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agents()).await;
    let run_id = run_that_is(&server, "steady", "Go on", "running").await;
    let told = viewer(&server, "reload", &["--run", &run_id, "--frames", "60"]).await;
    let frames: Vec<Value> =
        server.log_of(&run_id).await.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    let text: String = frames.iter().filter_map(|frame| frame["data"]["text"].as_str()).collect();
    assert_eq!(told["output"], text, "nothing is missing and nothing is there twice");
    assert_eq!(told["cancelIsShown"], false);
    assert_eq!(frames.last().unwrap()["data"]["status"], "cancelled");
}

#[tokio::test]
async fn an_approval_is_answered_by_the_keyboard_after_the_page_was_loaded_again() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    for (answer, approved) in [("Approve", true), ("Deny", false)] {
        let run_id = run_that_is(&server, "demo", "Please approve this", "suspended").await;
        let told = viewer(&server, "approval", &["--run", &run_id, "--token", answer]).await;
        assert!(told["question"].as_str().unwrap().contains("May I measure your prompt"), "{told:#}");
        assert_eq!((&told["violations"], &told["status"]), (&json!([]), &json!("completed")), "{told:#}");
        assert_eq!((&told["questionIsShown"], &told["focusIsLost"]), (&json!(false), &json!(false)), "{told:#}");
        let waits = told["waits"].to_string();
        assert!(waits.contains("waits for approval") && waits.contains("answered"), "{waits}");
        let log = server.log_of(&run_id).await.join("\n");
        assert_eq!(log.contains(r#""payload":{"approved":true}"#), approved, "{log}");
        assert_eq!(log.contains(r#""payload":{"approved":false}"#), !approved, "{log}");
    }
}

#[tokio::test]
async fn a_form_is_made_from_the_schema_of_an_answer_and_shows_where_the_answer_breaks_it() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agents()).await;
    let run_id = run_that_is(&server, "form", "Print it", "suspended").await;
    let told = viewer_that_is_refused(&server, 422, "form", &["--run", &run_id]).await;
    let kinds = told["kinds"].to_string();
    for kind in [
        "title: textarea",
        "copies: input",
        "price (optional): input",
        "urgent (optional): select",
        "colour: select",
        "tags (optional): textarea",
        "extra (optional): textarea",
    ] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds}");
    }
    assert_eq!(told["problem"]["at"], "title", "{told:#}");
    assert_eq!(told["problem"]["said"], "value is shorter than 3 characters", "what the server says of it");
    assert_eq!(told["problem"]["violations"], json!([]), "{told:#}");
    let answer =
        r#"answered resolved: {"title":"a poster","copies":2,"urgent":true,"colour":"green","tags":["one","two"]}"#;
    assert_eq!(told["output"].as_str().unwrap().lines().last(), Some(answer), "{told:#}");
}

#[tokio::test]
async fn the_filters_of_the_list_are_in_its_address() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agents()).await;
    run_that_is(&server, "demo", "One", "completed").await;
    run_that_is(&server, "rich", "Two", "completed").await;
    let stopped = run_that_is(&server, "long", "Three", "running").await;
    server.client().cancel(&stopped).await.unwrap();
    let told = viewer(&server, "filters", &["--run", &stopped]).await;
    assert_eq!(told["completed"]["search"], "?status=completed");
    assert_eq!(told["completed"]["rows"], 2, "{told:#}");
    assert_eq!(told["ofDemo"]["search"], "?status=completed&agent_id=demo");
    assert_eq!(told["ofDemo"]["agents"], json!(["demo"]));
    assert_eq!(told["loadedAgain"], told["ofDemo"]);
    assert_eq!(told["wentBack"], told["completed"]);
    assert_eq!(told["nothing"], "No run fits these filters.");
    let run = format!("/runs/{stopped}");
    assert_eq!(
        told["found"][0],
        json!({ "hrefs": [run], "search": format!("?run_id={}", &stopped[..stopped.len() - 1]) })
    );
    assert_eq!(told["found"][1], json!({ "hrefs": [run], "search": "?prompt=THREE" }));
}

#[tokio::test]
async fn the_list_takes_up_new_runs_by_itself_and_keeps_its_rows_and_the_focus() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    run_that_is(&server, "demo", "One", "completed").await;
    let run_id = run_that_is(&server, "demo", "Two", "completed").await;
    let told = viewer(&server, "list", &["--run", &run_id]).await;
    assert_eq!(
        (&told["hasFocus"], &told["rowIsSame"], &told["rows"]),
        (&json!(true), &json!(true), &json!(3)),
        "{told:#}"
    );
}

#[tokio::test]
async fn what_an_agent_says_stays_text_wherever_it_is_shown() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agents()).await;
    let run_id =
        run_that_is(&server, "hostile", "<img src=x onerror=\"globalThis.hacked=1\"> \u{202e}", "completed").await;
    let told = viewer(&server, "hostile", &["--run", &run_id]).await;
    let seen = told["seen"].as_array().unwrap();
    assert!(seen.len() >= 14, "every row, in two widths: {told:#}");
    for row in seen {
        let inert =
            json!({ "row": row["row"], "hacked": null, "live": [], "hidden": false, "overflow": 0, "undirected": 0 });
        assert_eq!(*row, inert);
    }
}

#[tokio::test]
async fn the_timeline_is_a_tree_for_the_keyboard_and_remembers_its_row_in_the_address() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agents()).await;
    let run_id = run_that_is(&server, "rich", "Think", "completed").await;
    let told = viewer(&server, "keyboard", &["--run", &run_id]).await;
    assert_eq!(
        told["path"],
        json!([
            "run 1 true",
            "ArrowDown: state 2 ",
            "ArrowDown: step research 2 ",
            "ArrowDown: reasoning 2 true",
            "ArrowLeft: reasoning 2 false",
            "ArrowRight: reasoning 2 true",
            "ArrowRight: reasoning 3 ",
            "ArrowLeft: reasoning 2 true",
            "End: message 2 ",
            "Home: run 1 true",
            "ArrowLeft: run 1 false",
        ])
    );
    assert_eq!(told["folded"], 1);
    let changes = [
        "the state as a whole",
        "replace /phase = \"searching\"",
        "add /sources/- = \"example.org\"",
        "replace /phase = \"done\"",
    ];
    assert_eq!(told["changes"], json!(changes));
    let state: Value = serde_json::from_str(told["state"].as_str().unwrap()).unwrap();
    assert_eq!(state, json!({ "phase": "done", "sources": ["example.org"] }));
}

#[tokio::test]
async fn a_long_run_has_few_elements_and_its_last_row_can_be_reached() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agents()).await;
    let run_id = run_that_is(&server, "many", "Talk", "completed").await;
    let told = viewer(&server, "large", &["--run", &run_id]).await;
    let head = server.client().run(&run_id).await.unwrap().head();
    assert!(head > 15_000, "{head}");
    // The run, and for each of the 4000 messages one row and one for the event behind it.
    assert_eq!((&told["last"]["index"], &told["last"]["of"]), (&json!(8000), &json!(8001)), "{told:#}");
    assert_eq!(told["last"]["name"], "19995");
    let elements = told["elements"].as_u64().unwrap();
    assert!(elements < 1500, "{elements} elements");
}

#[tokio::test]
async fn a_run_is_tried_again_as_a_new_one_and_copied_as_a_command() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    let run_id = run_that_is(&server, "demo", "It's once more", "completed").await;
    let told = viewer(&server, "again", &["--run", &run_id]).await;
    assert_eq!(told["asked"], "It's once more");
    assert_ne!(told["run"], run_id.as_str());
    // The command is one that a shell takes: it starts a run of the same agent with the same input.
    let command = told["command"].as_str().unwrap();
    let done = tokio::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{command} --silent --noproxy '*'"))
        .output()
        .await
        .unwrap();
    let record: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {command}\n{done:?}"));
    assert_eq!(record["agent_id"], "demo", "{record:#}");
    let body = server.patiently("the third run to begin", async || {
        server.log_of(record["run_id"].as_str().unwrap()).await.into_iter().next()
    });
    assert!(body.await.contains("It's once more"));
}

#[tokio::test]
async fn a_server_with_tokens_is_asked_for_one_which_stays_in_its_tab() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tokens = "[[tokens]]\nname = \"web\"\ntoken = \"s3cret\"\n";
    let server = Serving::start(folder.path(), &format!("{AGENTS}\n{tokens}")).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let owner = runwire_client::Server::new(server.url(), Some("s3cret".to_owned())).unwrap();
    let run_id = owner.create_run(&CreateRun::prompt("demo", "Who may see this?")).await.unwrap().run_id().to_owned();
    let told = viewer_that_is_refused(&server, 401, "token", &["--run", &run_id, "--token", "s3cret"]).await;
    assert_eq!((&told["shownWithout"], &told["violations"]), (&json!([]), &json!([])), "{told:#}");
    assert_eq!(told["asked"], "Who may see this?");
    assert_eq!(told["kept"]["session"], json!({ "runwire.token": "s3cret" }));
    for place in ["local", "address", "cookie"] {
        assert!(!told["kept"][place].as_str().unwrap().contains("s3cret"), "{told:#}");
    }
    assert_eq!(told["left"], 0, "a token that was forgotten is kept nowhere");
}

#[tokio::test]
async fn no_page_has_a_barrier_in_light_or_dark_or_is_wider_than_its_window() {
    if !real_part::browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agents()).await;
    let rich = run_that_is(&server, "rich", "Think", "completed").await;
    let flaky = run_that_is(&server, "flaky", "Try", "completed").await;
    let waiting = run_that_is(&server, "form", "Print it", "suspended").await;
    let told = viewer(&server, "looks", &["--run", &rich, "--run", &flaky, "--run", &waiting]).await;
    assert_eq!(told["found"], json!([]), "{told:#}");
}
