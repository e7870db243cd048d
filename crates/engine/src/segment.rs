//! Open segments: what a driver writes their content through.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use runwire_agui::ContentPart;
use runwire_bridge::{Agui, Ending, Open, Recorder, ToolOutput, kind};
use runwire_frame::{SegmentId, Timestamp};
use serde::Deserialize as _;

use crate::payloads::ModelCall;
use crate::said::{self, within_depth};
use crate::writer::{RunWriter, WriteError};

/// An open segment: what its content is written through. Dropped without [`Segment::end`], it stays open until the
/// run ends, which closes it.
pub struct Segment<K> {
    writer: RunWriter,
    open: Open<K>,
    /// Of a tool: its arguments are complete. Read and written under the run's lock.
    call_closed: AtomicBool,
    /// Of a tool: arguments that are written when they are whole, because something may have to be taken out of them. Read and
    /// written under the run's lock.
    held: Mutex<String>,
}

impl<K> Segment<K> {
    pub(crate) fn new(writer: RunWriter, open: Open<K>) -> Segment<K> {
        Segment { writer, open, call_closed: AtomicBool::new(false), held: Mutex::default() }
    }

    /// A tool call that an earlier exchange opened.
    pub(crate) fn going_on(writer: RunWriter, open: Open<K>, arguments_complete: bool) -> Segment<K> {
        Segment { writer, open, call_closed: AtomicBool::new(arguments_complete), held: Mutex::default() }
    }

    /// The segment's name within the run.
    pub fn id(&self) -> &SegmentId {
        self.open.id()
    }

    /// The run that it is part of.
    pub fn run(&self) -> &RunWriter {
        &self.writer
    }

    /// Closes the segment.
    ///
    /// # Errors
    /// When the run has ended or the store fails. And [`WriteError::Refused`] for usage that does not add up, and for what
    /// `ending.agui` must not say; then the segment stays open until the run ends.
    pub async fn end(self, mut ending: Ending) -> Result<(), WriteError> {
        if let Some(error) = &mut ending.error {
            error.message = self.writer.payloads().redaction.text(&error.message).into_owned();
        }
        said::ending(&ending)?;
        self.writer.guard_output_ended(self.open.id()).await?;
        let open = self.open;
        self.writer.write(|r, now| r.end(now, open, ending)).await
    }
}

impl Segment<kind::Model> {
    /// Whether the agent keeps what its models are asked and answer: without that [`Segment::keep`] does nothing.
    pub fn keeps(&self) -> bool {
        self.writer.payloads().model_calls
    }

    /// Keeps what the model is asked, and what it has answered, as the segment's payload. What was kept of the call before is
    /// replaced. What the agent's policy takes out is taken out.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn keep(&self, call: ModelCall) -> Result<(), WriteError> {
        if !self.keeps() {
            return Ok(());
        }
        let json = self.writer.payloads().of_call(call);
        self.writer.write(|r, _| r.model_payload(&self.open, json)).await
    }
}

impl<K: kind::TakesText> Segment<K> {
    /// Writes output text.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn text(&self, text: &str) -> Result<(), WriteError> {
        self.writer.guard_output(self.open.id(), text)?;
        self.writer.write(|r, now| r.text(now, &self.open, text, None)).await
    }
}

impl<K: kind::TakesThinking> Segment<K> {
    /// Writes reasoning.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn thinking(&self, text: &str) -> Result<(), WriteError> {
        self.writer.write(|r, now| r.thinking(now, &self.open, text, None)).await
    }
}

impl<K: kind::TakesArguments> Segment<K> {
    /// Writes the next piece of the call's arguments. Where the agent's policy takes something out of arguments they are
    /// written when they are complete.
    ///
    /// # Errors
    /// As [`RunWriter::model`]; and [`WriteError::Refused`] once they are complete, which a result makes them too.
    pub async fn arguments(&self, delta: &str) -> Result<(), WriteError> {
        let written = self.writer.write(|r, now| {
            if self.call_closed.load(Ordering::Relaxed) {
                return Err(WriteError::Refused("the arguments of the tool call are complete already".to_owned()));
            }
            self.writer.guard_arguments(self.open.id(), delta);
            if self.writer.payloads().redaction.holds_arguments() {
                self.held.lock().unwrap_or_else(PoisonError::into_inner).push_str(delta);
            } else {
                r.arguments(now, &self.open, delta, None);
            }
            Ok(())
        });
        written.await?
    }

    /// The call's arguments are complete. Saying so again, or after the result, changes nothing.
    ///
    /// # Errors
    /// As [`RunWriter::model`].
    pub async fn arguments_complete(&self) -> Result<(), WriteError> {
        self.writer.guard_call(self.open.id()).await?;
        let written = self.writer.write(|r, now| {
            if !self.call_closed.swap(true, Ordering::Relaxed) {
                write_held(&self.writer, &self.open, &self.held, r, now);
                r.arguments_complete(now, &self.open, None);
            }
        });
        written.await
    }
}

/// Writes the arguments that were held, without what is taken out.
fn write_held<K: kind::TakesArguments>(
    writer: &RunWriter,
    open: &Open<K>,
    held: &Mutex<String>,
    recorder: &mut Recorder,
    now: Timestamp,
) {
    let whole = std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner));
    if !whole.is_empty() {
        recorder.arguments(now, open, &writer.payloads().redaction.arguments(&whole), None);
    }
}

impl Segment<kind::Tool> {
    /// Writes the tool's result, without what the agent's policy takes out. It completes the call's arguments.
    ///
    /// # Errors
    /// As [`RunWriter::model`]; and [`WriteError::Refused`] for parts that are none of AG-UI's content parts.
    pub async fn result(self, ok: bool, output: &ToolOutput) -> Result<Segment<kind::AnsweredTool>, WriteError> {
        if let ToolOutput::Parts(parts) = output {
            within_depth(parts)?;
            for part in parts {
                ContentPart::deserialize(part).map_err(|e| WriteError::Refused(format!("no content part: {e}")))?;
            }
        }
        self.writer.guard_call(self.open.id()).await?;
        let none: Agui = None;
        let Segment { writer, open, call_closed, held } = self;
        let output = writer.payloads().redaction.output(output);
        let open = writer.write(|r, now| {
            if !call_closed.swap(true, Ordering::Relaxed) {
                write_held(&writer, &open, &held, r, now);
                r.arguments_complete(now, &open, None);
            }
            r.result(now, open, ok, &output, none)
        });
        let open = open.await?;
        Ok(Segment { writer, open, call_closed, held })
    }
}
