//! What a thread waits for once a run has ended: the interrupts to be answered, and the tool calls that the application
//! has to dispose of (patterns/interrupt-resume; events/tool-calls, "Frontend tools").

use std::collections::{HashMap, HashSet};

use crate::event::Event;
use crate::events::{RunFinished, RunStarted, ToolCallStart};
use crate::input::{RunAgentInput, Tool};
use crate::message::{Message, ToolCall};
use crate::outcome::{Interrupt, RunFinishedOutcome};

/// A tool call that a run left without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingToolCall {
    /// The call; the tool message that answers it carries this id.
    pub id: String,
    /// The tool. Empty when the run's outcome names a call that was never seen to start.
    pub name: String,
    /// The arguments as the model wrote them: complete, but neither checked nor to be trusted.
    pub arguments: String,
    /// Whether the tool is one that the application offered to the run; `None` when it is not known what was offered. A
    /// call of a tool that was not offered should not be executed like one that was (events/tool-calls, "Security
    /// Considerations").
    pub advertised: Option<bool>,
    /// Whether the run itself named the call in its `pendingToolCallIds`. Otherwise it is derived from the stream.
    pub named: bool,
    /// The interrupt that asks for approval of this call. Then the answer is a resume entry, and executing is not the
    /// application's business.
    pub interrupt_id: Option<String>,
}

/// What waits on a thread.
///
/// It is fed with the events of the thread's streams, verified and chunks expanded ([`Pending::apply`]), and nothing
/// waits while a run is open, nor after one that was cancelled, failed or truncated. Messages play no part in it but as
/// answers, so a `MESSAGES_SNAPSHOT` that drops or restates the message of a call makes no difference. After a reload it
/// is restored from the messages ([`Pending::from_messages`]).
///
/// ```
/// use runwire_agui::{Event, Pending, RunFinished, RunStarted, ToolCallEnd, ToolCallStart};
///
/// let mut pending = Pending::new();
/// for event in [
///     Event::RunStarted(RunStarted::new("thread", "run")),
///     Event::ToolCallStart(ToolCallStart::new("call", "pick_colour")),
///     Event::ToolCallEnd(ToolCallEnd::new("call")),
///     Event::RunFinished(RunFinished::new("thread", "run")),
/// ] {
///     pending.apply(&event);
/// }
/// assert_eq!(pending.tool_calls()[0].name, "pick_colour");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pending {
    thread_id: Option<String>,
    /// The names of the tools that the application offered, as far as that is known.
    offered: Option<HashSet<String>>,
    /// The calls of the run that is open or ended last, in the order they were made.
    started: Vec<PendingToolCall>,
    by_id: HashMap<String, usize>,
    answered: HashSet<String>,
    interrupts: Vec<Interrupt>,
    tool_calls: Vec<PendingToolCall>,
    /// Interrupts that may be answered once more, because the run that got the answers did not come to its end.
    answerable: Vec<Interrupt>,
}

impl Pending {
    /// Nothing waits, and nothing is known of the thread.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing waits; the run that this input asks for is offered the input's tools.
    #[must_use]
    pub fn for_input(input: &RunAgentInput) -> Self {
        Self { thread_id: Some(input.thread_id.clone()), offered: Some(names(input.tools())), ..Self::default() }
    }

    /// What waits after a reload, as far as messages tell: the tool calls without a result that were made since the user
    /// last spoke. `tools` are those that the application offers. Messages do not hold interrupts; those that the
    /// application has kept are put back with [`Pending::with_interrupts`].
    #[must_use]
    pub fn from_messages<'a>(messages: impl IntoIterator<Item = &'a Message>, tools: &[Tool]) -> Self {
        let mut pending = Self { offered: Some(names(tools)), ..Self::default() };
        for message in messages {
            match message {
                Message::User(_) => pending.forget_run(),
                Message::Tool(message) => {
                    pending.answered.insert(message.tool_call_id.clone());
                }
                message => message.tool_calls().iter().for_each(|call| pending.restore(call)),
            }
        }
        pending.tool_calls = pending.unanswered();
        pending
    }

    /// Puts interrupts back that the last run of the thread ended with.
    #[must_use]
    pub fn with_interrupts(mut self, interrupts: Vec<Interrupt>) -> Self {
        self.interrupts = interrupts;
        self.tie_calls_to_interrupts();
        self
    }

    /// Says which thread this is about, where no event has. What is sent on another thread is not held against it.
    #[must_use]
    pub fn on_thread(mut self, thread_id: impl Into<String>) -> Self {
        self.thread_id = Some(thread_id.into());
        self
    }

    /// Takes the next event of a stream. Costs what the event is large.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::RunStarted(started) => self.run_started(started),
            Event::ToolCallStart(start) => self.tool_call_started(start),
            Event::ToolCallArgs(args) => {
                if let Some(&place) = self.by_id.get(&args.tool_call_id) {
                    self.started[place].arguments.push_str(&args.delta);
                }
            }
            Event::ToolCallResult(result) => {
                self.answered.insert(result.tool_call_id.clone());
            }
            // Only what answers a call of this run is of interest, and not all of a long history.
            Event::MessagesSnapshot(snapshot) => {
                for message in &snapshot.messages {
                    if let Message::Tool(message) = message
                        && self.by_id.contains_key(&message.tool_call_id)
                    {
                        self.answered.insert(message.tool_call_id.clone());
                    }
                }
            }
            Event::RunFinished(finished) => self.run_finished(finished),
            // Also one that surfaces after RUN_FINISHED: the run failed, and a failed run waits for nothing.
            Event::RunError(_) => {
                self.interrupts.clear();
                self.tool_calls.clear();
            }
            _ => {}
        }
    }

    /// The thread that this is about, when an event or an input has said.
    #[must_use]
    pub fn thread_id(&self) -> Option<&str> {
        self.thread_id.as_deref()
    }

    /// The interrupts that the next run has to answer, every one of them.
    #[must_use]
    pub fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    /// The tool calls that the last run left without a result, in the order they were made.
    #[must_use]
    pub fn tool_calls(&self) -> &[PendingToolCall] {
        &self.tool_calls
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.interrupts.is_empty() && self.tool_calls.is_empty()
    }

    /// The interrupts that an entry may name: those that wait, or else those of the run that the last one continued
    /// without coming to its end.
    pub(crate) fn answerable(&self) -> &[Interrupt] {
        if self.interrupts.is_empty() { &self.answerable } else { &self.interrupts }
    }

    /// Whether the tool is one that the application offered, as far as is known.
    fn is_offered(&self, tool: &str) -> Option<bool> {
        self.offered.as_ref().map(|offered| offered.contains(tool))
    }

    fn run_started(&mut self, started: &RunStarted) {
        self.thread_id = Some(started.thread_id.clone());
        if let Some(input) = &started.input {
            self.offered = Some(names(input.tools()));
        }
        if !self.interrupts.is_empty() {
            self.answerable = std::mem::take(&mut self.interrupts);
        }
        self.tool_calls.clear();
        self.forget_run();
    }

    fn tool_call_started(&mut self, start: &ToolCallStart) {
        // A call that is reopened continues, and its arguments append (events/tool-calls).
        if !self.by_id.contains_key(&start.tool_call_id) {
            self.remember(start.tool_call_id.clone(), start.tool_call_name.clone(), String::new());
        }
    }

    fn run_finished(&mut self, finished: &RunFinished) {
        self.answerable.clear();
        match &finished.outcome {
            None => self.tool_calls = self.unanswered(),
            Some(RunFinishedOutcome::Success { pending_tool_call_ids }) => {
                // An empty list names none, and does not say that there are none.
                self.tool_calls = match pending_tool_call_ids.as_deref() {
                    None | Some([]) => self.unanswered(),
                    Some(ids) => ids.iter().map(|id| self.named(id)).collect(),
                };
            }
            Some(RunFinishedOutcome::Interrupt { interrupts }) => {
                self.tool_calls = self.unanswered();
                self.interrupts.clone_from(interrupts);
                self.tie_calls_to_interrupts();
            }
            Some(RunFinishedOutcome::Cancelled) => {}
        }
    }

    fn restore(&mut self, call: &ToolCall) {
        if !self.by_id.contains_key(&call.id) {
            self.remember(call.id.clone(), call.function.name.clone(), call.function.arguments.clone());
        }
    }

    fn remember(&mut self, id: String, name: String, arguments: String) {
        self.by_id.insert(id.clone(), self.started.len());
        let advertised = self.is_offered(&name);
        self.started.push(PendingToolCall { id, name, arguments, advertised, named: false, interrupt_id: None });
    }

    fn forget_run(&mut self) {
        self.started.clear();
        self.by_id.clear();
        self.answered.clear();
    }

    fn unanswered(&self) -> Vec<PendingToolCall> {
        self.started.iter().filter(|call| !self.answered.contains(&call.id)).cloned().collect()
    }

    fn named(&self, id: &str) -> PendingToolCall {
        let call = match self.by_id.get(id) {
            Some(&place) => self.started[place].clone(),
            None => PendingToolCall {
                id: id.to_owned(),
                name: String::new(),
                arguments: String::new(),
                advertised: None,
                named: true,
                interrupt_id: None,
            },
        };
        PendingToolCall { named: true, ..call }
    }

    fn tie_calls_to_interrupts(&mut self) {
        for call in &mut self.tool_calls {
            let asking = self.interrupts.iter().find(|interrupt| interrupt.tool_call_id.as_ref() == Some(&call.id));
            call.interrupt_id = asking.map(|interrupt| interrupt.id.clone());
        }
    }
}

fn names(tools: &[Tool]) -> HashSet<String> {
    tools.iter().map(|tool| tool.name.clone()).collect()
}
