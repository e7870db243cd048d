//! What stops with a run, and what does not.

use std::time::Duration;

use runwire_bridge::Failure;
use runwire_engine::{AgentPolicy, Limits};
use runwire_frame::{Data, ErrorCode, RunStatus};
use tokio::sync::Semaphore;

use super::*;
use crate::fixture::{answers, bed, bed_on, input, request, suspended};

/// Starts a run of this agent, and does what its prompt says without waiting for it.
fn leaves(of: &'static str) -> Agent {
    agent("leaves", move |exchange, starting| async move {
        let writer = starting.begin(None);
        writer.child(ChildRun::prompt(of, "")).await?;
        match &*exchange.input.run_id {
            "fail" => Err(Failure::new(ErrorCode::ModelError, "no good")),
            "complete" => Ok(completed()),
            "suspend" => Ok(suspended(&["i1"])),
            _ => {
                exchange.stop.cancelled().await;
                Ok(cancelled())
            }
        }
    })
}

#[tokio::test]
async fn a_run_that_is_stopped_stops_what_it_started_and_that_what_it_started() {
    let bed = bed([asks("first", "second"), asks("second", "endless"), endless()]);
    let run_id = bed.start("first").await;
    let second = has_started(&bed, &run_id, 1).await.remove(0);
    let third = has_started(&bed, &second, 1).await.remove(0);
    bed.reaches(&third, RunStatus::Running).await;
    bed.engine.cancel(&run_id).await.unwrap();
    for run_id in [&run_id, &second, &third] {
        assert_eq!(bed.ended(run_id).await.ending(), "cancelled");
    }
}

#[tokio::test]
async fn a_run_that_fails_for_good_or_reaches_a_limit_stops_what_it_started() {
    let limited = |agent: Agent| {
        let limits = Limits { duration: Some(Duration::from_millis(50)), ..Limits::default() };
        Agent { policy: AgentPolicy { limits, ..AgentPolicy::default() }, ..agent }
    };
    for (agent, exchange, ending) in
        [(leaves("endless"), "fail", "failed"), (limited(leaves("endless")), "wait", "cancelled")]
    {
        let bed = bed([agent, endless()]);
        let run_id = bed.create(request("leaves", input("t", exchange))).await.unwrap().record.run_id;
        let log = bed.ended(&run_id).await;
        assert_eq!(log.ending(), ending, "{}", log.dump());
        let [child] = &children(&bed, &run_id).await[..] else { panic!("it started one") };
        assert_eq!(bed.ended(&child.run_id).await.ending(), "cancelled");
    }
}

#[tokio::test]
async fn a_child_that_waits_for_its_slot_is_stopped_too() {
    let lanes = std::collections::BTreeMap::from([(
        "narrow".to_owned(),
        runwire_engine::LaneOptions { limit: Some(1), max_queued: Some(0) },
    )]);
    let mut narrow = endless();
    narrow.policy.lane = Some("narrow".to_owned());
    let bed = bed_on([leaves("endless"), narrow], runwire_engine::EngineOptions { lanes, ..Default::default() });
    let first = bed.start("endless").await;
    bed.reaches(&first, RunStatus::Running).await;
    let run_id = bed.start("leaves").await;
    let child = has_started(&bed, &run_id, 1).await.remove(0);
    assert_eq!(bed.record(&child).await.status, "queued", "its lane is full, and its parent got it in nevertheless");
    bed.engine.cancel(&run_id).await.unwrap();
    assert_eq!(bed.ended(&child).await.ending(), "cancelled");
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
    bed.engine.cancel(&first).await.unwrap();
    bed.ended(&first).await;
}

#[tokio::test]
async fn a_child_that_nobody_waits_for_goes_on_when_its_parent_completes() {
    let permits = Arc::new(Semaphore::new(0));
    let gate = permits.clone();
    let gated = agent("gated", move |exchange, starting| {
        let gate = gate.clone();
        async move {
            starting.begin(None);
            tokio::select! {
                biased;
                () = exchange.stop.cancelled() => {}
                permit = gate.acquire() => permit.unwrap().forget(),
            }
            Ok(completed())
        }
    });
    let bed = bed([leaves("gated"), gated]);
    let run_id = bed.create(request("leaves", input("t", "complete"))).await.unwrap().record.run_id;
    let log = bed.ended(&run_id).await;
    assert_eq!((log.ending(), segment_ends(&log)), ("completed", vec![Some(SegmentStatus::Abandoned)]));
    let [child] = &children(&bed, &run_id).await[..] else { panic!("it started one") };
    permits.add_permits(1);
    assert_eq!(bed.ended(&child.run_id).await.ending(), "completed");
}

#[tokio::test]
async fn children_of_a_run_that_waits_for_an_answer_go_on_and_end_in_its_log() {
    let permits = Arc::new(Semaphore::new(0));
    let gate = permits.clone();
    let gated = agent("gated", move |_, starting| {
        let gate = gate.clone();
        async move {
            starting.begin(None);
            gate.acquire().await.unwrap().forget();
            Ok(completed())
        }
    });
    let lead = agent("lead", |exchange, starting| async move {
        let writer = starting.begin(None);
        let mut child = writer.child(ChildRun::prompt("gated", "").keyed("work")).await?;
        if !exchange.resumed {
            return Ok(suspended(&["i1"]));
        }
        child.ended().await?;
        Ok(completed())
    });
    let bed = bed([lead, gated]);
    let run_id = bed.create(request("lead", input("t", "r1"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let child = has_started(&bed, &run_id, 1).await.remove(0);
    permits.add_permits(1);
    assert_eq!(bed.ended(&child).await.ending(), "completed");
    bed.create(request("lead", answers("t", "r2", &["i1"]))).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(segment_ends(&log), [Some(SegmentStatus::Completed)], "one segment, however often it is looked at");
    assert_eq!(children(&bed, &run_id).await.len(), 1);
}

#[tokio::test]
async fn a_run_that_is_stopped_while_it_waits_for_an_answer_stops_what_it_started() {
    let bed = bed([leaves("endless"), endless()]);
    let run_id = bed.create(request("leaves", input("t", "suspend"))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    let child = has_started(&bed, &run_id, 1).await.remove(0);
    assert_eq!(bed.record(&child).await.ended_at, None);
    bed.engine.cancel(&run_id).await.unwrap();
    assert_eq!(bed.ended(&child).await.ending(), "cancelled");
    assert_eq!(bed.ended(&run_id).await.ending(), "cancelled");
}

#[tokio::test]
async fn a_run_that_is_being_stopped_starts_no_other() {
    let late = agent("late", |exchange, starting| async move {
        let writer = starting.begin(None);
        exchange.stop.cancelled().await;
        // The engine sees to its children at that moment; a child is refused from there on, or stopped with the others.
        while let Ok(mut child) = writer.child(ChildRun::prompt("endless", "")).await {
            child.ended().await?;
        }
        Ok(cancelled())
    });
    let bed = bed([late, endless()]);
    let run_id = bed.start("late").await;
    bed.reaches(&run_id, RunStatus::Running).await;
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    assert_eq!(log.ending(), "cancelled");
    for child in children(&bed, &run_id).await {
        assert_eq!(bed.ended(&child.run_id).await.ending(), "cancelled");
    }
    assert!(log.frames.iter().all(|frame| !matches!(&frame.data, Data::Error(_))));
}
