//! Limits stop a run on purpose: `error` with the code of the limit, then `cancelled`; and what runs cost is said.

#![allow(clippy::unwrap_used)]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, Opening, ToolOutput};
use runwire_engine::{
    Agent, AgentPolicy, Engine, EngineOptions, Exchange, Limits, Price, Prices, RunWriter, Starting, WriteError,
};
use runwire_frame::{Data, EndStatus, ErrorCode, Frame, RunStatus, Usage};
use runwire_store::{Store, StoreOptions};

use fixture::{Bed, agent, answers, cancelled, completed, input, request, suspended};

/// A million tokens of either kind are one dollar, so a token is a millionth of it.
fn prices() -> Prices {
    let one = "1".parse().unwrap();
    let price = Price {
        provider: None,
        model: "m*".to_owned(),
        input: one,
        output: one,
        cached_input: None,
        cache_write_input: None,
        reasoning: None,
    };
    Prices::new("USD", vec![price])
}

fn priced_bed(agents: impl IntoIterator<Item = Agent>) -> Bed {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("runwire.db"), StoreOptions::default()).unwrap();
    let prices = Some(Arc::new(prices()));
    let options = EngineOptions { cancel_grace: Duration::from_millis(200), prices, ..EngineOptions::default() };
    Bed { engine: Engine::new(store.clone(), agents, options), store, dir }
}

fn used(model: &str, input: u64, output: u64) -> Usage {
    Usage {
        model: Some(model.to_owned()),
        input_tokens: Some(input),
        output_tokens: Some(output),
        total_tokens: Some(input + output),
        ..Usage::default()
    }
}

/// One model call that uses 100 tokens, 40 of them generated.
async fn call(writer: &RunWriter) -> Result<(), WriteError> {
    let model = writer.model(Opening::default()).await?;
    model.text("word ").await?;
    model.end(Ending { usage: Some(used("m", 60, 40)), ..Ending::completed() }).await
}

/// Calls its model so often, and counts the calls that it could make.
fn caller(calls: usize, made: Arc<AtomicUsize>) -> Agent {
    agent("caller", move |_: Exchange, starting: Starting| {
        let made = made.clone();
        async move {
            let writer = starting.begin(None);
            for _ in 0..calls {
                call(&writer).await?;
                made.fetch_add(1, Ordering::SeqCst);
            }
            Ok::<_, Failure>(completed())
        }
    })
}

fn limited(agent: Agent, limits: Limits) -> Agent {
    Agent { policy: AgentPolicy { limits, ..AgentPolicy::default() }, ..agent }
}

/// What the log says of its end: the code of its one error, if there is one, and the statuses that the run reached.
fn told(frames: &[Frame]) -> (Option<(ErrorCode, bool)>, Vec<RunStatus>) {
    let mut errors = frames.iter().filter_map(|frame| match &frame.data {
        Data::Error(error) => Some((error.code, error.retryable)),
        _ => None,
    });
    let error = errors.next();
    assert_eq!(errors.next(), None, "one reason is enough");
    let statuses = frames.iter().filter_map(|frame| match &frame.data {
        Data::RunStatus(change) => Some(change.status),
        _ => None,
    });
    (error, statuses.collect())
}

const STOPPED: [RunStatus; 3] = [RunStatus::Running, RunStatus::Cancelling, RunStatus::Cancelled];

#[tokio::test]
async fn a_limit_on_model_calls_tokens_or_cost_stops_the_run_before_the_next_call() {
    let money = |text: &str| Some(text.parse().unwrap());
    for (limits, allowed) in [
        (Limits { model_calls: Some(2), ..Limits::default() }, 2),
        (Limits { tokens: Some(250), ..Limits::default() }, 3),
        (Limits { tokens: Some(200), ..Limits::default() }, 2),
        (Limits { cost: money("0.0001"), ..Limits::default() }, 1),
        (Limits { cost: money("0.00010001"), ..Limits::default() }, 2),
    ] {
        let made = Arc::new(AtomicUsize::new(0));
        let bed = priced_bed([limited(caller(5, made.clone()), limits.clone())]);
        let started = bed.engine.create_run(request("caller", input("t1", "r1"))).await.unwrap();
        let frames = bed.ended(&started.record.run_id).await.frames;
        assert_eq!(told(&frames), (Some((ErrorCode::BudgetExceeded, false)), STOPPED.to_vec()), "{limits:?}");
        assert_eq!(made.load(Ordering::SeqCst), allowed, "{limits:?}");
        let Data::RunEnd(end) = &frames.last().unwrap().data else { panic!("no end") };
        assert_eq!(end.status, EndStatus::Cancelled);
        // What was spent is told although the run was stopped.
        let spent = 100 * allowed as u64;
        assert_eq!(end.usage.as_ref().unwrap()[0].total_tokens, Some(spent));
        assert_eq!(end.cost.as_ref().unwrap().amount, format!("0.{spent:06}"));
    }
}

#[tokio::test]
async fn a_tool_is_not_begun_either_and_a_run_within_its_limits_is_left_alone() {
    let tool = agent("tool", |_: Exchange, starting: Starting| async move {
        let writer = starting.begin(None);
        call(&writer).await?;
        let tool = writer.tool("c1", "search", Opening::default()).await?;
        let answered = tool.result(true, &ToolOutput::Text("found".to_owned())).await?;
        answered.end(Ending::completed()).await?;
        Ok::<_, Failure>(completed())
    });
    for (tokens, status) in [(100, RunStatus::Cancelled), (101, RunStatus::Completed)] {
        let limits = Limits { tokens: Some(tokens), ..Limits::default() };
        let bed = priced_bed([limited(tool.clone(), limits)]);
        let started = bed.engine.create_run(request("tool", input("t1", "r1"))).await.unwrap();
        let frames = bed.ended(&started.record.run_id).await.frames;
        let tools = frames.iter().filter(|frame| matches!(frame.data, Data::ToolResult(_))).count();
        assert_eq!(*told(&frames).1.last().unwrap(), status);
        assert_eq!(tools, usize::from(status == RunStatus::Completed));
    }
}

#[tokio::test]
async fn a_driver_that_goes_on_after_the_limit_is_dropped_and_writes_nothing_more() {
    let stubborn = agent("caller", |_: Exchange, starting: Starting| async move {
        let writer = starting.begin(None);
        loop {
            // It ignores that it was told to stop.
            let _ = call(&writer).await;
            tokio::task::yield_now().await;
        }
    });
    let bed = priced_bed([limited(stubborn, Limits { model_calls: Some(1), ..Limits::default() })]);
    let started = bed.engine.create_run(request("caller", input("t1", "r1"))).await.unwrap();
    let frames = bed.ended(&started.record.run_id).await.frames;
    assert_eq!(told(&frames), (Some((ErrorCode::BudgetExceeded, false)), STOPPED.to_vec()));
    let calls = frames.iter().filter(|frame| matches!(frame.data, Data::SegmentStart(_))).count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_stopped_with_timeout() {
    let slow = agent("slow", |exchange: Exchange, starting: Starting| async move {
        let writer = starting.begin(None);
        call(&writer).await?;
        exchange.stop.cancelled().await;
        Ok::<_, Failure>(cancelled())
    });
    let bed = priced_bed([limited(slow, Limits { duration: Some(Duration::from_millis(50)), ..Limits::default() })]);
    let started = bed.engine.create_run(request("slow", input("t1", "r1"))).await.unwrap();
    let frames = bed.ended(&started.record.run_id).await.frames;
    assert_eq!(told(&frames), (Some((ErrorCode::Timeout, false)), STOPPED.to_vec()));
}

#[tokio::test]
async fn a_session_and_a_day_have_limits_over_several_runs() {
    let money = |text: &str| Some(text.parse().unwrap());
    let session = Limits { session_cost: money("0.00015"), ..Limits::default() };
    let day = Limits { day_cost: money("0.00015"), ..Limits::default() };
    // The session's limit is its own; the day's is that of all sessions.
    for (limits, other_session, retryable) in
        [(session, RunStatus::Completed, false), (day, RunStatus::Cancelled, true)]
    {
        let made = Arc::new(AtomicUsize::new(0));
        let bed = priced_bed([limited(caller(1, made.clone()), limits)]);
        let mut ends = Vec::new();
        for (thread, run) in [("t1", "r1"), ("t1", "r2"), ("t1", "r3"), ("t2", "r4")] {
            let started = bed.engine.create_run(request("caller", input(thread, run))).await.unwrap();
            let (error, statuses) = told(&bed.ended(&started.record.run_id).await.frames);
            ends.push((error, *statuses.last().unwrap()));
        }
        let stopped = (Some((ErrorCode::BudgetExceeded, retryable)), RunStatus::Cancelled);
        let fine = (None, RunStatus::Completed);
        // The second run begins within the limit and may finish; the third may not begin.
        let last = if other_session == RunStatus::Completed { fine } else { stopped };
        assert_eq!(ends, [fine, fine, stopped, last]);
        assert_eq!(made.load(Ordering::SeqCst), if other_session == RunStatus::Completed { 3 } else { 2 });
    }
}

#[tokio::test]
async fn what_earlier_exchanges_used_counts_when_the_run_goes_on() {
    let asking = agent("asking", |exchange: Exchange, starting: Starting| async move {
        let writer = starting.begin(None);
        call(&writer).await?;
        Ok::<_, Failure>(if exchange.resumed { completed() } else { suspended(&["i1"]) })
    });
    let bed = priced_bed([limited(asking, Limits { tokens: Some(100), ..Limits::default() })]);
    let started = bed.engine.create_run(request("asking", input("t1", "r1"))).await.unwrap();
    let run_id = started.record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.engine.create_run(request("asking", answers("t1", "r2", &["i1"]))).await.unwrap();
    let (error, statuses) = told(&bed.ended(&run_id).await.frames);
    assert_eq!(error, Some((ErrorCode::BudgetExceeded, false)));
    assert_eq!(*statuses.last().unwrap(), RunStatus::Cancelled);
}

#[tokio::test]
async fn every_call_and_the_run_say_what_they_cost_and_nothing_when_that_is_not_known() {
    let two = agent("two", |exchange: Exchange, starting: Starting| async move {
        let writer = starting.begin(None);
        call(&writer).await?;
        let model = writer.model(Opening::default()).await?;
        let name = if exchange.input.run_id == "priced" { "m-2" } else { "unpriced" };
        model.end(Ending { usage: Some(used(name, 7, 0)), ..Ending::completed() }).await?;
        Ok::<_, Failure>(ExchangeEnd::Completed(Completion::default()))
    });
    let bed = priced_bed([two]);
    for (run, second, whole) in [("priced", Some("0.000007"), Some("0.000107")), ("unpriced", None, None)] {
        let started = bed.engine.create_run(request("two", input(run, run))).await.unwrap();
        let frames = bed.ended(&started.record.run_id).await.frames;
        let costs: Vec<Option<String>> = frames
            .iter()
            .filter_map(|frame| match &frame.data {
                Data::SegmentEnd(end) => Some(end.cost.as_ref().map(|cost| cost.amount.clone())),
                Data::RunEnd(end) => Some(end.cost.as_ref().map(|cost| cost.amount.clone())),
                _ => None,
            })
            .collect();
        assert_eq!(costs, [Some("0.000100"), second, whole].map(|cost| cost.map(str::to_owned)));
        let record = bed.store.run(&started.record.run_id).await.unwrap().unwrap();
        assert_eq!(record.cost.map(|cost| cost["amount"].clone()), whole.map(Into::into));
    }
}
