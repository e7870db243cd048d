//! HTTP towards others: upstream agents, model APIs, tools, guardrail services. Where the rules for all of them are.

use std::net::IpAddr;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{ClientBuilder, Url};

/// Requests to that address cannot be made with these options.
#[derive(Debug, thiserror::Error)]
pub enum HttpSetupError {
    /// The address is none.
    #[error("`{url}` is no http or https address: {problem}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A header cannot be sent. What it holds is not repeated.
    #[error("header `{name}` cannot be sent: {problem}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The process has not chosen who does its TLS, and the HTTP client cannot be made without.
    #[error(
        "this process has installed no TLS provider; call rustls::crypto::ring::default_provider().install_default() \
         when it starts"
    )]
    NoTlsProvider,
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(#[from] reqwest::Error),
}

/// An address by http or https.
///
/// # Errors
/// [`HttpSetupError::Url`].
pub fn http_address(url: &str) -> Result<Url, HttpSetupError> {
    let wrong = |problem: String| HttpSetupError::Url { url: url.to_owned(), problem };
    let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    match parsed.scheme() {
        "http" | "https" => Ok(parsed),
        scheme => Err(wrong(format!("its scheme is `{scheme}`"))),
    }
}

/// A client for requests to that address with these headers, to be given its timeouts.
///
/// It follows no redirect, and goes through no proxy to this machine itself.
///
/// # Errors
/// [`HttpSetupError::Header`], [`HttpSetupError::NoTlsProvider`].
pub fn http_client(url: &Url, headers: &[(String, String)]) -> Result<ClientBuilder, HttpSetupError> {
    let headers = header_map(headers)?;
    // The HTTP client would panic over it.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(HttpSetupError::NoTlsProvider);
    }
    let client = reqwest::Client::builder()
        .default_headers(headers)
        // A redirect would carry the conversation, and headers that are secret, to another host.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("runwire/", env!("CARGO_PKG_VERSION")));
    // No proxy can reach this machine's own loopback, whatever the environment says.
    Ok(if is_loopback(url) { client.no_proxy() } else { client })
}

/// Headers as they are sent, several of one name in their order. All count as secret, because the configuration does not
/// say which are.
///
/// # Errors
/// [`HttpSetupError::Header`].
pub fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpSetupError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let error = |problem: String| HttpSetupError::Header { name: name.clone(), problem };
        let key = HeaderName::try_from(name).map_err(|e| error(e.to_string()))?;
        let mut value = HeaderValue::try_from(value).map_err(|e| error(e.to_string()))?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}
