//! Answers to interrupts: what a suspended run waits for, and which entries of an input's `resume` answer it
//! (basic/patterns/interrupt-resume, "Resuming").

use std::collections::HashSet;

use runwire_agui::{Interrupt, ResumeEntry, ResumeStatus, RunAgentInput};
use runwire_bridge::{Recorder, asked_input};
use runwire_frame::{NoticeLevel, Resume, Suspend, Timestamp};
use serde_json::{Map, Value};

use crate::answer_schema::{Breach, breach};
use crate::request::{CreateRunError, list};

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

/// Refuses answers that these interrupts cannot be answered with: too few of them, too late, or not what was asked for.
pub(crate) fn judge(
    run_id: &str,
    interrupts: &[Interrupt],
    answers: &[ResumeEntry],
    now_unix_millis: i64,
) -> Result<(), CreateRunError> {
    let run_id = run_id.to_owned();
    let answer_to = |interrupt: &Interrupt| answers.iter().find(|entry| entry.interrupt_id == interrupt.id);
    let unanswered = interrupts.iter().filter(|interrupt| answer_to(interrupt).is_none());
    let missing: Vec<String> = unanswered.map(|interrupt| interrupt.id.clone()).collect();
    if !missing.is_empty() {
        return Err(CreateRunError::ResumeIncomplete { run_id, missing });
    }
    let resolved =
        |interrupt: &&Interrupt| answer_to(interrupt).is_some_and(|entry| entry.status == ResumeStatus::Resolved);
    // It can be given up, but not answered.
    if let Some(late) = interrupts.iter().filter(resolved).find(|interrupt| interrupt.has_expired(now_unix_millis)) {
        return Err(CreateRunError::AnswerTooLate {
            run_id,
            interrupt: late.id.clone(),
            expires_at: late.expires_at.clone().unwrap_or_default(),
        });
    }
    match breach(interrupts, answers) {
        Some(Breach { interrupt, path, expected }) => {
            Err(CreateRunError::AnswerBreaksSchema { run_id, interrupt, path, expected })
        }
        None => Ok(()),
    }
}

/// The interrupt that more than one entry names.
pub(crate) fn repeated(answers: &[ResumeEntry]) -> Option<&str> {
    let mut named = HashSet::new();
    answers.iter().map(|entry| &*entry.interrupt_id).find(|id| !named.insert(*id))
}

/// Answers that a run went on with.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub resolved_by: Option<String>,
    /// The exchange that they began.
    pub exchange_id: String,
    pub entries: Vec<ResumeEntry>,
}

impl Resolved {
    /// What a `resume` frame says, if it went on with answers.
    pub(crate) fn of(resume: &Resume) -> Option<Resolved> {
        let agui = resume.extra.get("agui")?;
        let entries = agui.as_object().and_then(asked_input)?.get("resume")?.clone();
        let entries: Vec<ResumeEntry> = serde_json::from_value(entries).ok()?;
        let exchange_id = agui.get("runId").and_then(Value::as_str).unwrap_or_default().to_owned();
        let resolved_by = resume.resolved_by.clone();
        (!entries.is_empty()).then_some(Resolved { resolved_by, exchange_id, entries })
    }

    /// Whether these answers answer something that was answered by then.
    pub(crate) fn concerns(&self, answers: &[ResumeEntry]) -> bool {
        self.entries.iter().any(|entry| answers.iter().any(|answer| answer.interrupt_id == entry.interrupt_id))
    }

    /// Whether these are the answers. More of them were left out then as now.
    pub(crate) fn is_by(&self, answers: &[ResumeEntry]) -> bool {
        self.entries.iter().all(|entry| {
            answers.iter().any(|answer| {
                (&answer.interrupt_id, answer.status, &answer.payload)
                    == (&entry.interrupt_id, entry.status, &entry.payload)
            })
        })
    }
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
            tracing::warn!(session_id = input.thread_id, exchange_id = input.run_id, "{what}");
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
