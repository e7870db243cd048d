//! A stream and its runs: who may end them, and how they end.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::error::{FinishError, NotFinished, NotStarted, ProduceError};
use super::guard::Guard;
use super::open::{OpenItem, OpenKind};
use super::writer::{Extras, Writer};
use crate::event::Event;
use crate::events::{RunFinished, RunStarted, SubagentFinished};
use crate::input::RunAgentInput;
use crate::outcome::{Interrupt, RunFinishedOutcome, SubagentFinishedOutcome};
use crate::usage::{TokenUsage, UsageLedger};
use crate::version::PROTOCOL_VERSION;
use crate::violation::Violation;

/// Where a producer's events go, in order.
///
/// It is called under the lock that keeps the order, so it must neither wait nor call the producer: a sink puts the event
/// into a buffer or an unbounded queue. Closures that take an [`Event`] are sinks.
pub trait Sink: Send {
    /// Takes the next event.
    fn event(&mut self, event: Event);
}

impl<F: FnMut(Event) + Send> Sink for F {
    fn event(&mut self, event: Event) {
        self(event);
    }
}

/// What all handles of a stream share.
pub(super) struct Shared {
    inner: Mutex<Inner>,
}

pub(super) struct Inner {
    pub(super) guard: Guard,
    sink: Box<dyn Sink>,
    /// Which run of the stream is the current one, counted from 1. Handles of an earlier one write nothing.
    run: u64,
    pub(super) usage: UsageLedger,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A sink that panics takes its own event with it; the order of the stream is kept before it is called.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for a handle of that run, if the run is still open.
    pub(super) fn lock_run(&self, run: u64) -> Result<MutexGuard<'_, Inner>, ProduceError> {
        let inner = self.lock();
        if inner.run == run && inner.guard.run_is_open() { Ok(inner) } else { Err(ProduceError::Ended) }
    }
}

impl Inner {
    /// Sends an event, if a consumer would take it.
    pub(super) fn send(&mut self, event: Event) -> Result<(), Violation> {
        match self.guard.push(event) {
            Ok(events) => {
                self.deliver(events);
                Ok(())
            }
            Err(refused) => {
                self.deliver(refused.passed);
                Err(refused.violation)
            }
        }
    }

    fn deliver(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.sink.event(event);
        }
    }

    fn usage(&self) -> Option<Vec<TokenUsage>> {
        self.usage.entries().map(<[TokenUsage]>::to_vec)
    }

    fn still_open(&self, kept: impl Fn(&OpenItem) -> bool) -> Result<(), FinishError> {
        let open: Vec<OpenItem> = self.guard.open_items().filter(|item| !kept(item)).cloned().collect();
        if open.is_empty() { Ok(()) } else { Err(FinishError::StillOpen(open)) }
    }
}

/// A stream with no run open: before the first, between two, or after the last.
pub struct Producer {
    shared: Arc<Shared>,
}

impl Producer {
    /// A stream of any thread: its first run decides which.
    pub fn new(sink: impl Sink + 'static) -> Self {
        Self::guarded(Guard::new(), sink)
    }

    /// The answer to that input: every run has to be on its thread.
    pub fn for_input(input: &RunAgentInput, sink: impl Sink + 'static) -> Self {
        Self::guarded(Guard::for_input(input), sink)
    }

    fn guarded(guard: Guard, sink: impl Sink + 'static) -> Self {
        let inner = Inner { guard, sink: Box::new(sink), run: 0, usage: UsageLedger::default() };
        Self { shared: Arc::new(Shared { inner: Mutex::new(inner) }) }
    }

    /// Starts a run. Its declaration is the version that this crate speaks.
    ///
    /// # Errors
    /// When the run is on another thread than the stream, or an input that it echoes is none.
    pub fn start(self, mut started: RunStarted) -> Result<Run, NotStarted> {
        started.protocol_version.get_or_insert_with(|| PROTOCOL_VERSION.to_owned());
        let (thread_id, run_id) = (started.thread_id.clone(), started.run_id.clone());
        let mut inner = self.shared.lock();
        if let Err(violation) = inner.send(started.into()) {
            drop(inner);
            return Err(NotStarted { producer: self, violation });
        }
        inner.run += 1;
        inner.usage = UsageLedger::default();
        let run = inner.run;
        drop(inner);
        Ok(Run { writer: Writer::new(self.shared, run), thread_id, run_id })
    }

    /// Reports a failure outside of a run: of one that could not begin, or of the one before, which had finished.
    ///
    /// # Errors
    /// When the run before has failed already.
    pub fn fail(&mut self, message: impl Into<String>, code: Option<&str>) -> Result<(), Violation> {
        let mut inner = self.shared.lock();
        let event = inner.guard.fail(message, code, None)?;
        inner.deliver([event]);
        Ok(())
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Producer").finish_non_exhaustive()
    }
}

/// How a run finishes that was neither stopped nor failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It completed.
    Success,
    /// It completed, and names the tool calls that it left to the application: exactly those that it started and did not
    /// answer. There is no other way to name them.
    SuccessWithPendingCalls,
    /// It waits for answers: at least one interrupt, each id once. Subagents that are still at work end as suspended,
    /// each naming the interrupts that are its own.
    Interrupt(Vec<Interrupt>),
}

/// The open run of a stream, held by whoever may end it. Each way of ending it consumes it and gives the stream back.
///
/// A run that is dropped stays without an ending: nothing is sent, and a consumer sees a truncated run, which is what it
/// is.
#[must_use = "a run that is dropped has no ending, which its consumer takes for a broken stream"]
pub struct Run {
    writer: Writer,
    thread_id: String,
    run_id: String,
}

impl Run {
    /// What the run's content is written through. Clones of it can be given to other tasks.
    #[must_use]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// What is open, in the order of opening.
    #[must_use]
    pub fn open_items(&self) -> Vec<OpenItem> {
        self.writer.shared().lock().guard.open_items().cloned().collect()
    }

    /// Closes what was opened through handles that are gone. It is not done by itself, because only the caller knows
    /// whether what they opened is whole; what is not is better cancelled or failed.
    ///
    /// # Errors
    /// When a consumer would reject one of the ends. Those before it were sent.
    pub fn close_abandoned(&mut self) -> Result<(), Violation> {
        let mut inner = self.writer.shared().lock();
        let mut ends = Vec::new();
        let closed = inner.guard.close(|item| item.abandoned, &mut ends);
        inner.deliver(ends);
        closed
    }

    /// Finishes the run, with the usage that was counted.
    ///
    /// # Errors
    /// While something is open, but for subagents of an interrupted run; and for interrupts that cannot be answered.
    /// Nothing was sent then, and the run goes on.
    pub fn finish(self, outcome: Outcome) -> Result<Producer, NotFinished> {
        self.finish_with(outcome, None, Extras::default())
    }

    /// Finishes the run with a return value, and with what any event may carry.
    ///
    /// # Errors
    /// As [`Run::finish`]; and for a value that the schema refuses, such as `null`.
    pub fn finish_with(self, outcome: Outcome, result: Option<Value>, extras: Extras) -> Result<Producer, NotFinished> {
        let mut inner = self.writer.shared().lock();
        match self.try_finish(&mut inner, outcome, result, extras) {
            Ok(()) => {
                drop(inner);
                Ok(self.over())
            }
            Err(error) => {
                drop(inner);
                Err(NotFinished { run: self, error })
            }
        }
    }

    fn try_finish(
        &self,
        inner: &mut Inner,
        outcome: Outcome,
        result: Option<Value>,
        extras: Extras,
    ) -> Result<(), FinishError> {
        let interrupts = match &outcome {
            Outcome::Interrupt(interrupts) => Some(interrupts.clone()),
            _ => None,
        };
        let outcome = match outcome {
            Outcome::Success => RunFinishedOutcome::success(),
            Outcome::SuccessWithPendingCalls => RunFinishedOutcome::Success {
                pending_tool_call_ids: Some(inner.guard.pending_tool_calls().map(str::to_owned).collect()),
            },
            Outcome::Interrupt(interrupts) => RunFinishedOutcome::Interrupt { interrupts },
        };
        let finished = RunFinished {
            result,
            outcome: Some(outcome),
            usage: inner.usage(),
            timestamp: extras.timestamp,
            raw_event: extras.raw_event,
            metadata: extras.metadata,
            ..RunFinished::new(self.thread_id.as_str(), self.run_id.as_str())
        };
        // Everything that could refuse the ending comes before the first event of it.
        inner.still_open(|item| interrupts.is_some() && item.kind == OpenKind::Subagent)?;
        inner.guard.judge_finish(&finished)?;
        let subagents: Vec<String> = inner.guard.open_items().map(|item| item.id.clone()).collect();
        for id in subagents.into_iter().rev() {
            let raised = interrupts.iter().flatten().filter(|one| one.subagent_run_id.as_ref() == Some(&id));
            let raised: Vec<String> = raised.map(|one| one.id.clone()).collect();
            let mut suspended = SubagentFinished::new(id);
            let interrupt_ids = (!raised.is_empty()).then_some(raised);
            suspended.outcome = Some(SubagentFinishedOutcome::Suspended { interrupt_ids });
            inner.send(suspended.into())?;
        }
        Ok(inner.send(finished.into())?)
    }

    /// Ends the run as stopped on purpose: closes what is open, innermost first, then says `cancelled`, with the usage
    /// that was counted. It has no result and waits for nothing.
    pub fn cancel(self) -> Producer {
        let mut inner = self.writer.shared().lock();
        let usage = inner.usage();
        let events = inner.guard.cancel(usage);
        inner.deliver(events);
        drop(inner);
        self.over()
    }

    /// Reports that the run failed, with the usage that was counted. `message` is for a person; `code` an open string for
    /// programs. What is open ends together with the run: nothing cut off is shown as complete.
    pub fn fail(self, message: impl Into<String>, code: Option<&str>) -> Producer {
        let mut inner = self.writer.shared().lock();
        let usage = inner.usage();
        let event = inner.guard.fail(message, code, usage);
        inner.deliver(event);
        drop(inner);
        self.over()
    }

    fn over(self) -> Producer {
        Producer { shared: self.writer.into_shared() }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread_id, run_id, .. } = self;
        formatter.debug_struct("Run").field("thread_id", thread_id).field("run_id", run_id).finish_non_exhaustive()
    }
}
