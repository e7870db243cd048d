//! What an upstream agent calls its failures, in the fifteen codes. AG-UI leaves `code` open (events/lifecycle); what agents
//! write there is mostly their model provider's own word, or the name of one of the fifteen in another spelling.

use runwire_frame::ErrorCode;

/// Words that mean one of the fifteen, in lower case with `_` between. Whole words only: what merely contains one of them
/// may mean anything.
const WORDS: [(&str, ErrorCode); 32] = [
    ("401", ErrorCode::AuthFailed),
    ("authentication_error", ErrorCode::AuthFailed),
    ("invalid_api_key", ErrorCode::AuthFailed),
    ("unauthenticated", ErrorCode::AuthFailed),
    ("unauthorized", ErrorCode::AuthFailed),
    ("billing_error", ErrorCode::BudgetExceeded),
    ("insufficient_quota", ErrorCode::BudgetExceeded),
    ("usage_limit_exceeded", ErrorCode::BudgetExceeded),
    ("429", ErrorCode::RateLimited),
    ("overloaded", ErrorCode::RateLimited),
    ("overloaded_error", ErrorCode::RateLimited),
    ("rate_limit", ErrorCode::RateLimited),
    ("rate_limit_error", ErrorCode::RateLimited),
    ("rate_limit_exceeded", ErrorCode::RateLimited),
    ("resource_exhausted", ErrorCode::RateLimited),
    ("too_many_requests", ErrorCode::RateLimited),
    ("api_error", ErrorCode::ModelError),
    ("llm_error", ErrorCode::ModelError),
    ("model_not_found", ErrorCode::ModelError),
    ("tool_execution_error", ErrorCode::ToolError),
    ("content_filter", ErrorCode::GuardrailBlocked),
    ("content_policy_violation", ErrorCode::GuardrailBlocked),
    ("safety", ErrorCode::GuardrailBlocked),
    ("context_length_exceeded", ErrorCode::ContextOverflow),
    ("context_window_exceeded", ErrorCode::ContextOverflow),
    ("408", ErrorCode::Timeout),
    ("504", ErrorCode::Timeout),
    ("deadline_exceeded", ErrorCode::Timeout),
    ("request_timeout", ErrorCode::Timeout),
    ("timed_out", ErrorCode::Timeout),
    ("timeout_error", ErrorCode::Timeout),
    ("connection_error", ErrorCode::ChannelError),
];

/// The code that a failure has here. `INTERNAL_ERROR` for one that says nothing that is known.
pub(crate) fn foreign_code(code: Option<&str>) -> ErrorCode {
    let Some(code) = code else { return ErrorCode::InternalError };
    if let Some(same) = ErrorCode::from_wire(code) {
        return same;
    }
    let word: String =
        code.trim().chars().map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() }).collect();
    let respelled = ErrorCode::from_wire(&word.to_ascii_uppercase());
    let known = || WORDS.iter().find(|(known, _)| *known == word).map(|(_, code)| *code);
    respelled.or_else(known).unwrap_or(ErrorCode::InternalError)
}

/// Whether a failure with this code may be gone when the same is asked again later, whoever had it.
pub fn may_pass(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::RateLimited | ErrorCode::Timeout | ErrorCode::ChannelError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_known_in_other_spellings_and_by_providers_words_and_not_by_parts_of_them() {
        for (said, code) in [
            ("timeout", ErrorCode::Timeout),
            ("Rate-Limited", ErrorCode::RateLimited),
            ("rate limit exceeded", ErrorCode::RateLimited),
            (" context_length_exceeded ", ErrorCode::ContextOverflow),
            ("run_failed", ErrorCode::InternalError),
            ("my_timeout_was_not_it", ErrorCode::InternalError),
            ("", ErrorCode::InternalError),
        ] {
            assert_eq!(foreign_code(Some(said)), code, "{said}");
        }
        assert_eq!(foreign_code(None), ErrorCode::InternalError);
    }

    #[test]
    fn each_word_is_there_once_and_written_as_it_is_looked_for() {
        for (i, (word, _)) in WORDS.iter().enumerate() {
            assert!(!WORDS[..i].iter().any(|(earlier, _)| earlier == word), "{word}");
            assert!(word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{word}");
        }
    }
}
