//! Suspend and resume, whole: what a run asks, who answers, and what becomes of it.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::{Bed, agent, answers, bed, completed, input, request, so_far};
use runwire_agui::{Message, ResumeEntry, ResumeStatus, RunAgentInput};
use runwire_bridge::{Ending, ExchangeEnd, Opening, Question, Suspension, ToolOutput};
use runwire_engine::{
    Agent, Answer, CreateRunError, Engine, EngineOptions, OnDeadline, Recovered, ResumeError, ResumeRun, WaitRule,
};
use runwire_frame::{Data, FrameType, RunStatus, Timestamp};
use serde_json::{Map, Value, json};

/// What the agent was told: its input, and the answers.
type Told = Arc<Mutex<Vec<(RunAgentInput, Vec<Answer>)>>>;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Calls a tool that needs approval, asks by `suspend`, and says afterwards whether it may.
fn asking(suspend: impl Fn(Question) -> Suspension + Send + Sync + 'static) -> (Agent, Told) {
    let told = Told::default();
    let seen = told.clone();
    let suspend = Arc::new(suspend);
    let agent = agent("asking", move |exchange, starting| {
        let (seen, suspend) = (seen.clone(), suspend.clone());
        async move {
            let writer = starting.begin(None);
            if !exchange.resumed {
                writer.state_snapshot(json!({ "asked": true })).await?;
                let message = writer.message(Opening::default()).await?;
                message.text("I would like to delete it.").await?;
                message.end(Ending::completed()).await?;
                let tool = writer.tool("call_1", "delete", Opening::default()).await?;
                tool.arguments(r#"{"path":"/"}"#).await?;
                tool.arguments_complete().await?;
                return Ok(ExchangeEnd::Suspended(suspend(Question::approval("call_1").message("Delete /?"))));
            }
            let answers = exchange.answers();
            seen.lock().unwrap().push(((*exchange.input).clone(), answers.clone()));
            let yes = answers.iter().all(Answer::approved);
            if let Some(tool) = writer.waiting_tool("call_1").await? {
                let output = ToolOutput::Text(if yes { "deleted" } else { "not approved" }.to_owned());
                tool.result(yes, &output).await?.end(Ending::completed()).await?;
            }
            Ok(completed())
        }
    });
    (agent, told)
}

fn one() -> (Agent, Told) {
    asking(|question| Suspension::asking(question, []))
}

fn bed_waiting(agent: Agent, rule: WaitRule) -> Bed {
    let mut agent = agent;
    agent.policy.waiting = rule;
    bed([agent])
}

async fn waiting(bed: &Bed) -> String {
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    run_id
}

fn answered(run_id: &str, payload: Value) -> ResumeRun {
    let mut entry = ResumeEntry::new("approval_call_1", ResumeStatus::Resolved);
    entry.payload = Some(payload);
    ResumeRun { run_id: run_id.to_owned(), answers: vec![entry], exchange_id: None, principal: Some("ann".to_owned()) }
}

fn approved(run_id: &str) -> ResumeRun {
    answered(run_id, json!({ "approved": true }))
}

fn resolved_by(log: &fixture::Log) -> Vec<Option<String>> {
    let by = |frame: &runwire_frame::Frame| match &frame.data {
        Data::Resume(resume) => Some(resume.resolved_by.clone()),
        _ => None,
    };
    log.frames.iter().filter_map(by).collect()
}

fn past() -> Timestamp {
    Timestamp::from_unix_millis(1)
}

#[tokio::test]
async fn the_run_api_goes_on_with_what_the_run_has_made_and_the_tool_call_that_the_server_recorded() {
    let (agent, told) = one();
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    let waits = bed.engine.waits_for(&bed.record(&run_id).await).await.unwrap().unwrap();
    assert_eq!((waits.prompt.as_deref(), waits.deadline), (Some("Delete /?"), None));
    assert_eq!(waits.interrupts[0].tool_call_id.as_deref(), Some("call_1"));

    let started = bed.engine.resume(approved(&run_id)).await.unwrap();
    assert!(!started.existing);
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed");
    assert_eq!(resolved_by(&log), [Some("ann".to_owned())]);
    let told = told.lock().unwrap();
    let (input, answers) = &told[0];
    assert_eq!((input.thread_id.as_str(), &input.run_id), ("t", &started.exchange_id));
    let roles: Vec<&str> = input.messages.iter().map(Message::role).collect();
    assert_eq!(roles[0], "user", "what was asked");
    let said = serde_json::to_string(&input.messages).unwrap();
    assert!(said.contains("I would like to delete it.") && said.contains("call_1"), "what the run made since: {said}");
    assert_eq!(input.state, Some(json!({ "asked": true })), "the state as it is now");
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    let call = answer.call.as_ref().unwrap();
    assert_eq!((call.tool_slug.as_str(), call.arguments.as_str()), ("delete", r#"{"path":"/"}"#));
    assert!(answer.approved());
}

#[tokio::test]
async fn the_same_answers_again_find_the_run_and_others_are_told_who_answered() {
    let (agent, told) = one();
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    let first = bed.engine.resume(approved(&run_id)).await.unwrap();
    bed.ended(&run_id).await;
    bed.idle().await;
    let again = bed.engine.resume(approved(&run_id)).await.unwrap();
    assert!(again.existing);
    assert_eq!(again.exchange_id, first.exchange_id);
    let other = bed.engine.resume(answered(&run_id, json!({ "approved": false }))).await.unwrap_err();
    let ResumeError::Answered { resolved_by, .. } = &other else { panic!("{other}") };
    assert_eq!(resolved_by.as_deref(), Some("ann"));
    let none = bed.engine.resume(ResumeRun { answers: Vec::new(), ..approved(&run_id) }).await.unwrap_err();
    assert!(matches!(none, ResumeError::NotSuspended { .. }), "{none}");
    let unknown = bed.engine.resume(approved("run_none")).await.unwrap_err();
    assert!(matches!(unknown, ResumeError::UnknownRun(_)), "{unknown}");
    assert_eq!(told.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_answer_differently_at_once_one_goes_on_and_the_other_is_told() {
    for _ in 0..20 {
        let (agent, told) = one();
        let bed = bed([agent]);
        let run_id = waiting(&bed).await;
        let (yes, no) = (approved(&run_id), answered(&run_id, json!({ "approved": false })));
        let (engine, other) = (bed.engine.clone(), bed.engine.clone());
        let yes = tokio::spawn(async move { engine.resume(yes).await });
        let no = tokio::spawn(async move { other.resume(no).await });
        let outcomes = [yes.await.unwrap(), no.await.unwrap()];
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(won, 1, "{outcomes:?}");
        let lost = outcomes.into_iter().find_map(Result::err).unwrap();
        assert!(matches!(lost, ResumeError::Answered { .. }), "{lost}");
        assert_eq!(bed.ended(&run_id).await.ending(), "completed");
        assert_eq!(told.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn answers_that_are_too_few_or_break_the_schema_change_nothing_and_entries_nobody_asked_for_are_left_out() {
    let (agent, told) = asking(|question| Suspension::asking(question, [Question::input("colour")]));
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    let before = so_far(&bed.store, &run_id).await.frames;
    let incomplete = bed.engine.resume(approved(&run_id)).await.unwrap_err();
    let ResumeError::Refused(CreateRunError::ResumeIncomplete { missing, .. }) = &incomplete else {
        panic!("{incomplete}")
    };
    assert_eq!(missing, &["colour"]);
    let entry = |id: &str, payload: Value| {
        let mut entry = ResumeEntry::new(id, ResumeStatus::Resolved);
        entry.payload = Some(payload);
        entry
    };
    let mut resume = answered(&run_id, json!({ "approved": "yes" }));
    resume.answers.push(entry("colour", json!("red")));
    let broken = bed.engine.resume(resume.clone()).await.unwrap_err();
    let ResumeError::Refused(CreateRunError::AnswerBreaksSchema { interrupt, path, expected, .. }) = &broken else {
        panic!("{broken}")
    };
    assert_eq!((interrupt.as_str(), path.as_str()), ("approval_call_1", "/approved"));
    assert!(expected.contains("boolean"), "{expected}");
    assert_eq!(so_far(&bed.store, &run_id).await.frames, before, "nothing was written");

    resume.answers[0] = ResumeEntry::new("approval_call_1", ResumeStatus::Cancelled);
    resume.answers.push(entry("nobody", json!(1)));
    bed.engine.resume(resume).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert!(log.notices().iter().any(|(code, _)| *code == "resume_entries_ignored"), "{}", log.dump());
    let told = told.lock().unwrap();
    assert_eq!(told[0].1.iter().map(|answer| answer.value.clone()).collect::<Vec<_>>(), [None, Some(json!("red"))]);
}

#[tokio::test]
async fn an_answer_over_ag_ui_that_breaks_the_schema_is_refused_before_anything_is_stored() {
    let (agent, told) = one();
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    let mut wrong = answers("t", "r2", &["approval_call_1"]);
    wrong.resume.as_mut().unwrap()[0].payload = Some(json!([]));
    let refused = bed.create(request("asking", wrong)).await.unwrap_err();
    assert!(matches!(refused, CreateRunError::AnswerBreaksSchema { .. }), "{refused}");
    assert!(bed.store.run_by_exchange("t", "r2").await.unwrap().is_none());
    bed.create(request("asking", answers("t", "r2", &["approval_call_1"]))).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert_eq!(told.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_driver_that_asks_with_a_schema_that_is_none_fails_its_run_and_says_why() {
    for (schema, says) in [
        (json!({ "type": "colour" }), "no valid schema"),
        (json!({ "$ref": "https://example.com/schema" }), "`https://example.com/schema`"),
    ] {
        let schema = object(schema);
        let (agent, _) = asking(move |question| Suspension::asking(question.schema(schema.clone()), []));
        let log = bed([agent]).run("asking").await;
        let (code, message, _) = log.error();
        assert_eq!((log.ending(), code), ("failed", "INTERNAL_ERROR"));
        assert!(message.contains(says) && message.contains("approval_call_1"), "{message}");
    }
}

#[tokio::test]
async fn a_deadline_denies_by_default_fails_where_configured_and_answers_with_what_fits() {
    let allowed = OnDeadline::Answer(json!({ "approved": true }));
    let unfit = OnDeadline::Answer(json!({ "approved": "perhaps" }));
    for (rule, ending, yes) in [
        (OnDeadline::Deny, "completed", Some(false)),
        (OnDeadline::Fail, "failed", None),
        (allowed, "completed", Some(true)),
        (unfit, "failed", None),
    ] {
        let (agent, told) = asking(|question| Suspension::asking(question, []).until(past()));
        let bed = bed_waiting(agent, WaitRule { on_deadline: rule.clone(), ..WaitRule::default() });
        let run_id = waiting(&bed).await;
        assert_eq!(bed.engine.resolve_due().await.unwrap(), 1);
        let log = bed.ended(&run_id).await;
        assert_eq!(log.ending(), ending, "{rule:?}");
        assert_eq!(resolved_by(&log), [Some("deadline".to_owned())]);
        let told = told.lock().unwrap().clone();
        assert_eq!(told.first().map(|(_, answers)| answers[0].approved()), yes, "{rule:?}");
        if ending == "failed" {
            let (code, message, retryable) = log.error();
            assert_eq!((code, retryable), ("TIMEOUT", false));
            assert!(message.contains("nobody answered"), "{message}");
            assert_eq!(message.contains("deadline_answer"), rule != OnDeadline::Fail, "{message}");
        } else if yes == Some(false) {
            assert_eq!(told[0].1[0].value, None, "given up, not answered");
        }
        assert_eq!(bed.engine.resolve_due().await.unwrap(), 0, "nothing is due any more");
    }
}

#[tokio::test]
async fn a_deadline_that_passed_while_no_server_was_there_is_acted_on_by_the_next() {
    let (agent, told) = asking(|question| Suspension::asking(question, []).until(past()));
    let bed = bed([agent.clone()]);
    let run_id = waiting(&bed).await;
    bed.engine.shutdown(Duration::from_secs(10)).await;
    let next = Engine::new(bed.store.clone(), [agent], EngineOptions::default());
    assert_eq!(next.recover().await.unwrap(), [(run_id.clone(), Recovered::Suspended)]);
    next.watch_deadlines();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert!(!told.lock().unwrap()[0].1[0].approved());
}

#[tokio::test]
async fn a_run_waits_as_long_as_its_agent_is_configured_to_and_the_earliest_end_counts() {
    let within = WaitRule { answer_within: Some(Duration::from_secs(3600)), ..WaitRule::default() };
    let (agent, _) = one();
    let bed = bed_waiting(agent, within.clone());
    let run_id = waiting(&bed).await;
    let waits = bed.engine.waits_for(&bed.record(&run_id).await).await.unwrap().unwrap();
    let deadline = waits.deadline.unwrap();
    assert!(deadline > runwire_engine::now());
    assert_eq!(waits.interrupts[0].expires_at.as_deref(), Some(&*deadline.to_string()), "AG-UI clients see it too");
    assert_eq!(bed.store.due(deadline.unix_millis() - 1, 10).await.unwrap(), []);
    assert_eq!(bed.store.due(deadline.unix_millis(), 10).await.unwrap().len(), 1);

    // A clock that was wrong, or a store of before: the log decides.
    let head = bed.record(&run_id).await.head;
    assert!(bed.store.put_off(&run_id, head, Some(0)).await.unwrap());
    assert_eq!(bed.engine.resolve_due().await.unwrap(), 1);
    assert_eq!(bed.record(&run_id).await.status, "suspended");
    assert_eq!(bed.store.due(deadline.unix_millis(), 10).await.unwrap().len(), 1, "due when it really is");

    bed.engine.resume(approved(&run_id)).await.unwrap();
    bed.ended(&run_id).await;
    assert_eq!(bed.store.due(i64::MAX, 10).await.unwrap(), [], "what goes on is not due");
}

#[tokio::test]
async fn the_interrupts_own_expiry_ends_waiting_when_it_is_earlier() {
    let early = agent("asking", |exchange, _| async move {
        if exchange.resumed {
            return Ok(completed());
        }
        let mut suspension = Suspension::asking(Question::input("i1"), []).until(Timestamp::from_unix_millis(i64::MAX));
        suspension.contract["interrupts"][0]["expiresAt"] = "2001-01-01T00:00:00Z".into();
        Ok(ExchangeEnd::Suspended(suspension))
    });
    let bed = bed([early]);
    let run_id = waiting(&bed).await;
    bed.engine.resolve_due().await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
}

#[tokio::test]
async fn a_suspended_run_that_is_cancelled_can_be_answered_no_more_and_is_never_due() {
    let (agent, told) = asking(|question| Suspension::asking(question, []).until(past()));
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    bed.engine.cancel(&run_id).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
    assert_eq!(bed.engine.resolve_due().await.unwrap(), 0);
    let late = bed.engine.resume(approved(&run_id)).await.unwrap_err();
    let ResumeError::NotSuspended { status, .. } = &late else { panic!("{late}") };
    assert_eq!(status, "cancelled");
    assert!(told.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_run_whose_server_stopped_is_answered_at_the_next() {
    let (agent, _) = one();
    let bed = bed([agent.clone()]);
    let run_id = waiting(&bed).await;
    bed.engine.shutdown(Duration::from_secs(10)).await;
    let next = Engine::new(bed.store.clone(), [agent], EngineOptions::default());
    next.recover().await.unwrap();
    let started = next.resume(approved(&run_id)).await.unwrap();
    assert!(!started.existing);
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed");
    assert_eq!(log.types().iter().filter(|kind| **kind == FrameType::Resume).count(), 1);
}

/// One look takes a few runs, so that no look is long however many are due; the rest is found by the next.
#[tokio::test]
async fn however_many_runs_are_due_all_of_them_are_resolved() {
    const RUNS: usize = 150;
    let (agent, _) = asking(|question| Suspension::asking(question, []).until(past()));
    let bed = bed_waiting(agent, WaitRule { on_deadline: OnDeadline::Fail, ..WaitRule::default() });
    let mut runs = Vec::new();
    for n in 0..RUNS {
        runs.push(bed.create(request("asking", input(&format!("t{n}"), "r"))).await.unwrap().record.run_id);
    }
    for run_id in &runs {
        bed.reaches(run_id, RunStatus::Suspended).await;
    }
    bed.idle().await;
    assert_eq!(bed.store.live_runs(), 0, "a run that waits is nowhere but in the store");
    let mut looks = 0;
    while bed.engine.resolve_due().await.unwrap() > 0 {
        looks += 1;
    }
    assert_eq!(looks, 3);
    for run_id in &runs {
        assert_eq!(bed.record(run_id).await.status, "failed");
    }
}
