//! A character that a producer cut in two, so that each delta has half of a surrogate pair. No stream of the other tests has
//! one, because no string of this program can hold it.

use runwire_agui::Consumer;
use serde_json::{Value, json};

use super::{judged_by, walk};
use crate::real_part;

/// RFC 8259, section 8.2: what software makes of half a pair cannot be foretold. Here it is refused, and named.
#[tokio::test]
async fn half_a_surrogate_pair_is_refused_here_and_joined_with_the_next_by_the_released_client() {
    let text = |kind: &str, more: Value| {
        let mut event = json!({ "type": format!("TEXT_MESSAGE_{kind}"), "messageId": "m" });
        event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        event.to_string()
    };
    let run = |kind: &str| json!({ "type": kind, "threadId": walk::THREAD, "runId": walk::RUN }).to_string();
    let half = |escape: &str| text("CONTENT", json!({ "delta": "HALF" })).replace("HALF", escape);
    let events = [
        run("RUN_STARTED"),
        text("START", json!({ "role": "assistant" })),
        half(r"\ud83d"),
        half(r"\ude00"),
        text("END", json!({})),
        run("RUN_FINISHED"),
    ];
    let mut consumer = Consumer::default();
    let rejected = events.iter().find_map(|event| consumer.push_json(event.as_bytes()).err()).unwrap().violation;
    assert_eq!((rejected.rule.as_str(), rejected.event), ("malformed-json", 2));
    assert!(rejected.message.contains("half of a surrogate pair"), "{}", rejected.message);

    if !real_part::node() {
        return;
    }
    let line = format!(r#"{{"input":{},"events":[{}]}}"#, walk::input(), events.join(","));
    let verdict = judged_by("1.0.0", &[line]).await.remove(0);
    assert_eq!(verdict["error"], Value::Null, "{verdict:#}");
    let messages = verdict["messages"].as_array().unwrap();
    let message = messages.iter().find(|message| message["id"] == "m").unwrap();
    assert_eq!(message["content"], "\u{1f600}");
}
