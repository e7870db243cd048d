//! Requests that cannot be read, refused in this server's own terms; and pages of other origins, kept out.

use std::net::IpAddr;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
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

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Checked<Path<T>> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, app).await {
            Ok(path) => Ok(Checked(path)),
            Err(refused) => Err(Problem::bad_request(format!("the path: {}", refused.body_text()))),
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
        let patience = app.options().request_patience;
        let Ok(read) = tokio::time::timeout(patience, Bytes::from_request(request, app)).await else {
            return Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "Request timeout",
                format!("the body did not come within {patience:?}"),
            ));
        };
        match read {
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

/// On a server without tokens, lets in only requests that name this machine.
///
/// A page can make a browser believe that the page's own host name is 127.0.0.1, and would then be of the same origin;
/// the `Host` that the browser sends still is the page's.
pub(crate) async fn this_machine_only(State(app): State<App>, request: Request, next: Next) -> Response {
    if app.inner.tokens.is_none() && !names_this_machine(&request) {
        return Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "Misdirected request",
            "no tokens are configured, so this server answers only to a loopback address or `localhost`",
        )
        .into_response();
    }
    next.run(request).await
}

/// Keeps pages of other origins from changing anything: what a browser sends for one without asking first, it sends
/// with the page's `Origin`.
pub(crate) async fn own_pages_only(State(app): State<App>, request: Request, next: Next) -> Response {
    if !request.method().is_safe() && !origin_allowed(&app, request.headers()) {
        return Problem::new(
            StatusCode::FORBIDDEN,
            "Origin not allowed",
            "pages of this origin may not change anything here; allow it under `cors_origins`",
        )
        .into_response();
    }
    next.run(request).await
}

fn names_this_machine(request: &Request) -> bool {
    let by_header = request.headers().get(header::HOST).and_then(|h| h.to_str().ok());
    // HTTP/2 has the host in the request target; HTTP/1.0 may have none.
    let Some(named) = request.uri().host().or(by_header) else { return true };
    let host = match named.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => named.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a WebSocket may be opened from where it is opened from.
///
/// Browsers do not ask before they open one to another origin, so the server has to look: its own pages may, those of
/// configured origins may, and so may everything that is no browser and sends no `Origin`. Where a token is wanted no
/// browser sends it by itself, so a page that has one may use it from anywhere.
pub(crate) fn origin_allowed(app: &App, headers: &HeaderMap) -> bool {
    if app.inner.tokens.is_some() {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let own = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let of_origin = origin.split_once("://").map(|(_, host)| host);
    (own.is_some() && own == of_origin) || app.options().cors_origins.iter().any(|o| o == origin || o == "*")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_names_of_this_machine_are_taken_for_it() {
        let named = |host: &str| {
            let request = Request::builder().uri("/").header(header::HOST, host).body(Body::empty()).unwrap();
            names_this_machine(&request)
        };
        for own in ["localhost", "LOCALHOST:7171", "127.0.0.1:7171", "127.9.9.9", "[::1]:7171", "app.localhost:80"] {
            assert!(named(own), "{own}");
        }
        for other in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7171", "10.0.0.1", "[fe80::1]"]
        {
            assert!(!named(other), "{other}");
        }
    }
}
