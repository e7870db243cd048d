//! A list that is empty and a state of nothing say what their absence says (basic/run-input, "tools", "context", "state"): an
//! input with them is the same input, also for a store that has it from when they were told apart.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use fixture::{Bed, agent, answers, bed, completed, input, request, suspended};
use runwire_agui::{Context, RunAgentInput};
use runwire_engine::{Agent, CreateRun, CreateRunError, IdempotencyKey, RunRequest};
use runwire_frame::RunStatus;
use runwire_store::{Added, Created, ExchangeRecord, NewRun, RequestKey};
use serde_json::{Value, json};
use uuid::Uuid;

/// Asks one thing, where its input's messages are none, and ends once that is answered.
fn asking() -> Agent {
    agent("asking", |exchange, starting| async move {
        starting.begin(None);
        Ok(if exchange.resumed { completed() } else { suspended(&["i1"]) })
    })
}

fn ending() -> Agent {
    agent("ending", |_, starting| async move {
        starting.begin(None);
        Ok(completed())
    })
}

/// The input without anything empty, with one empty member each, and with all of them.
fn spellings(plain: &RunAgentInput) -> Vec<RunAgentInput> {
    let plain = RunAgentInput { tools: None, context: None, state: None, ..plain.clone() };
    let empty_state = Some(json!({}));
    let mut spellings = vec![
        plain.clone(),
        RunAgentInput { tools: Some(Vec::new()), ..plain.clone() },
        RunAgentInput { context: Some(Vec::new()), ..plain.clone() },
        RunAgentInput { state: empty_state.clone(), ..plain.clone() },
        RunAgentInput { tools: Some(Vec::new()), context: Some(Vec::new()), state: empty_state, ..plain.clone() },
    ];
    if plain.resume().is_empty() {
        spellings.push(RunAgentInput { resume: Some(Vec::new()), ..plain });
    }
    spellings
}

/// What says more than its absence.
fn others(plain: &RunAgentInput) -> Vec<RunAgentInput> {
    let context = vec![Context::new("what", "")];
    vec![
        RunAgentInput { context: Some(context), ..plain.clone() },
        RunAgentInput { state: Some(json!([])), ..plain.clone() },
        RunAgentInput { forwarded_props: Some(json!({})), ..plain.clone() },
    ]
}

/// A digest as it was made when what is empty was told apart from what is left out.
fn former(mut asked: Value) -> String {
    asked.sort_all_objects();
    Uuid::new_v5(&Uuid::NAMESPACE_OID, asked.to_string().as_bytes()).simple().to_string()
}

fn former_input(agent_id: &str, input: &RunAgentInput) -> String {
    former(json!([agent_id, input]))
}

async fn attaches(bed: &Bed, create: CreateRun, run_id: &str) {
    let again = bed.create(create).await.unwrap();
    assert!(again.existing);
    assert_eq!(again.record.run_id, run_id);
}

async fn is_another(bed: &Bed, create: CreateRun) {
    let refused = bed.create(create).await.unwrap_err();
    assert!(matches!(refused, CreateRunError::OtherInput { .. }), "{refused}");
}

#[tokio::test]
async fn an_input_that_comes_again_with_what_is_empty_or_without_it_attaches_to_its_run() {
    let bed = bed([ending()]);
    let plain = input("t", "r1");
    for first in spellings(&plain) {
        let first = RunAgentInput { run_id: Uuid::now_v7().to_string(), ..first };
        let run_id = bed.create(request("ending", first.clone())).await.unwrap().record.run_id;
        for again in spellings(&first) {
            attaches(&bed, request("ending", again), &run_id).await;
        }
        for other in others(&first) {
            is_another(&bed, request("ending", other)).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_again_with_what_is_empty_or_without_it_is_the_same_answer() {
    let bed = bed([asking()]);
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    let answer = answers("t", "r2", &["i1"]);
    assert!(!bed.create(request("asking", answer.clone())).await.unwrap().existing);
    bed.ended(&run_id).await;
    for again in spellings(&answer) {
        attaches(&bed, request("asking", again), &run_id).await;
    }
}

#[tokio::test]
async fn a_request_with_a_key_that_comes_again_with_what_is_empty_or_without_it_is_the_same_request() {
    let bed = bed([ending()]);
    let key = || IdempotencyKey::new("k").unwrap();
    let plain = RunAgentInput { run_id: String::new(), ..input("", "") };
    let run_id = bed.engine.create_run_once(request("ending", plain.clone()), key()).await.unwrap().record.run_id;
    for again in spellings(&plain) {
        let again = bed.engine.create_run_once(request("ending", again), key()).await.unwrap();
        assert_eq!((again.existing, &again.record.run_id), (true, &run_id));
    }
    for other in others(&plain) {
        let refused = bed.engine.create_run_once(request("ending", other), key()).await.unwrap_err();
        assert!(matches!(refused, CreateRunError::KeyTaken { .. }), "{refused}");
    }
}

fn stored(agent_id: &str, input: &RunAgentInput) -> NewRun {
    NewRun { input_digest: former_input(agent_id, input), ..fixture::stored("run_before", agent_id, input) }
}

#[tokio::test]
async fn an_input_that_was_stored_when_what_is_empty_was_told_apart_attaches_when_it_comes_as_it_came() {
    let released = RunAgentInput { tools: Some(Vec::new()), state: Some(json!({})), ..input("t", "r1") };
    let bed = bed([ending()]);
    let created = bed.store.create_run(stored("ending", &released)).await.unwrap();
    assert!(matches!(created, Created::New(_)));
    attaches(&bed, request("ending", released.clone()), "run_before").await;
    for other in others(&released) {
        is_another(&bed, request("ending", other)).await;
    }
}

#[tokio::test]
async fn a_key_that_was_stored_then_names_its_request_when_that_comes_as_it_came() {
    let released = RunAgentInput { tools: Some(Vec::new()), state: Some(json!({})), ..input("t", "r1") };
    let create = request("ending", released.clone());
    let asked = json!({
        "agent_id": "ending", "asked": { "input": released }, "session_id": "t", "lane": null, "metadata": create.metadata,
    });
    let key = RequestKey { principal: None, key: "k".to_owned(), request_digest: former(asked), created_at: 1 };
    let bed = bed([ending()]);
    bed.store.create_keyed_run(stored("ending", &released), Some(key)).await.unwrap();
    let key = || IdempotencyKey::new("k").unwrap();
    let again = bed.engine.create_run_once(create, key()).await.unwrap();
    assert_eq!((again.existing, again.record.run_id.as_str()), (true, "run_before"));
    let other = RunRequest::Input(Box::new(others(&released).remove(0)));
    let refused = bed.engine.create_run_once(CreateRun { request: other, ..prompt() }, key()).await.unwrap_err();
    assert!(matches!(refused, CreateRunError::KeyTaken { .. }), "{refused}");
}

fn prompt() -> CreateRun {
    fixture::prompt("ending")
}

/// A server of before took the answer and died over it; this one is given it again.
#[tokio::test]
async fn an_answer_that_was_stored_then_is_acted_on_when_it_comes_as_it_came() {
    let bed = bed([asking()]);
    let run_id = bed.create(request("asking", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    let answer = RunAgentInput { context: Some(Vec::new()), ..answers("t", "r2", &["i1"]) };
    let taken = ExchangeRecord {
        session_id: "t".to_owned(),
        exchange_id: "r2".to_owned(),
        input_digest: former_input("asking", &answer),
    };
    assert_eq!(bed.store.add_exchange(&run_id, taken).await.unwrap(), Added::New);
    let continued = bed.create(request("asking", answer.clone())).await.unwrap();
    assert_eq!((continued.existing, continued.record.run_id.as_str()), (false, &*run_id));
    assert_eq!(bed.ended(&run_id).await.ending(), "completed");
    attaches(&bed, request("asking", answer), &run_id).await;
}
