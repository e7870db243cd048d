//! What a client sends: a run input, made fit for its agent before a byte of it leaves (basic/processing, "Outgoing
//! material").
//!
//! The order is that of what comes in: retired shapes are translated, then enforcement strips what 1.0 does not describe
//! and refuses what is malformed. Then what the client owes is checked against what the thread waits for, an agent that is
//! known to be older gets the shapes that it reads, and activity messages, which never travel back, are taken out.

mod agent_version;
mod downgrade;
mod expiry;
mod older_agent;

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize as _;
use serde_json::Value;

pub use self::agent_version::{AgentVersion, UnknownAgentVersion};
pub(crate) use self::older_agent::OlderAgent;
use crate::enforce::{Enforcement, enforce};
use crate::input::RunAgentInput;
use crate::message::Message;
use crate::one_line::sentence;
use crate::outcome::{Interrupt, ResumeStatus};
use crate::pending::{Pending, PendingToolCall};
use crate::retired;
use crate::schema;
use crate::version::PROTOCOL_VERSION;
use crate::warning::{MOST_WARNINGS, Warning, Warnings, and_more, bounded};

/// Makes run inputs fit to be sent.
///
/// ```
/// use runwire_agui::Outgoing;
/// use serde_json::json;
///
/// let input = json!({ "threadId": "t", "runId": "r", "messages": [], "mood": "fine" });
/// let prepared = Outgoing::default().prepare(input)?;
/// assert_eq!(prepared.input.protocol_version.as_deref(), Some("1.0"));
/// assert_eq!(prepared.warnings[0].path.as_deref(), Some("/mood"));
/// # Ok::<(), runwire_agui::OutgoingError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Outgoing<'a> {
    /// The version that the agent is known to speak.
    pub agent: AgentVersion,
    /// What the thread waits for. `None` when nobody has kept account of it: then it cannot be checked whether the input
    /// answers everything, and a tool call that the messages leave unanswered is only warned of.
    pub pending: Option<&'a Pending>,
    /// The time that `expiresAt` is held against, in milliseconds since 1970 in UTC. Looked at only where `pending` is given;
    /// `i64::MIN` leaves expiry unjudged.
    pub now_unix_millis: i64,
}

/// An input that may be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedInput {
    /// What to send, as JSON.
    pub input: RunAgentInput,
    /// What the developer should know, in order: of each rule at most [`MOST_WARNINGS`], and one that says how many more
    /// there are.
    ///
    /// [`MOST_WARNINGS`]: crate::MOST_WARNINGS
    pub warnings: Vec<OutgoingWarning>,
}

/// Why a warning about an input was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutgoingRule {
    /// Something that 1.0 does not describe was stripped (basic/processing, "Outgoing material").
    Unrecognised,
    /// A `null` in a place that has none was left out (basic/versioning, "Retired shapes").
    RetiredNull,
    /// Something was left out because the agent is known to be older (basic/versioning, "Downgrading").
    LossyDowngrade,
    /// The messages hold a call of one of the input's tools that nothing answers (events/tool-calls, "Frontend tools").
    UnansweredToolCall,
}

impl OutgoingRule {
    /// The rule's stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unrecognised => "unrecognised",
            Self::RetiredNull => "retired-null",
            Self::LossyDowngrade => "lossy-downgrade",
            Self::UnansweredToolCall => "unanswered-tool-call",
        }
    }
}

/// Something a developer should know about an input that is sent all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingWarning {
    /// Why it was given.
    pub rule: OutgoingRule,
    /// What was found where, and what was done. One line of at most 4096 bytes, whatever stands in the input.
    pub message: String,
    /// JSON Pointer of the place in the input, when it is about one; bounded as that of [`Warning`].
    ///
    /// [`Warning`]: crate::Warning
    pub path: Option<String>,
}

impl OutgoingWarning {
    /// A warning in which text of the input may stand.
    fn new(rule: OutgoingRule, message: String, path: Option<String>) -> Self {
        Self { rule, message: sentence(message), path: path.map(bounded) }
    }
}

impl fmt::Display for OutgoingWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Why an input must not be sent. Nothing has been sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutgoingError {
    /// A member that the schema describes holds something else (basic/processing, "Outgoing material").
    #[error("the run input is malformed at {path}: expected {expected}, found {found}; nothing was sent")]
    Malformed {
        /// JSON Pointer of the member; `/` for the input itself.
        path: String,
        /// What the schema wants there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An interrupt of the run being continued has no entry (patterns/interrupt-resume, "Resuming").
    #[error(
        "the thread waits for an answer to {}, and `resume` has no entry for {}; answer each, or give it up with status \
         `cancelled`",
        list(.interrupts),
        if .interrupts.len() == 1 { "it" } else { "them" }
    )]
    Uncovered {
        /// The interrupts, in the order they were raised.
        interrupts: Vec<String>,
    },
    /// An entry resolves an interrupt that has expired (patterns/interrupt-resume, "Resuming").
    #[error(
        "interrupt '{interrupt}' expired at {expires_at} and can no longer be answered; give it up with status `cancelled`"
    )]
    Expired {
        /// The interrupt.
        interrupt: String,
        /// Its `expiresAt`, as it came.
        expires_at: String,
    },
    /// An entry names an interrupt that the run being continued did not raise (patterns/interrupt-resume, "Resuming").
    #[error("`resume` answers interrupt '{interrupt}', which does not wait on this thread; what waits is {}", list(.waiting))]
    UnknownInterrupt {
        /// What the entry names.
        interrupt: String,
        /// The interrupts that can be answered.
        waiting: Vec<String>,
    },
    /// Two entries answer one interrupt (patterns/interrupt-resume, "Resuming": one entry for each).
    #[error("`resume` answers interrupt '{interrupt}' twice; one entry decides it")]
    AnsweredTwice {
        /// The interrupt.
        interrupt: String,
    },
    /// A resuming run is on another thread (patterns/interrupt-resume, "Resuming": thread continuity).
    #[error("`resume` is sent on thread '{sent}', but what waits was asked on thread '{asked}'; the answer goes there")]
    OtherThread {
        /// The input's thread.
        sent: String,
        /// The thread of the interrupts.
        asked: String,
    },
    /// A frontend tool call of the last run has no tool message (events/tool-calls, "Frontend tools").
    #[error(
        "the last run called {}, and no tool message answers {}; a failure (`error`) and a refusal are answers too",
        list_calls(.calls),
        if .calls.len() == 1 { "it" } else { "them" }
    )]
    UnansweredToolCalls {
        /// The calls, in the order they were made.
        calls: Vec<PendingToolCall>,
    },
}

impl Outgoing<'_> {
    /// Makes the input fit to be sent.
    ///
    /// # Errors
    ///
    /// When it must not be sent. Which rules are checked: [`OutgoingError`].
    pub fn prepare(&self, mut input: Value) -> Result<PreparedInput, OutgoingError> {
        omit_null_props(&mut input);
        let mut nulls = Vec::new();
        retired::drop_null_state(&mut input, &mut nulls);
        retired::omit_nulls(&mut input, "", 0, &mut nulls);
        // A retired part is translated with all that it holds, and nobody has to be told of that.
        retired::translate_parts_of_input(&mut input, "", 0, &mut Vec::new());
        let mut warnings = all_told(OutgoingRule::RetiredNull, |warnings| warnings.extend(nulls));
        let Enforcement { verdict, notes } = enforce(&mut input, &schema::RUN_AGENT_INPUT, false);
        warnings.extend(all_told(OutgoingRule::Unrecognised, |warnings| notes.warn(0, "The run input", warnings)));
        verdict.map_err(|malformed| OutgoingError::Malformed {
            path: malformed.path,
            expected: malformed.expected,
            found: malformed.found,
        })?;
        let mut input = RunAgentInput::deserialize(input).map_err(|error| OutgoingError::Malformed {
            path: "/".to_owned(),
            expected: "a run input".to_owned(),
            found: error.to_string(),
        })?;
        let mut of_check = Vec::new();
        self.check(&input, &mut of_check)?;
        input.protocol_version = Some(PROTOCOL_VERSION.to_owned());
        let mut lossy = Vec::new();
        downgrade::downgrade(&mut input, self.agent, &mut lossy);
        warnings.extend(first_of(of_check));
        warnings.extend(first_of(lossy));
        input.messages.retain(|message| !matches!(message, Message::Activity(_)));
        Ok(PreparedInput { input, warnings })
    }

    /// Makes an input that was built or read before fit to be sent: the same rules, as a value may be `null` where the
    /// schema has none.
    ///
    /// # Errors
    ///
    /// As [`Outgoing::prepare`].
    pub fn prepare_input(&self, input: &RunAgentInput) -> Result<PreparedInput, OutgoingError> {
        self.prepare(serde_json::to_value(input).expect("a run input is plain JSON, whose keys are strings"))
    }

    fn check(&self, input: &RunAgentInput, warnings: &mut Vec<OutgoingWarning>) -> Result<(), OutgoingError> {
        let mut answered = HashSet::new();
        if let Some(twice) = input.resume().iter().find(|entry| !answered.insert(entry.interrupt_id.as_str())) {
            return Err(OutgoingError::AnsweredTwice { interrupt: twice.interrupt_id.clone() });
        }
        let Some(pending) = self.pending else {
            warn_of_unanswered(input, warnings);
            return Ok(());
        };
        if let Some(asked) = pending.thread_id().filter(|asked| *asked != input.thread_id) {
            // Another thread has other business, unless it is meant to answer for this one.
            return match input.resume() {
                [] => Ok(()),
                _ => Err(OutgoingError::OtherThread { sent: input.thread_id.clone(), asked: asked.to_owned() }),
            };
        }
        self.check_resume(input, pending, &answered)?;
        check_tool_calls(input, pending)
    }

    fn check_resume(
        &self,
        input: &RunAgentInput,
        pending: &Pending,
        answered: &HashSet<&str>,
    ) -> Result<(), OutgoingError> {
        let ids = |interrupts: &[Interrupt]| interrupts.iter().map(|interrupt| interrupt.id.clone()).collect();
        for entry in input.resume() {
            let Some(interrupt) = pending.answerable().iter().find(|interrupt| interrupt.id == entry.interrupt_id)
            else {
                return Err(OutgoingError::UnknownInterrupt {
                    interrupt: entry.interrupt_id.clone(),
                    waiting: ids(pending.answerable()),
                });
            };
            if entry.status == ResumeStatus::Resolved && interrupt.has_expired(self.now_unix_millis) {
                return Err(OutgoingError::Expired {
                    interrupt: interrupt.id.clone(),
                    expires_at: interrupt.expires_at.clone().unwrap_or_default(),
                });
            }
        }
        let uncovered: Vec<String> = pending
            .interrupts()
            .iter()
            .filter(|interrupt| !answered.contains(interrupt.id.as_str()))
            .map(|interrupt| interrupt.id.clone())
            .collect();
        if uncovered.is_empty() { Ok(()) } else { Err(OutgoingError::Uncovered { interrupts: uncovered }) }
    }
}

/// Every call that waits for the application has its tool message. A call behind an interrupt has its resume entry.
///
/// Which calls wait for the application: those that the run named, and of the derived ones those of tools that the
/// application offers. The others may be the agent's own, whose results need not be in the stream.
fn check_tool_calls(input: &RunAgentInput, pending: &Pending) -> Result<(), OutgoingError> {
    let answers = answers(input);
    let offers = |call: &PendingToolCall| match call.advertised {
        Some(advertised) => advertised,
        None => input.tools().iter().any(|tool| tool.name == call.name),
    };
    let calls: Vec<PendingToolCall> = pending
        .tool_calls()
        .iter()
        .filter(|call| call.interrupt_id.is_none() && (call.named || offers(call)))
        .filter(|call| !answers.contains(call.id.as_str()))
        .cloned()
        .collect();
    if calls.is_empty() { Ok(()) } else { Err(OutgoingError::UnansweredToolCalls { calls }) }
}

/// Without an account of the thread, the messages alone say that a call of an offered tool has no answer. The run that
/// made it may have been cancelled or have failed, so it is no error; an input with answers to interrupts may answer by
/// them.
fn warn_of_unanswered(input: &RunAgentInput, warnings: &mut Vec<OutgoingWarning>) {
    if !input.resume().is_empty() {
        return;
    }
    let answers = answers(input);
    let offered: HashSet<&str> = input.tools().iter().map(|tool| tool.name.as_str()).collect();
    for (index, message) in input.messages.iter().enumerate() {
        for (place, call) in message.tool_calls().iter().enumerate() {
            let name = call.function.name.as_str();
            if offered.contains(name) && !answers.contains(call.id.as_str()) {
                let message = format!(
                    "No tool message answers call '{}' of the frontend tool '{name}'; a thread that goes on answers \
                     every one of them, and many models refuse a history that does not.",
                    call.id
                );
                let path = format!("/messages/{index}/toolCalls/{place}");
                warnings.push(OutgoingWarning::new(OutgoingRule::UnansweredToolCall, message, Some(path)));
            }
        }
    }
}

/// The tool calls that the input's messages answer.
fn answers(input: &RunAgentInput) -> HashSet<&str> {
    input
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool(message) => Some(message.tool_call_id.as_str()),
            _ => None,
        })
        .collect()
}

/// A whole `null` means that the field is omitted, and says nothing that its absence does not (basic/run-input,
/// "forwardedProps").
fn omit_null_props(input: &mut Value) {
    if let Value::Object(members) = input
        && members.get("forwardedProps").is_some_and(Value::is_null)
    {
        members.shift_remove("forwardedProps");
    }
}

/// The warnings of one rule, as many as are told.
fn all_told(rule: OutgoingRule, of: impl FnOnce(&mut Warnings)) -> Vec<OutgoingWarning> {
    let mut warnings = Warnings::of("input");
    of(&mut warnings);
    let told = |warning: Warning| OutgoingWarning { rule, message: warning.message, path: warning.path };
    warnings.take().into_iter().map(told).collect()
}

/// Of the warnings of one rule as many as are told, and an account of the rest.
fn first_of(mut warnings: Vec<OutgoingWarning>) -> Vec<OutgoingWarning> {
    if let Some(left_out @ 1..) = warnings.len().checked_sub(MOST_WARNINGS) {
        warnings.truncate(MOST_WARNINGS);
        let rule = warnings[0].rule;
        warnings.push(OutgoingWarning { rule, message: and_more(left_out, "input"), path: None });
    }
    warnings
}

fn list(ids: &[String]) -> String {
    match ids {
        [] => "nothing".to_owned(),
        ids => ids.iter().map(|id| format!("interrupt '{id}'")).collect::<Vec<_>>().join(", "),
    }
}

fn list_calls(calls: &[PendingToolCall]) -> String {
    let said = |call: &PendingToolCall| match call.name.as_str() {
        "" => format!("'{}'", call.id),
        name => format!("the tool '{name}' ('{}')", call.id),
    };
    calls.iter().map(said).collect::<Vec<_>>().join(", ")
}
