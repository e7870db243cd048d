//! What a client makes of a stream, event by event.
//!
//! The order is that of basic/processing: decoding, translation of retired shapes, enforcement, chunk expansion,
//! verification. Three ways of ending badly are kept apart: a *violation* rejects the stream, a *reported failure* is a
//! run that ended with `RUN_ERROR`, and a *truncation* is a run whose ending never came. In all three, everything that
//! was delivered stays delivered.

use serde_json::Value;

use crate::chunks::ChunkExpander;
use crate::decode::{Decoded, decode_frequent, decode_value, parse};
use crate::ending::{Ending, RunRecord, Truncation};
use crate::event::Event;
use crate::input::RunAgentInput;
use crate::outgoing::{AgentVersion, OlderAgent};
use crate::retired::RetiredShapes;
use crate::verify::Verifier;
use crate::version::{Declaration, ProtocolVersion};
use crate::violation::Violation;
use crate::warning::{Warning, WarningRule};

/// What a consumer knows beforehand.
#[derive(Clone, Debug, Default)]
pub struct ConsumerOptions {
    /// The input that the stream answers. Its thread is the only one that the stream may be on.
    pub input: Option<RunAgentInput>,
}

/// A stream that was rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the stream was rejected: {violation}")]
pub struct Rejected {
    /// Events of the same push that came before the violation, to be delivered like all before them.
    pub delivered: Vec<Event>,
    /// What was wrong.
    pub violation: Violation,
}

/// What a stream has come to.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEnd {
    /// Every run has its ending, which may be a reported failure.
    Completed {
        /// The runs, in order.
        runs: Vec<RunRecord>,
    },
    /// The consumer rejected the stream.
    Rejected {
        /// The runs, in order; one that was open has no ending.
        runs: Vec<RunRecord>,
        /// What was wrong.
        violation: Violation,
    },
    /// The stream stopped short: the last run has no outcome, or there is none.
    Truncated {
        /// The runs, in order.
        runs: Vec<RunRecord>,
        /// Where it stopped.
        truncation: Truncation,
    },
}

impl StreamEnd {
    /// The runs of the stream, in order.
    #[must_use]
    pub fn runs(&self) -> &[RunRecord] {
        match self {
            Self::Completed { runs } | Self::Rejected { runs, .. } | Self::Truncated { runs, .. } => runs,
        }
    }
}

/// Consumes one stream.
#[derive(Debug)]
pub struct Consumer {
    index: usize,
    requested: Option<(String, String)>,
    retired: RetiredShapes,
    older: Option<OlderAgent>,
    expander: ChunkExpander,
    verifier: Verifier,
    warnings: Vec<Warning>,
    rejected: Option<Violation>,
}

impl Default for Consumer {
    fn default() -> Self {
        Self::new(ConsumerOptions::default())
    }
}

impl Consumer {
    /// A consumer at the start of a stream.
    #[must_use]
    pub fn new(options: ConsumerOptions) -> Self {
        let requested = options.input.map(|input| (input.thread_id, input.run_id));
        let verifier =
            requested.as_ref().map_or_else(Verifier::new, |(thread_id, _)| Verifier::for_thread(thread_id.as_str()));
        Self {
            index: 0,
            requested,
            retired: RetiredShapes::default(),
            older: None,
            expander: ChunkExpander::new(),
            verifier,
            warnings: Vec::new(),
            rejected: None,
        }
    }

    /// Says that the stream comes from an agent of this version. What an older one cannot mean as 1.0 does is translated,
    /// where middleware stands (basic/versioning, "Downgrading"): an agent of 0.0.57 or before has no subagents.
    #[must_use]
    pub fn of_agent(mut self, version: AgentVersion) -> Self {
        self.older = OlderAgent::of(version);
        self
    }

    /// Takes the JSON of the next event and gives the events to deliver, in order; none, when it was dropped.
    ///
    /// # Errors
    ///
    /// When the stream is rejected. Every later push repeats the violation.
    pub fn push_json(&mut self, json: &[u8]) -> Result<Vec<Event>, Rejected> {
        // What reads strictly and is of a frequent type is none of the retired shapes.
        self.take(|consumer, index| match decode_frequent(json).filter(|_| consumer.older.is_none()) {
            Some(event) => Ok(Decoded { event: Some(event), warnings: Vec::new() }),
            None => consumer.decode(parse(json, index)?, index),
        })
    }

    /// Takes the next event as a parsed JSON value.
    ///
    /// # Errors
    ///
    /// As [`Consumer::push_json`].
    pub fn push_value(&mut self, value: Value) -> Result<Vec<Event>, Rejected> {
        self.take(|consumer, index| consumer.decode(value, index))
    }

    /// Takes the next event from a transport that carries no JSON.
    ///
    /// # Errors
    ///
    /// As [`Consumer::push_json`].
    pub fn push_event(&mut self, event: Event) -> Result<Vec<Event>, Rejected> {
        self.take(|consumer, index| match consumer.older {
            None => Ok(Decoded { event: Some(event), warnings: Vec::new() }),
            Some(_) => consumer.decode(event.to_value(), index),
        })
    }

    /// The warnings since they were taken last, in order.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// The runs so far.
    #[must_use]
    pub fn runs(&self) -> &[RunRecord] {
        self.verifier.runs()
    }

    /// How many events were pushed: the place of the next one.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.index
    }

    /// Ends the stream and says what it has come to. A run that is open stays without an outcome: no event is made up
    /// for it.
    pub fn finish(&mut self) -> StreamEnd {
        let runs = self.verifier.runs().to_vec();
        if let Some(violation) = &self.rejected {
            return StreamEnd::Rejected { runs, violation: violation.clone() };
        }
        match self.verifier.finish() {
            Ending::Truncated(truncation) => StreamEnd::Truncated { runs, truncation },
            Ending::Closed => {
                self.mention_missing_run(&runs);
                StreamEnd::Completed { runs }
            }
        }
    }

    pub(crate) fn take(
        &mut self,
        decode: impl FnOnce(&mut Self, usize) -> Result<Decoded, Violation>,
    ) -> Result<Vec<Event>, Rejected> {
        if let Some(violation) = &self.rejected {
            return Err(Rejected { delivered: Vec::new(), violation: violation.clone() });
        }
        let index = self.index;
        self.index += 1;
        let mut delivered = Vec::new();
        match self.run(decode, index, &mut delivered) {
            Ok(()) => Ok(delivered),
            Err(mut violation) => {
                violation.event = index;
                self.rejected = Some(violation.clone());
                Err(Rejected { delivered, violation })
            }
        }
    }

    fn run(
        &mut self,
        decode: impl FnOnce(&mut Self, usize) -> Result<Decoded, Violation>,
        index: usize,
        delivered: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let Decoded { event, warnings } = decode(self, index)?;
        self.warnings.extend(warnings);
        let Some(event) = event else { return Ok(()) };
        if let Event::RunStarted(started) = &event {
            self.mention_version(started.protocol_version.as_deref(), index);
        }
        for event in self.expander.push(event)? {
            self.verifier.push(&event)?;
            delivered.push(event);
        }
        Ok(())
    }

    fn decode(&mut self, mut value: Value, index: usize) -> Result<Decoded, Violation> {
        let mut warnings = Vec::new();
        self.retired.translate(&mut value, index, &mut warnings);
        if let Some(older) = self.older
            && !older.translate(&mut value, index, &mut warnings)
        {
            return Ok(Decoded { event: None, warnings });
        }
        let decoded = decode_value(value, index)?;
        warnings.extend(decoded.warnings);
        Ok(Decoded { event: decoded.event, warnings })
    }

    fn mention_version(&mut self, declared: Option<&str>, event: usize) {
        let (rule, message) = match Declaration::of(declared) {
            Declaration::Newer(version) => (
                WarningRule::NewerVersion,
                format!(
                    "The producer speaks AG-UI {version}, which is newer than {}; what it adds is dropped.",
                    ProtocolVersion::CURRENT
                ),
            ),
            Declaration::Uninterpretable(error) => {
                (WarningRule::UninterpretableVersion, format!("The consumer {error}; it is handled like a newer one."))
            }
            Declaration::Current | Declaration::Older(_) | Declaration::Missing => return,
        };
        self.warnings.push(Warning { rule, message, event, path: Some("/protocolVersion".to_owned()) });
    }

    fn mention_missing_run(&mut self, runs: &[RunRecord]) {
        let Some((_, run_id)) = &self.requested else { return };
        // A failure before any run began names none.
        if runs.iter().any(|run| run.run_id.as_ref().is_none_or(|id| id == run_id)) {
            return;
        }
        let message = format!("The input asked for run '{run_id}', but no run of the stream has that id.");
        let event = self.index.saturating_sub(1);
        self.warnings.push(Warning { rule: WarningRule::RequestedRunMissing, message, event, path: None });
    }
}
