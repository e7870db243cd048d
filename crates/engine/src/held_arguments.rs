//! The events of a foreign agent on their way into a log from which something is taken out.

use std::collections::HashMap;

use runwire_agui::{Event, ToolCallArgs};
use serde_json::Value;

use crate::redaction::Redaction;

/// The arguments of calls that are being written, by the calls' ids. They come in pieces, and what is to be found may be spread
/// over several; so they are held until they are whole. What bounds them is the relay.
#[derive(Debug, Default)]
pub(crate) struct HeldArguments(HashMap<String, ToolCallArgs>);

/// Whether something may have to be taken out of the event, or written before it. Of what an agent says there never is.
pub(crate) fn is_concerned(redaction: &Redaction, event: &Event) -> bool {
    let of_calls = matches!(event, Event::ToolCallStart(_) | Event::ToolCallArgs(_) | Event::ToolCallEnd(_));
    !redaction.is_empty() && (of_calls || tells_of_tools(event) || event.raw_event().is_some())
}

fn tells_of_tools(event: &Event) -> bool {
    matches!(event, Event::ToolCallResult(_) | Event::MessagesSnapshot(_) | Event::Raw(_))
}

impl HeldArguments {
    /// What is written of an event: itself, without what is taken out; nothing for now; or what was held before it.
    pub(crate) fn pass(&mut self, redaction: &Redaction, event: &Event) -> Vec<Event> {
        match event {
            Event::ToolCallStart(start) => {
                self.0.remove(&start.tool_call_id);
            }
            Event::ToolCallArgs(args) if redaction.holds_arguments() => {
                let first = || ToolCallArgs {
                    // What a piece says beyond its text is no more than the piece, and goes with it.
                    subagent_run_id: args.subagent_run_id.clone(),
                    ..ToolCallArgs::new(&*args.tool_call_id, "")
                };
                let held = self.0.entry(args.tool_call_id.clone()).or_insert_with(first);
                held.delta.push_str(&args.delta);
                return Vec::new();
            }
            Event::ToolCallEnd(end) => {
                let held = self.0.remove(&end.tool_call_id).filter(|held| !held.delta.is_empty());
                let whole = held.map(|held| {
                    let delta = redaction.arguments(&held.delta).into_owned();
                    Event::from(ToolCallArgs { delta, ..held })
                });
                return whole.into_iter().chain([redacted(redaction, event)]).collect();
            }
            _ => {}
        }
        vec![redacted(redaction, event)]
    }
}

/// The event without what is taken out of tools' results, of what a snapshot restates of calls and results, and of what the
/// provider of the agent sent.
pub(crate) fn redacted(redaction: &Redaction, event: &Event) -> Event {
    if redaction.is_empty() || (!tells_of_tools(event) && event.raw_event().is_none()) {
        return event.clone();
    }
    let mut members = event.to_value();
    if let Some(raw) = members.get_mut("rawEvent") {
        redaction.value(raw);
    }
    match event {
        Event::ToolCallResult(_) => content(redaction, &mut members),
        Event::Raw(_) => {
            if let Some(raw) = members.get_mut("event") {
                redaction.value(raw);
            }
        }
        Event::MessagesSnapshot(_) => {
            for message in members["messages"].as_array_mut().into_iter().flatten() {
                if message["role"] == "tool" {
                    content(redaction, message);
                }
                for call in message.get_mut("toolCalls").and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Some(Value::String(text)) = call.pointer_mut("/function/arguments") {
                        *text = redaction.arguments(text).into_owned();
                    }
                }
            }
        }
        _ => {}
    }
    Event::from_value(members)
        .expect("it was an event, and only text took the place of text in what the protocol reads")
}

/// The content of a tool's result: a text, or parts.
fn content(redaction: &Redaction, holder: &mut Value) {
    match holder.get_mut("content") {
        Some(text @ Value::String(_)) => {
            redaction.value(text);
        }
        Some(Value::Array(parts)) => parts.iter_mut().for_each(|part| redaction.part(part)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// Passes these events and gives what is written, as JSON.
    fn pass(redaction: &Redaction, events: &[Value]) -> Vec<Value> {
        let mut held = HeldArguments::default();
        let event = |event: &Value| Event::from_value(event.clone()).unwrap();
        events.iter().flat_map(|e| held.pass(redaction, &event(e))).map(|event| event.to_value()).collect()
    }

    fn keys() -> Redaction {
        Redaction::new(Vec::new(), ["password".to_owned()], []).unwrap()
    }

    #[test]
    fn a_match_that_is_spread_over_pieces_is_found() {
        let args = |delta: &str| json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": delta });
        let start = json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "t" });
        let end = json!({ "type": "TOOL_CALL_END", "toolCallId": "c" });
        let events = [start.clone(), args(r#"{"pass"#), args(r#"word":"hun"#), args(r#"ter2"}"#), end.clone()];
        assert_eq!(pass(&keys(), &events), [start.clone(), args(r#"{"password":"[redacted]"}"#), end.clone()]);
        assert_eq!(pass(&Redaction::default(), &events), events, "without rules they go as they come");
        assert_eq!(pass(&keys(), &[start.clone(), end.clone()]), [start, end], "no arguments are none");
    }

    #[test]
    fn results_and_what_restates_them_are_looked_at_and_what_was_said_is_not() {
        let secret = r#"{"password":"p"}"#;
        let kept = r#"{"password":"[redacted]"}"#;
        let events = |held: &str, said: &str| {
            let call = json!({ "id": "c", "type": "function", "function": { "name": "t", "arguments": held } });
            [
                json!({ "type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": held }),
                json!({ "type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c",
                        "content": [{ "type": "text", "text": held }] }),
                json!({ "type": "MESSAGES_SNAPSHOT", "messages": [
                    { "id": "1", "role": "user", "content": said },
                    { "id": "2", "role": "assistant", "toolCalls": [call] },
                    { "id": "3", "role": "tool", "toolCallId": "c", "content": held },
                ] }),
                json!({ "type": "RAW", "event": { "body": held } }),
                json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": said, "rawEvent": { "b": held } }),
            ]
        };
        assert_eq!(pass(&keys(), &events(secret, secret)), events(kept, secret));
    }
}
