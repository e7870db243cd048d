//! A further attempt at an exchange in which approved calls were executed: what has worked is not done again.

use runwire_engine::{Agent, Engine, EngineOptions};

use super::*;

fn broken() -> Vec<Piece> {
    vec![Err(CallError::passing(ErrorCode::ModelError, "the line broke"))]
}

fn paying(model: &Scripted, pay: Recording, pause: Duration) -> Agent {
    let driver = ModelDriver::new("scripted", model.clone(), with(vec![pay]));
    fixture::retried_after(pause, 3, driven_by("a", driver))
}

/// Runs until the payment is asked about, and allows it. Gives the run.
async fn allowed(bed: &Bed) -> String {
    let run_id = bed.create(request("a", input("r1", json!({})))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    let entry = json!({ "interruptId": "approval_c1", "status": "resolved", "payload": { "approved": true } });
    bed.create(request("a", input("r2", json!({ "resume": [entry] })))).await.unwrap();
    run_id
}

/// What the model was told of the call, when it was asked last.
fn told(model: &Scripted) -> String {
    let (_, asked) = model.asked().pop().unwrap();
    let told = asked.turns.iter().find_map(|turn| match turn {
        Turn::Results(results) => results.iter().find(|result| result.id == "c1").cloned(),
        _ => None,
    });
    told.unwrap().text
}

#[tokio::test]
async fn an_approved_call_that_has_worked_is_not_made_again_by_the_next_attempt() {
    let (mut pay, paid) = tool("pay", Approval::Always);
    // More than a preview shows.
    let receipt = format!("paid {}", "x".repeat(4000));
    pay.returns = ToolReturn::worked(ToolOutput::Text(receipt.clone()));
    let model = Scripted::answering([calls(&[("c1", "pay", "{\"sum\":5}")]), broken(), broken(), says("Done")]);
    let bed = bed([paying(&model, pay, Duration::from_millis(1))]);
    let log = bed.ended(&allowed(&bed).await).await;
    assert_eq!(end(&log), (EndStatus::Completed, None));
    assert_eq!(paid.lock().unwrap().clone(), ["{\"sum\":5}"], "once, in three attempts");
    assert_eq!(results(&log).len(), 3, "each attempt has the result in its own log");
    assert_eq!(told(&model), receipt);
}

#[tokio::test]
async fn an_approved_call_that_has_failed_is_made_again_by_the_next_attempt() {
    let (mut pay, paid) = tool("pay", Approval::Always);
    pay.returns = ToolReturn::failed("the bank is closed");
    let model = Scripted::answering([calls(&[("c1", "pay", "{\"sum\":5}")]), broken(), says("A pity")]);
    let bed = bed([paying(&model, pay, Duration::from_millis(1))]);
    let log = bed.ended(&allowed(&bed).await).await;
    assert_eq!(end(&log), (EndStatus::Completed, None));
    assert_eq!(paid.lock().unwrap().len(), 2);
    assert_eq!(told(&model), "the bank is closed");
}

#[tokio::test]
async fn the_server_that_goes_on_with_the_exchange_knows_what_the_one_before_did() {
    let (pay, paid) = tool("pay", Approval::Always);
    let model = Scripted::answering([calls(&[("c1", "pay", "{\"sum\":5}")]), broken()]);
    let bed = bed([paying(&model, pay, Duration::from_secs(3600))]);
    let run_id = allowed(&bed).await;
    bed.reaches(&run_id, RunStatus::Retrying).await;
    bed.engine.shutdown(fixture::PATIENCE).await;
    assert_eq!(paid.lock().unwrap().len(), 1);

    let (pay, paid_again) = tool("pay", Approval::Always);
    let model = Scripted::answering([says("Done")]);
    let agent = paying(&model, pay, Duration::from_millis(1));
    let next = Engine::new(bed.store.clone(), [agent], EngineOptions::default());
    next.recover().await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(end(&log), (EndStatus::Completed, None));
    assert_eq!(paid_again.lock().unwrap().len(), 0, "what has worked is not done again");
    assert_eq!(told(&model), "pay did it");
    next.shutdown(fixture::PATIENCE).await;
}

#[tokio::test]
async fn an_approval_is_acted_on_by_the_next_server_where_the_one_before_had_not_come_to_it() {
    let (pay, paid) = tool("pay", Approval::Always);
    let model = Scripted::answering([calls(&[("c1", "pay", "{\"sum\":5}")])]);
    let mut agent = paying(&model, pay, Duration::from_secs(3600));
    // The call is executed before the model is asked again; a tool that fails the run leaves it without a result that worked.
    agent.policy.retry.max_attempts = 2;
    let bed = bed([agent]);
    let run_id = bed.create(request("a", input("r1", json!({})))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    bed.engine.shutdown(fixture::PATIENCE).await;
    assert_eq!(paid.lock().unwrap().len(), 0);

    let (mut pay, failed) = tool("pay", Approval::Always);
    pay.returns = ToolReturn { timed_out: true, ..ToolReturn::failed("the bank does not answer") };
    pay.required = true;
    let agent = paying(&Scripted::default(), pay, Duration::from_secs(3600));
    let second = Engine::new(bed.store.clone(), [agent], EngineOptions::default());
    let entry = json!({ "interruptId": "approval_c1", "status": "resolved", "payload": { "approved": true } });
    second.create_run(request("a", input("r2", json!({ "resume": [entry] })))).await.unwrap();
    bed.reaches(&run_id, RunStatus::Retrying).await;
    second.shutdown(fixture::PATIENCE).await;
    assert_eq!(failed.lock().unwrap().len(), 1);

    let (pay, paid) = tool("pay", Approval::Always);
    let model = Scripted::answering([says("Done")]);
    let third =
        Engine::new(bed.store.clone(), [paying(&model, pay, Duration::from_millis(1))], EngineOptions::default());
    third.recover().await.unwrap();
    assert_eq!(end(&bed.ended(&run_id).await), (EndStatus::Completed, None));
    assert_eq!(paid.lock().unwrap().clone(), ["{\"sum\":5}"], "as it was recorded, and allowed");
    assert_eq!(told(&model), "pay did it");
    third.shutdown(fixture::PATIENCE).await;
}
