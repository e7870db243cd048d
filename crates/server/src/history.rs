//! The history of a session as events that a client is told.

use runwire_agui::{
    Downgrade, Event, MessagesSnapshot, PROTOCOL_VERSION, Peer, RunFinished, RunFinishedOutcome, RunStarted,
    StateSnapshot,
};
use runwire_bridge::History;
use serde_json::{Map, Value};

/// The conversation as one event; none where there is no message, because that would take from a client what it has
/// and did not send yet.
pub(crate) fn messages_event(history: &History, peer: Peer) -> Option<Event> {
    let messages = history.messages();
    (!messages.is_empty()).then(|| for_peer(MessagesSnapshot::new(messages).into(), peer))
}

/// A run that says nothing but what is known: the events of its beginning, of the messages and of the state, each where
/// there is something to say, and of its end. What waits for an answer to the agent `waits` is its outcome.
pub(crate) fn as_a_run(
    history: &History,
    session_id: &str,
    run_id: &str,
    waits: Option<&str>,
    peer: Peer,
) -> [Option<Event>; 4] {
    let mut started = RunStarted::new(session_id, run_id);
    started.protocol_version = Some(PROTOCOL_VERSION.to_owned());
    let mut finished = RunFinished::new(session_id, run_id);
    if let Some(waiting) = waits.and_then(|agent_id| history.answerable(agent_id)) {
        let interrupts = waiting.interrupts.clone();
        finished.outcome = Some(RunFinishedOutcome::Interrupt { interrupts });
    }
    [Some(started.into()), messages_event(history, peer), state_event(history), Some(finished.into())]
}

/// The state as one event; none for the empty object, which is what a client has by itself.
pub(crate) fn state_event(history: &History) -> Option<Event> {
    (history.state() != &Value::Object(Map::new())).then(|| StateSnapshot::new(history.state().clone()).into())
}

/// An event of a session for a client that may be older than what it holds.
pub(crate) fn for_peer(event: Event, peer: Peer) -> Event {
    let Some(mut downgrade) = Downgrade::for_peer(peer) else { return event };
    let mut events = downgrade.apply(vec![event]);
    for lost in downgrade.take_warnings() {
        tracing::warn!("{lost}");
    }
    events.pop().expect("one event by itself is reshaped, and never left out")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use runwire_agui::Message;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_before_1_0_holds_a_tools_parts_as_their_text() {
        let parts = json!([{ "type": "text", "text": "one " }, { "type": "text", "text": "two" }]);
        let messages = json!([{ "id": "m", "role": "tool", "toolCallId": "c", "content": parts }]);
        let event = Event::from_value(json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages })).unwrap();
        let Event::MessagesSnapshot(old) = for_peer(event.clone(), Peer::PreV1) else { panic!("it stays what it is") };
        let Message::Tool(tool) = &old.messages[0] else { panic!("it stays a tool's") };
        assert_eq!(tool.content, runwire_agui::Content::Text("one two".into()));
        assert_eq!(for_peer(event.clone(), Peer::Current), event);
    }
}
