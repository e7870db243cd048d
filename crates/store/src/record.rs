//! What the store keeps beside frames: runs, exchanges, sessions, payloads.
//!
//! The store has no clock: every time is given by the caller, in milliseconds since the Unix epoch.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// A run to be created, together with the exchange that asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Unique in the store.
    pub run_id: String,
    /// The agent that does the work.
    pub agent_id: String,
    /// The session (AG-UI `threadId`). Created with its first run.
    pub session_id: String,
    /// The first exchange (AG-UI `runId`). Unique in its session.
    pub exchange_id: String,
    /// A digest of the input, by which a repeated request is told from a different one.
    pub input_digest: String,
    /// The queue that the run waits in.
    pub lane: String,
    /// The first status, as `run.status` spells it.
    pub status: String,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Who asked for the run; `None` on a server without tokens.
    pub principal: Option<String>,
    /// What started it, as `run.start` says it.
    pub trigger_kind: String,
    /// The agent's revision, if it has one.
    pub agent_revision_id: Option<String>,
    /// The run that spawned this one.
    pub parent_run_id: Option<String>,
    /// The caller's own data.
    pub metadata: Value,
    /// The `RunAgentInput`, as it came.
    pub input: Value,
}

/// A key that whoever asks has chosen for one request, so that the request can be repeated and its work is done once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// Who asks; `None` on a server without tokens. A key is unique among those of its principal. Not an empty text.
    pub principal: Option<String>,
    /// The key.
    pub key: String,
    /// A digest of what is asked, by which a repeated request is told from a different one.
    pub request_digest: String,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
}

/// What a [`RequestKey`] names.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyedRun {
    /// The run, as it stands now.
    pub record: RunRecord,
    /// The exchange that the request was.
    pub exchange_id: String,
    /// The digest that the key was first used with.
    pub request_digest: String,
}

/// A run as it stands. Serializes as the run API shows it. What it was asked is apart:
/// [`Store::input`](crate::Store::input).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRecord {
    /// Unique in the store.
    pub run_id: String,
    /// The agent that does the work.
    pub agent_id: String,
    /// The session (AG-UI `threadId`).
    pub session_id: String,
    /// The queue that it waits, or waited, in.
    pub lane: String,
    /// The last status, as `run.status` spells it.
    pub status: String,
    /// The attempt that runs or ran last, from 1; 0 before the first.
    pub attempt: u32,
    /// The last frame's `seq`; 0 before the first.
    pub head: u64,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When its first attempt started, in milliseconds since the Unix epoch.
    pub started_at: Option<i64>,
    /// When it ended for good, in milliseconds since the Unix epoch. Nothing is appended afterwards.
    pub ended_at: Option<i64>,
    /// Who asked for the run; `None` on a server without tokens.
    pub principal: Option<String>,
    /// What started it, as `run.start` says it.
    pub trigger_kind: String,
    /// The agent's revision, if it has one.
    pub agent_revision_id: Option<String>,
    /// The run that spawned this one.
    pub parent_run_id: Option<String>,
    /// The caller's own data.
    pub metadata: Value,
    /// The summed usage, once it is known.
    pub usage: Option<Value>,
    /// The summed cost, once it is known.
    pub cost: Option<Value>,
    /// Why it failed, if it did.
    pub failure: Option<Value>,
}

impl RunRecord {
    /// The cursor that continues a list after this run.
    pub fn cursor(&self) -> RunCursor {
        RunCursor { created_at: self.created_at, run_id: self.run_id.clone() }
    }
}

/// The answer to [`Store::create_run`](crate::Store::create_run).
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // both hold one record; boxing it would only make callers unbox it
pub enum Created {
    /// The run is there now, and was not before.
    New(RunRecord),
    /// The exchange, or the key of the request, already names a run; nothing was written.
    Existing {
        /// The run that it names.
        record: RunRecord,
        /// Whether the digest is the one that the exchange, or the key, was first sent with. Of a key it is; otherwise
        /// that is an error.
        same_input: bool,
    },
}

/// A later exchange of a run: the one that answers a suspension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// The session (AG-UI `threadId`).
    pub session_id: String,
    /// The exchange (AG-UI `runId`). Unique in its session.
    pub exchange_id: String,
    /// A digest of its input.
    pub input_digest: String,
}

/// The answer to [`Store::add_exchange`](crate::Store::add_exchange).
#[derive(Clone, Debug, PartialEq)]
pub enum Added {
    /// The exchange now names the run.
    New,
    /// The exchange already names a run; nothing was written.
    Existing {
        /// The run that it names: this one or another.
        record: Box<RunRecord>,
        /// Whether the digest is the one that the exchange was first sent with.
        same_input: bool,
    },
}

/// A session as it stands. Serializes as the session API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionRecord {
    /// The session (AG-UI `threadId`).
    pub session_id: String,
    /// Who asked for its first run; `None` on a server without tokens.
    pub principal: Option<String>,
    /// When its first run was created, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When its latest run was created, in milliseconds since the Unix epoch.
    pub last_run_at: i64,
    /// How many runs it has.
    pub runs: u64,
}

/// What is left of a run that retention removed, so that its loss is not silent (G7). It holds nothing of what the run
/// was asked, said or carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The run.
    pub run_id: String,
    /// The session that it was in.
    pub session_id: String,
    /// Who asked for it; `None` on a server without tokens.
    pub principal: Option<String>,
    /// The last `seq` that it had.
    pub head: u64,
    /// When it was removed, in milliseconds since the Unix epoch.
    pub removed_at: i64,
}

impl fmt::Display for Tombstone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the run {} has ended and was removed since, as retention asked for", self.run_id)
    }
}

/// The whole value behind a preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its media type.
    pub content_type: String,
    /// The value.
    pub bytes: Bytes,
}

/// Which runs to list. Every part that is given must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of this agent.
    pub agent_id: Option<String>,
    /// Runs of this session.
    pub session_id: Option<String>,
    /// Runs that this run started, or whose input names it as its parent.
    pub parent_run_id: Option<String>,
    /// Runs whose id begins with this.
    pub run_id: Option<String>,
    /// Runs whose prompt has this in it, in whatever case; at least [`MIN_SEARCHED`](crate::MIN_SEARCHED) characters, fewer find
    /// none.
    pub prompt: Option<String>,
    /// Runs in one of these statuses; empty for any.
    pub status: Vec<String>,
    /// Runs that this principal asked for; `None` for those of everybody.
    pub principal: Option<String>,
    /// At most so many; taken as 1 to 1000. The default is 50.
    pub limit: usize,
    /// Only runs that come after this place in the list, which is newest first.
    pub before: Option<RunCursor>,
}

impl Default for RunFilter {
    fn default() -> Self {
        RunFilter {
            agent_id: None,
            session_id: None,
            parent_run_id: None,
            run_id: None,
            prompt: None,
            status: Vec::new(),
            principal: None,
            limit: 50,
            before: None,
        }
    }
}

/// A place in the list of runs. Two runs of the same millisecond are told apart by their id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCursor {
    /// The run's `created_at`.
    pub created_at: i64,
    /// The run's id.
    pub run_id: String,
}
