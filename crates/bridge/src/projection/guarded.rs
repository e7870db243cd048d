//! The last look at what leaves: nothing that a conforming client would reject, and nothing kept from it in silence.
//!
//! What a driver writes is checked when it is written, and an upstream's events before they are taken, so that nothing is
//! refused here. This holds for logs of any origin all the same. A log that was written wrong, or is told wrong, never costs
//! its readers the stream; and what it costs them is said in its place, with what was to be told: a run that ends as a
//! success must not have lost a word that nobody misses. How it ended stays as the log has it, because that is what the
//! run's record and its frames say to everybody else.

use runwire_agui::producer::Refused;
use runwire_agui::{Custom, Event, RunFinished, RunFinishedOutcome, RunStarted, Violation};
use runwire_frame::{ErrorCode, NoticeLevel};
use serde_json::json;

use super::{NOTICE, Projection};

/// The code of the notice that stands for what could not be told.
pub(super) const NOT_TOLD: &str = "event_not_told";

impl Projection {
    /// The events that a client takes. In place of one that it would reject stands a notice that holds it; the start and the
    /// end of a run are told without what made them illegal.
    pub(super) fn guarded(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut out = Vec::with_capacity(events.len());
        for event in events {
            // The guard keeps what it judges, and what it refuses has to be told all the same.
            let copy = event.clone();
            let Err(refused) = self.admit(event, &mut out) else { continue };
            self.warnings.push(format!(
                "a {} of the log was not told as it is there: {}",
                copy.event_type(),
                refused.violation
            ));
            match &copy {
                Event::RunStarted(started) if !self.guard.run_is_open() => {
                    let _ = self.admit(plain_start(started).into(), &mut out);
                    self.not_told(&copy, &refused.violation, &mut out);
                }
                Event::RunFinished(finished) if self.guard.run_is_open() => {
                    self.not_told(&copy, &refused.violation, &mut out);
                    out.extend(self.guard.close_open());
                    if self.admit(plain_end(finished).into(), &mut out).is_err() {
                        // What the run came to cannot be told. That it is over has to be.
                        let code = ErrorCode::InternalError.as_str();
                        out.extend(self.guard.fail("the run's ending cannot be told", Some(code), None));
                    }
                }
                _ => self.not_told(&copy, &refused.violation, &mut out),
            }
        }
        out
    }

    /// Says in its place what a client would have rejected. Between two runs there is no place for that.
    fn not_told(&mut self, event: &Event, violation: &Violation, out: &mut Vec<Event>) {
        if !self.guard.run_is_open() {
            return;
        }
        let value = json!({
            "level": NoticeLevel::Warning.as_str(),
            "code": NOT_TOLD,
            "message": format!(
                "a {} of the run's log could not be told, because a client would reject it: {}",
                event.event_type(),
                violation.message
            ),
            "attributes": { "rule": violation.rule.as_str(), "event": event.to_value() },
        });
        // A custom event is refused by no rule of order, and an event's members were JSON before.
        let _ = self.admit(Custom::new(NOTICE, value).into(), out);
    }

    fn admit(&mut self, event: Event, out: &mut Vec<Event>) -> Result<(), Refused> {
        out.extend(self.guard.push(event)?);
        Ok(())
    }
}

fn plain_start(started: &RunStarted) -> RunStarted {
    let mut plain = RunStarted::new(started.thread_id.as_str(), started.run_id.as_str());
    plain.protocol_version.clone_from(&started.protocol_version);
    plain
}

fn plain_end(finished: &RunFinished) -> RunFinished {
    let mut plain = RunFinished::new(finished.thread_id.as_str(), finished.run_id.as_str());
    plain.outcome = finished.outcome.clone().map(|outcome| match outcome {
        RunFinishedOutcome::Success { .. } => RunFinishedOutcome::success(),
        other => other,
    });
    plain
}
