//! What is taken out of what an agent elsewhere says of its tools.

use runwire_engine::{PayloadPolicy, Redaction};
use runwire_frame::{Data, Frame, RunStatus};

use super::*;

#[tokio::test]
async fn what_is_taken_out_of_calls_and_results_of_a_command_is_nowhere_in_the_log() {
    let script = said(&[
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"look"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"password\":\"hun","rawEvent":{"password":"hunter2"}}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"ter2\",\"q\":1}"}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
        r#"{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"{\"password\":\"hunter2\"}"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Kept.","rawEvent":{"password":"hunter2"}}"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
    ]);
    // The echo of some shells reads backslashes.
    let script = script.replace("echo '", "printf '%s\\n' '");
    let mut agent = driven_by("command", ExecDriver::new(shell(&script)).unwrap());
    let redaction = Redaction::new(Vec::new(), ["password".to_owned()], []).unwrap();
    agent.policy.payloads = PayloadPolicy { redaction, ..PayloadPolicy::default() };
    let bed = fixture::bed([agent]);
    let log = bed.ended(&ask(&bed).await).await;
    let dump = log.dump();
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "Kept."), "{dump}");
    for piece in ["hunter2", "hun\"", "ter2"] {
        assert!(!dump.contains(piece), "{piece}: {dump}");
    }
    assert!(dump.contains(r#"{\"password\":\"[redacted]\",\"q\":1}"#), "{dump}");
}

#[tokio::test]
async fn neither_does_the_log_keep_it_in_what_began_the_run_or_ended_it() {
    let raw = r#""rawEvent":{"password":"hunter2"}"#;
    let started = format!(r#"{{"type":"RUN_STARTED","threadId":"t","runId":"r",{raw}}}"#);
    let finished = format!(r#"{{"type":"RUN_FINISHED","threadId":"t","runId":"r",{raw}}}"#);
    let late = r#"{"type":"RUN_ERROR","message":"too late"}"#.to_owned();
    let asks = format!(
        r#"{{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{{"type":"interrupt","interrupts":[{{"id":"i","reason":"input"}}]}},{raw}}}"#
    );
    let stopped =
        format!(r#"{{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{{"type":"cancelled"}},{raw}}}"#);
    for ending in [vec![&finished], vec![&finished, &late], vec![&asks], vec![&stopped]] {
        let lines: Vec<String> =
            [&started].into_iter().chain(ending).map(|line| format!("printf '%s\\n' '{line}'")).collect();
        let mut agent = driven_by("command", ExecDriver::new(shell(&lines.join("\n"))).unwrap());
        let redaction = Redaction::new(Vec::new(), ["password".to_owned()], []).unwrap();
        agent.policy.payloads = PayloadPolicy { redaction, ..PayloadPolicy::default() };
        let bed = fixture::bed([agent]);
        let mut create = fixture::request("command", fixture::input("t", "r"));
        create.trigger_kind = "agui";
        let run_id = bed.create(create).await.unwrap().record.run_id;
        let over = |frame: &Frame| match &frame.data {
            Data::RunStatus(change) => change.status == RunStatus::Suspended,
            data => matches!(data, Data::RunEnd(_)),
        };
        bed.shows(&run_id, over).await;
        let dump = fixture::so_far(&bed.store, &run_id).await.dump();
        assert!(dump.contains("[redacted]"), "{dump}");
        assert!(!dump.contains("hunter2"), "{dump}");
    }
}
