//! Which sequences of frames are a legal log.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Data, Frame, FrameType, RunStatus, RunStatusChange, SegmentId, SegmentKind, SegmentStart};

/// The log breaks a rule of the protocol. `seq` is the position of the frame at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the sentence of each variant names")]
pub enum LogViolation {
    /// Frames are numbered from 1 without holes and without repeats.
    #[error("frame {seq} stands where frame {expected} belongs: a log is numbered from 1 without holes")]
    Order { seq: u64, expected: u64 },
    /// A log is of one run.
    #[error("frame {seq} is of run `{found}` in the log of run `{expected}`")]
    OtherRun { seq: u64, expected: Arc<str>, found: Arc<str> },
    /// `run.end` is terminal.
    #[error("frame {seq} ({frame_type}) follows the run.end at {end}, and nothing may")]
    AfterEnd { seq: u64, frame_type: FrameType, end: u64 },
    /// An attempt begins with `run.start`.
    #[error("frame {seq} is a {frame_type} where an attempt begins, which only run.start may do")]
    StartMissing { seq: u64, frame_type: FrameType },
    /// `run.start` begins an attempt, and an attempt begins only at the top or after `retrying`.
    #[error("frame {seq} is a run.start inside of attempt {attempt}")]
    StartInsideAttempt { seq: u64, attempt: u32 },
    /// Attempts are numbered from 1 without holes.
    #[error("frame {seq} starts attempt {found} where attempt {expected} is due")]
    AttemptNumber { seq: u64, expected: u32, found: u32 },
    /// `run.status.previous` is the status until here.
    #[error("frame {seq} says that the run was `{found}`, and it was `{expected}`")]
    PreviousStatus { seq: u64, expected: RunStatus, found: RunStatus },
    /// The state machine has no such transition.
    #[error("frame {seq} takes the run from `{from}` to `{to}`, which is no legal transition")]
    Transition { seq: u64, from: RunStatus, to: RunStatus },
    /// A waiting or ended run produces nothing.
    #[error("frame {seq} ({frame_type}) comes while the run is `{status}`")]
    NotRunning { seq: u64, frame_type: FrameType, status: RunStatus },
    /// `run.end` says the status that the last transition reached.
    #[error("the run.end at {seq} says `{end}`, and the run's last status is `{status}`")]
    EndStatus { seq: u64, end: crate::EndStatus, status: RunStatus },
    /// `segment.start` comes before any content of the segment.
    #[error("frame {seq} ({frame_type}) names segment `{segment}`, which no segment.start opened")]
    SegmentNotStarted { seq: u64, frame_type: FrameType, segment: SegmentId },
    /// A closed segment takes nothing more.
    #[error("frame {seq} ({frame_type}) names segment `{segment}`, which has ended")]
    SegmentEnded { seq: u64, frame_type: FrameType, segment: SegmentId },
    /// A segment's name is used once in a run.
    #[error("frame {seq} opens segment `{segment}` a second time")]
    SegmentRepeated { seq: u64, segment: SegmentId },
    /// A parent is a segment that was opened before.
    #[error("frame {seq} opens a segment inside of `{parent}`, which no segment.start opened")]
    ParentNotStarted { seq: u64, parent: String },
    /// Each content frame has kinds of segment that it can belong to.
    #[error("frame {seq} is a {frame_type} in a segment of kind `{kind}`")]
    ContentOfOtherKind { seq: u64, frame_type: FrameType, kind: SegmentKind },
    /// Every segment is closed before its attempt ends.
    #[error("frame {seq} ends an attempt while segment `{segment}` is open")]
    SegmentOpenAtEnd { seq: u64, segment: SegmentId },
    /// Usage rides on `segment.end`, and summed on `run.end`.
    #[error("frame {seq} ({frame_type}) carries `{key}`, which rides only on segment.end and run.end")]
    UsageElsewhere { seq: u64, frame_type: FrameType, key: &'static str },
    /// `run.end` has one entry per provider and model.
    #[error("the run.end at {seq} has two usage entries for one provider and model")]
    UsageRepeated { seq: u64 },
    /// `resume` answers a `suspend`.
    #[error("frame {seq} is a resume of a run that is not suspended")]
    ResumeWithoutSuspend { seq: u64 },
    /// The log stops without `run.end`. Legal for a run that is still going on.
    #[error("the log stops after frame {head} without a run.end")]
    Unfinished { head: u64 },
}

struct Segment {
    kind: SegmentKind,
    open: bool,
}

/// Reads a run's log frame by frame and says at the first frame which rule it breaks.
///
/// Costs O(1) a frame, and O(open segments) where an attempt ends.
#[derive(Default)]
pub struct LogValidator {
    run_id: Option<Arc<str>>,
    head: u64,
    attempt: u32,
    status: Option<RunStatus>,
    in_attempt: bool,
    ended: Option<u64>,
    segments: HashMap<SegmentId, Segment>,
    open: usize,
}

impl LogValidator {
    /// A validator that expects the log's first frame.
    pub fn new() -> LogValidator {
        LogValidator::default()
    }

    /// The last position that was taken; 0 before the first frame.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Takes the next frame.
    ///
    /// # Errors
    /// The rule that the frame breaks. The validator stays where it was before that frame.
    pub fn push(&mut self, frame: &Frame) -> Result<(), LogViolation> {
        let seq = frame.seq;
        let frame_type = frame.data.frame_type();
        if seq != self.head + 1 {
            return Err(LogViolation::Order { seq, expected: self.head + 1 });
        }
        if let Some(run_id) = &self.run_id
            && **run_id != *frame.run_id
        {
            return Err(LogViolation::OtherRun { seq, expected: run_id.clone(), found: frame.run_id.clone() });
        }
        if let Some(end) = self.ended {
            return Err(LogViolation::AfterEnd { seq, frame_type, end });
        }
        if !self.in_attempt && frame_type != FrameType::RunStart && !self.between_attempts(&frame.data) {
            return Err(LogViolation::StartMissing { seq, frame_type });
        }
        self.check_usage_place(seq, &frame.data)?;
        self.check_running(seq, &frame.data)?;
        match &frame.data {
            Data::RunStart(start) => self.run_start(seq, start.attempt)?,
            Data::RunStatus(change) => self.run_status(seq, change.status, change.previous)?,
            Data::RunEnd(end) => {
                let status = self.status.unwrap_or(RunStatus::Queued);
                if status != RunStatus::from(end.status) {
                    return Err(LogViolation::EndStatus { seq, end: end.status, status });
                }
                self.check_all_closed(seq)?;
                let usage = end.usage.as_deref().unwrap_or_default();
                let repeated =
                    |i: usize| usage[..i].iter().any(|u| u.provider == usage[i].provider && u.model == usage[i].model);
                if (0..usage.len()).any(repeated) {
                    return Err(LogViolation::UsageRepeated { seq });
                }
                self.ended = Some(seq);
            }
            Data::SegmentStart(start) => self.segment_start(seq, frame.segment_id.as_ref(), start)?,
            Data::SegmentEnd(_) => {
                self.segment(seq, frame_type, frame.segment_id.as_ref())?.open = false;
                self.open -= 1;
            }
            Data::TextDelta(_) => self.content(frame, &[SegmentKind::Message, SegmentKind::Model])?,
            Data::ThinkingDelta(_) => self.content(frame, &[SegmentKind::Reasoning, SegmentKind::Model])?,
            Data::ToolCall(_) | Data::ToolResult(_) => self.content(frame, &[SegmentKind::Tool])?,
            Data::Resume(_) => {
                if self.status != Some(RunStatus::Suspended) {
                    return Err(LogViolation::ResumeWithoutSuspend { seq });
                }
            }
            Data::Suspend(_) | Data::Notice(_) | Data::Error(_) => {}
        }
        if self.run_id.is_none() {
            self.run_id = Some(frame.run_id.clone());
        }
        self.head = seq;
        Ok(())
    }

    /// The log stops here.
    ///
    /// # Errors
    /// [`LogViolation::Unfinished`] when its last frame is no `run.end`.
    pub fn finish(&self) -> Result<(), LogViolation> {
        match self.ended {
            Some(_) => Ok(()),
            None => Err(LogViolation::Unfinished { head: self.head }),
        }
    }

    /// While the run waits for its next attempt it can still be stopped, or given up.
    fn between_attempts(&self, data: &Data) -> bool {
        let stops = |change: &RunStatusChange| change.status != RunStatus::Running;
        self.attempt > 0
            && match data {
                Data::RunStatus(change) => stops(change),
                other => matches!(other, Data::RunEnd(_) | Data::Notice(_) | Data::Error(_)),
            }
    }

    fn run_start(&mut self, seq: u64, attempt: u32) -> Result<(), LogViolation> {
        if self.in_attempt {
            return Err(LogViolation::StartInsideAttempt { seq, attempt: self.attempt });
        }
        if attempt != self.attempt + 1 {
            return Err(LogViolation::AttemptNumber { seq, expected: self.attempt + 1, found: attempt });
        }
        self.attempt = attempt;
        self.in_attempt = true;
        Ok(())
    }

    fn run_status(&mut self, seq: u64, to: RunStatus, previous: Option<RunStatus>) -> Result<(), LogViolation> {
        let from = self.status.unwrap_or(RunStatus::Queued);
        if let Some(found) = previous
            && found != from
        {
            return Err(LogViolation::PreviousStatus { seq, expected: from, found });
        }
        if !from.may_become(to) {
            return Err(LogViolation::Transition { seq, from, to });
        }
        if to == RunStatus::Retrying {
            self.check_all_closed(seq)?;
            self.in_attempt = false;
        }
        self.status = Some(to);
        Ok(())
    }

    fn segment_start(
        &mut self,
        seq: u64,
        segment: Option<&SegmentId>,
        start: &SegmentStart,
    ) -> Result<(), LogViolation> {
        let Some(segment) = segment else { return Ok(()) };
        if self.segments.contains_key(segment) {
            return Err(LogViolation::SegmentRepeated { seq, segment: segment.clone() });
        }
        if let Some(parent) = &start.parent_segment_id
            && !self.segments.contains_key(parent.as_str())
        {
            return Err(LogViolation::ParentNotStarted { seq, parent: parent.clone() });
        }
        self.segments.insert(segment.clone(), Segment { kind: start.kind, open: true });
        self.open += 1;
        Ok(())
    }

    fn segment(
        &mut self,
        seq: u64,
        frame_type: FrameType,
        segment: Option<&SegmentId>,
    ) -> Result<&mut Segment, LogViolation> {
        let segment = segment.cloned().unwrap_or_else(|| SegmentId::from(""));
        match self.segments.get_mut(&segment) {
            None => Err(LogViolation::SegmentNotStarted { seq, frame_type, segment }),
            Some(s) if !s.open => Err(LogViolation::SegmentEnded { seq, frame_type, segment }),
            Some(s) => Ok(s),
        }
    }

    fn content(&mut self, frame: &Frame, kinds: &[SegmentKind]) -> Result<(), LogViolation> {
        let frame_type = frame.data.frame_type();
        let kind = self.segment(frame.seq, frame_type, frame.segment_id.as_ref())?.kind;
        if !kinds.contains(&kind) {
            return Err(LogViolation::ContentOfOtherKind { seq: frame.seq, frame_type, kind });
        }
        Ok(())
    }

    fn check_all_closed(&self, seq: u64) -> Result<(), LogViolation> {
        if self.open == 0 {
            return Ok(());
        }
        let first = self.segments.iter().filter(|(_, s)| s.open).map(|(id, _)| id).min();
        match first {
            Some(segment) => Err(LogViolation::SegmentOpenAtEnd { seq, segment: segment.clone() }),
            None => Ok(()),
        }
    }

    /// A run that is not running has no content: it begins, goes on, is stopped or ends.
    fn check_running(&self, seq: u64, data: &Data) -> Result<(), LogViolation> {
        let status = self.status.unwrap_or(RunStatus::Queued);
        let frame_type = data.frame_type();
        let allowed = match status {
            RunStatus::Queued | RunStatus::Retrying => matches!(
                data,
                Data::RunStart(_) | Data::RunStatus(_) | Data::RunEnd(_) | Data::Notice(_) | Data::Error(_)
            ),
            s if s.is_ended() => matches!(data, Data::RunEnd(_) | Data::RunStatus(_)),
            RunStatus::Suspended => matches!(
                data,
                Data::Resume(_) | Data::RunStatus(_) | Data::Notice(_) | Data::Error(_) | Data::SegmentEnd(_)
            ),
            _ => true,
        };
        if allowed { Ok(()) } else { Err(LogViolation::NotRunning { seq, frame_type, status }) }
    }

    fn check_usage_place(&self, seq: u64, data: &Data) -> Result<(), LogViolation> {
        // On segment.end and run.end both are keys of their own, so they never stand among the unknown ones.
        for key in ["usage", "cost"] {
            if data.extra().contains_key(key) {
                return Err(LogViolation::UsageElsewhere { seq, frame_type: data.frame_type(), key });
            }
        }
        Ok(())
    }
}
