//! What a command writes, and what becomes of it.

use runwire_engine::drivers::{ExecOptions, Output};
use runwire_frame::SegmentStatus;
use serde_json::json;

use crate::fixture::{answers, request};
use crate::{MESSAGE, RUN, THREAD, ask, assert_sandbox_error, echo, front, log_of, said, shell, started};

#[tokio::test]
async fn agui_events_one_a_line_are_told_by_the_first_of_them() {
    for output in [Output::Auto, Output::Agui] {
        let script = format!("echo; echo '  '\n{}", said(&MESSAGE));
        let log = log_of(ExecOptions { output, ..shell(&script) }).await;
        assert_eq!((log.ending(), &*log.text()), ("completed", "Kept."), "{}", log.dump());
        let types = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
        assert_eq!(log.event_types(), types);
    }
}

#[tokio::test]
async fn anything_else_is_the_text_of_one_message() {
    let log = log_of(shell("printf 'Hello\\n{\"type\":\"RUN_STARTED\"}\\n'")).await;
    assert_eq!((log.ending(), &*log.text()), ("completed", "Hello\n{\"type\":\"RUN_STARTED\"}\n"), "{}", log.dump());
    assert_eq!(log.texts().len(), 1, "one message");
    assert_eq!(log.segment_ends(), [SegmentStatus::Completed]);
    let told = log.events.iter().find(|event| event.event_type().as_str() == "TEXT_MESSAGE_START").unwrap();
    assert_eq!(told.to_value()["role"], "assistant");
    // Where it is known to be text, a line that looks like an event is text too.
    let log = log_of(ExecOptions { output: Output::Text, ..shell(&echo(&MESSAGE)) }).await;
    assert_eq!((log.ending(), &*log.text()), ("completed", &*(MESSAGE.join("\n") + "\n")));
}

#[tokio::test]
async fn a_command_that_writes_nothing_and_succeeds_has_said_nothing() {
    for output in [Output::Auto, Output::Text] {
        let log = log_of(ExecOptions { output, ..shell("exit 0") }).await;
        assert_eq!((log.ending(), &*log.text()), ("completed", ""));
        assert_eq!(log.event_types(), ["RUN_STARTED", "RUN_FINISHED"]);
    }
    assert_sandbox_error(&log_of(ExecOptions { output: Output::Agui, ..shell("exit 0") }).await, "without any event");
}

#[tokio::test]
async fn text_that_is_no_utf_8_is_replaced_and_told_once() {
    let log = log_of(shell("printf 'a\\377b\\377c'; printf '\\303'; sleep 0.05; printf '\\251 \\360\\237'")).await;
    assert_eq!((log.ending(), &*log.text()), ("completed", "a\u{FFFD}b\u{FFFD}cé \u{FFFD}"), "{}", log.dump());
    let codes: Vec<&str> = log.notices().iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, ["output_not_utf8"]);
}

#[tokio::test]
async fn a_command_is_given_the_input_and_then_its_end() {
    let log = log_of(shell("cat")).await;
    let input: serde_json::Value = serde_json::from_str(&log.text()).unwrap();
    assert_eq!((&input["threadId"], &input["runId"]), (&json!(THREAD), &json!(RUN)));
    assert_eq!(input["messages"][0]["content"], "How are you?");
    assert_eq!(input["protocolVersion"], "1.0");
    // One that needs none of it is not disturbed.
    assert_eq!(log_of(shell("exec 0<&-; echo done")).await.text(), "done\n");
}

#[tokio::test]
async fn a_line_that_breaks_agui_fails_the_run_and_names_rule_and_event() {
    for (line, told) in
        [(r#"{"type":"TEXT_MESSAGE_END","messageId":"unknown"}"#, "AG-UI rule"), ("not json at all", "AG-UI rule")]
    {
        let log = log_of(shell(&format!("{}{}", started(), echo(&[&MESSAGE[..], &[line]].concat())))).await;
        let (code, message, retryable) = log.error();
        assert_eq!((log.ending(), code, retryable), ("failed", "CHANNEL_ERROR", false), "{}", log.dump());
        assert!(message.contains(told) && message.contains("event 4") && message.contains("the command"), "{message}");
        assert_eq!(log.text(), "Kept.", "what came before stays");
    }
}

#[tokio::test]
async fn an_exit_other_than_0_and_a_missing_end_are_failures_that_say_which() {
    for (script, told) in [
        (format!("{}exit 3", started()), "exited with code 3"),
        (format!("{}kill -9 $$", started()), "was ended by signal 9 (SIGKILL)"),
        (format!("{}kill -ABRT $$", started()), "was ended by signal 6 (SIGABRT)"),
        (format!("{}exit 0", started()), "without a terminal event"),
        (format!("{}exit 3", said(&MESSAGE)), "exited with code 3 after it had reported the end of its run"),
        ("echo half an answer; exit 7".to_owned(), "exited with code 7"),
    ] {
        let log = log_of(shell(&script)).await;
        assert_sandbox_error(&log, told);
        assert!(!log.error().2, "what it did before may not be done twice");
    }
    let log = log_of(ExecOptions { idempotent: true, ..shell("echo half an answer; exit 7") }).await;
    assert_eq!((log.text().as_str(), log.error().2), ("half an answer\n", true));
    assert_eq!(log.segment_ends(), [SegmentStatus::Failed]);
}

#[tokio::test]
async fn a_failure_that_the_agent_reports_keeps_its_own_code_whatever_the_exit() {
    let error = r#"{"type":"RUN_ERROR","message":"no more credit","code":"BUDGET_EXCEEDED"}"#;
    for exit in [0, 1] {
        let log = log_of(shell(&format!("{}{}exit {exit}", started(), echo(&[error])))).await;
        let (code, message, _) = log.error();
        assert_eq!((log.ending(), code, message), ("failed", "BUDGET_EXCEEDED", "no more credit"));
    }
}

#[tokio::test]
async fn the_end_of_its_standard_error_is_in_the_detail_of_a_failure() {
    let log = log_of(shell("echo the reason is this >&2; exit 1")).await;
    assert_sandbox_error(&log, "exited with code 1");
    assert!(!log.error().1.contains("the reason"), "readers are told what happened, the operator why");
    let detail = log.detail().unwrap();
    assert!(detail.contains("exited with code 1") && detail.contains("the reason is this"), "{detail}");
}

#[tokio::test]
async fn a_run_that_asks_is_run_again_with_the_answer() {
    // Its schema cannot be used here, so the command judges the answer itself.
    let ask_first = format!(
        r#"input=$(cat)
case "$input" in
*resume*)
    run=$(printf %s "$input" | sed 's/.*"runId":"\([^"]*\)".*/\1/')
    echo "{{\"type\":\"RUN_STARTED\",\"threadId\":\"{THREAD}\",\"runId\":\"$run\"}}"
    {}
    echo "{{\"type\":\"RUN_FINISHED\",\"threadId\":\"{THREAD}\",\"runId\":\"$run\"}}";;
*)
    {}
    echo '{{"type":"RUN_FINISHED","threadId":"{THREAD}","runId":"{RUN}","outcome":{{"type":"interrupt","interrupts":[{{"id":"send","reason":"confirmation","responseSchema":{{"$ref":"https://example.com/a.json"}}}}]}}}}';;
esac"#,
        echo(&MESSAGE),
        started(),
    );
    let bed = front(shell(&ask_first));
    let run_id = ask(&bed).await;
    bed.reaches(&run_id, runwire_frame::RunStatus::Suspended).await;
    bed.create(request("command", answers(THREAD, "run-2", &["send"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), &*log.text()), ("completed", "Kept."), "{}", log.dump());
}
