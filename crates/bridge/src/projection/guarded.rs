//! The last look at what leaves: nothing that a conforming client would reject.
//!
//! What a driver writes is checked when it is written, and an upstream's events before they are taken, so that nothing is
//! refused here. This holds for logs of any origin all the same, and a log that was written wrong costs its readers an
//! event, and never the stream.

use runwire_agui::producer::Refused;
use runwire_agui::{Event, RunFinished, RunFinishedOutcome, RunStarted};
use runwire_frame::ErrorCode;

use super::Projection;

impl Projection {
    /// The events that a client takes. One that it would reject is left out, with a warning; the start and the end of a run
    /// are told without what made them illegal.
    pub(super) fn guarded(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut out = Vec::with_capacity(events.len());
        for event in events {
            let plain = match &event {
                Event::RunStarted(started) => Some(plain_start(started).into()),
                Event::RunFinished(finished) => Some(plain_end(finished).into()),
                _ => None,
            };
            let event_type = event.event_type();
            let Err(refused) = self.admit(event, &mut out) else { continue };
            self.warnings.push(format!("a {event_type} of the log was not told as it is there: {}", refused.violation));
            match plain {
                Some(start @ Event::RunStarted(_)) if !self.guard.run_is_open() => {
                    let _ = self.admit(start, &mut out);
                }
                Some(end @ Event::RunFinished(_)) if self.guard.run_is_open() => {
                    out.extend(self.guard.close_open());
                    if self.admit(end, &mut out).is_err() {
                        // What the run came to cannot be told. That it is over has to be.
                        let code = ErrorCode::InternalError.as_str();
                        out.extend(self.guard.fail("the run's ending cannot be told", Some(code), None));
                    }
                }
                _ => {}
            }
        }
        out
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
