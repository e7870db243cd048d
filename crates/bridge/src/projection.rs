//! Frames out to AG-UI: a pure function of the log.
//!
//! Every AG-UI event is derived from frames alone (and, for a tool result larger than its preview, from the segment's
//! payload), so that the events resume as the frames do: the same log gives the same events in the same order, and
//! event `n` of frame `seq` is the same event on every connection.
//!
//! Frames that came from AG-UI events carry what the event said beyond the frame under `agui`; for frames that came
//! from an agent of this server the projection derives ids and roles itself.

mod attempt;
mod guarded;
mod items;
mod names;
mod own_names;
mod peer;
mod segments;
mod tools;
mod view;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use runwire_agui::producer::Guard;
use runwire_agui::{
    Custom, Downgrade, Event, Interrupt, PROTOCOL_VERSION, Peer, RunAgentInput, RunError, RunFinished,
    RunFinishedOutcome, RunStarted,
};
use runwire_frame::{Data, EndStatus, ErrorData, Frame, Notice, Resume, RunEnd, RunStatus, SegmentId, Suspend};
use serde_json::{Map, Value, json};

use crate::asked::{ASKED_INPUT, asked_input};
use crate::log_state::agui;
use crate::upstream::AFTER_FINISH;
use crate::usage::{EXCHANGE_USAGE, account, all_to_agui};

use names::Names;
pub use own_names::{OwnNames, TOLD_NAMES};
use view::{Call, View};

/// The `CUSTOM` event that tells what is neither output nor an error.
const NOTICE: &str = "runwire.notice";

/// A log that the projection cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProjectionError {
    /// A frame names a segment that no frame before it opened.
    #[error("frame {seq} names segment `{segment}`, which no frame before it opened")]
    Segment {
        /// The frame.
        seq: u64,
        /// The segment.
        segment: String,
    },
    /// What a frame says under `agui` (or in the attributes of an `agui.` notice) is no AG-UI event.
    #[error("frame {seq} does not hold the AG-UI event that it says it does: {problem}")]
    Event {
        /// The frame.
        seq: u64,
        /// What is wrong.
        problem: String,
    },
    /// The whole value behind a preview is not there.
    #[error("frame {seq} needs the payload of segment `{segment}`, which is not stored")]
    PayloadMissing {
        /// The frame.
        seq: u64,
        /// The segment.
        segment: String,
    },
    /// The payload is not what its content type says.
    #[error("the payload that frame {seq} needs cannot be read: {problem}")]
    Payload {
        /// The frame.
        seq: u64,
        /// What is wrong.
        problem: String,
    },
}

/// The whole value behind a `tool.result`'s preview.
#[derive(Clone, Debug)]
pub struct StoredPayload {
    /// As [`Payload::content_type`](crate::Payload::content_type).
    pub content_type: String,
    /// The value.
    pub bytes: Bytes,
}

/// Derives AG-UI events from a run's frames, in order from the first.
#[derive(Debug)]
pub struct Projection {
    /// Nothing leaves that a client would reject, whatever a driver did.
    guard: Guard,
    /// What the peer that the events are for cannot take.
    downgrade: Option<Downgrade>,
    thread_id: String,
    run_id: String,
    /// Whether the exchange has begun and not ended: between exchanges AG-UI has no place for an event.
    in_exchange: bool,
    attempt: u32,
    segments: HashMap<String, View>,
    opened: u64,
    open_step_names: HashSet<String>,
    error: Option<ErrorData>,
    /// Closings of a failure that may still turn out to be the run's own, which ends what is open by itself.
    deferred: Vec<Event>,
    /// What came between two exchanges and can be told in the next.
    held: Vec<Event>,
    suspend: Option<Suspend>,
    /// The input that the exchange was asked: what a new attempt restates.
    input: Option<Value>,
    /// Whether `RUN_STARTED` echoed another.
    echoes_other: bool,
    /// What the ids of the log are called towards the peer.
    names: Names,
    /// Whether an abandoned attempt of this exchange left a call without a result.
    abandoned_call: bool,
    /// The calls that were made or answered in this exchange, in order.
    calls: Vec<Call>,
    warnings: Vec<String>,
}

impl Projection {
    /// Expects the first frame of a log.
    pub fn new(peer: Peer) -> Projection {
        Projection {
            guard: Guard::new(),
            downgrade: Downgrade::for_peer(peer),
            thread_id: String::new(),
            run_id: String::new(),
            in_exchange: false,
            attempt: 0,
            segments: HashMap::new(),
            opened: 0,
            open_step_names: HashSet::new(),
            error: None,
            deferred: Vec::new(),
            held: Vec::new(),
            suspend: None,
            input: None,
            echoes_other: false,
            names: Names::default(),
            abandoned_call: false,
            calls: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The segment whose payload [`Projection::push`] needs together with this frame, if it needs one.
    pub fn needs_payload(frame: &Frame) -> Option<&SegmentId> {
        match &frame.data {
            Data::ToolResult(result) if result.truncated => frame.segment_id.as_ref(),
            _ => None,
        }
    }

    /// What was lost on the way to this peer since the last call; one sentence each.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// The AG-UI id of the exchange that the frames so far belong to.
    pub fn exchange_id(&self) -> &str {
        &self.run_id
    }

    /// Takes the next frame and gives the events that it stands for: none, one or several.
    ///
    /// # Errors
    /// When the log is not one that the recorder wrote, or a payload that is needed is missing.
    pub fn push(&mut self, frame: &Frame, payload: Option<&StoredPayload>) -> Result<Vec<Event>, ProjectionError> {
        let mut out = Vec::new();
        let fatal = matches!(&frame.data, Data::RunStatus(s) if s.status == RunStatus::Failed);
        if fatal {
            // RUN_ERROR ends whatever is open together with the run: nothing cut off is shown as complete.
            self.deferred.clear();
        } else if !matches!(frame.data, Data::SegmentEnd(_)) {
            out.append(&mut self.deferred);
        }
        let mut told = Vec::new();
        if let Data::RunStart(start) = &frame.data {
            self.attempt = start.attempt;
        }
        match &frame.data {
            Data::RunStart(start) if start.attempt > 1 => {
                // What was held back of the attempt before is still called as it was there.
                told = self.named(std::mem::take(&mut out));
                told.append(&mut self.next_attempt(frame, start)?);
            }
            Data::RunStart(start) => self.run_start(frame, start, &mut out)?,
            Data::RunStatus(change) => {
                if change.status == RunStatus::Suspended {
                    self.interrupted(frame, &mut out)?;
                }
                if change.status != RunStatus::Failed {
                    self.error = None;
                }
            }
            Data::RunEnd(end) => self.run_end(frame, end, &mut out)?,
            Data::SegmentStart(start) => self.segment_start(frame, start, &mut out)?,
            Data::SegmentEnd(end) => self.segment_end(frame, end, &mut out)?,
            Data::TextDelta(delta) => self.text(frame, &delta.text, &mut out)?,
            Data::ThinkingDelta(delta) => self.thinking(frame, &delta.text, &mut out)?,
            Data::ToolCall(call) => self.tool_call(frame, call, &mut out)?,
            Data::ToolResult(result) => self.tool_result(frame, result, payload, &mut out)?,
            Data::Suspend(suspend) => self.suspend = Some(suspend.clone()),
            Data::Resume(resume) => self.resume(frame, resume, &mut out)?,
            Data::Notice(notice) => {
                let event = notice_event(frame, notice)?;
                if self.in_exchange { out.push(event) } else { self.held.push(event) }
            }
            Data::Error(error) => self.error = Some(error.clone()),
        }
        told.append(&mut self.named(out));
        for event in &mut told {
            if let Event::RunFinished(finished) = event {
                self.without_abandoned_calls(finished);
            }
        }
        let events = self.guarded(told);
        Ok(self.for_peer(events))
    }

    /// The way back from what things were told as to what the agent calls them; empty where they were told as they are.
    pub fn own_names(&self) -> OwnNames {
        self.names.own()
    }

    fn named(&mut self, events: Vec<Event>) -> Vec<Event> {
        let echoes_own = self.echoes_other;
        events.into_iter().map(|event| self.names.tell(event, echoes_own)).collect()
    }

    fn run_start(
        &mut self,
        frame: &Frame,
        start: &runwire_frame::RunStart,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let agui = agui(&start.extra);
        self.thread_id = start.session_id.clone().unwrap_or_else(|| frame.run_id.to_string());
        let given = agui.and_then(|a| a.get("runId")).and_then(Value::as_str);
        self.run_id = given.unwrap_or(&frame.run_id).to_owned();
        self.exchange_start(frame, agui, out)
    }

    fn resume(&mut self, frame: &Frame, resume: &Resume, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        if self.in_exchange {
            return Ok(());
        }
        let agui = agui(&resume.extra);
        let given = agui.and_then(|a| a.get("runId")).and_then(Value::as_str);
        // A run that nobody's request resumed, such as at a deadline, still needs an id of its own for the exchange.
        self.run_id = given.map_or_else(|| format!("{}.{}", frame.run_id, frame.seq), str::to_owned);
        self.exchange_start(frame, agui, out)?;
        out.append(&mut self.held);
        self.reopen(frame, out)
    }

    /// This server is the producer that its client talks to, so the version is its own, whatever an upstream declared.
    fn exchange_start(
        &mut self,
        frame: &Frame,
        agui: Option<&Map<String, Value>>,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        self.in_exchange = true;
        self.input = agui.and_then(asked_input).cloned();
        self.echoes_other = agui.is_some_and(|agui| agui.contains_key(ASKED_INPUT));
        self.names.exchange(self.attempt);
        if let Some(names) = agui.and_then(|agui| agui.get(TOLD_NAMES)) {
            self.names.take_up(names);
        }
        // What the beginning says to whoever goes on from it, and not to a client.
        let told = agui.filter(|agui| [ASKED_INPUT, TOLD_NAMES].iter().any(|key| agui.contains_key(*key))).cloned();
        let told = told.map(|mut told| {
            told.retain(|key, _| key != ASKED_INPUT && key != TOLD_NAMES);
            told
        });
        self.abandoned_call = false;
        self.calls.clear();
        let mut started = RunStarted::new(&*self.thread_id, &*self.run_id);
        started.protocol_version = Some(PROTOCOL_VERSION.to_owned());
        out.push(merge(frame, Event::RunStarted(started), told.as_ref().or(agui))?);
        Ok(())
    }

    /// The input that the exchange was asked which the last `RUN_STARTED` began, where its echo says something else.
    pub fn asked(&self) -> Option<RunAgentInput> {
        let input = self.input.as_ref().filter(|_| self.echoes_other)?;
        RunAgentInput::decode_value(input.clone()).ok().map(|(input, _)| input)
    }

    fn run_end(&mut self, frame: &Frame, end: &RunEnd, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let mut said = agui(&end.extra).cloned().unwrap_or_default();
        // Earlier exchanges have reported their own usage; this one's is apart where there were any.
        let own = account(Some(&said), EXCHANGE_USAGE)
            .map_err(|e| ProjectionError::Event { seq: frame.seq, problem: e.to_string() })?;
        said.shift_remove(EXCHANGE_USAGE);
        let usage = all_to_agui(own.as_deref().or(end.usage.as_deref()));
        let was_in_exchange = std::mem::replace(&mut self.in_exchange, false);
        if end.status == EndStatus::Failed {
            return self.failed(frame, end, usage, out);
        }
        if !was_in_exchange {
            // The exchange had ended before the run was stopped, and after RUN_FINISHED no second one may come.
            return Ok(());
        }
        let mut finished = RunFinished::new(&*self.thread_id, &*self.run_id);
        finished.usage = usage;
        if end.status == EndStatus::Cancelled {
            finished.outcome = Some(RunFinishedOutcome::Cancelled);
        }
        let mut finished = merge(frame, Event::RunFinished(finished), Some(&said))?;
        if let Event::RunFinished(finished) = &mut finished {
            self.name_pending_calls(finished);
        }
        out.push(finished);
        Ok(())
    }

    fn failed(
        &mut self,
        frame: &Frame,
        end: &RunEnd,
        usage: Option<Vec<runwire_agui::TokenUsage>>,
        out: &mut Vec<Event>,
    ) -> Result<(), ProjectionError> {
        let Some(error) = &self.error else {
            let message = end.failure_detail.clone().unwrap_or_else(|| "the run failed".to_owned());
            let mut event = RunError::new(message);
            event.code.clone_from(&end.failure_class);
            event.usage = usage;
            out.push(event.into());
            return Ok(());
        };
        let mut event = RunError::new(&*error.message);
        event.usage = usage;
        // What an upstream agent reported keeps its own code, or none.
        let Some(said) = agui(&error.extra) else {
            event.code = Some(error.code.as_str().to_owned());
            out.push(event.into());
            return Ok(());
        };
        let mut said = said.clone();
        if let Some(Value::Object(finished)) = said.shift_remove(AFTER_FINISH) {
            // Two events of one run, each with the account that it gave itself.
            event.usage = None;
            let plain = RunFinished::new(&*self.thread_id, &*self.run_id);
            out.push(merge(frame, plain.into(), Some(&finished))?);
        }
        out.push(merge(frame, event.into(), Some(&said))?);
        Ok(())
    }

    fn interrupted(&mut self, frame: &Frame, out: &mut Vec<Event>) -> Result<(), ProjectionError> {
        let Some(suspend) = self.suspend.take() else { return Ok(()) };
        let problem = |e: serde_json::Error| ProjectionError::Event { seq: frame.seq, problem: e.to_string() };
        let interrupts = suspend.resume_contract.get("interrupts").cloned().unwrap_or_else(|| json!([]));
        let interrupts: Vec<Interrupt> = serde_json::from_value(interrupts).map_err(problem)?;
        self.close_for_interrupt(frame, &interrupts, out)?;
        let mut finished = RunFinished::new(&*self.thread_id, &*self.run_id);
        finished.outcome = Some(RunFinishedOutcome::Interrupt { interrupts });
        let mut rest = agui(&suspend.extra).cloned().unwrap_or_default();
        finished.usage = all_to_agui(account(Some(&rest), EXCHANGE_USAGE).map_err(problem)?.as_deref());
        rest.shift_remove(EXCHANGE_USAGE);
        out.push(merge(frame, Event::RunFinished(finished), Some(&rest))?);
        self.in_exchange = false;
        Ok(())
    }

    /// An id that no other run of the conversation uses.
    fn scoped(&self, frame: &Frame, id: &str) -> String {
        format!("{}.{id}", frame.run_id)
    }
}

fn notice_event(frame: &Frame, notice: &Notice) -> Result<Event, ProjectionError> {
    if notice.code.starts_with("agui.") {
        let attributes = notice.attributes.clone().unwrap_or_default();
        return event_from(frame, Value::Object(attributes));
    }
    let mut value = Map::new();
    value.insert("level".into(), notice.level.as_str().into());
    value.insert("code".into(), notice.code.clone().into());
    value.insert("message".into(), notice.message.clone().into());
    if let Some(attributes) = &notice.attributes {
        value.insert("attributes".into(), Value::Object(attributes.clone()));
    }
    Ok(Custom::new(NOTICE, Value::Object(value)).into())
}

fn segment_id(frame: &Frame) -> Result<&str, ProjectionError> {
    let missing = || ProjectionError::Segment { seq: frame.seq, segment: String::new() };
    frame.segment_id.as_ref().map(SegmentId::as_str).ok_or_else(missing)
}

/// The event with the members that its frame carried under `agui`.
fn merge(frame: &Frame, event: Event, agui: Option<&Map<String, Value>>) -> Result<Event, ProjectionError> {
    let Some(agui) = agui.filter(|a| !a.is_empty()) else { return Ok(event) };
    let mut members = crate::ingest::members(&event);
    for (key, value) in agui {
        members.insert(key.clone(), value.clone());
    }
    event_from(frame, Value::Object(members))
}

fn event_from(frame: &Frame, value: Value) -> Result<Event, ProjectionError> {
    Event::from_value(value).map_err(|e| ProjectionError::Event { seq: frame.seq, problem: e.to_string() })
}
