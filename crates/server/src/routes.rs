//! Which request goes where.

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use runwire_engine::Agent;
use serde_json::json;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::app::App;
use crate::auth::bearer;
use crate::openness::{own_pages_only, this_machine_only};
use crate::problem::Problem;
use crate::{
    agui, check, connect, copilotkit, executor, frame_stream, prune, resume, runs, session_stream, sessions, viewer,
    websocket,
};

/// All routes of the server.
pub fn router(app: App) -> Router {
    let options = app.options();
    let limit = DefaultBodyLimit::max(options.max_body_bytes);
    let cors = cors(&options.cors_origins);
    let copilotkit = options.copilotkit_path.as_deref().map(|base| copilotkit::routes(&app, base)).unwrap_or_default();
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/agui/{agent}", post(agui::run))
        .route("/agui/{agent}/connect", post(connect::connect))
        .route("/agui/{agent}/capabilities", get(agui::capabilities))
        .route("/v2/runs", post(runs::create).get(runs::list))
        .route("/v2/runs/prune", post(prune::prune))
        .route("/v2/runs/{id}", get(runs::get))
        .route("/v2/runs/{id}/stream", get(frame_stream::stream))
        .route("/v2/runs/{id}/ws", get(websocket::upgrade))
        .route("/v2/runs/{id}/frames", get(frame_stream::page).post(executor::push))
        .route("/v2/runs/{id}/claim", post(executor::claim))
        .route("/v2/runs/{id}/heartbeat", post(executor::heartbeat))
        .route("/v2/runs/{id}/agui", get(agui::follow))
        .route("/v2/runs/{id}/check", get(check::check))
        .route("/v2/runs/{id}/cancel", post(runs::cancel))
        .route("/v2/runs/{id}/resume", post(resume::resume))
        .route("/v2/runs/{id}/segments/{segment}/payload", get(runs::payload))
        .route("/v2/sessions/{id}", get(sessions::get))
        .route("/v2/sessions/{id}/stream", get(session_stream::stream))
        .merge(viewer::routes())
        .merge(copilotkit)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(limit)
        .layer(middleware::from_fn_with_state(app.clone(), own_pages_only))
        .layer(cors)
        .layer(middleware::from_fn_with_state(app.clone(), this_machine_only))
        .with_state(app)
}

fn cors(origins: &[String]) -> CorsLayer {
    let any = origins.iter().any(|o| o == "*");
    let origin = if any {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|o| HeaderValue::try_from(o).ok()))
    };
    CorsLayer::new()
        // Nothing here goes by a cookie, but what stands in front may. Every origin there is cannot be allowed to send one.
        .allow_credentials(!any && !origins.is_empty())
        .allow_origin(origin)
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
        // Pages send headers of their own, for whatever stands in front of this server; what decides is the origin.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::LOCATION, HeaderName::from_static("runwire-run-id")])
        .max_age(Duration::from_secs(600))
}

/// The viewer for a browser that opens a page, and what this is for everybody else.
async fn index(State(app): State<App>, headers: HeaderMap) -> Response {
    let mut response = if viewer::wants_page(&headers) { viewer::page(&headers) } else { about(&app, &headers) };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept, authorization"));
    response
}

fn about(app: &App, headers: &HeaderMap) -> Response {
    // Everybody may read what this is; which agents there are only who may run them.
    let agents = app.authenticate(bearer(headers)).map(|_| {
        let agents = app.engine().agents().values();
        let told = |a: &Agent| {
            json!({ "agent_id": a.id, "description": a.description, "concurrency": a.policy.concurrency.as_str() })
        };
        agents.map(told).collect::<Vec<_>>()
    });
    Json(json!({
        "name": "runwire",
        "version": env!("CARGO_PKG_VERSION"),
        "agents": agents,
        "routes": {
            "agui": "POST /agui/{agent}",
            "connect": "POST /agui/{agent}/connect",
            "capabilities": "GET /agui/{agent}/capabilities",
            "create": "POST /v2/runs",
            "runs": "GET /v2/runs",
            "run": "GET /v2/runs/{id}",
            "stream": "GET /v2/runs/{id}/stream",
            "websocket": "GET /v2/runs/{id}/ws",
            "frames": "GET /v2/runs/{id}/frames",
            "events": "GET /v2/runs/{id}/agui",
            "check": "GET /v2/runs/{id}/check",
            "claim": "POST /v2/runs/{id}/claim",
            "heartbeat": "POST /v2/runs/{id}/heartbeat",
            "push": "POST /v2/runs/{id}/frames",
            "prune": "POST /v2/runs/prune",
            "cancel": "POST /v2/runs/{id}/cancel",
            "resume": "POST /v2/runs/{id}/resume",
            "payload": "GET /v2/runs/{id}/segments/{segment}/payload",
            "session": "GET /v2/sessions/{id}",
            "session_stream": "GET /v2/sessions/{id}/stream",
            "health": "GET /healthz",
            "copilotkit": app.options().copilotkit_path,
        },
    }))
    .into_response()
}

/// The process answers.
async fn healthz() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// The store takes and gives what it is asked.
async fn readyz(State(app): State<App>) -> Result<Response, Problem> {
    match app.store().ready().await {
        Ok(()) => Ok(Json(json!({ "status": "ready" })).into_response()),
        Err(error) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Not ready", error.reason())),
    }
}

async fn not_found(uri: axum::http::Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "Not found", format!("there is nothing at `{}`", uri.path()))
}

async fn method_not_allowed(method: Method, uri: axum::http::Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "Method not allowed",
        format!("`{}` does not take {method}", uri.path()),
    )
}
