//! Executors elsewhere: `POST /v2/runs/{id}/claim`, `…/heartbeat` and `…/frames`, by which they push their run's events.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use runwire_engine::{ExecutorError, Executors, Lines, Standing};
use runwire_frame::RunStatus;
use runwire_store::RunRecord;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::openness::Checked;
use crate::problem::Problem;

/// How long the end of a run is waited for that its executor reported; the store takes it in milliseconds.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// The query of `POST /v2/runs/{id}/claim`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimQuery {
    /// That of the claim that there is, to go on with it.
    epoch: Option<u64>,
}

/// The query of what is done under a claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EpochQuery {
    epoch: u64,
}

/// A line of a push.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    n: u64,
    event: Map<String, Value>,
}

/// Claims a run: who executes it from here on, and with what input.
pub(crate) async fn claim(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<ClaimQuery>>,
) -> Result<Response, Problem> {
    let record = executable(&app, &principal, &run_id).await?;
    let claim = executors(&app, &record)?.claim(&run_id, query.epoch).await?;
    tracing::info!(run_id, epoch = claim.standing.epoch, "the run is executed elsewhere");
    let mut told = told(&run_id, claim.standing, claim.lease);
    told.insert("input".to_owned(), claim.input);
    Ok(Json(told).into_response())
}

/// Keeps a claim.
pub(crate) async fn heartbeat(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<EpochQuery>>,
) -> Result<Response, Problem> {
    let record = executable(&app, &principal, &run_id).await?;
    let executors = executors(&app, &record)?;
    let standing = executors.heartbeat(&run_id, query.epoch).await?;
    Ok(Json(told(&run_id, standing, executors.lease())).into_response())
}

/// Takes events, one a line, no faster than the run's log takes them; answers when the body is over, the run is to stop, or
/// there is nothing to execute any more.
pub(crate) async fn push(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<EpochQuery>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let record = executable(&app, &principal, &run_id).await?;
    if !is_ndjson(&headers) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Unsupported media type",
            "the body has to be sent as `Content-Type: application/x-ndjson`",
        ));
    }
    let executors = executors(&app, &record)?;
    let epoch = query.epoch;
    // Also refuses a claim that does not count before anything of the body is read.
    executors.heartbeat(&run_id, epoch).await?;
    let (stop, over) = executors.watch(&run_id)?;
    // What is pushed once the run is being stopped is how it ends.
    let begun_stopping = stop.is_cancelled();
    let mut last: Option<Standing> = None;
    let mut lines = Lines::new(app.options().max_body_bytes);
    let mut body = body.into_data_stream();
    loop {
        let piece = tokio::select! {
            piece = body.next() => piece,
            () = stop.cancelled(), if !begun_stopping => break,
            () = over.cancelled() => match last.filter(|last| last.ended) {
                // The end was reported, and the body went on.
                Some(last) => return finished(&app, &record, last, executors.lease()).await,
                None => return Err(ExecutorError::NothingToExecute.into()),
            },
        };
        let complete = match piece {
            Some(Ok(bytes)) => lines.push(&bytes).map_err(|long| Problem::bad_request(long.to_string()))?,
            // What was taken of a body that was cut stays taken.
            Some(Err(cut)) => return Err(Problem::bad_request(format!("the body was cut: {cut}"))),
            None => match lines.finish() {
                Some(last) => vec![last],
                None => break,
            },
        };
        for line in complete {
            if line.iter().all(u8::is_ascii_whitespace) {
                executors.heartbeat(&run_id, epoch).await?;
                continue;
            }
            let Line { n, event } = serde_json::from_slice(&line)
                .map_err(|error| Problem::bad_request(format!("a line is no {{\"n\":…,\"event\":{{…}}}}: {error}")))?;
            last = Some(executors.event(&run_id, epoch, n, Value::Object(event).to_string()).await?);
        }
    }
    let standing = executors.settle(&run_id, epoch).await?;
    if standing.ended {
        return finished(&app, &record, standing, executors.lease()).await;
    }
    Ok(Json(told(&run_id, standing, executors.lease())).into_response())
}

/// The answer to a push that reported the run's end: given once that is in the store.
async fn finished(app: &App, record: &RunRecord, standing: Standing, lease: Duration) -> Result<Response, Problem> {
    let mut told = told(&record.run_id, standing, lease);
    let record = over_in_store(app, &record.run_id, record.head).await?;
    told.insert("status".to_owned(), record.status.into());
    Ok(Json(told).into_response())
}

fn told(run_id: &str, standing: Standing, lease: Duration) -> Map<String, Value> {
    let Standing { epoch, through, cancelling, ended } = standing;
    let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    let told = json!({
        "run_id": run_id,
        "epoch": epoch,
        "through": through,
        "lease_ms": lease,
        "cancelling": cancelling,
        "ended": ended,
    });
    match told {
        Value::Object(told) => told,
        _ => Map::new(),
    }
}

/// The run, of a principal who may see and execute it.
async fn executable(app: &App, principal: &Principal, run_id: &str) -> Result<RunRecord, Problem> {
    let record = app.visible_run(principal, run_id).await?;
    if !principal.may_push() {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "Not an executor",
            "executing runs from outside takes a token with that right (`push = true`)",
        ));
    }
    Ok(record)
}

fn executors<'a>(app: &'a App, record: &RunRecord) -> Result<&'a Executors, Problem> {
    let agent = app.engine().agents().get(&record.agent_id);
    agent.and_then(|agent| agent.driver.executors()).ok_or_else(|| {
        Problem::new(
            StatusCode::CONFLICT,
            "Not executed from outside",
            format!("the agent `{}` of this run is not one with `driver = \"external\"`", record.agent_id),
        )
    })
}

/// Waits until the end that was reported is in the store: until then the executor must not think that it is.
async fn over_in_store(app: &App, run_id: &str, head: u64) -> Result<RunRecord, Problem> {
    let waiting = async {
        let mut tail = app.store().tail(run_id, head).await.map_err(|e| Problem::from_tail(e, run_id))?;
        loop {
            let record = app.store().run(run_id).await?.ok_or_else(|| Problem::run_not_found(run_id))?;
            let status = RunStatus::from_wire(&record.status);
            let at_rest = matches!(status, Some(RunStatus::Suspended | RunStatus::Retrying));
            if record.ended_at.is_some() || at_rest {
                return Ok(record);
            }
            tail.next().await?;
        }
    };
    tokio::time::timeout(END_PATIENCE, waiting).await.unwrap_or_else(|_| {
        Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Not stored yet",
            "the events were taken, and the store does not take the run's end now; the server sees to it",
        ))
    })
}

fn is_ndjson(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()) else { return false };
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/x-ndjson")
}

impl From<ExecutorError> for Problem {
    fn from(error: ExecutorError) -> Problem {
        let detail = error.to_string();
        let conflict = |title: &'static str| Problem::new(StatusCode::CONFLICT, title, detail.clone());
        match error {
            ExecutorError::NothingToExecute => conflict("Nothing to execute"),
            ExecutorError::Claimed => conflict("Claimed"),
            ExecutorError::Fenced { .. } => conflict("Claim is over"),
            ExecutorError::Gap { expected, .. } => conflict("Events are missing").with("through", expected - 1),
            ExecutorError::Refused { n, .. } => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "Event refused", detail).with("n", n)
            }
        }
    }
}
