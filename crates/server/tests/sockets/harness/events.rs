//! AG-UI streams as a client reads them.

use runwire_agui::{Consumer, ConsumerOptions, Event, Reducer, RunAgentInput, StreamEnd};
use serde_json::Value;

/// One event of a stream: its `id` and its JSON, as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AguiEvent {
    pub id: String,
    pub data: String,
}

impl AguiEvent {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }

    pub fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

/// Takes a whole stream apart, which has to be `retry:` and then events of one `id` and one `data` line each.
pub fn agui_events(body: &str) -> Vec<AguiEvent> {
    assert!(!body.contains('\r'), "LF is the only line end");
    let events = body.strip_prefix("retry: 1000\n\n").expect("a stream begins with retry");
    let events = events.split_terminator("\n\n").filter(|event| !event.starts_with(':'));
    let events = events.map(|event| {
        let (id, data) = event.split_once('\n').unwrap();
        let id = id.strip_prefix("id: ").unwrap().to_owned();
        let data = data.strip_prefix("data: ").unwrap().to_owned();
        AguiEvent { id, data }
    });
    events.collect()
}

/// The `id`s of events.
pub fn ids(events: &[AguiEvent]) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

/// What a consumer delivers of a stream, which has to conform without a warning and end.
pub fn consumed(events: &[AguiEvent], input: Option<&Value>) -> Vec<Event> {
    let input = input.map(|input| RunAgentInput::decode_value(input.clone()).unwrap().0);
    let mut consumer = Consumer::new(ConsumerOptions { input });
    let mut delivered = Vec::new();
    for event in events {
        delivered.extend(consumer.push_json(event.data.as_bytes()).unwrap());
    }
    let end = consumer.finish();
    assert!(matches!(end, StreamEnd::Completed { .. }), "{end:?}");
    assert_eq!(consumer.take_warnings(), []);
    delivered
}

/// The messages and the state that a client holds after these events, which has to be able to apply every one of them.
pub fn held(delivered: &[Event]) -> (Value, Value) {
    let mut reducer = Reducer::new();
    for (n, event) in delivered.iter().enumerate() {
        assert_eq!(reducer.apply(event.clone(), n), None, "{event:?}");
    }
    let (messages, state) = reducer.into_parts();
    (serde_json::to_value(messages).unwrap(), state)
}
