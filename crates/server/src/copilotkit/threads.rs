//! `GET {base}/threads` and what there is of each: what the runtime tells of threads that it keeps itself.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use runwire_agui::{Event, Message, Peer};
use runwire_bridge::History;
use runwire_engine::Without;
use runwire_frame::Timestamp;
use runwire_store::{RunCursor, SessionFilter, SessionSummary};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::refusal::not_offered_here;
use crate::app::App;
use crate::auth::Principal;
use crate::history::{as_a_run, messages_event, state_event};
use crate::openness::Checked;
use crate::problem::Problem;

/// How many threads a page has that does not say.
const PAGE: usize = 50;

/// Whatever else a client sends is of no concern, such as whether it wants archived threads too: there are none.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListQuery {
    agent_id: Option<String>,
    limit: Option<usize>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// `GET {base}/threads`: those with the newest runs first.
pub(super) async fn list(
    State(app): State<App>,
    principal: Principal,
    Checked(Query(query)): Checked<Query<ListQuery>>,
) -> Result<Response, Problem> {
    let before = query.cursor.as_deref().map(cursor).transpose()?;
    let limit = query.limit.unwrap_or(PAGE).clamp(1, 1000);
    let filter =
        SessionFilter { agent_id: query.agent_id, principal: principal.list_filter(), limit: limit + 1, before };
    let mut sessions = app.store().sessions(filter).await?;
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let next =
        sessions.last().filter(|_| more).map(|last| format!("{}.{}", last.newest.created_at, last.newest.run_id));
    let threads: Vec<Value> = sessions.iter().map(thread).collect();
    Ok(Json(json!({ "threads": threads, "nextCursor": next })).into_response())
}

fn cursor(text: &str) -> Result<RunCursor, Problem> {
    let read = || {
        let (created_at, run_id) = text.split_once('.')?;
        Some(RunCursor { created_at: created_at.parse().ok()?, run_id: run_id.to_owned() })
    };
    read().ok_or_else(|| Problem::bad_request(format!("`{text}` is no cursor: it is the `nextCursor` of a page")))
}

fn thread(session: &SessionSummary) -> Value {
    let time = |millis| Timestamp::from_unix_millis(millis).to_string();
    json!({
        "id": session.session_id,
        "name": null,
        "agentId": session.agent_id,
        "organizationId": "",
        "createdById": session.principal.as_deref().unwrap_or_default(),
        "archived": false,
        "createdAt": time(session.created_at),
        "updatedAt": time(session.newest.created_at),
        "lastRunAt": time(session.newest.created_at),
    })
}

/// The thread as far as it was said. One that is not there is empty, and one of somebody else is as good as none.
async fn history(app: &App, principal: &Principal, thread_id: &str) -> Result<std::sync::Arc<History>, Problem> {
    let known = app.known_session(principal, thread_id, Without::Nothing).await?;
    Ok(known.map(|known| known.history).unwrap_or_default())
}

/// `GET {base}/threads/{thread}/messages`
pub(super) async fn messages(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(thread_id)): Checked<Path<String>>,
) -> Result<Response, Problem> {
    let history = history(&app, &principal, &thread_id).await?;
    let messages = match messages_event(&history, Peer::CopilotKit) {
        Some(Event::MessagesSnapshot(snapshot)) => snapshot.messages.iter().map(message).collect(),
        _ => Vec::new(),
    };
    Ok(Json(json!({ "messages": messages })).into_response())
}

/// A message as the runtime tells it, which is not quite as AG-UI has it.
fn message(message: &Message) -> Value {
    let whole = serde_json::to_value(message).unwrap_or_default();
    let mut told = Map::new();
    for key in ["id", "role", "content", "toolCallId"] {
        if let Some(value) = whole.get(key) {
            told.insert(key.to_owned(), value.clone());
        }
    }
    if !message.tool_calls().is_empty() {
        let calls = message
            .tool_calls()
            .iter()
            .map(|call| json!({ "id": call.id, "name": call.function.name, "args": call.function.arguments }));
        told.insert("toolCalls".to_owned(), calls.collect());
    }
    Value::Object(told)
}

/// `GET {base}/threads/{thread}/events`: the thread as the events of one run that says what is known of it.
pub(super) async fn events(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(thread_id)): Checked<Path<String>>,
) -> Result<Response, Problem> {
    let history = history(&app, &principal, &thread_id).await?;
    let events = as_a_run(&history, &thread_id, &thread_id, None, Peer::CopilotKit);
    // Of a thread without anything in it the runtime has no events either.
    let says_something = events[1..3].iter().any(Option::is_some);
    let events: Vec<Value> = events.iter().flatten().filter(|_| says_something).map(Event::to_value).collect();
    Ok(Json(json!({ "events": events })).into_response())
}

/// `GET {base}/threads/{thread}/state`: an object, or null where there is none.
pub(super) async fn state(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(thread_id)): Checked<Path<String>>,
) -> Result<Response, Problem> {
    let history = history(&app, &principal, &thread_id).await?;
    let state = state_event(&history).map(|_| history.state()).filter(|state| state.is_object());
    Ok(Json(json!({ "state": state })).into_response())
}

/// Renaming, archiving, deleting and being told of changes.
pub(super) async fn not_offered(_principal: Principal) -> Problem {
    not_offered_here(
        "threads have no names here, are not archived, and are removed by retention alone; `info` says that this is not \
         offered",
    )
}
