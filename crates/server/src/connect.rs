//! `POST /agui/{agent}/connect`: a thread so far, as snapshots, and then what is going on in it, from its start.
//!
//! The stream is a row of AG-UI runs: one that restates the thread, where there is nothing else to restate it in; each
//! exchange that is not over, with the thread restated behind its RUN_STARTED; and one that says what waits for an answer,
//! where the exchange before has not said it. So it is a conforming stream whatever became of the thread's runs.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use runwire_agui::proto::ProtoEncoder;
use runwire_agui::{Declaration, Event, RunAgentInput, RunFinishedOutcome, SseEncoder};
use runwire_bridge::{History, Peer, Projection, Surroundings};
use runwire_engine::{KnownSession, Place, Without, stored_payload};
use runwire_frame::Frame;
use runwire_store::{Entry, ReadError, Tail, TailError, TailItem};

use crate::app::App;
use crate::auth::Principal;
use crate::binding::{Accepted, Binding};
use crate::connect_cursor::{At, ConnectCursor};
use crate::cursor::{CursorQuery, EventId};
use crate::event_stream::{Source, StreamError};
use crate::history::{as_a_run, for_peer, messages_event, state_event};
use crate::openness::{Checked, JsonBody};
use crate::problem::Problem;
use crate::runs::posted_input;
use crate::{agui, projection_stream};

/// `POST /agui/{agent}/connect`
pub(crate) async fn connect(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(agent_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let (accepted, cursor) = (Accepted::of(&headers), query.connect_cursor(&headers)?);
    let input = posted_input(&body)?;
    let peer = Declaration::of(input.protocol_version.as_deref()).peer();
    begin(&app, principal, Mounting { agent_id, input, cursor, accepted, peer }).await
}

/// A page that wants to hold a thread, and how it is to be told of it.
pub(crate) struct Mounting {
    pub agent_id: String,
    pub input: RunAgentInput,
    /// How far it has come in an answer before.
    pub cursor: Option<ConnectCursor>,
    pub accepted: Accepted,
    pub peer: Peer,
}

/// The thread so far, and then what goes on in it.
pub(crate) async fn begin(app: &App, principal: Principal, mounting: Mounting) -> Result<Response, Problem> {
    let Mounting { agent_id, input, cursor, accepted, peer } = mounting;
    if !app.engine().agents().contains_key(&agent_id) {
        return Err(Problem::agent_not_found(&agent_id));
    }
    let binding = accepted.binding(peer, cursor.is_some());
    let reader = Reader { app: app.clone(), principal, session_id: input.thread_id, agent_id, run_id: input.run_id };

    let places = cursor.as_ref().map(ConnectCursor::places);
    let known = match &places {
        None => reader.known(Without::Live).await?,
        Some(places) => reader.known(Without::These(places)).await?,
    };
    if let Some(places) = &places {
        check(places, known.as_ref())?;
    }
    let source = ConnectSource::new(reader, peer, binding, known, cursor);
    let first = source.plan.front().map(|place| place.run_id.clone());
    Ok(agui::answer(app, binding, source, first))
}

/// A cursor is a place in what this thread has sent (G7). Somebody else's thread has sent nothing.
fn check(places: &[Place], known: Option<&KnownSession>) -> Result<(), Problem> {
    for place in places {
        let run = known.and_then(|known| known.runs.iter().find(|run| run.run_id == place.run_id));
        match run {
            None => return Err(Problem::past_head(0)),
            Some(run) if place.seq > run.head => return Err(Problem::past_head(run.head)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Who reads which thread, through which agent.
#[derive(Clone)]
struct Reader {
    app: App,
    principal: Principal,
    session_id: String,
    agent_id: String,
    /// What the request calls itself. The runs that only restate are called so, because they answer it and no other.
    run_id: String,
}

impl Reader {
    async fn known(&self, without: Without<'_>) -> Result<Option<KnownSession>, ReadError> {
        self.app.known_session(&self.principal, &self.session_id, without).await
    }
}

/// What a row of runs is at.
enum Stage {
    /// The run that restates the thread; the number of its events that are left out because the reader has them.
    Restating(Arc<History>, u32),
    /// What the next exchange of the plan needs is being read. Kept, so that `next` can be dropped and called again.
    Approaching(BoxFuture<'static, Result<Option<Approached>, StreamError>>),
    /// An exchange that is not over, or was not when the reader came.
    Exchange(Box<Exchange>),
    /// Finding out what waits for an answer, and which run said so last.
    Concluding(BoxFuture<'static, Result<Option<Arc<History>>, StreamError>>, Option<String>),
    /// The run that says what waits, without so many of its events.
    Waiting(Arc<History>, u32),
    Over,
}

/// An exchange, ready to be read.
struct Approached {
    history: Arc<History>,
    place: Place,
    tail: Tail,
}

struct Exchange {
    place: Place,
    history: Arc<History>,
    tail: Tail,
    projection: Projection,
    queue: VecDeque<Entry>,
    around: Option<Surroundings>,
    /// What the reader has of it.
    after: Option<(EventId, u32)>,
    ended: bool,
    /// Whether it ended by asking for an answer.
    asks: bool,
}

/// A whole answer to `connect`, event by event.
struct ConnectSource {
    reader: Reader,
    peer: Peer,
    binding: Binding,
    /// Exchanges still to be told, the first of them perhaps under way.
    plan: VecDeque<Place>,
    /// What the reader has of the first of them.
    after: Option<(EventId, u32)>,
    stage: Stage,
    /// Whether an answer was waited for when the reader came.
    concludes: bool,
    out: Vec<u8>,
}

impl ConnectSource {
    fn new(
        reader: Reader,
        peer: Peer,
        binding: Binding,
        known: Option<KnownSession>,
        cursor: Option<ConnectCursor>,
    ) -> ConnectSource {
        let (history, live, begun) = match known {
            Some(known) => {
                let begun = known.live.first().is_some_and(|place| place.seq > 0);
                (known.history, known.live, begun)
            }
            None => (Arc::default(), Vec::new(), false),
        };
        let concludes = history.answerable(&reader.agent_id).is_some();
        let at = cursor.as_ref().map(|cursor| cursor.at.clone());
        // A cursor says what is left; what has begun since belongs to another request.
        let plan: VecDeque<Place> = match &cursor {
            None => live.into(),
            Some(cursor) => {
                let left = cursor.places();
                left.iter().map(|l| live.iter().find(|p| p.run_id == l.run_id).unwrap_or(l).clone()).collect()
            }
        };
        let mut source =
            ConnectSource { reader, peer, binding, plan, after: None, stage: Stage::Over, concludes, out: Vec::new() };
        match at {
            // The thread is restated inside of the first exchange, unless that has not begun or there is none.
            None if begun => source.advance(None),
            None => source.stage = Stage::Restating(history, 0),
            Some(At::Restated(n)) => source.stage = Stage::Restating(history, n + 1),
            Some(At::Event { id, restated, .. }) => {
                source.after = Some((id, restated));
                source.advance(None);
            }
            Some(At::Waiting(n)) => source.stage = Stage::Waiting(history, n + 1),
        }
        source
    }

    /// Goes on to the next exchange of the plan, or to the conclusion. `told` is the run that was told last.
    fn advance(&mut self, told: Option<String>) {
        let reader = self.reader.clone();
        if let Some(place) = self.plan.front() {
            let (left, place) = (Vec::from(self.plan.clone()), place.clone());
            self.stage = Stage::Approaching(Box::pin(async move {
                let known = reader.known(Without::These(&left)).await?;
                let Some(known) = known else { return Ok(None) };
                let tail = match reader.app.store().tail(&place.run_id, 0).await {
                    Ok(tail) => tail,
                    // A run that was deleted meanwhile has nothing left to tell.
                    Err(TailError::UnknownRun | TailError::Gone { .. }) => return Ok(None),
                    Err(error) => return Err(error.into()),
                };
                let found = known.live.iter().find(|live| live.run_id == place.run_id);
                let place = found.cloned().unwrap_or(place);
                Ok(Some(Approached { history: known.history, place, tail }))
            }));
        } else if self.concludes {
            self.concludes = false;
            let reading = async move {
                let known = reader.known(Without::Live).await?;
                Ok(known.map(|known| known.history))
            };
            self.stage = Stage::Concluding(Box::pin(reading), told);
        } else {
            self.stage = Stage::Over;
        }
    }

    /// Writes an event; `at` is its place, and what the plan holds beside it is added.
    fn write(&mut self, event: Event, at: At) -> Result<(), StreamError> {
        let event = for_peer(event, self.peer);
        match self.binding {
            Binding::Sse => {
                let left = match &at {
                    At::Event { .. } => 1,
                    At::Restated(_) | At::Waiting(_) => 0,
                };
                let later = self.plan.iter().skip(left).cloned().collect();
                let id = ConnectCursor { at, later }.to_string();
                SseEncoder::encode_event(&mut self.out, Some(&id), &event.to_json_string());
            }
            Binding::Protobuf => ProtoEncoder::encode_event(&mut self.out, &event)?,
        }
        Ok(())
    }

    /// A run that holds nothing but what is known already: the thread, or only what waits for an answer.
    fn restate(&mut self, history: &History, whole: bool, has: u32) -> Result<(), StreamError> {
        // What waits is said behind the last exchange, and here only if none follows.
        let waits = self.plan.is_empty().then_some(&*self.reader.agent_id);
        let Reader { session_id, run_id, .. } = &self.reader;
        let [started, messages, state, finished] = as_a_run(history, session_id, run_id, waits, self.peer);
        let events = [started, messages.filter(|_| whole), state.filter(|_| whole), finished];
        for (n, event) in (0u32..).zip(events) {
            if let Some(event) = event
                && n >= has
            {
                self.write(event, if whole { At::Restated(n) } else { At::Waiting(n) })?;
            }
        }
        Ok(())
    }

    /// Tells what the frame says, if it is of the exchange and the reader does not have it.
    fn tell(&mut self, exchange: &mut Exchange, frame: &Frame, events: Vec<Event>) -> Result<(), StreamError> {
        for (n, event) in (0u32..).zip(events) {
            let id = EventId { seq: frame.seq, n };
            let mut restated = Vec::new();
            let event = match (event, &exchange.around) {
                (Event::RunStarted(mut started), None) if frame.seq >= exchange.place.seq => {
                    // It is wanted once, and what others share is not held for as long as the exchange takes.
                    let mut history = Arc::unwrap_or_clone(std::mem::take(&mut exchange.history));
                    exchange.around = Some(history.begin(&started, exchange.projection.asked()));
                    if exchange.after < Some((id, 2)) {
                        restated = vec![(1, messages_event(&history, self.peer)), (2, state_event(&history))];
                    }
                    // The restatement says it all, and in order: a client takes an echo's messages for the first ones.
                    started.input = None;
                    Event::RunStarted(started)
                }
                (event, Some(around)) => around.complete(frame, event),
                (_, None) => continue,
            };
            exchange.ended |= matches!(event, Event::RunFinished(_) | Event::RunError(_));
            exchange.asks |= matches!(
                &event,
                Event::RunFinished(finished) if matches!(finished.outcome, Some(RunFinishedOutcome::Interrupt { .. }))
            );
            let run_id = exchange.place.run_id.clone();
            for (restated, event) in std::iter::once((0, Some(event))).chain(restated) {
                if let Some(event) = event
                    && exchange.after < Some((id, restated))
                {
                    self.write(event, At::Event { run_id: run_id.clone(), id, restated })?;
                }
            }
        }
        Ok(())
    }

    /// One step further: some events, or a wait, or a change of the stage.
    async fn step(&mut self) -> Result<(), StreamError> {
        match &mut self.stage {
            Stage::Restating(history, has) => {
                let (history, has) = (history.clone(), *has);
                self.restate(&history, true, has)?;
                // It has said what waits, unless exchanges follow.
                self.concludes &= !self.plan.is_empty();
                self.advance(None);
            }
            Stage::Approaching(reading) => match reading.await? {
                Some(Approached { history, place, tail }) => {
                    let exchange = Exchange {
                        place,
                        history,
                        tail,
                        projection: Projection::new(self.peer),
                        queue: VecDeque::new(),
                        around: None,
                        after: self.after.take(),
                        ended: false,
                        asks: false,
                    };
                    self.stage = Stage::Exchange(Box::new(exchange));
                }
                None => {
                    self.plan.pop_front();
                    self.after = None;
                    self.advance(None);
                }
            },
            Stage::Exchange(exchange) => {
                if exchange.ended {
                    // What it asked for has to be said again behind the exchanges that follow: each takes it back.
                    self.concludes |= exchange.asks;
                    let told = self.plan.pop_front().map(|place| place.run_id);
                    self.advance(told);
                    return Ok(());
                }
                let Some(entry) = exchange.queue.front() else {
                    match exchange.tail.next().await? {
                        TailItem::Frames(entries) => exchange.queue.extend(entries),
                        TailItem::Ended => exchange.ended = true,
                    }
                    return Ok(());
                };
                let frame = Frame::decode(&entry.body())?;
                let payload = stored_payload(&self.reader.app.store().clone(), &frame).await?;
                exchange.queue.pop_front();
                let events = exchange.projection.push(&frame, payload.as_ref())?;
                for warning in exchange.projection.take_warnings() {
                    tracing::warn!(run_id = %frame.run_id, warning, "an event was reshaped for an older client");
                }
                let Stage::Exchange(mut exchange) = std::mem::replace(&mut self.stage, Stage::Over) else {
                    return Ok(());
                };
                self.tell(&mut exchange, &frame, events)?;
                self.stage = Stage::Exchange(exchange);
                tokio::task::consume_budget().await;
            }
            Stage::Concluding(reading, told) => {
                let history = reading.await?;
                let said = told.take();
                self.stage = match history {
                    Some(history)
                        if history
                            .answerable(&self.reader.agent_id)
                            .is_some_and(|waiting| said.as_ref() != Some(&waiting.run_id)) =>
                    {
                        Stage::Waiting(history, 0)
                    }
                    _ => Stage::Over,
                };
            }
            Stage::Waiting(history, has) => {
                let (history, has) = (history.clone(), *has);
                self.restate(&history, false, has)?;
                self.stage = Stage::Over;
            }
            Stage::Over => {}
        }
        Ok(())
    }
}

impl Source for ConnectSource {
    async fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        // Events that are there go out before anything is waited for.
        while !matches!(self.stage, Stage::Over) && self.out.len() < projection_stream::CHUNK_BYTES {
            if !self.out.is_empty() && self.would_wait() {
                break;
            }
            self.step().await?;
        }
        let out = std::mem::take(&mut self.out);
        Ok((!out.is_empty()).then(|| out.into()))
    }
}

impl ConnectSource {
    /// Whether the next step may take time.
    fn would_wait(&self) -> bool {
        match &self.stage {
            Stage::Approaching(_) | Stage::Concluding(..) => true,
            Stage::Exchange(exchange) => exchange.queue.is_empty() && !exchange.ended,
            Stage::Restating(..) | Stage::Waiting(..) | Stage::Over => false,
        }
    }
}
