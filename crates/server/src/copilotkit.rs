//! The HTTP interface of CopilotKit's runtime, so that a CopilotKit front end works with this server as its `runtimeUrl`.
//!
//! It is told in the form of a route for each operation, and in that of one route that takes them all. What is behind them is
//! what is behind `/agui/{agent}`; here only stands what CopilotKit's client (1.7x) wants in another way: its errors, its list
//! of agents, its way to stop and to answer, and its threads.

mod base_path;
mod early_stop;
mod info;
mod refusal;
mod run;
mod single_route;
mod stop;
mod threads;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::map_response;
use axum::routing::{get, patch, post};
use runwire_agui::{Declaration, Peer};

use crate::app::App;

pub use base_path::{COPILOTKIT_PATH, CopilotKitPathError, check_copilotkit_path};
pub(crate) use early_stop::EarlyStops;

/// The runtime's routes under this path, one that [`check_copilotkit_path`] takes.
pub(crate) fn routes(app: &App, base: &str) -> Router<App> {
    let each = Router::new()
        .route("/info", get(info::info))
        .route("/agent/{agent}/run", post(run::run))
        .route("/agent/{agent}/connect", post(run::connect))
        .route("/agent/{agent}/stop/{thread}", post(stop::stop))
        .route("/threads", get(threads::list))
        .route("/threads/subscribe", post(threads::not_offered))
        .route("/threads/clear", post(threads::not_offered))
        .route("/threads/{thread}", patch(threads::not_offered).delete(threads::not_offered))
        .route("/threads/{thread}/archive", post(threads::not_offered))
        .route("/threads/{thread}/messages", get(threads::messages))
        .route("/threads/{thread}/events", get(threads::events))
        .route("/threads/{thread}/state", get(threads::state))
        .route("/annotate", post(refusal::not_offered))
        .route("/transcribe", post(refusal::no_transcription))
        .fallback(refusal::not_found)
        .method_not_allowed_fallback(refusal::method_not_allowed)
        .layer(DefaultBodyLimit::max(app.options().max_body_bytes))
        .layer(map_response(refusal::as_the_runtime_says_it));
    let all = each.clone().with_state(app.clone());
    let one = || post(single_route::call).layer(axum::Extension(single_route::Runtime(all.clone())));
    let single = Router::new()
        .route(base, one())
        .route(&format!("{base}/"), one())
        .method_not_allowed_fallback(refusal::method_not_allowed)
        .layer(map_response(refusal::as_the_runtime_says_it));
    Router::new().nest(base, each).merge(single)
}

/// Whom an answer of these routes is for. CopilotKit's client declares no version as long as it predates 1.0.
fn peer(declared: Option<&str>) -> Peer {
    match Declaration::of(declared).peer() {
        Peer::PreV1 => Peer::CopilotKit,
        peer => peer,
    }
}
