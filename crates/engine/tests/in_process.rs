//! Agents of the program's own: written through handles, they cannot make an illegal run.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runwire_agui::AgentCapabilities;
use runwire_engine::{Agent, Ending, Exchange, ExchangeEnd, Failure, InProcess, Opening, RunWriter};
use runwire_frame::{ErrorCode, RunStatus, SegmentStatus};

use fixture::{answers, bed, input, request};

async fn echo(exchange: Exchange, run: RunWriter) -> Result<(), Failure> {
    let message = run.message(Opening::named("assistant")).await?;
    message.text(&exchange.prompt()).await?;
    message.end(Ending::completed()).await?;
    Ok(())
}

#[tokio::test]
async fn a_function_is_an_agent() {
    let log = bed([Agent::in_process("echo", echo)]).run("echo").await;
    assert_eq!((log.ending(), &*log.text()), ("completed", "How are you?"));
}

#[tokio::test]
async fn what_it_leaves_open_is_closed_and_what_it_fails_with_is_told() {
    let careless = |_: Exchange, run: RunWriter| async move {
        let message = run.message(Opening::named("assistant")).await?;
        message.text("half").await?;
        Err::<(), _>(Failure::new(ErrorCode::ToolError, "the printer is on fire"))
    };
    let log = bed([Agent::in_process("careless", careless)]).run("careless").await;
    assert_eq!((log.ending(), log.error()), ("failed", ("TOOL_ERROR", "the printer is on fire", false)));
    assert_eq!(log.segment_ends(), [SegmentStatus::Failed]);
}

/// Counts its exchanges: the first asks, the second completes.
struct Counting(AtomicUsize);

impl InProcess for Counting {
    async fn answer(self: Arc<Self>, exchange: Exchange, run: RunWriter) -> Result<ExchangeEnd, Failure> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(exchange.resumed, number == 1);
        if number == 0 {
            return Ok(fixture::suspended(&["go"]));
        }
        run.custom("answered", serde_json::json!(exchange.interrupts.len())).await?;
        Ok(().into())
    }

    fn capabilities(&self) -> AgentCapabilities {
        serde_json::from_value(serde_json::json!({ "custom": { "counts": true } })).unwrap()
    }
}

#[tokio::test]
async fn a_type_is_an_agent_that_may_wait_for_answers_and_declare_itself() {
    let agent = Agent::in_process("counting", Counting(AtomicUsize::new(0)));
    assert!(agent.driver.capabilities().custom.is_some());
    let bed = bed([agent]);
    let run_id = bed.create(request("counting", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.create(request("counting", answers("t", "r2", &["go"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
    assert!(log.event_types().contains(&"CUSTOM"));
}

#[tokio::test]
async fn a_stop_drops_it_where_it_waits() {
    let held = Arc::new(());
    let within = held.clone();
    let endless = move |_: Exchange, run: RunWriter| {
        let held = within.clone();
        async move {
            run.custom("underway", serde_json::Value::Null).await?;
            std::future::pending::<()>().await;
            drop(held);
            Ok::<(), Failure>(())
        }
    };
    let bed = bed([Agent::in_process("endless", endless)]);
    let run_id = bed.start("endless").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    bed.engine.cancel(&run_id).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
    bed.idle().await;
    assert_eq!(Arc::strong_count(&held), 2, "the test's own and the closure's");
}
