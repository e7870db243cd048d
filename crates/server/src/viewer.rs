//! The viewer at `/`: pages for people, made of files that are in the binary.
//!
//! The files hold no data and are given to everybody. What they show they ask for over the same routes as any other
//! client, with the token that a person enters. What a page may do is bounded by its `Content-Security-Policy`: scripts,
//! styles and connections of this server alone, so that text of an agent which were taken for markup could do nothing.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::app::App;
use crate::openness::Checked;
use crate::problem::Problem;

/// What a page of the viewer may load and do. `style-src` and `script-src` without `unsafe-inline` also mean that no page has
/// a `style` or `on…` attribute; `require-trusted-types-for`, with no policy to make such values, that no script writes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The one page. Which of the viewer's pages it becomes, its script decides by the address.
const INDEX: &str = "index.html";

/// Addresses that a person may open, load again or send to somebody.
const PAGES: [&str; 4] = ["/runs/{id}", "/runs/{id}/frames", "/chat", "/chat/{agent}/{session}"];

/// A file under `crates/server/viewer`, by its path there.
macro_rules! viewer_file {
    ($path:literal, $content_type:expr) => {
        ($path, $content_type, include_bytes!(concat!("../viewer/", $path)).as_slice())
    };
}

/// Every file: its path under `/viewer/`, its type, its bytes.
const FILES: &[(&str, &str, &[u8])] = &[
    viewer_file!("index.html", HTML),
    viewer_file!("icon.svg", SVG),
    viewer_file!("style.css", STYLE),
    viewer_file!("theme.js", SCRIPT),
    viewer_file!("app.js", SCRIPT),
    viewer_file!("routes.js", SCRIPT),
    viewer_file!("dom.js", SCRIPT),
    viewer_file!("said.js", SCRIPT),
    viewer_file!("api.js", SCRIPT),
    viewer_file!("token.js", SCRIPT),
    viewer_file!("announce.js", SCRIPT),
    viewer_file!("problem.js", SCRIPT),
    viewer_file!("connection.js", SCRIPT),
    viewer_file!("follow.js", SCRIPT),
    viewer_file!("while_shown.js", SCRIPT),
    viewer_file!("pacing.js", SCRIPT),
    viewer_file!("virtual_list.js", SCRIPT),
    viewer_file!("format.js", SCRIPT),
    viewer_file!("answer.css", STYLE),
    viewer_file!("answer_form.js", SCRIPT),
    viewer_file!("schema_form.js", SCRIPT),
    viewer_file!("json_patch.js", SCRIPT),
    viewer_file!("run.css", STYLE),
    viewer_file!("run_model.js", SCRIPT),
    viewer_file!("run_details.js", SCRIPT),
    viewer_file!("time_scale.js", SCRIPT),
    viewer_file!("timeline.js", SCRIPT),
    viewer_file!("copy.js", SCRIPT),
    viewer_file!("bodies.js", SCRIPT),
    viewer_file!("sieve.js", SCRIPT),
    viewer_file!("agui_events.js", SCRIPT),
    viewer_file!("frame_list.js", SCRIPT),
    viewer_file!("frame_gist.js", SCRIPT),
    viewer_file!("columns.js", SCRIPT),
    viewer_file!("event_list.js", SCRIPT),
    viewer_file!("log_details.js", SCRIPT),
    viewer_file!("check_view.js", SCRIPT),
    viewer_file!("tabs.js", SCRIPT),
    viewer_file!("json_tree.js", SCRIPT),
    viewer_file!("frames.css", STYLE),
    viewer_file!("pages/frames.js", SCRIPT),
    viewer_file!("pages/runs.js", SCRIPT),
    viewer_file!("pages/run.js", SCRIPT),
    viewer_file!("conversation.js", SCRIPT),
    viewer_file!("conversation_view.js", SCRIPT),
    viewer_file!("kept_conversation.js", SCRIPT),
    viewer_file!("follow_session.js", SCRIPT),
    viewer_file!("session_list.js", SCRIPT),
    viewer_file!("composer.js", SCRIPT),
    viewer_file!("chat.css", STYLE),
    viewer_file!("pages/chat.js", SCRIPT),
    // The module that users of the server get, and no copy of it.
    ("runwire.js", SCRIPT, include_bytes!("../../../clients/js/runwire.js")),
];

struct File {
    content_type: &'static str,
    bytes: &'static [u8],
    /// Strong: the same as long as every byte is.
    etag: HeaderValue,
}

static BY_PATH: LazyLock<HashMap<&'static str, File>> = LazyLock::new(|| {
    let file = |&(path, content_type, bytes): &(&'static str, &'static str, &'static [u8])| {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let etag = format!("\"{:016x}{:x}\"", hasher.finish(), bytes.len());
        let etag = HeaderValue::try_from(etag).expect("digits in quotation marks can be in a header");
        (path, File { content_type, bytes, etag })
    };
    FILES.iter().map(file).collect()
});

/// The viewer's pages and files, without `/`, which is shared with the answer for programs.
pub(crate) fn routes() -> Router<App> {
    let files = Router::new().route("/viewer/{*path}", get(asset));
    PAGES
        .iter()
        .fold(files, |router, address| router.route(address, get(|headers: HeaderMap| async move { page(&headers) })))
}

/// The page that every address of the viewer answers with.
pub(crate) fn page(headers: &HeaderMap) -> Response {
    let index = BY_PATH.get(INDEX).expect("the index is one of the files");
    index.answer(headers)
}

/// `GET /viewer/{path}`
async fn asset(Checked(Path(path)): Checked<Path<String>>, headers: HeaderMap) -> Response {
    match BY_PATH.get(path.as_str()) {
        Some(file) => file.answer(&headers),
        None => Problem::new(
            StatusCode::NOT_FOUND,
            "Not found",
            format!("the viewer of this version has no file `{path}`; load the page again"),
        )
        .into_response(),
    }
}

impl File {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let fixed = |text: &'static str| HeaderValue::from_static(text);
        // A server that was replaced by another version must not leave pages of the old one around: always asked, mostly 304.
        let mut answer = HeaderMap::from_iter([
            (header::ETAG, self.etag.clone()),
            (header::CACHE_CONTROL, fixed("no-cache")),
            (header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
            (header::REFERRER_POLICY, fixed("no-referrer")),
            (header::CONTENT_SECURITY_POLICY, fixed(POLICY)),
            (HeaderName::from_static("cross-origin-opener-policy"), fixed("same-origin")),
            (HeaderName::from_static("cross-origin-resource-policy"), fixed("same-origin")),
        ]);
        if is_known(headers, &self.etag) {
            return (StatusCode::NOT_MODIFIED, answer).into_response();
        }
        answer.insert(header::CONTENT_TYPE, fixed(self.content_type));
        (answer, self.bytes).into_response()
    }
}

/// Whether `If-None-Match` names this version. A weak tag of the same text does: the comparison is the weak one (RFC 9110,
/// section 13.1.2).
fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let listed = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = listed.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag.as_bytes())
}

/// Whether the request comes from a browser that opens a page: it names HTML, and does not like JSON better. A wildcard is
/// what programs send, which were given JSON before there were pages.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accept: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let weight = |media: &str| {
        let ranges = accept.iter().flat_map(|value| value.split(','));
        let weights = ranges.filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(media));
            let weight =
                parts.find_map(|part| part.to_ascii_lowercase().replace(' ', "").strip_prefix("q=")?.parse().ok());
            named.then(|| weight.unwrap_or(1.0_f32))
        });
        weights.fold(0.0, f32::max)
    };
    let html = weight("text/html");
    html > 0.0 && html >= weight("application/json")
}
