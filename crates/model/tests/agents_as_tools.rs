//! Agents that are tools of other agents: what the model is told, what the logs say, and whose account it is.

#![allow(clippy::unwrap_used)]

#[path = "../../engine/tests/fixture/mod.rs"]
mod fixture;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::{Bed, Log, agent, bed, bed_on, cancelled, completed, driven_by, suspended};
use futures_util::{StreamExt as _, stream};
use runwire_agui::{CallUsage, ResumeEntry, ResumeStatus};
use runwire_bridge::{Failure, Opening};
use runwire_engine::{Agent, EngineOptions, LaneOptions, ResumeRun};
use runwire_frame::{Data, ErrorCode, RunStatus, SegmentKind, SegmentStatus};
use runwire_model::{
    AgentOptions, AgentTool, AgentToolOptions, Approval, Media, Model, ModelDriver, ModelEvent, ModelRequest,
    ModelStream, OwnTool, Turn,
};
use runwire_store::{RunFilter, RunRecord};

/// A model that answers what is written down, in this order, and remembers what it was asked.
#[derive(Clone)]
struct Scripted {
    answers: Arc<Mutex<VecDeque<Vec<ModelEvent>>>>,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Scripted {
    fn answering(answers: impl IntoIterator<Item = Vec<ModelEvent>>) -> Scripted {
        Scripted { answers: Arc::new(Mutex::new(answers.into_iter().collect())), asked: Arc::default() }
    }

    /// The results that it was told last, with whether they are good ones.
    fn results(&self) -> Vec<(bool, String)> {
        let asked = self.asked.lock().unwrap();
        match asked.last().unwrap().turns.last() {
            Some(Turn::Results(results)) => results.iter().map(|result| (result.ok, result.text.clone())).collect(),
            _ => Vec::new(),
        }
    }
}

impl Model for Scripted {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn takes(&self, _: &Media) -> bool {
        false
    }

    fn body(&self, model: &str, _: &ModelRequest) -> serde_json::Value {
        serde_json::json!({ "model": model })
    }

    fn call(&self, _: &str, request: &ModelRequest) -> ModelStream {
        self.asked.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front().expect("this call is written down");
        stream::iter(answer.into_iter().map(Ok)).boxed()
    }
}

/// An answer with ten tokens in and five out.
fn answer(events: impl IntoIterator<Item = ModelEvent>, reason: &str) -> Vec<ModelEvent> {
    let usage = CallUsage { input: Some(10), output: Some(5), ..CallUsage::default() };
    events.into_iter().chain([ModelEvent::Usage(usage), ModelEvent::Finished(reason.to_owned())]).collect()
}

fn says(words: &str) -> Vec<ModelEvent> {
    answer([ModelEvent::Text(words.to_owned())], "stop")
}

/// Calls `research` once for each of these arguments.
fn asks(arguments: &[&str]) -> Vec<ModelEvent> {
    let calls = arguments.iter().enumerate().flat_map(|(index, arguments)| {
        let id = Some(format!("call_{index}"));
        [
            ModelEvent::Call { index, id, name: "research".to_owned() },
            ModelEvent::Arguments { index, delta: (*arguments).to_owned() },
        ]
    });
    answer(calls, "tool_calls")
}

fn research() -> AgentToolOptions {
    AgentToolOptions::new("research", "Finds things out", "researcher")
}

fn lead(model: &Scripted, tool: AgentToolOptions) -> Agent {
    let tools = vec![Arc::new(AgentTool::new(tool)) as Arc<dyn OwnTool>];
    driven_by("lead", ModelDriver::new("scripted", model.clone(), AgentOptions { tools, ..AgentOptions::new("m") }))
}

fn model_agent(id: &str, model: &Scripted) -> Agent {
    driven_by(id, ModelDriver::new("scripted", model.clone(), AgentOptions::new("small")))
}

async fn children(bed: &Bed, run_id: &str) -> Vec<RunRecord> {
    let filter = RunFilter { parent_run_id: Some(run_id.to_owned()), ..RunFilter::default() };
    bed.store.runs(filter).await.unwrap()
}

/// The tokens of the run's account.
fn tokens(log: &Log) -> Vec<(Option<String>, Option<u64>)> {
    let Some(Data::RunEnd(end)) = log.frames.last().map(|frame| &frame.data) else { panic!("it has ended") };
    end.usage.iter().flatten().map(|usage| (usage.model.clone(), usage.total_tokens)).collect()
}

#[tokio::test]
async fn the_model_calls_an_agent_by_a_prompt_and_is_told_its_last_message() {
    let helper = Scripted::answering([says("Rome was founded in 753 BC")]);
    let model = Scripted::answering([asks(&[r#"{"prompt":"When was Rome founded?"}"#]), says("In 753 BC")]);
    let bed = bed([lead(&model, research()), model_agent("researcher", &helper)]);
    let log = bed.run("lead").await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "In 753 BC"), "{}", log.dump());
    assert_eq!(model.results(), [(true, "Rome was founded in 753 BC".to_owned())]);
    let offered = model.asked.lock().unwrap()[0].tools[0].clone();
    assert_eq!((offered.name.as_str(), offered.description.as_str()), ("research", "Finds things out"));
    assert_eq!(offered.parameters["required"], serde_json::json!(["prompt"]));
    // The agent is inside of the call, and the call inside of the model's answer or beside it, as for other tools.
    let starts: Vec<_> = log
        .frames
        .iter()
        .filter_map(|frame| match &frame.data {
            Data::SegmentStart(start) => Some((frame.segment_id.clone().unwrap(), start.clone())),
            _ => None,
        })
        .collect();
    let (call, _) = starts.iter().find(|(_, start)| start.kind == SegmentKind::Tool).unwrap();
    let (_, agent) = starts.iter().find(|(_, start)| start.kind == SegmentKind::Agent).unwrap();
    assert_eq!(agent.parent_segment_id.as_deref(), Some(call.as_str()));
    let [child] = &children(&bed, &log.run_id).await[..] else { panic!("it started one") };
    assert_eq!(agent.child_run_id.as_deref(), Some(&*child.run_id));
    assert_eq!(tokens(&log), [(Some("m".to_owned()), Some(30))]);
    assert_eq!(tokens(&bed.ended(&child.run_id).await), [(Some("small".to_owned()), Some(15))]);
    let asked = helper.asked.lock().unwrap()[0].turns.clone();
    assert_eq!(asked.len(), 1, "it knows nothing of the other conversation");
}

#[tokio::test]
async fn several_calls_are_several_runs_also_in_a_lane_of_one() {
    let helper = Scripted::answering([says("one"), says("two"), says("three")]);
    let prompt = r#"{"prompt":"Which?"}"#;
    let model = Scripted::answering([asks(&[prompt, prompt, prompt]), says("done")]);
    let lanes = BTreeMap::from([("default".to_owned(), LaneOptions { limit: Some(1), max_queued: Some(0) })]);
    let options = EngineOptions { lanes, ..EngineOptions::default() };
    let bed = bed_on([lead(&model, research()), model_agent("researcher", &helper)], options);
    let log = bed.run("lead").await;
    assert_eq!(log.ending(), "completed");
    let mut told: Vec<String> = model.results().into_iter().map(|(_, text)| text).collect();
    told.sort_unstable();
    assert_eq!(told, ["one", "three", "two"]);
    assert_eq!(children(&bed, &log.run_id).await.len(), 3);
}

/// What the model is told of a call to an agent that does this.
async fn told_of(researcher: Agent, tool: AgentToolOptions, arguments: &str) -> (Vec<(bool, String)>, Log) {
    let model = Scripted::answering([asks(&[arguments]), says("done")]);
    let bed = bed([lead(&model, tool), researcher]);
    let log = bed.run("lead").await;
    (if log.ending() == "completed" { model.results() } else { Vec::new() }, log)
}

fn fails() -> Agent {
    agent("researcher", |_, starting| async move {
        starting.begin(None);
        Err::<runwire_bridge::ExchangeEnd, _>(Failure::new(ErrorCode::RateLimited, "too many requests"))
    })
}

fn hangs() -> Agent {
    agent("researcher", |exchange, starting| async move {
        starting.begin(None);
        exchange.stop.cancelled().await;
        Ok(cancelled())
    })
}

fn talks(bytes: usize) -> Agent {
    agent("researcher", move |_, starting| async move {
        let message = starting.begin(None).message(Opening::default()).await?;
        message.text(&"x".repeat(bytes)).await?;
        Ok(completed())
    })
}

#[tokio::test]
async fn what_becomes_of_an_agent_that_does_not_answer_is_the_failed_result_of_the_call() {
    let prompt = r#"{"prompt":"Well?"}"#;
    let short = AgentToolOptions { max_result_bytes: 10, ..research() };
    let patient = AgentToolOptions { timeout: Some(Duration::from_millis(20)), ..research() };
    let nobody = AgentToolOptions { agent_id: "nobody".to_owned(), ..research() };
    let cases = [
        (fails(), research(), prompt, "failed with RATE_LIMITED: too many requests"),
        (hangs(), patient, prompt, "did not answer within 20 ms, and was stopped"),
        (talks(11), short, prompt, "more than 10 bytes"),
        (talks(1), nobody, prompt, "no agent `nobody`"),
        (talks(1), research(), r#"{"question":"Well?"}"#, "`prompt` is missing"),
        (talks(1), research(), r#"{"prompt":" "}"#, "`prompt` is missing"),
    ];
    for (researcher, tool, arguments, why) in cases {
        let (told, log) = told_of(researcher, tool, arguments).await;
        let [(false, text)] = &told[..] else { panic!("{why}: {told:?}\n{}", log.dump()) };
        assert!(text.contains(why), "{text}");
    }
}

#[tokio::test]
async fn an_agent_that_its_caller_cannot_do_without_fails_the_run() {
    let required = AgentToolOptions { required: true, ..research() };
    let (_, log) = told_of(fails(), required, r#"{"prompt":"Well?"}"#).await;
    assert_eq!(log.ending(), "failed");
    assert!(log.error().1.contains("RATE_LIMITED"), "{}", log.error().1);
}

#[tokio::test]
async fn a_call_to_an_agent_can_wait_to_be_allowed() {
    let model = Scripted::answering([asks(&[r#"{"prompt":"Well?"}"#]), says("done")]);
    let bed = bed([lead(&model, AgentToolOptions { approval: Approval::Always, ..research() }), talks(3)]);
    let run_id = bed.start("lead").await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    assert!(children(&bed, &run_id).await.is_empty());
    let payload = Some(serde_json::json!({ "approved": true }));
    let answers = vec![ResumeEntry { payload, ..ResumeEntry::new("approval_call_0", ResumeStatus::Resolved) }];
    let resume = ResumeRun { run_id: run_id.clone(), answers, exchange_id: None, principal: None };
    bed.engine.resume(resume).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert_eq!(model.results(), [(true, "xxx".to_owned())]);
}

#[tokio::test]
async fn an_agent_that_asks_is_waited_for_and_answered_by_its_own_run() {
    let asking = agent("researcher", |exchange, starting| async move {
        let writer = starting.begin(None);
        if !exchange.resumed {
            return Ok(suspended(&["i1"]));
        }
        let message = writer.message(Opening::default()).await?;
        message.text("now I know").await?;
        Ok(completed())
    });
    let model = Scripted::answering([asks(&[r#"{"prompt":"Well?"}"#]), says("done")]);
    let bed = bed([lead(&model, research()), asking]);
    let run_id = bed.start("lead").await;
    bed.shows(&run_id, |frame| matches!(&frame.data, Data::Notice(notice) if notice.code == "child_waits")).await;
    let child = children(&bed, &run_id).await.remove(0).run_id;
    let answers = vec![ResumeEntry::new("i1", ResumeStatus::Resolved)];
    let resume = ResumeRun { run_id: child, answers, exchange_id: None, principal: None };
    bed.engine.resume(resume).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert_eq!(model.results(), [(true, "now I know".to_owned())]);
}

#[tokio::test]
async fn a_stop_of_the_caller_stops_the_agent() {
    let model = Scripted::answering([asks(&[r#"{"prompt":"Well?"}"#])]);
    let bed = bed([lead(&model, research()), hangs()]);
    let run_id = bed.start("lead").await;
    bed.shows(&run_id, |frame| matches!(&frame.data, Data::SegmentStart(start) if start.child_run_id.is_some())).await;
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "cancelled");
    assert!(log.segment_ends().iter().all(|status| *status != SegmentStatus::Failed));
    let child = children(&bed, &run_id).await.remove(0).run_id;
    assert_eq!(bed.ended(&child).await.ending(), "cancelled");
}
