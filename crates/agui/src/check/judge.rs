//! A recorded stream, judged as its bytes come.

use std::cell::OnceCell;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::check::CheckError;
use crate::check::advice::Adviser;
use crate::check::answer::{Answer, Remark, left_open};
use crate::check::catalogue::{CHUNKED, FRAMING, RESPONSE, TRUNCATION, url};
use crate::check::detail::{Detail, detail, limit, named};
use crate::check::finding::{CheckRule, Earlier, Finding, Place, Seen, excerpt, message, name, short_path, shown};
use crate::check::form::{Form, Payload, Recorded, Recording, Undecodable, Unterminated};
use crate::check::origins::{Mixed, Origins};
use crate::check::report::{Report, ReportedError, ReportedOutcome, ReportedRun};
use crate::consumer::{Consumer, ConsumerOptions, StreamEnd};
use crate::decode::decode_value;
use crate::ending::{RunEnding, Truncation};
use crate::event::Event;
use crate::input::RunAgentInput;
use crate::outgoing::AgentVersion;
use crate::proto::ProtoEvent;
use crate::reducer::Reducer;
use crate::retired::RetiredShapes;
use crate::violation::{Rule, Violation};
use crate::warning::{Warning, WarningRule};

/// So many warnings are told one by one; a stream that goes wrong in every event of millions says nothing new after
/// them, and must not fill the memory.
const MOST_WARNINGS: usize = 10_000;

/// What a check is told beforehand.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The run input that the stream answers, when it is known.
    pub input: Option<RunAgentInput>,
    /// The form that the stream is in, when the response said so; a client reads it as that and as nothing else. `None`
    /// is to detect it.
    pub form: Option<Form>,
    /// The version that the agent is known to speak; current when nobody knows it to be older.
    pub agent: AgentVersion,
    /// What is kept of the stream while it is judged.
    pub keep: Keep,
}

impl Default for CheckOptions {
    /// No input; the form is detected; a current agent; events, messages and state are kept.
    fn default() -> Self {
        Self { input: None, form: None, agent: AgentVersion::default(), keep: Keep::Everything }
    }
}

/// What a check keeps of a stream. What only shows when messages and state are built, such as a patch that does not apply,
/// is found for as long as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The delivered events, the messages and the state, for the [`Report`].
    Everything,
    /// The messages and the state, to find what does not apply to them, and none of them for the report. They are given up
    /// when the recording turns out to be longer than so many bytes, which bounds what is held of a stream that nobody
    /// knows the length of. [`StreamFacts::reduced`] says how far they went.
    Conversation {
        /// The most bytes of a recording whose messages and state are built.
        most_bytes: u64,
    },
    /// Nothing. A stream of any length takes constant memory, apart from the ids of the run that is open.
    Nothing,
}

/// Everything that a check says about one stream. As JSON it is the members of the [`Report`], and more after them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// What a client would make of the stream.
    #[serde(flatten)]
    pub report: Report,
    /// What was found, in the order of the events.
    pub findings: Vec<Finding>,
    /// What was recorded.
    pub stream: StreamFacts,
}

/// What a recording holds, in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamFacts {
    /// The form it is in.
    pub form: Form,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many events were read, up to the one that was rejected.
    pub events: usize,
    /// How many events were delivered to the application, chunks expanded.
    pub delivered: usize,
    /// How many of these the messages and the state were built from.
    pub reduced: usize,
    /// How many warnings were given beyond those that are told.
    pub untold_warnings: usize,
}

/// Judges one stream as its bytes come.
///
/// It reads no clock: whoever knows when bytes came says so with [`Checker::push_at`].
#[derive(Debug)]
pub struct Checker {
    recording: Recording,
    consumer: Consumer,
    keep: Keep,
    reducer: Option<Reducer>,
    reduced: usize,
    origins: Origins,
    adviser: Adviser,
    first: Option<Place>,
    last: Option<Place>,
    /// What the stream was rejected for: whatever comes then changes nothing.
    rejected: Option<ReportedError>,
    delivered: usize,
    warnings: Vec<Warning>,
    untold_warnings: usize,
    events: Vec<Event>,
    findings: Vec<Finding>,
}

impl Checker {
    /// A checker at the start of a stream.
    #[must_use]
    pub fn new(options: CheckOptions) -> Self {
        let CheckOptions { input, form, agent, keep } = options;
        let reducer = (keep != Keep::Nothing).then(|| input.as_ref().map_or_else(Reducer::new, Reducer::from_input));
        Self {
            recording: Recording::new(form),
            consumer: Consumer::new(ConsumerOptions { input }).of_agent(agent),
            keep,
            reducer,
            reduced: 0,
            origins: Origins::default(),
            adviser: Adviser::default(),
            first: None,
            last: None,
            rejected: None,
            delivered: 0,
            warnings: Vec::new(),
            untold_warnings: 0,
            events: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Takes the next bytes of the recording, in pieces of any size.
    ///
    /// # Errors
    ///
    /// When the recording is in no form that can be read. What is wrong with the events in it is no error but part of
    /// the judgement.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), CheckError> {
        if self.is_rejected() {
            self.recording.skip(bytes);
            return Ok(());
        }
        let mut recorded = Vec::new();
        let pushed = self.recording.push(bytes, &mut recorded);
        let taken = self.take_all(recorded);
        // Whether what comes behind a violation can be read must not depend on how much of it came at once.
        if self.is_rejected() { Ok(()) } else { taken.and(pushed) }
    }

    /// Takes the next bytes, which came so long after the request was sent; from this it is seen whether a response was
    /// held back or fell silent.
    ///
    /// # Errors
    ///
    /// As [`Checker::push`].
    pub fn push_at(&mut self, bytes: &[u8], since_request: Duration) -> Result<(), CheckError> {
        self.adviser.bytes_at(since_request, self.next_place());
        self.push(bytes)
    }

    /// Takes the whole of a response, whose first byte came `first` after the request was sent and whose last byte came
    /// `last` after it; from this it is seen whether it was held back. Silences within it stay unknown.
    ///
    /// # Errors
    ///
    /// As [`Checker::push`].
    pub fn push_between(&mut self, bytes: &[u8], first: Duration, last: Duration) -> Result<(), CheckError> {
        self.adviser.response_between(first, last, self.next_place());
        self.push(bytes)
    }

    /// The response began so, which comes before its first byte. What the bindings over HTTP ask to be otherwise is warned
    /// of.
    pub fn answered(&mut self, answer: &Answer<'_>) {
        for remark in answer.remarks() {
            self.remark(remark);
        }
    }

    /// Whether the stream may end here: there was a run, and each has its ending.
    #[must_use]
    pub fn runs_have_ended(&self) -> bool {
        self.consumer.runs().last().is_some_and(|run| run.ending != RunEnding::Truncated)
    }

    /// Nobody waits any longer for the response to end, so long after the request was sent. That is warned of when all
    /// runs have ended; otherwise a silence may have come before it, as in [`Checker::ended_at`].
    pub fn left_at(&mut self, since_request: Duration) {
        if self.runs_have_ended() {
            self.remark(left_open(self.adviser.since_last_byte(since_request)));
        } else {
            self.ended_at(since_request);
        }
    }

    /// The connection ended, so long after the request was sent: a silence may have come before it.
    pub fn ended_at(&mut self, since_request: Duration) {
        self.adviser.ended_at(since_request, self.next_place());
    }

    /// Whether the verdict is that the stream is rejected: whatever comes now changes nothing.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        self.rejected.is_some()
    }

    /// How many events were read so far.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.consumer.event_count()
    }

    /// Ends the stream and says what a client makes of it.
    ///
    /// # Errors
    ///
    /// As [`Checker::push`]; also when the recording stops where its form does not allow it.
    pub fn finish(mut self) -> Result<Judgement, CheckError> {
        let mut recorded = Vec::new();
        let tail = if self.is_rejected() { Ok(None) } else { self.recording.finish(&mut recorded) };
        self.take_all(recorded)?;
        let tail = if self.is_rejected() { None } else { tail? };
        let next = self.next_place();
        if let Some(tail) = tail {
            self.unterminated(tail, next);
        }
        let end = self.consumer.finish();
        for warning in self.consumer.take_warnings() {
            self.warn(warning, self.last.unwrap_or(next).into(), &Again::default());
        }
        if let StreamEnd::Truncated { truncation, .. } = &end {
            self.findings.push(truncated(truncation, next));
        }
        // How far a stream was read behind a violation is a matter of how it was cut.
        let read_to = self.last.filter(|_| self.is_rejected()).map_or(u64::MAX, |last| last.offset + last.length);
        let carriage_returns = self.recording.carriage_return().is_some_and(|place| place < read_to);
        self.adviser.end(self.first, self.consumer.event_count(), carriage_returns);
        for (rule, advice) in self.adviser.into_given() {
            let mut message = advice.message;
            if advice.times > 1 {
                message.push_str(&format!(" So it is in {} events of the stream.", advice.times));
            }
            let mut finding = Finding::new(CheckRule::Advice(rule), advice.place.into(), message, advice.found);
            finding.excerpt = advice.excerpt;
            self.findings.push(finding);
        }
        self.findings.sort_by_key(|finding| finding.event);
        let stream = StreamFacts {
            form: self.recording.form(),
            bytes: self.recording.bytes(),
            events: self.consumer.event_count(),
            delivered: self.delivered,
            reduced: self.reduced,
            untold_warnings: self.untold_warnings,
        };
        let runs = end.runs().iter().map(ReportedRun::from).collect();
        let (outcome, error) = match end {
            StreamEnd::Completed { .. } => (ReportedOutcome::Completed, None),
            StreamEnd::Truncated { .. } => (ReportedOutcome::Truncated, None),
            StreamEnd::Rejected { .. } => (ReportedOutcome::Rejected, self.rejected),
        };
        let told = self.reducer.filter(|_| self.keep == Keep::Everything);
        let (messages, state) = told.map_or((Vec::new(), Value::Null), Reducer::into_parts);
        let report = Report { outcome, error, warnings: self.warnings, runs, events: self.events, messages, state };
        Ok(Judgement { report, findings: self.findings, stream })
    }

    fn take_all(&mut self, recorded: Vec<Recorded>) -> Result<(), CheckError> {
        for event in recorded {
            if self.is_rejected() {
                break;
            }
            self.take(&event)?;
        }
        Ok(())
    }

    fn take(&mut self, recorded: &Recorded) -> Result<(), CheckError> {
        let Recorded { offset, length, .. } = *recorded;
        if matches!(self.keep, Keep::Conversation { most_bytes } if offset + length > most_bytes) {
            self.reducer = None;
        }
        let place = Place { event: self.consumer.event_count(), offset, length, retired_type: None };
        self.first.get_or_insert(place);
        self.last = Some(place);
        let seen = Seen { place, payload: Some(&recorded.payload) };
        let pushed = match &recorded.payload {
            Payload::Json(json) => self.consumer.push_json(json),
            Payload::UnknownArm(arm) => self.consumer.push_proto(ProtoEvent::Unknown { arm: *arm }),
            Payload::Undecodable(Undecodable { rule, message, .. }) => {
                self.consumer.push_undecodable(*rule, message.clone())
            }
        }
        .map(Iterator::collect::<Vec<_>>);
        let (delivered, violation) = match pushed {
            Ok(delivered) => (delivered, None),
            Err(rejected) => (rejected.delivered, Some(rejected.violation)),
        };
        let again = Again::of(&recorded.payload);
        for warning in self.consumer.take_warnings() {
            self.warn(warning, seen, &again);
        }
        for event in delivered {
            self.origins.event(&event, Place { retired_type: retired_type(&event, &recorded.payload), ..place });
            self.adviser.event(&event, seen);
            self.delivered += 1;
            if let Some(reducer) = &mut self.reducer {
                self.reduced += 1;
                if self.keep == Keep::Everything {
                    self.events.push(event.clone());
                }
                let warning = reducer.apply(event, place.event);
                if let Some(warning) = warning {
                    self.warn(warning, seen, &again);
                }
            }
        }
        if let Some(violation) = violation {
            if violation.rule == Rule::MalformedJson
                && let Payload::Json(json) = &recorded.payload
                && let Some(limit) = limit(json)
            {
                return Err(CheckError::BeyondReader { event: place.event, limit });
            }
            let finding = self.violation(&violation, seen);
            let Violation { rule, event, .. } = violation;
            self.rejected = Some(ReportedError { rule, message: finding.message.clone(), event });
            self.findings.push(finding);
        }
        Ok(())
    }

    /// Warns of what the stream stopped inside of, where that begins and by the page of its form.
    fn unterminated(&mut self, tail: Unterminated, next: Place) {
        let Unterminated { offset, held, found } = tail;
        let (what, page, expected) = match self.recording.form() {
            Form::Protobuf => ("a frame", FRAMING, "A frame has as many bytes as its header announces."),
            Form::Lines => ("a line", TRUNCATION, "A line holds the whole of an event."),
            Form::Sse | Form::Array | Form::Empty => ("an SSE event", RESPONSE, "An SSE event ends with a blank line."),
        };
        let place = Place { offset, length: self.recording.bytes() - offset, ..next };
        let rule = WarningRule::UnterminatedEvent;
        let message = format!("The stream stopped inside {what}, which was discarded.");
        let mut finding = Finding::new(CheckRule::Warning(rule), place.into(), message.clone(), found);
        (finding.page, finding.expected) = (url(page), expected.to_owned());
        finding.excerpt = held.as_deref().map(excerpt);
        if self.has_room() {
            self.findings.push(finding);
            self.warnings.push(Warning { rule, message, event: next.event, path: None });
        }
    }

    /// Warns of something that is about the response as a whole, where the stream stands.
    fn remark(&mut self, remark: Remark) {
        let Remark { rule, message, found } = remark;
        let next = self.next_place();
        if self.has_room() {
            self.findings.push(Finding::new(CheckRule::Warning(rule), next.into(), message.clone(), found));
            self.warnings.push(Warning { rule, message, event: next.event, path: None });
        }
    }

    fn warn(&mut self, mut warning: Warning, seen: Seen<'_>, again: &Again<'_>) {
        if !self.has_room() {
            return;
        }
        let found = again.found(warning.path.as_deref()).unwrap_or_else(|| message(&warning.message));
        // Warnings are kept to the end, and the names in them may be as long as the stream makes them.
        warning.message = message(&warning.message);
        warning.path = warning.path.as_deref().map(short_path);
        let rule = CheckRule::Warning(warning.rule);
        let mut finding = Finding::new(rule, seen, warning.message.clone(), found);
        finding.path.clone_from(&warning.path);
        self.findings.push(finding);
        self.warnings.push(warning);
    }

    /// Whether one more warning is told; one that is not is counted.
    fn has_room(&mut self) -> bool {
        let has_room = self.warnings.len() < MOST_WARNINGS;
        self.untold_warnings += usize::from(!has_room);
        has_room
    }

    fn violation(&self, violation: &Violation, seen: Seen<'_>) -> Finding {
        let rule = CheckRule::Violation(violation.rule);
        let told = message(&violation.message);
        let json = match seen.payload {
            Some(Payload::Json(json)) => json,
            Some(Payload::Undecodable(Undecodable { found, .. })) => {
                return Finding::new(rule, seen, told, found.clone());
            }
            Some(Payload::UnknownArm(_)) | None => {
                return Finding::new(rule, seen, told, "a frame of an unknown type".to_owned());
            }
        };
        if let Some(Detail { path, expected, found }) = detail(violation.rule, json) {
            let mut finding = Finding::new(rule, seen, told, found);
            finding.path = path.as_deref().map(short_path);
            finding.expected = expected;
            return finding;
        }
        let event = as_today(json).and_then(|event| decode_value(event, seen.place.event).ok()?.event);
        let mut finding = Finding::new(rule, seen, told, named(serde_json::from_slice(json).ok().as_ref()));
        let earlier = match event.as_ref().and_then(|event| self.origins.mixed(violation.rule, event, seen.place)) {
            Some(Mixed { earlier, note }) => {
                finding.message = format!("{} {note}", finding.message);
                finding.page = url(CHUNKED);
                Some(earlier)
            }
            None => event.and_then(|event| self.origins.contradicted(violation.rule, &event)),
        };
        finding.contradicts = earlier.map(|earlier| Earlier { what: message(&earlier.what), ..earlier });
        finding
    }

    /// The place of an event that has not come.
    fn next_place(&self) -> Place {
        let (event, offset) = (self.consumer.event_count(), self.recording.bytes());
        Place { event, offset, length: 0, retired_type: None }
    }
}

/// The type that an event came as, when it is one that reasoning had before 1.0. Deltas are not looked at: they are
/// many, and nothing is opened or closed by them.
fn retired_type(event: &Event, payload: &Payload) -> Option<&'static str> {
    match event {
        Event::ReasoningStart(_)
        | Event::ReasoningEnd(_)
        | Event::ReasoningMessageStart(_)
        | Event::ReasoningMessageEnd(_) => payload.retired_type(),
        _ => None,
    }
}

/// An event in the shape that it has today, if it came in a retired one.
fn as_today(json: &[u8]) -> Option<Value> {
    let mut event = serde_json::from_slice(json).ok()?;
    RetiredShapes::default().translate(&mut event, 0, &mut Vec::new());
    Some(event)
}

/// The JSON of an event, which is read once more when there is something to say of it, and only once however much that is.
#[derive(Default)]
struct Again<'a> {
    json: Option<&'a [u8]>,
    event: OnceCell<Option<Value>>,
}

impl<'a> Again<'a> {
    fn of(payload: &'a Payload) -> Self {
        let json = if let Payload::Json(json) = payload { Some(&**json) } else { None };
        Self { json, event: OnceCell::new() }
    }

    /// What is at that place in the event, or else what the event is.
    fn found(&self, path: Option<&str>) -> Option<String> {
        let json = self.json?;
        let event = self.event.get_or_init(|| serde_json::from_slice(json).ok()).as_ref();
        let place = event.zip(path).and_then(|(event, path)| event.pointer(path));
        Some(place.map_or_else(|| named(event), shown))
    }
}

fn truncated(truncation: &Truncation, next: Place) -> Finding {
    let found = match truncation {
        Truncation::NoEvents => "the end of the stream before any event".to_owned(),
        Truncation::RunOpen { run_id, .. } => format!("the end of the stream in run '{}'", name(run_id)),
    };
    Finding::new(CheckRule::Truncated, next.into(), message(&truncation.to_string()), found)
}
