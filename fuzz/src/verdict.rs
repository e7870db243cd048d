//! What a client makes of a stream, in a form that compares.

use runwire_agui::proto::{ProtoDecoder, ProtoEncoder};
use runwire_agui::{
    CheckError, CheckOptions, Checker, Consumer, Delivered, Event, Form, Judgement, Keep, Reducer, Rejected, Rule,
    StreamEnd, Warning, WarningRule,
};
use serde_json::Value;

/// What a consumer and a reducer come to.
#[derive(Debug, PartialEq)]
pub struct Made {
    /// The rule that was broken, and by which event.
    pub rejected: Option<(Rule, usize)>,
    /// How each run ended.
    pub runs: Vec<(Option<String>, &'static str)>,
    /// Whether the stream stopped short.
    pub truncated: bool,
    /// The events that were delivered.
    pub delivered: Vec<Event>,
    /// What was mentioned on the way.
    pub warnings: Vec<Warning>,
    /// The messages at the end.
    pub messages: Value,
    /// The state at the end.
    pub state: Value,
}

/// Consumes and reduces the events that `push` takes one by one, until one is rejected.
///
/// # Panics
/// When a rejection does not last, or what was delivered is not accepted a second time.
pub fn made<T>(
    events: impl IntoIterator<Item = T>,
    mut push: impl for<'c> FnMut(&'c mut Consumer, T) -> Result<Delivered<'c>, Rejected>,
) -> Made {
    let mut consumer = Consumer::default();
    let mut reducer = Reducer::new();
    let (mut delivered, mut warnings) = (Vec::new(), Vec::new());
    for (index, event) in events.into_iter().enumerate() {
        let (given, rejected) = match push(&mut consumer, event) {
            Ok(given) => (given.collect(), false),
            Err(rejected) => (rejected.delivered, true),
        };
        warnings.extend(consumer.take_warnings());
        for event in given {
            warnings.extend(reducer.apply(event.clone(), index));
            delivered.push(event);
        }
        if rejected {
            let again = consumer.push_json(b"{}");
            assert!(again.is_err_and(|again| again.delivered.is_empty()), "a rejected stream delivers nothing more");
            break;
        }
    }
    let end = consumer.finish();
    warnings.extend(consumer.take_warnings());
    let runs = end.runs().iter().map(|run| (run.run_id.clone(), run.ending.as_str())).collect();
    let (rejected, truncated) = match end {
        StreamEnd::Completed { .. } => (None, false),
        StreamEnd::Rejected { violation, .. } => (Some((violation.rule, violation.event)), false),
        StreamEnd::Truncated { .. } => (None, true),
    };
    let (messages, state) = reducer.into_parts();
    let messages = serde_json::to_value(messages).expect("messages are JSON");
    Made { rejected, runs, truncated, delivered, warnings, messages, state }
}

/// Reducing the same events without delivering them comes to the same verdict, messages, state and warnings.
///
/// # Panics
/// When it does not.
pub fn reduces_alike(events: impl IntoIterator<Item = String>, made: &Made) {
    let (mut consumer, mut reducer) = (Consumer::default(), Reducer::new());
    let mut warnings = Vec::new();
    for event in events {
        let taken = consumer.reduce(&event, &mut reducer);
        warnings.extend(consumer.take_warnings());
        if taken.is_err() {
            break;
        }
    }
    let end = consumer.finish();
    warnings.extend(consumer.take_warnings());
    let rejected = match end {
        StreamEnd::Rejected { violation, .. } => Some((violation.rule, violation.event)),
        StreamEnd::Completed { .. } | StreamEnd::Truncated { .. } => None,
    };
    assert_eq!(rejected, made.rejected);
    assert_eq!(warnings, made.warnings);
    let (messages, state) = reducer.into_parts();
    let messages = serde_json::to_value(messages).expect("messages are JSON");
    assert_eq!((&messages, &state), (&made.messages, &made.state));
}

/// What was delivered is itself a stream: no chunk is left in it, and a consumer takes all of it and makes the same.
///
/// # Panics
/// When it does not.
pub fn is_taken_again(made: &Made) {
    let again = self::made(&made.delivered, |consumer, event| consumer.push_json(event.to_json_string().as_bytes()));
    assert_eq!(again.rejected, None, "what was delivered is accepted");
    assert_eq!(again.delivered, made.delivered);
    assert_eq!((&again.messages, &again.state), (&made.messages, &made.state));
}

/// Judges a recording in one piece, or in those that `cut` gives.
///
/// # Errors
/// As the checker.
pub fn judged(
    recording: &[u8],
    form: Option<Form>,
    reduce: bool,
    mut cut: Option<crate::pieces::Pieces>,
) -> Result<Judgement, CheckError> {
    let keep = if reduce { Keep::Everything } else { Keep::Nothing };
    let mut checker = Checker::new(CheckOptions { form, keep, ..CheckOptions::default() });
    let mut rest = recording;
    while !rest.is_empty() {
        match &mut cut {
            Some(cut) => checker.push(cut.cut(&mut rest))?,
            None => checker.push(std::mem::take(&mut rest))?,
        }
    }
    checker.finish()
}

/// The checker says what the consumer and the reducer say.
///
/// # Panics
/// When it does not.
pub fn agrees(judgement: &Judgement, made: &Made) {
    let report = &judgement.report;
    assert_eq!(report.error.as_ref().map(|error| (error.rule, error.event)), made.rejected);
    let runs: Vec<_> = report.runs.iter().map(|run| (run.run_id.clone(), run.ending)).collect();
    assert_eq!(runs, made.runs);
    assert_eq!(report.events, made.delivered);
    assert_eq!(serde_json::to_value(&report.messages).expect("messages are JSON"), made.messages);
    assert_eq!(report.state, made.state);
    // What the recording stopped inside of is none of the events.
    let of_events = report.warnings.iter().filter(|warning| warning.rule != WarningRule::UnterminatedEvent).count();
    assert_eq!(of_events + judgement.stream.untold_warnings, made.warnings.len());
}

/// One event as a frame of the binary form, and back as its JSON. `None` when it has no binary form.
///
/// # Panics
/// When the frame is not read as one event.
pub fn through_protobuf(event: &Event) -> Option<Value> {
    let mut frame = Vec::new();
    if ProtoEncoder::encode_event(&mut frame, event).is_err() {
        assert!(frame.is_empty(), "nothing is written of an event that has no binary form");
        return None;
    }
    let mut decoder = ProtoDecoder::new(usize::MAX);
    let mut read = decoder.push(&frame);
    assert!(!decoder.finish(), "a frame that was written ends where it says");
    match (read.pop(), read.pop()) {
        (Some(Ok(runwire_agui::proto::ProtoEvent::Event(value))), None) => Some(value),
        other => panic!("{other:?} was read of {event:?}"),
    }
}
