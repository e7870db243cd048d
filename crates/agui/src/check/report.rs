//! What a client would make of a stream.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::ending::{RunEnding, RunRecord};
use crate::event::Event;
use crate::message::Message;
use crate::violation::Rule;
use crate::warning::Warning;

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
    /// The events that were delivered to the application, in order; none when they were not to be kept.
    pub events: Vec<Event>,
    /// The messages that the client holds at the end; none when they were not to be kept.
    pub messages: Vec<Message>,
    /// The state that the client holds at the end; `null` when it was not to be kept.
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
