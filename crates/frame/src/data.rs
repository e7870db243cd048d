//! The thirteen frame types and the data each of them carries (seed, *Frame types*).

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::payload::{KeyError, payload};
use crate::{
    Cost, EndStatus, ErrorCode, NoticeLevel, PREVIEW_MAX_BYTES, RunStatus, SegmentError, SegmentKind, SegmentStatus,
    SuspendKind, Timestamp, Usage,
};

payload! {
    /// `run.start`: the first frame of an attempt.
    RunStart {
        /// Which agent.
        required agent_id: String,
        /// A digest of the agent's configuration.
        nullable agent_revision_id: String,
        /// The conversation: AG-UI's thread.
        nullable session_id: String,
        /// The queue that the run went through.
        nullable lane: String,
        /// What started the run: `api`, `agui`, …
        nullable trigger_kind: String,
        /// 1 for the first attempt.
        required attempt: u32,
    }
}

payload! {
    /// `run.status`: a transition of the run's state machine.
    RunStatusChange {
        /// The status from here on.
        required status: RunStatus,
        /// The status until here.
        nullable previous: RunStatus,
    }
}

payload! {
    /// `run.end`: the run is over; nothing follows.
    RunEnd {
        /// How it ended.
        required status: EndStatus,
        /// Summed per provider and model over the whole run; null when nothing was reported.
        nullable usage: Vec<Usage>,
        /// What it cost; null when no price is configured.
        nullable cost: Cost,
        /// Milliseconds from the first `run.start` to here.
        nullable duration_ms: u64,
        /// The error code of a failure.
        optional failure_class: String,
        /// What failed, for a person.
        optional failure_detail: String,
    }
}

payload! {
    /// `segment.start`: opens a segment, before any of its content.
    SegmentStart {
        /// What the segment brackets.
        required kind: SegmentKind,
        /// What it is called: a tool's, a step's, an agent's, a model's or an author's name.
        nullable name: String,
        /// The segment that it happened inside of.
        optional parent_segment_id: String,
        /// Segments with the same key belong together, such as parallel calls of one turn.
        optional group_key: String,
        /// Provider and model of a model call.
        optional model_ref: String,
        /// The tool of a tool segment.
        optional tool_slug: String,
        /// The run that an agent segment stands for, when it is a run of its own.
        optional child_run_id: String,
    }
}

payload! {
    /// `segment.end`: closes a segment. Usage rides here.
    SegmentEnd {
        /// How it ended.
        required status: SegmentStatus,
        /// Milliseconds from its `segment.start` to here.
        nullable duration_ms: u64,
        /// Tokens that this segment's model call used.
        optional usage: Usage,
        /// What that cost.
        optional cost: Cost,
        /// Why the model stopped.
        optional finish_reason: String,
        /// Why the segment failed.
        optional error: SegmentError,
    }
}

payload! {
    /// `text.delta`: the next piece of output text. The only channel for output text.
    TextDelta {
        /// Appends to the segment's text.
        required text: String,
    }
}

payload! {
    /// `thinking.delta`: the next piece of reasoning, distinct from output.
    ThinkingDelta {
        /// Appends to the segment's reasoning.
        required text: String,
    }
}

payload! {
    /// `tool.call`: the next piece of a call's arguments, or, when they are complete, the whole of them.
    ToolCall {
        /// Which call.
        required tool_call_id: String,
        /// Which tool.
        required tool_slug: String,
        /// Appends to the argument text.
        optional arguments_delta: String,
        /// The complete argument text; conventionally a JSON document, but carried as the text that was written, which
        /// may not parse.
        optional arguments: String,
    }
}

payload! {
    /// `tool.result`: what the tool returned, as a preview; the whole is the segment's payload.
    ToolResult {
        /// Which call.
        required tool_call_id: String,
        /// Whether the tool succeeded.
        required ok: bool,
        /// The beginning of the output as text: at most 2048 bytes, cut at a character.
        nullable output_preview: String,
        /// Whether the preview is less than the whole.
        required truncated: bool,
        /// Bytes of the whole output.
        required bytes: u64,
    }
}

payload! {
    /// `suspend`: the run waits for an answer from outside.
    Suspend {
        /// What it waits for.
        required kind: SuspendKind,
        /// The interrupts to answer: id, reason, message, tool call, JSON Schema of the answer, deadline.
        required resume_contract: Map<String, Value>,
        /// What to ask, for a person.
        nullable prompt: String,
        /// When waiting ends.
        optional deadline_at: Timestamp,
    }
}

payload! {
    /// `resume`: the answer came; the run goes on.
    Resume {
        /// What it had waited for.
        required kind: SuspendKind,
        /// Who answered: a principal, or `deadline`.
        nullable resolved_by: String,
    }
}

payload! {
    /// `notice`: something worth telling that is neither output nor an error.
    Notice {
        /// How much it matters.
        required level: NoticeLevel,
        /// What it is, for a program: `compaction_applied`, `agui.STATE_SNAPSHOT`, …
        required code: String,
        /// What it is, for a person.
        required message: String,
        /// More about it.
        optional attributes: Map<String, Value>,
    }
}

payload! {
    /// `error`: something failed.
    ErrorData {
        /// One of the fifteen.
        required code: ErrorCode,
        /// What happened, for a person; never for a program.
        required message: String,
        /// Whether the same request may succeed later.
        required retryable: bool,
    }
}

impl TextDelta {
    /// A piece of output text.
    pub fn new(text: String) -> TextDelta {
        TextDelta { text, extra: Map::new() }
    }
}

impl ThinkingDelta {
    /// A piece of reasoning.
    pub fn new(text: String) -> ThinkingDelta {
        ThinkingDelta { text, extra: Map::new() }
    }
}

macro_rules! frame_types {
    ($($(#[$doc:meta])* $variant:ident($data:ty) = $word:literal, $segment:literal;)+) => {
        /// The type of a frame: a closed set of thirteen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FrameType {
            $($(#[$doc])* $variant,)+
        }

        impl FrameType {
            /// All thirteen types, in the seed's order.
            pub const ALL: [FrameType; 13] = [$(FrameType::$variant),+];

            /// The type as it is spelled on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(FrameType::$variant => $word),+
                }
            }

            /// The type with this spelling, if it is one of the thirteen.
            pub fn from_wire(word: &str) -> Option<FrameType> {
                match word {
                    $($word => Some(FrameType::$variant),)+
                    _ => None,
                }
            }

            /// Whether the envelope's `segment_id` must not be null for this type.
            pub fn requires_segment(self) -> bool {
                match self {
                    $(FrameType::$variant => $segment),+
                }
            }
        }

        /// What a frame says: its type together with the data of that type.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "the large ones end segments and runs; boxing them saves nothing")]
        pub enum Data {
            $($(#[$doc])* $variant($data),)+
        }

        impl Data {
            /// The type of the frame that carries this data.
            pub fn frame_type(&self) -> FrameType {
                match self {
                    $(Data::$variant(_) => FrameType::$variant),+
                }
            }

            /// The data keys that this version does not know, and `agui`.
            pub fn extra(&self) -> &Map<String, Value> {
                match self {
                    $(Data::$variant(data) => &data.extra),+
                }
            }

            pub(crate) fn schema_of(frame_type: FrameType) -> Value {
                match frame_type {
                    $(FrameType::$variant => <$data as crate::schema::Described>::schema()),+
                }
            }

            pub(crate) fn from_members(frame_type: FrameType, members: Map<String, Value>) -> Result<Data, KeyError> {
                match frame_type {
                    $(FrameType::$variant => <$data>::from_members(members).map(Data::$variant)),+
                }
                .and_then(Data::within_limits)
            }
        }

        impl Serialize for Data {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Data::$variant(data) => data.serialize(serializer)),+
                }
            }
        }
    };
}

frame_types! {
    /// First frame of an attempt.
    RunStart(RunStart) = "run.start", false;
    /// A transition of the run.
    RunStatus(RunStatusChange) = "run.status", false;
    /// The run is over.
    RunEnd(RunEnd) = "run.end", false;
    /// A segment opens.
    SegmentStart(SegmentStart) = "segment.start", true;
    /// A segment closes.
    SegmentEnd(SegmentEnd) = "segment.end", true;
    /// Output text.
    TextDelta(TextDelta) = "text.delta", true;
    /// Reasoning.
    ThinkingDelta(ThinkingDelta) = "thinking.delta", true;
    /// Arguments of a tool call.
    ToolCall(ToolCall) = "tool.call", true;
    /// Result of a tool call.
    ToolResult(ToolResult) = "tool.result", true;
    /// The run waits.
    Suspend(Suspend) = "suspend", false;
    /// The run goes on.
    Resume(Resume) = "resume", false;
    /// Something worth telling.
    Notice(Notice) = "notice", false;
    /// Something failed.
    Error(ErrorData) = "error", false;
}

impl Data {
    /// A preview is a preview: whoever sends a whole value in it has not understood the protocol.
    fn within_limits(self) -> Result<Data, KeyError> {
        match &self {
            Data::ToolResult(ToolResult { output_preview: Some(preview), .. }) if preview.len() > PREVIEW_MAX_BYTES => {
                Err(KeyError {
                    key: "output_preview",
                    problem: format!("has {} bytes, and a preview has at most {PREVIEW_MAX_BYTES}", preview.len()),
                })
            }
            _ => Ok(self),
        }
    }
}

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
