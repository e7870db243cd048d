//! Interrupts and the inputs that answer them, or do not (basic/patterns/interrupt-resume).

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::{Arc, Mutex};

use fixture::{Bed, agent, answers, bed, completed, input, prompt, request, so_far, suspended};
use runwire_agui::RunAgentInput;
use runwire_bridge::{Ending, Opening};
use runwire_engine::{Agent, CreateRun, CreateRunError, RunRequest};
use runwire_frame::{Data, RunStatus, Usage};

type Inputs = Arc<Mutex<Vec<RunAgentInput>>>;

/// Asks `i1` and `i2` in the middle of a step on a fresh run, and completes every other exchange. Says what it was asked.
fn asking() -> (Agent, Inputs) {
    let inputs = Inputs::default();
    let seen = inputs.clone();
    let agent = agent("asking", move |exchange, starting| {
        seen.lock().unwrap().push((*exchange.input).clone());
        async move {
            let writer = starting.begin(None);
            if !exchange.resumed && exchange.input.run_id.starts_with("ask") {
                let model = writer.model(Opening::default()).await?;
                let usage = Usage { input_tokens: Some(7), ..Usage::default() };
                model.end(Ending { usage: Some(usage), ..Ending::completed() }).await?;
                let _open = writer.step(Opening { name: Some("plan".to_owned()), ..Opening::default() }).await?;
                return Ok(suspended(&["i1", "i2"]));
            }
            Ok(completed())
        }
    });
    (agent, inputs)
}

async fn waiting(bed: &Bed) -> String {
    let run_id = bed.create(request("asking", input("t", "ask-1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    run_id
}

/// "The run MUST NOT end as success while an interrupt the producer knows to be open stands unanswered": the client is told
/// again what is asked, also one that lost it in a reload, and nothing is done meanwhile.
#[tokio::test]
async fn an_input_that_answers_nothing_is_told_again_what_the_thread_waits_for() {
    let (agent, inputs) = asking();
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    let asked = so_far(&bed.store, &run_id).await.last_event();
    let mut next = input("t", "r2");
    next.resume = Some(Vec::new());
    let again = bed.create(request("asking", next.clone())).await.unwrap();
    assert_eq!((again.record.run_id.as_str(), again.record.status.as_str()), (&*run_id, "suspended"));
    assert!(!again.existing);
    let log = so_far(&bed.store, &run_id).await;
    let last = log.last_event();
    assert_eq!(last["runId"], "r2");
    assert_eq!(last["outcome"], asked["outcome"], "the same interrupts");
    assert!(asked.get("usage").is_some() && last.get("usage").is_none(), "{last}: it made no call of its own");
    assert!(log.notices().iter().any(|(code, _)| *code == "interrupts_unanswered"), "{}", log.dump());
    let resume = log.frames.iter().find_map(|frame| match &frame.data {
        Data::Resume(resume) => Some(resume),
        _ => None,
    });
    assert_eq!(resume.unwrap().extra["agui"]["input"]["runId"], "r2");
    assert_eq!(inputs.lock().unwrap().len(), 1, "the agent is not asked");
    // It is an exchange like any other: repeated, it re-attaches.
    let repeated = bed.create(request("asking", next)).await.unwrap();
    assert!(repeated.existing);
    assert_eq!(so_far(&bed.store, &run_id).await.frames, log.frames);
    // And the answer still goes on with the run.
    bed.create(request("asking", answers("t", "r3", &["i1", "i2"]))).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    assert_eq!(inputs.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_asked_again_is_known_to_the_next_server() {
    let (agent, _) = asking();
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    bed.create(request("asking", input("t", "r2"))).await.unwrap();
    bed.idle().await;
    let recovered = bed.engine.recover().await.unwrap();
    assert!(recovered.iter().all(|(_, what)| *what == runwire_engine::Recovered::Suspended), "{recovered:?}");
    assert_eq!(bed.engine.cancel(&run_id).await.unwrap().status, "cancelled");
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
}

/// Whoever sends a prompt cannot answer by it, and would take the run that waits for the one that was asked for.
#[tokio::test]
async fn a_prompt_to_a_session_that_waits_is_refused_with_what_it_waits_for() {
    let (agent, inputs) = asking();
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    let before = so_far(&bed.store, &run_id).await;
    let ask = RunRequest::Prompt { prompt: "And now?".to_owned(), session_id: Some("t".to_owned()) };
    let refused = bed.create(CreateRun { request: ask, ..prompt("asking") }).await.unwrap_err();
    let CreateRunError::WaitsForAnswer { run_id: waits, interrupts } = &refused else { panic!("{refused}") };
    assert_eq!((waits, interrupts.as_slice()), (&run_id, &["i1".to_owned(), "i2".to_owned()][..]));
    assert_eq!(so_far(&bed.store, &run_id).await.frames, before.frames);
    assert_eq!(inputs.lock().unwrap().len(), 1);
}

/// "An unrecognised entry: the run SHOULD proceed without the entry, and the producer SHOULD surface a warning."
#[tokio::test]
async fn entries_that_name_no_open_interrupt_are_left_out_with_a_warning() {
    let (agent, inputs) = asking();
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    bed.create(request("asking", answers("t", "r2", &["i1", "elsewhere", "i2"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed");
    let named: Vec<String> =
        inputs.lock().unwrap()[1].resume().iter().map(|entry| entry.interrupt_id.clone()).collect();
    assert_eq!(named, ["i1", "i2"], "the agent gets what it asked for");
    let notices = log.notices();
    let [(code, message)] = notices[..] else { panic!("{}", log.dump()) };
    assert_eq!(code, "resume_entries_ignored");
    assert!(message.contains("`elsewhere`") && !message.contains("`i1`"), "{message}");
    let echo = log.events.iter().map(|event| event.to_value()).find(|event| event["runId"] == "r2").unwrap();
    assert_eq!(echo["input"]["resume"].as_array().map(Vec::len), Some(2), "the echo is what the agent was asked");
}

#[tokio::test]
async fn two_entries_for_one_interrupt_are_refused() {
    let (agent, inputs) = asking();
    let bed = bed([agent]);
    waiting(&bed).await;
    let refused = bed.create(request("asking", answers("t", "r2", &["i1", "i2", "i1"]))).await.unwrap_err();
    assert!(matches!(&refused, CreateRunError::ResumeRepeated { interrupt_id } if interrupt_id == "i1"), "{refused}");
    assert_eq!(inputs.lock().unwrap().len(), 1);
}

/// "A resume list on a run that does not continue an interrupted run answers nothing; producers treat its entries as
/// unrecognised."
#[tokio::test]
async fn a_resume_list_on_a_thread_that_waits_for_nothing_is_left_out_of_an_ordinary_run() {
    let (agent, inputs) = asking();
    let bed = bed([agent]);
    for (number, thread) in ["new", "used", "used"].into_iter().enumerate() {
        let run = format!("r{number}");
        let started = bed.create(request("asking", answers(thread, &run, &["i1"]))).await.unwrap();
        let log = bed.ended(&started.record.run_id).await;
        assert_eq!(log.ending(), "completed");
        assert_eq!(log.notices()[0].0, "resume_entries_ignored", "{}", log.dump());
        assert!(inputs.lock().unwrap()[number].resume().is_empty());
        let again = bed.create(request("asking", answers(thread, &run, &["i1"]))).await.unwrap();
        assert!(again.existing, "its repetition re-attaches");
    }
}

/// An answer that a second tab gives once more must not have the agent's work done once more.
#[tokio::test]
async fn an_answer_to_what_was_answered_starts_nothing() {
    let (agent, inputs) = asking();
    let bed = bed([agent]);
    let run_id = waiting(&bed).await;
    bed.create(request("asking", answers("t", "r2", &["i1", "i2"]))).await.unwrap();
    bed.ended(&run_id).await;
    let late = bed.create(request("asking", answers("t", "r3", &["i1", "i2"]))).await.unwrap_err();
    let CreateRunError::AlreadyResolved { run_id: of, resolved } = &late else { panic!("{late}") };
    assert_eq!((of, resolved.len()), (&run_id, 2));
    assert_eq!(inputs.lock().unwrap().len(), 2);
    // The thread is free for what comes next.
    let next = bed.create(request("asking", input("t", "r4"))).await.unwrap();
    assert_ne!(next.record.run_id, run_id);
    assert_eq!(bed.ended(&next.record.run_id).await.ending(), "completed");
}

/// Inputs that answer nothing race with the answer: whatever comes first, the run is gone on with once and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_goes_through_whatever_else_comes_to_its_thread() {
    let (agent, _) = asking();
    let bed = Arc::new(bed([agent]));
    for round in 0..20 {
        let thread = format!("t{round}");
        let run_id = bed.create(request("asking", input(&thread, "ask"))).await.unwrap().record.run_id;
        bed.reaches(&run_id, RunStatus::Suspended).await;
        let others = (0..3).map(|number| {
            let (bed, thread) = (bed.clone(), thread.clone());
            tokio::spawn(async move {
                let started = bed.create(request("asking", input(&thread, &format!("o{number}")))).await.unwrap();
                bed.ended(&started.record.run_id).await;
            })
        });
        let others: Vec<_> = others.collect();
        bed.create(request("asking", answers(&thread, "r2", &["i1", "i2"]))).await.unwrap();
        assert_eq!(bed.ended(&run_id).await.ending(), "completed");
        for other in others {
            other.await.unwrap();
        }
    }
}
