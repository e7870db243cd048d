//! What a provider says when it does not answer, as one of the protocol's codes and a truthful `retryable`.

use std::time::Duration;

use runwire_engine::told_retry_after;
use runwire_frame::ErrorCode;
use serde_json::Value;

use crate::call::CallError;

/// How much of a provider's explanation is repeated.
const EXPLANATION_BYTES: usize = 1024;

/// An explanation as providers write it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Refusal {
    /// The HTTP status, or what it would have been in a stream that had begun.
    pub status: u16,
    /// `type`, `code` and `status` of the error, whichever are there.
    words: Vec<String>,
    /// Its text.
    message: String,
    /// From `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// What the body of an answer with that status says.
    pub fn of_body(status: u16, body: &str, retry_after: Option<Duration>) -> Refusal {
        let parsed = serde_json::from_str::<Value>(body).ok();
        // Gemini answers a streaming request with a list.
        let parsed = parsed.map(|value| match value {
            Value::Array(list) => list.into_iter().next().unwrap_or_default(),
            value => value,
        });
        match parsed.as_ref().and_then(|value| value.get("error")) {
            Some(error) => Refusal { retry_after, ..Refusal::of_error(status, error) },
            None => Refusal { status, words: Vec::new(), message: cut(body.trim()), retry_after },
        }
    }

    /// What an `error` in the middle of a stream says.
    pub fn of_stream(error: &Value) -> Refusal {
        let mut refusal = Refusal::of_error(0, error);
        let number = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        refusal.status = number.filter(|code| (400..600).contains(code)).unwrap_or_else(|| {
            let says = |word: &str| refusal.says(word);
            match () {
                () if says("overloaded") => 529,
                () if says("rate_limit") || says("insufficient_quota") || says("RESOURCE_EXHAUSTED") => 429,
                () if says("authentication") || says("invalid_api_key") || says("UNAUTHENTICATED") => 401,
                () if says("permission") || says("PERMISSION_DENIED") => 403,
                () if says("not_found") => 404,
                () if says("timeout") => 504,
                () if says("invalid_request") || says("INVALID_ARGUMENT") || says("context_length") => 400,
                () => 500,
            }
        });
        refusal
    }

    fn of_error(status: u16, error: &Value) -> Refusal {
        let word = |key: &str| match &error[key] {
            Value::String(word) => Some(word.clone()),
            _ => None,
        };
        let message = error["message"].as_str().or(error.as_str()).unwrap_or_default();
        Refusal {
            status,
            words: ["type", "code", "status"].into_iter().filter_map(word).collect(),
            message: cut(message.trim()),
            retry_after: None,
        }
    }

    fn says(&self, word: &str) -> bool {
        self.words.iter().any(|own| own.contains(word))
    }

    /// Whether the conversation does not fit. Most providers say so in words only.
    fn is_overflow(&self) -> bool {
        const SENTENCES: [&str; 7] = [
            "maximum context length",
            "prompt is too long",
            "exceeds the maximum number of tokens",
            "context window",
            "context size",
            "context length",
            "input is too long",
        ];
        let message = self.message.to_lowercase();
        self.status == 413
            || self.says("context_length_exceeded")
            || self.says("exceed_context_size")
            || (self.status == 400 && SENTENCES.iter().any(|sentence| message.contains(sentence)))
    }

    /// The error of the call. `key` says where the key comes from, and `secret` is what must not be repeated.
    pub fn into_error(self, provider: &str, key: &str, secret: Option<&str>) -> CallError {
        let overflow = self.is_overflow();
        let filtered = self.says("content_filter") || self.says("content_policy");
        let quota = self.says("insufficient_quota") || self.says("billing");
        let status = self.status;
        let said = if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
        // Some providers repeat what they were sent.
        let said = match secret.filter(|secret| !secret.is_empty()) {
            Some(secret) => said.replace(secret, "[key]"),
            None => said,
        };
        let when = told_retry_after(self.retry_after);
        let error = match status {
            // Here they repeat parts of the key, so nothing of it is.
            401 | 403 => CallError::lasting(
                ErrorCode::AuthFailed,
                format!("{provider} did not accept the key (HTTP {status}); {key}"),
            ),
            _ if overflow => CallError::lasting(
                ErrorCode::ContextOverflow,
                format!("the conversation does not fit the model of {provider}{said}"),
            ),
            _ if filtered => CallError::lasting(
                ErrorCode::GuardrailBlocked,
                format!("{provider} refused the request for its content{said}"),
            ),
            402 => CallError::lasting(ErrorCode::BudgetExceeded, format!("the account at {provider} is used up{said}")),
            429 if quota => {
                CallError::lasting(ErrorCode::BudgetExceeded, format!("the account at {provider} is used up{said}"))
            }
            429 => CallError::passing(
                ErrorCode::RateLimited,
                format!("{provider} limits how much is asked of it{when}{said}"),
            ),
            404 => CallError::lasting(
                ErrorCode::ModelError,
                format!("{provider} has no such model, or nothing at `base_url` (HTTP 404){said}"),
            ),
            408 | 504 => CallError::passing(
                ErrorCode::Timeout,
                format!("{provider} took longer than it allows itself (HTTP {status}){said}"),
            ),
            409 | 425 | 500.. => {
                CallError::passing(ErrorCode::ModelError, format!("{provider} failed (HTTP {status}){when}{said}"))
            }
            _ => CallError::lasting(
                ErrorCode::ModelError,
                format!("{provider} refused the request (HTTP {status}){said}"),
            ),
        };
        CallError { retry_after: self.retry_after, ..error }
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(EXPLANATION_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn error(status: u16, body: &str) -> CallError {
        Refusal::of_body(status, body, None).into_error("p", "check it", Some("sk-secret"))
    }

    #[test]
    fn each_refusal_has_its_code_and_says_truthfully_whether_to_try_again() {
        let openai = |code: &str, message: &str| format!(r#"{{"error":{{"message":"{message}","code":"{code}"}}}}"#);
        for (status, body, code, retryable) in [
            (401, openai("invalid_api_key", "Incorrect"), ErrorCode::AuthFailed, false),
            (403, "no".to_owned(), ErrorCode::AuthFailed, false),
            (404, openai("model_not_found", "no such model"), ErrorCode::ModelError, false),
            (400, openai("bad", "temperature out of range"), ErrorCode::ModelError, false),
            (400, openai("context_length_exceeded", "too long"), ErrorCode::ContextOverflow, false),
            (400, openai("content_filter", "refused"), ErrorCode::GuardrailBlocked, false),
            (429, openai("rate_limit_exceeded", "slow down"), ErrorCode::RateLimited, true),
            (429, openai("insufficient_quota", "pay"), ErrorCode::BudgetExceeded, false),
            (500, "oops".to_owned(), ErrorCode::ModelError, true),
            (503, String::new(), ErrorCode::ModelError, true),
            (504, String::new(), ErrorCode::Timeout, true),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#.to_owned(),
                ErrorCode::ContextOverflow,
                false,
            ),
            (413, r#"{"error":{"type":"request_too_large"}}"#.to_owned(), ErrorCode::ContextOverflow, false),
            (529, r#"{"error":{"type":"overloaded_error"}}"#.to_owned(), ErrorCode::ModelError, true),
            (
                400,
                r#"[{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"The input token count exceeds the maximum number of tokens allowed"}}]"#
                    .to_owned(),
                ErrorCode::ContextOverflow,
                false,
            ),
        ] {
            let error = error(status, &body);
            assert_eq!((error.code, error.retryable), (code, retryable), "{status} {body}: {error}");
        }
    }

    #[test]
    fn an_error_in_the_middle_of_a_stream_is_told_apart_by_its_words() {
        let of = |error: Value| Refusal::of_stream(&error).into_error("p", "check it", None);
        let overloaded = of(serde_json::json!({ "type": "overloaded_error", "message": "Overloaded" }));
        assert_eq!((overloaded.code, overloaded.retryable), (ErrorCode::ModelError, true));
        let limited = of(serde_json::json!({ "code": 429, "status": "RESOURCE_EXHAUSTED" }));
        assert_eq!((limited.code, limited.retryable), (ErrorCode::RateLimited, true));
        let unknown = of(serde_json::json!({ "message": "the worker died" }));
        assert_eq!((unknown.code, unknown.retryable), (ErrorCode::ModelError, true));
        assert!(unknown.message.contains("the worker died"));
    }

    #[test]
    fn a_key_is_in_no_error() {
        for status in [400, 401, 403, 500] {
            let error = error(status, r#"{"error":{"message":"Incorrect API key provided: sk-secret"}}"#);
            assert!(!error.message.contains("sk-secret"), "{error}");
        }
    }

    #[test]
    fn how_long_to_wait_is_told_and_kept() {
        for status in [429, 503, 529] {
            let error = Refusal::of_body(status, "no", Some(Duration::from_secs(7))).into_error("p", "k", None);
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
            assert!(error.message.contains("and asks to wait 7 s: no"), "{error}");
            let failure = runwire_bridge::Failure::from(error);
            assert_eq!((failure.retryable, failure.retry_after), (true, Some(Duration::from_secs(7))));
        }
    }
}
