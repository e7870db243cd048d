//! Segments as types: what can be written to one is decided by its kind, and only while its handle is there.

use std::marker::PhantomData;

use runwire_frame::{SegmentError, SegmentId, SegmentStatus, Usage};

use crate::recorder::Agui;

/// The kinds of segment, as types.
pub mod kind {
    /// One call of a model.
    #[derive(Debug)]
    pub struct Model;
    /// One message.
    #[derive(Debug)]
    pub struct Message;
    /// Reasoning.
    #[derive(Debug)]
    pub struct Reasoning;
    /// One tool call that has no result yet.
    #[derive(Debug)]
    pub struct Tool;
    /// One tool call that has its result.
    #[derive(Debug)]
    pub struct AnsweredTool;
    /// A named phase.
    #[derive(Debug)]
    pub struct Step;
    /// A child agent.
    #[derive(Debug)]
    pub struct Agent;

    /// Segments that output text can be written to.
    pub trait TakesText {}
    impl TakesText for Model {}
    impl TakesText for Message {}

    /// Segments that reasoning can be written to.
    pub trait TakesThinking {}
    impl TakesThinking for Model {}
    impl TakesThinking for Reasoning {}

    /// Segments that a call's arguments can be written to.
    pub trait TakesArguments {}
    impl TakesArguments for Tool {}
    impl TakesArguments for AnsweredTool {}
}

/// A segment that is open: what its content is written through. Not `Clone`: closing consumes it.
///
/// Content cannot be written without one:
///
/// ```compile_fail,E0308
/// # fn f(mut recorder: runwire_bridge::Recorder, now: runwire_frame::Timestamp) {
/// let id = runwire_frame::SegmentId::from("seg_1");
/// recorder.text(now, &id, "whose text is this?", None); // a name is not a handle
/// # }
/// ```
///
/// nor through one that was closed:
///
/// ```compile_fail,E0382
/// # use runwire_bridge::*;
/// # fn f(mut recorder: Recorder, now: runwire_frame::Timestamp) {
/// let message = recorder.open_message(now, Opening::default());
/// recorder.end(now, message, Ending::completed());
/// recorder.text(now, &message, "late", None); // the handle is gone
/// # }
/// ```
///
/// nor of a kind that the segment does not take, so that reasoning never ends up as output:
///
/// ```compile_fail,E0277
/// # use runwire_bridge::*;
/// # fn f(mut recorder: Recorder, now: runwire_frame::Timestamp) {
/// let reasoning = recorder.open_reasoning(now, Opening::default());
/// recorder.text(now, &reasoning, "a thought", None); // reasoning takes `thinking`
/// # }
/// ```
///
/// and a call is answered once:
///
/// ```compile_fail,E0308
/// # use runwire_bridge::*;
/// # fn f(mut recorder: Recorder, now: runwire_frame::Timestamp, output: ToolOutput) {
/// let tool = recorder.open_tool(now, "call_1", "search", Opening::default());
/// let answered = recorder.result(now, tool, true, &output, None);
/// recorder.result(now, answered, true, &output, None); // it has its result
/// # }
/// ```
///
/// What is right compiles:
///
/// ```
/// # use runwire_bridge::*;
/// # fn f(mut recorder: Recorder, now: runwire_frame::Timestamp, output: ToolOutput) {
/// let message = recorder.open_message(now, Opening::default());
/// recorder.text(now, &message, "Hello", None);
/// recorder.end(now, message, Ending::completed());
/// let tool = recorder.open_tool(now, "call_1", "search", Opening::default());
/// let answered = recorder.result(now, tool, true, &output, None);
/// recorder.end(now, answered, Ending::completed());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a segment whose handle is dropped stays open until the run ends"]
pub struct Open<K> {
    pub(crate) number: u64,
    pub(crate) id: SegmentId,
    kind: PhantomData<fn() -> K>,
}

impl<K> Open<K> {
    pub(crate) fn new(number: u64, id: SegmentId) -> Open<K> {
        Open { number, id, kind: PhantomData }
    }

    /// The segment's name within the run.
    pub fn id(&self) -> &SegmentId {
        &self.id
    }
}

/// How a segment begins.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// What it is called.
    pub name: Option<String>,
    /// The segment that it happens inside of.
    pub parent: Option<SegmentId>,
    /// Provider and model, for a model call.
    pub model_ref: Option<String>,
    /// Segments with the same key belong together.
    pub group_key: Option<String>,
    /// What AG-UI says beyond the frame.
    pub agui: Agui,
}

impl Opening {
    /// A segment called so, inside of no other.
    pub fn named(name: impl Into<String>) -> Opening {
        Opening { name: Some(name.into()), ..Opening::default() }
    }

    /// The same, inside of `parent`.
    pub fn inside(self, parent: &SegmentId) -> Opening {
        Opening { parent: Some(parent.clone()), ..self }
    }
}

/// How a segment ends.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Whole, failed, cut off or abandoned.
    pub status: SegmentStatus,
    /// Tokens used by a model call.
    pub usage: Option<Usage>,
    /// Why a model stopped.
    pub finish_reason: Option<String>,
    /// Why it failed.
    pub error: Option<SegmentError>,
    /// What AG-UI says beyond the frame.
    pub agui: Agui,
}

impl Ending {
    /// What the segment brackets is whole.
    pub fn completed() -> Ending {
        Ending::with_status(SegmentStatus::Completed)
    }

    /// It ended so, and there is no more to say.
    pub fn with_status(status: SegmentStatus) -> Ending {
        Ending { status, usage: None, finish_reason: None, error: None, agui: None }
    }
}
