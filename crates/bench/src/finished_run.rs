//! A long run that has ended, written as the engine would have written it.

use runwire_bridge::{Completion, LogState, Opening, Recorded, Recorder};
use runwire_frame::{RunStart, Timestamp};
use runwire_store::{Append, NewFrame, NewRun, RunUpdate, Store};
use serde_json::{Map, Value};

use crate::agents::WORDS;

/// Some instant; the run's clock starts here.
const START_MILLIS: i64 = 1_795_987_080_000;
/// The run's clock from one delta to the next. More than coalescing waits, so that each becomes a frame.
const STEP_MILLIS: i64 = 30;
/// How many frames one append holds.
const BATCH: usize = 1000;

/// The record of a run that is to be created.
pub fn new_run(run_id: &str) -> NewRun {
    NewRun {
        run_id: run_id.to_owned(),
        agent_id: "bench".to_owned(),
        session_id: format!("session_{run_id}"),
        exchange_id: run_id.to_owned(),
        input_digest: String::new(),
        lane: "default".to_owned(),
        status: "queued".to_owned(),
        created_at: START_MILLIS,
        principal: None,
        trigger_kind: "api".to_owned(),
        agent_revision_id: None,
        parent_run_id: None,
        metadata: Value::Null,
        input: Value::Null,
    }
}

/// Writes a run of exactly `frames` frames (at least 7) with bodies of about 200 bytes to its end.
///
/// # Errors
/// When the store fails.
pub async fn write_finished_run(store: &Store, run_id: &str, frames: usize) -> anyhow::Result<()> {
    store.create_run(new_run(run_id)).await?;
    let mut appender = store.take_ownership(run_id).await?;
    let progress = appender.progress();
    let at = |millis: i64| Timestamp::from_unix_millis(START_MILLIS + millis);
    let start = RunStart {
        agent_id: "bench".to_owned(),
        agent_revision_id: None,
        session_id: Some(format!("session_{run_id}")),
        lane: Some("default".to_owned()),
        trigger_kind: Some("api".to_owned()),
        attempt: 1,
        extra: Map::new(),
    };
    let mut recorder = Recorder::start(LogState::new(run_id), at(0), start);
    let message = recorder.open_message(at(0), Opening::default());
    // run.start, run.status and segment.start before the deltas; segment.end, run.status and run.end after them.
    let deltas = frames.saturating_sub(6).max(1);
    let mut millis = 0;
    for written in 1..=deltas {
        millis += STEP_MILLIS;
        recorder.text(at(millis), &message, WORDS, None);
        if written % BATCH == 0 {
            appender.enqueue(append(recorder.take(), None))?;
            progress.wait_below(4 * BATCH, usize::MAX).await?;
        }
    }
    let ended = at(millis + STEP_MILLIS);
    let update = RunUpdate {
        status: Some("completed".to_owned()),
        attempt: Some(1),
        started_at: Some(START_MILLIS),
        ended_at: Some(ended.unix_millis()),
        ..RunUpdate::default()
    };
    let rest = recorder.complete(ended, Completion::default());
    appender.enqueue(append(rest, Some(update)))?;
    progress.flush().await?;
    Ok(())
}

fn append(recorded: Recorded, update: Option<RunUpdate>) -> Append {
    let frames = recorded.frames.into_iter();
    let frames = frames.map(|frame| NewFrame { seq: frame.seq, body: frame.encode() }).collect();
    Append { frames, update, payloads: Vec::new() }
}
