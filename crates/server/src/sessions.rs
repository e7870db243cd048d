//! Sessions: what is known of a conversation.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use runwire_engine::Without;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::openness::Checked;
use crate::problem::Problem;

/// `GET /v2/sessions/{id}`: messages and state as a client holds them now, what waits for an answer, and the runs.
pub(crate) async fn get(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(session_id)): Checked<Path<String>>,
) -> Result<Response, Problem> {
    let known = app.known_session(&principal, &session_id, Without::Nothing).await?;
    let known = known.ok_or_else(|| Problem::session_not_found(&session_id))?;
    let interrupts: Vec<Value> = known
        .history
        .pending()
        .iter()
        .map(|waiting| {
            json!({
                "run_id": waiting.run_id,
                "agent_id": waiting.agent_id,
                "interrupts": waiting.interrupts,
            })
        })
        .collect();
    Ok(Json(json!({
        "session_id": known.session.session_id,
        "principal": known.session.principal,
        "created_at": known.session.created_at,
        "last_run_at": known.session.last_run_at,
        "messages": known.history.messages(),
        "state": known.history.state(),
        "waiting": interrupts,
        "runs": known.runs,
    }))
    .into_response())
}
