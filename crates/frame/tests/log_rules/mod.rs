//! The rules of a log once more, each as its own look at the whole log and in the words of the seed and the design, so
//! that the validator, which walks it frame by frame, has something to agree with.

use runwire_frame::{Data, Frame, RunStatus, SegmentKind};

/// Whether a whole log keeps a rule.
type Rule = fn(&[Frame]) -> bool;

/// The first rule that the whole log breaks, if any.
pub fn broken(log: &[Frame]) -> Option<&'static str> {
    let rules: [(&str, Rule); 12] = [
        ("`seq` starts at 1 and has no holes", numbered_from_1),
        ("a log is of one run", of_one_run),
        ("`seq` 1 is always a `run.start`", begins_with_start),
        ("the log ends with its only `run.end`", ends_once),
        ("each transition is one of the state machine's and says where it comes from", transitions),
        ("each attempt begins with its own `run.start`, which is the only way to it", attempts),
        (
            "only a run that is running or being cancelled produces anything, and only a suspended one resumes",
            produced_while_running,
        ),
        ("once its last status is reached a run only ends", quiet_when_over),
        ("a segment's content stands between its start and its end", bracketed),
        ("segments are closed where their attempt ends", closed_at_end),
        ("content belongs to a segment of its kind", of_its_kind),
        ("`run.end` says the status that was reached", end_as_reached),
    ];
    rules.into_iter().find(|(_, holds)| !holds(log)).map(|(rule, _)| rule)
}

/// The log in a form that a person can read.
pub fn lines(log: &[Frame]) -> String {
    log.iter().map(|frame| String::from_utf8_lossy(&frame.encode()).into_owned() + "\n").collect()
}

/// Each frame with the status that the run had before it.
fn with_status(log: &[Frame]) -> Vec<(&Frame, RunStatus)> {
    let mut status = RunStatus::Queued;
    log.iter()
        .map(|frame| {
            let before = status;
            if let Data::RunStatus(change) = &frame.data {
                status = change.status;
            }
            (frame, before)
        })
        .collect()
}

fn numbered_from_1(log: &[Frame]) -> bool {
    log.iter().zip(1..).all(|(frame, seq)| frame.seq == seq)
}

fn of_one_run(log: &[Frame]) -> bool {
    log.windows(2).all(|pair| pair[0].run_id == pair[1].run_id)
}

fn begins_with_start(log: &[Frame]) -> bool {
    matches!(log.first(), Some(Frame { data: Data::RunStart(_), .. }))
}

fn ends_once(log: &[Frame]) -> bool {
    log.iter().position(|frame| matches!(frame.data, Data::RunEnd(_))) == log.len().checked_sub(1)
}

fn transitions(log: &[Frame]) -> bool {
    use RunStatus::{Cancelled, Cancelling, Completed, Failed, Queued, Retrying, Running, Suspended};
    with_status(log).into_iter().all(|(frame, before)| {
        let Data::RunStatus(change) = &frame.data else { return true };
        let legal = matches!(
            (before, change.status),
            (Queued | Suspended | Retrying, Running | Cancelling)
                | (Running, Suspended | Retrying | Cancelling | Completed | Failed | Cancelled)
                | (Cancelling, Cancelled)
        );
        legal && change.previous.is_none_or(|previous| previous == before)
    })
}

fn attempts(log: &[Frame]) -> bool {
    let mut due = 1;
    let mut awaited = true;
    for (frame, before) in with_status(log) {
        match &frame.data {
            Data::RunStart(start) => {
                if !awaited || start.attempt != due || (due > 1 && before != RunStatus::Retrying) {
                    return false;
                }
                due += 1;
                awaited = false;
            }
            Data::RunStatus(change) if change.status == RunStatus::Retrying => awaited = true,
            Data::RunStatus(change) if change.status == RunStatus::Running && awaited => return false,
            _ => {}
        }
    }
    true
}

fn produced_while_running(log: &[Frame]) -> bool {
    with_status(log).into_iter().all(|(frame, before)| match &frame.data {
        Data::SegmentStart(_)
        | Data::TextDelta(_)
        | Data::ThinkingDelta(_)
        | Data::ToolCall(_)
        | Data::ToolResult(_)
        | Data::Suspend(_) => matches!(before, RunStatus::Running | RunStatus::Cancelling),
        Data::Resume(_) => before == RunStatus::Suspended,
        _ => true,
    })
}

fn quiet_when_over(log: &[Frame]) -> bool {
    with_status(log).into_iter().all(|(frame, before)| match before {
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => {
            matches!(frame.data, Data::RunEnd(_) | Data::RunStatus(_))
        }
        _ => true,
    })
}

fn bracketed(log: &[Frame]) -> bool {
    log.iter().enumerate().all(|(at, frame)| {
        let Some(segment) = &frame.segment_id else { return true };
        let before = &log[..at];
        let opened = |id: &str| {
            before.iter().any(|f| {
                matches!(f.data, Data::SegmentStart(_)) && f.segment_id.as_ref().is_some_and(|s| s.as_str() == id)
            })
        };
        let ended =
            before.iter().any(|f| matches!(f.data, Data::SegmentEnd(_)) && f.segment_id.as_ref() == Some(segment));
        match &frame.data {
            Data::SegmentStart(start) => {
                !opened(segment.as_str()) && start.parent_segment_id.as_deref().is_none_or(opened)
            }
            _ => opened(segment.as_str()) && !ended,
        }
    })
}

fn closed_at_end(log: &[Frame]) -> bool {
    let count = |log: &[Frame], what: fn(&Data) -> bool| log.iter().filter(|frame| what(&frame.data)).count();
    log.iter().enumerate().all(|(at, frame)| match &frame.data {
        Data::RunEnd(_) | Data::RunStatus(runwire_frame::RunStatusChange { status: RunStatus::Retrying, .. }) => {
            let before = &log[..at];
            count(before, |d| matches!(d, Data::SegmentStart(_))) == count(before, |d| matches!(d, Data::SegmentEnd(_)))
        }
        _ => true,
    })
}

fn of_its_kind(log: &[Frame]) -> bool {
    log.iter().all(|frame| {
        let kind = || {
            log.iter().find_map(|f| match &f.data {
                Data::SegmentStart(start) if f.segment_id == frame.segment_id => Some(start.kind),
                _ => None,
            })
        };
        match &frame.data {
            Data::TextDelta(_) => matches!(kind(), Some(SegmentKind::Message | SegmentKind::Model)),
            Data::ThinkingDelta(_) => matches!(kind(), Some(SegmentKind::Reasoning | SegmentKind::Model)),
            Data::ToolCall(_) | Data::ToolResult(_) => kind() == Some(SegmentKind::Tool),
            _ => true,
        }
    })
}

fn end_as_reached(log: &[Frame]) -> bool {
    with_status(log).into_iter().all(|(frame, before)| match &frame.data {
        Data::RunEnd(end) => RunStatus::from(end.status) == before,
        _ => true,
    })
}
