//! What a child is, and whose account its work goes to.

use std::sync::Arc;

use runwire_agui::Event;
use runwire_engine::{AgentPolicy, CreateRun, EngineOptions, Limits, Price, Prices};
use runwire_frame::Data;
use serde_json::json;

use super::*;
use crate::fixture::{bed, bed_on, request};

fn priced(agents: impl IntoIterator<Item = Agent>) -> Bed {
    let one = "1".parse().unwrap();
    let price = Price {
        provider: None,
        model: "m".to_owned(),
        input: one,
        output: one,
        cached_input: None,
        cache_write_input: None,
        reasoning: None,
    };
    let prices = Some(Arc::new(Prices::new("USD", vec![price])));
    bed_on(agents, EngineOptions { prices, ..EngineOptions::default() })
}

fn total(log: &Log) -> u64 {
    let Some(Data::RunEnd(end)) = log.frames.last().map(|frame| &frame.data) else { panic!("it has ended") };
    end.usage.iter().flatten().filter_map(|usage| usage.total_tokens).sum()
}

#[tokio::test]
async fn a_child_is_a_run_of_its_own_and_the_parents_log_names_it() {
    let bed = bed([asks("lead", "echo"), echo()]);
    let create = CreateRun { principal: Some("ann".to_owned()), ..request("lead", fixture::input("t", "exchange-1")) };
    let run_id = bed.create(create).await.unwrap().record.run_id;
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), log.text().as_str()), ("completed", "heard Who are you?"));
    let [child] = &children(&bed, &run_id).await[..] else { panic!("it started one") };
    assert_eq!((child.agent_id.as_str(), child.status.as_str()), ("echo", "completed"));
    assert_eq!((child.trigger_kind.as_str(), child.principal.as_deref()), ("agent", Some("ann")));
    assert_ne!(child.session_id, "t", "it has a session of its own");
    let [(start, ended)] = &agents(&log)[..] else { panic!("one segment stands for it") };
    assert_eq!((start.child_run_id.as_deref(), start.name.as_deref()), (Some(&*child.run_id), Some("echo")));
    assert_eq!(*ended, Some(SegmentStatus::Completed));
    // In AG-UI a parent is named by the run that its client knows.
    let told = bed.ended(&child.run_id).await.events.remove(0);
    assert!(matches!(&told, Event::RunStarted(e) if e.parent_run_id.as_deref() == Some("exchange-1")), "{told:?}");
    let started = log.events.iter().find_map(|event| match event {
        Event::SubagentStarted(started) => Some(&started.subagent_run_id),
        _ => None,
    });
    assert_eq!(started, Some(&child.run_id));
}

#[tokio::test]
async fn what_a_child_uses_is_in_its_own_account_and_counts_once() {
    let bed = priced([asks("lead", "echo"), echo()]);
    let run_id = bed.create(request("lead", fixture::input("t", "r"))).await.unwrap().record.run_id;
    let log = bed.ended(&run_id).await;
    let [child] = &children(&bed, &run_id).await[..] else { panic!("it started one") };
    assert_eq!((total(&log), total(&bed.ended(&child.run_id).await)), (100, 100));
    let cost = json!({ "currency": "USD", "amount": "0.000100" });
    assert_eq!(
        (bed.record(&run_id).await.cost, bed.record(&child.run_id).await.cost),
        (Some(cost.clone()), Some(cost))
    );
    for (session, agent) in [("t", "lead"), (&*child.session_id, "echo")] {
        assert_eq!(bed.store.costs_of_session(session).await.unwrap().len(), 1);
        assert_eq!(bed.store.costs_since(agent, 0).await.unwrap().len(), 1);
    }
}

/// Starts two runs that start one each, then calls a model.
fn spends(limits: Limits) -> Agent {
    let agent = agent("spends", |_, starting| async move {
        let writer = starting.begin(None);
        for _ in 0..2 {
            writer.child(ChildRun::prompt("lead", "")).await?.ended().await?;
        }
        say(&writer, "done").await?;
        Ok(completed())
    });
    Agent { policy: AgentPolicy { limits, ..AgentPolicy::default() }, ..agent }
}

#[tokio::test]
async fn what_children_and_theirs_use_counts_against_a_limit_where_that_is_configured() {
    let tokens = |tokens, with_children| Limits { tokens: Some(tokens), with_children, ..Limits::default() };
    let cost =
        |cost: &str, with_children| Limits { cost: Some(cost.parse().unwrap()), with_children, ..Limits::default() };
    let cases = [
        (tokens(200, false), "completed", 2),
        (tokens(200, true), "cancelled", 1),
        (tokens(400, true), "cancelled", 2),
        (tokens(401, true), "completed", 2),
        (cost("0.0002", false), "completed", 2),
        (cost("0.0002", true), "cancelled", 1),
    ];
    for (limits, ending, started) in cases {
        let bed = priced([spends(limits.clone()), asks("lead", "echo"), echo()]);
        let log = bed.run("spends").await;
        assert_eq!(log.ending(), ending, "{limits:?}\n{}", log.dump());
        assert_eq!(children(&bed, &log.run_id).await.len(), started, "{limits:?}");
        assert!(total(&log) <= 100, "what counts is not its own");
        if ending == "cancelled" {
            assert_eq!(log.error().0, "BUDGET_EXCEEDED");
            assert!(log.error().1.contains("with those that it started"), "{}", log.error().1);
        }
    }
}

#[tokio::test]
async fn a_run_that_only_names_a_parent_is_not_one_that_it_started() {
    let bed = bed([endless()]);
    let parent = bed.start("endless").await;
    let mut input = fixture::input("t", "r");
    input.parent_run_id = Some(parent.clone());
    let stranger = bed.create(request("endless", input)).await.unwrap().record.run_id;
    bed.reaches(&stranger, runwire_frame::RunStatus::Running).await;
    assert_eq!(children(&bed, &parent).await.len(), 1, "lists show what is said");
    bed.engine.cancel(&parent).await.unwrap();
    assert_eq!(bed.ended(&parent).await.ending(), "cancelled");
    assert_eq!(bed.record(&stranger).await.status, "running", "nobody asked it to stop");
    bed.engine.cancel(&stranger).await.unwrap();
    bed.ended(&stranger).await;
}
