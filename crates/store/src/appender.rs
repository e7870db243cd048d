//! Appending to a run's log.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

use crate::entry::Entry;
use crate::error::{AppendError, StorageFailure};
use crate::frames::{from_sql, to_sql};
use crate::live::Live;
use crate::progress::{Progress, Ticket};
use crate::runs::{self, Ownership};
use crate::upkeep::{self, Signal};
use crate::writer::{Queue, Work};

/// What is committed together: all of it, or none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Append {
    /// Consecutive frames, from exactly the appender's next `seq`. May be empty.
    pub frames: Vec<NewFrame>,
    /// What changes of the run's record with them.
    pub update: Option<RunUpdate>,
    /// Payloads that the frames refer to.
    pub payloads: Vec<NewPayload>,
}

/// One frame, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFrame {
    /// Its number in the run, from 1.
    pub seq: u64,
    /// Its exact bytes, without CR or LF.
    pub body: Bytes,
}

/// The whole value behind a preview. A second one for the same segment replaces the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPayload {
    /// The segment that it belongs to.
    pub segment_id: String,
    /// Its media type.
    pub content_type: String,
    /// The value.
    pub bytes: Bytes,
}

/// What changes of a run's record. What is `None` stays as it is; a JSON `null` takes a value back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunUpdate {
    /// The status, as `run.status` spells it.
    pub status: Option<String>,
    /// The attempt that starts, from 1.
    pub attempt: Option<u32>,
    /// When the first attempt started, in milliseconds since the Unix epoch.
    pub started_at: Option<i64>,
    /// When the run ended for good, in milliseconds since the Unix epoch. The append that sets it is the run's
    /// last: tails end after its frames (G6).
    pub ended_at: Option<i64>,
    /// The summed usage.
    pub usage: Option<Value>,
    /// The summed cost.
    pub cost: Option<Value>,
    /// Why the run failed.
    pub failure: Option<Value>,
    /// When the run has to be looked at although nobody asks for it, in milliseconds since the Unix epoch: of a suspended
    /// one, which [`Store::due`](crate::Store::due) finds then, its deadline; of one that is tried again, its next attempt.
    /// `Some(None)` takes that back.
    pub wakes_at: Option<Option<i64>>,
}

/// The one handle that may append to a run, until somebody else takes the run over.
///
/// From [`Store::take_ownership`](crate::Store::take_ownership). It does not keep the store open.
pub struct Appender {
    run_id: Arc<str>,
    ownership: Ownership,
    next_seq: u64,
    /// `None` once the run's last append was enqueued, so that an idle handle keeps nothing in memory.
    live: Option<Arc<Live>>,
    progress: Progress,
    queue: Arc<Queue>,
    /// Told when the run has ended, because it can be packed then.
    upkeep: Arc<Signal>,
}

impl Appender {
    pub(crate) fn new(ownership: Ownership, live: Arc<Live>, queue: Arc<Queue>, upkeep: Arc<Signal>) -> Appender {
        Appender {
            run_id: Arc::clone(live.run_id()),
            ownership,
            next_seq: ownership.head + 1,
            progress: Progress::new(ownership.head),
            live: Some(live),
            queue,
            upkeep,
        }
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The `seq` that the next frame must have.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Watches what becomes of what is enqueued.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Enqueues, without blocking or awaiting. The order of the calls is the order in the log.
    ///
    /// `Ok` means enqueued, not durable: see [`Progress`]. An append with nothing in it is `Ok` and does nothing.
    ///
    /// # Errors
    ///
    /// `WrongSeq` and `LineBreak` enqueue nothing and leave the appender as it was. `Ended` follows an append that
    /// set `ended_at`. All others are final, also those of earlier appends, which come back from here too.
    pub fn enqueue(&mut self, append: Append) -> Result<(), AppendError> {
        if let Some(error) = self.progress.failed() {
            return Err(error);
        }
        let Some(live) = &self.live else {
            return Err(AppendError::Ended);
        };
        if append.frames.is_empty() && append.update.is_none() && append.payloads.is_empty() {
            return Ok(());
        }
        let mut next = self.next_seq;
        let mut entries = Vec::with_capacity(append.frames.len());
        for NewFrame { seq, body } in append.frames {
            if seq != next {
                return Err(AppendError::WrongSeq { expected: next, got: seq });
            }
            if body.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
                return Err(AppendError::LineBreak { seq });
            }
            // Here and not on the writer thread, which all runs share.
            entries.push(Entry::new(seq, &body));
            next += 1;
        }
        let bytes = entries.iter().map(Entry::size).sum::<usize>()
            + append.payloads.iter().map(|payload| payload.bytes.len()).sum::<usize>();
        let ends = append.update.as_ref().is_some_and(|update| update.ended_at.is_some());
        let ticket = self.progress.begin(entries.last().map(Entry::seq), entries.len(), bytes);
        self.queue.push(Box::new(AppendWork {
            ownership: self.ownership,
            entries,
            update: append.update,
            payloads: append.payloads,
            ends,
            live: Arc::clone(live),
            upkeep: ends.then(|| Arc::clone(&self.upkeep)),
            ticket,
            answer: Ok(()),
        }))?;
        self.next_seq = next;
        if ends {
            self.live = None;
        }
        Ok(())
    }
}

impl fmt::Debug for Appender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appender")
            .field("run_id", &self.run_id)
            .field("epoch", &self.ownership.epoch)
            .field("next_seq", &self.next_seq)
            .finish_non_exhaustive()
    }
}

/// An append under way to the writer.
struct AppendWork {
    ownership: Ownership,
    entries: Vec<Entry>,
    update: Option<RunUpdate>,
    payloads: Vec<NewPayload>,
    ends: bool,
    live: Arc<Live>,
    /// Of the run's last append.
    upkeep: Option<Arc<Signal>>,
    ticket: Ticket,
    answer: Result<(), AppendError>,
}

impl AppendWork {
    /// The fence, and then the rows. Nothing is written before all checks are passed.
    fn write(&self, conn: &Connection) -> rusqlite::Result<Result<(), AppendError>> {
        let run = self.ownership.run;
        if let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) {
            let bodies: usize = self.entries.iter().map(|entry| entry.body_ref().len()).sum();
            let bodies = i64::try_from(bodies).unwrap_or(i64::MAX);
            // The fence and the new head in one statement, because there is one for every append of every run. No index
            // is touched by it.
            let advanced = conn
                .prepare_cached(
                    "UPDATE runs SET head = ?4, bytes = bytes + ?5
                     WHERE id = ?1 AND owner_epoch = ?2 AND head = ?3 AND ended_at IS NULL",
                )?
                .execute((run, self.ownership.epoch, to_sql(first.seq() - 1), to_sql(last.seq()), bodies))?;
            if advanced == 0 {
                let (refusal, head) = self.refusal(conn)?;
                let out_of_order = AppendError::WrongSeq { expected: head + 1, got: first.seq() };
                return Ok(Err(refusal.unwrap_or(out_of_order)));
            }
            let mut insert = conn.prepare_cached("INSERT INTO frames (run, seq, body) VALUES (?1, ?2, ?3)")?;
            for entry in &self.entries {
                insert.execute((run, to_sql(entry.seq()), entry.body_ref()))?;
            }
        } else if let (Some(refusal), _) = self.refusal(conn)? {
            return Ok(Err(refusal));
        }
        if let Some(update) = &self.update {
            runs::update(conn, run, update)?;
        }
        for payload in &self.payloads {
            let before = conn
                .prepare_cached("SELECT length(bytes) FROM payloads WHERE run = ?1 AND segment_id = ?2")?
                .query_row((run, &payload.segment_id), |row| row.get::<_, i64>(0))
                .optional()?;
            let more = i64::try_from(payload.bytes.len()).unwrap_or(i64::MAX) - before.unwrap_or(0);
            conn.prepare_cached("UPDATE runs SET bytes = bytes + ?2 WHERE id = ?1")?.execute((run, more))?;
            conn.prepare_cached(
                "INSERT INTO payloads (run, segment_id, content_type, bytes) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (run, segment_id)
                 DO UPDATE SET content_type = excluded.content_type, bytes = excluded.bytes",
            )?
            .execute((run, &payload.segment_id, &payload.content_type, &payload.bytes[..]))?;
        }
        if self.ends {
            conn.prepare_cached(
                "INSERT OR IGNORE INTO upkeep SELECT id FROM runs WHERE id = ?1 AND head - oldest + 1 >= ?2",
            )?
            .execute((run, upkeep::PACKED_FROM_FRAMES))?;
        }
        Ok(Ok(()))
    }

    /// Why nothing of this appender may be written, if that is so, and the run's head.
    fn refusal(&self, conn: &Connection) -> rusqlite::Result<(Option<AppendError>, u64)> {
        let (epoch, head, ended) = conn
            .prepare_cached("SELECT owner_epoch, head, ended_at IS NOT NULL FROM runs WHERE id = ?1")?
            .query_row([self.ownership.run], |row| {
                Ok((row.get::<_, i64>(0)?, from_sql(row.get(1)?), row.get::<_, bool>(2)?))
            })?;
        let refusal = if epoch != self.ownership.epoch {
            Some(AppendError::Fenced)
        } else if ended {
            Some(AppendError::Ended)
        } else {
            None
        };
        Ok((refusal, head))
    }
}

impl Work for AppendWork {
    fn apply(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.answer = match self.ticket.failed() {
            Some(error) => Err(error),
            None => self.write(conn)?,
        };
        Ok(())
    }

    fn settle(self: Box<Self>, committed: Result<(), StorageFailure>) {
        let AppendWork { entries, ends, live, upkeep, ticket, answer, .. } = *self;
        let answer = committed.map_err(AppendError::from).and(answer);
        if answer.is_ok() {
            live.publish(entries, ends);
            if let Some(upkeep) = upkeep {
                upkeep.wake();
            }
        }
        // Before the progress: who waits for the end of a run then finds it gone from memory.
        drop(live);
        ticket.settle(answer);
    }
}
