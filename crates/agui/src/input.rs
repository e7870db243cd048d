//! The one message that travels from the application to the agent (basic/run-input).

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::enforce::{Enforcement, enforce};
use crate::message::Message;
use crate::object::object;
use crate::outcome::ResumeEntry;
use crate::retired;
use crate::schema;
use crate::warning::{Warning, Warnings};

object! {
    /// A request to run an agent.
    ///
    /// Lists that are absent mean the same as empty ones; [`RunAgentInput::tools`] and its like read both alike. They
    /// are kept apart so that an input is echoed as it came.
    RunAgentInput {
        required {
            /// The conversation that the run belongs to.
            thread_id: String,
            /// The run that is asked for.
            run_id: String,
            /// The conversation so far, in order.
            messages: Vec<Message>,
        }
        optional {
            /// The version that the consumer speaks; absent means a consumer from before 1.0.
            protocol_version: String,
            /// The run that spawned this one.
            parent_run_id: String,
            /// The state to start from: any JSON value but `null`; absent means the empty object.
            state: Value,
            /// The tools that the application executes itself.
            tools: Vec<Tool>,
            /// Information to put before the model.
            context: Vec<Context>,
            /// The application's own values for the agent, passed through untouched.
            forwarded_props: Value,
            /// Answers to the interrupts of the run that this one continues.
            resume: Vec<ResumeEntry>,
        }
    }
}

object! {
    /// A tool that the agent may call and the application executes.
    Tool {
        required {
            /// The name that the agent calls it by.
            name: String,
            /// What it does, for the agent to choose.
            description: String,
        }
        optional {
            /// A JSON Schema of its arguments, carried as it is.
            parameters: Value,
            /// Extra information, open by key.
            metadata: Map<String, Value>,
        }
    }
}

object! {
    /// A named piece of information for the model, beside the conversation.
    Context {
        required {
            /// What it is.
            description: String,
            /// The information.
            value: String,
        }
    }
}

/// An input that cannot be run (basic/run-input, "Error Handling"). The run does not start, and the transport refuses
/// the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The bytes are not a JSON document.
    #[error("the run input is not JSON: {0}")]
    NotJson(String),
    /// A member that the schema describes holds something else.
    #[error("the run input is malformed at {path}: expected {expected}, found {found}")]
    Malformed {
        /// JSON Pointer of the member; `/` for the input itself.
        path: String,
        /// What the schema wants there.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl RunAgentInput {
    /// Reads an input from a client of any age.
    ///
    /// Members that 1.0 does not describe are left out, and so are explicit `null`s in optional places from a client
    /// of before 1.0 (it sends no `protocolVersion`); each is named in a warning. Retired shapes, such as `binary`
    /// content parts, are translated. A `null` state is an absent one, because clients send the value of their last
    /// `STATE_SNAPSHOT` back, and that may be `null`.
    ///
    /// # Errors
    ///
    /// When the bytes are not JSON, or a described member is missing or malformed.
    pub fn decode(json: &[u8]) -> Result<(Self, Vec<Warning>), InputError> {
        let value = serde_json::from_slice(json).map_err(|error| InputError::NotJson(error.to_string()))?;
        Self::decode_value(value)
    }

    /// Reads an input that is parsed already, by the rules of [`RunAgentInput::decode`].
    ///
    /// # Errors
    ///
    /// When a described member is missing or malformed.
    pub fn decode_value(mut value: Value) -> Result<(Self, Vec<Warning>), InputError> {
        let mut retired = Vec::new();
        retired::drop_null_state(&mut value, &mut retired);
        retired::translate_input(&mut value, "", 0, &mut retired);
        let mut warnings = Warnings::of("input");
        warnings.extend(retired);
        let from_before_1_0 = value.get("protocolVersion").is_none();
        let Enforcement { verdict, notes } = enforce(&mut value, &schema::RUN_AGENT_INPUT, from_before_1_0);
        notes.warn(0, "the run input", &mut warnings);
        verdict.map_err(|malformed| InputError::Malformed {
            path: malformed.path,
            expected: malformed.expected,
            found: malformed.found,
        })?;
        let input = Self::deserialize(value).map_err(|error| InputError::Malformed {
            path: "/".to_owned(),
            expected: "a run input".to_owned(),
            found: error.to_string(),
        })?;
        Ok((input, warnings.take()))
    }

    /// The tools; an absent list is an empty one.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        self.tools.as_deref().unwrap_or_default()
    }

    /// The context; an absent list is an empty one.
    #[must_use]
    pub fn context(&self) -> &[Context] {
        self.context.as_deref().unwrap_or_default()
    }

    /// The resume entries; an absent list is an empty one.
    #[must_use]
    pub fn resume(&self) -> &[ResumeEntry] {
        self.resume.as_deref().unwrap_or_default()
    }

    /// The state to start from: the empty object when the input carries none.
    #[must_use]
    pub fn starting_state(&self) -> Value {
        self.state.clone().unwrap_or_else(|| Value::Object(Map::new()))
    }
}
