//! A recorded stream, judged: what would a client make of it?

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::consumer::{Consumer, ConsumerOptions, Rejected, StreamEnd};
use crate::ending::{RunEnding, RunRecord};
use crate::event::Event;
use crate::input::RunAgentInput;
use crate::message::Message;
use crate::reducer::Reducer;
use crate::sse::{SseDecoder, SseError};
use crate::violation::Rule;
use crate::warning::{Warning, WarningRule};

/// The most bytes that one SSE event of a recording may have.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// Why a recording could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It is none of the forms that a stream is recorded in.
    #[error(
        "the stream is neither Server-Sent Events, nor one JSON object a line, nor a JSON array of events; it begins \
         with {0:?}"
    )]
    UnknownForm(String),
    /// It begins like a JSON array and is none.
    #[error("the stream begins like a JSON array of events, but it is not JSON: {0}")]
    NotAnArray(#[source] serde_json::Error),
    /// It is Server-Sent Events that cannot be read to the end.
    #[error("the Server-Sent Events of the stream cannot be read: {0}")]
    Sse(#[from] SseError),
}

/// What a client would make of a stream. As JSON it is what `runwire check --format json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The verdict.
    pub outcome: ReportedOutcome,
    /// What rejected the stream; `None` unless it was.
    pub error: Option<ReportedError>,
    /// What was mentioned, in order.
    pub warnings: Vec<Warning>,
    /// The runs, in order.
    pub runs: Vec<ReportedRun>,
    /// The events that were delivered to the application, in order.
    pub events: Vec<Event>,
    /// The messages that the client holds at the end.
    pub messages: Vec<Message>,
    /// The state that the client holds at the end.
    pub state: Value,
}

/// The verdict on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedOutcome {
    /// It conforms, and every run has its ending.
    Completed,
    /// It breaks a rule.
    Rejected,
    /// It stopped short.
    Truncated,
}

impl fmt::Display for ReportedOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Completed => "completed",
            Self::Rejected => "rejected",
            Self::Truncated => "truncated",
        })
    }
}

/// What rejected a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportedError {
    /// The rule that was broken.
    pub rule: Rule,
    /// What is wrong, and what was expected.
    pub message: String,
    /// The event, counted from 0.
    pub event: usize,
}

/// One run of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportedRun {
    /// Its thread; `None` for a failure before any run began.
    pub thread_id: Option<String>,
    /// Its id; `None` for a failure before any run began.
    pub run_id: Option<String>,
    /// `success`, `interrupt`, `cancelled`, `error` or `truncated`.
    pub ending: &'static str,
    /// What the run said about its failure; `None` unless it failed.
    pub message: Option<String>,
}

impl From<&RunRecord> for ReportedRun {
    fn from(run: &RunRecord) -> Self {
        let message = match &run.ending {
            RunEnding::Failed { message, .. } => Some(message.clone()),
            _ => None,
        };
        Self { thread_id: run.thread_id.clone(), run_id: run.run_id.clone(), ending: run.ending.as_str(), message }
    }
}

/// Judges a recorded stream, from the input that it answers when that is known. The form is detected: Server-Sent
/// Events, one JSON object a line, or a JSON array. An empty recording is a stream that stopped before its first event.
///
/// # Errors
///
/// When the recording is in no form that can be read. What is wrong with the events in it is no error but the report.
pub fn check(stream: &[u8], input: Option<RunAgentInput>) -> Result<Report, CheckError> {
    let mut judge = Judge::new(input);
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    match form(stream)? {
        Form::Empty => {}
        Form::Array => {
            let events: Vec<Value> = serde_json::from_slice(stream).map_err(CheckError::NotAnArray)?;
            for event in events {
                if !judge.take(|consumer| consumer.push_value(event)) {
                    break;
                }
            }
        }
        Form::Lines => {
            for line in stream.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
                if !judge.take(|consumer| consumer.push_json(line)) {
                    break;
                }
            }
        }
        Form::Sse => {
            let mut decoder = SseDecoder::new(MAX_EVENT_BYTES);
            let mut going = true;
            for event in decoder.push(stream) {
                let event = event?;
                going = going && judge.take(|consumer| consumer.push_json(event.data.as_bytes()));
            }
            if decoder.finish() && going {
                judge.mention_unterminated();
            }
        }
    }
    Ok(judge.report())
}

enum Form {
    Empty,
    Array,
    Lines,
    Sse,
}

fn form(stream: &[u8]) -> Result<Form, CheckError> {
    let stream = stream.trim_ascii_start();
    match stream.first() {
        None => return Ok(Form::Empty),
        Some(b'[') => return Ok(Form::Array),
        Some(b'{') => return Ok(Form::Lines),
        Some(_) => {}
    }
    let line = stream.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    let field = line.split(|&byte| byte == b':').next().unwrap_or_default();
    if matches!(field, b"" | b"data" | b"event" | b"id" | b"retry") {
        return Ok(Form::Sse);
    }
    Err(CheckError::UnknownForm(String::from_utf8_lossy(line).chars().take(40).collect()))
}

struct Judge {
    consumer: Consumer,
    reducer: Reducer,
    warnings: Vec<Warning>,
    events: Vec<Event>,
}

impl Judge {
    fn new(input: Option<RunAgentInput>) -> Self {
        let reducer = input.as_ref().map_or_else(Reducer::new, Reducer::from_input);
        Self { consumer: Consumer::new(ConsumerOptions { input }), reducer, warnings: Vec::new(), events: Vec::new() }
    }

    /// Takes one event; `false` when the stream is rejected.
    fn take(&mut self, push: impl FnOnce(&mut Consumer) -> Result<Vec<Event>, Rejected>) -> bool {
        let index = self.consumer.event_count();
        let (delivered, going) = match push(&mut self.consumer) {
            Ok(delivered) => (delivered, true),
            Err(rejected) => (rejected.delivered, false),
        };
        self.warnings.append(&mut self.consumer.take_warnings());
        for event in delivered {
            self.warnings.extend(self.reducer.apply(&event, index));
            self.events.push(event);
        }
        going
    }

    fn mention_unterminated(&mut self) {
        self.warnings.push(Warning {
            rule: WarningRule::UnterminatedEvent,
            message: "The stream stopped inside an SSE event, which was discarded.".to_owned(),
            event: self.consumer.event_count(),
            path: None,
        });
    }

    fn report(mut self) -> Report {
        let end = self.consumer.finish();
        self.warnings.append(&mut self.consumer.take_warnings());
        let runs = end.runs().iter().map(ReportedRun::from).collect();
        let (outcome, error) = match end {
            StreamEnd::Completed { .. } => (ReportedOutcome::Completed, None),
            StreamEnd::Truncated { .. } => (ReportedOutcome::Truncated, None),
            StreamEnd::Rejected { violation, .. } => {
                let error = ReportedError { rule: violation.rule, message: violation.message, event: violation.event };
                (ReportedOutcome::Rejected, Some(error))
            }
        };
        let (messages, state) = self.reducer.into_parts();
        Report { outcome, error, warnings: self.warnings, runs, events: self.events, messages, state }
    }
}
