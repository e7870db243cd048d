//! Producing streams: what the handles write is legal, what cannot be written is an error, and runs end as they ended.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use runwire_agui::producer::{
    Extras, FinishError, NotFinished, OpenKind, Outcome, ProduceError, Producer, Run, Writer,
};
use runwire_agui::{
    AssistantMessage, Consumer, ConsumerOptions, Event, Interrupt, Message, ReasoningEncryptedValue,
    ReasoningEncryptedValueSubtype, Rule, RunEnding, RunStarted, StreamEnd, SubagentStarted, TextMessageRole,
    TextMessageStart, TokenUsage, ToolCallStart, UsageError,
};
use serde_json::{Map, Value, json};

/// What was sent so far.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<Event>>>);

impl Wire {
    fn producer(&self) -> Producer {
        let wire = self.0.clone();
        Producer::new(move |event: Event| wire.lock().unwrap().push(event))
    }

    fn run(&self) -> Run {
        self.producer().start(RunStarted::new("t", "r")).unwrap()
    }

    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    fn types(&self) -> Vec<&'static str> {
        self.events().iter().map(|event| event.event_type().as_str()).collect()
    }

    fn last(&self) -> Value {
        self.events().last().unwrap().to_value()
    }

    /// How the stream's runs ended, for a client that has to take every byte of it without a word.
    fn endings(&self) -> Vec<RunEnding> {
        let mut consumer = Consumer::new(ConsumerOptions::default());
        for event in self.events() {
            consumer.push_json(event.to_json_string().as_bytes()).unwrap();
        }
        assert_eq!(consumer.take_warnings(), []);
        match consumer.finish() {
            StreamEnd::Completed { runs } | StreamEnd::Truncated { runs, .. } => {
                runs.into_iter().map(|run| run.ending).collect()
            }
            StreamEnd::Rejected { violation, .. } => panic!("{violation}"),
        }
    }
}

fn refused(error: ProduceError) -> Rule {
    match error {
        ProduceError::Refused(violation) => violation.rule,
        other => panic!("{other}"),
    }
}

fn still_open(result: Result<Producer, NotFinished>) -> (Run, Vec<(OpenKind, String, bool)>) {
    let NotFinished { run, error } = result.unwrap_err();
    let FinishError::StillOpen(items) = error else { panic!("{error}") };
    (run, items.into_iter().map(|item| (item.kind, item.id, item.abandoned)).collect())
}

/// One of everything that a writer can write, all at once open.
fn one_of_everything(writer: &Writer) -> Result<(), ProduceError> {
    let step = writer.step("plan")?;
    let span = writer.reasoning_span("span")?;
    let thought = writer.reasoning("thought")?;
    thought.write("Hm")?;
    let mut start = TextMessageStart::new("said");
    start.role = Some(TextMessageRole::Assistant);
    start.name = Some("Bo".to_owned());
    let text = writer.open_text(start)?;
    text.write("")?;
    let extras = Extras {
        timestamp: Some(1),
        raw_event: Some(json!({"provider": null})),
        metadata: Some(Map::from_iter([("a".to_owned(), Value::Null)])),
    };
    text.write_with("Hello", extras.clone())?;
    let mut start = ToolCallStart::new("call", "search");
    start.parent_message_id = Some("said".to_owned());
    let call = writer.open_tool_call(start)?;
    call.arguments("{")?;
    let subagent = writer.subagent(SubagentStarted::new("sub", "scout"))?;
    let inner = subagent.writer();
    let nested = inner.subagent(SubagentStarted::new("nested", "digger"))?;
    let theirs = nested.writer().text("theirs")?;
    // Each owner has a step of that name.
    let their_step = inner.step("plan")?;
    theirs.write("Found")?;
    inner.state_snapshot(Value::Null)?;
    writer.state_delta(vec![json!({"op": "add", "path": "", "value": {}})])?;
    inner.activity_snapshot(runwire_agui::ActivitySnapshot::new("activity", "search", Map::new()))?;
    inner.activity_delta(runwire_agui::ActivityDelta::new("activity", "search", Vec::new()))?;
    inner.custom("note", Value::Null)?;
    writer.raw(runwire_agui::Raw::new(json!(1)))?;
    writer.encrypted_value(ReasoningEncryptedValue::new(ReasoningEncryptedValueSubtype::Message, "thought", "eA=="))?;
    call.arguments("}")?;
    let call = call.end()?;
    call.result_with("result", "3 found", extras)?;
    theirs.end()?;
    their_step.finish()?;
    nested.fail("lost its way", Some("LOST"))?;
    subagent.finish_with(json!([1]))?;
    text.end()?;
    thought.end()?;
    span.end()?;
    step.finish()?;
    writer.messages_snapshot(vec![Message::Assistant(AssistantMessage::new("said"))])
}

#[test]
fn one_of_everything_is_a_stream_that_a_client_takes() {
    let wire = Wire::default();
    let run = wire.run();
    one_of_everything(run.writer()).unwrap();
    let started = wire.events()[0].to_value();
    assert_eq!(started["protocolVersion"], "1.0", "basic/versioning: a producer MUST declare its version");
    run.finish_with(Outcome::Success, Some(json!({"answer": 42})), Extras::default()).unwrap();
    assert_eq!(wire.last()["result"], json!({"answer": 42}));
    assert_eq!(wire.endings(), [RunEnding::Success]);
}

/// events/subagents, "Attribution": what a subagent produces carries its id.
#[test]
fn what_is_written_through_a_subagents_writer_is_attributed_to_it() {
    let wire = Wire::default();
    let run = wire.run();
    let outer = run.writer().subagent(SubagentStarted::new("outer", "n")).unwrap();
    let inner = outer.writer().subagent(SubagentStarted::new("inner", "n")).unwrap();
    let message = inner.writer().text("m").unwrap();
    message.write("x").unwrap();
    message.end().unwrap();
    inner.writer().custom("c", json!(1)).unwrap();
    let tagged: Vec<Value> = wire.events().iter().map(|event| event.to_value()["subagentRunId"].clone()).collect();
    assert_eq!(
        tagged,
        [json!(null), json!("outer"), json!("inner"), json!("inner"), json!("inner"), json!("inner"), json!("inner")]
    );
    assert_eq!(wire.events()[2].to_value()["parentSubagentRunId"], "outer");

    let mut foreign = TextMessageStart::new("m2");
    foreign.subagent_run_id = Some("outer".to_owned());
    assert_eq!(refused(inner.writer().open_text(foreign).unwrap_err()), Rule::AttributionMismatch);

    let late = inner.writer().clone();
    inner.finish().unwrap();
    assert_eq!(late.text("m3").unwrap_err(), ProduceError::SubagentEnded("inner".to_owned()));
    outer.finish().unwrap();
    run.finish(Outcome::Success).unwrap();
    assert_eq!(wire.endings(), [RunEnding::Success]);
}

/// What types cannot say is an error, and the stream goes on as if it had not been tried.
#[test]
fn what_a_client_would_reject_is_refused_and_nothing_of_it_sent() {
    let wire = Wire::default();
    let run = wire.run();
    let writer = run.writer();
    let message = writer.text("m").unwrap();
    let _step = writer.step("s").unwrap();
    let sub = writer.subagent(SubagentStarted::new("sub", "n")).unwrap();
    sub.finish().unwrap();
    let before = wire.events();
    assert_eq!(refused(writer.text("m").unwrap_err()), Rule::TextMessageAlreadyOpen);
    assert_eq!(refused(writer.step("s").unwrap_err()), Rule::StepAlreadyOpen);
    assert_eq!(refused(writer.subagent(SubagentStarted::new("sub", "n")).unwrap_err()), Rule::SubagentReused);
    let mut orphan = SubagentStarted::new("orphan", "n");
    orphan.parent_subagent_run_id = Some("nobody".to_owned());
    assert_eq!(refused(writer.subagent(orphan).unwrap_err()), Rule::SubagentParentUnknown);
    for patch in [json!({"op": "teleport", "path": "/"}), json!({"op": "add", "path": "no pointer", "value": 1})] {
        assert_eq!(refused(writer.state_delta(vec![patch]).unwrap_err()), Rule::MalformedValue);
    }
    let null = Extras { raw_event: Some(Value::Null), ..Extras::default() };
    assert_eq!(refused(message.write_with("x", null).unwrap_err()), Rule::MalformedValue);
    let late = Extras { timestamp: Some(i64::MAX), ..Extras::default() };
    assert_eq!(refused(message.write_with("x", late).unwrap_err()), Rule::MalformedValue);
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(refused(writer.custom("deep", deep).unwrap_err()), Rule::MalformedValue);
    assert_eq!(wire.events(), before);
    message.write("still here").unwrap();
}

/// The deepest value that is let through is one that a client's parser reads.
#[test]
fn the_deepest_value_that_passes_is_read_by_a_client() {
    let wire = Wire::default();
    let run = wire.run();
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    run.writer().custom("deep", nested(126)).unwrap();
    assert_eq!(refused(run.writer().custom("deeper", nested(127)).unwrap_err()), Rule::MalformedValue);
    run.finish(Outcome::Success).unwrap();
    assert_eq!(wire.endings(), [RunEnding::Success]);
}

/// events/lifecycle, "Several runs on one stream".
#[test]
fn several_runs_follow_one_another_on_one_thread_and_a_failure_may_surface_late() {
    let wire = Wire::default();
    let mut producer = wire.producer();
    producer.fail("cannot reach the agent", None).unwrap();
    assert_eq!(producer.fail("again", None).unwrap_err().rule, Rule::EventAfterError);
    let run = producer.start(RunStarted::new("t", "r1")).unwrap();
    let stale = run.writer().clone();
    let message = stale.text("m").unwrap();
    let run = {
        let producer = run.fail("broke", Some("BROKE"));
        let not_started = producer.start(RunStarted::new("another", "r2")).unwrap_err();
        assert_eq!(not_started.violation.rule, Rule::ForeignThread);
        let mut newer = RunStarted::new("t", "r2");
        newer.protocol_version = Some("2.0".to_owned());
        let not_started = not_started.producer.start(newer).unwrap_err();
        assert_eq!(not_started.violation.rule, Rule::MalformedValue, "the stream speaks 1.0");
        not_started.producer.start(RunStarted::new("t", "r2")).unwrap()
    };
    // The same id, open in the next run, is another item.
    let again = run.writer().text("m").unwrap();
    assert_eq!(stale.text("m2").unwrap_err(), ProduceError::Ended);
    assert_eq!(message.write("late").unwrap_err(), ProduceError::Ended);
    drop(message);
    assert!(!run.open_items()[0].abandoned);
    again.end().unwrap();
    let mut producer = run.finish(Outcome::Success).unwrap();
    producer.fail("flushing failed", None).unwrap();
    let failed = |message: &str, code: Option<&str>| RunEnding::Failed {
        message: message.to_owned(),
        code: code.map(str::to_owned),
    };
    assert_eq!(
        wire.endings(),
        [failed("cannot reach the agent", None), failed("broke", Some("BROKE")), failed("flushing failed", None)]
    );
}

#[test]
fn finishing_with_something_open_names_it_sends_nothing_and_hands_the_run_back() {
    let wire = Wire::default();
    let run = wire.run();
    let message = run.writer().text("m").unwrap();
    let step = run.writer().step("s").unwrap();
    let before = wire.events();
    let (run, open) = still_open(run.finish(Outcome::Success));
    let expected = [(OpenKind::TextMessage, "m".to_owned(), false), (OpenKind::Step, "s".to_owned(), false)];
    assert_eq!(open, expected);
    assert_eq!(wire.events(), before);
    message.end().unwrap();
    step.finish().unwrap();
    run.finish(Outcome::Success).unwrap();
    assert_eq!(wire.endings(), [RunEnding::Success]);
}

#[test]
fn a_dropped_handle_leaves_its_item_open_until_the_run_says_what_becomes_of_it() {
    let wire = Wire::default();
    let run = wire.run();
    drop(run.writer().text("m").unwrap());
    drop(run.writer().tool_call("c", "n").unwrap());
    let kept = run.writer().text("kept").unwrap();
    assert_eq!(wire.types(), ["RUN_STARTED", "TEXT_MESSAGE_START", "TOOL_CALL_START", "TEXT_MESSAGE_START"]);
    let (mut run, open) = still_open(run.finish(Outcome::Success));
    assert_eq!(
        open.iter().map(|(_, id, abandoned)| (&**id, *abandoned)).collect::<Vec<_>>(),
        [("m", true), ("c", true), ("kept", false)]
    );
    run.close_abandoned().unwrap();
    assert_eq!(wire.types()[4..], ["TOOL_CALL_END", "TEXT_MESSAGE_END"]);
    kept.end().unwrap();
    run.finish(Outcome::SuccessWithPendingCalls).unwrap();
    assert_eq!(wire.last()["outcome"]["pendingToolCallIds"], json!(["c"]));
    assert_eq!(wire.endings(), [RunEnding::Success]);
}

#[test]
fn a_dropped_run_is_a_truncated_one() {
    let wire = Wire::default();
    let run = wire.run();
    let writer = run.writer().clone();
    drop(run);
    writer.custom("still", json!("open")).unwrap();
    assert_eq!(wire.endings(), [RunEnding::Truncated]);
}

/// events/lifecycle, "Cancelled runs": everything is closed first, no result, and the usage that accrued.
#[test]
fn a_cancelled_run_closes_what_it_opened_innermost_first_and_says_cancelled() {
    let wire = Wire::default();
    let run = wire.run();
    let writer = run.writer();
    let _step = writer.step("s").unwrap();
    let sub = writer.subagent(SubagentStarted::new("sub", "n")).unwrap();
    let _span = sub.writer().reasoning_span("span").unwrap();
    let _thought = sub.writer().reasoning("thought").unwrap();
    let _their_step = sub.writer().step("s").unwrap();
    let _message = writer.text("m").unwrap();
    let call = writer.tool_call("c", "n").unwrap();
    call.arguments("{\"cut o").unwrap();
    writer.count(&TokenUsage { input_tokens: Some(3), ..TokenUsage::new() }).unwrap();
    let late = writer.clone();
    run.cancel();
    assert_eq!(
        wire.types()[9..],
        [
            "TOOL_CALL_END",
            "TEXT_MESSAGE_END",
            "STEP_FINISHED",
            "REASONING_MESSAGE_END",
            "REASONING_END",
            "SUBAGENT_ERROR",
            "STEP_FINISHED",
            "RUN_FINISHED"
        ]
    );
    let last = wire.last();
    assert_eq!(last["outcome"], json!({"type": "cancelled"}));
    assert_eq!(last["usage"], json!([{"inputTokens": 3}]));
    assert_eq!(last.get("result"), None);
    assert_eq!(call.arguments("ff\"}").unwrap_err(), ProduceError::Ended);
    assert_eq!(late.text("late").unwrap_err(), ProduceError::Ended);
    assert_eq!(wire.endings(), [RunEnding::Cancelled]);
}

/// A snapshot may say that an open message is somebody else's; stopping closes it all the same.
#[test]
fn a_run_whose_open_items_changed_hands_can_be_stopped() {
    let wire = Wire::default();
    let run = wire.run();
    let sub = run.writer().subagent(SubagentStarted::new("sub", "n")).unwrap();
    let message = sub.writer().text("m").unwrap();
    run.writer().messages_snapshot(vec![Message::Assistant(AssistantMessage::new("m"))]).unwrap();
    assert_eq!(refused(message.write("x").unwrap_err()), Rule::AttributionMismatch);
    run.cancel();
    assert_eq!(wire.endings(), [RunEnding::Cancelled]);
}

/// events/lifecycle, "RUN_ERROR": it ends what is open; an end in front of it would show what was cut off as whole.
#[test]
fn a_failed_run_closes_nothing() {
    let wire = Wire::default();
    let run = wire.run();
    let _message = run.writer().text("m").unwrap();
    run.fail("broke", None);
    assert_eq!(wire.types(), ["RUN_STARTED", "TEXT_MESSAGE_START", "RUN_ERROR"]);
    wire.endings();
}

/// events/tool-calls, "Frontend tools": exactly the calls that the run started and did not answer, in order.
#[test]
fn pending_calls_are_those_that_were_not_answered() {
    let wire = Wire::default();
    let run = wire.run();
    for id in ["c3", "c1", "c2"] {
        let call = run.writer().tool_call(id, "confirm").unwrap().end().unwrap();
        if id == "c1" {
            call.result("m", "yes").unwrap();
        }
    }
    run.finish(Outcome::SuccessWithPendingCalls).unwrap();
    assert_eq!(wire.last()["outcome"], json!({"type": "success", "pendingToolCallIds": ["c3", "c2"]}));
    assert_eq!(wire.endings(), [RunEnding::Success]);
}

/// patterns/interrupt-resume, "Interrupting"; events/subagents, "Termination".
#[test]
fn an_interrupted_run_suspends_its_subagents_and_refuses_interrupts_that_cannot_be_answered() {
    let wire = Wire::default();
    let run = wire.run();
    let outer = run.writer().subagent(SubagentStarted::new("outer", "n")).unwrap();
    let _inner = outer.writer().subagent(SubagentStarted::new("inner", "n")).unwrap();
    let message = outer.writer().text("m").unwrap();
    let mut asked = Interrupt::new("i1", "approval");
    asked.subagent_run_id = Some("inner".to_owned());
    let outcome = Outcome::Interrupt(vec![asked.clone()]);

    let (run, open) = still_open(run.finish(outcome.clone()));
    assert_eq!(open, [(OpenKind::TextMessage, "m".to_owned(), false)], "only subagents are suspended");
    message.end().unwrap();
    let before = wire.events();
    let mut run = run;
    for bad in [vec![], vec![asked.clone(), asked.clone()]] {
        let NotFinished { run: back, error } = run.finish(Outcome::Interrupt(bad)).unwrap_err();
        assert!(matches!(error, FinishError::Refused(_)), "{error}");
        assert_eq!(wire.events(), before);
        run = back;
    }
    run.finish(outcome).unwrap();
    let ends: Vec<Value> = wire.events()[before.len()..].iter().map(Event::to_value).collect();
    assert_eq!(ends[0]["subagentRunId"], "inner");
    assert_eq!(ends[0]["outcome"], json!({"type": "suspended", "interruptIds": ["i1"]}));
    assert_eq!(ends[1]["outcome"], json!({"type": "suspended"}), "it waits for a descendant, and owns no interrupt");
    assert_eq!(wire.endings(), [RunEnding::Interrupt]);
}

/// events/lifecycle, "Token usage": the run is the accounting boundary, its subagents' calls are its own.
#[test]
fn a_run_reports_the_usage_of_its_own_calls_summed_per_model() {
    let wire = Wire::default();
    let entry = |input| TokenUsage { model: Some("m".to_owned()), input_tokens: Some(input), ..TokenUsage::new() };
    let run = wire.run();
    run.writer().count(&entry(100)).unwrap();
    let producer = run.cancel();
    let run = producer.start(RunStarted::new("t", "r2")).unwrap();
    run.writer().count(&entry(5)).unwrap();
    let sub = run.writer().subagent(SubagentStarted::new("sub", "n")).unwrap();
    sub.writer().count(&entry(2)).unwrap();
    sub.finish().unwrap();
    let wrong = TokenUsage { cached_input_tokens: Some(2), ..entry(1) };
    let error = run.writer().count(&wrong).unwrap_err();
    assert!(matches!(error, ProduceError::Usage(UsageError::PartsExceedTotal { .. })), "{error}");
    run.finish(Outcome::Success).unwrap();
    assert_eq!(wire.last()["usage"], json!([{"model": "m", "inputTokens": 7}]));
    wire.endings();
}

#[test]
fn several_threads_write_at_once_and_each_item_stays_whole_and_in_order() {
    const PIECES: usize = 200;
    let wire = Wire::default();
    let run = wire.run();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let writer = run.writer().clone();
            std::thread::spawn(move || {
                let subagent = writer.subagent(SubagentStarted::new(format!("s{thread}"), "n"))?;
                let message = subagent.writer().text(format!("m{thread}"))?;
                for piece in 0..PIECES {
                    message.write(format!("{piece} "))?;
                }
                message.end()?;
                subagent.finish()
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    run.finish(Outcome::Success).unwrap();
    assert_eq!(wire.endings(), [RunEnding::Success]);
    let whole: String = (0..PIECES).map(|piece| format!("{piece} ")).collect();
    for thread in 0..8 {
        let id = format!("m{thread}");
        let text: String = wire
            .events()
            .iter()
            .filter_map(|event| match event {
                Event::TextMessageContent(content) if content.message_id == id => Some(content.delta.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(text, whole);
    }
}

#[test]
fn handles_can_be_shared_by_several_tasks() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Run>();
    shared::<Writer>();
    shared::<runwire_agui::producer::TextMessage>();
    shared::<runwire_agui::producer::ToolCall>();
    shared::<runwire_agui::producer::Subagent>();
}
