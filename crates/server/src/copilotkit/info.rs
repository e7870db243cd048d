//! `GET {base}/info`: which agents there are, and what of the runtime this server offers.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use runwire_engine::Agent;
use serde_json::{Map, Value, json};

use crate::agui::capabilities_of;
use crate::app::App;
use crate::auth::Principal;

pub(super) async fn info(State(app): State<App>, _principal: Principal) -> Response {
    let agents: Map<String, Value> =
        app.engine().agents().values().map(|agent| (agent.id.clone(), described(agent))).collect();
    // What a page can ask for by `/threads`. It is the same in both forms.
    let threads = json!({ "list": true, "inspect": true, "mutations": false, "realtimeMetadata": false });
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "agents": agents,
        "mode": "sse",
        "threadEndpoints": threads,
        "singleRoute": { "resourceOperations": true, "threadEndpoints": threads },
        "suggestions": false,
        "audioFileTranscriptionEnabled": false,
        "a2uiEnabled": false,
        "openGenerativeUIEnabled": false,
        "telemetryDisabled": true,
    }))
    .into_response()
}

fn described(agent: &Agent) -> Value {
    json!({
        "name": agent.id,
        "description": agent.description.as_deref().unwrap_or_default(),
        "className": "RunwireAgent",
        "capabilities": capabilities_of(agent),
    })
}
