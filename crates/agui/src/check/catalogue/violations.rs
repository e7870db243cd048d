//! The rules whose breach rejects a stream.

use super::{CHUNKED, Example, FRAMES, FRAMING, RESPONSE, RuleEntry, streams};
use crate::violation::Rule;

const STREAMING: &str = "basic/patterns/streaming#open-content-close";
const REASONING_MESSAGES: &str = "events/reasoning#reasoning-messages";
const SPANS: &str = "events/reasoning#spans-reasoning_start-and-reasoning_end";
const LIFECYCLE: &str = "events/subagents#lifecycle";

/// The entry of a rule.
pub(super) fn entry(rule: Rule) -> RuleEntry {
    match rule {
        Rule::MalformedJson => streams(
            RESPONSE,
            "The data of an SSE event is exactly one event as a JSON object.",
            stream!(started!(), r#"{"type":"RUN_FINISHED","threadId":"t1""#),
            run!(),
        ),
        Rule::MalformedFrame => RuleEntry {
            page: FRAMING,
            statement: "A protobuf frame holds exactly the bytes of one event.",
            example: Example::Frames {
                // RUN_STARTED, and two bytes that are no message.
                bad: b"\0\0\0\x13b\x11\n\x02\x08\x0b\x12\x02t1\x1a\x02r12\x031.0\0\0\0\x02\xff\xff",
                good: FRAMES,
            },
        },
        Rule::MalformedValue => streams(
            "basic/processing#the-rule",
            "A member that the schema describes holds what the schema describes.",
            run!(text!(START), r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":7}"#, text!(END)),
            run!(text!(START), text!(CONTENT), text!(END)),
        ),
        Rule::FirstEvent => streams(
            "events/lifecycle#the-run",
            "A stream begins with RUN_STARTED, or with RUN_ERROR when the run could not begin.",
            stream!(text!(START), text!(END)),
            stream!(r#"{"type":"RUN_ERROR","message":"The agent cannot be reached."}"#),
        ),
        Rule::EventAfterFinish => streams(
            "events/lifecycle#after-a-run-closes",
            "After RUN_FINISHED comes nothing but RUN_STARTED of a further run, or RUN_ERROR.",
            stream!(started!(), finished!(), r#"{"type":"STATE_SNAPSHOT","snapshot":{}}"#),
            stream!(started!(), r#"{"type":"STATE_SNAPSHOT","snapshot":{}}"#, finished!()),
        ),
        Rule::EventAfterError => streams(
            "events/lifecycle#after-a-run-closes",
            "After RUN_ERROR comes nothing but RUN_STARTED of a further run.",
            stream!(started!(), r#"{"type":"RUN_ERROR","message":"The model is down."}"#, finished!()),
            stream!(started!(), r#"{"type":"RUN_ERROR","message":"The model is down."}"#),
        ),
        Rule::NestedRunStarted => streams(
            "events/lifecycle#several-runs-on-one-stream",
            "A run is closed before the next one on the stream opens.",
            stream!(
                started!(),
                r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r2","protocolVersion":"1.0"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r2"}"#,
            ),
            stream!(
                started!(),
                finished!(),
                r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r2","protocolVersion":"1.0"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r2"}"#,
            ),
        ),
        Rule::RunIdMismatch => streams(
            "basic/run-input#identity",
            "RUN_FINISHED carries the runId of the RUN_STARTED that it closes.",
            stream!(started!(), r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r2"}"#),
            run!(),
        ),
        Rule::ThreadIdMismatch => streams(
            "basic/run-input#identity",
            "RUN_FINISHED carries the threadId of the RUN_STARTED that it closes.",
            stream!(started!(), r#"{"type":"RUN_FINISHED","threadId":"t2","runId":"r1"}"#),
            run!(),
        ),
        Rule::ForeignThread => streams(
            "basic/run-input#identity",
            "Every run of a stream is on the thread that the input names.",
            stream!(
                started!(),
                finished!(),
                r#"{"type":"RUN_STARTED","threadId":"t2","runId":"r2","protocolVersion":"1.0"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t2","runId":"r2"}"#,
            ),
            stream!(
                started!(),
                finished!(),
                r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r2","protocolVersion":"1.0"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r2"}"#,
            ),
        ),
        Rule::DuplicateInterruptId => streams(
            "basic/patterns/interrupt-resume#interrupting",
            "The id of an interrupt is unique within its run, because an answer names it.",
            stream!(
                started!(),
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"approval"},{"id":"i1","reason":"choice"}]}}"#,
            ),
            stream!(
                started!(),
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"approval"},{"id":"i2","reason":"choice"}]}}"#,
            ),
        ),
        Rule::NoInterrupts => RuleEntry {
            page: "basic/patterns/interrupt-resume#interrupting",
            statement: "An interrupt outcome carries at least one interrupt, which says what the run waits for.",
            example: Example::Verified {
                bad: stream!(
                    started!(),
                    r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"interrupt","interrupts":[]}}"#,
                ),
                good: stream!(
                    started!(),
                    r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"approval"}]}}"#,
                ),
            },
        },
        Rule::PendingToolCalls => streams(
            "events/tool-calls#frontend-tools",
            "A list of pending tool calls names exactly the calls that the run started and did not answer.",
            stream!(
                started!(),
                call!(START),
                call!(END),
                r#"{"type":"TOOL_CALL_RESULT","messageId":"m2","toolCallId":"c1","content":"3 found"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"success","pendingToolCallIds":["c1"]}}"#,
            ),
            stream!(
                started!(),
                call!(START),
                call!(END),
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"success","pendingToolCallIds":["c1"]}}"#,
            ),
        ),
        Rule::StepOpenAtFinish => streams(
            "events/lifecycle#steps",
            "Every step is closed with STEP_FINISHED before the run finishes.",
            run!(step!(START)),
            run!(step!(START), step!(END)),
        ),
        Rule::TextMessageOpenAtFinish => streams(
            "basic/patterns/streaming#open-content-close",
            "Every text message is closed with TEXT_MESSAGE_END before the run finishes.",
            run!(text!(START), text!(CONTENT)),
            run!(text!(START), text!(CONTENT), text!(END)),
        ),
        Rule::ToolCallOpenAtFinish => streams(
            "basic/patterns/streaming#open-content-close",
            "Every tool call is closed with TOOL_CALL_END before the run finishes.",
            run!(call!(START), call!(ARGS)),
            run!(call!(START), call!(ARGS), call!(END)),
        ),
        Rule::ReasoningMessageOpenAtFinish => streams(
            "events/reasoning#reasoning-messages",
            "Every reasoning message is closed with REASONING_MESSAGE_END before the run finishes.",
            run!(reasoning!(START), reasoning!(CONTENT)),
            run!(reasoning!(START), reasoning!(CONTENT), reasoning!(END)),
        ),
        Rule::ReasoningSpanOpenAtFinish => streams(
            "events/reasoning#spans-reasoning_start-and-reasoning_end",
            "Every reasoning span is closed with REASONING_END before the run finishes.",
            run!(span!(START)),
            run!(span!(START), span!(END)),
        ),
        Rule::SubagentOpenAtFinish => streams(
            "events/subagents#termination",
            "Every announced subagent is closed with SUBAGENT_FINISHED or SUBAGENT_ERROR before the run finishes.",
            run!(subagent!(START)),
            run!(subagent!(START), subagent!(END)),
        ),
        Rule::StepAlreadyOpen => streams(
            "events/lifecycle#steps",
            "A step whose name is open is not opened again by the same owner.",
            run!(step!(START), step!(START), step!(END)),
            run!(step!(START), step!(END), step!(START), step!(END)),
        ),
        Rule::StepNotOpen => streams(
            "events/lifecycle#steps",
            "A step is closed only while it is open, and by the owner who opened it.",
            run!(step!(END)),
            run!(step!(START), step!(END)),
        ),
        Rule::TextMessageAlreadyOpen => streams(
            STREAMING,
            "A text message that is open is not opened again.",
            run!(text!(START), text!(START), text!(END)),
            run!(text!(START), text!(END), text!(START), text!(END)),
        ),
        Rule::TextMessageNotOpen => streams(
            STREAMING,
            "A text message is continued and closed only while it is open.",
            run!(text!(START), text!(END), text!(CONTENT)),
            run!(text!(START), text!(CONTENT), text!(END)),
        ),
        Rule::ToolCallAlreadyOpen => streams(
            STREAMING,
            "A tool call that is open is not opened again.",
            run!(call!(START), call!(START), call!(END)),
            run!(call!(START), call!(END), call!(START), call!(END)),
        ),
        Rule::ToolCallNotOpen => streams(
            STREAMING,
            "A tool call is continued and closed only while it is open.",
            run!(call!(ARGS)),
            run!(call!(START), call!(ARGS), call!(END)),
        ),
        Rule::ReasoningMessageAlreadyOpen => streams(
            REASONING_MESSAGES,
            "A reasoning message that is open is not opened again.",
            run!(reasoning!(START), reasoning!(START), reasoning!(END)),
            run!(reasoning!(START), reasoning!(END), reasoning!(START), reasoning!(END)),
        ),
        Rule::ReasoningMessageNotOpen => streams(
            REASONING_MESSAGES,
            "A reasoning message is continued and closed only while it is open; a span of the same id is no message.",
            run!(reasoning!(CONTENT)),
            run!(reasoning!(START), reasoning!(CONTENT), reasoning!(END)),
        ),
        Rule::ReasoningSpanAlreadyOpen => streams(
            SPANS,
            "A reasoning span that is open is not opened again.",
            run!(span!(START), span!(START), span!(END)),
            run!(span!(START), span!(END), span!(START), span!(END)),
        ),
        Rule::ReasoningSpanNotOpen => streams(
            SPANS,
            "A reasoning span is closed only while it is open.",
            run!(span!(END)),
            run!(span!(START), span!(END)),
        ),
        Rule::SubagentAlreadyActive => streams(
            LIFECYCLE,
            "A subagent invocation that is active is not announced again.",
            run!(subagent!(START), subagent!(START), subagent!(END)),
            run!(subagent!(START), subagent!(END)),
        ),
        Rule::SubagentReused => streams(
            LIFECYCLE,
            "An id stands for one invocation: when that has ended, the same run does not announce the id again.",
            run!(subagent!(START), subagent!(END), subagent!(START), subagent!(END)),
            run!(
                subagent!(START),
                subagent!(END),
                r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a2","name":"researcher"}"#,
                r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"a2"}"#,
            ),
        ),
        Rule::SubagentNotActive => streams(
            LIFECYCLE,
            "Only a subagent invocation that was announced and is active can be closed.",
            run!(subagent!(END)),
            run!(subagent!(START), subagent!(END)),
        ),
        Rule::SubagentParentUnknown => streams(
            "events/subagents#nesting-and-parallelism",
            "The parent that a subagent names was announced in the same run.",
            run!(
                r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a2","name":"reader","parentSubagentRunId":"a1"}"#,
                r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"a2"}"#,
            ),
            run!(
                subagent!(START),
                r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a2","name":"reader","parentSubagentRunId":"a1"}"#,
                r#"{"type":"SUBAGENT_FINISHED","subagentRunId":"a2"}"#,
                subagent!(END),
            ),
        ),
        Rule::SubagentAnnouncedLate => streams(
            LIFECYCLE,
            "A subagent that is announced is announced before any event is attributed to it.",
            run!(r#"{"type":"STATE_SNAPSHOT","snapshot":{},"subagentRunId":"a1"}"#, subagent!(START), subagent!(END),),
            run!(subagent!(START), r#"{"type":"STATE_SNAPSHOT","snapshot":{},"subagentRunId":"a1"}"#, subagent!(END),),
        ),
        Rule::AttributionMismatch => streams(
            "events/subagents#ownership",
            "What continues a message, a tool call or an activity names the owner who opened it, or none.",
            run!(
                r#"{"type":"TEXT_MESSAGE_START","messageId":"m1","subagentRunId":"a1"}"#,
                r#"{"type":"TEXT_MESSAGE_END","messageId":"m1","subagentRunId":"a2"}"#,
            ),
            run!(r#"{"type":"TEXT_MESSAGE_START","messageId":"m1","subagentRunId":"a1"}"#, text!(END)),
        ),
        Rule::FirstChunk => streams(
            "basic/patterns/streaming#the-first-chunk",
            "The first chunk of an item carries what opens it: messageId, or toolCallId and toolCallName.",
            run!(r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"Hello"}"#),
            run!(r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","delta":"Hello"}"#),
        ),
        Rule::ChunkConflict => streams(
            "basic/patterns/streaming#continuation-chunks",
            "A later chunk repeats what the first one established, also by leaving it out, or says nothing about it.",
            run!(
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","delta":"Hello"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","role":"user","delta":" again"}"#,
            ),
            run!(
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","delta":"Hello"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","role":"assistant","delta":" again"}"#,
            ),
        ),
        Rule::AmbiguousChunk => streams(
            "basic/patterns/streaming#closing-a-chunk-stream",
            "A chunk that carries neither an id nor a subagentRunId has exactly one item that it can continue.",
            run!(
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","subagentRunId":"a1","delta":"Hello"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","subagentRunId":"a2","delta":"Hello"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","delta":" again"}"#,
            ),
            run!(
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","subagentRunId":"a1","delta":"Hello"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","subagentRunId":"a2","delta":"Hello"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","subagentRunId":"a2","delta":" again"}"#,
            ),
        ),
        Rule::UnexpandedChunk => RuleEntry {
            page: CHUNKED,
            statement: "Chunks are expanded to start, content and end before the order of events is verified.",
            example: Example::Verified {
                bad: run!(r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","delta":"Hello"}"#),
                good: run!(text!(START), text!(CONTENT), text!(END)),
            },
        },
    }
}
