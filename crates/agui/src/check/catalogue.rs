//! Each rule in a sentence, with the page of the specification that it is from, a stream that breaks it and one that does
//! not.
//!
//! The tables below match on the rules, so that a rule without an entry does not compile.

use crate::check::finding::CheckRule;

/// Where AG-UI 1.0 is published; a page's name follows.
const SPECIFICATION: &str = "https://docs.ag-ui.com/spec/1.0/";
/// How Server-Sent Events are answered with.
pub(crate) const RESPONSE: &str = "basic/transports/http-sse#response";
/// How protobuf frames follow each other.
pub(crate) const FRAMING: &str = "basic/transports/http-protobuf#framing";
/// Items that are streamed in chunks, and how that goes with the other spelling.
pub(crate) const CHUNKED: &str = "basic/patterns/streaming#the-chunked-form";
/// When an answer is in which binding.
pub(crate) const NEGOTIATION: &str = "basic/transports/http-protobuf#negotiation";
/// Streams that stop short, in whatever form.
pub(crate) const TRUNCATION: &str = "basic/transports#truncation";

/// The address of a page of the specification.
pub(crate) fn url(page: &str) -> String {
    format!("{SPECIFICATION}{page}")
}

/// What is known about a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleEntry {
    /// The page of the specification, and the section after a `#`.
    pub page: &'static str,
    /// The rule in one sentence.
    pub statement: &'static str,
    /// The smallest streams on either side of it.
    pub example: Example,
}

impl RuleEntry {
    pub(crate) fn of(rule: CheckRule) -> Self {
        match rule {
            CheckRule::Violation(rule) => violations::entry(rule),
            CheckRule::Truncated => truncated(),
            CheckRule::Warning(rule) => warnings::entry(rule),
            CheckRule::Advice(rule) => advice::entry(rule),
        }
    }

    /// The address of the page.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.page)
    }
}

/// Two streams, one of which breaks a rule and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Example {
    /// As they are recorded.
    Stream {
        /// Breaks the rule.
        bad: &'static str,
        /// Keeps it.
        good: &'static str,
    },
    /// Answers to this run input.
    Answer {
        /// The run input.
        input: &'static str,
        /// Breaks the rule.
        bad: &'static str,
        /// Keeps it.
        good: &'static str,
    },
    /// Run inputs, rather than streams.
    Input {
        /// Breaks the rule.
        bad: &'static str,
        /// Keeps it.
        good: &'static str,
    },
    /// Events, one a line, that go straight to the verifier. A check never finds this rule broken, because it rejects or
    /// expands such events before; the rule is for programs that use the verifier by itself.
    Verified {
        /// Breaks the rule.
        bad: &'static str,
        /// Keeps it.
        good: &'static str,
    },
    /// Protobuf frames.
    Frames {
        /// Breaks the rule.
        bad: &'static [u8],
        /// Keeps it.
        good: &'static [u8],
    },
    /// As answers over HTTP.
    Answered {
        /// Breaks the rule.
        bad: ExampleAnswer,
        /// Keeps it.
        good: ExampleAnswer,
    },
    /// As they arrive: bytes, and the milliseconds since the request at which they came.
    Timed {
        /// Breaks the rule.
        bad: &'static [(u64, &'static str)],
        /// Keeps it.
        good: &'static [(u64, &'static str)],
    },
}

/// An answer over HTTP that is one side of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExampleAnswer {
    /// The `Accept` of the request.
    pub accept: &'static str,
    /// The status of the response.
    pub status: u16,
    /// Its `Content-Type`.
    pub content_type: &'static str,
    /// Its body: the stream of a run.
    pub body: &'static [u8],
    /// For how many milliseconds it stays open behind its body before nobody waits any longer; `None` when it is closed.
    pub left_open: Option<u64>,
}

/// A stream from its events, each a line of JSON.
macro_rules! stream {
    ($($event:expr),* $(,)?) => { concat!($($event, "\n"),*) };
}

/// The same as Server-Sent Events.
macro_rules! sse {
    ($($event:expr),* $(,)?) => { concat!($("data: ", $event, "\n\n"),*) };
}

/// The stream of one run, around the events within it.
macro_rules! run {
    ($($event:expr),* $(,)?) => { stream!(started!(), $($event,)* finished!()) };
}

macro_rules! started {
    () => {
        r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0"}"#
    };
}

macro_rules! finished {
    () => {
        r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#
    };
}

macro_rules! text {
    (START) => {
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m1"}"#
    };
    (CONTENT) => {
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"Hello"}"#
    };
    (END) => {
        r#"{"type":"TEXT_MESSAGE_END","messageId":"m1"}"#
    };
}

macro_rules! call {
    (START) => {
        r#"{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"search"}"#
    };
    (ARGS) => {
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{}"}"#
    };
    (END) => {
        r#"{"type":"TOOL_CALL_END","toolCallId":"c1"}"#
    };
}

macro_rules! reasoning {
    (START) => {
        r#"{"type":"REASONING_MESSAGE_START","messageId":"m1","role":"reasoning"}"#
    };
    (CONTENT) => {
        r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"m1","delta":"Hm"}"#
    };
    (END) => {
        r#"{"type":"REASONING_MESSAGE_END","messageId":"m1"}"#
    };
}

macro_rules! span {
    (START) => {
        r#"{"type":"REASONING_START","messageId":"s1"}"#
    };
    (END) => {
        r#"{"type":"REASONING_END","messageId":"s1"}"#
    };
}

macro_rules! step {
    (START) => {
        r#"{"type":"STEP_STARTED","stepName":"plan"}"#
    };
    (END) => {
        r#"{"type":"STEP_FINISHED","stepName":"plan"}"#
    };
}

macro_rules! subagent {
    (START) => {
        r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a1","name":"researcher"}"#
    };
    (END) => {
        r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"a1"}"#
    };
}

/// `RUN_STARTED` and `RUN_FINISHED` as protobuf frames.
const FRAMES: &[u8] =
    b"\0\0\0\x13b\x11\n\x02\x08\x0b\x12\x02t1\x1a\x02r12\x031.0\0\0\0\x0ej\x0c\n\x02\x08\x0c\x12\x02t1\x1a\x02r1";

mod advice;
mod violations;
mod warnings;

const fn streams(page: &'static str, statement: &'static str, bad: &'static str, good: &'static str) -> RuleEntry {
    RuleEntry { page, statement, example: Example::Stream { bad, good } }
}

fn truncated() -> RuleEntry {
    streams(
        TRUNCATION,
        "A stream goes on until each of its runs has ended with RUN_FINISHED or RUN_ERROR.",
        stream!(started!(), text!(START), text!(CONTENT)),
        run!(text!(START), text!(CONTENT), text!(END)),
    )
}
