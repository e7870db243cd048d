//! Reads the history of a session from the logs of its runs, and keeps what cannot change any more.
//!
//! A log that is at rest (its run has ended, or waits) gives the same events for ever. So the fold of a session's first
//! runs is kept until a run after them is at rest too, and the next reader pays for what is new. The whole is read when
//! nothing is kept: the first time, after a restart, when it had to give way to others, and when a run of the fold went
//! on or was deleted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use runwire_agui::Event;
use runwire_bridge::{History, Peer, Projection, ProjectionError, StoredPayload, Surroundings, WaitingRun};
use runwire_frame::{Data, DecodeError, ErrorCode, Frame};
use runwire_store::{ReadError, RunRecord, SessionRecord, Store};

use crate::engine::Engine;

/// How many bytes of histories are kept, measured as they are written in JSON.
const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// How many frames are read at once.
const PAGE: usize = 1000;

/// A session and what is known of it now.
#[derive(Debug)]
pub struct KnownSession {
    /// Its record.
    pub session: SessionRecord,
    /// The runs that the reader may see, in the order of their creation.
    pub runs: Vec<RunRecord>,
    /// What they come to.
    pub history: Arc<History>,
    /// The exchanges that were left out because they are not over, in the order of their runs' creation.
    pub live: Vec<Place>,
}

/// An exchange: the run, and a frame of it that belongs to the exchange. 0 is the beginning of a run that has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The run.
    pub run_id: String,
    /// A frame of it.
    pub seq: u64,
}

/// Which exchanges are left out of a history.
#[derive(Clone, Copy, Debug)]
pub enum Without<'a> {
    /// None: what was said so far counts.
    Nothing,
    /// Those that are not over.
    Live,
    /// Those of these places and, of all other runs, those that are not over.
    These(&'a [Place]),
}

/// What a run's log says of its last exchange.
enum Course {
    Over,
    Waiting,
    Live(u64),
}

impl Engine {
    /// The session as whoever sees the runs of `principal` sees it, or all runs where that is `None`. Nothing when there is no such
    /// session, or none of theirs: the two are told alike.
    ///
    /// A run whose log cannot be read counts up to where it can: it takes nothing from the other runs.
    ///
    /// # Errors
    /// When the store cannot be read. Dropping the future changes nothing.
    pub async fn known_session(
        &self,
        principal: Option<&str>,
        session_id: &str,
        without: Without<'_>,
    ) -> Result<Option<KnownSession>, ReadError> {
        let store = self.store();
        let theirs = |owner: Option<&str>| principal.is_none() || owner == principal;
        let session = store.session(session_id).await?.filter(|session| theirs(session.principal.as_deref()));
        let Some(session) = session else { return Ok(None) };
        let mut runs: Vec<RunRecord> = Vec::new();
        loop {
            let after = runs.last().map(|run| run.run_id.as_str());
            let more = store.session_runs(session_id, after).await?;
            if more.is_empty() {
                break;
            }
            runs.extend(more);
        }
        runs.retain(|run| theirs(run.principal.as_deref()));

        let kept = self.histories();
        let key = (session_id.to_owned(), principal.map(str::to_owned));
        let left_out = |run: &RunRecord| match without {
            Without::These(places) => places.iter().find(|place| place.run_id == run.run_id),
            Without::Nothing | Without::Live => None,
        };
        let whole: Vec<&RunRecord> = runs.iter().take_while(|run| left_out(run).is_none()).collect();
        let (mut rested, start) = kept.get(&key, &whole).unwrap_or_default();
        let was_kept = rested.len();
        if was_kept == runs.len() {
            return Ok(Some(KnownSession { session, runs, history: start, live: Vec::new() }));
        }
        let mut history = Arc::unwrap_or_clone(start);
        let mut live = Vec::new();
        // Only a row of runs at rest is kept, from the first on: what follows another run is told after it.
        let mut in_row = true;
        for run in &runs[was_kept..] {
            let before = (in_row && run.ended_at.is_none()).then(|| history.clone());
            let read = read(store, run, &mut history, without, left_out(run)).await?;
            let rests = matches!(read.course, Course::Over | Course::Waiting) && left_out(run).is_none();
            if in_row && !rests {
                in_row = false;
                if rested.len() > was_kept
                    && let Some(before) = before
                {
                    kept.put(key.clone(), std::mem::take(&mut rested), Arc::new(before));
                }
            } else if in_row {
                rested.push((run.run_id.clone(), read.head));
            }
            if let Course::Live(seq) = read.course {
                live.push(Place { run_id: run.run_id.clone(), seq });
            }
        }
        let history = Arc::new(history);
        if in_row && rested.len() > was_kept {
            kept.put(key, rested, history.clone());
        }
        Ok(Some(KnownSession { session, runs, history, live }))
    }
}

/// How far a run was read, and what its last exchange is like.
struct Read {
    course: Course,
    head: u64,
}

/// Adds a run to the history.
async fn read(
    store: &Store,
    run: &RunRecord,
    history: &mut History,
    without: Without<'_>,
    left_out: Option<&Place>,
) -> Result<Read, ReadError> {
    let mut reading = Reading {
        run,
        projection: Projection::new(Peer::Current),
        around: None,
        first: None,
        // Of a run that has ended no exchange is taken back, so nothing has to be remembered for it.
        before: (run.ended_at.is_none() && !matches!(without, Without::Nothing) || left_out.is_some())
            .then(|| (history.clone(), 0)),
        head: 0,
        over: false,
    };
    let last = left_out.map_or(u64::MAX, |place| place.seq);
    let outcome = reading.all(store, history, last).await;
    let Reading { around, before, head, over, .. } = reading;
    match outcome {
        Err(Unreadable::Read(ReadError::Storage(failure))) => return Err(failure.into()),
        Err(error) => {
            tracing::error!(run_id = %run.run_id, %error, "the log of a run cannot be read; what was read of it is told");
            return Ok(Read { course: Course::Over, head });
        }
        Ok(()) => {}
    }
    let in_exchange = around.is_some();
    let course = if let Some(place) = left_out {
        let (earlier, seq) = before.unwrap_or_default();
        *history = earlier;
        Course::Live(if place.seq == 0 { 0 } else { seq })
    } else if over || run.ended_at.is_some() {
        Course::Over
    } else if in_exchange || head == 0 {
        if let (Without::Live | Without::These(_), Some((earlier, seq))) = (without, before) {
            *history = earlier;
            Course::Live(seq)
        } else {
            Course::Live(0)
        }
    } else {
        let interrupts = history.interrupts().to_vec();
        if interrupts.is_empty() {
            Course::Over
        } else {
            history.wait_for(WaitingRun { run_id: run.run_id.clone(), agent_id: run.agent_id.clone(), interrupts });
            Course::Waiting
        }
    };
    Ok(Read { course, head })
}

/// Why a run's log was not read on.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Projection(#[from] ProjectionError),
}

struct Reading<'a> {
    run: &'a RunRecord,
    projection: Projection,
    /// While an exchange is not over.
    around: Option<Surroundings>,
    /// The same of the run's first exchange, once that is over. What is to be withheld of the run goes back to there.
    first: Option<Surroundings>,
    /// The history before the exchange that the log is at, and the frame that began the exchange.
    before: Option<(History, u64)>,
    head: u64,
    /// Whether the run has ended.
    over: bool,
}

impl Reading<'_> {
    /// Reads the log up to a frame.
    async fn all(&mut self, store: &Store, history: &mut History, last: u64) -> Result<(), Unreadable> {
        while self.head < last {
            let entries = store.read(&self.run.run_id, self.head, PAGE).await?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                if entry.seq() > last {
                    return Ok(());
                }
                self.head = entry.seq();
                let frame = Frame::decode(&entry.body())?;
                let payload = stored_payload(store, &frame).await?;
                for event in self.projection.push(&frame, payload.as_ref())? {
                    self.take(&frame, event, history);
                }
                if let Data::RunEnd(end) = &frame.data {
                    self.over = true;
                    if end.failure_class.as_deref() == Some(ErrorCode::GuardrailBlocked.as_str())
                        && let Some(first) = &self.first
                    {
                        history.withhold(first);
                    }
                }
                // A long log is passed over without waiting for anything.
                tokio::task::consume_budget().await;
            }
        }
        Ok(())
    }

    fn take(&mut self, frame: &Frame, event: Event, history: &mut History) {
        if let Event::RunStarted(started) = &event {
            if let Some(before) = &mut self.before {
                *before = (history.clone(), frame.seq);
            }
            self.around = Some(history.begin(started, self.projection.asked()));
            return;
        }
        let ended = matches!(event, Event::RunFinished(_) | Event::RunError(_));
        let event = match &self.around {
            Some(around) => around.complete(frame, event),
            None => event,
        };
        history.apply(event);
        if ended && let Some(around) = self.around.take() {
            self.first.get_or_insert(around);
        }
    }
}

/// The payload that a [`Projection`] needs together with the frame, if it needs one.
///
/// # Errors
/// When the store cannot be read.
pub async fn stored_payload(store: &Store, frame: &Frame) -> Result<Option<StoredPayload>, ReadError> {
    let Some(segment) = Projection::needs_payload(frame) else { return Ok(None) };
    let payload = store.payload(&frame.run_id, segment.as_str()).await?;
    Ok(payload.map(|p| StoredPayload { content_type: p.content_type, bytes: p.bytes }))
}

/// Whose view of which session.
type Key = (String, Option<String>);

/// Runs at rest, each with its last frame.
type Rested = Vec<(String, u64)>;

/// Histories of the runs at rest that their sessions begin with, as far as there is room. Bounded by [`KEPT_BYTES`]; the
/// one that was asked for least recently goes first.
#[derive(Default)]
pub(crate) struct Histories {
    kept: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    sessions: HashMap<Key, Kept>,
    bytes: usize,
    /// Counts the times that something was asked for.
    asked: u64,
}

struct Kept {
    rested: Rested,
    history: Arc<History>,
    bytes: usize,
    asked: u64,
}

impl Histories {
    /// The history of the first of these runs, if it is kept and each of them is as it was.
    fn get(&self, key: &Key, runs: &[&RunRecord]) -> Option<(Rested, Arc<History>)> {
        let mut shelf = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.asked += 1;
        let asked = shelf.asked;
        let kept = shelf.sessions.get_mut(key)?;
        let same = |(rested, run): (&(String, u64), &&RunRecord)| rested.0 == run.run_id && rested.1 == run.head;
        if kept.rested.len() > runs.len() || !kept.rested.iter().zip(runs).all(same) {
            return None;
        }
        kept.asked = asked;
        Some((kept.rested.clone(), kept.history.clone()))
    }

    fn put(&self, key: Key, rested: Rested, history: Arc<History>) {
        let ids: usize = rested.iter().map(|(id, _)| id.len() + 8).sum();
        // The key is there twice while it is looked for, and an empty history takes room as well.
        let bytes = history.size() + ids + 2 * (key.0.len() + key.1.as_ref().map_or(0, String::len)) + 256;
        if bytes > KEPT_BYTES {
            return;
        }
        let mut shelf = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = shelf.asked;
        if let Some(replaced) = shelf.sessions.insert(key, Kept { rested, history, bytes, asked }) {
            shelf.bytes -= replaced.bytes;
        }
        shelf.bytes += bytes;
        while shelf.bytes > KEPT_BYTES {
            let Some(oldest) = shelf.sessions.iter().min_by_key(|(_, kept)| kept.asked).map(|(key, _)| key.clone())
            else {
                break;
            };
            if let Some(gone) = shelf.sessions.remove(&oldest) {
                shelf.bytes -= gone.bytes;
            }
        }
    }
}
