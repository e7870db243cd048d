//! A run's events in AG-UI, derived from its log as the log grows.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use runwire_agui::proto::ProtoEncoder;
use runwire_agui::{Event, SseEncoder};
use runwire_bridge::{Peer, Projection, StoredPayload};
use runwire_frame::Frame;
use runwire_store::{Entry, Store, Tail, TailItem};

use crate::binding::Binding;
use crate::cursor::EventId;
use crate::event_stream::{Source, StreamError};

/// Which of a run's exchanges a reader wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of them, one after the other.
    WholeRun,
    /// The one with this AG-UI run id, from its start to its end.
    Exchange(String),
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
            done: false,
            queue: VecDeque::new(),
            out: Vec::new(),
        }
    }

    /// The payload that the frame needs, if it needs one.
    async fn payload(&self, frame: &Frame) -> Result<Option<StoredPayload>, StreamError> {
        let Some(segment) = Projection::needs_payload(frame) else { return Ok(None) };
        let payload = self.store.payload(&self.run_id, segment.as_str()).await?;
        Ok(payload.map(|p| StoredPayload { content_type: p.content_type, bytes: p.bytes }))
    }

    fn project(&mut self, frame: &Frame, payload: Option<&StoredPayload>) -> Result<(), StreamError> {
        let events = self.projection.push(frame, payload)?;
        for warning in self.projection.take_warnings() {
            tracing::warn!(run_id = %self.run_id, warning, "an event was reshaped for an older client");
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
            match self.binding {
                Binding::Sse => {
                    SseEncoder::encode_event(&mut self.out, Some(&id.to_string()), &event.to_json_string());
                }
                Binding::Protobuf => ProtoEncoder::encode_event(&mut self.out, event)?,
            }
        }
        // A failure that surfaced after the run had finished is in the same frame, so nothing of the exchange is left.
        self.done |= ended && self.scope != Scope::WholeRun;
        Ok(())
    }
}

impl Source for ProjectionSource {
    async fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        while !self.done {
            while let Some(entry) = self.queue.front() {
                let frame = Frame::decode(&entry.body())?;
                let payload = self.payload(&frame).await?;
                self.queue.pop_front();
                self.project(&frame, payload.as_ref())?;
                if self.done {
                    break;
                }
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
