//! What an exchange was asked, where the agent that answers it echoes something else.
//!
//! An agent may echo part of its input, such as the messages that are new, or more than it was given. Its echo is what a
//! client is told, as the agent said it. What goes on from the exchange (another attempt, the answer to an interrupt, the
//! history of the session) goes on from what was asked.

use serde_json::{Map, Value};

/// Under `agui` of `run.start` and `resume`: the `RunAgentInput` that was asked, where `input` says something else.
pub const ASKED_INPUT: &str = "askedInput";

/// The input that the exchange was asked, of the `agui` members of its first frame; `None` when the log has none.
pub fn asked_input(agui: &Map<String, Value>) -> Option<&Value> {
    agui.get(ASKED_INPUT).or_else(|| agui.get("input"))
}
