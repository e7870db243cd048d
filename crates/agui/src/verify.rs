//! Verification: the order in which events may come.
//!
//! The rules are those of events/lifecycle, patterns/streaming, events/reasoning and events/subagents. Every event costs
//! a constant number of look-ups, however long the stream and however much is open.

use hashbrown::{HashMap, HashSet};

use crate::ending::{Ending, RunEnding, RunRecord, Truncation};
use crate::event::{Event, EventType};
use crate::events::{ReasoningEncryptedValueSubtype, RunFinished, RunStarted, SubagentStarted};
use crate::items::{Items, Owner, REASONING, SPAN, TEXT, TOOL_CALL, agrees, close, continues, named, open};
use crate::message::Message;
use crate::outcome::RunFinishedOutcome;
use crate::part::ItemKind;
use crate::violation::{Rule, Violation};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fresh,
    Active,
    Finished,
    Errored,
}

/// Checks a stream of events, chunks expanded, against the rules of order.
///
/// It is the same book for both sides: a consumer rejects what it refuses, and a producer that sends only what it
/// accepts is never rejected for its order.
#[derive(Debug)]
pub struct Verifier {
    index: usize,
    phase: Phase,
    thread: Option<String>,
    runs: Vec<RunRecord>,
    texts: Items,
    tool_calls: Items,
    reasoning: Items,
    spans: Items,
    activities: HashMap<String, Owner>,
    steps: HashSet<(Owner, String)>,
    /// Announced subagents, and whether each is still active.
    subagents: HashMap<String, bool>,
    /// Invocations that events were attributed to.
    attributed: HashSet<String>,
    /// Tool calls that the run started, in order and as a set, and which were answered.
    started_calls: Vec<String>,
    known_calls: HashSet<String>,
    answered_calls: HashSet<String>,
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Verifier {
    /// A verifier for a stream of any thread: the first run decides which.
    #[must_use]
    pub fn new() -> Self {
        Self {
            index: 0,
            phase: Phase::Fresh,
            thread: None,
            runs: Vec::new(),
            texts: Items::default(),
            tool_calls: Items::default(),
            reasoning: Items::default(),
            spans: Items::default(),
            activities: HashMap::new(),
            steps: HashSet::new(),
            subagents: HashMap::new(),
            attributed: HashSet::new(),
            started_calls: Vec::new(),
            known_calls: HashSet::new(),
            answered_calls: HashSet::new(),
        }
    }

    /// A verifier for the answer to an input of that thread.
    #[must_use]
    pub fn for_thread(thread_id: impl Into<String>) -> Self {
        Self { thread: Some(thread_id.into()), ..Self::new() }
    }

    /// Takes the next event.
    ///
    /// # Errors
    ///
    /// The rule that the event breaks. The stream is rejected then; later events are judged from the state before it.
    pub fn push(&mut self, event: &Event) -> Result<(), Violation> {
        let result = self.judge(event);
        self.index += 1;
        result
    }

    /// Takes an event that continues or closes an item, if it evidently may; else nothing happens, and `false` is told:
    /// [`Verifier::push`] judges it then.
    pub(crate) fn goes_on(&mut self, kind: ItemKind, id: &str, tag: Option<&str>, closes: bool) -> bool {
        if self.phase != Phase::Active || tag.is_some_and(|tag| !self.attributed.contains(tag)) {
            return false;
        }
        let items = match kind {
            ItemKind::Text => &mut self.texts,
            ItemKind::ToolCall => &mut self.tool_calls,
            ItemKind::Reasoning => &mut self.reasoning,
        };
        let may = items.goes_on(id, tag, closes);
        self.index += usize::from(may);
        may
    }

    /// Takes an event that is right wherever a run is open, and changes nothing here; else nothing happens, and `false` is
    /// told.
    pub(crate) fn pass_within_run(&mut self) -> bool {
        let may = self.phase == Phase::Active;
        self.index += usize::from(may);
        may
    }

    /// What the stream has come to, if no more events follow.
    #[must_use]
    pub fn finish(&self) -> Ending {
        match (self.phase, self.runs.last()) {
            (Phase::Active, Some(RunRecord { thread_id: Some(thread_id), run_id: Some(run_id), .. })) => {
                Ending::Truncated(Truncation::RunOpen { thread_id: thread_id.clone(), run_id: run_id.clone() })
            }
            (Phase::Fresh, _) => Ending::Truncated(Truncation::NoEvents),
            _ => Ending::Closed,
        }
    }

    /// The runs of the stream so far, in order.
    #[must_use]
    pub fn runs(&self) -> &[RunRecord] {
        &self.runs
    }

    /// Whether a run is open.
    #[must_use]
    pub fn run_is_open(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The tool calls that the current or last run started and did not answer, in the order they were made
    /// (events/tool-calls, "Frontend tools").
    pub fn pending_tool_calls(&self) -> impl Iterator<Item = &str> {
        self.started_calls.iter().map(String::as_str).filter(|call| !self.answered_calls.contains(*call))
    }

    /// Which subagent owns the item; `None` for the parent agent's, and for what is not on record.
    #[cfg(test)]
    pub(crate) fn owner_of(&self, kind: ItemKind, id: &str) -> Option<&str> {
        let items = match kind {
            ItemKind::Text => &self.texts,
            ItemKind::ToolCall => &self.tool_calls,
            ItemKind::Reasoning => &self.reasoning,
        };
        items.owner(id)?.as_deref()
    }

    fn judge(&mut self, event: &Event) -> Result<(), Violation> {
        self.judge_place(event)?;
        if let Event::RunStarted(event) = event {
            return self.run_started(event);
        }
        if let Event::RunError(event) = event {
            let ending = RunEnding::Failed { message: event.message.clone(), code: event.code.clone() };
            match self.runs.last_mut() {
                Some(run) => run.ending = ending,
                None => self.runs.push(RunRecord { thread_id: None, run_id: None, ending }),
            }
            self.phase = Phase::Errored;
            return Ok(());
        }
        self.judge_within_run(event)?;
        if let (Some(subagent), false) = (event.subagent_run_id(), is_subagent_lifecycle(event))
            && !self.attributed.contains(subagent)
        {
            self.attributed.insert(subagent.to_owned());
        }
        Ok(())
    }

    /// Where in the stream the event may stand at all.
    fn judge_place(&self, event: &Event) -> Result<(), Violation> {
        let event_type = event.event_type();
        match (self.phase, event_type) {
            (Phase::Fresh, EventType::RunStarted | EventType::RunError) => Ok(()),
            (Phase::Fresh, _) => Err(self.violation(
                Rule::FirstEvent,
                format!("The stream begins with {event_type}; it must begin with RUN_STARTED or RUN_ERROR."),
            )),
            (Phase::Active, EventType::RunStarted) => Err(self.violation(
                Rule::NestedRunStarted,
                format!(
                    "RUN_STARTED came while run '{}' is open; the run must be closed with RUN_FINISHED or RUN_ERROR \
                     first.",
                    self.current_run()
                ),
            )),
            (Phase::Active, _) | (_, EventType::RunStarted) | (Phase::Finished, EventType::RunError) => Ok(()),
            (Phase::Finished, _) => Err(self.violation(
                Rule::EventAfterFinish,
                format!(
                    "{event_type} came after RUN_FINISHED closed run '{}'; only RUN_STARTED or RUN_ERROR may follow.",
                    self.current_run()
                ),
            )),
            (Phase::Errored, _) => Err(self.violation(
                Rule::EventAfterError,
                format!("{event_type} came after RUN_ERROR; only RUN_STARTED may follow."),
            )),
        }
    }

    fn judge_within_run(&mut self, event: &Event) -> Result<(), Violation> {
        let index = self.index;
        let event_type = event.event_type();
        let tag = event.subagent_run_id();
        match event {
            Event::TextMessageStart(start) => {
                open(&mut self.texts, &TEXT, event_type, &start.message_id, tag, None, index)
            }
            Event::TextMessageContent(content) => {
                continues(&mut self.texts, &TEXT, event_type, &content.message_id, tag, index)
            }
            Event::TextMessageEnd(end) => close(&mut self.texts, &TEXT, event_type, &end.message_id, tag, index),
            Event::ToolCallStart(start) => {
                let parent = start.parent_message_id.as_deref();
                let inherited = match parent.and_then(|parent| self.texts.owner(parent)) {
                    Some(owner) => {
                        let parent = parent.unwrap_or_default();
                        agrees(Some(owner), tag, event_type, "parent message", parent, index)?;
                        Some(owner.clone())
                    }
                    None => None,
                };
                // A message that nothing opened is made by its first call, and is its owner's.
                if inherited.is_none()
                    && let (Some(parent), Some(tag)) = (parent, tag)
                {
                    self.texts.set_owner(parent, Some(tag.to_owned()));
                }
                open(&mut self.tool_calls, &TOOL_CALL, event_type, &start.tool_call_id, tag, inherited, index)?;
                if self.known_calls.insert(start.tool_call_id.clone()) {
                    self.started_calls.push(start.tool_call_id.clone());
                }
                Ok(())
            }
            Event::ToolCallArgs(args) => {
                continues(&mut self.tool_calls, &TOOL_CALL, event_type, &args.tool_call_id, tag, index)
            }
            Event::ToolCallEnd(end) => {
                close(&mut self.tool_calls, &TOOL_CALL, event_type, &end.tool_call_id, tag, index)
            }
            Event::ToolCallResult(result) => {
                self.answered_calls.insert(result.tool_call_id.clone());
                self.texts.set_owner(&result.message_id, tag.map(str::to_owned));
                Ok(())
            }
            Event::ReasoningStart(start) => {
                open(&mut self.spans, &SPAN, event_type, &start.message_id, tag, None, index)
            }
            Event::ReasoningEnd(end) => close(&mut self.spans, &SPAN, event_type, &end.message_id, tag, index),
            Event::ReasoningMessageStart(start) => {
                open(&mut self.reasoning, &REASONING, event_type, &start.message_id, tag, None, index)
            }
            Event::ReasoningMessageContent(content) => {
                continues(&mut self.reasoning, &REASONING, event_type, &content.message_id, tag, index)
            }
            Event::ReasoningMessageEnd(end) => {
                close(&mut self.reasoning, &REASONING, event_type, &end.message_id, tag, index)
            }
            Event::ReasoningEncryptedValue(value) => {
                let (noun, owner) = match value.subtype {
                    ReasoningEncryptedValueSubtype::ToolCall => ("tool call", self.tool_calls.owner(&value.entity_id)),
                    ReasoningEncryptedValueSubtype::Message => (
                        "message",
                        self.texts.owner(&value.entity_id).or_else(|| self.reasoning.owner(&value.entity_id)),
                    ),
                };
                agrees(owner, tag, event_type, noun, &value.entity_id, index)
            }
            Event::ActivitySnapshot(snapshot) => {
                // A replacing snapshot makes the activity anew, its owner included.
                if snapshot.replace != Some(false) || !self.activities.contains_key(&snapshot.message_id) {
                    self.activities.insert(snapshot.message_id.clone(), tag.map(str::to_owned));
                }
                Ok(())
            }
            Event::ActivityDelta(delta) => {
                let owner = self.activities.get(&delta.message_id);
                agrees(owner, tag, event_type, "activity", &delta.message_id, index)
            }
            Event::StepStarted(step) => {
                if self.steps.insert((tag.map(str::to_owned), step.step_name.clone())) {
                    return Ok(());
                }
                let message = format!(
                    "STEP_STARTED opens step '{}' of {}, which is open already; it must be closed with STEP_FINISHED \
                     first.",
                    step.step_name,
                    named(tag)
                );
                Err(self.violation(Rule::StepAlreadyOpen, message))
            }
            Event::StepFinished(step) => {
                if self.steps.remove(&(tag.map(str::to_owned), step.step_name.clone())) {
                    return Ok(());
                }
                let message = format!(
                    "STEP_FINISHED closes step '{}' of {}, which is not open; a step is opened by STEP_STARTED and \
                     closed by the same owner.",
                    step.step_name,
                    named(tag)
                );
                Err(self.violation(Rule::StepNotOpen, message))
            }
            Event::SubagentStarted(started) => self.subagent_started(started),
            Event::SubagentFinished(finished) => self.subagent_ended(event_type, &finished.subagent_run_id),
            Event::SubagentError(error) => self.subagent_ended(event_type, &error.subagent_run_id),
            Event::MessagesSnapshot(snapshot) => {
                // The snapshot says who owns each message that it holds.
                self.adopt_owners(&snapshot.messages, true);
                Ok(())
            }
            Event::RunFinished(finished) => self.run_finished(finished),
            Event::TextMessageChunk(_) | Event::ToolCallChunk(_) | Event::ReasoningMessageChunk(_) => {
                let message = format!("{event_type} must be expanded before verification.");
                Err(self.violation(Rule::UnexpandedChunk, message))
            }
            Event::RunStarted(_)
            | Event::RunError(_)
            | Event::StateSnapshot(_)
            | Event::StateDelta(_)
            | Event::Raw(_)
            | Event::Custom(_) => Ok(()),
        }
    }

    fn run_started(&mut self, event: &RunStarted) -> Result<(), Violation> {
        match &self.thread {
            Some(thread) if *thread != event.thread_id => {
                return Err(self.violation(
                    Rule::ForeignThread,
                    format!(
                        "RUN_STARTED opens run '{}' on thread '{}', but every run of this stream carries the input's \
                         threadId, '{thread}'.",
                        event.run_id, event.thread_id
                    ),
                ));
            }
            Some(_) => {}
            None => self.thread = Some(event.thread_id.clone()),
        }
        self.texts.clear();
        self.tool_calls.clear();
        self.reasoning.clear();
        self.spans.clear();
        self.activities.clear();
        self.steps.clear();
        self.subagents.clear();
        self.attributed.clear();
        self.started_calls.clear();
        self.known_calls.clear();
        self.answered_calls.clear();
        self.phase = Phase::Active;
        self.runs.push(RunRecord {
            thread_id: Some(event.thread_id.clone()),
            run_id: Some(event.run_id.clone()),
            ending: RunEnding::Truncated,
        });
        if let Some(input) = &event.input {
            self.adopt_owners(&input.messages, false);
        }
        Ok(())
    }

    fn run_finished(&mut self, event: &RunFinished) -> Result<(), Violation> {
        let run = self.runs.last().expect("a run is open, and an open run is on record");
        if run.run_id.as_deref() != Some(&event.run_id) {
            return Err(self.violation(
                Rule::RunIdMismatch,
                format!(
                    "RUN_FINISHED names run '{}', but RUN_STARTED opened run '{}'; the two must agree on their runId.",
                    event.run_id,
                    self.current_run()
                ),
            ));
        }
        if run.thread_id.as_deref() != Some(&event.thread_id) {
            return Err(self.violation(
                Rule::ThreadIdMismatch,
                format!(
                    "RUN_FINISHED names thread '{}', but the run was opened on thread '{}'; both must carry the \
                     input's threadId.",
                    event.thread_id,
                    run.thread_id.as_deref().unwrap_or_default()
                ),
            ));
        }
        self.nothing_is_open()?;
        self.judge_outcome(event.outcome.as_ref())?;
        let ending = match event.outcome {
            None | Some(RunFinishedOutcome::Success { .. }) => RunEnding::Success,
            Some(RunFinishedOutcome::Interrupt { .. }) => RunEnding::Interrupt,
            Some(RunFinishedOutcome::Cancelled) => RunEnding::Cancelled,
        };
        self.runs.last_mut().expect("a run is open, and an open run is on record").ending = ending;
        self.phase = Phase::Finished;
        Ok(())
    }

    fn nothing_is_open(&self) -> Result<(), Violation> {
        let steps = self.steps.iter().map(|(owner, name)| format!("'{name}' of {}", named(owner.as_deref()))).collect();
        let quoted = |items: &Items| items.open_ids().map(|id| format!("'{id}'")).collect();
        let subagents = self.subagents.iter().filter(|(_, active)| **active).map(|(id, _)| format!("'{id}'")).collect();
        let kinds: [(Rule, &str, Vec<String>); 6] = [
            (Rule::StepOpenAtFinish, "steps", steps),
            (Rule::TextMessageOpenAtFinish, "text messages", quoted(&self.texts)),
            (Rule::ToolCallOpenAtFinish, "tool calls", quoted(&self.tool_calls)),
            (Rule::ReasoningMessageOpenAtFinish, "reasoning messages", quoted(&self.reasoning)),
            (Rule::ReasoningSpanOpenAtFinish, "reasoning spans", quoted(&self.spans)),
            (Rule::SubagentOpenAtFinish, "subagents", subagents),
        ];
        for (rule, noun, mut open) in kinds {
            if !open.is_empty() {
                open.sort_unstable();
                let message = format!(
                    "RUN_FINISHED came while {noun} are still open: {}; everything a run opens must be closed first.",
                    open.join(", ")
                );
                return Err(self.violation(rule, message));
            }
        }
        Ok(())
    }

    pub(crate) fn judge_outcome(&self, outcome: Option<&RunFinishedOutcome>) -> Result<(), Violation> {
        match outcome {
            Some(RunFinishedOutcome::Interrupt { interrupts }) => {
                if interrupts.is_empty() {
                    let message = "RUN_FINISHED carries an interrupt outcome without an interrupt; at least one says \
                                   what the run waits for.";
                    return Err(self.violation(Rule::NoInterrupts, message.to_owned()));
                }
                let mut ids = HashSet::new();
                match interrupts.iter().find(|interrupt| !ids.insert(interrupt.id.as_str())) {
                    Some(interrupt) => Err(self.violation(
                        Rule::DuplicateInterruptId,
                        format!(
                            "RUN_FINISHED has two interrupts carrying the id '{}'; an answer names its interrupt by \
                             the id.",
                            interrupt.id
                        ),
                    )),
                    None => Ok(()),
                }
            }
            Some(RunFinishedOutcome::Success { pending_tool_call_ids: Some(named) }) if !named.is_empty() => {
                let mut pending: Vec<&str> = self.pending_tool_calls().collect();
                let mut listed: Vec<&str> = named.iter().map(String::as_str).collect();
                pending.sort_unstable();
                listed.sort_unstable();
                if pending == listed {
                    return Ok(());
                }
                Err(self.violation(
                    Rule::PendingToolCalls,
                    format!(
                        "RUN_FINISHED lists the pending tool calls [{}], but the calls that the run started and did \
                         not answer are [{}].",
                        listed.join(", "),
                        pending.join(", ")
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    fn subagent_started(&mut self, event: &SubagentStarted) -> Result<(), Violation> {
        let id = &event.subagent_run_id;
        match self.subagents.get(id) {
            Some(true) => {
                let message = format!(
                    "SUBAGENT_STARTED announces subagent '{id}', which is active; it must be closed with \
                     SUBAGENT_FINISHED or SUBAGENT_ERROR first."
                );
                return Err(self.violation(Rule::SubagentAlreadyActive, message));
            }
            Some(false) => {
                let message = format!(
                    "SUBAGENT_STARTED announces subagent '{id}', which ended in this run; an id is one invocation's \
                     and is not used again."
                );
                return Err(self.violation(Rule::SubagentReused, message));
            }
            None => {}
        }
        if let Some(parent) = &event.parent_subagent_run_id
            && !self.subagents.contains_key(parent)
        {
            let message = format!(
                "SUBAGENT_STARTED names the parent '{parent}' of subagent '{id}', which was not announced in this \
                     run."
            );
            return Err(self.violation(Rule::SubagentParentUnknown, message));
        }
        if self.attributed.contains(id) {
            let message = format!(
                "SUBAGENT_STARTED announces subagent '{id}' after events were attributed to it; the announcement \
                 comes first."
            );
            return Err(self.violation(Rule::SubagentAnnouncedLate, message));
        }
        self.subagents.insert(id.clone(), true);
        Ok(())
    }

    fn subagent_ended(&mut self, event_type: EventType, id: &str) -> Result<(), Violation> {
        match self.subagents.get_mut(id) {
            Some(active) if *active => {
                *active = false;
                Ok(())
            }
            _ => {
                let message = format!(
                    "{event_type} closes subagent '{id}', which is not active; SUBAGENT_STARTED announces it first."
                );
                Err(self.violation(Rule::SubagentNotActive, message))
            }
        }
    }

    /// Puts on record who owns the messages and tool calls of a conversation. A snapshot restates them, so it overrides;
    /// an input echo is history, so it does not.
    fn adopt_owners(&mut self, messages: &[Message], authoritative: bool) {
        for message in messages {
            let owner = || message.subagent_run_id().map(str::to_owned);
            let adopt = |items: &mut Items, id: &str| {
                if authoritative || items.owner(id).is_none() {
                    items.set_owner(id, owner());
                }
            };
            match message {
                Message::Reasoning(_) => adopt(&mut self.reasoning, message.id()),
                Message::Activity(_) => {
                    if authoritative || !self.activities.contains_key(message.id()) {
                        self.activities.insert(message.id().to_owned(), owner());
                    }
                }
                _ => adopt(&mut self.texts, message.id()),
            }
            for call in message.tool_calls() {
                adopt(&mut self.tool_calls, &call.id);
            }
        }
    }

    fn current_run(&self) -> &str {
        self.runs.last().and_then(|run| run.run_id.as_deref()).unwrap_or_default()
    }

    fn violation(&self, rule: Rule, message: String) -> Violation {
        Violation::new(rule, self.index, message)
    }
}

fn is_subagent_lifecycle(event: &Event) -> bool {
    matches!(event, Event::SubagentStarted(_) | Event::SubagentFinished(_) | Event::SubagentError(_))
}
