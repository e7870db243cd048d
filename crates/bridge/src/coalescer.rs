//! Joins adjacent deltas of one segment into fewer, larger frames (seed: "coalesced before delivery").

use runwire_frame::Timestamp;
use serde_json::{Map, Value};

/// How long a delta may wait for others to join it, in milliseconds since the first of them.
pub const COALESCE_MILLIS: i64 = 25;

/// From how many bytes on joined deltas wait no longer.
pub const COALESCE_BYTES: usize = 4096;

/// The two frame types that are coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeltaKind {
    Text,
    Thinking,
}

/// Deltas that wait to become one frame.
#[derive(Clone, Debug)]
pub(crate) struct PendingDelta {
    pub segment: u64,
    pub kind: DeltaKind,
    pub text: String,
    pub since: Timestamp,
    pub agui: Option<Map<String, Value>>,
}

impl PendingDelta {
    /// Whether a delta with these AG-UI members can join without losing any of them.
    ///
    /// An attribution must agree, a timestamp yields to the first one's, and anything else (metadata, a raw event)
    /// belongs to its own delta alone.
    pub fn takes(&self, segment: u64, kind: DeltaKind, agui: Option<&Map<String, Value>>) -> bool {
        let attribution = |m: Option<&Map<String, Value>>| m.and_then(|m| m.get("subagentRunId").cloned());
        let plain = |m: Option<&Map<String, Value>>| {
            m.is_none_or(|m| m.keys().all(|k| k == "timestamp" || k == "subagentRunId"))
        };
        self.segment == segment
            && self.kind == kind
            && plain(self.agui.as_ref())
            && plain(agui)
            && attribution(self.agui.as_ref()) == attribution(agui)
    }

    /// Whether its time is over, so that nothing joins it any more. A clock that stepped back says nothing about how
    /// long it has waited, so then it waits no longer.
    pub fn is_late(&self, now: Timestamp) -> bool {
        !(0..COALESCE_MILLIS).contains(&(now.unix_millis() - self.since.unix_millis()))
    }

    /// Whether it is large enough to go.
    pub fn is_large(&self) -> bool {
        self.text.len() >= COALESCE_BYTES
    }
}
