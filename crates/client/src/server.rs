//! The server whose runs are followed: its address, the token, and one HTTP client for all requests.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use reqwest::{Method, RequestBuilder, Url};

use crate::{Follow, FollowAgui, FollowSession};

/// A TCP and TLS connection that takes longer than this does not come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A Runwire server. Cloning is cheap; clones share connections.
///
/// Requests go through the proxy that the environment names, if there is one; WebSockets go straight to the server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    base: Url,
    token: Option<String>,
    authorization: Option<HeaderValue>,
    http: reqwest::Client,
}

/// An address or a token that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerUrlError {
    /// No URL at all.
    #[error("`{url}` is no URL: {problem}; give one such as http://127.0.0.1:7171")]
    NotAUrl {
        /// What was given.
        url: String,
        /// Why it is none.
        problem: String,
    },
    /// Neither `http` nor `https`.
    #[error(
        "`{url}` starts with `{scheme}:`; give an http:// or https:// address, the WebSocket address follows from it"
    )]
    Scheme {
        /// What was given.
        url: String,
        /// Its scheme.
        scheme: String,
    },
    /// A user name, password, query or fragment, none of which a server's address has. Not repeated here, as it may be a
    /// secret.
    #[error("the server's address has a {part}; leave it out, and pass a token as the token")]
    Extra {
        /// Which part is too much.
        part: &'static str,
    },
    /// The token cannot be sent in a header.
    #[error("the token has a character that no HTTP header may carry; is there a line break in it?")]
    Token,
    /// The process has no TLS implementation.
    #[error(
        "no TLS provider is installed in this process; call rustls::crypto::ring::default_provider().install_default() first"
    )]
    NoTlsProvider,
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Client(#[source] reqwest::Error),
}

impl Server {
    /// The server at `base`, an `http` or `https` URL that may have a path. `token` is sent as a bearer token; a server
    /// without tokens takes any, and none. Nothing is connected yet.
    ///
    /// # Errors
    /// [`ServerUrlError`] when the address or the token cannot be used, or when the process has no TLS provider.
    pub fn new(base: &str, token: Option<String>) -> Result<Server, ServerUrlError> {
        let mut url =
            Url::parse(base).map_err(|e| ServerUrlError::NotAUrl { url: base.to_owned(), problem: e.to_string() })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ServerUrlError::Scheme { url: base.to_owned(), scheme: url.scheme().to_owned() });
        }
        let extras = [
            (!url.username().is_empty() || url.password().is_some(), "user name or password"),
            (url.query().is_some(), "query"),
            (url.fragment().is_some(), "fragment"),
        ];
        if let Some((_, part)) = extras.into_iter().find(|(there, _)| *there) {
            return Err(ServerUrlError::Extra { part });
        }
        url.path_segments_mut().expect("an http URL has a path").pop_if_empty();
        let authorization = match &token {
            Some(token) => {
                let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ServerUrlError::Token)?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        // The HTTP client panics without one.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(ServerUrlError::NoTlsProvider);
        }
        let mut http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT);
        if is_loopback(&url) {
            // No proxy can reach this machine's own loopback, whatever the environment says.
            http = http.no_proxy();
        }
        let http = http.build().map_err(ServerUrlError::Client)?;
        Ok(Server { inner: Arc::new(Inner { base: url, token, authorization, http }) })
    }

    /// Follows a run's log over frame protocol v2, from its beginning unless told otherwise.
    pub fn follow(&self, run_id: impl Into<String>) -> Follow {
        Follow::new(self.clone(), run_id.into())
    }

    /// Follows a run as AG-UI events, from its beginning unless told otherwise.
    pub fn follow_agui(&self, run_id: impl Into<String>) -> FollowAgui {
        FollowAgui::new(self.clone(), run_id.into())
    }

    /// Follows all runs of a session over one connection, from the first run unless told otherwise.
    pub fn follow_session(&self, session_id: impl Into<String>) -> FollowSession {
        FollowSession::new(self.clone(), session_id.into())
    }

    /// The address of `path` under the server's own; each part is one path segment, escaped as needed.
    pub(crate) fn url(&self, path: &[&str]) -> Url {
        let mut url = self.inner.base.clone();
        url.path_segments_mut().expect("an http URL has a path").extend(path);
        url
    }

    /// As [`Server::url`], for a WebSocket.
    pub(crate) fn websocket_url(&self, path: &[&str]) -> Url {
        let mut url = self.url(path);
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_scheme(scheme).expect("http and ws are both schemes with a host");
        url
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.inner.token.as_deref()
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.inner.http.request(method, url);
        match &self.inner.authorization {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        }
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Shows the address, and never the token.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("base", &self.inner.base.as_str())
            .field("token", &self.inner.token.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn server(base: &str, token: Option<&str>) -> Result<Server, ServerUrlError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Server::new(base, token.map(str::to_owned))
    }

    #[test]
    fn addresses_keep_the_base_path_and_escape_the_run() {
        for (base, http, websocket) in [
            ("http://h:1", "http://h:1/v2/runs/a%2Fb/x", "ws://h:1/v2/runs/a%2Fb/x"),
            ("http://h:1/", "http://h:1/v2/runs/a%2Fb/x", "ws://h:1/v2/runs/a%2Fb/x"),
            ("https://h/base", "https://h/base/v2/runs/a%2Fb/x", "wss://h/base/v2/runs/a%2Fb/x"),
            ("https://h/base/", "https://h/base/v2/runs/a%2Fb/x", "wss://h/base/v2/runs/a%2Fb/x"),
        ] {
            let server = server(base, None).unwrap();
            let path = ["v2", "runs", "a/b", "x"];
            assert_eq!(server.url(&path).as_str(), http);
            assert_eq!(server.websocket_url(&path).as_str(), websocket);
        }
    }

    #[test]
    fn an_address_that_is_none_is_refused_with_what_to_do() {
        for (base, says) in [
            ("127.0.0.1:7171", "give one such as http://"),
            ("ws://h", "starts with `ws:`"),
            ("http://user:secret@h", "user name or password"),
            ("http://h?token=secret", "query"),
            ("http://h#x", "fragment"),
        ] {
            let error = server(base, None).unwrap_err().to_string();
            assert!(error.contains(says), "{base}: {error}");
            assert!(!error.contains("secret"), "{base}: {error}");
        }
    }

    #[test]
    fn loopback_is_told_from_other_hosts() {
        for (base, loopback) in [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://localhost.example", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(base).unwrap()), loopback, "{base}");
        }
    }

    #[test]
    fn a_token_with_a_line_break_is_refused() {
        assert!(matches!(server("http://h", Some("a\nb")), Err(ServerUrlError::Token)));
    }

    #[test]
    fn debug_output_hides_the_token() {
        let shown = format!("{:?}", server("http://h", Some("secret")).unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
