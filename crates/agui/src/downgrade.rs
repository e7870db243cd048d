//! What a peer from before 1.0 cannot take, and what it is sent in its place (basic/versioning, "Downgrading").
//!
//! Such a peer checks every event and fails the whole run over one that it does not know. What is reshaped here is
//! exactly what `@ag-ui/client` 0.0.59 rejects, and nothing else: it takes subagents, `null` states, token usage and most
//! content parts as they are.
//!
//! Nothing is invented and no order changed. A run that was stopped is never shown as a success.

use crate::event::Event;
use crate::events::{RunError, RunFinished, RunStarted};
use crate::message::{Content, ContentPart, MediaPart, Message, PartSource};
use crate::one_line::sentence;
use crate::outcome::RunFinishedOutcome;
use crate::warning::MOST_WARNINGS;

/// The code of the `RUN_ERROR` that a stopped run ends with, for a peer that does not know the `cancelled` outcome.
pub const CANCELLED_CODE: &str = "CANCELLED";

/// The same for [`Peer::CopilotKit`], whose clients show every other `RUN_ERROR` to their user as a failure.
pub const COPILOTKIT_CANCELLED_CODE: &str = "abort";

/// Whom events are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Peer {
    /// A peer that speaks AG-UI 1.0 or newer, or nobody in particular.
    #[default]
    Current,
    /// A peer from before 1.0.
    PreV1,
    /// CopilotKit's client, which is from before 1.0 as well, and which takes one code of `RUN_ERROR` for a run that was
    /// stopped and did not fail.
    CopilotKit,
}

/// Reshapes a stream for a peer from before 1.0, event by event.
///
/// | what is sent | what the peer gets |
/// | --- | --- |
/// | `RUN_FINISHED` with the `cancelled` outcome | `RUN_ERROR` with the code [`CANCELLED_CODE`], or [`COPILOTKIT_CANCELLED_CODE`] |
/// | `pendingToolCallIds` | the outcome without them; they can be derived from the stream |
/// | content parts in `TOOL_CALL_RESULT`, or in a tool message of a list | their text, joined |
/// | a part with a `file` source in a user message of a list | the message without it |
/// | an input echo without `tools` or `context` | the same with empty lists |
///
/// All but the last lose something, and are said in a sentence that [`Downgrade::take_warnings`] gives.
#[derive(Clone, Debug, Default)]
pub struct Downgrade {
    /// Whether the last ending was told as a failure that it was not: then no second failure can follow it.
    stopped: bool,
    /// Whether the peer is [`Peer::CopilotKit`].
    copilotkit: bool,
    warnings: Vec<String>,
    /// How many more there are, since they were taken last.
    left_out: usize,
}

impl Downgrade {
    /// The downgrade that this peer needs; `None` when it takes everything.
    #[must_use]
    pub fn for_peer(peer: Peer) -> Option<Self> {
        match peer {
            Peer::Current => None,
            Peer::PreV1 => Some(Self::default()),
            Peer::CopilotKit => Some(Self { copilotkit: true, ..Self::default() }),
        }
    }

    /// What was lost since the last call, one sentence each, for a developer to read: at most [`MOST_WARNINGS`], and one that
    /// says how many more there are. Each is one line of at most 4096 bytes, whatever the stream holds.
    pub fn take_warnings(&mut self) -> Vec<String> {
        let mut warnings = std::mem::take(&mut self.warnings);
        match std::mem::take(&mut self.left_out) {
            0 => {}
            left_out => warnings.push(format!("so much more was lost of the same: {left_out}")),
        }
        warnings
    }

    /// Reshapes events that are sent together, in order. Most come back as they were.
    ///
    /// A failure that surfaces after a run was stopped is the run's ending where both are here. Where the first has been
    /// sent already, the second cannot be: after `RUN_ERROR` only `RUN_STARTED` may come.
    #[must_use]
    pub fn apply(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut out = Vec::with_capacity(events.len());
        let mut events = events.into_iter().peekable();
        while let Some(event) = events.next() {
            match event {
                Event::RunFinished(finished) if finished.outcome == Some(RunFinishedOutcome::Cancelled) => {
                    if matches!(events.peek(), Some(Event::RunError(_))) {
                        self.warn(
                            "the cancelled outcome before a late failure was left out; the failure alone was told",
                        );
                        continue;
                    }
                    self.stopped = true;
                    out.push(self.stopped_run(finished));
                }
                Event::RunError(error) if self.stopped => self.warn(format!(
                    "the late failure {:?} of a run that had been stopped was left out, because the stop was told as \
                     RUN_ERROR, and no second one may follow",
                    error.message
                )),
                event => {
                    self.stopped = false;
                    out.push(self.reshaped(event));
                }
            }
        }
        out
    }

    fn warn(&mut self, what: impl std::fmt::Display) {
        if self.warnings.len() == MOST_WARNINGS {
            self.left_out += 1;
            return;
        }
        self.warnings.push(sentence(format!("{what}: the peer predates AG-UI 1.0, an upgrade of it avoids this")));
    }

    fn stopped_run(&mut self, finished: RunFinished) -> Event {
        let RunFinished { result, usage, timestamp, raw_event, metadata, .. } = finished;
        let without = if result.is_some() { ", without its result" } else { "" };
        let code = if self.copilotkit { COPILOTKIT_CANCELLED_CODE } else { CANCELLED_CODE };
        self.warn(format!("the cancelled outcome was told as RUN_ERROR with code {code}{without}"));
        let code = Some(code.to_owned());
        RunError { code, usage, timestamp, raw_event, metadata, ..RunError::new("the run was cancelled") }.into()
    }

    fn reshaped(&mut self, event: Event) -> Event {
        match event {
            Event::RunStarted(started) => self.run_started(started).into(),
            Event::RunFinished(mut finished) => {
                if let Some(RunFinishedOutcome::Success { pending_tool_call_ids }) = &mut finished.outcome
                    && pending_tool_call_ids.take().is_some()
                {
                    self.warn("pendingToolCallIds were left out of the success outcome");
                }
                finished.into()
            }
            Event::ToolCallResult(mut result) => {
                let what = format!("the result of tool call `{}`", result.tool_call_id);
                self.flatten(&mut result.content, &what);
                result.into()
            }
            Event::MessagesSnapshot(mut snapshot) => {
                self.messages(&mut snapshot.messages);
                snapshot.into()
            }
            event => event,
        }
    }

    fn run_started(&mut self, mut started: RunStarted) -> RunStarted {
        if let Some(input) = &mut started.input {
            // The lists were required before 1.0, and absent means the same as empty.
            input.tools.get_or_insert_default();
            input.context.get_or_insert_default();
            self.messages(&mut input.messages);
        }
        started
    }

    fn messages(&mut self, messages: &mut [Message]) {
        for message in messages {
            match message {
                Message::Tool(message) => {
                    let what = format!("the tool message `{}`", message.id);
                    self.flatten(&mut message.content, &what);
                }
                Message::User(message) => {
                    let Content::Parts(parts) = &mut message.content else { continue };
                    let before = parts.len();
                    parts.retain(|part| !is_file(part));
                    let lost = before - parts.len();
                    if lost > 0 {
                        let files = if lost == 1 { "part that is a file" } else { "parts that are files" };
                        self.warn(format!(
                            "the user message `{}` was sent without {lost} {files} at a provider",
                            message.id
                        ));
                    }
                }
                _ => {}
            }
        }
    }

    /// A list of parts as its text, for a peer that can only hold text.
    fn flatten(&mut self, content: &mut Content, what: &str) {
        let Content::Parts(parts) = &*content else { return };
        let lost = parts.iter().filter(|part| !matches!(part, ContentPart::Text(_))).count();
        let noted = parts.iter().any(|part| matches!(part, ContentPart::Text(text) if text.metadata.is_some()));
        let notes = if noted { " and without the metadata of its text" } else { "" };
        self.warn(format!("{what} was flattened to its text, without {lost} other parts{notes}"));
        *content = Content::Text(content.text());
    }
}

fn is_file(part: &ContentPart) -> bool {
    match part {
        ContentPart::Text(_) => false,
        ContentPart::Image(MediaPart { source, .. })
        | ContentPart::Audio(MediaPart { source, .. })
        | ContentPart::Video(MediaPart { source, .. })
        | ContentPart::Document(MediaPart { source, .. }) => matches!(source, PartSource::File(_)),
    }
}
