//! `POST /v2/runs/prune`: an operator removes runs that have ended.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use runwire_engine::now;
use runwire_store::{EndedRun, Removable};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::openness::JsonBody;
use crate::problem::Problem;

/// The most runs that one request removes, so that it is answered soon. The answer says whether there are more.
const AT_ONCE: usize = 1000;

/// The body: which runs. Without `older_than_ms` those that the configured retention does not keep now.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prune {
    /// Runs that ended at least so long ago.
    older_than_ms: Option<u64>,
    /// Of this agent alone; only with `older_than_ms`.
    agent_id: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// Removes the runs, or with `dry_run` says which it would remove.
pub(crate) async fn prune(
    State(app): State<App>,
    principal: Principal,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    if !principal.may_remove() {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "Not an operator",
            "removing runs takes a token that sees all runs (`runs = \"all\"`)",
        ));
    }
    let prune: Prune = serde_json::from_slice(&body)
        .map_err(|e| Problem::bad_request(format!("the body does not say what to remove: {e}")))?;
    let now = now().unix_millis();
    let which = match (prune.older_than_ms, prune.agent_id) {
        (Some(age), agent_id) => {
            let age = i64::try_from(age).unwrap_or(i64::MAX);
            // One that ended exactly so long ago is old enough.
            Removable::EndedBefore { time: now.saturating_sub(age).saturating_add(1), agent_id }
        }
        (None, None) => Removable::NotKept { retention: app.engine().retention().clone(), now },
        (None, Some(_)) => {
            return Err(Problem::unprocessable("`agent_id` is given without `older_than_ms`"));
        }
    };
    let found = app.store().removable(which, AT_ONCE).await?;
    let removed = if prune.dry_run {
        0
    } else {
        let ids: Vec<String> = found.runs.iter().map(|run| run.run_id.clone()).collect();
        app.store().remove_runs(&ids, now).await?
    };
    if removed > 0 {
        tracing::info!(runs = removed, "runs were removed on request");
    }
    let runs: Vec<Value> = found.runs.iter().map(shown).collect();
    Ok(Json(json!({
        "dry_run": prune.dry_run,
        "removed": removed,
        "runs": runs,
        "more": found.count > found.runs.len() as u64,
        "found": { "runs": found.count, "bytes": found.bytes },
    }))
    .into_response())
}

fn shown(run: &EndedRun) -> Value {
    json!({
        "run_id": run.run_id,
        "agent_id": run.agent_id,
        "ended_at": run.ended_at,
        "head": run.head,
        "bytes": run.bytes,
    })
}
