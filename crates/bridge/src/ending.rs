//! The ways in which a run stops going on: what is said about each, and how the log closes in order.

use std::time::Duration;

use runwire_agui::UsageLedger;
use runwire_frame::{
    Cost, Data, EndStatus, ErrorCode, ErrorData, RunEnd, RunStart, RunStatus, SegmentStatus, Suspend, SuspendKind,
    Timestamp, Usage,
};
use serde_json::{Map, Value};

use crate::log_state::LogState;
use crate::recorder::{Agui, Recorded, Recorder, extra};
use crate::segment::Ending;
use crate::usage::{ATTEMPT_USAGE, EXCHANGE_USAGE, add_all, summed};

/// How a run completes.
#[derive(Clone, Debug, Default)]
pub struct Completion {
    /// Usage that no segment carried, such as what an upstream agent reports for the whole run.
    pub usage: Vec<Usage>,
    /// What it cost, when the agent itself knows. Otherwise the [prices](crate::Pricing) that the recorder has decide.
    pub cost: Option<Cost>,
    /// What AG-UI says beyond the frame: the result, pending tool calls.
    pub agui: Agui,
}

/// How a run fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// One of the fifteen.
    pub code: ErrorCode,
    /// What happened, for a person.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// For how long what failed asks to be left alone. It is in no frame: the engine waits so long before the next attempt.
    pub retry_after: Option<Duration>,
    /// More for whoever operates the agent.
    pub detail: Option<String>,
    /// `Failed` when the work failed, `Abandoned` when the attempt ended under its segments.
    pub segments: SegmentStatus,
    /// Usage that no segment carried.
    pub usage: Vec<Usage>,
    /// What AG-UI says beyond the `error` frame.
    pub agui: Agui,
}

impl Failure {
    /// A failure of the work itself.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
            retryable: false,
            retry_after: None,
            detail: None,
            segments: SegmentStatus::Failed,
            usage: Vec::new(),
            agui: None,
        }
    }
}

/// What a run waits for.
#[derive(Clone, Debug)]
pub struct Suspension {
    /// A yes or no, or a value.
    pub kind: SuspendKind,
    /// The interrupts to answer.
    pub contract: Map<String, Value>,
    /// What to ask, for a person.
    pub prompt: Option<String>,
    /// When waiting ends.
    pub deadline: Option<Timestamp>,
    /// Usage of this exchange that no segment carried.
    pub usage: Vec<Usage>,
    /// What AG-UI says beyond the frame.
    pub agui: Agui,
}

/// Each of these consumes the recorder: nothing can follow.
impl Recorder {
    /// The work is done: closes what is open, then `run.status` → `completed` and `run.end`.
    ///
    /// A run that is being stopped ends `cancelled` instead, and without its result: that is how stopping ends.
    pub fn complete(mut self, now: Timestamp, completion: Completion) -> Recorded {
        if self.finish_ended(now) || self.end_stopping(now, &completion.usage) {
            return self.out;
        }
        self.begin_due_attempt(now);
        self.close_all(now, SegmentStatus::Completed);
        self.reach(now, RunStatus::Completed);
        self.run_end(now, EndStatus::Completed, &completion.usage, completion.cost, None, completion.agui);
        self.out
    }

    /// The work could not be done: `error`, closes what is open, then `run.status` → `failed` and `run.end`.
    ///
    /// A run that is being stopped ends `cancelled` instead.
    pub fn fail(mut self, now: Timestamp, failure: Failure) -> Recorded {
        if self.finish_ended(now) || self.end_stopping(now, &failure.usage) {
            return self.out;
        }
        self.begin_due_attempt(now);
        let usage = failure.usage.clone();
        let class = self.report(now, failure);
        self.reach(now, RunStatus::Failed);
        self.run_end(now, EndStatus::Failed, &usage, None, Some(class), None);
        self.out
    }

    /// The attempt failed and another follows: `error`, closes what is open, then `run.status` → `retrying`. There is no
    /// `run.end`, because it tells a subscriber to close. [`Recorder::start`] begins the next attempt from the state
    /// that is returned.
    ///
    /// A run that is being stopped is not tried again: it ends `cancelled`, and the state says that it
    /// [ended](LogState::ended).
    pub fn retry(mut self, now: Timestamp, mut failure: Failure) -> (Recorded, LogState) {
        if !self.state.between_attempts() && !self.finish_ended(now) && !self.end_stopping(now, &failure.usage) {
            // There is no run.end to count it in, and the log must not forget it until there is.
            if !failure.usage.is_empty() {
                insert_usage(&mut failure.agui, ATTEMPT_USAGE, &failure.usage);
            }
            self.report(now, failure);
            self.reach(now, RunStatus::Retrying);
        }
        (self.out, self.state)
    }

    /// `error`, then closes what is open. Gives the failure's class and detail.
    fn report(&mut self, now: Timestamp, failure: Failure) -> (String, String) {
        let class = (failure.code.as_str().to_owned(), failure.detail.unwrap_or_else(|| failure.message.clone()));
        let error = ErrorData {
            code: failure.code,
            message: failure.message,
            retryable: failure.retryable,
            extra: extra(failure.agui),
        };
        self.emit(now, None, Data::Error(error));
        self.close_all(now, failure.segments);
        class
    }

    /// The run was stopped on purpose: closes what is open, then `run.status` → `cancelled` and `run.end`.
    pub fn cancel(mut self, now: Timestamp, usage: &[Usage], agui: Agui) -> Recorded {
        if !self.finish_ended(now) {
            self.end_cancelled(now, usage, agui);
        }
        self.out
    }

    /// What is being stopped has one ending left, whatever its work comes to. Says whether it is.
    fn end_stopping(&mut self, now: Timestamp, usage: &[Usage]) -> bool {
        let stopping = self.state.status == RunStatus::Cancelling;
        if stopping {
            self.end_cancelled(now, usage, None);
        }
        stopping
    }

    /// Between two attempts there is nothing that could complete or fail, so the one that is due has to begin first.
    fn begin_due_attempt(&mut self, now: Timestamp) {
        if self.state.between_attempts()
            && let Some(start) = self.state.start.clone()
        {
            let attempt = self.state.attempt + 1;
            self.emit(now, None, Data::RunStart(RunStart { attempt, ..start }));
        }
    }

    fn end_cancelled(&mut self, now: Timestamp, usage: &[Usage], agui: Agui) {
        self.close_all(now, SegmentStatus::Cancelled);
        self.reach(now, RunStatus::Cancelled);
        self.run_end(now, EndStatus::Cancelled, usage, None, None, agui);
    }

    /// The run waits for an answer from outside: `suspend`, then `run.status` → `suspended`. Segments stay as they are.
    ///
    /// A run that is being stopped waits for nothing: it ends `cancelled`, and the state says that it
    /// [ended](LogState::ended).
    pub fn suspend(mut self, now: Timestamp, suspension: Suspension) -> (Recorded, LogState) {
        if self.finish_ended(now) || self.end_stopping(now, &suspension.usage) {
            return (self.out, self.state);
        }
        let mut usage = self.state.exchange_usage.clone();
        add_all(&mut usage, &suspension.usage);
        let mut agui = suspension.agui;
        if let Some(usage) = summed(&usage) {
            insert_usage(&mut agui, EXCHANGE_USAGE, &usage);
        }
        let suspend = Suspend {
            kind: suspension.kind,
            resume_contract: suspension.contract,
            prompt: suspension.prompt,
            deadline_at: suspension.deadline,
            extra: extra(agui),
        };
        self.emit(now, None, Data::Suspend(suspend));
        self.transition(now, RunStatus::Suspended);
        (self.out, self.state)
    }

    fn close_all(&mut self, now: Timestamp, status: SegmentStatus) {
        // The waiting deltas may be the only thing that their segment still lacks.
        self.flush(now);
        let open: Vec<u64> = self.state.open.keys().rev().copied().collect();
        for number in open {
            self.end_number(now, number, Ending::with_status(status));
        }
    }

    fn run_end(
        &mut self,
        now: Timestamp,
        status: EndStatus,
        usage: &[Usage],
        cost: Option<Cost>,
        failure: Option<(String, String)>,
        agui: Agui,
    ) {
        let mut exchange = self.state.exchange_usage.clone();
        add_all(&mut exchange, usage);
        let exchange = summed(&exchange).unwrap_or_default();
        let mut whole = self.state.earlier_usage.clone();
        add_all(&mut whole, &exchange);
        let mut agui = agui;
        if self.state.earlier_usage != UsageLedger::default() {
            insert_usage(&mut agui, EXCHANGE_USAGE, &exchange);
        }
        let started = self.state.started_at.unwrap_or(now);
        let duration = self.clamp(now).unix_millis() - started.unix_millis();
        let (failure_class, failure_detail) = failure.unzip();
        let usage = summed(&whole);
        let cost = cost.or_else(|| self.pricing.as_ref().zip(usage.as_ref()).and_then(|(p, usage)| p.total(usage)));
        let end = RunEnd {
            status,
            usage,
            cost,
            duration_ms: Some(duration.max(0).unsigned_abs()),
            failure_class,
            failure_detail,
            extra: extra(agui),
        };
        self.emit(now, None, Data::RunEnd(end));
    }

    /// Goes to one of the last statuses of an attempt, through the one between where there is no direct way.
    fn reach(&mut self, now: Timestamp, status: RunStatus) {
        if !self.state.status.may_become(status) {
            let between = if status == RunStatus::Cancelled { RunStatus::Cancelling } else { RunStatus::Running };
            self.transition(now, between);
        }
        self.transition(now, status);
    }

    /// Whether the log had reached its last status before this writer took it up; then only `run.end` can be missing.
    fn finish_ended(&mut self, now: Timestamp) -> bool {
        let status = match self.state.status {
            RunStatus::Completed => EndStatus::Completed,
            RunStatus::Failed => EndStatus::Failed,
            RunStatus::Cancelled => EndStatus::Cancelled,
            _ => return false,
        };
        if !self.state.ended {
            let failure = self.state.last_error.clone().filter(|_| status == EndStatus::Failed);
            self.run_end(now, status, &[], None, failure, None);
        }
        true
    }
}

fn insert_usage(agui: &mut Agui, key: &str, usage: &[Usage]) {
    let usage = serde_json::to_value(usage).expect("usage entries are plain JSON");
    agui.get_or_insert_default().insert(key.to_owned(), usage);
}
