//! `POST {base}`: every operation in one envelope, `{method, params, body}`, which is handed to the route of the operation.

use axum::body::Body;
use axum::extract::{Extension, Request};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use axum::{Json, Router, response::IntoResponse as _};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;

use crate::openness::JsonBody;
use crate::problem::Problem;
use crate::runs::check_depth;

/// The routes of the operations.
#[derive(Clone)]
pub(super) struct Runtime(pub Router);

/// What the client wants. Members that are not known pass, as they do in the runtime.
#[derive(Debug, Deserialize)]
struct Call {
    method: Option<String>,
    #[serde(default)]
    params: Option<Map<String, Value>>,
    #[serde(default)]
    body: Value,
}

/// The paths that the envelope `resource/request` may lead to.
const RESOURCES: [&str; 2] = ["/threads", "/annotate"];

pub(super) async fn call(
    Extension(Runtime(runtime)): Extension<Runtime>,
    headers: HeaderMap,
    body: JsonBody,
) -> Response {
    match request(&headers, &body) {
        Ok(request) => runtime.oneshot(request).await.unwrap_or_else(|never| match never {}),
        Err(Refused::Problem(problem)) => problem.into_response(),
        Err(Refused::Envelope(message)) => {
            (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_request", "message": message }))).into_response()
        }
    }
}

#[derive(Debug)]
enum Refused {
    /// The envelope says nothing that the runtime does.
    Envelope(String),
    Problem(Problem),
}

/// The request that the envelope stands for.
fn request(headers: &HeaderMap, JsonBody(body): &JsonBody) -> Result<Request, Refused> {
    check_depth(body).map_err(Refused::Problem)?;
    let call: Call = serde_json::from_slice(body)
        .map_err(|e| Refused::Envelope(format!("the body is no envelope {{\"method\": …}}: {e}")))?;
    let Call { method, params, body } = call;
    let params = params.unwrap_or_default();
    let text = |key: &str| {
        let given = params.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        given.ok_or_else(|| Refused::Envelope(format!("Missing or invalid parameter '{key}'")))
    };
    let method = method.filter(|method| !method.is_empty());
    let method = method.ok_or_else(|| Refused::Envelope("Missing method field".to_owned()))?;
    let (http_method, path, body) = match &*method {
        "info" => (Method::GET, "/info".to_owned(), Value::Null),
        "agent/run" | "agent/connect" => {
            if body.is_null() {
                return Err(Refused::Envelope(format!("'{method}' wants a RunAgentInput as the `body`")));
            }
            let what = method.trim_start_matches("agent/");
            (Method::POST, format!("/agent/{}/{what}", segment(text("agentId")?)), body)
        }
        "agent/stop" => {
            let (agent, thread) = (segment(text("agentId")?), segment(text("threadId")?));
            (Method::POST, format!("/agent/{agent}/stop/{thread}"), if body.is_null() { json!({}) } else { body })
        }
        "transcribe" => (Method::POST, "/transcribe".to_owned(), body),
        "resource/request" => {
            let path = text("path")?;
            let resource = path.split('?').next().unwrap_or_default();
            let below =
                |root: &str| resource.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if !RESOURCES.into_iter().any(below) {
                return Err(Refused::Problem(Problem::new(
                    StatusCode::NOT_FOUND,
                    "Not found",
                    format!("`{path}` is no resource of the runtime; there is `/threads` and what is below it"),
                )));
            }
            let http_method = text("httpMethod")?.to_ascii_uppercase();
            let http_method = Method::from_bytes(http_method.as_bytes())
                .map_err(|_| Refused::Envelope("Missing or invalid parameter 'httpMethod'".to_owned()))?;
            let body = if http_method.is_safe() { Value::Null } else { body };
            (http_method, path.to_owned(), body)
        }
        _ => return Err(Refused::Envelope(format!("Unsupported method '{method}'"))),
    };
    let mut built = Request::builder().method(http_method).uri(path);
    if let Some(built) = built.headers_mut() {
        built.clone_from(headers);
        built.remove(header::CONTENT_LENGTH);
        built.remove(header::TRANSFER_ENCODING);
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    built.body(body).map_err(|e| Refused::Envelope(format!("the envelope makes no request: {e}")))
}

/// A part of a path that stands for this text, whatever it is.
fn segment(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn made(envelope: &Value) -> Result<(String, String), Refused> {
        let request = request(&HeaderMap::new(), &JsonBody(envelope.to_string().into()))?;
        Ok((request.method().to_string(), request.uri().to_string()))
    }

    #[test]
    fn an_envelope_stands_for_the_request_of_its_route() {
        let params = json!({ "agentId": "a b", "threadId": "x/../y" });
        for (method, made_of) in [
            ("info", ("GET", "/info")),
            ("agent/run", ("POST", "/agent/a%20b/run")),
            ("agent/connect", ("POST", "/agent/a%20b/connect")),
            ("agent/stop", ("POST", "/agent/a%20b/stop/x%2F%2E%2E%2Fy")),
        ] {
            let (verb, path) = made(&json!({ "method": method, "params": params, "body": {} })).unwrap();
            assert_eq!((&*verb, &*path), made_of, "{method}");
        }
        let params = json!({ "path": "/threads?agentId=a&limit=2", "httpMethod": "get" });
        let (verb, path) = made(&json!({ "method": "resource/request", "params": params })).unwrap();
        assert_eq!((&*verb, &*path), ("GET", "/threads?agentId=a&limit=2"));
    }

    #[test]
    fn an_envelope_leads_to_no_other_address() {
        for path in
            ["//evil.example/threads", "http://evil.example/threads", "/info", "/threadsx", "threads", "/../v2/runs"]
        {
            let params = json!({ "path": path, "httpMethod": "GET" });
            let refused = made(&json!({ "method": "resource/request", "params": params })).unwrap_err();
            assert!(matches!(refused, Refused::Problem(_)), "{path}");
        }
    }

    #[test]
    fn an_envelope_that_says_nothing_the_runtime_does_is_refused() {
        for envelope in [
            json!([]),
            json!({}),
            json!({ "method": "" }),
            json!({ "method": 7 }),
            json!({ "method": "agent/dance" }),
            json!({ "method": "agent/run", "params": { "agentId": " " }, "body": {} }),
            json!({ "method": "agent/run", "params": { "agentId": "a" } }),
            json!({ "method": "agent/stop", "params": { "agentId": "a" } }),
            json!({ "method": "resource/request", "params": { "path": "/threads", "httpMethod": "" } }),
        ] {
            assert!(matches!(made(&envelope), Err(Refused::Envelope(_))), "{envelope}");
        }
    }
}
