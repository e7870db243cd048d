//! Legal logs, one for each way that a run can go, and the laws of the validator over random ones: it takes every legal
//! log, and of a log with one frame dropped, doubled, swapped or renumbered it says what the rules say.

#![allow(clippy::unwrap_used)]

mod log_rules;
mod run_log;
mod run_walk;

use proptest::prelude::*;
use proptest::sample::Index;
use run_log::*;
use runwire_frame::RunStatus::{Cancelled, Cancelling, Completed, Failed, Queued, Retrying, Running, Suspended};
use runwire_frame::SegmentKind::{Agent, Message, Model, Reasoning, Step, Tool};
use runwire_frame::{EndStatus, Frame, LogViolation, SegmentStatus, Usage};

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

fn usage(provider: &str, model: &str) -> Usage {
    Usage { provider: Some(provider.into()), model: Some(model.into()), input_tokens: Some(1), ..Usage::default() }
}

#[track_caller]
fn is_legal(log: &[Frame]) {
    assert_eq!(verdict(log), Ok(()));
    assert_eq!(log_rules::broken(log), None, "the reference rules agree");
    let bodies: Vec<Frame> = log.iter().map(|frame| Frame::decode(&frame.encode()).unwrap()).collect();
    assert_eq!(verdict(&bodies), Ok(()), "as read back from its bodies");
}

#[test]
fn legal_a_run_that_answers_with_reasoning_a_tool_and_text() {
    is_legal(&after_begun(
        [
            open("step", Step),
            open_inside("model", Model, Some("step")),
            open_inside("think", Reasoning, Some("model")),
            thinking("think"),
            close("think"),
            open_inside("tool", Tool, Some("model")),
            call("tool"),
            call("tool"),
            close("model"),
            result("tool"),
            close("tool"),
            close("step"),
            notice(),
            open("child", Agent),
            open_inside("message", Message, Some("child")),
            text("message"),
            text("message"),
            close("message"),
            close("child"),
        ]
        .into_iter()
        .chain(completed()),
    ));
}

#[test]
fn legal_text_and_reasoning_in_the_model_segment_that_wrote_them() {
    is_legal(&after_begun(
        [open("model", Model), thinking("model"), text("model"), close("model")].into_iter().chain(completed()),
    ));
}

#[test]
fn legal_interleaved_segments_that_close_in_any_order() {
    is_legal(&after_begun(
        [open("a", Message), open("b", Message), text("a"), text("b"), close("a"), text("b"), close("b")]
            .into_iter()
            .chain(completed()),
    ));
}

#[test]
fn legal_a_failed_attempt_with_a_retry_and_then_a_completed_one() {
    is_legal(&after_begun(
        [
            open("a", Message),
            text("a"),
            error(),
            close_as("a", SegmentStatus::Abandoned),
            status(Running, Retrying),
            start(2),
            status(Retrying, Running),
            open("b", Message),
            text("b"),
            close("b"),
        ]
        .into_iter()
        .chain(completed()),
    ));
}

#[test]
fn legal_notices_and_errors_while_the_next_attempt_is_awaited() {
    is_legal(&after_begun(
        [error(), status(Running, Retrying), notice(), error(), start(2), status(Retrying, Running)]
            .into_iter()
            .chain(completed()),
    ));
}

#[test]
fn legal_a_run_cancelled_in_each_status_that_can_be() {
    let cancelled = |from| [status(from, Cancelling), status(Cancelling, Cancelled), end(EndStatus::Cancelled)];
    is_legal(&numbered([start(1)].into_iter().chain(cancelled(Queued))));
    is_legal(&after_begun(cancelled(Running)));
    is_legal(&after_begun([suspend(), status(Running, Suspended)].into_iter().chain(cancelled(Suspended))));
    is_legal(&after_begun([error(), status(Running, Retrying)].into_iter().chain(cancelled(Retrying))));
}

#[test]
fn legal_a_cancelled_run_closes_in_order_within_its_grace_period() {
    is_legal(&after_begun([
        open("a", Message),
        text("a"),
        status(Running, Cancelling),
        text("a"),
        close_as("a", SegmentStatus::Cancelled),
        status(Cancelling, Cancelled),
        end(EndStatus::Cancelled),
    ]));
}

#[test]
fn legal_a_run_stopped_by_a_limit_ends_cancelled_after_its_error() {
    is_legal(&after_begun([error(), status(Running, Cancelled), end(EndStatus::Cancelled)]));
}

#[test]
fn legal_a_suspended_run_that_resumes_twice_with_a_segment_open_across() {
    let pause = || [suspend(), status(Running, Suspended), notice(), resume(), status(Suspended, Running)];
    let frames = [open("step", Step)]
        .into_iter()
        .chain(pause())
        .chain([open("a", Message), text("a"), close("a")])
        .chain(pause())
        .chain([close("step")])
        .chain(completed());
    is_legal(&after_begun(frames));
}

#[test]
fn legal_a_run_that_fails_for_good() {
    is_legal(&after_begun([
        open("a", Model),
        error(),
        close_as("a", SegmentStatus::Failed),
        status(Running, Failed),
        end(EndStatus::Failed),
    ]));
}

#[test]
fn legal_a_transition_that_does_not_say_where_it_comes_from() {
    is_legal(&numbered([
        start(1),
        status_from_unknown(Running),
        status_from_unknown(Completed),
        end(EndStatus::Completed),
    ]));
}

#[test]
fn legal_one_usage_entry_per_provider_and_model() {
    let entries = vec![usage("a", "m"), usage("b", "m"), usage("a", "n"), Usage::default()];
    is_legal(&after_begun([status(Running, Completed), end_with_usage(EndStatus::Completed, Some(entries))]));
}

/// What happens to one frame of a legal log.
#[derive(Clone, Debug)]
enum Mutation {
    Drop(Index),
    Double(Index),
    Swap(Index, Index),
    Renumber(Index, u64),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        index().prop_map(Mutation::Drop),
        index().prop_map(Mutation::Double),
        (index(), index()).prop_map(|(a, b)| Mutation::Swap(a, b)),
        (index(), prop_oneof![0..80_u64, any::<u64>()]).prop_map(|(at, seq)| Mutation::Renumber(at, seq)),
    ]
}

fn mutated(log: &[Frame], mutation: &Mutation) -> Vec<Frame> {
    let mut log = log.to_vec();
    match mutation {
        Mutation::Drop(at) => {
            log.remove(at.index(log.len()));
        }
        Mutation::Double(at) => {
            let at = at.index(log.len());
            log.insert(at, log[at].clone());
        }
        Mutation::Swap(a, b) => {
            let (a, b) = (a.index(log.len()), b.index(log.len()));
            log.swap(a, b);
        }
        Mutation::Renumber(at, seq) => {
            let at = at.index(log.len());
            log[at].seq = *seq;
        }
    }
    log
}

fn renumbered(log: &[Frame]) -> Vec<Frame> {
    log.iter().zip(1..).map(|(frame, seq)| Frame { seq, ..frame.clone() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_legal_log_is_taken(choices in run_walk::choices()) {
        let log = run_walk::log(&choices);
        prop_assert_eq!(log_rules::broken(&log), None, "the walk writes legal logs");
        prop_assert_eq!(verdict(&log), Ok(()));
    }

    #[test]
    fn a_lost_doubled_or_misplaced_frame_is_never_silent(choices in run_walk::choices(), mutation in mutation()) {
        let log = run_walk::log(&choices);
        let bad = mutated(&log, &mutation);
        let last_lost = bad.len() < log.len() && bad[..] == log[..bad.len()];
        match verdict(&bad) {
            Ok(()) => prop_assert_eq!(&bad, &log, "{:?} changed the log and was taken", mutation),
            Err(LogViolation::Unfinished { head }) => prop_assert!(last_lost && head == bad.len() as u64),
            Err(violation) => prop_assert!(matches!(violation, LogViolation::Order { .. }), "{}", violation),
        }
    }

    #[test]
    fn a_renumbered_mutation_is_refused_or_still_legal_by_the_rules(
        choices in run_walk::choices(),
        mutation in mutation(),
    ) {
        let bad = renumbered(&mutated(&run_walk::log(&choices), &mutation));
        match (log_rules::broken(&bad), verdict(&bad)) {
            (None, Ok(())) | (Some(_), Err(_)) => {}
            (None, Err(violation)) => prop_assert!(false, "legal, and refused: {violation}\n{}", log_rules::lines(&bad)),
            (Some(rule), Ok(())) => prop_assert!(false, "taken although {rule}\n{}", log_rules::lines(&bad)),
        }
    }
}
