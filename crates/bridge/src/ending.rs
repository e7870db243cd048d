//! The ways in which a run stops going on, and what is said about each.

use runwire_frame::{Cost, ErrorCode, SegmentStatus, SuspendKind, Timestamp, Usage};
use serde_json::{Map, Value};

use crate::recorder::Agui;

/// How a run completes.
#[derive(Clone, Debug, Default)]
pub struct Completion {
    /// Usage that no segment carried, such as what an upstream agent reports for the whole run.
    pub usage: Vec<Usage>,
    /// What it cost, when prices are configured.
    pub cost: Option<Cost>,
    /// What AG-UI says beyond the frame: the result, pending tool calls.
    pub agui: Agui,
}

/// How a run fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// One of the fifteen.
    pub code: ErrorCode,
    /// What happened, for a person.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// More for whoever operates the agent.
    pub detail: Option<String>,
    /// `Failed` when the work failed, `Abandoned` when the attempt ended under its segments.
    pub segments: SegmentStatus,
    /// Usage that no segment carried.
    pub usage: Vec<Usage>,
    /// What AG-UI says beyond the `error` frame.
    pub agui: Agui,
}

impl Failure {
    /// A failure of the work itself.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
            retryable: false,
            detail: None,
            segments: SegmentStatus::Failed,
            usage: Vec::new(),
            agui: None,
        }
    }
}

/// What a run waits for.
#[derive(Clone, Debug)]
pub struct Suspension {
    /// A yes or no, or a value.
    pub kind: SuspendKind,
    /// The interrupts to answer.
    pub contract: Map<String, Value>,
    /// What to ask, for a person.
    pub prompt: Option<String>,
    /// When waiting ends.
    pub deadline: Option<Timestamp>,
    /// Usage of this exchange that no segment carried.
    pub usage: Vec<Usage>,
    /// What AG-UI says beyond the frame.
    pub agui: Agui,
}
