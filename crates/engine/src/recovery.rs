//! Brings the log of a run whose owner is gone to where it can go on from, or to its end.

use std::sync::Arc;

use runwire_bridge::{
    Failure, LogState, LogStateError, PARTS_PAYLOAD, Pricing, ProjectionError, Recorder, ToolOutput, WaitingCall,
    asked_input,
};
use runwire_frame::{
    Data, DecodeError, ErrorCode, Frame, RunStart, RunStatus, SegmentId, SegmentStatus, Suspend, ToolResult,
};
use runwire_store::{AppendError, Appender, OwnershipError, ReadError, RunRecord, Store};
use serde_json::{Map, Value};

use crate::answers::{Resolved, asked};
use crate::clock::now;
use crate::driver::RecordedResult;
use crate::retry::RetryPolicy;
use crate::run_core::{put_off, to_append};

/// What became of a run without an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// It had not begun, and is executed in its turn.
    Queued,
    /// Its attempt was given up, and another follows.
    Retrying,
    /// It was brought to an end as failed.
    Failed,
    /// It had been asked to stop, and was brought to an end as cancelled.
    Cancelled,
    /// It waits for an answer; nothing had to be done.
    Suspended,
    /// It had ended.
    Ended,
    /// Its log cannot be read, so it stays as it is; the operator's log says what is wrong.
    Unreadable,
}

/// A run could not be brought to its end.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store cannot give the run a new owner.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// The store cannot be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A stored frame cannot be read.
    #[error("stored frame {seq} cannot be read: {source}")]
    Frame {
        /// Its position.
        seq: u64,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The stored frames are no log.
    #[error(transparent)]
    Log(#[from] LogStateError),
    /// They do not hold the AG-UI events that they say they do.
    #[error(transparent)]
    Projection(#[from] ProjectionError),
}

/// A run's log, read from the store: its state, and the last `suspend` in it.
pub(crate) struct StoredLog {
    pub state: LogState,
    pub suspend: Option<Suspend>,
    /// Whether the exchange that began last went on with the suspended run.
    pub resumed: bool,
    /// The input that the exchange was asked which began last.
    pub input: Option<Value>,
    /// The ids of all interrupts that it ever raised.
    pub raised: Vec<String>,
    /// The AG-UI ids of the exchanges that have begun in it.
    pub exchanges: Vec<String>,
    /// The answers that it went on with, in order.
    pub resolved: Vec<Resolved>,
    /// The tool calls that waited for their results when it went on last.
    pub calls: Vec<WaitingCall>,
    /// The results of these that were recorded since, of each call the last one.
    pub results: Vec<ResultFrame>,
}

/// A `tool.result` of a log, and the segment that has its whole value.
pub(crate) struct ResultFrame {
    segment: Option<SegmentId>,
    result: ToolResult,
}

/// Reads a whole log.
pub(crate) async fn read_log(store: &Store, run_id: &str) -> Result<StoredLog, RecoverError> {
    const PAGE: usize = 1024;
    let mut log = StoredLog {
        state: LogState::new(run_id),
        suspend: None,
        resumed: false,
        input: None,
        raised: Vec::new(),
        exchanges: Vec::new(),
        resolved: Vec::new(),
        calls: Vec::new(),
        results: Vec::new(),
    };
    loop {
        let page = store.read(run_id, log.state.head(), PAGE).await?;
        if page.is_empty() {
            return Ok(log);
        }
        for entry in page {
            let frame =
                Frame::decode(&entry.body()).map_err(|source| RecoverError::Frame { seq: entry.seq(), source })?;
            log.state.apply(&frame)?;
            let begun = match &frame.data {
                Data::RunStart(start) => start.extra.get("agui"),
                Data::Resume(resume) => {
                    log.resumed = true;
                    log.calls = log.state.waiting_calls().collect();
                    log.results.clear();
                    log.resolved.extend(Resolved::of(resume));
                    resume.extra.get("agui")
                }
                _ => None,
            };
            if let Some(input) = begun.and_then(|agui| agui.as_object()).and_then(asked_input) {
                log.input = Some(input.clone());
            }
            let id = begun.and_then(|agui| agui.get("runId")).and_then(|id| id.as_str());
            log.exchanges.extend(id.map(str::to_owned));
            match frame.data {
                Data::Suspend(suspend) => {
                    log.raised.extend(asked(&suspend).into_iter().map(|interrupt| interrupt.id));
                    log.suspend = Some(suspend);
                }
                Data::ToolResult(result) if log.calls.iter().any(|call| call.tool_call_id == result.tool_call_id) => {
                    log.results.retain(|earlier| earlier.result.tool_call_id != result.tool_call_id);
                    log.results.push(ResultFrame { segment: frame.segment_id, result });
                }
                _ => {}
            }
        }
    }
}

/// The results of a log, whole.
pub(crate) async fn recorded_results(
    store: &Store,
    run_id: &str,
    results: &[ResultFrame],
) -> Result<Vec<RecordedResult>, ReadError> {
    let mut recorded = Vec::new();
    for ResultFrame { segment, result } in results {
        let payload = match segment.as_ref().filter(|_| result.truncated) {
            Some(segment) => store.payload(run_id, segment.as_str()).await?,
            None => None,
        };
        let parts = payload.as_ref().filter(|payload| payload.content_type == PARTS_PAYLOAD);
        let output = match (parts, &payload) {
            (Some(parts), _) => ToolOutput::Parts(serde_json::from_slice(&parts.bytes).unwrap_or_default()),
            (None, Some(text)) => ToolOutput::Text(String::from_utf8_lossy(&text.bytes).into_owned()),
            (None, None) => ToolOutput::Text(result.output_preview.clone().unwrap_or_default()),
        };
        recorded.push(RecordedResult { tool_call_id: result.tool_call_id.clone(), ok: result.ok, output });
    }
    Ok(recorded)
}

/// The `suspend` that a suspended run waits with. It is the last frame but one of a run that nobody executes, so a long log
/// need not be read for it.
pub(crate) async fn last_suspend(store: &Store, record: &RunRecord) -> Result<Option<Suspend>, RecoverError> {
    for entry in store.read(&record.run_id, record.head.saturating_sub(2), 2).await? {
        let frame = Frame::decode(&entry.body()).map_err(|source| RecoverError::Frame { seq: entry.seq(), source })?;
        if let Data::Suspend(suspend) = frame.data {
            return Ok(Some(suspend));
        }
    }
    Ok(read_log(store, &record.run_id).await?.suspend)
}

/// How a run is taken over.
pub(crate) struct TakeOver<'a> {
    /// What became of its owner, for its readers.
    pub why: &'a str,
    /// Its agent's policy; `None` when there is no such agent any more, so that nothing of it can be executed.
    pub retry: Option<&'a RetryPolicy>,
    /// Whether a run that has not begun is left as it is, to be executed in its turn, or fails.
    pub requeue: bool,
    /// Whether it was asked to stop meanwhile; then it ends as cancelled.
    pub asked_to_stop: &'a (dyn Fn() -> bool + Send + Sync),
    /// What models cost.
    pub pricing: Option<Arc<dyn Pricing>>,
}

impl TakeOver<'_> {
    /// Takes the run over and brings its log to where it can go on from, or to a proper end.
    pub(crate) async fn of(&self, store: &Store, record: &RunRecord) -> Result<Recovered, RecoverError> {
        if record.head == 0
            && record.ended_at.is_none()
            && self.requeue
            && self.retry.is_some()
            && !(self.asked_to_stop)()
        {
            return Ok(Recovered::Queued);
        }
        self.and_write(store, record).await
    }

    async fn and_write(&self, store: &Store, record: &RunRecord) -> Result<Recovered, RecoverError> {
        // Owning comes first: from here on an owner that is not gone after all cannot write.
        let mut appender = match store.take_ownership(&record.run_id).await {
            Ok(appender) => appender,
            Err(OwnershipError::Ended) => return Ok(Recovered::Ended),
            Err(error) => return Err(error.into()),
        };
        let state = read_log(store, &record.run_id).await?.state;
        if state.ended() {
            return Ok(Recovered::Ended);
        }
        if state.status() == RunStatus::Suspended {
            return Ok(Recovered::Suspended);
        }
        let failure = Failure {
            retryable: true,
            segments: SegmentStatus::Abandoned,
            ..Failure::new(ErrorCode::InternalError, self.why)
        };
        let stopping = (self.asked_to_stop)();
        if self.retry.is_some() && !stopping && state.between_attempts() {
            return Ok(Recovered::Retrying);
        }
        let recovered = match state.status() {
            RunStatus::Cancelling | RunStatus::Cancelled => Recovered::Cancelled,
            // Only the `run.end` is missing.
            RunStatus::Completed => Recovered::Ended,
            RunStatus::Failed => Recovered::Failed,
            _ if stopping => Recovered::Cancelled,
            _ if state.head() > 0 && self.retry.is_some_and(|retry| retry.tries_again(state.attempt(), &failure)) => {
                Recovered::Retrying
            }
            _ => Recovered::Failed,
        };
        // A run that had not begun begins in order to end.
        let recorder = if state.head() == 0 {
            let input = store.input(&record.run_id).await?.unwrap_or_default();
            let mut agui = Map::new();
            if let Some(id) = input.get("runId") {
                agui.insert("runId".into(), id.clone());
            }
            agui.insert("input".into(), input);
            let start = RunStart {
                agent_id: record.agent_id.clone(),
                agent_revision_id: record.agent_revision_id.clone(),
                session_id: Some(record.session_id.clone()),
                lane: Some(record.lane.clone()),
                trigger_kind: Some(record.trigger_kind.clone()),
                attempt: 1,
                extra: Map::from_iter([("agui".to_owned(), agui.into())]),
            };
            Recorder::start(state, now(), start)
        } else {
            Recorder::recover(state)
        };
        let recorder = recorder.priced(self.pricing.clone());
        let recorded = match (recovered, self.retry) {
            (Recovered::Cancelled, _) => recorder.cancel(now(), &[], None),
            (Recovered::Retrying, Some(retry)) => {
                let (attempt, now) = (recorder.state().attempt(), now());
                appender.enqueue(put_off(recorder.retry(now, failure).0, retry.next_at(attempt, now, None)))?;
                appender.progress().flush().await?;
                return Ok(recovered);
            }
            _ => recorder.fail(now(), failure),
        };
        append(&mut appender, recorded).await?;
        Ok(recovered)
    }
}

pub(crate) async fn append(appender: &mut Appender, recorded: runwire_bridge::Recorded) -> Result<(), AppendError> {
    appender.enqueue(to_append(recorded))?;
    appender.progress().flush().await
}

/// Tries again and again, ever more slowly, because what made the owner fail (a full disk) may pass. `None` when the run
/// is gone.
pub(crate) async fn take_over_patiently(store: &Store, run_id: &str, how: &TakeOver<'_>) -> Option<Recovered> {
    use std::time::Duration;
    let mut pause = Duration::from_millis(500);
    loop {
        let tried = match store.run(run_id).await {
            Ok(Some(record)) => how.of(store, &record).await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error.into()),
        };
        match tried {
            Ok(what) => return what,
            Err(error) => {
                tracing::warn!(%run_id, %error, "the run's log could not be ended yet; trying again in {pause:?}");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(30));
    }
}
