//! What an agent from before subagents sends (basic/versioning, "Downgrading").
//!
//! It stands where middleware stands, between the translation of retired shapes and enforcement. An agent of that age
//! describes no subagents, so what its stream says of them is material that it cannot mean as 1.0 does.

use serde_json::{Map, Value};

use super::AgentVersion;
use crate::warning::{Warning, WarningRule};

const LIFECYCLE: [&str; 3] = ["SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR"];

/// Translates the events of an agent that is known to be older.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OlderAgent(AgentVersion);

impl OlderAgent {
    /// `None` when events of this version need no translation.
    pub(crate) fn of(version: AgentVersion) -> Option<Self> {
        (!version.knows_subagents()).then_some(Self(version))
    }

    /// Translates the event in place; `false` when it is to be dropped. Dropping a lifecycle event loses something a
    /// reader would have seen, so it is told; taking attribution off loses nothing that an agent without subagents meant.
    pub(crate) fn translate(self, value: &mut Value, event: usize, warnings: &mut Vec<Warning>) -> bool {
        let Value::Object(members) = value else { return true };
        let Some(name) = members.get("type").and_then(Value::as_str) else { return true };
        if let Some(name) = LIFECYCLE.iter().find(|lifecycle| **lifecycle == name) {
            let message = format!(
                "The agent is known to speak AG-UI {}, which has no subagents; dropping {name}. If it has them now, it \
                 is newer than was said.",
                self.0
            );
            warnings.push(Warning::new(WarningRule::UnknownEvent, event, message, Some("/type".to_owned())));
            return false;
        }
        unattribute(members);
        for list in ["/messages", "/outcome/interrupts"] {
            let Some(Value::Array(entries)) = value.pointer_mut(list) else { continue };
            entries.iter_mut().filter_map(Value::as_object_mut).for_each(unattribute);
        }
        true
    }
}

/// Only an attribution that is one is taken off: a malformed value has to be met by enforcement as it is.
fn unattribute(members: &mut Map<String, Value>) {
    if members.get("subagentRunId").is_some_and(Value::is_string) {
        members.shift_remove("subagentRunId");
    }
}
