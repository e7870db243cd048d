//! What a producer may send of itself: exactly what the schema describes (basic/versioning, "What a producer owes").
//!
//! A consumer survives what it does not recognise by taking it out. A producer has no such excuse, so everything that a
//! consumer would strip, drop, translate or mention is refused here.

use std::str::FromStr;

use serde_json::Value;

use crate::enforce::{Enforcement, enforce, found};
use crate::event::{Event, EventType};
use crate::schema::{SAFE_INTEGER, event_shape};
use crate::version::{Declaration, PROTOCOL_VERSION};
use crate::violation::{Rule, Violation};

/// So many arrays and objects inside one another are read by every JSON parser that a consumer is likely to use; a common
/// limit is 128.
pub(crate) const MAX_DEPTH: usize = 127;

/// Reads an event exactly as a producer has to write it, its place in a stream left aside: what a consumer would strip,
/// drop, translate or mention is refused as well. For data that becomes part of a stream later.
///
/// # Errors
/// What is wrong with it.
pub fn check_value(value: Value) -> Result<Event, Violation> {
    strict_value(value, 0)
}

/// Judges an event that came as a value, and gives it as its type.
pub(crate) fn strict_value(mut value: Value, index: usize) -> Result<Event, Violation> {
    let event_type = judge(&mut value, index)?;
    let event =
        Event::from_value(value).map_err(|error| malformed(index, format!("{event_type} is malformed: {error}.")))?;
    version(&event, index)?;
    Ok(event)
}

/// Judges an event that came as its type: what the type leaves open.
pub(crate) fn strict(event: &Event, index: usize) -> Result<(), Violation> {
    if is_frequent(event) && event.raw_event().is_none() && event.metadata().is_none() {
        let safe = event.timestamp().is_none_or(|time| (-SAFE_INTEGER..=SAFE_INTEGER).contains(&time));
        if safe {
            return Ok(());
        }
    }
    judge(&mut event.to_value(), index)?;
    version(event, index)
}

fn judge(value: &mut Value, index: usize) -> Result<EventType, Violation> {
    let Value::Object(members) = &*value else {
        return Err(malformed(index, format!("The event is {}, and not an object.", found(value))));
    };
    let event_type = match members.get("type") {
        Some(Value::String(name)) => EventType::from_str(name)
            .map_err(|unknown| malformed(index, format!("{unknown}; a producer sends no other.")))?,
        other => {
            let other = other.map_or_else(|| "nothing".to_owned(), found);
            return Err(malformed(index, format!("The event's type is {other}, and not the name of one.")));
        }
    };
    if !within_depth(value, MAX_DEPTH) {
        let message = format!(
            "{event_type} nests more than {MAX_DEPTH} levels of JSON, which a consumer's parser need not read."
        );
        return Err(malformed(index, message));
    }
    let Enforcement { verdict, notes } = enforce(value, event_shape(event_type), false);
    // What survives or does not is in the notes as well.
    if let Err(wrong) = verdict {
        let message =
            format!("{event_type} is malformed at {}: expected {}, found {}.", wrong.path, wrong.expected, wrong.found);
        return Err(malformed(index, message));
    }
    match notes.into_first() {
        None => Ok(event_type),
        Some(note) => {
            let path = note.into_warning(index, event_type.as_str()).path.unwrap_or_default();
            let message = format!(
                "{event_type} carries {path}, which AG-UI 1.0 does not describe; a producer sends only what it describes."
            );
            Err(malformed(index, message))
        }
    }
}

/// What passes here is judged by this version, so a declaration of another one would not be true.
fn version(event: &Event, index: usize) -> Result<(), Violation> {
    let Event::RunStarted(started) = event else { return Ok(()) };
    match Declaration::of(started.protocol_version.as_deref()) {
        Declaration::Current | Declaration::Missing => Ok(()),
        declaration => Err(malformed(
            index,
            format!("RUN_STARTED {declaration}; a stream that is judged by {PROTOCOL_VERSION} speaks that."),
        )),
    }
}

fn malformed(index: usize, message: String) -> Violation {
    Violation::new(Rule::MalformedValue, index, message)
}

/// The events of which a stream has thousands.
fn is_frequent(event: &Event) -> bool {
    matches!(
        event,
        Event::TextMessageContent(_)
            | Event::TextMessageChunk(_)
            | Event::ToolCallArgs(_)
            | Event::ToolCallChunk(_)
            | Event::ReasoningMessageContent(_)
            | Event::ReasoningMessageChunk(_)
    )
}

/// Whether no more than so many arrays and objects stand inside one another.
fn within_depth(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(entries) => levels > 0 && entries.iter().all(|entry| within_depth(entry, levels - 1)),
        Value::Object(members) => levels > 0 && members.values().all(|member| within_depth(member, levels - 1)),
        _ => true,
    }
}
