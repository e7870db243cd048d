//! What a producer would do well to change.

use super::{Example, RESPONSE, RuleEntry, streams};
use crate::check::advice::AdviceRule;

/// The entry of a rule.
pub(super) fn entry(rule: AdviceRule) -> RuleEntry {
    match rule {
        AdviceRule::LineEnds => streams(
            RESPONSE,
            "Lines of an event stream end with LF; this is the one form that every client reads.",
            concat!("data: ", started!(), "\r\n\r\ndata: ", finished!(), "\r\n\r\n"),
            sse!(started!(), finished!()),
        ),
        AdviceRule::OneBurst => RuleEntry {
            page: "events/text-messages#user-interaction-model",
            statement: "Events arrive as they are made: a response that is held back until it is whole shows nothing for \
                        a long time and then everything.",
            example: Example::Timed {
                bad: &[(4000, sse!(started!(), text!(START), text!(CONTENT), text!(END), finished!()))],
                good: &[
                    (40, sse!(started!(), text!(START))),
                    (2000, sse!(text!(CONTENT))),
                    (4000, sse!(text!(END), finished!())),
                ],
            },
        },
        AdviceRule::LongSilence => RuleEntry {
            page: RESPONSE,
            statement: "A stream that has nothing to say for a while sends a comment, so that no proxy takes the \
                        connection for dead.",
            example: Example::Timed {
                bad: &[(40, sse!(started!())), (55_000, sse!(finished!()))],
                good: &[
                    (40, sse!(started!())),
                    (15_000, ": still here\n\n"),
                    (30_000, ": still here\n\n"),
                    (45_000, ": still here\n\n"),
                    (55_000, sse!(finished!())),
                ],
            },
        },
        AdviceRule::VersionMissing => streams(
            "basic/versioning#version-negotiation",
            "RUN_STARTED declares the protocol version that the producer speaks; without one it passes for a producer \
             from before 1.0.",
            stream!(r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#, finished!()),
            run!(),
        ),
        AdviceRule::UnprefixedName => streams(
            "events/passthrough#custom",
            "The name of a CUSTOM event begins with a prefix of its own; names without one are the protocol's.",
            run!(r#"{"type":"CUSTOM","name":"cart-updated","value":3}"#),
            run!(r#"{"type":"CUSTOM","name":"com.example.cart-updated","value":3}"#),
        ),
        AdviceRule::RawWithoutSource => streams(
            "events/passthrough#raw",
            "A RAW event names the provider or the framework that it came from.",
            run!(text!(START), r#"{"type":"RAW","event":{"ping":1}}"#, text!(END)),
            run!(text!(START), r#"{"type":"RAW","event":{"ping":1},"source":"openai"}"#, text!(END)),
        ),
        AdviceRule::RawAlone => streams(
            "events/passthrough#raw",
            "RAW events come beside the events that say the same in the protocol's words, never instead of them.",
            run!(r#"{"type":"RAW","event":{"text":"Hello"},"source":"openai"}"#),
            run!(
                text!(START),
                r#"{"type":"RAW","event":{"text":"Hello"},"source":"openai"}"#,
                text!(CONTENT),
                text!(END),
            ),
        ),
    }
}
