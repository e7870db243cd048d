//! A run's events in AG-UI, derived from its log as the log grows.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use runwire_agui::proto::ProtoEncoder;
use runwire_agui::{Event, SseEncoder, StateSnapshot};
use runwire_bridge::{Peer, Projection, StoredPayload, TEXT_PAYLOAD};
use runwire_frame::{Data, Frame};
use runwire_store::{Entry, Store, Tail, TailItem};
use serde_json::{Map, Value};

use crate::binding::Binding;
use crate::cursor::EventId;
use crate::event_stream::{Source, StreamError};

/// From so many bytes on, events wait until the reader has taken those before them.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// Which of a run's exchanges a reader wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of them, one after the other.
    WholeRun,
    /// The one with this AG-UI run id, from its start to its end.
    Exchange(String),
}

/// What there is to know of events beside the events.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The id of each event, in order.
    pub ids: Vec<EventId>,
    /// What the log says and no client can be told: the frame, and a sentence.
    pub left_out: Vec<(u64, String)>,
}

/// Reads a log from its first frame, because a projection is a function of the whole of it, and gives the events that
/// the reader has not had.
pub(crate) struct ProjectionSource {
    store: Store,
    run_id: Arc<str>,
    tail: Tail,
    projection: Projection,
    binding: Binding,
    scope: Scope,
    after: Option<EventId>,
    /// The last frame that is told; `None` for all that there will be.
    last: Option<u64>,
    /// What is noted of the events since it was taken last, for whoever wants to know.
    notes: Option<Notes>,
    /// Whether the reader's exchange is the one that the log is at.
    in_scope: bool,
    done: bool,
    /// Read from the tail and not projected yet. Kept here, with what was projected, so that `next` can be dropped at
    /// any await and called again.
    queue: VecDeque<Entry>,
    out: Vec<u8>,
}

impl ProjectionSource {
    /// `tail` has to be at the beginning of the log.
    pub(crate) fn new(
        store: Store,
        run_id: &str,
        tail: Tail,
        peer: Peer,
        binding: Binding,
        scope: Scope,
        after: Option<EventId>,
    ) -> ProjectionSource {
        ProjectionSource {
            store,
            run_id: run_id.into(),
            tail,
            projection: Projection::new(peer),
            binding,
            in_scope: scope == Scope::WholeRun,
            scope,
            after,
            last: None,
            notes: None,
            done: false,
            queue: VecDeque::new(),
            out: Vec::new(),
        }
    }

    /// Tells the log up to this frame, which is there, and waits for none behind it.
    pub(crate) fn up_to(mut self, last: u64) -> ProjectionSource {
        self.last = Some(last);
        self.done = last == 0;
        self
    }

    /// Notes where each event came from and what was not told. Whoever asks for this takes the notes after each `next`.
    pub(crate) fn with_notes(mut self) -> ProjectionSource {
        self.notes = Some(Notes::default());
        self
    }

    /// The notes on what the last `next` gave; none without [`ProjectionSource::with_notes`].
    pub(crate) fn take_notes(&mut self) -> Notes {
        self.notes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What was projected and not given out yet when `next` failed.
    pub(crate) fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.out).into()
    }

    /// The payload that the frame needs, if it needs one.
    async fn payload(&self, frame: &Frame) -> Result<Option<StoredPayload>, StreamError> {
        let Some(segment) = Projection::needs_payload(frame) else { return Ok(None) };
        if self.after.is_some_and(|after| frame.seq < after.seq) {
            // The reader has this event; only that there was one counts for what follows.
            return Ok(Some(StoredPayload { content_type: TEXT_PAYLOAD.to_owned(), bytes: Bytes::new() }));
        }
        let payload = self.store.payload(&self.run_id, segment.as_str()).await?;
        Ok(payload.map(|p| StoredPayload { content_type: p.content_type, bytes: p.bytes }))
    }

    fn project(&mut self, frame: &Frame, payload: Option<&StoredPayload>) -> Result<(), StreamError> {
        let mut events = self.projection.push(frame, payload)?;
        if self.scope == Scope::WholeRun {
            let first = matches!(frame.data, Data::RunStart(_));
            events.extend(state_to_start_from(&events, first));
        }
        for warning in self.projection.take_warnings() {
            match &mut self.notes {
                Some(notes) => notes.left_out.push((frame.seq, warning)),
                None => tracing::warn!(run_id = %self.run_id, warning, "an event was not told as the log has it"),
            }
        }
        let mut ended = false;
        for (n, event) in (0u32..).zip(&events) {
            if let (Scope::Exchange(id), Event::RunStarted(started)) = (&self.scope, event) {
                self.in_scope = started.run_id == *id;
            }
            if !self.in_scope {
                continue;
            }
            ended |= matches!(event, Event::RunFinished(_) | Event::RunError(_));
            let id = EventId { seq: frame.seq, n };
            if self.after.is_some_and(|after| id <= after) {
                continue;
            }
            if let Some(notes) = &mut self.notes {
                notes.ids.push(id);
            }
            match self.binding {
                Binding::Sse => {
                    SseEncoder::encode_agui(&mut self.out, Some(&id.to_string()), event);
                }
                Binding::Protobuf => ProtoEncoder::encode_event(&mut self.out, event)?,
            }
        }
        // A failure that surfaced after the run had finished is in the same frame, so nothing of the exchange is left.
        self.done |= ended && self.scope != Scope::WholeRun;
        self.done |= self.last.is_some_and(|last| frame.seq >= last);
        Ok(())
    }
}

/// The state that an exchange starts from, for readers who did not send it: the changes that follow are changes of that
/// (patterns/snapshots, "Deltas").
///
/// It comes behind all events of its frame, so that these have the same ids for whoever did send it. Where one of them says
/// the state already, that stands. The first exchange of a run starts from the empty object for readers, too.
fn state_to_start_from(events: &[Event], first: bool) -> Option<Event> {
    let told = events.iter().any(|event| matches!(event, Event::StateSnapshot(_) | Event::StateDelta(_)));
    let input = events.iter().find_map(|event| match event {
        Event::RunStarted(started) => started.input.as_ref(),
        _ => None,
    })?;
    let known = first && input.starting_state() == Value::Object(Map::new());
    let state = input.state.as_ref().filter(|_| !told && !known)?;
    Some(StateSnapshot::new(state.clone()).into())
}

impl Source for ProjectionSource {
    async fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        while !self.done {
            while let Some(entry) = self.queue.front() {
                let frame = Frame::decode(&entry.body())?;
                let payload = self.payload(&frame).await?;
                self.queue.pop_front();
                self.project(&frame, payload.as_ref())?;
                // What is behind a preview can be far larger than its frame, so a page of frames is no bound for what is
                // held for a reader that takes nothing (G8).
                if self.done || self.out.len() >= CHUNK_BYTES {
                    break;
                }
                // A cursor far into a long log passes over many frames without waiting for anything.
                tokio::task::consume_budget().await;
            }
            if !self.out.is_empty() {
                return Ok(Some(std::mem::take(&mut self.out).into()));
            }
            if !self.done {
                match self.tail.next().await? {
                    TailItem::Frames(entries) => self.queue.extend(entries),
                    TailItem::Ended => self.done = true,
                }
            }
        }
        let rest = std::mem::take(&mut self.out);
        Ok((!rest.is_empty()).then(|| rest.into()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use runwire_bridge::{Completion, Ending, LogState, Opening, Recorder, ToolOutput};
    use runwire_frame::{RunStart, Timestamp};
    use runwire_store::{Append, Created, NewFrame, NewPayload, NewRun, RunUpdate, StoreOptions};

    use super::*;

    const RESULT_BYTES: usize = 100 * 1024;
    const RESULTS: usize = 20;

    /// An ended run with results far larger than the frames that tell of them.
    async fn run_with_large_results(store: &Store) {
        let new = NewRun {
            run_id: "run_1".into(),
            agent_id: "a".into(),
            session_id: "s".into(),
            exchange_id: "e".into(),
            input_digest: String::new(),
            lane: "default".into(),
            status: "queued".into(),
            created_at: 0,
            principal: None,
            trigger_kind: "api".into(),
            agent_revision_id: None,
            parent_run_id: None,
            metadata: Value::Null,
            input: Value::Null,
        };
        assert!(matches!(store.create_run(new).await.unwrap(), Created::New(_)));
        let now = Timestamp::from_unix_millis(0);
        let start = RunStart {
            agent_id: "a".into(),
            agent_revision_id: None,
            session_id: Some("s".into()),
            lane: None,
            trigger_kind: None,
            attempt: 1,
            extra: Map::new(),
        };
        let mut recorder = Recorder::start(LogState::new("run_1"), now, start);
        for n in 0..RESULTS {
            let tool = recorder.open_tool(now, format!("call_{n}"), "t", Opening::default());
            recorder.arguments_complete(now, &tool, None);
            let whole = ToolOutput::Text("x".repeat(RESULT_BYTES));
            let tool = recorder.result(now, tool, true, &whole, None);
            recorder.end(now, tool, Ending::completed());
        }
        let recorded = recorder.complete(now, Completion::default());
        let frames = recorded.frames.iter().map(|f| NewFrame { seq: f.seq, body: f.encode() });
        let payloads = recorded.payloads.into_iter().map(|p| NewPayload {
            segment_id: p.segment_id.as_str().to_owned(),
            content_type: p.content_type.to_owned(),
            bytes: p.bytes,
        });
        let update = RunUpdate { ended_at: Some(0), ..RunUpdate::default() };
        let append = Append { frames: frames.collect(), update: Some(update), payloads: payloads.collect() };
        let mut appender = store.take_ownership("run_1").await.unwrap();
        appender.enqueue(append).unwrap();
        appender.progress().flush().await.unwrap();
    }

    #[tokio::test]
    async fn g8_what_is_held_for_a_reader_is_bounded_however_large_results_are() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("s.db"), StoreOptions::default()).unwrap();
        run_with_large_results(&store).await;
        let tail = store.tail("run_1", 0).await.unwrap();
        let scope = Scope::WholeRun;
        let mut source = ProjectionSource::new(store.clone(), "run_1", tail, Peer::Current, Binding::Sse, scope, None);
        let (mut total, mut largest) = (0, 0);
        while let Some(chunk) = source.next().await.unwrap() {
            total += chunk.len();
            largest = largest.max(chunk.len());
        }
        assert!(total > RESULTS * RESULT_BYTES, "every result arrives whole: {total} bytes");
        assert!(largest < CHUNK_BYTES + RESULT_BYTES + 1024, "{largest} bytes were held at once");
    }
}
