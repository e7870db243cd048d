//! The AG-UI binding: `POST /agui/{agent}`, and a run's events as a resource of their own.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use runwire_agui::{AgentCapabilities, Declaration, Peer, RunAgentInput, TransportCapabilities};
use runwire_engine::{Agent, CreateRun, CreateRunError, RunRequest};
use runwire_store::ReadError;
use serde_json::Value;

use crate::app::App;
use crate::auth::Principal;
use crate::binding::{Accepted, Binding};
use crate::cursor::{CursorQuery, EventId};
use crate::event_stream::{Source, StreamError, respond, respond_whole};
use crate::openness::{Checked, JsonBody};
use crate::problem::Problem;
use crate::projection_stream::{ProjectionSource, Scope};
use crate::protobuf_stream;
use crate::runs::posted_input;

/// Names the run in the answer to `POST /agui/{agent}`.
const RUN_ID: &str = "runwire-run-id";

/// `POST /agui/{agent}`: runs the agent and streams its events; the same ids with the same input re-attach.
pub(crate) async fn run(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(agent_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let (accepted, after) = (Accepted::of(&headers), query.event_cursor(&headers)?);
    let input = posted_input(&body)?;
    let peer = Declaration::of(input.protocol_version.as_deref()).peer();
    Ok(begin(&app, &principal, Posted { agent_id, input, after, accepted, peer }).await?.response)
}

/// A run that a client asks for, and how it is to be told of it.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub agent_id: String,
    pub input: RunAgentInput,
    /// The last event that the client has of it.
    pub after: Option<EventId>,
    pub accepted: Accepted,
    pub peer: Peer,
}

/// A run that goes on, and the stream of its events.
pub(crate) struct Begun {
    pub run_id: String,
    pub response: Response,
}

/// Why there is no stream.
pub(crate) enum NotBegun {
    /// The engine did not take the run.
    Engine(CreateRunError),
    Refused(Problem),
}

impl From<CreateRunError> for NotBegun {
    fn from(error: CreateRunError) -> NotBegun {
        NotBegun::Engine(error)
    }
}

impl From<Problem> for NotBegun {
    fn from(problem: Problem) -> NotBegun {
        NotBegun::Refused(problem)
    }
}

impl From<NotBegun> for Problem {
    fn from(not: NotBegun) -> Problem {
        match not {
            NotBegun::Engine(error) => error.into(),
            NotBegun::Refused(problem) => problem,
        }
    }
}

/// Runs the agent, or finds the run that the same request began before.
pub(crate) async fn begin(app: &App, principal: &Principal, posted: Posted) -> Result<Begun, NotBegun> {
    let Posted { agent_id, input, after, accepted, peer } = posted;
    // A cursor is a place in what this exchange has sent. Where nothing was sent there is none, and starting a run whose
    // first events the client would not be shown is worse than refusing (G7).
    if after.is_some() {
        // Somebody else's exchange is as good as none.
        match app.store().run_by_exchange(&input.thread_id, &input.run_id).await {
            Err(ReadError::Removed(tombstone)) if !principal.may_see_removed(&tombstone) => {
                return Err(Problem::past_head(0).into());
            }
            sent => {
                if !sent.map_err(Problem::from)?.is_some_and(|(record, _)| principal.may_see(&record)) {
                    return Err(Problem::past_head(0).into());
                }
            }
        }
    }
    let declaration = Declaration::of(input.protocol_version.as_deref());
    let binding = accepted.binding(peer, after.is_some());
    let create = CreateRun {
        agent_id,
        request: RunRequest::Input(Box::new(input)),
        lane: None,
        metadata: Value::Null,
        principal: principal.owner(),
        trigger_kind: "agui",
    };
    let started = app.engine().create_run(create).await?;
    if after.is_some_and(|after| after.seq > started.record.head) {
        return Err(Problem::past_head(started.record.head).into());
    }
    let run_id = started.record.run_id;
    // A request that re-attaches has the same input, and so the same declaration, which was mentioned then.
    if !started.existing {
        mention(&declaration, &run_id, &started.exchange_id);
    }
    let tail = app.store().tail(&run_id, 0).await.map_err(|e| Problem::from_tail(e, &run_id))?;
    let scope = Scope::Exchange(started.exchange_id);
    let source = ProjectionSource::new(app.store().clone(), &run_id, tail, peer, binding, scope, after);
    Ok(Begun { response: answer(app, binding, source, Some(run_id.clone())), run_id })
}

/// The answer to a `POST`, whose reader takes it whole; it names the run that it is about, or is about first.
pub(crate) fn answer(app: &App, binding: Binding, source: impl Source, run_id: Option<String>) -> Response {
    let mut response = match binding {
        Binding::Sse => respond_whole(app, source),
        Binding::Protobuf => protobuf_stream::respond(app, source),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    if let Some(Ok(run_id)) = run_id.map(HeaderValue::try_from) {
        response.headers_mut().insert(RUN_ID, run_id);
    }
    response
}

/// Tells the operator of a client that speaks another version than this server. The run goes on all the same
/// (basic/versioning, "Version negotiation").
fn mention(declaration: &Declaration, run_id: &str, exchange_id: &str) {
    match declaration {
        Declaration::Current => {}
        Declaration::Newer(_) | Declaration::Uninterpretable(_) => {
            tracing::warn!(run_id, exchange_id, "the client {declaration}");
        }
        Declaration::Older(_) | Declaration::Missing => {
            tracing::info!(run_id, exchange_id, "the client {declaration}");
        }
    }
}

/// `GET /agui/{agent}/capabilities`: what the agent declares about itself, and how this server serves it.
pub(crate) async fn capabilities(
    State(app): State<App>,
    _principal: Principal,
    Checked(Path(agent_id)): Checked<Path<String>>,
) -> Result<Response, Problem> {
    let agent = app.engine().agents().get(&agent_id).ok_or_else(|| Problem::agent_not_found(&agent_id))?;
    Ok(Json(capabilities_of(agent)).into_response())
}

/// What an agent declares about itself, and how this server serves it.
pub(crate) fn capabilities_of(agent: &Agent) -> AgentCapabilities {
    let mut capabilities = agent.driver.capabilities();
    let identity = capabilities.identity.get_or_insert_default();
    identity.name.get_or_insert_with(|| agent.id.clone());
    if identity.description.is_none() {
        identity.description.clone_from(&agent.description);
    }
    // However the agent itself is reached, this is how it is reached here.
    capabilities.transport = Some(TransportCapabilities {
        streaming: Some(true),
        http_binary: Some(true),
        resumable: Some(true),
        ..TransportCapabilities::default()
    });
    capabilities
}

/// `GET /v2/runs/{id}/agui`: the run's events, all exchanges, resumable at any of them.
pub(crate) async fn follow(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = query.event_cursor(&headers)?;
    let record = app.visible_run(&principal, &run_id).await?;
    if after.is_some_and(|after| after.seq > record.head) {
        return Err(Problem::past_head(record.head));
    }
    let tail = app.store().tail(&run_id, 0).await.map_err(|e| Problem::from_tail(e, &run_id))?;
    let binding = Accepted::of(&headers).binding(Peer::Current, after.is_some());
    let (store, scope) = (app.store().clone(), Scope::WholeRun);
    let mut source = ProjectionSource::new(store, &run_id, tail, Peer::Current, binding, scope, after);
    // A reader that has everything is told so (G6). Only the events say whether it has: the last frame can have several
    // or none.
    let ended = record.ended_at.is_some();
    let first = match after {
        Some(_) if ended => match source.next().await {
            Ok(Some(first)) => Some(first),
            Ok(None) => return Ok(StatusCode::NO_CONTENT.into_response()),
            Err(error) => return Err(Problem::internal(&error)),
        },
        _ => None,
    };
    let source = Ahead { first, source };
    let mut response = match binding {
        Binding::Sse => respond(&app, source),
        Binding::Protobuf => protobuf_stream::respond(&app, source),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// A source whose first events have been read already.
struct Ahead {
    first: Option<Bytes>,
    source: ProjectionSource,
}

impl Source for Ahead {
    async fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.source.next().await,
        }
    }
}
