//! How an agent's runs wait for answers: until when, and what is done when nobody answered.

use std::time::Duration;

use runwire_agui::Interrupt;
use runwire_bridge::{ExchangeEnd, Failure, Recorder, Suspension};
use runwire_frame::{ErrorCode, NoticeLevel, Timestamp};
use serde_json::{Map, Value};

use crate::answer_schema::usable;

/// How an agent's runs wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitRule {
    /// How long a run waits that names no deadline itself. Default: for ever.
    pub answer_within: Option<Duration>,
    /// What is done at the deadline.
    pub on_deadline: OnDeadline,
}

/// What is done when a deadline passes and nobody answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OnDeadline {
    /// Every interrupt is given up, as an answer with the status `cancelled` does; the agent goes on with that. Nothing is
    /// done that nobody approved.
    #[default]
    Deny,
    /// The run fails with `TIMEOUT`.
    Fail,
    /// Every interrupt is answered with this value, which has to fit the schema of each; otherwise the run fails.
    Answer(Value),
}

/// What a run that is executed needs to know of waiting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asking {
    /// As [`WaitRule::answer_within`].
    pub answer_within: Option<Duration>,
    /// As [`Driver::judges_answers`](crate::Driver::judges_answers).
    pub judged_elsewhere: bool,
}

impl Asking {
    /// The suspension as it goes into the log: with its deadline, and with schemas that answers can be judged by.
    pub(crate) fn settle(&self, mut suspension: Suspension, recorder: &mut Recorder, now: Timestamp) -> ExchangeEnd {
        let interrupts = interrupts_in(&suspension.contract);
        for interrupt in &interrupts {
            let Some(schema) = &interrupt.response_schema else { continue };
            let Err(problem) = usable(schema) else { continue };
            let id = &interrupt.id;
            if !self.judged_elsewhere {
                let message = format!(
                    "the agent asked `{id}` with a schema for the answer that cannot be used: {problem}; the agent has to \
                     be changed"
                );
                let failure = Failure::new(ErrorCode::InternalError, message);
                return ExchangeEnd::Failed(Failure { usage: suspension.usage, ..failure });
            }
            let what = format!(
                "the agent asked `{id}` with a schema for the answer that cannot be used here: {problem}; any answer is \
                 handed on, and the agent has to judge it"
            );
            let about = Map::from_iter([("interruptId".to_owned(), Value::from(id.clone()))]);
            recorder.notice(now, NoticeLevel::Warning, "answer_schema_unusable", what, Some(about));
        }
        let own = suspension.deadline.into_iter().chain(interrupts.iter().filter_map(expiry)).min();
        suspension.deadline = own.or_else(|| {
            let within = i64::try_from(self.answer_within?.as_millis()).unwrap_or(i64::MAX);
            Some(Timestamp::from_unix_millis(now.unix_millis().saturating_add(within)))
        });
        // An upstream's interrupts are handed on as it wrote them.
        if let Some(deadline) = suspension.deadline
            && !self.judged_elsewhere
            && let Some(Value::Array(asked)) = suspension.contract.get_mut("interrupts")
        {
            for interrupt in asked.iter_mut().filter_map(Value::as_object_mut) {
                interrupt.entry("expiresAt").or_insert_with(|| deadline.to_string().into());
            }
        }
        ExchangeEnd::Suspended(suspension)
    }
}

fn expiry(interrupt: &Interrupt) -> Option<Timestamp> {
    interrupt.expires_unix_millis().map(Timestamp::from_unix_millis)
}

/// What has been proven to be there by whoever judged the suspension.
fn interrupts_in(contract: &Map<String, Value>) -> Vec<Interrupt> {
    contract.get("interrupts").and_then(|given| serde_json::from_value(given.clone()).ok()).unwrap_or_default()
}

/// When waiting ends: the deadline, or the time at which the first of the interrupts expires, whichever is earlier.
pub(crate) fn deadline(suspend: &runwire_frame::Suspend) -> Option<Timestamp> {
    let interrupts = crate::answers::asked(suspend);
    suspend.deadline_at.into_iter().chain(interrupts.iter().filter_map(expiry)).min()
}
