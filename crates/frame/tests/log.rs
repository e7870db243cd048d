//! Which sequences of frames are no legal log: for each rule a minimal log that breaks it, named after the violation.

#![allow(clippy::unwrap_used)]

mod run_log;

use run_log::*;
use runwire_frame::RunStatus::{Cancelled, Cancelling, Completed, Failed, Queued, Retrying, Running, Suspended};
use runwire_frame::SegmentKind::{Agent, Message, Reasoning, Step, Tool};
use runwire_frame::{Data, EndStatus, Frame, FrameType, LogValidator, LogViolation, RunStatus, SegmentKind, Usage};
use serde_json::{Value, json};

/// The beginning of every ordinary run.
fn begun() -> Vec<Entry> {
    vec![start(1), status(Queued, Running)]
}

fn after_begun(rest: impl IntoIterator<Item = Entry>) -> Vec<Frame> {
    numbered(begun().into_iter().chain(rest))
}

fn completed() -> [Entry; 2] {
    [status(Running, Completed), end(EndStatus::Completed)]
}

/// The log is refused at its last frame, as this violation; and without that frame it breaks no rule so far.
#[track_caller]
fn breaks(log: &[Frame], violation: LogViolation) {
    let mut validator = LogValidator::new();
    let (last, before) = log.split_last().unwrap();
    for frame in before {
        assert_eq!(validator.push(frame), Ok(()), "{} {}", frame.seq, frame.data.frame_type());
    }
    assert_eq!(validator.push(last), Err(violation));
    assert_eq!(validator.head(), before.len() as u64, "a refused frame does not move the validator");
}

fn with_extra((segment, mut data): Entry, key: &str, value: Value) -> Entry {
    let extra = match &mut data {
        Data::TextDelta(data) => &mut data.extra,
        Data::Notice(data) => &mut data.extra,
        Data::RunStatus(data) => &mut data.extra,
        other => panic!("no test puts extra keys on {}", other.frame_type()),
    };
    extra.insert(key.into(), value);
    (segment, data)
}

fn usage(provider: &str, model: &str) -> Usage {
    Usage { provider: Some(provider.into()), model: Some(model.into()), input_tokens: Some(1), ..Usage::default() }
}

#[test]
fn order_a_log_is_numbered_from_1_without_holes_and_repeats() {
    let log = after_begun(completed());
    for (at, seq) in [(0, 0), (0, 2), (1, 1), (1, 3), (2, u64::MAX), (3, 1)] {
        let mut log = log[..=at].to_vec();
        log[at].seq = seq;
        breaks(&log, LogViolation::Order { seq, expected: at as u64 + 1 });
    }
}

#[test]
fn other_run_a_log_is_of_one_run() {
    let mut log = numbered(begun());
    log[1].run_id = "run_2".into();
    breaks(&log, LogViolation::OtherRun { seq: 2, expected: "run_1".into(), found: "run_2".into() });
}

#[test]
fn after_end_nothing_follows_run_end() {
    for (entry, frame_type) in [
        (notice(), FrameType::Notice),
        (error(), FrameType::Error),
        (end(EndStatus::Completed), FrameType::RunEnd),
        (start(2), FrameType::RunStart),
        (status(Completed, Running), FrameType::RunStatus),
        (open("z", Message), FrameType::SegmentStart),
        (resume(), FrameType::Resume),
    ] {
        let log = after_begun(completed().into_iter().chain([entry]));
        breaks(&log, LogViolation::AfterEnd { seq: 5, frame_type, end: 4 });
    }
}

#[test]
fn start_missing_the_first_frame_of_a_log_is_a_run_start() {
    for (entry, frame_type) in [
        (status(Queued, Running), FrameType::RunStatus),
        (open("a", Message), FrameType::SegmentStart),
        (text("a"), FrameType::TextDelta),
        (notice(), FrameType::Notice),
        (error(), FrameType::Error),
        (resume(), FrameType::Resume),
        (end(EndStatus::Failed), FrameType::RunEnd),
    ] {
        breaks(&numbered([entry]), LogViolation::StartMissing { seq: 1, frame_type });
    }
}

#[test]
fn start_missing_a_retried_attempt_begins_with_a_run_start_too() {
    for (entry, frame_type) in [
        (open("a", Message), FrameType::SegmentStart),
        (text("a"), FrameType::TextDelta),
        (suspend(), FrameType::Suspend),
        (resume(), FrameType::Resume),
    ] {
        let log = after_begun([status(Running, Retrying), entry]);
        breaks(&log, LogViolation::StartMissing { seq: 4, frame_type });
    }
}

#[test]
fn start_missing_a_retried_run_is_not_running_before_its_run_start() {
    let log = after_begun([status(Running, Retrying), status(Retrying, Running)]);
    breaks(&log, LogViolation::StartMissing { seq: 4, frame_type: FrameType::RunStatus });
}

#[test]
fn start_inside_attempt_an_attempt_begins_only_at_the_top_or_after_retrying() {
    breaks(&numbered([start(1), start(2)]), LogViolation::StartInsideAttempt { seq: 2, attempt: 1 });
    breaks(&after_begun([start(2)]), LogViolation::StartInsideAttempt { seq: 3, attempt: 1 });
    let twice = after_begun([status(Running, Retrying), start(2), start(3)]);
    breaks(&twice, LogViolation::StartInsideAttempt { seq: 5, attempt: 2 });
}

#[test]
fn attempt_number_attempts_are_counted_from_1() {
    for found in [0, 2, u32::MAX] {
        breaks(&numbered([start(found)]), LogViolation::AttemptNumber { seq: 1, expected: 1, found });
    }
    for found in [0, 1, 3] {
        let log = after_begun([status(Running, Retrying), start(found)]);
        breaks(&log, LogViolation::AttemptNumber { seq: 4, expected: 2, found });
    }
}

#[test]
fn previous_status_is_the_one_that_the_last_transition_reached() {
    breaks(
        &numbered([start(1), status(Running, Completed)]),
        LogViolation::PreviousStatus { seq: 2, expected: Queued, found: Running },
    );
    breaks(
        &after_begun([status(Queued, Completed)]),
        LogViolation::PreviousStatus { seq: 3, expected: Running, found: Queued },
    );
}

#[test]
fn transition_every_other_than_those_of_the_state_machine_is_refused() {
    let to = |path: &[RunStatus], next| {
        let mut entries = vec![start(1)];
        let mut from = Queued;
        for &step in path.iter().chain([&next]) {
            entries.push(status(from, step));
            from = step;
        }
        numbered(entries)
    };
    for (path, illegal) in [
        (&[][..], &[Queued, Suspended, Retrying, Completed, Failed, Cancelled][..]),
        (&[Running], &[Queued, Running]),
        (&[Running, Suspended], &[Queued, Suspended, Retrying, Completed, Cancelled]),
        (&[Running, Retrying], &[Queued, Suspended, Retrying, Completed, Cancelled]),
        (&[Running, Cancelling], &[Queued, Running, Suspended, Retrying, Cancelling]),
        (&[Running, Completed], &[Queued, Running, Suspended, Retrying, Cancelling, Completed, Failed, Cancelled]),
        (&[Running, Failed], &[Queued, Running, Suspended, Retrying, Cancelling, Completed, Failed, Cancelled]),
        (&[Running, Cancelled], &[Queued, Running, Suspended, Retrying, Cancelling, Completed, Failed, Cancelled]),
    ] {
        let from = *path.last().unwrap_or(&Queued);
        for &next in illegal {
            let log = to(path, next);
            breaks(&log, LogViolation::Transition { seq: log.len() as u64, from, to: next });
        }
    }
}

#[test]
fn not_running_a_suspended_run_produces_nothing() {
    for (entry, frame_type) in [
        (open("b", Message), FrameType::SegmentStart),
        (text("a"), FrameType::TextDelta),
        (suspend(), FrameType::Suspend),
    ] {
        let log = after_begun([open("a", Message), suspend(), status(Running, Suspended), entry]);
        breaks(&log, LogViolation::NotRunning { seq: 6, frame_type, status: Suspended });
    }
    let resumed = after_begun([open("a", Message), suspend(), status(Running, Suspended), resume(), text("a")]);
    breaks(&resumed, LogViolation::NotRunning { seq: 7, frame_type: FrameType::TextDelta, status: Suspended });
}

#[test]
fn not_running_an_ended_run_takes_only_its_run_end() {
    for ended in [Completed, Failed, Cancelled] {
        for (entry, frame_type) in [
            (open("b", Message), FrameType::SegmentStart),
            (notice(), FrameType::Notice),
            (error(), FrameType::Error),
            (suspend(), FrameType::Suspend),
            (resume(), FrameType::Resume),
        ] {
            let log = after_begun([status(Running, ended), entry]);
            breaks(&log, LogViolation::NotRunning { seq: 4, frame_type, status: ended });
        }
    }
}

#[test]
fn not_running_a_queued_run_produces_nothing() {
    let log = numbered([start(1), open("a", Message)]);
    breaks(&log, LogViolation::NotRunning { seq: 2, frame_type: FrameType::SegmentStart, status: Queued });
}

#[test]
fn not_running_a_retried_run_produces_nothing_before_it_is_running_again() {
    let log = after_begun([status(Running, Retrying), start(2), open("a", Message)]);
    breaks(&log, LogViolation::NotRunning { seq: 5, frame_type: FrameType::SegmentStart, status: Retrying });
}

#[test]
fn end_status_is_that_of_the_last_transition() {
    for (reached, said) in
        [(Completed, EndStatus::Failed), (Failed, EndStatus::Cancelled), (Cancelled, EndStatus::Completed)]
    {
        let log = after_begun([status(Running, reached), end(said)]);
        breaks(&log, LogViolation::EndStatus { seq: 4, end: said, status: reached });
    }
    breaks(
        &numbered([start(1), end(EndStatus::Failed)]),
        LogViolation::EndStatus { seq: 2, end: EndStatus::Failed, status: Queued },
    );
    breaks(
        &after_begun([end(EndStatus::Completed)]),
        LogViolation::EndStatus { seq: 3, end: EndStatus::Completed, status: Running },
    );
}

#[test]
fn end_status_no_run_end_for_a_failure_with_a_retry_scheduled() {
    let log = after_begun([error(), status(Running, Retrying), end(EndStatus::Failed)]);
    breaks(&log, LogViolation::EndStatus { seq: 5, end: EndStatus::Failed, status: Retrying });
}

/// A frame of a segment, written against the segment's name.
type Content = fn(&str) -> Entry;

/// Every content frame with a kind of segment that it belongs to.
const CONTENT: [(Content, FrameType, SegmentKind); 4] = [
    (text, FrameType::TextDelta, Message),
    (thinking, FrameType::ThinkingDelta, Reasoning),
    (call, FrameType::ToolCall, Tool),
    (result, FrameType::ToolResult, Tool),
];

#[test]
fn segment_not_started_a_segment_start_precedes_any_content() {
    let closing: (Content, FrameType, _) = (close, FrameType::SegmentEnd, Message);
    for (content, frame_type, kind) in CONTENT.into_iter().chain([closing]) {
        let violation = |seq| LogViolation::SegmentNotStarted { seq, frame_type, segment: "a".into() };
        breaks(&after_begun([content("a")]), violation(3));
        breaks(&after_begun([open("b", kind), content("a")]), violation(4));
    }
}

#[test]
fn segment_ended_a_closed_segment_takes_nothing_more() {
    let closing: (Content, FrameType, _) = (close, FrameType::SegmentEnd, Message);
    for (content, frame_type, kind) in CONTENT.into_iter().chain([closing]) {
        let log = after_begun([open("a", kind), close("a"), content("a")]);
        breaks(&log, LogViolation::SegmentEnded { seq: 5, frame_type, segment: "a".into() });
    }
}

#[test]
fn segment_repeated_a_segments_name_is_used_once_in_a_run() {
    let violation = |seq| LogViolation::SegmentRepeated { seq, segment: "a".into() };
    breaks(&after_begun([open("a", Message), open("a", Message)]), violation(4));
    breaks(&after_begun([open("a", Message), close("a"), open("a", Message)]), violation(5));
    let next_attempt = [status(Running, Retrying), start(2), status(Retrying, Running), open("a", Message)];
    breaks(&after_begun([open("a", Message), close("a")].into_iter().chain(next_attempt)), violation(8));
}

#[test]
fn parent_not_started_a_parent_is_a_segment_that_was_opened_before() {
    let violation = |seq, parent: &str| LogViolation::ParentNotStarted { seq, parent: parent.into() };
    breaks(&after_begun([open_inside("a", Message, Some("b"))]), violation(3, "b"));
    breaks(&after_begun([open_inside("a", Message, Some("a"))]), violation(3, "a"));
}

#[test]
fn content_of_other_kind_output_reasoning_and_tools_have_their_own_segments() {
    for (content, frame_type, kinds) in [
        (text as Content, FrameType::TextDelta, [Tool, Reasoning]),
        (thinking, FrameType::ThinkingDelta, [Tool, Message]),
        (call, FrameType::ToolCall, [Message, Reasoning]),
        (result, FrameType::ToolResult, [Message, Reasoning]),
    ] {
        for kind in kinds.into_iter().chain([Step, Agent]) {
            let log = after_begun([open("a", kind), content("a")]);
            breaks(&log, LogViolation::ContentOfOtherKind { seq: 4, frame_type, kind });
        }
    }
}

#[test]
fn segment_open_at_end_an_attempt_that_is_retried_closes_its_segments_first() {
    let log = after_begun([open("b", Message), open("a", Message), status(Running, Retrying)]);
    breaks(&log, LogViolation::SegmentOpenAtEnd { seq: 5, segment: "a".into() });
}

#[test]
fn segment_open_at_end_a_run_closes_its_segments_before_it_ends() {
    for (reached, said) in
        [(Completed, EndStatus::Completed), (Failed, EndStatus::Failed), (Cancelled, EndStatus::Cancelled)]
    {
        let log = after_begun([open("a", Message), status(Running, reached), end(said)]);
        assert!(
            matches!(verdict(&log), Err(LogViolation::SegmentOpenAtEnd { segment, .. }) if segment.as_str() == "a"),
            "{:?}",
            verdict(&log)
        );
    }
}

#[test]
fn usage_elsewhere_usage_and_cost_ride_on_segment_end_and_run_end_only() {
    for key in ["usage", "cost"] {
        for value in [json!({"input_tokens": 1}), Value::Null] {
            for (entry, frame_type) in [
                (with_extra(text("a"), key, value.clone()), FrameType::TextDelta),
                (with_extra(notice(), key, value.clone()), FrameType::Notice),
                (with_extra(status(Running, Suspended), key, value.clone()), FrameType::RunStatus),
            ] {
                let log = after_begun([open("a", Message), entry]);
                breaks(&log, LogViolation::UsageElsewhere { seq: 4, frame_type, key });
            }
        }
    }
}

#[test]
fn usage_repeated_run_end_has_one_entry_per_provider_and_model() {
    for entries in [
        vec![usage("a", "m"), usage("a", "m")],
        vec![usage("a", "m"), usage("b", "m"), usage("a", "m")],
        vec![Usage::default(), Usage::default()],
    ] {
        let log = after_begun([status(Running, Completed), end_with_usage(EndStatus::Completed, Some(entries))]);
        breaks(&log, LogViolation::UsageRepeated { seq: 4 });
    }
}

#[test]
fn resume_without_suspend_only_a_suspended_run_resumes() {
    breaks(&after_begun([resume()]), LogViolation::ResumeWithoutSuspend { seq: 3 });
    breaks(&after_begun([suspend(), resume()]), LogViolation::ResumeWithoutSuspend { seq: 4 });
    let resumed = after_begun([suspend(), status(Running, Suspended), resume(), status(Suspended, Running), resume()]);
    breaks(&resumed, LogViolation::ResumeWithoutSuspend { seq: 7 });
}

#[test]
fn unfinished_a_log_ends_with_run_end() {
    let log = after_begun(completed());
    for head in 0..log.len() {
        assert_eq!(verdict(&log[..head]), Err(LogViolation::Unfinished { head: head as u64 }));
    }
    assert_eq!(verdict(&log), Ok(()));
}

#[test]
fn a_refused_frame_leaves_the_validator_ready_for_the_right_one() {
    let log = after_begun(
        [open("a", Message), text("a"), suspend(), status(Running, Suspended), resume(), status(Suspended, Running)]
            .into_iter()
            .chain([close("a")])
            .chain(completed()),
    );
    let wrong = [
        start(9),
        status(Cancelled, Queued),
        end(EndStatus::Cancelled),
        text("b"),
        close("b"),
        open_inside("b", Tool, Some("c")),
    ];
    let mut validator = LogValidator::new();
    for frame in &log {
        for (segment_id, data) in wrong.clone() {
            assert!(validator.push(&Frame { segment_id, data, ..frame.clone() }).is_err());
        }
        assert!(validator.push(&Frame { seq: frame.seq + 1, ..frame.clone() }).is_err());
        assert_eq!(validator.push(frame), Ok(()));
        assert_eq!(validator.head(), frame.seq);
    }
    assert_eq!(validator.finish(), Ok(()));
}
