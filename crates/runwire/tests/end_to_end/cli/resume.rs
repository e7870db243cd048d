//! `runwire resume`: a person answers what a run waits for.

use serde_json::Value;

use crate::program::run;
use crate::serving::{AGENTS, Serving};

#[tokio::test]
async fn a_person_sees_what_the_run_waits_for_and_approves_or_denies_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), AGENTS).await;
    for (flag, says) in [("--approve", "Your prompt has"), ("--deny", "You did not let me measure")] {
        let asked = ["run", "demo", "Let me approve this", "--json", "--server", server.url()];
        let frames = run(folder.path(), &asked).await.exits(4).json_lines();
        let run_id = frames[0]["run_id"].as_str().unwrap();
        let show = run(folder.path(), &["resume", run_id, "--server", server.url()]).await.exits(2);
        for part in ["May I measure your prompt", "approval_call_", r#""approved""#, "--approve"] {
            assert!(show.stdout.contains(part), "{part}: {}", show.stdout);
        }
        let wrong = ["resume", run_id, "--answer", r#"{"approved":"yes"}"#, "--server", server.url()];
        run(folder.path(), &wrong).await.could_not(&["breaks its schema at /approved", "boolean"]);
        let follow = ["resume", run_id, flag, "--follow", "--json", "--server", server.url()];
        let rest: Vec<Value> = run(folder.path(), &follow).await.exits(0).json_lines();
        assert_eq!(rest[0]["type"], "resume", "what came before is not shown again");
        let text: String = rest.iter().filter_map(|frame| frame["data"]["text"].as_str()).collect();
        assert!(text.contains(says), "{text}");
        let late = ["resume", run_id, flag, "--server", server.url()];
        run(folder.path(), &late).await.could_not(&["waits for no answer", "completed"]);
    }
}

#[tokio::test]
async fn a_run_that_waits_is_answered_after_the_server_was_killed_and_a_deadline_that_passed_meanwhile_resolves() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "{AGENTS}\n[agents.brief]\ndriver = \"demo\"\npace = \"2ms\"\nanswer_within = \"1s\"\non_deadline = \"fail\"\n"
    );
    let server = Serving::start(folder.path(), &config).await;
    let mut waiting = Vec::new();
    for agent in ["demo", "brief"] {
        let asked = ["run", agent, "Let me approve this", "--json", "--server", server.url()];
        let frames = run(folder.path(), &asked).await.exits(4).json_lines();
        waiting.push(frames[0]["run_id"].as_str().unwrap().to_owned());
    }
    server.kill().await;
    let server = Serving::start(folder.path(), &config).await;
    let answer = ["resume", &waiting[0], "--approve", "--follow", "--server", server.url()];
    run(folder.path(), &answer).await.exits(0);
    let log = run(folder.path(), &["tail", &waiting[1], "--json", "--server", server.url()]).await.exits(1);
    assert!(log.stdout.contains(r#""resolved_by":"deadline""#) && log.stdout.contains("TIMEOUT"), "{}", log.stdout);
}
