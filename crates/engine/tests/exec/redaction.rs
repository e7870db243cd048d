//! What is taken out of what an agent elsewhere says of its tools.

use runwire_engine::{PayloadPolicy, Redaction};

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
