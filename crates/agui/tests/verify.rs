//! The rules of order, one stream each that breaks it and the streams that just keep them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use runwire_agui::{
    Consumer, ConsumerOptions, Ending, Event, Reducer, Rule, RunAgentInput, RunEnding, StreamEnd, Truncation, Verifier,
};
use serde_json::{Value, json};

/// Events by a short notation, one a line: the type, then members as `key=value`. A value that reads as JSON is JSON.
fn events(text: &str) -> Vec<Value> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut words = line.split(' ');
            let mut event = json!({ "type": words.next().unwrap() });
            for word in words {
                let (key, value) = word.split_once('=').unwrap();
                event[key] = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            }
            event
        })
        .collect()
}

/// A run around the lines, closed.
fn run(text: &str) -> String {
    format!("RUN_STARTED threadId=t runId=r\n{text}\nRUN_FINISHED threadId=t runId=r")
}

fn consume(stream: &str) -> (Option<(Rule, usize, String)>, StreamEnd) {
    let mut consumer = Consumer::default();
    // The short way to what a client holds judges no otherwise.
    let (mut reducing, mut reducer) = (Consumer::default(), Reducer::new());
    let mut rejected = None;
    for event in events(stream) {
        let reduced = reducing.reduce(&event.to_string(), &mut reducer).map_err(|error| error.violation);
        let pushed = consumer.push_value(event).map(|_| ()).map_err(|error| error.violation);
        assert_eq!(reduced, pushed, "{stream}");
        if let Err(violation) = pushed {
            rejected.get_or_insert((violation.rule, violation.event, violation.message));
        }
    }
    let end = consumer.finish();
    assert_eq!(reducing.finish(), end, "{stream}");
    (rejected, end)
}

/// Streams that break a rule: the rule, the event that breaks it, a word that its message must name, the stream.
fn broken() -> Vec<(Rule, usize, &'static str, String)> {
    let r = |text: &str| run(text);
    let s = str::to_owned;
    vec![
        // events/lifecycle
        (Rule::FirstEvent, 0, "TEXT_MESSAGE_START", s("TEXT_MESSAGE_START messageId=m")),
        (Rule::FirstEvent, 0, "RUN_FINISHED", s("RUN_FINISHED threadId=t runId=r")),
        (Rule::EventAfterFinish, 2, "CUSTOM", r("") + "\nCUSTOM name=n value=1"),
        (Rule::EventAfterFinish, 2, "RUN_FINISHED", r("") + "\nRUN_FINISHED threadId=t runId=r"),
        (Rule::EventAfterError, 1, "RAW", s("RUN_ERROR message=m\nRAW event=1")),
        (Rule::EventAfterError, 1, "RUN_ERROR", s("RUN_ERROR message=m\nRUN_ERROR message=m")),
        (
            Rule::EventAfterError,
            2,
            "RUN_FINISHED",
            s("RUN_STARTED threadId=t runId=r\nRUN_ERROR message=m\nRUN_FINISHED threadId=t runId=r"),
        ),
        (Rule::EventAfterError, 3, "RUN_ERROR", r("") + "\nRUN_ERROR message=m\nRUN_ERROR message=m"),
        (Rule::NestedRunStarted, 1, "'r'", s("RUN_STARTED threadId=t runId=r\nRUN_STARTED threadId=t runId=r2")),
        (Rule::RunIdMismatch, 1, "'x'", s("RUN_STARTED threadId=t runId=r\nRUN_FINISHED threadId=t runId=x")),
        (Rule::ThreadIdMismatch, 1, "'x'", s("RUN_STARTED threadId=t runId=r\nRUN_FINISHED threadId=x runId=r")),
        (Rule::ForeignThread, 2, "'x'", r("") + "\nRUN_STARTED threadId=x runId=r2"),
        (
            Rule::DuplicateInterruptId,
            1,
            "'i'",
            s(r#"RUN_STARTED threadId=t runId=r
                RUN_FINISHED threadId=t runId=r outcome={"type":"interrupt","interrupts":[{"id":"i","reason":"a"},{"id":"i","reason":"b"}]}"#),
        ),
        (
            Rule::PendingToolCalls,
            5,
            "c2",
            s(r#"RUN_STARTED threadId=t runId=r
                TOOL_CALL_START toolCallId=c1 toolCallName=f
                TOOL_CALL_END toolCallId=c1
                TOOL_CALL_START toolCallId=c2 toolCallName=f
                TOOL_CALL_END toolCallId=c2
                RUN_FINISHED threadId=t runId=r outcome={"type":"success","pendingToolCallIds":["c1"]}"#),
        ),
        (Rule::StepOpenAtFinish, 2, "'s'", r("STEP_STARTED stepName=s")),
        (Rule::StepAlreadyOpen, 2, "'s'", r("STEP_STARTED stepName=s\nSTEP_STARTED stepName=s")),
        (Rule::StepNotOpen, 1, "'s'", r("STEP_FINISHED stepName=s")),
        (Rule::StepNotOpen, 2, "'a'", r("STEP_STARTED stepName=s\nSTEP_FINISHED stepName=s subagentRunId=a")),
        // patterns/streaming
        (Rule::TextMessageOpenAtFinish, 2, "'m'", r("TEXT_MESSAGE_START messageId=m")),
        (Rule::TextMessageAlreadyOpen, 2, "'m'", r("TEXT_MESSAGE_START messageId=m\nTEXT_MESSAGE_START messageId=m")),
        (Rule::TextMessageNotOpen, 1, "'m'", r("TEXT_MESSAGE_CONTENT messageId=m delta=d")),
        (Rule::TextMessageNotOpen, 1, "'m'", r("TEXT_MESSAGE_END messageId=m")),
        (
            Rule::TextMessageNotOpen,
            3,
            "'m'",
            r("TEXT_MESSAGE_START messageId=m\nTEXT_MESSAGE_END messageId=m\nTEXT_MESSAGE_END messageId=m"),
        ),
        (Rule::ToolCallOpenAtFinish, 2, "'c'", r("TOOL_CALL_START toolCallId=c toolCallName=f")),
        (
            Rule::ToolCallAlreadyOpen,
            2,
            "'c'",
            r("TOOL_CALL_START toolCallId=c toolCallName=f\nTOOL_CALL_START toolCallId=c toolCallName=f"),
        ),
        (Rule::ToolCallNotOpen, 1, "'c'", r("TOOL_CALL_ARGS toolCallId=c delta=d")),
        (Rule::ToolCallNotOpen, 1, "'c'", r("TOOL_CALL_END toolCallId=c")),
        // events/reasoning
        (Rule::ReasoningMessageOpenAtFinish, 2, "'m'", r("REASONING_MESSAGE_START messageId=m role=reasoning")),
        (
            Rule::ReasoningMessageAlreadyOpen,
            2,
            "'m'",
            r("REASONING_MESSAGE_START messageId=m role=reasoning\nREASONING_MESSAGE_START messageId=m role=reasoning"),
        ),
        (Rule::ReasoningMessageNotOpen, 1, "'m'", r("REASONING_MESSAGE_CONTENT messageId=m delta=d")),
        (Rule::ReasoningMessageNotOpen, 1, "'m'", r("REASONING_MESSAGE_END messageId=m")),
        (
            Rule::ReasoningMessageNotOpen,
            2,
            "'m'",
            r("REASONING_START messageId=m\nREASONING_MESSAGE_CONTENT messageId=m delta=d"),
        ),
        (Rule::ReasoningSpanOpenAtFinish, 2, "'m'", r("REASONING_START messageId=m")),
        (Rule::ReasoningSpanAlreadyOpen, 2, "'m'", r("REASONING_START messageId=m\nREASONING_START messageId=m")),
        (Rule::ReasoningSpanNotOpen, 1, "'m'", r("REASONING_END messageId=m")),
        // events/subagents
        (Rule::SubagentOpenAtFinish, 2, "'a'", r("SUBAGENT_STARTED subagentRunId=a name=n")),
        (
            Rule::SubagentAlreadyActive,
            2,
            "'a'",
            r("SUBAGENT_STARTED subagentRunId=a name=n\nSUBAGENT_STARTED subagentRunId=a name=n"),
        ),
        (
            Rule::SubagentReused,
            3,
            "'a'",
            r(
                "SUBAGENT_STARTED subagentRunId=a name=n\nSUBAGENT_ERROR subagentRunId=a message=m\nSUBAGENT_STARTED subagentRunId=a name=n",
            ),
        ),
        (Rule::SubagentNotActive, 1, "'a'", r("SUBAGENT_FINISHED subagentRunId=a")),
        (Rule::SubagentNotActive, 1, "'a'", r("SUBAGENT_ERROR subagentRunId=a message=m")),
        (Rule::SubagentParentUnknown, 1, "'p'", r("SUBAGENT_STARTED subagentRunId=a name=n parentSubagentRunId=p")),
        (
            Rule::SubagentAnnouncedLate,
            2,
            "'a'",
            r("CUSTOM name=n value=1 subagentRunId=a\nSUBAGENT_STARTED subagentRunId=a name=n"),
        ),
        (
            Rule::AttributionMismatch,
            2,
            "'b'",
            r(
                "TEXT_MESSAGE_START messageId=m subagentRunId=a\nTEXT_MESSAGE_CONTENT messageId=m delta=d subagentRunId=b",
            ),
        ),
        (
            Rule::AttributionMismatch,
            2,
            "the parent agent",
            r("TEXT_MESSAGE_START messageId=m\nTEXT_MESSAGE_END messageId=m subagentRunId=b"),
        ),
        // A message that a first call made is its owner's.
        (
            Rule::AttributionMismatch,
            2,
            "'b'",
            r(
                "TOOL_CALL_START toolCallId=c toolCallName=f parentMessageId=m subagentRunId=a\nTOOL_CALL_START toolCallId=d toolCallName=f parentMessageId=m subagentRunId=b",
            ),
        ),
        (
            Rule::AttributionMismatch,
            3,
            "'b'",
            r(
                "TEXT_MESSAGE_START messageId=m subagentRunId=a\nTEXT_MESSAGE_END messageId=m\nTEXT_MESSAGE_START messageId=m subagentRunId=b",
            ),
        ),
        (
            Rule::AttributionMismatch,
            2,
            "'b'",
            r(
                "TOOL_CALL_START toolCallId=c toolCallName=f subagentRunId=a\nTOOL_CALL_ARGS toolCallId=c delta=d subagentRunId=b",
            ),
        ),
        (
            Rule::AttributionMismatch,
            3,
            "'m'",
            r(
                "TEXT_MESSAGE_START messageId=m subagentRunId=a\nTEXT_MESSAGE_END messageId=m\nTOOL_CALL_START toolCallId=c toolCallName=f parentMessageId=m subagentRunId=b",
            ),
        ),
        (
            Rule::AttributionMismatch,
            2,
            "'b'",
            r(
                "REASONING_MESSAGE_START messageId=m role=reasoning subagentRunId=a\nREASONING_MESSAGE_END messageId=m subagentRunId=b",
            ),
        ),
        (
            Rule::AttributionMismatch,
            2,
            "'b'",
            r(
                "ACTIVITY_SNAPSHOT messageId=m activityType=x content={} subagentRunId=a\nACTIVITY_DELTA messageId=m activityType=x patch=[] subagentRunId=b",
            ),
        ),
        (
            Rule::AttributionMismatch,
            3,
            "'b'",
            r(
                "TOOL_CALL_START toolCallId=c toolCallName=f subagentRunId=a\nTOOL_CALL_END toolCallId=c\nREASONING_ENCRYPTED_VALUE subtype=tool-call entityId=c encryptedValue=v subagentRunId=b",
            ),
        ),
        (
            Rule::AttributionMismatch,
            2,
            "'m'",
            r(r#"MESSAGES_SNAPSHOT messages=[{"id":"m","role":"assistant","subagentRunId":"a"}]
                TEXT_MESSAGE_START messageId=m subagentRunId=b"#),
        ),
        // patterns/streaming, chunks
        (Rule::FirstChunk, 1, "messageId", r("TEXT_MESSAGE_CHUNK delta=d")),
        (Rule::FirstChunk, 1, "messageId", r("REASONING_MESSAGE_CHUNK delta=d")),
        (Rule::FirstChunk, 1, "toolCallId", r("TOOL_CALL_CHUNK toolCallName=f")),
        (Rule::FirstChunk, 1, "toolCallName", r("TOOL_CALL_CHUNK toolCallId=c")),
        (Rule::ChunkConflict, 2, "role", r("TEXT_MESSAGE_CHUNK messageId=m\nTEXT_MESSAGE_CHUNK role=user")),
        (Rule::ChunkConflict, 2, "name", r("TEXT_MESSAGE_CHUNK messageId=m\nTEXT_MESSAGE_CHUNK name=n")),
        (
            Rule::ChunkConflict,
            2,
            "toolCallName",
            r("TOOL_CALL_CHUNK toolCallId=c toolCallName=f\nTOOL_CALL_CHUNK toolCallName=g"),
        ),
        (
            Rule::ChunkConflict,
            2,
            "parentMessageId",
            r("TOOL_CALL_CHUNK toolCallId=c toolCallName=f\nTOOL_CALL_CHUNK parentMessageId=m"),
        ),
        (
            Rule::AmbiguousChunk,
            3,
            "2 subagents",
            r(
                "TEXT_MESSAGE_CHUNK messageId=m subagentRunId=a\nTEXT_MESSAGE_CHUNK messageId=n subagentRunId=b\nTEXT_MESSAGE_CHUNK delta=d",
            ),
        ),
        (
            Rule::AttributionMismatch,
            2,
            "'b'",
            r("TEXT_MESSAGE_CHUNK messageId=m subagentRunId=a\nTEXT_MESSAGE_CHUNK messageId=m subagentRunId=b"),
        ),
        // An explicit event about an item that chunks assemble ends the shorthand.
        (
            Rule::TextMessageNotOpen,
            2,
            "'m'",
            r("TEXT_MESSAGE_CHUNK messageId=m\nTEXT_MESSAGE_CONTENT messageId=m delta=d"),
        ),
        (
            Rule::TextMessageNotOpen,
            2,
            "'m'",
            r("TEXT_MESSAGE_CHUNK messageId=m subagentRunId=a\nTEXT_MESSAGE_END messageId=m"),
        ),
        // basic/processing
        (Rule::MalformedValue, 1, "/delta", r("TEXT_MESSAGE_CONTENT messageId=m delta=1")),
        (
            Rule::MalformedValue,
            1,
            "/outcome/interrupts",
            s(r#"RUN_STARTED threadId=t runId=r
                RUN_FINISHED threadId=t runId=r outcome={"type":"interrupt","interrupts":[]}"#),
        ),
    ]
}

#[test]
fn a_stream_that_breaks_a_rule_is_rejected_by_it_at_the_event_that_breaks_it() {
    for (rule, event, word, stream) in broken() {
        let (rejected, end) = consume(&stream);
        let Some((broken, at, message)) = rejected else { panic!("{rule} was not noticed in\n{stream}") };
        assert_eq!((broken, at), (rule, event), "{message}\n{stream}");
        assert!(message.contains(word), "{rule} does not name {word}: {message}");
        assert!(matches!(end, StreamEnd::Rejected { .. }), "{stream}");
    }
}

#[test]
fn every_rule_is_proved_by_a_stream() {
    let proved: BTreeSet<Rule> = broken().into_iter().map(|(rule, ..)| rule).collect();
    // Bytes that cannot be parsed cannot be written in the table's notation, and the consumer never shows the verifier
    // chunks or an empty interrupt list: these have tests of their own.
    let elsewhere = [Rule::MalformedJson, Rule::MalformedFrame, Rule::UnexpandedChunk, Rule::NoInterrupts];
    for rule in Rule::ALL.iter().filter(|rule| !elsewhere.contains(rule)) {
        assert!(proved.contains(rule), "{rule} has no stream");
    }
}

#[test]
fn streams_that_keep_the_rules_are_accepted() {
    let streams = [
        run(""),
        // RUN_ERROR may come first, and may follow RUN_FINISHED.
        "RUN_ERROR message=m".to_owned(),
        run("") + "\nRUN_ERROR message=m",
        "RUN_ERROR message=m\n".to_owned() + &run(""),
        // Runs in sequence, with run-scoped tracking that does not cross the boundary.
        run("STEP_STARTED stepName=s\nSTEP_FINISHED stepName=s")
            + "\n"
            + &run("STEP_STARTED stepName=s\nSTEP_FINISHED stepName=s"),
        "RUN_STARTED threadId=t runId=r\nTEXT_MESSAGE_START messageId=m\nRUN_ERROR message=m\n".to_owned()
            + &run("TEXT_MESSAGE_START messageId=m\nTEXT_MESSAGE_END messageId=m"),
        run("SUBAGENT_STARTED subagentRunId=a name=n\nSUBAGENT_FINISHED subagentRunId=a")
            + "\n"
            + &run("SUBAGENT_STARTED subagentRunId=a name=n\nSUBAGENT_FINISHED subagentRunId=a"),
        // Everything interleaves.
        run("TEXT_MESSAGE_START messageId=m
            TOOL_CALL_START toolCallId=m toolCallName=f
            REASONING_START messageId=m
            REASONING_MESSAGE_START messageId=m role=reasoning
            STEP_STARTED stepName=m
            TEXT_MESSAGE_START messageId=m2
            TEXT_MESSAGE_END messageId=m
            REASONING_END messageId=m
            STEP_FINISHED stepName=m
            TOOL_CALL_END toolCallId=m
            REASONING_MESSAGE_END messageId=m
            TEXT_MESSAGE_END messageId=m2"),
        // A closed item is closed, not sealed.
        run("TEXT_MESSAGE_START messageId=m subagentRunId=a
            TEXT_MESSAGE_END messageId=m
            TEXT_MESSAGE_START messageId=m
            TEXT_MESSAGE_CONTENT messageId=m delta=d subagentRunId=a
            TEXT_MESSAGE_END messageId=m"),
        // Steps are per owner.
        run("STEP_STARTED stepName=s
            STEP_STARTED stepName=s subagentRunId=a
            STEP_FINISHED stepName=s
            STEP_FINISHED stepName=s subagentRunId=a"),
        // Attribution without announcement; nesting, the parent ended already.
        run("TEXT_MESSAGE_START messageId=m subagentRunId=x\nTEXT_MESSAGE_END messageId=m subagentRunId=x"),
        run("SUBAGENT_STARTED subagentRunId=a name=n
            SUBAGENT_FINISHED subagentRunId=a
            SUBAGENT_STARTED subagentRunId=b name=n parentSubagentRunId=a
            SUBAGENT_ERROR subagentRunId=b message=m"),
        // An untagged call on a subagent's message is the subagent's.
        run("TEXT_MESSAGE_START messageId=m subagentRunId=a
            TEXT_MESSAGE_END messageId=m
            TOOL_CALL_START toolCallId=c toolCallName=f parentMessageId=m
            TOOL_CALL_ARGS toolCallId=c delta=d subagentRunId=a
            TOOL_CALL_END toolCallId=c"),
        // A replacing snapshot makes an activity anew, its owner included.
        run("ACTIVITY_SNAPSHOT messageId=m activityType=x content={} subagentRunId=a
            ACTIVITY_SNAPSHOT messageId=m activityType=x content={} subagentRunId=b
            ACTIVITY_DELTA messageId=m activityType=x patch=[] subagentRunId=b"),
        // Pending calls, exactly and in any order; an empty list names none.
        r#"RUN_STARTED threadId=t runId=r
            TOOL_CALL_START toolCallId=c1 toolCallName=f
            TOOL_CALL_END toolCallId=c1
            TOOL_CALL_START toolCallId=c2 toolCallName=f
            TOOL_CALL_END toolCallId=c2
            TOOL_CALL_RESULT messageId=m toolCallId=c1 content=x
            RUN_FINISHED threadId=t runId=r outcome={"type":"success","pendingToolCallIds":["c2"]}"#
            .to_owned(),
        r#"RUN_STARTED threadId=t runId=r
            TOOL_CALL_START toolCallId=c1 toolCallName=f
            TOOL_CALL_END toolCallId=c1
            RUN_FINISHED threadId=t runId=r outcome={"type":"success","pendingToolCallIds":[]}"#
            .to_owned(),
    ];
    for stream in streams {
        let (rejected, end) = consume(&stream);
        assert_eq!(rejected, None, "{stream}");
        assert!(matches!(end, StreamEnd::Completed { .. }), "{stream}");
    }
}

#[test]
fn the_three_bad_endings_are_kept_apart() {
    let (_, reported) = consume("RUN_STARTED threadId=t runId=r\nRUN_ERROR message=m code=c");
    let failed = RunEnding::Failed { message: "m".into(), code: Some("c".into()) };
    assert!(matches!(&reported, StreamEnd::Completed { runs } if runs[0].ending == failed));

    let (_, truncated) = consume("RUN_STARTED threadId=t runId=r\nSTEP_STARTED stepName=s");
    let open = Truncation::RunOpen { thread_id: "t".into(), run_id: "r".into() };
    assert!(matches!(&truncated, StreamEnd::Truncated { runs, truncation }
        if runs[0].ending == RunEnding::Truncated && *truncation == open));

    let (_, rejected) = consume("RUN_STARTED threadId=t runId=r\nSTEP_FINISHED stepName=s");
    assert!(matches!(&rejected, StreamEnd::Rejected { runs, violation }
        if runs[0].ending == RunEnding::Truncated && violation.rule == Rule::StepNotOpen));
}

#[test]
fn a_stream_without_events_is_truncated() {
    let (_, end) = consume("");
    assert_eq!(end, StreamEnd::Truncated { runs: vec![], truncation: Truncation::NoEvents });
}

#[test]
fn a_run_is_failed_by_an_error_after_it_finished() {
    let (_, end) = consume(&(run("") + "\nRUN_ERROR message=late"));
    assert_eq!(end.runs()[0].ending, RunEnding::Failed { message: "late".into(), code: None });
    assert_eq!(end.runs().len(), 1);
}

#[test]
fn each_outcome_is_the_ending_that_it_names() {
    for (outcome, ending) in [
        ("", RunEnding::Success),
        (r#" outcome={"type":"success"}"#, RunEnding::Success),
        (r#" outcome={"type":"cancelled"}"#, RunEnding::Cancelled),
        (r#" outcome={"type":"interrupt","interrupts":[{"id":"i","reason":"a"}]}"#, RunEnding::Interrupt),
        // An outcome of a later version reads as success (events/lifecycle, RUN_FINISHED).
        (r#" outcome={"type":"paused"}"#, RunEnding::Success),
    ] {
        let (rejected, end) = consume(&(run("") + outcome));
        assert_eq!(rejected, None);
        assert_eq!(end.runs()[0].ending, ending, "{outcome}");
    }
}

#[test]
fn what_came_before_a_violation_stays_delivered() {
    // The chunk's expansion is start and content; both come before the event that is refused.
    let mut consumer = Consumer::default();
    let mut delivered = Vec::new();
    let stream = run("TEXT_MESSAGE_CHUNK messageId=m delta=d\nSTEP_STARTED stepName=s");
    for event in events(&stream) {
        match consumer.push_value(event) {
            Ok(events) => delivered.extend(events),
            Err(rejected) => {
                assert_eq!(rejected.violation.rule, Rule::StepOpenAtFinish);
                delivered.extend(rejected.delivered);
            }
        }
    }
    let types: Vec<&str> = delivered.iter().map(|event| event.event_type().as_str()).collect();
    assert_eq!(
        types,
        ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_STARTED"]
    );
}

#[test]
fn ends_that_a_refused_event_brought_about_are_delivered() {
    let mut consumer = Consumer::default();
    for event in events("RUN_STARTED threadId=t runId=r\nTEXT_MESSAGE_CHUNK messageId=m delta=d") {
        consumer.push_value(event).unwrap();
    }
    let rejected = consumer.push_value(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "x"})).unwrap_err();
    assert_eq!(rejected.delivered.len(), 1);
    assert_eq!(rejected.delivered[0].event_type().as_str(), "TEXT_MESSAGE_END");
    let again = consumer.push_value(json!({"type": "RUN_ERROR", "message": "m"})).unwrap_err();
    assert_eq!(again.violation, rejected.violation);
    assert_eq!(again.delivered, []);
}

#[test]
fn the_stream_is_on_the_thread_of_the_input() {
    let input = RunAgentInput::new("thread", "run", Vec::new());
    let mut consumer = Consumer::new(ConsumerOptions { input: Some(input.clone()) });
    let started = json!({"type": "RUN_STARTED", "threadId": "other", "runId": "run"});
    assert_eq!(consumer.push_value(started).unwrap_err().violation.rule, Rule::ForeignThread);

    let mut consumer = Consumer::new(ConsumerOptions { input: Some(input) });
    consumer.push_value(json!({"type": "RUN_STARTED", "threadId": "thread", "runId": "replayed"})).unwrap();
    consumer.push_value(json!({"type": "RUN_FINISHED", "threadId": "thread", "runId": "replayed"})).unwrap();
    assert!(matches!(consumer.finish(), StreamEnd::Completed { .. }));
    assert_eq!(consumer.take_warnings()[0].rule.as_str(), "requested-run-missing");
}

/// basic/run-input: the run that the input asks for is the exchange's last.
#[test]
fn the_run_that_was_asked_for_is_the_last() {
    let input = RunAgentInput::new("t", "asked", Vec::new());
    for (runs, missing) in [
        (vec!["asked"], None),
        (vec!["before", "asked"], None),
        (vec!["asked", "behind"], Some("run 'behind' came after")),
    ] {
        let mut consumer = Consumer::new(ConsumerOptions { input: Some(input.clone()) });
        for run in &runs {
            consumer.push_value(json!({"type": "RUN_STARTED", "threadId": "t", "runId": run})).unwrap();
            consumer.push_value(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": run})).unwrap();
        }
        assert!(matches!(consumer.finish(), StreamEnd::Completed { .. }));
        let warnings = consumer.take_warnings();
        assert_eq!(warnings.len(), usize::from(missing.is_some()), "{runs:?}");
        assert!(warnings.iter().zip(missing).all(|(warning, said)| warning.message.contains(said)), "{warnings:?}");
    }
}

#[test]
fn an_unexpanded_chunk_and_an_interrupt_outcome_without_interrupts_are_refused_by_the_verifier_itself() {
    let event = |value: Value| Event::from_value(value).unwrap();
    let mut verifier = Verifier::new();
    verifier.push(&event(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}))).unwrap();
    let chunk = event(json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m"}));
    assert_eq!(verifier.push(&chunk).unwrap_err().rule, Rule::UnexpandedChunk);
    let finished = event(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r",
        "outcome": {"type": "interrupt", "interrupts": []}}));
    assert_eq!(verifier.push(&finished).unwrap_err().rule, Rule::NoInterrupts);
    assert!(matches!(verifier.finish(), Ending::Truncated(_)));
}

#[test]
fn pending_tool_calls_are_those_started_and_not_answered_in_order() {
    let mut verifier = Verifier::new();
    let stream = "RUN_STARTED threadId=t runId=r
        TOOL_CALL_START toolCallId=z toolCallName=f
        TOOL_CALL_END toolCallId=z
        TOOL_CALL_START toolCallId=b toolCallName=f
        TOOL_CALL_END toolCallId=b
        TOOL_CALL_START toolCallId=a toolCallName=f
        TOOL_CALL_END toolCallId=a
        TOOL_CALL_RESULT messageId=m toolCallId=b content=x";
    for event in events(stream) {
        verifier.push(&Event::from_value(event).unwrap()).unwrap();
    }
    assert_eq!(verifier.pending_tool_calls().collect::<Vec<_>>(), ["z", "a"]);
}
