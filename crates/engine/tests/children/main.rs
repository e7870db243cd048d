//! Runs that start runs: each with a log and an account of its own, stopped together, and never in each other's way.

#![allow(clippy::unwrap_used)]

#[path = "../fixture/mod.rs"]
mod fixture;

mod accounts;
mod again;
mod outcomes;
mod stops;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixture::{Bed, Log, agent, cancelled, completed, patiently};
use runwire_bridge::{Ending, Opening};
use runwire_engine::{Agent, ChildEnd, ChildRun, RunWriter, WriteError};
use runwire_frame::{Data, SegmentKind, SegmentStart, SegmentStatus, Usage};
use runwire_store::{RunFilter, RunRecord};

/// One model call that says this and uses 100 tokens, 40 of them generated.
async fn say(writer: &RunWriter, text: &str) -> Result<(), WriteError> {
    let model = writer.model(Opening::default()).await?;
    model.text(text).await?;
    let usage = Usage {
        model: Some("m".to_owned()),
        input_tokens: Some(60),
        output_tokens: Some(40),
        total_tokens: Some(100),
        ..Usage::default()
    };
    model.end(Ending { usage: Some(usage), ..Ending::completed() }).await
}

/// Answers its prompt with one model call.
fn echo() -> Agent {
    agent("echo", |exchange, starting| async move {
        let writer = starting.begin(None);
        say(&writer, &format!("heard {}", exchange.prompt())).await?;
        Ok(completed())
    })
}

/// Goes on until it is stopped.
fn endless() -> Agent {
    agent("endless", |exchange, starting| async move {
        starting.begin(None);
        exchange.stop.cancelled().await;
        Ok(cancelled())
    })
}

/// Starts a run of this agent, waits for its end, and says what it came to.
fn asks(id: &str, of: &'static str) -> Agent {
    agent(id, move |_, starting| async move {
        let writer = starting.begin(None);
        let mut child = writer.child(ChildRun::prompt(of, "Who are you?")).await?;
        say(&writer, &told(&child.ended().await?)).await?;
        Ok(completed())
    })
}

fn told(end: &ChildEnd) -> String {
    match end {
        ChildEnd::Completed { text, .. } => text.clone(),
        ChildEnd::Failed { code, message, retryable } => format!("{code} {message} {retryable}"),
        ChildEnd::Cancelled { reason } => format!("stopped {}", reason.as_deref().unwrap_or("without a reason")),
        ChildEnd::Suspended(waiting) => format!("asks {}", waiting.prompt.as_deref().unwrap_or("something")),
    }
}

/// How many runs of an agent are executed at once, at most.
#[derive(Clone, Default)]
struct Count {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Count {
    fn enter(&self) -> Executed {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Executed(self.clone())
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

struct Executed(Count);

impl Drop for Executed {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The runs that this one started, oldest first.
async fn children(bed: &Bed, run_id: &str) -> Vec<RunRecord> {
    let filter = RunFilter { parent_run_id: Some(run_id.to_owned()), ..RunFilter::default() };
    let mut runs = bed.store.runs(filter).await.unwrap();
    runs.reverse();
    runs
}

/// Waits until the run has started so many, and gives their ids.
async fn has_started(bed: &Bed, run_id: &str, count: usize) -> Vec<String> {
    patiently(async {
        loop {
            let started = children(bed, run_id).await;
            // Its frame is the last thing that comes of starting one.
            let log = fixture::so_far(&bed.store, run_id).await;
            if started.len() == count && agents(&log).len() == count {
                return started.into_iter().map(|run| run.run_id).collect();
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await
}

/// The agent segments of a log, and how each ended.
fn agents(log: &Log) -> Vec<(SegmentStart, Option<SegmentStatus>)> {
    let mut agents = Vec::new();
    for frame in &log.frames {
        if let Data::SegmentStart(start) = &frame.data
            && start.kind == SegmentKind::Agent
        {
            let ended = log.frames.iter().find_map(|other| match &other.data {
                Data::SegmentEnd(end) if other.segment_id == frame.segment_id => Some(end.status),
                _ => None,
            });
            agents.push((start.clone(), ended));
        }
    }
    agents
}

/// What the children of a log came to, as its segments say it.
fn segment_ends(log: &Log) -> Vec<Option<SegmentStatus>> {
    agents(log).into_iter().map(|(_, ended)| ended).collect()
}
