//! The header `Idempotency-Key`: by which a request is known when it is sent again.

use axum::http::{HeaderMap, HeaderName};
use runwire_engine::IdempotencyKey;

use crate::problem::Problem;

/// The header.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The key that a request is sent with, if it is sent with one.
///
/// It is a string of structured fields (RFC 8941), in quotes. Most clients leave the quotes out, so that is taken for the
/// same key, unless it holds what means something else there.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refused("it is there more than once"));
    }
    let value = value.to_str().map_err(|_| refused("it has other characters than those of ASCII"))?.trim();
    let key = match value.strip_prefix('"') {
        Some(quoted) => unquoted(quoted)?,
        None if value.contains(['"', '\\', ',', ';']) => {
            return Err(refused(
                "a key with a quotation mark, a backslash, a comma or a semicolon has to be in quotes",
            ));
        }
        None => value.to_owned(),
    };
    IdempotencyKey::new(key).map(Some).map_err(|error| refused(&error.to_string()))
}

/// What stands in the quotes, of which the first was taken off (RFC 8941, 4.2.5).
fn unquoted(quoted: &str) -> Result<String, Problem> {
    let mut key = String::new();
    let mut rest = quoted.chars();
    loop {
        match rest.next() {
            Some('"') if rest.as_str().is_empty() => return Ok(key),
            Some('"') => return Err(refused("something stands behind its quotes")),
            Some('\\') => match rest.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => {
                    return Err(refused(
                        "a backslash in it stands before something else than a quotation mark or another",
                    ));
                }
            },
            Some(character) => key.push(character),
            None => return Err(refused("its quotes are not closed")),
        }
    }
}

fn refused(why: &str) -> Problem {
    Problem::bad_request(format!("the header `Idempotency-Key`: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::http::HeaderValue;

    use super::*;

    fn read(value: &[u8]) -> Result<Option<IdempotencyKey>, Problem> {
        idempotency_key(&HeaderMap::from_iter([(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap())]))
    }

    #[test]
    fn a_key_is_the_same_with_quotes_and_without() {
        for (value, key) in [
            (r#""8e03978e-40d5""#, "8e03978e-40d5"),
            ("8e03978e-40d5", "8e03978e-40d5"),
            ("  spaced ", "spaced"),
            ("a/b+c=:@", "a/b+c=:@"),
            (r#""a,b;c""#, "a,b;c"),
            (r#""\"\\""#, r#""\"#),
        ] {
            assert_eq!(read(value.as_bytes()).unwrap().unwrap().as_str(), key, "{value}");
        }
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = "k".repeat(256);
        for value in
            ["", " ", "\"\"", "\"a", "a\"", "\"a\"b", "\"a\";p=1", "\"a\\n\"", "a,b", "a;b", "a b", "\"a b\"", &long]
        {
            assert!(read(value.as_bytes()).is_err(), "{value:?}");
        }
        assert!(read("é".as_bytes()).is_err());
        let mut twice = HeaderMap::new();
        twice.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
        twice.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
        assert!(idempotency_key(&twice).is_err());
    }
}
