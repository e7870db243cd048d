//! The course of the requested run in an upstream AG-UI stream.
//!
//! A stream may replay earlier runs of the thread before the requested one. Those make no runs here: what they come to is
//! restated first in the requested run's own log.

use std::sync::Arc;

use runwire_agui::{Event, RunAgentInput, RunError, RunFinished, RunFinishedOutcome, RunStarted, TokenUsage};
use runwire_frame::{ErrorCode, SuspendKind, Timestamp};
use serde_json::{Map, Value};

use crate::ending::{Completion, Failure, Suspension};
use crate::foreign_code::{foreign_code, may_pass};
use crate::ingest::members;
use crate::recorder::Agui;
use crate::replay::{Replay, Replayed};
use crate::usage::all_from_agui;

/// Under `agui` of an `error` frame: what the `RUN_FINISHED` said that the failure came after.
pub const AFTER_FINISH: &str = "afterFinish";

/// The members of `RUN_FINISHED` that every exchange knows of itself.
const COURSE: [&str; 3] = ["type", "threadId", "runId"];

/// How an exchange ended.
#[derive(Clone, Debug)]
pub enum ExchangeEnd {
    /// The run is complete.
    Completed(Completion),
    /// The run waits for answers from outside.
    Suspended(Suspension),
    /// The run was stopped on purpose by whoever ran it.
    Cancelled {
        /// Usage that no segment carried.
        usage: Vec<runwire_frame::Usage>,
        /// What AG-UI says beyond the frame.
        agui: Agui,
    },
    /// The run failed.
    Failed(Failure),
}

/// The run is complete, and there is nothing more to say about it.
impl From<()> for ExchangeEnd {
    fn from((): ()) -> ExchangeEnd {
        ExchangeEnd::Completed(Completion::default())
    }
}

impl From<Completion> for ExchangeEnd {
    fn from(completion: Completion) -> ExchangeEnd {
        ExchangeEnd::Completed(completion)
    }
}

impl From<Suspension> for ExchangeEnd {
    fn from(suspension: Suspension) -> ExchangeEnd {
        ExchangeEnd::Suspended(suspension)
    }
}

/// What is missing of a stream that did not tell how the requested run ended. It reads on behind whose stream it is: "the
/// agent's …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Truncation {
    /// It said nothing.
    #[error("stream was truncated: it ended without any event")]
    Empty,
    /// The requested run started, and did not end.
    #[error("stream was truncated: it ended without a terminal event (RUN_FINISHED or RUN_ERROR)")]
    InRun,
    /// There were other runs, and not the requested one.
    #[error("stream ended without RUN_STARTED of the requested run `{wanted}`; the last run in it was `{last}`")]
    OtherRuns {
        /// The requested run.
        wanted: String,
        /// The last of the others.
        last: String,
    },
}

/// What to do with an event.
#[derive(Debug)]
pub enum UpstreamStep {
    /// Nothing yet: it belongs to an earlier run, or it is kept until the stream ends.
    Hold,
    /// The requested run has started.
    Begin(Box<RunStarted>, Replayed),
    /// Content of the requested run.
    Record(Box<Event>),
}

#[derive(Debug)]
enum Phase {
    Before,
    InEarlierRun,
    InRun,
    Ended(Box<Ended>),
}

#[derive(Debug)]
struct Ended {
    end: ExchangeEnd,
    /// What a failure that surfaces late comes after.
    finished: Option<RunFinished>,
}

/// Follows an upstream stream of verified events to the end of the requested run.
#[derive(Debug)]
pub struct Upstream {
    input: Arc<RunAgentInput>,
    phase: Phase,
    replay: Option<Box<Replay>>,
    other_runs: Vec<String>,
    /// A failure that came outside of any run: of one that could not begin, or late, of the one before.
    outside: Option<RunError>,
}

impl Upstream {
    /// Expects the run that answers this input.
    pub fn new(input: impl Into<Arc<RunAgentInput>>) -> Upstream {
        Upstream { input: input.into(), phase: Phase::Before, replay: None, other_runs: Vec::new(), outside: None }
    }

    /// Whether the requested run has ended, as far as the stream has told: what can still come is the stream's end, or
    /// a failure that surfaced late.
    pub fn has_ended(&self) -> bool {
        let could_not_begin = self.outside.is_some() && self.other_runs.is_empty();
        matches!(self.phase, Phase::Ended(_)) || (matches!(self.phase, Phase::Before) && could_not_begin)
    }

    /// Whether the stream tells of an earlier run.
    pub fn is_in_earlier_run(&self) -> bool {
        matches!(self.phase, Phase::InEarlierRun)
    }

    /// Takes the next event of the stream.
    pub fn push(&mut self, event: Event) -> UpstreamStep {
        match (&mut self.phase, event) {
            (Phase::Before, Event::RunStarted(started)) => {
                self.outside = None;
                if started.run_id == self.input.run_id {
                    self.phase = Phase::InRun;
                    let replayed = self.replay.take().map(|replay| replay.finish()).unwrap_or_default();
                    return UpstreamStep::Begin(Box::new(started), replayed);
                }
                self.other_runs.push(started.run_id.clone());
                self.phase = Phase::InEarlierRun;
                self.replay().push(started.into());
            }
            (Phase::InEarlierRun, event) => {
                if matches!(event, Event::RunFinished(_) | Event::RunError(_)) {
                    self.phase = Phase::Before;
                }
                self.replay().push(event);
            }
            // Whose failure this is shows only when the stream goes on with the requested run, or does not.
            (Phase::Before, Event::RunError(error)) => self.outside = Some(error),
            (Phase::InRun, Event::RunError(error)) => self.end(ExchangeEnd::Failed(failed(&error, None)), None),
            (Phase::InRun, Event::RunFinished(finished)) => {
                let end = finished_as(&finished);
                self.end(end, Some(finished));
            }
            (Phase::InRun, event) => return UpstreamStep::Record(Box::new(event)),
            // A failure that surfaced after the run had reported another ending: the run failed.
            (Phase::Ended(ended), Event::RunError(error)) => {
                if let Some(finished) = ended.finished.take() {
                    ended.end = ExchangeEnd::Failed(failed(&error, Some(&finished)));
                }
            }
            // From here on a failure is another run's.
            (Phase::Ended(ended), Event::RunStarted(_)) => ended.finished = None,
            (Phase::Ended(_) | Phase::Before, _) => {}
        }
        UpstreamStep::Hold
    }

    /// The stream ended. When the requested run did not end in it, or never started, that is a `CHANNEL_ERROR` failure:
    /// a truncation is never a success.
    pub fn finish(self) -> ExchangeEnd {
        self.reported().unwrap_or_else(|truncation| {
            let message = format!("the upstream agent's {truncation}");
            ExchangeEnd::Failed(Failure::new(ErrorCode::ChannelError, message))
        })
    }

    /// The stream ended: how the requested run ended in it, for whoever calls a truncation by another code.
    ///
    /// # Errors
    /// When the requested run did not end in it, or never started.
    pub fn reported(self) -> Result<ExchangeEnd, Truncation> {
        match (self.phase, self.outside) {
            (Phase::Ended(ended), _) => Ok(ended.end),
            (Phase::Before, Some(error)) => {
                let failure = failed(&error, None);
                // Nothing was done yet that would be done twice.
                Ok(ExchangeEnd::Failed(Failure { retryable: may_pass(failure.code), ..failure }))
            }
            (Phase::InRun, _) => Err(Truncation::InRun),
            (Phase::Before | Phase::InEarlierRun, _) => Err(match self.other_runs.into_iter().next_back() {
                None => Truncation::Empty,
                Some(last) => Truncation::OtherRuns { wanted: self.input.run_id.clone(), last },
            }),
        }
    }

    fn replay(&mut self) -> &mut Replay {
        self.replay.get_or_insert_with(|| Box::new(Replay::new(&self.input)))
    }

    fn end(&mut self, end: ExchangeEnd, finished: Option<RunFinished>) {
        self.phase = Phase::Ended(Box::new(Ended { end, finished }));
    }
}

/// What a `RUN_STARTED` says beyond its frame: goes under `agui` of `run.start` or `resume`.
///
/// Its protocol version is left out: towards this server's clients the producer is this server.
pub fn started_members(started: &RunStarted) -> Map<String, Value> {
    let mut rest = members(&Event::RunStarted(started.clone()));
    for key in ["type", "threadId", "protocolVersion"] {
        rest.shift_remove(key);
    }
    rest
}

/// The members of a terminal event that its frames have no keys for.
fn residual(event: &Event, usage: Option<&[TokenUsage]>, known: &[&str]) -> Map<String, Value> {
    let mut rest = members(event);
    for key in known {
        rest.shift_remove(*key);
    }
    // A list with entries is the frame's `usage`; an empty one says that nothing was counted, which null does not.
    if usage.is_some_and(|u| !u.is_empty()) {
        rest.shift_remove("usage");
    }
    rest
}

fn finished_as(finished: &RunFinished) -> ExchangeEnd {
    let usage = all_from_agui(finished.usage.as_deref());
    let known: &[&str] = match finished.outcome {
        Some(RunFinishedOutcome::Interrupt { .. }) => &["type", "threadId", "runId", "outcome"],
        _ => &COURSE,
    };
    let rest = residual(&Event::RunFinished(finished.clone()), finished.usage.as_deref(), known);
    let agui = Some(rest);
    match &finished.outcome {
        None | Some(RunFinishedOutcome::Success { .. }) => {
            ExchangeEnd::Completed(Completion { usage, cost: None, agui })
        }
        Some(RunFinishedOutcome::Cancelled) => ExchangeEnd::Cancelled { usage, agui },
        Some(RunFinishedOutcome::Interrupt { interrupts }) => {
            let approval = interrupts.iter().any(|i| i.tool_call_id.is_some());
            let deadlines = interrupts.iter().filter_map(|i| i.expires_at.as_deref());
            let contract = serde_json::to_value(interrupts).expect("interrupts are plain JSON");
            ExchangeEnd::Suspended(Suspension {
                kind: if approval { SuspendKind::Approval } else { SuspendKind::Input },
                contract: Map::from_iter([("interrupts".to_owned(), contract)]),
                prompt: interrupts.iter().find_map(|i| i.message.clone()),
                deadline: deadlines.filter_map(|d| Timestamp::parse(d).ok()).min(),
                usage,
                agui,
            })
        }
    }
}

/// A failure that the upstream agent itself reports, which is not to be tried again unless somebody knows that what it did
/// before may be done twice; possibly after it had reported another ending.
fn failed(error: &RunError, finished: Option<&RunFinished>) -> Failure {
    let code = foreign_code(error.code.as_deref());
    let event = Event::RunError(error.clone());
    let mut agui = residual(&event, error.usage.as_deref(), &["type", "message"]);
    let mut usage = error.usage.as_deref();
    if let Some(finished) = finished {
        let mut rest = members(&Event::RunFinished(finished.clone()));
        for key in COURSE {
            rest.shift_remove(key);
        }
        agui.insert(AFTER_FINISH.into(), Value::Object(rest));
        // Both events may give an account of the run. The frame has one: the later, if there is a later one.
        if let Some(account) = members(&event).shift_remove("usage") {
            agui.insert("usage".into(), account);
        }
        usage = usage.or(finished.usage.as_deref());
    }
    Failure {
        agui: Some(agui),
        usage: all_from_agui(usage),
        detail: error.code.clone().map(|c| format!("{}: {}", c, error.message)),
        ..Failure::new(code, error.message.clone())
    }
}
