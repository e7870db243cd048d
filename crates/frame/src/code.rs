//! The protocol's two closed sets of codes: those of `error` frames and those of a closing WebSocket.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The code of an `error` frame (seed, *Error frame codes*). A closed set of fifteen; clients decide by it and never
/// by the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The credentials were missing, wrong, or came too late.
    AuthFailed,
    /// A message of the peer was not what the protocol expects there.
    MalformedFrame,
    /// The peer asked for a protocol version that this side does not speak.
    ProtocolUnsupported,
    /// No such run, or not one that the caller may see.
    RunNotFound,
    /// A limit on tokens, cost or calls was reached.
    BudgetExceeded,
    /// A provider or this server asked to slow down.
    RateLimited,
    /// A model call failed.
    ModelError,
    /// A tool failed in a way that ended the run.
    ToolError,
    /// A guardrail refused the input or the output.
    GuardrailBlocked,
    /// The conversation no longer fits the model.
    ContextOverflow,
    /// Something took longer than its limit.
    Timeout,
    /// The run was stopped on purpose.
    Cancelled,
    /// A subprocess or sandbox that executes the agent failed.
    SandboxError,
    /// The connection to an upstream agent failed, or what came over it broke the protocol.
    ChannelError,
    /// This server failed.
    InternalError,
}

impl ErrorCode {
    /// All fifteen codes, in the seed's order.
    pub const ALL: [ErrorCode; 15] = [
        ErrorCode::AuthFailed,
        ErrorCode::MalformedFrame,
        ErrorCode::ProtocolUnsupported,
        ErrorCode::RunNotFound,
        ErrorCode::BudgetExceeded,
        ErrorCode::RateLimited,
        ErrorCode::ModelError,
        ErrorCode::ToolError,
        ErrorCode::GuardrailBlocked,
        ErrorCode::ContextOverflow,
        ErrorCode::Timeout,
        ErrorCode::Cancelled,
        ErrorCode::SandboxError,
        ErrorCode::ChannelError,
        ErrorCode::InternalError,
    ];

    /// The code as it is spelled on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::AuthFailed => "AUTH_FAILED",
            ErrorCode::MalformedFrame => "MALFORMED_FRAME",
            ErrorCode::ProtocolUnsupported => "PROTOCOL_UNSUPPORTED",
            ErrorCode::RunNotFound => "RUN_NOT_FOUND",
            ErrorCode::BudgetExceeded => "BUDGET_EXCEEDED",
            ErrorCode::RateLimited => "RATE_LIMITED",
            ErrorCode::ModelError => "MODEL_ERROR",
            ErrorCode::ToolError => "TOOL_ERROR",
            ErrorCode::GuardrailBlocked => "GUARDRAIL_BLOCKED",
            ErrorCode::ContextOverflow => "CONTEXT_OVERFLOW",
            ErrorCode::Timeout => "TIMEOUT",
            ErrorCode::Cancelled => "CANCELLED",
            ErrorCode::SandboxError => "SANDBOX_ERROR",
            ErrorCode::ChannelError => "CHANNEL_ERROR",
            ErrorCode::InternalError => "INTERNAL_ERROR",
        }
    }

    /// The code with this spelling, if it is one of the fifteen.
    pub fn from_wire(code: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.into_iter().find(|c| c.as_str() == code)
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ErrorCode, D::Error> {
        let code = String::deserialize(deserializer)?;
        let unknown = || de::Error::custom(format_args!("`{code}` is none of the protocol's fifteen error codes"));
        ErrorCode::from_wire(&code).ok_or_else(unknown)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the server closes a WebSocket (seed, *WebSocket close codes*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// 1000: the run ended and every frame was delivered.
    Normal,
    /// 4401: authentication failed, or the first message did not come within five seconds or was no valid first message.
    AuthFailed,
    /// 4404: the run does not exist or is out of the caller's scope; the two cannot be told apart.
    RunNotFound,
    /// 4409: the client asked for a protocol version other than 2.
    ProtocolUnsupported,
}

impl CloseCode {
    /// The number that goes into the close frame.
    pub fn as_u16(self) -> u16 {
        match self {
            CloseCode::Normal => 1000,
            CloseCode::AuthFailed => 4401,
            CloseCode::RunNotFound => 4404,
            CloseCode::ProtocolUnsupported => 4409,
        }
    }

    /// The close code with this number, if the protocol defines it.
    pub fn from_u16(code: u16) -> Option<CloseCode> {
        match code {
            1000 => Some(CloseCode::Normal),
            4401 => Some(CloseCode::AuthFailed),
            4404 => Some(CloseCode::RunNotFound),
            4409 => Some(CloseCode::ProtocolUnsupported),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn seed_error_codes_are_the_fifteen_and_spelled_as_in_the_seed() {
        let seed = "AUTH_FAILED, MALFORMED_FRAME, PROTOCOL_UNSUPPORTED, RUN_NOT_FOUND, BUDGET_EXCEEDED, RATE_LIMITED, \
                    MODEL_ERROR, TOOL_ERROR, GUARDRAIL_BLOCKED, CONTEXT_OVERFLOW, TIMEOUT, CANCELLED, SANDBOX_ERROR, \
                    CHANNEL_ERROR, INTERNAL_ERROR";
        let names: Vec<&str> = ErrorCode::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(names.join(", "), seed);
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(ErrorCode::from_wire(code.as_str()), Some(code));
        }
        assert_eq!(ErrorCode::from_wire("RUN_FAILED"), None);
    }

    #[test]
    fn seed_close_codes_have_their_numbers() {
        for number in [1000, 4401, 4404, 4409] {
            assert_eq!(CloseCode::from_u16(number).unwrap().as_u16(), number);
        }
        assert_eq!(CloseCode::from_u16(1006), None);
    }
}
