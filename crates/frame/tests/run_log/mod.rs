//! Logs in few words: each function is one frame without its number, and [`numbered`] makes a log of them.

#![allow(dead_code, reason = "each test program uses its own part of it")]

use runwire_frame::{
    Data, EndStatus, ErrorCode, ErrorData, Frame, LogValidator, LogViolation, Notice, NoticeLevel, Resume, RunEnd,
    RunStart, RunStatus, RunStatusChange, SegmentEnd, SegmentId, SegmentKind, SegmentStart, SegmentStatus, Suspend,
    SuspendKind, TextDelta, ThinkingDelta, Timestamp, ToolCall, ToolResult, Usage,
};
use serde_json::Map;

/// What a frame says and the segment that it names.
pub type Entry = (Option<SegmentId>, Data);

/// The log of `run_1` with these frames, numbered from 1.
pub fn numbered(entries: impl IntoIterator<Item = Entry>) -> Vec<Frame> {
    let frame = |(seq, (segment_id, data))| Frame {
        seq,
        run_id: "run_1".into(),
        ts: Timestamp::from_unix_millis(1_800_000_000_000),
        segment_id,
        data,
    };
    (1..).zip(entries).map(frame).collect()
}

/// What the validator says of a whole log.
pub fn verdict(log: &[Frame]) -> Result<(), LogViolation> {
    let mut validator = LogValidator::new();
    log.iter().try_for_each(|frame| validator.push(frame))?;
    validator.finish()
}

pub fn start(attempt: u32) -> Entry {
    let known = |text: &str| Some(text.to_owned());
    let data = RunStart {
        agent_id: "demo".into(),
        agent_revision_id: None,
        session_id: known("ses_1"),
        lane: known("default"),
        trigger_kind: known("api"),
        attempt,
        extra: Map::new(),
    };
    (None, Data::RunStart(data))
}

pub fn status(previous: RunStatus, status: RunStatus) -> Entry {
    (None, Data::RunStatus(RunStatusChange { status, previous: Some(previous), extra: Map::new() }))
}

/// A transition that does not say where it comes from.
pub fn status_from_unknown(status: RunStatus) -> Entry {
    (None, Data::RunStatus(RunStatusChange { status, previous: None, extra: Map::new() }))
}

pub fn end(status: EndStatus) -> Entry {
    end_with_usage(status, None)
}

pub fn end_with_usage(status: EndStatus, usage: Option<Vec<Usage>>) -> Entry {
    let data = RunEnd {
        status,
        usage,
        cost: None,
        duration_ms: Some(5),
        failure_class: None,
        failure_detail: None,
        extra: Map::new(),
    };
    (None, Data::RunEnd(data))
}

pub fn open(segment: &str, kind: SegmentKind) -> Entry {
    open_inside(segment, kind, None)
}

pub fn open_inside(segment: &str, kind: SegmentKind, parent: Option<&str>) -> Entry {
    let data = SegmentStart {
        kind,
        name: None,
        parent_segment_id: parent.map(str::to_owned),
        group_key: None,
        model_ref: None,
        tool_slug: None,
        child_run_id: None,
        extra: Map::new(),
    };
    (Some(segment.into()), Data::SegmentStart(data))
}

pub fn close(segment: &str) -> Entry {
    close_as(segment, SegmentStatus::Completed)
}

pub fn close_as(segment: &str, status: SegmentStatus) -> Entry {
    let data = SegmentEnd {
        status,
        duration_ms: Some(1),
        usage: None,
        cost: None,
        finish_reason: None,
        error: None,
        extra: Map::new(),
    };
    (Some(segment.into()), Data::SegmentEnd(data))
}

pub fn text(segment: &str) -> Entry {
    (Some(segment.into()), Data::TextDelta(TextDelta::new("Hello".into())))
}

pub fn thinking(segment: &str) -> Entry {
    (Some(segment.into()), Data::ThinkingDelta(ThinkingDelta::new("Hm".into())))
}

pub fn call(segment: &str) -> Entry {
    let data = ToolCall {
        tool_call_id: "call_1".into(),
        tool_slug: "get_weather".into(),
        arguments_delta: Some("{}".into()),
        arguments: None,
        extra: Map::new(),
    };
    (Some(segment.into()), Data::ToolCall(data))
}

pub fn result(segment: &str) -> Entry {
    let data = ToolResult {
        tool_call_id: "call_1".into(),
        ok: true,
        output_preview: Some("sunny".into()),
        truncated: false,
        bytes: 5,
        extra: Map::new(),
    };
    (Some(segment.into()), Data::ToolResult(data))
}

pub fn suspend() -> Entry {
    let data = Suspend {
        kind: SuspendKind::Approval,
        resume_contract: Map::new(),
        prompt: None,
        deadline_at: None,
        extra: Map::new(),
    };
    (None, Data::Suspend(data))
}

pub fn resume() -> Entry {
    let data = Resume { kind: SuspendKind::Approval, resolved_by: Some("deadline".into()), extra: Map::new() };
    (None, Data::Resume(data))
}

pub fn notice() -> Entry {
    let data = Notice {
        level: NoticeLevel::Info,
        code: "cache_skipped".into(),
        message: "the cache was skipped".into(),
        attributes: None,
        extra: Map::new(),
    };
    (None, Data::Notice(data))
}

pub fn error() -> Entry {
    let data = ErrorData {
        code: ErrorCode::ModelError,
        message: "the model answered 500".into(),
        retryable: true,
        extra: Map::new(),
    };
    (None, Data::Error(data))
}
