//! What a client warns of and goes on.

use super::{Example, ExampleAnswer, FRAMES, NEGOTIATION, RESPONSE, RuleEntry, streams};
use crate::proto::MEDIA_TYPE;
use crate::warning::WarningRule;

const UNRECOGNISED: &str = "basic/processing#what-a-consumer-does-with-unrecognised-material";
const VERSIONS: &str = "basic/versioning#version-negotiation";

/// A conforming answer in the default binding.
const IN_SSE: ExampleAnswer = ExampleAnswer {
    accept: "text/event-stream",
    status: 200,
    content_type: "text/event-stream",
    body: sse!(started!(), finished!()).as_bytes(),
    left_open: None,
};

/// A conforming answer in the binary binding.
const IN_PROTOBUF: ExampleAnswer = ExampleAnswer {
    accept: "text/event-stream, application/vnd.ag-ui.event+proto",
    status: 200,
    content_type: MEDIA_TYPE,
    body: FRAMES,
    left_open: None,
};

/// The entry of a rule.
pub(super) fn entry(rule: WarningRule) -> RuleEntry {
    match rule {
        WarningRule::UnknownEvent => streams(
            UNRECOGNISED,
            "An event is of a type that the protocol describes; any other is dropped.",
            run!(r#"{"type":"TOKEN_COUNT","tokens":12}"#),
            run!(r#"{"type":"CUSTOM","name":"com.example.token-count","value":12}"#),
        ),
        WarningRule::UnknownProperty => streams(
            UNRECOGNISED,
            "An event carries members that the protocol describes; any other is stripped.",
            run!(text!(START), r#"{"type":"TEXT_MESSAGE_END","messageId":"m1","tokens":12}"#),
            run!(text!(START), r#"{"type":"TEXT_MESSAGE_END","messageId":"m1","metadata":{"tokens":12}}"#),
        ),
        WarningRule::UnknownMember => streams(
            UNRECOGNISED,
            "A value from a closed set, or of a set of shapes, is one that the protocol describes; any other is stripped.",
            stream!(started!(), r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"paused"}}"#,),
            stream!(
                started!(),
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"cancelled"}}"#,
            ),
        ),
        WarningRule::NullMember => RuleEntry {
            page: "basic/versioning#what-a-producer-owes",
            statement: "A member without a value is left out; null is what clients from before 1.0 send.",
            example: Example::Input {
                bad: r#"{"threadId":"t1","runId":"r1","messages":[],"parentRunId":null}"#,
                good: r#"{"threadId":"t1","runId":"r1","messages":[]}"#,
            },
        },
        WarningRule::RetiredShape => streams(
            "basic/versioning#retired-shapes",
            "A shape that the protocol once described is sent as what replaced it.",
            stream!(started!(), r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":null}"#,),
            run!(),
        ),
        WarningRule::NewerVersion => streams(
            VERSIONS,
            "A producer of a newer version may send what a client of 1.0 has to drop.",
            stream!(r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.7"}"#, finished!(),),
            run!(),
        ),
        WarningRule::UninterpretableVersion => streams(
            VERSIONS,
            "A protocol version is declared as MAJOR.MINOR.",
            stream!(r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"latest"}"#, finished!(),),
            run!(),
        ),
        WarningRule::PatchNotApplied => streams(
            "basic/patterns/snapshots#when-a-patch-does-not-apply",
            "A delta applies to the value that the client holds; otherwise that value is kept.",
            run!(r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/phase","value":"done"}]}"#),
            run!(
                r#"{"type":"STATE_SNAPSHOT","snapshot":{"phase":"started"}}"#,
                r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/phase","value":"done"}]}"#,
            ),
        ),
        WarningRule::ActivityTarget => streams(
            "events/activity#activity_delta",
            "An activity event names an activity, and a delta one that a snapshot has made.",
            run!(r#"{"type":"ACTIVITY_DELTA","messageId":"m1","activityType":"search","patch":[]}"#),
            run!(
                r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"m1","activityType":"search","content":{}}"#,
                r#"{"type":"ACTIVITY_DELTA","messageId":"m1","activityType":"search","patch":[]}"#,
            ),
        ),
        WarningRule::EncryptedValueTarget => streams(
            "events/reasoning#error-handling",
            "An encrypted value names a message or a tool call that can hold it.",
            run!(r#"{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m1","encryptedValue":"b64"}"#),
            run!(
                reasoning!(START),
                reasoning!(END),
                r#"{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m1","encryptedValue":"b64"}"#,
            ),
        ),
        WarningRule::TextTarget => streams(
            "events/text-messages#events",
            "Streamed text names a message of its own kind whose content is text, and streamed arguments a call that is still held: a snapshot may have taken either away. Reasoning, an answer and a tool's result never share an id.",
            run!(
                r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"user","content":[{"type":"text","text":"Hi"}]}]}"#,
                text!(START),
                text!(END),
            ),
            run!(
                r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"assistant","content":"Hi"}]}"#,
                text!(START),
                text!(END),
            ),
        ),
        WarningRule::ToolCallParent => streams(
            "events/tool-calls#tool_call_start",
            "The parent message of a tool call is an assistant message.",
            run!(
                r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"user","content":"Hi"}]}"#,
                r#"{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"search","parentMessageId":"m1"}"#,
                call!(END),
            ),
            run!(
                r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"assistant","content":"Hi"}]}"#,
                r#"{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"search","parentMessageId":"m1"}"#,
                call!(END),
            ),
        ),
        WarningRule::RequestedRunMissing => RuleEntry {
            page: "basic/run-input#identity",
            statement: "The last run of a stream is the one that the input asked for, under the input's runId.",
            example: Example::Answer {
                input: r#"{"threadId":"t1","runId":"r2","messages":[],"protocolVersion":"1.0"}"#,
                bad: run!(),
                good: stream!(
                    started!(),
                    finished!(),
                    r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r2","protocolVersion":"1.0"}"#,
                    r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r2"}"#,
                ),
            },
        },
        WarningRule::RunIdReused => streams(
            "basic#identifiers",
            "A runId is one run's, and is not used for another run on the same thread.",
            stream!(started!(), finished!(), started!(), finished!()),
            stream!(
                started!(),
                finished!(),
                r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r2","protocolVersion":"1.0"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r2"}"#,
            ),
        ),
        WarningRule::EchoOfAnotherThread => streams(
            "basic/run-input#identity",
            "Every run on the stream carries the threadId of the input, and so does the input where it is echoed.",
            stream!(
                r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0","input":{"threadId":"t2","runId":"r1","messages":[]}}"#,
                finished!(),
            ),
            stream!(
                r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0","input":{"threadId":"t1","runId":"r1","messages":[]}}"#,
                finished!(),
            ),
        ),
        WarningRule::UnterminatedEvent => streams(
            RESPONSE,
            "An SSE event ends with a blank line, and a frame has the bytes that its header announces; what is cut off is discarded.",
            concat!("data: ", started!(), "\n\ndata: ", finished!(), "\n\ndata: {\"type\":\"RUN_ERROR\"\n"),
            concat!("data: ", started!(), "\n\ndata: ", finished!(), "\n\n"),
        ),
        WarningRule::ResponseStatus => answers(
            RESPONSE,
            "A run that starts is answered with status 200.",
            ExampleAnswer { status: 201, ..IN_SSE },
            IN_SSE,
        ),
        WarningRule::UnaskedProtobuf => answers(
            NEGOTIATION,
            "An answer is in protobuf only where the request's Accept admits that, and in Server-Sent Events otherwise.",
            ExampleAnswer { accept: "text/event-stream", ..IN_PROTOBUF },
            IN_PROTOBUF,
        ),
        WarningRule::ProtobufContentType => answers(
            NEGOTIATION,
            "The Content-Type of a protobuf answer is exactly the media type, without parameters.",
            ExampleAnswer { content_type: "application/vnd.ag-ui.event+proto; charset=utf-8", ..IN_PROTOBUF },
            IN_PROTOBUF,
        ),
        WarningRule::ResponseLeftOpen => answers(
            RESPONSE,
            "The response is closed after the terminal event of its last run.",
            ExampleAnswer { left_open: Some(60_000), ..IN_SSE },
            IN_SSE,
        ),
    }
}

const fn answers(page: &'static str, statement: &'static str, bad: ExampleAnswer, good: ExampleAnswer) -> RuleEntry {
    RuleEntry { page, statement, example: Example::Answered { bad, good } }
}
