//! Runs that a run starts: what a driver asks for, and what it holds of them.

use std::sync::Arc;

use runwire_bridge::{Failure, Opening};
use runwire_frame::{DecodeError, ErrorCode, Frame, SegmentId};
use runwire_store::{ReadError, RunRecord, Tail, TailError, TailItem};
use serde_json::Value;
use tokio::sync::watch;

use crate::engine::{CancelError, Waiting};
use crate::family::{Attached, Standing};
use crate::lane_slot::Away;
use crate::request::{CreateRunError, RunRequest};
use crate::run_core::RunCore;
use crate::writer::WriteError;

/// The `trigger_kind` of a run that another run started.
pub const CHILD: &str = "agent";

/// The longest output text of a child that its parent is given, in bytes.
pub const MAX_CHILD_TEXT: usize = 1024 * 1024;

/// The longest [`ChildRun::key`], in bytes.
pub const MAX_CHILD_KEY: usize = 256;

/// A run that a run is to start: of a configured agent, with a log, a status, attempts, limits and an account of its own.
#[derive(Clone, Debug)]
pub struct ChildRun {
    /// Which agent.
    pub agent_id: String,
    /// What it is asked. Without a session it has one of its own, which it shares with nobody. With one that has an unfinished
    /// run of the agent it is refused, unless the agent executes several at once: a child never waits for a session, because
    /// the run that it would wait for could be one that waits for the child. An input's `runId` and `parentRunId` are
    /// overwritten.
    pub request: RunRequest,
    /// The lane; the agent's own when not given.
    pub lane: Option<String>,
    /// The caller's own data: a JSON object, or null.
    pub metadata: Value,
    /// Tells the next attempt of the parent that it is the same work, 1 to 256 bytes; see [`RunWriter::child`].
    ///
    /// [`RunWriter::child`]: crate::RunWriter::child
    pub key: Option<String>,
    /// How the parent's segment for it begins. Its name is the agent's unless it is given.
    pub opening: Opening,
}

impl ChildRun {
    /// A run of this agent that answers one message, in a session of its own.
    pub fn prompt(agent_id: impl Into<String>, prompt: impl Into<String>) -> ChildRun {
        ChildRun {
            agent_id: agent_id.into(),
            request: RunRequest::Prompt { prompt: prompt.into(), session_id: None },
            lane: None,
            metadata: Value::Null,
            key: None,
            opening: Opening::default(),
        }
    }

    /// The same, found again by this key.
    #[must_use]
    pub fn keyed(self, key: impl Into<String>) -> ChildRun {
        ChildRun { key: Some(key.into()), ..self }
    }

    /// The same, inside of that segment of the parent.
    #[must_use]
    pub fn inside(self, parent: &SegmentId) -> ChildRun {
        ChildRun { opening: self.opening.inside(parent), ..self }
    }
}

/// Why a run started no other. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The run has as many above it as there may be.
    #[error(
        "no further run is started: this one is {depth} runs below the first, which is the limit (`max_child_depth`); an \
         agent that starts itself needs a way to stop doing so"
    )]
    TooDeep {
        /// How many runs are above it.
        depth: u32,
    },
    /// The key names a child that was asked something else.
    #[error("the child `{key}` of this run exists as run `{run_id}`, and was asked something else")]
    OtherRequest {
        /// The key.
        key: String,
        /// The run.
        run_id: String,
    },
    /// The parent cannot begin anything, or cannot be written.
    #[error(transparent)]
    Parent(#[from] WriteError),
    /// The run cannot be created.
    #[error(transparent)]
    Create(#[from] CreateRunError),
}

impl From<ReadError> for ChildError {
    fn from(error: ReadError) -> ChildError {
        ChildError::Create(error.into())
    }
}

impl From<ChildError> for Failure {
    fn from(error: ChildError) -> Failure {
        match error {
            ChildError::Parent(error) => error.into(),
            error => {
                let passes = matches!(
                    &error,
                    ChildError::Create(
                        CreateRunError::SessionBusy { .. }
                            | CreateRunError::ShuttingDown
                            | CreateRunError::Create(_)
                            | CreateRunError::Ownership(_)
                            | CreateRunError::Read(_)
                            | CreateRunError::Append(_)
                    )
                );
                Failure { retryable: passes, ..Failure::new(ErrorCode::InternalError, error.to_string()) }
            }
        }
    }
}

/// What a child came to.
#[derive(Clone, Debug, PartialEq)]
pub enum ChildEnd {
    /// It answered.
    Completed {
        /// The text of its last message, without those of agents inside of it; empty when it said nothing.
        text: String,
        /// Whether that is all of it: of more than [`MAX_CHILD_TEXT`] bytes it is the beginning.
        whole: bool,
        /// Its result, where the agent gave one.
        result: Option<Value>,
    },
    /// It failed for good, after its own attempts.
    Failed {
        /// One of the fifteen.
        code: ErrorCode,
        /// What happened, for a person.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
    },
    /// It was stopped.
    Cancelled {
        /// Why, where it was stopped at a limit.
        reason: Option<String>,
    },
    /// It asks something, and goes on when that is answered. Whoever may answer its parent may answer it, by its own run:
    /// `POST /v2/runs/{id}/resume`, `runwire resume`.
    Suspended(Waiting),
}

impl ChildEnd {
    /// Whether nothing follows.
    pub fn is_final(&self) -> bool {
        !matches!(self, ChildEnd::Suspended(_))
    }
}

/// A run that this run started, or found again.
///
/// Dropping it changes nothing: the child goes on, and its end is written into the parent's log when it comes. What becomes of
/// a child that the parent does not wait for is in [`RunWriter::child`](crate::RunWriter::child).
pub struct Child {
    core: Arc<RunCore>,
    run_id: String,
    segment: SegmentId,
    standing: watch::Receiver<Standing>,
    /// How many of its suspensions were told.
    told: u64,
}

impl Child {
    pub(crate) fn new(core: Arc<RunCore>, record: &RunRecord, attached: Attached) -> Child {
        let Attached { segment, standing } = attached;
        Child { core, run_id: record.run_id.clone(), segment, standing, told: 0 }
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The segment of the parent that stands for it.
    pub fn segment(&self) -> &SegmentId {
        &self.segment
    }

    /// Waits until the child has ended, or asks something. After [`ChildEnd::Suspended`] it waits for what comes next, and after
    /// any other end it answers that again.
    ///
    /// While it waits the parent gives its slot of its lane back, so that the child can have it, and it has one again when this
    /// returns. A parent that does something else meanwhile does it without a slot. Its limit of time goes on.
    ///
    /// Dropped while it waits, it has changed nothing, but that the parent's next write waits for its slot.
    ///
    /// # Errors
    /// [`WriteError::Ended`] when the attempt of the parent is over.
    pub async fn ended(&mut self) -> Result<ChildEnd, WriteError> {
        let told = self.told;
        let is_due = |standing: &Standing| match &standing.end {
            Some(ChildEnd::Suspended(_)) => standing.suspensions > told,
            end => end.is_some(),
        };
        let now = self.standing.borrow().clone();
        let standing = if is_due(&now) {
            now
        } else {
            let away = self.core.slot().away();
            let standing = self.standing.wait_for(is_due).await.map(|standing| standing.clone());
            tokio::select! {
                biased;
                // What is being stopped needs no slot in order to end.
                () = self.core.stopped() => {}
                () = away.back() => {}
            }
            standing.map_err(|_| WriteError::Ended)?
        };
        self.told = standing.suspensions;
        standing.end.ok_or(WriteError::Ended)
    }

    /// Follows the child's frames after that `seq`. The parent gives its slot back for as long as it has this.
    ///
    /// # Errors
    /// When the frames cannot be read.
    pub async fn frames(&self, after: u64) -> Result<ChildFrames, TailError> {
        let Some(engine) = self.core.engine() else { return Err(TailError::UnknownRun) };
        let tail = engine.store().tail(&self.run_id, after).await?;
        Ok(ChildFrames { tail, page: Vec::new().into_iter(), _away: self.core.slot().away() })
    }

    /// Asks the child to stop. Asking again, or after its end, changes nothing.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn cancel(&self) -> Result<(), CancelError> {
        match self.core.engine() {
            Some(engine) => engine.cancel(&self.run_id).await.map(drop),
            None => Ok(()),
        }
    }
}

/// The frames of a child, in order.
pub struct ChildFrames {
    tail: Tail,
    page: std::vec::IntoIter<runwire_store::Entry>,
    /// Who reads them waits for the child.
    _away: Away,
}

/// A frame of a child cannot be given.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChildFramesError {
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What is stored is no frame.
    #[error("stored frame {seq} of the child cannot be read: {source}")]
    Frame {
        /// Its position.
        seq: u64,
        /// What is wrong with it.
        source: DecodeError,
    },
}

impl ChildFrames {
    /// The next frame; `None` when the child has ended and every frame was given. Cancel-safe.
    ///
    /// # Errors
    /// When it cannot be read. What comes after that is not given.
    pub async fn next(&mut self) -> Result<Option<Frame>, ChildFramesError> {
        loop {
            if let Some(entry) = self.page.next() {
                let decoded = Frame::decode(&entry.body());
                return decoded.map(Some).map_err(|source| ChildFramesError::Frame { seq: entry.seq(), source });
            }
            match self.tail.next().await? {
                TailItem::Frames(page) => self.page = page.into_iter(),
                TailItem::Ended => return Ok(None),
            }
        }
    }
}
