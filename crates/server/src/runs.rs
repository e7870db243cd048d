//! The run API: create, list, look at, stop.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use runwire_agui::{RunAgentInput, Warning};
use runwire_engine::{CreateRun, RunRequest};
use runwire_frame::{MAX_VALUE_DEPTH, RunStatus, json_depth};
use runwire_store::{MIN_SEARCHED, Payload, RunCursor, RunFilter, RunRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::idempotency_key::idempotency_key;
use crate::openness::{Checked, JsonBody};
use crate::problem::Problem;
use crate::resume;

/// The body of `POST /v2/runs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRun {
    agent_id: String,
    prompt: Option<String>,
    input: Option<Map<String, Value>>,
    session_id: Option<String>,
    lane: Option<String>,
    metadata: Option<Map<String, Value>>,
}

/// `POST /v2/runs`
pub(crate) async fn create(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let key = idempotency_key(&headers)?;
    check_depth(&body)?;
    let new: NewRun =
        serde_json::from_slice(&body).map_err(|e| Problem::bad_request(format!("the body is no new run: {e}")))?;
    let mut not_understood = Vec::new();
    let request = match (new.prompt, new.input) {
        (Some(_), Some(_)) => {
            return Err(Problem::unprocessable("`prompt` and `input` are given; one of them is wanted"));
        }
        (None, None) => return Err(Problem::unprocessable("one of `prompt` and `input` is wanted")),
        (Some(prompt), None) => RunRequest::Prompt { prompt, session_id: new.session_id },
        (None, Some(input)) => {
            let (input, warnings) = input_of(input, new.session_id)?;
            not_understood = warnings;
            RunRequest::Input(Box::new(input))
        }
    };
    if let Some(lane) = &new.lane
        && (lane.is_empty() || lane.len() > 64)
    {
        return Err(Problem::unprocessable("`lane` has 1 to 64 bytes"));
    }
    let create = CreateRun {
        agent_id: new.agent_id,
        request,
        lane: new.lane,
        metadata: new.metadata.map_or(Value::Null, Value::Object),
        principal: principal.owner(),
        trigger_kind: "api",
    };
    let started = match key {
        Some(key) => app.engine().create_run_once(create, key).await?,
        None => app.engine().create_run(create).await?,
    };
    let record = &started.record;
    mention(&not_understood, Some(&record.run_id), &record.session_id, &started.exchange_id);
    let status = if started.existing { StatusCode::OK } else { StatusCode::CREATED };
    let location = format!("/v2/runs/{}", started.record.run_id);
    let mut response = (status, Json(started.record)).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Reads an input whose ids may be left out.
fn input_of(
    mut input: Map<String, Value>,
    session_id: Option<String>,
) -> Result<(RunAgentInput, Vec<Warning>), Problem> {
    if let Some(session_id) = session_id {
        match input.get("threadId").and_then(Value::as_str) {
            Some(thread) if thread != session_id => {
                return Err(Problem::unprocessable(format!(
                    "`session_id` is `{session_id}`, and `input.threadId`, which is the same thing, is `{thread}`"
                )));
            }
            _ => input.insert("threadId".to_owned(), session_id.into()),
        };
    }
    for id in ["threadId", "runId"] {
        input.entry(id).or_insert_with(|| "".into());
    }
    input.entry("protocolVersion").or_insert_with(|| runwire_agui::PROTOCOL_VERSION.into());
    decode_input(Value::Object(input), "`input`")
}

/// The run input that is the whole body of an AG-UI request.
pub(crate) fn posted_input(body: &[u8]) -> Result<RunAgentInput, Problem> {
    check_depth(body)?;
    let input = serde_json::from_slice(body).map_err(|e| Problem::bad_request(format!("the body is not JSON: {e}")))?;
    let (input, not_understood) = decode_input(input, "the body")?;
    for (name, id) in [("threadId", &input.thread_id), ("runId", &input.run_id)] {
        if id.is_empty() {
            return Err(Problem::unprocessable(format!("the body: `{name}` is empty")));
        }
    }
    mention(&not_understood, None, &input.thread_id, &input.run_id);
    Ok(input)
}

/// Reads a run input; also what of it was not understood.
fn decode_input(input: Value, what: &str) -> Result<(RunAgentInput, Vec<Warning>), Problem> {
    RunAgentInput::decode_value(input).map_err(|e| Problem::unprocessable(format!("{what}: {e}")))
}

/// Tells the operator what of a run input was not understood.
fn mention(not_understood: &[Warning], run_id: Option<&str>, session_id: &str, exchange_id: &str) {
    for warning in not_understood {
        // An input is no stream and has no events; what the warning is about is in its words.
        tracing::warn!(run_id, session_id, exchange_id, "{}", warning.message);
    }
}

/// What goes into a log has to come out of it again.
pub(crate) fn check_depth(body: &[u8]) -> Result<(), Problem> {
    if json_depth(body) > MAX_VALUE_DEPTH {
        return Err(Problem::unprocessable(format!("the body nests more than {MAX_VALUE_DEPTH} levels of JSON")));
    }
    Ok(())
}

/// The query of `GET /v2/runs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    agent_id: Option<String>,
    session_id: Option<String>,
    /// Runs that this one started, or whose input names it as its parent.
    parent_run_id: Option<String>,
    /// How a run's id begins.
    run_id: Option<String>,
    /// What a run's prompt has in it.
    prompt: Option<String>,
    /// One or several statuses with commas between them.
    status: Option<String>,
    limit: Option<usize>,
    /// The `next` of the page before.
    before: Option<String>,
}

/// `GET /v2/runs`: newest first.
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
    Checked(Query(query)): Checked<Query<ListQuery>>,
) -> Result<Response, Problem> {
    let status: Vec<String> = query.status.iter().flat_map(|s| s.split(',')).map(str::to_owned).collect();
    if let Some(unknown) = status.iter().find(|s| RunStatus::from_wire(s).is_none()) {
        let known: Vec<&str> = RunStatus::ALL.iter().map(|s| s.as_str()).collect();
        return Err(Problem::bad_request(format!("`{unknown}` is no status; there is {}", known.join(", "))));
    }
    let limit = query.limit.unwrap_or(50);
    if limit == 0 || limit > 1000 {
        return Err(Problem::bad_request(format!("`limit` is {limit}, and a page has 1 to 1000 runs")));
    }
    if query.prompt.as_ref().is_some_and(|text| text.chars().count() < MIN_SEARCHED) {
        return Err(Problem::bad_request(format!(
            "`prompt` has to have {MIN_SEARCHED} characters, to be searched for"
        )));
    }
    let filter = RunFilter {
        agent_id: query.agent_id,
        session_id: query.session_id,
        parent_run_id: query.parent_run_id,
        run_id: query.run_id,
        prompt: query.prompt,
        status,
        principal: principal.list_filter(),
        limit,
        before: query.before.as_deref().map(parse_place).transpose()?,
    };
    let runs = app.store().runs(filter).await?;
    let next = (runs.len() == limit).then(|| runs.last()).flatten().map(|last| {
        let place = last.cursor();
        format!("{}.{}", place.created_at, place.run_id)
    });
    let prompts = app.store().prompts(runs.iter().map(|run| run.run_id.clone()).collect()).await?;
    let runs: Vec<Listed> = runs.into_iter().zip(prompts).map(|(record, prompt)| Listed { record, prompt }).collect();
    Ok(Json(json!({ "runs": runs, "next": next })).into_response())
}

/// A record as lists tell it: a person knows a run by what it was asked.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    record: RunRecord,
    prompt: Option<String>,
}

fn parse_place(text: &str) -> Result<RunCursor, Problem> {
    let place = text.split_once('.').and_then(|(created_at, run_id)| {
        Some(RunCursor { created_at: created_at.parse().ok()?, run_id: run_id.to_owned() })
    });
    place.ok_or_else(|| Problem::bad_request(format!("`{text}` is no place in the list: use the `next` of a page")))
}

/// `GET /v2/runs/{id}`
pub(crate) async fn get(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
) -> Result<Response, Problem> {
    let record = app.visible_run(&principal, &run_id).await?;
    Ok(Json(resume::told(&app, record).await?).into_response())
}

/// `POST /v2/runs/{id}/cancel`: 202 while the run is being stopped, 200 when it has ended.
pub(crate) async fn cancel(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
) -> Result<Response, Problem> {
    app.visible_run(&principal, &run_id).await?;
    let record = app.engine().cancel(&run_id).await?;
    let status = if record.ended_at.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(record)).into_response())
}

/// `GET /v2/runs/{id}/segments/{segment}/payload`: the whole value behind a preview, or what was kept of a model call.
pub(crate) async fn payload(
    State(app): State<App>,
    principal: Principal,
    Checked(Path((run_id, segment_id))): Checked<Path<(String, String)>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    app.visible_run(&principal, &run_id).await?;
    let payload = app.store().payload(&run_id, &segment_id).await?.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "No payload",
            format!(
                "segment `{segment_id}` has no payload: a preview that is not truncated is the whole value, and of a model \
                 call something is kept only where its agent says so"
            ),
        )
    })?;
    // A browser may keep it, and asks each time whether it still may: the run can be removed.
    let tag = entity_tag(&payload);
    let kept = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "private, no-cache".to_owned())];
    if names(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    let headers = [
        (header::CONTENT_TYPE, payload.content_type),
        // What a tool returned is data, whatever a browser would like to make of it.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ];
    Ok((kept, headers, payload.bytes).into_response())
}

/// Tells one value of a payload from another. What is kept of a model call changes when its answer comes.
fn entity_tag(payload: &Payload) -> String {
    let mut hasher = DefaultHasher::new();
    payload.bytes.hash(&mut hasher);
    format!("\"{:x}-{:016x}\"", payload.bytes.len(), hasher.finish())
}

/// Whether `If-None-Match` names the tag (RFC 9110, section 13.1.2).
fn names(headers: &HeaderMap, tag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}
