//! `POST {base}/agent/{agent}/stop/{thread}`: stops what goes on in a thread, or one run of it.

use axum::Json;
use axum::body::HttpBody as _;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use runwire_frame::RunStatus;
use runwire_store::{ReadError, RunFilter, RunRecord};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::openness::{Checked, JsonBody};
use crate::problem::Problem;

/// Runs in these are at work, or will be. One that waits for an answer is not stopped by this: CopilotKit's client also asks
/// for a stop when it leaves a thread, and then the question has to stay.
const AT_WORK: [RunStatus; 4] = [RunStatus::Queued, RunStatus::Running, RunStatus::Retrying, RunStatus::Cancelling];

/// The longest id of a run that is looked for, and remembered when it is not there yet.
const MAX_RUN_ID_BYTES: usize = 1024;

/// The body: exactly this, or empty.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    #[serde(rename = "runId")]
    run_id: Option<String>,
}

pub(super) async fn stop(
    State(app): State<App>,
    principal: Principal,
    Checked(Path((agent_id, thread_id))): Checked<Path<(String, String)>>,
    request: Request,
) -> Result<Response, Problem> {
    let scope = scope(&app, request).await?;
    if !app.engine().agents().contains_key(&agent_id) {
        return Err(Problem::agent_not_found(&agent_id));
    }
    let runs = match &scope.run_id {
        None => at_work(&app, &principal, &agent_id, &thread_id).await?,
        Some(run_id) => named(&app, &principal, &agent_id, &thread_id, run_id).await?,
    };
    for run in &runs {
        app.engine().cancel(&run.run_id).await?;
    }
    if runs.is_empty() {
        let message = match &scope.run_id {
            None => format!("No active run for thread '{thread_id}'."),
            Some(run_id) => format!("Run '{run_id}' is not the active run for thread '{thread_id}'."),
        };
        return Ok(Json(json!({ "stopped": false, "message": message })).into_response());
    }
    Ok(Json(json!({
        "stopped": true,
        "interrupt": { "type": "RUN_ERROR", "message": "Run stopped by user", "code": "STOPPED" },
    }))
    .into_response())
}

async fn scope(app: &App, request: Request) -> Result<Scope, Problem> {
    let headers = request.headers();
    // Without a type and without a body there is nothing to read.
    if !headers.contains_key(header::CONTENT_TYPE) && request.body().is_end_stream() {
        return Ok(Scope::default());
    }
    let JsonBody(body) = JsonBody::from_request(request, app).await?;
    if body.trim_ascii().is_empty() {
        return Ok(Scope::default());
    }
    let body: Value =
        serde_json::from_slice(&body).map_err(|e| Problem::bad_request(format!("the body is not JSON: {e}")))?;
    let scope = Scope::deserialize(&body)
        .map_err(|e| Problem::bad_request(format!("the body of a stop is empty or {{\"runId\": …}}: {e}")))?;
    // A member that is there and names nothing would stop everything.
    if body.get("runId").is_some() && scope.run_id.as_deref().is_none_or(|id| id.trim().is_empty()) {
        return Err(Problem::bad_request("`runId` names no run; leave it out to stop whatever goes on in the thread"));
    }
    if scope.run_id.as_ref().is_some_and(|id| id.len() > MAX_RUN_ID_BYTES) {
        return Err(Problem::unprocessable(format!("`runId` has at most {MAX_RUN_ID_BYTES} bytes")));
    }
    Ok(scope)
}

async fn at_work(app: &App, principal: &Principal, agent_id: &str, thread_id: &str) -> Result<Vec<RunRecord>, Problem> {
    let filter = RunFilter {
        agent_id: Some(agent_id.to_owned()),
        session_id: Some(thread_id.to_owned()),
        status: AT_WORK.iter().map(|status| status.as_str().to_owned()).collect(),
        principal: principal.list_filter(),
        limit: 1000,
        ..RunFilter::default()
    };
    Ok(app.store().runs(filter).await?)
}

/// The run that this id of an exchange names, if it is at work. One that is not there yet is stopped when it comes.
async fn named(
    app: &App,
    principal: &Principal,
    agent_id: &str,
    thread_id: &str,
    run_id: &str,
) -> Result<Vec<RunRecord>, Problem> {
    let find = async || match app.store().run_by_exchange(thread_id, run_id).await {
        // A run that was removed had ended.
        Err(ReadError::Removed(_)) => Ok(None),
        found => found,
    };
    let mut found = find().await?;
    if found.is_none() {
        app.inner.early_stops.put(principal, thread_id, run_id);
        // It may have come between the two, and then it has not seen the stop.
        found = find().await?;
        if found.is_some() {
            app.inner.early_stops.take(principal, thread_id, run_id);
        }
    }
    let at_work = |run: &RunRecord| AT_WORK.iter().any(|status| status.as_str() == run.status);
    let run =
        found.map(|(run, _)| run).filter(|run| run.agent_id == agent_id && principal.may_see(run) && at_work(run));
    Ok(run.into_iter().collect())
}
