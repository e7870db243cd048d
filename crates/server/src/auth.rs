//! Bearer tokens, and what their holders may see.

use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use runwire_store::{RunRecord, SessionRecord, Tombstone};
use subtle::ConstantTimeEq as _;

use crate::app::App;
use crate::problem::Problem;

/// Who makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// `None` on a server without tokens.
    name: Option<String>,
    all_runs: bool,
    push: bool,
}

impl Principal {
    /// Everybody, on a server without tokens.
    pub(crate) fn anybody() -> Principal {
        Principal { name: None, all_runs: true, push: true }
    }

    /// The name that runs created by this principal carry.
    #[cfg(test)]
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the principal may see and stop this run: its own, or all.
    pub(crate) fn may_see(&self, record: &RunRecord) -> bool {
        self.all_runs || record.principal == self.name
    }

    /// The same of a run that was removed.
    pub(crate) fn may_see_removed(&self, tombstone: &Tombstone) -> bool {
        self.all_runs || tombstone.principal == self.name
    }

    /// Whether the principal may remove runs: who sees all of them may.
    pub(crate) fn may_remove(&self) -> bool {
        self.all_runs
    }

    /// Whether the principal may execute runs that it may see: claim them, and push their events.
    pub(crate) fn may_push(&self) -> bool {
        self.push
    }

    /// Whether the principal may see this session: one that it began, or all.
    pub(crate) fn may_see_session(&self, session: &SessionRecord) -> bool {
        self.all_runs || session.principal == self.name
    }

    /// The principal whose runs a list is limited to.
    pub(crate) fn list_filter(&self) -> Option<String> {
        if self.all_runs { None } else { self.name.clone() }
    }

    /// Whose the runs are that this principal creates, and whose a session has to be for it to go on with: seeing all runs
    /// is not speaking in everybody's name. `None` on a server without tokens.
    pub(crate) fn owner(&self) -> Option<String> {
        self.name.clone()
    }
}

struct Token {
    secret: String,
    principal: Principal,
}

/// The tokens that the server accepts. Secrets are never shown.
#[derive(Default)]
pub struct Tokens {
    tokens: Vec<Token>,
}

/// What a token's holder may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// See every run, rather than only those created with the same name.
    pub all_runs: bool,
    /// Execute those that it sees, from outside: claim them, and push their events.
    pub push: bool,
}

/// A token cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// An empty token would let everybody in.
    #[error("the token of `{0}` is empty")]
    Empty(String),
    /// A header could not carry it.
    #[error("the token of `{0}` has characters other than visible ASCII")]
    NotVisible(String),
    /// Two principals with one token cannot be told apart.
    #[error("the token of `{0}` is also that of `{1}`")]
    Repeated(String, String),
}

impl Tokens {
    /// Adds a token. `all_runs` lets its holder see every run rather than only those created with the same name.
    ///
    /// # Errors
    /// When the token is empty, is no visible ASCII, or is there already.
    pub fn add(&mut self, name: &str, secret: &str, all_runs: bool) -> Result<(), TokenError> {
        self.add_with(name, secret, Rights { all_runs, ..Rights::default() })
    }

    /// Adds a token whose holder may do this.
    ///
    /// # Errors
    /// As [`Tokens::add`].
    pub fn add_with(&mut self, name: &str, secret: &str, rights: Rights) -> Result<(), TokenError> {
        if secret.is_empty() {
            return Err(TokenError::Empty(name.to_owned()));
        }
        if !secret.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(TokenError::NotVisible(name.to_owned()));
        }
        if let Some(other) = self.tokens.iter().find(|t| t.secret == secret) {
            let other = other.principal.name.clone().unwrap_or_default();
            return Err(TokenError::Repeated(name.to_owned(), other));
        }
        let Rights { all_runs, push } = rights;
        let principal = Principal { name: Some(name.to_owned()), all_runs, push };
        self.tokens.push(Token { secret: secret.to_owned(), principal });
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whose token this is. Looks at every token, and at every byte of one of the same length.
    pub(crate) fn principal(&self, secret: &str) -> Option<Principal> {
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.secret.as_bytes().ct_eq(secret.as_bytes())) {
                found = Some(token.principal.clone());
            }
        }
        found
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tokens.iter().map(|t| &t.principal.name);
        f.debug_list().entries(names).finish()
    }
}

/// The token of an `Authorization: Bearer …` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl App {
    /// Who presents this token. A server without tokens takes any, also none.
    pub(crate) fn authenticate(&self, token: Option<&str>) -> Option<Principal> {
        match &self.inner.tokens {
            None => Some(Principal::anybody()),
            Some(tokens) => tokens.principal(token?),
        }
    }
}

impl FromRequestParts<App> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Principal, Problem> {
        app.authenticate(bearer(&parts.headers)).ok_or_else(Problem::unauthorized)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_name_their_holder_and_refuse_what_cannot_work() {
        let mut tokens = Tokens::default();
        tokens.add("alice", "s3cret", false).unwrap();
        tokens.add("ops", "0ther", true).unwrap();
        assert_eq!(tokens.principal("s3cret").unwrap().name(), Some("alice"));
        assert!(tokens.principal("s3cre").is_none());
        assert!(tokens.principal("").is_none());
        assert_eq!(tokens.add("x", "", false), Err(TokenError::Empty("x".into())));
        assert_eq!(tokens.add("x", "a b", false), Err(TokenError::NotVisible("x".into())));
        assert_eq!(tokens.add("x", "0ther", false), Err(TokenError::Repeated("x".into(), "ops".into())));
        assert!(!format!("{tokens:?}").contains("s3cret"));
    }
}
