//! What a suspended run waits for, and answers to it: `POST /v2/runs/{id}/resume`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use runwire_agui::{Interrupt, ResumeEntry, ResumeStatus};
use runwire_engine::{RecoverError, ResumeError, ResumeRun, Waiting};
use runwire_store::RunRecord;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::openness::{Checked, JsonBody};
use crate::problem::Problem;
use crate::runs::check_depth;

/// The body of `POST /v2/runs/{id}/resume`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    answers: Vec<Answer>,
    exchange_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    interrupt_id: String,
    status: ResumeStatus,
    #[serde(default)]
    payload: Value,
}

/// `POST /v2/runs/{id}/resume`: 202 when the run goes on with the answers, 200 when it had done so before.
pub(crate) async fn resume(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    app.visible_run(&principal, &run_id).await?;
    check_depth(&body)?;
    let Resume { answers, exchange_id } = serde_json::from_slice(&body)
        .map_err(|e| Problem::bad_request(format!("the body does not answer a run: {e}")))?;
    if exchange_id.as_deref() == Some("") {
        return Err(Problem::unprocessable("`exchange_id` is empty; leave it out, and one is made"));
    }
    let answers = answers.into_iter().map(entry).collect::<Result<_, _>>()?;
    let resume = ResumeRun { run_id: run_id.clone(), answers, exchange_id, principal: principal.owner() };
    let started = app.engine().resume(resume).await?;
    let status = if started.existing { StatusCode::OK } else { StatusCode::ACCEPTED };
    // As it stands now: the answers made it go on.
    let record = app.store().run(&run_id).await?.unwrap_or(started.record);
    let mut response = (status, Json(told(&app, record).await?)).into_response();
    if let Ok(location) = HeaderValue::try_from(format!("/v2/runs/{run_id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn entry(answer: Answer) -> Result<ResumeEntry, Problem> {
    let Answer { interrupt_id, status, payload } = answer;
    if status == ResumeStatus::Cancelled && !payload.is_null() {
        return Err(Problem::unprocessable(format!(
            "`{interrupt_id}` is given up with status `cancelled`, and that carries no `payload`"
        )));
    }
    let mut entry = ResumeEntry::new(interrupt_id, status);
    entry.payload = Some(payload).filter(|payload| !payload.is_null());
    Ok(entry)
}

/// A run's record, with what it waits for while it is suspended.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    #[serde(flatten)]
    record: RunRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<Value>,
}

/// The record as one run is told: lists leave out what it waits for.
pub(crate) async fn told(app: &App, record: RunRecord) -> Result<Told, Problem> {
    let waiting = app.engine().waits_for(&record).await?;
    Ok(Told { record, waits_for: waiting.map(waits_for) })
}

fn waits_for(waiting: Waiting) -> Value {
    let Waiting { kind, prompt, deadline, interrupts } = waiting;
    let interrupts: Vec<Value> = interrupts.into_iter().map(interrupt).collect();
    let deadline = deadline.map(|deadline| deadline.to_string());
    json!({ "kind": kind, "prompt": prompt, "deadline_at": deadline, "interrupts": interrupts })
}

/// In the manner of the run API; what the agent wrote into it (schema, metadata) stays as it is.
fn interrupt(interrupt: Interrupt) -> Value {
    let mut told = Map::from_iter([
        ("interrupt_id".to_owned(), Value::from(interrupt.id)),
        ("reason".to_owned(), interrupt.reason.into()),
    ]);
    let mut tell = |key: &str, value: Option<Value>| told.extend(value.map(|value| (key.to_owned(), value)));
    tell("message", interrupt.message.map(Value::from));
    tell("tool_call_id", interrupt.tool_call_id.map(Value::from));
    tell("response_schema", interrupt.response_schema.map(Value::from));
    tell("expires_at", interrupt.expires_at.map(Value::from));
    tell("metadata", interrupt.metadata.map(Value::from));
    Value::Object(told)
}

impl From<RecoverError> for Problem {
    fn from(error: RecoverError) -> Problem {
        Problem::internal(&error)
    }
}

impl From<ResumeError> for Problem {
    fn from(error: ResumeError) -> Problem {
        let detail = error.to_string();
        match error {
            ResumeError::UnknownRun(run_id) => Problem::run_not_found(&run_id),
            ResumeError::NotSuspended { run_id, status } => {
                Problem::new(StatusCode::CONFLICT, "Waits for nothing", detail)
                    .with("run_id", run_id)
                    .with("run_status", status)
            }
            ResumeError::Answered { run_id, resolved_by } => {
                Problem::new(StatusCode::CONFLICT, "Answered before", detail)
                    .with("run_id", run_id)
                    .with("resolved_by", resolved_by)
            }
            ResumeError::Refused(error) => error.into(),
        }
    }
}
