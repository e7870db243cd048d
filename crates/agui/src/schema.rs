//! The shape of every object of AG-UI 1.0, as data.
//!
//! The types say the same to the compiler. This says it to [`enforce`](crate::enforce), which must know of every member
//! whether it is described, required or open in order to strip what a newer version added and to refuse what is wrong. A
//! test holds the two together.

use crate::event::EventType;

/// What a member may hold.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Any JSON value.
    Any,
    /// Any JSON value but `null`.
    NotNull,
    /// A string.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number from `.0` to `.1`.
    Integer(i64, i64),
    /// An object that is open by key.
    Open,
    /// A JSON Pointer (RFC 6901).
    Pointer,
    /// This one string; any other is malformed.
    Const(&'static str),
    /// One of these strings; any other is unrecognised.
    OneOf(&'static [&'static str]),
    /// A closed object.
    Object(&'static Shape),
    /// A list, and what its elements are.
    List(&'static Kind),
    /// A list with at least one element.
    NonEmptyList(&'static Kind),
    /// An object told apart by a member: the member, and the shape behind each of its values.
    Union(&'static str, &'static [(&'static str, &'static Shape)]),
    /// A string, or a list of these.
    TextOrList(&'static Kind),
}

/// One described member.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) kind: Kind,
}

/// One described object.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The members, in groups so that shared ones are written once.
    pub(crate) groups: &'static [&'static [Field]],
    /// Whether members that are not described are data, to be kept.
    pub(crate) open: bool,
}

impl Shape {
    /// Every described member.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.groups.iter().copied().flatten()
    }

    /// The described member of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.name == name)
    }
}

const fn required(name: &'static str, kind: Kind) -> Field {
    Field { name, required: true, kind }
}

const fn optional(name: &'static str, kind: Kind) -> Field {
    Field { name, required: false, kind }
}

const fn closed(groups: &'static [&'static [Field]]) -> Shape {
    Shape { groups, open: false }
}

/// The largest whole number that survives every JSON implementation.
pub(crate) const SAFE_INTEGER: i64 = 9_007_199_254_740_991;

const TIMESTAMP: Kind = Kind::Integer(-SAFE_INTEGER, SAFE_INTEGER);
const COUNT: Kind = Kind::Integer(0, SAFE_INTEGER);

static TYPE: [Field; 1] = [required("type", Kind::Text)];
static BASE: [Field; 4] = [
    required("type", Kind::Text),
    optional("timestamp", TIMESTAMP),
    optional("rawEvent", Kind::NotNull),
    optional("metadata", Kind::Open),
];
static ATTRIBUTABLE: [Field; 1] = [optional("subagentRunId", Kind::Text)];
static SUBAGENT: [Field; 1] = [required("subagentRunId", Kind::Text)];

static TEXT_ROLES: [&str; 4] = ["developer", "system", "assistant", "user"];

static MESSAGE_ID: [Field; 1] = [required("messageId", Kind::Text)];
static TOOL_CALL_ID: [Field; 1] = [required("toolCallId", Kind::Text)];
static STEP_NAME: [Field; 1] = [required("stepName", Kind::Text)];
static DELTA: [Field; 1] = [required("delta", Kind::Text)];
static OPTIONAL_DELTA: [Field; 1] = [optional("delta", Kind::Text)];
static OPTIONAL_MESSAGE_ID: [Field; 1] = [optional("messageId", Kind::Text)];
static SPEAKER: [Field; 2] = [optional("role", Kind::OneOf(&TEXT_ROLES)), optional("name", Kind::Text)];
static THREAD_AND_RUN: [Field; 2] = [required("threadId", Kind::Text), required("runId", Kind::Text)];
static FAILURE: [Field; 2] = [required("message", Kind::Text), optional("code", Kind::Text)];
static USAGE: [Field; 1] = [optional("usage", Kind::List(&Kind::Object(&TOKEN_USAGE)))];

static TEXT_MESSAGE_START: Shape = closed(&[&BASE, &ATTRIBUTABLE, &MESSAGE_ID, &SPEAKER]);
static MESSAGE_CONTENT: Shape = closed(&[&BASE, &ATTRIBUTABLE, &MESSAGE_ID, &DELTA]);
static MESSAGE_ONLY: Shape = closed(&[&BASE, &ATTRIBUTABLE, &MESSAGE_ID]);
static TEXT_MESSAGE_CHUNK: Shape = closed(&[&BASE, &ATTRIBUTABLE, &OPTIONAL_MESSAGE_ID, &SPEAKER, &OPTIONAL_DELTA]);
static TOOL_CALL_START: Shape = closed(&[
    &BASE,
    &ATTRIBUTABLE,
    &TOOL_CALL_ID,
    &[required("toolCallName", Kind::Text), optional("parentMessageId", Kind::Text)],
]);
static TOOL_CALL_ARGS: Shape = closed(&[&BASE, &ATTRIBUTABLE, &TOOL_CALL_ID, &DELTA]);
static TOOL_CALL_END: Shape = closed(&[&BASE, &ATTRIBUTABLE, &TOOL_CALL_ID]);
static TOOL_CALL_CHUNK: Shape = closed(&[
    &BASE,
    &ATTRIBUTABLE,
    &OPTIONAL_DELTA,
    &[
        optional("toolCallId", Kind::Text),
        optional("toolCallName", Kind::Text),
        optional("parentMessageId", Kind::Text),
    ],
]);
static TOOL_CALL_RESULT: Shape = closed(&[
    &BASE,
    &ATTRIBUTABLE,
    &MESSAGE_ID,
    &TOOL_CALL_ID,
    &[required("content", CONTENT), optional("role", Kind::Const("tool"))],
]);
static STATE_SNAPSHOT: Shape = closed(&[&BASE, &ATTRIBUTABLE, &[required("snapshot", Kind::Any)]]);
static STATE_DELTA: Shape = closed(&[&BASE, &ATTRIBUTABLE, &[required("delta", JSON_PATCH)]]);
static MESSAGES_SNAPSHOT: Shape = closed(&[&BASE, &[required("messages", Kind::List(&MESSAGE))]]);
static ACTIVITY_SNAPSHOT: Shape = closed(&[
    &BASE,
    &ATTRIBUTABLE,
    &MESSAGE_ID,
    &[required("activityType", Kind::Text), required("content", Kind::Open), optional("replace", Kind::Bool)],
]);
static ACTIVITY_DELTA: Shape = closed(&[
    &BASE,
    &ATTRIBUTABLE,
    &MESSAGE_ID,
    &[required("activityType", Kind::Text), required("patch", JSON_PATCH)],
]);
static RAW: Shape = closed(&[&BASE, &ATTRIBUTABLE, &[required("event", Kind::Any), optional("source", Kind::Text)]]);
static CUSTOM: Shape = closed(&[&BASE, &ATTRIBUTABLE, &[required("name", Kind::Text), required("value", Kind::Any)]]);
static RUN_STARTED: Shape = closed(&[
    &BASE,
    &THREAD_AND_RUN,
    &[
        optional("protocolVersion", Kind::Text),
        optional("parentRunId", Kind::Text),
        optional("input", Kind::Object(&RUN_AGENT_INPUT)),
    ],
]);
static RUN_FINISHED: Shape = closed(&[
    &BASE,
    &THREAD_AND_RUN,
    &USAGE,
    &[optional("result", Kind::NotNull), optional("outcome", Kind::Union("type", &RUN_OUTCOMES))],
]);
static RUN_ERROR: Shape = closed(&[&BASE, &FAILURE, &USAGE]);
static STEP: Shape = closed(&[&BASE, &ATTRIBUTABLE, &STEP_NAME]);
static REASONING_MESSAGE_START: Shape =
    closed(&[&BASE, &ATTRIBUTABLE, &MESSAGE_ID, &[required("role", Kind::Const("reasoning"))]]);
static REASONING_MESSAGE_CHUNK: Shape = closed(&[&BASE, &ATTRIBUTABLE, &OPTIONAL_MESSAGE_ID, &OPTIONAL_DELTA]);
static REASONING_ENCRYPTED_VALUE: Shape = closed(&[
    &BASE,
    &ATTRIBUTABLE,
    &[
        required("subtype", Kind::OneOf(&["tool-call", "message"])),
        required("entityId", Kind::Text),
        required("encryptedValue", Kind::Text),
    ],
]);
static SUBAGENT_STARTED: Shape = closed(&[
    &BASE,
    &SUBAGENT,
    &[
        required("name", Kind::Text),
        optional("description", Kind::Text),
        optional("parentSubagentRunId", Kind::Text),
        optional("parentToolCallId", Kind::Text),
        optional("parentMessageId", Kind::Text),
    ],
]);
static SUBAGENT_FINISHED: Shape = closed(&[
    &BASE,
    &SUBAGENT,
    &[optional("result", Kind::NotNull), optional("outcome", Kind::Union("type", &SUBAGENT_OUTCOMES))],
]);
static SUBAGENT_ERROR: Shape = closed(&[&BASE, &SUBAGENT, &FAILURE]);

/// The shape of each event.
pub(crate) fn event_shape(event_type: EventType) -> &'static Shape {
    match event_type {
        EventType::TextMessageStart => &TEXT_MESSAGE_START,
        EventType::TextMessageContent | EventType::ReasoningMessageContent => &MESSAGE_CONTENT,
        EventType::TextMessageEnd
        | EventType::ReasoningStart
        | EventType::ReasoningMessageEnd
        | EventType::ReasoningEnd => &MESSAGE_ONLY,
        EventType::TextMessageChunk => &TEXT_MESSAGE_CHUNK,
        EventType::ToolCallStart => &TOOL_CALL_START,
        EventType::ToolCallArgs => &TOOL_CALL_ARGS,
        EventType::ToolCallEnd => &TOOL_CALL_END,
        EventType::ToolCallChunk => &TOOL_CALL_CHUNK,
        EventType::ToolCallResult => &TOOL_CALL_RESULT,
        EventType::StateSnapshot => &STATE_SNAPSHOT,
        EventType::StateDelta => &STATE_DELTA,
        EventType::MessagesSnapshot => &MESSAGES_SNAPSHOT,
        EventType::ActivitySnapshot => &ACTIVITY_SNAPSHOT,
        EventType::ActivityDelta => &ACTIVITY_DELTA,
        EventType::Raw => &RAW,
        EventType::Custom => &CUSTOM,
        EventType::RunStarted => &RUN_STARTED,
        EventType::RunFinished => &RUN_FINISHED,
        EventType::RunError => &RUN_ERROR,
        EventType::StepStarted | EventType::StepFinished => &STEP,
        EventType::ReasoningMessageStart => &REASONING_MESSAGE_START,
        EventType::ReasoningMessageChunk => &REASONING_MESSAGE_CHUNK,
        EventType::ReasoningEncryptedValue => &REASONING_ENCRYPTED_VALUE,
        EventType::SubagentStarted => &SUBAGENT_STARTED,
        EventType::SubagentFinished => &SUBAGENT_FINISHED,
        EventType::SubagentError => &SUBAGENT_ERROR,
    }
}

static RUN_OUTCOMES: [(&str, &Shape); 3] = [
    ("success", &closed(&[&TYPE, &[optional("pendingToolCallIds", Kind::List(&Kind::Text))]])),
    ("interrupt", &closed(&[&TYPE, &[required("interrupts", Kind::NonEmptyList(&Kind::Object(&INTERRUPT)))]])),
    ("cancelled", &closed(&[&TYPE])),
];
static SUBAGENT_OUTCOMES: [(&str, &Shape); 2] = [
    ("success", &closed(&[&TYPE])),
    ("suspended", &closed(&[&TYPE, &[optional("interruptIds", Kind::List(&Kind::Text))]])),
];
static INTERRUPT: Shape = closed(&[
    &ATTRIBUTABLE,
    &[
        required("id", Kind::Text),
        required("reason", Kind::Text),
        optional("message", Kind::Text),
        optional("toolCallId", Kind::Text),
        optional("responseSchema", Kind::Open),
        optional("expiresAt", Kind::Text),
        optional("metadata", Kind::Open),
    ],
]);
static RESUME_ENTRY: Shape = closed(&[&[
    required("interruptId", Kind::Text),
    required("status", Kind::OneOf(&["resolved", "cancelled"])),
    optional("payload", Kind::NotNull),
    optional("metadata", Kind::Open),
]]);
static TOKEN_USAGE: Shape = closed(&[&[
    optional("provider", Kind::Text),
    optional("model", Kind::Text),
    optional("inputTokens", COUNT),
    optional("outputTokens", COUNT),
    optional("totalTokens", COUNT),
    optional("reasoningTokens", COUNT),
    optional("cachedInputTokens", COUNT),
    optional("cacheWriteInputTokens", COUNT),
]]);

static MESSAGE_COMMON: [Field; 4] = [
    required("id", Kind::Text),
    required("role", Kind::Text),
    optional("metadata", Kind::Open),
    optional("subagentRunId", Kind::Text),
];
static ENCRYPTED: [Field; 1] = [optional("encryptedValue", Kind::Text)];
static NAMED: [Field; 1] = [optional("name", Kind::Text)];
static TEXT_CONTENT: [Field; 1] = [required("content", Kind::Text)];

/// Any message of a conversation.
pub(crate) const MESSAGE: Kind = Kind::Union("role", &MESSAGES);
static MESSAGES: [(&str, &Shape); 7] = [
    ("developer", &closed(&[&MESSAGE_COMMON, &ENCRYPTED, &NAMED, &TEXT_CONTENT])),
    ("system", &closed(&[&MESSAGE_COMMON, &ENCRYPTED, &NAMED, &TEXT_CONTENT])),
    (
        "assistant",
        &closed(&[
            &MESSAGE_COMMON,
            &ENCRYPTED,
            &NAMED,
            &[optional("content", Kind::Text), optional("toolCalls", Kind::List(&Kind::Object(&TOOL_CALL)))],
        ]),
    ),
    ("user", &closed(&[&MESSAGE_COMMON, &ENCRYPTED, &NAMED, &[required("content", CONTENT)]])),
    (
        "tool",
        &closed(&[
            &MESSAGE_COMMON,
            &ENCRYPTED,
            &TOOL_CALL_ID,
            &[required("content", CONTENT), optional("error", Kind::Text)],
        ]),
    ),
    ("activity", &closed(&[&MESSAGE_COMMON, &[required("activityType", Kind::Text), required("content", Kind::Open)]])),
    ("reasoning", &closed(&[&MESSAGE_COMMON, &ENCRYPTED, &TEXT_CONTENT])),
];
static TOOL_CALL: Shape = closed(&[
    &ENCRYPTED,
    &[
        required("id", Kind::Text),
        required("type", Kind::Const("function")),
        required("function", Kind::Object(&FUNCTION_CALL)),
        optional("metadata", Kind::Open),
    ],
]);
static FUNCTION_CALL: Shape = closed(&[&[required("name", Kind::Text), required("arguments", Kind::Text)]]);

const CONTENT: Kind = Kind::TextOrList(&Kind::Union("type", &CONTENT_PARTS));
static PART: [Field; 3] =
    [required("type", Kind::Text), optional("id", Kind::Text), optional("metadata", Kind::NotNull)];
static MEDIA: Shape = closed(&[&PART, &[required("source", Kind::Union("type", &SOURCES))]]);
static CONTENT_PARTS: [(&str, &Shape); 5] = [
    ("text", &closed(&[&PART, &[required("text", Kind::Text)]])),
    ("image", &MEDIA),
    ("audio", &MEDIA),
    ("video", &MEDIA),
    ("document", &MEDIA),
];
static SOURCE: [Field; 2] = [required("type", Kind::Text), required("value", Kind::Text)];
static SOURCES: [(&str, &Shape); 3] = [
    ("data", &closed(&[&SOURCE, &[required("mimeType", Kind::Text)]])),
    ("url", &closed(&[&SOURCE, &[optional("mimeType", Kind::Text)]])),
    ("file", &closed(&[&SOURCE, &[optional("provider", Kind::Text), optional("mimeType", Kind::Text)]])),
];

/// A request to run an agent.
pub(crate) static RUN_AGENT_INPUT: Shape = closed(&[
    &THREAD_AND_RUN,
    &[
        required("messages", Kind::List(&MESSAGE)),
        optional("protocolVersion", Kind::Text),
        optional("parentRunId", Kind::Text),
        optional("state", Kind::NotNull),
        optional("tools", Kind::List(&Kind::Object(&TOOL))),
        optional("context", Kind::List(&Kind::Object(&CONTEXT))),
        optional("forwardedProps", Kind::NotNull),
        optional("resume", Kind::List(&Kind::Object(&RESUME_ENTRY))),
    ],
]);
static TOOL: Shape = closed(&[&[
    required("name", Kind::Text),
    required("description", Kind::Text),
    optional("parameters", Kind::NotNull),
    optional("metadata", Kind::Open),
]]);
static CONTEXT: Shape = closed(&[&[required("description", Kind::Text), required("value", Kind::Text)]]);

static SUBAGENT_INFO: Shape = closed(&[&[required("name", Kind::Text), optional("description", Kind::Text)]]);
static IDENTITY: Shape = closed(&[&[
    optional("name", Kind::Text),
    optional("type", Kind::Text),
    optional("description", Kind::Text),
    optional("version", Kind::Text),
    optional("provider", Kind::Text),
    optional("documentationUrl", Kind::Text),
    optional("metadata", Kind::Open),
]]);
static TRANSPORT: Shape = closed(&[&[
    optional("streaming", Kind::Bool),
    optional("websocket", Kind::Bool),
    optional("httpBinary", Kind::Bool),
    optional("pushNotifications", Kind::Bool),
    optional("resumable", Kind::Bool),
]]);
static TOOLS: Shape = closed(&[&[
    optional("supported", Kind::Bool),
    optional("items", Kind::List(&Kind::Object(&TOOL))),
    optional("parallelCalls", Kind::Bool),
    optional("clientProvided", Kind::Bool),
]]);
static OUTPUT: Shape =
    closed(&[&[optional("structuredOutput", Kind::Bool), optional("supportedMimeTypes", Kind::List(&Kind::Text))]]);
static STATE: Shape = closed(&[&[
    optional("snapshots", Kind::Bool),
    optional("deltas", Kind::Bool),
    optional("memory", Kind::Bool),
    optional("persistentState", Kind::Bool),
]]);
static MULTI_AGENT: Shape = closed(&[&[
    optional("supported", Kind::Bool),
    optional("delegation", Kind::Bool),
    optional("handoffs", Kind::Bool),
    optional("subagents", Kind::List(&Kind::Object(&SUBAGENT_INFO))),
]]);
static REASONING: Shape = closed(&[&[
    optional("supported", Kind::Bool),
    optional("streaming", Kind::Bool),
    optional("encrypted", Kind::Bool),
]]);
static MULTIMODAL_INPUT: Shape = closed(&[&[
    optional("image", Kind::Bool),
    optional("audio", Kind::Bool),
    optional("video", Kind::Bool),
    optional("pdf", Kind::Bool),
    optional("file", Kind::Bool),
]]);
static MULTIMODAL_OUTPUT: Shape = closed(&[&[optional("image", Kind::Bool), optional("audio", Kind::Bool)]]);
static MULTIMODAL: Shape = closed(&[&[
    optional("input", Kind::Object(&MULTIMODAL_INPUT)),
    optional("output", Kind::Object(&MULTIMODAL_OUTPUT)),
]]);
static EXECUTION: Shape = closed(&[&[
    optional("codeExecution", Kind::Bool),
    optional("sandboxed", Kind::Bool),
    optional("maxIterations", COUNT),
    optional("maxExecutionTime", COUNT),
]]);
static HUMAN_IN_THE_LOOP: Shape = closed(&[&[
    optional("supported", Kind::Bool),
    optional("approvals", Kind::Bool),
    optional("interventions", Kind::Bool),
    optional("feedback", Kind::Bool),
    optional("interrupts", Kind::Bool),
    optional("approveWithEdits", Kind::Bool),
]]);

/// What an agent declares about itself.
pub(crate) static AGENT_CAPABILITIES: Shape = closed(&[&[
    optional("identity", Kind::Object(&IDENTITY)),
    optional("transport", Kind::Object(&TRANSPORT)),
    optional("tools", Kind::Object(&TOOLS)),
    optional("output", Kind::Object(&OUTPUT)),
    optional("state", Kind::Object(&STATE)),
    optional("multiAgent", Kind::Object(&MULTI_AGENT)),
    optional("reasoning", Kind::Object(&REASONING)),
    optional("multimodal", Kind::Object(&MULTIMODAL)),
    optional("execution", Kind::Object(&EXECUTION)),
    optional("humanInTheLoop", Kind::Object(&HUMAN_IN_THE_LOOP)),
    optional("custom", Kind::Open),
]]);

/// An RFC 6902 document. Its operations are open: members that an operation does not define are data.
pub(crate) const JSON_PATCH: Kind = Kind::List(&Kind::Union("op", &OPERATIONS));
static OP: [Field; 2] = [required("op", Kind::Text), required("path", Kind::Pointer)];
static WITH_VALUE: Shape = Shape { groups: &[&OP, &[required("value", Kind::Any)]], open: true };
static WITH_FROM: Shape = Shape { groups: &[&OP, &[required("from", Kind::Pointer)]], open: true };
static WITH_PATH: Shape = Shape { groups: &[&OP], open: true };
static OPERATIONS: [(&str, &Shape); 6] = [
    ("add", &WITH_VALUE),
    ("remove", &WITH_PATH),
    ("replace", &WITH_VALUE),
    ("move", &WITH_FROM),
    ("copy", &WITH_FROM),
    ("test", &WITH_VALUE),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;
    use std::str::FromStr;

    use serde_json::Value;

    use super::*;

    /// Samples hold every member that the types have, and round-trip through them; a member described here and absent
    /// there is one that the types would lose.
    #[test]
    fn the_described_members_of_every_event_are_those_of_its_type() {
        let samples: Vec<Value> = serde_json::from_str(include_str!("../tests/samples/events.json")).unwrap();
        for pair in samples {
            let event_type = EventType::from_str(pair["full"]["type"].as_str().unwrap()).unwrap();
            let shape = event_shape(event_type);
            let members =
                |sample: &Value| -> BTreeSet<String> { sample.as_object().unwrap().keys().cloned().collect() };
            let described = |required: bool| -> BTreeSet<String> {
                let fields = shape.fields().filter(|field| !required || field.required);
                fields.map(|field| field.name.to_owned()).collect()
            };
            assert_eq!(members(&pair["full"]), described(false), "{event_type}");
            assert_eq!(members(&pair["bare"]), described(true), "{event_type}");
        }
    }
}
