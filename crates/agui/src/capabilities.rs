//! What an agent declares about itself (basic/capabilities).
//!
//! Everything is optional, and what is left out is undeclared, which is not the same as unsupported. A declaration is
//! informative: the event stream is what counts.

use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::enforce::{Enforcement, enforce};
use crate::input::Tool;
use crate::object::object;
use crate::schema;
use crate::warning::{Warning, Warnings};

object! {
    /// A subagent that an agent may call: a definition, not one of its invocations.
    SubagentInfo {
        required {
            /// Its name.
            name: String,
        }
        optional {
            /// What it is for.
            description: String,
        }
    }
}

object! {
    /// Capabilities: who the agent is.
    IdentityCapabilities {
        optional {
            /// Its name, for people.
            name: String,
            /// The framework or platform behind it.
            r#type: String,
            /// What it does.
            description: String,
            /// Its own version.
            version: String,
            /// Who maintains it.
            provider: String,
            /// Where its documentation is.
            documentation_url: String,
            /// Anything else about its identity, open by key.
            metadata: Map<String, Value>,
        }
    }
}

object! {
    /// Capabilities: how it can be reached.
    TransportCapabilities {
        optional {
            /// It streams by SSE.
            streaming: bool,
            /// It takes WebSocket connections.
            websocket: bool,
            /// It speaks the protobuf binding.
            http_binary: bool,
            /// It tells of changes after a run has ended.
            push_notifications: bool,
            /// A stream that broke can be gone on with.
            resumable: bool,
        }
    }
}

object! {
    /// Capabilities: which tools it calls.
    ToolsCapabilities {
        optional {
            /// It calls tools.
            supported: bool,
            /// The tools that it has itself.
            items: Vec<Tool>,
            /// It makes several calls at once.
            parallel_calls: bool,
            /// It uses the tools of the run input.
            client_provided: bool,
        }
    }
}

object! {
    /// Capabilities: what its output can be.
    OutputCapabilities {
        optional {
            /// It can shape its answer to a schema.
            structured_output: bool,
            /// Types other than plain text that it produces.
            supported_mime_types: Vec<String>,
        }
    }
}

object! {
    /// Capabilities: what it keeps.
    StateCapabilities {
        optional {
            /// It sends `STATE_SNAPSHOT`.
            snapshots: bool,
            /// It sends `STATE_DELTA`.
            deltas: bool,
            /// It remembers beyond the thread.
            memory: bool,
            /// State outlives a run of the thread.
            persistent_state: bool,
        }
    }
}

object! {
    /// Capabilities: how it works with others.
    MultiAgentCapabilities {
        optional {
            /// It works with other agents.
            supported: bool,
            /// It hands out parts of the work.
            delegation: bool,
            /// It can hand the whole conversation over.
            handoffs: bool,
            /// The subagents that it may call.
            subagents: Vec<SubagentInfo>,
        }
    }
}

object! {
    /// Capabilities: what it shows of its reasoning.
    ReasoningCapabilities {
        optional {
            /// It shows reasoning.
            supported: bool,
            /// Piece by piece.
            streaming: bool,
            /// As opaque artefacts only.
            encrypted: bool,
        }
    }
}

object! {
    /// Capabilities: what it takes besides text.
    MultimodalInputCapabilities {
        optional {
            /// Images.
            image: bool,
            /// Sound.
            audio: bool,
            /// Film.
            video: bool,
            /// PDF documents.
            pdf: bool,
            /// Files of other kinds.
            file: bool,
        }
    }
}

object! {
    /// Capabilities: what it makes besides text.
    MultimodalOutputCapabilities {
        optional {
            /// Images.
            image: bool,
            /// Sound.
            audio: bool,
        }
    }
}

object! {
    /// Capabilities: what it takes and makes besides text.
    MultimodalCapabilities {
        optional {
            /// What it takes.
            input: MultimodalInputCapabilities,
            /// What it makes.
            output: MultimodalOutputCapabilities,
        }
    }
}

object! {
    /// Capabilities: how it executes.
    ExecutionCapabilities {
        optional {
            /// It executes code.
            code_execution: bool,
            /// In a sandbox.
            sandboxed: bool,
            /// The most rounds of a run.
            max_iterations: u64,
            /// The most milliseconds of a run.
            max_execution_time: u64,
        }
    }
}

object! {
    /// Capabilities: how people take part.
    HumanInTheLoopCapabilities {
        optional {
            /// They can.
            supported: bool,
            /// It asks before it acts.
            approvals: bool,
            /// Its plan can be changed on the way.
            interventions: bool,
            /// It learns from praise and blame within the thread.
            feedback: bool,
            /// It ends runs with interrupts and takes the answers as `resume`.
            interrupts: bool,
            /// An answer may change a tool call's arguments.
            approve_with_edits: bool,
        }
    }
}

object! {
    /// What an agent declares about itself, by category.
    AgentCapabilities {
        optional {
            /// Who the agent is.
            identity: IdentityCapabilities,
            /// How it can be reached.
            transport: TransportCapabilities,
            /// Which tools it calls.
            tools: ToolsCapabilities,
            /// What its output can be.
            output: OutputCapabilities,
            /// What it keeps.
            state: StateCapabilities,
            /// How it works with others.
            multi_agent: MultiAgentCapabilities,
            /// What it shows of its reasoning.
            reasoning: ReasoningCapabilities,
            /// What it takes and makes besides text.
            multimodal: MultimodalCapabilities,
            /// How it executes.
            execution: ExecutionCapabilities,
            /// How people take part.
            human_in_the_loop: HumanInTheLoopCapabilities,
            /// What fits nowhere else, open by key.
            custom: Map<String, Value>,
        }
    }
}

/// A declaration that must not be used: a described member holds something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the capabilities are malformed at {path}: expected {expected}, found {found}")]
pub struct CapabilitiesError {
    /// JSON Pointer of the member; `/` for the declaration itself.
    pub path: String,
    /// What the schema wants there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl AgentCapabilities {
    /// Reads a declaration. Members that 1.0 does not describe are left out, each named in a warning: a newer agent's
    /// declaration is no reason to refuse it.
    ///
    /// # Errors
    /// When a described member is malformed.
    pub fn decode_value(mut value: Value) -> Result<(Self, Vec<Warning>), CapabilitiesError> {
        let Enforcement { verdict, notes } = enforce(&mut value, &schema::AGENT_CAPABILITIES, false);
        verdict.map_err(|m| CapabilitiesError { path: m.path, expected: m.expected, found: m.found })?;
        let capabilities = Self::deserialize(value).map_err(|error| CapabilitiesError {
            path: "/".to_owned(),
            expected: "a capabilities object".to_owned(),
            found: error.to_string(),
        })?;
        let mut warnings = Warnings::of("declaration");
        notes.warn(0, "the declaration", &mut warnings);
        Ok((capabilities, warnings.take()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// Every member that the schema describes, in each group.
    fn everything() -> Value {
        json!({
            "identity": { "name": "name", "type": "type", "description": "description", "version": "version", "provider": "provider", "documentationUrl": "documentationUrl", "metadata": { "own": null } },
            "transport": { "streaming": true, "websocket": true, "httpBinary": true, "pushNotifications": true, "resumable": true },
            "tools": { "supported": true, "items": [{ "name": "t", "description": "d" }], "parallelCalls": true, "clientProvided": true },
            "output": { "structuredOutput": true, "supportedMimeTypes": ["text/html"] },
            "state": { "snapshots": true, "deltas": true, "memory": true, "persistentState": true },
            "multiAgent": { "supported": true, "delegation": true, "handoffs": true, "subagents": [{ "name": "s", "description": "d" }] },
            "reasoning": { "supported": true, "streaming": true, "encrypted": true },
            "multimodal": { "input": { "image": true, "audio": true, "video": true, "pdf": true, "file": true }, "output": { "image": true, "audio": true } },
            "execution": { "codeExecution": true, "sandboxed": true, "maxIterations": 3, "maxExecutionTime": 3 },
            "humanInTheLoop": { "supported": true, "approvals": true, "interventions": true, "feedback": true, "interrupts": true, "approveWithEdits": true },
            "custom": { "anything": [1, null] },
        })
    }

    #[test]
    fn every_described_member_is_kept_and_given_back() {
        let (capabilities, warnings) = AgentCapabilities::decode_value(everything()).unwrap();
        assert_eq!(warnings, []);
        assert_eq!(serde_json::to_value(&capabilities).unwrap(), everything());
        assert_eq!(serde_json::to_value(AgentCapabilities::default()).unwrap(), json!({}));
    }

    #[test]
    fn a_newer_declaration_is_taken_without_what_is_new_in_it() {
        let newer = json!({ "telepathy": {}, "tools": { "supported": false, "mindReading": true } });
        let (capabilities, warnings) = AgentCapabilities::decode_value(newer).unwrap();
        assert_eq!(capabilities.tools.unwrap().supported, Some(false));
        let paths: Vec<_> = warnings.into_iter().filter_map(|w| w.path).collect();
        assert_eq!(paths, ["/telepathy", "/tools/mindReading"]);
    }

    #[test]
    fn a_malformed_declaration_is_refused_with_its_place() {
        for (bad, path) in [
            (json!({ "reasoning": { "supported": "yes" } }), "/reasoning/supported"),
            (json!({ "execution": { "maxIterations": -1 } }), "/execution/maxIterations"),
            (json!({ "tools": { "items": [{ "name": "t" }] } }), "/tools/items/0/description"),
            (json!({ "identity": null }), "/identity"),
            (json!([]), "/"),
        ] {
            assert_eq!(AgentCapabilities::decode_value(bad).unwrap_err().path, path);
        }
    }
}
