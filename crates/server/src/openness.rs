//! Requests that cannot be read, refused in this server's own terms; and pages of other origins, kept out.

use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::Problem;

/// An extractor whose refusal is a problem.
pub(crate) struct Checked<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Checked<Query<T>> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(query) => Ok(Checked(query)),
            Err(refused) => Err(Problem::bad_request(format!("the query: {}", refused.body_text()))),
        }
    }
}

/// The body of a request that says that it is JSON.
///
/// Saying so is required: a page of another origin cannot do it without asking first, and is not let.
pub(crate) struct JsonBody(pub Bytes);

impl FromRequest<App> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<JsonBody, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Unsupported media type",
                "the body has to be sent as `Content-Type: application/json`",
            ));
        }
        match Bytes::from_request(request, app).await {
            Ok(body) => Ok(JsonBody(body)),
            Err(refused) if refused.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "Content too large",
                format!("the body has more than the {} bytes that this server takes", app.options().max_body_bytes),
            )),
            Err(refused) => Err(Problem::bad_request(format!("the body cannot be read: {}", refused.body_text()))),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()) else { return false };
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Whether a WebSocket may be opened from where it is opened from.
///
/// Browsers do not ask before they open one to another origin, so the server has to look: its own pages may, those of
/// configured origins may, and so may everything that is no browser and sends no `Origin`.
pub(crate) fn origin_allowed(app: &App, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let own = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let of_origin = origin.split_once("://").map(|(_, host)| host);
    (own.is_some() && own == of_origin) || app.options().cors_origins.iter().any(|o| o == origin || o == "*")
}
