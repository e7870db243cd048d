//! What a run's log says so far: the part of the state that continues across attempts, suspensions and restarts.
//!
//! A [`LogState`] is a fold over the log's frames, so that it can be built from a stored log as well as kept while
//! recording. Recording and restoring go through the same [`LogState::apply`]: they cannot disagree.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use runwire_agui::UsageLedger;
use runwire_frame::{
    Data, Frame, RunStart, RunStatus, SegmentId, SegmentKind, SegmentStart, Suspend, SuspendKind, Timestamp, Usage,
};
use serde_json::{Map, Value};

use crate::usage::{ATTEMPT_USAGE, EXCHANGE_USAGE, account, add_all, summed};

/// Under `agui` of a tool's `segment.start`: which call it is.
pub(crate) const TOOL_CALL_ID: &str = "toolCallId";

/// A segment that has started and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenSegment {
    pub id: SegmentId,
    pub started_at: Timestamp,
    /// Whether its first delta is in the log; later ones may wait to be joined.
    pub has_delta: bool,
    pub tool: Option<ToolState>,
    /// The innermost agent segment that it is part of, itself included.
    pub agent: Option<SegmentId>,
    /// The run that it stands for, where a child agent is one of its own.
    pub child_run_id: Option<String>,
}

/// A tool call of the current exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub id: String,
    /// The agent segment whose call it is.
    pub agent: Option<SegmentId>,
    /// The attempt that made it last.
    pub attempt: u32,
    pub answered: bool,
}

/// Where the tool call of a `tool` segment stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolState {
    pub call_id: String,
    pub slug: String,
    pub arguments: String,
    pub arguments_complete: bool,
    pub answered: bool,
}

/// A fold over a run's log: what a writer must know to continue it.
#[derive(Clone, Debug, PartialEq)]
pub struct LogState {
    pub(crate) run_id: Arc<str>,
    pub(crate) head: u64,
    pub(crate) last_ts: Timestamp,
    pub(crate) status: RunStatus,
    pub(crate) attempt: u32,
    /// What the last `run.start` said.
    pub(crate) start: Option<RunStart>,
    /// Whether the attempt has begun and is not given up for the next.
    pub(crate) in_attempt: bool,
    pub(crate) started_at: Option<Timestamp>,
    /// By number, so that closing in reverse closes what is inside before what is around it.
    pub(crate) open: BTreeMap<u64, OpenSegment>,
    pub(crate) last_segment: u64,
    /// The tool calls that the exchange has made, in order, and where each stands among them.
    pub(crate) calls: Vec<Call>,
    pub(crate) call_places: HashMap<String, usize>,
    /// What the exchanges that are over used: each reported its own.
    pub(crate) earlier_usage: UsageLedger,
    /// What the segments of the current exchange used, over all of its attempts.
    pub(crate) exchange_usage: UsageLedger,
    /// How many model calls the run has opened, over all of its attempts and exchanges.
    pub(crate) model_calls: u64,
    /// How many segments of child runs it has opened, over all of its attempts and exchanges.
    pub(crate) children: u64,
    /// How long it was executed before `running_since`, in milliseconds.
    pub(crate) executed_ms: u64,
    /// Since when it is executed: not while it waits for an answer or for its next attempt.
    pub(crate) running_since: Option<Timestamp>,
    pub(crate) suspend_kind: Option<SuspendKind>,
    /// Code and message of the last `error` frame.
    pub(crate) last_error: Option<(String, String)>,
    pub(crate) ended: bool,
}

/// A tool call that waits for its result, as the log recorded it: never as a client tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// The call.
    pub tool_call_id: String,
    /// The tool.
    pub tool_slug: String,
    /// The arguments as far as they were written: JSON, when they are complete.
    pub arguments: String,
    /// Whether they are complete.
    pub arguments_complete: bool,
}

/// A frame cannot follow the log so far.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogStateError {
    /// A position is missing or repeated.
    #[error("frame {got} of run `{run_id}` stands where frame {expected} belongs")]
    Order {
        /// The run.
        run_id: Arc<str>,
        /// The position that is due.
        expected: u64,
        /// The position that came.
        got: u64,
    },
    /// A segment's name is not one that this writer gives.
    #[error("frame {seq} names segment `{segment}`, which is no segment that this log opened")]
    Segment {
        /// The frame.
        seq: u64,
        /// The name.
        segment: String,
    },
    /// A tool's frame stands in a segment whose opening names no call.
    #[error("frame {seq} needs the tool call of segment `{segment}`, whose opening names none")]
    Tool {
        /// The frame.
        seq: u64,
        /// The segment.
        segment: String,
    },
    /// The account of an exchange is no list of usage entries.
    #[error("frame {seq} does not hold the usage of its exchange that it says it does: {problem}")]
    Usage {
        /// The frame.
        seq: u64,
        /// What is wrong.
        problem: String,
    },
}

impl LogState {
    /// The state of a run whose log is still empty.
    pub fn new(run_id: impl Into<Arc<str>>) -> LogState {
        LogState {
            run_id: run_id.into(),
            head: 0,
            last_ts: Timestamp::from_unix_millis(i64::MIN),
            status: RunStatus::Queued,
            attempt: 0,
            start: None,
            in_attempt: false,
            started_at: None,
            open: BTreeMap::new(),
            last_segment: 0,
            calls: Vec::new(),
            call_places: HashMap::new(),
            earlier_usage: UsageLedger::default(),
            exchange_usage: UsageLedger::default(),
            model_calls: 0,
            children: 0,
            executed_ms: 0,
            running_since: None,
            suspend_kind: None,
            last_error: None,
            ended: false,
        }
    }

    /// The last position in the log; 0 while it is empty.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// When the last frame was recorded.
    pub fn last_ts(&self) -> Timestamp {
        self.last_ts
    }

    /// Where the run stands.
    pub fn status(&self) -> RunStatus {
        self.status
    }

    /// The current attempt; 0 before the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether an attempt has failed, another is to follow, and has not begun.
    pub fn between_attempts(&self) -> bool {
        self.status == RunStatus::Retrying && !self.in_attempt
    }

    /// Whether the log has its `run.end`.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether the log has opened a segment of that name.
    pub fn has_opened(&self, segment: &SegmentId) -> bool {
        number_of(segment).is_some_and(|number| (1..=self.last_segment).contains(&number))
    }

    /// The innermost agent segment around an open segment, itself included; `None` also for one that has ended.
    pub fn agent_around(&self, segment: &SegmentId) -> Option<&SegmentId> {
        self.open.get(&number_of(segment)?)?.agent.as_ref()
    }

    /// Whether the current attempt at the exchange has made a tool call of that id, and if so, the agent segment whose call
    /// it was. What an attempt made that was given up is no matter of this one's.
    pub fn call_made(&self, tool_call_id: &str) -> Option<Option<&SegmentId>> {
        let call = &self.calls[*self.call_places.get(tool_call_id)?];
        (call.attempt == self.attempt).then_some(call.agent.as_ref())
    }

    /// The tool calls that the current exchange has made and not answered, in the order in which they were made.
    pub fn pending_calls(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter(|call| !call.answered).map(|call| call.id.as_str())
    }

    /// How many model calls the run has opened, over all of its attempts and exchanges.
    pub fn model_calls(&self) -> u64 {
        self.model_calls
    }

    /// Whether it has opened the segment of a child run, in any of its attempts and exchanges.
    pub fn has_children(&self) -> bool {
        self.children > 0
    }

    /// What the run itself has used so far, one entry per provider and model, over all of its attempts and exchanges.
    pub fn usage(&self) -> Vec<Usage> {
        let mut whole = self.earlier_usage.clone();
        add_all(&mut whole, &summed(&self.exchange_usage).unwrap_or_default());
        summed(&whole).unwrap_or_default()
    }

    /// How long the run has been executed by `now`, in milliseconds: without the time in which it waited for an answer or
    /// for its next attempt.
    pub fn executed_ms(&self, now: Timestamp) -> u64 {
        self.executed_ms + self.running_since.map_or(0, |since| since.millis_until(now))
    }

    /// The open tool calls without a result, as the log has them: what an approval is about.
    pub fn waiting_calls(&self) -> impl Iterator<Item = WaitingCall> {
        let unanswered = |segment: &OpenSegment| segment.tool.clone().filter(|tool| !tool.answered);
        self.open.values().filter_map(unanswered).map(|tool| WaitingCall {
            tool_call_id: tool.call_id,
            tool_slug: tool.slug,
            arguments: tool.arguments,
            arguments_complete: tool.arguments_complete,
        })
    }

    /// Takes the next frame of the log.
    ///
    /// # Errors
    /// When the frame's position is not the next one, or it names a segment that the log did not open.
    pub fn apply(&mut self, frame: &Frame) -> Result<(), LogStateError> {
        if frame.seq != self.head + 1 {
            return Err(LogStateError::Order { run_id: self.run_id.clone(), expected: self.head + 1, got: frame.seq });
        }
        match &frame.data {
            Data::RunStart(start) => {
                self.attempt = start.attempt;
                self.start = Some(start.clone());
                self.in_attempt = true;
                self.started_at.get_or_insert(frame.ts);
            }
            Data::RunStatus(change) => {
                self.status = change.status;
                if let Some(since) = self.running_since.take() {
                    self.executed_ms += since.millis_until(frame.ts);
                }
                self.running_since = (change.status == RunStatus::Running).then_some(frame.ts);
                self.in_attempt &= change.status != RunStatus::Retrying;
            }
            Data::RunEnd(_) => self.ended = true,
            Data::Suspend(suspend) => self.suspend(frame, suspend)?,
            Data::Resume(_) => self.suspend_kind = None,
            Data::SegmentStart(start) => {
                let (number, id) = segment_number(frame)?;
                self.last_segment = self.last_segment.max(number);
                self.model_calls += u64::from(start.kind == SegmentKind::Model);
                self.children += u64::from(start.child_run_id.is_some());
                let tool = tool_state(frame, start)?;
                let agent = match start.kind {
                    SegmentKind::Agent => Some(id.clone()),
                    _ => {
                        start.parent_segment_id.as_deref().and_then(|parent| self.agent_around(&parent.into())).cloned()
                    }
                };
                if let Some(tool) = tool.as_ref().filter(|_| !is_result_only(start)) {
                    self.make_call(tool.call_id.clone(), agent.clone());
                }
                let child_run_id = start.child_run_id.clone();
                let opened = OpenSegment { id, started_at: frame.ts, has_delta: false, tool, agent, child_run_id };
                self.open.insert(number, opened);
            }
            Data::SegmentEnd(end) => {
                let (number, _) = segment_number(frame)?;
                self.open.remove(&number);
                if let Some(usage) = &end.usage {
                    add_all(&mut self.exchange_usage, std::slice::from_ref(usage));
                }
            }
            Data::TextDelta(delta) => self.open_mut(frame)?.has_delta |= !delta.text.is_empty(),
            Data::ThinkingDelta(delta) => self.open_mut(frame)?.has_delta |= !delta.text.is_empty(),
            Data::ToolCall(call) => {
                let tool = self.tool_mut(frame)?;
                if let Some(delta) = &call.arguments_delta {
                    tool.arguments.push_str(delta);
                }
                tool.arguments_complete |= call.arguments.is_some();
            }
            Data::ToolResult(result) => {
                self.tool_mut(frame)?.answered = true;
                if let Some(&place) = self.call_places.get(&result.tool_call_id) {
                    self.calls[place].answered = true;
                }
            }
            Data::Error(error) => {
                add_all(&mut self.exchange_usage, &usage_in(frame, ATTEMPT_USAGE)?);
                self.last_error = Some((error.code.as_str().to_owned(), error.message.clone()));
            }
            Data::Notice(_) => {}
        }
        self.head = frame.seq;
        self.last_ts = self.last_ts.max(frame.ts);
        Ok(())
    }

    /// A call that is made again goes on; its answer, if there was one, stays. In a further attempt it is another one.
    fn make_call(&mut self, id: String, agent: Option<SegmentId>) {
        let call = Call { id, agent, attempt: self.attempt, answered: false };
        match self.call_places.get(&call.id) {
            Some(&place) if self.calls[place].attempt == self.attempt => {}
            Some(&place) => self.calls[place] = call,
            None => {
                self.call_places.insert(call.id.clone(), self.calls.len());
                self.calls.push(call);
            }
        }
    }

    fn open_mut(&mut self, frame: &Frame) -> Result<&mut OpenSegment, LogStateError> {
        let (number, id) = segment_number(frame)?;
        self.open
            .get_mut(&number)
            .ok_or_else(|| LogStateError::Segment { seq: frame.seq, segment: id.as_str().to_owned() })
    }

    fn tool_mut(&mut self, frame: &Frame) -> Result<&mut ToolState, LogStateError> {
        let (_, id) = segment_number(frame)?;
        self.open_mut(frame)?
            .tool
            .as_mut()
            .ok_or_else(|| LogStateError::Tool { seq: frame.seq, segment: id.as_str().to_owned() })
    }

    /// The exchange is over; what it used is in the frame, because the frame alone must be enough to go on from.
    fn suspend(&mut self, frame: &Frame, suspend: &Suspend) -> Result<(), LogStateError> {
        add_all(&mut self.earlier_usage, &usage_in(frame, EXCHANGE_USAGE)?);
        self.exchange_usage = UsageLedger::default();
        // The next exchange makes those calls again that this one could not finish.
        let tools = self.open.values().filter_map(|segment| Some((segment.tool.as_ref()?, &segment.agent)));
        let unfinished = tools.filter(|(tool, _)| !tool.arguments_complete);
        let unfinished: Vec<_> = unfinished.map(|(tool, agent)| (tool.call_id.clone(), agent.clone())).collect();
        self.calls.clear();
        self.call_places.clear();
        for (id, agent) in unfinished {
            self.make_call(id, agent);
        }
        self.suspend_kind = Some(suspend.kind);
        Ok(())
    }
}

/// A `tool` segment's call. Its id is an AG-UI member of the opening frame, which has no key of its own for it.
fn tool_state(frame: &Frame, start: &SegmentStart) -> Result<Option<ToolState>, LogStateError> {
    if start.kind != SegmentKind::Tool {
        return Ok(None);
    }
    let (_, id) = segment_number(frame)?;
    let call_id = agui(&start.extra)
        .and_then(|a| a.get(TOOL_CALL_ID))
        .and_then(Value::as_str)
        .ok_or_else(|| LogStateError::Tool { seq: frame.seq, segment: id.as_str().to_owned() })?;
    Ok(Some(ToolState {
        call_id: call_id.to_owned(),
        slug: start.tool_slug.clone().unwrap_or_default(),
        arguments: String::new(),
        arguments_complete: false,
        answered: false,
    }))
}

fn usage_in(frame: &Frame, key: &str) -> Result<Vec<Usage>, LogStateError> {
    let usage = account(agui(frame.data.extra()), key);
    let usage = usage.map_err(|e| LogStateError::Usage { seq: frame.seq, problem: e.to_string() })?;
    Ok(usage.unwrap_or_default())
}

/// The AG-UI members of a frame's data.
pub(crate) fn agui(extra: &Map<String, Value>) -> Option<&Map<String, Value>> {
    extra.get("agui").and_then(Value::as_object)
}

/// Whether a tool segment holds only a result: its call was made elsewhere.
fn is_result_only(start: &SegmentStart) -> bool {
    agui(&start.extra).and_then(|a| a.get("type")).is_some_and(|name| name == "TOOL_CALL_RESULT")
}

/// Segments are named `seg_1`, `seg_2`, … in the order in which they open.
fn segment_number(frame: &Frame) -> Result<(u64, SegmentId), LogStateError> {
    let id = frame.segment_id.clone().unwrap_or_else(|| SegmentId::from(""));
    match number_of(&id) {
        Some(number) => Ok((number, id)),
        None => Err(LogStateError::Segment { seq: frame.seq, segment: id.as_str().to_owned() }),
    }
}

/// The number in a segment's name, which is spelled in one way only.
fn number_of(id: &SegmentId) -> Option<u64> {
    let number: u64 = id.as_str().strip_prefix("seg_")?.parse().ok()?;
    (id.as_str() == format!("seg_{number}")).then_some(number)
}
