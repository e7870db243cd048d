//! What an application puts into the consumer pipeline (basic/processing, "Where middleware sits").

use std::fmt;

use serde_json::Value;

/// One stage that an application puts between the translation of retired shapes and enforcement.
///
/// It sees every event as the producer sent it, retired shapes translated, chunks not expanded, and before anything
/// that the schema does not describe is stripped: what it translates is not lost. Whatever it hands on is judged like
/// a producer's own, so a stage that makes something malformed or out of order gets the stream rejected.
///
/// A closure is a stage:
///
/// ```
/// use runwire_agui::{Consumer, Event};
/// use serde_json::Value;
///
/// let mut consumer = Consumer::default().with_middleware(|mut event: Value, next: &mut Vec<Value>| {
///     if event["type"] == "VENDOR_STARTED" {
///         event["type"] = Value::from("RUN_STARTED");
///     }
///     next.push(event);
/// });
/// let started = br#"{"type":"VENDOR_STARTED","threadId":"t","runId":"r"}"#;
/// assert!(matches!(consumer.push_json(started)?.next(), Some(Event::RunStarted(_))));
/// # Ok::<(), runwire_agui::Rejected>(())
/// ```
pub trait Middleware: Send + Sync {
    /// Takes the next event, which may be any JSON value, and adds to `next` what goes on in its place, in order:
    /// itself to pass it, nothing to drop it, more than one to insert. `next` is empty when this is called.
    ///
    /// What a stage keeps back in order to hand it on with a later event is lost when the stream ends before that.
    fn process(&mut self, event: Value, next: &mut Vec<Value>);
}

impl<F> Middleware for F
where
    F: FnMut(Value, &mut Vec<Value>) + Send + Sync,
{
    fn process(&mut self, event: Value, next: &mut Vec<Value>) {
        self(event, next);
    }
}

/// The stages of one consumer, in the order in which events pass them.
#[derive(Default)]
pub(crate) struct Stages(Vec<Box<dyn Middleware>>);

impl Stages {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, stage: Box<dyn Middleware>) {
        self.0.push(stage);
    }

    /// What comes of the event behind the last stage.
    pub(crate) fn process(&mut self, event: Value) -> Vec<Value> {
        let mut events = vec![event];
        let mut made = Vec::new();
        for stage in &mut self.0 {
            let mut passed = Vec::with_capacity(events.len());
            for event in events {
                stage.process(event, &mut made);
                passed.append(&mut made);
            }
            events = passed;
        }
        events
    }
}

impl fmt::Debug for Stages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} stages", self.0.len())
    }
}
