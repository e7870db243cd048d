//! Answers to interrupts: what a suspended run waits for, and which entries of an input's `resume` answer it
//! (basic/patterns/interrupt-resume, "Resuming").

use std::collections::HashSet;

use runwire_agui::{Interrupt, ResumeStatus, RunAgentInput};
use runwire_bridge::Recorder;
use runwire_frame::{NoticeLevel, Suspend, Timestamp};
use serde_json::{Map, Value};

use crate::request::list;

/// The interrupts that a suspended run waits for. Whatever has an id has to be answered, also when a driver wrote more
/// into its contract than an interrupt has.
pub(crate) fn asked(suspend: &Suspend) -> Vec<Interrupt> {
    let interrupts = suspend.resume_contract.get("interrupts").and_then(Value::as_array);
    let read = |interrupt: &Value| {
        let whole = serde_json::from_value(interrupt.clone()).ok();
        whole.or_else(|| Some(Interrupt::new(interrupt.get("id")?.as_str()?, String::new())))
    };
    interrupts.into_iter().flatten().filter_map(read).collect()
}

/// One of these interrupts that the input resolves although it has expired. It can be given up, but not answered.
pub(crate) fn expired<'a>(
    interrupts: &'a [Interrupt],
    input: &RunAgentInput,
    now_unix_millis: i64,
) -> Option<&'a Interrupt> {
    let resolved = |interrupt: &&Interrupt| {
        let mut entries = input.resume().iter();
        entries.any(|entry| entry.interrupt_id == interrupt.id && entry.status == ResumeStatus::Resolved)
    };
    interrupts.iter().filter(resolved).find(|interrupt| interrupt.has_expired(now_unix_millis))
}

/// The interrupt that more than one entry names.
pub(crate) fn repeated(input: &RunAgentInput) -> Option<&str> {
    let mut named = HashSet::new();
    input.resume().iter().map(|entry| &*entry.interrupt_id).find(|id| !named.insert(*id))
}

/// Those of these interrupts that the input does not answer.
pub(crate) fn unanswered(open: &[String], input: &RunAgentInput) -> Vec<String> {
    let answered: HashSet<&str> = input.resume().iter().map(|entry| &*entry.interrupt_id).collect();
    open.iter().filter(|id| !answered.contains(id.as_str())).cloned().collect()
}

/// The interrupts that an input's `resume` named although nothing waits for them. Their entries were taken out of it.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(Vec<String>);

impl LeftOut {
    /// Takes the entries out of the input that answer none of these interrupts, and says so in the operator's log.
    pub(crate) fn take(input: &mut RunAgentInput, open: &[String]) -> LeftOut {
        let open: HashSet<&str> = open.iter().map(String::as_str).collect();
        let mut left_out = Vec::new();
        if let Some(entries) = &mut input.resume {
            entries.retain(|entry| {
                let answers = open.contains(&*entry.interrupt_id);
                if !answers {
                    left_out.push(entry.interrupt_id.clone());
                }
                answers
            });
        }
        let left_out = LeftOut(left_out);
        if let Some(what) = left_out.sentence() {
            tracing::warn!(session_id = %input.thread_id, exchange_id = %input.run_id, "{what}");
        }
        left_out
    }

    /// Tells the run's readers of them, if there are any.
    pub(crate) fn tell(&self, recorder: &mut Recorder, now: Timestamp) {
        if let Some(what) = self.sentence() {
            let ids = Map::from_iter([("interruptIds".to_owned(), Value::from(self.0.clone()))]);
            recorder.notice(now, NoticeLevel::Warning, "resume_entries_ignored", what, Some(ids));
        }
    }

    fn sentence(&self) -> Option<String> {
        let interrupts = list(&self.0);
        (!self.0.is_empty()).then(|| {
            format!(
                "`resume` answers {interrupts}, for which no run of this thread waits; the run goes on without that"
            )
        })
    }
}
