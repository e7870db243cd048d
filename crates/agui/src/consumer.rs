//! What a client makes of a stream, event by event.
//!
//! The order is that of basic/processing: decoding, translation of retired shapes, middleware, enforcement, chunk
//! expansion, verification. Three ways of ending badly are kept apart: a *violation* rejects the stream, a *reported failure* is a
//! run that ended with `RUN_ERROR`, and a *truncation* is a run whose ending never came. In all three, everything that
//! was delivered stays delivered.

use hashbrown::HashSet;
use serde_json::Value;

use crate::chunks::ChunkExpander;
use crate::decode::{Decoded, decode_generally, decode_strictly, decode_value, parse};
use crate::ending::{Ending, RunRecord, Truncation};
use crate::event::Event;
use crate::flat::{self, Scratch};
use crate::input::RunAgentInput;
use crate::middleware::{Middleware, Stages};
use crate::outgoing::{AgentVersion, OlderAgent};
use crate::part::{Part, Step};
use crate::patch;
use crate::reducer::Reducer;
use crate::retired::RetiredShapes;
use crate::verify::Verifier;
use crate::version::{Declaration, ProtocolVersion};
use crate::violation::{Rule, Violation};
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

/// The events that one push delivers, in order. What is not taken of them is gone.
#[derive(Debug)]
pub struct Delivered<'a>(std::vec::Drain<'a, Event>);

impl Iterator for Delivered<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Delivered<'_> {}

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
    stages: Stages,
    older: Option<OlderAgent>,
    expander: ChunkExpander,
    verifier: Verifier,
    warnings: Vec<Warning>,
    /// The ids of the runs so far.
    run_ids: HashSet<String>,
    /// What the current push delivers. Kept from push to push, so that an event costs no allocation of its own.
    delivered: Vec<Event>,
    /// What the flat reader keeps, for the same reason.
    scratch: Scratch,
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
            stages: Stages::default(),
            older: None,
            expander: ChunkExpander::new(),
            verifier,
            warnings: Vec::new(),
            run_ids: HashSet::new(),
            delivered: Vec::new(),
            scratch: Scratch::default(),
            rejected: None,
        }
    }

    /// Puts a stage behind the stages that are there already. Install all of them before the first event.
    #[must_use]
    pub fn with_middleware(mut self, stage: impl Middleware + 'static) -> Self {
        self.stages.add(Box::new(stage));
        self
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
    pub fn push_json(&mut self, json: &[u8]) -> Result<Delivered<'_>, Rejected> {
        self.take(|consumer, index| {
            // What reads strictly is none of the retired shapes.
            if consumer.reads_directly() && decode_strictly(json, &mut consumer.scratch, &mut consumer.delivered) {
                return consumer.deliver_last(index);
            }
            consumer.process(parse(json, index)?, index)
        })
    }

    /// Takes the JSON of the next event and applies to `reducer` whatever it delivers, in order. For a client that wants what
    /// there is to hold and not the events: it comes to what [`Consumer::push_json`] and [`Reducer::apply`] come to, and
    /// of what extends a text, closes it or changes the state no event is made. A stream may be taken by both in turns.
    ///
    /// What does not apply is warned of among [`Consumer::take_warnings`], behind what else there is to say of the event.
    ///
    /// # Errors
    ///
    /// As [`Consumer::push_json`]; what came before the violation is applied, and none of it is in [`Rejected`].
    pub fn reduce(&mut self, json: &str, reducer: &mut Reducer) -> Result<(), Rejected> {
        let directly = self.rejected.is_none() && self.reads_directly();
        let part = if directly { flat::read(json, &mut self.scratch) } else { None };
        let event = match part {
            Some(part) => {
                if extend(&mut self.expander, &mut self.verifier, &mut self.warnings, &part, reducer, self.index) {
                    self.index += 1;
                    return Ok(());
                }
                Some(part.to_event())
            }
            None => None,
        };
        if directly && event.is_none() && self.reduce_patch(json, reducer) {
            return Ok(());
        }
        let index = self.index;
        let taken = self.step(|consumer, index| match event {
            Some(event) => consumer.deliver(event, index),
            None if directly && decode_generally(json, &mut consumer.delivered) => consumer.deliver_last(index),
            None => consumer.process(parse(json.as_bytes(), index)?, index),
        });
        for event in self.delivered.drain(..) {
            self.warnings.extend(reducer.apply(event, index));
        }
        taken.map_err(|violation| Rejected { delivered: Vec::new(), violation })
    }

    /// Takes an event that changes the state, if nothing about it is to be judged or brought about; else nothing happens, and
    /// `false` is told.
    fn reduce_patch(&mut self, json: &str, reducer: &mut Reducer) -> bool {
        if !self.expander.is_idle() {
            return false;
        }
        let Some(operations) = patch::state_delta(json) else { return false };
        if !self.verifier.pass_within_run() {
            return false;
        }
        self.warnings.extend(reducer.patch_state(operations, self.index));
        self.expander.pass();
        self.index += 1;
        true
    }

    /// Takes the next event as a parsed JSON value.
    ///
    /// # Errors
    ///
    /// As [`Consumer::push_json`].
    pub fn push_value(&mut self, value: Value) -> Result<Delivered<'_>, Rejected> {
        self.take(|consumer, index| consumer.process(value, index))
    }

    /// Takes, in the place of the next event, one that no transport can name, and drops it.
    pub(crate) fn push_unknown(&mut self, message: String) -> Result<Delivered<'_>, Rejected> {
        self.take(|consumer, index| {
            consumer.warnings.push(Warning { rule: WarningRule::UnknownEvent, message, event: index, path: None });
            Ok(())
        })
    }

    /// Takes, in the place of the next event, bytes that are none.
    pub(crate) fn push_undecodable(&mut self, rule: Rule, message: String) -> Result<Delivered<'_>, Rejected> {
        self.take(|_, index| Err(Violation::new(rule, index, message)))
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

    fn take(
        &mut self,
        step: impl FnOnce(&mut Self, usize) -> Result<(), Violation>,
    ) -> Result<Delivered<'_>, Rejected> {
        match self.step(step) {
            Ok(()) => Ok(Delivered(self.delivered.drain(..))),
            Err(violation) => Err(Rejected { delivered: std::mem::take(&mut self.delivered), violation }),
        }
    }

    /// Takes the next event and leaves what it delivers in `delivered`, also when it breaks a rule.
    fn step(&mut self, step: impl FnOnce(&mut Self, usize) -> Result<(), Violation>) -> Result<(), Violation> {
        if let Some(violation) = &self.rejected {
            return Err(violation.clone());
        }
        let index = self.index;
        self.index += 1;
        step(self, index).map_err(|mut violation| {
            violation.event = index;
            self.rejected = Some(violation.clone());
            violation
        })
    }

    /// Whether nothing stands between a peer's event and enforcement, which finds nothing in one that reads strictly.
    fn reads_directly(&self) -> bool {
        self.stages.is_empty() && self.older.is_none()
    }

    /// From the JSON value of an event to what it delivers.
    fn process(&mut self, mut value: Value, index: usize) -> Result<(), Violation> {
        self.retired.translate(&mut value, index, &mut self.warnings);
        if let Some(older) = self.older
            && !older.translate(&mut value, index, &mut self.warnings)
        {
            return Ok(());
        }
        if self.stages.is_empty() {
            return self.enforce(value, index);
        }
        self.stages.process(value).into_iter().try_for_each(|value| self.enforce(value, index))
    }

    fn enforce(&mut self, value: Value, index: usize) -> Result<(), Violation> {
        let Decoded { event, warnings } = decode_value(value, index)?;
        self.warnings.extend(warnings);
        event.map_or(Ok(()), |event| self.deliver(event, index))
    }

    /// Expands and verifies one event, and puts what comes of it behind what is delivered already.
    fn deliver(&mut self, event: Event, index: usize) -> Result<(), Violation> {
        self.delivered.push(event);
        self.deliver_last(index)
    }

    /// As [`Consumer::deliver`], for the event that is the last of those to deliver: where it is read it stays, if it
    /// stands for itself.
    fn deliver_last(&mut self, index: usize) -> Result<(), Violation> {
        let Some(event) = self.delivered.last() else { return Ok(()) };
        if let Event::RunStarted(started) = event {
            let declared = started.protocol_version.clone();
            self.mention_version(declared.as_deref(), index);
        }
        let first = self.delivered.len() - 1;
        self.expander.push_last(&mut self.delivered)?;
        for place in first..self.delivered.len() {
            if let Err(violation) = self.verifier.push(&self.delivered[place]) {
                self.delivered.truncate(place);
                return Err(violation);
            }
        }
        if matches!(self.delivered.last(), Some(Event::RunStarted(_))) {
            self.mention_identity(index);
        }
        Ok(())
    }

    /// Mentions what is odd about the ids of a run that has just begun, and brings nobody into trouble here.
    fn mention_identity(&mut self, event: usize) {
        let Some(Event::RunStarted(started)) = self.delivered.last() else { return };
        let path = |path: &str| Some(path.to_owned());
        if let Some(input) = &started.input
            && input.thread_id != started.thread_id
        {
            let message = format!(
                "RUN_STARTED opens run '{}' on thread '{}' and echoes an input of thread '{}'; a run is on the thread of \
                 its input.",
                started.run_id, started.thread_id, input.thread_id
            );
            let (rule, path) = (WarningRule::EchoOfAnotherThread, path("/input/threadId"));
            self.warnings.push(Warning { rule, message, event, path });
        }
        if !self.run_ids.insert(started.run_id.clone()) {
            let message = format!(
                "RUN_STARTED opens run '{}' again, which the stream had already; an id is one run's and is not used again.",
                started.run_id
            );
            let (rule, path) = (WarningRule::RunIdReused, path("/runId"));
            self.warnings.push(Warning { rule, message, event, path });
        }
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
        let is_requested = |run: &RunRecord| run.run_id.as_ref().is_none_or(|id| id == run_id);
        let message = match runs.last().and_then(|run| run.run_id.as_ref()) {
            _ if runs.last().is_some_and(is_requested) => return,
            Some(last) if runs.iter().any(is_requested) => format!(
                "The input asked for run '{run_id}', and run '{last}' came after it; the run that was asked for is the last."
            ),
            _ => format!("The input asked for run '{run_id}', but no run of the stream has that id."),
        };
        let event = self.index.saturating_sub(1);
        self.warnings.push(Warning { rule: WarningRule::RequestedRunMissing, message, event, path: None });
    }
}

/// As [`Consumer::reduce_patch`], for an event that extends an item or closes it. What it says is lent by the consumer, so
/// it is given what else it takes.
fn extend(
    expander: &mut ChunkExpander,
    verifier: &mut Verifier,
    warnings: &mut Vec<Warning>,
    part: &Part<'_>,
    reducer: &mut Reducer,
    index: usize,
) -> bool {
    let Some(id) = expander.straight(part) else { return false };
    if !verifier.goes_on(part.kind, id, part.subagent_run_id, part.step == Step::End) {
        return false;
    }
    warnings.extend(reducer.extend(part.kind, id, part.delta, index));
    expander.pass();
    true
}
