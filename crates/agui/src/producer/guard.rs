//! The rule book from the other side: nothing passes that a conforming consumer would reject, or mention.

use serde_json::Value;

use super::open::{OpenItem, OpenItems, OpenKind};
use super::strict::{strict, strict_value};
use crate::chunks::ChunkExpander;
use crate::downgrade::CANCELLED_CODE;
use crate::event::Event;
use crate::events::{ReasoningMessageEnd, RunError, RunFinished, TextMessageEnd, ToolCallEnd};
use crate::input::RunAgentInput;
use crate::outcome::RunFinishedOutcome;
use crate::usage::TokenUsage;
use crate::verify::Verifier;
use crate::violation::Violation;

/// An event that did not pass. It is as if it had never come, and the stream goes on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the event was not sent: {violation}")]
pub struct Refused {
    /// Ends of items that chunks were assembling, which the refused event made due. They have passed.
    pub passed: Vec<Event>,
    /// The rule that a consumer would have rejected the stream for.
    pub violation: Violation,
}

/// Stands between whatever produces events and the wire, for events that arrive as data.
///
/// It applies the schema as a producer has to keep it, then the order as the [`Verifier`] knows it, and lets an event pass
/// or refuses it with the very [`Violation`] that a consumer would have rejected the stream for. Chunks pass as the start,
/// content and end that they stand for. What was refused leaves no trace, so a producer may go on, or
/// [cancel](Guard::cancel), or [fail](Guard::fail).
///
/// Everything that passed, in order, is a stream that a [`Consumer`](crate::Consumer) takes without a warning.
///
/// ```
/// use runwire_agui::producer::Guard;
/// use serde_json::json;
///
/// let mut guard = Guard::new();
/// let mut sent = Vec::new();
/// sent.extend(guard.push_value(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}))?);
/// sent.extend(guard.push_value(json!({"type": "TEXT_MESSAGE_START", "messageId": "m"}))?);
/// // A consumer would reject the whole stream over this one.
/// let refused = guard.push_value(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})).unwrap_err();
/// assert_eq!(refused.violation.rule.as_str(), "text-message-open-at-finish");
/// // Stopped on purpose: what is open is closed first.
/// sent.extend(guard.cancel(None));
/// let types: Vec<_> = sent.iter().map(|event| event.event_type().as_str()).collect();
/// assert_eq!(types, ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
/// # Ok::<(), runwire_agui::producer::Refused>(())
/// ```
#[derive(Debug, Default)]
pub struct Guard {
    index: usize,
    expander: ChunkExpander,
    verifier: Verifier,
    open: OpenItems,
    run: Option<(String, String)>,
}

impl Guard {
    /// A guard for a stream of any thread: the first run decides which.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A guard for the answer to that input: every run has to be on its thread.
    #[must_use]
    pub fn for_input(input: &RunAgentInput) -> Self {
        Self { verifier: Verifier::for_thread(input.thread_id.as_str()), ..Self::default() }
    }

    /// Takes the next event and gives what may be sent of it, in order: itself, or what a chunk stands for, after ends
    /// that it made due.
    ///
    /// # Errors
    /// When a consumer would reject the stream for it.
    pub fn push(&mut self, event: Event) -> Result<Vec<Event>, Refused> {
        self.take(|index| strict(&event, index).map(|()| event))
    }

    /// Takes the next event as a JSON value.
    ///
    /// # Errors
    /// As [`Guard::push`]; and when it is not exactly what the schema describes: an unknown type, a member too many, a
    /// retired shape.
    pub fn push_value(&mut self, value: Value) -> Result<Vec<Event>, Refused> {
        self.take(|index| strict_value(value, index))
    }

    /// Whether a run is open.
    #[must_use]
    pub fn run_is_open(&self) -> bool {
        self.verifier.run_is_open()
    }

    /// What the run has open, in the order of opening.
    pub fn open_items(&self) -> impl Iterator<Item = &OpenItem> {
        self.open.iter()
    }

    /// The tool calls that the run started and did not answer, in the order they were made (events/tool-calls).
    pub fn pending_tool_calls(&self) -> impl Iterator<Item = &str> {
        self.verifier.pending_tool_calls()
    }

    /// Ends the open run as stopped on purpose: closes what it opened, innermost first, then `RUN_FINISHED` with the
    /// `cancelled` outcome (events/lifecycle, "Cancelled runs"). Nothing, when no run is open.
    ///
    /// A subagent that was at work ends with an error whose code is [`CANCELLED_CODE`]. What cannot be closed in order
    /// ends the run with `RUN_ERROR` instead. A `usage` that does not keep to the schema is left out.
    pub fn cancel(&mut self, usage: Option<Vec<TokenUsage>>) -> Vec<Event> {
        let mut out = Vec::new();
        let Some((thread_id, run_id)) = self.run.clone().filter(|_| self.run_is_open()) else { return out };
        let mut finished = RunFinished::new(thread_id, run_id);
        finished.outcome = Some(RunFinishedOutcome::Cancelled);
        finished.usage = usage.clone();
        if strict(&finished.clone().into(), self.index).is_err() {
            finished.usage = None;
        }
        out.extend(self.close_open());
        if self.admit(finished.into(), &mut out).is_err() {
            out.extend(self.fail("the run was stopped, and could not be closed in order", Some(CANCELLED_CODE), usage));
        }
        out
    }

    /// Reports a failure with `RUN_ERROR`, which ends what is open together with the run. A `usage` that does not keep to
    /// the schema is left out.
    ///
    /// # Errors
    /// After another `RUN_ERROR`, where no second one may come.
    pub fn fail(
        &mut self,
        message: impl Into<String>,
        code: Option<&str>,
        usage: Option<Vec<TokenUsage>>,
    ) -> Result<Event, Violation> {
        let mut error = RunError::new(message);
        error.code = code.map(str::to_owned);
        error.usage = usage;
        if strict(&error.clone().into(), self.index).is_err() {
            error.usage = None;
        }
        // What chunks were assembling was cut off, and is not to be shown as complete.
        self.expander.finish();
        let event = Event::RunError(error);
        self.admit(event.clone(), &mut Vec::new())?;
        Ok(event)
    }

    /// Closes everything that the open run has open, innermost first, and leaves the run open. A subagent that was at work
    /// ends with an error whose code is [`CANCELLED_CODE`].
    pub fn close_open(&mut self) -> Vec<Event> {
        let mut out = Vec::new();
        let assembled = self.expander.finish();
        // Of each that cannot be closed the run's ending will say so.
        let _ = self.admit_ends(assembled, &mut out);
        let _ = self.close(|_| true, &mut out);
        out
    }

    /// Closes these of the open items.
    pub(super) fn close(&mut self, which: impl Fn(&OpenItem) -> bool, out: &mut Vec<Event>) -> Result<(), Violation> {
        let ends = self.open.iter().rev().filter(|item| which(item)).map(OpenItem::closing).collect();
        self.admit_ends(ends, out)
    }

    /// Whether a run could end so, as far as that does not depend on what is open.
    pub(super) fn judge_finish(&self, finished: &RunFinished) -> Result<(), Violation> {
        strict(&Event::RunFinished(finished.clone()), self.index)?;
        self.verifier.judge_outcome(finished.outcome.as_ref())
    }

    pub(super) fn abandon(&mut self, number: u64) {
        self.open.abandon(number);
    }

    /// Whether something that has an id of its own is open.
    pub(super) fn is_open(&self, kind: OpenKind, id: &str) -> bool {
        self.open.contains(kind, id)
    }

    /// The number of what was opened last.
    pub(super) fn newest(&self) -> u64 {
        self.open.newest()
    }

    fn take(&mut self, read: impl FnOnce(usize) -> Result<Event, Violation>) -> Result<Vec<Event>, Refused> {
        let index = self.index;
        self.index += 1;
        let mut passed = Vec::new();
        match read(index).and_then(|event| self.pass(event, &mut passed)) {
            Ok(()) => Ok(passed),
            Err(mut violation) => {
                violation.event = index;
                Err(Refused { passed, violation })
            }
        }
    }

    fn pass(&mut self, event: Event, out: &mut Vec<Event>) -> Result<(), Violation> {
        let is_chunk =
            matches!(event, Event::TextMessageChunk(_) | Event::ToolCallChunk(_) | Event::ReasoningMessageChunk(_));
        let mut expanded = Vec::new();
        self.expander.push(event, &mut expanded)?;
        let Some(last) = expanded.pop() else { return Ok(()) };
        for event in expanded {
            let opening = shorthand_end(&event).filter(|_| is_chunk);
            let admitted = if is_end(&event) { self.admit_end(event, out) } else { self.admit(event, out) };
            admitted.inspect_err(|_| self.forget_shorthand(opening))?;
        }
        let opening = shorthand_end(&last).filter(|_| is_chunk);
        self.admit(last, out).inspect_err(|_| self.forget_shorthand(opening))
    }

    /// Chunks were to assemble an item that could not be opened. That they could continue it must not stay on record:
    /// an explicit end takes it off.
    fn forget_shorthand(&mut self, end: Option<Event>) {
        if let Some(end) = end {
            // Neither this end nor the one that it brings about is of anything that was opened.
            let _ = self.expander.push(end, &mut Vec::new());
        }
    }

    fn admit_ends(&mut self, ends: Vec<Event>, out: &mut Vec<Event>) -> Result<(), Violation> {
        ends.into_iter().try_for_each(|end| self.admit_end(end, out))
    }

    /// A snapshot or a result may have put an item on record as another owner's. Its end without a tag contradicts nobody.
    fn admit_end(&mut self, end: Event, out: &mut Vec<Event>) -> Result<(), Violation> {
        let untagged = untagged(&end);
        match (self.admit(end, out), untagged) {
            (Err(_), Some(untagged)) => self.admit(untagged, out),
            (result, _) => result,
        }
    }

    fn admit(&mut self, event: Event, out: &mut Vec<Event>) -> Result<(), Violation> {
        self.verifier.push(&event)?;
        if let Event::RunStarted(started) = &event {
            self.run = Some((started.thread_id.clone(), started.run_id.clone()));
        }
        self.open.take(&event);
        out.push(event);
        Ok(())
    }
}

/// What would end the item that this event opens, where chunks can assemble such.
fn shorthand_end(event: &Event) -> Option<Event> {
    let tag = || event.subagent_run_id().map(str::to_owned);
    Some(match event {
        Event::TextMessageStart(start) => {
            TextMessageEnd { subagent_run_id: tag(), ..TextMessageEnd::new(start.message_id.as_str()) }.into()
        }
        Event::ToolCallStart(start) => {
            ToolCallEnd { subagent_run_id: tag(), ..ToolCallEnd::new(start.tool_call_id.as_str()) }.into()
        }
        Event::ReasoningMessageStart(start) => {
            ReasoningMessageEnd { subagent_run_id: tag(), ..ReasoningMessageEnd::new(start.message_id.as_str()) }.into()
        }
        _ => return None,
    })
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::TextMessageEnd(_) | Event::ToolCallEnd(_) | Event::ReasoningMessageEnd(_))
}

/// The end of an item without its tag, where it has one.
fn untagged(end: &Event) -> Option<Event> {
    let mut end = end.clone();
    let tag = match &mut end {
        Event::TextMessageEnd(end) => &mut end.subagent_run_id,
        Event::ToolCallEnd(end) => &mut end.subagent_run_id,
        Event::ReasoningMessageEnd(end) => &mut end.subagent_run_id,
        Event::ReasoningEnd(end) => &mut end.subagent_run_id,
        _ => return None,
    };
    tag.take()?;
    Some(end)
}
