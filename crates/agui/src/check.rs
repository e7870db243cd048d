//! A recorded stream, judged: what would a client make of it, and what would its author want to know?
//!
//! The verdict is that of the [`Consumer`](crate::Consumer). Around it a check knows the places of the events in the
//! recording, which earlier event a later one contradicts, and the page of the specification behind each rule.

mod advice;
mod answer;
mod catalogue;
mod detail;
mod finding;
mod form;
mod judge;
mod origins;
mod report;

pub use advice::AdviceRule;
pub use answer::Answer;
pub use catalogue::{Example, ExampleAnswer, RuleEntry};
pub use finding::{CheckRule, Earlier, Finding, Severity, UnknownRule, steers_text};
pub use form::Form;
pub use judge::{CheckOptions, Checker, Judgement, Keep, StreamFacts};
pub use report::{Report, ReportedError, ReportedOutcome, ReportedRun};

use crate::input::RunAgentInput;
use crate::unreadable::ReaderLimit;

/// Why a recording could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It is none of the forms that a stream is recorded in.
    #[error(
        "the stream is neither Server-Sent Events, nor one JSON object a line, nor a JSON array of events, nor protobuf \
         frames; it begins with {0:?}"
    )]
    UnknownForm(String),
    /// It begins like a JSON array and is none.
    #[error("the stream begins like a JSON array of events, but it is not JSON: {0}")]
    NotAnArray(String),
    /// An event is JSON, and goes past what this reader takes. Whether the stream conforms cannot be said.
    #[error("event {event} of the stream {limit}; a client without that limit may take it")]
    BeyondReader {
        /// The event, counted from 0.
        event: usize,
        /// What it goes past.
        limit: ReaderLimit,
    },
    /// An event is larger than is sensible.
    #[error("an event of the stream is larger than {limit} bytes, which no client would take")]
    TooLarge {
        /// The most bytes that one event may have.
        limit: usize,
    },
}

/// Judges a recorded stream, from the input that it answers when that is known. The form is detected: Server-Sent
/// Events, one JSON object a line, a JSON array, or protobuf frames. An empty recording is a stream that stopped before its first event.
///
/// This is [`Checker`] over a recording that is in memory as a whole, and only what a client would make of it.
///
/// # Errors
///
/// When the recording is in no form that can be read. What is wrong with the events in it is no error but the report.
pub fn check(stream: &[u8], input: Option<RunAgentInput>) -> Result<Report, CheckError> {
    let mut checker = Checker::new(CheckOptions { input, ..CheckOptions::default() });
    checker.push(stream)?;
    Ok(checker.finish()?.report)
}
