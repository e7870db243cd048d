//! A small random driver: it walks a run from its start to one of its ends and writes a legal log.

use proptest::prelude::*;
use runwire_frame::RunStatus::{Cancelled, Cancelling, Completed, Failed, Queued, Retrying, Running, Suspended};
use runwire_frame::{EndStatus, Frame, SegmentKind, SegmentStatus};

use crate::run_log::*;

/// Each number decides one thing of the walk.
pub fn choices() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 2..50)
}

/// The log of the run that these choices lead through.
pub fn log(choices: &[u8]) -> Vec<Frame> {
    let (first, rest) = choices.split_first().expect("a walk has two choices at least");
    let (last, steps) = rest.split_last().expect("a walk has two choices at least");
    let mut walk = Walk { entries: vec![start(1)], open: Vec::new(), opened: 0, attempt: 1 };
    if first % 3 == 1 {
        walk.entries.push(notice());
    }
    if first % 16 == 2 {
        walk.cancel(Queued);
        return numbered(walk.entries);
    }
    walk.entries.push(status(Queued, Running));
    for &choice in steps {
        if walk.step(choice) {
            return numbered(walk.entries);
        }
    }
    walk.finish(*last);
    numbered(walk.entries)
}

struct Walk {
    entries: Vec<Entry>,
    open: Vec<(String, SegmentKind)>,
    opened: u8,
    attempt: u32,
}

impl Walk {
    /// Goes one step. True when that ended the run.
    fn step(&mut self, choice: u8) -> bool {
        let (which, choice) = (choice % 16, choice / 16);
        match which {
            0..4 => self.open_segment(choice),
            4..9 => self.write(choice),
            9 | 10 => self.close_one(choice),
            11 => self.entries.push(notice()),
            12 => self.entries.push(error()),
            13 => return self.pause(choice),
            14 => return self.fail_and_retry(choice),
            _ if choice == 0 => {
                self.cancel(Running);
                return true;
            }
            _ => self.write(choice),
        }
        false
    }

    fn open_segment(&mut self, choice: u8) {
        let kind = SegmentKind::ALL[usize::from(choice) % SegmentKind::ALL.len()];
        let parent = choice.is_multiple_of(2).then(|| self.open.last().map(|(name, _)| name.clone())).flatten();
        let name = format!("seg_{}", self.opened);
        self.opened += 1;
        self.entries.push(open_inside(&name, kind, parent.as_deref()));
        self.open.push((name, kind));
    }

    fn write(&mut self, choice: u8) {
        if self.open.is_empty() {
            return;
        }
        let (name, kind) = &self.open[usize::from(choice) % self.open.len()];
        self.entries.push(match kind {
            SegmentKind::Message => text(name),
            SegmentKind::Reasoning => thinking(name),
            SegmentKind::Model if choice.is_multiple_of(2) => text(name),
            SegmentKind::Model => thinking(name),
            SegmentKind::Tool if choice.is_multiple_of(2) => call(name),
            SegmentKind::Tool => result(name),
            SegmentKind::Step | SegmentKind::Agent => return,
        });
    }

    fn close_one(&mut self, choice: u8) {
        if !self.open.is_empty() {
            let (name, _) = self.open.remove(usize::from(choice) % self.open.len());
            self.entries.push(close(&name));
        }
    }

    fn close_all(&mut self, as_what: SegmentStatus) {
        for (name, _) in self.open.drain(..).rev() {
            self.entries.push(close_as(&name, as_what));
        }
    }

    fn pause(&mut self, choice: u8) -> bool {
        self.entries.extend([suspend(), status(Running, Suspended)]);
        if choice == 1 {
            self.cancel(Suspended);
            return true;
        }
        self.entries.extend([resume(), status(Suspended, Running)]);
        false
    }

    fn fail_and_retry(&mut self, choice: u8) -> bool {
        self.entries.push(error());
        self.close_all(SegmentStatus::Abandoned);
        self.entries.push(status(Running, Retrying));
        if choice == 1 {
            self.cancel(Retrying);
            return true;
        }
        if choice % 3 == 2 {
            self.entries.push(notice());
        }
        self.attempt += 1;
        self.entries.extend([start(self.attempt), status(Retrying, Running)]);
        false
    }

    fn cancel(&mut self, from: runwire_frame::RunStatus) {
        self.entries.push(status(from, Cancelling));
        self.close_all(SegmentStatus::Cancelled);
        self.entries.extend([status(Cancelling, Cancelled), end(EndStatus::Cancelled)]);
    }

    fn finish(&mut self, choice: u8) {
        match choice % 4 {
            0 => {
                self.entries.push(error());
                self.close_all(SegmentStatus::Failed);
                self.entries.extend([status(Running, Failed), end(EndStatus::Failed)]);
            }
            1 => {
                self.close_all(SegmentStatus::Cancelled);
                self.entries.extend([status(Running, Cancelled), end(EndStatus::Cancelled)]);
            }
            2 => self.cancel(Running),
            _ => {
                self.close_all(SegmentStatus::Completed);
                self.entries.extend([status(Running, Completed), end(EndStatus::Completed)]);
            }
        }
    }
}
