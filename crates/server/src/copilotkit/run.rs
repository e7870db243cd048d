//! `POST {base}/agent/{agent}/run` and `/connect`.

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use runwire_engine::{CreateRunError, answers_digest};
use serde::Deserialize;

use super::peer;
use crate::agui::{self, NotBegun, Posted};
use crate::app::App;
use crate::auth::Principal;
use crate::binding::Accepted;
use crate::connect::{self, Mounting};
use crate::connect_cursor::ConnectCursor;
use crate::cursor::CursorQuery;
use crate::openness::{Checked, JsonBody};
use crate::problem::Problem;
use crate::runs::posted_input;

pub(super) async fn run(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(agent_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let input = posted_input(&body)?;
    let peer = peer(input.protocol_version.as_deref());
    let (thread_id, asked) = (input.thread_id.clone(), input.run_id.clone());
    let mut posted =
        Posted { agent_id, after: query.event_cursor(&headers)?, accepted: Accepted::of(&headers), peer, input };
    let begun = match agui::begin(&app, &principal, posted.clone()).await {
        Err(NotBegun::Engine(CreateRunError::OtherInput { .. })) if !posted.input.resume().is_empty() => {
            posted.input.run_id = answering(&posted);
            agui::begin(&app, &principal, posted).await
        }
        begun => begun,
    }?;
    // Looked for behind the creation: whoever asks to stop from here on finds the run.
    if app.inner.early_stops.take(&principal, &thread_id, &asked) {
        app.engine().cancel(&begun.run_id).await?;
    }
    Ok(begun.response)
}

/// The id of an exchange that answers, made of that which it was posted with and of what it answers.
///
/// CopilotKit posts an answer under the id of the run that asked, and that names the exchange which asked. The answer needs an
/// id of its own, and a repetition of it the same one.
fn answering(posted: &Posted) -> String {
    let digest = answers_digest(&posted.input.run_id, posted.input.resume());
    format!("{}.answer-{digest}", posted.input.run_id)
}

pub(super) async fn connect(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(agent_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let input = posted_input(&body)?;
    let cursor = query.connect_cursor(&headers)?.or_else(|| last_seen(&body));
    let peer = peer(input.protocol_version.as_deref());
    let mounting = Mounting { agent_id, accepted: Accepted::of(&headers), cursor, peer, input };
    connect::begin(&app, principal, mounting).await
}

/// The member by which CopilotKit's client can say how far it has come. An id that is none of this server's, it has from
/// somewhere else: then it is told the thread from its beginning, as it is without one.
fn last_seen(body: &[u8]) -> Option<ConnectCursor> {
    #[derive(Deserialize)]
    struct LastSeen {
        #[serde(rename = "lastSeenEventId")]
        id: Option<String>,
    }
    serde_json::from_slice::<LastSeen>(body).ok()?.id.as_deref().and_then(ConnectCursor::parse)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use runwire_agui::RunAgentInput;
    use serde_json::{Value, json};

    use super::*;

    fn posted(resume: Value) -> Posted {
        let input = json!({ "threadId": "t", "runId": "r", "messages": [], "resume": resume });
        let (input, _) = RunAgentInput::decode_value(input).unwrap();
        Posted { agent_id: "a".into(), after: None, accepted: Accepted::of(&HeaderMap::new()), peer: peer(None), input }
    }

    fn entry(id: &str, payload: Value) -> Value {
        json!({ "interruptId": id, "status": "resolved", "payload": payload })
    }

    #[test]
    fn the_same_answers_have_the_same_exchange_and_others_another() {
        let (yes, no) = (json!({ "approved": true, "by": "x" }), json!({ "approved": false, "by": "x" }));
        let one = answering(&posted(json!([entry("a", yes.clone()), entry("b", no.clone())])));
        let turned = json!({ "by": "x", "approved": true });
        assert_eq!(one, answering(&posted(json!([entry("b", no.clone()), entry("a", turned)]))));
        assert!(one.starts_with("r.answer-"), "{one}");
        assert_ne!(one, answering(&posted(json!([entry("a", no.clone()), entry("b", yes.clone())]))));
        assert_ne!(one, answering(&posted(json!([entry("a", yes)]))));
    }
}
